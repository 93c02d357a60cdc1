//! The blobs that consumers carry through JoinGroup and SyncGroup (`ConsumerProtocol`).
//!
//! The coordinator hands them on unread; they are decoded only to be shown, and for what a group subscribes to. Version 0
//! is the start of every later version, and all that is read, as in Kafka.
//!
//! **Invariant:** nothing that the coordinator answers depends on whether a blob can be read.

use bytes::Bytes;

use crate::kafka::protocol::wire::{Reader, WireError};
use crate::kafka::types::{Topic, TopicPartition};

/// The partitions in an assignment blob; none if it is no such blob.
pub fn assigned_partitions(blob: &Bytes) -> Vec<TopicPartition> {
    read_assignment(blob).unwrap_or_default()
}

/// The topics in a subscription blob.
///
/// # Errors
/// The blob is none.
pub fn subscribed_topics(blob: &Bytes) -> Result<Vec<Topic>, WireError> {
    let mut r = Reader::new("ConsumerProtocolSubscription", blob);
    r.i16()?;
    r.array(|r| Ok(Topic::new(r.string()?)))
}

fn read_assignment(blob: &Bytes) -> Result<Vec<TopicPartition>, WireError> {
    let mut r = Reader::new("ConsumerProtocolAssignment", blob);
    r.i16()?;
    let topics = r.array(|r| {
        let topic = Topic::new(r.string()?);
        r.array(|r| Ok(TopicPartition::new(&topic, r.i32()?)))
    })?;
    Ok(topics.into_iter().flatten().collect())
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
}
