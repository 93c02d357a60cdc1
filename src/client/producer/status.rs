//! What can be seen of a producer from outside: its counts, its batches, and what it waits for.
//!
//! **Invariant:** looking changes nothing.

pub use super::accumulator::Cause;
use super::accumulator::Readiness;
use super::batch::{BatchId, Place, ProducerBatch};
use super::transaction_manager::TransactionManager;
use super::{Application, Counts, Phase, Producer};
use crate::client::config::producer::ProducerConfig;
use crate::client::metadata::{Metadata, main_peer};
use crate::client::producer::workload::ProducerSpec;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::HEADER_SIZE;
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

/// What the batches were like that have been sent, each counted once (Kafka's `producer-metrics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchMetrics {
    pub batches: i64,
    pub records: i64,
    /// Of the records alone, before compression.
    pub plain_bytes: i64,
    /// With headers, as sent (`batch-size-avg` times the batches).
    pub sent_bytes: i64,
    /// `batch-split-total`.
    pub splits: i64,
}

impl BatchMetrics {
    pub(super) fn note(&mut self, records: i32, plain_bytes: i32, sent_bytes: i32) {
        self.batches += 1;
        self.records += i64::from(records);
        self.plain_bytes += i64::from(plain_bytes);
        self.sent_bytes += i64::from(sent_bytes);
    }

    /// Records in a batch, in tenths; 0 before the first one.
    pub fn records_per_batch_tenths(&self) -> i64 {
        self.records * 10 / self.batches.max(1)
    }

    /// Compressed size by size before, without the headers, in thousandths (`compression-rate-avg`); 1000 before the
    /// first batch.
    pub fn compression_permille(&self) -> i64 {
        let headers_bytes = self.batches * HEADER_SIZE as i64;
        match self.plain_bytes {
            0 => 1000,
            plain_bytes => (self.sent_bytes - headers_bytes) * 1000 / plain_bytes,
        }
    }
}

/// Where the sticky partitioner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StickyStatus {
    pub partition: i32,
    /// What the partition got since its turn began.
    pub appended_bytes: i64,
    /// Bytes after which its turn ends when a batch is full.
    pub turn_bytes: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// Others of its partition go first.
    Behind,
    Lingering {
        until: Time,
    },
    BackingOff {
        until: Time,
    },
    /// It goes as soon as its leader can take it.
    Ready(Cause),
    InFlight,
    /// Failed already; only the answer to its request is still to come.
    GivenUp,
}

/// What ends the linger of all batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hurry {
    Close,
    /// A send() waits for buffer.memory.
    Memory,
    Flush,
    TransactionEnd,
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

    pub fn metrics(&self) -> BatchMetrics {
        self.metrics
    }

    /// How well records are expected to compress, in thousandths.
    pub fn expected_ratio_permille(&self) -> i32 {
        self.accumulator.ratio().permille()
    }

    /// `None` unless a record of the topic was sent that might go anywhere.
    pub fn sticky(&self, topic: &Topic) -> Option<StickyStatus> {
        let (partition, appended_bytes) = self.sticky_turn(topic)?;
        Some(StickyStatus { partition, appended_bytes, turn_bytes: self.config.batch_size.max(1) })
    }

    /// The application waits in `flush()`.
    pub fn is_in_flush(&self) -> bool {
        self.flush.is_some()
    }

    /// The producer's id and epoch, once it has them.
    pub fn identity(&self) -> Option<(ProducerId, ProducerEpoch)> {
        self.sequences.as_ref().and_then(|sequences| sequences.identity())
    }

    /// The batches without an outcome, the oldest first.
    pub fn batches(&self, now: Time) -> impl Iterator<Item = BatchStatus> {
        let hurry = self.hurries();
        self.accumulator.batches().map(move |(id, batch)| BatchStatus {
            tp: batch.tp.clone(),
            records: batch.record_count(),
            size_bytes: batch.size_bytes(),
            created_at: batch.created_at,
            attempts: batch.attempts,
            base_sequence: batch.base_sequence(),
            state: self.batch_state(now, id, batch, hurry),
        })
    }

    fn batch_state(&self, now: Time, id: BatchId, batch: &ProducerBatch, hurry: bool) -> BatchState {
        let epoch = self.metadata.leader_epoch(&batch.tp).unwrap_or(LeaderEpoch::NONE);
        match (batch.place, batch.backs_off_until(now, epoch)) {
            (Place::InFlight, _) => BatchState::InFlight,
            (Place::GivenUp, _) => BatchState::GivenUp,
            (Place::Queued, Some(until)) => BatchState::BackingOff { until },
            (Place::Queued, None) if self.accumulator.first(&batch.tp) != Some(id) => BatchState::Behind,
            (Place::Queued, None) => match self.accumulator.readiness(now, &batch.tp, epoch, hurry) {
                Some(Readiness::At(until)) => BatchState::Lingering { until },
                Some(Readiness::Ready(cause)) => BatchState::Ready(cause),
                None => BatchState::Behind,
            },
        }
    }

    /// What is left of buffer.memory, in bytes.
    pub fn free_buffer_bytes(&self) -> i64 {
        self.accumulator.free_bytes()
    }

    /// Requests that wait for an answer, by broker; only those that have any.
    pub fn requests_in_flight(&self) -> Vec<(BrokerId, i32)> {
        let brokers = self.metadata.nodes().map(|broker| (broker, self.network.in_flight(main_peer(broker))));
        brokers.filter(|(_, requests)| *requests > 0).collect()
    }

    /// The next batch's first sequence number of each partition that got any; nothing without idempotence.
    pub fn next_sequences(&self) -> impl Iterator<Item = (&TopicPartition, i32)> {
        self.sequences.iter().flat_map(|sequences| sequences.next())
    }

    /// `None` without `transactional.id`.
    pub fn transaction_manager(&self) -> Option<&TransactionManager> {
        self.transactions.as_ref()
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
