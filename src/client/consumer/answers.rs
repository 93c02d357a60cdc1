//! What a consumer sends, and whom an answer or its loss concerns.

use super::choice::Choice;
use super::commits::CommitError;
use super::modern::HeartbeatKind;
use super::requests::Call;
use super::{Consumer, ConsumerTimer};
use crate::client::requests::{Arrival, coordinator_peer};
use crate::kafka::effects::{Effects, Input};
use crate::kafka::network_client::NetworkTimer;
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::time::Time;

impl ConsumerTimer {
    /// The connection's timer that the input is, if it is one.
    pub fn of_network(input: &Input<ConsumerTimer>) -> Option<NetworkTimer> {
        match input {
            Input::Timer(ConsumerTimer::Network(timer)) => Some(*timer),
            _ => None,
        }
    }
}

impl Consumer {
    pub(super) fn send_to_coordinator(
        &mut self,
        now: Time,
        request: impl Into<Request>,
        call: Call,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.send_to_coordinator_within(now, request, call, self.config.common.request_timeout_ms, fx);
    }

    pub(super) fn send_to_coordinator_within(
        &mut self,
        now: Time,
        request: impl Into<Request>,
        call: Call,
        timeout_ms: i64,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        match self.membership.coordinator() {
            Some(broker) => {
                self.requests.send(now, coordinator_peer(broker), request, call, timeout_ms, fx);
            }
            None => self.on_lost_call(now, call, fx),
        }
    }

    pub(super) fn on_network_input(
        &mut self,
        now: Time,
        input: &Input<ConsumerTimer>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let timer = ConsumerTimer::of_network(input);
        match self.requests.take_in(now, &self.spec.name, input, timer, fx) {
            Arrival::Nothing => {}
            Arrival::Answer { call, response } => self.on_answer(now, call, &response, fx),
            Arrival::Lost { peer, calls, error } => {
                self.metadata.on_disconnect(now);
                if self.membership.coordinator().map(coordinator_peer) == Some(peer) {
                    self.mark_coordinator_unknown(now, error, fx);
                }
                for call in calls {
                    self.on_lost_call(now, call, fx);
                }
            }
        }
    }

    /// A request that will not be answered; whether it was carried out is unknown.
    pub(super) fn on_lost_call(&mut self, now: Time, call: Call, fx: &mut Effects<ConsumerTimer>) {
        match call {
            Call::Metadata => self.metadata.on_failure(now),
            Call::FindCoordinator => self.coordinator_not_found(now, fx),
            Call::JoinGroup { .. } | Call::SyncGroup { .. } => self.join_lost(now),
            Call::Heartbeat { .. } => self.heartbeat_failed(now),
            Call::LeaveGroup => self.on_leave_group(),
            Call::ConsumerHeartbeat(HeartbeatKind::Regular) => self.member_heartbeat_failed(now),
            Call::ConsumerHeartbeat(kind) => self.on_goodbye(kind),
            Call::OffsetCommit(call) => self.commit_done(now, &call, Err(CommitError::Retriable), fx),
            Call::OffsetFetch { attempt } => self.offset_fetch_failed(now, attempt),
            Call::Look(asked) => self.look_failed(now, &asked),
            Call::ListOffsets(asked) => asked.iter().for_each(|(tp, _)| self.reset_failed(now, tp)),
            Call::OffsetForLeaderEpoch(asked) => {
                asked.iter().for_each(|validation| self.validation_failed(now, &validation.tp));
            }
            Call::Fetch { broker } => {
                for tp in self.fetcher.fetch_lost(broker) {
                    self.clear_preferred(&tp);
                }
            }
            Call::CloseFetchSession => self.on_session_closed(),
        }
    }

    pub(super) fn on_answer(
        &mut self,
        now: Time,
        call: Call,
        response: &Response,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        match (call, response) {
            (Call::Metadata, Response::Metadata(answer)) => {
                self.metadata.on_response(now, answer);
                self.fail_for_an_invalid_topic();
                self.plan_if_metadata_is_there(now, fx);
            }
            (Call::FindCoordinator, Response::FindCoordinator(answer)) => {
                self.on_find_coordinator(now, answer, fx);
            }
            (Call::JoinGroup { sent_as }, Response::JoinGroup(answer)) => {
                self.on_join_group(now, &sent_as, answer, fx);
            }
            (Call::SyncGroup { sent_as }, Response::SyncGroup(answer)) => {
                self.on_sync_group(now, &sent_as, answer, fx);
            }
            (Call::Heartbeat { sent_as }, Response::Heartbeat(answer)) => {
                self.on_heartbeat(now, &sent_as, answer, fx);
            }
            (Call::LeaveGroup, Response::LeaveGroup(_)) => self.on_leave_group(),
            (Call::ConsumerHeartbeat(kind), Response::ConsumerGroupHeartbeat(answer)) => {
                self.on_member_heartbeat(now, kind, answer, fx);
            }
            (Call::OffsetCommit(call), Response::OffsetCommit(answer)) => {
                self.on_offset_commit(now, &call, answer, fx);
            }
            (Call::OffsetFetch { attempt }, Response::OffsetFetch(answer)) => {
                self.on_offset_fetch(now, attempt, answer, fx);
            }
            (Call::Look(asked), Response::ListOffsets(answer)) => self.on_looked_up(now, &asked, answer),
            (Call::ListOffsets(asked), Response::ListOffsets(answer)) => {
                self.on_list_offsets(now, &asked, answer, fx);
            }
            (Call::OffsetForLeaderEpoch(asked), Response::OffsetForLeaderEpoch(answer)) => {
                self.on_offsets_for_leader_epoch(now, &asked, answer, fx);
            }
            (Call::Fetch { broker }, Response::Fetch(answer)) => self.on_fetch(broker, answer),
            (Call::CloseFetchSession, Response::Fetch(_)) => self.on_session_closed(),
            (call, response) => panic!("{call:?} was answered with {}", response.api().name()),
        }
    }

    /// A name that no topic can have makes poll() throw.
    pub(super) fn fail_for_an_invalid_topic(&mut self) {
        let topics = self.subscription.choice().map(Choice::topics).unwrap_or_default();
        let errors = topics.iter().filter_map(|topic| self.metadata.topic(topic)).map(|t| t.error);
        if let Some(error) = errors.into_iter().find(|error| *error == ErrorCode::InvalidTopicException) {
            self.fail(error);
        }
    }
}
