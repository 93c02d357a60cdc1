//! Locks end (R-SHARE-7, `releaseAcquisitionLockOnTimeout`).

use super::super::range::OffsetRange;
use super::super::state::{InFlight, RecordState, StateBatch};
use super::{SharePartition, ShareSettings, StateWrite};
use crate::kafka::time::Time;

impl SharePartition {
    /// Gives back what is held by locks that have ended, each with a write of its own; what was delivered as often as it
    /// may be is archived. It can be handed out at once, whatever comes of the writes.
    pub fn end_locks(&mut self, now: Time, settings: &ShareSettings) -> Vec<StateWrite> {
        let ended = self.in_flight().filter(|(_, state)| has_ended(state, now)).map(|(range, _)| range);
        let ended: Vec<OffsetRange> = ended.collect();
        ended.into_iter().filter_map(|range| self.end_lock(range, now, settings)).collect()
    }

    /// Of a batch or of one offset.
    fn end_lock(&mut self, of: OffsetRange, now: Time, settings: &ShareSettings) -> Option<StateWrite> {
        let start = self.start_offset;
        let (_, batch) = self.batches.range_mut(..=of.first).next_back()?;
        if batch.range.is_cut_by(start) && batch.is_acquired() {
            batch.split();
        }
        let parts = batch.parts_mut().filter(|(range, _)| range.is_within(of));
        let released: Vec<StateBatch> =
            parts.filter_map(|(range, state)| end(range, state, now, range.last < start, settings)).collect();
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
    now: Time,
    is_below_start: bool,
    settings: &ShareSettings,
) -> Option<StateBatch> {
    state.stray = state.stray.filter(|ends| *ends > now);
    let next = if is_below_start { RecordState::Archived } else { RecordState::Available };
    if state.leave(next, settings.delivery_count_limit) {
        state.lock = None;
        return Some(StateBatch { range, state: state.state(), delivery_count: state.delivery_count() });
    }
    if let Some(lock) = state.lock.as_mut().filter(|lock| lock.ends <= now) {
        lock.is_over = true;
    }
    None
}
