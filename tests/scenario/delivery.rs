//! What is delivered how often: EX-16, and commits by the program and by the clock.

use glassbroker::kafka::event::{Event, GroupEvent, MemberRemoval};
use glassbroker::kafka::types::{BrokerId, Offset, ProducerEpoch};
use glassbroker::lab::command::{Written, parse};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster, controller, tp};

/// Ten records in t-0.
fn ten_records() -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 10);
    c.run_ms(1_000);
    c
}

fn processed(c: &Cluster, offset: i64) -> usize {
    let done = c
        .events()
        .filter(|event| matches!(event, Event::Processed { offset: Offset(o), .. } if *o == offset));
    done.count()
}

#[test]
fn ex_16_a_crash_before_the_commit_makes_the_next_member_do_it_again() {
    let mut c = ten_records();
    let config = &[("max.poll.records", "10"), ("auto.offset.reset", "earliest")];
    c.consumer("first", "g", &["t"], &["poll", "process 500ms"], config);
    c.until("records 0 to 6 are processed", 30_000, |c| processed(c, 6) == 1);
    let owned = c.consumer_state("first").subscription().owned()[&tp("t-0")];
    assert_eq!(
        owned.position().map(|position| position.offset),
        Some(Offset(10)),
        "R-CONS-5: poll() returned all ten"
    );
    assert_eq!(owned.committed, None, "R-CONS-17: auto-commit waits for the next poll()");
    c.give(Command::Crash("first".into()));
    c.consumer("second", "g", &["t"], &["poll", "process 500ms"], config);
    c.until_event("the join phase waits for the dead member's session", 60_000, |event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { reason: MemberRemoval::SessionExpired, .. }))
    });
    c.until("everything is processed", 30_000, |c| processed(c, 9) == 1);
    let counts: Vec<usize> = (0..10).map(|offset| processed(&c, offset)).collect();
    assert_eq!(counts, [2, 2, 2, 2, 2, 2, 2, 1, 1, 1], "0 to 6 twice, nothing lost");
}

#[test]
fn ex_16_with_a_commit_after_each_batch_nothing_is_done_twice() {
    let mut c = ten_records();
    let config =
        &[("max.poll.records", "7"), ("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    c.consumer("first", "g", &["t"], &["poll", "process 500ms", "commit"], config);
    c.until_event("7 is committed", 30_000, |event| {
        matches!(event, Event::CommitConfirmed { offsets, automatic: false, .. } if offsets[0].1 == Offset(7))
    });
    c.give(Command::Crash("first".into()));
    c.consumer("second", "g", &["t"], &["poll", "process 500ms", "commit"], config);
    c.until("everything is processed", 90_000, |c| processed(c, 9) == 1);
    let counts: Vec<usize> = (0..10).map(|offset| processed(&c, offset)).collect();
    assert_eq!(counts, [1; 10], "R-CONS-15: the commit names the next record to read");
}

#[test]
fn auto_commit_happens_inside_poll_and_holds_what_earlier_polls_returned() {
    let mut c = ten_records();
    let config = &[("auto.offset.reset", "earliest"), ("max.poll.records", "2")];
    c.consumer("a", "g", &["t"], &["poll", "process 2s"], config);
    let first = c.until_event("the first automatic commit", 30_000, |event| {
        matches!(event, Event::CommitConfirmed { automatic: true, .. })
    });
    let polled = c.time_of("the first poll", |event| matches!(event, Event::Polled { .. }));
    assert!(first - polled >= 5_000 - 1_500, "R-CONS-17: not before auto.commit.interval.ms");
    let committed = c.events().find_map(|event| match event {
        Event::CommitConfirmed { offsets, .. } => Some(offsets[0].1),
        _ => None,
    });
    let returned: Vec<_> = c
        .entries()
        .filter_map(|entry| match &entry.event {
            Event::Polled { to, .. } if entry.key.time.ms() < first - 10 => Some(*to),
            _ => None,
        })
        .collect();
    assert!(
        returned.contains(&committed.expect("seen")),
        "R-CONS-19: what was returned, not what was fetched"
    );
}

/// A49: ten records of 1.1 s each, a crash 5.3 s after the poll that returned them; and what who takes over begins with.
fn crashed_in_the_fifth(program: &[&str]) -> (Vec<i64>, i64, String) {
    let mut c = ten_records();
    let config = &[("auto.offset.reset", "earliest")];
    c.consumer("first", "g", &["t"], program, config);
    c.until_event("all are returned", 30_000, |event| matches!(event, Event::Polled { to: Offset(10), .. }));
    c.run_ms(5_300);
    c.give(Command::Crash("first".into()));
    c.consumer("second", "g", &["t"], &["poll", "process 1ms"], config);
    c.until_event(
        "its session is over",
        60_000,
        |event| matches!(event, Event::PositionSet { client, .. } if client.as_str() == "second"),
    );
    let finished = (0..10).filter(|offset| processed(&c, *offset) > 0).collect();
    let begins = c.events().rev().find_map(|event| match event {
        Event::PositionSet { offset, .. } => Some(offset.0),
        _ => None,
    });
    c.run_ms(10_000);
    (finished, begins.expect("just seen"), c.outcome_of("g", "t"))
}

#[test]
fn a49_automatic_commits_in_the_loop_repeat_and_with_a_worker_beside_it_they_lose_r_cons_18() {
    let (finished, begins, outcome) = crashed_in_the_fifth(&["poll", "process 1100ms"]);
    assert_eq!((finished, begins), (vec![0, 1, 2, 3], 0), "0 to 3 come again");
    assert_eq!(outcome, "delivered 10, processed 10, processed twice 4");
    let (finished, begins, outcome) = crashed_in_the_fifth(&["poll", "hand off 1100ms to 1 workers"]);
    assert_eq!((finished, begins), (vec![0, 1, 2, 3], 10), "the poll after 5 s committed all ten");
    assert_eq!(outcome, "delivered 10, processed 4, missed 6", "4 to 9 never come");
}

/// R-CONS-12.
#[test]
fn a_consumer_that_starts_at_latest_skips_what_was_there() {
    let mut c = ten_records();
    c.consumer("late", "g", &["t"], &["poll"], &[]);
    c.until_event("it starts at the high watermark (R-CONS-11)", 20_000, |event| {
        matches!(event, Event::PositionSet { offset: Offset(10), .. })
    });
}

#[test]
fn an_idempotent_producer_leaves_each_record_once_and_in_order_through_a_leader_s_death() {
    let mut c = cluster(3).topic("t", 1, 3, &[("min.insync.replicas", "2")]);
    c.producer("p", "t", "50/s", &[]);
    c.give(Command::Resume("p".into()));
    c.run_ms(1_000);
    c.kill(1);
    c.run_ms(20_000);
    c.start(1);
    c.run_ms(20_000);
    c.give(Command::Pause("p".into()));
    c.run_ms(20_000);
    let counts = c.producer_state("p").counts();
    let values = c.values(2, "t-0", 0);
    assert_eq!((counts.acknowledged, counts.failed), (counts.sent, 0));
    assert_eq!(values.len() as i64, counts.sent, "R-PROD-25");
    let numbers: Vec<i64> = values.iter().map(|value| number(value)).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "R-PROD-21: {numbers:?}");
    let done: Vec<Offset> = c
        .events()
        .filter_map(|event| match event {
            Event::BatchAcknowledged { base_offset, .. } => Some(*base_offset),
            _ => None,
        })
        .collect();
    assert!(done.is_sorted(), "R-PROD-7: {done:?}");
    assert_eq!(c.values(1, "t-0", 0), values);
}

/// The record's own number, in its value's text.
fn number(value: &str) -> i64 {
    let digits: String =
        value.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number in {value}"))
}

#[test]
fn with_acks_0_a_record_is_done_when_it_is_sent_and_its_offset_is_not_known() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[("acks", "0"), ("enable.idempotence", "false")]);
    c.send("p", 3);
    c.run_ms(500);
    assert_eq!(c.values(1, "t-0", 0).len(), 3);
    let offset = |event: &Event| match event {
        Event::BatchAcknowledged { base_offset, .. } => Some(*base_offset),
        _ => None,
    };
    let offsets: Vec<Offset> = c.events().filter_map(offset).collect();
    assert!(
        !offsets.is_empty() && offsets.iter().all(|offset| *offset == Offset::UNKNOWN),
        "R-REPL-29: {offsets:?}"
    );
}

/// R-PROD-29, R-REPL-68, 69: idempotence ends where the producer raises its epoch. A client with no broker left to ask
/// bootstraps anew and forgets topic ids, so it believes a leader that was fenced long ago; that one misses the
/// sequence, and what the true leader still held unread is sent a second time under the new epoch.
#[test]
fn a_fenced_leader_found_by_bootstrapping_anew_lets_a_record_stand_twice() {
    let mut c = cluster(3).topic("t", 1, 3, &[("min.insync.replicas", "1")]);
    // So long that the only known broker is still not to be asked when the metadata is due.
    c.producer("p", "t", "100/s", &[("reconnect.backoff.ms", "1000")]);
    c.send("p", 3);
    c.run_ms(1_000);
    let broker = |id| Target::Broker(BrokerId(id));
    let links =
        |id| [broker(2), broker(3), controller(101), Target::Client("p".into())].map(|b| (broker(id), b));
    for (a, b) in links(1) {
        c.give(Command::Cut { a: b, b: a });
    }
    c.until("another broker leads", 60_000, |c| c.registration("t-0") == "2 e1 isr[2,3]");
    c.send("p", 3);
    c.until("all six are acknowledged", 120_000, |c| c.producer_state("p").counts().acknowledged == 6);
    c.run_ms(5_000);
    c.kill(3);
    c.until("the true leader is alone", 60_000, |c| c.registration("t-0") == "2 e1 isr[2]");
    c.run_ms(5_000);
    c.give(Command::Freeze(broker(2)));
    c.send("p", 1);
    c.run_ms(100);
    c.give(Command::Heal { a: Target::Client("p".into()), b: broker(1) });
    c.until_event("the producer raises its epoch", 120_000, |event| {
        matches!(event, Event::ProducerIdGiven { epoch: ProducerEpoch(1), .. })
    });
    c.give(Command::Thaw(broker(2)));
    for other in [broker(2), broker(3), controller(101)] {
        c.give(Command::Heal { a: other, b: broker(1) });
    }
    c.start(3);
    c.until("everything is acknowledged", 120_000, |c| c.producer_state("p").counts().acknowledged == 7);
    let numbers: Vec<String> = c
        .values(2, "t-0", 0)
        .iter()
        .map(|value| value[..value.find(',').expect("two fields")].to_owned())
        .collect();
    let expected = [1, 2, 3, 4, 5, 6, 7, 7].map(|number| format!("{{\"n\":{number}"));
    assert_eq!(numbers, expected, "{}", c.report());
}

/// A48: what is committed is where to go on, not what was finished.
#[test]
fn a48_who_commits_the_last_records_own_offset_reads_it_again_after_every_restart_r_cons_11() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    let manual = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    let finished = |c: &Cluster, name: &str| -> Vec<i64> {
        let of = |event: &Event| match event {
            Event::Processed { client, offset, .. } if client.as_str() == name => Some(offset.0),
            _ => None,
        };
        c.events().filter_map(of).collect()
    };
    let run = |c: &mut Cluster, name: &str| {
        c.consumer(name, "g", &["t"], &["poll", "process 1ms"], &manual);
        c.run_ms(10_000);
        c.give(Command::Close(name.into()));
        c.run_ms(2_000);
    };
    run(&mut c, "first");
    assert_eq!(finished(&c, "first"), [0, 1, 2]);
    let order = parse("reset offsets of group g topic t to offset 2").expect("a command");
    let Written::Whole(order) = order else { panic!("{order:?}") };
    c.give(order);
    c.run_ms(2_000);
    for restarted in ["second", "third"] {
        run(&mut c, restarted);
        assert_eq!(finished(&c, restarted), [2], "once more");
    }
}
