//! Control batches: one record that is for brokers and clients, not for applications (R-LOG-5).
//!
//! Mirrors Kafka's `ControlRecordType` and `EndTransactionMarker`.
//!
//! **Invariant:** a control batch of a partition holds exactly one record and occupies one offset; only the first batch of
//! a snapshot of the metadata log holds more.

use bytes::{Buf, BufMut};

use super::batch::Batch;
use super::builder::{BatchBuilder, BatchParameters};
use super::error::BatchError;
use super::fields::{NewRecord, Record};

/// Version of a control record's key and of a transaction marker's value.
const VERSION: i16 = 0;

/// What a control record says; the value is the type's id. All but the first two are only in the metadata log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControlType {
    Abort = 0,
    Commit = 1,
    LeaderChange = 2,
    SnapshotHeader = 3,
    SnapshotFooter = 4,
    KRaftVersion = 5,
    KRaftVoters = 6,
}

impl ControlType {
    pub const ALL: [ControlType; 7] = [
        ControlType::Abort,
        ControlType::Commit,
        ControlType::LeaderChange,
        ControlType::SnapshotHeader,
        ControlType::SnapshotFooter,
        ControlType::KRaftVersion,
        ControlType::KRaftVoters,
    ];

    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            ControlType::Abort => "ABORT",
            ControlType::Commit => "COMMIT",
            ControlType::LeaderChange => "LEADER_CHANGE",
            ControlType::SnapshotHeader => "SNAPSHOT_HEADER",
            ControlType::SnapshotFooter => "SNAPSHOT_FOOTER",
            ControlType::KRaftVersion => "KRAFT_VERSION",
            ControlType::KRaftVoters => "KRAFT_VOTERS",
        }
    }

    /// From a control record's key; `None` if it is not one, or of a type that is not known.
    pub fn of_key(mut key: &[u8]) -> Option<ControlType> {
        let version = key.try_get_i16().ok()?;
        let id = key.try_get_i16().ok()?;
        ControlType::ALL.into_iter().find(|each| version >= VERSION && *each as i16 == id)
    }
}

/// The end of a transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    pub committed: bool,
    /// Epoch of the transaction coordinator that wrote it.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// The marker's batch: `parameters` give place and producer. 78 bytes.
    pub fn batch(self, parameters: BatchParameters, timestamp_ms: i64) -> Batch {
        let control_type = if self.committed { ControlType::Commit } else { ControlType::Abort };
        let mut value = Vec::new();
        value.put_i16(VERSION);
        value.put_i32(self.coordinator_epoch);
        let parameters = BatchParameters { transactional: true, ..parameters };
        control_batch(parameters, timestamp_ms, control_type, &value)
    }

    /// `None` if the record is another control record.
    pub fn of(record: &Record) -> Option<EndTransactionMarker> {
        let committed = match ControlType::of_key(record.key.as_deref()?)? {
            ControlType::Abort => false,
            ControlType::Commit => true,
            _ => return None,
        };
        let mut value = record.value.as_deref()?;
        let version = value.try_get_i16().ok()?;
        let coordinator_epoch = value.try_get_i32().ok()?;
        (version >= VERSION).then_some(EndTransactionMarker { committed, coordinator_epoch })
    }
}

/// The key of a control record.
pub fn control_key(control_type: ControlType) -> Vec<u8> {
    let mut key = Vec::new();
    key.put_i16(VERSION);
    key.put_i16(control_type as i16);
    key
}

/// A batch of one control record.
pub fn control_batch(
    parameters: BatchParameters,
    timestamp_ms: i64,
    control_type: ControlType,
    value: &[u8],
) -> Batch {
    let key = control_key(control_type);
    let mut builder = BatchBuilder::with(BatchParameters { control: true, ..parameters });
    builder.append(&NewRecord { timestamp_ms, key: Some(&key), value: Some(value), headers: &[] });
    builder.build()
}

impl Batch {
    /// The one record of a control batch; `None` if compaction took it (R-LOG-45).
    pub fn control_record(&self) -> Result<Option<Record>, BatchError> {
        let mut records = self.records()?;
        if !self.is_control() || records.len() > 1 {
            return Err(BatchError::Control);
        }
        Ok(records.pop())
    }

    /// The transaction marker that the batch is, if it is one and compaction has left it.
    pub fn end_transaction_marker(&self) -> Result<Option<EndTransactionMarker>, BatchError> {
        Ok(self.control_record()?.as_ref().and_then(EndTransactionMarker::of))
    }
}
