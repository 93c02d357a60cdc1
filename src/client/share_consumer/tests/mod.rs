//! A share consumer against a scripted cluster without latency: rules of share groups by their ids. Fetches and
//! acknowledgements are answered by the test itself.

mod acknowledging;
mod fetching;
mod membership;

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::messages as m;
use m::find_coordinator_response::Coordinator as FoundCoordinator;
use m::metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use m::share_group_heartbeat_response::{Assignment, TopicPartitions};

use super::*;
use crate::kafka::effects::{Effect, Peer};
use crate::kafka::protocol::share::{
    AcknowledgedPartition, AcknowledgedTopic, AcknowledgementBatch, AcquiredRecords, FetchedPartition,
    FetchedTopic, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest, ShareFetchResponse,
};
use crate::kafka::protocol::{ApiKey, Request, Response, strict};
use crate::kafka::record::{BatchBuilder, NewRecord};
use crate::kafka::types::{ClientName, GroupId, LeaderEpoch, Topic};

const TOPIC_ID: uuid::Uuid = uuid::Uuid::from_u128(7);
const COORDINATOR: i32 = 2;
const BEAT: ApiKey = ApiKey::ShareGroupHeartbeat;
const FETCH: ApiKey = ApiKey::ShareFetch;
const ACKNOWLEDGE: ApiKey = ApiKey::ShareAcknowledge;

/// A request that the scripted cluster has not answered.
#[derive(Clone, Debug)]
struct Pending {
    peer: Peer,
    correlation: i32,
    request: Rc<Request>,
}

/// One share consumer `s1` of group `g` on topic `t`, whose partitions broker 1 leads.
struct Rig {
    consumer: ShareConsumer,
    now: Time,
    timers: BTreeMap<ConsumerTimer, Time>,
    pending: Vec<Pending>,
    events: Vec<String>,
    exited: bool,
    partitions: i32,
    /// No topic can have the name.
    topic_is_invalid: bool,
}

impl Rig {
    fn new(program: &[&str], config: &[(&str, &str)]) -> Rig {
        let spec = ShareConsumerSpec {
            name: ClientName::new("s1"),
            group: GroupId::new("g"),
            topics: vec![Topic::new("t")],
            program: Line::parse_program(program).unwrap(),
            config: config.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        };
        Rig {
            consumer: ShareConsumer::new(spec, &[BrokerId(1)], Random::stream(1, "s1")).unwrap(),
            now: Time::ZERO,
            timers: BTreeMap::new(),
            pending: Vec::new(),
            events: Vec::new(),
            exited: false,
            partitions: 1,
            topic_is_invalid: false,
        }
    }

    /// A member in epoch 1 that reads partition 0 and has sent its first fetch.
    fn joined(program: &[&str], config: &[(&str, &str)]) -> Rig {
        let mut rig = Rig::new(program, config);
        rig.input(Input::Start);
        rig.settle();
        rig.beat(in_epoch(1, Some(&[0])));
        // That it has taken its share.
        rig.beat(in_epoch(1, None));
        rig.run_until(10);
        rig.events.clear();
        rig
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
                Effect::Send { to, correlation, version, request } => {
                    strict::carry_request(&request, version).unwrap();
                    self.pending.push(Pending { peer: to, correlation, request });
                }
                Effect::SetTimer { timer, at } => {
                    assert!(at > self.now, "{timer:?} is set to the past");
                    self.timers.insert(timer, at);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                // What befalls its thread is of interest to those who look on.
                Effect::Event(Event::Application(_)) => {}
                Effect::Event(event) => self.events.push(tell(&event)),
                Effect::Exit => self.exited = true,
                other => panic!("no share consumer does {other:?}"),
            }
        }
        for peer in connections {
            self.input(Input::Connected(peer));
        }
    }

    /// Answers what is neither a heartbeat nor about records.
    fn settle(&mut self) {
        let next = |rig: &Rig| {
            let is_open = |pending: &&Pending| {
                let first = rig.pending.iter().find(|other| other.peer == pending.peer);
                let is_first = first.is_some_and(|first| first.correlation == pending.correlation);
                is_first && ![BEAT, FETCH, ACKNOWLEDGE].contains(&pending.request.api())
            };
            rig.pending.iter().find(is_open).cloned()
        };
        while let Some(pending) = next(self) {
            let response: Response = match &*pending.request {
                Request::ApiVersions(_) => m::ApiVersionsResponse::default().into(),
                Request::Metadata(_) => self.metadata().into(),
                Request::FindCoordinator(_) => {
                    let found = FoundCoordinator::default().with_node_id(m::BrokerId(COORDINATOR));
                    m::FindCoordinatorResponse::default().with_coordinators(vec![found]).into()
                }
                other => panic!("no share consumer sends {}", other.api().name()),
            };
            self.answer(&pending, response);
        }
    }

    fn metadata(&self) -> m::MetadataResponse {
        let broker = |id| MetadataResponseBroker::default().with_node_id(m::BrokerId(id));
        let partition = |index| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(m::BrokerId(1))
                .with_leader_epoch(5)
                .with_replica_nodes([1, 2].map(m::BrokerId).to_vec())
        };
        let topic = MetadataResponseTopic::default().with_name(Some(m::TopicName(Topic::new("t").to_wire())));
        let topic = match self.topic_is_invalid {
            true => topic.with_error_code(ErrorCode::InvalidTopicException.code()),
            false => {
                topic.with_topic_id(TOPIC_ID).with_partitions((0..self.partitions).map(partition).collect())
            }
        };
        m::MetadataResponse::default().with_brokers([1, 2].map(broker).to_vec()).with_topics(vec![topic])
    }

    fn answer(&mut self, pending: &Pending, response: impl Into<Response>) {
        self.pending.retain(|other| (other.peer, other.correlation) != (pending.peer, pending.correlation));
        let response: Rc<Response> = Rc::new(response.into());
        strict::carry_response(&response, response.api().version()).unwrap();
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

    /// Answers the heartbeat.
    #[track_caller]
    fn beat(&mut self, response: m::ShareGroupHeartbeatResponse) {
        let pending = self.pending(BEAT);
        self.answer(&pending, response);
        self.settle();
    }

    #[track_caller]
    fn heartbeat(&self) -> m::ShareGroupHeartbeatRequest {
        let Request::ShareGroupHeartbeat(beat) = &*self.pending(BEAT).request else { unreachable!() };
        beat.clone()
    }

    #[track_caller]
    fn fetch(&self) -> ShareFetchRequest {
        let Request::ShareFetch(fetch) = &*self.pending(FETCH).request else { unreachable!() };
        fetch.clone()
    }

    /// Answers the fetch.
    #[track_caller]
    fn deliver(&mut self, partitions: Vec<FetchedPartition>) {
        let pending = self.pending(FETCH);
        let responses = vec![FetchedTopic { topic_id: TOPIC_ID, partitions }];
        self.answer(&pending, ShareFetchResponse { responses, ..ShareFetchResponse::default() });
        self.settle();
    }

    #[track_caller]
    fn acknowledgement(&self) -> ShareAcknowledgeRequest {
        let Request::ShareAcknowledge(request) = &*self.pending(ACKNOWLEDGE).request else { unreachable!() };
        request.clone()
    }

    /// Answers the acknowledgement, of partition 0.
    #[track_caller]
    fn acknowledge(&mut self, error: ErrorCode) {
        let pending = self.pending(ACKNOWLEDGE);
        let partition =
            AcknowledgedPartition { error_code: error.code(), ..AcknowledgedPartition::default() };
        let responses = vec![AcknowledgedTopic { topic_id: TOPIC_ID, partitions: vec![partition] }];
        self.answer(&pending, ShareAcknowledgeResponse { responses, ..ShareAcknowledgeResponse::default() });
        self.settle();
    }

    /// Lets time pass: timers fire, and what is not about records is answered.
    fn run_until(&mut self, ms: i64) {
        let next = |rig: &Rig| rig.timers.iter().min_by_key(|(_, at)| **at).map(|(timer, at)| (*at, *timer));
        while let Some((at, timer)) = next(self).filter(|(at, _)| *at <= Time::from_ms(ms)) {
            self.timers.remove(&timer);
            self.now = at;
            self.input(Input::Timer(timer));
            self.settle();
        }
        self.now = Time::from_ms(ms);
    }

    #[track_caller]
    fn check_events(&mut self, expected: &[&str]) {
        assert_eq!(std::mem::take(&mut self.events), expected);
    }
}

/// The coordinator says that the member is in `epoch` and, if anything, that it is to read these.
fn in_epoch(epoch: i32, partitions: Option<&[i32]>) -> m::ShareGroupHeartbeatResponse {
    let assignment = partitions.map(|partitions| {
        let topic = TopicPartitions::default().with_topic_id(TOPIC_ID).with_partitions(partitions.to_vec());
        Assignment::default().with_topic_partitions(vec![topic])
    });
    m::ShareGroupHeartbeatResponse::default()
        .with_member_epoch(epoch)
        .with_heartbeat_interval_ms(5_000)
        .with_assignment(assignment)
}

fn refused(error: ErrorCode) -> m::ShareGroupHeartbeatResponse {
    m::ShareGroupHeartbeatResponse::default().with_error_code(error.code())
}

/// One batch of the offsets `from..to`, acquired for the first time.
fn records(partition_index: i32, from: i64, to: i64) -> FetchedPartition {
    let mut builder = BatchBuilder::new();
    for _ in from..to {
        builder.append(&NewRecord { value: Some(b"v"), ..NewRecord::default() });
    }
    let acquired = AcquiredRecords { first_offset: from, last_offset: to - 1, delivery_count: 1 };
    FetchedPartition {
        partition_index,
        records: builder.finish(None).with_assigned(Offset(from), LeaderEpoch(5)).into_bytes(),
        acquired_records: vec![acquired],
        ..FetchedPartition::default()
    }
}

fn partition_error(partition_index: i32, error: ErrorCode) -> FetchedPartition {
    FetchedPartition { partition_index, error_code: error.code(), ..FetchedPartition::default() }
}

/// First and last offset with the types that are said of them.
fn said(batches: &[AcknowledgementBatch]) -> Vec<(i64, i64, Vec<i8>)> {
    let batches = batches.iter();
    batches.map(|batch| (batch.first_offset, batch.last_offset, batch.acknowledge_types.clone())).collect()
}

/// The events of a share consumer in short.
fn tell(event: &Event) -> String {
    let list = |partitions: &[TopicPartition]| {
        partitions.iter().map(|tp| tp.partition.to_string()).collect::<Vec<_>>().join(" ")
    };
    match event {
        Event::CoordinatorFound { broker, .. } => format!("coordinator {broker}"),
        Event::CoordinatorLost { error, .. } => format!("coordinator lost: {error}"),
        Event::ConnectionLost { node, requests, .. } => {
            format!("connection to {node} lost, {requests} requests")
        }
        Event::Processed { tp, offset, .. } => format!("processed {}@{offset}", tp.partition),
        Event::ClientFailed { error, .. } => format!("failed: {error}"),
        Event::Share(ShareEvent::Joins { .. }) => "joins".to_owned(),
        Event::Share(ShareEvent::Assigned { epoch, partitions, .. }) => {
            format!("reads [{}] in epoch {epoch}", list(partitions))
        }
        Event::Share(ShareEvent::Left { partitions, reason, .. }) => {
            format!("left [{}]: {reason:?}", list(partitions))
        }
        Event::Share(ShareEvent::Delivered { tp, records, .. }) => {
            let offsets: Vec<String> = records.iter().map(|(offset, _)| offset.to_string()).collect();
            format!("got {} of {}", offsets.join(" "), tp.partition)
        }
        Event::Share(ShareEvent::Heard { tp, said, error, .. }) => {
            let outcome = error.map_or("in effect".to_owned(), |error| error.to_string());
            format!("heard of {} of {}: {outcome}", said.len(), tp.partition)
        }
        other => panic!("no share consumer tells {other:?}"),
    }
}
