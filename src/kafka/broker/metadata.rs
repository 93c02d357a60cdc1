//! Following the metadata log: fetch, replay, and hand each change to the part it concerns.
//!
//! Mirrors the observer half of `KafkaRaftClient`, `MetadataLoader` and `BrokerMetadataPublisher` (R-CTRL-1, 8).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::controller::METADATA_TOPIC_ID;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::controller::metadata_log::{QUORUM_EPOCH, decode_records};
use crate::kafka::effects::{Channel, Effects};
use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord};
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{Topic, TopicId, TopicPartition};

/// How long the controller may hold a fetch that finds nothing, and how much it may return.
const MAX_WAIT_MS: i32 = 500;
const MAX_BYTES: i32 = 8 * 1024 * 1024;
/// After an answer that cannot be used.
const RETRY_MS: i64 = 500;

/// What a run of metadata records touched.
#[derive(Default)]
struct Delta {
    partitions: BTreeSet<TopicPartition>,
    deleted: BTreeMap<TopicId, Topic>,
    /// Topics whose effective config may have changed.
    configs: BTreeSet<Topic>,
    all_configs: bool,
}

impl Delta {
    /// Takes a record down that is about to be replayed.
    fn note(&mut self, record: &MetadataRecord, image: &ClusterImage) {
        let mut changed = |id, number| {
            self.partitions.extend(image.topic_name(id).map(|name| TopicPartition::new(name, number)));
        };
        match record {
            MetadataRecord::Partition(record) => changed(record.topic_id, record.partition),
            MetadataRecord::PartitionChange(change) => changed(change.topic_id, change.partition),
            MetadataRecord::RemoveTopic { id } => {
                self.deleted.extend(image.topic_name(*id).map(|name| (*id, name.clone())));
            }
            MetadataRecord::Config { resource: ConfigResource::Topic, name, .. } => {
                self.configs.insert(Topic::new(name));
            }
            MetadataRecord::Config { resource: ConfigResource::Broker, .. } => self.all_configs = true,
            _ => {}
        }
    }
}

impl Broker {
    pub(super) fn fetch_metadata(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let partition = FetchPartition::default()
            .with_partition(0)
            .with_current_leader_epoch(QUORUM_EPOCH.0)
            .with_fetch_offset(self.image.next_offset.0)
            .with_last_fetched_epoch(if self.image.next_offset.0 > 0 { QUORUM_EPOCH.0 } else { 0 });
        let topic = FetchTopic::default().with_topic_id(METADATA_TOPIC_ID.0).with_partitions(vec![partition]);
        let request = FetchRequest::default()
            .with_replica_state(
                ReplicaState::default()
                    .with_replica_id(self.id.0.into())
                    .with_replica_epoch(self.lifecycle.epoch().0),
            )
            .with_max_wait_ms(MAX_WAIT_MS)
            .with_max_bytes(MAX_BYTES)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        self.ask_controller(now, Channel::Raft, request, Purpose::FetchMetadata, fx);
    }

    pub(super) fn metadata_fetched(
        &mut self,
        now: Time,
        response: &FetchResponse,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let data = response.responses.first().and_then(|topic| topic.partitions.first());
        let bytes = data.filter(|data| data.error_code == 0).and_then(|data| data.records.clone());
        let Some(records) = bytes.and_then(|bytes| decode_records(bytes).ok()) else {
            return fx.set_timer(BrokerTimer::FetchMetadata, now.plus_ms(RETRY_MS));
        };
        let mut delta = Delta::default();
        let next = self.image.next_offset;
        let image = Rc::make_mut(&mut self.image);
        for (_, record) in records.iter().filter(|(offset, _)| *offset >= next) {
            delta.note(record, image);
            image.replay(record);
        }
        self.publish(now, delta, fx);
        self.fetch_metadata(now, fx);
    }

    /// Partitions first and configs afterwards, as `BrokerMetadataPublisher` does. It does not ask whether the broker is
    /// registered: one that starts again within its session takes up what the log says of its earlier life.
    fn publish(&mut self, now: Time, delta: Delta, fx: &mut Effects<BrokerTimer>) {
        let image = self.image.clone();
        self.delete_replicas(now, &delta, fx);
        for tp in &delta.partitions {
            if let Some(registration) = image.partition(tp)
                && registration.replicas.contains(&self.id)
            {
                self.with_replicas(now, fx, |replicas, step| replicas.apply(tp, registration, step));
            }
        }
        if !delta.deleted.is_empty() {
            self.on_topics_deleted(now, &delta.deleted, fx);
        }
        if !delta.all_configs && delta.configs.is_empty() {
            return;
        }
        let concerned = |tp: &TopicPartition| delta.all_configs || delta.configs.contains(&tp.topic);
        let here: Vec<_> = self.replicas.partitions().map(|p| p.tp.clone()).filter(concerned).collect();
        for tp in here {
            self.with_replicas(now, fx, |replicas, step| replicas.apply_config(&tp, step.image));
        }
    }

    /// Replicas of topics that are gone, and of partitions that moved to other brokers (R-PLACE-9, R-REPL-59).
    fn delete_replicas(&mut self, now: Time, delta: &Delta, fx: &mut Effects<BrokerTimer>) {
        let gone = |partition: &Partition| {
            let tp = &partition.tp;
            let moved = || self.image.partition(tp).is_some_and(|known| !known.replicas.contains(&self.id));
            delta.deleted.contains_key(&partition.topic_id) || (delta.partitions.contains(tp) && moved())
        };
        let gone: Vec<TopicPartition> =
            self.replicas.partitions().filter(|partition| gone(partition)).map(|p| p.tp.clone()).collect();
        for tp in gone {
            self.alter_partition.forget(&tp);
            self.with_replicas(now, fx, |replicas, step| replicas.delete(&tp, step));
        }
    }
}
