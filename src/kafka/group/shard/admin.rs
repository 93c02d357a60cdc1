//! What administrators ask of one partition's groups: which there are, who is in one, to delete one, to forget offsets.
//!
//! Mirrors the read and write operations of `GroupCoordinatorShard` behind ListGroups, DescribeGroups, DeleteGroups and
//! OffsetDelete (R-GRP-41).
//!
//! **Invariant:** a group is told of exactly while the records below the high watermark say that it is there.

use std::collections::BTreeSet;

use kafka_protocol::messages as m;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::{Group, Shard};
use crate::kafka::effects::RequestId;
use crate::kafka::event::GroupState;
use crate::kafka::group::classic::{CLIENT_HOST, Member};
use crate::kafka::group::context::Context;
use crate::kafka::group::offsets::Author;
use crate::kafka::group::write::{Applied, Deletion, Then, Write};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, GroupId, Topic, TopicPartition};

impl Shard {
    /// A group as far as the log says for sure: not one whose first record is not safe yet, and still one whose
    /// tombstone is not.
    fn safe_group(&self, id: &GroupId) -> Option<Group> {
        if let Some(group) = self.committed_groups.get(id) {
            return Some(group.clone());
        }
        let mut of_writes = self.waiting.iter().map(|waiting| &waiting.applied);
        let undecided = of_writes.find_map(|applied| {
            let removed = applied.removed.iter().find(|(removed, _)| removed == id).map(|(_, group)| group);
            let change = applied.modern.iter().find(|change| change.id == *id);
            let created = applied.created.as_ref() == Some(id);
            let before = removed.or(change.and_then(|change| change.before.as_ref()));
            (created || change.is_some() || before.is_some()).then_some(before)
        });
        undecided.unwrap_or_else(|| self.groups.get(id)).cloned()
    }

    /// The groups of these states and types; no filter lets all pass. Names are compared as if in lower case.
    pub(in crate::kafka::group) fn list(&self, request: &m::ListGroupsRequest) -> Vec<ListedGroup> {
        let passes = |filter: &[StrBytes], name: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
        };
        let removed = self.waiting.iter().flat_map(|waiting| &waiting.applied.removed).map(|(id, _)| id);
        let ids: BTreeSet<&GroupId> =
            self.groups.keys().chain(removed).chain(self.committed_groups.keys()).collect();
        let groups = ids.into_iter().filter_map(|id| Some((id, self.safe_group(id)?)));
        let passing = groups.filter(|(_, group)| {
            passes(&request.states_filter, group.state_name())
                && passes(&request.types_filter, group.type_name())
        });
        passing
            .map(|(id, group)| {
                ListedGroup::default()
                    .with_group_id(m::GroupId(id.to_wire()))
                    .with_protocol_type(group.protocol_type())
                    .with_group_state(StrBytes::from_static_str(group.state_name()))
                    .with_group_type(StrBytes::from_static_str(group.type_name()))
            })
            .collect()
    }

    /// A group with its members; what they subscribe to and own is told only of a stable one.
    pub(in crate::kafka::group) fn describe(&self, id: &GroupId) -> DescribedGroup {
        let described = DescribedGroup::default().with_group_id(m::GroupId(id.to_wire()));
        let group = match self.safe_group(id) {
            Some(Group::Classic(group)) => group,
            other => {
                let what = if other.is_none() { "not found" } else { "is not a classic group" };
                return described
                    .with_group_state(StrBytes::from_static_str(GroupState::Dead.name()))
                    .with_error_code(ErrorCode::GroupIdNotFound.code())
                    .with_error_message(Some(StrBytes::from_string(format!("Group {id} {what}."))));
            }
        };
        let protocol = group.protocol.clone().filter(|_| group.is(GroupState::Stable));
        let member = |member: &Member| described_member(member, protocol.as_deref());
        described
            .with_group_state(StrBytes::from_static_str(group.state.name()))
            .with_protocol_type(group.protocol_type.clone().unwrap_or_default())
            .with_members(group.members.values().map(member).collect())
            .with_protocol_data(protocol.clone().unwrap_or_default())
    }

    /// One write for all of them that can be deleted; each has its own result.
    pub(super) fn delete_remaining(&mut self, deletion: Deletion, cx: &mut Context<'_>) {
        let Deletion { to, index, groups, refused, .. } = deletion;
        let mut write = Write { records: Vec::new(), applied: Applied::default(), then: Then::Nothing };
        let mut results = Vec::new();
        for id in groups.iter().filter(|id| !refused.contains_key(id)) {
            let error = match self.groups.get(id) {
                None => ErrorCode::GroupIdNotFound,
                Some(group) if group.is_empty() => ErrorCode::None,
                Some(_) => ErrorCode::NonEmptyGroup,
            };
            if error == ErrorCode::None {
                let offsets = self.newest.of(id).cloned().unwrap_or_default();
                let pending = self.pending.of_group(id).cloned();
                let gone: BTreeSet<TopicPartition> = offsets.keys().cloned().chain(pending).collect();
                gone.into_iter().for_each(|tp| self.remove_offset(id, tp, Author::Deletion, &mut write));
                self.delete(id, &mut write, cx);
            }
            results.push(result_of(id, error));
        }
        let refused = refused.iter().map(|(id, error)| result_of(id, *error)).collect();
        self.submit(Some(Write { then: Then::Deleted { to, index, results, refused }, ..write }), cx);
    }

    /// Forgets what a group committed for these partitions, of which `response` does not tell yet. Those of a topic that
    /// a member subscribes to are refused.
    pub(in crate::kafka::group) fn delete_offsets(
        &mut self,
        to: RequestId,
        client: &ClientName,
        id: &GroupId,
        partitions: Vec<TopicPartition>,
        mut response: m::OffsetDeleteResponse,
        cx: &mut Context<'_>,
    ) {
        let group = match self.groups.get(id) {
            Some(group) if group.share().is_none() && (group.is_empty() || group.is_of_consumers()) => {
                group.clone()
            }
            known => {
                let error = match known {
                    Some(group) if group.share().is_none() => ErrorCode::NonEmptyGroup,
                    _ => ErrorCode::GroupIdNotFound,
                };
                return cx.respond(to, m::OffsetDeleteResponse::default().with_error_code(error.code()));
            }
        };
        let mut write = Write { records: Vec::new(), applied: Applied::default(), then: Then::Nothing };
        for tp in partitions {
            if group.is_subscribed_to(&tp.topic) {
                answer(&mut response, &tp, ErrorCode::GroupSubscribedToTopic);
                continue;
            }
            answer(&mut response, &tp, ErrorCode::None);
            let is_known = self.newest.of(id).is_some_and(|offsets| offsets.contains_key(&tp));
            if is_known || self.pending.has(id, &tp) {
                self.remove_offset(id, tp, Author::Administrator(client.clone()), &mut write);
            }
        }
        let then = Then::Answer { to, response: response.into() };
        self.submit(Some(Write { then, ..write }), cx);
    }
}

pub(super) fn result_of(id: &GroupId, error: ErrorCode) -> DeletableGroupResult {
    let group = m::GroupId(id.to_wire());
    DeletableGroupResult::default().with_group_id(group).with_error_code(error.code())
}

fn described_member(member: &Member, protocol: Option<&str>) -> DescribedGroupMember {
    let described = DescribedGroupMember::default()
        .with_member_id(member.id.to_wire())
        .with_group_instance_id(member.instance_id.clone())
        .with_client_id(member.client.to_wire())
        .with_client_host(StrBytes::from_static_str(CLIENT_HOST));
    match protocol {
        Some(protocol) => described
            .with_member_metadata(member.metadata(protocol))
            .with_member_assignment(member.assignment.clone()),
        None => described,
    }
}

/// The answer to an OffsetDelete, as far as partitions that do not exist go, and the partitions that do.
pub(in crate::kafka::group) fn split_existing(
    request: &m::OffsetDeleteRequest,
    exists: impl Fn(&TopicPartition) -> bool,
) -> (m::OffsetDeleteResponse, Vec<TopicPartition>) {
    let mut response = m::OffsetDeleteResponse::default();
    let mut existing = Vec::new();
    for topic in &request.topics {
        let name = Topic::new(&topic.name);
        for partition in &topic.partitions {
            let tp = TopicPartition::new(&name, partition.partition_index);
            match exists(&tp) {
                true => existing.push(tp),
                false => answer(&mut response, &tp, ErrorCode::UnknownTopicOrPartition),
            }
        }
    }
    (response, existing)
}

fn answer(response: &mut m::OffsetDeleteResponse, tp: &TopicPartition, error: ErrorCode) {
    let topics = &mut response.topics;
    let known = topics.iter().position(|topic| &**topic.name == tp.topic.as_str());
    let known = known.unwrap_or_else(|| {
        topics.push(OffsetDeleteResponseTopic::default().with_name(tp.topic.to_wire().into()));
        topics.len() - 1
    });
    let partition = OffsetDeleteResponsePartition::default();
    let partition = partition.with_partition_index(tp.partition).with_error_code(error.code());
    topics[known].partitions.push(partition);
}
