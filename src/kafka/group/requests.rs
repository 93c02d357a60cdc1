//! The requests of members: each is checked and handed to the shard that keeps its group.

use kafka_protocol::messages as m;
use kafka_protocol::messages::consumer_group_describe_response::DescribedGroup;

use super::commit::Commit;
use super::context::Part;
use super::modern::consumer::check_request;
use super::offsets;
use super::{At, GroupCoordinator, GroupEffects, Join, classic};
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, GroupEvent};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, GroupId};

impl GroupCoordinator {
    /// As [`GroupCoordinator::handle`], for a JoinGroup of any version.
    pub(crate) fn join(&mut self, at: At<'_>, join: Join<'_>, fx: &mut GroupEffects) {
        let request = join.request;
        let timeouts = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        let checked = not_empty(&request.group_id).and_then(|()| {
            let in_range = timeouts.contains(&request.session_timeout_ms);
            if in_range { Ok(()) } else { Err(ErrorCode::InvalidSessionTimeout) }
        });
        if let Err(error) = checked {
            return fx.effects.respond(join.id, classic::join_error(&request.member_id, error));
        }
        if let Err(error) = self.with_shard(at, &request.group_id, fx, |shard, cx| shard.join(&join, cx)) {
            fx.effects.respond(join.id, classic::join_error("", error));
        }
    }

    pub(super) fn sync(
        &mut self,
        at: At<'_>,
        id: RequestId,
        request: &m::SyncGroupRequest,
        fx: &mut GroupEffects,
    ) {
        let named = request.protocol_type.is_some() && request.protocol_name.is_some();
        let checked =
            if named { not_empty(&request.group_id) } else { Err(ErrorCode::InconsistentGroupProtocol) };
        let handled = checked.and_then(|()| {
            self.with_shard(at, &request.group_id, fx, |shard, cx| shard.sync(id, request, cx))
        });
        if let Err(error) = handled {
            fx.effects.respond(id, classic::sync_error(error));
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        at: At<'_>,
        id: RequestId,
        request: &m::HeartbeatRequest,
        fx: &mut GroupEffects,
    ) {
        let handled = not_empty(&request.group_id).and_then(|()| {
            self.with_shard(at, &request.group_id, fx, |shard, cx| shard.heartbeat(id, request, cx))
        });
        if let Err(error) = handled {
            // While it loads the coordinator cannot know better, and the members are to stay.
            let error = if error == ErrorCode::CoordinatorLoadInProgress { ErrorCode::None } else { error };
            fx.effects.respond(id, m::HeartbeatResponse::default().with_error_code(error.code()));
        }
    }

    pub(super) fn leave(
        &mut self,
        at: At<'_>,
        id: RequestId,
        client: &ClientName,
        request: &m::LeaveGroupRequest,
        fx: &mut GroupEffects,
    ) {
        let handled = not_empty(&request.group_id).and_then(|()| {
            self.with_shard(at, &request.group_id, fx, |shard, cx| shard.leave(id, client, request, cx))
        });
        if let Err(error) = handled {
            fx.effects.respond(id, m::LeaveGroupResponse::default().with_error_code(error.code()));
        }
    }

    pub(super) fn commit(
        &mut self,
        at: At<'_>,
        id: RequestId,
        client: &ClientName,
        request: &m::OffsetCommitRequest,
        commit: Commit,
        fx: &mut GroupEffects,
    ) {
        if commit.asked().is_empty() {
            return fx.effects.respond(id, commit.response());
        }
        if let Err(error) = self.shard_state(&request.group_id) {
            let (group, client) = (GroupId::new(&request.group_id), client.clone());
            fx.effects.event(Event::Group(GroupEvent::CommitRefused { group, error, client }));
            return fx.effects.respond(id, commit.refused(error));
        }
        let handled = self.with_shard(at, &request.group_id, fx, |shard, cx| {
            shard.commit(id, client, request, commit, cx);
        });
        assert!(handled.is_ok(), "the shard was active a moment ago");
    }

    pub(super) fn fetch(
        &mut self,
        at: At<'_>,
        id: RequestId,
        request: &m::OffsetFetchRequest,
        fx: &mut GroupEffects,
    ) {
        if request.groups.is_empty() {
            return fx.effects.respond(id, m::OffsetFetchResponse::default());
        }
        self.gathered.insert(id, vec![None; request.groups.len()]);
        for (group, index) in request.groups.iter().zip(0..) {
            let handled = self.with_shard(at, &group.group_id, fx, |shard, cx| {
                shard.fetch(id, index, group, request.require_stable, cx);
            });
            if let Err(error) = handled {
                let partition = self.partition_for(&GroupId::new(&group.group_id));
                let refused = offsets::fetch_error(&group.group_id, error);
                self.context(at, partition, fx).1.gather(id, index, Part::Fetched(refused));
            }
        }
    }

    pub(super) fn consumer_heartbeat(
        &mut self,
        at: At<'_>,
        id: RequestId,
        client: &ClientName,
        request: &m::ConsumerGroupHeartbeatRequest,
        fx: &mut GroupEffects,
    ) {
        if let Err(refusal) = check_request(request, &self.config.consumer) {
            return fx.effects.respond(id, refusal.to_heartbeat());
        }
        let handled = self.with_shard(at, &request.group_id, fx, |shard, cx| {
            shard.consumer_heartbeat(id, client, request, cx);
        });
        if let Err(error) = handled {
            let response = m::ConsumerGroupHeartbeatResponse::default().with_error_code(error.code());
            fx.effects.respond(id, response);
        }
    }

    /// What is safe of each group is told at once.
    pub(super) fn describe_consumer_groups(
        &mut self,
        at: At<'_>,
        id: RequestId,
        request: &m::ConsumerGroupDescribeRequest,
        fx: &mut GroupEffects,
    ) {
        let described = |group: &m::GroupId| match self.shard_state(group) {
            Ok(partition) => {
                let default = self.config.consumer.assignors[0];
                self.shards[&partition].describe_consumer_group(group, default, at.image)
            }
            Err(error) => {
                DescribedGroup::default().with_group_id(group.clone()).with_error_code(error.code())
            }
        };
        let groups = request.group_ids.iter().map(described).collect();
        fx.effects.respond(id, m::ConsumerGroupDescribeResponse::default().with_groups(groups));
    }
}

pub(super) fn not_empty(group: &m::GroupId) -> Result<(), ErrorCode> {
    if group.is_empty() { Err(ErrorCode::InvalidGroupId) } else { Ok(()) }
}
