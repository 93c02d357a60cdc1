//! What a broker does to its logs by the clock: retention, and forgetting of silent producers.
//!
//! Mirrors the scheduled tasks of `LogManager` (R-LOG-31 to 36, R-PROD-28). The compacted logs are the cleaner's.

use std::rc::Rc;

use super::manager::{ReplicaManager, Step};
use crate::kafka::event::{Event, LogStartReason};
use crate::kafka::log::{Deleted, DeletionReason};
use crate::kafka::types::{Offset, TopicPartition};

impl ReplicaManager {
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

    /// R-PROD-28.
    pub fn remove_expired_producers(&mut self, step: &mut Step<'_>) {
        let (now, expiration_ms) = (step.now, self.config.producer_id_expiration_ms);
        for partition in self.partitions.values_mut() {
            if partition.log.has_expired_producers(now, expiration_ms) {
                Rc::make_mut(partition).log.remove_expired_producers(now, expiration_ms);
            }
        }
    }
}
