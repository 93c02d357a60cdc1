//! One transactional id at its coordinator, and its way from state to state.
//!
//! Mirrors `TransactionMetadata`: a transition is prepared, written, and completed when that is safe (R-TXN-3).
//!
//! **Invariant:** while a transition is pending no other is prepared, and the facts are those of the last one that was
//! completed.

use std::collections::BTreeSet;

use super::facts::{NO_START, TransactionFacts, is_exhausted};
use super::state::TransactionState;
use super::version::TransactionVersion;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ProducerEpoch, ProducerId, TopicPartition};

/// `transaction.timeout.ms` of a transaction that another system decides (KIP-939): it has none.
const TWO_PHASE_TIMEOUT_MS: i32 = i32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionMetadata {
    facts: TransactionFacts,
    pending: Option<TransactionState>,
    /// A raised epoch may be in the log already, though nobody was told of it: it is not raised once more.
    has_failed_epoch_fence: bool,
}

fn next(epoch: ProducerEpoch) -> ProducerEpoch {
    ProducerEpoch(epoch.0 + 1)
}

impl TransactionMetadata {
    /// A transactional id that was never seen before (R-TXN-6); its epoch is raised to 0 when it is first written.
    pub fn unwritten(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> TransactionMetadata {
        TransactionMetadata::of(TransactionFacts {
            producer_id,
            previous_producer_id: ProducerId::NONE,
            next_producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            last_producer_epoch: ProducerEpoch::NONE,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            start_timestamp_ms: NO_START,
            last_update_timestamp_ms: now_ms,
            client_version: TransactionVersion::V0,
        })
    }

    /// As the log has it.
    pub fn of(facts: TransactionFacts) -> TransactionMetadata {
        TransactionMetadata { facts, pending: None, has_failed_epoch_fence: false }
    }

    pub fn facts(&self) -> &TransactionFacts {
        &self.facts
    }

    pub fn state(&self) -> TransactionState {
        self.facts.state
    }

    /// Where a transition leads that is being written.
    pub fn pending(&self) -> Option<TransactionState> {
        self.pending
    }

    pub fn is_epoch_exhausted(&self) -> bool {
        is_exhausted(self.facts.producer_epoch)
    }

    /// R-TXN-26: the time counts from the first partition that was added.
    pub fn has_timed_out(&self, now_ms: i64) -> bool {
        let TransactionFacts { start_timestamp_ms, timeout_ms, state, .. } = self.facts;
        self.pending.is_none()
            && state == TransactionState::Ongoing
            && timeout_ms != TWO_PHASE_TIMEOUT_MS
            && start_timestamp_ms + i64::from(timeout_ms) < now_ms
    }

    /// R-TXN-27.
    pub fn has_expired(&self, now_ms: i64, expiration_ms: i64) -> bool {
        self.pending.is_none()
            && self.state().is_idle()
            && self.facts.last_update_timestamp_ms <= now_ms - expiration_ms
    }

    /// The producer is to be fenced and its transaction aborted (R-TXN-8, R-TXN-26). The epoch of these facts is nobody's.
    pub fn prepare_fence(&mut self) -> TransactionFacts {
        let epoch = self.facts.producer_epoch;
        let stays = self.has_failed_epoch_fence || epoch.0 == i16::MAX;
        let producer_epoch = if stays { epoch } else { next(epoch) };
        self.prepare(TransactionFacts { producer_epoch, ..self.to(TransactionState::PrepareEpochFence) })
    }

    /// The producer gets the next epoch (R-TXN-6, R-TXN-7); one that names its own and asks again gets the same once
    /// more (R-TXN-9).
    ///
    /// # Errors
    /// PRODUCER_FENCED: it names an epoch that is another's by now.
    pub fn prepare_next_epoch(
        &mut self,
        timeout_ms: i32,
        expected: Option<ProducerEpoch>,
        now_ms: i64,
    ) -> Result<TransactionFacts, ErrorCode> {
        assert!(!self.is_epoch_exhausted(), "no epoch is left for {:?}", self.facts.producer_id);
        let (current, last) = (self.facts.producer_epoch, self.facts.last_producer_epoch);
        let (producer_epoch, last_producer_epoch) = match expected {
            None => (next(current), ProducerEpoch::NONE),
            Some(expected) if current == ProducerEpoch::NONE || expected == current => {
                (next(current), current)
            }
            Some(expected) if expected == last => (current, last),
            Some(_) => return Err(ErrorCode::ProducerFenced),
        };
        let facts =
            TransactionFacts { producer_epoch, last_producer_epoch, ..self.emptied(timeout_ms, now_ms) };
        Ok(self.prepare(facts))
    }

    /// The epochs ran out: the producer gets another id (R-TXN-7).
    pub fn prepare_next_producer_id(
        &mut self,
        producer_id: ProducerId,
        timeout_ms: i32,
        expected: Option<ProducerEpoch>,
        now_ms: i64,
    ) -> TransactionFacts {
        let last_producer_epoch = match expected {
            Some(_) => self.facts.producer_epoch,
            None => ProducerEpoch::NONE,
        };
        let emptied = self.emptied(timeout_ms, now_ms);
        let producer_epoch = ProducerEpoch(0);
        self.prepare(TransactionFacts { producer_id, producer_epoch, last_producer_epoch, ..emptied })
    }

    /// The transaction begins or goes on with more partitions (R-TXN-12).
    pub fn prepare_add(
        &mut self,
        added: &BTreeSet<TopicPartition>,
        client_version: TransactionVersion,
        now_ms: i64,
    ) -> TransactionFacts {
        let start_timestamp_ms = if self.state().is_idle() { now_ms } else { self.facts.start_timestamp_ms };
        let partitions = self.facts.partitions.union(added).cloned().collect();
        self.prepare(TransactionFacts {
            partitions,
            start_timestamp_ms,
            last_update_timestamp_ms: now_ms,
            client_version,
            ..self.to(TransactionState::Ongoing)
        })
    }

    /// The transaction's end is decided (R-TXN-16, R-TXN-17). An abort `without_partitions` is that of an idle producer;
    /// `next_producer_id` is NONE as long as there are epochs.
    pub fn prepare_end(
        &mut self,
        committed: bool,
        client_version: TransactionVersion,
        next_producer_id: ProducerId,
        without_partitions: bool,
        now_ms: i64,
    ) -> TransactionFacts {
        let epoch = self.facts.producer_epoch;
        let mut facts = TransactionFacts {
            next_producer_id,
            last_update_timestamp_ms: now_ms,
            client_version,
            ..self.to(TransactionState::prepared(committed))
        };
        if without_partitions {
            facts.start_timestamp_ms = now_ms;
        }
        if client_version.raises_epochs() {
            // A producer that got there by mistake may still abort.
            let stays = epoch.0 == i16::MAX && !committed;
            facts.producer_epoch = if stays { epoch } else { next(epoch) };
            facts.last_producer_epoch = epoch;
        }
        self.prepare(facts)
    }

    /// All markers are to be written; then the transaction is over.
    pub fn prepare_complete(&mut self, now_ms: i64) -> TransactionFacts {
        self.has_failed_epoch_fence = false;
        let state = match self.state() {
            TransactionState::PrepareCommit => TransactionState::CompleteCommit,
            _ => TransactionState::CompleteAbort,
        };
        let next_id = self.facts.next_producer_id;
        let mut facts = TransactionFacts {
            next_producer_id: ProducerId::NONE,
            partitions: BTreeSet::new(),
            last_update_timestamp_ms: now_ms,
            ..self.to(state)
        };
        if self.facts.client_version.raises_epochs() && next_id != ProducerId::NONE {
            (facts.producer_id, facts.producer_epoch) = (next_id, ProducerEpoch(0));
        }
        self.prepare(facts)
    }

    /// The transactional id is to be forgotten.
    pub fn prepare_dead(&mut self) {
        self.prepare(self.to(TransactionState::Dead));
    }

    /// What is pending will not be.
    pub fn give_up(&mut self) {
        self.pending = None;
    }

    /// Before transaction version 2 a fence is taken at once, whatever becomes of the abort that it is for.
    pub fn take_fence(&mut self, epoch: ProducerEpoch) {
        self.give_up();
        self.facts.producer_epoch = epoch;
        self.facts.last_producer_epoch = ProducerEpoch::NONE;
    }

    /// The abort that a fence was for could not be written.
    pub fn fence_failed(&mut self) {
        self.has_failed_epoch_fence = true;
    }

    /// A marker is in a partition.
    pub fn remove_partition(&mut self, tp: &TopicPartition) {
        assert!(self.state().is_prepared(), "a marker in {tp} in the state {}", self.state());
        self.facts.partitions.remove(tp);
    }

    /// The facts of the pending transition are written.
    pub fn complete(&mut self, facts: TransactionFacts) {
        assert_eq!(self.pending, Some(facts.state), "{:?} is not pending", facts.state);
        assert!(self.accepts(&facts), "{:?} cannot become {facts:?}", self.facts);
        self.pending = None;
        self.facts = facts;
    }

    /// The present facts on their way to `state`.
    fn to(&self, state: TransactionState) -> TransactionFacts {
        TransactionFacts { state, previous_producer_id: self.facts.producer_id, ..self.facts.clone() }
    }

    fn emptied(&self, timeout_ms: i32, now_ms: i64) -> TransactionFacts {
        TransactionFacts {
            timeout_ms,
            partitions: BTreeSet::new(),
            start_timestamp_ms: NO_START,
            last_update_timestamp_ms: now_ms,
            ..self.to(TransactionState::Empty)
        }
    }

    fn prepare(&mut self, facts: TransactionFacts) -> TransactionFacts {
        let (from, to) = (self.state(), facts.state);
        assert!(self.pending.is_none(), "{to} is prepared while {:?} is pending", self.pending);
        assert!(to.may_follow(from), "{to} does not follow {from}");
        assert!(to == TransactionState::Dead || facts.producer_epoch.0 >= 0, "{to} without an epoch");
        self.pending = Some(to);
        facts
    }

    /// `completeTransitionTo`: what each transition may change.
    fn accepts(&self, to: &TransactionFacts) -> bool {
        let from = &self.facts;
        let same_timeout = to.timeout_ms == from.timeout_ms;
        match to.state {
            TransactionState::Empty => {
                let raised = to.producer_epoch.0 == from.producer_epoch.0 + 1;
                let is_new = to.producer_epoch.0 == 0 && to.producer_id != from.producer_id;
                (to.producer_epoch == from.producer_epoch || raised || is_new)
                    && to.partitions.is_empty()
                    && to.start_timestamp_ms == NO_START
            }
            TransactionState::Ongoing => {
                self.is_same_producer(to) && to.partitions.is_superset(&from.partitions) && same_timeout
            }
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                self.is_same_producer(to)
                    && to.partitions == from.partitions
                    && same_timeout
                    && (to.start_timestamp_ms == from.start_timestamp_ms || from.state.is_idle())
            }
            TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                self.is_same_producer(to) && same_timeout && to.start_timestamp_ms != NO_START
            }
            // An id that dies is removed, and a fence turns into an abort before it is written.
            TransactionState::Dead | TransactionState::PrepareEpochFence => false,
        }
    }

    /// From transaction version 2 on an end raises the epoch, and epochs that ran out are followed by another id.
    fn is_same_producer(&self, to: &TransactionFacts) -> bool {
        let from = &self.facts;
        let raises = to.client_version.raises_epochs();
        if raises
            && matches!(to.state, TransactionState::CompleteCommit | TransactionState::CompleteAbort)
            && to.producer_epoch.0 == 0
        {
            return to.last_producer_epoch == from.last_producer_epoch
                && to.previous_producer_id == from.producer_id;
        }
        if raises && to.state.is_prepared() {
            return to.last_producer_epoch == from.producer_epoch && to.producer_id == from.producer_id;
        }
        to.producer_epoch == from.producer_epoch && to.producer_id == from.producer_id
    }
}
