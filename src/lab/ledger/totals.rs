//! Counts of what records have come to, for each partition and for each group in it, with the first example of each.
//!
//! **Invariant:** every record that was produced is counted once in each count that it belongs to, whether it is still kept
//! or not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Batch, Ledger, Moment, Record, Seen};
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
    /// When it came to what it stands for.
    pub at: Moment,
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
    fn note(&mut self, index: usize, at: Moment, example: impl FnOnce(Moment) -> Example) {
        let tally = &mut self.0[index];
        tally.count += 1;
        if tally.first.as_ref().is_none_or(|first| at < first.at) {
            tally.first = Some(example(at));
        }
    }

    fn add(&mut self, other: &Tallies<N>) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            own.count += other.count;
            let is_earlier = |first: &Example| own.first.as_ref().is_none_or(|own| first.at < own.at);
            if other.first.as_ref().is_some_and(is_earlier) {
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
            let example = |at| example_of(batch, index, record, at);
            for count in Count::ALL.iter().filter(|count| verdict.is(**count, batch)) {
                of_records.note(*count as usize, batch.came_to(*count, record, &verdict), example);
            }
            for seen in &record.seen {
                let of_group = totals.groups.entry((seen.group.clone(), tp.clone())).or_default();
                for count in GroupCount::ALL.iter().filter(|count| self.is_seen_as(seen, **count)) {
                    of_group.note(*count as usize, seen.came_to(*count, record), example);
                }
            }
            let missed = verdict.missed.iter();
            let missed = missed.map(|missed| (&missed.group, GroupCount::Missed, missed.why.at()));
            let waiting = verdict.waiting.iter().map(|group| (group, GroupCount::Waiting, record.made));
            for (group, count, at) in missed.chain(waiting) {
                let of_group = totals.groups.entry((group.clone(), tp.clone())).or_default();
                of_group.note(count as usize, at, example);
            }
        }
    }

    /// Whether a record that the group has met is counted so. What it has missed or will still meet is the record's verdict.
    pub(super) fn is_seen_as(&self, seen: &Seen, count: GroupCount) -> bool {
        let holder = || self.holder(seen).filter(|_| seen.processed == 0);
        match count {
            GroupCount::Delivered => seen.delivered > 0,
            GroupCount::InHand => holder().is_some(),
            GroupCount::Stuck => holder().is_some_and(|holder| holder.stuck.is_some()),
            GroupCount::Processed => seen.processed > 0,
            GroupCount::ProcessedTwice => seen.processed > 1,
            GroupCount::OutOfOrder => seen.out_of_order,
            GroupCount::WithResult => !seen.results.is_empty() && self.results_of(seen) > 0,
            GroupCount::WithResults => seen.results.len() > 1 && self.results_of(seen) > 1,
            GroupCount::Missed | GroupCount::Waiting => false,
        }
    }
}

pub(super) fn example_of(batch: &Batch, index: i64, record: &Record, at: Moment) -> Example {
    let copy = batch.in_place().next().or(batch.copies.last());
    Example {
        client: batch.client.clone(),
        number: record.number,
        tp: batch.tp.clone(),
        offset: copy.map(|copy| copy.base + index),
        made: record.made,
        at,
    }
}
