//! Acknowledgements that go by themselves (R-SHARE-6, R-SHARE-13).

use super::*;

const EXPLICIT: (&str, &str) = ("share.acknowledgement.mode", "explicit");

/// Inside commitSync() of one record.
fn committing(config: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::joined(&["poll 1s", "commit"], config);
    rig.deliver(vec![records(0, 0, 1)]);
    rig.check_events(&["got 0 of 0"]);
    rig
}

#[test]
fn commit_sync_waits_for_the_outcome_r_share_13() {
    let mut rig = committing(&[]);
    let request = rig.acknowledgement();
    assert_eq!(request.share_session_epoch, 1);
    assert_eq!(said(&request.topics[0].partitions[0].acknowledgement_batches), [(0, 0, vec![1])]);
    rig.run_until(500);
    assert_eq!(rig.consumer.waiting(), Waiting::Acknowledged);
    rig.acknowledge(ErrorCode::None);
    rig.check_events(&["heard of 1 of 0: in effect"]);
    assert!(matches!(rig.consumer.program().activity(), Activity::Polling { .. }));
}

#[test]
fn commit_sync_tries_again_while_the_states_coordinator_is_away_r_share_13() {
    let mut rig = committing(&[("default.api.timeout.ms", "1000")]);
    rig.acknowledge(ErrorCode::CoordinatorNotAvailable);
    assert_eq!(rig.count(ACKNOWLEDGE), 0, "after a back-off");
    rig.run_until(300);
    rig.check_events(&[]);
    let again = rig.acknowledgement();
    assert_eq!(said(&again.topics[0].partitions[0].acknowledgement_batches), [(0, 0, vec![1])]);
    rig.acknowledge(ErrorCode::CoordinatorNotAvailable);
    rig.run_until(900);
    rig.acknowledge(ErrorCode::CoordinatorNotAvailable);
    rig.run_until(2_500);
    rig.check_events(&["heard of 1 of 0: REQUEST_TIMED_OUT"]);
}

#[test]
fn where_the_leader_or_the_topic_is_another_nothing_is_tried_again_r_share_14() {
    for error in [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicId,
        ErrorCode::InvalidRecordState,
    ] {
        let mut rig = committing(&[]);
        rig.acknowledge(error);
        rig.check_events(&[&format!("heard of 1 of 0: {error}")]);
        rig.run_until(1_000);
        assert_eq!(rig.count(ACKNOWLEDGE), 0);
    }
}

#[test]
fn a_lost_connection_loses_what_was_said_and_the_session_r_share_15() {
    let mut rig = committing(&[]);
    let pending = rig.pending(ACKNOWLEDGE);
    rig.pending.clear();
    rig.timers.retain(|timer, _| !matches!(timer, ConsumerTimer::Network(_)));
    rig.input(Input::Disconnected(pending.peer));
    rig.settle();
    assert!(rig.events.contains(&"heard of 1 of 0: NETWORK_EXCEPTION".to_owned()), "{:?}", rig.events);
    rig.run_until(1_000);
    assert_eq!(rig.fetch().share_session_epoch, 0);
}

#[test]
fn an_explicit_program_says_of_each_record_what_became_of_it_r_share_6() {
    let mut rig = Rig::joined(&["poll 1s", "reject offset 1", "accept"], &[EXPLICIT]);
    rig.deliver(vec![records(0, 0, 3)]);
    let fetch = rig.fetch();
    let batches = &fetch.topics[0].partitions[0].acknowledgement_batches;
    assert_eq!(said(batches), [(0, 2, vec![1, 3, 1])]);
}

#[test]
fn close_says_what_was_said_and_ends_the_sessions_before_it_leaves_r_share_14() {
    let mut rig = Rig::joined(&["poll 1s", "process 1s"], &[]);
    rig.deliver(vec![records(0, 0, 1)]);
    rig.close();
    rig.run_until(1_010);
    rig.check_events(&["got 0 of 0", "processed 0@0"]);
    let last = rig.acknowledgement();
    assert_eq!((last.share_session_epoch, last.topics.len()), (-1, 0), "close() accepts nothing");
    rig.acknowledge(ErrorCode::None);
    assert_eq!(rig.heartbeat().member_epoch, -1);
    rig.check_events(&["left [0]: Closing"]);
    rig.beat(in_epoch(-1, None));
    assert!(rig.exited);
}
