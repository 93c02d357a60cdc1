//! Commits (R-CONS-15 to R-CONS-22, EX-16).

use super::*;

/// A consumer whose program commits, with records 0..3 polled and processed, and the commit not answered.
fn committing() -> Rig {
    let mut rig = Rig::joined(&["poll", "process 10ms", "commit"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.deliver(1, &[(0, 0, 3)]);
    rig.run_until(30);
    rig.events.clear();
    rig
}

fn answer_commit(rig: &mut Rig, error: ErrorCode) {
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    let answer = commit_answer(commit, error);
    rig.answer(&pending, answer);
    rig.settle();
}

#[test]
fn commit_sync_commits_positions_and_blocks_the_program_r_cons_15() {
    let mut rig = committing();
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    let partition = &commit.topics[0].partitions[0];
    assert_eq!((partition.committed_offset, partition.committed_leader_epoch), (3, 5));
    assert_eq!((commit.generation_id_or_member_epoch, commit.member_id.as_str()), (1, "m1"));
    rig.run_until(500);
    assert_eq!(rig.consumer.program().line(), Line::Commit);
    answer_commit(&mut rig, ErrorCode::None);
    rig.check_events(&["committed 0@3"]);
    assert_eq!(rig.consumer.subscription().owned()[&tp(0)].committed, Some(Offset(3)));
    assert!(matches!(rig.consumer.program().activity(), Activity::Polling { .. }));
}

#[test]
fn a_program_that_commits_nothing_new_still_goes_on() {
    let mut rig = Rig::new(&["poll", "commit"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::JoinGroup);
    rig.start();
    rig.run_until(250);
    assert!(matches!(rig.consumer.program().activity(), Activity::Polling { .. }));
    rig.check_events(&["coordinator 2", "join"]);
}

#[test]
fn commit_sync_retries_retriable_errors_until_its_timeout_r_cons_20() {
    let mut rig = committing();
    answer_commit(&mut rig, ErrorCode::CoordinatorLoadInProgress);
    rig.check_events(&[]);
    rig.run_until(160);
    answer_commit(&mut rig, ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(rig.count(ApiKey::OffsetCommit), 0);
    rig.run_until(60_029);
    rig.check_events(&[
        "OffsetCommit at broker 2 timed out",
        "coordinator lost: REQUEST_TIMED_OUT",
        "coordinator 2",
    ]);
    rig.run_until(60_031);
    rig.check_events(&["commit failed: REQUEST_TIMED_OUT"]);
}

#[test]
fn a_coordinator_that_moved_is_found_again_and_the_commit_repeated_r_cons_22() {
    let mut rig = committing();
    answer_commit(&mut rig, ErrorCode::NotCoordinator);
    rig.held.remove(&ApiKey::OffsetCommit);
    rig.run_until(700);
    assert_eq!(rig.events[..3], ["coordinator lost: NOT_COORDINATOR", "coordinator 2", "committed 0@3"]);
}

fn check_commit_error(error: ErrorCode, events: &[&str], join_as: &str) {
    let mut rig = committing();
    rig.held.insert(ApiKey::JoinGroup);
    answer_commit(&mut rig, error);
    rig.check_events(events);
    let pending = rig.pending(ApiKey::JoinGroup);
    let Request::JoinGroup(join) = &*pending.request else { unreachable!() };
    assert_eq!(join.member_id.as_str(), join_as);
}

#[test]
fn a_commit_out_of_generation_fails_and_the_program_goes_on_r_cons_22() {
    check_commit_error(
        ErrorCode::IllegalGeneration,
        &["commit failed: ILLEGAL_GENERATION", "gave up [0]: Lost", "join"],
        "m1",
    );
    check_commit_error(
        ErrorCode::UnknownMemberId,
        &["commit failed: UNKNOWN_MEMBER_ID", "gave up [0]: Lost", "join"],
        "",
    );
    check_commit_error(
        ErrorCode::RebalanceInProgress,
        &["commit failed: REBALANCE_IN_PROGRESS", "gave up [0]: Rebalance", "join"],
        "m1",
    );
}

#[test]
fn auto_commit_happens_only_in_poll_and_holds_what_earlier_polls_returned_r_cons_17() {
    let mut rig = Rig::joined(&["poll", "process 1s"], &[]);
    rig.run_until(1);
    rig.deliver(1, &[(0, 0, 10)]);
    rig.deliver(1, &[(0, 10, 20)]);
    rig.run_until(9_900);
    assert!(rig.events.iter().all(|event| !event.contains("commit")), "{:?}", rig.events);
    rig.events.clear();
    rig.run_until(10_001);
    rig.check_events(&["processed 0@9", "polled 10 of 0: 10..20", "auto-committed 0@10"]);
    assert_eq!(rig.committed[&0], 10);
}

#[test]
fn before_the_interval_is_over_nothing_is_committed_ex_16() {
    let mut rig = Rig::joined(&["poll", "process 571ms"], &[("max.poll.records", "10")]);
    rig.deliver(1, &[(0, 0, 10)]);
    rig.run_until(4000);
    assert_eq!((rig.position(0), rig.committed[&0]), (10, 0));
    assert_eq!(rig.consumer.program().processed(), 7);
}

#[test]
fn a_poll_that_waits_commits_when_the_interval_is_over_r_cons_17() {
    let mut rig = Rig::joined(&["poll 60s"], &[]);
    rig.run_until(4_999);
    rig.check_events(&[]);
    rig.run_until(5_000);
    rig.check_events(&["auto-committed 0@0"]);
    rig.run_until(10_000);
    rig.check_events(&["auto-committed 0@0"]);
}

#[test]
fn a_retriable_failure_of_an_interval_commit_is_tried_again_soon_r_cons_21() {
    let mut rig = Rig::joined(&["poll 60s"], &[]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.run_until(5_000);
    answer_commit(&mut rig, ErrorCode::CoordinatorLoadInProgress);
    rig.check_events(&[]);
    rig.run_until(5_100);
    answer_commit(&mut rig, ErrorCode::None);
    rig.check_events(&["auto-committed 0@0"]);
}

#[test]
fn without_auto_commit_only_the_program_commits() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.deliver(1, &[(0, 0, 10)]);
    rig.run_until(20_000);
    rig.close();
    rig.check_events(&["polled 10 of 0: 0..10", "gave up [0]: Closing"]);
    assert!(rig.exited);
}
