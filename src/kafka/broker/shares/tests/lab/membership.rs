//! Members of the group with their heartbeats, and what administrators ask of the group.

use std::collections::BTreeMap;

use kafka_protocol::messages as m;
use kafka_protocol::messages::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic as DeletedTopic;
use kafka_protocol::messages::{
    alter_share_group_offsets_request as alter, delete_share_group_offsets_request as delete,
    describe_share_group_offsets_request as describe,
};
use kafka_protocol::protocol::StrBytes;

use super::{FIRST, GROUP, Lab};
use crate::kafka::protocol::share::OffsetsGroup;
use crate::kafka::protocol::{ErrorCode, Response, SameAsVersion0};
use crate::kafka::time::Time;

const LEAVE_EPOCH: i32 = -1;

/// What a member knows of its place in the group.
#[derive(Default)]
pub(super) struct Membership {
    epoch: i32,
    partitions: Vec<i32>,
    /// The next heartbeat, or the one that is not answered yet.
    next: Option<(i32, (Time, u64))>,
}

fn heartbeat(member: &str, epoch: i32) -> m::ShareGroupHeartbeatRequest {
    let topics = vec![m::TopicName("t".into())];
    m::ShareGroupHeartbeatRequest::default()
        .with_group_id(m::GroupId(GROUP.into()))
        .with_member_id(StrBytes::from_string(member.to_string()))
        .with_member_epoch(epoch)
        .with_subscribed_topic_names(Some(topics).filter(|_| epoch == 0))
}

impl Lab {
    /// A member joins the group and is heard from as long as it stays. One that is in the group already is left alone.
    pub fn join(&mut self, member: &str) {
        if !self.memberships.contains_key(member) {
            self.memberships.insert(member.to_string(), Membership::default());
            self.heartbeat(member, self.now);
        }
    }

    pub fn leave(&mut self, member: &str) {
        let Some(membership) = self.memberships.remove(member) else { return };
        if let Some((number, place)) = membership.next {
            self.heartbeats.remove(&number);
            self.coming.remove(&place);
        }
        self.ask(heartbeat(member, LEAVE_EPOCH));
    }

    /// The partitions that a member was given.
    pub fn assigned(&self, member: &str) -> &[i32] {
        self.memberships.get(member).map_or(&[], |membership| &membership.partitions)
    }

    /// The group's state, and what its members are to read.
    pub fn describe_group(&mut self) -> (String, BTreeMap<String, Vec<i32>>) {
        let request = m::ShareGroupDescribeRequest::default().with_group_ids(vec![m::GroupId(GROUP.into())]);
        let Response::ShareGroupDescribe(response) = self.ask(request) else { panic!("another answer") };
        let group = &response.groups[0];
        let members = group.members.iter().map(|member| {
            let topics = member.assignment.topic_partitions.iter();
            (member.member_id.to_string(), topics.flat_map(|topic| topic.partitions.clone()).collect())
        });
        (group.group_state.to_string(), members.collect())
    }

    /// Of t-0.
    pub fn alter_offsets(&mut self, offset: i64) -> ErrorCode {
        let partition = alter::AlterShareGroupOffsetsRequestPartition::default().with_start_offset(offset);
        let topic = alter::AlterShareGroupOffsetsRequestTopic::default()
            .with_topic_name(m::TopicName("t".into()))
            .with_partitions(vec![partition]);
        let request = m::AlterShareGroupOffsetsRequest::default()
            .with_group_id(m::GroupId(GROUP.into()))
            .with_topics(vec![topic]);
        let Response::AlterShareGroupOffsets(response) = self.ask(request) else { panic!("another answer") };
        let of_partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        let codes = std::iter::once(response.error_code).chain(of_partitions.map(|part| part.error_code));
        ErrorCode::from_code(codes.into_iter().find(|code| *code != 0).unwrap_or_default())
    }

    /// What an administrator is told of the group's offsets, of all that has begun or of some topics.
    pub fn describe_offsets(&mut self, topics: Option<&[(&str, &[i32])]>) -> OffsetsGroup {
        let topic = |(name, partitions): &(&str, &[i32])| {
            describe::DescribeShareGroupOffsetsRequestTopic::default()
                .with_topic_name(m::TopicName(StrBytes::from_string(name.to_string())))
                .with_partitions(partitions.to_vec())
        };
        let group = describe::DescribeShareGroupOffsetsRequestGroup::default()
            .with_group_id(m::GroupId(GROUP.into()))
            .with_topics(topics.map(|topics| topics.iter().map(topic).collect()));
        let request = m::DescribeShareGroupOffsetsRequest::default().with_groups(vec![group]);
        let Response::DescribeShareGroupOffsets(mut response) = self.ask(SameAsVersion0(request)) else {
            panic!("another answer")
        };
        response.groups.remove(0)
    }

    /// Of t-0, where that is known.
    pub fn start_and_lag(&mut self) -> Option<(i64, i64)> {
        let group = self.describe_offsets(None);
        assert_eq!(group.error_code, 0);
        let partition = group.topics.first()?.partitions.first()?;
        assert_eq!((partition.partition_index, partition.error_code), (0, 0));
        Some((partition.start_offset, partition.lag)).filter(|(start, lag)| *start >= 0 && *lag >= 0)
    }

    /// The error of the whole, and of each topic.
    pub fn delete_offsets(&mut self, topics: &[&str]) -> (ErrorCode, Vec<(String, ErrorCode)>) {
        let topic = |name: &&str| {
            let name = m::TopicName(StrBytes::from_string(name.to_string()));
            delete::DeleteShareGroupOffsetsRequestTopic::default().with_topic_name(name)
        };
        let request = m::DeleteShareGroupOffsetsRequest::default()
            .with_group_id(m::GroupId(GROUP.into()))
            .with_topics(topics.iter().map(topic).collect());
        let Response::DeleteShareGroupOffsets(response) = self.ask(request) else { panic!("another answer") };
        let told =
            |topic: &DeletedTopic| (topic.topic_name.to_string(), ErrorCode::from_code(topic.error_code));
        (ErrorCode::from_code(response.error_code), response.responses.iter().map(told).collect())
    }

    pub fn delete_group(&mut self) -> ErrorCode {
        let request = m::DeleteGroupsRequest::default().with_groups_names(vec![m::GroupId(GROUP.into())]);
        let Response::DeleteGroups(response) = self.ask(request) else { panic!("another answer") };
        ErrorCode::from_code(response.results[0].error_code)
    }

    fn heartbeat(&mut self, member: &str, at: Time) {
        let Some(membership) = self.memberships.get(member) else { return };
        let request = heartbeat(member, membership.epoch);
        let (number, place) = self.send_at(at, FIRST, request);
        self.heartbeats.insert(number, member.to_string());
        if let Some(membership) = self.memberships.get_mut(member) {
            membership.next = Some((number, place));
        }
    }

    pub(super) fn hear(&mut self, member: &str, response: &Response) {
        let Response::ShareGroupHeartbeat(response) = response else { panic!("another answer") };
        assert_eq!(response.error_code, 0);
        let Some(membership) = self.memberships.get_mut(member) else { return };
        membership.epoch = response.member_epoch;
        if let Some(assignment) = &response.assignment {
            let partitions = assignment.topic_partitions.iter().flat_map(|topic| &topic.partitions);
            membership.partitions = partitions.copied().collect();
        }
        self.heartbeat(member, self.now.plus_ms(i64::from(response.heartbeat_interval_ms)));
    }
}
