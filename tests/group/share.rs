//! Share groups at their coordinator: what waits for the log and for the share coordinators, and what a failover keeps
//! (KIP-932).

use glassbroker::kafka::event::{Event, GroupEvent, MemberRemoval};
use glassbroker::kafka::group::modern::TopicIdPartition;
use glassbroker::kafka::group::modern::share::{ShareGroup, ShareGroupConfig};
use glassbroker::kafka::group::{GroupConfig, GroupTimer, StateAsk, StateWork};
use glassbroker::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord};
use glassbroker::kafka::protocol::{ErrorCode, Response};
use glassbroker::kafka::types::{BrokerId, GroupEpoch, MemberId, Offset, Topic};
use kafka_protocol::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use kafka_protocol::messages::share_group_describe_response::DescribedGroup;
use kafka_protocol::messages::{
    AlterShareGroupOffsetsRequest, DeleteGroupsRequest, ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest as Heartbeat, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::administration::{delete_offsets, list};
use super::cluster::{Cluster, Log, ORDERS_ID, group_id};
use super::consumer;
use super::member::{Member, commit_error};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

pub fn heartbeat(member: &str, epoch: i32) -> Heartbeat {
    Heartbeat::default()
        .with_group_id(group_id().to_wire().into())
        .with_member_id(text(member))
        .with_member_epoch(epoch)
}

fn joining(member: &str) -> Heartbeat {
    heartbeat(member, 0).with_subscribed_topic_names(Some(vec![TopicName(text("orders"))]))
}

/// With assignments at once.
fn cluster() -> Cluster {
    let share = ShareGroupConfig { assignment_interval_ms: 0, ..ShareGroupConfig::DEFAULT };
    Cluster::new(GroupConfig { share, ..GroupConfig::default() })
}

/// A member's epoch and the partitions that it was told, or why not.
pub type Heard = Result<(i32, Option<Vec<i32>>), ErrorCode>;

/// What a heartbeat was told; nothing as long as there is no answer.
fn heard(cluster: &mut Cluster, request: i32) -> Option<Heard> {
    let response = cluster.answer(request)?;
    let Response::ShareGroupHeartbeat(response) = &*response else {
        panic!("{response:?} answers no heartbeat")
    };
    Some(match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => {
            let told = response.assignment.as_ref().map(|assignment| {
                assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect()
            });
            Ok((response.member_epoch, told))
        }
        error => Err(error),
    })
}

pub fn hears(cluster: &mut Cluster, request: Heartbeat) -> Heard {
    let request = cluster.send("client", request);
    heard(cluster, request).expect("an answer")
}

fn group(cluster: &Cluster) -> &ShareGroup {
    cluster.coordinator.share_group(&group_id()).expect("a share group")
}

fn states(partitions: &[i32]) -> Vec<TopicIdPartition> {
    partitions.iter().map(|partition| (ORDERS_ID, *partition)).collect()
}

/// What the share coordinators are asked by now.
fn asked(cluster: &mut Cluster) -> Vec<StateAsk> {
    std::mem::take(&mut cluster.asks)
}

/// The only ask is answered.
#[track_caller]
fn states_are(cluster: &mut Cluster, error: ErrorCode) {
    let asks = asked(cluster);
    assert_eq!(asks.len(), 1);
    cluster.answer_ask(&asks[0], error);
}

/// A cluster whose group has the one member "a", in epoch 3 and with all of "orders".
pub fn one_member() -> Cluster {
    let mut cluster = cluster();
    assert_eq!(hears(&mut cluster, joining("a")), Ok((2, Some(vec![]))));
    states_are(&mut cluster, ErrorCode::None);
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((3, Some(vec![0, 1, 2]))));
    cluster
}

/// A cluster whose group nobody is in, while its states are there.
fn empty() -> Cluster {
    let mut cluster = one_member();
    assert_eq!(hears(&mut cluster, heartbeat("a", -1)), Ok((-1, None)));
    cluster
}

fn described(cluster: &mut Cluster, id: &str) -> DescribedGroup {
    let request = ShareGroupDescribeRequest::default().with_group_ids(vec![text(id).into()]);
    let request = cluster.send("admin", request);
    match &*cluster.answer(request).expect("an answer") {
        Response::ShareGroupDescribe(response) => response.groups[0].clone(),
        other => panic!("{other:?} describes nothing"),
    }
}

fn send_delete(cluster: &mut Cluster, groups: &[&str]) -> i32 {
    let names = groups.iter().map(|id| text(id).into()).collect();
    cluster.send("admin", DeleteGroupsRequest::default().with_groups_names(names))
}

/// What became of each group, once that is told.
fn deleted(cluster: &mut Cluster, request: i32) -> Option<Vec<(String, ErrorCode)>> {
    let response = cluster.answer(request)?;
    let Response::DeleteGroups(response) = &*response else { panic!("{response:?} deletes nothing") };
    let results = response.results.iter();
    Some(
        results
            .map(|result| (result.group_id.to_string(), ErrorCode::from_code(result.error_code)))
            .collect(),
    )
}

fn of_g(error: ErrorCode) -> Option<Vec<(String, ErrorCode)>> {
    Some(vec![("g".to_string(), error)])
}

fn error_of(described: &DescribedGroup) -> ErrorCode {
    ErrorCode::from_code(described.error_code)
}

#[test]
fn states_are_asked_for_once_it_is_safe_that_they_are_to_begin_r_share_1() {
    let mut cluster = cluster();
    cluster.log = Log::Stalls;
    let request = cluster.send("client", joining("a"));
    assert_eq!((heard(&mut cluster, request), asked(&mut cluster)), (None, vec![]));
    assert_eq!(error_of(&described(&mut cluster, "g")), ErrorCode::GroupIdNotFound);
    cluster.log = Log::Commits;
    cluster.catch_up();
    assert_eq!(heard(&mut cluster, request), Some(Ok((2, Some(vec![])))));
    let work = StateWork::Begin { epoch: GroupEpoch(2) };
    let ask =
        StateAsk { partition: cluster.partition(), group: group_id(), states: states(&[0, 1, 2]), work };
    assert_eq!(asked(&mut cluster), std::slice::from_ref(&ask));
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((2, None)), "they have not begun");
    cluster.answer_ask(&ask, ErrorCode::None);
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((3, Some(vec![0, 1, 2]))));
    let group = described(&mut cluster, "g");
    assert_eq!((&*group.group_state, group.group_epoch, group.assignment_epoch), ("Stable", 3, 3));
    assert_eq!((&*group.assignor_name, &*group.members[0].client_id), ("simple", "client"));
    let assigned = &group.members[0].assignment.topic_partitions[0];
    assert_eq!((&**assigned.topic_name, &assigned.partitions), ("orders", &vec![0, 1, 2]));
}

#[test]
fn states_that_cannot_begin_are_asked_for_again_r_share_1() {
    let mut cluster = cluster();
    assert!(hears(&mut cluster, joining("a")).is_ok());
    states_are(&mut cluster, ErrorCode::CoordinatorNotAvailable);
    assert!(group(&cluster).states.initializing.is_empty());
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((2, None)));
    // Nobody answers this time: they are asked for again after half a minute.
    assert_eq!(asked(&mut cluster).len(), 1);
    cluster.sleep(29_999);
    assert!(hears(&mut cluster, heartbeat("a", 2)).is_ok());
    assert_eq!(asked(&mut cluster), []);
    cluster.sleep(1);
    assert!(hears(&mut cluster, heartbeat("a", 2)).is_ok());
    states_are(&mut cluster, ErrorCode::None);
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((3, Some(vec![0, 1, 2]))));
}

/// `performShareGroupStateMetadataInitialize` undoes it where it cannot be written.
#[test]
fn states_whose_beginning_cannot_be_written_begin_anew() {
    let mut cluster = cluster();
    assert!(hears(&mut cluster, joining("a")).is_ok());
    let asks = asked(&mut cluster);
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    cluster.answer_ask(&asks[0], ErrorCode::None);
    assert!(group(&cluster).states.initialized.is_empty());
    assert_eq!(group(&cluster).states.initializing.len(), 1, "that could not be written either");
    cluster.log = Log::Commits;
    cluster.answer_ask(&asks[0], ErrorCode::None);
    assert_eq!(hears(&mut cluster, heartbeat("a", 2)), Ok((3, Some(vec![0, 1, 2]))));
}

#[test]
fn what_cannot_be_written_has_not_happened() {
    let mut cluster = one_member();
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    assert_eq!(hears(&mut cluster, joining("b")), Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!((group(&cluster).base.epoch, group(&cluster).base.members.len()), (GroupEpoch(3), 1));
    cluster.log = Log::Commits;
    assert_eq!(hears(&mut cluster, joining("b")), Ok((4, Some(vec![0]))));
}

#[test]
fn a_new_coordinator_knows_members_targets_and_states_r_share_1() {
    let mut cluster = one_member();
    let facts = |cluster: &Cluster| {
        let group = group(cluster);
        let states = (group.states.initialized.clone(), group.states.deleting.clone());
        (group.base.epoch, group.base.members.clone(), group.base.target.members.clone(), states)
    };
    let before = facts(&cluster);
    cluster.sleep(30_000);
    cluster.fail_over();
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Err(ErrorCode::CoordinatorLoadInProgress));
    cluster.load();
    assert_eq!(facts(&cluster), before);
    assert_eq!(group(&cluster).sessions[&MemberId::new("a")], cluster.now.plus_ms(45_000));
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((3, None)));
    cluster.resign();
    assert!(cluster.timers.is_empty());
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Err(ErrorCode::NotCoordinator));
}

#[test]
fn what_is_loaded_above_the_high_watermark_is_not_described_yet() {
    let mut cluster = one_member();
    let safe = Offset(cluster.records.len() as i64);
    cluster.log = Log::Stalls;
    cluster.send("client", joining("b"));
    cluster.fail_over();
    cluster.load_up_to(safe);
    assert_eq!(group(&cluster).base.members.len(), 2);
    assert_eq!(described(&mut cluster, "g").members.len(), 1);
    cluster.catch_up();
    assert_eq!(described(&mut cluster, "g").members.len(), 2);
}

#[test]
fn who_is_silent_goes_and_the_group_stays_r_share_1() {
    let mut cluster = one_member();
    let own = [("share.session.timeout.ms", "50000"), ("share.heartbeat.interval.ms", "7000")];
    let own = own.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    cluster.image.group_configs.insert(group_id().to_string(), own);
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((3, None)));
    cluster.sleep(49_999);
    assert_eq!(described(&mut cluster, "g").members.len(), 1);
    cluster.sleep(1);
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Err(ErrorCode::UnknownMemberId));
    let gone = |event: &Event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { reason: MemberRemoval::SessionExpired, .. }))
    };
    assert!(cluster.events.iter().any(gone));
    let expiration = GroupTimer::Expiration { partition: cluster.partition() };
    cluster.fire(&expiration);
    assert_eq!(&*described(&mut cluster, "g").group_state, "Empty", "nobody but an administrator deletes it");
}

#[test]
fn a_new_partition_is_assigned_once_its_state_has_begun_r_share_1() {
    let mut cluster = one_member();
    let replicas = vec![BrokerId(1)];
    let record = PartitionRecord::new((ORDERS_ID, 3), replicas.clone(), replicas, BrokerId(1));
    cluster.image.replay(&MetadataRecord::Partition(record));
    cluster.coordinator.on_topics_changed(&[Topic::new("orders")].into(), false, Offset(5));
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((4, None)));
    let asks = asked(&mut cluster);
    assert_eq!((asks.len(), &asks[0].states), (1, &states(&[3])));
    cluster.answer_ask(&asks[0], ErrorCode::None);
    assert_eq!(hears(&mut cluster, heartbeat("a", 4)), Ok((5, Some(vec![0, 1, 2, 3]))));
}

/// `maybeCleanupShareGroupState`
#[test]
fn the_states_of_a_topic_go_with_it() {
    let mut cluster = one_member();
    cluster.delete_topic(ORDERS_ID, "orders");
    assert!(group(&cluster).states.initialized.is_empty());
    cluster.fail_over();
    cluster.load();
    assert!(group(&cluster).states.initialized.is_empty());
    assert_eq!(asked(&mut cluster), [], "share coordinators hear of it by themselves");
}

#[test]
fn its_states_are_deleted_before_a_group_is_r_share_15() {
    let mut cluster = one_member();
    let request = send_delete(&mut cluster, &["g"]);
    assert_eq!(deleted(&mut cluster, request), of_g(ErrorCode::NonEmptyGroup));
    assert!(hears(&mut cluster, heartbeat("a", -1)).is_ok());
    let request = send_delete(&mut cluster, &["g"]);
    assert_eq!(deleted(&mut cluster, request), None);
    let asks = asked(&mut cluster);
    assert_eq!((asks.len(), &asks[0].states), (1, &states(&[0, 1, 2])));
    assert!(matches!(asks[0].work, StateWork::Delete { .. }));
    assert_eq!(group(&cluster).states.deleting.len(), 1);
    cluster.answer_ask(&asks[0], ErrorCode::None);
    assert_eq!(deleted(&mut cluster, request), of_g(ErrorCode::None));
    assert_eq!(error_of(&described(&mut cluster, "g")), ErrorCode::GroupIdNotFound);
    cluster.fail_over();
    cluster.load();
    assert!(cluster.coordinator.share_group(&group_id()).is_none());
    assert_eq!(hears(&mut cluster, joining("a")), Ok((2, Some(vec![]))), "it begins anew");
}

#[test]
fn a_group_whose_states_cannot_be_deleted_stays_and_can_be_tried_again() {
    let mut cluster = empty();
    let request = send_delete(&mut cluster, &["g"]);
    states_are(&mut cluster, ErrorCode::NotCoordinator);
    assert_eq!(deleted(&mut cluster, request), of_g(ErrorCode::NotCoordinator));
    assert_eq!(&*described(&mut cluster, "g").group_state, "Empty");
    let request = send_delete(&mut cluster, &["g"]);
    let asks = asked(&mut cluster);
    assert_eq!(asks[0].states, states(&[0, 1, 2]), "what is being deleted already is asked for again");
    // Another broker takes over meanwhile.
    cluster.resign();
    assert_eq!(deleted(&mut cluster, request), of_g(ErrorCode::NotCoordinator));
}

#[test]
fn a_deletion_that_cannot_be_written_deletes_nothing() {
    let mut cluster = empty();
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    let request = send_delete(&mut cluster, &["g"]);
    assert_eq!(deleted(&mut cluster, request), of_g(ErrorCode::CoordinatorNotAvailable));
    assert_eq!((asked(&mut cluster), group(&cluster).states.initialized.len()), (vec![], 1));
}

/// Each partition with its error, once that is told; without any the error of the request.
fn altered(cluster: &mut Cluster, request: i32) -> Option<Vec<(String, i32, ErrorCode)>> {
    let response = cluster.answer(request)?;
    let Response::AlterShareGroupOffsets(response) = &*response else {
        panic!("{response:?} alters nothing")
    };
    if response.error_code != 0 {
        return Some(vec![(String::new(), -1, ErrorCode::from_code(response.error_code))]);
    }
    let told = response.responses.iter().flat_map(|topic| {
        let name = topic.topic_name.to_string();
        let error = |code| ErrorCode::from_code(code);
        topic.partitions.iter().map(move |p| (name.clone(), p.partition_index, error(p.error_code)))
    });
    Some(told.collect())
}

fn alter(cluster: &mut Cluster, topics: &[(&str, &[(i32, i64)])]) -> i32 {
    let topic = |(name, starts): &(&str, &[(i32, i64)])| {
        let partition = |(partition, start): &(i32, i64)| {
            AlterShareGroupOffsetsRequestPartition::default()
                .with_partition_index(*partition)
                .with_start_offset(*start)
        };
        AlterShareGroupOffsetsRequestTopic::default()
            .with_topic_name(TopicName(text(name)))
            .with_partitions(starts.iter().map(partition).collect())
    };
    let request = AlterShareGroupOffsetsRequest::default()
        .with_group_id(group_id().to_wire().into())
        .with_topics(topics.iter().map(topic).collect());
    cluster.send("admin", request)
}

/// `alterShareGroupOffsets`: the states begin anew where they are told to, and only those that exist.
#[test]
fn a_group_that_nobody_is_in_starts_where_it_is_told() {
    let mut cluster = one_member();
    let request = alter(&mut cluster, &[("orders", &[(0, 2)])]);
    assert_eq!(altered(&mut cluster, request), Some(vec![(String::new(), -1, ErrorCode::NonEmptyGroup)]));
    assert!(hears(&mut cluster, heartbeat("a", -1)).is_ok());
    let request = alter(&mut cluster, &[("orders", &[(0, 2), (7, 1)]), ("lost", &[(0, 1)])]);
    assert_eq!(altered(&mut cluster, request), None);
    let asks = asked(&mut cluster);
    assert_eq!((asks.len(), &asks[0].states), (1, &states(&[0])));
    let StateWork::Alter { starts, .. } = &asks[0].work else { panic!("{asks:?}") };
    assert_eq!(starts[&(ORDERS_ID, 0)], Offset(2));
    cluster.answer_ask(&asks[0], ErrorCode::None);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let told = [("lost", 0, unknown), ("orders", 0, ErrorCode::None), ("orders", 7, unknown)];
    let told = told.map(|(topic, partition, error)| (topic.to_string(), partition, error)).to_vec();
    assert_eq!(altered(&mut cluster, request), Some(told));
    assert!(group(&cluster).states.initializing.is_empty());

    let request = alter(&mut cluster, &[("orders", &[(1, 3)])]);
    states_are(&mut cluster, ErrorCode::FencedStateEpoch);
    let told = vec![("orders".to_string(), 1, ErrorCode::FencedStateEpoch)];
    assert_eq!(altered(&mut cluster, request), Some(told));
}

#[test]
fn offsets_of_a_group_that_is_not_there_make_it_if_the_topic_is() {
    let mut cluster = cluster();
    let request = alter(&mut cluster, &[("lost", &[(0, 1)])]);
    let told = vec![("lost".to_string(), 0, ErrorCode::UnknownTopicOrPartition)];
    assert_eq!(altered(&mut cluster, request), Some(told));
    assert!(cluster.coordinator.share_group(&group_id()).is_none());
    let request = alter(&mut cluster, &[("orders", &[(0, 2), (1, 4), (2, 6)])]);
    // Whoever coordinates the group by then, the states have begun.
    let asks = asked(&mut cluster);
    cluster.fail_over();
    cluster.answer_ask(&asks[0], ErrorCode::None);
    assert_eq!(altered(&mut cluster, request).map(|told| told.len()), Some(3));
    cluster.load();
    assert_eq!(group(&cluster).states.initializing.len(), 1);
    assert_eq!(&*described(&mut cluster, "g").group_state, "Empty");
}

#[test]
fn other_protocols_stay_out_and_it_stays_out_of_theirs_r_share_15() {
    let mut cluster = empty();
    assert_eq!(list(&mut cluster, &[], &["share"]), Ok(vec!["g share Empty share".to_string()]));
    assert_eq!(list(&mut cluster, &[], &["consumer"]), Ok(vec![]));
    let mut classic = Member::new("d");
    assert_eq!(classic.ask_for_id(&mut cluster), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(classic.heartbeat(&mut cluster), ErrorCode::UnknownMemberId);
    assert_eq!(commit_error(&mut cluster, &classic, 0, 1), ErrorCode::GroupIdNotFound);
    assert_eq!(delete_offsets(&mut cluster, "g", &[("orders", 0)]), (ErrorCode::GroupIdNotFound, vec![]));
    assert_eq!(consumer::hears(&mut cluster, consumer::joining("c")), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(consumer::described(&mut cluster).0, ErrorCode::GroupIdNotFound);
    assert_eq!(group(&cluster).base.members.len(), 0);

    let mut cluster = self::cluster();
    assert!(consumer::hears(&mut cluster, consumer::joining("c")).is_ok());
    assert_eq!(hears(&mut cluster, joining("a")), Err(ErrorCode::GroupIdNotFound));
    let refused = described(&mut cluster, "g");
    assert_eq!(error_of(&refused), ErrorCode::GroupIdNotFound);
    assert_eq!(refused.error_message.as_deref(), Some("Group g is not a share group."));
    assert_eq!(error_of(&described(&mut cluster, "")), ErrorCode::InvalidGroupId);
}
