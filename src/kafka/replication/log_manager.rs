//! What a broker does to its logs when it starts, by the clock, and when it ends: loading, retention, flushing, the
//! checkpoints of their bounds, forgetting of silent producers.
//!
//! Mirrors `LogManager` (R-LOG-31 to 36), and `UnifiedLog` in when producers are looked for (R-PROD-28). The compacted logs are the cleaner's.

use std::rc::Rc;

use super::manager::{ReplicaManager, Step};
use super::partition::Partition;
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::event::{Event, LogStartReason};
use crate::kafka::log::{Deleted, DeletionReason, LogConfig};
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, TopicPartition};

impl ReplicaManager {
    /// Reads what the disk holds (`LogManager.loadLogs`); `clean`: the clean-shutdown file was there.
    pub fn load_logs(&mut self, clean: bool, step: &mut Step<'_>) {
        let config = LogConfig {
            producer_id_expiration_ms: self.config.producer_id_expiration_ms,
            ..LogConfig::default()
        };
        let (mut logs, mut segments) = (0, 0);
        for (tp, partition) in self.partitions.iter_mut() {
            let found = self.checkpoints.of(tp, clean);
            segments += Rc::make_mut(partition).log.load(step.now, found, &config);
            logs += 1;
        }
        let loaded: Vec<TopicPartition> = self.partitions.keys().cloned().collect();
        loaded.iter().for_each(|tp| self.schedule_producer_check(tp, step.now, step));
        if !clean && logs > 0 {
            step.fx.event(Event::LogsRecovered { broker: self.me, logs, segments });
        }
    }

    /// The flusher's pass (`flushDirtyLogs`).
    pub fn flush_old_logs(&mut self, step: &mut Step<'_>) {
        let is_due = |p: &&Rc<Partition>| p.log.is_flush_due(step.now, &p.config.log);
        let due: Vec<_> = self.partitions.values().filter(is_due).map(|p| p.tp.clone()).collect();
        for tp in due {
            if let Some(partition) = self.partitions.get_mut(&tp) {
                Rc::make_mut(partition).log.flush(step.now);
            }
        }
    }

    /// Notes how far the logs are on the disk.
    pub fn checkpoint_recovery_points(&mut self) {
        let points = self.partitions.values().map(|p| (p.tp.clone(), p.log.recovery_point()));
        self.checkpoints.recovery_points = points.collect();
    }

    /// Cuts a log where it has to end (R-LOG-51), and notes that less of it is on the disk now. Whether it became shorter.
    pub(super) fn truncate_log(&mut self, tp: &TopicPartition, to: Offset, now: Time) -> bool {
        let Some(partition) = self.edit(tp) else { return false };
        let config = partition.config.clone();
        let is_shorter = partition.log.truncate_to(now, to, &config.log);
        if is_shorter {
            self.on_truncated(tp);
        }
        is_shorter
    }

    /// Drops everything of a log, which then begins where it is told (R-REPL-37).
    pub(super) fn truncate_log_fully(&mut self, tp: &TopicPartition, start: Offset, now: Time) {
        let Some(partition) = self.edit(tp) else { return };
        partition.log.truncate_fully_and_start_at(now, start);
        self.on_truncated(tp);
    }

    fn on_truncated(&mut self, tp: &TopicPartition) {
        if let Some(partition) = self.partitions.get(tp) {
            self.cleaner.on_truncated(tp, &partition.log);
        }
        self.checkpoint_recovery_points();
    }

    /// Notes where the logs begin that begin within a segment.
    pub fn checkpoint_log_starts(&mut self) {
        let starts = self.partitions.values().filter_map(|partition| {
            let log = &partition.log;
            let first = log.segments().next().map(|segment| segment.base_offset())?;
            (log.log_start_offset() > first).then(|| (partition.tp.clone(), log.log_start_offset()))
        });
        self.checkpoints.log_starts = starts.collect();
    }

    /// Everything is written to the disk, as the broker is about to end in order.
    pub fn close_logs(&mut self, now: Time) {
        for (_, partition) in self.partitions.iter_mut() {
            Rc::make_mut(partition).log.flush_all(now);
        }
        self.checkpoint();
        self.checkpoint_recovery_points();
        self.checkpoint_log_starts();
    }

    /// One pass of retention over the logs that are not compacted (`cleanupLogs`).
    pub fn check_retention(&mut self, step: &mut Step<'_>) {
        let deletable: Vec<TopicPartition> = self
            .partitions
            .values()
            .filter(|partition| !partition.config.log.compacted)
            .map(|partition| partition.tp.clone())
            .collect();
        deletable.iter().for_each(|tp| self.delete_old_segments(tp, step));
    }

    /// R-LOG-31. A log that has nothing to delete is left untouched, so that it stays shared.
    pub(super) fn delete_old_segments(&mut self, tp: &TopicPartition, step: &mut Step<'_>) {
        let broker = self.me;
        let Some(partition) = self.partitions.get(tp) else { return };
        let mut log = partition.log.clone();
        let deleted = log.delete_old_segments(step.now, &partition.config.log);
        if deleted.is_empty() {
            return;
        }
        let mut from = partition.log.log_start_offset();
        let leader = partition.is_leader();
        for Deleted { reason, segments, log_start_offset: to } in deleted {
            let reason = match reason {
                DeletionReason::LogStartOffset => None,
                DeletionReason::RetentionSize => {
                    Some(LogStartReason::Size { retention_bytes: partition.config.log.retention_bytes })
                }
                DeletionReason::RetentionTime => {
                    Some(LogStartReason::Time { retention_ms: partition.config.log.retention_ms })
                }
            };
            let tp = tp.clone();
            step.fx.event(match reason {
                Some(reason) => {
                    let from = std::mem::replace(&mut from, to);
                    Event::LogStartMoved { broker, tp, leader, from, to, reason }
                }
                None => Event::SegmentsDeleted { broker, tp, leader, segments, log_start_offset: to },
            });
        }
        if let Some(partition) = self.edit(tp) {
            partition.log = log;
        }
    }

    /// R-LOG-36: what the leader has dropped its followers drop too. Whether the leader's log start can be taken over.
    pub(super) fn follow_log_start(&mut self, tp: &TopicPartition, to: Offset, step: &mut Step<'_>) -> bool {
        let broker = self.me;
        let Some(log) = self.partitions.get(tp).map(|partition| &partition.log) else { return false };
        let from = log.log_start_offset();
        if to <= from {
            return true;
        }
        if to > log.high_watermark() {
            return false;
        }
        if let Some(partition) = self.edit(tp) {
            partition.log.maybe_increment_log_start_offset(to);
        }
        let (tp, reason) = (tp.clone(), LogStartReason::Leader);
        step.fx.event(Event::LogStartMoved { broker, tp, leader: false, from, to, reason });
        true
    }

    /// Of a log that was just made or loaded, or was checked at `from`: it is checked an interval later.
    pub(super) fn schedule_producer_check(&mut self, tp: &TopicPartition, from: Time, step: &mut Step<'_>) {
        let interval_ms = self.config.producer_id_expiration_check_interval_ms;
        let passed = step.now.ms_since(from) / interval_ms;
        let next = from.plus_ms((passed + 1) * interval_ms);
        if Rc::make_mut(&mut self.producer_checks).schedule(tp, next) {
            step.fx.set_timer(BrokerTimer::ExpireProducers, next);
        }
    }

    /// Looks through the logs that are due (R-PROD-28).
    pub fn remove_expired_producers(&mut self, step: &mut Step<'_>) {
        let (now, expiration_ms) = (step.now, self.config.producer_id_expiration_ms);
        for (at, tp) in self.producer_checks.due(now) {
            let log = self.partitions.get(&tp).map(|partition| &partition.log);
            if log.is_some_and(|log| log.has_expired_producers(now, expiration_ms))
                && let Some(partition) = self.partitions.get_mut(&tp)
            {
                Rc::make_mut(partition).log.remove_expired_producers(now, expiration_ms);
            }
            self.schedule_producer_check(&tp, at, step);
        }
        if let Some(next) = self.producer_checks.first() {
            step.fx.set_timer(BrokerTimer::ExpireProducers, next);
        }
    }
}
