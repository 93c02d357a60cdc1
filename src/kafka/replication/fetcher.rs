//! Following: the fetch loop towards one leader, and what a follower does with the answers.
//!
//! Mirrors `ReplicaFetcherThread`, `AbstractFetcherThread` and `RemoteLeaderEndPoint` (R-REPL-6, 17, 35, 36, 38).
//!
//! **Invariant:** a partition is in at most one fetcher, that of its leader; a fetcher has at most one request in
//! flight; a partition whose replica is not where the session has it is among the changed ones.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::ReplicaState;
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::lookup::Lookup;
use super::manager::{Notice, ReplicaManager, Step};
use super::partition::{Partition, Role};
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::event::{Event, TruncationReason};
use crate::kafka::fetch_session::{Fetch, FetchRequestData, FetchSessionHandler, Wanted};
use crate::kafka::log::{AppendError, FollowerAppended};
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition};

/// How a fetcher stands to one partition (`PartitionFetchState`).
#[derive(Clone, Copy, Debug)]
struct Followed {
    /// Full requests list partitions in this order; one that brought records goes to the end.
    place: u64,
    /// Until when it rests after an error.
    rest: Option<Time>,
}

#[derive(Clone, Debug, Default)]
pub struct Fetcher {
    partitions: PartitionMap<TopicPartition, Followed>,
    /// The partitions that rest, by the end of their rest.
    resting: BTreeSet<(Time, TopicPartition)>,
    /// What may stand otherwise than the session has it.
    changed: BTreeSet<TopicPartition>,
    session: FetchSessionHandler,
    in_flight: bool,
    /// Partitions that have to know where the leader's log lies before they can be fetched.
    lookups: VecDeque<Lookup>,
    next_place: u64,
}

impl Fetcher {
    pub fn add(&mut self, tp: TopicPartition) {
        self.remove(&tp);
        let place = self.new_place();
        self.changed.insert(tp.clone());
        self.partitions.insert(tp, Followed { place, rest: None });
    }

    pub fn remove(&mut self, tp: &TopicPartition) {
        if let Some(followed) = self.partitions.remove(tp) {
            self.changed.insert(tp.clone());
            if let Some(until) = followed.rest {
                self.resting.remove(&(until, tp.clone()));
            }
        }
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

    /// The replica may not be where it was.
    pub fn note_change(&mut self, tp: &TopicPartition) {
        if self.partitions.contains_key(tp) {
            self.changed.insert(tp.clone());
        }
    }

    pub fn is_idle(&self) -> bool {
        self.partitions.is_empty()
    }

    fn new_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }

    pub(super) fn move_to_end(&mut self, tp: &TopicPartition) {
        let place = self.new_place();
        if let Some(followed) = self.partitions.get_mut(tp) {
            followed.place = place;
        }
    }

    fn rest(&mut self, tp: &TopicPartition, until: Time) {
        self.move_to_end(tp);
        if let Some(followed) = self.partitions.get_mut(tp) {
            if let Some(before) = followed.rest.replace(until) {
                self.resting.remove(&(before, tp.clone()));
            }
            self.resting.insert((until, tp.clone()));
            self.changed.insert(tp.clone());
        }
    }

    fn rest_all(&mut self, until: Time) {
        let all: Vec<_> = self.partitions.keys().cloned().collect();
        all.iter().for_each(|tp| self.rest(tp, until));
    }

    fn end_rests(&mut self, now: Time) {
        while let Some((until, _)) = self.resting.first()
            && *until <= now
            && let Some((_, tp)) = self.resting.pop_first()
        {
            if let Some(followed) = self.partitions.get_mut(&tp) {
                followed.rest = None;
                self.changed.insert(tp);
            }
        }
    }

    /// Whether there is something to ask for, or to let go of.
    fn wants_fetch(&self) -> bool {
        let closes = !self.session.next().is_full() && !self.session.is_empty();
        !self.lookups.is_empty() || self.partitions.len() > self.resting.len() || closes
    }

    /// The next request, for every partition that does not rest.
    fn build(&mut self, wanted: impl Fn(&TopicPartition) -> Option<Fetch>) -> FetchRequestData {
        let changed = std::mem::take(&mut self.changed);
        let awake = |tp: &TopicPartition| self.partitions.get(tp).is_some_and(|known| known.rest.is_none());
        if self.session.next().is_full() {
            let mut ready: Vec<_> =
                self.partitions.iter().filter(|(_, known)| known.rest.is_none()).collect();
            ready.sort_by_key(|(_, followed)| followed.place);
            let all = ready.into_iter().filter_map(|(tp, _)| wanted(tp)).collect();
            return self.session.build(all);
        }
        let (kept, gone): (Vec<_>, Vec<_>) = changed.into_iter().partition(awake);
        self.session.build_changes(kept.iter().filter_map(wanted).collect(), gone)
    }
}

impl ReplicaManager {
    /// Leaders that may have something to fetch and are not being asked.
    pub fn idle_fetchers(&self) -> Vec<BrokerId> {
        let idle = self
            .fetchers
            .iter()
            .filter(|(_, fetcher)| !fetcher.in_flight && (!fetcher.is_idle() || fetcher.wants_fetch()));
        idle.map(|(leader, _)| *leader).collect()
    }

    /// Whether some partition of this leader may be asked for now; else its timer is set.
    pub fn wants_fetch(&mut self, leader: BrokerId, step: &mut Step<'_>) -> bool {
        let Some(fetcher) = self.fetchers.get_mut(&leader) else { return false };
        fetcher.end_rests(step.now);
        let wants = fetcher.wants_fetch();
        if !wants && let Some((at, _)) = fetcher.resting.first() {
            step.fx.set_timer(BrokerTimer::FetcherBackoff(leader), *at);
        }
        wants
    }

    /// The next fetch to a leader; the caller sends it. `None` while every partition rests (the timer is set).
    pub fn next_fetch(
        &mut self,
        leader: BrokerId,
        epoch: BrokerEpoch,
        step: &mut Step<'_>,
    ) -> Option<FetchRequest> {
        if !self.wants_fetch(leader, step) {
            return None;
        }
        let fetcher = self.fetchers.get_mut(&leader)?;
        fetcher.in_flight = true;
        let max_bytes = self.config.replica_fetch_max_bytes;
        let partitions = &self.partitions;
        let data = fetcher.build(|tp| {
            let partition = partitions.get(tp)?;
            let wanted = wanted(partition, max_bytes);
            Some(Fetch { tp: tp.clone(), topic_id: partition.topic_id, wanted })
        });
        let me = ReplicaState::default().with_replica_id(self.me.0.into()).with_replica_epoch(epoch.0);
        let request = data.into_request();
        Some(
            request
                .with_max_wait_ms(self.config.replica_fetch_wait_max_ms)
                .with_min_bytes(1)
                .with_max_bytes(self.config.replica_fetch_response_max_bytes)
                .with_replica_state(me),
        )
    }

    /// The connection to a leader failed or was lost: everything asked of it rests (R-REPL-38).
    pub fn fetch_failed(&mut self, leader: BrokerId, step: &mut Step<'_>) {
        let until = step.now.plus_ms(self.config.replica_fetch_backoff_ms);
        let Some(fetcher) = self.fetchers.get_mut(&leader) else { return };
        fetcher.in_flight = false;
        fetcher.lookups.clear();
        fetcher.session.handle_error();
        fetcher.rest_all(until);
        step.fx.set_timer(BrokerTimer::FetcherBackoff(leader), until);
    }

    /// Takes in a leader's answer. One that does not fit the session is of no use; the next fetch begins another.
    pub fn fetched(&mut self, leader: BrokerId, response: &FetchResponse, step: &mut Step<'_>) {
        let Some(fetcher) = self.fetchers.get_mut(&leader) else { return };
        fetcher.in_flight = false;
        let Ok(answered) = fetcher.session.handle_response(response) else { return };
        let mut advanced = Vec::new();
        for answer in answered {
            let current = self.partitions.get(&answer.tp).is_some_and(|partition| {
                let in_epoch = partition.role == Role::Follower { leader }
                    && partition.leader_epoch == answer.wanted.current_leader_epoch;
                (in_epoch || (plant::is(Plant::StaleEpochAppend) && !partition.is_leader()))
                    && partition.log.log_end_offset() == answer.wanted.fetch_offset
            });
            if !current {
                continue;
            }
            let before = self.high_watermark(&answer.tp);
            self.take_in(leader, &answer.tp, answer.wanted.fetch_offset, answer.data, step);
            if self.high_watermark(&answer.tp) > before {
                advanced.push(answer.tp);
            }
        }
        // Consumers may read from this follower (KIP-392).
        advanced.iter().for_each(|tp| self.complete(tp, step));
    }

    fn high_watermark(&self, tp: &TopicPartition) -> Option<Offset> {
        self.partitions.get(tp).map(|partition| partition.log.high_watermark())
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
        let taken = error.is_ok()
            && match self.append_fetched(tp, data, step) {
                Ok(taken) => taken,
                Err(error) if error.is_of_the_bytes() => false,
                Err(_) => return self.stop_fetching(tp),
            };
        if !taken {
            self.rest(leader, tp, step);
        } else if data.records.as_ref().is_some_and(|records| !records.is_empty())
            && let Some(fetcher) = self.fetchers.get_mut(&leader)
        {
            fetcher.move_to_end(tp);
        }
    }

    /// A partition that met an error is asked for again after replica.fetch.backoff.ms (R-REPL-38).
    pub(super) fn rest(&mut self, leader: BrokerId, tp: &TopicPartition, step: &Step<'_>) {
        let until = step.now.plus_ms(self.config.replica_fetch_backoff_ms);
        if let Some(fetcher) = self.fetchers.get_mut(&leader) {
            fetcher.rest(tp, until);
        }
    }

    /// R-REPL-17: append first, then the high watermark, as far as the own log goes. Whether the log start could follow.
    ///
    /// R-REPL-38: bytes that are corrupt are asked for again. What does not fit this log never will: the partition is not
    /// fetched until it has a leader in another epoch (`AbstractFetcherThread.markPartitionFailed`).
    fn append_fetched(
        &mut self,
        tp: &TopicPartition,
        data: &PartitionData,
        step: &mut Step<'_>,
    ) -> Result<bool, AppendError> {
        let broker = self.me;
        let records = data.records.clone().unwrap_or_default();
        if !records.is_empty()
            && let Some(FollowerAppended { from, to }) = self.append_as_follower(tp, records, step.now)?
        {
            let log = self.partition(tp).map(|partition| partition.log.leader_epochs());
            let epochs = log.map_or_else(Vec::new, |epochs| epochs.between(from, to));
            step.fx.event(Event::Replicated { broker, tp: tp.clone(), from, to, epochs });
        }
        let Some(partition) = self.edit(tp) else { return Ok(false) };
        if let Some(from) = partition.log.update_high_watermark(Offset(data.high_watermark)) {
            let to = partition.log.high_watermark();
            step.fx.event(Event::HighWatermarkAdvanced { broker, tp: tp.clone(), leader: false, from, to });
            self.notice(Notice::HighWatermark { tp: tp.clone(), offset: to });
        }
        Ok(self.follow_log_start(tp, Offset(data.log_start_offset), step))
    }

    /// `None` if there is no such replica. A log that is empty begins below its start if the leader's log start, moved by
    /// DeleteRecords, lies within a batch (`Partition.appendRecordsToFollowerOrFutureReplica`).
    fn append_as_follower(
        &mut self,
        tp: &TopicPartition,
        records: Bytes,
        now: Time,
    ) -> Result<Option<FollowerAppended>, AppendError> {
        let Some(partition) = self.edit(tp) else { return Ok(None) };
        let (epoch, config) = (partition.leader_epoch, partition.config.clone());
        let log = &mut partition.log;
        let is_empty = log.log_start_offset() == log.log_end_offset();
        match log.append_as_follower(now, records.clone(), epoch, &config.log) {
            Err(AppendError::BelowLogEnd { first, last, log_end_offset })
                if is_empty && last >= log_end_offset =>
            {
                self.truncate_log_fully(tp, first, now);
                let Some(partition) = self.edit(tp) else { return Ok(None) };
                partition.log.append_as_follower(now, records, epoch, &config.log).map(Some)
            }
            appended => appended.map(Some),
        }
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
        let Some(log) = self.partitions.get(tp).map(|partition| &partition.log) else { return };
        let from = log.log_end_offset();
        let to = log.truncation_point(diverging, fetch_offset);
        self.truncate_log(tp, to, step.now);
        let reason = TruncationReason::DivergingEpoch { epoch: diverging.0, end_offset: diverging.1 };
        step.fx.event(Event::Truncated { broker, tp: tp.clone(), from, to, reason });
    }
}

fn wanted(partition: &Partition, max_bytes: i32) -> Wanted {
    let log = &partition.log;
    Wanted {
        fetch_offset: log.log_end_offset(),
        log_start_offset: log.log_start_offset(),
        max_bytes,
        current_leader_epoch: partition.leader_epoch,
        last_fetched_epoch: log.latest_epoch().unwrap_or(LeaderEpoch::NONE),
    }
}
