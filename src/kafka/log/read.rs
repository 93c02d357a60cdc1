//! Reads: whole batches for fetches, records for those who look (Kafka's `UnifiedLog.read`, `LogSegment`).
//!
//! **Invariant:** a read never changes the log and never returns part of a batch.

use bytes::{Bytes, BytesMut};

use super::Log;
use super::producers::AbortedTransaction;
use super::segment::Segment;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, BatchError, Record};
use crate::kafka::types::{LeaderEpoch, Offset};

/// How far a reader may read (`FetchIsolation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// A replica.
    LogEnd,
    /// A consumer with `isolation.level=read_uncommitted`.
    HighWatermark,
    /// A consumer with `isolation.level=read_committed`.
    TxnCommitted,
}

/// What a fetch returns of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResult {
    /// Whole batches; the first may start below the offset that was asked for (R-LOG-26).
    pub records: Bytes,
    /// Behind the last record; the offset that was asked for if there is none.
    pub next_offset: Offset,
}

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordAtTime {
    pub offset: Offset,
    pub timestamp_ms: i64,
    pub leader_epoch: LeaderEpoch,
}

impl Log {
    /// Where reading ends (R-LOG-25).
    pub fn read_bound(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::LogEnd => self.log_end_offset,
            Isolation::HighWatermark => self.high_watermark,
            Isolation::TxnCommitted => self.last_stable_offset(),
        }
    }

    /// The batches from the one that holds `from` up to `bound`, and not past the end of a segment ([`Log::read_bound`]).
    /// OFFSET_OUT_OF_RANGE outside of the log; at or behind `bound` there is nothing (R-LOG-25).
    ///
    /// At most `max_bytes`, except that with `min_one_message` the first batch comes at any size (R-LOG-26).
    pub fn read(
        &self,
        from: Offset,
        bound: Offset,
        max_bytes: i32,
        min_one_message: bool,
    ) -> Result<ReadResult, ErrorCode> {
        if from < self.log_start_offset || from > self.log_end_offset {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let mut candidates = self.chunks.from(from).peekable();
        let segment = candidates.peek().and_then(|first| self.segments.floor(first.base_offset()));
        let segment_end = segment.and_then(|(_, next)| next).unwrap_or(self.log_end_offset);
        let mut size_bytes = 0_i64;
        let mut is_first = true;
        let fits = |batch: &&Batch| {
            size_bytes += i64::from(batch.size_bytes());
            let is_free = std::mem::take(&mut is_first) && min_one_message;
            let is_within = batch.last_offset() < bound && batch.base_offset() < segment_end;
            is_within && (is_free || size_bytes <= i64::from(max_bytes))
        };
        let batches: Vec<_> = candidates.take_while(fits).collect();
        Ok(join(from, &batches))
    }

    /// The aborted transactions that a reader of committed data gets with `read`, oldest first (R-LOG-27). They are found
    /// by the sparse index, so some may lie behind what was read.
    pub fn aborted_transactions(&self, from: Offset, read: &ReadResult) -> Vec<AbortedTransaction> {
        let tells = !read.records.is_empty() && !plant::is(Plant::AbortedVisible);
        let Some(first) = self.chunks.from(from).next().filter(|_| tells) else { return Vec::new() };
        let Some((segment, next)) = self.segments.floor(first.base_offset()) else { return Vec::new() };
        let read_end = self.position_of(segment, first.base_offset()) + read.records.len() as i64;
        let indexed = segment.position_behind(read_end).map(|entry| entry.offset);
        let upper_bound = indexed.or(next).unwrap_or(self.log_end_offset);
        self.aborted_between(first.base_offset(), (from, upper_bound))
    }

    /// From the indexes of the segment that holds `offset` and those behind it: what overlaps with `[from, to)`.
    pub(super) fn aborted_between(
        &self,
        offset: Offset,
        (from, to): (Offset, Offset),
    ) -> Vec<AbortedTransaction> {
        let mut found = Vec::new();
        for aborted in self.segments.from(offset).flat_map(Segment::aborted_transactions) {
            if aborted.last_offset >= from && aborted.first_offset < to {
                found.push(*aborted);
            }
            if aborted.last_stable_offset >= to {
                break;
            }
        }
        found
    }

    /// Where the batch that holds `offset` starts in the segment's file.
    fn position_of(&self, segment: &Segment, offset: Offset) -> i64 {
        let indexed = segment.position_before(offset);
        let before = self.chunks.from(indexed.offset).take_while(|batch| batch.last_offset() < offset);
        indexed.position_bytes + before.map(|batch| i64::from(batch.size_bytes())).sum::<i64>()
    }

    /// The batch that holds `offset`, or else the next one, and all that follow.
    pub fn batches_from(&self, offset: Offset) -> impl DoubleEndedIterator<Item = &Batch> + Clone {
        self.chunks.from(offset)
    }

    /// How many bytes there are to read from `from` on below `bound`, in whole batches; counted until there are `enough`.
    pub fn readable_bytes(&self, from: Offset, bound: Offset, enough: i64) -> i64 {
        let mut bytes = 0;
        for batch in self.batches_from(from).take_while(|batch| batch.base_offset() < bound) {
            bytes += i64::from(batch.size_bytes());
            if bytes >= enough {
                break;
            }
        }
        bytes
    }

    /// The records of `[from, to)` that can be read.
    pub fn records_between(&self, from: Offset, to: Offset) -> Result<Vec<Record>, BatchError> {
        let from = from.max(self.log_start_offset);
        let mut found = Vec::new();
        for batch in self.chunks.from(from).take_while(|batch| batch.base_offset() < to) {
            found.extend(
                batch.records()?.into_iter().filter(|record| record.offset >= from && record.offset < to),
            );
        }
        Ok(found)
    }

    /// The last `count` records.
    pub fn tail(&self, count: i64) -> Result<Vec<Record>, BatchError> {
        let mut missing = count;
        let mut from = self.log_end_offset;
        for batch in self.chunks.iter().rev().take_while(|batch| batch.last_offset() >= self.log_start_offset)
        {
            if missing <= 0 {
                break;
            }
            missing -= i64::from(batch.record_count());
            from = batch.base_offset();
        }
        let mut found = self.records_between(from, self.log_end_offset)?;
        let excess = found.len().saturating_sub(usize::try_from(count).unwrap_or(0));
        found.drain(..excess);
        Ok(found)
    }

    /// The first record whose timestamp is at least `timestamp_ms` (R-LOG-28), looked for in the first segment that can
    /// have one.
    pub fn offset_for_timestamp(&self, timestamp_ms: i64) -> Result<Option<RecordAtTime>, BatchError> {
        let start = self.log_start_offset;
        let has_it = |segment: &&Segment| segment.largest_timestamp_ms() >= timestamp_ms;
        let Some(segment) = self.segments.iter().find(has_it) else { return Ok(None) };
        let from = segment.position_before(segment.offset_before_time(timestamp_ms).max(start)).offset;
        let is_later = |batch: &&Batch| batch.max_timestamp_ms() >= timestamp_ms;
        for batch in self.batches_of(segment, from).filter(is_later) {
            let is_it = |record: &Record| record.offset >= start && record.timestamp_ms >= timestamp_ms;
            if let Some(record) = batch.records()?.into_iter().find(is_it) {
                return Ok(Some(RecordAtTime {
                    offset: record.offset,
                    timestamp_ms: record.timestamp_ms,
                    leader_epoch: batch.leader_epoch(),
                }));
            }
        }
        Ok(None)
    }

    /// The first record of the greatest timestamp (MAX_TIMESTAMP, R-LOG-28).
    pub fn offset_of_max_timestamp(&self) -> Result<Option<RecordAtTime>, BatchError> {
        // The first of those that are equal, which `max_by_key` would not give.
        let greatest = |segment: &Segment| segment.greatest_timestamp().map(|greatest| greatest.timestamp_ms);
        let Some(timestamp_ms) = self.segments.iter().filter_map(greatest).max() else { return Ok(None) };
        let has_it = |segment: &&Segment| greatest(segment) == Some(timestamp_ms);
        let Some(segment) = self.segments.iter().find(has_it) else { return Ok(None) };
        let mut batches = self.batches_of(segment, segment.base_offset());
        let Some(batch) = batches.find(|batch| batch.max_timestamp_ms() == timestamp_ms) else {
            return Ok(None);
        };
        let is_it = |record: &Record| record.timestamp_ms == timestamp_ms;
        let found = batch.records()?.into_iter().find(is_it);
        Ok(found.map(|record| RecordAtTime {
            offset: record.offset,
            timestamp_ms,
            leader_epoch: batch.leader_epoch(),
        }))
    }

    pub(super) fn batches_of(
        &self,
        segment: &Segment,
        from: Offset,
    ) -> impl Iterator<Item = &Batch> + use<'_> {
        let end = self.segments.floor(segment.base_offset()).and_then(|(_, next)| next);
        let end = end.unwrap_or(self.log_end_offset);
        self.chunks.from(from.max(segment.base_offset())).take_while(move |batch| batch.base_offset() < end)
    }
}

/// One batch is shared; several are copied into one piece.
fn join(from: Offset, batches: &[&Batch]) -> ReadResult {
    let next_offset = batches.last().map_or(from, |last| last.next_offset());
    let records = match batches {
        [] => Bytes::new(),
        [only] => only.bytes().clone(),
        several => {
            let size = several.iter().map(|batch| batch.bytes().len()).sum();
            let mut joined = BytesMut::with_capacity(size);
            several.iter().for_each(|batch| joined.extend_from_slice(batch.bytes()));
            joined.freeze()
        }
    };
    ReadResult { records, next_offset }
}
