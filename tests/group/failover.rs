//! What a coordinator finds in the log when it takes over, and what it leaves behind when it goes.

use glassbroker::kafka::event::{Event, GroupEvent, GroupState};
use glassbroker::kafka::protocol::{ErrorCode, Response};
use glassbroker::kafka::types::Offset;

use super::cluster::{Log, group_id};
use super::member::{Member, commit, commit_error, committed, fetch, fetched, quick, stable};

#[test]
fn a_new_coordinator_finds_the_stable_group_and_its_offsets_in_the_log_r_grp_4() {
    let (mut cluster, members) = stable(&["a", "b"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 11), ErrorCode::None);
    let before = cluster.group().expect("a group").clone();
    cluster.sleep(30_000);
    cluster.fail_over();
    cluster.load();
    let after = cluster.group().expect("a group").clone();
    let facts = |group: &glassbroker::kafka::group::ClassicGroup| {
        let members: Vec<_> = group.members.values().map(|m| (m.id.clone(), m.assignment.clone())).collect();
        (group.state, group.generation, group.leader.clone(), group.protocol.clone(), members)
    };
    assert_eq!(facts(&before), facts(&after));
    assert_eq!(committed(&cluster, 0), Some(11));
    let full = cluster.now.plus_ms(45_000);
    assert!(after.members.values().all(|member| member.expires_at == full), "a full session each");
    for member in &members {
        assert_eq!(member.heartbeat(&mut cluster), ErrorCode::None);
    }
    let loaded = cluster.events.iter().find_map(|event| match event {
        Event::Group(GroupEvent::CoordinatorLoaded { records, groups, .. }) => {
            Some((*records, groups.clone()))
        }
        _ => None,
    });
    assert_eq!(loaded, Some((4, vec![group_id()])));
}

#[test]
fn an_unfinished_rebalance_is_forgotten_by_a_failover_r_grp_4() {
    let (mut cluster, members) = stable(&["a"]);
    let mut b = Member::new("b");
    b.join(&mut cluster);
    cluster.fail_over();
    cluster.load();
    assert_eq!(members[0].heartbeat(&mut cluster), ErrorCode::None);
    assert_eq!(b.heartbeat(&mut cluster), ErrorCode::UnknownMemberId);
}

#[test]
fn an_offset_above_the_high_watermark_is_not_told_after_loading_r_grp_4() {
    let (mut cluster, members) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    let safe = Offset(cluster.records.len() as i64);
    cluster.log = Log::Stalls;
    commit(&mut cluster, &members[0], 0, 20);
    cluster.fail_over();
    cluster.load_up_to(safe);
    let waiting = fetch(&mut cluster, &[0], true);
    let reading = fetch(&mut cluster, &[0], false);
    assert_eq!(fetched(&mut cluster, reading), Some(vec![(0, 10)]));
    assert_eq!(fetched(&mut cluster, waiting), None);
    cluster.catch_up();
    assert_eq!(fetched(&mut cluster, waiting), Some(vec![(0, 20)]));
    assert_eq!(committed(&cluster, 0), Some(20));
}

#[test]
fn an_empty_group_and_a_group_without_members_load_as_empty_r_grp_4() {
    let (mut cluster, mut members) = stable(&["a"]);
    members[0].leave(&mut cluster);
    assert_eq!(cluster.group().expect("a group").state, GroupState::Empty);
    cluster.fail_over();
    cluster.load();
    let group = cluster.group().expect("a group");
    assert_eq!((group.state, group.generation.0, group.is_simple()), (GroupState::Empty, 2, false));

    let mut simple = quick();
    assert_eq!(commit_error(&mut simple, &Member::new("x"), 0, 7), ErrorCode::None);
    simple.fail_over();
    simple.load();
    assert!(simple.group().expect("a group").is_simple());
    assert_eq!(committed(&simple, 0), Some(7));
}

#[test]
fn requests_are_turned_away_while_the_log_is_replayed_but_heartbeats_are_let_pass_r_grp_3() {
    let (mut cluster, members) = stable(&["a"]);
    cluster.fail_over();
    let (mut a, mut b) = (members[0].clone(), Member::new("b"));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::None);
    assert_eq!(b.ask_for_id(&mut cluster), ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(commit_error(&mut cluster, &a, 0, 1), ErrorCode::CoordinatorLoadInProgress);
    a.sync(&mut cluster, &[]);
    assert_eq!(a.synced(&mut cluster), ErrorCode::CoordinatorLoadInProgress);
    let request = fetch(&mut cluster, &[0], true);
    assert_eq!(fetched(&mut cluster, request), Some(vec![(-1, 14)]));
}

#[test]
fn a_coordinator_that_resigns_sends_everyone_away_and_stops_its_clock_r_grp_3() {
    let (mut cluster, mut members) = stable(&["a", "b"]);
    members[0].join_again(&mut cluster);
    cluster.log = Log::Stalls;
    let waiting = commit(&mut cluster, &members[1], 0, 10);
    let reading = fetch(&mut cluster, &[0], true);
    cluster.resign();
    assert_eq!(members[0].joined(&mut cluster), ErrorCode::NotCoordinator);
    let answer = cluster.answer(waiting).expect("answered");
    let Response::OffsetCommit(body) = answer.as_ref() else { panic!("{answer:?}") };
    assert_eq!(ErrorCode::from_code(body.topics[0].partitions[0].error_code), ErrorCode::NotCoordinator);
    assert_eq!(fetched(&mut cluster, reading), Some(vec![(-1, 16)]));
    assert!(cluster.timers.is_empty(), "{:?}", cluster.timers);
    assert_eq!(members[1].heartbeat(&mut cluster), ErrorCode::NotCoordinator);
}

#[test]
fn a_higher_leader_epoch_of_the_same_leader_loads_nothing_anew() {
    let (mut cluster, members) = stable(&["a"]);
    assert!(!cluster.elect(5));
    assert_eq!(members[0].heartbeat(&mut cluster), ErrorCode::None);
}

#[test]
fn a_coordinator_is_cheap_to_copy_and_copies_do_not_touch_each_other() {
    let (mut cluster, members) = stable(&["a"]);
    let copy = cluster.coordinator.clone();
    let shared =
        |a: &glassbroker::kafka::group::GroupCoordinator| a.group(&group_id()).expect("a group").clone();
    assert!(std::rc::Rc::ptr_eq(&shared(&copy), &shared(&cluster.coordinator)));
    cluster.sleep(1_000);
    members[0].heartbeat(&mut cluster);
    let expires = |a| shared(a).members.values().next().expect("a member").expires_at;
    assert!(expires(&copy) < expires(&cluster.coordinator));
}
