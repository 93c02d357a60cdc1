//! Share groups (KIP-932; `ShareGroup*Value`).

use bytes::Bytes;

use super::{
    CoordinatorRecord, GroupEpochValue, RecordKey, ShareGroupKey, TargetMetadataValue, TargetTopic,
    read_only_version,
};
use crate::kafka::protocol::wire::{Reader, WireError, Writer};
use crate::kafka::types::{GroupEpoch, GroupId, MemberId, Topic, TopicId};

/// A record of a share group; no value means that the key is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShareGroupRecord {
    Subscription(MemberId, Option<ShareSubscriptionValue>),
    GroupEpoch(Option<GroupEpochValue>),
    TargetMetadata(Option<TargetMetadataValue>),
    Target(MemberId, Option<Vec<TargetTopic>>),
    CurrentAssignment(MemberId, Option<ShareCurrentAssignmentValue>),
    StatePartitions(Option<StatePartitionsValue>),
}

/// `ShareGroupMemberMetadataValue`: what a member said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSubscriptionValue {
    pub rack_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub topic_names: Vec<String>,
}

/// `ShareGroupCurrentMemberAssignmentValue`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareCurrentAssignmentValue {
    pub member_epoch: GroupEpoch,
    pub previous_member_epoch: GroupEpoch,
    /// The number of a `MemberState`.
    pub state: i8,
    pub assigned: Vec<TargetTopic>,
}

/// `ShareGroupStatePartitionMetadataValue`: how far the share coordinators are with the group's states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatePartitionsValue {
    pub initializing: Vec<StateTopic>,
    pub initialized: Vec<StateTopic>,
    /// Topics of which all states are being deleted.
    pub deleting: Vec<(TopicId, Topic)>,
}

/// Partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTopic {
    pub topic_id: TopicId,
    pub name: Topic,
    pub partitions: Vec<i32>,
}

impl ShareGroupRecord {
    /// # Errors
    /// The bytes are no value of the key's kind.
    pub fn decode(key: ShareGroupKey, value: Option<&[u8]>) -> Result<ShareGroupRecord, WireError> {
        Ok(match key {
            ShareGroupKey::Subscription(member) => {
                let value = value.map(ShareSubscriptionValue::decode).transpose()?;
                ShareGroupRecord::Subscription(member, value)
            }
            ShareGroupKey::GroupEpoch => {
                ShareGroupRecord::GroupEpoch(value.map(decode_group_epoch).transpose()?)
            }
            ShareGroupKey::TargetMetadata => {
                // The same fields as a consumer group's.
                ShareGroupRecord::TargetMetadata(value.map(TargetMetadataValue::decode).transpose()?)
            }
            ShareGroupKey::Target(member) => {
                ShareGroupRecord::Target(member, value.map(TargetTopic::decode).transpose()?)
            }
            ShareGroupKey::CurrentAssignment(member) => {
                let value = value.map(ShareCurrentAssignmentValue::decode).transpose()?;
                ShareGroupRecord::CurrentAssignment(member, value)
            }
            ShareGroupKey::StatePartitions => {
                ShareGroupRecord::StatePartitions(value.map(StatePartitionsValue::decode).transpose()?)
            }
        })
    }

    pub fn encode(&self, group: &GroupId) -> CoordinatorRecord {
        let (key, value) = match self {
            ShareGroupRecord::Subscription(member, value) => {
                let value = value.as_ref().map(ShareSubscriptionValue::encode);
                (ShareGroupKey::Subscription(member.clone()), value)
            }
            ShareGroupRecord::GroupEpoch(value) => {
                (ShareGroupKey::GroupEpoch, value.as_ref().map(encode_group_epoch))
            }
            ShareGroupRecord::TargetMetadata(value) => {
                (ShareGroupKey::TargetMetadata, value.as_ref().map(TargetMetadataValue::encode))
            }
            ShareGroupRecord::Target(member, value) => {
                (ShareGroupKey::Target(member.clone()), value.as_deref().map(TargetTopic::encode))
            }
            ShareGroupRecord::CurrentAssignment(member, value) => {
                let value = value.as_ref().map(ShareCurrentAssignmentValue::encode);
                (ShareGroupKey::CurrentAssignment(member.clone()), value)
            }
            ShareGroupRecord::StatePartitions(value) => {
                (ShareGroupKey::StatePartitions, value.as_ref().map(StatePartitionsValue::encode))
            }
        };
        CoordinatorRecord { key: RecordKey::Share(group.clone(), key).encode(), value }
    }
}

/// A value of the only version there is; each ends with its tagged fields, of which there are none.
fn write(fields: impl FnOnce(&mut Writer)) -> Bytes {
    let mut w = Writer::new();
    w.i16(0);
    fields(&mut w);
    w.tags(&[]);
    w.finish()
}

fn read<'a, T>(
    what: &'static str,
    bytes: &'a [u8],
    fields: impl FnOnce(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<T, WireError> {
    let mut r = Reader::new(what, bytes);
    read_only_version(&mut r)?;
    let value = fields(&mut r)?;
    r.tags()?;
    r.finish()?;
    Ok(value)
}

/// `ShareGroupMetadataValue`: the hash has its place, where a consumer group's is tagged.
fn encode_group_epoch(value: &GroupEpochValue) -> Bytes {
    write(|w| {
        w.i32(value.epoch.0);
        w.i64(value.metadata_hash);
    })
}

fn decode_group_epoch(bytes: &[u8]) -> Result<GroupEpochValue, WireError> {
    read("ShareGroupMetadataValue", bytes, |r| {
        Ok(GroupEpochValue { epoch: GroupEpoch(r.i32()?), metadata_hash: r.i64()? })
    })
}

impl ShareSubscriptionValue {
    fn encode(&self) -> Bytes {
        write(|w| {
            w.compact_nullable_string(self.rack_id.as_deref());
            w.compact_string(&self.client_id);
            w.compact_string(&self.client_host);
            w.compact_array(&self.topic_names, |w, name| w.compact_string(name));
        })
    }

    fn decode(bytes: &[u8]) -> Result<ShareSubscriptionValue, WireError> {
        read("ShareGroupMemberMetadataValue", bytes, |r| {
            Ok(ShareSubscriptionValue {
                rack_id: r.compact_nullable_string()?.map(str::to_string),
                client_id: r.compact_string()?.to_string(),
                client_host: r.compact_string()?.to_string(),
                topic_names: r.compact_array(|r| Ok(r.compact_string()?.to_string()))?,
            })
        })
    }
}

impl ShareCurrentAssignmentValue {
    fn encode(&self) -> Bytes {
        write(|w| {
            w.i32(self.member_epoch.0);
            w.i32(self.previous_member_epoch.0);
            w.i8(self.state);
            w.compact_array(&self.assigned, |w, topic| {
                w.uuid(topic.topic_id.0);
                w.compact_array(&topic.partitions, |w, partition| w.i32(*partition));
                w.tags(&[]);
            });
        })
    }

    fn decode(bytes: &[u8]) -> Result<ShareCurrentAssignmentValue, WireError> {
        read("ShareGroupCurrentMemberAssignmentValue", bytes, |r| {
            Ok(ShareCurrentAssignmentValue {
                member_epoch: GroupEpoch(r.i32()?),
                previous_member_epoch: GroupEpoch(r.i32()?),
                state: r.i8()?,
                assigned: r.compact_array(|r| {
                    let topic_id = TopicId(r.uuid()?);
                    let partitions = r.compact_array(|r| r.i32())?;
                    r.tags()?;
                    Ok(TargetTopic { topic_id, partitions })
                })?,
            })
        })
    }
}

impl StatePartitionsValue {
    fn encode(&self) -> Bytes {
        write(|w| {
            w.compact_array(&self.initializing, |w, topic| topic.write(w));
            w.compact_array(&self.initialized, |w, topic| topic.write(w));
            w.compact_array(&self.deleting, |w, (id, name)| {
                w.uuid(id.0);
                w.compact_string(name.as_str());
                w.tags(&[]);
            });
        })
    }

    fn decode(bytes: &[u8]) -> Result<StatePartitionsValue, WireError> {
        read("ShareGroupStatePartitionMetadataValue", bytes, |r| {
            Ok(StatePartitionsValue {
                initializing: r.compact_array(StateTopic::read)?,
                initialized: r.compact_array(StateTopic::read)?,
                deleting: r.compact_array(|r| {
                    let topic = (TopicId(r.uuid()?), Topic::new(r.compact_string()?));
                    r.tags()?;
                    Ok(topic)
                })?,
            })
        })
    }
}

impl StateTopic {
    fn write(&self, w: &mut Writer) {
        w.uuid(self.topic_id.0);
        w.compact_string(self.name.as_str());
        w.compact_array(&self.partitions, |w, partition| w.i32(*partition));
        w.tags(&[]);
    }

    fn read(r: &mut Reader<'_>) -> Result<StateTopic, WireError> {
        let topic_id = TopicId(r.uuid()?);
        let name = Topic::new(r.compact_string()?);
        let partitions = r.compact_array(|r| r.i32())?;
        r.tags()?;
        Ok(StateTopic { topic_id, name, partitions })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ID: TopicId = TopicId(Uuid::from_u128(7));

    /// The bytes are as Kafka writes them, and read back as what they were.
    #[track_caller]
    fn check(record: ShareGroupRecord, key: &[u8], value: &[u8]) {
        let encoded = record.encode(&"g".into());
        assert_eq!(&encoded.key[..], key);
        assert_eq!(encoded.value.as_deref(), Some(value));
        let RecordKey::Share(group, kind) = RecordKey::decode(&encoded.key).expect("it is a key") else {
            panic!("another kind")
        };
        assert_eq!((group, ShareGroupRecord::decode(kind, Some(value))), ("g".into(), Ok(record)));
    }

    #[test]
    fn members_and_epochs_are_written_as_kafka_writes_them_r_share_1() {
        let subscription = ShareSubscriptionValue {
            rack_id: None,
            client_id: "c".into(),
            client_host: "/h".into(),
            topic_names: vec!["t".into()],
        };
        let record = ShareGroupRecord::Subscription("m".into(), Some(subscription));
        let key = [0, 10, 0, 1, b'g', 0, 1, b'm'];
        check(record, &key, &[0, 0, 0, 2, b'c', 3, b'/', b'h', 2, 2, b't', 0]);

        let epoch = GroupEpochValue { epoch: GroupEpoch(3), metadata_hash: 258 };
        let record = ShareGroupRecord::GroupEpoch(Some(epoch));
        check(record, &[0, 11, 0, 1, b'g'], &[0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 2, 0]);
    }

    #[test]
    fn assignments_are_written_as_kafka_writes_them_r_share_2() {
        let target = TargetMetadataValue { epoch: GroupEpoch(3), timestamp_ms: 0 };
        check(ShareGroupRecord::TargetMetadata(Some(target)), &[0, 12, 0, 1, b'g'], &[0, 0, 0, 0, 0, 3, 0]);

        let topics = || vec![TargetTopic { topic_id: ID, partitions: vec![0, 2] }];
        let id_and_partitions =
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0];
        let key = |kind| [0, kind, 0, 1, b'g', 0, 1, b'm'];
        let value = [&[0, 0, 2], &id_and_partitions[..], &[0]].concat();
        check(ShareGroupRecord::Target("m".into(), Some(topics())), &key(13), &value);

        let current = ShareCurrentAssignmentValue {
            member_epoch: GroupEpoch(3),
            previous_member_epoch: GroupEpoch(2),
            state: 0,
            assigned: topics(),
        };
        let value = [&[0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 2], &id_and_partitions[..], &[0]].concat();
        check(ShareGroupRecord::CurrentAssignment("m".into(), Some(current)), &key(14), &value);
    }

    #[test]
    fn states_that_begin_and_end_are_written_as_kafka_writes_them_r_share_3() {
        let topic = |partitions| StateTopic { topic_id: ID, name: "t".into(), partitions };
        let states = StatePartitionsValue {
            initializing: vec![topic(vec![1])],
            initialized: Vec::new(),
            deleting: vec![(ID, "t".into())],
        };
        let id = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
        let value =
            [&[0, 0, 2], &id[..], &[2, b't', 2, 0, 0, 0, 1, 0, 1, 2], &id[..], &[2, b't', 0, 0]].concat();
        check(ShareGroupRecord::StatePartitions(Some(states)), &[0, 15, 0, 1, b'g'], &value);
    }

    #[test]
    fn a_record_without_a_value_deletes() {
        let gone = ShareGroupRecord::Target("m".into(), None);
        let encoded = gone.encode(&"g".into());
        assert_eq!(encoded.value, None);
        let kind = ShareGroupKey::Target("m".into());
        assert_eq!(ShareGroupRecord::decode(kind, None), Ok(gone));
    }
}
