//! One partition's part of a fetch answer, and how poll() takes records from it (Kafka's `CompletedFetch`).
//!
//! **Invariant:** records leave in offset order, and none below the offset that was asked for (R-CONS-4); a reader of
//! committed data gets none of an aborted transaction (R-CONS-30).

use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::PartitionData;

use super::config::{Deserializer, IsolationLevel};
use super::owned::Position;
use crate::kafka::event::RecordPart;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{AbortedProducers, Batch, BatchError, split_batches};
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, ProducerId, Topic, TopicPartition};

/// What a fetch brought of one partition, as far as poll() has not taken it.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub tp: TopicPartition,
    pub offset: Offset,
    pub error: ErrorCode,
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
    pub last_stable_offset: Offset,
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
    /// The batches of aborted transactions: from where and to where.
    aborted: Vec<(Offset, Offset)>,
    /// Behind the last batch: control batches and gaps count too.
    end: Option<Position>,
    /// What cannot be read behind the records.
    unreadable: Option<Unreadable>,
}

/// Where poll() comes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The bytes are damaged.
    Corrupt(ErrorCode),
    /// A record has a key or value that the application's type cannot be (R-CONS-34).
    Record { offset: Offset, part: RecordPart },
}

/// What one poll() takes from a [`Fetched`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub records: Vec<Position>,
    /// What of aborted transactions it passes over, by the batches' ends.
    pub aborted: Vec<(Offset, Offset)>,
    /// The position after it.
    pub next: Position,
}

impl Fetched {
    pub fn new(tp: TopicPartition, offset: Offset, answer: &PartitionData, reading: Reading) -> Fetched {
        let bytes = answer.records.clone().unwrap_or_default();
        Fetched {
            tp,
            offset,
            error: ErrorCode::from_code(answer.error_code),
            high_watermark: Offset(answer.high_watermark),
            log_start_offset: Offset(answer.log_start_offset),
            last_stable_offset: Offset(answer.last_stable_offset),
            preferred: Some(BrokerId(answer.preferred_read_replica.0)).filter(|replica| replica.is_some()),
            contents: Rc::new(reading.read(bytes, answer, offset)),
            taken: 0,
            next: Position { offset, epoch: LeaderEpoch::NONE },
        }
    }

    /// Records that poll() has not returned.
    pub fn remaining(&self) -> i64 {
        self.contents.records.len() as i64 - i64::from(self.taken)
    }

    /// Whether poll() has returned any of it.
    pub fn is_read(&self) -> bool {
        self.taken > 0
    }

    pub fn next_offset(&self) -> Offset {
        self.next.offset
    }

    /// Behind the last batch.
    pub fn end(&self) -> Option<Position> {
        self.contents.end
    }

    /// Takes up to `max` records. Like Kafka's, it notices the end only when it looks for one more record, so an answer
    /// of exactly `max` records stays in the buffer until the next poll().
    pub fn take(&mut self, max: i64) -> (Taken, bool) {
        let from = self.next.offset;
        let start = self.taken as usize;
        let count = self.remaining().min(max);
        let records = &self.contents.records[start..start + count as usize];
        let taken = records.to_vec();
        if let Some(last) = records.last() {
            self.next = Position { offset: last.offset + 1, epoch: last.epoch };
        }
        self.taken += count as i32;
        let drained = count < max;
        if drained
            && self.contents.unreadable.is_none()
            && let Some(end) = self.contents.end
        {
            self.next = end;
        }
        (Taken { records: taken, aborted: self.aborted_in(from, self.next.offset), next: self.next }, drained)
    }

    fn aborted_in(&self, from: Offset, to: Offset) -> Vec<(Offset, Offset)> {
        let batches = self.contents.aborted.iter().map(|(first, end)| ((*first).max(from), *end));
        batches.filter(|(first, end)| first < end && *end <= to).collect()
    }

    /// Why nothing more can be read from here, once the records before it are taken.
    pub fn unreadable(&self) -> Option<Unreadable> {
        self.contents.unreadable.filter(|_| self.remaining() == 0)
    }
}

/// What poll() returns of an answer that was asked for from `from` on, and the position behind it.
///
/// Errors: what it throws at the first batch that is damaged.
pub fn returned(
    answer: &PartitionData,
    from: Offset,
    isolation: IsolationLevel,
) -> Result<(Vec<Offset>, Offset), ErrorCode> {
    let nowhere = TopicPartition::new(&Topic::new(""), 0);
    let (key, value) = (Deserializer::Any, Deserializer::Any);
    let reading = Reading { check_crcs: true, isolation, key, value };
    let mut fetched = Fetched::new(nowhere, from, answer, reading);
    let (taken, _) = fetched.take(i64::MAX);
    match fetched.unreadable() {
        Some(Unreadable::Corrupt(error)) => Err(error),
        None | Some(Unreadable::Record { .. }) => {
            Ok((taken.records.iter().map(|record| record.offset).collect(), taken.next.offset))
        }
    }
}

/// How the bytes of an answer are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub check_crcs: bool,
    pub isolation: IsolationLevel,
    pub key: Deserializer,
    pub value: Deserializer,
}

impl Reading {
    /// The batches of an answer, up to the first that is damaged.
    fn read(self, bytes: Bytes, answer: &PartitionData, from: Offset) -> Contents {
        let mut aborted = self.aborted(answer);
        let mut contents = Contents { records: Vec::new(), aborted: Vec::new(), end: None, unreadable: None };
        for batch in split_batches(bytes) {
            let read = batch.and_then(|batch| {
                if self.check_crcs {
                    batch.check_crc()?;
                }
                let is_aborted = aborted.contains(&batch)?;
                let hidden = is_aborted || batch.is_control();
                let offsets = if hidden { (Vec::new(), None) } else { self.offsets_of(&batch, from)? };
                Ok((batch, is_aborted, offsets))
            });
            match read {
                Ok((batch, is_aborted, (offsets, unreadable))) => {
                    let epoch = batch.leader_epoch();
                    if is_aborted {
                        contents.aborted.push((batch.base_offset(), batch.next_offset()));
                    }
                    contents.records.extend(offsets.into_iter().map(|offset| Position { offset, epoch }));
                    contents.unreadable = unreadable;
                    if unreadable.is_some() {
                        break;
                    }
                    contents.end = Some(Position { offset: batch.next_offset().max(from), epoch });
                }
                Err(error) => {
                    contents.unreadable = Some(Unreadable::Corrupt(error.code()));
                    break;
                }
            }
        }
        contents
    }

    /// The records of a batch from an offset on, up to the first that cannot be deserialised.
    fn offsets_of(
        self,
        batch: &Batch,
        from: Offset,
    ) -> Result<(Vec<Offset>, Option<Unreadable>), BatchError> {
        let (mut offsets, mut unreadable) = (Vec::new(), None);
        for raw in batch.block()?.raw_records() {
            let raw = raw?;
            let offset = batch.base_offset() + i64::from(raw.offset_delta);
            if offset < from || unreadable.is_some() {
                continue;
            }
            let parts = [(RecordPart::Key, self.key, raw.key), (RecordPart::Value, self.value, raw.value)];
            let wrong = parts.into_iter().find(|(_, deserializer, bytes)| deserializer.throws_at(*bytes));
            match wrong {
                Some((part, ..)) => unreadable = Some(Unreadable::Record { offset, part }),
                None => offsets.push(offset),
            }
        }
        Ok((offsets, unreadable))
    }

    /// Whose records are passed over; who reads what is not committed passes over nothing.
    fn aborted(self, answer: &PartitionData) -> AbortedProducers {
        let listed = match self.isolation {
            IsolationLevel::ReadCommitted => answer.aborted_transactions.as_deref().unwrap_or_default(),
            IsolationLevel::ReadUncommitted => &[],
        };
        AbortedProducers::new(
            listed.iter().map(|each| (ProducerId(each.producer_id.0), Offset(each.first_offset))),
        )
    }
}
