//! Idempotent producers: duplicates, gaps and epochs (R-PROD-24 to R-PROD-28, EX-15).

use super::*;

/// The base offset, and whether the batch was there already; or Kafka's error.
fn send(log: &mut Log, epoch: i16, base_sequence: i32, count: usize) -> Result<(i64, bool), ErrorCode> {
    let appended = append(log, &sequenced(epoch, base_sequence, &["x"].repeat(count)), E0);
    appended.map(|appended| (appended.base_offset.0, appended.duplicate)).map_err(|error| error.code())
}

const OUT_OF_ORDER: Result<(i64, bool), ErrorCode> = Err(ErrorCode::OutOfOrderSequenceNumber);

/// R-PROD-25.
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
