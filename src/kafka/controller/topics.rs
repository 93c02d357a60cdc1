//! Topics: creation, configs, and which partitions a broker's coming and going concerns.
//!
//! Mirrors `ReplicationControlManager` and `ConfigurationControlManager` (R-PLACE-1, R-LOG-52, R-REPL-49).

use std::collections::BTreeMap;

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;

use super::image::ClusterImage;
use super::partition_change::PartitionChangeBuilder;
use super::placement;
use crate::kafka::config::{BrokerConfig, check_topic_config};
use crate::kafka::event::ChangeReason;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{
    ConfigResource, MetadataRecord, PartitionChange, PartitionRecord, RecoveryState,
};
use crate::kafka::random::Random;
use crate::kafka::types::{BrokerId, LeaderEpoch, PartitionEpoch, Topic, TopicId, TopicPartition};

/// Why the records of one write were written, for the events they give rise to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause(pub ChangeReason);

impl Cause {
    pub fn new(reason: ChangeReason) -> Cause {
        Cause(reason)
    }
}

impl Default for Cause {
    fn default() -> Self {
        Cause(ChangeReason::LeaderRequest)
    }
}

pub fn partitions_with_in_isr(image: &ClusterImage, broker: BrokerId) -> Vec<TopicPartition> {
    let members = image.partitions().filter(|(_, partition)| partition.isr.contains(&broker));
    members.map(|(tp, _)| tp).collect()
}

pub fn partitions_with_in_elr(image: &ClusterImage, broker: BrokerId) -> Vec<TopicPartition> {
    let members = image.partitions().filter(|(_, partition)| partition.elr.contains(&broker));
    members.map(|(tp, _)| tp).collect()
}

pub fn partitions_led_by_nobody(image: &ClusterImage) -> Vec<TopicPartition> {
    image.partitions().filter(|(_, partition)| !partition.leader.is_some()).map(|(tp, _)| tp).collect()
}

fn builder<'a>(
    image: &'a ClusterImage,
    tp: &TopicPartition,
    is_acceptable: &'a dyn Fn(BrokerId) -> bool,
) -> Option<PartitionChangeBuilder<'a>> {
    let topic_id = image.topic(&tp.topic)?.id;
    let mut builder =
        PartitionChangeBuilder::new(image.partition(tp)?, topic_id, tp.partition, is_acceptable);
    builder.min_isr = image.effective_min_isr(&tp.topic);
    builder.elr_enabled = image.elr_enabled();
    Some(builder)
}

/// What becomes of a partition when `broker` may no longer be in its in-sync set.
pub fn change_without(
    image: &ClusterImage,
    tp: &TopicPartition,
    broker: BrokerId,
    unclean_shutdown: bool,
) -> Option<PartitionChange> {
    let is_acceptable = |id: BrokerId| id != broker && image.is_active(id);
    let mut builder = builder(image, tp, &is_acceptable)?;
    builder.target_isr.retain(|id| *id != broker);
    builder.unclean_shutdown = unclean_shutdown.then_some(broker).into_iter().collect();
    builder.build()
}

/// What becomes of a partition without a leader when `broker` is back.
pub fn change_with_back(
    image: &ClusterImage,
    tp: &TopicPartition,
    broker: BrokerId,
) -> Option<PartitionChange> {
    let is_acceptable = |id: BrokerId| id == broker || image.is_active(id);
    builder(image, tp, &is_acceptable)?.build()
}

/// What becomes of a partition whose leader asked for another in-sync set.
pub fn change_to_isr(
    image: &ClusterImage,
    tp: &TopicPartition,
    isr: Vec<BrokerId>,
    recovery: RecoveryState,
) -> Option<PartitionChange> {
    let is_acceptable = |id: BrokerId| image.is_active(id);
    let mut builder = builder(image, tp, &is_acceptable)?;
    builder.target_isr = isr;
    builder.target_recovery = recovery;
    builder.build()
}

/// An error with the sentence that goes with it.
pub type Refused = (ErrorCode, String);

/// R-LOG-52.
pub fn check_topic_name(name: &str, image: &ClusterImage) -> Result<(), Refused> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let reason = if name.is_empty() {
        "the empty string is not allowed".to_string()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.chars().count() > 249 {
        "the length of it is longer than the max allowed length 249".to_string()
    } else if !name.chars().all(legal) {
        "it contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'".to_string()
    } else {
        let folded = |text: &str| text.replace('.', "_");
        let collides = |other: &&Topic| other.as_str() != name && folded(other.as_str()) == folded(name);
        match image.topics().map(|topic| &topic.name).find(collides) {
            Some(other) => format!("it collides with the existing topic '{other}'"),
            None => return Ok(()),
        }
    };
    Err((ErrorCode::InvalidTopicException, format!("Topic name is invalid: {reason}.")))
}

/// The records that create one topic, and its result.
pub fn create_topic(
    topic: &CreatableTopic,
    image: &ClusterImage,
    config: &BrokerConfig,
    random: &mut Random,
) -> Result<(Vec<MetadataRecord>, CreatableTopicResult), Refused> {
    let name = Topic::new(&topic.name.0);
    if image.topic(&name).is_some() {
        return Err((ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists.")));
    }
    check_topic_name(name.as_str(), image)?;
    let mut own = BTreeMap::new();
    for entry in &topic.configs {
        let value = entry.value.as_ref().map(|value| value.to_string()).unwrap_or_default();
        own.insert(entry.name.to_string(), value);
    }
    check_topic_config(&own).map_err(|error| (ErrorCode::InvalidConfig, error.to_string()))?;
    let (partitions, replicas) = placed(topic, image, config)?;
    let id = TopicId(random.uuid());
    let mut records = vec![MetadataRecord::Topic { name: name.clone(), id }];
    for (key, value) in own {
        let (resource, name) = (ConfigResource::Topic, name.as_str().to_string());
        records.push(MetadataRecord::Config { resource, name, key, value: Some(value) });
    }
    for (number, replicas) in (0..).zip(replicas) {
        let isr: Vec<BrokerId> = replicas.iter().copied().filter(|id| image.is_active(*id)).collect();
        let Some(leader) = isr.first().copied() else {
            let reason = "All brokers are currently fenced or in controlled shutdown.";
            return Err(cannot_replicate(topic.replication_factor, reason));
        };
        records.push(MetadataRecord::Partition(PartitionRecord {
            partition: number,
            topic_id: id,
            replicas,
            isr,
            removing: Vec::new(),
            adding: Vec::new(),
            leader,
            recovery: RecoveryState::Recovered,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
        }));
    }
    let result = CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_topic_id(id.0)
        .with_error_message(None)
        .with_num_partitions(partitions)
        .with_replication_factor(topic.replication_factor);
    Ok((records, result))
}

fn cannot_replicate(replication_factor: i16, reason: impl std::fmt::Display) -> Refused {
    let sentence = format!("Unable to replicate the partition {replication_factor} time(s): {reason}");
    (ErrorCode::InvalidReplicationFactor, sentence)
}

/// R-PLACE-1: the numbers are checked before anything is placed.
fn placed(
    topic: &CreatableTopic,
    image: &ClusterImage,
    config: &BrokerConfig,
) -> Result<(i32, Vec<Vec<BrokerId>>), Refused> {
    if !topic.assignments.is_empty() {
        return Err((ErrorCode::InvalidRequest, "Manual assignments are not modelled yet.".to_string()));
    }
    let replication_factor = match topic.replication_factor {
        -1 => config.default_replication_factor,
        factor if factor < 1 => {
            let sentence = "Replication factor must be larger than 0, or -1 to use the default value.";
            return Err((ErrorCode::InvalidReplicationFactor, sentence.to_string()));
        }
        factor => factor,
    };
    let partitions = match topic.num_partitions {
        -1 => config.num_partitions,
        number if number < 1 => {
            let sentence = "Number of partitions was set to an invalid non-positive value.";
            return Err((ErrorCode::InvalidPartitions, sentence.to_string()));
        }
        number => number,
    };
    let placed = placement::place(
        &image.usable_brokers(),
        partitions,
        replication_factor,
        &mut placement::Draws::InOrder,
    );
    Ok((partitions, placed.map_err(|error| cannot_replicate(replication_factor, error))?))
}

/// The records that change one resource's configs (IncrementalAlterConfigs: SET 0, DELETE 1).
pub fn alter_configs(
    resource: &AlterConfigsResource,
    image: &ClusterImage,
) -> Result<Vec<MetadataRecord>, Refused> {
    const TOPIC: i8 = 2;
    if resource.resource_type != TOPIC {
        return Err((ErrorCode::InvalidRequest, "Only topic configs can be altered here yet.".to_string()));
    }
    let name = Topic::new(&resource.resource_name);
    let Some(topic) = image.topic(&name) else {
        return Err((ErrorCode::UnknownTopicOrPartition, format!("The topic '{name}' does not exist.")));
    };
    let mut own = topic.config.clone();
    let mut records = Vec::new();
    for entry in &resource.configs {
        let key = entry.name.to_string();
        let value = match entry.config_operation {
            0 => Some(entry.value.as_ref().map(|value| value.to_string()).unwrap_or_default()),
            1 => None,
            other => return Err((ErrorCode::InvalidRequest, format!("Operation {other} is not supported."))),
        };
        match &value {
            Some(value) => own.insert(key.clone(), value.clone()),
            None => own.remove(&key),
        };
        let (resource, name) = (ConfigResource::Topic, name.as_str().to_string());
        records.push(MetadataRecord::Config { resource, name, key, value });
    }
    check_topic_config(&own).map_err(|error| (ErrorCode::InvalidConfig, error.to_string()))?;
    records.extend(elr_cleared_by(&records, topic));
    Ok(records)
}

/// R-REPL-48: another min.insync.replicas makes the eligible replicas of the topic meaningless.
fn elr_cleared_by(records: &[MetadataRecord], topic: &super::image::TopicImage) -> Vec<MetadataRecord> {
    let changes_min_isr = |record: &MetadataRecord| matches!(record, MetadataRecord::Config { key, .. } if key == "min.insync.replicas");
    if !records.iter().any(changes_min_isr) {
        return Vec::new();
    }
    let with_elr = (0..).zip(&topic.partitions).filter(|(_, partition)| !partition.elr.is_empty());
    let cleared = |number: i32| PartitionChange {
        partition: number,
        topic_id: topic.id,
        elr: Some(Vec::new()),
        ..PartitionChange::default()
    };
    with_elr.map(|(number, _)| MetadataRecord::PartitionChange(cleared(number))).collect()
}

pub fn refused_topic(topic: &CreatableTopic, (error, message): Refused) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_error_code(error.code())
        .with_error_message(Some(message.into()))
}

pub fn altered(
    resource: &AlterConfigsResource,
    outcome: Result<(), Refused>,
) -> AlterConfigsResourceResponse {
    let (error, message) = match outcome {
        Ok(()) => (ErrorCode::None, None),
        Err((error, message)) => (error, Some(message.into())),
    };
    AlterConfigsResourceResponse::default()
        .with_error_code(error.code())
        .with_error_message(message)
        .with_resource_type(resource.resource_type)
        .with_resource_name(resource.resource_name.clone())
}
