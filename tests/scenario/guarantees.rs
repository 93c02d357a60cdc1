//! What a program's order of lines promises: the outcome of a crash at every line, counted record by record.
//!
//! Ten records, four to a poll. A first consumer is killed at a line, at any of its first passages; a second one, which
//! runs the same program, takes over. What both have processed is counted.

use glassbroker::kafka::event::Event;
use glassbroker::lab::ledger::{GroupCount, Within};

use crate::dsl::{Cluster, cluster};
use crate::programs::{MANUAL, is_halted, read, ten_records};

/// How often each record was processed, by whomever.
fn processed(c: &Cluster) -> Vec<usize> {
    let mut counts = vec![0; 10];
    for event in c.events() {
        if let Event::Processed { offset, .. } = event {
            counts[offset.0 as usize] += 1;
        }
    }
    counts
}

/// The counts after a crash there and a second run of the program to its end.
fn crashed(program: &[&str], config: &[(&str, &str)], place: &str) -> Vec<usize> {
    let mut c = ten_records();
    let config = [config, &[("max.poll.records", "4")]].concat();
    c.consumer("first", "g", &["t"], program, &config);
    c.give(read(&format!("crash first {place}")));
    c.until_event("it is killed there", 30_000, is_halted);
    c.consumer("second", "g", &["t"], program, &config);
    c.run_ms(15_000);
    let counts = processed(&c);
    check_ledger(&c, &counts);
    counts
}

/// What the ledger tells of the group is what was counted.
fn check_ledger(c: &Cluster, counts: &[usize]) {
    let totals = c.ledger().totals();
    let told = |count| totals.count_of(&"g".into(), count);
    let counted = |fits: fn(&usize) -> bool| counts.iter().copied().filter(fits).count() as i64;
    assert_eq!(told(GroupCount::Processed), counted(|times| *times > 0), "{counts:?}");
    assert_eq!(told(GroupCount::ProcessedTwice), counted(|times| *times > 1), "{counts:?}");
    assert_eq!(told(GroupCount::Missed), counted(|times| *times == 0), "{counts:?}");
}

/// What came of crashes at all lines of a program: whether any record was lost, and whether any came twice.
fn outcome(program: &[&str], config: &[(&str, &str)]) -> (bool, bool) {
    let (mut loses, mut repeats) = (false, false);
    for line in 1..=program.len() {
        for passage in 1..=2 {
            for side in ["at", "after"] {
                let place = format!("{side} line {line} passage {passage}");
                let counts = crashed(program, config, &place);
                assert!(counts.iter().all(|count| *count <= 2), "{place}: {counts:?}");
                loses |= counts.contains(&0);
                repeats |= counts.contains(&2);
            }
        }
    }
    (loses, repeats)
}

const LOSES: (bool, bool) = (true, false);
const REPEATS: (bool, bool) = (false, true);

#[test]
fn a_commit_after_processing_repeats_and_never_loses_wherever_the_program_is_killed() {
    assert_eq!(outcome(&["poll", "process 10ms", "commit"], &MANUAL), REPEATS, "R-CONS-18");
    assert_eq!(outcome(&["poll", "process 10ms", "commit record"], &MANUAL), REPEATS, "R-CONS-15");
}

#[test]
fn a_commit_before_processing_loses_and_never_repeats_wherever_the_program_is_killed() {
    assert_eq!(outcome(&["poll", "commit", "process 10ms"], &MANUAL), LOSES, "R-CONS-18");
    assert_eq!(outcome(&["poll", "commit record", "process 10ms"], &MANUAL), LOSES, "R-CONS-15");
}

/// A49 (a): the interval is over at every poll, so each poll commits what the one before returned.
#[test]
fn automatic_commits_in_the_poll_loop_repeat_and_never_lose_wherever_the_program_is_killed() {
    let reset = ("auto.offset.reset", "earliest");
    let config = [reset, ("auto.commit.interval.ms", "150"), ("session.timeout.ms", "6000")];
    assert_eq!(outcome(&["poll", "process 50ms"], &config), REPEATS, "R-CONS-17, R-CONS-18");
}

/// A client of a profile that is killed when the automatic commit is confirmed, `ms` later; where the next one begins.
fn killed_after_the_commit(client: &str, ms: i64) -> (Vec<usize>, i64, String) {
    let mut c = ten_records();
    let configs = "auto.offset.reset=earliest session.timeout.ms=6000";
    c.give(read(&format!("add consumer first to g topics t {client} {configs}")));
    c.until_event("the first automatic commit", 60_000, |event| {
        matches!(event, Event::CommitConfirmed { automatic: true, .. })
    });
    c.run_ms(ms);
    c.give(read("crash first"));
    let before = processed(&c);
    c.give(read(&format!("add consumer second to g topics t program \"poll; process 1ms\" {configs}")));
    c.until_event(
        "the second takes over",
        60_000,
        |event| matches!(event, Event::PositionSet { client, .. } if client.as_str() == "second"),
    );
    let begins = c.events().rev().find_map(|event| match event {
        Event::PositionSet { offset, .. } => Some(offset.0),
        _ => None,
    });
    c.run_ms(10_000);
    (before, begins.expect("just seen"), c.outcome_of("g", "t"))
}

/// A49 (b), R-CONS-18: the commit is of what poll() returned, whatever the worker has done.
#[test]
fn a49_automatic_commits_lose_what_was_handed_to_workers_and_not_done() {
    let (done, begins, outcome) =
        killed_after_the_commit("profile java-hand-off program \"poll; hand off 1100ms to 1 workers\"", 0);
    assert_eq!(begins, 10, "all ten are committed");
    assert!(done[9] == 0 && done[0] == 1, "and the last was never done: {done:?}");
    let finished = done.iter().filter(|times| **times > 0).count();
    assert_eq!(outcome, format!("delivered 10, processed {finished}, missed {}", 10 - finished));
}

/// A49 (c): the record in hand counts as done from the moment at which librdkafka hands it over.
#[test]
fn a49_librdkafkas_timer_loses_the_record_in_hand_and_repeats_what_finished_since() {
    let client = "profile librdkafka program \"poll; process 1100ms\"";
    let (done, begins, outcome) = killed_after_the_commit(client, 0);
    let in_hand = done.iter().position(|count| *count == 0).expect("one is in hand") as i64;
    assert_eq!(begins, in_hand + 1, "the record in hand is lost, nothing else: {done:?}");
    assert_eq!(outcome, "delivered 10, processed 9, missed 1");
    let (done, begins, outcome) = killed_after_the_commit(client, 3_000);
    assert!(outcome.starts_with("delivered 10, processed 10, processed twice "), "{outcome}");
    let in_hand = done.iter().position(|count| *count == 0).expect("one is in hand") as i64;
    assert!((1..=3).contains(&(in_hand - begins)), "what finished since the tick comes again: {done:?}");
}

#[test]
fn a_commit_of_what_the_workers_have_done_repeats_and_never_loses_wherever_the_program_is_killed() {
    assert_eq!(outcome(&["poll", "hand off 2ms to 2 workers", "commit done"], &MANUAL), REPEATS);
}

/// EX-34, R-CONS-4, R-CONS-15: what a poll() returns is a part of what was fetched, and a commit is of that part.
#[test]
fn ex_34_a_commit_after_the_first_of_three_polls_of_one_answer_is_of_what_it_returned() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "1000/s", &[]);
    c.send("p", 1_200);
    c.run_ms(1_000);
    let polls = |c: &Cluster, name: &str| -> Vec<i64> {
        let of = |event: &Event| match event {
            Event::Polled { client, records, .. } if client.as_str() == name => Some(*records),
            _ => None,
        };
        c.events().filter_map(of).collect()
    };
    let program = ["poll", "process 1ms", "commit"];
    c.consumer("first", "g", &["t"], &program, &MANUAL);
    c.give(read("crash first after commit"));
    c.until_event("it is killed there", 60_000, is_halted);
    assert_eq!(polls(&c, "first"), [500]);
    assert_eq!(c.outcome_of("g", "t"), "delivered 500, processed 500, waiting 700");
    c.consumer("second", "g", &["t"], &program, &MANUAL);
    c.run_ms(30_000);
    assert_eq!(polls(&c, "second"), [500, 200]);
    assert_eq!(c.outcome_of("g", "t"), "delivered 1200, processed 1200");
}

/// A67: a group with a great lag that keeps up, and one with a small lag that is slow. What tells them apart is how old the
/// oldest record is that waits.
#[test]
fn a67_the_group_with_the_smaller_lag_is_the_one_that_is_late() {
    let mut c = cluster(3).topic("quick", 1, 3, &[]).topic("slow", 1, 3, &[]);
    let config = [("auto.offset.reset", "earliest"), ("max.poll.records", "1")];
    for (name, burst, rate, work) in
        [("quick", 100, "49/s", "process 20ms"), ("slow", 20, "1/2s", "process 2s")]
    {
        let producer = format!("burst-{name}");
        c.producer(&producer, name, "1000/s", &[]);
        c.send(&producer, burst);
        c.give(read(&format!("add producer steady-{name} to {name} rate {rate} keys key")));
        c.consumer(name, name, &[name], &["poll", work], &config);
    }
    c.run_ms(60_000);
    let totals = c.ledger().totals();
    let waits = |group: &str| {
        let of_group = totals.group(&group.into(), &Within::All);
        let oldest = of_group.first_of(GroupCount::Waiting).expect("some wait");
        (of_group.count_of(GroupCount::Waiting), c.now_ms() - oldest.made.time.ms())
    };
    let ((many, young_ms), (few, old_ms)) = (waits("quick"), waits("slow"));
    assert!(many > 100 && few < 40, "{many} and {few} records");
    assert!(young_ms < 10_000 && old_ms > 30_000, "{young_ms} and {old_ms} ms");
}
