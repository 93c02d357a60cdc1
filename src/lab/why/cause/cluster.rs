//! Processes, links, the quorum, and which brokers are in service.

use std::collections::BTreeSet;

use super::command;
use crate::client::program::Order;
use crate::kafka::event::{Act, ApplicationEvent, Event};
use crate::kafka::replication::is_internal;
use crate::kafka::types::{BrokerId, ClientName, NodeId};
use crate::lab::why::past::Past;
use crate::sim::{ADMIN, Command};

pub fn of(past: &Past, number: u64, event: &Event) -> Option<u64> {
    match event {
        Event::Process { node, name, act } => of_process(past, number, (*node, name), act),
        Event::Application(ApplicationEvent::Halted { client, .. }) => {
            command(past, number, |command| match command {
                Command::Program { client: other, order: Order::Stop(_) } => other == client,
                _ => false,
            })
        }
        Event::Application(ApplicationEvent::ProgramChanged { client, .. }) => {
            command(past, number, |command| match command {
                Command::Program { client: other, order: Order::Exchange(_) } => other == client,
                _ => false,
            })
        }
        Event::Application(ApplicationEvent::LookedUp { client, .. }) => command(
            past,
            number,
            |command| matches!(command, Command::Ask { client: of, .. } if of == client),
        ),
        Event::BrokerFenced { broker, .. } => {
            let node = NodeId::Broker(*broker);
            silenced(past, number, node, is_controller).or_else(|| {
                past.last(number, |event| matches!(event, Event::QuorumLeaderElected { voters: 2.., .. }))
            })
        }
        Event::BrokerRegistered { broker, .. } => started(past, number, (*broker).into()),
        Event::BrokerUnfenced { broker } => revived(past, number, (*broker).into()),
        Event::ShutdownGranted { broker } => past
            .last(number, |event| matches!(event, Event::ShutdownBegun { broker: other } if other == broker)),
        Event::ShutdownBegun { broker } => {
            command(past, number, |command| matches!(command, Command::Stop(other) if other == broker))
        }
        Event::QuorumCandidate { .. } => quorum_broke(past, number),
        Event::QuorumLeaderResigned { silent_ms: Some(_), .. } => quorum_broke(past, number),
        Event::QuorumLeaderElected { controller, epoch, .. } => past.last(number, |event| {
            matches!(event, Event::QuorumCandidate { controller: other, epoch: of }
                if other == controller && of == epoch)
        }),
        Event::QuorumVoted { candidate, epoch, .. } => past.last(number, |event| {
            matches!(event, Event::QuorumCandidate { controller, epoch: of }
                if controller == candidate && of == epoch)
        }),
        Event::MetadataTruncated { .. } => {
            past.last(number, |event| matches!(event, Event::QuorumLeaderElected { .. }))
        }
        // Kafka's own topics come up when the first client needs them.
        Event::TopicCreated { topic, .. } if is_internal(topic.as_str()) => {
            past.last(number, |event| match event {
                Event::Process { node: NodeId::Client(_), name, act: Act::Started } => name.as_str() != ADMIN,
                _ => false,
            })
        }
        Event::MetadataLogCleaned { node, .. } => past.last(number, |event| match event {
            Event::SnapshotWritten { node: of, .. } | Event::SnapshotFetched { node: of, .. } => of == node,
            _ => false,
        }),
        Event::LogsRecovered { broker, .. } => started(past, number, (*broker).into()),
        _ => None,
    }
}

fn of_process(past: &Past, number: u64, who: (NodeId, &ClientName), act: &Act) -> Option<u64> {
    let (node, name) = who;
    match (act, node) {
        // At a line of its program, as somebody had it do.
        (Act::Killed | Act::Frozen, NodeId::Client(_)) => past.beside(number).into_iter().rev().find(|beside| {
            let halted = past.get(*beside).map(|happened| &happened.event);
            matches!(halted, Some(Event::Application(ApplicationEvent::Halted { client, .. })) if client == name)
        }),
        (Act::Ended, NodeId::Broker(broker)) => past.last(
            number,
            |event| matches!(event, Event::ShutdownGranted { broker: other } if *other == broker),
        ),
        (Act::Ended, NodeId::Client(_)) => {
            let ends = |event: &Event| match event {
                Event::ClientFailed { client, .. }
                | Event::NoOffsetForPartitions { client, .. }
                | Event::RecordUnreadable { client, .. } => client == name,
                _ => false,
            };
            let failed = past.last(number, ends);
            failed.or_else(|| closed(past, number, name))
        }
        _ => None,
    }
}

/// The command that had a client close.
pub fn closed(past: &Past, number: u64, name: &ClientName) -> Option<u64> {
    command(past, number, |command| match command {
        Command::Close(client) | Command::CloseWith { client, .. } => client == name,
        _ => false,
    })
}

pub fn is_controller(node: NodeId) -> bool {
    matches!(node, NodeId::Controller(_))
}

/// What keeps a node from being heard by some others, and lasts until that event: the end or freeze of its process, or a cut
/// or slow link.
pub fn silenced(past: &Past, number: u64, node: NodeId, by: impl Fn(NodeId) -> bool) -> Option<u64> {
    let mut mended: BTreeSet<(NodeId, NodeId)> = BTreeSet::new();
    let between = |a: NodeId, b: NodeId| (a == node && by(b)) || (b == node && by(a));
    for (number, happened) in past.before(number) {
        match &happened.event {
            Event::Process { node: other, act, .. } if *other == node => match act {
                Act::Started | Act::Thawed => return None,
                _ => return Some(number),
            },
            Event::LinkHealed { a, b } | Event::LinkSlowed { a, b, by_us: 0 } => {
                mended.insert((*a.min(b), *a.max(b)));
            }
            Event::LinkCut { a, b } | Event::LinkSlowed { a, b, .. }
                if between(*a, *b) && !mended.contains(&(*a.min(b), *a.max(b))) =>
            {
                return Some(number);
            }
            _ => {}
        }
    }
    None
}

/// As [`silenced`], even if that is over already.
pub fn was_silenced(past: &Past, number: u64, node: NodeId) -> Option<u64> {
    past.last(number, |event| match event {
        Event::Process { node: other, act, .. } => {
            *other == node && !matches!(act, Act::Started | Act::Thawed)
        }
        Event::LinkCut { a, b } | Event::LinkSlowed { a, b, by_us: 1.. } => *a == node || *b == node,
        _ => false,
    })
}

/// What let a node be heard again, or at all.
pub fn revived(past: &Past, number: u64, node: NodeId) -> Option<u64> {
    past.last(number, |event| match event {
        Event::Process { node: other, act: Act::Started | Act::Thawed, .. } => *other == node,
        Event::LinkHealed { a, b } | Event::LinkSlowed { a, b, by_us: 0 } => *a == node || *b == node,
        _ => false,
    })
}

pub fn started(past: &Past, number: u64, node: NodeId) -> Option<u64> {
    past.last(
        number,
        |event| matches!(event, Event::Process { node: other, act: Act::Started, .. } if *other == node),
    )
}

/// How the process of a client last changed.
pub fn process_of(past: &Past, number: u64, client: &ClientName) -> Option<u64> {
    past.last(number, |event| matches!(event, Event::Process { name, .. } if name == client))
}

pub fn fenced(past: &Past, number: u64, broker: BrokerId) -> Option<u64> {
    past.last(number, |event| match event {
        Event::BrokerFenced { broker: other, .. } | Event::ShutdownBegun { broker: other } => {
            *other == broker
        }
        _ => false,
    })
}

/// What took the active controller away from the others.
fn quorum_broke(past: &Past, number: u64) -> Option<u64> {
    past.last(number, |event| match event {
        Event::Process { node, act, .. } => {
            is_controller(*node) && !matches!(act, Act::Started | Act::Thawed)
        }
        Event::LinkCut { a, b } => is_controller(*a) || is_controller(*b),
        Event::LinkSlowed { a, b, by_us: 1.. } => is_controller(*a) || is_controller(*b),
        Event::QuorumLeaderResigned { .. } => true,
        _ => false,
    })
}
