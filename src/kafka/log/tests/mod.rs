mod compaction;
#[cfg(feature = "codecs")]
mod compression;
mod segments;
mod transactions;

use bytes::Bytes;

use super::*;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, BatchBuilder, BatchError, NO_TIMESTAMP, NewRecord, TimestampType};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

const NOW: Time = Time::from_ms(10_000);
const E0: LeaderEpoch = LeaderEpoch(0);
const E1: LeaderEpoch = LeaderEpoch(1);

type Sequence = Option<(ProducerId, ProducerEpoch, i32)>;

fn batch_at(timestamp_ms: i64, values: &[&str], producer: Sequence) -> Batch {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.append(&NewRecord { timestamp_ms, value: Some(value.as_bytes()), ..NewRecord::default() });
    }
    builder.finish(producer)
}

fn batch(values: &[&str]) -> Batch {
    batch_at(NOW.wall_ms(), values, None)
}

fn append(log: &mut Log, batch: &Batch, epoch: LeaderEpoch) -> Result<Appended, AppendError> {
    log.append_as_leader(NOW, batch.bytes().clone(), epoch, Origin::Client, &LogConfig::default())
}

/// A log of one batch a list.
fn log_of(epoch: LeaderEpoch, batches: &[&[&str]]) -> Log {
    let mut log = Log::new();
    for values in batches {
        append(&mut log, &batch(values), epoch).unwrap();
    }
    log
}

/// What a follower's fetch brings, unless the leader names a diverging epoch (R-REPL-8).
fn replicate(leader: &Log, follower: &mut Log, epoch: LeaderEpoch) {
    let from = follower.log_end_offset();
    if let Some(last_epoch) = follower.latest_epoch() {
        let end = leader.end_offset_for(last_epoch);
        if end.0 < last_epoch || end.1 < from {
            follower.truncate_to(NOW, follower.truncation_point(end, from), &LogConfig::default());
            return replicate(leader, follower, epoch);
        }
    }
    let fetched = leader.read(from, leader.log_end_offset(), i32::MAX, true).unwrap();
    follower.append_as_follower(NOW, fetched.records, epoch, &LogConfig::default()).unwrap();
}

fn values(log: &Log) -> Vec<String> {
    let records = log.records_between(Offset::ZERO, log.log_end_offset()).unwrap();
    records
        .iter()
        .map(|record| String::from_utf8_lossy(record.value.as_ref().unwrap()).into_owned())
        .collect()
}

fn epochs(log: &Log) -> Vec<(i32, i64)> {
    log.leader_epochs().entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
}

// Appends at the leader.

#[test]
fn a_batch_gets_the_log_end_as_its_offset_and_the_leaders_epoch_r_log_17_18() {
    let mut log = log_of(E0, &[&["a", "b"]]);
    let appended = append(&mut log, &batch(&["c", "d", "e"]), E1).unwrap();
    assert_eq!(
        (appended.base_offset, appended.last_offset, appended.record_count()),
        (Offset(2), Offset(4), 3)
    );
    assert_eq!(appended.log_append_time_ms, NO_TIMESTAMP);
    let stored = log.batches_from(Offset(2)).next().unwrap();
    assert_eq!((stored.base_offset(), stored.leader_epoch(), stored.check_crc()), (Offset(2), E1, Ok(())));
    assert_eq!((log.log_end_offset(), log.high_watermark(), log.batch_count()), (Offset(5), Offset(0), 2));
    assert_eq!(epochs(&log), [(0, 0), (1, 2)]);
}

#[test]
fn append_time_replaces_the_producers_timestamps_r_log_19() {
    let mut log = Log::new();
    let limits = LogConfig { log_append_time: true, ..LogConfig::default() };
    let sent = batch_at(5, &["a", "b"], None).into_bytes();
    let appended = log.append_as_leader(NOW, sent, E0, Origin::Client, &limits).unwrap();
    assert_eq!(appended.log_append_time_ms, NOW.wall_ms());
    let records = log.tail(2).unwrap();
    assert!(records.iter().all(|record| record.timestamp_ms == NOW.wall_ms()));
    assert_eq!(log.batches_from(Offset(0)).next().unwrap().check_crc(), Ok(()));
}

/// The append is refused and leaves no trace.
fn check_refused(bytes: Bytes, limits: &LogConfig, error: AppendError, code: ErrorCode) {
    let mut log = log_of(E0, &[&["a"]]);
    let before = log.clone();
    assert_eq!(error.code(), code);
    assert_eq!(log.append_as_leader(NOW, bytes, E1, Origin::Client, limits), Err(error));
    assert_eq!(log, before);
}

/// `edit` changes the header of a good batch and mends the checksum.
fn edited(edit: impl FnOnce(&mut [u8])) -> Bytes {
    let mut bytes = batch(&["x"]).into_bytes().to_vec();
    edit(&mut bytes);
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    Bytes::from(bytes)
}

#[test]
fn a_batch_is_checked_before_it_is_stored_r_log_15_16() {
    let limits = LogConfig::default();
    let refused = |bytes, error, code| check_refused(bytes, &limits, error, code);
    let twice = [&batch(&["x"]).into_bytes()[..], &batch(&["y"]).into_bytes()[..]].concat();
    let mut flipped = batch(&["x"]).into_bytes().to_vec();
    flipped[66] ^= 1;
    let crc = match Batch::parse(&mut Bytes::from(flipped.clone())).unwrap().check_crc() {
        Err(error) => AppendError::Batch(error),
        Ok(()) => panic!("the checksum holds"),
    };
    let placed = batch(&["x"]).with_assigned(Offset(1), LeaderEpoch::NONE).into_bytes();
    refused(Bytes::new(), AppendError::NoBatch, ErrorCode::InvalidRecord);
    refused(twice.into(), AppendError::MoreThanOneBatch, ErrorCode::InvalidRecord);
    refused(edited(|b| b[16] = 3), AppendError::Batch(BatchError::Magic(3)), ErrorCode::CorruptMessage);
    refused(edited(|b| b[16] = 1), AppendError::Batch(BatchError::Magic(1)), ErrorCode::InvalidRecord);
    refused(placed, AppendError::BaseOffsetNotZero(Offset(1)), ErrorCode::InvalidRecord);
    refused(flipped.into(), crc, ErrorCode::CorruptMessage);
    let count = |record_count, last_offset_delta| AppendError::Count { record_count, last_offset_delta };
    refused(edited(|b| b[60] = 0), count(0, 0), ErrorCode::InvalidRecord);
    refused(edited(|b| b[26] = 1), count(1, 1), ErrorCode::InvalidRecord);
    refused(edited(|b| b[22] = 0x20), AppendError::ControlBatch, ErrorCode::InvalidRecord);
    refused(edited(|b| b[43..51].fill(0)), AppendError::NegativeSequence(-1), ErrorCode::InvalidRecord);
}

#[test]
fn size_is_that_of_the_whole_batch_r_log_15() {
    let batch = batch(&["hello"]);
    let limits = |max_message_bytes| LogConfig { max_message_bytes, ..LogConfig::default() };
    let too_large = AppendError::TooLarge { size_bytes: 73, max_message_bytes: 72 };
    check_refused(batch.bytes().clone(), &limits(72), too_large, ErrorCode::MessageTooLarge);
    assert!(Log::new().append_as_leader(NOW, batch.into_bytes(), E0, Origin::Client, &limits(73)).is_ok());
}

#[test]
fn one_bad_record_refuses_the_whole_batch_r_log_20_22() {
    let compacted = LogConfig { compacted: true, ..LogConfig::default() };
    let mut builder = BatchBuilder::new();
    for key in [Some(&b"k"[..]), None, None] {
        builder.append(&NewRecord { timestamp_ms: NOW.wall_ms(), key, ..NewRecord::default() });
    }
    let no_key = |batch_index| RecordError { batch_index, fault: RecordFault::NoKey };
    let error = AppendError::Records(vec![no_key(1), no_key(2)]);
    check_refused(builder.finish(None).into_bytes(), &compacted, error, ErrorCode::InvalidRecord);
}

/// A record of that timestamp, which is refused unless `accepted`.
fn check_timestamp(timestamp_ms: i64, limits: &LogConfig, accepted: bool) {
    let now_ms = NOW.wall_ms();
    let bytes = batch_at(timestamp_ms, &["x"], None).into_bytes();
    if accepted {
        assert!(Log::new().append_as_leader(NOW, bytes, E0, Origin::Client, limits).is_ok());
    } else {
        let fault = RecordFault::TimestampOutOfRange { timestamp_ms, now_ms };
        let error = AppendError::Records(vec![RecordError { batch_index: 0, fault }]);
        check_refused(bytes, limits, error, ErrorCode::InvalidTimestamp);
    }
}

#[test]
fn timestamps_are_bounded_on_both_sides_r_log_19() {
    let limits = LogConfig { timestamp_before_max_ms: 1000, ..LogConfig::default() };
    let now_ms = NOW.wall_ms();
    check_timestamp(now_ms - 1000, &limits, true);
    check_timestamp(now_ms - 1001, &limits, false);
    check_timestamp(now_ms + 3_600_000, &limits, true);
    check_timestamp(now_ms + 3_600_001, &limits, false);
    check_timestamp(NO_TIMESTAMP, &limits, true);
    check_timestamp(i64::MAX, &limits, false);
    check_timestamp(0, &LogConfig::default(), true);
}

#[test]
fn a_client_may_not_say_that_its_timestamps_are_append_times_r_log_19() {
    let limits = LogConfig { log_append_time: true, ..LogConfig::default() };
    let sent = batch(&["x"]).with_max_timestamp(TimestampType::LogAppendTime, 7).into_bytes();
    let error = AppendError::Records(vec![RecordError {
        batch_index: 0,
        fault: RecordFault::LogAppendTimeFromClient,
    }]);
    check_refused(sent, &limits, error, ErrorCode::InvalidTimestamp);
}

// Idempotence.

fn sequenced(epoch: i16, base_sequence: i32, values: &[&str]) -> Batch {
    batch_at(NOW.wall_ms(), values, Some((ProducerId(7), ProducerEpoch(epoch), base_sequence)))
}

/// The base offset, and whether the batch was there already; or Kafka's error.
fn send(log: &mut Log, epoch: i16, base_sequence: i32, count: usize) -> Result<(i64, bool), ErrorCode> {
    let appended = append(log, &sequenced(epoch, base_sequence, &["x"].repeat(count)), E0);
    appended.map(|appended| (appended.base_offset.0, appended.duplicate)).map_err(|error| error.code())
}

const OUT_OF_ORDER: Result<(i64, bool), ErrorCode> = Err(ErrorCode::OutOfOrderSequenceNumber);

#[test]
fn a_batch_of_the_last_five_is_answered_with_its_place_ex_15() {
    let mut log = Log::new();
    for sequence in 0..7 {
        assert_eq!(send(&mut log, 0, sequence, 1), Ok((sequence.into(), false)));
    }
    assert_eq!(send(&mut log, 0, 6, 1), Ok((6, true)));
    assert_eq!(send(&mut log, 0, 2, 1), Ok((2, true)));
    assert_eq!(log.log_end_offset(), Offset(7));
    assert_eq!(send(&mut log, 0, 1, 1), OUT_OF_ORDER);
    assert_eq!(send(&mut log, 0, 8, 1), OUT_OF_ORDER);
    assert_eq!(send(&mut log, 0, 7, 1), Ok((7, false)));
    assert_eq!(send(&mut log, 0, 8, 1), Ok((8, false)));
}

#[test]
fn a_duplicate_carries_its_first_timestamp_r_prod_25() {
    let mut log = Log::new();
    let batch = sequenced(0, 0, &["x"]);
    append(&mut log, &batch, E0).unwrap();
    let later = NOW.plus_ms(5000);
    let limits = LogConfig::default();
    let again = log.append_as_leader(later, batch.into_bytes(), E0, Origin::Client, &limits).unwrap();
    assert_eq!((again.duplicate, again.log_append_time_ms), (true, NOW.wall_ms()));
}

#[test]
fn a_batch_that_overlaps_is_out_of_order_r_prod_26() {
    let mut log = Log::new();
    assert_eq!(send(&mut log, 0, 0, 3), Ok((0, false)));
    assert_eq!(send(&mut log, 0, 0, 2), OUT_OF_ORDER);
    assert_eq!(send(&mut log, 0, 2, 2), OUT_OF_ORDER);
    assert_eq!(send(&mut log, 0, 0, 3), Ok((0, true)));
}

#[test]
fn a_new_epoch_starts_at_0_and_an_old_one_is_fenced_r_prod_25() {
    let mut log = Log::new();
    assert_eq!(send(&mut log, 1, 0, 1), Ok((0, false)));
    assert_eq!(send(&mut log, 2, 1, 1), OUT_OF_ORDER);
    assert_eq!(send(&mut log, 2, 0, 1), Ok((1, false)));
    assert_eq!(send(&mut log, 1, 0, 1), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(log.producers().get(ProducerId(7)).unwrap().batches().len(), 1, "the window starts anew");
}

#[test]
fn an_unknown_producer_may_start_anywhere_r_prod_27() {
    assert_eq!(send(&mut Log::new(), 3, 41, 1), Ok((0, false)));
}

#[test]
fn sequence_numbers_go_on_at_0_after_the_greatest_r_prod_24() {
    let mut log = Log::new();
    assert_eq!(send(&mut log, 0, i32::MAX - 1, 3), Ok((0, false)));
    assert_eq!(send(&mut log, 0, i32::MAX - 1, 3), Ok((0, true)));
    assert_eq!(send(&mut log, 0, 1, 1), Ok((3, false)));
    assert_eq!(send(&mut Log::new(), 0, i32::MAX, 1), Ok((0, false)));
}

#[test]
fn followers_know_the_producers_too_r_prod_28() {
    let (mut leader, mut follower) = (Log::new(), Log::new());
    for sequence in 0..3 {
        send(&mut leader, 0, sequence, 1).unwrap();
    }
    replicate(&leader, &mut follower, E0);
    assert_eq!(follower.producers(), leader.producers());
    assert_eq!(send(&mut follower, 0, 2, 1), Ok((2, true)));
}

#[test]
fn truncation_takes_the_producers_back_r_log_51() {
    let mut log = Log::new();
    for sequence in 0..4 {
        send(&mut log, 0, sequence, 1).unwrap();
    }
    assert!(log.truncate_to(NOW, Offset(2), &LogConfig::default()));
    assert_eq!(send(&mut log, 0, 3, 1), OUT_OF_ORDER);
    assert_eq!(send(&mut log, 0, 2, 1), Ok((2, false)));
}

#[test]
fn a_silent_producer_is_forgotten_after_a_day_r_prod_28() {
    const DAY_MS: i64 = 86_400_000;
    let mut log = Log::new();
    send(&mut log, 0, 0, 1).unwrap();
    log.remove_expired_producers(NOW.plus_ms(DAY_MS - 1), DAY_MS);
    assert!(log.producers().get(ProducerId(7)).is_some());
    log.remove_expired_producers(NOW.plus_ms(DAY_MS), DAY_MS);
    assert_eq!(log.producers().iter().count(), 0);
}

#[test]
fn a_coordinators_batch_has_its_epoch_checked_and_not_its_sequence() {
    let mut log = Log::new();
    let mut write = |epoch, sequence| {
        let bytes = sequenced(epoch, sequence, &["x"]).into_bytes();
        let appended = log.append_as_leader(NOW, bytes, E0, Origin::Coordinator, &LogConfig::default());
        appended.map(|appended| appended.base_offset.0).map_err(|error| error.code())
    };
    assert_eq!(write(1, -1), Ok(0));
    assert_eq!(write(1, -1), Ok(1));
    assert_eq!(write(0, -1), Err(ErrorCode::InvalidProducerEpoch));
}

// Appends at a follower.

#[test]
fn a_follower_takes_batches_as_they_are_and_stops_at_a_later_epoch_r_log_24() {
    let mut leader = log_of(E0, &[&["a"], &["b", "c"]]);
    append(&mut leader, &batch(&["d"]), E1).unwrap();
    let all = leader.read(Offset(0), Offset(4), i32::MAX, true).unwrap().records;
    let mut follower = Log::new();
    let appended = follower.append_as_follower(NOW, all.clone(), E0, &LogConfig::default()).unwrap();
    assert_eq!(appended, FollowerAppended { from: Offset(0), to: Offset(3) });
    assert_eq!(
        (values(&follower), epochs(&follower)),
        (vec!["a".into(), "b".into(), "c".into()], vec![(0, 0)])
    );

    let below = AppendError::BelowLogEnd { first: Offset(0), log_end_offset: Offset(3) };
    assert_eq!(follower.append_as_follower(NOW, all, E1, &LogConfig::default()), Err(below));
    replicate(&leader, &mut follower, E1);
    assert_eq!((values(&follower), epochs(&follower)), (values(&leader), epochs(&leader)));
}

#[test]
fn a_follower_accepts_gaps_and_refuses_a_damaged_or_misplaced_batch_r_log_24() {
    let at = |offset| batch(&["x"]).with_assigned(Offset(offset), E0).into_bytes();
    let mut log = Log::new();
    let gap = [&at(3)[..], &at(7)[..]].concat();
    assert_eq!(log.append_as_follower(NOW, gap.into(), E0, &LogConfig::default()).unwrap().to, Offset(8));
    assert_eq!((log.batch_count(), log.log_start_offset()), (2, Offset(0)));

    let backwards = [&at(9)[..], &at(8)[..]].concat();
    assert_eq!(
        log.append_as_follower(NOW, backwards.into(), E0, &LogConfig::default()),
        Err(AppendError::OutOfOrder(Offset(8)))
    );
    let mut damaged = [&at(9)[..], &at(10)[..]].concat();
    *damaged.last_mut().unwrap() ^= 1;
    let error = log.append_as_follower(NOW, damaged.into(), E0, &LogConfig::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::CorruptMessage);
    let unnumbered = log.append_as_follower(NOW, batch(&["x"]).into_bytes(), E0, &LogConfig::default());
    assert_eq!(unnumbered, Err(AppendError::NoLeaderEpoch));
    assert_eq!((log.log_end_offset(), log.batch_count()), (Offset(8), 2), "nothing of them is kept");
}

// Reads.

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

// High watermark and truncation.

#[test]
fn a_leaders_high_watermark_only_rises_and_a_followers_is_kept_in_its_log_r_repl_12_17() {
    let mut log = log_of(E0, &[&["a", "b", "c"]]);
    assert_eq!(log.maybe_increment_high_watermark(Offset(2)), Some(Offset(0)));
    assert_eq!(log.maybe_increment_high_watermark(Offset(1)), None);
    assert_eq!(log.high_watermark(), Offset(2));
    assert_eq!(log.update_high_watermark(Offset(9)), Some(Offset(2)));
    assert_eq!(log.high_watermark(), Offset(3));
    assert_eq!(log.update_high_watermark(Offset(3)), None);
}

#[test]
fn the_log_start_rises_to_the_high_watermark_at_most_r_log_30() {
    let mut log = log_of(E0, &[&["a"], &["b"]]);
    append(&mut log, &batch(&["c"]), E1).unwrap();
    log.maybe_increment_high_watermark(Offset(3));
    assert!(log.maybe_increment_log_start_offset(Offset(1)));
    assert!(!log.maybe_increment_log_start_offset(Offset(1)));
    assert_eq!((values(&log), epochs(&log)), (vec!["b".into(), "c".into()], vec![(0, 1), (1, 2)]));
    assert_eq!(log.tail(99).unwrap().len(), 2);
}

#[test]
fn truncation_cuts_batches_epochs_and_high_watermark_r_log_51() {
    let mut log = log_of(E0, &[&["a"], &["b"]]);
    append(&mut log, &batch(&["c"]), E1).unwrap();
    log.maybe_increment_high_watermark(Offset(3));
    assert!(!log.truncate_to(NOW, Offset(3), &LogConfig::default()));
    assert!(log.truncate_to(NOW, Offset(1), &LogConfig::default()));
    assert_eq!(
        (log.log_end_offset(), log.high_watermark()),
        (Offset(1), Offset(1)),
        "below the high watermark too"
    );
    assert_eq!((values(&log), epochs(&log)), (vec!["a".to_owned()], vec![(0, 0)]));
    assert_eq!((log.batch_count(), log.size_bytes()), (1, batch(&["a"]).size_bytes().into()));
}

#[test]
fn an_epoch_without_a_record_is_trimmed_where_nothing_is_cut_r_log_51() {
    let mut log = log_of(E0, &[&["a"]]);
    log.assign_epoch(E1, Offset(1));
    assert!(!log.truncate_to(NOW, Offset(1), &LogConfig::default()));
    assert_eq!(epochs(&log), [(0, 0)]);
}

#[test]
fn truncation_below_the_first_offset_starts_the_log_there_r_log_51() {
    let mut log = log_of(E0, &[&["a"]]);
    log.truncate_fully_and_start_at(NOW, Offset(50));
    append(&mut log, &batch(&["b"]), E1).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(50), Offset(51)));
    assert!(log.truncate_to(NOW, Offset(20), &LogConfig::default()));
    let offsets = (log.log_start_offset(), log.high_watermark(), log.log_end_offset());
    assert_eq!((offsets, epochs(&log)), ((Offset(20), Offset(20), Offset(20)), vec![]));
}

#[test]
fn a_restart_keeps_the_records_and_the_checkpointed_high_watermark() {
    let mut log = log_of(E0, &[&["a"], &["b"]]);
    log.maybe_increment_high_watermark(Offset(2));
    log.assign_epoch(E1, Offset(2));
    log.restore(Offset(1));
    assert_eq!(
        (log.high_watermark(), log.log_end_offset(), epochs(&log)),
        (Offset(1), Offset(2), vec![(0, 0)])
    );
}

#[test]
fn an_acknowledged_record_of_one_replica_is_lost_ex_5() {
    let mut one = log_of(E0, &[&["r0", "r1", "r2", "r3", "r4"]]);
    let mut two = Log::new();
    replicate(&one, &mut two, E0);
    append(&mut one, &batch(&["A"]), E0).unwrap();

    two.assign_epoch(E1, two.log_end_offset());
    append(&mut two, &batch(&["B"]), E1).unwrap();
    assert_eq!(two.end_offset_for(E0), (E0, Offset(5)));
    assert_eq!(one.truncation_point((E0, Offset(5)), Offset(6)), Offset(5));
    replicate(&two, &mut one, E1);
    assert_eq!(values(&one), ["r0", "r1", "r2", "r3", "r4", "B"]);
    assert_eq!(epochs(&one), [(0, 0), (1, 5)]);
}

#[test]
fn truncation_keeps_what_the_new_leader_has_above_the_high_watermark_ex_6() {
    let (e5, e6) = (LeaderEpoch(5), LeaderEpoch(6));
    let mut a = log_of(e5, &[&["x"].repeat(101)]);
    let (mut b, mut c) = (Log::new(), Log::new());
    replicate(&a, &mut b, e5);
    replicate(&a, &mut c, e5);
    append(&mut a, &batch(&["101", "102"]), e5).unwrap();
    replicate(&a, &mut b, e5);
    append(&mut a, &batch(&["103 of 5", "104 of 5"]), e5).unwrap();

    b.assign_epoch(e6, b.log_end_offset());
    replicate(&b, &mut c, e6);
    assert_eq!(c.log_end_offset(), Offset(103), "no truncation: its end is within epoch 5 of B");
    append(&mut b, &batch(&["103 of 6", "104 of 6"]), e6).unwrap();
    assert_eq!(a.truncation_point(b.end_offset_for(e5), Offset(105)), Offset(103));
    replicate(&b, &mut a, e6);
    replicate(&b, &mut c, e6);
    assert_eq!(values(&a)[101..], ["101", "102", "103 of 6", "104 of 6"]);
    assert_eq!((values(&a), epochs(&a)), (values(&b), epochs(&b)));
    assert_eq!((values(&c), epochs(&c)), (values(&b), vec![(5, 0), (6, 103)]));
}
