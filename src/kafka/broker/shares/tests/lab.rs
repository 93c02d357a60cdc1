//! A broker that leads a topic and all of the internal ones, with a network to itself and a clock.

mod membership;

use std::collections::BTreeMap;
use std::rc::Rc;

use membership::Membership;

use kafka_protocol::messages as m;
use kafka_protocol::messages::initialize_share_group_state_request as initialize;
use uuid::Uuid;

use crate::kafka::broker::admin::OFFSETS_TOPIC;
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::broker::{Broker, BrokerSetup, Disk, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC};
use crate::kafka::config::{BrokerConfig, TRANSACTION_VERSION};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Channel, Effect, Effects, Incoming, Input, Peer, RequestId};
use crate::kafka::log::FirstBatch;
use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord, RegisterBroker};
use crate::kafka::protocol::strict::{carry_request, carry_response};
use crate::kafka::protocol::{Request, Response};
use crate::kafka::random::Random;
use crate::kafka::record::{Batch, BatchBuilder, BatchParameters, EndTransactionMarker, NewRecord};
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerEpoch, BrokerId, ControllerId, LeaderEpoch, NodeId, Offset, ProducerEpoch, ProducerId, TopicId,
    TopicPartition,
};

pub const GROUP: &str = "g";
pub const TOPIC: TopicId = TopicId(Uuid::from_u128(7));
const STATE: TopicId = TopicId(Uuid::from_u128(1));
const OFFSETS: TopicId = TopicId(Uuid::from_u128(2));
const TRANSACTIONS: TopicId = TopicId(Uuid::from_u128(3));
const ME: BrokerId = BrokerId(1);
const FIRST: Incoming = connection_of(1);

/// The one that a client has.
pub const fn connection_of(client: u32) -> Incoming {
    Incoming { from: NodeId::Client(client), channel: Channel::Main, connection: 1 }
}

/// Who leads t-0, and who all of `__share_group_state`. This broker leads the rest of t, all of
/// `__consumer_offsets` and all of `__transaction_state`.
fn image(
    (leader, state_leader): (BrokerId, BrokerId),
    partitions: i32,
    epoch: i32,
    share_version: i16,
    group: &BTreeMap<String, String>,
) -> ClusterImage {
    let registered = |id: i32| {
        MetadataRecord::RegisterBroker(RegisterBroker {
            broker: BrokerId(id),
            incarnation: Uuid::from_u128(id as u128),
            epoch: BrokerEpoch(i64::from(id)),
            rack: None,
            fenced: false,
            in_controlled_shutdown: false,
        })
    };
    let topic = |name: &str, id| MetadataRecord::Topic { name: name.into(), id };
    let partition = |id: TopicId, number, leader: BrokerId| {
        let mut record = PartitionRecord::new((id, number), vec![ME, BrokerId(2)], vec![leader], leader);
        record.leader_epoch = LeaderEpoch(epoch);
        record.partition_epoch = crate::kafka::types::PartitionEpoch(epoch);
        MetadataRecord::Partition(record)
    };
    let mut records = vec![registered(1), registered(2)];
    records.push(MetadataRecord::FeatureLevel { name: "share.version".to_string(), level: share_version });
    records.push(MetadataRecord::FeatureLevel { name: TRANSACTION_VERSION.to_string(), level: 2 });
    records.push(topic("t", TOPIC));
    let leader_of = |number| if number == 0 { leader } else { ME };
    records.extend((0..partitions).map(|number| partition(TOPIC, number, leader_of(number))));
    records.push(topic(SHARE_STATE_TOPIC, STATE));
    records.extend((0..50).map(|number| partition(STATE, number, state_leader)));
    records.push(topic(OFFSETS_TOPIC, OFFSETS));
    records.extend((0..50).map(|number| partition(OFFSETS, number, ME)));
    records.push(topic(TRANSACTION_STATE_TOPIC, TRANSACTIONS));
    records.extend((0..50).map(|number| partition(TRANSACTIONS, number, ME)));
    let mut image = ClusterImage::of_snapshot(&records, Offset(100 + i64::from(epoch)));
    image.group_configs.insert(GROUP.to_string(), group.clone());
    image
}

pub struct Lab {
    pub broker: Broker,
    config: Rc<BrokerConfig>,
    pub now: Time,
    pub group_config: BTreeMap<String, String>,
    /// How many t has.
    partitions: i32,
    epoch: i32,
    pub share_version: i16,
    leader: BrokerId,
    state_leader: BrokerId,
    sequence: u64,
    coming: BTreeMap<(Time, u64), Input<BrokerTimer>>,
    timers: BTreeMap<BrokerTimer, (Time, u64)>,
    answers: BTreeMap<i32, Response>,
    requests: i32,
    memberships: BTreeMap<String, Membership>,
    /// Heartbeats that are not answered, by their numbers.
    heartbeats: BTreeMap<i32, String>,
}

impl Lab {
    /// The state of the group in t-0 has begun, as the group coordinator does it when a member subscribes.
    pub fn new(group_config: &[(&str, &str)]) -> Lab {
        let mut lab = Lab::with_partitions(1, group_config);
        let partition = initialize::PartitionData::default().with_partition(0).with_start_offset(-1);
        let topic = initialize::InitializeStateData::default()
            .with_topic_id(TOPIC.0)
            .with_partitions(vec![partition]);
        let request = m::InitializeShareGroupStateRequest::default().with_group_id(GROUP.into());
        lab.ask(request.with_topics(vec![topic]));
        lab
    }

    /// The broker has these configs.
    pub fn with_broker(configs: &[(&str, &str)]) -> Lab {
        let text = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        let mut lab = Lab::with_partitions(1, &[]);
        lab.config = Rc::new(BrokerConfig::read(&configs.iter().map(text).collect()).expect("it is sound"));
        lab.restart();
        lab
    }

    /// Nothing has begun.
    pub fn with_partitions(partitions: i32, group_config: &[(&str, &str)]) -> Lab {
        let text = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        let mut lab = Lab {
            broker: broker(Disk::default(), Rc::default()),
            config: Rc::default(),
            now: Time::ZERO,
            group_config: group_config.iter().map(text).collect(),
            partitions,
            epoch: 0,
            share_version: 1,
            leader: ME,
            state_leader: ME,
            sequence: 0,
            coming: BTreeMap::new(),
            timers: BTreeMap::new(),
            answers: BTreeMap::new(),
            requests: 0,
            memberships: BTreeMap::new(),
            heartbeats: BTreeMap::new(),
        };
        lab.publish();
        lab.run_for(100);
        lab
    }

    /// The broker takes up what the metadata say by now.
    pub fn publish(&mut self) {
        let mut fx = Effects::default();
        self.broker.load_image(
            self.now,
            image(
                (self.leader, self.state_leader),
                self.partitions,
                self.epoch,
                self.share_version,
                &self.group_config,
            ),
            &mut fx,
        );
        self.carry(fx);
    }

    /// Another broker leads t-0, or this one does again.
    pub fn move_leader(&mut self, to: BrokerId) {
        if self.leader != to {
            self.leader = to;
            self.epoch += 1;
            self.publish();
        }
    }

    /// The process ends and starts again with what is on its disk.
    pub fn restart(&mut self) {
        let config = || self.config.clone();
        let before = std::mem::replace(&mut self.broker, broker(Disk::default(), config()));
        self.broker = broker(before.into_disk(), config());
        self.coming.clear();
        self.timers.clear();
        self.epoch += 1;
        self.publish();
        self.run_for(100);
    }

    /// Another broker coordinates the states, or this one does again. Nothing reaches the other.
    pub fn move_states(&mut self, to: BrokerId) {
        self.state_leader = to;
        self.epoch += 1;
        self.publish();
    }

    pub fn come_back(&mut self) {
        if self.leader != ME {
            self.move_leader(ME);
            self.run_for(100);
        }
    }

    fn push(&mut self, at: Time, input: Input<BrokerTimer>) -> (Time, u64) {
        self.sequence += 1;
        let place = (at.max(self.now), self.sequence);
        self.coming.insert(place, input);
        place
    }

    fn carry(&mut self, fx: Effects<BrokerTimer>) {
        for effect in fx.into_vec() {
            match effect {
                Effect::SetTimer { timer, at } => {
                    self.cancel(&timer);
                    let place = self.push(at, Input::Timer(timer.clone()));
                    self.timers.insert(timer, place);
                }
                Effect::CancelTimer(timer) => self.cancel(&timer),
                Effect::Connect(peer) if peer.node == ME.into() => {
                    self.push(self.now, Input::Connected(peer));
                }
                // Nobody else is there.
                Effect::Connect(peer) => {
                    self.push(self.now, Input::Disconnected(peer));
                }
                Effect::Send { to, correlation, version, request } if to.node == ME.into() => {
                    let (from, channel) = (ME.into(), to.channel);
                    let id = RequestId { from, channel, connection: 1, correlation, version };
                    let request = Rc::new(carry_request(&request, version).expect("it has a form"));
                    self.push(self.now, Input::Request { id, client: "broker-1".into(), request });
                }
                Effect::Respond { to, response } => {
                    let response = carry_response(&response, to.version).expect("it has a form");
                    if to.from == ME.into() {
                        let (from, correlation) = (Peer::new(ME, to.channel), to.correlation);
                        self.push(
                            self.now,
                            Input::Response { from, correlation, response: Rc::new(response) },
                        );
                    } else {
                        self.take(to.correlation, response);
                    }
                }
                _ => {}
            }
        }
    }

    fn cancel(&mut self, timer: &BrokerTimer) {
        if let Some(place) = self.timers.remove(timer) {
            self.coming.remove(&place);
        }
    }

    /// The next thing happens, if it does until then.
    pub fn step(&mut self, until: Time) -> bool {
        let Some((&place, _)) = self.coming.first_key_value().filter(|((at, _), _)| *at <= until) else {
            return false;
        };
        let Some(input) = self.coming.remove(&place) else { return false };
        self.now = place.0;
        if let Input::Timer(timer) = &input {
            self.timers.remove(timer);
        }
        let mut fx = Effects::default();
        self.broker.handle(self.now, input, &mut fx);
        self.carry(fx);
        true
    }

    pub fn run_for(&mut self, ms: i64) {
        self.run_until(self.now.plus_ms(ms));
    }

    /// Nothing if that is past already.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Sends a request on the connection of the first client; its number.
    pub fn send(&mut self, request: impl Into<Request>) -> i32 {
        self.send_on(FIRST, request)
    }

    pub fn send_on(&mut self, connection: Incoming, request: impl Into<Request>) -> i32 {
        self.send_at(self.now, connection, request).0
    }

    /// A client that speaks this version of the request; the answer.
    pub fn ask_at(&mut self, version: i16, request: impl Into<Request>) -> Response {
        let (number, _) = self.send_version(self.now, FIRST, version, request.into());
        self.wait(number)
    }

    fn send_at(&mut self, at: Time, connection: Incoming, request: impl Into<Request>) -> (i32, (Time, u64)) {
        let request = request.into();
        self.send_version(at, connection, request.api().version(), request)
    }

    fn send_version(
        &mut self,
        at: Time,
        connection: Incoming,
        version: i16,
        request: Request,
    ) -> (i32, (Time, u64)) {
        self.requests += 1;
        let correlation = self.requests;
        let Incoming { from, channel, connection } = connection;
        let id = RequestId { from, channel, connection, correlation, version };
        let request = Rc::new(carry_request(&request, version).expect("it has a form"));
        let place = self.push(at, Input::Request { id, client: "client".into(), request });
        (correlation, place)
    }

    fn take(&mut self, number: i32, response: Response) {
        match self.heartbeats.remove(&number) {
            Some(member) => self.hear(&member, &response),
            None => drop(self.answers.insert(number, response)),
        }
    }

    pub fn disconnect(&mut self, connection: Incoming) {
        self.push(self.now, Input::Gone(connection));
        self.run_for(0);
    }

    pub fn answer(&mut self, number: i32) -> Option<Response> {
        self.answers.remove(&number)
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, request: impl Into<Request>) -> Response {
        let number = self.send(request);
        self.wait(number)
    }

    pub fn wait(&mut self, number: i32) -> Response {
        const PATIENCE_MS: i64 = 60_000;
        self.wait_until(number, self.now.plus_ms(PATIENCE_MS)).expect("it is answered within a minute")
    }

    /// The answer, if it comes until then.
    pub fn wait_until(&mut self, number: i32, until: Time) -> Option<Response> {
        while !self.answers.contains_key(&number) && self.step(until) {}
        let answer = self.answer(number);
        if answer.is_none() {
            self.now = self.now.max(until);
        }
        answer
    }

    /// Batches of so many records each.
    pub fn produce(&mut self, sizes: impl IntoIterator<Item = i64>) {
        for size in sizes {
            self.append(self.records(BatchParameters::default(), size));
        }
    }

    /// So many records of a transaction, in one batch.
    pub fn produce_in_transaction(&mut self, producer: i64, records: i64) {
        let base_sequence = 0;
        let parameters = BatchParameters { base_sequence, ..transactional(producer) };
        self.append(self.records(parameters, records));
    }

    pub fn end_transaction(&mut self, producer: i64, committed: bool) {
        let marker = EndTransactionMarker { committed, coordinator_epoch: 0 };
        self.append(marker.batch(transactional(producer), self.now.wall_ms()));
    }

    fn records(&self, parameters: BatchParameters, count: i64) -> Batch {
        let mut builder = BatchBuilder::with(parameters);
        for _ in 0..count {
            let timestamp_ms = self.now.wall_ms();
            builder.append(&NewRecord { timestamp_ms, key: None, value: Some(b"v"), headers: &[] });
        }
        builder.build()
    }

    fn append(&mut self, batch: Batch) {
        let tp = TopicPartition::new(&"t".into(), 0);
        let mut fx = Effects::default();
        let first = FirstBatch {
            epoch: batch.producer_epoch(),
            base_sequence: batch.base_sequence(),
            raises_epochs: false,
        };
        let written = self.broker.with_replicas(self.now, &mut fx, |replicas, step| {
            let guard = replicas.begin_verification(&tp, batch.producer_id(), first, step)?;
            replicas.append_in_transaction(&tp, batch.into_bytes(), guard, step)
        });
        written.expect("the leader takes it");
        self.broker.settle(self.now, &mut fx);
        self.carry(fx);
    }

    pub fn delete_records(&mut self, before: i64) {
        let partition = m::delete_records_request::DeleteRecordsPartition::default().with_offset(before);
        let topic = m::delete_records_request::DeleteRecordsTopic::default()
            .with_name(m::TopicName("t".into()))
            .with_partitions(vec![partition]);
        self.ask(m::DeleteRecordsRequest::default().with_timeout_ms(1000).with_topics(vec![topic]));
    }
}

fn transactional(producer: i64) -> BatchParameters {
    BatchParameters {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        transactional: true,
        ..BatchParameters::default()
    }
}

fn broker(disk: Disk, config: Rc<BrokerConfig>) -> Broker {
    Broker::new(BrokerSetup {
        id: ME,
        rack: None,
        voters: Rc::new([ControllerId(101)]),
        config,
        disk,
        random: Random::stream(1, "broker"),
    })
}
