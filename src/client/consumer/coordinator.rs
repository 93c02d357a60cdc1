//! Finding the group coordinator and keeping it (the first half of Kafka's `AbstractCoordinator`).
//!
//! **Invariant:** a coordinator is known until it says that it is none, does not answer, or the connection to it fails.

use kafka_protocol::messages::{FindCoordinatorResponse, GroupId};

use super::requests::Call;
use super::{Consumer, ConsumerTimer};
use crate::client::coordinator::{Coordinator, find_request, found};
use crate::client::member::Member;
use crate::client::metadata;
use crate::client::program::{Activity, CloseStep};
use crate::client::requests::coordinator_peer;
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;

impl Consumer {
    /// Whether some thread needs to know the coordinator now.
    fn seeks_coordinator(&self) -> bool {
        if !self.spec.has_group() {
            return false;
        }
        let application = match self.program.activity {
            Activity::Polling { .. } if self.subscription.is_in_group() => true,
            // With assign() only who has something to ask it looks for a coordinator.
            Activity::Polling { .. } => !self.subscription.initializing().is_empty(),
            Activity::Committing { .. } => true,
            Activity::Closing { step, .. } => step == CloseStep::Committing,
            Activity::Stopped
            | Activity::Idle
            | Activity::Processing { .. }
            | Activity::Hanging { .. }
            | Activity::Calling { .. }
            | Activity::Looking { .. }
            | Activity::Reacting { .. }
            | Activity::CommittingAsync => false,
        };
        let application = application || self.commits.wait_for_coordinator();
        let modern = self.membership.modern.as_ref().is_some_and(Member::sends_heartbeats);
        application || modern || self.membership.sends_heartbeats()
    }

    /// Asks a broker who coordinates the group, if that is wanted and due.
    pub(super) fn find_coordinator(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let is_impatient = self.membership.sends_heartbeats();
        if !self.membership.coordinator.is_to_be_found(now, is_impatient) || !self.seeks_coordinator() {
            return;
        }
        let Some(broker) = self.metadata.least_loaded(now, &self.requests.network) else { return };
        let request = find_request(&self.spec.group);
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
        match found(answer) {
            Ok(broker) => {
                if self.requests.is_unavailable(now, coordinator_peer(broker)) {
                    // Found, but the connection to it has just failed: its death is not known there yet.
                    return self.coordinator_not_found(now, fx);
                }
                self.membership.coordinator = Coordinator::Known(broker);
                self.membership.heartbeat.session_until = now.plus_ms(self.config.session_timeout_ms.into());
                self.requests.connect(now, coordinator_peer(broker), fx);
                fx.event(Event::CoordinatorFound {
                    client: self.spec.name.clone(),
                    group: self.spec.group.clone(),
                    broker,
                });
                self.send_waiting_commits(now, fx);
            }
            Err(error) if error.is_retriable() => {
                self.coordinator_not_found(now, fx);
                self.metadata.request_update();
            }
            Err(error) => {
                self.coordinator_not_found(now, fx);
                self.fail(error);
            }
        }
    }

    pub(super) fn coordinator_not_found(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if self.membership.coordinator().is_none() {
            let retry_at = now.plus_ms(self.config.common.retry_backoff.after(0, &mut self.random));
            self.membership.coordinator = Coordinator::Unknown { retry_at };
            self.fail_waiting_commits(now, fx);
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

    pub(super) fn group_id(&self) -> GroupId {
        GroupId(self.spec.group.to_wire())
    }
}
