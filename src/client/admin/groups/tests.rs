//! What an errand asks next, and what it makes of answers.

use kafka_protocol::messages as m;
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;

use super::*;
use crate::client::config::CommonConfig;
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
    let (mut errand, metadata) = errand(GroupOperation::List);
    let answer = |error: ErrorCode| m::ListGroupsResponse::default().with_error_code(error.code()).into();
    for broker in [BrokerId(1), BrokerId(2)] {
        assert_eq!(asked(errand.next(&metadata)), (To::Broker(broker), ApiKey::ListGroups));
        assert_eq!(errand.hear(broker, &answer(ErrorCode::CoordinatorLoadInProgress)), Heard::Again);
        assert_eq!(asked(errand.next(&metadata)), (To::Broker(broker), ApiKey::ListGroups));
        assert_eq!(errand.hear(broker, &answer(ErrorCode::None)), Heard::Taken);
    }
    assert!(matches!(errand.next(&metadata), Next::Done(Some(_))));
}
