//! What coordinators answer, and what follows: fatal, abortable, or once more (R-TXN-31).
//!
//! Mirrors `TransactionManager`'s request handlers as far as they hear.
//!
//! **Invariant:** a request is done, is asked again, or has put the producer into an error state.

use kafka_protocol::messages as m;

use super::request::{Ask, CoordinatorOf, Offsets, TransactionalRequest};
use super::{ProducerError, State, TransactionManager};
use crate::client::coordinator::found;
use crate::client::group_metadata::GroupMetadata;
use crate::client::producer::sequences::Sequences;
use crate::kafka::protocol::{ApiKey, ErrorCode, Response};
use crate::kafka::transaction::wire::errors_of_client;
use crate::kafka::types::{BrokerId, ProducerEpoch, ProducerId, Topic, TopicPartition};

/// How soon the first partitions of a transaction are asked for again when the last one is not over (R-TXN-13).
const ADD_PARTITIONS_RETRY_BACKOFF_MS: i64 = 20;

impl TransactionManager {
    /// The connection was lost: who asks finds out whether the coordinator is still the same.
    pub fn on_lost(&mut self, request: TransactionalRequest) {
        if let Some(of) = request.coordinator() {
            self.look_up(of);
        }
        self.retry(request);
    }

    pub fn on_answer(
        &mut self,
        request: TransactionalRequest,
        response: &Response,
        sequences: &mut Sequences,
    ) {
        match (request.ask.clone(), response) {
            (Ask::FindCoordinator(of), Response::FindCoordinator(response)) => {
                self.on_coordinator(request, of, found(response));
            }
            (Ask::InitProducerId { raises_epoch }, Response::InitProducerId(response)) => {
                self.on_initialized(request, raises_epoch, response, sequences);
            }
            (Ask::AddPartitions(_), Response::AddPartitionsToTxn(response)) => {
                self.on_partitions_added(request, response);
            }
            (Ask::AddOffsets { offsets, group }, Response::AddOffsetsToTxn(response)) => {
                self.on_offsets_added(request, (&offsets, &group), response);
            }
            (Ask::CommitOffsets { group, .. }, Response::TxnOffsetCommit(response)) => {
                self.on_offsets_committed(request, CoordinatorOf::Group(group.group), response);
            }
            (Ask::End { committed, .. }, Response::EndTxn(response)) => {
                self.on_ended(request, committed, response, sequences);
            }
            (ask, response) => panic!("{} answers {ask:?}", response.api().name()),
        }
    }

    fn fatal(&mut self, request: &TransactionalRequest, error: ProducerError) {
        self.complete(request.result, Err(error.clone()));
        self.fail_for_good(error);
    }

    fn abortable(&mut self, request: &TransactionalRequest, error: ProducerError) {
        self.complete(request.result, Err(error.clone()));
        self.fail_transaction(error);
    }

    /// `abortableErrorIfPossible`
    fn abortable_if_possible(&mut self, request: &TransactionalRequest, error: ErrorCode) {
        match self.prepare_abort() {
            true => self.abortable(request, ProducerError::Kafka(error)),
            false => self.fatal(request, ProducerError::Kafka(error)),
        }
    }

    fn on_coordinator(
        &mut self,
        request: TransactionalRequest,
        of: CoordinatorOf,
        found: Result<BrokerId, ErrorCode>,
    ) {
        match found {
            Ok(broker) => match of {
                CoordinatorOf::Transaction => self.coordinator = Some(broker),
                CoordinatorOf::Group(_) => self.group_coordinator = Some(broker),
            },
            Err(error) if error.is_retriable() => self.retry(request),
            Err(error @ ErrorCode::TransactionalIdAuthorizationFailed) => {
                self.fatal(&request, ProducerError::Kafka(error));
            }
            Err(error @ (ErrorCode::GroupAuthorizationFailed | ErrorCode::TransactionAbortable)) => {
                self.abortable(&request, ProducerError::Kafka(error));
            }
            Err(error) => self.fatal(&request, unexpected(ApiKey::FindCoordinator, error)),
        }
    }

    fn on_initialized(
        &mut self,
        request: TransactionalRequest,
        raises_epoch: bool,
        response: &m::InitProducerIdResponse,
        sequences: &mut Sequences,
    ) {
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => {
                let (id, epoch) = (response.producer_id.0, response.producer_epoch);
                sequences.set_identity(ProducerId(id), ProducerEpoch(epoch));
                self.proceed(State::Ready, None);
                if raises_epoch {
                    sequences.reset();
                }
                self.complete(request.result, Ok(()));
            }
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                self.look_up(CoordinatorOf::Transaction);
                self.retry(request);
            }
            error if error.is_retriable() => self.retry(request),
            error @ (ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::TransactionAbortable) => self.abortable(&request, ProducerError::Kafka(error)),
            ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => {
                self.fatal(&request, ProducerError::Kafka(ErrorCode::ProducerFenced));
            }
            error => self.fatal(&request, unexpected(ApiKey::InitProducerId, error)),
        }
    }

    /// AddPartitionsToTxn: records may be sent to the partitions from now on (R-TXN-11, R-TXN-13).
    fn on_partitions_added(
        &mut self,
        mut request: TransactionalRequest,
        response: &m::AddPartitionsToTxnResponse,
    ) {
        request.backoff_ms = self.retry_backoff_ms;
        let mut not_added = None;
        for (_, error) in errors_of_client(response) {
            match error {
                ErrorCode::None => {}
                ErrorCode::OperationNotAttempted => not_added = not_added.or(Some(error)),
                ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
                    self.look_up(CoordinatorOf::Transaction);
                    return self.retry(request);
                }
                ErrorCode::ConcurrentTransactions => {
                    // The last transaction is nearly over.
                    if self.partitions.is_empty() {
                        request.backoff_ms = request.backoff_ms.min(ADD_PARTITIONS_RETRY_BACKOFF_MS);
                    }
                    return self.retry(request);
                }
                error if error.is_retriable() => return self.retry(request),
                error if self.refuse_addition(&request, error) => return,
                error => not_added = Some(error),
            }
        }
        let partitions: Vec<_> = errors_of_client(response).map(|(tp, _)| tp).collect();
        self.pending_partitions.retain(|tp| !partitions.contains(tp));
        match not_added {
            Some(error) => self.abortable(&request, ProducerError::NotAdded(error)),
            None => {
                self.partitions.extend(partitions);
                self.is_started = true;
                self.complete(request.result, Ok(()));
            }
        }
    }

    /// AddOffsetsToTxn: the offsets themselves are the group's coordinator's (R-TXN-11).
    fn on_offsets_added(
        &mut self,
        request: TransactionalRequest,
        (offsets, group): (&Offsets, &GroupMetadata),
        response: &m::AddOffsetsToTxnResponse,
    ) {
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => {
                self.enqueue_offsets(offsets, group, request.producer, request.result);
                self.is_started = true;
            }
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
                self.look_up(CoordinatorOf::Transaction);
                self.retry(request);
            }
            error if error.is_retriable() => self.retry(request),
            error @ ErrorCode::GroupAuthorizationFailed => {
                self.abortable(&request, ProducerError::Kafka(error));
            }
            error if self.refuse_addition(&request, error) => {}
            error => self.fatal(&request, unexpected(ApiKey::AddOffsetsToTxn, error)),
        }
    }

    /// What both additions are refused with; says whether it is one of these.
    fn refuse_addition(&mut self, request: &TransactionalRequest, error: ErrorCode) -> bool {
        match error {
            ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => {
                self.fatal(request, ProducerError::Kafka(ErrorCode::ProducerFenced));
            }
            ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::InvalidTxnState
            | ErrorCode::InvalidProducerIdMapping => self.fatal(request, ProducerError::Kafka(error)),
            ErrorCode::UnknownProducerId => self.abortable_if_possible(request, error),
            ErrorCode::TransactionAbortable => self.abortable(request, ProducerError::Kafka(error)),
            _ => return false,
        }
        true
    }

    fn on_ended(
        &mut self,
        request: TransactionalRequest,
        committed: bool,
        response: &m::EndTxnResponse,
        sequences: &mut Sequences,
    ) {
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => {
                if response.producer_id.0 != ProducerId::NONE.0 {
                    let (id, epoch) = (response.producer_id.0, response.producer_epoch);
                    sequences.set_identity(ProducerId(id), ProducerEpoch(epoch));
                    sequences.reset();
                }
                self.reset();
                self.complete(request.result, Ok(()));
            }
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                self.look_up(CoordinatorOf::Transaction);
                self.retry(request);
            }
            error if error.is_retriable() => self.retry(request),
            ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => {
                self.fatal(&request, ProducerError::Kafka(ErrorCode::ProducerFenced));
            }
            error @ (ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::InvalidTxnState
            | ErrorCode::InvalidProducerIdMapping) => self.fatal(&request, ProducerError::Kafka(error)),
            error @ ErrorCode::UnknownProducerId => self.abortable_if_possible(&request, error),
            // To abort once more would only go round in a circle.
            ErrorCode::TransactionAbortable if !committed => self.fatal(&request, ProducerError::AbortFailed),
            error @ ErrorCode::TransactionAbortable => self.abortable(&request, ProducerError::Kafka(error)),
            error => self.fatal(&request, unexpected(ApiKey::EndTxn, error)),
        }
    }

    /// R-TXN-32. What failed by an error that may pass is sent again with the rest.
    fn on_offsets_committed(
        &mut self,
        request: TransactionalRequest,
        group: CoordinatorOf,
        response: &m::TxnOffsetCommitResponse,
    ) {
        let mut must_look_up = false;
        for topic in &response.topics {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&Topic::new(&topic.name), partition.partition_index);
                let refused = match ErrorCode::from_code(partition.error_code) {
                    ErrorCode::None => {
                        self.pending_offsets.remove(&tp);
                        continue;
                    }
                    ErrorCode::NotCoordinator
                    | ErrorCode::CoordinatorNotAvailable
                    | ErrorCode::RequestTimedOut => {
                        must_look_up = true;
                        continue;
                    }
                    error if error.is_retriable() => continue,
                    error => error,
                };
                self.refuse_offsets(&request, refused);
                return self.pending_offsets.clear();
            }
        }
        if must_look_up {
            self.look_up(group);
        }
        match self.pending_offsets.is_empty() {
            true => self.complete(request.result, Ok(())),
            false => self.retry(request),
        }
    }

    fn refuse_offsets(&mut self, request: &TransactionalRequest, error: ErrorCode) {
        match error {
            ErrorCode::GroupAuthorizationFailed
            | ErrorCode::FencedInstanceId
            | ErrorCode::TransactionAbortable => self.abortable(request, ProducerError::Kafka(error)),
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => {
                self.abortable(request, ProducerError::CommitFailed(error));
            }
            ErrorCode::InvalidProducerEpoch | ErrorCode::ProducerFenced => {
                self.fatal(request, ProducerError::Kafka(ErrorCode::ProducerFenced));
            }
            ErrorCode::TransactionalIdAuthorizationFailed | ErrorCode::UnsupportedForMessageFormat => {
                self.fatal(request, ProducerError::Kafka(error));
            }
            error => self.fatal(request, unexpected(ApiKey::TxnOffsetCommit, error)),
        }
    }
}

fn unexpected(api: ApiKey, error: ErrorCode) -> ProducerError {
    ProducerError::Unexpected { api, error }
}
