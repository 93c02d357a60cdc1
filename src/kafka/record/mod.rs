//! Record batches of format 2 as bytes: read, built and patched in place.
//!
//! Mirrors Kafka's `DefaultRecordBatch`, `DefaultRecord` and `MemoryRecordsBuilder`.
//!
//! **Invariant:** a [`Batch`] is its bytes and nothing else; every field is read from them, so that what is stored,
//! sent and shown is the same thing.

mod batch;
mod builder;
mod fields;
mod varint;

pub use batch::{
    Batch, BatchError, Batches, Compression, HEADER_SIZE, NO_SEQUENCE, NO_TIMESTAMP, TimestampType,
    decrement_sequence, increment_sequence, split_batches,
};
pub use builder::{BatchBuilder, size_upper_bound};
pub use fields::{Header, NewRecord, RawRecord, Record};

#[cfg(test)]
mod tests;
