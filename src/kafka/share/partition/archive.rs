//! Records that nobody can be given any more: the log's start has passed them, compaction has removed them, or their
//! transaction was aborted (`updateCacheAndOffsets`, `maybeArchiveStaleBatches`, R-SHARE-11, 12).

use super::super::range::OffsetRange;
use super::super::state::RecordState;
use super::SharePartition;
use super::acquire::Acquired;
use crate::kafka::types::Offset;

impl SharePartition {
    /// The log begins at `log_start_offset` now. What a member holds below stays its own until it is acknowledged or
    /// its lock ends.
    pub fn log_start_moved(&mut self, log_start_offset: Offset) {
        if log_start_offset <= self.start_offset {
            return;
        }
        if self.batches.is_empty() {
            self.start_offset = log_start_offset;
            self.end_offset = log_start_offset;
            self.delivery_complete_count = 0;
            return;
        }
        let passed = OffsetRange::up_to(self.start_offset, log_start_offset);
        let done = self.done_within(passed);
        let keys = self.keys_in(Offset(i64::MIN), passed.last);
        self.has_returned |= self.archive(keys, passed, RecordState::Available) > 0;
        self.start_offset = log_start_offset;
        self.count_complete(-done);
        self.end_offset = self.end_offset.max(self.start_offset);
        // A gap stays where it was, and what the log has dropped is asked for until the log begins behind all of it.
    }

    /// Reading from `fetch_offset` returned a batch that begins at `base`: what was available between is gone.
    pub(super) fn archive_vanished(&mut self, fetch_offset: Offset, base: Offset) {
        if fetch_offset >= base {
            return;
        }
        let floor = self.floor(fetch_offset).filter(|floor| floor.range.last >= fetch_offset);
        let from = floor.map_or(fetch_offset, |floor| floor.range.first);
        let gone = OffsetRange::up_to(fetch_offset, base);
        let archived = self.archive(self.keys_in(from, gone.last), gone, RecordState::Available);
        self.count_complete(archived);
        self.has_returned |= archived > 0;
    }

    /// What was acquired just now without the records that were taken back; those are done.
    pub(super) fn without_aborted(
        &mut self,
        mut acquired: Vec<Acquired>,
        aborted: &[OffsetRange],
    ) -> Vec<Acquired> {
        for batch in aborted {
            let from = self.floor(batch.first).map_or(batch.first, |floor| floor.range.first);
            let archived = self.archive(self.keys_in(from, batch.last), *batch, RecordState::Acquired);
            self.count_complete(archived);
            let left = acquired.iter().flat_map(|Acquired { range, delivery_count }| {
                range.without(*batch).map(|range| Acquired { range, delivery_count: *delivery_count })
            });
            acquired = left.collect();
        }
        acquired
    }

    /// Archives what is in state `from` within a range; returns how many records that is (`archiveRecords`).
    pub(super) fn archive(&mut self, keys: Vec<Offset>, within: OffsetRange, from: RecordState) -> i64 {
        let mut archived = 0;
        for key in keys {
            let batch = self.batches.get_mut(&key).expect("its key was found");
            if !batch.range.is_within(within) {
                if batch.as_whole().is_some_and(|state| state.state() != from) {
                    continue;
                }
                batch.split();
            }
            for (range, state) in batch.parts_mut() {
                if range.is_within(within) && state.state() == from {
                    state.sweep();
                    archived += range.count();
                }
            }
        }
        archived
    }

    /// How many records within a range are final.
    fn done_within(&self, within: OffsetRange) -> i64 {
        let part = |range: OffsetRange| {
            OffsetRange::new(range.first.max(within.first), range.last.min(within.last)).count().max(0)
        };
        self.in_flight().filter(|(_, state)| state.state().is_final()).map(|(range, _)| part(range)).sum()
    }
}
