//! Builds a record batch (Kafka's `MemoryRecordsBuilder`).
//!
//! **Invariant:** without compression, [`BatchBuilder::size_bytes`] is the size of the batch that `finish` returns.

use bytes::{BufMut, BytesMut};

use super::batch::{
    Batch, CONTROL_MASK, DELETE_HORIZON_MASK, HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_SEQUENCE, NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK, TRANSACTIONAL_MASK, TimestampType, crc_of, field,
};
use super::compression::Compression;
use super::fields::{MAX_OVERHEAD, NewRecord};
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Most bytes that a batch of `record` alone can take; a producer makes room for it.
pub fn size_upper_bound(record: &NewRecord<'_>) -> i32 {
    (HEADER_SIZE + MAX_OVERHEAD + record.payload_size()) as i32
}

/// What a batch says beyond its records. The default is what a producer without any guarantee sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchParameters {
    pub base_offset: Offset,
    pub leader_epoch: LeaderEpoch,
    pub compression: Compression,
    /// `compression.gzip.level`, 1 to 9; `None` for the codec's own.
    pub gzip_level: Option<u32>,
    /// When the broker appended it, under LogAppendTime.
    pub append_time_ms: Option<i64>,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    pub transactional: bool,
    pub control: bool,
    /// When compaction may drop its tombstones (R-LOG-42).
    pub delete_horizon_ms: Option<i64>,
}

impl Default for BatchParameters {
    fn default() -> Self {
        BatchParameters {
            base_offset: Offset::ZERO,
            leader_epoch: LeaderEpoch::NONE,
            compression: Compression::None,
            gzip_level: None,
            append_time_ms: None,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: NO_SEQUENCE,
            transactional: false,
            control: false,
            delete_horizon_ms: None,
        }
    }
}

impl BatchParameters {
    /// Those of a batch that is there, but for compression: a batch that is built anew starts plain.
    pub fn of(batch: &Batch) -> BatchParameters {
        let is_append_time = batch.timestamp_type() == TimestampType::LogAppendTime;
        BatchParameters {
            base_offset: batch.base_offset(),
            leader_epoch: batch.leader_epoch(),
            compression: Compression::None,
            gzip_level: None,
            append_time_ms: is_append_time.then(|| batch.max_timestamp_ms()),
            producer_id: batch.producer_id(),
            producer_epoch: batch.producer_epoch(),
            base_sequence: batch.base_sequence(),
            transactional: batch.is_transactional(),
            control: batch.is_control(),
            delete_horizon_ms: batch.delete_horizon_ms(),
        }
    }

    fn attributes(&self) -> i16 {
        let flag = |set: bool, mask: i16| if set { mask } else { 0 };
        self.compression as i16
            | flag(self.append_time_ms.is_some(), TIMESTAMP_TYPE_MASK)
            | flag(self.transactional, TRANSACTIONAL_MASK)
            | flag(self.control, CONTROL_MASK)
            | flag(self.delete_horizon_ms.is_some(), DELETE_HORIZON_MASK)
    }
}

impl Batch {
    /// The header alone, as compaction leaves it (R-LOG-44).
    pub fn emptied(&self) -> Batch {
        let parameters = BatchParameters { delete_horizon_ms: None, ..BatchParameters::of(self) };
        BatchBuilder::with(parameters).build_empty(self.last_offset_delta(), self.max_timestamp_ms())
    }
}

/// A batch in the making: the header's place, then the records as they will be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchBuilder {
    parameters: BatchParameters,
    bytes: BytesMut,
    record_count: i32,
    last_offset_delta: i32,
    /// The first record's timestamp, or the delete horizon.
    base_timestamp_ms: Option<i64>,
    max_timestamp_ms: i64,
    /// The records are compressed already.
    closed: bool,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder::new()
    }
}

impl BatchBuilder {
    pub fn new() -> BatchBuilder {
        BatchBuilder::with(BatchParameters::default())
    }

    /// Panics if the codec is not compiled in.
    pub fn with(parameters: BatchParameters) -> BatchBuilder {
        assert!(parameters.compression.is_supported(), "{} is not compiled in", parameters.compression);
        BatchBuilder {
            bytes: BytesMut::zeroed(HEADER_SIZE),
            record_count: 0,
            last_offset_delta: -1,
            base_timestamp_ms: parameters.delete_horizon_ms,
            max_timestamp_ms: NO_TIMESTAMP,
            closed: false,
            parameters,
        }
    }

    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Before compression, or after it once the builder is closed.
    pub fn size_bytes(&self) -> i32 {
        self.bytes.len() as i32
    }

    /// The exact size with `record` appended, before compression.
    pub fn size_with(&self, record: &NewRecord<'_>) -> i32 {
        let timestamp_delta_ms = self.timestamp_delta_ms(record.timestamp_ms);
        self.size_bytes() + record.size(timestamp_delta_ms, self.last_offset_delta + 1) as i32
    }

    /// The record's place in the batch, from 0.
    pub fn append(&mut self, record: &NewRecord<'_>) -> i32 {
        let offset_delta = self.last_offset_delta + 1;
        self.append_at(offset_delta, record);
        offset_delta
    }

    /// Puts the record at base offset + `offset_delta`, as compaction does, which leaves gaps.
    ///
    /// Panics if that is not behind the record before it.
    pub fn append_at(&mut self, offset_delta: i32, record: &NewRecord<'_>) {
        assert!(offset_delta > self.last_offset_delta && !self.closed, "offsets ascend, until it is closed");
        let timestamp_delta_ms = self.timestamp_delta_ms(record.timestamp_ms);
        self.base_timestamp_ms.get_or_insert(record.timestamp_ms);
        self.max_timestamp_ms = self.max_timestamp_ms.max(record.timestamp_ms);
        record.write(timestamp_delta_ms, offset_delta, &mut self.bytes);
        self.record_count += 1;
        self.last_offset_delta = offset_delta;
    }

    /// Compresses the records; there will be no more.
    pub fn close(&mut self) {
        let BatchParameters { compression, gzip_level, .. } = self.parameters;
        if compression != Compression::None && !self.closed {
            let block = compression.compress(&self.bytes[HEADER_SIZE..], gzip_level);
            self.bytes.truncate(HEADER_SIZE);
            self.bytes.extend_from_slice(&block);
        }
        self.closed = true;
    }

    /// Marks the batch as part of a transaction, or of none.
    pub fn transactional(mut self, transactional: bool) -> BatchBuilder {
        self.parameters.transactional = transactional;
        self
    }

    /// The finished batch as a producer sends it; an idempotent producer gives its id, its epoch and the first record's
    /// sequence number.
    ///
    /// Panics if there is no record: no such batch is ever sent (R-LOG-16).
    pub fn finish(mut self, producer: Option<(ProducerId, ProducerEpoch, i32)>) -> Batch {
        if let Some((id, epoch, base_sequence)) = producer {
            self.parameters.producer_id = id;
            self.parameters.producer_epoch = epoch;
            self.parameters.base_sequence = base_sequence;
        }
        self.build()
    }

    /// The finished batch with the parameters that the builder was made with.
    ///
    /// Panics if there is no record.
    pub fn build(mut self) -> Batch {
        assert!(!self.is_empty(), "a batch holds at least one record");
        self.close();
        self.seal()
    }

    /// The finished batch up to `last_offset_delta`, which may lie behind the last record: what compaction leaves.
    ///
    /// Panics if there is no record, or one behind that.
    pub fn build_up_to(mut self, last_offset_delta: i32) -> Batch {
        assert!(last_offset_delta >= self.last_offset_delta, "no record lies behind the last offset");
        self.last_offset_delta = last_offset_delta;
        self.build()
    }

    /// A header without records, which keeps a place in the log and a producer's sequence number (R-LOG-44).
    ///
    /// Panics if there is a record.
    pub fn build_empty(mut self, last_offset_delta: i32, max_timestamp_ms: i64) -> Batch {
        assert!(self.is_empty(), "an empty batch has no record");
        self.last_offset_delta = last_offset_delta;
        self.max_timestamp_ms = max_timestamp_ms;
        self.seal()
    }

    fn seal(mut self) -> Batch {
        let parameters = &self.parameters;
        let size = self.bytes.len();
        let mut header = &mut self.bytes[..HEADER_SIZE];
        header.put_i64(parameters.base_offset.0);
        header.put_i32((size - LOG_OVERHEAD) as i32);
        header.put_i32(parameters.leader_epoch.0);
        header.put_i8(MAGIC);
        header.put_u32(0); // the checksum's place
        header.put_i16(parameters.attributes());
        header.put_i32(self.last_offset_delta);
        header.put_i64(self.base_timestamp_ms.unwrap_or(NO_TIMESTAMP));
        header.put_i64(parameters.append_time_ms.unwrap_or(self.max_timestamp_ms));
        header.put_i64(parameters.producer_id.0);
        header.put_i16(parameters.producer_epoch.0);
        header.put_i32(parameters.base_sequence);
        header.put_i32(self.record_count);
        let crc = crc_of(&self.bytes);
        self.bytes[field::CRC..field::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
        Batch::of(self.bytes.freeze())
    }

    fn timestamp_delta_ms(&self, timestamp_ms: i64) -> i64 {
        self.base_timestamp_ms.map_or(0, |base| timestamp_ms.wrapping_sub(base))
    }
}
