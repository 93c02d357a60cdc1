//! Java's `float` without any: single precision in whole numbers, so that estimates of sizes are Kafka's to the byte on
//! every machine. Only what those need: numbers from 0 on that are far from the greatest and the smallest.
//!
//! **Invariant:** each operation is exact, then rounded once, half to even, as IEEE 754 has it.

use std::cmp::Ordering;

/// Bits of a mantissa.
const PRECISION: u32 = 24;

/// `mantissa * 2^exponent`; of a number other than 0 the mantissa has all its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JavaFloat {
    mantissa: u32,
    exponent: i32,
}

impl JavaFloat {
    pub const ONE: JavaFloat = JavaFloat::from_bits(0x3f80_0000);

    /// What `Float.intBitsToFloat` gives for a number that is normal and not below 0.
    pub const fn from_bits(bits: u32) -> JavaFloat {
        JavaFloat {
            mantissa: (bits & 0x007f_ffff) | 0x0080_0000,
            exponent: (bits >> 23) as i32 - 127 - (PRECISION as i32 - 1),
        }
    }

    /// The nearest to a whole number from 0 on.
    pub fn of(number: i32) -> JavaFloat {
        JavaFloat::rounded(u128::try_from(number).expect("not below 0"), 0)
    }

    /// The nearest to `value * 2^exponent`.
    fn rounded(value: u128, exponent: i32) -> JavaFloat {
        let excess = (u128::BITS - value.leading_zeros()).saturating_sub(PRECISION);
        let (mut mantissa, rest) = (value >> excess, value & ((1 << excess) - 1));
        let half = if excess == 0 { 1 } else { 1 << (excess - 1) };
        if rest > half || rest == half && mantissa & 1 == 1 {
            mantissa += 1;
        }
        JavaFloat { mantissa: mantissa as u32, exponent: exponent + excess as i32 }.normalized()
    }

    fn normalized(self) -> JavaFloat {
        match self.mantissa {
            0 => JavaFloat { mantissa: 0, exponent: 0 },
            // Rounding up may have filled one bit more.
            mantissa if mantissa >> PRECISION != 0 => {
                JavaFloat { mantissa: mantissa >> 1, exponent: self.exponent + 1 }
            }
            mantissa => {
                let shift = mantissa.leading_zeros() - (u32::BITS - PRECISION);
                JavaFloat { mantissa: mantissa << shift, exponent: self.exponent - shift as i32 }
            }
        }
    }

    pub fn times(self, other: JavaFloat) -> JavaFloat {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        JavaFloat::rounded(product, self.exponent + other.exponent)
    }

    /// Panics if `other` is 0.
    pub fn over(self, other: JavaFloat) -> JavaFloat {
        const SHIFT: u32 = 64;
        let (above, below) = (u128::from(self.mantissa) << SHIFT, u128::from(other.mantissa));
        // What is left of the division only matters for which way a half is rounded.
        let sticky = u128::from(!above.is_multiple_of(below));
        JavaFloat::rounded((above / below) << 1 | sticky, self.exponent - other.exponent - SHIFT as i32 - 1)
    }

    pub fn plus(self, other: JavaFloat) -> JavaFloat {
        let (a, b, exponent) = aligned(self, other);
        JavaFloat::rounded(a + b, exponent)
    }

    /// 0 if `other` is greater.
    pub fn minus(self, other: JavaFloat) -> JavaFloat {
        let (a, b, exponent) = aligned(self, other);
        JavaFloat::rounded(a.saturating_sub(b), exponent)
    }

    /// The whole part, as a cast to int.
    pub fn to_int(self) -> i32 {
        let shift = self.exponent.unsigned_abs();
        let whole = match self.exponent {
            0.. => u128::from(self.mantissa) << shift.min(100),
            _ => u128::from(self.mantissa).checked_shr(shift).unwrap_or(0),
        };
        i32::try_from(whole).unwrap_or(i32::MAX)
    }
}

/// Both mantissas at the lower of the two exponents.
fn aligned(a: JavaFloat, b: JavaFloat) -> (u128, u128, i32) {
    let exponent = match (a.mantissa, b.mantissa) {
        (0, _) => b.exponent,
        (_, 0) => a.exponent,
        _ => a.exponent.min(b.exponent),
    };
    let at = |float: JavaFloat| {
        let shift = (float.exponent - exponent).max(0);
        assert!(shift <= 100, "numbers of like size");
        u128::from(float.mantissa) << shift
    };
    (at(a), at(b), exponent)
}

impl PartialOrd for JavaFloat {
    fn partial_cmp(&self, other: &JavaFloat) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for JavaFloat {
    fn cmp(&self, other: &JavaFloat) -> Ordering {
        let (a, b, _) = aligned(*self, *other);
        a.cmp(&b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations that a machine with floats carried out.
    const CARRIED_OUT: &[(char, u32, u32, u32)] = &[
        ('*', 0x4680_0000, 0x3f86_6666, 0x4686_6666),
        ('+', 0x4680_0000, 0x3f86_6666, 0x4680_021a),
        ('-', 0x4680_0000, 0x3f86_6666, 0x467f_fbcd),
        ('/', 0x4680_0000, 0x3f86_6666, 0x4673_cf3e),
        ('*', 0x42c8_0000, 0x3f86_6666, 0x42d1_ffff),
        ('+', 0x42c8_0000, 0x3f86_6666, 0x42ca_199a),
        ('-', 0x42c8_0000, 0x3f86_6666, 0x42c5_e666),
        ('/', 0x42c8_0000, 0x3f86_6666, 0x42be_79e8),
        ('*', 0x467a_0000, 0x3f86_6666, 0x4683_4000),
        ('+', 0x467a_0000, 0x3f86_6666, 0x467a_0433),
        ('-', 0x467a_0000, 0x3f86_6666, 0x4679_fbcd),
        ('/', 0x467a_0000, 0x3f86_6666, 0x466e_1862),
        ('*', 0x3f80_0000, 0x3d4c_cccd, 0x3d4c_cccd),
        ('+', 0x3f80_0000, 0x3d4c_cccd, 0x3f86_6666),
        ('-', 0x3f80_0000, 0x3d4c_cccd, 0x3f73_3333),
        ('/', 0x3f80_0000, 0x3d4c_cccd, 0x41a0_0000),
        ('*', 0x3eaa_aaab, 0x3d4c_cccd, 0x3c88_8889),
        ('+', 0x3eaa_aaab, 0x3d4c_cccd, 0x3ec4_4445),
        ('-', 0x3eaa_aaab, 0x3d4c_cccd, 0x3e91_1111),
        ('/', 0x3eaa_aaab, 0x3d4c_cccd, 0x40d5_5556),
        ('*', 0x3dcc_cccd, 0x3ba3_d70a, 0x3a03_126f),
        ('+', 0x3dcc_cccd, 0x3ba3_d70a, 0x3dd7_0a3e),
        ('-', 0x3dcc_cccd, 0x3ba3_d70a, 0x3dc2_8f5c),
        ('/', 0x3dcc_cccd, 0x3ba3_d70a, 0x41a0_0000),
        ('*', 0x4640_e400, 0x3ebe_83e4, 0x458f_8c98),
        ('+', 0x4640_e400, 0x3ebe_83e4, 0x4640_e57d),
        ('-', 0x4640_e400, 0x3ebe_83e4, 0x4640_e283),
        ('/', 0x4640_e400, 0x3ebe_83e4, 0x4701_9891),
        ('*', 0x4b7f_ffff, 0x3f7f_ff58, 0x4b7f_ff57),
        ('+', 0x4b7f_ffff, 0x3f7f_ff58, 0x4b80_0000),
        ('-', 0x4b7f_ffff, 0x3f7f_ff58, 0x4b7f_fffe),
        ('/', 0x4b7f_ffff, 0x3f7f_ff58, 0x4b80_0054),
        ('*', 0x481a_7840, 0x3f26_e52d, 0x47c9_6884),
        ('+', 0x47c0_c780, 0x3f15_7321, 0x47c0_c7cb),
        ('*', 0x48de_06e0, 0x3d91_1ca6, 0x46fb_b57b),
        ('*', 0x3f0d_116f, 0x3f72_cd99, 0x3f05_cbc6),
        ('*', 0x3f13_bd05, 0x3f7a_2d64, 0x3f10_60c9),
        ('*', 0x4808_5f00, 0x3ed7_1c77, 0x4765_2de6),
        ('+', 0x3f12_2766, 0x3dd5_1b29, 0x3f2c_cacb),
        ('+', 0x3ebe_aae4, 0x3f10_bbfa, 0x3f70_116c),
        ('-', 0x4908_1ee0, 0x3f47_3a00, 0x4908_1ed4),
        ('+', 0x48e8_07e0, 0x3e99_fe22, 0x48e8_07ea),
        ('-', 0x3f32_f14d, 0x3f13_4ef8, 0x3dfd_12a8),
        ('*', 0x493a_bcf0, 0x3e93_efa7, 0x4857_d29c),
        ('+', 0x3df1_cc79, 0x3f42_1586, 0x3f60_4f15),
        ('*', 0x3f6e_eacc, 0x3f76_886b, 0x3f66_14f1),
        ('/', 0x4912_b1e0, 0x3eae_a797, 0x49d7_0495),
        ('*', 0x4914_7410, 0x3d8e_dfe1, 0x4725_b469),
        ('/', 0x3f71_d69f, 0x3d7c_9915, 0x4175_1871),
        ('-', 0x492e_6590, 0x3e92_3994, 0x492e_658b),
        ('/', 0x3f63_1513, 0x3f71_0fe1, 0x3f71_276d),
        ('/', 0x47ef_d000, 0x3d75_92c4, 0x49f9_fe9e),
    ];

    #[test]
    fn operations_are_those_of_java_s_floats() {
        for (sign, a, b, expected) in CARRIED_OUT {
            let (a, b) = (JavaFloat::from_bits(*a), JavaFloat::from_bits(*b));
            let result = match sign {
                '*' => a.times(b),
                '+' => a.plus(b),
                '-' => a.minus(b),
                _ => a.over(b),
            };
            assert_eq!(result, JavaFloat::from_bits(*expected), "{a:?} {sign} {b:?}");
        }
    }

    #[test]
    fn whole_numbers_go_in_and_out() {
        for number in [0, 1, 61, 16_384, 16_777_215] {
            assert_eq!(JavaFloat::of(number).to_int(), number);
        }
        assert_eq!(JavaFloat::of(16_777_217).to_int(), 16_777_216, "half to even");
        assert_eq!(JavaFloat::of(100).times(JavaFloat::from_bits(0x3f86_6666)).to_int(), 104, "100 * 1.05");
        assert_eq!(JavaFloat::of(16_000).times(JavaFloat::from_bits(0x3f86_6666)).to_int(), 16_800);
        assert!(JavaFloat::of(0) < JavaFloat::of(1) && JavaFloat::of(3) > JavaFloat::ONE);
    }
}
