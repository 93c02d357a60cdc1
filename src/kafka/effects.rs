//! What a state machine asks of the world around it.
//!
//! A node's handler gets `now` and an [`Input`], changes its own state and pushes [`Effect`]s; it never waits, reads a
//! clock or touches a socket. `T` is the node's own set of timers.
//!
//! **Invariant:** effects are carried out in the order in which they were pushed.

use std::rc::Rc;

use super::event::{Event, Halt};
use super::protocol::{Request, Response};
use super::time::Time;
use super::types::{ClientName, NodeId};

/// Which of a node's connections to one peer is meant. Kafka keeps several, so that a request that is parked at the
/// broker (a fetch, a join) holds up nothing but its own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// A client's connection to a broker: metadata, produce, fetch.
    Main,
    /// A consumer's connection to its group coordinator.
    Coordinator,
    /// A broker's replica fetcher to a leader.
    ReplicaFetcher,
    /// A broker's fetches of the metadata log.
    Raft,
    /// A broker's registration and heartbeats to the controller.
    Lifecycle,
    /// A broker's AlterPartition requests.
    AlterPartition,
    /// Requests that a broker passes on to the controller, and its own small ones.
    Forwarding,
    /// What a leader of share partitions asks of the share coordinators.
    ShareState,
    /// What a coordinator of share groups asks of leaders.
    EndOffsets,
    /// What a leader asks of the coordinators of transactions.
    AddPartitions,
    /// What a coordinator of transactions has written to their partitions.
    Markers,
    /// The producer's connection of an application that has a consumer too.
    Producer,
}

/// The other end of a connection, as its opener names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    pub node: NodeId,
    pub channel: Channel,
}

impl Peer {
    pub fn new(node: impl Into<NodeId>, channel: Channel) -> Peer {
        Peer { node: node.into(), channel }
    }
}

/// One request as the receiving node knows it: the way back for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    pub from: NodeId,
    pub channel: Channel,
    /// Counts the connections that were opened between the two; an answer to an earlier one is dropped.
    pub connection: u32,
    pub correlation: i32,
    /// `request_api_version` of its header, at which the answer is written too.
    pub version: i16,
}

/// A connection that another node opened, as its server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incoming {
    pub from: NodeId,
    pub channel: Channel,
    /// As in [`RequestId`].
    pub connection: u32,
}

impl RequestId {
    /// The connection that it came on.
    pub fn incoming(self) -> Incoming {
        Incoming { from: self.from, channel: self.channel, connection: self.connection }
    }
}

/// Something that reaches a node.
#[derive(Clone, Debug)]
pub enum Input<T> {
    /// The process has started.
    Start,
    /// The connection this node opened is established.
    Connected(Peer),
    /// The connection is refused, closed by the other side or lost.
    Disconnected(Peer),
    /// The other side has closed a connection that it had opened.
    Gone(Incoming),
    Response {
        from: Peer,
        correlation: i32,
        response: Rc<Response>,
    },
    Request {
        id: RequestId,
        /// `client.id` of the request's header.
        client: ClientName,
        request: Rc<Request>,
    },
    Timer(T),
}

#[derive(Clone, Debug)]
pub enum Effect<T> {
    Connect(Peer),
    /// Closes a connection that this node opened.
    Disconnect(Peer),
    Send {
        to: Peer,
        correlation: i32,
        /// Of the request and its answer.
        version: i16,
        request: Rc<Request>,
    },
    /// Answers a request, which frees its connection for the next one.
    Respond {
        to: RequestId,
        response: Rc<Response>,
    },
    /// Frees the connection without an answer (acks=0).
    NoResponse(RequestId),
    /// Closes the connection that a request came on (acks=0 and an error, R-REPL-29).
    Hangup(RequestId),
    /// Sets a timer; one that is equal and still pending is replaced.
    SetTimer {
        timer: T,
        at: Time,
    },
    CancelTimer(T),
    Event(Event),
    /// The process ends by itself.
    Exit,
    /// The process is ended or stands still from now on, at a place in its own program.
    Halt(Halt),
}

/// The effects of one step, in order.
#[derive(Debug)]
pub struct Effects<T> {
    list: Vec<Effect<T>>,
}

impl<T> Default for Effects<T> {
    fn default() -> Self {
        Effects { list: Vec::new() }
    }
}

impl<T> Effects<T> {
    pub fn push(&mut self, effect: Effect<T>) {
        self.list.push(effect);
    }

    pub fn event(&mut self, event: Event) {
        self.list.push(Effect::Event(event));
    }

    pub fn respond(&mut self, to: RequestId, response: impl Into<Response>) {
        self.list.push(Effect::Respond { to, response: Rc::new(response.into()) });
    }

    pub fn set_timer(&mut self, timer: impl Into<T>, at: Time) {
        self.list.push(Effect::SetTimer { timer: timer.into(), at });
    }

    pub fn cancel_timer(&mut self, timer: impl Into<T>) {
        self.list.push(Effect::CancelTimer(timer.into()));
    }

    pub fn halt(&mut self, how: Halt) {
        self.list.push(Effect::Halt(how));
    }

    pub fn exit(&mut self) {
        self.list.push(Effect::Exit);
    }

    /// Takes over the effects of a part whose timers are a subset of this node's.
    pub fn absorb<U: Into<T>>(&mut self, part: Effects<U>) {
        let effects = part.list.into_iter().map(|effect| match effect {
            Effect::Connect(peer) => Effect::Connect(peer),
            Effect::Disconnect(peer) => Effect::Disconnect(peer),
            Effect::Send { to, correlation, version, request } => {
                Effect::Send { to, correlation, version, request }
            }
            Effect::Respond { to, response } => Effect::Respond { to, response },
            Effect::NoResponse(id) => Effect::NoResponse(id),
            Effect::Hangup(id) => Effect::Hangup(id),
            Effect::SetTimer { timer, at } => Effect::SetTimer { timer: timer.into(), at },
            Effect::CancelTimer(timer) => Effect::CancelTimer(timer.into()),
            Effect::Event(event) => Effect::Event(event),
            Effect::Exit => Effect::Exit,
            Effect::Halt(how) => Effect::Halt(how),
        });
        // Collected in place, where there was nothing before.
        match self.list.is_empty() {
            true => self.list = effects.collect(),
            false => self.list.extend(effects),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn into_vec(self) -> Vec<Effect<T>> {
        self.list
    }
}
