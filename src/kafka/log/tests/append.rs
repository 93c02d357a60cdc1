//! What a log takes, from clients and from leaders, and what it refuses (R-LOG-15 to R-LOG-24).

use super::*;

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

#[test]
fn an_append_is_checked_in_one_order_r_log_14() {
    let refused = |bytes, limits: &LogConfig, error: AppendError| {
        let code = error.code();
        check_refused(bytes, limits, error, code);
    };
    let compacted =
        LogConfig { compacted: true, max_message_bytes: 72, segment_bytes: 72, ..LogConfig::default() };
    let mut flipped = edited(|b| b[60] = 0).to_vec();
    flipped[17] ^= 1;
    let (size_bytes, found) =
        (flipped.len() as i32, AppendError::TooLarge { size_bytes: 69, max_message_bytes: 68 });
    assert_eq!(size_bytes, 69);
    let limits = |max_message_bytes, segment_bytes| LogConfig {
        max_message_bytes,
        segment_bytes,
        ..compacted.clone()
    };
    // Each of these has every fault that the ones before it had, but for the one that was found.
    refused(flipped.clone().into(), &limits(68, 68), found);
    let crc = match Batch::parse(&mut Bytes::from(flipped.clone())).unwrap().check_crc() {
        Err(error) => AppendError::Batch(error),
        Ok(()) => panic!("the checksum is wrong"),
    };
    refused(flipped.into(), &limits(69, 68), crc);
    let count = AppendError::Count { record_count: 0, last_offset_delta: 0 };
    refused(edited(|b| b[60] = 0), &limits(69, 68), count);
    let gap = sequenced(0, 5, &["x"]);
    let no_key = AppendError::Records(vec![RecordError { batch_index: 0, fault: RecordFault::NoKey }]);
    refused(gap.bytes().clone(), &limits(69, 68), no_key);
    let plain = LogConfig { compacted: false, ..limits(69, 68) };
    refused(
        gap.bytes().clone(),
        &plain,
        AppendError::TooLargeForSegment { size_bytes: 69, segment_bytes: 68 },
    );
    let mut log = Log::new();
    let plain = LogConfig { compacted: false, ..limits(69, 69) };
    for (sequence, code) in [(0, Ok(Offset(0))), (5, Err(ErrorCode::OutOfOrderSequenceNumber))] {
        let bytes = sequenced(0, sequence, &["x"]).into_bytes();
        let appended = log.append_as_leader(NOW, bytes, E0, Origin::Client, &plain);
        assert_eq!(appended.map(|appended| appended.base_offset).map_err(|error| error.code()), code);
    }
    assert_eq!(log.segments().count(), 2, "a segment is rolled before the producer is looked at");
    assert_eq!(log.log_end_offset(), Offset(1));
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

    let below = AppendError::BelowLogEnd { first: Offset(0), last: Offset(0), log_end_offset: Offset(3) };
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
