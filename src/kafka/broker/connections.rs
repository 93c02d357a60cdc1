//! The broker's requests to the active controller: queued until its connection stands, sent again when it is lost or
//! another controller is active.
//!
//! Mirrors `NodeToControllerChannelManager` and `BrokerToControllerRequestThread`.
//!
//! **Invariant:** a request to the controller is answered, given up after its time, or still in its queue.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::protocol::Request;
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, NodeId};

/// How often a broker that knows of no active controller looks again.
const FIND_CONTROLLER_MS: i64 = 100;
/// How long a forwarded request may wait for a controller in all.
const FORWARDING_TIMEOUT_MS: i64 = 60_000;

#[derive(Clone, Debug)]
struct Queued {
    request: Rc<Request>,
    purpose: Purpose,
    since: Time,
}

/// One channel's requests.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// Oldest first.
    waiting: VecDeque<Queued>,
    /// Whom the oldest was sent to.
    in_flight: Option<ControllerId>,
}

#[derive(Clone, Debug, Default)]
pub struct ControllerQueues {
    queues: BTreeMap<Channel, Queue>,
}

impl ControllerQueues {
    fn queue(&mut self, channel: Channel) -> &mut Queue {
        self.queues.entry(channel).or_default()
    }

    /// The oldest request of the channel has its answer.
    pub fn answered(&mut self, channel: Channel) {
        let queue = self.queue(channel);
        queue.waiting.pop_front();
        queue.in_flight = None;
    }

    /// The controller is gone or not the active one; what it was asked goes first to the next.
    fn lost(&mut self, controller: ControllerId, channel: Channel) {
        let queue = self.queue(channel);
        queue.in_flight = queue.in_flight.filter(|asked| *asked != controller);
    }
}

impl Broker {
    pub(super) fn ask_controller(
        &mut self,
        now: Time,
        channel: Channel,
        request: impl Into<Request>,
        purpose: Purpose,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let request = Rc::new(request.into());
        self.to_controller.queue(channel).waiting.push_back(Queued { request, purpose, since: now });
        self.flush(now, channel, fx);
    }

    /// How long a request waits for a controller that answers it, and how long for one answer.
    fn patience_ms(&self, channel: Channel) -> (Option<i64>, i64) {
        let request_timeout_ms = self.config.request_timeout_ms;
        match channel {
            Channel::Lifecycle => {
                let session_ms = self.config.session_timeout_ms;
                (Some(session_ms), session_ms.min(request_timeout_ms))
            }
            Channel::Forwarding => (Some(FORWARDING_TIMEOUT_MS), request_timeout_ms),
            // R-REPL-26: a leader asks for its in-sync set for ever.
            _ => (None, request_timeout_ms),
        }
    }

    /// Sends what waits for the controller, if it can be sent.
    pub(super) fn flush(&mut self, now: Time, channel: Channel, fx: &mut Effects<BrokerTimer>) {
        self.give_up_old_requests(now, channel, fx);
        let (_, timeout_ms) = self.patience_ms(channel);
        let leader = self.raft.leader();
        let queue = self.to_controller.queue(channel);
        let Some(next) = queue.waiting.front().filter(|_| queue.in_flight.is_none()).cloned() else { return };
        let Some(controller) = leader else {
            return fx.set_timer(BrokerTimer::FindController, now.plus_ms(FIND_CONTROLLER_MS));
        };
        let peer = Peer::new(controller, channel);
        if self.network.ready(now, peer, fx) {
            self.to_controller.queue(channel).in_flight = Some(controller);
            let request = Request::clone(&next.request);
            self.network.send(now, peer, request, next.purpose, timeout_ms, fx);
        }
    }

    pub(super) fn flush_all(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let channels: Vec<Channel> = self.to_controller.queues.keys().copied().collect();
        channels.into_iter().for_each(|channel| self.flush(now, channel, fx));
    }

    fn give_up_old_requests(&mut self, now: Time, channel: Channel, fx: &mut Effects<BrokerTimer>) {
        let (Some(patience_ms), _) = self.patience_ms(channel) else { return };
        loop {
            let queue = self.to_controller.queue(channel);
            let is_old = |queued: &mut Queued| now.ms_since(queued.since) >= patience_ms;
            if queue.in_flight.is_some() {
                return;
            }
            let Some(old) = queue.waiting.pop_front_if(is_old) else { return };
            self.on_given_up(now, old.purpose, fx);
        }
    }

    /// R-CTRL-7: the answer is NOT_CONTROLLER; whoever leads by now is asked after a short rest.
    pub(super) fn on_refusal(
        &mut self,
        now: Time,
        controller: ControllerId,
        channel: Channel,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.to_controller.lost(controller, channel);
        fx.set_timer(BrokerTimer::FindController, now.plus_ms(FIND_CONTROLLER_MS));
    }

    /// A connection is gone: what was asked of the controller is asked again, fetches rest for a while.
    pub(super) fn on_lost(
        &mut self,
        now: Time,
        peer: Peer,
        contexts: Vec<Purpose>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        match peer.node {
            NodeId::Broker(coordinator) if peer.channel == Channel::ShareState => {
                let operations = |purpose| match purpose {
                    Purpose::ShareState(operations) => operations,
                    _ => Vec::new(),
                };
                let lost = contexts.into_iter().flat_map(operations).collect();
                self.persister_lost(now, coordinator, lost, fx);
            }
            NodeId::Broker(leader) if peer.channel == Channel::EndOffsets => {
                let ask = |purpose| match purpose {
                    Purpose::EndOffsets(ask) => Some(ask),
                    _ => None,
                };
                self.end_offsets_lost(now, leader, contexts.into_iter().filter_map(ask).collect(), fx);
            }
            NodeId::Broker(coordinator) if peer.channel == Channel::AddPartitions => {
                let questions = |purpose| match purpose {
                    Purpose::AddPartitions(questions) => questions,
                    _ => Vec::new(),
                };
                let lost = contexts.into_iter().flat_map(questions).collect();
                self.add_partitions_lost(now, coordinator, lost, fx);
            }
            NodeId::Broker(leader) if peer.channel == Channel::Markers => {
                let entries = |purpose| match purpose {
                    Purpose::Markers(entries) => entries,
                    _ => Vec::new(),
                };
                let lost = contexts.into_iter().flat_map(entries).collect();
                self.requeue_markers(now, leader, lost, fx);
            }
            NodeId::Controller(controller) => {
                self.to_controller.lost(controller, peer.channel);
                self.flush(now, peer.channel, fx);
            }
            NodeId::Broker(leader) => {
                self.with_replicas(now, fx, |replicas, step| replicas.fetch_failed(leader, step));
            }
            NodeId::Client(_) => {}
        }
    }
}
