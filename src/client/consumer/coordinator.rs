//! Finding the group coordinator, keeping it, and the background thread that sends heartbeats (Kafka's
//! `AbstractCoordinator` and its `HeartbeatThread`).
//!
//! **Invariant:** the background thread works whatever the application does; it never gives up partitions, which is left
//! to the next poll().

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, GroupId, HeartbeatRequest, HeartbeatResponse,
    LeaveGroupRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::membership::{Coordinator, Identity, MemberState};
use super::program::{Activity, CloseStep};
use super::requests::{Call, coordinator_peer};
use super::{Consumer, ConsumerTimer};
use crate::client::metadata;
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::BrokerId;

/// The key type of FindCoordinator that stands for groups.
const GROUP_KEY: i8 = 0;

impl Consumer {
    /// Whether some thread needs to know the coordinator now.
    fn seeks_coordinator(&self) -> bool {
        let application = match self.program.activity {
            Activity::Polling { .. } | Activity::Committing { .. } => true,
            Activity::Closing { step, .. } => step == CloseStep::Committing,
            Activity::Stopped | Activity::Processing { .. } => false,
        };
        application || self.membership.sends_heartbeats()
    }

    /// Asks a broker who coordinates the group, if that is wanted and due.
    pub(super) fn find_coordinator(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let due = match self.membership.coordinator {
            Coordinator::Unknown { retry_at } => retry_at <= now,
            Coordinator::Finding { again_at } => again_at <= now && self.membership.sends_heartbeats(),
            Coordinator::Known(_) => false,
        };
        if !due || !self.seeks_coordinator() {
            return;
        }
        let Some(broker) = self.metadata.least_loaded(now, &self.requests.network) else { return };
        let request = FindCoordinatorRequest::default()
            .with_key_type(GROUP_KEY)
            .with_coordinator_keys(vec![self.spec.group.to_wire()]);
        // The background thread waits for one back-off, drops the unanswered request, and asks after another.
        let again_at = now.plus_ms(2 * self.config.common.retry_backoff.initial_ms.max(1));
        self.membership.coordinator = Coordinator::Finding { again_at };
        let timeout_ms = self.config.common.request_timeout_ms;
        self.requests.send(now, metadata::main_peer(broker), request, Call::FindCoordinator, timeout_ms, fx);
    }

    pub(super) fn on_find_coordinator(
        &mut self,
        now: Time,
        answer: &FindCoordinatorResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if self.membership.coordinator().is_some() {
            return;
        }
        let Some(found) = answer.coordinators.first() else { return self.coordinator_not_found(now) };
        match ErrorCode::from_code(found.error_code) {
            ErrorCode::None => {
                let broker = BrokerId(found.node_id.0);
                if self.requests.is_unavailable(now, coordinator_peer(broker)) {
                    // Found, but the connection to it has just failed: its death is not known there yet.
                    return self.coordinator_not_found(now);
                }
                self.membership.coordinator = Coordinator::Known(broker);
                self.membership.heartbeat.session_until = now.plus_ms(self.config.session_timeout_ms.into());
                self.requests.connect(now, coordinator_peer(broker), fx);
                fx.event(Event::CoordinatorFound {
                    client: self.spec.name.clone(),
                    group: self.spec.group.clone(),
                    broker,
                });
            }
            error if error.is_retriable() => {
                self.coordinator_not_found(now);
                self.metadata.request_update();
            }
            error => {
                self.coordinator_not_found(now);
                self.fail(now, error, fx);
            }
        }
    }

    pub(super) fn coordinator_not_found(&mut self, now: Time) {
        if self.membership.coordinator().is_none() {
            let retry_at = now.plus_ms(self.config.common.retry_backoff.after(0, &mut self.random));
            self.membership.coordinator = Coordinator::Unknown { retry_at };
        }
    }

    /// Forgets the coordinator and closes the connection to it; what was on its way there is lost.
    pub(super) fn mark_coordinator_unknown(
        &mut self,
        now: Time,
        error: ErrorCode,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let Some(broker) = self.membership.coordinator() else { return };
        self.membership.coordinator = Coordinator::Unknown { retry_at: now };
        fx.event(Event::CoordinatorLost {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            error,
        });
        for call in self.requests.disconnect(now, coordinator_peer(broker), fx) {
            self.on_lost_call(now, call, fx);
        }
    }

    /// The background thread's turn.
    pub(super) fn run_background_thread(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if !self.membership.sends_heartbeats() || self.membership.coordinator().is_none() {
            return;
        }
        let heartbeat = self.membership.heartbeat;
        if heartbeat.session_until <= now {
            self.mark_coordinator_unknown(now, ErrorCode::RequestTimedOut, fx);
        } else if heartbeat.poll_until <= now && !self.is_polling() {
            self.leave(now, "consumer poll timeout has expired.", fx);
        } else if heartbeat.due_at <= now {
            self.send_heartbeat(now, fx);
        }
    }

    /// When the background thread has something to do.
    pub(super) fn background_thread_due(&self) -> Option<Time> {
        if !self.membership.sends_heartbeats() {
            return None;
        }
        let heartbeat = self.membership.heartbeat;
        Some(match self.membership.coordinator {
            Coordinator::Unknown { retry_at } => retry_at,
            Coordinator::Finding { again_at } => again_at,
            Coordinator::Known(_) if self.is_polling() => heartbeat.due_at.min(heartbeat.session_until),
            Coordinator::Known(_) => heartbeat.due_at.min(heartbeat.session_until).min(heartbeat.poll_until),
        })
    }

    fn send_heartbeat(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let sent_as = self.membership.identity.clone();
        let request = HeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(sent_as.generation.0)
            .with_member_id(sent_as.member.to_wire());
        self.membership.heartbeat.due_at = now.plus_ms(self.config.heartbeat_interval_ms.into());
        self.send_to_coordinator(now, request, Call::Heartbeat { sent_as }, fx);
    }

    pub(super) fn on_heartbeat(
        &mut self,
        now: Time,
        sent_as: &Identity,
        answer: &HeartbeatResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => self.heartbeat_received(now),
            ErrorCode::RebalanceInProgress => {
                // A member goes on with heartbeats while it finishes its work: that keeps it in the group until it joins.
                if self.membership.state == MemberState::Stable {
                    self.membership.request_rejoin("group is already rebalancing");
                }
                self.heartbeat_received(now);
            }
            error @ (ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator) => {
                self.mark_coordinator_unknown(now, error, fx);
                self.heartbeat_failed(now);
            }
            error @ (ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId) => {
                if *sent_as == self.membership.identity {
                    let reset_member_id = error == ErrorCode::UnknownMemberId;
                    self.membership.reset(reset_member_id, "encountered error from HEARTBEAT response");
                } else {
                    self.heartbeat_received(now);
                }
            }
            _ => self.heartbeat_failed(now),
        }
    }

    fn heartbeat_received(&mut self, now: Time) {
        self.membership.heartbeat.failures = 0;
        self.membership.heartbeat.session_until = now.plus_ms(self.config.session_timeout_ms.into());
    }

    pub(super) fn heartbeat_failed(&mut self, now: Time) {
        let wait_ms =
            self.config.common.retry_backoff.after(self.membership.heartbeat.failures, &mut self.random);
        self.membership.heartbeat.due_at = now.plus_ms(wait_ms);
        self.membership.heartbeat.failures += 1;
    }

    /// Starts the heartbeat's clocks anew: the member has joined.
    pub(super) fn reset_heartbeat(&mut self, now: Time) {
        let heartbeat = &mut self.membership.heartbeat;
        heartbeat.due_at = now.plus_ms(self.config.heartbeat_interval_ms.into());
        heartbeat.session_until = now.plus_ms(self.config.session_timeout_ms.into());
        heartbeat.poll_until = now.plus_ms(self.config.max_poll_interval_ms.into());
    }

    /// Says goodbye to the coordinator if it knows this member, and forgets the membership (R-CONS-25, R-CONS-27). Says
    /// whether an answer will come.
    pub(super) fn leave(&mut self, now: Time, reason: &'static str, fx: &mut Effects<ConsumerTimer>) -> bool {
        let membership = &self.membership;
        let known = membership.coordinator().is_some()
            && membership.state != MemberState::Unjoined
            && !membership.identity.member.is_unknown();
        if known {
            let member = MemberIdentity::default()
                .with_member_id(membership.identity.member.to_wire())
                .with_reason(Some(StrBytes::from_static_str(reason)));
            let request =
                LeaveGroupRequest::default().with_group_id(self.group_id()).with_members(vec![member]);
            self.send_to_coordinator(now, request, Call::LeaveGroup, fx);
        }
        self.membership.reset(true, "consumer pro-actively leaving the group");
        known
    }

    pub(super) fn group_id(&self) -> GroupId {
        GroupId(self.spec.group.to_wire())
    }
}
