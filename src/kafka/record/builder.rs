//! Builds a record batch (Kafka's `MemoryRecordsBuilder`).
//!
//! **Invariant:** [`BatchBuilder::size_bytes`] is the size of the batch that `finish` returns.

use bytes::{BufMut, BytesMut};

use super::batch::{
    Batch, CONTROL_MASK, HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_SEQUENCE, NO_TIMESTAMP, crc_of, field,
};
use super::fields::{MAX_OVERHEAD, NewRecord};
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Most bytes that a batch of `record` alone can take; a producer makes room for it.
pub fn size_upper_bound(record: &NewRecord<'_>) -> i32 {
    (HEADER_SIZE + MAX_OVERHEAD + record.payload_size()) as i32
}

/// A batch in the making: the header's place, then the records as they will be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchBuilder {
    bytes: BytesMut,
    record_count: i32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        BatchBuilder::new()
    }
}

impl BatchBuilder {
    pub fn new() -> BatchBuilder {
        BatchBuilder {
            bytes: BytesMut::zeroed(HEADER_SIZE),
            record_count: 0,
            base_timestamp_ms: NO_TIMESTAMP,
            max_timestamp_ms: NO_TIMESTAMP,
        }
    }

    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    pub fn size_bytes(&self) -> i32 {
        self.bytes.len() as i32
    }

    /// The exact size with `record` appended.
    pub fn size_with(&self, record: &NewRecord<'_>) -> i32 {
        let timestamp_delta_ms = self.timestamp_delta_ms(record.timestamp_ms);
        self.size_bytes() + record.size(timestamp_delta_ms, self.record_count) as i32
    }

    /// The record's place in the batch, from 0.
    pub fn append(&mut self, record: &NewRecord<'_>) -> i32 {
        let timestamp_delta_ms = self.timestamp_delta_ms(record.timestamp_ms);
        if self.is_empty() {
            self.base_timestamp_ms = record.timestamp_ms;
        }
        self.max_timestamp_ms = self.max_timestamp_ms.max(record.timestamp_ms);
        let offset_delta = self.record_count;
        record.write(timestamp_delta_ms, offset_delta, &mut self.bytes);
        self.record_count += 1;
        offset_delta
    }

    /// The finished batch at base offset 0 without a leader epoch, as a producer sends it; an idempotent producer gives
    /// its id, its epoch and the first record's sequence number.
    ///
    /// Panics if there is no record: no such batch is ever sent (R-LOG-16).
    pub fn finish(mut self, producer: Option<(ProducerId, ProducerEpoch, i32)>) -> Batch {
        assert!(!self.is_empty(), "a batch holds at least one record");
        let (id, epoch, base_sequence) =
            producer.unwrap_or((ProducerId::NONE, ProducerEpoch::NONE, NO_SEQUENCE));
        let size = self.bytes.len();
        let mut header = &mut self.bytes[..HEADER_SIZE];
        header.put_i64(Offset::ZERO.0);
        header.put_i32((size - LOG_OVERHEAD) as i32);
        header.put_i32(LeaderEpoch::NONE.0);
        header.put_i8(MAGIC);
        header.put_u32(0); // the checksum's place
        header.put_i16(0); // attributes: not compressed, CreateTime
        header.put_i32(self.record_count - 1);
        header.put_i64(self.base_timestamp_ms);
        header.put_i64(self.max_timestamp_ms);
        header.put_i64(id.0);
        header.put_i16(epoch.0);
        header.put_i32(base_sequence);
        header.put_i32(self.record_count);
        let crc = crc_of(&self.bytes);
        self.bytes[field::CRC..field::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
        Batch::of(self.bytes.freeze())
    }

    /// The finished batch of a control record, which is for brokers and not for consumers (R-LOG-3).
    pub fn finish_control(self) -> Batch {
        let mut bytes = BytesMut::from(self.finish(None).into_bytes());
        bytes[field::ATTRIBUTES + 1] |= CONTROL_MASK as u8;
        let crc = crc_of(&bytes);
        bytes[field::CRC..field::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
        Batch::of(bytes.freeze())
    }

    fn timestamp_delta_ms(&self, timestamp_ms: i64) -> i64 {
        if self.is_empty() { 0 } else { timestamp_ms.wrapping_sub(self.base_timestamp_ms) }
    }
}
