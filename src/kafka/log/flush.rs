//! What of a log is on the disk itself, and what only in the page cache; and how a broker finds its log again.
//!
//! Mirrors `UnifiedLog.flush`, `LocalLog` and `LogLoader`. A process that dies leaves the page cache to the system, which
//! writes it out; when the power fails it is gone. Here nothing but a flush brings data to the disk.
//!
//! **Invariant:** neither the recovery point nor what was flushed is past the log end. The recovery point is what the
//! broker knows: it is behind after an unclean stop, and ahead of the disk where the log start has passed it.

use super::Log;
use super::config::LogConfig;
use super::segment::Segment;
use crate::kafka::time::Time;
use crate::kafka::types::Offset;

/// How far a log was flushed: positions, so that a copy of a log costs nothing for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flushed {
    /// Below it everything outlives a power failure.
    pub(super) to: Offset,
    /// Where recovery after an unclean stop begins.
    pub(super) recovery_point: Offset,
    pub(super) at: Time,
}

impl Flushed {
    pub(super) fn new(offset: Offset, now: Time) -> Flushed {
        Flushed { to: offset, recovery_point: offset, at: now }
    }

    /// The log ends earlier than before.
    pub(super) fn cut(&mut self, end: Offset) {
        self.to = self.to.min(end);
        self.recovery_point = self.recovery_point.min(end);
    }

    /// The log begins later than before (R-LOG-30). What lies below is not read again, and nothing was written
    /// (`UnifiedLog.updateLogStartOffset`).
    pub(super) fn raise(&mut self, start: Offset) {
        self.recovery_point = self.recovery_point.max(start);
    }
}

/// What the files beside a log said when its broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpointed {
    /// `replication-offset-checkpoint`
    pub high_watermark: Offset,
    /// `recovery-point-offset-checkpoint`
    pub recovery_point: Offset,
    /// `log-start-offset-checkpoint`
    pub log_start: Offset,
    /// The clean-shutdown file was there.
    pub clean: bool,
}

impl Log {
    /// Below it everything outlives a power failure.
    pub fn flushed(&self) -> Offset {
        self.flushed.to
    }

    /// Where recovery would begin after an unclean stop.
    pub fn recovery_point(&self) -> Offset {
        self.flushed.recovery_point
    }

    /// Writes what is behind the recovery point to the disk.
    pub fn flush(&mut self, now: Time) {
        self.flush_to(self.log_end_offset, now);
    }

    /// Writes everything to the disk, wherever the recovery point is, as a log is about to be closed
    /// (`UnifiedLog.flush(true)`).
    pub fn flush_all(&mut self, now: Time) {
        self.flushed = Flushed::new(self.log_end_offset, now);
    }

    pub(super) fn flush_to(&mut self, offset: Offset, now: Time) {
        if offset > self.flushed.recovery_point {
            self.flushed = Flushed { to: self.flushed.to.max(offset), recovery_point: offset, at: now };
        }
    }

    /// After an append: `flush.messages` (R-LOG-14).
    pub(super) fn flush_if_due(&mut self, now: Time, config: &LogConfig) {
        if self.log_end_offset - self.flushed.recovery_point >= config.flush_messages {
            self.flush(now);
        }
    }

    /// Whether the log was last flushed `flush.ms` ago or earlier, and has something to flush.
    pub fn is_flush_due(&self, now: Time, config: &LogConfig) -> bool {
        now.ms_since(self.flushed.at) >= config.flush_ms && self.log_end_offset > self.flushed.recovery_point
    }

    /// The power fails: what was not flushed is gone. How many offsets of it were not deleted before.
    pub fn lose_unflushed(&mut self, now: Time) -> i64 {
        // The first segment may begin behind what was flushed: the ones before it were deleted unflushed.
        let end = self.flushed.to.max(self.segments.first_base_offset());
        let lost = self.log_end_offset - end.max(self.log_start_offset);
        if self.log_end_offset > end {
            self.cut(now, end);
            self.leader_epochs.truncate_from_end(end);
            self.high_watermark = self.high_watermark.min(end);
        }
        lost
    }

    /// The log as a broker finds it when it starts: its end is where the files end, the high watermark and the log start
    /// are those that were checkpointed last, an epoch without a record is forgotten, and of the producers only what a
    /// snapshot keeps is known (`LogLoader`). How many segments had to be read again.
    pub fn load(&mut self, now: Time, found: Checkpointed, config: &LogConfig) -> i32 {
        if found.log_start > self.log_end_offset {
            self.truncate_fully_and_start_at(now, found.log_start);
            return 0;
        }
        let end = self.log_end_offset;
        self.log_start_offset = found.log_start.max(self.segments.first_base_offset());
        self.leader_epochs.truncate_from_end(end);
        self.leader_epochs.truncate_from_start(found.log_start);
        let recovery_point = if found.clean { end } else { found.recovery_point.min(end) };
        let recovered = self.segments.from(recovery_point).count() as i32;
        self.flushed = Flushed { to: self.flushed.to, recovery_point, at: now };
        self.producers.forget_all_but_snapshots(self.segments.iter().map(Segment::base_offset));
        self.rebuild_producers(now, config);
        self.producers.reduce_to_snapshot();
        self.high_watermark = self.log_start_offset;
        self.update_high_watermark(found.high_watermark);
        if found.clean { 0 } else { recovered }
    }
}
