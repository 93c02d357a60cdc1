//! Topics: creation, more partitions, deletion.
//!
//! Mirrors `ReplicationControlManager` (R-PLACE-1, 7, 9, R-LOG-52).

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;

use super::configs;
use super::image::{ClusterImage, TopicImage};
use super::partitions::Basis;
use super::placement::{self, Draws, PlacementError};
use crate::kafka::config::BrokerConfig;
use crate::kafka::event::ChangeReason;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
use crate::kafka::random::Random;
use crate::kafka::topic_name;
use crate::kafka::types::{BrokerId, Topic, TopicId};

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
    let collides = |other: &&Topic| topic_name::collide(name, other.as_str());
    let reason = match (topic_name::check(name), image.topics().map(|topic| &topic.name).find(collides)) {
        (Err(reason), _) => reason,
        (Ok(()), Some(other)) => format!("it collides with the existing topic '{other}'"),
        (Ok(()), None) => return Ok(()),
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
    let own = |entry: &CreatableTopicConfig| {
        (entry.name.to_string(), entry.value.as_ref().map(|value| value.to_string()))
    };
    let basis = Basis { image, config };
    let config_records = configs::created(&name, topic.configs.iter().map(own).collect(), basis)?;
    let replicas = match topic.assignments.is_empty() {
        true => placed(topic, image, config)?,
        false => assigned(topic, image)?,
    };
    let replication_factor = replicas[0].len() as i16;
    let partitions = replicas.len() as i32;
    let id = TopicId(random.uuid());
    let mut records = vec![MetadataRecord::Topic { name: name.clone(), id }];
    records.extend(config_records);
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
    Ok(MetadataRecord::Partition(PartitionRecord::new((topic_id, partition), replicas, isr, leader)))
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

pub fn refused_topic(topic: &CreatableTopic, (error, message): Refused) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_error_code(error.code())
        .with_error_message(Some(message.into()))
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
