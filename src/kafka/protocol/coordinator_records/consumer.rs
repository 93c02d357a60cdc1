//! Consumer groups of the newer protocol (KIP-848; `ConsumerGroup*Value`).

use bytes::Bytes;

use super::{ConsumerKey, CoordinatorRecord, RecordKey, decode, encode, read, write};
use crate::kafka::protocol::wire::{Field, Reader, WireError, Writer, tables};
use crate::kafka::types::{GroupEpoch, GroupId, MemberId, TopicId};

/// A record of a consumer group; no value means that the key is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerRecord {
    GroupEpoch(Option<GroupEpochValue>),
    /// Kafka 4.3 reads only whether there is one, and deletes it.
    PartitionMetadata {
        present: bool,
    },
    Subscription(MemberId, Option<SubscriptionValue>),
    TargetMetadata(Option<TargetMetadataValue>),
    Target(MemberId, Option<Vec<TargetTopic>>),
    CurrentAssignment(MemberId, Option<CurrentAssignmentValue>),
    RegularExpression(String, Option<RegularExpressionValue>),
}

/// `ConsumerGroupMetadataValue`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEpochValue {
    pub epoch: GroupEpoch,
    /// Of all topics that the group subscribes to; 0 without any.
    pub metadata_hash: i64,
}

/// `ConsumerGroupMemberMetadataValue`: what a member said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionValue {
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub topic_names: Vec<String>,
    pub topic_regex: Option<String>,
    /// -1 if it said none.
    pub rebalance_timeout_ms: i32,
    pub server_assignor: Option<String>,
    /// Of a member that speaks the classic protocol.
    pub classic: Option<ClassicMemberMetadata>,
}

/// `ConsumerGroupTargetAssignmentMetadataValue`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetMetadataValue {
    pub epoch: GroupEpoch,
    /// When it was computed, in milliseconds since 1970; 0 if that is not known (KIP-1263).
    pub timestamp_ms: i64,
}

/// One topic of a current assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignedTopic {
    pub topic_id: TopicId,
    pub partitions: Vec<i32>,
    /// The epoch at which the member was given each of `partitions`; not known before Kafka 4.3 (KIP-1251).
    pub epochs: Option<Vec<GroupEpoch>>,
}

tables! {
    ClassicMemberMetadata {
        session_timeout_ms: i32,
        supported_protocols: Vec<ClassicProtocol>,
    }

    ClassicProtocol {
        name: String,
        metadata: Bytes,
    }

    /// `ConsumerGroupTargetAssignmentMemberValue`
    TargetValue {
        topics: Vec<TargetTopic>,
    }

    /// One topic of a target assignment.
    TargetTopic {
        topic_id: TopicId,
        partitions: Vec<i32>,
    }

    /// `ConsumerGroupCurrentMemberAssignmentValue`
    CurrentAssignmentValue {
        member_epoch: GroupEpoch,
        previous_member_epoch: GroupEpoch,
        /// The number of a `MemberState`.
        state: i8,
        assigned: Vec<AssignedTopic>,
        pending_revocation: Vec<AssignedTopic>,
    }

    /// `ConsumerGroupRegularExpressionValue`
    RegularExpressionValue {
        topics: Vec<String>,
        /// The metadata offset at which it was resolved.
        version: i64,
        /// Milliseconds since 1970.
        timestamp_ms: i64,
    }
}

impl ConsumerRecord {
    /// # Errors
    /// The bytes are no value of the key's kind.
    pub fn decode(key: ConsumerKey, value: Option<&[u8]>) -> Result<ConsumerRecord, WireError> {
        Ok(match key {
            ConsumerKey::GroupEpoch => {
                ConsumerRecord::GroupEpoch(value.map(GroupEpochValue::decode).transpose()?)
            }
            ConsumerKey::PartitionMetadata => ConsumerRecord::PartitionMetadata { present: value.is_some() },
            ConsumerKey::Subscription(member) => {
                ConsumerRecord::Subscription(member, value.map(SubscriptionValue::decode).transpose()?)
            }
            ConsumerKey::TargetMetadata => {
                ConsumerRecord::TargetMetadata(value.map(TargetMetadataValue::decode).transpose()?)
            }
            ConsumerKey::Target(member) => ConsumerRecord::Target(member, decode_target(value)?),
            ConsumerKey::CurrentAssignment(member) => {
                let value = decode("ConsumerGroupCurrentMemberAssignmentValue", value)?;
                ConsumerRecord::CurrentAssignment(member, value)
            }
            ConsumerKey::RegularExpression(regex) => {
                let value = decode("ConsumerGroupRegularExpressionValue", value)?;
                ConsumerRecord::RegularExpression(regex, value)
            }
        })
    }

    pub fn encode(&self, group: &GroupId) -> CoordinatorRecord {
        let (key, value) = match self {
            ConsumerRecord::GroupEpoch(value) => {
                (ConsumerKey::GroupEpoch, value.as_ref().map(GroupEpochValue::encode))
            }
            ConsumerRecord::PartitionMetadata { present } => {
                assert!(!present, "Kafka 4.3 only deletes subscription metadata");
                (ConsumerKey::PartitionMetadata, None)
            }
            ConsumerRecord::Subscription(member, value) => {
                (ConsumerKey::Subscription(member.clone()), value.as_ref().map(SubscriptionValue::encode))
            }
            ConsumerRecord::TargetMetadata(value) => {
                (ConsumerKey::TargetMetadata, value.as_ref().map(TargetMetadataValue::encode))
            }
            ConsumerRecord::Target(member, value) => {
                (ConsumerKey::Target(member.clone()), value.as_deref().map(encode_target))
            }
            ConsumerRecord::CurrentAssignment(member, value) => {
                (ConsumerKey::CurrentAssignment(member.clone()), value.as_ref().map(encode))
            }
            ConsumerRecord::RegularExpression(regex, value) => {
                (ConsumerKey::RegularExpression(regex.clone()), value.as_ref().map(encode))
            }
        };
        CoordinatorRecord { key: RecordKey::Consumer(group.clone(), key).encode(), value }
    }
}

/// Consumer groups and share groups have the same.
pub(super) fn encode_target(topics: &[TargetTopic]) -> Bytes {
    encode(&TargetValue { topics: topics.to_vec() })
}

pub(super) fn decode_target(value: Option<&[u8]>) -> Result<Option<Vec<TargetTopic>>, WireError> {
    let target: Option<TargetValue> = decode("TargetAssignmentMemberValue", value)?;
    Ok(target.map(|target| target.topics))
}

/// The number in a tagged field; 0 without it.
fn read_number(r: &mut Reader<'_>) -> Result<i64, WireError> {
    let mut number = 0;
    for (tag, mut field) in r.tags()? {
        if tag == 0 {
            number = field.i64()?;
        }
    }
    Ok(number)
}

fn write_number(w: &mut Writer, number: i64) {
    let field = (number != 0).then(|| Writer::tagged(0, |w| w.i64(number)));
    w.tags(field.as_slice());
}

impl GroupEpochValue {
    fn encode(&self) -> Bytes {
        write(|w| {
            w.i32(self.epoch.0);
            write_number(w, self.metadata_hash);
        })
    }

    fn decode(bytes: &[u8]) -> Result<GroupEpochValue, WireError> {
        read("ConsumerGroupMetadataValue", bytes, |r| {
            Ok(GroupEpochValue { epoch: GroupEpoch(r.i32()?), metadata_hash: read_number(r)? })
        })
    }
}

impl TargetMetadataValue {
    pub(super) fn encode(&self) -> Bytes {
        write(|w| {
            w.i32(self.epoch.0);
            write_number(w, self.timestamp_ms);
        })
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<TargetMetadataValue, WireError> {
        read("ConsumerGroupTargetAssignmentMetadataValue", bytes, |r| {
            Ok(TargetMetadataValue { epoch: GroupEpoch(r.i32()?), timestamp_ms: read_number(r)? })
        })
    }
}

impl SubscriptionValue {
    fn encode(&self) -> Bytes {
        write(|w| {
            w.compact_nullable_string(self.instance_id.as_deref());
            w.compact_nullable_string(self.rack_id.as_deref());
            w.compact_string(&self.client_id);
            w.compact_string(&self.client_host);
            w.compact_array(&self.topic_names, |w, name| w.compact_string(name));
            w.compact_nullable_string(self.topic_regex.as_deref());
            w.i32(self.rebalance_timeout_ms);
            w.compact_nullable_string(self.server_assignor.as_deref());
            let classic = self.classic.as_ref();
            // A byte says that it is not null.
            let present = |w: &mut Writer, classic: &ClassicMemberMetadata| {
                w.i8(1);
                classic.write(w);
            };
            let classic = classic.map(|classic| Writer::tagged(0, |w| present(w, classic)));
            w.tags(classic.as_slice());
        })
    }

    fn decode(bytes: &[u8]) -> Result<SubscriptionValue, WireError> {
        let text = |text: &str| text.to_string();
        read("ConsumerGroupMemberMetadataValue", bytes, |r| {
            let mut value = SubscriptionValue {
                instance_id: r.compact_nullable_string()?.map(text),
                rack_id: r.compact_nullable_string()?.map(text),
                client_id: r.compact_string()?.to_string(),
                client_host: r.compact_string()?.to_string(),
                topic_names: r.compact_array(|r| Ok(r.compact_string()?.to_string()))?,
                topic_regex: r.compact_nullable_string()?.map(text),
                rebalance_timeout_ms: r.i32()?,
                server_assignor: r.compact_nullable_string()?.map(text),
                classic: None,
            };
            for (tag, mut field) in r.tags()? {
                if tag == 0 && field.i8()? >= 0 {
                    value.classic = Some(ClassicMemberMetadata::read(&mut field)?);
                }
            }
            Ok(value)
        })
    }
}

impl Field for AssignedTopic {
    fn write(&self, w: &mut Writer) {
        self.topic_id.write(w);
        self.partitions.write(w);
        let epochs = self.epochs.as_deref();
        let epochs =
            epochs.map(|epochs| Writer::tagged(0, |w| w.compact_array(epochs, |w, epoch| w.i32(epoch.0))));
        w.tags(epochs.as_slice());
    }

    fn read(r: &mut Reader<'_>) -> Result<AssignedTopic, WireError> {
        let mut topic =
            AssignedTopic { topic_id: Field::read(r)?, partitions: Field::read(r)?, epochs: None };
        for (tag, mut field) in r.tags()? {
            if tag == 0 {
                topic.epochs = field.compact_nullable_array(|r| Ok(GroupEpoch(r.i32()?)))?;
            }
        }
        Ok(topic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(record: ConsumerRecord, key: &[u8], value: Option<&[u8]>) {
        let group = GroupId::new("g");
        let written = record.encode(&group);
        assert_eq!(&written.key[..], key, "key of {record:?}");
        assert_eq!(written.value.as_deref(), value, "value of {record:?}");
        let Ok(RecordKey::Consumer(named, kind)) = RecordKey::decode(key) else { panic!("no key: {key:?}") };
        assert_eq!((named, ConsumerRecord::decode(kind, value)), (group, Ok(record)));
    }

    #[test]
    fn groups_members_targets_and_assignments_have_records_of_their_own_r_cg8_26() {
        let m = || MemberId::new("m");
        let subscription = SubscriptionValue {
            instance_id: None,
            rack_id: Some("r".to_string()),
            client_id: "c".to_string(),
            client_host: "h".to_string(),
            topic_names: vec!["t".to_string()],
            topic_regex: Some(String::new()),
            rebalance_timeout_ms: 1,
            server_assignor: None,
            classic: None,
        };
        let plain = b"\0\0\0\x02r\x02c\x02h\x02\x02t\x01\0\0\0\x01\0\0";
        check(
            ConsumerRecord::Subscription(m(), Some(subscription.clone())),
            b"\0\x05\0\x01g\0\x01m",
            Some(plain),
        );
        let supported_protocols =
            vec![ClassicProtocol { name: "x".to_string(), metadata: Bytes::from_static(b"y") }];
        let classic = Some(ClassicMemberMetadata { session_timeout_ms: 9, supported_protocols });
        let tagged =
            b"\0\0\0\x02r\x02c\x02h\x02\x02t\x01\0\0\0\x01\0\x01\0\x0c\x01\0\0\0\x09\x02\x02x\x02y\0\0";
        check(
            ConsumerRecord::Subscription(m(), Some(SubscriptionValue { classic, ..subscription })),
            b"\0\x05\0\x01g\0\x01m",
            Some(tagged),
        );
        check(
            ConsumerRecord::GroupEpoch(Some(GroupEpochValue { epoch: GroupEpoch(3), metadata_hash: 7 })),
            b"\0\x03\0\x01g",
            Some(b"\0\0\0\0\0\x03\x01\0\x08\0\0\0\0\0\0\0\x07"),
        );
        check(
            ConsumerRecord::TargetMetadata(Some(TargetMetadataValue {
                epoch: GroupEpoch(3),
                timestamp_ms: 5,
            })),
            b"\0\x06\0\x01g",
            Some(b"\0\0\0\0\0\x03\x01\0\x08\0\0\0\0\0\0\0\x05"),
        );
        let assigned = AssignedTopic {
            topic_id: TopicId(uuid::Uuid::from_u128(1)),
            partitions: vec![4],
            epochs: Some(vec![GroupEpoch(2)]),
        };
        let current = CurrentAssignmentValue {
            member_epoch: GroupEpoch(3),
            previous_member_epoch: GroupEpoch(2),
            state: 2,
            assigned: vec![assigned],
            pending_revocation: vec![],
        };
        let id = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";
        let value = [
            b"\0\0\0\0\0\x03\0\0\0\x02\x02\x02" as &[u8],
            id,
            b"\x02\0\0\0\x04\x01\0\x05\x02\0\0\0\x02\x01\0",
        ];
        check(
            ConsumerRecord::CurrentAssignment(m(), Some(current)),
            b"\0\x08\0\x01g\0\x01m",
            Some(&value.concat()),
        );
        let resolved = RegularExpressionValue { topics: vec!["t".to_string()], version: 1, timestamp_ms: 2 };
        check(
            ConsumerRecord::RegularExpression("t.*".to_string(), Some(resolved)),
            b"\0\x10\0\x01g\0\x03t.*",
            Some(b"\0\0\x02\x02t\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0"),
        );
        check(ConsumerRecord::Target(m(), None), b"\0\x07\0\x01g\0\x01m", None);
        check(ConsumerRecord::PartitionMetadata { present: false }, b"\0\x04\0\x01g", None);
    }
}
