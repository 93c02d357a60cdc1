//! Broker configs of transactions (`TransactionStateManagerConfig`, `TransactionLogConfig`, `AddPartitionsToTxnConfig`).

use super::{Key, Kind, Values};

pub const TRANSACTION_KEYS: &[Key] = &[
    Key {
        name: "add.partitions.to.txn.retry.backoff.max.ms",
        default: "100",
        kind: Kind::int_from(0),
        doc: "For how long a leader tries to add its partition to a transaction whose last one is not over.",
    },
    Key {
        name: "add.partitions.to.txn.retry.backoff.ms",
        default: "20",
        kind: Kind::int_from(1),
        doc: "How long a leader waits before it tries again.",
    },
    Key {
        name: "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default: "10000",
        kind: Kind::int_from(1),
        doc: "How often the coordinator looks for transactions that took too long.",
    },
    Key {
        name: "transaction.max.timeout.ms",
        default: "900000",
        kind: Kind::int_from(1),
        doc: "The longest transaction.timeout.ms that a producer may have.",
    },
    Key {
        name: "transaction.partition.verification.enable",
        default: "true",
        kind: Kind::Boolean,
        doc: "Whether a leader appends only what is of a transaction that the coordinator knows.",
    },
    Key {
        name: "transaction.remove.expired.transaction.cleanup.interval.ms",
        default: "3600000",
        kind: Kind::int_from(1),
        doc: "How often the coordinator looks for transactional ids that were not used for long.",
    },
    Key {
        name: "transaction.state.log.min.isr",
        default: "2",
        kind: Kind::int_from(1),
        doc: "min.insync.replicas of __transaction_state.",
    },
    Key {
        name: "transaction.state.log.num.partitions",
        default: "50",
        kind: Kind::int_from(1),
        doc: "Partitions of __transaction_state.",
    },
    Key {
        name: "transaction.state.log.replication.factor",
        default: "3",
        kind: Kind::short_from(1),
        doc: "Replicas of __transaction_state.",
    },
    Key {
        name: "transaction.state.log.segment.bytes",
        default: "104857600",
        kind: Kind::int_from(1),
        doc: "segment.bytes of __transaction_state.",
    },
    Key {
        name: "transactional.id.expiration.ms",
        default: "604800000",
        kind: Kind::int_from(1),
        doc: "For how long a transactional id that is not used is remembered.",
    },
];

/// What [`TRANSACTION_KEYS`] say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionSettings {
    pub retry_backoff_max_ms: i64,
    pub retry_backoff_ms: i64,
    pub abort_timed_out_interval_ms: i64,
    pub max_timeout_ms: i32,
    pub partition_verification_enable: bool,
    pub remove_expired_interval_ms: i64,
    pub state_log_min_isr: i32,
    pub state_log_num_partitions: i32,
    pub state_log_replication_factor: i16,
    pub state_log_segment_bytes: i32,
    pub transactional_id_expiration_ms: i64,
}

impl TransactionSettings {
    pub(super) fn of(v: &Values) -> TransactionSettings {
        TransactionSettings {
            retry_backoff_max_ms: v.integer("add.partitions.to.txn.retry.backoff.max.ms"),
            retry_backoff_ms: v.integer("add.partitions.to.txn.retry.backoff.ms"),
            abort_timed_out_interval_ms: v
                .integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            max_timeout_ms: v.int("transaction.max.timeout.ms"),
            partition_verification_enable: v.boolean("transaction.partition.verification.enable"),
            remove_expired_interval_ms: v
                .integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
            state_log_min_isr: v.int("transaction.state.log.min.isr"),
            state_log_num_partitions: v.int("transaction.state.log.num.partitions"),
            state_log_replication_factor: v.int("transaction.state.log.replication.factor") as i16,
            state_log_segment_bytes: v.int("transaction.state.log.segment.bytes"),
            transactional_id_expiration_ms: v.integer("transactional.id.expiration.ms"),
        }
    }
}
