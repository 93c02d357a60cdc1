//! What a replica remembers of idempotent producers, so that a repeated batch is not stored twice.
//!
//! Mirrors Kafka's `ProducerStateManager`, `ProducerStateEntry` and `ProducerAppendInfo`.
//!
//! **Invariant:** the state follows from the batches alone, so a follower that copied them knows the same (R-PROD-28).

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::kafka::record::{Batch, NO_SEQUENCE, NO_TIMESTAMP, decrement_sequence};
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, ProducerEpoch, ProducerId};

/// Batches that are remembered for each producer.
const WINDOW: usize = 5;

/// A batch that a producer sent and that is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedBatch {
    pub base_sequence: i32,
    pub last_sequence: i32,
    pub base_offset: Offset,
    pub last_offset: Offset,
    /// Greatest timestamp of its records.
    pub timestamp_ms: i64,
}

impl AppendedBatch {
    fn of(batch: &Batch) -> AppendedBatch {
        let last_sequence = batch.last_sequence();
        AppendedBatch {
            base_sequence: decrement_sequence(last_sequence, batch.last_offset_delta()),
            last_sequence,
            base_offset: batch.base_offset(),
            last_offset: batch.last_offset(),
            timestamp_ms: batch.max_timestamp_ms(),
        }
    }
}

/// Why a batch is not the producer's next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    #[error("epoch {epoch} of producer {producer} is older than the last seen epoch {current}")]
    StaleEpoch { producer: ProducerId, epoch: ProducerEpoch, current: ProducerEpoch },
    #[error("producer {producer} starts epoch {epoch} with sequence number {base_sequence} instead of 0")]
    NewEpochNotAtZero { producer: ProducerId, epoch: ProducerEpoch, base_sequence: i32 },
    #[error("sequence number {base_sequence} of producer {producer} does not follow {last_sequence}")]
    OutOfOrder { producer: ProducerId, base_sequence: i32, last_sequence: i32 },
}

/// One producer as a partition knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    epoch: ProducerEpoch,
    last_timestamp_ms: i64,
    batches: Vec<AppendedBatch>,
}

impl Producer {
    fn new(epoch: ProducerEpoch) -> Producer {
        Producer { epoch, last_timestamp_ms: NO_TIMESTAMP, batches: Vec::with_capacity(WINDOW) }
    }

    pub fn epoch(&self) -> ProducerEpoch {
        self.epoch
    }

    /// NO_SEQUENCE if it has sent nothing in its epoch.
    pub fn last_sequence(&self) -> i32 {
        self.batches.last().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    pub fn last_timestamp_ms(&self) -> i64 {
        self.last_timestamp_ms
    }

    /// The last five, oldest first.
    pub fn batches(&self) -> &[AppendedBatch] {
        &self.batches
    }

    /// The batch of the same epoch and the same sequence numbers, if it is one of the last five (R-PROD-25).
    fn duplicate_of(&self, batch: &Batch) -> Option<AppendedBatch> {
        let range = (batch.base_sequence(), batch.last_sequence());
        let is_same = |known: &&AppendedBatch| (known.base_sequence, known.last_sequence) == range;
        self.batches.iter().find(is_same).filter(|_| batch.producer_epoch() == self.epoch).copied()
    }

    fn check_epoch(&self, batch: &Batch) -> Result<(), SequenceError> {
        let (producer, epoch, current) = (batch.producer_id(), batch.producer_epoch(), self.epoch);
        if epoch < current { Err(SequenceError::StaleEpoch { producer, epoch, current }) } else { Ok(()) }
    }

    fn check_sequence(&self, batch: &Batch) -> Result<(), SequenceError> {
        let (producer, epoch, base_sequence) =
            (batch.producer_id(), batch.producer_epoch(), batch.base_sequence());
        let last_sequence = self.last_sequence();
        if epoch != self.epoch {
            let starts_anew = base_sequence == 0;
            return if starts_anew {
                Ok(())
            } else {
                Err(SequenceError::NewEpochNotAtZero { producer, epoch, base_sequence })
            };
        }
        let next = if last_sequence == i32::MAX { 0 } else { last_sequence + 1 };
        if base_sequence == next {
            Ok(())
        } else {
            Err(SequenceError::OutOfOrder { producer, base_sequence, last_sequence })
        }
    }

    fn add(&mut self, batch: &Batch) {
        if batch.producer_epoch() != self.epoch {
            self.epoch = batch.producer_epoch();
            self.batches.clear();
        }
        if self.batches.len() == WINDOW {
            self.batches.remove(0);
        }
        self.batches.push(AppendedBatch::of(batch));
        self.last_timestamp_ms = batch.max_timestamp_ms();
    }
}

/// The producers of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    by_id: Rc<BTreeMap<ProducerId, Producer>>,
}

impl Producers {
    pub fn get(&self, id: ProducerId) -> Option<&Producer> {
        self.by_id.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &Producer)> {
        self.by_id.iter().map(|(&id, producer)| (id, producer))
    }

    /// What the batches leave behind.
    pub(super) fn replay<'a>(batches: impl Iterator<Item = &'a Batch>) -> Producers {
        let mut producers = Producers::default();
        batches.for_each(|batch| producers.update(batch));
        producers
    }

    /// The place of a batch that was sent before and is not to be stored again (R-PROD-25).
    pub(super) fn duplicate_of(&self, batch: &Batch) -> Option<AppendedBatch> {
        self.get(batch.producer_id())?.duplicate_of(batch)
    }

    /// A producer that is not known may start with any sequence number (R-PROD-27).
    pub(super) fn check_epoch(&self, batch: &Batch) -> Result<(), SequenceError> {
        self.get(batch.producer_id()).map_or(Ok(()), |producer| producer.check_epoch(batch))
    }

    /// See [`Producers::check_epoch`].
    pub(super) fn check_sequence(&self, batch: &Batch) -> Result<(), SequenceError> {
        self.get(batch.producer_id()).map_or(Ok(()), |producer| producer.check_sequence(batch))
    }

    pub(super) fn update(&mut self, batch: &Batch) {
        let id = batch.producer_id();
        if id.is_some() && !batch.is_control() {
            let epoch = batch.producer_epoch();
            Rc::make_mut(&mut self.by_id).entry(id).or_insert_with(|| Producer::new(epoch)).add(batch);
        }
    }

    pub(super) fn remove_expired(&mut self, now: Time, producer_id_expiration_ms: i64) {
        let is_expired =
            |producer: &Producer| now.wall_ms() - producer.last_timestamp_ms >= producer_id_expiration_ms;
        if self.by_id.values().any(is_expired) {
            Rc::make_mut(&mut self.by_id).retain(|_, producer| !is_expired(producer));
        }
    }
}
