//! What is committed of one partition, and what every replica's log is held to.
//!
//! A log that is never compacted is compared batch by batch; of a compacted one each record that is still there, and the
//! newest of each key, which has to be (R-LOG-41).
//!
//! **Invariant:** the history only grows, without gaps, until somebody leads who lacks some of it; then it is what that one
//! has of it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;

use super::sight::{self, Mark};
use crate::kafka::log::Log;
use crate::kafka::record::{Batch, BatchError, NO_SEQUENCE, Record};
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use crate::swarm::check::{Broken, Check, Verdict};

/// The committed records of a partition.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order of their offsets.
    batches: Vec<Committed>,
    end: Offset,
    /// Of a partition that is or was compacted: each record's content, and the newest record of each key.
    records: Option<Records>,
    sequences: BTreeMap<ProducerId, (ProducerEpoch, i32)>,
    /// Batches may be gone from what is taken over.
    is_thinned_out: bool,
    /// Epochs that somebody led once more after losing what it had written in them, and where it went on: from there on two
    /// records of one epoch may stand at the same offset, which no replica can tell from each other.
    led_twice: BTreeMap<LeaderEpoch, Offset>,
}

#[derive(Clone, Copy, Debug)]
pub struct Committed {
    mark: Mark,
    /// A checksum of what is behind the header, which is as the producer sent it.
    pub body: u32,
}

impl Committed {
    pub fn records(&self) -> i64 {
        self.mark.next_offset - self.mark.base_offset
    }
}

/// A checksum of a batch's records, whatever its header says: a leader may compress them in its own way.
pub fn body_of(batch: &Batch) -> u32 {
    batch.block().map_or_else(|_| crc32c::crc32c(&batch.body()), |block| crc32c::crc32c(block.bytes()))
}

#[derive(Clone, Debug, Default)]
struct Records {
    contents: BTreeMap<Offset, (LeaderEpoch, u64)>,
    /// With whether it has a value: a tombstone may go.
    newest: BTreeMap<Bytes, (Offset, bool)>,
    /// What is of a transaction that has not ended: it counts for its key once that is committed.
    open: BTreeMap<ProducerId, Vec<(Bytes, Offset, bool)>>,
}

impl History {
    /// Nothing yet, of a partition that has just been made.
    pub fn new(compacted: bool) -> History {
        History { records: compacted.then(Records::default), ..History::default() }
    }

    /// After a loss: takes over what the leader's log has from here on below its high watermark; or what is wrong with it. Of
    /// a compacted log the thinned-out part is taken as it is.
    pub fn resume(&mut self, log: &Log, forgotten_before_ms: i64) -> Verdict {
        self.is_thinned_out = self.is_compacted();
        let verdict = self.extend(log, log.high_watermark(), forgotten_before_ms);
        self.is_thinned_out = false;
        verdict
    }

    /// Somebody leads in `epoch` who led in it before, and has lost what it had written at `from` and behind.
    pub fn note_led_twice(&mut self, epoch: LeaderEpoch, from: Offset) {
        let first = self.led_twice.entry(epoch).or_insert(from);
        *first = from.min(*first);
    }

    /// Whether another batch of this epoch may stand at this offset too.
    fn is_written_twice(&self, epoch: LeaderEpoch, offset: Offset) -> bool {
        self.led_twice.get(&epoch).is_some_and(|from| *from <= offset)
    }

    /// Up to where `log` has what was committed.
    pub fn agreement(&self, log: &Log) -> Offset {
        let end = self.end.min(log.log_end_offset());
        if let Some(records) = &self.records {
            let at = records.first_other(log, end).unwrap_or(end);
            // A batch is there as a whole or not.
            let spans = |batch: &&Batch| batch.base_offset() < at && at < batch.next_offset();
            return log.batches_from(at).next().filter(spans).map_or(at, Batch::base_offset);
        }
        let from = self.start().max(log.log_start_offset());
        let (known, found) = (self.known(from), self.one_of_a_kind(sight::marks(log, from, end)));
        let same = known.zip(found).take_while(|(known, found)| known == found);
        same.last().map_or(from, |(known, _)| known.next_offset).min(end)
    }

    /// Forgets what is not below `end`: it may be lost, or something newer committed that nobody sees. `log`, if there is one,
    /// has all the rest.
    pub fn cut(&mut self, end: Offset, log: Option<&Log>) {
        self.end = end.min(self.end);
        self.batches.truncate(self.batches.partition_point(|batch| batch.mark.next_offset <= end));
        if let Some(records) = &mut self.records {
            records.cut(end);
        }
        self.sequences.clear();
        let kept = log.into_iter().flat_map(|log| log.batches_from(log.log_start_offset()));
        for batch in kept.take_while(|batch| batch.next_offset() <= end).filter(|batch| has_sequence(batch)) {
            self.sequences.insert(batch.producer_id(), (batch.producer_epoch(), batch.last_sequence()));
        }
    }

    pub fn end(&self) -> Offset {
        self.end
    }

    pub fn is_compacted(&self) -> bool {
        self.records.is_some()
    }

    /// The committed batch that begins at `offset`.
    pub fn batch_at(&self, offset: Offset) -> Option<&Committed> {
        self.batches.get(self.place_of(offset)).filter(|batch| batch.mark.base_offset == offset)
    }

    /// The first offset of which anything is known.
    pub fn start(&self) -> Offset {
        self.batches.first().map_or(self.end, |batch| batch.mark.base_offset)
    }

    /// The index of the first batch that does not end at or below `offset`.
    fn place_of(&self, offset: Offset) -> usize {
        self.batches.partition_point(|batch| batch.mark.next_offset <= offset)
    }

    /// Takes over what a leader's log has below `high_watermark`; or what is wrong with it. The leader has forgotten producers
    /// that wrote nothing since `forgotten_before_ms`, in milliseconds since 1970.
    pub fn extend(&mut self, log: &Log, high_watermark: Offset, forgotten_before_ms: i64) -> Verdict {
        if high_watermark <= self.end {
            return Ok(());
        }
        if log.log_start_offset() > self.end {
            // Committed, and deleted in the same step: of what is below nothing is known any more.
            (self.batches, self.end) = (Vec::new(), log.log_start_offset());
            self.sequences.clear();
        }
        let from = self.end;
        for batch in log.batches_from(from).take_while(|batch| batch.next_offset() <= high_watermark) {
            let base = batch.base_offset();
            // DeleteRecords lets a log begin within a batch.
            if base < from && from != log.log_start_offset() {
                let fault = format!("a batch at {base} reaches over {from}, where another one ended");
                return Err(Check::LogGaps.broken(fault));
            }
            if base != self.end && self.records.is_none() && base > log.log_start_offset() {
                return Err(Check::LogGaps.broken(format!("offsets {} to {base} are in no batch", self.end)));
            }
            self.follow_sequence(batch, log, forgotten_before_ms)?;
            self.batches.push(Committed { mark: Mark::of(batch), body: body_of(batch) });
            self.end = batch.next_offset();
            let is_known = !self.is_written_twice(batch.leader_epoch(), base);
            if let Some(records) = self.records.as_mut().filter(|_| is_known) {
                records.take(batch, !self.is_thinned_out)?;
            }
        }
        Ok(())
    }

    /// R-PROD-24 to 26: the sequence numbers of a producer's epoch follow each other, so nothing stands twice, and its epochs
    /// never fall. A leader that
    /// began with an empty disk knows only the producers whose batches retention had left to fetch (R-PROD-27), and none for
    /// longer than producer.id.expiration.ms (R-PROD-28): whom it does not know may begin with any sequence number
    /// (`ProducerAppendInfo.checkSequence`).
    fn follow_sequence(&mut self, batch: &Batch, log: &Log, forgotten_before_ms: i64) -> Verdict {
        let (producer, epoch, base) = (batch.producer_id(), batch.producer_epoch(), batch.base_sequence());
        if !has_sequence(batch) {
            return Ok(());
        }
        let known = self.sequences.insert(producer, (epoch, batch.last_sequence()));
        let expected = match known {
            None => return Ok(()),
            Some((before, last)) if before == epoch => last.checked_add(1).unwrap_or(0),
            Some((before, _)) if before < epoch => 0,
            Some((before, _)) => {
                let fault = format!("producer {producer} writes in epoch {epoch} after {before}");
                return Err(Check::Epochs.broken(fault));
            }
        };
        let is_known = || {
            let earlier = log.batches_from(log.log_start_offset());
            let mut earlier = earlier.take_while(|other| other.base_offset() < batch.base_offset());
            earlier.any(|other| {
                other.producer_id() == producer && other.max_timestamp_ms() > forgotten_before_ms
            })
        };
        if base == expected || self.is_thinned_out || !is_known() {
            return Ok(());
        }
        let at = batch.base_offset();
        let fault =
            format!("producer {producer} in epoch {epoch} has sequence {base} at {at} instead of {expected}");
        Err(Check::Sequences.broken(fault))
    }

    /// How many batches, or records of a compacted log, a replica's log has in `[from, to)` as the history has them; or what it
    /// lacks or has otherwise.
    pub fn compare(&self, log: &Log, from: Offset, to: Offset) -> Result<u64, Broken> {
        let from = from.max(log.log_start_offset());
        let to = to.min(self.end);
        if from >= to {
            return Ok(0);
        }
        match &self.records {
            None => self.compare_batches(log, from, to),
            Some(records) => records.compare(log, from, to),
        }
    }

    /// The committed batches from the one that holds `from` on.
    fn known(&self, from: Offset) -> impl Iterator<Item = Mark> {
        self.one_of_a_kind(self.batches[self.place_of(from)..].iter().map(|batch| batch.mark))
    }

    /// Without those at whose offsets another one of their epoch may stand too.
    fn one_of_a_kind(&self, marks: impl Iterator<Item = Mark>) -> impl Iterator<Item = Mark> {
        marks.filter(|mark| !self.is_written_twice(mark.epoch, mark.base_offset))
    }

    fn compare_batches(&self, log: &Log, from: Offset, to: Offset) -> Result<u64, Broken> {
        // Below the first of the history nothing is known.
        let from = from.max(self.start());
        let mut expected = self.known(from).take_while(|mark| mark.next_offset <= to);
        let mut found = self.one_of_a_kind(sight::marks(log, from, to));
        let mut compared = 0;
        loop {
            let fault = match (expected.next(), found.next()) {
                (None, None) => return Ok(compared),
                (Some(known), Some(mark)) if known == mark => {
                    compared += 1;
                    continue;
                }
                (Some(known), Some(mark)) => format!("{known:?} was committed, and here is {mark:?}"),
                (Some(known), None) => format!("{known:?} was committed and is not here"),
                (None, Some(mark)) => format!("{mark:?} is none of the committed batches"),
            };
            return Err(Check::Committed.broken(fault));
        }
    }
}

/// Whether a producer numbered the batch.
fn has_sequence(batch: &Batch) -> bool {
    batch.producer_id().is_some() && batch.base_sequence() != NO_SEQUENCE && !batch.is_control()
}

/// What a deposed leader wrote can stay where the new one has nothing any more: a replica that was copied from a compacted
/// log takes an epoch to begin at the first batch that is left of it (`LeaderEpochFileCache.assign`).
fn is_left_over(log: &Log, offset: Offset, committed_in: LeaderEpoch) -> bool {
    log.batches_from(offset).next().is_some_and(|batch| batch.leader_epoch() < committed_in)
}

impl Records {
    /// `is_fresh`: no replica can have dropped any of it yet. What is taken over after a loss may be gone elsewhere already,
    /// for the sake of a newer value that was lost.
    fn take(&mut self, batch: &Batch, is_fresh: bool) -> Verdict {
        let unreadable = |error: BatchError| Check::Committed.broken(error.to_string());
        if batch.is_control() {
            let marker = batch.end_transaction_marker().map_err(unreadable)?;
            self.end_transaction(batch.producer_id(), marker.is_some_and(|marker| marker.committed));
            return Ok(());
        }
        for record in batch.records().map_err(unreadable)? {
            self.contents.insert(record.offset, (batch.leader_epoch(), content(&record.key, &record.value)));
            let Some(key) = record.key.filter(|_| is_fresh) else { continue };
            let newest = (key, record.offset, record.value.is_some());
            match batch.is_transactional() {
                true => self.open.entry(batch.producer_id()).or_default().push(newest),
                false => self.note_newest(newest),
            }
        }
        Ok(())
    }

    /// R-LOG-45: of an aborted transaction nothing counts, and nothing is kept.
    fn end_transaction(&mut self, producer: ProducerId, committed: bool) {
        let ended = self.open.remove(&producer).unwrap_or_default();
        ended.into_iter().filter(|_| committed).for_each(|newest| self.note_newest(newest));
    }

    /// A record counts from now on; one that stands behind it may do so already.
    fn note_newest(&mut self, (key, offset, has_value): (Bytes, Offset, bool)) {
        if self.newest.get(&key).is_none_or(|(newest, _)| *newest < offset) {
            self.newest.insert(key, (offset, has_value));
        }
    }

    /// No record of a key is known to be its newest any more: what is left may be gone elsewhere for the sake of one that is
    /// lost now.
    fn cut(&mut self, end: Offset) {
        self.contents.split_off(&end);
        self.newest.clear();
        self.open.clear();
    }

    /// The first record of a log below `end` that is another one than was committed.
    fn first_other(&self, log: &Log, end: Offset) -> Option<Offset> {
        let Ok(records) = log.records_between(log.log_start_offset(), end) else {
            return Some(log.log_start_offset());
        };
        self.same(log, &records).err()
    }

    /// How many of `records`, which are from `log`, are known; or the first that is another one than was committed.
    fn same(&self, log: &Log, records: &[Record]) -> Result<u64, Offset> {
        let Some(first) = records.first() else { return Ok(0) };
        let mut contents = self.contents.range(first.offset..).peekable();
        let mut same = 0;
        for record in records {
            while contents.next_if(|(offset, _)| **offset < record.offset).is_some() {}
            let Some((_, (epoch, known))) = contents.next_if(|(offset, _)| **offset == record.offset) else {
                continue;
            };
            if *known == content(&record.key, &record.value) {
                same += 1;
            } else if !is_left_over(log, record.offset, *epoch) {
                return Err(record.offset);
            }
        }
        Ok(same)
    }

    fn compare(&self, log: &Log, from: Offset, to: Offset) -> Result<u64, Broken> {
        let records = log.records_between(from, to);
        let records = records.map_err(|error| Check::Committed.broken(error.to_string()))?;
        let same = self.same(log, &records).map_err(|offset| {
            Check::Committed.broken(format!("the record at {offset} is another one than was committed"))
        })?;
        let is_there = |offset: Offset| records.binary_search_by_key(&offset, |record| record.offset).is_ok();
        let lost = self.newest.iter().find(|(_, (offset, has_value))| {
            *has_value && *offset >= from && *offset < to && !is_there(*offset)
        });
        let Some((key, (offset, _))) = lost else { return Ok(same) };
        let key = String::from_utf8_lossy(key);
        Err(Check::NewestOfKey.broken(format!("the newest value of {key:?}, at {offset}, is gone")))
    }
}

fn content(key: &Option<Bytes>, value: &Option<Bytes>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::log::{LogConfig, Origin};
    use crate::kafka::record::{BatchBuilder, BatchParameters, EndTransactionMarker, NewRecord};
    use crate::kafka::time::Time;

    /// A log of batches of one record each: the value and its leader epoch. All of it is committed.
    fn log(values: &[(&[u8], i32)]) -> Log {
        let mut log = Log::new();
        for (value, epoch) in values {
            let mut batch = BatchBuilder::new();
            batch.append(&NewRecord { key: Some(b"k"), value: Some(value), ..NewRecord::default() });
            let (bytes, config) = (batch.finish(None).into_bytes(), LogConfig::default());
            let epoch = LeaderEpoch(*epoch);
            log.append_as_leader(Time::ZERO, bytes, epoch, Origin::Client, &config).expect("a sound batch");
        }
        log.maybe_increment_high_watermark(log.log_end_offset());
        log
    }

    fn history(log: &Log, compacted: bool) -> History {
        let mut history = History::new(compacted);
        history.extend(log, log.high_watermark(), i64::MIN).expect("a sound log");
        history
    }

    #[test]
    fn after_a_loss_what_the_leader_has_of_it_is_still_committed_r_repl_43() {
        let before = log(&[(b"a", 1), (b"b", 1), (b"c", 1)]);
        for compacted in [false, true] {
            let mut history = history(&before, compacted);
            let shorter = log(&[(b"a", 1), (b"b", 1)]);
            assert_eq!(history.agreement(&shorter), Offset(2));
            let other = log(&[(b"a", 1), (b"x", 0), (b"y", 0), (b"z", 0)]);
            // The compacted log of one who was deposed may hold what was written before the committed records.
            assert_eq!(history.agreement(&other), if compacted { Offset(3) } else { Offset(1) });
            let other = log(&[(b"a", 1), (b"x", 1), (b"y", 1), (b"z", 1)]);
            assert_eq!(history.agreement(&other), Offset(1));

            history.cut(Offset(1), Some(&other));
            assert_eq!(history.compare(&shorter, Offset::ZERO, Offset(2)), Ok(1), "the rest is not known");
            let changed = history.compare(&log(&[(b"w", 1)]), Offset::ZERO, Offset(1));
            assert_eq!(changed.map_err(|broken| broken.check), Err(Check::Committed));
            history.resume(&other, i64::MIN).expect("a sound log");
            assert_eq!(history.end(), Offset(4));
            let lacks = history.compare(&shorter, Offset::ZERO, Offset(2));
            assert_eq!(lacks.map_err(|broken| broken.check), Err(Check::Committed));
        }
    }

    #[test]
    fn whom_a_leader_has_forgotten_may_begin_with_any_sequence_number_r_prod_28() {
        const LATER_MS: i64 = 70_000;
        let mut log = Log::new();
        let mut write = |sequence, timestamp_ms| {
            let mut batch = BatchBuilder::new();
            batch.append(&NewRecord { timestamp_ms, value: Some(b"a"), ..NewRecord::default() });
            let bytes = batch.finish(Some((ProducerId(7), ProducerEpoch(0), sequence))).into_bytes();
            let config = LogConfig::default();
            log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(1), Origin::Client, &config).expect("sound");
            log.remove_expired_producers(Time::ZERO, i64::MIN);
        };
        write(0, 1_000);
        write(16, LATER_MS);
        let found = |forgotten_before_ms| {
            let verdict = History::new(false).extend(&log, log.log_end_offset(), forgotten_before_ms);
            verdict.map_err(|broken| broken.check)
        };
        assert_eq!(found(LATER_MS - 86_400_000), Err(Check::Sequences));
        assert_eq!(found(LATER_MS - 60_000), Ok(()));
    }

    #[test]
    fn who_lost_records_and_leads_on_in_their_epoch_may_have_others_at_their_offsets() {
        // A leader lost b, c and d, wrote x in the same epoch, and follows who has them and leads in the next.
        let whole = log(&[(b"a", 1), (b"b", 1), (b"c", 1), (b"d", 1), (b"e", 2)]);
        let mixed = log(&[(b"a", 1), (b"x", 1), (b"c", 1), (b"d", 1), (b"e", 2)]);
        let other = log(&[(b"a", 1), (b"x", 1), (b"c", 1), (b"d", 1), (b"y", 2)]);
        for compacted in [false, true] {
            let mut history = History::new(compacted);
            history.note_led_twice(LeaderEpoch(1), Offset(1));
            history.resume(&whole, i64::MIN).expect("a sound log");
            let compare = |log: &Log| {
                let compared = history.compare(log, Offset::ZERO, Offset(5));
                compared.map_err(|broken| broken.check)
            };
            assert_eq!(compare(&mixed), Ok(2), "what stands once is held to");
            assert_eq!(compare(&other), Err(Check::Committed), "epoch 2 was led once");
            assert_eq!(history.agreement(&other), if compacted { Offset(4) } else { Offset(1) });
        }
    }

    #[test]
    fn the_newest_of_a_key_is_of_no_transaction_that_is_open_or_was_aborted_r_log_45() {
        let record = |log: &mut Log, producer: i64, transactional: bool| {
            let producer_id = ProducerId(producer);
            let parameters = BatchParameters { transactional, producer_id, ..BatchParameters::default() };
            let mut batch = BatchBuilder::with(parameters);
            batch.append(&NewRecord { key: Some(b"k"), value: Some(b"a"), ..NewRecord::default() });
            append(log, batch.build());
        };
        let marker = |log: &mut Log, producer: i64, committed: bool| {
            let (producer_id, producer_epoch) = (ProducerId(producer), ProducerEpoch(0));
            let parameters = BatchParameters { producer_id, producer_epoch, ..BatchParameters::default() };
            append(log, EndTransactionMarker { committed, coordinator_epoch: 0 }.batch(parameters, 0));
        };
        let newest = |log: &Log| {
            let history = history(log, true);
            history.records.and_then(|records| records.newest.get(&b"k"[..]).map(|(offset, _)| *offset))
        };
        let mut log = Log::new();
        record(&mut log, -1, false);
        record(&mut log, 7, true);
        record(&mut log, 8, true);
        assert_eq!(newest(&log), Some(Offset(0)), "both are open");
        marker(&mut log, 8, false);
        assert_eq!(newest(&log), Some(Offset(0)), "one was aborted");
        record(&mut log, -1, false);
        marker(&mut log, 7, true);
        assert_eq!(newest(&log), Some(Offset(4)), "what was committed late stands before it");
    }

    /// All of the log is committed.
    fn append(log: &mut Log, batch: Batch) {
        let (bytes, config) = (batch.bytes().clone(), LogConfig::default());
        let origin = Origin::TransactionMarker { transaction_version: 0 };
        log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(1), origin, &config).expect("a sound batch");
        log.maybe_increment_high_watermark(log.log_end_offset());
    }

    #[test]
    fn without_a_loss_every_record_is_held_to() {
        let before = log(&[(b"a", 1), (b"b", 1)]);
        let broken = |compacted, other: &Log| {
            let compared = history(&before, compacted).compare(other, Offset::ZERO, Offset(2));
            compared.map_err(|broken| broken.check)
        };
        let changed = log(&[(b"a", 1), (b"x", 1)]);
        let shorter = log(&[(b"a", 1)]);
        assert_eq!(broken(false, &before), Ok(2));
        assert_eq!(broken(false, &changed), Err(Check::Committed));
        assert_eq!(broken(false, &shorter), Err(Check::Committed));
        assert_eq!(broken(true, &before), Ok(2));
        assert_eq!(broken(true, &changed), Err(Check::Committed));
        assert_eq!(broken(true, &shorter), Err(Check::NewestOfKey), "R-LOG-41");
    }
}
