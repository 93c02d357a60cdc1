//! What was persisted takes effect, and the start moves over what is done (R-SHARE-11,
//! `maybeUpdateCachedStateAndOffsets`).

use super::super::state::{RecordState, StateBatch, WriteId};
use super::{SharePartition, StateWrite};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::Offset;

impl SharePartition {
    /// The outcome of a write. Acknowledgements that could not be persisted are taken back. True if the start moved.
    pub fn written(&mut self, id: WriteId, is_written: bool) -> bool {
        let Some(changes) = self.writes.remove(&id) else { return false };
        // Ended locks have their effect even if it could not be persisted.
        let has_effect = is_written || changes.is_empty();
        self.finish(id, &changes, is_written);
        has_effect && self.advance()
    }

    /// Asks for a write; what it changes is told by the caller.
    pub(super) fn write(&mut self, batches: Vec<StateBatch>) -> StateWrite {
        StateWrite {
            id: self.take_write_id(),
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
            batches,
        }
    }

    pub(super) fn take_write_id(&mut self) -> WriteId {
        self.next_write += 1;
        WriteId(self.next_write)
    }

    /// Completes, or takes back, what waits for a write and is still in flight.
    pub(super) fn finish(&mut self, id: WriteId, changes: &[StateBatch], is_written: bool) {
        for change in changes {
            let from = self.floor(change.range.first).map_or(change.range.first, |floor| floor.range.first);
            let mut records_undone = 0;
            for (_, batch) in self.batches.range_mut(from..=change.range.last) {
                let parts = batch.parts_mut().filter(|(range, _)| range.is_within(change.range));
                for (range, state) in parts {
                    if state.finish_change(id, is_written) {
                        self.has_returned |= state.state() == RecordState::Available;
                        let is_undone = change.state.is_final() && !state.state().is_final();
                        records_undone += if is_undone { range.count_from(self.start_offset) } else { 0 };
                    }
                }
            }
            self.count_complete(-records_undone);
            // What came back below the log's start stays available, and is asked for in vain.
        }
    }

    /// Moves the start over all that is done without a gap, and forgets it. True if it moved.
    pub(super) fn advance(&mut self) -> bool {
        if !self.can_advance() {
            return false;
        }
        let Some((last_done, records_done)) = self.done_from_start() else { return false };
        let (_, last) = self.batches.last_key_value().expect("something is done");
        if last.range.last == last_done {
            self.start_offset = last_done + 1;
            self.end_offset = last_done + 1;
            self.batches.clear();
            self.delivery_complete_count = 0;
            return true;
        }
        let holder = self.floor(last_done).expect("it is in flight").range;
        let mut kept_from = holder.first;
        if holder.last == last_done {
            // What lies between two batches is no record, unless it was never read.
            let next = self.batches.range(last_done + 1..).next().map(|(key, _)| *key);
            kept_from = next.expect("it is not the last");
            self.start_offset = self.start_offset.max(kept_from);
            if let Some(gap) = self.open_gap() {
                self.start_offset = self.start_offset.min(gap);
            }
        } else {
            self.start_offset = self.start_offset.max(last_done + 1);
        }
        self.count_complete(-records_done);
        self.batches = self.batches.split_off(&kept_from);
        true
    }

    /// `canMoveStartOffset`.
    fn can_advance(&self) -> bool {
        let at_start = self.floor(self.start_offset).and_then(|batch| batch.at(self.start_offset));
        at_start.is_some_and(|state| state.is_done())
    }

    /// The last offset up to which all is done, and how many records from the start on that is.
    fn done_from_start(&self) -> Option<(Offset, i64)> {
        let gap = self.open_gap();
        let mut last_done = None;
        let mut records = 0;
        for batch in self.batches.values() {
            if gap.is_some_and(|gap| batch.range.last >= gap) {
                break;
            }
            let done = batch.parts().take_while(|(_, state)| state.is_done());
            for (range, _) in done {
                last_done = Some(range.last);
                records += range.count_from(self.start_offset);
            }
            if last_done != Some(batch.range.last) {
                break;
            }
        }
        last_done.map(|last| (last, records))
    }
}

/// What a client is told when its acknowledgement could not be persisted (`fetchPersisterError`).
pub fn client_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::NotCoordinator
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::CoordinatorLoadInProgress => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::GroupIdNotFound | ErrorCode::UnknownTopicOrPartition => error,
        ErrorCode::FencedLeaderEpoch | ErrorCode::FencedStateEpoch => ErrorCode::NotLeaderOrFollower,
        _ => ErrorCode::UnknownServerError,
    }
}
