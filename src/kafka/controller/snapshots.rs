//! An image as the records of a snapshot, and when a node writes one.
//!
//! Mirrors `MetadataImage.write` and `SnapshotGenerator` (KIP-630).
//!
//! **Invariant:** the replay of an image's records, by a node that knew nothing, is that image.

use super::image::{ClusterImage, PartitionRegistration, TopicImage};
use crate::kafka::config::MetadataLogConfig;
use crate::kafka::protocol::metadata_records::{
    ConfigResource, MetadataRecord, PartitionRecord, RegisterBroker,
};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, Offset};

const METADATA_VERSION: &str = "metadata.version";

impl ClusterImage {
    /// What a replay of a snapshot comes to that ends at `end_offset`.
    pub fn of_snapshot(records: &[MetadataRecord], end_offset: Offset) -> ClusterImage {
        let mut image = ClusterImage::default();
        for record in records {
            // Every record counts as the last one that is contained (`QuorumController.handleLoadSnapshot`).
            image.next_offset = end_offset + -1;
            image.replay(record);
        }
        image.next_offset = end_offset;
        image
    }

    /// The records that come to this image: features first, metadata.version before all, then brokers, topics, configs
    /// and producer ids.
    pub fn records(&self) -> Vec<MetadataRecord> {
        let mut records = Vec::new();
        let feature = |(name, level): (&String, &i16)| MetadataRecord::FeatureLevel {
            name: name.clone(),
            level: *level,
        };
        let is_first = |(name, _): &(&String, &i16)| name.as_str() == METADATA_VERSION;
        records.extend(self.features.iter().filter(is_first).map(feature));
        records.extend(self.features.iter().filter(|each| !is_first(each)).map(feature));
        records.extend(self.brokers.iter().map(|(broker, known)| {
            MetadataRecord::RegisterBroker(RegisterBroker {
                broker: *broker,
                incarnation: known.incarnation,
                epoch: known.epoch,
                rack: known.rack.clone(),
                fenced: known.fenced,
                in_controlled_shutdown: known.in_controlled_shutdown,
            })
        }));
        for topic in self.topics() {
            records.push(MetadataRecord::Topic { name: topic.name.clone(), id: topic.id });
            records.extend(
                (0..).zip(&topic.partitions).map(|(n, partition)| partition_record(topic, n, partition)),
            );
        }
        records.extend(self.config_records());
        records.push(MetadataRecord::ProducerIds {
            broker: BrokerId::NONE,
            epoch: BrokerEpoch(-1),
            next: self.next_producer_id,
        });
        records
    }

    fn config_records(&self) -> Vec<MetadataRecord> {
        let (topics, brokers) = (ConfigResource::Topic, ConfigResource::Broker);
        let of_topics = self.topics().map(|topic| (topics, topic.name.to_string(), &topic.config));
        let of_cluster = std::iter::once((brokers, String::new(), &self.cluster_config));
        let of_brokers = self.broker_configs.iter().map(|(id, config)| (brokers, id.to_string(), config));
        let groups = ConfigResource::Group;
        let of_groups = self.group_configs.iter().map(|(name, config)| (groups, name.clone(), config));
        let mut records = Vec::new();
        for (resource, name, config) in of_topics.chain(of_cluster).chain(of_brokers).chain(of_groups) {
            records.extend(config.iter().map(|(key, value)| MetadataRecord::Config {
                resource,
                name: name.clone(),
                key: key.clone(),
                value: Some(value.clone()),
            }));
        }
        records
    }
}

fn partition_record(topic: &TopicImage, number: i32, partition: &PartitionRegistration) -> MetadataRecord {
    MetadataRecord::Partition(PartitionRecord {
        partition: number,
        topic_id: topic.id,
        replicas: partition.replicas.clone(),
        isr: partition.isr.clone(),
        removing: partition.removing.clone(),
        adding: partition.adding.clone(),
        leader: partition.leader,
        recovery: partition.recovery,
        leader_epoch: partition.leader_epoch,
        partition_epoch: partition.partition_epoch,
        elr: partition.elr.clone(),
        last_known_elr: partition.last_known_elr.clone(),
    })
}

/// Counts what a node has replayed since its last snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotGenerator {
    config: MetadataLogConfig,
    bytes: i64,
    since: Time,
}

impl SnapshotGenerator {
    pub fn new(config: MetadataLogConfig) -> SnapshotGenerator {
        SnapshotGenerator { config, bytes: 0, since: Time::ZERO }
    }

    /// A snapshot was read or written: the count begins anew.
    pub fn reset(&mut self, now: Time) {
        (self.bytes, self.since) = (0, now);
    }

    /// Records of `bytes` were replayed. Whether it is time for a snapshot; time alone, without a record, is no reason.
    pub fn note(&mut self, now: Time, bytes: i64) -> bool {
        self.bytes += bytes;
        let interval_ms = self.config.max_snapshot_interval_ms;
        let is_due = self.bytes >= self.config.max_record_bytes_between_snapshots
            || (interval_ms != 0 && now.ms_since(self.since) >= interval_ms);
        if is_due {
            self.reset(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::config::BrokerConfig;

    fn check(between_bytes: i64, interval_ms: i64, seen: &[(i64, i64)], expected: &[bool]) {
        let config = MetadataLogConfig {
            max_record_bytes_between_snapshots: between_bytes,
            max_snapshot_interval_ms: interval_ms,
            ..BrokerConfig::default().metadata_log
        };
        let mut generator = SnapshotGenerator::new(config);
        let said: Vec<bool> =
            seen.iter().map(|(ms, bytes)| generator.note(Time::from_ms(*ms), *bytes)).collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn enough_bytes_or_enough_time_make_a_snapshot_due() {
        check(100, 0, &[(1, 99), (2, 1), (3, 99), (4, 0), (5, 1)], &[false, true, false, false, true]);
        check(1000, 10, &[(9, 1), (10, 1), (19, 1), (20, 1)], &[false, true, false, true]);
        check(1000, 0, &[(1_000_000, 1)], &[false]);
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod property {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::kafka::protocol::metadata_records::{
        BrokerRegistrationChange, PartitionChange, RecoveryState,
    };
    use crate::kafka::raft::{Snapshot, SnapshotId};
    use crate::kafka::types::{LeaderEpoch, ProducerId, Topic, TopicId};

    fn topic_id(topic: u8) -> TopicId {
        TopicId(Uuid::from_u128(u128::from(topic) + 1))
    }

    fn topic_name(topic: u8) -> Topic {
        Topic::new(&format!("topic-{topic}"))
    }

    fn brokers() -> impl Strategy<Value = Vec<BrokerId>> {
        vec((1..5).prop_map(BrokerId), 0..4)
    }

    fn partition() -> impl Strategy<Value = MetadataRecord> {
        (0..3u8, brokers(), brokers(), -1..4).prop_map(|(topic, replicas, isr, leader)| {
            let leader = BrokerId(leader);
            MetadataRecord::Partition(PartitionRecord::new((topic_id(topic), 0), replicas, isr, leader))
        })
    }

    fn change() -> impl Strategy<Value = MetadataRecord> {
        let ids = || proptest::option::of(brokers());
        let recovery = prop_oneof![Just(RecoveryState::Recovered), Just(RecoveryState::Recovering)];
        let leader = proptest::option::of((-1..4).prop_map(BrokerId));
        let lists = (ids(), ids(), ids(), ids(), ids(), ids());
        (0..3u8, 0..2, lists, leader, proptest::option::of(recovery)).prop_map(
            |(topic, partition, (isr, replicas, removing, adding, elr, last_known_elr), leader, recovery)| {
                MetadataRecord::PartitionChange(PartitionChange {
                    partition,
                    topic_id: topic_id(topic),
                    isr,
                    leader,
                    replicas,
                    removing,
                    adding,
                    recovery,
                    elr,
                    last_known_elr,
                })
            },
        )
    }

    fn config() -> impl Strategy<Value = MetadataRecord> {
        let broker = prop_oneof![Just(String::new()), (1..4).prop_map(|id: i32| id.to_string())];
        let of_topic = (0..3u8).prop_map(|topic| (ConfigResource::Topic, topic_name(topic).to_string()));
        let of_broker = broker.prop_map(|name| (ConfigResource::Broker, name));
        let of_group = "[ab]".prop_map(|name| (ConfigResource::Group, name));
        (prop_oneof![of_topic, of_broker, of_group], "[ab]", proptest::option::of("[0-9]"))
            .prop_map(|((resource, name), key, value)| MetadataRecord::Config { resource, name, key, value })
    }

    fn record() -> impl Strategy<Value = MetadataRecord> {
        let register = (1..5, any::<bool>(), any::<bool>(), proptest::option::of("[ab]"));
        let fencing = (1..5, proptest::option::of(any::<bool>()), any::<bool>());
        prop_oneof![
            ("[ab]", 0..3i16).prop_map(|(name, level)| MetadataRecord::FeatureLevel { name, level }),
            Just(MetadataRecord::FeatureLevel { name: METADATA_VERSION.to_string(), level: 30 }),
            register.prop_map(|(broker, fenced, in_controlled_shutdown, rack)| {
                MetadataRecord::RegisterBroker(RegisterBroker {
                    broker: BrokerId(broker),
                    incarnation: Uuid::from_u128(broker as u128),
                    epoch: BrokerEpoch(7),
                    rack,
                    fenced,
                    in_controlled_shutdown,
                })
            }),
            fencing.prop_map(|(broker, fenced, in_controlled_shutdown)| {
                let (broker, epoch) = (BrokerId(broker), BrokerEpoch(7));
                let change = BrokerRegistrationChange { broker, epoch, fenced, in_controlled_shutdown };
                MetadataRecord::BrokerRegistrationChange(change)
            }),
            (0..3u8).prop_map(|topic| MetadataRecord::Topic { name: topic_name(topic), id: topic_id(topic) }),
            (0..3u8).prop_map(|topic| MetadataRecord::RemoveTopic { id: topic_id(topic) }),
            proptest::option::of((0..3u8).prop_map(topic_name))
                .prop_map(|topic| MetadataRecord::ClearElr { topic }),
            (0..9i64).prop_map(|next| MetadataRecord::ProducerIds {
                broker: BrokerId(1),
                epoch: BrokerEpoch(7),
                next: ProducerId(next),
            }),
            partition(),
            change(),
            config(),
        ]
    }

    proptest! {
        #[test]
        fn a_snapshot_and_the_rest_of_the_log_come_to_what_the_whole_log_comes_to(
            records in vec(record(), 0..60),
            cut in 0..60usize,
        ) {
            let (early, late) = records.split_at(cut.min(records.len()));
            let mut whole = ClusterImage::default();
            early.iter().for_each(|record| whole.replay(record));
            let id = SnapshotId { epoch: LeaderEpoch(1), end_offset: whole.next_offset };
            let written = Snapshot::write(Time::ZERO, id, 0, &[], &whole.records());
            let read = Snapshot::read(id, written.bytes().clone()).expect("it was just written");
            let mut image = ClusterImage::of_snapshot(&read.records(), id.end_offset);
            prop_assert_eq!(&image, &whole);
            for record in late {
                whole.replay(record);
                image.replay(record);
            }
            prop_assert_eq!(image, whole);
        }
    }
}
