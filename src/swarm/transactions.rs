//! Transactions of a plan: on the seeds from [`FIRST_SEED`] on producers, readers of committed data and an application that
//! consumes, processes and produces, with what befalls them.
//!
//! Several instances of the application are members of one group. With a transactional.id that they share each that begins
//! fences the one before; with one of its own an instance that was away is a zombie.
//!
//! **Invariant:** what is drawn depends on the seed alone, and is drawn from a stream of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::acts::{Act, Hit};
use super::plan::{Plan, ProducerPlan, TopicPlan, chance, pick};
use super::watch::Work;
use crate::client::admin::{Area, TransactionFilter, TransactionOperation};
use crate::client::application::ApplicationSpec;
use crate::client::consumer::{Choice, ConsumerSpec};
use crate::client::producer::workload::ValuePattern;
use crate::client::producer::{ProducerSpec, TransactionPace, Wish};
use crate::client::program::{Line, Order, Passage, Stop, Which};
use crate::kafka::event::{Event, Halt, TransactionEvent};
use crate::kafka::random::Random;
use crate::kafka::types::{BrokerId, ClientName, GroupId, NodeId, Topic, TransactionalId};
use crate::sim::{Command, Target, World};

/// The seeds from here on have transactions, those below have none.
pub const FIRST_SEED: u64 = 1_000_000;
/// On those, so many acts of a hundred are aimed at them.
const ACTS: u64 = 30;
/// How long an act waits for a transaction to end.
const WITHIN_MS: i64 = 5_000;
const RESULTS: &str = "results";
const GROUP: &str = "workers";
const ID: &str = "transactional.id";
const STATE_TOPIC: &str = "__transaction_state";

/// With the group's metadata, which keeps zombies out (R-TXN-32).
const EXACT: [&[&str]; 3] = [
    &["poll", "begin", "process 20ms", "send results", "send offsets", "commit transaction"],
    &["poll 500ms", "begin", "send results", "process 100ms", "send offsets", "commit transaction"],
    &["poll", "process 5ms", "begin", "send results", "flush", "send offsets", "commit transaction"],
];
/// Without it (A62).
const INEXACT: &[&str] =
    &["poll", "begin", "process 20ms", "send results", "send offsets by group", "commit transaction"];

/// What a seed has of transactions, beside producers and consumers that are in the plan as others are.
#[derive(Clone, Debug, Default)]
pub struct TransactionPlan {
    pub applications: Vec<ApplicationSpec>,
    /// Whether the applications' results are to be there once for each record.
    pub is_exact: bool,
    /// Producers that begin and end transactions.
    pub producers: Vec<ClientName>,
}

impl TransactionPlan {
    /// Whether the seed has transactions.
    pub fn is_drawn(&self) -> bool {
        !self.producers.is_empty()
    }

    pub fn arrivals(&self) -> impl Iterator<Item = Command> + '_ {
        self.applications.iter().map(|spec| Command::AddApplication(spec.clone()))
    }

    pub fn find(&self, name: &ClientName) -> Option<&ApplicationSpec> {
        self.applications.iter().find(|spec| spec.name == *name)
    }

    /// What the applications do, if they do it with the group's metadata.
    pub fn work(&self) -> Option<Work<'_>> {
        let spec = self.applications.first().filter(|_| self.is_exact)?;
        Some(Work { group: &spec.group, topics: &spec.topics, output: &spec.output })
    }

    /// Every transactional.id there is.
    fn ids(&self, plan: &Plan) -> Vec<TransactionalId> {
        let configs = self.applications.iter().map(|spec| &spec.config);
        let configs = configs.chain(plan.producers.iter().map(|producer| &producer.spec.config));
        configs.filter_map(|config| config.get(ID)).map(|id| TransactionalId::new(id)).collect()
    }

    /// What instances need that wait for ever for the end of their last transaction: another transactional.id. The coordinator
    /// has lost which epoch the producer had last, so the leaders refuse its markers, and it does not send them again
    /// (`TransactionMarkerRequestCompletionHandler`). `has_lost`: whether it lost what was written of an id.
    pub fn barred(&self, world: &World, has_lost: impl Fn(&TransactionalId) -> bool) -> Vec<ApplicationSpec> {
        let barred = self.applications.iter().filter_map(|spec| {
            let producer = world.application(&spec.name)?.producer();
            let id = producer.config().transactional_id.clone()?;
            let mut brokers = world.processes().filter_map(|(node, _)| match node {
                NodeId::Broker(broker) => world.broker(broker),
                _ => None,
            });
            let is_prepared = brokers.any(|broker| {
                broker.transactions().transaction(&id).is_some_and(|tx| tx.state().is_prepared())
            });
            (is_prepared && has_lost(&id)).then(|| {
                let mut spec = spec.clone();
                spec.config.insert(ID.to_string(), format!("{}-anew", id.as_str()));
                spec
            })
        });
        barred.collect()
    }

    /// The instances that live, by their group, and what they read.
    pub fn living<'a>(
        &'a self,
        world: &World,
    ) -> Option<(&'a GroupId, Vec<&'a ClientName>, BTreeSet<Topic>)> {
        let living = self.applications.iter().filter(|spec| world.consumer(&spec.name).is_some());
        let living: Vec<&ApplicationSpec> = living.collect();
        let topics = living.first()?.topics.iter().cloned().collect();
        Some((&living.first()?.group, living.iter().map(|spec| &spec.name).collect(), topics))
    }
}

impl Plan {
    /// Adds transactions.
    pub(super) fn transact(&mut self, random: &mut Random) {
        let replicas = random.between(1, (self.world.brokers.len() as i64).min(3));
        self.configure("transaction.state.log.num.partitions", random.between(1, 3));
        self.configure("transaction.state.log.replication.factor", replicas);
        self.configure("transaction.state.log.min.isr", random.between(1, replicas));
        if chance(random, 20) {
            // Clients add partitions themselves, and keep their epoch from one transaction to the next (R-TXN-5).
            let version = pick::<&str>(random, &["0", "1", "1"]);
            self.world.features.insert("transaction.version".to_string(), version.to_string());
        }
        self.read_committed(random);
        let shared_id = chance(random, 30);
        for number in 1..=random.between(1, 3) {
            let producer = producer(number, shared_id, &self.topics, random);
            self.transactions.producers.push(producer.spec.name.clone());
            self.producers.push(producer);
        }
        if chance(random, 65) {
            self.work(random);
        }
    }

    /// Some of the groups read what is committed, and one that does nothing else.
    ///
    /// All members of a group do: a reader of committed data that is given a position behind the last stable offset asks over
    /// and over, as its fetches are answered at once (`DelayedFetch.tryComplete`, case F).
    fn read_committed(&mut self, random: &mut Random) {
        let groups: BTreeSet<GroupId> =
            self.consumers.iter().map(|consumer| consumer.group.clone()).collect();
        let groups: BTreeSet<GroupId> = groups.into_iter().filter(|_| chance(random, 50)).collect();
        for consumer in self.consumers.iter_mut().filter(|consumer| groups.contains(&consumer.group)) {
            consumer.config.insert("isolation.level".to_string(), "read_committed".to_string());
        }
        let config = [
            ("isolation.level", "read_committed"),
            ("auto.offset.reset", "earliest"),
            ("max.poll.records", pick::<&str>(random, &["5", "50", "500"])),
        ];
        self.consumers.push(ConsumerSpec {
            name: ClientName::new("reader"),
            group: GroupId::new("readers"),
            choice: Choice::Topics(self.topics.iter().map(|topic| topic.name.clone()).collect()),
            program: Line::parse_program(&["poll", "process 1ms", "commit"]).expect("a program"),
            config: config.map(|(key, value)| (key.to_string(), value.to_string())).into(),
        });
    }

    /// An application with some instances, and the topic of its results.
    fn work(&mut self, random: &mut Random) {
        let brokers = self.world.brokers.len() as i64;
        let count = random.between(1, self.topics.len().min(2) as i64) as usize;
        let topics: Vec<Topic> = self.topics[..count].iter().map(|topic| topic.name.clone()).collect();
        // What is thinned out by key cannot be held to have a result for each record.
        self.topics[..count].iter_mut().for_each(|topic| drop(topic.config.remove("cleanup.policy")));
        let replication_factor = random.between(1, brokers.min(3)) as i16;
        let min_isr = random.between(1, replication_factor.into());
        self.topics.push(TopicPlan {
            name: Topic::new(RESULTS),
            partitions: *pick(random, &[1, 2, 3]),
            replication_factor,
            config: [("min.insync.replicas".to_string(), min_isr.to_string())].into(),
        });
        self.transactions.is_exact = chance(random, 80);
        let program = if self.transactions.is_exact { *pick(random, &EXACT) } else { INEXACT };
        let (config, shares_id) = (application_config(random), chance(random, 35));
        for number in 1..=random.between(1, 3) {
            let name = format!("worker-{number}");
            let id = if shares_id { "workers-id".to_string() } else { format!("{name}-id") };
            let mut config = config.clone();
            config.insert(ID.to_string(), id);
            self.transactions.applications.push(ApplicationSpec {
                name: ClientName::new(&name),
                group: GroupId::new(GROUP),
                topics: topics.clone(),
                output: Topic::new(RESULTS),
                program: Line::parse_program(program).expect("a program"),
                config,
            });
        }
    }
}

fn application_config(random: &mut Random) -> BTreeMap<String, String> {
    let mut config = BTreeMap::new();
    let mut set = |key: &str, value: &str| drop(config.insert(key.to_string(), value.to_string()));
    set("auto.offset.reset", "earliest");
    set("max.poll.records", pick::<&str>(random, &["3", "20", "500"]));
    if chance(random, 70) {
        set("isolation.level", "read_committed");
    }
    set("transaction.timeout.ms", pick::<&str>(random, &["5000", "20000", "60000"]));
    if chance(random, 30) {
        set("group.protocol", "consumer");
        return config;
    }
    set("partition.assignment.strategy", pick::<&str>(random, &["range", "cooperative-sticky"]));
    if chance(random, 60) {
        set("session.timeout.ms", "10000");
        set("heartbeat.interval.ms", "2000");
    }
    config
}

/// A producer of transactions, each so many records long, or as a person has it.
fn producer(number: i64, shares_id: bool, topics: &[TopicPlan], random: &mut Random) -> ProducerPlan {
    let name = format!("transactional-{number}");
    let id = if shares_id { "transactional-id".to_string() } else { format!("{name}-id") };
    let mut config = BTreeMap::from([(ID.to_string(), id)]);
    let timeout_ms = pick::<&str>(random, &["5000", "15000", "60000"]);
    config.insert("transaction.timeout.ms".to_string(), (*timeout_ms).to_string());
    config.insert("linger.ms".to_string(), pick(random, &[0, 5, 200]).to_string());
    if chance(random, 30) {
        config.insert("request.timeout.ms".to_string(), "2000".to_string());
        config.insert("delivery.timeout.ms".to_string(), "12000".to_string());
    }
    let keys = format!("{name}-{{0..{}}}", pick(random, &[2, 9])).parse().expect("a key pattern");
    let (records, abort_percent) = (*pick(random, &[1, 3, 10]), *pick(random, &[0, 20, 50]));
    let by_hand = chance(random, 15);
    let spec = ProducerSpec {
        name: ClientName::new(&name),
        topic: pick(random, topics).name.clone(),
        rate: pick::<&str>(random, &["1/s", "3/s", "6/s"]).parse().expect("a rate"),
        value: ValuePattern::for_keys(&keys),
        keys,
        partition: None,
        value_size: None,
        transactions: (!by_hand).then_some(TransactionPace { records, abort_percent }),
        config,
    };
    ProducerPlan { spec, acks_all: true, idempotent: false }
}

/// What happens to transactions next, now and then; `None` if it is the turn of anything else.
pub fn draw(random: &mut Random, plan: &Plan, world: &World) -> Option<Act> {
    if !plan.transactions.is_drawn() || !chance(random, ACTS) {
        return None;
    }
    let commands = match random.below(100) {
        0..15 => {
            let hit = *pick(random, &[Hit::Coordinator, Hit::Leader]);
            return Some(Act::AtDecision { hit, within_ms: WITHIN_MS });
        }
        15..30 => of_coordinator(random, world),
        30..50 => stop_at_line(random, plan),
        50..62 => freeze_or_thaw(random, plan),
        62..82 => leave_or_return(random, plan, world),
        82..90 => by_hand(random, plan),
        _ => vec![Command::Transactions(ask(random, plan))],
    };
    Some(Act::Give(commands))
}

/// Whom an act hits, if a transaction's end was decided in these events.
pub fn hit<'a>(hit: Hit, world: &World, mut events: impl Iterator<Item = &'a Event>) -> Option<Command> {
    let (coordinator, marked) = events.find_map(|event| match event {
        Event::Transaction(TransactionEvent::Decided { broker, partitions, .. }) => {
            Some((*broker, partitions.first()?))
        }
        _ => None,
    })?;
    let broker = match hit {
        Hit::Coordinator => coordinator,
        Hit::Leader => world.active_controller()?.image().partition(marked)?.leader,
    };
    broker.is_some().then_some(Command::Kill(Target::Broker(broker)))
}

/// Who leads a partition of `__transaction_state`.
fn coordinator(random: &mut Random, world: &World) -> Option<BrokerId> {
    let image = world.active_controller()?.image();
    let topic = image.topic(&Topic::new(STATE_TOPIC)).filter(|topic| !topic.partitions.is_empty())?;
    let leader = pick(random, &topic.partitions).leader;
    leader.is_some().then_some(leader)
}

fn of_coordinator(random: &mut Random, world: &World) -> Vec<Command> {
    let Some(coordinator) = coordinator(random, world) else { return Vec::new() };
    let target = Target::Broker(coordinator);
    vec![match random.below(10) {
        0..4 => Command::Kill(target),
        4..6 => Command::Freeze(target),
        6 => Command::Stop(coordinator),
        7 => Command::CutPower(target),
        _ => {
            let brokers = world.processes().filter_map(|(node, _)| match node {
                NodeId::Broker(id) if id != coordinator => Some(id),
                _ => None,
            });
            let brokers: Vec<BrokerId> = brokers.collect();
            if brokers.is_empty() {
                return Vec::new();
            }
            Command::Cut { a: target, b: Target::Broker(*pick(random, &brokers)) }
        }
    }]
}

fn worker<'a>(random: &mut Random, plan: &'a Plan) -> Option<&'a ApplicationSpec> {
    let workers = &plan.transactions.applications;
    (!workers.is_empty()).then(|| pick(random, workers))
}

/// The thread of an application ends, stands still or hangs at some line.
fn stop_at_line(random: &mut Random, plan: &Plan) -> Vec<Command> {
    let Some(spec) = worker(random, plan) else { return Vec::new() };
    let how = *pick(random, &[Halt::Crash, Halt::Crash, Halt::Freeze, Halt::Hang]);
    let line = random.between(1, spec.program.len() as i64) as i32;
    let for_us = (how != Halt::Crash).then(|| random.between(1_000, 40_000) * 1_000);
    let (at, after) = (Which::Number(line), chance(random, 50));
    let stop = Stop { how, at, after, passage: Passage::Nth(1), for_us };
    vec![Command::Program { client: spec.name.clone(), order: Order::Stop(stop) }]
}

/// A client of transactions.
fn client(random: &mut Random, plan: &Plan) -> ClientName {
    let workers = plan.transactions.applications.iter().map(|spec| &spec.name);
    let all: Vec<&ClientName> = workers.chain(&plan.transactions.producers).collect();
    (*pick(random, &all)).clone()
}

fn freeze_or_thaw(random: &mut Random, plan: &Plan) -> Vec<Command> {
    let target = Target::Client(client(random, plan));
    vec![if chance(random, 50) { Command::Freeze(target) } else { Command::Thaw(target) }]
}

/// Who is there ends without a word or in order, and who is gone comes anew. A producer that failed for good is there.
fn leave_or_return(random: &mut Random, plan: &Plan, world: &World) -> Vec<Command> {
    let name = client(random, plan);
    let leave = if chance(random, 60) { Command::Crash(name.clone()) } else { Command::Close(name.clone()) };
    let is_there = world.producer(&name).is_some() || world.consumer(&name).is_some();
    match (is_there, arrival(plan, &name)) {
        (true, Some(arrival)) if chance(random, 50) => vec![leave, arrival],
        (true, _) => vec![leave],
        (false, arrival) => arrival.into_iter().collect(),
    }
}

fn arrival(plan: &Plan, name: &ClientName) -> Option<Command> {
    let producer = plan.producers.iter().find(|producer| producer.spec.name == *name);
    let producer = producer.map(|producer| Command::AddProducer(producer.spec.clone()));
    producer.or_else(|| plan.transactions.find(name).cloned().map(Command::AddApplication))
}

fn by_hand(random: &mut Random, plan: &Plan) -> Vec<Command> {
    let client = pick(random, &plan.transactions.producers).clone();
    vec![Command::Transaction { client, wish: *pick(random, &[Wish::Begin, Wish::Commit, Wish::Abort]) }]
}

/// What an administrator wants to know, or to have ended whoever is at it.
fn ask(random: &mut Random, plan: &Plan) -> TransactionOperation {
    let topic = pick(random, &plan.topics).name.clone();
    match random.below(4) {
        0 => TransactionOperation::List(TransactionFilter::default()),
        1 | 2 => TransactionOperation::Terminate(pick(random, &plan.transactions.ids(plan)).clone()),
        _ => TransactionOperation::FindHanging { area: Area::Topic(topic, None), longer_than_ms: Some(0) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::event::EndReason;
    use crate::kafka::types::TopicPartition;

    #[test]
    fn transactions_are_drawn_from_the_first_seed_on_in_all_their_sorts() {
        assert!((0..20).all(|seed| !Plan::draw(seed).transactions.is_drawn()));
        let plans: Vec<Plan> = (FIRST_SEED..FIRST_SEED + 100).map(Plan::draw).collect();
        assert!(plans.iter().all(|plan| plan.transactions.is_drawn()));
        let has = |is: fn(&Plan) -> bool| plans.iter().any(is) && !plans.iter().all(is);
        assert!(has(|plan| plan.world.features.contains_key("transaction.version")));
        assert!(has(|plan| plan.transactions.work().is_some()));
        assert!(has(|plan| {
            let ids = plan.transactions.ids(plan);
            ids.iter().collect::<BTreeSet<_>>().len() < ids.len()
        }));
    }

    #[test]
    fn who_decides_the_end_of_a_transaction_is_hit() {
        let world = World::new(Plan::draw(FIRST_SEED).world).expect("a plan holds valid configs");
        let end = |partitions| {
            Event::Transaction(TransactionEvent::Decided {
                broker: BrokerId(2),
                id: TransactionalId::new("id"),
                committed: true,
                partitions,
                reason: EndReason::Client,
            })
        };
        let decided = [end(vec![TopicPartition::new(&Topic::new("t"), 0)])];
        let killed = hit(Hit::Coordinator, &world, decided.iter());
        assert_eq!(killed, Some(Command::Kill(Target::Broker(BrokerId(2)))));
        assert_eq!(hit(Hit::Coordinator, &world, [].iter()), None);
        assert_eq!(hit(Hit::Leader, &world, decided.iter()), None, "nobody leads it");
    }
}
