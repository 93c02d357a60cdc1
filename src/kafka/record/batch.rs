//! One record batch as its bytes (R-LOG-1 to R-LOG-3, Kafka's `DefaultRecordBatch`).
//!
//! **Invariant:** the bytes hold a whole header and exactly the length that it states; the checksum is another matter
//! ([`Batch::check_crc`]), since a broker checks it only where it takes bytes in.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::fields::{RawRecord, Record};
use crate::kafka::protocol::ErrorCode;
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
const TIMESTAMP_TYPE_MASK: i16 = 0x08;
const TRANSACTIONAL_MASK: i16 = 0x10;
pub(super) const CONTROL_MASK: i16 = 0x20;
const DELETE_HORIZON_MASK: i16 = 0x40;

/// What a batch's records are compressed with; the value is the codec's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compression {
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        })
    }
}

/// Whose clock a record's timestamp is from (`message.timestamp.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// Bytes that are not a record batch, or not one that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A partial batch at the end of a buffer, which is ordinary in what a fetch returns.
    #[error("the batch is cut off")]
    Incomplete,
    #[error("batch length {0} is less than a header takes")]
    TooSmall(i32),
    #[error("record format {0} is not supported")]
    Magic(i8),
    #[error("record is corrupt (stored crc = {stored}, computed crc = {computed})")]
    Crc { stored: u32, computed: u32 },
    #[error("compression codec {0} is not defined")]
    UnknownCompression(i16),
    #[error("records compressed with {0} cannot be read")]
    Compressed(Compression),
    /// `index`: the record's place in the batch.
    #[error("record {index} has an invalid structure")]
    Record { index: i32 },
    #[error("the batch holds more bytes than its {0} records")]
    TrailingBytes(i32),
}

impl BatchError {
    /// What Kafka answers with.
    pub fn code(&self) -> ErrorCode {
        match self {
            BatchError::Incomplete | BatchError::TooSmall(_) | BatchError::Crc { .. } => {
                ErrorCode::CorruptMessage
            }
            BatchError::Magic(0 | 1) => ErrorCode::InvalidRecord,
            BatchError::Magic(_) => ErrorCode::CorruptMessage,
            BatchError::UnknownCompression(_) | BatchError::Compressed(_) => {
                ErrorCode::UnsupportedCompressionType
            }
            BatchError::Record { .. } | BatchError::TrailingBytes(_) => ErrorCode::InvalidRecord,
        }
    }
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

    /// Takes the next batch off `buffer`, which is left as it was if there is none.
    pub fn parse(buffer: &mut Bytes) -> Result<Batch, BatchError> {
        if buffer.len() < LOG_OVERHEAD {
            return Err(BatchError::Incomplete);
        }
        // Kafka bounds the length by the smallest message of any format first and by format 2's header last.
        const SMALLEST_MESSAGE: i32 = 14;
        let length = (&buffer[field::LENGTH..]).get_i32();
        if length < SMALLEST_MESSAGE {
            return Err(BatchError::TooSmall(length));
        }
        if buffer.len() <= field::MAGIC {
            return Err(BatchError::Incomplete);
        }
        let magic = buffer[field::MAGIC] as i8;
        if magic != MAGIC {
            return Err(BatchError::Magic(magic));
        }
        let size = LOG_OVERHEAD + length as usize;
        if buffer.len() < size {
            return Err(BatchError::Incomplete);
        }
        if size < HEADER_SIZE {
            return Err(BatchError::TooSmall(length));
        }
        Ok(Batch::of(buffer.split_to(size)))
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
        match self.attributes() & COMPRESSION_MASK {
            0 => Ok(Compression::None),
            1 => Ok(Compression::Gzip),
            2 => Ok(Compression::Snappy),
            3 => Ok(Compression::Lz4),
            4 => Ok(Compression::Zstd),
            codec => Err(BatchError::UnknownCompression(codec)),
        }
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

    /// The records where they lie. Ends after the first error.
    pub fn raw_records(&self) -> Result<RawRecords<'_>, BatchError> {
        match self.compression()? {
            Compression::None => {
                Ok(RawRecords { rest: &self.bytes[HEADER_SIZE..], index: 0, count: self.record_count() })
            }
            codec => Err(BatchError::Compressed(codec)),
        }
    }

    /// The records; keys and values share the batch's bytes.
    pub fn records(&self) -> Result<Vec<Record>, BatchError> {
        self.raw_records()?.map(|raw| self.record(&raw?)).collect()
    }

    /// A record's timestamp: the append time if the broker sets it (R-LOG-2).
    pub fn timestamp_of(&self, raw: &RawRecord<'_>) -> i64 {
        match self.timestamp_type() {
            TimestampType::CreateTime => self.base_timestamp_ms().wrapping_add(raw.timestamp_delta_ms),
            TimestampType::LogAppendTime => self.max_timestamp_ms(),
        }
    }

    fn record(&self, raw: &RawRecord<'_>) -> Result<Record, BatchError> {
        let share = |part: &[u8]| self.bytes.slice_ref(part);
        Ok(Record {
            offset: Offset(self.base_offset().0.wrapping_add(raw.offset_delta.into())),
            timestamp_ms: self.timestamp_of(raw),
            key: raw.key.map(share),
            value: raw.value.map(share),
            headers: raw.headers_in(&self.bytes).ok_or(BatchError::Record { index: raw.offset_delta })?,
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

/// Records of one batch, in order.
#[derive(Clone, Debug)]
pub struct RawRecords<'a> {
    rest: &'a [u8],
    index: i32,
    count: i32,
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = Result<RawRecord<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            let left_over = !std::mem::take(&mut self.rest).is_empty();
            return left_over.then_some(Err(BatchError::TrailingBytes(self.count)));
        }
        let index = self.index;
        self.index += 1;
        match RawRecord::read(&mut self.rest) {
            Some(record) => Some(Ok(record)),
            None => {
                (self.index, self.rest) = (self.count, &[]);
                Some(Err(BatchError::Record { index }))
            }
        }
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
