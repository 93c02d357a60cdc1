use super::AcknowledgeType::*;
use super::*;

#[test]
fn records_go_to_one_member_each_and_start_again_behind_r_share_1_3() {
    let mut share = share();
    assert_eq!(share.acquire_of("s1", &[(0, 4)], 500), "0-4 x1");
    assert_eq!(share.acquire_of("s2", &[(0, 4)], 500), "", "all is held");
    assert_eq!(share.acquire_of("s2", &[(0, 4), (5, 9)], 500), "5-9 x1");
    assert_eq!(share.picture(), "0..9, 0-4 held x1 s1, 5-9 held x1 s2");
    assert_eq!(share.partition.next_fetch_offset(), Offset(10));
}

#[test]
fn whole_batches_are_taken_even_if_that_is_more_than_was_asked_for_r_share_13() {
    let mut share = share();
    assert_eq!(share.acquire_of("s1", &[(0, 11)], 5), "0-11 x1");
    assert_eq!(share.acquire_of("s1", &[(12, 13), (14, 16), (17, 20)], 4), "12-16 x1");
}

#[test]
fn the_strict_mode_takes_no_more_than_was_asked_for_r_share_13() {
    let mut share = Share { mode: AcquireMode::RecordLimit, ..share() };
    let log = [(0, 11)];
    assert_eq!(share.acquire_of("s1", &log, 5), "0-4 x1");
    assert_eq!(share.picture(), "0..11, 0-4 held x1 s1, 5-11 free x0");
    assert_eq!(share.partition.next_fetch_offset(), Offset(5));
    assert_eq!(share.acquire_of("s2", &log, 5), "5-9 x1");
    share.acknowledge("s2", 5, 9, Release);
    assert_eq!(share.acquire_of("s1", &log, 5), "5-9 x2");
    assert_eq!(share.acquire_of("s1", &log, 5), "10-11 x1");
}

#[test]
fn large_answers_are_in_flight_in_pieces_of_whole_batches() {
    let mut share = Share { batch_size: 5, ..share() };
    let log = [(0, 2), (3, 5), (6, 7), (8, 14), (15, 15)];
    assert_eq!(share.acquire_of("s1", &log, 500), "0-5 x1, 6-14 x1, 15-15 x1");
}

#[test]
fn in_flight_are_as_many_as_there_are_locks_r_share_10() {
    let mut share = Share { mode: AcquireMode::RecordLimit, ..share() };
    share.settings.max_record_locks = 100;
    let log: Vec<_> = (0..13).map(|batch| (20 * batch, 20 * batch + 19)).collect();
    assert_eq!(share.acquire_of("s1", &log, 500), "0-99 x1");
    assert!(!share.partition.can_acquire(&share.settings));
    assert_eq!(share.acquire_of("s2", &log, 500), "");
    share.acknowledge("s1", 50, 50, Release);
    assert!(share.partition.can_acquire(&share.settings), "what came back may be handed out");
    assert_eq!(share.acquire_of("s2", &log, 500), "50-50 x2");
    share.acknowledge("s1", 0, 49, Accept);
    assert_eq!(share.partition.start_offset(), Offset(50));
    assert_eq!(share.acquire_of("s2", &log, 500), "100-149 x1", "the start has made room");
}

/// Vector 14, `delivery_limit_partial`.
#[test]
fn records_near_their_limit_come_in_smaller_portions_and_the_last_time_alone_r_share_8_9() {
    let mut share = share();
    share.settings.delivery_count_limit = 4;
    let log = [(0, 15)];
    let mut next = |first: i64, last: i64, count: i16| {
        assert_eq!(share.acquire_of("s1", &log, 500), format!("{first}-{last} x{count}"));
        share.acknowledge("s1", first, last, Release);
    };
    next(0, 15, 1);
    next(0, 15, 2);
    next(0, 7, 3);
    for offset in 0..8 {
        next(offset, offset, 4);
    }
    next(8, 15, 3);
    assert_eq!(share.picture(), "8..15, 0-7 gone x4, 8-15 free x3");
    assert_eq!(share.partition.delivery_complete_count(), 0);
}

#[test]
fn what_may_fail_goes_after_what_is_new_by_itself_r_share_9() {
    let mut share = share();
    share.settings.delivery_count_limit = 4;
    share.acquire_of("s1", &[(0, 3)], 500);
    share.acquire_of("s2", &[(4, 7)], 500);
    share.acknowledge("s2", 4, 7, Release);
    share.acquire_of("s2", &[(4, 7)], 500);
    share.acknowledge("s2", 4, 7, Release);
    share.acknowledge("s1", 0, 3, Release);
    assert_eq!(share.acquire_of("s1", &[(0, 3), (4, 7)], 500), "0-3 x2");
    assert_eq!(share.acquire_of("s1", &[(4, 7)], 500), "4-5 x3");
}

#[test]
fn a_reader_of_committed_records_never_sees_the_aborted_r_share_12() {
    let mut share = share();
    // 0-1 committed, 2 its marker, 3-4 aborted, 5 its marker.
    let log = [(0, 1), (2, 2), (3, 4), (5, 5)];
    assert_eq!(share.acquire_but("s1", &log, &[(3, 4)], 500), "0-2 x1, 5-5 x1");
    assert_eq!(share.picture(), "0..5, 0-2 held x1 s1, 3-4 gone x1, 5-5 held x1 s1");
    assert_eq!(share.partition.delivery_complete_count(), 2);
    share.acknowledge("s1", 0, 2, Accept);
    share.acknowledge("s1", 5, 5, Gap);
    assert_eq!(share.picture(), "6..6");
}

#[test]
fn what_compaction_removed_while_it_was_free_is_done() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4), (5, 9)], 500);
    share.acknowledge("s1", 0, 9, Release);
    assert_eq!(share.partition.next_fetch_offset(), Offset(0));
    assert_eq!(share.acquire_of("s1", &[(3, 9)], 500), "3-9 x2");
    assert_eq!(share.picture(), "0..9, 0-2 gone x1, 3-9 held x2 s1");
    share.acknowledge("s1", 3, 9, Accept);
    assert_eq!(share.picture(), "10..10");
}

/// Vector 14, `delete_records`.
#[test]
fn the_start_follows_the_start_of_the_log_r_share_11() {
    let mut share = Share { mode: AcquireMode::RecordLimit, ..share() };
    let log: Vec<_> = (0..6).map(|offset| (offset, offset)).collect();
    assert_eq!(share.acquire_of("s1", &log, 2), "0-1 x1");
    share.acknowledge("s1", 0, 1, Accept);
    share.partition.log_start_moved(Offset(4));
    assert_eq!(share.picture(), "4..4");
    assert_eq!(share.acquire_of("s1", &log, 2), "4-5 x1");
}

#[test]
fn what_the_log_dropped_is_not_handed_out_again_but_its_holder_may_still_speak() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4)], 500);
    share.acquire_of("s2", &[(5, 9)], 500);
    share.acknowledge("s1", 0, 1, Release);
    share.partition.log_start_moved(Offset(7));
    assert_eq!(share.picture(), "7..9, 0-1 gone x1, 2-4 held x1 s1, 5-9 held x1 s2");
    assert_eq!(share.partition.next_fetch_offset(), Offset(10));
    share.acknowledge("s2", 5, 9, Accept);
    assert_eq!(share.try_acknowledge("s1", 2, &[Accept], 4), Ok(None), "below the start");
    assert_eq!(share.picture(), "7..9, 0-1 gone x1, 2-4 held x1 s1, 5-6 held x1 s2, 7-9 done x1");
    share.wait_ms(30_000);
    assert_eq!(share.picture(), "10..10");
}
