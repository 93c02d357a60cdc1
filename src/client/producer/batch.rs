//! One batch of a producer, from its first record to its outcome (Kafka's `ProducerBatch`).
//!
//! **Invariant:** a batch that was drained once takes no more records, and keeps its sequence number however often it is
//! sent, unless the producer starts a new epoch (R-PROD-24, R-PROD-30).

use bytes::Bytes;

use super::ratio::Ratio;
use crate::client::config::producer::ProducerConfig;
use crate::kafka::record::{
    BatchBuilder, BatchParameters, Compression, HEADER_SIZE, NewRecord, increment_sequence, size_upper_bound,
};
use crate::kafka::time::Time;
pub use crate::kafka::types::BatchId;
use crate::kafka::types::{LeaderEpoch, ProducerEpoch, ProducerId, TopicPartition};

const HEADER_BYTES: i32 = HEADER_SIZE as i32;

/// What makes a batch known to the broker: R-PROD-24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence {
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    /// Of the first record.
    pub base: i32,
}

/// What new batches are like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// batch.size.
    pub bytes: i32,
    pub compression: Compression,
    pub gzip_level: Option<u32>,
    /// How well the records are expected to compress.
    pub ratio: Ratio,
}

impl Shape {
    pub fn of(config: &ProducerConfig) -> Shape {
        let (bytes, compression) = (config.batch_size, config.compression);
        Shape { bytes, compression, gzip_level: config.gzip_level, ratio: Ratio::INITIAL }
    }

    /// Without compression.
    #[cfg(test)]
    pub fn plain(bytes: i32) -> Shape {
        Shape { bytes, compression: Compression::None, gzip_level: None, ratio: Ratio::INITIAL }
    }
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Queued,
    InFlight,
    /// Failed at its delivery timeout while its request was on the way; the answer still tells something (R-PROD-18).
    GivenUp,
}

/// Why a batch waits before it is sent again (R-PROD-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Retry {
    not_before: Time,
    /// The leader epoch that was known at the failed attempt; a newer one ends the wait.
    tried_epoch: LeaderEpoch,
}

#[derive(Clone, Debug)]
pub struct ProducerBatch {
    pub tp: TopicPartition,
    pub created_at: Time,
    pub place: Place,
    /// Failed attempts.
    pub attempts: i32,
    pub sequence: Option<Sequence>,
    /// The sequence was given anew by an epoch bump since the batch was last sent.
    pub sequence_reset: bool,
    records: BatchBuilder,
    shape: Shape,
    write_limit_bytes: i32,
    /// The most that a record of it could need in a batch of its own.
    largest_bytes: i32,
    /// Bytes of the records before compression, once they are compressed.
    plain_bytes: Option<i32>,
    closed: bool,
    is_split: bool,
    retry: Option<Retry>,
    sent_epoch: LeaderEpoch,
}

impl ProducerBatch {
    /// A batch that has room for batch.size bytes, or for this one record (R-PROD-5).
    pub fn new(now: Time, tp: TopicPartition, shape: Shape, first: &NewRecord<'_>) -> ProducerBatch {
        let Shape { compression, gzip_level, .. } = shape;
        let mut records =
            BatchBuilder::with(BatchParameters { compression, gzip_level, ..BatchParameters::default() });
        records.append(first);
        ProducerBatch {
            tp,
            created_at: now,
            place: Place::Queued,
            attempts: 0,
            sequence: None,
            sequence_reset: false,
            records,
            shape,
            write_limit_bytes: shape.bytes.max(size_upper_bound(first)),
            largest_bytes: size_upper_bound(first),
            plain_bytes: None,
            closed: false,
            is_split: false,
            retry: None,
            sent_epoch: LeaderEpoch::NONE,
        }
    }

    /// Takes the record if the batch is open and has room; closes the batch otherwise (R-PROD-2). Nobody knows how well a
    /// record compresses that is yet to come (R-PROD-5).
    pub fn try_append(&mut self, record: &NewRecord<'_>) -> bool {
        let more_bytes = self.records.size_with(record) - self.records.size_bytes();
        self.closed |= self.is_full() || self.size_bytes() + more_bytes > self.write_limit_bytes;
        if !self.closed {
            self.records.append(record);
            self.largest_bytes = self.largest_bytes.max(size_upper_bound(record));
        }
        !self.closed
    }

    /// Compresses the records; there will be no more. Gives how well they compressed.
    pub fn close(&mut self) -> Ratio {
        self.closed = true;
        let plain_bytes = *self.plain_bytes.get_or_insert(self.records.size_bytes() - HEADER_BYTES);
        self.records.close();
        Ratio::of(self.records.size_bytes() - HEADER_BYTES, plain_bytes)
    }

    /// Bytes of its records before compression.
    pub fn plain_bytes(&self) -> i32 {
        self.plain_bytes.unwrap_or(self.records.size_bytes() - HEADER_BYTES)
    }

    pub fn is_full(&self) -> bool {
        self.closed || self.size_bytes() >= self.write_limit_bytes
    }

    pub fn record_count(&self) -> i32 {
        self.records.record_count()
    }

    /// Exact without compression and once the records are compressed, else an estimate (R-PROD-5).
    pub fn size_bytes(&self) -> i32 {
        match (self.shape.compression, self.plain_bytes) {
            (Compression::None, _) | (_, Some(_)) => self.records.size_bytes(),
            _ => HEADER_BYTES + self.shape.ratio.estimate(self.records.size_bytes() - HEADER_BYTES),
        }
    }

    /// What the batch takes of buffer.memory.
    pub fn allocated_bytes(&self) -> i64 {
        if self.is_split { 0 } else { self.write_limit_bytes.into() }
    }

    pub fn base_sequence(&self) -> i32 {
        self.sequence.map_or(crate::kafka::record::NO_SEQUENCE, |sequence| sequence.base)
    }

    pub fn last_sequence(&self) -> i32 {
        increment_sequence(self.base_sequence(), self.record_count() - 1)
    }

    /// The bytes as they are sent, in a transaction or not.
    pub fn encode(&self, transactional: bool) -> Bytes {
        let producer = self.sequence.map(|sequence| (sequence.producer, sequence.epoch, sequence.base));
        self.records.clone().transactional(transactional).finish(producer).into_bytes()
    }

    pub fn on_sent(&mut self, leader_epoch: LeaderEpoch) {
        self.place = Place::InFlight;
        self.closed = true;
        self.sequence_reset = false;
        self.retry = None;
        self.sent_epoch = leader_epoch;
    }

    pub fn on_retry(&mut self, not_before: Time) {
        self.place = Place::Queued;
        self.attempts += 1;
        self.retry = Some(Retry { not_before, tried_epoch: self.sent_epoch });
    }

    /// An epoch bump numbers the batch anew.
    pub fn reset_sequence(&mut self, sequence: Sequence) {
        self.sequence = Some(sequence);
        self.sequence_reset = true;
    }

    /// Until when the batch backs off, with `leader_epoch` the one that is known now (R-PROD-17, R-REPL-67).
    pub fn backs_off_until(&self, now: Time, leader_epoch: LeaderEpoch) -> Option<Time> {
        let retry = self.retry.filter(|retry| leader_epoch <= retry.tried_epoch)?;
        (retry.not_before > now).then_some(retry.not_before)
    }

    /// The same records in batches of this shape, with the sequence numbers they have here (R-PROD-19). A batch that came
    /// out of a split is halved, whatever batch.size says.
    pub fn split(&self, mut shape: Shape) -> Vec<ProducerBatch> {
        if self.is_split {
            shape.bytes = self.largest_bytes.max(self.size_bytes() / 2);
        }
        let records = self.records.clone().finish(None).records().expect("the batch was built here");
        let mut parts: Vec<ProducerBatch> = Vec::new();
        for record in &records {
            let record = NewRecord {
                timestamp_ms: record.timestamp_ms,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &record.headers,
            };
            if parts.last_mut().is_none_or(|last| !last.try_append(&record)) {
                parts.push(ProducerBatch::new(self.created_at, self.tp.clone(), shape, &record));
            }
        }
        let mut sequence = self.sequence;
        for part in &mut parts {
            part.closed = true;
            part.is_split = true;
            part.sequence = sequence;
            sequence =
                sequence.map(|s| Sequence { base: increment_sequence(s.base, part.record_count()), ..s });
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: &[u8]) -> NewRecord<'_> {
        NewRecord { timestamp_ms: 1000, key: Some(b"k"), value: Some(value), ..NewRecord::default() }
    }

    fn batch(batch_size: i32, values: &[&[u8]]) -> ProducerBatch {
        let tp = TopicPartition::new(&"orders".into(), 0);
        let mut batch = ProducerBatch::new(Time::ZERO, tp, Shape::plain(batch_size), &record(values[0]));
        for value in &values[1..] {
            assert!(batch.try_append(&record(value)));
        }
        batch
    }

    #[test]
    fn a_record_that_does_not_fit_closes_the_batch_r_prod_2() {
        let mut batch = batch(200, &[b"x"]);
        assert!(!batch.is_full());
        assert!(!batch.try_append(&record(&[0; 200])));
        assert!(batch.is_full());
        assert!(!batch.try_append(&record(b"x")));
    }

    #[test]
    fn a_record_larger_than_batch_size_has_its_own_batch_r_prod_5() {
        let mut alone = batch(0, &[b"x"]);
        assert!(!alone.try_append(&record(&[0; 20])));
        assert_eq!(batch(0, &[&[0; 500]]).record_count(), 1);
    }

    #[test]
    fn a_newer_leader_epoch_ends_the_back_off_r_prod_17() {
        let mut batch = batch(200, &[b"x"]);
        batch.on_sent(LeaderEpoch(3));
        batch.on_retry(Time::from_ms(100));
        assert_eq!(batch.backs_off_until(Time::ZERO, LeaderEpoch(3)), Some(Time::from_ms(100)));
        assert_eq!(batch.backs_off_until(Time::from_ms(100), LeaderEpoch(3)), None);
        assert_eq!(batch.backs_off_until(Time::ZERO, LeaderEpoch(4)), None);
    }

    #[test]
    fn the_parts_of_a_split_batch_carry_on_its_sequence_r_prod_19() {
        let value = [7; 40];
        let mut whole = batch(1000, &[&value, &value, &value, &value, &value]);
        whole.sequence = Some(Sequence { producer: ProducerId(9), epoch: ProducerEpoch(1), base: i32::MAX });
        let parts = whole.split(Shape::plain(170));
        let counts: Vec<_> = parts.iter().map(|part| (part.base_sequence(), part.record_count())).collect();
        assert_eq!(counts, [(i32::MAX, 2), (1, 2), (3, 1)]);
        let halves = parts[0].split(Shape::plain(170));
        assert_eq!(halves.len(), 2);
        assert_eq!((halves[0].base_sequence(), halves[1].base_sequence()), (i32::MAX, 0));
    }
}
