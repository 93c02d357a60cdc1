//! A share group from its first member to its deletion, with its states at the share coordinator of the same broker.

use kafka_protocol::messages as m;
use kafka_protocol::messages::{
    alter_share_group_offsets_request as alter, read_share_group_state_request as read,
};

use super::lab::{Lab, TOPIC};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::share::ShareKey;
use crate::kafka::types::{BrokerId, GroupId, Offset};

const GROUP: &str = "another";

fn group_id() -> m::GroupId {
    m::GroupId(GROUP.into())
}

fn heartbeat(epoch: i32) -> m::ShareGroupHeartbeatRequest {
    m::ShareGroupHeartbeatRequest::default()
        .with_group_id(group_id())
        .with_member_id("a".into())
        .with_member_epoch(epoch)
}

/// The epoch and the partitions that the member is told.
fn hears(lab: &mut Lab, request: m::ShareGroupHeartbeatRequest) -> (i32, Option<Vec<i32>>) {
    let Response::ShareGroupHeartbeat(response) = lab.ask(request) else { panic!("another answer") };
    assert_eq!(response.error_code, 0);
    let told = response.assignment.map(|assignment| {
        assignment.topic_partitions.into_iter().flat_map(|topic| topic.partitions).collect()
    });
    (response.member_epoch, told)
}

fn join(lab: &mut Lab) -> (i32, Option<Vec<i32>>) {
    hears(lab, heartbeat(0).with_subscribed_topic_names(Some(vec![m::TopicName("t".into())])))
}

/// What a leader of t-0 is told when it reads the group's state.
fn read_error(lab: &mut Lab) -> ErrorCode {
    let partition = read::PartitionData::default().with_partition(0).with_leader_epoch(1);
    let topic = read::ReadStateData::default().with_topic_id(TOPIC.0).with_partitions(vec![partition]);
    let request = m::ReadShareGroupStateRequest::default().with_group_id(GROUP.into());
    match lab.ask(request.with_topics(vec![topic])) {
        Response::ReadShareGroupState(response) => {
            ErrorCode::from_code(response.results[0].partitions[0].error_code)
        }
        other => panic!("{other:?}"),
    }
}

fn delete(lab: &mut Lab) -> ErrorCode {
    match lab.ask(m::DeleteGroupsRequest::default().with_groups_names(vec![group_id()])) {
        Response::DeleteGroups(response) => ErrorCode::from_code(response.results[0].error_code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn states_begin_with_the_first_member_and_end_with_the_group_r_share_1_15() {
    let mut lab = Lab::new(&[]);
    assert_eq!(read_error(&mut lab), ErrorCode::InvalidRequest, "it has not begun");
    assert_eq!(join(&mut lab), (2, Some(vec![])));
    lab.run_for(1100);
    assert_eq!(hears(&mut lab, heartbeat(2)), (3, Some(vec![0])));
    assert_eq!(read_error(&mut lab), ErrorCode::None);
    assert_eq!(delete(&mut lab), ErrorCode::NonEmptyGroup);
    lab.restart();
    assert_eq!(hears(&mut lab, heartbeat(3)), (3, None), "the log has it all");
    assert_eq!(hears(&mut lab, heartbeat(-1)), (-1, None));
    assert_eq!(delete(&mut lab), ErrorCode::None);
    assert_eq!(read_error(&mut lab), ErrorCode::InvalidRequest, "it is gone");
}

/// Five tries, as `PersisterStateManager` has them, with two seconds after the first and twice that after each; then the coordinator asks again with a heartbeat.
#[test]
fn states_that_cannot_be_reached_begin_later_r_share_1() {
    let mut lab = Lab::new(&[]);
    lab.move_states(BrokerId(2));
    assert_eq!(join(&mut lab), (2, Some(vec![])));
    let is_asked = |lab: &Lab| {
        let group = lab.broker.groups().share_group(&GroupId::new(GROUP)).expect("a share group");
        !group.states.initializing.is_empty()
    };
    lab.run_for(20_000);
    assert!(is_asked(&lab));
    lab.run_for(20_000);
    assert!(!is_asked(&lab), "given up");
    lab.move_states(BrokerId(1));
    lab.run_for(100);
    assert_eq!(hears(&mut lab, heartbeat(2)), (2, None));
    lab.run_for(1100);
    assert_eq!(hears(&mut lab, heartbeat(2)), (3, Some(vec![0])));
}

/// `AlterShareGroupOffsets`
#[test]
fn an_administrator_says_where_a_group_starts() {
    let mut lab = Lab::new(&[]);
    let partition = alter::AlterShareGroupOffsetsRequestPartition::default().with_start_offset(2);
    let topic = alter::AlterShareGroupOffsetsRequestTopic::default()
        .with_topic_name(m::TopicName("t".into()))
        .with_partitions(vec![partition]);
    let request = m::AlterShareGroupOffsetsRequest::default().with_group_id(group_id());
    let Response::AlterShareGroupOffsets(response) = lab.ask(request.with_topics(vec![topic])) else {
        panic!("another answer")
    };
    assert_eq!((response.error_code, response.responses[0].partitions[0].error_code), (0, 0));
    let key = ShareKey { group: GroupId::new(GROUP), topic_id: TOPIC, partition: 0 };
    let state = lab.broker.share_states().state(&key).expect("it has begun");
    assert_eq!(state.start_offset, Some(Offset(2)));
    assert_eq!(join(&mut lab), (2, Some(vec![0])), "it need not wait");
}
