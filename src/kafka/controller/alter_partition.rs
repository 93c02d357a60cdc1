//! A leader asks for another in-sync set: AlterPartition (KIP-497, R-REPL-25).

use kafka_protocol::messages::alter_partition_request::PartitionData as Wanted;
use kafka_protocol::messages::alter_partition_response::PartitionData as Answer;

use super::image::{ClusterImage, PartitionRegistration};
use super::partitions::Basis;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{PartitionChange, RecoveryState};
use crate::kafka::types::{BrokerEpoch, BrokerId, TopicPartition};

/// What is written for a leader's wish, and the answer to it. A change that ends a reassignment may move the leadership
/// away from who asked: that is answered as an error, and written all the same.
pub fn decide(
    sender: BrokerId,
    tp: &TopicPartition,
    wanted: &Wanted,
    basis: Basis<'_>,
) -> (Option<PartitionChange>, Answer) {
    let partition = basis.image.partition(tp);
    let isr = match validate(sender, partition.map(|partition| &**partition), wanted, basis.image) {
        Ok(isr) => isr,
        Err(error) => return (None, refused(wanted.partition_index, error)),
    };
    let change = basis.with_isr(tp, isr, recovery_state(wanted.leader_recovery_state));
    let mut partition = (**partition.expect("validated")).clone();
    if let Some(change) = &change {
        partition.merge(change);
    }
    let moved = change.as_ref().and_then(|change| change.leader).is_some_and(|leader| leader != sender);
    let answer = match moved {
        true => refused(wanted.partition_index, ErrorCode::NewLeaderElected),
        false => accepted(wanted.partition_index, &partition),
    };
    (change, answer)
}

/// The checks, in Kafka's order.
fn validate(
    sender: BrokerId,
    partition: Option<&PartitionRegistration>,
    wanted: &Wanted,
    image: &ClusterImage,
) -> Result<Vec<BrokerId>, ErrorCode> {
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if wanted.leader_epoch > partition.leader_epoch.0 || wanted.partition_epoch > partition.partition_epoch.0
    {
        return Err(ErrorCode::NotController);
    }
    if wanted.leader_epoch < partition.leader_epoch.0 {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    if sender != partition.leader {
        return Err(ErrorCode::InvalidRequest);
    }
    if wanted.partition_epoch < partition.partition_epoch.0 {
        return Err(ErrorCode::InvalidUpdateVersion);
    }
    let isr: Vec<BrokerId> =
        wanted.new_isr_with_epochs.iter().map(|member| BrokerId(member.broker_id.0)).collect();
    let distinct = isr.iter().enumerate().all(|(place, id)| !isr[..place].contains(id));
    let recovery = recovery_state(wanted.leader_recovery_state);
    let invalid = isr.is_empty()
        || !distinct
        || isr.iter().any(|id| !partition.replicas.contains(id))
        || !isr.contains(&partition.leader)
        || (recovery == RecoveryState::Recovering && isr.len() > 1)
        || (recovery == RecoveryState::Recovering && partition.recovery == RecoveryState::Recovered);
    if invalid {
        return Err(ErrorCode::InvalidRequest);
    }
    // KIP-903: a member must be the incarnation that the leader saw.
    let eligible = |member: &kafka_protocol::messages::alter_partition_request::BrokerState| {
        image.brokers.get(&BrokerId(member.broker_id.0)).is_some_and(|known| {
            known.is_active()
                && (member.broker_epoch == -1 || known.epoch == BrokerEpoch(member.broker_epoch))
        })
    };
    if !wanted.new_isr_with_epochs.iter().all(eligible) {
        return Err(ErrorCode::IneligibleReplica);
    }
    Ok(isr)
}

fn recovery_state(value: i8) -> RecoveryState {
    if value == 1 { RecoveryState::Recovering } else { RecoveryState::Recovered }
}

pub fn refused(partition: i32, error: ErrorCode) -> Answer {
    Answer::default().with_partition_index(partition).with_error_code(error.code())
}

fn accepted(number: i32, partition: &PartitionRegistration) -> Answer {
    Answer::default()
        .with_partition_index(number)
        .with_leader_id(partition.leader.0.into())
        .with_leader_epoch(partition.leader_epoch.0)
        .with_isr(partition.isr.iter().map(|id| id.0.into()).collect())
        .with_leader_recovery_state(i8::from(partition.recovery == RecoveryState::Recovering))
        .with_partition_epoch(partition.partition_epoch.0)
}
