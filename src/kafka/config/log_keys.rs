//! Configs of a broker that are the defaults of a topic's (section 1.8 of the reference, `ServerTopicConfigSynonyms`).
//!
//! **Invariant:** of several that mean the same, the first one that is given counts.

use super::topic::TOPIC_KEYS;
use super::{Key, Kind, NULL};

/// A broker config that stands for a topic config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogKey {
    pub key: Key,
    /// The topic config that it is the default of.
    pub topic_key: &'static str,
    /// What its value is multiplied by; none for one that is no number.
    factor: i64,
}

impl LogKey {
    /// The topic's value that a valid one of this key comes to.
    pub fn to_topic(&self, value: &str) -> String {
        match value.trim().parse::<i64>() {
            // Any negative time is no limit, as for log.retention.ms.
            Ok(value) if value < 0 && self.topic_key == "retention.ms" => "-1".to_owned(),
            Ok(value) if self.factor > 1 => value.saturating_mul(self.factor).to_string(),
            _ => value.to_owned(),
        }
    }

    /// Whether the topic config has an effect here.
    pub fn has_effect(&self) -> bool {
        TOPIC_KEYS.iter().any(|key| key.name == self.topic_key)
    }
}

/// The broker configs that stand for a topic config, the one that counts most first.
pub fn synonyms_of(topic_key: &str) -> impl Iterator<Item = &'static LogKey> {
    LOG_KEYS.iter().filter(move |log_key| log_key.topic_key == topic_key)
}

const fn log(name: &'static str, topic_key: &'static str, default: &'static str, kind: Kind) -> LogKey {
    LogKey {
        key: Key { name, default, kind, doc: "The default of the topics' config of the same meaning." },
        topic_key,
        factor: 1,
    }
}

const fn in_unit(factor: i64, log_key: LogKey) -> LogKey {
    LogKey { factor, ..log_key }
}

const ANY_INT: Kind = Kind::int_from(i32::MIN as i64);
const ANY_LONG: Kind = Kind::long_from(i64::MIN);
const FOREVER: &str = "9223372036854775807";
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// By topic config; those of one topic config stand in the order in which they count.
pub const LOG_KEYS: &[LogKey] = &[
    log("log.cleanup.policy", "cleanup.policy", "delete", Kind::ListOf(&["compact", "delete"])),
    log("compression.gzip.level", "compression.gzip.level", "-1", Kind::Integer { min: -1, max: 9 }),
    log("compression.lz4.level", "compression.lz4.level", "9", Kind::Integer { min: 1, max: 17 }),
    log("compression.type", "compression.type", "producer", Kind::OneOf(super::topic::COMPRESSION_TYPES)),
    log("compression.zstd.level", "compression.zstd.level", "3", Kind::Integer { min: -131_072, max: 22 }),
    log("log.cleaner.delete.retention.ms", "delete.retention.ms", "86400000", Kind::long_from(0)),
    log("log.segment.delete.delay.ms", "file.delete.delay.ms", "60000", Kind::long_from(0)),
    log("log.flush.interval.messages", "flush.messages", FOREVER, Kind::long_from(1)),
    log("log.flush.interval.ms", "flush.ms", NULL, ANY_LONG),
    log("log.flush.scheduler.interval.ms", "flush.ms", FOREVER, ANY_LONG),
    log("log.index.interval.bytes", "index.interval.bytes", "4096", Kind::int_from(0)),
    log("log.local.retention.bytes", "local.retention.bytes", "-2", Kind::long_from(-2)),
    log("log.local.retention.ms", "local.retention.ms", "-2", Kind::long_from(-2)),
    log("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms", FOREVER, Kind::long_from(1)),
    log("message.max.bytes", "max.message.bytes", "1048588", Kind::int_from(0)),
    log(
        "log.message.timestamp.after.max.ms",
        "message.timestamp.after.max.ms",
        "3600000",
        Kind::long_from(0),
    ),
    log(
        "log.message.timestamp.before.max.ms",
        "message.timestamp.before.max.ms",
        FOREVER,
        Kind::long_from(0),
    ),
    log(
        "log.message.timestamp.type",
        "message.timestamp.type",
        "CreateTime",
        Kind::OneOf(&["CreateTime", "LogAppendTime"]),
    ),
    log("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio", "0.5", Kind::Ratio),
    log("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms", "0", Kind::long_from(0)),
    log("min.insync.replicas", "min.insync.replicas", "1", Kind::int_from(1)),
    log("log.preallocate", "preallocate", "false", Kind::Boolean),
    log("log.retention.bytes", "retention.bytes", "-1", ANY_LONG),
    log("log.retention.ms", "retention.ms", NULL, ANY_LONG),
    in_unit(MINUTE_MS, log("log.retention.minutes", "retention.ms", NULL, ANY_INT)),
    in_unit(HOUR_MS, log("log.retention.hours", "retention.ms", "168", ANY_INT)),
    log("log.segment.bytes", "segment.bytes", "1073741824", Kind::int_from(1_048_576)),
    log("log.index.size.max.bytes", "segment.index.bytes", "10485760", Kind::int_from(4)),
    log("log.roll.jitter.ms", "segment.jitter.ms", NULL, ANY_LONG),
    in_unit(HOUR_MS, log("log.roll.jitter.hours", "segment.jitter.ms", "0", Kind::int_from(0))),
    log("log.roll.ms", "segment.ms", NULL, ANY_LONG),
    in_unit(HOUR_MS, log("log.roll.hours", "segment.ms", "168", Kind::int_from(1))),
    log("unclean.leader.election.enable", "unclean.leader.election.enable", "false", Kind::Boolean),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::config::{BrokerConfig, TopicConfig, topic_key};

    #[test]
    fn every_synonym_names_a_topic_config_and_its_default_is_the_topics() {
        for log_key in LOG_KEYS {
            let topic_key = topic_key(log_key.topic_key).expect("a topic config");
            if log_key.key.default != NULL {
                assert_eq!(log_key.to_topic(log_key.key.default), topic_key.default, "{}", log_key.key.name);
            }
        }
    }

    fn check(given: &[(&str, &str)], topic_key: &str, expected: &str) {
        let given = given.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let defaults = BrokerConfig::topic_defaults_of(&given);
        assert_eq!(defaults.get(topic_key).map(String::as_str), Some(expected), "{given:?}");
        TopicConfig::effective(&Default::default(), &defaults).expect("valid");
    }

    #[test]
    fn of_several_units_the_finest_counts() {
        check(&[("log.retention.hours", "1")], "retention.ms", "3600000");
        check(&[("log.retention.hours", "1"), ("log.retention.minutes", "2")], "retention.ms", "120000");
        check(&[("log.retention.minutes", "2"), ("log.retention.ms", "3")], "retention.ms", "3");
        check(&[("log.retention.minutes", "-5")], "retention.ms", "-1");
        check(&[("log.roll.hours", "2")], "segment.ms", "7200000");
        check(&[("log.flush.scheduler.interval.ms", "7")], "flush.ms", "7");
        check(&[("message.max.bytes", "7")], "max.message.bytes", "7");
    }
}
