//! The committed metadata records, replayed once more by somebody who holds each change to the rules.
//!
//! **Invariant:** each committed record is replayed once, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use uuid::Uuid;

use crate::kafka::config::BrokerConfig;
use crate::kafka::controller::image::{ClusterImage, PartitionRegistration, TopicImage};
use crate::kafka::protocol::metadata_records::{
    MetadataRecord, PartitionChange, PartitionRecord, RecoveryState, RegisterBroker,
};
use crate::kafka::raft::{MetadataLog, Snapshot};
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, Topic, TopicPartition};
use crate::swarm::check::{Broken, Check, Verdict};

/// A committed change that the other watches have to hear of.
pub enum News {
    /// A partition came to be, or its leader, replicas or in-sync set changed.
    Changed(TopicPartition),
    /// A leader was elected that may lack committed records (R-REPL-43, 46).
    Unclean(TopicPartition, BrokerId),
    /// A broker is known to have begun anew after it stopped without a word.
    BeganAnew(BrokerId),
    /// A topic is gone.
    Removed,
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
    /// Processes whose forerunner ended without a word (R-REPL-56).
    distrusted: BTreeSet<Uuid>,
    /// min.insync.replicas of each topic, with the offset of the metadata record from which on it is so.
    min_isrs: BTreeMap<Topic, Vec<(Offset, i32)>>,
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

    /// Who leads in an epoch.
    pub fn leader(&self, tp: &TopicPartition, epoch: LeaderEpoch) -> Option<BrokerId> {
        self.leaders.get(&(tp.clone(), epoch)).copied()
    }

    /// Whether one broker leads in every epoch from `from` to `to`.
    pub fn leads_throughout(&self, tp: &TopicPartition, from: LeaderEpoch, to: LeaderEpoch) -> bool {
        let mut leaders =
            self.leaders.range((tp.clone(), from)..=(tp.clone(), to)).map(|(_, leader)| *leader);
        let first = leaders.next();
        first.is_some() && leaders.all(|leader| Some(leader) == first)
    }

    /// The least min.insync.replicas for who had replayed everything below `from` and has replayed what is below `to`.
    pub fn least_min_isr(&self, topic: &Topic, from: Offset, to: Offset) -> i32 {
        let known = self.min_isrs.get(topic).map_or(&[][..], Vec::as_slice);
        let first = known.partition_point(|(since, _)| *since < from).saturating_sub(1);
        let in_effect = known[first..].iter().take_while(|(since, _)| *since < to);
        in_effect.map(|(_, min_isr)| *min_isr).min().unwrap_or(1)
    }

    /// A topic's min.insync.replicas by all that is committed.
    pub fn newest_min_isr(&self, topic: &Topic) -> i32 {
        self.min_isrs.get(topic).and_then(|known| known.last()).map_or(1, |(_, min_isr)| *min_isr)
    }

    /// What `record` at `offset` changes in the topics' min.insync.replicas.
    fn follow_min_isr(&mut self, record: &MetadataRecord, offset: Offset, broker_config: &BrokerConfig) {
        let comes_to_be = |record: &PartitionRecord| self.image.topic_by_id(record.topic_id).cloned();
        let topics: Vec<Rc<TopicImage>> = match record {
            MetadataRecord::Partition(record) if record.partition == 0 => {
                comes_to_be(record).into_iter().collect()
            }
            MetadataRecord::Config { .. } => self.image.topics().cloned().collect(),
            _ => return,
        };
        // What all brokers are told counts; no single one is told another min.insync.replicas.
        let defaults = self.image.broker_config(BrokerId::NONE, broker_config);
        for topic in topics {
            let min_isr = self.image.topic_config(&topic.name, &defaults).min_insync_replicas;
            let known = self.min_isrs.entry(topic.name.clone()).or_default();
            if known.last().is_none_or(|(_, before)| *before != min_isr) {
                known.push((offset, min_isr));
            }
        }
    }

    /// A broker's process began.
    pub fn on_start(&mut self, broker: BrokerId, incarnation: Uuid) {
        self.running.insert(broker);
        if self.killed.remove(&broker) {
            self.distrusted.insert(incarnation);
        }
    }

    /// Goes on from a snapshot, where the leader of the quorum committed records and dropped them for the snapshot's sake in
    /// one step, as one that stood still for long may do: nobody has them any more.
    pub fn take_over(&mut self, snapshot: &Snapshot, broker_config: &BrokerConfig) -> Vec<News> {
        let end = snapshot.id().end_offset;
        let before = std::mem::replace(&mut self.image, ClusterImage::of_snapshot(&snapshot.records(), end));
        let mut news = Vec::from([News::Removed]);
        let defaults = self.image.broker_config(BrokerId::NONE, broker_config);
        for topic in self.image.topics() {
            let min_isr = self.image.topic_config(&topic.name, &defaults).min_insync_replicas;
            self.min_isrs.entry(topic.name.clone()).or_default().push((end + -1, min_isr));
        }
        for (tp, partition) in self.image.partitions() {
            if before.partition(&tp) == Some(partition) {
                continue;
            }
            self.leaders.insert((tp.clone(), partition.leader_epoch), partition.leader);
            if partition.leader.is_some() && partition.recovery == RecoveryState::Recovering {
                news.push(News::Unclean(tp.clone(), partition.leader));
            }
            news.push(News::Changed(tp));
        }
        news
    }

    /// Replays what `log` knows to be committed and was not seen before; or what is wrong with it.
    pub fn follow(&mut self, log: &MetadataLog, broker_config: &BrokerConfig) -> Result<Vec<News>, Broken> {
        let mut news = Vec::new();
        // Who has only a snapshot of what is missing here is not asked: somebody has the records when they are committed.
        if log.start_offset() > self.image.next_offset || !log.is_told() {
            return Ok(news);
        }
        for (offset, record) in log.committed_records(self.image.next_offset).0 {
            let Some(record) = record else {
                self.image.skip_control_record();
                continue;
            };
            let verdict = self.replay(&record, &mut news);
            verdict.map_err(|broken| broken.at(format!("metadata record {offset}")))?;
            self.follow_min_isr(&record, offset, broker_config);
        }
        Ok(news)
    }

    fn replay(&mut self, record: &MetadataRecord, news: &mut Vec<News>) -> Verdict {
        match record {
            MetadataRecord::Partition(record) => {
                self.image.replay(&MetadataRecord::Partition(record.clone()));
                let topic = self.image.topic_by_id(record.topic_id);
                let topic = topic.ok_or_else(|| Check::Registration.broken("a partition of no topic"))?;
                let tp = TopicPartition::new(&topic.name, record.partition);
                let partition = &topic.partitions[record.partition as usize];
                check(partition, self.image.elr_enabled()).map_err(|broken| broken.at(&tp))?;
                self.leaders.insert((tp.clone(), record.leader_epoch), record.leader);
                news.push(News::Changed(tp));
            }
            MetadataRecord::PartitionChange(change) => self.change(change, news)?,
            MetadataRecord::RegisterBroker(record) => {
                self.image.replay(&MetadataRecord::RegisterBroker(record.clone()));
                self.registered(record, news)?;
            }
            MetadataRecord::RemoveTopic { .. } => {
                self.image.replay(record);
                let image = &self.image;
                self.leaders.retain(|(tp, _), _| image.topic(&tp.topic).is_some());
                self.min_isrs.retain(|topic, _| image.topic(topic).is_some());
                news.push(News::Removed);
            }
            _ => self.image.replay(record),
        }
        Ok(())
    }

    fn change(&mut self, change: &PartitionChange, news: &mut Vec<News>) -> Verdict {
        let topic = self.image.topic_by_id(change.topic_id);
        let topic = topic.ok_or_else(|| Check::Registration.broken("a change of no topic"))?;
        let tp = TopicPartition::new(&topic.name, change.partition);
        let nowhere = || Check::Registration.broken(format!("{tp}: a change of no partition"));
        let before = self.image.partition(&tp).ok_or_else(nowhere)?.clone();
        self.image.replay(&MetadataRecord::PartitionChange(change.clone()));
        let after = self.image.partition(&tp).ok_or_else(nowhere)?;
        let verdict = check(after, self.image.elr_enabled())
            .and_then(|()| Check::Succession.verdict(fault_between(&before, after).map(str::to_string)));
        verdict.map_err(|broken| broken.at(format!("{tp}: from {before:?} to {after:?}")))?;
        let leader = *self.leaders.entry((tp.clone(), after.leader_epoch)).or_insert(after.leader);
        if leader != after.leader {
            let epoch = after.leader_epoch;
            let fault = format!("{tp}: {leader} and {} lead in epoch {epoch}", after.leader);
            return Err(Check::Succession.broken(fault));
        }
        let newly = after.leader.is_some() && after.leader_epoch > before.leader_epoch;
        let forgot = self.moved_away.contains(&(tp.clone(), after.leader));
        if newly && (forgot || after.recovery == RecoveryState::Recovering) {
            news.push(News::Unclean(tp.clone(), after.leader));
        }
        for id in after.elr.iter().filter(|id| !after.replicas.contains(id)) {
            self.moved_away.insert((tp.clone(), *id));
        }
        self.moved_away.retain(|(other, id)| *other != tp || after.elr.contains(id));
        news.push(News::Changed(tp));
        Ok(())
    }

    /// R-REPL-56: a broker that comes back is in no in-sync set; one that had stopped without warning is in no ELR either.
    fn registered(&mut self, record: &RegisterBroker, news: &mut Vec<News>) -> Verdict {
        let broker = record.broker;
        let is_distrusted = self.distrusted.contains(&record.incarnation);
        if is_distrusted {
            news.push(News::BeganAnew(broker));
        }
        let unclean = is_distrusted && self.image.elr_enabled();
        for (tp, partition) in self.image.partitions() {
            if record.fenced && partition.isr.contains(&broker) && (unclean || partition.isr.len() > 1) {
                let fault = format!("{tp}: broker {broker} registers and is in sync");
                return Err(Check::ComesBack.broken(fault));
            }
            if unclean && record.fenced && partition.elr.contains(&broker) {
                let fault = format!("{tp}: broker {broker} stopped without warning and is eligible");
                return Err(Check::ComesBack.broken(fault));
            }
        }
        Ok(())
    }
}

/// R-REPL-1, 40, 45, 47: what a registration looks like.
fn check(partition: &PartitionRegistration, elr_enabled: bool) -> Verdict {
    let distinct = |ids: &[BrokerId]| ids.iter().enumerate().all(|(place, id)| !ids[..place].contains(id));
    let PartitionRegistration { replicas, isr, elr, leader, .. } = partition;
    if !elr_enabled && (isr.is_empty() || !elr.is_empty()) {
        return Err(Check::EmptyIsr.broken(format!("in sync are {isr:?}, eligible {elr:?}, without ELR")));
    }
    let fault = if replicas.is_empty() || [replicas, isr, elr].iter().any(|ids| !distinct(ids)) {
        Some("no replicas, or one that is named twice")
    // A reassignment to less than min.insync.replicas leaves the old replicas in the ELR, from which nobody elects them
    // (`PartitionChangeBuilder.maybePopulateTargetElr`).
    } else if isr.iter().any(|id| !replicas.contains(id)) {
        Some("somebody is in sync and no replica")
    } else if elr.iter().any(|id| isr.contains(id)) {
        Some("somebody is in sync and eligible")
    } else if leader.is_some() && !isr.contains(leader) {
        Some("the leader is not in sync")
    } else {
        None
    };
    Check::Registration.verdict(fault.map(str::to_string))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::PartitionEpoch;

    fn registration(isr: &[i32], elr: &[i32]) -> PartitionRegistration {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        PartitionRegistration {
            replicas: ids(&[1, 2, 3]),
            isr: ids(isr),
            elr: ids(elr),
            last_known_elr: Vec::new(),
            removing: Vec::new(),
            adding: Vec::new(),
            leader: isr.first().map_or(BrokerId::NONE, |id| BrokerId(*id)),
            recovery: RecoveryState::Recovered,
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(1),
        }
    }

    #[test]
    fn an_in_sync_set_is_empty_only_with_eligible_leader_replicas_r_repl_47() {
        let found = |isr: &[i32], elr: &[i32], elr_enabled| {
            check(&registration(isr, elr), elr_enabled).err().map(|broken| broken.check)
        };
        assert_eq!(found(&[], &[], true), None);
        assert_eq!(found(&[], &[], false), Some(Check::EmptyIsr));
        assert_eq!(found(&[1], &[2], true), None);
        assert_eq!(found(&[1], &[2], false), Some(Check::EmptyIsr));
        assert_eq!(found(&[1], &[1], true), Some(Check::Registration), "R-REPL-45");
    }

    #[test]
    fn the_least_min_isr_is_that_of_all_that_was_replayed_r_repl_13() {
        let topic = Topic::new("t");
        let min_isrs =
            BTreeMap::from([(topic.clone(), vec![(Offset(4), 2), (Offset(8), 3), (Offset(9), 1)])]);
        let watch = MetadataWatch { min_isrs, ..MetadataWatch::default() };
        let least = |from, to| watch.least_min_isr(&topic, Offset(from), Offset(to));
        assert_eq!((least(5, 5), least(5, 8), least(9, 9)), (2, 2, 3));
        assert_eq!((least(5, 9), least(9, 10), least(0, 3)), (2, 1, 1));
    }

    #[test]
    fn who_leads_in_all_of_some_epochs_has_cut_nothing_from_its_log() {
        let mut watch = MetadataWatch::default();
        let tp = TopicPartition::new(&"t".into(), 0);
        for (epoch, leader) in [(1, 1), (2, 1), (3, 2)] {
            watch.leaders.insert((tp.clone(), LeaderEpoch(epoch)), BrokerId(leader));
        }
        let throughout = |from, to| watch.leads_throughout(&tp, LeaderEpoch(from), LeaderEpoch(to));
        assert!(throughout(1, 2) && throughout(3, 3));
        assert!(!throughout(1, 3) && !throughout(4, 4));
    }
}
