//! What excuses a lost record, and how much of what was committed still holds.
//!
//! A disk that lost something excuses nothing by itself: Kafka writes to its disk in its own time and counts on the other
//! replicas. It does when its broker leads, because the controller took it for what it was: before it has registered, or
//! without eligible leader replicas as the last one in sync (R-REPL-47, 56). An unclean election does too (R-REPL-43, 46), and
//! so does an eligible replica that was passed over by a leader which had not heard of a higher min.insync.replicas.
//!
//! **Invariant:** what the one who leads has of the committed records stays committed.

use super::metadata::MetadataWatch;
use super::partition::{PartitionWatch, Robbed, is_settled};
use super::{Watch, sight};
use crate::kafka::replication::Partition;
use crate::kafka::replication::isr::IsrState;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Broken, Verdict};

impl Watch {
    /// A disk lost what was not flushed, or everything.
    pub(super) fn on_loss(&mut self, broker: BrokerId) {
        self.metadata.on_kill(broker);
        let image = &self.metadata.image;
        for (tp, watch) in &mut self.partitions {
            let Some(registration) = image.partition(tp) else { continue };
            if registration.replicas.contains(&broker) || registration.elr.contains(&broker) {
                watch.robbed.insert(broker, Robbed::Unnoticed);
            }
        }
    }

    /// A broker that lost something has registered. Without eligible leader replicas the last one in sync stays in sync, and
    /// what only this one had is gone unnoticed (R-REPL-47).
    pub(super) fn on_registration_after_loss(&mut self, broker: BrokerId) {
        let image = &self.metadata.image;
        for (tp, watch) in &mut self.partitions {
            let is_in_sync = image.partition(tp).is_some_and(|partition| partition.isr.contains(&broker));
            if let Some(robbed) = watch.robbed.get_mut(&broker).filter(|_| !is_in_sync) {
                *robbed = Robbed::Noticed;
            }
        }
    }

    /// Who does not get what a leader commits, although the controller counts it as in sync or eligible.
    ///
    /// A leader takes up new configs after its partitions, and goes by its file until then
    /// (`BrokerMetadataPublisher.onMetadataUpdate`): with a smaller in-sync set than is asked for it still commits. And a
    /// registration that is as new as the last answer replaces the set that the leader has asked for since
    /// (`Partition.makeLeader`), so it does not wait for who is about to join.
    pub(super) fn note_passed_over(&mut self, tp: &TopicPartition, isr: &IsrState) {
        let needed = self.metadata.newest_min_isr(&tp.topic);
        let (Some(watch), Some(registration)) =
            (self.partitions.get_mut(tp), self.metadata.image.partition(tp))
        else {
            return;
        };
        let is_small = (isr.committed().len() as i32) < needed.min(registration.replicas.len() as i32);
        let eligible = registration.elr.iter().filter(|_| is_small);
        let joining = registration.isr.iter().filter(|_| !isr.is_in_flight());
        for id in eligible.chain(joining).filter(|id| !isr.committed().contains(id)) {
            watch.robbed.entry(*id).or_insert(Robbed::PassedOver);
        }
    }

    /// Somebody was elected who may lack committed records, and has what is on its disk or in its process.
    pub(super) fn on_unclean_election(&mut self, world: &World, tp: &TopicPartition, leader: BrokerId) {
        let Some(watch) = self.partitions.get_mut(tp) else { return };
        let log = sight::log(world, leader, tp).filter(|(topic, _)| *topic == watch.topic_id);
        watch.tear(log.map(|(_, log)| log));
    }

    /// After an unclean election the leader that was, if it does not know, still takes for committed what it writes alone.
    pub(super) fn note_deposed(&mut self, world: &World, leader: BrokerId, tp: &TopicPartition, to: Offset) {
        let Some(watch) = self.partitions.get_mut(tp) else { return };
        let epoch = sight::replica(world, leader, tp).map(|partition| partition.leader_epoch);
        if epoch.is_some_and(|epoch| epoch < watch.since_epoch) {
            watch.deposed_end = watch.deposed_end.max(to);
        }
    }

    /// After a loss: when every replica follows the one leader again, what that has is what counts.
    pub(super) fn settle(&mut self, world: &World, tp: &TopicPartition) -> Verdict {
        let (Some(watch), Some(registration)) =
            (self.partitions.get_mut(tp), self.metadata.image.partition(tp))
        else {
            return Ok(());
        };
        if !watch.is_torn || watch.has_unnoticed() || !is_settled(world, tp, registration) {
            return Ok(());
        }
        let Some(leader) = sight::replica(world, registration.leader, tp) else { return Ok(()) };
        let forgotten_before_ms = sight::forgotten_before_ms(world, registration.leader, leader);
        watch.history.resume(&leader.log, forgotten_before_ms).map_err(|broken| broken.at(tp))?;
        watch.is_torn = false;
        watch.since = world.now();
        watch.since_epoch = registration.leader_epoch;
        watch.compared.clear();
        Ok(())
    }
}

impl PartitionWatch {
    /// A leader whose disk lost something, and who leads all the same: the others are to throw away what it has lost. What it
    /// still has is a part of what was committed. How much was compared.
    ///
    /// A broker takes up what the metadata log says of its earlier life before it registers (`BrokerServer.startup`): until
    /// then it leads again as nobody else may, with what its disk kept. What it writes then is of the epoch in which it wrote
    /// what it lost, and a follower's fetch tells only epochs (R-REPL-8): who has the one keeps it under the other.
    pub(super) fn note_robbed_leader(
        &mut self,
        world: &World,
        metadata: &MetadataWatch,
        broker: BrokerId,
        leader: &Partition,
    ) -> Result<u64, Broken> {
        let newest = metadata.image.partition(&leader.tp).map(|registration| registration.leader_epoch);
        if newest.is_none_or(|newest| leader.leader_epoch < newest) {
            return Ok(0);
        }
        let compared = self.history.compare(&leader.log, Offset::ZERO, leader.log.log_end_offset())?;
        self.tear(Some(&leader.log));
        let registered = metadata.image.brokers.get(&broker).map(|broker| broker.incarnation);
        let is_registered = world.broker(broker).map(|broker| broker.incarnation()) == registered;
        match leader.leader() {
            Some(leadership) if !is_registered => {
                self.history.note_led_twice(leader.leader_epoch, leadership.epoch_start_offset);
            }
            _ => {}
        }
        if is_registered {
            self.robbed.remove(&broker);
        }
        Ok(compared)
    }

    /// Whether somebody may still lead who lost something.
    fn has_unnoticed(&self) -> bool {
        self.robbed.values().any(|robbed| *robbed == Robbed::Unnoticed)
    }

    /// Whether a replica in this epoch has yet to hear of the loss before, and is not held to what holds since.
    pub(super) fn is_behind(&self, epoch: LeaderEpoch) -> bool {
        epoch < self.since_epoch
    }
}
