//! One partition as it was seen up to now, and what holds of its replicas by themselves.
//!
//! **Invariant:** what is not known since a loss is not held against anybody.

use std::collections::BTreeMap;

use super::history::History;
use super::sight;
use crate::kafka::controller::image::PartitionRegistration;
use crate::kafka::protocol::metadata_records::RecoveryState;
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::sim::World;

/// One partition as it was seen up to now.
pub struct PartitionWatch {
    pub topic_id: TopicId,
    pub history: History,
    /// A leader was elected that may lack committed records, and the replicas do not all follow it yet.
    pub is_lost: bool,
    /// What is here was committed after this moment or under a clean succession of leaders.
    pub since: Time,
    /// The leader epoch of that moment. Who has not heard of it is no replica, or has yet to follow.
    pub since_epoch: LeaderEpoch,
    /// How far a leader that was deposed before that moment has come by itself.
    pub deposed_end: Offset,
    /// Who leads in which epoch, as the brokers themselves think.
    pub leaders: BTreeMap<LeaderEpoch, BrokerId>,
    /// Up to where each replica was compared with the history.
    pub compared: BTreeMap<BrokerId, Offset>,
    /// The least that min(min.insync.replicas, replication factor) ever was.
    pub least_min_isr: i32,
}

/// Whether all replicas are in sync and in the leader's epoch, none knows more to be committed than the leader does, and
/// each has what the leader knows to be.
pub fn is_settled(world: &World, tp: &TopicPartition, registration: &PartitionRegistration) -> bool {
    let Some(leader) = sight::replica(world, registration.leader, tp) else { return false };
    let follows = |id: &BrokerId| {
        sight::replica(world, *id, tp).is_some_and(|replica| {
            replica.leader_epoch == registration.leader_epoch
                && replica.log.high_watermark() <= leader.log.high_watermark()
                && replica.log.log_end_offset() >= leader.log.high_watermark()
        })
    };
    registration.recovery == RecoveryState::Recovered
        && registration.isr.len() == registration.replicas.len()
        && registration.replicas.iter().all(follows)
}

/// R-LOG-30, R-REPL-4, R-LOG-48: what holds of a replica by itself.
pub fn fault_of(partition: &Partition) -> Option<String> {
    let log = &partition.log;
    let (start, stable, mark, end) =
        (log.log_start_offset(), log.last_stable_offset(), log.high_watermark(), log.log_end_offset());
    if start > mark || stable > mark || mark > end {
        return Some(format!(
            "log start {start}, last stable offset {stable}, high watermark {mark}, log end {end}"
        ));
    }
    let latest = log.latest_epoch().unwrap_or(LeaderEpoch::NONE);
    if partition.is_leader() && latest > partition.leader_epoch {
        return Some(format!("leads in epoch {}, and has records of {latest}", partition.leader_epoch));
    }
    None
}
