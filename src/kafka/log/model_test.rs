//! A log against a plain list of records: whatever is done to it, both say the same.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Log, LogConfig, Origin};
use crate::kafka::record::{Batch, BatchBuilder, NewRecord, split_batches};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset};

#[derive(Clone, Debug)]
enum Step {
    /// A batch of so many records, after the leader epoch rose by so much.
    Append {
        records: usize,
        epoch_rise: i32,
    },
    /// At a share of the log's length, in 1/256.
    Truncate(u8),
    StartOver {
        gap: i64,
    },
    Read {
        from: u8,
        max_bytes: i32,
    },
    /// DeleteRecords at a share of the log's length, and a pass of retention.
    DeleteRecords(u8),
    /// Goes on with a clone; the original must stay as it is.
    Fork,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (1..4_usize, prop_oneof![9 => Just(0), 1 => 1..3]).prop_map(|(records, epoch_rise)| Step::Append { records, epoch_rise }),
        4 => any::<u8>().prop_map(Step::Truncate),
        1 => (0..5_i64).prop_map(|gap| Step::StartOver { gap }),
        8 => (any::<u8>(), 0..2000_i32).prop_map(|(from, max_bytes)| Step::Read { from, max_bytes }),
        2 => any::<u8>().prop_map(Step::DeleteRecords),
        3 => Just(Step::Fork),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelRecord {
    offset: i64,
    batch_base: i64,
    epoch: i32,
    value: Bytes,
}

#[derive(Clone, Debug, Default)]
struct Model {
    start: i64,
    end: i64,
    records: Vec<ModelRecord>,
    /// Epoch and first offset.
    epochs: Vec<(i32, i64)>,
}

impl Model {
    fn append(&mut self, epoch: i32, values: &[Bytes]) {
        let batch_base = self.end;
        if self.epochs.last().is_none_or(|&(latest, _)| latest < epoch) {
            self.epochs.push((epoch, batch_base));
        }
        for value in values {
            self.records.push(ModelRecord { offset: self.end, batch_base, epoch, value: value.clone() });
            self.end += 1;
        }
    }

    fn truncate(&mut self, to: i64) {
        let cut_batch =
            self.records.iter().find(|record| record.offset == to).map(|record| record.batch_base);
        self.records.retain(|record| record.offset < to && Some(record.batch_base) != cut_batch);
        self.epochs.retain(|&(_, start)| start < to);
        self.end = to;
    }

    fn delete_records(&mut self, start: i64, first_segment: i64) {
        self.start = start;
        self.records.retain(|record| record.batch_base >= first_segment);
        let holds = self.epochs.iter().rposition(|&(_, first)| first <= start);
        if let Some(index) = holds {
            self.epochs.drain(..index);
            self.epochs[0].1 = start;
        }
    }

    /// At a share of the log's length.
    fn offset_at(&self, share: u8) -> i64 {
        self.start + (self.end - self.start) * i64::from(share) / 256
    }
}

fn stored(log: &Log) -> Vec<ModelRecord> {
    let of_batch = |batch: &Batch| {
        let (batch_base, epoch) = (batch.base_offset().0, batch.leader_epoch().0);
        let records = batch.records().unwrap().into_iter();
        records.map(move |record| ModelRecord {
            offset: record.offset.0,
            batch_base,
            epoch,
            value: record.value.unwrap(),
        })
    };
    log.batches_from(Offset::ZERO).flat_map(of_batch).collect()
}

fn check_same(log: &Log, model: &Model) {
    assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (model.start, model.end));
    assert_eq!(stored(log), model.records);
    let mut bases: Vec<_> = model.records.iter().map(|record| record.batch_base).collect();
    bases.dedup();
    assert_eq!(log.batch_count(), bases.len() as i64);
    let sizes = log.batches_from(Offset::ZERO).map(|batch| i64::from(batch.size_bytes()));
    assert_eq!(log.size_bytes(), sizes.sum::<i64>());
    check_segments(log);
    let epochs: Vec<_> =
        log.leader_epochs().entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect();
    assert_eq!(epochs, model.epochs);
}

fn check_read(log: &Log, model: &Model, from: i64, max_bytes: i32) {
    let read = log.read(Offset(from), log.log_end_offset(), max_bytes, true).unwrap();
    let batches: Vec<_> = split_batches(read.records.clone()).map(Result::unwrap).collect();
    let offsets = batches.iter().flat_map(|batch| batch.records().unwrap()).map(|record| record.offset.0);
    let first = model.records.iter().find(|record| record.offset >= from).map(|record| record.batch_base);
    let expected: Vec<_> = model
        .records
        .iter()
        .map(|record| record.offset)
        .filter(|&offset| first.is_some_and(|f| offset >= f))
        .collect();
    let offsets: Vec<_> = offsets.collect();
    assert_eq!(offsets, expected[..offsets.len()]);
    assert!(!offsets.is_empty() || expected.is_empty());
    assert!(batches.len() <= 1 || read.records.len() <= max_bytes as usize);
}

/// Segments of a few batches, each with a few index entries.
fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 600, index_interval_bytes: 100, retention_ms: -1, ..LogConfig::default() }
}

/// Segments lie one behind the other and hold what the log holds; every index entry names a batch.
fn check_segments(log: &Log) {
    let segments: Vec<_> = log.segments().collect();
    assert!(segments[0].base_offset() <= log.log_start_offset());
    assert_eq!(segments.iter().map(|segment| segment.size_bytes()).sum::<i64>(), log.size_bytes());
    for (segment, next) in segments.iter().zip(segments.iter().skip(1).map(Some).chain([None])) {
        let end = next.map_or(log.log_end_offset(), |next| next.base_offset());
        assert!(segment.base_offset() < end || next.is_none());
        let batches = log.batches_from(segment.base_offset()).take_while(|batch| batch.base_offset() < end);
        let mut position_bytes = 0;
        let places = batches.map(|batch| {
            let place = (batch.last_offset(), position_bytes);
            position_bytes += i64::from(batch.size_bytes());
            place
        });
        let places: Vec<_> = places.collect();
        assert_eq!(segment.size_bytes(), position_bytes);
        let is_there = |entry: &crate::kafka::log::OffsetPosition| {
            places.contains(&(entry.offset, entry.position_bytes))
        };
        assert!(segment.offset_index().iter().all(is_there));
    }
}

fn run(steps: Vec<Step>) {
    let (mut log, mut model) = (Log::new(), Model::default());
    let mut forks = Vec::new();
    let mut epoch = 0;
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Append { records, epoch_rise } => {
                epoch += epoch_rise;
                let values: Vec<_> =
                    (0..records).map(|index| Bytes::from(format!("{number}.{index}"))).collect();
                let mut builder = BatchBuilder::new();
                for value in &values {
                    builder.append(&NewRecord { value: Some(value), ..NewRecord::default() });
                }
                let bytes = builder.finish(None).into_bytes();
                let limits = small_segments();
                log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(epoch), Origin::Client, &limits).unwrap();
                model.append(epoch, &values);
            }
            Step::Truncate(share) => {
                let to = model.offset_at(share);
                assert_eq!(log.truncate_to(Time::ZERO, Offset(to), &small_segments()), to < model.end);
                model.truncate(to);
            }
            Step::StartOver { gap } => {
                let start = model.end + gap;
                log.truncate_fully_and_start_at(Time::ZERO, Offset(start));
                model = Model { start, end: start, ..Model::default() };
            }
            Step::DeleteRecords(share) => {
                let (start, end) = (model.offset_at(share), log.log_end_offset());
                log.maybe_increment_high_watermark(end);
                if log.maybe_increment_log_start_offset(Offset(start)) {
                    log.delete_old_segments(Time::ZERO, &small_segments());
                    let first_segment = log.segments().next().unwrap().base_offset().0;
                    let second = log.segments().nth(1).map(|segment| segment.base_offset().0);
                    assert!(
                        second.is_none_or(|base| base > start),
                        "no segment is wholly below the log start"
                    );
                    model.delete_records(start, first_segment);
                }
            }
            Step::Read { from, max_bytes } => check_read(&log, &model, model.offset_at(from), max_bytes),
            Step::Fork => forks.push((log.clone(), model.clone())),
        }
    }
    forks.push((log, model));
    forks.iter().for_each(|(log, model)| check_same(log, model));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_log_and_a_list_of_records_agree_and_a_clone_stays_as_it_was(steps in prop::collection::vec(step(), 0..400)) {
        run(steps);
    }
}
