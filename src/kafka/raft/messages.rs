//! The quorum's requests and responses: of the many that the formats allow, the one topic and the one partition that
//! there is (Kafka's `RaftUtil`).

use kafka_protocol::messages as m;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use kafka_protocol::messages::fetch_response::{
    self, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch,
};
use kafka_protocol::messages::{begin_quorum_epoch_request as begin, begin_quorum_epoch_response as begun};
use kafka_protocol::messages::{end_quorum_epoch_request as end, end_quorum_epoch_response as ended};
use kafka_protocol::messages::{
    fetch_snapshot_request, fetch_snapshot_response, vote_request, vote_response,
};

use super::log::METADATA_TOPIC_ID;
use super::snapshot::SnapshotId;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{CLUSTER_ID, ControllerId, LeaderEpoch, Offset};

const TOPIC: &str = "__cluster_metadata";

/// How long a leader may hold a fetch that finds nothing.
const MAX_WAIT_MS: i32 = 500;

/// What every response says of the quorum, and whether the request was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub error: ErrorCode,
    pub leader: Option<ControllerId>,
    pub epoch: LeaderEpoch,
}

pub(super) fn topic_name() -> m::TopicName {
    m::TopicName(TOPIC.into())
}

fn leader_id(leader: Option<ControllerId>) -> m::BrokerId {
    leader.map_or(-1, |id| id.0).into()
}

fn outcome(code: i16, leader: m::BrokerId, epoch: i32) -> Outcome {
    let leader = Some(ControllerId(leader.0)).filter(|id| id.0 >= 0);
    Outcome { error: ErrorCode::from_code(code), leader, epoch: LeaderEpoch(epoch) }
}

/// What a nominee asks a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ballot {
    pub nominee: ControllerId,
    pub epoch: LeaderEpoch,
    pub last_epoch: LeaderEpoch,
    pub end_offset: Offset,
    pub pre_vote: bool,
}

pub fn vote_request(voter: ControllerId, ballot: Ballot) -> m::VoteRequest {
    let data = vote_request::PartitionData::default()
        .with_replica_id(ballot.nominee.0.into())
        .with_replica_epoch(ballot.epoch.0)
        .with_last_offset_epoch(ballot.last_epoch.0)
        .with_last_offset(ballot.end_offset.0)
        .with_pre_vote(ballot.pre_vote);
    let topic = vote_request::TopicData::default().with_topic_name(topic_name()).with_partitions(vec![data]);
    m::VoteRequest::default()
        .with_cluster_id(Some(CLUSTER_ID.into()))
        .with_voter_id(voter.0.into())
        .with_topics(vec![topic])
}

pub fn ballot(request: &m::VoteRequest) -> Option<Ballot> {
    let data = request.topics.first()?.partitions.first()?;
    Some(Ballot {
        nominee: ControllerId(data.replica_id.0),
        epoch: LeaderEpoch(data.replica_epoch),
        last_epoch: LeaderEpoch(data.last_offset_epoch),
        end_offset: Offset(data.last_offset),
        pre_vote: data.pre_vote,
    })
}

pub fn vote_response(outcome: Outcome, granted: bool) -> m::VoteResponse {
    let data = vote_response::PartitionData::default()
        .with_error_code(outcome.error.code())
        .with_leader_id(leader_id(outcome.leader))
        .with_leader_epoch(outcome.epoch.0)
        .with_vote_granted(granted);
    let topic = vote_response::TopicData::default().with_topic_name(topic_name()).with_partitions(vec![data]);
    m::VoteResponse::default().with_topics(vec![topic])
}

/// The voter's word, and whether it is a yes.
pub fn vote(response: &m::VoteResponse) -> Option<(Outcome, bool)> {
    let data = response.topics.first()?.partitions.first()?;
    Some((outcome(data.error_code, data.leader_id, data.leader_epoch), data.vote_granted))
}

pub fn begin_request(
    voter: ControllerId,
    leader: ControllerId,
    epoch: LeaderEpoch,
) -> m::BeginQuorumEpochRequest {
    let data = begin::PartitionData::default().with_leader_id(leader.0.into()).with_leader_epoch(epoch.0);
    let topic = begin::TopicData::default().with_topic_name(topic_name()).with_partitions(vec![data]);
    m::BeginQuorumEpochRequest::default()
        .with_cluster_id(Some(CLUSTER_ID.into()))
        .with_voter_id(voter.0.into())
        .with_topics(vec![topic])
}

/// The leader that speaks, and its epoch.
pub fn beginning(request: &m::BeginQuorumEpochRequest) -> Option<(ControllerId, LeaderEpoch)> {
    let data = request.topics.first()?.partitions.first()?;
    Some((ControllerId(data.leader_id.0), LeaderEpoch(data.leader_epoch)))
}

pub fn begin_response(outcome: Outcome) -> m::BeginQuorumEpochResponse {
    let data = begun::PartitionData::default()
        .with_error_code(outcome.error.code())
        .with_leader_id(leader_id(outcome.leader))
        .with_leader_epoch(outcome.epoch.0);
    let topic = begun::TopicData::default().with_topic_name(topic_name()).with_partitions(vec![data]);
    m::BeginQuorumEpochResponse::default().with_topics(vec![topic])
}

pub fn begin_outcome(response: &m::BeginQuorumEpochResponse) -> Option<Outcome> {
    let data = response.topics.first()?.partitions.first()?;
    Some(outcome(data.error_code, data.leader_id, data.leader_epoch))
}

pub fn end_request(
    leader: ControllerId,
    epoch: LeaderEpoch,
    successors: &[ControllerId],
) -> m::EndQuorumEpochRequest {
    let candidate = |id: &ControllerId| end::ReplicaInfo::default().with_candidate_id(id.0.into());
    let data = end::PartitionData::default()
        .with_leader_id(leader.0.into())
        .with_leader_epoch(epoch.0)
        .with_preferred_candidates(successors.iter().map(candidate).collect());
    let topic = end::TopicData::default().with_topic_name(topic_name()).with_partitions(vec![data]);
    m::EndQuorumEpochRequest::default().with_cluster_id(Some(CLUSTER_ID.into())).with_topics(vec![topic])
}

/// The leader that resigned, its epoch and its successors in order.
pub fn ending(request: &m::EndQuorumEpochRequest) -> Option<(ControllerId, LeaderEpoch, Vec<ControllerId>)> {
    let data = request.topics.first()?.partitions.first()?;
    let successors = data.preferred_candidates.iter().map(|info| ControllerId(info.candidate_id.0));
    Some((ControllerId(data.leader_id.0), LeaderEpoch(data.leader_epoch), successors.collect()))
}

pub fn end_response(outcome: Outcome) -> m::EndQuorumEpochResponse {
    let data = ended::PartitionData::default()
        .with_error_code(outcome.error.code())
        .with_leader_id(leader_id(outcome.leader))
        .with_leader_epoch(outcome.epoch.0);
    let topic = ended::TopicData::default().with_topic_name(topic_name()).with_partitions(vec![data]);
    m::EndQuorumEpochResponse::default().with_topics(vec![topic])
}

pub fn end_outcome(response: &m::EndQuorumEpochResponse) -> Option<Outcome> {
    let data = response.topics.first()?.partitions.first()?;
    Some(outcome(data.error_code, data.leader_id, data.leader_epoch))
}

/// Where a replica that fetches stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// `node.id` of a controller or a broker.
    pub replica: i32,
    pub epoch: LeaderEpoch,
    pub last_epoch: LeaderEpoch,
    pub end_offset: Offset,
    pub high_watermark: Offset,
    pub max_wait_ms: i32,
    pub max_bytes: i32,
}

impl Place {
    pub fn is_valid(&self) -> bool {
        self.max_wait_ms >= 0
            && self.end_offset >= Offset::ZERO
            && self.last_epoch >= LeaderEpoch(0)
            && self.last_epoch <= self.epoch
    }
}

pub fn fetch_request(
    replica: i32,
    epoch: LeaderEpoch,
    end: (LeaderEpoch, Offset),
    high_watermark: Offset,
    max_bytes: i32,
) -> m::FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(epoch.0)
        .with_last_fetched_epoch(end.0.0)
        .with_fetch_offset(end.1.0)
        .with_high_watermark(high_watermark.0);
    let topic = FetchTopic::default().with_topic_id(METADATA_TOPIC_ID.0).with_partitions(vec![partition]);
    m::FetchRequest::default()
        .with_cluster_id(Some(CLUSTER_ID.into()))
        .with_replica_state(ReplicaState::default().with_replica_id(replica.into()))
        .with_max_wait_ms(MAX_WAIT_MS)
        .with_max_bytes(max_bytes)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

pub fn place(request: &m::FetchRequest) -> Option<Place> {
    let topic = request.topics.first().filter(|topic| topic.topic_id == METADATA_TOPIC_ID.0)?;
    let data = topic.partitions.first()?;
    Some(Place {
        replica: request.replica_state.replica_id.0,
        epoch: LeaderEpoch(data.current_leader_epoch),
        last_epoch: LeaderEpoch(data.last_fetched_epoch),
        end_offset: Offset(data.fetch_offset),
        high_watermark: Offset(data.high_watermark),
        max_wait_ms: request.max_wait_ms,
        max_bytes: request.max_bytes,
    })
}

/// What a leader's answer to a fetch carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    Records(bytes::Bytes),
    /// The follower's log has another history from here on.
    Diverging(LeaderEpoch, Offset),
    /// The follower asks for records that are only in this snapshot.
    Snapshot(SnapshotId),
}

/// `high_watermark`: `None` while the leader does not know it.
pub fn fetch_response(
    outcome: Outcome,
    fetched: Fetched,
    high_watermark: Option<Offset>,
    log_start: Offset,
) -> m::FetchResponse {
    let leader = LeaderIdAndEpoch::default()
        .with_leader_id(leader_id(outcome.leader))
        .with_leader_epoch(outcome.epoch.0);
    let (mut records, mut diverging, mut snapshot) = Default::default();
    match fetched {
        Fetched::Records(fetched) => records = fetched,
        Fetched::Diverging(epoch, end_offset) => {
            diverging = EpochEndOffset::default().with_epoch(epoch.0).with_end_offset(end_offset.0);
        }
        Fetched::Snapshot(id) => {
            snapshot =
                fetch_response::SnapshotId::default().with_end_offset(id.end_offset.0).with_epoch(id.epoch.0);
        }
    }
    let data = m::fetch_response::PartitionData::default()
        .with_error_code(outcome.error.code())
        .with_high_watermark(high_watermark.unwrap_or(Offset::UNKNOWN).0)
        .with_log_start_offset(log_start.0)
        .with_current_leader(leader)
        .with_diverging_epoch(diverging)
        .with_snapshot_id(snapshot)
        .with_records(Some(records));
    let topic =
        FetchableTopicResponse::default().with_topic_id(METADATA_TOPIC_ID.0).with_partitions(vec![data]);
    m::FetchResponse::default().with_responses(vec![topic])
}

pub fn fetched(response: &m::FetchResponse) -> Option<(Outcome, Fetched, Option<Offset>)> {
    let data = response.responses.first()?.partitions.first()?;
    let current = &data.current_leader;
    let (diverging, snapshot) = (&data.diverging_epoch, &data.snapshot_id);
    let fetched = if diverging.epoch >= 0 {
        Fetched::Diverging(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
    } else if snapshot.epoch >= 0 && snapshot.end_offset >= 0 {
        let (epoch, end_offset) = (LeaderEpoch(snapshot.epoch), Offset(snapshot.end_offset));
        Fetched::Snapshot(SnapshotId { epoch, end_offset })
    } else {
        Fetched::Records(data.records.clone().unwrap_or_default())
    };
    let high_watermark = Some(Offset(data.high_watermark)).filter(|offset| *offset >= Offset::ZERO);
    Some((outcome(data.error_code, current.leader_id, current.leader_epoch), fetched, high_watermark))
}

/// Which part of a snapshot a replica asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotPlace {
    pub replica: i32,
    pub epoch: LeaderEpoch,
    pub id: SnapshotId,
    pub position: i64,
    pub max_bytes: i32,
}

pub fn fetch_snapshot_request(place: SnapshotPlace) -> m::FetchSnapshotRequest {
    let id = fetch_snapshot_request::SnapshotId::default()
        .with_end_offset(place.id.end_offset.0)
        .with_epoch(place.id.epoch.0);
    let partition = fetch_snapshot_request::PartitionSnapshot::default()
        .with_current_leader_epoch(place.epoch.0)
        .with_snapshot_id(id)
        .with_position(place.position);
    let topic = fetch_snapshot_request::TopicSnapshot::default()
        .with_name(topic_name())
        .with_partitions(vec![partition]);
    m::FetchSnapshotRequest::default()
        .with_cluster_id(Some(CLUSTER_ID.into()))
        .with_replica_id(place.replica.into())
        .with_max_bytes(place.max_bytes)
        .with_topics(vec![topic])
}

pub fn snapshot_place(request: &m::FetchSnapshotRequest) -> Option<SnapshotPlace> {
    let partition = request.topics.first()?.partitions.first()?;
    let (epoch, end_offset) =
        (LeaderEpoch(partition.snapshot_id.epoch), Offset(partition.snapshot_id.end_offset));
    Some(SnapshotPlace {
        replica: request.replica_id.0,
        epoch: LeaderEpoch(partition.current_leader_epoch),
        id: SnapshotId { epoch, end_offset },
        position: partition.position,
        max_bytes: request.max_bytes,
    })
}

/// A part of a snapshot, from `position` on, of `size` bytes in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    pub id: SnapshotId,
    pub size: i64,
    pub position: i64,
    pub bytes: bytes::Bytes,
}

pub fn fetch_snapshot_response(outcome: Outcome, chunk: Chunk) -> m::FetchSnapshotResponse {
    let leader = fetch_snapshot_response::LeaderIdAndEpoch::default()
        .with_leader_id(leader_id(outcome.leader))
        .with_leader_epoch(outcome.epoch.0);
    let id = fetch_snapshot_response::SnapshotId::default()
        .with_end_offset(chunk.id.end_offset.0)
        .with_epoch(chunk.id.epoch.0);
    let partition = fetch_snapshot_response::PartitionSnapshot::default()
        .with_error_code(outcome.error.code())
        .with_snapshot_id(id)
        .with_current_leader(leader)
        .with_size(chunk.size)
        .with_position(chunk.position)
        .with_unaligned_records(chunk.bytes);
    let topic = fetch_snapshot_response::TopicSnapshot::default()
        .with_name(topic_name())
        .with_partitions(vec![partition]);
    m::FetchSnapshotResponse::default().with_topics(vec![topic])
}

pub fn chunk(response: &m::FetchSnapshotResponse) -> Option<(Outcome, Chunk)> {
    let partition = response.topics.first()?.partitions.first()?;
    let current = &partition.current_leader;
    let (epoch, end_offset) =
        (LeaderEpoch(partition.snapshot_id.epoch), Offset(partition.snapshot_id.end_offset));
    let chunk = Chunk {
        id: SnapshotId { epoch, end_offset },
        size: partition.size,
        position: partition.position,
        bytes: partition.unaligned_records.clone(),
    };
    Some((outcome(partition.error_code, current.leader_id, current.leader_epoch), chunk))
}
