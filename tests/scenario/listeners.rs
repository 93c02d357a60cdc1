//! What an application does when its consumer calls it back about partitions, and what becomes of records by it: case A51,
//! with both protocols.

use glassbroker::kafka::event::{ApplicationEvent, CommitOutcome, Event, GroupEvent};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::lab::ledger::{GroupCount, Within};

use crate::dsl::Cluster;
use crate::groups::written;
use crate::programs::{is_halted, read};
use crate::rebalances::warm;

type Configs = &'static [(&'static str, &'static str)];

const EAGER: Configs = &[("partition.assignment.strategy", "range")];
const COOPERATIVE: Configs = &[("partition.assignment.strategy", "cooperative-sticky")];
const NEWER: Configs = &[("group.protocol", "consumer")];
const ALL: [Configs; 3] = [EAGER, COOPERATIVE, NEWER];

const MANUAL: [(&str, &str); 3] =
    [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false"), ("max.poll.records", "10")];

/// 200 records in two partitions, all of which `c1` owns with this program.
fn begun(protocol: Configs, more: &[(&str, &str)], program: &[&str]) -> Cluster {
    let mut c = warm(&[("t", 2)]);
    for partition in 0..2 {
        c.order(&format!("add producer p-{partition} to t rate 1000/s keys none partition {partition}"));
        c.order(&format!("pause p-{partition}"));
        c.run_ms(500);
        c.send(&format!("p-{partition}"), 100);
    }
    c.consumer("c1", "g", &["t"], program, &[&MANUAL[..], protocol, more].concat());
    c.until("some are processed", 20_000, |c| count(c, GroupCount::Processed) >= 45);
    c
}

/// `c2`, which takes a partition over.
fn joins(c: &mut Cluster, protocol: Configs, program: &[&str]) {
    c.consumer("c2", "g", &["t"], program, &[&MANUAL[..], protocol].concat());
}

fn count(c: &Cluster, of: GroupCount) -> i64 {
    c.ledger().totals().group(&"g".into(), &Within::All).count_of(of)
}

/// When a client owned its first partition.
fn first_owned_ms(c: &Cluster, name: &str) -> i64 {
    c.time_of(name, |event| {
        matches!(event, Event::PartitionsAssigned { client, partitions, .. } if client.as_str() == name && !partitions.is_empty())
    })
}

fn commit_errors(c: &Cluster) -> Vec<ErrorCode> {
    let error = |event: &Event| match event {
        Event::CommitFailed { client, error } if client.as_str() == "c1" => Some(*error),
        _ => None,
    };
    c.events().filter_map(error).collect()
}

/// What callbacks of c1 have returned, and after how long.
fn returned(c: &Cluster) -> Vec<(&'static str, i64)> {
    let returned = |event: &Event| match event {
        Event::Application(ApplicationEvent::CalledBack { client, method, took_ms, .. })
            if client.as_str() == "c1" =>
        {
            Some((*method, *took_ms))
        }
        _ => None,
    };
    c.events().filter_map(returned).collect()
}

/// A51 (a): the member is in the generation that is about to end, so its commit counts (R-GRP-36, R-CG8-19).
#[test]
fn a51_a_commit_when_partitions_are_revoked_leaves_nothing_to_be_done_again() {
    for protocol in ALL {
        let mut c = begun(protocol, &[], &["poll", "process 20ms", "on revoked commit"]);
        joins(&mut c, protocol, &["poll", "process 20ms"]);
        c.run_ms(30_000);
        assert_eq!(c.outcome_of("g", "t"), "delivered 200, processed 200", "{protocol:?}\n{}", c.report());
        assert_eq!(commit_errors(&c), [], "{protocol:?}");
        let mut c = begun(protocol, &[], &["poll", "process 20ms"]);
        joins(&mut c, protocol, &["poll", "process 20ms"]);
        c.run_ms(30_000);
        assert_eq!(count(&c, GroupCount::Processed), 200, "{protocol:?}");
        assert!(count(&c, GroupCount::ProcessedTwice) > 0, "{protocol:?}: {}", c.outcome_of("g", "t"));
    }
}

/// A thread that is killed before that line has committed nothing; behind it, all.
#[test]
fn a51_a_member_that_is_killed_in_its_callback_has_committed_or_not() {
    for (place, twice) in [("at on", true), ("after on", false)] {
        let mut c = begun(EAGER, &[], &["poll", "process 20ms", "on revoked commit"]);
        c.give(read(&format!("crash c1 {place}")));
        joins(&mut c, EAGER, &["poll", "process 20ms"]);
        c.until_event("it is killed there", 30_000, is_halted);
        c.run_ms(120_000);
        assert_eq!(count(&c, GroupCount::Processed), 200, "{place}");
        assert_eq!(count(&c, GroupCount::ProcessedTwice) > 0, twice, "{place}: {}", c.outcome_of("g", "t"));
    }
}

/// R-GRP-11, R-CG8-11: who is to have the partition waits for it; the thread that sends heartbeats goes on.
#[test]
fn a_slow_callback_keeps_those_waiting_who_are_to_have_what_is_given_up() {
    for protocol in ALL {
        let taken_over_ms = |program: &[&str]| {
            let mut c = begun(protocol, &[("max.poll.interval.ms", "60000")], program);
            let from_ms = c.now_ms();
            joins(&mut c, protocol, &["poll", "process 20ms"]);
            if let [.., last] = program
                && last.starts_with("on")
            {
                let line = |c: &Cluster| c.consumer_state("c1").program().line().to_string();
                c.until("it is in that line", 20_000, |c| line(c) == *last);
            }
            c.run_ms(30_000);
            assert!(!c.events().any(|event| matches!(event, Event::Group(GroupEvent::MemberRemoved { group, .. }) if group.as_str() == "g")));
            assert_eq!(count(&c, GroupCount::Processed), 200, "{protocol:?}");
            first_owned_ms(&c, "c2") - from_ms
        };
        let quick = taken_over_ms(&["poll", "process 20ms", "commit"]);
        let slow = taken_over_ms(&["poll", "process 20ms", "commit", "on revoked wait 10000ms"]);
        assert!((slow - quick - 10_000).abs() < 1_500, "{protocol:?}: {slow} and {quick} ms");
    }
}

/// R-CONS-25: the callback is inside poll(), and the next one does not come in time. What it then commits is of a member that
/// has left.
#[test]
fn a_callback_that_is_slower_than_max_poll_interval_costs_the_membership() {
    for protocol in ALL {
        let program =
            ["poll", "process 20ms", "on revoked wait 20s", "on revoked commit", "on lost wait 0ms"];
        let mut c = begun(protocol, &[("max.poll.interval.ms", "5000")], &program);
        joins(&mut c, protocol, &["poll", "process 20ms"]);
        // By its own thread, or by the coordinator, which waits no longer for it.
        c.until_event("it is out", 30_000, |event| {
            matches!(event, Event::Group(GroupEvent::MemberRemoved { .. }))
        });
        c.run_ms(60_000);
        assert!(returned(&c).iter().any(|(method, ms)| *method == "onPartitionsRevoked" && *ms >= 20_000));
        assert!(!commit_errors(&c).is_empty(), "{protocol:?}");
        assert_eq!(count(&c, GroupCount::Processed), 200, "{protocol:?}\n{}", c.report());
        assert!(count(&c, GroupCount::ProcessedTwice) > 0, "{protocol:?}: {}", c.outcome_of("g", "t"));
        let is_told = returned(&c).iter().any(|(method, _)| *method == "onPartitionsLost");
        assert_eq!(is_told, protocol != EAGER, "an eager member has given up all when it hears of it");
    }
}

/// R-GRP-35, R-CG8-17: who was away too long has lost its partitions and hears of it by onPartitionsLost, which does what
/// onPartitionsRevoked does if it has no lines of its own.
#[test]
fn who_was_out_of_the_group_hears_that_its_partitions_are_lost_and_can_commit_no_more() {
    for protocol in ALL {
        for lines in [["on revoked commit"].as_slice(), &["on lost wait 1s", "on lost commit"]] {
            let program = [&["poll", "process 20ms"], lines].concat();
            let mut c = begun(protocol, &[], &program);
            joins(&mut c, protocol, &["poll", "process 20ms"]);
            c.run_ms(20_000);
            let before = commit_errors(&c).len();
            c.give(read("freeze c1"));
            c.run_ms(60_000);
            c.give(read("thaw c1"));
            c.until_event("it hears of it", 20_000, |event| {
                matches!(event, Event::Application(ApplicationEvent::CalledBack { method: called, .. }) if *called == "onPartitionsLost")
            });
            assert!(commit_errors(&c).len() > before, "{protocol:?} {lines:?}");
            c.run_ms(30_000);
            assert_eq!(
                c.consumer_state("c1").subscription().partitions().len(),
                1,
                "it is in again: {protocol:?}"
            );
        }
    }
}

/// "User rebalance callback throws an error": the application ends, as it does not catch it.
#[test]
fn a_callback_that_throws_makes_poll_throw() {
    for protocol in ALL {
        let mut c = begun(protocol, &[], &["poll", "process 20ms", "commit", "on revoked throw"]);
        joins(&mut c, protocol, &["poll", "process 20ms"]);
        c.until_event("poll() throws", 30_000, |event| {
            matches!(event, Event::Application(ApplicationEvent::ListenerThrew { .. }))
        });
        c.until("it has ended", 30_000, |c| c.world.consumer(&"c1".into()).is_none());
        c.run_ms(30_000);
        assert_eq!(c.outcome_of("g", "t"), "delivered 200, processed 200", "{protocol:?}\n{}", c.report());
    }
}

/// onPartitionsAssigned: nothing is read before it returns.
#[test]
fn nothing_is_read_before_the_callback_for_new_partitions_returns() {
    for protocol in ALL {
        let mut c = written(1, 10);
        let configs = [&MANUAL[..], protocol].concat();
        c.consumer("c1", "g", &["t"], &["poll", "process 1ms", "on assigned wait 4s"], &configs);
        c.run_ms(20_000);
        let polled = c.time_of("a poll", |event| matches!(event, Event::Polled { .. }));
        let assigned = first_owned_ms(&c, "c1");
        assert!(polled - assigned >= 4_000, "{protocol:?}: {polled} and {assigned}");
        assert_eq!(c.outcome_of("g", "t"), "delivered 10, processed 10");
    }
}

/// A51 (b): between JoinGroup and the new assignment nobody may commit, and the client says so itself (R-GRP-36).
#[test]
fn a51_a_commit_while_the_member_waits_for_the_others_to_join_is_refused() {
    let mut c = begun(COOPERATIVE, &[], &["poll 10ms", "process 1ms", "commit"]);
    joins(&mut c, COOPERATIVE, &["poll", "process 500ms", "commit"]);
    c.until("both own one", 30_000, |c| {
        ["c1", "c2"].iter().all(|name| c.consumer_state(name).subscription().partitions().len() == 1)
    });
    c.run_ms(1_000);
    let before = commit_errors(&c).len();
    for partition in 0..2 {
        c.send(&format!("p-{partition}"), 30);
    }
    c.run_ms(1_000);
    c.consumer("c3", "g", &["t"], &["poll"], &[&MANUAL[..], COOPERATIVE].concat());
    c.run_ms(60_000);
    let errors = commit_errors(&c).split_off(before);
    let refused = |error: &ErrorCode| *error == ErrorCode::RebalanceInProgress;
    assert!(!errors.is_empty() && errors.iter().all(refused), "{errors:?}");
    assert_eq!(
        c.outcome_of("g", "t"),
        "delivered 260, processed 260",
        "and nothing is lost or repeated by it"
    );
}

/// A51 (c): a static member keeps its place in a generation that began without it, and what it commits as of the one before
/// is refused (R-GRP-36); others do those records again. Before that generation begins it is accepted.
#[test]
fn a51_c_a_commit_of_the_generation_before_is_refused_and_its_records_are_done_again() {
    for protocol in [EAGER, COOPERATIVE] {
        let outcome = |frozen_ms: i64| {
            let own = [("group.instance.id", "one"), ("session.timeout.ms", "60000")];
            let limit = [("max.poll.interval.ms", "10000")];
            let program = ["poll", "process 20ms", "commit"];
            let mut c = begun(protocol, &[&own[..], &limit].concat(), &program);
            c.give(read("freeze c1 at commit"));
            c.until_event("it stands there", 5_000, is_halted);
            c.consumer("c2", "g", &["t"], &program, &[&MANUAL[..], protocol, &limit].concat());
            c.run_ms(frozen_ms);
            c.give(read("thaw c1"));
            c.run_ms(30_000);
            let refused = commit_errors(&c).contains(&ErrorCode::IllegalGeneration);
            (refused, c.outcome_of("g", "t"))
        };
        let in_time = (false, "delivered 200, processed 200".to_owned());
        assert_eq!(outcome(5_000), in_time, "{protocol:?}");
        let too_late = (true, "delivered 200, processed 200, processed twice 10".to_owned());
        assert_eq!(outcome(16_000), too_late, "{protocol:?}: the records of one poll");
    }
}

/// A51 (d): a member that has given a partition up has not heard of its next epoch yet. As of the one before it may commit what it
/// still has and nothing else (R-CG8-19, KIP-1251): what is refused would have had the new owner skip records.
#[test]
fn a51_d_a_commit_of_the_epoch_before_counts_for_what_the_member_still_has() {
    let mut c = begun(NEWER, &[], &["poll", "process 20ms"]);
    joins(&mut c, NEWER, &["poll", "process 20ms"]);
    for broker in 1..=3 {
        c.order(&format!("slow c1 to broker {broker} by 1s"));
    }
    let owned = |c: &Cluster| c.consumer_state("c1").subscription().partitions();
    c.until("it has given one up", 60_000, |c| owned(c).len() == 1);
    let kept = owned(&c).remove(0).partition;
    for partition in [1 - kept, kept] {
        c.order(&format!("commit c1 async t-{partition}=100"));
    }
    c.run_ms(30_000);
    let of = |event: &Event| match event {
        Event::CommitCalledBack { client, outcome } if client.as_str() == "c1" => Some(*outcome),
        _ => None,
    };
    let outcomes: Vec<CommitOutcome> = c.events().filter_map(of).collect();
    assert_eq!(outcomes, [CommitOutcome::Failed(ErrorCode::StaleMemberEpoch), CommitOutcome::Committed]);
    assert!(c.outcome_of("g", "t").contains("processed 200,"), "none is skipped: {}", c.outcome_of("g", "t"));
}
