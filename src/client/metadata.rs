//! What a client knows of the cluster, and when and whom it asks again.
//!
//! Mirrors Kafka's `Metadata`, `MetadataSnapshot` and `NetworkClient.DefaultMetadataUpdater`. Bootstrap servers are
//! broker ids here, so one connection serves before and after the first answer.
//!
//! **Invariant:** at most one Metadata request of a client is on its way, and the leader epoch that is known for a
//! partition never goes back (R-REPL-68).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};

use super::config::CommonConfig;
use super::pattern::TopicPattern;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::network_client::{NetworkClient, NetworkTimer};
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Topic, TopicId, TopicPartition};

/// What the last answer said about one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// NONE while the partition has no leader (R-REPL-66).
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub replicas: Rc<[BrokerId]>,
    /// Replicas on brokers that are in service.
    pub online: Rc<[BrokerId]>,
    pub error: ErrorCode,
}

/// What the last answer said about one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    pub id: TopicId,
    pub error: ErrorCode,
    /// By partition number; empty when the topic has an error.
    pub partitions: BTreeMap<i32, PartitionMetadata>,
}

#[derive(Clone, Debug)]
pub struct Metadata {
    config: CommonConfig,
    allow_auto_topic_creation: bool,
    random: Random,
    bootstrap: Rc<[BrokerId]>,
    /// The brokers of the last answer, or the bootstrap list, with their racks.
    nodes: BTreeMap<BrokerId, Option<Rc<str>>>,
    wanted: BTreeSet<Topic>,
    also: Also,
    topics: Rc<BTreeMap<Topic, TopicMetadata>>,
    last_seen_epochs: PartitionMap<TopicPartition, LeaderEpoch>,
    update_version: u32,
    refresh: Refresh,
}

/// What is asked for instead of the wanted topics, which are kept in any case (`ConsumerMetadata`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Also {
    #[default]
    Nothing,
    /// All topics, to keep those that match.
    Matching { pattern: TopicPattern, with_internal: bool },
    /// The topics with these ids, whatever their names are.
    Ids(BTreeSet<TopicId>),
}

/// When to ask again.
#[derive(Clone, Debug)]
struct Refresh {
    requested: bool,
    /// The version of `wanted` that the request on its way asks for.
    in_progress: Option<i32>,
    wanted_version: i32,
    /// Failures in a row.
    failures: i32,
    /// Answers in a row that brought nothing new.
    equivalent_answers: i32,
    /// No request before these: one for failures, one for answers that brought nothing new.
    failure_backoff_until: Time,
    equivalent_backoff_until: Time,
    last_success: Option<Time>,
    /// Since when answers have been wanting.
    wanting_since: Option<Time>,
}

impl Metadata {
    pub fn new(
        bootstrap: &[BrokerId],
        config: CommonConfig,
        allow_auto_topic_creation: bool,
        random: Random,
    ) -> Metadata {
        assert!(!bootstrap.is_empty(), "a client needs a bootstrap server");
        Metadata {
            config,
            allow_auto_topic_creation,
            random,
            bootstrap: bootstrap.into(),
            nodes: bootstrap.iter().map(|id| (*id, None)).collect(),
            wanted: BTreeSet::new(),
            also: Also::Nothing,
            topics: Rc::default(),
            last_seen_epochs: PartitionMap::new(),
            update_version: 0,
            refresh: Refresh {
                requested: true,
                in_progress: None,
                wanted_version: 0,
                failures: 0,
                equivalent_answers: 0,
                failure_backoff_until: Time::ZERO,
                equivalent_backoff_until: Time::ZERO,
                last_success: None,
                wanting_since: None,
            },
        }
    }

    /// Asks for exactly these topics from now on; at once if one of them is new.
    pub fn want(&mut self, topics: BTreeSet<Topic>) {
        if topics == self.wanted {
            return;
        }
        let any_new = topics.iter().any(|topic| !self.wanted.contains(topic));
        self.wanted = topics;
        let wanted = &self.wanted;
        self.last_seen_epochs.retain_topics(|topic| wanted.contains(topic));
        if any_new {
            let refresh = &mut self.refresh;
            refresh.requested = true;
            refresh.wanted_version += 1;
            refresh.equivalent_answers = 0;
            refresh.equivalent_backoff_until = Time::ZERO;
            refresh.failure_backoff_until = Time::ZERO;
        }
    }

    /// As [`Self::want`], of one topic.
    pub fn want_one(&mut self, topic: &Topic) {
        if self.wanted.len() != 1 || !self.wanted.contains(topic) {
            self.want(BTreeSet::from([topic.clone()]));
        }
    }

    /// What to ask for beside the wanted topics, from now on.
    pub fn want_also(&mut self, also: Also) {
        self.also = also;
    }

    /// Asks again as soon as that is allowed, and as if the last answers had brought something new
    /// (`requestUpdate(true)`).
    pub fn request_fresh(&mut self) {
        self.refresh.requested = true;
        self.refresh.equivalent_answers = 0;
    }

    /// Whether no back-off forbids to ask now (`timeToAllowUpdate` is 0).
    pub fn may_update(&self, now: Time) -> bool {
        self.refresh.failure_backoff_until.max(self.refresh.equivalent_backoff_until) <= now
    }

    /// Something showed that the metadata may be out of date: ask again, after back-off if answers bring nothing new.
    pub fn request_update(&mut self) {
        self.refresh.requested = true;
    }

    /// Whether what is known is to be asked for anew (`updateRequested`, or its time is over).
    pub fn is_stale(&self, now: Time) -> bool {
        self.refresh.requested || self.next_update_at() <= now
    }

    /// The moment from which a refresh is due (R-REPL-69).
    pub fn next_update_at(&self) -> Time {
        let refresh = &self.refresh;
        let expires_at = if refresh.requested { Time::ZERO } else { self.expires_at() };
        expires_at.max(refresh.failure_backoff_until).max(refresh.equivalent_backoff_until)
    }

    fn expires_at(&self) -> Time {
        self.refresh.last_success.map_or(Time::ZERO, |at| at.plus_ms(self.config.metadata_max_age_ms))
    }

    /// Sends a Metadata request if one is due and a broker can take it, or opens a connection for it. Gives the time at
    /// which to call this again; `None` when an answer or a change of a connection comes first.
    pub fn maybe_refresh<C: Clone, T: From<NetworkTimer>>(
        &mut self,
        now: Time,
        network: &mut NetworkClient<C>,
        context: C,
        fx: &mut Effects<T>,
    ) -> Option<Time> {
        if self.refresh.in_progress.is_some() {
            return None;
        }
        let due_at = self.next_update_at();
        if due_at > now {
            return Some(due_at);
        }
        let wanting_since = *self.refresh.wanting_since.get_or_insert(now);
        if now.ms_since(wanting_since) > self.config.rebootstrap_trigger_ms {
            self.rebootstrap(now);
        }
        let mut node = self.least_loaded(now, network);
        if node.is_none() && !self.nodes.keys().any(|id| network.is_connected(main_peer(*id))) {
            self.rebootstrap(now);
            node = self.least_loaded(now, network);
        }
        let Some(node) = node else {
            return Some(now.plus_ms(self.config.reconnect_backoff_ms.max(1)));
        };
        if network.can_send(main_peer(node)) {
            self.refresh.in_progress = Some(self.refresh.wanted_version);
            network.send(now, main_peer(node), self.request(), context, self.config.request_timeout_ms, fx);
        } else {
            network.ready(now, main_peer(node), fx);
        }
        None
    }

    /// The request for the wanted topics.
    fn request(&self) -> MetadataRequest {
        let topic =
            |topic: &Topic| MetadataRequestTopic::default().with_name(Some(TopicName(topic.to_wire())));
        let by_id = |id: &TopicId| MetadataRequestTopic::default().with_name(None).with_topic_id(id.0);
        let topics = match &self.also {
            Also::Nothing => Some(self.wanted.iter().map(topic).collect()),
            Also::Matching { .. } => None,
            Also::Ids(ids) => Some(ids.iter().map(by_id).collect()),
        };
        MetadataRequest::default()
            .with_topics(topics)
            .with_allow_auto_topic_creation(self.allow_auto_topic_creation)
    }

    /// The broker to ask: a connection with the fewest requests in flight, else one that is being opened, else the one
    /// whose last attempt to connect is the oldest; `None` while all of them back off. Ties fall at random.
    pub fn least_loaded<C: Clone>(&mut self, now: Time, network: &NetworkClient<C>) -> Option<BrokerId> {
        let offset = self.random.below(self.nodes.len() as u64) as usize;
        let in_turn = || self.nodes.keys().cycle().skip(offset).take(self.nodes.len()).copied();
        let ready = in_turn().filter(|id| network.can_send(main_peer(*id)));
        let connecting = || in_turn().find(|id| network.is_connecting(main_peer(*id)));
        let connectable = || {
            let free = |id: &BrokerId| {
                !network.is_connected(main_peer(*id)) && !network.is_backing_off(now, main_peer(*id))
            };
            in_turn().filter(free).min_by_key(|id| network.last_attempt(main_peer(*id)))
        };
        ready.min_by_key(|id| network.in_flight(main_peer(*id))).or_else(connecting).or_else(connectable)
    }

    /// Forgets what is known and starts again from the bootstrap servers.
    fn rebootstrap(&mut self, now: Time) {
        self.nodes = self.bootstrap.iter().map(|id| (*id, None)).collect();
        self.topics = Rc::default();
        self.update_version += 1;
        self.refresh.requested = true;
        self.refresh.wanting_since = Some(now);
    }

    /// Takes the answer to the request on its way.
    pub fn on_response(&mut self, now: Time, response: &MetadataResponse) {
        let asked_version = self.refresh.in_progress.take();
        if ErrorCode::from_code(response.error_code) == ErrorCode::RebootstrapRequired {
            self.rebootstrap(now);
            return self.back_off(now);
        }
        if response.brokers.is_empty() {
            // A broker that is still starting knows nobody.
            return self.back_off(now);
        }
        if now >= self.expires_at() {
            self.refresh.equivalent_answers = 0;
        }
        self.update_version += 1;
        self.refresh.requested = asked_version != Some(self.refresh.wanted_version);
        self.refresh.last_success = Some(now);
        self.refresh.wanting_since = None;
        self.refresh.failures = 0;
        self.refresh.equivalent_answers += 1;
        let rack = |broker: &MetadataResponseBroker| broker.rack.as_ref().map(|rack| Rc::from(rack.as_str()));
        let brokers = response.brokers.iter();
        self.nodes = brokers.map(|broker| (BrokerId(broker.node_id.0), rack(broker))).collect();
        let topics = response.topics.iter().filter_map(|topic| self.take_topic(topic)).collect();
        if topics != *self.topics {
            self.topics = Rc::new(topics);
        }
        self.refresh.failure_backoff_until =
            now.plus_ms(self.config.retry_backoff.after(0, &mut self.random));
        self.refresh.equivalent_backoff_until = match self.refresh.equivalent_answers {
            0 => Time::ZERO,
            answers => now.plus_ms(self.config.retry_backoff.after(answers - 1, &mut self.random)),
        };
    }

    fn take_topic(&mut self, answer: &MetadataResponseTopic) -> Option<(Topic, TopicMetadata)> {
        let (error, id) = (ErrorCode::from_code(answer.error_code), TopicId(answer.topic_id));
        let named = answer.name.as_ref().map(|name| Topic::new(name.as_str()));
        if !self.keeps(named.as_ref(), id, answer.is_internal) {
            return None;
        }
        self.refresh.requested |= error.refreshes_metadata();
        let topic = named?;
        let known = self.topics.clone();
        let known = known.get(&topic).filter(|known| known.id == id);
        let mut partitions = BTreeMap::new();
        if error.is_ok() {
            for partition in &answer.partitions {
                let tp = TopicPartition::new(&topic, partition.partition_index);
                let metadata = self.take_partition(tp, known, partition);
                partitions.extend(metadata.map(|metadata| (partition.partition_index, metadata)));
            }
        }
        Some((topic, TopicMetadata { id, error, partitions }))
    }

    /// `retainTopic`
    fn keeps(&self, topic: Option<&Topic>, id: TopicId, is_internal: bool) -> bool {
        let is_wanted = topic.is_some_and(|topic| self.wanted.contains(topic));
        is_wanted
            || match &self.also {
                Also::Nothing => false,
                Also::Matching { pattern, with_internal } => {
                    (*with_internal || !is_internal) && topic.is_some_and(|topic| pattern.matches(topic))
                }
                Also::Ids(ids) => ids.contains(&id),
            }
    }

    /// What to believe of a partition: the answer, unless a newer leader epoch is known already (R-REPL-68). `known` is
    /// what was known of the same topic id; a topic that was created anew starts from its own epochs.
    fn take_partition(
        &mut self,
        tp: TopicPartition,
        known: Option<&TopicMetadata>,
        answer: &MetadataResponsePartition,
    ) -> Option<PartitionMetadata> {
        let error = ErrorCode::from_code(answer.error_code);
        self.refresh.requested |= error.refreshes_metadata();
        let leader_epoch = LeaderEpoch(answer.leader_epoch);
        let seen = self.last_seen_epochs.get(&tp).copied();
        if known.is_some() && seen.is_some_and(|seen| leader_epoch < seen) {
            return known.and_then(|known| known.partitions.get(&tp.partition)).cloned();
        }
        if known.is_none() || seen.is_none_or(|seen| leader_epoch > seen) {
            self.refresh.equivalent_answers = 0;
        }
        self.last_seen_epochs.insert(tp, leader_epoch);
        let replicas: Rc<[BrokerId]> = answer.replica_nodes.iter().map(|id| BrokerId(id.0)).collect();
        let online = match answer.offline_replicas.is_empty() {
            true => replicas.clone(),
            false => {
                let online = answer.replica_nodes.iter().filter(|id| !answer.offline_replicas.contains(id));
                online.map(|id| BrokerId(id.0)).collect()
            }
        };
        Some(PartitionMetadata {
            leader: BrokerId(answer.leader_id.0),
            leader_epoch,
            replicas,
            online,
            error,
        })
    }

    /// The request on its way was lost.
    pub fn on_failure(&mut self, now: Time) {
        self.refresh.in_progress = None;
        self.back_off(now);
    }

    /// A connection was lost or refused: what is known may be out of date.
    pub fn on_disconnect(&mut self, now: Time) {
        if self.refresh.in_progress.is_none() && self.next_update_at() <= now {
            self.back_off(now);
        }
        self.request_update();
    }

    fn back_off(&mut self, now: Time) {
        let wait_ms = self.config.retry_backoff.after(self.refresh.failures, &mut self.random);
        self.refresh.failure_backoff_until = now.plus_ms(wait_ms);
        self.refresh.failures += 1;
    }

    /// Takes the leader that a Produce or Fetch answer named (KIP-951, R-REPL-67), if it is newer than what is known and
    /// its address is known or among `endpoints`, which come with their racks. Says whether it was taken.
    pub fn take_leader_hint(
        &mut self,
        tp: &TopicPartition,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        endpoints: impl IntoIterator<Item = (BrokerId, Option<Rc<str>>)>,
    ) -> bool {
        let endpoints: BTreeMap<BrokerId, Option<Rc<str>>> = endpoints.into_iter().collect();
        let newer = self.last_seen_epochs.get(tp).is_none_or(|seen| leader_epoch > *seen);
        let reachable = self.knows(leader) || endpoints.contains_key(&leader);
        if !leader.is_some()
            || leader_epoch < LeaderEpoch(0)
            || !newer
            || !reachable
            || self.partition(tp).is_none()
        {
            return false;
        }
        self.nodes.extend(endpoints);
        let topics = Rc::make_mut(&mut self.topics);
        if let Some(known) =
            topics.get_mut(&tp.topic).and_then(|topic| topic.partitions.get_mut(&tp.partition))
        {
            known.leader = leader;
            known.leader_epoch = leader_epoch;
        }
        self.last_seen_epochs.insert(tp.clone(), leader_epoch);
        self.update_version += 1;
        true
    }

    /// Another answer named this leader epoch; if it is newer than what is known the leader is in doubt until metadata
    /// has caught up (R-REPL-68).
    pub fn saw_leader_epoch(&mut self, tp: &TopicPartition, leader_epoch: LeaderEpoch) {
        if let Some(seen) = self.last_seen_epochs.get_mut(tp)
            && leader_epoch > *seen
        {
            *seen = leader_epoch;
            self.refresh.requested = true;
        }
    }

    /// Raised by each answer, by each leader that was learned otherwise, and when all is forgotten (`Metadata.bootstrap`).
    pub fn update_version(&self) -> u32 {
        self.update_version
    }

    /// The brokers of the last answer, or those that the client was started with.
    pub fn nodes(&self) -> impl Iterator<Item = BrokerId> {
        self.nodes.keys().copied()
    }

    pub fn knows(&self, broker: BrokerId) -> bool {
        self.nodes.contains_key(&broker)
    }

    /// The rack of a broker that is known and has one.
    pub fn rack(&self, broker: BrokerId) -> Option<&Rc<str>> {
        self.nodes.get(&broker)?.as_ref()
    }

    /// All that is known of the wanted topics; the pointer changes only when the content does.
    pub fn topics(&self) -> &Rc<BTreeMap<Topic, TopicMetadata>> {
        &self.topics
    }

    pub fn topic(&self, topic: &Topic) -> Option<&TopicMetadata> {
        self.topics.get(topic)
    }

    pub fn topic_name(&self, id: TopicId) -> Option<&Topic> {
        self.topics.iter().find(|(_, topic)| topic.id == id && topic.error.is_ok()).map(|(name, _)| name)
    }

    /// The number of partitions of a topic that exists.
    pub fn partition_count(&self, topic: &Topic) -> Option<i32> {
        self.topic(topic).filter(|topic| topic.error.is_ok()).map(|topic| topic.partitions.len() as i32)
    }

    pub fn partition(&self, tp: &TopicPartition) -> Option<&PartitionMetadata> {
        self.topic(&tp.topic)?.partitions.get(&tp.partition)
    }

    /// The leader and its epoch; `None` while there is no leader, or a newer epoch is known than its metadata.
    pub fn leader(&self, tp: &TopicPartition) -> Option<(BrokerId, LeaderEpoch)> {
        let partition = self.partition(tp)?;
        let current = self.last_seen_epochs.get(tp).is_none_or(|seen| partition.leader_epoch == *seen);
        (current && self.knows(partition.leader)).then_some((partition.leader, partition.leader_epoch))
    }

    /// Whether a replica of the partition can be reached on this broker (`nodeIfOnline`).
    pub fn is_online(&self, tp: &TopicPartition, broker: BrokerId) -> bool {
        let is_replica = self.partition(tp).is_some_and(|partition| partition.online.contains(&broker));
        is_replica && self.knows(broker)
    }

    /// The newest leader epoch that is known of a partition.
    pub fn leader_epoch(&self, tp: &TopicPartition) -> Option<LeaderEpoch> {
        self.last_seen_epochs.get(tp).copied()
    }
}

/// A client's connection to a broker for everything but its coordinator.
pub fn main_peer(broker: BrokerId) -> Peer {
    Peer::new(broker, Channel::Main)
}

#[cfg(test)]
mod tests;
