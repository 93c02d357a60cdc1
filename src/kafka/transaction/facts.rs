//! What `__transaction_state` says of one transactional id (R-TXN-2).
//!
//! Mirrors `TxnTransitMetadata` and the records of `TransactionLog`.
//!
//! **Invariant:** but for the last epoch, which no record has room for, facts that are written are read back.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::state::TransactionState;
use super::version::TransactionVersion;
use crate::kafka::protocol::transaction_records::TransactionValue;
use crate::kafka::types::{ProducerEpoch, ProducerId, TopicPartition};

/// The last epoch that a client gets of one producer id is the one before: one is left for fencing it.
const LAST_EPOCH: i16 = i16::MAX - 1;

/// A transaction's start where there is none.
pub(super) const NO_START: i64 = -1;

/// Whether no client gets a later epoch of the same producer id (R-TXN-7).
pub fn is_exhausted(epoch: ProducerEpoch) -> bool {
    epoch.0 >= LAST_EPOCH
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionFacts {
    pub producer_id: ProducerId,
    /// Of the transition before.
    pub previous_producer_id: ProducerId,
    /// What the producer was promised when its epochs ran out (transaction version 2).
    pub next_producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    /// The epoch before, as long as a repeated request may name it; NONE otherwise. Not written.
    pub last_producer_epoch: ProducerEpoch,
    pub timeout_ms: i32,
    pub state: TransactionState,
    pub partitions: BTreeSet<TopicPartition>,
    /// Milliseconds since 1970; -1 if nothing has begun.
    pub start_timestamp_ms: i64,
    /// Milliseconds since 1970.
    pub last_update_timestamp_ms: i64,
    /// Of the client at the last transition.
    pub client_version: TransactionVersion,
}

impl TransactionFacts {
    /// The record's value under the cluster's `transaction.version`.
    pub fn encode(&self, version: TransactionVersion) -> Bytes {
        let is_empty = self.state == TransactionState::Empty;
        assert!(!is_empty || self.partitions.is_empty(), "an empty transaction has partitions: {self:?}");
        TransactionValue {
            producer_id: self.producer_id,
            previous_producer_id: self.previous_producer_id,
            next_producer_id: self.next_producer_id,
            producer_epoch: self.producer_epoch,
            timeout_ms: self.timeout_ms,
            status: self.state.id(),
            partitions: (!is_empty).then(|| self.partitions.clone()),
            last_update_timestamp_ms: self.last_update_timestamp_ms,
            start_timestamp_ms: self.start_timestamp_ms,
            client_transaction_version: self.client_version.level(),
        }
        .encode(version.record_version())
    }

    /// `None` if the value names a state that there is none of.
    pub fn of(value: TransactionValue) -> Option<TransactionFacts> {
        Some(TransactionFacts {
            producer_id: value.producer_id,
            previous_producer_id: value.previous_producer_id,
            next_producer_id: value.next_producer_id,
            producer_epoch: value.producer_epoch,
            last_producer_epoch: ProducerEpoch::NONE,
            timeout_ms: value.timeout_ms,
            state: TransactionState::of_id(value.status)?,
            partitions: value.partitions.unwrap_or_default(),
            start_timestamp_ms: value.start_timestamp_ms,
            last_update_timestamp_ms: value.last_update_timestamp_ms,
            client_version: TransactionVersion::of_level(value.client_transaction_version),
        })
    }
}
