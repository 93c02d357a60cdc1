//! Leaders, in-sync sets and logs.

use super::cluster::{fenced, is_controller, revived, silenced, started, was_silenced};
use super::command;
use crate::kafka::event::{Act, ChangeReason, Event, LogStartReason};
use crate::kafka::types::{BrokerId, NodeId, Offset, TopicPartition};
use crate::lab::why::past::Past;
use crate::sim::Command;

pub fn of(past: &Past, number: u64, event: &Event) -> Option<u64> {
    match event {
        Event::LeaderElected { tp, from, to, reason, .. } => elected(past, number, tp, (*from, *to), *reason),
        Event::IsrShrunk { tp, removed, reason, .. } => {
            let broker = *removed.first()?;
            match reason {
                ChangeReason::LeaderRequest => unheard(past, number, tp, broker),
                ChangeReason::UncleanShutdown => restarted(past, number, broker),
                ChangeReason::EarlierController => by_earlier_controller(past, number, broker),
                _ => fenced(past, number, broker),
            }
        }
        Event::IsrChangeProposed { broker, tp, out_of_sync, .. } => match out_of_sync.first() {
            Some(lagging) => {
                let silent = silenced(past, number, (*lagging).into(), |node| node == NodeId::Broker(*broker));
                silent.or_else(|| stood_still(past, number, *broker))
            }
            None => copied(past, number, tp),
        },
        Event::IsrExpanded { tp, added, .. } => {
            let moved = past.last(number, |event| match event {
                Event::ReplicasChanged { tp: other, adding, .. } => {
                    other == tp && added.iter().any(|broker| adding.contains(broker))
                }
                _ => false,
            });
            moved.max(revived(past, number, (*added.first()?).into()))
        }
        Event::ElrChanged { tp, .. } => past.last(number, |event| match event {
            Event::IsrShrunk { tp: other, .. }
            | Event::IsrExpanded { tp: other, .. }
            | Event::LeaderElected { tp: other, .. } => other == tp,
            Event::ConfigChanged { topic, .. } => *topic == tp.topic,
            Event::BrokerConfigChanged { .. } => true,
            _ => false,
        }),
        // The leader did not know yet what had changed.
        Event::IsrChangeRefused { tp, .. } => past.last(number, |event| match event {
            Event::IsrShrunk { tp: other, .. }
            | Event::IsrExpanded { tp: other, .. }
            | Event::ReplicasChanged { tp: other, .. }
            | Event::LeaderElected { tp: other, .. } => other == tp,
            _ => false,
        }),
        Event::ReplicasChanged { tp, adding, removing, .. } => {
            let under_way = !adding.is_empty() || !removing.is_empty();
            let begun = || {
                past.last(
                    number,
                    |event| matches!(event, Event::ReplicasChanged { tp: other, .. } if other == tp),
                )
            };
            let asked = command(past, number, |command| match command {
                Command::Reassign { partition, .. } | Command::CancelReassignment(partition) => partition == tp,
                _ => false,
            });
            if under_way { asked } else { begun().max(asked) }
        }
        Event::BecameLeader { tp, .. } | Event::BecameFollower { tp, .. } => last_elected(past, number, tp),
        Event::Truncated { broker, tp, .. } => {
            let elected = last_elected(past, number, tp);
            let is_unclean = |elected: &u64| {
                past.get(*elected)
                    .is_some_and(|of| matches!(of.event, Event::LeaderElected { unclean: true, .. }))
            };
            elected.filter(is_unclean).or_else(|| elected.max(started(past, number, (*broker).into())))
        }
        Event::Appended { request: Some(mark), .. } => past.last(number, |event| {
            matches!(event, Event::BatchSent { client, correlation, .. }
                if *correlation == mark.correlation && past.world().node_of(client) == Some(mark.from))
        }),
        Event::Replicated { tp, to, .. } => past.last(number, |event| {
            matches!(event, Event::Appended { tp: other, last_offset, .. }
                if other == tp && *last_offset < *to)
        }),
        Event::HighWatermarkAdvanced { tp, leader: true, to, .. } => marked(past, number, tp, *to),
        Event::HighWatermarkAdvanced { tp, leader: false, .. } => past.last(number, |event| {
            matches!(event, Event::HighWatermarkAdvanced { tp: of, leader: true, .. } if of == tp)
        }),
        Event::LogStartMoved { tp, reason, .. } => start_moved(past, number, tp, *reason),
        Event::SegmentsDeleted { broker, tp, .. } => past.last(number, |event| {
            matches!(event, Event::LogStartMoved { broker: on, tp: other, .. } if on == broker && other == tp)
        }),
        Event::LogCleaned { tp, .. } => configured(past, number, tp),
        Event::ProduceRefused { tp, .. } => past.last(number, |event| match event {
            Event::IsrShrunk { tp: other, .. } | Event::LeaderElected { tp: other, .. } => other == tp,
            _ => false,
        }),
        _ => None,
    }
}

fn elected(
    past: &Past,
    number: u64,
    tp: &TopicPartition,
    (from, to): (BrokerId, BrokerId),
    reason: ChangeReason,
) -> Option<u64> {
    match reason {
        ChangeReason::BrokerFenced => fenced(past, number, from),
        ChangeReason::BrokerUnfenced => {
            past.last(number, |event| matches!(event, Event::BrokerUnfenced { broker } if *broker == to))
        }
        ChangeReason::UncleanShutdown => restarted(past, number, from),
        ChangeReason::ControlledShutdown => {
            past.last(number, |event| matches!(event, Event::ShutdownBegun { broker } if *broker == from))
        }
        // A leader asks for it when the replicas that it is to give way to are in sync.
        ChangeReason::Reassignment | ChangeReason::LeaderRequest => past
            .last(number, |event| matches!(event, Event::ReplicasChanged { tp: other, .. } if other == tp)),
        ChangeReason::PreferredElection | ChangeReason::UncleanElection => elected_by(past, number, tp, to),
        ChangeReason::EarlierController => by_earlier_controller(past, number, from),
    }
}

/// A broker that had stopped without warning is there again before it was fenced.
fn restarted(past: &Past, number: u64, broker: BrokerId) -> Option<u64> {
    let recovered =
        past.last(number, |event| matches!(event, Event::LogsRecovered { broker: of, .. } if *of == broker));
    recovered.max(started(past, number, broker.into()))
}

/// What it was decided for is not told any more: most often the silence of a broker.
fn by_earlier_controller(past: &Past, number: u64, broker: BrokerId) -> Option<u64> {
    silenced(past, number, broker.into(), is_controller)
        .or_else(|| past.last(number, |event| matches!(event, Event::QuorumLeaderElected { .. })))
}

/// Somebody asked for it, or a periodic check found that it could be done.
fn elected_by(past: &Past, number: u64, tp: &TopicPartition, to: BrokerId) -> Option<u64> {
    let asked = command(past, number, |command| match command {
        Command::ElectLeader { partition, .. } => partition.as_ref().is_none_or(|asked| asked == tp),
        _ => false,
    });
    let allowed = past.last(number, |event| match event {
        Event::BrokerUnfenced { broker } => *broker == to,
        Event::ConfigChanged { topic, .. } => *topic == tp.topic,
        Event::BrokerConfigChanged { .. } => true,
        Event::IsrExpanded { tp: other, .. } => other == tp,
        _ => false,
    });
    asked.max(allowed)
}

pub fn last_elected(past: &Past, number: u64, tp: &TopicPartition) -> Option<u64> {
    past.last(number, |event| matches!(event, Event::LeaderElected { tp: other, .. } if other == tp))
}

/// Why a leader did not hear a follower's fetches in time.
pub fn unheard(past: &Past, number: u64, tp: &TopicPartition, follower: BrokerId) -> Option<u64> {
    let leads = |event: &Event| matches!(event, Event::BecameLeader { tp: of, .. } if of == tp);
    let leader = past.last(number, leads).and_then(|number| match &past.get(number)?.event {
        Event::BecameLeader { broker, .. } => Some(NodeId::Broker(*broker)),
        _ => None,
    });
    let by = |node: NodeId| leader.is_none_or(|leader| node == leader);
    let stood_still = || match leader? {
        NodeId::Broker(leader) => stood_still(past, number, leader),
        _ => None,
    };
    silenced(past, number, follower.into(), by)
        .or_else(stood_still)
        .or_else(|| fenced(past, number, follower).max(was_silenced(past, number, follower.into())))
}

/// A leader that goes on after it stood still finds that its followers have not fetched for long.
fn stood_still(past: &Past, number: u64, leader: BrokerId) -> Option<u64> {
    let thawed = revived(past, number, leader.into())?;
    matches!(past.get(thawed)?.event, Event::Process { act: Act::Thawed, .. }).then_some(thawed)
}

/// What followers took over last.
fn copied(past: &Past, number: u64, tp: &TopicPartition) -> Option<u64> {
    past.last(number, |event| matches!(event, Event::Replicated { tp: other, .. } if other == tp))
}

/// What let the high watermark pass: the last copy that was missing, or that it is not waited for any more.
fn marked(past: &Past, number: u64, tp: &TopicPartition, to: Offset) -> Option<u64> {
    let appended = past.last(
        number,
        |event| matches!(event, Event::Appended { tp: of, base_offset, .. } if of == tp && *base_offset < to),
    )?;
    let freed = past.last(number, |event| match event {
        Event::IsrShrunk { tp: of, .. } | Event::LeaderElected { tp: of, .. } => of == tp,
        _ => false,
    });
    let copied = past.last(
        number,
        |event| matches!(event, Event::Replicated { tp: of, to: end, .. } if of == tp && *end >= to),
    );
    freed.filter(|freed| *freed > appended).or(copied).or(Some(appended))
}

fn start_moved(past: &Past, number: u64, tp: &TopicPartition, reason: LogStartReason) -> Option<u64> {
    match reason {
        LogStartReason::Leader => past.last(
            number,
            |event| matches!(event, Event::LogStartMoved { tp: other, leader: true, .. } if other == tp),
        ),
        LogStartReason::DeleteRecords => command(
            past,
            number,
            |command| matches!(command, Command::DeleteRecords { partition, .. } if partition == tp),
        ),
        LogStartReason::Time { .. } | LogStartReason::Size { .. } => configured(past, number, tp),
    }
}

/// Who last said what becomes of a topic's records: its configs, or those that it began with.
fn configured(past: &Past, number: u64, tp: &TopicPartition) -> Option<u64> {
    past.last(number, |event| match event {
        Event::ConfigChanged { topic, .. } | Event::TopicCreated { topic, .. } => *topic == tp.topic,
        Event::BrokerConfigChanged { .. } => true,
        _ => false,
    })
}
