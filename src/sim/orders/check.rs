//! Whether a command can be given now, and why not.
//!
//! **Invariant:** checking changes nothing.

use crate::client::consumer::{Consumer, GroupMembership};
use crate::client::producer::Producer;
use crate::client::program::Order;
use crate::kafka::config::{
    FEATURES_NOT_MODELLED, TOPIC_NOT_MODELLED, UpdateMode, broker_key, has_effect_on_brokers, listener_key,
    needs_listener, update_mode,
};
use crate::kafka::controller::configs::Resource;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{BrokerId, ClientName, NodeId};
use crate::sim::command::{Command, Refusal, Target};
use crate::sim::process::Process;
use crate::sim::world::{ADMIN, World};

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
            Command::AddApplication(spec) => {
                self.check_new_client(&spec.name)?;
                spec.check().map_err(|error| refuse_with(ErrorCode::InvalidConfig, error))
            }
            Command::AddShareConsumer(spec) => {
                self.check_new_client(&spec.name)?;
                spec.check().map(|_| ()).map_err(|error| refuse_with(ErrorCode::InvalidConfig, error))
            }
            Command::Pause(name) | Command::Resume(name) | Command::Flush(name) => self.check_producer(name),
            Command::Transaction { client, .. } | Command::SendOffsets { client, .. } => {
                self.check_transactional(client)
            }
            Command::Close(name) => self.check_running(&Target::Client(name.clone())),
            Command::CloseWith { client, options } if options.membership == GroupMembership::Default => {
                self.check_producer(client).or_else(|_| self.check_consumer(client).map(|_| ()))
            }
            Command::CloseWith { client, .. } => self.check_consumer(client).map(|_| ()),
            Command::Ask { client, ask } => {
                self.check_consumer(client)?.check_ask(ask).map_err(|error| refuse(error.to_string()))
            }
            Command::Program { client, order } => self.check_program(client, order),
            Command::Crash(name) => self.check_alive(&Target::Client(name.clone()), "has ended"),
            Command::CreateTopic { config, .. } => config.keys().try_for_each(|key| check_has_effect(key)),
            Command::SetTopicConfig { key, .. } => check_has_effect(key),
            Command::SetBrokerConfig { broker, key, value } => {
                broker.map_or(Ok(()), |broker| self.find(&Target::Broker(broker)).map(|_| ()))?;
                check_broker_config(*broker, key, value.is_some())
            }
            Command::SetGroupConfig { key, .. } if key.starts_with("streams.") => {
                Err(refuse(format!("{key} is a config of Kafka that has no effect here yet")))
            }
            Command::SetGroupConfig { .. } => Ok(()),
            Command::UpdateFeature { feature, .. } if FEATURES_NOT_MODELLED.contains(&feature.as_str()) => {
                Err(refuse(format!("{feature} is a feature of Kafka whose level cannot be changed here")))
            }
            Command::UpdateFeature { .. } => Ok(()),
            Command::Describe(Resource::Broker(Some(broker))) => {
                self.find(&Target::Broker(*broker)).map(|_| ())
            }
            Command::Describe(_) | Command::DescribeQuorum | Command::DescribeFeatures => Ok(()),
            Command::Groups(_)
            | Command::Transactions(_)
            | Command::AddPartitions { .. }
            | Command::DeleteTopic(_)
            | Command::DeleteRecords { .. }
            | Command::ElectLeader { .. }
            | Command::Reassign { .. }
            | Command::CancelReassignment(_) => Ok(()),
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
            Some(_) if self.application(name).is_none() => Ok(()),
            _ => Err(refuse(format!("{name} is not a producer"))),
        }
    }

    fn check_transactional(&self, name: &ClientName) -> Result<(), Refusal> {
        self.check_producer(name)?;
        match self.producer(name).and_then(Producer::transaction_state) {
            Some(_) => Ok(()),
            None => Err(refuse(format!("{name} has no transactional.id"))),
        }
    }

    fn check_consumer(&self, name: &ClientName) -> Result<&Consumer, Refusal> {
        self.check_running(&Target::Client(name.clone()))?;
        let consumer = self.consumer(name).filter(|_| self.application(name).is_none());
        consumer.ok_or_else(|| refuse(format!("{name} is not a consumer")))
    }

    fn check_program(&self, name: &ClientName, order: &Order) -> Result<(), Refusal> {
        self.check_running(&Target::Client(name.clone()))?;
        if let Some(application) = self.application(name) {
            let checked = application.check_order(order);
            return checked.map_err(|error| refuse(format!("{name} {error}")));
        }
        let checked = match (self.consumer(name), self.share_consumer(name)) {
            (Some(consumer), _) => consumer.check_order(order),
            (None, Some(consumer)) => consumer.check_order(order),
            (None, None) => return Err(refuse(format!("{name} runs no program of lines"))),
        };
        checked.map_err(|error| refuse(format!("{name} {error}")))
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

pub(super) fn refuse(reason: impl Into<String>) -> Refusal {
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
