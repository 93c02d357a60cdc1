//! How often each thing was compared or happened, so that a calm run shows that it was held to something.

use std::ops::AddAssign;

use crate::kafka::event::{Act, Event, LogStartReason, RevokeReason};
use crate::kafka::types::NodeId;

/// Counters, each with what it counts in the words of a summary.
macro_rules! counts {
    ($($field:ident: $words:literal,)*) => {
        /// What one run, or many, went through.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $(#[doc = $words] pub $field: u64,)*
        }

        impl Counts {
            /// Each with what it counts, in the words of a summary.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($words, self.$field),)*]
            }
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Counts) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counts! {
    batches_compared: "committed batches compared",
    compacted_records_compared: "records of compacted logs compared",
    acknowledgements_checked: "acknowledgements checked",
    loose_acknowledgements_checked: "acknowledgements of acks=0 and acks=1 checked",
    offsets_compared: "committed offsets compared",
    commits_checked: "commits held to their generation",
    owned_commits_checked: "commits held to the partitions' owners",
    positions_checked: "committed offsets held to what poll() returned",
    handovers_checked: "plans held to what members keep",
    assignments_checked: "assignments held to each other",
    lost_assignments: "assignments lost",
    elections: "elections",
    truncations: "truncations",
    cleanings: "cleanings",
    power_losses: "power losses",
    wiped_disks: "wiped disks",
    snapshots_written: "metadata snapshots written",
    snapshots_fetched: "metadata snapshots fetched",
    read_replicas: "consumers sent to a follower",
    topics_created: "topics created",
    topics_deleted: "topics deleted",
    partitions_added: "times partitions were added",
    record_deletions: "times records were deleted",
    topic_configs: "topic configs changed",
    broker_configs: "broker configs changed",
    replica_changes: "changes of reassignments",
    stopped_brokers: "brokers stopped in order",
    stopped_controllers: "controllers stopped in order",
    records_shared: "records handed out to share groups",
    share_starts_checked: "starts of share groups held to what is done",
    transactions_committed: "transactions committed in partitions",
    transactions_aborted: "transactions aborted in partitions",
    stable_offsets_checked: "last stable offsets checked",
    polls_checked: "polls of committed data checked",
    decisions_checked: "ends of transactions held to the coordinators' logs",
    epochs_checked: "transactional batches held to their producers' epochs",
    markers_checked: "markers that were due checked",
    results_checked: "records held to have one result",
}

impl Counts {
    /// Counts what happened.
    pub fn hear(&mut self, event: &Event) {
        let count = match event {
            Event::PartitionsRevoked { reason: RevokeReason::Lost, .. } => &mut self.lost_assignments,
            Event::LeaderElected { to, .. } if to.is_some() => &mut self.elections,
            Event::Truncated { from, to, .. } if to < from => &mut self.truncations,
            Event::LogCleaned { before, after, .. } if after.records < before.records => &mut self.cleanings,
            Event::Process { act: Act::PowerCut, .. } => &mut self.power_losses,
            Event::DiskWiped { .. } => &mut self.wiped_disks,
            Event::SnapshotWritten { .. } => &mut self.snapshots_written,
            Event::SnapshotFetched { .. } => &mut self.snapshots_fetched,
            Event::ReadReplicaChosen { .. } => &mut self.read_replicas,
            Event::TopicCreated { .. } => &mut self.topics_created,
            Event::TopicDeleted { .. } => &mut self.topics_deleted,
            Event::PartitionsAdded { .. } => &mut self.partitions_added,
            Event::LogStartMoved { leader: true, reason: LogStartReason::DeleteRecords, .. } => {
                &mut self.record_deletions
            }
            Event::ConfigChanged { .. } => &mut self.topic_configs,
            Event::BrokerConfigChanged { .. } => &mut self.broker_configs,
            Event::ReplicasChanged { .. } => &mut self.replica_changes,
            Event::Process { node: NodeId::Broker(_), act: Act::Ended, .. } => &mut self.stopped_brokers,
            Event::Process { node: NodeId::Controller(_), act: Act::Ended, .. } => {
                &mut self.stopped_controllers
            }
            _ => return,
        };
        *count += 1;
    }
}
