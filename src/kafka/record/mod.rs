//! Record batches of format 2 as bytes: read, built, compressed, patched in place, shown byte by byte.
//!
//! Mirrors Kafka's `DefaultRecordBatch`, `DefaultRecord` and `MemoryRecordsBuilder`.
//!
//! **Invariant:** a [`Batch`] is its bytes and nothing else; every field is read from them, so that what is stored,
//! sent and shown is the same thing.

mod error;
mod batch;
mod block;
mod builder;
mod compression;
mod control;
mod aborted;
mod fields;
pub mod varint;
mod annotate;

pub use aborted::AbortedProducers;
pub use annotate::{Annotated, Span};
pub use batch::{
    Batch, Batches, HEADER_SIZE, NO_SEQUENCE, NO_TIMESTAMP, TimestampType, decrement_sequence,
    increment_sequence, split_batches,
};
pub use block::{Block, RawRecords};
pub use builder::{BatchBuilder, BatchParameters, size_upper_bound};
pub use compression::{Compression, MAX_BLOCK_BYTES};
pub use control::{ControlType, EndTransactionMarker, control_batch, control_key};
pub use error::BatchError;
pub use fields::{Header, NewRecord, RawRecord, Record};

#[cfg(test)]
mod tests;
