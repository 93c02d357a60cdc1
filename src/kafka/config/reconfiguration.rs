//! How dynamic configs must fit to each other and to those that a broker runs with (`KafkaConfig.validateValues`,
//! `GroupCoordinatorConfig`, and the `validateReconfiguration` of a broker's parts). Many of the parts are not modelled;
//! what they refuse is.

use super::{BrokerConfig, Layers, TOPIC_KEYS, broker_key};

/// Numbers of threads that at once may at most halve or double (`DynamicThreadPool`, `DataPlaneAcceptor`,
/// `DynamicRemoteLogConfig`).
const THREADS: &[&str] = &[
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
];

/// Numbers that a table lets be 0 and a listener does not (`ConnectionQuotas.ListenerConnectionQuota`).
const CONNECTIONS: &[&str] = &["max.connections", "max.connection.creation.rate"];

const CLEANER_THREADS: &str = "log.cleaner.threads";
const CORDONED: &str = "cordoned.log.dirs";

fn text<'a>(layers: Layers<'a>, name: &str) -> &'a str {
    let key = broker_key(name).unwrap_or_else(|| panic!("{name} is in no table"));
    layers.value(&key).trim()
}

/// A number that the tables hold to be one.
fn integer(layers: Layers<'_>, name: &str) -> i64 {
    text(layers, name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
}

/// What a server with these configs would not start with either.
pub fn check_whole(after: Layers<'_>) -> Result<(), String> {
    for kind in ["consumer", "share", "streams"] {
        let name = |bound: &str| format!("group.{kind}.{bound}assignment.interval.ms");
        let (wanted, min, max) = (name(""), name("min."), name("max."));
        let ms = integer(after, &wanted);
        if ms < integer(after, &min) {
            return Err(format!("{wanted} must be greater than or equal to {min}"));
        }
        if ms > integer(after, &max) {
            return Err(format!("{wanted} must be less than or equal to {max}"));
        }
    }
    check_cordoned(after)?;
    match integer(after, "log.cleaner.dedupe.buffer.size").checked_div(integer(after, CLEANER_THREADS)) {
        None => Err("/ by zero".to_string()),
        Some(bytes) if bytes <= 1024 * 1024 => {
            Err("requirement failed: log.cleaner.dedupe.buffer.size must be \
                                                    at least 1MB per cleaner thread."
                .to_string())
        }
        Some(_) => Ok(()),
    }
}

fn check_cordoned(after: Layers<'_>) -> Result<(), String> {
    let list = |name: &str| super::split(text(after, name));
    let cordoned = list(CORDONED);
    if cordoned.iter().any(|directory| directory == "*") {
        return match cordoned.len() {
            1 => Ok(()),
            _ => Err(format!(
                "requirement failed: When {CORDONED} is set to *, it must not contain other values"
            )),
        };
    }
    // A broker has the one directory of log.dir.
    let all = list("log.dir");
    let missing: Vec<String> = cordoned.into_iter().filter(|directory| !all.contains(directory)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "requirement failed: All entries in {CORDONED} must be present in log.dirs or log.dir. Missing entries : {}",
            missing.join(", ")
        )),
    }
}

/// What the running parts of a broker do not take. `config` is what `after` comes to.
pub fn check_parts(has: Layers<'_>, after: Layers<'_>, config: &BrokerConfig) -> Result<(), String> {
    let said = check_connections(after)
        .and_then(|()| check_threads(has, after))
        .and_then(|()| check_local_retention(after, config));
    // The exception is the value of the one that Kafka makes of it.
    said.map_err(|sentence| {
        format!(
            "Invalid value org.apache.kafka.common.config.ConfigException: {sentence} for configuration \
             Invalid dynamic configuration"
        )
    })
}

fn check_connections(after: Layers<'_>) -> Result<(), String> {
    let refused = CONNECTIONS.iter().find(|name| integer(after, name) == 0);
    refused.map_or(Ok(()), |name| Err(format!("Invalid {name} 0")))
}

fn check_threads(has: Layers<'_>, after: Layers<'_>) -> Result<(), String> {
    for name in THREADS {
        let (old, new) = (integer(has, name), integer(after, name));
        let failed = format!("Dynamic thread count update validation failed for {name}={new}");
        if new < old / 2 {
            return Err(format!("{failed}, value should be at least half the current value {old}"));
        }
        if new > old * 2 {
            return Err(format!("{failed}, value should not be greater than double the current value {old}"));
        }
    }
    let (old, new) = (integer(has, CLEANER_THREADS), integer(after, CLEANER_THREADS));
    if new < old / 2 {
        return Err(format!(
            "Log cleaner threads cannot be reduced to less than half the current value {old}"
        ));
    }
    if new > old * 2 {
        return Err(format!(
            "Log cleaner threads cannot be increased to more than double the current value {old}"
        ));
    }
    Ok(())
}

/// What stays on the broker's own disk may not be more than what stays at all.
fn check_local_retention(after: Layers<'_>, config: &BrokerConfig) -> Result<(), String> {
    const SAME: i64 = -2;
    for (name, whole_name, topic_name) in [
        ("log.local.retention.ms", "log.retention.ms", "retention.ms"),
        ("log.local.retention.bytes", "log.retention.bytes", "retention.bytes"),
    ] {
        let default = TOPIC_KEYS.iter().find(|key| key.name == topic_name).map_or("-1", |key| key.default);
        let whole = config.topic_defaults.get(topic_name).map_or(default, String::as_str);
        let (local, whole) = (integer(after, name), whole.trim().parse::<i64>().unwrap_or(-1));
        let reason = match local {
            _ if whole < 0 || local == SAME => continue,
            -1 => format!("Value must not be -1 as {whole_name} value is set as {whole}."),
            _ if local > whole => format!("Value must not be more than {whole_name} property value: {whole}"),
            _ => continue,
        };
        return Err(format!("Invalid value {local} for configuration {name}: {reason}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kafka::config::check_dynamic;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    /// A broker that runs with `cluster` and `own` is to have `key=value` of its own.
    fn check(
        cluster: &[(&str, &str)],
        own: &[(&str, &str)],
        (key, value): (&str, &str),
        expected: Result<(), &str>,
    ) {
        let (file, cluster, own) = (BrokerConfig::default(), map(cluster), map(own));
        let has = Layers { file: &file, cluster: &cluster, own: &own };
        let mut wanted = own.clone();
        wanted.insert(key.to_string(), value.to_string());
        let said = check_dynamic(&wanted, false, has);
        let whole = expected.map_err(|sentence| match sentence.strip_prefix('!') {
            Some(whole) => whole.to_string(),
            None => format!(
                "Invalid value org.apache.kafka.common.config.ConfigException: {sentence} for configuration Invalid \
                 dynamic configuration"
            ),
        });
        assert_eq!(said, whole, "{key}={value}");
    }

    #[test]
    fn threads_at_most_halve_or_double_at_a_time() {
        let io = "num.io.threads";
        check(&[], &[], (io, "16"), Ok(()));
        check(&[], &[], (io, "4"), Ok(()));
        check(
            &[],
            &[],
            (io, "17"),
            Err(
                "Dynamic thread count update validation failed for num.io.threads=17, value should not be greater than \
                 double the current value 8",
            ),
        );
        check(
            &[],
            &[],
            (io, "3"),
            Err(
                "Dynamic thread count update validation failed for num.io.threads=3, value should be at least half the \
                 current value 8",
            ),
        );
        check(&[], &[(io, "16")], (io, "32"), Ok(()));
        check(&[(io, "16")], &[], (io, "32"), Ok(()));
        let (of_16, key) =
            ("Log cleaner threads cannot be reduced to less than half the current value 16", CLEANER_THREADS);
        check(&[], &[(key, "16")], (key, "7"), Err(of_16));
        check(
            &[],
            &[],
            (key, "3"),
            Err("Log cleaner threads cannot be increased to more than double the current value 1"),
        );
        check(&[], &[], (key, "0"), Err("!/ by zero"));
        let (network, min) = (
            "num.network.threads",
            "!Invalid value 0 for configuration num.network.threads: Value must be at least 1",
        );
        check(&[], &[], (network, "0"), Err(min));
    }

    #[test]
    fn what_a_server_would_not_start_with_is_refused_while_it_runs_too() {
        check(&[], &[], (CORDONED, "*"), Ok(()));
        check(
            &[],
            &[],
            (CORDONED, "/mnt"),
            Err(
                "!requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing \
                 entries : /mnt",
            ),
        );
        check(
            &[],
            &[],
            ("group.streams.assignment.interval.ms", "15001"),
            Err("!group.streams.assignment.interval.ms must be less than or equal to \
                 group.streams.max.assignment.interval.ms"),
        );
        check(
            &[],
            &[],
            ("log.cleaner.dedupe.buffer.size", "1048576"),
            Err(
                "!requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
            ),
        );
        check(&[], &[], ("max.connections", "0"), Err("Invalid max.connections 0"));
    }

    #[test]
    fn local_retention_is_no_more_than_retention() {
        let (ms, bytes) = ("log.local.retention.ms", "log.local.retention.bytes");
        check(&[], &[], (ms, "604800000"), Ok(()));
        check(
            &[],
            &[],
            (ms, "-1"),
            Err(
                "Invalid value -1 for configuration log.local.retention.ms: Value must not be -1 as log.retention.ms \
                 value is set as 604800000.",
            ),
        );
        check(
            &[("log.retention.ms", "10")],
            &[],
            (ms, "11"),
            Err("Invalid value 11 for configuration log.local.retention.ms: Value must not be more than \
                 log.retention.ms property value: 10"),
        );
        check(&[("log.retention.ms", "-1")], &[], (ms, "11"), Ok(()));
        check(&[], &[], (bytes, "5"), Ok(()));
    }
}
