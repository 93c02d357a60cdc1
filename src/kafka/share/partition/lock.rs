//! Locks end (R-SHARE-7, `releaseAcquisitionLockOnTimeout`).

use super::super::range::OffsetRange;
use super::super::state::{InFlight, RecordState, StateBatch};
use super::{SharePartition, ShareSettings, StateWrite};
use crate::kafka::time::Time;

impl SharePartition {
    /// Gives back what is held by a lock that has ended; what was delivered as often as it may be is archived. It can be
    /// handed out at once, whatever comes of the write.
    ///
    /// Kafka has a timer, and asks for a write, for each lock; here all that end together are in one.
    pub fn end_locks(&mut self, now: Time, settings: &ShareSettings) -> Option<StateWrite> {
        let start = self.start_offset;
        let mut released = Vec::new();
        for batch in self.batches.values_mut() {
            if !batch.parts().any(|(_, state)| has_ended(state, now)) {
                continue;
            }
            if batch.range.is_cut_by(start) && batch.is_acquired() {
                batch.split();
            }
            for (range, state) in batch.parts_mut().filter(|(_, state)| has_ended(state, now)) {
                if let Some(ended) = end(range, state, range.last < start, settings) {
                    released.push(ended);
                }
            }
        }
        for batch in &released {
            self.has_returned |= batch.state == RecordState::Available;
            if batch.state.is_final() {
                let records = batch.range.count_from(self.start_offset);
                self.count_complete(records);
            }
        }
        (!released.is_empty()).then(|| {
            let write = self.write(released);
            // Nothing is taken back if it fails.
            self.writes.insert(write.id, Vec::new());
            write
        })
    }
}

fn has_ended(state: &InFlight, now: Time) -> bool {
    state.lock_ends().is_some_and(|ends| ends <= now)
}

fn end(
    range: OffsetRange,
    state: &mut InFlight,
    is_below_start: bool,
    settings: &ShareSettings,
) -> Option<StateBatch> {
    let next = if is_below_start { RecordState::Archived } else { RecordState::Available };
    if state.leave(next, settings.delivery_count_limit) {
        state.lock = None;
        return Some(StateBatch { range, state: state.state(), delivery_count: state.delivery_count() });
    }
    if let Some(lock) = &mut state.lock {
        lock.is_over = true;
    }
    None
}
