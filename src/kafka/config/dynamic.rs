//! Which broker configs may change while a broker runs, and what a change must be (`DynamicBrokerConfig`).
//!
//! **Invariant:** a config that Kafka reads only when a broker starts is never taken from the metadata log.

use std::collections::BTreeMap;

use super::listener_keys::without_listener;
use super::reconfiguration::{check_parts, check_whole};
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
    "config.providers",
    "follower.fetch.last.tiered.offset.enable",
    "follower.replication.throttled.rate",
    "group.consumer.assignment.interval.ms",
    "group.coordinator.cached.buffer.max.bytes",
    "group.share.assignment.interval.ms",
    "group.streams.assignment.interval.ms",
    "leader.replication.throttled.rate",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.threads",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "metric.reporters",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "producer.id.expiration.ms",
    "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms",
    "remote.log.index.file.cache.total.size.bytes",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "share.coordinator.cached.buffer.max.bytes",
    "transaction.partition.verification.enable",
];

/// Dynamic configs of a single broker, beside [`OF_LISTENERS`].
const PER_BROKER: &[&str] = &[
    "cordoned.log.dirs",
    "listener.security.protocol.map",
    "listeners",
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
];

/// Those that change with the prefix of a listener only (`SslConfigs.RECONFIGURABLE_CONFIGS`).
const OF_LISTENERS: &[&str] = &[
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// Those that may stand with a listener's prefix in the cluster's default too.
const CLUSTER_WIDE_OF_LISTENERS: &[&str] =
    &["max.connection.creation.rate", "max.connections", "num.network.threads"];

/// Whether and how a broker config of Kafka may change while brokers run. A config of a listener always may, for one
/// broker; a name that Kafka does not know is read-only.
pub fn update_mode(name: &str) -> UpdateMode {
    let is_first = |key: &Key| {
        let log_key = LOG_KEYS.iter().find(|log_key| log_key.key.name == key.name);
        log_key.is_some_and(|log_key| {
            LOG_KEYS.iter().find(|other| other.topic_key == log_key.topic_key) == Some(log_key)
        })
    };
    match (broker_key(name), without_listener(name)) {
        (None, Some(rest)) if CLUSTER_WIDE_OF_LISTENERS.contains(&rest) => UpdateMode::ClusterWide,
        (None, Some(_)) => UpdateMode::PerBroker,
        _ if PER_BROKER.contains(&name) || OF_LISTENERS.contains(&name) => UpdateMode::PerBroker,
        _ if CLUSTER_WIDE.contains(&name) => UpdateMode::ClusterWide,
        (Some(key), _) if is_first(&key) => UpdateMode::ClusterWide,
        _ => UpdateMode::ReadOnly,
    }
}

/// Whether a config changes only under the name of one of a listener's.
pub fn needs_listener(name: &str) -> bool {
    OF_LISTENERS.contains(&name)
}

/// What a broker's configs come from, the last one that has a value counting (R-LOG-53).
#[derive(Clone, Copy)]
pub struct Layers<'a> {
    pub file: &'a BrokerConfig,
    pub cluster: &'a BTreeMap<String, String>,
    pub own: &'a BTreeMap<String, String>,
}

impl<'a> Layers<'a> {
    /// The value that counts, be it the default. Of those in the metadata log only valid ones do.
    pub fn value(&self, key: &Key) -> &'a str {
        let dynamic = [self.own, self.cluster].into_iter().filter_map(|values| values.get(key.name));
        let valid = dynamic.filter(|value| check_value(key, value).is_ok());
        valid.chain(self.file.given.get(key.name)).next().map_or(key.default, String::as_str)
    }
}

/// What a broker checks of the dynamic configs that it or, as `cluster_default`, every broker is to have in place of
/// those that it `has` (`DynamicBrokerConfig.validate`). A name that Kafka does not know is nobody's: it passes.
pub fn check_dynamic(
    wanted: &BTreeMap<String, String>,
    cluster_default: bool,
    has: Layers<'_>,
) -> Result<(), String> {
    let refuse_any = |sentence: &str, refused: &dyn Fn(&str) -> bool| {
        let names: Vec<&str> = wanted.keys().map(String::as_str).filter(|name| refused(name)).collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(format!("{sentence}: [{}]", names.join(", "))),
        }
    };
    refuse_any("Cannot update these configs dynamically", &|name| {
        broker_key(name).is_some() && update_mode(name) == UpdateMode::ReadOnly
    })?;
    refuse_any(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        &needs_listener,
    )?;
    for (name, value) in wanted {
        let name = without_listener(name).unwrap_or(name);
        if let Some(key) = broker_key(name).filter(|_| update_mode(name) != UpdateMode::ReadOnly) {
            check_value(&key, value).map_err(|error| error.to_string())?;
        }
    }
    if cluster_default {
        refuse_any(
            "Cannot update these configs at default cluster level, broker id must be specified",
            &|name| update_mode(name) == UpdateMode::PerBroker,
        )?;
    }
    let after = match cluster_default {
        true => Layers { cluster: wanted, ..has },
        false => Layers { own: wanted, ..has },
    };
    let config = has.file.with_dynamic(after.cluster, after.own).map_err(|e: ConfigError| e.to_string())?;
    check_whole(after)?;
    check_parts(has, after, &config)
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
            ("node.id", UpdateMode::ReadOnly),
            ("quota.window.num", UpdateMode::ReadOnly),
            ("ssl.keystore.location", UpdateMode::PerBroker),
            ("listener.name.external.ssl.keystore.location", UpdateMode::PerBroker),
            ("listener.name.external.max.connections", UpdateMode::ClusterWide),
        ] {
            assert_eq!(update_mode(name), mode, "{name}");
        }
        for table in [CLUSTER_WIDE, PER_BROKER, OF_LISTENERS] {
            assert!(table.windows(2).all(|pair| pair[0] < pair[1]), "{table:?}");
            table.iter().for_each(|name| assert!(broker_key(name).is_some(), "{name} is in no table"));
        }
    }

    fn check(cluster_default: bool, wanted: &[(&str, &str)], expected: Result<(), &str>) {
        let wanted = wanted.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let (file, none) = (BrokerConfig::default(), BTreeMap::new());
        let has = Layers { file: &file, cluster: &none, own: &none };
        let said = check_dynamic(&wanted, cluster_default, has);
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
        let at_cluster_level =
            "Cannot update these configs at default cluster level, broker id must be specified: ";
        let per_broker = [("cordoned.log.dirs", "/tmp/kafka-logs")];
        check(false, &per_broker, Ok(()));
        check(true, &per_broker, Err(&format!("{at_cluster_level}[cordoned.log.dirs]")));
        check(
            true,
            &[("log.roll.ms", "0")],
            Err("Invalid value 0 for configuration log.roll.ms: it must be greater than or equal to 1"),
        );
        check(false, &[("ssl.protocol", "TLSv1.3")], Ok(()));
        check(false, &[("node.id", "1")], Err("Cannot update these configs dynamically: [node.id]"));
    }

    #[test]
    fn a_listeners_keystore_changes_with_the_listeners_prefix_only() {
        let key = "listener.name.external.ssl.keystore.location";
        check(false, &[(key, "/k.jks")], Ok(()));
        check(
            true,
            &[(key, "/k.jks")],
            Err(&format!(
                "Cannot update these configs at default cluster level, broker id must be specified: [{key}]"
            )),
        );
        check(
            false,
            &[("ssl.keystore.location", "/k.jks")],
            Err(
                "These security configs can be dynamically updated only per-listener using the listener prefix: \
                 [ssl.keystore.location]",
            ),
        );
        check(true, &[("listener.name.external.max.connections", "5")], Ok(()));
        check(
            true,
            &[("listener.name.external.max.connections", "-5")],
            Err("Invalid value -5 for configuration max.connections: Value must be at least 0"),
        );
    }
}
