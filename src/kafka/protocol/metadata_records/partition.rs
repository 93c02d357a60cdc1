//! PartitionRecord and PartitionChangeRecord.

use super::log_directory;
use crate::kafka::protocol::wire::{Reader, WireError, Writer};
use crate::kafka::types::{BrokerId, LeaderEpoch, PartitionEpoch, TopicId};

/// LeaderRecoveryState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RecoveryState {
    #[default]
    Recovered,
    /// The leader was elected outside the in-sync set and has not yet confirmed its log.
    Recovering,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRecord {
    pub partition: i32,
    pub topic_id: TopicId,
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    pub removing: Vec<BrokerId>,
    pub adding: Vec<BrokerId>,
    pub leader: BrokerId,
    pub recovery: RecoveryState,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: PartitionEpoch,
    /// Only in snapshots: a new partition has none.
    pub elr: Vec<BrokerId>,
    pub last_known_elr: Vec<BrokerId>,
}

impl PartitionRecord {
    /// A partition that nothing has happened to yet.
    pub fn new(
        (topic_id, partition): (TopicId, i32),
        replicas: Vec<BrokerId>,
        isr: Vec<BrokerId>,
        leader: BrokerId,
    ) -> PartitionRecord {
        PartitionRecord {
            partition,
            topic_id,
            replicas,
            isr,
            removing: Vec::new(),
            adding: Vec::new(),
            leader,
            recovery: RecoveryState::Recovered,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            elr: Vec::new(),
            last_known_elr: Vec::new(),
        }
    }
}

/// Fields that are `None` did not change; `leader: Some(BrokerId::NONE)` says that there is none now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionChange {
    pub partition: i32,
    pub topic_id: TopicId,
    pub isr: Option<Vec<BrokerId>>,
    pub leader: Option<BrokerId>,
    pub replicas: Option<Vec<BrokerId>>,
    pub removing: Option<Vec<BrokerId>>,
    pub adding: Option<Vec<BrokerId>>,
    pub recovery: Option<RecoveryState>,
    pub elr: Option<Vec<BrokerId>>,
    pub last_known_elr: Option<Vec<BrokerId>>,
}

impl PartitionChange {
    pub fn is_empty(&self) -> bool {
        let unchanged =
            PartitionChange { partition: self.partition, topic_id: self.topic_id, ..Default::default() };
        *self == unchanged
    }
}

fn encode_ids(w: &mut Writer, ids: &[BrokerId]) {
    w.compact_array(ids, |w, id| w.i32(id.0));
}

fn decode_ids(r: &mut Reader<'_>) -> Result<Vec<BrokerId>, WireError> {
    r.compact_array(|r| Ok(BrokerId(r.i32()?)))
}

fn decode_ids_field(mut field: Reader<'_>) -> Result<Vec<BrokerId>, WireError> {
    let ids = decode_ids(&mut field)?;
    field.finish()?;
    Ok(ids)
}

pub(super) fn encode_partition(w: &mut Writer, record: &PartitionRecord) {
    w.i32(record.partition);
    w.uuid(record.topic_id.0);
    encode_ids(w, &record.replicas);
    encode_ids(w, &record.isr);
    encode_ids(w, &record.removing);
    encode_ids(w, &record.adding);
    w.i32(record.leader.0);
    w.i32(record.leader_epoch.0);
    w.i32(record.partition_epoch.0);
    w.compact_array(&record.replicas, |w, _| w.uuid(log_directory()));
    let recovering = record.recovery == RecoveryState::Recovering;
    let mut tags: Vec<_> = recovering.then(|| Writer::tagged(0, |w| w.i8(1))).into_iter().collect();
    for (tag, ids) in [(1, &record.elr), (2, &record.last_known_elr)] {
        if !ids.is_empty() {
            tags.push(Writer::tagged(tag, |w| encode_ids(w, ids)));
        }
    }
    w.tags(&tags);
}

pub(super) fn decode_partition(r: &mut Reader<'_>) -> Result<PartitionRecord, WireError> {
    let (partition, topic_id) = (r.i32()?, TopicId(r.uuid()?));
    let (replicas, isr) = (decode_ids(r)?, decode_ids(r)?);
    let (removing, adding) = (decode_ids(r)?, decode_ids(r)?);
    let leader = BrokerId(r.i32()?);
    let (leader_epoch, partition_epoch) = (LeaderEpoch(r.i32()?), PartitionEpoch(r.i32()?));
    r.compact_array(|r| r.uuid())?;
    let (mut recovery, mut elr, mut last_known_elr) = (RecoveryState::Recovered, Vec::new(), Vec::new());
    for (tag, mut field) in r.tags()? {
        match tag {
            0 if field.i8()? == 1 => recovery = RecoveryState::Recovering,
            1 => elr = decode_ids_field(field)?,
            2 => last_known_elr = decode_ids_field(field)?,
            _ => {}
        }
    }
    Ok(PartitionRecord {
        partition,
        topic_id,
        replicas,
        isr,
        removing,
        adding,
        leader,
        recovery,
        leader_epoch,
        partition_epoch,
        elr,
        last_known_elr,
    })
}

pub(super) fn encode_partition_change(w: &mut Writer, record: &PartitionChange) {
    w.i32(record.partition);
    w.uuid(record.topic_id.0);
    let mut tags = Vec::new();
    let ids = |tag, ids: &Option<Vec<BrokerId>>| {
        ids.as_deref().map(|ids| Writer::tagged(tag, |w| encode_ids(w, ids)))
    };
    tags.extend(ids(0, &record.isr));
    tags.extend(record.leader.map(|leader| Writer::tagged(1, |w| w.i32(leader.0))));
    tags.extend(ids(2, &record.replicas));
    tags.extend(ids(3, &record.removing));
    tags.extend(ids(4, &record.adding));
    tags.extend(record.recovery.map(|state| {
        let recovering = state == RecoveryState::Recovering;
        Writer::tagged(5, |w| w.i8(i8::from(recovering)))
    }));
    tags.extend(ids(6, &record.elr));
    tags.extend(ids(7, &record.last_known_elr));
    // Where each replica lies on its broker.
    tags.extend(
        record
            .replicas
            .as_deref()
            .map(|replicas| Writer::tagged(8, |w| w.compact_array(replicas, |w, _| w.uuid(log_directory())))),
    );
    w.tags(&tags);
}

pub(super) fn decode_partition_change(r: &mut Reader<'_>) -> Result<PartitionChange, WireError> {
    let mut change =
        PartitionChange { partition: r.i32()?, topic_id: TopicId(r.uuid()?), ..PartitionChange::default() };
    for (tag, mut field) in r.tags()? {
        match tag {
            0 => change.isr = Some(decode_ids_field(field)?),
            1 => change.leader = Some(BrokerId(field.i32()?)),
            2 => change.replicas = Some(decode_ids_field(field)?),
            3 => change.removing = Some(decode_ids_field(field)?),
            4 => change.adding = Some(decode_ids_field(field)?),
            5 => {
                let recovering = field.i8()? == 1;
                change.recovery =
                    Some(if recovering { RecoveryState::Recovering } else { RecoveryState::Recovered });
            }
            6 => change.elr = Some(decode_ids_field(field)?),
            7 => change.last_known_elr = Some(decode_ids_field(field)?),
            _ => {}
        }
    }
    Ok(change)
}
