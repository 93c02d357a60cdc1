//! Configs of brokers and controllers, the same on every node (`ReplicationConfigs`, `KRaftConfigs`,
//! `GroupCoordinatorConfig`, `ServerConfigs`).

use std::collections::BTreeMap;

use super::broker_keys::{broker_key, broker_keys, has_effect_on_brokers, without_effect};
use super::transaction_keys::TransactionSettings;
use super::{
    ConfigError, Key, LOG_KEYS, UpdateMode, Values, check_value, default_limit, listener_key, synonyms_of,
    topic_key, update_mode,
};

/// Configs of single servers that follow from which brokers and controllers there are, with what says it.
const SAID_ELSEWHERE: &[(&str, &str)] = &[
    ("broker.id", "a broker's id is said where the broker is"),
    ("broker.rack", "a broker's rack is said where the broker is"),
    ("controller.quorum.voters", "the controllers that there are vote"),
    ("node.id", "a node's id is said where the node is"),
    ("process.roles", "a node is a broker or a controller, as it is called"),
];

/// `controller.quorum.*` (`QuorumConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumConfig {
    pub election_backoff_max_ms: i64,
    pub election_timeout_ms: i64,
    pub fetch_max_bytes: i32,
    pub fetch_snapshot_max_bytes: i32,
    pub fetch_timeout_ms: i64,
    pub request_timeout_ms: i64,
    pub retry_backoff_ms: i64,
}

/// `metadata.*` (`MetadataLogConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataLogConfig {
    pub max_record_bytes_between_snapshots: i64,
    /// 0: time is no reason for a snapshot.
    pub max_snapshot_interval_ms: i64,
    pub segment_bytes: i32,
    pub segment_ms: i64,
    /// Below 0 there is no limit.
    pub max_retention_bytes: i64,
    /// Below 0 there is no limit.
    pub max_retention_ms: i64,
}

/// What counts for share partitions unless their group says otherwise (`ShareGroupConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharePartitionDefaults {
    /// `group.share.record.lock.duration.ms`
    pub record_lock_duration_ms: i64,
    /// `group.share.delivery.count.limit`
    pub delivery_count_limit: i16,
    /// `group.share.partition.max.record.locks`
    pub max_record_locks: i64,
    /// `group.share.max.share.sessions`
    pub max_sessions: i64,
}

/// `share.coordinator.*` (`ShareCoordinatorConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareCoordinatorConfig {
    pub cold_partition_snapshot_interval_ms: i64,
    pub snapshot_update_records_per_snapshot: i32,
    pub state_topic_min_isr: i32,
    pub state_topic_num_partitions: i32,
    pub state_topic_prune_interval_ms: i64,
    pub state_topic_replication_factor: i16,
    pub state_topic_segment_bytes: i32,
    pub write_timeout_ms: i64,
}

/// Broker configs with their types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfig {
    /// As the broker's file, the command line or the metadata log gave them.
    pub given: BTreeMap<String, String>,
    /// What [`LOG_KEYS`] among them say, under the topic configs' names.
    pub topic_defaults: BTreeMap<String, String>,
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
    pub metadata_log: MetadataLogConfig,
    /// 0: the active controller writes nothing unasked.
    pub metadata_max_idle_interval_ms: i64,
    pub default_replication_factor: i16,
    pub fetch_max_bytes: i32,
    pub group_consumer_assignment_interval_ms: i32,
    pub group_consumer_assignors: Vec<String>,
    pub group_consumer_heartbeat_interval_ms: i32,
    pub group_consumer_max_size: i32,
    pub group_consumer_migration_policy: String,
    pub group_consumer_regex_refresh_interval_ms: i64,
    pub group_consumer_session_timeout_ms: i32,
    pub group_initial_rebalance_delay_ms: i64,
    pub group_max_session_timeout_ms: i64,
    pub group_max_size: i32,
    pub group_min_session_timeout_ms: i64,
    pub group_share_assignment_interval_ms: i32,
    pub group_share_heartbeat_interval_ms: i32,
    pub group_share_initialize_retry_interval_ms: i64,
    pub group_share_max_size: i32,
    pub group_share_session_timeout_ms: i32,
    pub share_partitions: SharePartitionDefaults,
    pub log_cleaner_backoff_ms: i64,
    pub log_cleaner_enable: bool,
    pub log_flush_offset_checkpoint_interval_ms: i64,
    pub log_flush_scheduler_interval_ms: i64,
    pub log_flush_start_offset_checkpoint_interval_ms: i64,
    pub log_initial_task_delay_ms: i64,
    pub log_retention_check_interval_ms: i64,
    pub max_incremental_fetch_session_cache_slots: i32,
    pub min_insync_replicas: i32,
    pub num_partitions: i32,
    pub offset_metadata_max_bytes: i32,
    pub offsets_commit_timeout_ms: i64,
    pub offsets_retention_check_interval_ms: i64,
    pub offsets_retention_ms: i64,
    pub offsets_topic_num_partitions: i32,
    pub offsets_topic_replication_factor: i16,
    pub producer_id_expiration_check_interval_ms: i64,
    pub producer_id_expiration_ms: i64,
    pub offsets_topic_segment_bytes: i32,
    pub replica_fetch_backoff_ms: i64,
    pub replica_fetch_max_bytes: i32,
    pub replica_fetch_response_max_bytes: i32,
    pub replica_fetch_wait_max_ms: i32,
    pub replica_high_watermark_checkpoint_interval_ms: i64,
    pub replica_lag_time_max_ms: i64,
    /// replica.selector.class is `RackAwareReplicaSelector` (KIP-392); else a leader serves all consumers itself.
    pub rack_aware_replica_selector: bool,
    pub request_timeout_ms: i64,
    pub share_coordinator: ShareCoordinatorConfig,
    pub transactions: TransactionSettings,
}

impl BrokerConfig {
    /// The configs that a broker starts with.
    ///
    /// # Errors
    ///
    /// A name that Kafka does not know or that has no effect here, and what `KafkaConfig` refuses.
    pub fn read(given: &BTreeMap<String, String>) -> Result<BrokerConfig, ConfigError> {
        for (name, value) in given {
            if let Some((_, place)) = SAID_ELSEWHERE.iter().find(|(known, _)| known == name) {
                return Err(ConfigError::new(name, value, *place));
            }
        }
        let of_listeners = given.keys().map(String::as_str).filter(|name| listener_key(name).is_some());
        let not_modelled: Vec<&str> = without_effect().map(|key| key.name).chain(of_listeners).collect();
        let keys: Vec<Key> = broker_keys().collect();
        let v = Values::read(&[&keys], &not_modelled, given)?;
        let config = BrokerConfig::typed(&v, given)?;
        config.check()?;
        Ok(config)
    }

    /// These configs with the cluster's dynamic ones over them, and the broker's own over those (R-LOG-53). What Kafka
    /// does not let change, and what has no effect here, stays as it is.
    pub fn with_dynamic(
        &self,
        cluster: &BTreeMap<String, String>,
        own: &BTreeMap<String, String>,
    ) -> Result<BrokerConfig, ConfigError> {
        let mut given = self.given.clone();
        for (dynamic, cluster_default) in [(cluster, true), (own, false)] {
            for (name, value) in dynamic {
                let allowed = match update_mode(name) {
                    UpdateMode::ReadOnly => false,
                    UpdateMode::PerBroker => !cluster_default,
                    UpdateMode::ClusterWide => true,
                };
                let key = broker_key(name).filter(|_| allowed && has_effect_on_brokers(name));
                if key.is_some_and(|key| check_value(&key, value).is_ok()) {
                    override_value(&mut given, name, value);
                }
            }
        }
        BrokerConfig::read(&given)
    }

    /// What configs of a broker say as the defaults of topics, under the topics' names.
    pub fn topic_defaults_of(given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut defaults = BTreeMap::new();
        for log_key in LOG_KEYS {
            let first = synonyms_of(log_key.topic_key).find(|synonym| given.contains_key(synonym.key.name));
            if let Some(first) = first.filter(|first| *first == log_key) {
                defaults.insert(first.topic_key.to_owned(), first.to_topic(&given[first.key.name]));
            }
        }
        defaults
    }

    /// How values must fit to each other (`KafkaConfig.validateValues`).
    fn check(&self) -> Result<(), ConfigError> {
        let refuse = |name: &str, value: &dyn ToString, reason: &str| {
            Err(ConfigError::new(name, value.to_string(), reason))
        };
        for (name, topic_name, least, reason) in [
            ("log.roll.ms", "segment.ms", 1, "it must be greater than or equal to 1"),
            ("log.roll.jitter.ms", "segment.jitter.ms", 0, "it must be greater than or equal to 0"),
            (
                "log.retention.ms",
                "retention.ms",
                1,
                "it must be unlimited (-1) or, greater than or equal to 1",
            ),
        ] {
            let given =
                self.topic_defaults.get(topic_name).and_then(|value| value.trim().parse::<i64>().ok());
            let unlimited = topic_name == "retention.ms" && given == Some(-1);
            if let Some(value) = given.filter(|value| *value < least && !unlimited) {
                return refuse(name, &value, reason);
            }
        }
        for (topic_name, value) in &self.topic_defaults {
            if let Some(key) = topic_key(topic_name) {
                check_value(key, value)?;
            }
        }
        let fetch_wait_ms = i64::from(self.replica_fetch_wait_max_ms);
        if fetch_wait_ms > self.replica_lag_time_max_ms {
            let reason =
                "it must not be more than replica.lag.time.max.ms, to prevent frequent changes in ISR";
            return refuse("replica.fetch.wait.max.ms", &fetch_wait_ms, reason);
        }
        self.check_share_bounds()
    }

    /// `ShareGroupConfig.validate`
    fn check_share_bounds(&self) -> Result<(), ConfigError> {
        for what in ["record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks"] {
            let named = |which: &str| {
                let name = format!("group.share.{which}{what}");
                broker_key(&name).map(|key| self.number(&key)).map(|number| (name, number))
            };
            let (Some((name, value)), Some(min), Some(max)) = (named(""), named("min."), named("max."))
            else {
                continue;
            };
            let reason = match () {
                () if value < min.1 => format!("it must be greater than or equal to {}", min.0),
                () if value > max.1 => format!("it must be less than or equal to {}", max.0),
                () => continue,
            };
            return Err(ConfigError::new(&name, value, &reason));
        }
        Ok(())
    }

    /// What a broker config that is a number is set to, or its default.
    ///
    /// Panics if the default is no number.
    pub fn number(&self, key: &Key) -> i64 {
        let given = self.given.get(key.name).and_then(|value| value.trim().parse().ok());
        given.unwrap_or_else(|| default_limit(key))
    }

    fn typed(v: &Values, given: &BTreeMap<String, String>) -> Result<BrokerConfig, ConfigError> {
        let replication_factor = v.int("default.replication.factor");
        let default_replication_factor = i16::try_from(replication_factor).map_err(|_| {
            ConfigError::new(
                "default.replication.factor",
                replication_factor,
                "Value must be no more than 32767",
            )
        })?;
        Ok(BrokerConfig {
            given: given.clone(),
            topic_defaults: BrokerConfig::topic_defaults_of(given),
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
                fetch_max_bytes: v.int("controller.quorum.fetch.max.bytes"),
                fetch_snapshot_max_bytes: v.int("controller.quorum.fetch.snapshot.max.bytes"),
                fetch_timeout_ms: v.integer("controller.quorum.fetch.timeout.ms"),
                request_timeout_ms: v.integer("controller.quorum.request.timeout.ms"),
                retry_backoff_ms: v.integer("controller.quorum.retry.backoff.ms"),
            },
            metadata_log: MetadataLogConfig {
                max_record_bytes_between_snapshots: v
                    .integer("metadata.log.max.record.bytes.between.snapshots"),
                max_snapshot_interval_ms: v.integer("metadata.log.max.snapshot.interval.ms"),
                segment_bytes: v.int("metadata.log.segment.bytes"),
                segment_ms: v.integer("metadata.log.segment.ms"),
                max_retention_bytes: v.integer("metadata.max.retention.bytes"),
                max_retention_ms: v.integer("metadata.max.retention.ms"),
            },
            metadata_max_idle_interval_ms: v.integer("metadata.max.idle.interval.ms"),
            default_replication_factor,
            fetch_max_bytes: v.int("fetch.max.bytes"),
            group_consumer_assignment_interval_ms: v.int("group.consumer.assignment.interval.ms"),
            group_consumer_assignors: v.list("group.consumer.assignors").to_vec(),
            group_consumer_heartbeat_interval_ms: v.int("group.consumer.heartbeat.interval.ms"),
            group_consumer_max_size: v.int("group.consumer.max.size"),
            group_consumer_migration_policy: v.text("group.consumer.migration.policy").to_string(),
            group_consumer_regex_refresh_interval_ms: v.integer("group.consumer.regex.refresh.interval.ms"),
            group_consumer_session_timeout_ms: v.int("group.consumer.session.timeout.ms"),
            group_initial_rebalance_delay_ms: v.integer("group.initial.rebalance.delay.ms"),
            group_max_session_timeout_ms: v.integer("group.max.session.timeout.ms"),
            group_max_size: v.int("group.max.size"),
            group_min_session_timeout_ms: v.integer("group.min.session.timeout.ms"),
            group_share_assignment_interval_ms: v.int("group.share.assignment.interval.ms"),
            group_share_heartbeat_interval_ms: v.int("group.share.heartbeat.interval.ms"),
            group_share_initialize_retry_interval_ms: v.integer("group.share.initialize.retry.interval.ms"),
            group_share_max_size: v.int("group.share.max.size"),
            group_share_session_timeout_ms: v.int("group.share.session.timeout.ms"),
            share_partitions: SharePartitionDefaults {
                record_lock_duration_ms: v.integer("group.share.record.lock.duration.ms"),
                delivery_count_limit: v.int("group.share.delivery.count.limit") as i16,
                max_record_locks: v.integer("group.share.partition.max.record.locks"),
                max_sessions: v.integer("group.share.max.share.sessions"),
            },
            log_cleaner_backoff_ms: v.integer("log.cleaner.backoff.ms"),
            log_cleaner_enable: v.boolean("log.cleaner.enable"),
            log_flush_offset_checkpoint_interval_ms: v.integer("log.flush.offset.checkpoint.interval.ms"),
            log_flush_scheduler_interval_ms: v.integer("log.flush.scheduler.interval.ms"),
            log_flush_start_offset_checkpoint_interval_ms: v
                .integer("log.flush.start.offset.checkpoint.interval.ms"),
            log_initial_task_delay_ms: v.integer("log.initial.task.delay.ms"),
            log_retention_check_interval_ms: v.integer("log.retention.check.interval.ms"),
            max_incremental_fetch_session_cache_slots: v.int("max.incremental.fetch.session.cache.slots"),
            min_insync_replicas: v.int("min.insync.replicas"),
            num_partitions: v.int("num.partitions"),
            offset_metadata_max_bytes: v.int("offset.metadata.max.bytes"),
            offsets_commit_timeout_ms: v.integer("offsets.commit.timeout.ms"),
            offsets_retention_check_interval_ms: v.integer("offsets.retention.check.interval.ms"),
            offsets_retention_ms: v.integer("offsets.retention.minutes") * 60_000,
            offsets_topic_num_partitions: v.int("offsets.topic.num.partitions"),
            offsets_topic_replication_factor: v.int("offsets.topic.replication.factor") as i16,
            producer_id_expiration_check_interval_ms: v.integer("producer.id.expiration.check.interval.ms"),
            producer_id_expiration_ms: v.integer("producer.id.expiration.ms"),
            offsets_topic_segment_bytes: v.int("offsets.topic.segment.bytes"),
            replica_fetch_backoff_ms: v.integer("replica.fetch.backoff.ms"),
            replica_fetch_max_bytes: v.int("replica.fetch.max.bytes"),
            replica_fetch_response_max_bytes: v.int("replica.fetch.response.max.bytes"),
            replica_fetch_wait_max_ms: v.int("replica.fetch.wait.max.ms"),
            replica_high_watermark_checkpoint_interval_ms: v
                .integer("replica.high.watermark.checkpoint.interval.ms"),
            rack_aware_replica_selector: is_rack_aware(v)?,
            replica_lag_time_max_ms: v.integer("replica.lag.time.max.ms"),
            request_timeout_ms: v.integer("request.timeout.ms"),
            share_coordinator: ShareCoordinatorConfig {
                cold_partition_snapshot_interval_ms: v
                    .integer("share.coordinator.cold.partition.snapshot.interval.ms"),
                snapshot_update_records_per_snapshot: v
                    .int("share.coordinator.snapshot.update.records.per.snapshot"),
                state_topic_min_isr: v.int("share.coordinator.state.topic.min.isr"),
                state_topic_num_partitions: v.int("share.coordinator.state.topic.num.partitions"),
                state_topic_prune_interval_ms: v.integer("share.coordinator.state.topic.prune.interval.ms"),
                state_topic_replication_factor: v.int("share.coordinator.state.topic.replication.factor")
                    as i16,
                state_topic_segment_bytes: v.int("share.coordinator.state.topic.segment.bytes"),
                write_timeout_ms: v.integer("share.coordinator.write.timeout.ms"),
            },
            transactions: TransactionSettings::of(v),
        })
    }
}

/// A value of a higher level takes the place of all that mean the same (`DynamicBrokerConfig.overrideProps`).
fn override_value(given: &mut BTreeMap<String, String>, name: &str, value: &str) {
    if let Some(log_key) = LOG_KEYS.iter().find(|log_key| log_key.key.name == name) {
        synonyms_of(log_key.topic_key).for_each(|synonym| drop(given.remove(synonym.key.name)));
    }
    given.insert(name.to_owned(), value.to_owned());
}

impl Default for BrokerConfig {
    fn default() -> Self {
        BrokerConfig::read(&BTreeMap::new()).expect("the defaults are valid")
    }
}

/// The only selector that comes with Kafka.
const RACK_AWARE_REPLICA_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

fn is_rack_aware(v: &Values) -> Result<bool, ConfigError> {
    const NAME: &str = "replica.selector.class";
    match v.optional_text(NAME) {
        None => Ok(false),
        Some(RACK_AWARE_REPLICA_SELECTOR) => Ok(true),
        Some(other) => Err(ConfigError::new(NAME, other, format!("Class {other} cannot be found"))),
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
        assert_eq!(config.offsets_retention_ms, 7 * 24 * 3_600_000);
    }

    #[test]
    fn an_unknown_key_and_one_without_effect_are_told_apart() {
        let read = |key: &str| BrokerConfig::read(&BTreeMap::from([(key.to_string(), "1".to_string())]));
        assert_eq!(read("no.such.key").expect_err("unknown").reason, "Unknown configuration");
        assert_eq!(read("num.io.threads").expect_err("known").reason, "not modelled yet");
        assert_eq!(read("listener.name.x.ssl.key.password").expect_err("known").reason, "not modelled yet");
        assert_eq!(read("listener.name.x.y").expect_err("unknown").reason, "Unknown configuration");
        assert!(read("message.max.bytes").is_ok());
        for (name, place) in SAID_ELSEWHERE {
            assert!(broker_key(name).is_some(), "{name}");
            assert_eq!(read(name).expect_err("said elsewhere").reason, *place);
        }
    }

    #[test]
    fn the_migration_policy_is_read_in_any_case_of_letters_and_other_names_are_not() {
        let read = |key, value| BrokerConfig::read(&map(&[(key, value)]));
        let policy = read("group.consumer.migration.policy", "Upgrade").expect("valid");
        assert_eq!(policy.group_consumer_migration_policy, "upgrade");
        let error = read("group.consumer.migration.policy", "sideways").expect_err("no policy");
        assert!(
            error.reason.starts_with("String must be one of (case insensitive): BIDIRECTIONAL"),
            "{error}"
        );
        assert!(read("log.message.timestamp.type", "createtime").is_err());
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn values_must_fit_to_each_other() {
        let read = |pairs: &[(&str, &str)]| BrokerConfig::read(&map(pairs)).map(|_| ()).map_err(|e| e.key);
        assert_eq!(read(&[("log.roll.ms", "0")]), Err("log.roll.ms".to_string()));
        assert_eq!(read(&[("replica.lag.time.max.ms", "400")]), Err("replica.fetch.wait.max.ms".to_string()));
        assert_eq!(read(&[("replica.lag.time.max.ms", "400"), ("replica.fetch.wait.max.ms", "400")]), Ok(()));
    }

    #[test]
    fn the_brokers_own_value_stands_above_the_clusters_and_that_above_the_files_r_log_53() {
        let file =
            BrokerConfig::read(&map(&[("log.roll.hours", "1"), ("message.max.bytes", "1")])).expect("valid");
        let check = |cluster: &[(&str, &str)], own: &[(&str, &str)], topic_key: &str, expected: &str| {
            let config = file.with_dynamic(&map(cluster), &map(own)).expect("valid");
            assert_eq!(config.topic_defaults[topic_key], expected, "{cluster:?} {own:?}");
        };
        check(&[], &[], "segment.ms", "3600000");
        check(&[("log.roll.ms", "5")], &[], "segment.ms", "5");
        check(&[("log.roll.ms", "5")], &[("log.roll.ms", "6")], "segment.ms", "6");
        check(&[("message.max.bytes", "2")], &[], "max.message.bytes", "2");
        check(&[("log.roll.hours", "9")], &[], "segment.ms", "3600000");
        check(&[("message.max.bytes", "no number")], &[("nobodys", "x")], "max.message.bytes", "1");
    }
}
