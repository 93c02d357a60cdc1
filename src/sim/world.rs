//! The world: everything that is simulated, and the one loop that moves it.
//!
//! **Invariant:** entries of the queue are carried out in the order of their keys; a step carries out exactly one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use super::agenda::Agenda;
use super::command::Command;
use super::digest::Digest;
use super::network::{ConnectionId, Flight, Network, Packet};
use super::process::{Arrival, Machine, Process, ProcessState, Timer};
use super::trace::{Key, Trace, TraceEntry};
use crate::client::admin::AdminClient;
use crate::client::application::Application;
use crate::client::consumer::Consumer;
use crate::client::producer::Producer;
use crate::client::share_consumer::ShareConsumer;
use crate::kafka::broker::Broker;
use crate::kafka::config::{BrokerConfig, ConfigError, Features};
use crate::kafka::controller::Controller;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::event::{Act, Event};
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, NodeId};

/// What a run begins with.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    pub seed: u64,
    /// One way, per packet, in microseconds.
    pub latency_us: RangeInclusive<i64>,
    /// Encode and decode every message on its way.
    pub strict: bool,
    /// The quorum's voters.
    pub controllers: Vec<ControllerId>,
    /// Brokers with their racks.
    pub brokers: Vec<(BrokerId, Option<String>)>,
    /// Cluster-wide broker configs by their real names.
    pub broker_config: BTreeMap<String, String>,
    /// Feature levels of the new cluster by their real names.
    pub features: BTreeMap<String, String>,
}

impl Default for WorldConfig {
    fn default() -> Self {
        WorldConfig {
            seed: 1,
            latency_us: 20_000..=60_000,
            strict: false,
            controllers: vec![ControllerId(101)],
            brokers: (1..=3).map(|id| (BrokerId(id), None)).collect(),
            broker_config: BTreeMap::new(),
            features: BTreeMap::new(),
        }
    }
}

/// One entry of the queue.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Start {
        node: NodeId,
        incarnation: u32,
    },
    Timer {
        node: NodeId,
        timer: Timer,
    },
    Packet {
        connection: ConnectionId,
        packet: Packet,
        sent_at: Time,
    },
    /// The next request that waits on a connection goes into work.
    NextRequest(ConnectionId),
    Command {
        command: Box<Command>,
        text: String,
    },
}

#[derive(Clone, Debug)]
pub struct World {
    pub(super) config: Rc<WorldConfig>,
    pub(super) broker_config: Rc<BrokerConfig>,
    pub(super) features: Features,
    pub(super) now: Time,
    next_sequence: u64,
    pub(super) queue: Agenda,
    pub(super) processes: BTreeMap<NodeId, Rc<Process>>,
    pub(super) names: BTreeMap<ClientName, NodeId>,
    pub(super) next_client: u32,
    pub(super) racks: BTreeMap<BrokerId, Option<String>>,
    pub(super) network: Network,
    trace: Trace,
    digest: Digest,
    steps: u64,
    /// The processes that the last step ran.
    pub(super) ran: Vec<NodeId>,
    /// The step that is being carried out.
    pub(super) current: Option<(Key, Option<Key>)>,
}

/// The name of the client that carries out administrative commands.
pub const ADMIN: &str = "admin";

impl World {
    /// A cluster at time 0: its processes are about to start.
    ///
    /// Errors: a broker config or a feature level that Kafka or this model refuses.
    pub fn new(config: WorldConfig) -> Result<World, ConfigError> {
        let broker_config = Rc::new(BrokerConfig::read(&config.broker_config)?);
        let features = Features::read(&config.features)?;
        let mut world = World {
            broker_config,
            features,
            now: Time::ZERO,
            next_sequence: 0,
            queue: Agenda::default(),
            processes: BTreeMap::new(),
            names: BTreeMap::new(),
            next_client: 1,
            racks: BTreeMap::new(),
            network: Network::new(config.seed, config.latency_us.clone()),
            trace: Trace::default(),
            digest: Digest::default(),
            steps: 0,
            ran: Vec::new(),
            current: None,
            config: Rc::new(config),
        };
        let config = world.config.clone();
        config.controllers.iter().for_each(|id| world.start_controller(*id));
        for (id, rack) in &config.brokers {
            world.racks.insert(*id, rack.clone());
            world.start_broker(*id);
        }
        let bootstrap = world.bootstrap();
        let random = world.stream("client admin");
        let admin = AdminClient::new(ClientName::new(ADMIN), &bootstrap, random);
        world.start_client(ClientName::new(ADMIN), Machine::Admin(Box::new(admin)));
        Ok(world)
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    pub fn config(&self) -> &WorldConfig {
        &self.config
    }

    pub fn broker_config(&self) -> &BrokerConfig {
        &self.broker_config
    }

    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// Entries of the queue that have been carried out.
    pub fn events_done(&self) -> u64 {
        self.steps
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Lets go of what happened, but for the newest.
    pub fn keep_newest_events(&mut self, events: usize) {
        self.trace.keep_newest(events);
    }

    /// When the next entry is due.
    pub fn next_at(&self) -> Option<Time> {
        self.next_key().map(|key| key.time)
    }

    /// The next entry's place.
    pub fn next_key(&self) -> Option<Key> {
        self.queue.first_key()
    }

    /// The next entry's place, and that of the step that scheduled it.
    pub fn next_step(&self) -> Option<(Key, Option<Key>)> {
        self.queue.first()
    }

    /// The present's place in the order of entries: all that are done are before it, all others are not.
    pub fn place(&self) -> Key {
        let next = self.next_key().filter(|key| key.time == self.now);
        next.unwrap_or(Key { time: self.now, sequence: self.next_sequence })
    }

    /// Moves the clock to a moment before which nothing is left to do.
    pub fn advance_to(&mut self, time: Time) {
        assert!(self.next_at().is_none_or(|next| next >= time), "something is due before {time}");
        self.now = self.now.max(time);
    }

    /// Carries out the next entry.
    pub fn step(&mut self) -> Option<Key> {
        let (key, (cause, entry)) = self.queue.pop_first()?;
        self.now = key.time;
        self.steps += 1;
        self.ran.clear();
        self.current = Some((key, cause));
        self.digest.fold(&(key.time.us(), key.sequence));
        self.carry_out(entry);
        self.current = None;
        Some(key)
    }

    /// Carries out everything up to and including `time`.
    pub fn run_until(&mut self, time: Time) {
        while self.next_at().is_some_and(|next| next <= time) {
            self.step();
        }
        self.advance_to(time);
    }

    pub(super) fn stream(&self, name: &str) -> Random {
        Random::stream(self.config.seed, name)
    }

    /// All brokers that were ever added: what a client's bootstrap.servers names.
    pub(super) fn bootstrap(&self) -> Vec<BrokerId> {
        self.racks.keys().copied().collect()
    }

    pub(super) fn push(&mut self, time: Time, entry: Entry) -> Key {
        let key = Key { time, sequence: self.next_sequence };
        self.next_sequence += 1;
        let cause = self.current.map(|(key, _)| key);
        self.queue.insert(key, (cause, entry));
        key
    }

    /// Notes what happened.
    pub(super) fn tell(&mut self, event: Event) {
        let bytes = self.digest.fold(&event);
        let (key, cause) =
            self.current.unwrap_or((Key { time: self.now, sequence: self.next_sequence }, None));
        self.trace.push(TraceEntry { key, cause, event }, bytes);
    }

    pub(super) fn start_controller(&mut self, id: ControllerId) {
        let machine = self.new_controller(id, Default::default(), 1);
        self.spawn(
            id.into(),
            ClientName::new(&format!("controller-{id}")),
            Machine::Controller(Box::new(machine)),
        );
    }

    pub(super) fn start_broker(&mut self, id: BrokerId) {
        let machine = self.new_broker(id, Default::default(), 1);
        self.spawn(id.into(), ClientName::new(&format!("broker-{id}")), Machine::Broker(Box::new(machine)));
    }

    pub(super) fn start_client(&mut self, name: ClientName, machine: Machine) -> NodeId {
        let node = NodeId::Client(self.next_client);
        self.next_client += 1;
        self.names.insert(name.clone(), node);
        self.spawn(node, name, machine);
        node
    }

    fn spawn(&mut self, node: NodeId, name: ClientName, machine: Machine) {
        let process = Process {
            name: name.clone(),
            state: ProcessState::Running(machine),
            incarnation: 1,
            timers: BTreeMap::new(),
            has_power: true,
            since: self.now,
            clock_ahead_ms: 0,
        };
        self.processes.insert(node, Rc::new(process));
        self.push(self.now, Entry::Start { node, incarnation: 1 });
        self.tell(Event::Process { node, name, act: Act::Started });
    }

    pub fn processes(&self) -> impl Iterator<Item = (NodeId, &Rc<Process>)> {
        self.processes.iter().map(|(node, process)| (*node, process))
    }

    pub fn process(&self, node: impl Into<NodeId>) -> Option<&Rc<Process>> {
        self.processes.get(&node.into())
    }

    pub fn node_of(&self, client: &ClientName) -> Option<NodeId> {
        self.names.get(client).copied()
    }

    /// A broker's process that runs or stands still.
    pub fn broker(&self, id: BrokerId) -> Option<&Broker> {
        match self.process(id)?.machine()? {
            Machine::Broker(broker) => Some(broker),
            _ => None,
        }
    }

    /// A controller's process that runs or stands still.
    pub fn controller(&self, id: ControllerId) -> Option<&Controller> {
        match self.process(id)?.machine()? {
            Machine::Controller(controller) => Some(controller),
            _ => None,
        }
    }

    /// The controller that is active, of the newest epoch if an older one has not noticed yet.
    pub fn active_controller(&self) -> Option<&Controller> {
        let controllers = self.config.controllers.iter().filter_map(|id| self.controller(*id));
        controllers.filter(|controller| controller.active_epoch().is_some()).max_by_key(|c| c.active_epoch())
    }

    /// The newest that is known of the cluster: a controller's, or while all are down a broker's.
    pub fn newest_image(&self) -> Option<&ClusterImage> {
        let images = self.processes.values().filter_map(|process| match process.machine()? {
            Machine::Controller(controller) => Some(controller.image()),
            Machine::Broker(broker) => Some(&**broker.image()),
            _ => None,
        });
        images.max_by_key(|image| image.next_offset)
    }

    pub fn producer(&self, name: &ClientName) -> Option<&Producer> {
        match self.process(self.node_of(name)?)?.machine()? {
            Machine::Producer(producer) => Some(producer),
            Machine::Application(application) => Some(application.producer()),
            _ => None,
        }
    }

    pub fn consumer(&self, name: &ClientName) -> Option<&Consumer> {
        match self.process(self.node_of(name)?)?.machine()? {
            Machine::Consumer(consumer) => Some(consumer),
            Machine::Application(application) => Some(application.consumer()),
            _ => None,
        }
    }

    pub fn application(&self, name: &ClientName) -> Option<&Application> {
        match self.process(self.node_of(name)?)?.machine()? {
            Machine::Application(application) => Some(application),
            _ => None,
        }
    }

    pub fn share_consumer(&self, name: &ClientName) -> Option<&ShareConsumer> {
        match self.process(self.node_of(name)?)?.machine()? {
            Machine::ShareConsumer(consumer) => Some(consumer),
            _ => None,
        }
    }

    pub fn admin(&self) -> Option<&AdminClient> {
        match self.process(self.node_of(&ClientName::new(ADMIN))?)?.machine()? {
            Machine::Admin(admin) => Some(admin),
            _ => None,
        }
    }

    pub fn rack(&self, broker: BrokerId) -> Option<&str> {
        self.racks.get(&broker)?.as_deref()
    }

    /// Links over which nothing is heard.
    pub fn cuts(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        self.network.cuts()
    }

    /// Messages under way.
    pub fn flights(&self) -> impl Iterator<Item = Flight> + '_ {
        self.queue.iter().filter_map(|(key, entry)| match entry {
            Entry::Packet { connection, packet, sent_at } => {
                let (client, server) = (connection.client, connection.server);
                let (from, to) = if packet.is_to_server() { (client, server) } else { (server, client) };
                let channel = connection.channel;
                Some(Flight {
                    from,
                    to,
                    channel,
                    sent_at: *sent_at,
                    arrives_at: key.time,
                    packet: packet.clone(),
                })
            }
            _ => None,
        })
    }

    /// The processes that the last step ran, which may have changed them.
    pub fn ran(&self) -> &[NodeId] {
        &self.ran
    }

    /// Slow links, each with what its packets take longer, in microseconds.
    pub fn delays_us(&self) -> impl Iterator<Item = ((NodeId, NodeId), i64)> + '_ {
        self.network.delays_us()
    }

    /// By how much a process' clock is ahead.
    pub fn clock_ahead_ms(&self, node: NodeId) -> i64 {
        self.processes.get(&node).map_or(0, |process| process.clock_ahead_ms)
    }

    pub(super) fn deliver(&mut self, node: NodeId, arrival: Arrival) {
        self.ran.push(node);
        let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) else { return };
        let now = self.now.on_clock(process.clock_ahead_ms);
        match &mut process.state {
            ProcessState::Dead(_) => {}
            ProcessState::Frozen { held, .. } => held.push_back(arrival),
            ProcessState::Running(machine) => {
                let mut fx = Default::default();
                machine.handle(now, arrival, &mut fx);
                self.carry_out_effects(node, fx);
            }
        }
    }
}
