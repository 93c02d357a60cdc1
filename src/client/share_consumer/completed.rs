//! One partition's part of a fetch answer, and how poll() takes records from it (Kafka's `ShareCompletedFetch`).
//!
//! **Invariant:** of every offset that was acquired either the record leaves, or its acknowledgement as a gap or as one
//! that cannot be read.

use std::collections::VecDeque;

use bytes::Bytes;

use super::in_flight::{Delivery, InFlightBatch};
use super::session::Tip;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::{AcquiredRecords, FetchedPartition};
use crate::kafka::record::{Batch, BatchError, split_batches};
use crate::kafka::share::{AcknowledgeType, OffsetRange};
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset};

#[derive(Clone, Debug)]
pub struct Completed {
    /// Whom it came from.
    pub broker: BrokerId,
    pub tip: Tip,
    pub error: ErrorCode,
    batches: VecDeque<Contents>,
    /// With delivery counts, in the order of the offsets.
    acquired: VecDeque<(Offset, i16)>,
}

/// A record batch as it came.
#[derive(Clone, Debug)]
struct Contents {
    range: OffsetRange,
    epoch: LeaderEpoch,
    /// Of its records, or why they cannot be read.
    offsets: Result<Vec<Offset>, ErrorCode>,
}

impl Completed {
    pub fn new(broker: BrokerId, tip: Tip, answer: &FetchedPartition, check_crcs: bool) -> Completed {
        let mut acquired: Vec<(Offset, i16)> = answer.acquired_records.iter().flat_map(each).collect();
        // A broker does not hand an offset out twice in an answer; Java's client would keep the first.
        acquired.dedup_by_key(|(offset, _)| *offset);
        Completed {
            broker,
            tip,
            error: ErrorCode::from_code(answer.error_code),
            batches: read(answer.records.clone(), check_crcs),
            acquired: acquired.into(),
        }
    }

    /// Acquired and not yet taken.
    pub fn remaining(&self) -> i64 {
        self.acquired.len() as i64
    }

    /// What comes next cannot be read, and there is something before it to be returned.
    pub fn is_stuck(&self) -> bool {
        self.batches.front().is_some_and(|contents| contents.offsets.is_err())
    }

    /// Takes up to `max` records, and those that follow in the same batch; nothing behind a batch that cannot be read.
    pub fn take(&mut self, max: i64) -> InFlightBatch {
        let mut taken = InFlightBatch::new(self.broker);
        while taken.records() < max {
            let Some(contents) = self.batches.pop_front() else {
                // What is left is at no offset of a record.
                self.acquired.drain(..).for_each(|(offset, _)| taken.add_gap(offset));
                break;
            };
            match contents.offsets {
                Ok(offsets) => {
                    offsets
                        .into_iter()
                        .for_each(|offset| self.take_up_to(offset, contents.epoch, &mut taken));
                }
                Err(error) if taken.is_empty() => {
                    self.reject(contents.range, &mut taken);
                    taken.error = Some(error);
                    break;
                }
                Err(_) => {
                    self.batches.push_front(contents);
                    break;
                }
            }
        }
        taken
    }

    /// The record at `offset`, if it was acquired; what was acquired before it is at no record.
    fn take_up_to(&mut self, offset: Offset, epoch: LeaderEpoch, taken: &mut InFlightBatch) {
        while let Some(&(next, count)) = self.acquired.front().filter(|(next, _)| *next <= offset) {
            self.acquired.pop_front();
            match next == offset {
                true => taken.add_record(offset, Delivery { count, epoch }),
                false => taken.add_gap(next),
            }
        }
    }

    fn reject(&mut self, range: OffsetRange, taken: &mut InFlightBatch) {
        let is_within = |(offset, _): &(Offset, i16)| *offset >= range.first && *offset <= range.last;
        let (rejected, kept) = std::mem::take(&mut self.acquired).into_iter().partition(is_within);
        self.acquired = kept;
        let rejected: VecDeque<(Offset, i16)> = rejected;
        rejected.into_iter().for_each(|(offset, _)| taken.say(offset, AcknowledgeType::Reject));
    }
}

fn each(acquired: &AcquiredRecords) -> impl Iterator<Item = (Offset, i16)> + use<> {
    let delivery_count = acquired.delivery_count;
    (acquired.first_offset..=acquired.last_offset).map(move |offset| (Offset(offset), delivery_count))
}

fn read(bytes: Bytes, check_crcs: bool) -> VecDeque<Contents> {
    let batches = split_batches(bytes).map_while(Result::ok);
    let contents = batches.map(|batch| {
        let range = OffsetRange::new(batch.base_offset(), batch.last_offset());
        let epoch = batch.leader_epoch();
        Contents { range, epoch, offsets: offsets_of(&batch, check_crcs).map_err(|error| error.code()) }
    });
    contents.collect()
}

fn offsets_of(batch: &Batch, check_crcs: bool) -> Result<Vec<Offset>, BatchError> {
    if check_crcs {
        batch.check_crc()?;
    }
    match batch.is_control() {
        true => Ok(Vec::new()),
        false => {
            let base_offset = batch.base_offset();
            let block = batch.block()?;
            block.raw_records().map(|raw| Ok(base_offset + i64::from(raw?.offset_delta))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::record::{BatchBuilder, NewRecord};
    use crate::kafka::types::{TopicId, TopicPartition};

    /// Batches with so many records each, the first at offset 0.
    fn batches(sizes: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut base = 0;
        for size in sizes {
            let mut builder = BatchBuilder::new();
            for _ in 0..*size {
                builder.append(&NewRecord { timestamp_ms: 0, key: None, value: Some(b"v"), headers: &[] });
            }
            let batch = builder.finish(None).with_assigned(Offset(base), LeaderEpoch(0));
            bytes.extend_from_slice(&batch.into_bytes());
            base += size;
        }
        bytes
    }

    fn completed(bytes: Vec<u8>, acquired: &[(i64, i64)]) -> Completed {
        let acquired = acquired.iter().map(|&(first_offset, last_offset)| AcquiredRecords {
            first_offset,
            last_offset,
            delivery_count: 1,
        });
        let answer = FetchedPartition {
            records: bytes.into(),
            acquired_records: acquired.collect(),
            ..FetchedPartition::default()
        };
        let tip =
            Tip { tp: TopicPartition::new(&"t".into(), 0), topic_id: TopicId(uuid::Uuid::from_u128(7)) };
        Completed::new(BrokerId(1), tip, &answer, true)
    }

    #[test]
    fn a_batch_is_returned_to_its_end_r_share_13() {
        let mut completed = completed(batches(&[3, 3]), &[(0, 5)]);
        assert_eq!(completed.take(2).records(), 3, "max.poll.records is 2");
        assert_eq!((completed.remaining(), completed.take(4).records()), (3, 3));
        assert!(completed.take(1).is_empty());
    }

    #[test]
    fn what_was_not_acquired_is_passed_over_and_what_is_no_record_is_a_gap_r_share_6() {
        let mut completed = completed(batches(&[4]), &[(1, 2), (6, 7)]);
        let mut taken = completed.take(500);
        assert_eq!(taken.records(), 2);
        let said: Vec<(Offset, AcknowledgeType)> = taken.take_said().iter().collect();
        assert_eq!(said, [(Offset(6), AcknowledgeType::Gap), (Offset(7), AcknowledgeType::Gap)]);
    }

    #[test]
    fn a_batch_that_cannot_be_read_is_rejected_when_its_turn_comes() {
        let mut bytes = batches(&[2, 2]);
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let mut completed = completed(bytes, &[(0, 3)]);
        let first = completed.take(500);
        assert_eq!((first.records(), first.error, completed.is_stuck()), (2, None, true));
        let mut second = completed.take(500);
        assert_eq!((second.records(), second.error), (0, Some(ErrorCode::CorruptMessage)));
        let said: Vec<(Offset, AcknowledgeType)> = second.take_said().iter().collect();
        assert_eq!(said, [(Offset(2), AcknowledgeType::Reject), (Offset(3), AcknowledgeType::Reject)]);
    }
}
