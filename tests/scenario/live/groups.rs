//! Rebalances and commits of groups as Kafka ran them: who is called with what, in which order and about when.

use std::collections::BTreeMap;

use glassbroker::client::consumer::{Choice, ConsumerSpec, Line};
use glassbroker::kafka::event::Event;
use glassbroker::kafka::types::{BrokerId, GroupId};
use glassbroker::sim::Command;
use serde_json::{Value, json};

use super::run::{Live, about, at_ms, error_of, events, pairs, text};
use super::{callbacks, key_of, received};
use crate::dsl::{config, tp};

/// The first is not in the recording's header; without it sessions of 4 s would be refused.
const CONFIGS: [(&str, &str); 3] = [
    ("group.min.session.timeout.ms", "1000"),
    ("group.consumer.session.timeout.ms", "6000"),
    ("group.consumer.heartbeat.interval.ms", "1000"),
];

/// A run in progress, with what was recorded of each consumer's callbacks so far.
struct Groups {
    live: Live,
    /// What the application of each consumer does.
    programs: BTreeMap<&'static str, &'static [&'static str]>,
    started: Vec<String>,
    called: BTreeMap<String, Vec<(String, Vec<i32>)>>,
    /// When the last thing was done to the group, in the recording and here.
    cause: (i64, i64),
    /// How many partitions the topic has.
    partitions: usize,
}

/// Plays a run; `programs` are the applications of its consumers.
#[track_caller]
fn check(name: &str, programs: &[(&'static str, &'static [&'static str])]) -> Live {
    check_with_seed(1, name, programs)
}

#[track_caller]
fn check_with_seed(seed: u64, name: &str, programs: &[(&'static str, &'static [&'static str])]) -> Live {
    let mut groups = Groups {
        live: Live::of_seed(seed, &CONFIGS),
        programs: programs.iter().copied().collect(),
        started: Vec::new(),
        called: BTreeMap::new(),
        cause: (0, 0),
        partitions: 0,
    };
    // The offsets topic exists, as the recorded cluster had run before.
    groups.live.c.consumer("warm-up", "other", &["t"], &["poll"], &[("allow.auto.create.topics", "false")]);
    groups.live.c.run_ms(5_000);
    groups.live.c.give(Command::Crash("warm-up".into()));
    let events = events(name);
    for (place, event) in events.iter().enumerate() {
        groups.event(event, &events[place + 1..]);
    }
    for (client, called) in &groups.called {
        assert_eq!(callbacks(&groups.live.c, client), *called, "{client}\n{}", groups.live.c.report());
    }
    groups.live
}

impl Groups {
    fn event(&mut self, event: &Value, later: &[Value]) {
        let (op, args, result) = (text(&event["op"]), &event["args"], &event["result"]);
        let client = args["client"].as_str().map(str::to_owned);
        match (op.as_str(), client) {
            ("create_topic", _) => self.create_topic(args),
            ("start_consumer", Some(client)) => {
                self.start_consumer(&client, args);
                self.caused_by(event);
            }
            ("assigned" | "revoked" | "lost", Some(client)) => {
                if op == "revoked" && closes(&client, later) {
                    self.live.c.give(Command::Close(client.as_str().into()));
                    self.caused_by(event);
                }
                self.called_back(event, &client, &op, result);
            }
            ("crash", Some(client)) => {
                self.live.c.give(Command::Crash(client.as_str().into()));
                self.caused_by(event);
            }
            ("closed", Some(client)) => {
                self.live
                    .c
                    .until("it is closed", 1_000, |c| c.world.consumer(&client.as_str().into()).is_none());
            }
            ("consumer_failed", Some(client)) => self.failed(&client, result),
            ("commit_failed", Some(client)) => self.commit_failed(&client, result),
            ("received", Some(client)) => {
                self.live.c.run_ms(1_000);
                assert_eq!(received(&self.live.c, &client), *result, "{client}\n{}", self.live.c.report());
            }
            ("send", _) => self.send(args, result),
            ("new_producer", _) => self.live.new_producer(args),
            ("committed_offsets", _) => {
                // Automatic commits need their time.
                self.live.wait_until_ms(self.cause.1 + at_ms(event) - self.cause.0);
                assert_eq!(self.committed(), *result, "{}", self.live.c.report());
            }
            ("group_type", _) => {
                let group = GroupId::new("g");
                let brokers = [1, 2, 3].into_iter().filter_map(|id| self.live.c.world.broker(BrokerId(id)));
                let is_modern =
                    brokers.into_iter().any(|broker| broker.groups().consumer_group(&group).is_some());
                assert_eq!(json!([if is_modern { "Consumer" } else { "Classic" }]), *result);
            }
            ("wait_until", _) => self.wait_until(args),
            // Between consumers' acts some time went by.
            ("mark", _) => self.live.c.run_ms(1_000),
            // Told in words only: what the application's threads do beside the consumer, and what follows from that.
            ("worker_thread" | "lost", None) => self.live.c.run_ms(1_000),
            (other, _) => panic!("an event that this test does not know: {other}"),
        }
    }

    fn create_topic(&mut self, args: &Value) {
        self.partitions = args["replicas"].as_object().expect("partitions").len();
        self.live.c.give(Command::CreateTopic {
            topic: "t".into(),
            partitions: self.partitions as i32,
            replication_factor: 3,
            config: pairs(&args["configs"]),
        });
        self.live.c.run_ms(1_000);
    }

    fn start_consumer(&mut self, client: &str, args: &Value) {
        let mut configs = config(&[("auto.offset.reset", "earliest"), ("metadata.max.age.ms", "2000")]);
        configs.extend(pairs(args).into_iter().filter(|(name, _)| name != "client"));
        // Whoever was started before had its assignment by the time that this one's process was up.
        for before in self.started.iter().filter(|before| self.called.get(*before).is_none_or(Vec::is_empty))
        {
            self.live.c.until("the one before has joined", 5_000, |c| !callbacks(c, before).is_empty());
        }
        self.started.push(client.to_owned());
        let program = self.programs.get(client).copied().unwrap_or(&["poll"]);
        self.live.c.give(Command::AddConsumer(ConsumerSpec {
            name: client.into(),
            group: "g".into(),
            choice: Choice::Topics(vec!["t".into()]),
            program: Line::parse_program(program).expect("a program"),
            config: configs,
        }));
    }

    fn caused_by(&mut self, event: &Value) {
        self.cause = (at_ms(event), self.live.c.now_ms());
    }

    /// The callback comes next for this consumer, about as long after its cause as it was recorded.
    fn called_back(&mut self, event: &Value, client: &str, op: &str, result: &Value) {
        let partitions = serde_json::from_value(result.clone()).expect("partitions");
        let called = self.called.entry(client.to_owned()).or_default();
        called.push((op.to_owned(), partitions));
        let what = format!("{client} {op} {result}");
        self.live.c.until(&what, 20_000, |c| callbacks(c, client).starts_with(called));
        let recorded_ms = at_ms(event) - self.cause.0;
        let took_ms = self.live.c.now_ms() - self.cause.1;
        let about = about(recorded_ms as f64 / 1_000.0);
        assert!(
            about.contains(&took_ms),
            "{what}: {took_ms}, not {recorded_ms} ms\n{}",
            self.live.c.report()
        );
    }

    fn failed(&mut self, client: &str, result: &Value) {
        let expected = error_of(&text(result));
        let failed = |event: &Event| matches!(event, Event::ClientFailed { client: failed, error } if failed.as_str() == client && *error == expected);
        self.live.c.until("it fails", 10_000, |c| c.events().any(failed));
    }

    fn commit_failed(&mut self, client: &str, result: &Value) {
        let expected = error_of(&text(result));
        let failed = |event: &Event| matches!(event, Event::CommitFailed { client: failed, error } if failed.as_str() == client && *error == expected);
        self.live.c.until("its commit fails", 20_000, |c| c.events().any(failed));
    }

    fn send(&mut self, args: &Value, result: &Value) {
        if let Some(records) = args["records"].as_i64() {
            let producer = self.live.producer();
            return self.live.c.send(producer.as_str(), records);
        }
        if self.partitions == 1 {
            self.live.new_producer(&json!({}));
        } else {
            let configs = [("linger.ms", "0"), ("metadata.max.age.ms", "2000")];
            self.live.add_producer(&key_of(&args["partition"]), config(&configs));
        }
        self.live.send(result);
    }

    /// What the group has committed, as its coordinator knows it.
    fn committed(&mut self) -> Value {
        self.live.c.run_ms(300);
        let group = GroupId::new("g");
        let brokers: Vec<_> =
            [1, 2, 3].into_iter().filter_map(|id| self.live.c.world.broker(BrokerId(id))).collect();
        let coordinator = brokers.iter().find(|broker| broker.groups().group(&group).is_some());
        let groups = coordinator.expect("somebody coordinates it").groups();
        let mut found: BTreeMap<String, i64> = BTreeMap::new();
        for partition in 0..self.partitions {
            if let Some(value) = groups.committed_offset(&group, &tp(&format!("t-{partition}"))) {
                found.insert(partition.to_string(), value.offset.0);
            }
        }
        json!(found)
    }

    /// "A has read 10": other waits are for callbacks, which are compared by themselves.
    fn wait_until(&mut self, args: &Value) {
        let what = text(&args["what"]);
        let words: Vec<&str> = what.split(' ').collect();
        if let [client, "has", "read" | "polled", count] = words[..]
            && let Ok(count) = count.parse::<usize>()
        {
            let read = |value: &Value| {
                value
                    .as_object()
                    .map_or(0, |all| all.values().flat_map(|offsets| offsets.as_array()).map(Vec::len).sum())
            };
            self.live.c.until(&what, 10_000, |c| read(&received(c, client)) >= count);
        }
    }
}

/// Whether the consumer's next event is that it is closed.
fn closes(client: &str, later: &[Value]) -> bool {
    let next = later.iter().find(|event| event["args"]["client"] == client);
    next.is_some_and(|event| event["op"] == "closed")
}

/// EX-18, R-GRP-29 to R-GRP-31.
#[test]
fn with_range_a_new_member_makes_everybody_give_up_everything_ex_18() {
    check("eager_join", &[]);
}

/// EX-20, A40: R-GRP-30, R-ASG-8.
#[test]
fn with_cooperative_sticky_only_what_moves_is_given_up_in_two_rebalances_ex_20() {
    check("cooperative_join", &[]);
}

/// EX-22: R-CG8-8, R-CG8-11. Who keeps the odd partition depends on the order of the member ids, which are given by chance;
/// with this seed it is the recorded one.
#[test]
fn in_the_newer_protocol_only_what_moves_is_given_up_and_nobody_waits_for_the_others_ex_22() {
    check_with_seed(5, "kip848_join", &[]);
}

/// R-CG8-25.
#[test]
fn a_group_moves_to_the_newer_protocol_member_by_member_r_cg8_25() {
    check("classic_to_kip848", &[]);
}

/// EX-23: R-GRP-25.
#[test]
fn a_static_member_restarts_within_its_session_and_nobody_else_notices_ex_23() {
    check("static_restart", &[]);
}

#[test]
fn a_dynamic_member_that_restarts_costs_two_rebalances() {
    check("dynamic_restart", &[]);
}

/// EX-23: R-GRP-24.
#[test]
fn of_two_processes_with_one_instance_id_the_first_is_fenced_ex_23() {
    check("static_duplicate", &[]);
}

/// EX-18, A32, A51: R-CONS-25, R-GRP-32.
#[test]
fn a_member_that_polls_too_late_loses_all_and_its_late_commit_fails_ex_18() {
    check(
        "max_poll_interval_classic",
        &[("A", &["poll 60s", "process 2s", "commit"]), ("B", &["poll", "commit"])],
    );
}

/// EX-16: R-CONS-18.
#[test]
fn what_was_read_and_not_committed_before_a_crash_comes_again_ex_16() {
    // Three polls of four records, a commit, and no other before the crash.
    check(
        "crash_before_commit",
        &[(
            "A",
            &[
                "poll 60s", "poll 60s", "poll 60s", "commit", "poll 60s", "poll 60s", "poll 60s", "poll 60s",
                "poll 60s", "poll 60s",
            ],
        )],
    );
}

/// R-CONS-17, R-CONS-18.
#[test]
fn with_automatic_commits_a_crash_repeats_what_came_after_the_last_ex_16() {
    check("auto_commit_loop", &[("A", &["poll", "process 100ms"])]);
}

/// EX-17: R-CONS-18, M-27.
#[test]
fn automatic_commits_lose_what_another_thread_has_not_processed_ex_17() {
    check("auto_commit_handoff", &[]);
}
