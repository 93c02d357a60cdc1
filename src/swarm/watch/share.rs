//! Share groups: who holds which record, how often it was delivered, and that none is passed over (R-SHARE-5 to 8, 11).
//!
//! A leader that is cut off goes on handing out what it has; members of one leadership are held to each other, not those of
//! two. Where the log of the groups' states may have lost something, nothing is said of what was done.
//!
//! **Invariant:** what is held is known by what a leader said when it happened; its own books are only asked for locks.

use std::collections::{BTreeMap, BTreeSet};

use super::sight;
use crate::kafka::event::{Event, ShareChange, ShareEvent, ShareOutcome};
use crate::kafka::types::{BrokerId, GroupId, MemberId, NodeId, Offset, Topic, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};
use crate::swarm::counts::Counts;

/// A lock that has run out is noticed within this time.
const NOTICED_MS: i64 = 1_000;

/// A share partition.
type Shared = (GroupId, TopicPartition);

/// What was seen of all share partitions.
#[derive(Default)]
pub struct ShareWatch {
    /// One for each leader that ever handed out records.
    turns: BTreeMap<(BrokerId, Shared), Turn>,
    done: BTreeMap<Shared, Done>,
    /// Of topics that were deleted a leader may speak that has not heard of it.
    former: BTreeSet<Topic>,
}

/// One leader's turn.
#[derive(Default)]
struct Turn {
    records: BTreeMap<Offset, Seen>,
}

/// A record that was handed out.
struct Seen {
    /// Who has it; `None` as soon as it came back or was done with.
    holder: Option<MemberId>,
    delivery_count: i16,
}

/// What a group is done with. Leaders of a partition may begin further down again, so nothing of it is forgotten.
#[derive(Default)]
struct Done {
    /// Where it stands.
    start: Offset,
    offsets: BTreeSet<Offset>,
}

impl ShareWatch {
    /// Takes in one event. `is_kept` says whether the log of a share partition's state has lost nothing.
    pub fn hear(
        &mut self,
        world: &World,
        event: &Event,
        is_kept: impl Fn(&GroupId, &TopicPartition) -> bool,
        counts: &mut Counts,
    ) -> Verdict {
        let event = match event {
            Event::Share(event) => event,
            Event::TopicDeleted { topic } => {
                self.former.insert(topic.clone());
                return Ok(());
            }
            _ => return Ok(()),
        };
        match event {
            ShareEvent::Begun { broker, group, tp, start_offset, .. } => {
                let shared = (group.clone(), tp.clone());
                self.turns.insert((*broker, shared.clone()), Turn::default());
                // Where a leader begins is not judged: as long as nothing is written, and whenever the states are begun anew,
                // share.auto.offset.reset decides.
                self.done.entry(shared).or_default().start = *start_offset;
                Ok(())
            }
            ShareEvent::Acquired { broker, group, tp, member, records } => {
                counts.records_shared +=
                    records.iter().map(|(range, _)| range.count().unsigned_abs()).sum::<u64>();
                let turn = self.turns.entry((*broker, (group.clone(), tp.clone()))).or_default();
                for (range, delivery_count) in records {
                    range.offsets().try_for_each(|offset| {
                        let fault = turn.acquire(offset, member, *delivery_count);
                        fault.map_err(|broken| broken.at(format!("broker {broker}: {tp} in {group}")))
                    })?;
                }
                Ok(())
            }
            ShareEvent::Acknowledged { broker, group, tp, changes, .. }
            | ShareEvent::GivenBack { broker, group, tp, changes, .. }
            | ShareEvent::LocksEnded { broker, group, tp, changes, fenced: false } => {
                let turn = self.turns.entry((*broker, (group.clone(), tp.clone()))).or_default();
                changes.iter().for_each(|change| turn.change(change));
                self.note_done(group, tp, changes);
                Ok(())
            }
            // Another turn may have begun.
            ShareEvent::LocksEnded { group, tp, changes, fenced: true, .. } => {
                self.note_done(group, tp, changes);
                Ok(())
            }
            ShareEvent::StartMoved { broker, group, tp, to, .. } => {
                counts.share_starts_checked += 1;
                self.check_start(world, *broker, group, tp, *to, is_kept)
            }
            ShareEvent::Joins { .. }
            | ShareEvent::Assigned { .. }
            | ShareEvent::Left { .. }
            | ShareEvent::Delivered { .. }
            | ShareEvent::Heard { .. } => Ok(()),
        }
    }

    fn note_done(&mut self, group: &GroupId, tp: &TopicPartition, changes: &[ShareChange]) {
        let Some(done) = self.done.get_mut(&(group.clone(), tp.clone())) else { return };
        let is_final = |change: &&ShareChange| {
            matches!(change.outcome, ShareOutcome::Accepted | ShareOutcome::Rejected | ShareOutcome::Worn)
        };
        let offsets = changes.iter().filter(is_final).flat_map(|change| change.range.offsets());
        done.offsets.extend(offsets);
    }

    /// R-SHARE-11: what a group's start passes was accepted, rejected or delivered as often as it may be, or is not there.
    fn check_start(
        &mut self,
        world: &World,
        broker: BrokerId,
        group: &GroupId,
        tp: &TopicPartition,
        to: Offset,
        is_kept: impl Fn(&GroupId, &TopicPartition) -> bool,
    ) -> Verdict {
        let shared = (group.clone(), tp.clone());
        if let Some(turn) = self.turns.get_mut(&(broker, shared.clone())) {
            turn.records = turn.records.split_off(&to);
        }
        let Some(done) = self.done.get_mut(&shared).filter(|done| done.start < to) else { return Ok(()) };
        let passed = done.start;
        done.start = to;
        let Some(replica) = sight::replica(world, broker, tp) else { return Ok(()) };
        if self.former.contains(&tp.topic) || !is_kept(group, tp) {
            return Ok(());
        }
        let log = &replica.log;
        let records =
            match log.records_between(passed.max(log.log_start_offset()), to.min(log.log_end_offset())) {
                Ok(records) => records,
                Err(error) => return Err(Check::ShareLoss.broken(format!("{tp}: {error}"))),
            };
        match records.iter().find(|record| !done.offsets.contains(&record.offset)) {
            Some(record) => {
                let offset = record.offset;
                let fault = format!(
                    "broker {broker}: {group} has passed {offset} of {tp}, with which nobody was done"
                );
                Err(Check::ShareLoss.broken(fault))
            }
            None => Ok(()),
        }
    }

    /// R-SHARE-7: no lock that has run out holds a record at a broker that runs.
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

impl Turn {
    /// R-SHARE-5, 8: nobody else holds it, and it was delivered once less before.
    fn acquire(&mut self, offset: Offset, member: &MemberId, delivery_count: i16) -> Verdict {
        let new = Seen { holder: Some(member.clone()), delivery_count };
        let Some(seen) = self.records.insert(offset, new) else { return Ok(()) };
        if let Some(holder) = seen.holder {
            let fault = format!("{offset} is handed out to {member}, and {holder} holds it");
            return Err(Check::OneHolder.broken(fault));
        }
        if delivery_count != seen.delivery_count + 1 {
            let before = seen.delivery_count;
            let fault = format!("{offset} was delivered {before} times, and now for the {delivery_count}th");
            return Err(Check::DeliveryCount.broken(fault));
        }
        Ok(())
    }

    fn change(&mut self, change: &ShareChange) {
        if change.outcome != ShareOutcome::Renewed {
            let seen = |offset| (offset, Seen { holder: None, delivery_count: change.delivery_count });
            self.records.extend(change.range.offsets().map(seen));
        }
    }
}
