//! What the leader of the quorum tells of it: DescribeQuorum (KIP-595, KIP-836).
//!
//! Mirrors `LeaderState.describeQuorum`.

use kafka_protocol::messages as m;
use kafka_protocol::messages::describe_quorum_request as request;
use kafka_protocol::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use kafka_protocol::protocol::StrBytes;

use super::client::RaftClient;
use super::leader::Progress;
use super::messages::topic_name;
use super::state::State;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::listener::{CONTROLLER_PORT, controller_host};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ControllerId, NodeId, Offset};

/// An observer that was silent for longer is not told of (`LeaderState.OBSERVER_SESSION_TIMEOUT_MS`).
const OBSERVER_SESSION_MS: i64 = 300_000;

/// How far a replica of the metadata log is, as DescribeQuorum tells it. Times in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaStatus {
    pub node: NodeId,
    /// UNKNOWN for one that has not fetched from this leader.
    pub log_end_offset: Offset,
    pub last_fetch_ms: Option<i64>,
    pub last_caught_up_ms: Option<i64>,
}

/// The quorum as its leader knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumStatus {
    pub leader: ControllerId,
    pub epoch: i32,
    pub high_watermark: Offset,
    pub voters: Vec<ReplicaStatus>,
    pub observers: Vec<ReplicaStatus>,
}

impl QuorumStatus {
    fn followers(&self) -> impl Iterator<Item = &ReplicaStatus> {
        self.voters.iter().filter(|voter| voter.node != self.leader.into())
    }

    fn leader_status(&self) -> Option<&ReplicaStatus> {
        self.voters.iter().find(|voter| voter.node == self.leader.into())
    }

    /// Records that the slowest voter lacks (`kafka-metadata-quorum.sh`).
    pub fn max_follower_lag(&self) -> i64 {
        let end = self.leader_status().map_or(Offset::ZERO, |leader| leader.log_end_offset);
        self.followers().map(|voter| end - voter.log_end_offset).max().unwrap_or(0)
    }

    /// How long ago the slowest voter had everything; `None` if one never had.
    pub fn max_follower_lag_ms(&self) -> Option<i64> {
        let now_ms = self.leader_status()?.last_caught_up_ms?;
        let lags: Option<Vec<i64>> =
            self.followers().map(|voter| Some(now_ms - voter.last_caught_up_ms?)).collect();
        Some(lags?.into_iter().max().unwrap_or(0))
    }
}

impl RaftClient {
    pub fn describe_quorum(
        &self,
        now: Time,
        request: &m::DescribeQuorumRequest,
    ) -> m::DescribeQuorumResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| self.described(now, topic, partition));
            TopicData::default()
                .with_topic_name(topic.topic_name.clone())
                .with_partitions(partitions.collect())
        });
        m::DescribeQuorumResponse::default()
            .with_error_message(None)
            .with_topics(topics.collect())
            .with_nodes(self.voters().iter().map(|id| node(*id)).collect())
    }

    fn described(
        &self,
        now: Time,
        topic: &request::TopicData,
        wanted: &request::PartitionData,
    ) -> PartitionData {
        let data = PartitionData::default().with_partition_index(wanted.partition_index);
        let refuse = |error: ErrorCode| {
            data.clone().with_error_code(error.code()).with_error_message(Some(error.name().into()))
        };
        if topic.topic_name != topic_name() || wanted.partition_index != 0 {
            return refuse(ErrorCode::UnknownTopicOrPartition);
        }
        let (State::Leader(leader), Some(me)) = (&self.state, self.my_id()) else {
            return refuse(ErrorCode::NotLeaderOrFollower);
        };
        let own = Progress::of_leader(now, self.log().end_offset());
        let voters = self.voters().iter().map(|id| match leader.voter(*id) {
            Some(progress) if *id != me => replica(id.0, progress),
            _ => replica(id.0, &own),
        });
        let is_heard = |progress: &Progress| {
            progress.last_fetch.is_some_and(|at| now.ms_since(at) < OBSERVER_SESSION_MS)
        };
        let observers = leader.observers().filter_map(|(node, progress)| match node {
            NodeId::Broker(BrokerId(id)) | NodeId::Controller(ControllerId(id)) if is_heard(progress) => {
                Some(replica(id, progress))
            }
            _ => None,
        });
        data.with_error_message(None)
            .with_leader_id(me.0.into())
            .with_leader_epoch(self.epoch().0)
            .with_high_watermark(leader.high_watermark().unwrap_or(Offset::UNKNOWN).0)
            .with_current_voters(voters.collect())
            .with_observers(observers.collect())
    }
}

fn replica(id: i32, progress: &Progress) -> ReplicaState {
    let ms = |at: Option<Time>| at.map_or(-1, Time::wall_ms);
    ReplicaState::default()
        .with_replica_id(id.into())
        .with_log_end_offset(progress.end_offset.unwrap_or(Offset::UNKNOWN).0)
        .with_last_fetch_timestamp(ms(progress.last_fetch))
        .with_last_caught_up_timestamp(ms(progress.last_caught_up))
}

fn node(id: ControllerId) -> Node {
    let listener = Listener::default()
        .with_name("CONTROLLER".into())
        .with_host(StrBytes::from_string(controller_host(id)))
        .with_port(CONTROLLER_PORT);
    Node::default().with_node_id(id.0.into()).with_listeners(vec![listener])
}

/// The request for the one quorum that there is.
pub fn describe_quorum_request() -> m::DescribeQuorumRequest {
    let partition = request::PartitionData::default().with_partition_index(0);
    let topic = request::TopicData::default().with_topic_name(topic_name()).with_partitions(vec![partition]);
    m::DescribeQuorumRequest::default().with_topics(vec![topic])
}

/// The error of an answer, and its words.
pub fn quorum_error(response: &m::DescribeQuorumResponse) -> (ErrorCode, String) {
    let partition = response.topics.first().and_then(|topic| topic.partitions.first());
    let (code, message) = match (response.error_code, partition) {
        (0, Some(partition)) => (partition.error_code, &partition.error_message),
        (0, None) => (ErrorCode::UnknownServerError.code(), &response.error_message),
        (code, _) => (code, &response.error_message),
    };
    let error = ErrorCode::from_code(code);
    (error, message.as_ref().map_or_else(|| error.name().to_string(), |text| text.to_string()))
}

/// What an answer without an error tells.
pub fn quorum_status(response: &m::DescribeQuorumResponse) -> Option<QuorumStatus> {
    let partition = response.topics.first()?.partitions.first()?;
    let status = |node: NodeId, state: &ReplicaState| ReplicaStatus {
        node,
        log_end_offset: Offset(state.log_end_offset),
        last_fetch_ms: Some(state.last_fetch_timestamp).filter(|ms| *ms >= 0),
        last_caught_up_ms: Some(state.last_caught_up_timestamp).filter(|ms| *ms >= 0),
    };
    let voter = |state: &ReplicaState| status(ControllerId(state.replica_id.0).into(), state);
    let observer = |state: &ReplicaState| status(BrokerId(state.replica_id.0).into(), state);
    Some(QuorumStatus {
        leader: ControllerId(partition.leader_id.0),
        epoch: partition.leader_epoch,
        high_watermark: Offset(partition.high_watermark),
        voters: partition.current_voters.iter().map(voter).collect(),
        observers: partition.observers.iter().map(observer).collect(),
    })
}
