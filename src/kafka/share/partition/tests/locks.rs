use super::AcknowledgeType::*;
use super::*;

/// Vector 14, `lock_expiry`.
#[test]
fn a_lock_ends_and_the_late_acknowledgement_is_refused_r_share_7() {
    let mut share = share();
    share.settings.record_lock_duration_ms = 2000;
    share.acquire_of("s1", &[(0, 3)], 500);
    assert_eq!(share.partition.next_lock_end(), Some(Time::from_ms(2000)));
    share.wait_ms(1999);
    assert_eq!(share.acquire_of("s2", &[(0, 3)], 500), "");
    share.wait_ms(1);
    assert_eq!(share.partition.next_lock_end(), None);
    assert_eq!(share.acquire_of("s2", &[(0, 3)], 500), "0-3 x2");
    assert_eq!(share.try_acknowledge("s1", 0, &[Accept], 3), Err(ErrorCode::InvalidRecordState));
    share.acknowledge("s2", 0, 3, Accept);
}

/// Vector 14, `delivery_limit_lock`.
#[test]
fn deliveries_whose_lock_ended_count_r_share_8() {
    let mut share = share();
    share.settings.delivery_count_limit = 2;
    for count in 1..=2 {
        assert_eq!(share.acquire_of("s1", &[(0, 1)], 500), format!("0-1 x{count}"));
        share.wait_ms(30_000);
    }
    assert_eq!(share.picture(), "2..2");
}

#[test]
fn a_part_keeps_the_lock_of_the_whole_and_a_renewed_one_begins_anew_r_share_6_7() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 4)], 500);
    share.wait_ms(20_000);
    share.acknowledge("s1", 0, 0, Accept);
    assert_eq!(share.try_acknowledge("s1", 2, &[Renew], 3), Ok(None), "nothing is persisted");
    share.wait_ms(10_000);
    assert_eq!(share.picture(), "1..4, 0-0 done x1, 1-1 free x1, 2-3 held x1 s1, 4-4 free x1");
    share.wait_ms(20_000);
    assert_eq!(share.picture(), "1..4, 0-0 done x1, 1-4 free x1");
}

#[test]
fn renewals_can_be_switched_off_r_share_6() {
    let mut share = share();
    share.settings.is_renewal_enabled = false;
    share.acquire_of("s1", &[(0, 4)], 500);
    assert_eq!(share.try_acknowledge("s1", 0, &[Renew], 4), Err(ErrorCode::InvalidRecordState));
    assert_eq!(share.try_acknowledge("s1", 0, &[Accept, Renew], 1), Err(ErrorCode::InvalidRecordState));
    assert_eq!(share.picture(), "0..4, 0-4 held x1 s1");
}

#[test]
fn a_lock_that_ends_while_the_acknowledgement_is_persisted_waits_for_the_outcome() {
    for is_written in [true, false] {
        let mut share = share();
        share.acquire_of("s1", &[(0, 4)], 500);
        let write =
            share.try_acknowledge("s1", 0, &[Accept], 2).expect("s1 holds them").expect("states changed");
        share.wait_ms(30_000);
        assert_eq!(share.picture(), "0..4, 0-2 done x1, 3-4 free x1");
        share.partition.written(write.id, is_written);
        let expected = if is_written { "3..4, 0-2 done x1, 3-4 free x1" } else { "0..4, 0-4 free x1" };
        assert_eq!(share.picture(), expected, "{is_written}");
        assert_eq!(share.partition.next_lock_end(), None);
    }
}

#[test]
fn an_ended_lock_frees_even_if_that_is_not_persisted() {
    let mut share = share();
    share.settings.delivery_count_limit = 2;
    for _ in 0..2 {
        share.acquire_of("s1", &[(0, 4)], 500);
        share.now = share.now.plus_ms(30_000);
        let writes = share.partition.end_locks(share.now, &share.settings);
        assert_eq!(writes.len(), 1, "one lock ended");
        share.partition.written(writes[0].id, false);
    }
    assert_eq!(share.picture(), "5..5");
}

/// `AcquisitionLockTimerTask`: each lock has a timer and asks for a write.
#[test]
fn each_lock_that_ends_is_persisted_by_itself_r_share_7() {
    let mut share = share();
    share.batch_size = 5;
    share.acquire_of("s1", &[(0, 4), (5, 9)], 500);
    share.acknowledge("s1", 6, 7, Accept);
    share.now = share.now.plus_ms(30_000);
    let writes = share.partition.end_locks(share.now, &share.settings);
    let batches: Vec<_> = writes.iter().map(|write| (write.batches.len(), write.batches[0].range)).collect();
    let each = [range(0, 4), range(5, 5), range(8, 8), range(9, 9)];
    assert_eq!(batches, each.map(|range| (1, range)));
    assert_eq!(share.partition.end_locks(share.now, &share.settings), []);
}

#[test]
fn locks_of_offsets_that_the_log_has_dropped_end_with_the_rest_of_their_batch_r_share_7_11() {
    let mut share = share();
    share.acquire_of("s1", &[(0, 2)], 500);
    share.partition.log_start_moved(Offset(1));
    share.now = share.now.plus_ms(30_000);
    let writes = share.partition.end_locks(share.now, &share.settings);
    let states: Vec<_> = writes[0].batches.iter().map(|batch| batch.state).collect();
    assert_eq!(
        (writes.len(), states),
        (1, vec![RecordState::Archived, RecordState::Available, RecordState::Available])
    );
}
