//! Which leader epoch wrote which offsets, and where two replicas part ways.
//!
//! Mirrors Kafka's `LeaderEpochFileCache` (KIP-101, KIP-279) and the decision of `AbstractFetcherThread`.
//!
//! **Invariant:** epochs and start offsets both ascend strictly.

use std::rc::Rc;

use crate::kafka::types::{LeaderEpoch, Offset};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    pub epoch: LeaderEpoch,
    pub start_offset: Offset,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Rc<Vec<EpochEntry>>,
}

impl LeaderEpochs {
    /// Oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The epochs of what is in `[from, to)`, each with the first offset that is of it.
    pub fn between(&self, from: Offset, to: Offset) -> Vec<(LeaderEpoch, Offset)> {
        let first = self.entries.partition_point(|entry| entry.start_offset <= from).saturating_sub(1);
        let spans = self.entries[first..].iter().take_while(|entry| entry.start_offset < to);
        spans.map(|entry| (entry.epoch, entry.start_offset.max(from))).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` starts at `start_offset`; entries that contradict it go (R-LOG-48).
    ///
    /// Panics if either is below 0.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) {
        assert!(epoch.0 >= 0 && start_offset.0 >= 0, "epoch {epoch} cannot start at {start_offset}");
        if self.latest().is_some_and(|latest| latest.epoch == epoch && start_offset >= latest.start_offset) {
            return;
        }
        let entries = Rc::make_mut(&mut self.entries);
        while entries.last().is_some_and(|last| last.epoch >= epoch || last.start_offset >= start_offset) {
            entries.pop();
        }
        entries.push(EpochEntry { epoch, start_offset });
    }

    /// The latest epoch that is not above `epoch`, and where it ends (R-LOG-49).
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end_offset: Offset) -> (LeaderEpoch, Offset) {
        const UNDEFINED: (LeaderEpoch, Offset) = (LeaderEpoch::NONE, Offset::UNKNOWN);
        if epoch == LeaderEpoch::NONE {
            return UNDEFINED;
        }
        if self.latest().is_some_and(|latest| latest.epoch == epoch) {
            return (epoch, log_end_offset);
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        match (self.entries[..higher].last(), self.entries.get(higher)) {
            (_, None) => UNDEFINED,
            (None, Some(higher)) => (epoch, higher.start_offset),
            (Some(lower), Some(higher)) => (lower.epoch, higher.start_offset),
        }
    }

    /// The epoch in which the record at `offset` was, or will be, written.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let later = self.entries.partition_point(|entry| entry.start_offset <= offset);
        self.entries[..later].last().map(|entry| entry.epoch)
    }

    /// Forgets the epochs that start at or after `end_offset` (R-LOG-50).
    pub fn truncate_from_end(&mut self, end_offset: Offset) {
        let kept = self.entries.partition_point(|entry| entry.start_offset < end_offset);
        if kept < self.entries.len() {
            Rc::make_mut(&mut self.entries).truncate(kept);
        }
    }

    /// Lets the epoch that holds `start_offset` start there and forgets the ones before it (R-LOG-50).
    pub fn truncate_from_start(&mut self, start_offset: Offset) {
        let dropped = self.entries.partition_point(|entry| entry.start_offset <= start_offset);
        if dropped > 0 {
            let entries = Rc::make_mut(&mut self.entries);
            entries.drain(..dropped - 1);
            entries[0].start_offset = start_offset;
        }
    }
}

/// Where a follower cuts its log when the leader, asked at `fetch_offset`, names an epoch and where that epoch ends in
/// its own log (R-REPL-36). The follower then fetches again from its new end, and may be told to cut once more.
pub fn truncation_point(
    own: &LeaderEpochs,
    log_end_offset: Offset,
    (epoch, end_offset): (LeaderEpoch, Offset),
    fetch_offset: Offset,
) -> Offset {
    if end_offset == Offset::UNKNOWN {
        return fetch_offset;
    }
    let up_to = if epoch == LeaderEpoch::NONE {
        end_offset
    } else {
        match own.end_offset_for(epoch, log_end_offset) {
            (_, Offset::UNKNOWN) => end_offset,
            (own_epoch, own_end) if own_epoch == epoch => own_end.min(end_offset),
            (_, own_end) => own_end,
        }
    };
    up_to.min(log_end_offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let entry = |&(epoch, start)| EpochEntry { epoch: LeaderEpoch(epoch), start_offset: Offset(start) };
        LeaderEpochs { entries: Rc::new(entries.iter().map(entry).collect()) }
    }

    /// `edit` turns the one list into the other.
    fn check_edit(before: &[(i32, i64)], edit: impl FnOnce(&mut LeaderEpochs), after: &[(i32, i64)]) {
        let mut edited = epochs(before);
        edit(&mut edited);
        assert_eq!(edited, epochs(after));
    }

    #[test]
    fn assign_drops_what_contradicts_it_r_log_48() {
        let assign = |epoch, start| move |e: &mut LeaderEpochs| e.assign(LeaderEpoch(epoch), Offset(start));
        check_edit(&[], assign(0, 0), &[(0, 0)]);
        check_edit(&[(0, 0)], assign(0, 5), &[(0, 0)]);
        check_edit(&[(0, 0)], assign(1, 10), &[(0, 0), (1, 10)]);
        check_edit(&[(0, 0), (1, 10)], assign(2, 10), &[(0, 0), (2, 10)]);
        check_edit(&[(0, 0), (3, 7)], assign(5, 6), &[(0, 0), (5, 6)]);
        check_edit(&[(0, 0), (3, 7)], assign(3, 6), &[(0, 0), (3, 6)]);
        check_edit(&[(0, 0), (3, 7)], assign(2, 9), &[(0, 0), (2, 9)]);
    }

    #[test]
    fn truncation_at_either_end_r_log_50() {
        let from_end = |offset| move |e: &mut LeaderEpochs| e.truncate_from_end(Offset(offset));
        check_edit(&[(0, 0), (1, 10), (4, 28)], from_end(29), &[(0, 0), (1, 10), (4, 28)]);
        check_edit(&[(0, 0), (1, 10), (4, 28)], from_end(28), &[(0, 0), (1, 10)]);
        check_edit(&[(0, 0), (1, 10), (4, 28)], from_end(7), &[(0, 0)]);
        check_edit(&[(0, 0), (1, 10)], from_end(0), &[]);
        let from_start = |offset| move |e: &mut LeaderEpochs| e.truncate_from_start(Offset(offset));
        check_edit(&[(1, 5), (3, 10)], from_start(4), &[(1, 5), (3, 10)]);
        check_edit(&[(1, 5), (3, 10)], from_start(7), &[(1, 7), (3, 10)]);
        check_edit(&[(1, 5), (3, 10)], from_start(10), &[(3, 10)]);
        check_edit(&[(1, 5), (3, 10)], from_start(12), &[(3, 12)]);
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next_r_log_49() {
        let own = epochs(&[(1, 30), (4, 33), (10, 53)]);
        for (asked, epoch, end) in [
            (-1, -1, -1),
            (0, 0, 30),
            (1, 1, 33),
            (3, 1, 33),
            (4, 4, 53),
            (9, 4, 53),
            (10, 10, 68),
            (11, -1, -1),
        ] {
            assert_eq!(own.end_offset_for(LeaderEpoch(asked), Offset(68)), (LeaderEpoch(epoch), Offset(end)));
        }
        assert_eq!(
            epochs(&[]).end_offset_for(LeaderEpoch(0), Offset(0)),
            (LeaderEpoch::NONE, Offset::UNKNOWN)
        );
    }

    fn check_truncation(own: &[(i32, i64)], log_end: i64, diverging: (i32, i64), to: i64) {
        let diverging = (LeaderEpoch(diverging.0), Offset(diverging.1));
        let fetch_offset = Offset(log_end);
        assert_eq!(truncation_point(&epochs(own), Offset(log_end), diverging, fetch_offset), Offset(to));
    }

    #[test]
    fn a_follower_cuts_where_the_histories_part_r_repl_36() {
        check_truncation(&[(0, 0)], 6, (0, 5), 5);
        check_truncation(&[(0, 0)], 6, (-1, -1), 6);
        check_truncation(&[(0, 0)], 6, (-1, 4), 4);
        check_truncation(&[], 6, (3, 4), 4);
        check_truncation(&[(5, 2)], 6, (3, 4), 2);
        check_truncation(&[(0, 0), (5, 3)], 6, (0, 5), 3);
        check_truncation(&[(0, 0)], 6, (7, 9), 6);
    }

    /// One round of EX-7: the leader's answer to a fetch, and where the follower cuts.
    fn reconcile(leader: &LeaderEpochs, follower: &mut LeaderEpochs, log_end: &mut Offset) -> (i32, i64) {
        let asked = follower.latest().unwrap().epoch;
        let diverging = leader.end_offset_for(asked, Offset(40));
        *log_end = truncation_point(follower, *log_end, diverging, *log_end);
        follower.truncate_from_end(*log_end);
        (diverging.0.0, diverging.1.0)
    }

    #[test]
    fn two_steps_reconcile_two_histories_ex_7() {
        let leader = epochs(&[(1, 0), (2, 18), (4, 25)]);
        let (mut follower, mut log_end) = (epochs(&[(1, 0), (3, 20)]), Offset(30));
        assert_eq!(reconcile(&leader, &mut follower, &mut log_end), (2, 25));
        assert_eq!((log_end, &follower), (Offset(20), &epochs(&[(1, 0)])));
        assert_eq!(reconcile(&leader, &mut follower, &mut log_end), (1, 18));
        assert_eq!((log_end, &follower), (Offset(18), &epochs(&[(1, 0)])));
        assert_eq!(
            leader.end_offset_for(LeaderEpoch(1), Offset(40)),
            (LeaderEpoch(1), Offset(18)),
            "data flows"
        );
    }
}
