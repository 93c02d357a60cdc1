//! Snapshots of the metadata log: what all records below an offset come to, as records (KIP-630).
//!
//! Mirrors `RecordsSnapshotWriter` and `RecordsSnapshotReader`: batches as in a log, the first with the snapshot's header,
//! the protocol's version and the voters, the last with its footer. Its records are those that an image writes.
//!
//! **Invariant:** a snapshot never changes, and what it contains was committed.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::voters_record::{Endpoint, KRaftVersionFeature, Voter};
use kafka_protocol::messages::{
    KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord,
};
use kafka_protocol::protocol::{Encodable, StrBytes};

use crate::kafka::protocol::listener::{CONTROLLER_PORT, controller_host};
use crate::kafka::protocol::metadata_records::MetadataRecord;
use crate::kafka::record::{
    Batch, BatchBuilder, BatchError, BatchParameters, ControlType, NewRecord, control_key, split_batches,
};
use crate::kafka::time::Time;
use crate::kafka::types::{ControllerId, LeaderEpoch, Offset};

/// The offset after the last record that is contained, and that record's epoch (`OffsetAndEpoch`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId {
    pub epoch: LeaderEpoch,
    pub end_offset: Offset,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    id: SnapshotId,
    /// When the last record that is contained was appended; milliseconds since 1970.
    last_contained_ms: i64,
    bytes: Bytes,
}

/// Records of one batch.
const BATCH_RECORDS: usize = 1024;
const RECORD_VERSION: i16 = 0;
const KRAFT_VERSION: i16 = 1;

impl Snapshot {
    pub fn write(
        now: Time,
        id: SnapshotId,
        last_contained_ms: i64,
        voters: &[ControllerId],
        records: &[MetadataRecord],
    ) -> Snapshot {
        let mut writer = Writer { now, epoch: id.epoch, next: Offset::ZERO, bytes: BytesMut::new() };
        let header = SnapshotHeaderRecord::default().with_last_contained_log_timestamp(last_contained_ms);
        writer.control(&[
            (ControlType::SnapshotHeader, encoded(&header)),
            (
                ControlType::KRaftVersion,
                encoded(&KRaftVersionRecord::default().with_k_raft_version(KRAFT_VERSION)),
            ),
            (ControlType::KRaftVoters, encoded(&voters_record(voters))),
        ]);
        records.chunks(BATCH_RECORDS).for_each(|records| writer.records(records));
        writer.control(&[(ControlType::SnapshotFooter, encoded(&SnapshotFooterRecord::default()))]);
        Snapshot { id, last_contained_ms, bytes: writer.bytes.freeze() }
    }

    /// A snapshot that another replica sent.
    ///
    /// # Errors
    ///
    /// Bytes that are no batches, or that do not begin with a header and end with a footer.
    pub fn read(id: SnapshotId, bytes: Bytes) -> Result<Snapshot, BatchError> {
        let batches: Vec<Batch> = split_batches(bytes.clone()).collect::<Result<_, _>>()?;
        let first_of = |batch: Option<&Batch>| -> Result<(ControlType, Bytes), BatchError> {
            let batch = batch.filter(|batch| batch.is_control()).ok_or(BatchError::Control)?;
            let record = batch.records()?.into_iter().next().ok_or(BatchError::Control)?;
            let kind = record.key.as_deref().and_then(ControlType::of_key).ok_or(BatchError::Control)?;
            Ok((kind, record.value.unwrap_or_default()))
        };
        let (header, value) = first_of(batches.first())?;
        let (footer, _) = first_of(batches.last())?;
        if (header, footer) != (ControlType::SnapshotHeader, ControlType::SnapshotFooter) {
            return Err(BatchError::Control);
        }
        for batch in batches.iter().filter(|batch| !batch.is_control()) {
            for record in batch.records()? {
                let value = record.value.unwrap_or_default();
                MetadataRecord::decode(&value).map_err(|_| BatchError::Control)?;
            }
        }
        let mut value = value;
        let header =
            <SnapshotHeaderRecord as kafka_protocol::protocol::Decodable>::decode(&mut value, RECORD_VERSION)
                .map_err(|_| BatchError::Control)?;
        Ok(Snapshot { id, last_contained_ms: header.last_contained_log_timestamp, bytes })
    }

    pub fn id(&self) -> SnapshotId {
        self.id
    }

    pub fn last_contained_ms(&self) -> i64 {
        self.last_contained_ms
    }

    pub fn size_bytes(&self) -> i64 {
        self.bytes.len() as i64
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What it contains, in the order in which it is replayed.
    pub fn records(&self) -> Vec<MetadataRecord> {
        let batches = split_batches(self.bytes.clone()).map(|batch| batch.expect("it was read before"));
        let data = batches.filter(|batch| !batch.is_control());
        let records = data.flat_map(|batch| batch.records().expect("it was read before"));
        let decode = |value: Option<Bytes>| {
            MetadataRecord::decode(&value.unwrap_or_default()).expect("it was read before")
        };
        records.map(|record| decode(record.value)).collect()
    }
}

struct Writer {
    now: Time,
    epoch: LeaderEpoch,
    /// The next record's offset within the snapshot.
    next: Offset,
    bytes: BytesMut,
}

impl Writer {
    fn batch(&self, control: bool) -> BatchBuilder {
        let (base_offset, leader_epoch) = (self.next, self.epoch);
        BatchBuilder::with(BatchParameters {
            base_offset,
            leader_epoch,
            control,
            ..BatchParameters::default()
        })
    }

    fn push(&mut self, builder: BatchBuilder) {
        let batch = builder.build();
        self.next = batch.next_offset();
        self.bytes.extend_from_slice(batch.bytes());
    }

    fn control(&mut self, records: &[(ControlType, Bytes)]) {
        let mut builder = self.batch(true);
        for (kind, value) in records {
            let (key, timestamp_ms) = (control_key(*kind), self.now.wall_ms());
            builder.append(&NewRecord { timestamp_ms, key: Some(&key), value: Some(value), headers: &[] });
        }
        self.push(builder);
    }

    fn records(&mut self, records: &[MetadataRecord]) {
        let mut builder = self.batch(false);
        for record in records {
            let (value, timestamp_ms) = (record.encode(), self.now.wall_ms());
            builder.append(&NewRecord { timestamp_ms, key: None, value: Some(&value), headers: &[] });
        }
        self.push(builder);
    }
}

fn encoded(record: &impl Encodable) -> Bytes {
    let mut bytes = BytesMut::new();
    record.encode(&mut bytes, RECORD_VERSION).expect("every field is of this version");
    bytes.freeze()
}

fn voters_record(voters: &[ControllerId]) -> VotersRecord {
    let endpoint = |id: ControllerId| {
        Endpoint::default()
            .with_name("CONTROLLER".into())
            .with_host(StrBytes::from_string(controller_host(id)))
            .with_port(CONTROLLER_PORT)
    };
    let versions = KRaftVersionFeature::default()
        .with_min_supported_version(0)
        .with_max_supported_version(KRAFT_VERSION);
    let voter = |id: &ControllerId| {
        Voter::default()
            .with_voter_id(id.0.into())
            .with_endpoints(vec![endpoint(*id)])
            .with_k_raft_version_feature(versions.clone())
    };
    VotersRecord::default().with_voters(voters.iter().map(voter).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(records: usize) -> (Snapshot, Vec<MetadataRecord>) {
        let feature = |n: usize| MetadataRecord::FeatureLevel { name: format!("feature-{n}"), level: 1 };
        let records: Vec<MetadataRecord> = (0..records).map(feature).collect();
        let id = SnapshotId { epoch: LeaderEpoch(3), end_offset: Offset(9) };
        (Snapshot::write(Time::from_ms(5), id, 4, &[ControllerId(101)], &records), records)
    }

    #[test]
    fn a_snapshot_reads_back_from_its_bytes() {
        for count in [0, 1, 1024, 2500] {
            let (snapshot, records) = snapshot(count);
            assert_eq!(snapshot.records(), records);
            assert_eq!(Snapshot::read(snapshot.id(), snapshot.bytes().clone()), Ok(snapshot));
        }
    }

    #[test]
    fn a_log_that_lost_what_a_snapshot_holds_begins_anew_at_its_end() {
        use super::super::log::MetadataLog;
        use crate::kafka::config::BrokerConfig;

        let now = Time::from_ms(5);
        let config = BrokerConfig::default().metadata_log;
        let (_, records) = snapshot(9);
        let mut leader = MetadataLog::default();
        records
            .iter()
            .for_each(|record| leader.append(now, LeaderEpoch(3), std::slice::from_ref(record), &config));
        let bytes = leader.read(Offset::ZERO, i32::MAX).expect("it is all there");
        let mut observer = MetadataLog::default();
        observer.append_fetched(now, bytes, LeaderEpoch(3), &config).expect("sound batches");
        observer.advance_high_watermark(Offset(9));
        let mut lost = observer.clone();
        lost.lose_unflushed(now);
        assert_eq!((lost.start_offset(), lost.end_offset()), (Offset(0), Offset(0)), "nothing was flushed");
        assert!(observer.add_snapshot(snapshot(9).0));
        observer.lose_unflushed(now);
        assert_eq!((observer.start_offset(), observer.end_offset()), (Offset(9), Offset(9)));
        leader.lose_unflushed(now);
        assert_eq!(leader.end_offset(), Offset(9), "R-CTRL-5: a leader flushes what it appends");
    }

    /// `UnifiedLog.maybeIncrementLogStartOffset`: a log never starts beyond its high watermark (R-LOG-30).
    #[test]
    fn a_log_that_does_not_know_yet_what_is_committed_keeps_its_snapshots() {
        use super::super::log::MetadataLog;
        use crate::kafka::config::{BrokerConfig, MetadataLogConfig};

        let now = Time::from_ms(5);
        let by_size = MetadataLogConfig { max_retention_bytes: 1, ..BrokerConfig::default().metadata_log };
        let by_time = MetadataLogConfig { max_retention_ms: 1, ..BrokerConfig::default().metadata_log };
        for config in [by_size, by_time] {
            let mut log = MetadataLog::default();
            let (_, records) = snapshot(9);
            for (record, end) in records.iter().zip(1..) {
                log.append(now, LeaderEpoch(3), std::slice::from_ref(record), &config);
                log.advance_high_watermark(Offset(end));
                if [4, 8].contains(&end) {
                    let (id, last_ms) = log.snapshot_id(Offset(end)).expect("its last record is there");
                    assert!(log.add_snapshot(Snapshot::write(
                        now,
                        id,
                        last_ms,
                        &[],
                        &records[..end as usize]
                    )));
                }
            }
            let mut log = log.restarted();
            assert!(!log.clean(now.plus_ms(9), &config), "it knows nothing of the records up to 8");
            assert_eq!((log.snapshots().len(), log.start_offset()), (2, Offset::ZERO));
            log.advance_high_watermark(Offset(9));
            assert!(log.clean(now.plus_ms(9), &config));
            assert_eq!((log.snapshots().len(), log.start_offset()), (1, Offset(8)));
        }
    }

    #[test]
    fn it_is_framed_by_a_header_and_a_footer_r_log_5() {
        let (snapshot, _) = snapshot(1);
        let batches: Vec<Batch> =
            split_batches(snapshot.bytes().clone()).map(|batch| batch.expect("sound")).collect();
        let kinds = |batch: &Batch| -> Vec<ControlType> {
            let keys = batch.records().expect("sound").into_iter().map(|record| record.key);
            keys.filter_map(|key| ControlType::of_key(key.as_deref()?)).collect()
        };
        let header = [ControlType::SnapshotHeader, ControlType::KRaftVersion, ControlType::KRaftVoters];
        assert_eq!(kinds(&batches[0]), header);
        assert_eq!(kinds(&batches[2]), [ControlType::SnapshotFooter]);
        assert_eq!((batches.len(), batches[2].base_offset()), (3, Offset(4)));
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_refused() {
        let (snapshot, _) = snapshot(2);
        let bytes = snapshot.bytes();
        for end in [0, 10, bytes.len() - 1, bytes.len() - 70] {
            assert!(Snapshot::read(snapshot.id(), bytes.slice(..end)).is_err(), "{end} bytes");
        }
    }
}
