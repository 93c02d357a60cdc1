//! Why nothing happens: the first condition that is not met, with the time left.
//!
//! **Invariant:** only the present is looked at, and one sentence says the condition, whoever it depends on and how long.

mod consumer;
mod group;
mod partition;
mod producer;
mod share;

use super::Explanation;
use super::past::Past;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, NodeId, TopicPartition};
use crate::lab::words::{duration, partition_of};
use crate::sim::{Machine, World};

/// A condition, and the event that made it so where there is one.
struct Unmet {
    what: String,
    since: Option<u64>,
}

impl Unmet {
    fn new(what: impl Into<String>) -> Unmet {
        Unmet { what: what.into(), since: None }
    }

    fn since(self, event: Option<u64>) -> Unmet {
        Unmet { since: event, ..self }
    }
}

/// Of a client, or else of a partition.
pub fn of_name(past: &Past, name: &str) -> Result<Explanation, String> {
    let world = past.world();
    let client = ClientName::new(name);
    let unmet = match world.node_of(&client) {
        Some(node) => of_client(past, &client, node)?,
        None => {
            let tp = partition_of(name).filter(|tp| exists(world, tp));
            let tp = tp.ok_or_else(|| format!("there is no client and no partition {name}"))?;
            partition::unmet(past, &tp)
        }
    };
    Ok(explanation(past, name, unmet))
}

pub fn of_group(past: &Past, group: &GroupId) -> Result<Explanation, String> {
    Ok(explanation(past, group.as_str(), group::unmet(past, group)?))
}

fn exists(world: &World, tp: &TopicPartition) -> bool {
    world.newest_image().is_some_and(|image| image.partition(tp).is_some())
}

fn explanation(past: &Past, name: &str, unmet: Option<Unmet>) -> Explanation {
    match unmet {
        Some(unmet) => Explanation::of(past, format!("{name} {}.", unmet.what), unmet.since),
        None => Explanation::of(past, format!("{name} waits for nothing: it is at work."), None),
    }
}

fn of_client(past: &Past, client: &ClientName, node: NodeId) -> Result<Option<Unmet>, String> {
    let process = past.world().process(node).ok_or_else(|| format!("there is no client {client}"))?;
    let changed = || super::cause::cluster::process_of(past, past.end(), client);
    let since = process.since;
    if process.is_dead() {
        return Ok(Some(
            Unmet::new(format!("does nothing more: its process ended at {since}")).since(changed()),
        ));
    }
    if process.is_frozen() {
        let what = format!("stands still since {since}, until it is thawed");
        return Ok(Some(Unmet::new(what).since(changed())));
    }
    Ok(match process.machine() {
        Some(Machine::Producer(producer)) => producer::unmet(past, client, producer),
        Some(Machine::Consumer(consumer)) => consumer::unmet(past, client, consumer),
        Some(Machine::ShareConsumer(consumer)) => share::unmet(past, client, consumer),
        Some(Machine::Application(application)) => {
            let first = consumer::unmet(past, client, application.consumer());
            first.or_else(|| producer::unmet(past, client, application.producer()))
        }
        _ => return Err(format!("{client} is no client that could be idle")),
    })
}

/// `, 1.2 s left`; nothing once that is over.
fn left(now: Time, at: Time) -> String {
    match at.ms_since(now) {
        ms if ms > 0 => format!(", {} left", duration(ms)),
        _ => String::new(),
    }
}
