//! A scenario: the file a person writes to say what runs. The default cluster is one too.
//!
//! ```toml
//! format = 1
//! seed = 42
//! start = "8s"                                  # the virtual time at which the page opens
//! network = { latency = "20ms..60ms" }
//!
//! [broker-defaults]                             # broker configs by their real names
//! "offsets.topic.num.partitions" = 10
//!
//! [[broker]]
//! id = 1
//! rack = "a"
//! ```
//!
//! and likewise `[[topic]]`, `[[producer]]`, `[[consumer]]`, `[[share-consumer]]`, `[[application]]`, `[[at]]`, whose `do` is a command, and
//! `[[expect]]`, whose `that` says what records have come to at its `time`: `lost = 0`, `processed twice by billing = 3`.
//!
//! The same is written as JSON by programs, under the same names: an object for a table, a list for `[[...]]`.
//!
//! **Invariant:** a text is read whole or refused with a place and a reason; nothing in it is passed over.

mod application;
mod comments;
mod json;
mod lines;
mod parts;
mod plan;
mod reader;
#[cfg(feature = "native")]
mod schema;
mod settings;
mod share;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use toml::de::{DeTable, DeValue};

pub use comments::without_comments;
pub use plan::Plan;
pub use reader::ScenarioError;
use reader::{Field, Read, Section};
#[cfg(feature = "native")]
pub use schema::schema;
pub use settings::{Scope, Setting, classroom_settings};

use super::command::{Clients, parse};
use super::ledger::Expectation;
use crate::client::application::ApplicationSpec;
use crate::client::consumer::ConsumerSpec;
use crate::client::producer::workload::ProducerSpec;
use crate::client::share_consumer::ShareConsumerSpec;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ControllerId, Topic};
use crate::sim::Command;

/// The newest format that is read here.
pub const FORMAT: i64 = 1;

/// What keeps a file from asking for more than a page can hold.
pub mod limits {
    pub const FILE_BYTES: usize = 256 * 1024;
    pub const BROKERS: usize = 1000;
    pub const PARTITIONS: i64 = 10_000;
    pub const REPLICAS: i64 = 30_000;
    pub const CLIENTS: usize = 1000;
    pub const TIMED_COMMANDS: usize = 10_000;
    pub const EXPECTATIONS: usize = 1000;
    pub const LATENCY_US: i64 = HOUR_US;
    pub const START_US: i64 = HOUR_US;
    pub const TIME_US: i64 = 1000 * HOUR_US;
    const HOUR_US: i64 = 3_600_000_000;
}

const DEFAULT_SEED: u64 = 42;
const DEFAULT_LATENCY_US: RangeInclusive<i64> = 20_000..=60_000;
/// Controllers that are only counted have the ids from here on.
const FIRST_CONTROLLER: i32 = 101;

#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub seed: u64,
    /// The virtual time at which the page opens.
    pub start: Time,
    /// One way, for each link and packet.
    pub latency_us: RangeInclusive<i64>,
    /// The quorum's voters.
    pub controllers: Vec<ControllerId>,
    /// Broker configs by real names, for all brokers.
    pub broker_config: BTreeMap<String, String>,
    /// Feature levels of the new cluster by real names.
    pub features: BTreeMap<String, String>,
    /// Ids with their racks, in the file's order.
    pub brokers: Vec<(BrokerId, Option<String>)>,
    pub topics: Vec<TopicSpec>,
    pub producers: Vec<(Time, ProducerSpec)>,
    pub consumers: Vec<(Time, ConsumerSpec)>,
    pub share_consumers: Vec<(Time, ShareConsumerSpec)>,
    pub applications: Vec<(Time, ApplicationSpec)>,
    /// Timed commands in the order of their times.
    pub at: Vec<(Time, Command)>,
    /// What records are to have come to by then, in the order of the times.
    pub expected: Vec<(Time, Expectation)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    pub name: Topic,
    pub partitions: i32,
    pub replication_factor: i16,
    pub config: BTreeMap<String, String>,
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong in it.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        if text.len() > limits::FILE_BYTES {
            let reason = format!("a scenario file has at most {} kB", limits::FILE_BYTES / 1024);
            return Err(ScenarioError::at(text, 0, reason));
        }
        in_root(text, read)
    }

    /// The commands that add the clients, producers first and applications last, each with the earliest moment of its start.
    pub fn clients(&self) -> Vec<(Time, Command)> {
        let producers = self.producers.iter().map(|(at, spec)| (*at, Command::AddProducer(spec.clone())));
        let consumers = self.consumers.iter().map(|(at, spec)| (*at, Command::AddConsumer(spec.clone())));
        let shared = self.share_consumers.iter();
        let shared = shared.map(|(at, spec)| (*at, Command::AddShareConsumer(spec.clone())));
        let applications = self.applications.iter();
        let applications = applications.map(|(at, spec)| (*at, Command::AddApplication(spec.clone())));
        producers.chain(consumers).chain(shared).chain(applications).collect()
    }
}

impl TopicSpec {
    /// The command that creates the topic.
    pub fn create(&self) -> Command {
        Command::CreateTopic {
            topic: self.name.clone(),
            partitions: self.partitions,
            replication_factor: self.replication_factor,
            config: self.config.clone(),
        }
    }
}

/// Reads a file's outermost table.
fn in_root<T>(text: &str, read: impl FnOnce(Section) -> Read<T>) -> Read<T> {
    let refused = |error: toml::de::Error| {
        ScenarioError::at(text, error.span().map_or(0, |span| span.start), error.message())
    };
    if !json::is_json(text) {
        let table = DeTable::parse(text).map_err(refused)?;
        return read(Section::root(text, table.get_ref()));
    }
    let table = json::to_inline_table(text)?;
    match DeValue::parse(&table).map_err(refused)?.get_ref() {
        DeValue::Table(table) => read(Section::root(text, table)),
        _ => Err(ScenarioError::at(text, 0, "a scenario is one object")),
    }
}

fn read(root: Section) -> Read<Scenario> {
    check_format(root)?;
    root.only(&[
        "format",
        "seed",
        "start",
        "network",
        "broker-defaults",
        "features",
        "controllers",
        "controller",
        "broker",
        "topic",
        "producer",
        "consumer",
        "share-consumer",
        "application",
        "at",
        "expect",
    ])?;
    let seed = root.field("seed").map(|seed| seed.integer(0..=i64::MAX)).transpose()?;
    let controllers = parts::controllers(root)?;
    let brokers = parts::brokers(root, &controllers)?;
    let topics = parts::topics(root, brokers.len())?;
    let producers = parts::producers(root)?;
    let consumers = parts::consumers(root)?;
    let share_consumers = share::share_consumers(root)?;
    let applications = application::applications(root)?;
    let names = producers.iter().map(|(_, spec)| &spec.name);
    let names = names.chain(consumers.iter().map(|(_, spec)| &spec.name));
    let names = names.chain(share_consumers.iter().map(|(_, spec)| &spec.name));
    parts::check_names(root, names.chain(applications.iter().map(|(_, spec)| &spec.name)))?;
    let mut clients = Clients::default();
    topics.iter().for_each(|topic| clients.note(&topic.create()));
    clients.producers.extend(producers.iter().map(|(_, spec)| spec.clone()));
    clients.consumers.extend(consumers.iter().map(|(_, spec)| spec.clone()));
    clients.share_consumers.extend(share_consumers.iter().map(|(_, spec)| spec.clone()));
    let at = timed_commands(root, &mut clients)?;
    parts::check_topics(root, &clients.topics)?;
    Ok(Scenario {
        seed: seed.map_or(DEFAULT_SEED, i64::unsigned_abs),
        start: time(root.field("start"), limits::START_US)?,
        latency_us: latency_us(root)?,
        controllers,
        broker_config: parts::broker_config(root)?,
        features: parts::features(root)?,
        brokers,
        topics,
        producers,
        consumers,
        share_consumers,
        applications,
        at,
        expected: expected(root)?,
    })
}

/// What records are to have come to, by their times.
fn expected(root: Section) -> Read<Vec<(Time, Expectation)>> {
    let sections = root.sections("expect", "[[expect]]")?;
    if let Some(one_too_many) = sections.get(limits::EXPECTATIONS) {
        return Err(one_too_many.error(format!("there are at most {} expectations", limits::EXPECTATIONS)));
    }
    let mut expected = Vec::new();
    for section in sections {
        section.only(&["time", "that"])?;
        let at = Time::from_us(section.required("time", "\"60s\"")?.duration_us(limits::TIME_US)?);
        let that = section.required("that", "\"lost = 0\"")?;
        let expectation =
            that.text()?.parse::<Expectation>().map_err(|error| that.error(error.to_string()))?;
        expected.push((at, expectation));
    }
    expected.sort_by_key(|(at, _)| *at);
    Ok(expected)
}

fn check_format(root: Section) -> Read<()> {
    let field = root.required("format", "1")?;
    match field.integer(1..=i64::MAX)? {
        newer if newer > FORMAT => Err(field.error(format!(
            "format {newer} is newer than this program knows, which is {FORMAT}; a newer version of it is needed"
        ))),
        _ => Ok(()),
    }
}

/// A moment of the run; its begin if nothing is said.
fn time(field: Option<Field>, limit_us: i64) -> Read<Time> {
    field.map_or(Ok(Time::ZERO), |field| field.duration_us(limit_us).map(Time::from_us))
}

fn latency_us(root: Section) -> Read<RangeInclusive<i64>> {
    let Some(network) = root.section("network", "network")? else { return Ok(DEFAULT_LATENCY_US) };
    network.only(&["latency"])?;
    network
        .field("latency")
        .map_or(Ok(DEFAULT_LATENCY_US), |field| field.duration_range_us(limits::LATENCY_US))
}

/// The timed commands by their times; what they leave open is as those before them have it.
fn timed_commands(root: Section, clients: &mut Clients) -> Read<Vec<(Time, Command)>> {
    let sections = root.sections("at", "[[at]]")?;
    if let Some(one_too_many) = sections.get(limits::TIMED_COMMANDS) {
        return Err(
            one_too_many.error(format!("there are at most {} timed commands", limits::TIMED_COMMANDS))
        );
    }
    let mut written = Vec::new();
    for section in sections {
        section.only(&["time", "do"])?;
        let at = Time::from_us(section.required("time", "\"30s\"")?.duration_us(limits::TIME_US)?);
        let field = section.required("do", "\"kill broker 3\"")?;
        let command = parse(field.text()?)
            .map_err(|error| field.error_in_text(error.column, format!("no command: {}", error.reason)))?;
        written.push((at, field, command));
    }
    written.sort_by_key(|(at, _, _)| *at);
    let mut commands = Vec::new();
    for (at, field, command) in written {
        let command = clients.complete(command).map_err(|refusal| field.error(refusal.reason))?;
        clients.note(&command);
        commands.push((at, command));
    }
    Ok(commands)
}
