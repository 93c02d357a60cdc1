//! How servers, clients, groups and partitions stand, and which event made them so.

use super::super::cause::cluster::{is_controller, process_of, silenced};
use super::super::past::Past;
use super::Explanation;
use super::registration;
use crate::kafka::event::{Event, GroupEvent, ShareEvent};
use crate::kafka::types::{BrokerId, ClientName, GroupId, NodeId, Offset, TopicPartition};
use crate::lab::words::{count, duration, list};
use crate::sim::Process;

/// A line of the narrative by its number.
pub fn event(past: &Past, number: u64) -> Result<Explanation, String> {
    let narrative = past.present().narrative();
    let found = narrative.iter().find(|(other, _)| *other == number).map(|(_, sentence)| sentence);
    let Some(sentence) = found else {
        let oldest = narrative.iter().next().map_or(0, |(oldest, _)| oldest);
        return Err(format!(
            "the narrative has no line {number}: it has the lines {oldest} to {}",
            narrative.len_ever()
        ));
    };
    let mut title = format!("{}.", sentence.title.trim_end_matches('.'));
    if !sentence.detail.is_empty() {
        title += &format!(" {}", sentence.detail);
    }
    Ok(Explanation::of(past, title, Some(sentence.event)))
}

pub fn leader(past: &Past, tp: &TopicPartition) -> Result<Explanation, String> {
    let registration = registration(past, tp)?;
    let title = match registration.leader.is_some() {
        true => {
            format!("{tp}: broker {} leads it, in epoch {}.", registration.leader, registration.leader_epoch)
        }
        false => format!("{tp}: nobody leads it; in-sync {}.", list(&registration.isr)),
    };
    let elected = past.newest(|event| match event {
        Event::LeaderElected { tp: of, from, to, .. } => of == tp && from != to,
        Event::TopicCreated { topic, .. } | Event::PartitionsAdded { topic, .. } => *topic == tp.topic,
        _ => false,
    });
    Ok(Explanation::of(past, title, elected))
}

pub fn log_start(past: &Past, tp: &TopicPartition) -> Result<Explanation, String> {
    let registration = registration(past, tp)?;
    let partition =
        past.world().broker(registration.leader).and_then(|broker| broker.replicas().partition(tp));
    let start = partition.map_or(Offset(0), |partition| partition.log.log_start_offset());
    let title = match start.0 {
        0 => format!("{tp}: the log begins at offset 0; nothing was removed."),
        _ => format!("{tp}: the log begins at offset {start}; what was before it is gone."),
    };
    let moved =
        past.newest(|event| matches!(event, Event::LogStartMoved { tp: of, leader: true, .. } if of == tp));
    Ok(Explanation::of(past, title, moved))
}

/// The newest event by which a group committed in a partition.
fn last_commit(past: &Past, group: &GroupId, tp: &TopicPartition) -> Option<u64> {
    past.newest(|event| match event {
        Event::Group(
            GroupEvent::OffsetCommitted { group: of, tp: on, .. }
            | GroupEvent::OffsetDeleted { group: of, tp: on, .. }
            | GroupEvent::OffsetExpired { group: of, tp: on }
            | GroupEvent::OffsetDropped { group: of, tp: on },
        ) => of == group && on == tp,
        Event::Share(ShareEvent::StartMoved { group: of, tp: on, .. }) => of == group && on == tp,
        _ => false,
    })
}

fn committed_offset(past: &Past, commit: Option<u64>) -> Option<Offset> {
    match &past.get(commit?)?.event {
        Event::Group(GroupEvent::OffsetCommitted { offset, .. }) => Some(*offset),
        Event::Share(ShareEvent::StartMoved { to, .. }) => Some(*to),
        _ => None,
    }
}

pub fn committed(past: &Past, group: &GroupId, tp: &TopicPartition) -> Result<Explanation, String> {
    registration(past, tp)?;
    let commit = last_commit(past, group, tp);
    let title = match committed_offset(past, commit) {
        Some(offset) => format!("{group} has committed offset {offset} of {tp}."),
        None => format!("{group} has committed nothing of {tp}."),
    };
    Ok(Explanation::of(past, title, commit))
}

/// A group is behind since nobody reads, or since who reads is slower than who writes.
pub fn lag(past: &Past, group: &GroupId, tp: &TopicPartition) -> Result<Explanation, String> {
    let registration = registration(past, tp)?;
    let partition =
        past.world().broker(registration.leader).and_then(|broker| broker.replicas().partition(tp));
    let end = partition.map_or(Offset(0), |partition| partition.log.high_watermark());
    let committed = committed_offset(past, last_commit(past, group, tp)).unwrap_or(Offset(0));
    let lag = count((end.0 - committed.0).max(0), "record");
    let owner = past.world().processes().find_map(|(_, process)| {
        let consumer = past.world().consumer(&process.name).filter(|_| !process.is_dead())?;
        let owns = consumer.spec().group == *group && consumer.subscription().owned().contains_key(tp);
        owns.then(|| process.name.clone())
    });
    let (what, event) = match &owner {
        Some(owner) => {
            let what = format!("{owner} reads it, and has not committed what it does not have done");
            let slowed = super::super::cause::group::busy(past, past.end(), owner);
            (what, process_stopped(past, owner).or(slowed))
        }
        None => ("nobody of the group reads it".to_owned(), given_up(past, group, tp)),
    };
    let title =
        format!("{group} is {lag} behind in {tp}: committed {committed}, high watermark {end}; {what}.");
    Ok(Explanation::of(past, title, event))
}

/// That the process of a client stands still, if it does.
fn process_stopped(past: &Past, client: &ClientName) -> Option<u64> {
    let node = past.world().node_of(client)?;
    let process = past.world().process(node)?;
    (!process.is_running()).then(|| process_of(past, past.end(), client)).flatten()
}

/// The event after which nobody of a group owned a partition.
fn given_up(past: &Past, group: &GroupId, tp: &TopicPartition) -> Option<u64> {
    past.newest(|event| match event {
        Event::PartitionsRevoked { group: of, partitions, .. } => of == group && partitions.contains(tp),
        Event::Group(GroupEvent::MemberRemoved { group: of, .. }) => of == group,
        Event::Process { name, .. } => {
            past.world().consumer(name).is_none_or(|consumer| consumer.spec().group == *group)
                && matches!(past.world().node_of(name), Some(NodeId::Client(_)))
        }
        _ => false,
    })
}

/// `, and fence it after broker.session.timeout.ms, at most 7 s left`, of a broker that sends no heartbeats.
fn until_fenced(past: &Past, broker: BrokerId, process: &Process) -> String {
    let silent = silenced(past, past.end(), broker.into(), is_controller);
    let Some(since) = silent.and_then(|number| past.get(number)).map(|happened| happened.time) else {
        return String::new();
    };
    let since = if process.is_running() { since } else { process.since };
    let left_ms = past.world().broker_config().session_timeout_ms - past.present().now().ms_since(since);
    let left = duration(left_ms.max(0));
    format!(", and fence it after broker.session.timeout.ms without a heartbeat, at most {left} left")
}

/// A broker or controller.
pub fn server(past: &Past, node: NodeId) -> Result<Explanation, String> {
    let process = past.world().process(node).ok_or_else(|| format!("there is no {node}"))?;
    let state = match (process.is_dead(), process.is_frozen()) {
        (true, _) => "is dead",
        (_, true) => "stands still",
        _ => "runs",
    };
    let service = match node {
        NodeId::Broker(id) => match past.world().newest_image().is_some_and(|image| image.is_active(id)) {
            true => format!("; the controllers count it as in service{}", until_fenced(past, id, process)),
            false => "; the controllers have it fenced".to_owned(),
        },
        _ => String::new(),
    };
    let title = format!("{node} {state} since {}{service}.", process.since);
    let changed = past.newest(|event| match event {
        Event::Process { node: of, .. } => *of == node,
        Event::BrokerFenced { broker, .. } | Event::BrokerUnfenced { broker } => {
            node == NodeId::Broker(*broker)
        }
        Event::ShutdownBegun { broker } | Event::ShutdownGranted { broker } => {
            node == NodeId::Broker(*broker)
        }
        Event::QuorumLeaderElected { controller, .. } => node == NodeId::Controller(*controller),
        Event::QuorumLeaderResigned { controller, .. } => node == NodeId::Controller(*controller),
        _ => false,
    });
    let silent = match node {
        NodeId::Broker(_) => silenced(past, past.end(), node, is_controller),
        _ => None,
    };
    Ok(Explanation::of(past, title, changed.max(silent)))
}

pub fn client(past: &Past, client: &ClientName) -> Result<Explanation, String> {
    let node = past.world().node_of(client).ok_or_else(|| format!("there is no client {client}"))?;
    let process = past.world().process(node).ok_or_else(|| format!("there is no client {client}"))?;
    let state = match (process.is_dead(), process.is_frozen()) {
        (true, _) => "has ended",
        (_, true) => "stands still",
        _ => "runs",
    };
    let changed = past.newest(|event| match event {
        Event::Process { name, .. } => name == client,
        Event::ClientFailed { client: of, .. }
        | Event::ProducerPaused { client: of }
        | Event::ProducerResumed { client: of }
        | Event::SubscriptionChanged { client: of, .. } => of == client,
        Event::Application(application) => halted(application, client),
        _ => false,
    });
    let title = format!("{client} {state} since {}.", process.since);
    Ok(Explanation::of(past, title, changed))
}

fn halted(event: &crate::kafka::event::ApplicationEvent, name: &ClientName) -> bool {
    use crate::kafka::event::ApplicationEvent;
    match event {
        ApplicationEvent::Halted { client, .. } | ApplicationEvent::Woken { client } => client == name,
        _ => false,
    }
}

pub fn group(past: &Past, group: &GroupId) -> Result<Explanation, String> {
    let changed = past.newest(|event| match event {
        Event::Group(
            GroupEvent::GroupStateChanged { group: of, .. }
            | GroupEvent::ConsumerGroupStateChanged { group: of, .. }
            | GroupEvent::RebalanceStarted { group: of, .. }
            | GroupEvent::AssignmentStored { group: of, .. }
            | GroupEvent::TargetAssigned { group: of, .. }
            | GroupEvent::MemberReconciled { group: of, .. },
        ) => of == group,
        Event::Share(ShareEvent::Joins { group: of, .. } | ShareEvent::Left { group: of, .. }) => of == group,
        _ => false,
    });
    let Some(changed) = changed else { return Err(format!("there is no group {group}")) };
    let coordinator =
        past.newest(|event| matches!(event, Event::CoordinatorFound { group: of, .. } if of == group));
    let broker = match coordinator.and_then(|number| past.get(number)).map(|happened| &happened.event) {
        Some(Event::CoordinatorFound { broker, .. }) => *broker,
        _ => BrokerId::NONE,
    };
    let title = match broker.is_some() {
        true => format!("Broker {broker} coordinates {group}; this is what last changed it."),
        false => format!("Nobody is known to coordinate {group}; this is what last changed it."),
    };
    Ok(Explanation::of(past, title, Some(changed)))
}
