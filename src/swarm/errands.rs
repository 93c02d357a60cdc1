//! What an administrator does to a running cluster, each kind of it on a share of the seeds.
//!
//! **Invariant:** which kinds there are depends on the seed alone; an errand, as any act, on the seed and on what the world
//! was when it was drawn.

use super::plan::{Plan, TopicPlan, chance, pick};
use crate::kafka::controller::image::TopicImage;
use crate::kafka::random::Random;
use crate::kafka::types::{BrokerId, TopicPartition};
use crate::sim::{Command, World};

/// A kind of errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Topics are deleted, and created anew under the same name.
    Topics,
    /// Topics get more partitions.
    Partitions,
    /// Records are deleted up to some offset.
    Records,
    /// Configs of topics are set and unset.
    TopicConfigs,
    /// Configs of one broker or of all are set and unset.
    BrokerConfigs,
    /// Controllers are stopped in order.
    Controllers,
}

/// On how many seeds of a hundred there are such errands.
const SHARES: [(Errand, u64); 6] = [
    (Errand::Topics, 20),
    (Errand::Partitions, 15),
    (Errand::Records, 25),
    (Errand::TopicConfigs, 25),
    (Errand::BrokerConfigs, 25),
    (Errand::Controllers, 20),
];
/// The most partitions that a topic comes to.
const MOST_PARTITIONS: i32 = 6;

/// A config that changes while brokers run, and values that have an effect within some minutes. Segments are not made
/// smaller: a follower could not take in what its leader sends of a larger one, in Kafka neither.
type Choice = (&'static str, &'static [&'static str]);

const TOPIC_CONFIGS: &[Choice] = &[
    ("min.insync.replicas", &["1", "2", "3"]),
    ("retention.ms", &["10000", "60000", "-1"]),
    ("retention.bytes", &["2000", "20000", "-1"]),
    ("segment.ms", &["5000", "30000"]),
    ("unclean.leader.election.enable", &["true", "false"]),
    ("flush.messages", &["1", "3", "20"]),
    ("flush.ms", &["500", "5000"]),
    ("max.message.bytes", &["300", "1000", "1048588"]),
    ("message.timestamp.type", &["CreateTime", "LogAppendTime"]),
    ("message.timestamp.before.max.ms", &["30000", "3600000"]),
    ("message.timestamp.after.max.ms", &["1000", "60000"]),
    ("compression.type", &["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]),
    ("index.interval.bytes", &["0", "200"]),
    ("min.cleanable.dirty.ratio", &["0", "0.1", "0.9"]),
    ("delete.retention.ms", &["0", "10000"]),
    ("min.compaction.lag.ms", &["0", "20000"]),
    ("max.compaction.lag.ms", &["10000", "60000"]),
];
/// For a compacted topic, which stays one.
const POLICIES: Choice = ("cleanup.policy", &["compact", "compact,delete"]);
/// For a broker, or for all by default.
const BROKER_CONFIGS: &[Choice] = &[
    ("log.retention.ms", &["10000", "60000", "-1"]),
    ("log.retention.bytes", &["2000", "20000", "-1"]),
    ("log.roll.ms", &["5000", "30000"]),
    ("log.flush.interval.messages", &["1", "10"]),
    ("log.flush.interval.ms", &["500", "5000"]),
    ("message.max.bytes", &["300", "1000", "1048588"]),
    ("unclean.leader.election.enable", &["true", "false"]),
    ("log.message.timestamp.type", &["CreateTime", "LogAppendTime"]),
    ("log.message.timestamp.after.max.ms", &["1000", "60000"]),
    ("compression.type", &["producer", "gzip", "zstd"]),
    ("log.cleaner.backoff.ms", &["1000", "30000"]),
    ("log.cleaner.min.cleanable.ratio", &["0", "0.9"]),
    ("log.cleaner.delete.retention.ms", &["0", "10000"]),
    ("producer.id.expiration.ms", &["60000", "300000"]),
];
/// Only for all brokers: what it is on one of them, nobody else can know.
const CLUSTER_CONFIGS: &[Choice] = &[("min.insync.replicas", &["1", "2", "3"])];

/// The kinds of errands that a seed has. No partitions are added to topics that are created anew: a client that knew more of
/// the topic before takes what it hears of an added one for old, and for ever (`Metadata.updateLatestMetadata`).
pub fn of_seed(seed: u64) -> Vec<Errand> {
    let mut random = Random::stream(seed, "swarm errands");
    let drawn = SHARES.iter().filter(|(_, percent)| chance(&mut random, *percent));
    let mut errands: Vec<Errand> = drawn.map(|(errand, _)| *errand).collect();
    if errands.contains(&Errand::Topics) {
        errands.retain(|errand| *errand != Errand::Partitions);
    }
    errands
}

/// Draws an errand of a kind that the seed has; none comes of it where there is nothing to do it to.
pub fn draw(random: &mut Random, plan: &Plan, world: &World) -> Vec<Command> {
    let errand = *pick(random, &plan.errands);
    if errand == Errand::Controllers {
        return vec![Command::StopController(*pick(random, &plan.world.controllers))];
    }
    // One that waits for a leader of its partition keeps all others waiting.
    let is_busy = world.admin().is_none_or(|admin| admin.pending() > 0);
    let Some(controller) = world.active_controller().filter(|_| !is_busy) else { return Vec::new() };
    let image = controller.image();
    if errand == Errand::BrokerConfigs {
        return vec![set_broker_config(random, plan)];
    }
    let planned = pick(random, &plan.topics);
    let topic = image.topic(&planned.name);
    match (errand, topic) {
        (Errand::Topics, None) => vec![planned.creation()],
        (Errand::Topics, Some(_)) => delete(random, planned),
        (Errand::Partitions, Some(topic)) => add_partitions(random, topic),
        (Errand::Records, Some(topic)) => vec![delete_records(random, topic, world)],
        (Errand::TopicConfigs, Some(topic)) => vec![set_topic_config(random, topic)],
        _ => Vec::new(),
    }
}

/// Often the topic comes back at once, before brokers and clients have noticed.
fn delete(random: &mut Random, planned: &TopicPlan) -> Vec<Command> {
    let mut commands = vec![Command::DeleteTopic(planned.name.clone())];
    if chance(random, 50) {
        commands.push(planned.creation());
    }
    commands
}

fn add_partitions(random: &mut Random, topic: &TopicImage) -> Vec<Command> {
    let count = topic.partitions.len() as i32 + random.between(1, 2) as i32;
    let command = Command::AddPartitions { topic: topic.name.clone(), count };
    if count <= MOST_PARTITIONS { vec![command] } else { Vec::new() }
}

/// Up to the high watermark, to an offset that is there, or to one that may not be committed.
fn delete_records(random: &mut Random, topic: &TopicImage, world: &World) -> Command {
    let number = random.below(topic.partitions.len() as u64) as i32;
    let partition = TopicPartition::new(&topic.name, number);
    let leader = world.broker(topic.partitions[number as usize].leader);
    let log = leader.and_then(|leader| leader.replicas().partition(&partition)).map(|leader| &leader.log);
    let (start, end) = log.map_or((0, 0), |log| (log.log_start_offset().0, log.log_end_offset().0));
    let before = chance(random, 75).then(|| random.between(start, end));
    Command::DeleteRecords { partition, before }
}

fn set_topic_config(random: &mut Random, topic: &TopicImage) -> Command {
    let is_compacted = topic.config.get(POLICIES.0).is_some_and(|policy| policy.contains("compact"));
    let (key, value) = match is_compacted && chance(random, 10) {
        true => (POLICIES.0, Some(*pick(random, POLICIES.1))),
        false => value_of(random, TOPIC_CONFIGS),
    };
    Command::SetTopicConfig {
        topic: topic.name.clone(),
        key: key.to_string(),
        value: value.map(str::to_string),
    }
}

fn set_broker_config(random: &mut Random, plan: &Plan) -> Command {
    let broker: Option<BrokerId> = chance(random, 50).then(|| pick(random, &plan.world.brokers).0);
    let choices = match broker {
        None if chance(random, 20) => CLUSTER_CONFIGS,
        _ => BROKER_CONFIGS,
    };
    let (key, value) = value_of(random, choices);
    Command::SetBrokerConfig { broker, key: key.to_string(), value: value.map(str::to_string) }
}

/// One of the configs with a value, or without one.
fn value_of(random: &mut Random, choices: &[Choice]) -> (&'static str, Option<&'static str>) {
    let (key, values) = *pick(random, choices);
    (key, chance(random, 75).then(|| *pick(random, values)))
}
