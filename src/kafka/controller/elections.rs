//! Elections that somebody asks for: ElectLeaders (R-REPL-50, KIP-460).

use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse, TopicName};

use super::partition_change::Election;
use super::partitions::Basis;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::types::{Topic, TopicPartition};

/// `ElectionType`: what the request may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElectionType {
    Preferred,
    Unclean,
}

impl ElectionType {
    pub fn code(self) -> i8 {
        match self {
            ElectionType::Preferred => 0,
            ElectionType::Unclean => 1,
        }
    }

    fn from_code(code: i8) -> Option<ElectionType> {
        [ElectionType::Preferred, ElectionType::Unclean].into_iter().find(|kind| kind.code() == code)
    }
}

/// The records of the elections that change something, and the answer.
pub fn elect_leaders(
    request: &ElectLeadersRequest,
    basis: Basis<'_>,
) -> (Vec<MetadataRecord>, ElectLeadersResponse) {
    let mut records = Vec::new();
    let mut response = ElectLeadersResponse::default();
    let Some(kind) = ElectionType::from_code(request.election_type) else {
        return (records, response.with_error_code(ErrorCode::InvalidRequest.code()));
    };
    for (topic, partitions) in wanted(request, basis) {
        let mut results = Vec::new();
        for partition in partitions {
            let error = match elect(&TopicPartition::new(&topic, partition), kind, basis) {
                Ok(record) => {
                    records.push(record);
                    ErrorCode::None
                }
                Err(error) => error,
            };
            // Asked for every partition, Kafka is silent about those that have their leader.
            if error != ErrorCode::ElectionNotNeeded || request.topic_partitions.is_some() {
                results.push(result(partition, error));
            }
        }
        let topic = TopicName(topic.to_wire());
        let results = ReplicaElectionResult::default().with_topic(topic).with_partition_result(results);
        response.replica_election_results.push(results);
    }
    (records, response)
}

/// The partitions that are asked for; without a list, all there are.
fn wanted(request: &ElectLeadersRequest, basis: Basis<'_>) -> Vec<(Topic, Vec<i32>)> {
    match &request.topic_partitions {
        Some(topics) => {
            topics.iter().map(|topic| (Topic::new(&topic.topic), topic.partitions.clone())).collect()
        }
        None => {
            let numbers = |count: usize| (0..).take(count).collect();
            let topics = basis.image.topics();
            topics.map(|topic| (topic.name.clone(), numbers(topic.partitions.len()))).collect()
        }
    }
}

fn elect(tp: &TopicPartition, kind: ElectionType, basis: Basis<'_>) -> Result<MetadataRecord, ErrorCode> {
    let partition = basis.image.partition(tp).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let (needless, election, otherwise) = match kind {
        ElectionType::Preferred => {
            let preferred = Some(&partition.leader) == partition.replicas.first();
            (preferred, Election::Preferred, ErrorCode::PreferredLeaderNotAvailable)
        }
        ElectionType::Unclean => {
            (partition.leader.is_some(), Election::Unclean, ErrorCode::EligibleLeadersNotAvailable)
        }
    };
    if needless {
        return Err(ErrorCode::ElectionNotNeeded);
    }
    basis.elected(tp, election).map(MetadataRecord::PartitionChange).ok_or(otherwise)
}

fn result(partition: i32, error: ErrorCode) -> PartitionResult {
    let message = match error {
        ErrorCode::None => None,
        ErrorCode::ElectionNotNeeded => Some("Leader election not needed for topic partition."),
        ErrorCode::PreferredLeaderNotAvailable => Some("The preferred leader was not available."),
        ErrorCode::EligibleLeadersNotAvailable => Some("Eligible topic partition leaders are not available."),
        _ => Some("There is no such partition."),
    };
    PartitionResult::default()
        .with_partition_id(partition)
        .with_error_code(error.code())
        .with_error_message(message.map(Into::into))
}
