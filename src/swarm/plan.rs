//! What a seed draws before anything runs: the cluster, its topics and its clients.
//!
//! **Invariant:** a plan depends on the seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::errands::{self, Errand};
use super::shares::SharePlan;
use super::transactions::{self, TransactionPlan};
use super::{producers, programs};
use crate::client::consumer::config::{INSTANCE_ID, REFUSED_BY_CONSUMER};
use crate::client::consumer::{Choice, ConsumerSpec, Line};
use crate::client::producer::ProducerSpec;
use crate::client::producer::workload::ValuePattern;
use crate::kafka::random::Random;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, GroupId, Topic};
use crate::sim::{Command, WorldConfig};

/// One seed in so many has every message encoded and decoded.
const STRICT_EACH: u64 = 20;

/// The topology and the workload of one seed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub world: WorldConfig,
    pub topics: Vec<TopicPlan>,
    pub producers: Vec<ProducerPlan>,
    pub consumers: Vec<ConsumerSpec>,
    pub shares: SharePlan,
    pub transactions: TransactionPlan,
    /// What an administrator does there.
    pub errands: Vec<Errand>,
}

#[derive(Clone, Debug)]
pub struct TopicPlan {
    pub name: Topic,
    pub partitions: i32,
    pub replication_factor: i16,
    pub config: BTreeMap<String, String>,
}

impl TopicPlan {
    /// The command that brings the topic about.
    pub fn creation(&self) -> Command {
        Command::CreateTopic {
            topic: self.name.clone(),
            partitions: self.partitions,
            replication_factor: self.replication_factor,
            config: self.config.clone(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct ProducerPlan {
    pub spec: ProducerSpec,
    /// acks=all: what it is told is written may not be lost.
    pub acks_all: bool,
    pub idempotent: bool,
}

/// One of `items`, each as likely as it is often there.
pub fn pick<'a, T>(random: &mut Random, items: &'a [T]) -> &'a T {
    &items[random.below(items.len() as u64) as usize]
}

/// True in `percent` of all cases.
pub fn chance(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

fn text(value: impl ToString) -> String {
    value.to_string()
}

impl Plan {
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::stream(seed, "swarm plan");
        let world = world(seed, &mut random);
        let brokers = world.brokers.len() as i64;
        let topics: Vec<TopicPlan> =
            (1..=random.between(1, 3)).map(|number| topic(number, brokers, &mut random)).collect();
        let producers = (1..=random.between(1, 4)).map(|number| producer(number, &topics, &mut random));
        let producers = producers.collect();
        let groups = random.between(0, 2);
        let mut consumers = Vec::new();
        for group in 1..=groups {
            let members = random.between(1, 3);
            consumers.extend((1..=members).map(|number| consumer(group, number, &topics, &mut random)));
        }
        let shares = SharePlan::draw(&topics, &mut Random::stream(seed, "swarm shares"));
        let (errands, transactions) = (errands::of_seed(seed), TransactionPlan::default());
        let mut plan = Plan { world, topics, producers, consumers, shares, transactions, errands };
        producers::vary(&mut plan.producers, &plan.topics, &mut Random::stream(seed, "swarm producers"));
        plan.keep_snapshots(&mut Random::stream(seed, "swarm snapshots"));
        plan.read_in_racks(&mut Random::stream(seed, "swarm racks"));
        plan.vary_members(&mut Random::stream(seed, "swarm members"));
        plan.speak_newer_protocol(&mut Random::stream(seed, "swarm protocols"));
        programs::vary(&mut plan.consumers, &mut Random::stream(seed, "swarm programs"));
        plan.keep_share_states(&mut Random::stream(seed, "swarm share states"));
        plan.flush(&mut Random::stream(seed, "swarm flushes"));
        plan.await_administrator(&mut Random::stream(seed, "swarm topics"));
        if seed >= transactions::FIRST_SEED {
            plan.transact(&mut Random::stream(seed, "swarm transactions"));
        }
        programs::listen(&mut plan.consumers, &mut Random::stream(seed, "swarm listeners"));
        plan
    }

    /// The producers whose records may not be lost once they are acknowledged.
    pub fn acks_all(&self) -> BTreeSet<ClientName> {
        let strict = self.producers.iter().filter(|producer| producer.acks_all);
        strict.map(|producer| producer.spec.name.clone()).collect()
    }

    /// The commands that bring the topics about.
    pub fn creations(&self) -> impl Iterator<Item = Command> + '_ {
        self.topics.iter().map(TopicPlan::creation)
    }

    /// The commands that bring the clients in.
    pub fn arrivals(&self) -> impl Iterator<Item = Command> + '_ {
        let producers = self.producers.iter().map(|producer| Command::AddProducer(producer.spec.clone()));
        let consumers = self.consumers.iter().map(|spec| Command::AddConsumer(spec.clone()));
        producers.chain(consumers).chain(self.shares.arrivals()).chain(self.transactions.arrivals())
    }

    pub(super) fn configure(&mut self, key: &str, value: impl ToString) {
        self.world.broker_config.insert(key.to_string(), value.to_string());
    }

    /// Snapshots of the metadata log come often and the log below them goes, so that who was away fetches one.
    fn keep_snapshots(&mut self, random: &mut Random) {
        if !chance(random, 40) {
            return;
        }
        self.configure("metadata.log.max.record.bytes.between.snapshots", pick(random, &[200, 1_000, 5_000]));
        self.configure("metadata.log.segment.ms", pick(random, &[1_000, 10_000, 60_000]));
        if chance(random, 50) {
            self.configure("metadata.log.max.snapshot.interval.ms", pick(random, &[0, 5_000, 60_000]));
        }
        let by_time = chance(random, 70);
        if by_time {
            self.configure("metadata.max.retention.ms", pick(random, &[1_000, 10_000, 60_000]));
        }
        if !by_time || chance(random, 30) {
            self.configure("metadata.max.retention.bytes", pick(random, &[500, 5_000, 20_000]));
        }
        // A snapshot in many parts. The log itself is never asked for in small ones: a broker whose metadata log was lost
        // would live through its past again, lead in old epochs and forget the epochs of its records.
        if chance(random, 40) {
            self.configure("controller.quorum.fetch.snapshot.max.bytes", pick(random, &[50, 1_000]));
        }
    }

    /// The topic of share groups' states has no more replicas than there are brokers, or it would never be.
    fn keep_share_states(&mut self, random: &mut Random) {
        let replicas = (self.world.brokers.len() as i64).min(3);
        self.configure("share.coordinator.state.topic.num.partitions", random.between(1, 3));
        self.configure("share.coordinator.state.topic.replication.factor", replicas);
        self.configure("share.coordinator.state.topic.min.isr", random.between(1, replicas));
    }

    /// Consumers in racks read from the nearest replica (KIP-392), if there is one.
    fn read_in_racks(&mut self, random: &mut Random) {
        let racks: Vec<String> = self.world.brokers.iter().filter_map(|(_, rack)| rack.clone()).collect();
        if racks.is_empty() || !chance(random, 70) {
            return;
        }
        self.configure("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector");
        for consumer in &mut self.consumers {
            let rack = match random.below(10) {
                0..8 => pick(random, &racks).clone(),
                8 => text("rack-of-nobody"),
                _ => continue,
            };
            consumer.config.insert(text("client.rack"), rack);
        }
    }

    /// How members share partitions out, whether they are static, and how long they may take between polls.
    fn vary_members(&mut self, random: &mut Random) {
        /// The members of a group take theirs from one of these; each has an assignor that all members have.
        const STRATEGIES: [&[&str]; 8] = [
            &["range, cooperative-sticky"],
            &["range"],
            &["roundrobin"],
            &["sticky"],
            &["cooperative-sticky"],
            &["cooperative-sticky"],
            &["range", "range, cooperative-sticky", "cooperative-sticky, range"],
            &["cooperative-sticky", "cooperative-sticky, range", "range, cooperative-sticky"],
        ];
        let groups: BTreeSet<GroupId> =
            self.consumers.iter().map(|consumer| consumer.group.clone()).collect();
        for group in groups {
            let strategies = pick(random, &STRATEGIES);
            // A static leader that was away takes the topics as it finds them for those that the plan was made for, so that
            // what was added meanwhile is nobody's until the next rebalance, in Kafka too (KIP-814).
            let topics_change = [Errand::Topics, Errand::Partitions].iter().any(|e| self.errands.contains(e));
            let (is_static, has_twins) = (chance(random, 40) && !topics_change, chance(random, 50));
            // Less than the processing of so many records takes: who is late was held up.
            let poll_within_ms = chance(random, 40).then(|| *pick(random, &[4_000, 10_000, 30_000]));
            let members = self.consumers.iter_mut().filter(|consumer| consumer.group == group);
            for (number, member) in members.enumerate() {
                member.config.insert(text("partition.assignment.strategy"), text(pick(random, strategies)));
                if is_static {
                    let number = if has_twins { number / 2 } else { number };
                    member.config.insert(text(INSTANCE_ID), format!("{group}-{number}"));
                }
                if let Some(within_ms) = poll_within_ms {
                    member.config.insert(text("max.poll.interval.ms"), text(within_ms));
                    member.config.insert(text("max.poll.records"), text(10));
                }
            }
        }
    }

    /// Groups of the newer protocol, and some of which only a part has gone over to it.
    fn speak_newer_protocol(&mut self, random: &mut Random) {
        let groups: BTreeSet<GroupId> =
            self.consumers.iter().map(|consumer| consumer.group.clone()).collect();
        for group in groups {
            let (speaks, is_mixed) = (chance(random, 40), chance(random, 30));
            let assignor = *pick(random, &[None, Some("uniform"), Some("range")]);
            for member in self.consumers.iter_mut().filter(|consumer| consumer.group == group) {
                let stays = is_mixed && chance(random, 50);
                // A static member whose process ended without a word may not return before its session is over: it would end
                // for good.
                if !speaks || stays || member.config.contains_key(INSTANCE_ID) {
                    continue;
                }
                for refused in REFUSED_BY_CONSUMER {
                    member.config.remove(refused);
                }
                member.config.insert(text("group.protocol"), text("consumer"));
                if let Some(assignor) = assignor {
                    member.config.insert(text("group.remote.assignor"), text(assignor));
                }
            }
        }
    }

    /// Topics whose records are flushed soon.
    fn flush(&mut self, random: &mut Random) {
        if chance(random, 25) {
            self.configure("log.flush.scheduler.interval.ms", 1_000);
        }
        for topic in &mut self.topics {
            if chance(random, 20) {
                topic.config.insert(text("flush.messages"), text(pick(random, &[1, 2, 10])));
            }
            if chance(random, 20) {
                topic.config.insert(text("flush.ms"), text(pick(random, &[500, 5_000])));
            }
        }
    }

    /// Clients do not bring a deleted topic back, as they would by asking for it, before the administrator does.
    fn await_administrator(&mut self, random: &mut Random) {
        if self.errands.contains(&Errand::Topics) && chance(random, 70) {
            self.configure("auto.create.topics.enable", false);
        }
    }
}

fn world(seed: u64, random: &mut Random) -> WorldConfig {
    let brokers = *pick(random, &[1, 2, 3, 3, 3, 3, 4, 4, 5, 7]);
    let controllers = *pick(random, &[1, 1, 3, 3, 3, 5]);
    let racks = *pick(random, &[0, 0, 2, 3]);
    let rack = |id: i32| (racks > 0).then(|| format!("rack-{}", id % racks));
    let latencies: [RangeInclusive<i64>; 4] = [200..=1_000, 1_000..=15_000, 1_000..=60_000, 20_000..=60_000];
    WorldConfig {
        seed,
        strict: seed.is_multiple_of(STRICT_EACH),
        controllers: (101..101 + controllers).map(ControllerId).collect(),
        brokers: (1..=brokers).map(|id| (BrokerId(id), rack(id))).collect(),
        latency_us: pick(random, &latencies).clone(),
        broker_config: broker_config(brokers, random),
        features: match chance(random, 10) {
            true => BTreeMap::from([(text("eligible.leader.replicas.version"), text(0))]),
            false => BTreeMap::new(),
        },
    }
}

fn broker_config(brokers: i32, random: &mut Random) -> BTreeMap<String, String> {
    let mut config = BTreeMap::from([
        (text("offsets.topic.num.partitions"), text(random.between(1, 3))),
        (text("offsets.topic.replication.factor"), text(brokers.min(3))),
        (text("log.retention.check.interval.ms"), text(*pick(random, &[5_000, 30_000]))),
        (text("log.cleaner.backoff.ms"), text(5_000)),
    ]);
    if chance(random, 40) {
        config.insert(text("replica.lag.time.max.ms"), text(*pick(random, &[3_000, 10_000])));
    }
    if chance(random, 30) {
        config.insert(text("broker.session.timeout.ms"), text(*pick(random, &[3_000, 6_000])));
        config.insert(text("broker.heartbeat.interval.ms"), text(1_000));
    }
    // Elections that collide often. A follower's fetch waits for up to 500 ms, so its patience is longer than that.
    if chance(random, 25) {
        config.insert(text("controller.quorum.election.timeout.ms"), text(150));
        config.insert(text("controller.quorum.fetch.timeout.ms"), text(800));
        config.insert(text("controller.quorum.election.backoff.max.ms"), text(100));
    }
    if chance(random, 30) {
        config.insert(text("leader.imbalance.check.interval.seconds"), text(20));
    }
    if chance(random, 10) {
        config.insert(text("unclean.leader.election.enable"), text(true));
    }
    config
}

fn topic(number: i64, brokers: i64, random: &mut Random) -> TopicPlan {
    let replication_factor = random.between(1, brokers.min(4)).max(random.between(1, brokers.min(3)));
    let mut config = BTreeMap::new();
    if chance(random, 70) {
        config.insert(text("min.insync.replicas"), text(random.between(1, replication_factor.min(3))));
    }
    if chance(random, 50) {
        config.insert(text("internal.segment.bytes"), text(*pick(random, &[1_000, 4_000, 20_000])));
    }
    // Compaction and retention look at closed segments, so they go with small ones.
    if chance(random, 25) {
        config.insert(text("internal.segment.bytes"), text(1_000));
        let policy = *pick(random, &["compact", "compact", "compact,delete"]);
        config.insert(text("cleanup.policy"), text(policy));
        config.insert(text("min.cleanable.dirty.ratio"), text("0.1"));
    }
    if chance(random, 30) {
        config.insert(text("retention.ms"), text(*pick(random, &[10_000, 60_000, 300_000])));
        config.insert(text("segment.ms"), text(30_000));
    }
    if chance(random, 20) {
        config.insert(text("retention.bytes"), text(*pick(random, &[2_000, 20_000])));
    }
    if chance(random, 20) {
        config.insert(text("message.timestamp.type"), text("LogAppendTime"));
    }
    if chance(random, 10) {
        config.insert(text("message.timestamp.after.max.ms"), text(60_000));
    }
    TopicPlan {
        name: Topic::new(&format!("topic-{number}")),
        partitions: *pick(random, &[1, 1, 2, 2, 3, 4]),
        replication_factor: replication_factor as i16,
        config,
    }
}

fn producer(number: i64, topics: &[TopicPlan], random: &mut Random) -> ProducerPlan {
    let name = format!("producer-{number}");
    let (acks, idempotent) = *pick(
        random,
        &[("all", true), ("all", true), ("all", true), ("all", false), ("1", false), ("0", false)],
    );
    let mut config = BTreeMap::new();
    if !idempotent {
        config.insert(text("acks"), text(acks));
        config.insert(text("enable.idempotence"), text(false));
    }
    config.insert(text("linger.ms"), text(*pick(random, &[0, 5, 100, 1_000])));
    if chance(random, 30) {
        config.insert(text("request.timeout.ms"), text(*pick(random, &[2_000, 8_000])));
        config.insert(text("delivery.timeout.ms"), text(*pick(random, &[12_000, 60_000])));
    }
    let keys = format!("{name}-{{0..{}}}", pick(random, &[2, 9, 30])).parse().expect("a key pattern");
    let rate = *pick(random, &["1/s", "2/s", "4/s", "8/s", "1/3s"]);
    let spec = ProducerSpec {
        name: ClientName::new(&name),
        topic: pick(random, topics).name.clone(),
        rate: rate.parse().expect("a rate"),
        value: ValuePattern::for_keys(&keys),
        keys,
        partition: None,
        value_size: None,
        transactions: None,
        config,
    };
    ProducerPlan { spec, acks_all: acks == "all", idempotent }
}

/// A group's members subscribe to the same topics and work alike.
fn consumer(group: i64, number: i64, topics: &[TopicPlan], random: &mut Random) -> ConsumerSpec {
    const PROGRAMS: [[&str; 3]; 3] = [
        ["poll", "process 20ms", "poll"],
        ["poll", "process 5ms", "commit"],
        ["poll 1s", "process 100ms", "commit"],
    ];
    let reset = *pick(random, &["earliest", "earliest", "latest"]);
    let mut config = BTreeMap::from([(text("auto.offset.reset"), text(reset))]);
    if chance(random, 40) {
        config.insert(text("session.timeout.ms"), text(10_000));
        config.insert(text("heartbeat.interval.ms"), text(2_000));
    }
    let topics = match topics.len() as i64 {
        count if count > 1 && group == 2 => topics[1..].iter().map(|topic| topic.name.clone()).collect(),
        _ => topics.iter().map(|topic| topic.name.clone()).collect(),
    };
    ConsumerSpec {
        name: ClientName::new(&format!("consumer-{group}-{number}")),
        group: GroupId::new(&format!("group-{group}")),
        choice: Choice::Topics(topics),
        program: Line::parse_program(pick::<[&str; 3]>(random, &PROGRAMS)).expect("a program"),
        config,
    }
}
