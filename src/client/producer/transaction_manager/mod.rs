//! The state of a transactional producer (Kafka's `TransactionManager`, R-TXN-30, R-TXN-31).
//!
//! - this file: the states, the application's calls, and the requests that wait for their turn
//! - `speaks`: the protocol of a transaction; `request`: what coordinators are asked; `answers`: what their answers mean; `error`: what is thrown
//!
//! The application's calls (`initialize`, `begin`, `commit`...) give a [`ResultId`], whose outcome is there later. The
//! sender takes one request after the other by [`TransactionManager::next_request`], and none but the end may overtake
//! records: EndTxn waits until all batches have their outcome.
//!
//! How the cluster's `transaction.version` stands it learns when initTransactions() returns and at each transaction's end
//! ([`TransactionManager::learn`]); a transaction ends by the protocol that it began with ([`Speaks`], R-TXN-5).
//!
//! **Invariant:** a fatal error is never left, and after an abortable one nothing but an abort goes on.

mod answers;
mod error;
mod request;
mod speaks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use request::Ask;

use super::call::CallName;
use super::sequences::Sequences;
use crate::client::group_metadata::GroupMetadata;
use crate::kafka::api_versions::FinalizedFeatures;
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::transaction::ProducerIdAndEpoch;
use crate::kafka::types::{BrokerId, TopicPartition, TransactionalId};

pub use error::ProducerError;
pub use request::{CommittedOffset, CoordinatorOf, Offsets, TransactionalRequest};
pub use speaks::Speaks;

/// How far a transactional producer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Uninitialized,
    Initializing,
    Ready,
    InTransaction,
    Committing,
    Aborting,
    /// The transaction cannot be committed any more, but aborted.
    AbortableError,
    /// Nothing goes any more but close().
    FatalError,
}

impl State {
    fn may_become(self, target: State) -> bool {
        use State::*;
        match target {
            Uninitialized => matches!(self, Ready | AbortableError),
            Initializing => matches!(self, Uninitialized | Committing | Aborting),
            Ready => matches!(self, Initializing | Committing | Aborting),
            InTransaction => self == Ready,
            Committing => self == InTransaction,
            Aborting => matches!(self, InTransaction | AbortableError),
            AbortableError => matches!(self, InTransaction | Committing | AbortableError | Initializing),
            FatalError => true,
        }
    }

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            State::Uninitialized => "UNINITIALIZED",
            State::Initializing => "INITIALIZING",
            State::Ready => "READY",
            State::InTransaction => "IN_TRANSACTION",
            State::Committing => "COMMITTING_TRANSACTION",
            State::Aborting => "ABORTING_TRANSACTION",
            State::AbortableError => "ABORTABLE_ERROR",
            State::FatalError => "FATAL_ERROR",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Names what a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResultId(u64);

type Outcome = Result<(), ProducerError>;

/// A call that changes the state: made again after a timeout, it goes on where it was.
#[derive(Clone, Copy, Debug)]
struct PendingTransition {
    call: CallName,
    result: ResultId,
}

#[derive(Clone, Debug)]
pub struct TransactionManager {
    id: TransactionalId,
    timeout_ms: i32,
    retry_backoff_ms: i64,
    state: State,
    last_error: Option<ProducerError>,
    /// What waits to be sent, in the order in which it goes.
    queue: Vec<TransactionalRequest>,
    /// Outcomes that the application has not taken yet.
    results: BTreeMap<ResultId, Option<Outcome>>,
    next_result: u64,
    pending_transition: Option<PendingTransition>,
    coordinator: Option<BrokerId>,
    group_coordinator: Option<BrokerId>,
    speaks: Speaks,
    /// The cluster's features are known as of here.
    features_epoch: i64,
    /// By InitProducerId; before transaction version 2 nothing else can make up for records in doubt.
    coordinator_raises_epochs: bool,
    must_raise_epoch: bool,
    partitions: BTreeSet<TopicPartition>,
    /// Partitions that the coordinator has not been asked to add.
    new_partitions: BTreeSet<TopicPartition>,
    /// Those that it has been asked to.
    pending_partitions: BTreeSet<TopicPartition>,
    /// Offsets that a group's coordinator has not confirmed.
    pending_offsets: Offsets,
    /// Coordinators may know of the transaction.
    is_started: bool,
}

impl TransactionManager {
    pub fn new(id: TransactionalId, timeout_ms: i32, retry_backoff_ms: i64) -> TransactionManager {
        TransactionManager {
            id,
            timeout_ms,
            retry_backoff_ms,
            state: State::Uninitialized,
            last_error: None,
            queue: Vec::new(),
            results: BTreeMap::new(),
            next_result: 0,
            pending_transition: None,
            coordinator: None,
            group_coordinator: None,
            speaks: Speaks::default(),
            features_epoch: -1,
            coordinator_raises_epochs: false,
            must_raise_epoch: false,
            partitions: BTreeSet::new(),
            new_partitions: BTreeSet::new(),
            pending_partitions: BTreeSet::new(),
            pending_offsets: Offsets::new(),
            is_started: false,
        }
    }

    pub fn id(&self) -> &TransactionalId {
        &self.id
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn last_error(&self) -> Option<&ProducerError> {
        self.last_error.as_ref()
    }

    pub fn speaks(&self) -> Speaks {
        self.speaks
    }

    /// The partitions of the transaction, as far as records may be sent to them.
    pub fn partitions(&self) -> &BTreeSet<TopicPartition> {
        &self.partitions
    }

    /// Offsets that a group's coordinator has not confirmed yet.
    pub fn pending_offsets(&self) -> &Offsets {
        &self.pending_offsets
    }

    pub fn has_error(&self) -> bool {
        matches!(self.state, State::AbortableError | State::FatalError)
    }

    pub fn is_completing(&self) -> bool {
        matches!(self.state, State::Committing | State::Aborting)
    }

    /// From begin() until the end is decided, or nothing goes any more.
    pub fn has_ongoing_transaction(&self) -> bool {
        matches!(self.state, State::InTransaction | State::AbortableError) || self.is_completing()
    }

    pub fn has_requests(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether batches of the partition may be sent.
    pub fn may_send_to(&self, tp: &TopicPartition) -> bool {
        self.state != State::FatalError && self.partitions.contains(tp)
    }

    // The application's calls.

    /// initTransactions()
    pub fn initialize(&mut self) -> Result<ResultId, ProducerError> {
        self.fail_with_error()?;
        self.transition(CallName::InitTransactions, |manager| {
            manager.enter(CallName::InitTransactions, State::Initializing)?;
            let result = manager.new_result();
            let ask = Ask::InitProducerId { raises_epoch: false };
            manager.enqueue(ask, ProducerIdAndEpoch::NONE, Some(result));
            Ok(result)
        })
    }

    /// beginTransaction(): nobody else is told.
    pub fn begin(&mut self) -> Outcome {
        self.check_no_pending(CallName::BeginTransaction)?;
        self.fail_with_error()?;
        self.enter(CallName::BeginTransaction, State::InTransaction)
    }

    /// commitTransaction()
    pub fn commit(
        &mut self,
        sequences: &Sequences,
        features: &FinalizedFeatures,
    ) -> Result<ResultId, ProducerError> {
        self.transition(CallName::CommitTransaction, |manager| {
            manager.fail_with_error()?;
            manager.enter(CallName::CommitTransaction, State::Committing)?;
            Ok(manager.enqueue_end(true, sequences, features))
        })
    }

    /// abortTransaction(), which is the way out of an abortable error.
    pub fn abort(
        &mut self,
        sequences: &Sequences,
        features: &FinalizedFeatures,
    ) -> Result<ResultId, ProducerError> {
        self.transition(CallName::AbortTransaction, |manager| {
            if manager.state != State::AbortableError {
                manager.fail_with_error()?;
            }
            manager.enter(CallName::AbortTransaction, State::Aborting)?;
            manager.new_partitions.clear();
            Ok(manager.enqueue_end(false, sequences, features))
        })
    }

    /// `close()` ends what nobody else ends. Says whether that is possible.
    pub fn abort_for_close(&mut self, sequences: &Sequences, features: &FinalizedFeatures) -> bool {
        self.abort(sequences, features).is_ok()
    }

    /// The end, and another epoch after it if one is needed: the call waits for the last of them
    /// (`beginCompletingTransaction`).
    fn enqueue_end(
        &mut self,
        committed: bool,
        sequences: &Sequences,
        features: &FinalizedFeatures,
    ) -> ResultId {
        self.enqueue_new_partitions(sequences.producer());
        let end = Ask::End { committed, speaks: self.speaks };
        self.learn(features, false);
        let result = self.new_result();
        if self.must_raise_epoch {
            self.enqueue(end, sequences.producer(), None);
            self.enqueue(Ask::InitProducerId { raises_epoch: true }, sequences.producer(), Some(result));
        } else {
            self.enqueue(end, sequences.producer(), Some(result));
        }
        result
    }

    /// sendOffsetsToTransaction(): R-TXN-32. With transaction version 2 the group's coordinator sees to it that its
    /// partition is in the transaction; before, the producer does (R-TXN-11).
    pub fn send_offsets(
        &mut self,
        offsets: &Offsets,
        group: &GroupMetadata,
        sequences: &Sequences,
    ) -> Result<ResultId, ProducerError> {
        const CALL: CallName = CallName::SendOffsetsToTransaction;
        self.check_no_pending(CALL)?;
        self.fail_with_error()?;
        if self.state != State::InTransaction {
            return Err(ProducerError::IllegalState { call: CALL, state: self.state });
        }
        let result = self.new_result();
        match self.speaks {
            Speaks::Version1 => {
                let ask = Ask::AddOffsets { offsets: Rc::new(offsets.clone()), group: group.clone() };
                self.enqueue(ask, sequences.producer(), Some(result));
            }
            Speaks::Version2 => {
                self.enqueue_offsets(offsets, group, sequences.producer(), Some(result));
                self.is_started = true;
            }
        }
        Ok(result)
    }

    fn enqueue_offsets(
        &mut self,
        offsets: &Offsets,
        group: &GroupMetadata,
        producer: ProducerIdAndEpoch,
        result: Option<ResultId>,
    ) {
        self.pending_offsets.extend(offsets.iter().map(|(tp, offset)| (tp.clone(), *offset)));
        let (offsets, group) = (Rc::new(self.pending_offsets.clone()), group.clone());
        let ask = Ask::CommitOffsets { offsets, group, speaks: self.speaks };
        self.enqueue(ask, producer, result);
    }

    /// A record was appended to a batch of the partition (`maybeAddPartition`).
    pub fn add_partition(&mut self, tp: &TopicPartition) -> Outcome {
        self.fail_with_error()?;
        self.check_no_pending(CallName::Send)?;
        if self.state != State::InTransaction {
            return Err(ProducerError::IllegalState { call: CallName::Send, state: self.state });
        }
        match self.speaks {
            Speaks::Version2 => {
                self.partitions.insert(tp.clone());
                self.is_started = true;
            }
            Speaks::Version1 if self.partitions.contains(tp) || self.pending_partitions.contains(tp) => {}
            Speaks::Version1 => drop(self.new_partitions.insert(tp.clone())),
        }
        Ok(())
    }

    /// Asks the coordinator for what is new, in one request.
    /// Partitions that the coordinator is asked to add, over and over as long as they are not there.
    pub fn awaited_partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.pending_partitions.iter()
    }

    fn enqueue_new_partitions(&mut self, producer: ProducerIdAndEpoch) {
        if !self.new_partitions.is_empty() {
            self.pending_partitions.append(&mut self.new_partitions);
            self.enqueue(Ask::AddPartitions(self.pending_partitions.clone()), producer, None);
        }
    }

    /// Runs a call that changes the state, unless it goes on already.
    fn transition(
        &mut self,
        call: CallName,
        begin: impl FnOnce(&mut TransactionManager) -> Result<ResultId, ProducerError>,
    ) -> Result<ResultId, ProducerError> {
        match self.pending() {
            Some(pending) if pending.call == call => return Ok(pending.result),
            Some(pending) => return Err(ProducerError::CallPending { call, pending: pending.call }),
            None => {}
        }
        let result = begin(self)?;
        self.pending_transition = Some(PendingTransition { call, result });
        Ok(result)
    }

    /// The call whose outcome the application has not seen.
    fn pending(&mut self) -> Option<PendingTransition> {
        self.pending_transition = self.pending_transition.filter(|it| self.results.contains_key(&it.result));
        self.pending_transition
    }

    fn check_no_pending(&mut self, call: CallName) -> Outcome {
        match self.pending() {
            Some(pending) => Err(ProducerError::CallPending { call, pending: pending.call }),
            None => Ok(()),
        }
    }

    /// `maybeFailWithError`
    fn fail_with_error(&self) -> Outcome {
        match &self.last_error {
            Some(error) if self.has_error() => Err(match error {
                ProducerError::Kafka(ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch)
                | ProducerError::Poisoned { .. } => error.clone(),
                error => ProducerError::InErrorState(Box::new(error.clone())),
            }),
            _ => Ok(()),
        }
    }

    // Results.

    fn new_result(&mut self) -> ResultId {
        let id = ResultId(self.next_result);
        self.next_result += 1;
        self.results.insert(id, None);
        id
    }

    fn complete(&mut self, result: Option<ResultId>, outcome: Outcome) {
        if let Some(slot) = result.and_then(|id| self.results.get_mut(&id)) {
            *slot = Some(outcome);
        }
    }

    /// The outcome of what the application waits for; it is forgotten with that.
    pub fn take_outcome(&mut self, result: ResultId) -> Option<Outcome> {
        self.results.get(&result)?.as_ref()?;
        self.results.remove(&result).flatten()
    }

    /// The application waits no longer. A call that changes the state may be made again, and is then found.
    pub fn give_up_waiting(&mut self, result: ResultId) {
        if self.pending_transition.is_none_or(|pending| pending.result != result) {
            self.results.remove(&result);
        }
    }

    // States.

    /// A step that the application wants.
    fn enter(&mut self, call: CallName, target: State) -> Outcome {
        if !self.state.may_become(target) {
            return Err(ProducerError::IllegalState { call, state: self.state });
        }
        self.state = target;
        self.last_error = None;
        Ok(())
    }

    /// A step of the sender; one that leads no way ends everything (KAFKA-14831).
    fn proceed(&mut self, target: State, error: Option<ProducerError>) {
        let from = self.state;
        if from.may_become(target) {
            self.state = target;
            self.last_error = error;
        } else {
            self.state = State::FatalError;
            self.last_error = Some(ProducerError::Poisoned { from, to: target });
        }
    }

    fn fail_for_good(&mut self, error: ProducerError) {
        self.proceed(State::FatalError, Some(error.clone()));
        let pending = self.pending_transition.map(|pending| pending.result);
        self.complete(pending, Err(error));
    }

    /// Unless it is being aborted anyway.
    fn fail_transaction(&mut self, error: ProducerError) {
        if self.state != State::Aborting {
            self.proceed(State::AbortableError, Some(error));
        }
    }

    /// Records could not be sent: `error` is what their batch failed with (`maybeTransitionToErrorState`, R-TXN-31).
    pub fn on_send_error(&mut self, error: ErrorCode) {
        match error {
            ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::ProducerFenced
            | ErrorCode::UnsupportedVersion
            | ErrorCode::InvalidProducerIdMapping => self.fail_for_good(ProducerError::Kafka(error)),
            error => {
                if self.raises_epoch_itself() && !self.is_completing() {
                    self.must_raise_epoch = true;
                }
                let passes = error.is_retriable() || error == ErrorCode::InvalidTxnState;
                self.fail_transaction(match passes {
                    true => ProducerError::RetriesExhausted(error),
                    false => ProducerError::Kafka(error),
                });
            }
        }
    }

    /// The same of a record that send() itself refuses, on the application's thread.
    pub fn on_send_refused(&mut self, error: ErrorCode) -> Outcome {
        if !self.state.may_become(State::AbortableError) && self.state != State::Aborting {
            return Err(ProducerError::IllegalState { call: CallName::Send, state: self.state });
        }
        self.on_send_error(error);
        Ok(())
    }

    /// Whether some records were written nobody will know (R-PROD-18).
    pub fn on_unresolved(&mut self) {
        match self.prepare_abort() {
            true => self.fail_transaction(ProducerError::Unacknowledged),
            false => self.fail_for_good(ProducerError::Unacknowledged),
        }
    }

    /// The transaction is over.
    fn reset(&mut self) {
        let next = if self.must_raise_epoch { State::Initializing } else { State::Ready };
        self.proceed(next, None);
        self.must_raise_epoch = false;
        self.is_started = false;
        self.partitions.clear();
        self.new_partitions.clear();
        self.pending_partitions.clear();
    }

    // Requests.

    fn enqueue(&mut self, ask: Ask, producer: ProducerIdAndEpoch, result: Option<ResultId>) {
        let backoff_ms = self.retry_backoff_ms;
        self.insert(TransactionalRequest { ask, producer, result, is_retry: false, backoff_ms });
    }

    fn insert(&mut self, request: TransactionalRequest) {
        let place = self.queue.partition_point(|other| other.priority() <= request.priority());
        self.queue.insert(place, request);
    }

    /// A request was not sent, or its answer does not count.
    pub fn retry(&mut self, mut request: TransactionalRequest) {
        request.is_retry = true;
        self.insert(request);
    }

    pub fn known_coordinator(&self, of: &CoordinatorOf) -> Option<BrokerId> {
        match of {
            CoordinatorOf::Transaction => self.coordinator,
            CoordinatorOf::Group(_) => self.group_coordinator,
        }
    }

    /// The coordinator is not known, or not any more.
    pub fn look_up(&mut self, of: CoordinatorOf) {
        match of {
            CoordinatorOf::Transaction => self.coordinator = None,
            CoordinatorOf::Group(_) => self.group_coordinator = None,
        }
        self.enqueue(Ask::FindCoordinator(of), ProducerIdAndEpoch::NONE, None);
    }

    /// The request whose turn it is. Those that an error makes senseless fail on the way, and an end that nobody has to be
    /// told of is done at once. `has_batches`: some have no outcome yet.
    pub fn next_request(&mut self, has_batches: bool, sequences: &Sequences) -> Option<TransactionalRequest> {
        self.enqueue_new_partitions(sequences.producer());
        loop {
            let first = self.queue.first()?;
            if first.is_end() && has_batches {
                return None;
            }
            let request = self.queue.remove(0);
            let finds_abortable =
                self.state == State::AbortableError && matches!(request.ask, Ask::FindCoordinator(_));
            if let Some(error) = self.last_error.clone().filter(|_| self.has_error() && !finds_abortable) {
                self.complete(request.result, Err(error));
            } else if request.is_end() && !self.is_started {
                self.complete(request.result, Ok(()));
                self.reset();
            } else {
                return Some(request);
            }
        }
    }

    pub fn body(&self, request: &TransactionalRequest) -> Request {
        request.body(&self.id, self.timeout_ms)
    }
}

#[cfg(test)]
mod tests;
