//! Persisted states are put together (`PersisterStateBatchCombiner`).
//!
//! **Invariant:** of two states of one offset the one with more deliveries counts, then the later one of its life.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::super::range::OffsetRange;
use super::super::state::StateBatch;
use crate::kafka::types::Offset;

/// In the order in which batches are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sorted(StateBatch);

impl Sorted {
    fn rank(&self) -> (i16, i8) {
        (self.0.delivery_count, self.0.state.id())
    }
}

impl Ord for Sorted {
    fn cmp(&self, other: &Sorted) -> Ordering {
        (self.0.range, self.rank()).cmp(&(other.0.range, other.rank()))
    }
}

impl PartialOrd for Sorted {
    fn partial_cmp(&self, other: &Sorted) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is known and what is new, without what lies below `start` and without overlaps, in order.
pub fn combine(known: &[StateBatch], new: &[StateBatch], start: Option<Offset>) -> Vec<StateBatch> {
    let batches = known.iter().chain(new).filter_map(|batch| match start {
        Some(start) if batch.range.last < start => None,
        Some(start) => {
            let range = OffsetRange { first: batch.range.first.max(start), ..batch.range };
            Some(StateBatch { range, ..*batch })
        }
        None => Some(*batch),
    });
    let mut sorted: BTreeSet<Sorted> = batches.map(Sorted).collect();
    let mut combined = Vec::new();
    while let Some(first) = sorted.pop_first() {
        match sorted.pop_first() {
            Some(second) if touches(first, second) => sorted.extend(merge(first, second)),
            second => {
                combined.push(first.0);
                sorted.extend(second);
            }
        }
    }
    combined
}

/// They overlap, or are of one state and leave no gap.
fn touches(first: Sorted, second: Sorted) -> bool {
    let end = first.0.range.last;
    second.0.range.first <= end || end + 1 == second.0.range.first && first.rank() == second.rank()
}

fn merge(first: Sorted, second: Sorted) -> Vec<Sorted> {
    if first.rank() == second.rank() {
        let last = first.0.range.last.max(second.0.range.last);
        return vec![Sorted(StateBatch { range: OffsetRange { last, ..first.0.range }, ..first.0 })];
    }
    let (winner, loser) = if second.rank() > first.rank() { (second, first) } else { (first, second) };
    let left = loser.0.range.without(winner.0.range);
    left.map(|range| Sorted(StateBatch { range, ..loser.0 })).chain([winner]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::share::state::RecordState;
    use crate::kafka::share::state::RecordState::*;

    fn batch(first: i64, last: i64, state: RecordState, delivery_count: i16) -> StateBatch {
        StateBatch { range: OffsetRange::new(Offset(first), Offset(last)), state, delivery_count }
    }

    #[track_caller]
    fn check(known: &[StateBatch], new: &[StateBatch], start: i64, expected: &[StateBatch]) {
        assert_eq!(combine(known, new, Some(Offset(start))), expected);
    }

    #[test]
    fn what_lies_below_the_start_goes() {
        let known = [batch(0, 4, Acknowledged, 1), batch(5, 9, Available, 1)];
        check(&known, &[], 7, &[batch(7, 9, Available, 1)]);
        assert_eq!(combine(&known, &[], None), known, "the start stays as it is");
    }

    #[test]
    fn neighbours_of_one_state_are_one_batch() {
        let known = [batch(0, 4, Acknowledged, 1), batch(8, 9, Acknowledged, 1)];
        check(&known, &[batch(5, 7, Acknowledged, 1)], 0, &[batch(0, 9, Acknowledged, 1)]);
        check(
            &known,
            &[batch(5, 7, Acknowledged, 2)],
            0,
            &[known[0], batch(5, 7, Acknowledged, 2), known[1]],
        );
        check(&known, &[], 0, &known);
    }

    #[test]
    fn more_deliveries_count_then_the_later_state() {
        let old = batch(0, 9, Available, 1);
        let within = batch(3, 5, Available, 2);
        check(&[old], &[within], 0, &[batch(0, 2, Available, 1), within, batch(6, 9, Available, 1)]);
        check(&[batch(0, 9, Available, 3)], &[within], 0, &[batch(0, 9, Available, 3)]);
        check(&[old], &[batch(0, 9, Archived, 1)], 0, &[batch(0, 9, Archived, 1)]);
        check(
            &[batch(0, 9, Acknowledged, 1)],
            &[batch(0, 3, Available, 1)],
            0,
            &[batch(0, 9, Acknowledged, 1)],
        );
        check(
            &[old],
            &[batch(5, 12, Acknowledged, 1)],
            0,
            &[batch(0, 4, Available, 1), batch(5, 12, Acknowledged, 1)],
        );
        check(
            &[batch(0, 6, Acknowledged, 2)],
            &[batch(5, 12, Archived, 1)],
            0,
            &[batch(0, 6, Acknowledged, 2), batch(7, 12, Archived, 1)],
        );
    }

    #[test]
    fn many_at_once_come_out_in_order() {
        let known = [batch(0, 9, Available, 1), batch(20, 29, Acknowledged, 1)];
        let new = [batch(2, 3, Acknowledged, 1), batch(8, 21, Available, 2)];
        check(
            &known,
            &new,
            1,
            &[
                batch(1, 1, Available, 1),
                batch(2, 3, Acknowledged, 1),
                batch(4, 7, Available, 1),
                batch(8, 21, Available, 2),
                batch(22, 29, Acknowledged, 1),
            ],
        );
    }
}
