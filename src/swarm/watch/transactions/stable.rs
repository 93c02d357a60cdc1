//! Each replica's last stable offset (R-TXN-23).

use super::TransactionWatch;
use crate::kafka::replication::Partition;
use crate::kafka::types::{BrokerId, LeaderEpoch, NodeId, Offset, TopicId};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};
use crate::swarm::counts::Counts;

/// A replica's last stable offset as it was seen last, in one life of its broker and in one leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StableLife {
    topic_id: TopicId,
    incarnation: u32,
    leader_epoch: LeaderEpoch,
    /// Of a leader.
    stable: Option<Offset>,
    /// Where the log ended when the process began, or was cut back last.
    began_at: Offset,
    log_end: Offset,
}

impl StableLife {
    fn is_of_life(&self, other: &StableLife) -> bool {
        (self.topic_id, self.incarnation) == (other.topic_id, other.incarnation)
    }

    /// Within a leadership it never falls: what opens behind it begins at the log's end.
    fn check_after(&self, before: &StableLife) -> Verdict {
        let leads_on = self.is_of_life(before) && self.leader_epoch == before.leader_epoch;
        match (before.stable, self.stable) {
            (Some(before), Some(now)) if leads_on && now < before => {
                let fault = format!("its last stable offset was {before} in this leadership and is {now}");
                Err(Check::StableOffset.broken(fault))
            }
            _ => Ok(()),
        }
    }
}

impl TransactionWatch {
    /// R-TXN-23: it is the high watermark, or the first offset of what is open or ended behind that.
    ///
    /// A process that begins, and one that cuts its log back, goes by a snapshot, which knows open transactions alone, and
    /// by what stands behind that: what had ended before, and behind the high watermark, is forgotten
    /// (`ProducerStateManager.truncateAndReload`, `loadFromSnapshot`).
    pub(super) fn check_stable(
        &mut self,
        world: &World,
        broker: BrokerId,
        partition: &Partition,
        counts: &mut Counts,
    ) -> Verdict {
        let (tp, log) = (&partition.tp, &partition.log);
        let Some(reading) = self.readings.get(tp) else { return Ok(()) };
        let (mark, stable, log_end) = (log.high_watermark(), log.last_stable_offset(), log.log_end_offset());
        let incarnation = world.process(NodeId::Broker(broker)).map_or(0, |process| process.incarnation);
        let key = (broker, tp.clone());
        let before = self.lives.get(&key);
        let mut life = StableLife {
            topic_id: partition.topic_id,
            incarnation,
            leader_epoch: partition.leader_epoch,
            stable: partition.is_leader().then_some(stable),
            began_at: log_end,
            log_end,
        };
        if let Some(before) = before.filter(|before| life.is_of_life(before) && before.log_end <= log_end) {
            life.began_at = before.began_at;
        }
        let place = || format!("{tp} on broker {broker}");
        before.map_or(Ok(()), |before| life.check_after(before)).map_err(|broken| broken.at(place()))?;
        self.lives.insert(key, life);
        if mark > reading.next() {
            return Ok(());
        }
        counts.stable_offsets_checked += 1;
        // A follower that comes later never sees what its leader has cleaned away by then.
        let holds =
            |base: Offset| log.batches_from(base).next().is_some_and(|batch| batch.base_offset() == base);
        let (least, most) = reading.stable_end(mark, log.log_start_offset(), life.began_at, holds);
        if (least..=most).contains(&stable) {
            return Ok(());
        }
        let fault = format!(
            "its last stable offset is {stable}; with a high watermark of {mark} it is to be {least} to {most}"
        );
        Err(Check::StableOffset.broken(fault).at(place()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_a_leadership_the_stable_offset_never_falls_r_txn_23() {
        let life = |incarnation, epoch, stable: Option<i64>| StableLife {
            topic_id: TopicId::default(),
            incarnation,
            leader_epoch: LeaderEpoch(epoch),
            stable: stable.map(Offset),
            began_at: Offset::ZERO,
            log_end: Offset::ZERO,
        };
        let found = |before: StableLife, now: StableLife| now.check_after(&before).err().map(|b| b.check);
        assert_eq!(found(life(1, 4, Some(9)), life(1, 4, Some(8))), Some(Check::StableOffset));
        assert_eq!(found(life(1, 4, Some(9)), life(1, 4, Some(9))), None);
        assert_eq!(found(life(1, 4, Some(9)), life(1, 5, Some(8))), None, "another leadership");
        assert_eq!(found(life(1, 4, Some(9)), life(2, 4, Some(8))), None, "another life");
    }
}
