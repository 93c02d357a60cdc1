//! Connections as TCP gives them: first in, first out in each direction, one request in work at a time.
//!
//! A dead process closes its connections, and the other side hears of it one latency later; a machine without power says
//! nothing, and resets what others still hold when it is on again; across a cut link nothing
//! is heard until it heals, and what was sent arrives then, unless somebody lost patience (R-PROD-16).
//!
//! **Invariant:** on one connection and in one direction, nothing overtakes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::kafka::effects::{Channel, Incoming, Peer, RequestId};
use crate::kafka::protocol::{ApiKey, Request, Response};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, NodeId};

/// One connection of one client process to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub client: NodeId,
    pub server: NodeId,
    pub channel: Channel,
    pub number: u32,
}

impl ConnectionId {
    pub fn peer(self) -> Peer {
        Peer { node: self.server, channel: self.channel }
    }

    pub fn incoming(self) -> Incoming {
        Incoming { from: self.client, channel: self.channel, connection: self.number }
    }

    pub fn request(self, (correlation, version): (i32, i16)) -> RequestId {
        RequestId { from: self.client, channel: self.channel, connection: self.number, correlation, version }
    }

    pub fn of_request(server: NodeId, id: RequestId) -> ConnectionId {
        ConnectionId { client: id.from, server, channel: id.channel, number: id.connection }
    }
}

/// What travels on a connection.
#[derive(Clone, Debug)]
pub enum Packet {
    Connect,
    Accepted,
    Refused,
    Request { correlation: i32, version: i16, request: Rc<Request> },
    Response { correlation: i32, response: Rc<Response> },
    ClosedByClient,
    ClosedByServer,
}

impl Packet {
    pub fn is_to_server(&self) -> bool {
        matches!(self, Packet::Connect | Packet::Request { .. } | Packet::ClosedByClient)
    }
}

/// A request that has not come in work, with the correlation id and the version of its header.
pub type Waiting = ((i32, i16), Rc<Request>);

#[derive(Clone, Debug)]
pub struct Connection {
    pub client_name: ClientName,
    /// When the last packet of each direction arrives.
    last_to_server: Time,
    last_to_client: Time,
    /// A request is being worked on; the others wait.
    pub in_work: bool,
    pub inbox: VecDeque<Waiting>,
    pub client_open: bool,
    pub server_open: bool,
}

/// A message under way, for those who watch.
#[derive(Clone, Debug)]
pub struct Flight {
    pub from: NodeId,
    pub to: NodeId,
    pub channel: Channel,
    pub sent_at: Time,
    pub arrives_at: Time,
    pub packet: Packet,
}

impl Flight {
    pub fn api(&self) -> Option<ApiKey> {
        match &self.packet {
            Packet::Request { request, .. } => Some(request.api()),
            Packet::Response { response, .. } => Some(response.api()),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Network {
    latency_us: RangeInclusive<i64>,
    connections: BTreeMap<ConnectionId, Connection>,
    /// The connection that each client end has open to each peer.
    current: BTreeMap<(NodeId, Peer), ConnectionId>,
    next_number: BTreeMap<(NodeId, Peer), u32>,
    /// One stream of latencies for each pair of nodes.
    links: BTreeMap<(NodeId, NodeId), Random>,
    seed: u64,
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// By how much the packets of slow links take longer.
    delays_us: BTreeMap<(NodeId, NodeId), i64>,
    /// What reached a cut and waits for it to heal.
    held: VecDeque<(ConnectionId, Packet)>,
}

fn pair(a: NodeId, b: NodeId) -> (NodeId, NodeId) {
    if a <= b { (a, b) } else { (b, a) }
}

/// One way between two processes of one machine, in microseconds.
const LOOPBACK_US: i64 = 50;

impl Network {
    pub fn new(seed: u64, latency_us: RangeInclusive<i64>) -> Network {
        Network {
            latency_us,
            connections: BTreeMap::new(),
            current: BTreeMap::new(),
            next_number: BTreeMap::new(),
            links: BTreeMap::new(),
            seed,
            cuts: BTreeSet::new(),
            delays_us: BTreeMap::new(),
            held: VecDeque::new(),
        }
    }

    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    pub fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// The connection that `client` has open, or is opening, to `peer`.
    pub fn current(&self, client: NodeId, peer: Peer) -> Option<ConnectionId> {
        self.current.get(&(client, peer)).copied()
    }

    pub fn is_current(&self, id: ConnectionId) -> bool {
        self.current.get(&(id.client, id.peer())) == Some(&id)
    }

    /// A new connection; one that was still open is forgotten on the client's side.
    pub fn open(&mut self, client: NodeId, client_name: ClientName, peer: Peer) -> ConnectionId {
        let number = self.next_number.entry((client, peer)).or_default();
        *number += 1;
        let id = ConnectionId { client, server: peer.node, channel: peer.channel, number: *number };
        let connection = Connection {
            client_name,
            last_to_server: Time::ZERO,
            last_to_client: Time::ZERO,
            in_work: false,
            inbox: VecDeque::new(),
            client_open: true,
            server_open: true,
        };
        self.connections.insert(id, connection);
        self.current.insert((client, peer), id);
        id
    }

    /// The client's end is closed.
    pub fn close_client_end(&mut self, id: ConnectionId) {
        if self.is_current(id) {
            self.current.remove(&(id.client, id.peer()));
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.client_open = false;
            if !connection.server_open {
                self.connections.remove(&id);
            }
        }
    }

    /// The server's end is closed; what waited there is gone.
    pub fn close_server_end(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.server_open = false;
            connection.inbox.clear();
            connection.in_work = false;
            if !connection.client_open {
                self.connections.remove(&id);
            }
        }
    }

    /// Connections with an open end at `node`: (as the client, as the server).
    pub fn ends_of(&self, node: NodeId) -> (Vec<ConnectionId>, Vec<ConnectionId>) {
        let as_client = self.connections.iter().filter(|(id, c)| id.client == node && c.client_open);
        let as_server = self.connections.iter().filter(|(id, c)| id.server == node && c.server_open);
        (as_client.map(|(id, _)| *id).collect(), as_server.map(|(id, _)| *id).collect())
    }

    /// Connections that only the other side of `node` still has open: (with it as the client, as the server).
    pub fn half_open_ends_of(&self, node: NodeId) -> (Vec<ConnectionId>, Vec<ConnectionId>) {
        let open = |client: bool, server: bool| {
            move |(_, c): &(&ConnectionId, &Connection)| (c.client_open, c.server_open) == (client, server)
        };
        let as_client = self.connections.iter().filter(open(false, true)).filter(|(id, _)| id.client == node);
        let as_server = self.connections.iter().filter(open(true, false)).filter(|(id, _)| id.server == node);
        (as_client.map(|(id, _)| *id).collect(), as_server.map(|(id, _)| *id).collect())
    }

    /// When a packet that is sent now arrives.
    pub fn arrival(&mut self, now: Time, id: ConnectionId, packet: &Packet) -> Time {
        let ends = pair(id.client, id.server);
        let seed = self.seed;
        let stream = self
            .links
            .entry(ends)
            .or_insert_with(|| Random::stream(seed, &format!("link {} {}", ends.0, ends.1)));
        let latency_us = stream.between(*self.latency_us.start(), *self.latency_us.end());
        // A node reaches itself without the network, and yet not at once: who asks itself again and again would have no time pass.
        let latency_us = if id.client == id.server { LOOPBACK_US } else { latency_us };
        let drawn = now.plus_us(latency_us + self.delays_us.get(&ends).copied().unwrap_or(0));
        let Some(connection) = self.connections.get_mut(&id) else { return drawn };
        let last = if packet.is_to_server() {
            &mut connection.last_to_server
        } else {
            &mut connection.last_to_client
        };
        *last = drawn.max(*last);
        *last
    }

    pub fn cut(&mut self, a: NodeId, b: NodeId) {
        self.cuts.insert(pair(a, b));
    }

    pub fn is_cut(&self, a: NodeId, b: NodeId) -> bool {
        self.cuts.contains(&pair(a, b))
    }

    pub fn cuts(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        self.cuts.iter().copied()
    }

    /// What is sent over the link from now on takes longer by `by_us`.
    pub fn slow(&mut self, a: NodeId, b: NodeId, by_us: i64) {
        match by_us {
            0 => self.delays_us.remove(&pair(a, b)),
            _ => self.delays_us.insert(pair(a, b), by_us),
        };
    }

    pub fn delay_us(&self, a: NodeId, b: NodeId) -> i64 {
        self.delays_us.get(&pair(a, b)).copied().unwrap_or(0)
    }

    /// The slow links, each with what its packets take longer.
    pub fn delays_us(&self) -> impl Iterator<Item = ((NodeId, NodeId), i64)> + '_ {
        self.delays_us.iter().map(|(ends, us)| (*ends, *us))
    }

    pub fn hold(&mut self, id: ConnectionId, packet: Packet) {
        self.held.push_back((id, packet));
    }

    /// The link carries again; what it held, in order.
    pub fn heal(&mut self, a: NodeId, b: NodeId) -> Vec<(ConnectionId, Packet)> {
        self.cuts.remove(&pair(a, b));
        let ends = pair(a, b);
        let of_link = |id: &ConnectionId| pair(id.client, id.server) == ends;
        let (released, held) = std::mem::take(&mut self.held).into_iter().partition(|(id, _)| of_link(id));
        self.held = held;
        Vec::from(released)
    }
}
