//! High watermark, in-sync set, election, truncation: EX-1 to EX-6.

use glassbroker::kafka::event::{ChangeReason, Event, TruncationReason};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, LeaderEpoch, Offset};

use crate::dsl::{Cluster, cluster, ids, tp};

/// Each different picture of the replicas while `ms` go by.
fn pictures(c: &mut Cluster, name: &str, ms: i64) -> Vec<String> {
    let end = c.world.now().plus_ms(ms);
    let mut seen = vec![c.replicas(name)];
    while c.world.next_at().is_some_and(|at| at <= end) {
        c.world.step();
        let picture = c.replicas(name);
        if seen.last() != Some(&picture) {
            seen.push(picture);
        }
    }
    seen
}

/// Ten records on all three replicas of t-0, leader 1, everything committed and known to be.
fn ten_records(pairs: &[(&str, &str)]) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, pairs);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 10);
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "1:10/10 2:10/10 3:10/10");
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2,3]");
    c
}

#[test]
fn ex_1_the_high_watermark_moves_when_the_slowest_in_sync_follower_asks_for_more() {
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    c.until("the reader waits for the next record", 20_000, |c| position(c) == Some(10));
    c.run_ms(2_000);
    c.send("p", 1);
    let seen = pictures(&mut c, "t-0", 1_000);
    // R-REPL-9, 12, 15, 16: followers hear of the new high watermark one fetch later than the leader knows it.
    let expected = [
        "1:10/10 2:10/10 3:10/10",
        "1:11/10 2:10/10 3:10/10",
        "1:11/10 2:11/10 3:10/10",
        "1:11/10 2:11/10 3:11/10",
        "1:11/11 2:11/10 3:11/10",
        "1:11/11 2:11/11 3:11/10",
        "1:11/11 2:11/11 3:11/11",
    ];
    assert_eq!(seen, expected, "{}", c.report());
    let advanced = c.time_of("HW 11", |event| {
        matches!(event, Event::HighWatermarkAdvanced { leader: true, tp: p, to: Offset(11), .. } if *p == tp("t-0"))
    });
    let followers: Vec<_> = c
        .entries()
        .filter(|entry| {
            matches!(&entry.event, Event::HighWatermarkAdvanced { leader: false, tp: p, to: Offset(11), .. } if *p == tp("t-0"))
        })
        .collect();
    assert_eq!(followers.len(), 2, "{}", c.report());
    for entry in followers {
        let lag_ms = entry.key.time.ms() - advanced;
        assert!(
            (1..=510).contains(&lag_ms),
            "an idle follower learns of it within its wait of 500 ms: {lag_ms}"
        );
    }
    let acked = c.time_of("ack of offset 10", |event| {
        matches!(event, Event::BatchAcknowledged { base_offset: Offset(10), .. })
    });
    let visible =
        c.time_of("offset 10 is read", |event| matches!(event, Event::Polled { from: Offset(10), .. }));
    assert!(visible > advanced, "R-LOG-25: a consumer reads below the high watermark");
    assert!(acked > advanced, "R-REPL-29: acks=all answers when the high watermark has passed the record");
}

#[test]
fn ex_2_a_follower_that_stops_fetching_leaves_after_the_lag_time_and_the_retry_is_recognised() {
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    // The follower still sends heartbeats to the controller; only its fetches are lost.
    c.cut(3, 1);
    c.run_ms(1_000);
    c.send("p", 1);
    let sent = c.now_ms();
    let caught_up = sent - 1_600;
    c.until_event("the client gives up waiting", 40_000, |event| {
        matches!(event, Event::BatchRetried { error: ErrorCode::RequestTimedOut, .. })
    });
    assert!(c.now_ms() - sent <= 30_100, "R-PROD-16: request.timeout.ms");
    assert_eq!(c.partition(1, "t-0").expect("leader").log.high_watermark(), Offset(10));
    c.until_event("the repeated batch is recognised (R-PROD-25)", 2_000, |event| {
        matches!(event, Event::DuplicateBatch { base_offset: Offset(10), .. })
    });
    let proposed = c.until_event(
        "the leader proposes a smaller set",
        20_000,
        |event| matches!(event, Event::IsrChangeProposed { out_of_sync, .. } if *out_of_sync == ids(&[3])),
    );
    let lag_ms = proposed - caught_up;
    assert!(
        (30_000..=45_700).contains(&lag_ms),
        "R-REPL-21: between 30 and 45 s after it last caught up: {lag_ms}"
    );
    c.run_ms(1_000);
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2]");
    let answer =
        c.events().find(|event| matches!(event, Event::BatchAcknowledged { base_offset: Offset(10), .. }));
    assert!(answer.is_some(), "the retry is answered with the first offset\n{}", c.report());
    assert_eq!(c.values(1, "t-0", 10).len(), 1, "the log holds one copy");
}

#[test]
fn ex_3_a_dead_follower_is_removed_by_the_controller_when_its_session_ends() {
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    let contact = c.world.active_controller().and_then(|controller| controller.last_contact(BrokerId(3)));
    let contact = contact.expect("broker 3 is alive").ms();
    c.kill(3);
    c.send("p", 1);
    let fenced = c.until_event("broker 3 is fenced", 12_000, |event| {
        matches!(event, Event::BrokerFenced { broker: BrokerId(3), .. })
    });
    let silence_ms = fenced - contact;
    assert!((9_001..=10_126).contains(&silence_ms), "R-REPL-52: {silence_ms}");
    let shrunk = c.events().find_map(|event| match event {
        Event::IsrShrunk { tp: p, removed, isr, reason, .. } if *p == tp("t-0") => {
            Some((removed, isr, *reason))
        }
        _ => None,
    });
    assert_eq!(shrunk, Some((&ids(&[3]), &ids(&[1, 2]), ChangeReason::BrokerFenced)));
    c.run_ms(1_000);
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2]", "R-REPL-3: the leader stays, and so does its epoch");
    assert_eq!(c.replicas("t-0"), "1:11/11 2:11/11");
}

/// R-REPL-11.
#[test]
fn ex_4_below_min_isr_acks_all_is_refused_and_what_acks_1_wrote_stays_invisible() {
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    c.producer("loose", "t", "100/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    c.until("the reader has read all ten", 20_000, |c| position(c) == Some(10));
    c.kill(2);
    c.kill(3);
    c.until("only broker 1 is in sync", 15_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.run_ms(100);
    c.send("p", 1);
    c.until_event("R-REPL-30: refused, and nothing appended", 1_000, |event| {
        matches!(event, Event::ProduceRefused { error: ErrorCode::NotEnoughReplicas, .. })
    });
    assert_eq!(c.replicas("t-0"), "1:10/10");
    // The strict producer goes on trying; it is in nobody's way.
    c.give(glassbroker::sim::Command::Crash("p".into()));
    c.send("loose", 1);
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "1:11/10", "R-REPL-13: the high watermark stands still");
    assert_eq!(position(&c), Some(10), "nobody reads what is not committed");
    c.start(2);
    c.until("the record is visible (R-REPL-23)", 20_000, |c| position(c) == Some(11));
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2]");
}

fn position(c: &Cluster) -> Option<i64> {
    c.consumer_state("reader").subscription().position(&tp("t-0")).map(|position| position.offset.0)
}

/// R-REPL-8.
#[test]
fn ex_5_an_acks_1_record_that_no_follower_had_is_lost_with_its_leader() {
    let mut c = cluster(2).topic("t", 1, 2, &[]);
    c.producer("p", "t", "100/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.send("p", 5);
    c.run_ms(1_500);
    assert_eq!(c.replicas("t-0"), "1:5/5 2:5/5");
    c.cut(1, 2);
    c.send("p", 1);
    c.until_event("A is acknowledged", 500, |event| {
        matches!(event, Event::BatchAcknowledged { base_offset: Offset(5), .. })
    });
    let lost = c.values(1, "t-0", 5);
    c.kill(1);
    c.until("broker 2 leads", 15_000, |c| c.registration("t-0") == "2 e1 isr[2]");
    c.run_ms(100);
    c.heal(1, 2);
    c.send("p", 1);
    c.until_event("B is acknowledged at the same offset", 5_000, |event| {
        matches!(event, Event::BatchAcknowledged { base_offset: Offset(5), .. })
    });
    let kept = c.values(2, "t-0", 5);
    assert_ne!(lost, kept);
    c.start(1);
    c.until("broker 1 is back in sync", 20_000, |c| c.registration("t-0") == "2 e1 isr[1,2]");
    c.run_ms(1_000);
    let cut = c.events().find_map(|event| match event {
        Event::Truncated { broker: BrokerId(1), from, to, reason, .. } => Some((*from, *to, *reason)),
        _ => None,
    });
    let reason = TruncationReason::DivergingEpoch { epoch: LeaderEpoch(0), end_offset: Offset(5) };
    assert_eq!(cut, Some((Offset(6), Offset(5), reason)), "R-REPL-36");
    assert_eq!(c.values(1, "t-0", 5), kept, "offset 5 means B now, on both");
}

/// R-REPL-36.
/// R-REPL-35, R-REPL-8.
#[test]
fn ex_6_truncation_keeps_what_the_new_leader_has_even_above_the_high_watermark() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "200/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.send("p", 101);
    c.run_ms(1_500);
    assert_eq!(c.replicas("t-0"), "1:101/101 2:101/101 3:101/101");
    c.cut(3, 1);
    c.send("p", 2);
    c.run_ms(100);
    c.cut(2, 1);
    c.send("p", 2);
    c.run_ms(100);
    assert_eq!(c.replicas("t-0"), "1:105/101 2:103/101 3:101/101");
    let survivors = c.values(2, "t-0", 101);
    c.kill(1);
    c.until("broker 2 leads", 15_000, |c| c.registration("t-0").starts_with("2 e1"));
    c.run_ms(100);
    c.heal(1, 2);
    c.heal(1, 3);
    c.run_ms(1_500);
    assert_eq!(c.values(3, "t-0", 101), survivors, "broker 3 copies 101 and 102 without truncating");
    c.send("p", 2);
    c.run_ms(1_500);
    c.start(1);
    c.until("broker 1 is back in sync", 20_000, |c| c.registration("t-0") == "2 e1 isr[1,2,3]");
    c.run_ms(1_500);
    let cut = c.events().find_map(|event| match event {
        Event::Truncated { broker: BrokerId(1), from, to, .. } => Some((*from, *to)),
        _ => None,
    });
    assert_eq!(cut, Some((Offset(105), Offset(103))));
    let third = c.events().any(|event| matches!(event, Event::Truncated { broker: BrokerId(3), .. }));
    assert!(!third, "R-REPL-35: broker 3 goes on at its log end");
    assert_eq!(c.replicas("t-0"), "1:105/105 2:105/105 3:105/105");
    assert_eq!(c.values(1, "t-0", 101), c.values(2, "t-0", 101));
    assert_eq!(c.values(1, "t-0", 101)[..2], survivors[..]);
}

#[test]
fn a_dead_leader_is_followed_by_an_in_sync_replica_and_writes_go_on() {
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    c.kill(1);
    c.send("p", 1);
    c.until("broker 2 leads under a new epoch (R-REPL-42)", 12_000, |c| {
        c.registration("t-0") == "2 e1 isr[2,3]"
    });
    c.until_event("the record is acknowledged by the new leader", 5_000, |event| {
        matches!(event, Event::BatchAcknowledged { base_offset: Offset(10), .. })
    });
    assert_eq!(c.values(2, "t-0", 0).len(), 11, "nothing is lost and nothing is there twice");
}

#[test]
fn a_frozen_broker_is_fenced_and_comes_back_under_its_old_registration() {
    use glassbroker::sim::{Command, Target};
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    c.give(Command::Freeze(Target::Broker(BrokerId(3))));
    c.until("broker 3 is out (R-REPL-52)", 12_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
    c.send("p", 3);
    c.run_ms(500);
    c.give(Command::Thaw(Target::Broker(BrokerId(3))));
    c.until("broker 3 is in again", 10_000, |c| c.registration("t-0") == "1 e0 isr[1,2,3]");
    let registered =
        c.events().filter(|event| matches!(event, Event::BrokerRegistered { broker: BrokerId(3), .. }));
    assert_eq!(registered.count(), 1, "the same process, the same broker epoch");
}

#[test]
fn a_change_of_the_in_sync_set_that_the_metadata_log_overtook_is_made_again() {
    use glassbroker::kafka::types::ControllerId;
    use glassbroker::sim::{Command, Target};
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "500/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.give(Command::Resume("p".into()));
    c.kill(3);
    c.until("broker 3 is out", 12_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
    c.kill(2);
    c.run_ms(7_000);
    c.start(3);
    c.until_event("broker 1 wants broker 3 in", 1_000, |event| {
        matches!(event, Event::IsrChangeProposed { broker: BrokerId(1), isr, .. } if *isr == ids(&[1, 2, 3]))
    });
    let (a, b) = (Target::Broker(BrokerId(1)), Target::Controller(ControllerId(101)));
    c.give(Command::Cut { a: a.clone(), b: b.clone() });
    c.until("the controller takes broker 2 out", 4_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.run_ms(100);
    c.give(Command::Heal { a, b });
    c.until_event("the first request comes too late (R-REPL-25)", 1_000, |event| {
        matches!(event, Event::IsrChangeRefused { error: ErrorCode::InvalidUpdateVersion, .. })
    });
    c.until("the second one is made all the same (R-REPL-26)", 1_000, |c| {
        c.registration("t-0") == "1 e0 isr[1,3]"
    });
}
