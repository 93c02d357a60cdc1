//! Reads by offset and by time (R-LOG-25 to R-LOG-28).

use super::*;

/// Base offsets of the batches that a read returns.
fn read(log: &Log, from: i64, bound: i64, max_bytes: i32, min_one: bool) -> Result<Vec<i64>, ErrorCode> {
    let result = log.read(Offset(from), Offset(bound), max_bytes, min_one)?;
    let batches: Vec<_> = crate::kafka::record::split_batches(result.records).map(Result::unwrap).collect();
    assert_eq!(result.next_offset, batches.last().map_or(Offset(from), Batch::next_offset));
    Ok(batches.iter().map(|batch| batch.base_offset().0).collect())
}

#[test]
fn a_read_starts_with_the_batch_that_holds_the_offset_r_log_26() {
    let log = log_of(E0, &[&["a", "b"], &["c"], &["d", "e", "f"]]);
    assert_eq!(read(&log, 0, 6, i32::MAX, true), Ok(vec![0, 2, 3]));
    assert_eq!(read(&log, 1, 6, i32::MAX, true), Ok(vec![0, 2, 3]));
    assert_eq!(read(&log, 2, 6, i32::MAX, true), Ok(vec![2, 3]));
    assert_eq!(read(&log, 5, 6, i32::MAX, true), Ok(vec![3]));
}

#[test]
fn a_read_ends_at_its_bound_without_an_error_r_log_25() {
    let mut log = log_of(E0, &[&["a", "b"], &["c"], &["d"]]);
    assert_eq!(read(&log, 0, 3, i32::MAX, true), Ok(vec![0, 2]));
    assert_eq!(read(&log, 3, 3, i32::MAX, true), Ok(vec![]));
    assert_eq!(read(&log, 4, 3, i32::MAX, true), Ok(vec![]));
    assert_eq!(read(&log, 4, 4, i32::MAX, true), Ok(vec![]));
    assert_eq!(read(&log, 5, 4, i32::MAX, true), Err(ErrorCode::OffsetOutOfRange));
    log.maybe_increment_high_watermark(Offset(3));
    log.maybe_increment_log_start_offset(Offset(2));
    assert_eq!(read(&log, 1, 4, i32::MAX, true), Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(read(&log, 2, 4, i32::MAX, true), Ok(vec![2, 3]));
}

#[test]
fn only_the_first_batch_may_exceed_the_bytes_asked_for_r_log_26() {
    let log = log_of(E0, &[&["hello"], &["hello"], &["hello"]]);
    assert_eq!(read(&log, 0, 3, 146, true), Ok(vec![0, 1]));
    assert_eq!(read(&log, 0, 3, 145, true), Ok(vec![0]));
    assert_eq!(read(&log, 0, 3, 1, true), Ok(vec![0]));
    assert_eq!(read(&log, 0, 3, 72, false), Ok(vec![]));
    assert_eq!(read(&log, 0, 3, 73, false), Ok(vec![0]));
}

#[test]
fn a_read_of_one_batch_shares_its_bytes() {
    let log = log_of(E0, &[&["a"], &["b"]]);
    let read = log.read(Offset(1), Offset(2), i32::MAX, true).unwrap();
    assert_eq!(read.records.as_ptr(), log.batches_from(Offset(1)).next().unwrap().bytes().as_ptr());
}

#[test]
fn the_tail_is_the_last_records_whatever_their_batches() {
    let log = log_of(E0, &[&["a", "b"], &["c"], &["d", "e", "f"]]);
    let tail = |count| log.tail(count).unwrap().iter().map(|record| record.offset.0).collect::<Vec<_>>();
    assert_eq!(tail(0), [0; 0]);
    assert_eq!(tail(2), [4, 5]);
    assert_eq!(tail(4), [2, 3, 4, 5]);
    assert_eq!(tail(99), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_timestamp_finds_the_first_record_that_is_not_older_r_log_28() {
    let mut log = Log::new();
    for timestamp_ms in [100, 300, 200] {
        append(&mut log, &batch_at(timestamp_ms, &["x"], None), E0).unwrap();
    }
    let find = |timestamp_ms| log.offset_for_timestamp(timestamp_ms).unwrap().map(|found| found.offset.0);
    assert_eq!(
        [find(0), find(100), find(101), find(250), find(301)],
        [Some(0), Some(0), Some(1), Some(1), None]
    );
}
