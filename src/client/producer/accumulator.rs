//! The batches of a producer, queued for each partition (Kafka's `RecordAccumulator` and `BufferPool`).
//!
//! **Invariant:** a queue is in the order in which its batches must be written; retried batches stand in front. An empty
//! queue is not kept, so that looking for work costs what there is of it, however many partitions there are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use super::batch::{BatchId, Place, ProducerBatch, Shape};
use super::ratio::Ratio;
use crate::kafka::record::{NewRecord, size_upper_bound};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, TopicPartition};

#[derive(Clone, Debug)]
pub struct Accumulator {
    shape: Shape,
    linger_ms: i64,
    free_bytes: i64,
    next_id: i64,
    batches: BTreeMap<BatchId, Rc<ProducerBatch>>,
    queues: BTreeMap<TopicPartition, VecDeque<BatchId>>,
    /// Those that have no outcome, the oldest first.
    open: BTreeSet<(Time, BatchId)>,
}

/// Whether the first batch of a partition can be sent (R-PROD-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready(Cause),
    /// It lingers or backs off until then.
    At(Time),
}

/// What makes a batch ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Full,
    /// It takes no more records: the next one of its partition is begun.
    NextBegun,
    /// linger.ms is over.
    Lingered,
    /// Something ends the linger of all batches.
    Hurried,
}

/// buffer.memory has no room for another batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryExhausted;

impl Accumulator {
    pub fn new(shape: Shape, linger_ms: i64, buffer_memory: i64) -> Accumulator {
        Accumulator {
            shape,
            linger_ms,
            free_bytes: buffer_memory,
            next_id: 0,
            batches: BTreeMap::new(),
            queues: BTreeMap::new(),
            open: BTreeSet::new(),
        }
    }

    /// Adds a record to the partition's last batch, or to a new one (R-PROD-2); gives the bytes that it took.
    pub fn append(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        record: &NewRecord<'_>,
    ) -> Result<i32, MemoryExhausted> {
        match self.try_append(tp, record) {
            Some(bytes) => Ok(bytes),
            None => self.append_new(now, tp, record),
        }
    }

    /// Adds a record to the partition's last batch if there is one with room, and closes it otherwise.
    pub fn try_append(&mut self, tp: &TopicPartition, record: &NewRecord<'_>) -> Option<i32> {
        let last = self.last(tp)?;
        let batch = self.batch_mut(last);
        let before_bytes = batch.size_bytes();
        batch.try_append(record).then(|| batch.size_bytes() - before_bytes)
    }

    /// Adds a record in a batch of its own; gives the bytes that the batch takes.
    pub fn append_new(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        record: &NewRecord<'_>,
    ) -> Result<i32, MemoryExhausted> {
        if !self.has_room(record) {
            return Err(MemoryExhausted);
        }
        let batch = ProducerBatch::new(now, tp.clone(), self.shape, record);
        let bytes = batch.size_bytes();
        let id = self.insert(batch);
        self.queues.entry(tp.clone()).or_default().push_back(id);
        Ok(bytes)
    }

    /// Whether buffer.memory has room for a new batch with this record.
    pub fn has_room(&self, record: &NewRecord<'_>) -> bool {
        i64::from(self.shape.bytes.max(size_upper_bound(record))) <= self.free_bytes
    }

    /// Whether none of the partition's waiting batches takes another record.
    pub fn all_full(&self, tp: &TopicPartition) -> bool {
        self.last(tp).is_none_or(|last| self.batch(last).is_full())
    }

    /// How many batches of the partition wait.
    pub fn queue_len(&self, tp: &TopicPartition) -> i32 {
        self.queues.get(tp).map_or(0, |queue| queue.len() as i32)
    }

    /// The batch of the partition that was begun last.
    pub fn last(&self, tp: &TopicPartition) -> Option<BatchId> {
        self.queues.get(tp)?.back().copied()
    }

    /// Another batch.size from now on.
    #[cfg(test)]
    pub fn limit_batches_to(&mut self, bytes: i32) {
        self.shape.bytes = bytes;
    }

    fn insert(&mut self, batch: ProducerBatch) -> BatchId {
        let id = BatchId(self.next_id);
        self.next_id += 1;
        self.free_bytes -= batch.allocated_bytes();
        self.open.insert((batch.created_at, id));
        self.batches.insert(id, Rc::new(batch));
        id
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub fn get(&self, id: BatchId) -> Option<&ProducerBatch> {
        self.batches.get(&id).map(Rc::as_ref)
    }

    /// A batch that is known to be here.
    pub fn batch(&self, id: BatchId) -> &ProducerBatch {
        self.get(id).expect("a batch stays until its outcome is known")
    }

    pub fn batch_mut(&mut self, id: BatchId) -> &mut ProducerBatch {
        Rc::make_mut(self.batches.get_mut(&id).expect("a batch stays until its outcome is known"))
    }

    /// All batches, the oldest first.
    pub fn batches(&self) -> impl Iterator<Item = (BatchId, &Rc<ProducerBatch>)> {
        self.batches.iter().map(|(id, batch)| (*id, batch))
    }

    /// When the oldest of the batches without an outcome was begun.
    pub fn oldest_open(&self) -> Option<Time> {
        self.open.first().map(|(created_at, _)| *created_at)
    }

    /// Those of the batches without an outcome that were begun by then, in the order of their numbers.
    pub fn open_since(&self, latest: Time) -> Vec<BatchId> {
        let old = self.open.iter().take_while(|(created_at, _)| *created_at <= latest);
        let mut ids: Vec<BatchId> = old.map(|(_, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// The batch has its outcome; only the answer to its request is still to come.
    pub fn give_up(&mut self, id: BatchId) {
        let batch = self.batch_mut(id);
        batch.place = Place::GivenUp;
        let created_at = batch.created_at;
        self.open.remove(&(created_at, id));
    }

    /// Whether the record that the partition got last ends the sender's wait: it began a batch or filled one, or others
    /// stand in front of it (`RecordAppendResult`).
    pub fn wakes_sender(&self, tp: &TopicPartition) -> bool {
        let Some(queue) = self.queues.get(tp) else { return true };
        let last = queue.back().map(|last| self.batch(*last));
        queue.len() > 1 || last.is_none_or(|last| last.record_count() == 1 || last.is_full())
    }

    /// Partitions that have batches to send.
    pub fn waiting(&self) -> impl Iterator<Item = &TopicPartition> {
        self.queues.keys()
    }

    pub fn first(&self, tp: &TopicPartition) -> Option<BatchId> {
        self.queues.get(tp)?.front().copied()
    }

    /// When the partition's first batch can be sent. `hurry`: a close, a flush or exhausted memory ends the linger.
    pub fn readiness(
        &self,
        now: Time,
        tp: &TopicPartition,
        leader_epoch: LeaderEpoch,
        hurry: bool,
    ) -> Option<Readiness> {
        let queue = self.queues.get(tp)?;
        let first = self.batch(*queue.front()?);
        if let Some(until) = first.backs_off_until(now, leader_epoch) {
            return Some(Readiness::At(until));
        }
        let lingers_until = first.created_at.plus_ms(self.linger_ms);
        Some(Readiness::Ready(match () {
            () if first.is_full() => Cause::Full,
            () if queue.len() > 1 => Cause::NextBegun,
            () if lingers_until <= now => Cause::Lingered,
            () if hurry => Cause::Hurried,
            () => return Some(Readiness::At(lingers_until)),
        }))
    }

    /// Takes the partition's first batch out of its queue.
    pub fn take_first(&mut self, tp: &TopicPartition) -> Option<BatchId> {
        let queue = self.queues.get_mut(tp)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(tp);
        }
        first
    }

    /// Compresses a batch that is about to be sent, and learns from it how well its records compress (R-PROD-5).
    pub fn close(&mut self, id: BatchId) {
        let ratio = self.batch_mut(id).close();
        self.shape.ratio = self.shape.ratio.learned(ratio);
    }

    /// What is left of buffer.memory.
    pub fn free_bytes(&self) -> i64 {
        self.free_bytes
    }

    /// How well records are expected to compress.
    pub fn ratio(&self) -> Ratio {
        self.shape.ratio
    }

    /// Puts a batch back in front (R-PROD-21). With sequence numbers it goes behind those that precede it, whatever
    /// order their failures came in.
    pub fn reenqueue(&mut self, id: BatchId) {
        let batch = self.batch(id);
        let (tp, base_sequence) = (batch.tp.clone(), batch.base_sequence());
        let precedes = |other: &&BatchId| {
            let other = self.batch(**other);
            other.sequence.is_some() && other.base_sequence() < base_sequence
        };
        let place = self.queues.get(&tp).map_or(0, |queue| queue.iter().take_while(precedes).count());
        self.queues.entry(tp).or_default().insert(place, id);
    }

    /// Replaces a batch in flight by smaller ones at the front of its queue (R-PROD-19); gives their ids in order.
    pub fn split(&mut self, id: BatchId) -> Vec<BatchId> {
        self.shape.ratio = Ratio::reset(self.batch_mut(id).close());
        let parts = self.batch(id).split(self.shape);
        self.remove(id);
        let ids: Vec<BatchId> = parts.into_iter().map(|part| self.insert(part)).collect();
        for id in ids.iter().rev() {
            self.reenqueue(*id);
        }
        ids
    }

    /// Forgets a batch whose outcome is known.
    pub fn remove(&mut self, id: BatchId) {
        let Some(batch) = self.batches.remove(&id) else { return };
        self.open.remove(&(batch.created_at, id));
        self.free_bytes += batch.allocated_bytes();
        if batch.place == Place::Queued
            && let Some(queue) = self.queues.get_mut(&batch.tp)
        {
            queue.retain(|queued| *queued != id);
            if queue.is_empty() {
                self.queues.remove(&batch.tp);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::producer::batch::Sequence;
    use crate::kafka::types::{ProducerEpoch, ProducerId};

    fn tp() -> TopicPartition {
        TopicPartition::new(&"orders".into(), 0)
    }

    fn append(accumulator: &mut Accumulator, now_ms: i64) -> Result<i32, MemoryExhausted> {
        let record =
            NewRecord { timestamp_ms: 0, key: Some(b"k"), value: Some(b"v"), ..NewRecord::default() };
        accumulator.append(Time::from_ms(now_ms), &tp(), &record)
    }

    fn check_ready(accumulator: &Accumulator, now_ms: i64, expected: Readiness) {
        let readiness = accumulator.readiness(Time::from_ms(now_ms), &tp(), LeaderEpoch(0), false);
        assert_eq!(readiness, Some(expected), "at {now_ms} ms");
    }

    #[test]
    fn a_batch_is_ready_when_it_lingered_or_another_waits_behind_it_r_prod_3() {
        let mut accumulator = Accumulator::new(Shape::plain(70), 5, 1000);
        append(&mut accumulator, 10).unwrap();
        check_ready(&accumulator, 14, Readiness::At(Time::from_ms(15)));
        check_ready(&accumulator, 15, Readiness::Ready(Cause::Lingered));
        for _ in 0..2 {
            append(&mut accumulator, 11).unwrap();
        }
        check_ready(&accumulator, 11, Readiness::Ready(Cause::Full));
    }

    #[test]
    fn a_record_wakes_the_sender_that_begins_or_fills_a_batch_or_stands_behind_one() {
        let mut accumulator = Accumulator::new(Shape::plain(100), 5, 1000);
        let wakes = |accumulator: &mut Accumulator| {
            append(accumulator, 0).unwrap();
            accumulator.wakes_sender(&tp())
        };
        let woken: Vec<bool> = (0..4).map(|_| wakes(&mut accumulator)).collect();
        assert_eq!(woken, [true, false, false, false], "four records fit into the first batch");
        assert!(wakes(&mut accumulator), "the second is begun");
        assert!(wakes(&mut accumulator), "the first stands before it");
        accumulator.take_first(&tp());
        assert!(!wakes(&mut accumulator));
    }

    #[test]
    fn those_that_are_open_are_known_from_the_oldest_on() {
        let mut accumulator = Accumulator::new(Shape::plain(0), 0, 1_000_000);
        for now_ms in [10, 10, 20, 30, 30] {
            append(&mut accumulator, now_ms).unwrap();
        }
        let ids: Vec<BatchId> = accumulator.batches().map(|(id, _)| id).collect();
        let open_since = |accumulator: &Accumulator, ms| accumulator.open_since(Time::from_ms(ms));
        assert!(open_since(&accumulator, 9).is_empty());
        assert_eq!(open_since(&accumulator, 30), ids);
        accumulator.give_up(ids[0]);
        assert_eq!(accumulator.batches().count(), ids.len(), "its answer is still to come");
        assert!(!open_since(&accumulator, 30).contains(&ids[0]));
        ids[1..].iter().for_each(|id| accumulator.remove(*id));
        assert_eq!(accumulator.oldest_open(), None);
    }

    #[test]
    fn a_hurry_ends_the_linger_r_prod_3() {
        let mut accumulator = Accumulator::new(Shape::plain(1000), 5, 1000);
        append(&mut accumulator, 10).unwrap();
        let hurried = accumulator.readiness(Time::from_ms(11), &tp(), LeaderEpoch(0), true);
        assert_eq!(hurried, Some(Readiness::Ready(Cause::Hurried)));
    }

    #[test]
    fn memory_is_taken_a_batch_at_a_time_and_given_back_r_prod_2() {
        let mut accumulator = Accumulator::new(Shape::plain(100), 5, 200);
        for _ in 0..5 {
            append(&mut accumulator, 0).unwrap();
        }
        assert_eq!(accumulator.batches().count(), 2, "four records fit into the first batch");
        while append(&mut accumulator, 0).is_ok() {}
        assert_eq!(accumulator.batches().count(), 2);
        let first = accumulator.first(&tp()).unwrap();
        accumulator.remove(first);
        assert!(append(&mut accumulator, 0).is_ok());
    }

    #[test]
    fn retried_batches_return_in_the_order_of_their_sequences_r_prod_21() {
        let mut accumulator = Accumulator::new(Shape::plain(0), 0, 1_000_000);
        // Two of these records fit into the room that one may need at most.
        for _ in 0..8 {
            append(&mut accumulator, 0).unwrap();
        }
        let drained: Vec<BatchId> = (0..3).map(|_| accumulator.take_first(&tp()).unwrap()).collect();
        for (base, id) in (0..).zip(&drained) {
            let sequence = Sequence { producer: ProducerId(1), epoch: ProducerEpoch(0), base };
            accumulator.batch_mut(*id).sequence = Some(sequence);
        }
        for id in [drained[1], drained[0], drained[2]] {
            accumulator.reenqueue(id);
        }
        let order: Vec<BatchId> = (0..3).map(|_| accumulator.take_first(&tp()).unwrap()).collect();
        assert_eq!(order, drained);
    }
}
