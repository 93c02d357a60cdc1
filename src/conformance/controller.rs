//! 07c: histories of a controller: brokers fenced, unfenced, stopped in order or without warning, leaders that ask for
//! other in-sync sets, elections and reassignments, with every partition after each step (R-REPL-25, 40 to 60).

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_partition_request::{BrokerState, PartitionData};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::{AlterPartitionReassignmentsRequest, ElectLeadersRequest, TopicName};
use serde::Deserialize;
use serde_json::Value;

use super::partition::{Recovery, State};
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::config::BrokerConfig;
use crate::kafka::controller::brokers::{Sessions, begin_controlled_shutdown, fence, stopped, unfence};
use crate::kafka::controller::elections::{ElectionType, elect_leaders};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::controller::partitions::Basis;
use crate::kafka::controller::topics::create_topic;
use crate::kafka::controller::{alter_partition, reassignments};
use crate::kafka::event::ChangeReason;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{MetadataRecord, RegisterBroker};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, Offset, Topic, TopicPartition};

const FILE: &str = "07c_controller_scripts.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    brokers: i32,
    elr_enabled: bool,
    topics: Vec<NewTopic>,
    initial: BTreeMap<String, State>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTopic {
    name: String,
    assignment: Vec<Vec<i32>>,
    configs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(flatten)]
    act: Act,
    response: Value,
    down: Vec<i32>,
    in_controlled_shutdown: Vec<i32>,
    state: BTreeMap<String, State>,
}

#[derive(Deserialize)]
#[serde(tag = "op", content = "args", rename_all = "snake_case", deny_unknown_fields)]
enum Act {
    Fence {
        broker: i32,
    },
    Unfence {
        broker: i32,
    },
    ControlledShutdown {
        broker: i32,
    },
    UncleanShutdown {
        broker: i32,
    },
    AlterPartition(Wish),
    ElectLeaders {
        #[serde(rename = "type")]
        kind: Kind,
    },
    Reassign {
        partition: String,
        target: Option<Vec<i32>>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    partition: String,
    from_broker: i32,
    new_isr: Vec<i32>,
    leader_epoch: i32,
    partition_epoch: i32,
    recovery: Recovery,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Preferred,
    Unclean,
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
        check(|| format!("step {number}: response"), &step.response, &response)?;
        check(|| format!("step {number}: state"), &step.state, &bench.state())?;
        check(|| format!("step {number}: down"), &step.down, &bench.fenced())?;
        let stopping = bench.in_controlled_shutdown();
        check(|| format!("step {number}: in controlled shutdown"), &step.in_controlled_shutdown, &stopping)?;
    }
    Ok(())
}

/// A controller's decisions with nothing around them.
struct Bench {
    image: ClusterImage,
    sessions: Sessions,
    config: BrokerConfig,
}

impl Bench {
    fn new(script: &Script) -> Bench {
        let mut bench = Bench {
            image: ClusterImage::default(),
            sessions: Sessions::default(),
            config: BrokerConfig::default(),
        };
        let level = i16::from(script.elr_enabled);
        let name = "eligible.leader.replicas.version".to_string();
        bench.replay([MetadataRecord::FeatureLevel { name, level }]);
        bench.replay((0..script.brokers).map(|id| registration(BrokerId(id))));
        (0..script.brokers).for_each(|id| bench.touch(BrokerId(id)));
        let mut random = Random::stream(0, "topic ids");
        for topic in &script.topics {
            let created = create_topic(&request(topic), &bench.image, &bench.config, &mut random);
            bench.replay(created.expect("Kafka created it").0);
        }
        bench
    }

    fn touch(&mut self, broker: BrokerId) {
        self.sessions.touch(broker, epoch_of(broker), Time::ZERO, Offset::ZERO);
    }

    fn replay(&mut self, records: impl IntoIterator<Item = MetadataRecord>) {
        records.into_iter().for_each(|record| self.image.replay(&record));
    }

    fn basis(&self) -> Basis<'_> {
        Basis { image: &self.image, config: &self.config }
    }

    fn carry_out(&mut self, act: &Act) -> Value {
        match act {
            Act::Fence { broker } => self.sessions.remove(BrokerId(*broker)),
            Act::Unfence { broker } => self.touch(BrokerId(*broker)),
            Act::ControlledShutdown { broker } => {
                let broker = BrokerId(*broker);
                self.sessions.begin_shutdown(broker, epoch_of(broker), Offset::ZERO);
            }
            _ => {}
        }
        let basis = self.basis();
        let (records, response) = match act {
            Act::Fence { broker } => {
                (fence(BrokerId(*broker), ChangeReason::BrokerFenced, basis).records, Value::Null)
            }
            Act::Unfence { broker } => (unfence(BrokerId(*broker), basis).records, Value::Null),
            Act::ControlledShutdown { broker } => {
                (begin_controlled_shutdown(BrokerId(*broker), basis).records, Value::Null)
            }
            Act::UncleanShutdown { broker } => (stopped(BrokerId(*broker), false, basis), Value::Null),
            Act::AlterPartition(wish) => alter_isr(wish, basis),
            Act::ElectLeaders { kind } => elect(*kind, basis),
            Act::Reassign { partition, target } => reassign(partition, target.as_deref(), basis),
        };
        self.replay(records);
        response
    }

    fn state(&self) -> BTreeMap<String, State> {
        self.image.partitions().map(|(tp, partition)| (tp.to_string(), State::of(partition))).collect()
    }

    fn fenced(&self) -> Vec<i32> {
        self.image.brokers.iter().filter(|(_, broker)| broker.fenced).map(|(id, _)| id.0).collect()
    }

    /// As the heartbeats have it: with its session a broker's controlled shutdown ends too, while its registration
    /// remembers it until the broker registers again.
    fn in_controlled_shutdown(&self) -> Vec<i32> {
        let stopping = |id: &BrokerId| self.sessions.shutdown_offset(*id, epoch_of(*id)).is_some();
        self.image.brokers.keys().copied().filter(stopping).map(|id| id.0).collect()
    }
}

/// The recordings' broker epochs do not matter: members are compared with themselves.
fn epoch_of(broker: BrokerId) -> BrokerEpoch {
    BrokerEpoch(100 + i64::from(broker.0))
}

fn registration(broker: BrokerId) -> MetadataRecord {
    MetadataRecord::RegisterBroker(RegisterBroker {
        broker,
        incarnation: uuid::Uuid::nil(),
        epoch: epoch_of(broker),
        rack: None,
        fenced: false,
        in_controlled_shutdown: false,
    })
}

fn request(topic: &NewTopic) -> CreatableTopic {
    let assigned = (0..).zip(&topic.assignment).map(|(number, replicas)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(number)
            .with_broker_ids(replicas.iter().map(|id| (*id).into()).collect())
    });
    let config = |(key, value): (&String, &String)| {
        let (key, value) = (key.clone().into(), Some(value.clone().into()));
        CreatableTopicConfig::default().with_name(key).with_value(value)
    };
    CreatableTopic::default()
        .with_name(TopicName(topic.name.clone().into()))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_assignments(assigned.collect())
        .with_configs(topic.configs.iter().map(config).collect())
}

/// `orders-0` as a partition.
fn partition(text: &str) -> TopicPartition {
    let (topic, number) = text.rsplit_once('-').expect("a topic and a number");
    TopicPartition::new(&Topic::new(topic), number.parse().expect("a number"))
}

fn alter_isr(wish: &Wish, basis: Basis<'_>) -> (Vec<MetadataRecord>, Value) {
    let member = |id: &i32| {
        let epoch = epoch_of(BrokerId(*id));
        BrokerState::default().with_broker_id((*id).into()).with_broker_epoch(epoch.0)
    };
    let tp = partition(&wish.partition);
    let wanted = PartitionData::default()
        .with_partition_index(tp.partition)
        .with_leader_epoch(wish.leader_epoch)
        .with_partition_epoch(wish.partition_epoch)
        .with_leader_recovery_state(i8::from(wish.recovery == Recovery::Recovering))
        .with_new_isr_with_epochs(wish.new_isr.iter().map(member).collect());
    let (change, answer) = alter_partition::decide(BrokerId(wish.from_broker), &tp, &wanted, basis);
    let response = serde_json::json!({
        "error": ErrorCode::from_code(answer.error_code).name(),
        "leader": answer.leader_id.0,
        "leader_epoch": answer.leader_epoch,
        "isr": answer.isr.iter().map(|id| id.0).collect::<Vec<i32>>(),
        "partition_epoch": answer.partition_epoch,
    });
    (change.into_iter().map(MetadataRecord::PartitionChange).collect(), response)
}

/// An election of every partition there is.
fn elect(kind: Kind, basis: Basis<'_>) -> (Vec<MetadataRecord>, Value) {
    let kind = match kind {
        Kind::Preferred => ElectionType::Preferred,
        Kind::Unclean => ElectionType::Unclean,
    };
    let request = ElectLeadersRequest::default().with_election_type(kind.code()).with_topic_partitions(None);
    let (records, response) = elect_leaders(&request, basis);
    let mut results = serde_json::Map::new();
    for topic in &response.replica_election_results {
        for one in &topic.partition_result {
            let error = ErrorCode::from_code(one.error_code).name();
            let message = one.error_message.as_ref().map(|message| message.to_string());
            let partition = format!("{}-{}", topic.topic.as_str(), one.partition_id);
            results.insert(partition, serde_json::json!([error, message]));
        }
    }
    (records, Value::Object(results))
}

fn reassign(text: &str, target: Option<&[i32]>, basis: Basis<'_>) -> (Vec<MetadataRecord>, Value) {
    let tp = partition(text);
    let target = target.map(|ids| ids.iter().map(|id| (*id).into()).collect());
    let wanted = ReassignablePartition::default().with_partition_index(tp.partition).with_replicas(target);
    let topic =
        ReassignableTopic::default().with_name(TopicName(tp.topic.to_wire())).with_partitions(vec![wanted]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_allow_replication_factor_change(true)
        .with_topics(vec![topic]);
    let (records, response) = reassignments::alter(&request, basis);
    let answer = &response.responses[0].partitions[0];
    let error = ErrorCode::from_code(answer.error_code);
    // The recording has no text for the one refusal that it holds.
    (records, serde_json::json!({ "error": error.name(), "message": null }))
}
