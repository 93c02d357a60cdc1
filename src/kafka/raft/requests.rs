//! What a voter answers.
//!
//! Mirrors the `handle*Request` methods of `KafkaRaftClient` (R-CTRL-4, R-CTRL-5).

use kafka_protocol::messages as m;

use super::client::{ParkedFetch, RaftClient, RaftTimer};
use super::log::Standing;
use super::messages::{self, Ballot, Chunk, Fetched, Outcome, Place};
use super::state::{State, is_up_to_date};
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::event::Event;
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ControllerId, LeaderEpoch, NodeId};

impl RaftClient {
    /// Serves a request of the quorum; `false` for any other.
    pub fn on_request(
        &mut self,
        now: Time,
        id: RequestId,
        request: &Request,
        fx: &mut Effects<RaftTimer>,
    ) -> bool {
        match request {
            Request::Vote(request) => {
                let response = self.on_vote(now, request, fx);
                fx.respond(id, response);
            }
            Request::BeginQuorumEpoch(request) => {
                let response = self.on_begin(now, request, fx);
                fx.respond(id, response);
            }
            Request::EndQuorumEpoch(request) => {
                let response = self.on_end(now, request, fx);
                fx.respond(id, response);
            }
            Request::Fetch(request) => self.on_fetch(now, id, request, fx),
            Request::DescribeQuorum(request) => fx.respond(id, self.describe_quorum(now, request)),
            Request::FetchSnapshot(request) => {
                let response = self.on_fetch_snapshot(now, request);
                self.arm(fx);
                fx.respond(id, response);
            }
            _ => return false,
        }
        self.drive(now, fx);
        true
    }

    fn outcome(&self, error: ErrorCode) -> Outcome {
        Outcome { error, leader: self.leader(), epoch: self.epoch }
    }

    fn on_vote(
        &mut self,
        now: Time,
        request: &m::VoteRequest,
        fx: &mut Effects<RaftTimer>,
    ) -> m::VoteResponse {
        let Some(ballot) = messages::ballot(request) else {
            return messages::vote_response(self.outcome(ErrorCode::InvalidRequest), false);
        };
        if let Err(error) = self.check_ballot(&ballot) {
            return messages::vote_response(self.outcome(error), false);
        }
        if ballot.epoch > self.epoch {
            self.become_unattached(now, ballot.epoch, None, fx);
        }
        let up_to_date = is_up_to_date((ballot.last_epoch, ballot.end_offset), self.log_end());
        let granted = self.state.grants_vote(ballot.nominee, up_to_date, ballot.pre_vote);
        if granted && !ballot.pre_vote {
            self.note_vote(ballot.nominee, fx);
        }
        messages::vote_response(self.outcome(ErrorCode::None), granted)
    }

    fn check_ballot(&self, ballot: &Ballot) -> Result<(), ErrorCode> {
        // A pre-vote does not raise the epoch, so the nominee's log may hold records of it.
        let is_illegal = match ballot.pre_vote {
            true => ballot.last_epoch > ballot.epoch,
            false => ballot.last_epoch >= ballot.epoch,
        };
        if is_illegal || ballot.last_epoch < LeaderEpoch(0) || !self.voters.contains(&ballot.nominee) {
            return Err(ErrorCode::InvalidRequest);
        }
        if ballot.epoch < self.epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        Ok(())
    }

    fn note_vote(&mut self, nominee: ControllerId, fx: &mut Effects<RaftTimer>) {
        if let State::Unattached { voted, .. } | State::Prospective { voted, .. } = &mut self.state
            && voted.is_none()
        {
            *voted = Some(nominee);
            if let Some(voter) = self.my_id() {
                fx.event(Event::QuorumVoted { voter, candidate: nominee, epoch: self.epoch });
            }
        }
    }

    fn on_begin(
        &mut self,
        now: Time,
        request: &m::BeginQuorumEpochRequest,
        fx: &mut Effects<RaftTimer>,
    ) -> m::BeginQuorumEpochResponse {
        let error = match messages::beginning(request) {
            None => ErrorCode::InvalidRequest,
            Some((_, epoch)) if epoch < self.epoch => ErrorCode::FencedLeaderEpoch,
            Some((leader, epoch)) => {
                self.learn(now, epoch, Some(leader), fx);
                ErrorCode::None
            }
        };
        messages::begin_response(self.outcome(error))
    }

    fn on_end(
        &mut self,
        now: Time,
        request: &m::EndQuorumEpochRequest,
        fx: &mut Effects<RaftTimer>,
    ) -> m::EndQuorumEpochResponse {
        let error = match messages::ending(request) {
            None => ErrorCode::InvalidRequest,
            Some((_, epoch, _)) if epoch < self.epoch => ErrorCode::FencedLeaderEpoch,
            Some((resigned, epoch, successors)) => {
                self.learn(now, epoch, Some(resigned), fx);
                let wait_ms = self.succession_ms(&successors);
                if let State::Follower { leader, until, .. } = &mut self.state
                    && *leader == resigned
                {
                    *until = now.plus_ms(wait_ms);
                    self.arm(fx);
                }
                ErrorCode::None
            }
        };
        messages::end_response(self.outcome(error))
    }

    /// How long a voter lets better ones stand for election first.
    fn succession_ms(&self, successors: &[ControllerId]) -> i64 {
        let longest_ms = self.config.election_backoff_max_ms;
        let place = successors.iter().position(|id| Some(*id) == self.my_id());
        match place {
            Some(0) => 0,
            Some(place) => ((longest_ms >> (successors.len() - 1)) << (place - 1)).min(longest_ms),
            None => longest_ms,
        }
    }

    fn on_fetch(&mut self, now: Time, id: RequestId, request: &m::FetchRequest, fx: &mut Effects<RaftTimer>) {
        let Some(place) = messages::place(request).filter(Place::is_valid) else {
            let outcome = self.outcome(ErrorCode::InvalidRequest);
            return fx.respond(id, self.nothing_fetched(outcome));
        };
        if let Err(error) = self.check_leads(place.epoch) {
            return fx.respond(id, self.nothing_fetched(self.outcome(error)));
        }
        if self.log.standing(place.end_offset, place.last_epoch) == Standing::Valid {
            self.note_fetch(now, &place, fx);
        }
        let response = self.fetch_response(&place);
        let is_news = match messages::fetched(&response) {
            Some((_, Fetched::Records(records), high_watermark)) => {
                !records.is_empty() || high_watermark.is_some_and(|offset| offset > place.high_watermark)
            }
            _ => true,
        };
        if is_news || place.max_wait_ms == 0 {
            fx.respond(id, response);
        } else {
            fx.set_timer(RaftTimer::FetchDeadline(id), now.plus_ms(place.max_wait_ms.into()));
            self.parked.push(ParkedFetch { request: id, place });
        }
    }

    fn check_leads(&self, epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        match (epoch.cmp(&self.epoch), &self.state) {
            (std::cmp::Ordering::Less, _) => Err(ErrorCode::FencedLeaderEpoch),
            (std::cmp::Ordering::Greater, _) => Err(ErrorCode::UnknownLeaderEpoch),
            (std::cmp::Ordering::Equal, State::Leader(_)) => Ok(()),
            (std::cmp::Ordering::Equal, _) => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// An answer that carries nothing but what `outcome` says.
    pub(super) fn nothing_fetched(&self, outcome: Outcome) -> m::FetchResponse {
        let nothing = Fetched::Records(Default::default());
        messages::fetch_response(outcome, nothing, None, self.log.start_offset())
    }

    /// A part of a snapshot; the replica that asks is no less alive than one that fetches (R-CTRL-6).
    fn on_fetch_snapshot(
        &mut self,
        now: Time,
        request: &m::FetchSnapshotRequest,
    ) -> m::FetchSnapshotResponse {
        let refuse = |raft: &RaftClient, error| {
            messages::fetch_snapshot_response(raft.outcome(error), Chunk::default())
        };
        let Some(place) = messages::snapshot_place(request).filter(|place| place.max_bytes > 0) else {
            return refuse(self, ErrorCode::InvalidRequest);
        };
        if let Err(error) = self.check_leads(place.epoch) {
            return refuse(self, error);
        }
        let Some(snapshot) = self.log.snapshot(place.id).cloned() else {
            return refuse(self, ErrorCode::SnapshotNotFound);
        };
        let size = snapshot.size_bytes();
        if !(0..size).contains(&place.position) {
            return refuse(self, ErrorCode::PositionOutOfRange);
        }
        let (check_ms, voter) = (self.check_quorum_ms(), ControllerId(place.replica));
        if let State::Leader(leader) = &mut self.state {
            leader.note_heard(now, voter, check_ms);
        }
        let end = size.min(place.position + i64::from(place.max_bytes));
        let bytes = snapshot.bytes().slice(place.position as usize..end as usize);
        let chunk = Chunk { id: place.id, size, position: place.position, bytes };
        messages::fetch_snapshot_response(self.outcome(ErrorCode::None), chunk)
    }

    fn note_fetch(&mut self, now: Time, place: &Place, fx: &mut Effects<RaftTimer>) {
        let voter = ControllerId(place.replica);
        let replica = match self.voters.contains(&voter) {
            true => NodeId::Controller(voter),
            false => NodeId::Broker(BrokerId(place.replica)),
        };
        let (check_ms, end) = (self.check_quorum_ms(), self.log.end_offset());
        if let State::Leader(leader) = &mut self.state {
            leader.note_fetch(now, replica, place.end_offset, end, check_ms);
        }
        self.arm(fx);
        self.advance(fx);
    }

    /// Raises the commit point if more than half have more, and tells those who wait for it.
    pub(super) fn advance(&mut self, fx: &mut Effects<RaftTimer>) {
        let end = self.log.end_offset();
        if let State::Leader(leader) = &mut self.state
            && let Some(committed) = leader.advance(end)
        {
            self.log.advance_high_watermark(committed);
            self.answer_parked(|_| true, fx);
        }
    }

    fn fetch_response(&self, place: &Place) -> m::FetchResponse {
        let high_watermark = match &self.state {
            State::Leader(leader) => leader.high_watermark(),
            _ => None,
        };
        let (error, fetched) = match self.log.standing(place.end_offset, place.last_epoch) {
            Standing::Diverging(epoch, end) => (ErrorCode::None, Fetched::Diverging(epoch, end)),
            Standing::Snapshot(id) => (ErrorCode::None, Fetched::Snapshot(id)),
            Standing::Valid => match self.log.read(place.end_offset, place.max_bytes) {
                Ok(records) => (ErrorCode::None, Fetched::Records(records)),
                Err(error) => (error, Fetched::Records(Default::default())),
            },
        };
        messages::fetch_response(self.outcome(error), fetched, high_watermark, self.log.start_offset())
    }

    pub(super) fn answer_parked(
        &mut self,
        which: impl Fn(&ParkedFetch) -> bool,
        fx: &mut Effects<RaftTimer>,
    ) {
        let (ready, parked): (Vec<_>, Vec<_>) = std::mem::take(&mut self.parked).into_iter().partition(which);
        self.parked = parked;
        for fetch in ready {
            fx.cancel_timer(RaftTimer::FetchDeadline(fetch.request));
            fx.respond(fetch.request, self.fetch_response(&fetch.place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::{RaftDisk, RaftSetup};
    use super::*;
    use crate::kafka::config::BrokerConfig;
    use crate::kafka::effects::{Channel, Effect};
    use crate::kafka::protocol::Response;
    use crate::kafka::random::Random;
    use crate::kafka::types::Offset;

    const VOTERS: [ControllerId; 3] = [ControllerId(101), ControllerId(102), ControllerId(103)];

    /// Controller 102 as it starts on this disk.
    fn voter(disk: RaftDisk) -> RaftClient {
        let BrokerConfig { quorum: config, metadata_log: log_config, .. } = BrokerConfig::default();
        let (me, random) = (VOTERS[1].into(), Random::stream(1, "test"));
        let mut raft =
            RaftClient::new(RaftSetup { me, voters: VOTERS.into(), config, log_config, disk, random });
        raft.start(Time::ZERO, &mut Effects::default());
        raft
    }

    /// What it answers a candidate with an empty log.
    fn asked(raft: &mut RaftClient, nominee: ControllerId, epoch: i32) -> (ErrorCode, bool) {
        let (last_epoch, end_offset) = (LeaderEpoch(0), Offset::ZERO);
        let ballot = Ballot { nominee, epoch: LeaderEpoch(epoch), last_epoch, end_offset, pre_vote: false };
        let request: Request = messages::vote_request(VOTERS[1], ballot).into();
        let (from, channel) = (nominee.into(), Channel::Raft);
        let version = request.api().version();
        let id = RequestId { from, channel, connection: 1, correlation: 0, version };
        let mut fx = Effects::default();
        assert!(raft.on_request(Time::from_ms(1), id, &request, &mut fx));
        let answers = fx.into_vec().into_iter().find_map(|effect| match effect {
            Effect::Respond { response, .. } => match &*response {
                Response::Vote(vote) => messages::vote(vote),
                _ => None,
            },
            _ => None,
        });
        let (outcome, granted) = answers.expect("a vote is answered");
        (outcome.error, granted)
    }

    #[test]
    fn a_vote_outlives_the_process_that_gave_it_r_ctrl_4() {
        let mut raft = voter(RaftDisk::default());
        assert_eq!(asked(&mut raft, VOTERS[0], 1), (ErrorCode::None, true));
        assert_eq!(asked(&mut raft, VOTERS[2], 1), (ErrorCode::None, false));
        let mut raft = voter(raft.into_disk());
        assert_eq!(asked(&mut raft, VOTERS[2], 1), (ErrorCode::None, false));
        assert_eq!(asked(&mut raft, VOTERS[0], 1), (ErrorCode::None, true), "the same again");
        assert_eq!(asked(&mut raft, VOTERS[2], 2), (ErrorCode::None, true), "another epoch");
        assert_eq!(asked(&mut raft, VOTERS[0], 1), (ErrorCode::FencedLeaderEpoch, false));
    }

    #[test]
    fn a_stranger_gets_no_vote() {
        let mut raft = voter(RaftDisk::default());
        assert_eq!(asked(&mut raft, ControllerId(104), 1), (ErrorCode::InvalidRequest, false));
        assert_eq!(asked(&mut raft, VOTERS[0], 0), (ErrorCode::InvalidRequest, false), "no candidacy");
    }
}
