//! A consumer against a scripted cluster without latency: group and fetch rules by their ids.

mod answers;
mod asks;
mod closing;
mod commits;
mod cooperative;
mod fetching;
mod isolation;
mod membership;
mod modern;
mod modern_poll;
mod racks;
mod starting;
mod static_member;
mod subscription;
mod validation;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use answers::*;
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as m;
use m::fetch_response::{FetchableTopicResponse, PartitionData};
use m::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};

use super::*;
use crate::kafka::effects::{Channel, Effect, Peer};
use crate::kafka::event::ApplicationEvent;
use crate::kafka::group::consumer_protocol::{
    ConsumerAssignment, ConsumerSubscription, VERSION, assigned_partitions,
};
use crate::kafka::protocol::{ApiKey, Request, Response, strict};
use crate::kafka::types::{
    ClientName, Generation, GroupId, LeaderEpoch, MemberId, NodeId, Offset, Topic, TopicPartition,
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
    /// Calls that looked offsets up, and what they returned.
    looked_up: Vec<String>,
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
    racks: BTreeMap<i32, &'static str>,
    /// Requests that [`Rig::settle`] leaves alone.
    held: BTreeSet<ApiKey>,
}

impl Rig {
    fn new(program: &[&str], config: &[(&str, &str)]) -> Rig {
        let spec = ConsumerSpec {
            name: ClientName::new("c1"),
            group: GroupId::new("g"),
            choice: Choice::Topics(vec![Topic::new("t")]),
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
            looked_up: Vec::new(),
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
            racks: BTreeMap::new(),
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
        self.close_with(CloseOptions::default());
    }

    fn close_with(&mut self, options: CloseOptions) {
        let mut fx = Effects::default();
        self.consumer.close(self.now, options, &mut fx);
        self.carry_out(fx);
        self.settle();
    }

    /// A person has the application call its consumer.
    #[track_caller]
    fn ask(&mut self, ask: Ask) {
        assert_eq!(self.consumer.check_ask(&ask), Ok(()));
        let mut fx = Effects::default();
        self.consumer.ask(self.now, ask, &mut fx);
        self.carry_out(fx);
        self.settle();
    }

    fn carry_out(&mut self, fx: Effects<ConsumerTimer>) {
        let mut connections = Vec::new();
        for effect in fx.into_vec() {
            match effect {
                Effect::Connect(peer) => connections.push(peer),
                Effect::Disconnect(peer) => self.pending.retain(|pending| pending.peer != peer),
                Effect::Send { to, correlation, version, request } => {
                    strict::carry_request(&request, version).unwrap();
                    self.pending.push(Pending { at: self.now, peer: to, correlation, request });
                }
                Effect::SetTimer { timer, at } => {
                    assert!(at > self.now, "{timer:?} is set to the past");
                    self.timers.insert(timer, at);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Event(Event::Application(ApplicationEvent::LookedUp { call, told, .. })) => {
                    let each = told.iter().map(|(tp, offset)| {
                        format!(" {}@{}", tp.partition, offset.map_or(-1, |offset| offset.0))
                    });
                    self.looked_up.push(format!("{call}{}", each.collect::<String>()));
                }
                // What befalls its thread is of interest to those who look on.
                Effect::Event(Event::Application(_)) => {}
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

    /// The JoinGroup that is not answered.
    #[track_caller]
    fn join_sent(&self) -> m::JoinGroupRequest {
        let Request::JoinGroup(join) = &*self.pending(ApiKey::JoinGroup).request else { unreachable!() };
        join.clone()
    }

    /// What is said to one assignor in the JoinGroup that is not answered.
    #[track_caller]
    fn said_to(&self, assignor: &str) -> ConsumerSubscription {
        let join = self.join_sent();
        let protocol = join.protocols.iter().find(|protocol| protocol.name.as_str() == assignor);
        ConsumerSubscription::decode(&protocol.expect("it is one of the strategy").metadata).unwrap()
    }

    /// Another member `m9` leads the next generation and gives this one `partitions`; Heartbeat, JoinGroup and SyncGroup
    /// are held.
    fn plan_of_another(&mut self, partitions: &[i32]) {
        let pending = self.pending(ApiKey::JoinGroup);
        let Request::JoinGroup(join) = &*pending.request else { unreachable!() };
        self.generation += 1;
        let answer = self.joined_as(join, &[], "m9").with_member_id(MemberId::new("m1").to_wire());
        self.answer(&pending, answer);
        let pending = self.pending(ApiKey::SyncGroup);
        let partitions: Vec<TopicPartition> = partitions.iter().map(|partition| tp(*partition)).collect();
        let assignment = assignment_blob(&partitions);
        self.answer(&pending, m::SyncGroupResponse::default().with_assignment(assignment));
        self.settle();
    }

    /// The next heartbeat is answered with this.
    fn heartbeat_says(&mut self, error: ErrorCode) {
        self.held.insert(ApiKey::Heartbeat);
        self.run_until(self.now.ms() + 3_000);
        let pending = self.pending(ApiKey::Heartbeat);
        self.answer(&pending, heartbeat(error));
        self.settle();
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

fn assignment_blob(partitions: &[TopicPartition]) -> Bytes {
    ConsumerAssignment { partitions: partitions.to_vec(), user_data: None }.encode(VERSION)
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

/// The events of a consumer in short.
fn tell(event: &Event) -> String {
    let list = |partitions: &[TopicPartition]| {
        partitions.iter().map(|tp| tp.partition.to_string()).collect::<Vec<_>>().join(" ")
    };
    match event {
        Event::CoordinatorFound { broker, .. } => format!("coordinator {broker}"),
        Event::CoordinatorLost { error, .. } => format!("coordinator lost: {error}"),
        Event::JoinSent { .. } => "join".to_owned(),
        Event::PartitionsAssigned { generation, partitions, added, .. } => {
            let kept: Vec<TopicPartition> =
                partitions.iter().filter(|tp| !added.contains(tp)).cloned().collect();
            let keeps = if kept.is_empty() { String::new() } else { format!("kept [{}], ", list(&kept)) };
            format!("{keeps}assigned [{}] in generation {generation}", list(added))
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
        Event::AbortedPassedOver { tp, from, to, records, .. } => {
            format!("passed over {records} of {}: {from}..{to}", tp.partition)
        }
        Event::Processed { tp, offset, .. } => format!("processed {}@{offset}", tp.partition),
        Event::CommitConfirmed { offsets, automatic, .. } => {
            let offsets: Vec<String> =
                offsets.iter().map(|(tp, offset)| format!("{}@{offset}", tp.partition)).collect();
            format!("{} {}", if *automatic { "auto-committed" } else { "committed" }, offsets.join(" "))
        }
        Event::CommitCalledBack { outcome, .. } => format!("called back: {outcome:?}"),
        Event::SubscriptionChanged { to, .. } => {
            to.as_ref().map_or("unsubscribes".to_owned(), |to| format!("reads {to}"))
        }
        Event::PartitionsPaused { partitions, .. } => format!("paused [{}]", list(partitions)),
        Event::PartitionsResumed { partitions, .. } => format!("resumed [{}]", list(partitions)),
        Event::CallRefused { reason, .. } => format!("threw: {reason}"),
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
        Event::NoOffsetForPartitions { partitions, .. } => format!("no offset for [{}]", list(partitions)),
        Event::RecordUnreadable { tp, offset, part, .. } => {
            format!("cannot read the {part:?} of {}@{offset}", tp.partition)
        }
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
