//! Kafka's `ExponentialBackoff` as clients and brokers use it: doubled at each failure, with 20 % jitter (R-PROD-17).
//!
//! **Invariant:** no back-off is longer than `max_ms`.

use crate::kafka::random::Random;

/// retry.backoff.ms and retry.backoff.max.ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub initial_ms: i64,
    pub max_ms: i64,
}

const JITTER_PERCENT: i64 = 20;

impl Backoff {
    /// Milliseconds to wait after `failures` failures in a row, the first counted as 0.
    pub fn after(self, failures: i32, random: &mut Random) -> i64 {
        if self.max_ms <= self.initial_ms {
            return self.max_ms;
        }
        let doubled = self.initial_ms.saturating_mul(1 << failures.clamp(0, 30));
        random.jitter(doubled.min(self.max_ms), JITTER_PERCENT).min(self.max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(backoff: Backoff, failures: i32, low: i64, high: i64) {
        let mut random = Random::stream(1, "backoff");
        for _ in 0..200 {
            let ms = backoff.after(failures, &mut random);
            assert!((low..=high).contains(&ms), "{ms} ms after {failures} failures");
        }
    }

    #[test]
    fn backoff_doubles_with_a_fifth_of_jitter_up_to_its_maximum_r_prod_17() {
        let backoff = Backoff { initial_ms: 100, max_ms: 1000 };
        check(backoff, 0, 80, 120);
        check(backoff, 1, 160, 240);
        check(backoff, 3, 640, 960);
        check(backoff, 4, 800, 1000);
        check(backoff, 400, 800, 1000);
    }

    #[test]
    fn a_maximum_below_the_first_step_is_a_constant_backoff() {
        check(Backoff { initial_ms: 500, max_ms: 200 }, 0, 200, 200);
        check(Backoff { initial_ms: 500, max_ms: 200 }, 9, 200, 200);
    }
}
