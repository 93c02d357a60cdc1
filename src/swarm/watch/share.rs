//! Share groups: who holds which record, how often it was delivered, and that none is passed over (R-SHARE-5 to 8, 11).
//!
//! A leader that is cut off goes on handing out what it has; members of one leadership are held to each other, not those of
//! two. What a group is done with holds for all leaderships that begin later, as long as its state does ([`Kept`]).
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

/// What has lost nothing of a share partition's state.
#[derive(Clone, Copy)]
pub struct Kept {
    /// The log of the share coordinator that keeps it.
    pub states: bool,
    /// The log of the group's coordinator. A group that it has lost is begun anew by its members. No less an epoch than its
    /// former one has the share coordinator write a fresh state over the one that is there
    /// (`ShareCoordinatorShard.maybeGetInitializeStateError`), and share.auto.offset.reset decides again where it starts.
    pub group: bool,
}

/// One leader's turn.
#[derive(Default)]
struct Turn {
    records: BTreeMap<Offset, Seen>,
    /// What is done below it was persisted when the turn began.
    settled: Option<Offset>,
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
    /// Where it stands for sure: what is done below was persisted. Nothing as long as no leader has written.
    settled: Option<Offset>,
}

impl ShareWatch {
    /// Takes in one event. `kept` says of a share partition's state what has lost nothing.
    pub fn hear(
        &mut self,
        world: &World,
        event: &Event,
        kept: impl Fn(&GroupId, &TopicPartition) -> Kept,
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
                counts.share_starts_checked += 1;
                self.begin(world, *broker, group, tp, *start_offset, kept(group, tp))
            }
            ShareEvent::Acquired { broker, group, tp, member, records } => {
                counts.records_shared +=
                    records.iter().map(|(range, _)| range.count().unsigned_abs()).sum::<u64>();
                let shared = (group.clone(), tp.clone());
                let turn = self.turns.entry((*broker, shared.clone())).or_default();
                let done = self.done.get(&shared);
                for (range, delivery_count) in records {
                    range.offsets().try_for_each(|offset| {
                        let fault = turn.acquire(offset, member, *delivery_count, done);
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
                self.check_start(world, *broker, group, tp, *to, kept(group, tp))
            }
            // Should somebody share its topics again, leaders will tell where they begin.
            ShareEvent::GroupDeleted { .. }
            | ShareEvent::Joins { .. }
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

    /// A turn begins where the one before has come to, or where share.auto.offset.reset says as long as nothing is written
    /// (R-SHARE-4, 14).
    fn begin(
        &mut self,
        world: &World,
        broker: BrokerId,
        group: &GroupId,
        tp: &TopicPartition,
        start: Offset,
        kept: Kept,
    ) -> Verdict {
        let shared = (group.clone(), tp.clone());
        let done = self.done.entry(shared.clone()).or_default();
        if !(kept.states && kept.group) || self.former.contains(&tp.topic) {
            done.settled = None;
        }
        self.turns.insert((broker, shared), Turn { settled: done.settled, ..Turn::default() });
        let passed = std::mem::replace(&mut done.start, start);
        match done.settled {
            Some(_) => done.fault_of_passing(world, broker, tp, (passed, start)).map_or(Ok(()), |fault| {
                Err(Check::ShareLoss.broken(format!("broker {broker} begins {group} anew: {fault}")))
            }),
            None => Ok(()),
        }
    }

    /// R-SHARE-11: what a group's start passes was accepted, rejected or delivered as often as it may be, or is not there.
    fn check_start(
        &mut self,
        world: &World,
        broker: BrokerId,
        group: &GroupId,
        tp: &TopicPartition,
        to: Offset,
        kept: Kept,
    ) -> Verdict {
        let shared = (group.clone(), tp.clone());
        if let Some(turn) = self.turns.get_mut(&(broker, shared.clone())) {
            turn.records = turn.records.split_off(&to);
        }
        let Some(done) = self.done.get_mut(&shared).filter(|done| done.start < to) else { return Ok(()) };
        let passed = std::mem::replace(&mut done.start, to);
        if self.former.contains(&tp.topic) || !kept.states {
            return Ok(());
        }
        let fault = done.fault_of_passing(world, broker, tp, (passed, to));
        done.settle(world, broker, tp, (passed, to));
        fault.map_or(Ok(()), |fault| {
            Err(Check::ShareLoss.broken(format!("broker {broker}: {group} has moved on: {fault}")))
        })
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

impl Done {
    /// A record between two starts with which nobody was done.
    fn fault_of_passing(
        &self,
        world: &World,
        broker: BrokerId,
        tp: &TopicPartition,
        (from, to): (Offset, Offset),
    ) -> Option<String> {
        let log = &sight::replica(world, broker, tp)?.log;
        let from_here = from.max(log.log_start_offset());
        // The ends of transactions are handed to nobody.
        for batch in log.batches_from(from_here).take_while(|batch| batch.base_offset() < to) {
            let records = match batch.records() {
                Ok(records) if !batch.is_control() => records,
                Ok(_) => continue,
                Err(error) => return Some(format!("{tp}: {error}")),
            };
            let mut between = records.iter().map(|record| record.offset);
            if let Some(passed) =
                between.find(|at| *at >= from_here && *at < to && !self.offsets.contains(at))
            {
                return Some(format!(
                    "from {from} to {to} of {tp}, past {passed}, with which nobody was done"
                ));
            }
        }
        None
    }

    /// What the start has passed because it is done, and not because the log begins further up, was persisted before.
    fn settle(&mut self, world: &World, broker: BrokerId, tp: &TopicPartition, passed: (Offset, Offset)) {
        let Some(replica) = sight::replica(world, broker, tp) else { return };
        let (from, to) = passed;
        if replica.log.log_start_offset() <= from && self.offsets.range(from..to).next().is_some() {
            self.settled = self.settled.max(Some(to));
        }
    }
}

impl Turn {
    /// R-SHARE-5, 8, 14: nobody else holds it, it was delivered once less before, and the group was not done with it when the
    /// turn began.
    fn acquire(
        &mut self,
        offset: Offset,
        member: &MemberId,
        delivery_count: i16,
        done: Option<&Done>,
    ) -> Verdict {
        let is_settled = self.settled.is_some_and(|settled| offset < settled);
        if is_settled && done.is_some_and(|done| done.offsets.contains(&offset)) {
            let fault = format!("{offset} is handed out to {member}, and the group is done with it");
            return Err(Check::DoneForGood.broken(fault));
        }
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
