//! Client profiles: which library a client is, and how its application uses it.
//!
//! | | `java` | `java-hand-off` | `librdkafka` |
//! |---|---|---|---|
//! | the application | processes in its poll loop | hands records to a pool of workers and polls on | processes in its poll loop |
//! | its program, unless given | `poll; process 20ms; commit` | `poll; hand off 20ms to 4 workers` | `poll; process 20ms` |
//! | what one poll returns | up to max.poll.records (500) | the same | one record (`rd_kafka_consumer_poll`) |
//! | automatic commit: when | inside poll() and close(), R-CONS-17 | the same | every auto.commit.interval.ms in the background |
//! | automatic commit: of what | what earlier polls returned | the same, whatever the workers have done | what was handed over, the record in hand too; nothing that is committed already |
//! | so a crash | repeats, never loses | loses what workers had not done | loses the record in hand, repeats what finished since the tick |
//! | heartbeats | background thread | background thread | background thread |
//! | max.poll.interval.ms exceeded | leaves, joins again at the next poll | the same | the same |
//! | partition.assignment.strategy | range, cooperative-sticky | the same | range, roundrobin; no `sticky` |
//! | eager and cooperative assignors in one list | allowed | allowed | refused |
//! | isolation.level | read_uncommitted | the same | read_committed |
//! | check.crcs, allow.auto.create.topics | true, true | the same | false, false |
//! | reconnect.backoff.ms, .max.ms | 50, 1000 | the same | 100, 10000 |
//! | key to partition | murmur2 (R-PROD-10) | the same | CRC32 (`consistent_random`, A08) |
//! | no key | sticky until batch.size bytes (R-PROD-11) | the same | random, another one each 10 ms (sticky.partitioning.linger.ms); an empty key too |
//! | enable.idempotence | true | the same | false |
//! | max.in.flight.requests.per.connection | 5 | the same | 1000000 |
//! | delivery.timeout.ms | 120000 | the same | 300000 (message.timeout.ms) |
//! | batch.size | 16384 | the same | 1000000 |
//! | max.request.size | 1048576 | the same | 1000000 (message.max.bytes) |
//! | buffer.memory | 33554432 | the same | 1073741824 (queue.buffering.max.kbytes) |
//!
//! Source of the third column: librdkafka's CONFIGURATION.md, INTRODUCTION.md ("Auto offset commit", "At-least-once
//! processing"), rdkafka_cgrp.c (the commit timer does nothing while the group rebalances; the poll interval), rdkafka_msg.c
//! and 0048-partitioner.c, at 4c3b017c. Its configs go by Kafka's names here. Of its group work, the part that it does without
//! poll() if no rebalance callback is set waits for poll(), as with one; its prefetching is Java's.
//!
//! **Invariant:** a profile changes defaults and what the table names; what is given stands above it.

use std::collections::BTreeMap;

use super::config::producer::PRODUCER_KEYS;
use super::config::{COMMON_KEYS, ConfigError, Key, Kind};
use super::consumer::config::{FETCH_KEYS, KEY_DESERIALIZER, KEYS as CONSUMER_KEYS, VALUE_DESERIALIZER};
use super::program::Line;

/// The one config that Kafka does not have: which library the client is.
pub const LIBRARY_KEY: Key = Key {
    name: LIBRARY,
    default: "java",
    kind: Kind::OneOf(&["java", "librdkafka"]),
    doc: "Whether the client behaves as Kafka's Java client does, or as librdkafka.",
};

const LIBRARY: &str = "client.library";
const STRATEGY: &str = "partition.assignment.strategy";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Library {
    #[default]
    Java,
    Librdkafka,
}

/// What librdkafka has instead of the defaults of a Java consumer.
const CONSUMER_DEFAULTS: [(&str, &str); 7] = [
    (STRATEGY, "range,roundrobin"),
    ("isolation.level", "read_committed"),
    ("check.crcs", "false"),
    ("allow.auto.create.topics", "false"),
    ("reconnect.backoff.ms", "100"),
    ("reconnect.backoff.max.ms", "10000"),
    (MAX_POLL_RECORDS, "1"),
];
const MAX_POLL_RECORDS: &str = "max.poll.records";

/// What librdkafka has instead of the defaults of a Java producer.
const PRODUCER_DEFAULTS: [(&str, &str); 8] = [
    ("enable.idempotence", "false"),
    ("max.in.flight.requests.per.connection", "1000000"),
    ("delivery.timeout.ms", "300000"),
    ("batch.size", "1000000"),
    ("max.request.size", "1000000"),
    ("buffer.memory", "1073741824"),
    ("reconnect.backoff.ms", "100"),
    ("reconnect.backoff.max.ms", "10000"),
];

impl Library {
    pub(super) fn of(given: &BTreeMap<String, String>) -> Library {
        match given.get(LIBRARY).map(|text| text.trim()) {
            Some("librdkafka") => Library::Librdkafka,
            _ => Library::Java,
        }
    }

    /// A consumer's configs with the library's defaults below them.
    ///
    /// # Errors
    ///
    /// What librdkafka does not have, or refuses.
    pub(super) fn consumer_configs(
        self,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, ConfigError> {
        if self == Library::Java {
            return Ok(given.clone());
        }
        if let Some(value) = given.get(MAX_POLL_RECORDS) {
            let reason = "librdkafka returns one record from each poll";
            return Err(ConfigError::new(MAX_POLL_RECORDS, value, reason));
        }
        let deserializers = [KEY_DESERIALIZER, VALUE_DESERIALIZER];
        if let Some((key, value)) = deserializers.iter().find_map(|key| given.get_key_value(*key)) {
            return Err(ConfigError::new(key, value, "librdkafka returns the bytes as they are"));
        }
        if let Some(value) = given.get(STRATEGY) {
            check_strategy(value)?;
        }
        let mut all = with_defaults(given, &CONSUMER_DEFAULTS);
        if all.get("group.protocol").is_some_and(|protocol| protocol.trim().eq_ignore_ascii_case("consumer"))
            && !given.contains_key(STRATEGY)
        {
            all.remove(STRATEGY);
        }
        Ok(all)
    }

    /// A producer's configs with the library's defaults below them.
    pub(super) fn producer_configs(self, given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        match self {
            Library::Java => given.clone(),
            // Who asks for idempotence has at most five requests in flight, as librdkafka adjusts it.
            Library::Librdkafka
                if given.get("enable.idempotence").is_some_and(|value| value.trim() == "true") =>
            {
                let in_flight = [("max.in.flight.requests.per.connection", "5")];
                with_defaults(&with_defaults(given, &in_flight), &PRODUCER_DEFAULTS)
            }
            Library::Librdkafka => with_defaults(given, &PRODUCER_DEFAULTS),
        }
    }
}

fn with_defaults(given: &BTreeMap<String, String>, defaults: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> =
        defaults.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    all.extend(given.clone());
    all
}

/// librdkafka has no `sticky`, and refuses to mix assignors that move all partitions with those that move some (A42).
fn check_strategy(value: &str) -> Result<(), ConfigError> {
    let names: Vec<&str> = value.split(',').map(str::trim).collect();
    let refused = |reason: String| Err(ConfigError::new(STRATEGY, value, reason));
    if let Some(unknown) =
        names.iter().find(|name| !["range", "roundrobin", "cooperative-sticky"].contains(name))
    {
        return refused(format!("Unsupported partition.assignment.strategy: {unknown}"));
    }
    match (names.contains(&"cooperative-sticky"), names.len()) {
        (true, 2..) => {
            refused("cooperative and non-cooperative (eager) strategies must not be mixed".to_owned())
        }
        _ => Ok(()),
    }
}

/// Which of a library's two clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Producer,
    Consumer,
}

/// What a client does otherwise than a Java client that processes in its poll loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    pub what: &'static str,
    pub java: &'static str,
    pub own: &'static str,
}

const fn differs(what: &'static str, java: &'static str, own: &'static str) -> Difference {
    Difference { what, java, own }
}

/// What no config says.
const OF_HAND_OFF: [Difference; 3] = [
    differs("records are processed", "in the poll loop", "by a pool of workers, while it polls on"),
    differs(
        "automatic commits are of",
        "what earlier polls returned: all of it is processed",
        "the same, whatever the workers have done",
    ),
    differs("a crash", "repeats, never loses", "loses what the workers had not done"),
];
const OF_LIBRDKAFKA_CONSUMER: [Difference; 3] = [
    differs(
        "automatic commits come",
        "inside poll() and close()",
        "every auto.commit.interval.ms in the background",
    ),
    differs("they are of", "what earlier polls returned", "what was handed over, the record in hand too"),
    differs(
        "a crash",
        "repeats, never loses",
        "loses the record in hand, repeats what finished since the last commit",
    ),
];
const OF_LIBRDKAFKA_PRODUCER: [Difference; 2] = [
    differs("a key's partition", "murmur2 of the key", "CRC32 of the key"),
    differs("without a key", "one partition until batch.size is full", "at random, another one each 10 ms"),
];

/// How a person names a client that is like one of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Java,
    JavaHandOff,
    Librdkafka,
}

impl Profile {
    pub const ALL: [Profile; 3] = [Profile::Java, Profile::JavaHandOff, Profile::Librdkafka];

    pub fn name(self) -> &'static str {
        match self {
            Profile::Java => "java",
            Profile::JavaHandOff => "java-hand-off",
            Profile::Librdkafka => "librdkafka",
        }
    }

    pub fn of_name(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// What a client is like that runs such a program with such a library.
    pub fn of(library: Library, program: &[Line]) -> Profile {
        match library {
            Library::Librdkafka => Profile::Librdkafka,
            Library::Java if program.iter().any(|line| matches!(line, Line::HandOff { .. })) => {
                Profile::JavaHandOff
            }
            Library::Java => Profile::Java,
        }
    }

    /// What one of its clients does otherwise than `java`, and its defaults that nobody has `given` another value.
    pub fn differences(self, side: Side, given: &BTreeMap<String, String>) -> Vec<Difference> {
        let (behaviour, defaults): (&[Difference], &[(&str, &'static str)]) = match (self, side) {
            (Profile::Java, _) | (Profile::JavaHandOff, Side::Producer) => (&[], &[]),
            (Profile::JavaHandOff, Side::Consumer) => (&OF_HAND_OFF, &[]),
            (Profile::Librdkafka, Side::Consumer) => (&OF_LIBRDKAFKA_CONSUMER, &CONSUMER_DEFAULTS),
            (Profile::Librdkafka, Side::Producer) => (&OF_LIBRDKAFKA_PRODUCER, &PRODUCER_DEFAULTS),
        };
        let tables: [&[Key]; 2] = match side {
            Side::Producer => [PRODUCER_KEYS, &[]],
            Side::Consumer => [FETCH_KEYS, CONSUMER_KEYS],
        };
        let keys = COMMON_KEYS.iter().chain(tables.into_iter().flatten());
        let of_key = |key: &'static Key| {
            let own = defaults.iter().find(|(name, _)| *name == key.name && !given.contains_key(*name))?.1;
            Some(differs(key.name, key.default, own))
        };
        behaviour.iter().copied().chain(keys.filter_map(of_key)).collect()
    }

    /// The program of a consumer that is given none.
    pub fn program(self) -> Vec<Line> {
        let lines: &[&str] = match self {
            Profile::Java => &["poll", "process 20ms", "commit"],
            Profile::JavaHandOff => &["poll", "hand off 20ms to 4 workers"],
            Profile::Librdkafka => &["poll", "process 20ms"],
        };
        Line::parse_program(lines).expect("a program")
    }

    /// Adds what makes a client's configs those of the profile.
    pub fn add_to(self, config: &mut BTreeMap<String, String>) {
        if self == Profile::Librdkafka {
            config.insert(LIBRARY.to_owned(), "librdkafka".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::config::producer::ProducerConfig;
    use crate::client::consumer::ConsumerConfig;
    use crate::kafka::group::assignor::ClientAssignor;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let library = [(LIBRARY, "librdkafka")];
        library.iter().chain(pairs).map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn librdkafka_has_defaults_of_its_own_below_what_is_given() {
        let config = ConsumerConfig::read(&given(&[("check.crcs", "true")])).unwrap();
        assert_eq!(config.strategy.assignors(), [ClientAssignor::Range, ClientAssignor::RoundRobin]);
        assert_eq!((config.max_poll_records, config.check_crcs), (1, true));
        assert!(!config.allow_auto_create_topics);
        assert!(ConsumerConfig::read(&given(&[("group.protocol", "consumer")])).unwrap().is_modern);
        let config = ProducerConfig::read(&given(&[])).unwrap();
        assert_eq!((config.enable_idempotence, config.max_in_flight), (false, 1_000_000));
        assert_eq!(
            (config.delivery_timeout_ms, config.batch_size, config.linger_ms),
            (300_000, 1_000_000, 5)
        );
        let config = ProducerConfig::read(&given(&[("enable.idempotence", "true")])).unwrap();
        assert_eq!((config.enable_idempotence, config.max_in_flight), (true, 5));
    }

    #[test]
    fn a_profile_tells_what_it_does_otherwise_and_only_what_nobody_changed() {
        let of = |profile: Profile, side, pairs: &[(&str, &str)]| profile.differences(side, &given(pairs));
        assert!(of(Profile::Java, Side::Consumer, &[]).is_empty());
        assert!(of(Profile::JavaHandOff, Side::Producer, &[]).is_empty());
        assert_eq!(of(Profile::JavaHandOff, Side::Consumer, &[]).len(), OF_HAND_OFF.len());
        let consumer = of(Profile::Librdkafka, Side::Consumer, &[]);
        assert_eq!(consumer.len(), OF_LIBRDKAFKA_CONSUMER.len() + CONSUMER_DEFAULTS.len());
        assert!(consumer.contains(&differs("isolation.level", "read_uncommitted", "read_committed")));
        assert!(consumer.iter().all(|difference| difference.java != difference.own), "{consumer:?}");
        let producer = of(Profile::Librdkafka, Side::Producer, &[("batch.size", "1")]);
        assert_eq!(producer.len(), OF_LIBRDKAFKA_PRODUCER.len() + PRODUCER_DEFAULTS.len() - 1);
        assert!(producer.iter().all(|difference| difference.what != "batch.size"));
    }

    #[test]
    fn what_hands_off_is_of_that_profile() {
        let of = |library, profile: Profile| Profile::of(library, &profile.program());
        assert_eq!(of(Library::Java, Profile::Java), Profile::Java);
        assert_eq!(of(Library::Java, Profile::JavaHandOff), Profile::JavaHandOff);
        assert_eq!(of(Library::Librdkafka, Profile::Librdkafka), Profile::Librdkafka);
    }

    #[test]
    fn a42_librdkafka_refuses_assignors_that_do_not_hand_over_alike_and_what_it_has_not() {
        let refused = |key, value| ConsumerConfig::read(&given(&[(key, value)])).unwrap_err().reason;
        assert_eq!(
            refused(STRATEGY, "range,cooperative-sticky"),
            "cooperative and non-cooperative (eager) strategies must not be mixed"
        );
        assert_eq!(refused(STRATEGY, "sticky"), "Unsupported partition.assignment.strategy: sticky");
        assert_eq!(refused(MAX_POLL_RECORDS, "500"), "librdkafka returns one record from each poll");
        let bytes = "librdkafka returns the bytes as they are";
        assert_eq!(refused(VALUE_DESERIALIZER, "IntegerDeserializer"), bytes);
        assert!(ConsumerConfig::read(&given(&[(STRATEGY, "cooperative-sticky")])).is_ok());
    }
}
