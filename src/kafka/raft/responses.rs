//! What a replica makes of the answers it gets.
//!
//! Mirrors the `handle*Response` methods of `KafkaRaftClient`.

use kafka_protocol::messages as m;

use super::client::{Asked, Download, RaftClient, RaftTimer};
use super::messages::{self, Fetched, Outcome};
use super::snapshot::Snapshot;
use super::state::State;
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, LeaderEpoch, Offset};

impl RaftClient {
    pub(super) fn on_response(
        &mut self,
        now: Time,
        from: ControllerId,
        asked: Asked,
        response: &Response,
        fx: &mut Effects<RaftTimer>,
    ) {
        match (asked, response) {
            (Asked::Fetch { from }, Response::Fetch(response)) => {
                if !self.fetched(now, from, response, fx) {
                    self.rests_until = now.plus_ms(self.config.retry_backoff_ms);
                }
            }
            (Asked::FetchSnapshot, Response::FetchSnapshot(response)) => {
                if !self.snapshot_fetched(now, response, fx) {
                    self.rests_until = now.plus_ms(self.config.retry_backoff_ms);
                }
            }
            (Asked::Vote { epoch, pre_vote }, Response::Vote(response)) => {
                self.voted(now, from, (epoch, pre_vote), response, fx);
            }
            (Asked::Begin, Response::BeginQuorumEpoch(response)) => {
                if let Some(outcome) = messages::begin_outcome(response) {
                    self.heed(now, outcome, fx);
                }
            }
            (Asked::End, Response::EndQuorumEpoch(response)) => {
                if let State::Resigned { unacknowledged, .. } = &mut self.state {
                    unacknowledged.remove(&from);
                }
                if let Some(outcome) = messages::end_outcome(response) {
                    self.heed(now, outcome, fx);
                }
            }
            (asked, response) => panic!("{} is no answer to {asked:?}", response.api().name()),
        }
    }

    /// What each answer says of the quorum. Whether what else it says is still of interest.
    fn heed(&mut self, now: Time, outcome: Outcome, fx: &mut Effects<RaftTimer>) -> bool {
        let Outcome { error, leader, epoch } = outcome;
        if epoch < self.epoch || error == ErrorCode::UnknownLeaderEpoch {
            return false;
        }
        let is_stale = epoch > self.epoch
            || matches!(error, ErrorCode::FencedLeaderEpoch | ErrorCode::NotLeaderOrFollower);
        self.learn(now, epoch, leader, fx);
        !is_stale && error == ErrorCode::None
    }

    fn voted(
        &mut self,
        now: Time,
        voter: ControllerId,
        asked: (LeaderEpoch, bool),
        response: &m::VoteResponse,
        fx: &mut Effects<RaftTimer>,
    ) {
        let Some((outcome, granted)) = messages::vote(response) else { return };
        let is_useful = self.heed(now, outcome, fx);
        let votes = match &mut self.state {
            State::Prospective { votes, .. } if asked == (self.epoch, true) => votes,
            State::Candidate { votes, .. } if asked == (self.epoch, false) => votes,
            _ => return,
        };
        votes.note(voter, is_useful && granted);
        self.count_votes(now, fx);
    }

    /// Whether the answer brought this replica on.
    fn fetched(
        &mut self,
        now: Time,
        from: Offset,
        response: &m::FetchResponse,
        fx: &mut Effects<RaftTimer>,
    ) -> bool {
        let Some((outcome, fetched, high_watermark)) = messages::fetched(response) else { return false };
        let is_useful = self.heed(now, outcome, fx);
        let leader = self.leader();
        let follows = matches!(self.state, State::Follower { .. }) && outcome.leader == leader;
        if !is_useful || !follows || from != self.log.end_offset() {
            return false;
        }
        match fetched {
            Fetched::Diverging(epoch, end) => self.truncate(now, (epoch, end), fx),
            Fetched::Snapshot(id) => self.downloading = Some(Download { id, parts: Vec::new() }),
            Fetched::Records(records) => {
                if self.log.append_fetched(now, records, self.epoch, &self.log_config).is_err() {
                    return false;
                }
                // A leader counts what a voter asks for more of as written (R-CTRL-5); of an observer it counts nothing.
                if self.my_id().is_some() {
                    self.log.flush(now);
                }
                if let Some(high_watermark) = high_watermark {
                    self.log.advance_high_watermark(high_watermark);
                }
            }
        }
        self.renew_patience(now, fx);
        true
    }

    /// The leader was heard.
    fn renew_patience(&mut self, now: Time, fx: &mut Effects<RaftTimer>) {
        let patience_ms = self.config.fetch_timeout_ms;
        if let State::Follower { has_fetched, until, .. } = &mut self.state {
            *has_fetched = true;
            *until = now.plus_ms(patience_ms);
        }
        self.arm(fx);
    }

    /// A part of the leader's snapshot; with the last one the log starts anew at the snapshot's end. Whether the answer
    /// brought this replica on.
    fn snapshot_fetched(
        &mut self,
        now: Time,
        response: &m::FetchSnapshotResponse,
        fx: &mut Effects<RaftTimer>,
    ) -> bool {
        let Some((outcome, chunk)) = messages::chunk(response) else { return false };
        let is_gone = outcome.error == ErrorCode::SnapshotNotFound;
        let is_useful = self.heed(now, outcome, fx);
        let follows = matches!(self.state, State::Follower { .. }) && outcome.leader == self.leader();
        if is_gone && follows {
            // The leader has a newer one by now: a fetch will say which.
            self.downloading = None;
            self.renew_patience(now, fx);
            return true;
        }
        let Some(download) = self.downloading.as_mut().filter(|_| is_useful && follows) else { return false };
        if chunk.id != download.id || chunk.position != download.position() || chunk.bytes.is_empty() {
            return false;
        }
        download.parts.push(chunk.bytes);
        if download.position() >= chunk.size
            && let Some(Download { id, parts }) = self.downloading.take()
        {
            let Ok(snapshot) = Snapshot::read(id, parts.concat().into()) else { return false };
            let (node, size_bytes) = (self.me, snapshot.size_bytes());
            self.log.start_at(now, snapshot);
            fx.event(Event::SnapshotFetched { node, end_offset: id.end_offset, size_bytes });
        }
        self.renew_patience(now, fx);
        true
    }

    fn truncate(&mut self, now: Time, diverging: (LeaderEpoch, Offset), fx: &mut Effects<RaftTimer>) {
        if let Some(from) = self.log.truncate_to_divergence(now, diverging, &self.log_config) {
            fx.event(Event::MetadataTruncated { node: self.me, from, to: self.log.end_offset() });
        }
    }
}
