//! Where a replica stands in the quorum, and the decisions that follow from it alone.
//!
//! Mirrors `QuorumState`, `EpochElection` and the states' `canGrantVote` (R-CTRL-2, R-CTRL-4).
//!
//! **Invariant:** what [`ElectionState`] holds is enough for a replica that starts again never to vote twice in an
//! epoch.

use std::collections::BTreeSet;

use super::leader::Leader;
use crate::kafka::plant::{self, Plant};
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, LeaderEpoch, Offset};

/// A replica's state in its present epoch. `until`: when patience ends; observers have no end of it.
#[derive(Clone, Debug)]
pub enum State {
    /// Knows of no leader, or cannot follow it yet.
    Unattached {
        leader: Option<ControllerId>,
        voted: Option<ControllerId>,
        until: Option<Time>,
    },
    /// Asks whether it would be elected, without raising the epoch (KIP-996).
    Prospective {
        leader: Option<ControllerId>,
        voted: Option<ControllerId>,
        votes: Votes,
        until: Time,
    },
    /// Stands for election and has voted for itself.
    Candidate {
        votes: Votes,
        until: Time,
    },
    Leader(Leader),
    Follower {
        leader: ControllerId,
        voted: Option<ControllerId>,
        /// Has had an answer from this leader.
        has_fetched: bool,
        until: Time,
    },
    /// Led this epoch and does so no more.
    Resigned {
        /// Voters that do not know of it yet.
        unacknowledged: BTreeSet<ControllerId>,
        /// Who should stand for election, the most advanced first.
        successors: Vec<ControllerId>,
        until: Time,
    },
}

/// The name of a state, for those who watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuorumRole {
    Unattached,
    Prospective,
    Candidate,
    Leader,
    Follower,
    Resigned,
}

impl QuorumRole {
    pub fn name(self) -> &'static str {
        match self {
            QuorumRole::Unattached => "unattached",
            QuorumRole::Prospective => "prospective",
            QuorumRole::Candidate => "candidate",
            QuorumRole::Leader => "leader",
            QuorumRole::Follower => "follower",
            QuorumRole::Resigned => "resigned",
        }
    }
}

/// What a replica writes to its disk before it acts on it (the `quorum-state` file).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElectionState {
    pub epoch: LeaderEpoch,
    pub leader: Option<ControllerId>,
    pub voted: Option<ControllerId>,
}

impl State {
    pub fn role(&self) -> QuorumRole {
        match self {
            State::Unattached { .. } => QuorumRole::Unattached,
            State::Prospective { .. } => QuorumRole::Prospective,
            State::Candidate { .. } => QuorumRole::Candidate,
            State::Leader(_) => QuorumRole::Leader,
            State::Follower { .. } => QuorumRole::Follower,
            State::Resigned { .. } => QuorumRole::Resigned,
        }
    }

    /// Whom a voter `me` in this state takes for the leader of its epoch.
    pub fn leader(&self, me: Option<ControllerId>) -> Option<ControllerId> {
        match self {
            State::Unattached { leader, .. } | State::Prospective { leader, .. } => *leader,
            State::Follower { leader, .. } => Some(*leader),
            State::Candidate { .. } => None,
            State::Leader(_) | State::Resigned { .. } => me,
        }
    }

    pub fn voted(&self, me: Option<ControllerId>) -> Option<ControllerId> {
        match self {
            State::Unattached { voted, .. }
            | State::Prospective { voted, .. }
            | State::Follower { voted, .. } => *voted,
            State::Candidate { .. } | State::Leader(_) => me,
            State::Resigned { .. } => None,
        }
    }

    /// When patience ends.
    pub fn until(&self) -> Option<Time> {
        match self {
            State::Unattached { until, .. } => *until,
            State::Prospective { until, .. }
            | State::Candidate { until, .. }
            | State::Follower { until, .. }
            | State::Resigned { until, .. } => Some(*until),
            State::Leader(leader) => leader.check_at(),
        }
    }

    /// R-CTRL-4. `up_to_date`: the candidate's log is not behind this one.
    pub fn grants_vote(&self, candidate: ControllerId, up_to_date: bool, pre_vote: bool) -> bool {
        if plant::is(Plant::TwoVotesAnEpoch) {
            return up_to_date;
        }
        match self {
            State::Unattached { .. } | State::Prospective { .. } if pre_vote => up_to_date,
            State::Unattached { leader, voted, .. } | State::Prospective { leader, voted, .. } => {
                match (voted, leader) {
                    (Some(voted), _) => *voted == candidate,
                    (None, Some(_)) => false,
                    (None, None) => up_to_date,
                }
            }
            State::Follower { has_fetched, .. } => pre_vote && !has_fetched && up_to_date,
            State::Candidate { .. } | State::Resigned { .. } => pre_vote && up_to_date,
            State::Leader(_) => false,
        }
    }
}

/// Whether a log that ends so is not behind one that ends at `own` (R-CTRL-4).
pub fn is_up_to_date(theirs: (LeaderEpoch, Offset), own: (LeaderEpoch, Offset)) -> bool {
    theirs >= own
}

/// How many of `voters` are a majority.
pub fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// The votes of one election, of which the first is the nominee's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Votes {
    open: BTreeSet<ControllerId>,
    granted: BTreeSet<ControllerId>,
    voters: usize,
}

impl Votes {
    pub fn new(me: ControllerId, voters: &[ControllerId]) -> Votes {
        let open = voters.iter().copied().filter(|voter| *voter != me).collect();
        Votes { open, granted: BTreeSet::from([me]), voters: voters.len() }
    }

    pub fn note(&mut self, voter: ControllerId, granted: bool) {
        if self.open.remove(&voter) && granted {
            self.granted.insert(voter);
        }
    }

    /// Voters that have not answered.
    pub fn open(&self) -> Vec<ControllerId> {
        self.open.iter().copied().collect()
    }

    pub fn granted(&self) -> Vec<ControllerId> {
        self.granted.iter().copied().collect()
    }

    pub fn is_won(&self) -> bool {
        self.granted.len() >= majority(self.voters)
    }

    /// Even all the open votes would not do.
    pub fn is_lost(&self) -> bool {
        self.granted.len() + self.open.len() < majority(self.voters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ControllerId = ControllerId(101);
    const B: ControllerId = ControllerId(102);
    const C: ControllerId = ControllerId(103);

    fn unattached(leader: Option<ControllerId>, voted: Option<ControllerId>) -> State {
        State::Unattached { leader, voted, until: None }
    }

    fn prospective(leader: Option<ControllerId>, voted: Option<ControllerId>) -> State {
        State::Prospective { leader, voted, votes: Votes::new(B, &[A, B, C]), until: Time::ZERO }
    }

    fn follower(has_fetched: bool) -> State {
        State::Follower { leader: A, voted: None, has_fetched, until: Time::ZERO }
    }

    /// What B in `state` says to C: (vote, pre-vote), each to an up-to-date log and to one that is behind.
    fn check(state: State, vote: [bool; 2], pre_vote: [bool; 2]) {
        let said = |pre| [state.grants_vote(C, true, pre), state.grants_vote(C, false, pre)];
        assert_eq!((said(false), said(true)), (vote, pre_vote), "{state:?}");
    }

    #[test]
    fn a_vote_is_granted_once_an_epoch_to_a_log_that_is_not_behind_r_ctrl_4() {
        for free in [unattached(None, None), prospective(None, None)] {
            check(free, [true, false], [true, false]);
        }
        for led in [unattached(Some(A), None), prospective(Some(A), None)] {
            check(led, [false, false], [true, false]);
        }
        for bound in [unattached(None, Some(A)), prospective(None, Some(A))] {
            check(bound, [false, false], [true, false]);
        }
        check(unattached(None, Some(C)), [true, true], [true, false]);
    }

    #[test]
    fn a_follower_that_hears_its_leader_grants_no_pre_vote_r_ctrl_4() {
        check(follower(true), [false, false], [false, false]);
        check(follower(false), [false, false], [true, false]);
    }

    #[test]
    fn a_candidate_and_one_that_resigned_grant_pre_votes_only() {
        let votes = Votes::new(B, &[A, B, C]);
        check(State::Candidate { votes, until: Time::ZERO }, [false, false], [true, false]);
        let (unacknowledged, successors) = (BTreeSet::new(), Vec::new());
        let resigned = State::Resigned { unacknowledged, successors, until: Time::ZERO };
        check(resigned, [false, false], [true, false]);
    }

    #[test]
    fn a_log_is_compared_by_its_last_epoch_first() {
        let end = |epoch, offset| (LeaderEpoch(epoch), Offset(offset));
        for (theirs, own, expected) in [
            (end(2, 5), end(2, 5), true),
            (end(2, 4), end(2, 5), false),
            (end(3, 1), end(2, 9), true),
            (end(2, 9), end(3, 1), false),
        ] {
            assert_eq!(is_up_to_date(theirs, own), expected, "{theirs:?} {own:?}");
        }
    }

    fn check_votes(voters: i32, said: &[bool], won: bool, lost: bool) {
        let ids: Vec<ControllerId> = (1..=voters).map(ControllerId).collect();
        let mut votes = Votes::new(ids[0], &ids);
        for (voter, granted) in ids[1..].iter().zip(said) {
            votes.note(*voter, *granted);
        }
        assert_eq!((votes.is_won(), votes.is_lost()), (won, lost), "{voters} voters, {said:?}");
    }

    #[test]
    fn an_election_needs_more_than_half_of_all_voters() {
        check_votes(1, &[], true, false);
        check_votes(3, &[], false, false);
        check_votes(3, &[true], true, false);
        check_votes(3, &[false], false, false);
        check_votes(3, &[false, false], false, true);
        check_votes(5, &[true, false, false], false, false);
        check_votes(5, &[true, true], true, false);
        check_votes(5, &[true, false, false, false], false, true);
    }

    #[test]
    fn an_answer_counts_once() {
        let mut votes = Votes::new(A, &[A, B, C]);
        votes.note(B, false);
        votes.note(B, true);
        assert!(!votes.is_won());
    }
}
