use super::AcknowledgeType::*;
use super::*;

#[test]
fn each_record_has_a_fate_of_its_own_and_the_start_stops_at_the_first_that_is_not_done_r_share_6_11() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 5)], 500);
    let said = [Accept, Release, Accept, Reject, Accept, Release];
    let write = share.try_acknowledge("s1", 0, &said, 5).expect("s1 holds them").expect("states changed");
    assert_eq!((write.start_offset, write.delivery_complete_count), (Offset(0), 4));
    assert_eq!(share.partition.next_fetch_offset(), Offset(6), "nothing is free before it is persisted");
    share.persist(Some(write));
    assert_eq!(
        share.picture(),
        "1..5, 0-0 done x1, 1-1 free x1, 2-2 done x1, 3-3 gone x1, 4-4 done x1, 5-5 free x1"
    );
    assert_eq!(share.partition.delivery_complete_count(), 3);
    assert_eq!(share.acquire_of("s2", &[(0, 5)], 500), "1-1 x2, 5-5 x2");
    share.acknowledge("s2", 1, 1, Accept);
    assert_eq!(share.partition.start_offset(), Offset(5));
}

/// EX-33.
#[test]
fn five_tries_with_one_record_that_always_fails_r_share_5_8_11() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4)], 500);
    share.acknowledge("s1", 0, 1, Accept);
    share.acknowledge("s1", 3, 3, Accept);
    share.acknowledge("s1", 2, 2, Release);
    assert_eq!((share.partition.start_offset(), share.partition.end_offset()), (Offset(2), Offset(4)));
    assert_eq!(share.acquire_of("s2", &[(0, 4)], 500), "2-2 x2");
    share.acknowledge("s2", 2, 2, Accept);
    assert_eq!(share.partition.start_offset(), Offset(4));
    share.wait_ms(30_000);
    for count in 2..=5 {
        assert_eq!(share.acquire_of("s2", &[(0, 4)], 500), format!("4-4 x{count}"));
        share.acknowledge("s2", 4, 4, Release);
    }
    assert_eq!(share.acquire_of("s2", &[(0, 4)], 500), "");
    assert_eq!(share.picture(), "5..5");
}

#[test]
fn only_the_holder_may_speak_and_all_of_it_counts_or_nothing_r_share_6() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4)], 500);
    share.acquire_of("s2", &[(5, 9)], 500);
    let before = share.picture();
    let invalid = Err(ErrorCode::InvalidRecordState);
    assert_eq!(share.try_acknowledge("s2", 0, &[Accept], 4), invalid);
    assert_eq!(share.try_acknowledge("s1", 0, &[Accept], 9), invalid, "half of it is another's");
    assert_eq!(share.try_acknowledge("s2", 8, &[Accept], 10), Err(ErrorCode::InvalidRequest));
    assert_eq!(share.try_acknowledge("s2", 5, &[Accept, Accept], 9), Err(ErrorCode::InvalidRequest));
    assert_eq!(share.picture(), before);
    assert_eq!(share.partition.delivery_complete_count(), 0);
    share.acknowledge("s1", 0, 4, Accept);
    assert_eq!(share.try_acknowledge("s1", 0, &[Accept], 4), Ok(None), "it is done");
}

#[test]
fn an_acknowledgement_that_is_not_persisted_is_taken_back() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4)], 500);
    let write = share.try_acknowledge("s1", 0, &[Accept], 2).expect("s1 holds them").expect("states changed");
    assert_eq!(
        share.try_acknowledge("s1", 0, &[Reject], 2),
        Err(ErrorCode::InvalidRecordState),
        "it is under way"
    );
    assert!(!share.partition.written(write.id, false));
    assert_eq!(share.picture(), "0..4, 0-4 held x1 s1");
    assert_eq!(share.partition.delivery_complete_count(), 0);
    share.acknowledge("s1", 0, 2, Release);
    assert_eq!(share.acquire_of("s2", &[(0, 4)], 500), "0-2 x2");
}

/// R-SHARE-14.
#[test]
fn a_member_that_goes_gives_back_what_it_holds_with_its_delivery_count_r_share_8_14() {
    let mut share = share();
    share.settings.delivery_count_limit = 2;
    share.acquire_of("s1", &[(0, 2)], 500);
    share.acquire_of("s2", &[(3, 4)], 500);
    let write = share.partition.release_member(&member("s1"), &share.settings);
    share.persist(write);
    assert_eq!(share.picture(), "0..4, 0-2 free x1, 3-4 held x1 s2");
    assert_eq!(share.acquire_of("s1", &[(0, 2)], 500), "0-2 x2");
    let write = share.partition.release_member(&member("s1"), &share.settings);
    share.persist(write);
    assert_eq!(share.picture(), "3..4, 3-4 held x1 s2", "twice is all that there is");
    assert_eq!(share.partition.release_member(&member("s1"), &share.settings), None);
}

#[test]
fn what_lies_below_the_start_is_archived_when_its_holder_goes_r_share_14() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4)], 500);
    share.partition.log_start_moved(Offset(3));
    let write = share.partition.release_member(&member("s1"), &share.settings);
    share.persist(write);
    assert_eq!(share.picture(), "3..4, 0-2 gone x1, 3-4 free x1");
}
