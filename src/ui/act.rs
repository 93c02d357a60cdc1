//! The commands that the page's controls give, in their text form.
//!
//! **Invariant:** nothing on the page changes the run in another way than by one of these lines.

use std::fmt::Display;

use crate::kafka::controller::configs::Resource;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::types::Topic;
use crate::lab::command::{print, quote};
use crate::sim::{Command, Target};
use crate::view::model::{GroupView, Model};

pub fn kill(target: impl Display) -> String {
    format!("kill {target}")
}

pub fn start(target: impl Display) -> String {
    format!("start {target}")
}

pub fn stop(target: impl Display) -> String {
    format!("stop {target}")
}

pub fn freeze(target: impl Display) -> String {
    format!("freeze {target}")
}

pub fn thaw(target: impl Display) -> String {
    format!("thaw {target}")
}

pub fn pause(client: &str) -> String {
    format!("pause {}", quote(client))
}

pub fn resume(client: &str) -> String {
    format!("resume {}", quote(client))
}

pub fn close(client: &str) -> String {
    format!("close {}", quote(client))
}

pub fn crash(client: &str) -> String {
    format!("crash {}", quote(client))
}

/// A broker with the next free id, in the next rack of the alphabet.
pub fn add_broker(model: &Model) -> String {
    let id = model.brokers.iter().map(|broker| broker.id.0).max().unwrap_or(0) + 1;
    match u8::try_from(id) {
        Ok(number @ 1..=26) => format!("add broker {id} rack {}", char::from(b'a' + number - 1)),
        _ => format!("add broker {id}"),
    }
}

/// A consumer with the next free name of its group.
pub fn add_consumer(model: &Model, group: &GroupView) -> String {
    let taken = |name: &str| {
        model.groups.iter().flat_map(|group| group.members.iter()).any(|member| &*member.name == name)
    };
    let name = ('a'..='z')
        .map(|letter| format!("consumer-{letter}"))
        .chain((1..).map(|number| format!("consumer-{number}")))
        .find(|name| !taken(name))
        .unwrap_or_default();
    format!("add consumer {name} to {}", quote(group.id.as_str()))
}

/// What the producer dialog asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProducer {
    pub name: String,
    pub topic: String,
    pub rate: String,
    pub acks: String,
}

pub fn add_producer(new: &NewProducer) -> String {
    let (name, topic, rate) = (quote(&new.name), quote(&new.topic), quote(&new.rate));
    format!("add producer {name} to {topic} rate {rate} acks={}", new.acks)
}

/// A producer name that is not taken.
pub fn free_producer_name(model: &Model) -> String {
    (model.producers.len() + 1..)
        .map(|number| format!("producer-{number}"))
        .find(|name| !model.producers.iter().any(|producer| *producer.name == **name))
        .unwrap_or_default()
}

/// What the topic dialog asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    pub name: String,
    pub partitions: String,
    pub replication_factor: String,
    /// `key=value`, separated by blanks or lines.
    pub config: String,
}

pub fn create_topic(new: &NewTopic) -> String {
    let mut text = format!(
        "create topic {} partitions {} replication-factor {}",
        quote(&new.name),
        quote(&new.partitions),
        quote(&new.replication_factor)
    );
    for pair in new.config.split_whitespace() {
        text += " ";
        text += pair;
    }
    text
}

/// Lines that would be understood now, offered while a person types.
pub fn suggestions(model: &Model) -> Vec<String> {
    let mut lines: Vec<String> = commands(model).iter().map(print).collect();
    lines.push(add_broker(model));
    for group in model.groups.iter() {
        lines.push(add_consumer(model, group));
        for member in group.members.iter() {
            lines.extend([
                close(&member.name),
                crash(&member.name),
                freeze(quote(&member.name)),
                thaw(quote(&member.name)),
            ]);
        }
    }
    for producer in model.producers.iter() {
        lines.extend([pause(&producer.name), resume(&producer.name), crash(&producer.name)]);
    }
    lines
}

/// What the servers, the links between them and the topics may be told.
fn commands(model: &Model) -> Vec<Command> {
    let mut commands = Vec::new();
    for broker in model.brokers.iter() {
        commands.push(Command::Stop(broker.id));
        commands.extend(of_server(Target::Broker(broker.id)));
        commands.extend([Command::WipeDisk(broker.id), Command::Describe(Resource::Broker(Some(broker.id)))]);
    }
    for controller in model.controllers.iter() {
        commands.push(Command::StopController(controller.id));
        commands.extend(of_server(Target::Controller(controller.id)));
    }
    commands.extend(links(model).into_iter().flat_map(|(a, b)| of_link(&a, &b)));
    for topic in model.scenario.topics.iter().map(|name| Topic::new(name)) {
        commands.extend([Command::Describe(Resource::Topic(topic.clone())), Command::DeleteTopic(topic)]);
    }
    let kinds = [ElectionType::Preferred, ElectionType::Unclean];
    commands.extend(kinds.map(|kind| Command::ElectLeader { kind, partition: None }));
    commands.extend([Command::Describe(Resource::Broker(None)), Command::DescribeQuorum]);
    commands
}

fn of_server(target: Target) -> [Command; 7] {
    let clock = |ahead_ms| Command::SetClock { target: target.clone(), ahead_ms };
    [
        Command::Kill(target.clone()),
        Command::CutPower(target.clone()),
        Command::Start(target.clone()),
        Command::Freeze(target.clone()),
        Command::Thaw(target.clone()),
        clock(300_000),
        clock(0),
    ]
}

fn of_link(a: &Target, b: &Target) -> [Command; 3] {
    let ends = || (a.clone(), b.clone());
    let ((cut_a, cut_b), (heal_a, heal_b), (a, b)) = (ends(), ends(), ends());
    [
        Command::Cut { a: cut_a, b: cut_b },
        Command::Heal { a: heal_a, b: heal_b },
        Command::Slow { a, b, by_us: 200_000 },
    ]
}

/// Each two brokers, and each broker with each controller.
fn links(model: &Model) -> Vec<(Target, Target)> {
    let brokers: Vec<Target> = model.brokers.iter().map(|broker| Target::Broker(broker.id)).collect();
    let controllers: Vec<Target> =
        model.controllers.iter().map(|controller| Target::Controller(controller.id)).collect();
    let mut links = Vec::new();
    for (index, a) in brokers.iter().enumerate() {
        let others = brokers[index + 1..].iter().chain(&controllers);
        links.extend(others.map(|b| (a.clone(), b.clone())));
    }
    links
}
