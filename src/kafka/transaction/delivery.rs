//! What the coordinator does with markers that were written, refused or lost (R-TXN-19).
//!
//! Mirrors `TransactionMarkerRequestCompletionHandler` and the sender's loop.
//!
//! **Invariant:** an answer for a decision that no longer stands changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::markers::MarkerEntry;
use super::shard::Shard;
use super::{Around, TransactionCoordinator, TransactionEffects};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{BrokerId, ProducerId, TopicPartition};

/// By producer id, what became of its marker in each partition.
pub type MarkerErrors = BTreeMap<ProducerId, BTreeMap<TopicPartition, ErrorCode>>;

/// What an error of one partition means.
enum Fate {
    Written,
    Again,
    /// The producer or the coordinator is another by now, or the log can take no marker: nothing more is sent.
    Dropped,
}

fn fate(error: ErrorCode) -> Fate {
    use ErrorCode::*;
    match error {
        // Nothing can have been written to a log that takes no transactions.
        None | UnsupportedForMessageFormat | UnsupportedVersion => Fate::Written,
        UnknownTopicOrPartition
        | NotLeaderOrFollower
        | NotEnoughReplicas
        | NotEnoughReplicasAfterAppend
        | RequestTimedOut
        | KafkaStorageError => Fate::Again,
        _ => Fate::Dropped,
    }
}

impl TransactionCoordinator {
    /// Looks again for leaders that were not found and writes completions that were refused. Due whenever markers are
    /// about to be sent.
    pub fn refresh_markers(&mut self, around: Around<'_>, fx: &mut TransactionEffects) {
        let Around { now, new_id, leader_of } = around;
        for completion in self.markers.take_unwritten() {
            let around = Around { now, new_id: &mut *new_id, leader_of };
            self.at(around, completion.partition, fx, |shard, cx| {
                if shard.is_of(&completion) {
                    shard.write_completion(&completion, cx);
                }
            });
        }
        for entry in self.markers.take_unknown() {
            self.requeue(Around { now, new_id: &mut *new_id, leader_of }, entry, fx);
        }
    }

    /// Whether [`TransactionCoordinator::refresh_markers`] has something to try again.
    pub fn has_stuck_markers(&self) -> bool {
        self.markers.has_unknown() || self.markers.has_unwritten()
    }

    /// Brokers that have markers to write.
    pub fn marker_destinations(&self) -> BTreeSet<BrokerId> {
        self.markers.destinations().collect()
    }

    /// All markers for a broker, as one request.
    pub fn take_markers(&mut self, broker: BrokerId) -> Vec<MarkerEntry> {
        self.markers.take(broker)
    }

    /// A broker has answered the request of these markers.
    pub fn on_markers_answered(
        &mut self,
        around: Around<'_>,
        entries: Vec<MarkerEntry>,
        errors: &MarkerErrors,
        fx: &mut TransactionEffects,
    ) {
        let Around { now, new_id, leader_of } = around;
        for entry in entries {
            let around = Around { now, new_id: &mut *new_id, leader_of };
            match self.stands(&entry) {
                true => self.on_marker_answered(around, entry, errors, fx),
                false => self.markers.end(&entry.completion),
            }
        }
    }

    fn on_marker_answered(
        &mut self,
        around: Around<'_>,
        mut entry: MarkerEntry,
        errors: &MarkerErrors,
        fx: &mut TransactionEffects,
    ) {
        let of_producer = errors.get(&entry.marker.producer_id);
        let (mut written, mut again, mut dropped) = (BTreeSet::new(), BTreeSet::new(), false);
        for tp in std::mem::take(&mut entry.marker.partitions) {
            // A partition that the answer is silent about is asked for again.
            let error = of_producer.and_then(|errors| errors.get(&tp)).copied();
            match fate(error.unwrap_or(ErrorCode::RequestTimedOut)) {
                Fate::Written => drop(written.insert(tp)),
                Fate::Again => drop(again.insert(tp)),
                Fate::Dropped => dropped = true,
            }
        }
        if dropped {
            self.markers.end(&entry.completion);
        }
        let Around { now, new_id, leader_of } = around;
        let around = Around { now, new_id: &mut *new_id, leader_of };
        self.at(around, entry.completion.partition, fx, |shard, cx| {
            shard.on_written(&entry.completion, written.iter(), cx);
        });
        if !again.is_empty() && !dropped {
            entry.marker.partitions = again;
            self.requeue(Around { now, new_id, leader_of }, entry, fx);
        }
    }

    /// The connection broke before the broker answered.
    pub fn on_markers_lost(
        &mut self,
        around: Around<'_>,
        entries: Vec<MarkerEntry>,
        fx: &mut TransactionEffects,
    ) {
        let Around { now, new_id, leader_of } = around;
        for entry in entries {
            match self.stands(&entry) {
                true => self.requeue(Around { now, new_id: &mut *new_id, leader_of }, entry, fx),
                false => self.markers.end(&entry.completion),
            }
        }
    }

    fn stands(&self, entry: &MarkerEntry) -> bool {
        let shard = self.shards.get(&entry.completion.partition);
        shard.is_some_and(|shard: &Rc<Shard>| shard.is_of(&entry.completion))
    }

    fn requeue(&mut self, around: Around<'_>, entry: MarkerEntry, fx: &mut TransactionEffects) {
        let MarkerEntry { completion, marker } = entry;
        self.at(around, completion.partition, fx, |shard, cx| {
            let gone = match plant::is(Plant::MarkerLost) {
                true => marker.partitions,
                false => cx.markers.queue(&completion, marker, cx.leader_of),
            };
            shard.on_written(&completion, gone.iter(), cx);
        });
    }
}
