//! One partition as its replicas' own words tell it: who leads, which log has what.
//!
//! Two logs that have a record of the same leader epoch at the same offset have the same records up to there (KIP-101), so
//! a replica's log is known by its epochs and its end.
//!
//! **Invariant:** what is in place is what the log of the newest leader has.

use std::collections::{BTreeMap, BTreeSet};

use super::markers::{Marker, Markers};
use super::pages::Pages;
use super::record::{Gone, GoneWhy, Moment};
use crate::kafka::event::LogStartReason;
use crate::kafka::log::LeaderEpochs;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, ProducerId, TopicId};

/// A batch in a log: which one of the ledger, and which of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub epoch: LeaderEpoch,
    pub last: Offset,
    pub batch: u64,
    pub copy: usize,
    /// Whose transaction it is of.
    pub transaction: Option<ProducerId>,
    is_gone: bool,
}

/// A batch that a leader took in: which one of the ledger, which of its copies, whose transaction it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub batch: u64,
    pub copy: usize,
    pub transaction: Option<ProducerId>,
}

/// When the markers are of more producers than these, those that decide on nothing are let go.
const KEPT_PRODUCERS: usize = 1000;

/// A copy is gone, or back again because somebody leads who has it all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub batch: u64,
    pub copy: usize,
    pub why: Option<GoneWhy>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Replica {
    epochs: LeaderEpochs,
    start: Offset,
    end: Offset,
    /// What it knows of what is committed.
    high_watermark: Offset,
}

impl Replica {
    fn cut(&mut self, end: Offset) {
        if end < self.end {
            self.epochs.truncate_from_end(end);
            self.end = end;
            self.start = self.start.min(end);
            self.high_watermark = self.high_watermark.min(end);
        }
    }

    fn write(&mut self, epochs: &[(LeaderEpoch, Offset)], from: Offset, to: Offset) {
        self.cut(from);
        if self.end < from {
            self.start = from;
        }
        epochs.iter().for_each(|(epoch, start)| self.epochs.assign(*epoch, *start));
        self.end = to;
    }

    /// What lies below the log's start is not missing.
    fn has(&self, epoch: LeaderEpoch, offset: Offset) -> bool {
        offset < self.start || self.holds(epoch, offset)
    }

    fn holds(&self, epoch: LeaderEpoch, offset: Offset) -> bool {
        self.start <= offset && offset < self.end && self.epochs.epoch_at(offset) == Some(epoch)
    }
}

/// What a leader knows of what its log did not have any more when it began to lead.
///
/// A process that starts reads its log from its start on, so it forgets what was open below, unless a snapshot says so
/// (`ProducerStateManager.truncateAndReload`); one that has been there since goes on to know it.
#[derive(Clone, Debug, Default)]
struct Below {
    start: Offset,
    open: BTreeSet<ProducerId>,
}

impl Below {
    fn has_forgotten(&self, offset: Offset, producer: ProducerId) -> bool {
        offset < self.start && !self.open.contains(&producer)
    }
}

/// A partition's log began later from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub at: Moment,
    pub to: Offset,
    pub reason: LogStartReason,
}

#[derive(Clone, Debug, Default)]
pub struct Partition {
    /// By base offset; of different epochs there can be several.
    written: Pages<Vec<Entry>>,
    /// Offsets of the largest batch.
    longest: i64,
    replicas: BTreeMap<BrokerId, Replica>,
    leader: Option<(BrokerId, LeaderEpoch)>,
    /// Of the topic that there is, as far as anybody has led it.
    topic_id: Option<TopicId>,
    /// The ids of topics of this name that are deleted.
    former: BTreeSet<TopicId>,
    /// Who has not heard yet that the topic it has a replica of is deleted.
    late: BTreeSet<BrokerId>,
    pub high_watermark: Offset,
    markers: Markers,
    /// Where records of transactions stand that are not over for readers, and may be some that are.
    unstable: BTreeSet<(Offset, ProducerId)>,
    below: Below,
    starts: Vec<Start>,
}

impl Partition {
    /// A leader took in a batch, which is `None` if no client of the ledger sent it. It is gone at once if another leads by now.
    pub fn appended(
        &mut self,
        broker: BrokerId,
        epoch: LeaderEpoch,
        (base, last): (Offset, Offset),
        taken: Option<Taken>,
    ) -> Vec<Change> {
        if self.late.contains(&broker) {
            let change = |Taken { batch, copy, .. }| Change { batch, copy, why: Some(GoneWhy::TopicDeleted) };
            return taken.map(change).into_iter().collect();
        }
        self.replicas.entry(broker).or_default().write(&[(epoch, base)], base, last + 1);
        let mut changes = self.overwritten(broker, epoch, base);
        let Some(Taken { batch, copy, transaction }) = taken else { return changes };
        let newer = self.leader.filter(|(_, newest)| *newest > epoch);
        if let Some((leader, epoch)) = newer {
            changes.push(Change { batch, copy, why: Some(GoneWhy::LeaderChange { leader, epoch }) });
        }
        self.longest = self.longest.max(last - base + 1);
        if let Some(producer) = transaction.filter(|_| newer.is_none()) {
            self.unstable.insert((base, producer));
        }
        let entry = Entry { epoch, last, batch, copy, transaction, is_gone: newer.is_some() };
        self.written.at(base).push(entry);
        changes
    }

    /// Who leads once more in an epoch in which it had written what it lost since writes over it: nobody can tell the two
    /// apart.
    fn overwritten(&mut self, broker: BrokerId, epoch: LeaderEpoch, from: Offset) -> Vec<Change> {
        let mut changes = Vec::new();
        let are_markers_over = self.markers.overwritten(epoch, from);
        for entries in self.written.range_mut(from) {
            for entry in entries.extract_if(.., |entry| entry.epoch == epoch).filter(|entry| !entry.is_gone) {
                let why = Some(GoneWhy::DiskLost { broker });
                changes.push(Change { batch: entry.batch, copy: entry.copy, why });
            }
        }
        if are_markers_over || !changes.is_empty() {
            self.settle_anew(from);
        }
        changes
    }

    /// A leader has written the end of a producer's transaction, at the end of its log.
    pub fn marked(
        &mut self,
        broker: BrokerId,
        (producer, committed): (ProducerId, bool),
        offset: Offset,
        at: Moment,
    ) {
        let replica = self.replicas.get(&broker).filter(|_| !self.late.contains(&broker));
        let Some(epoch) = replica.and_then(|replica| replica.epochs.epoch_at(offset)) else { return };
        let newer = self.leader.filter(|(_, newest)| *newest > epoch);
        let gone = newer.map(|(leader, epoch)| Gone { at, why: GoneWhy::LeaderChange { leader, epoch } });
        self.markers.note(producer, Marker { at, epoch, offset, committed, gone });
        self.settle();
    }

    pub fn markers(&self) -> &Markers {
        &self.markers
    }

    /// A replica knows so much to be committed; if it leads, readers see it.
    pub fn advanced(&mut self, broker: BrokerId, to: Offset, is_leader: bool) {
        if self.late.contains(&broker) {
            return;
        }
        self.replicas.entry(broker).or_default().high_watermark = to;
        if is_leader && self.leader.is_none_or(|(leader, _)| leader == broker) {
            self.high_watermark = to;
            self.settle();
        }
    }

    /// Transactions at the beginning that are over, and whose end is replicated, withhold nothing any more (R-TXN-23).
    fn settle(&mut self) {
        while let Some((offset, producer)) = self.unstable.first().copied() {
            let marker = self.markers.decides(producer, offset);
            if marker.is_none_or(|marker| marker.offset >= self.high_watermark) {
                return;
            }
            self.unstable.pop_first();
        }
    }

    /// Which log counts has changed, and so may have what is over: of what is not kept, what was open is.
    fn settle_anew(&mut self, end: Offset) {
        let first = self.first_kept();
        if self.unstable.is_empty() && self.markers.producers() == 0 {
            return;
        }
        self.unstable.retain(|(offset, _)| first.is_none_or(|first| *offset < first) && *offset < end);
        for (base, entries) in self.written.iter() {
            let of = entries.iter().filter(|entry| !entry.is_gone);
            self.unstable.extend(of.filter_map(|entry| Some((base, entry.transaction?))));
        }
        let below = &self.below;
        self.unstable.retain(|(offset, producer)| !below.has_forgotten(*offset, *producer));
        self.settle();
    }

    fn first_kept(&self) -> Option<Offset> {
        self.written.first()
    }

    /// What lies from here on nobody sees who reads committed data: an open transaction begins here, or the high watermark has
    /// not passed the end of one.
    pub fn last_stable_offset(&self) -> Offset {
        let first = self.unstable.first().map(|(offset, _)| *offset);
        let start = self.starts.last().map_or(Offset::ZERO, |start| start.to);
        first.map_or(self.high_watermark, |first| first.max(start).min(self.high_watermark))
    }

    pub fn replicated(
        &mut self,
        broker: BrokerId,
        (from, to): (Offset, Offset),
        epochs: &[(LeaderEpoch, Offset)],
    ) {
        if !self.late.contains(&broker) {
            self.replicas.entry(broker).or_default().write(epochs, from, to);
        }
    }

    pub fn truncated(&mut self, broker: BrokerId, to: Offset) {
        self.replicas.entry(broker).or_default().cut(to);
    }

    /// A disk lost what was behind `end`; what nobody has any more is gone.
    pub fn disk_lost(&mut self, broker: BrokerId, end: Offset, at: Moment) -> Vec<Change> {
        if end == Offset::ZERO {
            self.late.remove(&broker);
        }
        let Some(replica) = self.replicas.get_mut(&broker) else { return Vec::new() };
        replica.cut(end);
        let mut changes = Vec::new();
        let gone = Gone { at, why: GoneWhy::DiskLost { broker } };
        let is_left = |epoch, offset| self.replicas.values().any(|replica| replica.has(epoch, offset));
        self.markers.disk_lost(end, gone, is_left);
        for entries in self.written.range_mut(end) {
            for entry in entries.iter_mut().filter(|entry| !entry.is_gone) {
                if !self.replicas.values().any(|replica| replica.has(entry.epoch, entry.last)) {
                    entry.is_gone = true;
                    changes.push(Change { batch: entry.batch, copy: entry.copy, why: Some(gone.why) });
                }
            }
        }
        self.settle_anew(Offset(i64::MAX));
        changes
    }

    pub fn replica_deleted(&mut self, broker: BrokerId) {
        self.replicas.remove(&broker);
        self.late.remove(&broker);
    }

    /// Somebody leads a partition of the topic with this id: of that there is, of another one of the same name that has come
    /// since, or, if it is late, of one that is deleted.
    pub fn of_topic(&mut self, broker: BrokerId, id: TopicId) -> Vec<Change> {
        if self.former.contains(&id) {
            self.late.insert(broker);
            return Vec::new();
        }
        let is_another = self.topic_id.is_some_and(|known| known != id);
        let changes = if is_another { self.clear() } else { Vec::new() };
        self.late.remove(&broker);
        self.topic_id = Some(id);
        changes
    }

    /// Somebody leads, and its log, which ends at `end`, is what counts from now on. `open`: whose transactions it knows to
    /// be open below its log's start.
    pub fn became_leader(
        &mut self,
        broker: BrokerId,
        (epoch, end): (LeaderEpoch, Offset),
        open: BTreeSet<ProducerId>,
        at: Moment,
    ) -> Vec<Change> {
        if self.late.contains(&broker) {
            return Vec::new();
        }
        let replica = self.replicas.entry(broker).or_default();
        replica.cut(end);
        replica.end = end;
        if self.leader.is_some_and(|(_, newest)| newest > epoch) {
            return Vec::new();
        }
        self.leader = Some((broker, epoch));
        self.below = Below { start: replica.start, open };
        self.high_watermark = self.high_watermark.max(replica.high_watermark).min(end);
        let mut changes = Vec::new();
        let gone = Gone { at, why: GoneWhy::LeaderChange { leader: broker, epoch } };
        self.markers
            .review(gone, |epoch, offset| (offset >= replica.start).then(|| replica.holds(epoch, offset)));
        for entries in self.written.range_mut(Offset(i64::MIN)).rev() {
            let mut agrees = false;
            // A log says nothing of what lies below its start.
            for entry in entries.iter_mut().filter(|entry| entry.last >= replica.start) {
                let has = replica.holds(entry.epoch, entry.last);
                agrees |= has && !entry.is_gone;
                if has == entry.is_gone {
                    entry.is_gone = !has;
                    let why = (!has).then_some(gone.why);
                    changes.push(Change { batch: entry.batch, copy: entry.copy, why });
                }
            }
            // The leader before had it too: below, their logs are the same.
            if agrees {
                break;
            }
        }
        self.settle_anew(end);
        changes
    }

    pub fn log_start_moved(&mut self, broker: BrokerId, is_leader: bool, start: Start) {
        let replica = self.replicas.entry(broker).or_default();
        replica.start = start.to;
        replica.end = replica.end.max(start.to);
        replica.epochs.truncate_from_start(start.to);
        if is_leader && self.starts.last().is_none_or(|last| last.to < start.to) {
            self.starts.push(start);
        }
    }

    /// What took the record at this offset away from the log's beginning.
    pub fn removal(&self, offset: Offset) -> Option<&Start> {
        self.starts.get(self.starts.partition_point(|start| start.to <= offset))
    }

    /// Who has it on its disk.
    pub fn holders(&self, epoch: LeaderEpoch, offset: Offset) -> Vec<BrokerId> {
        let holds =
            |(broker, replica): (&BrokerId, &Replica)| replica.holds(epoch, offset).then_some(*broker);
        self.replicas.iter().filter_map(holds).collect()
    }

    /// The batches that have offsets in `[from, to)`, each with its base offset: those of this epoch, or those in place.
    pub fn entries(
        &self,
        from: Offset,
        to: Offset,
        epoch: Option<LeaderEpoch>,
    ) -> impl Iterator<Item = (Offset, Entry)> {
        let fits = move |entry: &&Entry| match epoch {
            Some(epoch) => entry.epoch == epoch,
            None => !entry.is_gone,
        };
        // No batch that begins earlier reaches as far.
        let first = from + -self.longest;
        self.written.range(first..to.max(first)).flat_map(move |(base, entries)| {
            let reaches = entries.iter().filter(fits).filter(move |entry| entry.last >= from);
            reaches.map(move |entry| (base, *entry))
        })
    }

    /// A batch falls out of the ledger, and with the last of them what has taken nothing else away.
    pub fn forget(&mut self, base: Offset, batch: u64) {
        let Some(entries) = self.written.get_mut(base) else { return };
        let index = entries.iter().position(|entry| entry.batch == batch);
        let forgotten = index.map(|index| entries.remove(index));
        if entries.is_empty() {
            self.written.remove(base);
        }
        let first = self.first_kept();
        let end = first.unwrap_or(self.high_watermark).min(self.last_stable_offset());
        if let Some(producer) = forgotten.and_then(|entry| entry.transaction) {
            self.markers.forget_below(producer, end);
        }
        if self.markers.producers() > KEPT_PRODUCERS {
            self.markers.forget_all_below(end);
        }
        let newest = self.starts.len().saturating_sub(1);
        let over = self.starts.iter().take_while(|start| first.is_none_or(|first| start.to <= first)).count();
        self.starts.drain(..over.min(newest));
    }

    /// The topic is gone with all there was of it.
    pub fn clear(&mut self) -> Vec<Change> {
        let old = std::mem::take(self);
        self.former = old.former;
        self.former.extend(old.topic_id);
        self.late = old.late;
        self.late.extend(old.replicas.into_keys());
        let entries = old.written.into_values().flatten().filter(|entry| !entry.is_gone);
        let why = Some(GoneWhy::TopicDeleted);
        entries.map(|entry| Change { batch: entry.batch, copy: entry.copy, why }).collect()
    }
}
