//! Requests of administrators, which may be about groups of several partitions of `__consumer_offsets`.
//!
//! Mirrors `GroupCoordinatorService.listGroups`, `describeGroups`, `deleteGroups` and `deleteOffsets` (R-GRP-41).
//!
//! **Invariant:** each group that is asked for is answered once.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;

use super::context::Part;
use super::requests::not_empty;
use super::shard::split_existing;
use super::{At, GroupCoordinator, GroupEffects};
use crate::kafka::effects::RequestId;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, GroupId, TopicId, TopicPartition};

impl GroupCoordinator {
    /// All groups of this broker; none, with an error, while one of its partitions is being loaded.
    pub(super) fn list(&self, request: &m::ListGroupsRequest) -> m::ListGroupsResponse {
        if self.shards.values().any(|shard| shard.loading) {
            let error = ErrorCode::CoordinatorLoadInProgress.code();
            return m::ListGroupsResponse::default().with_error_code(error);
        }
        let groups = self.shards.values().flat_map(|shard| shard.list(request));
        m::ListGroupsResponse::default().with_groups(groups.collect())
    }

    pub(super) fn describe(&self, request: &m::DescribeGroupsRequest) -> m::DescribeGroupsResponse {
        let described = request.groups.iter().map(|id| match self.shard_state(id) {
            Ok(partition) => self.shards[&partition].describe(&GroupId::new(id)),
            Err(error) => DescribedGroup::default().with_group_id(id.clone()).with_error_code(error.code()),
        });
        m::DescribeGroupsResponse::default().with_groups(described.collect())
    }

    pub(super) fn delete_groups(
        &mut self,
        at: At<'_>,
        id: RequestId,
        request: &m::DeleteGroupsRequest,
        fx: &mut GroupEffects,
    ) {
        let groups: BTreeSet<GroupId> = request.groups_names.iter().map(|id| GroupId::new(id)).collect();
        let mut of_partition: BTreeMap<i32, Vec<GroupId>> = BTreeMap::new();
        for group in groups {
            of_partition.entry(self.partition_for(&group)).or_default().push(group);
        }
        if of_partition.is_empty() {
            return fx.effects.respond(id, m::DeleteGroupsResponse::default());
        }
        self.gathered.insert(id, vec![None; of_partition.len()]);
        for ((partition, groups), index) in of_partition.into_iter().zip(0..) {
            let handled = self.with_shard(at, &m::GroupId(groups[0].to_wire()), fx, |shard, cx| {
                shard.delete_groups((id, index), &groups, cx);
            });
            if let Err(error) = handled {
                let refused = Part::Deleted(refused(groups.iter(), error));
                self.context(at, partition, fx).1.gather(id, index, refused);
            }
        }
    }

    /// Partitions that do not exist are refused one by one.
    pub(super) fn delete_offsets(
        &mut self,
        at: At<'_>,
        id: RequestId,
        client: &ClientName,
        request: &m::OffsetDeleteRequest,
        topics: &dyn Fn(&TopicPartition) -> Option<TopicId>,
        fx: &mut GroupEffects,
    ) {
        let (response, existing) = split_existing(request, |tp| topics(tp).is_some());
        let group = GroupId::new(&request.group_id);
        let handled = not_empty(&request.group_id).and_then(|()| {
            self.with_shard(at, &request.group_id, fx, |shard, cx| {
                shard.delete_offsets(id, client, &group, existing, response, cx);
            })
        });
        if let Err(error) = handled {
            fx.effects.respond(id, m::OffsetDeleteResponse::default().with_error_code(error.code()));
        }
    }
}

fn refused<'a>(groups: impl Iterator<Item = &'a GroupId>, error: ErrorCode) -> Vec<DeletableGroupResult> {
    let result = |id: &GroupId| {
        let group = m::GroupId(id.to_wire());
        DeletableGroupResult::default().with_group_id(group).with_error_code(error.code())
    };
    groups.map(result).collect()
}
