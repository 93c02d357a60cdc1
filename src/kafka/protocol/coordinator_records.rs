//! Keys and values of the group coordinator's records in `__consumer_offsets` (R-INT-2).
//!
//! Mirrors `OffsetCommitKey`/`Value`, `GroupMetadataKey`/`Value` and `GroupCoordinatorRecordHelpers`. A key and a value
//! each start with a version; the key's version is the kind of record. A record without a value is a tombstone.
//!
//! **Invariant:** what is encoded here is, byte for byte, what Kafka 4.3 writes; every version that it reads is read.

use bytes::Bytes;
use uuid::Uuid;

use super::super::types::{
    Generation, GroupId, LeaderEpoch, MemberId, Offset, Topic, TopicId, TopicPartition,
};
use super::wire::{Reader, WireError, WireProblem, Writer};

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
    /// A kind that belongs to another group protocol.
    Other(i16),
}

const LEGACY_OFFSET_COMMIT_KEY: i16 = 0;
const OFFSET_COMMIT_KEY: i16 = 1;
const GROUP_METADATA_KEY: i16 = 2;

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
            RecordKey::Other(kind) => w.i16(*kind),
        }
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<RecordKey, WireError> {
        let mut r = Reader::new("key of __consumer_offsets", bytes);
        let key = match r.i16()? {
            LEGACY_OFFSET_COMMIT_KEY | OFFSET_COMMIT_KEY => {
                let group = GroupId::new(r.string()?);
                let topic = Topic::new(r.string()?);
                RecordKey::OffsetCommit(group, TopicPartition { topic, partition: r.i32()? })
            }
            GROUP_METADATA_KEY => RecordKey::GroupMetadata(GroupId::new(r.string()?)),
            kind => return Ok(RecordKey::Other(kind)),
        };
        r.finish()?;
        Ok(key)
    }
}

/// The position that a group committed for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitValue {
    pub offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub metadata: String,
    /// Milliseconds since 1970.
    pub commit_timestamp_ms: i64,
    /// Milliseconds since 1970; only version 1 has it.
    pub expire_timestamp_ms: Option<i64>,
    pub topic_id: Option<TopicId>,
}

impl OffsetCommitValue {
    /// The version that Kafka 4.3 writes.
    pub const VERSION: i16 = 4;

    pub fn encode(&self, version: i16) -> Bytes {
        let mut w = Writer::new();
        w.i16(version);
        w.i64(self.offset.0);
        if version >= 3 {
            w.i32(self.leader_epoch.0);
        }
        if version >= 4 {
            w.compact_string(&self.metadata);
        } else {
            w.string(&self.metadata);
        }
        w.i64(self.commit_timestamp_ms);
        if version == 1 {
            w.i64(self.expire_timestamp_ms.unwrap_or(-1));
        }
        if version >= 4 {
            let topic_id = self.topic_id.map(|id| Writer::tagged(0, |w| w.uuid(id.0)));
            w.tags(topic_id.as_slice());
        }
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<OffsetCommitValue, WireError> {
        let mut r = Reader::new("OffsetCommitValue", bytes);
        let version = read_version(&mut r)?;
        let mut value = OffsetCommitValue {
            offset: Offset(r.i64()?),
            leader_epoch: if version >= 3 { LeaderEpoch(r.i32()?) } else { LeaderEpoch::NONE },
            metadata: if version >= 4 { r.compact_string()? } else { r.string()? }.to_string(),
            commit_timestamp_ms: r.i64()?,
            expire_timestamp_ms: if version == 1 { Some(r.i64()?).filter(|ms| *ms >= 0) } else { None },
            topic_id: None,
        };
        if version >= 4 {
            for (tag, mut field) in r.tags()? {
                if tag == 0 {
                    value.topic_id = Some(TopicId(field.uuid()?)).filter(|id| id.0 != Uuid::nil());
                }
            }
        }
        r.finish()?;
        Ok(value)
    }
}

/// The state of a classic group when it was last Stable or Empty (R-GRP-5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetadataValue {
    /// Empty for a group that never had a member.
    pub protocol_type: String,
    pub generation: Generation,
    pub protocol: Option<String>,
    pub leader: Option<MemberId>,
    /// Milliseconds since 1970.
    pub current_state_timestamp_ms: Option<i64>,
    pub members: Vec<MemberMetadata>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberMetadata {
    pub member_id: MemberId,
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub subscription: Bytes,
    pub assignment: Bytes,
}

impl GroupMetadataValue {
    /// The version that Kafka 4.3 writes.
    pub const VERSION: i16 = 3;

    /// Bytes at [`GroupMetadataValue::VERSION`].
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.i16(Self::VERSION);
        w.string(&self.protocol_type);
        w.i32(self.generation.0);
        w.nullable_string(self.protocol.as_deref());
        w.nullable_string(self.leader.as_ref().map(MemberId::as_str));
        w.i64(self.current_state_timestamp_ms.unwrap_or(-1));
        w.array(&self.members, |w, member| {
            w.string(member.member_id.as_str());
            w.nullable_string(member.group_instance_id.as_deref());
            w.string(&member.client_id);
            w.string(&member.client_host);
            w.i32(member.rebalance_timeout_ms);
            w.i32(member.session_timeout_ms);
            w.bytes(&member.subscription);
            w.bytes(&member.assignment);
        });
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<GroupMetadataValue, WireError> {
        let mut r = Reader::new("GroupMetadataValue", bytes);
        let version = read_version(&mut r)?;
        let value = if version >= 4 { Self::flexible(&mut r)? } else { Self::plain(&mut r, version)? };
        r.finish()?;
        Ok(value)
    }

    fn plain(r: &mut Reader<'_>, version: i16) -> Result<GroupMetadataValue, WireError> {
        Ok(GroupMetadataValue {
            protocol_type: r.string()?.to_string(),
            generation: Generation(r.i32()?),
            protocol: r.nullable_string()?.map(str::to_string),
            leader: r.nullable_string()?.map(MemberId::new),
            current_state_timestamp_ms: if version >= 2 {
                Some(r.i64()?).filter(|ms| *ms >= 0)
            } else {
                None
            },
            members: r.array(|r| {
                let member_id = MemberId::new(r.string()?);
                let group_instance_id =
                    if version >= 3 { r.nullable_string()? } else { None }.map(str::to_string);
                let client_id = r.string()?.to_string();
                let client_host = r.string()?.to_string();
                let rebalance_timeout_ms = if version >= 1 { r.i32()? } else { -1 };
                let session_timeout_ms = r.i32()?;
                Ok(MemberMetadata {
                    member_id,
                    group_instance_id,
                    client_id,
                    client_host,
                    rebalance_timeout_ms,
                    session_timeout_ms,
                    subscription: Bytes::copy_from_slice(r.bytes()?),
                    assignment: Bytes::copy_from_slice(r.bytes()?),
                })
            })?,
        })
    }

    fn flexible(r: &mut Reader<'_>) -> Result<GroupMetadataValue, WireError> {
        let value = GroupMetadataValue {
            protocol_type: r.compact_string()?.to_string(),
            generation: Generation(r.i32()?),
            protocol: r.compact_nullable_string()?.map(str::to_string),
            leader: r.compact_nullable_string()?.map(MemberId::new),
            current_state_timestamp_ms: Some(r.i64()?).filter(|ms| *ms >= 0),
            members: r.compact_array(|r| {
                let member = MemberMetadata {
                    member_id: MemberId::new(r.compact_string()?),
                    group_instance_id: r.compact_nullable_string()?.map(str::to_string),
                    client_id: r.compact_string()?.to_string(),
                    client_host: r.compact_string()?.to_string(),
                    rebalance_timeout_ms: r.i32()?,
                    session_timeout_ms: r.i32()?,
                    subscription: Bytes::copy_from_slice(r.compact_bytes()?),
                    assignment: Bytes::copy_from_slice(r.compact_bytes()?),
                };
                r.tags()?;
                Ok(member)
            })?,
        };
        r.tags()?;
        Ok(value)
    }
}

/// Both values have the versions 0 to 4.
fn read_version(r: &mut Reader<'_>) -> Result<i16, WireError> {
    match r.i16()? {
        version @ 0..=4 => Ok(version),
        version => Err(r.error(WireProblem::Version(version))),
    }
}
