use super::AcknowledgeType::*;
use super::*;

fn persisted(first: i64, last: i64, state: RecordState, delivery_count: i16) -> StateBatch {
    StateBatch { range: range(first, last), state, delivery_count }
}

fn read_back(start: i64, batches: &[StateBatch]) -> Share {
    let partition = SharePartition::new(LeaderEpoch(2), 0, Offset(start), batches);
    Share { partition: partition.expect("it is sound"), ..share() }
}

/// Vector 14, `leader_moves`: 0-1 were accepted, 2-3 released, 4-5 held when the leader changed.
#[test]
fn a_new_leader_knows_what_was_persisted_and_nothing_of_locks_r_share_14() {
    let mut share = read_back(
        0,
        &[persisted(0, 1, RecordState::Acknowledged, 1), persisted(2, 3, RecordState::Available, 1)],
    );
    assert_eq!(share.picture(), "2..3, 2-3 free x1");
    assert_eq!(share.try_acknowledge("s1", 4, &[Accept], 5), Err(ErrorCode::InvalidRequest));
    assert_eq!(share.acquire_of("s1", &[(0, 5)], 500), "2-3 x2, 4-5 x1");
}

#[test]
fn gaps_between_persisted_batches_are_read_again_and_the_start_waits_for_them_r_share_14() {
    let mut share = read_back(
        5,
        &[persisted(10, 14, RecordState::Acknowledged, 1), persisted(20, 24, RecordState::Available, 2)],
    );
    assert_eq!(share.picture(), "5..24, 10-14 done x1, 20-24 free x2");
    assert_eq!(share.partition.delivery_complete_count(), 5);
    assert_eq!(share.partition.next_fetch_offset(), Offset(5));
    let log = [(0, 9), (10, 19), (20, 29)];
    assert_eq!(share.acquire_of("s1", &log[..1], 500), "5-9 x1");
    assert_eq!(share.partition.next_fetch_offset(), Offset(15));
    share.acknowledge("s1", 5, 9, Accept);
    assert_eq!(share.partition.start_offset(), Offset(10), "there may be more gaps behind");
    assert_eq!(share.acquire_of("s1", &log[1..], 500), "15-19 x1, 20-24 x3, 25-29 x1");
    share.acknowledge("s1", 15, 29, Accept);
    assert_eq!(share.picture(), "30..30");
}

#[test]
fn gaps_without_records_are_passed_over() {
    let mut share = read_back(0, &[persisted(6, 9, RecordState::Available, 1)]);
    // The log has nothing from 3 to 5.
    assert_eq!(share.acquire_of("s1", &[(0, 2), (6, 9)], 500), "0-5 x1, 6-9 x2");
    share.acknowledge("s1", 0, 2, Accept);
    share.acknowledge("s1", 3, 5, Gap);
    share.acknowledge("s1", 6, 9, Accept);
    assert_eq!(share.picture(), "10..10");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let below = persisted(3, 9, RecordState::Available, 1);
    let broken = SharePartition::new(LeaderEpoch(2), 0, Offset(5), &[below]);
    assert_eq!(broken, Err(BrokenState { start: Offset(5), batch: below }));
    let empty = persisted(7, 6, RecordState::Available, 1);
    assert!(SharePartition::new(LeaderEpoch(2), 0, Offset(5), &[empty]).is_err());
}
