//! `__cluster_metadata-0`: the records behind the image, in real batches, and the leaders' control records.
//!
//! Mirrors `KafkaRaftLog`.
//!
//! **Invariant:** the offset of a record is its place in the order in which every node replays it; what is below the log's
//! start is in its oldest snapshot.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::LeaderChangeMessage;
use kafka_protocol::messages::leader_change_message::Voter;
use kafka_protocol::protocol::Encodable;

use super::snapshot::{Snapshot, SnapshotId};
use crate::kafka::config::MetadataLogConfig;
use crate::kafka::log::{AppendError, Log, LogConfig, Origin};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::record::{
    Batch, BatchBuilder, BatchError, BatchParameters, ControlType, NewRecord, control_batch, split_batches,
};
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, LeaderEpoch, Offset, TopicId};

/// `__cluster_metadata` has a fixed id.
pub const METADATA_TOPIC_ID: TopicId = TopicId(uuid::Uuid::from_u128(1));

/// Whether fetched records of the metadata log are more than no-op records, which tell nobody anything.
pub fn says_anything(bytes: &Bytes) -> bool {
    let is_no_op = |value: Option<Bytes>| {
        value.is_some_and(|value| MetadataRecord::decode(&value) == Ok(MetadataRecord::NoOp))
    };
    split_batches(bytes.clone()).any(|batch| {
        let records = batch.and_then(|batch| match batch.is_control() {
            true => Err(BatchError::Control),
            false => batch.records(),
        });
        records.map_or(true, |records| !records.into_iter().all(|record| is_no_op(record.value)))
    })
}

const LEADER_CHANGE_VERSION: i16 = 0;

/// What a node that has replayed the log up to an offset takes next.
#[derive(Clone, Debug)]
pub enum Next {
    Nothing,
    /// Everything below the snapshot's end, in place of what it knew.
    Snapshot(Rc<Snapshot>),
    /// Committed records with their offsets, and their batches' size. A control record, which changes no image, is
    /// `None`.
    Records {
        records: Vec<(Offset, Option<MetadataRecord>)>,
        bytes: i64,
    },
}

/// Where the history of a replica stands to this one (`ValidOffsetAndEpoch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Valid,
    /// It leaves this one where that epoch ends.
    Diverging(LeaderEpoch, Offset),
    /// It ends where this log has no records any more.
    Snapshot(SnapshotId),
}

#[derive(Clone, Debug, Default)]
pub struct MetadataLog {
    log: Log,
    /// The oldest first; the log starts at the end of the oldest, or at 0.
    snapshots: Vec<Rc<Snapshot>>,
    /// A leader has said since the process started how far the log is committed.
    is_told: bool,
}

impl MetadataLog {
    /// Offset of the next record.
    pub fn end_offset(&self) -> Offset {
        self.log.log_end_offset()
    }

    /// Below it there are no records, only what a snapshot says of them.
    pub fn start_offset(&self) -> Offset {
        self.log.log_start_offset()
    }

    /// The epoch of the last record; of a log without any, the one of the snapshot it starts at, or 0.
    pub fn last_epoch(&self) -> LeaderEpoch {
        let of_snapshot = || self.latest_snapshot().map(|snapshot| snapshot.id().epoch);
        self.log.latest_epoch().or_else(of_snapshot).unwrap_or(LeaderEpoch(0))
    }

    pub fn snapshots(&self) -> &[Rc<Snapshot>] {
        &self.snapshots
    }

    pub fn latest_snapshot(&self) -> Option<&Rc<Snapshot>> {
        self.snapshots.last()
    }

    pub fn snapshot(&self, id: SnapshotId) -> Option<&Rc<Snapshot>> {
        self.snapshots.iter().find(|snapshot| snapshot.id() == id)
    }

    /// The id of a snapshot of everything below `end`, and when its last record was appended; `None` if the log has
    /// nothing there.
    pub fn snapshot_id(&self, end: Offset) -> Option<(SnapshotId, i64)> {
        let last = self.log.batches_from(end + -1).next().filter(|batch| batch.next_offset() >= end)?;
        Some((SnapshotId { epoch: last.leader_epoch(), end_offset: end }, last.max_timestamp_ms()))
    }

    /// Keeps a snapshot of committed records. Whether there was none like it (`createNewSnapshot`).
    pub fn add_snapshot(&mut self, snapshot: Snapshot) -> bool {
        let end = snapshot.id().end_offset;
        assert!(end <= self.high_watermark(), "a snapshot holds committed records only");
        let is_newer = self.latest_snapshot().is_none_or(|latest| latest.id() < snapshot.id());
        if is_newer && end >= self.start_offset() {
            self.snapshots.push(Rc::new(snapshot));
            return true;
        }
        false
    }

    /// The log starts anew where a snapshot of the leader ends (`truncateToLatestSnapshot`).
    pub fn start_at(&mut self, now: Time, snapshot: Snapshot) {
        let end = snapshot.id().end_offset;
        self.log.truncate_fully_and_start_at(now, end);
        self.advance_high_watermark(end);
        self.snapshots = vec![Rc::new(snapshot)];
    }

    /// Drops snapshots, and the log up to the one that then is the oldest, while log and snapshots are too large or the
    /// snapshots too old; the latest snapshot stays. Whether anything went (`KafkaRaftLog.maybeClean`).
    ///
    /// After a restart a log does not know yet what is committed. It cannot start beyond its high watermark, and the pass
    /// ends there (`UnifiedLog.maybeIncrementLogStartOffset` throws, `RaftMetadataLogCleanerManager` catches it).
    pub fn clean(&mut self, now: Time, config: &MetadataLogConfig) -> bool {
        let before = self.start_offset();
        let mut snapshot_bytes: i64 = self.snapshots.iter().map(|snapshot| snapshot.size_bytes()).sum();
        while config.max_retention_bytes >= 0 && self.can_drop_oldest_snapshot() {
            if self.log.size_bytes() + snapshot_bytes <= config.max_retention_bytes {
                break;
            }
            snapshot_bytes -= self.snapshots[0].size_bytes();
            self.drop_oldest_snapshot(now, config);
        }
        while config.max_retention_ms >= 0 && self.can_drop_oldest_snapshot() {
            if now.wall_ms() - self.snapshots[0].last_contained_ms() <= config.max_retention_ms {
                break;
            }
            self.drop_oldest_snapshot(now, config);
        }
        self.start_offset() > before
    }

    fn can_drop_oldest_snapshot(&self) -> bool {
        self.snapshots.get(1).is_some_and(|second| second.id().end_offset <= self.high_watermark())
    }

    /// The log starts where the second snapshot ends (`deleteBeforeSnapshot`).
    fn drop_oldest_snapshot(&mut self, now: Time, config: &MetadataLogConfig) {
        self.snapshots.remove(0);
        self.log.maybe_increment_log_start_offset(self.snapshots[0].id().end_offset);
        self.log.delete_old_segments(now, &log_config(config));
    }

    /// What is below it is committed, as far as this replica knows.
    pub fn high_watermark(&self) -> Offset {
        self.log.high_watermark()
    }

    /// A voter has to have on its disk what it says it has.
    pub fn flush(&mut self, now: Time) {
        self.log.flush(now);
    }

    /// The power fails: what was not flushed is gone. Snapshots are on the disk; a log that ends before the latest begins
    /// anew at its end (`KafkaRaftLog.createLog`).
    pub fn lose_unflushed(&mut self, now: Time) {
        self.log.lose_unflushed(now);
        let end = self.end_offset();
        let latest = self.latest_snapshot().filter(|snapshot| snapshot.id().end_offset > end).cloned();
        if let Some(latest) = latest {
            self.log.truncate_fully_and_start_at(now, latest.id().end_offset);
            self.snapshots = vec![latest];
        }
    }

    /// The log as a process finds it when it starts: whole, and nothing of it known to be committed.
    pub fn restarted(mut self) -> MetadataLog {
        self.log.update_high_watermark(Offset::ZERO);
        self.is_told = false;
        self
    }

    /// Whether it is known since the process started how far the log is committed.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Raises the high watermark, at most to the log's end. Whether it rose.
    pub fn advance_high_watermark(&mut self, to: Offset) -> bool {
        self.is_told = true;
        let to = to.min(self.log.log_end_offset());
        self.log.maybe_increment_high_watermark(to).is_some()
    }

    /// A leader appends `records` as one batch.
    pub fn append(
        &mut self,
        now: Time,
        epoch: LeaderEpoch,
        records: &[MetadataRecord],
        config: &MetadataLogConfig,
    ) {
        let mut builder = BatchBuilder::new();
        for record in records {
            let value = record.encode();
            let timestamp_ms = now.wall_ms();
            builder.append(&NewRecord { timestamp_ms, key: None, value: Some(&value), headers: &[] });
        }
        self.append_batch(now, epoch, builder.finish(None), config);
    }

    /// R-CTRL-5: the first record of an epoch names its leader.
    pub fn append_leader_change(
        &mut self,
        now: Time,
        epoch: LeaderEpoch,
        leader: ControllerId,
        voters: &[ControllerId],
        granting: &[ControllerId],
        config: &MetadataLogConfig,
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
            config,
        );
    }

    fn append_batch(&mut self, now: Time, epoch: LeaderEpoch, batch: Batch, config: &MetadataLogConfig) {
        let config = log_config(config);
        let appended =
            self.log.append_as_leader(now, batch.into_bytes(), epoch, Origin::Coordinator, &config);
        appended.expect("the leader writes valid batches");
        self.flush(now);
    }

    /// A follower appends what its leader of `epoch` sent.
    pub fn append_fetched(
        &mut self,
        now: Time,
        records: Bytes,
        epoch: LeaderEpoch,
        config: &MetadataLogConfig,
    ) -> Result<(), AppendError> {
        self.log.append_as_follower(now, records, epoch, &log_config(config)).map(|_| ())
    }

    /// The batches from `offset` on, committed or not: a replica needs both.
    pub fn read(&self, offset: Offset, max_bytes: i32) -> Result<Bytes, ErrorCode> {
        Ok(self.log.read(offset, self.log.log_end_offset(), max_bytes, true)?.records)
    }

    /// Where a replica stands whose log ends at `offset` in `epoch` (`validateOffsetAndEpoch`). To one that has nothing
    /// a snapshot is the shorter way.
    pub fn standing(&self, offset: Offset, epoch: LeaderEpoch) -> Standing {
        let latest = self.latest_snapshot().map(|snapshot| snapshot.id());
        let (Some(latest), Some(earliest)) = (latest, self.snapshots.first().map(|first| first.id())) else {
            return if offset == Offset::ZERO { Standing::Valid } else { self.divergence(offset, epoch) };
        };
        let start = self.start_offset();
        let is_behind =
            offset < start || (offset == start && epoch != earliest.epoch) || epoch < earliest.epoch;
        match offset == Offset::ZERO || is_behind {
            true => Standing::Snapshot(latest),
            false => self.divergence(offset, epoch),
        }
    }

    fn divergence(&self, offset: Offset, epoch: LeaderEpoch) -> Standing {
        let (own_epoch, end) = match self.log.end_offset_for(epoch) {
            (LeaderEpoch::NONE, _) => (self.last_epoch(), self.end_offset()),
            known => known,
        };
        match own_epoch != epoch || end < offset {
            true => Standing::Diverging(own_epoch, end),
            false => Standing::Valid,
        }
    }

    /// Drops what the leader does not have. The log's end before, if it became shorter.
    ///
    /// Panics if committed records were to go.
    pub fn truncate_to_divergence(
        &mut self,
        now: Time,
        diverging: (LeaderEpoch, Offset),
        config: &MetadataLogConfig,
    ) -> Option<Offset> {
        let from = self.log.log_end_offset();
        let to = self.log.truncation_point(diverging, from);
        assert!(to >= self.log.high_watermark(), "records below the high watermark are committed");
        self.log.truncate_to(now, to, &log_config(config)).then_some(from)
    }

    /// The batch that holds `offset`, or else the next one, and all that follow.
    pub fn batches_from(&self, offset: Offset) -> impl Iterator<Item = &Batch> {
        self.log.batches_from(offset)
    }

    /// What is committed from `from` on (`updateListenersProgress`): a node that knows nothing, or nothing that joins
    /// the log, takes the latest snapshot first.
    pub fn committed_from(&self, from: Offset) -> Next {
        let end = self.log.high_watermark();
        if from >= end || !self.is_told {
            return Next::Nothing;
        }
        if from == Offset::ZERO || from < self.start_offset() {
            let snapshot = self.latest_snapshot().filter(|snapshot| snapshot.id().end_offset <= end);
            if let Some(snapshot) = snapshot {
                return Next::Snapshot(snapshot.clone());
            }
        }
        let (records, bytes) = self.committed_records(from);
        Next::Records { records, bytes }
    }

    /// The committed records from `from` on with their offsets, whatever snapshots there are, and their batches' size.
    ///
    /// Panics if the log does not reach back that far.
    pub fn committed_records(&self, from: Offset) -> (Vec<(Offset, Option<MetadataRecord>)>, i64) {
        assert!(from >= self.start_offset(), "a log that does not start at 0 starts at a snapshot");
        let end = self.log.high_watermark();
        let batches: Vec<&Batch> =
            self.log.batches_from(from).take_while(|batch| batch.base_offset() < end).collect();
        let bytes = batches.iter().map(|batch| i64::from(batch.size_bytes())).sum();
        let replayed = batches.into_iter().flat_map(decode_batch);
        (replayed.filter(|(offset, _)| *offset >= from).collect(), bytes)
    }
}

/// A batch of metadata may be of any size, and only a snapshot makes room in the log.
fn log_config(config: &MetadataLogConfig) -> LogConfig {
    LogConfig {
        max_message_bytes: i32::MAX,
        segment_bytes: config.segment_bytes,
        segment_ms: config.segment_ms,
        retention_bytes: -1,
        retention_ms: -1,
        ..LogConfig::default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::config::BrokerConfig;

    #[test]
    fn only_no_op_records_say_nothing_r_ctrl_13() {
        let check = |written: &[&[MetadataRecord]], expected: bool| {
            let mut log = MetadataLog::default();
            let config = BrokerConfig::default().metadata_log;
            written.iter().for_each(|records| log.append(Time::ZERO, LeaderEpoch(1), records, &config));
            let batches = log.batches_from(Offset::ZERO).map(|batch| batch.bytes().to_vec());
            assert_eq!(
                says_anything(&batches.flatten().collect::<Vec<u8>>().into()),
                expected,
                "{written:?}"
            );
        };
        let change = MetadataRecord::FeatureLevel { name: "group.version".to_string(), level: 1 };
        check(&[], false);
        check(&[&[MetadataRecord::NoOp]], false);
        check(&[&[MetadataRecord::NoOp], &[MetadataRecord::NoOp, MetadataRecord::NoOp]], false);
        check(&[&[MetadataRecord::NoOp], std::slice::from_ref(&change)], true);
        check(&[&[MetadataRecord::NoOp, change]], true);
    }
}
