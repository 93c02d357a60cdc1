//! What an application does with its consumer beside its program (R-CONS-8 to R-CONS-10, R-CONS-20).

use kafka_protocol::protocol::StrBytes;
use m::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};

use super::*;
use crate::client::pattern::TopicPattern;

fn topics(names: &[&str]) -> Ask {
    Ask::Choose(Choice::Topics(names.iter().copied().map(Topic::new).collect()))
}

fn partitions(numbers: &[i32]) -> Ask {
    Ask::Choose(Choice::Partitions(numbers.iter().copied().map(tp).collect()))
}

fn two_partitions(config: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::new(&["poll", "process 1ms"], config);
    rig.leaders = vec![1, 1];
    rig.committed.extend([(0, 0), (1, 0)]);
    rig.start();
    rig.events.clear();
    rig
}

#[test]
fn what_is_fetched_of_a_paused_partition_waits_for_it_to_be_resumed_r_cons_8() {
    let mut rig = two_partitions(&[]);
    rig.ask(Ask::Pause(vec![tp(0)]));
    rig.deliver(1, &[(0, 0, 3), (1, 0, 2)]);
    rig.check_events(&["paused [0]", "polled 2 of 1: 0..2"]);
    rig.run_until(2);
    assert_eq!(rig.fetching(1), [(1, 2)], "only the other one is fetched");
    assert_eq!(rig.consumer.fetcher().buffered(&tp(0)), 3);
    rig.events.clear();
    rig.ask(Ask::Resume(vec![tp(0)]));
    rig.check_events(&["resumed [0]", "polled 3 of 0: 0..3"]);
}

#[test]
fn an_eager_rebalance_forgets_a_pause_r_cons_8() {
    let mut rig = two_partitions(&[]);
    rig.ask(Ask::Pause(vec![tp(0)]));
    rig.heartbeat_says(ErrorCode::RebalanceInProgress);
    rig.run_until(rig.now.ms() + 200);
    assert_eq!(rig.consumer.membership().identity.generation, Generation(2));
    assert!(!rig.consumer.subscription().owned()[&tp(0)].paused);
}

/// R-CONS-6.
#[test]
fn a_seek_moves_the_position_at_once_and_drops_what_was_fetched_before_r_cons_9() {
    let mut rig = two_partitions(&[]);
    rig.ask(Ask::Seek { partition: tp(0), to: SeekTo::Offset(50) });
    assert_eq!((rig.position(0), rig.position(1)), (50, 0));
    rig.deliver(1, &[(0, 0, 3), (1, 0, 1)]);
    rig.check_events(&["position of 0 is 50: Seek", "polled 1 of 1: 0..1"]);
    rig.run_until(1);
    assert_eq!(rig.fetching(1), [(0, 50), (1, 1)]);
    assert_eq!(rig.consumer.subscription().owned()[&tp(0)].committed, Some(Offset(0)));
}

#[test]
fn seek_to_beginning_and_end_ask_the_leader_in_the_next_poll_r_cons_9() {
    let mut rig = two_partitions(&[]);
    (rig.log_start, rig.log_end) = (10, 90);
    rig.ask(Ask::Seek { partition: tp(0), to: SeekTo::End });
    rig.ask(Ask::Seek { partition: tp(1), to: SeekTo::Beginning });
    rig.deliver(1, &[(0, 0, 3)]);
    rig.check_events(&["position of 0 is 90: Latest", "position of 1 is 10: Earliest"]);
}

#[test]
fn what_is_asked_for_while_the_application_works_is_done_before_its_next_poll() {
    let mut rig = Rig::joined(&["poll", "process 10ms"], &[]);
    rig.deliver(1, &[(0, 0, 2)]);
    rig.events.clear();
    rig.ask(Ask::Seek { partition: tp(0), to: SeekTo::Offset(0) });
    rig.run_until(19);
    rig.check_events(&["processed 0@0"]);
    rig.run_until(20);
    rig.check_events(&["processed 0@1", "position of 0 is 0: Seek"]);
}

/// R-GRP-34.
#[test]
fn an_eager_member_that_subscribes_to_something_else_gives_up_all_and_joins_again() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.held.insert(ApiKey::JoinGroup);
    rig.ask(topics(&["t", "u"]));
    rig.check_events(&["reads topics t, u", "auto-committed 0@0", "gave up [0]: Rebalance", "join"]);
    let join = rig.join_sent();
    assert_eq!(join.reason.as_deref(), Some("subscription has changed"));
    assert_eq!(rig.said_to("range").topics, ["t", "u"].map(Topic::new));
}

#[test]
fn a_cooperative_member_gives_up_what_it_does_not_subscribe_to_any_more() {
    let mut rig = Rig::joined(&["poll"], &[("partition.assignment.strategy", "cooperative-sticky")]);
    rig.held.insert(ApiKey::JoinGroup);
    rig.ask(topics(&["u"]));
    rig.check_events(&["reads topics u", "auto-committed 0@0", "gave up [0]: Unsubscribed", "join"]);
    assert_eq!(rig.said_to("cooperative-sticky").owned, []);
}

#[test]
fn who_unsubscribes_leaves_and_stands_idle_until_it_subscribes_again() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.held.insert(ApiKey::LeaveGroup);
    rig.ask(Ask::Unsubscribe);
    rig.check_events(&["unsubscribes", "gave up [0]: Unsubscribed"]);
    let pending = rig.pending(ApiKey::LeaveGroup);
    let Request::LeaveGroup(leave) = &*pending.request else { unreachable!() };
    let reason = leave.members[0].reason.as_ref().map(|reason| reason.as_str());
    assert_eq!(reason, Some("the consumer unsubscribed from all topics"));
    rig.held.remove(&ApiKey::LeaveGroup);
    rig.settle();
    rig.run_until(400_000);
    rig.check_events(&[]);
    assert_eq!(rig.consumer.waiting(), Waiting::Choice);
    rig.ask(topics(&["t"]));
    assert_eq!(rig.events[..2], ["reads topics t", "join"]);
    assert_eq!(rig.consumer.subscription().partitions(), [tp(0)]);
}

#[test]
fn assigned_partitions_are_read_without_membership_and_committed_as_nobody_r_cons_10() {
    let mut rig = Rig::joined(&["poll"], &[("group.instance.id", "i1")]);
    rig.ask(Ask::Unsubscribe);
    rig.ask(partitions(&[0]));
    rig.check_events(&[
        "unsubscribes",
        "gave up [0]: Unsubscribed",
        "reads partitions t-0",
        "position of 0 is 0: Committed",
    ]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.deliver(1, &[(0, 0, 3)]);
    rig.run_until(6_000);
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    assert_eq!((commit.generation_id_or_member_epoch, commit.member_id.as_str()), (-1, ""));
    assert_eq!(commit.group_instance_id, None);
    assert_eq!(rig.count(ApiKey::JoinGroup) + rig.count(ApiKey::Heartbeat), 0);
}

#[test]
fn topics_and_partitions_do_not_mix_without_unsubscribe_r_cons_10() {
    let rig = Rig::joined(&["poll"], &[]);
    let refused = rig.consumer.check_ask(&partitions(&[0])).unwrap_err().to_string();
    assert_eq!(refused, "Subscription to topics, partitions and pattern are mutually exclusive");
    let mut rig = rig;
    rig.ask(Ask::Unsubscribe);
    rig.ask(partitions(&[0]));
    let refused = rig.consumer.check_ask(&topics(&["t"])).unwrap_err();
    assert_eq!(refused, AskError::OtherKind);
}

#[test]
fn only_what_is_assigned_can_be_sought_and_paused_r_cons_9() {
    let rig = Rig::joined(&["poll"], &[]);
    let check = |ask: Ask, error: &str| {
        assert_eq!(rig.consumer.check_ask(&ask).unwrap_err().to_string(), error);
    };
    let none = "No current assignment for partition t-7";
    check(Ask::Pause(vec![tp(7)]), none);
    check(Ask::Resume(vec![tp(7)]), none);
    check(Ask::Seek { partition: tp(7), to: SeekTo::End }, none);
    let seek = Ask::Seek { partition: tp(0), to: SeekTo::Offset(-1) };
    check(seek, "seek offset must not be a negative number");
    let commit = Ask::Commit { offsets: Some(vec![(tp(0), -3)]), waits: true };
    check(commit, "Invalid offset: -3");
    check(topics(&["t", "t"]), "t is named twice");
}

/// Without group.id, with partitions 0 and 1.
fn without_group(config: &[(&str, &str)]) -> Result<Consumer, SpecError> {
    let spec = ConsumerSpec {
        name: ClientName::new("c1"),
        group: GroupId::new(""),
        choice: Choice::Partitions(vec![tp(0), tp(1)]),
        program: Line::parse_program(&["poll"]).unwrap(),
        config: config.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
    };
    Consumer::new(spec, &[BrokerId(1)], Random::stream(1, "c1"))
}

#[test]
fn without_group_nobody_is_asked_for_a_coordinator_and_nothing_is_committed_a30() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.leaders = vec![1, 1];
    rig.consumer = without_group(&[("auto.offset.reset", "earliest")]).unwrap();
    rig.start();
    rig.check_events(&["position of 0 is 0: Earliest", "position of 1 is 0: Earliest"]);
    rig.deliver(1, &[(0, 0, 3)]);
    rig.run_until(6_000);
    rig.check_events(&["polled 3 of 0: 0..3"]);
    let commit = Ask::Commit { offsets: None, waits: true };
    assert_eq!(rig.consumer.check_ask(&commit), Err(AskError::NoGroup));
    assert_eq!(rig.consumer.check_ask(&topics(&["t"])), Err(AskError::NoGroup));
    rig.close();
    assert!(rig.exited);
    let error = without_group(&[("enable.auto.commit", "true")]).unwrap_err().to_string();
    assert!(error.contains("enable.auto.commit cannot be set to true when default group id"), "{error}");
}

fn answer_commit(rig: &mut Rig, error: ErrorCode) {
    let pending = rig.pending(ApiKey::OffsetCommit);
    let Request::OffsetCommit(commit) = &*pending.request else { unreachable!() };
    let answer = commit_answer(commit, error);
    rig.answer(&pending, answer);
    rig.settle();
}

#[test]
fn commit_async_does_not_wait_and_calls_back_in_the_next_poll_r_cons_20() {
    let mut rig = Rig::joined(&["poll", "commit async", "process 10ms"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.deliver(1, &[(0, 0, 2)]);
    rig.run_until(5);
    rig.check_events(&["polled 2 of 0: 0..2"]);
    answer_commit(&mut rig, ErrorCode::None);
    rig.check_events(&["committed 0@2"]);
    rig.run_until(20);
    rig.check_events(&["processed 0@0", "processed 0@1", "called back: Committed"]);
}

#[test]
fn commit_async_is_tried_once_r_cons_20() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.ask(Ask::Commit { offsets: Some(vec![(tp(0), 7)]), waits: false });
    answer_commit(&mut rig, ErrorCode::CoordinatorLoadInProgress);
    rig.check_events(&["called back: Retriable"]);
    rig.run_until(1_000);
    assert_eq!(rig.count(ApiKey::OffsetCommit), 0);
    rig.ask(Ask::Commit { offsets: Some(vec![(tp(0), 7)]), waits: false });
    answer_commit(&mut rig, ErrorCode::InvalidCommitOffsetSize);
    rig.check_events(&["called back: Failed(InvalidCommitOffsetSize)"]);
}

#[test]
fn when_commit_sync_returns_the_callbacks_before_it_have_run_r_cons_20() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::OffsetCommit);
    rig.ask(Ask::Commit { offsets: Some(vec![(tp(0), 7)]), waits: false });
    rig.ask(Ask::Commit { offsets: Some(vec![(tp(0), 8)]), waits: true });
    assert_eq!(rig.count(ApiKey::OffsetCommit), 2);
    answer_commit(&mut rig, ErrorCode::None);
    assert!(matches!(rig.consumer.program().activity(), Activity::Committing { .. }));
    answer_commit(&mut rig, ErrorCode::None);
    rig.check_events(&["committed 0@7", "called back: Committed", "committed 0@8"]);
    assert!(matches!(rig.consumer.program().activity(), Activity::Polling { .. }));
}

#[test]
fn a_commit_by_assign_that_meets_members_fails_a45() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.ask(Ask::Unsubscribe);
    rig.ask(partitions(&[0]));
    rig.events.clear();
    rig.held.insert(ApiKey::OffsetCommit);
    rig.ask(Ask::Commit { offsets: Some(vec![(tp(0), 7)]), waits: true });
    answer_commit(&mut rig, ErrorCode::UnknownMemberId);
    rig.check_events(&["commit failed: UNKNOWN_MEMBER_ID"]);
    assert_eq!(rig.consumer.subscription().partitions(), [tp(0)], "it reads on");
}

fn pattern(text: &str) -> Ask {
    Ask::Choose(Choice::Pattern(TopicPattern::new(text).unwrap()))
}

#[test]
fn a_pattern_is_matched_against_all_topics_before_the_member_joins() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.ask(Ask::Unsubscribe);
    rig.run_until(1_000);
    rig.held.extend([ApiKey::Metadata, ApiKey::JoinGroup]);
    rig.events.clear();
    rig.ask(pattern("t|u.*"));
    rig.check_events(&["reads topics that match t|u.*"]);
    let pending = rig.pending(ApiKey::Metadata);
    let Request::Metadata(ask) = &*pending.request else { unreachable!() };
    assert_eq!(ask.topics, None, "all topics");
    assert_eq!(rig.count(ApiKey::JoinGroup), 0, "R-GRP-34: first it looks");
    let answer = rig.metadata();
    rig.answer(&pending, answer);
    assert_eq!(rig.said_to("range").topics, [Topic::new("t")]);
}

#[test]
fn one_pattern_may_follow_another_and_a_list_may_not() {
    let mut rig = Rig::joined(&["poll"], &[]);
    assert_eq!(rig.consumer.check_ask(&pattern("t")), Err(AskError::OtherKind));
    rig.ask(Ask::Unsubscribe);
    rig.ask(pattern("t"));
    assert_eq!(rig.consumer.check_ask(&pattern("u")), Ok(()));
    assert_eq!(rig.consumer.check_ask(&topics(&["t"])), Err(AskError::OtherKind));
    let re2j = Ask::Choose(Choice::Re2j("t".into()));
    assert_eq!(rig.consumer.check_ask(&re2j), Err(AskError::ClassicRe2j));
}

fn look(rig: &mut Rig, what: Lookup, partitions: &[i32]) {
    rig.ask(Ask::Look { what, partitions: partitions.iter().map(|number| tp(*number)).collect() });
}

/// The calls that have returned, and with what.
fn looked_up(rig: &mut Rig) -> Vec<String> {
    std::mem::take(&mut rig.looked_up)
}

#[test]
fn ends_and_times_are_asked_of_leaders_and_the_program_waits_for_them_r_cons_31() {
    let mut rig = two_partitions(&[("isolation.level", "read_committed")]);
    (rig.log_start, rig.log_end) = (10, 90);
    rig.held.insert(ApiKey::ListOffsets);
    look(&mut rig, Lookup::End, &[0, 1]);
    let Request::ListOffsets(asked) = &*rig.pending(ApiKey::ListOffsets).request else { unreachable!() };
    assert_eq!((asked.isolation_level, asked.topics[0].partitions[0].timestamp), (1, -1));
    assert_eq!((looked_up(&mut rig), rig.consumer.waiting()), (vec![], Waiting::OffsetReset));
    rig.held.remove(&ApiKey::ListOffsets);
    // On the same connection the fetch before it is answered first.
    rig.run_until(600);
    assert_eq!(looked_up(&mut rig), ["endOffsets() 0@90 1@90"]);
    look(&mut rig, Lookup::Beginning, &[1]);
    rig.run_until(1_200);
    assert_eq!(looked_up(&mut rig), ["beginningOffsets() 1@10"]);
    assert_eq!((rig.position(0), rig.position(1)), (0, 0), "nothing has moved");
    rig.deliver(1, &[(0, 0, 3)]);
    look(&mut rig, Lookup::Position, &[0, 1]);
    rig.run_until(1_210);
    assert_eq!(looked_up(&mut rig), ["position() 0@3 1@0"]);
}

#[test]
fn a_look_up_without_an_answer_is_given_up_after_default_api_timeout_ms() {
    let mut rig = two_partitions(&[("default.api.timeout.ms", "5000"), ("enable.auto.commit", "false")]);
    rig.events.clear();
    rig.held.insert(ApiKey::ListOffsets);
    look(&mut rig, Lookup::Since { ms: 1_000 }, &[0]);
    rig.run_until(4_999);
    rig.check_events(&[]);
    rig.run_until(5_000);
    rig.check_events(&["threw: TimeoutException: Failed to get offsets by times in 5000ms"]);
    assert!(matches!(rig.consumer.program().activity(), Activity::Polling { .. }), "and it polls on");
}

#[test]
fn a_leader_that_is_not_the_one_is_looked_for_and_asked_again() {
    let mut rig = two_partitions(&[]);
    rig.held.insert(ApiKey::ListOffsets);
    look(&mut rig, Lookup::End, &[0]);
    rig.run_until(600);
    let pending = rig.pending(ApiKey::ListOffsets);
    let refused = ListOffsetsPartitionResponse::default()
        .with_partition_index(0)
        .with_error_code(ErrorCode::NotLeaderOrFollower.code());
    let topic = ListOffsetsTopicResponse::default()
        .with_name(m::TopicName(StrBytes::from_static_str("t")))
        .with_partitions(vec![refused]);
    rig.answer(&pending, m::ListOffsetsResponse::default().with_topics(vec![topic]));
    rig.held.remove(&ApiKey::ListOffsets);
    rig.settle();
    assert_eq!(looked_up(&mut rig), [""; 0]);
    rig.run_until(800);
    assert_eq!(looked_up(&mut rig), ["endOffsets() 0@100"]);
}
