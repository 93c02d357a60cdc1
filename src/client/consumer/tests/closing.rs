//! close() (R-CONS-17, R-CONS-18, R-CONS-27).

use super::*;

#[test]
fn closing_commits_gives_up_leaves_and_exits_r_cons_27() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.deliver(1, &[(0, 0, 4)]);
    rig.events.clear();
    rig.held.insert(ApiKey::LeaveGroup);
    rig.close();
    rig.check_events(&["auto-committed 0@4", "gave up [0]: Closing"]);
    assert!(!rig.exited);
    assert_eq!(rig.consumer.waiting(), Waiting::LeaveAnswer);
    rig.held.remove(&ApiKey::LeaveGroup);
    rig.settle();
    assert!(rig.exited);
    assert!(rig.timers.keys().all(|timer| matches!(timer, ConsumerTimer::Network(_))));
}

#[test]
fn the_application_finishes_its_loop_before_it_closes_r_cons_18() {
    let mut rig = Rig::joined(&["poll", "process 10ms", "commit"], &[("enable.auto.commit", "false")]);
    rig.deliver(1, &[(0, 0, 2)]);
    rig.events.clear();
    rig.close();
    assert!(rig.consumer.is_close_requested());
    rig.run_until(20);
    rig.check_events(&["processed 0@0", "processed 0@1", "committed 0@2", "gave up [0]: Closing"]);
    assert!(rig.exited);
}

#[test]
fn a_dead_coordinator_holds_close_up_for_its_timeout_only() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.held.insert(ApiKey::FindCoordinator);
    rig.cut(2, Channel::Coordinator);
    rig.events.clear();
    rig.close();
    rig.run_until(29_999);
    assert!(!rig.exited);
    rig.run_until(30_000);
    assert!(rig.exited);
    rig.check_events(&[
        "FindCoordinator at broker 1 timed out",
        "commit failed: REQUEST_TIMED_OUT",
        "gave up [0]: Closing",
    ]);
}

#[test]
fn closing_before_joining_leaves_no_group() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.held.insert(ApiKey::FindCoordinator);
    rig.start();
    rig.close();
    assert!(rig.exited);
    rig.check_events(&[]);
}

#[test]
fn what_arrives_after_the_exit_changes_nothing() {
    let mut rig = Rig::joined(&["poll"], &[]);
    let fetch = rig.fetch_at(1);
    rig.close();
    assert!(rig.exited);
    rig.events.clear();
    rig.answer(&fetch, answer_of(&fetch, vec![records(0, 0, 4)]));
    rig.run_until(60_000);
    rig.check_events(&[]);
}

const REMAIN: CloseOptions = CloseOptions { membership: GroupMembership::Remain, timeout_ms: None };
const LEAVE: CloseOptions = CloseOptions { membership: GroupMembership::Leave, timeout_ms: None };

#[test]
fn who_is_to_remain_in_the_group_does_not_leave_it_r_cons_27() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.held.insert(ApiKey::LeaveGroup);
    rig.close_with(REMAIN);
    assert_eq!(rig.count(ApiKey::LeaveGroup), 0);
    assert!(rig.exited);
}

#[test]
fn a_static_member_that_is_to_leave_says_so_r_cons_27() {
    let mut rig = Rig::joined(&["poll"], &[("group.instance.id", "i1")]);
    rig.held.insert(ApiKey::LeaveGroup);
    rig.close_with(LEAVE);
    let pending = rig.pending(ApiKey::LeaveGroup);
    let Request::LeaveGroup(leave) = &*pending.request else { unreachable!() };
    assert_eq!(leave.members[0].member_id.as_str(), "m1");
    rig.held.remove(&ApiKey::LeaveGroup);
    rig.settle();
    assert!(rig.exited);
}

#[test]
fn without_any_time_close_sends_its_commit_and_goodbye_and_waits_for_nothing_r_cons_27() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.deliver(1, &[(0, 0, 4)]);
    rig.events.clear();
    rig.held.extend([ApiKey::LeaveGroup, ApiKey::OffsetCommit]);
    rig.close_with(CloseOptions { timeout_ms: Some(0), ..CloseOptions::default() });
    assert_eq!((rig.count(ApiKey::OffsetCommit), rig.count(ApiKey::LeaveGroup)), (1, 1));
    assert!(rig.exited);
    rig.check_events(&["commit failed: REQUEST_TIMED_OUT", "gave up [0]: Closing"]);
}

#[test]
fn close_waits_for_what_commit_async_has_sent() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.ask(Ask::Commit { offsets: Some(vec![(tp(0), 7)]), waits: false });
    rig.close();
    assert!(!rig.exited);
    rig.held.remove(&ApiKey::OffsetCommit);
    rig.settle();
    assert!(rig.exited);
}
