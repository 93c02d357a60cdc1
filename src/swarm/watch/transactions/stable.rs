//! Each replica's last stable offset (R-TXN-23).

use std::collections::BTreeSet;

use super::TransactionWatch;
use super::reading::Known;
use crate::kafka::log::Log;
use crate::kafka::record::Batch;
use crate::kafka::replication::Partition;
use crate::kafka::types::{BrokerId, LeaderEpoch, NodeId, Offset, ProducerId, TopicId};
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
    high_watermark: Offset,
    /// The furthest high watermark of this process: what ended below it is forgotten, though a follower's may fall
    /// (`ProducerStateManager.onHighWatermarkUpdated`).
    furthest: Offset,
    /// The log was cut back, and what is open not looked for since.
    is_outdated: bool,
}

impl StableLife {
    fn is_of_life(&self, other: &StableLife) -> bool {
        (self.topic_id, self.incarnation) == (other.topic_id, other.incarnation)
    }

    /// As the replica goes on from how it was.
    ///
    /// It looks for what is open when its high watermark moves, its log start, or its log's end by an append, and not when it
    /// cuts its log back behind its high watermark (`UnifiedLog.truncateTo`).
    fn go_on(&mut self, before: &StableLife) {
        if !self.is_of_life(before) {
            return;
        }
        if before.log_end <= self.log_end {
            self.began_at = before.began_at;
        }
        self.furthest = self.furthest.max(before.furthest).min(self.log_end);
        let marks = (before.high_watermark, before.log_end);
        self.is_outdated = self.log_end < before.log_end
            || (before.is_outdated && marks == (self.high_watermark, self.log_end));
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

/// The producers that have a marker in `[from, to)`.
fn enders(log: &Log, from: Offset, to: Offset) -> BTreeSet<ProducerId> {
    let batches = log.batches_from(from).take_while(|batch| batch.base_offset() < to);
    batches.filter(|batch| batch.is_control()).map(Batch::producer_id).collect()
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
            high_watermark: mark,
            furthest: mark,
            is_outdated: false,
        };
        before.into_iter().for_each(|before| life.go_on(before));
        let (is_outdated, forgotten) = (life.is_outdated, life.began_at.max(life.furthest));
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
        let (log_start, enders) = (log.log_start_offset(), enders(log, mark, forgotten));
        let known = Known { high_watermark: mark, log_start, forgotten, enders: &enders };
        let (least, most) = reading.stable_end(&known, holds);
        let most = if is_outdated { mark } else { most };
        if (least..=most).contains(&stable) {
            return Ok(());
        }
        let fault = format!(
            "its last stable offset is {stable}; with a high watermark of {mark} and a log from {log_start} to {log_end} it is \
             to be {least} to {most}"
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
            high_watermark: Offset::ZERO,
            furthest: Offset::ZERO,
            is_outdated: false,
        };
        let found = |before: StableLife, now: StableLife| now.check_after(&before).err().map(|b| b.check);
        assert_eq!(found(life(1, 4, Some(9)), life(1, 4, Some(8))), Some(Check::StableOffset));
        assert_eq!(found(life(1, 4, Some(9)), life(1, 4, Some(9))), None);
        assert_eq!(found(life(1, 4, Some(9)), life(1, 5, Some(8))), None, "another leadership");
        assert_eq!(found(life(1, 4, Some(9)), life(2, 4, Some(8))), None, "another life");
    }

    #[test]
    fn a_log_that_was_cut_back_is_outdated_until_its_end_or_its_mark_moves_r_txn_23() {
        let life = |log_end: i64, mark: i64| StableLife {
            topic_id: TopicId::default(),
            incarnation: 1,
            leader_epoch: LeaderEpoch(4),
            stable: None,
            began_at: Offset(log_end),
            log_end: Offset(log_end),
            high_watermark: Offset(mark),
            furthest: Offset(mark),
            is_outdated: false,
        };
        let outdated = |lives: &[(i64, i64)]| {
            let mut lives = lives.iter().map(|(end, mark)| life(*end, *mark));
            let first = lives.next().expect("a life");
            let last = lives.fold(first, |before, mut now| {
                now.go_on(&before);
                now
            });
            (last.is_outdated, last.began_at.0, last.furthest.0)
        };
        assert_eq!(outdated(&[(9, 5), (9, 6)]), (false, 9, 6));
        assert_eq!(outdated(&[(9, 6), (9, 5)]), (false, 9, 6), "what ended below 6 is forgotten");
        assert_eq!(outdated(&[(9, 5), (7, 5)]), (true, 7, 5));
        assert_eq!(outdated(&[(9, 5), (7, 5), (7, 5)]), (true, 7, 5));
        assert_eq!(outdated(&[(9, 5), (7, 5), (8, 5)]), (false, 7, 5));
        assert_eq!(outdated(&[(9, 5), (7, 5), (7, 6)]), (false, 7, 6));
        assert_eq!(outdated(&[(9, 9), (7, 5)]), (true, 7, 7), "nothing ended behind the end");
    }
}
