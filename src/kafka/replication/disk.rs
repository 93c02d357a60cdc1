//! A broker's log directory: the partitions' logs, and the checkpoint files beside them.
//!
//! Mirrors what `LogManager`, `ReplicaManager` and `LogCleanerManager` keep there. The checkpoint files are written to the
//! disk itself; of a log only what was flushed is on it ([`Log::flushed`]).

use crate::kafka::log::{Checkpointed, Log};
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, TopicId, TopicPartition};

type Offsets = PartitionMap<TopicPartition, Offset>;

/// The checkpoint files of all logs.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// `replication-offset-checkpoint`
    pub high_watermarks: Offsets,
    /// `recovery-point-offset-checkpoint`
    pub recovery_points: Offsets,
    /// `log-start-offset-checkpoint`: of the logs that begin within a segment.
    pub log_starts: Offsets,
}

impl Checkpoints {
    pub fn forget(&mut self, tp: &TopicPartition) {
        for offsets in [&mut self.high_watermarks, &mut self.recovery_points, &mut self.log_starts] {
            offsets.remove(tp);
        }
    }

    /// What they say of one log.
    pub fn of(&self, tp: &TopicPartition, clean: bool) -> Checkpointed {
        let read = |offsets: &Offsets| offsets.get(tp).copied().unwrap_or(Offset::ZERO);
        Checkpointed {
            high_watermark: read(&self.high_watermarks),
            recovery_point: read(&self.recovery_points),
            log_start: read(&self.log_starts),
            clean,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct LogDirectory {
    pub logs: PartitionMap<TopicPartition, (TopicId, Log)>,
    pub checkpoints: Checkpoints,
    /// `cleaner-offset-checkpoint`
    pub cleaned: Offsets,
}

/// What went with the page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Which logs lost something, and where each ends now.
    pub ends: Vec<(TopicPartition, Offset)>,
    pub offsets: i64,
}

impl LogDirectory {
    /// The power fails.
    pub fn lose_unflushed(&mut self, now: Time) -> Lost {
        let mut lost = Lost::default();
        for (tp, (_, log)) in self.logs.iter_mut() {
            let offsets = log.lose_unflushed(now);
            if offsets > 0 {
                lost.ends.push((tp.clone(), log.log_end_offset()));
            }
            lost.offsets += offsets;
        }
        lost
    }
}
