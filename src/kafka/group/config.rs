//! The broker settings that the group coordinator reads (`GroupCoordinatorConfig`).
//!
//! **Invariant:** the defaults are Kafka 4.3's.

use std::rc::Rc;

use super::assignor::server::ServerAssignor;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i64,
    /// `group.min.session.timeout.ms`
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout_ms: i32,
    /// `group.max.size`
    pub max_size: i32,
    /// Time that a new member may stay parked in the join phase (internal to Kafka).
    pub new_member_join_timeout_ms: i64,
    /// `offsets.topic.num.partitions`
    pub offsets_topic_num_partitions: i32,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_bytes: i32,
    /// `offsets.commit.timeout.ms`: time that an answer waits for its records to be below the high watermark.
    pub offsets_commit_timeout_ms: i64,
    /// `offsets.retention.minutes`, in milliseconds
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    pub consumer: ConsumerGroupConfig,
}

/// `group.consumer.*`: groups of the newer protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerGroupConfig {
    /// `group.consumer.session.timeout.ms`
    pub session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.assignment.interval.ms`: time between two target assignments (R-CG8-8).
    pub assignment_interval_ms: i32,
    /// `group.consumer.max.size`
    pub max_size: i32,
    /// `group.consumer.regex.refresh.interval.ms`
    pub regex_refresh_interval_ms: i64,
    /// `group.consumer.assignors`; the first is the default.
    pub assignors: Rc<[ServerAssignor]>,
}

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            initial_rebalance_delay_ms: 3_000,
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            max_size: i32::MAX,
            new_member_join_timeout_ms: 300_000,
            offsets_topic_num_partitions: 50,
            offset_metadata_max_bytes: 4_096,
            offsets_commit_timeout_ms: 5_000,
            offsets_retention_ms: 7 * 24 * 3_600_000,
            offsets_retention_check_interval_ms: 600_000,
            consumer: ConsumerGroupConfig::default(),
        }
    }
}

impl Default for ConsumerGroupConfig {
    fn default() -> Self {
        ConsumerGroupConfig {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            assignment_interval_ms: 1_000,
            max_size: i32::MAX,
            regex_refresh_interval_ms: 600_000,
            assignors: Rc::new(ServerAssignor::ALL),
        }
    }
}
