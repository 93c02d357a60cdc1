//! One partition as one share group reads it, on the partition's leader (R-SHARE-3, `SharePartition`).
//!
//! From `start_offset` to `end_offset` are the records in flight: each is available, acquired by a member for a while,
//! or done. Everything below is done, everything behind was never handed out.
//!
//! **Invariant:** a record is acquired by one member at most, and its lock runs. Not
//! known here: the log, the coordinator that persists the state, other members' sessions.

mod batch;
mod acquire;
mod acknowledge;
mod archive;
mod lock;
mod progress;

use std::collections::BTreeMap;

use batch::InFlightBatch;

use super::range::OffsetRange;
use super::state::{InFlight, StateBatch, WriteId};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset};

pub use acknowledge::Acknowledgement;
pub use acquire::{AcquireMode, Acquired, Acquirer, Fetched};
pub use progress::client_error;

/// What the configs of the group and of the broker say about it; they may change at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareSettings {
    /// `share.record.lock.duration.ms`.
    pub record_lock_duration_ms: i64,
    /// `share.delivery.count.limit`.
    pub delivery_count_limit: i16,
    /// `share.partition.max.record.locks`.
    pub max_record_locks: i64,
    /// `share.renew.acknowledge.enable`.
    pub is_renewal_enabled: bool,
}

impl ShareSettings {
    /// Kafka's defaults.
    pub const DEFAULT: ShareSettings = ShareSettings {
        record_lock_duration_ms: 30_000,
        delivery_count_limit: 5,
        max_record_locks: 2000,
        is_renewal_enabled: true,
    };
}

/// What the share coordinator is asked to persist (`WriteShareGroupState`). What comes of it is told to
/// [`SharePartition::written`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateWrite {
    pub id: WriteId,
    pub state_epoch: i32,
    pub leader_epoch: LeaderEpoch,
    pub start_offset: Offset,
    /// How many records from `start_offset` on are done.
    pub delivery_complete_count: i32,
    pub batches: Vec<StateBatch>,
}

/// What was persisted cannot be: a batch ends before it begins, or begins below the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a persisted state of the offsets {} to {} where the share partition starts at {start}", batch.range.first, batch.range.last)]
pub struct BrokenState {
    pub start: Offset,
    pub batch: StateBatch,
}

/// Where persisted batches left out records that this leader has to read from the log (R-SHARE-14, `GapWindow`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GapWindow {
    /// The first offset that may be missing.
    start: Offset,
    /// The end offset when the state was read; gaps behind it are none.
    end: Offset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharePartition {
    leader_epoch: LeaderEpoch,
    state_epoch: i32,
    start_offset: Offset,
    /// The last offset in flight; without any, the next one to be handed out.
    end_offset: Offset,
    batches: BTreeMap<Offset, InFlightBatch>,
    gaps: Option<GapWindow>,
    /// Whether something in flight may be available again (`findNextFetchOffset`).
    has_returned: bool,
    /// How many records in flight are done (KIP-1226); the group's lag is counted with it.
    delivery_complete_count: i32,
    /// Writes that are under way, each with what changes if it fails. Those of locks that ended change nothing.
    writes: BTreeMap<WriteId, Vec<StateBatch>>,
    next_write: u64,
}

impl SharePartition {
    /// As it was persisted, for a leader of `leader_epoch` (`maybeInitialize`). `start_offset` is where
    /// `share.auto.offset.reset` points if none was persisted (R-SHARE-4).
    ///
    /// # Errors
    ///
    /// What was persisted contradicts itself.
    pub fn new(
        leader_epoch: LeaderEpoch,
        state_epoch: i32,
        start_offset: Offset,
        persisted: &[StateBatch],
    ) -> Result<SharePartition, BrokenState> {
        let mut new = SharePartition {
            leader_epoch,
            state_epoch,
            start_offset,
            end_offset: start_offset,
            batches: BTreeMap::new(),
            gaps: None,
            has_returned: !persisted.is_empty(),
            delivery_complete_count: 0,
            writes: BTreeMap::new(),
            next_write: 0,
        };
        let mut first_gap = None;
        let mut next = start_offset;
        for batch in persisted {
            if batch.range.first < start_offset || batch.range.count() < 1 {
                return Err(BrokenState { start: start_offset, batch: *batch });
            }
            if batch.range.first > next {
                first_gap = first_gap.or(Some(next));
            }
            next = batch.range.last + 1;
            let state = InFlight::new(batch.state, batch.delivery_count);
            if batch.state.is_final() {
                new.count_complete(batch.range.count());
            }
            new.batches.insert(batch.range.first, InFlightBatch::whole(batch.range, state));
        }
        if let Some((_, last)) = new.batches.last_key_value() {
            new.end_offset = last.range.last;
            new.gaps = first_gap.map(|start| GapWindow { start, end: new.end_offset });
            new.advance();
        }
        Ok(new)
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    pub fn state_epoch(&self) -> i32 {
        self.state_epoch
    }

    /// Everything below is done: SPSO.
    pub fn start_offset(&self) -> Offset {
        self.start_offset
    }

    /// SPEO.
    pub fn end_offset(&self) -> Offset {
        self.end_offset
    }

    pub fn delivery_complete_count(&self) -> i32 {
        self.delivery_complete_count
    }

    /// Every state with the offsets that have it, in their order. Those below the start are still held by a member, or
    /// were when the log's start passed them.
    pub fn in_flight(&self) -> impl Iterator<Item = (OffsetRange, &InFlight)> {
        self.batches.values().flat_map(InFlightBatch::parts)
    }

    /// From where the log is to be read next.
    pub fn next_fetch_offset(&mut self) -> Offset {
        let is_empty =
            self.batches.last_key_value().is_none_or(|(_, last)| self.start_offset > last.range.last);
        if is_empty {
            self.has_returned = false;
            return self.end_offset;
        }
        if let Some(offset) = self.first_to_read_again().filter(|_| self.has_returned) {
            return offset;
        }
        self.has_returned = false;
        self.end_offset + 1
    }

    /// The first offset in flight that is available or was never read.
    fn first_to_read_again(&self) -> Option<Offset> {
        let mut gap = self.open_gap();
        for batch in self.batches.values() {
            if let Some(start) = gap {
                if batch.range.first > start {
                    return Some(start);
                }
                gap = Some(start.max(batch.range.last + 1));
            }
            if let Some((range, _)) = batch.parts().find(|(_, state)| state.is_available()) {
                return Some(range.first);
            }
        }
        None
    }

    /// Whether a fetch can be of use: something is available again, or there is room for more (R-SHARE-10).
    pub fn can_acquire(&mut self, settings: &ShareSettings) -> bool {
        self.next_fetch_offset() != self.end_offset + 1 || self.in_flight_count() < settings.max_record_locks
    }

    /// From start to end, with what is done between.
    pub fn in_flight_count(&self) -> i64 {
        if self.batches.is_empty() { 0 } else { self.end_offset - self.start_offset + 1 }
    }

    /// When the next lock ends, if any runs.
    pub fn next_lock_end(&self) -> Option<Time> {
        self.in_flight().filter_map(|(_, state)| state.lock_ends()).min()
    }

    /// Where the gap begins that is to be read next, while there may be one.
    fn open_gap(&self) -> Option<Offset> {
        self.gaps.filter(|gaps| gaps.end == self.end_offset).map(|gaps| gaps.start)
    }

    fn count_complete(&mut self, records: i64) {
        self.delivery_complete_count += i32::try_from(records).unwrap_or(i32::MAX);
    }

    /// The batches that overlap with a range or lie in it, by their keys.
    fn keys_in(&self, first: Offset, last: Offset) -> Vec<Offset> {
        if first > last {
            return Vec::new();
        }
        self.batches.range(first..=last).map(|(key, _)| *key).collect()
    }

    /// The batch that begins at `offset` or is the last to begin before.
    fn floor(&self, offset: Offset) -> Option<&InFlightBatch> {
        self.batches.range(..=offset).next_back().map(|(_, batch)| batch)
    }
}

#[cfg(test)]
mod tests;
