//! What the share coordinator knows of its partitions, and how records change it (`ShareGroupOffset`, the replay of
//! `ShareCoordinatorShard`).
//!
//! **Invariant:** the state is what the records say, in their order, and nothing else.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::key::ShareKey;
use super::super::range::OffsetRange;
use super::super::state::{RecordState, StateBatch};
use super::combine::combine;
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::protocol::share_records::{
    ShareRecordKey, ShareRecordKind, ShareSnapshotValue, ShareStateBatch, ShareUpdateValue,
};
use crate::kafka::protocol::wire::WireError;
use crate::kafka::types::{LeaderEpoch, Offset};

/// All that is persisted of one share partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareState {
    /// Counts the snapshots.
    pub snapshot_epoch: i32,
    /// Raised by the group coordinator whenever the state begins anew.
    pub state_epoch: i32,
    pub leader_epoch: LeaderEpoch,
    /// Nothing as long as no leader has begun.
    pub start_offset: Option<Offset>,
    /// How many records from the start on are done, if that is known.
    pub delivery_complete_count: Option<i32>,
    /// Milliseconds since 1970.
    pub create_timestamp_ms: i64,
    /// Milliseconds since 1970.
    pub write_timestamp_ms: i64,
    pub batches: Vec<StateBatch>,
}

/// A state with what is remembered beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    pub state: ShareState,
    /// The highest that was ever seen: an older leader is refused.
    pub highest_leader_epoch: LeaderEpoch,
    pub highest_state_epoch: i32,
    /// How many updates there were since the last snapshot that ended a count.
    pub updates: i32,
    /// Where the last snapshot is; everything of this share partition before is needless.
    pub snapshot_at: Offset,
}

/// A record of `__share_group_state`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRecord {
    pub key: ShareKey,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Snapshot(ShareState),
    Update(Update),
    Deleted,
}

/// What has changed since the last record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub snapshot_epoch: i32,
    pub leader_epoch: LeaderEpoch,
    pub start_offset: Option<Offset>,
    pub delivery_complete_count: Option<i32>,
    pub batches: Vec<StateBatch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct States {
    tracked: BTreeMap<ShareKey, Rc<Tracked>>,
    redundant_before: Option<Offset>,
}

impl States {
    pub fn get(&self, key: &ShareKey) -> Option<&Tracked> {
        self.tracked.get(key).map(Rc::as_ref)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&ShareKey, &Tracked)> {
        self.tracked.iter().map(|(key, tracked)| (key, tracked.as_ref()))
    }

    /// Records before it are needless: each share partition has a snapshot, or its end, there or behind
    /// (`ShareCoordinatorOffsetsManager`).
    pub fn redundant_before(&self) -> Option<Offset> {
        self.redundant_before.filter(|offset| *offset > Offset::ZERO)
    }

    /// A share partition was written as a whole, or deleted, at `offset`.
    fn note_whole(&mut self, key: &ShareKey, offset: Offset) {
        let others = self.tracked.iter().filter(|(other, _)| *other != key);
        self.redundant_before = others.map(|(_, tracked)| tracked.snapshot_at).chain([offset]).min();
    }

    /// Takes up a record that stands at `offset`. After `updates_per_snapshot` updates a snapshot starts the count anew.
    pub fn replay(&mut self, record: &ShareRecord, offset: Offset, updates_per_snapshot: i32) {
        if matches!(record.change, Change::Snapshot(_) | Change::Deleted) {
            self.note_whole(&record.key, offset);
        }
        let known = self.tracked.get_mut(&record.key);
        match (&record.change, known) {
            (Change::Deleted, _) => drop(self.tracked.remove(&record.key)),
            (Change::Snapshot(state), Some(tracked)) => {
                let tracked = Rc::make_mut(tracked);
                tracked.note_epochs(state.leader_epoch, state.state_epoch);
                tracked.state = state.clone();
                tracked.snapshot_at = offset;
                if tracked.updates >= updates_per_snapshot {
                    tracked.updates = 0;
                }
            }
            (Change::Snapshot(state), None) => self.begin(&record.key, state.clone(), offset, 0),
            (Change::Update(update), Some(tracked)) => {
                let tracked = Rc::make_mut(tracked);
                tracked.note_epochs(update.leader_epoch, tracked.highest_state_epoch);
                tracked.state.update(update);
                tracked.updates += 1;
            }
            (Change::Update(update), None) => self.begin(&record.key, update.alone(), offset, 1),
        }
    }

    fn begin(&mut self, key: &ShareKey, state: ShareState, snapshot_at: Offset, updates: i32) {
        let (leader_epoch, state_epoch) = (state.leader_epoch, state.state_epoch);
        let tracked = Tracked {
            state,
            highest_leader_epoch: leader_epoch,
            highest_state_epoch: state_epoch,
            updates,
            snapshot_at,
        };
        self.tracked.insert(key.clone(), Rc::new(tracked));
    }
}

impl Tracked {
    fn note_epochs(&mut self, leader_epoch: LeaderEpoch, state_epoch: i32) {
        self.highest_leader_epoch = self.highest_leader_epoch.max(leader_epoch);
        self.highest_state_epoch = self.highest_state_epoch.max(state_epoch);
    }
}

impl ShareState {
    /// `merge`.
    fn update(&mut self, update: &Update) {
        self.start_offset = update.start_offset.or(self.start_offset);
        if update.leader_epoch != LeaderEpoch::NONE {
            self.leader_epoch = update.leader_epoch;
        }
        self.delivery_complete_count = update.delivery_complete_count;
        self.batches = combine(&self.batches, &update.batches, self.start_offset);
    }
}

impl Update {
    /// An update whose snapshot is not known.
    fn alone(&self) -> ShareState {
        ShareState {
            snapshot_epoch: self.snapshot_epoch,
            state_epoch: 0,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
            create_timestamp_ms: 0,
            write_timestamp_ms: 0,
            batches: self.batches.clone(),
        }
    }
}

impl ShareRecord {
    pub fn encode(&self) -> CoordinatorRecord {
        let (kind, value) = match &self.change {
            Change::Snapshot(state) => (ShareRecordKind::Snapshot, Some(snapshot_value(state).encode())),
            Change::Update(update) => (ShareRecordKind::Update, Some(update_value(update).encode())),
            Change::Deleted => (ShareRecordKind::Snapshot, None),
        };
        let ShareKey { group, topic_id, partition } = self.key.clone();
        CoordinatorRecord { key: ShareRecordKey { kind, group, topic_id, partition }.encode(), value }
    }

    /// An update without a value says nothing.
    ///
    /// # Errors
    /// The bytes are none that a share coordinator of Kafka 4.3 writes.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<ShareRecord>, WireError> {
        let ShareRecordKey { kind, group, topic_id, partition } = ShareRecordKey::decode(key)?;
        let change = match (kind, value) {
            (ShareRecordKind::Snapshot, None) => Change::Deleted,
            (ShareRecordKind::Snapshot, Some(bytes)) => {
                Change::Snapshot(snapshot_state(ShareSnapshotValue::decode(bytes)?))
            }
            (ShareRecordKind::Update, Some(bytes)) => {
                Change::Update(update_of(ShareUpdateValue::decode(bytes)?))
            }
            (ShareRecordKind::Update, None) => return Ok(None),
        };
        Ok(Some(ShareRecord { key: ShareKey { group, topic_id, partition }, change }))
    }
}

fn snapshot_value(state: &ShareState) -> ShareSnapshotValue {
    ShareSnapshotValue {
        snapshot_epoch: state.snapshot_epoch,
        state_epoch: state.state_epoch,
        leader_epoch: state.leader_epoch,
        start_offset: state.start_offset.unwrap_or(Offset::UNKNOWN),
        delivery_complete_count: state.delivery_complete_count.unwrap_or(-1),
        create_timestamp_ms: state.create_timestamp_ms,
        write_timestamp_ms: state.write_timestamp_ms,
        state_batches: state.batches.iter().map(written).collect(),
    }
}

fn snapshot_state(value: ShareSnapshotValue) -> ShareState {
    ShareState {
        snapshot_epoch: value.snapshot_epoch,
        state_epoch: value.state_epoch,
        leader_epoch: value.leader_epoch,
        start_offset: known(value.start_offset),
        delivery_complete_count: Some(value.delivery_complete_count).filter(|count| *count >= 0),
        create_timestamp_ms: value.create_timestamp_ms,
        write_timestamp_ms: value.write_timestamp_ms,
        batches: value.state_batches.iter().filter_map(read).collect(),
    }
}

fn update_value(update: &Update) -> ShareUpdateValue {
    ShareUpdateValue {
        snapshot_epoch: update.snapshot_epoch,
        leader_epoch: update.leader_epoch,
        start_offset: update.start_offset.unwrap_or(Offset::UNKNOWN),
        delivery_complete_count: update.delivery_complete_count.unwrap_or(-1),
        state_batches: update.batches.iter().map(written).collect(),
    }
}

fn update_of(value: ShareUpdateValue) -> Update {
    Update {
        snapshot_epoch: value.snapshot_epoch,
        leader_epoch: value.leader_epoch,
        start_offset: known(value.start_offset),
        delivery_complete_count: Some(value.delivery_complete_count).filter(|count| *count >= 0),
        batches: value.state_batches.iter().filter_map(read).collect(),
    }
}

fn known(offset: Offset) -> Option<Offset> {
    Some(offset).filter(|offset| *offset != Offset::UNKNOWN)
}

fn written(batch: &StateBatch) -> ShareStateBatch {
    ShareStateBatch {
        first_offset: batch.range.first,
        last_offset: batch.range.last,
        delivery_state: batch.state.id(),
        delivery_count: batch.delivery_count,
    }
}

/// A state that Kafka 4.3 does not write is left out: its records are read again.
fn read(batch: &ShareStateBatch) -> Option<StateBatch> {
    let state = RecordState::from_id(batch.delivery_state)?;
    let range = OffsetRange::new(batch.first_offset, batch.last_offset);
    Some(StateBatch { range, state, delivery_count: batch.delivery_count })
}
