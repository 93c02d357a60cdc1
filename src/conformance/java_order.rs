//! 11c: the order in which Java walks a hash map or set. Some of Kafka's ties are settled by it; adapters feed it to what
//! takes an order as input.
//!
//! **Invariant:** within a bucket the oldest comes first, however often the table grew.

use serde::Deserialize;

use super::values::TopicIdText;
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::group::java_map::{SLOTS, grown, java_hash, slot};
use crate::kafka::types::TopicId;

const FILE: &str = "11c_java_hash_order.json";

/// The keys of a hash table that are walked bucket by bucket.
pub(super) struct JavaTable<K> {
    buckets: Vec<Vec<(i32, K)>>,
    count: usize,
}

impl<K: PartialEq> JavaTable<K> {
    /// A map or set as its constructor without arguments makes it.
    pub(super) fn new() -> JavaTable<K> {
        JavaTable::of_size(SLOTS as usize)
    }

    fn of_size(buckets: usize) -> JavaTable<K> {
        JavaTable { buckets: (0..buckets.next_power_of_two()).map(|_| Vec::new()).collect(), count: 0 }
    }

    /// A set made from a collection of this size.
    fn for_collection(count: usize) -> JavaTable<K> {
        JavaTable::of_size((count * 4 / 3 + 1).max(16))
    }

    /// A map made from a map of this size.
    fn for_copy(count: usize) -> JavaTable<K> {
        JavaTable::of_size(count * 4 / 3 + 1)
    }

    pub(super) fn put(&mut self, hash: i32, key: K) {
        let bucket = self.bucket(hash);
        if bucket.iter().any(|(_, known)| *known == key) {
            return;
        }
        bucket.push((hash, key));
        self.count += 1;
        let size = grown(self.buckets.len() as u32, self.count) as usize;
        if size != self.buckets.len() {
            let old = std::mem::replace(self, JavaTable::of_size(size));
            self.count = old.count;
            old.buckets.into_iter().flatten().for_each(|(hash, key)| self.bucket(hash).push((hash, key)));
        }
    }

    fn bucket(&mut self, hash: i32) -> &mut Vec<(i32, K)> {
        let slot = slot(hash, self.buckets.len() as u32);
        &mut self.buckets[slot as usize]
    }

    fn filled(mut self, keys: Vec<(i32, K)>) -> JavaTable<K> {
        keys.into_iter().for_each(|(hash, key)| self.put(hash, key));
        self
    }

    pub(super) fn into_keys(self) -> Vec<K> {
        self.buckets.into_iter().flatten().map(|(_, key)| key).collect()
    }
}

#[derive(Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
enum Case {
    #[serde(rename = "strings")]
    Strings {
        inserted: Vec<String>,
        map_put_one_by_one: Vec<String>,
        set_from_collection: Vec<String>,
        copy_of_map: Vec<String>,
    },
    #[serde(rename = "topic ids")]
    TopicIds { inserted: Vec<HashedId>, map_put_one_by_one: Vec<TopicIdText>, sorted: Vec<TopicIdText> },
    #[serde(rename = "topic partitions")]
    TopicPartitions { inserted: Vec<(String, i32, i32)>, map_put_one_by_one: Vec<(String, i32)> },
    #[serde(rename = "integers")]
    Integers { inserted: Vec<i32>, set_add_one_by_one: Vec<i32>, set_from_collection: Vec<i32> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HashedId {
    id: TopicIdText,
    hash: i32,
}

/// Runs every case of the file.
pub fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, FILE, |_, case: &Case| Ok(outcome(case)))
}

fn outcome(case: &Case) -> Result<(), Failure> {
    match case {
        Case::Strings { inserted, map_put_one_by_one, set_from_collection, copy_of_map } => {
            let keys: Vec<_> = inserted.iter().map(|text| (java_hash(text), text.clone())).collect();
            let map = JavaTable::new().filled(keys.clone()).into_keys();
            order("map", map_put_one_by_one, &map)?;
            let set = JavaTable::for_collection(keys.len()).filled(keys);
            order("set of a collection", set_from_collection, &set.into_keys())?;
            let keys: Vec<_> = map.into_iter().map(|text| (java_hash(&text), text)).collect();
            order("copy of a map", copy_of_map, &JavaTable::for_copy(keys.len()).filled(keys).into_keys())
        }
        Case::TopicIds { inserted, map_put_one_by_one, sorted } => {
            let hashes = inserted.iter().map(|hashed| (hash_of_id(&hashed.id.0), hashed.hash));
            hashes.into_iter().try_for_each(|(ours, theirs)| check(|| "hash".to_owned(), &theirs, &ours))?;
            let keys = inserted.iter().map(|hashed| (hashed.hash, hashed.id)).collect();
            order("map", map_put_one_by_one, &JavaTable::new().filled(keys).into_keys())?;
            let mut ids: Vec<TopicIdText> = inserted.iter().map(|hashed| hashed.id).collect();
            ids.sort_by(|a, b| a.0.cmp_as_java(&b.0));
            order("sorted", sorted, &ids)
        }
        Case::TopicPartitions { inserted, map_put_one_by_one } => {
            for (topic, partition, hash) in inserted {
                check(
                    || format!("hash of {topic}-{partition}"),
                    hash,
                    &hash_of_partition(topic, *partition),
                )?;
            }
            let key = |(topic, partition, hash): &(String, i32, i32)| (*hash, (topic.clone(), *partition));
            let keys = inserted.iter().map(key).collect();
            order("map", map_put_one_by_one, &JavaTable::new().filled(keys).into_keys())
        }
        Case::Integers { inserted, set_add_one_by_one, set_from_collection } => {
            let keys: Vec<_> = inserted.iter().map(|number| (*number, *number)).collect();
            order("set", set_add_one_by_one, &JavaTable::new().filled(keys.clone()).into_keys())?;
            let set = JavaTable::for_collection(keys.len()).filled(keys);
            order("set of a collection", set_from_collection, &set.into_keys())
        }
    }
}

fn order<K: PartialEq + std::fmt::Debug>(what: &str, expected: &Vec<K>, got: &Vec<K>) -> Result<(), Failure> {
    check(|| what.to_owned(), expected, got)
}

fn hash_of_id(id: &TopicId) -> i32 {
    let (high, low) = id.0.as_u64_pair();
    let both = high ^ low;
    (both >> 32) as i32 ^ both as i32
}

fn hash_of_partition(topic: &str, partition: i32) -> i32 {
    31_i32.wrapping_mul(31_i32.wrapping_add(partition)).wrapping_add(java_hash(topic))
}
