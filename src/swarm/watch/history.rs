//! What is committed of one partition, and what every replica's log is held to.
//!
//! A log that is never compacted is compared batch by batch; of a compacted one each record that is still there, and the
//! newest of each key, which has to be (R-LOG-41).
//!
//! **Invariant:** the history only grows, without gaps, until a leader is elected that may lack some of it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;

use super::sight::{self, Mark};
use crate::kafka::log::Log;
use crate::kafka::record::{Batch, NO_SEQUENCE};
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// The committed records of a partition.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order of their offsets.
    batches: Vec<Mark>,
    end: Offset,
    /// Of a partition that is or was compacted: each record's content, and the newest record of each key.
    records: Option<Records>,
    sequences: BTreeMap<ProducerId, (ProducerEpoch, i32)>,
    /// Batches may be gone from what is taken over.
    is_thinned_out: bool,
}

#[derive(Clone, Debug, Default)]
struct Records {
    contents: BTreeMap<Offset, (LeaderEpoch, u64)>,
    /// With whether it has a value: a tombstone may go.
    newest: BTreeMap<Bytes, (Offset, bool)>,
}

impl History {
    /// Nothing yet, of a partition that has just been made.
    pub fn new(compacted: bool) -> History {
        History { records: compacted.then(Records::default), ..History::default() }
    }

    /// What a leader's log has below its high watermark, whatever was before; or what is wrong with it. Of a compacted log
    /// the thinned-out part is taken as it is.
    pub fn of(log: &Log, compacted: bool) -> Result<History, String> {
        let mut history = History::new(compacted);
        history.end = log.log_start_offset();
        history.is_thinned_out = compacted;
        history.extend(log, log.high_watermark())?;
        history.is_thinned_out = false;
        Ok(history)
    }

    pub fn end(&self) -> Offset {
        self.end
    }

    pub fn is_compacted(&self) -> bool {
        self.records.is_some()
    }

    /// How many records the committed batch at `offset` has.
    pub fn batch_at(&self, offset: Offset) -> Option<i64> {
        let mark = self.batches.get(self.place_of(offset)).filter(|mark| mark.base_offset == offset)?;
        Some(mark.next_offset - mark.base_offset)
    }

    /// The first offset of which anything is known.
    pub fn start(&self) -> Offset {
        self.batches.first().map_or(self.end, |mark| mark.base_offset)
    }

    /// The index of the first batch that does not end at or below `offset`.
    fn place_of(&self, offset: Offset) -> usize {
        self.batches.partition_point(|mark| mark.next_offset <= offset)
    }

    /// Takes over what a leader's log has below `high_watermark`; or what is wrong with it.
    pub fn extend(&mut self, log: &Log, high_watermark: Offset) -> Result<(), String> {
        if high_watermark <= self.end {
            return Ok(());
        }
        if log.log_start_offset() > self.end {
            // Committed, and deleted in the same step: of what is below nothing is known any more.
            *self =
                History { end: log.log_start_offset(), records: self.records.take(), ..History::default() };
        }
        let from = self.end;
        for batch in log.batches_from(from).take_while(|batch| batch.next_offset() <= high_watermark) {
            let base = batch.base_offset();
            if base < from {
                return Err(format!("a batch at {base} reaches over {from}, where another one ended"));
            }
            if base != self.end && self.records.is_none() && base > log.log_start_offset() {
                return Err(format!("offsets {} to {base} are in no batch", self.end));
            }
            self.follow_sequence(batch, log)?;
            self.batches.push(Mark::of(batch));
            self.end = batch.next_offset();
            if let Some(records) = &mut self.records {
                records.take(batch, !self.is_thinned_out)?;
            }
        }
        Ok(())
    }

    /// R-PROD-24 to 26: the sequence numbers of a producer's epoch follow each other, so nothing stands twice. A leader that
    /// began with an empty disk knows only the producers whose batches retention had left to fetch (R-PROD-27).
    fn follow_sequence(&mut self, batch: &Batch, log: &Log) -> Result<(), String> {
        let (producer, epoch, base) = (batch.producer_id(), batch.producer_epoch(), batch.base_sequence());
        if !producer.is_some() || base == NO_SEQUENCE || batch.is_control() {
            return Ok(());
        }
        let known = self.sequences.insert(producer, (epoch, batch.last_sequence()));
        let expected = match known {
            None => return Ok(()),
            Some((before, last)) if before == epoch => last.checked_add(1).unwrap_or(0),
            Some((before, _)) if before < epoch => 0,
            Some((before, _)) => {
                return Err(format!("producer {producer} writes in epoch {epoch} after {before}"));
            }
        };
        let is_known = || {
            let earlier = log.batches_from(log.log_start_offset());
            let mut earlier = earlier.take_while(|other| other.base_offset() < batch.base_offset());
            earlier.any(|other| other.producer_id() == producer)
        };
        if base == expected || self.is_thinned_out || !is_known() {
            return Ok(());
        }
        let at = batch.base_offset();
        Err(format!("producer {producer} in epoch {epoch} has sequence {base} at {at} instead of {expected}"))
    }

    /// How many batches, or records of a compacted log, a replica's log has in `[from, to)` as the history has them; or what it
    /// lacks or has otherwise.
    pub fn compare(&self, log: &Log, from: Offset, to: Offset) -> Result<u64, String> {
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

    fn compare_batches(&self, log: &Log, from: Offset, to: Offset) -> Result<u64, String> {
        // Below the first of the history nothing is known.
        let from = from.max(self.start());
        let mut expected =
            self.batches[self.place_of(from)..].iter().take_while(|mark| mark.next_offset <= to);
        let mut found = sight::marks(log, from, to);
        let mut compared = 0;
        loop {
            match (expected.next(), found.next()) {
                (None, None) => return Ok(compared),
                (Some(known), Some(mark)) if *known == mark => compared += 1,
                (Some(known), Some(mark)) => {
                    return Err(format!("{known:?} was committed, and here is {mark:?}"));
                }
                (Some(known), None) => return Err(format!("{known:?} was committed and is not here")),
                (None, Some(mark)) => return Err(format!("{mark:?} is none of the committed batches")),
            }
        }
    }
}

/// What a deposed leader wrote can stay where the new one has nothing any more: a replica that was copied from a compacted
/// log takes an epoch to begin at the first batch that is left of it (`LeaderEpochFileCache.assign`).
fn is_left_over(log: &Log, offset: Offset, committed_in: LeaderEpoch) -> bool {
    log.batches_from(offset).next().is_some_and(|batch| batch.leader_epoch() < committed_in)
}

impl Records {
    /// `is_fresh`: no replica can have dropped any of it yet. What is taken over after a loss may be gone elsewhere already,
    /// for the sake of a newer value that was lost.
    fn take(&mut self, batch: &Batch, is_fresh: bool) -> Result<(), String> {
        if batch.is_control() {
            return Ok(());
        }
        let records = batch.records().map_err(|error| error.to_string())?;
        for record in records {
            self.contents.insert(record.offset, (batch.leader_epoch(), content(&record.key, &record.value)));
            if let Some(key) = record.key.filter(|_| is_fresh) {
                self.newest.insert(key, (record.offset, record.value.is_some()));
            }
        }
        Ok(())
    }

    fn compare(&self, log: &Log, from: Offset, to: Offset) -> Result<u64, String> {
        let records = log.records_between(from, to).map_err(|error| error.to_string())?;
        let mut compared = 0;
        let mut there = std::collections::BTreeSet::new();
        for record in &records {
            let known = self.contents.get(&record.offset);
            let other = known.filter(|(_, known)| *known != content(&record.key, &record.value));
            if let Some((epoch, _)) = other
                && !is_left_over(log, record.offset, *epoch)
            {
                return Err(format!("the record at {} is another one than was committed", record.offset));
            }
            compared += u64::from(known.is_some() && other.is_none());
            there.insert(record.offset);
        }
        let lost = self.newest.iter().find(|(_, (offset, has_value))| {
            *has_value && *offset >= from && *offset < to && !there.contains(offset)
        });
        match lost {
            Some((key, (offset, _))) => {
                Err(format!("the newest value of {:?}, at {offset}, is gone", String::from_utf8_lossy(key)))
            }
            None => Ok(compared),
        }
    }
}

fn content(key: &Option<Bytes>, value: &Option<Bytes>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}
