//! One replica's log of a partition: its batches, offsets, leader epochs and producers.
//!
//! Mirrors Kafka's `UnifiedLog`. A clone shares everything until one of the two is changed.
//!
//! **Invariant:** `log_start_offset <= high_watermark <= log_end_offset`; every stored batch ends below the log end
//! offset, and offsets only ascend.

mod append;
mod chunks;
mod leader_epochs;
mod producer_state;
mod read;

use self::chunks::Chunks;
use super::record::Batch;
use super::time::Time;
use super::types::{LeaderEpoch, Offset};

pub use append::{AppendError, AppendLimits, Appended, FollowerAppended, Origin, RecordError, RecordFault};
pub use leader_epochs::{EpochEntry, LeaderEpochs, truncation_point};
pub use producer_state::{AppendedBatch, Producer, Producers, SequenceError};
pub use read::{ReadResult, RecordAtTime};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    chunks: Chunks,
    /// Where the stored data starts, which may be below the log start offset.
    first_offset: Offset,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
    leader_epochs: LeaderEpochs,
    producers: Producers,
}

impl Log {
    pub fn new() -> Log {
        Log::default()
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
        self.high_watermark = to;
        Some(from)
    }

    /// Sets a follower's high watermark to what its leader says, kept between log start and log end (R-REPL-17). The
    /// old one if it changed.
    pub fn update_high_watermark(&mut self, to: Offset) -> Option<Offset> {
        let from = self.high_watermark;
        self.high_watermark = to.clamp(self.log_start_offset, self.log_end_offset);
        (self.high_watermark != from).then_some(from)
    }

    /// Raises the log start (R-LOG-30). Whether it rose.
    ///
    /// Panics if `to` is past the high watermark.
    pub fn maybe_increment_log_start_offset(&mut self, to: Offset) -> bool {
        assert!(
            to <= self.high_watermark,
            "log start {to} is past the high watermark {}",
            self.high_watermark
        );
        if to <= self.log_start_offset {
            return false;
        }
        self.log_start_offset = to;
        self.leader_epochs.truncate_from_start(to);
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
    pub fn truncate_to(&mut self, offset: Offset) -> bool {
        assert!(offset >= Offset::ZERO, "cannot truncate to {offset}");
        if offset >= self.log_end_offset {
            // A leader that wrote nothing leaves an epoch that starts at the log end.
            self.leader_epochs.truncate_from_end(self.log_end_offset);
            return false;
        }
        if offset < self.first_offset {
            self.truncate_fully_and_start_at(offset);
            return true;
        }
        self.chunks.truncate_to(offset);
        self.log_end_offset = offset;
        self.log_start_offset = self.log_start_offset.min(offset);
        self.high_watermark = self.high_watermark.min(offset);
        self.leader_epochs.truncate_from_end(offset);
        self.producers = Producers::replay(self.chunks.iter());
        true
    }

    /// Drops everything; the next record gets `offset` (R-REPL-37).
    pub fn truncate_fully_and_start_at(&mut self, offset: Offset) {
        *self = Log {
            first_offset: offset,
            log_start_offset: offset,
            log_end_offset: offset,
            high_watermark: offset,
            ..Log::default()
        };
    }

    /// The log as a broker finds it when it starts again: what was written is there, the high watermark is the one that
    /// was checkpointed last (`replication-offset-checkpoint`), and an epoch without a record is forgotten.
    pub fn restore(&mut self, high_watermark: Offset) {
        self.update_high_watermark(high_watermark);
        self.leader_epochs.truncate_from_end(self.log_end_offset);
    }

    /// Forgets the idempotent producers that have been silent for `producer.id.expiration.ms` (R-PROD-28).
    pub fn remove_expired_producers(&mut self, now: Time, producer_id_expiration_ms: i64) {
        self.producers.remove_expired(now, producer_id_expiration_ms);
    }

    /// Puts a batch that was validated at the end.
    fn push(&mut self, batch: Batch) {
        assert!(batch.base_offset() >= self.log_end_offset, "a batch goes behind the log end");
        self.leader_epochs.assign(batch.leader_epoch(), batch.base_offset());
        self.producers.update(&batch);
        self.log_end_offset = batch.next_offset();
        self.chunks.push(batch);
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod model_test;
#[cfg(test)]
mod tests;
