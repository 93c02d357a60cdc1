//! What compaction keeps (R-LOG-38 to R-LOG-44); the recorded histories are in `conformance`.

use super::*;
use crate::kafka::log::LogConfig;

const DAY_MS: i64 = 86_400_000;

fn config() -> LogConfig {
    LogConfig { compacted: true, deletes: false, ..LogConfig::default() }
}

fn write(log: &mut Log, records: &[(&str, Option<&str>)]) {
    let mut builder = BatchBuilder::new();
    for (key, value) in records {
        let (key, value) = (Some(key.as_bytes()), value.map(str::as_bytes));
        builder.append(&NewRecord { timestamp_ms: NOW.wall_ms(), key, value, headers: &[] });
    }
    let bytes = builder.finish(None).into_bytes();
    log.append_as_leader(NOW, bytes, E0, Origin::Client, &config()).unwrap();
    log.maybe_increment_high_watermark(log.log_end_offset());
}

/// The log of EX-31: five records in a closed segment, one in the active one.
fn ex_31() -> Log {
    let mut log = Log::new();
    write(&mut log, &[("k1", Some("a")), ("k2", Some("b")), ("k1", Some("c"))]);
    write(&mut log, &[("k3", Some("d")), ("k2", None)]);
    log.roll_active(NOW);
    write(&mut log, &[("k1", Some("e"))]);
    log
}

fn clean(log: &mut Log, now: Time, from: i64) -> i64 {
    let cleanable = log.cleanable(Some(Offset(from)), now, &config());
    log.clean(cleanable, now, &config()).unwrap().end.0
}

fn offsets(log: &Log) -> Vec<i64> {
    let records = log.records_between(Offset(0), log.log_end_offset()).unwrap();
    records.iter().map(|record| record.offset.0).collect()
}

#[test]
fn the_last_value_of_a_key_stays_and_the_active_segment_is_not_touched_r_log_40_41_43_ex_31() {
    let mut log = ex_31();
    let before = log.clone();
    assert_eq!(clean(&mut log, NOW, 0), 5);
    assert_eq!((offsets(&log), log.log_end_offset()), (vec![2, 3, 4, 5], Offset(6)));
    assert_eq!(log.read(Offset(0), Offset(6), i32::MAX, true).unwrap().next_offset, Offset(5));
    assert_eq!(offsets(&before), [0, 1, 2, 3, 4, 5], "whoever holds the log as it was still has it all");
    let spans: Vec<_> =
        log.batches_from(Offset(0)).map(|batch| (batch.base_offset().0, batch.last_offset().0)).collect();
    assert_eq!(spans, [(0, 2), (3, 4), (5, 5)], "a batch keeps its offsets, whatever is left in it");
}

/// R-LOG-4.
#[test]
fn a_tombstone_goes_a_day_after_the_first_cleaning_that_met_it_r_log_42_ex_31() {
    let mut log = ex_31();
    clean(&mut log, NOW, 0);
    let horizon = log.batches_from(Offset(3)).next().unwrap().delete_horizon_ms();
    assert_eq!(horizon, Some(NOW.wall_ms() + DAY_MS));
    for (wait_ms, left) in [(DAY_MS - 1, vec![3, 4, 5, 6]), (DAY_MS, vec![3, 5, 6, 7])] {
        log.roll_active(NOW);
        write(&mut log, &[("k9", Some("x"))]);
        let dirty = log.segments().rev().nth(1).unwrap().base_offset().0;
        clean(&mut log, NOW.plus_ms(wait_ms), dirty);
        assert_eq!(offsets(&log), left);
    }
}

#[test]
fn an_open_transaction_and_the_lag_hold_cleaning_back_r_log_38_40() {
    let log = ex_31();
    let lag = |min_compaction_lag_ms| {
        let config = LogConfig { min_compaction_lag_ms, ..config() };
        log.cleanable(None, NOW.plus_ms(100), &config).bound.0
    };
    assert_eq!((lag(0), lag(100), lag(101)), (5, 5, 0));
    let mut behind = ex_31();
    behind.update_high_watermark(Offset(3));
    let cleanable = behind.cleanable(None, NOW, &config());
    assert_eq!((cleanable.bound, cleanable.first_uncleanable_offset), (Offset(3), Offset(0)));
    assert_eq!(behind.cleanable(Some(Offset(99)), NOW, &config()).first_dirty_offset, Offset(0));
}

#[test]
fn a_log_is_due_when_more_than_half_of_it_is_dirty_or_after_the_longest_lag_r_log_39() {
    let log = ex_31();
    let dirty = log.cleanable(None, NOW, &config());
    assert!(dirty.is_due(NOW, &config()) && !dirty.is_empty());
    let clean = log.cleanable(Some(Offset(5)), NOW, &config());
    assert!(!clean.is_due(NOW, &config()) && clean.is_empty());
    let picky =
        LogConfig { min_cleanable_dirty_ratio_ppm: 1_000_000, max_compaction_lag_ms: 1000, ..config() };
    assert!(!dirty.is_due(NOW.plus_ms(1000), &picky));
    assert!(dirty.is_due(NOW.plus_ms(1001), &picky));
}

/// Two closed segments of the same size, and deleted records up to the middle of the first.
#[test]
fn a_segment_that_holds_the_first_dirty_offset_counts_as_clean_and_as_dirty_r_log_39() {
    let mut log = Log::new();
    for _ in 0..2 {
        (0..10).for_each(|_| write(&mut log, &[("k", Some("v"))]));
        log.roll_active(NOW);
    }
    let segment_bytes = log.segments().next().unwrap().size_bytes();
    let bytes = |log: &Log, checkpoint| {
        let cleanable = log.cleanable(checkpoint, NOW, &config());
        let sums = (cleanable.clean_bytes / segment_bytes, cleanable.cleanable_bytes / segment_bytes);
        (sums, cleanable.is_due(NOW, &config()))
    };
    assert_eq!(bytes(&log, Some(Offset(10))), ((1, 1), false), "half is not more than half");
    assert!(log.maybe_increment_log_start_offset(Offset(5)));
    assert_eq!(bytes(&log, None), ((1, 2), true), "two of three parts are dirty");
    assert_eq!(bytes(&log, Some(Offset(20))), ((2, 0), false));
}

#[test]
fn a_producers_last_batch_stays_as_a_header_r_log_44() {
    let mut log = Log::new();
    let idempotent = |sequence, value: &str| {
        let mut builder = BatchBuilder::new();
        let (key, value) = (Some(&b"k"[..]), Some(value.as_bytes()));
        builder.append(&NewRecord { timestamp_ms: NOW.wall_ms(), key, value, headers: &[] });
        builder.finish(Some((ProducerId(7), ProducerEpoch(0), sequence)))
    };
    for sequence in 0..2 {
        append(&mut log, &idempotent(sequence, "x"), E0).unwrap();
    }
    write(&mut log, &[("k", Some("y"))]);
    log.roll_active(NOW);
    write(&mut log, &[("other", Some("z"))]);
    clean(&mut log, NOW, 0);
    let left: Vec<_> = log.batches_from(Offset(0)).map(|b| (b.base_offset().0, b.record_count())).collect();
    assert_eq!(left, [(1, 0), (2, 1), (3, 1)]);
    let last = log.batches_from(Offset(0)).next().unwrap();
    assert_eq!((last.last_sequence(), last.check_crc()), (1, Ok(())));
}

#[test]
fn what_lies_behind_the_cleaned_part_stays_shared_with_copies() {
    let mut log = Log::new();
    (0..128).for_each(|_| write(&mut log, &[("k", Some("v"))]));
    log.roll_active(NOW);
    (0..128).for_each(|_| write(&mut log, &[("k", Some("v"))]));
    let before = log.clone();
    assert_eq!(clean(&mut log, NOW, 0), 128);
    assert_eq!(offsets(&log)[..3], [127, 128, 129], "R-LOG-41");
    assert_eq!(log.chunks.shared_with(&before.chunks), (2, 3));
    assert_eq!((log.batch_count(), before.batch_count()), (129, 256));
    let sum: i64 = log.batches_from(Offset(0)).map(|batch| i64::from(batch.size_bytes())).sum();
    assert_eq!(log.size_bytes(), sum);
}
