//! Handing partitions over one by one, and what a member says to its assignors (R-GRP-28 to R-GRP-32, R-ASG-7).

use super::*;

const COOPERATIVE: (&str, &str) = ("partition.assignment.strategy", "cooperative-sticky");

/// A cooperative member that owns partitions 0 and 1, both led by broker 1, and whose next joins are not answered.
fn member() -> Rig {
    let mut rig = Rig::new(&["poll"], &[COOPERATIVE, ("enable.auto.commit", "false")]);
    rig.leaders = vec![1, 1, 1];
    rig.committed.extend([(0, 0), (1, 0), (2, 70)]);
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup]);
    rig.start();
    rig.plan_of_another(&[0, 1]);
    rig.events.clear();
    rig
}

#[test]
fn a_cooperative_member_reads_on_while_it_joins_r_grp_31() {
    let mut rig = member();
    rig.heartbeat_says(ErrorCode::RebalanceInProgress);
    rig.check_events(&["join"]);
    rig.deliver(1, &[(0, 0, 5), (1, 0, 3)]);
    rig.check_events(&["polled 5 of 0: 0..5", "polled 3 of 1: 0..3"]);
    assert_eq!(rig.fetching(1), [(0, 5), (1, 3)], "and fetches on");
    assert_eq!(rig.count(ApiKey::JoinGroup), 1);
}

#[test]
fn an_eager_member_reads_nothing_while_it_joins_r_grp_31() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::JoinGroup);
    rig.heartbeat_says(ErrorCode::RebalanceInProgress);
    rig.check_events(&["gave up [0]: Rebalance", "join"]);
    rig.deliver(1, &[(0, 0, 5)]);
    rig.check_events(&[]);
    assert_eq!(rig.count(ApiKey::Fetch), 0);
}

#[test]
fn what_the_plan_leaves_out_is_revoked_and_joined_again_for_r_grp_30() {
    let mut rig = member();
    rig.deliver(1, &[(0, 0, 5)]);
    rig.heartbeat_says(ErrorCode::RebalanceInProgress);
    rig.events.clear();
    rig.held.insert(ApiKey::OffsetFetch);
    rig.plan_of_another(&[0]);
    rig.check_events(&["gave up [1]: Reassigned", "kept [0], assigned [] in generation 2", "join"]);
    assert_eq!((rig.position(0), rig.position(1)), (5, -1));
    assert_eq!(rig.count(ApiKey::OffsetFetch), 0, "positions of what is kept are kept");
    assert_eq!(rig.said_to("cooperative-sticky").owned, [tp(0)]);
    assert_eq!(rig.join_sent().reason.as_deref(), Some("need to revoke partitions and re-join"));
    rig.held.remove(&ApiKey::OffsetFetch);
    rig.plan_of_another(&[0, 2]);
    rig.check_events(&["kept [0], assigned [2] in generation 3", "position of 2 is 70: Committed"]);
    assert_eq!(rig.count(ApiKey::JoinGroup), 0, "nothing was revoked, so that is all");
}

#[test]
fn the_fetch_session_goes_on_with_what_is_kept_r_grp_31() {
    let mut rig = member();
    let first = rig.fetch_at(1);
    rig.answer(&first, answer_of(&first, vec![records(0, 0, 1), records(1, 0, 1)]).with_session_id(9));
    let second = rig.fetch_at(1);
    rig.consumer.membership.request_rejoin(RejoinReason::GroupRebalancing);
    rig.run_until(200);
    rig.plan_of_another(&[0]);
    rig.answer(&second, m::FetchResponse::default().with_session_id(9));
    rig.settle();
    let Request::Fetch(fetch) = &*rig.fetch_at(1).request else { unreachable!() };
    assert_eq!((fetch.session_id, fetch.session_epoch), (9, 2), "no new session");
    assert_eq!(fetch.forgotten_topics_data[0].partitions, [1]);
}

#[test]
fn a_cooperative_member_that_is_not_known_any_more_loses_all_r_grp_32() {
    for error in [ErrorCode::UnknownMemberId, ErrorCode::IllegalGeneration] {
        let mut rig = member();
        rig.heartbeat_says(error);
        rig.check_events(&["gave up [0 1]: Lost", "join"]);
        assert_eq!(rig.said_to("cooperative-sticky").owned, []);
    }
}

/// R-GRP-29, R-CONS-17: nothing is marked as about to be revoked, all positions are committed.
#[test]
fn a_cooperative_member_commits_what_it_has_read_before_it_joins_r_grp_29() {
    let mut rig = Rig::joined(&["poll"], &[COOPERATIVE]);
    rig.deliver(1, &[(0, 0, 5)]);
    rig.held.extend([ApiKey::OffsetCommit, ApiKey::JoinGroup]);
    rig.events.clear();
    rig.heartbeat_says(ErrorCode::RebalanceInProgress);
    rig.deliver(1, &[(0, 5, 7)]);
    rig.check_events(&["polled 2 of 0: 5..7"]);
    rig.held.remove(&ApiKey::OffsetCommit);
    rig.settle();
    rig.check_events(&["auto-committed 0@5", "join"]);
}

fn check_said(rig: &Rig, assignor: &str, owned: &[i32], generation: i32, user_data: Option<&[u8]>) {
    let said = rig.said_to(assignor);
    let owned: Vec<TopicPartition> = owned.iter().map(|partition| tp(*partition)).collect();
    assert_eq!((said.owned, said.generation), (owned, Generation(generation)), "{assignor}");
    assert_eq!(said.user_data.as_deref(), user_data, "{assignor}");
}

#[test]
fn a_member_joins_with_a_subscription_for_each_of_its_assignors_r_asg_7() {
    let mut rig =
        Rig::new(&["poll"], &[("partition.assignment.strategy", "sticky, range, cooperative-sticky")]);
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup]);
    rig.start();
    let names: Vec<String> =
        rig.join_sent().protocols.iter().map(|protocol| protocol.name.to_string()).collect();
    assert_eq!(names, ["sticky", "range", "cooperative-sticky"]);
    check_said(&rig, "sticky", &[], -1, None);
    check_said(&rig, "range", &[], -1, None);
    check_said(&rig, "cooperative-sticky", &[], -1, Some(&[0xff; 4]));
    rig.plan_of_another(&[0]);
    rig.heartbeat_says(ErrorCode::RebalanceInProgress);
    // The coordinator chose sticky: it remembers, as an eager member owns nothing.
    let remembered = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\x01";
    check_said(&rig, "sticky", &[], 1, Some(remembered));
    check_said(&rig, "range", &[], 1, None);
    check_said(&rig, "cooperative-sticky", &[], 1, Some(&[0xff; 4]));
}

#[test]
fn a_member_tells_its_rack_r_asg_2() {
    let mut rig = Rig::new(&["poll"], &[("client.rack", "a")]);
    rig.held.insert(ApiKey::JoinGroup);
    rig.start();
    assert_eq!(rig.said_to("range").rack.as_deref(), Some("a"));
}

#[test]
fn the_leader_plans_with_the_assignor_that_the_coordinator_chose_and_what_members_claim_r_grp_17() {
    let mut rig = Rig::new(&["poll"], &[("partition.assignment.strategy", "sticky, cooperative-sticky")]);
    rig.leaders = vec![1, 1];
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup]);
    rig.start();
    let pending = rig.pending(ApiKey::JoinGroup);
    let claim = |owned: &[i32]| ConsumerSubscription {
        owned: owned.iter().map(|partition| tp(*partition)).collect(),
        generation: Generation(3),
        ..rig.said_to("cooperative-sticky")
    };
    let (ours, theirs) = (claim(&[1]).encode(VERSION), claim(&[0]).encode(VERSION));
    let join = rig.join_sent();
    rig.generation = 4;
    let answer = rig.joined_as(&join, &[("m1", &ours), ("m2", &theirs)], "m1");
    let chosen = MemberId::new("cooperative-sticky").to_wire();
    rig.answer(
        &pending,
        answer.with_member_id(MemberId::new("m1").to_wire()).with_protocol_name(Some(chosen)),
    );
    let pending = rig.pending(ApiKey::SyncGroup);
    let Request::SyncGroup(sync) = &*pending.request else { unreachable!() };
    assert_eq!(sync.protocol_name.as_deref(), Some("cooperative-sticky"));
    let plan: Vec<Vec<TopicPartition>> =
        sync.assignments.iter().map(|planned| assigned_partitions(&planned.assignment)).collect();
    assert_eq!(plan, [[tp(1)], [tp(0)]], "each keeps its own");
}

#[test]
fn who_is_walked_first_by_java_keeps_the_extra_partition_r_asg_5() {
    let mut rig = Rig::new(&["poll"], &[COOPERATIVE]);
    rig.leaders = vec![1; 4];
    rig.held.extend([ApiKey::JoinGroup, ApiKey::SyncGroup]);
    rig.start();
    let pending = rig.pending(ApiKey::JoinGroup);
    let claim = |owned: &[i32]| {
        let owned = owned.iter().map(|partition| tp(*partition)).collect();
        let said = rig.said_to("cooperative-sticky");
        ConsumerSubscription { owned, generation: Generation(3), ..said }.encode(VERSION)
    };
    let members = [("m1", &claim(&[0, 1])), ("m3", &claim(&[])), ("n1", &claim(&[2, 3]))];
    rig.generation = 4;
    let answer = rig.joined_as(&rig.join_sent(), &members, "m1");
    rig.answer(&pending, answer.with_member_id(MemberId::new("m1").to_wire()));
    let pending = rig.pending(ApiKey::SyncGroup);
    let Request::SyncGroup(sync) = &*pending.request else { unreachable!() };
    let plan: Vec<(String, usize)> = sync
        .assignments
        .iter()
        .map(|planned| (planned.member_id.to_string(), assigned_partitions(&planned.assignment).len()))
        .collect();
    let expected = [("m1", 1), ("m3", 0), ("n1", 2)].map(|(member, count)| (member.to_owned(), count));
    assert_eq!(plan, expected, "n1 comes first in the map, m3 waits for what m1 gives up");
}

#[test]
fn a_leader_with_a_rack_plans_anew_when_the_racks_of_replicas_change_r_grp_34() {
    let check = |rack: &str, joins: i32| {
        let config =
            [("client.rack", rack), ("metadata.max.age.ms", "10000"), ("enable.auto.commit", "false")];
        let mut rig = Rig::joined(&["poll"], &config);
        rig.racks = BTreeMap::from([(1, "a"), (2, "a"), (3, "b")]);
        rig.run_until(11_000);
        assert_eq!(rig.events.iter().filter(|event| *event == "join").count() as i32, joins, "{rack:?}");
    };
    check("a", 1);
    check("", 0);
}
