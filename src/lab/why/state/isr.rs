//! Why replicas are in sync, or are not.

use super::super::cause::cluster::fenced;
use super::super::cause::partition::unheard;
use super::super::past::Past;
use super::Explanation;
use super::registration;
use crate::kafka::event::Event;
use crate::kafka::types::{BrokerId, TopicPartition};
use crate::lab::words::list;

pub fn explain(past: &Past, tp: &TopicPartition) -> Result<Explanation, String> {
    let registration = registration(past, tp)?;
    let missing: Vec<BrokerId> =
        registration.replicas.iter().copied().filter(|id| !registration.isr.contains(id)).collect();
    let isr = list(&registration.isr);
    if missing.is_empty() {
        let title = format!("{tp}: every replica is in sync: {isr}.");
        return Ok(Explanation::of(past, title, came_in(past, tp)));
    }
    let title = format!("{tp}: in-sync {isr}; not in sync: {}.", list(&missing));
    let events = missing.iter().filter_map(|broker| went_out(past, tp, *broker));
    Ok(Explanation::of_all(past, title, events))
}

/// The event that left the in-sync set as full as it is.
fn came_in(past: &Past, tp: &TopicPartition) -> Option<u64> {
    past.newest(|event| match event {
        Event::IsrExpanded { tp: of, .. } | Event::LeaderElected { tp: of, .. } => of == tp,
        Event::TopicCreated { topic, .. } | Event::PartitionsAdded { topic, .. } => *topic == tp.topic,
        _ => false,
    })
}

/// The event after which a broker was out of sync.
fn went_out(past: &Past, tp: &TopicPartition, broker: BrokerId) -> Option<u64> {
    let mut out = None;
    for (number, happened) in past.before(past.end()) {
        match &happened.event {
            Event::IsrShrunk { tp: of, removed, .. } if of == tp && removed.contains(&broker) => {
                return Some(number);
            }
            // An election may leave more out than it says.
            Event::LeaderElected { tp: of, isr, .. } if of == tp => match isr.contains(&broker) {
                false => out = Some(number),
                true => break,
            },
            Event::IsrExpanded { tp: of, added, .. } if of == tp && added.contains(&broker) => break,
            Event::ReplicasChanged { tp: of, adding, .. } if of == tp && adding.contains(&broker) => {
                return Some(number);
            }
            _ => {}
        }
    }
    let since = out.unwrap_or(past.end());
    out.or_else(|| unheard(past, since, tp, broker)).or_else(|| fenced(past, since, broker))
}
