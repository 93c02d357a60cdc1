//! Configs of brokers and controllers, the same on every node (`ReplicationConfigs`, `KRaftConfigs`,
//! `GroupCoordinatorConfig`, `ServerConfigs`).

use std::collections::BTreeMap;

use super::{ConfigError, Key, Kind, Values};

/// The broker configs that have their effect here.
pub const BROKER_KEYS: &[Key] = &[
    Key {
        name: "auto.create.topics.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether a client that asks for an unknown topic has it created.",
    },
    Key {
        name: "auto.leader.rebalance.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether leaders move back to the first replica of their partition by themselves.",
    },
    Key {
        name: "broker.heartbeat.interval.ms",
        default: "2000",
        kind: Kind::int_from(1),
        doc: "How often a broker tells the controller that it lives.",
    },
    Key {
        name: "broker.session.timeout.ms",
        default: "9000",
        kind: Kind::int_from(1),
        doc: "A broker that is silent for longer is fenced.",
    },
    Key {
        name: "controlled.shutdown.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether a broker that is stopped gives its leaderships away first.",
    },
    Key {
        name: "controller.quorum.election.backoff.max.ms",
        default: "1000",
        kind: Kind::int_from(0),
        doc: "The longest wait of a voter that lets better ones stand for election first.",
    },
    Key {
        name: "controller.quorum.election.timeout.ms",
        default: "1000",
        kind: Kind::int_from(1),
        doc: "How long an election may take, and up to twice that.",
    },
    Key {
        name: "controller.quorum.fetch.timeout.ms",
        default: "2000",
        kind: Kind::int_from(1),
        doc: "A voter that hears nothing of the leader for longer wants an election.",
    },
    Key {
        name: "controller.quorum.request.timeout.ms",
        default: "2000",
        kind: Kind::int_from(1),
        doc: "How long a controller waits for another's answer.",
    },
    Key {
        name: "controller.quorum.retry.backoff.ms",
        default: "20",
        kind: Kind::int_from(1),
        doc: "How long a replica of the metadata log waits after an answer that did not help.",
    },
    Key {
        name: "default.replication.factor",
        default: "1",
        kind: Kind::int_from(1),
        doc: "Replicas of a topic that is created without saying how many.",
    },
    Key {
        name: "delete.topic.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether topics can be deleted.",
    },
    Key {
        name: "group.initial.rebalance.delay.ms",
        default: "3000",
        kind: Kind::int_from(0),
        doc: "How long an empty group waits for further members before its first rebalance ends.",
    },
    Key {
        name: "group.max.session.timeout.ms",
        default: "1800000",
        kind: Kind::int_from(1),
        doc: "The longest session.timeout.ms a member may ask for.",
    },
    Key {
        name: "group.max.size",
        default: "2147483647",
        kind: Kind::int_from(1),
        doc: "The most members a group may have.",
    },
    Key {
        name: "group.min.session.timeout.ms",
        default: "6000",
        kind: Kind::int_from(1),
        doc: "The shortest session.timeout.ms a member may ask for.",
    },
    Key {
        name: "leader.imbalance.check.interval.seconds",
        default: "300",
        kind: Kind::long_from(1),
        doc: "How often the controller looks for leaders that are not the first replica of their partition.",
    },
    Key {
        name: "log.cleaner.backoff.ms",
        default: "15000",
        kind: Kind::long_from(0),
        doc: "How long the cleaner rests when no compacted log is dirty enough.",
    },
    Key {
        name: "log.cleaner.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether compacted logs are cleaned.",
    },
    Key {
        name: "log.initial.task.delay.ms",
        default: "30000",
        kind: Kind::long_from(0),
        doc: "How long after its start a broker looks at its logs for the first time.",
    },
    Key {
        name: "log.retention.check.interval.ms",
        default: "300000",
        kind: Kind::long_from(1),
        doc: "How often a broker looks for segments that are to be deleted.",
    },
    Key {
        name: "min.insync.replicas",
        default: "1",
        kind: Kind::int_from(1),
        doc: "The cluster's value for topics that set none of their own.",
    },
    Key {
        name: "num.partitions",
        default: "1",
        kind: Kind::int_from(1),
        doc: "Partitions of a topic that is created without saying how many.",
    },
    Key {
        name: "offset.metadata.max.bytes",
        default: "4096",
        kind: Kind::int_from(0),
        doc: "The longest text that may go with a committed offset.",
    },
    Key {
        name: "offsets.commit.timeout.ms",
        default: "5000",
        kind: Kind::int_from(1),
        doc: "How long a group's write may wait for its replicas.",
    },
    Key {
        name: "offsets.topic.num.partitions",
        default: "50",
        kind: Kind::int_from(1),
        doc: "Partitions of __consumer_offsets.",
    },
    Key {
        name: "offsets.topic.replication.factor",
        default: "3",
        kind: Kind::Integer { min: 1, max: i16::MAX as i64 },
        doc: "Replicas of __consumer_offsets.",
    },
    Key {
        name: "producer.id.expiration.check.interval.ms",
        default: "600000",
        kind: Kind::int_from(1),
        doc: "How often a broker looks for producers that it may forget.",
    },
    Key {
        name: "producer.id.expiration.ms",
        default: "86400000",
        kind: Kind::int_from(1),
        doc: "A partition forgets an idempotent producer that was silent for longer.",
    },
    Key {
        name: "replica.fetch.backoff.ms",
        default: "1000",
        kind: Kind::int_from(0),
        doc: "How long a follower waits after a failed fetch.",
    },
    Key {
        name: "replica.fetch.max.bytes",
        default: "1048576",
        kind: Kind::int_from(0),
        doc: "How much a follower asks for of one partition.",
    },
    Key {
        name: "replica.fetch.response.max.bytes",
        default: "10485760",
        kind: Kind::int_from(0),
        doc: "How much a follower asks for in one answer.",
    },
    Key {
        name: "replica.fetch.wait.max.ms",
        default: "500",
        kind: Kind::int_from(0),
        doc: "How long a leader may hold a follower's fetch that finds nothing.",
    },
    Key {
        name: "replica.high.watermark.checkpoint.interval.ms",
        default: "5000",
        kind: Kind::long_from(1),
        doc: "How often the high watermark is written to disk.",
    },
    Key {
        name: "replica.lag.time.max.ms",
        default: "30000",
        kind: Kind::long_from(1),
        doc: "A follower that has not caught up for longer leaves the in-sync set.",
    },
    Key {
        name: "request.timeout.ms",
        default: "30000",
        kind: Kind::int_from(1),
        doc: "How long a broker waits for an answer of another node.",
    },
    Key {
        name: "unclean.leader.election.enable",
        default: "false",
        kind: Kind::Boolean,
        doc: "The cluster's value for topics that set none of their own.",
    },
    Key {
        name: "unclean.leader.election.interval.ms",
        default: "300000",
        kind: Kind::long_from(1),
        doc: "How often the controller looks for partitions without a leader that may have an unclean one.",
    },
];

/// Broker configs that Kafka knows and that have no effect here yet.
pub const BROKER_NOT_MODELLED: &[&str] = &[
    "compression.type",
    "fetch.max.bytes",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "message.max.bytes",
    "num.replica.fetchers",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.segment.bytes",
    "replica.selector.class",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
];

/// `controller.quorum.*` (`QuorumConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumConfig {
    pub election_backoff_max_ms: i64,
    pub election_timeout_ms: i64,
    pub fetch_timeout_ms: i64,
    pub request_timeout_ms: i64,
    pub retry_backoff_ms: i64,
}

/// Broker configs with their types; one value for the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfig {
    pub auto_create_topics: bool,
    pub auto_leader_rebalance: bool,
    pub controlled_shutdown: bool,
    pub delete_topics: bool,
    pub leader_imbalance_check_interval_ms: i64,
    pub unclean_leader_election: bool,
    pub unclean_leader_election_interval_ms: i64,
    pub heartbeat_interval_ms: i64,
    pub session_timeout_ms: i64,
    pub quorum: QuorumConfig,
    pub default_replication_factor: i16,
    pub group_initial_rebalance_delay_ms: i64,
    pub group_max_session_timeout_ms: i64,
    pub group_max_size: i32,
    pub group_min_session_timeout_ms: i64,
    pub log_cleaner_backoff_ms: i64,
    pub log_cleaner_enable: bool,
    pub log_initial_task_delay_ms: i64,
    pub log_retention_check_interval_ms: i64,
    pub min_insync_replicas: i32,
    pub num_partitions: i32,
    pub offset_metadata_max_bytes: i32,
    pub offsets_commit_timeout_ms: i64,
    pub offsets_topic_num_partitions: i32,
    pub offsets_topic_replication_factor: i16,
    pub producer_id_expiration_check_interval_ms: i64,
    pub producer_id_expiration_ms: i64,
    pub replica_fetch_backoff_ms: i64,
    pub replica_fetch_max_bytes: i32,
    pub replica_fetch_response_max_bytes: i32,
    pub replica_fetch_wait_max_ms: i32,
    pub replica_high_watermark_checkpoint_interval_ms: i64,
    pub replica_lag_time_max_ms: i64,
    pub request_timeout_ms: i64,
}

impl BrokerConfig {
    pub fn read(given: &BTreeMap<String, String>) -> Result<BrokerConfig, ConfigError> {
        let v = Values::read(&[BROKER_KEYS], BROKER_NOT_MODELLED, given)?;
        let replication_factor = v.int("default.replication.factor");
        let default_replication_factor = i16::try_from(replication_factor).map_err(|_| {
            ConfigError::new(
                "default.replication.factor",
                replication_factor,
                "Value must be no more than 32767",
            )
        })?;
        Ok(BrokerConfig {
            auto_create_topics: v.boolean("auto.create.topics.enable"),
            auto_leader_rebalance: v.boolean("auto.leader.rebalance.enable"),
            controlled_shutdown: v.boolean("controlled.shutdown.enable"),
            delete_topics: v.boolean("delete.topic.enable"),
            leader_imbalance_check_interval_ms: v
                .integer("leader.imbalance.check.interval.seconds")
                .saturating_mul(1000),
            unclean_leader_election: v.boolean("unclean.leader.election.enable"),
            unclean_leader_election_interval_ms: v.integer("unclean.leader.election.interval.ms"),
            heartbeat_interval_ms: v.integer("broker.heartbeat.interval.ms"),
            session_timeout_ms: v.integer("broker.session.timeout.ms"),
            quorum: QuorumConfig {
                election_backoff_max_ms: v.integer("controller.quorum.election.backoff.max.ms"),
                election_timeout_ms: v.integer("controller.quorum.election.timeout.ms"),
                fetch_timeout_ms: v.integer("controller.quorum.fetch.timeout.ms"),
                request_timeout_ms: v.integer("controller.quorum.request.timeout.ms"),
                retry_backoff_ms: v.integer("controller.quorum.retry.backoff.ms"),
            },
            default_replication_factor,
            group_initial_rebalance_delay_ms: v.integer("group.initial.rebalance.delay.ms"),
            group_max_session_timeout_ms: v.integer("group.max.session.timeout.ms"),
            group_max_size: v.int("group.max.size"),
            group_min_session_timeout_ms: v.integer("group.min.session.timeout.ms"),
            log_cleaner_backoff_ms: v.integer("log.cleaner.backoff.ms"),
            log_cleaner_enable: v.boolean("log.cleaner.enable"),
            log_initial_task_delay_ms: v.integer("log.initial.task.delay.ms"),
            log_retention_check_interval_ms: v.integer("log.retention.check.interval.ms"),
            min_insync_replicas: v.int("min.insync.replicas"),
            num_partitions: v.int("num.partitions"),
            offset_metadata_max_bytes: v.int("offset.metadata.max.bytes"),
            offsets_commit_timeout_ms: v.integer("offsets.commit.timeout.ms"),
            offsets_topic_num_partitions: v.int("offsets.topic.num.partitions"),
            offsets_topic_replication_factor: v.int("offsets.topic.replication.factor") as i16,
            producer_id_expiration_check_interval_ms: v.integer("producer.id.expiration.check.interval.ms"),
            producer_id_expiration_ms: v.integer("producer.id.expiration.ms"),
            replica_fetch_backoff_ms: v.integer("replica.fetch.backoff.ms"),
            replica_fetch_max_bytes: v.int("replica.fetch.max.bytes"),
            replica_fetch_response_max_bytes: v.int("replica.fetch.response.max.bytes"),
            replica_fetch_wait_max_ms: v.int("replica.fetch.wait.max.ms"),
            replica_high_watermark_checkpoint_interval_ms: v
                .integer("replica.high.watermark.checkpoint.interval.ms"),
            replica_lag_time_max_ms: v.integer("replica.lag.time.max.ms"),
            request_timeout_ms: v.integer("request.timeout.ms"),
        })
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        BrokerConfig::read(&BTreeMap::new()).expect("the defaults are valid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_kafkas() {
        let config = BrokerConfig::default();
        assert_eq!((config.heartbeat_interval_ms, config.session_timeout_ms), (2000, 9000), "R-REPL-52");
        assert_eq!(config.replica_lag_time_max_ms, 30_000, "R-REPL-19");
        assert_eq!(config.offsets_topic_num_partitions, 50, "R-GRP-1");
    }

    #[test]
    fn an_unknown_key_and_one_without_effect_are_told_apart() {
        let read = |key: &str| BrokerConfig::read(&BTreeMap::from([(key.to_string(), "1".to_string())]));
        assert_eq!(read("no.such.key").expect_err("unknown").reason, "Unknown configuration");
        assert_eq!(read("log.retention.ms").expect_err("known").reason, "not modelled yet");
    }
}
