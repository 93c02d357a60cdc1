//! Groups whose members change their protocol one after the other (KIP-848, R-CG8-25).

use glassbroker::kafka::event::{ConsumerGroupState, Event, GroupEvent, GroupState};
use glassbroker::kafka::group::consumer_protocol::assigned_partitions;
use glassbroker::kafka::group::{ConsumerGroupConfig, GroupConfig, MigrationPolicy};
use glassbroker::kafka::protocol::{ErrorCode, Response};
use glassbroker::kafka::types::MemberId;
use kafka_protocol::messages::ConsumerGroupHeartbeatRequest as Heartbeat;

use super::cluster::{Cluster, Log, group_id};
use super::consumer::{described, group, hears, heartbeat, joining, owning};
use super::member::{Member, commit_error};

fn cluster(migration_policy: MigrationPolicy) -> Cluster {
    let consumer =
        ConsumerGroupConfig { assignment_interval_ms: 0, migration_policy, ..ConsumerGroupConfig::default() };
    Cluster::new(GroupConfig { initial_rebalance_delay_ms: 0, consumer, ..GroupConfig::default() })
}

fn consumer(name: &'static str) -> Member {
    let mut member = Member::new(name);
    member.own(&[]);
    member
}

/// A classic group of one member, which has all three partitions.
fn classic(cluster: &mut Cluster, name: &'static str) -> Member {
    let mut member = consumer(name);
    member.join(cluster);
    cluster.sleep(0);
    assert_eq!(member.joined(cluster), ErrorCode::None);
    member.sync_alone(cluster, &[0, 1, 2], None);
    assert_eq!(member.synced(cluster), ErrorCode::None);
    member
}

/// Joins a group of the newer protocol with what it owns; its assignment.
fn rejoin(cluster: &mut Cluster, member: &mut Member, owned: &[i32]) -> Vec<i32> {
    member.own(owned);
    member.join_again(cluster);
    assert_eq!(member.joined(cluster), ErrorCode::None);
    assigned(cluster, member)
}

fn assigned(cluster: &mut Cluster, member: &Member) -> Vec<i32> {
    let request = cluster.send(member.name, member.sync_request(Vec::new()));
    let answer = cluster.answer(request).expect("SyncGroup is answered");
    let Response::SyncGroup(body) = &*answer else { panic!("{answer:?}") };
    assert_eq!(ErrorCode::from_code(body.error_code), ErrorCode::None);
    assigned_partitions(&body.assignment).iter().map(|tp| tp.partition).collect()
}

/// A classic member with two partitions, and "b" of the newer protocol with the third.
pub fn mixed() -> (Cluster, Member) {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let mut a = classic(&mut cluster, "a");
    assert_eq!(hears(&mut cluster, joining("b")), Ok((2, Some(vec![]))));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    assert_eq!(rejoin(&mut cluster, &mut a, &[0, 1, 2]), [0, 1]);
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    assert_eq!(rejoin(&mut cluster, &mut a, &[0, 1]), [0, 1]);
    assert_eq!(hears(&mut cluster, heartbeat("b", 2)), Ok((2, Some(vec![2]))));
    (cluster, a)
}

#[test]
fn members_change_their_protocol_one_by_one_and_back_r_cg8_25() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let mut a = classic(&mut cluster, "a");
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::None);
    // The first member of the newer protocol makes the group one of it; the classic member is told to join again.
    assert_eq!(hears(&mut cluster, joining("b")), Ok((2, Some(vec![]))));
    assert_eq!(described(&mut cluster).3.len(), 2);
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    assert_eq!(commit_error(&mut cluster, &a, 0, 7), ErrorCode::None);
    // It owns all three, and keeps two until it joined without the third.
    assert_eq!(rejoin(&mut cluster, &mut a, &[0, 1, 2]), [0, 1]);
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    assert_eq!(rejoin(&mut cluster, &mut a, &[0, 1]), [0, 1]);
    assert_eq!((a.heartbeat(&mut cluster), a.generation), (ErrorCode::None, 2));
    assert_eq!(hears(&mut cluster, heartbeat("b", 2)), Ok((2, Some(vec![2]))));
    assert_eq!(group(&cluster).state(), ConsumerGroupState::Stable);
    // A coordinator that takes over finds the same.
    cluster.fail_over();
    cluster.load();
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::None);
    // The last one of the newer protocol leaves: the group is classic again, and rebalances.
    assert_eq!(hears(&mut cluster, heartbeat("b", -1)), Ok((-1, None)));
    assert_eq!(cluster.group().map(|group| group.state), Some(GroupState::PreparingRebalance));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    a.join_again(&mut cluster);
    assert_eq!((a.joined(&mut cluster), a.generation), (ErrorCode::None, 3));
    assert_eq!(a.leader, a.id);
    cluster.fail_over();
    cluster.load();
    assert_eq!(cluster.group().map(|group| group.members.len()), Some(1));
    let converted = |event: &&Event| matches!(event, Event::Group(GroupEvent::GroupConverted { .. }));
    assert_eq!(cluster.events.iter().filter(converted).count(), 2);
}

#[test]
fn a_classic_member_joins_and_leaves_a_group_of_the_newer_protocol_r_cg8_25() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    assert_eq!(hears(&mut cluster, joining("a")), Ok((2, Some(vec![0, 1, 2]))));
    let mut b = consumer("b");
    b.join(&mut cluster);
    assert_eq!((b.joined(&mut cluster), b.generation), (ErrorCode::None, 3));
    assert!(assigned(&mut cluster, &b).is_empty());
    // What it waits for becomes free: it is told to join again.
    assert_eq!(b.heartbeat(&mut cluster), ErrorCode::None);
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((2, Some(vec![0, 1]))));
    assert_eq!(hears(&mut cluster, owning(heartbeat("a", 2), &[0, 1])), Ok((3, None)));
    assert_eq!(b.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    assert_eq!(rejoin(&mut cluster, &mut b, &[]), [2]);
    b.leave(&mut cluster);
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((4, Some(vec![0, 1, 2]))));
}

#[test]
fn a_classic_member_that_does_not_join_again_or_ask_is_removed_r_cg8_25() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let a = classic(&mut cluster, "a");
    assert_eq!(hears(&mut cluster, joining("b")), Ok((2, Some(vec![]))));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    let deadlines = group(&cluster).deadlines[&MemberId::new(&a.id)];
    assert_eq!(deadlines.join, Some(cluster.now.plus_ms(300_000)));
    // It is heard from all the time, and joins never.
    for _ in 0..10 {
        assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
        assert!(hears(&mut cluster, heartbeat("b", 2)).is_ok());
        cluster.sleep(30_000);
    }
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::UnknownMemberId);
    assert_eq!(hears(&mut cluster, heartbeat("b", 2)), Ok((3, Some(vec![0, 1, 2]))));
}

#[test]
fn the_policy_says_which_way_is_open_r_cg8_25() {
    use MigrationPolicy::*;
    for (policy, upgrades, downgrades) in [
        (Bidirectional, true, true),
        (Upgrade, true, false),
        (Downgrade, false, true),
        (Disabled, false, false),
    ] {
        let mut up = cluster(policy);
        classic(&mut up, "a");
        let expected = if upgrades { Ok((2, Some(vec![]))) } else { Err(ErrorCode::GroupIdNotFound) };
        assert_eq!(hears(&mut up, joining("b")), expected, "{policy:?}");
        let mut down = cluster(policy);
        assert!(hears(&mut down, joining("a")).is_ok());
        let mut b = consumer("b");
        let asked = b.ask_for_id(&mut down);
        if policy == Disabled {
            assert_eq!(asked, ErrorCode::InconsistentGroupProtocol);
            continue;
        }
        b.join_again(&mut down);
        assert_eq!(b.joined(&mut down), ErrorCode::None);
        assert!(hears(&mut down, heartbeat("a", -1)).is_ok());
        assert_eq!(down.group().is_some(), downgrades, "{policy:?}");
    }
}

#[test]
fn a_plan_with_data_of_its_assignor_is_not_given_up_r_cg8_25() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let mut a = consumer("a");
    a.join(&mut cluster);
    cluster.sleep(0);
    assert_eq!(a.joined(&mut cluster), ErrorCode::None);
    a.sync_alone(&mut cluster, &[0], Some(b"of its own"));
    assert_eq!(a.synced(&mut cluster), ErrorCode::None);
    assert_eq!(hears(&mut cluster, joining("b")), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::None);
    assert_eq!(cluster.group().map(|group| group.generation.0), Some(1));
}

#[test]
fn a_group_stays_classic_if_its_new_records_cannot_be_written() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let a = classic(&mut cluster, "a");
    // Another waits for "a" to join again.
    let mut b = consumer("b");
    b.join(&mut cluster);
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    assert_eq!(hears(&mut cluster, joining("c")), Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(b.joined(&mut cluster), ErrorCode::RebalanceInProgress);
    cluster.log = Log::Commits;
    assert_eq!(cluster.group().map(|group| group.state), Some(GroupState::PreparingRebalance));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    // Its rebalance ends when "a", which is silent, is removed.
    b.join_again(&mut cluster);
    cluster.sleep(50_000);
    assert_eq!(b.joined(&mut cluster), ErrorCode::None);
    assert_eq!(b.leader, b.id);
}

#[test]
fn a_group_stays_with_the_newer_protocol_if_its_classic_record_cannot_be_written() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let mut a = classic(&mut cluster, "a");
    assert_eq!(hears(&mut cluster, joining("b")), Ok((2, Some(vec![]))));
    assert_eq!(rejoin(&mut cluster, &mut a, &[0, 1]), [0, 1]);
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    assert_eq!(hears(&mut cluster, heartbeat("b", -1)), Err(ErrorCode::CoordinatorNotAvailable));
    cluster.log = Log::Commits;
    assert_eq!(group(&cluster).base.members.len(), 2);
    assert_eq!(hears(&mut cluster, heartbeat("b", 2)), Ok((2, Some(vec![2]))));
    // Both are still expected.
    cluster.sleep(50_000);
    assert_eq!(described(&mut cluster).3.len(), 0);
}

/// "a" is classic and has a share; "b" is static, as "i", and the only member of the newer protocol. Both are in epoch 3.
fn one_static_of_the_newer_protocol(cluster: &mut Cluster) -> Member {
    let as_i = |request: Heartbeat| request.with_instance_id(Some("i".into()));
    assert_eq!(hears(cluster, as_i(joining("b"))), Ok((2, Some(vec![0, 1, 2]))));
    let mut a = consumer("a");
    a.join(cluster);
    assert_eq!(a.joined(cluster), ErrorCode::None);
    assert!(assigned(cluster, &a).is_empty());
    assert_eq!(hears(cluster, as_i(heartbeat("b", 2))), Ok((2, Some(vec![0, 1]))));
    assert_eq!(hears(cluster, owning(as_i(heartbeat("b", 2)), &[0, 1])), Ok((3, None)));
    assert_eq!(a.heartbeat(cluster), ErrorCode::RebalanceInProgress);
    assert_eq!(rejoin(cluster, &mut a, &[]), [2]);
    assert_eq!(group(cluster).state(), ConsumerGroupState::Stable);
    cluster.events.clear();
    a
}

/// Another process of "i", with the classic protocol.
fn classic_i() -> Member {
    let mut member = Member::new_static("c", "i");
    member.own(&[]);
    member
}

#[test]
fn a_classic_process_in_the_place_of_the_last_one_brings_the_group_back_and_nobody_notices_r_cg8_25() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let a = one_static_of_the_newer_protocol(&mut cluster);
    let mut c = classic_i();
    c.join_again(&mut cluster);
    assert_eq!((c.joined(&mut cluster), c.generation), (ErrorCode::None, 3));
    assert_eq!(assigned(&mut cluster, &c), [0, 1]);
    let check = |cluster: &mut Cluster| {
        let group = cluster.group().expect("a classic group");
        let members: Vec<&str> = group.members.keys().map(MemberId::as_str).collect();
        assert_eq!((group.state, group.generation.0, members.len()), (GroupState::Stable, 3, 2));
        assert!(members.contains(&a.id.as_str()) && members.contains(&c.id.as_str()));
        assert_eq!((a.heartbeat(cluster), c.heartbeat(cluster)), (ErrorCode::None, ErrorCode::None));
        assert_eq!(assigned(cluster, &a), [2]);
    };
    check(&mut cluster);
    assert_eq!(hears(&mut cluster, heartbeat("b", 3)), Err(ErrorCode::GroupIdNotFound));
    assert!(
        cluster
            .events
            .contains(&Event::Group(GroupEvent::GroupConverted { group: group_id(), classic: true }))
    );
    assert!(
        !cluster
            .events
            .iter()
            .any(|event| matches!(event, Event::Group(GroupEvent::RebalanceStarted { .. })))
    );
    cluster.fail_over();
    cluster.load();
    check(&mut cluster);
    cluster.sleep(50_000);
    assert_eq!(cluster.group().map(|group| group.members.len()), Some(0), "the sessions are classic ones");
}

#[test]
fn a_classic_process_that_subscribes_to_something_else_makes_the_group_rebalance_r_cg8_25() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let mut a = one_static_of_the_newer_protocol(&mut cluster);
    let mut c = classic_i();
    c.subscribe(&["orders", "payments"]);
    c.join_again(&mut cluster);
    // No target has been computed for its subscription, so it is in no epoch.
    assert_eq!((c.joined(&mut cluster), c.generation), (ErrorCode::None, 0));
    assert_eq!(cluster.group().map(|group| group.state), Some(GroupState::PreparingRebalance));
    c.sync(&mut cluster, &[]);
    assert_eq!(c.synced(&mut cluster), ErrorCode::IllegalGeneration);
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::RebalanceInProgress);
    a.join_again(&mut cluster);
    c.join_again(&mut cluster);
    assert_eq!((a.joined(&mut cluster), a.generation), (ErrorCode::None, 4));
    assert_eq!((c.joined(&mut cluster), c.generation), (ErrorCode::None, 4));
}

#[test]
fn the_group_stays_where_it_may_not_be_a_classic_one_r_cg8_25() {
    let stays = |cluster: &mut Cluster| {
        let mut c = classic_i();
        c.join_again(cluster);
        assert_eq!(c.joined(cluster), ErrorCode::None);
        let group = group(cluster);
        assert!(group.base.members[&MemberId::new(&c.id)].is_classic());
        assert!(!group.base.members.contains_key(&MemberId::new("b")));
        group.base.members.len()
    };
    let mut one_way = cluster(MigrationPolicy::Upgrade);
    one_static_of_the_newer_protocol(&mut one_way);
    assert_eq!(stays(&mut one_way), 2);
    let mut not_the_last = cluster(MigrationPolicy::Bidirectional);
    one_static_of_the_newer_protocol(&mut not_the_last);
    assert!(hears(&mut not_the_last, joining("d")).is_ok());
    assert_eq!(stays(&mut not_the_last), 3);
    let consumer = ConsumerGroupConfig { assignment_interval_ms: 0, ..ConsumerGroupConfig::default() };
    let mut too_many = Cluster::new(GroupConfig { consumer, max_size: 1, ..GroupConfig::default() });
    one_static_of_the_newer_protocol(&mut too_many);
    assert_eq!(stays(&mut too_many), 2);
}

#[test]
fn the_last_one_keeps_its_place_if_its_replacement_cannot_be_written() {
    let mut cluster = cluster(MigrationPolicy::Bidirectional);
    let a = one_static_of_the_newer_protocol(&mut cluster);
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    let mut c = classic_i();
    c.join_again(&mut cluster);
    assert_eq!(c.joined(&mut cluster), ErrorCode::CoordinatorNotAvailable);
    cluster.log = Log::Commits;
    let as_i = heartbeat("b", 3).with_instance_id(Some("i".into()));
    assert_eq!(hears(&mut cluster, as_i), Ok((3, None)));
    assert_eq!(a.heartbeat(&mut cluster), ErrorCode::None);
    assert_eq!(group(&cluster).base.members.len(), 2);
}
