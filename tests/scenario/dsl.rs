//! The little language of the scenario tests: `cluster(3).topic("t", 1, 3, &[])`, `c.kill(1)`, `c.replicas("t-0")`.
//!
//! Every cluster runs in strict mode. A failure prints the seed, the digest and the last events.

use std::collections::BTreeMap;

use glassbroker::client::consumer::{Choice, Consumer, ConsumerSpec, Line};
use glassbroker::client::producer::workload::ValuePattern;
use glassbroker::client::producer::{Producer, ProducerSpec};
use glassbroker::kafka::event::Event;
use glassbroker::kafka::replication::Partition;
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::{
    BrokerId, ClientName, ControllerId, GroupId, NodeId, Offset, Topic, TopicPartition,
};
use glassbroker::lab::command::{Written, parse};
use glassbroker::lab::ledger::{Count, GroupCount, Ledger, Within};
use glassbroker::sim::{Command, Refusal, Target, TraceEntry, World, WorldConfig};

/// `name count` of those that are not 0.
fn said<'a>(counts: impl Iterator<Item = (&'a str, i64)>) -> String {
    let said = counts.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
    said.collect::<Vec<_>>().join(", ")
}

pub fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

pub fn tp(text: &str) -> TopicPartition {
    let (topic, partition) = text.rsplit_once('-').expect("topic-partition");
    TopicPartition::new(&Topic::new(topic), partition.parse().expect("a number"))
}

pub fn ids(list: &[i32]) -> Vec<BrokerId> {
    list.iter().copied().map(BrokerId).collect()
}

pub struct Cluster {
    pub world: World,
}

/// Brokers 1 to `brokers`, one way 2 ms between any two nodes.
pub fn cluster(brokers: i32) -> Cluster {
    cluster_with(brokers, WorldConfig::default())
}

pub fn cluster_with(brokers: i32, config: WorldConfig) -> Cluster {
    let config = WorldConfig {
        strict: true,
        latency_us: 2_000..=2_000,
        brokers: (1..=brokers).map(|id| (BrokerId(id), None)).collect(),
        ..config
    };
    let mut world = World::new(config).expect("valid configs");
    world.run_until(Time::from_ms(1_000));
    Cluster { world }
}

/// The same with eligible.leader.replicas.version at 0.
pub fn cluster_without_elr(brokers: i32) -> Cluster {
    let features = config(&[("eligible.leader.replicas.version", "0")]);
    cluster_with(brokers, WorldConfig { features, ..WorldConfig::default() })
}

/// The same with this transaction.version.
pub fn cluster_at(transaction_version: i16, broker_config: &[(&str, &str)]) -> Cluster {
    let features = config(&[("transaction.version", &transaction_version.to_string())]);
    let broker_config = config(broker_config);
    cluster_with(3, WorldConfig { features, broker_config, ..WorldConfig::default() })
}

/// Broker 1 in rack a, broker 2 in rack b, and so on.
pub fn racked(brokers: i32, config: WorldConfig) -> Cluster {
    let racks = ["a", "b", "c", "d", "e"].map(|rack| Some(rack.to_owned()));
    let brokers = (1..=brokers).map(BrokerId).zip(racks).collect();
    let world = World::new(WorldConfig { strict: true, latency_us: 2_000..=2_000, brokers, ..config });
    let mut c = Cluster { world: world.expect("valid configs") };
    c.run_ms(1_000);
    c
}

/// Three brokers and the controllers 101 to 100 + `controllers`, which have elected one of them.
pub fn quorum(controllers: i32, pairs: &[(&str, &str)]) -> Cluster {
    quorum_of_seed(1, controllers, pairs)
}

pub fn quorum_of_seed(seed: u64, controllers: i32, pairs: &[(&str, &str)]) -> Cluster {
    let controllers = (101..101 + controllers).map(ControllerId).collect();
    let broker_config = config(pairs);
    let mut c = cluster_with(3, WorldConfig { seed, controllers, broker_config, ..WorldConfig::default() });
    c.until("a controller is active and every broker in service", 10_000, |c| {
        c.active().is_some() && (1..=3).all(|id| c.is_in_service(id))
    });
    c
}

pub fn controller(id: i32) -> Target {
    Target::Controller(ControllerId(id))
}

impl Cluster {
    /// The active controller's id.
    pub fn active(&self) -> Option<i32> {
        self.world.active_controller().map(|controller| controller.id().0)
    }

    /// The active controller, which must be.
    pub fn leader(&self) -> i32 {
        self.active().unwrap_or_else(|| panic!("no controller is active\n{}", self.report()))
    }

    /// The active controller counts the broker as unfenced.
    pub fn is_in_service(&self, broker: i32) -> bool {
        self.world.active_controller().is_some_and(|c| c.image().is_alive(BrokerId(broker)))
    }

    pub fn kill_controller(&mut self, id: i32) {
        self.give(Command::Kill(controller(id)));
    }

    pub fn start_controller(&mut self, id: i32) {
        self.give(Command::Start(controller(id)));
    }

    /// Cuts a controller off from all other controllers and brokers, or connects it again.
    pub fn isolate(&mut self, id: i32, cut: bool) {
        let servers: Vec<Target> = self
            .world
            .processes()
            .filter_map(|(node, _)| match node {
                NodeId::Controller(other) => Some(Target::Controller(other)).filter(|_| other.0 != id),
                NodeId::Broker(broker) => Some(Target::Broker(broker)),
                NodeId::Client(_) => None,
            })
            .collect();
        for b in servers {
            let a = controller(id);
            self.give(if cut { Command::Cut { a, b } } else { Command::Heal { a, b } });
        }
    }

    pub fn topic(
        mut self,
        name: &str,
        partitions: i32,
        replication_factor: i16,
        pairs: &[(&str, &str)],
    ) -> Self {
        let topic = Topic::new(name);
        self.give(Command::CreateTopic { topic, partitions, replication_factor, config: config(pairs) });
        self.run_ms(1_000);
        self.registration(&format!("{name}-0"));
        self
    }

    pub fn now_ms(&self) -> i64 {
        self.world.now().ms()
    }

    pub fn run_ms(&mut self, ms: i64) {
        self.world.run_until(self.world.now().plus_ms(ms));
    }

    pub fn try_give(&mut self, command: Command) -> Result<(), Refusal> {
        let text = format!("{command:?}");
        self.world.apply(command, &text)
    }

    pub fn give(&mut self, command: Command) {
        self.try_give(command).unwrap_or_else(|refusal| panic!("{refusal}\n{}", self.report()));
    }

    pub fn kill(&mut self, broker: i32) {
        self.give(Command::Kill(Target::Broker(BrokerId(broker))));
    }

    pub fn start(&mut self, broker: i32) {
        self.give(Command::Start(Target::Broker(BrokerId(broker))));
    }

    pub fn cut(&mut self, a: i32, b: i32) {
        self.give(Command::Cut { a: Target::Broker(BrokerId(a)), b: Target::Broker(BrokerId(b)) });
    }

    pub fn heal(&mut self, a: i32, b: i32) {
        self.give(Command::Heal { a: Target::Broker(BrokerId(a)), b: Target::Broker(BrokerId(b)) });
    }

    /// A producer that is paused before its first record.
    pub fn producer(&mut self, name: &str, topic: &str, rate: &str, pairs: &[(&str, &str)]) {
        let keys = "key".parse().expect("a key pattern");
        self.give(Command::AddProducer(ProducerSpec {
            name: name.into(),
            topic: topic.into(),
            rate: rate.parse().expect("a rate"),
            value: ValuePattern::for_keys(&keys),
            keys,
            partition: None,
            value_size: None,
            transactions: None,
            config: config(pairs),
        }));
        self.give(Command::Pause(name.into()));
        self.run_ms(500);
    }

    /// Sends one record with this key and value, in a batch of its own, and waits until it is committed; without a value
    /// it is a tombstone. The value is filled up with blanks to `size` bytes.
    pub fn record(&mut self, topic: &str, key: &str, value: Option<&str>, size: Option<i32>) {
        let name = format!("writer-{}", self.world.processes().count());
        let keys = key.parse().expect("a key pattern");
        let value = ValuePattern::new(value.unwrap_or("{tombstone}"));
        self.give(Command::AddProducer(ProducerSpec {
            name: name.as_str().into(),
            topic: topic.into(),
            rate: "100/s".parse().expect("a rate"),
            keys,
            value,
            partition: None,
            value_size: size,
            transactions: None,
            config: config(&[("enable.idempotence", "false"), ("acks", "all")]),
        }));
        let name = ClientName::new(&name);
        let sent = |c: &Cluster| c.producer_state(name.as_str()).counts().sent;
        self.until("the record is sent", 10_000, |c| sent(c) == 1);
        self.give(Command::Pause(name.clone()));
        self.until("it is acknowledged", 60_000, |c| {
            c.producer_state(name.as_str()).counts().acknowledged == 1
        });
        self.give(Command::Crash(name));
    }

    /// Lets a producer send exactly `records`, one at a time; it is paused before their fate is known.
    pub fn send(&mut self, name: &str, records: i64) {
        let target = self.producer_state(name).counts().sent + records;
        self.give(Command::Resume(name.into()));
        self.until("the records are sent", 600_000, |c| c.producer_state(name).counts().sent >= target);
        self.give(Command::Pause(name.into()));
    }

    pub fn consumer(
        &mut self,
        name: &str,
        group: &str,
        topics: &[&str],
        program: &[&str],
        pairs: &[(&str, &str)],
    ) {
        let choice = Choice::Topics(topics.iter().copied().map(Topic::new).collect());
        let program = Line::parse_program(program).expect("a program");
        let (name, group) = (name.into(), group.into());
        self.give(Command::AddConsumer(ConsumerSpec { name, group, choice, program, config: config(pairs) }));
    }

    /// Steps until `condition` holds, at most `limit_ms` of virtual time.
    pub fn until(&mut self, what: &str, limit_ms: i64, condition: impl Fn(&Cluster) -> bool) {
        let limit = self.world.now().plus_ms(limit_ms);
        while !condition(self) {
            match self.world.next_at() {
                Some(at) if at <= limit => drop(self.world.step()),
                _ => panic!("not within {limit_ms} ms: {what}\n{}", self.report()),
            }
        }
    }

    /// Steps until an event that fits has happened, and returns its time in milliseconds.
    pub fn until_event(&mut self, what: &str, limit_ms: i64, fits: impl Fn(&Event) -> bool) -> i64 {
        let seen = self.world.trace().len_ever();
        let found = |c: &Cluster| {
            c.world.trace().since(seen).find(|entry| fits(&entry.event)).map(|e| e.key.time.ms())
        };
        self.until(what, limit_ms, |c| found(c).is_some());
        found(self).expect("just seen")
    }

    pub fn producer_state(&self, name: &str) -> &Producer {
        self.world.producer(&ClientName::new(name)).unwrap_or_else(|| panic!("no producer {name}"))
    }

    pub fn consumer_state(&self, name: &str) -> &Consumer {
        self.world.consumer(&ClientName::new(name)).unwrap_or_else(|| panic!("no consumer {name}"))
    }

    /// A broker's replica of a partition.
    pub fn partition(&self, broker: i32, name: &str) -> Option<&Partition> {
        let broker = self.world.broker(BrokerId(broker))?;
        broker.replicas().partition(&tp(name)).map(|partition| &**partition)
    }

    /// `1:LEO/HW 2:LEO/HW ...` of the brokers that run.
    pub fn replicas(&self, name: &str) -> String {
        let brokers = self.world.processes().filter_map(|(node, _)| match node {
            NodeId::Broker(id) => Some(id.0),
            _ => None,
        });
        let line = |id: i32| {
            let log = &self.partition(id, name)?.log;
            Some(format!("{id}:{}/{}", log.log_end_offset(), log.high_watermark()))
        };
        brokers.filter_map(line).collect::<Vec<_>>().join(" ")
    }

    /// `leader e<epoch> isr[..]` as the controller has it.
    pub fn registration(&self, name: &str) -> String {
        let image = self.world.active_controller().expect("a controller").image();
        let partition = image.partition(&tp(name)).expect("a partition");
        let isr: Vec<String> = partition.isr.iter().map(|id| id.to_string()).collect();
        format!("{} e{} isr[{}]", partition.leader, partition.leader_epoch, isr.join(","))
    }

    /// `leader isr[..] elr[..] last[..]` as the controller has it.
    pub fn eligible(&self, name: &str) -> String {
        let image = self.world.active_controller().expect("a controller").image();
        let partition = image.partition(&tp(name)).expect("a partition");
        let list = |ids: &[BrokerId]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",");
        let (isr, elr, last) = (&partition.isr, &partition.elr, &partition.last_known_elr);
        format!("{} isr[{}] elr[{}] last[{}]", partition.leader, list(isr), list(elr), list(last))
    }

    /// How long the last batch took that was acknowledged, from its creation.
    pub fn last_latency_ms(&self) -> i64 {
        let latency = |event: &Event| match event {
            Event::BatchAcknowledged { latency_ms, .. } => Some(*latency_ms),
            _ => None,
        };
        self.events().rev().find_map(latency).expect("an acknowledgement")
    }

    /// The committed records of a broker's replica that can be read, as `offset key=value`; a tombstone has no value.
    pub fn records(&self, broker: i32, name: &str) -> String {
        let log = &self.partition(broker, name).expect("a replica").log;
        let records =
            log.records_between(log.log_start_offset(), log.high_watermark()).expect("sound batches");
        let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).trim_end().to_string();
        let line = |record: &glassbroker::kafka::record::Record| {
            let key = record.key.as_ref().map(text).unwrap_or_default();
            let value = record.value.as_ref().map(|value| format!("={}", text(value))).unwrap_or_default();
            format!("{} {key}{value}", record.offset)
        };
        records.iter().map(line).collect::<Vec<_>>().join(", ")
    }

    /// `id:start..end` of the replicas of the brokers that run, with the base offsets of their segments.
    pub fn extents(&self, name: &str) -> String {
        let line = |id: i32| {
            let log = &self.partition(id, name)?.log;
            let bases: Vec<String> =
                log.segments().map(|segment| segment.base_offset().to_string()).collect();
            Some(format!("{id}:{}..{} [{}]", log.log_start_offset(), log.log_end_offset(), bases.join(" ")))
        };
        let brokers = self.world.processes().filter_map(|(node, _)| match node {
            NodeId::Broker(id) => Some(id.0),
            _ => None,
        });
        brokers.filter_map(line).collect::<Vec<_>>().join(" ")
    }

    /// The values of the records that a broker's replica holds from `from` on, as text.
    pub fn values(&self, broker: i32, name: &str, from: i64) -> Vec<String> {
        let log = &self.partition(broker, name).expect("a replica").log;
        let records = log.records_between(Offset(from), log.log_end_offset()).expect("sound batches");
        let text = |value: bytes::Bytes| String::from_utf8_lossy(&value).into_owned();
        records.into_iter().map(|record| record.value.map(text).unwrap_or_default()).collect()
    }

    /// What became of every record.
    pub fn ledger(&self) -> Ledger {
        Ledger::of(self.world.trace())
    }

    /// What became of a topic's records: `produced 7, acknowledged 7, stored 5, lost 2`.
    pub fn outcome(&self, topic: &str) -> String {
        let totals = self.ledger().totals().records(&Within::Topic(Topic::new(topic)));
        let counts = Count::ALL.iter().map(|count| (count.name(), totals.count(*count)));
        said(counts)
    }

    /// What a group did with them: `delivered 10, processed 10, processed twice 7`.
    pub fn outcome_of(&self, group: &str, topic: &str) -> String {
        let totals = self.ledger().totals().group(&GroupId::new(group), &Within::Topic(Topic::new(topic)));
        said(GroupCount::ALL.iter().map(|count| (count.name(), totals.count_of(*count))))
    }

    /// Gives a command as a person writes it.
    pub fn order(&mut self, text: &str) {
        let order = parse(text).unwrap_or_else(|error| panic!("{error}"));
        let Written::Whole(order) = order else { panic!("{order:?}") };
        self.give(order);
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &TraceEntry> {
        self.world.trace().entries()
    }

    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.entries().map(|entry| &entry.event)
    }

    /// When the first event that fits happened, in milliseconds.
    pub fn time_of(&self, what: &str, fits: impl Fn(&Event) -> bool) -> i64 {
        let found = self.entries().find(|entry| fits(&entry.event));
        found.unwrap_or_else(|| panic!("did not happen: {what}\n{}", self.report())).key.time.ms()
    }

    pub fn report(&self) -> String {
        let mut text = format!("seed {} digest {:016x}\n", self.world.seed(), self.world.digest());
        let last: Vec<_> = self.entries().rev().take(40).collect();
        for entry in last.into_iter().rev() {
            text.push_str(&format!("{} {:?}\n", entry.key.time, entry.event));
        }
        text
    }
}
