//! What becomes committed: who has to have it, and has it.

use super::{Watch, compared_of, sight};
use crate::kafka::log::Log;
use crate::kafka::types::{BrokerId, NodeId, Offset, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

impl Watch {
    /// R-REPL-12, 13: what a leader takes for committed, every member of its in-sync set has, and as many replicas as
    /// min.insync.replicas asks for.
    pub(super) fn check_advanced(
        &mut self,
        world: &World,
        leader: BrokerId,
        tp: &TopicPartition,
        from: Offset,
        to: Offset,
    ) -> Verdict {
        let Some(watch) = self.partitions.get(tp).filter(|watch| !watch.is_torn) else { return Ok(()) };
        let Some(partition) = sight::replica(world, leader, tp) else { return Ok(()) };
        let Some(leadership) = partition.leader() else { return Ok(()) };
        // One that was deposed while it stood still hears now of what others had then.
        let newest = self.metadata.image.partition(tp).map(|registration| registration.leader_epoch);
        if Some(partition.leader_epoch) < newest || watch.topic_id != partition.topic_id {
            return Ok(());
        }
        self.checks += 1;
        let has = |id: &BrokerId| {
            let log = sight::log(world, *id, tp).filter(|(topic, _)| *topic == watch.topic_id);
            let has_all =
                |log: &Log| log.log_end_offset() >= to && watch.history.compare(log, from, to).is_ok();
            watch.is_robbed(*id) || log.is_some_and(|(_, log)| has_all(log))
        };
        if let Some(id) = leadership.isr.committed().iter().find(|id| !has(id)) {
            let fault = format!("{tp}: {leader} commits {from} to {to}, which {id}, in sync, does not have");
            return Err(Check::InSync.broken(fault));
        }
        // A broker takes up new in-sync sets before the new configs that came with them
        // (`BrokerMetadataPublisher.onMetadataUpdate`).
        let (before, now) = self.lives.replayed(NodeId::Broker(leader));
        let mut min_isr = self.metadata.least_min_isr(&tp.topic, before, now);
        if before == Offset::ZERO {
            // One that has just started goes by its file until it has taken up its partitions.
            let config = self.metadata.image.topic_config(&tp.topic, world.broker_config());
            min_isr = min_isr.min(config.min_insync_replicas);
        }
        let needed = min_isr.min(partition.replicas.len() as i32);
        // A leader may not know yet that the partition moves to others.
        let brokers = world.config().brokers.iter().map(|(id, _)| id);
        let holders = brokers.filter(|id| has(id)).count() as i32;
        if holders < needed {
            let fault = format!(
                "{tp}: {leader} commits {from} to {to}, which {holders} brokers have; min.insync.replicas is {needed}"
            );
            return Err(Check::MinIsr.broken(fault));
        }
        let isr = leadership.isr.clone();
        self.note_passed_over(tp, &isr);
        Ok(())
    }

    /// R-REPL-12: every in-sync replica has everything that is committed.
    pub(super) fn check_in_sync(&mut self, world: &World, tp: &TopicPartition) -> Verdict {
        let (Some(watch), Some(registration)) = (self.partitions.get(tp), self.metadata.image.partition(tp))
        else {
            return Ok(());
        };
        // The topic may be another one of that name by now, of which the news comes next.
        let is_same = self.metadata.image.topic_name(watch.topic_id) == Some(&tp.topic);
        let end = watch.history.end();
        if end == Offset::ZERO || !is_same {
            return Ok(());
        }
        self.checks += 1;
        let start = sight::leaders_start(world, registration.leader, tp).max(watch.untold_below);
        for id in registration.isr.iter().filter(|id| !watch.is_robbed(**id)) {
            let place = || format!("{tp}: in-sync broker {id}");
            let log = sight::log(world, *id, tp).filter(|(topic, _)| *topic == watch.topic_id);
            let Some((_, log)) = log else {
                return Err(Check::InSync.broken("has no replica").at(place()));
            };
            let own_end = log.log_end_offset();
            if own_end < end {
                let fault = format!("ends at {own_end}, committed is what is below {end}");
                return Err(Check::InSync.broken(fault).at(place()));
            }
            let from = watch.compared.get(id).copied().unwrap_or(Offset::ZERO).max(start);
            let compared = watch.history.compare(log, from, end).map_err(|broken| broken.at(place()))?;
            *compared_of(&mut self.counts, &watch.history) += compared;
        }
        Ok(())
    }
}
