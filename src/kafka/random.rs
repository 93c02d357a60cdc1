//! Seeded random streams: one for each purpose, so that a new use never shifts an old one.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// One named stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(Pcg32);

impl Random {
    /// The stream that belongs to `name` in the run of `seed`.
    pub fn stream(seed: u64, name: &str) -> Random {
        let mut hash = 0xcbf2_9ce4_8422_2325u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Random(Pcg32::seed_from_u64(hash))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, bound)`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiply-shift: the bias is below 2^-32 for the small bounds used here.
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `[low, high]`.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        assert!(low <= high, "empty range {low}..={high}");
        low + self.below((high - low) as u64 + 1) as i64
    }

    /// `value` changed by up to `percent` per cent either way.
    pub fn jitter(&mut self, value: i64, percent: i64) -> i64 {
        let spread = value * percent / 100;
        self.between(value - spread, value + spread)
    }

    /// Sixteen random bytes in the form of a version 4 UUID.
    pub fn uuid(&mut self) -> uuid::Uuid {
        let bits = (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }
}
