//! Members with group.protocol=consumer: R-CG8-4, R-CG8-17 to R-CG8-21.

use m::consumer_group_heartbeat_request::TopicPartitions as Owned;
use m::consumer_group_heartbeat_response::{Assignment, TopicPartitions};

use super::*;
use crate::client::member::Phase;

const MODERN: (&str, &str) = ("group.protocol", "consumer");
/// Commits before partitions are given up, and at no other time.
pub(super) const RARELY: (&str, &str) = ("auto.commit.interval.ms", "600000");
const BEAT: ApiKey = ApiKey::ConsumerGroupHeartbeat;

/// The coordinator says that the member is in `epoch` and, if anything, that it is to own these.
pub(super) fn in_epoch(epoch: i32, partitions: Option<&[i32]>) -> m::ConsumerGroupHeartbeatResponse {
    let topic = |partitions: &[i32]| {
        TopicPartitions::default().with_topic_id(TOPIC_ID).with_partitions(partitions.to_vec())
    };
    let assignment = partitions.map(|p| Assignment::default().with_topic_partitions(vec![topic(p)]));
    m::ConsumerGroupHeartbeatResponse::default()
        .with_member_epoch(epoch)
        .with_heartbeat_interval_ms(5_000)
        .with_assignment(assignment)
}

fn refused(error: ErrorCode) -> m::ConsumerGroupHeartbeatResponse {
    m::ConsumerGroupHeartbeatResponse::default().with_error_code(error.code())
}

/// The heartbeat that is not answered.
#[track_caller]
pub(super) fn beat(rig: &Rig) -> m::ConsumerGroupHeartbeatRequest {
    let Request::ConsumerGroupHeartbeat(beat) = &*rig.pending(BEAT).request else { unreachable!() };
    beat.clone()
}

#[track_caller]
pub(super) fn answer(rig: &mut Rig, response: m::ConsumerGroupHeartbeatResponse) {
    let pending = rig.pending(BEAT);
    rig.answer(&pending, response);
    rig.settle();
}

/// In epoch 2 it owns `partitions` of two and has told so; its next heartbeat is due in five seconds.
pub(super) fn member(program: &[&str], config: &[(&str, &str)], partitions: &[i32]) -> Rig {
    member_reading_from([1, 1], program, config, partitions)
}

pub(super) fn member_reading_from(
    leaders: [i32; 2],
    program: &[&str],
    config: &[(&str, &str)],
    partitions: &[i32],
) -> Rig {
    let mut rig = Rig::new(program, &[&[MODERN], config].concat());
    rig.leaders = leaders.to_vec();
    rig.committed.extend([(0, 0), (1, 0)]);
    rig.held.insert(BEAT);
    rig.start();
    answer(&mut rig, in_epoch(2, Some(partitions)));
    answer(&mut rig, in_epoch(2, None));
    rig.events.clear();
    rig
}

fn phase(rig: &Rig) -> Phase {
    rig.consumer.membership().modern.as_ref().unwrap().phase
}

fn owned(partitions: &[i32]) -> Vec<Owned> {
    vec![Owned::default().with_topic_id(TOPIC_ID).with_partitions(partitions.to_vec())]
}

#[test]
fn a_member_says_everything_first_and_its_share_when_it_has_it_r_cg8_4() {
    let config = [MODERN, ("client.rack", "r1"), ("group.remote.assignor", "range")];
    let mut rig = Rig::new(&["poll 60s"], &config);
    rig.held.insert(BEAT);
    rig.start();
    let first = beat(&rig);
    assert_eq!((first.member_epoch, first.member_id.len()), (0, 22));
    assert_eq!(first.rebalance_timeout_ms, 300_000);
    assert_eq!(first.subscribed_topic_names.as_ref().map(|names| names[0].as_str()), Some("t"));
    assert_eq!((first.rack_id.as_deref(), first.server_assignor.as_deref()), (Some("r1"), Some("range")));
    assert_eq!(first.topic_partitions, Some(vec![]));
    answer(&mut rig, in_epoch(2, Some(&[0])));
    let bare = m::ConsumerGroupHeartbeatRequest::default()
        .with_group_id(first.group_id.clone())
        .with_member_id(first.member_id.clone())
        .with_member_epoch(2);
    assert_eq!(beat(&rig), bare.clone().with_topic_partitions(Some(owned(&[0]))), "at once");
    answer(&mut rig, in_epoch(2, None));
    assert_eq!(rig.count(BEAT), 0);
    rig.run_until(5_000);
    assert_eq!(beat(&rig), bare, "after the interval that the coordinator gave");
}

#[test]
fn what_is_taken_is_committed_in_the_epoch_and_not_read_meanwhile_r_cg8_18() {
    let mut rig = member(&["poll"], &[RARELY], &[0, 1]);
    rig.deliver(1, &[(0, 0, 3), (1, 0, 3)]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.run_until(4_999);
    rig.events.clear();
    rig.run_until(5_000);
    answer(&mut rig, in_epoch(2, Some(&[0])));
    rig.run_until(5_200);
    let Request::OffsetCommit(commit) = &*rig.pending(ApiKey::OffsetCommit).request else { unreachable!() };
    assert_eq!(commit.generation_id_or_member_epoch, 2);
    rig.check_events(&[]);
    assert_eq!(rig.consumer.subscription().partitions(), [tp(0), tp(1)], "it still owns both");
    rig.held.remove(&ApiKey::OffsetCommit);
    rig.settle();
    rig.run_until(5_400);
    assert_eq!(beat(&rig).topic_partitions, Some(owned(&[0])));
    assert!(rig.events.contains(&"gave up [1]: Reconciled".to_owned()), "{:?}", rig.events);
    assert!(rig.events.contains(&"kept [0], assigned [] in generation 2".to_owned()), "{:?}", rig.events);
    assert_eq!(rig.position(0), 3, "what stays is where it was");
}

/// Answers the commit, which is in `epoch`, as one of an epoch that is over.
#[track_caller]
fn check_stale_commit(rig: &mut Rig, epoch: i32) {
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    assert_eq!(commit.generation_id_or_member_epoch, epoch);
    rig.answer(&pending, commit_answer(commit, ErrorCode::StaleMemberEpoch));
}

#[test]
fn before_the_share_shrinks_a_commit_of_a_stale_epoch_is_made_again_in_the_new_one_r_cg8_19_r_cons_23() {
    let mut rig = member(&["poll"], &[RARELY], &[0, 1]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.run_until(5_000);
    answer(&mut rig, in_epoch(2, Some(&[0])));
    rig.run_until(5_100);
    check_stale_commit(&mut rig, 2);
    rig.run_until(10_000);
    check_stale_commit(&mut rig, 2);
    answer(&mut rig, in_epoch(3, None));
    rig.run_until(10_300);
    check_stale_commit(&mut rig, 3);
    assert_eq!(phase(&rig), Phase::Reconciling);
}

#[test]
fn a_commit_of_a_stale_epoch_that_the_application_made_fails_r_cg8_19_r_cons_23() {
    let mut rig = Rig::new(&["poll", "commit"], &[MODERN, ("enable.auto.commit", "false")]);
    rig.committed.insert(0, 0);
    rig.held.extend([BEAT, ApiKey::OffsetCommit]);
    rig.start();
    answer(&mut rig, in_epoch(2, Some(&[0])));
    answer(&mut rig, in_epoch(2, None));
    rig.run_until(200);
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    let stale = commit_answer(commit, ErrorCode::StaleMemberEpoch);
    rig.events.clear();
    rig.answer(&pending, stale);
    rig.check_events(&["commit failed: STALE_MEMBER_EPOCH"]);
    assert_eq!(phase(&rig), Phase::Stable, "of the membership heartbeats tell");
}

#[test]
fn the_committed_offset_is_asked_for_in_the_epoch_and_again_if_that_is_over_r_cg8_20() {
    let mut rig = Rig::new(&["poll 60s"], &[MODERN]);
    rig.held.extend([BEAT, ApiKey::OffsetFetch]);
    rig.start();
    answer(&mut rig, in_epoch(2, Some(&[0])));
    let pending = rig.pending(ApiKey::OffsetFetch);
    let Request::OffsetFetch(fetch) = &*pending.request else { unreachable!() };
    let group = &fetch.groups[0];
    assert_eq!((group.member_epoch, group.member_id.as_ref().map(|id| id.len())), (2, Some(22)));
    let mut stale = rig.offsets(fetch);
    stale.groups[0].error_code = ErrorCode::StaleMemberEpoch.code();
    stale.groups[0].topics.clear();
    rig.answer(&pending, stale);
    answer(&mut rig, in_epoch(3, None));
    rig.run_until(500);
    let Request::OffsetFetch(fetch) = &*rig.pending(ApiKey::OffsetFetch).request else { unreachable!() };
    assert_eq!(fetch.groups[0].member_epoch, 3);
}

#[test]
fn a_fenced_member_loses_its_share_at_once_and_joins_under_its_id_r_cg8_17() {
    for error in [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId] {
        let mut rig = member(&["poll", "process 60s"], &[], &[0]);
        rig.deliver(1, &[(0, 0, 1)]);
        rig.events.clear();
        rig.run_until(5_000);
        let id = beat(&rig).member_id;
        answer(&mut rig, refused(error));
        rig.check_events(&["gave up [0]: Lost", "join"]);
        let again = beat(&rig);
        assert_eq!((again.member_id, again.member_epoch), (id, 0));
        assert_eq!(again.topic_partitions, Some(vec![]));
        assert_eq!(again.rebalance_timeout_ms, 300_000);
    }
}

#[test]
fn what_is_fatal_ends_the_program_in_its_next_poll_without_a_goodbye_r_cg8_17() {
    for error in [
        ErrorCode::UnreleasedInstanceId,
        ErrorCode::FencedInstanceId,
        ErrorCode::UnsupportedAssignor,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::GroupIdNotFound,
        ErrorCode::InvalidRequest,
        ErrorCode::UnsupportedVersion,
    ] {
        let mut rig = member(&["poll 60s"], &[RARELY], &[0]);
        rig.run_until(5_000);
        answer(&mut rig, refused(error));
        rig.check_events(&["gave up [0]: Lost", &format!("failed: {error}")]);
        assert_eq!(rig.count(BEAT), 0);
        assert!(rig.exited);
    }
}

#[test]
fn a_coordinator_that_loads_or_moved_is_asked_again_with_everything_r_cg8_4() {
    for error in [ErrorCode::CoordinatorLoadInProgress, ErrorCode::NotCoordinator] {
        let mut rig = member(&["poll 60s"], &[("client.rack", "r1")], &[0]);
        rig.run_until(5_000);
        answer(&mut rig, refused(error));
        rig.run_until(5_900);
        let again = beat(&rig);
        assert_eq!((again.member_epoch, again.rebalance_timeout_ms), (2, 300_000), "{error}");
        assert_eq!((again.topic_partitions, again.rack_id), (Some(owned(&[0])), None), "{error}");
        assert_eq!(phase(&rig), Phase::Stable);
    }
}

#[test]
fn a_lost_heartbeat_is_sent_again_with_everything_r_cg8_4() {
    let mut rig = member(&["poll 60s"], &[], &[0]);
    rig.run_until(5_000);
    rig.cut(COORDINATOR, Channel::Coordinator);
    rig.settle();
    rig.run_until(5_500);
    assert_eq!(beat(&rig).topic_partitions, Some(owned(&[0])));
}

/// How it leaves: the epoch of its goodbye.
fn check_goodbye(config: &[(&str, &str)], epoch: i32) {
    let mut rig = member(&["poll 60s"], config, &[0]);
    rig.close();
    rig.check_events(&["auto-committed 0@0", "gave up [0]: Closing"]);
    let goodbye = beat(&rig);
    assert_eq!((goodbye.member_epoch, goodbye.topic_partitions), (epoch, Some(vec![])));
    assert!(!rig.exited, "it waits for the answer");
    answer(&mut rig, in_epoch(epoch, None));
    assert!(rig.exited);

    let late = [config, &[("max.poll.interval.ms", "4000")]].concat();
    let mut rig = member(&["poll", "process 9s"], &late, &[0]);
    rig.deliver(1, &[(0, 0, 1)]);
    rig.events.clear();
    rig.run_until(4_000);
    assert_eq!(beat(&rig).member_epoch, epoch);
    rig.check_events(&["gave up [0]: Lost"]);
    assert_eq!(phase(&rig), Phase::Stale);
    answer(&mut rig, in_epoch(epoch, None));
    rig.run_until(8_900);
    assert_eq!(rig.count(BEAT), 0, "it stays away until it polls");
    rig.run_until(9_000);
    assert_eq!(beat(&rig).member_epoch, 0);
    rig.check_events(&["processed 0@0", "join"]);
}

#[test]
fn who_leaves_says_minus_one_and_a_static_member_minus_two_r_cg8_21_r_cons_28() {
    check_goodbye(&[], -1);
    check_goodbye(&[("group.instance.id", "i1")], -2);
}

#[test]
fn an_assignment_of_an_unknown_topic_waits_for_its_name() {
    let mut rig = member(&["poll 60s"], &[RARELY], &[0]);
    rig.run_until(5_000);
    let other = TopicPartitions::default().with_topic_id(uuid::Uuid::from_u128(8)).with_partitions(vec![0]);
    let known = TopicPartitions::default().with_topic_id(TOPIC_ID).with_partitions(vec![0, 1]);
    let both = Assignment::default().with_topic_partitions(vec![known, other]);
    answer(&mut rig, in_epoch(3, None).with_assignment(Some(both)));
    rig.check_events(&[
        "auto-committed 0@0",
        "kept [0], assigned [1] in generation 3",
        "position of 1 is 0: Committed",
    ]);
    assert_eq!(beat(&rig).topic_partitions, Some(owned(&[0, 1])), "what has a name is taken and told");
    let member = rig.consumer.membership().modern.as_ref().unwrap();
    assert!(member.current != member.target, "the rest is awaited");
}

fn subscribe(topics: &[&str]) -> Ask {
    Ask::Choose(Choice::Topics(topics.iter().copied().map(Topic::new).collect()))
}

#[test]
fn a_new_subscription_is_told_with_the_next_heartbeat_r_cg8_4() {
    let mut rig = member(&["poll"], &[RARELY], &[0, 1]);
    rig.ask(subscribe(&["u"]));
    assert_eq!(rig.count(BEAT), 0, "it waits for the interval");
    assert!(!rig.consumer.subscription().is_fetchable(&tp(0)), "it owns what it does not read any more");
    rig.run_until(5_000);
    let beat = beat(&rig);
    let names: Vec<&str> = beat.subscribed_topic_names.iter().flatten().map(|name| name.as_str()).collect();
    assert_eq!((names, beat.rebalance_timeout_ms, beat.member_epoch), (vec!["u"], -1, 2), "and nothing else");
}

#[test]
fn who_unsubscribes_says_goodbye_and_can_come_back() {
    let mut rig = member(&["poll"], &[RARELY], &[0, 1]);
    rig.ask(Ask::Unsubscribe);
    rig.check_events(&["unsubscribes", "gave up [0 1]: Unsubscribed"]);
    assert_eq!((beat(&rig).member_epoch, phase(&rig)), (-1, Phase::Unsubscribed));
    answer(&mut rig, in_epoch(-1, None));
    rig.run_until(20_000);
    assert_eq!(rig.consumer.waiting(), Waiting::Choice);
    rig.ask(subscribe(&["t"]));
    assert_eq!((beat(&rig).member_epoch, phase(&rig)), (0, Phase::Joining));
}

#[test]
fn a_partition_that_is_lost_before_its_turn_cannot_be_sought() {
    let mut rig = member(&["poll", "process 10s"], &[RARELY], &[0, 1]);
    rig.deliver(1, &[(0, 0, 1)]);
    rig.events.clear();
    rig.ask(Ask::Seek { partition: tp(0), to: SeekTo::End });
    rig.run_until(5_000);
    answer(&mut rig, refused(ErrorCode::FencedMemberEpoch));
    rig.run_until(10_000);
    rig.check_events(&[
        "gave up [0 1]: Lost",
        "join",
        "processed 0@0",
        "threw: No current assignment for partition t-0",
    ]);
}

#[test]
fn close_says_what_is_to_become_of_the_membership_r_cons_27() {
    let check = |config: &[(&str, &str)], membership, epoch: Option<i32>| {
        let mut rig = member(&["poll"], config, &[0]);
        rig.close_with(CloseOptions { membership, timeout_ms: None });
        assert_eq!(
            (rig.count(BEAT) > 0).then(|| beat(&rig).member_epoch),
            epoch,
            "{config:?} {membership:?}"
        );
        assert_eq!(rig.exited, epoch.is_none(), "{config:?} {membership:?}");
    };
    let fixed = &[("group.instance.id", "i1")];
    check(&[], GroupMembership::Default, Some(-1));
    check(&[], GroupMembership::Leave, Some(-1));
    check(&[], GroupMembership::Remain, None);
    check(fixed, GroupMembership::Default, Some(-2));
    check(fixed, GroupMembership::Remain, Some(-2));
    check(fixed, GroupMembership::Leave, Some(-1));
}

#[test]
fn the_coordinator_is_told_a_pattern_and_topics_are_asked_for_by_id_r_cg8_4() {
    let mut rig = member(&["poll"], &[RARELY], &[0, 1]);
    rig.ask(Ask::Unsubscribe);
    answer(&mut rig, in_epoch(-1, None));
    rig.ask(Ask::Choose(Choice::Re2j("t.*".into())));
    let first = beat(&rig);
    let names = first.subscribed_topic_names.as_ref().map(Vec::len);
    assert_eq!((first.subscribed_topic_regex.as_deref(), names), (Some("t.*"), Some(0)));
    answer(&mut rig, in_epoch(3, Some(&[0])));
    rig.run_until(1_000);
    assert_eq!(rig.consumer.subscription().partitions(), [tp(0)]);
    rig.held.insert(ApiKey::Metadata);
    rig.consumer.metadata.request_update();
    let fetch = rig.fetch_at(1);
    rig.answer(&fetch, empty_answer(&fetch));
    let pending = rig.pending(ApiKey::Metadata);
    let Request::Metadata(ask) = &*pending.request else { unreachable!() };
    let asked = ask.topics.as_ref().expect("not all topics");
    assert_eq!((asked.len(), asked[0].topic_id, asked[0].name.is_none()), (1, TOPIC_ID, true));
}

#[test]
fn no_interval_commit_is_made_while_one_is_on_its_way_r_cons_21() {
    let mut rig = member(&["poll"], &[("auto.commit.interval.ms", "100")], &[0]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.deliver(1, &[(0, 0, 1)]);
    rig.run_until(1_000);
    assert_eq!(rig.count(ApiKey::OffsetCommit), 1);
}
