//! Which old segments go (Kafka's `UnifiedLog.deleteOldSegments`).
//!
//! **Invariant:** only a prefix of the segments goes, none of it at or above the high watermark.

use super::Log;
use super::config::LogConfig;
use super::segment::Segment;
use crate::kafka::plant::{self, Plant};
use crate::kafka::time::Time;
use crate::kafka::types::Offset;

/// Why segments were deleted (R-LOG-31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionReason {
    /// They lie wholly below the log start offset.
    LogStartOffset,
    /// `retention.bytes`
    RetentionSize,
    /// `retention.ms`
    RetentionTime,
}

/// Segments that one pass deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    pub reason: DeletionReason,
    pub segments: i32,
    /// The log start offset afterwards.
    pub log_start_offset: Offset,
}

impl Log {
    /// One pass of retention (R-LOG-31 to R-LOG-35): what went, by reason.
    pub fn delete_old_segments(&mut self, now: Time, config: &LogConfig) -> Vec<Deleted> {
        let mut deleted = Vec::new();
        let log_start_offset = self.log_start_offset;
        let below_start =
            |_: &Segment, next: Option<Offset>| next.is_some_and(|base| base <= log_start_offset);
        deleted.extend(self.delete_prefix(now, DeletionReason::LogStartOffset, below_start));
        if !config.deletes {
            return deleted;
        }
        if config.retention_bytes >= 0 && self.size_bytes() >= config.retention_bytes {
            let mut excess_bytes = self.size_bytes() - config.retention_bytes;
            let exceeds = |segment: &Segment, _: Option<Offset>| {
                let goes = excess_bytes >= segment.size_bytes();
                excess_bytes -= if goes { segment.size_bytes() } else { 0 };
                goes
            };
            deleted.extend(self.delete_prefix(now, DeletionReason::RetentionSize, exceeds));
        }
        if config.retention_ms >= 0 {
            let now_ms = now.wall_ms();
            let is_old = |segment: &Segment, _: Option<Offset>| {
                now_ms - segment.largest_timestamp_ms() > config.retention_ms
            };
            deleted.extend(self.delete_prefix(now, DeletionReason::RetentionTime, is_old));
        }
        deleted
    }

    /// Deletes segments from the oldest on while `goes` says so. If it is all of them, a new one is rolled first, so the
    /// active segment goes too (R-LOG-32, R-LOG-33).
    fn delete_prefix(
        &mut self,
        now: Time,
        reason: DeletionReason,
        mut goes: impl FnMut(&Segment, Option<Offset>) -> bool,
    ) -> Option<Deleted> {
        let mut kept_from = self.segments.first_base_offset();
        let mut segments = 0;
        let nexts = self.segments.iter().skip(1).map(|next| Some(next.base_offset())).chain([None]);
        for (segment, next) in self.segments.iter().zip(nexts) {
            let end = next.unwrap_or(self.log_end_offset);
            let is_committed = self.high_watermark >= end || plant::is(Plant::RetentionAboveHw);
            let is_deletable = is_committed && goes(segment, next);
            if !is_deletable || (next.is_none() && segment.size_bytes() == 0) {
                break;
            }
            kept_from = end;
            segments += 1;
        }
        if segments == 0 {
            return None;
        }
        if kept_from > self.segments.active().base_offset() {
            self.roll(kept_from, now);
        }
        self.maybe_increment_log_start_offset(kept_from);
        for base_offset in self.segments.remove_before(kept_from) {
            self.producers.drop_snapshot(base_offset);
        }
        self.chunks.drop_before(kept_from);
        Some(Deleted { reason, segments, log_start_offset: self.log_start_offset })
    }
}
