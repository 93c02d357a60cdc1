//! The ledger: what became of every record, told from outside of the system.
//!
//! It reads the trace alone: which send of which client a batch is follows from the requests that the events name, never from
//! bytes. Each change in a record's fate is tied to the event that made it so ([`Moment`]). It keeps so many of the newest
//! records and counts of the older ones what they had come to; a replay with a greater limit brings those back.
//!
//! - [`record`]: what is kept of a record and of the batch it travels in
//! - [`pages`]: a map whose copies share what did not change
//! - [`partition`]: who leads, which log has what
//! - [`markers`]: the ends of transactions in it
//! - [`group`]: what groups have read, finished and committed
//! - [`hear`]: how events change it
//! - [`judge`]: what a record has come to
//! - [`totals`]: counts of all that, with the first example of each
//! - [`occasions`]: when records came to what they are counted for
//! - [`expect`]: what a scenario says that they come to
//! - [`tell`]: these counts as text
//! - [`story`]: one record's story in sentences
//!
//! **Invariant:** the same trace gives the same ledger, and nothing here changes a run.

mod expect;
mod group;
mod hear;
mod judge;
mod markers;
mod occasions;
mod pages;
mod partition;
mod record;
mod story;
mod tell;
mod totals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub use self::expect::{Expectation, Observed};
pub use self::group::Stuck;
use self::group::{Progress, Reader};
pub use self::judge::{Ends, Fate, Holder, LostWhy, Missed, MissedWhy, Verdict, Visible};
use self::partition::{Change, Partition};
pub use self::record::{
    Answer, Batch, Copy, Gone, GoneWhy, Input, Moment, Processing, Record, Seen, Sent, Told, Transaction,
};
pub use self::story::{Line, Story};
pub use self::totals::{Count, Example, GroupCount, GroupTotals, RecordTotals, Totals, Within};
use crate::kafka::event::RequestMark;
use crate::kafka::types::{BatchId, ClientName, GroupId, LeaderEpoch, NodeId, Offset, TopicPartition};
use crate::sim::Trace;

/// Records that are kept unless somebody asks for another number: about 16 MB if each has a batch of its own.
pub const DEFAULT_LIMIT: i64 = 20_000;

/// They are fewer where keys are long, or many groups read them over and over.
pub const MAX_BYTES: usize = 64 << 20;

/// So many events after each other all batches are weighed anew, since what is known of them has grown.
const WEIGHED_EVERY: u64 = 65_536;

/// What became of every record.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Events that were heard.
    heard: u64,
    /// Events that were gone from the trace before they were heard.
    missed: u64,
    limit: i64,
    max_bytes: usize,
    /// What the batches have in memory: what each had when it was last weighed, and with the records that came since.
    bytes: usize,
    /// The batches that are kept, the oldest first.
    batches: VecDeque<Rc<Batch>>,
    /// The number of the first of them.
    first: u64,
    records: i64,
    forgotten: Totals,
    nodes: BTreeMap<ClientName, NodeId>,
    producers: BTreeMap<NodeId, Producer>,
    /// The batches of requests of which no broker has said what it did.
    requests: BTreeMap<RequestMark, Vec<u64>>,
    partitions: BTreeMap<TopicPartition, Partition>,
    readers: BTreeMap<NodeId, Reader>,
    groups: BTreeMap<GroupId, BTreeMap<TopicPartition, Progress>>,
    /// Clients that have ended, the first first.
    ended: VecDeque<NodeId>,
    dropped: Dropped,
    /// When records were lost, one moment for all that were at one time; the newest.
    losses: VecDeque<Moment>,
}

/// So many moments of losses are kept.
const KEPT_LOSSES: usize = 1000;

/// Clients that have ended and are still known by name, the last that did.
const KEPT_ENDED: usize = 1000;

/// What the ledger has let go for its memory to be bounded, beside records ([`Totals::forgotten`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Clients that ended long ago: none of their records is found by its number any more.
    pub clients: i64,
}

/// A producer's process.
#[derive(Clone, Debug, Default)]
struct Producer {
    /// Records that its application has handed to send().
    made: i64,
    batches: BTreeMap<BatchId, u64>,
    /// The greatest record number that was stored in a partition, with its batch.
    furthest: BTreeMap<TopicPartition, (i64, u64)>,
    /// What the next record is made of.
    result_of: Option<Rc<Input>>,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new(DEFAULT_LIMIT)
    }
}

impl Ledger {
    /// Keeps all that there was, whatever it takes.
    pub fn whole() -> Ledger {
        Ledger { max_bytes: usize::MAX, ..Ledger::new(i64::MAX) }
    }

    /// Keeps so many records, in [`MAX_BYTES`].
    pub fn new(limit: i64) -> Ledger {
        Ledger {
            heard: 0,
            missed: 0,
            limit,
            max_bytes: MAX_BYTES,
            bytes: 0,
            batches: VecDeque::new(),
            first: 0,
            records: 0,
            forgotten: Totals::default(),
            nodes: BTreeMap::new(),
            producers: BTreeMap::new(),
            requests: BTreeMap::new(),
            partitions: BTreeMap::new(),
            readers: BTreeMap::new(),
            groups: BTreeMap::new(),
            ended: VecDeque::new(),
            dropped: Dropped::default(),
            losses: VecDeque::new(),
        }
    }

    /// The ledger of a run up to now.
    pub fn of(trace: &Trace) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.follow(trace);
        ledger
    }

    /// Takes in what has happened since.
    pub fn follow(&mut self, trace: &Trace) {
        let first = trace.first_kept().max(self.heard);
        self.missed += first - self.heard;
        let mut event = first;
        trace.for_each_since(first, |entry| {
            self.hear(Moment { time: entry.key.time, event }, &entry.event);
            event += 1;
        });
        if self.heard / WEIGHED_EVERY != trace.len_ever() / WEIGHED_EVERY {
            self.bytes = self.batches().map(Batch::bytes).sum();
            self.forget_oldest();
        }
        self.heard = trace.len_ever();
    }

    /// Events that were heard, and those that were missed. As long as it is the same, so is the ledger.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Events that were gone from the trace before the ledger heard them: what they changed is not known here.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// When records were lost that somebody took for written: the first at each time, the newest of these.
    pub fn losses(&self) -> impl Iterator<Item = Moment> {
        self.losses.iter().copied()
    }

    /// Whether records were let go.
    pub fn has_forgotten(&self) -> bool {
        self.forgotten.forgotten > 0
    }

    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// How many records are kept.
    pub fn records(&self) -> i64 {
        self.records
    }

    /// What is kept of records has so many bytes in memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The batches that are kept, the oldest first; those that were split are empty.
    pub fn batches(&self) -> impl DoubleEndedIterator<Item = &Batch> {
        self.batches.iter().map(|batch| &**batch)
    }

    /// The record of which a copy is, or was, at this offset, with its batch: the one in place, else the newest that was
    /// there.
    pub fn record_at(&self, tp: &TopicPartition, offset: Offset) -> Option<(&Batch, &Record)> {
        let partition = self.partitions.get(tp)?;
        let in_place = partition.entries(offset, offset + 1, None).next();
        let ever = || {
            let batches = self.batches().rev().filter(|batch| batch.tp == *tp);
            let reaches = |copy: &&Copy, batch: &Batch| {
                copy.base <= offset && offset < copy.base + batch.records.len() as i64
            };
            batches
                .flat_map(|batch| batch.copies.iter().map(move |copy| (batch, copy)))
                .find(|(batch, copy)| reaches(copy, batch))
        };
        let (batch, base) = match in_place {
            Some((base, entry)) => (self.batch(entry.batch)?, base),
            None => ever().map(|(batch, copy)| (batch, copy.base))?,
        };
        batch.records.get((offset - base) as usize).map(|record| (batch, record))
    }

    /// The record that a leader wrote at this offset in this epoch, with its batch.
    pub fn record_written(
        &self,
        tp: &TopicPartition,
        epoch: LeaderEpoch,
        offset: Offset,
    ) -> Option<(&Batch, &Record)> {
        let (base, entry) = self.partitions.get(tp)?.entries(offset, offset + 1, Some(epoch)).next()?;
        let batch = self.batch(entry.batch)?;
        batch.records.get((offset - base) as usize).map(|record| (batch, record))
    }

    /// A producer's record by its number, of the newest process of this name.
    pub fn record_of(&self, client: &ClientName, number: i64) -> Option<(&Batch, &Record)> {
        let node = self.nodes.get(client)?;
        let batches = self.batches().filter(|batch| batch.node == *node);
        batches
            .flat_map(|batch| batch.records.iter().map(move |record| (batch, record)))
            .find(|(_, record)| record.number == number)
    }

    fn batch(&self, number: u64) -> Option<&Batch> {
        self.batches.get(number.checked_sub(self.first)? as usize).map(|batch| &**batch)
    }

    fn batch_mut(&mut self, number: u64) -> Option<&mut Batch> {
        self.batches.get_mut(number.checked_sub(self.first)? as usize).map(Rc::make_mut)
    }

    /// Changes what is known of a batch, and notes if its records are lost by that.
    fn change_batch(&mut self, at: Moment, number: u64, change: impl FnOnce(&mut Batch)) {
        let Some(batch) = self.batch_mut(number) else { return };
        let was_lost = batch.is_lost();
        change(batch);
        if !was_lost && batch.is_lost() && self.losses.back().is_none_or(|last| last.time != at.time) {
            if self.losses.len() == KEPT_LOSSES {
                self.losses.pop_front();
            }
            self.losses.push_back(at);
        }
    }

    fn push(&mut self, batch: Batch) -> u64 {
        self.bytes += batch.bytes();
        self.batches.push_back(Rc::new(batch));
        self.first + self.batches.len() as u64 - 1
    }

    /// Lets the oldest go until there are no more than may be kept.
    fn forget_oldest(&mut self) {
        while self.records > self.limit || self.bytes > self.max_bytes {
            let Some(oldest) = self.batches.front() else { return };
            let counted = self.totals_of(oldest);
            let Some(oldest) = self.batches.pop_front() else { return };
            let number = self.first;
            self.first += 1;
            self.records -= oldest.records.len() as i64;
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
            self.forgotten.add(&counted);
            if let Some(partition) = self.partitions.get_mut(&oldest.tp) {
                oldest.copies.iter().for_each(|copy| partition.forget(copy.base, number));
            }
            if let (Some(producer), Some(id)) = (self.producers.get_mut(&oldest.node), oldest.id) {
                producer.batches.remove(&id);
            }
            for sent in &oldest.sends {
                self.take_request(sent.request, |batch| batch == number);
            }
        }
    }

    /// The batch of a request that fits, of which there is news.
    fn take_request(&mut self, request: RequestMark, fits: impl Fn(u64) -> bool) -> Option<u64> {
        let batches = self.requests.get_mut(&request)?;
        let index = batches.iter().position(|batch| fits(*batch))?;
        let found = batches.swap_remove(index);
        if batches.is_empty() {
            self.requests.remove(&request);
        }
        Some(found)
    }

    fn apply(&mut self, at: Moment, changes: Vec<Change>) {
        for change in changes {
            self.change_batch(at, change.batch, |batch| {
                if let Some(copy) = batch.copies.get_mut(change.copy) {
                    copy.gone = change.why.map(|why| Gone { at, why });
                }
            });
        }
    }
}
