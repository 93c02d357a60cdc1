//! `__cluster_metadata-0`: the records behind the image, in real batches.
//!
//! **Invariant:** the offset of a record is its place in the order in which every node replays it.

use bytes::Bytes;

use crate::kafka::log::{Log, LogConfig, Origin};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::record::{Batch, BatchBuilder, BatchError, NewRecord, split_batches};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset};

/// The quorum has one voter, whose first and only term this is.
pub const QUORUM_EPOCH: LeaderEpoch = LeaderEpoch(1);

#[derive(Clone, Debug, Default)]
pub struct MetadataLog {
    log: Log,
}

impl MetadataLog {
    /// Offset of the next record.
    pub fn end_offset(&self) -> Offset {
        self.log.log_end_offset()
    }

    /// Appends `records` as one batch, committed at once.
    pub fn append(&mut self, now: Time, records: &[MetadataRecord]) {
        let mut builder = BatchBuilder::new();
        for record in records {
            let value = record.encode();
            builder.append(&NewRecord {
                timestamp_ms: now.wall_ms(),
                key: None,
                value: Some(&value),
                headers: &[],
            });
        }
        let batch = builder.finish(None).into_bytes();
        let config = LogConfig { max_message_bytes: i32::MAX, ..LogConfig::default() };
        let appended = self.log.append_as_leader(now, batch, QUORUM_EPOCH, Origin::Coordinator, &config);
        appended.expect("the controller writes valid batches");
        let end = self.log.log_end_offset();
        self.log.update_high_watermark(end);
    }

    /// The batches from `offset` on.
    pub fn read(&self, offset: Offset, max_bytes: i32) -> Result<Bytes, ErrorCode> {
        Ok(self.log.read(offset, self.log.high_watermark(), max_bytes, true)?.records)
    }

    /// The whole log, for a controller that starts again.
    pub fn records(&self) -> impl Iterator<Item = MetadataRecord> + '_ {
        self.log.batches_from(self.log.log_start_offset()).flat_map(|batch| {
            decode_batch(batch).expect("the log holds what the controller wrote").into_iter().map(|(_, r)| r)
        })
    }
}

/// A metadata record with its offset.
pub type OffsetRecord = (Offset, MetadataRecord);

fn decode_batch(batch: &Batch) -> Result<Vec<OffsetRecord>, ReplayError> {
    let decode = |record: crate::kafka::record::Record| {
        let value = record.value.unwrap_or_default();
        Ok((record.offset, MetadataRecord::decode(&value)?))
    };
    batch.records()?.into_iter().map(decode).collect()
}

/// Bytes of the metadata log that a broker cannot replay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Record(#[from] crate::kafka::protocol::wire::WireError),
}

/// The records in the bytes that a fetch of the metadata log returned.
pub fn decode_records(bytes: Bytes) -> Result<Vec<OffsetRecord>, ReplayError> {
    let mut records = Vec::new();
    for batch in split_batches(bytes) {
        records.extend(decode_batch(&batch?)?);
    }
    Ok(records)
}
