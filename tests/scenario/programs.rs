//! The application as a program of lines: stopped at a line, slowed down, its lines exchanged.

use glassbroker::client::consumer::Activity;
use glassbroker::kafka::event::{ApplicationEvent, CommitOutcome, Event, GroupEvent, Halt, MemberRemoval};
use glassbroker::kafka::types::Offset;
use glassbroker::lab::command::{Written, parse};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, cluster, tp};

pub const MANUAL: [(&str, &str); 3] =
    [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false"), ("session.timeout.ms", "6000")];

/// A command as a person writes it.
pub fn read(text: &str) -> Command {
    match parse(text) {
        Ok(Written::Whole(command)) => command,
        other => panic!("{text}: {other:?}"),
    }
}

/// Ten records in t-0.
pub fn ten_records() -> Cluster {
    ten_records_on(cluster(3))
}

pub fn ten_records_on(c: Cluster) -> Cluster {
    let mut c = c.topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 10);
    c.run_ms(1_000);
    c
}

pub fn is_halted(event: &Event) -> bool {
    matches!(event, Event::Application(ApplicationEvent::Halted { .. }))
}

/// The offsets that a client has finished, in its order.
fn finished(c: &Cluster, name: &str) -> Vec<i64> {
    let of = |event: &Event| match event {
        Event::Processed { client, offset, .. } if client.as_str() == name => Some(offset.0),
        _ => None,
    };
    c.events().filter_map(of).collect()
}

fn committed(c: &Cluster, name: &str) -> Option<i64> {
    c.consumer_state(name).subscription().owned()[&tp("t-0")].committed.map(|offset| offset.0)
}

#[test]
fn a_program_is_killed_before_a_line_has_effect_or_behind_it() {
    let crashed = |place: &str| {
        let mut c = ten_records();
        c.consumer("first", "g", &["t"], &["poll", "process 100ms", "commit"], &MANUAL);
        c.give(read(&format!("crash first {place}")));
        c.until_event("it is killed there", 30_000, is_halted);
        assert!(c.world.consumer(&"first".into()).is_none(), "kill -9");
        c.run_ms(1_000);
        c.consumer("second", "g", &["t"], &["poll"], &MANUAL);
        let begins =
            |event: &Event| matches!(event, Event::PositionSet { client, .. } if client.as_str() == "second");
        c.until_event("the session of the first is over", 30_000, begins);
        let position = c.consumer_state("second").subscription().owned()[&tp("t-0")].position();
        (finished(&c, "first").len(), position.expect("just set").offset.0)
    };
    assert_eq!(crashed("at commit"), (10, 0), "R-CONS-18: nothing was committed");
    assert_eq!(crashed("after line 3"), (10, 10), "commitSync() had returned");
    assert_eq!(crashed("at process passage 4"), (3, 0));
    assert_eq!(crashed("after process record t-0 offset 4"), (5, 0));
}

#[test]
fn a_commit_for_each_record_leaves_only_the_one_in_hand_to_be_done_again() {
    let mut c = ten_records();
    c.consumer("first", "g", &["t"], &["poll", "process 100ms", "commit record"], &MANUAL);
    c.give(read("crash first at commit record t-0 offset 4"));
    c.until_event("it is killed there", 30_000, is_halted);
    c.consumer("second", "g", &["t"], &["poll", "process 100ms", "commit record"], &MANUAL);
    c.until("all are done", 60_000, |c| finished(c, "second").last() == Some(&9));
    assert_eq!(finished(&c, "first"), [0, 1, 2, 3, 4]);
    assert_eq!(finished(&c, "second"), [4, 5, 6, 7, 8, 9]);
    assert_eq!(committed(&c, "second"), Some(9), "R-CONS-15: the last commit is on its way");
    c.run_ms(1_000);
    assert_eq!(committed(&c, "second"), Some(10));
}

/// A48: what is committed is where to go on, not what was finished.
#[test]
fn a48_a_program_that_commits_the_records_own_offset_does_the_last_one_again_after_every_restart() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    for (name, done) in [("first", vec![0, 1, 2]), ("second", vec![2]), ("third", vec![2])] {
        c.consumer(name, "g", &["t"], &["poll", "process 1ms", "commit record offset"], &MANUAL);
        c.run_ms(10_000);
        assert_eq!((finished(&c, name), committed(&c, name)), (done, Some(2)), "lag 1 for ever");
        c.give(read(&format!("close {name}")));
        c.run_ms(2_000);
    }
}

/// A33, R-CONS-24, R-CONS-25, R-CONS-26: who notices what.
#[test]
fn a33_a_thread_that_hangs_is_noticed_by_the_poll_interval_and_a_frozen_process_by_the_session() {
    let removed = |order: &str, max_poll_interval_ms: &str| {
        let mut c = ten_records();
        let config = [&MANUAL[..], &[("max.poll.interval.ms", max_poll_interval_ms)]].concat();
        c.consumer("first", "g", &["t"], &["poll", "process 10ms", "commit"], &config);
        c.give(read(order));
        let stopped = c.until_event("it is stopped", 30_000, is_halted);
        c.run_ms(60_000);
        c.entries().find_map(|entry| match entry.event {
            Event::Group(GroupEvent::MemberRemoved { reason, .. }) => {
                Some((reason, (entry.key.time.ms() - stopped) / 1000))
            }
            _ => None,
        })
    };
    assert_eq!(removed("hang first at process", "300000"), None, "the other thread sends heartbeats");
    assert_eq!(removed("hang first at process", "20000"), Some((MemberRemoval::Left, 20)));
    let frozen = removed("freeze first at process", "300000").expect("removed");
    assert!(frozen.0 == MemberRemoval::SessionExpired && (3..=6).contains(&frozen.1), "{frozen:?}");
}

#[test]
fn a_thread_that_hangs_goes_on_when_it_is_woken_or_its_time_is_over() {
    let mut c = ten_records();
    c.consumer("first", "g", &["t"], &["poll", "process 10ms", "commit"], &MANUAL);
    c.give(read("hang first at process record t-0 offset 3"));
    c.until_event("it hangs", 30_000, is_halted);
    c.run_ms(20_000);
    assert!(matches!(c.consumer_state("first").program().activity(), Activity::Hanging { .. }));
    assert_eq!(finished(&c, "first"), [0, 1, 2]);
    c.give(read("hang first after commit for 5s"));
    c.give(read("wake first"));
    let woken = c.until_event("the other hang", 30_000, is_halted);
    assert_eq!(finished(&c, "first").len(), 10);
    let again = c.until_event("it goes on by itself", 30_000, |event| {
        matches!(event, Event::Application(ApplicationEvent::Woken { .. }))
    });
    assert_eq!(again - woken, 5_000);
}

#[test]
fn a_process_that_was_frozen_at_a_line_goes_on_with_it_when_it_thaws() {
    let mut c = ten_records();
    c.consumer("first", "g", &["t"], &["poll", "process 10ms", "commit"], &MANUAL);
    c.give(read("freeze first at commit"));
    c.until_event("it is frozen", 30_000, is_halted);
    c.run_ms(3_000);
    assert_eq!((finished(&c, "first").len(), committed(&c, "first")), (10, None));
    c.give(read("thaw first"));
    c.run_ms(3_000);
    assert_eq!(committed(&c, "first"), Some(10));
}

#[test]
fn lines_are_exchanged_at_the_next_loop_and_a_pace_counts_from_the_next_record_on() {
    let mut c = ten_records();
    let config = [&MANUAL[..], &[("max.poll.records", "5")]].concat();
    c.consumer("first", "g", &["t"], &["poll", "process 100ms", "commit"], &config);
    c.until("one is done", 30_000, |c| finished(c, "first").len() == 1);
    let from = c.now_ms();
    c.give(read("set pace of first to 2s"));
    c.give(read("set program of first to \"poll; commit async; process 1s\""));
    c.until("five are done", 30_000, |c| finished(c, "first").len() == 5);
    assert_eq!(c.now_ms() - from, 100 + 3 * 2_000);
    c.until("six are done", 30_000, |c| finished(c, "first").len() == 6);
    let confirmed = c.time_of(
        "both batches are committed before the second is processed",
        |event| matches!(event, Event::CommitConfirmed { offsets, .. } if offsets[0].1 == Offset(10)),
    );
    assert!(confirmed < c.now_ms());
    c.until_event("its callback", 30_000, |event| {
        matches!(event, Event::CommitCalledBack { outcome: CommitOutcome::Committed, .. })
    });
}

#[test]
fn what_a_program_cannot_do_is_refused_with_the_reason() {
    let mut c = ten_records();
    c.consumer("first", "g", &["t"], &["poll", "commit"], &MANUAL);
    c.run_ms(5_000);
    let mut refused = |text: &str, reason: &str| {
        assert_eq!(c.try_give(read(text)).unwrap_err().reason, reason, "{text}");
    };
    refused("crash first at process", "first has no line process; its program is: poll; commit");
    refused("hang first at line 3", "first has no line 3; its program has 2");
    refused("crash first at commit record t-0 offset 1", "first does commit without a record in hand");
    refused("wake first", "first does not hang");
    refused("set pace of first to 1s", "first has no line process");
    refused("crash p at commit", "p runs no program of lines");
    let accepts = "first cannot run that: accept: only a share consumer acknowledges records one by one";
    refused("set program of first to \"poll; accept\"", accepts);
}

#[test]
fn a_share_consumers_program_is_stopped_at_its_lines_too() {
    let mut c = ten_records();
    c.give(read("set group s share.auto.offset.reset=earliest"));
    c.run_ms(1_000);
    let config = "share.acknowledgement.mode=explicit";
    c.give(read(&format!(
        "add share consumer first to s topics t program \"poll; process 1ms; accept\" {config}"
    )));
    c.give(read("crash first at accept"));
    c.until_event("it is killed there", 60_000, |event| {
        matches!(event, Event::Application(ApplicationEvent::Halted { how: Halt::Crash, line: 3, .. }))
    });
    assert_eq!(finished(&c, "first").len(), 10);
    c.give(read(&format!(
        "add share consumer second to s topics t program \"poll; process 1ms; accept\" {config}"
    )));
    c.until("its records come again when their lock is over", 60_000, |c| finished(c, "second").len() == 10);
}
