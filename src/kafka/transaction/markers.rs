//! Markers on their way from the coordinator to the leaders of a transaction's partitions (R-TXN-19).
//!
//! Mirrors `TransactionMarkerChannelManager`: what goes to one broker is one request at a time; what was not written is
//! tried for ever, as long as the coordinator is this one.
//!
//! **Invariant:** a transaction that is prepared here has markers queued or in flight for each of its partitions, or its
//! completion is being written or waits to be.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::TransactionFacts;
use crate::kafka::types::{BrokerId, ProducerEpoch, ProducerId, TopicPartition, TransactionalId};

/// Where the leader of a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Destination {
    Broker(BrokerId),
    /// There is none now, or it cannot be reached.
    Unknown,
    /// The partition is gone, and its marker needless.
    Gone,
}

/// The end of a transaction for partitions of one leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub coordinator_epoch: i32,
    pub committed: bool,
    pub partitions: BTreeSet<TopicPartition>,
    /// Of the client that ended the transaction.
    pub transaction_version: i16,
}

/// A decided transaction, and what is to be written when all markers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub id: TransactionalId,
    /// Of `__transaction_state`.
    pub partition: i32,
    pub coordinator_epoch: i32,
    pub facts: TransactionFacts,
}

/// A marker with the transaction that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerEntry {
    pub completion: Completion,
    pub marker: Marker,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Markers {
    /// By destination, in order.
    queues: BTreeMap<Destination, Vec<MarkerEntry>>,
    pending: BTreeMap<TransactionalId, Completion>,
    /// Completions that could not be written.
    unwritten: Vec<Completion>,
}

impl Markers {
    /// A transaction whose end is decided.
    pub fn begin(&mut self, completion: Completion) {
        self.pending.insert(completion.id.clone(), completion);
    }

    /// What waits for markers of this transaction, if it is this decision of it.
    pub fn is_pending(&self, completion: &Completion) -> bool {
        self.pending.get(&completion.id) == Some(completion)
    }

    /// The decision is another's, or all its markers are written.
    pub fn end(&mut self, completion: &Completion) {
        if self.is_pending(completion) {
            self.pending.remove(&completion.id);
        }
    }

    /// Queues a marker for each destination. Returns the partitions that are gone.
    pub fn queue(
        &mut self,
        completion: &Completion,
        marker: Marker,
        leader_of: &dyn Fn(&TopicPartition) -> Destination,
    ) -> BTreeSet<TopicPartition> {
        let mut by_destination: BTreeMap<Destination, BTreeSet<TopicPartition>> = BTreeMap::new();
        for tp in &marker.partitions {
            by_destination.entry(leader_of(tp)).or_default().insert(tp.clone());
        }
        let gone = by_destination.remove(&Destination::Gone).unwrap_or_default();
        for (destination, partitions) in by_destination {
            let marker = Marker { partitions, ..marker.clone() };
            let entry = MarkerEntry { completion: completion.clone(), marker };
            self.queues.entry(destination).or_default().push(entry);
        }
        gone
    }

    /// Markers whose leader could not be told.
    pub fn take_unknown(&mut self) -> Vec<MarkerEntry> {
        self.queues.remove(&Destination::Unknown).unwrap_or_default()
    }

    pub fn has_unknown(&self) -> bool {
        self.queues.contains_key(&Destination::Unknown)
    }

    /// Brokers that have something to write.
    pub fn destinations(&self) -> impl Iterator<Item = BrokerId> {
        self.queues.keys().filter_map(|destination| match destination {
            Destination::Broker(broker) => Some(*broker),
            _ => None,
        })
    }

    /// Everything for one broker.
    pub fn take(&mut self, broker: BrokerId) -> Vec<MarkerEntry> {
        self.queues.remove(&Destination::Broker(broker)).unwrap_or_default()
    }

    pub fn retry_completion(&mut self, completion: Completion) {
        self.unwritten.push(completion);
    }

    pub fn take_unwritten(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.unwritten)
    }

    pub fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Another coordinates this partition of `__transaction_state`, or this broker anew.
    pub fn forget(&mut self, partition: i32) {
        for queue in self.queues.values_mut() {
            queue.retain(|entry| entry.completion.partition != partition);
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        self.pending.retain(|_, completion| completion.partition != partition);
        self.unwritten.retain(|completion| completion.partition != partition);
    }
}
