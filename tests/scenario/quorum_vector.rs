//! The six situations of `15_quorum.json`, which Kafka 4.3.1 ran one after the other on one cluster, lived again: which
//! requests are answered, which fail and how, and what the status shows. Offsets and times are the run's own, and so is
//! which of several equal controllers wins an election.
//!
//! Left out: `kafka-cluster.sh`, which prints the cluster's id, a constant here, and `kafka-transactions.sh`, which lists
//! transactions, which clients do not have. What was recorded of the two is compared with nothing.

use std::collections::BTreeMap;

use glassbroker::client::producer::ProducerSpec;
use glassbroker::client::producer::workload::ValuePattern;
use glassbroker::kafka::controller::configs::Resource;
use glassbroker::kafka::controller::elections::ElectionType;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::raft::{QuorumStatus, ReplicaStatus};
use glassbroker::kafka::types::{BrokerId, ControllerId, NodeId, Offset, Topic};
use glassbroker::sim::{Command, Target};
use serde_json::Value;

use crate::describe_quorum::describe;
use crate::dsl::{Cluster, config, quorum, tp};

#[path = "quorum_vector/recorded.rs"]
mod recorded;

use recorded::{Recorded, recordings};

const PRODUCER: &[(&str, &str)] =
    &[("delivery.timeout.ms", "6000"), ("request.timeout.ms", "2000"), ("max.block.ms", "6000")];
const PARTITIONS: [&str; 3] = ["t-0", "t-1", "t-2"];
/// Tools whose output has nothing here that it could differ from.
const LEFT_OUT: [&str; 2] = ["kafka-cluster.sh", "kafka-transactions.sh"];
/// Keys of which the records go to partition 1 and to partition 2 of three (EX-13).
const KEY_OF_1: &str = "key";
const KEY_OF_2: &str = "user-1";

/// The cluster, and which of its controllers stands for which of the recorded one.
struct Player {
    c: Cluster,
    controllers: BTreeMap<i32, i32>,
    /// Recorded and own epoch when a status was last seen.
    epochs: (i32, i32),
    clients: i32,
}

impl Player {
    fn new(servers: &[(&str, &str)]) -> Player {
        let c = quorum(3, servers);
        Player { c, controllers: (101..=103).map(|id| (id, id)).collect(), epochs: (0, 0), clients: 0 }
    }

    /// The recorded leader's part is taken by the one that leads here; until then the two were alike.
    fn recast(&mut self, leader: i32) {
        let (own, cast) = (self.c.leader(), self.controllers[&leader]);
        for role in self.controllers.values_mut() {
            *role = match *role {
                id if id == own => cast,
                id if id == cast => own,
                id => id,
            };
        }
    }

    fn target(&self, node: i32) -> Target {
        match self.controllers.get(&node) {
            Some(own) => Target::Controller(ControllerId(*own)),
            None => Target::Broker(BrokerId(node)),
        }
    }

    fn next_client(&mut self, what: &str) -> String {
        self.clients += 1;
        format!("{what}-{}", self.clients)
    }

    /// Producers come and go until each broker holds a block of producer ids, as the recorded one did (R-CTRL-9).
    fn hand_out_producer_ids(&mut self) {
        let blocks = |c: &Cluster| {
            c.world.active_controller().map_or(0, |active| active.image().next_producer_id.0) / 1_000
        };
        for _ in 0..30 {
            if blocks(&self.c) < 3 {
                let name = self.next_client("earlier");
                self.c.producer(&name, "t", "1/s", PRODUCER);
                self.c.give(Command::Close(name.as_str().into()));
            }
        }
        assert_eq!(blocks(&self.c), 3, "{}", self.c.report());
    }

    fn play(&mut self, event: &Value) {
        let nodes = || event["nodes"].as_array().expect("nodes").iter().map(recorded::node);
        match event["op"].as_str().expect("an op") {
            "kill (SIGKILL)" => nodes().for_each(|node| self.c.give(Command::Kill(self.target(node)))),
            "start" => nodes().for_each(|node| self.c.give(Command::Start(self.target(node)))),
            "pause (SIGSTOP)" => nodes().for_each(|node| self.c.give(Command::Freeze(self.target(node)))),
            "resume (SIGCONT)" => nodes().for_each(|node| self.c.give(Command::Thaw(self.target(node)))),
            "wait_until" => {
                self.c.until("a controller leads that is alive", 18_000, |c| {
                    let leader = c.active().map(|id| NodeId::Controller(ControllerId(id)));
                    leader.and_then(|node| c.world.process(node)).is_some_and(|process| process.is_running())
                });
                self.recast(event["leader"].as_i64().expect("a leader") as i32);
            }
            "command" => self.command(&Recorded::new(event)),
            other => panic!("{other} is not known"),
        }
    }

    fn command(&mut self, recorded: &Recorded) {
        match recorded.tool.as_str() {
            "kafka-topics.sh" => self.topics(recorded),
            "kafka-configs.sh" if recorded.has("--describe") => {
                assert_eq!(self.described_configs(), recorded.listed_configs(), "{recorded}");
            }
            "kafka-configs.sh" => {
                let (key, value) = recorded.option("--add-config").split_once('=').expect("key=value");
                let (topic, key, value) = ("t".into(), key.to_string(), Some(value.to_string()));
                self.administer(recorded, Command::SetTopicConfig { topic, key, value });
            }
            "kafka-leader-election.sh" => {
                let partition = Some(tp("t-0"));
                self.administer(recorded, Command::ElectLeader { kind: ElectionType::Preferred, partition });
            }
            "kafka-metadata-quorum.sh" => self.quorum(recorded),
            "kafka-console-producer.sh" => self.produce(recorded),
            "kafka-console-consumer.sh" => self.consume(recorded),
            "kafka-consumer-groups.sh" => {
                let mut listed = recorded.lines();
                listed.sort();
                assert_eq!(self.groups(), listed, "{recorded}");
            }
            "kafka-get-offsets.sh" => {
                assert_eq!(self.offsets(), recorded.offsets(), "{recorded}\n{}", self.c.report());
            }
            "kafka-features.sh" => {
                let image = self.c.world.broker(BrokerId(1)).expect("it runs").image();
                assert_eq!(image.features, recorded.features(), "{recorded}");
            }
            other => panic!("{other} is not known"),
        }
    }

    /// A command is answered, or nobody answers it in time, as in the recording.
    fn administer(&mut self, recorded: &Recorded, command: Command) {
        let seen = self.c.world.trace().len_ever();
        self.c.give(command);
        let pending = |c: &Cluster| c.world.admin().expect("it runs").pending();
        self.c.until("an outcome", 90_000, |c| pending(c) == 0);
        let refusal = self.c.world.trace().since(seen).find_map(|entry| match &entry.event {
            Event::CommandRefused { error, .. } => Some(*error),
            _ => None,
        });
        let expected = recorded.is_timed_out().then_some(ErrorCode::RequestTimedOut);
        assert_eq!((recorded.exit == 0, refusal), (expected.is_none(), expected), "{recorded}");
    }

    fn topics(&mut self, recorded: &Recorded) {
        if recorded.has("--list") {
            return assert_eq!(self.listed_topics(), recorded.lines(), "{recorded}");
        }
        if recorded.has("--describe") {
            return self.describe_topic(recorded);
        }
        let topic = Topic::new(recorded.option("--topic"));
        if recorded.has("--create") {
            // As many partitions and replicas as were given one by one; they fall the same way here (D-2).
            let assigned = recorded.has("--replica-assignment");
            let (partitions, replication_factor) = if assigned { (3, 3) } else { (1, 1) };
            let command = Command::CreateTopic { topic, partitions, replication_factor, config: config(&[]) };
            self.administer(recorded, command);
            if assigned {
                self.c.run_ms(1_000);
                assert_eq!(self.replicas(), recorded.assignment(), "{recorded}");
                self.hand_out_producer_ids();
            }
        } else if recorded.has("--delete") {
            self.administer(recorded, Command::DeleteTopic(topic));
        } else {
            let count = recorded.option("--partitions").parse().expect("a number");
            self.administer(recorded, Command::AddPartitions { topic, count });
        }
    }

    /// The tool asks the controller for reassignments first, so it says nothing without one.
    fn describe_topic(&mut self, recorded: &Recorded) {
        if recorded.exit != 0 {
            assert!(recorded.is_timed_out());
            return assert_eq!(describe(&mut self.c).map(|_| ()), Err(ErrorCode::RequestTimedOut));
        }
        assert_eq!(self.leaders(), recorded.leaders(), "{recorded}\n{}", self.c.report());
    }

    fn listed_topics(&self) -> Vec<String> {
        let image = self.c.world.broker(BrokerId(1)).expect("it runs").image();
        image.topics().map(|topic| topic.name.to_string()).collect()
    }

    fn partitions<T>(
        &self,
        of: impl Fn(&glassbroker::kafka::controller::image::PartitionRegistration) -> T,
    ) -> Vec<T> {
        let image = self.c.world.broker(BrokerId(1)).expect("it runs").image();
        PARTITIONS.iter().map(|name| of(image.partition(&tp(name)).expect("it exists"))).collect()
    }

    fn replicas(&self) -> Vec<Vec<i32>> {
        self.partitions(|partition| partition.replicas.iter().map(|id| id.0).collect())
    }

    /// Leader and in-sync set of each partition, as broker 1 knows them.
    fn leaders(&self) -> Vec<(i32, Vec<i32>)> {
        self.partitions(|partition| {
            let mut isr: Vec<i32> = partition.isr.iter().map(|id| id.0).collect();
            isr.sort();
            (partition.leader.0, isr)
        })
    }

    fn described_configs(&mut self) -> Vec<String> {
        let seen = self.c.world.trace().len_ever();
        self.c.give(Command::Describe(Resource::Topic("t".into())));
        let found = |c: &Cluster| {
            c.world.trace().since(seen).find_map(|entry| match &entry.event {
                Event::ConfigsDescribed { configs, .. } => Some(configs.clone()),
                _ => None,
            })
        };
        self.c.until("the broker answers", 10_000, |c| found(c).is_some());
        found(&self.c).expect("just seen").into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// `kafka-metadata-quorum.sh describe`, asked again for a moment while replicas come to a new leader.
    fn quorum(&mut self, recorded: &Recorded) {
        if recorded.exit != 0 {
            assert!(recorded.is_timed_out());
            return assert_eq!(describe(&mut self.c), Err(ErrorCode::RequestTimedOut), "{recorded}");
        }
        let mut differs = String::new();
        for _ in 0..10 {
            let status = describe(&mut self.c).expect("a leader answers");
            if recorded.has("--status") {
                self.recast(recorded.field("LeaderId"));
            }
            differs = match recorded.has("--status") {
                true => self.differs_in_status(recorded, &status),
                false => self.differs_in_replicas(recorded, &status),
            };
            if differs.is_empty() {
                return;
            }
            self.c.run_ms(200);
        }
        panic!("{recorded}\n{differs}\n{}", self.c.report());
    }

    fn differs_in_status(&mut self, recorded: &Recorded, status: &QuorumStatus) -> String {
        let ids = |replicas: &[ReplicaStatus]| -> Vec<String> {
            let mut names: Vec<String> = replicas.iter().map(|replica| replica.node.to_string()).collect();
            names.sort();
            names
        };
        let own = |id: &i32| match self.controllers.get(id) {
            Some(own) => format!("controller {own}"),
            None => format!("broker {id}"),
        };
        let cast = |field: &str| -> Vec<String> {
            let mut names: Vec<String> = recorded.ids(field).iter().map(own).collect();
            names.sort();
            names
        };
        let leader = format!("controller {}", status.leader);
        let (theirs, ours) = ((recorded.field("LeaderEpoch")), status.epoch);
        let same_epochs = (theirs > self.epochs.0) == (ours > self.epochs.1) || self.epochs == (0, 0);
        // A voter of which nothing is known lacks the whole log and a record more.
        let lag = |lag: i64, high_watermark: i64| if lag > high_watermark { "all" } else { "none" };
        let lags = (
            lag(recorded.field("MaxFollowerLag").into(), recorded.field("HighWatermark").into()),
            lag(status.max_follower_lag(), status.high_watermark.0),
        );
        let known = (recorded.field("MaxFollowerLagTimeMs") >= 0, status.max_follower_lag_ms().is_some());
        let same = own(&recorded.field("LeaderId")) == leader
            && cast("CurrentVoters") == ids(&status.voters)
            && cast("CurrentObservers") == ids(&status.observers)
            && lags.0 == lags.1
            && known.0 == known.1
            && same_epochs;
        if same {
            self.epochs = (theirs, ours);
            return String::new();
        }
        format!(
            "{status:?}, lags {lags:?}, known {known:?}, epochs {:?} then {:?}",
            self.epochs,
            (theirs, ours)
        )
    }

    fn differs_in_replicas(&self, recorded: &Recorded, status: &QuorumStatus) -> String {
        let end = status.voters.iter().map(|voter| voter.log_end_offset).max().expect("voters");
        let row = |replica: &ReplicaStatus, role: &'static str| {
            let role = if replica.node == status.leader.into() { "Leader" } else { role };
            let lacks = match replica.log_end_offset {
                Offset::UNKNOWN => "all",
                offset if offset == end => "nothing",
                _ => "something",
            };
            (replica.node.to_string(), role.to_string(), lacks.to_string())
        };
        let mut rows: Vec<_> = status.voters.iter().map(|voter| row(voter, "Follower")).collect();
        rows.extend(status.observers.iter().map(|observer| row(observer, "Observer")));
        rows.sort();
        let mut expected: Vec<_> = recorded
            .replicas()
            .into_iter()
            .map(|(id, role, lacks)| {
                let node = match self.controllers.get(&id) {
                    Some(own) => format!("controller {own}"),
                    None => format!("broker {id}"),
                };
                (node, role, lacks)
            })
            .collect();
        expected.sort();
        if rows == expected { String::new() } else { format!("{rows:?}, not {expected:?}") }
    }

    /// The lines become records of one partition; of those that may go to a dead broker's, all do.
    fn produce(&mut self, recorded: &Recorded) {
        let name = self.next_client("producer");
        let key = if recorded.has("partitioner.ignore.keys=true") { KEY_OF_2 } else { KEY_OF_1 };
        self.c.give(Command::AddProducer(ProducerSpec {
            name: name.as_str().into(),
            topic: "t".into(),
            rate: "100/s".parse().expect("a rate"),
            keys: key.parse().expect("a key"),
            value: ValuePattern::new(recorded.input[0].trim_end_matches(|c: char| c.is_ascii_digit())),
            partition: None,
            value_size: None,
            transactions: None,
            config: config(PRODUCER),
        }));
        self.c.give(Command::Pause(name.as_str().into()));
        self.c.run_ms(500);
        self.c.send(&name, recorded.input.len() as i64);
        self.c.run_ms(7_500);
        let counts = self.c.producer_state(&name).counts();
        assert_eq!(counts.acknowledged + counts.failed, recorded.input.len() as i64, "{recorded}");
        self.c.give(Command::Close(name.as_str().into()));
    }

    /// `kafka-console-consumer.sh --from-beginning`: as many records as were printed.
    fn consume(&mut self, recorded: &Recorded) {
        let (name, seen) = (self.next_client("consumer"), self.c.world.trace().len_ever());
        let group = recorded.option("--group").to_string();
        self.c.consumer(&name, &group, &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
        self.c.run_ms(12_000);
        let polled = self.c.world.trace().since(seen).filter_map(|entry| match &entry.event {
            Event::Polled { client, records, .. } if client.as_str() == name => Some(*records),
            _ => None,
        });
        let records: i64 = polled.sum();
        assert_eq!(records, recorded.lines().len() as i64, "{recorded}\n{}", self.c.report());
        self.c.give(Command::Close(name.as_str().into()));
        self.c.run_ms(1_000);
    }

    /// The groups that their coordinators know.
    fn groups(&self) -> Vec<String> {
        let brokers = (1..=3).filter_map(|id| self.c.world.broker(BrokerId(id)));
        let mut ids: Vec<String> =
            brokers.flat_map(|broker| broker.groups().groups()).map(|group| group.id.to_string()).collect();
        ids.sort();
        ids
    }

    /// Partitions that are answered for, and the records in them: which of the first two has them is the keys' affair.
    fn offsets(&self) -> (Vec<i32>, i64) {
        let (mut answered, mut records) = (Vec::new(), 0);
        for ((number, name), (leader, _)) in (0..).zip(PARTITIONS).zip(self.leaders()) {
            if let Some(partition) = self.c.partition(leader, name) {
                answered.push(number);
                records += partition.log.high_watermark().0;
            }
        }
        (answered, records)
    }
}

/// The tool that an event ran, if that is one of those left out.
fn tool_left_out(event: &Value) -> Option<&'static str> {
    let tool = event["command"].as_str()?.split(' ').next()?;
    LEFT_OUT.into_iter().find(|left_out| *left_out == tool)
}

/// R-CTRL-9, R-CTRL-12.
#[test]
fn the_six_situations_of_a_quorum_end_as_recorded() {
    let (servers, situations) = recordings();
    let mut servers: Vec<(&str, &str)> =
        servers.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    servers.push(("offsets.topic.num.partitions", "3"));
    let mut player = Player::new(&servers);
    assert_eq!(situations.len(), 6);
    let mut left_out = Vec::new();
    for situation in &situations {
        let began_ms = player.c.now_ms();
        for event in situation["events"].as_array().expect("events") {
            let at_ms = (event["at_s"].as_f64().expect("a time") * 1000.0) as i64;
            let wait_ms = began_ms + at_ms - player.c.now_ms();
            player.c.run_ms(wait_ms.max(0));
            match tool_left_out(event) {
                Some(tool) => left_out.push(tool),
                None => player.play(event),
            }
        }
    }
    assert_eq!(left_out, LEFT_OUT, "each once, and nothing else");
    assert!(
        !player.listed_topics().contains(&"no-quorum".to_string()),
        "what timed out did not happen later"
    );
}
