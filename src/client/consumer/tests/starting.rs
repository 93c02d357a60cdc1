//! From the first poll to the first position (R-GRP-9, R-GRP-34, R-GRP-35, R-CONS-11 to R-CONS-14).

use super::*;

#[test]
fn a_new_member_joins_with_the_id_it_is_given_and_starts_at_its_committed_offset_r_grp_9() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.committed.insert(0, 42);
    rig.start();
    rig.check_events(&[
        "coordinator 2",
        "join",
        "join",
        "assigned [0] in generation 1",
        "position of 0 is 42: Committed",
    ]);
    assert_eq!(rig.fetching(1), [(0, 42)]);
    let member = rig.consumer.membership();
    assert_eq!((member.identity.member.as_str(), member.state), ("m1", MemberState::Stable));
}

fn check_start(config: &[(&str, &str)], position: i64, events: &[&str]) {
    let mut rig = Rig::new(&["poll"], config);
    (rig.log_start, rig.log_end) = (10, 100);
    rig.start();
    assert_eq!(rig.position(0), position);
    let events: Vec<&str> = ["coordinator 2", "join", "join", "assigned [0] in generation 1"]
        .iter()
        .chain(events)
        .copied()
        .collect();
    rig.check_events(&events);
}

#[test]
fn without_a_committed_offset_the_reset_strategy_decides_r_cons_11() {
    check_start(&[], 100, &["position of 0 is 100: Latest"]);
    check_start(&[("auto.offset.reset", "earliest")], 10, &["position of 0 is 10: Earliest"]);
    check_start(&[("auto.offset.reset", "none")], -1, &["no offset for [0]", "gave up [0]: Closing"]);
}

#[test]
fn without_reset_strategy_the_program_ends_and_leaves_the_group_r_cons_11() {
    let mut rig = Rig::new(&["poll"], &[("auto.offset.reset", "none")]);
    rig.start();
    assert!(rig.exited);
    assert!(rig.events.contains(&"no offset for [0]".to_owned()), "{:?}", rig.events);
}

#[test]
fn by_duration_starts_at_the_first_record_that_is_not_older_r_cons_11() {
    let mut rig = Rig::new(&["poll"], &[("auto.offset.reset", "by_duration:PT1M")]);
    rig.held.insert(ApiKey::ListOffsets);
    rig.start();
    let timestamp = |rig: &Rig| {
        let Request::ListOffsets(ask) = &*rig.pending(ApiKey::ListOffsets).request else { unreachable!() };
        ask.topics[0].partitions[0].timestamp
    };
    assert_eq!(timestamp(&rig), Time::ZERO.wall_ms() - 60_000);
    let pending = rig.pending(ApiKey::ListOffsets);
    let Request::ListOffsets(ask) = &*pending.request else { unreachable!() };
    // No record is that new: like Kafka's, the consumer asks again when its request would have timed out.
    rig.log_start = -1;
    let none = rig.log_ends(ask);
    rig.answer(&pending, none);
    rig.log_start = 100;
    rig.events.clear();
    rig.run_until(29_999);
    assert_eq!(rig.count(ApiKey::ListOffsets), 0);
    rig.run_until(30_100);
    assert_eq!(timestamp(&rig), rig.now.wall_ms() - 60_000 - 100);
    rig.held.remove(&ApiKey::ListOffsets);
    rig.settle();
    rig.check_events(&["position of 0 is 100: ByDuration"]);
}

#[test]
fn a_coordinator_that_is_not_there_yet_is_asked_for_again_after_the_back_off_r_grp_2() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.held.insert(ApiKey::FindCoordinator);
    rig.start();
    let asked = rig.pending(ApiKey::FindCoordinator);
    rig.answer(&asked, no_coordinator(ErrorCode::CoordinatorNotAvailable));
    assert!(matches!(rig.consumer.waiting(), Waiting::ToFindCoordinator { retry_at } if retry_at > rig.now));
    rig.run_until(79);
    assert_eq!(rig.count(ApiKey::FindCoordinator), 0);
    rig.run_until(120);
    assert_eq!(rig.count(ApiKey::FindCoordinator), 1);
}

#[test]
fn a_join_waits_at_the_coordinator_for_the_rebalance_timeout_and_five_seconds() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.held.insert(ApiKey::JoinGroup);
    rig.start();
    assert_eq!(rig.consumer.waiting(), Waiting::JoinAnswer { since: Time::ZERO });
    rig.run_until(304_999);
    rig.check_events(&["coordinator 2", "join"]);
    rig.run_until(305_000);
    assert_eq!(rig.events[..2], ["JoinGroup at broker 2 timed out", "coordinator lost: REQUEST_TIMED_OUT"]);
}

fn check_join_error(error: ErrorCode, events: &[&str]) {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.held.insert(ApiKey::JoinGroup);
    rig.start();
    rig.events.clear();
    let join = rig.pending(ApiKey::JoinGroup);
    rig.answer(&join, join_error(error));
    rig.run_until(150);
    rig.check_events(events);
}

#[test]
fn each_error_of_a_join_has_its_reaction_r_grp_35() {
    check_join_error(ErrorCode::CoordinatorLoadInProgress, &["join"]);
    check_join_error(ErrorCode::RebalanceInProgress, &["join"]);
    check_join_error(ErrorCode::UnknownMemberId, &["join"]);
    check_join_error(
        ErrorCode::NotCoordinator,
        &["coordinator lost: NOT_COORDINATOR", "coordinator 2", "join"],
    );
    check_join_error(ErrorCode::GroupMaxSizeReached, &["failed: GROUP_MAX_SIZE_REACHED"]);
    check_join_error(ErrorCode::InvalidSessionTimeout, &["failed: INVALID_SESSION_TIMEOUT"]);
}

#[test]
fn the_leader_plans_by_range_for_all_members_r_asg_1() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.leaders = vec![1, 2, 3];
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup]);
    rig.start();
    let join = rig.pending(ApiKey::JoinGroup);
    let member_id = MemberId::new("m1").to_wire();
    rig.answer(&join, join_error(ErrorCode::MemberIdRequired).with_member_id(member_id));
    let pending = rig.pending(ApiKey::JoinGroup);
    let Request::JoinGroup(join) = &*pending.request else { unreachable!() };
    let metadata = &join.protocols[0].metadata;
    rig.generation = 1;
    let answer = rig.joined_as(join, &[("m2", metadata), ("m1", metadata)], "m1");
    rig.answer(&pending, answer);
    let pending = rig.pending(ApiKey::SyncGroup);
    let Request::SyncGroup(sync) = &*pending.request else { unreachable!() };
    let plan: Vec<(String, i32)> = sync
        .assignments
        .iter()
        .map(|a| (a.member_id.to_string(), assigned_partitions(&a.assignment).len() as i32))
        .collect();
    assert_eq!(plan, [("m1".to_owned(), 2), ("m2".to_owned(), 1)]);
}

#[test]
fn a_follower_sends_no_plan_and_owns_what_it_is_given_r_grp_18() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.leaders = vec![1, 1];
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup]);
    rig.start();
    let pending = rig.pending(ApiKey::JoinGroup);
    let Request::JoinGroup(join) = &*pending.request else { unreachable!() };
    rig.generation = 4;
    let answer = rig.joined_as(join, &[], "m9");
    rig.answer(&pending, answer);
    let pending = rig.pending(ApiKey::SyncGroup);
    let Request::SyncGroup(sync) = &*pending.request else { unreachable!() };
    assert_eq!((sync.generation_id, sync.assignments.len()), (4, 0));
    let assignment = assignment_blob(&[tp(1)]);
    rig.answer(&pending, m::SyncGroupResponse::default().with_assignment(assignment));
    assert_eq!(rig.consumer.subscription().partitions(), [tp(1)]);
}

#[test]
fn a_leader_joins_again_when_a_topic_grows_r_grp_34() {
    let mut rig = Rig::joined(&["poll"], &[("metadata.max.age.ms", "10000")]);
    rig.leaders = vec![1, 1];
    rig.run_until(9_000);
    assert_eq!(rig.consumer.subscription().partitions(), [tp(0)]);
    rig.run_until(10_500);
    assert_eq!(rig.consumer.subscription().partitions(), [tp(0), tp(1)]);
    assert_eq!(rig.consumer.membership().identity.generation, Generation(2));
}

#[test]
fn a_consumer_that_cannot_run_is_refused() {
    let spec = ConsumerSpec {
        name: ClientName::new("c"),
        group: GroupId::new("g"),
        choice: Choice::Topics(vec![Topic::new("t")]),
        program: vec![Line::Commit],
        config: BTreeMap::new(),
    };
    let poll = Line::parse_program(&["poll"]).unwrap();
    let check = |spec: ConsumerSpec, error: &str| {
        let refused = Consumer::new(spec, &[BrokerId(1)], Random::stream(1, "c"));
        assert_eq!(refused.unwrap_err().to_string(), error);
    };
    check(spec.clone(), "a program without poll would never read a record");
    let spec = ConsumerSpec { program: poll, ..spec };
    check(
        ConsumerSpec { choice: Choice::Topics(vec![]), ..spec.clone() },
        "a consumer needs a topic to subscribe to",
    );
    let none = ConsumerSpec { choice: Choice::Partitions(vec![]), ..spec.clone() };
    check(none, "a consumer that is given partitions needs at least one");
    check(ConsumerSpec { group: GroupId::new(""), ..spec }, "a consumer that subscribes needs a group.id");
}
