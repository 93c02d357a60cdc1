//! How well a topic's records compress, learned from the batches before (Kafka's `CompressionRatioEstimator`).
//!
//! **Invariant:** the estimate gets worse at once and better in small steps, so that batches are rather too small.

use super::java_float::JavaFloat;

/// 0.05 and 0.005.
const STEP_TO_WORSE: JavaFloat = JavaFloat::from_bits(0x3d4c_cccd);
const STEP_TO_BETTER: JavaFloat = JavaFloat::from_bits(0x3ba3_d70a);
/// 1.05: what a batch may turn out larger than its estimate.
const MARGIN: JavaFloat = JavaFloat::from_bits(0x3f86_6666);

/// Compressed size by size before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(JavaFloat);

impl Ratio {
    /// What is expected before there was any batch.
    pub const INITIAL: Ratio = Ratio(JavaFloat::ONE);

    pub fn of(compressed_bytes: i32, plain_bytes: i32) -> Ratio {
        Ratio(JavaFloat::of(compressed_bytes).over(JavaFloat::of(plain_bytes)))
    }

    /// The estimate after a batch turned out like this.
    pub fn learned(self, observed: Ratio) -> Ratio {
        if observed > self {
            Ratio(self.0.plus(STEP_TO_WORSE)).max(observed)
        } else {
            Ratio(self.0.minus(STEP_TO_BETTER)).max(observed)
        }
    }

    /// The estimate after a batch was too large for the broker (R-PROD-19).
    pub fn reset(of_the_batch: Ratio) -> Ratio {
        of_the_batch.max(Ratio::INITIAL)
    }

    /// The bytes that records of so many bytes may take.
    pub fn estimate(self, plain_bytes: i32) -> i32 {
        JavaFloat::of(plain_bytes).times(self.0).times(MARGIN).to_int()
    }

    /// In thousandths, for people.
    pub fn permille(self) -> i32 {
        self.0.times(JavaFloat::of(1000)).to_int()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_gets_better_by_steps_and_worse_at_once_r_prod_5() {
        let better = Ratio::INITIAL.learned(Ratio::of(1, 4));
        assert_eq!(better.permille(), 995);
        assert_eq!(
            Ratio::of(1, 4).learned(Ratio::of(249, 1000)).permille(),
            249,
            "never below what was seen"
        );
        assert_eq!(Ratio::of(1, 4).learned(Ratio::of(1, 2)).permille(), 500);
        assert_eq!(Ratio::of(1, 4).learned(Ratio::of(26, 100)).permille(), 300);
        assert_eq!(Ratio::reset(Ratio::of(1, 4)), Ratio::INITIAL);
        assert_eq!(Ratio::reset(Ratio::of(5, 4)), Ratio::of(5, 4));
    }

    #[test]
    fn a_twentieth_is_added_to_be_safe_r_prod_5() {
        assert_eq!(Ratio::INITIAL.estimate(1000), 1050);
        assert_eq!(Ratio::INITIAL.estimate(100), 104, "1.05 is a little less in Java");
        assert_eq!(Ratio::of(1, 4).estimate(1000), 262);
    }
}
