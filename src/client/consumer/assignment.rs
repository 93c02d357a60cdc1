//! What members tell each other through the coordinator, as bytes (Kafka's `ConsumerProtocol`); they are read by
//! [`consumer_protocol`](crate::kafka::group::consumer_protocol).
//!
//! **Invariant:** the bytes are those of the newest version that Kafka 4.3 writes.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as Assigned;
use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName};
use kafka_protocol::protocol::Encodable;

use crate::kafka::types::{Generation, Topic, TopicPartition};

const VERSION: i16 = 3;

/// A member's subscription as JoinGroup carries it. An eager member owns nothing when it joins (R-GRP-29).
pub(super) fn encode_subscription(topics: &[Topic], generation: Generation) -> Bytes {
    encode(
        &ConsumerProtocolSubscription::default()
            .with_topics(topics.iter().map(Topic::to_wire).collect())
            .with_generation_id(generation.0),
    )
}

/// A member's partitions as the leader's SyncGroup carries them.
pub(super) fn encode_assignment(partitions: &[TopicPartition]) -> Bytes {
    let mut by_topic: BTreeMap<&Topic, Vec<i32>> = BTreeMap::new();
    for tp in partitions {
        by_topic.entry(&tp.topic).or_default().push(tp.partition);
    }
    let assigned = |(topic, partitions): (&Topic, Vec<i32>)| {
        Assigned::default().with_topic(TopicName(topic.to_wire())).with_partitions(partitions)
    };
    let assigned = by_topic.into_iter().map(assigned).collect();
    encode(&ConsumerProtocolAssignment::default().with_assigned_partitions(assigned))
}

fn encode<M: Encodable>(message: &M) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(VERSION);
    message.encode(&mut bytes, VERSION).expect("every field that is set here has a place in the version");
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::group::consumer_protocol::{assigned_partitions, subscribed_topics};

    #[test]
    fn a_subscription_reads_back_with_its_topics() {
        let topics = [Topic::new("orders"), Topic::new("payments")];
        assert_eq!(subscribed_topics(&encode_subscription(&topics, Generation(4))), Ok(topics.to_vec()));
    }

    #[test]
    fn an_assignment_reads_back_by_topic() {
        let tp = |topic: &str, partition| TopicPartition::new(&Topic::new(topic), partition);
        let bytes = encode_assignment(&[tp("u", 1), tp("t", 0), tp("t", 2)]);
        assert_eq!(assigned_partitions(&bytes), [tp("t", 0), tp("t", 2), tp("u", 1)]);
        assert_eq!(assigned_partitions(&encode_assignment(&[])), []);
    }
}
