//! Requests that wait for records, or for their acknowledgements to be persisted, and their answers (`KafkaApis`).
//!
//! **Invariant:** a request is answered when every acknowledgement of it has its outcome and it waits for no records.

use std::collections::BTreeMap;

use super::super::range::OffsetRange;
use super::super::sessions::TopicIdPartition;
use super::{Ground, ManagerEffects, SharePartitionManager, by_topic};
use crate::kafka::effects::RequestId;
use crate::kafka::protocol::share::{
    AcknowledgedPartition, AcknowledgedTopic, AcquiredRecords, CurrentLeader, FetchedPartition, FetchedTopic,
    NodeEndpoint, ShareAcknowledgeResponse, ShareFetchResponse,
};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::types::{GroupId, MemberId};

use super::super::partition::Acquired;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Fetch,
    Acknowledge,
}

/// What a fetch has to tell of one partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Fetched {
    pub error: Option<ErrorCode>,
    pub records: bytes::Bytes,
    pub acquired: Vec<Acquired>,
}

#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub kind: Kind,
    pub group: GroupId,
    pub member: MemberId,
    /// The session ends with the answer.
    pub closes: bool,
    /// Of each partition that was acknowledged, the outcome once it is known.
    pub acknowledged: BTreeMap<TopicIdPartition, Option<ErrorCode>>,
    /// What was read, once no more is waited for.
    pub fetched: Option<BTreeMap<TopicIdPartition, Fetched>>,
}

impl SharePartitionManager {
    /// An acknowledgement has its outcome.
    pub(super) fn acknowledged(
        &mut self,
        id: RequestId,
        tip: TopicIdPartition,
        error: Option<ErrorCode>,
        ground: &Ground<'_>,
        fx: &mut ManagerEffects,
    ) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.acknowledged.insert(tip, Some(error.unwrap_or(ErrorCode::None)));
        self.try_answer(id, ground, fx);
    }

    /// Answers what has everything.
    pub(super) fn try_answer(&mut self, id: RequestId, ground: &Ground<'_>, fx: &mut ManagerEffects) {
        let is_complete = |pending: &Pending| {
            pending.fetched.is_some() && pending.acknowledged.values().all(Option::is_some)
        };
        if !self.pending.get(&id).is_some_and(is_complete) {
            return;
        }
        let Some(pending) = self.pending.remove(&id) else { return };
        let response = match pending.kind {
            Kind::Fetch => fetch_response(&pending, ground),
            Kind::Acknowledge => acknowledge_response(&pending, ground),
        };
        fx.effects.respond(id, response);
        if pending.closes {
            self.on_member_gone(&pending.group, &pending.member, ground, fx);
        }
    }
}

/// Who leads by now, for a client that asked another.
fn leader_of(
    tip: TopicIdPartition,
    error: ErrorCode,
    ground: &Ground<'_>,
) -> (CurrentLeader, Option<NodeEndpoint>) {
    let has_moved = matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
    let tp = ground.name_of(tip).filter(|_| has_moved);
    let Some(registration) = tp.and_then(|tp| ground.image.partition(&tp)) else {
        return (CurrentLeader::default(), None);
    };
    let leader =
        CurrentLeader { leader_id: registration.leader.0, leader_epoch: registration.leader_epoch.0 };
    let endpoint = ground.image.endpoint(registration.leader).map(|endpoint| NodeEndpoint {
        node_id: endpoint.broker.0,
        host: endpoint.host,
        port: endpoint.port.into(),
        rack: endpoint.rack,
    });
    (leader, endpoint)
}

fn fetch_response(pending: &Pending, ground: &Ground<'_>) -> Response {
    let mut node_endpoints: BTreeMap<i32, NodeEndpoint> = BTreeMap::new();
    let mut parts: BTreeMap<TopicIdPartition, FetchedPartition> = BTreeMap::new();
    for (tip, fetched) in pending.fetched.iter().flatten() {
        let error = fetched.error.unwrap_or(ErrorCode::None);
        let (current_leader, endpoint) = leader_of(*tip, error, ground);
        node_endpoints.extend(endpoint.map(|endpoint| (endpoint.node_id, endpoint)));
        let part = FetchedPartition {
            partition_index: tip.1,
            error_code: error.code(),
            current_leader,
            records: fetched.records.clone(),
            acquired_records: fetched.acquired.iter().map(acquired_records).collect(),
            ..FetchedPartition::default()
        };
        parts.insert(*tip, part);
    }
    for (tip, error) in &pending.acknowledged {
        let part = parts
            .entry(*tip)
            .or_insert_with(|| FetchedPartition { partition_index: tip.1, ..FetchedPartition::default() });
        part.acknowledge_error_code = error.map_or(0, ErrorCode::code);
    }
    let topics = by_topic(parts.into_iter()).into_iter();
    let responses = topics.map(|(id, partitions)| FetchedTopic { topic_id: id.0, partitions });
    ShareFetchResponse {
        acquisition_lock_timeout_ms: lock_timeout_ms(pending, ground),
        responses: responses.collect(),
        node_endpoints: node_endpoints.into_values().collect(),
        ..ShareFetchResponse::default()
    }
    .into()
}

fn acknowledge_response(pending: &Pending, ground: &Ground<'_>) -> Response {
    let mut node_endpoints: BTreeMap<i32, NodeEndpoint> = BTreeMap::new();
    let mut parts: Vec<(TopicIdPartition, AcknowledgedPartition)> = Vec::new();
    for (tip, error) in &pending.acknowledged {
        let error = error.unwrap_or(ErrorCode::None);
        let (current_leader, endpoint) = leader_of(*tip, error, ground);
        node_endpoints.extend(endpoint.map(|endpoint| (endpoint.node_id, endpoint)));
        let (partition_index, error_code) = (tip.1, error.code());
        parts.push((
            *tip,
            AcknowledgedPartition { partition_index, error_code, error_message: None, current_leader },
        ));
    }
    let topics = by_topic(parts.into_iter()).into_iter();
    let responses = topics.map(|(id, partitions)| AcknowledgedTopic { topic_id: id.0, partitions });
    ShareAcknowledgeResponse {
        acquisition_lock_timeout_ms: lock_timeout_ms(pending, ground),
        responses: responses.collect(),
        node_endpoints: node_endpoints.into_values().collect(),
        ..ShareAcknowledgeResponse::default()
    }
    .into()
}

fn lock_timeout_ms(pending: &Pending, ground: &Ground<'_>) -> i32 {
    i32::try_from(ground.settings(&pending.group).record_lock_duration_ms).unwrap_or(i32::MAX)
}

fn acquired_records(acquired: &Acquired) -> AcquiredRecords {
    let OffsetRange { first, last } = acquired.range;
    AcquiredRecords { first_offset: first.0, last_offset: last.0, delivery_count: acquired.delivery_count }
}
