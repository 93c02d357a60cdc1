//! Staying in the group and rebalancing (R-GRP-20, R-GRP-23, R-GRP-29 to R-GRP-32, R-CONS-24 to R-CONS-26, EX-18).

use super::*;

fn answer_heartbeat(rig: &mut Rig, error: ErrorCode) {
    let pending = rig.pending(ApiKey::Heartbeat);
    rig.answer(&pending, heartbeat(error));
    rig.settle();
}

/// A member that is at work on ten records of a second each, and whose heartbeats are not answered.
fn at_work() -> Rig {
    let mut rig = Rig::joined(&["poll", "process 1s"], &[]);
    rig.run_until(1);
    rig.deliver(1, &[(0, 0, 10)]);
    rig.held.insert(ApiKey::Heartbeat);
    rig.events.clear();
    rig
}

#[test]
fn heartbeats_go_on_while_the_application_works_r_cons_24() {
    let mut rig = at_work();
    rig.run_until(2_999);
    assert_eq!(rig.count(ApiKey::Heartbeat), 0);
    for beats in 1..4 {
        rig.run_until(3_000 * i64::from(beats));
        assert_eq!(rig.count(ApiKey::Heartbeat), beats);
    }
}

/// R-GRP-29, 31.
#[test]
fn a_rebalance_is_joined_in_the_next_poll_after_commit_and_revocation_ex_18() {
    let mut rig = at_work();
    rig.run_until(3_000);
    answer_heartbeat(&mut rig, ErrorCode::RebalanceInProgress);
    rig.run_until(10_000);
    assert!(rig.events.iter().all(|event| event.starts_with("processed")), "{:?}", rig.events);
    assert_eq!(rig.count(ApiKey::Heartbeat), 2, "heartbeats keep the member in the group");
    rig.events.clear();
    rig.held.remove(&ApiKey::Heartbeat);
    rig.held.extend([ApiKey::OffsetCommit, ApiKey::JoinGroup]);
    rig.settle();
    rig.run_until(10_001);
    rig.check_events(&["processed 0@9"]);
    assert_eq!(rig.count(ApiKey::JoinGroup), 0, "first the commit");
    assert!(matches!(rig.consumer.waiting(), Waiting::CommitBeforeJoin { .. }));
    rig.held.remove(&ApiKey::OffsetCommit);
    rig.settle();
    rig.check_events(&["auto-committed 0@10", "gave up [0]: Rebalance", "join"]);
    rig.held.remove(&ApiKey::JoinGroup);
    rig.settle();
    rig.check_events(&["assigned [0] in generation 2", "position of 0 is 10: Committed"]);
}

#[test]
fn nothing_is_returned_while_the_commit_before_a_rebalance_is_on_its_way_r_grp_29() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.held.extend([ApiKey::Heartbeat, ApiKey::OffsetCommit]);
    rig.run_until(3_000);
    answer_heartbeat(&mut rig, ErrorCode::RebalanceInProgress);
    rig.deliver(1, &[(0, 0, 10)]);
    rig.check_events(&[]);
    assert_eq!((rig.position(0), rig.count(ApiKey::Fetch)), (0, 0));
}

#[test]
fn the_commit_before_a_rebalance_is_retried_r_grp_29() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.held.extend([ApiKey::Heartbeat, ApiKey::OffsetCommit]);
    rig.run_until(3_000);
    answer_heartbeat(&mut rig, ErrorCode::RebalanceInProgress);
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    let answer = commit_answer(commit, ErrorCode::CoordinatorLoadInProgress);
    rig.answer(&pending, answer);
    rig.check_events(&[]);
    rig.held.remove(&ApiKey::OffsetCommit);
    rig.run_until(3_100);
    assert_eq!(rig.events[..3], ["auto-committed 0@0", "gave up [0]: Rebalance", "join"]);
}

#[test]
fn an_idle_member_joins_as_soon_as_its_heartbeat_tells_it_r_grp_23() {
    let mut rig = Rig::joined(&["poll 60s"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::Heartbeat);
    rig.run_until(3_000);
    answer_heartbeat(&mut rig, ErrorCode::RebalanceInProgress);
    rig.check_events(&[
        "gave up [0]: Rebalance",
        "join",
        "assigned [0] in generation 2",
        "position of 0 is 0: Committed",
    ]);
}

#[test]
fn a_member_that_is_no_longer_known_loses_its_partitions_r_grp_32() {
    let check = |error: ErrorCode, join_as: &str| {
        let mut rig = Rig::joined(&["poll 60s"], &[]);
        rig.held.extend([ApiKey::Heartbeat, ApiKey::JoinGroup]);
        rig.run_until(3_000);
        answer_heartbeat(&mut rig, error);
        rig.check_events(&["commit failed: UNKNOWN_MEMBER_ID", "gave up [0]: Lost", "join"]);
        let pending = rig.pending(ApiKey::JoinGroup);
        let Request::JoinGroup(join) = &*pending.request else { unreachable!() };
        assert_eq!(join.member_id.as_str(), join_as);
    };
    check(ErrorCode::UnknownMemberId, "");
    check(ErrorCode::IllegalGeneration, "m1");
}

#[test]
fn too_long_between_polls_the_member_leaves_and_loses_its_partitions_r_cons_25() {
    let mut rig = Rig::joined(&["poll", "process 9s"], &[("max.poll.interval.ms", "10000")]);
    rig.run_until(1);
    rig.deliver(1, &[(0, 0, 2)]);
    rig.events.clear();
    rig.held.insert(ApiKey::LeaveGroup);
    rig.run_until(10_000);
    assert_eq!(rig.count(ApiKey::LeaveGroup), 0);
    rig.run_until(10_001);
    assert_eq!(rig.count(ApiKey::LeaveGroup), 1);
    rig.held.remove(&ApiKey::LeaveGroup);
    rig.settle();
    rig.run_until(18_000);
    assert_eq!(rig.count(ApiKey::Heartbeat), 0);
    rig.check_events(&["processed 0@0"]);
    rig.run_until(18_001);
    rig.check_events(&[
        "processed 0@1",
        "commit failed: UNKNOWN_MEMBER_ID",
        "gave up [0]: Lost",
        "join",
        "join",
        "assigned [0] in generation 2",
        "position of 0 is 0: Committed",
    ]);
}

#[test]
fn a_long_poll_is_no_gap_between_polls_r_cons_25() {
    let mut rig =
        Rig::joined(&["poll 60s"], &[("max.poll.interval.ms", "10000"), ("enable.auto.commit", "false")]);
    rig.run_until(50_000);
    rig.check_events(&[]);
    assert_eq!(rig.consumer.membership().state, MemberState::Stable);
}

#[test]
fn a_coordinator_that_does_not_answer_is_lost_after_the_session_timeout_r_cons_24() {
    let mut rig = Rig::joined(&["poll"], &[("session.timeout.ms", "10000"), ("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::Heartbeat);
    rig.run_until(9_999);
    rig.check_events(&[]);
    rig.run_until(10_600);
    rig.check_events(&["coordinator lost: REQUEST_TIMED_OUT", "coordinator 2"]);
    assert_eq!(rig.consumer.membership().state, MemberState::Stable);
}

#[test]
fn a_coordinator_that_moved_is_found_by_the_background_thread_r_grp_3() {
    let mut rig = at_work();
    rig.run_until(3_000);
    rig.events.clear();
    answer_heartbeat(&mut rig, ErrorCode::NotCoordinator);
    // The question waits behind the fetch that broker 1 holds back.
    rig.run_until(3_600);
    let lookup = ["coordinator lost: NOT_COORDINATOR", "coordinator 2"];
    assert!(lookup.iter().all(|told| rig.events.iter().any(|event| event == told)), "{:?}", rig.events);
    assert_eq!(rig.count(ApiKey::Heartbeat), 1, "and told at once that the member lives");
}

#[test]
fn records_are_returned_without_a_coordinator_but_only_at_the_end_of_a_poll() {
    let mut rig = Rig::joined(&["poll", "process 1ms"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::FindCoordinator);
    rig.run_until(30);
    rig.cut(2, Channel::Coordinator);
    rig.check_events(&["connection to broker 2 lost, 0 requests", "coordinator lost: NETWORK_EXCEPTION"]);
    rig.deliver(1, &[(0, 0, 1)]);
    rig.check_events(&[]);
    assert_eq!(rig.consumer.waiting(), Waiting::CoordinatorAnswer);
    rig.run_until(100);
    rig.check_events(&["polled 1 of 0: 0..1"]);
}

#[test]
fn a_coordinator_whose_death_is_not_known_yet_is_tried_with_back_off() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.down.insert(COORDINATOR);
    rig.cut(2, Channel::Coordinator);
    rig.run_until(5_000);
    let found = rig.events.iter().filter(|event| *event == "coordinator 2").count();
    assert!((2..12).contains(&found), "found {found} times in five seconds");
    rig.down.clear();
    rig.run_until(7_000);
    assert_eq!(rig.consumer.membership().coordinator(), Some(BrokerId(2)));
    assert_eq!(rig.consumer.subscription().partitions(), [tp(0)]);
}

#[test]
fn a_sync_that_meets_another_rebalance_joins_again_at_once() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.held.insert(ApiKey::SyncGroup);
    rig.start();
    rig.events.clear();
    let sync = rig.pending(ApiKey::SyncGroup);
    let error = ErrorCode::RebalanceInProgress.code();
    rig.answer(&sync, m::SyncGroupResponse::default().with_error_code(error));
    rig.held.remove(&ApiKey::SyncGroup);
    rig.settle();
    assert_eq!(rig.events[..2], ["join", "assigned [0] in generation 2"]);
}

#[test]
fn an_assignment_outside_the_subscription_is_given_back_r_grp_33() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.held.insert(ApiKey::SyncGroup);
    rig.start();
    rig.events.clear();
    let sync = rig.pending(ApiKey::SyncGroup);
    let foreign = TopicPartition::new(&Topic::new("u"), 0);
    let assignment = assignment_blob(&[foreign]);
    rig.answer(&sync, m::SyncGroupResponse::default().with_assignment(assignment));
    rig.settle();
    rig.check_events(&["join"]);
}
