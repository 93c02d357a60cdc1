//! Records are handed out (`SharePartition.acquire`, R-SHARE-8 to 10).

use super::super::range::OffsetRange;
use super::super::state::{InFlight, LockClash, RecordState};
use super::batch::{InFlightBatch, States};
use super::{SharePartition, ShareSettings};
use crate::kafka::time::Time;
use crate::kafka::types::{MemberId, Offset};

/// `share.acquire.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    /// Whole batches as the log has them, even if that is more than was asked for.
    BatchOptimized,
    /// Never more than was asked for.
    RecordLimit,
}

/// Who asks for records, and for what.
#[derive(Clone, Debug)]
pub struct Acquirer<'a> {
    pub member: &'a MemberId,
    pub mode: AcquireMode,
    /// How many records a new batch in flight has at least, unless there are no more.
    pub batch_size: i64,
    pub max_records: i64,
    /// From where the log was read.
    pub fetch_offset: Offset,
}

/// What a read of the log returned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fetched<'a> {
    /// The record batches, in order.
    pub batches: &'a [OffsetRange],
    /// Those of aborted transactions, for a group that reads what is committed (R-SHARE-12).
    pub aborted: &'a [OffsetRange],
}

/// Records that were handed out together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    pub range: OffsetRange,
    pub delivery_count: i16,
}

/// One act of handing out.
struct Grant<'a> {
    by: &'a Acquirer<'a>,
    batches: &'a [OffsetRange],
    /// From the first batch that was read to the last offset that may be handed out.
    bounds: OffsetRange,
    settings: &'a ShareSettings,
    lock_ends: Time,
}

impl SharePartition {
    /// Hands out what is available of `fetched`; the locks run from `now` on.
    ///
    /// # Errors
    ///
    /// A lock from before is in the way; what was acquired until then is not told to anybody, and freed by its locks.
    pub fn acquire(
        &mut self,
        by: &Acquirer<'_>,
        fetched: Fetched<'_>,
        settings: &ShareSettings,
        now: Time,
    ) -> Result<Vec<Acquired>, LockClash> {
        let (Some(first), Some(last)) = (fetched.batches.first(), fetched.batches.last()) else {
            return Ok(Vec::new());
        };
        if by.max_records <= 0 || last.last < self.start_offset {
            return Ok(Vec::new());
        }
        let (last_offset, max_records) = self.room(by, last.last, settings);
        if max_records <= 0 {
            return Ok(Vec::new());
        }
        let lock_ends = now.plus_ms(settings.record_lock_duration_ms);
        let bounds = OffsetRange::new(first.first, last_offset);
        let grant = Grant { by, batches: fetched.batches, bounds, settings, lock_ends };
        self.archive_vanished(by.fetch_offset, first.first);
        let base = self.aligned(first.first);
        let acquired = if self.keys_in(base.min(first.first), last_offset).is_empty() {
            self.acquire_new(&grant, OffsetRange::new(base, last_offset), max_records)
        } else {
            self.acquire_known(&grant, base, max_records)?
        };
        Ok(if acquired.is_empty() { acquired } else { self.without_aborted(acquired, fetched.aborted) })
    }

    /// Up to where and how many records may be handed out (`lastOffsetAndMaxRecordsToAcquire`). Where there is no room
    /// for more in flight, what is in flight may still be handed out again.
    fn room(&self, by: &Acquirer<'_>, last: Offset, settings: &ShareSettings) -> (Offset, i64) {
        let max_records = by.max_records.min(settings.max_record_locks - self.in_flight_count());
        if max_records > 0 || by.fetch_offset > self.end_offset {
            return (last, max_records);
        }
        let in_flight = self.end_offset - by.fetch_offset + 1;
        (last.min(self.end_offset), by.max_records.min(in_flight))
    }

    /// Where acquiring begins: at the bounds of a batch that is in flight, or at the start. Where something from before
    /// the start is still in flight, so may be what lies between.
    fn aligned(&self, base: Offset) -> Offset {
        match self.floor(base) {
            Some(floor) if floor.range.last >= base => floor.range.first,
            Some(_) => base,
            None => base.max(self.start_offset),
        }
    }

    /// Part of it is in flight already.
    fn acquire_known(
        &mut self,
        grant: &Grant<'_>,
        base: Offset,
        max_records: i64,
    ) -> Result<Vec<Acquired>, LockClash> {
        let last_offset = grant.bounds.last;
        let from = base.min(grant.bounds.first);
        let mut taken = Vec::new();
        let mut left = max_records;
        let mut gap = base;
        for key in self.keys_in(from, last_offset) {
            if left <= 0 {
                break;
            }
            if self.open_gap().is_some() {
                if gap < key {
                    let range = OffsetRange::up_to(gap, key);
                    left -= take(&mut taken, self.acquire_new(grant, range, left));
                }
                gap = self.batches[&key].range.last + 1;
                if left <= 0 {
                    break;
                }
            }
            let batch = self.batches.get_mut(&key).expect("its key was found");
            let throttle = batch.deliveries_of_available(grant.bounds) >= throttle_limit(grant.settings);
            if throttle && left < max_records {
                // What failed often is handed out by itself, in the next answer.
                left = 0;
                break;
            }
            let count = take(&mut taken, acquire_batch(batch, grant, left, throttle)?);
            left = if throttle && count > 0 { 0 } else { left - count };
        }
        let known_end = self.batches.range(from..=last_offset).next_back().map(|(_, batch)| batch.range.last);
        if let Some(end) = known_end.filter(|end| left > 0 && *end < last_offset) {
            let acquired = self.acquire_new(grant, OffsetRange::new(end + 1, last_offset), left);
            take(&mut taken, acquired);
        }
        if let Some(last) = taken.last() {
            self.move_gap(last.range.last + 1);
        }
        Ok(taken)
    }

    /// None of it is in flight (`acquireNewBatchRecords`).
    fn acquire_new(&mut self, grant: &Grant<'_>, range: OffsetRange, max_records: i64) -> Vec<Acquired> {
        // What was read may begin with a batch of which a part is done already.
        let is_fresh = self.batches.is_empty();
        let first = if is_fresh { range.first.max(self.end_offset) } else { range.first };
        let mut last = range.last;
        if max_records < last - first + 1 {
            last = end_of_batch(grant.batches, first + (max_records - 1));
            if self.open_gap().is_some() {
                last = last.min(range.last);
            }
        }
        let range = OffsetRange::new(first, last);
        let acquired = match grant.by.mode {
            AcquireMode::RecordLimit => vec![self.add_limited(grant, range, max_records)],
            AcquireMode::BatchOptimized => {
                let pieces = pieces(grant.batches, range, grant.by.batch_size);
                pieces.into_iter().map(|piece| self.add_whole(grant, piece)).collect()
            }
        };
        if self.batches.first_key_value().is_some_and(|(key, _)| *key == first) {
            self.start_offset = first;
        }
        self.end_offset = self.end_offset.max(last);
        let handed_out = acquired.last().map_or(last, |acquired| acquired.range.last);
        self.move_gap(handed_out + 1);
        acquired
    }

    fn add_whole(&mut self, grant: &Grant<'_>, range: OffsetRange) -> Acquired {
        let state = InFlight::acquired(grant.by.member, grant.lock_ends);
        self.batches.insert(range.first, InFlightBatch::whole(range, state));
        Acquired { range, delivery_count: 1 }
    }

    /// The whole batch is in flight, but no more than `max_records` of it are handed out.
    fn add_limited(&mut self, grant: &Grant<'_>, range: OffsetRange, max_records: i64) -> Acquired {
        if range.count() <= max_records {
            return self.add_whole(grant, range);
        }
        let handed_out = OffsetRange::up_to(range.first, range.first + max_records);
        let acquired = InFlight::acquired(grant.by.member, grant.lock_ends);
        let rest = InFlight::new(RecordState::Available, 0);
        let states = range.offsets().map(|offset| match handed_out.contains(offset) {
            true => acquired.clone(),
            false => rest.clone(),
        });
        let batch = InFlightBatch { range, states: States::Each(states.collect()) };
        self.batches.insert(range.first, batch);
        self.has_returned = true;
        Acquired { range: handed_out, delivery_count: 1 }
    }

    /// What was handed out up to `offset` is no gap any more.
    fn move_gap(&mut self, offset: Offset) {
        let is_open = |end: Offset| end == self.end_offset && offset <= end;
        self.gaps = self.gaps.filter(|gaps| is_open(gaps.end));
        if let Some(gaps) = &mut self.gaps {
            gaps.start = offset;
        }
    }
}

/// From which delivery count on records are handed out in smaller pieces (R-SHARE-9).
fn throttle_limit(settings: &ShareSettings) -> i16 {
    const LEAST: i16 = 2;
    // Half of it, rounded up.
    let limit = settings.delivery_count_limit;
    LEAST.max(limit / 2 + limit % 2)
}

/// Adds what was acquired; returns how many records that is.
fn take(taken: &mut Vec<Acquired>, acquired: Vec<Acquired>) -> i64 {
    let count = acquired.iter().map(|acquired| acquired.range.count()).sum();
    taken.extend(acquired);
    count
}

/// Of a batch in flight what is available.
fn acquire_batch(
    batch: &mut InFlightBatch,
    grant: &Grant<'_>,
    left: i64,
    throttle: bool,
) -> Result<Vec<Acquired>, LockClash> {
    let is_limited = grant.by.mode == AcquireMode::RecordLimit && batch.range.count() > left;
    let is_in_part = !batch.range.is_within(grant.bounds) || is_limited || throttle;
    match &mut batch.states {
        States::Whole(state) if !state.is_available() => Ok(Vec::new()),
        States::Whole(state) if !is_in_part => {
            state.acquire(grant.by.member, grant.lock_ends)?;
            Ok(vec![Acquired { range: batch.range, delivery_count: state.delivery_count() }])
        }
        _ => acquire_each(batch, grant, left),
    }
}

/// Offset by offset (`acquireSubsetBatchRecords`). A record that may be delivered once more goes alone, so that it does
/// not take others with it if it is the one that fails.
fn acquire_each(batch: &mut InFlightBatch, grant: &Grant<'_>, left: i64) -> Result<Vec<Acquired>, LockClash> {
    let limit = grant.settings.delivery_count_limit;
    let throttle_from = throttle_limit(grant.settings);
    let size = batch.range.count();
    batch.split();
    let most = if grant.by.mode == AcquireMode::RecordLimit { left } else { i64::MAX };
    let mut most_throttled = None;
    let mut count = 0;
    let mut acquired: Vec<Acquired> = Vec::new();
    for (range, state) in batch.parts_mut() {
        if range.first < grant.bounds.first || !state.is_available() {
            continue;
        }
        let deliveries = state.delivery_count();
        let is_last_try = limit > 2 && deliveries == limit - 1;
        if range.first > grant.bounds.last || is_last_try && count > 0 {
            break;
        }
        if deliveries >= throttle_from && most_throttled.is_none() {
            let halvings = u32::from((deliveries - throttle_from + 1).unsigned_abs());
            most_throttled = Some(size.checked_shr(halvings).unwrap_or(0).max(1));
        }
        state.acquire(grant.by.member, grant.lock_ends)?;
        count += 1;
        extend(&mut acquired, range, state.delivery_count());
        if is_last_try || count == most || Some(count) == most_throttled {
            break;
        }
    }
    Ok(acquired)
}

/// Joins what follows on the last piece and was delivered as often (`accumulateAcquiredRecords`).
fn extend(acquired: &mut Vec<Acquired>, range: OffsetRange, delivery_count: i16) {
    match acquired.last_mut() {
        Some(last) if last.range.last + 1 == range.first && last.delivery_count == delivery_count => {
            last.range.last = range.last;
        }
        _ => acquired.push(Acquired { range, delivery_count }),
    }
}

/// The end of the batch that holds `offset`; a gap ends at the offset itself.
fn end_of_batch(batches: &[OffsetRange], offset: Offset) -> Offset {
    let holder = batches.iter().take_while(|batch| batch.first <= offset).last();
    holder.filter(|batch| offset <= batch.last).map_or(offset, |batch| batch.last)
}

/// `range` at the bounds of batches, in pieces of at least `size` offsets (`createBatches`).
fn pieces(batches: &[OffsetRange], range: OffsetRange, size: i64) -> Vec<OffsetRange> {
    let mut pieces = Vec::new();
    let mut first = range.first;
    if range.count() > size {
        for batch in batches.iter().take_while(|batch| batch.first <= range.last) {
            if batch.first - first >= size {
                pieces.push(OffsetRange::up_to(first, batch.first));
                first = batch.first;
            }
        }
    }
    pieces.push(OffsetRange::new(first, range.last));
    pieces
}
