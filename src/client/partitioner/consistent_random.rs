//! librdkafka's default partitioner, `consistent_random`: CRC32 of the key; without one, or with an empty one, a random
//! partition that changes each `sticky.partitioning.linger.ms` (10).
//!
//! **Invariant:** the same key goes to the same partition as long as the number of partitions stays.

use crate::kafka::random::Random;
use crate::kafka::time::Time;

const LINGER_MS: i64 = 10;

#[derive(Clone, Copy, Debug, Default)]
pub struct ConsistentRandom {
    /// The partition of records without a key, and until when.
    sticky: Option<(i32, Time)>,
}

impl ConsistentRandom {
    pub fn partition(&mut self, now: Time, key: Option<&[u8]>, partitions: i32, random: &mut Random) -> i32 {
        match (key, self.sticky) {
            (Some(key @ [_, ..]), _) => (crc32(key) % partitions as u32) as i32,
            (_, Some((partition, until))) if now < until && partition < partitions => partition,
            _ => {
                let partition = random.below(partitions as u64) as i32;
                self.sticky = Some((partition, now.plus_ms(LINGER_MS)));
                partition
            }
        }
    }
}

/// CRC-32 as of IEEE 802.3 (zlib's `crc32`).
pub fn crc32(bytes: &[u8]) -> u32 {
    let shifted = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| shifted(crc)))
}

#[cfg(test)]
mod tests {
    use super::super::partition_for_key;
    use super::*;

    /// The values that librdkafka's test 0048 expects.
    #[test]
    fn hashes_are_librdkafkas() {
        assert_eq!(crc32(b"23456"), 0xb1b4_51d7);
        assert_eq!(crc32(b"this is another string with more length to it perhaps"), 0xb015_0df7);
        assert_eq!(crc32(b"hejsan"), 0xd077_037e);
    }

    #[test]
    fn a08_the_same_key_goes_elsewhere_with_another_library() {
        let mut partitioner = ConsistentRandom::default();
        let mut random = Random::stream(1, "p");
        let mut both = |key: &str| {
            let other = partitioner.partition(Time::ZERO, Some(key.as_bytes()), 3, &mut random);
            (partition_for_key(key.as_bytes(), 3), other)
        };
        assert_eq!((both("alice"), both("erin"), both("user-3")), ((0, 2), (2, 0), (2, 0)));
        for key in ["order-1", "order-2", "order-4"] {
            let (java, librdkafka) = both(key);
            assert_eq!(java, librdkafka, "{key}: why quick tests pass");
        }
    }

    #[test]
    fn records_without_a_key_stay_in_a_partition_for_ten_milliseconds() {
        let mut partitioner = ConsistentRandom::default();
        let mut random = Random::stream(1, "p");
        let mut at = |ms| partitioner.partition(Time::from_ms(ms), None, 100, &mut random);
        let (first, still, next) = (at(0), at(9), at(10));
        assert!(first == still && next != first);
        let empty = ConsistentRandom { sticky: Some((7, Time::from_ms(10))) }.partition(
            Time::ZERO,
            Some(b""),
            100,
            &mut Random::stream(1, "p"),
        );
        assert_eq!(empty, 7, "an empty key is none");
    }
}
