pub mod lab;
mod groups;
mod member;
mod offsets;
mod recorded;

use lab::{Lab, connection_of};
use member::Member;

use crate::kafka::protocol::share::{FetchedPartition, ShareFetchResponse};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::types::BrokerId;

const EARLIEST: &[(&str, &str)] = &[("share.auto.offset.reset", "earliest")];

#[track_caller]
fn fetched(response: Option<Response>) -> ShareFetchResponse {
    match response {
        Some(Response::ShareFetch(response)) => response,
        other => panic!("{other:?}"),
    }
}

fn acquired(response: &ShareFetchResponse) -> Vec<(i64, i64, i16)> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let acquired = partitions.flat_map(|partition: &FetchedPartition| &partition.acquired_records);
    acquired.map(|acquired| (acquired.first_offset, acquired.last_offset, acquired.delivery_count)).collect()
}

#[test]
fn a_fetch_waits_until_there_is_something_or_its_time_is_up_r_share_3() {
    let mut lab = Lab::new(EARLIEST);
    let mut member = Member::new("s1");
    let first = lab.send(member.fetch_request(Vec::new()));
    lab.run_for(100);
    assert!(lab.answer(first).is_none());
    lab.produce([3]);
    lab.run_for(0);
    assert_eq!(acquired(&fetched(lab.answer(first))), [(0, 2, 1)]);

    let second = lab.send(member.fetch_request(Vec::new()));
    lab.run_for(199);
    assert!(lab.answer(second).is_none());
    lab.run_for(1);
    assert_eq!(acquired(&fetched(lab.answer(second))), []);
}

/// A fetch that waits is not woken by what came back while the start stays, but finds it when its time is up.
#[test]
fn what_one_member_gives_back_goes_to_another_who_waits_r_share_14() {
    let mut lab = Lab::new(EARLIEST);
    lab.produce([3]);
    let (mut one, mut other) = (Member::new("s1"), Member::new("s2"));
    assert_eq!(one.poll(&mut lab, 0), Ok(vec![(0, 1), (1, 1), (2, 1)]));
    let waiting = lab.send(other.fetch_request(Vec::new()));
    one.close(&mut lab);
    lab.run_for(199);
    assert!(lab.answer(waiting).is_none());
    lab.run_for(1);
    assert_eq!(acquired(&fetched(lab.answer(waiting))), [(0, 2, 2)]);
}

#[test]
fn a_lock_that_ends_wakes_those_who_wait_r_share_7() {
    let mut lab = Lab::new(EARLIEST);
    lab.produce([2]);
    let (mut one, mut other) = (Member::new("s1"), Member::new("s2"));
    one.poll(&mut lab, 0).expect("nothing is held yet");
    lab.run_for(29_900);
    let waiting = lab.send(other.fetch_request(Vec::new()));
    lab.run_for(99);
    assert!(lab.answer(waiting).is_none());
    lab.run_for(1);
    assert_eq!(acquired(&fetched(lab.answer(waiting))), [(0, 1, 2)]);
}

#[test]
fn a_member_whose_connection_is_gone_gives_back_what_it_held_r_share_14() {
    let mut lab = Lab::new(EARLIEST);
    lab.produce([2]);
    Member::new("s1").poll(&mut lab, 0).expect("nothing is held yet");
    lab.disconnect(connection_of(1));
    assert_eq!(lab.broker.shares().partitions().count(), 0, "nobody of the group is left");
    assert_eq!(Member::new("s2").poll(&mut lab, 500), Ok(vec![(0, 2), (1, 2)]));
}

#[test]
fn a_share_coordinator_that_cannot_be_reached_is_asked_again_r_share_3() {
    let mut lab = Lab::new(EARLIEST);
    lab.produce([2]);
    lab.move_states(BrokerId(2));
    let mut member = Member::new("s1");
    assert_eq!(member.poll(&mut lab, 3_000), Ok(vec![]));
    lab.move_states(BrokerId(1));
    assert_eq!(member.poll(&mut lab, 10_000), Ok(vec![(0, 1), (1, 1)]));
}

/// An acknowledgement that cannot be persisted is taken back in the end, and its lock counts again.
#[test]
fn an_acknowledgement_that_cannot_be_persisted_fails_and_is_taken_back_r_share_14() {
    let mut lab = Lab::new(EARLIEST);
    lab.produce([2]);
    let mut member = Member::new("s1");
    member.poll(&mut lab, 0).expect("nothing is held yet");
    lab.move_states(BrokerId(2));
    member.acknowledge(1, &[0, 1]).expect("it holds them");
    assert_eq!(member.commit(&mut lab), Some(ErrorCode::UnknownServerError));
    lab.move_states(BrokerId(1));
    lab.run_for(30_000);
    let mut other = Member::new("s2");
    assert_eq!(other.poll(&mut lab, 10_000), Ok(vec![(0, 2), (1, 2)]));
}

#[test]
fn who_asks_a_broker_that_does_not_lead_is_told_who_does_r_share_14() {
    let mut lab = Lab::new(EARLIEST);
    lab.move_leader(BrokerId(2));
    let request = Member::new("s1").fetch_request(Vec::new());
    let response = fetched(Some(lab.ask(request)));
    let partition = &response.responses[0].partitions[0];
    assert_eq!(ErrorCode::from_code(partition.error_code), ErrorCode::NotLeaderOrFollower);
    assert_eq!(partition.current_leader.leader_id, 2);
    assert_eq!(response.node_endpoints[0].node_id, 2);
}

#[test]
fn requests_that_contradict_themselves_are_refused_r_share_15() {
    let mut lab = Lab::new(EARLIEST);
    let sound = Member::new("s1").fetch_request(Vec::new());
    let mut renews_and_fetches = sound.clone();
    renews_and_fetches.is_renew_ack = true;
    let mut nobody = sound.clone();
    nobody.member_id = None;
    let mut unknown = sound;
    unknown.share_session_epoch = 4;
    for (request, expected) in [
        (renews_and_fetches, ErrorCode::InvalidRequest),
        (nobody, ErrorCode::InvalidRequest),
        (unknown, ErrorCode::ShareSessionNotFound),
    ] {
        let response = fetched(Some(lab.ask(request)));
        assert_eq!(ErrorCode::from_code(response.error_code), expected);
    }
}

/// `isShareGroupProtocolEnabled`
#[test]
fn without_the_feature_there_are_no_share_groups_r_share_15() {
    let mut lab = Lab::new(EARLIEST);
    lab.share_version = 0;
    lab.move_states(BrokerId(1));
    let unsupported = ErrorCode::UnsupportedVersion;
    let response = fetched(Some(lab.ask(Member::new("s1").fetch_request(Vec::new()))));
    assert_eq!(ErrorCode::from_code(response.error_code), unsupported);
    assert_eq!(lab.alter_offsets(2), unsupported);
    assert_eq!(lab.delete_offsets(&["t"]).0, unsupported);
    assert_eq!(ErrorCode::from_code(lab.describe_offsets(None).error_code), unsupported);
}

/// `createIdleShareFetchTimerTask`: it would be asked again at once otherwise.
#[test]
fn whoever_has_no_room_for_a_session_is_told_so_late_r_share_15() {
    let mut lab = Lab::with_broker(&[("group.share.max.share.sessions", "1")]);
    let first = lab.send(Member::new("s1").fetch_request(Vec::new()));
    let second = lab.send(Member::new("s2").fetch_request(Vec::new()));
    lab.run_for(199);
    assert!(lab.answer(first).is_none() && lab.answer(second).is_none());
    lab.run_for(1);
    let response = fetched(lab.answer(second));
    assert_eq!(ErrorCode::from_code(response.error_code), ErrorCode::ShareSessionLimitReached);
}

#[test]
fn a_group_whose_state_has_not_begun_reads_nothing_r_share_3() {
    let mut lab = Lab::new(EARLIEST);
    lab.produce([2]);
    let mut request = Member::new("s1").fetch_request(Vec::new());
    request.group_id = Some("another".into());
    let response = fetched(Some(lab.ask(request)));
    let partition = &response.responses[0].partitions[0];
    assert_eq!(ErrorCode::from_code(partition.error_code), ErrorCode::UnknownServerError);
}
