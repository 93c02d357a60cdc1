//! The producers of one partition, and which of their transactions are open or not yet replicated.
//!
//! Mirrors Kafka's `ProducerStateManager` with its snapshots.
//!
//! **Invariant:** the state follows from the batches alone, so a follower that copied them knows the same (R-PROD-28).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::append::{AppendError, Origin};
use super::producer::{AppendedBatch, Producer};
use super::verification::Verifications;
use crate::kafka::record::{Batch, BatchError};
use crate::kafka::types::{Offset, ProducerId};

type ById = BTreeMap<ProducerId, Producer>;

/// A transaction that a marker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompletedTransaction {
    producer: ProducerId,
    first_offset: Offset,
    /// The marker's.
    last_offset: Offset,
    committed: bool,
}

/// An entry of the transaction index: what a reader of committed data leaves out (R-TXN-24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer: ProducerId,
    pub first_offset: Offset,
    /// The marker's.
    pub last_offset: Offset,
    /// Where the last stable offset could go at best when the transaction ended.
    pub last_stable_offset: Offset,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    by_id: Rc<ById>,
    /// Open transactions: where each starts, and whose it is.
    ongoing: Rc<BTreeMap<Offset, ProducerId>>,
    /// Ended, but the marker is not below the high watermark: where each starts, and the marker.
    unreplicated: Rc<BTreeMap<Offset, Offset>>,
    /// By the offset up to which the log is in it.
    snapshots: Rc<BTreeMap<Offset, Rc<ById>>>,
    last_snapshot: Offset,
    /// Up to where the log is in the state.
    end_offset: Offset,
    /// In memory only.
    pub(super) verifications: Verifications,
}

impl Producers {
    pub fn get(&self, id: ProducerId) -> Option<&Producer> {
        self.by_id.get(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &Producer)> {
        self.by_id.iter().map(|(&id, producer)| (id, producer))
    }

    /// Offsets at which a snapshot of the state is kept.
    pub fn snapshot_offsets(&self) -> impl Iterator<Item = Offset> {
        self.snapshots.keys().copied()
    }

    /// The first offset of a transaction that is open or whose end is not yet replicated (R-TXN-23).
    pub(super) fn first_unstable_offset(&self) -> Option<Offset> {
        let first = |offset: Option<&Offset>| offset.copied();
        let (open, ended) = (first(self.ongoing.keys().next()), first(self.unreplicated.keys().next()));
        open.into_iter().chain(ended).min()
    }

    /// Whose open transactions begin below an offset, by where they do.
    pub fn open_below(&self, offset: Offset) -> Vec<ProducerId> {
        self.ongoing.range(..offset).map(|(_, producer)| *producer).collect()
    }

    /// Whose open transaction begins first.
    pub fn oldest_open(&self) -> Option<ProducerId> {
        self.ongoing.values().next().copied()
    }

    /// When the producer of the oldest open transaction last wrote here, in milliseconds since 1970
    /// (`oldestTxnLastTimestamp`).
    pub(super) fn oldest_transaction_timestamp_ms(&self) -> Option<i64> {
        self.get(self.oldest_open()?).map(Producer::last_timestamp_ms)
    }

    /// The place of a batch that was sent before and is not to be stored again (R-PROD-25).
    pub(super) fn duplicate_of(&self, batch: &Batch) -> Option<AppendedBatch> {
        self.get(batch.producer_id())?.duplicate_of(batch)
    }

    /// Whether a leader may append the batch.
    pub(super) fn check(&self, batch: &Batch, origin: Origin) -> Result<(), AppendError> {
        let unknown = Producer::unknown();
        let known = self.get(batch.producer_id()).unwrap_or(&unknown);
        if !batch.is_control() {
            return Ok(known.check(batch, origin, self.verifications.get(batch.producer_id()))?);
        }
        if let Some(marker) = batch.end_transaction_marker()? {
            let version = match origin {
                Origin::TransactionMarker { transaction_version } => transaction_version,
                Origin::Client | Origin::Coordinator => 0,
            };
            known.check_marker(batch, marker, version)?;
        }
        Ok(())
    }

    /// Takes in a batch that is in the log. A transaction that was aborted with it is for the index.
    pub(super) fn update(&mut self, batch: &Batch) -> Result<Option<AbortedTransaction>, BatchError> {
        self.end_offset = batch.next_offset();
        let id = batch.producer_id();
        if !id.is_some() {
            return Ok(None);
        }
        self.verifications.on_update(batch);
        if !batch.is_control() {
            let producers = Rc::make_mut(&mut self.by_id);
            if producers.entry(id).or_insert_with(Producer::unknown).add(batch) {
                Rc::make_mut(&mut self.ongoing).insert(batch.base_offset(), id);
            }
            return Ok(None);
        }
        let Some(marker) = batch.end_transaction_marker()? else { return Ok(None) };
        let producers = Rc::make_mut(&mut self.by_id);
        let start = producers.entry(id).or_insert_with(Producer::unknown).end_transaction(batch, marker);
        let Some(first_offset) = start else { return Ok(None) };
        let last_offset = batch.base_offset();
        Ok(self.complete(CompletedTransaction {
            producer: id,
            first_offset,
            last_offset,
            committed: marker.committed,
        }))
    }

    /// R-TXN-24: the next oldest open transaction of another producer is what the stable offset then waits for.
    fn complete(&mut self, completed: CompletedTransaction) -> Option<AbortedTransaction> {
        let CompletedTransaction { producer, first_offset, last_offset, committed } = completed;
        let next_open = self.ongoing.iter().find(|(_, id)| **id != producer).map(|(offset, _)| *offset);
        Rc::make_mut(&mut self.ongoing).remove(&first_offset);
        Rc::make_mut(&mut self.unreplicated).insert(first_offset, last_offset);
        let last_stable_offset = next_open.unwrap_or(last_offset + 1);
        (!committed).then_some(AbortedTransaction { producer, first_offset, last_offset, last_stable_offset })
    }

    /// R-TXN-23.
    pub(super) fn on_high_watermark_updated(&mut self, high_watermark: Offset) {
        self.forget_replicated(high_watermark);
    }

    /// R-LOG-30: producers stay, whatever goes.
    pub(super) fn on_log_start_incremented(&mut self, log_start_offset: Offset) {
        self.forget_replicated(log_start_offset);
        self.end_offset = self.end_offset.max(log_start_offset);
        self.last_snapshot = self.latest_snapshot().map_or(log_start_offset, |(offset, _)| offset);
    }

    fn forget_replicated(&mut self, below: Offset) {
        if self.unreplicated.values().any(|marker| *marker < below) {
            Rc::make_mut(&mut self.unreplicated).retain(|_, marker| *marker >= below);
        }
    }

    pub(super) fn has_expired(&self, now_ms: i64, producer_id_expiration_ms: i64) -> bool {
        self.verifications.has_expired(now_ms, producer_id_expiration_ms)
            || self.by_id.values().any(|producer| producer.is_expired(now_ms, producer_id_expiration_ms))
    }

    pub(super) fn remove_expired(&mut self, now_ms: i64, producer_id_expiration_ms: i64) {
        self.verifications.remove_expired(now_ms, producer_id_expiration_ms);
        if self.has_expired(now_ms, producer_id_expiration_ms) {
            Rc::make_mut(&mut self.by_id)
                .retain(|_, producer| !producer.is_expired(now_ms, producer_id_expiration_ms));
        }
    }

    fn latest_snapshot(&self) -> Option<(Offset, &Rc<ById>)> {
        self.snapshots.last_key_value().map(|(offset, snapshot)| (*offset, snapshot))
    }

    /// Keeps the state as it is up to `offset`, unless a snapshot is there (R-LOG-11).
    pub(super) fn take_snapshot(&mut self, offset: Offset) {
        self.end_offset = offset;
        if offset > self.last_snapshot {
            let snapshot = self.by_id.iter().map(|(id, producer)| (*id, producer.snapshot())).collect();
            Rc::make_mut(&mut self.snapshots).insert(offset, Rc::new(snapshot));
            self.last_snapshot = offset;
        }
    }

    /// A snapshot goes with its segment.
    pub(super) fn drop_snapshot(&mut self, offset: Offset) {
        if self.snapshots.contains_key(&offset) {
            Rc::make_mut(&mut self.snapshots).remove(&offset);
        }
    }

    /// Up to where the log is in the state.
    pub(super) fn end_offset(&self) -> Offset {
        self.end_offset
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty() && self.unreplicated.is_empty()
    }

    /// Goes back to the latest snapshot inside of `[log_start, log_end]`; the log from there on is to be read again.
    pub(super) fn truncate_and_reload(
        &mut self,
        (log_start, log_end): (Offset, Offset),
        now_ms: i64,
        producer_id_expiration_ms: i64,
    ) {
        Rc::make_mut(&mut self.snapshots).retain(|offset, _| *offset <= log_end && *offset > log_start);
        if log_end == self.end_offset {
            return self.on_log_start_incremented(log_start);
        }
        let (offset, snapshot) = match self.latest_snapshot() {
            Some((offset, snapshot)) => (offset, (**snapshot).clone()),
            None => (log_start, ById::new()),
        };
        let is_kept = |producer: &Producer| !producer.is_expired(now_ms, producer_id_expiration_ms);
        let by_id: ById = snapshot.into_iter().filter(|(_, producer)| is_kept(producer)).collect();
        let open = |(id, producer): (&ProducerId, &Producer)| Some((producer.transaction_start()?, *id));
        self.ongoing = Rc::new(by_id.iter().filter_map(open).collect());
        self.unreplicated = Rc::default();
        self.by_id = Rc::new(by_id);
        (self.last_snapshot, self.end_offset) = (offset, offset);
    }

    /// What a process that starts finds: the snapshots, of which those without a segment are removed, but for one behind
    /// the last segment's base (`removeStraySnapshots`).
    pub(super) fn forget_all_but_snapshots(&mut self, bases: impl Iterator<Item = Offset>) {
        let bases: BTreeSet<Offset> = bases.collect();
        let active = bases.last().copied().unwrap_or(Offset::ZERO);
        let stray = self.latest_snapshot().map(|(offset, _)| offset).filter(|offset| *offset > active);
        let mut snapshots = std::mem::take(&mut self.snapshots);
        Rc::make_mut(&mut snapshots).retain(|offset, _| bases.contains(offset) || Some(*offset) == stray);
        *self = Producers { snapshots, ..Producers::default() };
    }

    /// The state as the snapshot at its end has it: of each producer's batches the last alone.
    pub(super) fn reduce_to_snapshot(&mut self) {
        self.by_id = Rc::new(self.by_id.iter().map(|(id, producer)| (*id, producer.snapshot())).collect());
        self.unreplicated = Rc::default();
    }

    /// Nothing is known; the log starts at `offset`.
    pub(super) fn start_over(&mut self, offset: Offset) {
        let verifications = std::mem::take(&mut self.verifications);
        *self =
            Producers { end_offset: offset, last_snapshot: offset, verifications, ..Producers::default() };
    }
}
