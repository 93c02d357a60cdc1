//! Counts of what records have come to, for each topic and for each group in it, with the first example of each.
//!
//! **Invariant:** every record that was produced is counted once in each count that it belongs to, whether it is still kept
//! or not.

use std::collections::BTreeMap;
use std::fmt;

use super::judge::{Fate, Verdict};
use super::{Batch, Ledger, Moment, Record, Transaction};
use crate::kafka::types::{ClientName, GroupId, Offset, Topic, TopicPartition};

macro_rules! counts {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word for it, in tables and in expectations.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}

counts! {
    /// What can be said of the records of a topic.
    Count {
        /// Handed to send().
        Produced = "produced",
        /// Told to be written; with acks=0, sent.
        Acknowledged = "acknowledged",
        /// Told not to be written.
        Failed = "failed",
        /// Told neither.
        Unanswered = "unanswered",
        /// In the partition's log.
        Stored = "stored",
        /// More than once.
        StoredTwice = "stored twice",
        /// Told to be written, and not there any more although nobody asked for that.
        Lost = "lost",
        /// Told not to be written, and there.
        FailedYetStored = "failed yet stored",
        /// One that was made later stands before it.
        Reordered = "reordered",
        /// Of a transaction that has not ended: nobody who reads committed data sees it yet.
        Open = "open",
        /// Of a transaction that was aborted: nobody who reads committed data ever sees it.
        Aborted = "aborted",
        /// Dropped by the cleaner.
        Compacted = "compacted",
        /// Taken away by retention or DeleteRecords.
        Removed = "removed",
        /// Gone with its topic.
        Deleted = "deleted",
    }
}

counts! {
    /// What can be said of a group and the records of a topic.
    GroupCount {
        /// Returned by poll() to a member at least once.
        Delivered = "delivered",
        /// Finished by a member's application at least once.
        Processed = "processed",
        /// More than once.
        ProcessedTwice = "processed twice",
        /// Neither processed nor to be processed any more.
        Missed = "missed",
        /// Processed after a later one of its partition.
        OutOfOrder = "out of order",
    }
}

/// A record that stands for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    pub client: ClientName,
    /// Of the producer's records.
    pub number: i64,
    pub tp: TopicPartition,
    /// Where it is or was.
    pub offset: Option<Offset>,
    pub made: Moment,
}

impl fmt::Display for Example {
    /// `orders-0 17 (record 40 of checkout-api)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(offset) = self.offset {
            return write!(f, "{} {offset} (record {} of {})", self.tp, self.number, self.client);
        }
        write!(f, "{} {}, never stored", self.client, self.number)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    count: i64,
    first: Option<Example>,
}

/// Counts of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallies<const N: usize>([Tally; N]);

pub type TopicTotals = Tallies<{ Count::ALL.len() }>;
pub type GroupTotals = Tallies<{ GroupCount::ALL.len() }>;

impl<const N: usize> Default for Tallies<N> {
    fn default() -> Self {
        Tallies(std::array::from_fn(|_| Tally::default()))
    }
}

impl<const N: usize> Tallies<N> {
    fn note(&mut self, index: usize, example: impl FnOnce() -> Example) {
        let tally = &mut self.0[index];
        tally.count += 1;
        tally.first.get_or_insert_with(example);
    }

    fn add(&mut self, other: Tallies<N>) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            own.count += other.count;
            own.first = own.first.take().or(other.first);
        }
    }
}

impl TopicTotals {
    pub fn count(&self, of: Count) -> i64 {
        self.0[of as usize].count
    }

    pub fn first(&self, of: Count) -> Option<&Example> {
        self.0[of as usize].first.as_ref()
    }
}

impl GroupTotals {
    pub fn count_of(&self, of: GroupCount) -> i64 {
        self.0[of as usize].count
    }

    pub fn first_of(&self, of: GroupCount) -> Option<&Example> {
        self.0[of as usize].first.as_ref()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub topics: BTreeMap<Topic, TopicTotals>,
    pub groups: BTreeMap<(GroupId, Topic), GroupTotals>,
    /// Of the records that are counted here, those that the ledger does not keep any more: they are counted as they stood then.
    pub forgotten: i64,
}

impl Totals {
    pub(super) fn add(&mut self, other: Totals) {
        self.forgotten += other.forgotten;
        for (topic, totals) in other.topics {
            self.topics.entry(topic).or_default().add(totals);
        }
        for (key, totals) in other.groups {
            self.groups.entry(key).or_default().add(totals);
        }
    }

    /// Over all topics.
    pub fn count(&self, of: Count) -> i64 {
        self.topics.values().map(|totals| totals.count(of)).sum()
    }

    /// Of one group over all topics.
    pub fn count_of(&self, group: &GroupId, of: GroupCount) -> i64 {
        let of_group = self.groups.iter().filter(|((id, _), _)| id == group);
        of_group.map(|(_, totals)| totals.count_of(of)).sum()
    }
}

impl Ledger {
    /// Everything counted, as it stands now.
    pub fn totals(&self) -> Totals {
        let mut totals = self.forgotten.clone();
        self.batches.iter().for_each(|batch| self.count_batch(batch, &mut totals));
        totals
    }

    /// What a batch comes to that is about to be forgotten.
    pub(super) fn totals_of(&self, batch: &Batch) -> Totals {
        let mut totals = Totals { forgotten: batch.records.len() as i64, ..Totals::default() };
        self.count_batch(batch, &mut totals);
        totals
    }

    fn count_batch(&self, batch: &Batch, totals: &mut Totals) {
        if batch.records.is_empty() {
            return;
        }
        let topic = &batch.tp.topic;
        if !totals.topics.contains_key(topic) {
            totals.topics.insert(topic.clone(), TopicTotals::default());
        }
        for (index, record) in (0..).zip(&batch.records) {
            let verdict = self.judge_at(batch, index, record);
            let example = || example_of(batch, index, record);
            if let Some(of_topic) = totals.topics.get_mut(topic) {
                count_record(of_topic, batch, &verdict, example);
            }
            for seen in &record.seen {
                let of_group = totals.groups.entry((seen.group.clone(), topic.clone())).or_default();
                let counted = [
                    (GroupCount::Delivered, seen.delivered > 0),
                    (GroupCount::Processed, seen.processed > 0),
                    (GroupCount::ProcessedTwice, seen.processed > 1),
                    (GroupCount::OutOfOrder, seen.out_of_order),
                ];
                for (count, _) in counted.iter().filter(|(_, is_so)| *is_so) {
                    of_group.note(*count as usize, example);
                }
            }
            for missed in &verdict.missed {
                let of_group = totals.groups.entry((missed.group.clone(), topic.clone())).or_default();
                of_group.note(GroupCount::Missed as usize, example);
            }
        }
    }
}

fn count_record(totals: &mut TopicTotals, batch: &Batch, verdict: &Verdict, example: impl Fn() -> Example) {
    let was_told = verdict.acknowledged || matches!(batch.told, super::Told::Error { .. });
    let is_open = verdict.transaction == Some(Transaction::Open);
    let is_aborted = matches!(verdict.transaction, Some(Transaction::Ended { committed: false, .. }));
    let counted = [
        (Count::Produced, true),
        (Count::Acknowledged, verdict.acknowledged),
        (Count::Failed, was_told && !verdict.acknowledged),
        (Count::Unanswered, !was_told),
        (Count::Stored, verdict.fate == Fate::Stored),
        (Count::StoredTwice, verdict.offsets.len() > 1),
        (Count::Lost, matches!(verdict.fate, Fate::Lost(_))),
        (Count::FailedYetStored, verdict.failed_yet_stored),
        (Count::Reordered, verdict.reordered),
        (Count::Open, is_open),
        (Count::Aborted, is_aborted),
        (Count::Compacted, matches!(verdict.fate, Fate::Compacted(_))),
        (Count::Removed, matches!(verdict.fate, Fate::Removed(_))),
        (Count::Deleted, matches!(verdict.fate, Fate::Deleted(_))),
    ];
    for (count, _) in counted.iter().filter(|(_, is_so)| *is_so) {
        totals.note(*count as usize, &example);
    }
}

fn example_of(batch: &Batch, index: i64, record: &Record) -> Example {
    let copy = batch.in_place().next().or(batch.copies.last());
    Example {
        client: batch.client.clone(),
        number: record.number,
        tp: batch.tp.clone(),
        offset: copy.map(|copy| copy.base + index),
        made: record.made,
    }
}
