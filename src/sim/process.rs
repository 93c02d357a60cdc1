//! Processes: a node's state machine, whether it runs, and what outlives it.
//!
//! **Invariant:** a timer or packet of an earlier incarnation never reaches a later one.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::trace::Key;
use crate::client::admin::{AdminClient, AdminTimer};
use crate::client::application::{Application, ApplicationTimer};
use crate::client::consumer::{Consumer, ConsumerTimer};
use crate::client::producer::{Producer, ProducerTimer};
use crate::client::share_consumer::ShareConsumer;
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::broker::{Broker, Disk};
use crate::kafka::controller::{Controller, ControllerTimer};
use crate::kafka::effects::{Effects, Incoming, Input, Peer, RequestId};
use crate::kafka::protocol::{Request, Response};
use crate::kafka::raft::RaftDisk;
use crate::kafka::replication::Lost;
use crate::kafka::time::Time;
use crate::kafka::types::ClientName;

/// A timer of any node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    Broker(BrokerTimer),
    Controller(ControllerTimer),
    Producer(ProducerTimer),
    Consumer(ConsumerTimer),
    Admin(AdminTimer),
    Application(ApplicationTimer),
}

macro_rules! timers {
    ($($variant:ident: $timer:ty;)*) => {
        $(impl From<$timer> for Timer {
            fn from(timer: $timer) -> Timer {
                Timer::$variant(timer)
            }
        })*
    };
}

timers! {
    Broker: BrokerTimer;
    Controller: ControllerTimer;
    Producer: ProducerTimer;
    Consumer: ConsumerTimer;
    Admin: AdminTimer;
    Application: ApplicationTimer;
}

/// What a node runs.
#[derive(Clone, Debug)]
pub enum Machine {
    Broker(Box<Broker>),
    Controller(Box<Controller>),
    Producer(Box<Producer>),
    Consumer(Box<Consumer>),
    ShareConsumer(Box<ShareConsumer>),
    Admin(Box<AdminClient>),
    Application(Box<Application>),
}

/// What is left of a process that has ended.
#[derive(Clone, Debug)]
pub enum Remains {
    Broker(Box<Disk>),
    Controller(Box<RaftDisk>),
    Nothing,
}

/// An input for any node.
#[derive(Clone, Debug)]
pub enum Arrival {
    Start,
    Connected(Peer),
    Disconnected(Peer),
    Gone(Incoming),
    Response { from: Peer, correlation: i32, response: Rc<Response> },
    Request { id: RequestId, client: ClientName, request: Rc<Request> },
    Timer(Timer),
}

impl Remains {
    /// The power fails: what a broker loses with its page cache. A controller flushes what it counts on.
    pub fn lose_unflushed(&mut self, now: Time) -> Lost {
        match self {
            Remains::Broker(disk) => disk.lose_unflushed(now),
            Remains::Controller(disk) => {
                disk.log.lose_unflushed(now);
                Lost::default()
            }
            Remains::Nothing => Lost::default(),
        }
    }
}

impl Machine {
    /// Hands an input to the node.
    pub fn handle(&mut self, now: Time, arrival: Arrival, fx: &mut Effects<Timer>) {
        fn run<T: Into<Timer>>(
            arrival: Arrival,
            timer: impl FnOnce(Timer) -> Option<T>,
            handle: impl FnOnce(Input<T>, &mut Effects<T>),
            fx: &mut Effects<Timer>,
        ) {
            let input = match arrival {
                Arrival::Start => Input::Start,
                Arrival::Connected(peer) => Input::Connected(peer),
                Arrival::Disconnected(peer) => Input::Disconnected(peer),
                Arrival::Gone(incoming) => Input::Gone(incoming),
                Arrival::Response { from, correlation, response } => {
                    Input::Response { from, correlation, response }
                }
                Arrival::Request { id, client, request } => Input::Request { id, client, request },
                Arrival::Timer(any) => match timer(any) {
                    Some(timer) => Input::Timer(timer),
                    None => unreachable!("a node sets only its own timers"),
                },
            };
            let mut own = Effects::default();
            handle(input, &mut own);
            fx.absorb(own);
        }
        macro_rules! route {
            // By the kind of its timers: share consumers have those of consumers.
            ($variant:ident, $machine:expr) => {
                run(
                    arrival,
                    |timer| match timer {
                        Timer::$variant(timer) => Some(timer),
                        _ => None,
                    },
                    |input, fx| $machine.handle(now, input, fx),
                    fx,
                )
            };
        }
        match self {
            Machine::Broker(broker) => route!(Broker, broker),
            Machine::Controller(controller) => route!(Controller, controller),
            Machine::Producer(producer) => route!(Producer, producer),
            Machine::Consumer(consumer) => route!(Consumer, consumer),
            Machine::ShareConsumer(consumer) => route!(Consumer, consumer),
            Machine::Admin(admin) => route!(Admin, admin),
            Machine::Application(application) => route!(Application, application),
        }
    }

    /// Whether the node's port is open.
    pub fn is_listening(&self) -> bool {
        match self {
            Machine::Broker(broker) => broker.is_listening(),
            Machine::Controller(_) => true,
            Machine::Producer(_)
            | Machine::Consumer(_)
            | Machine::ShareConsumer(_)
            | Machine::Application(_)
            | Machine::Admin(_) => false,
        }
    }

    pub fn into_remains(self) -> Remains {
        match self {
            Machine::Broker(broker) => Remains::Broker(Box::new(broker.into_disk())),
            Machine::Controller(controller) => Remains::Controller(Box::new(controller.into_disk())),
            Machine::Producer(_)
            | Machine::Consumer(_)
            | Machine::ShareConsumer(_)
            | Machine::Application(_)
            | Machine::Admin(_) => Remains::Nothing,
        }
    }
}

#[derive(Clone, Debug)]
pub enum ProcessState {
    Running(Machine),
    /// Stands still; what reaches it waits in the kernel's buffers.
    Frozen {
        machine: Machine,
        held: VecDeque<Arrival>,
    },
    Dead(Remains),
}

#[derive(Clone, Debug)]
pub struct Process {
    pub name: ClientName,
    pub state: ProcessState,
    /// Counts the starts of this node.
    pub incarnation: u32,
    pub timers: BTreeMap<Timer, Key>,
    /// Its machine is switched on.
    pub has_power: bool,
    /// Since when it is in its present state.
    pub since: Time,
    /// By how much the clock of its machine is ahead; negative if it is behind.
    pub clock_ahead_ms: i64,
}

impl Process {
    pub fn machine(&self) -> Option<&Machine> {
        match &self.state {
            ProcessState::Running(machine) | ProcessState::Frozen { machine, .. } => Some(machine),
            ProcessState::Dead(_) => None,
        }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, ProcessState::Running(_))
    }

    pub fn is_frozen(&self) -> bool {
        matches!(self.state, ProcessState::Frozen { .. })
    }

    pub fn is_dead(&self) -> bool {
        matches!(self.state, ProcessState::Dead(_))
    }

    /// The kernel accepts connections for a frozen process too.
    pub fn is_listening(&self) -> bool {
        self.machine().is_some_and(Machine::is_listening)
    }
}
