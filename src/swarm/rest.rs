//! When a cluster whose faults have ended is at rest, and what must be true then.
//!
//! **Invariant:** what is not at rest is named, so that a run that does not converge says why.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Plan, ProducerPlan, TopicPlan};
use super::shares;
use super::watch::unrest_of_quorum;
use crate::client::consumer::ConsumerSpec;
use crate::client::consumer::config::INSTANCE_ID;
use crate::kafka::broker::BrokerState;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::event::GroupState;
use crate::kafka::group::partition_for;
use crate::kafka::log::Log;
use crate::kafka::types::{BrokerId, ClientName, GroupId, Topic, TopicPartition};
use crate::sim::{Command, World};

/// Partitions that have no leader, and nobody who may become one (R-REPL-45, 48).
pub fn has_orphans(world: &World) -> bool {
    let Some(controller) = world.active_controller() else { return false };
    controller.image().partitions().any(|(_, partition)| !partition.leader.is_some())
}

/// Reassignments that never end: one that asks for fewer replicas than the one under way keeps what that wanted to add, so
/// the same replica is to come and to go (`ReplicationControlManager.changePartitionReassignment`). Kafka waits for
/// somebody to cancel it.
pub fn endless_reassignments(world: &World) -> Vec<TopicPartition> {
    let Some(controller) = world.active_controller() else { return Vec::new() };
    let partitions = controller.image().partitions();
    let endless = partitions.filter(|(_, p)| p.adding.iter().any(|id| p.removing.contains(id)));
    endless.map(|(tp, _)| tp).collect()
}

/// Brokers with a replica that ends within a batch of its leader's. Who lost records and led on in their epoch may have
/// written others at their offsets, and no epoch tells where the two logs part: each fetch brings a batch that begins below
/// the replica's end, so it is marked failed, under each leader anew (`AbstractFetcherThread.processFetchRequest`,
/// R-REPL-38). Kafka waits for somebody to take the replica's disk away.
pub fn stuck_followers(world: &World) -> BTreeSet<BrokerId> {
    let mut stuck = BTreeSet::new();
    let Some(controller) = world.active_controller() else { return stuck };
    for (tp, partition) in controller.image().partitions() {
        let log = |id: BrokerId| Some(&world.broker(id)?.replicas().partition(&tp)?.log);
        let Some(leaders) = log(partition.leader) else { continue };
        let ends_within = |follower: &Log| {
            let end = follower.log_end_offset();
            let is_empty = follower.log_start_offset() == end;
            !is_empty && leaders.batches_from(end).next().is_some_and(|batch| batch.base_offset() < end)
        };
        let outside = partition.replicas.iter().filter(|id| !partition.isr.contains(id));
        stuck.extend(outside.filter(|id| log(**id).is_some_and(ends_within)));
    }
    stuck
}

/// The configs that let coordinators compute targets though the last ones are from a time that is to come yet: they were
/// computed by a clock that was ahead, and the interval counts from there (KIP-1263, R-CG8-8). In Kafka, too, somebody has to
/// set it to 0 (`GroupMetadataManager.canComputeNextTargetAssignment`).
pub fn intervals_of_the_future(world: &World, plan: &Plan) -> BTreeSet<&'static str> {
    let now_ms = world.now().wall_ms();
    let mut keys = BTreeSet::new();
    for groups in plan.world.brokers.iter().filter_map(|(id, _)| Some(world.broker(*id)?.groups())) {
        if groups.consumer_groups().any(|group| group.base.target.computed_ms > now_ms) {
            keys.insert("group.consumer.assignment.interval.ms");
        }
        if groups.share_groups().any(|group| group.base.target.computed_ms > now_ms) {
            keys.insert("group.share.assignment.interval.ms");
        }
    }
    keys
}

/// The commands that bring back planned topics that were deleted.
pub fn missing_topics(world: &World, plan: &Plan) -> Vec<Command> {
    let Some(controller) = world.active_controller() else { return Vec::new() };
    let missing = plan.topics.iter().filter(|topic| controller.image().topic(&topic.name).is_none());
    missing.map(TopicPlan::creation).collect()
}

/// A topic that does not exist as it was planned; what follows would be held to less than it seems.
pub fn fault_of_topics(world: &World, plan: &Plan) -> Option<String> {
    let Some(controller) = world.active_controller() else {
        return Some("no controller is active after set-up".to_string());
    };
    plan.topics.iter().find_map(|planned| {
        let Some(topic) = controller.image().topic(&planned.name) else {
            return Some(format!("{} does not exist after set-up", planned.name));
        };
        let replicas: Vec<usize> =
            topic.partitions.iter().map(|partition| partition.replicas.len()).collect();
        let wanted = vec![planned.replication_factor as usize; planned.partitions as usize];
        (replicas != wanted)
            .then(|| format!("{}: its partitions have {replicas:?} replicas, not {wanted:?}", planned.name))
    })
}

/// What is not at rest yet.
pub fn unrest(world: &World, plan: &Plan) -> Option<String> {
    let Some(controller) = world.active_controller() else {
        return Some("no controller is active".to_string());
    };
    if let Some(unrest) = unrest_of_quorum(world) {
        return Some(unrest);
    }
    let image = controller.image();
    for (id, _) in &plan.world.brokers {
        let state = world.broker(*id).map(|broker| broker.state());
        if !image.is_alive(*id) || state != Some(BrokerState::Running) {
            return Some(format!("broker {id} is {state:?} and not in service"));
        }
    }
    if let Some(missing) = plan.topics.iter().find(|topic| image.topic(&topic.name).is_none()) {
        return Some(format!("{} does not exist", missing.name));
    }
    for (tp, partition) in image.partitions() {
        if !partition.leader.is_some()
            || partition.isr.len() != partition.replicas.len()
            || partition.is_reassigning()
        {
            return Some(format!("{tp}: {partition:?}"));
        }
    }
    if let Some(twins) = twins(world, plan) {
        return Some(twins);
    }
    groups(world, plan)
        .into_iter()
        .find_map(|(group, members)| {
            let topics = members.iter().flat_map(|member| member.choice.topics()).collect();
            let names: Vec<&ClientName> = members.iter().map(|member| &member.name).collect();
            unrest_of_group(world, image, group, (&names, &topics))
        })
        .or_else(|| {
            let (group, names, topics) = plan.transactions.living(world)?;
            unrest_of_group(world, image, group, (&names, &topics))
        })
        .or_else(|| shares::unrest(world, &plan.shares, image))
}

/// Two members that live under one group.instance.id, of which one has yet to hear that it is fenced (R-GRP-24).
pub fn twins(world: &World, plan: &Plan) -> Option<String> {
    let mut seen = BTreeMap::new();
    plan.consumers.iter().filter(|spec| world.consumer(&spec.name).is_some()).find_map(|spec| {
        let id = spec.config.get(INSTANCE_ID)?;
        let twin = seen.insert((&spec.group, id), &spec.name)?;
        Some(format!("{twin} and {} live as {id} of {}", spec.name, spec.group))
    })
}

/// The consumers that live, by group.
fn groups<'a>(world: &World, plan: &'a Plan) -> BTreeMap<&'a GroupId, Vec<&'a ConsumerSpec>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for spec in plan.consumers.iter().filter(|spec| world.consumer(&spec.name).is_some()) {
        groups.entry(&spec.group).or_default().push(spec);
    }
    groups
}

/// Who coordinates these groups. A coordinator that is started anew waits for each member that its log has (R-CG8-14).
pub fn coordinators(world: &World, groups: &BTreeSet<&GroupId>) -> BTreeSet<BrokerId> {
    let Some(controller) = world.active_controller() else { return BTreeSet::new() };
    let offsets = Topic::new("__consumer_offsets");
    let Some(topic) = controller.image().topic(&offsets) else { return BTreeSet::new() };
    let partition = |group: &GroupId| partition_for(group.as_str(), topic.partitions.len() as i32);
    let leaders = groups.iter().filter_map(|group| topic.partitions.get(partition(group) as usize));
    leaders.map(|partition| partition.leader).filter(|leader| leader.is_some()).collect()
}

/// One member of each of these groups that lives.
pub fn to_come_anew(world: &World, plan: &Plan, stranded: &BTreeSet<GroupId>) -> Vec<ConsumerSpec> {
    let groups = groups(world, plan).into_iter().filter(|(group, _)| stranded.contains(group));
    groups.filter_map(|(_, members)| Some(ConsumerSpec::clone(members.first()?))).collect()
}

/// R-GRP-6, 15: the group is stable, and each of its partitions is some one member's.
fn unrest_of_group(
    world: &World,
    image: &ClusterImage,
    group: &GroupId,
    (members, topics): (&[&ClientName], &BTreeSet<Topic>),
) -> Option<String> {
    let mut owners: BTreeMap<TopicPartition, i64> = BTreeMap::new();
    for member in members {
        let consumer = world.consumer(member)?;
        for tp in consumer.subscription().owned().keys() {
            *owners.entry(tp.clone()).or_default() += 1;
        }
    }
    let wanted = image.partitions().filter(|(tp, _)| topics.contains(&tp.topic));
    for (tp, _) in wanted {
        let count = owners.get(&tp).copied().unwrap_or(0);
        if count != 1 {
            return Some(format!("{tp} is owned by {count} members of {group}"));
        }
    }
    let offsets = image.partitions().filter(|(tp, _)| tp.topic.as_str() == "__consumer_offsets");
    let found = offsets.filter_map(|(_, p)| {
        let groups = world.broker(p.leader)?.groups();
        let classic = groups.group(group).map(|group| group.state.name());
        classic.or_else(|| Some(groups.consumer_group(group)?.state().name()))
    });
    let states: Vec<&str> = found.collect();
    (!states.contains(&GroupState::Stable.name())).then(|| format!("{group} is {states:?}"))
}

/// The partitions that a producer's transaction waits for, of topics that were deleted and came again with fewer: its client asks
/// for them without end, and no batch expires meanwhile (`AddPartitionsToTxnHandler` enqueues UNKNOWN_TOPIC_OR_PARTITION anew,
/// `Sender.runOnce` returns before `sendProducerData`). Kafka waits for somebody to add them.
pub fn awaited_partitions(world: &World, plan: &Plan) -> Vec<Command> {
    let Some(controller) = world.active_controller() else { return Vec::new() };
    let managers = plan.producers.iter().filter_map(|producer| {
        world.producer(&producer.spec.name).and_then(|producer| producer.transaction_manager())
    });
    let missing = managers.flat_map(|manager| manager.awaited_partitions()).filter(|tp| {
        let topic = controller.image().topic(&tp.topic);
        topic.is_some_and(|topic| topic.partitions.len() as i32 <= tp.partition)
    });
    missing.map(|tp| Command::AddPartitions { topic: tp.topic.clone(), count: tp.partition + 1 }).collect()
}

/// Producers that still wait for an outcome of something.
pub fn undrained(world: &World, plan: &Plan) -> Option<String> {
    let waits = |producer: &&ProducerPlan| {
        world.producer(&producer.spec.name).is_some_and(|state| {
            let counts = state.counts();
            counts.sent != counts.acknowledged + counts.failed
        })
    };
    let waiting = plan.producers.iter().find(waits)?;
    Some(format!("{} waits for the outcome of what it sent", waiting.spec.name))
}
