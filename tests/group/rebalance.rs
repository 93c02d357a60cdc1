//! Rebalances: the join phase, the plan, and what a member hears meanwhile.

use glassbroker::kafka::event::{Event, GroupEvent, GroupState, MemberRemoval, RebalanceReason};
use glassbroker::kafka::group::GroupConfig;
use glassbroker::kafka::protocol::{ErrorCode, Response};
use kafka_protocol::messages as m;

use super::cluster::{Cluster, Log, group_id};
use super::member::{Member, commit, commit_error, committed, quick, stable};

#[test]
fn newcomers_extend_the_initial_delay_ex_19_r_grp_12() {
    let mut cluster = Cluster::new(GroupConfig::default());
    let (mut a, mut b, mut c) = (Member::new("a"), Member::new("b"), Member::new("c"));
    a.join(&mut cluster);
    cluster.sleep(1_000);
    b.join(&mut cluster);
    cluster.sleep(3_000);
    c.join(&mut cluster);
    cluster.sleep(4_999);
    assert_eq!(cluster.group().expect("a group").state, GroupState::PreparingRebalance);
    cluster.sleep(1);
    for member in [&mut a, &mut b, &mut c] {
        assert_eq!(member.joined(&mut cluster), ErrorCode::None);
        assert_eq!(member.generation, 1);
    }
    let waits = cluster.events.iter().filter_map(|event| match event {
        Event::Group(GroupEvent::JoinExtended { wait_ms, .. }) => Some(*wait_ms),
        _ => None,
    });
    assert_eq!(waits.collect::<Vec<_>>(), [3_000, 3_000]);

    let mut alone = Cluster::new(GroupConfig::default());
    a = Member::new("a");
    a.join(&mut alone);
    alone.sleep(3_000);
    assert_eq!(a.joined(&mut alone), ErrorCode::None);
}

#[test]
fn a_member_commits_before_it_joins_again_and_a_late_commit_is_refused_ex_18_r_grp_23_r_grp_36() {
    let (mut cluster, mut members) = stable(&["c1"]);
    let mut c1 = members.remove(0);
    let mut c2 = Member::new("c2");
    c2.join(&mut cluster);
    assert_eq!(c1.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    for (partition, offset) in [(0, 100), (1, 200)] {
        assert_eq!(commit_error(&mut cluster, &c1, partition, offset), ErrorCode::None);
    }
    let stale = c1.clone();
    c1.join_again(&mut cluster);
    assert_eq!((c1.joined(&mut cluster), c1.generation), (ErrorCode::None, 2));
    assert_eq!((c2.joined(&mut cluster), c2.generation), (ErrorCode::None, 2));
    assert_eq!(c1.leader, c1.id);
    assert_eq!(commit_error(&mut cluster, &c1, 0, 101), ErrorCode::RebalanceInProgress);
    let plan = [(c1.id.clone(), 0), (c2.id.clone(), 1)];
    c2.sync(&mut cluster, &plan);
    c1.sync(&mut cluster, &plan);
    assert_eq!((c1.synced(&mut cluster), c2.synced(&mut cluster)), (ErrorCode::None, ErrorCode::None));
    assert_eq!((committed(&cluster, 0), committed(&cluster, 1)), (Some(100), Some(200)));
    assert_eq!(commit_error(&mut cluster, &stale, 1, 250), ErrorCode::IllegalGeneration);
    c1.leave(&mut cluster);
    assert_eq!(commit_error(&mut cluster, &c1, 0, 150), ErrorCode::UnknownMemberId);
}

/// R-GRP-7.
#[test]
fn a_rebalance_tells_its_story_in_events() {
    let (mut cluster, mut members) = stable(&["a", "b"]);
    members[1].leave(&mut cluster);
    members[0].join_again(&mut cluster);
    assert_eq!(members[0].joined(&mut cluster), ErrorCode::None);
    let plan = [(members[0].id.clone(), 2)];
    members[0].sync(&mut cluster, &plan);
    let story: Vec<String> = cluster
        .events
        .iter()
        .map(|event| match event {
            Event::Group(GroupEvent::MemberRemoved { client, reason: MemberRemoval::Left, .. }) => {
                format!("{client} left")
            }
            Event::Group(GroupEvent::RebalanceStarted {
                client,
                reason: RebalanceReason::MemberRemoved(MemberRemoval::Left),
                generation,
                ..
            }) => format!("{client} sets off a rebalance of generation {generation}"),
            Event::Group(GroupEvent::GroupStateChanged { to, generation, .. }) => {
                format!("{} {generation}", to.name())
            }
            Event::Group(GroupEvent::AssignmentStored { plan, .. }) => {
                let (client, tps) = &plan[0];
                format!("{client} gets {}", tps[0])
            }
            other => format!("{other:?}"),
        })
        .collect();
    let expected = [
        "b left",
        "b sets off a rebalance of generation 1",
        "PreparingRebalance 1",
        "CompletingRebalance 2",
        "a gets orders-2",
        "Stable 2",
    ];
    assert_eq!(story, expected);
}

#[test]
fn a_new_member_is_told_an_id_made_of_its_client_name_r_grp_9() {
    let mut cluster = quick();
    let mut a = Member::new("checkout");
    a.join(&mut cluster);
    let uuid = a.id.strip_prefix("checkout-").expect("the client's name first");
    assert_eq!(uuid::Uuid::parse_str(uuid).expect("a UUID").get_version_num(), 4);
}

#[test]
fn join_group_checks_its_request_first_r_grp_8() {
    let check = |change: fn(m::JoinGroupRequest) -> m::JoinGroupRequest, expected: ErrorCode| {
        let mut cluster = quick();
        let request = cluster.send("a", change(Member::new("a").join_request()));
        let answer = cluster.answer(request).expect("answered at once");
        let Response::JoinGroup(body) = answer.as_ref() else { panic!("{answer:?}") };
        assert_eq!(ErrorCode::from_code(body.error_code), expected);
    };
    check(|r| r, ErrorCode::MemberIdRequired);
    check(|r| r.with_group_id(m::GroupId::default()), ErrorCode::InvalidGroupId);
    check(|r| r.with_session_timeout_ms(5_999), ErrorCode::InvalidSessionTimeout);
    check(|r| r.with_session_timeout_ms(1_800_001), ErrorCode::InvalidSessionTimeout);
    check(|r| r.with_member_id("made-up".into()), ErrorCode::UnknownMemberId);
    check(|r| r.with_protocols(Vec::new()), ErrorCode::InconsistentGroupProtocol);
    check(|r| r.with_protocol_type("".into()), ErrorCode::InconsistentGroupProtocol);
}

#[test]
fn sync_group_must_name_its_protocol_r_grp_18() {
    let (mut cluster, members) = stable(&["a"]);
    let request = m::SyncGroupRequest::default()
        .with_group_id(m::GroupId(group_id().to_wire()))
        .with_member_id(members[0].wire_id())
        .with_generation_id(1);
    let request = cluster.send("a", request);
    let answer = cluster.answer(request).expect("answered at once");
    let Response::SyncGroup(body) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!(ErrorCode::from_code(body.error_code), ErrorCode::InconsistentGroupProtocol);
}

#[test]
fn a_member_that_is_not_heard_of_goes_and_the_group_rebalances_r_grp_21() {
    let (mut cluster, members) = stable(&["a", "b"]);
    cluster.sleep(40_000);
    assert_eq!(members[0].heartbeat(&mut cluster), ErrorCode::None);
    cluster.sleep(5_000);
    assert_eq!(members[0].heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    assert_eq!(members[1].heartbeat(&mut cluster), ErrorCode::UnknownMemberId);
}

#[test]
fn members_get_a_plan_only_when_it_is_safe_and_join_again_when_it_is_not_r_grp_4_r_grp_18() {
    let mut cluster = quick();
    let mut a = Member::new("a");
    a.join(&mut cluster);
    cluster.sleep(0);
    assert_eq!(a.joined(&mut cluster), ErrorCode::None);
    cluster.log = Log::Stalls;
    let plan = [(a.id.clone(), 0)];
    a.sync(&mut cluster, &plan);
    assert_eq!(cluster.group().expect("a group").state, GroupState::CompletingRebalance);
    cluster.sleep(5_000);
    assert_eq!(a.synced(&mut cluster), ErrorCode::CoordinatorNotAvailable);
    assert_eq!(cluster.group().expect("a group").state, GroupState::PreparingRebalance);
    cluster.log = Log::Commits;
    a.join_again(&mut cluster);
    assert_eq!(a.joined(&mut cluster), ErrorCode::None);
    a.sync(&mut cluster, &plan);
    assert_eq!(a.synced(&mut cluster), ErrorCode::None);
}

#[test]
fn a_group_whose_first_record_is_refused_does_not_exist_r_grp_3() {
    let mut cluster = quick();
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    let mut a = Member::new("a");
    a.ask_for_id(&mut cluster);
    assert!(cluster.group().is_none());
    cluster.log = Log::Commits;
    a.join_again(&mut cluster);
    assert_eq!(a.joined(&mut cluster), ErrorCode::UnknownMemberId);
}

#[test]
fn a_heartbeat_waits_behind_writes_like_any_read_of_the_state_r_grp_4() {
    let (mut cluster, members) = stable(&["a"]);
    cluster.log = Log::Stalls;
    commit(&mut cluster, &members[0], 0, 10);
    let request = members[0].send_heartbeat(&mut cluster);
    assert_eq!(cluster.answer(request), None);
    cluster.catch_up();
    assert!(cluster.answer(request).is_some());
}

#[test]
fn a_static_member_whose_return_is_not_written_keeps_its_old_id_r_grp_25() {
    let mut cluster = quick();
    let mut a = Member::new_static("a", "i1");
    a.join_again(&mut cluster);
    cluster.sleep(0);
    assert_eq!(a.joined(&mut cluster), ErrorCode::None);
    let plan = [(a.id.clone(), 0)];
    a.sync(&mut cluster, &plan);
    assert_eq!(a.synced(&mut cluster), ErrorCode::None);

    let mut again = Member::new_static("a", "i1");
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    again.join_again(&mut cluster);
    assert_eq!(again.joined(&mut cluster), ErrorCode::CoordinatorNotAvailable);
    assert_eq!(again.id, "");
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::None);

    cluster.log = Log::Commits;
    again.join_again(&mut cluster);
    assert_eq!(again.joined(&mut cluster), ErrorCode::None);
    assert_eq!((again.leader == again.id, again.id == a.id), (true, false));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::UnknownMemberId);
    assert_eq!(again.heartbeat(&mut cluster), ErrorCode::None);
}

#[test]
fn the_assignor_that_most_members_name_first_is_used_whatever_its_name_r_grp_16() {
    let mut cluster = Cluster::new(GroupConfig::default());
    let mut members = ["a", "b", "c"].map(Member::new);
    members[0].assignors = vec!["range", "sticky", "only-mine"];
    members[1].assignors = vec!["other", "sticky", "range"];
    members[2].assignors = vec!["sticky", "range"];
    for member in &mut members {
        member.join(&mut cluster);
    }
    cluster.sleep(9_000);
    for member in &mut members {
        assert_eq!(member.joined(&mut cluster), ErrorCode::None);
        assert_eq!(
            member.protocol, "sticky",
            "two votes of three, for others that not all support do not count"
        );
    }
}
