//! A client's requests on their way (Kafka's `ConsumerNetworkClient`): a request for a connection that is still being
//! opened waits here until it stands.
//!
//! **Invariant:** a call that is given to [`Requests::send`] comes back exactly once, answered or lost.

use std::collections::VecDeque;
use std::rc::Rc;

use super::config::CommonConfig;
use super::metadata::Metadata;
use crate::kafka::effects::{Channel, Effects, Input, Peer};
use crate::kafka::event::Event;
use crate::kafka::network_client::{NetworkClient, NetworkEvent, NetworkTimer};
use crate::kafka::protocol::{ApiKey, ErrorCode, Request, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, NodeId};

/// What an input brought of a client's calls.
#[derive(Debug)]
pub enum Arrival<C> {
    Nothing,
    Answer {
        call: C,
        response: Rc<Response>,
    },
    /// The connection is gone, and with it calls of which it is not known whether they were carried out.
    Lost {
        peer: Peer,
        calls: Vec<C>,
        error: ErrorCode,
    },
}

#[derive(Clone, Debug)]
struct Unsent<C> {
    peer: Peer,
    request: Request,
    call: C,
    timeout_ms: i64,
}

/// `C`: what a request was sent for, with what is needed to judge its answer.
#[derive(Clone, Debug)]
pub struct Requests<C> {
    pub network: NetworkClient<C>,
    unsent: VecDeque<Unsent<C>>,
}

impl<C: Clone> Requests<C> {
    pub fn new(network: NetworkClient<C>) -> Requests<C> {
        Requests { network, unsent: VecDeque::new() }
    }

    /// Sends a request now or as soon as the connection stands.
    pub fn send<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        peer: Peer,
        request: impl Into<Request>,
        call: C,
        timeout_ms: i64,
        fx: &mut Effects<T>,
    ) {
        self.unsent.push_back(Unsent { peer, request: request.into(), call, timeout_ms });
        self.flush(now, peer, fx);
    }

    /// Opens the connection ahead of its first request.
    pub fn connect<T: From<NetworkTimer>>(&mut self, now: Time, peer: Peer, fx: &mut Effects<T>) {
        self.network.ready(now, peer, fx);
    }

    /// Whether a request would have to wait for a connection that just failed.
    pub fn is_unavailable(&self, now: Time, peer: Peer) -> bool {
        self.network.is_backing_off(now, peer)
    }

    /// Takes in what of an input is the network's, and tells if a connection of `client` is lost. `timer`: the one that the
    /// input is, if that is a connection's.
    pub fn take_in<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        client: &ClientName,
        input: &Input<T>,
        timer: Option<NetworkTimer>,
        fx: &mut Effects<T>,
    ) -> Arrival<C> {
        let stood = matches!(input, Input::Disconnected(peer) if self.network.is_connected(*peer));
        let event = match timer {
            Some(timer) => self.on_timer(now, timer, fx),
            None => self.on_input(now, input, fx),
        };
        match event {
            None | Some(NetworkEvent::Ready(_) | NetworkEvent::BackoffOver(_)) => Arrival::Nothing,
            Some(NetworkEvent::Answered { context, response, .. }) => {
                Arrival::Answer { call: context, response }
            }
            Some(NetworkEvent::Lost { peer, contexts, timed_out }) => {
                let error = tell_lost(client, peer, contexts.len(), timed_out, stood, fx);
                Arrival::Lost { peer, calls: contexts, error }
            }
        }
    }

    fn on_timer<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        timer: NetworkTimer,
        fx: &mut Effects<T>,
    ) -> Option<NetworkEvent<C>> {
        let event = self.network.on_timer(now, timer, fx)?;
        Some(self.on_event(now, event, fx))
    }

    fn on_input<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        input: &Input<T>,
        fx: &mut Effects<T>,
    ) -> Option<NetworkEvent<C>> {
        let event = self.network.on_input(now, input, fx)?;
        Some(self.on_event(now, event, fx))
    }

    fn on_event<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        event: NetworkEvent<C>,
        fx: &mut Effects<T>,
    ) -> NetworkEvent<C> {
        match event {
            NetworkEvent::Ready(peer) | NetworkEvent::BackoffOver(peer) => {
                self.flush(now, peer, fx);
                event
            }
            NetworkEvent::Lost { peer, mut contexts, timed_out } => {
                contexts.extend(self.take_unsent(peer));
                NetworkEvent::Lost { peer, contexts, timed_out }
            }
            NetworkEvent::Answered { .. } => event,
        }
    }

    /// Closes a connection and gives back what will not be answered.
    pub fn disconnect<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        peer: Peer,
        fx: &mut Effects<T>,
    ) -> Vec<C> {
        let mut calls = self.network.disconnect(now, peer, fx);
        calls.extend(self.take_unsent(peer));
        calls
    }

    fn flush<T: From<NetworkTimer>>(&mut self, now: Time, peer: Peer, fx: &mut Effects<T>) {
        while let Some(index) = self.unsent.iter().position(|unsent| unsent.peer == peer)
            && self.network.ready(now, peer, fx)
            && let Some(unsent) = self.unsent.remove(index)
        {
            self.network.send(now, peer, unsent.request, unsent.call, unsent.timeout_ms, fx);
        }
    }

    fn take_unsent(&mut self, peer: Peer) -> Vec<C> {
        let unsent = std::mem::take(&mut self.unsent).into_iter();
        let (lost, kept): (VecDeque<_>, VecDeque<_>) = unsent.partition(|unsent| unsent.peer == peer);
        self.unsent = kept;
        lost.into_iter().map(|unsent| unsent.call).collect()
    }
}

/// How a consumer or share consumer begins: without a connection, and with brokers that it asks for metadata.
pub fn begin<C: Clone>(
    name: &ClientName,
    common: CommonConfig,
    allow_auto_create_topics: bool,
    bootstrap: &[BrokerId],
    stream: &mut impl FnMut(&str) -> Random,
) -> (Requests<C>, Metadata) {
    let network = NetworkClient::new(name.clone(), common.network(i32::MAX), stream("network"));
    let metadata = Metadata::new(bootstrap, common, allow_auto_create_topics, stream("metadata"));
    (Requests::new(network), metadata)
}

/// A consumer's connection to its group coordinator, which is another one than that for fetches.
pub fn coordinator_peer(broker: BrokerId) -> Peer {
    Peer { node: NodeId::Broker(broker), channel: Channel::Coordinator }
}

/// Tells that a connection is lost with so many requests, if it `stood` or one of them took too long. What each of them
/// failed by is the answer.
fn tell_lost<T>(
    client: &ClientName,
    peer: Peer,
    requests: usize,
    timed_out: Option<ApiKey>,
    stood: bool,
    fx: &mut Effects<T>,
) -> ErrorCode {
    let (client, node) = (client.clone(), peer.node);
    match timed_out {
        Some(api) => {
            fx.event(Event::RequestTimedOut { client, node, api });
            ErrorCode::RequestTimedOut
        }
        None => {
            if stood {
                fx.event(Event::ConnectionLost { client, node, requests: requests as i32 });
            }
            ErrorCode::NetworkException
        }
    }
}
