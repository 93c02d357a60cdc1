//! One idempotent or transactional producer as a partition knows it, so that a repeated batch is not stored twice.
//!
//! Mirrors Kafka's `ProducerStateEntry` and `ProducerAppendInfo`.
//!
//! **Invariant:** the last five batches are of the current epoch, oldest first.

use super::append::Origin;
use super::verification::Unverified;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, EndTransactionMarker, NO_SEQUENCE, NO_TIMESTAMP, decrement_sequence};
use crate::kafka::types::{Offset, ProducerEpoch, ProducerId};

/// Batches that are remembered for each producer.
const WINDOW: usize = 5;

/// From this `transaction.version` on, every end of a transaction raises the producer's epoch.
const MARKERS_RAISE_EPOCH: i16 = 2;

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
pub enum ProducerError {
    #[error("epoch {epoch} of producer {producer} is older than the last seen epoch {current}")]
    StaleEpoch { producer: ProducerId, epoch: ProducerEpoch, current: ProducerEpoch },
    #[error("producer {producer} starts epoch {epoch} with sequence number {base_sequence} instead of 0")]
    NewEpochNotAtZero { producer: ProducerId, epoch: ProducerEpoch, base_sequence: i32 },
    #[error("sequence number {base_sequence} of producer {producer} does not follow {last_sequence}")]
    OutOfOrder { producer: ProducerId, base_sequence: i32, last_sequence: i32 },
    #[error("producer {producer} writes outside of the transaction that it has open")]
    InvalidTxnState { producer: ProducerId },
    #[error("a batch of producer {producer} is of no transaction that is known to be open")]
    NotVerified { producer: ProducerId },
    #[error("coordinator epoch {epoch} of a marker for producer {producer} is older than {current}")]
    CoordinatorFenced { producer: ProducerId, epoch: i32, current: i32 },
}

impl ProducerError {
    /// What Kafka answers with.
    pub fn code(&self) -> ErrorCode {
        match self {
            ProducerError::StaleEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            ProducerError::NewEpochNotAtZero { .. } | ProducerError::OutOfOrder { .. } => {
                ErrorCode::OutOfOrderSequenceNumber
            }
            ProducerError::InvalidTxnState { .. } | ProducerError::NotVerified { .. } => {
                ErrorCode::InvalidTxnState
            }
            ProducerError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    epoch: ProducerEpoch,
    /// Of the transaction coordinator that wrote the last marker; -1 if there was none.
    coordinator_epoch: i32,
    last_timestamp_ms: i64,
    batches: Vec<AppendedBatch>,
    /// Where its open transaction starts in this partition.
    transaction_start: Option<Offset>,
}

impl Producer {
    /// A producer of which nothing is known; what it sends first decides (R-PROD-27).
    pub(super) fn unknown() -> Producer {
        Producer {
            epoch: ProducerEpoch::NONE,
            coordinator_epoch: -1,
            last_timestamp_ms: NO_TIMESTAMP,
            batches: Vec::new(),
            transaction_start: None,
        }
    }

    pub fn epoch(&self) -> ProducerEpoch {
        self.epoch
    }

    /// See the field; -1 if no marker was written.
    pub fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
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

    /// The first offset of its open transaction in this partition.
    pub fn transaction_start(&self) -> Option<Offset> {
        self.transaction_start
    }

    /// Whether a transaction is open that began in this epoch.
    pub(super) fn has_open_transaction(&self, epoch: ProducerEpoch) -> bool {
        self.transaction_start.is_some() && self.epoch == epoch
    }

    /// The batch of the same epoch and the same sequence numbers, if it is one of the last five (R-PROD-25).
    pub(super) fn duplicate_of(&self, batch: &Batch) -> Option<AppendedBatch> {
        let range = (batch.base_sequence(), batch.last_sequence());
        let is_same = |known: &&AppendedBatch| (known.base_sequence, known.last_sequence) == range;
        self.batches.iter().find(is_same).filter(|_| batch.producer_epoch() == self.epoch).copied()
    }

    /// R-PROD-25 to 27: coordinators number nothing, so only their epochs are looked at.
    pub(super) fn check(
        &self,
        batch: &Batch,
        origin: Origin,
        unverified: Option<&Unverified>,
    ) -> Result<(), ProducerError> {
        self.check_epoch(batch, 0)?;
        if origin == Origin::Client {
            unverified.map_or(Ok(()), |unverified| self.check_first_sequence(batch, unverified))?;
            self.check_sequence(batch)?;
        }
        if self.transaction_start.is_some() && !batch.is_transactional() {
            return Err(ProducerError::InvalidTxnState { producer: batch.producer_id() });
        }
        Ok(())
    }

    pub(super) fn check_marker(
        &self,
        batch: &Batch,
        marker: EndTransactionMarker,
        transaction_version: i16,
    ) -> Result<(), ProducerError> {
        self.check_epoch(batch, transaction_version)?;
        let (producer, epoch, current) =
            (batch.producer_id(), marker.coordinator_epoch, self.coordinator_epoch);
        if epoch < current {
            return Err(ProducerError::CoordinatorFenced { producer, epoch, current });
        }
        Ok(())
    }

    /// From transaction version 2 on a marker comes with a raised epoch. The same epoch again, with no transaction open,
    /// is that marker repeated.
    fn check_epoch(&self, batch: &Batch, transaction_version: i16) -> Result<(), ProducerError> {
        let (producer, epoch, current) = (batch.producer_id(), batch.producer_epoch(), self.epoch);
        let has_to_rise = transaction_version >= MARKERS_RAISE_EPOCH;
        let repeats = self.transaction_start.is_none() || epoch.0 == i16::MAX;
        let is_stale = epoch < current || (has_to_rise && epoch == current && !repeats);
        if is_stale && !plant::is(Plant::OldEpochAccepted) {
            Err(ProducerError::StaleEpoch { producer, epoch, current })
        } else {
            Ok(())
        }
    }

    /// What is known of a producer whose transaction is not open yet says more about its sequence numbers: where its
    /// leaders add their partitions it begins with 0, and no batch overtakes an earlier one that was seen (R-TXN-14).
    fn check_first_sequence(&self, batch: &Batch, unverified: &Unverified) -> Result<(), ProducerError> {
        let (producer, base_sequence) = (batch.producer_id(), batch.base_sequence());
        let skips = unverified.raises_epochs && base_sequence != 0 && self.batches.is_empty();
        if skips || base_sequence > unverified.lowest_sequence {
            let last_sequence = self.last_sequence();
            return Err(ProducerError::OutOfOrder { producer, base_sequence, last_sequence });
        }
        Ok(())
    }

    fn check_sequence(&self, batch: &Batch) -> Result<(), ProducerError> {
        let (producer, epoch, base_sequence) =
            (batch.producer_id(), batch.producer_epoch(), batch.base_sequence());
        if self.epoch == ProducerEpoch::NONE || plant::is(Plant::SequenceUnchecked) {
            return Ok(());
        }
        if epoch != self.epoch {
            let is_old = epoch < self.epoch && plant::is(Plant::OldEpochAccepted);
            return if base_sequence == 0 || is_old {
                Ok(())
            } else {
                Err(ProducerError::NewEpochNotAtZero { producer, epoch, base_sequence })
            };
        }
        let last_sequence = self.last_sequence();
        let next = if last_sequence == i32::MAX { 0 } else { last_sequence + 1 };
        if base_sequence == next {
            Ok(())
        } else {
            Err(ProducerError::OutOfOrder { producer, base_sequence, last_sequence })
        }
    }

    /// Whether a transaction began.
    pub(super) fn add(&mut self, batch: &Batch) -> bool {
        self.enter(batch.producer_epoch());
        if self.batches.len() == WINDOW {
            self.batches.remove(0);
        }
        self.batches.push(AppendedBatch::of(batch));
        self.last_timestamp_ms = batch.max_timestamp_ms();
        let begins = batch.is_transactional() && self.transaction_start.is_none();
        if begins {
            self.transaction_start = Some(batch.base_offset());
        }
        begins
    }

    /// The start of the transaction that the marker ends, if one was open.
    pub(super) fn end_transaction(&mut self, batch: &Batch, marker: EndTransactionMarker) -> Option<Offset> {
        self.enter(batch.producer_epoch());
        self.coordinator_epoch = marker.coordinator_epoch;
        self.last_timestamp_ms = batch.max_timestamp_ms();
        self.transaction_start.take()
    }

    fn enter(&mut self, epoch: ProducerEpoch) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    /// What a snapshot file keeps: of the batches the last alone.
    pub(super) fn snapshot(&self) -> Producer {
        let last =
            self.batches.last().map(|last| AppendedBatch { timestamp_ms: self.last_timestamp_ms, ..*last });
        Producer { batches: last.into_iter().collect(), ..self.clone() }
    }

    /// R-PROD-28: with an open transaction it never expires.
    pub(super) fn is_expired(&self, now_ms: i64, producer_id_expiration_ms: i64) -> bool {
        self.transaction_start.is_none() && now_ms - self.last_timestamp_ms >= producer_id_expiration_ms
    }
}
