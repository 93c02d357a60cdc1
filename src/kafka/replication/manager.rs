//! All replicas of one broker, and what a change in one of them sets in motion.
//!
//! Mirrors `ReplicaManager` (R-REPL-11, 21, 35, 39).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::cleaner::LogCleaner;
use super::context::wake_all;
use super::disk::{Checkpoints, LogDirectory};
use super::fetcher::Fetcher;
use super::leader::Judgement;
use super::partition::{Partition, Role};
use super::producer_checks::ProducerChecks;
use super::purgatory::{Operation, OperationId, Purgatory};
use super::session_cache::FetchSessionCache;
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::config::{BrokerConfig, TopicConfig};
use crate::kafka::controller::image::{ClusterImage, PartitionRegistration};
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, TruncationReason};
use crate::kafka::log::Log;
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::random::Random;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, Topic, TopicId, TopicPartition};

/// The step at hand: when it happens, what the broker knows of the cluster, and where its effects go.
pub struct Step<'a> {
    pub now: Time,
    pub image: &'a ClusterImage,
    pub fx: &'a mut Effects<BrokerTimer>,
}

/// What the rest of the broker has to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    HighWatermark {
        tp: TopicPartition,
        offset: Offset,
    },
    Elected {
        tp: TopicPartition,
        leader_epoch: LeaderEpoch,
    },
    Resigned {
        tp: TopicPartition,
    },
    /// The leader wants another in-sync set.
    IsrWanted {
        tp: TopicPartition,
    },
}

#[derive(Clone, Debug)]
pub struct ReplicaManager {
    pub(super) me: BrokerId,
    pub(super) config: Rc<BrokerConfig>,
    pub(super) partitions: PartitionMap<TopicPartition, Rc<Partition>>,
    pub(super) purgatory: Purgatory,
    pub(super) fetchers: BTreeMap<BrokerId, Fetcher>,
    /// What each topic's configs come to here, read once.
    configs: BTreeMap<Topic, Rc<TopicConfig>>,
    pub(super) sessions: FetchSessionCache,
    pub(super) checkpoints: Checkpoints,
    pub(super) cleaner: LogCleaner,
    pub(super) producer_checks: Rc<ProducerChecks>,
    /// The partitions with late transactions that were told of.
    pub(super) known_late: Vec<TopicPartition>,
    notices: Vec<Notice>,
    /// The broker is about to stop: replicas that are out of sync are not fetched any more.
    stopping: bool,
}

impl ReplicaManager {
    /// Takes over what a disk holds, to be loaded by [`ReplicaManager::load_logs`]. `random`: for the ids of fetch sessions.
    pub fn new(me: BrokerId, config: Rc<BrokerConfig>, disk: LogDirectory, random: Random) -> ReplicaManager {
        let unread = Rc::new(TopicConfig::default());
        let partition = |(tp, (topic_id, log)): (&TopicPartition, &(TopicId, Log))| {
            let partition = Partition::new(tp.clone(), *topic_id, log.clone(), unread.clone());
            (tp.clone(), Rc::new(partition))
        };
        ReplicaManager {
            me,
            sessions: FetchSessionCache::new(config.max_incremental_fetch_session_cache_slots, random),
            config,
            partitions: disk.logs.iter().map(partition).collect(),
            purgatory: Purgatory::default(),
            fetchers: BTreeMap::new(),
            configs: BTreeMap::new(),
            checkpoints: disk.checkpoints,
            cleaner: LogCleaner::new(disk.cleaned),
            producer_checks: Rc::default(),
            known_late: Vec::new(),
            notices: Vec::new(),
            stopping: false,
        }
    }

    pub fn into_disk(self) -> LogDirectory {
        let logs = self.partitions.iter().map(|(tp, partition)| {
            let log = partition.log.clone();
            (tp.clone(), (partition.topic_id, log))
        });
        LogDirectory {
            logs: logs.collect(),
            checkpoints: self.checkpoints,
            cleaned: self.cleaner.into_checkpoints(),
        }
    }

    /// The broker is about to stop (R-REPL-55).
    pub fn begin_controlled_shutdown(&mut self) {
        self.stopping = true;
    }

    pub fn partition(&self, tp: &TopicPartition) -> Option<&Rc<Partition>> {
        self.partitions.get(tp)
    }

    pub fn partitions(&self) -> impl Iterator<Item = &Rc<Partition>> {
        self.partitions.values()
    }

    pub fn purgatory(&self) -> &Purgatory {
        &self.purgatory
    }

    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    pub(super) fn judgement<'a>(&self, step: &Step<'a>) -> Judgement<'a> {
        Judgement { now: step.now, image: step.image, lag_time_max_ms: self.config.replica_lag_time_max_ms }
    }

    /// A partition to be changed; whoever left it alone because nothing changed is told.
    pub(super) fn edit(&mut self, tp: &TopicPartition) -> Option<&mut Partition> {
        let partition = self.partitions.get_mut(tp).map(Rc::make_mut)?;
        wake_all(partition, &mut self.sessions, &mut self.purgatory);
        if let Role::Follower { leader } = &partition.role
            && let Some(fetcher) = self.fetchers.get_mut(leader)
        {
            fetcher.note_change(tp);
        }
        Some(partition)
    }

    /// The fetch sessions that followers and consumers have with this broker.
    pub fn sessions(&self) -> &FetchSessionCache {
        &self.sessions
    }

    /// A partition that a request names, or why this broker cannot serve it.
    pub fn find(&self, tp: &TopicPartition, image: &ClusterImage) -> Result<&Partition, ErrorCode> {
        match self.partitions.get(tp) {
            Some(partition) if partition.role != Role::Unknown => Ok(partition),
            _ if image.partition(tp).is_some() => Err(ErrorCode::NotLeaderOrFollower),
            _ => Err(ErrorCode::UnknownTopicOrPartition),
        }
    }

    /// Carries out what the metadata log says of one partition that this broker holds a replica of.
    pub fn apply(&mut self, tp: &TopicPartition, registration: &PartitionRegistration, step: &mut Step<'_>) {
        let Some(topic) = step.image.topic(&tp.topic) else { return };
        let config = self.topic_config(&tp.topic, step.image);
        let me = self.me;
        self.disturb(tp);
        if !self.partitions.contains_key(tp) {
            self.schedule_producer_check(tp, step.now, step);
        }
        let partition = self.partitions.get_or_insert_with(tp, || {
            let log = Log::created_at(step.now);
            Rc::new(Partition::new(tp.clone(), topic.id, log, config.clone()))
        });
        // R-REPL-27
        if registration.partition_epoch < partition.partition_epoch {
            return;
        }
        let partition = Rc::make_mut(partition);
        if partition.role == Role::Unknown {
            partition.config = config;
        }
        let was_leader = partition.is_leader();
        if registration.leader == me {
            let new_epoch = partition.make_leader(me, registration, step.now);
            let leader_epoch = registration.leader_epoch;
            if new_epoch {
                let (tp, topic_id) = (tp.clone(), partition.topic_id);
                let start_offset = partition.log.log_end_offset();
                step.fx.event(Event::BecameLeader {
                    broker: me,
                    tp: tp.clone(),
                    topic_id,
                    leader_epoch,
                    start_offset,
                    open_below: partition.log.producers().open_below(partition.log.log_start_offset()),
                });
                self.notice(Notice::Elected { tp, leader_epoch });
            }
            self.stop_fetching(tp);
            self.advance_high_watermark(tp, step);
            self.complete(tp, step);
        } else {
            let start_anew = partition.make_follower(registration);
            if was_leader {
                self.notice(Notice::Resigned { tp: tp.clone() });
                self.complete(tp, step);
            }
            let in_sync = registration.leader.is_some() && registration.isr.contains(&me);
            if self.stopping && !in_sync {
                self.stop_fetching(tp);
            } else if start_anew {
                let (broker, leader, leader_epoch) = (me, registration.leader, registration.leader_epoch);
                step.fx.event(Event::BecameFollower { broker, tp: tp.clone(), leader_epoch, leader });
                self.start_fetching(tp, step);
                self.complete(tp, step);
            }
        }
    }

    /// The replica is not this broker's any more, and its log goes with it (R-PLACE-9, R-REPL-59).
    pub fn delete(&mut self, tp: &TopicPartition, step: &mut Step<'_>) {
        self.disturb(tp);
        let Some(partition) = self.partitions.remove(tp) else { return };
        self.stop_fetching(tp);
        self.checkpoints.forget(tp);
        self.cleaner.forget(tp);
        Rc::make_mut(&mut self.producer_checks).cancel(tp);
        step.fx.event(Event::ReplicaDeleted { broker: self.me, tp: tp.clone() });
        if partition.is_leader() {
            self.notice(Notice::Resigned { tp: tp.clone() });
        }
        self.complete(tp, step);
    }

    fn topic_config(&mut self, topic: &Topic, image: &ClusterImage) -> Rc<TopicConfig> {
        let read = || {
            let mut config = image.topic_config(topic, &self.config);
            config.log.producer_id_expiration_ms = self.config.producer_id_expiration_ms;
            Rc::new(config)
        };
        self.configs.entry(topic.clone()).or_insert_with(read).clone()
    }

    /// Another value of a topic's config. It is no reason to look at the high watermark (R-REPL-14): with a lower
    /// min.insync.replicas that moves at the next append or fetch.
    pub fn apply_topic_config(&mut self, topic: &Topic, image: &ClusterImage) {
        self.configs.remove(topic);
        if image.topic(topic).is_none() {
            return;
        }
        let config = self.topic_config(topic, image);
        let of_topic: Vec<_> = self.partitions.of_topic(topic).map(|(tp, _)| tp.clone()).collect();
        for tp in of_topic {
            if let Some(partition) = self.partitions.get_mut(&tp) {
                Rc::make_mut(partition).config = config.clone();
            }
        }
    }

    /// Other configs of the broker, and with them of the topics that leave something open.
    pub fn reconfigure(&mut self, config: Rc<BrokerConfig>, image: &ClusterImage) {
        self.config = config;
        self.configs.clear();
        let topics: Vec<Topic> = self.partitions.topics().cloned().collect();
        topics.iter().for_each(|topic| self.apply_topic_config(topic, image));
    }

    /// A topic is gone; one of its name would be another.
    pub fn forget_config(&mut self, topic: &Topic) {
        self.configs.remove(topic);
    }

    /// R-REPL-35: fetching starts at the own log end; without a known epoch, at the high watermark.
    fn start_fetching(&mut self, tp: &TopicPartition, step: &mut Step<'_>) {
        self.stop_fetching(tp);
        let broker = self.me;
        let Some(partition) = self.edit(tp) else { return };
        let Role::Follower { leader } = partition.role else { return };
        if partition.log.leader_epochs().is_empty() {
            let (from, to) = (partition.log.log_end_offset(), partition.log.high_watermark());
            if self.truncate_log(tp, to, step.now) {
                let reason = TruncationReason::NoEpochKnown;
                step.fx.event(Event::Truncated { broker, tp: tp.clone(), from, to, reason });
            }
        }
        // R-REPL-39
        if leader.is_some() {
            self.fetchers.entry(leader).or_default().add(tp.clone());
        }
    }

    /// Ends the fetchers that follow nothing any more (`shutdownIdleFetcherThreads`); the caller closes their connections.
    pub fn end_idle_fetchers(&mut self) -> Vec<BrokerId> {
        let idle = self.fetchers.iter().filter(|(_, fetcher)| fetcher.is_idle());
        let idle: Vec<BrokerId> = idle.map(|(leader, _)| *leader).collect();
        self.fetchers.retain(|_, fetcher| !fetcher.is_idle());
        idle
    }

    pub(super) fn stop_fetching(&mut self, tp: &TopicPartition) {
        for fetcher in self.fetchers.values_mut() {
            fetcher.remove(tp);
        }
    }

    /// R-REPL-14. Tells of an advance; the caller completes what waited for it.
    pub(super) fn advance_high_watermark(&mut self, tp: &TopicPartition, step: &mut Step<'_>) -> bool {
        let judge = self.judgement(step);
        let broker = self.me;
        let Some(partition) = self.edit(tp) else { return false };
        let Some(from) = partition.maybe_advance_high_watermark(judge) else { return false };
        let to = partition.log.high_watermark();
        step.fx.event(Event::HighWatermarkAdvanced { broker, tp: tp.clone(), leader: true, from, to });
        self.notice(Notice::HighWatermark { tp: tp.clone(), offset: to });
        true
    }

    /// Tries everything that waits for something of this partition.
    pub(super) fn complete(&mut self, tp: &TopicPartition, step: &mut Step<'_>) {
        for id in self.purgatory.watching(tp) {
            self.try_complete(id, step);
        }
    }

    fn try_complete(&mut self, id: OperationId, step: &mut Step<'_>) {
        match self.purgatory.get(id) {
            Some(Operation::Produce(_)) => self.try_complete_produce(id, step),
            Some(Operation::Fetch(_)) => self.try_complete_fetch(id, step),
            Some(Operation::DeleteRecords(_)) => self.try_complete_delete_records(id, step),
            Some(Operation::Markers(_)) => self.try_complete_markers(id, step),
            None => {}
        }
    }

    /// Lets a request wait for one of the partitions, or its deadline.
    pub(super) fn park(
        &mut self,
        operation: Operation,
        watched: Vec<TopicPartition>,
        deadline: Time,
        step: &mut Step<'_>,
    ) -> OperationId {
        let id = self.purgatory.park(operation, watched, deadline);
        self.set_alarm(step);
        id
    }

    /// One timer for all that waits: to cancel and set one for each request would cost more than to look once in vain.
    fn set_alarm(&mut self, step: &mut Step<'_>) {
        if let Some(at) = self.purgatory.alarm() {
            step.fx.set_timer(BrokerTimer::Purgatory, at);
        }
    }

    /// The timer has run out: what has waited until its deadline is answered with what there is.
    pub fn expire(&mut self, step: &mut Step<'_>) {
        for id in self.purgatory.due(step.now) {
            self.expire_one(id, step);
        }
        self.set_alarm(step);
    }

    /// A request has waited long enough.
    pub(super) fn expire_one(&mut self, id: OperationId, step: &mut Step<'_>) {
        match self.purgatory.remove(id) {
            Some(Operation::Produce(produce)) => step.fx.respond(produce.request, produce.response),
            Some(Operation::Fetch(fetch)) => self.end_fetch(id, &fetch, step),
            Some(Operation::Markers(markers)) => step.fx.respond(markers.request, markers.response),
            Some(Operation::DeleteRecords(parked)) => step.fx.respond(parked.request, parked.response),
            None => {}
        }
    }

    /// R-REPL-21.
    pub fn check_isr(&mut self, step: &mut Step<'_>) {
        let judge = self.judgement(step);
        let me = self.me;
        let lagging = |partition: &Partition| {
            let out = partition.leader()?.out_of_sync(me, partition.log.log_end_offset(), judge);
            (!out.is_empty()).then(|| (partition.tp.clone(), out))
        };
        let found: Vec<_> = self.partitions.values().filter_map(|partition| lagging(partition)).collect();
        for (tp, out_of_sync) in found {
            if let Some(leader) = self.edit(&tp).and_then(Partition::leader_mut) {
                leader.shrink(out_of_sync);
                self.notice(Notice::IsrWanted { tp });
            }
        }
    }

    /// The controller committed the in-sync set that was asked for (R-REPL-26).
    pub fn isr_committed(
        &mut self,
        tp: &TopicPartition,
        isr: Vec<BrokerId>,
        partition_epoch: i32,
        step: &mut Step<'_>,
    ) {
        let Some(partition) = self.edit(tp) else { return };
        if partition_epoch < partition.partition_epoch.0 {
            return;
        }
        partition.partition_epoch.0 = partition_epoch;
        let Some(leader) = partition.leader_mut() else { return };
        leader.commit_isr(isr);
        self.advance_high_watermark(tp, step);
        self.complete(tp, step);
    }

    /// The controller refused the in-sync set that was asked for. Whether to ask again (R-REPL-26).
    pub fn isr_refused(&mut self, tp: &TopicPartition, error: ErrorCode) -> bool {
        match error {
            ErrorCode::OperationNotAttempted | ErrorCode::IneligibleReplica => {
                if let Some(leader) = self.edit(tp).and_then(Partition::leader_mut) {
                    leader.isr.revert();
                }
                false
            }
            // The metadata log will say what is right; until then the change counts as on its way.
            ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::InvalidUpdateVersion
            | ErrorCode::InvalidRequest
            | ErrorCode::NewLeaderElected => false,
            _ => true,
        }
    }

    /// Writes every high watermark to disk.
    pub fn checkpoint(&mut self) {
        let marks =
            self.partitions.values().map(|partition| (partition.tp.clone(), partition.log.high_watermark()));
        self.checkpoints.high_watermarks = marks.collect();
    }
}
