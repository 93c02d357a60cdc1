//! One record batch as its bytes (R-LOG-1 to R-LOG-3, Kafka's `DefaultRecordBatch`).
//!
//! **Invariant:** the bytes hold a whole header and exactly the length that it states; the checksum is another matter
//! ([`Batch::check_crc`]), since a broker checks it only where it takes bytes in.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::block::Block;
use super::compression::Compression;
use super::error::BatchError;
use super::fields::{RawRecord, Record};
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Bytes before the first record.
pub const HEADER_SIZE: usize = 61;
/// Base offset and length, which the length does not count.
pub(super) const LOG_OVERHEAD: usize = 12;
pub(super) const MAGIC: i8 = 2;
pub const NO_SEQUENCE: i32 = -1;
pub const NO_TIMESTAMP: i64 = -1;

/// Where each field of the header starts.
pub(super) mod field {
    pub const BASE_OFFSET: usize = 0;
    pub const LENGTH: usize = 8;
    pub const LEADER_EPOCH: usize = 12;
    pub const MAGIC: usize = 16;
    pub const CRC: usize = 17;
    pub const ATTRIBUTES: usize = 21;
    pub const LAST_OFFSET_DELTA: usize = 23;
    pub const BASE_TIMESTAMP: usize = 27;
    pub const MAX_TIMESTAMP: usize = 35;
    pub const PRODUCER_ID: usize = 43;
    pub const PRODUCER_EPOCH: usize = 51;
    pub const BASE_SEQUENCE: usize = 53;
    pub const RECORD_COUNT: usize = 57;
}

const COMPRESSION_MASK: i16 = 0x07;
pub(super) const TIMESTAMP_TYPE_MASK: i16 = 0x08;
pub(super) const TRANSACTIONAL_MASK: i16 = 0x10;
pub(super) const CONTROL_MASK: i16 = 0x20;
pub(super) const DELETE_HORIZON_MASK: i16 = 0x40;

/// Whose clock a record's timestamp is from (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// A record batch. A clone shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    bytes: Bytes,
}

impl Batch {
    pub(super) fn of(bytes: Bytes) -> Batch {
        assert!(bytes.len() >= HEADER_SIZE, "a batch has a whole header");
        Batch { bytes }
    }

    /// The size, header and all, that the batch at the start of `buffer` states; `None` if too little of it is there to
    /// say.
    pub fn stated_size(buffer: &[u8]) -> Result<Option<usize>, BatchError> {
        if buffer.len() < LOG_OVERHEAD {
            return Ok(None);
        }
        // Kafka bounds the length by the smallest message of any format first and by format 2's header last.
        const SMALLEST_MESSAGE: i32 = 14;
        let length = (&buffer[field::LENGTH..]).get_i32();
        if length < SMALLEST_MESSAGE {
            return Err(BatchError::TooSmall(length));
        }
        match buffer.get(field::MAGIC).map(|magic| *magic as i8) {
            None => Ok(None),
            Some(MAGIC) => Ok(Some(LOG_OVERHEAD + length as usize)),
            Some(magic) => Err(BatchError::Magic(magic)),
        }
    }

    /// Takes the next batch off `buffer`, which is left as it was if there is none.
    pub fn parse(buffer: &mut Bytes) -> Result<Batch, BatchError> {
        match Batch::stated_size(buffer)? {
            Some(size) if size <= buffer.len() => {
                if size < HEADER_SIZE {
                    return Err(BatchError::TooSmall((size - LOG_OVERHEAD) as i32));
                }
                Ok(Batch::of(buffer.split_to(size)))
            }
            _ => Err(BatchError::Incomplete),
        }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// With the header.
    pub fn size_bytes(&self) -> i32 {
        self.bytes.len() as i32
    }

    pub fn base_offset(&self) -> Offset {
        Offset((&self.bytes[field::BASE_OFFSET..]).get_i64())
    }

    /// The leader's epoch when it appended the batch; NONE in what a producer sends.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch((&self.bytes[field::LEADER_EPOCH..]).get_i32())
    }

    /// As stored.
    pub fn crc(&self) -> u32 {
        (&self.bytes[field::CRC..]).get_u32()
    }

    pub fn attributes(&self) -> i16 {
        (&self.bytes[field::ATTRIBUTES..]).get_i16()
    }

    pub fn last_offset_delta(&self) -> i32 {
        (&self.bytes[field::LAST_OFFSET_DELTA..]).get_i32()
    }

    /// The first record's timestamp, or the delete horizon ([`Batch::delete_horizon_ms`]).
    pub fn base_timestamp_ms(&self) -> i64 {
        (&self.bytes[field::BASE_TIMESTAMP..]).get_i64()
    }

    pub fn max_timestamp_ms(&self) -> i64 {
        (&self.bytes[field::MAX_TIMESTAMP..]).get_i64()
    }

    pub fn producer_id(&self) -> ProducerId {
        ProducerId((&self.bytes[field::PRODUCER_ID..]).get_i64())
    }

    pub fn producer_epoch(&self) -> ProducerEpoch {
        ProducerEpoch((&self.bytes[field::PRODUCER_EPOCH..]).get_i16())
    }

    pub fn base_sequence(&self) -> i32 {
        (&self.bytes[field::BASE_SEQUENCE..]).get_i32()
    }

    pub fn record_count(&self) -> i32 {
        (&self.bytes[field::RECORD_COUNT..]).get_i32()
    }

    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset().0.wrapping_add(self.last_offset_delta().into()))
    }

    /// The offset that follows the batch.
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.wrapping_add(1))
    }

    /// The last record's sequence number; NO_SEQUENCE if the batch has none (R-LOG-2).
    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence() {
            NO_SEQUENCE => NO_SEQUENCE,
            base => increment_sequence(base, self.last_offset_delta()),
        }
    }

    pub fn compression(&self) -> Result<Compression, BatchError> {
        let codec = self.attributes() & COMPRESSION_MASK;
        Compression::of_id(codec).ok_or(BatchError::UnknownCompression(codec))
    }

    pub fn timestamp_type(&self) -> TimestampType {
        match self.attributes() & TIMESTAMP_TYPE_MASK {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        }
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes() & TRANSACTIONAL_MASK != 0
    }

    pub fn is_control(&self) -> bool {
        self.attributes() & CONTROL_MASK != 0
    }

    /// When compaction may drop the batch's tombstones (R-LOG-42).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes() & DELETE_HORIZON_MASK != 0).then(|| self.base_timestamp_ms())
    }

    /// Compares the stored checksum with the bytes.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let (stored, computed) = (self.crc(), crc_of(&self.bytes));
        if stored == computed { Ok(()) } else { Err(BatchError::Crc { stored, computed }) }
    }

    /// The part behind the header, as it is in the bytes.
    pub fn body(&self) -> Bytes {
        self.bytes.slice(HEADER_SIZE..)
    }

    /// The records where they lie, decompressed if need be.
    pub fn block(&self) -> Result<Block, BatchError> {
        let bytes = self.compression()?.decompress(&self.body())?;
        Ok(Block { bytes, count: self.record_count() })
    }

    /// The records; keys and values share the batch's bytes, or the decompressed ones.
    pub fn records(&self) -> Result<Vec<Record>, BatchError> {
        let block = self.block()?;
        block.raw_records().map(|raw| self.record(&block, &raw?)).collect()
    }

    /// A record's timestamp: the append time if the broker sets it (R-LOG-2).
    pub fn timestamp_of(&self, raw: &RawRecord<'_>) -> i64 {
        match self.timestamp_type() {
            TimestampType::CreateTime => self.base_timestamp_ms().wrapping_add(raw.timestamp_delta_ms),
            TimestampType::LogAppendTime => self.max_timestamp_ms(),
        }
    }

    fn record(&self, block: &Block, raw: &RawRecord<'_>) -> Result<Record, BatchError> {
        let share = |part: &[u8]| block.bytes.slice_ref(part);
        Ok(Record {
            offset: Offset(self.base_offset().0.wrapping_add(raw.offset_delta.into())),
            timestamp_ms: self.timestamp_of(raw),
            key: raw.key.map(share),
            value: raw.value.map(share),
            headers: raw.headers_in(&block.bytes).ok_or(BatchError::Record { index: raw.offset_delta })?,
        })
    }

    /// A record's sequence number; NO_SEQUENCE if the batch has none (R-LOG-2).
    pub fn sequence_of(&self, record: &Record) -> i32 {
        match self.base_sequence() {
            base if base < 0 => NO_SEQUENCE,
            base => increment_sequence(base, (record.offset - self.base_offset()) as i32),
        }
    }

    /// The batch at its place in a log. The checksum does not cover either field (R-LOG-3).
    pub fn with_assigned(self, base_offset: Offset, leader_epoch: LeaderEpoch) -> Batch {
        self.patched(|bytes| {
            bytes[field::BASE_OFFSET..field::LENGTH].copy_from_slice(&base_offset.0.to_be_bytes());
            bytes[field::LEADER_EPOCH..field::MAGIC].copy_from_slice(&leader_epoch.0.to_be_bytes());
        })
    }

    /// The batch with another greatest timestamp, and the checksum that this takes (R-LOG-3).
    pub fn with_max_timestamp(self, timestamp_type: TimestampType, max_timestamp_ms: i64) -> Batch {
        if self.timestamp_type() == timestamp_type && self.max_timestamp_ms() == max_timestamp_ms {
            return self;
        }
        let attributes = match timestamp_type {
            TimestampType::CreateTime => self.attributes() & !TIMESTAMP_TYPE_MASK,
            TimestampType::LogAppendTime => self.attributes() | TIMESTAMP_TYPE_MASK,
        };
        self.patched(|bytes| {
            bytes[field::ATTRIBUTES..field::LAST_OFFSET_DELTA].copy_from_slice(&attributes.to_be_bytes());
            bytes[field::MAX_TIMESTAMP..field::PRODUCER_ID].copy_from_slice(&max_timestamp_ms.to_be_bytes());
            let crc = crc_of(bytes);
            bytes[field::CRC..field::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
        })
    }

    /// Edits the bytes, or a copy of them if someone else holds them too.
    fn patched(self, edit: impl FnOnce(&mut [u8])) -> Batch {
        let mut bytes = self.bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        edit(&mut bytes);
        Batch::of(bytes.freeze())
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("base_offset", &self.base_offset().0)
            .field("last_offset", &self.last_offset().0)
            .field("leader_epoch", &self.leader_epoch().0)
            .field("producer_id", &self.producer_id().0)
            .field("producer_epoch", &self.producer_epoch().0)
            .field("base_sequence", &self.base_sequence())
            .field("size_bytes", &self.size_bytes())
            .finish_non_exhaustive()
    }
}

/// The batches of a buffer, in order. A partial one at the end is left out, as a client does with what a fetch
/// returns; the first error ends it.
pub fn split_batches(bytes: Bytes) -> Batches {
    Batches { rest: bytes }
}

#[derive(Clone, Debug)]
pub struct Batches {
    rest: Bytes,
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        match Batch::parse(&mut self.rest) {
            Ok(batch) => Some(Ok(batch)),
            Err(error) => {
                self.rest.clear();
                (error != BatchError::Incomplete).then_some(Err(error))
            }
        }
    }
}

/// CRC-32C of everything from the attributes on (R-LOG-3).
pub(super) fn crc_of(bytes: &[u8]) -> u32 {
    crc32c::crc32c(&bytes[field::ATTRIBUTES..])
}

/// Sequence numbers wrap from i32::MAX to 0 (R-LOG-2).
pub fn increment_sequence(sequence: i32, by: i32) -> i32 {
    if sequence > i32::MAX.wrapping_sub(by) {
        by.wrapping_sub(i32::MAX.wrapping_sub(sequence)).wrapping_sub(1)
    } else {
        sequence.wrapping_add(by)
    }
}

/// The reverse of [`increment_sequence`].
pub fn decrement_sequence(sequence: i32, by: i32) -> i32 {
    if sequence < by { i32::MAX - (by - sequence - 1) } else { sequence - by }
}
