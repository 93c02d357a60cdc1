//! Groups lived by hand; the recorded ones are in the vectors.

use std::collections::BTreeSet;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest as Request, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::*;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::modern::MemberState;
use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
use crate::kafka::types::{BrokerId, Offset, TopicId};

struct Coordinator {
    group: Option<ConsumerGroup>,
    image: ClusterImage,
    now: Time,
    config: ConsumerGroupConfig,
}

/// With 4 partitions of "orders", and 2 of "audit".
fn coordinator() -> Coordinator {
    let config = ConsumerGroupConfig { assignment_interval_ms: 0, ..ConsumerGroupConfig::default() };
    let mut coordinator =
        Coordinator { group: None, image: ClusterImage::default(), now: Time::from_ms(1), config };
    for (name, id, partitions) in [("orders", 1, 4), ("audit", 2, 2)] {
        let id = TopicId(Uuid::from_u128(id));
        coordinator.image.replay(&MetadataRecord::Topic { name: Topic::new(name), id });
        (0..partitions).for_each(|partition| coordinator.add_partition(id, partition));
    }
    coordinator
}

fn names(topics: &[&str]) -> Option<Vec<TopicName>> {
    Some(topics.iter().map(|topic| TopicName(StrBytes::from_string(topic.to_string()))).collect())
}

fn heartbeat(member: &str, epoch: i32) -> Request {
    Request::default().with_member_id(StrBytes::from_string(member.to_string())).with_member_epoch(epoch)
}

fn joining(member: &str, topics: &[&str]) -> Request {
    heartbeat(member, 0)
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(names(topics))
        .with_topic_partitions(Some(Vec::new()))
}

/// It owns these partitions of "orders".
fn owning(request: Request, partitions: &[i32]) -> Request {
    let orders =
        TopicPartitions::default().with_topic_id(Uuid::from_u128(1)).with_partitions(partitions.to_vec());
    request.with_topic_partitions(Some(vec![orders]))
}

impl Coordinator {
    fn add_partition(&mut self, id: TopicId, partition: i32) {
        let replicas = vec![BrokerId(1)];
        let record = PartitionRecord::new((id, partition), replicas.clone(), replicas, BrokerId(1));
        self.image.replay(&MetadataRecord::Partition(record));
    }

    /// The member's epoch, and how many partitions it was told if it was told any.
    fn hears(&mut self, request: &Request) -> Result<(i32, Option<i64>), ErrorCode> {
        let request = request.clone().with_group_id(m::GroupId(StrBytes::from_static_str("g")));
        let around = Surroundings { now: self.now, image: &self.image, topics_created_at: Offset::ZERO };
        let client = ClientName::new("c");
        let checked = check_request(&request, &self.config);
        let outcome = checked.and_then(|()| {
            ConsumerGroup::handle(self.group.as_ref(), &request, &client, &self.config, &around)
        });
        let outcome = outcome.map_err(|refusal| refusal.error)?;
        let group = self.group.get_or_insert_with(|| ConsumerGroup::new(GroupId::new("g")));
        group.carry_out(&outcome, self.now);
        let told = outcome.response.assignment.map(|assignment| {
            assignment.topic_partitions.iter().map(|topic| topic.partitions.len() as i64).sum()
        });
        Ok((outcome.response.member_epoch, told))
    }

    fn group(&self) -> &ConsumerGroup {
        self.group.as_ref().expect("somebody joined")
    }

    fn member(&self, id: &str) -> &ConsumerMember {
        &self.group().base.members[&MemberId::new(id)]
    }
}

#[test]
fn one_request_joins_keeps_and_leaves_r_cg8_1_3() {
    let mut c = coordinator();
    assert_eq!(c.hears(&joining("a", &["orders"])), Ok((2, Some(4))));
    assert_eq!(c.hears(&heartbeat("a", 2)), Ok((2, None)));
    assert_eq!(c.hears(&heartbeat("a", 2).with_subscribed_topic_names(names(&["audit"]))), Ok((2, Some(0))));
    assert_eq!(c.hears(&heartbeat("a", 2).with_topic_partitions(Some(Vec::new()))), Ok((3, Some(2))));
    assert_eq!(c.hears(&heartbeat("a", -1)), Ok((-1, None)));
    assert_eq!(c.group().state(), ConsumerGroupState::Empty);
}

#[test]
fn a_partition_changes_hands_when_its_owner_gave_it_up_r_cg8_2_10_11_12() {
    let mut c = coordinator();
    assert_eq!(c.hears(&joining("a", &["orders"])), Ok((2, Some(4))));
    assert_eq!(c.hears(&joining("b", &["orders"])), Ok((3, Some(0))));
    assert_eq!(c.member("b").state, MemberState::UnreleasedPartitions);
    // It is told to give up two and stays in its epoch until it says that it did.
    assert_eq!(c.hears(&owning(heartbeat("a", 2), &[0, 1, 2, 3])), Ok((2, Some(2))));
    assert_eq!(c.member("a").state, MemberState::UnrevokedPartitions);
    assert_eq!(c.hears(&heartbeat("b", 3)), Ok((3, None)));
    assert_eq!(c.hears(&owning(heartbeat("a", 2), &[0, 1])), Ok((3, None)));
    assert_eq!(c.member("a").state, MemberState::Stable);
    assert_eq!(c.hears(&heartbeat("b", 3)), Ok((3, Some(2))));
    assert_eq!(c.member("b").state, MemberState::Stable);
    let epochs = |id| c.member(id).assigned.iter().map(|(_, epoch)| epoch.0).collect::<Vec<_>>();
    assert_eq!((epochs("a"), epochs("b")), (vec![2, 2], vec![3, 3]));
    assert_eq!((c.group().base.epoch, c.group().base.target.epoch), (GroupEpoch(3), GroupEpoch(3)));
}

#[test]
fn a_group_is_assigning_reconciling_and_stable_r_cg8_6() {
    use ConsumerGroupState::*;
    let mut c = coordinator();
    c.config.assignment_interval_ms = 1_000;
    let mut check = |request: &Request, passed_ms, expected| {
        c.now = c.now.plus_ms(passed_ms);
        assert!(c.hears(request).is_ok());
        assert_eq!(c.group().state(), expected);
    };
    check(&joining("a", &["orders"]), 0, Stable);
    check(&joining("b", &["orders"]), 999, Assigning);
    check(&heartbeat("b", 2), 1, Reconciling);
    check(&owning(heartbeat("a", 2), &[0, 1]), 0, Reconciling);
    check(&heartbeat("b", 3), 0, Stable);
    check(&heartbeat("a", -1), 0, Assigning);
    check(&heartbeat("b", -1), 0, Empty);
}

#[test]
fn the_groups_epoch_rises_for_members_subscriptions_and_topics_r_cg8_7() {
    let mut c = coordinator();
    let check = |c: &mut Coordinator, request: &Request, expected| {
        assert!(c.hears(request).is_ok());
        assert_eq!(c.group().base.epoch, GroupEpoch(expected));
    };
    check(&mut c, &joining("a", &["orders"]), 2);
    check(&mut c, &heartbeat("a", 2).with_server_assignor(Some(StrBytes::from_static_str("range"))), 2);
    check(&mut c, &heartbeat("a", 2).with_subscribed_topic_names(names(&["audit", "orders"])), 3);
    check(&mut c, &joining("b", &["orders"]), 4);
    check(&mut c, &heartbeat("b", -1), 5);
    c.add_partition(TopicId(Uuid::from_u128(1)), 4);
    check(&mut c, &heartbeat("a", 3), 5);
    c.group.iter_mut().for_each(|group| group.base.request_metadata_refresh());
    check(&mut c, &heartbeat("a", 5), 6);
}

#[test]
fn the_assignor_that_most_members_ask_for_assigns_r_cg8_9() {
    let mut c = coordinator();
    let asking = |member, assignor: &'static str| {
        joining(member, &["orders"]).with_server_assignor(Some(StrBytes::from_static_str(assignor)))
    };
    assert_eq!(c.hears(&asking("a", "sticky")), Err(ErrorCode::UnsupportedAssignor));
    assert!(c.hears(&asking("b", "uniform")).is_ok());
    let preferred = |c: &Coordinator| {
        let members = c.group().base.members.values().map(|member| &**member);
        c.group().preferred_assignor(members).map(str::to_string)
    };
    assert_eq!(preferred(&c).as_deref(), Some("uniform"));
    assert!(c.hears(&asking("c", "range")).is_ok() && c.hears(&asking("d", "range")).is_ok());
    assert_eq!(preferred(&c).as_deref(), Some("range"));
    assert_eq!(c.group().base.target.of(&MemberId::new("b")).len(), 2);
}

#[test]
fn who_is_not_heard_from_is_removed_with_its_partitions_r_cg8_14() {
    let mut c = coordinator();
    assert!(c.hears(&joining("a", &["orders"])).is_ok() && c.hears(&joining("b", &["orders"])).is_ok());
    let a = MemberId::new("a");
    assert_eq!(c.group().deadlines[&a].session, Some(c.now.plus_ms(45_000)));
    let outcome = c.group().session_expired(&a, &c.image).expect("it is a member");
    let now = c.now;
    c.group.iter_mut().for_each(|group| assert_eq!(group.carry_out(&outcome, now), Replayed::Kept));
    assert_eq!(c.hears(&heartbeat("a", 2)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(c.hears(&heartbeat("b", 3)), Ok((4, Some(4))));
    assert!(c.group().session_expired(&a, &c.image).is_none());
}

#[test]
fn a_first_request_says_everything_r_cg8_15() {
    let mut c = coordinator();
    let mut check = |request: Request, expected| assert_eq!(c.hears(&request).err(), expected);
    check(joining("a", &["orders"]).with_rebalance_timeout_ms(-1), Some(ErrorCode::InvalidRequest));
    check(joining("a", &["orders"]).with_topic_partitions(None), Some(ErrorCode::InvalidRequest));
    check(owning(joining("a", &["orders"]), &[0]), Some(ErrorCode::InvalidRequest));
    check(joining("a", &["orders"]).with_subscribed_topic_names(None), Some(ErrorCode::InvalidRequest));
    check(joining("", &["orders"]), Some(ErrorCode::InvalidRequest));
    check(heartbeat("a", -3), Some(ErrorCode::InvalidRequest));
    check(heartbeat("a", -2), Some(ErrorCode::InvalidRequest));
    check(heartbeat("a", 1), Some(ErrorCode::GroupIdNotFound));
    check(joining("a", &[]), None);
    // It lost its state: it is taken back as it was.
    check(joining("a", &[]), None);
}

#[test]
fn an_older_epoch_commits_for_what_the_member_has_had_since_r_cg8_19() {
    let mut c = coordinator();
    let rounds = [
        joining("a", &["orders"]),
        joining("b", &["orders"]),
        owning(heartbeat("a", 2), &[0, 1]),
        heartbeat("b", 3),
    ];
    rounds.iter().for_each(|request| assert!(c.hears(request).is_ok()));
    let check = |member: &str, epoch, partition, expected: Result<(), ErrorCode>| {
        let scope = c.group().validate_commit(&MemberId::new(member), GroupEpoch(epoch));
        let orders = TopicId(Uuid::from_u128(1));
        assert_eq!(scope.and_then(|scope| scope.check(&(orders, partition))), expected);
    };
    check("a", 3, 0, Ok(()));
    check("a", 2, 0, Ok(()));
    check("a", 1, 0, Err(ErrorCode::StaleMemberEpoch));
    check("a", 2, 2, Err(ErrorCode::StaleMemberEpoch));
    check("a", 4, 0, Err(ErrorCode::StaleMemberEpoch));
    check("b", 2, 2, Err(ErrorCode::StaleMemberEpoch));
    check("nobody", 3, 0, Err(ErrorCode::UnknownMemberId));
    check("", -1, 0, Err(ErrorCode::UnknownMemberId));
}

#[test]
fn an_offset_is_told_to_a_member_in_its_epoch_and_to_strangers_r_cg8_20() {
    let mut c = coordinator();
    assert!(c.hears(&joining("a", &["orders"])).is_ok());
    let check = |member: Option<&str>, epoch, expected| {
        let member = member.map(MemberId::new);
        assert_eq!(c.group().validate_fetch(member.as_ref(), GroupEpoch(epoch)), expected);
    };
    check(None, -1, Ok(()));
    check(Some("a"), 2, Ok(()));
    check(Some("a"), 1, Err(ErrorCode::StaleMemberEpoch));
    check(Some("b"), 2, Err(ErrorCode::UnknownMemberId));
}

#[test]
fn an_expression_is_resolved_beside_and_raises_the_epoch_then() {
    let mut c = coordinator();
    let regex = StrBytes::from_static_str("ord.*|nothing");
    let by_regex =
        joining("a", &[]).with_subscribed_topic_names(None).with_subscribed_topic_regex(Some(regex));
    // Not yet: nothing is known to match.
    assert_eq!(c.hears(&by_regex), Ok((1, Some(0))));
    let regexes = BTreeSet::from(["ord.*|nothing".to_string()]);
    let around = Surroundings { now: c.now, image: &c.image, topics_created_at: Offset::ZERO };
    let outcome = c.group().regexes_resolved(resolve_regexes(&regexes, &c.image, 7), &around);
    let now = c.now;
    c.group.iter_mut().for_each(|group| assert_eq!(group.carry_out(&outcome, now), Replayed::Kept));
    assert_eq!(c.group().subscribed_topics(), BTreeSet::from([Topic::new("orders")]));
    assert_eq!(c.hears(&heartbeat("a", 1)), Ok((2, Some(4))));
}
