//! A leader asks for another in-sync set: AlterPartition (KIP-497, R-REPL-25).

use kafka_protocol::messages::alter_partition_request::PartitionData as Wanted;
use kafka_protocol::messages::alter_partition_response::PartitionData as Answer;

use super::image::{ClusterImage, PartitionRegistration};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::RecoveryState;
use crate::kafka::types::{BrokerEpoch, BrokerId};

/// The checks, in Kafka's order.
pub fn validate(
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

pub fn recovery_state(value: i8) -> RecoveryState {
    if value == 1 { RecoveryState::Recovering } else { RecoveryState::Recovered }
}

pub fn refused(partition: i32, error: ErrorCode) -> Answer {
    Answer::default().with_partition_index(partition).with_error_code(error.code())
}

pub fn accepted(number: i32, partition: &PartitionRegistration) -> Answer {
    Answer::default()
        .with_partition_index(number)
        .with_leader_id(partition.leader.0.into())
        .with_leader_epoch(partition.leader_epoch.0)
        .with_isr(partition.isr.iter().map(|id| id.0.into()).collect())
        .with_leader_recovery_state(i8::from(partition.recovery == RecoveryState::Recovering))
        .with_partition_epoch(partition.partition_epoch.0)
}
