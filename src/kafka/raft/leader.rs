//! What a leader knows of the replicas that fetch from it, and what follows for the commit point.
//!
//! Mirrors `LeaderState` (R-CTRL-5, R-CTRL-6).
//!
//! **Invariant:** the high watermark of an epoch only rises.

use std::collections::{BTreeMap, BTreeSet};

use super::state::majority;
use crate::kafka::plant::{self, Plant};
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, NodeId, Offset};

/// How far a replica has come, as its fetches tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Unknown until its first fetch.
    pub end_offset: Option<Offset>,
    pub last_fetch: Option<Time>,
    pub last_caught_up: Option<Time>,
    /// The leader's log end at its last fetch.
    leader_end: Offset,
}

impl Progress {
    /// The leader is always where its log ends.
    pub(super) fn of_leader(now: Time, end_offset: Offset) -> Progress {
        let mut progress = Progress::default();
        progress.note(now, end_offset, end_offset);
        progress
    }

    fn note(&mut self, now: Time, end_offset: Offset, leader_end: Offset) {
        if end_offset >= leader_end {
            self.last_caught_up = Some(now);
        } else if end_offset >= self.leader_end && self.last_fetch.is_some() {
            self.last_caught_up = self.last_fetch;
        }
        self.end_offset = Some(end_offset);
        self.last_fetch = Some(now);
        self.leader_end = leader_end;
    }
}

#[derive(Clone, Debug)]
pub struct Leader {
    /// The log's end when this epoch began.
    epoch_start: Offset,
    /// The log's end of which this replica knew at its election that it is committed.
    committed_before: Offset,
    high_watermark: Option<Offset>,
    /// The other voters.
    voters: BTreeMap<ControllerId, Progress>,
    observers: BTreeMap<NodeId, Progress>,
    /// Voters heard since the check began.
    heard: BTreeSet<ControllerId>,
    check_at: Option<Time>,
    /// Voters that are to be told of this leader.
    begin: BTreeSet<ControllerId>,
}

impl Leader {
    /// `check_at`: when a majority must have been heard; a quorum of one needs nobody.
    pub fn new(
        epoch_start: Offset,
        committed_before: Offset,
        others: impl Iterator<Item = ControllerId>,
        check_at: Time,
    ) -> Leader {
        let voters: BTreeMap<_, _> = others.map(|id| (id, Progress::default())).collect();
        Leader {
            epoch_start,
            committed_before,
            high_watermark: None,
            begin: voters.keys().copied().collect(),
            check_at: (!voters.is_empty()).then_some(check_at),
            voters,
            observers: BTreeMap::new(),
            heard: BTreeSet::new(),
        }
    }

    pub fn committed_before(&self) -> Offset {
        self.committed_before
    }

    /// `None` until a record of this epoch is committed.
    pub fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    pub fn check_at(&self) -> Option<Time> {
        self.check_at
    }

    pub fn voter(&self, id: ControllerId) -> Option<&Progress> {
        self.voters.get(&id)
    }

    pub fn observers(&self) -> impl Iterator<Item = (NodeId, &Progress)> {
        self.observers.iter().map(|(id, progress)| (*id, progress))
    }

    /// A replica that ends at `end_offset` fetches. R-CTRL-6: when a majority has been heard, the wait for the next one
    /// begins, for `check_ms`.
    pub fn note_fetch(
        &mut self,
        now: Time,
        replica: NodeId,
        end_offset: Offset,
        leader_end: Offset,
        check_ms: i64,
    ) {
        let voter = match replica {
            NodeId::Controller(id) => self.voters.get_mut(&id).map(|progress| (id, progress)),
            _ => None,
        };
        let Some((id, progress)) = voter else {
            return self.observers.entry(replica).or_default().note(now, end_offset, leader_end);
        };
        progress.note(now, end_offset, leader_end);
        self.note_heard(now, id, check_ms);
    }

    /// A voter is alive and follows this leader.
    pub fn note_heard(&mut self, now: Time, voter: ControllerId, check_ms: i64) {
        if !self.voters.contains_key(&voter) {
            return;
        }
        self.heard.insert(voter);
        // The leader itself is one of them.
        if self.heard.len() + 1 >= majority(self.voters.len() + 1) {
            self.heard.clear();
            self.check_at = Some(now.plus_ms(check_ms));
        }
    }

    /// The new high watermark, if it rises with a log that ends at `own_end` (R-CTRL-5).
    pub fn advance(&mut self, own_end: Offset) -> Option<Offset> {
        let mut ends: Vec<Offset> =
            self.voters.values().map(|voter| voter.end_offset.unwrap_or(Offset::UNKNOWN)).collect();
        ends.push(own_end);
        if plant::is(Plant::MetadataCommitWithoutMajority) {
            ends = vec![own_end];
        }
        let committed = commit_point(ends, self.epoch_start)?;
        if self.high_watermark.is_some_and(|known| committed <= known) {
            return None;
        }
        self.high_watermark = Some(committed);
        Some(committed)
    }

    /// The voters that are told of this leader next: those from which nothing was heard for `silence_ms`.
    pub fn begin_again(&mut self, now: Time, silence_ms: i64) {
        let silent =
            |progress: &Progress| progress.last_fetch.is_none_or(|at| now.ms_since(at) >= silence_ms);
        self.begin = self.voters.iter().filter(|(_, progress)| silent(progress)).map(|(id, _)| *id).collect();
    }

    pub fn to_begin(&self) -> Vec<ControllerId> {
        self.begin.iter().copied().collect()
    }

    pub fn begun(&mut self, voter: ControllerId) {
        self.begin.remove(&voter);
    }

    /// The other voters, the most advanced first.
    pub fn successors(&self) -> Vec<ControllerId> {
        let mut ids: Vec<ControllerId> = self.voters.keys().copied().collect();
        ids.sort_by_key(|id| std::cmp::Reverse(self.voters[id].end_offset));
        ids
    }
}

/// R-CTRL-5: the offset that a majority has, once it is past the start of the leader's epoch.
fn commit_point(mut ends: Vec<Offset>, epoch_start: Offset) -> Option<Offset> {
    ends.sort_by(|a, b| b.cmp(a));
    Some(ends[ends.len() / 2]).filter(|committed| *committed > epoch_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ends: &[i64], epoch_start: i64, expected: Option<i64>) {
        let ends = ends.iter().copied().map(Offset).collect();
        assert_eq!(commit_point(ends, Offset(epoch_start)), expected.map(Offset));
    }

    #[test]
    fn what_a_majority_has_is_committed_r_ctrl_5() {
        check(&[7], 6, Some(7));
        check(&[9, 7, 8], 5, Some(8));
        check(&[9, -1, -1], 5, None);
        check(&[9, 9, -1, -1, 7], 5, Some(7));
    }

    #[test]
    fn records_of_earlier_epochs_are_committed_only_with_one_of_this_epoch_r_ctrl_5() {
        check(&[9, 8, 8], 8, None);
        check(&[9, 9, 8], 8, Some(9));
    }

    #[test]
    fn the_check_begins_anew_when_a_majority_was_heard_r_ctrl_6() {
        let ids = [102, 103, 104, 105].map(ControllerId);
        let mut leader = Leader::new(Offset(0), Offset(0), ids.into_iter(), Time::from_ms(3_000));
        let mut fetch = |ms, id: ControllerId| {
            leader.note_fetch(Time::from_ms(ms), id.into(), Offset(1), Offset(1), 3_000);
            leader.check_at().map(|at| at.ms())
        };
        assert_eq!(fetch(100, ids[0]), Some(3_000));
        assert_eq!(fetch(200, ids[0]), Some(3_000), "the same voter again is no majority");
        assert_eq!(fetch(300, ids[1]), Some(3_300));
        assert_eq!(fetch(400, ids[2]), Some(3_300));
    }

    #[test]
    fn the_most_advanced_voter_is_the_first_successor() {
        let ids = [102, 103].map(ControllerId);
        let mut leader = Leader::new(Offset(0), Offset(0), ids.into_iter(), Time::ZERO);
        leader.note_fetch(Time::ZERO, ids[1].into(), Offset(4), Offset(5), 3_000);
        assert_eq!(leader.successors(), [ids[1], ids[0]]);
    }
}
