//! Coordinators and members of groups.

use super::cluster::{process_of, silenced};
use super::command;
use super::partition::last_elected;
use crate::client::program::Order;
use crate::kafka::event::{
    Act, ApplicationEvent, Event, GroupEvent, MemberRemoval, RebalanceReason, RevokeReason,
};
use crate::kafka::types::{BrokerId, ClientName, GroupId, NodeId, Topic, TopicPartition};
use crate::lab::why::past::Past;
use crate::sim::Command;

const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// What happens at a coordinator.
pub fn of_coordinator(past: &Past, number: u64, event: &GroupEvent) -> Option<u64> {
    match event {
        GroupEvent::CoordinatorElected { partition, .. }
        | GroupEvent::CoordinatorResigned { partition, .. }
        | GroupEvent::CoordinatorLoaded { partition, .. } => {
            let tp = TopicPartition::new(&Topic::new(OFFSETS_TOPIC), *partition);
            last_elected(past, number, &tp)
        }
        GroupEvent::MemberAdded { client, .. } => joined(past, number, client),
        GroupEvent::MemberRemoved { group, client, reason, .. }
        | GroupEvent::MemberKept { group, client, reason, .. } => {
            removed(past, number, group, client, *reason)
        }
        GroupEvent::RebalanceStarted { group, reason, client, .. } => match reason {
            RebalanceReason::MemberRemoved(_) => past.last(number, |event| {
                matches!(event, Event::Group(GroupEvent::MemberRemoved { group: of, client: gone, .. })
                    if of == group && gone == client)
            }),
            RebalanceReason::MemberJoined | RebalanceReason::MemberRejoined => joined(past, number, client),
            _ => None,
        },
        GroupEvent::JoinExtended { group, .. } => last_member(past, number, group),
        GroupEvent::AssignmentStored { group, .. } => {
            let started = past.last(number, |event| {
                matches!(event, Event::Group(GroupEvent::RebalanceStarted { group: of, .. }) if of == group)
            });
            started.or_else(|| last_member(past, number, group))
        }
        GroupEvent::GroupStateChanged { group, .. } => past.last(number, |event| match event {
            Event::Group(GroupEvent::RebalanceStarted { group: of, .. }) => of == group,
            event => is_membership(event, group),
        }),
        GroupEvent::ConsumerGroupStateChanged { group, .. } | GroupEvent::TargetAssigned { group, .. } => {
            last_member(past, number, group)
        }
        GroupEvent::RevocationAsked { group, .. } | GroupEvent::MemberReconciled { group, .. } => {
            past.last(number, |event| {
                matches!(event, Event::Group(GroupEvent::TargetAssigned { group: of, .. }) if of == group)
            })
        }
        GroupEvent::CommitRefused { group, .. } => past.last(number, |event| {
            is_membership(event, group)
                || matches!(event, Event::Group(GroupEvent::RebalanceStarted { group: of, .. }) if of == group)
        }),
        GroupEvent::OffsetExpired { group, .. } => past.last(number, |event| {
            matches!(event, Event::Group(GroupEvent::MemberRemoved { group: of, .. }) if of == group)
        }),
        GroupEvent::OffsetCommitted { client, tp, offset, .. } => past.last(number, |event| {
            matches!(event, Event::Processed { client: by, tp: of, offset: done }
                if by == client && of == tp && done < offset)
        }),
        GroupEvent::GroupConverted { .. }
        | GroupEvent::OffsetDeleted { .. }
        | GroupEvent::OffsetDropped { .. } => None,
    }
}

fn is_membership(event: &Event, group: &GroupId) -> bool {
    match event {
        Event::Group(
            GroupEvent::MemberAdded { group: of, .. } | GroupEvent::MemberRemoved { group: of, .. },
        ) => of == group,
        _ => false,
    }
}

/// Who came last, or went.
fn last_member(past: &Past, number: u64, group: &GroupId) -> Option<u64> {
    past.last(number, |event| is_membership(event, group))
}

/// What set a client's last join off: it starts, goes on, or wants to read something else.
pub fn joined(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    past.last(number, |event| match event {
        Event::SubscriptionChanged { client: of, to: Some(_) } => of == client,
        Event::Process { name, .. } => name == client,
        Event::Group(GroupEvent::MemberRemoved { client: of, .. }) => of == client,
        _ => false,
    })
}

fn removed(
    past: &Past,
    number: u64,
    group: &GroupId,
    client: &ClientName,
    reason: MemberRemoval,
) -> Option<u64> {
    let coordinator = coordinator(past, number, group);
    let heard_by = |node: NodeId| coordinator.is_none_or(|broker| node == NodeId::Broker(broker));
    let silent = || {
        let node = past.world().node_of(client)?;
        silenced(past, number, node, heard_by)
    };
    match reason {
        MemberRemoval::SessionExpired => silent(),
        MemberRemoval::DidNotRejoin | MemberRemoval::DidNotSync | MemberRemoval::DidNotRevoke => {
            silent().or_else(|| busy(past, number, client))
        }
        MemberRemoval::Left => left(past, number, client),
        MemberRemoval::GroupFull => past.last(number, |event| match event {
            Event::GroupConfigChanged { group: of, .. } => of == group,
            Event::BrokerConfigChanged { .. } => true,
            _ => false,
        }),
    }
}

/// The broker that was last found to coordinate a group.
fn coordinator(past: &Past, number: u64, group: &GroupId) -> Option<BrokerId> {
    let found =
        past.last(number, |event| matches!(event, Event::CoordinatorFound { group: of, .. } if of == group))?;
    match &past.get(found)?.event {
        Event::CoordinatorFound { broker, .. } => Some(*broker),
        _ => None,
    }
}

/// What keeps an application from its next poll(): it hangs, is slow, or has many records to do.
pub fn busy(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    let slowed = command(past, number, |command| match command {
        Command::Program { client: of, order: Order::Pace { .. } | Order::Exchange(_) | Order::Stop(_) } => {
            of == client
        }
        _ => false,
    });
    let stuck = past.last(number, |event| match event {
        Event::Application(ApplicationEvent::Halted { client: of, .. }) => of == client,
        _ => false,
    });
    stuck.max(slowed).or_else(|| polled(past, number, client))
}

fn polled(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    past.last(number, |event| matches!(event, Event::Polled { client: of, .. } if of == client))
}

/// It was closed, unsubscribed, ended by an error, or late for its next poll().
fn left(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    let told = past.last(number, |event| match event {
        Event::SubscriptionChanged { client: of, .. } | Event::ClientFailed { client: of, .. } => {
            of == client
        }
        Event::Process { name, .. } => name == client,
        Event::Application(ApplicationEvent::Halted { client: of, .. }) => of == client,
        _ => false,
    });
    let asked = command(past, number, |command| match command {
        Command::Close(of) | Command::CloseWith { client: of, .. } => of == client,
        Command::Ask { client: of, .. } => of == client,
        Command::Program { client: of, .. } => of == client,
        _ => false,
    });
    told.max(asked)
}

/// What happens to a member, in its own eyes.
pub fn of_member(past: &Past, number: u64, event: &Event) -> Option<u64> {
    match event {
        Event::JoinSent { client, group, .. } => {
            let rebalance = past.last(number, |event| {
                matches!(event, Event::Group(GroupEvent::RebalanceStarted { group: of, .. }) if of == group)
            });
            rebalance.max(joined(past, number, client))
        }
        Event::PartitionsAssigned { client, group, .. } => past.last(number, |event| match event {
            Event::Group(GroupEvent::AssignmentStored { group: of, .. }) => of == group,
            Event::Group(GroupEvent::MemberReconciled { group: of, client: who, .. }) => {
                of == group && who == client
            }
            _ => false,
        }),
        Event::PartitionsRevoked { client, group, reason, .. } => {
            revoked(past, number, client, group, *reason)
        }
        Event::CoordinatorLost { client, group, .. } => coordinator_lost(past, number, client, group),
        Event::CoordinatorFound { client, .. } => past.last(number, |event| match event {
            Event::CoordinatorLost { client: of, .. } => of == client,
            Event::Process { name, .. } => name == client,
            _ => false,
        }),
        Event::CommitFailed { client, .. } => past.last(number, |event| match event {
            Event::Group(GroupEvent::CommitRefused { client: of, .. }) => of == client,
            Event::Group(GroupEvent::MemberRemoved { client: of, .. }) => of == client,
            Event::PartitionsRevoked { client: of, .. } => of == client,
            _ => false,
        }),
        Event::SubscriptionChanged { client, .. }
        | Event::PartitionsPaused { client, .. }
        | Event::PartitionsResumed { client, .. } => asked(past, number, client),
        Event::CallRefused { client, .. } => {
            let unanswered = past.last(number, |event| match event {
                Event::RequestTimedOut { client: of, .. } | Event::ConnectionLost { client: of, .. } => {
                    of == client
                }
                _ => false,
            });
            unanswered.max(asked(past, number, client))
        }
        _ => None,
    }
}

/// The call that a person last had a consumer make.
fn asked(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    command(past, number, |command| matches!(command, Command::Ask { client: of, .. } if of == client))
}

/// It cannot be heard, or resigned, or a broker that is to copy what it writes cannot.
fn coordinator_lost(past: &Past, number: u64, client: &ClientName, group: &GroupId) -> Option<u64> {
    let broker = coordinator(past, number, group)?;
    let own = past.world().node_of(client);
    let resigned = past.last(number, |event| {
        matches!(event, Event::Group(GroupEvent::CoordinatorResigned { broker: of, .. }) if *of == broker)
    });
    let silent = silenced(past, number, broker.into(), |node| Some(node) == own);
    let another = past.last(number, |event| match event {
        Event::Process { node: NodeId::Broker(_), act, .. } => !matches!(act, Act::Started | Act::Thawed),
        Event::LinkCut { a: NodeId::Broker(_), b: NodeId::Broker(_) } => true,
        _ => false,
    });
    silent.or(resigned).max(another)
}

fn revoked(
    past: &Past,
    number: u64,
    client: &ClientName,
    group: &GroupId,
    reason: RevokeReason,
) -> Option<u64> {
    match reason {
        RevokeReason::Rebalance => past.last(number, |event| {
            matches!(event, Event::Group(GroupEvent::RebalanceStarted { group: of, .. }) if of == group)
        }),
        RevokeReason::Reassigned | RevokeReason::Reconciled => past.last(number, |event| match event {
            Event::Group(GroupEvent::AssignmentStored { group: of, .. }) => of == group,
            Event::Group(GroupEvent::RevocationAsked { group: of, client: who, .. }) => {
                of == group && who == client
            }
            _ => false,
        }),
        RevokeReason::Lost => past.last(number, |event| match event {
            Event::Group(GroupEvent::MemberRemoved { client: of, .. }) => of == client,
            _ => false,
        }),
        RevokeReason::Unsubscribed | RevokeReason::Closing => left(past, number, client),
    }
}

/// Which event made a group give a client what it has.
pub fn last_plan(past: &Past, number: u64, group: &GroupId) -> Option<u64> {
    past.last(number, |event| match event {
        Event::Group(
            GroupEvent::AssignmentStored { group: of, .. } | GroupEvent::TargetAssigned { group: of, .. },
        ) => of == group,
        _ => false,
    })
}

/// How a member became one.
pub fn added(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    let added = past.last(number, |event| match event {
        Event::Group(GroupEvent::MemberAdded { client: of, .. }) => of == client,
        _ => false,
    });
    added.or_else(|| process_of(past, number, client))
}
