//! Copies of the run, which are dear: they thin out with their distance from the present.
//!
//! **Invariant:** the first is kept for ever, and there are never more than [`LIMIT`].

use super::branch::BranchId;
use crate::lab::session::{Position, Session};

/// So many are kept.
pub const LIMIT: usize = 128;

struct Checkpoint {
    branch: BranchId,
    run: Session,
}

#[derive(Default)]
pub struct Checkpoints {
    /// By branch, then by position.
    kept: Vec<Checkpoint>,
}

impl Checkpoints {
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Keeps a copy, and lets one go if there are too many.
    pub fn keep(&mut self, branch: BranchId, run: &Session) {
        let place = |kept: &Checkpoint| (kept.branch, kept.run.position());
        let index = match self.kept.binary_search_by_key(&(branch, run.position()), place) {
            Ok(_) => return,
            Err(index) => index,
        };
        self.kept.insert(index, Checkpoint { branch, run: run.checkpoint() });
        if self.kept.len() > LIMIT {
            let places: Vec<_> = self.kept.iter().map(|kept| (kept.branch, kept.run.events_done())).collect();
            self.kept.remove(least_missed(&places, run.events_done()));
        }
    }

    /// Those of this lineage.
    pub fn of(&self, lineage: Vec<(BranchId, Position)>) -> impl Iterator<Item = &Session> {
        let belongs = move |kept: &&Checkpoint| {
            let up_to = lineage.iter().find(|(branch, _)| *branch == kept.branch).map(|(_, up_to)| *up_to);
            up_to.is_some_and(|up_to| kept.run.position() <= up_to)
        };
        self.kept.iter().filter(belongs).map(|kept| &kept.run)
    }

    /// The latest in this lineage whose position fits, as that of all before a fitting one does.
    pub fn latest(
        &self,
        lineage: Vec<(BranchId, Position)>,
        fit: impl Fn(Position) -> bool,
    ) -> Option<&Session> {
        let of_branch = lineage.into_iter().filter_map(|(branch, up_to)| {
            let mut kept = self.kept.iter().filter(move |kept| kept.branch == branch);
            kept.rfind(|kept| kept.run.position() <= up_to && fit(kept.run.position()))
        });
        of_branch.map(|kept| &kept.run).max_by_key(|run| run.position())
    }
}

/// The index of the one that is missed least: the gap that it leaves is small for its distance from the present. Never the
/// first.
fn least_missed(places: &[(BranchId, u64)], present: u64) -> usize {
    let cost = |index: usize| {
        let (branch, events) = places[index];
        let before = places[index - 1];
        // The first of a branch is missed as if the one before were the start of the run.
        let from = if before.0 == branch { before.1 } else { 0 };
        let to = places.get(index + 1).filter(|after| after.0 == branch).map_or(events, |after| after.1);
        (to - from, present.abs_diff(events) + 1)
    };
    let is_less = |(gap, distance): (u64, u64), (other_gap, other_distance): (u64, u64)| {
        u128::from(gap) * u128::from(other_distance) < u128::from(other_gap) * u128::from(distance)
    };
    let mut least = 1;
    for index in 2..places.len() {
        if is_less(cost(index), cost(least)) {
            least = index;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a run that leaves one every `interval` events.
    fn left(interval: u64, events: u64, limit: usize) -> Vec<u64> {
        let mut kept: Vec<(BranchId, u64)> = Vec::new();
        for present in (0..=events).step_by(interval as usize) {
            kept.push((BranchId::FIRST, present));
            if kept.len() > limit {
                kept.remove(least_missed(&kept, present));
            }
        }
        kept.into_iter().map(|(_, events)| events).collect()
    }

    #[test]
    fn they_thin_out_with_their_distance_from_the_present() {
        assert_eq!(left(10, 70, 8), [0, 10, 20, 30, 40, 50, 60, 70]);
        let kept = left(10, 10_000, 16);
        assert_eq!((kept.len(), kept[0], kept[15]), (16, 0, 10_000));
        let gaps: Vec<u64> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (gap, from) in gaps.iter().zip(&kept) {
            assert!(*gap <= (10_000 - from) + 10, "{gaps:?}: none is longer than it is far away");
        }
        assert!(gaps.iter().rev().take(4).sum::<u64>() <= 200, "{gaps:?}: the newest are close together");
    }
}
