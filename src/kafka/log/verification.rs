//! Producers whose transaction is not known to be open in a partition yet: the coordinator is being asked (R-TXN-14).
//!
//! Mirrors `VerificationStateEntry` and `VerificationGuard`: a transaction's first batch is appended only with the guard
//! that was given before the coordinator was asked, so that an answer that a marker has overtaken opens nothing.
//!
//! **Invariant:** a guard is good until the producer's next transactional batch or marker, and no two are alike.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::producer::{Producer, ProducerError};
use super::{Log, Producers};
use crate::kafka::plant::{self, Plant};
use crate::kafka::record::Batch;
use crate::kafka::time::Time;
use crate::kafka::types::{ProducerEpoch, ProducerId};

/// Proof that the coordinator was asked since the producer's last transaction here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(u64);

/// Whether a leader appends only what the coordinator knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// `transaction.partition.verification.enable` is off, or nobody could ask.
    Off,
    /// With the guard that the request was given, if any.
    On(Option<VerificationGuard>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unverified {
    since_ms: i64,
    guard: VerificationGuard,
    /// The lowest sequence number that was seen: a later one is not appended before it.
    pub(super) lowest_sequence: i32,
    epoch: ProducerEpoch,
    /// Its partitions are added by their leaders (transaction version 2).
    pub(super) raises_epochs: bool,
}

impl Unverified {
    fn is_expired(&self, now_ms: i64, producer_id_expiration_ms: i64) -> bool {
        now_ms - self.since_ms >= producer_id_expiration_ms
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verifications {
    by_id: Rc<BTreeMap<ProducerId, Unverified>>,
    given: u64,
}

impl Verifications {
    pub fn get(&self, id: ProducerId) -> Option<&Unverified> {
        self.by_id.get(&id)
    }

    fn begin(&mut self, id: ProducerId, batch: FirstBatch, now_ms: i64) -> VerificationGuard {
        let FirstBatch { epoch, base_sequence, raises_epochs } = batch;
        let next = VerificationGuard(self.given + 1);
        let unverified = Rc::make_mut(&mut self.by_id).entry(id).or_insert(Unverified {
            since_ms: now_ms,
            guard: next,
            lowest_sequence: base_sequence,
            epoch,
            raises_epochs,
        });
        if unverified.guard == next {
            self.given += 1;
        }
        if epoch > unverified.epoch {
            (unverified.epoch, unverified.lowest_sequence) = (epoch, base_sequence);
        } else if epoch == unverified.epoch {
            unverified.lowest_sequence = unverified.lowest_sequence.min(base_sequence);
        }
        unverified.guard
    }

    /// A transactional batch or a marker is in the log: the guard is used up. But a marker may come when the producer is
    /// in its next transaction already, whose epoch it carries.
    pub fn on_update(&mut self, batch: &Batch) {
        let Some(unverified) = self.get(batch.producer_id()).filter(|_| batch.is_transactional()) else {
            return;
        };
        let is_of_next =
            unverified.raises_epochs && batch.is_control() && batch.producer_epoch() == unverified.epoch;
        if !is_of_next {
            Rc::make_mut(&mut self.by_id).remove(&batch.producer_id());
        }
    }

    pub fn has_expired(&self, now_ms: i64, producer_id_expiration_ms: i64) -> bool {
        self.by_id.values().any(|unverified| unverified.is_expired(now_ms, producer_id_expiration_ms))
    }

    pub fn remove_expired(&mut self, now_ms: i64, producer_id_expiration_ms: i64) {
        if self.has_expired(now_ms, producer_id_expiration_ms) {
            Rc::make_mut(&mut self.by_id)
                .retain(|_, unverified| !unverified.is_expired(now_ms, producer_id_expiration_ms));
        }
    }
}

/// What a leader knows of the batch that is to open a transaction, before it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstBatch {
    pub epoch: ProducerEpoch,
    pub base_sequence: i32,
    /// As with transaction version 2.
    pub raises_epochs: bool,
}

/// Who is known with a later epoch begins nothing in this one.
fn check_not_over(
    known: Option<&Producer>,
    producer: ProducerId,
    epoch: ProducerEpoch,
) -> Result<(), ProducerError> {
    match known.map(Producer::epoch) {
        Some(current) if epoch < current && !plant::is(Plant::OldEpochAccepted) => {
            Err(ProducerError::StaleEpoch { producer, epoch, current })
        }
        _ => Ok(()),
    }
}

impl Log {
    /// The guard with which a transaction may be opened here once the coordinator was asked; `None` if it is open
    /// (`maybeStartTransactionVerification`).
    ///
    /// # Errors
    /// The producer is known with a later epoch.
    pub fn begin_verification(
        &mut self,
        now: Time,
        producer: ProducerId,
        batch: FirstBatch,
    ) -> Result<Option<VerificationGuard>, ProducerError> {
        let known = self.producers.get(producer);
        check_not_over(known, producer, batch.epoch)?;
        if known.is_some_and(|known| known.has_open_transaction(batch.epoch)) {
            return Ok(None);
        }
        Ok(Some(self.producers.verifications.begin(producer, batch, now.wall_ms())))
    }
}

impl Producers {
    /// Whether a transactional batch may open a transaction or go on with one (`batchMissingRequiredVerification`).
    pub(super) fn check_verified(
        &self,
        batch: &Batch,
        verification: Verification,
    ) -> Result<(), ProducerError> {
        let Verification::On(guard) = verification else { return Ok(()) };
        let (producer, epoch) = (batch.producer_id(), batch.producer_epoch());
        let known = self.get(producer);
        if !batch.is_transactional()
            || batch.is_control()
            || known.is_some_and(|known| known.has_open_transaction(epoch))
        {
            return Ok(());
        }
        check_not_over(known, producer, epoch)?;
        match self.verifications.get(producer) {
            Some(unverified) if Some(unverified.guard) == guard => Ok(()),
            _ => Err(ProducerError::NotVerified { producer }),
        }
    }
}
