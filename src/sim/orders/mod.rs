//! Commands: how they are carried out.
//!
//! **Invariant:** only a command that was checked is carried out.

mod check;
mod links;

use std::rc::Rc;

use super::command::{Command, Refusal, Target};
use super::process::{Machine, ProcessState};
use super::trace::Key;
use super::world::{ADMIN, Entry, World};
use crate::client::admin::Operation;
use crate::client::application::Application;
use crate::client::consumer::{CloseOptions, Consumer};
use crate::client::producer::Producer;
use crate::client::share_consumer::ShareConsumer;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Act, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, NodeId};

impl World {
    /// Carries a command out now. `text` is what the person wrote.
    pub fn apply(&mut self, command: Command, text: &str) -> Result<(), Refusal> {
        let key = self.give(command, text)?;
        // Whatever was due at this very moment and scheduled earlier goes first, as in a replay.
        while self.queue.contains(&key) {
            self.step();
        }
        Ok(())
    }

    /// As [`Self::apply`], but leaves it to the next steps: the command is the last entry of this moment.
    pub fn give(&mut self, command: Command, text: &str) -> Result<Key, Refusal> {
        self.check(&command)?;
        let entry = Entry::Command { command: Box::new(command), text: text.to_string() };
        Ok(self.push(self.now, entry))
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
            Command::AddApplication(spec) => {
                let (name, random) = (spec.name.clone(), self.client_stream());
                let application = Application::new(spec, &self.bootstrap(), random).expect("checked");
                self.start_client(name, Machine::Application(Box::new(application)));
            }
            Command::AddShareConsumer(spec) => {
                let (name, random) = (spec.name.clone(), self.client_stream());
                let consumer = ShareConsumer::new(spec, &self.bootstrap(), random).expect("checked");
                self.start_client(name, Machine::ShareConsumer(Box::new(consumer)));
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
            Command::Flush(name) => self.tell_client(&name, |machine, now, fx| {
                if let Machine::Producer(producer) = machine {
                    part(fx, |fx| producer.flush(now, fx));
                }
            }),
            Command::Transaction { client, wish } => self.tell_client(&client, |machine, now, fx| {
                if let Machine::Producer(producer) = machine {
                    part(fx, |fx| producer.wish(now, wish, fx));
                }
            }),
            Command::SendOffsets { client, offsets, group } => {
                self.tell_client(&client, |machine, now, fx| {
                    if let Machine::Producer(producer) = machine {
                        part(fx, |fx| producer.send_offsets(now, offsets, group, fx));
                    }
                });
            }
            Command::Close(name) => self.tell_client(&name, |machine, now, fx| match machine {
                Machine::Producer(producer) => part(fx, |fx| producer.close(now, fx)),
                Machine::Consumer(consumer) => {
                    part(fx, |fx| consumer.close(now, CloseOptions::default(), fx));
                }
                Machine::ShareConsumer(consumer) => part(fx, |fx| consumer.close(now, fx)),
                Machine::Application(application) => part(fx, |fx| application.close(now, fx)),
                _ => {}
            }),
            Command::CloseWith { client, options } => {
                self.tell_client(&client, |machine, now, fx| match machine {
                    Machine::Producer(producer) => part(fx, |fx| match options.timeout_ms {
                        Some(timeout_ms) => producer.close_within(now, timeout_ms, fx),
                        None => producer.close(now, fx),
                    }),
                    Machine::Consumer(consumer) => part(fx, |fx| consumer.close(now, options, fx)),
                    _ => {}
                })
            }
            Command::Ask { client, ask } => self.tell_client(&client, |machine, now, fx| {
                if let Machine::Consumer(consumer) = machine {
                    part(fx, |fx| consumer.ask(now, ask, fx));
                }
            }),
            Command::Program { client, order } => {
                self.tell_client(&client, |machine, now, fx| match machine {
                    Machine::Consumer(consumer) => part(fx, |fx| consumer.order(now, order, fx)),
                    Machine::ShareConsumer(consumer) => part(fx, |fx| consumer.order(now, order, fx)),
                    Machine::Application(application) => part(fx, |fx| application.order(now, order, fx)),
                    _ => {}
                })
            }
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
            Command::SetGroupConfig { group, key, value } => {
                self.administrate(text, Operation::AlterGroupConfig { group, key, value });
            }
            Command::Describe(resource) => self.administrate(text, Operation::DescribeConfigs(resource)),
            Command::DescribeQuorum => self.administrate(text, Operation::DescribeQuorum),
            Command::DescribeFeatures => self.administrate(text, Operation::DescribeFeatures),
            Command::Groups(operation) => self.administrate(text, Operation::Groups(operation)),
            Command::Transactions(operation) => {
                self.administrate(text, Operation::Transactions(operation));
            }
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
            Command::UpdateFeature { feature, level, upgrade } => {
                self.administrate(text, Operation::UpdateFeature { feature, level, upgrade });
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

    fn set_clock(&mut self, node: NodeId, ahead_ms: i64) {
        if let Some(process) = self.processes.get_mut(&node).map(Rc::make_mut) {
            process.clock_ahead_ms = ahead_ms;
            self.tell(Event::ClockSet { node, ahead_ms });
        }
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
