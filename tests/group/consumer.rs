//! Groups of the newer protocol at their coordinator: what waits for the log, what a failover keeps, and who may change a
//! group's protocol (KIP-848).

use std::rc::Rc;

use glassbroker::kafka::event::{ConsumerGroupState, Event, GroupEvent, GroupState, MemberRemoval};
use glassbroker::kafka::group::modern::consumer::{ConsumerGroup, ConsumerMember};
use glassbroker::kafka::group::{GroupConfig, GroupTimer};
use glassbroker::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
use glassbroker::kafka::protocol::{ErrorCode, Response};
use glassbroker::kafka::types::{BrokerId, ClientName, GroupEpoch, MemberId, Offset, Topic};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest as Heartbeat, ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest, OffsetFetchRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Cluster, Log, ORDERS_ID, group_id, orders};
use super::member::{Member, committed, stable};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

pub fn heartbeat(member: &str, epoch: i32) -> Heartbeat {
    Heartbeat::default()
        .with_group_id(group_id().to_wire().into())
        .with_member_id(text(member))
        .with_member_epoch(epoch)
}

pub fn joining(member: &str) -> Heartbeat {
    heartbeat(member, 0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(vec![TopicName(text("orders"))]))
        .with_topic_partitions(Some(Vec::new()))
}

pub fn owning(request: Heartbeat, partitions: &[i32]) -> Heartbeat {
    let orders = TopicPartitions::default().with_topic_id(ORDERS_ID.0).with_partitions(partitions.to_vec());
    request.with_topic_partitions(Some(vec![orders]))
}

/// With assignments at once.
fn cluster() -> Cluster {
    let mut config = GroupConfig::default();
    config.consumer.assignment_interval_ms = 0;
    Cluster::new(config)
}

fn answered(cluster: &mut Cluster, request: i32) -> Option<ConsumerGroupHeartbeatResponse> {
    cluster.answer(request).map(|response| match &*response {
        Response::ConsumerGroupHeartbeat(response) => response.clone(),
        other => panic!("{other:?} answers no heartbeat"),
    })
}

/// The member's epoch, and the partitions of "orders" that it was told.
pub fn hears(cluster: &mut Cluster, request: Heartbeat) -> Result<(i32, Option<Vec<i32>>), ErrorCode> {
    let request = cluster.send("client", request);
    let response = answered(cluster, request).expect("an answer");
    let partitions = |topics: &Vec<_>| {
        let topics: &Vec<kafka_protocol::messages::consumer_group_heartbeat_response::TopicPartitions> =
            topics;
        topics.iter().flat_map(|topic| topic.partitions.clone()).collect()
    };
    match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Ok((
            response.member_epoch,
            response.assignment.as_ref().map(|assignment| partitions(&assignment.topic_partitions)),
        )),
        error => Err(error),
    }
}

pub fn group(cluster: &Cluster) -> &ConsumerGroup {
    cluster.coordinator.consumer_group(&group_id()).expect("a group of the newer protocol")
}

fn member<'a>(cluster: &'a Cluster, id: &str) -> &'a ConsumerMember {
    &group(cluster).base.members[&MemberId::new(id)]
}

/// "a" has partitions 0 and 1, "b" has 2; both are in epoch 3.
pub fn two_members() -> Cluster {
    let mut cluster = cluster();
    let rounds = [
        joining("a"),
        joining("b"),
        owning(heartbeat("a", 2), &[0, 1, 2]),
        owning(heartbeat("a", 2), &[0, 1]),
        heartbeat("b", 3),
    ];
    rounds.into_iter().for_each(|request| assert!(hears(&mut cluster, request).is_ok()));
    assert_eq!(group(&cluster).state(), ConsumerGroupState::Stable);
    cluster
}

fn commit(cluster: &mut Cluster, member: &str, epoch: i32, partition: i32, offset: i64) -> ErrorCode {
    let partition =
        OffsetCommitRequestPartition::default().with_partition_index(partition).with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(text("orders")))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group_id().to_wire().into())
        .with_member_id(text(member))
        .with_generation_id_or_member_epoch(epoch)
        .with_topics(vec![topic]);
    let request = cluster.send("client", request);
    match &*cluster.answer(request).expect("an answer") {
        Response::OffsetCommit(response) => ErrorCode::from_code(response.topics[0].partitions[0].error_code),
        other => panic!("{other:?} answers no commit"),
    }
}

fn fetch_error(cluster: &mut Cluster, member: Option<&str>, epoch: i32) -> ErrorCode {
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(group_id().to_wire().into())
        .with_member_id(member.map(text))
        .with_member_epoch(epoch)
        .with_topics(None);
    let request = cluster.send("client", OffsetFetchRequest::default().with_groups(vec![group]));
    match &*cluster.answer(request).expect("an answer") {
        Response::OffsetFetch(response) => ErrorCode::from_code(response.groups[0].error_code),
        other => panic!("{other:?} answers no fetch"),
    }
}

/// Error, state, epoch and members as administrators see them.
pub fn described(cluster: &mut Cluster) -> (ErrorCode, String, i32, Vec<(String, i32)>) {
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id().to_wire().into()]);
    let request = cluster.send("admin", request);
    let response: Rc<Response> = cluster.answer(request).expect("an answer");
    let Response::ConsumerGroupDescribe(response) = &*response else {
        panic!("{response:?} describes nothing")
    };
    let group = &response.groups[0];
    let members = group.members.iter().map(|member| (member.member_id.to_string(), member.member_epoch));
    (
        ErrorCode::from_code(group.error_code),
        group.group_state.to_string(),
        group.group_epoch,
        members.collect(),
    )
}

#[test]
fn an_answer_waits_until_what_it_tells_is_safe_r_cg8_5() {
    let mut cluster = cluster();
    cluster.log = Log::Stalls;
    let request = cluster.send("client", joining("a"));
    assert_eq!(answered(&mut cluster, request), None);
    assert_eq!(described(&mut cluster).0, ErrorCode::GroupIdNotFound);
    cluster.catch_up();
    let response = answered(&mut cluster, request).expect("an answer");
    assert_eq!((response.member_epoch, response.heartbeat_interval_ms), (2, 5_000));
    let expected = (ErrorCode::None, "Stable".to_string(), 2, vec![("a".to_string(), 2)]);
    assert_eq!(described(&mut cluster), expected);
}

#[test]
fn what_cannot_be_written_has_not_happened() {
    let mut cluster = two_members();
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    assert_eq!(hears(&mut cluster, joining("c")), Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!((group(&cluster).base.epoch, group(&cluster).base.members.len()), (GroupEpoch(3), 2));
    assert_eq!(group(&cluster).state(), ConsumerGroupState::Stable);
    cluster.log = Log::Commits;
    assert_eq!(hears(&mut cluster, joining("c")), Ok((4, Some(vec![]))));
}

/// Also R-GRP-4: each member has its full session.
#[test]
fn a_new_coordinator_knows_members_targets_and_assignments_r_cg8_26() {
    let mut cluster = two_members();
    assert_eq!(hears(&mut cluster, joining("c")), Ok((4, Some(vec![]))));
    assert_eq!(hears(&mut cluster, owning(heartbeat("a", 3), &[0, 1])), Ok((3, Some(vec![0]))));
    let before = (group(&cluster).base.members.clone(), group(&cluster).base.target.members.clone());
    cluster.sleep(30_000);
    cluster.fail_over();
    cluster.load();
    assert_eq!((group(&cluster).base.members.clone(), group(&cluster).base.target.members.clone()), before);
    let deadlines = group(&cluster).deadlines[&MemberId::new("a")];
    assert_eq!(deadlines.session, Some(cluster.now.plus_ms(45_000)));
    assert_eq!(deadlines.rebalance, Some((cluster.now.plus_ms(60_000), GroupEpoch(3))));
    assert_eq!(hears(&mut cluster, owning(heartbeat("a", 3), &[0])), Ok((4, None)));
    assert_eq!(hears(&mut cluster, heartbeat("c", 4)), Ok((4, Some(vec![1]))));
}

#[test]
fn what_is_loaded_above_the_high_watermark_is_not_described_yet() {
    let mut cluster = two_members();
    let safe = Offset(cluster.records.len() as i64);
    cluster.log = Log::Stalls;
    cluster.send("client", joining("c"));
    cluster.fail_over();
    cluster.load_up_to(safe);
    assert_eq!(group(&cluster).base.members.len(), 3);
    assert_eq!(described(&mut cluster).3.len(), 2);
    cluster.catch_up();
    assert_eq!(described(&mut cluster).3.len(), 3);
}

#[test]
fn a_silent_member_goes_and_one_that_gives_nothing_up_r_cg8_13_14() {
    let mut cluster = two_members();
    cluster.sleep(20_000);
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((3, None)));
    cluster.sleep(25_000);
    assert_eq!(hears(&mut cluster, heartbeat("b", 3)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((4, Some(vec![0, 1, 2]))));
    // "c" gets two of three, and "a" does not give them up.
    assert_eq!(hears(&mut cluster, joining("c")), Ok((5, Some(vec![]))));
    assert!(hears(&mut cluster, heartbeat("a", 4)).is_ok());
    for _ in 0..3 {
        cluster.sleep(19_999);
        assert!(
            hears(&mut cluster, heartbeat("a", 4)).is_ok() && hears(&mut cluster, heartbeat("c", 5)).is_ok()
        );
    }
    cluster.sleep(3);
    assert_eq!(hears(&mut cluster, heartbeat("a", 4)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(hears(&mut cluster, heartbeat("c", 5)), Ok((6, Some(vec![0, 1, 2]))));
    let removals: Vec<MemberRemoval> = cluster
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Group(GroupEvent::MemberRemoved { reason, .. }) => Some(*reason),
            _ => None,
        })
        .collect();
    assert_eq!(removals, [MemberRemoval::SessionExpired, MemberRemoval::DidNotRevoke]);
}

#[test]
fn a51_offsets_go_by_the_members_epoch_r_cg8_19_20() {
    let mut cluster = two_members();
    assert_eq!(commit(&mut cluster, "a", 3, 0, 10), ErrorCode::None);
    assert_eq!(commit(&mut cluster, "a", 2, 0, 11), ErrorCode::None);
    assert_eq!(commit(&mut cluster, "a", 2, 2, 12), ErrorCode::StaleMemberEpoch);
    assert_eq!(commit(&mut cluster, "b", 2, 2, 13), ErrorCode::StaleMemberEpoch);
    assert_eq!(commit(&mut cluster, "c", 3, 2, 14), ErrorCode::UnknownMemberId);
    assert_eq!((committed(&cluster, 0), committed(&cluster, 2)), (Some(11), None));
    assert_eq!(fetch_error(&mut cluster, None, -1), ErrorCode::None);
    assert_eq!(fetch_error(&mut cluster, Some("a"), 3), ErrorCode::None);
    assert_eq!(fetch_error(&mut cluster, Some("a"), 2), ErrorCode::StaleMemberEpoch);
    assert_eq!(fetch_error(&mut cluster, Some("c"), 3), ErrorCode::UnknownMemberId);
}

#[test]
fn a_new_partition_is_assigned_with_the_next_heartbeat_r_cg8_7() {
    let mut cluster = cluster();
    assert_eq!(hears(&mut cluster, joining("a")), Ok((2, Some(vec![0, 1, 2]))));
    let replicas = vec![BrokerId(1)];
    let record = PartitionRecord::new((ORDERS_ID, 3), replicas.clone(), replicas, BrokerId(1));
    cluster.image.replay(&MetadataRecord::Partition(record));
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((2, None)));
    cluster.coordinator.on_topics_changed(&[Topic::new("orders")].into(), false, Offset(5));
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((3, Some(vec![0, 1, 2, 3]))));
}

#[test]
fn the_groups_own_configs_count() {
    let mut cluster = cluster();
    let own = [("consumer.session.timeout.ms", "50000"), ("consumer.heartbeat.interval.ms", "7000")];
    let own = own.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    cluster.image.group_configs.insert(group_id().to_string(), own);
    let request = cluster.send("client", joining("a"));
    assert_eq!(answered(&mut cluster, request).map(|response| response.heartbeat_interval_ms), Some(7_000));
    assert_eq!(group(&cluster).deadlines[&MemberId::new("a")].session, Some(cluster.now.plus_ms(50_000)));
}

#[test]
fn an_empty_group_changes_its_protocol_and_keeps_its_offsets_r_cg8_25() {
    let mut cluster = two_members();
    assert_eq!(commit(&mut cluster, "a", 3, 0, 10), ErrorCode::None);
    assert!(
        hears(&mut cluster, heartbeat("a", -1)).is_ok() && hears(&mut cluster, heartbeat("b", -1)).is_ok()
    );
    assert_eq!(group(&cluster).state(), ConsumerGroupState::Empty);
    assert_eq!(Member::new("d").ask_for_id(&mut cluster), ErrorCode::MemberIdRequired);
    assert!(cluster.coordinator.consumer_group(&group_id()).is_none());
    assert_eq!(cluster.group().map(|group| group.pending.len()), Some(1));
    cluster.fail_over();
    cluster.load();
    assert_eq!(cluster.group().map(|group| group.state), Some(GroupState::Empty));
    assert_eq!(hears(&mut cluster, joining("a")), Ok((2, Some(vec![0, 1, 2]))));
    assert_eq!((committed(&cluster, 0), cluster.group().is_none()), (Some(10), true));
    cluster.fail_over();
    cluster.load();
    assert_eq!((committed(&cluster, 0), member(&cluster, "a").epoch), (Some(10), GroupEpoch(2)));
    assert_eq!(committed(&cluster, orders(1).partition), None);
}

#[test]
fn an_empty_group_without_offsets_is_deleted_r_grp_40() {
    let mut cluster = two_members();
    assert!(
        hears(&mut cluster, heartbeat("a", -1)).is_ok() && hears(&mut cluster, heartbeat("b", -1)).is_ok()
    );
    let expiration = GroupTimer::Expiration { partition: cluster.partition() };
    cluster.fire(&expiration);
    assert_eq!(described(&mut cluster).0, ErrorCode::GroupIdNotFound);
    let dead = |event: &Event| {
        matches!(
            event,
            Event::Group(GroupEvent::ConsumerGroupStateChanged { to: ConsumerGroupState::Dead, .. })
        )
    };
    assert!(cluster.events.iter().any(dead));
    cluster.fail_over();
    cluster.load();
    assert!(cluster.coordinator.consumer_group(&group_id()).is_none());
}

/// R-GRP-40. The clock of a classic group starts when it becomes empty; here the last commit counts.
#[test]
fn a52_an_offset_is_forgotten_a_week_after_its_commit_once_nobody_subscribes() {
    const DAY_MS: i64 = 24 * 3_600_000;
    let mut cluster = cluster();
    let own = [("consumer.session.timeout.ms".to_string(), (2 * DAY_MS).to_string())].into();
    cluster.image.group_configs.insert(group_id().to_string(), own);
    assert!(hears(&mut cluster, joining("a")).is_ok());
    assert_eq!(commit(&mut cluster, "a", 2, 0, 10), ErrorCode::None);
    for _ in 0..8 {
        cluster.sleep(DAY_MS);
        assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((2, None)));
    }
    assert_eq!(committed(&cluster, 0), Some(10));
    assert!(hears(&mut cluster, heartbeat("a", -1)).is_ok());
    cluster.sleep(10 * 60_000);
    assert_eq!(committed(&cluster, 0), None);
    assert_eq!(described(&mut cluster).0, ErrorCode::GroupIdNotFound);
}

/// Lets every member say what it owns until nothing changes; each one's partitions.
fn settle(cluster: &mut Cluster, members: &[&str]) -> Vec<Vec<i32>> {
    for _ in 0..3 {
        for id in members {
            let known = member(cluster, id);
            let owned: Vec<i32> = known.assigned.keys().map(|(_, partition)| partition).collect();
            let epoch = known.epoch.0;
            assert!(hears(cluster, owning(heartbeat(id, epoch), &owned)).is_ok());
        }
    }
    assert_eq!(group(cluster).state(), ConsumerGroupState::Stable);
    let owned = |id: &&str| member(cluster, id).assigned.keys().map(|(_, partition)| partition).collect();
    members.iter().map(owned).collect()
}

#[test]
fn a41_uniform_is_sticky_r_cg8_23() {
    let mut cluster = cluster();
    for partition in 3..6 {
        let replicas = vec![BrokerId(1)];
        let record = PartitionRecord::new((ORDERS_ID, partition), replicas.clone(), replicas, BrokerId(1));
        cluster.image.replay(&MetadataRecord::Partition(record));
    }
    let mut check = |request: Heartbeat, members: &[&str], expected: &[&[i32]]| {
        assert!(hears(&mut cluster, request).is_ok());
        assert_eq!(settle(&mut cluster, members), expected);
    };
    check(joining("m1"), &["m1"], &[&[0, 1, 2, 3, 4, 5]]);
    check(joining("m2"), &["m1", "m2"], &[&[0, 1, 2], &[3, 4, 5]]);
    check(joining("m3"), &["m1", "m2", "m3"], &[&[0, 1], &[3, 4], &[2, 5]]);
    check(heartbeat("m1", -1), &["m2", "m3"], &[&[0, 3, 4], &[1, 2, 5]]);
}

#[test]
fn a36_a_group_of_the_newer_protocol_does_not_wait_for_more_members() {
    let mut cluster = cluster();
    assert_eq!(hears(&mut cluster, joining("a")), Ok((2, Some(vec![0, 1, 2]))));
    assert_eq!(group(&cluster).state(), ConsumerGroupState::Stable);
}

#[test]
fn an_expression_is_resolved_a_moment_later() {
    let mut cluster = cluster();
    let by_regex =
        joining("a").with_subscribed_topic_names(None).with_subscribed_topic_regex(Some(text("ord.*")));
    assert_eq!(hears(&mut cluster, by_regex.clone()), Ok((1, Some(vec![]))));
    cluster.sleep(10);
    assert_eq!(hears(&mut cluster, heartbeat("a", 1)), Ok((2, Some(vec![0, 1, 2]))));
    let invalid = by_regex.with_member_id(text("b")).with_subscribed_topic_regex(Some(text("[")));
    assert_eq!(hears(&mut cluster, invalid), Err(ErrorCode::InvalidRegularExpression));
}

#[test]
fn the_trace_tells_of_plans_and_of_what_changes_hands() {
    let cluster = two_members();
    let client = || ClientName::new("client");
    let told = |event: &Event| cluster.events.contains(event);
    let (group, epoch) = (group_id, GroupEpoch(3));
    assert!(told(&Event::Group(GroupEvent::RevocationAsked {
        group: group(),
        client: client(),
        epoch: GroupEpoch(2),
        partitions: vec![orders(2)],
    })));
    let given = vec![orders(2)];
    assert!(told(&Event::Group(GroupEvent::MemberReconciled {
        group: group(),
        client: client(),
        epoch,
        given,
        waits: false
    })));
    let plan = vec![(client(), vec![orders(0), orders(1)]), (client(), vec![orders(2)])];
    assert!(told(&Event::Group(GroupEvent::TargetAssigned { group: group(), epoch, plan })));
}

#[test]
fn a_classic_group_is_not_described_as_one_of_the_newer_protocol() {
    let (mut cluster, _members) = stable(&["a"]);
    assert_eq!(hears(&mut cluster, heartbeat("b", 1)), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(described(&mut cluster).0, ErrorCode::GroupIdNotFound);
}
