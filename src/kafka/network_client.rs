//! The opening side of connections: what `NetworkClient` is to Kafka's clients and to its brokers' own requests.
//!
//! Keeps, per peer, one connection with its back-off, the ApiVersions handshake and the requests in flight with their
//! deadlines. A request that is not answered in time costs the connection and everything in flight on it (R-PROD-16).
//!
//! **Invariant:** a context given to [`NetworkClient::send`] comes back exactly once, in `Answered` or in `Lost`.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::api_versions::{self, FinalizedFeatures, NodeApiVersions};
use super::effects::{Channel, Effect, Effects, Input, Peer};
use super::protocol::{ApiKey, Request, Response};
use super::random::Random;
use super::time::Time;
use super::types::ClientName;

#[derive(Clone, Copy, Debug)]
pub struct NetworkConfig {
    /// reconnect.backoff.ms, doubled at each failure.
    pub reconnect_backoff_ms: i64,
    /// reconnect.backoff.max.ms.
    pub reconnect_backoff_max_ms: i64,
    /// socket.connection.setup.timeout.ms.
    pub setup_timeout_ms: i64,
    /// How long the handshake may take: request.timeout.ms.
    pub handshake_timeout_ms: i64,
    /// max.in.flight.requests.per.connection.
    pub max_in_flight: i32,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        NetworkConfig {
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1000,
            setup_timeout_ms: 10_000,
            handshake_timeout_ms: 30_000,
            max_in_flight: i32::MAX,
        }
    }
}

/// The timers a [`NetworkClient`] needs; a node's own timers embed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkTimer {
    /// The back-off after a lost or failed connection is over.
    Backoff(Peer),
    /// A deadline on this connection (a request's or the set-up's) may be reached. What was answered in time leaves its
    /// timer behind: to cancel and set one for each request would cost more than to look once in vain.
    Deadline(Peer),
}

/// What a [`NetworkClient`] tells its owner.
#[derive(Debug)]
pub enum NetworkEvent<C> {
    /// The connection can take requests.
    Ready(Peer),
    Answered {
        peer: Peer,
        context: C,
        response: Rc<Response>,
        sent_at: Time,
    },
    /// The connection is gone; none of these requests will be answered, each may or may not have been carried out.
    Lost {
        peer: Peer,
        contexts: Vec<C>,
        /// The request whose deadline passed, if that is why.
        timed_out: Option<ApiKey>,
    },
    /// The peer may be tried again.
    BackoffOver(Peer),
}

#[derive(Clone, Debug)]
struct InFlight<C> {
    correlation: i32,
    api: ApiKey,
    /// `None` for the handshake.
    context: Option<C>,
    sent_at: Time,
    deadline: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Link {
    Down { may_connect_at: Time },
    Connecting { deadline: Time },
    Handshaking,
    Ready,
}

#[derive(Clone, Debug)]
struct Connection<C> {
    link: Link,
    /// Failures in a row.
    failures: u32,
    last_attempt: Option<Time>,
    in_flight: VecDeque<InFlight<C>>,
    /// For when the timer is set.
    armed: Option<Time>,
    /// What the peer speaks.
    versions: NodeApiVersions,
}

impl<C> Connection<C> {
    /// Sets the timer for the next deadline, unless it runs out before that anyway.
    fn arm<T: From<NetworkTimer>>(&mut self, peer: Peer, fx: &mut Effects<T>) {
        let set_up = match self.link {
            Link::Connecting { deadline } => Some(deadline),
            _ => None,
        };
        let next = self.in_flight.iter().map(|request| request.deadline).chain(set_up).min();
        if let Some(at) = next
            && self.armed.is_none_or(|armed| armed > at)
        {
            fx.set_timer(NetworkTimer::Deadline(peer), at);
            self.armed = Some(at);
        }
    }
}

#[derive(Clone, Debug)]
pub struct NetworkClient<C> {
    config: NetworkConfig,
    client_id: ClientName,
    random: Random,
    next_correlation: i32,
    connections: BTreeMap<Peer, Connection<C>>,
    /// The latest that any peer has told.
    features: FinalizedFeatures,
}

impl<C: Clone> NetworkClient<C> {
    pub fn new(client_id: ClientName, config: NetworkConfig, random: Random) -> Self {
        NetworkClient {
            config,
            client_id,
            random,
            next_correlation: 0,
            connections: BTreeMap::new(),
            features: FinalizedFeatures::default(),
        }
    }

    /// Whether a request can be sent now; opens the connection if it is down and its back-off is over.
    pub fn ready<T: From<NetworkTimer>>(&mut self, now: Time, peer: Peer, fx: &mut Effects<T>) -> bool {
        let connection = self.connections.entry(peer).or_insert_with(|| Connection {
            link: Link::Down { may_connect_at: now },
            failures: 0,
            last_attempt: None,
            in_flight: VecDeque::new(),
            armed: None,
            versions: NodeApiVersions::default(),
        });
        match connection.link {
            Link::Ready => self.can_send(peer),
            Link::Down { may_connect_at } if may_connect_at <= now => {
                let deadline = now.plus_ms(self.config.setup_timeout_ms);
                connection.link = Link::Connecting { deadline };
                connection.last_attempt = Some(now);
                fx.push(Effect::Connect(peer));
                connection.arm(peer, fx);
                false
            }
            Link::Down { may_connect_at } => {
                fx.set_timer(NetworkTimer::Backoff(peer), may_connect_at);
                false
            }
            Link::Connecting { .. } | Link::Handshaking => false,
        }
    }

    /// The connection stands, whatever is in flight on it.
    pub fn is_connected(&self, peer: Peer) -> bool {
        self.connections.get(&peer).is_some_and(|c| c.link == Link::Ready)
    }

    /// The connection stands and has room for a request.
    pub fn can_send(&self, peer: Peer) -> bool {
        self.is_connected(peer) && self.in_flight(peer) < self.config.max_in_flight
    }

    /// The connection is being opened.
    pub fn is_connecting(&self, peer: Peer) -> bool {
        let link = self.connections.get(&peer).map(|c| &c.link);
        matches!(link, Some(Link::Connecting { .. } | Link::Handshaking))
    }

    /// Connections that stand or are being opened.
    pub fn open_peers(&self) -> Vec<Peer> {
        let open = self.connections.iter().filter(|(_, c)| !matches!(c.link, Link::Down { .. }));
        open.map(|(peer, _)| *peer).collect()
    }

    /// When this node last began to open the connection.
    pub fn last_attempt(&self, peer: Peer) -> Option<Time> {
        self.connections.get(&peer).and_then(|c| c.last_attempt)
    }

    /// The last attempt failed and its back-off is not over.
    pub fn is_backing_off(&self, now: Time, peer: Peer) -> bool {
        let link = self.connections.get(&peer).map(|c| &c.link);
        matches!(link, Some(Link::Down { may_connect_at }) if *may_connect_at > now)
    }

    /// Requests that wait for an answer.
    pub fn in_flight(&self, peer: Peer) -> i32 {
        self.connections.get(&peer).map_or(0, |c| c.in_flight.len() as i32)
    }

    /// What the peer of a connection that stands has said of itself.
    pub fn versions(&self, peer: Peer) -> Option<&NodeApiVersions> {
        self.connections.get(&peer).map(|connection| &connection.versions)
    }

    /// The latest version up to `latest` at which the peer can be asked.
    pub fn version_for(&self, peer: Peer, api: ApiKey, latest: i16) -> i16 {
        self.versions(peer).map_or(latest, |versions| versions.latest_usable(api, latest))
    }

    /// The cluster's features, as far as this node has heard: it hears of them when it opens connections.
    pub fn features(&self) -> &FinalizedFeatures {
        &self.features
    }

    /// Sends a request on a connection that is [`ready`](Self::ready), at the latest version.
    pub fn send<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        peer: Peer,
        request: impl Into<Request>,
        context: C,
        timeout_ms: i64,
        fx: &mut Effects<T>,
    ) {
        let request = request.into();
        let version = self.version_for(peer, request.api(), request.api().version());
        self.send_at(now, peer, (version, request), context, timeout_ms, fx);
    }

    /// The same at a version that the request was made for ([`version_for`](Self::version_for)).
    pub fn send_at<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        peer: Peer,
        (version, request): (i16, Request),
        context: C,
        timeout_ms: i64,
        fx: &mut Effects<T>,
    ) {
        assert!(self.is_connected(peer), "no connection to {}", peer.node);
        self.put_in_flight(now, peer, (version, request), Some(context), timeout_ms, fx);
    }

    /// Sends a request that is never answered (Produce with acks=0).
    pub fn send_without_answer<T: From<NetworkTimer>>(
        &mut self,
        peer: Peer,
        request: impl Into<Request>,
        fx: &mut Effects<T>,
    ) {
        assert!(self.is_connected(peer), "no connection to {}", peer.node);
        let (correlation, request) = (self.take_correlation(), Rc::new(request.into()));
        let version = self.version_for(peer, request.api(), request.api().version());
        fx.push(Effect::Send { to: peer, correlation, version, request });
    }

    /// Closes the connection from this side and gives back what was in flight.
    pub fn disconnect<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        peer: Peer,
        fx: &mut Effects<T>,
    ) -> Vec<C> {
        if self.connections.get(&peer).is_none_or(|c| matches!(c.link, Link::Down { .. })) {
            return Vec::new();
        }
        fx.push(Effect::Disconnect(peer));
        self.take_down(now, peer, fx)
    }

    /// Digests a connection's input; `None` for inputs that are not about this node's own connections.
    pub fn on_input<I, T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        input: &Input<I>,
        fx: &mut Effects<T>,
    ) -> Option<NetworkEvent<C>> {
        match input {
            Input::Connected(peer) => self.on_connected(now, *peer, fx),
            Input::Disconnected(peer) => {
                let contexts = self.take_down(now, *peer, fx);
                Some(NetworkEvent::Lost { peer: *peer, contexts, timed_out: None })
            }
            Input::Response { from, correlation, response } => {
                self.on_response(*from, *correlation, response)
            }
            Input::Start | Input::Request { .. } | Input::Gone(_) | Input::Timer(_) => None,
        }
    }

    pub fn on_timer<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        timer: NetworkTimer,
        fx: &mut Effects<T>,
    ) -> Option<NetworkEvent<C>> {
        match timer {
            NetworkTimer::Backoff(peer) => Some(NetworkEvent::BackoffOver(peer)),
            NetworkTimer::Deadline(peer) => {
                let connection = self.connections.get_mut(&peer)?;
                connection.armed = None;
                let timed_out = connection.in_flight.iter().find(|r| r.deadline <= now).map(|r| r.api);
                let set_up_failed =
                    matches!(connection.link, Link::Connecting { deadline } if deadline <= now);
                if timed_out.is_none() && !set_up_failed {
                    connection.arm(peer, fx);
                    return None;
                }
                fx.push(Effect::Disconnect(peer));
                let contexts = self.take_down(now, peer, fx);
                Some(NetworkEvent::Lost { peer, contexts, timed_out })
            }
        }
    }

    fn on_connected<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        peer: Peer,
        fx: &mut Effects<T>,
    ) -> Option<NetworkEvent<C>> {
        let connection = self.connections.get_mut(&peer)?;
        // Replica fetchers know what their peers speak.
        if peer.channel == Channel::ReplicaFetcher {
            connection.link = Link::Ready;
            connection.failures = 0;
            return Some(NetworkEvent::Ready(peer));
        }
        connection.link = Link::Handshaking;
        let request = (ApiKey::ApiVersions.version(), api_versions::request().into());
        self.put_in_flight(now, peer, request, None, self.config.handshake_timeout_ms, fx);
        None
    }

    fn on_response(
        &mut self,
        peer: Peer,
        correlation: i32,
        response: &Rc<Response>,
    ) -> Option<NetworkEvent<C>> {
        let connection = self.connections.get_mut(&peer)?;
        let request = connection.in_flight.pop_front()?;
        assert_eq!(request.correlation, correlation, "answers come in the order of their requests");
        match request.context {
            Some(context) => Some(NetworkEvent::Answered {
                peer,
                context,
                response: response.clone(),
                sent_at: request.sent_at,
            }),
            None => {
                let connection = self.connections.get_mut(&peer)?;
                connection.link = Link::Ready;
                connection.failures = 0;
                if let Response::ApiVersions(response) = &**response {
                    connection.versions = NodeApiVersions::of(response);
                    self.features.hear(FinalizedFeatures::of(response));
                }
                Some(NetworkEvent::Ready(peer))
            }
        }
    }

    fn put_in_flight<T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        peer: Peer,
        (version, request): (i16, Request),
        context: Option<C>,
        timeout_ms: i64,
        fx: &mut Effects<T>,
    ) {
        let correlation = self.take_correlation();
        let deadline = now.plus_ms(timeout_ms);
        let connection = self.connections.get_mut(&peer).expect("send() checked the connection");
        connection.in_flight.push_back(InFlight {
            correlation,
            api: request.api(),
            context,
            sent_at: now,
            deadline,
        });
        connection.arm(peer, fx);
        fx.push(Effect::Send { to: peer, correlation, version, request: Rc::new(request) });
    }

    /// The number that the next request gets.
    pub fn next_correlation(&self) -> i32 {
        self.next_correlation
    }

    fn take_correlation(&mut self) -> i32 {
        let correlation = self.next_correlation;
        self.next_correlation = correlation.wrapping_add(1) & i32::MAX;
        correlation
    }

    /// Marks the connection as down, starts its back-off and gives back the contexts in flight.
    fn take_down<T: From<NetworkTimer>>(&mut self, now: Time, peer: Peer, fx: &mut Effects<T>) -> Vec<C> {
        let Some(connection) = self.connections.get_mut(&peer) else { return Vec::new() };
        let doubled = self.config.reconnect_backoff_ms.saturating_mul(1 << connection.failures.min(20));
        let backoff_ms = match peer.channel {
            // A fetcher waits by itself (replica.fetch.backoff.ms).
            Channel::ReplicaFetcher => 0,
            _ => self.random.jitter(doubled.min(self.config.reconnect_backoff_max_ms), 20),
        };
        connection.failures += 1;
        connection.link = Link::Down { may_connect_at: now.plus_ms(backoff_ms) };
        let contexts = connection.in_flight.drain(..).filter_map(|r| r.context).collect();
        if connection.armed.take().is_some() {
            fx.cancel_timer(NetworkTimer::Deadline(peer));
        }
        if backoff_ms > 0 {
            fx.set_timer(NetworkTimer::Backoff(peer), now.plus_ms(backoff_ms));
        }
        contexts
    }

    pub fn client_id(&self) -> &ClientName {
        &self.client_id
    }
}
