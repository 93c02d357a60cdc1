//! What the histories of a log have in common: its offsets, its clock, and the names of Kafka's exceptions.
//!
//! **Invariant:** the clock moves only where a step says so.

use serde::Deserialize;

use crate::kafka::log::{Isolation, Log, LogConfig};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, BatchBuilder, BatchParameters, EndTransactionMarker, NewRecord};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, ProducerEpoch, ProducerId};

pub(super) const EPOCH: LeaderEpoch = LeaderEpoch(0);

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Offsets {
    pub(super) log_start: i64,
    pub(super) log_end: i64,
    pub(super) high_watermark: i64,
    pub(super) last_stable: i64,
}

impl Offsets {
    pub(super) fn of(log: &Log) -> Offsets {
        Offsets {
            log_start: log.log_start_offset().0,
            log_end: log.log_end_offset().0,
            high_watermark: log.high_watermark().0,
            last_stable: log.last_stable_offset().0,
        }
    }
}

pub(super) fn at_wall_ms(wall_ms: i64) -> Time {
    Time::ZERO.plus_ms(wall_ms - Time::ZERO.wall_ms())
}

/// Kafka's exception for a code.
pub(super) fn exception(code: ErrorCode) -> String {
    match code {
        ErrorCode::CorruptMessage => "CorruptRecordException",
        ErrorCode::InvalidProducerEpoch => "InvalidProducerEpochException",
        ErrorCode::InvalidTimestamp => "InvalidTimestampException",
        ErrorCode::MessageTooLarge => "RecordTooLargeException",
        ErrorCode::OutOfOrderSequenceNumber => "OutOfOrderSequenceException",
        ErrorCode::RecordListTooLarge => "RecordBatchTooLargeException",
        ErrorCode::TransactionCoordinatorFenced => "TransactionCoordinatorFencedException",
        code => code.name(),
    }
    .to_owned()
}

/// Who writes, and in which way.
#[derive(Clone, Copy)]
pub(super) struct Writer {
    pub(super) pid: i64,
    pub(super) epoch: i16,
    pub(super) sequence: i32,
    pub(super) transactional: bool,
}

/// A batch of `count` records of 16 bytes, which the sizes of segments ask for; without a writer, of a producer without
/// guarantees.
pub(super) fn batch_of(count: i64, timestamp_ms: i64, writer: Option<Writer>) -> Batch {
    let parameters = writer.map_or(BatchParameters::default(), |writer| BatchParameters {
        producer_id: ProducerId(writer.pid),
        producer_epoch: ProducerEpoch(writer.epoch),
        base_sequence: writer.sequence,
        transactional: writer.transactional,
        ..BatchParameters::default()
    });
    let mut builder = BatchBuilder::with(parameters);
    for _ in 0..count {
        builder.append(&NewRecord { timestamp_ms, value: Some(b"123456789"), ..NewRecord::default() });
    }
    builder.build()
}

pub(super) fn marker_of(
    (pid, epoch): (i64, i16),
    kind: &str,
    coordinator_epoch: i32,
    timestamp_ms: i64,
) -> Batch {
    let parameters = BatchParameters {
        producer_id: ProducerId(pid),
        producer_epoch: ProducerEpoch(epoch),
        ..BatchParameters::default()
    };
    EndTransactionMarker { committed: kind == "COMMIT", coordinator_epoch }.batch(parameters, timestamp_ms)
}

/// Records of any age are taken: these histories are not about timestamps.
pub(super) fn config() -> LogConfig {
    LogConfig { timestamp_after_max_ms: i64::MAX, ..LogConfig::default() }
}

pub(super) fn isolation(name: &str) -> Isolation {
    if name == "read_committed" { Isolation::TxnCommitted } else { Isolation::HighWatermark }
}
