//! The group coordinator's ground: its partitions of `__consumer_offsets`, its writes and its timers.
//!
//! Mirrors `CoordinatorRuntime` and `CoordinatorLoader` (R-GRP-3, 4).

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::messages::TxnOffsetCommitRequest;

use super::add_partitions::Question;
use super::admin::OFFSETS_TOPIC;
use super::process::Broker;
use super::produce::Waiter;
use super::timer::BrokerTimer;
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::group::modern::TopicIdPartition;
use crate::kafka::group::{At, GroupEffects, GroupTimer, LogRecord, RecordOf, StateAsk, coordinator_error};
use crate::kafka::log::{FirstBatch, VerificationGuard};
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::record::{Batch, BatchBuilder, BatchParameters, NO_SEQUENCE, NewRecord, Record};
use crate::kafka::time::Time;
use crate::kafka::transaction::{ProducerIdAndEpoch, TransactionVersion};
use crate::kafka::types::{
    ClientName, GroupId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Topic, TopicId, TopicPartition,
    TransactionalId,
};

fn offsets_partition(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new(OFFSETS_TOPIC), partition)
}

pub(super) fn is_offsets(tp: &TopicPartition) -> bool {
    tp.topic.as_str() == OFFSETS_TOPIC
}

/// A TxnOffsetCommit whose partition is being added to its transaction.
#[derive(Clone, Debug)]
pub(super) struct TransactionalOffsets {
    id: RequestId,
    client: ClientName,
    request: Rc<Request>,
}

impl TransactionalOffsets {
    fn body(&self) -> &TxnOffsetCommitRequest {
        match &*self.request {
            Request::TxnOffsetCommit(body) => body,
            _ => unreachable!("it is a TxnOffsetCommit"),
        }
    }
}

impl Broker {
    /// When a coordinator has read back its partition from the page cache: after a moment, and a millisecond more for each
    /// thousand records.
    pub(super) fn loaded_at(&self, now: Time, tp: &TopicPartition) -> Time {
        let log = self.replicas.partition(tp).map(|partition| &partition.log);
        let records = log.map_or(0, |log| log.log_end_offset() - log.log_start_offset());
        now.plus_ms(5 + records / 1000)
    }

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
            fx.set_timer(BrokerTimer::OffsetsLoaded(tp.partition), self.loaded_at(now, tp));
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
        let start = log.log_start_offset();
        let records: Vec<LogRecord> = log.batches_from(start).flat_map(log_records).collect();
        let records = records.into_iter().filter(|record| record.offset >= start);
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
            let parameters = append.writer.map(|writer| BatchParameters {
                producer_id: writer.producer_id,
                producer_epoch: writer.producer_epoch,
                transactional: true,
                ..BatchParameters::default()
            });
            let batch = batch_with(parameters.unwrap_or_default(), &append.records, now);
            let (tp, guard) = (offsets_partition(append.partition), append.writer.and_then(|w| w.guard));
            let written = self.with_replicas(now, fx, |replicas, step| {
                replicas.append_in_transaction(&tp, batch, guard, step)
            });
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

    /// TxnOffsetCommit: the group's partition is added to the transaction first, or looked for in it (R-TXN-11).
    pub(super) fn on_txn_offset_commit(
        &mut self,
        now: Time,
        id: RequestId,
        client: &ClientName,
        request: &Rc<Request>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let commit = TransactionalOffsets { id, client: client.clone(), request: request.clone() };
        let body = commit.body();
        let tp = offsets_partition(self.groups.partition_for(&GroupId::new(&body.group_id)));
        let producer = ProducerIdAndEpoch {
            id: ProducerId(body.producer_id.0),
            epoch: ProducerEpoch(body.producer_epoch),
        };
        let raises_epochs = TransactionVersion::of_offset_commit(id.version).raises_epochs();
        if !raises_epochs && !self.config.transactions.partition_verification_enable {
            return self.on_offsets_added(now, &commit, Ok(None), fx);
        }
        let batch = FirstBatch { epoch: producer.epoch, base_sequence: NO_SEQUENCE, raises_epochs };
        let begun = self.with_replicas(now, fx, |replicas, step| {
            replicas.begin_verification(&tp, producer.id, batch, step)
        });
        match begun {
            Err(error) => self.on_offsets_added(now, &commit, Err(error), fx),
            Ok(None) => self.on_offsets_added(now, &commit, Ok(None), fx),
            Ok(Some(guard)) => {
                let transaction = TransactionalId::new(&body.transactional_id);
                let waiter = Waiter::Offsets(Box::new(commit), guard);
                let partitions = [tp].into();
                let verify_only = !raises_epochs;
                self.ask_to_add(
                    now,
                    Question { id: transaction, producer, partitions, verify_only, waiter },
                    fx,
                );
            }
        }
    }

    /// The transaction's coordinator knows of the group's partition, or does not want it.
    pub(super) fn on_offsets_added(
        &mut self,
        now: Time,
        commit: &TransactionalOffsets,
        added: Result<Option<VerificationGuard>, ErrorCode>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let image = self.image.clone();
        let topics = |tp: &TopicPartition| {
            image.partition(tp)?;
            image.topic(&tp.topic).map(|topic| topic.id)
        };
        let mut group_fx = GroupEffects::default();
        let at = At { now, image: &image };
        let (asker, body) = ((commit.id, &commit.client), commit.body());
        match added {
            Ok(guard) => {
                self.groups.commit_in_transaction(at, asker, body, guard, &topics, &mut group_fx);
            }
            Err(error) => {
                let error = coordinator_error(error);
                self.groups.refuse_in_transaction(commit.id, body, &topics, error, &mut group_fx);
            }
        }
        self.carry_out(now, group_fx, fx);
    }

    /// A marker was appended to a partition of `__consumer_offsets`.
    pub(super) fn on_offsets_marker(
        &mut self,
        now: Time,
        partition: i32,
        marker: (ProducerId, bool),
        offset: Offset,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let mut group_fx = GroupEffects::default();
        self.groups.on_marker(At { now, image: &self.image }, partition, marker, offset, &mut group_fx);
        self.carry_out(now, group_fx, fx);
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
    batch_with(BatchParameters::default(), records, now)
}

fn batch_with(parameters: BatchParameters, records: &[CoordinatorRecord], now: Time) -> Bytes {
    let mut builder = BatchBuilder::with(parameters);
    for record in records {
        builder.append(&NewRecord {
            timestamp_ms: now.wall_ms(),
            key: Some(&record.key),
            value: record.value.as_deref(),
            headers: &[],
        });
    }
    builder.build().into_bytes()
}

/// The records of a batch as the coordinator reads them back.
fn log_records(batch: &Batch) -> Vec<LogRecord> {
    const CHECKED: &str = "a replica holds only batches that were checked";
    let producer = batch.producer_id();
    if batch.is_control() {
        let marker = batch.end_transaction_marker().expect(CHECKED);
        let marker = marker.map(|marker| LogRecord {
            offset: batch.base_offset(),
            of: RecordOf::Marker { producer, committed: marker.committed },
            key: Bytes::new(),
            value: None,
        });
        return marker.into_iter().collect();
    }
    let of = match batch.is_transactional() {
        true => RecordOf::Transaction(producer),
        false => RecordOf::NoTransaction,
    };
    let record = |record: Record| LogRecord {
        offset: record.offset,
        of,
        key: record.key.unwrap_or_default(),
        value: record.value,
    };
    batch.records().expect(CHECKED).into_iter().map(record).collect()
}
