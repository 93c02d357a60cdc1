//! Keys and values of the group coordinator's records in `__consumer_offsets` (R-INT-2, R-CG8-26, KIP-932).
//!
//! Mirrors `GroupCoordinatorRecordType`, the keys and values it names, and `GroupCoordinatorRecordHelpers`. A key and a
//! value each start with a version; the key's version is the kind of record. A record without a value is a tombstone.
//!
//! **Invariant:** what is encoded here is, byte for byte, what Kafka 4.3 writes; every version that it reads is read.

mod offset;
mod classic;
mod consumer;
mod share;

use bytes::Bytes;

use super::super::types::{GroupId, MemberId, Topic, TopicPartition};
use super::wire::{Field, Reader, WireError, WireProblem, Writer};

pub use classic::{GroupMetadataValue, MemberMetadata};
pub use consumer::{
    AssignedTopic, ClassicMemberMetadata, ClassicProtocol, ConsumerRecord, CurrentAssignmentValue,
    GroupEpochValue, RegularExpressionValue, SubscriptionValue, TargetMetadataValue, TargetTopic,
};
pub use offset::OffsetCommitValue;
pub use share::{
    ShareCurrentAssignmentValue, ShareGroupRecord, ShareSubscriptionValue, StatePartitionsValue, StateTopic,
};

/// One record of `__consumer_offsets` as bytes; no value means that the key is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorRecord {
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordKey {
    OffsetCommit(GroupId, TopicPartition),
    GroupMetadata(GroupId),
    Consumer(GroupId, ConsumerKey),
    Share(GroupId, ShareGroupKey),
    /// A kind that belongs to another group protocol.
    Other(i16),
}

/// What a record of a consumer group of the newer protocol is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsumerKey {
    /// `ConsumerGroupMetadata`: the group's epoch.
    GroupEpoch,
    /// `ConsumerGroupPartitionMetadata`: what Kafka 4.0 knew of the topics.
    PartitionMetadata,
    /// `ConsumerGroupMemberMetadata`
    Subscription(MemberId),
    /// `ConsumerGroupTargetAssignmentMetadata`
    TargetMetadata,
    /// `ConsumerGroupTargetAssignmentMember`
    Target(MemberId),
    /// `ConsumerGroupCurrentMemberAssignment`
    CurrentAssignment(MemberId),
    /// `ConsumerGroupRegularExpression`
    RegularExpression(String),
}

/// What a record of a share group is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShareGroupKey {
    /// `ShareGroupMemberMetadata`
    Subscription(MemberId),
    /// `ShareGroupMetadata`
    GroupEpoch,
    /// `ShareGroupTargetAssignmentMetadata`
    TargetMetadata,
    /// `ShareGroupTargetAssignmentMember`
    Target(MemberId),
    /// `ShareGroupCurrentMemberAssignment`
    CurrentAssignment(MemberId),
    /// `ShareGroupStatePartitionMetadata`
    StatePartitions,
}

const LEGACY_OFFSET_COMMIT_KEY: i16 = 0;
const OFFSET_COMMIT_KEY: i16 = 1;
const GROUP_METADATA_KEY: i16 = 2;
const CONSUMER_GROUP_EPOCH_KEY: i16 = 3;
const CONSUMER_PARTITION_METADATA_KEY: i16 = 4;
const CONSUMER_SUBSCRIPTION_KEY: i16 = 5;
const CONSUMER_TARGET_METADATA_KEY: i16 = 6;
const CONSUMER_TARGET_KEY: i16 = 7;
const CONSUMER_CURRENT_ASSIGNMENT_KEY: i16 = 8;
const CONSUMER_REGULAR_EXPRESSION_KEY: i16 = 16;
const SHARE_SUBSCRIPTION_KEY: i16 = 10;
const SHARE_GROUP_EPOCH_KEY: i16 = 11;
const SHARE_TARGET_METADATA_KEY: i16 = 12;
const SHARE_TARGET_KEY: i16 = 13;
const SHARE_CURRENT_ASSIGNMENT_KEY: i16 = 14;
const SHARE_STATE_PARTITIONS_KEY: i16 = 15;

impl RecordKey {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        match self {
            RecordKey::OffsetCommit(group, tp) => {
                w.i16(OFFSET_COMMIT_KEY);
                w.string(group.as_str());
                w.string(tp.topic.as_str());
                w.i32(tp.partition);
            }
            RecordKey::GroupMetadata(group) => {
                w.i16(GROUP_METADATA_KEY);
                w.string(group.as_str());
            }
            RecordKey::Consumer(group, key) => {
                w.i16(key.kind());
                w.string(group.as_str());
                key.detail().into_iter().for_each(|detail| w.string(detail));
            }
            RecordKey::Share(group, key) => {
                w.i16(key.kind());
                w.string(group.as_str());
                key.member().into_iter().for_each(|member| w.string(member.as_str()));
            }
            RecordKey::Other(kind) => w.i16(*kind),
        }
        w.finish()
    }

    /// # Errors
    /// The bytes are no key.
    pub fn decode(bytes: &[u8]) -> Result<RecordKey, WireError> {
        let mut r = Reader::new("key of __consumer_offsets", bytes);
        let key = match r.i16()? {
            LEGACY_OFFSET_COMMIT_KEY | OFFSET_COMMIT_KEY => {
                let group = GroupId::new(r.string()?);
                let topic = Topic::new(r.string()?);
                RecordKey::OffsetCommit(group, TopicPartition { topic, partition: r.i32()? })
            }
            GROUP_METADATA_KEY => RecordKey::GroupMetadata(GroupId::new(r.string()?)),
            kind @ (CONSUMER_GROUP_EPOCH_KEY..=CONSUMER_CURRENT_ASSIGNMENT_KEY
            | CONSUMER_REGULAR_EXPRESSION_KEY) => {
                RecordKey::Consumer(GroupId::new(r.string()?), ConsumerKey::read(kind, &mut r)?)
            }
            kind @ SHARE_SUBSCRIPTION_KEY..=SHARE_STATE_PARTITIONS_KEY => {
                RecordKey::Share(GroupId::new(r.string()?), ShareGroupKey::read(kind, &mut r)?)
            }
            kind => return Ok(RecordKey::Other(kind)),
        };
        r.finish()?;
        Ok(key)
    }
}

impl ConsumerKey {
    fn kind(&self) -> i16 {
        match self {
            ConsumerKey::GroupEpoch => CONSUMER_GROUP_EPOCH_KEY,
            ConsumerKey::PartitionMetadata => CONSUMER_PARTITION_METADATA_KEY,
            ConsumerKey::Subscription(_) => CONSUMER_SUBSCRIPTION_KEY,
            ConsumerKey::TargetMetadata => CONSUMER_TARGET_METADATA_KEY,
            ConsumerKey::Target(_) => CONSUMER_TARGET_KEY,
            ConsumerKey::CurrentAssignment(_) => CONSUMER_CURRENT_ASSIGNMENT_KEY,
            ConsumerKey::RegularExpression(_) => CONSUMER_REGULAR_EXPRESSION_KEY,
        }
    }

    /// What stands in the key after the group.
    fn detail(&self) -> Option<&str> {
        match self {
            ConsumerKey::Subscription(member)
            | ConsumerKey::Target(member)
            | ConsumerKey::CurrentAssignment(member) => Some(member.as_str()),
            ConsumerKey::RegularExpression(regex) => Some(regex),
            ConsumerKey::GroupEpoch | ConsumerKey::PartitionMetadata | ConsumerKey::TargetMetadata => None,
        }
    }

    fn read(kind: i16, r: &mut Reader<'_>) -> Result<ConsumerKey, WireError> {
        Ok(match kind {
            CONSUMER_GROUP_EPOCH_KEY => ConsumerKey::GroupEpoch,
            CONSUMER_PARTITION_METADATA_KEY => ConsumerKey::PartitionMetadata,
            CONSUMER_SUBSCRIPTION_KEY => ConsumerKey::Subscription(MemberId::new(r.string()?)),
            CONSUMER_TARGET_METADATA_KEY => ConsumerKey::TargetMetadata,
            CONSUMER_TARGET_KEY => ConsumerKey::Target(MemberId::new(r.string()?)),
            CONSUMER_CURRENT_ASSIGNMENT_KEY => ConsumerKey::CurrentAssignment(MemberId::new(r.string()?)),
            _ => ConsumerKey::RegularExpression(r.string()?.to_string()),
        })
    }
}

impl ShareGroupKey {
    fn kind(&self) -> i16 {
        match self {
            ShareGroupKey::Subscription(_) => SHARE_SUBSCRIPTION_KEY,
            ShareGroupKey::GroupEpoch => SHARE_GROUP_EPOCH_KEY,
            ShareGroupKey::TargetMetadata => SHARE_TARGET_METADATA_KEY,
            ShareGroupKey::Target(_) => SHARE_TARGET_KEY,
            ShareGroupKey::CurrentAssignment(_) => SHARE_CURRENT_ASSIGNMENT_KEY,
            ShareGroupKey::StatePartitions => SHARE_STATE_PARTITIONS_KEY,
        }
    }

    /// Who stands in the key after the group.
    fn member(&self) -> Option<&MemberId> {
        match self {
            ShareGroupKey::Subscription(member)
            | ShareGroupKey::Target(member)
            | ShareGroupKey::CurrentAssignment(member) => Some(member),
            ShareGroupKey::GroupEpoch | ShareGroupKey::TargetMetadata | ShareGroupKey::StatePartitions => {
                None
            }
        }
    }

    fn read(kind: i16, r: &mut Reader<'_>) -> Result<ShareGroupKey, WireError> {
        Ok(match kind {
            SHARE_SUBSCRIPTION_KEY => ShareGroupKey::Subscription(MemberId::new(r.string()?)),
            SHARE_GROUP_EPOCH_KEY => ShareGroupKey::GroupEpoch,
            SHARE_TARGET_METADATA_KEY => ShareGroupKey::TargetMetadata,
            SHARE_TARGET_KEY => ShareGroupKey::Target(MemberId::new(r.string()?)),
            SHARE_CURRENT_ASSIGNMENT_KEY => ShareGroupKey::CurrentAssignment(MemberId::new(r.string()?)),
            _ => ShareGroupKey::StatePartitions,
        })
    }
}

/// Both values have the versions 0 to 4.
fn read_version(r: &mut Reader<'_>) -> Result<i16, WireError> {
    match r.i16()? {
        version @ 0..=4 => Ok(version),
        version => Err(r.error(WireProblem::Version(version))),
    }
}

/// A value of the newer group protocols, which have one version.
fn write(fields: impl FnOnce(&mut Writer)) -> Bytes {
    let mut w = Writer::new();
    w.i16(0);
    fields(&mut w);
    w.finish()
}

fn encode<T: Field>(value: &T) -> Bytes {
    write(|w| value.write(w))
}

fn read<'a, T>(
    what: &'static str,
    bytes: &'a [u8],
    fields: impl FnOnce(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let mut r = Reader::new(what, bytes);
    match r.i16()? {
        0 => {}
        version => return Err(r.error(WireProblem::Version(version))),
    }
    let value = fields(&mut r)?;
    r.finish()?;
    Ok(value)
}

fn decode<T: Field>(what: &'static str, bytes: Option<&[u8]>) -> Result<Option<T>, WireError> {
    bytes.map(|bytes| read(what, bytes, |r| T::read(r))).transpose()
}
