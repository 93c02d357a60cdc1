//! The broker settings that the group coordinator reads (`GroupCoordinatorConfig`).
//!
//! **Invariant:** the defaults are Kafka 4.3's.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::assignor::server::ServerAssignor;
use super::modern::share::ShareGroupConfig;
use crate::kafka::config::BrokerConfig;

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
    pub share: ShareGroupConfig,
}

/// How groups with members may change their protocol (`ConsumerGroupMigrationPolicy`, R-CG8-25).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationPolicy {
    Bidirectional,
    Upgrade,
    Downgrade,
    Disabled,
}

impl MigrationPolicy {
    /// The config is checked before.
    fn of_name(name: &str) -> MigrationPolicy {
        match name {
            "bidirectional" => MigrationPolicy::Bidirectional,
            "upgrade" => MigrationPolicy::Upgrade,
            "downgrade" => MigrationPolicy::Downgrade,
            _ => MigrationPolicy::Disabled,
        }
    }

    pub fn upgrades(self) -> bool {
        matches!(self, MigrationPolicy::Bidirectional | MigrationPolicy::Upgrade)
    }

    pub fn downgrades(self) -> bool {
        matches!(self, MigrationPolicy::Bidirectional | MigrationPolicy::Downgrade)
    }
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
    /// `group.consumer.migration.policy`
    pub migration_policy: MigrationPolicy,
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
            share: ShareGroupConfig::DEFAULT,
        }
    }
}

impl ConsumerGroupConfig {
    pub fn of_broker(config: &BrokerConfig) -> ConsumerGroupConfig {
        let named = config.group_consumer_assignors.iter();
        let assignors: Rc<[ServerAssignor]> =
            named.filter_map(|name| ServerAssignor::of_name(name)).collect();
        ConsumerGroupConfig {
            session_timeout_ms: config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms: config.group_consumer_heartbeat_interval_ms,
            assignment_interval_ms: config.group_consumer_assignment_interval_ms,
            max_size: config.group_consumer_max_size,
            regex_refresh_interval_ms: config.group_consumer_regex_refresh_interval_ms,
            migration_policy: MigrationPolicy::of_name(&config.group_consumer_migration_policy),
            // An empty list would leave nobody to assign.
            assignors: if assignors.is_empty() { Rc::new(ServerAssignor::ALL) } else { assignors },
        }
    }

    /// Takes over what a group has set for itself (`GroupConfig`); the controller has checked it.
    pub fn overlay(&mut self, own: &BTreeMap<String, String>) {
        set(&mut self.session_timeout_ms, own, "consumer.session.timeout.ms");
        set(&mut self.heartbeat_interval_ms, own, "consumer.heartbeat.interval.ms");
        set(&mut self.assignment_interval_ms, own, "consumer.assignment.interval.ms");
    }
}

impl ShareGroupConfig {
    pub fn of_broker(config: &BrokerConfig) -> ShareGroupConfig {
        ShareGroupConfig {
            max_size: config.group_share_max_size,
            session_timeout_ms: config.group_share_session_timeout_ms,
            heartbeat_interval_ms: config.group_share_heartbeat_interval_ms,
            assignment_interval_ms: config.group_share_assignment_interval_ms,
            initialize_retry_interval_ms: config.group_share_initialize_retry_interval_ms,
        }
    }

    /// Takes over what a group has set for itself, which the controller has checked.
    pub fn overlay(&mut self, own: &BTreeMap<String, String>) {
        set(&mut self.session_timeout_ms, own, "share.session.timeout.ms");
        set(&mut self.heartbeat_interval_ms, own, "share.heartbeat.interval.ms");
        set(&mut self.assignment_interval_ms, own, "share.assignment.interval.ms");
    }
}

fn set(field: &mut i32, own: &BTreeMap<String, String>, key: &str) {
    let number = own.get(key).and_then(|text| text.trim().parse().ok());
    *field = number.unwrap_or(*field);
}

impl Default for ConsumerGroupConfig {
    fn default() -> Self {
        ConsumerGroupConfig {
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            assignment_interval_ms: 1_000,
            max_size: i32::MAX,
            regex_refresh_interval_ms: 600_000,
            migration_policy: MigrationPolicy::Bidirectional,
            assignors: Rc::new(ServerAssignor::ALL),
        }
    }
}
