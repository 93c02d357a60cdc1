//! The records of one batch as they lie, without the header.
//!
//! **Invariant:** exactly the stated number of records fills the bytes, or the last thing read is an error.

use bytes::Bytes;

use super::error::BatchError;
use super::fields::RawRecord;

/// Not compressed (any more).
#[derive(Clone, Debug)]
pub struct Block {
    pub(super) bytes: Bytes,
    pub(super) count: i32,
}

impl Block {
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Ends after the first error.
    pub fn raw_records(&self) -> RawRecords<'_> {
        RawRecords { rest: &self.bytes, index: 0, count: self.count }
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
