//! Share groups (KIP-932; `ShareGroup*Value`).

use bytes::Bytes;

use super::consumer::{decode_target, encode_target};
use super::{
    CoordinatorRecord, GroupEpochValue, RecordKey, ShareGroupKey, TargetMetadataValue, TargetTopic, decode,
    encode, read, write,
};
use crate::kafka::protocol::wire::{WireError, tables};
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

tables! {
    /// `ShareGroupMemberMetadataValue`: what a member said of itself.
    ShareSubscriptionValue {
        rack_id: Option<String>,
        client_id: String,
        client_host: String,
        topic_names: Vec<String>,
    }

    /// `ShareGroupCurrentMemberAssignmentValue`
    ShareCurrentAssignmentValue {
        member_epoch: GroupEpoch,
        previous_member_epoch: GroupEpoch,
        /// The number of a `MemberState`.
        state: i8,
        assigned: Vec<TargetTopic>,
    }

    /// `ShareGroupStatePartitionMetadataValue`: how far the share coordinators are with the group's states.
    #[derive(Default)]
    StatePartitionsValue {
        initializing: Vec<StateTopic>,
        initialized: Vec<StateTopic>,
        /// Topics of which all states are being deleted.
        deleting: Vec<(TopicId, Topic)>,
    }

    /// Partitions of one topic.
    StateTopic {
        topic_id: TopicId,
        name: Topic,
        partitions: Vec<i32>,
    }
}

impl ShareGroupRecord {
    /// # Errors
    /// The bytes are no value of the key's kind.
    pub fn decode(key: ShareGroupKey, value: Option<&[u8]>) -> Result<ShareGroupRecord, WireError> {
        Ok(match key {
            ShareGroupKey::Subscription(member) => {
                ShareGroupRecord::Subscription(member, decode("ShareGroupMemberMetadataValue", value)?)
            }
            ShareGroupKey::GroupEpoch => {
                ShareGroupRecord::GroupEpoch(value.map(decode_group_epoch).transpose()?)
            }
            ShareGroupKey::TargetMetadata => {
                // The same fields as a consumer group's.
                ShareGroupRecord::TargetMetadata(value.map(TargetMetadataValue::decode).transpose()?)
            }
            ShareGroupKey::Target(member) => ShareGroupRecord::Target(member, decode_target(value)?),
            ShareGroupKey::CurrentAssignment(member) => {
                let value = decode("ShareGroupCurrentMemberAssignmentValue", value)?;
                ShareGroupRecord::CurrentAssignment(member, value)
            }
            ShareGroupKey::StatePartitions => {
                ShareGroupRecord::StatePartitions(decode("ShareGroupStatePartitionMetadataValue", value)?)
            }
        })
    }

    pub fn encode(&self, group: &GroupId) -> CoordinatorRecord {
        let (key, value) = match self {
            ShareGroupRecord::Subscription(member, value) => {
                (ShareGroupKey::Subscription(member.clone()), value.as_ref().map(encode))
            }
            ShareGroupRecord::GroupEpoch(value) => {
                (ShareGroupKey::GroupEpoch, value.as_ref().map(encode_group_epoch))
            }
            ShareGroupRecord::TargetMetadata(value) => {
                (ShareGroupKey::TargetMetadata, value.as_ref().map(TargetMetadataValue::encode))
            }
            ShareGroupRecord::Target(member, value) => {
                (ShareGroupKey::Target(member.clone()), value.as_deref().map(encode_target))
            }
            ShareGroupRecord::CurrentAssignment(member, value) => {
                (ShareGroupKey::CurrentAssignment(member.clone()), value.as_ref().map(encode))
            }
            ShareGroupRecord::StatePartitions(value) => {
                (ShareGroupKey::StatePartitions, value.as_ref().map(encode))
            }
        };
        CoordinatorRecord { key: RecordKey::Share(group.clone(), key).encode(), value }
    }
}

/// `ShareGroupMetadataValue`: the hash has its place, where a consumer group's is tagged.
fn encode_group_epoch(value: &GroupEpochValue) -> Bytes {
    write(|w| {
        w.i32(value.epoch.0);
        w.i64(value.metadata_hash);
        w.tags(&[]);
    })
}

fn decode_group_epoch(bytes: &[u8]) -> Result<GroupEpochValue, WireError> {
    read("ShareGroupMetadataValue", bytes, |r| {
        let value = GroupEpochValue { epoch: GroupEpoch(r.i32()?), metadata_hash: r.i64()? };
        r.tags()?;
        Ok(value)
    })
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
