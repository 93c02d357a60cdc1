//! The commands that the page's controls give, in their text form.
//!
//! **Invariant:** nothing on the page changes the run in another way than by one of these lines.

use std::fmt::Display;

use crate::client::profile::Profile;
use crate::lab::command::quote;
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
    let kind = if group.is_share { "worker" } else { "consumer" };
    let name = ('a'..='z')
        .map(|letter| format!("{kind}-{letter}"))
        .chain((1..).map(|number| format!("{kind}-{number}")))
        .find(|name| !taken(name))
        .unwrap_or_default();
    let topic = model.scenario.topics.first();
    match (group.is_group(), topic) {
        (false, Some(topic)) => {
            format!(
                "add consumer {name} without group partitions {} program poll",
                quote(&format!("{topic}-0"))
            )
        }
        _ if group.is_share => format!("add share consumer {name} to {}", quote(group.id.as_str())),
        _ => format!("add consumer {name} to {}", quote(group.id.as_str())),
    }
}

pub fn adding_a_consumer(group: &GroupView) -> String {
    match group.is_group() {
        true => format!("add a consumer to {}", group.id),
        false => "add a consumer without group".to_owned(),
    }
}

/// Everything that can be added, in a line for each.
pub fn additions(model: &Model) -> Vec<String> {
    let mut lines = vec![add_broker(model)];
    for group in model.groups.iter() {
        let line = add_consumer(model, group);
        if group.is_group() && !group.is_share {
            let profiles = Profile::ALL.into_iter().filter(|profile| *profile != Profile::Java);
            lines.extend(profiles.map(|profile| format!("{line} profile {}", profile.name())));
        }
        lines.push(line);
    }
    let names = || model.scenario.topics.iter().map(|topic| topic.to_string());
    if let Some(topic) = names().next() {
        let (name, output) = (free_producer_name(model), names().nth(1).unwrap_or(topic.clone()));
        let new =
            NewProducer { name: name.clone(), topic: topic.clone(), rate: "12/s".into(), acks: "all".into() };
        lines.push(add_producer(&new));
        lines.push(format!("{} transactional.id={}", add_producer(&new), quote(&name)));
        lines.push(format!("add share consumer worker-a to share-1 topics {} program poll", quote(&topic)));
        lines.push(format!(
            "add application app-1 to app-1 topics {} output {} program \"poll; begin; process 5ms; send results; \
             send offsets; commit transaction\" transactional.id=app-1",
            quote(&topic),
            quote(&output)
        ));
    }
    let replication_factor = model.brokers.len().clamp(1, 3).to_string();
    let name =
        (1..).map(|number| format!("topic-{number}")).find(|name| !names().any(|taken| taken == *name));
    lines.push(create_topic(&NewTopic {
        name: name.unwrap_or_default(),
        partitions: "3".to_owned(),
        replication_factor,
        config: String::new(),
    }));
    lines
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
