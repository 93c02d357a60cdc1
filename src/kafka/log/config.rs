//! What a topic's configuration means to its logs (Kafka's `LogConfig`, section 1.8 of the reference).
//!
//! **Invariant:** the default is Kafka's.

use crate::kafka::record::Compression;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `max.message.bytes`: of a batch with its header.
    pub max_message_bytes: i32,
    /// `message.timestamp.before.max.ms`
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`
    pub timestamp_after_max_ms: i64,
    /// `message.timestamp.type=LogAppendTime`
    pub log_append_time: bool,
    /// `cleanup.policy` contains `compact`.
    pub compacted: bool,
    /// `cleanup.policy` contains `delete`.
    pub deletes: bool,
    /// `compression.type`; `None` for `producer`: a batch stays as it was sent.
    pub compression: Option<Compression>,
    /// `segment.bytes`, or `internal.segment.bytes`
    pub segment_bytes: i32,
    /// `segment.ms`
    pub segment_ms: i64,
    /// `segment.index.bytes`
    pub segment_index_bytes: i32,
    /// `index.interval.bytes`
    pub index_interval_bytes: i32,
    /// `retention.bytes` of a partition; below 0 there is no limit.
    pub retention_bytes: i64,
    /// `retention.ms`; below 0 there is no limit.
    pub retention_ms: i64,
    /// `delete.retention.ms`: how long a tombstone stays after the first cleaning that met it.
    pub delete_retention_ms: i64,
    /// `min.cleanable.dirty.ratio` in millionths
    pub min_cleanable_dirty_ratio_ppm: i64,
    /// `min.compaction.lag.ms`
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`
    pub max_compaction_lag_ms: i64,
    /// `flush.messages`: so many offsets that are not on the disk make the log flush.
    pub flush_messages: i64,
    /// `flush.ms`: the flusher takes a log that was last flushed so long ago.
    pub flush_ms: i64,
    /// `producer.id.expiration.ms` of the broker
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            max_message_bytes: 1_048_588,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            log_append_time: false,
            compacted: false,
            deletes: true,
            compression: None,
            segment_bytes: 1_073_741_824,
            segment_ms: 604_800_000,
            segment_index_bytes: 10_485_760,
            index_interval_bytes: 4096,
            retention_bytes: -1,
            retention_ms: 604_800_000,
            delete_retention_ms: 86_400_000,
            min_cleanable_dirty_ratio_ppm: 500_000,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            producer_id_expiration_ms: 86_400_000,
        }
    }
}

impl LogConfig {
    /// After how long a segment is rolled (R-LOG-10).
    pub fn max_segment_ms(&self) -> i64 {
        if self.compacted { self.segment_ms.min(self.max_compaction_lag_ms) } else { self.segment_ms }
    }
}
