//! The producer's configs, as Kafka's `ProducerConfig` checks them (section 4.5 of the reference).
//!
//! **Invariant:** an idempotent config has acks=all, retries above 0 and at most five requests in flight (R-PROD-22).

use crate::client::profile::{LIBRARY_KEY, Library};
use std::collections::BTreeMap;

use super::{COMMON_KEYS, COMMON_NOT_MODELLED, CommonConfig, ConfigError, Key, Kind, NULL, Values};
use crate::kafka::record::Compression;
use crate::kafka::types::TransactionalId;

/// How many replicas must have a batch before the leader answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    None,
    Leader,
    All,
}

impl Acks {
    /// The form that ProduceRequest carries.
    pub fn code(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        }
    }
}

/// The most requests in flight that the broker's window of five batches can keep in order (R-PROD-22, R-PROD-25).
const MAX_IN_FLIGHT_FOR_IDEMPOTENCE: i32 = 5;

pub const PRODUCER_KEYS: &[Key] = &[
    LIBRARY_KEY,
    Key {
        name: "acks",
        default: "all",
        kind: Kind::OneOf(&["all", "-1", "0", "1"]),
        doc: "When a batch counts as written: 0 when sent, 1 when the leader has it, all when the in-sync replicas have it.",
    },
    Key {
        name: "enable.idempotence",
        default: "true",
        kind: Kind::Boolean,
        doc: "Number the batches, so that a repeated one is not stored twice and none overtakes another.",
    },
    Key {
        name: "linger.ms",
        default: "5",
        kind: Kind::long_from(0),
        doc: "How long a batch that is not full waits for more records.",
    },
    Key {
        name: "batch.size",
        default: "16384",
        kind: Kind::int_from(0),
        doc: "Bytes after which a batch takes no more records; 0 sends each record alone.",
    },
    Key {
        name: "delivery.timeout.ms",
        default: "120000",
        kind: Kind::int_from(0),
        doc: "A batch that is not acknowledged this long after its creation fails, whatever is still being tried.",
    },
    Key {
        name: "retries",
        default: "2147483647",
        kind: Kind::int_from(0),
        doc: "How often a batch is sent again after an error that may pass.",
    },
    Key {
        name: "max.in.flight.requests.per.connection",
        default: "5",
        kind: Kind::int_from(1),
        doc: "Requests that may wait for an answer on one connection.",
    },
    Key {
        name: "max.request.size",
        default: "1048576",
        kind: Kind::int_from(0),
        doc: "The most bytes of batches in one request, and of one record.",
    },
    Key {
        name: "buffer.memory",
        default: "33554432",
        kind: Kind::long_from(0),
        doc: "Bytes of batches that may wait; beyond it send() blocks.",
    },
    Key {
        name: "max.block.ms",
        default: "60000",
        kind: Kind::long_from(0),
        doc: "How long send() waits for metadata or memory before it fails.",
    },
    Key {
        name: "compression.type",
        default: "none",
        kind: Kind::OneOf(&["none", "gzip", "snappy", "lz4", "zstd"]),
        doc: "What batches are compressed with.",
    },
    Key {
        name: "compression.gzip.level",
        default: "-1",
        kind: Kind::Integer { min: -1, max: 9 },
        doc: "How hard gzip tries, from 1 to 9; -1 for its own choice.",
    },
    Key {
        name: "partitioner.class",
        default: NULL,
        kind: Kind::OneOf(&[ROUND_ROBIN]),
        doc: "What chooses a record's partition instead of its key; the only class there is gives each partition its turn.",
    },
    Key {
        name: "partitioner.ignore.keys",
        default: "false",
        kind: Kind::Boolean,
        doc: "Choose a record's partition as if it had no key.",
    },
    Key {
        name: "partitioner.adaptive.partitioning.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Give records without a key more often to partitions with fewer waiting batches.",
    },
    Key {
        name: "partitioner.availability.timeout.ms",
        default: "0",
        kind: Kind::long_from(0),
        doc: "Give records without a key to no partition whose broker has not taken batches for this long; 0 for any.",
    },
    Key {
        name: TRANSACTIONAL_ID,
        default: NULL,
        kind: Kind::Text,
        doc: "The name under which the producer's transactions go on from one process to the next.",
    },
    Key {
        name: "transaction.timeout.ms",
        default: "60000",
        kind: Kind::Integer { min: i32::MIN as i64, max: i32::MAX as i64 },
        doc: "A transaction that is not ended this long after it began is aborted by its coordinator.",
    },
];

const ROUND_ROBIN: &str = "org.apache.kafka.clients.producer.RoundRobinPartitioner";
const TRANSACTIONAL_ID: &str = "transactional.id";

const NOT_MODELLED: &[&str] = &[
    "compression.lz4.level",
    "compression.zstd.level",
    "key.serializer",
    "metadata.max.idle.ms",
    "transaction.two.phase.commit.enable",
    "value.serializer",
];

/// The values of [`COMMON_KEYS`] and [`PRODUCER_KEYS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerConfig {
    /// Which library the client is.
    pub library: Library,
    pub common: CommonConfig,
    pub acks: Acks,
    /// What is in force: switched off where acks or retries do not allow it and nobody asked for it (R-PROD-22).
    pub enable_idempotence: bool,
    pub linger_ms: i64,
    pub batch_size: i32,
    /// Raised to linger.ms + request.timeout.ms where only the default is too small (R-PROD-15).
    pub delivery_timeout_ms: i64,
    pub retries: i32,
    pub max_in_flight: i32,
    pub max_request_size: i32,
    pub buffer_memory: i64,
    pub max_block_ms: i64,
    pub compression: Compression,
    /// 1 to 9; `None` for gzip's own choice.
    pub gzip_level: Option<u32>,
    pub partitioner: PartitionerClass,
    pub ignore_keys: bool,
    pub adaptive_partitioning: bool,
    /// 0 for none.
    pub availability_timeout_ms: i64,
    pub transactional_id: Option<TransactionalId>,
    pub transaction_timeout_ms: i32,
}

/// What chooses the partition of a record that names none (R-PROD-9, R-PROD-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionerClass {
    /// Its key, or the sticky partitioner.
    BuiltIn,
    RoundRobin,
    /// librdkafka's.
    ConsistentRandom,
}

impl ProducerConfig {
    pub fn read(given: &BTreeMap<String, String>) -> Result<ProducerConfig, ConfigError> {
        let not_modelled = [COMMON_NOT_MODELLED, NOT_MODELLED].concat();
        let library = Library::of(given);
        let given = &library.producer_configs(given);
        let values = Values::read(&[PRODUCER_KEYS, COMMON_KEYS], &not_modelled, given)?;
        let acks = match values.text("acks") {
            "0" => Acks::None,
            "1" => Acks::Leader,
            _ => Acks::All,
        };
        let common = CommonConfig::from_values(&values);
        let enable_idempotence = idempotence(&values, acks)?;
        check_memory(&values)?;
        Ok(ProducerConfig {
            library,
            common,
            acks,
            enable_idempotence,
            linger_ms: linger_ms(&values),
            batch_size: values.int("batch.size"),
            delivery_timeout_ms: delivery_timeout_ms(&values)?,
            retries: values.int("retries"),
            max_in_flight: values.int("max.in.flight.requests.per.connection"),
            max_request_size: values.int("max.request.size"),
            buffer_memory: values.integer("buffer.memory"),
            max_block_ms: values.integer("max.block.ms"),
            compression: compression(&values)?,
            gzip_level: gzip_level(&values)?,
            partitioner: match values.optional_text("partitioner.class") {
                Some(_) => PartitionerClass::RoundRobin,
                None if library == Library::Librdkafka => PartitionerClass::ConsistentRandom,
                None => PartitionerClass::BuiltIn,
            },
            ignore_keys: values.boolean("partitioner.ignore.keys"),
            adaptive_partitioning: values.boolean("partitioner.adaptive.partitioning.enable"),
            availability_timeout_ms: values.integer("partitioner.availability.timeout.ms"),
            transactional_id: transactional_id(&values, enable_idempotence)?,
            transaction_timeout_ms: values.int("transaction.timeout.ms"),
        })
    }
}

/// Whether the producer is idempotent (R-PROD-22): a conflict is an error if idempotence was asked for, else acks and
/// retries win silently; too many requests in flight are always an error.
fn idempotence(values: &Values, acks: Acks) -> Result<bool, ConfigError> {
    let name = "enable.idempotence";
    if !values.boolean(name) {
        return Ok(false);
    }
    let refuse = |key: &str, sentence: &str| Err(ConfigError::conflict(key, sentence));
    let asked_for = values.is_given(name);
    let retries = values.int("retries");
    let in_flight = values.int("max.in.flight.requests.per.connection");
    if retries == 0 && asked_for {
        return refuse("retries", "Must set retries to non-zero when using the idempotent producer.");
    }
    if acks != Acks::All && asked_for {
        let sentence = "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee \
                        idempotence.";
        return refuse("acks", sentence);
    }
    if in_flight > MAX_IN_FLIGHT_FOR_IDEMPOTENCE {
        let key = "max.in.flight.requests.per.connection";
        let sentence = format!(
            "To use the idempotent producer, {key} must be set to at most 5. Current value is {in_flight}."
        );
        return refuse(key, &sentence);
    }
    Ok(retries > 0 && acks == Acks::All)
}

fn compression(values: &Values) -> Result<Compression, ConfigError> {
    let name = values.text("compression.type");
    let codec = Compression::of_name(name).filter(|codec| codec.is_supported());
    codec.ok_or_else(|| ConfigError::new("compression.type", name, "this build has no codecs"))
}

fn gzip_level(values: &Values) -> Result<Option<u32>, ConfigError> {
    let name = "compression.gzip.level";
    match values.int(name) {
        -1 => Ok(None),
        0 => Err(ConfigError::new(name, 0, "Value must be between 1 and 9 or equal to -1")),
        level => Ok(Some(level.unsigned_abs())),
    }
}

/// A batch must fit into the memory. Kafka's producer starts without that, and each `send()` throws this.
fn check_memory(values: &Values) -> Result<(), ConfigError> {
    let (batch, memory) = (values.integer("batch.size").max(1), values.integer("buffer.memory"));
    let sentence = || {
        format!(
            "Attempt to allocate {batch} bytes, but there is a hard limit of {memory} on memory allocations."
        )
    };
    if batch > memory { Err(ConfigError::conflict("buffer.memory", sentence())) } else { Ok(()) }
}

/// A LONG that Kafka cuts to an INT.
fn linger_ms(values: &Values) -> i64 {
    values.integer("linger.ms").min(i32::MAX.into())
}

/// transactional.id, which is nothing without idempotence (R-TXN-30).
fn transactional_id(values: &Values, idempotent: bool) -> Result<Option<TransactionalId>, ConfigError> {
    match values.optional_text(TRANSACTIONAL_ID) {
        Some("") => Err(ConfigError::new(TRANSACTIONAL_ID, "", "String must be non-empty")),
        Some(_) if !idempotent => {
            let sentence = "Cannot set a transactional.id without also enabling idempotence.";
            Err(ConfigError::conflict(TRANSACTIONAL_ID, sentence))
        }
        id => Ok(id.map(TransactionalId::new)),
    }
}

/// delivery.timeout.ms, which must cover linger.ms and one request (R-PROD-15).
fn delivery_timeout_ms(values: &Values) -> Result<i64, ConfigError> {
    let name = "delivery.timeout.ms";
    let timeout_ms = values.integer(name);
    let least_ms = (linger_ms(values) + values.integer("request.timeout.ms")).min(i32::MAX.into());
    if timeout_ms < least_ms && values.is_given(name) {
        let sentence = "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms";
        return Err(ConfigError::conflict(name, sentence));
    }
    Ok(timeout_ms.max(least_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<ProducerConfig, ConfigError> {
        ProducerConfig::read(
            &given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        )
    }

    fn check_conflict(given: &[(&str, &str)], sentence: &str) {
        assert_eq!(read(given).unwrap_err().to_string(), sentence);
    }

    fn check_refused(given: &[(&str, &str)], key: &str) {
        assert_eq!(read(given).unwrap_err().key, key, "{given:?}");
    }

    #[test]
    fn defaults_are_kafkas_4_x() {
        let config = read(&[]).unwrap();
        assert_eq!(config.acks, Acks::All);
        assert!(config.enable_idempotence);
        assert_eq!((config.linger_ms, config.batch_size), (5, 16_384));
        assert_eq!((config.delivery_timeout_ms, config.retries), (120_000, i32::MAX));
        assert_eq!((config.max_in_flight, config.max_request_size), (5, 1_048_576));
        assert_eq!((config.buffer_memory, config.max_block_ms), (33_554_432, 60_000));
    }

    #[test]
    fn idempotence_gives_way_silently_unless_asked_for_r_prod_22() {
        assert!(!read(&[("acks", "1")]).unwrap().enable_idempotence);
        assert!(!read(&[("acks", "0")]).unwrap().enable_idempotence);
        assert!(!read(&[("retries", "0")]).unwrap().enable_idempotence);
        assert!(read(&[("acks", "-1")]).unwrap().enable_idempotence);
        check_refused(&[("acks", "1"), ("enable.idempotence", "true")], "acks");
        check_refused(&[("retries", "0"), ("enable.idempotence", "true")], "retries");
    }

    #[test]
    fn more_than_five_in_flight_never_switches_idempotence_off_r_prod_22() {
        let key = "max.in.flight.requests.per.connection";
        check_refused(&[(key, "6")], key);
        check_refused(&[(key, "6"), ("acks", "1")], key);
        assert_eq!(read(&[(key, "6"), ("enable.idempotence", "false")]).unwrap().max_in_flight, 6);
    }

    #[test]
    fn delivery_timeout_covers_linger_and_one_request_r_prod_15() {
        check_refused(&[("delivery.timeout.ms", "30004")], "delivery.timeout.ms");
        assert_eq!(read(&[("delivery.timeout.ms", "30005")]).unwrap().delivery_timeout_ms, 30_005);
        assert_eq!(read(&[("request.timeout.ms", "200000")]).unwrap().delivery_timeout_ms, 200_005);
    }

    #[test]
    fn what_does_not_go_together_is_told_in_kafkas_words_a73_r_prod_22() {
        check_conflict(
            &[("acks", "1"), ("enable.idempotence", "true")],
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee \
             idempotence.",
        );
        check_conflict(
            &[("retries", "0"), ("enable.idempotence", "true")],
            "Must set retries to non-zero when using the idempotent producer.",
        );
        check_conflict(
            &[("max.in.flight.requests.per.connection", "6")],
            "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most 5. \
             Current value is 6.",
        );
        check_conflict(
            &[("delivery.timeout.ms", "30004")],
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms",
        );
        // Retries are looked at first, then acks, then requests in flight.
        let all = [("acks", "1"), ("retries", "0"), ("enable.idempotence", "true")];
        check_conflict(&all, "Must set retries to non-zero when using the idempotent producer.");
    }

    #[test]
    fn a_batch_that_no_memory_holds_is_refused_r_prod_2() {
        check_conflict(
            &[("buffer.memory", "16000")],
            "Attempt to allocate 16384 bytes, but there is a hard limit of 16000 on memory allocations.",
        );
    }

    #[test]
    fn a_removed_partitioner_is_refused_r_prod_13() {
        for class in ["DefaultPartitioner", "UniformStickyPartitioner"] {
            let class = format!("org.apache.kafka.clients.producer.internals.{class}");
            check_refused(&[("partitioner.class", &class)], "partitioner.class");
        }
    }

    #[test]
    fn a_transactional_id_needs_idempotence_r_txn_30() {
        let id = ("transactional.id", "t");
        let config = read(&[id]).unwrap();
        assert_eq!(config.transactional_id, Some("t".into()));
        assert_eq!(config.transaction_timeout_ms, 60_000);
        for conflict in [("enable.idempotence", "false"), ("acks", "1"), ("retries", "0")] {
            let sentence = "Cannot set a transactional.id without also enabling idempotence.";
            check_conflict(&[id, conflict], sentence);
        }
        let in_flight = "max.in.flight.requests.per.connection";
        check_refused(&[id, (in_flight, "6")], in_flight);
        check_refused(&[("transactional.id", "")], "transactional.id");
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        check_refused(&[("compression.zstd.level", "3")], "compression.zstd.level");
        let two_phase_commit = "transaction.two.phase.commit.enable";
        check_refused(&[(two_phase_commit, "true")], two_phase_commit);
        check_refused(&[("bootstrap.servers", "b")], "bootstrap.servers");
        check_refused(&[("linger", "5")], "linger");
    }
}
