//! The transaction coordinator's ground: its partitions of `__transaction_state`, its writes, its timers, and the
//! requests of producers.
//!
//! Mirrors `TransactionStateManager` with its scheduler, and the handlers of `KafkaApis` (R-TXN-1, R-TXN-3, R-TXN-28).

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTransaction;
use kafka_protocol::messages::add_partitions_to_txn_response::AddPartitionsToTxnResult;
use kafka_protocol::messages::create_topics_request::CreatableTopic;

use super::add_partitions::AddPartitions;
use super::admin::{OFFSETS_TOPIC, automatic_topic, topic_config};
use super::groups::batch_of;
use super::process::Broker;
use super::produce::TransactionalProduce;
use super::timer::BrokerTimer;
use crate::kafka::config::BrokerConfig;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::group::partition_for;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::time::Time;
use crate::kafka::transaction::wire;
use crate::kafka::transaction::{
    Add, Answer, Around, Asker, Destination, ProducerIdAndEpoch, TransactionConfig, TransactionCoordinator,
    TransactionEffects, TransactionTimer, TransactionVersion,
};
use crate::kafka::types::{
    BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Topic, TopicPartition, TransactionalId,
};

pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";

fn state_partition(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new(TRANSACTION_STATE_TOPIC), partition)
}

fn is_state(tp: &TopicPartition) -> bool {
    tp.topic.as_str() == TRANSACTION_STATE_TOPIC
}

/// What a broker has of transactions.
#[derive(Clone, Debug)]
pub struct Transactions {
    pub(super) coordinator: TransactionCoordinator,
    /// AddPartitionsToTxn requests of which not all transactions are answered.
    adds: BTreeMap<RequestId, Vec<(AddPartitionsToTxnTransaction, Option<AddPartitionsToTxnResult>)>>,
    pub(super) add_partitions: AddPartitions,
    /// When the process started, from which its periods count.
    started: Time,
    /// Writes that wait for the end of their producer's last transaction.
    postponed: BTreeMap<u64, TransactionalProduce>,
    numbers: u64,
    /// The sender of markers wakes by the clock.
    marker_timer: bool,
}

impl Transactions {
    pub(super) fn new(broker: BrokerId, config: &BrokerConfig) -> Transactions {
        let settings = &config.transactions;
        Transactions {
            coordinator: TransactionCoordinator::new(TransactionConfig {
                broker,
                // What the metadata log says comes with each step.
                version: TransactionVersion::V0,
                max_timeout_ms: settings.max_timeout_ms,
                transactional_id_expiration_ms: settings.transactional_id_expiration_ms,
                state_log_num_partitions: settings.state_log_num_partitions,
                two_phase_commit_enable: false,
                request_timeout_ms: config.request_timeout_ms,
            }),
            adds: BTreeMap::new(),
            add_partitions: AddPartitions::default(),
            started: Time::ZERO,
            postponed: BTreeMap::new(),
            numbers: 0,
            marker_timer: false,
        }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.started = now;
    }

    /// Keeps a write under a number that is its own.
    pub(super) fn postpone(&mut self, produce: TransactionalProduce) -> u64 {
        self.numbers += 1;
        self.postponed.insert(self.numbers, produce);
        self.numbers
    }

    pub(super) fn take_postponed(&mut self, number: u64) -> Option<TransactionalProduce> {
        self.postponed.remove(&number)
    }

    /// Whether the timer is to be set now.
    pub(super) fn arm_marker_timer(&mut self) -> bool {
        !std::mem::replace(&mut self.marker_timer, true)
    }

    pub(super) fn disarm_marker_timer(&mut self) {
        self.marker_timer = false;
    }
}

/// Where the leader of a partition is, for a marker.
fn destination(image: &ClusterImage, tp: &TopicPartition) -> Destination {
    match image.partition(tp) {
        None => Destination::Gone,
        Some(partition) if image.brokers.contains_key(&partition.leader) => {
            Destination::Broker(partition.leader)
        }
        Some(_) => Destination::Unknown,
    }
}

impl Broker {
    /// Section 10: how `__transaction_state` is created (`transactionTopicConfigs`).
    pub(super) fn transaction_state_topic(&self) -> CreatableTopic {
        let config = &self.config.transactions;
        automatic_topic(&TRANSACTION_STATE_TOPIC.into())
            .with_num_partitions(config.state_log_num_partitions)
            .with_replication_factor(config.state_log_replication_factor)
            .with_configs(vec![
                topic_config("cleanup.policy", "compact".to_string()),
                topic_config("compression.type", "uncompressed".to_string()),
                topic_config("min.insync.replicas", config.state_log_min_isr.to_string()),
                topic_config("segment.bytes", config.state_log_segment_bytes.to_string()),
                topic_config("unclean.leader.election.enable", "false".to_string()),
            ])
    }

    /// Who coordinates an id. `__transaction_state` is created when it is first asked for (R-TXN-1).
    pub(super) fn transaction_coordinator(
        &mut self,
        now: Time,
        id: &str,
        fx: &mut Effects<BrokerTimer>,
    ) -> Result<BrokerId, ErrorCode> {
        let tp = state_partition(self.transactions.coordinator.partition_for(&TransactionalId::new(id)));
        self.coordinator_at(now, &tp, Broker::transaction_state_topic, fx)
    }

    pub(super) fn leader_of_transactions(&self, id: &TransactionalId) -> Result<BrokerId, ErrorCode> {
        self.leader_of_coordinator(&state_partition(self.transactions.coordinator.partition_for(id)))
    }

    // Requests.

    /// InitProducerId: with a transactional id it is the coordinator's.
    pub(super) fn on_init_producer_id(
        &mut self,
        now: Time,
        id: RequestId,
        request: &m::InitProducerIdRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        match wire::init_of(request) {
            Err(error) => fx.respond(id, wire::init_response(Err(error))),
            Ok(None) => {
                let response = self.init_producer_id(now, fx);
                fx.respond(id, response);
            }
            Ok(Some(init)) => self.at_transactions(now, fx, |coordinator, around, part| {
                coordinator.init(around, Asker { id, index: 0 }, &init, part);
            }),
        }
    }

    pub(super) fn on_end_txn(
        &mut self,
        now: Time,
        id: RequestId,
        request: &m::EndTxnRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let end = wire::end_of(request, id.version);
        self.at_transactions(now, fx, |coordinator, around, part| {
            coordinator.end(around, Asker { id, index: 0 }, &end, part);
        });
    }

    /// AddOffsetsToTxn: the group's partition is one like any other. Only clients before transaction version 2 ask so.
    pub(super) fn on_add_offsets(
        &mut self,
        now: Time,
        id: RequestId,
        request: &m::AddOffsetsToTxnRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let partition = partition_for(&request.group_id, self.config.offsets_topic_num_partitions);
        let add = Add {
            id: TransactionalId::new(&request.transactional_id),
            producer: ProducerIdAndEpoch {
                id: ProducerId(request.producer_id.0),
                epoch: ProducerEpoch(request.producer_epoch),
            },
            partitions: [TopicPartition::new(&Topic::new(OFFSETS_TOPIC), partition)].into(),
            client_version: TransactionVersion::V0,
        };
        self.at_transactions(now, fx, |coordinator, around, part| {
            coordinator.add(around, Asker { id, index: 0 }, &add, part);
        });
    }

    /// AddPartitionsToTxn: of another broker, for several transactions at once, or of a client before transaction version 2,
    /// for its own (R-TXN-11).
    pub(super) fn on_add_partitions(
        &mut self,
        now: Time,
        id: RequestId,
        request: &m::AddPartitionsToTxnRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let transactions = wire::transactions_of(request, id.version);
        if transactions.is_empty() {
            return fx.respond(id, m::AddPartitionsToTxnResponse::default());
        }
        let open = transactions.iter().map(|transaction| (transaction.clone(), None));
        self.transactions.adds.insert(id, open.collect());
        for (transaction, index) in transactions.iter().zip(0..) {
            self.add_to_transaction(now, Asker { id, index }, transaction, fx);
        }
    }

    fn add_to_transaction(
        &mut self,
        now: Time,
        asker: Asker,
        transaction: &AddPartitionsToTxnTransaction,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let partitions = wire::partitions_of(transaction);
        if let Some(errors) = wire::missing(&partitions, |tp| self.image.partition(tp).is_some()) {
            return self.added(asker, &errors, fx);
        }
        let id = TransactionalId::new(&transaction.transactional_id);
        let producer = ProducerIdAndEpoch {
            id: ProducerId(transaction.producer_id.0),
            epoch: ProducerEpoch(transaction.producer_epoch),
        };
        if transaction.verify_only {
            let errors = self.transactions.coordinator.verify(&id, producer, &partitions);
            return self.added(asker, &errors, fx);
        }
        let client_version = TransactionVersion::of_add_request(asker.id.version);
        let add = Add { id, producer, partitions, client_version };
        self.at_transactions(now, fx, |coordinator, around, part| {
            coordinator.add(around, asker, &add, part);
        });
    }

    /// One transaction of an AddPartitionsToTxn is answered; the last one answers the request.
    fn added(
        &mut self,
        asker: Asker,
        errors: &BTreeMap<TopicPartition, ErrorCode>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Some(open) = self.transactions.adds.get_mut(&asker.id) else { return };
        let place = usize::try_from(asker.index).ok().and_then(|index| open.get_mut(index));
        let (transaction, result) = place.expect("it was asked");
        *result = Some(wire::add_result(&transaction.transactional_id, errors));
        if open.iter().any(|(_, result)| result.is_none()) {
            return;
        }
        let results = self.transactions.adds.remove(&asker.id).into_iter().flatten();
        let results = results.filter_map(|(_, result)| result).collect();
        fx.respond(asker.id, wire::add_response(results, asker.id.version));
    }

    fn answer_transaction(&mut self, asker: Asker, answer: Answer, fx: &mut Effects<BrokerTimer>) {
        match answer {
            Answer::Initialized(result) => fx.respond(asker.id, wire::init_response(result)),
            Answer::Ended(result) => fx.respond(asker.id, wire::end_response(result)),
            Answer::Added(error) => match self.transactions.adds.get(&asker.id) {
                Some(open) => {
                    let asked = usize::try_from(asker.index).ok().and_then(|index| open.get(index));
                    let (transaction, _) = asked.expect("it was asked");
                    let errors = wire::partitions_of(transaction).into_iter().map(|tp| (tp, error)).collect();
                    self.added(asker, &errors, fx);
                }
                None => {
                    let response = m::AddOffsetsToTxnResponse::default().with_error_code(error.code());
                    fx.respond(asker.id, response);
                }
            },
        }
    }

    // The log.

    pub(super) fn on_transactions_elected(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        leader_epoch: LeaderEpoch,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !is_state(tp) {
            return;
        }
        if self.transactions.coordinator.shards().next().is_none() {
            self.schedule_transaction_checks(now, fx);
        }
        self.transactions.coordinator.on_elected(tp.partition, leader_epoch);
        fx.set_timer(BrokerTimer::TransactionsLoaded(tp.partition), self.loaded_at(now, tp));
    }

    /// The checks are due at whole periods since the process started, and are left out while nothing is coordinated.
    fn schedule_transaction_checks(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let (settings, started) = (&self.config.transactions, self.transactions.started);
        let next = |interval_ms: i64| {
            let periods = now.ms_since(started) / interval_ms + 1;
            started.plus_ms(periods * interval_ms)
        };
        fx.set_timer(BrokerTimer::AbortTransactions, next(settings.abort_timed_out_interval_ms));
        fx.set_timer(BrokerTimer::ExpireTransactionalIds, next(settings.remove_expired_interval_ms));
    }

    pub(super) fn abort_timed_out_transactions(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let interval_ms = self.config.transactions.abort_timed_out_interval_ms;
        fx.set_timer(BrokerTimer::AbortTransactions, now.plus_ms(interval_ms));
        self.at_transactions(now, fx, |coordinator, around, part| coordinator.abort_timed_out(around, part));
    }

    pub(super) fn expire_transactional_ids(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let interval_ms = self.config.transactions.remove_expired_interval_ms;
        fx.set_timer(BrokerTimer::ExpireTransactionalIds, now.plus_ms(interval_ms));
        self.at_transactions(now, fx, |coordinator, around, part| coordinator.remove_expired(around, part));
    }

    pub(super) fn on_transactions_resigned(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !is_state(tp) {
            return;
        }
        fx.cancel_timer(BrokerTimer::TransactionsLoaded(tp.partition));
        self.at_transactions(now, fx, |coordinator, around, part| {
            coordinator.on_resigned(around, tp.partition, part);
        });
        if self.transactions.coordinator.shards().next().is_none() {
            fx.cancel_timer(BrokerTimer::AbortTransactions);
            fx.cancel_timer(BrokerTimer::ExpireTransactionalIds);
        }
    }

    pub(super) fn on_transactions_committed(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        high_watermark: Offset,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if is_state(tp) {
            self.at_transactions(now, fx, |coordinator, around, part| {
                coordinator.on_high_watermark(around, tp.partition, high_watermark, part);
            });
        }
    }

    /// The replay ends: everything in the log is known to the coordinator now.
    pub(super) fn finish_loading_transactions(
        &mut self,
        now: Time,
        partition: i32,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Some(replica) = self.replicas.partition(&state_partition(partition)) else { return };
        let log = &replica.log;
        let records = log.records_between(log.log_start_offset(), log.log_end_offset());
        let records = records.expect("a replica holds only batches that were checked");
        let records = records
            .into_iter()
            .map(|record| CoordinatorRecord { key: record.key.unwrap_or_default(), value: record.value });
        self.at_transactions(now, fx, |coordinator, around, part| {
            let loaded = coordinator.on_loaded(around, partition, records, part);
            loaded.expect("the log of the coordinator holds what a coordinator wrote");
        });
    }

    pub(super) fn on_transaction_timer(
        &mut self,
        now: Time,
        timer: &TransactionTimer,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_transactions(now, fx, |coordinator, around, part| coordinator.on_timer(around, timer, part));
    }

    /// Runs one of the coordinator's steps and carries out what it asked for: its effects, its answers, then its writes,
    /// each with what follows from it.
    pub(super) fn at_transactions(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
        run: impl FnOnce(&mut TransactionCoordinator, Around<'_>, &mut TransactionEffects),
    ) {
        let mut part = TransactionEffects::default();
        let (image, ids) = (&self.image, &mut self.producer_ids);
        self.transactions.coordinator.set_version(image.transaction_version());
        let mut wanted = false;
        let mut new_id = || {
            wanted = true;
            ids.take().ok_or(ErrorCode::CoordinatorLoadInProgress)
        };
        let leader_of = |tp: &TopicPartition| destination(image, tp);
        let around = Around { now, new_id: &mut new_id, leader_of: &leader_of };
        run(&mut self.transactions.coordinator, around, &mut part);
        if wanted {
            self.refill_producer_ids(now, fx);
        }
        self.carry_out_for_transactions(now, part, fx);
    }

    fn carry_out_for_transactions(
        &mut self,
        now: Time,
        part: TransactionEffects,
        fx: &mut Effects<BrokerTimer>,
    ) {
        fx.absorb(part.effects);
        for (asker, answer) in part.answers {
            self.answer_transaction(asker, answer, fx);
        }
        for append in part.appends {
            let place = (append.partition, append.token);
            let (tp, batch) = (state_partition(append.partition), batch_of(&append.records, now));
            let written = self
                .with_replicas(now, fx, |replicas, step| replicas.append_as_coordinator(&tp, batch, step));
            match written {
                Ok(last_offset) => self.transactions.coordinator.on_appended(place.0, place.1, last_offset),
                Err(error) => self.at_transactions(now, fx, |coordinator, around, part| {
                    coordinator.on_append_failed(around, place, error, part);
                }),
            }
        }
    }

    /// Partitions of t that are in a transaction's way are told by their leaders' logs (`activeProducerState`).
    pub(super) fn describe_producers(
        &self,
        request: &m::DescribeProducersRequest,
    ) -> m::DescribeProducersResponse {
        use m::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
        let mut response = m::DescribeProducersResponse::default();
        for topic in &request.topics {
            let name = Topic::new(&topic.name);
            let known =
                crate::kafka::topic_name::check(&topic.name).map_err(|_| ErrorCode::InvalidTopicException);
            let known = known
                .and_then(|_| self.image.topic(&name).map(drop).ok_or(ErrorCode::UnknownTopicOrPartition));
            let partition = |index: &i32| {
                let of_partition = PartitionResponse::default().with_partition_index(*index);
                let tp = TopicPartition::new(&name, *index);
                let log = known.and_then(|()| match self.replicas.partition(&tp) {
                    Some(partition) => Ok(&partition.log),
                    None if self.image.partition(&tp).is_some() => Err(ErrorCode::NotLeaderOrFollower),
                    None => Err(ErrorCode::UnknownTopicOrPartition),
                });
                let log = match log {
                    Ok(log) => log,
                    Err(error) => return of_partition.with_error_code(error.code()),
                };
                let producers = log.producers().iter().map(|(id, producer)| {
                    ProducerState::default()
                        .with_producer_id(id.0.into())
                        .with_producer_epoch(producer.epoch().0.into())
                        .with_last_sequence(producer.last_sequence())
                        .with_last_timestamp(producer.last_timestamp_ms())
                        .with_coordinator_epoch(producer.coordinator_epoch())
                        .with_current_txn_start_offset(
                            producer.transaction_start().map_or(-1, |start| start.0),
                        )
                });
                of_partition.with_active_producers(producers.collect())
            };
            let partitions = topic.partition_indexes.iter().map(partition).collect();
            let of_topic = TopicResponse::default().with_name(topic.name.clone());
            response.topics.push(of_topic.with_partitions(partitions));
        }
        response
    }

    /// Brokers that have markers to write.
    pub(super) fn marker_destinations(&self) -> BTreeSet<BrokerId> {
        self.transactions.coordinator.marker_destinations()
    }
}

#[cfg(test)]
mod tests;
