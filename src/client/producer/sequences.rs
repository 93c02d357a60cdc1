//! The sequence numbers of an idempotent producer (the half of Kafka's `TransactionManager` that knows no transactions).
//!
//! **Invariant:** batches of one partition are sent with consecutive sequence numbers in one epoch; where that cannot be
//! kept up, the partition starts again at 0 in a new epoch (R-PROD-29, R-PROD-30).

use std::collections::{BTreeMap, BTreeSet};

use super::batch::{BatchId, ProducerBatch, Sequence};
use crate::kafka::partition_map::PartitionMap;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::increment_sequence;
use crate::kafka::transaction::ProducerIdAndEpoch;
use crate::kafka::types::{ProducerEpoch, ProducerId, TopicPartition};

type Identity = (ProducerId, ProducerEpoch);

#[derive(Clone, Debug, Default)]
pub struct Sequences {
    identity: Option<Identity>,
    partitions: PartitionMap<TopicPartition, PartitionSequences>,
    /// Partitions of which a batch expired without a known outcome, and the sequence after it (R-PROD-18).
    unresolved: BTreeMap<TopicPartition, i32>,
    /// Partitions that start again at 0 as soon as the epoch is raised.
    to_restart: BTreeSet<TopicPartition>,
    /// A transactional producer aborts its transaction where others raise their epoch themselves.
    is_transactional: bool,
}

#[derive(Clone, Debug, Default)]
struct PartitionSequences {
    /// What the numbers below belong to.
    identity: Option<Identity>,
    next: i32,
    last_acknowledged: Option<i32>,
    /// Batches with a sequence whose outcome is open, in order: sent, or waiting to be sent again.
    open: Vec<OpenBatch>,
}

#[derive(Clone, Copy, Debug)]
struct OpenBatch {
    id: BatchId,
    base: i32,
    records: i32,
}

impl PartitionSequences {
    /// Whether `sequence` follows directly on the last acknowledged one.
    fn is_next(&self, sequence: i32) -> bool {
        sequence.wrapping_sub(self.last_acknowledged.unwrap_or(-1)) == 1
    }

    /// Numbers the open batches from 0 in `identity`; gives their new sequences.
    fn restart(&mut self, identity: Identity) -> Vec<(BatchId, Sequence)> {
        self.identity = Some(identity);
        self.next = 0;
        self.last_acknowledged = None;
        let (producer, epoch) = identity;
        let renumber = |batch: &mut OpenBatch| {
            batch.base = self.next;
            self.next = increment_sequence(self.next, batch.records);
            (batch.id, Sequence { producer, epoch, base: batch.base })
        };
        self.open.iter_mut().map(renumber).collect()
    }

    /// A batch was certainly not written: those behind it move up (`adjustSequencesDueToFailedBatch`).
    fn close_gap(&mut self, base: i32, records: i32) -> Vec<(BatchId, Sequence)> {
        let Some((producer, epoch)) = self.identity else { return Vec::new() };
        self.next -= records;
        let behind = self.open.iter_mut().filter(|batch| batch.base >= base);
        let renumber = |batch: &mut OpenBatch| {
            batch.base -= records;
            (batch.id, Sequence { producer, epoch, base: batch.base })
        };
        behind.map(renumber).collect()
    }
}

impl Sequences {
    pub fn new(is_transactional: bool) -> Sequences {
        Sequences { is_transactional, ..Sequences::default() }
    }

    /// The producer's id and epoch, NONE before it has them.
    pub fn producer(&self) -> ProducerIdAndEpoch {
        let (id, epoch) = self.identity.unwrap_or((ProducerId::NONE, ProducerEpoch::NONE));
        ProducerIdAndEpoch { id, epoch }
    }

    pub fn is_transactional(&self) -> bool {
        self.is_transactional
    }

    /// A new epoch begins everywhere at 0, and nothing is in doubt any more.
    pub fn reset(&mut self) {
        self.partitions = PartitionMap::default();
        self.unresolved.clear();
    }

    pub fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// InitProducerId was answered (R-PROD-23).
    pub fn set_identity(&mut self, producer: ProducerId, epoch: ProducerEpoch) {
        self.identity = Some((producer, epoch));
    }

    /// The next sequence number of each partition in the present epoch.
    pub fn next(&self) -> impl Iterator<Item = (&TopicPartition, i32)> {
        let own =
            |(_, partition): &(&TopicPartition, &PartitionSequences)| partition.identity == self.identity;
        self.partitions.iter().filter(own).map(|(tp, partition)| (tp, partition.next))
    }

    /// Whether the partition's first batch may be sent: there is a producer id, the earlier epoch's batches are through,
    /// no outcome is in doubt, and of batches that are sent again only the first is under way.
    pub fn may_send(&self, batch: &ProducerBatch) -> bool {
        if self.identity.is_none() {
            return false;
        }
        let Some(partition) = self.partitions.get(&batch.tp) else { return true };
        match batch.sequence {
            None => {
                let stale = partition.identity != self.identity && !partition.open.is_empty();
                !stale && !self.unresolved.contains_key(&batch.tp)
            }
            Some(sequence) => partition.open.first().is_none_or(|first| first.base == sequence.base),
        }
    }

    /// The sequence of a batch that is sent for the first time (R-PROD-24).
    pub fn assign(&mut self, id: BatchId, tp: &TopicPartition, records: i32) -> Sequence {
        let (producer, epoch) = self.identity.expect("may_send() saw a producer id");
        let partition = self.partitions.get_or_insert_with(tp, PartitionSequences::default);
        if partition.identity != self.identity {
            assert!(partition.open.is_empty(), "may_send() lets the earlier epoch's batches finish");
            partition.restart((producer, epoch));
        }
        let base = partition.next;
        partition.next = increment_sequence(base, records);
        partition.open.push(OpenBatch { id, base, records });
        Sequence { producer, epoch, base }
    }

    /// The parts of a split batch take its place (R-PROD-19).
    pub fn replace(&mut self, whole: BatchId, tp: &TopicPartition, parts: &[(BatchId, i32, i32)]) {
        let Some(partition) = self.partitions.get_mut(tp) else { return };
        let Some(place) = partition.open.iter().position(|batch| batch.id == whole) else { return };
        let parts = parts.iter().map(|&(id, base, records)| OpenBatch { id, base, records });
        partition.open.splice(place..=place, parts);
    }

    pub fn on_acknowledged(&mut self, id: BatchId, batch: &ProducerBatch) {
        let Some(partition) = self.partitions.get_mut(&batch.tp) else { return };
        let last = batch.last_sequence();
        partition.last_acknowledged = Some(partition.last_acknowledged.map_or(last, |known| known.max(last)));
        partition.open.retain(|open| open.id != id);
    }

    /// Whether a batch that was answered with `error` is sent again (R-PROD-17, R-PROD-29). May ask for a new epoch.
    pub fn can_retry(&mut self, batch: &ProducerBatch, error: ErrorCode) -> bool {
        let unresolved = self.unresolved.get(&batch.tp).copied();
        match error {
            ErrorCode::OutOfOrderSequenceNumber => {
                let partition = self.partitions.get(&batch.tp);
                let is_next = partition.is_none_or(|partition| partition.is_next(batch.base_sequence()));
                // Not the next one: an earlier batch is still to be sent again, and this one only has to wait for it.
                let waits_for_earlier = unresolved.is_none() && (batch.sequence_reset || !is_next);
                let leaves_gap = unresolved.is_none_or(|next| next == batch.base_sequence());
                if self.is_transactional {
                    return waits_for_earlier;
                }
                if !waits_for_earlier && leaves_gap {
                    self.to_restart.insert(batch.tp.clone());
                }
                true
            }
            ErrorCode::UnknownProducerId => {
                // Raised by no broker of this version (R-PROD-31), but answered as the client does.
                if self.is_transactional {
                    return batch.sequence_reset;
                }
                if !batch.sequence_reset {
                    self.to_restart.insert(batch.tp.clone());
                }
                true
            }
            error => error.is_retriable(),
        }
    }

    /// A batch failed for good. `restarts`: its sequence was certainly not written, so that the next ones cannot follow
    /// on it (R-PROD-30). In a transaction they move up instead: their new sequences are the answer.
    pub fn on_failed(
        &mut self,
        id: BatchId,
        batch: &ProducerBatch,
        restarts: bool,
    ) -> Vec<(BatchId, Sequence)> {
        let mut partition = self.partitions.get_mut(&batch.tp);
        if let Some(partition) = &mut partition {
            partition.open.retain(|open| open.id != id);
        }
        match (partition, batch.sequence) {
            (Some(partition), Some(sequence)) if restarts && self.is_transactional => {
                return partition.close_gap(sequence.base, batch.record_count());
            }
            _ if restarts && !self.is_transactional => drop(self.to_restart.insert(batch.tp.clone())),
            _ => {}
        }
        Vec::new()
    }

    /// A batch expired that was sent at least once before: it may have been written, and nobody will know (R-PROD-18).
    pub fn on_expired(&mut self, id: BatchId, batch: &ProducerBatch) {
        self.on_failed(id, batch, false);
        if batch.attempts > 0 && batch.sequence.is_some() {
            let next = increment_sequence(batch.last_sequence(), 1);
            let known = self.unresolved.entry(batch.tp.clone()).or_insert(next);
            *known = next.max(*known);
        }
    }

    /// Settles partitions in doubt whose open batches are all through: either the last acknowledged one was the last that
    /// was numbered, or there is a gap and the partition starts again. Says whether there is one that a transaction cannot
    /// live with.
    pub fn resolve(&mut self) -> bool {
        let (partitions, to_restart, is_transactional) =
            (&self.partitions, &mut self.to_restart, self.is_transactional);
        let mut must_abort = false;
        self.unresolved.retain(|tp, _| match partitions.get(tp) {
            Some(partition) if !partition.open.is_empty() => true,
            Some(partition) if partition.is_next(partition.next) => false,
            _ if is_transactional => {
                must_abort = true;
                false
            }
            _ => {
                to_restart.insert(tp.clone());
                false
            }
        });
        must_abort
    }

    /// Raises the epoch if a partition needs it; gives the new sequences of batches that are still open. Where the epoch
    /// cannot grow any more the identity is dropped, and a new one is asked for.
    pub fn bump_epoch(&mut self) -> Option<Vec<(BatchId, Sequence)>> {
        let (producer, epoch) = self.identity?;
        if self.to_restart.is_empty() {
            return None;
        }
        let Some(epoch) = epoch.0.checked_add(1) else {
            self.identity = None;
            return None;
        };
        let identity = (producer, ProducerEpoch(epoch));
        self.identity = Some(identity);
        let mut renumbered = Vec::new();
        for tp in std::mem::take(&mut self.to_restart) {
            self.unresolved.remove(&tp);
            if let Some(partition) = self.partitions.get_mut(&tp) {
                renumbered.extend(partition.restart(identity));
            }
        }
        Some(renumbered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::producer::batch::Shape;
    use crate::kafka::record::NewRecord;
    use crate::kafka::time::Time;

    struct Bench {
        sequences: Sequences,
        next_id: i64,
    }

    impl Bench {
        fn new() -> Bench {
            let mut sequences = Sequences::default();
            sequences.set_identity(ProducerId(7), ProducerEpoch(0));
            Bench { sequences, next_id: 0 }
        }

        /// A batch of one record that is not sent yet.
        fn fresh() -> ProducerBatch {
            let tp = TopicPartition::new(&"orders".into(), 0);
            ProducerBatch::new(Time::ZERO, tp, Shape::plain(0), &NewRecord::default())
        }

        fn send(&mut self) -> (BatchId, ProducerBatch) {
            let mut batch = Bench::fresh();
            assert!(self.sequences.may_send(&batch));
            let id = BatchId(self.next_id);
            self.next_id += 1;
            batch.sequence = Some(self.sequences.assign(id, &batch.tp.clone(), 1));
            (id, batch)
        }

        fn check_bump(&mut self, expected: Option<&[(BatchId, i32)]>) {
            self.sequences.resolve();
            let bumped = self.sequences.bump_epoch();
            let bumped = bumped.map(|list| list.iter().map(|(id, s)| (*id, s.base)).collect::<Vec<_>>());
            assert_eq!(bumped.as_deref(), expected);
        }
    }

    #[test]
    fn sequences_count_records_from_0_r_prod_24() {
        let mut bench = Bench::new();
        let bases: Vec<i32> = (0..3).map(|_| bench.send().1.base_sequence()).collect();
        assert_eq!(bases, [0, 1, 2]);
    }

    #[test]
    fn out_of_order_behind_an_open_batch_only_waits_r_prod_29() {
        let mut bench = Bench::new();
        let _first = bench.send();
        let (_, second) = bench.send();
        assert!(bench.sequences.can_retry(&second, ErrorCode::OutOfOrderSequenceNumber));
        bench.check_bump(None);
    }

    #[test]
    fn out_of_order_of_the_next_expected_batch_raises_the_epoch_r_prod_29() {
        let mut bench = Bench::new();
        let (id, first) = bench.send();
        let (second_id, _) = bench.send();
        assert!(bench.sequences.can_retry(&first, ErrorCode::OutOfOrderSequenceNumber));
        bench.check_bump(Some(&[(id, 0), (second_id, 1)]));
        assert_eq!(bench.sequences.identity(), Some((ProducerId(7), ProducerEpoch(1))));
    }

    #[test]
    fn a_final_failure_raises_the_epoch_and_renumbers_what_is_open_r_prod_30() {
        let mut bench = Bench::new();
        let (first_id, first) = bench.send();
        let (second_id, _) = bench.send();
        bench.sequences.on_failed(first_id, &first, true);
        bench.check_bump(Some(&[(second_id, 0)]));
        assert_eq!(bench.send().1.base_sequence(), 1);
    }

    #[test]
    fn an_expired_retry_holds_new_batches_until_its_followers_are_through_r_prod_18() {
        let mut bench = Bench::new();
        let (first_id, mut first) = bench.send();
        let (second_id, second) = bench.send();
        first.attempts = 1;
        bench.sequences.on_expired(first_id, &first);
        bench.check_bump(None);
        assert!(!bench.sequences.may_send(&Bench::fresh()));
        bench.sequences.on_acknowledged(second_id, &second);
        bench.check_bump(None);
        assert_eq!(
            bench.send().1.base_sequence(),
            2,
            "the follower was accepted, so the expired one was written"
        );
    }

    #[test]
    fn an_expired_retry_that_leaves_a_gap_raises_the_epoch_r_prod_30() {
        let mut bench = Bench::new();
        let (first_id, mut first) = bench.send();
        first.attempts = 1;
        bench.sequences.on_expired(first_id, &first);
        bench.check_bump(Some(&[]));
        assert_eq!(bench.send().1.sequence.unwrap().epoch, ProducerEpoch(1));
    }

    #[test]
    fn behind_an_expired_batch_only_its_direct_follower_proves_a_gap_r_prod_29() {
        let mut bench = Bench::new();
        let (first_id, mut first) = bench.send();
        let (second_id, second) = bench.send();
        let (third_id, third) = bench.send();
        first.attempts = 1;
        bench.sequences.on_expired(first_id, &first);
        assert!(bench.sequences.can_retry(&third, ErrorCode::OutOfOrderSequenceNumber));
        bench.check_bump(None);
        assert!(bench.sequences.can_retry(&second, ErrorCode::OutOfOrderSequenceNumber));
        bench.check_bump(Some(&[(second_id, 0), (third_id, 1)]));
        assert!(bench.sequences.may_send(&Bench::fresh()), "the doubt is over");
    }

    #[test]
    fn of_batches_that_are_sent_again_only_the_first_is_under_way() {
        let mut bench = Bench::new();
        let (_, first) = bench.send();
        let (_, second) = bench.send();
        assert!(bench.sequences.may_send(&first));
        assert!(!bench.sequences.may_send(&second));
        assert!(bench.sequences.may_send(&Bench::fresh()));
    }
}
