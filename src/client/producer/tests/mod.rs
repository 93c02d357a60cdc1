//! The producer against a cluster that answers at once, except Produce: those answers a test gives itself.

#[cfg(feature = "codecs")]
mod compression;
mod ending;
mod partitioning;
mod retries;
mod sending;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{
    LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, InitProducerIdResponse, MetadataResponse, ProduceRequest, ProduceResponse, TopicName,
};

use super::status::{BatchState, Waiting};
use super::workload::{KeyPattern, ValuePattern};
use super::*;
use crate::kafka::effects::Effect;
use crate::kafka::protocol::{Request, strict};
use crate::kafka::record::Batch;
use crate::kafka::types::{NodeId, Offset, ProducerEpoch, ProducerId, Topic, TopicId};

const TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(77));

/// A Produce request that waits for the test's answer.
struct Produced {
    peer: Peer,
    correlation: i32,
    at_ms: i64,
    batches: Vec<(i32, Batch)>,
}

impl Produced {
    fn base_sequence(&self) -> i32 {
        self.batches[0].1.base_sequence()
    }

    fn broker(&self) -> NodeId {
        self.peer.node
    }
}

fn spec(rate: &str, keys: &str, config: &[(&str, &str)]) -> ProducerSpec {
    let keys: KeyPattern = keys.parse().unwrap();
    ProducerSpec {
        name: "checkout-api".into(),
        topic: "orders".into(),
        rate: rate.parse().unwrap(),
        value: ValuePattern::for_keys(&keys),
        keys,
        partition: None,
        value_size: Some(20),
        transactions: None,
        config: config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    }
}

struct Bench {
    producer: Producer,
    now: Time,
    timers: BTreeMap<ProducerTimer, Time>,
    inbox: VecDeque<Input<ProducerTimer>>,
    /// Leader and leader epoch of each partition; -1 for none.
    leaders: Vec<(i32, i32)>,
    topic_error: ErrorCode,
    down: BTreeSet<NodeId>,
    gives_ids: bool,
    produced: VecDeque<Produced>,
    events: Vec<Event>,
    metadata_requests: i32,
    exited: bool,
}

impl Bench {
    /// `leaders` are those of the topic's partitions.
    fn new(rate: &str, config: &[(&str, &str)], leaders: &[i32]) -> Bench {
        Bench::of(spec(rate, "cart-{0..7}", config), leaders)
    }

    fn of(spec: ProducerSpec, leaders: &[i32]) -> Bench {
        let bootstrap = [BrokerId(1), BrokerId(2)];
        let mut bench = Bench {
            producer: Producer::new(spec, &bootstrap, Random::stream(1, "producer")).unwrap(),
            now: Time::ZERO,
            timers: BTreeMap::new(),
            inbox: VecDeque::from([Input::Start]),
            leaders: leaders.iter().map(|leader| (*leader, 0)).collect(),
            topic_error: ErrorCode::None,
            down: BTreeSet::new(),
            gives_ids: true,
            produced: VecDeque::new(),
            events: Vec::new(),
            metadata_requests: 0,
            exited: false,
        };
        bench.run_for(0);
        bench
    }

    /// A producer that has just made its first record and makes no other for an hour.
    fn with_one_record(config: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::new("1/h", config, &[1]);
        bench.run_for(3_600_000);
        bench
    }

    fn run_for(&mut self, ms: i64) {
        let end = self.now.plus_ms(ms);
        loop {
            while let Some(input) = self.inbox.pop_front() {
                let mut fx = Effects::default();
                self.producer.handle(self.now, input, &mut fx);
                self.carry_out(fx);
            }
            let due = self.timers.iter().map(|(timer, at)| (*at, *timer)).min();
            match due {
                Some((at, timer)) if at <= end => {
                    assert!(at >= self.now, "{timer:?} was set in the past");
                    self.now = at;
                    self.timers.remove(&timer);
                    self.inbox.push_back(Input::Timer(timer));
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn call(&mut self, act: impl Fn(&mut Producer, Time, &mut Effects<ProducerTimer>)) {
        let mut fx = Effects::default();
        act(&mut self.producer, self.now, &mut fx);
        self.carry_out(fx);
        self.run_for(0);
    }

    fn carry_out(&mut self, fx: Effects<ProducerTimer>) {
        for effect in fx.into_vec() {
            match effect {
                Effect::Connect(peer) if self.down.contains(&peer.node) => {
                    self.inbox.push_back(Input::Disconnected(peer));
                }
                Effect::Connect(peer) => self.inbox.push_back(Input::Connected(peer)),
                Effect::Send { to, correlation, version, request } => {
                    self.serve(to, (correlation, version), &request);
                }
                Effect::SetTimer { timer, at } => {
                    self.timers.insert(timer, at);
                }
                Effect::CancelTimer(timer) => {
                    self.timers.remove(&timer);
                }
                Effect::Event(event) => self.events.push(event),
                Effect::Exit => self.exited = true,
                Effect::Disconnect(_) => {}
                other => panic!("no client does {other:?}"),
            }
        }
    }

    fn serve(&mut self, peer: Peer, (correlation, version): (i32, i16), request: &Request) {
        let request = strict::carry_request(request, version).expect("the wire can carry it");
        let response: Response = match request {
            Request::ApiVersions(_) => ApiVersionsResponse::default().into(),
            Request::Metadata(_) => {
                self.metadata_requests += 1;
                self.metadata().into()
            }
            Request::InitProducerId(_) if !self.gives_ids => {
                let error = ErrorCode::CoordinatorLoadInProgress.code();
                InitProducerIdResponse::default().with_error_code(error).into()
            }
            Request::InitProducerId(_) => {
                InitProducerIdResponse::default().with_producer_id(1000.into()).with_producer_epoch(0).into()
            }
            Request::Produce(request) => return self.take_produce(peer, correlation, &request),
            other => panic!("unexpected {:?}", other.api()),
        };
        self.inbox.push_back(Input::Response { from: peer, correlation, response: Rc::new(response) });
    }

    fn take_produce(&mut self, peer: Peer, correlation: i32, request: &ProduceRequest) {
        let mut batches = Vec::new();
        for topic in &request.topic_data {
            assert_eq!(TopicId(topic.topic_id), TOPIC_ID);
            for partition in &topic.partition_data {
                let mut bytes = partition.records.clone().unwrap();
                let batch = Batch::parse(&mut bytes).unwrap();
                batch.check_crc().unwrap();
                batches.push((partition.index, batch));
            }
        }
        self.produced.push_back(Produced { peer, correlation, at_ms: self.now.ms(), batches });
    }

    fn metadata(&self) -> MetadataResponse {
        let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
        let partition = |(index, (leader, epoch)): (usize, &(i32, i32))| {
            let error = if *leader < 0 { ErrorCode::LeaderNotAvailable } else { ErrorCode::None };
            MetadataResponsePartition::default()
                .with_error_code(error.code())
                .with_partition_index(index as i32)
                .with_leader_id((*leader).into())
                .with_leader_epoch(*epoch)
        };
        let partitions = self.leaders.iter().enumerate().map(partition).collect();
        let topic = MetadataResponseTopic::default()
            .with_error_code(self.topic_error.code())
            .with_name(Some(TopicName(Topic::new("orders").to_wire())))
            .with_topic_id(TOPIC_ID.0)
            .with_partitions(if self.topic_error.is_ok() { partitions } else { Vec::new() });
        MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]).with_topics(vec![topic])
    }

    /// Runs until the producer sends a batch.
    fn next(&mut self) -> Produced {
        for _ in 0..200_000 {
            if let Some(produced) = self.produced.pop_front() {
                return produced;
            }
            self.run_for(1);
        }
        panic!("nothing was sent; waits for {:?}", self.producer.waits_for());
    }

    fn answer(&mut self, to: &Produced, error: ErrorCode, hint: Option<(i32, i32)>) {
        let (leader, epoch) = hint.unwrap_or((-1, -1));
        let partition = |(index, batch): &(i32, Batch)| {
            PartitionProduceResponse::default()
                .with_index(*index)
                .with_error_code(error.code())
                .with_base_offset(if error.is_ok() { batch.base_sequence().max(0).into() } else { -1 })
                .with_current_leader(
                    LeaderIdAndEpoch::default().with_leader_id(leader.into()).with_leader_epoch(epoch),
                )
        };
        let topic = TopicProduceResponse::default()
            .with_topic_id(TOPIC_ID.0)
            .with_partition_responses(to.batches.iter().map(partition).collect());
        let response = Rc::new(ProduceResponse::default().with_responses(vec![topic]).into());
        self.inbox.push_back(Input::Response { from: to.peer, correlation: to.correlation, response });
        self.run_for(0);
    }

    fn accept(&mut self, to: &Produced) {
        self.answer(to, ErrorCode::None, None);
    }

    fn refuse(&mut self, to: &Produced, error: ErrorCode) {
        self.answer(to, error, None);
    }

    fn disconnect(&mut self, broker: i32) {
        self.inbox.push_back(Input::Disconnected(crate::client::metadata::main_peer(BrokerId(broker))));
        self.run_for(0);
    }

    fn check_counts(&self, acknowledged: i64, failed: i64) {
        let counts = self.producer.counts();
        assert_eq!((counts.acknowledged, counts.failed), (acknowledged, failed), "{:?}", self.events);
    }

    fn failures(&self) -> Vec<ErrorCode> {
        let error = |event: &Event| match event {
            Event::BatchFailed { error, .. } => Some(*error),
            _ => None,
        };
        self.events.iter().filter_map(error).collect()
    }
}
