//! The records of `__cluster_metadata`, with the types, versions and bytes that Kafka 4.3 writes.
//!
//! Framing as `MetadataRecordSerde`: frame version 1, api key, version, then the fields; all versions are flexible.
//! Fields that only matter with several log directories or listeners are written as a one-directory broker would.
//!
//! **Invariant:** `decode(encode(r)) == r`.

use bytes::Bytes;
use uuid::Uuid;

use super::wire::{Reader, WireError, WireProblem, Writer};
use crate::kafka::types::{
    BrokerEpoch, BrokerId, ControllerId, LeaderEpoch, PartitionEpoch, ProducerId, Topic, TopicId,
};

const FRAME_VERSION: u32 = 1;

/// The port of every broker's one listener.
pub const PORT: u16 = 9092;

/// The port of every controller's one listener.
pub const CONTROLLER_PORT: u16 = 9093;

/// The host name of a controller's one listener.
pub fn controller_host(controller: ControllerId) -> String {
    format!("controller-{controller}")
}

/// The host name of a broker's one listener.
pub fn host(broker: BrokerId) -> String {
    format!("broker-{broker}")
}

/// LeaderRecoveryState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RecoveryState {
    #[default]
    Recovered,
    /// The leader was elected outside the in-sync set and has not yet confirmed its log.
    Recovering,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterBroker {
    pub broker: BrokerId,
    pub incarnation: Uuid,
    pub epoch: BrokerEpoch,
    pub rack: Option<String>,
    pub fenced: bool,
    pub in_controlled_shutdown: bool,
}

/// Fields that are `None` did not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistrationChange {
    pub broker: BrokerId,
    pub epoch: BrokerEpoch,
    pub fenced: Option<bool>,
    pub in_controlled_shutdown: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResource {
    Topic,
    Broker,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataRecord {
    RegisterBroker(RegisterBroker),
    Topic {
        name: Topic,
        id: TopicId,
    },
    Partition(PartitionRecord),
    /// `value: None` deletes the key.
    Config {
        resource: ConfigResource,
        name: String,
        key: String,
        value: Option<String>,
    },
    PartitionChange(PartitionChange),
    RemoveTopic {
        id: TopicId,
    },
    FeatureLevel {
        name: String,
        level: i16,
    },
    ProducerIds {
        broker: BrokerId,
        epoch: BrokerEpoch,
        next: ProducerId,
    },
    BrokerRegistrationChange(BrokerRegistrationChange),
    /// The eligible replicas and last known leaders of a topic's partitions are forgotten; `None`: of all topics'.
    ClearElr {
        topic: Option<Topic>,
    },
}

impl MetadataRecord {
    fn key_and_version(&self) -> (u32, u32) {
        match self {
            MetadataRecord::RegisterBroker(_) => (0, 4),
            MetadataRecord::Topic { .. } => (2, 0),
            MetadataRecord::Partition(_) => (3, 2),
            MetadataRecord::Config { .. } => (4, 0),
            MetadataRecord::PartitionChange(_) => (5, 2),
            MetadataRecord::RemoveTopic { .. } => (9, 0),
            MetadataRecord::FeatureLevel { .. } => (12, 0),
            MetadataRecord::ProducerIds { .. } => (15, 0),
            MetadataRecord::BrokerRegistrationChange(change) => {
                (17, u32::from(change.in_controlled_shutdown))
            }
            MetadataRecord::ClearElr { .. } => (28, 0),
        }
    }

    /// The record's value; records of the metadata log have no key.
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        let (key, version) = self.key_and_version();
        w.unsigned_varint(FRAME_VERSION);
        w.unsigned_varint(key);
        w.unsigned_varint(version);
        match self {
            MetadataRecord::RegisterBroker(record) => encode_registration(&mut w, record),
            MetadataRecord::Topic { name, id } => {
                w.compact_string(name.as_str());
                w.uuid(id.0);
                w.tags(&[]);
            }
            MetadataRecord::Partition(record) => encode_partition(&mut w, record),
            MetadataRecord::Config { resource, name, key, value } => {
                w.i8(resource.code());
                w.compact_string(name);
                w.compact_string(key);
                w.compact_nullable_string(value.as_deref());
                w.tags(&[]);
            }
            MetadataRecord::PartitionChange(record) => encode_partition_change(&mut w, record),
            MetadataRecord::RemoveTopic { id } => {
                w.uuid(id.0);
                w.tags(&[]);
            }
            MetadataRecord::FeatureLevel { name, level } => {
                w.compact_string(name);
                w.i16(*level);
                w.tags(&[]);
            }
            MetadataRecord::ProducerIds { broker, epoch, next } => {
                w.i32(broker.0);
                w.i64(epoch.0);
                w.i64(next.0);
                w.tags(&[]);
            }
            MetadataRecord::BrokerRegistrationChange(record) => encode_registration_change(&mut w, record),
            MetadataRecord::ClearElr { topic } => {
                w.compact_string(topic.as_ref().map_or("", Topic::as_str));
                w.tags(&[]);
            }
        }
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<MetadataRecord, WireError> {
        let mut r = Reader::new("metadata record", bytes);
        let frame = r.unsigned_varint()?;
        if frame != FRAME_VERSION {
            return Err(r.error(WireProblem::Version(frame as i16)));
        }
        let key = r.unsigned_varint()?;
        let version = r.unsigned_varint()?;
        let record = match (key, version) {
            (0, 4) => MetadataRecord::RegisterBroker(decode_registration(&mut r)?),
            (2, 0) => {
                let (name, id) = (r.compact_string()?, TopicId(r.uuid()?));
                r.tags()?;
                MetadataRecord::Topic { name: Topic::new(name), id }
            }
            (3, 2) => MetadataRecord::Partition(decode_partition(&mut r)?),
            (4, 0) => decode_config(&mut r)?,
            (5, 2) => MetadataRecord::PartitionChange(decode_partition_change(&mut r)?),
            (9, 0) => {
                let id = TopicId(r.uuid()?);
                r.tags()?;
                MetadataRecord::RemoveTopic { id }
            }
            (12, 0) => {
                let (name, level) = (r.compact_string()?, r.i16()?);
                r.tags()?;
                MetadataRecord::FeatureLevel { name: name.to_string(), level }
            }
            (15, 0) => {
                let (broker, epoch, next) = (BrokerId(r.i32()?), BrokerEpoch(r.i64()?), ProducerId(r.i64()?));
                r.tags()?;
                MetadataRecord::ProducerIds { broker, epoch, next }
            }
            (17, 0 | 1) => MetadataRecord::BrokerRegistrationChange(decode_registration_change(&mut r)?),
            (28, 0) => {
                let topic = r.compact_string()?;
                r.tags()?;
                MetadataRecord::ClearElr { topic: Some(Topic::new(topic)).filter(|_| !topic.is_empty()) }
            }
            _ => return Err(r.error(WireProblem::Version(key as i16))),
        };
        r.finish()?;
        Ok(record)
    }
}

impl ConfigResource {
    fn code(self) -> i8 {
        match self {
            ConfigResource::Topic => 2,
            ConfigResource::Broker => 4,
        }
    }
}

/// The one log directory of every broker here.
fn log_directory() -> Uuid {
    Uuid::from_u128(0x6c6f_672d_6469_7200_0000_0000_0000_0001)
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

fn encode_registration(w: &mut Writer, record: &RegisterBroker) {
    w.i32(record.broker.0);
    w.bool(false);
    w.uuid(record.incarnation);
    w.i64(record.epoch.0);
    w.compact_array(&[record.broker], |w, broker| {
        w.compact_string("PLAINTEXT");
        w.compact_string(&host(*broker));
        w.u16(PORT);
        w.i16(0);
        w.tags(&[]);
    });
    w.compact_array::<()>(&[], |_, _| {});
    w.compact_nullable_string(record.rack.as_deref());
    w.bool(record.fenced);
    w.bool(record.in_controlled_shutdown);
    w.tags(&[Writer::tagged(0, |w| w.compact_array(&[log_directory()], |w, id| w.uuid(*id)))]);
}

fn decode_registration(r: &mut Reader<'_>) -> Result<RegisterBroker, WireError> {
    let broker = BrokerId(r.i32()?);
    r.bool()?;
    let incarnation = r.uuid()?;
    let epoch = BrokerEpoch(r.i64()?);
    r.compact_array(|r| {
        r.compact_string()?;
        r.compact_string()?;
        r.u16()?;
        r.i16()?;
        r.tags()
    })?;
    r.compact_array(|_| Ok(()))?;
    let rack = r.compact_nullable_string()?.map(|rack| rack.to_string());
    let (fenced, in_controlled_shutdown) = (r.bool()?, r.bool()?);
    r.tags()?;
    Ok(RegisterBroker { broker, incarnation, epoch, rack, fenced, in_controlled_shutdown })
}

fn encode_registration_change(w: &mut Writer, record: &BrokerRegistrationChange) {
    w.i32(record.broker.0);
    w.i64(record.epoch.0);
    let mut tags = Vec::new();
    if let Some(fenced) = record.fenced {
        tags.push(Writer::tagged(0, |w| w.i8(if fenced { 1 } else { -1 })));
    }
    if record.in_controlled_shutdown {
        tags.push(Writer::tagged(1, |w| w.i8(1)));
    }
    w.tags(&tags);
}

fn decode_registration_change(r: &mut Reader<'_>) -> Result<BrokerRegistrationChange, WireError> {
    let (broker, epoch) = (BrokerId(r.i32()?), BrokerEpoch(r.i64()?));
    let mut change = BrokerRegistrationChange { broker, epoch, fenced: None, in_controlled_shutdown: false };
    for (tag, mut field) in r.tags()? {
        let value = field.i8()?;
        match tag {
            0 if value != 0 => change.fenced = Some(value > 0),
            1 => change.in_controlled_shutdown = value > 0,
            _ => {}
        }
    }
    Ok(change)
}

fn encode_partition(w: &mut Writer, record: &PartitionRecord) {
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

fn decode_partition(r: &mut Reader<'_>) -> Result<PartitionRecord, WireError> {
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

fn encode_partition_change(w: &mut Writer, record: &PartitionChange) {
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

fn decode_partition_change(r: &mut Reader<'_>) -> Result<PartitionChange, WireError> {
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

fn decode_config(r: &mut Reader<'_>) -> Result<MetadataRecord, WireError> {
    let resource = match r.i8()? {
        2 => ConfigResource::Topic,
        4 => ConfigResource::Broker,
        other => return Err(r.error(WireProblem::Length(i64::from(other)))),
    };
    let (name, key) = (r.compact_string()?.to_string(), r.compact_string()?.to_string());
    let value = r.compact_nullable_string()?.map(|value| value.to_string());
    r.tags()?;
    Ok(MetadataRecord::Config { resource, name, key, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: MetadataRecord) {
        let bytes = record.encode();
        assert_eq!(MetadataRecord::decode(&bytes), Ok(record.clone()), "{record:?}");
        assert!(MetadataRecord::decode(&bytes[..bytes.len() - 1]).is_err(), "cut short: {record:?}");
    }

    /// R-CTRL-13.
    #[test]
    fn every_record_reads_back_from_its_bytes() {
        let topic_id = TopicId(Uuid::from_u128(7));
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        check(MetadataRecord::RegisterBroker(RegisterBroker {
            broker: BrokerId(3),
            incarnation: Uuid::from_u128(9),
            epoch: BrokerEpoch(12),
            rack: Some("c".into()),
            fenced: true,
            in_controlled_shutdown: false,
        }));
        check(MetadataRecord::Topic { name: "orders".into(), id: topic_id });
        check(MetadataRecord::Partition(PartitionRecord {
            partition: 2,
            topic_id,
            replicas: ids(&[3, 1, 2]),
            isr: ids(&[3, 1]),
            removing: ids(&[2]),
            adding: ids(&[3]),
            leader: BrokerId(3),
            recovery: RecoveryState::Recovering,
            leader_epoch: LeaderEpoch(4),
            partition_epoch: PartitionEpoch(9),
            elr: ids(&[2]),
            last_known_elr: ids(&[1]),
        }));
        check(MetadataRecord::PartitionChange(PartitionChange {
            partition: 2,
            topic_id,
            isr: Some(ids(&[])),
            leader: Some(BrokerId::NONE),
            replicas: Some(ids(&[4, 1, 2])),
            removing: Some(ids(&[2])),
            adding: Some(ids(&[4])),
            recovery: Some(RecoveryState::Recovered),
            elr: Some(ids(&[1, 2])),
            last_known_elr: Some(ids(&[3])),
        }));
        let fenced = BrokerRegistrationChange {
            broker: BrokerId(1),
            epoch: BrokerEpoch(5),
            fenced: Some(false),
            in_controlled_shutdown: true,
        };
        check(MetadataRecord::BrokerRegistrationChange(fenced));
        check(MetadataRecord::RemoveTopic { id: topic_id });
        check(MetadataRecord::ClearElr { topic: None });
        check(MetadataRecord::ClearElr { topic: Some("orders".into()) });
        check(MetadataRecord::FeatureLevel { name: "metadata.version".into(), level: 30 });
        check(MetadataRecord::ProducerIds {
            broker: BrokerId(1),
            epoch: BrokerEpoch(5),
            next: ProducerId(1000),
        });
        let (resource, name, key) = (ConfigResource::Topic, "orders".into(), "min.insync.replicas".into());
        check(MetadataRecord::Config { resource, name, key, value: None });
    }

    #[test]
    fn a_record_of_a_later_version_is_refused_with_its_place() {
        let error = MetadataRecord::decode(&[1, 3, 9]).expect_err("PartitionRecord has no version 9");
        assert_eq!(error.problem, WireProblem::Version(3));
    }
}
