//! What consumers commit by themselves, held to what poll() returned to them (R-CONS-5, R-CONS-19).
//!
//! **Invariant:** what is known of a consumer's positions goes with its process.

use std::collections::{BTreeMap, BTreeSet};

use super::sight;
use crate::kafka::event::Event;
use crate::kafka::types::{ClientName, NodeId, Offset, Topic, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};
use crate::swarm::counts::Counts;

#[derive(Default)]
pub struct Positions {
    /// The furthest position that each consumer had in a partition: where it began, or behind what poll() returned.
    reached: BTreeMap<ClientName, BTreeMap<TopicPartition, Offset>>,
    /// Topics that were deleted: by its name alone nobody can tell which one a commit is of.
    deleted: BTreeSet<Topic>,
}

impl Positions {
    /// Takes in one event. `is_whole` says whether a partition has lost nothing.
    pub fn hear(
        &mut self,
        world: &World,
        event: &Event,
        is_whole: impl Fn(&TopicPartition) -> bool,
        counts: &mut Counts,
    ) -> Verdict {
        match event {
            Event::Process { node: NodeId::Client(_), name, .. } if world.consumer(name).is_none() => {
                self.reached.remove(name);
            }
            Event::PositionSet { client, tp, offset, .. } | Event::Polled { client, tp, to: offset, .. } => {
                let reached = self.reached.entry(client.clone()).or_default();
                reached
                    .entry(tp.clone())
                    .and_modify(|known| *known = (*offset).max(*known))
                    .or_insert(*offset);
            }
            Event::TopicDeleted { topic, .. } => {
                self.deleted.insert(topic.clone());
            }
            Event::CommitConfirmed { client, offsets, .. } => {
                let Some(reached) = self.reached.get(client) else { return Ok(()) };
                for (tp, offset) in offsets {
                    let Some(reached) = reached.get(tp) else { continue };
                    if self.deleted.contains(&tp.topic) || !is_whole(tp) {
                        continue;
                    }
                    counts.positions_checked += 1;
                    if let Some(passed) = first_passed(world, tp, *reached, *offset) {
                        let returned = format!("poll() returned what is below {reached}, and not {passed}");
                        return Err(Check::CommitReturned
                            .broken(format!("{client} commits {offset} of {tp}: {returned}")));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The first record in `[from, to)` that only poll() could have moved a position over: neither a marker nor one of a
/// transaction, which may be aborted, nor one that the cleaner took.
fn first_passed(world: &World, tp: &TopicPartition, from: Offset, to: Offset) -> Option<Offset> {
    let (_, leader) = sight::replicas(world).find(|(_, replica)| replica.tp == *tp && replica.is_leader())?;
    let batches = leader.log.batches_from(from).take_while(|batch| batch.base_offset() < to);
    let plain = batches.filter(|batch| !batch.is_control() && !batch.is_transactional());
    let records = plain.filter_map(|batch| batch.records().ok()).flatten();
    records.map(|record| record.offset).find(|offset| (from..to).contains(offset))
}
