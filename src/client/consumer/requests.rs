//! The consumer's requests on their way (Kafka's `ConsumerNetworkClient`): a request for a connection that is still
//! being opened waits here until it stands.
//!
//! **Invariant:** a [`Call`] that is given to [`Requests::send`] comes back exactly once, answered or lost.

use std::collections::VecDeque;
use std::rc::Rc;

use super::ConsumerTimer;
use super::commits::CommitCall;
use super::config::OffsetReset;
use super::membership::Identity;
use super::modern::HeartbeatKind;
use super::subscription::Validation;
use crate::kafka::effects::{Channel, Effects, Input, Peer};
use crate::kafka::network_client::{NetworkClient, NetworkEvent};
use crate::kafka::protocol::Request;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, NodeId, TopicPartition};

/// What a request was sent for, with what is needed to judge its answer.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Metadata,
    FindCoordinator,
    JoinGroup { sent_as: Identity },
    SyncGroup { sent_as: Identity },
    Heartbeat { sent_as: Identity },
    LeaveGroup,
    ConsumerHeartbeat(HeartbeatKind),
    OffsetCommit(Rc<CommitCall>),
    OffsetFetch { attempt: i32 },
    ListOffsets(Rc<[(TopicPartition, OffsetReset)]>),
    OffsetForLeaderEpoch(Rc<[Validation]>),
    Fetch { broker: BrokerId },
    CloseFetchSession,
}

#[derive(Clone, Debug)]
struct Unsent {
    peer: Peer,
    request: Request,
    call: Call,
    timeout_ms: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub network: NetworkClient<Call>,
    unsent: VecDeque<Unsent>,
}

impl Requests {
    pub fn new(network: NetworkClient<Call>) -> Requests {
        Requests { network, unsent: VecDeque::new() }
    }

    /// Sends a request now or as soon as the connection stands.
    pub fn send(
        &mut self,
        now: Time,
        peer: Peer,
        request: impl Into<Request>,
        call: Call,
        timeout_ms: i64,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.unsent.push_back(Unsent { peer, request: request.into(), call, timeout_ms });
        self.flush(now, peer, fx);
    }

    /// Opens the connection ahead of its first request.
    pub fn connect(&mut self, now: Time, peer: Peer, fx: &mut Effects<ConsumerTimer>) {
        self.network.ready(now, peer, fx);
    }

    /// Whether a request would have to wait for a connection that just failed.
    pub fn is_unavailable(&self, now: Time, peer: Peer) -> bool {
        self.network.is_backing_off(now, peer)
    }

    pub fn on_input(
        &mut self,
        now: Time,
        input: &Input<ConsumerTimer>,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Option<NetworkEvent<Call>> {
        let event = match input {
            Input::Timer(ConsumerTimer::Network(timer)) => self.network.on_timer(now, *timer, fx),
            _ => self.network.on_input(now, input, fx),
        }?;
        match event {
            NetworkEvent::Ready(peer) | NetworkEvent::BackoffOver(peer) => {
                self.flush(now, peer, fx);
                Some(event)
            }
            NetworkEvent::Lost { peer, mut contexts, timed_out } => {
                contexts.extend(self.take_unsent(peer));
                Some(NetworkEvent::Lost { peer, contexts, timed_out })
            }
            NetworkEvent::Answered { .. } => Some(event),
        }
    }

    /// Closes a connection and gives back what will not be answered.
    pub fn disconnect(&mut self, now: Time, peer: Peer, fx: &mut Effects<ConsumerTimer>) -> Vec<Call> {
        let mut calls = self.network.disconnect(now, peer, fx);
        calls.extend(self.take_unsent(peer));
        calls
    }

    fn flush(&mut self, now: Time, peer: Peer, fx: &mut Effects<ConsumerTimer>) {
        while let Some(index) = self.unsent.iter().position(|unsent| unsent.peer == peer)
            && self.network.ready(now, peer, fx)
            && let Some(unsent) = self.unsent.remove(index)
        {
            self.network.send(now, peer, unsent.request, unsent.call, unsent.timeout_ms, fx);
        }
    }

    fn take_unsent(&mut self, peer: Peer) -> Vec<Call> {
        let unsent = std::mem::take(&mut self.unsent).into_iter();
        let (lost, kept): (VecDeque<_>, VecDeque<_>) = unsent.partition(|unsent| unsent.peer == peer);
        self.unsent = kept;
        lost.into_iter().map(|unsent| unsent.call).collect()
    }
}

/// A consumer's connection to its group coordinator, which is another one than that for fetches.
pub(super) fn coordinator_peer(broker: BrokerId) -> Peer {
    Peer { node: NodeId::Broker(broker), channel: Channel::Coordinator }
}
