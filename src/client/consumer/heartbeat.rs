//! The background thread: heartbeats while the member is joined, and its goodbye (Kafka's `HeartbeatThread`).
//!
//! **Invariant:** the thread works whatever the application does; it never gives up partitions, which is left to the next
//! poll(), and throws nothing, which is left to that poll() too.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse, LeaveGroupRequest};

use super::closing::GroupMembership;
use super::membership::{Identity, MemberState};
use super::reason::{LeaveReason, RejoinReason};
use super::requests::Call;
use super::{Consumer, ConsumerTimer, Coordinator};
use crate::kafka::effects::Effects;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;

impl Consumer {
    /// The background thread's turn.
    pub(super) fn run_background_thread(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        self.commit_by_timer(now, fx);
        self.run_member(now, fx);
        self.fetch_what_was_located(now, fx);
        if !self.membership.sends_heartbeats() || self.membership.coordinator().is_none() {
            return;
        }
        let heartbeat = self.membership.heartbeat;
        if heartbeat.session_until <= now {
            self.mark_coordinator_unknown(now, ErrorCode::RequestTimedOut, fx);
        } else if heartbeat.poll_until <= now && !self.is_polling() {
            self.leave(now, LeaveReason::PollTooLate, GroupMembership::Default, fx);
        } else if heartbeat.due_at <= now {
            self.send_heartbeat(now, fx);
        }
    }

    /// When the background thread has something to do.
    pub(super) fn background_thread_due(&self) -> Option<Time> {
        let commit = self.commits_by_timer().then(|| self.commits.next_interval_at());
        commit.into_iter().chain(self.heartbeat_due()).min()
    }

    fn heartbeat_due(&self) -> Option<Time> {
        if !self.membership.sends_heartbeats() {
            return self.member_due();
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
            .with_member_id(sent_as.member.to_wire())
            .with_group_instance_id(self.config.instance_id_to_wire());
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
                    self.membership.request_rejoin(RejoinReason::GroupRebalancing);
                }
                self.heartbeat_received(now);
            }
            error @ (ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator) => {
                self.mark_coordinator_unknown(now, error, fx);
                self.heartbeat_failed(now);
            }
            error @ (ErrorCode::IllegalGeneration
            | ErrorCode::UnknownMemberId
            | ErrorCode::FencedInstanceId) => {
                if *sent_as != self.membership.identity {
                    return self.heartbeat_received(now);
                }
                let reset_member_id = error != ErrorCode::IllegalGeneration;
                self.membership.reset(reset_member_id, RejoinReason::ErrorOf { error, api: "HEARTBEAT" });
                if error == ErrorCode::FencedInstanceId {
                    // Another process has the same group.instance.id.
                    self.membership.fatal = Some(error);
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

    /// Says goodbye to the coordinator if it knows this member, a static one only if it is to leave for good, and forgets
    /// the membership (R-CONS-25, R-CONS-27). Says whether an answer will come.
    pub(super) fn leave(
        &mut self,
        now: Time,
        reason: LeaveReason,
        operation: GroupMembership,
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        if self.config.is_modern {
            return self.say_goodbye(now, reason, operation, fx);
        }
        let leaves = match operation {
            GroupMembership::Default => self.config.group_instance_id.is_none(),
            GroupMembership::Leave => true,
            GroupMembership::Remain => false,
        };
        let membership = &self.membership;
        let says_so = membership.coordinator().is_some()
            && membership.state != MemberState::Unjoined
            && !membership.identity.member.is_unknown()
            && leaves;
        if says_so {
            let member = MemberIdentity::default()
                .with_member_id(membership.identity.member.to_wire())
                .with_reason(Some(reason.to_wire()));
            let request =
                LeaveGroupRequest::default().with_group_id(self.group_id()).with_members(vec![member]);
            self.send_to_coordinator(now, request, Call::LeaveGroup, fx);
        }
        self.membership.reset(true, RejoinReason::Left);
        says_so
    }
}
