//! Configs of a topic (section 1.8 of the reference, `TopicConfig`, `LogConfig`).

use std::collections::BTreeMap;

use super::{ConfigError, Key, Kind, Values};
use crate::kafka::log::LogConfig;
use crate::kafka::record::Compression;

/// The topic configs that have their effect here.
pub const TOPIC_KEYS: &[Key] = &[
    Key {
        name: "min.insync.replicas",
        default: "1",
        kind: Kind::int_from(1),
        doc: "With fewer replicas in sync, acks=all writes are refused and the high watermark stands still.",
    },
    Key {
        name: "max.message.bytes",
        default: "1048588",
        kind: Kind::int_from(0),
        doc: "The largest batch the leader takes, in bytes with its header.",
    },
    Key {
        name: "message.timestamp.type",
        default: "CreateTime",
        kind: Kind::OneOf(&["CreateTime", "LogAppendTime"]),
        doc: "Whether a record keeps the producer's timestamp or gets the leader's.",
    },
    Key {
        name: "message.timestamp.before.max.ms",
        default: "9223372036854775807",
        kind: Kind::long_from(0),
        doc: "How far a record's timestamp may lie in the past.",
    },
    Key {
        name: "message.timestamp.after.max.ms",
        default: "3600000",
        kind: Kind::long_from(0),
        doc: "How far a record's timestamp may lie in the future.",
    },
    Key {
        name: "unclean.leader.election.enable",
        default: "false",
        kind: Kind::Boolean,
        doc: "Whether rather than none a replica leads that may lack committed records.",
    },
    Key {
        name: "compression.type",
        default: "producer",
        kind: Kind::OneOf(COMPRESSION_TYPES),
        doc: "How the leader stores batches: as the producer compressed them, or in this way.",
    },
    Key {
        name: "segment.bytes",
        default: "1073741824",
        kind: Kind::int_from(1_048_576),
        doc: "A segment that would grow beyond it is closed and a new one is started.",
    },
    Key {
        name: INTERNAL_SEGMENT_BYTES,
        default: "0",
        kind: Kind::int_from(0),
        doc: "In place of segment.bytes, without its lower bound; 0 for none. Kafka keeps it for its own tests.",
    },
    Key {
        name: "segment.ms",
        default: "604800000",
        kind: Kind::long_from(1),
        doc: "After this time by the records' clock a write starts a new segment.",
    },
    Key {
        name: "segment.index.bytes",
        default: "10485760",
        kind: Kind::int_from(4),
        doc: "A segment whose index is full is closed.",
    },
    Key {
        name: "index.interval.bytes",
        default: "4096",
        kind: Kind::int_from(0),
        doc: "So many bytes of a segment lie between two entries of its index.",
    },
    Key {
        name: "cleanup.policy",
        default: "delete",
        kind: Kind::ListOf(&["delete", "compact"]),
        doc: "What becomes of old records: deleted by age and size, or all but the last of each key.",
    },
    Key {
        name: "retention.bytes",
        default: "-1",
        kind: Kind::long_from(i64::MIN),
        doc: "A partition that is larger loses its oldest segments; -1 for no limit.",
    },
    Key {
        name: "retention.ms",
        default: "604800000",
        kind: Kind::long_from(-1),
        doc: "A segment whose newest record is older is deleted; -1 for no limit.",
    },
    Key {
        name: "delete.retention.ms",
        default: "86400000",
        kind: Kind::long_from(0),
        doc: "How long a tombstone stays after the first cleaning that met it.",
    },
    Key {
        name: "flush.messages",
        default: "9223372036854775807",
        kind: Kind::long_from(1),
        doc: "After so many records a log is written to the disk itself; by default the system does that when it likes.",
    },
    Key {
        name: "flush.ms",
        default: "9223372036854775807",
        kind: Kind::long_from(0),
        doc: "The flusher writes a log to the disk that it has not written for so long (log.flush.scheduler.interval.ms).",
    },
    Key {
        name: "min.cleanable.dirty.ratio",
        default: "0.5",
        kind: Kind::Ratio,
        doc: "A log is compacted when more than this share of its closed segments is new.",
    },
    Key {
        name: "min.compaction.lag.ms",
        default: "0",
        kind: Kind::long_from(0),
        doc: "A segment with a younger record is not compacted.",
    },
    Key {
        name: "max.compaction.lag.ms",
        default: "9223372036854775807",
        kind: Kind::long_from(1),
        doc: "A closed segment that is older is compacted, however little of the log is new.",
    },
];

const INTERNAL_SEGMENT_BYTES: &str = "internal.segment.bytes";

pub(super) const COMPRESSION_TYPES: &[&str] = if cfg!(feature = "codecs") {
    &["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
} else {
    &["producer", "uncompressed"]
};

/// Topic configs that Kafka knows and that have no effect here yet. The controller checks and keeps them.
pub const TOPIC_NOT_MODELLED: &[Key] = &[
    Key::plain("compression.gzip.level", "-1", Kind::Integer { min: -1, max: 9 }),
    Key::plain("compression.lz4.level", "9", Kind::Integer { min: 1, max: 17 }),
    Key::plain("compression.zstd.level", "3", Kind::Integer { min: -131_072, max: 22 }),
    Key::plain("file.delete.delay.ms", "60000", Kind::long_from(0)),
    Key::plain("follower.replication.throttled.replicas", "", Kind::Replicas),
    Key::plain("leader.replication.throttled.replicas", "", Kind::Replicas),
    Key::plain("local.retention.bytes", "-2", Kind::long_from(-2)),
    Key::plain("local.retention.ms", "-2", Kind::long_from(-2)),
    Key::plain("preallocate", "false", Kind::Boolean),
    Key::plain("remote.log.copy.disable", "false", Kind::Boolean),
    Key::plain("remote.log.delete.on.disable", "false", Kind::Boolean),
    Key::plain("remote.storage.enable", "false", Kind::Boolean),
    Key::plain("segment.jitter.ms", "0", Kind::long_from(0)),
];

/// What a topic's own values, the cluster's and the defaults come to (R-LOG-53).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    pub min_insync_replicas: i32,
    pub log: LogConfig,
}

impl TopicConfig {
    /// `broker` holds what the broker's own configs say, under the topic's names ([`BrokerConfig::topic_defaults`]).
    ///
    /// [`BrokerConfig::topic_defaults`]: super::BrokerConfig::topic_defaults
    ///
    /// # Errors
    ///
    /// An unknown name, a value out of range, or two that contradict each other.
    pub fn effective(
        own: &BTreeMap<String, String>,
        broker: &BTreeMap<String, String>,
    ) -> Result<TopicConfig, ConfigError> {
        let mut given = broker.clone();
        given.extend(own.clone());
        let values = Values::read(&[TOPIC_KEYS, TOPIC_NOT_MODELLED], &[], &given)?;
        let (min_lag, max_lag) =
            (values.integer("min.compaction.lag.ms"), values.integer("max.compaction.lag.ms"));
        if min_lag > max_lag {
            let reason = format!("it is more than max.compaction.lag.ms, which is {max_lag}");
            return Err(ConfigError::new("min.compaction.lag.ms", min_lag, reason));
        }
        Ok(TopicConfig { min_insync_replicas: values.int("min.insync.replicas"), log: log_config(&values) })
    }
}

fn log_config(values: &Values) -> LogConfig {
    let cleans = |policy: &str| values.list("cleanup.policy").iter().any(|each| each == policy);
    LogConfig {
        max_message_bytes: values.int("max.message.bytes"),
        timestamp_before_max_ms: values.integer("message.timestamp.before.max.ms"),
        timestamp_after_max_ms: values.integer("message.timestamp.after.max.ms"),
        log_append_time: values.text("message.timestamp.type") == "LogAppendTime",
        compacted: cleans("compact"),
        deletes: cleans("delete"),
        compression: match values.text("compression.type") {
            "producer" => None,
            name => Some(Compression::of_name(name).unwrap_or_default()),
        },
        segment_bytes: match values.int(INTERNAL_SEGMENT_BYTES) {
            0 => values.int("segment.bytes"),
            segment_bytes => segment_bytes,
        },
        segment_ms: values.integer("segment.ms"),
        segment_index_bytes: values.int("segment.index.bytes"),
        index_interval_bytes: values.int("index.interval.bytes"),
        retention_bytes: values.integer("retention.bytes"),
        retention_ms: values.integer("retention.ms"),
        delete_retention_ms: values.integer("delete.retention.ms"),
        min_cleanable_dirty_ratio_ppm: values.integer("min.cleanable.dirty.ratio"),
        flush_messages: values.integer("flush.messages"),
        flush_ms: values.integer("flush.ms"),
        min_compaction_lag_ms: values.integer("min.compaction.lag.ms"),
        max_compaction_lag_ms: values.integer("max.compaction.lag.ms"),
        ..LogConfig::default()
    }
}

impl Default for TopicConfig {
    fn default() -> Self {
        TopicConfig::effective(&BTreeMap::new(), &BTreeMap::new()).expect("the defaults are valid")
    }
}

fn all_keys() -> impl Iterator<Item = &'static Key> {
    TOPIC_KEYS.iter().chain(TOPIC_NOT_MODELLED)
}

/// The topic config of this name, whether it has an effect here or not.
pub fn topic_key(name: &str) -> Option<&'static Key> {
    all_keys().find(|key| key.name == name)
}

/// What the controller checks of a topic's configs: names, ranges, and how they fit to each other and to what the
/// broker's configs say (`LogConfig.validate`).
pub fn check_topic_config(
    own: &BTreeMap<String, String>,
    broker: &BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    match own.keys().find(|name| topic_key(name).is_none()) {
        Some(name) => Err(ConfigError::new(name, &own[name], "Unknown topic config name")),
        None => TopicConfig::effective(own, broker).map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    #[test]
    fn a_topics_own_value_stands_above_the_clusters_and_that_above_the_default() {
        let min_isr = |own: &[(&str, &str)], cluster: &[(&str, &str)]| {
            TopicConfig::effective(&map(own), &map(cluster)).expect("valid").min_insync_replicas
        };
        assert_eq!(min_isr(&[], &[]), 1, "R-LOG-53");
        assert_eq!(min_isr(&[], &[("min.insync.replicas", "2")]), 2);
        assert_eq!(min_isr(&[("min.insync.replicas", "3")], &[("min.insync.replicas", "2")]), 3);
    }

    #[test]
    fn the_defaults_are_those_of_a_log_and_small_segments_need_the_internal_name_r_log_13() {
        assert_eq!(TopicConfig::default().log, LogConfig::default());
        let small = TopicConfig::effective(&map(&[("internal.segment.bytes", "300")]), &map(&[]));
        assert_eq!(small.expect("valid").log.segment_bytes, 300);
    }

    fn check(own: &[(&str, &str)]) -> bool {
        check_topic_config(&map(own), &map(&[])).is_ok()
    }

    #[test]
    fn an_unknown_name_or_a_value_out_of_range_is_refused() {
        assert!(!check(&[("min.insync.replica", "2")]));
        assert!(!check(&[("min.insync.replicas", "0")]));
        assert!(!check(&[("segment.bytes", "1024")]), "R-LOG-13");
        assert!(check(&[("cleanup.policy", "compact,delete")]));
        assert!(check(&[("cleanup.policy", "")]), "neither");
        assert!(!check(&[("cleanup.policy", "delete,delete")]));
        assert!(check(&[("min.cleanable.dirty.ratio", "0.01")]));
        assert!(!check(&[("min.cleanable.dirty.ratio", "1.1")]));
        assert!(!check(&[("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1")]));
        assert!(check(&[("leader.replication.throttled.replicas", "0:1,1:2")]));
        assert!(check(&[("leader.replication.throttled.replicas", "*")]));
        assert!(!check(&[("leader.replication.throttled.replicas", "0:1,*")]));
        assert!(!check(&[("leader.replication.throttled.replicas", "0-1")]));
    }

    #[test]
    fn a_ratio_is_kept_in_millionths() {
        let config = TopicConfig::effective(&map(&[("min.cleanable.dirty.ratio", "0.25")]), &map(&[]));
        assert_eq!(config.expect("valid").log.min_cleanable_dirty_ratio_ppm, 250_000);
    }
}
