//! A producer that a test calls, against brokers that answer within a millisecond what the test says, else that all is
//! well.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};

use crate::client::group_metadata::GroupMetadata;
use crate::client::producer::transaction_manager::{CommittedOffset, Offsets, State};
use crate::client::producer::{Call, Message, Producer, ProducerError, ProducerTimer};
use crate::kafka::api_versions;
use crate::kafka::config::TRANSACTION_VERSION;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Effect, Effects, Input, Peer};
use crate::kafka::event::{Event, ProducerEvent};
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::protocol::{ApiKey, ErrorCode, Request, Response, strict};
use crate::kafka::random::Random;
use crate::kafka::record::split_batches;
use crate::kafka::time::Time;
use crate::kafka::transaction::wire;
use crate::kafka::types::{
    BrokerId, Generation, LeaderEpoch, MemberId, NodeId, Offset, Topic, TopicPartition,
};

const TOPIC_ID: uuid::Uuid = uuid::Uuid::from_u128(77);

/// What a broker says instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    Error(ErrorCode),
    /// Nothing: the connection closes.
    Lost,
    /// Nothing at all.
    Silence,
}

pub struct Rig {
    pub producer: Producer,
    pub now: Time,
    timers: BTreeMap<ProducerTimer, Time>,
    inbox: VecDeque<Input<ProducerTimer>>,
    /// Answers on their way.
    answers: VecDeque<(Time, Input<ProducerTimer>)>,
    /// What the next requests of an API are answered with.
    says: Vec<(ApiKey, Says)>,
    /// What was asked, and when.
    asked: Vec<(Time, String)>,
    pub coordinator: i32,
    /// What brokers tell of the cluster.
    image: ClusterImage,
    /// What the coordinator has given out.
    given: (i64, i16),
    pub events: Vec<Event>,
    pub exited: bool,
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(&[])
    }

    pub fn with(config: &[(&str, &str)]) -> Rig {
        Rig::of_version(2, config)
    }

    /// With a cluster of this `transaction.version`.
    pub fn of_version(version: i16, config: &[(&str, &str)]) -> Rig {
        let given = [("transactional.id", "t1"), ("linger.ms", "0")];
        let config = given.iter().chain(config);
        let config = config.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let random = Random::stream(1, "producer");
        let producer = Producer::for_application("app".into(), &config, &[BrokerId(1), BrokerId(2)], random);
        let mut rig = Rig {
            producer: producer.unwrap(),
            now: Time::ZERO,
            timers: BTreeMap::new(),
            inbox: VecDeque::from([Input::Start]),
            answers: VecDeque::new(),
            says: Vec::new(),
            asked: Vec::new(),
            coordinator: 2,
            image: image_of(version, 1),
            given: (1000, -1),
            events: Vec::new(),
            exited: false,
        };
        rig.run_for(0);
        rig
    }

    /// The cluster's `transaction.version` is another one from now on.
    pub fn upgrade(&mut self, version: i16) {
        self.image = image_of(version, self.image.next_offset.0 + 1);
    }

    /// One that has initialised.
    pub fn ready() -> Rig {
        Rig::ready_at(2)
    }

    pub fn ready_at(version: i16) -> Rig {
        let mut rig = Rig::of_version(version, &[]);
        rig.check(Call::InitTransactions, "done");
        rig.asked.clear();
        rig
    }

    /// One with a record in an open transaction.
    pub fn in_transaction() -> Rig {
        Rig::in_transaction_at(2)
    }

    pub fn in_transaction_at(version: i16) -> Rig {
        let mut rig = Rig::ready_at(version);
        rig.check(Call::BeginTransaction, "done");
        rig.check(send(0), "done");
        rig.run_for(10);
        rig.asked.clear();
        rig
    }

    /// The next request of this kind is answered so.
    pub fn says(&mut self, api: ApiKey, says: Says) {
        self.says.push((api, says));
    }

    pub fn refuses(&mut self, api: ApiKey, error: ErrorCode) {
        self.says(api, Says::Error(error));
    }

    pub fn run_for(&mut self, ms: i64) {
        let end = self.now.plus_ms(ms);
        loop {
            while let Some(input) = self.inbox.pop_front() {
                let mut fx = Effects::default();
                self.producer.handle(self.now, input, &mut fx);
                self.carry_out(fx);
            }
            let answered_at = self.answers.front().map(|(at, _)| *at);
            let timer = self.timers.iter().map(|(timer, at)| (*at, *timer)).min();
            if let Some(at) = answered_at
                && at <= end
                && timer.is_none_or(|(other, _)| at <= other)
            {
                self.now = at;
                self.inbox.extend(self.answers.pop_front().map(|(_, answer)| answer));
                continue;
            }
            match timer {
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

    pub fn act(&mut self, act: impl FnOnce(&mut Producer, Time, &mut Effects<ProducerTimer>)) {
        let mut fx = Effects::default();
        act(&mut self.producer, self.now, &mut fx);
        self.carry_out(fx);
        self.run_for(0);
    }

    pub fn begin_call(&mut self, call: Call) {
        self.act(|producer, now, fx| producer.call(now, call, fx));
    }

    /// What the call that was begun returned: `done`, or what it threw.
    pub fn check_returned(&mut self, expected: &str) {
        for _ in 0..200_000 {
            if let Some(returned) = self.producer.take_returned() {
                let told = returned.map_or_else(|error| error.exception(), |()| "done".to_owned());
                return assert_eq!(told, expected, "{:?}", self.asked);
            }
            self.run_for(1);
        }
        panic!("it does not return; {:?}", self.asked);
    }

    pub fn check(&mut self, call: Call, expected: &str) {
        self.begin_call(call);
        self.check_returned(expected);
    }

    /// What an error was, of a call that throws at once.
    pub fn thrown(&mut self, call: Call) -> ProducerError {
        self.begin_call(call);
        self.producer.take_returned().expect("it returns at once").expect_err("it throws")
    }

    pub fn check_state(&self, expected: State) {
        assert_eq!(self.producer.transaction_state(), Some(expected));
    }

    /// What was asked since the last look, without metadata.
    pub fn check_asked(&mut self, expected: &[&str]) {
        let asked: Vec<String> = std::mem::take(&mut self.asked).into_iter().map(|(_, what)| what).collect();
        assert_eq!(asked, expected);
    }

    /// Between the first request that was asked since the last look and the last.
    pub fn took_ms(&self) -> i64 {
        match (self.asked.first(), self.asked.last()) {
            (Some((first, _)), Some((last, _))) => last.ms_since(*first),
            _ => 0,
        }
    }

    pub fn given_up(&self) -> Vec<String> {
        let given_up = |event: &Event| match event {
            Event::Producer(ProducerEvent::Abandoned { records, exception, .. }) => {
                Some(format!("{records}: {exception}"))
            }
            _ => None,
        };
        self.events.iter().filter_map(given_up).collect()
    }

    fn carry_out(&mut self, fx: Effects<ProducerTimer>) {
        for effect in fx.into_vec() {
            match effect {
                Effect::Connect(peer) => self.inbox.push_back(Input::Connected(peer)),
                Effect::Send { to, correlation, version, request } => {
                    self.serve(to, (correlation, version), &request);
                }
                Effect::SetTimer { timer, at } => drop(self.timers.insert(timer, at)),
                Effect::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                Effect::Event(event) => self.events.push(event),
                Effect::Exit => self.exited = true,
                Effect::Disconnect(_) => {}
                other => panic!("no client does {other:?}"),
            }
        }
    }

    fn serve(&mut self, from: Peer, (correlation, version): (i32, i16), request: &Request) {
        let request = strict::carry_request(request, version).expect("the wire can carry it");
        if let Some(told) = told(&request, version) {
            self.asked.push((self.now, told));
        }
        let place = self.says.iter().position(|(api, _)| *api == request.api());
        let error = match place.map(|place| self.says.remove(place).1) {
            Some(Says::Lost) => return self.inbox.push_back(Input::Disconnected(from)),
            Some(Says::Silence) => return,
            Some(Says::Error(error)) => error,
            None => ErrorCode::None,
        };
        let response = self.answer(from.node, (request, version), error);
        let response = Rc::new(strict::carry_response(&response, version).expect("the wire can carry it"));
        self.answers.push_back((self.now.plus_ms(1), Input::Response { from, correlation, response }));
    }

    fn answer(&mut self, node: NodeId, (request, version): (Request, i16), error: ErrorCode) -> Response {
        let code = error.code();
        match request {
            Request::ApiVersions(_) => api_versions::response(ApiKey::ALL, &self.image).into(),
            Request::Metadata(_) => metadata().into(),
            Request::FindCoordinator(request) => {
                let coordinator = Coordinator::default()
                    .with_key(request.coordinator_keys[0].clone())
                    .with_node_id(self.coordinator.into())
                    .with_error_code(code);
                m::FindCoordinatorResponse::default().with_coordinators(vec![coordinator]).into()
            }
            Request::InitProducerId(_) => {
                assert_eq!(node, NodeId::Broker(BrokerId(self.coordinator)));
                let (id, epoch) = self.give(error);
                m::InitProducerIdResponse::default()
                    .with_error_code(code)
                    .with_producer_id(id.into())
                    .with_producer_epoch(epoch)
                    .into()
            }
            Request::EndTxn(_) if version < 5 => m::EndTxnResponse::default().with_error_code(code).into(),
            Request::AddPartitionsToTxn(request) => {
                let [only] = &wire::transactions_of(&request, version)[..] else { panic!("{request:?}") };
                let errors = wire::partitions_of(only).into_iter().map(|tp| (tp, error)).collect();
                let result = wire::add_result(&only.transactional_id, &errors);
                wire::add_response(vec![result], version).into()
            }
            Request::AddOffsetsToTxn(_) => m::AddOffsetsToTxnResponse::default().with_error_code(code).into(),
            Request::EndTxn(_) => {
                let (id, epoch) = self.give(error);
                m::EndTxnResponse::default()
                    .with_error_code(code)
                    .with_producer_id(id.into())
                    .with_producer_epoch(epoch)
                    .into()
            }
            Request::TxnOffsetCommit(request) => {
                let partition = |index: i32| {
                    TxnOffsetCommitResponsePartition::default()
                        .with_partition_index(index)
                        .with_error_code(code)
                };
                let topics = request.topics.iter().map(|topic| {
                    let partitions = topic.partitions.iter().map(|each| partition(each.partition_index));
                    TxnOffsetCommitResponseTopic::default()
                        .with_name(topic.name.clone())
                        .with_partitions(partitions.collect())
                });
                m::TxnOffsetCommitResponse::default().with_topics(topics.collect()).into()
            }
            Request::Produce(request) => {
                let partition =
                    |index: i32| PartitionProduceResponse::default().with_index(index).with_error_code(code);
                let topics = request.topic_data.iter().map(|topic| {
                    let partitions = topic.partition_data.iter().map(|each| partition(each.index)).collect();
                    TopicProduceResponse::default()
                        .with_topic_id(topic.topic_id)
                        .with_name(topic.name.clone())
                        .with_partition_responses(partitions)
                });
                m::ProduceResponse::default().with_responses(topics.collect()).into()
            }
            other => panic!("unexpected {:?}", other.api()),
        }
    }

    /// The next epoch, unless the answer is an error.
    fn give(&mut self, error: ErrorCode) -> (i64, i16) {
        if !error.is_ok() {
            return (-1, -1);
        }
        self.given.1 += 1;
        self.given
    }
}

/// A request as a test reads it.
fn told(request: &Request, version: i16) -> Option<String> {
    Some(match request {
        Request::ApiVersions(_) | Request::Metadata(_) => return None,
        Request::FindCoordinator(request) => {
            let kind = if request.key_type == 1 { "transaction" } else { "group" };
            format!("find {kind} {}", request.coordinator_keys[0].as_str())
        }
        Request::InitProducerId(request) => {
            format!("init {}/{}", request.producer_id.0, request.producer_epoch)
        }
        Request::EndTxn(request) => {
            let end = if request.committed { "commit" } else { "abort" };
            let speaks = if version < 5 { " v4" } else { "" };
            format!("{end} {}/{}{speaks}", request.producer_id.0, request.producer_epoch)
        }
        Request::AddPartitionsToTxn(request) => {
            assert_eq!(version, 3, "later versions are the brokers'");
            let added = wire::transactions_of(request, version);
            let partitions: Vec<String> =
                wire::partitions_of(&added[0]).iter().map(ToString::to_string).collect();
            format!("add {} {}/{}", partitions.join(" "), added[0].producer_id.0, added[0].producer_epoch)
        }
        Request::AddOffsetsToTxn(request) => format!(
            "add group {} {}/{}",
            request.group_id.as_str(),
            request.producer_id.0,
            request.producer_epoch
        ),
        Request::TxnOffsetCommit(request) => format!(
            "offsets{} {} {} generation {} {}/{}",
            if version < 5 { " v4" } else { "" },
            request.group_id.as_str(),
            request.member_id.as_str(),
            request.generation_id,
            request.producer_id.0,
            request.producer_epoch
        ),
        Request::Produce(request) => {
            assert_eq!(request.transactional_id.as_ref().map(|id| id.as_str()), Some("t1"));
            let partition = &request.topic_data[0].partition_data[0];
            let batches = split_batches(partition.records.clone().unwrap());
            let batch = batches.flatten().next().expect("a batch");
            assert!(batch.is_transactional());
            let (id, epoch) = (batch.producer_id(), batch.producer_epoch());
            let topic = &request.topic_data[0];
            let by_name = (topic.name.as_str(), topic.topic_id) == ("orders", uuid::Uuid::nil());
            assert_eq!(by_name, version < 13, "version {version}: {topic:?}");
            let speaks = if version < 12 { " v11" } else { "" };
            format!("produce {id}/{epoch} sequence {}{speaks}", batch.base_sequence())
        }
        other => panic!("unexpected {:?}", other.api()),
    })
}

/// A cluster that has been so since an offset of its metadata log.
fn image_of(version: i16, next_offset: i64) -> ClusterImage {
    let mut image = ClusterImage::default();
    image.replay(&MetadataRecord::FeatureLevel { name: TRANSACTION_VERSION.to_string(), level: version });
    image.next_offset = Offset(next_offset);
    image
}

fn metadata() -> m::MetadataResponse {
    let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
    let partition = MetadataResponsePartition::default().with_leader_id(1.into()).with_leader_epoch(0);
    let topic = MetadataResponseTopic::default()
        .with_name(Some(Topic::new("orders").to_wire().into()))
        .with_topic_id(TOPIC_ID)
        .with_partitions(vec![partition]);
    m::MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]).with_topics(vec![topic])
}

pub fn send(n: i32) -> Call {
    let (topic, key) = (Topic::new("orders"), format!("k{n}").into_bytes());
    Call::Send(Message { topic, key: Some(key), value: Some(b"v".to_vec()), partition: None })
}

/// Offsets of one partition, of a member in generation 5.
pub fn offsets() -> Call {
    let committed = CommittedOffset { offset: Offset(10), leader_epoch: LeaderEpoch(0) };
    let group = GroupMetadata {
        group: "g".into(),
        generation: Generation(5),
        member: MemberId::new("m1"),
        instance: None,
    };
    let partition = TopicPartition::new(&"input".into(), 0);
    Call::SendOffsets { offsets: Offsets::from([(partition, committed)]), group }
}
