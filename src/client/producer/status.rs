//! What can be seen of a producer from outside: its counts, its batches, and what it waits for.
//!
//! **Invariant:** looking changes nothing.

use super::batch::Place;
use super::{Application, Counts, Phase, Producer};
use crate::client::config::producer::ProducerConfig;
use crate::client::metadata::{Metadata, main_peer};
use crate::client::producer::workload::ProducerSpec;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, ProducerEpoch, ProducerId, Topic, TopicPartition};

/// A batch without an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchStatus {
    pub tp: TopicPartition,
    pub records: i32,
    pub size_bytes: i32,
    pub created_at: Time,
    /// Failed attempts.
    pub attempts: i32,
    /// NO_SEQUENCE before the first attempt, and without idempotence.
    pub base_sequence: i32,
    pub state: BatchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// In its queue.
    Waiting,
    BackingOff {
        until: Time,
    },
    InFlight,
    /// Failed already; only the answer to its request is still to come.
    GivenUp,
}

/// Something that holds a producer up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The topic's partitions are not known; the error of the last answer, if there was one.
    Metadata(Topic, ErrorCode),
    /// buffer.memory is full.
    Memory,
    ProducerId,
    Leader(TopicPartition),
    /// The leader has no connection.
    Connection(BrokerId),
}

impl Producer {
    /// What it was written down as; `None` for one that another program drives.
    pub fn spec(&self) -> Option<&ProducerSpec> {
        match &self.application {
            Application::Workload { spec, .. } => Some(spec),
            Application::Calls => None,
        }
    }

    pub fn config(&self) -> &ProducerConfig {
        &self.config
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The producer's id and epoch, once it has them.
    pub fn identity(&self) -> Option<(ProducerId, ProducerEpoch)> {
        self.sequences.as_ref().and_then(|sequences| sequences.identity())
    }

    /// The batches without an outcome, the oldest first.
    pub fn batches(&self, now: Time) -> impl Iterator<Item = BatchStatus> {
        self.accumulator.batches().map(move |(_, batch)| {
            let epoch = self.metadata.leader_epoch(&batch.tp).unwrap_or(LeaderEpoch::NONE);
            let state = match (batch.place, batch.backs_off_until(now, epoch)) {
                (Place::InFlight, _) => BatchState::InFlight,
                (Place::GivenUp, _) => BatchState::GivenUp,
                (Place::Queued, Some(until)) => BatchState::BackingOff { until },
                (Place::Queued, None) => BatchState::Waiting,
            };
            BatchStatus {
                tp: batch.tp.clone(),
                records: batch.record_count(),
                size_bytes: batch.size_bytes(),
                created_at: batch.created_at,
                attempts: batch.attempts,
                base_sequence: batch.base_sequence(),
                state,
            }
        })
    }

    /// What holds the producer up, the application's own wait first.
    pub fn waits_for(&self) -> Vec<Waiting> {
        let mut waits = Vec::new();
        match &self.blocked {
            Some(blocked) if blocked.for_memory() => waits.push(Waiting::Memory),
            Some(blocked) => {
                let topic = &blocked.message.topic;
                let error = self.metadata.topic(topic).map_or(ErrorCode::None, |topic| topic.error);
                waits.push(Waiting::Metadata(topic.clone(), error));
            }
            None => {}
        }
        if self.sequences.is_some() && self.identity().is_none() {
            waits.push(Waiting::ProducerId);
            return waits;
        }
        for tp in self.accumulator.waiting() {
            let wait = match self.metadata.leader(tp) {
                None => Waiting::Leader(tp.clone()),
                Some((leader, _)) if !self.network.is_connected(main_peer(leader)) => {
                    Waiting::Connection(leader)
                }
                Some(_) => continue,
            };
            if !waits.contains(&wait) {
                waits.push(wait);
            }
        }
        waits
    }
}
