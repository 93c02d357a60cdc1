//! What is asked of a transaction's coordinator, and what it decides from the facts alone.
//!
//! Mirrors the checks of `TransactionCoordinator`, in their order (R-TXN-8, 9, 12, 16, 17).
//!
//! **Invariant:** a refusal changes nothing; anything else prepares exactly one transition.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{TransactionFacts, is_exhausted};
use super::metadata::TransactionMetadata;
use super::state::TransactionState;
use super::version::TransactionVersion;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ProducerEpoch, ProducerId, TopicPartition, TransactionalId};

/// A producer id with its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdAndEpoch {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
}

impl ProducerIdAndEpoch {
    pub const NONE: ProducerIdAndEpoch =
        ProducerIdAndEpoch { id: ProducerId::NONE, epoch: ProducerEpoch::NONE };
}

/// InitProducerId with a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    pub id: TransactionalId,
    pub timeout_ms: i32,
    /// Another system decides the transaction's end (KIP-939).
    pub two_phase_commit: bool,
    pub keep_prepared: bool,
    /// What a live producer has (KIP-360).
    pub expected: Option<ProducerIdAndEpoch>,
}

/// AddPartitionsToTxn, or AddOffsetsToTxn with the group's partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Add {
    pub id: TransactionalId,
    pub producer: ProducerIdAndEpoch,
    pub partitions: BTreeSet<TopicPartition>,
    pub client_version: TransactionVersion,
}

/// EndTxn, or an end that the coordinator itself wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub id: TransactionalId,
    pub producer: ProducerIdAndEpoch,
    pub committed: bool,
    pub from_client: bool,
    pub client_version: TransactionVersion,
}

/// What InitProducerId leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Initialization {
    Write(TransactionFacts),
    /// An open transaction is aborted first, with these raised facts.
    Abort(TransactionFacts),
}

/// What EndTxn leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was done before; this is what the producer has now.
    Repeated(ProducerIdAndEpoch),
    /// `fences`: a producer is fenced with it.
    Write { facts: TransactionFacts, fences: bool },
}

/// Gives new producer ids.
pub type ProducerIdSource<'a> = &'a mut dyn FnMut() -> Result<ProducerId, ErrorCode>;

/// `prepareInitProducerIdTransit`
pub(super) fn initialize(
    tx: &mut TransactionMetadata,
    init: &Init,
    timeout_ms: i32,
    new_id: ProducerIdSource<'_>,
    now_ms: i64,
) -> Result<Initialization, ErrorCode> {
    if tx.pending().is_some() {
        return Err(ErrorCode::ConcurrentTransactions);
    }
    if init.expected.is_some_and(|expected| !may_be(tx.facts(), expected)) {
        return Err(ErrorCode::ProducerFenced);
    }
    let expected = init.expected.map(|expected| expected.epoch);
    match tx.state() {
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        TransactionState::Ongoing => Ok(Initialization::Abort(tx.prepare_fence())),
        _ if tx.is_epoch_exhausted() && expected.is_none_or(|epoch| epoch == tx.facts().producer_epoch) => {
            let facts = tx.prepare_next_producer_id(new_id()?, timeout_ms, expected, now_ms);
            Ok(Initialization::Write(facts))
        }
        // Kafka fails an assertion here, which the client is told as this.
        _ if tx.is_epoch_exhausted() => Err(ErrorCode::UnknownServerError),
        _ => tx.prepare_next_epoch(timeout_ms, expected, now_ms).map(Initialization::Write),
    }
}

/// Whether a producer that names what it has may be the one of the facts, or was until its epochs ran out.
fn may_be(facts: &TransactionFacts, named: ProducerIdAndEpoch) -> bool {
    facts.producer_epoch == ProducerEpoch::NONE
        || named.id == facts.producer_id
        || (named.id == facts.previous_producer_id && is_exhausted(named.epoch))
}

/// `handleAddPartitionsToTransaction`; nothing is to be written if all partitions are in (R-TXN-12).
pub(super) fn add(
    tx: &mut TransactionMetadata,
    add: &Add,
    now_ms: i64,
) -> Result<Option<TransactionFacts>, ErrorCode> {
    // Epochs may be about to run out: what is pending says what holds next.
    if tx.pending().is_some() {
        return Err(ErrorCode::ConcurrentTransactions);
    }
    check_open(tx.facts(), add.producer)?;
    if tx.state() == TransactionState::Ongoing && tx.facts().partitions.is_superset(&add.partitions) {
        return Ok(None);
    }
    Ok(Some(tx.prepare_add(&add.partitions, add.client_version, now_ms)))
}

/// `handleVerifyPartitionsInTransaction`: which partitions are in the transaction. What is pending makes no difference, as
/// the leader looks once more when it appends (R-TXN-14).
pub(super) fn verify(
    facts: &TransactionFacts,
    producer: ProducerIdAndEpoch,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<BTreeMap<TopicPartition, ErrorCode>, ErrorCode> {
    check_open(facts, producer)?;
    let verified = |tp: &TopicPartition| match facts.partitions.contains(tp) {
        true => ErrorCode::None,
        false => ErrorCode::TransactionAbortable,
    };
    Ok(partitions.iter().map(|tp| (tp.clone(), verified(tp))).collect())
}

fn check_open(facts: &TransactionFacts, producer: ProducerIdAndEpoch) -> Result<(), ErrorCode> {
    if facts.producer_id != producer.id {
        Err(ErrorCode::InvalidProducerIdMapping)
    } else if facts.producer_epoch != producer.epoch && !plant::is(Plant::OldEpochAccepted) {
        Err(ErrorCode::ProducerFenced)
    } else if facts.state.is_prepared() {
        Err(ErrorCode::ConcurrentTransactions)
    } else {
        Ok(())
    }
}

/// `endTransaction`
pub(super) fn end(
    tx: &mut TransactionMetadata,
    end: &End,
    new_id: ProducerIdSource<'_>,
    now_ms: i64,
) -> Result<Ending, ErrorCode> {
    if end.client_version.raises_epochs() {
        end_with_raised_epoch(tx, end, new_id, now_ms)
    } else {
        end_with_same_epoch(tx, end, now_ms)
    }
}

/// Whether another transition than a fence is pending.
fn is_busy(tx: &TransactionMetadata) -> bool {
    tx.pending().is_some_and(|pending| pending != TransactionState::PrepareEpochFence)
}

/// `endTransactionWithTV1`: a request may be repeated as it is.
fn end_with_same_epoch(tx: &mut TransactionMetadata, end: &End, now_ms: i64) -> Result<Ending, ErrorCode> {
    let (facts, producer) = (tx.facts(), end.producer);
    if facts.producer_id != producer.id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    let is_another = end.from_client && producer.epoch != facts.producer_epoch;
    if is_another || producer.epoch < facts.producer_epoch {
        return Err(ErrorCode::ProducerFenced);
    }
    if is_busy(tx) {
        return Err(ErrorCode::ConcurrentTransactions);
    }
    match (tx.state(), end.committed) {
        (TransactionState::Ongoing, committed) => {
            let fences = !committed && tx.pending() == Some(TransactionState::PrepareEpochFence);
            if fences {
                tx.take_fence(producer.epoch);
            }
            let version = TransactionVersion::V0;
            let facts = tx.prepare_end(committed, version, ProducerId::NONE, false, now_ms);
            Ok(Ending::Write { facts, fences })
        }
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) => {
            Ok(Ending::Repeated(ProducerIdAndEpoch::NONE))
        }
        (TransactionState::PrepareCommit, true) | (TransactionState::PrepareAbort, false) => {
            Err(ErrorCode::ConcurrentTransactions)
        }
        _ => Err(ErrorCode::InvalidTxnState),
    }
}

/// From transaction version 2 on a repeated request is known by the epoch before (R-TXN-17).
fn end_with_raised_epoch(
    tx: &mut TransactionMetadata,
    end: &End,
    new_id: ProducerIdSource<'_>,
    now_ms: i64,
) -> Result<Ending, ErrorCode> {
    if is_busy(tx) {
        return Err(ErrorCode::ConcurrentTransactions);
    }
    let (facts, producer) = (tx.facts(), end.producer);
    let fences = tx.pending().is_some();
    let overflowed = facts.previous_producer_id == producer.id
        && producer.epoch.0 == i16::MAX - 1
        && facts.producer_epoch.0 == 0;
    let (after_overflow, after_raise) = (
        !fences && overflowed,
        !fences && i32::from(facts.producer_epoch.0) == i32::from(producer.epoch.0) + 1,
    );
    if facts.producer_id != producer.id && !after_overflow {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    let (is_repeated, is_current) = (after_raise || after_overflow, producer.epoch == facts.producer_epoch);
    let is_valid = match tx.state() {
        _ if fences => (!end.from_client || is_current) && producer.epoch >= facts.producer_epoch,
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => after_raise,
        TransactionState::CompleteCommit | TransactionState::CompleteAbort => is_repeated || is_current,
        _ => is_current,
    };
    if !is_valid {
        return Err(ErrorCode::ProducerFenced);
    }
    let has = ProducerIdAndEpoch { id: facts.producer_id, epoch: facts.producer_epoch };
    match (tx.state(), end.committed) {
        (TransactionState::Ongoing, _) => {}
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false)
            if is_repeated =>
        {
            return Ok(Ending::Repeated(has));
        }
        (TransactionState::PrepareCommit, true) | (TransactionState::PrepareAbort, false) => {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        // A producer that does not know whether anything was added aborts to be sure.
        (state, false) if state.is_idle() && !is_repeated => {}
        _ => return Err(ErrorCode::InvalidTxnState),
    }
    if fences && !end.committed {
        tx.give_up();
    }
    let next_producer_id = if tx.is_epoch_exhausted() { new_id()? } else { ProducerId::NONE };
    let without_partitions = tx.state() != TransactionState::Ongoing;
    let facts =
        tx.prepare_end(end.committed, end.client_version, next_producer_id, without_partitions, now_ms);
    Ok(Ending::Write { facts, fences })
}
