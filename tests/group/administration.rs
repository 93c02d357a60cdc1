//! What administrators ask of a coordinator: which groups there are, who is in one, deleting one, forgetting offsets.

use glassbroker::kafka::event::{Event, GroupEvent, GroupState};
use glassbroker::kafka::protocol::{ErrorCode, Request, Response};
use glassbroker::kafka::types::{ClientName, Offset};
use kafka_protocol::messages as m;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Cluster, Log, group_id, orders};
use super::member::{Member, commit, commit_error, committed, fetch_all, fetched, quick, stable};

fn wire(name: &str) -> m::GroupId {
    m::GroupId(StrBytes::from_string(name.to_owned()))
}

fn ask<T>(
    cluster: &mut Cluster,
    request: impl Into<Request>,
    body: impl Fn(&Response) -> Option<&T>,
) -> Option<T>
where
    T: Clone,
{
    let request = cluster.send("admin", request);
    let answer = cluster.answer(request)?;
    Some(body(&answer).expect("the answer to what was asked").clone())
}

/// Each group as `id protocol-type state type`.
pub fn list(cluster: &mut Cluster, states: &[&str], types: &[&str]) -> Result<Vec<String>, ErrorCode> {
    let names = |names: &[&str]| names.iter().map(|name| StrBytes::from_string(name.to_string())).collect();
    let request =
        m::ListGroupsRequest::default().with_states_filter(names(states)).with_types_filter(names(types));
    let body = |response: &Response| match response {
        Response::ListGroups(body) => Some(body.clone()),
        _ => None,
    };
    let request = cluster.send("admin", request);
    let body = cluster.answer(request).as_deref().and_then(body).expect("ListGroups is answered");
    let told = body.groups.iter().map(|group| {
        format!("{} {} {} {}", &*group.group_id, group.protocol_type, group.group_state, group.group_type)
    });
    if body.error_code == 0 { Ok(told.collect()) } else { Err(ErrorCode::from_code(body.error_code)) }
}

fn describe(cluster: &mut Cluster, group: &str) -> DescribedGroup {
    let request = m::DescribeGroupsRequest::default().with_groups(vec![wire(group)]);
    let body = ask(cluster, request, |response| match response {
        Response::DescribeGroups(body) => Some(body),
        _ => None,
    });
    body.expect("DescribeGroups is answered").groups.remove(0)
}

/// Each group's result, once they are told.
fn delete(cluster: &mut Cluster, groups: &[&str]) -> Option<Vec<(String, ErrorCode)>> {
    let request =
        m::DeleteGroupsRequest::default().with_groups_names(groups.iter().map(|id| wire(id)).collect());
    let body = ask(cluster, request, |response| match response {
        Response::DeleteGroups(body) => Some(body),
        _ => None,
    })?;
    let result = |result: &m::delete_groups_response::DeletableGroupResult| {
        (result.group_id.to_string(), ErrorCode::from_code(result.error_code))
    };
    Some(body.results.iter().map(result).collect())
}

/// The error as a whole, and that of each partition.
pub fn delete_offsets(
    cluster: &mut Cluster,
    group: &str,
    topics: &[(&str, i32)],
) -> (ErrorCode, Vec<(String, i32, ErrorCode)>) {
    let topic = |(name, partition): &(&str, i32)| {
        OffsetDeleteRequestTopic::default()
            .with_name(m::TopicName(StrBytes::from_string(name.to_string())))
            .with_partitions(vec![OffsetDeleteRequestPartition::default().with_partition_index(*partition)])
    };
    let request = m::OffsetDeleteRequest::default()
        .with_group_id(wire(group))
        .with_topics(topics.iter().map(topic).collect());
    let body = ask(cluster, request, |response| match response {
        Response::OffsetDelete(body) => Some(body),
        _ => None,
    });
    let body = body.expect("OffsetDelete is answered");
    let results = body.topics.iter().flat_map(|topic| {
        let result = |partition: &m::offset_delete_response::OffsetDeleteResponsePartition| {
            (topic.name.to_string(), partition.partition_index, ErrorCode::from_code(partition.error_code))
        };
        topic.partitions.iter().map(result)
    });
    (ErrorCode::from_code(body.error_code), results.collect())
}

/// A stable group of one who reads `topic`.
fn reader_of(topic: &str) -> (Cluster, Member) {
    let mut cluster = quick();
    let mut member = Member::new("a");
    member.subscribe(&[topic]);
    member.join(&mut cluster);
    cluster.sleep(1);
    assert_eq!(member.joined(&mut cluster), ErrorCode::None);
    member.sync(&mut cluster, &[(member.id.clone(), 0)]);
    assert_eq!(member.synced(&mut cluster), ErrorCode::None);
    (cluster, member)
}

fn empty(members: &mut [Member], cluster: &mut Cluster) {
    members.iter_mut().for_each(|member| member.leave(cluster));
    assert_eq!(cluster.group().expect("a group").state, GroupState::Empty);
}

#[test]
fn groups_are_listed_with_state_and_type_and_filtered_by_both_without_regard_to_case() {
    let (mut cluster, mut members) = stable(&["a"]);
    let stable_one = Ok(vec!["g consumer Stable classic".to_owned()]);
    assert_eq!(list(&mut cluster, &[], &[]), stable_one);
    assert_eq!(list(&mut cluster, &["stable", "Dead"], &["CLASSIC"]), stable_one);
    assert_eq!(list(&mut cluster, &[" Stable "], &[]), stable_one);
    assert_eq!(list(&mut cluster, &["Empty"], &[]), Ok(vec![]));
    assert_eq!(list(&mut cluster, &[], &["consumer"]), Ok(vec![]));
    assert_eq!(list(&mut cluster, &[], &["nonsense"]), Ok(vec![]));
    empty(&mut members, &mut cluster);
    assert_eq!(list(&mut cluster, &["empty"], &[]), Ok(vec!["g consumer Empty classic".to_owned()]));
    cluster.fail_over();
    assert_eq!(list(&mut cluster, &[], &[]), Err(ErrorCode::CoordinatorLoadInProgress));
    cluster.load();
    assert_eq!(list(&mut cluster, &[], &[]), Ok(vec!["g consumer Empty classic".to_owned()]));
    cluster.resign();
    assert_eq!(list(&mut cluster, &[], &[]), Ok(vec![]), "another broker tells of it");
}

#[test]
fn a_group_is_told_of_while_safe_records_say_that_it_is_there() {
    let mut cluster = quick();
    cluster.log = Log::Stalls;
    commit(&mut cluster, &Member::new("admin"), 0, 5);
    assert_eq!(list(&mut cluster, &[], &[]), Ok(vec![]));
    assert_eq!(describe(&mut cluster, "g").error_code, ErrorCode::GroupIdNotFound.code());
    cluster.catch_up();
    assert_eq!(list(&mut cluster, &[], &[]), Ok(vec!["g  Empty classic".to_owned()]), "a simple group");
    let safe = Offset(cluster.records.len() as i64);
    assert_eq!(delete(&mut cluster, &["g"]), None, "the tombstones are not safe yet");
    assert_eq!(list(&mut cluster, &[], &[]).map(|groups| groups.len()), Ok(1));
    cluster.fail_over();
    cluster.load_up_to(safe);
    assert_eq!(describe(&mut cluster, "g").error_code, 0, "nor for a new coordinator");
    cluster.catch_up();
    assert_eq!(describe(&mut cluster, "g").error_code, ErrorCode::GroupIdNotFound.code());
}

#[test]
fn only_a_stable_group_tells_what_its_members_subscribe_to_and_own() {
    let (mut cluster, members) = stable(&["a", "b"]);
    let told = describe(&mut cluster, "g");
    assert_eq!((told.error_code, &*told.group_state, &*told.protocol_type), (0, "Stable", "consumer"));
    assert_eq!(&*told.protocol_data, "range");
    let named = |told: &DescribedGroup| -> Vec<(String, String, String)> {
        let text = StrBytes::to_string;
        let members = told.members.iter();
        members.map(|m| (text(&m.member_id), text(&m.client_id), text(&m.client_host))).collect()
    };
    let mut expected: Vec<_> =
        members.iter().map(|m| (m.id.clone(), m.name.to_owned(), "/127.0.0.1".to_owned())).collect();
    expected.sort();
    assert_eq!(named(&told), expected);
    assert!(told.members.iter().all(|member| !member.member_assignment.is_empty()));
    let mut c = Member::new("c");
    c.join(&mut cluster);
    let told = describe(&mut cluster, "g");
    assert_eq!((&*told.group_state, &*told.protocol_data), ("PreparingRebalance", ""));
    assert_eq!(told.members.len(), 3);
    assert!(told.members.iter().all(|m| m.member_metadata.is_empty() && m.member_assignment.is_empty()));
}

#[test]
fn a_group_that_nobody_knows_is_dead_and_not_found() {
    let (mut cluster, _) = stable(&["a"]);
    let request = |group: &str, cluster: &mut Cluster| {
        let told = describe(cluster, group);
        (
            ErrorCode::from_code(told.error_code),
            told.group_state.to_string(),
            told.error_message.map(|m| m.to_string()),
        )
    };
    // Of another partition of __consumer_offsets, and of this one.
    assert_eq!(request("h", &mut cluster), (ErrorCode::NotCoordinator, String::new(), None));
    cluster.resign();
    cluster.elect(3);
    assert_eq!(request("g", &mut cluster).0, ErrorCode::CoordinatorLoadInProgress);
    cluster.records.clear();
    cluster.load();
    let not_found = (ErrorCode::GroupIdNotFound, "Dead".to_owned(), Some("Group g not found.".to_owned()));
    assert_eq!(request("g", &mut cluster), not_found);
}

#[test]
fn an_empty_group_is_deleted_with_its_offsets_and_stays_deleted_r_grp_41() {
    let (mut cluster, mut members) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    let refused = |error| Some(vec![("g".to_owned(), error)]);
    assert_eq!(delete(&mut cluster, &["g"]), refused(ErrorCode::NonEmptyGroup));
    empty(&mut members, &mut cluster);
    assert_eq!(
        delete(&mut cluster, &["h", "g", "g"]),
        Some(vec![("g".to_owned(), ErrorCode::None), ("h".to_owned(), ErrorCode::NotCoordinator)])
    );
    assert_eq!(committed(&cluster, 0), None);
    assert!(cluster.group().is_none());
    assert_eq!(delete(&mut cluster, &["g"]), refused(ErrorCode::GroupIdNotFound));
    cluster.fail_over();
    cluster.load();
    assert!(cluster.group().is_none());
    let request = fetch_all(&mut cluster);
    assert_eq!(fetched(&mut cluster, request), Some(vec![]));
    assert_eq!(delete(&mut cluster, &[]), Some(vec![]));
}

#[test]
fn a_group_whose_tombstones_are_refused_is_there_as_before_r_grp_3_r_grp_41() {
    let (mut cluster, mut members) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    empty(&mut members, &mut cluster);
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    let refused = Some(vec![("g".to_owned(), ErrorCode::CoordinatorNotAvailable)]);
    assert_eq!(delete(&mut cluster, &["g"]), refused);
    let offsets = delete_offsets(&mut cluster, "g", &[("orders", 0)]);
    assert_eq!(offsets, (ErrorCode::CoordinatorNotAvailable, vec![]));
    cluster.log = Log::Commits;
    assert_eq!(describe(&mut cluster, "g").error_code, 0);
    let request = fetch_all(&mut cluster);
    assert_eq!(fetched(&mut cluster, request), Some(vec![(0, 10)]));
}

#[test]
fn offsets_of_what_nobody_subscribes_to_are_forgotten_one_by_one_r_grp_41() {
    let (mut cluster, a) = reader_of("payments");
    assert_eq!(commit_error(&mut cluster, &a, 0, 10), ErrorCode::None);
    assert_eq!(commit_error(&mut cluster, &a, 1, 20), ErrorCode::None);
    cluster.events.clear();
    let answer =
        delete_offsets(&mut cluster, "g", &[("orders", 0), ("orders", 2), ("orders", 9), ("nowhere", 0)]);
    let result = |topic: &str, partition, error| (topic.to_owned(), partition, error);
    let expected = vec![
        result("orders", 9, ErrorCode::UnknownTopicOrPartition),
        result("orders", 0, ErrorCode::None),
        result("orders", 2, ErrorCode::None),
        result("nowhere", 0, ErrorCode::UnknownTopicOrPartition),
    ];
    assert_eq!(answer, (ErrorCode::None, expected));
    assert_eq!((committed(&cluster, 0), committed(&cluster, 1)), (None, Some(20)));
    let told = Event::Group(GroupEvent::OffsetDeleted {
        group: group_id(),
        tp: orders(0),
        client: ClientName::new("admin"),
    });
    assert_eq!(cluster.events, [told], "where there was none, there is nothing to tell");
    cluster.fail_over();
    cluster.load();
    assert_eq!((committed(&cluster, 0), committed(&cluster, 1)), (None, Some(20)));
    assert_eq!(delete_offsets(&mut cluster, "", &[]).0, ErrorCode::InvalidGroupId);
    cluster.records.clear();
    cluster.fail_over();
    cluster.load();
    assert_eq!(delete_offsets(&mut cluster, "g", &[("orders", 0)]), (ErrorCode::GroupIdNotFound, vec![]));
}

#[test]
fn offsets_of_a_topic_that_a_member_subscribes_to_are_not_forgotten_r_grp_41() {
    let (mut cluster, mut a) = reader_of("orders");
    let refused = (ErrorCode::None, vec![("orders".to_owned(), 0, ErrorCode::GroupSubscribedToTopic)]);
    assert_eq!(commit_error(&mut cluster, &a, 0, 10), ErrorCode::None);
    assert_eq!(delete_offsets(&mut cluster, "g", &[("orders", 0)]), refused);
    assert_eq!(committed(&cluster, 0), Some(10));
    a.leave(&mut cluster);
    let done = (ErrorCode::None, vec![("orders".to_owned(), 0, ErrorCode::None)]);
    assert_eq!(delete_offsets(&mut cluster, "g", &[("orders", 0)]), done);
    assert_eq!(committed(&cluster, 0), None);
}

#[test]
fn while_it_is_not_known_what_consumers_read_no_offset_is_forgotten_r_grp_41() {
    let (mut cluster, a) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &a[0], 0, 10), ErrorCode::None);
    let refused = (ErrorCode::None, vec![("orders".to_owned(), 0, ErrorCode::GroupSubscribedToTopic)]);
    assert_eq!(
        delete_offsets(&mut cluster, "g", &[("orders", 0)]),
        refused,
        "its subscription is no subscription"
    );
}
