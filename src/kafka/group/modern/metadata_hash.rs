//! The hash by which a group notices that its topics changed (KIP-1101, `Utils.computeTopicHash`, `computeGroupHash`).
//!
//! XXH3 over the fields as hash4j's stream takes them: numbers little-endian, a text as its UTF-16 units followed by their
//! count.
//!
//! **Invariant:** what is not in the hash (replicas, leaders, configs) starts no rebalance.

use xxhash_rust::xxh3::xxh3_64;

use super::subscription::Subscriptions;
use crate::kafka::controller::image::{ClusterImage, TopicImage};

/// A topic's id, name, number of partitions, and the racks of each partition's replicas.
pub fn topic_hash(topic: &TopicImage, image: &ClusterImage) -> i64 {
    let mut bytes = vec![0];
    let (high, low) = topic.id.0.as_u64_pair();
    bytes.extend(high.to_le_bytes());
    bytes.extend(low.to_le_bytes());
    put_text(&mut bytes, topic.name.as_str());
    bytes.extend((topic.partitions.len() as i32).to_le_bytes());
    for (partition, number) in topic.partitions.iter().zip(0i32..) {
        bytes.extend(number.to_le_bytes());
        let rack = |broker| image.brokers.get(broker).and_then(|broker| broker.rack.as_deref());
        let mut racks: Vec<&str> = partition.replicas.iter().filter_map(rack).collect();
        racks.sort_unstable_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
        for rack in racks {
            bytes.extend((rack.encode_utf16().count() as i32).to_le_bytes());
            put_text(&mut bytes, rack);
        }
    }
    xxh3_64(&bytes) as i64
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let begin = bytes.len();
    bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    let units = ((bytes.len() - begin) / 2) as i32;
    bytes.extend(units.to_le_bytes());
}

/// Of the topics that exist; 0 without any. `topics` are in the order of Java's strings.
pub fn group_hash(topics: impl IntoIterator<Item = i64>) -> i64 {
    let bytes: Vec<u8> = topics.into_iter().flat_map(i64::to_le_bytes).collect();
    if bytes.is_empty() { 0 } else { xxh3_64(&bytes) as i64 }
}

impl Subscriptions<'_> {
    pub(super) fn metadata_hash(&self, image: &ClusterImage) -> i64 {
        group_hash(self.topics().filter_map(|name| image.topic(name)).map(|topic| topic_hash(topic, image)))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
    use crate::kafka::types::{BrokerId, Topic, TopicId};

    fn hash_of(id: u128, partitions: i32, leader: i32) -> i64 {
        let (id, name) = (TopicId(Uuid::from_u128(id)), Topic::new("orders"));
        let mut image = ClusterImage::default();
        image.replay(&MetadataRecord::Topic { name: name.clone(), id });
        for partition in 0..partitions {
            let (replicas, leader) = (vec![BrokerId(1), BrokerId(2)], BrokerId(leader));
            let record = PartitionRecord::new((id, partition), replicas.clone(), replicas, leader);
            image.replay(&MetadataRecord::Partition(record));
        }
        image.topic(&name).map(|topic| topic_hash(topic, &image)).expect("the topic is there")
    }

    #[test]
    fn a_new_leader_is_not_noticed_a_partition_and_a_topic_made_anew_are_r_cg8_7() {
        assert_eq!(hash_of(1, 2, 1), hash_of(1, 2, 2));
        assert_ne!(hash_of(1, 2, 1), hash_of(1, 3, 1));
        assert_ne!(hash_of(1, 2, 1), hash_of(2, 2, 1));
        assert_eq!(group_hash([]), 0);
        assert_ne!(group_hash([1, 2]), group_hash([2, 1]));
    }
}
