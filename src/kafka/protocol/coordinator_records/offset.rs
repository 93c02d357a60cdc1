//! Committed offsets (`OffsetCommitValue`).

use bytes::Bytes;
use uuid::Uuid;

use super::read_version;
use crate::kafka::protocol::wire::{Reader, WireError, Writer};
use crate::kafka::types::{LeaderEpoch, Offset, TopicId};

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
