//! Classic groups (`GroupMetadataValue`).

use bytes::Bytes;

use super::read_version;
use crate::kafka::protocol::wire::{Reader, WireError, Writer};
use crate::kafka::types::{Generation, MemberId};

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
