//! Where a newly owned partition starts: its committed offset, else the log's start or end (Kafka's `OffsetFetcher`;
//! R-CONS-11 to R-CONS-14).
//!
//! **Invariant:** an answer sets a position only where none is known; one that is out of date changes nothing.

use std::collections::BTreeMap;

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    BrokerId as WireBrokerId, ListOffsetsRequest, ListOffsetsResponse, OffsetFetchRequest,
    OffsetFetchResponse, TopicName,
};

use super::config::{IsolationLevel, OffsetReset};
use super::owned::{FetchState, Position};
use super::requests::Call;
use super::{Activity, Consumer, ConsumerTimer, Exception, Progress};
use crate::client::metadata;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, PositionSource};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, Generation, LeaderEpoch, Offset, Topic, TopicPartition};

/// The OffsetFetch for partitions without a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedLookup {
    in_flight: bool,
    retry_at: Time,
    failures: i32,
    /// Tells the answer that is waited for from those to earlier assignments.
    attempt: i32,
}

impl CommittedLookup {
    pub(super) fn new() -> CommittedLookup {
        CommittedLookup { in_flight: false, retry_at: Time::ZERO, failures: 0, attempt: 0 }
    }

    /// The assignment is a new one.
    pub(super) fn restart(&mut self) {
        *self = CommittedLookup { attempt: self.attempt, ..CommittedLookup::new() };
    }

    pub fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    pub fn retry_at(&self) -> Time {
        self.retry_at
    }
}

/// The replica id of requests that are a consumer's.
pub(super) const CONSUMER: WireBrokerId = WireBrokerId(-1);

impl Consumer {
    /// Gives each owned partition a position, or asks for one. Committed offsets block poll(), the newer consumer's only its
    /// fetches; resets do neither.
    pub(super) fn update_positions(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> Progress {
        self.validate_positions(now, fx);
        let initializing = self.subscription.initializing();
        if !self.spec.has_group() {
            // Nothing is committed without a group.
            self.reset_initial(&initializing);
        } else if !initializing.is_empty() {
            self.look_up_committed(now, &initializing, fx);
            return if self.config.is_modern { Progress::Locating } else { Progress::Blocked };
        }
        self.send_resets(now, fx);
        Progress::Ready
    }

    /// The newer consumer's poll() may have returned before the committed offsets were known: the background thread sends
    /// the fetches that waited for them (R-CONS-35).
    pub(super) fn fetch_what_was_located(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let works =
            matches!(self.program.activity, Activity::Processing { .. } | Activity::Committing { .. });
        if works && self.is_locating && self.subscription.initializing().is_empty() {
            self.is_locating = false;
            self.send_resets(now, fx);
            self.send_fetches(now, fx);
        }
    }

    fn look_up_committed(
        &mut self,
        now: Time,
        initializing: &[TopicPartition],
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let is_known = self.membership.coordinator().is_some();
        if is_known && !self.committed_lookup.in_flight && self.committed_lookup.retry_at <= now {
            self.send_offset_fetch(now, initializing, fx);
        }
    }

    fn send_offset_fetch(
        &mut self,
        now: Time,
        partitions: &[TopicPartition],
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let topics = by_topic(partitions.iter().map(|tp| (tp, tp.partition)));
        let topic = |(topic, indexes): (&Topic, Vec<i32>)| {
            OffsetFetchRequestTopics::default()
                .with_name(TopicName(topic.to_wire()))
                .with_partition_indexes(indexes)
        };
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(self.group_id())
            .with_topics(Some(topics.into_iter().map(topic).collect()));
        let identity = &self.membership.identity;
        let group = match self.config.is_modern && identity.generation != Generation::NONE {
            true => {
                group.with_member_id(Some(identity.member.to_wire())).with_member_epoch(identity.generation.0)
            }
            false => group,
        };
        let request = OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(true);
        self.committed_lookup.in_flight = true;
        self.committed_lookup.attempt += 1;
        let call = Call::OffsetFetch { attempt: self.committed_lookup.attempt };
        self.send_to_coordinator(now, request, call, fx);
    }

    pub(super) fn on_offset_fetch(
        &mut self,
        now: Time,
        attempt: i32,
        answer: &OffsetFetchResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if attempt != self.committed_lookup.attempt || !self.committed_lookup.in_flight {
            return;
        }
        let Some(group) = answer.groups.first() else { return self.offset_fetch_failed(now, attempt) };
        let partitions =
            || group.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)));
        let group_error = Some(group.error_code).filter(|code| *code != 0);
        let error = group_error.or_else(|| partitions().map(|(_, p)| p.error_code).find(|code| *code != 0));
        match error.map(ErrorCode::from_code) {
            None => {
                self.committed_lookup.restart();
                let mut without = Vec::new();
                for (topic, partition) in partitions() {
                    let tp = TopicPartition::new(&Topic::new(&topic.name), partition.partition_index);
                    let position = Position {
                        offset: Offset(partition.committed_offset),
                        epoch: LeaderEpoch(partition.committed_leader_epoch),
                    };
                    if !self.take_committed(&tp, position, fx) {
                        without.push(tp);
                    }
                }
                self.reset_initial(&without);
            }
            Some(error @ (ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable)) => {
                self.offset_fetch_failed(now, attempt);
                self.mark_coordinator_unknown(now, error, fx);
            }
            // The next heartbeat's answer has the epoch that counts.
            Some(ErrorCode::StaleMemberEpoch) if self.membership.identity.generation != Generation::NONE => {
                self.offset_fetch_failed(now, attempt);
            }
            Some(error) if error.is_retriable() && error != ErrorCode::UnknownTopicOrPartition => {
                self.offset_fetch_failed(now, attempt);
            }
            Some(error) => self.fail(error),
        }
    }

    /// The OffsetFetch is to be sent again after a back-off.
    pub(super) fn offset_fetch_failed(&mut self, now: Time, attempt: i32) {
        let lookup = &mut self.committed_lookup;
        if attempt == lookup.attempt && lookup.in_flight {
            let wait_ms = self.config.common.retry_backoff.after(lookup.failures, &mut self.random);
            lookup.in_flight = false;
            lookup.failures += 1;
            lookup.retry_at = now.plus_ms(wait_ms);
        }
    }

    /// The committed offset is the position, if there is one and a position is wanted. Says whether that is settled.
    fn take_committed(
        &mut self,
        tp: &TopicPartition,
        committed: Position,
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        let state = self.subscription.owned().get(tp).map(|owned| owned.state);
        if state != Some(FetchState::Initializing) {
            return true;
        }
        if committed.offset < Offset::ZERO {
            return false;
        }
        self.subscription.edit(tp, |owned| owned.committed = Some(committed.offset));
        self.metadata.saw_leader_epoch(tp, committed.epoch);
        self.set_position(tp, committed, PositionSource::Committed, fx);
        true
    }

    /// Without committed offsets the reset strategy decides, or poll() throws (R-CONS-11).
    fn reset_initial(&mut self, partitions: &[TopicPartition]) {
        if let Some(strategy) = self.config.auto_offset_reset {
            partitions.iter().for_each(|tp| self.subscription.reset(tp, strategy));
        } else if !partitions.is_empty() {
            self.will_throw(Exception::NoOffset(partitions.to_vec()));
        }
    }

    pub(super) fn set_position(
        &mut self,
        tp: &TopicPartition,
        position: Position,
        source: PositionSource,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let epoch_known = self.metadata.leader_epoch(tp).is_some();
        self.subscription.seek_unvalidated(tp, position, self.metadata.leader(tp), epoch_known);
        fx.event(Event::PositionSet {
            client: self.spec.name.clone(),
            tp: tp.clone(),
            offset: position.offset,
            source,
        });
    }

    /// Asks the leaders for the start or the end of logs.
    fn send_resets(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        type Resets = Vec<(TopicPartition, OffsetReset, LeaderEpoch)>;
        let mut by_leader: BTreeMap<BrokerId, Resets> = BTreeMap::new();
        for (tp, strategy) in self.subscription.to_reset(now) {
            match self.metadata.leader(&tp) {
                None => self.metadata.request_update(),
                Some((leader, _)) if self.requests.is_unavailable(now, metadata::main_peer(leader)) => {}
                Some((leader, epoch)) => by_leader.entry(leader).or_default().push((tp, strategy, epoch)),
            }
        }
        let timeout_ms = self.config.common.request_timeout_ms;
        for (leader, resets) in by_leader {
            let request = list_offsets(&resets, now, self.config.isolation, timeout_ms);
            for (tp, _, _) in &resets {
                self.subscription.set_reset_retry(tp, now.plus_ms(timeout_ms));
            }
            let call =
                Call::ListOffsets(resets.into_iter().map(|(tp, strategy, _)| (tp, strategy)).collect());
            self.requests.send(now, metadata::main_peer(leader), request, call, timeout_ms, fx);
        }
    }

    pub(super) fn on_list_offsets(
        &mut self,
        now: Time,
        asked: &[(TopicPartition, OffsetReset)],
        answer: &ListOffsetsResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        for topic in &answer.topics {
            let name = Topic::new(&topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&name, partition.partition_index);
                let Some((_, strategy)) = asked.iter().find(|(other, _)| *other == tp) else { continue };
                if ErrorCode::from_code(partition.error_code).is_ok() {
                    let epoch = LeaderEpoch(partition.leader_epoch);
                    self.take_reset(&tp, *strategy, Offset(partition.offset), epoch, fx);
                } else {
                    self.reset_failed(now, &tp);
                }
            }
        }
    }

    fn take_reset(
        &mut self,
        tp: &TopicPartition,
        asked: OffsetReset,
        offset: Offset,
        epoch: LeaderEpoch,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let state = self.subscription.owned().get(tp).map(|owned| owned.state);
        let waits = matches!(state, Some(FetchState::AwaitReset { strategy, .. }) if strategy == asked);
        if !waits || offset < Offset::ZERO {
            return;
        }
        self.metadata.saw_leader_epoch(tp, epoch);
        let source = match asked {
            OffsetReset::Earliest => PositionSource::Earliest,
            OffsetReset::Latest => PositionSource::Latest,
            OffsetReset::ByDuration { .. } => PositionSource::ByDuration,
        };
        self.set_position(tp, Position { offset, epoch: LeaderEpoch::NONE }, source, fx);
    }

    /// The start or end of this log is to be asked for again after a back-off.
    pub(super) fn reset_failed(&mut self, now: Time, tp: &TopicPartition) {
        self.subscription.set_reset_retry(tp, now.plus_ms(self.config.common.retry_backoff.initial_ms));
        self.metadata.request_update();
    }
}

/// Asks a leader for the start or the end of logs, or for the first record since a time.
pub(super) fn list_offsets(
    asked: &[(TopicPartition, OffsetReset, LeaderEpoch)],
    now: Time,
    isolation: IsolationLevel,
    timeout_ms: i64,
) -> ListOffsetsRequest {
    let partition = |(tp, strategy, epoch): &(TopicPartition, OffsetReset, LeaderEpoch)| {
        ListOffsetsPartition::default()
            .with_partition_index(tp.partition)
            .with_current_leader_epoch(epoch.0)
            .with_timestamp(strategy.timestamp(now))
    };
    let topics = by_topic(asked.iter().map(|asked| (&asked.0, partition(asked))));
    let topic = |(topic, partitions): (&Topic, Vec<ListOffsetsPartition>)| {
        ListOffsetsTopic::default().with_name(TopicName(topic.to_wire())).with_partitions(partitions)
    };
    ListOffsetsRequest::default()
        .with_replica_id(CONSUMER)
        .with_isolation_level(isolation.id())
        .with_topics(topics.into_iter().map(topic).collect())
        .with_timeout_ms(i32::try_from(timeout_ms).unwrap_or(i32::MAX))
}

pub(super) fn by_topic<'a, T>(
    partitions: impl IntoIterator<Item = (&'a TopicPartition, T)>,
) -> BTreeMap<&'a Topic, Vec<T>> {
    let mut topics: BTreeMap<&Topic, Vec<T>> = BTreeMap::new();
    for (tp, value) in partitions {
        topics.entry(&tp.topic).or_default().push(value);
    }
    topics
}
