//! Whom an answer or its loss concerns, and when the two threads go on by themselves.

use super::{Activity, Call, ShareConsumer};
use crate::client::consumer::{ConsumerTimer, arm};
use crate::client::requests::{Arrival, coordinator_peer};
use crate::kafka::effects::{Effects, Input};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::time::Time;

impl ShareConsumer {
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
                if self.coordinator.broker().map(coordinator_peer) == Some(peer) {
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
            Call::FindCoordinator => self.coordinator_not_found(now),
            Call::Heartbeat(super::Heartbeat::Regular) => self.heartbeat_failed(now),
            Call::Heartbeat(kind) => self.on_goodbye(kind),
            Call::Fetch { broker, said } => self.fetch_lost(broker, &said, fx),
            call @ Call::Acknowledge { .. } => {
                self.acknowledge_failed(now, call, ErrorCode::NetworkException, fx);
            }
        }
    }

    fn on_answer(&mut self, now: Time, call: Call, response: &Response, fx: &mut Effects<ConsumerTimer>) {
        match (call, response) {
            (Call::Metadata, Response::Metadata(answer)) => {
                self.metadata.on_response(now, answer);
                self.fail_for_an_invalid_topic();
            }
            (Call::FindCoordinator, Response::FindCoordinator(answer)) => {
                self.on_find_coordinator(now, answer, fx);
            }
            (Call::Heartbeat(kind), Response::ShareGroupHeartbeat(answer)) => {
                self.on_heartbeat(now, kind, answer, fx);
            }
            (Call::Fetch { broker, said }, Response::ShareFetch(answer)) => {
                self.on_fetch(broker, &said, answer, fx);
            }
            (Call::Acknowledge { broker, kind, said }, Response::ShareAcknowledge(answer)) => {
                self.on_acknowledge(now, (broker, kind), &said, answer, fx);
            }
            (call, response) => panic!("{call:?} was answered with {}", response.api().name()),
        }
    }

    /// A name that no topic can have makes the next poll() throw.
    fn fail_for_an_invalid_topic(&mut self) {
        let errors = self.spec.topics.iter().filter_map(|topic| self.metadata.topic(topic)).map(|t| t.error);
        if let Some(error) = errors.into_iter().find(|error| *error == ErrorCode::InvalidTopicException) {
            self.fatal.get_or_insert(error);
        }
    }

    pub(super) fn arm_timers(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let stopped = self.program.activity == Activity::Stopped;
        let later = |due: Option<Time>| due.filter(|at| *at > now && !stopped);
        let due = (later(self.application_due(now)), later(self.member_due()));
        arm(&mut self.armed, due, fx);
    }

    /// When the application's thread goes on, or something is tried again, if nothing arrives before.
    fn application_due(&self, now: Time) -> Option<Time> {
        let line = match self.program.activity {
            Activity::Processing { until }
            | Activity::Polling { until, .. }
            | Activity::Closing { until, .. } => Some(until),
            Activity::Hanging { until, .. } => until,
            Activity::Calling { .. } | Activity::Looking { .. } | Activity::Reacting { .. } => None,
            Activity::Stopped | Activity::Idle | Activity::Committing { .. } | Activity::CommittingAsync => {
                None
            }
        };
        let due = [self.metadata_due, line, self.exchange.next_try(now)];
        due.into_iter().flatten().filter(|at| *at > now).min()
    }
}
