//! Where a scenario departs from Kafka's defaults, to be said on the screen.
//!
//! **Invariant:** a config that is not named here has Kafka's own default.

use std::collections::BTreeMap;
use std::fmt;

use super::Scenario;
use super::parts::consumer_keys;
use super::share;
use crate::client::config::{COMMON_KEYS, Key, producer::PRODUCER_KEYS};
use crate::kafka::config::{FEATURE_KEYS, TOPIC_KEYS, broker_keys};
use crate::kafka::types::{ClientName, Topic};

/// What a setting belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Brokers,
    Topic(Topic),
    Client(ClientName),
}

/// One config with another value than Kafka's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub scope: Scope,
    pub key: String,
    pub value: String,
    /// `None`: Kafka has the config, and what it is by default does not matter here.
    pub default: Option<&'static str>,
}

impl fmt::Display for Setting {
    /// `classroom setting: offsets.topic.num.partitions = 3, Kafka's default is 50`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Scope::Brokers => f.write_str("classroom setting: ")?,
            Scope::Topic(topic) => write!(f, "topic {topic}: ")?,
            Scope::Client(name) => write!(f, "{name}: ")?,
        }
        write!(f, "{} = {}", self.key, self.value)?;
        match self.default {
            Some(default) => write!(f, ", Kafka's default is {default}"),
            None => Ok(()),
        }
    }
}

/// Every config of the scenario that departs from Kafka's default: brokers, topics, then clients.
pub fn classroom_settings(scenario: &Scenario) -> Vec<Setting> {
    let default_of = |name: &str| {
        let mut keys = broker_keys().map(|key| (key.name, key.default));
        keys.find(|(key, _)| *key == name).map(|(_, default)| default)
    };
    let mut settings = departures(Scope::Brokers, &scenario.broker_config, default_of);
    let level_of = |name: &str| FEATURE_KEYS.iter().find(|key| key.name == name).map(|key| key.default);
    settings.extend(departures(Scope::Brokers, &scenario.features, level_of));
    for topic in &scenario.topics {
        let default_of = |name: &str| TOPIC_KEYS.iter().find(|key| key.name == name).map(|key| key.default);
        settings.extend(departures(Scope::Topic(topic.name.clone()), &topic.config, default_of));
    }
    let client = |name: &ClientName, config, keys: &mut dyn Iterator<Item = &'static Key>| {
        let keys: Vec<&Key> = keys.collect();
        let default_of = |name: &str| keys.iter().find(|key| key.name == name).map(|key| key.default);
        departures(Scope::Client(name.clone()), config, default_of)
    };
    for (_, spec) in &scenario.producers {
        settings.extend(client(&spec.name, &spec.config, &mut PRODUCER_KEYS.iter().chain(COMMON_KEYS)));
    }
    for (_, spec) in &scenario.consumers {
        settings.extend(client(&spec.name, &spec.config, &mut consumer_keys()));
    }
    for (_, spec) in &scenario.share_consumers {
        settings.extend(client(&spec.name, &spec.config, &mut share::keys()));
    }
    settings
}

fn departures(
    scope: Scope,
    config: &BTreeMap<String, String>,
    default_of: impl Fn(&str) -> Option<&'static str>,
) -> Vec<Setting> {
    config
        .iter()
        .map(|(key, value)| Setting {
            scope: scope.clone(),
            key: key.clone(),
            value: value.clone(),
            default: default_of(key),
        })
        .filter(|setting| {
            !setting.default.is_some_and(|default| setting.value.trim().eq_ignore_ascii_case(default))
        })
        .collect()
}
