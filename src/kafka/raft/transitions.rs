//! From state to state (R-CTRL-2).
//!
//! Mirrors `QuorumState.transitionTo*` and the `poll*` methods of `KafkaRaftClient`.

use super::client::{RaftClient, RaftTimer};
use super::leader::Leader;
use super::messages::Outcome;
use super::state::{State, Votes};
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, LeaderEpoch};

impl RaftClient {
    /// Takes up the state that the disk left.
    pub fn start(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        let me = self.my_id();
        if self.epoch < self.log.last_epoch() {
            let epoch = self.log.last_epoch();
            self.become_unattached(now, epoch, None, fx);
        } else {
            let (leader, voted) = (self.state.leader(me), self.state.voted(me));
            let until = me.map(|_| self.election_end(now));
            let state = match (leader, until) {
                // Whoever led an epoch does not lead it again.
                (Some(leader), Some(until)) if Some(leader) == me => {
                    State::Resigned { unacknowledged: Default::default(), successors: Vec::new(), until }
                }
                (Some(leader), _) => self.following(now, leader, voted),
                (None, _) => State::Unattached { leader: None, voted, until },
            };
            self.take_state(state, fx);
        }
        self.arm_cleaning(now, fx);
        self.stand_alone(now, fx);
        self.drive(now, fx);
    }

    /// The only voter needs nobody's vote.
    fn stand_alone(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        if self.my_id().is_some() && self.voters.len() == 1 {
            self.become_prospective(now, fx);
        }
    }

    /// R-CTRL-3: random in [timeout, 2 x timeout).
    fn election_end(&mut self, now: Time) -> Time {
        let timeout_ms = self.config.election_timeout_ms;
        now.plus_ms(timeout_ms + self.random.below(timeout_ms as u64) as i64)
    }

    /// R-CTRL-6.
    pub(super) fn check_quorum_ms(&self) -> i64 {
        self.config.fetch_timeout_ms * 3 / 2
    }

    fn begin_ms(&self) -> i64 {
        (self.config.fetch_timeout_ms / 2).max(1)
    }

    fn following(&self, now: Time, leader: ControllerId, voted: Option<ControllerId>) -> State {
        let until = now.plus_ms(self.config.fetch_timeout_ms);
        State::Follower { leader, voted, has_fetched: false, until }
    }

    /// Enters a state: its patience begins, and what only a leader keeps goes.
    fn take_state(&mut self, state: State, fx: &mut Effects<RaftTimer>) {
        let led = matches!(self.state, State::Leader(_));
        self.state = state;
        self.downloading = None;
        self.arm(fx);
        if led {
            fx.cancel_timer(RaftTimer::Begin);
            self.refuse_parked(fx);
        }
    }

    /// The timer of the state's patience.
    pub(super) fn arm(&mut self, fx: &mut Effects<RaftTimer>) {
        match self.state.until() {
            Some(until) => fx.set_timer(RaftTimer::Patience, until),
            None => fx.cancel_timer(RaftTimer::Patience),
        }
    }

    /// What the others are told of an epoch in which this replica no longer leads.
    fn refuse_parked(&mut self, fx: &mut Effects<RaftTimer>) {
        let outcome =
            Outcome { error: ErrorCode::NotLeaderOrFollower, leader: self.leader(), epoch: self.epoch };
        for parked in std::mem::take(&mut self.parked) {
            fx.cancel_timer(RaftTimer::FetchDeadline(parked.request));
            fx.respond(parked.request, self.nothing_fetched(outcome));
        }
    }

    pub(super) fn become_unattached(
        &mut self,
        now: Time,
        epoch: LeaderEpoch,
        leader: Option<ControllerId>,
        fx: &mut Effects<RaftTimer>,
    ) {
        let me = self.my_id();
        let voted = if epoch == self.epoch { self.state.voted(me) } else { None };
        let until = me.map(|_| match &self.state {
            State::Unattached { until: Some(until), .. }
            | State::Candidate { until, .. }
            | State::Resigned { until, .. }
                if *until > now =>
            {
                *until
            }
            State::Prospective { until, votes, .. } if *until > now && !votes.is_lost() => *until,
            _ => self.election_end(now),
        });
        self.epoch = epoch;
        self.take_state(State::Unattached { leader, voted, until }, fx);
    }

    pub(super) fn become_follower(
        &mut self,
        now: Time,
        epoch: LeaderEpoch,
        leader: ControllerId,
        fx: &mut Effects<RaftTimer>,
    ) {
        let voted = if epoch == self.epoch { self.state.voted(self.my_id()) } else { None };
        self.epoch = epoch;
        self.rests_until = now;
        let state = self.following(now, leader, voted);
        self.take_state(state, fx);
    }

    fn become_prospective(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        let Some(me) = self.my_id() else { return };
        let leader = self.leader().filter(|leader| *leader != me);
        let voted = self.state.voted(Some(me));
        let (votes, until) = (Votes::new(me, &self.voters), self.election_end(now));
        self.take_state(State::Prospective { leader, voted, votes, until }, fx);
        self.count_votes(now, fx);
    }

    fn become_candidate(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        let Some(me) = self.my_id() else { return };
        self.epoch.0 += 1;
        let (votes, until) = (Votes::new(me, &self.voters), self.election_end(now));
        if self.voters.len() > 1 {
            fx.event(Event::QuorumCandidate { controller: me, epoch: self.epoch });
        }
        self.take_state(State::Candidate { votes, until }, fx);
        self.count_votes(now, fx);
    }

    /// Goes on as the votes say.
    pub(super) fn count_votes(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        match &self.state {
            State::Prospective { votes, .. } if votes.is_won() => self.become_candidate(now, fx),
            State::Prospective { votes, .. } if votes.is_lost() => self.give_up_nomination(now, fx),
            State::Candidate { votes, .. } if votes.is_won() => {
                let votes = votes.granted();
                self.become_leader(now, votes, fx);
            }
            // A candidate that has lost waits for the end of its election.
            _ => {}
        }
    }

    /// A nominee that nobody wants follows the leader it had, or waits for one.
    fn give_up_nomination(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        match self.leader().filter(|leader| Some(*leader) != self.my_id()) {
            Some(leader) => self.become_follower(now, self.epoch, leader, fx),
            None => self.become_unattached(now, self.epoch, None, fx),
        }
    }

    /// R-CTRL-5: a leader's first record is its own control record.
    fn become_leader(&mut self, now: Time, votes: Vec<ControllerId>, fx: &mut Effects<RaftTimer>) {
        let Some(me) = self.my_id() else { return };
        let others: Vec<ControllerId> = self.voters.iter().copied().filter(|id| *id != me).collect();
        let check_at = now.plus_ms(self.check_quorum_ms());
        let (start, committed) = (self.log.end_offset(), self.log.high_watermark());
        // A log of which nothing is known to be committed has nothing that this process could tell of.
        let committed = if self.log.is_told() { committed } else { start };
        let alone = others.is_empty();
        let leader = Leader::new(start, committed, others.into_iter(), check_at);
        let (epoch, voters) = (self.epoch, self.voters.clone());
        fx.event(Event::QuorumLeaderElected {
            controller: me,
            epoch,
            votes: votes.clone(),
            voters: voters.len() as i32,
        });
        self.take_state(State::Leader(leader), fx);
        self.log.append_leader_change(now, epoch, me, &voters, &votes, &self.log_config);
        self.advance(fx);
        if !alone {
            fx.set_timer(RaftTimer::Begin, now.plus_ms(self.begin_ms()));
        }
    }

    /// The process is about to stop: a leader gives up at once, so that nobody has to miss it first (R-CTRL-2).
    pub fn begin_shutdown(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        if self.voters.len() > 1 {
            self.become_resigned(now, None, fx);
            self.drive(now, fx);
        }
    }

    /// Whether the process may end: nobody else could lead, or somebody else does.
    pub fn may_end(&self) -> bool {
        self.voters.len() == 1 || self.leader().is_some_and(|leader| Some(leader) != self.my_id())
    }

    fn become_resigned(&mut self, now: Time, silent_ms: Option<i64>, fx: &mut Effects<RaftTimer>) {
        let (State::Leader(leader), Some(me)) = (&self.state, self.my_id()) else { return };
        let successors = leader.successors();
        let unacknowledged = successors.iter().copied().collect();
        fx.event(Event::QuorumLeaderResigned { controller: me, epoch: self.epoch, silent_ms });
        let until = self.election_end(now);
        self.take_state(State::Resigned { unacknowledged, successors, until }, fx);
    }

    /// The state's time is over.
    pub(super) fn lose_patience(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        if self.my_id().is_none() {
            return;
        }
        match &self.state {
            State::Unattached { .. } | State::Follower { .. } | State::Candidate { .. } => {
                self.become_prospective(now, fx);
            }
            State::Prospective { .. } => self.give_up_nomination(now, fx),
            State::Leader(_) => self.become_resigned(now, Some(self.check_quorum_ms()), fx),
            State::Resigned { .. } => {
                self.become_unattached(now, LeaderEpoch(self.epoch.0 + 1), None, fx);
                self.stand_alone(now, fx);
            }
        }
    }

    /// BeginQuorumEpoch goes again to voters that do not fetch.
    pub(super) fn begin_again(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        let silence_ms = self.begin_ms();
        if let State::Leader(leader) = &mut self.state {
            leader.begin_again(now, silence_ms);
            fx.set_timer(RaftTimer::Begin, now.plus_ms(silence_ms));
        }
    }

    /// What another replica says of epoch and leader, if it is news.
    pub(super) fn learn(
        &mut self,
        now: Time,
        epoch: LeaderEpoch,
        leader: Option<ControllerId>,
        fx: &mut Effects<RaftTimer>,
    ) {
        let leader = leader.filter(|leader| self.voters.contains(leader) && Some(*leader) != self.my_id());
        match leader {
            Some(leader) if epoch > self.epoch => self.become_follower(now, epoch, leader, fx),
            None if epoch > self.epoch => self.become_unattached(now, epoch, None, fx),
            Some(leader) if epoch == self.epoch && self.leader().is_none() => {
                self.become_follower(now, epoch, leader, fx);
            }
            _ => {}
        }
    }
}
