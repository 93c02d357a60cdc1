//! Counts of what records have come to, for each partition and for each group in it, with the first example of each.
//!
//! **Invariant:** every record that was produced is counted once in each count that it belongs to, whether it is still kept
//! or not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::judge::{Fate, Verdict, Visible};
use super::{Batch, Ledger, Moment, Record, Seen, Transaction};
use crate::kafka::types::{ClientName, GroupId, Offset, Topic, TopicPartition};

macro_rules! counts {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $meaning:literal])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $meaning])* $variant,)*
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word for it, in tables and in expectations.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// Which records that are, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $($name::$variant => concat!($($meaning),*).trim_ascii_start(),)*
                }
            }
        }
    };
}

counts! {
    /// What can be said of the records of a partition.
    Count {
        /// Handed to send().
        Produced = "produced",
        /// Told to be written; with acks=0, sent.
        Acknowledged = "acknowledged",
        /// Told not to be written.
        Failed = "failed",
        /// Told nothing yet.
        Unanswered = "unanswered",
        /// In the partition's log.
        Stored = "stored",
        /// In the partition's log more than once.
        StoredTwice = "stored twice",
        /// Stored at or above the high watermark: nobody sees it yet.
        Unseen = "not visible",
        /// Stored below the high watermark, behind the beginning of an open transaction: nobody who reads committed data sees it yet.
        Withheld = "withheld",
        /// Told to be written, and not there any more although nobody asked for that.
        Lost = "lost",
        /// Told not to be written, and there.
        FailedYetStored = "failed yet stored",
        /// Behind one that the same producer made later.
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
    /// What can be said of a group and the records of a partition.
    GroupCount {
        /// Returned by poll() to a member at least once.
        Delivered = "delivered",
        /// A client that lives has it and has not finished it.
        InHand = "in hand",
        /// In hand of a client that hangs or stands still.
        Stuck = "stuck",
        /// Finished by a member's application at least once.
        Processed = "processed",
        /// Finished more than once.
        ProcessedTwice = "processed twice",
        /// Neither processed nor to be processed any more.
        Missed = "missed",
        /// Processed after a later one of its partition.
        OutOfOrder = "out of order",
        /// Visible, in nobody's hand and not finished: it will come to the group, for the first time or again.
        Waiting = "waiting",
        /// An application has made a record of it, which who reads committed data sees.
        WithResult = "with result",
        /// It has made more than one.
        WithResults = "with two results",
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

pub type RecordTotals = Tallies<{ Count::ALL.len() }>;
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

    fn add(&mut self, other: &Tallies<N>) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.count += other.count;
            if own.first.is_none() {
                own.first.clone_from(&other.first);
            }
        }
    }

    fn sum<'a>(of: impl Iterator<Item = &'a Tallies<N>>) -> Tallies<N> {
        of.fold(Tallies::default(), |mut sum, tallies| {
            sum.add(tallies);
            sum
        })
    }
}

impl RecordTotals {
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

/// The records that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Within {
    All,
    Topic(Topic),
    Partition(TopicPartition),
}

impl Within {
    pub fn contains(&self, tp: &TopicPartition) -> bool {
        match self {
            Within::All => true,
            Within::Topic(topic) => tp.topic == *topic,
            Within::Partition(partition) => tp == partition,
        }
    }
}

impl fmt::Display for Within {
    /// ` of orders`, ` of partition orders-0`, or nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Within::All => Ok(()),
            Within::Topic(topic) => write!(f, " of {topic}"),
            Within::Partition(tp) => write!(f, " of partition {tp}"),
        }
    }
}

/// All counts. Those of a topic are the sums of those of its partitions; partition -1 stands for none chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub partitions: BTreeMap<TopicPartition, RecordTotals>,
    pub groups: BTreeMap<(GroupId, TopicPartition), GroupTotals>,
    /// Of the records that are counted here, those that the ledger does not keep any more: they are counted as they stood then.
    pub forgotten: i64,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Totals) {
        self.forgotten += other.forgotten;
        for (tp, totals) in &other.partitions {
            self.partitions.entry(tp.clone()).or_default().add(totals);
        }
        for (key, totals) in &other.groups {
            self.groups.entry(key.clone()).or_default().add(totals);
        }
    }

    /// The topics that records were produced to.
    pub fn topics(&self) -> BTreeSet<&Topic> {
        self.partitions.keys().map(|tp| &tp.topic).collect()
    }

    /// The groups that have met records, each with the topics of these.
    pub fn groups(&self) -> BTreeSet<(&GroupId, &Topic)> {
        self.groups.keys().map(|(group, tp)| (group, &tp.topic)).collect()
    }

    /// Of all records there.
    pub fn records(&self, of: &Within) -> RecordTotals {
        Tallies::sum(self.partitions.iter().filter(|(tp, _)| of.contains(tp)).map(|(_, totals)| totals))
    }

    /// Of a group and all records there.
    pub fn group(&self, group: &GroupId, of: &Within) -> GroupTotals {
        let fits = |(by, tp): &(GroupId, TopicPartition)| by == group && of.contains(tp);
        Tallies::sum(self.groups.iter().filter(|(key, _)| fits(key)).map(|(_, totals)| totals))
    }

    /// Over all topics.
    pub fn count(&self, of: Count) -> i64 {
        self.partitions.values().map(|totals| totals.count(of)).sum()
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
        let tp = &batch.tp;
        let of_records = totals.partitions.entry(tp.clone()).or_default();
        let ends = self.ends(tp);
        for (index, record) in (0..).zip(&batch.records) {
            let verdict = self.judge_at(batch, index, record, &ends);
            let example = || example_of(batch, index, record);
            count_record(of_records, batch, &verdict, example);
            for seen in &record.seen {
                let of_group = totals.groups.entry((seen.group.clone(), tp.clone())).or_default();
                self.count_seen(of_group, seen, example);
            }
            let missed = verdict.missed.iter().map(|missed| (&missed.group, GroupCount::Missed));
            let waiting = verdict.waiting.iter().map(|group| (group, GroupCount::Waiting));
            for (group, count) in missed.chain(waiting) {
                let of_group = totals.groups.entry((group.clone(), tp.clone())).or_default();
                of_group.note(count as usize, example);
            }
        }
    }

    fn count_seen(&self, totals: &mut GroupTotals, seen: &Seen, example: impl Fn() -> Example) {
        let holder = self.holder(seen).filter(|_| seen.processed == 0);
        let results = self.results_of(seen);
        let counted = [
            (GroupCount::Delivered, seen.delivered > 0),
            (GroupCount::InHand, holder.is_some()),
            (GroupCount::Stuck, holder.is_some_and(|holder| holder.stuck.is_some())),
            (GroupCount::Processed, seen.processed > 0),
            (GroupCount::ProcessedTwice, seen.processed > 1),
            (GroupCount::OutOfOrder, seen.out_of_order),
            (GroupCount::WithResult, results > 0),
            (GroupCount::WithResults, results > 1),
        ];
        for (count, _) in counted.iter().filter(|(_, is_so)| *is_so) {
            totals.note(*count as usize, &example);
        }
    }
}

fn count_record(totals: &mut RecordTotals, batch: &Batch, verdict: &Verdict, example: impl Fn() -> Example) {
    let was_told = verdict.acknowledged || matches!(batch.told, super::Told::Error { .. });
    let is_open = verdict.transaction == Some(Transaction::Open);
    let is_aborted = matches!(verdict.transaction, Some(Transaction::Ended { committed: false, .. }));
    let is_stored = verdict.fate == Fate::Stored;
    let is_withheld = verdict.visible == Visible::ToReadUncommitted && !is_aborted;
    let counted = [
        (Count::Produced, true),
        (Count::Acknowledged, verdict.acknowledged),
        (Count::Failed, was_told && !verdict.acknowledged),
        (Count::Unanswered, !was_told),
        (Count::Stored, is_stored),
        (Count::Unseen, is_stored && verdict.visible == Visible::ToNobody),
        (Count::Withheld, is_withheld),
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
