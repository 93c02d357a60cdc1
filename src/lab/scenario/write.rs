//! A scenario as text again, for what is not written by hand: builders, variants that are compared, programs.
//!
//! **Invariant:** what is written is read as the same scenario.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{FIRST_CONTROLLER, FORMAT, Scenario};
use crate::client::consumer::{Choice, ConsumerSpec};
use crate::client::producer::workload::{ProducerSpec, ValuePattern};
use crate::client::program::Line;
use crate::kafka::time::Time;
use crate::kafka::types::{Topic, TopicPartition};
use crate::lab::command::{duration, print};

type Configs<'a> = &'a BTreeMap<String, String>;

/// A scenario's file. Plain values come before tables, as TOML has it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Document<'a> {
    format: i64,
    seed: u64,
    start: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    controllers: Option<usize>,
    network: Network,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    broker_defaults: Configs<'a>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    features: Configs<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    controller: Vec<Node<'a>>,
    broker: Vec<Node<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topic: Vec<TopicText<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    producer: Vec<Producer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    consumer: Vec<Consumer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    share_consumer: Vec<Consumer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    application: Vec<Consumer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    at: Vec<At>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expect: Vec<Expect>,
}

#[derive(Serialize)]
struct Network {
    latency: String,
}

#[derive(Serialize)]
struct Node<'a> {
    id: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rack: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct TopicText<'a> {
    name: &'a str,
    partitions: i32,
    replication_factor: i16,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    config: Configs<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Producer<'a> {
    name: &'a str,
    topic: &'a str,
    rate: String,
    keys: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_size: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    config: Configs<'a>,
}

/// Share consumers and applications too.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Consumer<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    re2j: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    program: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    config: Configs<'a>,
}

#[derive(Serialize)]
struct At {
    time: String,
    r#do: String,
}

#[derive(Serialize)]
struct Expect {
    time: String,
    that: String,
}

impl Scenario {
    /// The scenario as a file, without any comments.
    pub fn to_toml(&self) -> String {
        toml::to_string(&Document::of(self))
            .expect("its values are texts, numbers, lists and tables of these")
    }

    /// The same as JSON.
    #[cfg(feature = "native")]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(&Document::of(self)).expect("its names are texts")
    }
}

impl Document<'_> {
    pub(super) fn of(scenario: &Scenario) -> Document<'_> {
        let voters = scenario.controllers.len();
        let are_counted =
            (FIRST_CONTROLLER..).zip(&scenario.controllers).all(|(id, controller)| controller.0 == id);
        let controllers = scenario.controllers.iter().map(|controller| Node { id: controller.0, rack: None });
        Document {
            format: FORMAT,
            seed: scenario.seed,
            start: time(scenario.start),
            controllers: are_counted.then_some(voters),
            network: Network { latency: latency(scenario) },
            broker_defaults: &scenario.broker_config,
            features: &scenario.features,
            controller: if are_counted { Vec::new() } else { controllers.collect() },
            broker: scenario
                .brokers
                .iter()
                .map(|(id, rack)| Node { id: id.0, rack: rack.as_deref() })
                .collect(),
            topic: scenario.topics.iter().map(TopicText::of).collect(),
            producer: scenario.producers.iter().map(|(at, spec)| Producer::of(*at, spec)).collect(),
            consumer: scenario.consumers.iter().map(|(at, spec)| Consumer::of(*at, spec)).collect(),
            share_consumer: scenario
                .share_consumers
                .iter()
                .map(|(at, spec)| {
                    Consumer::plain(
                        *at,
                        (spec.name.as_str(), spec.group.as_str()),
                        &spec.topics,
                        &spec.program,
                        &spec.config,
                    )
                })
                .collect(),
            application: scenario
                .applications
                .iter()
                .map(|(at, spec)| Consumer {
                    output: Some(spec.output.as_str()),
                    ..Consumer::plain(
                        *at,
                        (spec.name.as_str(), spec.group.as_str()),
                        &spec.topics,
                        &spec.program,
                        &spec.config,
                    )
                })
                .collect(),
            at: scenario
                .at
                .iter()
                .map(|(at, command)| At { time: time(*at), r#do: print(command) })
                .collect(),
            expect: scenario
                .expected
                .iter()
                .map(|(at, that)| Expect { time: time(*at), that: that.to_string() })
                .collect(),
        }
    }
}

impl TopicText<'_> {
    fn of(topic: &super::TopicSpec) -> TopicText<'_> {
        TopicText {
            name: topic.name.as_str(),
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            config: &topic.config,
        }
    }
}

impl Producer<'_> {
    fn of(at: Time, spec: &ProducerSpec) -> Producer<'_> {
        let is_own = spec.value != ValuePattern::for_keys(&spec.keys);
        Producer {
            name: spec.name.as_str(),
            topic: spec.topic.as_str(),
            rate: spec.rate.to_string(),
            keys: spec.keys.to_string(),
            partition: spec.partition,
            value: is_own.then(|| spec.value.to_string()),
            value_size: spec.value_size,
            transaction: spec.transactions.map(|pace| pace.to_string()),
            start_at: start_at(at),
            config: &spec.config,
        }
    }
}

impl<'a> Consumer<'a> {
    fn of(at: Time, spec: &'a ConsumerSpec) -> Consumer<'a> {
        let names = (spec.name.as_str(), spec.group.as_str());
        let plain = Consumer { topics: None, ..Consumer::plain(at, names, &[], &spec.program, &spec.config) };
        match &spec.choice {
            Choice::Topics(topics) => Consumer { topics: Some(names_of(topics)), ..plain },
            Choice::Pattern(pattern) => Consumer { pattern: Some(pattern.as_str()), ..plain },
            Choice::Re2j(pattern) => Consumer { re2j: Some(pattern), ..plain },
            Choice::Partitions(partitions) => {
                let partitions = partitions.iter().map(TopicPartition::to_string).collect();
                Consumer { partitions: Some(partitions), ..plain }
            }
        }
    }

    fn plain(
        at: Time,
        (name, group): (&'a str, &'a str),
        topics: &'a [Topic],
        program: &[Line],
        config: Configs<'a>,
    ) -> Consumer<'a> {
        Consumer {
            name,
            group,
            topics: Some(names_of(topics)),
            partitions: None,
            pattern: None,
            re2j: None,
            output: None,
            program: program.iter().map(Line::to_string).collect(),
            start_at: start_at(at),
            config,
        }
    }
}

fn names_of(topics: &[Topic]) -> Vec<&str> {
    topics.iter().map(Topic::as_str).collect()
}

fn latency(scenario: &Scenario) -> String {
    let (low, high) = (*scenario.latency_us.start(), *scenario.latency_us.end());
    match low == high {
        true => duration(low),
        false => format!("{}..{}", duration(low), duration(high)),
    }
}

fn time(at: Time) -> String {
    duration(at.us())
}

fn start_at(at: Time) -> Option<String> {
    (at != Time::ZERO).then(|| time(at))
}
