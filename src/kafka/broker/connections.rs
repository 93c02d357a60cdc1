//! The broker's requests to the controller: queued until the connection stands, sent again when it is lost.
//!
//! Mirrors `NodeToControllerChannelManager`.
//!
//! **Invariant:** a request to the controller is answered or still in its queue.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::protocol::Request;
use crate::kafka::time::Time;
use crate::kafka::types::NodeId;

#[derive(Clone, Debug, Default)]
pub struct ControllerQueues {
    /// By channel, oldest first; the first `sent` of each are in flight.
    waiting: BTreeMap<Channel, VecDeque<(Rc<Request>, Purpose)>>,
    sent: BTreeMap<Channel, usize>,
}

impl ControllerQueues {
    fn push(&mut self, channel: Channel, request: Request, purpose: Purpose) {
        self.waiting.entry(channel).or_default().push_back((Rc::new(request), purpose));
    }

    fn next_unsent(&mut self, channel: Channel) -> Option<(Rc<Request>, Purpose)> {
        let sent = self.sent.entry(channel).or_default();
        let next = self.waiting.get(&channel)?.get(*sent).cloned()?;
        *sent += 1;
        Some(next)
    }

    fn has_unsent(&self, channel: Channel) -> bool {
        let sent = self.sent.get(&channel).copied().unwrap_or_default();
        self.waiting.get(&channel).is_some_and(|queue| queue.len() > sent)
    }

    /// The oldest request of the channel has its answer.
    pub fn answered(&mut self, channel: Channel) {
        if let Some(queue) = self.waiting.get_mut(&channel) {
            queue.pop_front();
        }
        if let Some(sent) = self.sent.get_mut(&channel) {
            *sent = sent.saturating_sub(1);
        }
    }

    /// Nothing is in flight any more; what was goes first when the connection is back.
    fn lost(&mut self, channel: Channel) {
        self.sent.remove(&channel);
    }
}

impl Broker {
    pub(super) fn controller_peer(&self, channel: Channel) -> Peer {
        Peer::new(self.controller, channel)
    }

    pub(super) fn ask_controller(
        &mut self,
        now: Time,
        channel: Channel,
        request: impl Into<Request>,
        purpose: Purpose,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.to_controller.push(channel, request.into(), purpose);
        self.flush(now, self.controller_peer(channel), fx);
    }

    /// Sends what waits for a connection, as far as it can.
    pub(super) fn flush(&mut self, now: Time, peer: Peer, fx: &mut Effects<BrokerTimer>) {
        let NodeId::Controller(_) = peer.node else { return };
        while self.to_controller.has_unsent(peer.channel) && self.network.ready(now, peer, fx) {
            if let Some((request, purpose)) = self.to_controller.next_unsent(peer.channel) {
                let request = Request::clone(&request);
                self.network.send(now, peer, request, purpose, self.config.request_timeout_ms, fx);
            }
        }
    }

    /// A connection is gone: what was asked of the controller is asked again, fetches rest for a while.
    pub(super) fn on_lost(&mut self, now: Time, peer: Peer, fx: &mut Effects<BrokerTimer>) {
        match peer.node {
            NodeId::Controller(_) => {
                self.to_controller.lost(peer.channel);
                self.flush(now, peer, fx);
            }
            NodeId::Broker(leader) => {
                self.with_replicas(now, fx, |replicas, step| replicas.fetch_failed(leader, step));
            }
            NodeId::Client(_) => {}
        }
    }
}
