//! Who owns which partitions, as the members themselves think, and in which generation (R-GRP-24, 30, 36, R-ASG-8).
//!
//! A member that is cut off or stands still goes on owning what its group has given to others meanwhile; only within one
//! generation is it held to the others, and where the group's log may have lost something not at all.
//!
//! **Invariant:** what is known of a member goes with its process.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::consumer::config::INSTANCE_ID;
use crate::client::consumer::{Consumer, Join};
use crate::kafka::event::{ConsumerGroupState, Event, GroupEvent, GroupState};
use crate::kafka::group::assignor::RebalanceProtocol;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, Generation, GroupId, NodeId, Offset, Topic, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};
use crate::swarm::counts::Counts;

/// What was seen of all members.
#[derive(Default)]
pub struct MemberWatch {
    owners: BTreeMap<ClientName, Owner>,
    /// When each generation was first given out to somebody.
    generations: BTreeMap<GroupId, BTreeMap<Generation, Time>>,
    /// Who was given a partition last.
    holders: BTreeMap<(GroupId, TopicPartition), Holder>,
    /// Groups that were of the newer protocol at some time: there each member has an epoch of its own.
    modern: BTreeSet<GroupId>,
}

/// What a member was given last and has not given up.
struct Owner {
    group: GroupId,
    generation: Generation,
    partitions: BTreeSet<TopicPartition>,
    /// Topics that were deleted since then, and may be there under another id.
    deleted: BTreeSet<Topic>,
    /// With group.protocol=consumer.
    is_modern: bool,
    /// The coordinator does not count it any more, whether or not it has heard so.
    is_removed: bool,
}

struct Holder {
    client: ClientName,
    generation: Generation,
    since: Time,
}

impl MemberWatch {
    /// Takes in one event. `is_kept` says whether the log of a group has lost nothing.
    pub fn hear(
        &mut self,
        world: &World,
        at: Time,
        event: &Event,
        is_kept: impl Fn(&GroupId) -> bool,
        counts: &mut Counts,
    ) -> Verdict {
        match event {
            Event::Process { node: NodeId::Client(_), name, .. } if world.consumer(name).is_none() => {
                self.owners.remove(name);
            }
            Event::PartitionsRevoked { client, partitions, .. } => {
                if let Some(owner) = self.owners.get_mut(client) {
                    owner.partitions.retain(|tp| !partitions.contains(tp));
                }
            }
            Event::PartitionsAssigned { client, group, generation, partitions, added } => {
                self.note_holder(client, group, *generation, added, at);
                self.generations.entry(group.clone()).or_default().entry(*generation).or_insert(at);
                let partitions = partitions.iter().cloned().collect();
                let is_modern = world.consumer(client).is_some_and(|consumer| consumer.config().is_modern);
                let (id, generation) = (group.clone(), *generation);
                let deleted = BTreeSet::new();
                let owner =
                    Owner { group: id, generation, partitions, deleted, is_modern, is_removed: false };
                self.owners.insert(client.clone(), owner);
                if is_kept(group) {
                    counts.assignments_checked += 1;
                    return self.check_owner(world, client);
                }
            }
            Event::Group(GroupEvent::AssignmentStored { group, generation, plan }) if is_kept(group) => {
                counts.handovers_checked += 1;
                return self.check_plan(world, group, *generation, plan);
            }
            Event::Group(GroupEvent::ConsumerGroupStateChanged { group, from, to, .. }) => {
                self.modern.insert(group.clone());
                if [from, to].contains(&&ConsumerGroupState::Empty) {
                    self.begin_anew(group);
                }
            }
            Event::Group(GroupEvent::GroupStateChanged { group, from, to, .. })
                if [from, to].contains(&&GroupState::Empty) =>
            {
                self.begin_anew(group);
            }
            Event::Group(GroupEvent::MemberRemoved { client, .. }) => {
                if let Some(owner) = self.owners.get_mut(client) {
                    owner.is_removed = true;
                }
            }
            // By its id it is another topic when it is made anew, and nobody's.
            Event::TopicDeleted { topic, .. } => {
                self.holders.retain(|(_, tp), _| tp.topic != *topic);
                for owner in self.owners.values_mut() {
                    owner.deleted.insert(topic.clone());
                    owner.partitions.retain(|tp| !owner.is_modern || tp.topic != *topic);
                }
            }
            Event::CommitConfirmed { client, offsets, generation, latency_ms, .. } => {
                let Some(consumer) = world.consumer(client) else { return Ok(()) };
                let (group, sent_at) = (&consumer.spec().group, at.plus_ms(-latency_ms));
                if !is_kept(group) {
                    return Ok(());
                }
                // One of no member is accepted while nobody is in the group.
                if *generation == Generation::NONE {
                    return Ok(());
                }
                counts.owned_commits_checked += 1;
                self.check_holder(client, group, offsets, sent_at)?;
                if !self.modern.contains(group) {
                    counts.commits_checked += 1;
                    return self.check_commit(client, group, *generation, sent_at);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A plan gives each partition to one member. Twins have the same place in it until the first hears that it is fenced.
    fn check_owner(&self, world: &World, client: &ClientName) -> Verdict {
        let Some(owner) = self.owners.get(client) else { return Ok(()) };
        let id = |client: &ClientName| world.consumer(client)?.spec().config.get(INSTANCE_ID);
        for (other, has) in &self.owners {
            // With the newer protocol, whatever the epochs: a partition is free when its owner said so, or was removed.
            let awaited = owner.is_modern && has.is_modern && !has.is_removed;
            let is_held_to = other != client
                && has.group == owner.group
                && (has.generation == owner.generation || awaited);
            let is_twin = id(client).is_some() && id(client) == id(other);
            if let Some(tp) = has.partitions.intersection(&owner.partitions).next()
                && is_held_to
                && !is_twin
            {
                let (group, generation) = (&owner.group, owner.generation);
                let fault = format!("{client} and {other} own {tp} in generation {generation} of {group}");
                return Err(Check::OneOwner.broken(fault));
            }
        }
        Ok(())
    }

    /// R-ASG-8: a cooperative member that takes part in a generation keeps what it owns, or has yet to give it up.
    fn check_plan(
        &self,
        world: &World,
        group: &GroupId,
        generation: Generation,
        plan: &[(ClientName, Vec<TopicPartition>)],
    ) -> Verdict {
        for (keeper, has) in self.owners.iter().filter(|(_, owner)| owner.group == *group) {
            let takes_part = plan.iter().any(|(client, _)| client == keeper)
                && world.consumer(keeper).is_some_and(|consumer| takes_part(consumer, generation));
            if !takes_part {
                continue;
            }
            for (client, given) in plan.iter().filter(|(client, _)| client != keeper) {
                if let Some(tp) = given.iter().find(|tp| has.partitions.contains(tp)) {
                    let fault = format!(
                        "generation {generation} of {group} gives {tp} to {client}, and {keeper} has not given it up"
                    );
                    return Err(Check::Handover.broken(fault));
                }
            }
        }
        Ok(())
    }

    /// An empty group may change its protocol, and then counts its generations from the start.
    fn begin_anew(&mut self, group: &GroupId) {
        self.holders.retain(|(of, _), _| of != group);
    }

    /// What a member hears late, of a generation before the holder's, gives it nothing.
    fn note_holder(
        &mut self,
        client: &ClientName,
        group: &GroupId,
        generation: Generation,
        added: &[TopicPartition],
        since: Time,
    ) {
        for tp in added {
            let key = (group.clone(), tp.clone());
            if self.holders.get(&key).is_none_or(|holder| holder.generation <= generation) {
                self.holders.insert(key, Holder { client: client.clone(), generation, since });
            }
        }
    }

    /// R-CG8-19, R-GRP-36: somebody else had been given the partition when the commit was sent. What the member has of a
    /// topic that was deleted it may commit by the name of the new one, in its epoch, as long as it has not heard of that.
    fn check_holder(
        &self,
        client: &ClientName,
        group: &GroupId,
        offsets: &[(TopicPartition, Offset)],
        sent_at: Time,
    ) -> Verdict {
        let owns = |tp: &TopicPartition| {
            let owner = self.owners.get(client);
            owner.is_some_and(|owner| owner.partitions.contains(tp) && !owner.deleted.contains(&tp.topic))
        };
        for (tp, offset) in offsets.iter().filter(|(tp, _)| owns(tp)) {
            let holder = self.holders.get(&(group.clone(), tp.clone()));
            if let Some(holder) = holder.filter(|holder| holder.client != *client && holder.since < sent_at) {
                let fault = format!(
                    "{client} committed {offset} of {tp} for {group}, sent at {sent_at}; {} was given it at {}",
                    holder.client, holder.since
                );
                return Err(Check::CommitOwner.broken(fault));
            }
        }
        Ok(())
    }

    /// Somebody had been given a later generation when the commit was sent: the coordinator knew that this one was over.
    fn check_commit(
        &self,
        client: &ClientName,
        group: &GroupId,
        generation: Generation,
        sent_at: Time,
    ) -> Verdict {
        let later =
            self.generations.get(group).and_then(|all| all.range(Generation(generation.0 + 1)..).next());
        match later {
            Some((later, begun_at)) if *begun_at < sent_at => {
                let fault = format!(
                    "a commit of {client} in generation {generation} of {group} was accepted, sent at {sent_at}; {later} \
                     was given out at {begun_at}"
                );
                Err(Check::CommitGeneration.broken(fault))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a cooperative member has joined for a generation and said what it owns. A static one may take part without.
fn takes_part(consumer: &Consumer, generation: Generation) -> bool {
    let (membership, config) = (consumer.membership(), consumer.config());
    let is_joining = config.group_instance_id.is_none() && matches!(membership.join, Join::Joining { .. });
    config.strategy.protocol() == RebalanceProtocol::Cooperative
        && (is_joining || membership.identity.generation == generation)
}
