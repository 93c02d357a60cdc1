//! Consume, process, produce: what reaches the output when the application is killed at every line, and in what ways
//! transactions do not help; at transaction version 2 and, where producers add partitions themselves and keep their epochs,
//! at version 1 (R-TXN-5).

use glassbroker::kafka::event::{ApplicationEvent, Event};
use glassbroker::kafka::types::ClientName;
use glassbroker::lab::ledger::GroupCount;

use crate::dsl::{Cluster, cluster_at};
use crate::programs::{is_halted, read, ten_records, ten_records_on};

const EXACTLY_ONCE: &str = "poll; begin; process 10ms; send results; send offsets; commit transaction";
const CONFIGS: &str =
    "transactional.id=tx-1 auto.offset.reset=earliest session.timeout.ms=6000 max.poll.records=4";

/// `transaction.version` of the clusters.
const VERSIONS: [i16; 2] = [2, 1];

/// Ten records in t-0, an empty topic `out`, and an application.
fn started(version: i16, program: &str, configs: &str) -> Cluster {
    let mut c = ten_records_on(cluster_at(version, &[])).topic("out", 1, 3, &[]);
    c.give(read(&format!("add application first to g topics t output out program \"{program}\" {configs}")));
    c
}

/// How often each of the ten results is returned to a reader of `out` with this isolation.
fn results(c: &mut Cluster, isolation: &str) -> Vec<usize> {
    let name = format!("reader-{isolation}");
    c.give(read(&format!(
        "add consumer {name} without group partitions out-0 program \"poll; process 0ms\" \
         auto.offset.reset=earliest isolation.level={isolation}"
    )));
    c.run_ms(5_000);
    let leader = c.registration("out-0").split(' ').next().and_then(|id| id.parse().ok());
    let stored = c.records(leader.expect("a leader"), "out-0");
    // As in `7 t-0@3={"result of":"t-0@3"}`.
    let result_at = |offset: i64| -> usize {
        let is_it = |record: &&str| record.starts_with(&format!("{offset} t-0@"));
        let record = stored.split(", ").find(is_it).expect("it was read");
        record.split(['@', '=']).nth(1).expect("what it is of").parse().expect("an offset")
    };
    let mut counts = vec![0; 10];
    for event in c.events() {
        if let Event::Processed { client, offset, .. } = event
            && *client == ClientName::new(&name)
        {
            counts[result_at(offset.0)] += 1;
        }
    }
    counts
}

/// What the ledger tells of the applications' inputs.
fn outcome(c: &Cluster) -> String {
    c.outcome_of("g", "t")
}

/// Who takes over, with the same `transactional.id`, and gets it all done.
fn taken_over(c: &mut Cluster, program: &str, configs: &str) {
    c.give(read(&format!("add application second to g topics t output out program \"{program}\" {configs}")));
    c.run_ms(20_000);
}

/// How many inputs have a result that who reads committed data sees, and how many have two, as the ledger tells it.
fn results_told(c: &Cluster) -> (i64, i64) {
    let totals = c.ledger().totals();
    let count = |of| totals.count_of(&"g".into(), of);
    (count(GroupCount::WithResult), count(GroupCount::WithResults))
}

const READERS: [&str; 2] = ["read_committed", "read_uncommitted"];

#[test]
fn without_a_fault_each_result_is_there_once() {
    for version in [2, 1, 0] {
        let mut c = started(version, EXACTLY_ONCE, CONFIGS);
        c.run_ms(15_000);
        assert_eq!(outcome(&c), "delivered 10, processed 10, with result 10");
        assert_eq!(READERS.map(|isolation| results(&mut c, isolation)), [vec![1; 10], vec![1; 10]]);
        // Three transactions, of four records and four and two; the first epoch is 0.
        let epochs = c.events().filter_map(|event| match event {
            Event::ProducerIdGiven { client, epoch, .. } if client.as_str() == "first" => Some(epoch.0),
            _ => None,
        });
        let expected: &[i16] = if version == 2 { &[0, 1, 2, 3] } else { &[0] };
        assert_eq!(epochs.collect::<Vec<_>>(), expected, "R-TXN-17 at version {version}");
    }
}

fn check_killed_anywhere(version: i16) {
    let mut others_saw_more = false;
    for line in 1..=6 {
        for passage in 1..=2 {
            for side in ["at", "after"] {
                let place = format!("{side} line {line} passage {passage}");
                let mut c = started(version, EXACTLY_ONCE, CONFIGS);
                c.give(read(&format!("crash first {place}")));
                c.until_event("it is killed there", 30_000, is_halted);
                taken_over(&mut c, EXACTLY_ONCE, CONFIGS);
                assert_eq!(results_told(&c), (10, 0), "{place} (R-TXN-34)\n{}", c.report());
                assert_eq!(results(&mut c, READERS[0]), [1; 10], "{place} (R-TXN-34)\n{}", c.report());
                others_saw_more |= results(&mut c, READERS[1]).contains(&2);
            }
        }
    }
    assert!(others_saw_more, "R-CONS-29: without read_committed aborted results are read too");
}

#[test]
fn read_in_a_transaction_nothing_is_lost_or_repeated_wherever_the_program_is_killed() {
    check_killed_anywhere(2);
}

#[test]
fn nor_where_producers_add_the_partitions_and_keep_their_epochs_r_txn_5_r_txn_11() {
    check_killed_anywhere(1);
}

fn check_coordinator_fails_anywhere(version: i16) {
    for line in 1..=6 {
        let mut c = started(version, EXACTLY_ONCE, CONFIGS);
        c.give(read(&format!("hang first at line {line}")));
        c.until_event("it is there", 30_000, is_halted);
        // R-TXN-1: tx-1 belongs to partition 20.
        let registration = c.registration("__transaction_state-20");
        let coordinator = registration.split(' ').next().and_then(|id| id.parse().ok()).expect("a leader");
        c.kill(coordinator);
        c.give(read("wake first"));
        c.run_ms(40_000);
        c.start(coordinator);
        c.run_ms(20_000);
        assert_eq!(results_told(&c), (10, 0), "line {line} (R-TXN-28)\n{}", c.report());
        let found = results(&mut c, READERS[0]);
        assert_eq!(found, [1; 10], "line {line} (R-TXN-28)\n{}", c.report());
    }
}

#[test]
fn nothing_is_lost_or_repeated_wherever_the_program_is_when_its_transactions_coordinator_fails() {
    check_coordinator_fails_anywhere(2);
}

#[test]
fn nor_where_producers_ask_that_coordinator_before_they_write_r_txn_11_r_txn_28() {
    check_coordinator_fails_anywhere(1);
}

/// The first application stands still before it sends offsets, and is out of the group when it moves again; the second one
/// has a `transactional.id` of its own. What the first one's call throws, and what readers find.
fn zombie(version: i16, program: &str) -> (Option<String>, (i64, i64), Vec<usize>) {
    let mut c = started(version, program, CONFIGS);
    c.give(read("freeze first at line 5"));
    c.until_event("it stands still", 30_000, is_halted);
    taken_over(&mut c, program, &CONFIGS.replace("tx-1", "tx-2"));
    c.give(read("thaw first"));
    c.run_ms(60_000);
    let thrown = c.events().find_map(|event| match event {
        Event::Application(ApplicationEvent::CallThrew { exception, then, .. }) => {
            Some(format!("{exception}: {then}"))
        }
        _ => None,
    });
    (thrown, results_told(&c), results(&mut c, READERS[0]))
}

/// EX-29 and A62.
#[test]
fn a62_a_zombie_that_says_who_it_is_in_the_group_cannot_commit_and_one_that_does_not_repeats() {
    for version in VERSIONS {
        let (thrown, told, found) = zombie(version, EXACTLY_ONCE);
        let refused = Some("CommitFailedException: aborts");
        assert_eq!((thrown.as_deref(), found), (refused, vec![1; 10]), "R-TXN-32, EX-29 at {version}");
        assert_eq!(told, (10, 0), "{version}");
        let (thrown, told, found) =
            zombie(version, &EXACTLY_ONCE.replace("send offsets", "send offsets by group"));
        assert_eq!(thrown, None, "R-TXN-35: generation -1 and no member id are not checked");
        // What it committed sets the group back, so that what follows is done again too.
        assert_eq!((told, found), ((10, 10), vec![2; 10]), "the results are there twice");
    }
}

#[test]
fn a60_a_second_process_with_the_same_transactional_id_ends_the_first() {
    for version in VERSIONS {
        let mut c = started(version, EXACTLY_ONCE, CONFIGS);
        c.give(read("freeze first at line 6"));
        c.until_event("it stands still", 30_000, is_halted);
        taken_over(&mut c, EXACTLY_ONCE, CONFIGS);
        c.give(read("thaw first"));
        c.until_event("it is fenced", 30_000, |event| {
            matches!(event, Event::Application(ApplicationEvent::CallThrew { then, .. }) if &**then == "ends")
        });
        c.run_ms(10_000);
        assert!(c.world.application(&"first".into()).is_none(), "R-TXN-31: nothing is left but to end");
        assert_eq!(results_told(&c), (10, 0), "at {version}");
        assert_eq!(results(&mut c, READERS[0]), [1; 10], "at {version}");
    }
}

#[test]
fn a63_a_call_outside_of_kafka_is_made_twice_though_the_result_is_there_once() {
    for version in VERSIONS {
        let mut c = started(version, EXACTLY_ONCE, CONFIGS);
        c.give(read("crash first at commit"));
        c.until_event("it is killed there", 30_000, is_halted);
        taken_over(&mut c, EXACTLY_ONCE, CONFIGS);
        let told = "delivered 10, processed 10, processed twice 4, with result 10";
        assert_eq!(outcome(&c), told, "R-TXN-34: `process` calls, say, a database");
        assert_eq!(results(&mut c, READERS[0]), [1; 10]);
    }
}

#[test]
fn without_transactions_results_repeat_and_are_never_lost_wherever_the_program_is_killed() {
    let program = "poll; process 10ms; send results; flush; commit";
    let configs = "auto.offset.reset=earliest session.timeout.ms=6000 max.poll.records=4";
    let mut repeats = false;
    for line in 1..=5 {
        for side in ["at", "after"] {
            let place = format!("{side} line {line} passage 2");
            let mut c = started(2, program, configs);
            c.give(read(&format!("crash first {place}")));
            c.until_event("it is killed there", 30_000, is_halted);
            taken_over(&mut c, program, configs);
            let (once, twice) = results_told(&c);
            let found = results(&mut c, READERS[0]);
            assert!(found.iter().all(|count| (1..=2).contains(count)), "{place}: {found:?}\n{}", c.report());
            assert_eq!((once, twice), (10, found.iter().filter(|count| **count == 2).count() as i64));
            repeats |= twice > 0;
        }
    }
    assert!(repeats, "R-CONS-18");
}

#[test]
fn what_an_application_cannot_run_is_refused_with_the_reason() {
    let mut c = ten_records();
    let mut refused = |text: &str, reason: &str| {
        assert_eq!(c.try_give(read(text)).unwrap_err().reason, reason, "{text}");
    };
    let of = |program: &str| format!("add application a to g topics t output out program \"{program}\"");
    refused(&of("poll; begin"), "begin: only with transactional.id");
    refused(&of("poll; accept"), "accept: only a share consumer acknowledges records one by one");
    let plain = "add consumer c to g topics t program \"poll; flush\"";
    refused(plain, "flush: only an application that has a producer too can do that");
}
