//! Client configs under Kafka's own names: one table of [`Key`]s a client, read from text into typed values.
//!
//! Mirrors `ConfigDef` and `ConfigException`. A table gives each key's default, range and one line of doc, so that a
//! page can list them; the typed structs ([`CommonConfig`], [`producer::ProducerConfig`]) are what the clients run on.
//!
//! **Invariant:** a key that is accepted has its effect; one that Kafka knows and that has none here is refused.

pub mod producer;

use std::collections::BTreeMap;

use crate::kafka::backoff::Backoff;
pub use crate::kafka::config::{ConfigError, Key, Kind, NULL, Values};
use crate::kafka::network_client::NetworkConfig;

/// The keys that all clients have (R-REPL-69, section 5.6 of the reference).
pub const COMMON_KEYS: &[Key] = &[
    Key {
        name: "request.timeout.ms",
        default: "30000",
        kind: Kind::int_from(0),
        doc: "How long an answer may take before the connection is given up and the request is retried.",
    },
    Key {
        name: "retry.backoff.ms",
        default: "100",
        kind: Kind::long_from(0),
        doc: "Wait before the first retry of a failed request; doubled at each further failure.",
    },
    Key {
        name: "retry.backoff.max.ms",
        default: "1000",
        kind: Kind::long_from(0),
        doc: "The longest wait between retries of a request.",
    },
    Key {
        name: "reconnect.backoff.ms",
        default: "50",
        kind: Kind::long_from(0),
        doc: "Wait before a lost connection is opened again; doubled at each further failure.",
    },
    Key {
        name: "reconnect.backoff.max.ms",
        default: "1000",
        kind: Kind::long_from(0),
        doc: "The longest wait between attempts to connect.",
    },
    Key {
        name: "metadata.max.age.ms",
        default: "300000",
        kind: Kind::long_from(0),
        doc: "Metadata of this age is asked for again even if nothing went wrong.",
    },
    Key {
        name: "metadata.recovery.rebootstrap.trigger.ms",
        default: "300000",
        kind: Kind::long_from(0),
        doc: "After this long without metadata the client starts again from its bootstrap servers.",
    },
];

/// Keys that all clients of Kafka have and that would have no effect here.
pub const COMMON_NOT_MODELLED: &[&str] = &[
    "bootstrap.servers",
    "client.dns.lookup",
    "client.id",
    "config.providers",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "interceptor.classes",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "security.protocol",
    "security.providers",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
];

/// The values of [`COMMON_KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonConfig {
    pub request_timeout_ms: i64,
    pub retry_backoff: Backoff,
    pub reconnect_backoff_ms: i64,
    pub reconnect_backoff_max_ms: i64,
    pub metadata_max_age_ms: i64,
    pub rebootstrap_trigger_ms: i64,
}

impl CommonConfig {
    pub fn from_values(values: &Values) -> CommonConfig {
        CommonConfig {
            request_timeout_ms: values.integer("request.timeout.ms"),
            retry_backoff: Backoff {
                initial_ms: values.integer("retry.backoff.ms"),
                max_ms: values.integer("retry.backoff.max.ms"),
            },
            reconnect_backoff_ms: values.integer("reconnect.backoff.ms"),
            reconnect_backoff_max_ms: values.integer("reconnect.backoff.max.ms"),
            metadata_max_age_ms: values.integer("metadata.max.age.ms"),
            rebootstrap_trigger_ms: values.integer("metadata.recovery.rebootstrap.trigger.ms"),
        }
    }

    pub fn network(&self, max_in_flight: i32) -> NetworkConfig {
        NetworkConfig {
            reconnect_backoff_ms: self.reconnect_backoff_ms,
            reconnect_backoff_max_ms: self.reconnect_backoff_max_ms,
            max_in_flight,
            ..NetworkConfig::default()
        }
    }
}

impl Default for CommonConfig {
    fn default() -> Self {
        let values = Values::read(&[COMMON_KEYS], &[], &BTreeMap::new());
        CommonConfig::from_values(&values.expect("the defaults are in range"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[Key] = &[
        Key { name: "a.ms", default: "5", kind: Kind::int_from(1), doc: "" },
        Key { name: "b", default: "true", kind: Kind::Boolean, doc: "" },
        Key { name: "c", default: "x", kind: Kind::OneOf(&["x", "y"]), doc: "" },
        Key { name: "d", default: "p", kind: Kind::ListOf(&["p", "q"]), doc: "" },
    ];

    fn read(key: &str, value: &str) -> Result<Values, ConfigError> {
        let given = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        Values::read(&[KEYS], &["e"], &given)
    }

    fn check_refused(key: &str, value: &str, message: &str) {
        assert_eq!(read(key, value).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_value_outside_its_range_is_refused_in_kafkas_words() {
        check_refused("a.ms", "0", "Invalid value 0 for configuration a.ms: Value must be at least 1");
        check_refused(
            "a.ms",
            "2147483648",
            "Invalid value 2147483648 for configuration a.ms: Value must be no more than 2147483647",
        );
        check_refused("a.ms", "soon", "Invalid value soon for configuration a.ms: Not a number");
        check_refused(
            "b",
            "1",
            "Invalid value 1 for configuration b: Expected value to be either true or false",
        );
        check_refused("c", "z", "Invalid value z for configuration c: String must be one of: x, y");
        check_refused("d", "p,r", "Invalid value p,r for configuration d: \"r\" is none of: p, q");
    }

    #[test]
    fn an_unknown_key_and_one_without_effect_are_named() {
        check_refused("f", "1", "Invalid value 1 for configuration f: Unknown configuration");
        check_refused("e", "1", "Invalid value 1 for configuration e: not modelled yet");
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let values = read("d", "q, p").unwrap();
        assert_eq!(values.list("d"), ["q", "p"]);
        assert_eq!((values.int("a.ms"), values.boolean("b"), values.text("c")), (5, true, "x"));
        assert!(values.is_given("d") && !values.is_given("c"));
    }

    #[test]
    fn common_defaults_are_kafkas() {
        let common = CommonConfig::default();
        assert_eq!(common.request_timeout_ms, 30_000);
        assert_eq!(common.retry_backoff, Backoff { initial_ms: 100, max_ms: 1000 });
        assert_eq!((common.reconnect_backoff_ms, common.reconnect_backoff_max_ms), (50, 1000));
        assert_eq!((common.metadata_max_age_ms, common.rebootstrap_trigger_ms), (300_000, 300_000));
    }
}
