//! A coordinator with its clock, its timers and the log of one partition of `__consumer_offsets`.

use std::collections::BTreeMap;
use std::rc::Rc;

use glassbroker::kafka::controller::image::ClusterImage;
use glassbroker::kafka::effects::{Channel, Effect, RequestId};
use glassbroker::kafka::event::Event;
use glassbroker::kafka::group::{
    At, ClassicGroup, GroupConfig, GroupCoordinator, GroupEffects, GroupTimer, LogRecord, RecordOf, StateAsk,
};
use glassbroker::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
use glassbroker::kafka::protocol::{ErrorCode, Request, Response, strict};
use glassbroker::kafka::random::Random;
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::{
    BrokerId, ClientName, GroupId, LeaderEpoch, NodeId, Offset, Topic, TopicId, TopicPartition,
};

/// What the log does with the next appends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// The high watermark follows at once.
    Commits,
    /// Followers do not fetch.
    Stalls,
    Refuses(ErrorCode),
}

pub struct Cluster {
    pub now: Time,
    pub image: ClusterImage,
    pub log: Log,
    pub records: Vec<LogRecord>,
    pub timers: BTreeMap<GroupTimer, Time>,
    pub events: Vec<Event>,
    pub coordinator: GroupCoordinator,
    /// What the share coordinators are asked, and have not answered.
    pub asks: Vec<StateAsk>,
    config: GroupConfig,
    answers: BTreeMap<i32, Rc<Response>>,
    requests: i32,
}

pub const ORDERS_ID: TopicId = TopicId(uuid::Uuid::from_u128(7));

pub fn group_id() -> GroupId {
    GroupId::new("g")
}

pub fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new("orders"), partition)
}

fn topics(tp: &TopicPartition) -> Option<TopicId> {
    let exists = tp.topic.as_str() == "orders" && (0..3).contains(&tp.partition);
    exists.then_some(ORDERS_ID)
}

/// Of a cluster with three partitions of "orders".
fn image() -> ClusterImage {
    let mut image = ClusterImage::default();
    let id = ORDERS_ID;
    image.replay(&MetadataRecord::Topic { name: Topic::new("orders"), id });
    for partition in 0..3 {
        let replicas = vec![BrokerId(1)];
        let record = PartitionRecord::new((id, partition), replicas.clone(), replicas, BrokerId(1));
        image.replay(&MetadataRecord::Partition(record));
    }
    image
}

impl Cluster {
    /// Elected and loaded from an empty log.
    pub fn new(config: GroupConfig) -> Cluster {
        let mut cluster = Cluster {
            now: Time::ZERO,
            image: image(),
            log: Log::Commits,
            records: Vec::new(),
            timers: BTreeMap::new(),
            events: Vec::new(),
            asks: Vec::new(),
            coordinator: GroupCoordinator::new(BrokerId(1), config.clone(), Random::stream(1, "members")),
            config,
            answers: BTreeMap::new(),
            requests: 0,
        };
        cluster.elect(1);
        cluster.load();
        cluster
    }

    pub fn partition(&self) -> i32 {
        self.coordinator.partition_for(&group_id())
    }

    /// Another broker takes over the log as it is: a coordinator that knows nothing.
    pub fn fail_over(&mut self) {
        self.coordinator =
            GroupCoordinator::new(BrokerId(2), self.config.clone(), Random::stream(2, "members"));
        self.timers.clear();
        self.elect(2);
    }

    pub fn elect(&mut self, leader_epoch: i32) -> bool {
        let partition = self.partition();
        self.step(|coordinator, _, fx| coordinator.on_elected(partition, LeaderEpoch(leader_epoch), fx))
    }

    pub fn load(&mut self) {
        let end = Offset(self.records.len() as i64);
        self.load_up_to(end);
    }

    /// As [`Cluster::load`], with a high watermark below the log's end.
    pub fn load_up_to(&mut self, high_watermark: Offset) {
        let (partition, records) = (self.partition(), self.records.clone());
        let end = Offset(records.len() as i64);
        self.step(|coordinator, at, fx| {
            coordinator
                .on_loaded(at, partition, records.into_iter(), end, high_watermark, fx)
                .expect("readable");
        });
    }

    pub fn resign(&mut self) {
        let partition = self.partition();
        self.step(|coordinator, at, fx| coordinator.on_resigned(at, partition, fx));
    }

    /// The share coordinators answer.
    pub fn answer_ask(&mut self, ask: &StateAsk, error: ErrorCode) {
        let errors = ask.states.iter().map(|state| (*state, error));
        let errors = errors.filter(|(_, error)| *error != ErrorCode::None).collect();
        self.step(|coordinator, at, fx| coordinator.on_states(at, ask, &errors, fx));
    }

    pub fn delete_topic(&mut self, id: TopicId, name: &str) {
        self.image.replay(&MetadataRecord::RemoveTopic { id });
        let deleted = BTreeMap::from([(id, Topic::new(name))]);
        self.step(|coordinator, at, fx| coordinator.on_topics_deleted(at, &deleted, fx));
    }

    /// The high watermark reaches the log's end.
    pub fn catch_up(&mut self) {
        let (partition, end) = (self.partition(), Offset(self.records.len() as i64));
        self.step(|coordinator, at, fx| coordinator.on_high_watermark(at, partition, end, fx));
    }

    /// Sends a request, as the wire carries it, and returns its number.
    pub fn send(&mut self, client: &str, request: impl Into<Request>) -> i32 {
        self.requests += 1;
        let request = request.into();
        let request = strict::carry_request(&request, request.api().version()).expect("the wire carries it");
        let id = RequestId {
            from: NodeId::Client(1),
            channel: Channel::Coordinator,
            connection: 1,
            correlation: self.requests,
            version: request.api().version(),
        };
        self.step(|c, at, fx| c.handle(at, id, &ClientName::new(client), &request, &topics, fx));
        self.requests
    }

    /// The answer to a request, once it was given.
    pub fn answer(&mut self, request: i32) -> Option<Rc<Response>> {
        self.answers.remove(&request)
    }

    pub fn group(&self) -> Option<&ClassicGroup> {
        self.coordinator.group(&group_id()).map(Rc::as_ref)
    }

    /// Lets time pass; timers run out in the order of their deadlines.
    pub fn sleep(&mut self, ms: i64) {
        let end = self.now.plus_ms(ms);
        while let Some((timer, at)) =
            self.timers.iter().map(|(t, at)| (t.clone(), *at)).min_by_key(|(_, at)| *at)
        {
            if at > end {
                break;
            }
            self.fire(&timer);
        }
        self.now = end;
    }

    /// The clock jumps to the deadline of `timer`, which runs out.
    pub fn fire(&mut self, timer: &GroupTimer) {
        self.now = self.timers.remove(timer).expect("the timer is set");
        self.step(|coordinator, at, fx| coordinator.on_timer(at, timer, fx));
    }

    fn step<T>(&mut self, work: impl FnOnce(&mut GroupCoordinator, At<'_>, &mut GroupEffects) -> T) -> T {
        let mut fx = GroupEffects::default();
        let result = work(&mut self.coordinator, At { now: self.now, image: &self.image }, &mut fx);
        self.apply(fx);
        result
    }

    fn apply(&mut self, fx: GroupEffects) {
        for effect in fx.effects.into_vec() {
            match effect {
                Effect::Respond { to, response } => {
                    strict::carry_response(&response, response.api().version()).expect("the wire carries it");
                    let before = self.answers.insert(to.correlation, response);
                    assert!(before.is_none(), "request {} is answered once", to.correlation);
                }
                Effect::SetTimer { timer, at } => drop(self.timers.insert(timer, at)),
                Effect::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                Effect::Event(event) => self.events.push(event),
                other => panic!("a coordinator does not {other:?}"),
            }
        }
        self.asks.extend(fx.states);
        for append in fx.appends {
            let (partition, token) = (append.partition, append.token);
            if let Log::Refuses(error) = self.log {
                self.step(|c, at, fx| c.on_append_failed(at, partition, token, error, fx));
                continue;
            }
            for record in append.records {
                let offset = Offset(self.records.len() as i64);
                self.records.push(LogRecord {
                    offset,
                    of: RecordOf::NoTransaction,
                    key: record.key,
                    value: record.value,
                });
            }
            let last = Offset(self.records.len() as i64 - 1);
            self.step(|c, at, fx| c.on_appended(at, partition, token, last, fx));
            if self.log == Log::Commits {
                self.catch_up();
            }
        }
    }
}
