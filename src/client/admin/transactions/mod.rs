//! What an administrator asks of transactions: `kafka-transactions.sh` (`TransactionsCommand` and the handlers of
//! `KafkaAdminClient`; R-CLI-20).
//!
//! What an errand does not know yet is what it asks for next, whichever answers were lost meanwhile.
//!
//! **Invariant:** a list is told only after every broker has answered; a transaction hangs only if its coordinator was asked.

mod hanging;
mod request;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::describe_producers_response::ProducerState;
use kafka_protocol::messages::describe_transactions_response::TransactionState;

use super::errand::{Heard, Next, To};
use crate::client::metadata::{Also, Metadata};
use crate::client::pattern::TopicPattern;
use crate::kafka::event::{ActiveProducer, DescribedTransaction, Event, ListedTransaction, TransactionsTold};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerId, Offset, ProducerEpoch, ProducerId, Topic, TopicPartition, TransactionalId,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionOperation {
    /// Every broker is asked for the transactional ids that it coordinates.
    List(TransactionFilter),
    Describe(TransactionalId),
    /// Who has written to a partition, as its leader knows or this replica (`--broker-id`).
    DescribeProducers {
        tp: TopicPartition,
        broker: Option<BrokerId>,
    },
    /// What is open for longer than transactions may take, and that no coordinator is going to end.
    FindHanging {
        area: Area,
        /// `--max-transaction-timeout`, in milliseconds; `None` for the tool's 15 minutes.
        longer_than_ms: Option<i64>,
    },
    /// Ends the transaction that begins with this offset, in one partition and without its coordinator.
    Abort {
        tp: TopicPartition,
        start: Offset,
    },
    /// `forceTerminateTransaction`: what is open is aborted, and whoever used the id is fenced.
    Terminate(TransactionalId),
}

/// Where to look for transactions that hang, and on which broker's replicas (`--broker-id`) rather than at the leaders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Area {
    Topic(Topic, Option<BrokerId>),
    Partition(TopicPartition, Option<BrokerId>),
    /// All that it has replicas of.
    Broker(BrokerId),
}

impl Area {
    pub fn broker(&self) -> Option<BrokerId> {
        match self {
            Area::Topic(_, broker) | Area::Partition(_, broker) => *broker,
            Area::Broker(broker) => Some(*broker),
        }
    }
}

/// `--duration-filter` and `--transactional-id-pattern`; what is empty lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// Only what began more than so many milliseconds ago.
    pub longer_than_ms: Option<i64>,
    /// A regular expression for the whole id.
    pub pattern: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct TransactionErrand {
    operation: TransactionOperation,
    /// The metadata that there was at the start: what is newer counts.
    started_at: u32,
    listed: BTreeMap<BrokerId, Vec<ListedTransaction>>,
    /// Who coordinates an id and what it says of it; `None` of an id that it does not know.
    described: BTreeMap<TransactionalId, Option<(BrokerId, TransactionState)>>,
    producers: BTreeMap<TopicPartition, Vec<ProducerState>>,
    /// What may hang, as it was when the last leader had answered.
    candidates: Option<Vec<(TopicPartition, ProducerState)>>,
    /// How many partitions are looked at.
    searched: usize,
    /// The marker of [`TransactionOperation::Abort`] is written.
    aborted: bool,
    /// What [`TransactionOperation::Terminate`] was given.
    terminated: Option<(ProducerId, ProducerEpoch)>,
    request_timeout_ms: i64,
}

impl TransactionErrand {
    /// `request_timeout_ms`: the administrator's request.timeout.ms.
    pub(super) fn new(
        operation: TransactionOperation,
        metadata: &Metadata,
        request_timeout_ms: i64,
    ) -> TransactionErrand {
        TransactionErrand {
            operation,
            started_at: metadata.update_version(),
            listed: BTreeMap::new(),
            described: BTreeMap::new(),
            producers: BTreeMap::new(),
            candidates: None,
            searched: 0,
            aborted: false,
            terminated: None,
            request_timeout_ms,
        }
    }

    pub(super) fn topics(&self) -> BTreeSet<Topic> {
        match &self.operation {
            TransactionOperation::List(_)
            | TransactionOperation::Describe(_)
            | TransactionOperation::Terminate(_)
            | TransactionOperation::FindHanging { area: Area::Broker(_), .. } => BTreeSet::new(),
            TransactionOperation::FindHanging { area: Area::Topic(topic, _), .. } => [topic.clone()].into(),
            TransactionOperation::FindHanging { area: Area::Partition(tp, _), .. }
            | TransactionOperation::DescribeProducers { tp, .. }
            | TransactionOperation::Abort { tp, .. } => [tp.topic.clone()].into(),
        }
    }

    /// All topics, if it needs to know of them (`listTopics`).
    pub(super) fn also(&self) -> Also {
        match &self.operation {
            TransactionOperation::FindHanging { area: Area::Broker(_), .. } => {
                Also::Matching { pattern: TopicPattern::everything(), with_internal: true }
            }
            _ => Also::Nothing,
        }
    }

    pub(super) fn next(&mut self, now: Time, metadata: &Metadata) -> Next {
        if metadata.update_version() <= self.started_at {
            return Next::Metadata;
        }
        let told = match &self.operation.clone() {
            TransactionOperation::List(filter) => {
                self.listed(metadata, || request::list(filter)).map(TransactionsTold::List)
            }
            TransactionOperation::Describe(id) => {
                self.transaction(now, id).map(TransactionsTold::Transaction)
            }
            TransactionOperation::DescribeProducers { tp, broker } => {
                let producers = self.producers_of(now, tp, *broker, metadata);
                let (tp, broker) = (tp.clone(), *broker);
                producers.map(|producers| TransactionsTold::Producers { tp, broker, producers })
            }
            TransactionOperation::FindHanging { area, longer_than_ms } => {
                self.hanging(now, area, *longer_than_ms, metadata).map(TransactionsTold::Hanging)
            }
            TransactionOperation::Abort { tp, start } => {
                self.abort(now, tp, *start, metadata).map(TransactionsTold::Aborted)
            }
            TransactionOperation::Terminate(id) => self.terminate(id),
        };
        match told {
            Ok(told) => Next::Done(Some(Box::new(Event::TransactionsTold { told }))),
            Err(next) => next,
        }
    }

    /// The ids of all brokers, by name (`AllBrokersStrategy`).
    fn listed(
        &self,
        metadata: &Metadata,
        request: impl Fn() -> Request,
    ) -> Result<Vec<ListedTransaction>, Next> {
        if let Some(node) = metadata.nodes().find(|node| !self.listed.contains_key(node)) {
            return Err(Next::Ask(To::Broker(node), Box::new(request())));
        }
        let mut all: Vec<ListedTransaction> = self.listed.values().flatten().cloned().collect();
        all.sort();
        Ok(all)
    }

    fn transaction(&self, now: Time, id: &TransactionalId) -> Result<DescribedTransaction, Next> {
        match self.described.get(id) {
            Some(Some((coordinator, state))) => Ok(transaction(now, *coordinator, id, state)),
            Some(None) => {
                let message = format!(
                    "Failed to describe transaction state of transactional-id `{id}`: DescribeTransactions request \
                     for transactionalId `{id}` failed because the ID could not be found"
                );
                Err(Next::Refused(ErrorCode::TransactionalIdNotFound, message))
            }
            None => {
                let to = To::TransactionCoordinator(id.clone());
                Err(Next::Ask(to, Box::new(request::describe(id))))
            }
        }
    }

    /// Another producer begins with the id, as it were (`FenceProducersHandler`). Its transactions may take as long as the
    /// administrator waits for an answer.
    fn terminate(&self, id: &TransactionalId) -> Result<TransactionsTold, Next> {
        match self.terminated {
            Some((producer, epoch)) => Ok(TransactionsTold::Terminated { id: id.clone(), producer, epoch }),
            None => {
                let request = request::fence(id, self.request_timeout_ms);
                Err(Next::Ask(To::TransactionCoordinator(id.clone()), Box::new(request)))
            }
        }
    }

    /// What the leader knows, or the broker that is asked for (`PartitionLeaderStrategy`, `StaticBrokerStrategy`).
    fn producers_of(
        &self,
        now: Time,
        tp: &TopicPartition,
        broker: Option<BrokerId>,
        metadata: &Metadata,
    ) -> Result<Vec<ActiveProducer>, Next> {
        let producers = self.learn_producers(std::slice::from_ref(tp), broker, metadata)?;
        Ok(producers.iter().map(|(_, state)| active(now, state)).collect())
    }

    pub(super) fn hear(&mut self, from: BrokerId, response: &Response) -> Heard {
        match response {
            Response::ListTransactions(answer) => self.hear_list(from, answer),
            Response::DescribeTransactions(answer) => self.hear_description(from, answer),
            Response::DescribeProducers(answer) => self.hear_producers(answer),
            Response::WriteTxnMarkers(answer) => self.hear_marked(answer),
            Response::InitProducerId(answer) => self.hear_fenced(answer),
            response => panic!("{} answers no errand about transactions", response.api().name()),
        }
    }

    fn hear_list(&mut self, from: BrokerId, answer: &m::ListTransactionsResponse) -> Heard {
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => {
                let listed = answer.transaction_states.iter().map(|state| ListedTransaction {
                    id: TransactionalId::new(&state.transactional_id),
                    coordinator: from,
                    producer: ProducerId(state.producer_id.0),
                    state: state.transaction_state.to_string(),
                });
                self.listed.insert(from, listed.collect());
                Heard::Taken
            }
            ErrorCode::CoordinatorLoadInProgress => Heard::Again,
            error => refused(error, format!("broker {from}")),
        }
    }

    fn hear_description(&mut self, from: BrokerId, answer: &m::DescribeTransactionsResponse) -> Heard {
        for state in &answer.transaction_states {
            let id = TransactionalId::new(&state.transactional_id);
            let known = match ErrorCode::from_code(state.error_code) {
                ErrorCode::None => Some((from, state.clone())),
                ErrorCode::TransactionalIdNotFound => None,
                ErrorCode::CoordinatorLoadInProgress => return Heard::Again,
                ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => return Heard::Elsewhere,
                error => return refused(error, id.to_string()),
            };
            self.described.insert(id, known);
        }
        Heard::Taken
    }

    fn hear_fenced(&mut self, answer: &m::InitProducerIdResponse) -> Heard {
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => {
                let epoch = ProducerEpoch(answer.producer_epoch);
                self.terminated = Some((ProducerId(answer.producer_id.0), epoch));
                Heard::Taken
            }
            // The abort is on its way.
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::ConcurrentTransactions => Heard::Again,
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => Heard::Elsewhere,
            error => {
                let TransactionOperation::Terminate(id) = &self.operation else {
                    return refused(error, "the answer".to_owned());
                };
                let message = format!(
                    "Failed to force terminate transactionalId `{id}`: InitProducerId request for transactionalId \
                     `{id}` failed due to unexpected error"
                );
                Heard::Refused(error, message)
            }
        }
    }

    /// The one broker that is asked is not the one: in the tool's words.
    fn not_there(&self, tp: &TopicPartition) -> Option<String> {
        let (broker, what) = match &self.operation {
            TransactionOperation::DescribeProducers { broker: Some(broker), tp } => {
                (*broker, format!("partition {tp} on broker {broker}"))
            }
            TransactionOperation::FindHanging { area, .. } => {
                let broker = area.broker()?;
                (broker, format!("{} partitions on broker Optional[{broker}]", self.searched))
            }
            _ => return None,
        };
        Some(format!(
            "Failed to describe producers for {what}: Failed to describe active producers for partition {tp} on \
             brokerId {broker}"
        ))
    }

    /// What the broker says; a partition that another one leads by now is asked for again, unless it is to be this one.
    fn hear_producers(&mut self, answer: &m::DescribeProducersResponse) -> Heard {
        let mut heard = Heard::Taken;
        for topic in &answer.topics {
            let name = Topic::new(&topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&name, partition.partition_index);
                match ErrorCode::from_code(partition.error_code) {
                    ErrorCode::None => drop(self.producers.insert(tp, partition.active_producers.clone())),
                    error @ ErrorCode::NotLeaderOrFollower if self.not_there(&tp).is_some() => {
                        return Heard::Refused(error, self.not_there(&tp).unwrap_or_default());
                    }
                    ErrorCode::NotLeaderOrFollower | ErrorCode::UnknownTopicOrPartition => {
                        heard = Heard::Again;
                    }
                    error => return refused(error, tp.to_string()),
                }
            }
        }
        heard
    }
}

fn refused(error: ErrorCode, of: String) -> Heard {
    Heard::Refused(error, format!("{of}: {}", error.name()))
}

fn transaction(
    now: Time,
    coordinator: BrokerId,
    id: &TransactionalId,
    state: &TransactionState,
) -> DescribedTransaction {
    DescribedTransaction {
        id: id.clone(),
        coordinator,
        producer: ProducerId(state.producer_id.0),
        epoch: ProducerEpoch(state.producer_epoch),
        state: state.transaction_state.to_string(),
        timeout_ms: state.transaction_timeout_ms,
        began_ms_ago: (state.transaction_start_time_ms >= 0)
            .then(|| now.wall_ms() - state.transaction_start_time_ms),
        partitions: partitions_of(state),
    }
}

fn partitions_of(state: &TransactionState) -> Vec<TopicPartition> {
    let of_topic = |topic: &m::describe_transactions_response::TopicData| {
        let name = Topic::new(&topic.topic);
        topic.partitions.iter().map(|number| TopicPartition::new(&name, *number)).collect::<Vec<_>>()
    };
    state.topics.iter().flat_map(of_topic).collect()
}

fn active(now: Time, state: &ProducerState) -> ActiveProducer {
    ActiveProducer {
        producer: ProducerId(state.producer_id.0),
        // The wire has more room for it than an epoch takes.
        epoch: ProducerEpoch(state.producer_epoch as i16),
        coordinator_epoch: (state.coordinator_epoch >= 0).then_some(state.coordinator_epoch),
        last_sequence: state.last_sequence,
        wrote_ms_ago: now.wall_ms() - state.last_timestamp,
        open_since: (state.current_txn_start_offset >= 0).then_some(Offset(state.current_txn_start_offset)),
    }
}
