//! A segment: a range of the log with its sparse indexes. The batches themselves lie in the log's chunks.
//!
//! Mirrors Kafka's `LogSegment`, `OffsetIndex`, `TimeIndex` and `TransactionIndex`.
//!
//! **Invariant:** index entries ascend, and each names a batch of this segment.

use std::rc::Rc;

use super::config::LogConfig;
use super::producers::AbortedTransaction;
use crate::kafka::record::Batch;
use crate::kafka::types::Offset;

const OFFSET_ENTRY_BYTES: i32 = 8;
const TIME_ENTRY_BYTES: i32 = 12;

/// An entry of the offset index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Last offset of a batch.
    pub offset: Offset,
    /// Where the batch starts in the segment's file.
    pub position_bytes: i64,
}

/// An entry of the time index: no record up to the offset is later than the timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    pub timestamp_ms: i64,
    pub offset: Offset,
}

/// What a roll is decided by: the append that is to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct RollParams {
    pub(super) max_timestamp_ms: i64,
    pub(super) last_offset: Offset,
    pub(super) size_bytes: i64,
    pub(super) now_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    base_offset: Offset,
    size_bytes: i64,
    created_ms: i64,
    modified_ms: i64,
    /// The greatest timestamp of the first batch.
    first_timestamp_ms: Option<i64>,
    greatest: Option<TimestampOffset>,
    unindexed_bytes: i64,
    offset_index: Rc<Vec<OffsetPosition>>,
    time_index: Rc<Vec<TimestampOffset>>,
    aborted: Rc<Vec<AbortedTransaction>>,
}

impl Segment {
    pub(super) fn new(base_offset: Offset, created_ms: i64) -> Segment {
        Segment {
            base_offset,
            size_bytes: 0,
            created_ms,
            modified_ms: created_ms,
            first_timestamp_ms: None,
            greatest: None,
            unindexed_bytes: 0,
            offset_index: Rc::default(),
            time_index: Rc::default(),
            aborted: Rc::default(),
        }
    }

    /// Of its first record when it was rolled; it names the files.
    pub fn base_offset(&self) -> Offset {
        self.base_offset
    }

    pub fn size_bytes(&self) -> i64 {
        self.size_bytes
    }

    pub fn offset_index(&self) -> &[OffsetPosition] {
        &self.offset_index
    }

    pub fn time_index(&self) -> &[TimestampOffset] {
        &self.time_index
    }

    /// The transaction index.
    pub fn aborted_transactions(&self) -> &[AbortedTransaction] {
        &self.aborted
    }

    /// The greatest timestamp so far, and the last offset of the first batch that had it.
    pub fn greatest_timestamp(&self) -> Option<TimestampOffset> {
        self.greatest
    }

    /// Of the first batch; `None` if there is none or it has no timestamp.
    pub(super) fn first_timestamp_ms(&self) -> Option<i64> {
        self.first_timestamp_ms.filter(|timestamp_ms| *timestamp_ms > 0)
    }

    /// By which retention and time lookups go; when the file was last written if no record has a timestamp (R-LOG-35).
    pub fn largest_timestamp_ms(&self) -> i64 {
        self.greatest.map_or(self.modified_ms, |greatest| greatest.timestamp_ms)
    }

    /// R-LOG-8.
    pub(super) fn should_roll(&self, append: RollParams, config: &LogConfig) -> bool {
        let waited_ms = self.time_waited_ms(append.now_ms, append.max_timestamp_ms);
        self.size_bytes > i64::from(config.segment_bytes) - append.size_bytes
            || (self.size_bytes > 0 && waited_ms > config.max_segment_ms())
            || self.offset_index.len() as i32 >= config.segment_index_bytes / OFFSET_ENTRY_BYTES
            || self.time_index.len() as i32 >= config.segment_index_bytes / TIME_ENTRY_BYTES - 1
            || append.last_offset - self.base_offset > i64::from(i32::MAX)
    }

    /// By the records' clock, so an idle segment never waits (R-LOG-9).
    fn time_waited_ms(&self, now_ms: i64, max_timestamp_ms: i64) -> i64 {
        match self.first_timestamp_ms {
            Some(first) if first >= 0 => max_timestamp_ms - first,
            _ => now_ms - self.created_ms,
        }
    }

    /// R-LOG-12.
    pub(super) fn append(&mut self, batch: &Batch, now_ms: i64, config: &LogConfig) {
        let (timestamp_ms, offset) = (batch.max_timestamp_ms(), batch.last_offset());
        self.first_timestamp_ms.get_or_insert(timestamp_ms);
        if timestamp_ms > self.greatest.map_or(-1, |greatest| greatest.timestamp_ms) {
            self.greatest = Some(TimestampOffset { timestamp_ms, offset });
        }
        if self.unindexed_bytes > i64::from(config.index_interval_bytes) {
            let position_bytes = self.size_bytes;
            Rc::make_mut(&mut self.offset_index).push(OffsetPosition { offset, position_bytes });
            self.index_time();
            self.unindexed_bytes = 0;
        }
        self.size_bytes += i64::from(batch.size_bytes());
        self.unindexed_bytes += i64::from(batch.size_bytes());
        self.modified_ms = now_ms;
    }

    fn index_time(&mut self) {
        let last = self.time_index.last().map_or(-1, |entry| entry.timestamp_ms);
        if let Some(greatest) = self.greatest.filter(|greatest| greatest.timestamp_ms > last) {
            Rc::make_mut(&mut self.time_index).push(greatest);
        }
    }

    /// No more appends: the time index learns of the last of them.
    pub(super) fn seal(&mut self) {
        self.index_time();
    }

    /// A cleaned segment is as old as what it was made of.
    pub(super) fn take_modified_of(&mut self, source: &Segment) {
        self.modified_ms = source.modified_ms;
    }

    pub(super) fn add_aborted(&mut self, aborted: AbortedTransaction) {
        Rc::make_mut(&mut self.aborted).push(aborted);
    }

    /// The last indexed place at or before `offset`, from where the batches are read on.
    pub(super) fn position_before(&self, offset: Offset) -> OffsetPosition {
        let later = self.offset_index.partition_point(|entry| entry.offset <= offset);
        let start = OffsetPosition { offset: self.base_offset, position_bytes: 0 };
        self.offset_index[..later].last().copied().unwrap_or(start)
    }

    /// The first indexed place at or behind a position in the file.
    pub(super) fn position_behind(&self, position_bytes: i64) -> Option<OffsetPosition> {
        let before = self.offset_index.partition_point(|entry| entry.position_bytes < position_bytes);
        self.offset_index.get(before).copied()
    }

    /// Every record up to there is earlier than `timestamp_ms`.
    pub(super) fn offset_before_time(&self, timestamp_ms: i64) -> Offset {
        let later = self.time_index.partition_point(|entry| entry.timestamp_ms <= timestamp_ms);
        self.time_index[..later].last().map_or(self.base_offset, |entry| entry.offset)
    }

    /// The segment without what ends at or behind `offset`; `kept` are the batches that stay.
    pub(super) fn truncate<'a>(
        &mut self,
        offset: Offset,
        kept: impl Iterator<Item = &'a Batch>,
        now_ms: i64,
    ) {
        Rc::make_mut(&mut self.offset_index).retain(|entry| entry.offset < offset);
        Rc::make_mut(&mut self.time_index).retain(|entry| entry.offset < offset);
        Rc::make_mut(&mut self.aborted).retain(|aborted| aborted.last_offset < offset);
        (self.size_bytes, self.greatest, self.unindexed_bytes) = (0, None, 0);
        for batch in kept {
            self.size_bytes += i64::from(batch.size_bytes());
            let timestamp_ms = batch.max_timestamp_ms();
            if timestamp_ms > self.greatest.map_or(-1, |greatest| greatest.timestamp_ms) {
                self.greatest = Some(TimestampOffset { timestamp_ms, offset: batch.last_offset() });
            }
        }
        self.modified_ms = now_ms;
        if self.size_bytes == 0 {
            self.created_ms = now_ms;
            self.first_timestamp_ms = None;
        }
    }
}
