//! What a group waits for, as its coordinator has it.

use super::super::cause::cluster::process_of;
use super::super::cause::group::busy;
use super::super::past::Past;
use super::{Unmet, left};
use crate::client::program::Activity;
use crate::kafka::event::{ConsumerGroupState, Event, GroupEvent, GroupState};
use crate::kafka::group::modern::consumer::ConsumerGroup;
use crate::kafka::group::modern::share::ShareGroup;
use crate::kafka::group::{ClassicGroup, Member};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, NodeId};
use crate::lab::words::list;
use crate::sim::World;

/// A group, or what is wrong with its name.
pub fn unmet(past: &Past, group: &GroupId) -> Result<Option<Unmet>, String> {
    let world = past.world();
    if let Some(classic) = classic(world, group) {
        return Ok(of_classic(past, classic));
    }
    if let Some(modern) = modern(world, group) {
        return Ok(of_modern(past, modern));
    }
    let share =
        brokers(world).flat_map(|broker| broker.groups().share_groups()).find(|of| of.base.id == *group);
    if let Some(share) = share {
        return Ok(of_share(past, share));
    }
    let members = members(world, group);
    if members.is_empty() {
        return Err(format!("there is no group {group}"));
    }
    let lost = past.newest(|event| matches!(event, Event::CoordinatorLost { group: of, .. } if of == group));
    let what = format!("has no coordinator that answers: {} ask for one", list(&members));
    Ok(Some(Unmet::new(what).since(lost)))
}

fn brokers(world: &World) -> impl Iterator<Item = &crate::kafka::broker::Broker> {
    world.processes().filter_map(|(node, process)| match node {
        NodeId::Broker(id) if process.is_running() => world.broker(id),
        _ => None,
    })
}

pub fn classic<'a>(world: &'a World, group: &GroupId) -> Option<&'a ClassicGroup> {
    brokers(world).find_map(|broker| broker.groups().group(group)).map(|group| &**group)
}

pub fn modern<'a>(world: &'a World, group: &GroupId) -> Option<&'a ConsumerGroup> {
    brokers(world).find_map(|broker| broker.groups().consumer_group(group)).map(|group| &**group)
}

fn of_share(past: &Past, group: &ShareGroup) -> Option<Unmet> {
    if group.base.members.is_empty() {
        return Some(empty(past, &group.base.id));
    }
    let gone = group.base.members.values().find(|member| !runs(past.world(), &member.client))?;
    Some(silent(past, &gone.client, group.sessions.get(&gone.id).copied()))
}

/// A member that does not run, and that the group counts on until then.
fn silent(past: &Past, client: &ClientName, expires_at: Option<Time>) -> Unmet {
    let left = expires_at.map(|at| left(past.present().now(), at)).unwrap_or_default();
    let what = format!("counts on {client}, which is silent, until its session is over{left}");
    Unmet::new(what).since(process_of(past, past.end(), client))
}

/// Clients that say that they are of it.
fn members(world: &World, group: &GroupId) -> Vec<ClientName> {
    let names = world.processes().filter(|(_, process)| !process.is_dead()).map(|(_, process)| &process.name);
    let of =
        |name: &&ClientName| world.consumer(name).is_some_and(|consumer| consumer.spec().group == *group);
    names.filter(of).cloned().collect()
}

fn empty(past: &Past, group: &GroupId) -> Unmet {
    let left = past.newest(
        |event| matches!(event, Event::Group(GroupEvent::MemberRemoved { group: of, .. }) if of == group),
    );
    Unmet::new("has no members: nobody reads for it").since(left)
}

fn of_classic(past: &Past, group: &ClassicGroup) -> Option<Unmet> {
    let now = past.present().now();
    let left = |deadline| match deadline {
        Some(at) => left(now, at),
        None => String::new(),
    };
    match group.state {
        GroupState::Empty | GroupState::Dead => Some(empty(past, &group.id)),
        GroupState::PreparingRebalance if group.initial_delay.is_some() => Some(
            Unmet::new(format!(
                "waits for further members, as group.initial.rebalance.delay.ms says{}",
                left(group.join_deadline)
            ))
            .since(rebalance(past, &group.id)),
        ),
        GroupState::PreparingRebalance => {
            let missing = names(group, |member| !member.awaits_join());
            Some(
                Unmet::new(format!(
                    "waits for JoinGroup of {}{} of the rebalance timeout",
                    list(&missing),
                    left(group.join_deadline)
                ))
                .since(stopped(past, &missing).or_else(|| rebalance(past, &group.id))),
            )
        }
        GroupState::CompletingRebalance => {
            let leader = group.leader.as_ref().and_then(|leader| group.members.get(leader));
            let leader: Vec<ClientName> = leader.map(|leader| leader.client.clone()).into_iter().collect();
            Some(
                Unmet::new(format!("waits for the plan of {}{}", list(&leader), left(group.sync_deadline)))
                    .since(stopped(past, &leader).or_else(|| rebalance(past, &group.id))),
            )
        }
        GroupState::Stable => missed(past, group),
    }
}

fn names(group: &ClassicGroup, missing: impl Fn(&Member) -> bool) -> Vec<ClientName> {
    group.members.values().filter(|member| missing(member)).map(|member| member.client.clone()).collect()
}

fn rebalance(past: &Past, group: &GroupId) -> Option<u64> {
    past.newest(|event| match event {
        Event::Group(GroupEvent::RebalanceStarted { group: of, .. }) => of == group,
        Event::Group(GroupEvent::MemberAdded { group: of, .. }) => of == group,
        _ => false,
    })
}

/// Why the first of these clients that does not run does not, or else why one does not come to its next poll().
fn stopped(past: &Past, clients: &[ClientName]) -> Option<u64> {
    let world = past.world();
    if let Some(stopped) = clients.iter().find(|client| !runs(world, client)) {
        return process_of(past, past.end(), stopped);
    }
    let is_busy = |client: &&ClientName| {
        let activity = world.consumer(client).map(|consumer| consumer.program().activity());
        matches!(activity, Some(Activity::Hanging { .. } | Activity::Processing { .. }))
    };
    busy(past, past.end(), clients.iter().find(is_busy)?)
}

fn runs(world: &World, client: &ClientName) -> bool {
    world.node_of(client).and_then(|node| world.process(node)).is_some_and(|process| process.is_running())
}

/// A member that is gone, and that the group still counts on.
fn missed(past: &Past, group: &ClassicGroup) -> Option<Unmet> {
    let now = past.present().now();
    let mut gone = group.members.values().filter(|member| !runs(past.world(), &member.client));
    let member = gone.next()?;
    let what = format!(
        "counts on {}, which is silent, until session.timeout.ms is over{}",
        member.client,
        left(now, member.expires_at)
    );
    Some(Unmet::new(what).since(process_of(past, past.end(), &member.client)))
}

fn of_modern(past: &Past, group: &ConsumerGroup) -> Option<Unmet> {
    let now = past.present().now();
    if group.base.members.is_empty() {
        return Some(empty(past, &group.base.id));
    }
    let behind = group.base.members.values().find(|member| !member.pending_revocation.is_empty());
    if let Some(member) = behind {
        let deadline = group.deadlines.get(&member.id).and_then(|deadlines| deadlines.rebalance);
        let left = deadline.map(|(at, _)| left(now, at)).unwrap_or_default();
        let what = format!("waits for {} to give up what others are to have{left}", member.client);
        let asked = past.newest(|event| {
            matches!(event, Event::Group(GroupEvent::RevocationAsked { client, .. }) if *client == member.client)
        });
        return Some(Unmet::new(what).since(stopped(past, std::slice::from_ref(&member.client)).or(asked)));
    }
    if let Some(gone) = group.base.members.values().find(|member| !runs(past.world(), &member.client)) {
        let expires_at = group.deadlines.get(&gone.id).and_then(|deadlines| deadlines.session);
        return Some(silent(past, &gone.client, expires_at));
    }
    if group.state() != ConsumerGroupState::Assigning {
        return None;
    }
    let changed = past.newest(|event| {
        matches!(event, Event::Group(GroupEvent::ConsumerGroupStateChanged { group: of, .. }) if *of == group.base.id)
    });
    let what = format!(
        "is in epoch {} and has a plan for epoch {} only: it makes the next one when a member's heartbeat comes",
        group.base.epoch, group.base.target.epoch
    );
    Some(Unmet::new(what).since(changed))
}
