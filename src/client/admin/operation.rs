//! What an administrator can ask for, as Kafka's requests, and how the answers end it.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, DescribeConfigsResponse, ElectLeadersRequest,
    ElectLeadersResponse, IncrementalAlterConfigsRequest, TopicName, UpdateFeaturesRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::groups::GroupOperation;
use super::transactions::TransactionOperation;
use crate::kafka::api_versions::{self, feature_statuses};
use crate::kafka::controller::configs::{self, ConfigSource, Op, Resource};
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::controller::features::UpgradeType;
use crate::kafka::event::Event;
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::raft::{describe_quorum_request, quorum_error, quorum_status};
use crate::kafka::types::{BrokerId, GroupId, Topic, TopicPartition};

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
    /// As for a topic, of one broker, or with `None` of all brokers by default.
    AlterBrokerConfig {
        broker: Option<BrokerId>,
        key: String,
        value: Option<String>,
    },
    AlterGroupConfig {
        group: GroupId,
        key: String,
        value: Option<String>,
    },
    DescribeConfigs(Resource),
    DescribeQuorum,
    DescribeFeatures,
    AddPartitions {
        topic: Topic,
        count: i32,
    },
    DeleteTopic(Topic),
    /// Lets a partition's log begin at `before`; -1 stands for the high watermark.
    DeleteRecords {
        partition: TopicPartition,
        before: i64,
    },
    /// Of one partition, or of all.
    ElectLeader {
        kind: ElectionType,
        partition: Option<TopicPartition>,
    },
    UpdateFeature {
        feature: String,
        level: i16,
        upgrade: UpgradeType,
    },
    Groups(GroupOperation),
    Transactions(TransactionOperation),
    /// `None` cancels what is under way.
    Reassign {
        partition: TopicPartition,
        replicas: Option<Vec<BrokerId>>,
    },
}

impl Operation {
    /// The only broker that can do it; `None` if any can.
    pub(super) fn node(&self) -> Option<BrokerId> {
        match self {
            Operation::AlterBrokerConfig { broker, .. } => *broker,
            Operation::DescribeConfigs(Resource::Broker(broker)) => *broker,
            _ => None,
        }
    }

    /// What an answer without an error tells a person.
    pub(super) fn findings(&self, response: &Response) -> Option<Event> {
        match (self, response) {
            (Operation::DescribeConfigs(resource), Response::DescribeConfigs(answer)) => {
                let configs = own_configs(resource, answer);
                Some(Event::ConfigsDescribed { resource: resource.clone(), configs })
            }
            (Operation::DescribeQuorum, Response::DescribeQuorum(answer)) => {
                quorum_status(answer).map(|status| Event::QuorumDescribed { status })
            }
            (Operation::DescribeFeatures, Response::ApiVersions(answer)) => {
                let (features, epoch) = feature_statuses(answer);
                Some(Event::FeaturesDescribed { features, epoch })
            }
            _ => None,
        }
    }

    /// The partition whose leader has to be asked; `None` if any broker will do.
    pub(super) fn asks_leader_of(&self) -> Option<&TopicPartition> {
        match self {
            Operation::DeleteRecords { partition, .. } => Some(partition),
            _ => None,
        }
    }

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
                alteration((configs::TOPIC, topic.to_wire()), key, value.as_deref())
            }
            Operation::AlterBrokerConfig { broker, key, value } => {
                alteration(wire_resource(&Resource::Broker(*broker)), key, value.as_deref())
            }
            Operation::AlterGroupConfig { group, key, value } => {
                alteration(wire_resource(&Resource::Group(group.clone())), key, value.as_deref())
            }
            Operation::DescribeConfigs(resource) => {
                let (resource_type, name) = wire_resource(resource);
                let resource = DescribeConfigsResource::default()
                    .with_resource_type(resource_type)
                    .with_resource_name(name)
                    .with_configuration_keys(None);
                DescribeConfigsRequest::default()
                    .with_resources(vec![resource])
                    .with_include_synonyms(true)
                    .into()
            }
            Operation::DescribeQuorum => describe_quorum_request().into(),
            Operation::DescribeFeatures => api_versions::request().into(),
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
            Operation::DeleteRecords { partition: tp, before } => {
                let partition =
                    DeleteRecordsPartition::default().with_partition_index(tp.partition).with_offset(*before);
                let topic = DeleteRecordsTopic::default()
                    .with_name(TopicName(tp.topic.to_wire()))
                    .with_partitions(vec![partition]);
                DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms).into()
            }
            Operation::UpdateFeature { feature, level, upgrade } => {
                let update = FeatureUpdateKey::default()
                    .with_feature(wire(feature))
                    .with_max_version_level(*level)
                    .with_upgrade_type(upgrade.code());
                UpdateFeaturesRequest::default()
                    .with_feature_updates(vec![update])
                    .with_timeout_ms(timeout_ms)
                    .into()
            }
            Operation::Groups(_) | Operation::Transactions(_) => {
                unreachable!("an errand makes its own requests")
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

fn wire_resource(resource: &Resource) -> (i8, StrBytes) {
    match resource {
        Resource::Topic(topic) => (configs::TOPIC, topic.to_wire()),
        Resource::Broker(broker) => {
            (configs::BROKER, wire(&broker.map(|id| id.to_string()).unwrap_or_default()))
        }
        Resource::Group(group) => (configs::GROUP, wire(group.as_str())),
    }
}

fn alteration((resource_type, name): (i8, StrBytes), key: &str, value: Option<&str>) -> Request {
    let op = if value.is_some() { Op::Set } else { Op::Delete };
    let config = AlterableConfig::default()
        .with_name(wire(key))
        .with_config_operation(op.code())
        .with_value(value.map(wire));
    let resource = AlterConfigsResource::default()
        .with_resource_type(resource_type)
        .with_resource_name(name)
        .with_configs(vec![config]);
    IncrementalAlterConfigsRequest::default().with_resources(vec![resource]).into()
}

/// The configs that the resource itself was given: what `kafka-configs.sh --describe` prints.
fn own_configs(resource: &Resource, answer: &DescribeConfigsResponse) -> Vec<(String, String)> {
    let source = match resource {
        Resource::Topic(_) => ConfigSource::Topic,
        Resource::Broker(Some(_)) => ConfigSource::DynamicBroker,
        Resource::Broker(None) => ConfigSource::DynamicDefault,
        Resource::Group(_) => ConfigSource::Group,
    };
    let configs = answer.results.iter().flat_map(|result| &result.configs);
    let own = configs.filter(|config| config.config_source == source.code());
    own.map(|config| (config.name.to_string(), config.value.as_deref().unwrap_or_default().to_string()))
        .collect()
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
        Response::DescribeQuorum(answer) => quorum_error(answer),
        Response::ApiVersions(answer) => first_error([(answer.error_code, &None)].into_iter()),
        Response::DescribeConfigs(answer) => {
            first_error(answer.results.iter().map(|one| (one.error_code, &one.error_message)))
        }
        Response::CreatePartitions(answer) => {
            first_error(answer.results.iter().map(|one| (one.error_code, &one.error_message)))
        }
        Response::DeleteTopics(answer) => {
            first_error(answer.responses.iter().map(|one| (one.error_code, &one.error_message)))
        }
        Response::DeleteRecords(answer) => {
            let results = answer.topics.iter().flat_map(|topic| &topic.partitions);
            first_error(results.map(|one| (one.error_code, &None)))
        }
        Response::ElectLeaders(answer) => election_error(answer),
        Response::UpdateFeatures(answer) => {
            first_error([(answer.error_code, &answer.error_message)].into_iter())
        }
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
