//! Appends: a leader's, which checks and numbers, and a follower's, which takes what the leader wrote.
//!
//! Mirrors Kafka's `UnifiedLog.append` and `LogValidator`; the checks stand in their order (R-LOG-14).
//!
//! **Invariant:** an append that fails leaves the log as it was.

use bytes::Bytes;

use super::Log;
use super::config::LogConfig;
use super::producer::ProducerError;
use super::segment::RollParams;
use super::verification::Verification;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{
    Batch, BatchBuilder, BatchError, BatchParameters, Compression, NO_TIMESTAMP, TimestampType, split_batches,
};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset, ProducerId};

/// Who wants to append at a leader (`AppendOrigin`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Client,
    /// A group or transaction coordinator on this broker.
    Coordinator,
    /// The end of a transaction, under the coordinator's `transaction.version`.
    TransactionMarker {
        transaction_version: i16,
    },
}

/// Where a leader put a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: Offset,
    pub last_offset: Offset,
    /// The batch was there already; nothing was appended (R-PROD-25).
    pub duplicate: bool,
    /// What a produce response carries: NO_TIMESTAMP under CreateTime, except for a duplicate.
    pub log_append_time_ms: i64,
    pub producer: ProducerId,
    pub base_sequence: i32,
    /// It is of a transaction.
    pub transactional: bool,
    pub log_start_offset: Offset,
}

impl Appended {
    pub fn record_count(&self) -> i64 {
        self.last_offset - self.base_offset + 1
    }

    /// acks=all is met when the high watermark is here (R-REPL-29).
    pub fn next_offset(&self) -> Offset {
        self.last_offset + 1
    }
}

/// The log end before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerAppended {
    pub from: Offset,
    pub to: Offset,
}

/// Why an append was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error("there is no record batch")]
    NoBatch,
    #[error("there is more than one record batch")]
    MoreThanOneBatch,
    #[error("the base offset of a batch should be 0, but it is {0}")]
    BaseOffsetNotZero(Offset),
    #[error("the batch takes {size_bytes} bytes, which exceeds the maximum of {max_message_bytes}")]
    TooLarge { size_bytes: i32, max_message_bytes: i32 },
    #[error("{size_bytes} bytes do not fit into a segment of {segment_bytes}")]
    TooLargeForSegment { size_bytes: i64, segment_bytes: i32 },
    #[error("the batch states {record_count} records and a last offset delta of {last_offset_delta}")]
    Count { record_count: i32, last_offset_delta: i32 },
    #[error("clients are not allowed to write control records")]
    ControlBatch,
    #[error("invalid sequence number {0} in a batch with a producer id")]
    NegativeSequence(i32),
    /// Every record that is at fault; the whole batch is refused (R-LOG-20).
    #[error("{} records have been rejected, the first of them: {}", .0.len(), .0[0])]
    Records(Vec<RecordError>),
    #[error(transparent)]
    Producer(#[from] ProducerError),
    #[error("first offset {first} is less than the next offset {log_end_offset}")]
    BelowLogEnd { first: Offset, last: Offset, log_end_offset: Offset },
    #[error("a batch ends at offset {0}, which does not follow the batch before it")]
    OutOfOrder(Offset),
    #[error("a batch from a leader has no leader epoch")]
    NoLeaderEpoch,
}

impl AppendError {
    /// Whether the bytes are at fault, which may come otherwise when they are read once more (`CorruptRecordException`,
    /// `InvalidRecordException`); else they do not fit this log.
    pub fn is_of_the_bytes(&self) -> bool {
        matches!(self, AppendError::Batch(_))
    }
}

/// One record that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {batch_index}: {fault}")]
pub struct RecordError {
    /// Its place in the batch.
    pub batch_index: i32,
    pub fault: RecordFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    #[error("compacted topic cannot accept message without key")]
    NoKey,
    #[error("timestamp {timestamp_ms} is out of range at {now_ms}")]
    TimestampOutOfRange { timestamp_ms: i64, now_ms: i64 },
    #[error("producer should not set timestamp type to LogAppendTime")]
    LogAppendTimeFromClient,
}

impl AppendError {
    /// What Kafka answers with.
    pub fn code(&self) -> ErrorCode {
        match self {
            AppendError::Batch(error) => error.code(),
            AppendError::TooLarge { .. } => ErrorCode::MessageTooLarge,
            AppendError::Records(errors) if errors.iter().any(|error| error.fault != RecordFault::NoKey) => {
                ErrorCode::InvalidTimestamp
            }
            AppendError::NoBatch
            | AppendError::MoreThanOneBatch
            | AppendError::BaseOffsetNotZero(_)
            | AppendError::Count { .. }
            | AppendError::ControlBatch
            | AppendError::NegativeSequence(_)
            | AppendError::Records(_) => ErrorCode::InvalidRecord,
            AppendError::TooLargeForSegment { .. } => ErrorCode::RecordListTooLarge,
            AppendError::Producer(error) => error.code(),
            AppendError::BelowLogEnd { .. } | AppendError::OutOfOrder(_) | AppendError::NoLeaderEpoch => {
                ErrorCode::UnknownServerError
            }
        }
    }

    /// The `record_errors` of a produce response.
    pub fn record_errors(&self) -> &[RecordError] {
        match self {
            AppendError::Records(errors) => errors,
            _ => &[],
        }
    }
}

impl Log {
    /// Appends the one batch that `records` holds: checks it, gives it its offsets and the leader's epoch, and stores it,
    /// unless its producer sent it before (R-LOG-14 to R-LOG-22, R-PROD-25).
    pub fn append_as_leader(
        &mut self,
        now: Time,
        records: Bytes,
        leader_epoch: LeaderEpoch,
        origin: Origin,
        config: &LogConfig,
    ) -> Result<Appended, AppendError> {
        self.append_verified(now, records, leader_epoch, (origin, Verification::Off), config)
    }

    /// The same where transactional batches have to be known to the coordinator (R-TXN-14).
    pub fn append_verified(
        &mut self,
        now: Time,
        records: Bytes,
        leader_epoch: LeaderEpoch,
        (origin, verification): (Origin, Verification),
        config: &LogConfig,
    ) -> Result<Appended, AppendError> {
        let batch = only_batch(records)?;
        check_batch(&batch, origin, config)?;
        let checked = check_records(&batch, now, config)?;
        let (producer, base_sequence) = (batch.producer_id(), batch.base_sequence());
        let transactional = batch.is_transactional();
        let base_offset = self.log_end_offset;
        let stored = placed(batch, &checked, base_offset, leader_epoch, config)?;
        let max_timestamp_ms = checked.append_time_ms.unwrap_or(checked.max_timestamp_ms);
        self.make_room(std::slice::from_ref(&stored), max_timestamp_ms, now, config)?;
        if producer.is_some() {
            let known = self.producers.duplicate_of(&stored).filter(|_| origin == Origin::Client);
            match known {
                Some(_) if plant::is(Plant::DedupeOff) => {}
                Some(known) => {
                    return Ok(Appended {
                        base_offset: known.base_offset,
                        last_offset: known.last_offset,
                        duplicate: true,
                        log_append_time_ms: known.timestamp_ms,
                        producer,
                        base_sequence,
                        transactional,
                        log_start_offset: self.log_start_offset,
                    });
                }
                None => {
                    self.producers.check_verified(&stored, verification)?;
                    self.producers.check(&stored, origin)?;
                }
            }
        }
        let last_offset = stored.last_offset();
        self.push(stored, now, config)?;
        self.flush_if_due(now, config);
        Ok(Appended {
            base_offset,
            last_offset,
            duplicate: false,
            log_append_time_ms: checked.append_time_ms.unwrap_or(NO_TIMESTAMP),
            producer,
            base_sequence,
            transactional,
            log_start_offset: self.log_start_offset,
        })
    }

    /// Appends what a leader's fetch response holds, as it is. A batch of a later epoch than `current_leader_epoch` is
    /// left out with everything after it (R-LOG-24).
    pub fn append_as_follower(
        &mut self,
        now: Time,
        records: Bytes,
        current_leader_epoch: LeaderEpoch,
        config: &LogConfig,
    ) -> Result<FollowerAppended, AppendError> {
        let from = self.log_end_offset;
        let mut batches = Vec::new();
        let mut next_offset = from;
        for batch in split_batches(records) {
            let batch = batch?;
            if batch.leader_epoch() > current_leader_epoch {
                break;
            }
            check_replicated(&batch, batches.is_empty(), next_offset)?;
            next_offset = batch.next_offset();
            batches.push(batch);
        }
        let max_timestamp_ms = batches.iter().map(Batch::max_timestamp_ms).max().unwrap_or(NO_TIMESTAMP);
        self.make_room(&batches, max_timestamp_ms, now, config)?;
        for batch in batches {
            self.push(batch, now, config)?;
        }
        self.flush_if_due(now, config);
        Ok(FollowerAppended { from, to: self.log_end_offset })
    }

    /// Rolls a new segment if the active one cannot or shall not take the batches (R-LOG-8, R-LOG-11, R-LOG-13).
    fn make_room(
        &mut self,
        batches: &[Batch],
        max_timestamp_ms: i64,
        now: Time,
        config: &LogConfig,
    ) -> Result<(), AppendError> {
        let (Some(first), Some(last)) = (batches.first(), batches.last()) else { return Ok(()) };
        let size_bytes = batches.iter().map(|batch| i64::from(batch.size_bytes())).sum();
        let segment_bytes = config.segment_bytes;
        if size_bytes > i64::from(segment_bytes) {
            return Err(AppendError::TooLargeForSegment { size_bytes, segment_bytes });
        }
        let now_ms = now.wall_ms();
        let append = RollParams { max_timestamp_ms, last_offset: last.last_offset(), size_bytes, now_ms };
        if self.segments.active().should_roll(append, config) {
            self.roll(first.base_offset(), now);
        }
        Ok(())
    }
}

fn only_batch(records: Bytes) -> Result<Batch, AppendError> {
    let mut batches = split_batches(records);
    let batch = batches.next().ok_or(AppendError::NoBatch)??;
    match batches.next() {
        None => Ok(batch),
        Some(_) => Err(AppendError::MoreThanOneBatch),
    }
}

/// The header (R-LOG-15, R-LOG-16).
fn check_batch(batch: &Batch, origin: Origin, config: &LogConfig) -> Result<(), AppendError> {
    let is_client = origin == Origin::Client;
    if is_client && batch.base_offset() != Offset::ZERO {
        return Err(AppendError::BaseOffsetNotZero(batch.base_offset()));
    }
    check_size(batch, config)?;
    batch.check_crc()?;
    let (record_count, last_offset_delta) = (batch.record_count(), batch.last_offset_delta());
    if record_count <= 0 || record_count - 1 != last_offset_delta {
        return Err(AppendError::Count { record_count, last_offset_delta });
    }
    if is_client && batch.is_control() {
        return Err(AppendError::ControlBatch);
    }
    if is_client && batch.producer_id().is_some() && batch.base_sequence() < 0 {
        return Err(AppendError::NegativeSequence(batch.base_sequence()));
    }
    Ok(())
}

/// `max.message.bytes` is of the batch with its header, compressed as it is (R-LOG-15).
fn check_size(batch: &Batch, config: &LogConfig) -> Result<(), AppendError> {
    let (size_bytes, max_message_bytes) = (batch.size_bytes(), config.max_message_bytes);
    if size_bytes > max_message_bytes {
        return Err(AppendError::TooLarge { size_bytes, max_message_bytes });
    }
    Ok(())
}

/// What the records' check found out.
struct Checked {
    max_timestamp_ms: i64,
    /// Under LogAppendTime.
    append_time_ms: Option<i64>,
    /// The records' offsets follow each other from 0.
    is_dense: bool,
}

/// The records (R-LOG-19, R-LOG-20, R-LOG-22).
fn check_records(batch: &Batch, now: Time, config: &LogConfig) -> Result<Checked, AppendError> {
    let mut max_timestamp_ms = NO_TIMESTAMP;
    let mut is_dense = true;
    let mut errors = Vec::new();
    let block = batch.block()?;
    for (batch_index, raw) in (0..).zip(block.raw_records()) {
        let raw = raw?;
        let timestamp_ms = batch.timestamp_of(&raw);
        max_timestamp_ms = max_timestamp_ms.max(timestamp_ms);
        is_dense &= raw.offset_delta == batch_index;
        let fault = if config.compacted && raw.key.is_none() {
            Some(RecordFault::NoKey)
        } else {
            timestamp_fault(timestamp_ms, batch.timestamp_type(), now.wall_ms(), config)
        };
        errors.extend(fault.map(|fault| RecordError { batch_index, fault }));
    }
    if !errors.is_empty() {
        return Err(AppendError::Records(errors));
    }
    let append_time_ms = config.log_append_time.then(|| now.wall_ms());
    Ok(Checked { max_timestamp_ms, append_time_ms, is_dense })
}

/// The batch at its place in the log: patched where it lies, or built anew if it is to be compressed in another way
/// (R-LOG-17, R-LOG-18, R-LOG-21).
fn placed(
    batch: Batch,
    checked: &Checked,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    config: &LogConfig,
) -> Result<Batch, AppendError> {
    let source = batch.compression()?;
    let target = config.compression.unwrap_or(source);
    let stays_plain = source == Compression::None && (target == Compression::None || batch.is_control());
    if stays_plain || (source == target && checked.is_dense) {
        let (timestamp_type, max_timestamp_ms) = match checked.append_time_ms {
            Some(append_time_ms) => (TimestampType::LogAppendTime, append_time_ms),
            None => (TimestampType::CreateTime, checked.max_timestamp_ms),
        };
        return Ok(batch
            .with_assigned(base_offset, leader_epoch)
            .with_max_timestamp(timestamp_type, max_timestamp_ms));
    }
    let mut builder = BatchBuilder::with(BatchParameters {
        base_offset,
        leader_epoch,
        compression: target,
        append_time_ms: checked.append_time_ms,
        ..BatchParameters::of(&batch)
    });
    for record in batch.records()? {
        builder.append(&record.as_new());
    }
    let built = builder.build();
    check_size(&built, config)?;
    Ok(built)
}

fn timestamp_fault(
    timestamp_ms: i64,
    timestamp_type: TimestampType,
    now_ms: i64,
    config: &LogConfig,
) -> Option<RecordFault> {
    if !config.log_append_time && timestamp_ms != NO_TIMESTAMP {
        let out_of_range = now_ms.saturating_sub(timestamp_ms) > config.timestamp_before_max_ms
            || timestamp_ms.saturating_sub(now_ms) > config.timestamp_after_max_ms;
        out_of_range.then_some(RecordFault::TimestampOutOfRange { timestamp_ms, now_ms })
    } else {
        (timestamp_type == TimestampType::LogAppendTime).then_some(RecordFault::LogAppendTimeFromClient)
    }
}

/// A batch from a leader: whole, numbered, and behind what is there. Gaps are what compaction leaves.
fn check_replicated(batch: &Batch, is_first: bool, next_offset: Offset) -> Result<(), AppendError> {
    batch.check_crc()?;
    if batch.is_control() && batch.producer_id().is_some() {
        batch.end_transaction_marker()?;
    }
    if batch.leader_epoch() < LeaderEpoch(0) {
        return Err(AppendError::NoLeaderEpoch);
    }
    let (first, last) = (batch.base_offset(), batch.last_offset());
    if is_first && first < next_offset {
        return Err(AppendError::BelowLogEnd { first, last, log_end_offset: next_offset });
    }
    if first < next_offset || last < first || last == Offset(i64::MAX) {
        return Err(AppendError::OutOfOrder(last));
    }
    Ok(())
}
