//! Sends what is ready and deals with the answers (Kafka's `Sender`).
//!
//! **Invariant:** each batch that was appended ends exactly once, acknowledged or failed, within delivery.timeout.ms
//! (R-PROD-15, R-PROD-18).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
};

use super::accumulator::Readiness;
use super::batch::{BatchId, Place};
use super::status::Hurry;
use super::transaction_manager::{Speaks, TransactionManager};
use super::{
    BlockedSend, CallName, Context, Phase, Producer, ProducerError, ProducerTimer, UNKNOWN_PARTITION,
};
use crate::client::config::producer::Acks;
use crate::client::metadata::main_peer;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, ProducerEvent};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::{ApiKey, ErrorCode};
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerId, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Topic, TopicId, TopicPartition,
};

/// One batch of a Produce request: how its answer names the partition, and which batch that is.
#[derive(Clone, Debug)]
pub(super) struct SentBatch {
    topic_id: TopicId,
    tp: TopicPartition,
    pub(super) id: BatchId,
}

/// From this version on topics are named by their ids, before by their names (KIP-516).
const NAMES_TOPICS_BY_ID: i16 = 13;

impl SentBatch {
    fn is_answered_by(&self, topic: &TopicProduceResponse, partition: i32) -> bool {
        let is_topic = match TopicId(topic.topic_id) {
            TopicId::NONE => topic.name.as_str() == self.tp.topic.as_str(),
            id => id == self.topic_id,
        };
        is_topic && self.tp.partition == partition
    }
}

/// How the producer gets its id (R-PROD-23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdRequest {
    /// Not before this moment.
    Due(Time),
    InFlight,
}

type Fx<'a> = &'a mut Effects<ProducerTimer>;

impl Producer {
    /// Asks any broker for a producer id as long as there is none.
    pub(super) fn ask_for_producer_id(&mut self, now: Time, fx: Fx<'_>) {
        let is_idempotent = self.transactions.is_none();
        let wanted = self.sequences.as_ref().is_some_and(|it| is_idempotent && it.identity().is_none());
        let due = matches!(self.id_request, IdRequest::Due(at) if at <= now);
        if !wanted || !due {
            return;
        }
        let Some(node) = self.metadata.least_loaded(now, &self.network) else { return };
        if !self.network.ready(now, main_peer(node), fx) {
            return;
        }
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(i32::MAX);
        let timeout_ms = self.config.common.request_timeout_ms;
        self.network.send(now, main_peer(node), request, Context::InitProducerId, timeout_ms, fx);
        self.id_request = IdRequest::InFlight;
    }

    pub(super) fn on_producer_id(&mut self, now: Time, answer: &InitProducerIdResponse, fx: Fx<'_>) {
        let error = ErrorCode::from_code(answer.error_code);
        if error.is_retriable() {
            return self.retry_producer_id(now);
        }
        if !error.is_ok() {
            return self.fail_all(now, error, fx);
        }
        self.id_request = IdRequest::Due(now);
        let (producer, epoch) = (ProducerId(answer.producer_id.0), ProducerEpoch(answer.producer_epoch));
        if let Some(sequences) = &mut self.sequences {
            sequences.set_identity(producer, epoch);
        }
        fx.event(Event::ProducerIdGiven { client: self.name(), producer, epoch });
    }

    pub(super) fn retry_producer_id(&mut self, now: Time) {
        self.id_request = IdRequest::Due(now.plus_ms(self.config.common.retry_backoff.initial_ms));
        self.metadata.request_update();
    }

    /// Tells of another producer id or epoch than there was.
    pub(super) fn tell_identity(&self, before: Option<(ProducerId, ProducerEpoch)>, fx: Fx<'_>) {
        if let Some((producer, epoch)) = self.identity().filter(|now| Some(*now) != before) {
            fx.event(Event::ProducerIdGiven { client: self.name(), producer, epoch });
        }
    }

    /// Raises the epoch where a partition has to start again (R-PROD-29, R-PROD-30).
    pub(super) fn settle_sequences(&mut self, fx: Fx<'_>) {
        let Some(sequences) = &mut self.sequences else { return };
        if sequences.resolve() {
            let transactions = self.transactions.as_mut().expect("others raise their epoch");
            transactions.on_unresolved();
        }
        let Some(renumbered) = sequences.bump_epoch() else { return };
        let identity = sequences.identity();
        for (id, sequence) in renumbered {
            self.accumulator.batch_mut(id).reset_sequence(sequence);
        }
        if let Some((producer, epoch)) = identity {
            fx.event(Event::ProducerIdGiven { client: self.name(), producer, epoch });
        }
    }

    /// One request to each broker that can take one and leads a partition with a batch that is ready (R-PROD-3). Says
    /// whether anything was sent.
    pub(super) fn send_ready(&mut self, now: Time, fx: Fx<'_>) -> bool {
        if self.sequences.as_ref().is_some_and(|sequences| sequences.identity().is_none()) {
            return false;
        }
        let mut sent = false;
        self.weigh_queues();
        for node in self.ready_nodes(now) {
            let takes = self.network.ready(now, main_peer(node), fx);
            self.note_latency(now, node, takes);
            if !takes {
                continue;
            }
            let drained = self.drain(now, node);
            if !drained.is_empty() {
                self.send_produce(now, node, drained, fx);
                sent = true;
            }
        }
        sent
    }

    fn ready_nodes(&mut self, now: Time) -> BTreeSet<BrokerId> {
        let mut nodes = BTreeSet::new();
        let mut leaderless = false;
        let hurry = self.hurries();
        for tp in self.accumulator.waiting() {
            match self.metadata.leader(tp) {
                None => leaderless = true,
                Some(_) if self.muted.contains(tp) => {}
                Some((leader, epoch)) => {
                    if let Some(Readiness::Ready(_)) = self.accumulator.readiness(now, tp, epoch, hurry) {
                        nodes.insert(leader);
                    }
                }
            }
        }
        if leaderless {
            self.metadata.request_update();
        }
        nodes
    }

    /// Linger is over for all batches.
    pub(super) fn hurries(&self) -> bool {
        self.hurry().is_some()
    }

    /// What ends the linger of all batches.
    pub fn hurry(&self) -> Option<Hurry> {
        match () {
            () if self.phase == Phase::Closing => Some(Hurry::Close),
            () if self.blocked.as_ref().is_some_and(BlockedSend::for_memory) => Some(Hurry::Memory),
            () if self.is_flushing() || self.is_calling() == Some(CallName::Flush) => Some(Hurry::Flush),
            () if self.transactions.as_ref().is_some_and(TransactionManager::is_completing) => {
                Some(Hurry::TransactionEnd)
            }
            () => None,
        }
    }

    /// Takes one batch of each partition that the broker leads, up to max.request.size, beginning where the last request
    /// to it ended so that no partition starves. As in Kafka, a batch that has to wait for an earlier one's outcome, or for its
    /// partition to be in the transaction, keeps those behind it waiting too, whatever their partition.
    fn drain(&mut self, now: Time, node: BrokerId) -> Vec<BatchId> {
        let led = |tp: &&TopicPartition| self.metadata.leader(tp).is_some_and(|(leader, _)| leader == node);
        let partitions: Vec<TopicPartition> = self.accumulator.waiting().filter(led).cloned().collect();
        let from = self.drain_from.get(&node);
        let start = partitions.iter().position(|tp| from.is_some_and(|from| tp >= from)).unwrap_or(0);
        let mut drained: Vec<BatchId> = Vec::new();
        let mut size_bytes: i64 = 0;
        for tp in partitions[start..].iter().chain(&partitions[..start]) {
            self.drain_from.insert(node, tp.clone());
            let Some(id) = self.candidate(now, tp) else { continue };
            let batch = self.accumulator.batch(id);
            let fits = size_bytes + i64::from(batch.size_bytes()) <= i64::from(self.config.max_request_size);
            let in_turn = self.sequences.as_ref().is_none_or(|sequences| sequences.may_send(batch))
                && self.transactions.as_ref().is_none_or(|transactions| transactions.may_send_to(tp));
            if !fits && !drained.is_empty() || !in_turn {
                break;
            }
            self.accumulator.take_first(tp);
            self.close_batch(id);
            size_bytes += i64::from(self.accumulator.batch(id).size_bytes());
            drained.push(id);
        }
        drained
    }

    /// The partition's first batch, unless it backs off or another one is in flight where only one may be.
    fn candidate(&self, now: Time, tp: &TopicPartition) -> Option<BatchId> {
        let id = self.accumulator.first(tp)?;
        let (_, epoch) = self.metadata.leader(tp)?;
        let held =
            self.muted.contains(tp) || self.accumulator.batch(id).backs_off_until(now, epoch).is_some();
        (!held).then_some(id)
    }

    fn close_batch(&mut self, id: BatchId) {
        self.accumulator.close(id);
        let batch = self.accumulator.batch(id);
        if batch.attempts == 0 {
            self.metrics.note(batch.record_count(), batch.plain_bytes(), batch.size_bytes());
        }
    }

    fn send_produce(&mut self, now: Time, node: BrokerId, ids: Vec<BatchId>, fx: Fx<'_>) {
        let mut topics: BTreeMap<(TopicId, Topic), Vec<PartitionProduceData>> = BTreeMap::new();
        let mut sent = Vec::new();
        for id in ids {
            let tp = self.accumulator.batch(id).tp.clone();
            let topic_id = self.metadata.topic(&tp.topic).map(|topic| topic.id).unwrap_or_default();
            self.prepare(id, &tp, node, fx);
            let records = self.accumulator.batch(id).encode(self.transactions.is_some());
            let data = PartitionProduceData::default().with_index(tp.partition).with_records(Some(records));
            topics.entry((topic_id, tp.topic.clone())).or_default().push(data);
            sent.push(SentBatch { topic_id, tp, id });
        }
        let (peer, speaks) = (main_peer(node), self.transactions.as_ref().map(TransactionManager::speaks));
        let latest = speaks.map_or(ApiKey::Produce.version(), Speaks::produce);
        let version = self.network.version_for(peer, ApiKey::Produce, latest);
        let topic_data = topics.into_iter().map(|((id, name), partitions)| {
            let topic = TopicProduceData::default().with_partition_data(partitions);
            match version >= NAMES_TOPICS_BY_ID {
                true => topic.with_topic_id(id.0),
                false => topic.with_name(name.to_wire().into()),
            }
        });
        let timeout_ms = self.config.common.request_timeout_ms;
        let transactional_id = self.config.transactional_id.as_ref().map(|id| id.to_wire().into());
        let request = ProduceRequest::default()
            .with_transactional_id(transactional_id)
            .with_acks(self.config.acks.code())
            .with_timeout_ms(timeout_ms as i32)
            .with_topic_data(topic_data.collect());
        if self.config.acks == Acks::None {
            // Nobody will answer: the batches are done as soon as they are on the way.
            self.network.send_without_answer(peer, request, fx);
            for batch in sent {
                self.complete(now, batch.id, ErrorCode::None, Offset::UNKNOWN, fx);
            }
        } else {
            let context = Context::Produce(Rc::from(sent));
            self.network.send_at(now, peer, (version, request.into()), context, timeout_ms, fx);
        }
    }

    /// Numbers a batch that is sent for the first time and notes that it is on the way (R-PROD-6, R-PROD-24).
    fn prepare(&mut self, id: BatchId, tp: &TopicPartition, to: BrokerId, fx: Fx<'_>) {
        let leader_epoch = self.metadata.leader_epoch(tp).unwrap_or(LeaderEpoch::NONE);
        let batch = self.accumulator.batch_mut(id);
        if let Some(sequences) = &mut self.sequences
            && batch.sequence.is_none()
        {
            batch.sequence = Some(sequences.assign(id, tp, batch.record_count()));
        }
        batch.on_sent(leader_epoch);
        let event = Event::BatchSent {
            client: self.name.clone(),
            tp: tp.clone(),
            batch: id,
            records: batch.record_count().into(),
            base_sequence: batch.base_sequence(),
            attempt: batch.attempts + 1,
            to,
            correlation: self.network.next_correlation(),
        };
        fx.event(event);
        if self.config.max_in_flight == 1 {
            self.muted.insert(tp.clone());
        }
    }

    pub(super) fn on_produced(
        &mut self,
        now: Time,
        sent: &[SentBatch],
        answer: &ProduceResponse,
        fx: Fx<'_>,
    ) {
        let mut hints = Vec::new();
        for topic in &answer.responses {
            for partition in &topic.partition_responses {
                let is_it = |batch: &&SentBatch| batch.is_answered_by(topic, partition.index);
                let Some(SentBatch { id, .. }) = sent.iter().find(is_it) else { continue };
                let error = ErrorCode::from_code(partition.error_code);
                if let Some(hint) = leader_hint(error, partition)
                    && let Some(batch) = self.accumulator.get(*id)
                {
                    hints.push((batch.tp.clone(), hint));
                }
                self.complete(now, *id, error, Offset(partition.base_offset), fx);
            }
        }
        for (tp, (leader, epoch)) in hints {
            let endpoints = answer.node_endpoints.iter().map(|endpoint| {
                (BrokerId(endpoint.node_id.0), endpoint.rack.as_ref().map(|rack| Rc::from(rack.as_str())))
            });
            self.metadata.take_leader_hint(&tp, leader, epoch, endpoints);
        }
    }

    /// A batch was answered, or its connection was lost (R-PROD-16, R-PROD-20).
    pub(super) fn complete(
        &mut self,
        now: Time,
        id: BatchId,
        error: ErrorCode,
        base_offset: Offset,
        fx: Fx<'_>,
    ) {
        let Some(batch) = self.accumulator.get(id) else { return };
        self.muted.remove(&batch.tp);
        let given_up = batch.place == Place::GivenUp;
        if error == ErrorCode::MessageTooLarge && batch.record_count() > 1 && !given_up {
            self.split(id, fx);
        } else if error.is_ok() || error == ErrorCode::DuplicateSequenceNumber {
            self.acknowledge(now, id, base_offset, fx);
        } else if given_up {
            self.accumulator.remove(id);
        } else if self.can_retry(now, id, error) {
            self.retry(now, id, error, fx);
        } else {
            self.fail(id, error, fx);
        }
        if error.refreshes_metadata() {
            self.metadata.request_update();
        }
    }

    fn acknowledge(&mut self, now: Time, id: BatchId, base_offset: Offset, fx: Fx<'_>) {
        let batch = self.accumulator.batch(id);
        if let Some(sequences) = &mut self.sequences {
            sequences.on_acknowledged(id, batch);
        }
        if batch.place != Place::GivenUp {
            let records = i64::from(batch.record_count());
            self.counts.acknowledged += records;
            fx.event(Event::BatchAcknowledged {
                client: self.name.clone(),
                tp: batch.tp.clone(),
                batch: id,
                base_offset,
                records,
                latency_ms: now.ms_since(batch.created_at),
            });
        }
        self.accumulator.remove(id);
    }

    fn can_retry(&mut self, now: Time, id: BatchId, error: ErrorCode) -> bool {
        let batch = self.accumulator.batch(id);
        let in_time = now.ms_since(batch.created_at) < self.config.delivery_timeout_ms;
        in_time
            && batch.attempts < self.config.retries
            && match &mut self.sequences {
                Some(sequences) => sequences.can_retry(batch, error),
                None => error.is_retriable(),
            }
    }

    fn retry(&mut self, now: Time, id: BatchId, error: ErrorCode, fx: Fx<'_>) {
        if let Some(sequences) = self.sequences.as_mut().filter(|_| plant::is(Plant::RetryOvertakes)) {
            sequences.on_failed(id, self.accumulator.batch(id), false);
            self.accumulator.batch_mut(id).sequence = None;
        }
        let batch = self.accumulator.batch_mut(id);
        let backoff_ms = self.config.common.retry_backoff.after(batch.attempts, &mut self.random);
        batch.on_retry(now.plus_ms(backoff_ms));
        let (tp, attempt) = (batch.tp.clone(), batch.attempts);
        self.accumulator.reenqueue(id);
        fx.event(Event::BatchRetried { client: self.name(), tp, batch: id, error, attempt });
    }

    fn split(&mut self, id: BatchId, fx: Fx<'_>) {
        let (tp, attempt) = {
            let batch = self.accumulator.batch(id);
            (batch.tp.clone(), batch.attempts)
        };
        let parts = self.accumulator.split(id);
        self.metrics.splits += 1;
        self.flush_parts(&parts);
        let counts = parts.iter().map(|part| (*part, self.accumulator.batch(*part).record_count().into()));
        let counts = counts.collect();
        if let Some(sequences) = &mut self.sequences {
            let part = |id: BatchId| {
                let batch = self.accumulator.batch(id);
                (id, batch.base_sequence(), batch.record_count())
            };
            let parts: Vec<_> = parts.into_iter().map(part).collect();
            sequences.replace(id, &tp, &parts);
        }
        let error = ErrorCode::MessageTooLarge;
        fx.event(Event::BatchRetried { client: self.name(), tp: tp.clone(), batch: id, error, attempt });
        fx.event(Event::BatchSplit { client: self.name(), tp, batch: id, parts: counts });
    }

    fn fail(&mut self, id: BatchId, error: ErrorCode, fx: Fx<'_>) {
        if let Some(transactions) = &mut self.transactions {
            transactions.on_send_error(error);
        }
        let batch = self.accumulator.batch(id);
        if let Some(sequences) = &mut self.sequences {
            // After the last retry it is not known whether an earlier attempt was written.
            let is_gap = error == ErrorCode::OutOfOrderSequenceNumber && !sequences.is_transactional();
            let certain = batch.attempts < self.config.retries || is_gap;
            for (moved, sequence) in sequences.on_failed(id, batch, certain) {
                self.accumulator.batch_mut(moved).reset_sequence(sequence);
            }
        }
        let batch = self.accumulator.batch(id);
        let (tp, records) = (batch.tp.clone(), batch.record_count());
        self.accumulator.remove(id);
        self.report_failure(tp, Some(id), records.into(), error, fx);
    }

    pub(super) fn report_failure(
        &mut self,
        tp: TopicPartition,
        batch: Option<BatchId>,
        records: i64,
        error: ErrorCode,
        fx: Fx<'_>,
    ) {
        self.counts.failed += records;
        fx.event(Event::BatchFailed { client: self.name(), tp, batch, records, error });
    }

    /// Gives a batch up that is not to be sent, or whose answer does not count any more.
    pub(super) fn abandon(&mut self, id: BatchId, reason: &ProducerError, fx: Fx<'_>) {
        let batch = self.accumulator.batch(id);
        let (tp, records) = (batch.tp.clone(), i64::from(batch.record_count()));
        let given_up = batch.place == Place::GivenUp;
        self.accumulator.remove(id);
        if !given_up {
            self.counts.failed += records;
            let (client, exception) = (self.name(), reason.to_string());
            let error = reason.code().unwrap_or(ErrorCode::OperationNotAttempted);
            let abandoned = ProducerEvent::Abandoned { client, tp, batch: id, records, exception, error };
            fx.event(Event::Producer(abandoned));
        }
    }

    /// Fails the batches that are as old as delivery.timeout.ms (R-PROD-18). The application sees a TimeoutException.
    pub(super) fn expire(&mut self, now: Time, fx: Fx<'_>) {
        let timeout_ms = self.config.delivery_timeout_ms;
        for id in self.accumulator.open_since(now.plus_ms(-timeout_ms)) {
            if let Some(transactions) = &mut self.transactions {
                transactions.on_send_error(ErrorCode::RequestTimedOut);
            }
            let batch = self.accumulator.batch(id);
            let (tp, records) = (batch.tp.clone(), batch.record_count());
            if let Some(sequences) = &mut self.sequences {
                sequences.on_expired(id, batch);
            }
            match batch.place {
                Place::InFlight => self.accumulator.give_up(id),
                Place::Queued | Place::GivenUp => self.accumulator.remove(id),
            }
            self.report_failure(tp, Some(id), records.into(), ErrorCode::RequestTimedOut, fx);
        }
    }

    /// An error that no retry helps against: everything fails and nothing more is sent.
    fn fail_all(&mut self, now: Time, error: ErrorCode, fx: Fx<'_>) {
        self.fail_open(error, fx);
        self.stop_generating(fx);
        self.phase = Phase::Failed { at: now, error };
        fx.event(Event::ClientFailed { client: self.name(), error });
    }

    /// Fails all that has no outcome.
    pub(super) fn fail_open(&mut self, error: ErrorCode, fx: Fx<'_>) {
        for id in self.accumulator.batches().map(|(id, _)| id).collect::<Vec<_>>() {
            let batch = self.accumulator.batch(id);
            let (tp, records, given_up) =
                (batch.tp.clone(), batch.record_count(), batch.place == Place::GivenUp);
            self.accumulator.remove(id);
            if !given_up {
                self.report_failure(tp, Some(id), records.into(), error, fx);
            }
        }
        if let Some(blocked) = self.blocked.take() {
            let tp = TopicPartition::new(&blocked.message.topic, UNKNOWN_PARTITION);
            self.report_failure(tp, None, 1, error, fx);
        }
    }
}

/// The new leader that a refusal names (KIP-951, R-REPL-67).
fn leader_hint(error: ErrorCode, answer: &PartitionProduceResponse) -> Option<(BrokerId, LeaderEpoch)> {
    let named = matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
    let leader = BrokerId(answer.current_leader.leader_id.0);
    (named && leader.is_some()).then_some((leader, LeaderEpoch(answer.current_leader.leader_epoch)))
}
