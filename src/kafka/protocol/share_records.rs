//! Keys and values of the share coordinator's records in `__share_group_state` (KIP-932).
//!
//! Mirrors `ShareSnapshotKey`/`Value`, `ShareUpdateKey`/`Value` and `ShareCoordinatorRecordHelpers`. A snapshot is all
//! that is known of a share partition, an update what has changed since; a snapshot without a value is a tombstone.
//!
//! **Invariant:** what is encoded here is, byte for byte, what Kafka 4.3 writes.

use bytes::Bytes;

use super::super::types::{GroupId, LeaderEpoch, Offset, TopicId};
use super::wire::{Field, Reader, WireError, WireProblem, Writer, tables};

/// Which share partition a record is about, and which kind of record it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRecordKey {
    pub kind: ShareRecordKind,
    pub group: GroupId,
    pub topic_id: TopicId,
    pub partition: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum ShareRecordKind {
    Snapshot = 0,
    Update = 1,
}

tables! {
    /// One state for the offsets from first to last.
    #[derive(Copy)]
    ShareStateBatch {
        first_offset: Offset,
        last_offset: Offset,
        /// 0 available, 2 acknowledged, 4 archived.
        delivery_state: i8,
        delivery_count: i16,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareSnapshotValue {
    pub snapshot_epoch: i32,
    pub state_epoch: i32,
    pub leader_epoch: LeaderEpoch,
    /// -1 as long as no leader has begun.
    pub start_offset: Offset,
    /// -1 if it is not known.
    pub delivery_complete_count: i32,
    /// Milliseconds since 1970.
    pub create_timestamp_ms: i64,
    /// Milliseconds since 1970.
    pub write_timestamp_ms: i64,
    pub state_batches: Vec<ShareStateBatch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareUpdateValue {
    /// Of the snapshot that is updated.
    pub snapshot_epoch: i32,
    pub leader_epoch: LeaderEpoch,
    /// -1 if it stays.
    pub start_offset: Offset,
    /// -1 if it is not known.
    pub delivery_complete_count: i32,
    pub state_batches: Vec<ShareStateBatch>,
}

const DELIVERY_COMPLETE_COUNT_TAG: u32 = 0;
const UNKNOWN_COUNT: i32 = -1;
const VALUE_VERSION: i16 = 0;

impl ShareRecordKey {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.i16(self.kind as i16);
        w.string(self.group.as_str());
        w.uuid(self.topic_id.0);
        w.i32(self.partition);
        w.finish()
    }

    /// # Errors
    /// The bytes are no key, or one of a kind that Kafka 4.3 does not know.
    pub fn decode(bytes: &[u8]) -> Result<ShareRecordKey, WireError> {
        let mut r = Reader::new("key of __share_group_state", bytes);
        let kind = match r.i16()? {
            0 => ShareRecordKind::Snapshot,
            1 => ShareRecordKind::Update,
            other => return Err(r.error(WireProblem::Version(other))),
        };
        let group = GroupId::new(r.string()?);
        let key = ShareRecordKey { kind, group, topic_id: TopicId(r.uuid()?), partition: r.i32()? };
        r.finish()?;
        Ok(key)
    }
}

impl ShareSnapshotValue {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.i16(VALUE_VERSION);
        w.i32(self.snapshot_epoch);
        w.i32(self.state_epoch);
        w.i32(self.leader_epoch.0);
        w.i64(self.start_offset.0);
        w.i64(self.create_timestamp_ms);
        w.i64(self.write_timestamp_ms);
        self.state_batches.write(&mut w);
        write_count(&mut w, self.delivery_complete_count);
        w.finish()
    }

    /// # Errors
    /// The bytes are no value of version 0.
    pub fn decode(bytes: &[u8]) -> Result<ShareSnapshotValue, WireError> {
        let mut r = Reader::new("ShareSnapshotValue", bytes);
        read_version(&mut r)?;
        let mut value = ShareSnapshotValue {
            snapshot_epoch: r.i32()?,
            state_epoch: r.i32()?,
            leader_epoch: LeaderEpoch(r.i32()?),
            start_offset: Offset(r.i64()?),
            delivery_complete_count: UNKNOWN_COUNT,
            create_timestamp_ms: r.i64()?,
            write_timestamp_ms: r.i64()?,
            state_batches: Field::read(&mut r)?,
        };
        value.delivery_complete_count = read_count(&mut r)?;
        r.finish()?;
        Ok(value)
    }
}

impl ShareUpdateValue {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.i16(VALUE_VERSION);
        w.i32(self.snapshot_epoch);
        w.i32(self.leader_epoch.0);
        w.i64(self.start_offset.0);
        self.state_batches.write(&mut w);
        write_count(&mut w, self.delivery_complete_count);
        w.finish()
    }

    /// # Errors
    /// The bytes are no value of version 0.
    pub fn decode(bytes: &[u8]) -> Result<ShareUpdateValue, WireError> {
        let mut r = Reader::new("ShareUpdateValue", bytes);
        read_version(&mut r)?;
        let mut value = ShareUpdateValue {
            snapshot_epoch: r.i32()?,
            leader_epoch: LeaderEpoch(r.i32()?),
            start_offset: Offset(r.i64()?),
            delivery_complete_count: UNKNOWN_COUNT,
            state_batches: Field::read(&mut r)?,
        };
        value.delivery_complete_count = read_count(&mut r)?;
        r.finish()?;
        Ok(value)
    }
}

/// A tagged field is left out where it has its default.
fn write_count(w: &mut Writer, count: i32) {
    let field =
        (count != UNKNOWN_COUNT).then(|| Writer::tagged(DELIVERY_COMPLETE_COUNT_TAG, |w| w.i32(count)));
    w.tags(field.as_slice());
}

fn read_count(r: &mut Reader<'_>) -> Result<i32, WireError> {
    let mut count = UNKNOWN_COUNT;
    for (tag, mut field) in r.tags()? {
        if tag == DELIVERY_COMPLETE_COUNT_TAG {
            count = field.i32()?;
        }
    }
    Ok(count)
}

fn read_version(r: &mut Reader<'_>) -> Result<(), WireError> {
    match r.i16()? {
        VALUE_VERSION => Ok(()),
        other => Err(r.error(WireProblem::Version(other))),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn batch(first: i64, last: i64, delivery_state: i8, delivery_count: i16) -> ShareStateBatch {
        ShareStateBatch {
            first_offset: Offset(first),
            last_offset: Offset(last),
            delivery_state,
            delivery_count,
        }
    }

    fn snapshot() -> ShareSnapshotValue {
        ShareSnapshotValue {
            snapshot_epoch: 3,
            state_epoch: 1,
            leader_epoch: LeaderEpoch(7),
            start_offset: Offset(5),
            delivery_complete_count: 2,
            create_timestamp_ms: 10,
            write_timestamp_ms: 11,
            state_batches: vec![batch(5, 6, 2, 1), batch(7, 9, 0, 4)],
        }
    }

    #[test]
    fn keys_name_the_kind_the_group_and_the_partition_r_share_3() {
        let id = TopicId(Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10));
        for (kind, byte) in [(ShareRecordKind::Snapshot, 0), (ShareRecordKind::Update, 1)] {
            let key = ShareRecordKey { kind, group: "g1".into(), topic_id: id, partition: 2 };
            let bytes = key.encode();
            let expected = [
                0, byte, 0, 2, b'g', b'1', 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0, 0, 0, 2,
            ];
            assert_eq!(&bytes[..], expected);
            assert_eq!(ShareRecordKey::decode(&bytes), Ok(key));
        }
        assert!(ShareRecordKey::decode(&[0, 2, 0, 0]).is_err());
    }

    #[test]
    fn a_snapshot_is_written_as_kafka_writes_it_r_share_3() {
        let bytes = snapshot().encode();
        #[rustfmt::skip]
        let expected = [
            0, 0, // version
            0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 7, // epochs: snapshot, state, leader
            0, 0, 0, 0, 0, 0, 0, 5, // start offset
            0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 11, // timestamps
            3, // batches and one
            0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 2, 0, 1, 0,
            0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 4, 0,
            1, 0, 4, 0, 0, 0, 2, // one tagged field: delivery complete count
        ];
        assert_eq!(&bytes[..], expected);
        assert_eq!(ShareSnapshotValue::decode(&bytes), Ok(snapshot()));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let update = ShareUpdateValue {
            snapshot_epoch: 3,
            leader_epoch: LeaderEpoch(7),
            start_offset: Offset(-1),
            delivery_complete_count: -1,
            state_batches: Vec::new(),
        };
        let bytes = update.encode();
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 0, 0, 3, 0, 0, 0, 7, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0,
        ];
        assert_eq!(&bytes[..], expected);
        assert_eq!(ShareUpdateValue::decode(&bytes), Ok(update));
        let counted = ShareUpdateValue {
            delivery_complete_count: 4,
            ..ShareUpdateValue::decode(&bytes).expect("it is sound")
        };
        assert_eq!(ShareUpdateValue::decode(&counted.encode()), Ok(counted));
    }

    #[test]
    fn bytes_that_nobody_wrote_are_refused() {
        let bytes = snapshot().encode();
        for length in 0..bytes.len() {
            assert!(ShareSnapshotValue::decode(&bytes[..length]).is_err(), "{length}");
        }
        assert!(ShareUpdateValue::decode(&[0, 1]).is_err());
    }
}
