//! One partition's part of a fetch answer, and how poll() takes records from it (Kafka's `CompletedFetch`).
//!
//! **Invariant:** records leave in offset order, and none below the offset that was asked for (R-CONS-4).

use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::PartitionData;

use super::owned::Position;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, split_batches};
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};

/// What a fetch brought of one partition, as far as poll() has not taken it.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub tp: TopicPartition,
    pub offset: Offset,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
    pub has_bytes: bool,
    /// The replica that is to be read from instead.
    pub preferred: Option<BrokerId>,
    contents: Rc<Contents>,
    taken: i32,
    /// Behind what was taken.
    next: Position,
}

/// The records in the bytes of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    records: Vec<Position>,
    /// Behind the last batch: control batches and gaps count too.
    end: Option<Position>,
    /// What makes the bytes behind the records unreadable.
    corrupt: Option<ErrorCode>,
}

/// What one poll() takes from a [`Fetched`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub offsets: Vec<Offset>,
    /// The position after it.
    pub next: Position,
}

impl Fetched {
    pub fn new(tp: TopicPartition, offset: Offset, answer: &PartitionData, check_crcs: bool) -> Fetched {
        let bytes = answer.records.clone().unwrap_or_default();
        Fetched {
            tp,
            offset,
            error: ErrorCode::from_code(answer.error_code),
            high_watermark: Offset(answer.high_watermark),
            log_start_offset: Offset(answer.log_start_offset),
            has_bytes: !bytes.is_empty(),
            preferred: Some(BrokerId(answer.preferred_read_replica.0)).filter(|replica| replica.is_some()),
            contents: Rc::new(read(bytes, offset, check_crcs)),
            taken: 0,
            next: Position { offset, epoch: LeaderEpoch::NONE },
        }
    }

    /// Records that poll() has not returned.
    pub fn remaining(&self) -> i64 {
        self.contents.records.len() as i64 - i64::from(self.taken)
    }

    pub fn next_offset(&self) -> Offset {
        self.next.offset
    }

    /// Takes up to `max` records. Like Kafka's, it notices the end only when it looks for one more record, so an answer
    /// of exactly `max` records stays in the buffer until the next poll().
    pub fn take(&mut self, max: i64) -> (Taken, bool) {
        let start = self.taken as usize;
        let count = self.remaining().min(max);
        let records = &self.contents.records[start..start + count as usize];
        let offsets = records.iter().map(|record| record.offset).collect();
        if let Some(last) = records.last() {
            self.next = Position { offset: last.offset + 1, epoch: last.epoch };
        }
        self.taken += count as i32;
        let drained = count < max;
        if drained
            && self.contents.corrupt.is_none()
            && let Some(end) = self.contents.end
        {
            self.next = end;
        }
        (Taken { offsets, next: self.next }, drained)
    }

    /// Why nothing more can be read from here, once the records before it are taken.
    pub fn corrupt(&self) -> Option<ErrorCode> {
        self.contents.corrupt.filter(|_| self.remaining() == 0)
    }
}

/// Reads the batches of an answer; ends before the first that is damaged.
fn read(bytes: Bytes, from: Offset, check_crcs: bool) -> Contents {
    let mut contents = Contents { records: Vec::new(), end: None, corrupt: None };
    for batch in split_batches(bytes) {
        let read = batch.and_then(|batch| {
            if check_crcs {
                batch.check_crc()?;
            }
            let offsets = if batch.is_control() { Vec::new() } else { offsets_of(&batch)? };
            Ok((batch, offsets))
        });
        match read {
            Ok((batch, offsets)) => {
                let epoch = batch.leader_epoch();
                let wanted = offsets.into_iter().filter(|offset| *offset >= from);
                contents.records.extend(wanted.map(|offset| Position { offset, epoch }));
                contents.end = Some(Position { offset: batch.next_offset().max(from), epoch });
            }
            Err(error) => {
                contents.corrupt = Some(error.code());
                break;
            }
        }
    }
    contents
}

fn offsets_of(batch: &Batch) -> Result<Vec<Offset>, crate::kafka::record::BatchError> {
    let base_offset = batch.base_offset();
    batch.block()?.raw_records().map(|raw| Ok(base_offset + i64::from(raw?.offset_delta))).collect()
}
