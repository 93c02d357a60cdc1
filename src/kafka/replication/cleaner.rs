//! The cleaner: one compacted log after the other, the one with the greatest share of new bytes first.
//!
//! Mirrors `LogCleaner` with one thread, and `LogCleanerManager` (R-LOG-38, 39, 47).
//!
//! **Invariant:** a checkpoint is where the last cleaning of a log ended, or an earlier offset.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::manager::{ReplicaManager, Step};
use crate::kafka::event::Event;
use crate::kafka::log::{Cleanable, Cleaned, Log};
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::record::BatchError;
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, TopicPartition};

#[derive(Clone, Debug, Default)]
pub struct LogCleaner {
    /// `cleaner-offset-checkpoint`: below it a log was cleaned.
    checkpoints: PartitionMap<TopicPartition, Offset>,
    /// Logs that could not be read; they are left alone.
    uncleanable: BTreeSet<TopicPartition>,
}

impl LogCleaner {
    pub fn new(checkpoints: PartitionMap<TopicPartition, Offset>) -> LogCleaner {
        LogCleaner { checkpoints, uncleanable: BTreeSet::new() }
    }

    pub fn into_checkpoints(self) -> PartitionMap<TopicPartition, Offset> {
        self.checkpoints
    }

    /// The log is gone, or it was cut to nothing.
    pub fn forget(&mut self, tp: &TopicPartition) {
        self.checkpoints.remove(tp);
        self.uncleanable.remove(tp);
    }

    /// The log was cut (`maybeTruncateCheckpoint`): what its active segment holds was never cleaned.
    pub fn on_truncated(&mut self, tp: &TopicPartition, log: &Log) {
        let active = log.segments().next_back().map_or(Offset::ZERO, |segment| segment.base_offset());
        if let Some(checkpoint) = self.checkpoints.get_mut(tp) {
            *checkpoint = active.min(*checkpoint);
        }
    }
}

impl ReplicaManager {
    /// A pass of the cleaner's thread: cleans one log, if there is one to be cleaned, and runs retention over all that are
    /// compacted. One that cannot be read ends the pass. Whether a log was cleaned.
    pub fn clean_filthiest_log(&mut self, step: &mut Step<'_>) -> bool {
        let found = self.filthiest_log(step.now);
        let is_found = found.is_some();
        if let Some((tp, cleanable)) = found
            && self.clean_log(&tp, cleanable, step).is_err()
        {
            self.cleaner.uncleanable.insert(tp);
            return false;
        }
        for tp in self.compacted() {
            self.delete_old_segments(&tp, step);
        }
        is_found
    }

    fn compacted(&self) -> Vec<TopicPartition> {
        let compacted = self.partitions.values().filter(|partition| {
            partition.config.log.compacted && !self.cleaner.uncleanable.contains(&partition.tp)
        });
        compacted.map(|partition| partition.tp.clone()).collect()
    }

    fn filthiest_log(&mut self, now: Time) -> Option<(TopicPartition, Cleanable)> {
        let mut filthiest: Option<(TopicPartition, Cleanable)> = None;
        for tp in self.compacted() {
            let Some(partition) = self.partitions.get(&tp) else { continue };
            let (log, config) = (&partition.log, &partition.config.log);
            let checkpoint = self.cleaner.checkpoints.get_mut(&tp);
            let cleanable = log.cleanable(checkpoint.as_deref().copied(), now, config);
            // One that lies outside of the log is corrected.
            if let Some(checkpoint) = checkpoint {
                *checkpoint = cleanable.first_dirty_offset;
            }
            let is_filthier =
                filthiest.as_ref().is_none_or(|(_, other)| cleanable.compare_ratio(other).is_gt());
            if cleanable.has_bytes() && cleanable.is_due(now, config) && is_filthier {
                filthiest = Some((tp, cleanable));
            }
        }
        filthiest
    }

    /// The checkpoint is noted whether or not it could be done (`doneCleaning`).
    fn clean_log(
        &mut self,
        tp: &TopicPartition,
        cleanable: Cleanable,
        step: &mut Step<'_>,
    ) -> Result<(), BatchError> {
        let broker = self.me;
        let Some(partition) = self.partitions.get_mut(tp) else { return Ok(()) };
        let config = partition.config.clone();
        let partition = Rc::make_mut(partition);
        let from = cleanable.first_dirty_offset;
        let cleaned = partition.log.clean(cleanable, step.now, &config.log);
        let to = cleaned.as_ref().map_or(from, |cleaned| cleaned.end);
        self.cleaner.checkpoints.insert(tp.clone(), to);
        let Cleaned { before, after, gone, .. } = cleaned?;
        let (tp, leader) = (tp.clone(), partition.is_leader());
        step.fx.event(Event::LogCleaned { broker, tp, leader, from, to, before, after, gone });
        Ok(())
    }
}
