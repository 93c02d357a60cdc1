//! The blobs that consumers carry through JoinGroup and SyncGroup (`ConsumerProtocol`).
//!
//! The coordinator hands them on unread; they are decoded by the group's leader and to be shown, and version 0 of a
//! subscription, the start of every later one, for what a group subscribes to.
//!
//! **Invariant:** nothing that the coordinator answers depends on whether a blob can be read; what is encoded here is, byte
//! for byte, what Kafka 4.3 writes.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::kafka::protocol::wire::{Reader, WireError, WireProblem, Writer};
use crate::kafka::types::{Generation, Topic, TopicPartition};

/// The newest version. A newer one is read as this one.
pub const VERSION: i16 = 3;

/// What a member says when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSubscription {
    pub topics: Vec<Topic>,
    /// What the member's assignor added.
    pub user_data: Option<Bytes>,
    /// What the member owns; since version 1.
    pub owned: Vec<TopicPartition>,
    /// In which it was given that, NONE if it does not say; since version 2.
    pub generation: Generation,
    /// Since version 3.
    pub rack: Option<String>,
}

impl ConsumerSubscription {
    /// The bytes of a version; what the version does not have is left out. Topics and partitions are sorted.
    pub fn encode(&self, version: i16) -> Bytes {
        let mut topics = self.topics.clone();
        topics.sort();
        let mut w = Writer::new();
        w.i16(version);
        w.array(&topics, |w, topic| w.string(topic.as_str()));
        w.nullable_bytes(self.user_data.as_deref());
        if version >= 1 {
            let mut owned = self.owned.clone();
            owned.sort();
            write_partitions(&mut w, &owned);
        }
        if version >= 2 {
            w.i32(self.generation.0);
        }
        if version >= 3 {
            w.nullable_string(self.rack.as_deref());
        }
        w.finish()
    }

    /// # Errors
    /// The blob is no subscription.
    pub fn decode(blob: &[u8]) -> Result<ConsumerSubscription, WireError> {
        let mut r = Reader::new("ConsumerProtocolSubscription", blob);
        let version = read_version(&mut r)?;
        let topics = r.array(|r| Ok(Topic::new(r.string()?)))?;
        let user_data = r.nullable_bytes()?.map(Bytes::copy_from_slice);
        let owned = if version >= 1 { read_partitions(&mut r)? } else { Vec::new() };
        let generation = if version >= 2 { Generation(r.i32()?) } else { Generation::NONE };
        let rack = if version >= 3 { r.nullable_string()? } else { None };
        let rack = rack.filter(|rack| !rack.is_empty()).map(str::to_string);
        Ok(ConsumerSubscription { topics, user_data, owned, generation, rack })
    }
}

/// What the leader says to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerAssignment {
    pub partitions: Vec<TopicPartition>,
    pub user_data: Option<Bytes>,
}

impl ConsumerAssignment {
    /// The bytes of a version. Topics stand in the order in which they first come, each with its partitions in their
    /// order.
    pub fn encode(&self, version: i16) -> Bytes {
        let mut w = Writer::new();
        w.i16(version);
        write_partitions(&mut w, &self.partitions);
        w.nullable_bytes(self.user_data.as_deref());
        w.finish()
    }

    /// # Errors
    /// The blob is no assignment.
    pub fn decode(blob: &[u8]) -> Result<ConsumerAssignment, WireError> {
        let mut r = Reader::new("ConsumerProtocolAssignment", blob);
        read_version(&mut r)?;
        let partitions = read_partitions(&mut r)?;
        let user_data = r.nullable_bytes()?.map(Bytes::copy_from_slice);
        Ok(ConsumerAssignment { partitions, user_data })
    }
}

fn read_version(r: &mut Reader<'_>) -> Result<i16, WireError> {
    match r.i16()? {
        version @ ..0 => Err(r.error(WireProblem::Version(version))),
        version => Ok(version),
    }
}

fn write_partitions(w: &mut Writer, partitions: &[TopicPartition]) {
    let mut places: BTreeMap<&Topic, usize> = BTreeMap::new();
    let mut topics: Vec<(&Topic, Vec<i32>)> = Vec::new();
    for tp in partitions {
        let place = *places.entry(&tp.topic).or_insert_with(|| {
            topics.push((&tp.topic, Vec::new()));
            topics.len() - 1
        });
        topics[place].1.push(tp.partition);
    }
    w.array(&topics, |w, (topic, partitions)| {
        w.string(topic.as_str());
        w.array(partitions, |w, partition| w.i32(*partition));
    });
}

fn read_partitions(r: &mut Reader<'_>) -> Result<Vec<TopicPartition>, WireError> {
    let topics = r.array(|r| {
        let topic = Topic::new(r.string()?);
        r.array(|r| Ok(TopicPartition::new(&topic, r.i32()?)))
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// The partitions in an assignment blob; none if it is no such blob.
pub fn assigned_partitions(blob: &Bytes) -> Vec<TopicPartition> {
    let partitions = || {
        let mut r = Reader::new("ConsumerProtocolAssignment", blob);
        read_version(&mut r)?;
        read_partitions(&mut r)
    };
    partitions().unwrap_or_default()
}

/// The topics in a subscription blob, of which only these are read.
///
/// # Errors
/// The blob is none.
pub fn subscribed_topics(blob: &Bytes) -> Result<Vec<Topic>, WireError> {
    let mut r = Reader::new("ConsumerProtocolSubscription", blob);
    r.i16()?;
    r.array(|r| Ok(Topic::new(r.string()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_reads_as_its_partitions_and_garbage_as_none() {
        let check = |blob: &'static [u8], expected: &[&str]| {
            let read = assigned_partitions(&Bytes::from_static(blob));
            assert_eq!(read.iter().map(TopicPartition::to_string).collect::<Vec<_>>(), expected);
        };
        let blob = b"\0\x03\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x05\xff\xff\xff\xff";
        check(blob, &["t-0", "t-5"]);
        check(b"", &[]);
        check(b"gen1:a00b", &[]);
    }

    #[test]
    fn a_subscription_of_any_version_reads_as_its_topics() {
        let check = |blob: &'static [u8], expected: &[&str]| {
            let read = subscribed_topics(&Bytes::from_static(blob)).expect("a subscription");
            assert_eq!(read.iter().map(Topic::as_str).collect::<Vec<_>>(), expected);
        };
        check(b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff", &["orders"]);
        check(b"\0\x03\0\0\0\x02\0\x01a\0\x01b\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff", &["a", "b"]);
        assert!(subscribed_topics(&Bytes::from_static(b"\0")).is_err());
    }

    #[test]
    fn what_comes_after_the_newest_version_is_not_read() {
        let blob = b"\0\x04\0\0\0\x01\0\x01a\xff\xff\xff\xff\0\0\0\0\0\0\0\x05\0\x01rnews";
        let read = ConsumerSubscription::decode(blob).expect("a subscription");
        assert_eq!((read.generation, read.rack.as_deref()), (Generation(5), Some("r")));
        assert_eq!(
            ConsumerSubscription::decode(b"\xff\xff").unwrap_err().to_string(),
            "ConsumerProtocolSubscription: version -1 is unknown at byte 2"
        );
    }
}
