//! Following: the fetch loop towards one leader, and what a follower does with the answers.
//!
//! Mirrors `ReplicaFetcherThread` and `AbstractFetcherThread` (R-REPL-6, 17, 35, 36, 38).
//!
//! **Invariant:** a partition is in at most one fetcher, that of its leader; a fetcher has at most one request in
//! flight.

use std::collections::{BTreeMap, VecDeque};

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::lookup::Lookup;
use super::manager::{Notice, ReplicaManager, Step};
use super::partition::{Partition, Role};
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::event::{Event, TruncationReason};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition};

/// What was asked of one partition, to recognise an answer that is out of date.
pub type Asked = Vec<(TopicPartition, LeaderEpoch, Offset)>;

#[derive(Clone, Debug, Default)]
pub struct Fetcher {
    /// Each partition with the moment until which it rests after an error.
    partitions: BTreeMap<TopicPartition, Option<Time>>,
    in_flight: bool,
    /// Partitions that have to know where the leader's log lies before they can be fetched.
    lookups: VecDeque<Lookup>,
}

impl Fetcher {
    pub fn add(&mut self, tp: TopicPartition) {
        self.partitions.insert(tp, None);
    }

    pub fn remove(&mut self, tp: &TopicPartition) {
        self.partitions.remove(tp);
        self.lookups.retain(|lookup| lookup.tp != *tp);
    }

    pub(super) fn ask(&mut self, lookup: Lookup) {
        self.lookups.push_back(lookup);
    }

    pub(super) fn next_question(&mut self) -> Option<Lookup> {
        let next = self.lookups.pop_front()?;
        self.in_flight = true;
        Some(next)
    }

    pub(super) fn answered(&mut self) {
        self.in_flight = false;
    }

    fn rest(&mut self, tp: &TopicPartition, until: Time) {
        if let Some(rest) = self.partitions.get_mut(tp) {
            *rest = Some(until);
        }
    }

    /// Partitions that may be asked for now.
    fn ready(&self, now: Time) -> impl Iterator<Item = &TopicPartition> {
        self.partitions
            .iter()
            .filter(move |(_, rest)| rest.is_none_or(|until| until <= now))
            .map(|(tp, _)| tp)
    }

    fn next_rest_ends(&self, now: Time) -> Option<Time> {
        self.partitions.values().flatten().filter(|until| **until > now).min().copied()
    }
}

impl ReplicaManager {
    /// Leaders that may have something to fetch and are not being asked.
    pub fn idle_fetchers(&self) -> Vec<BrokerId> {
        let idle =
            self.fetchers.iter().filter(|(_, fetcher)| !fetcher.in_flight && !fetcher.partitions.is_empty());
        idle.map(|(leader, _)| *leader).collect()
    }

    /// Whether some partition of this leader may be asked for now; else its timer is set.
    pub fn wants_fetch(&self, leader: BrokerId, step: &mut Step<'_>) -> bool {
        let Some(fetcher) = self.fetchers.get(&leader) else { return false };
        let ready = !fetcher.lookups.is_empty() || fetcher.ready(step.now).next().is_some();
        if !ready && let Some(at) = fetcher.next_rest_ends(step.now) {
            step.fx.set_timer(BrokerTimer::FetcherBackoff(leader), at);
        }
        ready
    }

    /// The next fetch to a leader; the caller sends it. `None` while every partition rests (the timer is set).
    pub fn next_fetch(
        &mut self,
        leader: BrokerId,
        epoch: BrokerEpoch,
        step: &mut Step<'_>,
    ) -> Option<(FetchRequest, Asked)> {
        if !self.wants_fetch(leader, step) {
            return None;
        }
        let fetcher = self.fetchers.get_mut(&leader)?;
        let ready: Vec<TopicPartition> = fetcher.ready(step.now).cloned().collect();
        fetcher.in_flight = true;
        let mut request = FetchRequest::default()
            .with_max_wait_ms(self.config.replica_fetch_wait_max_ms)
            .with_min_bytes(1)
            .with_max_bytes(self.config.replica_fetch_response_max_bytes)
            .with_session_epoch(-1)
            .with_replica_state(
                ReplicaState::default().with_replica_id(self.me.0.into()).with_replica_epoch(epoch.0),
            );
        let mut asked = Vec::with_capacity(ready.len());
        for tp in ready {
            let Some(partition) = self.partitions.get(&tp) else { continue };
            let wanted = wanted(partition, self.config.replica_fetch_max_bytes);
            asked.push((tp, partition.leader_epoch, Offset(wanted.fetch_offset)));
            match request.topics.last_mut() {
                Some(topic) if topic.topic_id == partition.topic_id.0 => topic.partitions.push(wanted),
                _ => {
                    let topic = FetchTopic::default().with_topic_id(partition.topic_id.0);
                    request.topics.push(topic.with_partitions(vec![wanted]));
                }
            }
        }
        Some((request, asked))
    }

    /// The connection to a leader failed or was lost: everything asked of it rests (R-REPL-38).
    pub fn fetch_failed(&mut self, leader: BrokerId, step: &mut Step<'_>) {
        let until = step.now.plus_ms(self.config.replica_fetch_backoff_ms);
        let Some(fetcher) = self.fetchers.get_mut(&leader) else { return };
        fetcher.in_flight = false;
        fetcher.lookups.clear();
        fetcher.partitions.values_mut().for_each(|rest| *rest = Some(until));
        step.fx.set_timer(BrokerTimer::FetcherBackoff(leader), until);
    }

    /// Takes in a leader's answer.
    pub fn fetched(
        &mut self,
        leader: BrokerId,
        asked: &Asked,
        response: &FetchResponse,
        step: &mut Step<'_>,
    ) {
        if let Some(fetcher) = self.fetchers.get_mut(&leader) {
            fetcher.in_flight = false;
        }
        let mut asked: BTreeMap<_, _> =
            asked.iter().map(|(tp, epoch, offset)| (tp, (*epoch, *offset))).collect();
        for topic in &response.responses {
            let Some(name) = step.image.topic_name(TopicId(topic.topic_id)).cloned() else { continue };
            for data in &topic.partitions {
                let tp = TopicPartition::new(&name, data.partition_index);
                let Some((epoch, offset)) = asked.remove(&tp) else { continue };
                let current = self.partitions.get(&tp).is_some_and(|partition| {
                    let follows = partition.role == Role::Follower { leader };
                    follows && partition.leader_epoch == epoch && partition.log.log_end_offset() == offset
                });
                if current {
                    self.take_in(leader, &tp, offset, data, step);
                }
            }
        }
        if response.error_code != 0 {
            self.fetch_failed(leader, step);
        }
    }

    fn take_in(
        &mut self,
        leader: BrokerId,
        tp: &TopicPartition,
        fetch_offset: Offset,
        data: &PartitionData,
        step: &mut Step<'_>,
    ) {
        let error = ErrorCode::from_code(data.error_code);
        if error.is_ok() && data.diverging_epoch.epoch >= 0 {
            let diverging =
                (LeaderEpoch(data.diverging_epoch.epoch), Offset(data.diverging_epoch.end_offset));
            return self.truncate(tp, diverging, fetch_offset, step);
        }
        // R-REPL-38: fenced in its newest epoch, it waits for the metadata that the leader has already.
        if error == ErrorCode::FencedLeaderEpoch {
            return self.stop_fetching(tp);
        }
        if error == ErrorCode::OffsetOutOfRange {
            return self.out_of_range(leader, tp);
        }
        let taken = error.is_ok() && self.append_fetched(tp, data, step);
        if !taken {
            self.rest(leader, tp, step);
        }
    }

    /// A partition that met an error is asked for again after replica.fetch.backoff.ms (R-REPL-38).
    pub(super) fn rest(&mut self, leader: BrokerId, tp: &TopicPartition, step: &Step<'_>) {
        let until = step.now.plus_ms(self.config.replica_fetch_backoff_ms);
        if let Some(fetcher) = self.fetchers.get_mut(&leader) {
            fetcher.rest(tp, until);
        }
    }

    /// R-REPL-17: append first, then the high watermark, as far as the own log goes. Whether the bytes were sound.
    fn append_fetched(&mut self, tp: &TopicPartition, data: &PartitionData, step: &mut Step<'_>) -> bool {
        let broker = self.me;
        let Some(partition) = self.edit(tp) else { return false };
        let records = data.records.clone().unwrap_or_default();
        if !records.is_empty() {
            let epoch = partition.leader_epoch;
            let config = &partition.config.log;
            let appended = partition.log.append_as_follower(step.now, records, epoch, config);
            let Ok(appended) = appended else { return false };
            let (from, to) = (appended.from, appended.to);
            step.fx.event(Event::Replicated { broker, tp: tp.clone(), from, to });
        }
        if let Some(from) = partition.log.update_high_watermark(Offset(data.high_watermark)) {
            let to = partition.log.high_watermark();
            step.fx.event(Event::HighWatermarkAdvanced { broker, tp: tp.clone(), leader: false, from, to });
            self.notice(Notice::HighWatermark { tp: tp.clone(), offset: to });
        }
        self.follow_log_start(tp, Offset(data.log_start_offset), step)
    }

    /// R-REPL-36.
    fn truncate(
        &mut self,
        tp: &TopicPartition,
        diverging: (LeaderEpoch, Offset),
        fetch_offset: Offset,
        step: &mut Step<'_>,
    ) {
        let broker = self.me;
        let Some(partition) = self.edit(tp) else { return };
        let from = partition.log.log_end_offset();
        let to = partition.log.truncation_point(diverging, fetch_offset);
        partition.log.truncate_to(step.now, to, &partition.config.log);
        let log = partition.log.clone();
        self.cleaner.on_truncated(tp, &log);
        let reason = TruncationReason::DivergingEpoch { epoch: diverging.0, end_offset: diverging.1 };
        step.fx.event(Event::Truncated { broker, tp: tp.clone(), from, to, reason });
    }
}

fn wanted(partition: &Partition, max_bytes: i32) -> FetchPartition {
    let log = &partition.log;
    FetchPartition::default()
        .with_partition(partition.tp.partition)
        .with_current_leader_epoch(partition.leader_epoch.0)
        .with_fetch_offset(log.log_end_offset().0)
        .with_last_fetched_epoch(log.latest_epoch().unwrap_or(LeaderEpoch::NONE).0)
        .with_log_start_offset(log.log_start_offset().0)
        .with_partition_max_bytes(max_bytes)
}
