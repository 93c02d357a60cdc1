//! Share groups of a plan: on a share of the seeds one group, with its configs and members; and when it is at rest.
//!
//! **Invariant:** what is drawn depends on the seed alone, and is drawn from a stream of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{TopicPlan, chance, pick};
use crate::client::program::Line;
use crate::client::share_consumer::ShareConsumerSpec;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::modern::share::ShareGroup;
use crate::kafka::random::Random;
use crate::kafka::share::ShareKey;
use crate::kafka::types::{ClientName, GroupId, Topic, TopicPartition};
use crate::sim::{Command, World};

/// On so many seeds of a hundred there is a share group.
const SHARE: u64 = 30;
const GROUP: &str = "shared";

const IMPLICIT: [&[&str]; 3] =
    [&["poll", "process 5ms"], &["poll", "process 200ms", "commit"], &["poll", "process 20s"]];
const EXPLICIT: [&[&str]; 4] = [
    &["poll", "process 5ms", "release 20%", "accept"],
    &["poll", "process 100ms", "reject 10%", "release 20%", "accept", "commit"],
    &["poll", "process 5ms", "release 60%", "accept", "commit async"],
    &["poll", "process 2s", "renew 20%", "release 10%", "accept"],
];

/// What a seed has of share groups.
#[derive(Clone, Debug, Default)]
pub struct SharePlan {
    pub consumers: Vec<ShareConsumerSpec>,
    /// What the group is told before its members come.
    pub configs: Vec<(String, String)>,
}

impl SharePlan {
    pub fn draw(topics: &[TopicPlan], random: &mut Random) -> SharePlan {
        if !chance(random, SHARE) {
            return SharePlan::default();
        }
        let members = random.between(1, 4);
        let consumers = (1..=members).map(|number| consumer(number, topics, random)).collect();
        let mut configs = Vec::new();
        let mut config = |key: &str, value: &str| configs.push((key.to_owned(), value.to_owned()));
        if chance(random, 70) {
            config("share.auto.offset.reset", "earliest");
        }
        if chance(random, 60) {
            config("share.record.lock.duration.ms", pick::<&str>(random, &["15000", "20000"]));
        }
        if chance(random, 40) {
            config("share.delivery.count.limit", pick::<&str>(random, &["2", "3", "10"]));
        }
        SharePlan { consumers, configs }
    }

    /// The commands that bring the group about.
    pub fn arrivals(&self) -> impl Iterator<Item = Command> + '_ {
        let configs = self.configs.iter().map(|(key, value)| Command::SetGroupConfig {
            group: GroupId::new(GROUP),
            key: key.clone(),
            value: Some(value.clone()),
        });
        configs.chain(self.consumers.iter().map(|spec| Command::AddShareConsumer(spec.clone())))
    }

    pub fn find(&self, name: &ClientName) -> Option<&ShareConsumerSpec> {
        self.consumers.iter().find(|spec| spec.name == *name)
    }
}

/// Each partition that members of a share group subscribe to is assigned to one of them at least.
pub fn unrest(world: &World, plan: &SharePlan, image: &ClusterImage) -> Option<String> {
    let alive = plan.consumers.iter().filter_map(|spec| world.share_consumer(&spec.name));
    let alive: Vec<_> = alive.collect();
    let topics: BTreeSet<&Topic> = alive.iter().flat_map(|consumer| &consumer.spec().topics).collect();
    let is_read = |tp: &TopicPartition| alive.iter().any(|consumer| consumer.assigned().contains(tp));
    if has_outlived_states(world, plan, image) {
        return Some(format!("{GROUP} is to begin states of an earlier life"));
    }
    let mut shared = image.partitions().map(|(tp, _)| tp).filter(|tp| topics.contains(&tp.topic));
    let brokers = || image.brokers.keys().filter_map(|id| world.broker(*id));
    let groups = || brokers().flat_map(|broker| broker.groups().share_groups().map(|group| told(group)));
    shared.find(|tp| !is_read(tp)).map(|tp| {
        format!("{tp} is read by no member of {GROUP}: {}", groups().collect::<Vec<_>>().join(", "))
    })
}

/// How a coordinator sees the group.
fn told(group: &ShareGroup) -> String {
    let members = group.base.members.values();
    let members: Vec<_> = members.map(|m| (&m.client, m.epoch, &m.topic_names, &m.assigned)).collect();
    let (epoch, target) = (group.base.epoch, &group.base.target);
    format!(
        "{:?} in epoch {epoch}, its target of {} at {} ms, members {members:?}",
        group.states, target.epoch, target.computed_ms
    )
}

/// What lets a group begin its states that an earlier life of it has outlived: members come and go, which raises its epoch.
///
/// A group whose coordinator has lost its log is begun anew by its members, in the first epoch, while the share coordinators
/// keep what they know in the epochs of the one before. An ask of a lesser epoch they answer with FENCED_STATE_EPOCH
/// (`ShareCoordinatorShard.maybeGetInitializeStateError`); the group coordinator takes back what it asked
/// (`GroupCoordinatorService.uninitializeShareGroupState`) and asks in the same epoch again with the next heartbeat. In Kafka,
/// too, that ends when the group's epoch has come to the states'.
pub fn comings_and_goings(world: &World, plan: &SharePlan) -> Vec<Command> {
    if !world
        .active_controller()
        .is_some_and(|controller| has_outlived_states(world, plan, controller.image()))
    {
        return Vec::new();
    }
    let come_or_go = |spec: &ShareConsumerSpec| match world.share_consumer(&spec.name) {
        Some(_) => Command::Close(spec.name.clone()),
        None => Command::AddShareConsumer(spec.clone()),
    };
    plan.consumers.iter().map(come_or_go).collect()
}

/// Whether a state is of a later epoch than the group that is to begin it.
fn has_outlived_states(world: &World, plan: &SharePlan, image: &ClusterImage) -> bool {
    let brokers = || image.brokers.keys().filter_map(|id| world.broker(*id));
    let group_id = GroupId::new(GROUP);
    let Some(group) = brokers().find_map(|broker| broker.groups().share_group(&group_id)) else {
        return false;
    };
    let topics: BTreeSet<&Topic> = plan.consumers.iter().flat_map(|spec| &spec.topics).collect();
    let keys = topics.into_iter().filter_map(|name| image.topic(name)).flat_map(|topic| {
        let partitions = 0..topic.partitions.len() as i32;
        partitions.map(|partition| ShareKey { group: group_id.clone(), topic_id: topic.id, partition })
    });
    let mut missing = keys.filter(|key| !group.states.is_initialized(&key.topic_id, key.partition));
    missing.any(|key| {
        let states = brokers().filter_map(|broker| broker.share_states().state(&key));
        states.into_iter().any(|state| state.state_epoch > group.base.epoch.0)
    })
}

fn consumer(number: i64, topics: &[TopicPlan], random: &mut Random) -> ShareConsumerSpec {
    let is_explicit = chance(random, 60);
    let program: &[&str] =
        if is_explicit { pick::<&[&str]>(random, &EXPLICIT) } else { pick::<&[&str]>(random, &IMPLICIT) };
    let mut config = BTreeMap::new();
    let mut set = |key: &str, value: &str| drop(config.insert(key.to_owned(), value.to_owned()));
    if is_explicit {
        set("share.acknowledgement.mode", "explicit");
    }
    if chance(random, 40) {
        set("share.acquire.mode", "record_limit");
    }
    set("max.poll.records", pick::<&str>(random, &["1", "5", "50"]));
    let topic = pick(random, topics).name.clone();
    ShareConsumerSpec {
        name: ClientName::new(&format!("share-consumer-{number}")),
        group: GroupId::new(GROUP),
        topics: vec![topic],
        program: Line::parse_program(program).expect("a program"),
        config,
    }
}
