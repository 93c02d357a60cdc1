//! Fetching and returning records (R-CONS-1 to R-CONS-7, R-CONS-13, R-CONS-33, R-REPL-67).

use super::*;
use crate::client::consumer::config::IsolationLevel;

#[test]
fn a_poll_returns_what_was_fetched_and_each_record_takes_its_time_r_cons_7() {
    let mut rig = Rig::joined(&["poll", "process 20ms"], &[]);
    rig.run_until(50);
    rig.deliver(1, &[(0, 0, 2)]);
    rig.check_events(&["polled 2 of 0: 0..2"]);
    assert_eq!(rig.consumer.program().record_in_hand().map(|record| record.offset), Some(Offset(0)));
    rig.run_until(70);
    rig.check_events(&["processed 0@0"]);
    rig.run_until(90);
    rig.check_events(&["processed 0@1"]);
    assert!(matches!(rig.consumer.program().activity(), Activity::Polling { .. }));
}

#[test]
fn a_position_moves_when_records_are_returned_not_when_fetched_or_processed_r_cons_5() {
    let mut rig = Rig::joined(&["poll", "process 20ms"], &[("max.poll.records", "2")]);
    rig.deliver(1, &[(0, 0, 5)]);
    assert_eq!((rig.position(0), rig.consumer.fetcher().buffered(&tp(0))), (2, 3));
    assert_eq!(rig.consumer.program().processed(), 0);
}

#[test]
fn the_next_fetch_is_sent_before_poll_returns_r_cons_1() {
    let mut rig = Rig::joined(&["poll", "process 20ms"], &[]);
    rig.deliver(1, &[(0, 0, 5)]);
    assert_eq!(rig.fetching(1), [(0, 5)]);
}

#[test]
fn no_fetch_goes_to_a_broker_whose_data_is_undrained_r_cons_1() {
    let mut rig = Rig::joined(&["poll", "process 10ms"], &[("max.poll.records", "2")]);
    rig.deliver(1, &[(0, 0, 4)]);
    assert_eq!(rig.count(ApiKey::Fetch), 0);
    // Of exactly four records, the second poll returns the last two without noticing the end.
    rig.run_until(20);
    assert_eq!((rig.position(0), rig.count(ApiKey::Fetch)), (4, 0));
    rig.run_until(40);
    assert_eq!(rig.fetching(1), [(0, 4)]);
}

#[test]
fn each_broker_has_one_fetch_for_all_partitions_that_it_leads_r_cons_1() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.leaders = vec![1, 2, 1];
    rig.start();
    assert_eq!(rig.fetching(1), [(0, 100), (2, 100)]);
    assert_eq!(rig.fetching(2), [(1, 100)]);
    rig.run_until(1000);
    assert_eq!(rig.count(ApiKey::Fetch), 2);
}

#[test]
fn who_returned_data_is_asked_last_r_cons_3() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.leaders = vec![1, 1, 1];
    rig.start();
    rig.deliver(1, &[(0, 100, 101)]);
    assert_eq!(rig.fetching(1), [(1, 100), (2, 100), (0, 101)]);
    rig.deliver(1, &[(2, 100, 102), (0, 101, 102)]);
    assert_eq!(rig.fetching(1), [(1, 100), (2, 102), (0, 102)]);
}

#[test]
fn max_poll_records_splits_what_one_fetch_brought_r_cons_4() {
    let mut rig = Rig::joined(&["poll"], &[("max.poll.records", "3")]);
    rig.deliver(1, &[(0, 0, 7)]);
    rig.check_events(&["polled 3 of 0: 0..3", "polled 3 of 0: 3..6", "polled 1 of 0: 6..7"]);
}

#[test]
fn an_empty_poll_returns_at_its_timeout_r_cons_7() {
    let mut rig = Rig::joined(&["poll 100ms", "process 1s"], &[]);
    let since = |rig: &Rig| match rig.consumer.program().activity() {
        Activity::Polling { since, .. } => since.ms(),
        other => panic!("{other:?}"),
    };
    assert_eq!(since(&rig), 0);
    rig.run_until(250);
    assert_eq!(since(&rig), 200);
    assert_eq!(rig.consumer.waiting(), Waiting::Records { from: vec![BrokerId(1)] });
}

#[test]
fn records_below_the_position_are_dropped() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.committed.insert(0, 3);
    rig.start();
    rig.events.clear();
    rig.deliver(1, &[(0, 0, 5)]);
    rig.check_events(&["polled 2 of 0: 3..5"]);
}

#[test]
fn an_answer_for_an_older_position_is_ignored_r_cons_6() {
    let mut rig = Rig::joined(&["poll"], &[("enable.auto.commit", "false")]);
    rig.held.insert(ApiKey::Heartbeat);
    rig.run_until(3_100);
    rig.committed.insert(0, 50);
    let beat = rig.pending(ApiKey::Heartbeat);
    rig.answer(&beat, heartbeat(ErrorCode::UnknownMemberId));
    rig.settle();
    assert_eq!((rig.position(0), rig.fetching(1)), (50, vec![(0, 0)]));
    rig.events.clear();
    rig.deliver(1, &[(0, 0, 5)]);
    rig.check_events(&[]);
    assert_eq!(rig.fetching(1), [(0, 50)]);
}

#[test]
fn out_of_range_resets_by_the_strategy_r_cons_13() {
    let check = |strategy: &str, events: &[&str]| {
        let mut rig = Rig::joined(&["poll"], &[("auto.offset.reset", strategy)]);
        (rig.log_start, rig.log_end) = (60, 90);
        rig.deliver_data(1, vec![partition_error(0, ErrorCode::OffsetOutOfRange)]);
        assert_eq!(rig.events[..events.len()], *events);
    };
    check("latest", &["0 of 0 is out of range", "position of 0 is 90: Latest"]);
    check("earliest", &["0 of 0 is out of range", "position of 0 is 60: Earliest"]);
    check("none", &["failed: OFFSET_OUT_OF_RANGE"]);
}

#[test]
fn a_leader_that_is_named_in_the_answer_is_fetched_from_at_once_r_repl_67() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.held.insert(ApiKey::Metadata);
    let error = partition_error(0, ErrorCode::NotLeaderOrFollower).with_current_leader(led_by(3, 6));
    rig.deliver_data(1, vec![error]);
    let fetch = rig.fetch_at(3);
    let Request::Fetch(fetch) = &*fetch.request else { unreachable!() };
    assert_eq!(fetch.topics[0].partitions[0].current_leader_epoch, 6);
}

#[test]
fn an_old_leader_without_a_hint_is_left_after_a_metadata_refresh_r_cons_33() {
    let mut rig = Rig::joined(&["poll"], &[]);
    (rig.leaders, rig.leader_epoch) = (vec![3], 6);
    rig.deliver_data(1, vec![partition_error(0, ErrorCode::NotLeaderOrFollower)]);
    rig.run_until(200);
    rig.deliver_data(1, vec![partition_error(0, ErrorCode::NotLeaderOrFollower)]);
    assert_eq!(rig.fetching(3), [(0, 0)]);
}

#[test]
fn a_partition_without_leader_is_skipped_until_it_has_one_r_repl_66() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.leaders = vec![1, -1];
    rig.start();
    assert_eq!(rig.fetching(1), [(0, 100)]);
    assert_eq!(rig.consumer.waiting(), Waiting::OffsetReset);
    (rig.leaders, rig.leader_epoch) = (vec![1, 2], 6);
    rig.run_until(2000);
    assert_eq!(rig.fetching(2), [(1, 100)]);
}

#[test]
fn a_lost_connection_costs_the_fetch_and_is_opened_again() {
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.cut(1, Channel::Main);
    rig.check_events(&["connection to broker 1 lost, 1 requests"]);
    assert_eq!(rig.count(ApiKey::Fetch), 0);
    rig.run_until(60);
    assert_eq!(rig.fetching(1), [(0, 0)]);
}

#[test]
fn a_damaged_batch_fails_the_poll_after_the_records_before_it_r_cons_33() {
    let damaged = |from, to| {
        let mut bytes = BytesMut::from(&batch(from, to)[..]);
        let value = bytes.len() - 2;
        bytes[value] ^= 1;
        bytes.freeze()
    };
    let damaged_behind = || vec![data_of(0, &[batch(0, 2), damaged(2, 4)])];
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.deliver_data(1, damaged_behind());
    let expected =
        ["polled 2 of 0: 0..2", "failed: CORRUPT_MESSAGE", "auto-committed 0@2", "gave up [0]: Closing"];
    rig.check_events(&expected);
    let mut rig = Rig::joined(&["poll"], &[("check.crcs", "false")]);
    rig.deliver_data(1, damaged_behind());
    rig.check_events(&["polled 4 of 0: 0..4"]);
    // What is about to be given up is not read, so nobody meets the damage (R-CONS-6).
    let mut rig = Rig::joined(&["poll"], &[]);
    rig.consumer.subscription.mark_pending_revocation();
    rig.deliver_data(1, vec![data_of(0, &[damaged(0, 2)])]);
    rig.check_events(&[]);
}

#[test]
fn a_record_that_cannot_be_read_fails_each_poll_that_comes_to_it_until_somebody_seeks_past_it_r_cons_34() {
    let integers = ("value.deserializer", "org.apache.kafka.common.serialization.IntegerDeserializer");
    let poisoned = || vec![data_of(0, &[batch_of(0, &[b"four", b"four", b"poison", b"four"])])];
    let fails = ["cannot read the Value of 0@2", "auto-committed 0@2", "gave up [0]: Closing"];
    let mut rig = Rig::joined(&["poll"], &[integers]);
    rig.deliver_data(1, poisoned());
    assert_eq!(rig.events[0], "polled 2 of 0: 0..2", "what is before it is returned first");
    assert_eq!(rig.events[1..], fails);
    // The next one begins at the same place.
    let mut rig = Rig::new(&["poll"], &[integers]);
    rig.committed.insert(0, 2);
    rig.start();
    rig.events.clear();
    rig.deliver_data(1, poisoned());
    rig.check_events(&fails);
    let mut rig = Rig::joined(&["poll", "process 1ms"], &[integers]);
    rig.deliver_data(1, poisoned());
    rig.ask(Ask::Seek { partition: tp(0), to: SeekTo::Offset(3) });
    rig.run_until(2);
    rig.deliver_data(1, poisoned());
    let told = ["processed 0@0", "processed 0@1", "position of 0 is 3: Seek", "polled 1 of 0: 3..4"];
    assert_eq!(rig.events[1..], told);
}

#[test]
fn an_error_that_no_fetch_is_known_to_have_does_not_wait_for_the_records_before_it() {
    let check = |error, told: &[&str]| {
        let mut rig = Rig::new(&["poll"], &[("enable.auto.commit", "false")]);
        rig.leaders = vec![1, 1];
        rig.committed = BTreeMap::from([(0, 0), (1, 0)]);
        rig.start();
        rig.events.clear();
        rig.deliver_data(1, vec![records(0, 0, 2), partition_error(1, error)]);
        assert_eq!(rig.events[..told.len()], *told, "{error}");
        assert_eq!(rig.position(0), -1, "it has closed");
    };
    check(ErrorCode::RequestTimedOut, &["failed: REQUEST_TIMED_OUT"]);
    let told = ["polled 2 of 0: 0..2", "failed: TOPIC_AUTHORIZATION_FAILED"];
    check(ErrorCode::TopicAuthorizationFailed, &told);
}

#[test]
fn lag_is_known_from_fetch_answers_r_obs_9() {
    let mut rig = Rig::joined(&["poll", "process 1s"], &[]);
    rig.deliver_data(1, vec![records(0, 0, 5).with_high_watermark(30).with_log_start_offset(0)]);
    let owned = rig.consumer.subscription().owned()[&tp(0)];
    assert_eq!((owned.high_watermark, owned.log_start_offset), (Some(Offset(30)), Some(Offset(0))));
    assert_eq!(owned.lag(IsolationLevel::ReadUncommitted), Some(25));
}
