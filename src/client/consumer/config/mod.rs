//! A consumer's configs (Kafka's `ConsumerConfig`, section 5.6 of the reference).
//!
//! **Invariant:** a config that is accepted has its effect; what would have none is refused with the reason.

mod deserializer;
mod keys;
mod reset;
mod strategy;

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::protocol::StrBytes;

use crate::client::config::{COMMON_KEYS, COMMON_NOT_MODELLED, CommonConfig, ConfigError, Values};
use crate::client::profile::Library;
use crate::kafka::topic_name;
pub use deserializer::Deserializer;
pub use keys::{
    ACKNOWLEDGEMENT_MODE, ACQUIRE_MODE, FETCH_KEYS, INSTANCE_ID, KEY_DESERIALIZER, KEYS, NOT_MODELLED,
    REFUSED_BY_CONSUMER, VALUE_DESERIALIZER,
};
use keys::{
    CONSUMER, ISOLATION_LEVEL, PROTOCOL, READ_COMMITTED, REFUSED_BY_CLASSIC, REMOTE_ASSIGNOR, STRATEGY,
};
pub use reset::OffsetReset;
pub use strategy::Strategy;

/// `isolation.level` (R-CONS-29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
}

impl IsolationLevel {
    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read_uncommitted",
            IsolationLevel::ReadCommitted => "read_committed",
        }
    }

    /// As requests carry it.
    pub(super) fn id(self) -> i8 {
        match self {
            IsolationLevel::ReadUncommitted => 0,
            IsolationLevel::ReadCommitted => 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// Which library the client is.
    pub library: Library,
    pub common: CommonConfig,
    pub session_timeout_ms: i32,
    pub heartbeat_interval_ms: i32,
    pub max_poll_interval_ms: i32,
    pub strategy: Strategy,
    /// group.protocol=consumer: the coordinator plans the assignment.
    pub is_modern: bool,
    /// group.remote.assignor, of which the coordinator judges whether it has it.
    pub remote_assignor: Option<Rc<str>>,
    /// Of a static member (R-GRP-24).
    pub group_instance_id: Option<Rc<str>>,
    /// auto.commit.interval.ms; `None` with enable.auto.commit=false.
    pub auto_commit_interval_ms: Option<i64>,
    /// `None`: a missing position ends the program.
    pub auto_offset_reset: Option<OffsetReset>,
    pub isolation: IsolationLevel,
    pub client_rack: Rc<str>,
    pub fetch_min_bytes: i32,
    pub fetch_max_wait_ms: i32,
    pub fetch_max_bytes: i32,
    pub max_partition_fetch_bytes: i32,
    pub max_poll_records: i32,
    pub check_crcs: bool,
    pub key_deserializer: Deserializer,
    pub value_deserializer: Deserializer,
    pub default_api_timeout_ms: i64,
    pub allow_auto_create_topics: bool,
    pub exclude_internal_topics: bool,
}

impl ConsumerConfig {
    /// Reads what a person gave under Kafka's names.
    pub fn read(given: &BTreeMap<String, String>) -> Result<ConsumerConfig, ConfigError> {
        let not_modelled = [COMMON_NOT_MODELLED, NOT_MODELLED].concat();
        let library = Library::of(given);
        let given = &library.consumer_configs(given)?;
        refuse_a_group_id(given)?;
        refuse_keys_of_the_other_protocol(given)?;
        let values = Values::read(&[COMMON_KEYS, FETCH_KEYS, KEYS], &not_modelled, given)?;
        let config = ConsumerConfig {
            library,
            common: CommonConfig::from_values(&values),
            session_timeout_ms: values.int("session.timeout.ms"),
            heartbeat_interval_ms: values.int("heartbeat.interval.ms"),
            max_poll_interval_ms: values.int("max.poll.interval.ms"),
            strategy: Strategy::read(values.list(STRATEGY))?,
            is_modern: values.text(PROTOCOL) == CONSUMER,
            remote_assignor: values.optional_text(REMOTE_ASSIGNOR).map(Rc::from),
            group_instance_id: values.optional_text(INSTANCE_ID).map(Rc::from),
            auto_commit_interval_ms: values
                .boolean("enable.auto.commit")
                .then(|| values.integer("auto.commit.interval.ms")),
            auto_offset_reset: OffsetReset::read(values.text("auto.offset.reset"))?,
            isolation: match values.text(ISOLATION_LEVEL) == READ_COMMITTED {
                true => IsolationLevel::ReadCommitted,
                false => IsolationLevel::ReadUncommitted,
            },
            client_rack: values.text("client.rack").into(),
            fetch_min_bytes: values.int("fetch.min.bytes"),
            fetch_max_wait_ms: values.int("fetch.max.wait.ms"),
            fetch_max_bytes: values.int("fetch.max.bytes"),
            max_partition_fetch_bytes: values.int("max.partition.fetch.bytes"),
            max_poll_records: values.int("max.poll.records"),
            check_crcs: values.boolean("check.crcs"),
            key_deserializer: Deserializer::read(KEY_DESERIALIZER, values.text(KEY_DESERIALIZER))?,
            value_deserializer: Deserializer::read(VALUE_DESERIALIZER, values.text(VALUE_DESERIALIZER))?,
            default_api_timeout_ms: values.integer("default.api.timeout.ms"),
            allow_auto_create_topics: values.boolean("allow.auto.create.topics"),
            exclude_internal_topics: values.boolean("exclude.internal.topics"),
        };
        if config.heartbeat_interval_ms >= config.session_timeout_ms {
            let reason = "Heartbeat must be set lower than the session timeout";
            return Err(ConfigError::new("heartbeat.interval.ms", config.heartbeat_interval_ms, reason));
        }
        if let Some(id) = &config.group_instance_id {
            topic_name::check(id).map_err(|why| {
                ConfigError::new(INSTANCE_ID, id, format!("Group instance id is invalid: {why}"))
            })?;
        }
        Ok(config)
    }

    /// Without group.id nothing is committed (`maybeOverrideEnableAutoCommit`).
    pub(super) fn without_group(
        mut self,
        given: &BTreeMap<String, String>,
    ) -> Result<ConsumerConfig, ConfigError> {
        const KEY: &str = "enable.auto.commit";
        if given.contains_key(KEY) && self.auto_commit_interval_ms.is_some() {
            let reason = "enable.auto.commit cannot be set to true when default group id (null) is used.";
            return Err(ConfigError::new(KEY, true, reason));
        }
        self.auto_commit_interval_ms = None;
        Ok(self)
    }

    pub(super) fn instance_id_to_wire(&self) -> Option<StrBytes> {
        self.group_instance_id.as_ref().map(|id| StrBytes::from_string(id.to_string()))
    }

    /// How long a JoinGroup may stay unanswered: the coordinator holds it back for the rebalance timeout.
    pub fn join_timeout_ms(&self) -> i64 {
        const LAPSE_MS: i64 = 5000;
        self.common.request_timeout_ms.max(i64::from(self.max_poll_interval_ms) + LAPSE_MS)
    }
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        ConsumerConfig::read(&BTreeMap::new()).expect("the defaults are in range")
    }
}

/// Each protocol refuses what only the other one has.
fn refuse_keys_of_the_other_protocol(given: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let is_modern =
        given.get(PROTOCOL).is_some_and(|protocol| protocol.trim().eq_ignore_ascii_case(CONSUMER));
    let (refused, protocol) = match is_modern {
        true => (&REFUSED_BY_CONSUMER[..], "CONSUMER"),
        false => (&REFUSED_BY_CLASSIC[..], "CLASSIC"),
    };
    let found = given.iter().find(|(key, value)| refused.contains(&key.as_str()) && !value.trim().is_empty());
    match found {
        None => Ok(()),
        Some((key, value)) => {
            let reason = format!("{key} cannot be set when group.protocol={protocol}");
            Err(ConfigError::new(key, value, reason))
        }
    }
}

/// It is a part of what a consumer is, and no config.
fn refuse_a_group_id(given: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    const KEY: &str = "group.id";
    match given.get(KEY) {
        Some(value) => {
            Err(ConfigError::new(KEY, value.trim(), "a consumer's group is given with its name and topics"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::keys::CLASSIC;
    use super::*;
    use crate::kafka::group::assignor::{ClientAssignor, RebalanceProtocol};

    fn read(key: &str, value: &str) -> Result<ConsumerConfig, ConfigError> {
        ConsumerConfig::read(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    fn check_refused(key: &str, value: &str, reason: &str) {
        let error = read(key, value).unwrap_err();
        assert!(error.key == key && error.reason.starts_with(reason), "{error}");
    }

    #[test]
    fn defaults_are_kafkas_r_cons_24() {
        let config = ConsumerConfig::default();
        assert_eq!((config.session_timeout_ms, config.heartbeat_interval_ms), (45_000, 3000));
        assert_eq!(config.max_poll_interval_ms, 300_000);
        assert_eq!(config.auto_commit_interval_ms, Some(5000));
        assert_eq!(config.auto_offset_reset, Some(OffsetReset::Latest));
        assert_eq!((config.fetch_min_bytes, config.fetch_max_wait_ms), (1, 500));
        assert_eq!((config.fetch_max_bytes, config.max_partition_fetch_bytes), (52_428_800, 1_048_576));
        assert_eq!((config.max_poll_records, config.default_api_timeout_ms), (500, 60_000));
        assert!(config.check_crcs && config.allow_auto_create_topics);
    }

    #[test]
    fn a_consumer_reads_what_is_not_committed_unless_it_is_told_otherwise_r_cons_29() {
        assert_eq!(ConsumerConfig::default().isolation, IsolationLevel::ReadUncommitted);
        let config = read(ISOLATION_LEVEL, READ_COMMITTED).unwrap();
        assert_eq!(config.isolation, IsolationLevel::ReadCommitted);
    }

    #[test]
    fn a_join_may_wait_for_the_rebalance_timeout_and_five_seconds() {
        assert_eq!(ConsumerConfig::default().join_timeout_ms(), 305_000);
        assert_eq!(read("max.poll.interval.ms", "1000").unwrap().join_timeout_ms(), 30_000);
    }

    #[test]
    fn what_would_not_do_what_kafka_does_is_refused_with_the_reason() {
        check_refused("group.id", "g", "a consumer's group");
        check_refused(
            "auto.offset.reset",
            "first",
            "Invalid value `first` for configuration auto.offset.reset",
        );
        check_refused("auto.offset.reset", "by_duration:-PT1H", "Invalid value `by_duration:-PT1H`");
        check_refused("heartbeat.interval.ms", "45000", "Heartbeat must be set lower");
    }

    #[test]
    fn a69_each_protocol_refuses_what_only_the_other_has_and_names_the_key_r_cons_28() {
        let with = |protocol: &str, key: &str, value: &str| {
            let given = [(PROTOCOL, protocol), (key, value)].map(|(key, value)| (key.into(), value.into()));
            ConsumerConfig::read(&BTreeMap::from(given))
                .map_err(|error| (error.key.clone(), error.reason.clone()))
        };
        let classic =
            [("heartbeat.interval.ms", "3000"), ("session.timeout.ms", "45000"), (STRATEGY, "range")];
        for (key, value) in classic {
            let reason = format!("{key} cannot be set when group.protocol=CONSUMER");
            assert_eq!(with(CONSUMER, key, value).unwrap_err(), (key.to_owned(), reason));
            assert!(with(CLASSIC, key, value).is_ok());
        }
        let reason = format!("{REMOTE_ASSIGNOR} cannot be set when group.protocol=CLASSIC");
        assert_eq!(
            with(CLASSIC, REMOTE_ASSIGNOR, "range").unwrap_err(),
            (REMOTE_ASSIGNOR.to_owned(), reason)
        );
        let config = with(CONSUMER, REMOTE_ASSIGNOR, "range").unwrap();
        assert!(config.is_modern && config.remote_assignor.as_deref() == Some("range"));
        assert!(
            with("CoNsUmEr", REMOTE_ASSIGNOR, "range").is_ok()
                && with("CONSUMER", STRATEGY, "range").is_err()
        );
        assert!(!ConsumerConfig::default().is_modern);
    }

    #[test]
    fn a_protocol_is_read_in_any_case_of_letters_and_other_names_are_not() {
        for (protocol, is_modern) in [("CONSUMER", true), (" Consumer ", true), ("Classic", false)] {
            assert_eq!(read(PROTOCOL, protocol).unwrap().is_modern, is_modern, "{protocol}");
        }
        check_refused(PROTOCOL, "streams", "String must be one of (case insensitive): CLASSIC, CONSUMER");
        check_refused("auto.offset.reset", "EARLIEST", "Invalid value `EARLIEST`");
        check_refused("isolation.level", "READ_UNCOMMITTED", "String must be one of: read_uncommitted");
    }

    #[test]
    fn auto_commit_off_has_no_interval() {
        assert_eq!(read("enable.auto.commit", "false").unwrap().auto_commit_interval_ms, None);
        assert_eq!(read("auto.offset.reset", "none").unwrap().auto_offset_reset, None);
        let hour = read("auto.offset.reset", "by_duration:PT1H").unwrap().auto_offset_reset;
        assert_eq!(hour, Some(OffsetReset::ByDuration { ms: 3_600_000 }));
    }

    fn check_strategy(value: &str, assignors: &[ClientAssignor], protocol: RebalanceProtocol) {
        let strategy = read(STRATEGY, value).unwrap().strategy;
        assert_eq!((strategy.assignors(), strategy.protocol()), (assignors, protocol), "{value}");
    }

    #[test]
    fn a_member_is_cooperative_if_all_its_assignors_are_r_grp_28() {
        use ClientAssignor::{CooperativeSticky, Range, RoundRobin, Sticky};
        use RebalanceProtocol::{Cooperative, Eager};
        let default = ConsumerConfig::default().strategy;
        assert_eq!((default.assignors(), default.protocol()), (&[Range, CooperativeSticky][..], Eager));
        let class = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
        check_strategy(class, &[CooperativeSticky], Cooperative);
        check_strategy("cooperative-sticky, range", &[CooperativeSticky, Range], Eager);
        check_strategy("sticky,RoundRobinAssignor", &[Sticky, RoundRobin], Eager);
    }

    #[test]
    fn a_strategy_names_at_least_one_of_kafkas_assignors_each_once() {
        check_refused(STRATEGY, "", "a consumer that subscribes needs");
        check_refused(
            STRATEGY,
            "uniform",
            "\"uniform\" is none of: range, roundrobin, sticky, cooperative-sticky",
        );
        check_refused(STRATEGY, "range,RangeAssignor", "The assignor name: 'range' is used in more than one");
    }

    #[test]
    fn an_instance_id_is_named_as_a_topic_is_r_grp_24() {
        assert_eq!(read(INSTANCE_ID, "i-1").unwrap().group_instance_id.as_deref(), Some("i-1"));
        assert_eq!(ConsumerConfig::default().group_instance_id, None);
        check_refused(INSTANCE_ID, "", "Group instance id is invalid: the empty string");
        check_refused(INSTANCE_ID, "a b", "Group instance id is invalid: it contains");
    }
}
