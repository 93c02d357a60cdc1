//! The coordinator's requests and responses as the wire carries them.
//!
//! Mirrors the handlers of `KafkaApis` as far as they only translate.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{
    describe_transactions_response as described, list_transactions_response as listed,
};
use kafka_protocol::protocol::StrBytes;

use super::{
    End, Init, Marker, MarkerEntry, ProducerIdAndEpoch, TransactionCoordinator, TransactionFacts,
    TransactionState, TransactionVersion,
};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::markers::{WritableMarker, WriteTxnMarkersRequest};
use crate::kafka::time::Time;
use crate::kafka::types::{ProducerEpoch, ProducerId, Topic, TopicPartition, TransactionalId};

/// What an InitProducerId with a transactional id asks; `None` without one.
///
/// # Errors
/// It names a producer id without an epoch, or the other way round.
pub fn init_of(request: &m::InitProducerIdRequest) -> Result<Option<Init>, ErrorCode> {
    let named = ProducerIdAndEpoch {
        id: ProducerId(request.producer_id.0),
        epoch: ProducerEpoch(request.producer_epoch),
    };
    let names = (named.id != ProducerId::NONE, named.epoch != ProducerEpoch::NONE);
    if names.0 != names.1 {
        return Err(ErrorCode::InvalidRequest);
    }
    Ok(request.transactional_id.as_ref().map(|id| Init {
        id: TransactionalId::new(id),
        timeout_ms: request.transaction_timeout_ms,
        two_phase_commit: request.enable_2_pc,
        keep_prepared: request.keep_prepared_txn,
        expected: names.0.then_some(named),
    }))
}

pub fn init_response(result: Result<ProducerIdAndEpoch, ErrorCode>) -> m::InitProducerIdResponse {
    let producer = result.unwrap_or(ProducerIdAndEpoch::NONE);
    m::InitProducerIdResponse::default()
        .with_error_code(code_of(&result))
        .with_producer_id(producer.id.0.into())
        .with_producer_epoch(producer.epoch.0)
}

fn code_of<T>(result: &Result<T, ErrorCode>) -> i16 {
    result.as_ref().err().map_or(0, |error| error.code())
}

/// What an EndTxn of this version asks.
pub fn end_of(request: &m::EndTxnRequest, version: i16) -> End {
    End {
        id: TransactionalId::new(&request.transactional_id),
        producer: ProducerIdAndEpoch {
            id: ProducerId(request.producer_id.0),
            epoch: ProducerEpoch(request.producer_epoch),
        },
        committed: request.committed,
        from_client: true,
        client_version: TransactionVersion::of_end_request(version),
    }
}

pub fn end_response(result: Result<ProducerIdAndEpoch, ErrorCode>) -> m::EndTxnResponse {
    let producer = result.unwrap_or(ProducerIdAndEpoch::NONE);
    m::EndTxnResponse::default()
        .with_error_code(code_of(&result))
        .with_producer_id(producer.id.0.into())
        .with_producer_epoch(producer.epoch.0)
}

/// One transaction's part of an AddPartitionsToTxn.
pub fn add_request(
    id: &TransactionalId,
    producer: ProducerIdAndEpoch,
    partitions: &BTreeSet<TopicPartition>,
    verify_only: bool,
) -> AddPartitionsToTxnTransaction {
    let topics = by_topic(partitions.iter().map(|tp| (tp, tp.partition)));
    let topic = |(topic, partitions): (Topic, Vec<i32>)| {
        AddPartitionsToTxnTopic::default().with_name(topic.to_wire().into()).with_partitions(partitions)
    };
    AddPartitionsToTxnTransaction::default()
        .with_transactional_id(m::TransactionalId(id.to_wire()))
        .with_producer_id(producer.id.0.into())
        .with_producer_epoch(producer.epoch.0)
        .with_verify_only(verify_only)
        .with_topics(topics.into_iter().map(topic).collect())
}

/// From this version on an AddPartitionsToTxn is sent by brokers, with parts for several transactions.
const SENT_BY_BROKERS: i16 = 4;

/// What a client before transaction version 2 asks (version 3).
pub fn client_add_request(
    id: &TransactionalId,
    producer: ProducerIdAndEpoch,
    partitions: &BTreeSet<TopicPartition>,
) -> m::AddPartitionsToTxnRequest {
    let part = add_request(id, producer, partitions, false);
    m::AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(part.transactional_id)
        .with_v3_and_below_producer_id(part.producer_id)
        .with_v3_and_below_producer_epoch(part.producer_epoch)
        .with_v3_and_below_topics(part.topics)
}

/// The transactions that an AddPartitionsToTxn of this version is about (`normalizeRequest`).
pub fn transactions_of(
    request: &m::AddPartitionsToTxnRequest,
    version: i16,
) -> Vec<AddPartitionsToTxnTransaction> {
    if version >= SENT_BY_BROKERS {
        return request.transactions.clone();
    }
    let only = AddPartitionsToTxnTransaction::default()
        .with_transactional_id(request.v3_and_below_transactional_id.clone())
        .with_producer_id(request.v3_and_below_producer_id)
        .with_producer_epoch(request.v3_and_below_producer_epoch)
        .with_topics(request.v3_and_below_topics.clone());
    vec![only]
}

/// The answer to an AddPartitionsToTxn of this version.
pub fn add_response(results: Vec<AddPartitionsToTxnResult>, version: i16) -> m::AddPartitionsToTxnResponse {
    let response = m::AddPartitionsToTxnResponse::default();
    if version >= SENT_BY_BROKERS {
        return response.with_results_by_transaction(results);
    }
    let topics = results.into_iter().flat_map(|result| result.topic_results);
    response.with_results_by_topic_v3_and_below(topics.collect())
}

/// The partitions that one transaction's part of an AddPartitionsToTxn names.
pub fn partitions_of(transaction: &AddPartitionsToTxnTransaction) -> BTreeSet<TopicPartition> {
    let of = |topic: &AddPartitionsToTxnTopic| {
        let name = Topic::new(&topic.name);
        topic.partitions.iter().map(|each| TopicPartition::new(&name, *each)).collect::<Vec<_>>()
    };
    transaction.topics.iter().flat_map(of).collect()
}

/// One partition that does not exist fails them all: what is said then.
pub fn missing(
    partitions: &BTreeSet<TopicPartition>,
    exists: impl Fn(&TopicPartition) -> bool,
) -> Option<BTreeMap<TopicPartition, ErrorCode>> {
    let error = |tp: &TopicPartition| match exists(tp) {
        true => ErrorCode::OperationNotAttempted,
        false => ErrorCode::UnknownTopicOrPartition,
    };
    let errors = || partitions.iter().map(|tp| (tp.clone(), error(tp))).collect();
    (!partitions.iter().all(&exists)).then(errors)
}

/// What is said of one transaction's partitions.
pub fn add_result(
    id: &m::TransactionalId,
    errors: &BTreeMap<TopicPartition, ErrorCode>,
) -> AddPartitionsToTxnResult {
    let result = |(tp, error): (&TopicPartition, &ErrorCode)| {
        AddPartitionsToTxnPartitionResult::default()
            .with_partition_index(tp.partition)
            .with_partition_error_code(error.code())
    };
    let topics = by_topic(errors.iter().map(|(tp, error)| (tp, result((tp, error)))));
    let topic = |(topic, results): (Topic, Vec<_>)| {
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.to_wire().into())
            .with_results_by_partition(results)
    };
    AddPartitionsToTxnResult::default()
        .with_transactional_id(id.clone())
        .with_topic_results(topics.into_iter().map(topic).collect())
}

/// What the answer to a client says of its partitions (version 3).
pub fn errors_of_client(
    response: &m::AddPartitionsToTxnResponse,
) -> impl Iterator<Item = (TopicPartition, ErrorCode)> {
    response.results_by_topic_v3_and_below.iter().flat_map(of_topic)
}

fn of_topic(
    topic: &AddPartitionsToTxnTopicResult,
) -> impl Iterator<Item = (TopicPartition, ErrorCode)> + use<'_> {
    let name = Topic::new(&topic.name);
    topic.results_by_partition.iter().map(move |result| {
        let tp = TopicPartition::new(&name, result.partition_index);
        (tp, ErrorCode::from_code(result.partition_error_code))
    })
}

/// By transactional id, what an answer says of its partitions.
pub fn errors_of(
    response: &m::AddPartitionsToTxnResponse,
) -> BTreeMap<TransactionalId, BTreeMap<TopicPartition, ErrorCode>> {
    let of = |result: &AddPartitionsToTxnResult| {
        let errors = result.topic_results.iter().flat_map(of_topic).collect();
        (TransactionalId::new(&result.transactional_id), errors)
    };
    response.results_by_transaction.iter().map(of).collect()
}

pub fn markers_request(entries: &[MarkerEntry]) -> WriteTxnMarkersRequest {
    let writable = |MarkerEntry { marker, .. }: &MarkerEntry| {
        let Marker { producer_id, producer_epoch, coordinator_epoch, committed, .. } = *marker;
        WritableMarker {
            producer_id,
            producer_epoch,
            committed,
            partitions: marker.partitions.clone(),
            coordinator_epoch,
            transaction_version: marker.transaction_version as i8,
        }
    };
    WriteTxnMarkersRequest { markers: entries.iter().map(writable).collect() }
}

fn by_topic<'a, T>(partitions: impl Iterator<Item = (&'a TopicPartition, T)>) -> Vec<(Topic, Vec<T>)> {
    let mut topics: BTreeMap<Topic, Vec<T>> = BTreeMap::new();
    for (tp, value) in partitions {
        topics.entry(tp.topic.clone()).or_default().push(value);
    }
    topics.into_iter().collect()
}

impl TransactionCoordinator {
    /// DescribeTransactions
    pub fn describe_all(&self, request: &m::DescribeTransactionsRequest) -> m::DescribeTransactionsResponse {
        let state = |id: &m::TransactionalId| {
            let state = described::TransactionState::default().with_transactional_id(id.clone());
            match self.describe(&TransactionalId::new(id)) {
                Ok(facts) => described_as(state, facts),
                Err(error) => state.with_error_code(error.code()),
            }
        };
        let states = request.transactional_ids.iter().map(state).collect();
        m::DescribeTransactionsResponse::default().with_transaction_states(states)
    }

    /// ListTransactions; a filter that is empty lets all pass.
    pub fn list_all(&self, now: Time, request: &m::ListTransactionsRequest) -> m::ListTransactionsResponse {
        let refused = |error: ErrorCode| m::ListTransactionsResponse::default().with_error_code(error.code());
        let all = match self.list() {
            Ok(all) => all,
            Err(error) => return refused(error),
        };
        let pattern = request.transactional_id_pattern.as_deref().filter(|pattern| !pattern.is_empty());
        // The whole id has to match.
        let pattern = pattern.map(|pattern| regex_lite::Regex::new(&format!("^(?:{pattern})$")));
        let Ok(pattern) = pattern.transpose() else { return refused(ErrorCode::InvalidRegularExpression) };
        let states: Vec<_> =
            request.state_filters.iter().map(|name| (name, TransactionState::of_name(name))).collect();
        let passes = |(id, facts): &(&TransactionalId, &TransactionFacts)| {
            let ids = &request.producer_id_filters;
            (ids.is_empty() || ids.iter().any(|id| id.0 == facts.producer_id.0))
                && (states.is_empty() || states.iter().any(|(_, state)| *state == Some(facts.state)))
                && (request.duration_filter < 0
                    || now.wall_ms() - facts.start_timestamp_ms > request.duration_filter)
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(id.as_str()))
        };
        let state = |(id, facts): (&TransactionalId, &TransactionFacts)| {
            listed::TransactionState::default()
                .with_transactional_id(m::TransactionalId(id.to_wire()))
                .with_producer_id(facts.producer_id.0.into())
                .with_transaction_state(StrBytes::from_static_str(facts.state.name()))
        };
        let unknown = states.iter().filter(|(_, state)| state.is_none()).map(|(name, _)| (*name).clone());
        m::ListTransactionsResponse::default()
            .with_unknown_state_filters(unknown.collect())
            .with_transaction_states(all.filter(passes).map(state).collect())
    }
}

fn described_as(state: described::TransactionState, facts: &TransactionFacts) -> described::TransactionState {
    let topics = by_topic(facts.partitions.iter().map(|tp| (tp, tp.partition)));
    let topic = |(topic, partitions): (Topic, Vec<i32>)| {
        described::TopicData::default().with_topic(topic.to_wire().into()).with_partitions(partitions)
    };
    state
        .with_transaction_state(StrBytes::from_static_str(facts.state.name()))
        .with_transaction_timeout_ms(facts.timeout_ms)
        .with_transaction_start_time_ms(facts.start_timestamp_ms)
        .with_producer_id(facts.producer_id.0.into())
        .with_producer_epoch(facts.producer_epoch.0)
        .with_topics(topics.into_iter().map(topic).collect())
}
