//! Segments, their indexes, and which of them go (R-LOG-6 to R-LOG-13, R-LOG-30 to R-LOG-35).

use super::*;
use crate::kafka::log::{Deleted, DeletionReason, LogConfig};

/// A batch of one record that takes `size_bytes` in all.
fn sized(timestamp_ms: i64, size_bytes: i32) -> Batch {
    let of = |length: usize| {
        let mut builder = BatchBuilder::new();
        builder.append(&NewRecord { timestamp_ms, value: Some(&vec![0; length]), ..NewRecord::default() });
        builder.finish(None)
    };
    (0..).map(of).find(|batch| batch.size_bytes() == size_bytes).unwrap()
}

fn append_at(log: &mut Log, now: Time, batch: &Batch, config: &LogConfig) -> Result<Appended, AppendError> {
    log.append_as_leader(now, batch.bytes().clone(), E0, Origin::Client, config)
}

fn write(log: &mut Log, timestamp_ms: i64, config: &LogConfig) {
    append_at(log, NOW, &sized(timestamp_ms, 100), config).unwrap();
    log.maybe_increment_high_watermark(log.log_end_offset());
}

fn small(segment_bytes: i32) -> LogConfig {
    LogConfig {
        segment_bytes,
        timestamp_after_max_ms: i64::MAX,
        index_interval_bytes: 150,
        retention_ms: -1,
        ..LogConfig::default()
    }
}

fn bases(log: &Log) -> Vec<i64> {
    log.segments().map(|segment| segment.base_offset().0).collect()
}

fn at(wall_ms: i64) -> Time {
    Time::ZERO.plus_ms(wall_ms - Time::ZERO.wall_ms())
}

/// R-LOG-7.
#[test]
fn a_segment_is_rolled_when_a_batch_does_not_fit_r_log_8_11() {
    let (mut log, config) = (Log::new(), small(300));
    for _ in 0..7 {
        write(&mut log, 0, &config);
    }
    assert_eq!(bases(&log), [0, 3, 6]);
    assert_eq!(log.producers().snapshot_offsets().collect::<Vec<_>>(), [Offset(3), Offset(6)]);
}

#[test]
fn a_batch_larger_than_a_segment_is_refused_r_log_13() {
    let refused = append_at(&mut Log::new(), NOW, &sized(0, 301), &small(300)).unwrap_err();
    assert_eq!(refused, AppendError::TooLargeForSegment { size_bytes: 301, segment_bytes: 300 });
    assert_eq!(refused.code(), ErrorCode::RecordListTooLarge);
}

#[test]
fn time_rolls_a_segment_on_append_alone_and_by_the_records_clock_r_log_9() {
    let config = LogConfig { segment_ms: 1000, ..small(1 << 20) };
    let mut log = Log::created_at(NOW);
    write(&mut log, 5000, &config);
    write(&mut log, 6000, &config);
    assert_eq!(bases(&log), [0], "a second, and no more");
    append_at(&mut log, NOW.plus_ms(1 << 40), &sized(4000, 100), &config).unwrap();
    assert_eq!(bases(&log), [0], "an old record, however late it comes");
    write(&mut log, 6001, &config);
    assert_eq!(bases(&log), [0, 3]);
}

#[test]
fn records_without_a_time_wait_by_the_brokers_clock_r_log_9() {
    let config = LogConfig { segment_ms: 1000, ..small(1 << 20) };
    let mut log = Log::created_at(NOW);
    for wait_ms in [0, 1000, 1001] {
        append_at(&mut log, NOW.plus_ms(wait_ms), &sized(NO_TIMESTAMP, 100), &config).unwrap();
    }
    assert_eq!(bases(&log), [0, 2]);
}

#[test]
fn the_compaction_lag_bounds_a_compacted_segments_time_r_log_10() {
    let config = LogConfig { max_compaction_lag_ms: 50, ..LogConfig::default() };
    assert_eq!(config.max_segment_ms(), config.segment_ms);
    assert_eq!(LogConfig { compacted: true, ..config }.max_segment_ms(), 50);
}

#[test]
fn a_full_index_rolls_a_segment_r_log_8() {
    let config = LogConfig { segment_index_bytes: 16, index_interval_bytes: 0, ..small(1 << 20) };
    let mut log = Log::new();
    for timestamp_ms in 0..4 {
        write(&mut log, timestamp_ms, &config);
    }
    // The time index has room for one entry less, and is full from the start.
    assert_eq!(bases(&log), [0, 1, 2, 3]);
}

#[test]
fn an_offset_too_far_from_the_base_rolls_a_segment_r_log_8() {
    let far = i64::from(i32::MAX);
    let mut log = Log::new();
    for offset in [0, far, far + 1] {
        let batch = sized(0, 100).with_assigned(Offset(offset), E0);
        log.append_as_follower(NOW, batch.into_bytes(), E0, &small(1 << 20)).unwrap();
    }
    assert_eq!(bases(&log), [0, far + 1]);
}

#[test]
fn an_index_entry_is_made_when_more_than_the_interval_lies_behind_the_last_r_log_12() {
    let (mut log, config) = (Log::new(), small(1 << 20));
    for timestamp_ms in [10, 30, 20, 20, 40] {
        write(&mut log, timestamp_ms, &config);
    }
    let segment = log.segments().next().unwrap();
    let offsets: Vec<_> =
        segment.offset_index().iter().map(|entry| (entry.offset.0, entry.position_bytes)).collect();
    assert_eq!(offsets, [(2, 200), (4, 400)]);
    let times: Vec<_> =
        segment.time_index().iter().map(|entry| (entry.timestamp_ms, entry.offset.0)).collect();
    assert_eq!(times, [(30, 1), (40, 4)]);
}

#[test]
fn a_read_stops_at_the_end_of_a_segment_and_the_next_goes_on() {
    let (mut log, config) = (Log::new(), small(300));
    for _ in 0..5 {
        write(&mut log, 0, &config);
    }
    let read = |from| log.read(Offset(from), Offset(5), i32::MAX, true).unwrap().next_offset.0;
    assert_eq!((read(0), read(2), read(3)), (3, 3, 5));
}

fn check_deleted(deleted: &[Deleted], expected: &[(DeletionReason, i32, i64)]) {
    let deleted: Vec<_> =
        deleted.iter().map(|each| (each.reason, each.segments, each.log_start_offset.0)).collect();
    assert_eq!(deleted, expected);
}

#[test]
fn retention_by_size_never_goes_below_what_is_to_be_kept_r_log_34_ex_30() {
    let (mut log, config) = (Log::new(), LogConfig { retention_bytes: 350, ..small(100) });
    for _ in 0..5 {
        write(&mut log, 0, &config);
    }
    let deleted = log.delete_old_segments(NOW, &config);
    check_deleted(&deleted, &[(DeletionReason::RetentionSize, 1, 1)]);
    assert_eq!((log.size_bytes(), log.log_start_offset()), (400, Offset(1)));
    assert_eq!(log.delete_old_segments(NOW, &config), [], "without the next one it would be 300");
}

#[test]
fn retention_by_time_takes_the_active_segment_too_r_log_33_35_ex_30() {
    let (mut log, config) = (Log::new(), LogConfig { retention_ms: 1000, ..small(100) });
    for timestamp_ms in [8000, 8999, 9000] {
        write(&mut log, timestamp_ms, &config);
    }
    let deleted = log.delete_old_segments(at(10_000), &config);
    check_deleted(&deleted, &[(DeletionReason::RetentionTime, 2, 2)]);
    let deleted = log.delete_old_segments(at(10_001), &config);
    check_deleted(&deleted, &[(DeletionReason::RetentionTime, 1, 3)]);
    assert_eq!((bases(&log), log.size_bytes(), log.log_start_offset()), (vec![3], 0, Offset(3)));
    assert_eq!(log.read(Offset(1), Offset(3), 1000, true), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(log.delete_old_segments(at(1 << 40), &config), [], "an empty active segment stays (R-LOG-32)");
}

#[test]
fn a_record_of_the_future_keeps_its_segment_and_all_later_ones_r_log_35() {
    let (mut log, config) = (Log::new(), LogConfig { retention_ms: 1000, ..small(100) });
    for timestamp_ms in [8000, 1 << 50, 8000] {
        write(&mut log, timestamp_ms, &config);
    }
    log.delete_old_segments(at(20_000), &config);
    assert_eq!(bases(&log), [1, 2]);
}

#[test]
fn nothing_goes_at_or_above_the_high_watermark_r_log_32() {
    let (mut log, config) = (Log::new(), LogConfig { retention_bytes: 0, ..small(100) });
    write(&mut log, 0, &config);
    for _ in 0..2 {
        append_at(&mut log, NOW, &sized(0, 100), &config).unwrap();
    }
    log.delete_old_segments(NOW, &config);
    assert_eq!((bases(&log), log.high_watermark()), (vec![1, 2], Offset(1)));
}

/// R-LOG-31.
#[test]
fn deleted_records_take_their_segments_at_the_next_pass_r_log_37_and_a_compacted_log_stops_there() {
    let config = LogConfig { deletes: false, compacted: true, retention_bytes: 0, ..small(100) };
    let mut log = Log::new();
    let plain = LogConfig { compacted: false, ..config.clone() };
    for _ in 0..3 {
        write(&mut log, 0, &plain);
    }
    assert!(log.maybe_increment_log_start_offset(Offset(2)));
    assert_eq!(bases(&log), [0, 1, 2]);
    check_deleted(&log.delete_old_segments(NOW, &config), &[(DeletionReason::LogStartOffset, 2, 2)]);
    assert_eq!((bases(&log), log.producers().snapshot_offsets().count()), (vec![2], 1));
}

#[test]
fn a_pass_takes_its_three_kinds_in_order_r_log_31() {
    let (mut log, plain) = (Log::new(), small(100));
    for timestamp_ms in [0, 0, 0, 0, 9_500, 9_500] {
        write(&mut log, timestamp_ms, &plain);
    }
    assert!(log.maybe_increment_log_start_offset(Offset(2)));
    let config = LogConfig { retention_bytes: 300, retention_ms: 1_000, ..plain };
    // Each kind could take what the one before it takes, so the reason tells who came first.
    let (by_start, by_size, by_time) =
        (DeletionReason::LogStartOffset, DeletionReason::RetentionSize, DeletionReason::RetentionTime);
    check_deleted(
        &log.delete_old_segments(at(10_000), &config),
        &[(by_start, 2, 2), (by_size, 1, 3), (by_time, 1, 4)],
    );
    assert_eq!(bases(&log), [4, 5]);
}

#[test]
fn producers_outlive_their_records_r_log_30() {
    let (mut log, config) = (Log::new(), LogConfig { retention_bytes: 0, ..small(100) });
    append_at(&mut log, NOW, &sequenced(0, 0, &["x"]), &config).unwrap();
    log.maybe_increment_high_watermark(Offset(1));
    log.delete_old_segments(NOW, &config);
    assert_eq!((log.size_bytes(), log.log_start_offset()), (0, Offset(1)));
    assert_eq!(log.producers().iter().count(), 1);
}

#[test]
fn truncation_goes_back_to_a_snapshot_which_remembers_the_last_batch_alone_r_log_51() {
    let (mut log, config) = (Log::new(), small(160));
    for sequence in 0..6 {
        append_at(&mut log, NOW, &sequenced(0, sequence, &["x"]), &config).unwrap();
    }
    assert_eq!(bases(&log), [0, 2, 4]);
    assert!(log.truncate_to(NOW, Offset(3), &config));
    assert_eq!(bases(&log), [0, 2]);
    let known: Vec<_> =
        log.producers().get(ProducerId(7)).unwrap().batches().iter().map(|b| b.base_sequence).collect();
    assert_eq!(known, [1, 2], "1 from the snapshot at 2, and 2 from the log");
}
