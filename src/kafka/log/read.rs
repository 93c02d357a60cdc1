//! Reads: whole batches for fetches, records for those who look (Kafka's `UnifiedLog.read`, `LogSegment`).
//!
//! **Invariant:** a read never changes the log and never returns part of a batch.

use bytes::{Bytes, BytesMut};

use super::Log;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, BatchError, Record};
use crate::kafka::types::{LeaderEpoch, Offset};

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
    /// The batches from the one that holds `from` up to `bound`, the log end for a replica and the high watermark for a
    /// consumer. OFFSET_OUT_OF_RANGE outside of the log; at or behind `bound` there is nothing (R-LOG-25).
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
        let mut size_bytes = 0_i64;
        let mut is_first = true;
        let fits = |batch: &&Batch| {
            size_bytes += i64::from(batch.size_bytes());
            let is_free = std::mem::take(&mut is_first) && min_one_message;
            batch.last_offset() < bound && (is_free || size_bytes <= i64::from(max_bytes))
        };
        let batches: Vec<_> = self.chunks.from(from).take_while(fits).collect();
        Ok(join(from, &batches))
    }

    /// The batch that holds `offset`, or else the next one, and all that follow.
    pub fn batches_from(&self, offset: Offset) -> impl DoubleEndedIterator<Item = &Batch> + Clone {
        self.chunks.from(offset)
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

    /// The first record whose timestamp is at least `timestamp_ms` (R-LOG-28).
    pub fn offset_for_timestamp(&self, timestamp_ms: i64) -> Result<Option<RecordAtTime>, BatchError> {
        let start = self.log_start_offset;
        for batch in self.chunks.from(start).filter(|batch| batch.max_timestamp_ms() >= timestamp_ms) {
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
