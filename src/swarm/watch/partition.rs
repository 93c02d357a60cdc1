//! One partition as it was seen up to now, and what holds of its replicas by themselves.
//!
//! **Invariant:** what is not known since a loss is not held against anybody.

use std::collections::BTreeMap;

use super::history::History;
use super::lives::ReplicaLife;
use super::sight;
use crate::kafka::controller::image::PartitionRegistration;
use crate::kafka::log::Log;
use crate::kafka::protocol::metadata_records::RecoveryState;
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

/// One partition as it was seen up to now.
pub struct PartitionWatch {
    pub topic_id: TopicId,
    /// A topic of this name that was deleted is another one.
    pub made_at: Time,
    pub history: History,
    /// Somebody leads, or did, who may lack committed records, and the replicas do not all follow one leader yet. What the
    /// history has left is still held to; what is newer is not known.
    pub is_torn: bool,
    /// Brokers that may lack committed records which somebody takes them to have.
    pub robbed: BTreeMap<BrokerId, Robbed>,
    /// What is here was committed after this moment or under a clean succession of leaders.
    pub since: Time,
    /// The leader epoch of that moment. Who has not heard of it is no replica, or has yet to follow.
    pub since_epoch: LeaderEpoch,
    /// How far a leader that was deposed before that moment has come by itself.
    pub deposed_end: Offset,
    /// Who leads in which epoch, as the brokers themselves think.
    pub leaders: BTreeMap<LeaderEpoch, BrokerId>,
    /// Each replica as it was seen last.
    pub lives: BTreeMap<BrokerId, ReplicaLife>,
    /// Below it some leader did not know its epochs: a replica may keep what it wrote there as a deposed leader, and pass it on
    /// as a leader that does know them (see [`sight::untold_below`]).
    pub untold_below: Offset,
    /// Up to where each replica was compared with the history.
    pub compared: BTreeMap<BrokerId, Offset>,
}

/// Who knows that a replica lacks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Robbed {
    /// Nobody: the controller takes the broker for what it was, and it may lead.
    Unnoticed,
    /// The controller: it has to catch up before it is in sync again.
    Noticed,
    /// Nothing of it was lost: a leader that does not know the newest configs or in-sync set committed without it, while
    /// the controller, who does, counts it as in sync or eligible. It may lead.
    PassedOver,
}

impl PartitionWatch {
    /// A partition that has just been made.
    pub fn new(topic_id: TopicId, made_at: Time, is_compacted: bool) -> PartitionWatch {
        PartitionWatch {
            topic_id,
            made_at,
            history: History::new(is_compacted),
            is_torn: false,
            robbed: BTreeMap::new(),
            since: Time::ZERO,
            since_epoch: LeaderEpoch::NONE,
            deposed_end: Offset::ZERO,
            leaders: BTreeMap::new(),
            lives: BTreeMap::new(),
            untold_below: Offset::ZERO,
            compared: BTreeMap::new(),
        }
    }

    /// Somebody leads who may lack what is not in `log`.
    pub fn tear(&mut self, log: Option<&Log>) {
        let kept = log.map_or(Offset::ZERO, |log| self.history.agreement(log));
        self.history.cut(kept, log);
        self.compared.values_mut().for_each(|compared| *compared = kept.min(*compared));
        self.is_torn = true;
    }

    /// Whether the broker may lack what an in-sync replica has.
    pub fn is_robbed(&self, broker: BrokerId) -> bool {
        self.robbed.contains_key(&broker)
    }

    /// Whether the broker may lack it and lead.
    pub fn may_lead_robbed(&self, broker: BrokerId) -> bool {
        self.robbed.get(&broker).is_some_and(|robbed| *robbed != Robbed::Noticed)
    }

    /// Who is in sync after the controller had known of a loss, or under another leader, has caught up.
    pub fn note_in_sync(&mut self, isr: &[BrokerId], leader: BrokerId) {
        self.robbed.retain(|id, robbed| match robbed {
            Robbed::Unnoticed => true,
            Robbed::Noticed => !isr.contains(id),
            Robbed::PassedOver => !isr.contains(id) || *id == leader,
        });
    }
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
pub fn check(partition: &Partition) -> Verdict {
    let log = &partition.log;
    let (start, stable, mark, end) =
        (log.log_start_offset(), log.last_stable_offset(), log.high_watermark(), log.log_end_offset());
    if start > mark || stable > mark || mark > end {
        let fault =
            format!("log start {start}, last stable offset {stable}, high watermark {mark}, log end {end}");
        return Err(Check::LogBounds.broken(fault));
    }
    let latest = log.latest_epoch().unwrap_or(LeaderEpoch::NONE);
    if partition.is_leader() && latest > partition.leader_epoch {
        let fault = format!("leads in epoch {}, and has records of {latest}", partition.leader_epoch);
        return Err(Check::BatchEpochs.broken(fault));
    }
    Ok(())
}

/// R-REPL-6: what was written at `from` is of no earlier epoch than what stands before it, nor of a later one than the
/// replica's own; what a leader wrote `as_leader` is of the epoch that it led then.
pub fn check_written(partition: &Partition, from: Offset, as_leader: Option<LeaderEpoch>) -> Verdict {
    let log = &partition.log;
    let epoch_at = |offset: Offset| log.batches_from(offset).next().map(|batch| batch.leader_epoch());
    let (Some(written), own) = (epoch_at(from), as_leader.unwrap_or(partition.leader_epoch)) else {
        return Ok(());
    };
    let is_first = from <= log.log_start_offset();
    let before = epoch_at(from + -1).filter(|_| !is_first).unwrap_or(LeaderEpoch::NONE);
    if before <= written && written <= own && (written == own || as_leader.is_none()) {
        return Ok(());
    }
    let fault = format!("a batch of epoch {written} was written at {from}, behind {before}, in epoch {own}");
    Err(Check::BatchEpochs.broken(fault))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::kafka::log::{LogConfig, Origin};
    use crate::kafka::record::{BatchBuilder, NewRecord};
    use crate::kafka::replication::Role;

    const BROKER: BrokerId = BrokerId(1);

    #[test]
    fn a_batch_is_of_no_earlier_epoch_than_what_is_before_it_nor_of_a_later_one_than_the_replica_r_repl_6() {
        let tp = TopicPartition::new(&"t".into(), 0);
        let mut partition = Partition::new(tp, TopicId::default(), Log::new(), Rc::default());
        partition.role = Role::Follower { leader: BrokerId(2) };
        let mut write = |epoch, own| {
            let mut batch = BatchBuilder::new();
            batch.append(&NewRecord { value: Some(b"a"), ..NewRecord::default() });
            let (bytes, config) = (batch.finish(None).into_bytes(), LogConfig::default());
            let (from, epoch) = (partition.log.log_end_offset(), LeaderEpoch(epoch));
            let log = &mut partition.log;
            log.append_as_leader(Time::ZERO, bytes, epoch, Origin::Client, &config).expect("a sound batch");
            partition.leader_epoch = LeaderEpoch(own);
            let as_leader = check_written(&partition, from, Some(partition.leader_epoch)).is_ok();
            assert_eq!(as_leader, epoch == partition.leader_epoch, "a leader writes in its epoch");
            check_written(&partition, from, None).map_err(|broken| broken.check)
        };
        assert_eq!(write(3, 3), Ok(()));
        assert_eq!(write(3, 5), Ok(()), "a follower is brought up to the present");
        assert_eq!(write(5, 4), Err(Check::BatchEpochs));
        assert_eq!(write(4, 5), Err(Check::BatchEpochs), "behind a batch of epoch 5");
    }

    #[test]
    fn a_robbed_broker_has_caught_up_when_it_is_in_sync_again_after_the_controller_knew() {
        let mut watch = PartitionWatch::new(TopicId::default(), Time::ZERO, false);
        watch.robbed.insert(BROKER, Robbed::Unnoticed);
        watch.note_in_sync(&[BROKER], BrokerId(2));
        assert!(watch.may_lead_robbed(BROKER), "the leader asked for it before it lost anything (R-REPL-24)");
        watch.robbed.insert(BROKER, Robbed::Noticed);
        watch.note_in_sync(&[], BrokerId(2));
        assert!(watch.is_robbed(BROKER) && !watch.may_lead_robbed(BROKER));
        watch.note_in_sync(&[BROKER], BrokerId(2));
        assert!(!watch.is_robbed(BROKER));
    }

    #[test]
    fn an_eligible_replica_that_was_passed_over_may_lead_and_has_caught_up_once_it_is_in_sync_under_another()
    {
        let mut watch = PartitionWatch::new(TopicId::default(), Time::ZERO, false);
        watch.robbed.insert(BROKER, Robbed::PassedOver);
        watch.note_in_sync(&[BROKER], BROKER);
        assert!(watch.may_lead_robbed(BROKER));
        watch.note_in_sync(&[BROKER], BrokerId(2));
        assert!(!watch.is_robbed(BROKER));
    }
}
