//! What becomes of partitions when brokers come and go, when a leader asks, and when somebody wants an election.
//!
//! Mirrors the partition half of `ReplicationControlManager` (R-REPL-43, 49, 50).
//!
//! **Invariant:** nothing here changes state; each decision is the records that carry it out.

use super::image::ClusterImage;
use super::partition_change::{Election, PartitionChangeBuilder};
use crate::kafka::config::BrokerConfig;
use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionChange, RecoveryState};
use crate::kafka::types::{BrokerId, Topic, TopicPartition};

/// What the controller decides by: the cluster as its log has it, and its own static configs.
#[derive(Clone, Copy)]
pub struct Basis<'a> {
    pub image: &'a ClusterImage,
    pub config: &'a BrokerConfig,
}

/// A broker whose standing is about to change; the image does not show it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// Fenced, or on its way to stop.
    Leaves(BrokerId),
    /// Had stopped without warning, so that its logs cannot be trusted (R-REPL-56).
    StoppedUncleanly(BrokerId),
    /// Unfenced.
    Returns(BrokerId),
}

/// The most elections of one pass of a periodic check; what is left follows soon (R-REPL-49).
pub const MAX_ELECTIONS: i32 = 1000;

impl<'a> Basis<'a> {
    /// unclean.leader.election.enable of a topic: its own value, the cluster's, or the controller's.
    pub fn unclean_election(&self, topic: &Topic) -> bool {
        let set = self.image.topic_value(topic, "unclean.leader.election.enable");
        set.map_or(self.config.unclean_leader_election, |value| value.eq_ignore_ascii_case("true"))
    }

    /// A change of one partition that wants nothing yet.
    pub(super) fn change<'b>(
        self,
        tp: &TopicPartition,
        is_acceptable: &'b dyn Fn(BrokerId) -> bool,
    ) -> Option<PartitionChangeBuilder<'b>>
    where
        'a: 'b,
    {
        let topic_id = self.image.topic(&tp.topic)?.id;
        let mut builder =
            PartitionChangeBuilder::new(self.image.partition(tp)?, topic_id, tp.partition, is_acceptable);
        builder.min_isr = self.image.effective_min_isr(&tp.topic, self.config);
        builder.elr_enabled = self.image.elr_enabled();
        Some(builder)
    }

    /// The kind of election that a topic allows when nobody asked for one.
    pub(super) fn election(&self, topic: &Topic) -> Election {
        if self.unclean_election(topic) { Election::Unclean } else { Election::Online }
    }

    /// `generateLeaderAndIsrUpdates`: what a broker's shift does to `partitions`.
    pub fn shifted(&self, shift: Shift, partitions: Vec<TopicPartition>) -> Vec<MetadataRecord> {
        let is_acceptable = |id: BrokerId| match shift {
            Shift::Leaves(broker) | Shift::StoppedUncleanly(broker) => {
                id != broker && self.image.is_active(id)
            }
            Shift::Returns(broker) => id == broker || self.image.is_active(id),
        };
        let change = |tp: TopicPartition| {
            let mut builder = self.change(&tp, &is_acceptable)?;
            builder.election = self.election(&tp.topic);
            match shift {
                Shift::Leaves(broker) => builder.target_isr.retain(|id| *id != broker),
                Shift::StoppedUncleanly(broker) => {
                    builder.target_isr.retain(|id| *id != broker);
                    builder.unclean_shutdown = vec![broker];
                }
                Shift::Returns(_) => {}
            }
            builder.build()
        };
        partitions.into_iter().filter_map(change).map(MetadataRecord::PartitionChange).collect()
    }

    /// What becomes of a partition whose leader asked for another in-sync set.
    pub fn with_isr(
        &self,
        tp: &TopicPartition,
        isr: Vec<BrokerId>,
        recovery: RecoveryState,
    ) -> Option<PartitionChange> {
        let is_acceptable = |id: BrokerId| self.image.is_active(id);
        let mut builder = self.change(tp, &is_acceptable)?;
        builder.election = self.election(&tp.topic);
        builder.target_isr = isr;
        builder.target_recovery = recovery;
        builder.build()
    }

    /// An election of its own; `None` if it would change nothing.
    pub fn elected(&self, tp: &TopicPartition, election: Election) -> Option<PartitionChange> {
        let is_acceptable = |id: BrokerId| self.image.is_active(id);
        let mut builder = self.change(tp, &is_acceptable)?;
        builder.election = election;
        builder.build()
    }

    /// Leaders that are not the first of their replica list give way to it where it may lead (R-REPL-44, 49).
    pub fn balanced(&self) -> Vec<MetadataRecord> {
        let imbalanced = self
            .image
            .partitions()
            .filter(|(_, partition)| Some(&partition.leader) != partition.replicas.first());
        let changes = imbalanced.filter_map(|(tp, _)| self.elected(&tp, Election::Preferred));
        changes.take(MAX_ELECTIONS as usize).map(MetadataRecord::PartitionChange).collect()
    }

    /// Partitions without a leader get one from outside the in-sync set where their topic allows it (R-REPL-49).
    pub fn elected_uncleanly(&self) -> Vec<MetadataRecord> {
        let allowed = |tp: &TopicPartition| self.unclean_election(&tp.topic);
        let leaderless = self.without_leader().into_iter().filter(allowed);
        let changes = leaderless.filter_map(|tp| self.elected(&tp, Election::Unclean));
        changes.take(MAX_ELECTIONS as usize).map(MetadataRecord::PartitionChange).collect()
    }

    pub fn in_isr_of(&self, broker: BrokerId) -> Vec<TopicPartition> {
        let members = self.image.partitions().filter(|(_, partition)| partition.isr.contains(&broker));
        members.map(|(tp, _)| tp).collect()
    }

    pub fn in_elr_of(&self, broker: BrokerId) -> Vec<TopicPartition> {
        let members = self.image.partitions().filter(|(_, partition)| partition.elr.contains(&broker));
        members.map(|(tp, _)| tp).collect()
    }

    pub fn leads_any(&self, broker: BrokerId) -> bool {
        self.image.partitions().any(|(_, partition)| partition.leader == broker)
    }

    pub fn without_leader(&self) -> Vec<TopicPartition> {
        let leaderless = self.image.partitions().filter(|(_, partition)| !partition.leader.is_some());
        leaderless.map(|(tp, _)| tp).collect()
    }
}
