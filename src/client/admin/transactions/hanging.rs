//! Transactions that hang: what a partition's leader knows as open while no coordinator is going to end it
//! (`FindHangingTransactionsCommand`, `AbortTransactionCommand`; R-TXN-25).

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::describe_producers_response::ProducerState;

use super::{Area, Heard, Next, To, TransactionErrand, partitions_of, refused, request};
use crate::client::metadata::Metadata;
use crate::kafka::event::HangingTransaction;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::markers::WriteTxnMarkersResponse;
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerId, Offset, ProducerEpoch, ProducerId, Topic, TopicPartition, TransactionalId,
};

/// What `--max-transaction-timeout` is if nobody says: as long as the broker lets transactions take by default.
const LONGEST_MS: i64 = 15 * 60_000;

impl TransactionErrand {
    pub(super) fn hanging(
        &mut self,
        now: Time,
        area: &Area,
        longer_than_ms: Option<i64>,
        metadata: &Metadata,
    ) -> Result<Vec<HangingTransaction>, Next> {
        let longest_ms = longer_than_ms.unwrap_or(LONGEST_MS);
        let candidates = match &self.candidates {
            Some(candidates) => candidates.clone(),
            None => {
                let partitions = within(area, metadata)?;
                self.searched = partitions.len();
                let mut all = self.learn_producers(&partitions, area.broker(), metadata)?;
                all.retain(|(_, state)| {
                    state.current_txn_start_offset >= 0 && now.wall_ms() - state.last_timestamp > longest_ms
                });
                self.candidates.insert(all).clone()
            }
        };
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let producers: BTreeSet<ProducerId> = candidates.iter().map(|(_, state)| id_of(state)).collect();
        let listed = self.listed(metadata, || request::list_of(producers.iter().copied()))?;
        let ids: BTreeMap<ProducerId, TransactionalId> =
            listed.into_iter().map(|listed| (listed.producer, listed.id)).collect();
        if let Some(id) = ids.values().find(|id| !self.described.contains_key(*id)) {
            let to = To::TransactionCoordinator(id.clone());
            return Err(Next::Ask(to, Box::new(request::describe(id))));
        }
        let hanging =
            candidates.iter().filter(|(tp, state)| !self.is_to_be_ended(tp, ids.get(&id_of(state))));
        Ok(hanging.map(|(tp, state)| hanging_as(now, tp, state)).collect())
    }

    /// A coordinator still has a marker to write there.
    fn is_to_be_ended(&self, tp: &TopicPartition, id: Option<&TransactionalId>) -> bool {
        match id.and_then(|id| self.described.get(id)) {
            Some(Some((_, state))) => partitions_of(state).contains(tp),
            Some(None) | None => false,
        }
    }

    pub(super) fn abort(
        &self,
        now: Time,
        tp: &TopicPartition,
        start: Offset,
        metadata: &Metadata,
    ) -> Result<HangingTransaction, Next> {
        let producers = self.learn_producers(std::slice::from_ref(tp), None, metadata)?;
        let found = producers.iter().find(|(_, state)| state.current_txn_start_offset == start.0);
        let Some((_, state)) = found else {
            let message =
                format!("Could not find any open transactions starting at offset {start} on partition {tp}");
            return Err(Next::Refused(ErrorCode::InvalidTxnState, message));
        };
        if !self.aborted {
            let (leader, _) = metadata.leader(tp).ok_or(Next::Metadata)?;
            return Err(Next::Ask(To::Broker(leader), Box::new(request::abort(tp, state))));
        }
        Ok(hanging_as(now, tp, state))
    }

    /// What became of the marker (`AbortTransactionHandler`).
    pub(super) fn hear_marked(&mut self, answer: &WriteTxnMarkersResponse) -> Heard {
        let Some((tp, error)) = answer.errors.values().flatten().next() else {
            return refused(ErrorCode::UnknownServerError, "the answer".to_owned());
        };
        match error {
            ErrorCode::None => {
                self.aborted = true;
                Heard::Taken
            }
            ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::BrokerNotAvailable
            | ErrorCode::UnknownTopicOrPartition => Heard::Again,
            error => refused(*error, tp.to_string()),
        }
    }

    /// Asks one leader after the other, or the broker that is to be asked, for what is not known of their partitions
    /// (`PartitionLeaderStrategy`, `StaticBrokerStrategy`).
    pub(super) fn learn_producers(
        &self,
        partitions: &[TopicPartition],
        broker: Option<BrokerId>,
        metadata: &Metadata,
    ) -> Result<Vec<(TopicPartition, ProducerState)>, Next> {
        let leader = |tp: &TopicPartition| broker.or_else(|| metadata.leader(tp).map(|(leader, _)| leader));
        let unknown = || partitions.iter().filter(|tp| !self.producers.contains_key(*tp));
        if let Some(first) = unknown().next() {
            let node: BrokerId = leader(first).ok_or(Next::Metadata)?;
            let of_node: Vec<TopicPartition> =
                unknown().filter(|tp| leader(tp) == Some(node)).cloned().collect();
            return Err(Next::Ask(To::Broker(node), Box::new(request::producers(&of_node))));
        }
        let of = |tp: &TopicPartition| {
            let states = self.producers.get(tp).into_iter().flatten();
            states.map(|state| (tp.clone(), state.clone())).collect::<Vec<_>>()
        };
        Ok(partitions.iter().flat_map(of).collect())
    }
}

/// The partitions to look at: of a topic or of all those of which the broker has replicas. A topic that does not exist is
/// refused.
fn within(area: &Area, metadata: &Metadata) -> Result<Vec<TopicPartition>, Next> {
    let all = match area {
        Area::Partition(tp, _) => return Ok(vec![tp.clone()]),
        Area::Topic(topic, _) => of_topic(topic, metadata)?,
        Area::Broker(_) => {
            let of = |topic| of_topic(topic, metadata);
            metadata.topics().keys().map(of).collect::<Result<Vec<_>, Next>>()?.concat()
        }
    };
    let is_there = |tp: &TopicPartition| {
        let replicas = metadata.partition(tp).map(|partition| &partition.replicas);
        area.broker().is_none_or(|broker| replicas.is_some_and(|replicas| replicas.contains(&broker)))
    };
    Ok(all.into_iter().filter(is_there).collect())
}

fn of_topic(topic: &Topic, metadata: &Metadata) -> Result<Vec<TopicPartition>, Next> {
    match metadata.topic(topic) {
        Some(known) if known.error == ErrorCode::UnknownTopicOrPartition => {
            Err(Next::Refused(known.error, format!("topic {topic} does not exist")))
        }
        Some(known) if known.error.is_ok() => {
            Ok(known.partitions.keys().map(|number| TopicPartition::new(topic, *number)).collect())
        }
        _ => Err(Next::Metadata),
    }
}

fn id_of(state: &ProducerState) -> ProducerId {
    ProducerId(state.producer_id.0)
}

fn hanging_as(now: Time, tp: &TopicPartition, state: &ProducerState) -> HangingTransaction {
    HangingTransaction {
        tp: tp.clone(),
        producer: id_of(state),
        epoch: ProducerEpoch(state.producer_epoch as i16),
        start: Offset(state.current_txn_start_offset),
        wrote_ms_ago: now.wall_ms() - state.last_timestamp,
    }
}
