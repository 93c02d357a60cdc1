//! What coordinators answer, and what follows: fatal, abortable, or once more (R-TXN-31).
//!
//! Mirrors `TransactionManager`'s request handlers as far as they hear.
//!
//! **Invariant:** a request is done, is asked again, or has put the producer into an error state.

use kafka_protocol::messages as m;

use super::request::{Ask, CoordinatorOf, TransactionalRequest};
use super::{ProducerError, State, TransactionManager};
use crate::client::coordinator::found;
use crate::client::producer::sequences::Sequences;
use crate::kafka::protocol::{ApiKey, ErrorCode, Response};
use crate::kafka::types::{BrokerId, ProducerEpoch, ProducerId, Topic, TopicPartition};

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
            (Ask::InitProducerId, Response::InitProducerId(response)) => {
                self.on_initialized(request, response, sequences);
            }
            (Ask::CommitOffsets { group, .. }, Response::TxnOffsetCommit(response)) => {
                self.on_offsets_committed(request, CoordinatorOf::Group(group.group), response);
            }
            (Ask::End { committed }, Response::EndTxn(response)) => {
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
        response: &m::InitProducerIdResponse,
        sequences: &mut Sequences,
    ) {
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => {
                let (id, epoch) = (response.producer_id.0, response.producer_epoch);
                sequences.set_identity(ProducerId(id), ProducerEpoch(epoch));
                self.proceed(State::Ready, None);
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
            error @ ErrorCode::UnknownProducerId => self.abortable(&request, ProducerError::Kafka(error)),
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
