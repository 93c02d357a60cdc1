//! Static members (KIP-345): R-GRP-24 to R-GRP-27, R-CONS-25, R-CONS-27.

use super::*;

const STATIC: (&str, &str) = ("group.instance.id", "i1");

#[test]
fn a_static_member_says_who_it_is_in_each_request_r_grp_24() {
    let mut rig = Rig::new(&["poll", "commit"], &[STATIC]);
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup, ApiKey::OffsetCommit]);
    rig.committed.insert(0, 0);
    rig.start();
    assert_eq!(rig.join_sent().group_instance_id.as_deref(), Some("i1"));
    let pending = rig.pending(ApiKey::JoinGroup);
    rig.generation = 1;
    let answer = rig.joined_as(&rig.join_sent(), &[], "m9").with_member_id(MemberId::new("m1").to_wire());
    rig.answer(&pending, answer);
    let pending = rig.pending(ApiKey::SyncGroup);
    let Request::SyncGroup(sync) = &*pending.request else { unreachable!() };
    assert_eq!(sync.group_instance_id.as_deref(), Some("i1"));
    rig.answer(&pending, m::SyncGroupResponse::default().with_assignment(assignment_blob(&[tp(0)])));
    rig.settle();
    rig.held.insert(ApiKey::Heartbeat);
    rig.run_until(3_000);
    let Request::Heartbeat(beat) = &*rig.pending(ApiKey::Heartbeat).request else { unreachable!() };
    assert_eq!(beat.group_instance_id.as_deref(), Some("i1"));
    let Request::OffsetCommit(commit) = &*rig.pending(ApiKey::OffsetCommit).request else { unreachable!() };
    assert_eq!(commit.group_instance_id.as_deref(), Some("i1"));
}

#[test]
fn a_static_member_closes_without_leaving_r_cons_27() {
    let mut rig = Rig::joined(&["poll"], &[STATIC]);
    rig.held.insert(ApiKey::LeaveGroup);
    rig.close();
    rig.check_events(&["auto-committed 0@0", "gave up [0]: Closing"]);
    assert_eq!((rig.count(ApiKey::LeaveGroup), rig.exited), (0, true));
}

#[test]
fn too_long_between_polls_a_static_member_falls_silent_and_joins_anew_r_cons_25() {
    let mut rig = Rig::joined(&["poll", "process 9s"], &[STATIC, ("max.poll.interval.ms", "10000")]);
    rig.run_until(1);
    rig.deliver(1, &[(0, 0, 2)]);
    rig.held.extend([ApiKey::LeaveGroup, ApiKey::JoinGroup]);
    rig.run_until(17_000);
    assert_eq!((rig.count(ApiKey::LeaveGroup), rig.count(ApiKey::Heartbeat)), (0, 0));
    rig.events.clear();
    rig.run_until(18_001);
    rig.check_events(&["processed 0@1", "commit failed: UNKNOWN_MEMBER_ID", "gave up [0]: Lost", "join"]);
    let join = rig.join_sent();
    assert_eq!((join.member_id.as_str(), join.group_instance_id.as_deref()), ("", Some("i1")));
    assert_eq!(join.reason.as_deref(), Some("consumer pro-actively leaving the group"));
}

#[test]
fn a_fenced_heartbeat_ends_the_program_in_its_next_poll_r_grp_24() {
    let mut rig = Rig::joined(&["poll", "process 1s"], &[STATIC]);
    rig.run_until(1);
    rig.deliver(1, &[(0, 0, 10)]);
    rig.heartbeat_says(ErrorCode::FencedInstanceId);
    rig.events.clear();
    rig.held.insert(ApiKey::JoinGroup);
    rig.run_until(9_500);
    assert!(rig.events.iter().all(|event| event.starts_with("processed")), "{:?}", rig.events);
    rig.events.clear();
    rig.run_until(10_001);
    rig.check_events(&["processed 0@9", "failed: FENCED_INSTANCE_ID", "gave up [0]: Lost"]);
    assert_eq!((rig.count(ApiKey::JoinGroup), rig.exited), (0, true));
}

/// Answers the commit on its way.
fn fence_commit(rig: &mut Rig) {
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    let answer = commit_answer(commit, ErrorCode::FencedInstanceId);
    rig.answer(&pending, answer);
    rig.settle();
}

#[test]
fn a_fenced_commit_ends_the_program_r_cons_22() {
    let mut rig = Rig::joined(&["poll", "commit"], &[STATIC, ("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.run_until(100);
    fence_commit(&mut rig);
    rig.check_events(&[
        "commit failed: FENCED_INSTANCE_ID",
        "failed: FENCED_INSTANCE_ID",
        "gave up [0]: Closing",
    ]);
    assert!(rig.exited);
}

#[test]
fn a_fenced_automatic_commit_is_thrown_by_poll_r_cons_22() {
    let mut rig = Rig::joined(&["poll"], &[STATIC]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.run_until(5_000);
    fence_commit(&mut rig);
    rig.check_events(&[
        "commit failed: FENCED_INSTANCE_ID",
        "failed: FENCED_INSTANCE_ID",
        "gave up [0]: Closing",
    ]);
    assert_eq!((rig.count(ApiKey::OffsetCommit), rig.exited), (0, true));
}

#[test]
fn a_fenced_join_or_sync_ends_the_program_r_grp_35() {
    for api in [ApiKey::JoinGroup, ApiKey::SyncGroup] {
        let mut rig = Rig::new(&["poll"], &[STATIC]);
        rig.held.insert(api);
        rig.start();
        rig.events.clear();
        let pending = rig.pending(api);
        let code = ErrorCode::FencedInstanceId.code();
        match api {
            ApiKey::JoinGroup => rig.answer(&pending, join_error(ErrorCode::FencedInstanceId)),
            _ => rig.answer(&pending, m::SyncGroupResponse::default().with_error_code(code)),
        }
        rig.check_events(&["failed: FENCED_INSTANCE_ID"]);
        assert!(rig.exited);
    }
}

#[test]
fn a_leader_that_returns_makes_no_plan_and_watches_the_topics_of_all_r_grp_25() {
    let mut rig = Rig::new(&["poll"], &[STATIC]);
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup]);
    rig.start();
    let pending = rig.pending(ApiKey::JoinGroup);
    let join = rig.join_sent();
    rig.generation = 7;
    let said = &join.protocols[0].metadata;
    let answer = rig.joined_as(&join, &[("m1", said), ("m2", said)], "m1");
    rig.answer(&pending, answer.with_member_id(MemberId::new("m1").to_wire()).with_skip_assignment(true));
    let pending = rig.pending(ApiKey::SyncGroup);
    let Request::SyncGroup(sync) = &*pending.request else { unreachable!() };
    assert_eq!((sync.generation_id, sync.assignments.len()), (7, 0));
    rig.answer(&pending, m::SyncGroupResponse::default().with_assignment(assignment_blob(&[tp(0)])));
    rig.settle();
    assert!(rig.consumer.membership().is_leader);
    rig.leaders = vec![1, 1];
    rig.run_until(301_000);
    assert_eq!(rig.join_sent().reason.as_deref(), Some("cached metadata has changed"), "R-GRP-34");
}
