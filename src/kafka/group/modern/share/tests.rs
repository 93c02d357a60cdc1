use kafka_protocol::messages::{self as m, ShareGroupHeartbeatRequest as Request};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::*;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::modern::Surroundings;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::RecordKey;
use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
use crate::kafka::types::{BrokerId, ClientName, Offset, Topic, TopicId};

const ORDERS: TopicId = TopicId(Uuid::from_u128(1));

struct Coordinator {
    group: Option<ShareGroup>,
    image: ClusterImage,
    now: Time,
    config: ShareGroupConfig,
    /// Everything that was written.
    log: Vec<ShareGroupRecord>,
    /// What the share coordinators were asked to begin.
    asked: Vec<(GroupEpoch, Vec<TopicIdPartition>)>,
}

/// With so many partitions of "orders".
fn coordinator(partitions: i32) -> Coordinator {
    let config = ShareGroupConfig { assignment_interval_ms: 0, ..ShareGroupConfig::DEFAULT };
    let image = ClusterImage::default();
    let (log, asked) = (Vec::new(), Vec::new());
    let mut coordinator = Coordinator { group: None, image, now: Time::from_ms(1), config, log, asked };
    coordinator.image.replay(&MetadataRecord::Topic { name: Topic::new("orders"), id: ORDERS });
    for partition in 0..partitions {
        let replicas = vec![BrokerId(1)];
        let record = PartitionRecord::new((ORDERS, partition), replicas.clone(), replicas, BrokerId(1));
        coordinator.image.replay(&MetadataRecord::Partition(record));
    }
    coordinator
}

fn heartbeat(member: &str, epoch: i32) -> Request {
    Request::default().with_member_id(StrBytes::from_string(member.to_string())).with_member_epoch(epoch)
}

fn joining(member: &str) -> Request {
    let names = vec![m::TopicName(StrBytes::from_static_str("orders"))];
    heartbeat(member, 0).with_subscribed_topic_names(Some(names))
}

impl Coordinator {
    fn take<R>(&mut self, outcome: Outcome<R>) -> R {
        let group = self.group.get_or_insert_with(|| ShareGroup::new(GroupId::new("g")));
        group.carry_out(&outcome, self.now);
        self.log.extend(outcome.records);
        self.asked.extend(outcome.initialize);
        outcome.response
    }

    /// The member's epoch, and the partitions that it was told if it was told any.
    fn hears(&mut self, request: &Request) -> Result<(i32, Option<Vec<i32>>), ErrorCode> {
        let request = request.clone().with_group_id(m::GroupId(StrBytes::from_static_str("g")));
        let around = Surroundings { now: self.now, image: &self.image, topics_created_at: Offset::ZERO };
        let client = ClientName::new("c");
        let outcome = check_request(&request)
            .and_then(|()| ShareGroup::handle(self.group.as_ref(), &request, &client, &self.config, &around));
        let outcome = outcome.map_err(|refusal| refusal.error)?;
        let response = self.take(outcome);
        let told = response.assignment.map(|assignment| {
            assignment.topic_partitions.into_iter().flat_map(|topic| topic.partitions).collect()
        });
        Ok((response.member_epoch, told))
    }

    /// The share coordinators answer what they were asked last.
    fn begin_states(&mut self, succeed: bool) {
        let (_, states) = self.asked.pop().expect("something was asked");
        let around = Surroundings { now: self.now, image: &self.image, topics_created_at: Offset::ZERO };
        let group = self.group.as_ref().expect("it asked");
        let outcome =
            if succeed { Some(group.states_begun(&states, &around)) } else { group.states_failed(&states) };
        self.take(outcome.expect("states are to begin"));
    }

    /// A group of these members, who know what they have.
    fn with_members(partitions: i32, members: &[&str]) -> Coordinator {
        let mut coordinator = coordinator(partitions);
        for member in members {
            coordinator.hears(&joining(member)).expect("it joins");
            if !coordinator.asked.is_empty() {
                coordinator.begin_states(true);
            }
        }
        for member in members {
            coordinator.settles(member);
        }
        coordinator
    }

    fn epoch_of(&self, member: &str) -> i32 {
        self.group.as_ref().map_or(-1, |group| group.base.members[&MemberId::new(member)].epoch.0)
    }

    fn settles(&mut self, member: &str) {
        for _ in 0..2 {
            let epoch = self.epoch_of(member);
            self.hears(&heartbeat(member, epoch)).expect("it is a member");
        }
    }

    fn has(&self, member: &str) -> Vec<i32> {
        let group = self.group.as_ref().expect("there is a group");
        let member = &group.base.members[&MemberId::new(member)];
        member.assigned.iter().map(|(_, partition)| *partition).collect()
    }
}

#[test]
fn partitions_are_given_once_their_states_have_begun_r_share_1_3() {
    let mut coordinator = coordinator(2);
    assert_eq!(coordinator.hears(&joining("a")), Ok((2, Some(vec![]))));
    let all = vec![(ORDERS, 0), (ORDERS, 1)];
    assert_eq!(coordinator.asked, [(GroupEpoch(2), all)], "the state's epoch is the group's");
    assert_eq!(coordinator.hears(&heartbeat("a", 2)), Ok((2, None)), "nothing has begun");
    assert_eq!(coordinator.asked.len(), 1, "it is asked once");
    coordinator.begin_states(true);
    assert_eq!(coordinator.hears(&heartbeat("a", 2)), Ok((3, Some(vec![0, 1]))));
    assert_eq!(coordinator.hears(&heartbeat("a", 3)), Ok((3, None)));
}

#[test]
fn states_that_could_not_begin_are_asked_for_again() {
    let mut coordinator = coordinator(1);
    coordinator.hears(&joining("a")).expect("it joins");
    coordinator.begin_states(false);
    coordinator.hears(&heartbeat("a", 2)).expect("it is a member");
    assert_eq!(coordinator.asked.len(), 1);
    coordinator.asked.clear();
    // No answer comes at all.
    coordinator.now = coordinator.now.plus_ms(29_999);
    coordinator.hears(&heartbeat("a", 2)).expect("it is a member");
    assert_eq!(coordinator.asked.len(), 0);
    coordinator.now = coordinator.now.plus_ms(1);
    coordinator.hears(&heartbeat("a", 2)).expect("it is a member");
    assert_eq!(coordinator.asked.len(), 1);
}

/// Vector 14, `three_members_two_partitions`: each partition is read by two of three, each member has work.
#[test]
fn more_members_than_partitions_all_get_work_r_share_1_2() {
    let mut coordinator = Coordinator::with_members(2, &["a", "b", "c"]);
    let mut counts = [0; 2];
    for member in ["a", "b", "c"] {
        let has = coordinator.has(member);
        assert!(!has.is_empty(), "{member}");
        has.iter().for_each(|partition| counts[*partition as usize] += 1);
    }
    assert_eq!(counts, [2, 2]);
    let epoch = coordinator.epoch_of("c");
    assert_eq!(coordinator.hears(&heartbeat("c", -1)), Ok((-1, None)));
    assert!(epoch > 0);
    coordinator.settles("a");
    coordinator.settles("b");
    let mut all = [coordinator.has("a"), coordinator.has("b")].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1], "two members share two partitions out");
}

/// Vector 14, `four_partitions_two_members`.
#[test]
fn fewer_members_have_several_partitions_each_r_share_2() {
    let mut coordinator = Coordinator::with_members(4, &["a"]);
    assert_eq!(coordinator.has("a"), [0, 1, 2, 3]);
    coordinator.hears(&joining("b")).expect("it joins");
    coordinator.settles("a");
    coordinator.settles("b");
    let (a, b) = (coordinator.has("a"), coordinator.has("b"));
    assert_eq!((a.len(), b.len()), (2, 2));
    assert!(a.iter().all(|partition| !b.contains(partition)));
}

#[test]
fn epochs_are_checked_and_a_lost_answer_is_forgiven_r_share_1() {
    let mut coordinator = Coordinator::with_members(1, &["a"]);
    let epoch = coordinator.epoch_of("a");
    assert_eq!(coordinator.hears(&heartbeat("a", epoch + 1)), Err(ErrorCode::FencedMemberEpoch));
    assert!(coordinator.hears(&heartbeat("a", epoch - 1)).is_ok(), "its last answer may be lost");
    assert_eq!(coordinator.hears(&heartbeat("b", 1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(coordinator.hears(&heartbeat("b", -1)), Err(ErrorCode::UnknownMemberId));
    assert_eq!(coordinator.hears(&heartbeat("a", -2)), Err(ErrorCode::InvalidRequest));
    assert_eq!(
        coordinator.hears(&heartbeat("c", 0)),
        Err(ErrorCode::InvalidRequest),
        "it subscribes to nothing"
    );
    coordinator.config.max_size = 1;
    assert_eq!(coordinator.hears(&joining("d")), Err(ErrorCode::GroupMaxSizeReached));
    coordinator.group = None;
    assert_eq!(coordinator.hears(&heartbeat("a", 1)), Err(ErrorCode::GroupIdNotFound));
}

#[test]
fn another_coordinator_knows_the_group_from_its_records_r_share_1() {
    let mut coordinator = Coordinator::with_members(3, &["a", "b"]);
    coordinator.hears(&heartbeat("b", -1)).expect("it leaves");
    coordinator.settles("a");
    let known = coordinator.group.take().expect("there is a group");
    let mut replayed = ShareGroup::new(GroupId::new("g"));
    for record in &coordinator.log {
        let encoded = record.encode(&"g".into());
        let Ok(RecordKey::Share(_, key)) = RecordKey::decode(&encoded.key) else { panic!("another kind") };
        let read = ShareGroupRecord::decode(key, encoded.value.as_deref()).expect("it was written");
        assert_eq!(replayed.replay(&read, coordinator.now), Replayed::Kept);
    }
    assert_eq!(replayed.base.epoch, known.base.epoch);
    assert_eq!(replayed.base.members, known.base.members);
    assert_eq!(replayed.base.target.members, known.base.target.members);
    assert_eq!(replayed.states.initialized, known.states.initialized);
    assert_eq!((replayed.state(), known.state()), (ShareGroupState::Stable, ShareGroupState::Stable));
}

#[test]
fn who_is_not_heard_from_goes_r_share_1() {
    let mut coordinator = Coordinator::with_members(1, &["a"]);
    let deadline = coordinator.now.plus_ms(45_000);
    let group = coordinator.group.as_ref().expect("there is a group");
    assert_eq!(group.sessions.get(&MemberId::new("a")), Some(&deadline));
    let around = Surroundings { now: deadline, image: &coordinator.image, topics_created_at: Offset::ZERO };
    let outcome = group.remove_member(&MemberId::new("a"), &around);
    coordinator.take(outcome);
    let group = coordinator.group.as_ref().expect("it stays, empty");
    assert_eq!(group.state(), ShareGroupState::Empty);
    assert!(group.sessions.is_empty());
}

/// A topic that was made anew is assigned by its new id, even while the states of the old one are still known.
#[test]
fn a_topic_made_anew_is_assigned_once_its_states_have_begun_r_share_1() {
    let mut coordinator = Coordinator::with_members(1, &["a"]);
    assert_eq!(coordinator.has("a"), [0]);
    let anew = TopicId(Uuid::from_u128(2));
    coordinator.image.replay(&MetadataRecord::RemoveTopic { id: ORDERS });
    coordinator.image.replay(&MetadataRecord::Topic { name: Topic::new("orders"), id: anew });
    let replicas = vec![BrokerId(1)];
    let record = PartitionRecord::new((anew, 0), replicas.clone(), replicas, BrokerId(1));
    coordinator.image.replay(&MetadataRecord::Partition(record));
    coordinator.now = coordinator.now.plus_ms(10 * 60_000);
    coordinator.settles("a");
    coordinator.begin_states(true);
    coordinator.settles("a");
    let group = coordinator.group.as_ref().expect("there is a group");
    let assigned = &group.base.members[&MemberId::new("a")].assigned;
    assert_eq!(assigned.iter().copied().collect::<Vec<_>>(), [(anew, 0)]);
}
