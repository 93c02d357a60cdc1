//! What a leader asks of the coordinators of transactions before it appends a transaction's first batch: that its partition
//! be added, or, of a client before transaction version 2, whether it was.
//!
//! Mirrors `AddPartitionsToTxnManager`: what goes to one coordinator is one request at a time, with one part for each
//! transactional id (R-TXN-11, R-TXN-14).
//!
//! **Invariant:** every question has one answer.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::AddPartitionsToTxnRequest;

use super::process::{Broker, Purpose};
use super::produce::Waiter;
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects, Peer};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::time::Time;
use crate::kafka::transaction::{ProducerIdAndEpoch, wire};
use crate::kafka::types::{BrokerId, TopicPartition, TransactionalId};

/// One question: these partitions are to be in the producer's transaction, or are they?
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub id: TransactionalId,
    pub producer: ProducerIdAndEpoch,
    pub partitions: BTreeSet<TopicPartition>,
    /// The client adds partitions itself.
    pub verify_only: bool,
    pub waiter: Waiter,
}

/// What a question's partitions are refused with; those that are in are not named.
pub(super) type Refusals = BTreeMap<TopicPartition, ErrorCode>;

impl Question {
    fn all(&self, error: ErrorCode) -> Refusals {
        self.partitions.iter().map(|tp| (tp.clone(), error)).collect()
    }
}

#[derive(Clone, Debug, Default)]
pub struct AddPartitions {
    /// What waits for a coordinator, at most one question for each transactional id.
    waiting: BTreeMap<BrokerId, BTreeMap<TransactionalId, Question>>,
}

impl AddPartitions {
    /// Queues a question. One of the same transaction that waits makes way, or the new one is refused.
    fn queue(&mut self, coordinator: BrokerId, question: Question) -> Option<(Question, ErrorCode)> {
        let waiting = self.waiting.entry(coordinator).or_default();
        let known = waiting.get(&question.id).map(|known| known.producer.epoch);
        let error = match known {
            Some(known) if known > question.producer.epoch => {
                return Some((question, ErrorCode::InvalidProducerEpoch));
            }
            Some(known) if known < question.producer.epoch => ErrorCode::InvalidProducerEpoch,
            // The producer asks again; so it shall.
            _ => ErrorCode::NetworkException,
        };
        waiting.insert(question.id.clone(), question).map(|before| (before, error))
    }

    fn take(&mut self, coordinator: BrokerId) -> Vec<Question> {
        self.waiting.remove(&coordinator).into_iter().flat_map(BTreeMap::into_values).collect()
    }
}

impl Broker {
    /// Asks the coordinator of a transaction.
    pub(super) fn ask_to_add(&mut self, now: Time, question: Question, fx: &mut Effects<BrokerTimer>) {
        match self.leader_of_transactions(&question.id) {
            Ok(coordinator) => {
                if let Some((overtaken, error)) =
                    self.transactions.add_partitions.queue(coordinator, question)
                {
                    let refusals = overtaken.all(error);
                    self.on_added(now, overtaken.waiter, refusals, fx);
                }
                self.flush_add_partitions(now, fx);
            }
            Err(error) => {
                let refusals = question.all(error);
                self.on_added(now, question.waiter, refusals, fx);
            }
        }
    }

    /// Sends what waits and can be sent.
    pub(super) fn flush_add_partitions(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let coordinators: Vec<_> = self.transactions.add_partitions.waiting.keys().copied().collect();
        for coordinator in coordinators {
            let peer = Peer::new(coordinator, Channel::AddPartitions);
            if !self.network.ready(now, peer, fx) || !self.network.can_send(peer) {
                continue;
            }
            let questions = self.transactions.add_partitions.take(coordinator);
            let part = |q: &Question| wire::add_request(&q.id, q.producer, &q.partitions, q.verify_only);
            let transactions = questions.iter().map(part).collect();
            let request = AddPartitionsToTxnRequest::default().with_transactions(transactions);
            let (purpose, timeout_ms) = (Purpose::AddPartitions(questions), self.config.request_timeout_ms);
            self.network.send(now, peer, request, purpose, timeout_ms, fx);
        }
    }

    pub(super) fn add_partitions_answered(
        &mut self,
        now: Time,
        questions: Vec<Question>,
        response: &Response,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Response::AddPartitionsToTxn(response) = response else {
            panic!("{} is no answer to AddPartitionsToTxn", response.api().name())
        };
        let mut errors = wire::errors_of(response);
        for question in questions {
            let mut refusals = match ErrorCode::from_code(response.error_code) {
                ErrorCode::None => errors.remove(&question.id).unwrap_or_default(),
                error => question.all(error),
            };
            refusals.retain(|_, error| *error != ErrorCode::None);
            // What producers know.
            let fenced = refusals.values_mut().filter(|error| **error == ErrorCode::ProducerFenced);
            fenced.for_each(|error| *error = ErrorCode::InvalidProducerEpoch);
            self.on_added(now, question.waiter, refusals, fx);
        }
        self.flush_add_partitions(now, fx);
    }

    /// The coordinator cannot be reached, or did not answer.
    pub(super) fn add_partitions_lost(
        &mut self,
        now: Time,
        coordinator: BrokerId,
        sent: Vec<Question>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let waiting = self.transactions.add_partitions.take(coordinator);
        for question in sent.into_iter().chain(waiting) {
            let refusals = question.all(ErrorCode::NetworkException);
            self.on_added(now, question.waiter, refusals, fx);
        }
    }
}
