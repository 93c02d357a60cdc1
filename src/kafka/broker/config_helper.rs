//! Configs as a broker describes them, each with everything that has a say in it.
//!
//! Mirrors `ConfigHelper` (R-LOG-53).
//!
//! **Invariant:** a broker describes what it has replayed, whether or not there is a controller.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::configs::invalid;
use super::process::Broker;
use crate::kafka::config::{
    GROUP_KEYS, Key, Kind, LOG_KEYS, NULL, UpdateMode, broker_key, broker_keys, group_synonym, listener_key,
    synonyms_of, topic_key, update_mode,
};
use crate::kafka::controller::configs::{
    BROKER, CLIENT_METRICS, ConfigSource, GROUP, NO_CLIENT_METRICS, Resource, TOPIC,
};
use crate::kafka::controller::topics::Refused;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::Topic;

impl Broker {
    /// What this broker knows of configs; it asks nobody.
    pub(super) fn describe_configs(&self, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
        let result = |resource: &DescribeConfigsResource| {
            let described = self.described(resource, request.include_synonyms);
            let result = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
                .with_error_message(None);
            match described {
                Ok(configs) => result.with_configs(configs),
                Err((error, message)) => {
                    result.with_error_code(error.code()).with_error_message(Some(message.into()))
                }
            }
        };
        DescribeConfigsResponse::default().with_results(request.resources.iter().map(result).collect())
    }

    fn described(
        &self,
        resource: &DescribeConfigsResource,
        synonyms: bool,
    ) -> Result<Vec<DescribeConfigsResourceResult>, Refused> {
        let name = resource.resource_name.as_str();
        let wanted = |key: &str| {
            let keys = resource.configuration_keys.as_ref();
            keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|each| each.as_str() == key))
        };
        let entries: Vec<Entry> = match resource.resource_type {
            TOPIC => {
                let Resource::Topic(topic) = Resource::read(TOPIC, name)? else { return Ok(Vec::new()) };
                self.topic_entries(&topic)?
            }
            BROKER => match self.broker_resource(name, true)? {
                Some(_) => broker_keys().map(|key| self.broker_entry(key)).collect(),
                None => self.default_entries(),
            },
            GROUP if name.is_empty() => {
                return Err(invalid("Group name must not be empty".to_string()));
            }
            GROUP => self.group_entries(name),
            CLIENT_METRICS => return Err(invalid(NO_CLIENT_METRICS.to_string())),
            other => return Err(invalid(format!("Unsupported resource type: {other}"))),
        };
        let entries = entries.into_iter().filter(|entry| wanted(&entry.key));
        Ok(entries.map(|entry| entry.result(synonyms)).collect())
    }

    fn topic_entries(&self, name: &Topic) -> Result<Vec<Entry>, Refused> {
        let unknown =
            || (ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicOrPartition.name().to_string());
        let topic = self.image.topic(name).ok_or_else(unknown)?;
        let names = crate::kafka::config::TOPIC_KEYS.iter().chain(crate::kafka::config::TOPIC_NOT_MODELLED);
        let entry = |key: &Key| {
            let mut synonyms = Vec::new();
            if let Some(own) = topic.config.get(key.name) {
                synonyms.push((key.name.to_string(), own.clone(), ConfigSource::Topic));
            }
            synonyms.extend(self.broker_synonyms(synonyms_of(key.name).map(|synonym| synonym.key)));
            let value = match synonyms.first() {
                Some((name, value, _)) => to_topic(name, value),
                None => key.default.to_string(),
            };
            Entry { key: key.name.to_string(), value, read_only: false, kind: Some(key.kind), synonyms }
        };
        Ok(names.map(entry).collect())
    }

    /// A group has configs whether or not it exists.
    fn group_entries(&self, name: &str) -> Vec<Entry> {
        let none = BTreeMap::new();
        let given = self.image.group_configs.get(name).unwrap_or(&none);
        let entry = |key: &Key| {
            let own = given.get(key.name);
            let mut synonyms: Vec<_> =
                own.map(|own| (key.name.to_string(), own.clone(), ConfigSource::Group)).into_iter().collect();
            synonyms.extend(self.broker_synonyms([group_synonym(key.name).unwrap_or(*key)].into_iter()));
            // A broker's dynamic value does not reach what Kafka tells of a group.
            let value = own.map_or(key.default, String::as_str).to_string();
            Entry { key: key.name.to_string(), value, read_only: false, kind: Some(key.kind), synonyms }
        };
        GROUP_KEYS.iter().map(entry).collect()
    }

    /// A config of this broker with everything that has a say in it.
    fn broker_entry(&self, key: Key) -> Entry {
        let log_key = LOG_KEYS.iter().find(|log_key| log_key.key.name == key.name);
        let mut synonyms = match log_key {
            Some(log_key) => self.broker_synonyms(synonyms_of(log_key.topic_key).map(|synonym| synonym.key)),
            None => self.broker_synonyms([key].into_iter()),
        };
        let first = synonyms.iter().position(|(name, ..)| name == key.name).unwrap_or(synonyms.len());
        synonyms.drain(..first);
        let value = synonyms.first().map_or(key.default, |(_, value, _)| value.as_str()).to_string();
        let read_only = update_mode(key.name) == UpdateMode::ReadOnly;
        Entry { key: key.name.to_string(), value, read_only, kind: Some(key.kind), synonyms }
    }

    /// What stands as the default of all brokers.
    fn default_entries(&self) -> Vec<Entry> {
        let entry = |(name, value): (&String, &String)| Entry {
            key: name.clone(),
            value: value.clone(),
            read_only: broker_key(name).is_none() || update_mode(name) == UpdateMode::ReadOnly,
            kind: broker_key(name).or(listener_key(name)).map(|key| key.kind),
            synonyms: vec![(name.clone(), value.clone(), ConfigSource::DynamicDefault)],
        };
        self.image.cluster_config.iter().map(entry).collect()
    }

    /// The values of configs that mean the same, the one that counts first (R-LOG-53).
    fn broker_synonyms(&self, keys: impl Iterator<Item = Key>) -> Vec<(String, String, ConfigSource)> {
        let none = BTreeMap::new();
        let own = self.image.broker_configs.get(&self.id).unwrap_or(&none);
        let keys: Vec<Key> = keys.collect();
        let mut found = Vec::new();
        for (values, source) in [
            (own, ConfigSource::DynamicBroker),
            (&self.image.cluster_config, ConfigSource::DynamicDefault),
            (&self.static_config.given, ConfigSource::Static),
        ] {
            let given = keys
                .iter()
                .filter_map(|key| Some((key.name.to_string(), values.get(key.name)?.clone(), source)));
            found.extend(given);
        }
        let defaults = keys.iter().filter(|key| key.default != NULL);
        found.extend(
            defaults.map(|key| (key.name.to_string(), key.default.to_string(), ConfigSource::Default)),
        );
        found
    }
}

/// A broker's value as the topic has it.
fn to_topic(name: &str, value: &str) -> String {
    match LOG_KEYS.iter().find(|log_key| log_key.key.name == name) {
        Some(log_key) if topic_key(name).is_none() => log_key.to_topic(value),
        _ => value.to_string(),
    }
}

/// One config as it is described.
struct Entry {
    key: String,
    value: String,
    read_only: bool,
    /// `None`: nobody knows it.
    kind: Option<Kind>,
    /// Everything that has a say, the one that counts first.
    synonyms: Vec<(String, String, ConfigSource)>,
}

impl Entry {
    fn result(self, with_synonyms: bool) -> DescribeConfigsResourceResult {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        // What might be a secret is not told (`KafkaConfig.maybeSensitive`).
        let sensitive = self.kind.is_none_or(|kind| kind == Kind::Password);
        let told = |value: &str| Some(text(value)).filter(|_| !sensitive && value != NULL);
        let source = self.synonyms.first().map_or(ConfigSource::Default, |(_, _, source)| *source);
        let synonyms = self.synonyms.iter().filter(|_| with_synonyms).map(|(name, value, source)| {
            DescribeConfigsSynonym::default()
                .with_name(text(name))
                .with_value(told(value))
                .with_source(source.code())
        });
        DescribeConfigsResourceResult::default()
            .with_name(text(&self.key))
            .with_value(told(&self.value))
            .with_is_sensitive(sensitive)
            .with_read_only(self.read_only)
            .with_config_source(source.code())
            .with_synonyms(synonyms.collect())
            .with_config_type(self.kind.map_or(0, Kind::code))
            .with_documentation(None)
    }
}
