//! A follower that its leader's log does not reach: it asks where that log ends and begins, and goes there.
//!
//! Mirrors `AbstractFetcherThread.fetchOffsetAndTruncate` (R-REPL-37). The fetcher's other partitions wait meanwhile, as
//! they do in Kafka, where one thread does both.

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse, TopicName};

use super::list_offsets::{EARLIEST, LATEST};
use super::manager::{ReplicaManager, Step};
use super::partition::Role;
use crate::kafka::event::{Event, LogStartReason, TruncationReason};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};

/// What is asked of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    End,
    Start,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub tp: TopicPartition,
    pub leader_epoch: LeaderEpoch,
    pub bound: Bound,
}

impl ReplicaManager {
    /// The leader said OFFSET_OUT_OF_RANGE.
    pub(super) fn out_of_range(&mut self, leader: BrokerId, tp: &TopicPartition) {
        self.look_up(leader, tp, Bound::End);
    }

    fn look_up(&mut self, leader: BrokerId, tp: &TopicPartition, bound: Bound) {
        let Some(partition) = self.partitions.get(tp) else { return };
        let lookup = Lookup { tp: tp.clone(), leader_epoch: partition.leader_epoch, bound };
        if let Some(fetcher) = self.fetchers.get_mut(&leader) {
            fetcher.ask(lookup);
        }
    }

    /// The next question to a leader; the caller sends it.
    pub fn next_lookup(&mut self, leader: BrokerId) -> Option<(ListOffsetsRequest, Lookup)> {
        let lookup = self.fetchers.get_mut(&leader)?.next_question()?;
        let timestamp = match lookup.bound {
            Bound::End => LATEST,
            Bound::Start => EARLIEST,
        };
        let partition = ListOffsetsPartition::default()
            .with_partition_index(lookup.tp.partition)
            .with_current_leader_epoch(lookup.leader_epoch.0)
            .with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default()
            .with_name(TopicName(lookup.tp.topic.to_wire()))
            .with_partitions(vec![partition]);
        let request =
            ListOffsetsRequest::default().with_replica_id(self.me.0.into()).with_topics(vec![topic]);
        Some((request, lookup))
    }

    pub fn looked_up(
        &mut self,
        leader: BrokerId,
        lookup: &Lookup,
        response: &ListOffsetsResponse,
        step: &mut Step<'_>,
    ) {
        let tp = &lookup.tp;
        if let Some(fetcher) = self.fetchers.get_mut(&leader) {
            fetcher.answered();
        }
        let is_current = self.partitions.get(tp).is_some_and(|partition| {
            partition.role == Role::Follower { leader } && partition.leader_epoch == lookup.leader_epoch
        });
        if !is_current {
            return;
        }
        let answer = response.topics.iter().flat_map(|topic| &topic.partitions).next();
        // R-REPL-38: fenced in its newest epoch, it waits for the metadata that the leader has already.
        if answer.is_some_and(|it| ErrorCode::from_code(it.error_code) == ErrorCode::FencedLeaderEpoch) {
            return self.stop_fetching(tp);
        }
        let is_usable = |answer: &&ListOffsetsPartitionResponse| {
            ErrorCode::from_code(answer.error_code).is_ok() && answer.offset >= 0
        };
        let Some(answer) = answer.filter(is_usable) else {
            return self.rest(leader, tp, step);
        };
        match lookup.bound {
            Bound::End => self.meet_end(leader, tp, Offset(answer.offset), step),
            Bound::Start => self.meet_start(leader, tp, Offset(answer.offset), step),
        }
    }

    /// The replica is where it can be fetched again, after the others.
    fn found(&mut self, leader: BrokerId, tp: &TopicPartition) {
        if let Some(fetcher) = self.fetchers.get_mut(&leader) {
            fetcher.move_to_end(tp);
        }
    }

    /// A leader that has less was elected uncleanly: what it does not have goes.
    fn meet_end(&mut self, leader: BrokerId, tp: &TopicPartition, to: Offset, step: &mut Step<'_>) {
        let broker = self.me;
        let Some(from) = self.partitions.get(tp).map(|partition| partition.log.log_end_offset()) else {
            return;
        };
        if to >= from {
            return self.look_up(leader, tp, Bound::Start);
        }
        self.truncate_log(tp, to, step.now);
        self.found(leader, tp);
        let (tp, reason) = (tp.clone(), TruncationReason::OutOfRange);
        step.fx.event(Event::Truncated { broker, tp, from, to, reason });
    }

    /// A leader that has nothing of what this replica has next: everything goes, and its log begins where the leader's
    /// does.
    fn meet_start(&mut self, leader: BrokerId, tp: &TopicPartition, to: Offset, step: &mut Step<'_>) {
        self.found(leader, tp);
        let broker = self.me;
        let Some(log) = self.partitions.get(tp).map(|partition| &partition.log) else { return };
        if to <= log.log_end_offset() {
            return;
        }
        let from = log.log_start_offset();
        self.truncate_log_fully(tp, to, step.now);
        let (tp, reason) = (tp.clone(), LogStartReason::Leader);
        step.fx.event(Event::LogStartMoved { broker, tp, leader: false, from, to, reason });
    }
}
