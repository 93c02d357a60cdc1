//! A client's writes: those of a transaction are appended once its coordinator is known to know of the partition.
//!
//! Mirrors `KafkaApis.handleProduceRequest` and `ReplicaManager.handleProduceAppend` (R-TXN-11, R-TXN-13, R-TXN-14).
//!
//! **Invariant:** a transactional batch that opens a transaction in its partition has been asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};

use super::add_partitions::{Question, Refusals};
use super::groups::TransactionalOffsets;
use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Effect, Effects, RequestId};
use crate::kafka::log::{FirstBatch, VerificationGuard};
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::record::split_batches;
use crate::kafka::replication::{NamedTopic, Verified};
use crate::kafka::time::Time;
use crate::kafka::transaction::{ProducerIdAndEpoch, TransactionVersion};
use crate::kafka::types::{TopicPartition, TransactionalId};

/// Who waits for a coordinator's answer.
#[derive(Clone, Debug)]
pub(super) enum Waiter {
    Produce(Box<TransactionalProduce>),
    /// Offsets, with the guard of the group's partition.
    Offsets(Box<TransactionalOffsets>, VerificationGuard),
}

/// A write of a transaction that is not appended yet.
#[derive(Clone, Debug)]
pub(super) struct TransactionalProduce {
    id: RequestId,
    request: Rc<Request>,
    transaction: TransactionalId,
    producer: ProducerIdAndEpoch,
    /// Base sequence numbers of the transactional batches.
    batches: BTreeMap<TopicPartition, i32>,
    since: Time,
    asked: Verified,
}

impl TransactionalProduce {
    /// The leader adds the partition, rather than to look whether it was added.
    fn adds(&self) -> bool {
        TransactionVersion::of_produce(self.id.version).raises_epochs()
    }

    fn body(&self) -> &ProduceRequest {
        match &*self.request {
            Request::Produce(produce) => produce,
            _ => unreachable!("it is a Produce"),
        }
    }
}

/// The transactional batches of a request: whose they are, and where they go, as far as that is known.
type Transactional = (BTreeSet<(i64, i16)>, BTreeMap<TopicPartition, i32>);

fn transactional(request: &ProduceRequest, version: i16, image: &ClusterImage) -> Transactional {
    let (mut producers, mut batches) = (BTreeSet::new(), BTreeMap::new());
    for topic in &request.topic_data {
        let name = NamedTopic::of(topic, version, image).known.map(|(name, _)| name);
        for partition in &topic.partition_data {
            let records = partition.records.clone().unwrap_or_default();
            for batch in split_batches(records).flatten() {
                if batch.is_transactional() && batch.producer_id().is_some() {
                    producers.insert((batch.producer_id().0, batch.producer_epoch().0));
                    let tp = name.as_ref().map(|name| TopicPartition::new(name, partition.index));
                    if let Some(tp) = tp {
                        batches.entry(tp).or_insert(batch.base_sequence());
                    }
                }
            }
        }
    }
    (producers, batches)
}

impl Broker {
    pub(super) fn on_produce(
        &mut self,
        now: Time,
        id: RequestId,
        request: Rc<Request>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Request::Produce(produce) = &*request else { unreachable!("it is a Produce") };
        let Some(transaction) = &produce.transactional_id else {
            // Without an id nobody can be asked: the log lets no transaction begin.
            let refused = match transactional(produce, id.version, &self.image).0.is_empty() {
                true => Verified::default(),
                false => return refuse(id, produce, ErrorCode::TransactionalIdAuthorizationFailed, fx),
            };
            return self
                .with_replicas(now, fx, |replicas, step| replicas.produce(id, produce, &refused, step));
        };
        let (producers, batches) = transactional(produce, id.version, &self.image);
        let mut producers = producers.into_iter();
        match (producers.next(), producers.next()) {
            (None, _) => self.with_replicas(now, fx, |replicas, step| {
                replicas.produce(id, produce, &Verified::default(), step)
            }),
            (Some(_), Some(_)) => refuse(id, produce, ErrorCode::InvalidProducerIdMapping, fx),
            (Some((producer, epoch)), None) => {
                let producer = ProducerIdAndEpoch {
                    id: crate::kafka::types::ProducerId(producer),
                    epoch: crate::kafka::types::ProducerEpoch(epoch),
                };
                let waiting = TransactionalProduce {
                    id,
                    transaction: TransactionalId::new(transaction),
                    producer,
                    batches,
                    since: now,
                    asked: Verified::default(),
                    request: request.clone(),
                };
                self.ask_for_produce(now, waiting, fx);
            }
        }
    }

    /// Asks for the partitions in which the transaction is not open (`maybeSendPartitionsToTransactionCoordinator`).
    pub(super) fn ask_for_produce(
        &mut self,
        now: Time,
        mut waiting: TransactionalProduce,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let ProducerIdAndEpoch { id: producer, epoch } = waiting.producer;
        let raises_epochs = waiting.adds();
        waiting.asked = Verified::default();
        if !raises_epochs && !self.config.transactions.partition_verification_enable {
            return self.on_produce_asked(now, waiting, fx);
        }
        for (tp, base_sequence) in &waiting.batches {
            let batch = FirstBatch { epoch, base_sequence: *base_sequence, raises_epochs };
            let begun = self.with_replicas(now, fx, |replicas, step| {
                replicas.begin_verification(tp, producer, batch, step)
            });
            match begun {
                Ok(Some(guard)) => drop(waiting.asked.guards.insert(tp.clone(), guard)),
                Ok(None) => {}
                Err(error) => drop(waiting.asked.errors.insert(tp.clone(), error)),
            }
        }
        if waiting.asked.guards.is_empty() {
            return self.on_produce_asked(now, waiting, fx);
        }
        let (id, producer) = (waiting.transaction.clone(), waiting.producer);
        let partitions = waiting.asked.guards.keys().cloned().collect();
        let waiter = Waiter::Produce(Box::new(waiting));
        self.ask_to_add(now, Question { id, producer, partitions, verify_only: !raises_epochs, waiter }, fx);
    }

    /// A coordinator has answered, or could not be asked.
    pub(super) fn on_added(
        &mut self,
        now: Time,
        waiter: Waiter,
        refusals: Refusals,
        fx: &mut Effects<BrokerTimer>,
    ) {
        match waiter {
            Waiter::Produce(mut waiting) => {
                waiting.asked.errors.extend(refusals);
                self.on_produce_asked(now, *waiting, fx);
            }
            Waiter::Offsets(commit, guard) => {
                let added = match refusals.into_values().next() {
                    None => Ok(Some(guard)),
                    Some(error) => Err(error),
                };
                self.on_offsets_added(now, &commit, added, fx);
            }
        }
    }

    /// The last transaction may not be over: that is soon, and a client that has its partitions added need not know
    /// (R-TXN-13).
    fn on_produce_asked(&mut self, now: Time, waiting: TransactionalProduce, fx: &mut Effects<BrokerTimer>) {
        let settings = &self.config.transactions;
        let patience_ms = settings.retry_backoff_max_ms.min(self.config.request_timeout_ms);
        let is_busy = waiting.asked.errors.values().any(|error| *error == ErrorCode::ConcurrentTransactions);
        let adds = waiting.adds();
        if adds && is_busy && now.ms_since(waiting.since) < patience_ms {
            let at = now.plus_ms(settings.retry_backoff_ms);
            let number = self.transactions.postpone(waiting);
            return fx.set_timer(BrokerTimer::AddPartitions(number), at);
        }
        let mut asked = waiting.asked.clone();
        asked.errors.values_mut().for_each(|error| *error = as_produce_error(*error, adds));
        self.with_replicas(now, fx, |replicas, step| {
            replicas.produce(waiting.id, waiting.body(), &asked, step);
        });
    }
}

/// Some clients try only those errors again that a partition's leader has (`handleProduceAppend`).
fn as_produce_error(error: ErrorCode, adds: bool) -> ErrorCode {
    match error {
        ErrorCode::ConcurrentTransactions if !adds => ErrorCode::NotEnoughReplicas,
        ErrorCode::NetworkException
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        other => other,
    }
}

/// All partitions of a request with the same error.
fn refuse(id: RequestId, request: &ProduceRequest, error: ErrorCode, fx: &mut Effects<BrokerTimer>) {
    if request.acks == 0 {
        return fx.push(Effect::Hangup(id));
    }
    let refused = |index: i32| {
        PartitionProduceResponse::default()
            .with_index(index)
            .with_error_code(error.code())
            .with_base_offset(-1)
            .with_log_append_time_ms(-1)
            .with_log_start_offset(-1)
    };
    let topics = request.topic_data.iter().map(|topic| {
        let partitions = topic.partition_data.iter().map(|partition| refused(partition.index)).collect();
        // Named as it was asked for.
        TopicProduceResponse::default()
            .with_topic_id(topic.topic_id)
            .with_name(topic.name.clone())
            .with_partition_responses(partitions)
    });
    fx.respond(id, ProduceResponse::default().with_responses(topics.collect()));
}
