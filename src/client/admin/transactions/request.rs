//! The requests of an errand about transactions.

use std::collections::BTreeMap;

use kafka_protocol::messages as m;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::protocol::StrBytes;

use super::TransactionFilter;
use crate::kafka::protocol::Request;
use crate::kafka::types::{Topic, TopicPartition, TransactionalId};

/// Brokers leave out what does not pass. A duration of -1 lets all pass.
pub(super) fn list(filter: &TransactionFilter) -> Request {
    m::ListTransactionsRequest::default()
        .with_duration_filter(filter.longer_than_ms.unwrap_or(-1))
        .with_transactional_id_pattern(filter.pattern.clone().map(StrBytes::from_string))
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
