//! The log's start moves while records are in flight, as Kafka 4.3.1 takes it, odd as that may be.

use super::*;

/// `acquire` raises the first offset to the start only where nothing begins before it (`floorEntry == null`).
#[test]
fn behind_what_is_held_below_the_start_more_of_that_is_handed_out_r_share_11() {
    let mut share = share();
    let log = [(0, 4), (5, 9)];
    assert_eq!(share.acquire_of("s1", &log, 5), "0-4 x1");
    share.partition.log_start_moved(Offset(7));
    assert_eq!(share.acquire_of("s2", &log, 500), "5-9 x1");
    assert_eq!(share.picture(), "7..9, 0-4 held x1 s1, 5-9 held x1 s2");
    // What lies below is nobody's business, and ends with its lock.
    share.acknowledge("s2", 5, 9, AcknowledgeType::Accept);
    share.wait_ms(30_000);
    assert_eq!(share.picture(), "10..10");
}

/// `updateCacheAndOffsets` leaves the gap window alone, and `nextFetchOffset` goes by it.
#[test]
fn a_gap_that_the_log_has_dropped_is_asked_for_until_all_is_dropped_r_share_11_14() {
    let persisted = StateBatch { range: range(20, 29), state: RecordState::Available, delivery_count: 1 };
    let mut partition =
        SharePartition::new(LeaderEpoch(1), 0, Offset(10), &[persisted]).expect("it is sound");
    for _ in 0..2 {
        partition.log_start_moved(Offset(15));
        assert_eq!((partition.start_offset(), partition.next_fetch_offset()), (Offset(15), Offset(10)));
    }
    partition.log_start_moved(Offset(40));
    assert_eq!((partition.start_offset(), partition.next_fetch_offset()), (Offset(40), Offset(40)));
}

/// `completeStateTransition` makes it available where the lock has ended, wherever the start is by then.
#[test]
fn what_comes_back_below_the_start_is_asked_for_in_vain_r_share_11() {
    let mut share = share();
    share.batch_size = 5;
    assert_eq!(share.acquire_of("s1", &[(0, 4), (5, 9)], 500), "0-4 x1, 5-9 x1");
    let write = share.try_acknowledge("s1", 0, &[AcknowledgeType::Accept], 4).expect("it is held");
    share.wait_ms(30_000);
    share.partition.log_start_moved(Offset(5));
    share.partition.written(write.expect("it is to be persisted").id, false);
    assert_eq!(share.picture(), "5..9, 0-9 free x1");
    for _ in 0..2 {
        assert_eq!(share.partition.next_fetch_offset(), Offset(0));
        share.partition.log_start_moved(Offset(5));
    }
}

/// `maybeInitializeOffsetStateUpdate` forgets what is under way, and `updateAcquisitionLockTimeoutTask` throws.
#[test]
fn what_is_being_released_where_the_log_is_cut_fails_whoever_is_handed_it_r_share_11() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4)], 500);
    share.wait_ms(10_000);
    let write = share.try_acknowledge("s1", 0, &[AcknowledgeType::Release], 4).expect("it is held");
    share.partition.log_start_moved(Offset(3));
    assert_eq!(share.picture(), "3..4, 0-2 gone x1, 3-4 free x1");
    assert_eq!(share.acquire_of("s2", &[(0, 4)], 500), "clash");
    assert_eq!(share.picture(), "3..4, 0-2 gone x1, 3-3 held x2 s2, 4-4 free x1", "nobody was told");
    // What comes of the write is nothing to those that are in flight by now.
    share.partition.written(write.expect("it is to be persisted").id, false);
    assert_eq!(share.picture(), "3..4, 0-2 gone x1, 3-3 held x2 s2, 4-4 free x1");

    // The old lock frees it, and the one that it was in the way of frees whoever has it then.
    share.wait_ms(20_000);
    assert_eq!(share.picture(), "3..4, 0-2 gone x1, 3-3 free x2, 4-4 free x1");
    share.mode = AcquireMode::RecordLimit;
    assert_eq!(share.acquire_of("s3", &[(0, 4)], 1), "3-3 x3");
    share.wait_ms(10_000);
    assert_eq!(share.picture(), "3..4, 0-2 gone x1, 3-3 free x3, 4-4 free x1");
    assert_eq!(share.partition.next_lock_end(), None);
}
