//! What leaders hand out to share groups: to one member at a time, each time with a greater count, and for no longer than
//! the lock runs (R-SHARE-1, 7, 8).
//!
//! A leader's word is held to its own words before: when it begins anew it knows only what was persisted.
//!
//! **Invariant:** who holds what is known here only as far as it was told, and forgotten as soon as that may be over.

use std::collections::BTreeMap;

use crate::kafka::event::{Event, ShareChange, ShareEvent, ShareOutcome};
use crate::kafka::share::OffsetRange;
use crate::kafka::types::{BrokerId, GroupId, MemberId, NodeId, Offset, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

/// A share partition at one broker.
type Place = (BrokerId, GroupId, TopicPartition);

/// A lock that has run out is noticed within this time.
const NOTICED_MS: i64 = 1_000;

#[derive(Default)]
struct Shared {
    holders: BTreeMap<Offset, MemberId>,
    /// How often each offset was handed out.
    deliveries: BTreeMap<Offset, i16>,
}

#[derive(Default)]
pub struct ShareWatch {
    places: BTreeMap<Place, Shared>,
}

impl ShareWatch {
    pub fn hear(&mut self, event: &Event, handed_out: &mut u64) -> Verdict {
        match event {
            Event::TopicDeleted { topic } => {
                self.places.retain(|(_, _, tp), _| tp.topic != *topic);
                Ok(())
            }
            Event::Share(event) => self.hear_leader(event, handed_out),
            _ => Ok(()),
        }
    }

    fn hear_leader(&mut self, event: &ShareEvent, handed_out: &mut u64) -> Verdict {
        match event {
            ShareEvent::Begun { broker, group, tp, .. } => {
                self.places.insert((*broker, group.clone(), tp.clone()), Shared::default());
                Ok(())
            }
            ShareEvent::Acquired { broker, group, tp, member, records } => {
                let shared = self.places.entry((*broker, group.clone(), tp.clone())).or_default();
                *handed_out += records.iter().map(|(range, _)| range.count().unsigned_abs()).sum::<u64>();
                shared
                    .acquired(member, records)
                    .map_err(|broken| broken.at(format!("{group}, {tp} at broker {broker}")))
            }
            ShareEvent::Acknowledged { broker, group, tp, changes, .. }
            | ShareEvent::GivenBack { broker, group, tp, changes, .. }
            | ShareEvent::LocksEnded { broker, group, tp, changes } => {
                if let Some(shared) = self.places.get_mut(&(*broker, group.clone(), tp.clone())) {
                    shared.released(changes);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// No lock that has run out holds a record at a broker that runs.
    pub fn check_locks(world: &World, node: NodeId) -> Verdict {
        let NodeId::Broker(id) = node else { return Ok(()) };
        let Some((broker, process)) = world.broker(id).zip(world.process(node)) else { return Ok(()) };
        if !process.is_running() || world.now().ms_since(process.since) <= NOTICED_MS {
            return Ok(());
        }
        let now = world.now();
        let overdue = broker.shares().partitions().find_map(|(key, partition)| {
            let ends = partition.next_lock_end().filter(|ends| now.ms_since(*ends) > NOTICED_MS)?;
            Some(format!("broker {id}: a lock of {} ran out at {ends} and holds at {now}", key.group))
        });
        Check::LockEnds.verdict(overdue)
    }
}

impl Shared {
    fn acquired(&mut self, member: &MemberId, records: &[(OffsetRange, i16)]) -> Verdict {
        for (range, count) in records {
            for offset in range.offsets() {
                if let Some(holder) = self.holders.insert(offset, member.clone()) {
                    let what = format!("{offset} is handed to {member} while {holder} holds it");
                    return Err(Check::OneHolder.broken(what));
                }
                let before = self.deliveries.insert(offset, *count);
                if let Some(before) = before.filter(|before| count <= before) {
                    let what = format!("{offset} is delivered for time {count} after time {before}");
                    return Err(Check::DeliveryCount.broken(what));
                }
            }
        }
        Ok(())
    }

    fn released(&mut self, changes: &[ShareChange]) {
        for change in changes.iter().filter(|change| change.outcome != ShareOutcome::Renewed) {
            for offset in change.range.offsets() {
                self.holders.remove(&offset);
            }
        }
    }
}
