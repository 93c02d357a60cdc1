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

const COMPRESSION_TYPES: &[&str] = if cfg!(feature = "codecs") {
    &["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
} else {
    &["producer", "uncompressed"]
};

/// Topic configs that Kafka knows and that have no effect here yet. The controller checks and keeps them.
pub const TOPIC_NOT_MODELLED: &[Key] = &[
    other("file.delete.delay.ms", "60000", Kind::long_from(0)),
    other("flush.messages", "9223372036854775807", Kind::long_from(1)),
    other("flush.ms", "9223372036854775807", Kind::long_from(0)),
    other("preallocate", "false", Kind::Boolean),
    other("segment.jitter.ms", "0", Kind::long_from(0)),
];

const fn other(name: &'static str, default: &'static str, kind: Kind) -> Key {
    Key { name, default, kind, doc: "" }
}

/// What a topic's own values, the cluster's and the defaults come to (R-LOG-53).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    pub min_insync_replicas: i32,
    pub log: LogConfig,
}

impl TopicConfig {
    /// `cluster` holds the cluster-wide values under their topic names.
    pub fn effective(
        own: &BTreeMap<String, String>,
        cluster: &BTreeMap<String, String>,
    ) -> Result<TopicConfig, ConfigError> {
        let known = |name: &String| all_keys().any(|key| key.name == name);
        let mut given: BTreeMap<String, String> =
            cluster.clone().into_iter().filter(|(k, _)| known(k)).collect();
        given.extend(own.clone());
        let values = Values::read(&[TOPIC_KEYS, TOPIC_NOT_MODELLED], &[], &given)?;
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

/// What the controller checks of a topic's configs: names and ranges.
pub fn check_topic_config(own: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    match own.keys().find(|name| all_keys().all(|key| key.name != **name)) {
        Some(name) => Err(ConfigError::new(name, &own[name], "Unknown topic config name")),
        None => TopicConfig::effective(own, &BTreeMap::new()).map(|_| ()),
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

    #[test]
    fn an_unknown_name_or_a_value_out_of_range_is_refused() {
        assert!(check_topic_config(&map(&[("min.insync.replica", "2")])).is_err());
        assert!(check_topic_config(&map(&[("min.insync.replicas", "0")])).is_err());
        assert!(check_topic_config(&map(&[("segment.bytes", "1024")])).is_err(), "R-LOG-13");
        assert!(check_topic_config(&map(&[("cleanup.policy", "compact,delete")])).is_ok());
        for ratio in ["1.1", "-0.1", ".", "half", "0.5.5"] {
            assert!(check_topic_config(&map(&[("min.cleanable.dirty.ratio", ratio)])).is_err(), "{ratio}");
        }
        for (ratio, ppm) in [("0.01", 10_000), (".5", 500_000), ("1", 1_000_000), ("0.12345678", 123_456)] {
            let config = TopicConfig::effective(&map(&[("min.cleanable.dirty.ratio", ratio)]), &map(&[]));
            assert_eq!(config.expect("valid").log.min_cleanable_dirty_ratio_ppm, ppm);
        }
    }
}
