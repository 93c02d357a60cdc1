//! The requests of an errand about transactions.

use std::collections::BTreeMap;

use kafka_protocol::messages as m;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::describe_producers_response::ProducerState;
use kafka_protocol::protocol::StrBytes;

use super::TransactionFilter;
use crate::kafka::protocol::Request;
use crate::kafka::protocol::markers::{WritableMarker, WriteTxnMarkersRequest};
use crate::kafka::types::{ProducerEpoch, ProducerId, Topic, TopicPartition, TransactionalId};

/// Brokers leave out what does not pass. A duration of -1 lets all pass.
pub(super) fn list(filter: &TransactionFilter) -> Request {
    m::ListTransactionsRequest::default()
        .with_duration_filter(filter.longer_than_ms.unwrap_or(-1))
        .with_transactional_id_pattern(filter.pattern.clone().map(StrBytes::from_string))
        .into()
}

/// The ids that have these producer ids.
pub(super) fn list_of(producers: impl Iterator<Item = ProducerId>) -> Request {
    let producers = producers.map(|producer| producer.0.into()).collect();
    m::ListTransactionsRequest::default().with_duration_filter(-1).with_producer_id_filters(producers).into()
}

/// Ends what is open in one partition alone (`AbortTransactionSpec`).
pub(super) fn abort(tp: &TopicPartition, state: &ProducerState) -> Request {
    let marker = WritableMarker {
        producer_id: ProducerId(state.producer_id.0),
        producer_epoch: ProducerEpoch(state.producer_epoch as i16),
        committed: false,
        partitions: [tp.clone()].into(),
        // Before the first marker none is known; no coordinator's epoch is less than 0.
        coordinator_epoch: state.coordinator_epoch.max(0),
        transaction_version: 0,
    };
    WriteTxnMarkersRequest { markers: vec![marker] }.into()
}

/// InitProducerId of somebody who names no producer (`FenceProducersHandler`).
pub(super) fn fence(id: &TransactionalId, timeout_ms: i64) -> Request {
    m::InitProducerIdRequest::default()
        .with_transactional_id(Some(m::TransactionalId(id.to_wire())))
        .with_transaction_timeout_ms(timeout_ms as i32)
        .into()
}

pub(super) fn describe(id: &TransactionalId) -> Request {
    let id = m::TransactionalId(id.to_wire());
    m::DescribeTransactionsRequest::default().with_transactional_ids(vec![id]).into()
}

pub(super) fn producers(partitions: &[TopicPartition]) -> Request {
    let mut topics: BTreeMap<&Topic, Vec<i32>> = BTreeMap::new();
    partitions.iter().for_each(|tp| topics.entry(&tp.topic).or_default().push(tp.partition));
    let topic = |(topic, numbers): (&Topic, Vec<i32>)| {
        TopicRequest::default().with_name(m::TopicName(topic.to_wire())).with_partition_indexes(numbers)
    };
    m::DescribeProducersRequest::default().with_topics(topics.into_iter().map(topic).collect()).into()
}
