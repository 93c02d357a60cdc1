//! Compaction: the last value of each key stays (Kafka's `Cleaner`, `LogCleanerManager`, `CleanedTransactionMetadata`).
//!
//! **Invariant:** no offset changes, and nothing at or above the last stable offset or in the active segment is touched.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::Log;
use super::config::LogConfig;
use super::producers::AbortedTransaction;
use super::segment::Segment;
use crate::kafka::plant::{self, Plant};
use crate::kafka::record::{Batch, BatchBuilder, BatchError, BatchParameters, Record};
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, ProducerId};

/// What a cleaning would work on (R-LOG-38, R-LOG-39).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanable {
    /// Below it the log was cleaned before.
    pub first_dirty_offset: Offset,
    /// From here on records have to stay: open transactions, the active segment, the compaction lag.
    pub bound: Offset,
    /// The base of the segment that holds `bound`: whole segments are cleaned.
    pub first_uncleanable_offset: Offset,
    /// Of the segments that begin below the first dirty offset (`LogToClean`).
    pub clean_bytes: i64,
    /// Of the segments from the one that holds the first dirty offset up to `first_uncleanable_offset`
    /// (`calculateCleanableBytes`).
    pub cleanable_bytes: i64,
    /// The first timestamp of the oldest segment that was not cleaned.
    pub oldest_dirty_ms: Option<i64>,
}

impl Cleanable {
    /// Whether there is nothing to clean.
    pub fn is_empty(&self) -> bool {
        self.bound <= self.first_dirty_offset
    }

    /// Whether there is anything at all in the two parts.
    pub fn has_bytes(&self) -> bool {
        self.clean_bytes + self.cleanable_bytes > 0
    }

    /// The share of dirty bytes against another log's.
    pub fn compare_ratio(&self, other: &Cleanable) -> std::cmp::Ordering {
        let total = |cleanable: &Cleanable| i128::from(cleanable.clean_bytes + cleanable.cleanable_bytes);
        let own = i128::from(self.cleanable_bytes) * total(other);
        own.cmp(&(i128::from(other.cleanable_bytes) * total(self)))
    }

    /// Whether so much is dirty, or for so long, that the log is to be cleaned (R-LOG-39).
    pub fn is_due(&self, now: Time, config: &LogConfig) -> bool {
        let total_bytes = self.clean_bytes + self.cleanable_bytes;
        let is_dirty = self.cleanable_bytes * 1_000_000 > config.min_cleanable_dirty_ratio_ppm * total_bytes;
        let must_be_older_than_ms = now.wall_ms().saturating_sub(config.max_compaction_lag_ms);
        let is_late = self.oldest_dirty_ms.is_some_and(|oldest_ms| oldest_ms < must_be_older_than_ms);
        is_dirty || (is_late && self.cleanable_bytes > 0)
    }
}

/// What a cleaning did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The next cleaning starts here.
    pub end: Offset,
    /// Of the segments that were read.
    pub before: Contents,
    /// Of those that were written in their place.
    pub after: Contents,
    /// The records that are gone.
    pub gone: Vec<Offset>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contents {
    pub records: i64,
    pub bytes: i64,
}

impl Contents {
    fn add(&mut self, batch: &Batch) {
        self.records += i64::from(batch.record_count());
        self.bytes += i64::from(batch.size_bytes());
    }
}

/// Which transactions, at the place that reading has come to, were aborted, and whether any of their batches are left.
#[derive(Default)]
struct Transactions {
    /// By first offset.
    to_come: BTreeMap<Offset, AbortedTransaction>,
    /// With whether a batch of it was seen.
    aborted: BTreeMap<ProducerId, (AbortedTransaction, bool)>,
    committed: BTreeSet<ProducerId>,
    /// Those that a reader still has to be told of.
    kept: Vec<AbortedTransaction>,
}

impl Transactions {
    fn add(&mut self, aborted: impl IntoIterator<Item = AbortedTransaction>) {
        self.to_come.extend(aborted.into_iter().map(|each| (each.first_offset, each)));
    }

    /// Whether the batch may go: its records were taken back, or it is a marker of a transaction of which nothing is left
    /// (R-LOG-45).
    fn may_go(&mut self, batch: &Batch) -> Result<bool, BatchError> {
        while let Some(next) = self.to_come.first_entry().filter(|next| *next.key() <= batch.last_offset()) {
            let aborted = next.remove();
            self.aborted.entry(aborted.producer).or_insert((aborted, false));
        }
        let id = batch.producer_id();
        if !batch.is_control() {
            if !batch.is_transactional() {
                return Ok(false);
            }
            let Some((_, was_seen)) = self.aborted.get_mut(&id) else {
                self.committed.insert(id);
                return Ok(false);
            };
            *was_seen = true;
            return Ok(true);
        }
        if batch.control_record()?.is_none() {
            return Ok(true);
        }
        Ok(match batch.end_transaction_marker()? {
            Some(marker) if marker.committed => !self.committed.remove(&id),
            Some(_) => match self.aborted.remove(&id) {
                Some((aborted, true)) => {
                    self.kept.push(aborted);
                    false
                }
                _ => true,
            },
            None => false,
        })
    }
}

/// The records of a batch that are not in what is left of it.
fn missing(batch: &Batch, left: Option<&Batch>) -> Result<Vec<Offset>, BatchError> {
    if left.is_some_and(|left| left.record_count() == batch.record_count()) {
        return Ok(Vec::new());
    }
    let kept = left.map_or(Ok(Vec::new()), Batch::records)?;
    let kept: BTreeSet<Offset> = kept.iter().map(|record| record.offset).collect();
    let offsets = batch.records()?.into_iter().map(|record| record.offset);
    Ok(offsets.filter(|offset| !kept.contains(offset)).collect())
}

/// The last offset of each key in the dirty part, and up to where that part was read.
struct OffsetMap {
    last: BTreeMap<Bytes, Offset>,
    end: Offset,
}

impl OffsetMap {
    /// R-LOG-41, R-LOG-42: records without a key go.
    fn keeps(&self, batch: &Batch, record: &Record, now_ms: i64) -> bool {
        if record.offset >= self.end {
            return true;
        }
        let Some(key) = &record.key else { return false };
        let is_last = self.last.get(key).is_none_or(|last| {
            if plant::is(Plant::CompactionDropsNewest) {
                record.offset < *last
            } else {
                record.offset >= *last
            }
        });
        let keeps_tombstones = batch.delete_horizon_ms().is_none_or(|horizon_ms| now_ms < horizon_ms);
        is_last && (record.value.is_some() || keeps_tombstones)
    }
}

impl Log {
    /// What there is to clean after a cleaning that came to `checkpoint` (R-LOG-38, R-LOG-40).
    pub fn cleanable(&self, checkpoint: Option<Offset>, now: Time, config: &LogConfig) -> Cleanable {
        let start = self.log_start_offset;
        let is_valid = |offset: &Offset| *offset >= start && *offset <= self.log_end_offset;
        let first_dirty_offset = checkpoint.filter(is_valid).unwrap_or(start);
        let active = self.segments.active().base_offset();
        let is_young = |segment: &&Segment| {
            segment.largest_timestamp_ms() > now.wall_ms() - config.min_compaction_lag_ms
        };
        let closed = self.segments.from(first_dirty_offset).filter(|segment| segment.base_offset() < active);
        let closed: Vec<_> = closed.collect();
        let has_lag = config.min_compaction_lag_ms > 0;
        let young = closed.iter().copied().filter(|_| has_lag).find(is_young);
        let young = young.map_or(active, Segment::base_offset);
        let bound = self.last_stable_offset().min(active).min(young).max(first_dirty_offset);
        let holder = self.segments.floor(bound).map(|(segment, _)| segment.base_offset());
        let first_uncleanable_offset = holder.unwrap_or(active);
        let below = |segment: &&Segment, to: Offset| segment.base_offset() < to;
        let clean = self.segments.iter().take_while(|segment| below(segment, first_dirty_offset));
        // The segment that holds the first dirty offset is the last of these too: it counts in both sums.
        let dirty = self.segments.from(first_dirty_offset);
        let dirty = dirty.take_while(|segment| below(segment, first_uncleanable_offset));
        Cleanable {
            first_dirty_offset,
            bound,
            first_uncleanable_offset,
            clean_bytes: clean.map(Segment::size_bytes).sum(),
            cleanable_bytes: dirty.map(Segment::size_bytes).sum(),
            oldest_dirty_ms: closed.iter().filter_map(|segment| segment.first_timestamp_ms()).min(),
        }
    }

    /// Cleans the log (R-LOG-41 to R-LOG-46).
    pub fn clean(
        &mut self,
        cleanable: Cleanable,
        now: Time,
        config: &LogConfig,
    ) -> Result<Cleaned, BatchError> {
        let bound = cleanable.first_uncleanable_offset;
        let map = self.offset_map(cleanable.first_dirty_offset, bound)?;
        let mut transactions = Transactions::default();
        let mut cleaned = Vec::new();
        let (mut before, mut after, mut gone) = (Contents::default(), Contents::default(), Vec::new());
        for group in self.group_segments(map.end, bound, config) {
            let first = group[0].base_offset();
            let mut segment = Segment::new(first, now.wall_ms());
            let mut batches = Vec::new();
            for source in &group {
                transactions.add(self.aborted_from(source));
                for batch in self.batches_of(source, source.base_offset()) {
                    before.add(batch);
                    let left = self.cleaned(batch, &map, &mut transactions, bound, now, config)?;
                    gone.extend(missing(batch, left.as_ref())?);
                    if let Some(batch) = left {
                        after.add(&batch);
                        segment.append(&batch, now.wall_ms(), config);
                        batches.push(batch);
                    }
                }
            }
            segment.seal();
            transactions.kept.drain(..).for_each(|aborted| segment.add_aborted(aborted));
            segment.take_modified_of(group[group.len() - 1]);
            let bases: Vec<_> = group.iter().map(|source| source.base_offset()).collect();
            cleaned.push((bases, segment, batches));
        }
        for (bases, segment, batches) in cleaned {
            let last = bases[bases.len() - 1];
            let end = self.segments.floor(last).and_then(|(_, next)| next).unwrap_or(self.log_end_offset);
            self.chunks.replace((segment.base_offset(), end), batches);
            self.segments.replace(&bases, segment);
            bases[1..].iter().for_each(|base| self.producers.drop_snapshot(*base));
        }
        Ok(Cleaned { end: map.end, before, after, gone })
    }

    fn aborted_from(&self, segment: &Segment) -> Vec<AbortedTransaction> {
        let end = self.segments.floor(segment.base_offset()).and_then(|(_, next)| next);
        let end = end.unwrap_or(self.log_end_offset);
        self.aborted_between(segment.base_offset(), (self.log_start_offset, end))
    }

    /// R-LOG-41, first pass: records of aborted transactions do not count.
    fn offset_map(&self, start: Offset, bound: Offset) -> Result<OffsetMap, BatchError> {
        let mut map = OffsetMap { last: BTreeMap::new(), end: Offset::ZERO };
        if start >= bound {
            return Ok(map);
        }
        let mut transactions = Transactions::default();
        transactions.add(self.aborted_between(start, (self.log_start_offset, bound)));
        for batch in self.chunks.from(start).take_while(|batch| batch.base_offset() < bound) {
            if !transactions.may_go(batch)? && !batch.is_control() {
                for record in batch.records()?.into_iter().filter(|record| record.offset >= start) {
                    if let Some(key) = record.key {
                        map.last.insert(key, record.offset);
                    }
                }
            }
        }
        map.end = bound;
        Ok(map)
    }

    /// Segments that become one: as many neighbours as one segment holds (R-LOG-46).
    fn group_segments(&self, end: Offset, bound: Offset, config: &LogConfig) -> Vec<Vec<&Segment>> {
        let mut groups: Vec<Vec<&Segment>> = Vec::new();
        let mut size_bytes = 0;
        let segments: Vec<_> = self.segments.iter().filter(|segment| segment.base_offset() < end).collect();
        for (index, &segment) in segments.iter().enumerate() {
            let end = segments.get(index + 1).map_or(bound, |next| next.base_offset());
            let joins = |group: &Vec<&Segment>| {
                let spans = end - group[0].base_offset() - 1;
                size_bytes + segment.size_bytes() <= i64::from(config.segment_bytes)
                    && (segment.size_bytes() == 0 || spans <= i64::from(i32::MAX))
            };
            match groups.last_mut().filter(|group| joins(group)) {
                Some(group) => group.push(segment),
                None => {
                    groups.push(vec![segment]);
                    size_bytes = 0;
                }
            }
            size_bytes += segment.size_bytes();
        }
        groups
    }

    /// What stays of a batch (R-LOG-42 to R-LOG-45).
    fn cleaned(
        &self,
        batch: &Batch,
        map: &OffsetMap,
        transactions: &mut Transactions,
        bound: Offset,
        now: Time,
        config: &LogConfig,
    ) -> Result<Option<Batch>, BatchError> {
        let now_ms = now.wall_ms();
        let may_go = transactions.may_go(batch)?;
        let is_due = !batch.is_control() || batch.delete_horizon_ms().is_some_and(|at_ms| at_ms <= now_ms);
        let goes = may_go && is_due;
        let has_to_stay = self.is_last_of_producer(batch) || batch.next_offset() == bound;
        if goes && !has_to_stay {
            return Ok(None);
        }
        let records = batch.records()?;
        let keeps = |record: &&Record| !goes && (batch.is_control() || map.keeps(batch, record, now_ms));
        let kept: Vec<&Record> = records.iter().filter(keeps).collect();
        if kept.is_empty() {
            return Ok(has_to_stay.then(|| batch.emptied()));
        }
        let starts_horizon = (kept.iter().any(|record| record.value.is_none())
            || (may_go && batch.is_control()))
            && batch.delete_horizon_ms().is_none();
        if kept.len() == records.len() && !starts_horizon {
            return Ok(Some(batch.clone()));
        }
        let horizon_ms = starts_horizon.then_some(now_ms + config.delete_retention_ms);
        let mut builder = BatchBuilder::with(BatchParameters {
            compression: batch.compression()?,
            delete_horizon_ms: horizon_ms.or(batch.delete_horizon_ms()),
            ..BatchParameters::of(batch)
        });
        for record in kept {
            builder.append_at((record.offset - batch.base_offset()) as i32, &record.as_new());
        }
        Ok(Some(builder.build_up_to(batch.last_offset_delta())))
    }

    /// R-LOG-44: the batch that tells what a producer's next sequence number is.
    fn is_last_of_producer(&self, batch: &Batch) -> bool {
        let Some(producer) = self.producers.get(batch.producer_id()) else { return false };
        match producer.batches().last() {
            Some(last) => batch.last_offset() == last.last_offset,
            None => batch.is_control() && batch.producer_epoch() == producer.epoch(),
        }
    }
}
