//! AlterPartitionReassignments and ListPartitionReassignments (R-REPL-58 to 61, KIP-455, KIP-860).

use std::collections::BTreeSet;

use kafka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, TopicName,
};

use super::image::{PartitionRegistration, TopicImage};
use super::partitions::Basis;
use super::reassignment::Reassignment;
use super::topics::{Refused, check_manual_assignment};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionChange};
use crate::kafka::types::{BrokerId, Topic, TopicPartition};

/// The records that begin, change or cancel reassignments, and the answer.
pub fn alter(
    request: &AlterPartitionReassignmentsRequest,
    basis: Basis<'_>,
) -> (Vec<MetadataRecord>, AlterPartitionReassignmentsResponse) {
    let allow_change = request.allow_replication_factor_change;
    let mut records = Vec::new();
    let mut response = AlterPartitionReassignmentsResponse::default()
        .with_error_message(None)
        .with_allow_replication_factor_change(allow_change);
    for topic in &request.topics {
        let mut answers = Vec::new();
        for wanted in &topic.partitions {
            let tp = TopicPartition::new(&Topic::new(&topic.name), wanted.partition_index);
            let (error, message) = match alter_one(&tp, wanted, allow_change, basis) {
                Ok(change) => {
                    records.extend(change.map(MetadataRecord::PartitionChange));
                    (ErrorCode::None, None)
                }
                Err((error, message)) => (error, Some(message.into())),
            };
            let answer = ReassignablePartitionResponse::default()
                .with_partition_index(wanted.partition_index)
                .with_error_code(error.code())
                .with_error_message(message);
            answers.push(answer);
        }
        let topic =
            ReassignableTopicResponse::default().with_name(topic.name.clone()).with_partitions(answers);
        response.responses.push(topic);
    }
    (records, response)
}

fn alter_one(
    tp: &TopicPartition,
    wanted: &ReassignablePartition,
    allow_change: bool,
    basis: Basis<'_>,
) -> Result<Option<PartitionChange>, Refused> {
    let missing = || (ErrorCode::UnknownTopicOrPartition, format!("Unable to find partition {tp}."));
    let partition = basis.image.partition(tp).ok_or_else(missing)?;
    match &wanted.replicas {
        None => cancel(tp, partition, basis),
        Some(target) => {
            let target: Vec<BrokerId> = target.iter().map(|id| BrokerId(id.0)).collect();
            check_manual_assignment(&target, None, basis.image)?;
            if !allow_change {
                check_same_replication_factor(partition, &target)?;
            }
            Ok(change(tp, partition, &target, basis))
        }
    }
}

/// R-REPL-58. What is on its way already and not touched by the new target stays on its way.
fn change(
    tp: &TopicPartition,
    partition: &PartitionRegistration,
    target: &[BrokerId],
    basis: Basis<'_>,
) -> Option<PartitionChange> {
    let is_acceptable = |id: BrokerId| basis.image.is_active(id);
    let mut builder = basis.change(tp, &is_acceptable)?;
    let way = Reassignment::new(&partition.replicas, target);
    builder.target.replicas = way.replicas;
    if !way.removing.is_empty() {
        builder.target.removing = way.removing;
    }
    if !way.adding.is_empty() {
        builder.target.adding = way.adding;
    }
    builder.build()
}

/// R-REPL-60.
fn cancel(
    tp: &TopicPartition,
    partition: &PartitionRegistration,
    basis: Basis<'_>,
) -> Result<Option<PartitionChange>, Refused> {
    if !partition.is_reassigning() {
        let sentence = "No partition reassignment is in progress.".to_string();
        return Err((ErrorCode::NoReassignmentInProgress, sentence));
    }
    let reverted = Reassignment::of(partition).reverted(&partition.isr);
    if reverted.unclean && !basis.unclean_election(&tp.topic) {
        let sentence = format!(
            "Unable to revert partition assignment for {tp} because it would require an unclean leader election."
        );
        return Err((ErrorCode::InvalidReplicaAssignment, sentence));
    }
    let is_acceptable = |id: BrokerId| basis.image.is_active(id);
    let Some(mut builder) = basis.change(tp, &is_acceptable) else { return Ok(None) };
    builder.election = basis.election(&tp.topic);
    builder.target_isr = reverted.isr;
    builder.target = Reassignment { replicas: reverted.replicas, removing: Vec::new(), adding: Vec::new() };
    Ok(builder.build())
}

fn check_same_replication_factor(
    partition: &PartitionRegistration,
    target: &[BrokerId],
) -> Result<(), Refused> {
    let now: BTreeSet<&BrokerId> =
        partition.replicas.iter().filter(|id| !partition.removing.contains(id)).collect();
    if now.len() == target.len() {
        return Ok(());
    }
    let sentence = format!("The replication factor is changed from {} to {}", now.len(), target.len());
    Err((ErrorCode::InvalidReplicationFactor, sentence))
}

/// The reassignments that are under way.
pub fn list(
    request: &ListPartitionReassignmentsRequest,
    basis: Basis<'_>,
) -> ListPartitionReassignmentsResponse {
    let mut topics = Vec::new();
    match &request.topics {
        None => topics.extend(basis.image.topics().filter_map(|topic| ongoing(topic, |_| true))),
        Some(wanted) => {
            for one in wanted {
                let topic = basis.image.topic(&Topic::new(&one.name));
                topics.extend(topic.and_then(|topic| ongoing(topic, |n| one.partition_indexes.contains(&n))));
            }
        }
    }
    ListPartitionReassignmentsResponse::default().with_error_message(None).with_topics(topics)
}

fn ongoing(topic: &TopicImage, wanted: impl Fn(i32) -> bool) -> Option<OngoingTopicReassignment> {
    let wire = |ids: &[BrokerId]| ids.iter().map(|id| id.0.into()).collect();
    let moving =
        (0..).zip(&topic.partitions).filter(|(n, partition)| wanted(*n) && partition.is_reassigning());
    let partitions: Vec<OngoingPartitionReassignment> = moving
        .map(|(number, partition)| {
            OngoingPartitionReassignment::default()
                .with_partition_index(number)
                .with_replicas(wire(&partition.replicas))
                .with_adding_replicas(wire(&partition.adding))
                .with_removing_replicas(wire(&partition.removing))
        })
        .collect();
    let name = TopicName(topic.name.to_wire());
    (!partitions.is_empty())
        .then(|| OngoingTopicReassignment::default().with_name(name).with_partitions(partitions))
}
