//! What the committed batches of a partition say of transactions, read one after the other by nothing but their format.
//!
//! **Invariant:** a batch is read once, as soon as it is committed, so that compaction and retention change nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::kafka::log::Log;
use crate::kafka::record::Batch;
use crate::kafka::types::{Offset, ProducerEpoch, ProducerId, TopicId};
use crate::swarm::check::{Check, Verdict};

/// Whose the records of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Of no transaction.
    Plain,
    Open,
    Committed,
    Aborted,
    /// A batch that says something to the broker and to clients, and nothing to applications.
    Control,
}

impl Fate {
    /// Whether a reader of committed data is given such records.
    pub fn is_for_committed(self) -> bool {
        matches!(self, Fate::Plain | Fate::Committed)
    }
}

/// A transaction that has not ended here: where its batches stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    pub epoch: ProducerEpoch,
    pub batches: Vec<Offset>,
}

/// A transaction that has ended here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub producer: ProducerId,
    pub batches: Vec<Offset>,
    pub marker: Offset,
    pub committed: bool,
}

/// The end of a transaction as it stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub epoch: ProducerEpoch,
    pub committed: bool,
    pub offset: Offset,
    /// The epoch of the transaction that it ended, if one was open.
    pub ends: Option<ProducerEpoch>,
}

/// What a replica knows of its partition.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub high_watermark: Offset,
    pub log_start: Offset,
    /// It may not know any more which transactions ended below.
    pub forgotten: Offset,
    /// The producers that have a marker there between the two: maybe one that is not committed, or never will be.
    pub enders: &'a BTreeSet<ProducerId>,
}

#[derive(Debug)]
pub struct Reading {
    pub topic_id: TopicId,
    /// Below it nothing is known.
    start: Offset,
    next: Offset,
    /// By their first offsets: where they end, and whose they are.
    batches: BTreeMap<Offset, (Offset, Fate)>,
    open: BTreeMap<ProducerId, Open>,
    /// In the order of their markers.
    ended: Vec<Ended>,
    marks: BTreeMap<ProducerId, Vec<Mark>>,
}

impl Reading {
    /// Of a partition that has just been made.
    pub fn new(topic_id: TopicId) -> Reading {
        Reading {
            topic_id,
            start: Offset::ZERO,
            next: Offset::ZERO,
            batches: BTreeMap::new(),
            open: BTreeMap::new(),
            ended: Vec::new(),
            marks: BTreeMap::new(),
        }
    }

    pub fn start(&self) -> Offset {
        self.start
    }

    pub fn next(&self) -> Offset {
        self.next
    }

    pub fn open(&self) -> impl Iterator<Item = (ProducerId, &Open)> {
        self.open.iter().map(|(producer, open)| (*producer, open))
    }

    pub fn marks(&self) -> impl Iterator<Item = (ProducerId, &[Mark])> {
        self.marks.iter().map(|(producer, marks)| (*producer, &marks[..]))
    }

    pub fn marks_of(&self, producer: ProducerId) -> &[Mark] {
        self.marks.get(&producer).map_or(&[], |marks| marks)
    }

    /// Reads on below `end`, where everything is committed. Gives the batches that are new.
    ///
    /// # Errors
    /// A batch that may not stand where it does.
    pub fn follow<'a>(
        &mut self,
        log: &'a Log,
        end: Offset,
        mut each: impl FnMut(&mut Reading, &'a Batch) -> Verdict,
    ) -> Verdict {
        if end <= self.next {
            return Ok(());
        }
        if log.log_start_offset() > self.next {
            // Committed, and deleted in the same step.
            (self.start, self.next) = (log.log_start_offset(), log.log_start_offset());
            self.open.clear();
        }
        for batch in log.batches_from(self.next).take_while(|batch| batch.next_offset() <= end) {
            self.take(batch)?;
            each(self, batch)?;
        }
        self.next = end;
        Ok(())
    }

    /// The transaction that the last batch ended.
    pub fn last_ended(&self, marker: &Batch) -> Option<&Ended> {
        self.ended.last().filter(|ended| ended.marker == marker.base_offset())
    }

    fn take(&mut self, batch: &Batch) -> Verdict {
        let (base, producer, epoch) = (batch.base_offset(), batch.producer_id(), batch.producer_epoch());
        let fate = if batch.is_control() {
            let marker = batch.end_transaction_marker();
            let marker = marker.map_err(|error| Check::Markers.broken(format!("at {base}: {error}")))?;
            if let Some(marker) = marker {
                self.end(producer, epoch, base, marker.committed);
            }
            Fate::Control
        } else if batch.is_transactional() {
            self.check_epoch(producer, epoch, base)?;
            let fresh = || Open { epoch, batches: Vec::new() };
            self.open.entry(producer).or_insert_with(fresh).batches.push(base);
            Fate::Open
        } else {
            Fate::Plain
        };
        self.batches.insert(base, (batch.next_offset(), fate));
        Ok(())
    }

    /// Behind a marker nothing stands of an earlier epoch.
    fn check_epoch(&self, producer: ProducerId, epoch: ProducerEpoch, base: Offset) -> Verdict {
        let newest = self.marks_of(producer).iter().rfind(|mark| mark.epoch > epoch);
        Check::Epochs.verdict(newest.map(|mark| {
            let (behind, of) = (mark.offset, mark.epoch);
            format!("producer {producer} has a batch of epoch {epoch} at {base}, behind a marker of {of} at {behind}")
        }))
    }

    fn end(&mut self, producer: ProducerId, epoch: ProducerEpoch, marker: Offset, committed: bool) {
        let open = self.open.remove(&producer);
        let ends = open.as_ref().map(|open| open.epoch);
        self.marks.entry(producer).or_default().push(Mark { epoch, committed, offset: marker, ends });
        let Some(Open { batches, .. }) = open else { return };
        for base in &batches {
            if let Some((_, fate)) = self.batches.get_mut(base) {
                *fate = if committed { Fate::Committed } else { Fate::Aborted };
            }
        }
        self.ended.push(Ended { producer, batches, marker, committed });
    }

    /// Whose the record at an offset is; nothing if no batch is known there.
    pub fn fate_at(&self, offset: Offset) -> Option<Fate> {
        let (_, (end, fate)) = self.batches.range(..=offset).next_back()?;
        (offset < *end && offset >= self.start).then_some(*fate)
    }

    /// The batches that reach into `[from, to)`: their part of it, and whose they are.
    pub fn between(&self, from: Offset, to: Offset) -> impl Iterator<Item = (Offset, Offset, Fate)> {
        let from = from.max(self.start);
        let first = self.batches.range(..=from).next_back().map_or(from, |(base, _)| *base);
        let range = if first < to { first..to } else { to..to };
        let batches = self
            .batches
            .range(range)
            .map(move |(base, (end, fate))| ((*base).max(from), (*end).min(to), *fate));
        batches.filter(|(from, to, _)| from < to)
    }

    /// Where the stable part ends for a replica (R-TXN-23): no earlier than the first offset, and no later than the second.
    ///
    /// They differ where the log begins within an open transaction, as the part that is gone may be known still; and who may
    /// have forgotten which transactions ended need not wait for these.
    pub fn stable_end(&self, replica: &Known, holds: impl Fn(Offset) -> bool) -> (Offset, Offset) {
        let Known { high_watermark, log_start, forgotten, enders } = *replica;
        let (mut least, mut most) = (high_watermark, high_watermark);
        let late = self.ended.iter().rev().take_while(|ended| ended.marker >= high_watermark);
        let late =
            late.map(|ended| (&ended.batches, ended.marker < forgotten || enders.contains(&ended.producer)));
        let open = self.open.iter().map(|(producer, open)| (&open.batches, enders.contains(producer)));
        for (batches, may_be_forgotten) in late.chain(open) {
            let is_left = |base: &&Offset| {
                holds(**base) && self.batches.get(base).is_some_and(|(end, _)| *end > log_start)
            };
            let from = |base: &Offset| (*base).max(log_start);
            least = batches.first().map_or(least, |first| least.min(from(first)));
            if !may_be_forgotten {
                most = batches.iter().find(is_left).map_or(most, |first| most.min(from(first)));
            }
        }
        (if self.start > Offset::ZERO { Offset::ZERO } else { least }, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::log::{LogConfig, Origin};
    use crate::kafka::record::{BatchBuilder, BatchParameters, EndTransactionMarker, NewRecord};
    use crate::kafka::time::Time;
    use crate::kafka::types::LeaderEpoch;

    /// A batch of one record, or a marker.
    enum What {
        Plain,
        Of(i64, i16),
        Commit(i64, i16),
        Abort(i64, i16),
    }
    use What::*;

    fn log(whats: &[What]) -> Log {
        let mut log = Log::new();
        for what in whats {
            let (producer, epoch, end) = match what {
                Plain => (-1, -1, None),
                Of(producer, epoch) => (*producer, *epoch, None),
                Commit(producer, epoch) => (*producer, *epoch, Some(true)),
                Abort(producer, epoch) => (*producer, *epoch, Some(false)),
            };
            let (producer_id, producer_epoch) = (ProducerId(producer), ProducerEpoch(epoch));
            let transactional = producer >= 0;
            let parameters =
                BatchParameters { producer_id, producer_epoch, transactional, ..BatchParameters::default() };
            let batch = match end {
                Some(committed) => {
                    EndTransactionMarker { committed, coordinator_epoch: 0 }.batch(parameters, 0)
                }
                None => {
                    let mut batch = BatchBuilder::with(parameters);
                    batch.append(&NewRecord { value: Some(b"a"), ..NewRecord::default() });
                    batch.build()
                }
            };
            // A coordinator's batches are not held to their sequence numbers.
            let origin = Origin::Coordinator;
            let (bytes, config) = (batch.bytes().clone(), LogConfig::default());
            log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(1), origin, &config).expect("a sound batch");
        }
        log
    }

    fn read(whats: &[What], end: i64) -> (Reading, Verdict) {
        let mut reading = Reading::new(TopicId::default());
        let verdict = reading.follow(&log(whats), Offset(end), |_, _| Ok(()));
        (reading, verdict)
    }

    #[test]
    fn a_batch_is_open_until_its_marker_decides_r_txn_23() {
        let whats = [Plain, Of(1, 0), Of(2, 0), Abort(2, 1), Plain, Commit(1, 1), Of(1, 1)];
        let fates = |end| {
            let (reading, verdict) = read(&whats, end);
            assert_eq!(verdict, Ok(()));
            (0..end).map(|offset| reading.fate_at(Offset(offset)).expect("known")).collect::<Vec<_>>()
        };
        assert_eq!(fates(3), [Fate::Plain, Fate::Open, Fate::Open]);
        assert_eq!(fates(4), [Fate::Plain, Fate::Open, Fate::Aborted, Fate::Control]);
        let all = [Fate::Plain, Fate::Committed, Fate::Aborted, Fate::Control, Fate::Plain, Fate::Control];
        assert_eq!(fates(7), [&all[..], &[Fate::Open]].concat());
        let (reading, _) = read(&whats, 7);
        let part: Vec<_> = reading.between(Offset(1), Offset(3)).collect();
        let expected = [(1, 2, Fate::Committed), (2, 3, Fate::Aborted)];
        assert_eq!(part, expected.map(|(from, to, fate)| (Offset(from), Offset(to), fate)));
    }

    #[test]
    fn the_stable_part_ends_before_what_is_open_or_ended_behind_the_high_watermark_r_txn_23() {
        let whats = [Plain, Of(1, 0), Of(2, 0), Commit(2, 1), Plain, Commit(1, 1)];
        let stable_to = |end: i64, mark: i64, start: i64, forgotten: i64| {
            let enders = if end < forgotten { [ProducerId(1)].into() } else { BTreeSet::new() };
            let known = Known {
                high_watermark: Offset(mark),
                log_start: Offset(start),
                forgotten: Offset(forgotten),
                enders: &enders,
            };
            let (least, most) = read(&whats, end).0.stable_end(&known, |_| true);
            (least.0, most.0)
        };
        let stable = |end, mark, start| stable_to(end, mark, start, 0);
        assert_eq!(stable(1, 1, 0), (1, 1));
        assert_eq!(stable(5, 5, 0), (1, 1), "one is open");
        assert_eq!(stable(6, 5, 0), (1, 1), "the marker is not below the high watermark (EX-25)");
        assert_eq!(stable(6, 6, 0), (6, 6));
        assert_eq!(stable(5, 5, 2), (2, 5), "the log begins behind what it had of it");
        assert_eq!(stable_to(6, 5, 0, 6), (1, 5), "the process began with the marker in its log");
        assert_eq!(stable_to(5, 5, 0, 6), (1, 5), "and nobody has the marker below its high watermark yet");
        assert_eq!(stable_to(5, 5, 0, 5), (1, 1), "what is open it knows");
    }

    #[test]
    fn behind_a_marker_no_batch_is_of_an_earlier_epoch_r_txn_20() {
        let found = |whats: &[What]| read(whats, whats.len() as i64).1.map_err(|broken| broken.check);
        assert_eq!(found(&[Of(1, 0), Commit(1, 1), Of(1, 1)]), Ok(()));
        let mut reading = Reading::new(TopicId::default());
        let sound = log(&[Of(1, 0), Commit(1, 3)]);
        reading.follow(&sound, Offset(2), |_, _| Ok(())).expect("a sound log");
        let old = reading.check_epoch(ProducerId(1), ProducerEpoch(2), Offset(2));
        assert_eq!(old.map_err(|broken| broken.check), Err(Check::Epochs));
        assert_eq!(reading.check_epoch(ProducerId(1), ProducerEpoch(3), Offset(2)), Ok(()));
        assert_eq!(reading.check_epoch(ProducerId(2), ProducerEpoch(0), Offset(2)), Ok(()));
    }
}
