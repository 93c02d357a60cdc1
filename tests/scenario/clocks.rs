//! Slow links, and clocks that are wrong: what goes by them and what does not.

use glassbroker::kafka::event::Event;
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::{BrokerId, ClientName};
use glassbroker::sim::{Command, Target};

use crate::dsl::*;

fn broker(id: i32) -> Target {
    Target::Broker(BrokerId(id))
}

/// The leader of `t-0`.
fn leader(c: &Cluster) -> i32 {
    (1..=3).find(|id| c.partition(*id, "t-0").is_some_and(|p| p.is_leader())).expect("a leader")
}

/// The timestamp of the last record of the leader's log, from the run's start on.
fn last_timestamp_ms(c: &Cluster) -> i64 {
    let log = &c.partition(leader(c), "t-0").expect("a replica").log;
    let last = log.tail(1).expect("sound batches").pop().expect("a record");
    last.timestamp_ms - Time::ZERO.wall_ms()
}

#[test]
fn a_slow_link_makes_acks_all_wait_for_the_follower_behind_it_r_repl_29() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "1/s", &[]);
    let (leads, other) = (leader(&c), if leader(&c) == 1 { 2 } else { 1 });
    let latency_ms = |c: &mut Cluster| {
        let seen = c.world.trace().len_ever();
        c.send("p", 1);
        c.until_event("an acknowledgement", 10_000, |event| matches!(event, Event::BatchAcknowledged { .. }));
        let found = c.world.trace().since(seen).find_map(|entry| match &entry.event {
            Event::BatchAcknowledged { latency_ms, .. } => Some(*latency_ms),
            _ => None,
        });
        found.expect("just seen")
    };
    let before_ms = latency_ms(&mut c);
    let slow = |by_us| Command::Slow { a: broker(leads), b: broker(other), by_us };
    c.give(slow(300_000));
    c.run_ms(1_000);
    let slow_ms = latency_ms(&mut c);
    assert!(before_ms < 50 && slow_ms >= 300, "{before_ms} ms, then {slow_ms} ms");
    assert!(c.registration("t-0").ends_with("isr[1,2,3]"), "slow is not lagging (R-REPL-19)");
    c.give(slow(0));
    c.run_ms(1_000);
    assert!(latency_ms(&mut c) < 50);
}

#[test]
fn a_record_has_the_timestamp_of_its_producers_clock_or_of_its_leaders_r_log_18() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "1/s", &[]);
    let ahead = |target, ahead_ms| Command::SetClock { target, ahead_ms };
    c.give(ahead(Target::Client(ClientName::new("p")), 60_000));
    c.send("p", 1);
    c.run_ms(1_000);
    assert!((last_timestamp_ms(&c) - c.now_ms() - 60_000).abs() < 2_500, "{}", last_timestamp_ms(&c));
    let (topic, key) = ("t".into(), "message.timestamp.type".to_string());
    c.give(Command::SetTopicConfig { topic, key, value: Some("LogAppendTime".to_string()) });
    c.give(ahead(broker(leader(&c)), -120_000));
    c.run_ms(500);
    c.send("p", 1);
    c.run_ms(1_000);
    assert!((last_timestamp_ms(&c) - c.now_ms() + 120_000).abs() < 2_500, "{}", last_timestamp_ms(&c));
}

#[test]
fn a_producer_whose_clock_is_far_ahead_is_refused_r_log_19() {
    let mut c = cluster(3).topic("t", 1, 3, &[("message.timestamp.after.max.ms", "60000")]);
    c.producer("p", "t", "1/s", &[]);
    let target = Target::Client(ClientName::new("p"));
    c.give(Command::SetClock { target, ahead_ms: 120_000 });
    c.send("p", 1);
    c.until_event("a refusal", 10_000, |event| matches!(event, Event::BatchFailed { .. }));
}

#[test]
fn a_wrong_clock_fences_nobody_and_lets_nobody_lag_r_repl_19_52() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "5/s", &[]);
    c.give(Command::Resume("p".into()));
    let registration = c.registration("t-0");
    for (id, ahead_ms) in [(1, 3_600_000), (2, -3_600_000)] {
        c.give(Command::SetClock { target: broker(id), ahead_ms });
    }
    c.give(Command::SetClock { target: controller(101), ahead_ms: 7_200_000 });
    c.run_ms(60_000);
    assert_eq!(c.registration("t-0"), registration);
    assert!((1..=3).all(|id| c.is_in_service(id)));
}

#[test]
fn what_a_link_or_a_clock_cannot_be_is_refused() {
    let mut c = cluster(3);
    let mut check = |command, reason: &str| {
        let refusal = c.try_give(command).expect_err(reason);
        assert!(refusal.reason.contains(reason), "{refusal}");
    };
    let slow = |a, b, by_us| Command::Slow { a: broker(a), b: broker(b), by_us };
    check(slow(1, 1, 5), "two different ends");
    check(slow(1, 2, 0), "as slow as that already");
    check(slow(1, 2, i64::MAX), "at most one hour");
    check(slow(1, 9, 5), "there is no broker 9");
    let clock = |id, ahead_ms| Command::SetClock { target: broker(id), ahead_ms };
    check(clock(1, 0), "shows this already");
    check(clock(1, i64::MAX), "at most a year");
    check(clock(9, 5), "there is no broker 9");
}
