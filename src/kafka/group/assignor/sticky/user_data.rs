//! What the sticky assignors add to a subscription (R-ASG-7).
//!
//! Sticky adds what its member owned and the generation of that, by an older form the first alone; CooperativeSticky the
//! generation.
//!
//! **Invariant:** what was encoded here is read back with its partitions by topic; bytes that are neither form say that
//! nothing was owned, as in Kafka.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::kafka::protocol::wire::{Reader, WireError, Writer};
use crate::kafka::types::{Generation, Topic, TopicPartition};

/// Sticky's: the partitions by topic.
pub(in crate::kafka::group::assignor) fn encode_owned(
    owned: &[TopicPartition],
    generation: Generation,
) -> Bytes {
    let mut by_topic: BTreeMap<&Topic, Vec<i32>> = BTreeMap::new();
    for tp in owned {
        by_topic.entry(&tp.topic).or_default().push(tp.partition);
    }
    let by_topic: Vec<(&Topic, Vec<i32>)> = by_topic.into_iter().collect();
    let mut w = Writer::new();
    w.array(&by_topic, |w, (topic, partitions)| {
        w.string(topic.as_str());
        w.array(partitions, |w, partition| w.i32(*partition));
    });
    w.i32(generation.0);
    w.finish()
}

/// CooperativeSticky's.
pub(in crate::kafka::group::assignor) fn encode_generation(generation: Generation) -> Bytes {
    let mut w = Writer::new();
    w.i32(generation.0);
    w.finish()
}

/// What sticky's user data says; the generation may be missing.
pub(super) fn decode_owned(user_data: Option<&Bytes>) -> (Vec<TopicPartition>, Option<Generation>) {
    let Some(user_data) = user_data.filter(|bytes| !bytes.is_empty()) else { return (Vec::new(), None) };
    let mut r = Reader::new("user data of sticky", user_data);
    match read_owned(&mut r) {
        Ok(owned) => (owned, r.i32().ok().map(Generation)),
        Err(_) => (Vec::new(), Some(Generation::NONE)),
    }
}

fn read_owned(r: &mut Reader<'_>) -> Result<Vec<TopicPartition>, WireError> {
    let topics = r.array(|r| {
        let topic = Topic::new(r.string()?);
        r.array(|r| Ok(TopicPartition::new(&topic, r.i32()?)))
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// What cooperative sticky's user data says.
pub(super) fn decode_generation(user_data: Option<&Bytes>) -> Option<Generation> {
    let generation = Reader::new("user data of cooperative sticky", user_data?).i32();
    Some(generation.map_or(Generation::NONE, Generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tp(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(&Topic::new(topic), partition)
    }

    #[test]
    fn sticky_carries_partitions_and_generation_in_user_data_r_asg_7() {
        let bytes = encode_owned(&[tp("u", 1), tp("t", 3), tp("u", 0)], Generation(7));
        let back = decode_owned(Some(&bytes));
        assert_eq!(back, (vec![tp("t", 3), tp("u", 1), tp("u", 0)], Some(Generation(7))));
        // Kafka's own bytes, from a recording.
        let hex = b"\0\0\0\x01\0\x06topic2\0\0\0\x01\0\0\0\x03\0\0\0\x02";
        assert_eq!(encode_owned(&[tp("topic2", 3)], Generation(2)), hex.as_slice());
    }

    #[test]
    fn the_older_form_has_no_generation_and_garbage_owns_nothing_r_asg_7() {
        let bytes = encode_owned(&[tp("t", 3)], Generation(7));
        let check = |bytes: &[u8], owned: &[TopicPartition], generation: Option<i32>| {
            let read = decode_owned(Some(&Bytes::copy_from_slice(bytes)));
            assert_eq!(read, (owned.to_vec(), generation.map(Generation)));
        };
        check(&bytes[..bytes.len() - 4], &[tp("t", 3)], None);
        check(&bytes[..9], &[], Some(-1));
        check(b"", &[], None);
        assert_eq!(decode_owned(None), (Vec::new(), None));
    }

    #[test]
    fn cooperative_sticky_carries_the_generation_in_user_data_r_asg_7() {
        assert_eq!(encode_generation(Generation(7)), b"\0\0\0\x07".as_slice());
        assert_eq!(decode_generation(Some(&encode_generation(Generation(7)))), Some(Generation(7)));
        assert_eq!(decode_generation(Some(&Bytes::from_static(b"\0"))), Some(Generation::NONE));
        assert_eq!(decode_generation(None), None);
    }
}
