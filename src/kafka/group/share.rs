//! Share groups at the coordinator of their partition of `__consumer_offsets` (KIP-932).
//!
//! Mirrors the share groups' part of `GroupCoordinatorService`.
//!
//! **Invariant:** each request is answered once, whatever becomes of the states that it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::share_group_describe_response::DescribedGroup;

use super::modern::TopicIdPartition;
use super::modern::share::{ShareGroup, check_request};
use super::requests::not_empty;
use super::{At, GroupCoordinator, GroupEffects, StateAsk, StateWork};
use crate::kafka::effects::RequestId;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, GroupId, TopicId};

impl GroupCoordinator {
    /// The share groups that are coordinated here.
    pub fn share_groups(&self) -> impl Iterator<Item = &Rc<ShareGroup>> {
        self.shards.values().flat_map(|shard| shard.share_groups())
    }

    /// A share group, if it is coordinated here.
    pub fn share_group(&self, id: &GroupId) -> Option<&Rc<ShareGroup>> {
        self.shards.get(&self.partition_for(id))?.share_group(id)
    }

    pub(super) fn share_heartbeat(
        &mut self,
        at: At<'_>,
        id: RequestId,
        client: &ClientName,
        request: &m::ShareGroupHeartbeatRequest,
        fx: &mut GroupEffects,
    ) {
        if let Err(refusal) = check_request(request) {
            return fx.effects.respond(id, refusal.to_share_heartbeat());
        }
        let handled = self.with_shard(at, &request.group_id, fx, |shard, cx| {
            shard.share_heartbeat(id, client, request, cx);
        });
        if let Err(error) = handled {
            let response = m::ShareGroupHeartbeatResponse::default().with_error_code(error.code());
            fx.effects.respond(id, response);
        }
    }

    /// What is safe of each group is told at once.
    pub(super) fn describe_share_groups(
        &self,
        at: At<'_>,
        request: &m::ShareGroupDescribeRequest,
    ) -> m::ShareGroupDescribeResponse {
        let refused = |group: &m::GroupId, error: ErrorCode| {
            DescribedGroup::default().with_group_id(group.clone()).with_error_code(error.code())
        };
        let described = request.group_ids.iter().map(|group| match self.shard_state(group) {
            _ if group.is_empty() => refused(group, ErrorCode::InvalidGroupId),
            Ok(partition) => self.shards[&partition].describe_share_group(group, at.image),
            Err(error) => refused(group, error),
        });
        m::ShareGroupDescribeResponse::default().with_groups(described.collect())
    }

    /// Where a group that nobody is in is to start anew (`alterShareGroupOffsets`).
    pub(super) fn alter_share_offsets(
        &mut self,
        at: At<'_>,
        id: RequestId,
        request: &m::AlterShareGroupOffsetsRequest,
        fx: &mut GroupEffects,
    ) {
        let handled = not_empty(&request.group_id).and_then(|()| {
            self.with_shard(at, &request.group_id, fx, |shard, cx| shard.alter_offsets(id, request, cx))
        });
        if let Err(error) = handled {
            let response = m::AlterShareGroupOffsetsResponse::default().with_error_code(error.code());
            fx.effects.respond(id, response);
        }
    }

    /// What a group that nobody is in has done of topics is forgotten (`deleteShareGroupOffsets`).
    pub(super) fn delete_share_offsets(
        &mut self,
        at: At<'_>,
        id: RequestId,
        request: &m::DeleteShareGroupOffsetsRequest,
        fx: &mut GroupEffects,
    ) {
        let handled = not_empty(&request.group_id).and_then(|()| {
            self.with_shard(at, &request.group_id, fx, |shard, cx| {
                shard.delete_share_offsets(id, request, cx);
            })
        });
        if let Err(error) = handled {
            fx.effects.respond(id, deletion_refused(error));
        }
    }

    /// The states of a group that have begun for sure (`initializedShareGroupPartitions`).
    ///
    /// # Errors
    /// The group is not coordinated here.
    pub fn begun_states(&self, group: &m::GroupId) -> Result<BTreeSet<TopicIdPartition>, ErrorCode> {
        let shard = &self.shards[&self.shard_state(group)?];
        Ok(shard.begun_states(&GroupId::new(group)))
    }

    /// What the share coordinators said to an ask: the errors of its states, where there are any.
    pub fn on_states(
        &mut self,
        at: At<'_>,
        ask: &StateAsk,
        errors: &BTreeMap<TopicIdPartition, ErrorCode>,
        fx: &mut GroupEffects,
    ) {
        // The states are what they are, whoever coordinates the group by now.
        if let StateWork::Alter { to, response, .. } = &ask.work {
            fx.effects.respond(*to, altered(response, errors));
        }
        match self.shards.get(&ask.partition).map(|shard| shard.loading) {
            Some(false) => self.if_led(at, ask.partition, fx, |shard, cx| shard.on_states(ask, errors, cx)),
            other => {
                if let StateWork::DeleteOffsets { to, .. } = &ask.work {
                    let error =
                        other.map_or(ErrorCode::NotCoordinator, |_| ErrorCode::CoordinatorLoadInProgress);
                    fx.effects.respond(*to, deletion_refused(error));
                }
            }
        }
    }
}

fn deletion_refused(error: ErrorCode) -> m::DeleteShareGroupOffsetsResponse {
    m::DeleteShareGroupOffsetsResponse::default().with_error_code(error.code())
}

/// With the errors of states among its partitions.
fn altered(
    response: &m::AlterShareGroupOffsetsResponse,
    errors: &BTreeMap<TopicIdPartition, ErrorCode>,
) -> m::AlterShareGroupOffsetsResponse {
    let mut response = response.clone();
    for topic in &mut response.responses {
        for partition in &mut topic.partitions {
            let error = errors.get(&(TopicId(topic.topic_id), partition.partition_index));
            if let Some(error) = error.filter(|_| partition.error_code == 0) {
                partition.error_code = error.code();
            }
        }
    }
    response
}
