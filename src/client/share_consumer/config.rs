//! A share consumer's configs (Kafka's `ShareConsumerConfig`, R-SHARE-13).
//!
//! **Invariant:** a config that is accepted has its effect; what would have none is refused with the reason.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::client::config::{COMMON_KEYS, COMMON_NOT_MODELLED, CommonConfig, ConfigError, Key, Kind, Values};
use crate::client::consumer::config::{
    ACKNOWLEDGEMENT_MODE, ACQUIRE_MODE, FETCH_KEYS, INSTANCE_ID, KEY_DESERIALIZER, NOT_MODELLED,
    VALUE_DESERIALIZER,
};

/// The keys that only share consumers have.
pub const KEYS: &[Key] = &[
    Key {
        name: ACKNOWLEDGEMENT_MODE,
        default: IMPLICIT,
        kind: Kind::Text,
        doc: "implicit: the next poll() or commit accepts what the last one returned; explicit: the application says \
              of each record what became of it.",
    },
    Key {
        name: ACQUIRE_MODE,
        default: BATCH_OPTIMIZED,
        kind: Kind::Text,
        doc: "batch_optimized: poll() may return more than max.poll.records, to the end of a batch; record_limit: \
              never more, from one broker at a time.",
    },
];

const IMPLICIT: &str = "implicit";
const EXPLICIT: &str = "explicit";
const BATCH_OPTIMIZED: &str = "batch_optimized";
const RECORD_LIMIT: &str = "record_limit";

/// What Kafka refuses with a share group, in its order.
const UNSUPPORTED: [&str; 10] = [
    "auto.offset.reset",
    "enable.auto.commit",
    INSTANCE_ID,
    "isolation.level",
    "partition.assignment.strategy",
    "interceptor.classes",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.protocol",
    "group.remote.assignor",
];

/// Consumers' keys that Kafka takes from a share consumer too, and that do nothing there.
const WITHOUT_EFFECT: [&str; 5] = [
    "auto.commit.interval.ms",
    "exclude.internal.topics",
    "max.partition.fetch.bytes",
    KEY_DESERIALIZER,
    VALUE_DESERIALIZER,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareConsumerConfig {
    pub common: CommonConfig,
    /// share.acknowledgement.mode=explicit.
    pub is_explicit: bool,
    /// share.acquire.mode=record_limit.
    pub is_record_limit: bool,
    pub max_poll_interval_ms: i32,
    pub client_rack: Rc<str>,
    pub fetch_min_bytes: i32,
    pub fetch_max_wait_ms: i32,
    pub fetch_max_bytes: i32,
    pub max_poll_records: i32,
    pub check_crcs: bool,
    pub default_api_timeout_ms: i64,
    pub allow_auto_create_topics: bool,
}

impl ShareConsumerConfig {
    /// Reads what a person gave under Kafka's names.
    pub fn read(given: &BTreeMap<String, String>) -> Result<ShareConsumerConfig, ConfigError> {
        refuse_unsupported(given)?;
        let not_modelled = [COMMON_NOT_MODELLED, NOT_MODELLED, &WITHOUT_EFFECT].concat();
        let values = Values::read(&[COMMON_KEYS, FETCH_KEYS, KEYS], &not_modelled, given)?;
        Ok(ShareConsumerConfig {
            common: CommonConfig::from_values(&values),
            is_explicit: one_of_two(&values, ACKNOWLEDGEMENT_MODE, [IMPLICIT, EXPLICIT])?,
            is_record_limit: one_of_two(&values, ACQUIRE_MODE, [BATCH_OPTIMIZED, RECORD_LIMIT])?,
            max_poll_interval_ms: values.int("max.poll.interval.ms"),
            client_rack: values.text("client.rack").into(),
            fetch_min_bytes: values.int("fetch.min.bytes"),
            fetch_max_wait_ms: values.int("fetch.max.wait.ms"),
            fetch_max_bytes: values.int("fetch.max.bytes"),
            max_poll_records: values.int("max.poll.records"),
            check_crcs: values.boolean("check.crcs"),
            default_api_timeout_ms: values.integer("default.api.timeout.ms"),
            allow_auto_create_topics: values.boolean("allow.auto.create.topics"),
        })
    }
}

fn refuse_unsupported(given: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let found: Vec<&str> = UNSUPPORTED.into_iter().filter(|key| given.contains_key(*key)).collect();
    if let Some(first) = found.first() {
        let reason = format!("{} cannot be set when using a share group.", found.join(", "));
        return Err(ConfigError::new(first, &given[*first], reason));
    }
    match given.get("group.id") {
        Some(id) => Err(ConfigError::new(
            "group.id",
            id,
            "a share consumer's group is given with its name and topics",
        )),
        None => Ok(()),
    }
}

/// True for the second of two names, which are read in any case.
fn one_of_two(values: &Values, key: &str, names: [&str; 2]) -> Result<bool, ConfigError> {
    let text = values.text(key);
    match names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        Some(at) => Ok(at == 1),
        None => {
            let [first, second] = names;
            let reason = format!(
                "Invalid value `{text}` for configuration {key}. The value must either be '{first}' or '{second}'."
            );
            Err(ConfigError::new(key, text, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<ShareConsumerConfig, ConfigError> {
        let given = given.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        ShareConsumerConfig::read(&given.collect())
    }

    #[test]
    fn defaults_are_kafkas_r_share_13() {
        let config = read(&[]).unwrap();
        assert!(!config.is_explicit && !config.is_record_limit && config.check_crcs);
        assert_eq!((config.max_poll_records, config.max_poll_interval_ms), (500, 300_000));
        assert_eq!(
            (config.fetch_min_bytes, config.fetch_max_wait_ms, config.fetch_max_bytes),
            (1, 500, 52_428_800)
        );
    }

    #[test]
    fn modes_are_read_in_any_case_r_share_13() {
        let config = read(&[(ACKNOWLEDGEMENT_MODE, "EXPLICIT"), (ACQUIRE_MODE, "Record_Limit")]).unwrap();
        assert!(config.is_explicit && config.is_record_limit);
        let error = read(&[(ACKNOWLEDGEMENT_MODE, "auto")]).unwrap_err();
        let reason = "Invalid value `auto` for configuration share.acknowledgement.mode. The value must either be \
                      'implicit' or 'explicit'.";
        assert_eq!(error.reason, reason);
    }

    #[test]
    fn what_a_share_group_settles_otherwise_is_refused_in_kafkas_words() {
        let error = read(&[("session.timeout.ms", "9000"), ("auto.offset.reset", "earliest")]).unwrap_err();
        assert_eq!(
            error.reason,
            "auto.offset.reset, session.timeout.ms cannot be set when using a share group."
        );
        assert!(read(&[("max.partition.fetch.bytes", "1")]).unwrap_err().reason.starts_with("not modelled"));
    }
}
