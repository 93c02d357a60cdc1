//! Each replica by itself, against its leader, and against what is committed.

use super::lives::ReplicaLife;
use super::metadata::MetadataWatch;
use super::partition::{self, PartitionWatch};
use super::{Watch, compared_of, sight};
use crate::kafka::replication::{Partition, Role};
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};
use crate::sim::World;
use crate::swarm::check::{Broken, Check, Verdict};

impl Watch {
    /// One replica for itself, and against what is committed.
    pub(super) fn check_replica(&mut self, world: &World, broker: BrokerId, tp: &TopicPartition) -> Verdict {
        let Some(partition) = sight::replica(world, broker, tp) else { return Ok(()) };
        let Some(watch) = self.partitions.get_mut(tp) else { return Ok(()) };
        if watch.topic_id != partition.topic_id {
            return Ok(());
        }
        self.checks += 1;
        let compared = watch.check_replica(world, &self.metadata, broker, partition);
        let compared = compared.map_err(|broken| broken.at(format!("{tp} on broker {broker}")))?;
        *compared_of(&mut self.counts, &watch.history) += compared;
        self.transactions.follow(world, broker, partition, watch, &mut self.counts)
    }

    /// R-REPL-6: a leader writes in its epoch.
    pub(super) fn check_appended(
        &mut self,
        world: &World,
        broker: BrokerId,
        tp: &TopicPartition,
        offset: Offset,
        epoch: LeaderEpoch,
    ) -> Verdict {
        let Some(leader) = sight::replica(world, broker, tp) else { return Ok(()) };
        self.checks += 1;
        let verdict = partition::check_written(leader, offset, Some(epoch));
        verdict.map_err(|broken| broken.at(format!("{tp} on broker {broker}")))
    }

    /// R-REPL-6: who asked in an epoch and was answered, was answered by somebody who leads in it.
    pub(super) fn check_answered(&mut self, world: &World, broker: BrokerId, tp: &TopicPartition) -> Verdict {
        let Some(follower) = sight::replica(world, broker, tp) else { return Ok(()) };
        let Some(watch) = self.partitions.get(tp).filter(|watch| watch.topic_id == follower.topic_id) else {
            return Ok(());
        };
        self.checks += 1;
        let epoch = follower.leader_epoch;
        if watch.leaders.contains_key(&epoch) {
            return Ok(());
        }
        let fault =
            format!("{tp} on broker {broker}: heard its leader in epoch {epoch}, which nobody led yet");
        Err(Check::FollowerAppend.broken(fault))
    }

    /// R-REPL-6, 8: what a follower took in is what its leader of that epoch has.
    pub(super) fn check_replicated(
        &mut self,
        world: &World,
        broker: BrokerId,
        tp: &TopicPartition,
        from: Offset,
        to: Offset,
    ) -> Verdict {
        let Some(follower) = sight::replica(world, broker, tp) else { return Ok(()) };
        let place = format!("{tp} on broker {broker}");
        partition::check_written(follower, from, None).map_err(|broken| broken.at(&place))?;
        let Role::Follower { leader: id } = follower.role else { return Ok(()) };
        let Some(leader) = sight::replica(world, id, tp).filter(|leader| leader.is_leader()) else {
            return Ok(());
        };
        // A leader that lost something and leads again in its old epoch may have answered before.
        let is_torn = self.partitions.get(tp).is_none_or(|watch| watch.is_torn);
        let (epoch, newest) = (follower.leader_epoch, leader.leader_epoch);
        let has_cut_nothing = newest >= epoch && self.metadata.leads_throughout(tp, epoch, newest);
        let is_same_topic = leader.topic_id == follower.topic_id;
        if is_torn || !is_same_topic || !has_cut_nothing || leader.config.log.compacted {
            return Ok(());
        }
        self.checks += 1;
        let from = from.max(leader.log.log_start_offset());
        if sight::marks(&leader.log, from, to).eq(sight::marks(&follower.log, from, to)) {
            return Ok(());
        }
        let fault = format!("took in {from} to {to}, which is not what its leader {id} has there");
        Err(Check::FollowerAppend.broken(fault).at(&place))
    }
}

impl PartitionWatch {
    /// One replica for itself, and against what is committed. How much was compared.
    fn check_replica(
        &mut self,
        world: &World,
        metadata: &MetadataWatch,
        broker: BrokerId,
        partition: &Partition,
    ) -> Result<u64, Broken> {
        partition::check(partition)?;
        let life = ReplicaLife::of(world, broker, partition);
        self.lives.get(&broker).map_or(Ok(()), |before| life.check_after(before))?;
        self.lives.insert(broker, life);
        let mut compared = 0;
        if partition.is_leader() {
            self.check_leader(metadata, broker, partition)?;
            let untold = sight::untold_below(&partition.log).unwrap_or(Offset::ZERO);
            self.untold_below = self.untold_below.max(untold);
            if self.may_lead_robbed(broker) {
                compared += self.note_robbed_leader(world, metadata, broker, partition)?;
            }
        }
        let registered = metadata.image.partition(&partition.tp);
        let leader = registered.map_or(BrokerId::NONE, |registration| registration.leader);
        let start = sight::leaders_start(world, leader, &partition.tp).max(self.untold_below);
        let forgotten_before_ms = sight::forgotten_before_ms(world, broker, partition);
        Ok(compared + self.check_committed(broker, partition, start, forgotten_before_ms)?)
    }

    /// R-REPL-2: who leads, leads alone in its epoch, and the controller has said so.
    fn check_leader(&mut self, metadata: &MetadataWatch, broker: BrokerId, partition: &Partition) -> Verdict {
        let epoch = partition.leader_epoch;
        let fault = match self.leaders.get(&epoch) {
            Some(leader) if *leader == broker => return Ok(()),
            Some(leader) => format!("leads in epoch {epoch}, as {leader} does"),
            None => match metadata.leader(&partition.tp, epoch) {
                Some(leader) if leader == broker => {
                    self.leaders.insert(epoch, broker);
                    return Ok(());
                }
                named => format!("leads in epoch {epoch}, where {named:?} is to"),
            },
        };
        Err(Check::OneLeader.broken(fault))
    }

    fn check_committed(
        &mut self,
        broker: BrokerId,
        partition: &Partition,
        leaders_start: Offset,
        forgotten_before_ms: i64,
    ) -> Result<u64, Broken> {
        if self.is_behind(partition.leader_epoch) {
            return Ok(0);
        }
        let log = &partition.log;
        let to = log.high_watermark();
        if partition.is_leader() && !self.is_torn {
            self.history.extend(log, to, forgotten_before_ms)?;
        }
        let end = self.history.end();
        // A crash soon after a log was cut back behind its start: the checkpointed start is beyond its end, and
        // `LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd` begins it anew there.
        if log.log_start_offset() > end {
            self.is_torn = true;
            return Ok(0);
        }
        if to > end && !self.is_torn {
            let fault = format!("takes everything below {to} for committed; that is what is below {end}");
            return Err(Check::HighWatermark.broken(fault));
        }
        let to = to.min(end);
        let from = self.compared.get(&broker).copied().unwrap_or(Offset::ZERO).max(leaders_start);
        let compared = self.history.compare(log, from, to)?;
        self.compared.insert(broker, to);
        Ok(compared)
    }
}
