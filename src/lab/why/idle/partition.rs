//! What a partition waits for.

use super::super::cause::cluster::silenced;
use super::super::past::Past;
use super::Unmet;
use crate::kafka::event::Event;
use crate::kafka::types::{BrokerId, NodeId, TopicPartition};
use crate::lab::words::{count, duration, list};

pub fn unmet(past: &Past, tp: &TopicPartition) -> Option<Unmet> {
    let world = past.world();
    let registration = world.newest_image()?.partition(tp)?;
    let leader = registration.leader;
    if !leader.is_some() {
        let event = past.newest(|event| matches!(event, Event::LeaderElected { tp: of, .. } if of == tp));
        let since = event.and_then(|number| past.get(number)).map(|happened| happened.time);
        let since = since.map(|time| format!(" since {time}")).unwrap_or_default();
        let may_lead = match (registration.isr.is_empty(), registration.elr.is_empty()) {
            (false, _) => &registration.isr,
            (true, false) => &registration.elr,
            (true, true) => &registration.last_known_elr,
        };
        let may_lead = list(may_lead);
        return Some(
            Unmet::new(format!(
                "has no leader{since}: it waits until a broker that may lead is back, of {may_lead}"
            ))
            .since(event),
        );
    }
    if let Some(unmet) = without_server(past, leader) {
        return Some(unmet);
    }
    let partition = world.broker(leader).and_then(|broker| broker.replicas().partition(tp))?;
    let state = partition.leader()?;
    let (in_sync, min_isr) = (state.isr.committed().len() as i32, partition.min_isr());
    if in_sync < min_isr {
        let event = past.newest(|event| match event {
            Event::IsrShrunk { tp: of, .. } | Event::LeaderElected { tp: of, .. } => of == tp,
            _ => false,
        });
        return Some(
            Unmet::new(format!(
                "has {in_sync} in sync and needs min.insync.replicas={min_isr}: acks=all is refused, and the high \
                 watermark stands at {}",
                partition.log.high_watermark()
            ))
            .since(event),
        );
    }
    let (mark, end) = (partition.log.high_watermark(), partition.log.log_end_offset());
    if mark == end {
        return None;
    }
    let slowest = state.remotes.iter().filter(|(id, _)| state.isr.maximal_contains(**id));
    let (follower, remote) = slowest.min_by_key(|(_, remote)| remote.log_end_offset)?;
    let silent = silenced(past, past.end(), (*follower).into(), |node| node == NodeId::Broker(leader))?;
    let lag_max_ms = world.broker_config().replica_lag_time_max_ms;
    let behind = remote.last_caught_up_at.map_or(0, |at| past.present().now().ms_since(at));
    let left = duration((lag_max_ms - behind).max(0));
    Some(
        Unmet::new(format!(
            "waits for broker {follower} to fetch {}, or to fall out of the in-sync set by replica.lag.time.max.ms, {left} left",
            count(end.0 - mark.0, "record")
        ))
        .since(Some(silent)),
    )
}

/// Its leader is down or stands still, and the controller has not moved it yet.
fn without_server(past: &Past, leader: BrokerId) -> Option<Unmet> {
    let process = past.world().process(leader)?;
    let state = match (process.is_dead(), process.is_frozen()) {
        (true, _) => "is dead",
        (_, true) => "stands still",
        _ => return None,
    };
    let now = past.present().now();
    let timeout_ms = past.world().broker_config().session_timeout_ms;
    let left = duration((timeout_ms - now.ms_since(process.since)).max(0));
    let event =
        past.newest(|event| matches!(event, Event::Process { node, .. } if *node == NodeId::Broker(leader)));
    Some(
        Unmet::new(format!(
            "has broker {leader} as its leader, which {state}: the controller fences it after broker.session.timeout.ms, \
             at most {left} left"
        ))
        .since(event),
    )
}
