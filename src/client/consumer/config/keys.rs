//! The names, defaults and ranges of a consumer's configs.
//!
//! **Invariant:** a key that is listed has an effect.

use crate::client::config::{Key, Kind, NULL};
use crate::client::profile::LIBRARY_KEY;

/// The keys that consumers and share consumers have.
pub const FETCH_KEYS: &[Key] = &[
    Key {
        name: "max.poll.interval.ms",
        default: "300000",
        kind: Kind::int_from(1),
        doc: "The longest gap between two polls; also how long a rebalance waits for this member.",
    },
    Key {
        name: "client.rack",
        default: "",
        kind: Kind::Text,
        doc: "Where the client is; with a replica selector on the brokers it reads from a replica there.",
    },
    Key {
        name: "fetch.min.bytes",
        default: "1",
        kind: Kind::int_from(0),
        doc: "The broker answers a fetch when this much is there.",
    },
    Key {
        name: "fetch.max.wait.ms",
        default: "500",
        kind: Kind::int_from(0),
        doc: "The broker answers a fetch after this long even with less than fetch.min.bytes.",
    },
    Key {
        name: "fetch.max.bytes",
        default: "52428800",
        kind: Kind::int_from(0),
        doc: "Most bytes of one fetch answer; the first batch is returned whatever its size.",
    },
    Key {
        name: "max.poll.records",
        default: "500",
        kind: Kind::int_from(1),
        doc: "Most records that one poll() returns; fetching is not changed by it.",
    },
    Key { name: "check.crcs", default: "true", kind: Kind::Boolean, doc: "Check the CRC of each batch." },
    Key {
        name: "default.api.timeout.ms",
        default: "60000",
        kind: Kind::int_from(0),
        doc: "How long commitSync() goes on trying.",
    },
    Key {
        name: "allow.auto.create.topics",
        default: "true",
        kind: Kind::Boolean,
        doc: "Asking for metadata of an unknown topic may create it.",
    },
];

/// The keys that only consumers have.
pub const KEYS: &[Key] = &[
    LIBRARY_KEY,
    Key {
        name: "session.timeout.ms",
        default: "45000",
        kind: Kind::int_from(0),
        doc: "The coordinator removes a member from which it hears no heartbeat for this long.",
    },
    Key {
        name: "heartbeat.interval.ms",
        default: "3000",
        kind: Kind::int_from(0),
        doc: "How often the background thread sends a heartbeat.",
    },
    Key {
        name: "enable.auto.commit",
        default: "true",
        kind: Kind::Boolean,
        doc: "Commit positions inside poll(), before a rebalance and in close().",
    },
    Key {
        name: "auto.commit.interval.ms",
        default: "5000",
        kind: Kind::int_from(0),
        doc: "How long after an automatic commit a poll() makes the next one.",
    },
    Key {
        name: "auto.offset.reset",
        default: "latest",
        kind: Kind::Text,
        doc: "Where to start without a committed offset, and when the position is out of range: latest, earliest, none, \
              or by_duration:PT1H for the first record that is not older.",
    },
    Key {
        name: KEY_DESERIALIZER,
        default: "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        kind: Kind::Text,
        doc: "What reads a record's key, such as StringDeserializer or IntegerDeserializer; poll() throws where it cannot. \
              Kafka has no default.",
    },
    Key {
        name: VALUE_DESERIALIZER,
        default: "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        kind: Kind::Text,
        doc: "The same for a record's value.",
    },
    Key {
        name: "max.partition.fetch.bytes",
        default: "1048576",
        kind: Kind::int_from(0),
        doc: "Most bytes of one partition in a fetch answer.",
    },
    Key {
        name: "exclude.internal.topics",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether a pattern leaves out topics such as __consumer_offsets.",
    },
    Key {
        name: ISOLATION_LEVEL,
        default: "read_uncommitted",
        kind: Kind::OneOf(&["read_uncommitted", READ_COMMITTED]),
        doc: "Whether records of open and aborted transactions are returned.",
    },
    Key {
        name: PROTOCOL,
        default: "classic",
        kind: Kind::OneOfAnyCase(&[CLASSIC, CONSUMER]),
        doc: "Who plans the assignment: a member (classic) or the coordinator (consumer).",
    },
    Key {
        name: REMOTE_ASSIGNOR,
        default: NULL,
        kind: Kind::Text,
        doc: "Which of its assignors the coordinator is to take (uniform, range), with group.protocol=consumer; most votes win.",
    },
    Key {
        name: "partition.assignment.strategy",
        default: "range, cooperative-sticky",
        kind: Kind::List,
        doc: "How the group's leader shares out the partitions: range, roundrobin, sticky, cooperative-sticky; the \
              group takes the first that all its members have.",
    },
    Key {
        name: "group.instance.id",
        default: NULL,
        kind: Kind::Text,
        doc: "Makes the member a static one: it may be away for session.timeout.ms and keeps its partitions.",
    },
];

/// Keys that would have no effect here, of consumers and share consumers.
pub const NOT_MODELLED: &[&str] = &["config.providers"];

pub const KEY_DESERIALIZER: &str = "key.deserializer";
pub const VALUE_DESERIALIZER: &str = "value.deserializer";
pub(super) const STRATEGY: &str = "partition.assignment.strategy";
pub(super) const PROTOCOL: &str = "group.protocol";
pub(super) const REMOTE_ASSIGNOR: &str = "group.remote.assignor";
pub(super) const ISOLATION_LEVEL: &str = "isolation.level";
pub(super) const READ_COMMITTED: &str = "read_committed";
pub(super) const CLASSIC: &str = "classic";
pub(super) const CONSUMER: &str = "consumer";
/// With group.protocol=consumer they are the group's, or the coordinator's, to say (A69), or a share consumer's.
pub const REFUSED_BY_CONSUMER: [&str; 5] =
    [STRATEGY, "heartbeat.interval.ms", "session.timeout.ms", ACKNOWLEDGEMENT_MODE, ACQUIRE_MODE];
pub(super) const REFUSED_BY_CLASSIC: [&str; 3] = [REMOTE_ASSIGNOR, ACKNOWLEDGEMENT_MODE, ACQUIRE_MODE];
/// Of share consumers alone.
pub const ACKNOWLEDGEMENT_MODE: &str = "share.acknowledgement.mode";
pub const ACQUIRE_MODE: &str = "share.acquire.mode";
/// Names a static member; no two members that live share one.
pub const INSTANCE_ID: &str = "group.instance.id";
