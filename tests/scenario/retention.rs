//! Old records go by age and size, whole segments at a time. EX-30, cases A14 and A53, and runs of vector 16.

use glassbroker::kafka::event::{Event, LogStartReason};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::sim::{Command, Target, WorldConfig};
use serde_json::json;

use crate::dsl::{Cluster, cluster, cluster_with, config, tp};
use crate::live::run::{Live, events};

/// Three brokers that look at their logs every second from the thirtieth on, and a topic with one partition.
fn every_second(pairs: &[(&str, &str)]) -> Cluster {
    let broker_config = config(&[("log.retention.check.interval.ms", "1000")]);
    cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 1, 3, pairs)
}

/// Writes records in batches of 100 bytes each: 61 of the batch, 10 of the record and 29 of its value.
fn hundreds(c: &mut Cluster, records: i32) {
    for _ in 0..records {
        c.record("t", "key", Some("{n}"), Some(29));
    }
}

fn starts_moved(c: &Cluster) -> Vec<(i32, bool, i64, i64, LogStartReason)> {
    let moved = |event: &Event| match event {
        Event::LogStartMoved { broker, leader, from, to, reason, .. } => {
            Some((broker.0, *leader, from.0, to.0, *reason))
        }
        _ => None,
    };
    c.events().filter_map(moved).collect()
}

#[test]
fn ex_30_by_size_the_oldest_segments_go_while_enough_is_left_r_log_34() {
    let pairs = [("internal.segment.bytes", "200"), ("retention.bytes", "600")];
    let mut c = every_second(&pairs);
    hundreds(&mut c, 9);
    assert!(c.now_ms() < 30_000);
    c.run_ms(1_000);
    assert_eq!(
        c.extents("t-0").split(" 2:").next(),
        Some("1:0..9 [0 2 4 6 8]"),
        "200, 200, 200, 200, 100 bytes"
    );
    c.run_ms(31_000 - c.now_ms());
    assert_eq!(c.extents("t-0"), "1:2..9 [2 4 6 8] 2:2..9 [2 4 6 8] 3:2..9 [2 4 6 8]", "R-LOG-36, R-REPL-17");
    let size = LogStartReason::Size { retention_bytes: 600 };
    let moved = starts_moved(&c);
    assert_eq!(moved.len(), 3, "{moved:?}");
    assert!(moved.contains(&(1, true, 0, 2, size)) && moved.contains(&(2, false, 0, 2, size)), "{moved:?}");
}

#[test]
fn a_14_the_first_look_is_after_thirty_seconds_and_the_next_five_minutes_later_and_the_active_segment_goes_too()
 {
    let mut c = cluster(3).topic("t", 1, 3, &[("retention.ms", "60000")]);
    c.run_ms(9_000 - c.now_ms());
    hundreds(&mut c, 3);
    assert!((9_000..12_000).contains(&c.now_ms()));
    let whole = "1:0..3 [0] 2:0..3 [0] 3:0..3 [0]";
    for (until_ms, why) in [(31_000, "20 s old: kept"), (71_000, "nobody looks"), (329_000, "nobody looks")] {
        c.run_ms(until_ms - c.now_ms());
        assert_eq!(c.extents("t-0"), whole, "{why}");
    }
    c.run_ms(2_000);
    assert_eq!(c.extents("t-0"), "1:3..3 [3] 2:3..3 [3] 3:3..3 [3]", "R-LOG-33, R-LOG-35");
    assert_eq!(c.replicas("t-0"), "1:3/3 2:3/3 3:3/3");
    hundreds(&mut c, 1);
    assert_eq!(c.records(1, "t-0"), "3 key=1", "the next record gets the next offset");
}

#[test]
fn a_partition_under_its_minimum_of_replicas_deletes_nothing_above_the_high_watermark_r_log_32() {
    let mut c = every_second(&[("retention.ms", "5000"), ("min.insync.replicas", "2")]);
    c.producer("p", "t", "100/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.kill(2);
    c.kill(3);
    c.until("only broker 1 is in sync", 15_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.send("p", 3);
    c.run_ms(60_000);
    assert_eq!(c.extents("t-0"), "1:0..3 [0]");
    c.start(2);
    c.run_ms(30_000);
    assert_eq!(c.extents("t-0"), "1:3..3 [3] 2:3..3 [3]", "committed, and then deleted");
}

/// R-LOG-9, R-LOG-35: whole segments go, the last one too.
#[test]
fn vector_16_retention_by_time() {
    let run = events("retention_by_time");
    let mut live = Live::new();
    // The recorded brokers had run for longer than the thirty seconds after which they look for the first time.
    live.wait_until_ms(32_000);
    live.event(&run[0]);
    live.new_producer(&json!({}));
    live.play_in_time(&run[1..]);
    assert_eq!(live.c.extents("t-0"), "1:5..5 [5] 2:5..5 [5] 3:5..5 [5]", "followers too");
    let reason = LogStartReason::Time { retention_ms: 3_000 };
    let moved: Vec<_> = starts_moved(&live.c).into_iter().filter(|moved| moved.1).collect();
    assert_eq!(moved, [(1, true, 0, 3, reason), (1, true, 3, 5, reason)]);
}

#[test]
fn a_consumer_that_fell_behind_the_log_start_goes_where_its_reset_says_r_cons_13() {
    for (reset, to) in [("earliest", 3), ("latest", 4)] {
        let mut c = every_second(&[("retention.ms", "5000"), ("segment.ms", "1000")]);
        c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", reset)]);
        c.until("it reads", 20_000, |c| {
            c.consumer_state("reader").subscription().position(&tp("t-0")).is_some()
        });
        c.run_ms(1_000);
        c.give(Command::Freeze(Target::Client("reader".into())));
        hundreds(&mut c, 3);
        c.run_ms(45_000 - c.now_ms());
        c.record("t", "key", Some("late"), None);
        c.run_ms(3_000);
        assert!(c.extents("t-0").starts_with("1:3..4 [3]"), "{}", c.extents("t-0"));
        c.give(Command::Thaw(Target::Client("reader".into())));
        let out_of_range = c.until_event("its position is out of range", 60_000, |event| {
            matches!(event, Event::PositionOutOfRange { .. })
        });
        let set_to = c.until_event(
            "it is reset",
            5_000,
            |event| matches!(event, Event::PositionSet { offset, .. } if *offset == Offset(to)),
        );
        assert!(set_to >= out_of_range, "{reset}");
    }
}

#[test]
fn a_follower_that_missed_the_deletion_begins_where_its_leaders_log_does_r_repl_37() {
    let mut c = every_second(&[("retention.ms", "5000"), ("segment.ms", "1000")]);
    hundreds(&mut c, 2);
    c.kill(3);
    c.until("broker 3 is out", 15_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
    hundreds(&mut c, 3);
    c.run_ms(40_000 - c.now_ms());
    c.record("t", "key", Some("late"), None);
    assert!(c.extents("t-0").starts_with("1:5..6 [5]"), "{}", c.extents("t-0"));
    c.start(3);
    c.until("broker 3 is back", 30_000, |c| c.registration("t-0") == "1 e0 isr[1,2,3]");
    assert!(c.extents("t-0").ends_with("3:5..6 [5]"), "{}", c.extents("t-0"));
    assert!(starts_moved(&c).contains(&(3, false, 0, 5, LogStartReason::Leader)));
    c.kill(1);
    c.until("another leads", 20_000, |c| !c.registration("t-0").starts_with("1 "));
    hundreds(&mut c, 1);
    c.run_ms(1_000);
    let ends: Vec<i64> =
        [2, 3].map(|id| c.partition(id, "t-0").expect("a replica").log.log_end_offset().0).into();
    assert_eq!(ends, [7, 7]);
}

#[test]
fn a_producer_learns_the_log_start_from_each_answer_r_log_30() {
    use glassbroker::kafka::protocol::Response;
    use glassbroker::sim::Packet;

    let mut c = every_second(&[("retention.ms", "5000"), ("segment.ms", "1000")]);
    hundreds(&mut c, 3);
    c.run_ms(45_000 - c.now_ms());
    assert!(c.extents("t-0").starts_with("1:3..3"));
    c.producer("p", "t", "100/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.send("p", 1);
    let told = |c: &Cluster| {
        c.world.flights().find_map(|flight| match flight.packet {
            Packet::Response { response, .. } => match &*response {
                Response::Produce(answer) => {
                    Some(answer.responses[0].partition_responses[0].log_start_offset)
                }
                _ => None,
            },
            _ => None,
        })
    };
    c.until("the answer is under way", 1_000, |c| told(c).is_some());
    assert_eq!(told(&c), Some(3));
    assert_eq!(c.partition(1, "t-0").map(|partition| partition.log.log_start_offset()), Some(Offset(3)));
    assert!(c.world.broker(BrokerId(1)).is_some());
}

#[test]
fn a_producer_that_was_silent_for_long_is_forgotten_r_prod_28() {
    let broker_config = config(&[
        ("producer.id.expiration.ms", "60000"),
        ("producer.id.expiration.check.interval.ms", "30000"),
    ]);
    let mut c =
        cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 1, 3, &[]);
    let made_ms = c.now_ms();
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    c.run_ms(2_000);
    let known = |c: &Cluster| {
        let count = |id| c.partition(id, "t-0").map(|partition| partition.log.producers().iter().count());
        [count(1), count(2), count(3)]
    };
    assert_eq!(known(&c), [Some(1); 3], "followers know it too");
    c.run_ms(made_ms + 62_000 - c.now_ms());
    assert_eq!(known(&c), [Some(1); 3], "at the second check it was silent for less");
    c.run_ms(made_ms + 92_000 - c.now_ms());
    assert_eq!(known(&c), [Some(0); 3]);
}

#[test]
fn each_log_is_looked_through_an_interval_after_it_was_made_r_prod_28() {
    let broker_config = config(&[
        ("producer.id.expiration.ms", "10000"),
        ("producer.id.expiration.check.interval.ms", "30000"),
    ]);
    let mut c =
        cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 1, 1, &[]);
    let made_ms = c.now_ms();
    c.run_ms(15_000);
    let mut c = c.topic("u", 1, 1, &[]);
    for (producer, topic) in [("p", "t"), ("q", "u")] {
        c.producer(producer, topic, "100/s", &[]);
        c.send(producer, 1);
    }
    c.run_ms(2_000);
    let known = |c: &Cluster, tp: &str| -> usize {
        let count = |id| c.partition(id, tp).map_or(0, |partition| partition.log.producers().iter().count());
        [1, 2, 3].map(count).iter().sum()
    };
    assert_eq!((known(&c, "t-0"), known(&c, "u-0")), (1, 1));
    c.run_ms(made_ms + 32_000 - c.now_ms());
    assert_eq!((known(&c, "t-0"), known(&c, "u-0")), (0, 1), "the second log is not as old");
    c.run_ms(18_000);
    assert_eq!((known(&c, "t-0"), known(&c, "u-0")), (0, 0));
}

/// A53: committed 5; segments [0-9], [10-19] and [20-29], of which retention left the last.
fn outrun() -> Cluster {
    let mut c = every_second(&[("internal.segment.bytes", "1000"), ("retention.bytes", "1000")]);
    hundreds(&mut c, 5);
    c.consumer("first", "g", &["t"], &["poll", "commit"], &[("auto.offset.reset", "earliest"), MANUAL]);
    let committed = |event: &Event| matches!(event, Event::CommitConfirmed { offsets, .. } if offsets == &[(tp("t-0"), Offset(5))]);
    c.until_event("it has committed 5", 20_000, committed);
    c.give(Command::Close("first".into()));
    hundreds(&mut c, 25);
    c.until("two segments are gone", 60_000, |c| c.extents("t-0").starts_with("1:20..30 [20]"));
    c
}

const MANUAL: (&str, &str) = ("enable.auto.commit", "false");

#[test]
fn a53_who_is_behind_retention_is_moved_as_auto_offset_reset_says_r_cons_13() {
    let check = |strategy: &str, position: i64| {
        let mut c = outrun();
        c.consumer("again", "g", &["t"], &["poll", "process 1h"], &[("auto.offset.reset", strategy), MANUAL]);
        let out_of_range =
            |event: &Event| matches!(event, Event::PositionOutOfRange { offset: Offset(5), .. });
        c.until_event("what is committed is out of range", 20_000, out_of_range);
        let set = |event: &Event| match event {
            Event::PositionSet { client, offset, .. } if client.as_str() == "again" => Some(offset.0),
            _ => None,
        };
        c.run_ms(2_000);
        let positions: Vec<i64> = c.events().filter_map(set).collect();
        assert_eq!(positions, [5, position], "{strategy}");
        let read = c.consumer_state("again").program().batch().len() as i64;
        assert_eq!(read, 30 - position, "{strategy}: 15 records or 25 are lost to it");
    };
    check("earliest", 20);
    check("latest", 30);
}

#[test]
fn a53_without_a_reset_policy_the_program_ends_r_cons_13() {
    let mut c = outrun();
    c.consumer("again", "g", &["t"], &["poll"], &[("auto.offset.reset", "none"), MANUAL]);
    let fails =
        |event: &Event| matches!(event, Event::ClientFailed { error: ErrorCode::OffsetOutOfRange, .. });
    c.until_event("it ends", 20_000, fails);
}
