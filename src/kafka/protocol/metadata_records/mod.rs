//! The records of `__cluster_metadata`, with the types, versions and bytes that Kafka 4.3 writes.
//!
//! Framing as `MetadataRecordSerde`: frame version 1, api key, version, then the fields; all versions are flexible.
//! Fields that only matter with several log directories or listeners are written as a one-directory broker would.
//!
//! **Invariant:** `decode(encode(r)) == r`.

mod partition;
mod registration;

use bytes::Bytes;
use uuid::Uuid;

pub use partition::{PartitionChange, PartitionRecord, RecoveryState};
use partition::{decode_partition, decode_partition_change, encode_partition, encode_partition_change};
pub use registration::{BrokerRegistrationChange, RegisterBroker};
use registration::{
    decode_registration, decode_registration_change, encode_registration, encode_registration_change,
};

use super::wire::{Reader, WireError, WireProblem, Writer};
use crate::kafka::types::{BrokerEpoch, BrokerId, ProducerId, Topic, TopicId};

const FRAME_VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResource {
    Topic,
    Broker,
    Group,
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
    /// Says nothing; that it is committed shows that the log can move.
    NoOp,
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
            MetadataRecord::NoOp => (20, 0),
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
            MetadataRecord::NoOp => w.tags(&[]),
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
            (20, 0) => {
                r.tags()?;
                MetadataRecord::NoOp
            }
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
            ConfigResource::Group => 32,
        }
    }
}

/// The one log directory of every broker here.
fn log_directory() -> Uuid {
    Uuid::from_u128(0x6c6f_672d_6469_7200_0000_0000_0000_0001)
}

fn decode_config(r: &mut Reader<'_>) -> Result<MetadataRecord, WireError> {
    let resource = match r.i8()? {
        2 => ConfigResource::Topic,
        4 => ConfigResource::Broker,
        32 => ConfigResource::Group,
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
    use crate::kafka::types::{LeaderEpoch, PartitionEpoch};

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
        check(MetadataRecord::NoOp);
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
