//! Topics: creation, more partitions, deletion, configs.
//!
//! Mirrors `ReplicationControlManager` and `ConfigurationControlManager` (R-PLACE-1, 7, 9, R-LOG-52).

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;

use super::image::{ClusterImage, PartitionRegistration, TopicImage};
use super::placement::{self, Draws, PlacementError};
use crate::kafka::config::{BrokerConfig, check_topic_config};
use crate::kafka::event::ChangeReason;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{
    ConfigResource, MetadataRecord, PartitionChange, PartitionRecord, RecoveryState,
};
use crate::kafka::random::Random;
use crate::kafka::types::{BrokerId, LeaderEpoch, PartitionEpoch, Topic, TopicId};

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
    let replicas = match topic.assignments.is_empty() {
        true => placed(topic, image, config)?,
        false => assigned(topic, image)?,
    };
    let replication_factor = replicas[0].len() as i16;
    let partitions = replicas.len() as i32;
    let id = TopicId(random.uuid());
    let mut records = vec![MetadataRecord::Topic { name: name.clone(), id }];
    for (key, value) in own {
        let (resource, name) = (ConfigResource::Topic, name.as_str().to_string());
        records.push(MetadataRecord::Config { resource, name, key, value: Some(value) });
    }
    let is_manual = !topic.assignments.is_empty();
    for (number, replicas) in (0..).zip(replicas) {
        records.push(new_partition(id, number, replicas, is_manual, image)?);
    }
    let result = CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_topic_id(id.0)
        .with_error_message(None)
        .with_num_partitions(partitions)
        .with_replication_factor(replication_factor);
    Ok((records, result))
}

/// R-PLACE-6.
fn new_partition(
    topic_id: TopicId,
    partition: i32,
    replicas: Vec<BrokerId>,
    is_manual: bool,
    image: &ClusterImage,
) -> Result<MetadataRecord, Refused> {
    let isr: Vec<BrokerId> = replicas.iter().copied().filter(|id| image.is_active(*id)).collect();
    let Some(leader) = isr.first().copied() else {
        return Err(match is_manual {
            true => unassignable(format!(
                "All brokers specified in the manual partition assignment for partition {partition} are fenced or in \
                 controlled shutdown."
            )),
            false => cannot_replicate(
                replicas.len() as i16,
                "All brokers are currently fenced or in controlled shutdown.",
            ),
        });
    };
    Ok(MetadataRecord::Partition(PartitionRecord {
        partition,
        topic_id,
        replicas,
        isr,
        removing: Vec::new(),
        adding: Vec::new(),
        leader,
        recovery: RecoveryState::Recovered,
        leader_epoch: LeaderEpoch(0),
        partition_epoch: PartitionEpoch(0),
    }))
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
) -> Result<Vec<Vec<BrokerId>>, Refused> {
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
    place(partitions, replication_factor, image).map_err(|error| cannot_replicate(replication_factor, error))
}

/// Placement starts at the lowest rack and id, so that a person can predict it (D-2).
fn place(
    partitions: i32,
    replication_factor: i16,
    image: &ClusterImage,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    placement::place(&image.usable_brokers(), partitions, replication_factor, &mut Draws::InOrder)
}

/// R-PLACE-1: replicas as somebody chose them.
fn assigned(topic: &CreatableTopic, image: &ClusterImage) -> Result<Vec<Vec<BrokerId>>, Refused> {
    if topic.replication_factor != -1 || topic.num_partitions != -1 {
        let what = if topic.replication_factor != -1 { "replication factor" } else { "numPartitions" };
        let sentence = format!("A manual partition assignment was specified, but {what} was not set to -1.");
        return Err((ErrorCode::InvalidRequest, sentence));
    }
    let mut partitions: BTreeMap<i32, Vec<BrokerId>> = BTreeMap::new();
    let mut replication_factor = None;
    for assignment in &topic.assignments {
        let number = assignment.partition_index;
        let replicas: Vec<BrokerId> = assignment.broker_ids.iter().map(|id| BrokerId(id.0)).collect();
        check_manual_assignment(&replicas, replication_factor, image)?;
        replication_factor = Some(replicas.len());
        if partitions.insert(number, replicas).is_some() {
            return Err(unassignable(format!(
                "Found multiple manual partition assignments for partition {number}"
            )));
        }
    }
    match (0..).zip(partitions.keys()).all(|(expected, number)| expected == *number) {
        true => Ok(partitions.into_values().collect()),
        false => Err(unassignable("partitions should be a consecutive 0-based integer sequence".to_string())),
    }
}

/// Registered brokers, each once, and as many as the partitions before.
pub(super) fn check_manual_assignment(
    replicas: &[BrokerId],
    replication_factor: Option<usize>,
    image: &ClusterImage,
) -> Result<(), Refused> {
    let with = |what: String| unassignable(format!("The manual partition assignment includes {what}"));
    if replicas.is_empty() {
        return Err(with("an empty replica list.".to_string()));
    }
    let mut sorted = replicas.to_vec();
    sorted.sort();
    for (index, broker) in sorted.iter().enumerate() {
        if !image.brokers.contains_key(broker) {
            return Err(with(format!("broker {broker}, but no such broker is registered.")));
        }
        if sorted[..index].last() == Some(broker) {
            return Err(with(format!("the broker {broker} more than once.")));
        }
    }
    match replication_factor.filter(|factor| *factor != replicas.len()) {
        Some(factor) => Err(with(format!(
            "a partition with {} replica(s), but this is not consistent with previous partitions, which have {factor} \
             replica(s).",
            replicas.len()
        ))),
        None => Ok(()),
    }
}

fn unassignable(sentence: String) -> Refused {
    (ErrorCode::InvalidReplicaAssignment, sentence)
}

/// The records that give a topic more partitions (R-PLACE-7). Those it has are not touched.
pub fn create_partitions(
    wanted: &CreatePartitionsTopic,
    image: &ClusterImage,
) -> Result<Vec<MetadataRecord>, Refused> {
    let name = Topic::new(&wanted.name);
    let topic = image.topic(&name).ok_or_else(unknown_topic)?;
    let present = topic.partitions.len() as i32;
    let refuse = |sentence| Err((ErrorCode::InvalidPartitions, sentence));
    if wanted.count == present {
        return refuse(format!("Topic already has {present} partition(s)."));
    }
    if wanted.count < present {
        return refuse(format!(
            "The topic {name} currently has {present} partition(s); {} would not be an increase.",
            wanted.count
        ));
    }
    let additional = wanted.count - present;
    let replication_factor = topic.partitions[0].replicas.len();
    let replicas = match &wanted.assignments {
        Some(assignments) if assignments.len() != additional as usize => {
            return Err(unassignable(format!(
                "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                assignments.len()
            )));
        }
        Some(assignments) => {
            let ids = |one: &CreatePartitionsAssignment| -> Vec<BrokerId> {
                one.broker_ids.iter().map(|id| BrokerId(id.0)).collect()
            };
            let lists: Vec<Vec<BrokerId>> = assignments.iter().map(ids).collect();
            for list in &lists {
                check_manual_assignment(list, Some(replication_factor), image)?;
            }
            lists
        }
        None => place(additional, replication_factor as i16, image)
            .map_err(|error| (ErrorCode::InvalidReplicationFactor, error.to_string()))?,
    };
    let is_manual = wanted.assignments.is_some();
    let new = (present..).zip(replicas);
    new.map(|(number, replicas)| new_partition(topic.id, number, replicas, is_manual, image)).collect()
}

fn unknown_topic() -> Refused {
    (ErrorCode::UnknownTopicOrPartition, "This server does not host this topic-partition.".to_string())
}

/// The topic that a deletion names, by its name or its id (R-PLACE-9).
pub fn find_deletable<'a>(
    wanted: &DeleteTopicState,
    image: &'a ClusterImage,
) -> Result<&'a TopicImage, Refused> {
    let unknown_id = || (ErrorCode::UnknownTopicId, "This server does not host this topic ID.".to_string());
    match &wanted.name {
        Some(_) if !wanted.topic_id.is_nil() => {
            Err((ErrorCode::InvalidRequest, "You may not specify both topic name and topic id.".to_string()))
        }
        Some(name) => image.topic(&Topic::new(name)).map(|topic| &**topic).ok_or_else(unknown_topic),
        None => image.topic_by_id(TopicId(wanted.topic_id)).map(|topic| &**topic).ok_or_else(unknown_id),
    }
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
        let before = match &value {
            Some(value) => own.insert(key.clone(), value.clone()),
            None => own.remove(&key),
        };
        if before == value {
            continue;
        }
        let (resource, name) = (ConfigResource::Topic, name.as_str().to_string());
        records.push(MetadataRecord::Config { resource, name, key, value });
    }
    check_topic_config(&own).map_err(|error| (ErrorCode::InvalidConfig, error.to_string()))?;
    records.extend(elr_cleared_by(&records, topic));
    Ok(records)
}

/// R-REPL-48, `ClearElrRecord`: another min.insync.replicas makes the eligible replicas and the last known leaders of
/// the topic meaningless.
fn elr_cleared_by(records: &[MetadataRecord], topic: &TopicImage) -> Vec<MetadataRecord> {
    let changes_min_isr = |record: &MetadataRecord| matches!(record, MetadataRecord::Config { key, .. } if key == "min.insync.replicas");
    if !records.iter().any(changes_min_isr) {
        return Vec::new();
    }
    let remembers =
        |partition: &PartitionRegistration| !partition.elr.is_empty() || !partition.last_known_elr.is_empty();
    let with_elr = (0..).zip(&topic.partitions).filter(|(_, partition)| remembers(partition));
    let cleared = |number: i32| PartitionChange {
        partition: number,
        topic_id: topic.id,
        elr: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::protocol::metadata_records::RegisterBroker;
    use crate::kafka::types::BrokerEpoch;
    use kafka_protocol::messages::TopicName;

    #[test]
    fn a_topic_with_default_numbers_is_answered_with_the_numbers_it_got() {
        let mut image = ClusterImage::default();
        for broker in [1, 2, 3].map(BrokerId) {
            image.replay(&MetadataRecord::RegisterBroker(RegisterBroker {
                broker,
                incarnation: uuid::Uuid::nil(),
                epoch: BrokerEpoch(1),
                rack: None,
                fenced: false,
                in_controlled_shutdown: false,
            }));
        }
        let config =
            BrokerConfig { default_replication_factor: 3, num_partitions: 2, ..BrokerConfig::default() };
        let topic = CreatableTopic::default()
            .with_name(TopicName("t".into()))
            .with_num_partitions(-1)
            .with_replication_factor(-1);
        let created = create_topic(&topic, &image, &config, &mut Random::stream(1, "test"));
        let (_, result) = created.expect("three brokers live");
        assert_eq!((result.num_partitions, result.replication_factor), (2, 3), "R-PLACE-1");
    }
}
