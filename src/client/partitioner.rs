//! Which partition a record goes to: by its key with murmur2 (`BuiltInPartitioner`, `Utils.murmur2`), or, without a key,
//! to the [`StickyPartitioner`]'s or the [`RoundRobin`]'s; librdkafka has [`ConsistentRandom`].
//!
//! **Invariant:** the same key goes to the same partition as long as the number of partitions stays (R-PROD-14).

mod consistent_random;
mod round_robin;
mod sticky;

pub use consistent_random::{ConsistentRandom, crc32};
pub use round_robin::RoundRobin;
pub use sticky::{StickyPartitioner, WeighedQueue};

/// What a partition without regard to keys is chosen among.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a> {
    /// Partitions with a leader.
    pub available: &'a [i32],
    /// With a leader or without; above 0.
    pub partitions: i32,
}

impl Choices<'_> {
    /// The `number`th partition, counted round and round: of those with a leader if there are any.
    fn nth(&self, number: i32) -> i32 {
        assert!(number >= 0 && self.partitions > 0, "a topic has at least one partition");
        match self.available.len() {
            0 => number % self.partitions,
            count => self.available[number as usize % count],
        }
    }
}

/// The partition of a record with this key among `partitions`, with a leader or not (R-PROD-9).
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic has at least one partition");
    (murmur2(key) & i32::MAX) % partitions
}

/// murmur2 with Kafka's seed (R-PROD-10).
pub fn murmur2(key: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut hash = SEED ^ key.len() as u32;
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k = (k ^ (k >> R)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        for (place, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    (hash ^ (hash >> 15)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, hash: i32) {
        assert_eq!(murmur2(key.as_bytes()), hash, "{key:?}");
    }

    fn check_partition(key: &str, partitions: i32, partition: i32) {
        assert_eq!(partition_for_key(key.as_bytes(), partitions), partition, "{key:?} of {partitions}");
    }

    #[test]
    fn ex_13_and_a08_keys_have_their_partitions_r_prod_9_14() {
        check_partition("alice", 3, 0);
        check_partition("erin", 3, 2);
        for (key, of_3, of_4) in [
            ("user-1", 2, 0),
            ("user-2", 2, 0),
            ("user-3", 2, 3),
            ("order-1001", 0, 2),
            ("order-1002", 0, 0),
            ("order-1003", 1, 0),
        ] {
            check_partition(key, 3, of_3);
            check_partition(key, 4, of_4);
        }
    }

    #[test]
    fn hashes_are_kafkas_r_prod_10() {
        check("21", -973_932_308);
        check("foobar", -790_332_482);
        check("abc", 479_470_107);
        check("a-little-bit-long-string", -985_981_536);
        check("a-little-bit-longer-string", -1_486_304_829);
        check("", 275_646_681);
        check("a", -1_563_381_124);
        check("b", -1_853_091_852);
        check("key", -1_079_937_367);
        check("user-1", 1_404_122_828);
        check("user-2", -324_981_792);
        check("user-3", 1_141_442_267);
        check("order-1001", 297_523_878);
        check("order-1002", -809_665_508);
        check("order-1003", 664_887_688);
    }

    /// R-PROD-14.
    #[test]
    fn recorded_keys_go_where_kafkas_partitioner_sent_them_r_prod_9() {
        let recorded = include_str!("../../tests/vectors/murmur2_partitioner.json");
        let recorded: serde_json::Value = serde_json::from_str(recorded).unwrap();
        let counts: Vec<i64> =
            serde_json::from_value(recorded["header"]["partition_counts"].clone()).unwrap();
        let cases = recorded["cases"].as_array().unwrap();
        assert!(cases.len() > 50);
        for case in cases {
            let hex = case["key"].as_str().unwrap();
            let key: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(i64::from(murmur2(&key)), case["murmur2"].as_i64().unwrap(), "{hex}");
            for (count, partition) in counts.iter().zip(case["partitions"].as_array().unwrap()) {
                let chosen = partition_for_key(&key, *count as i32);
                assert_eq!(i64::from(chosen), partition.as_i64().unwrap(), "{hex} of {count}");
            }
        }
    }
}
