//! A consumer against a scripted cluster without latency: group and fetch rules by their ids.

mod closing;
mod commits;
mod fetching;
mod membership;
mod racks;
mod starting;
mod subscription;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as m;
use m::fetch_response::{FetchableTopicResponse, LeaderIdAndEpoch, PartitionData};
use m::find_coordinator_response::Coordinator as FoundCoordinator;
use m::join_group_response::JoinGroupResponseMember;
use m::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use m::metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use m::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use m::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use m::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};

use super::*;
use crate::kafka::effects::{Channel, Effect};
use crate::kafka::group::consumer_protocol::assigned_partitions;
use crate::kafka::protocol::strict;
use crate::kafka::record::{BatchBuilder, NewRecord};
use crate::kafka::types::{
    ClientName, GroupId, LeaderEpoch, MemberId, NodeId, Offset, Topic, TopicPartition,
};

const TOPIC_ID: uuid::Uuid = uuid::Uuid::from_u128(7);
const COORDINATOR: i32 = 2;

/// A request that the scripted cluster has not answered.
#[derive(Clone, Debug)]
struct Pending {
    at: Time,
    peer: Peer,
    correlation: i32,
    request: Rc<Request>,
}

/// One consumer `c1` of group `g` on topic `t`, and what the cluster answers it.
struct Rig {
    consumer: Consumer,
    now: Time,
    timers: BTreeMap<ConsumerTimer, Time>,
    pending: Vec<Pending>,
    events: Vec<String>,
    exited: bool,
    /// Leader of each partition of `t`; the number of partitions is its length.
    leaders: Vec<i32>,
    leader_epoch: i32,
    /// Brokers that refuse connections.
    down: BTreeSet<i32>,
    committed: BTreeMap<i32, i64>,
    /// Leader epoch of what is committed.
    committed_epoch: i32,
    /// How leaders say that the epoch of a position ends; `None`: as it was asked for, at the log end.
    epoch_end: Option<(i32, i64)>,
    log_start: i64,
    log_end: i64,
    generation: i32,
    /// Requests that [`Rig::settle`] leaves alone.
    held: BTreeSet<ApiKey>,
}

impl Rig {
    fn new(program: &[&str], config: &[(&str, &str)]) -> Rig {
        let spec = ConsumerSpec {
            name: ClientName::new("c1"),
            group: GroupId::new("g"),
            topics: vec![Topic::new("t")],
            program: Line::parse_program(program).unwrap(),
            config: config.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        };
        let consumer = Consumer::new(spec, &[BrokerId(1)], Random::stream(1, "c1")).unwrap();
        Rig {
            consumer,
            now: Time::ZERO,
            timers: BTreeMap::new(),
            pending: Vec::new(),
            events: Vec::new(),
            exited: false,
            leaders: vec![1],
            leader_epoch: 5,
            down: BTreeSet::new(),
            committed: BTreeMap::new(),
            committed_epoch: -1,
            epoch_end: None,
            log_start: 0,
            log_end: 100,
            generation: 0,
            held: BTreeSet::from([ApiKey::Fetch]),
        }
    }

    /// A member of one that owns all partitions and fetches from its committed offset 0.
    fn joined(program: &[&str], config: &[(&str, &str)]) -> Rig {
        let mut rig = Rig::new(program, config);
        rig.committed.insert(0, 0);
        rig.start();
        rig.events.clear();
        rig
    }

    fn start(&mut self) {
        self.input(Input::Start);
        self.settle();
    }

    fn input(&mut self, input: Input<ConsumerTimer>) {
        let mut fx = Effects::default();
        self.consumer.handle(self.now, input, &mut fx);
        self.carry_out(fx);
    }

    fn close(&mut self) {
        let mut fx = Effects::default();
        self.consumer.close(self.now, &mut fx);
        self.carry_out(fx);
        self.settle();
    }

    fn carry_out(&mut self, fx: Effects<ConsumerTimer>) {
        let mut connections = Vec::new();
        for effect in fx.into_vec() {
            match effect {
                Effect::Connect(peer) => connections.push(peer),
                Effect::Disconnect(peer) => self.pending.retain(|pending| pending.peer != peer),
                Effect::Send { to, correlation, request } => {
                    strict::carry_request(&request).unwrap();
                    self.pending.push(Pending { at: self.now, peer: to, correlation, request });
                }
                Effect::SetTimer { timer, at } => {
                    assert!(at > self.now, "{timer:?} is set to the past");
                    self.timers.insert(timer, at);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Event(event) => self.events.push(tell(&event)),
                Effect::Exit => self.exited = true,
                other => panic!("no consumer does {other:?}"),
            }
        }
        for peer in connections {
            let up = !self.down.contains(&broker_of(peer));
            self.input(if up { Input::Connected(peer) } else { Input::Disconnected(peer) });
        }
    }

    /// Answers all requests that are not held until none is left.
    fn settle(&mut self) {
        let next = |rig: &Rig| {
            let open = |p: &Pending| {
                let first = rig.pending.iter().find(|other| other.peer == p.peer).map(|p| p.correlation);
                !rig.held.contains(&p.request.api()) && first == Some(p.correlation)
            };
            rig.pending.iter().find(|p| open(p)).cloned()
        };
        while let Some(pending) = next(self) {
            let response = self.response(&pending.request);
            self.answer(&pending, response);
        }
        // One that ends a session does not have to wait for the fetch before it here.
        let ends = |p: &Pending| matches!(&*p.request, Request::Fetch(fetch) if fetch.session_epoch == -1);
        if let Some(last) = self.pending.iter().find(|p| ends(p)).cloned()
            && let Some(first) = self.pending.iter().find(|p| p.peer == last.peer).cloned()
        {
            self.answer(&first, empty_answer(&first));
            self.settle();
        }
    }

    fn answer(&mut self, pending: &Pending, response: impl Into<Response>) {
        self.pending.retain(|other| (other.peer, other.correlation) != (pending.peer, pending.correlation));
        let response: Rc<Response> = Rc::new(response.into());
        self.input(Input::Response { from: pending.peer, correlation: pending.correlation, response });
    }

    /// The first request of this kind that is not answered.
    #[track_caller]
    fn pending(&self, api: ApiKey) -> Pending {
        let found = self.pending.iter().find(|pending| pending.request.api() == api).cloned();
        found.unwrap_or_else(|| panic!("no {} among {:?}", api.name(), self.pending))
    }

    fn count(&self, api: ApiKey) -> i32 {
        self.pending.iter().filter(|pending| pending.request.api() == api).count() as i32
    }

    /// Lets time pass: timers fire, the cluster answers, fetches come back empty after fetch.max.wait.ms.
    fn run_until(&mut self, ms: i64) {
        loop {
            let timer = self.timers.iter().min_by_key(|(_, at)| **at).map(|(timer, at)| (*at, *timer));
            let over = |p: &&Pending| p.request.api() == ApiKey::Fetch;
            let fetch = self.pending.iter().find(over).map(|p| (p.at.plus_ms(500), p.clone()));
            match (timer, fetch) {
                (Some((at, timer)), fetch) if at <= fetch.as_ref().map_or(Time::from_ms(ms), |f| f.0) => {
                    if at > Time::from_ms(ms) {
                        break;
                    }
                    self.timers.remove(&timer);
                    self.now = at;
                    self.input(Input::Timer(timer));
                }
                (_, Some((at, fetch))) if at <= Time::from_ms(ms) => {
                    self.now = at;
                    self.answer(&fetch, empty_answer(&fetch));
                }
                _ => break,
            }
            self.settle();
        }
        self.now = Time::from_ms(ms);
    }

    #[track_caller]
    fn check_events(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.events), expected);
    }

    /// A connection breaks from the other side.
    fn cut(&mut self, broker: i32, channel: Channel) {
        let peer = Peer::new(BrokerId(broker), channel);
        self.pending.retain(|pending| pending.peer != peer);
        self.input(Input::Disconnected(peer));
    }

    fn response(&mut self, request: &Request) -> Response {
        match request {
            Request::ApiVersions(_) => m::ApiVersionsResponse::default().into(),
            Request::Metadata(_) => self.metadata().into(),
            Request::FindCoordinator(_) => coordinator_is(COORDINATOR).into(),
            Request::JoinGroup(join) => self.join(join).into(),
            Request::SyncGroup(sync) => {
                let own = sync.assignments.iter().find(|a| a.member_id == sync.member_id);
                let assignment = own.map(|a| a.assignment.clone()).unwrap_or_default();
                m::SyncGroupResponse::default().with_assignment(assignment).into()
            }
            Request::OffsetFetch(fetch) => self.offsets(fetch).into(),
            Request::ListOffsets(list) => self.log_ends(list).into(),
            Request::OffsetCommit(commit) => self.commit(commit).into(),
            Request::OffsetForLeaderEpoch(ask) => self.epoch_ends(ask).into(),
            Request::Heartbeat(_) => heartbeat(ErrorCode::None).into(),
            Request::LeaveGroup(_) => m::LeaveGroupResponse::default().into(),
            other => panic!("no consumer sends {}", other.api().name()),
        }
    }

    fn metadata(&self) -> m::MetadataResponse {
        let broker = |id| MetadataResponseBroker::default().with_node_id(m::BrokerId(id));
        let partition = |(index, leader): (usize, &i32)| {
            MetadataResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id(m::BrokerId(*leader))
                .with_leader_epoch(self.leader_epoch)
                .with_replica_nodes([1, 2, 3].map(m::BrokerId).to_vec())
                .with_offline_replicas(self.down.iter().copied().map(m::BrokerId).collect())
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(m::TopicName(Topic::new("t").to_wire())))
            .with_topic_id(TOPIC_ID)
            .with_partitions(self.leaders.iter().enumerate().map(partition).collect());
        m::MetadataResponse::default().with_brokers([1, 2, 3].map(broker).to_vec()).with_topics(vec![topic])
    }

    fn join(&mut self, join: &m::JoinGroupRequest) -> m::JoinGroupResponse {
        if join.member_id.is_empty() {
            let member_id = MemberId::new("m1").to_wire();
            return join_error(ErrorCode::MemberIdRequired).with_member_id(member_id);
        }
        self.generation += 1;
        self.joined_as(join, &[("m1", &join.protocols[0].metadata)], "m1")
    }

    fn joined_as(
        &self,
        join: &m::JoinGroupRequest,
        members: &[(&str, &Bytes)],
        leader: &str,
    ) -> m::JoinGroupResponse {
        let member = |(member, metadata): &(&str, &Bytes)| {
            JoinGroupResponseMember::default()
                .with_member_id(MemberId::new(member).to_wire())
                .with_metadata((*metadata).clone())
        };
        m::JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_name(Some(MemberId::new("range").to_wire()))
            .with_leader(MemberId::new(leader).to_wire())
            .with_member_id(join.member_id.clone())
            .with_members(members.iter().map(member).collect())
    }

    fn offsets(&self, fetch: &m::OffsetFetchRequest) -> m::OffsetFetchResponse {
        assert!(fetch.require_stable, "consumers ask for stable offsets (R-GRP-39)");
        let asked = fetch.groups[0].topics.as_ref().unwrap();
        let partition = |index: &i32| {
            OffsetFetchResponsePartitions::default()
                .with_partition_index(*index)
                .with_committed_offset(self.committed.get(index).copied().unwrap_or(-1))
                .with_committed_leader_epoch(self.committed_epoch)
        };
        let topic = OffsetFetchResponseTopics::default()
            .with_name(asked[0].name.clone())
            .with_partitions(asked[0].partition_indexes.iter().map(partition).collect());
        m::OffsetFetchResponse::default()
            .with_groups(vec![OffsetFetchResponseGroup::default().with_topics(vec![topic])])
    }

    fn log_ends(&self, list: &m::ListOffsetsRequest) -> m::ListOffsetsResponse {
        let end = |asked: &m::list_offsets_request::ListOffsetsPartition| {
            ListOffsetsPartitionResponse::default()
                .with_partition_index(asked.partition_index)
                .with_offset(if asked.timestamp == -1 { self.log_end } else { self.log_start })
                .with_leader_epoch(self.leader_epoch)
        };
        let topic = ListOffsetsTopicResponse::default()
            .with_name(list.topics[0].name.clone())
            .with_partitions(list.topics[0].partitions.iter().map(end).collect());
        m::ListOffsetsResponse::default().with_topics(vec![topic])
    }

    fn epoch_ends(&self, ask: &m::OffsetForLeaderEpochRequest) -> m::OffsetForLeaderEpochResponse {
        let end = |asked: &m::offset_for_leader_epoch_request::OffsetForLeaderPartition| {
            let answer = EpochEndOffset::default().with_partition(asked.partition);
            if asked.current_leader_epoch != self.leader_epoch {
                return answer.with_error_code(ErrorCode::FencedLeaderEpoch.code());
            }
            let (epoch, end) = self.epoch_end.unwrap_or((asked.leader_epoch, self.log_end));
            answer.with_leader_epoch(epoch).with_end_offset(end)
        };
        let topic = OffsetForLeaderTopicResult::default()
            .with_topic(ask.topics[0].topic.clone())
            .with_partitions(ask.topics[0].partitions.iter().map(end).collect());
        m::OffsetForLeaderEpochResponse::default().with_topics(vec![topic])
    }

    fn commit(&mut self, commit: &m::OffsetCommitRequest) -> m::OffsetCommitResponse {
        for partition in &commit.topics[0].partitions {
            self.committed.insert(partition.partition_index, partition.committed_offset);
        }
        commit_answer(commit, ErrorCode::None)
    }

    /// Answers the fetch that broker `leader` holds: per partition the offsets `from..to` and the high watermark.
    #[track_caller]
    fn deliver(&mut self, leader: i32, partitions: &[(i32, i64, i64)]) {
        let data = partitions.iter().map(|&(partition, from, to)| records(partition, from, to)).collect();
        self.deliver_data(leader, data);
    }

    #[track_caller]
    fn deliver_data(&mut self, leader: i32, partitions: Vec<PartitionData>) {
        let fetch = self.fetch_at(leader);
        self.answer(&fetch, answer_of(&fetch, partitions));
        self.settle();
    }

    #[track_caller]
    fn fetch_at(&self, leader: i32) -> Pending {
        let at = |p: &&Pending| p.request.api() == ApiKey::Fetch && broker_of(p.peer) == leader;
        self.pending.iter().find(at).cloned().unwrap_or_else(|| panic!("no fetch at {leader}"))
    }

    /// What the fetch at `leader` asks for, in order: partition and offset.
    #[track_caller]
    fn fetching(&self, leader: i32) -> Vec<(i32, i64)> {
        let fetch = self.fetch_at(leader);
        let Request::Fetch(fetch) = &*fetch.request else { unreachable!() };
        let partitions = fetch.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|p| (p.partition, p.fetch_offset)).collect()
    }

    /// Position of a partition; -1 if there is none.
    fn position(&self, partition: i32) -> i64 {
        self.consumer.subscription().position(&tp(partition)).map_or(-1, |position| position.offset.0)
    }
}

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new("t"), partition)
}

fn broker_of(peer: Peer) -> i32 {
    match peer.node {
        NodeId::Broker(broker) => broker.0,
        other => panic!("a consumer connects to brokers, not to {other}"),
    }
}

fn batch(from: i64, to: i64) -> Bytes {
    let mut builder = BatchBuilder::new();
    for _ in from..to {
        builder.append(&NewRecord { timestamp_ms: 0, key: None, value: Some(b"v"), headers: &[] });
    }
    builder.finish(None).with_assigned(Offset(from), LeaderEpoch(5)).into_bytes()
}

fn empty_answer(fetch: &Pending) -> m::FetchResponse {
    answer_of(fetch, Vec::new())
}

/// The answer of a broker that has no slot for a session: to a full request, about all its partitions.
fn answer_of(fetch: &Pending, mut partitions: Vec<PartitionData>) -> m::FetchResponse {
    let Request::Fetch(fetch) = &*fetch.request else { panic!("no fetch: {fetch:?}") };
    assert!(fetch.session_epoch <= 0, "an incremental request");
    for asked in fetch.topics.iter().flat_map(|topic| &topic.partitions) {
        if partitions.iter().all(|data| data.partition_index != asked.partition) {
            partitions.push(data_of(asked.partition, &[]));
        }
    }
    let topic = FetchableTopicResponse::default().with_topic_id(TOPIC_ID).with_partitions(partitions);
    m::FetchResponse::default().with_responses(vec![topic])
}

/// One batch of the offsets `from..to`.
fn records(partition: i32, from: i64, to: i64) -> PartitionData {
    let bytes = if from < to { batch(from, to) } else { Bytes::new() };
    data_of(partition, &[bytes]).with_high_watermark(to)
}

fn data_of(partition: i32, batches: &[Bytes]) -> PartitionData {
    let mut bytes = BytesMut::new();
    batches.iter().for_each(|batch| bytes.extend_from_slice(batch));
    PartitionData::default().with_partition_index(partition).with_records(Some(bytes.freeze()))
}

fn partition_error(partition: i32, error: ErrorCode) -> PartitionData {
    PartitionData::default().with_partition_index(partition).with_error_code(error.code())
}

fn coordinator_is(broker: i32) -> m::FindCoordinatorResponse {
    let found = FoundCoordinator::default().with_node_id(m::BrokerId(broker));
    m::FindCoordinatorResponse::default().with_coordinators(vec![found])
}

fn no_coordinator(error: ErrorCode) -> m::FindCoordinatorResponse {
    let found = FoundCoordinator::default().with_error_code(error.code());
    m::FindCoordinatorResponse::default().with_coordinators(vec![found])
}

fn join_error(error: ErrorCode) -> m::JoinGroupResponse {
    m::JoinGroupResponse::default().with_error_code(error.code())
}

fn heartbeat(error: ErrorCode) -> m::HeartbeatResponse {
    m::HeartbeatResponse::default().with_error_code(error.code())
}

fn commit_answer(commit: &m::OffsetCommitRequest, error: ErrorCode) -> m::OffsetCommitResponse {
    let partition = |p: &m::offset_commit_request::OffsetCommitRequestPartition| {
        OffsetCommitResponsePartition::default()
            .with_partition_index(p.partition_index)
            .with_error_code(error.code())
    };
    let topic = OffsetCommitResponseTopic::default()
        .with_name(commit.topics[0].name.clone())
        .with_partitions(commit.topics[0].partitions.iter().map(partition).collect());
    m::OffsetCommitResponse::default().with_topics(vec![topic])
}

/// The events of a consumer in short.
fn tell(event: &Event) -> String {
    let list = |partitions: &[TopicPartition]| {
        partitions.iter().map(|tp| tp.partition.to_string()).collect::<Vec<_>>().join(" ")
    };
    match event {
        Event::CoordinatorFound { broker, .. } => format!("coordinator {broker}"),
        Event::CoordinatorLost { error, .. } => format!("coordinator lost: {error}"),
        Event::JoinSent { .. } => "join".to_owned(),
        Event::PartitionsAssigned { generation, partitions, .. } => {
            format!("assigned [{}] in generation {generation}", list(partitions))
        }
        Event::PartitionsRevoked { partitions, reason, .. } => {
            format!("gave up [{}]: {reason:?}", list(partitions))
        }
        Event::PositionOutOfRange { tp, offset, .. } => {
            format!("{offset} of {} is out of range", tp.partition)
        }
        Event::PositionSet { tp, offset, source, .. } => {
            format!("position of {} is {offset}: {source:?}", tp.partition)
        }
        Event::Polled { tp, from, to, records, .. } => {
            format!("polled {records} of {}: {from}..{to}", tp.partition)
        }
        Event::Processed { tp, offset, .. } => format!("processed {}@{offset}", tp.partition),
        Event::CommitConfirmed { offsets, automatic, .. } => {
            let offsets: Vec<String> =
                offsets.iter().map(|(tp, offset)| format!("{}@{offset}", tp.partition)).collect();
            format!("{} {}", if *automatic { "auto-committed" } else { "committed" }, offsets.join(" "))
        }
        Event::TruncationDetected { tp, position, end, .. } => {
            format!("{} was cut before {position}: {:?}", tp.partition, end.map(|end| end.0))
        }
        Event::ReadReplicaChosen { tp, replica, rack, .. } => {
            format!("{} is read from {replica} in {rack}", tp.partition)
        }
        Event::CommitFailed { error, .. } => format!("commit failed: {error}"),
        Event::ConnectionLost { node, requests, .. } => {
            format!("connection to {node} lost, {requests} requests")
        }
        Event::RequestTimedOut { node, api, .. } => format!("{} at {node} timed out", api.name()),
        Event::ClientFailed { error, .. } => format!("failed: {error}"),
        other => panic!("no consumer tells {other:?}"),
    }
}

#[test]
fn a_consumer_is_cheap_to_fork_and_both_forks_go_on_alike() {
    let mut rig = Rig::joined(&["poll", "process 1ms"], &[]);
    let mut fork = rig.consumer.clone();
    let fetch = rig.fetch_at(1);
    rig.deliver(1, &[(0, 0, 3)]);
    let topic =
        FetchableTopicResponse::default().with_topic_id(TOPIC_ID).with_partitions(vec![records(0, 0, 3)]);
    let response = Rc::new(m::FetchResponse::default().with_responses(vec![topic]).into());
    let input = Input::Response { from: fetch.peer, correlation: fetch.correlation, response };
    fork.handle(rig.now, input, &mut Effects::default());
    assert_eq!(fork.program().activity(), rig.consumer.program().activity());
    assert_eq!(fork.program().batch(), rig.consumer.program().batch());
}

/// KIP-951: who leads now, in the answer of a broker that does not any more.
fn led_by(broker: i32, epoch: i32) -> LeaderIdAndEpoch {
    LeaderIdAndEpoch::default().with_leader_id(m::BrokerId(broker)).with_leader_epoch(epoch)
}
