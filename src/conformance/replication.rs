//! 12: histories of a partition's leader: appends, follower fetches, the in-sync set and its requests to the controller,
//! the high watermark and what acks=all waits for (R-REPL-7 to 14, 18 to 26, 29 to 31).

use std::rc::Rc;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{FetchRequest, ProduceRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::config::BrokerConfig;
use crate::kafka::controller::image::{ClusterImage, PartitionRegistration};
use crate::kafka::effects::{Channel, Effect, Effects, RequestId};
use crate::kafka::protocol::metadata_records::{
    ConfigResource, MetadataRecord, PartitionRecord, RegisterBroker,
};
use crate::kafka::protocol::{ApiKey, ErrorCode, Response};
use crate::kafka::random::Random;
use crate::kafka::record::{BatchBuilder, NewRecord};
use crate::kafka::replication::manager::{Notice, Step as ReplicaStep};
use crate::kafka::replication::purgatory::SharedFetch;
use crate::kafka::replication::{LogDirectory, Partition, ReplicaManager, Verified};
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerEpoch, BrokerId, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicId, TopicPartition,
};

const FILE: &str = "12_replication_isr_hw.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    replicas: Vec<i32>,
    leader: i32,
    initial_isr: Vec<i32>,
    min_insync_replicas: i32,
    replica_lag_time_max_ms: i64,
    initial: State,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: i64,
    #[serde(flatten)]
    act: Act,
    response: Value,
    alter_partition_sent: Vec<Sent>,
    state: State,
}

#[derive(Deserialize)]
#[serde(tag = "op", content = "args", rename_all = "snake_case", deny_unknown_fields)]
enum Act {
    Append { records: i32, acks: i16 },
    CheckAcksAll { required_offset: i64 },
    FollowerFetch { replica: i32, offset: i64, leader_epoch: i32, broker_epoch: i64 },
    SleepAndCheckIsr { ms: i64 },
    NewLeaderEpoch { leader_epoch: i32, partition_epoch: i32, isr: Vec<i32> },
    BrokerState { broker: i32, fenced: bool, shutting_down: bool },
    ControllerAccepts { isr: Vec<i32>, partition_epoch: i32 },
    ControllerRefuses { error: String },
}

/// A request for another in-sync set.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    new_isr: Vec<i32>,
    leader_epoch: i32,
    partition_epoch: i32,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    high_watermark: i64,
    log_end: i64,
    isr: Vec<i32>,
    maximal_isr: Vec<i32>,
    change_in_flight: bool,
    leader_epoch: i32,
    partition_epoch: i32,
    followers: Vec<Follower>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Follower {
    id: i32,
    /// -1 until it fetches.
    log_end: i64,
    /// Milliseconds since the start; 0 also for never.
    last_caught_up: i64,
}

/// Runs every history of the file.
pub fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, FILE, |_, script: &Script| {
        Ok(live_again(script).map_err(|failure| failure.within(&script.name)))
    })
}

fn live_again(script: &Script) -> Result<(), Failure> {
    let mut bench = Bench::new(script);
    check(|| "at first".to_owned(), &script.initial, &bench.state())?;
    for (number, step) in script.steps.iter().enumerate() {
        let response = bench.carry_out(&step.act);
        check(|| format!("step {number}: time"), &step.at, &bench.now.ms())?;
        check(|| format!("step {number}: response"), &step.response, &response)?;
        check(|| format!("step {number}: requests"), &step.alter_partition_sent, &bench.sent())?;
        check(|| format!("step {number}: state"), &step.state, &bench.state())?;
    }
    Ok(())
}

/// One leader's replica manager, with requests put into its hands.
struct Bench {
    image: ClusterImage,
    replicas: ReplicaManager,
    registration: PartitionRegistration,
    now: Time,
}

fn tp() -> TopicPartition {
    TopicPartition::new(&"t".into(), 0)
}

fn topic_id() -> TopicId {
    TopicId(uuid::Uuid::from_u128(7))
}

fn ids(list: &[i32]) -> Vec<BrokerId> {
    list.iter().copied().map(BrokerId).collect()
}

impl Bench {
    fn new(script: &Script) -> Bench {
        let mut image = ClusterImage::default();
        for id in &script.replicas {
            image.replay(&registration(*id, false, false));
        }
        image.replay(&MetadataRecord::Topic { name: "t".into(), id: topic_id() });
        image.replay(&MetadataRecord::Config {
            resource: ConfigResource::Topic,
            name: "t".to_string(),
            key: "min.insync.replicas".to_string(),
            value: Some(script.min_insync_replicas.to_string()),
        });
        image.replay(&MetadataRecord::Partition(PartitionRecord {
            leader_epoch: LeaderEpoch(script.initial.leader_epoch),
            partition_epoch: PartitionEpoch(script.initial.partition_epoch),
            ..PartitionRecord::new(
                (topic_id(), 0),
                ids(&script.replicas),
                ids(&script.initial_isr),
                BrokerId(script.leader),
            )
        }));
        let config = BrokerConfig {
            replica_lag_time_max_ms: script.replica_lag_time_max_ms,
            ..BrokerConfig::default()
        };
        let replicas = ReplicaManager::new(
            BrokerId(script.leader),
            Rc::new(config),
            LogDirectory::default(),
            Random::stream(0, "fetch sessions"),
        );
        let registration = (**image.partition(&tp()).expect("replayed")).clone();
        let mut bench = Bench { image, replicas, registration, now: Time::ZERO };
        bench.apply();
        bench
    }

    fn apply(&mut self) {
        let registration = self.registration.clone();
        self.step(|replicas, step| replicas.apply(&tp(), &registration, step));
    }

    fn step(
        &mut self,
        run: impl FnOnce(&mut ReplicaManager, &mut ReplicaStep<'_>),
    ) -> Vec<Effect<BrokerTimer>> {
        let mut fx = Effects::default();
        run(&mut self.replicas, &mut ReplicaStep { now: self.now, image: &self.image, fx: &mut fx });
        fx.into_vec()
    }

    fn partition(&self) -> &Partition {
        self.replicas.partition(&tp()).expect("applied")
    }

    fn carry_out(&mut self, act: &Act) -> Value {
        match act {
            Act::Append { records, acks } => self.append(*records, *acks),
            Act::CheckAcksAll { required_offset } => {
                let (done, error) = self.acks_all(Offset(*required_offset));
                json!({ "done": done, "error": error })
            }
            Act::FollowerFetch { replica, offset, leader_epoch, broker_epoch } => {
                let error = self.fetch(*replica, *offset, *leader_epoch, *broker_epoch);
                json!({ "error": error.name() })
            }
            Act::SleepAndCheckIsr { ms } => {
                self.now = self.now.plus_ms(*ms);
                self.step(ReplicaManager::check_isr);
                json!({})
            }
            Act::NewLeaderEpoch { leader_epoch, partition_epoch, isr } => {
                self.registration.leader_epoch = LeaderEpoch(*leader_epoch);
                self.registration.partition_epoch = PartitionEpoch(*partition_epoch);
                self.registration.isr = ids(isr);
                self.apply();
                json!({})
            }
            Act::BrokerState { broker, fenced, shutting_down } => {
                self.image.replay(&registration(*broker, *fenced, *shutting_down));
                json!({})
            }
            Act::ControllerAccepts { isr, partition_epoch } => {
                self.step(|replicas, step| replicas.isr_committed(&tp(), ids(isr), *partition_epoch, step));
                json!({})
            }
            Act::ControllerRefuses { error } => {
                let named = ErrorCode::ALL.iter().find(|code| code.name() == error);
                self.replicas.isr_refused(&tp(), *named.expect("one of Kafka's errors"));
                json!({})
            }
        }
    }

    fn append(&mut self, records: i32, acks: i16) -> Value {
        let mut builder = BatchBuilder::new();
        let timestamp_ms = self.now.wall_ms();
        for _ in 0..records {
            builder.append(&NewRecord { timestamp_ms, value: Some(b"value"), ..NewRecord::default() });
        }
        let data = PartitionProduceData::default()
            .with_index(0)
            .with_records(Some(builder.finish(None).into_bytes()));
        let topic = TopicProduceData::default().with_topic_id(topic_id().0).with_partition_data(vec![data]);
        let produce =
            ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![topic]);
        let first = self.partition().log.log_end_offset();
        let effects =
            self.step(|replicas, step| replicas.produce(request(), &produce, &Verified::default(), step));
        let refused = answers(&effects).find_map(|response| match response {
            Response::Produce(answer) => {
                let code = answer.responses[0].partition_responses[0].error_code;
                Some(ErrorCode::from_code(code)).filter(|error| *error != ErrorCode::None)
            }
            _ => None,
        });
        if let Some(error) = refused {
            return json!({ "error": error.name() });
        }
        let required = self.partition().log.log_end_offset();
        let (done, error) = self.acks_all(required);
        json!({
            "error": "NONE",
            "first_offset": first.0,
            "required_offset": required.0,
            "acks_all_done": done,
            "acks_all_error": error,
        })
    }

    /// Whether an acks=all write up to `required` is done, and how.
    fn acks_all(&self, required: Offset) -> (bool, &'static str) {
        match self.partition().acks_all_outcome(required) {
            None => (false, ErrorCode::None.name()),
            Some(error) => (true, error.name()),
        }
    }

    fn fetch(&mut self, replica: i32, offset: i64, leader_epoch: i32, broker_epoch: i64) -> ErrorCode {
        let state = ReplicaState::default().with_replica_id(replica.into()).with_replica_epoch(broker_epoch);
        let partition = FetchPartition::default()
            .with_partition(0)
            .with_current_leader_epoch(leader_epoch)
            .with_fetch_offset(offset)
            .with_last_fetched_epoch(-1)
            .with_log_start_offset(0)
            .with_partition_max_bytes(1_048_576);
        let topic = FetchTopic::default().with_topic_id(topic_id().0).with_partitions(vec![partition]);
        let fetch = FetchRequest::default()
            .with_replica_state(state)
            .with_max_wait_ms(0)
            .with_min_bytes(1)
            .with_max_bytes(1_048_576)
            .with_topics(vec![topic]);
        let fetch = SharedFetch::new(Rc::new(fetch.into())).expect("a Fetch request");
        let effects = self.step(|replicas, step| replicas.fetch(request(), &fetch, step));
        let answer = answers(&effects).find_map(|response| match response {
            Response::Fetch(answer) => Some(answer.responses[0].partitions[0].error_code),
            _ => None,
        });
        ErrorCode::from_code(answer.expect("a fetch that may not wait is answered"))
    }

    /// The requests for other in-sync sets since the last step.
    fn sent(&mut self) -> Vec<Sent> {
        let notices = self.replicas.take_notices();
        let wanted = notices.iter().filter(|notice| matches!(notice, Notice::IsrWanted { .. }));
        let partition = self.partition();
        let leader = partition.leader().expect("it leads throughout");
        wanted
            .map(|_| Sent {
                new_isr: leader.isr.wanted().iter().map(|id| id.0).collect(),
                leader_epoch: partition.leader_epoch.0,
                partition_epoch: partition.partition_epoch.0,
            })
            .collect()
    }

    fn state(&self) -> State {
        let partition = self.partition();
        let leader = partition.leader().expect("it leads throughout");
        let sorted = |ids: Vec<BrokerId>| {
            let mut ids: Vec<i32> = ids.iter().map(|id| id.0).collect();
            ids.sort();
            ids
        };
        let maximal = partition.replicas.iter().copied().filter(|id| leader.isr.maximal_contains(*id));
        let followers = leader.remotes.iter().map(|(id, remote)| Follower {
            id: id.0,
            log_end: remote.log_end_offset.0,
            last_caught_up: remote.last_caught_up_at.map_or(0, Time::ms),
        });
        State {
            high_watermark: partition.log.high_watermark().0,
            log_end: partition.log.log_end_offset().0,
            isr: sorted(leader.isr.committed().to_vec()),
            maximal_isr: sorted(maximal.collect()),
            change_in_flight: leader.isr.is_in_flight(),
            leader_epoch: partition.leader_epoch.0,
            partition_epoch: partition.partition_epoch.0,
            followers: followers.collect(),
        }
    }
}

/// Brokers' epochs are 1000 and their id.
fn registration(id: i32, fenced: bool, in_controlled_shutdown: bool) -> MetadataRecord {
    MetadataRecord::RegisterBroker(RegisterBroker {
        broker: BrokerId(id),
        incarnation: uuid::Uuid::nil(),
        epoch: BrokerEpoch(1000 + i64::from(id)),
        rack: None,
        fenced,
        in_controlled_shutdown,
    })
}

fn request() -> RequestId {
    RequestId {
        from: NodeId::Client(1),
        channel: Channel::Main,
        connection: 1,
        correlation: 1,
        version: ApiKey::Produce.version(),
    }
}

fn answers(effects: &[Effect<BrokerTimer>]) -> impl Iterator<Item = &Response> {
    effects.iter().filter_map(|effect| match effect {
        Effect::Respond { response, .. } => Some(&**response),
        _ => None,
    })
}
