//! The committed metadata records, replayed once more by somebody who holds each change to the rules.
//!
//! **Invariant:** each committed record is replayed once, in order.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::kafka::controller::image::{ClusterImage, PartitionRegistration};
use crate::kafka::protocol::metadata_records::{
    MetadataRecord, PartitionChange, RecoveryState, RegisterBroker,
};
use crate::kafka::raft::{MetadataLog, Next};
use crate::kafka::types::{BrokerId, LeaderEpoch, TopicPartition};

/// A committed change that the other watches have to hear of.
pub enum News {
    /// A partition came to be, or its leader, replicas or in-sync set changed.
    Changed(TopicPartition),
    /// A leader was elected that may lack committed records (R-REPL-43, 46).
    Unclean(TopicPartition),
    /// A topic's config or the cluster's changed.
    Config,
    /// A topic is gone.
    Removed,
}

impl News {
    /// The partition that may have lost something.
    pub fn loss(&self) -> Option<&TopicPartition> {
        match self {
            News::Unclean(tp) => Some(tp),
            _ => None,
        }
    }
}

#[derive(Default)]
pub struct MetadataWatch {
    pub image: ClusterImage,
    leaders: BTreeMap<(TopicPartition, LeaderEpoch), BrokerId>,
    /// Brokers that are eligible from a time when they were replicas, which they have not always been since. Kafka leaves
    /// them in the ELR when a reassignment takes them away, and elects them if a later one brings them back while nobody
    /// is in sync.
    moved_away: BTreeSet<(TopicPartition, BrokerId)>,
    running: BTreeSet<BrokerId>,
    /// Brokers whose last process ended without a word, or whose disk was wiped since.
    killed: BTreeSet<BrokerId>,
    /// Brokers whose disk lacks what it once held, until they are known to have begun anew.
    robbed: BTreeSet<BrokerId>,
    /// Processes whose forerunner ended without a word (R-REPL-56).
    distrusted: BTreeSet<Uuid>,
}

impl MetadataWatch {
    /// A broker's process ended without a word.
    pub fn on_kill(&mut self, broker: BrokerId) {
        self.running.remove(&broker);
        self.killed.insert(broker);
    }

    /// A broker's process said goodbye, which leaves nothing unflushed.
    pub fn on_end(&mut self, broker: BrokerId) {
        self.running.remove(&broker);
    }

    /// Whether a power failure costs the broker something now.
    pub fn has_unflushed(&self, broker: BrokerId) -> bool {
        self.running.contains(&broker) || self.killed.contains(&broker)
    }

    /// A broker's disk lost what was not flushed, or everything.
    pub fn on_loss(&mut self, broker: BrokerId) {
        self.on_kill(broker);
        self.robbed.insert(broker);
    }

    /// Whether the broker may lack what an in-sync replica has: it lost it, and the controller does not know yet.
    pub fn is_robbed(&self, broker: BrokerId) -> bool {
        self.robbed.contains(&broker)
    }

    /// A broker's process began.
    pub fn on_start(&mut self, broker: BrokerId, incarnation: Uuid) {
        self.running.insert(broker);
        if self.killed.remove(&broker) {
            self.distrusted.insert(incarnation);
        }
    }

    /// Replays what `log` knows to be committed and was not seen before; or what is wrong with it.
    pub fn follow(&mut self, log: &MetadataLog) -> Result<Vec<News>, String> {
        let mut news = Vec::new();
        // Who has only a snapshot of what is missing here is not asked: somebody has the records when they are committed.
        let Next::Records { records, .. } = log.committed_from(self.image.next_offset) else {
            return Ok(news);
        };
        for (offset, record) in records {
            let Some(record) = record else {
                self.image.skip_control_record();
                continue;
            };
            self.replay(&record, &mut news).map_err(|fault| format!("metadata record {offset}: {fault}"))?;
        }
        Ok(news)
    }

    fn replay(&mut self, record: &MetadataRecord, news: &mut Vec<News>) -> Result<(), String> {
        match record {
            MetadataRecord::Partition(record) => {
                self.image.replay(&MetadataRecord::Partition(record.clone()));
                let topic = self.image.topic_by_id(record.topic_id).ok_or("a partition of no topic")?;
                let tp = TopicPartition::new(&topic.name, record.partition);
                let partition = &topic.partitions[record.partition as usize];
                fault_of(partition).map_or(Ok(()), |fault| Err(format!("{tp}: {fault}")))?;
                self.leaders.insert((tp.clone(), record.leader_epoch), record.leader);
                news.push(News::Changed(tp));
            }
            MetadataRecord::PartitionChange(change) => self.change(change, news)?,
            MetadataRecord::RegisterBroker(record) => {
                self.image.replay(&MetadataRecord::RegisterBroker(record.clone()));
                self.registered(record)?;
            }
            MetadataRecord::RemoveTopic { .. } => {
                self.image.replay(record);
                let image = &self.image;
                self.leaders.retain(|(tp, _), _| image.topic(&tp.topic).is_some());
                news.push(News::Removed);
            }
            MetadataRecord::Config { .. } => {
                self.image.replay(record);
                news.push(News::Config);
            }
            _ => self.image.replay(record),
        }
        Ok(())
    }

    fn change(&mut self, change: &PartitionChange, news: &mut Vec<News>) -> Result<(), String> {
        let topic = self.image.topic_by_id(change.topic_id).ok_or("a change of no topic")?;
        let tp = TopicPartition::new(&topic.name, change.partition);
        let before = self.image.partition(&tp).ok_or("a change of no partition")?.clone();
        self.image.replay(&MetadataRecord::PartitionChange(change.clone()));
        let after = self.image.partition(&tp).ok_or("the partition is gone")?;
        let fault = fault_of(after).or_else(|| fault_between(&before, after));
        if let Some(fault) = fault {
            return Err(format!("{tp}: {fault}, from {before:?} to {after:?}"));
        }
        let leader = *self.leaders.entry((tp.clone(), after.leader_epoch)).or_insert(after.leader);
        if leader != after.leader {
            let epoch = after.leader_epoch;
            return Err(format!("{tp}: {leader} and {} lead in epoch {epoch}", after.leader));
        }
        let newly = after.leader.is_some() && after.leader_epoch > before.leader_epoch;
        let forgot = self.moved_away.contains(&(tp.clone(), after.leader));
        if newly && (forgot || after.recovery == RecoveryState::Recovering) {
            news.push(News::Unclean(tp.clone()));
        }
        for id in after.elr.iter().filter(|id| !after.replicas.contains(id)) {
            self.moved_away.insert((tp.clone(), *id));
        }
        self.moved_away.retain(|(other, id)| *other != tp || after.elr.contains(id));
        news.push(News::Changed(tp));
        Ok(())
    }

    /// R-REPL-56: a broker that comes back is in no in-sync set; one that had stopped without warning is in no ELR either.
    fn registered(&mut self, record: &RegisterBroker) -> Result<(), String> {
        let broker = record.broker;
        if self.distrusted.contains(&record.incarnation) {
            self.robbed.remove(&broker);
        }
        let unclean = self.distrusted.contains(&record.incarnation) && self.image.elr_enabled();
        for (tp, partition) in self.image.partitions() {
            if record.fenced && partition.isr.contains(&broker) && (unclean || partition.isr.len() > 1) {
                return Err(format!("{tp}: broker {broker} registers and is in sync"));
            }
            if unclean && record.fenced && partition.elr.contains(&broker) {
                return Err(format!("{tp}: broker {broker} stopped without warning and is eligible"));
            }
        }
        Ok(())
    }
}

/// R-REPL-1, 40, 45: what a registration looks like.
fn fault_of(partition: &PartitionRegistration) -> Option<&'static str> {
    let distinct = |ids: &[BrokerId]| ids.iter().enumerate().all(|(place, id)| !ids[..place].contains(id));
    let PartitionRegistration { replicas, isr, elr, leader, .. } = partition;
    if replicas.is_empty() || [replicas, isr, elr].iter().any(|ids| !distinct(ids)) {
        return Some("no replicas, or one that is named twice");
    }
    // A reassignment to less than min.insync.replicas leaves the old replicas in the ELR, from which nobody elects them
    // (`PartitionChangeBuilder.maybePopulateTargetElr`).
    if isr.iter().any(|id| !replicas.contains(id)) {
        return Some("somebody is in sync and no replica");
    }
    if elr.iter().any(|id| isr.contains(id)) {
        return Some("somebody is in sync and eligible");
    }
    if leader.is_some() && !isr.contains(leader) {
        return Some("the leader is not in sync");
    }
    None
}

/// R-REPL-2, 41 to 46: what may become of a partition in one change.
fn fault_between(before: &PartitionRegistration, after: &PartitionRegistration) -> Option<&'static str> {
    if after.partition_epoch <= before.partition_epoch {
        return Some("the partition epoch did not rise");
    }
    if after.leader_epoch < before.leader_epoch {
        return Some("the leader epoch fell");
    }
    if after.leader == before.leader {
        return None;
    }
    if after.leader_epoch == before.leader_epoch {
        return Some("another leader in the same epoch");
    }
    // A reassignment ends when the leader adds the last of the new replicas, and that one may lead at once.
    let joins = before.is_reassigning() && after.isr.contains(&after.leader);
    let entitled = joins || before.isr.contains(&after.leader) || before.elr.contains(&after.leader);
    let unclean = after.recovery == RecoveryState::Recovering;
    (after.leader.is_some() && !entitled && !unclean).then_some("a leader that was not in sync, nor eligible")
}
