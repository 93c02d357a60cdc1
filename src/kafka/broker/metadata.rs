//! Following the metadata log: replay, and hand each change to the part it concerns.
//!
//! Mirrors `MetadataLoader`, `BrokerMetadataPublisher` and `DynamicConfigPublisher` (R-CTRL-1, 8).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::group::{ConsumerGroupConfig, ShareGroupConfig};
use crate::kafka::protocol::metadata_records::{ConfigResource, MetadataRecord};
use crate::kafka::raft::Next;
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, Topic, TopicId, TopicPartition};

/// What a run of metadata records touched.
#[derive(Default, PartialEq, Eq)]
struct Delta {
    partitions: BTreeSet<TopicPartition>,
    deleted: BTreeMap<TopicId, Topic>,
    topics_created: bool,
    /// Topics whose own config changed.
    configs: BTreeSet<Topic>,
    /// The configs of some or of all brokers changed.
    broker_configs: bool,
    /// A broker registered or changed.
    brokers: bool,
    /// The level of a feature changed.
    features: bool,
}

impl Delta {
    /// What a snapshot changes: everything in which the two differ.
    fn between(before: &ClusterImage, after: &ClusterImage) -> Delta {
        let mut delta = Delta {
            brokers: before.brokers != after.brokers,
            features: before.features != after.features,
            broker_configs: (&before.cluster_config, &before.broker_configs)
                != (&after.cluster_config, &after.broker_configs),
            ..Delta::default()
        };
        let is_there = |id| after.topic_by_id(id).is_some();
        let gone = before.topics().filter(|topic| !is_there(topic.id));
        delta.deleted.extend(gone.map(|topic| (topic.id, topic.name.clone())));
        for topic in after.topics() {
            let known = before.topic_by_id(topic.id);
            delta.topics_created |= known.is_none();
            if known.map(|known| &known.config) != Some(&topic.config) {
                delta.configs.insert(topic.name.clone());
            }
            for (number, partition) in (0..).zip(&topic.partitions) {
                if known.and_then(|known| known.partitions.get(number as usize)) != Some(partition) {
                    delta.partitions.insert(TopicPartition::new(&topic.name, number));
                }
            }
        }
        delta
    }

    /// Takes a record down that is about to be replayed.
    fn note(&mut self, record: &MetadataRecord, image: &ClusterImage) {
        let mut changed = |id, number| {
            self.partitions.extend(image.topic_name(id).map(|name| TopicPartition::new(name, number)));
        };
        match record {
            MetadataRecord::Partition(record) => changed(record.topic_id, record.partition),
            MetadataRecord::PartitionChange(change) => changed(change.topic_id, change.partition),
            MetadataRecord::Topic { .. } => self.topics_created = true,
            MetadataRecord::RemoveTopic { id } => {
                self.deleted.extend(image.topic_name(*id).map(|name| (*id, name.clone())));
            }
            MetadataRecord::Config { resource: ConfigResource::Topic, name, .. } => {
                self.configs.insert(Topic::new(name));
            }
            MetadataRecord::Config { resource: ConfigResource::Broker, .. } => self.broker_configs = true,
            MetadataRecord::RegisterBroker(_) | MetadataRecord::BrokerRegistrationChange(_) => {
                self.brokers = true;
            }
            MetadataRecord::FeatureLevel { .. } => self.features = true,
            MetadataRecord::ClearElr { topic } => {
                self.partitions.extend(image.with_elr(topic.as_ref()));
            }
            _ => {}
        }
    }
}

impl Broker {
    /// R-CTRL-8: a broker applies records in order, and only committed ones. What it finds when it starts takes effect as
    /// one change: it does not live through its past again (`MetadataLoader.stillNeedToCatchUp`).
    pub(super) fn replay_committed(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let is_first = self.image.next_offset == Offset::ZERO;
        loop {
            let delta = match self.raft.log().committed_from(self.image.next_offset) {
                Next::Nothing => break,
                Next::Snapshot(snapshot) => {
                    let image = ClusterImage::of_snapshot(&snapshot.records(), snapshot.id().end_offset);
                    self.load(now, image)
                }
                Next::Records { records, bytes } => {
                    let delta = self.replay(&records);
                    if self.snapshots.note(now, bytes) {
                        self.write_snapshot(now, fx);
                    }
                    delta
                }
            };
            // A no-op record changes nothing.
            if !is_first && delta != Delta::default() {
                self.publish(now, delta, fx);
            }
        }
        if is_first && self.image.next_offset > Offset::ZERO {
            let delta = Delta::between(&ClusterImage::default(), &self.image);
            self.publish(now, delta, fx);
        }
    }

    /// Goes on from what a snapshot holds.
    fn load(&mut self, now: Time, image: ClusterImage) -> Delta {
        let delta = Delta::between(&self.image, &image);
        self.image = Rc::new(image);
        self.snapshots.reset(now);
        delta
    }

    fn replay(&mut self, records: &[(Offset, Option<MetadataRecord>)]) -> Delta {
        let mut delta = Delta::default();
        let image = Rc::make_mut(&mut self.image);
        for (_, record) in records {
            match record {
                Some(record) => {
                    delta.note(record, image);
                    image.replay(record);
                }
                None => image.skip_control_record(),
            }
        }
        delta
    }

    fn write_snapshot(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let mut part = Effects::default();
        self.raft.snapshot(now, self.image.next_offset, &self.image.records(), &mut part);
        fx.absorb(part);
    }

    /// Takes up an image as if a snapshot had told it.
    #[cfg(test)]
    pub(super) fn load_image(&mut self, now: Time, image: ClusterImage, fx: &mut Effects<BrokerTimer>) {
        let delta = self.load(now, image);
        self.publish(now, delta, fx);
        self.settle(now, fx);
    }

    /// Partitions first and configs afterwards, as `BrokerMetadataPublisher` does. It does not ask whether the broker is
    /// registered: one that starts again within its session takes up what the log says of its earlier life.
    fn publish(&mut self, now: Time, delta: Delta, fx: &mut Effects<BrokerTimer>) {
        let image = self.image.clone();
        if delta.brokers {
            self.replicas.brokers_changed();
        }
        self.delete_replicas(now, &delta, fx);
        for tp in &delta.partitions {
            if let Some(registration) = image.partition(tp)
                && registration.replicas.contains(&self.id)
            {
                self.with_replicas(now, fx, |replicas, step| replicas.apply(tp, registration, step));
            }
        }
        for leader in self.replicas.end_idle_fetchers() {
            self.network.disconnect(now, Peer::new(leader, Channel::ReplicaFetcher), fx);
        }
        if !delta.deleted.is_empty() {
            self.on_topics_deleted(now, &delta.deleted, fx);
        }
        let changed = delta.partitions.iter().map(|tp| &tp.topic).chain(delta.deleted.values()).cloned();
        self.groups.on_topics_changed(&changed.collect(), delta.topics_created, image.next_offset + -1);
        if delta.broker_configs {
            self.reconfigure();
        }
        if delta.features && !image.has_share_groups() {
            self.shares.on_switched_off();
        }
        for topic in &delta.configs {
            self.replicas.apply_topic_config(topic, &image);
        }
    }

    /// What the log says of this broker's configs takes effect (`DynamicBrokerConfig`, R-LOG-53).
    fn reconfigure(&mut self) {
        let config = self.image.broker_config(self.id, &self.static_config);
        if config != *self.config {
            self.config = Rc::new(config);
            self.replicas.reconfigure(self.config.clone(), &self.image);
            let (consumer, share) =
                (ConsumerGroupConfig::of_broker(&self.config), ShareGroupConfig::of_broker(&self.config));
            self.groups.reconfigure(consumer, share);
        }
    }

    /// Replicas of topics that are gone, and of partitions that moved to other brokers (R-PLACE-9, R-REPL-59). The log may
    /// never have told this broker so: a snapshot does not name what is no more (`LogManager.isStrayReplica`).
    fn delete_replicas(&mut self, now: Time, delta: &Delta, fx: &mut Effects<BrokerTimer>) {
        let gone = |partition: &Partition| {
            let tp = &partition.tp;
            let moved = || self.image.partition(tp).is_some_and(|known| !known.replicas.contains(&self.id));
            let is_known = self.image.topic_by_id(partition.topic_id).is_some();
            !is_known || (delta.partitions.contains(tp) && moved())
        };
        let gone: Vec<TopicPartition> =
            self.replicas.partitions().filter(|partition| gone(partition)).map(|p| p.tp.clone()).collect();
        delta.deleted.values().for_each(|topic| self.replicas.forget_config(topic));
        for tp in gone {
            self.alter_partition.forget(&tp);
            self.with_replicas(now, fx, |replicas, step| replicas.delete(&tp, step));
        }
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
    use kafka_protocol::messages::{FetchRequest, FetchResponse};
    use uuid::Uuid;

    use super::*;
    use crate::kafka::broker::{BrokerSetup, Disk};
    use crate::kafka::effects::{Effect, RequestId};
    use crate::kafka::log::Log;
    use crate::kafka::protocol::metadata_records::{PartitionRecord, RegisterBroker};
    use crate::kafka::protocol::{ApiKey, ErrorCode, Response};
    use crate::kafka::random::Random;
    use crate::kafka::replication::purgatory::SharedFetch;
    use crate::kafka::types::{BrokerEpoch, BrokerId, ControllerId, NodeId, TopicId};

    const ID: TopicId = TopicId(Uuid::from_u128(7));

    fn registered(broker: i32, epoch: i64) -> MetadataRecord {
        MetadataRecord::RegisterBroker(RegisterBroker {
            broker: BrokerId(broker),
            incarnation: Uuid::from_u128(epoch as u128),
            epoch: BrokerEpoch(epoch),
            rack: None,
            fenced: false,
            in_controlled_shutdown: false,
        })
    }

    /// Broker 1 leads t-0, which broker 2 follows in this epoch.
    fn snapshot(follower_epoch: i64, end_offset: i64) -> ClusterImage {
        let ids = vec![BrokerId(1), BrokerId(2)];
        let partition =
            MetadataRecord::Partition(PartitionRecord::new((ID, 0), ids.clone(), ids, BrokerId(1)));
        let topic = MetadataRecord::Topic { name: "t".into(), id: ID };
        let records = [registered(1, 1), registered(2, follower_epoch), topic, partition];
        ClusterImage::of_snapshot(&records, Offset(end_offset))
    }

    /// A fetch of broker 2's in epoch 2, answered at once: the session, and what t-0 is answered.
    fn fetch(
        broker: &mut Broker,
        (session, epoch): (i32, i32),
        offset: Option<i64>,
    ) -> (i32, Vec<ErrorCode>) {
        let topics = offset.map(|offset| {
            let partition = FetchPartition::default()
                .with_current_leader_epoch(0)
                .with_fetch_offset(offset)
                .with_partition_max_bytes(1_000);
            FetchTopic::default().with_topic_id(ID.0).with_partitions(vec![partition])
        });
        let request = FetchRequest::default()
            .with_replica_state(ReplicaState::default().with_replica_id(2.into()).with_replica_epoch(2))
            .with_max_bytes(1_000)
            .with_session_id(session)
            .with_session_epoch(epoch)
            .with_topics(topics.into_iter().collect());
        let fetch = SharedFetch::new(Rc::new(request.into())).expect("a Fetch request");
        let (from, channel, version) = (NodeId::Client(1), Channel::Main, ApiKey::Fetch.version());
        let id = RequestId { from, channel, connection: 1, correlation: 3, version };
        let mut fx = Effects::default();
        broker.with_replicas(Time::ZERO, &mut fx, |replicas, step| replicas.fetch(id, &fetch, step));
        let answer = fx.into_vec().into_iter().find_map(|effect| match effect {
            Effect::Respond { response, .. } => match &*response {
                Response::Fetch(answer) => Some(answer.clone()),
                _ => None,
            },
            _ => None,
        });
        let answer: FetchResponse = answer.expect("it may not wait");
        let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        (answer.session_id, partitions.map(|data| ErrorCode::from_code(data.error_code)).collect())
    }

    fn broker_with(disk: Disk) -> Broker {
        Broker::new(BrokerSetup {
            id: BrokerId(1),
            rack: None,
            voters: Rc::new([ControllerId(101)]),
            config: Rc::default(),
            disk,
            random: Random::stream(1, "broker"),
        })
    }

    fn load(broker: &mut Broker, image: ClusterImage) {
        broker.load_image(Time::ZERO, image, &mut Effects::default());
    }

    /// The broker was away while t was created anew and u was deleted, and all it hears of that is a snapshot.
    #[test]
    fn logs_of_topics_that_a_snapshot_does_not_know_go_r_place_9() {
        let (renewed, deleted) = (TopicPartition::new(&"t".into(), 0), TopicPartition::new(&"u".into(), 0));
        let mut disk = Disk::default();
        for (tp, id) in [(&renewed, 5), (&deleted, 6)] {
            let log = (TopicId(Uuid::from_u128(id)), Log::created_at(Time::ZERO));
            disk.replicas.logs.insert(tp.clone(), log);
        }
        let mut broker = broker_with(disk);
        load(&mut broker, snapshot(2, 10));
        assert_eq!(broker.replicas.partition(&renewed).map(|partition| partition.topic_id), Some(ID));
        assert!(broker.replicas.partition(&deleted).is_none());
        load(&mut broker, snapshot(2, 20));
        assert!(broker.replicas.partition(&renewed).is_some(), "nothing has changed");
    }

    /// R-REPL-10.
    #[test]
    fn a_snapshot_tells_a_followers_incarnations_apart_in_a_session_too_r_ctrl_1() {
        let mut broker = broker_with(Disk::default());
        load(&mut broker, snapshot(2, 10));
        let (session, answered) = fetch(&mut broker, (0, 0), Some(0));
        assert_eq!(answered, [ErrorCode::None]);
        load(&mut broker, snapshot(2, 20));
        assert_eq!(fetch(&mut broker, (session, 1), None), (session, vec![]), "nothing is new");
        load(&mut broker, snapshot(30, 31));
        let refused = vec![ErrorCode::NotLeaderOrFollower];
        assert_eq!(fetch(&mut broker, (session, 2), None), (session, refused), "it is epoch 30 by now");
    }
}
