//! Commands: what can be carried out, and how.

use std::rc::Rc;

use super::command::{Command, Refusal, Target};
use super::network::{ConnectionId, Packet};
use super::process::{Machine, Process, ProcessState};
use super::world::{ADMIN, Entry, World};
use crate::client::admin::Operation;
use crate::client::consumer::Consumer;
use crate::client::producer::Producer;
use crate::kafka::config::{
    TOPIC_NOT_MODELLED, UpdateMode, broker_key, has_effect_on_brokers, listener_key, needs_listener,
    update_mode,
};
use crate::kafka::controller::configs::Resource;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Act, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, NodeId};

/// One hour.
const MAX_DELAY_US: i64 = 3_600_000_000;
/// A year.
const MAX_AHEAD_MS: i64 = 365 * 24 * 3_600_000;

impl World {
    /// Whether a command can be given now. What only the cluster can judge (a topic's name, its numbers) it judges
    /// later, as Kafka does, and refuses by [`Event::CommandRefused`].
    pub fn check(&self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::AddBroker { broker, .. } => self.check_new_broker(*broker),
            Command::Kill(target) => self.check_alive(target, "is not running"),
            Command::CutPower(target) => self.check_power(target),
            Command::WipeDisk(broker) => {
                let reason = "is running: a disk can be wiped while its broker is down";
                self.checked(&Target::Broker(*broker), Process::is_dead, reason)
            }
            Command::Stop(broker) => self.check_running(&Target::Broker(*broker)),
            Command::StopController(controller) => self.check_running(&Target::Controller(*controller)),
            Command::Start(target) => self.check_startable(target),
            Command::Freeze(target) => self.check_running(target),
            Command::Thaw(target) => self.check_frozen(target),
            Command::Cut { a, b } if self.is_cut(a, b)? => Err(refuse("that link is cut already")),
            Command::Heal { a, b } if !self.is_cut(a, b)? => Err(refuse("that link is not cut")),
            Command::Cut { .. } | Command::Heal { .. } => Ok(()),
            Command::Slow { a, b, by_us } => self.check_slow(a, b, *by_us),
            Command::SetClock { target, ahead_ms } => self.check_clock(target, *ahead_ms),
            Command::AddProducer(spec) => {
                self.check_new_client(&spec.name)?;
                spec.check().map(|_| ()).map_err(|error| refuse_with(ErrorCode::InvalidConfig, error))
            }
            Command::AddConsumer(spec) => {
                self.check_new_client(&spec.name)?;
                spec.check().map(|_| ()).map_err(|error| refuse_with(ErrorCode::InvalidConfig, error))
            }
            Command::Pause(name) | Command::Resume(name) => self.check_producer(name),
            Command::Close(name) => self.check_running(&Target::Client(name.clone())),
            Command::Crash(name) => self.check_alive(&Target::Client(name.clone()), "has ended"),
            Command::CreateTopic { config, .. } => config.keys().try_for_each(|key| check_has_effect(key)),
            Command::SetTopicConfig { key, .. } => check_has_effect(key),
            Command::SetBrokerConfig { broker, key, value } => {
                broker.map_or(Ok(()), |broker| self.find(&Target::Broker(broker)).map(|_| ()))?;
                check_broker_config(*broker, key, value.is_some())
            }
            Command::Describe(Resource::Broker(Some(broker))) => {
                self.find(&Target::Broker(*broker)).map(|_| ())
            }
            Command::Describe(_) | Command::DescribeQuorum => Ok(()),
            Command::AddPartitions { .. }
            | Command::DeleteTopic(_)
            | Command::DeleteRecords { .. }
            | Command::ElectLeader { .. }
            | Command::Reassign { .. }
            | Command::CancelReassignment(_) => Ok(()),
        }
    }

    fn is_cut(&self, a: &Target, b: &Target) -> Result<bool, Refusal> {
        let (a, b) = (self.find(a)?, self.find(b)?);
        if a == b { Err(refuse("a link has two different ends")) } else { Ok(self.network.is_cut(a, b)) }
    }

    fn check_slow(&self, a: &Target, b: &Target, by_us: i64) -> Result<(), Refusal> {
        let (a, b) = (self.find(a)?, self.find(b)?);
        if a == b {
            return Err(refuse("a link has two different ends"));
        }
        if !(0..=MAX_DELAY_US).contains(&by_us) {
            return Err(refuse("a link is slower by at most one hour"));
        }
        match self.network.delay_us(a, b) == by_us {
            true => Err(refuse("that link is as slow as that already")),
            false => Ok(()),
        }
    }

    fn check_clock(&self, target: &Target, ahead_ms: i64) -> Result<(), Refusal> {
        let node = self.find(target)?;
        if ahead_ms.saturating_abs() > MAX_AHEAD_MS {
            return Err(refuse("a clock is wrong by at most a year"));
        }
        match self.clock_ahead_ms(node) == ahead_ms {
            true => Err(refuse("that clock shows this already")),
            false => Ok(()),
        }
    }

    /// Carries a command out now. `text` is what the person wrote.
    pub fn apply(&mut self, command: Command, text: &str) -> Result<(), Refusal> {
        self.check(&command)?;
        let entry = Entry::Command { command: Box::new(command), text: text.to_string() };
        let key = self.push(self.now, entry);
        // Whatever was due at this very moment and scheduled earlier goes first, as in a replay.
        while self.queue.contains_key(&key) {
            self.step();
        }
        Ok(())
    }

    /// Carries a command out when its time comes; one that cannot be carried out then is refused by an event.
    pub fn schedule(&mut self, at: Time, command: Command, text: &str) {
        let entry = Entry::Command { command: Box::new(command), text: text.to_string() };
        self.push(at.max(self.now), entry);
    }

    pub(super) fn carry_out_scheduled(&mut self, command: Command, text: &str) {
        match self.check(&command) {
            Ok(()) => {
                self.tell(Event::CommandGiven { text: text.to_string() });
                self.order(command, text);
            }
            Err(Refusal { error, reason }) => {
                let error = error.unwrap_or(ErrorCode::InvalidRequest);
                self.tell(Event::CommandRefused { text: text.to_string(), error, message: reason });
            }
        }
    }

    fn order(&mut self, command: Command, text: &str) {
        match command {
            Command::AddBroker { broker, rack } => {
                self.racks.insert(broker, rack);
                self.start_broker(broker);
            }
            Command::Kill(target) => self.with_node(&target, |world, node| world.kill(node, Act::Killed)),
            Command::CutPower(target) => self.with_node(&target, World::cut_power),
            Command::WipeDisk(broker) => self.wipe_disk(broker),
            Command::StopController(controller) => self.tell_node(controller.into(), |machine, now, fx| {
                if let Machine::Controller(controller) = machine {
                    part(fx, |fx| controller.stop(now, fx));
                }
            }),
            Command::Stop(broker) => self.tell_node(broker.into(), |machine, now, fx| {
                if let Machine::Broker(broker) = machine {
                    part(fx, |fx| broker.stop(now, fx));
                }
            }),
            Command::Start(target) => self.with_node(&target, World::restart),
            Command::Freeze(target) => self.with_node(&target, World::freeze),
            Command::Thaw(target) => self.with_node(&target, World::thaw),
            Command::Cut { a, b } => self.cut(&a, &b),
            Command::Heal { a, b } => self.heal(&a, &b),
            Command::Slow { a, b, by_us } => self.slow(&a, &b, by_us),
            Command::SetClock { target, ahead_ms } => {
                self.with_node(&target, |world, node| world.set_clock(node, ahead_ms));
            }
            Command::AddProducer(spec) => {
                let (name, random) = (spec.name.clone(), self.client_stream());
                let producer = Producer::new(spec, &self.bootstrap(), random).expect("checked");
                self.start_client(name, Machine::Producer(Box::new(producer)));
            }
            Command::AddConsumer(spec) => {
                let (name, random) = (spec.name.clone(), self.client_stream());
                let consumer = Consumer::new(spec, &self.bootstrap(), random).expect("checked");
                self.start_client(name, Machine::Consumer(Box::new(consumer)));
            }
            Command::Pause(name) => self.tell_client(&name, |machine, now, fx| {
                if let Machine::Producer(producer) = machine {
                    part(fx, |fx| producer.pause(now, fx));
                }
            }),
            Command::Resume(name) => self.tell_client(&name, |machine, now, fx| {
                if let Machine::Producer(producer) = machine {
                    part(fx, |fx| producer.resume(now, fx));
                }
            }),
            Command::Close(name) => self.tell_client(&name, |machine, now, fx| match machine {
                Machine::Producer(producer) => part(fx, |fx| producer.close(now, fx)),
                Machine::Consumer(consumer) => part(fx, |fx| consumer.close(now, fx)),
                _ => {}
            }),
            Command::Crash(name) => {
                self.with_node(&Target::Client(name), |world, node| world.kill(node, Act::Killed))
            }
            Command::CreateTopic { topic, partitions, replication_factor, config } => {
                self.administrate(
                    text,
                    Operation::CreateTopic { topic, partitions, replication_factor, configs: config },
                );
            }
            Command::SetTopicConfig { topic, key, value } => {
                self.administrate(text, Operation::AlterTopicConfig { topic, key, value });
            }
            Command::SetBrokerConfig { broker, key, value } => {
                self.administrate(text, Operation::AlterBrokerConfig { broker, key, value });
            }
            Command::Describe(resource) => self.administrate(text, Operation::DescribeConfigs(resource)),
            Command::DescribeQuorum => self.administrate(text, Operation::DescribeQuorum),
            Command::AddPartitions { topic, count } => {
                self.administrate(text, Operation::AddPartitions { topic, count });
            }
            Command::DeleteTopic(topic) => self.administrate(text, Operation::DeleteTopic(topic)),
            Command::DeleteRecords { partition, before } => {
                let before = before.unwrap_or(-1);
                self.administrate(text, Operation::DeleteRecords { partition, before });
            }
            Command::ElectLeader { kind, partition } => {
                self.administrate(text, Operation::ElectLeader { kind, partition });
            }
            Command::Reassign { partition, replicas } => {
                self.administrate(text, Operation::Reassign { partition, replicas: Some(replicas) });
            }
            Command::CancelReassignment(partition) => {
                self.administrate(text, Operation::Reassign { partition, replicas: None });
            }
        }
    }

    fn administrate(&mut self, text: &str, operation: Operation) {
        self.tell_client(&ClientName::new(ADMIN), |machine, now, fx| {
            if let Machine::Admin(admin) = machine {
                part(fx, |fx| admin.submit(now, text, operation, fx));
            }
        });
    }

    /// One stream for each client, by its number, so that a name can be used again.
    fn client_stream(&self) -> crate::kafka::random::Random {
        self.stream(&format!("client {}", self.next_client))
    }

    fn with_node(&mut self, target: &Target, act: impl FnOnce(&mut World, NodeId)) {
        if let Ok(node) = self.find(target) {
            act(self, node);
        }
    }

    fn cut(&mut self, a: &Target, b: &Target) {
        if let (Ok(a), Ok(b)) = (self.find(a), self.find(b)) {
            self.network.cut(a, b);
            self.tell(Event::LinkCut { a, b });
        }
    }

    fn heal(&mut self, a: &Target, b: &Target) {
        if let (Ok(a), Ok(b)) = (self.find(a), self.find(b)) {
            let held = self.network.heal(a, b);
            for (connection, packet) in held.into_iter().chain(self.take_flights(a, b)) {
                self.transmit(connection, packet);
            }
            self.tell(Event::LinkHealed { a, b });
        }
    }

    fn slow(&mut self, a: &Target, b: &Target, by_us: i64) {
        if let (Ok(a), Ok(b)) = (self.find(a), self.find(b)) {
            self.network.slow(a, b, by_us);
            self.tell(Event::LinkSlowed { a, b, by_us });
        }
    }

    fn set_clock(&mut self, node: NodeId, ahead_ms: i64) {
        if let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) {
            process.clock_ahead_ms = ahead_ms;
            self.tell(Event::ClockSet { node, ahead_ms });
        }
    }

    /// What is on its way over a link, in order: it must not overtake what the cut held.
    fn take_flights(&mut self, a: NodeId, b: NodeId) -> Vec<(ConnectionId, Packet)> {
        let of_link = |entry: &Entry| match entry {
            Entry::Packet { connection, .. } => {
                (connection.client, connection.server) == (a, b)
                    || (connection.client, connection.server) == (b, a)
            }
            _ => false,
        };
        let under_way = self.queue.iter().filter(|(_, (_, entry))| of_link(entry)).map(|(key, _)| *key);
        let keys: Vec<_> = under_way.collect();
        let mut flights = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some((_, Entry::Packet { connection, packet, .. })) = self.queue.remove(&key) {
                flights.push((connection, packet));
            }
        }
        flights
    }

    fn tell_client(
        &mut self,
        name: &ClientName,
        tell: impl FnOnce(&mut Machine, Time, &mut Effects<super::process::Timer>),
    ) {
        if let Some(node) = self.node_of(name) {
            self.tell_node(node, tell);
        }
    }

    fn tell_node(
        &mut self,
        node: NodeId,
        tell: impl FnOnce(&mut Machine, Time, &mut Effects<super::process::Timer>),
    ) {
        self.ran.push(node);
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return };
        let now = self.now.on_clock(process.clock_ahead_ms);
        if let ProcessState::Running(machine) = &mut process.state {
            let mut fx = Effects::default();
            tell(machine, now, &mut fx);
            self.carry_out_effects(node, fx);
        }
    }

    /// The process that a command names.
    pub fn find(&self, target: &Target) -> Result<NodeId, Refusal> {
        let node = match target {
            Target::Broker(id) => Some(NodeId::Broker(*id)).filter(|node| self.processes.contains_key(node)),
            Target::Controller(id) => {
                Some(NodeId::Controller(*id)).filter(|node| self.processes.contains_key(node))
            }
            Target::Client(name) => self.node_of(name).filter(|_| name.as_str() != ADMIN),
        };
        let known = match target {
            Target::Broker(_) => list(self.racks.keys()),
            Target::Controller(_) => list(self.config.controllers.iter()),
            Target::Client(_) => list(self.names.keys().filter(|name| name.as_str() != ADMIN)),
        };
        node.ok_or_else(|| {
            let error = match target {
                Target::Broker(_) => Some(ErrorCode::BrokerNotAvailable),
                _ => None,
            };
            Refusal { error, reason: format!("there is no {}; there is {known}", name_of(target)) }
        })
    }

    fn checked(
        &self,
        target: &Target,
        fits: impl Fn(&Process) -> bool,
        otherwise: &str,
    ) -> Result<(), Refusal> {
        let node = self.find(target)?;
        match self.processes.get(&node) {
            Some(process) if fits(process) => Ok(()),
            _ => Err(refuse(format!("{} {otherwise}", name_of(target)))),
        }
    }

    fn check_alive(&self, target: &Target, otherwise: &str) -> Result<(), Refusal> {
        self.checked(target, |process| !process.is_dead(), otherwise)
    }

    /// A machine whose process is dead still has a page cache.
    fn check_power(&self, target: &Target) -> Result<(), Refusal> {
        if let Target::Client(name) = target {
            return Err(refuse(format!("{name} is a client: it has no disk, and its crash is enough")));
        }
        self.checked(target, |process| process.has_power, "has no power already")
    }

    fn check_running(&self, target: &Target) -> Result<(), Refusal> {
        self.check_alive(target, "is not running")?;
        self.checked(target, Process::is_running, "is frozen")
    }

    fn check_frozen(&self, target: &Target) -> Result<(), Refusal> {
        self.checked(target, Process::is_frozen, "is not frozen")
    }

    fn check_startable(&self, target: &Target) -> Result<(), Refusal> {
        if let Target::Client(name) = target {
            return Err(refuse(format!("{name} is a client: a client that has ended is added again")));
        }
        self.checked(target, Process::is_dead, "is running already")
    }

    fn check_producer(&self, name: &ClientName) -> Result<(), Refusal> {
        self.check_running(&Target::Client(name.clone()))?;
        match self.producer(name) {
            Some(_) => Ok(()),
            None => Err(refuse(format!("{name} is not a producer"))),
        }
    }

    fn check_new_broker(&self, broker: BrokerId) -> Result<(), Refusal> {
        if self.racks.contains_key(&broker) {
            let reason = format!("broker {broker} exists; a dead one is started again");
            return Err(refuse_with(ErrorCode::DuplicateBrokerRegistration, reason));
        }
        if broker.0 < 0 || self.config.controllers.iter().any(|id| id.0 == broker.0) {
            return Err(refuse_with(ErrorCode::InvalidRequest, format!("{broker} cannot be a broker's id")));
        }
        Ok(())
    }

    /// A name may be used again when its bearer has ended.
    fn check_new_client(&self, name: &ClientName) -> Result<(), Refusal> {
        if name.as_str() == ADMIN || name.as_str().is_empty() {
            return Err(refuse(format!("{:?} cannot be a client's name", name.as_str())));
        }
        match self.node_of(name).and_then(|node| self.processes.get(&node)) {
            Some(process) if !process.is_dead() => Err(refuse(format!("there is a client {name} already"))),
            _ => Ok(()),
        }
    }
}

/// Runs a client's own step and takes its effects over.
fn part<T: Into<super::process::Timer>>(
    fx: &mut Effects<super::process::Timer>,
    run: impl FnOnce(&mut Effects<T>),
) {
    let mut own = Effects::default();
    run(&mut own);
    fx.absorb(own);
}

fn check_has_effect(key: &str) -> Result<(), Refusal> {
    match TOPIC_NOT_MODELLED.iter().find(|known| known.name == key) {
        Some(_) => Err(refuse(format!("{key} is a config of Kafka that has no effect here yet"))),
        None => Ok(()),
    }
}

/// Kafka's brokers keep a config that nobody knows, for plugins that might. Here it would only be a typing error. One
/// that Kafka's brokers refuse reaches them, so that they say why; one that they would take in vain does not.
fn check_broker_config(broker: Option<BrokerId>, key: &str, sets: bool) -> Result<(), Refusal> {
    if has_effect_on_brokers(key) {
        return Ok(());
    }
    if broker_key(key).or(listener_key(key)).is_none() {
        return Err(refuse(format!("{key} is no broker config of Kafka 4.3")));
    }
    let refused_there = match update_mode(key) {
        UpdateMode::ReadOnly => true,
        UpdateMode::PerBroker => broker.is_none() || needs_listener(key),
        UpdateMode::ClusterWide => false,
    };
    match sets && refused_there {
        true => Ok(()),
        false => Err(refuse(format!("{key} is a config of Kafka that has no effect here yet"))),
    }
}

fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal { error: None, reason: reason.into() }
}

fn refuse_with(error: ErrorCode, reason: impl ToString) -> Refusal {
    Refusal { error: Some(error), reason: reason.to_string() }
}

fn name_of(target: &Target) -> String {
    match target {
        Target::Broker(id) => format!("broker {id}"),
        Target::Controller(id) => format!("controller {id}"),
        Target::Client(name) => format!("client {name}"),
    }
}

fn list<T: ToString>(items: impl Iterator<Item = T>) -> String {
    let names: Vec<String> = items.map(|item| item.to_string()).collect();
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}
