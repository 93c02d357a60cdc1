//! Which broker configs may change while a broker runs, and what a change must be (`DynamicBrokerConfig`).
//!
//! **Invariant:** a config that Kafka reads only when a broker starts is never taken from the metadata log.

use std::collections::BTreeMap;

use super::{BrokerConfig, ConfigError, Key, LOG_KEYS, broker_key, check_value};

/// How a broker config changes ("Dynamic Update Mode" in Kafka's documentation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpdateMode {
    /// With a restart only.
    ReadOnly,
    /// For one broker at a time.
    PerBroker,
    /// For one broker, or for all as the cluster's default.
    ClusterWide,
}

/// Dynamic configs beside those of [`LOG_KEYS`].
const CLUSTER_WIDE: &[&str] = &[
    "background.threads",
    "follower.fetch.last.tiered.offset.enable",
    "group.consumer.assignment.interval.ms",
    "group.coordinator.cached.buffer.max.bytes",
    "group.share.assignment.interval.ms",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    "max.connections",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "producer.id.expiration.ms",
    "share.coordinator.cached.buffer.max.bytes",
    "transaction.partition.verification.enable",
];
const PER_BROKER: &[&str] = &["cordoned.log.dirs", "listener.security.protocol.map", "listeners"];

/// Whether and how a broker config of Kafka may change while brokers run.
pub fn update_mode(name: &str) -> UpdateMode {
    let is_first = |key: &Key| {
        let log_key = LOG_KEYS.iter().find(|log_key| log_key.key.name == key.name);
        log_key.is_some_and(|log_key| {
            LOG_KEYS.iter().find(|other| other.topic_key == log_key.topic_key) == Some(log_key)
        })
    };
    match broker_key(name) {
        _ if PER_BROKER.contains(&name) => UpdateMode::PerBroker,
        _ if CLUSTER_WIDE.contains(&name) => UpdateMode::ClusterWide,
        Some(key) if is_first(&key) => UpdateMode::ClusterWide,
        _ => UpdateMode::ReadOnly,
    }
}

/// What a broker checks of the dynamic configs that it or, as `cluster_default`, every broker is to have
/// (`DynamicBrokerConfig.validate`). A name that Kafka does not know is nobody's: it passes.
pub fn check_dynamic(
    wanted: &BTreeMap<String, String>,
    cluster_default: bool,
    running: &BrokerConfig,
) -> Result<(), String> {
    let with_mode = |mode: UpdateMode| -> Vec<&str> {
        let names = wanted.keys().map(String::as_str);
        names.filter(|name| broker_key(name).is_some() && update_mode(name) == mode).collect()
    };
    let read_only = with_mode(UpdateMode::ReadOnly);
    if !read_only.is_empty() {
        return Err(format!("Cannot update these configs dynamically: [{}]", read_only.join(", ")));
    }
    for (name, value) in wanted {
        if let Some(key) = broker_key(name) {
            check_value(&key, value).map_err(|error| error.to_string())?;
        }
    }
    let per_broker = with_mode(UpdateMode::PerBroker);
    if cluster_default && !per_broker.is_empty() {
        return Err(format!(
            "Cannot update these configs at default cluster level, broker id must be specified: [{}]",
            per_broker.join(", ")
        ));
    }
    running.with_dynamic(wanted, &BTreeMap::new()).map(|_| ()).map_err(|error: ConfigError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_config_has_kafkas_update_mode() {
        for (name, mode) in [
            ("log.retention.ms", UpdateMode::ClusterWide),
            ("log.retention.minutes", UpdateMode::ReadOnly),
            ("log.retention.hours", UpdateMode::ReadOnly),
            ("log.roll.hours", UpdateMode::ReadOnly),
            ("log.flush.scheduler.interval.ms", UpdateMode::ReadOnly),
            ("message.max.bytes", UpdateMode::ClusterWide),
            ("min.insync.replicas", UpdateMode::ClusterWide),
            ("unclean.leader.election.enable", UpdateMode::ClusterWide),
            ("log.cleaner.backoff.ms", UpdateMode::ClusterWide),
            ("num.replica.fetchers", UpdateMode::ClusterWide),
            ("cordoned.log.dirs", UpdateMode::PerBroker),
            ("log.cleaner.enable", UpdateMode::ReadOnly),
            ("replica.lag.time.max.ms", UpdateMode::ReadOnly),
            ("broker.session.timeout.ms", UpdateMode::ReadOnly),
        ] {
            assert_eq!(update_mode(name), mode, "{name}");
        }
        for name in CLUSTER_WIDE.iter().chain(PER_BROKER) {
            assert!(broker_key(name).is_some(), "{name} is in no table");
        }
    }

    fn check(cluster_default: bool, wanted: &[(&str, &str)], expected: Result<(), &str>) {
        let wanted = wanted.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let said = check_dynamic(&wanted, cluster_default, &BrokerConfig::default());
        assert_eq!(said.as_ref().map(|_| ()).map_err(String::as_str), expected, "{wanted:?}");
    }

    #[test]
    fn what_a_broker_lets_change_while_it_runs() {
        check(true, &[("message.max.bytes", "100"), ("nobodys.config", "x")], Ok(()));
        check(
            false,
            &[("replica.lag.time.max.ms", "1"), ("num.partitions", "2")],
            Err("Cannot update these configs dynamically: [num.partitions, replica.lag.time.max.ms]"),
        );
        check(
            true,
            &[("message.max.bytes", "-1")],
            Err("Invalid value -1 for configuration message.max.bytes: Value must be at least 0"),
        );
        let per_broker = [("cordoned.log.dirs", "/tmp/kafka-logs")];
        check(false, &per_broker, Ok(()));
        check(
            true,
            &per_broker,
            Err(
                "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]",
            ),
        );
        check(
            true,
            &[("log.roll.ms", "0")],
            Err("Invalid value 0 for configuration log.roll.ms: it must be greater than or equal to 1"),
        );
    }
}
