//! The metadata image: what a replay of the metadata log comes to.
//!
//! Mirrors `MetadataImage` on brokers and the timeline state of the controller (R-REPL-1, R-CTRL-8).
//!
//! **Invariant:** two nodes that replayed the same records hold equal images.

use std::collections::BTreeMap;
use std::rc::Rc;

use uuid::Uuid;

use super::placement::UsableBroker;
use crate::kafka::config::{BrokerConfig, TRANSACTION_VERSION, TopicConfig, synonyms_of};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::listener::{PORT, host};
use crate::kafka::protocol::metadata_records::{
    ConfigResource, MetadataRecord, PartitionChange, PartitionRecord, RecoveryState, RegisterBroker,
};
use crate::kafka::transaction::TransactionVersion;
use crate::kafka::types::{
    BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, ProducerId, Topic, TopicId, TopicPartition,
};

#[derive(Clone, Debug)]
pub struct BrokerRegistration {
    pub epoch: BrokerEpoch,
    /// The offset of the registration's record, or of the last that a snapshot contains which told of it.
    pub registered_at: Offset,
    pub incarnation: Uuid,
    pub rack: Option<String>,
    pub fenced: bool,
    pub in_controlled_shutdown: bool,
}

/// By what the log says of a broker; where it says so is no part of that.
impl PartialEq for BrokerRegistration {
    fn eq(&self, other: &Self) -> bool {
        let said = |of: &Self| (of.epoch, of.incarnation, of.fenced, of.in_controlled_shutdown);
        said(self) == said(other) && self.rack == other.rack
    }
}

impl Eq for BrokerRegistration {}

impl BrokerRegistration {
    /// May lead and be in sync (R-REPL-40).
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }
}

/// A broker's one listener, as clients are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub broker: BrokerId,
    pub host: String,
    pub port: u16,
    pub rack: Option<String>,
}

/// One partition as the controller decided it (`PartitionRegistration`, R-REPL-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRegistration {
    /// In order of preference: the first is the preferred leader.
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    pub elr: Vec<BrokerId>,
    pub last_known_elr: Vec<BrokerId>,
    /// Replicas that a reassignment takes away in the end, and those that it brings in (R-REPL-58).
    pub removing: Vec<BrokerId>,
    pub adding: Vec<BrokerId>,
    pub leader: BrokerId,
    pub recovery: RecoveryState,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: PartitionEpoch,
}

impl PartitionRegistration {
    fn new(record: &PartitionRecord) -> PartitionRegistration {
        PartitionRegistration {
            replicas: record.replicas.clone(),
            isr: record.isr.clone(),
            elr: record.elr.clone(),
            last_known_elr: record.last_known_elr.clone(),
            removing: record.removing.clone(),
            adding: record.adding.clone(),
            leader: record.leader,
            recovery: record.recovery,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        }
    }

    pub fn is_reassigning(&self) -> bool {
        !self.removing.is_empty() || !self.adding.is_empty()
    }

    /// R-REPL-2: the partition epoch rises at every change, the leader epoch when the record names a leader.
    pub fn merge(&mut self, change: &PartitionChange) {
        if let Some(leader) = change.leader {
            self.leader = leader;
            self.leader_epoch.0 += i32::from(!plant::is(Plant::EpochNotRaised));
        }
        self.partition_epoch.0 += 1;
        let set = |field: &mut Vec<BrokerId>, new: &Option<Vec<BrokerId>>| {
            if let Some(new) = new {
                field.clone_from(new);
            }
        };
        set(&mut self.replicas, &change.replicas);
        set(&mut self.isr, &change.isr);
        set(&mut self.elr, &change.elr);
        set(&mut self.last_known_elr, &change.last_known_elr);
        set(&mut self.removing, &change.removing);
        set(&mut self.adding, &change.adding);
        self.recovery = change.recovery.unwrap_or(self.recovery);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicImage {
    pub name: Topic,
    pub id: TopicId,
    pub partitions: Vec<Rc<PartitionRegistration>>,
    /// The topic's own config values.
    pub config: BTreeMap<String, String>,
}

/// Everything that the metadata log says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterImage {
    pub brokers: BTreeMap<BrokerId, BrokerRegistration>,
    topics: BTreeMap<Topic, Rc<TopicImage>>,
    names: BTreeMap<TopicId, Topic>,
    /// Cluster-wide dynamic broker configs.
    pub cluster_config: BTreeMap<String, String>,
    /// The dynamic configs of single brokers.
    pub broker_configs: BTreeMap<BrokerId, BTreeMap<String, String>>,
    /// The dynamic configs of groups, whether or not there are such groups.
    pub group_configs: BTreeMap<String, BTreeMap<String, String>>,
    pub features: BTreeMap<String, i16>,
    pub next_producer_id: ProducerId,
    /// Offset of the next record of the metadata log.
    pub next_offset: Offset,
}

impl ClusterImage {
    pub fn topics(&self) -> impl Iterator<Item = &Rc<TopicImage>> {
        self.topics.values()
    }

    pub fn topic(&self, name: &Topic) -> Option<&Rc<TopicImage>> {
        self.topics.get(name)
    }

    pub fn topic_name(&self, id: TopicId) -> Option<&Topic> {
        self.names.get(&id)
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Rc<TopicImage>> {
        self.topics.get(self.names.get(&id)?)
    }

    pub fn partition(&self, tp: &TopicPartition) -> Option<&Rc<PartitionRegistration>> {
        let index = usize::try_from(tp.partition).ok()?;
        self.topics.get(&tp.topic)?.partitions.get(index)
    }

    /// Every partition, by topic name and number.
    pub fn partitions(&self) -> impl Iterator<Item = (TopicPartition, &Rc<PartitionRegistration>)> {
        self.topics.values().flat_map(|topic| {
            let numbered = (0..).zip(&topic.partitions);
            numbered.map(|(number, partition)| (TopicPartition::new(&topic.name, number), partition))
        })
    }

    pub fn is_active(&self, broker: BrokerId) -> bool {
        self.brokers.get(&broker).is_some_and(BrokerRegistration::is_active)
    }

    /// A broker that clients are shown (R-REPL-53).
    pub fn is_alive(&self, broker: BrokerId) -> bool {
        self.brokers.get(&broker).is_some_and(|registration| !registration.fenced)
    }

    /// Where clients find a broker that they are shown (`getAliveBrokerNode`).
    pub fn endpoint(&self, broker: BrokerId) -> Option<Endpoint> {
        let registration = self.brokers.get(&broker).filter(|registration| !registration.fenced)?;
        let rack = registration.rack.clone();
        Some(Endpoint { broker, host: host(broker), port: PORT, rack })
    }

    /// Brokers that new replicas may be placed on, by id (R-PLACE-2).
    pub fn usable_brokers(&self) -> Vec<UsableBroker> {
        let usable = self.brokers.iter().filter(|(_, broker)| !broker.in_controlled_shutdown);
        let usable = usable.map(|(id, broker)| UsableBroker {
            id: *id,
            rack: broker.rack.clone(),
            fenced: broker.fenced,
        });
        usable.collect()
    }

    pub fn elr_enabled(&self) -> bool {
        self.features.get("eligible.leader.replicas.version").is_some_and(|level| *level > 0)
    }

    /// R-TXN-5.
    pub fn transaction_version(&self) -> TransactionVersion {
        TransactionVersion::of_level(self.features.get(TRANSACTION_VERSION).copied().unwrap_or(0))
    }

    pub fn has_share_groups(&self) -> bool {
        self.features.get("share.version").is_some_and(|level| *level > 0)
    }

    /// The configs of a broker of these configs with what the log says of it over them (R-LOG-53).
    pub fn broker_config(&self, broker: BrokerId, file: &BrokerConfig) -> BrokerConfig {
        let none = BTreeMap::new();
        let own = self.broker_configs.get(&broker).unwrap_or(&none);
        // Values that do not fit to each other are passed over, as `DynamicBrokerConfig` does with a word in its log.
        file.with_dynamic(&self.cluster_config, own).unwrap_or_else(|_| file.clone())
    }

    /// The topic's values over those of a broker (R-LOG-53).
    pub fn topic_config(&self, name: &Topic, broker: &BrokerConfig) -> TopicConfig {
        let none = BTreeMap::new();
        let own = self.topics.get(name).map_or(&none, |topic| &topic.config);
        TopicConfig::effective(own, &broker.topic_defaults)
            .expect("the controller lets only valid configs in")
    }

    /// What the log says of one config of a topic: its own value, or the cluster's (`getTopicConfig`). With `None` the
    /// asking controller's file counts.
    pub fn topic_value(&self, name: &Topic, key: &str) -> Option<&str> {
        let own = self.topics.get(name).and_then(|topic| topic.config.get(key));
        let cluster = || synonyms_of(key).find_map(|synonym| self.cluster_config.get(synonym.key.name));
        own.or_else(cluster).map(String::as_str)
    }

    /// min(min.insync.replicas, replication factor), as a controller counts it: by the topic's first partition
    /// (R-REPL-13, 45).
    pub fn effective_min_isr(&self, topic: &Topic, file: &BrokerConfig) -> i32 {
        let first = self.topics.get(topic).and_then(|topic| topic.partitions.first());
        let replicas = first.map_or(1, |partition| partition.replicas.len() as i32);
        let said = self.topic_value(topic, "min.insync.replicas").and_then(|value| value.trim().parse().ok());
        said.unwrap_or(file.min_insync_replicas).min(replicas)
    }

    /// A control record of the quorum has its offset and changes nothing here.
    pub fn skip_control_record(&mut self) {
        self.next_offset += 1;
    }

    pub fn replay(&mut self, record: &MetadataRecord) {
        let offset = self.next_offset;
        self.next_offset += 1;
        match record {
            MetadataRecord::RegisterBroker(record) => self.replay_registration(record, offset),
            MetadataRecord::BrokerRegistrationChange(change) => {
                if let Some(broker) = self.brokers.get_mut(&change.broker) {
                    broker.fenced = change.fenced.unwrap_or(broker.fenced);
                    broker.in_controlled_shutdown |= change.in_controlled_shutdown;
                }
            }
            MetadataRecord::Topic { name, id } => {
                self.names.insert(*id, name.clone());
                let topic = TopicImage {
                    name: name.clone(),
                    id: *id,
                    partitions: Vec::new(),
                    config: BTreeMap::new(),
                };
                self.topics.insert(name.clone(), Rc::new(topic));
            }
            MetadataRecord::Partition(record) => {
                if let Some(topic) = self.topic_mut(record.topic_id) {
                    topic.partitions.push(Rc::new(PartitionRegistration::new(record)));
                }
            }
            MetadataRecord::PartitionChange(change) => {
                let index = change.partition as usize;
                if let Some(partition) =
                    self.topic_mut(change.topic_id).and_then(|topic| topic.partitions.get_mut(index))
                {
                    Rc::make_mut(partition).merge(change);
                }
            }
            MetadataRecord::RemoveTopic { id } => {
                self.topics.retain(|_, topic| topic.id != *id);
                self.names.remove(id);
            }
            MetadataRecord::Config { resource, name, key, value } => {
                self.replay_config(*resource, name, key, value.as_deref());
            }
            // `FeaturesDelta`: one that is not in use is not there.
            MetadataRecord::FeatureLevel { name, level: 0 } => drop(self.features.remove(name)),
            MetadataRecord::FeatureLevel { name, level } => drop(self.features.insert(name.clone(), *level)),
            MetadataRecord::ProducerIds { next, .. } => self.next_producer_id = *next,
            MetadataRecord::NoOp => {}
            MetadataRecord::ClearElr { topic } => self.clear_elr(topic.as_ref()),
        }
    }

    fn replay_registration(&mut self, record: &RegisterBroker, registered_at: Offset) {
        let registration = BrokerRegistration {
            epoch: record.epoch,
            registered_at,
            incarnation: record.incarnation,
            rack: record.rack.clone(),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
        };
        self.brokers.insert(record.broker, registration);
    }

    fn replay_config(&mut self, resource: ConfigResource, name: &str, key: &str, value: Option<&str>) {
        let broker = name.parse().map(BrokerId);
        let config = match (resource, broker) {
            (ConfigResource::Broker, _) if name.is_empty() => Some(&mut self.cluster_config),
            (ConfigResource::Broker, Ok(broker)) => Some(self.broker_configs.entry(broker).or_default()),
            (ConfigResource::Broker, Err(_)) => None,
            (ConfigResource::Group, _) => Some(self.group_configs.entry(name.to_string()).or_default()),
            (ConfigResource::Topic, _) => {
                self.topics.get_mut(&Topic::new(name)).map(|topic| &mut Rc::make_mut(topic).config)
            }
        };
        let Some(config) = config else { return };
        match value {
            Some(value) => config.insert(key.to_string(), value.to_string()),
            None => config.remove(key),
        };
        self.broker_configs.retain(|_, config| !config.is_empty());
        self.group_configs.retain(|_, config| !config.is_empty());
    }

    /// The partitions that a ClearElrRecord concerns (R-REPL-48).
    pub fn with_elr(&self, topic: Option<&Topic>) -> Vec<TopicPartition> {
        let concerned = |tp: &TopicPartition| topic.is_none_or(|topic| *topic == tp.topic);
        let remembers = |partition: &PartitionRegistration| {
            !partition.elr.is_empty() || !partition.last_known_elr.is_empty()
        };
        let found = self.partitions().filter(|(tp, partition)| concerned(tp) && remembers(partition));
        found.map(|(tp, _)| tp).collect()
    }

    fn clear_elr(&mut self, topic: Option<&Topic>) {
        for tp in self.with_elr(topic) {
            let Some(topic) = self.topics.get_mut(&tp.topic).map(Rc::make_mut) else { continue };
            let change = PartitionChange {
                partition: tp.partition,
                topic_id: topic.id,
                elr: Some(Vec::new()),
                last_known_elr: Some(Vec::new()),
                ..PartitionChange::default()
            };
            if let Some(partition) = topic.partitions.get_mut(tp.partition as usize) {
                Rc::make_mut(partition).merge(&change);
            }
        }
    }

    fn topic_mut(&mut self, id: TopicId) -> Option<&mut TopicImage> {
        let name = self.names.get(&id)?;
        self.topics.get_mut(name).map(Rc::make_mut)
    }
}
