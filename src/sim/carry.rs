//! Carrying out entries of the queue and the effects of nodes.

use std::rc::Rc;

use super::network::{ConnectionId, Packet};
use super::process::{Arrival, Timer};
use super::world::{Entry, World};
use crate::kafka::effects::{Effect, Effects, Peer, RequestId};
use crate::kafka::event::{Act, Halt};
use crate::kafka::protocol::{Request, Response, strict};
use crate::kafka::time::Time;
use crate::kafka::types::NodeId;

impl World {
    pub(super) fn carry_out(&mut self, entry: Entry) {
        match entry {
            Entry::Start { node, incarnation } => {
                if self.processes.get(&node).is_some_and(|process| process.incarnation == incarnation) {
                    self.deliver(node, Arrival::Start);
                }
            }
            Entry::Timer { node, timer } => self.timer_runs_out(node, timer),
            Entry::Packet { connection, packet, .. } => self.packet_arrives(connection, packet),
            Entry::NextRequest(connection) => self.next_request(connection),
            Entry::Command { command, text } => self.carry_out_scheduled(*command, &text),
        }
    }

    /// A process that stands still looks at its timers when it moves again; by then it may have set another.
    fn timer_runs_out(&mut self, node: NodeId, timer: Timer) {
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return };
        if process.is_running() {
            process.timers.remove(&timer);
        }
        self.deliver(node, Arrival::Timer(timer));
    }

    pub(super) fn carry_out_effects(&mut self, node: NodeId, fx: Effects<Timer>) {
        for effect in fx.into_vec() {
            match effect {
                Effect::Connect(peer) => self.connect(node, peer),
                Effect::Disconnect(peer) => self.disconnect(node, peer),
                Effect::Send { to, correlation, version, request } => {
                    self.send_request(node, to, (correlation, version), request)
                }
                Effect::Respond { to, response } => self.send_response(node, to, response),
                Effect::NoResponse(id) => self.free(ConnectionId::of_request(node, id)),
                Effect::Hangup(id) => self.hang_up(ConnectionId::of_request(node, id)),
                Effect::SetTimer { timer, at } => self.set_timer(node, timer, at),
                Effect::CancelTimer(timer) => self.cancel_timer(node, &timer),
                Effect::Event(event) => self.tell(event),
                Effect::Exit => self.end(node),
                Effect::Halt(Halt::Crash) => self.kill(node, Act::Killed),
                Effect::Halt(Halt::Freeze) => self.freeze(node),
                // Only a thread of it.
                Effect::Halt(Halt::Hang) => {}
            }
        }
    }

    fn set_timer(&mut self, node: NodeId, timer: Timer, at: Time) {
        let key = self.push(at.max(self.now), Entry::Timer { node, timer: timer.clone() });
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return };
        if let Some(replaced) = process.timers.insert(timer, key) {
            self.queue.remove(&replaced);
        }
    }

    fn cancel_timer(&mut self, node: NodeId, timer: &Timer) {
        if let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut)
            && let Some(key) = process.timers.remove(timer)
        {
            self.queue.remove(&key);
        }
    }

    fn connect(&mut self, client: NodeId, peer: Peer) {
        let Some(process) = self.processes.get(&client) else { return };
        let name = process.name.clone();
        let connection = self.network.open(client, name, peer);
        self.transmit(connection, Packet::Connect);
    }

    fn disconnect(&mut self, client: NodeId, peer: Peer) {
        if let Some(connection) = self.network.current(client, peer) {
            self.transmit(connection, Packet::ClosedByClient);
            self.network.close_client_end(connection);
        }
    }

    pub(super) fn transmit(&mut self, connection: ConnectionId, packet: Packet) {
        let sent_at = self.now;
        let at = self.network.arrival(sent_at, connection, &packet);
        self.push(at, Entry::Packet { connection, packet, sent_at });
    }

    fn send_request(
        &mut self,
        client: NodeId,
        to: Peer,
        (correlation, version): (i32, i16),
        request: Rc<Request>,
    ) {
        let Some(connection) = self.network.current(client, to) else { return };
        let request = match self.config.strict {
            true => carried(strict::carry_request(&request, version)),
            false => request,
        };
        self.transmit(connection, Packet::Request { correlation, version, request });
    }

    fn send_response(&mut self, server: NodeId, to: RequestId, response: Rc<Response>) {
        let connection = ConnectionId::of_request(server, to);
        if self.network.connection(connection).is_none_or(|connection| !connection.server_open) {
            return;
        }
        let response = match self.config.strict {
            true => carried(strict::carry_response(&response, to.version)),
            false => response,
        };
        self.transmit(connection, Packet::Response { correlation: to.correlation, response });
        self.free(connection);
    }

    /// The request in work is done; the next one may begin.
    fn free(&mut self, id: ConnectionId) {
        let Some(connection) = self.network.connection_mut(id) else { return };
        connection.in_work = false;
        if !connection.inbox.is_empty() {
            self.push(self.now, Entry::NextRequest(id));
        }
    }

    fn hang_up(&mut self, id: ConnectionId) {
        self.transmit(id, Packet::ClosedByServer);
        self.network.close_server_end(id);
    }

    fn packet_arrives(&mut self, id: ConnectionId, packet: Packet) {
        if self.network.is_cut(id.client, id.server) {
            return self.network.hold(id, packet);
        }
        match packet {
            Packet::Connect => self.connect_arrives(id),
            Packet::Request { correlation, version, request } => {
                let Some(connection) = self.network.connection_mut(id) else { return };
                if connection.server_open {
                    connection.inbox.push_back(((correlation, version), request));
                    self.next_request(id);
                }
            }
            Packet::ClosedByClient => {
                let was_open = self.network.connection(id).is_some_and(|connection| connection.server_open);
                self.network.close_server_end(id);
                if was_open {
                    self.deliver(id.server, Arrival::Gone(id.incoming()));
                }
            }
            Packet::Accepted if self.network.is_current(id) => {
                self.deliver(id.client, Arrival::Connected(id.peer()));
            }
            Packet::Response { correlation, response } if self.network.is_current(id) => {
                self.deliver(id.client, Arrival::Response { from: id.peer(), correlation, response });
            }
            Packet::Refused | Packet::ClosedByServer => {
                let current = self.network.is_current(id);
                self.network.close_client_end(id);
                if current {
                    self.deliver(id.client, Arrival::Disconnected(id.peer()));
                }
            }
            // An answer that nobody waits for any more.
            Packet::Accepted | Packet::Response { .. } => {}
        }
    }

    fn connect_arrives(&mut self, id: ConnectionId) {
        if self.network.connection(id).is_none() {
            return;
        }
        let server = self.processes.get(&id.server);
        // A machine without power does not even refuse.
        if server.is_some_and(|server| !server.has_power) {
            return self.network.close_server_end(id);
        }
        let accepted = server.is_some_and(|server| server.is_listening());
        if accepted {
            self.transmit(id, Packet::Accepted);
        } else {
            self.transmit(id, Packet::Refused);
            self.network.close_server_end(id);
        }
    }

    fn next_request(&mut self, id: ConnectionId) {
        let Some(connection) = self.network.connection_mut(id) else { return };
        if connection.in_work {
            return;
        }
        let Some((header, request)) = connection.inbox.pop_front() else { return };
        connection.in_work = true;
        let client = connection.client_name.clone();
        self.deliver(id.server, Arrival::Request { id: id.request(header), client, request });
    }
}

fn carried<T>(message: Result<T, crate::kafka::protocol::CodecError>) -> Rc<T> {
    Rc::new(message.unwrap_or_else(|error| panic!("a message that the wire cannot carry: {error}")))
}
