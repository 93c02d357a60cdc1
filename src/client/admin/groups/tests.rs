//! What an errand asks next, and what it makes of answers.

use kafka_protocol::messages as m;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};

use kafka_protocol::protocol::StrBytes;

use super::*;
use crate::client::config::CommonConfig;
use crate::kafka::protocol::share::{
    DescribeShareGroupOffsetsResponse, OffsetsGroup, OffsetsPartition, OffsetsTopic,
};
use crate::kafka::protocol::{ApiKey, Response};
use crate::kafka::random::Random;

const COORDINATOR: BrokerId = BrokerId(1);

/// An errand with metadata that is newer than its start.
fn errand(operation: GroupOperation) -> (Errand, Metadata) {
    let random = Random::stream(1, "metadata");
    let mut metadata = Metadata::new(&[COORDINATOR], CommonConfig::default(), false, random);
    let mut errand = Errand::new(operation, Time::ZERO, &metadata);
    assert!(matches!(errand.next(&metadata), Next::Metadata), "what it was started with is old");
    let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
    metadata
        .on_response(Time::ZERO, &m::MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]));
    (errand, metadata)
}

fn asked(next: Next) -> (To, ApiKey) {
    match next {
        Next::Ask(to, request) => (to, request.api()),
        other => panic!("{other:?}"),
    }
}

fn group() -> GroupId {
    GroupId::new("g")
}

fn newer(error: ErrorCode, state: &'static str) -> Response {
    let group = m::consumer_group_describe_response::DescribedGroup::default()
        .with_group_state(state.into())
        .with_error_code(error.code());
    m::ConsumerGroupDescribeResponse::default().with_groups(vec![group]).into()
}

fn classic(error: ErrorCode, state: &'static str) -> Response {
    let group = m::describe_groups_response::DescribedGroup::default()
        .with_group_state(state.into())
        .with_error_code(error.code());
    m::DescribeGroupsResponse::default().with_groups(vec![group]).into()
}

#[test]
fn a_group_is_taken_for_one_of_the_newer_protocol_first() {
    let (mut errand, metadata) = errand(GroupOperation::Describe(group()));
    let coordinator = || To::Coordinator(group());
    assert_eq!(asked(errand.next(&metadata)), (coordinator(), ApiKey::ConsumerGroupDescribe));
    assert_eq!(errand.hear(COORDINATOR, &newer(ErrorCode::GroupIdNotFound, "")), Heard::Taken);
    assert_eq!(asked(errand.next(&metadata)), (coordinator(), ApiKey::DescribeGroups));
    assert_eq!(errand.hear(COORDINATOR, &classic(ErrorCode::None, "Stable")), Heard::Taken);
    let Next::Done(Some(event)) = errand.next(&metadata) else { panic!("it is done") };
    assert!(
        matches!(*event, Event::GroupsTold { told: GroupsTold::Group(described) } if described.epochs.is_none())
    );
}

fn shared(error: ErrorCode, state: &'static str) -> Response {
    let group = m::share_group_describe_response::DescribedGroup::default()
        .with_group_state(state.into())
        .with_error_code(error.code());
    m::ShareGroupDescribeResponse::default().with_groups(vec![group]).into()
}

/// An errand whose group turned out to be a share group in this state.
fn share_errand(operation: GroupOperation, state: &'static str) -> (Errand, Metadata) {
    let (mut errand, metadata) = errand(operation);
    errand.next(&metadata);
    errand.hear(COORDINATOR, &newer(ErrorCode::GroupIdNotFound, ""));
    errand.next(&metadata);
    errand.hear(COORDINATOR, &classic(ErrorCode::GroupIdNotFound, "Dead"));
    assert_eq!(asked(errand.next(&metadata)), (To::Coordinator(group()), ApiKey::ShareGroupDescribe));
    assert_eq!(errand.hear(COORDINATOR, &shared(ErrorCode::None, state)), Heard::Taken);
    (errand, metadata)
}

/// Of orders-0 and orders-1, which nobody has read.
fn share_offsets() -> Response {
    let partition = |partition_index, start_offset, lag| OffsetsPartition {
        partition_index,
        start_offset,
        lag,
        ..OffsetsPartition::default()
    };
    let partitions = vec![partition(0, 4, 3), partition(1, -1, -1)];
    let topic = OffsetsTopic { topic_name: "orders".into(), partitions, ..OffsetsTopic::default() };
    let group = OffsetsGroup { topics: vec![topic], ..OffsetsGroup::default() };
    DescribeShareGroupOffsetsResponse { throttle_time_ms: 0, groups: vec![group] }.into()
}

#[test]
fn a_share_group_is_asked_for_its_starts_and_its_lag_r_share_3() {
    let (mut errand, metadata) = share_errand(GroupOperation::DescribeOffsets(group()), "Stable");
    assert_eq!(asked(errand.next(&metadata)), (To::Coordinator(group()), ApiKey::DescribeShareGroupOffsets));
    assert_eq!(errand.hear(COORDINATOR, &share_offsets()), Heard::Taken);
    let Next::Done(Some(event)) = errand.next(&metadata) else { panic!("it is done") };
    let position = |partition, start: Option<i64>, lag| SharePosition {
        tp: TopicPartition::new(&"orders".into(), partition),
        start: start.map(Offset),
        lag,
    };
    let positions = vec![position(0, Some(4), Some(3)), position(1, None, None)];
    assert_eq!(*event, Event::GroupsTold { told: GroupsTold::ShareOffsets { group: group(), positions } });
}

#[test]
fn a_group_that_is_of_no_kind_does_not_exist() {
    let (mut errand, metadata) = share_errand(GroupOperation::Describe(group()), "Empty");
    assert!(matches!(errand.next(&metadata), Next::Done(Some(_))));
    errand.hear(COORDINATOR, &shared(ErrorCode::GroupIdNotFound, ""));
    assert!(matches!(errand.next(&metadata), Next::Refused(ErrorCode::GroupIdNotFound, _)));
}

#[test]
fn a_share_group_forgets_whole_topics_r_share_15() {
    let not_found = || {
        let error = ErrorCode::GroupIdNotFound.code();
        m::OffsetDeleteResponse::default().with_error_code(error).into()
    };
    let partition = Scope::Partitions("orders".into(), [0].into());
    let (mut errand, metadata) = errand(GroupOperation::DeleteOffsets { group: group(), scope: partition });
    assert_eq!(asked(errand.next(&metadata)), (To::Coordinator(group()), ApiKey::OffsetDelete));
    assert_eq!(errand.hear(COORDINATOR, &not_found()), Heard::Taken);
    assert!(matches!(errand.next(&metadata), Next::Refused(ErrorCode::InvalidRequest, _)));

    errand.operation = GroupOperation::DeleteOffsets { group: group(), scope: Scope::AllTopics };
    errand.committed = Some(BTreeMap::new());
    assert_eq!(asked(errand.next(&metadata)), (To::Coordinator(group()), ApiKey::DescribeShareGroupOffsets));
    errand.hear(COORDINATOR, &share_offsets());
    let Next::Ask(_, request) = errand.next(&metadata) else { panic!("it asks") };
    let Request::DeleteShareGroupOffsets(request) = *request else { panic!("another request") };
    assert_eq!(request.topics.iter().map(|topic| &**topic.topic_name).collect::<Vec<_>>(), ["orders"]);
    let topic = m::delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic::default();
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let refused = topic.with_topic_name(m::TopicName("orders".into())).with_error_code(unknown.code());
    let answer = m::DeleteShareGroupOffsetsResponse::default().with_responses(vec![refused]);
    let why = "orders: UNKNOWN_TOPIC_OR_PARTITION".to_owned();
    assert_eq!(errand.hear(COORDINATOR, &answer.into()), Heard::Refused(unknown, why));
}

#[test]
fn a_share_group_is_reset_to_a_place_that_its_tool_knows_r_share_15() {
    let reset = |target| {
        let goal = Goal::All(Scope::AllTopics, target);
        GroupOperation::Reset(Reset { group: group(), goal, executes: true })
    };
    let (mut errand, metadata) = share_errand(reset(Target::Earliest), "Stable");
    assert!(matches!(errand.next(&metadata), Next::Refused(ErrorCode::NonEmptyGroup, _)));
    for target in [Target::Current, Target::Offset(3), Target::Shift(-1)] {
        let (mut errand, metadata) = share_errand(reset(target), "Empty");
        assert!(matches!(errand.next(&metadata), Next::Refused(ErrorCode::InvalidRequest, _)), "{target:?}");
    }

    let (mut errand, mut metadata) = share_errand(reset(Target::Earliest), "Empty");
    assert_eq!(asked(errand.next(&metadata)), (To::Coordinator(group()), ApiKey::DescribeShareGroupOffsets));
    errand.hear(COORDINATOR, &share_offsets());
    metadata.want(errand.topics());
    metadata.on_response(Time::ZERO, &orders());
    errand.marks = (0..2)
        .map(|number| ((Mark::Start, TopicPartition::new(&"orders".into(), number)), Offset(2)))
        .collect();
    let Next::Ask(_, request) = errand.next(&metadata) else { panic!("it asks") };
    let Request::AlterShareGroupOffsets(request) = *request else { panic!("another request") };
    let starts: Vec<(i32, i64)> = request.topics[0]
        .partitions
        .iter()
        .map(|partition| (partition.partition_index, partition.start_offset))
        .collect();
    assert_eq!(starts, [(0, 2), (1, 2)]);
    assert_eq!(errand.hear(COORDINATOR, &m::AlterShareGroupOffsetsResponse::default().into()), Heard::Taken);
    let Next::Done(Some(event)) = errand.next(&metadata) else { panic!("it is done") };
    assert!(matches!(
        *event,
        Event::GroupsTold { told: GroupsTold::Reset { is_shared: true, executed: true, .. } }
    ));
}

/// Metadata of orders with two partitions that broker 1 leads.
fn orders() -> m::MetadataResponse {
    let partition = |number| {
        MetadataResponsePartition::default()
            .with_partition_index(number)
            .with_leader_id(COORDINATOR.0.into())
            .with_leader_epoch(1)
    };
    let topic = MetadataResponseTopic::default()
        .with_name(Some(m::TopicName("orders".into())))
        .with_partitions((0..2).map(partition).collect());
    let broker = MetadataResponseBroker::default().with_node_id(COORDINATOR.0.into());
    m::MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic])
}

#[test]
fn an_errand_waits_for_its_coordinator_or_looks_for_another_r_grp_3() {
    let check = |error, heard| {
        let (mut errand, metadata) = errand(GroupOperation::Describe(group()));
        errand.next(&metadata);
        assert_eq!(errand.hear(COORDINATOR, &newer(error, "")), heard, "{error}");
    };
    check(ErrorCode::CoordinatorLoadInProgress, Heard::Again);
    check(ErrorCode::NotCoordinator, Heard::Elsewhere);
    check(ErrorCode::CoordinatorNotAvailable, Heard::Elsewhere);
    let denied = ErrorCode::GroupAuthorizationFailed;
    check(denied, Heard::Refused(denied, "GROUP_AUTHORIZATION_FAILED".to_owned()));
}

#[test]
fn members_of_either_protocol_keep_offsets_from_being_reset_r_cli_12() {
    let reset = || {
        let goal = Goal::All(Scope::AllTopics, Target::Earliest);
        errand(GroupOperation::Reset(Reset { group: group(), goal, executes: true }))
    };
    let refused = |next: Next| matches!(next, Next::Refused(ErrorCode::NonEmptyGroup, _));
    for state in ["Assigning", "Reconciling", "Stable"] {
        let (mut errand, metadata) = reset();
        errand.next(&metadata);
        errand.hear(COORDINATOR, &newer(ErrorCode::None, state));
        assert!(refused(errand.next(&metadata)), "{state}");
    }
    for state in ["PreparingRebalance", "CompletingRebalance", "Stable"] {
        let (mut errand, metadata) = reset();
        errand.next(&metadata);
        errand.hear(COORDINATOR, &newer(ErrorCode::GroupIdNotFound, ""));
        errand.next(&metadata);
        errand.hear(COORDINATOR, &classic(ErrorCode::None, state));
        assert!(refused(errand.next(&metadata)), "{state}");
    }
}

#[test]
fn every_broker_is_asked_for_its_groups_until_it_answers_r_cli_4() {
    let (mut errand, metadata) = errand(GroupOperation::List(ListFilter::default()));
    let answer = |error: ErrorCode| m::ListGroupsResponse::default().with_error_code(error.code()).into();
    for broker in [BrokerId(1), BrokerId(2)] {
        assert_eq!(asked(errand.next(&metadata)), (To::Broker(broker), ApiKey::ListGroups));
        assert_eq!(errand.hear(broker, &answer(ErrorCode::CoordinatorLoadInProgress)), Heard::Again);
        assert_eq!(asked(errand.next(&metadata)), (To::Broker(broker), ApiKey::ListGroups));
        assert_eq!(errand.hear(broker, &answer(ErrorCode::None)), Heard::Taken);
    }
    assert!(matches!(errand.next(&metadata), Next::Done(Some(_))));
}

#[test]
fn brokers_are_told_which_kinds_and_states_are_wanted_r_cli_4() {
    let filter = ListFilter { types: vec!["consumer"], states: vec!["Empty", "Stable"] };
    let (mut errand, metadata) = errand(GroupOperation::List(filter));
    let Next::Ask(_, request) = errand.next(&metadata) else { panic!("it asks") };
    let Request::ListGroups(list) = &*request else { panic!("{request:?}") };
    let names = |names: &[StrBytes]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&list.types_filter), ["consumer"]);
    assert_eq!(names(&list.states_filter), ["Empty", "Stable"]);
}
