//! Brokers, topics and clients of a scenario, checked as Kafka would check them.

use std::collections::{BTreeMap, BTreeSet};

use super::reader::{Configs, Field, Read, Section};
use super::{FIRST_CONTROLLER, TopicSpec, limits, time};
use crate::client::config::producer::ProducerConfig;
use crate::client::config::{COMMON_KEYS, Key, producer::PRODUCER_KEYS};
use crate::client::consumer::config::{FETCH_KEYS, KEYS as CONSUMER_KEYS};
use crate::client::consumer::{Choice, ConsumerConfig, ConsumerSpec, Line};
use crate::client::pattern::{PatternError, TopicPattern};
use crate::client::producer::workload::{ProducerSpec, ValuePattern};
use crate::client::profile::Profile;
use crate::kafka::config::{
    BrokerConfig, FEATURE_KEYS, Features, TOPIC_KEYS, broker_keys, check_topic_config,
};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::topic_name;
use crate::kafka::types::{BrokerId, ClientName, ControllerId, GroupId, Topic, TopicPartition};
use crate::lab::command::{default_keys, default_program, default_rate};
use crate::lab::words::{count, partition_of, suggestion};
use crate::sim::ADMIN;

/// One, three or five voters, by number or one by one.
pub(super) fn controllers(root: Section) -> Read<Vec<ControllerId>> {
    let sections = root.sections("controller", "[[controller]]")?;
    if let Some(field) = root.field("controllers") {
        if !sections.is_empty() {
            return Err(field.error("controllers are counted or listed, not both"));
        }
        let voters = field.integer(1..=5)? as i32;
        if voters % 2 == 0 {
            return Err(field.error(format!("a quorum has 1, 3 or 5 controllers, not {voters}")));
        }
        return Ok((FIRST_CONTROLLER..FIRST_CONTROLLER + voters).map(ControllerId).collect());
    }
    if sections.is_empty() {
        return Ok(vec![ControllerId(FIRST_CONTROLLER)]);
    }
    let mut controllers: Vec<ControllerId> = Vec::new();
    for section in &sections {
        section.only(&["id"])?;
        let field = section.required("id", "101")?;
        let id = ControllerId(field.integer(0..=i64::from(i32::MAX))? as i32);
        if controllers.contains(&id) {
            return Err(field.error(format!("there is a controller {id} already")));
        }
        controllers.push(id);
    }
    match (sections.first(), controllers.len()) {
        (_, 1 | 3 | 5) | (None, _) => Ok(controllers),
        (Some(first), voters) => {
            Err(first.error(format!("a quorum has 1, 3 or 5 controllers, not {voters}")))
        }
    }
}

pub(super) fn brokers(root: Section, controllers: &[ControllerId]) -> Read<Vec<(BrokerId, Option<String>)>> {
    let sections = root.sections("broker", "[[broker]]")?;
    if sections.is_empty() {
        return Err(root.error("a cluster needs a broker: [[broker]] with an id"));
    }
    if let Some(one_too_many) = sections.get(limits::BROKERS) {
        return Err(one_too_many.error(format!("there are at most {} brokers", limits::BROKERS)));
    }
    let mut seen = BTreeSet::new();
    let mut brokers = Vec::new();
    for section in sections {
        section.only(&["id", "rack"])?;
        let field = section.required("id", "1")?;
        let id = BrokerId(field.integer(0..=i64::from(i32::MAX))? as i32);
        if controllers.contains(&ControllerId(id.0)) {
            return Err(field.error(format!("{id} is a controller's id")));
        }
        if !seen.insert(id) {
            return Err(field.error(format!("there is a broker {id} already")));
        }
        let rack = section.field("rack").map(|rack| name(rack).map(str::to_owned)).transpose()?;
        brokers.push((id, rack));
    }
    Ok(brokers)
}

pub(super) fn broker_config(root: Section) -> Read<BTreeMap<String, String>> {
    let Some(section) = root.section("broker-defaults", "[broker-defaults]")? else {
        return Ok(BTreeMap::new());
    };
    let configs = section.configs()?;
    BrokerConfig::read(&configs.values).map_err(|error| {
        let known = broker_keys().map(|key| key.name);
        invalid_config(&configs, &error.key, &error.to_string(), known)
    })?;
    Ok(configs.values)
}

/// What `kafka-storage format --feature` sets.
pub(super) fn features(root: Section) -> Read<BTreeMap<String, String>> {
    let Some(section) = root.section("features", "[features]")? else {
        return Ok(BTreeMap::new());
    };
    let configs = section.configs()?;
    Features::read(&configs.values).map_err(|error| {
        let known = FEATURE_KEYS.iter().map(|key| key.name);
        invalid_config(&configs, &error.key, &error.to_string(), known)
    })?;
    Ok(configs.values)
}

pub(super) fn invalid_config<'a>(
    configs: &Configs,
    key: &str,
    message: &str,
    known: impl Iterator<Item = &'a str>,
) -> super::ScenarioError {
    let known: Vec<&str> = known.collect();
    let near = if known.contains(&key) { String::new() } else { suggestion(key, known) };
    configs.error(key, format!("{}: {message}{near}", ErrorCode::InvalidConfig))
}

pub(super) fn topics(root: Section, brokers: usize) -> Read<Vec<TopicSpec>> {
    let (mut partitions, mut replicas) = (0, 0);
    let mut names: BTreeMap<String, Topic> = BTreeMap::new();
    let mut topics = Vec::new();
    for section in root.sections("topic", "[[topic]]")? {
        let topic = topic(section, brokers)?;
        partitions += i64::from(topic.partitions);
        replicas += i64::from(topic.partitions) * i64::from(topic.replication_factor);
        if partitions > limits::PARTITIONS || replicas > limits::REPLICAS {
            let (partitions, replicas) = (limits::PARTITIONS, limits::REPLICAS);
            return Err(section
                .error(format!("there are at most {partitions} partitions and {replicas} replicas in all")));
        }
        if let Some(other) = names.insert(topic.name.as_str().replace('.', "_"), topic.name.clone()) {
            let (error, reason) = match other == topic.name {
                true => (ErrorCode::TopicAlreadyExists, format!("there is a topic {other} already")),
                false => {
                    (ErrorCode::InvalidTopicException, format!("{} collides with topic {other}", topic.name))
                }
            };
            return Err(section.required("name", "\"orders\"")?.error(format!("{error}: {reason}")));
        }
        topics.push(topic);
    }
    Ok(topics)
}

fn topic(section: Section, brokers: usize) -> Read<TopicSpec> {
    section.only(&["name", "partitions", "replication-factor", "config"])?;
    let name = topic_name(section.required("name", "\"orders\"")?)?;
    let field = section.required("partitions", "3")?;
    let partitions = field.integer(i64::MIN..=i64::MAX)?;
    if partitions < 1 {
        let error = ErrorCode::InvalidPartitions;
        return Err(field.error(format!("{error}: a topic has at least one partition, not {partitions}")));
    }
    if partitions > limits::PARTITIONS {
        return Err(field.error(format!("there are at most {} partitions in all", limits::PARTITIONS)));
    }
    let field = section.required("replication-factor", "3")?;
    let replication_factor = field.integer(i64::MIN..=i64::MAX)?;
    if replication_factor < 1 || replication_factor > brokers as i64 {
        let brokers = count(brokers as i64, "broker");
        let reason = format!("{replication_factor} replicas are not possible; the cluster has {brokers}");
        return Err(field.error(format!("{}: {reason}", ErrorCode::InvalidReplicationFactor)));
    }
    let config = configs(section)?;
    if let Some(configs) = &config {
        check_topic_config(&configs.values, &BTreeMap::new()).map_err(|error| {
            let known = TOPIC_KEYS.iter().map(|key| key.name);
            invalid_config(configs, &error.key, &error.to_string(), known)
        })?;
    }
    let config = config.map(|configs| configs.values).unwrap_or_default();
    let (partitions, replication_factor) = (partitions as i32, replication_factor as i16);
    Ok(TopicSpec { name, partitions, replication_factor, config })
}

pub(super) fn configs(section: Section) -> Read<Option<Configs>> {
    section.section("config", "config")?.map(|configs| configs.configs()).transpose()
}

/// R-LOG-52.
pub(super) fn topic_name(field: Field) -> Read<Topic> {
    let name = field.text()?;
    match topic_name::check(name) {
        Ok(()) => Ok(Topic::new(name)),
        Err(_) => {
            let legal = "a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'";
            Err(field.error(format!("{}: {legal}", ErrorCode::InvalidTopicException)))
        }
    }
}

/// A name of a sensible length.
pub(super) fn name<'a>(field: Field<'a>) -> Read<&'a str> {
    let name = field.text()?;
    if name.trim().is_empty() {
        return Err(field.error(format!("{} is not empty", field.key)));
    }
    if name.chars().count() > 100 {
        return Err(field.error(format!("{} has at most 100 characters", field.key)));
    }
    Ok(name)
}

pub(super) fn producers(root: Section) -> Read<Vec<(Time, ProducerSpec)>> {
    root.sections("producer", "[[producer]]")?.into_iter().map(producer).collect()
}

const TRANSACTION_PACE: &str = "a pace such as \"every 10 records\" or \"every 10 records abort 10%\"";

fn producer(section: Section) -> Read<(Time, ProducerSpec)> {
    section.only(&[
        "name",
        "topic",
        "rate",
        "keys",
        "partition",
        "value",
        "value-size",
        "profile",
        "transaction",
        "config",
        "start-at",
    ])?;
    let keys = section
        .field("keys")
        .map(|keys| keys.parsed("keys such as \"cart-{0..7}\", or \"none\""))
        .transpose()?;
    let rate =
        section.field("rate").map(|rate| rate.parsed("a rate such as \"12/s\", \"1/5s\" or \"300/min\""));
    let value = section.field("value").map(|value| value.text()).transpose()?;
    let partition =
        section.field("partition").map(|partition| partition.integer(0..=limits::PARTITIONS)).transpose()?;
    let transactions = section.field("transaction").map(|pace| pace.parsed(TRANSACTION_PACE)).transpose()?;
    let size = section.field("value-size").map(|size| size.integer(0..=1_000_000)).transpose()?;
    let config = configs_of(section, profile(section)?)?;
    if let Some(configs) = &config {
        ProducerConfig::read(&configs.values).map_err(|error| {
            let known = PRODUCER_KEYS.iter().chain(COMMON_KEYS).map(|key| key.name);
            invalid_config(configs, &error.key, &error.to_string(), known)
        })?;
    }
    let keys = keys.unwrap_or_else(default_keys);
    let spec = ProducerSpec {
        name: ClientName::new(name(section.required("name", "\"checkout-api\"")?)?),
        topic: topic_name(section.required("topic", "\"orders\"")?)?,
        rate: rate.transpose()?.unwrap_or_else(default_rate),
        value: value.map_or_else(|| ValuePattern::for_keys(&keys), ValuePattern::new),
        keys,
        partition: partition.map(|partition| partition as i32),
        value_size: size.map(|bytes| bytes as i32),
        transactions,
        config: config.map(|configs| configs.values).unwrap_or_default(),
    };
    if let (Some(pace), Err(error)) = (section.field("transaction"), spec.check()) {
        return Err(pace.error(format!("{}: {error}", ErrorCode::InvalidConfig)));
    }
    Ok((time(section.field("start-at"), limits::TIME_US)?, spec))
}

/// The configs that a consumer has.
pub(super) fn consumer_keys() -> impl Iterator<Item = &'static Key> {
    CONSUMER_KEYS.iter().chain(FETCH_KEYS).chain(COMMON_KEYS)
}

pub(super) fn consumers(root: Section) -> Read<Vec<(Time, ConsumerSpec)>> {
    root.sections("consumer", "[[consumer]]")?.into_iter().map(consumer).collect()
}

fn consumer(section: Section) -> Read<(Time, ConsumerSpec)> {
    section.only(&[
        "name",
        "group",
        "topics",
        "partitions",
        "pattern",
        "re2j",
        "program",
        "profile",
        "config",
        "start-at",
    ])?;
    let profile = profile(section)?;
    let config = configs_of(section, profile)?;
    if let Some(configs) = &config {
        ConsumerConfig::read(&configs.values).map_err(|error| {
            let known = consumer_keys().map(|key| key.name);
            invalid_config(configs, &error.key, &error.to_string(), known)
        })?;
    }
    let choice = choice(section)?;
    let group = match (&choice, section.field("group")) {
        (Choice::Partitions(_), None) => "",
        _ => name(section.required("group", "\"billing\"")?)?,
    };
    let spec = ConsumerSpec {
        name: ClientName::new(name(section.required("name", "\"consumer-a\"")?)?),
        group: GroupId::new(group),
        choice,
        program: match section.field("program") {
            Some(lines) => program(lines)?,
            None => profile.map_or_else(default_program, Profile::program),
        },
        config: config.map(|configs| configs.values).unwrap_or_default(),
    };
    Ok((time(section.field("start-at"), limits::TIME_US)?, spec))
}

/// Which library the client is, and how it is used.
fn profile(section: Section) -> Read<Option<Profile>> {
    let Some(field) = section.field("profile") else { return Ok(None) };
    let name = field.text()?;
    let known = Profile::ALL.map(Profile::name);
    let wrong = || {
        let near = suggestion(name, known);
        field.error(format!("expected one of {}, not {name:?}{near}", known.join(", ")))
    };
    Profile::of_name(name).map(Some).ok_or_else(wrong)
}

/// The section's configs, with what its profile adds.
fn configs_of<'a>(section: Section<'a>, profile: Option<Profile>) -> Read<Option<Configs<'a>>> {
    let mut config = match (configs(section)?, profile) {
        (None, Some(_)) => Some(section.no_configs()),
        (given, _) => given,
    };
    if let (Some(config), Some(profile)) = (&mut config, profile) {
        profile.add_to(&mut config.values);
    }
    Ok(config)
}

/// `topics`, or else one of `partitions`, `pattern` and `re2j`.
fn choice(section: Section) -> Read<Choice> {
    const KINDS: [&str; 4] = ["topics", "partitions", "pattern", "re2j"];
    let given: Vec<Field> = KINDS.into_iter().filter_map(|kind| section.field(kind)).collect();
    if let [_, second, ..] = given[..] {
        return Err(second.error("a consumer has one of topics, partitions, pattern and re2j"));
    }
    if let Some(field) = section.field("pattern") {
        let pattern = TopicPattern::new(field.text()?);
        return pattern.map(Choice::Pattern).map_err(|error| field.error(error.to_string()));
    }
    if let Some(field) = section.field("re2j") {
        let text = field.text()?;
        let empty = || field.error(PatternError::Empty.to_string());
        return (!text.is_empty()).then(|| Choice::Re2j(text.into())).ok_or_else(empty);
    }
    if let Some(field) = section.field("partitions") {
        let wrong = |field: &Field| field.error("expected a partition such as \"orders-0\"");
        let partition = |field: Field| {
            let text = field.text()?;
            partition_of(text).ok_or_else(|| wrong(&field))
        };
        let partitions = field.texts()?.into_iter().map(partition).collect::<Read<Vec<TopicPartition>>>()?;
        return match partitions.is_empty() {
            true => Err(field.error("a consumer that is given partitions needs at least one")),
            false => Ok(Choice::Partitions(partitions)),
        };
    }
    let field = section.required("topics", "[\"orders\"]")?;
    let topics = field.texts()?.into_iter().map(topic_name).collect::<Read<Vec<Topic>>>()?;
    match topics.is_empty() {
        true => Err(field.error("a consumer subscribes to at least one topic")),
        false => Ok(Choice::Topics(topics)),
    }
}

pub(super) fn program(field: Field) -> Read<Vec<Line>> {
    let lines = field.texts()?.iter().map(Field::text).collect::<Read<Vec<&str>>>()?;
    Line::parse_program(&lines).map_err(|error| field.error(error.to_string()))
}

/// No two clients have one name, and there are not too many of them.
pub(super) fn check_names<'a>(root: Section, names: impl Iterator<Item = &'a ClientName>) -> Read<()> {
    let sections = clients(root)?;
    if let Some(one_too_many) = sections.get(limits::CLIENTS) {
        return Err(one_too_many.error(format!("there are at most {} clients", limits::CLIENTS)));
    }
    let mut seen = BTreeSet::new();
    for (section, name) in sections.iter().zip(names) {
        if name.as_str() == ADMIN {
            return Err(section.required("name", "")?.error(format!("{ADMIN} is the administrator's name")));
        }
        if !seen.insert(name) {
            return Err(section.required("name", "")?.error(format!("there is a client {name} already")));
        }
    }
    Ok(())
}

/// The sections of all clients, producers first and applications last.
fn clients(root: Section) -> Read<Vec<Section>> {
    let producers = root.sections("producer", "[[producer]]")?;
    let consumers = root.sections("consumer", "[[consumer]]")?;
    let shared = root.sections("share-consumer", "[[share-consumer]]")?;
    Ok([producers, consumers, shared, root.sections("application", "[[application]]")?].concat())
}

/// Clients use topics that there are, or that a timed command creates.
pub(super) fn check_topics(root: Section, topics: &[Topic]) -> Read<()> {
    for section in clients(root)? {
        let fields = match (section.field("topic"), section.field("topics")) {
            (Some(topic), _) => vec![topic],
            (None, Some(topics)) => topics.texts()?,
            (None, None) => Vec::new(),
        };
        for field in fields.into_iter().chain(section.field("output")) {
            let name = field.text()?;
            if topics.iter().all(|topic| topic.as_str() != name) {
                let near = suggestion(name, topics.iter().map(Topic::as_str));
                let error = ErrorCode::UnknownTopicOrPartition;
                return Err(field.error(format!("{error}: there is no topic {name}{near}")));
            }
        }
    }
    Ok(())
}
