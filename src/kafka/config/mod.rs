//! Configs under Kafka's own names: one table of [`Key`]s for each kind of thing, read from text into typed values.
//!
//! Mirrors `ConfigDef` and `ConfigException`. A table gives each key's default, range and one line of doc, so that a
//! page can list them; the typed structs ([`TopicConfig`], [`BrokerConfig`], and those of the clients) are what runs.
//! [`LOG_KEYS`] say which configs of a broker are the defaults of which of a topic, [`UpdateMode`] which of them may
//! change while the broker runs.
//!
//! **Invariant:** a key that a person gives and that is accepted has its effect; one that Kafka knows and that has
//! none here is refused by name.

mod broker;
mod broker_keys;
mod decimal;
mod dynamic;
mod features;
mod group;
mod listener_keys;
mod log_keys;
mod not_modelled;
mod reconfiguration;
mod topic;
mod transaction_keys;

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

pub use broker::{BrokerConfig, MetadataLogConfig, QuorumConfig, ShareCoordinatorConfig};
pub use broker_keys::{broker_key, broker_keys, has_effect_on_brokers};
pub use dynamic::{Layers, UpdateMode, check_dynamic, needs_listener, update_mode};
pub use features::{
    ELIGIBLE_LEADER_REPLICAS, FEATURE_KEYS, FEATURES_NOT_MODELLED, Features, TRANSACTION_VERSION,
};
pub use group::{
    GROUP_KEYS, OffsetReset, by_duration_ms, check_group_config, default_limit, group_key,
    group_offset_reset, group_synonym, group_value,
};
pub use listener_keys::listener_key;
pub use log_keys::{LOG_KEYS, LogKey, synonyms_of};
pub use topic::{TOPIC_KEYS, TOPIC_NOT_MODELLED, TopicConfig, check_topic_config, topic_key};
pub use transaction_keys::TransactionSettings;

/// The default of a key that has none: Kafka's null.
pub const NULL: &str = "null";

/// One config key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub name: &'static str,
    /// As a person would write it.
    pub default: &'static str,
    pub kind: Kind,
    pub doc: &'static str,
}

impl Key {
    /// One without a description.
    const fn plain(name: &'static str, default: &'static str, kind: Kind) -> Key {
        Key { name, default, kind, doc: "" }
    }
}

/// What values a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer {
        min: i64,
        max: i64,
    },
    Boolean,
    OneOf(&'static [&'static str]),
    /// Whatever the case of its letters.
    OneOfAnyCase(&'static [&'static str]),
    /// Names from a set, separated by commas, each at most once.
    ListOf(&'static [&'static str]),
    /// Any names, separated by commas, each at most once.
    List,
    /// Pairs `partition:broker`, separated by commas, or `*` for all replicas (`ThrottledReplicaListValidator`).
    Replicas,
    /// A decimal number from 0 to 1.
    Ratio,
    /// A decimal number.
    Double,
    Text,
    /// The name of a class of the server's.
    Class,
    /// A text that is never told.
    Password,
}

impl Kind {
    /// Kafka's INT from `min` on.
    pub const fn int_from(min: i64) -> Kind {
        Kind::Integer { min, max: i32::MAX as i64 }
    }

    /// Kafka's LONG from `min` on.
    pub const fn long_from(min: i64) -> Kind {
        Kind::Integer { min, max: i64::MAX }
    }

    /// Kafka's SHORT from `min` on.
    pub const fn short_from(min: i64) -> Kind {
        Kind::Integer { min, max: i16::MAX as i64 }
    }

    /// Whether a value may be extended (`AlterConfigOp.OpType` APPEND, SUBTRACT).
    pub fn is_list(self) -> bool {
        matches!(self, Kind::ListOf(_) | Kind::List | Kind::Replicas)
    }

    /// The code in DescribeConfigs (`DescribeConfigsResponse.ConfigType`).
    pub fn code(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::OneOf(_) | Kind::OneOfAnyCase(_) | Kind::Text => 2,
            Kind::Integer { max, .. } if max == i64::from(i16::MAX) => 4,
            Kind::Integer { max, .. } if max <= i64::from(i32::MAX) => 3,
            Kind::Integer { .. } => 5,
            Kind::Ratio | Kind::Double => 6,
            Kind::ListOf(_) | Kind::List | Kind::Replicas => 7,
            Kind::Class => 8,
            Kind::Password => 9,
        }
    }
}

/// A value that a client does not take, in the words of Kafka's ConfigException.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub key: String,
    /// `None` where Kafka's reason says all: two configs do not go together.
    value: Option<String>,
    pub reason: String,
}

impl Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "Invalid value {value} for configuration {}: {}", self.key, self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl ConfigError {
    pub fn new(key: &str, value: impl ToString, reason: impl Into<String>) -> ConfigError {
        ConfigError { key: key.to_owned(), value: Some(value.to_string()), reason: reason.into() }
    }

    /// Configs that do not go together, in Kafka's sentence; `key` is the one to change.
    pub fn conflict(key: &str, sentence: impl Into<String>) -> ConfigError {
        ConfigError { key: key.to_owned(), value: None, reason: sentence.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Integer(i64),
    Boolean(bool),
    Text(String),
    List(Vec<String>),
}

/// One client's configs, checked: each key of its tables with its given or default value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    values: BTreeMap<&'static str, Value>,
    given: Vec<&'static str>,
}

impl Values {
    /// Reads what a person gave. `not_modelled` are the keys that Kafka knows and that would have no effect here.
    pub fn read(
        tables: &[&[Key]],
        not_modelled: &[&str],
        given: &BTreeMap<String, String>,
    ) -> Result<Values, ConfigError> {
        for (name, value) in given {
            if tables.iter().all(|table| table.iter().all(|key| key.name != name)) {
                let known = not_modelled.contains(&name.as_str());
                let reason = if known { "not modelled yet" } else { "Unknown configuration" };
                return Err(ConfigError::new(name, value, reason));
            }
        }
        let mut read = Values { values: BTreeMap::new(), given: Vec::new() };
        for key in tables.iter().copied().flatten() {
            let text = given.get(key.name).map(String::as_str);
            if text.is_some() {
                read.given.push(key.name);
            }
            match text {
                None if key.default == NULL => {}
                text => drop(read.values.insert(key.name, parse(key, text.unwrap_or(key.default))?)),
            }
        }
        Ok(read)
    }

    /// Whether the person gave a value, be it the default.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Decimal numbers are given in millionths.
    pub fn integer(&self, name: &str) -> i64 {
        match self.values.get(name) {
            Some(Value::Integer(value)) => *value,
            other => panic!("{name} is no integer in the table: {other:?}"),
        }
    }

    /// A value that the table keeps within Kafka's INT.
    pub fn int(&self, name: &str) -> i32 {
        i32::try_from(self.integer(name)).unwrap_or_else(|_| panic!("{name} is no INT in the table"))
    }

    pub fn boolean(&self, name: &str) -> bool {
        match self.values.get(name) {
            Some(Value::Boolean(value)) => *value,
            other => panic!("{name} is no boolean in the table: {other:?}"),
        }
    }

    pub fn text(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(Value::Text(value)) => value,
            other => panic!("{name} is no text in the table: {other:?}"),
        }
    }

    /// `None` if nothing is given and there is no default.
    pub fn optional_text(&self, name: &str) -> Option<&str> {
        self.values.contains_key(name).then(|| self.text(name))
    }

    pub fn list(&self, name: &str) -> &[String] {
        match self.values.get(name) {
            Some(Value::List(value)) => value,
            other => panic!("{name} is no list in the table: {other:?}"),
        }
    }
}

/// Whether `text` is a value that `key` takes.
pub fn check_value(key: &Key, text: &str) -> Result<(), ConfigError> {
    parse(key, text).map(|_| ())
}

fn parse(key: &Key, text: &str) -> Result<Value, ConfigError> {
    let text = text.trim();
    let refuse = |reason: String| Err(ConfigError::new(key.name, text, reason));
    match key.kind {
        Kind::Integer { min, max } => match text.parse::<i64>() {
            Ok(value) if value < min => refuse(format!("Value must be at least {min}")),
            Ok(value) if value > max => refuse(format!("Value must be no more than {max}")),
            Ok(value) => Ok(Value::Integer(value)),
            Err(_) => refuse("Not a number".to_owned()),
        },
        Kind::Boolean if text.eq_ignore_ascii_case("true") => Ok(Value::Boolean(true)),
        Kind::Boolean if text.eq_ignore_ascii_case("false") => Ok(Value::Boolean(false)),
        Kind::Boolean => refuse("Expected value to be either true or false".to_owned()),
        Kind::OneOf(names) if names.contains(&text) => Ok(Value::Text(text.to_owned())),
        Kind::OneOf(names) => refuse(format!("String must be one of: {}", names.join(", "))),
        Kind::OneOfAnyCase(names) => match names.iter().find(|name| name.eq_ignore_ascii_case(text)) {
            Some(name) => Ok(Value::Text((*name).to_owned())),
            None => refuse(format!(
                "String must be one of (case insensitive): {}",
                names.join(", ").to_ascii_uppercase()
            )),
        },
        Kind::ListOf(names) => {
            let list = split(text);
            if let Some(name) = list.iter().find(|name| !names.contains(&name.as_str())) {
                return refuse(format!("{name:?} is none of: {}", names.join(", ")));
            }
            match has_duplicates(&list) {
                true => refuse("values must not be duplicated".to_owned()),
                false => Ok(Value::List(list)),
            }
        }
        Kind::List => match split(text) {
            list if list.iter().any(String::is_empty) => refuse("values must not be empty".to_owned()),
            list if has_duplicates(&list) => refuse("values must not be duplicated".to_owned()),
            list => Ok(Value::List(list)),
        },
        Kind::Replicas => match split(text) {
            list if text != "*" && !list.iter().all(|replica| is_replica(replica)) => refuse(format!(
                "{} must be the literal '*' or a list of replicas in the following format: \
                 [partitionId]:[brokerId],[partitionId]:[brokerId],...",
                key.name
            )),
            list => Ok(Value::List(list)),
        },
        Kind::Text | Kind::Class | Kind::Password => Ok(Value::Text(text.to_owned())),
        Kind::Ratio | Kind::Double => match decimal::millionths(text) {
            Some(value) if key.kind == Kind::Ratio && value < 0 => {
                refuse("Value must be at least 0".to_owned())
            }
            Some(value) if key.kind == Kind::Ratio && value > 1_000_000 => {
                refuse("Value must be no more than 1".to_owned())
            }
            Some(value) => Ok(Value::Integer(value)),
            None => refuse("Not a number of type DOUBLE".to_owned()),
        },
    }
}

fn has_duplicates(list: &[String]) -> bool {
    (1..list.len()).any(|i| list[..i].contains(&list[i]))
}

/// `partition:broker`, or nothing.
fn is_replica(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.is_empty()
        || text.split_once(':').is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
}

fn split(text: &str) -> Vec<String> {
    match text.is_empty() {
        true => Vec::new(),
        false => text.split(',').map(|name| name.trim().to_owned()).collect(),
    }
}
