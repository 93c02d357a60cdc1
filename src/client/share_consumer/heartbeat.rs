//! The background thread as a member of the group: heartbeats, what their answers do to it, its goodbye (Kafka's
//! `ShareMembershipManager` and `ShareHeartbeatRequestManager`).
//!
//! **Invariant:** one heartbeat is on its way at most, a goodbye aside; an assignment is taken over as soon as the names of
//! its topics are known.

use kafka_protocol::messages::share_group_heartbeat_response::Assignment;
use kafka_protocol::messages::{
    FindCoordinatorResponse, GroupId, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::{Call, ShareConsumer};
use crate::client::consumer::ConsumerTimer;
use crate::client::coordinator::{Coordinator, find_request, found};
use crate::client::member::{Assigned, LocalAssignment, Phase, Refusal};
use crate::client::metadata;
use crate::client::requests::coordinator_peer;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, RevokeReason, ShareEvent};
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::time::Time;
use crate::kafka::types::{GroupEpoch, TopicId};

/// What a heartbeat was sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heartbeat {
    Regular,
    /// It leaves: as it is closed, or as it did not poll in time.
    Goodbye {
        closing: bool,
    },
}

impl ShareConsumer {
    /// The background thread's turn.
    pub(super) fn run_member(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        self.find_coordinator(now, fx);
        if !self.member.sends_heartbeats() || self.coordinator.broker().is_none() {
            return;
        }
        self.reconcile(fx);
        let due =
            !self.member.clock.in_flight && (self.member.is_pressed() || self.member.clock.due_at <= now);
        if self.poll_until <= now && !self.is_polling() {
            self.say_goodbye(now, false, fx);
        } else if due {
            let request = self.heartbeat_request();
            self.member.clock.sent(now);
            self.send_to_coordinator(now, request, Call::Heartbeat(Heartbeat::Regular), fx);
        }
    }

    /// When the background thread has something to do, if the coordinator is known.
    pub(super) fn member_due(&self) -> Option<Time> {
        if !self.member.sends_heartbeats() {
            return None;
        }
        match self.coordinator {
            Coordinator::Unknown { retry_at } => Some(retry_at),
            Coordinator::Finding { again_at } => Some(again_at),
            Coordinator::Known(_) => {
                let heartbeat = (!self.member.clock.in_flight).then_some(self.member.clock.due_at);
                let poll = (!self.is_polling()).then_some(self.poll_until);
                heartbeat.into_iter().chain(poll).min()
            }
        }
    }

    fn heartbeat_request(&mut self) -> ShareGroupHeartbeatRequest {
        let request = ShareGroupHeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_member_id(self.member.id.to_wire())
            .with_member_epoch(self.member.epoch.0);
        if !self.member.say(&self.spec.topics, None).topics {
            return request;
        }
        let topics = self.spec.topics.iter().map(|topic| TopicName(topic.to_wire())).collect();
        let rack = Some(&self.config.client_rack).filter(|rack| !rack.is_empty());
        request
            .with_subscribed_topic_names(Some(topics))
            .with_rack_id(rack.map(|rack| StrBytes::from_string(rack.to_string())))
    }

    pub(super) fn on_heartbeat(
        &mut self,
        now: Time,
        kind: Heartbeat,
        answer: &ShareGroupHeartbeatResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if kind != Heartbeat::Regular {
            return self.on_goodbye(kind);
        }
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => {
                self.member.clock.answered(now, answer.heartbeat_interval_ms);
                let assignment = answer.assignment.as_ref().map(assigned);
                self.member.hear(GroupEpoch(answer.member_epoch), assignment);
            }
            error => {
                self.heartbeat_failed(now);
                if self.member.sends_heartbeats() {
                    self.heartbeat_refused(now, error, fx);
                }
            }
        }
    }

    fn heartbeat_refused(&mut self, now: Time, error: ErrorCode, fx: &mut Effects<ConsumerTimer>) {
        match Refusal::of(error) {
            Refusal::CoordinatorMoved => {
                self.mark_coordinator_unknown(now, error, fx);
                self.member.clock.restart();
            }
            Refusal::TriedAgain => {}
            Refusal::Fenced => {
                self.give_up_all(RevokeReason::Lost, fx);
                self.begin_member(fx);
            }
            Refusal::Fatal => {
                self.give_up_all(RevokeReason::Lost, fx);
                self.member.end(Phase::Fatal);
                self.fatal = Some(error);
            }
        }
    }

    /// The member joins: its next heartbeat says so, as soon as it can be sent.
    pub(super) fn begin_member(&mut self, fx: &mut Effects<ConsumerTimer>) {
        self.member.join();
        self.member.clock.restart();
        let (client, group) = (self.spec.name.clone(), self.spec.group.clone());
        fx.event(Event::Share(ShareEvent::Joins { client, group, member: self.member.id.clone() }));
    }

    /// A heartbeat was refused or is lost.
    pub(super) fn heartbeat_failed(&mut self, now: Time) {
        let backoff_ms = self.config.common.retry_backoff.after(self.member.clock.failures, &mut self.random);
        self.member.say_everything();
        self.member.clock.failed(now, backoff_ms);
    }

    /// Leaves the group. Says whether an answer will come.
    pub(super) fn say_goodbye(&mut self, now: Time, closing: bool, fx: &mut Effects<ConsumerTimer>) -> bool {
        if !self.member.sends_heartbeats() {
            return false;
        }
        let request = ShareGroupHeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_member_id(self.member.id.to_wire())
            .with_member_epoch(GroupEpoch::LEFT.0);
        self.member.end(if closing { Phase::Unsubscribed } else { Phase::Stale });
        self.member.clock.restart();
        self.give_up_all(if closing { RevokeReason::Closing } else { RevokeReason::Lost }, fx);
        let is_heard = self.coordinator.broker().is_some();
        if is_heard {
            self.send_to_coordinator(now, request, Call::Heartbeat(Heartbeat::Goodbye { closing }), fx);
        }
        is_heard
    }

    /// Takes over what is to be read: there is nothing to commit first, and nobody waits for it (R-SHARE-1).
    fn reconcile(&mut self, fx: &mut Effects<ConsumerTimer>) {
        if self.member.phase != Phase::Reconciling {
            return;
        }
        let Some(resolved) = self.member.resolve_target(&mut self.metadata) else { return };
        let is_new =
            self.member.current.as_ref().is_none_or(|current| current.partitions != resolved.partitions);
        if is_new {
            self.assign(&resolved, fx);
        }
        self.member.take(resolved);
    }

    fn assign(&mut self, resolved: &LocalAssignment, fx: &mut Effects<ConsumerTimer>) {
        self.assigned = self.member.named(&resolved.partitions).into_iter().collect();
        fx.event(Event::Share(ShareEvent::Assigned {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            epoch: self.member.epoch,
            partitions: self.assigned.clone(),
        }));
    }

    fn give_up_all(&mut self, reason: RevokeReason, fx: &mut Effects<ConsumerTimer>) {
        let mut partitions = std::mem::take(&mut self.assigned);
        if !partitions.is_empty() {
            partitions.sort();
            let (client, group) = (self.spec.name.clone(), self.spec.group.clone());
            fx.event(Event::Share(ShareEvent::Left { client, group, partitions, reason }));
        }
    }

    /// Asks a broker who coordinates the group, if that is wanted and due.
    fn find_coordinator(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if !self.member.sends_heartbeats() || !self.coordinator.is_to_be_found(now, true) {
            return;
        }
        let Some(broker) = self.metadata.least_loaded(now, &self.requests.network) else { return };
        let again_at = now.plus_ms(2 * self.config.common.retry_backoff.initial_ms.max(1));
        self.coordinator = Coordinator::Finding { again_at };
        let (request, peer) = (find_request(&self.spec.group), metadata::main_peer(broker));
        let timeout_ms = self.config.common.request_timeout_ms;
        self.requests.send(now, peer, request, Call::FindCoordinator, timeout_ms, fx);
    }

    pub(super) fn on_find_coordinator(
        &mut self,
        now: Time,
        answer: &FindCoordinatorResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if self.coordinator.broker().is_some() {
            return;
        }
        match found(answer) {
            // Found, but the connection to it has just failed: its death is not known there yet.
            Ok(broker) if self.requests.is_unavailable(now, coordinator_peer(broker)) => {
                self.coordinator_not_found(now);
            }
            Ok(broker) => {
                self.coordinator = Coordinator::Known(broker);
                self.requests.connect(now, coordinator_peer(broker), fx);
                let (client, group) = (self.spec.name.clone(), self.spec.group.clone());
                fx.event(Event::CoordinatorFound { client, group, broker });
            }
            Err(error) => {
                self.coordinator_not_found(now);
                match error.is_retriable() {
                    true => self.metadata.request_update(),
                    false => self.fatal = Some(error),
                }
            }
        }
    }

    pub(super) fn coordinator_not_found(&mut self, now: Time) {
        if self.coordinator.broker().is_none() {
            let retry_at = now.plus_ms(self.config.common.retry_backoff.after(0, &mut self.random));
            self.coordinator = Coordinator::Unknown { retry_at };
        }
    }

    /// Forgets the coordinator and closes the connection to it; what was on its way there is lost.
    pub(super) fn mark_coordinator_unknown(
        &mut self,
        now: Time,
        error: ErrorCode,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let Some(broker) = self.coordinator.broker() else { return };
        self.coordinator = Coordinator::Unknown { retry_at: now };
        let (client, group) = (self.spec.name.clone(), self.spec.group.clone());
        fx.event(Event::CoordinatorLost { client, group, error });
        for call in self.requests.disconnect(now, coordinator_peer(broker), fx) {
            self.on_lost_call(now, call, fx);
        }
    }

    fn send_to_coordinator(
        &mut self,
        now: Time,
        request: impl Into<Request>,
        call: Call,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if let Some(broker) = self.coordinator.broker() {
            let timeout_ms = self.config.common.request_timeout_ms;
            self.requests.send(now, coordinator_peer(broker), request, call, timeout_ms, fx);
        }
    }

    fn group_id(&self) -> GroupId {
        GroupId(self.spec.group.to_wire())
    }
}

fn assigned(assignment: &Assignment) -> Assigned {
    let topics = assignment.topic_partitions.iter();
    topics.map(|topic| (TopicId(topic.topic_id), topic.partitions.iter().copied().collect())).collect()
}
