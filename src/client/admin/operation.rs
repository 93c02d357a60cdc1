//! What an administrator can ask for, as Kafka's requests, and how the answers end it.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    ElectLeadersRequest, ElectLeadersResponse, IncrementalAlterConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::kafka::controller::elections::ElectionType;
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::types::{BrokerId, Topic, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    CreateTopic {
        topic: Topic,
        partitions: i32,
        replication_factor: i16,
        configs: BTreeMap<String, String>,
    },
    /// Sets a topic's config, or removes it so that the default is in force again.
    AlterTopicConfig {
        topic: Topic,
        key: String,
        value: Option<String>,
    },
    AddPartitions {
        topic: Topic,
        count: i32,
    },
    DeleteTopic(Topic),
    /// Of one partition, or of all.
    ElectLeader {
        kind: ElectionType,
        partition: Option<TopicPartition>,
    },
    /// `None` cancels what is under way.
    Reassign {
        partition: TopicPartition,
        replicas: Option<Vec<BrokerId>>,
    },
}

/// Kafka's codes for what `IncrementalAlterConfigs` is about and what it does.
const RESOURCE_TOPIC: i8 = 2;
pub(super) const CONFIG_SET: i8 = 0;
pub(super) const CONFIG_DELETE: i8 = 1;

impl Operation {
    pub(super) fn request(&self, timeout_ms: i32) -> Request {
        match self {
            Operation::CreateTopic { topic, partitions, replication_factor, configs } => {
                let config = |(key, value): (&String, &String)| {
                    CreatableTopicConfig::default().with_name(wire(key)).with_value(Some(wire(value)))
                };
                let topic = CreatableTopic::default()
                    .with_name(TopicName(topic.to_wire()))
                    .with_num_partitions(*partitions)
                    .with_replication_factor(*replication_factor)
                    .with_configs(configs.iter().map(config).collect());
                CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms).into()
            }
            Operation::AlterTopicConfig { topic, key, value } => {
                let config = AlterableConfig::default()
                    .with_name(wire(key))
                    .with_config_operation(if value.is_some() { CONFIG_SET } else { CONFIG_DELETE })
                    .with_value(value.as_deref().map(wire));
                let resource = AlterConfigsResource::default()
                    .with_resource_type(RESOURCE_TOPIC)
                    .with_resource_name(topic.to_wire())
                    .with_configs(vec![config]);
                IncrementalAlterConfigsRequest::default().with_resources(vec![resource]).into()
            }
            Operation::AddPartitions { topic, count } => {
                let topic = CreatePartitionsTopic::default()
                    .with_name(TopicName(topic.to_wire()))
                    .with_count(*count)
                    .with_assignments(None);
                CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms).into()
            }
            Operation::DeleteTopic(topic) => {
                let topic = DeleteTopicState::default().with_name(Some(TopicName(topic.to_wire())));
                DeleteTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms).into()
            }
            Operation::ElectLeader { kind, partition } => {
                let named = partition.as_ref().map(|tp| {
                    let topic = TopicPartitions::default().with_topic(TopicName(tp.topic.to_wire()));
                    vec![topic.with_partitions(vec![tp.partition])]
                });
                ElectLeadersRequest::default()
                    .with_election_type(kind.code())
                    .with_topic_partitions(named)
                    .with_timeout_ms(timeout_ms)
                    .into()
            }
            Operation::Reassign { partition: tp, replicas } => {
                let replicas = replicas.as_ref().map(|ids| ids.iter().map(|id| id.0.into()).collect());
                let partition = ReassignablePartition::default()
                    .with_partition_index(tp.partition)
                    .with_replicas(replicas);
                let topic = ReassignableTopic::default()
                    .with_name(TopicName(tp.topic.to_wire()))
                    .with_partitions(vec![partition]);
                AlterPartitionReassignmentsRequest::default()
                    .with_topics(vec![topic])
                    .with_timeout_ms(timeout_ms)
                    .into()
            }
        }
    }
}

pub(super) fn wire(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// How an operation ended, by its answer: the error of the one thing that was asked for, with the broker's words.
pub(super) fn outcome(response: &Response) -> (ErrorCode, String) {
    match response {
        Response::CreateTopics(answer) => {
            first_error(answer.topics.iter().map(|one| (one.error_code, &one.error_message)))
        }
        Response::IncrementalAlterConfigs(answer) => {
            first_error(answer.responses.iter().map(|one| (one.error_code, &one.error_message)))
        }
        Response::CreatePartitions(answer) => {
            first_error(answer.results.iter().map(|one| (one.error_code, &one.error_message)))
        }
        Response::DeleteTopics(answer) => {
            first_error(answer.responses.iter().map(|one| (one.error_code, &one.error_message)))
        }
        Response::ElectLeaders(answer) => election_error(answer),
        Response::AlterPartitionReassignments(answer) if answer.error_code != 0 => {
            first_error([(answer.error_code, &answer.error_message)].into_iter())
        }
        Response::AlterPartitionReassignments(answer) => {
            let results = answer.responses.iter().flat_map(|topic| &topic.partitions);
            first_error(results.map(|one| (one.error_code, &one.error_message)))
        }
        response => panic!("{} answers no operation", response.api().name()),
    }
}

/// The error of the one thing that was asked for, in the broker's words or else by its name.
fn first_error<'a>(mut results: impl Iterator<Item = (i16, &'a Option<StrBytes>)>) -> (ErrorCode, String) {
    let Some((code, message)) = results.next() else {
        return (ErrorCode::UnknownServerError, "The response did not contain a result".to_owned());
    };
    let error = ErrorCode::from_code(code);
    let message = message.as_ref().map_or_else(|| error.name().to_owned(), |text| text.to_string());
    (error, message)
}

/// The error of an election; of many, the first that failed, by its partition. Kafka is silent about partitions that
/// needed none, so that an answer may hold nothing.
fn election_error(answer: &ElectLeadersResponse) -> (ErrorCode, String) {
    let topics = answer.replica_election_results.iter();
    let mut results =
        topics.flat_map(|topic| topic.partition_result.iter().map(move |one| (&topic.topic, one)));
    if let Some((topic, one)) = results.find(|(_, one)| one.error_code != 0) {
        let (error, message) = first_error([(one.error_code, &one.error_message)].into_iter());
        return (error, format!("{}-{}: {message}", topic.as_str(), one.partition_id));
    }
    let error = ErrorCode::from_code(answer.error_code);
    (error, error.name().to_owned())
}
