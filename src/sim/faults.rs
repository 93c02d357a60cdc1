//! What happens to processes: they start, die, stand still, end by themselves.

use std::collections::VecDeque;
use std::rc::Rc;

use super::network::Packet;
use super::process::{Arrival, Machine, ProcessState, Remains, Timer};
use super::world::{Entry, World};
use crate::kafka::broker::{Broker, BrokerSetup, Disk};
use crate::kafka::controller::{Controller, ControllerSetup};
use crate::kafka::event::{Act, Event};
use crate::kafka::raft::RaftDisk;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, NodeId};

impl World {
    pub(super) fn new_broker(&self, id: BrokerId, disk: Disk, incarnation: u32) -> Broker {
        Broker::new(BrokerSetup {
            id,
            rack: self.racks.get(&id).cloned().flatten(),
            voters: self.config.controllers.as_slice().into(),
            config: self.broker_config.clone(),
            disk,
            random: self.stream(&format!("broker {id} start {incarnation}")),
        })
    }

    pub(super) fn new_controller(&self, id: ControllerId, disk: RaftDisk, incarnation: u32) -> Controller {
        Controller::new(ControllerSetup {
            id,
            voters: self.config.controllers.as_slice().into(),
            config: self.broker_config.clone(),
            features: self.features,
            disk,
            random: self.stream(&format!("controller {id} start {incarnation}")),
        })
    }

    /// The process is gone at once; its kernel closes its connections.
    pub(super) fn kill(&mut self, node: NodeId, act: Act) {
        let Some(name) = self.end_process(node) else { return };
        let (as_client, as_server) = self.network.ends_of(node);
        for connection in as_client {
            self.transmit(connection, Packet::ClosedByClient);
            self.network.close_client_end(connection);
        }
        for connection in as_server {
            self.transmit(connection, Packet::ClosedByServer);
            self.network.close_server_end(connection);
        }
        self.tell(Event::Process { node, name, act });
    }

    /// The machine is off at once. Nobody closes its connections: the others notice when they wait in vain.
    pub(super) fn cut_power(&mut self, node: NodeId) {
        let Some(name) = self.end_process(node) else { return };
        let (as_client, as_server) = self.network.ends_of(node);
        as_client.into_iter().for_each(|connection| self.network.close_client_end(connection));
        as_server.into_iter().for_each(|connection| self.network.close_server_end(connection));
        self.tell(Event::Process { node, name, act: Act::PowerCut });
        let now = self.now;
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return };
        process.has_power = false;
        let ProcessState::Dead(remains) = &mut process.state else { return };
        let lost = remains.lose_unflushed(now);
        if let NodeId::Broker(broker) = node
            && lost.offsets > 0
        {
            self.tell(Event::UnflushedLost { broker, ends: lost.ends, offsets: lost.offsets });
        }
    }

    /// What was on a dead broker's disk is gone.
    pub(super) fn wipe_disk(&mut self, broker: BrokerId) {
        let Some(process) = self.processes.get_mut(&broker.into()).map(Rc::make_mut) else { return };
        process.state = ProcessState::Dead(Remains::Broker(Box::default()));
        self.tell(Event::DiskWiped { broker });
    }

    /// The process is no more; its name.
    fn end_process(&mut self, node: NodeId) -> Option<ClientName> {
        let now = self.now;
        let process = self.processes.get_mut(&node).map(Rc::make_mut)?;
        let timers = std::mem::take(&mut process.timers);
        let name = process.name.clone();
        let state = std::mem::replace(&mut process.state, ProcessState::Dead(Remains::Nothing));
        process.state = match state {
            ProcessState::Running(machine) | ProcessState::Frozen { machine, .. } => {
                ProcessState::Dead(machine.into_remains())
            }
            dead @ ProcessState::Dead(_) => dead,
        };
        process.since = now;
        for key in timers.into_values() {
            self.queue.remove(&key);
        }
        Some(name)
    }

    /// A client's process has ended by itself.
    pub(super) fn end(&mut self, node: NodeId) {
        self.kill(node, Act::Ended);
    }

    /// Starts a dead broker or controller on the disk it had.
    pub(super) fn restart(&mut self, node: NodeId) {
        let now = self.now;
        let Some(process) = self.processes.get(&node) else { return };
        let (incarnation, name) = (process.incarnation + 1, process.name.clone());
        let had_power = process.has_power;
        let ProcessState::Dead(remains) = &process.state else { return };
        let machine = match (node, remains.clone()) {
            (NodeId::Broker(id), Remains::Broker(disk)) => {
                Machine::Broker(Box::new(self.new_broker(id, *disk, incarnation)))
            }
            (NodeId::Controller(id), Remains::Controller(disk)) => {
                Machine::Controller(Box::new(self.new_controller(id, *disk, incarnation)))
            }
            _ => return,
        };
        if let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) {
            process.state = ProcessState::Running(machine);
            process.incarnation = incarnation;
            process.since = now;
            process.has_power = true;
        }
        if !had_power {
            self.reset_forgotten(node);
        }
        self.push(now, Entry::Start { node, incarnation });
        self.tell(Event::Process { node, name, act: Act::Started });
    }

    /// A machine that is on again knows nothing of its connections: it resets those that others still hold.
    fn reset_forgotten(&mut self, node: NodeId) {
        let (as_client, as_server) = self.network.half_open_ends_of(node);
        as_client.into_iter().for_each(|connection| self.transmit(connection, Packet::ClosedByClient));
        as_server.into_iter().for_each(|connection| self.transmit(connection, Packet::ClosedByServer));
    }

    pub(super) fn freeze(&mut self, node: NodeId) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return };
        let state = std::mem::replace(&mut process.state, ProcessState::Dead(Remains::Nothing));
        process.state = match state {
            ProcessState::Running(machine) => ProcessState::Frozen { machine, held: VecDeque::new() },
            other => other,
        };
        process.since = now;
        let name = process.name.clone();
        self.tell(Event::Process { node, name, act: Act::Frozen });
    }

    /// What reached the process while it stood still reaches it now, in order; a timer only if it is still set.
    pub(super) fn thaw(&mut self, node: NodeId) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return };
        let name = process.name.clone();
        let state = std::mem::replace(&mut process.state, ProcessState::Dead(Remains::Nothing));
        let (state, held) = match state {
            ProcessState::Frozen { machine, held } => (ProcessState::Running(machine), held),
            other => (other, VecDeque::new()),
        };
        process.state = state;
        process.since = now;
        self.tell(Event::Process { node, name, act: Act::Thawed });
        for arrival in held {
            if let Arrival::Timer(timer) = &arrival
                && !self.take_overdue(node, timer)
            {
                continue;
            }
            self.deliver(node, arrival);
        }
    }

    /// Whether a timer that ran out during a freeze has neither been cancelled nor set anew since.
    fn take_overdue(&mut self, node: NodeId, timer: &Timer) -> bool {
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return false };
        let overdue = process.timers.get(timer).is_some_and(|key| !self.queue.contains(key));
        if overdue {
            process.timers.remove(timer);
        }
        overdue
    }
}
