//! What poll() returns and throws (R-SHARE-5, R-SHARE-6, R-SHARE-13).

use super::*;

#[test]
fn a_poll_accepts_what_the_one_before_it_returned_with_its_fetch_r_share_6() {
    let mut rig = Rig::joined(&["poll 1s"], &[]);
    let first = rig.fetch();
    assert_eq!((first.share_session_epoch, first.topics.len(), first.max_records), (0, 1, 500));
    rig.deliver(vec![records(0, 0, 2)]);
    rig.check_events(&["got 0 1 of 0"]);
    let second = rig.fetch();
    assert_eq!(second.share_session_epoch, 1);
    assert_eq!(said(&second.topics[0].partitions[0].acknowledgement_batches), [(0, 1, vec![1])]);
    rig.deliver(vec![FetchedPartition::default()]);
    rig.check_events(&["heard of 2 of 0: in effect"]);
}

#[test]
fn records_of_which_the_acknowledgement_failed_are_heard_of_with_the_error_r_share_6() {
    let mut rig = Rig::joined(&["poll 1s"], &[]);
    rig.deliver(vec![records(0, 0, 2)]);
    rig.events.clear();
    let acknowledge_error_code = ErrorCode::InvalidRecordState.code();
    rig.deliver(vec![FetchedPartition { acknowledge_error_code, ..records(0, 2, 3) }]);
    rig.check_events(&["heard of 2 of 0: INVALID_RECORD_STATE", "got 2 of 0"]);
}

#[test]
fn an_old_leader_is_left_after_a_metadata_refresh() {
    for error in [ErrorCode::NotLeaderOrFollower, ErrorCode::UnknownTopicId, ErrorCode::FencedLeaderEpoch] {
        let mut rig = Rig::joined(&["poll 1s"], &[]);
        rig.deliver(vec![partition_error(0, error)]);
        rig.run_until(900);
        rig.check_events(&[]);
        rig.deliver(vec![records(0, 0, 1)]);
        rig.check_events(&["got 0 of 0"]);
    }
}

/// IllegalStateException: the client knows nothing of what a leader answers whose states' coordinator is away for long.
#[test]
fn an_error_that_no_fetch_is_known_to_have_ends_the_program_as_in_kafka() {
    let mut rig = Rig::joined(&["poll 1s"], &[]);
    rig.deliver(vec![partition_error(0, ErrorCode::CoordinatorNotAvailable)]);
    rig.check_events(&["failed: COORDINATOR_NOT_AVAILABLE"]);
}

#[test]
fn it_takes_the_records_before_it_along_which_come_back_with_the_sessions_end() {
    let mut rig = two_partitions();
    rig.deliver(vec![records(0, 0, 2), partition_error(1, ErrorCode::CoordinatorNotAvailable)]);
    rig.check_events(&["failed: COORDINATOR_NOT_AVAILABLE"]);
    let last = rig.acknowledgement();
    assert_eq!((last.share_session_epoch, last.topics.len()), (-1, 0));
}

#[test]
fn kafkas_own_exceptions_wait_until_the_records_before_them_are_returned() {
    let mut rig = two_partitions();
    rig.deliver(vec![records(0, 0, 2), partition_error(1, ErrorCode::TopicAuthorizationFailed)]);
    rig.check_events(&["got 0 1 of 0", "failed: TOPIC_AUTHORIZATION_FAILED"]);
}

fn two_partitions() -> Rig {
    let mut rig = Rig::new(&["poll 1s"], &[]);
    rig.partitions = 2;
    rig.input(Input::Start);
    rig.settle();
    rig.beat(in_epoch(1, Some(&[0, 1])));
    rig.run_until(10);
    rig.events.clear();
    rig
}

#[test]
fn max_poll_records_and_the_rest_of_the_batch_are_returned_r_share_13() {
    let mut rig = Rig::joined(&["poll 1s", "process 1s"], &[("max.poll.records", "2")]);
    let two = FetchedPartition {
        records: [records(0, 0, 3).records, records(0, 3, 6).records].concat().into(),
        acquired_records: vec![AcquiredRecords { first_offset: 0, last_offset: 5, delivery_count: 1 }],
        ..FetchedPartition::default()
    };
    rig.deliver(vec![two]);
    rig.check_events(&["got 0 1 2 of 0"]);
    rig.run_until(3_010);
    rig.check_events(&["processed 0@0", "processed 0@1", "processed 0@2", "got 3 4 5 of 0"]);
}
