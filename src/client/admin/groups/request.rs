//! An errand's requests.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use kafka_protocol::messages::delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic;
use kafka_protocol::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::protocol::StrBytes;

use super::{ListFilter, Mark};
use crate::kafka::event::OffsetReset;
use crate::kafka::protocol::{Request, SameAsVersion0};
use crate::kafka::types::{GroupId, Offset, Topic, TopicPartition};

/// ListOffsets knows these as timestamps.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
/// Who asks is no replica, and no member.
const NOBODY: i32 = -1;

fn id(group: &GroupId) -> m::GroupId {
    m::GroupId(group.to_wire())
}

fn by_topic<T>(items: impl Iterator<Item = (TopicPartition, T)>) -> BTreeMap<Topic, Vec<(i32, T)>> {
    let mut topics: BTreeMap<Topic, Vec<(i32, T)>> = BTreeMap::new();
    items.for_each(|(tp, item)| topics.entry(tp.topic).or_default().push((tp.partition, item)));
    topics
}

/// Brokers leave out what does not pass.
pub(super) fn list(filter: &ListFilter) -> Request {
    let names = |names: &[&'static str]| names.iter().copied().map(StrBytes::from_static_str).collect();
    m::ListGroupsRequest::default()
        .with_states_filter(names(&filter.states))
        .with_types_filter(names(&filter.types))
        .into()
}

/// Of a group of the newer protocol; others are not found.
pub(super) fn describe_consumer(group: &GroupId) -> Request {
    m::ConsumerGroupDescribeRequest::default().with_group_ids(vec![id(group)]).into()
}

/// Of a classic group.
pub(super) fn describe(group: &GroupId) -> Request {
    m::DescribeGroupsRequest::default().with_groups(vec![id(group)]).into()
}

pub(super) fn describe_share(group: &GroupId) -> Request {
    m::ShareGroupDescribeRequest::default().with_group_ids(vec![id(group)]).into()
}

/// All that a share group has begun.
pub(super) fn share_offsets(group: &GroupId) -> Request {
    let group = DescribeShareGroupOffsetsRequestGroup::default().with_group_id(id(group)).with_topics(None);
    SameAsVersion0(m::DescribeShareGroupOffsetsRequest::default().with_groups(vec![group])).into()
}

pub(super) fn delete_share_offsets(group: &GroupId, topics: &BTreeSet<Topic>) -> Request {
    let topic = |topic: &Topic| {
        DeleteShareGroupOffsetsRequestTopic::default().with_topic_name(topic.to_wire().into())
    };
    let topics = topics.iter().map(topic).collect();
    m::DeleteShareGroupOffsetsRequest::default().with_group_id(id(group)).with_topics(topics).into()
}

/// Where a share group starts.
pub(super) fn alter_share(group: &GroupId, offsets: &[OffsetReset]) -> Request {
    let topics = by_topic(offsets.iter().map(|reset| (reset.tp.clone(), reset.to))).into_iter().map(
        |(topic, offsets)| {
            let partition = |(number, offset): (i32, Offset)| {
                AlterShareGroupOffsetsRequestPartition::default()
                    .with_partition_index(number)
                    .with_start_offset(offset.0)
            };
            AlterShareGroupOffsetsRequestTopic::default()
                .with_topic_name(topic.to_wire().into())
                .with_partitions(offsets.into_iter().map(partition).collect())
        },
    );
    m::AlterShareGroupOffsetsRequest::default().with_group_id(id(group)).with_topics(topics.collect()).into()
}

pub(super) fn delete(group: &GroupId) -> Request {
    m::DeleteGroupsRequest::default().with_groups_names(vec![id(group)]).into()
}

pub(super) fn delete_offsets(group: &GroupId, partitions: &[TopicPartition]) -> Request {
    let topics =
        by_topic(partitions.iter().map(|tp| (tp.clone(), ()))).into_iter().map(|(topic, partitions)| {
            let partition =
                |(number, ())| OffsetDeleteRequestPartition::default().with_partition_index(number);
            OffsetDeleteRequestTopic::default()
                .with_name(topic.to_wire().into())
                .with_partitions(partitions.into_iter().map(partition).collect())
        });
    m::OffsetDeleteRequest::default().with_group_id(id(group)).with_topics(topics.collect()).into()
}

/// All that a group has committed.
pub(super) fn committed(group: &GroupId) -> Request {
    let group = OffsetFetchRequestGroup::default().with_group_id(id(group)).with_topics(None);
    m::OffsetFetchRequest::default().with_groups(vec![group]).into()
}

pub(super) fn marks(mark: Mark, since_wall_ms: i64, partitions: &[TopicPartition]) -> Request {
    let timestamp = match mark {
        Mark::Start => EARLIEST,
        Mark::End => LATEST,
        Mark::Since => since_wall_ms,
    };
    let topics =
        by_topic(partitions.iter().map(|tp| (tp.clone(), ()))).into_iter().map(|(topic, partitions)| {
            let partition = |(number, ())| {
                ListOffsetsPartition::default().with_partition_index(number).with_timestamp(timestamp)
            };
            ListOffsetsTopic::default()
                .with_name(topic.to_wire().into())
                .with_partitions(partitions.into_iter().map(partition).collect())
        });
    m::ListOffsetsRequest::default().with_replica_id(m::BrokerId(NOBODY)).with_topics(topics.collect()).into()
}

/// Of nobody, which is accepted while the group has no members (R-GRP-36).
pub(super) fn commit(group: &GroupId, offsets: &[OffsetReset]) -> Request {
    let topics = by_topic(offsets.iter().map(|reset| (reset.tp.clone(), reset.to))).into_iter().map(
        |(topic, offsets)| {
            let partition = |(number, offset): (i32, Offset)| {
                OffsetCommitRequestPartition::default()
                    .with_partition_index(number)
                    .with_committed_offset(offset.0)
                    .with_committed_metadata(Some(Default::default()))
            };
            OffsetCommitRequestTopic::default()
                .with_name(topic.to_wire().into())
                .with_partitions(offsets.into_iter().map(partition).collect())
        },
    );
    m::OffsetCommitRequest::default()
        .with_group_id(id(group))
        .with_generation_id_or_member_epoch(NOBODY)
        .with_topics(topics.collect())
        .into()
}
