//! The group coordinator's ground: its partitions of `__consumer_offsets`, its writes and its timers.
//!
//! Mirrors `CoordinatorRuntime` and `CoordinatorLoader` (R-GRP-3, 4).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::admin::OFFSETS_TOPIC;
use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::group::modern::TopicIdPartition;
use crate::kafka::group::{At, GroupEffects, GroupTimer, LogRecord, StateAsk};
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::record::{BatchBuilder, NewRecord};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, LeaderEpoch, Offset, Topic, TopicId, TopicPartition};

/// A replay from the page cache: a moment, and a millisecond more for each thousand records.
pub(super) fn load_time_ms(records: i64) -> i64 {
    5 + records / 1000
}

fn offsets_partition(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new(OFFSETS_TOPIC), partition)
}

fn is_offsets(tp: &TopicPartition) -> bool {
    tp.topic.as_str() == OFFSETS_TOPIC
}

impl Broker {
    pub(super) fn on_group_request(
        &mut self,
        now: Time,
        id: RequestId,
        client: &ClientName,
        request: &Request,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let image = self.image.clone();
        let topics = |tp: &TopicPartition| {
            image.partition(tp)?;
            image.topic(&tp.topic).map(|topic| topic.id)
        };
        let mut group_fx = GroupEffects::default();
        self.groups.handle(At { now, image: &image }, id, client, request, &topics, &mut group_fx);
        self.carry_out(now, group_fx, fx);
    }

    pub(super) fn on_group_timer(&mut self, now: Time, timer: &GroupTimer, fx: &mut Effects<BrokerTimer>) {
        let mut group_fx = GroupEffects::default();
        self.groups.on_timer(At { now, image: &self.image }, timer, &mut group_fx);
        self.carry_out(now, group_fx, fx);
    }

    pub(super) fn on_offsets_elected(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        leader_epoch: LeaderEpoch,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !is_offsets(tp) {
            return;
        }
        let mut group_fx = GroupEffects::default();
        let loads = self.groups.on_elected(tp.partition, leader_epoch, &mut group_fx);
        self.carry_out(now, group_fx, fx);
        if loads {
            let records = self
                .replicas
                .partition(tp)
                .map_or(0, |partition| partition.log.log_end_offset() - partition.log.log_start_offset());
            fx.set_timer(BrokerTimer::OffsetsLoaded(tp.partition), now.plus_ms(load_time_ms(records)));
        }
    }

    pub(super) fn on_offsets_resigned(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !is_offsets(tp) {
            return;
        }
        fx.cancel_timer(BrokerTimer::OffsetsLoaded(tp.partition));
        let mut group_fx = GroupEffects::default();
        self.groups.on_resigned(At { now, image: &self.image }, tp.partition, &mut group_fx);
        self.carry_out(now, group_fx, fx);
    }

    pub(super) fn on_offsets_committed(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        high_watermark: Offset,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !is_offsets(tp) {
            return;
        }
        let mut group_fx = GroupEffects::default();
        self.groups.on_high_watermark(
            At { now, image: &self.image },
            tp.partition,
            high_watermark,
            &mut group_fx,
        );
        self.carry_out(now, group_fx, fx);
    }

    pub(super) fn on_topics_deleted(
        &mut self,
        now: Time,
        deleted: &BTreeMap<TopicId, Topic>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut group_fx = GroupEffects::default();
        self.groups.on_topics_deleted(At { now, image: &self.image }, deleted, &mut group_fx);
        self.carry_out(now, group_fx, fx);
        self.forget_share_states(now, |id| deleted.contains_key(&id), fx);
    }

    /// The replay ends: everything in the log is known to the coordinator now.
    pub(super) fn finish_loading(&mut self, now: Time, partition: i32, fx: &mut Effects<BrokerTimer>) {
        let Some(replica) = self.replicas.partition(&offsets_partition(partition)) else { return };
        let log = &replica.log;
        let records = log.records_between(log.log_start_offset(), log.log_end_offset());
        let records = records.expect("a replica holds only batches that were checked");
        let records = records.into_iter().map(|record| LogRecord {
            offset: record.offset,
            key: record.key.unwrap_or_default(),
            value: record.value,
        });
        let (log_end, high_watermark) = (log.log_end_offset(), log.high_watermark());
        let mut group_fx = GroupEffects::default();
        let loaded = self.groups.on_loaded(
            At { now, image: &self.image },
            partition,
            records,
            log_end,
            high_watermark,
            &mut group_fx,
        );
        loaded.expect("the log of the coordinator holds what a coordinator wrote");
        self.carry_out(now, group_fx, fx);
    }

    /// Carries out what the coordinator asked for: its effects, then its writes, each with what follows from it.
    fn carry_out(&mut self, now: Time, group_fx: GroupEffects, fx: &mut Effects<BrokerTimer>) {
        fx.absorb(group_fx.effects);
        for append in group_fx.appends {
            let batch = batch_of(&append.records, now);
            let tp = offsets_partition(append.partition);
            let written = self
                .with_replicas(now, fx, |replicas, step| replicas.append_as_coordinator(&tp, batch, step));
            let mut follow_up = GroupEffects::default();
            let (partition, token) = (append.partition, append.token);
            let at = At { now, image: &self.image };
            match written {
                Ok(last_offset) => self.groups.on_appended(at, partition, token, last_offset, &mut follow_up),
                Err(error) => self.groups.on_append_failed(at, partition, token, error, &mut follow_up),
            }
            self.carry_out(now, follow_up, fx);
        }
        if !group_fx.states.is_empty() {
            group_fx.states.into_iter().for_each(|ask| self.persister.ask(now, ask));
            // The answer to the request does not wait for it.
            fx.set_timer(BrokerTimer::Persist, now);
        }
    }

    /// The share coordinators have done what the group coordinator asked of them, or could not.
    pub(super) fn on_states(
        &mut self,
        now: Time,
        ask: &StateAsk,
        errors: &BTreeMap<TopicIdPartition, ErrorCode>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut group_fx = GroupEffects::default();
        self.groups.on_states(At { now, image: &self.image }, ask, errors, &mut group_fx);
        self.carry_out(now, group_fx, fx);
    }
}

/// What a coordinator writes, as one batch.
pub(super) fn batch_of(records: &[CoordinatorRecord], now: Time) -> Bytes {
    let mut builder = BatchBuilder::new();
    for record in records {
        builder.append(&NewRecord {
            timestamp_ms: now.wall_ms(),
            key: Some(&record.key),
            value: record.value.as_deref(),
            headers: &[],
        });
    }
    builder.finish(None).into_bytes()
}
