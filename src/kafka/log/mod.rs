//! One replica's log of a partition: its batches, offsets, leader epochs and producers.
//!
//! Mirrors Kafka's `UnifiedLog`. A clone shares everything until one of the two is changed.
//!
//! **Invariant:** `log_start_offset <= high_watermark <= log_end_offset`; every stored batch ends below the log end
//! offset, and offsets only ascend.

mod append;
mod chunks;
mod compaction;
mod config;
mod flush;
mod leader_epochs;
mod producer;
mod producers;
mod read;
mod retention;
mod segment;
mod segments;
mod verification;

use self::chunks::Chunks;
use self::flush::Flushed;
use self::segments::Segments;
use super::plant::{self, Plant};
use super::record::{Batch, BatchError};
use super::time::Time;
use super::types::{LeaderEpoch, Offset};

pub use append::{AppendError, Appended, FollowerAppended, Origin, RecordError, RecordFault};
pub use compaction::{Cleanable, Cleaned, Contents};
pub use config::LogConfig;
pub use flush::Checkpointed;
pub use leader_epochs::{EpochEntry, LeaderEpochs, truncation_point};
pub use producer::{AppendedBatch, Producer, ProducerError};
pub use producers::{AbortedTransaction, Producers};
pub use read::{Isolation, ReadResult, RecordAtTime};
pub use retention::{Deleted, DeletionReason};
pub use segment::{OffsetPosition, Segment, TimestampOffset};
pub use verification::{FirstBatch, Verification, VerificationGuard};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    chunks: Chunks,
    segments: Segments,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
    /// As it was when it was last looked at, which is not at every change of the producers.
    first_unstable_offset: Option<Offset>,
    leader_epochs: LeaderEpochs,
    producers: Producers,
    flushed: Flushed,
}

impl Default for Log {
    fn default() -> Self {
        Log::new()
    }
}

impl Log {
    /// An empty log that is as old as the run.
    pub fn new() -> Log {
        Log::created_at(Time::ZERO)
    }

    pub fn created_at(now: Time) -> Log {
        Log::starting_at(Offset::ZERO, now)
    }

    fn starting_at(offset: Offset, now: Time) -> Log {
        let mut producers = Producers::default();
        producers.start_over(offset);
        Log {
            chunks: Chunks::default(),
            segments: Segments::new(offset, now.wall_ms()),
            log_start_offset: offset,
            log_end_offset: offset,
            high_watermark: offset,
            first_unstable_offset: None,
            leader_epochs: LeaderEpochs::default(),
            producers,
            flushed: Flushed::new(offset, now),
        }
    }

    /// First offset that can be read.
    pub fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// LEO: the offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// First offset that is not committed, as far as this replica knows.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// LSO: everything below it is committed and of no open transaction (R-TXN-23).
    pub fn last_stable_offset(&self) -> Offset {
        if plant::is(Plant::LsoPastOpen) {
            return self.high_watermark;
        }
        self.first_unstable_offset.map_or(self.high_watermark, |offset| offset.min(self.high_watermark))
    }

    /// Whether the oldest open transaction has heard nothing of its producer for longer than any may take, and five minutes
    /// more (R-TXN-25). `max_timeout_ms`: transaction.max.timeout.ms.
    pub fn has_late_transaction(&self, now: Time, max_timeout_ms: i32) -> bool {
        const LATE_TRANSACTION_BUFFER_MS: i64 = 5 * 60 * 1000;
        let last = self.producers.oldest_transaction_timestamp_ms().filter(|at| *at > 0);
        last.is_some_and(|at| now.wall_ms() - at > i64::from(max_timeout_ms) + LATE_TRANSACTION_BUFFER_MS)
    }

    /// Oldest first; the last is the active one.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        self.segments.iter()
    }

    /// The first offset of the segment in which `offset` is, or will be.
    pub fn segment_base(&self, offset: Offset) -> Offset {
        let segment = self.segments.floor(offset).map(|(segment, _)| segment.base_offset());
        segment.unwrap_or(self.segments.first_base_offset())
    }

    /// What a follower reports as its last fetched epoch (R-REPL-6).
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.leader_epochs.latest().map(|entry| entry.epoch)
    }

    pub fn leader_epochs(&self) -> &LeaderEpochs {
        &self.leader_epochs
    }

    pub fn producers(&self) -> &Producers {
        &self.producers
    }

    pub fn batch_count(&self) -> i64 {
        self.chunks.batch_count()
    }

    /// Of all batches.
    pub fn size_bytes(&self) -> i64 {
        self.chunks.size_bytes()
    }

    /// Raises a leader's high watermark. The old one if it rose, `None` if `to` is not above it (R-REPL-12).
    ///
    /// Panics if `to` is past the log end.
    pub fn maybe_increment_high_watermark(&mut self, to: Offset) -> Option<Offset> {
        assert!(to <= self.log_end_offset, "high watermark {to} is past the log end {}", self.log_end_offset);
        let from = self.high_watermark;
        if to <= from {
            return None;
        }
        self.set_high_watermark(to);
        Some(from)
    }

    /// Sets a follower's high watermark to what its leader says, kept between log start and log end (R-REPL-17). The
    /// old one if it changed.
    pub fn update_high_watermark(&mut self, to: Offset) -> Option<Offset> {
        let from = self.high_watermark;
        self.set_high_watermark(to.clamp(self.log_start_offset, self.log_end_offset));
        (self.high_watermark != from).then_some(from)
    }

    fn set_high_watermark(&mut self, to: Offset) {
        self.high_watermark = to;
        self.producers.on_high_watermark_updated(to);
        self.find_first_unstable_offset();
    }

    fn find_first_unstable_offset(&mut self) {
        let first = self.producers.first_unstable_offset();
        self.first_unstable_offset = first.map(|offset| offset.max(self.log_start_offset));
    }

    /// Raises the log start (R-LOG-30). Whether it rose. Its segments stay until the next pass of retention.
    ///
    /// Panics if `to` is past the high watermark.
    pub fn maybe_increment_log_start_offset(&mut self, to: Offset) -> bool {
        assert!(
            to <= self.high_watermark || plant::is(Plant::RetentionAboveHw),
            "log start {to} is past the high watermark {}",
            self.high_watermark
        );
        if to <= self.log_start_offset {
            return false;
        }
        self.log_start_offset = to;
        self.flushed.raise(to);
        self.leader_epochs.truncate_from_start(to);
        self.producers.on_log_start_incremented(to);
        self.find_first_unstable_offset();
        true
    }

    /// Notes that `epoch` starts at `start_offset` (R-LOG-48).
    pub fn assign_epoch(&mut self, epoch: LeaderEpoch, start_offset: Offset) {
        self.leader_epochs.assign(epoch, start_offset);
    }

    /// The epoch that answers for `epoch` and where it ends; (NONE, UNKNOWN) if it cannot be known (R-LOG-49).
    pub fn end_offset_for(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        self.leader_epochs.end_offset_for(epoch, self.log_end_offset)
    }

    /// Where this follower cuts its log after a leader that it asked at `fetch_offset` answered with a diverging epoch
    /// and that epoch's end (R-REPL-36).
    pub fn truncation_point(&self, diverging: (LeaderEpoch, Offset), fetch_offset: Offset) -> Offset {
        truncation_point(&self.leader_epochs, self.log_end_offset, diverging, fetch_offset)
    }

    /// Drops `offset` and everything after it (R-LOG-51). A batch that holds `offset` goes as a whole. Whether the log
    /// became shorter.
    pub fn truncate_to(&mut self, now: Time, offset: Offset, config: &LogConfig) -> bool {
        assert!(offset >= Offset::ZERO, "cannot truncate to {offset}");
        if offset >= self.log_end_offset {
            // A leader that wrote nothing leaves an epoch that starts at the log end.
            self.leader_epochs.truncate_from_end(self.log_end_offset);
            return false;
        }
        if offset < self.segments.first_base_offset() {
            self.truncate_fully_and_start_at(now, offset);
            return true;
        }
        self.cut(now, offset);
        self.leader_epochs.truncate_from_end(offset);
        self.rebuild_producers(now, config);
        if self.high_watermark >= offset {
            self.set_high_watermark(offset);
        }
        true
    }

    /// Takes what lies at and behind `offset` out of the files.
    fn cut(&mut self, now: Time, offset: Offset) {
        self.chunks.truncate_to(offset);
        for base_offset in self.segments.truncate(offset) {
            self.producers.drop_snapshot(base_offset);
        }
        let kept = self.chunks.from(self.segments.active().base_offset());
        self.segments.active_mut().truncate(offset, kept, now.wall_ms());
        self.log_end_offset = offset;
        self.log_start_offset = self.log_start_offset.min(offset);
        self.flushed.cut(offset);
    }

    /// Drops everything; the next record gets `offset` (R-REPL-37).
    pub fn truncate_fully_and_start_at(&mut self, now: Time, offset: Offset) {
        *self = Log::starting_at(offset, now);
    }

    /// Reads the log again from the last snapshot of its producers on, and keeps snapshots at the start of the last two
    /// segments and at the log end.
    fn rebuild_producers(&mut self, now: Time, config: &LogConfig) {
        let end = self.log_end_offset;
        let producers = &mut self.producers;
        let has_nothing = producers.is_empty() && producers.end_offset() >= end;
        let (now_ms, expiration_ms) = (now.wall_ms(), config.producer_id_expiration_ms);
        producers.truncate_and_reload((self.log_start_offset, end), now_ms, expiration_ms);
        if end > producers.end_offset() && !has_nothing {
            let last_two: Vec<_> = self.segments.iter().rev().take(2).map(Segment::base_offset).collect();
            let from = producers.end_offset();
            for segment in self.segments.from(from) {
                let start = segment.base_offset().max(from);
                if last_two.contains(&start) {
                    producers.take_snapshot(start);
                }
                let next = self.segments.iter().find(|other| other.base_offset() > segment.base_offset());
                let until = next.map_or(end, Segment::base_offset);
                for batch in self.chunks.from(start).take_while(|batch| batch.base_offset() < until) {
                    producers.update(batch).expect("the log holds markers that were checked");
                }
            }
        }
        producers.take_snapshot(end);
    }

    /// Closes the active segment, unless it is empty.
    pub fn roll_active(&mut self, now: Time) {
        if self.segments.active().size_bytes() > 0 {
            self.roll(self.log_end_offset, now);
        }
    }

    /// Starts a new active segment, keeps a snapshot of the producers there (R-LOG-11) and flushes what is behind it.
    fn roll(&mut self, base_offset: Offset, now: Time) {
        self.segments.roll(base_offset, now.wall_ms());
        self.producers.take_snapshot(base_offset);
        self.flush_to(base_offset, now);
    }

    pub fn has_expired_producers(&self, now: Time, producer_id_expiration_ms: i64) -> bool {
        self.producers.has_expired(now.wall_ms(), producer_id_expiration_ms)
    }

    /// Forgets the idempotent producers that have been silent for `producer.id.expiration.ms` (R-PROD-28).
    pub fn remove_expired_producers(&mut self, now: Time, producer_id_expiration_ms: i64) {
        self.producers.remove_expired(now.wall_ms(), producer_id_expiration_ms);
    }

    /// Puts a batch that was validated at the end.
    fn push(&mut self, batch: Batch, now: Time, config: &LogConfig) -> Result<(), BatchError> {
        assert!(batch.base_offset() >= self.log_end_offset, "a batch goes behind the log end");
        let aborted = self.producers.update(&batch)?;
        self.leader_epochs.assign(batch.leader_epoch(), batch.base_offset());
        let segment = self.segments.active_mut();
        segment.append(&batch, now.wall_ms(), config);
        aborted.into_iter().for_each(|aborted| segment.add_aborted(aborted));
        self.log_end_offset = batch.next_offset();
        self.chunks.push(batch);
        self.find_first_unstable_offset();
        Ok(())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod model_test;
#[cfg(test)]
mod tests;
