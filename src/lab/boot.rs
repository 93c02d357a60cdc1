//! How a scenario comes up: the administrator creates the topics, and the clients start when all of them are there.
//!
//! A client that asked for a topic too early would have it created with the brokers' defaults, as in Kafka
//! (auto.create.topics.enable), so topics are provided first, as people do who run one.
//!
//! **Invariant:** every topic of the scenario is created or refused before any of its clients starts.

use std::collections::BTreeSet;

use super::command::print;
use super::scenario::Scenario;
use crate::kafka::event::Event;
use crate::kafka::time::Time;
use crate::kafka::types::Topic;
use crate::sim::{Command, World};

#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// Topics that are still to come, with the command that creates each.
    topics: BTreeSet<(Topic, String)>,
    /// The clients, each with the earliest moment of its start.
    clients: Vec<(Time, Command)>,
}

impl Boot {
    /// Gives a new world everything that the scenario says.
    pub fn start(scenario: &Scenario, world: &mut World) -> Boot {
        let mut boot = Boot { topics: BTreeSet::new(), clients: scenario.clients() };
        for topic in &scenario.topics {
            let (command, now) = (topic.create(), world.now());
            let text = print(&command);
            world.schedule(now, command, &text);
            boot.topics.insert((topic.name.clone(), text));
        }
        for (at, command) in &scenario.at {
            world.schedule(*at, command.clone(), &print(command));
        }
        boot.start_clients(world);
        boot
    }

    /// Takes note of an event.
    pub fn on_event(&mut self, event: &Event) {
        match event {
            Event::TopicCreated { topic, .. } => self.topics.retain(|(awaited, _)| awaited != topic),
            Event::CommandRefused { text, .. } => self.topics.retain(|(_, awaited)| awaited != text),
            _ => {}
        }
    }

    /// Starts the clients if no topic is awaited any more.
    pub fn start_clients(&mut self, world: &mut World) {
        if self.topics.is_empty() {
            for (at, command) in std::mem::take(&mut self.clients) {
                let text = print(&command);
                world.schedule(at.max(world.now()), command, &text);
            }
        }
    }
}
