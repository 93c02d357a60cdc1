//! Why a high watermark stands where it does.

use super::super::cause::cluster::silenced;
use super::super::past::Past;
use super::Explanation;
use super::registration;
use crate::kafka::event::Event;
use crate::kafka::replication::Partition;
use crate::kafka::types::{BrokerId, NodeId, Offset, TopicPartition};

pub fn explain(past: &Past, tp: &TopicPartition) -> Result<Explanation, String> {
    let registration = registration(past, tp)?;
    let leads = past.world().broker(registration.leader).and_then(|broker| broker.replicas().partition(tp));
    let Some(partition) = leads.filter(|partition| partition.is_leader()) else {
        let title = format!("{tp}: nobody leads it, so its high watermark cannot move.");
        return Ok(Explanation::of(past, title, without_leader(past, tp, registration.leader)));
    };
    let (mark, end) = (partition.log.high_watermark(), partition.log.log_end_offset());
    let leader = registration.leader;
    if mark == end {
        let title =
            format!("{tp}: the high watermark is {mark}, the end of the log: every in-sync replica has all.");
        return Ok(Explanation::of(past, title, moved(past, tp)));
    }
    let held = match end.0 - mark.0 {
        1 => "1 record waits".to_owned(),
        more => format!("{more} records wait"),
    };
    let in_sync = partition.leader().map_or(0, |leader| leader.isr.committed().len() as i32);
    let min_isr = partition.min_isr();
    if in_sync < min_isr {
        let title = format!(
            "{tp}: the high watermark is {mark} and {held}: {in_sync} in sync, min.insync.replicas={min_isr}."
        );
        return Ok(Explanation::of(past, title, shrunk(past, tp)));
    }
    match slowest(partition) {
        Some((follower, has)) => {
            let title = format!(
                "{tp}: the high watermark is {mark} and {held}: broker {follower}, in sync, has the log up to {has}."
            );
            let silent = silenced(past, past.end(), follower.into(), |node| node == NodeId::Broker(leader));
            Ok(Explanation::of(past, title, silent.or_else(|| appended(past, tp, mark))))
        }
        None => {
            let title = format!("{tp}: the high watermark is {mark} and {held} for the next fetch.");
            Ok(Explanation::of(past, title, appended(past, tp, mark)))
        }
    }
}

/// The in-sync follower whose log ends first, and where.
fn slowest(partition: &Partition) -> Option<(BrokerId, Offset)> {
    let leader = partition.leader()?;
    let in_sync = leader.remotes.iter().filter(|(id, _)| leader.isr.maximal_contains(**id));
    in_sync.map(|(id, remote)| (*id, remote.log_end_offset)).min_by_key(|(_, end)| *end)
}

fn without_leader(past: &Past, tp: &TopicPartition, leader: BrokerId) -> Option<u64> {
    let stopped = past.newest(|event| match event {
        Event::Process { node, .. } => *node == NodeId::Broker(leader),
        _ => false,
    });
    let elected = past.newest(|event| matches!(event, Event::LeaderElected { tp: of, .. } if of == tp));
    stopped.filter(|_| leader.is_some()).or(elected)
}

fn moved(past: &Past, tp: &TopicPartition) -> Option<u64> {
    past.newest(|event| match event {
        Event::HighWatermarkAdvanced { tp: of, leader: true, .. } | Event::BecameLeader { tp: of, .. } => {
            of == tp
        }
        _ => false,
    })
}

fn shrunk(past: &Past, tp: &TopicPartition) -> Option<u64> {
    past.newest(|event| match event {
        Event::IsrShrunk { tp: of, .. } | Event::LeaderElected { tp: of, .. } => of == tp,
        Event::ConfigChanged { topic, key, .. } => *topic == tp.topic && key == "min.insync.replicas",
        _ => false,
    })
}

/// What it waits with: the first records above it.
fn appended(past: &Past, tp: &TopicPartition, mark: Offset) -> Option<u64> {
    past.newest(|event| {
        matches!(event, Event::Appended { tp: of, base_offset, last_offset, .. }
            if of == tp && *base_offset <= mark && *last_offset >= mark)
    })
}
