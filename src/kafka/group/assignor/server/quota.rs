//! How many assignments each member of a share group is to get.
//!
//! Kafka multiplies a fraction in double precision and rounds up; what that gives, an integer now and then off the exact
//! one, is found here with integers.
//!
//! **Invariant:** numbers are rounded to 53 bits, half to even, as IEEE 754 does.

/// A positive number: `mantissa` times two to the power of `exponent`; zero has the mantissa zero.
#[derive(Clone, Copy)]
struct Double {
    mantissa: u64,
    exponent: i32,
}

const BITS: u32 = 53;

impl Double {
    /// The nearest one to `value` times two to the power of `exponent`; `more` says that the value is a little larger.
    fn round(value: u128, exponent: i32, more: bool) -> Double {
        let excess = (u128::BITS - value.leading_zeros()).saturating_sub(BITS);
        let (kept, lost) = (value >> excess, value & ((1 << excess) - 1));
        let half = if excess == 0 { 0 } else { 1 << (excess - 1) };
        let up = excess > 0 && (lost > half || lost == half && (more || kept & 1 == 1));
        Double { mantissa: (kept + u128::from(up)) as u64, exponent: exponent + excess as i32 }
    }

    fn quotient(dividend: u64, divisor: u64) -> Double {
        const SHIFT: i32 = 64;
        let (dividend, divisor) = (u128::from(dividend) << SHIFT, u128::from(divisor));
        Double::round(dividend / divisor, -SHIFT, dividend % divisor > 0)
    }

    fn times(self, factor: u64) -> Double {
        Double::round(u128::from(self.mantissa) * u128::from(factor), self.exponent, false)
    }

    fn ceil(self) -> u64 {
        let mantissa = u128::from(self.mantissa);
        match u32::try_from(-self.exponent) {
            Ok(fraction) => ((mantissa + (1 << fraction) - 1) >> fraction) as u64,
            Err(_) => (mantissa << self.exponent) as u64,
        }
    }
}

/// The numbers of `members` members that share `assignments` among them. Both are below 2^31.
pub(super) fn shares(assignments: u64, members: u64) -> impl Iterator<Item = u64> {
    let each = Double::quotient(assignments, members);
    (0..members).map(move |member| each.times(member + 1).ceil() - each.times(member).ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often double precision and exact fractions differ, and a digest of all numbers, were computed by IEEE doubles.
    #[test]
    fn numbers_are_rounded_as_in_double_precision_r_share_2() {
        let (mut different, mut digest) = (0, 0u64);
        for assignments in (0..400).chain([1_000_003, 2_000_000_011]) {
            for members in 1..300 {
                let each = Double::quotient(assignments, members);
                for factor in 0..=members {
                    let ceil = each.times(factor).ceil();
                    different += u32::from(ceil != (assignments * factor).div_ceil(members));
                    digest = digest.wrapping_mul(31).wrapping_add(ceil);
                }
            }
        }
        assert_eq!((different, digest), (9051, 15_240_654_889_830_581_754));
        assert_eq!(shares(3, 187).sum::<u64>(), 4, "the last member's sum is rounded up");
        assert_eq!(shares(7, 3).collect::<Vec<_>>(), [3, 2, 2]);
    }
}
