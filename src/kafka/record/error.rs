//! Bytes that are not a record batch, or not one that can be read.
//!
//! **Invariant:** each reason has the one error code that Kafka answers it with.

use super::compression::Compression;
use crate::kafka::protocol::ErrorCode;

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
    /// Only where the codecs are left out of the build.
    #[error("records compressed with {0} cannot be read")]
    Unsupported(Compression),
    #[error("what should be records compressed with {0} is not")]
    Decompression(Compression),
    #[error("the records take more than {limit_bytes} bytes once they are decompressed")]
    Inflated { limit_bytes: i64 },
    /// `index`: the record's place in the batch.
    #[error("record {index} has an invalid structure")]
    Record { index: i32 },
    #[error("the batch holds more bytes than its {0} records")]
    TrailingBytes(i32),
    #[error("a control batch does not hold one control record")]
    Control,
}

impl BatchError {
    /// What Kafka answers with. That a block grows beyond the limit is this broker's own rule, and is answered like a
    /// batch that is too large.
    pub fn code(&self) -> ErrorCode {
        match self {
            BatchError::Incomplete | BatchError::TooSmall(_) | BatchError::Crc { .. } => {
                ErrorCode::CorruptMessage
            }
            BatchError::Magic(0 | 1) => ErrorCode::InvalidRecord,
            BatchError::Magic(_) => ErrorCode::CorruptMessage,
            BatchError::UnknownCompression(_) | BatchError::Unsupported(_) => {
                ErrorCode::UnsupportedCompressionType
            }
            BatchError::Decompression(_) => ErrorCode::UnknownServerError,
            BatchError::Inflated { .. } => ErrorCode::MessageTooLarge,
            BatchError::Record { .. } | BatchError::TrailingBytes(_) | BatchError::Control => {
                ErrorCode::InvalidRecord
            }
        }
    }
}
