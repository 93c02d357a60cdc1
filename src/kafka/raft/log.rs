//! `__cluster_metadata-0`: the records behind the image, in real batches, and the leaders' control records.
//!
//! Mirrors `KafkaRaftLog`.
//!
//! **Invariant:** the offset of a record is its place in the order in which every node replays it.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::LeaderChangeMessage;
use kafka_protocol::messages::leader_change_message::Voter;
use kafka_protocol::protocol::Encodable;

use crate::kafka::log::{AppendError, Log, LogConfig, Origin};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::record::{Batch, BatchBuilder, BatchParameters, ControlType, NewRecord, control_batch};
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, LeaderEpoch, Offset, TopicId};

/// `__cluster_metadata` has a fixed id.
pub const METADATA_TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(1));

const LEADER_CHANGE_VERSION: i16 = 0;

#[derive(Clone, Debug, Default)]
pub struct MetadataLog {
    log: Log,
}

impl MetadataLog {
    /// Offset of the next record.
    pub fn end_offset(&self) -> Offset {
        self.log.log_end_offset()
    }

    /// The epoch of the last record; 0 of an empty log.
    pub fn last_epoch(&self) -> LeaderEpoch {
        self.log.latest_epoch().unwrap_or(LeaderEpoch(0))
    }

    /// What is below it is committed, as far as this replica knows.
    pub fn high_watermark(&self) -> Offset {
        self.log.high_watermark()
    }

    /// The log as a process finds it when it starts: whole, and nothing known to be committed.
    pub fn restarted(mut self) -> MetadataLog {
        self.log.update_high_watermark(Offset::ZERO);
        self
    }

    /// Raises the high watermark, at most to the log's end. Whether it rose.
    pub fn advance_high_watermark(&mut self, to: Offset) -> bool {
        let to = to.min(self.log.log_end_offset());
        self.log.maybe_increment_high_watermark(to).is_some()
    }

    /// A leader appends `records` as one batch.
    pub fn append(&mut self, now: Time, epoch: LeaderEpoch, records: &[MetadataRecord]) {
        let mut builder = BatchBuilder::new();
        for record in records {
            let value = record.encode();
            let timestamp_ms = now.wall_ms();
            builder.append(&NewRecord { timestamp_ms, key: None, value: Some(&value), headers: &[] });
        }
        self.append_batch(now, epoch, builder.finish(None));
    }

    /// R-CTRL-5: the first record of an epoch names its leader.
    pub fn append_leader_change(
        &mut self,
        now: Time,
        epoch: LeaderEpoch,
        leader: ControllerId,
        voters: &[ControllerId],
        granting: &[ControllerId],
    ) {
        let list = |ids: &[ControllerId]| ids.iter().map(|id| Voter::default().with_voter_id(id.0)).collect();
        let message = LeaderChangeMessage::default()
            .with_version(LEADER_CHANGE_VERSION)
            .with_leader_id(leader.0.into())
            .with_voters(list(voters))
            .with_granting_voters(list(granting));
        let mut value = BytesMut::new();
        message.encode(&mut value, LEADER_CHANGE_VERSION).expect("every field is of this version");
        let (parameters, timestamp_ms) = (BatchParameters::default(), now.wall_ms());
        self.append_batch(
            now,
            epoch,
            control_batch(parameters, timestamp_ms, ControlType::LeaderChange, &value),
        );
    }

    fn append_batch(&mut self, now: Time, epoch: LeaderEpoch, batch: Batch) {
        let appended =
            self.log.append_as_leader(now, batch.into_bytes(), epoch, Origin::Coordinator, &config());
        appended.expect("the leader writes valid batches");
    }

    /// A follower appends what its leader of `epoch` sent.
    pub fn append_fetched(
        &mut self,
        now: Time,
        records: Bytes,
        epoch: LeaderEpoch,
    ) -> Result<(), AppendError> {
        self.log.append_as_follower(now, records, epoch, &config()).map(|_| ())
    }

    /// The batches from `offset` on, committed or not: a replica needs both.
    pub fn read(&self, offset: Offset, max_bytes: i32) -> Result<Bytes, ErrorCode> {
        Ok(self.log.read(offset, self.log.log_end_offset(), max_bytes, true)?.records)
    }

    /// Where the history of a replica that ends at `offset` in `epoch` leaves this one; `None` if it does not.
    pub fn divergence(&self, offset: Offset, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        if offset == Offset::ZERO {
            return None;
        }
        let (own_epoch, end) = self.log.end_offset_for(epoch);
        match own_epoch {
            LeaderEpoch::NONE => Some((LeaderEpoch(0), Offset::ZERO)),
            own if own != epoch || end < offset => Some((own, end)),
            _ => None,
        }
    }

    /// Drops what the leader does not have. The log's end before, if it became shorter.
    ///
    /// Panics if committed records were to go.
    pub fn truncate_to_divergence(&mut self, now: Time, diverging: (LeaderEpoch, Offset)) -> Option<Offset> {
        let from = self.log.log_end_offset();
        let to = self.log.truncation_point(diverging, from);
        assert!(to >= self.log.high_watermark(), "records below the high watermark are committed");
        self.log.truncate_to(now, to, &config()).then_some(from)
    }

    /// Every batch, committed or not.
    pub fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.log.batches_from(self.log.log_start_offset())
    }

    /// The committed records from `from` on; a control record, which changes no image, is `None`.
    pub fn committed_from(&self, from: Offset) -> Vec<(Offset, Option<MetadataRecord>)> {
        let end = self.log.high_watermark();
        if from >= end {
            return Vec::new();
        }
        let batches = self.log.batches_from(from).take_while(|batch| batch.base_offset() < end);
        let replayed = batches.flat_map(decode_batch);
        replayed.filter(|(offset, _)| *offset >= from).collect()
    }
}

/// A batch of metadata may be of any size.
fn config() -> LogConfig {
    LogConfig { max_message_bytes: i32::MAX, ..LogConfig::default() }
}

fn decode_batch(batch: &Batch) -> Vec<(Offset, Option<MetadataRecord>)> {
    let records = batch.records().expect("the log holds what a leader wrote");
    let decode = |value: Option<Bytes>| {
        let value = value.unwrap_or_default();
        MetadataRecord::decode(&value).expect("the log holds what a leader wrote")
    };
    let is_control = batch.is_control();
    let replayed =
        records.into_iter().map(|record| (record.offset, (!is_control).then(|| decode(record.value))));
    replayed.collect()
}
