//! Somebody asks for records to be deleted (R-LOG-37), and a run of vector 16.

use std::collections::BTreeMap;

use glassbroker::kafka::event::{Event, LogStartReason, PositionSource};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::sim::Command;
use serde_json::{Value, json};

use crate::dsl::{Cluster, cluster, tp};
use crate::live::run::{Live, at_ms, error_of, events, text};
use crate::live::{callbacks, received};

const LOOSE: &[(&str, &str)] = &[("acks", "1"), ("enable.idempotence", "false")];

/// Twelve records on all three replicas of t-0.
fn twelve(pairs: &[(&str, &str)]) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, pairs);
    c.producer("p", "t", "100/s", LOOSE);
    c.send("p", 12);
    c.run_ms(2_000);
    c
}

fn delete(c: &mut Cluster, name: &str, before: Option<i64>) {
    c.give(Command::DeleteRecords { partition: tp(name), before });
}

fn outcome(c: &Cluster) -> Option<Result<(), ErrorCode>> {
    let admin = c.world.admin().expect("there is one");
    let (_, outcome) = admin.last_outcome().filter(|_| admin.pending() == 0)?;
    Some(outcome.clone().map_err(|(error, _)| error))
}

fn ended(c: &mut Cluster, limit_ms: i64) -> Result<(), ErrorCode> {
    c.until("the command has an outcome", limit_ms, |c| outcome(c).is_some());
    outcome(c).expect("just seen")
}

#[test]
fn the_leaders_log_start_moves_and_its_followers_follow_before_the_answer_comes_r_log_37() {
    let mut c = twelve(&[("internal.segment.bytes", "300"), ("retention.ms", "-1")]);
    let bases = c.partition(1, "t-0").expect("a replica").log.segments().count();
    assert!(bases > 2, "{}", c.extents("t-0"));
    delete(&mut c, "t-0", Some(8));
    assert_eq!(ended(&mut c, 2_000), Ok(()));
    let starts: Vec<i64> =
        (1..=3).map(|id| c.partition(id, "t-0").expect("a replica").log.log_start_offset().0).collect();
    assert_eq!(starts, [8, 8, 8], "the low watermark is theirs too");
    assert_eq!(
        c.partition(1, "t-0").expect("a replica").log.segments().count(),
        bases,
        "files stay until retention looks"
    );
    let moved = c.events().find_map(|event| match event {
        Event::LogStartMoved { leader: true, from, to, reason, .. } => Some((from.0, to.0, *reason)),
        _ => None,
    });
    assert_eq!(moved, Some((0, 8, LogStartReason::DeleteRecords)));
    c.run_ms(31_000 - c.now_ms());
    let log = &c.partition(1, "t-0").expect("a replica").log;
    assert!(log.segments().count() < bases, "R-LOG-31: they go with the next pass of retention");
    assert_eq!(log.log_start_offset(), Offset(8));
    delete(&mut c, "t-0", None);
    assert_eq!(ended(&mut c, 2_000), Ok(()));
    assert!(c.extents("t-0").starts_with("1:12..12"), "everything that is committed: {}", c.extents("t-0"));
    delete(&mut c, "t-0", Some(3));
    assert_eq!(ended(&mut c, 2_000), Ok(()), "it is so already");
}

/// `Partition.appendRecordsToFollowerOrFutureReplica`: the first batch that a follower gets begins below its log's start.
#[test]
fn a_follower_that_begins_within_a_batch_takes_it_in_and_starts_where_the_leader_does_r_log_37() {
    let mut c = cluster(3).topic("t", 1, 3, &[("min.insync.replicas", "1")]);
    c.producer("p", "t", "100/s", &[LOOSE, &[("linger.ms", "1000")]].concat());
    c.send("p", 12);
    c.run_ms(3_000);
    let batches: Vec<i64> = {
        let log = &c.partition(1, "t-0").expect("a replica").log;
        log.batches_from(Offset::ZERO).map(|batch| batch.base_offset().0).collect()
    };
    assert_eq!(batches, [0], "one batch holds the twelve");
    c.kill(3);
    c.give(Command::WipeDisk(BrokerId(3)));
    delete(&mut c, "t-0", Some(5));
    c.run_ms(40_000);
    c.start(3);
    c.run_ms(20_000);
    let log = &c.partition(3, "t-0").expect("a replica").log;
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(5), Offset(12)), "{}", c.report());
    assert_eq!(log.batches_from(Offset(5)).next().map(|batch| batch.base_offset()), Some(Offset(0)));
}

#[test]
fn what_kafka_refuses_of_a_deletion() {
    let mut c = twelve(&[]).topic("state", 1, 3, &[("cleanup.policy", "compact")]);
    c.consumer("reader", "g", &["t"], &["poll"], &[]);
    c.run_ms(5_000);
    for (name, before, error) in [
        ("t-0", Some(13), ErrorCode::OffsetOutOfRange),
        ("t-0", Some(-2), ErrorCode::OffsetOutOfRange),
        ("state-0", Some(0), ErrorCode::PolicyViolation),
        ("__consumer_offsets-0", Some(0), ErrorCode::InvalidTopicException),
        ("nobodys-0", Some(0), ErrorCode::RequestTimedOut),
    ] {
        delete(&mut c, name, before);
        assert_eq!(ended(&mut c, 61_000), Err(error), "R-LOG-37: {name} before {before:?}");
    }
    assert!(c.extents("t-0").starts_with("1:0..12"));
}

#[test]
fn the_answer_waits_for_a_follower_that_lives_and_not_for_one_that_is_fenced() {
    let mut c = twelve(&[]);
    c.cut(1, 3);
    delete(&mut c, "t-0", Some(5));
    c.run_ms(10_000);
    assert_eq!(outcome(&c), None, "broker 3 has not told its log start");
    assert!(c.extents("t-0").starts_with("1:5..12 [0] 2:5..12 [0] 3:0..12"), "{}", c.extents("t-0"));
    c.heal(1, 3);
    assert_eq!(ended(&mut c, 5_000), Ok(()));
    c.kill(3);
    c.until("broker 3 is fenced", 15_000, |c| !c.is_in_service(3));
    delete(&mut c, "t-0", Some(7));
    assert_eq!(ended(&mut c, 2_000), Ok(()));
    c.start(3);
    c.until("it is in sync", 20_000, |c| c.registration("t-0") == "1 e0 isr[1,2,3]");
    c.run_ms(1_000);
    assert!(c.extents("t-0").contains("3:7..12"), "R-LOG-36: {}", c.extents("t-0"));
}

#[test]
fn the_administrator_looks_for_the_leader_again_when_it_has_moved() {
    let mut c = twelve(&[]);
    delete(&mut c, "t-0", Some(1));
    assert_eq!(ended(&mut c, 2_000), Ok(()));
    c.kill(1);
    delete(&mut c, "t-0", Some(2));
    assert_eq!(ended(&mut c, 30_000), Ok(()));
    assert!(!c.registration("t-0").starts_with("1 "));
    let log = &c.partition(2, "t-0").expect("a replica").log;
    assert_eq!(log.log_start_offset(), Offset(2));
    assert!(c.world.broker(BrokerId(1)).is_none());
}

/// Starts a member of group g that commits only if its program says so.
fn reader(c: &mut Cluster, name: &str, reset: &str, program: &[&str]) {
    let pairs =
        [("auto.offset.reset", reset), ("enable.auto.commit", "false"), ("metadata.max.age.ms", "2000")];
    c.consumer(name, "g", &["t"], program, &pairs);
}

fn close(c: &mut Cluster, name: &str) {
    c.give(Command::Close(name.into()));
    c.run_ms(1_000);
}

/// Sends the recorded records. The commit at an offset in their midst is made when there are so many: a consumer commits
/// where it stands.
fn send_and_commit(live: &mut Live, sent: &[Value], committed: i64) {
    let (before, after) = sent.split_at(committed as usize);
    live.new_producer(&json!({}));
    live.send(&json!(before));
    reader(&mut live.c, "first", "earliest", &["poll", "commit"]);
    live.c.until_event(
        "the offset is committed",
        20_000,
        |event| matches!(event, Event::CommitConfirmed { offsets, .. } if offsets[0].1 == Offset(committed)),
    );
    close(&mut live.c, "first");
    live.send(&json!(after));
}

/// R-CONS-13. Each part of the run begins a recorded time after the one before.
#[test]
fn vector_16_reset_after_delete() {
    let run = events("reset_after_delete");
    let [create, send, commit, rest @ ..] = &run[..] else { panic!("another run: {run:?}") };
    let committed = commit["result"].as_i64().expect("an offset");
    let mut live = Live::new();
    live.event(create);
    send_and_commit(&mut live, send["result"].as_array().expect("records"), committed);
    let mut called: BTreeMap<String, Vec<(String, Vec<i32>)>> = BTreeMap::new();
    let mut before_ms = at_ms(commit);
    for event in rest {
        live.c.run_ms(at_ms(event) - before_ms);
        before_ms = at_ms(event);
        let (op, args, result) = (text(&event["op"]), &event["args"], &event["result"]);
        let client = text(&args["client"]);
        match op.as_str() {
            "delete_records" => {
                delete(&mut live.c, "t-0", args["before"].as_i64());
                assert_eq!(ended(&mut live.c, 2_000), Ok(()));
            }
            "start_consumer" => {
                let reset = args["auto.offset.reset"].as_str().unwrap_or("earliest");
                reader(&mut live.c, &client, reset, &["poll"]);
            }
            "assigned" | "revoked" => {
                if op == "revoked" && live.c.world.consumer(&client.as_str().into()).is_some() {
                    live.c.give(Command::Close(client.as_str().into()));
                }
                let called = called.entry(client.clone()).or_default();
                called.push((op, serde_json::from_value(result.clone()).expect("partitions")));
                live.c.until("the callback", 10_000, |c| callbacks(c, &client).starts_with(called));
            }
            "received" => live.c.until(&format!("{event}"), 2_000, |c| received(c, &client) == *result),
            "closed" => live.c.run_ms(1_000),
            "consumer_failed" => {
                let expected = error_of(&text(result));
                live.c.until("it fails", 2_000, |c| {
                    c.events().any(|event| {
                        matches!(event, Event::ClientFailed { client: name, error }
                            if name.as_str() == client && *error == expected)
                    })
                });
            }
            // The driver waits for what the next events say.
            "wait_until" => {}
            _ => live.event(event),
        }
    }
    for (client, called) in &called {
        assert_eq!(callbacks(&live.c, client), *called, "{client}, and nothing else");
    }
    let from_committed = live.c.events().filter(|event| {
        matches!(event, Event::PositionSet { offset, source: PositionSource::Committed, .. } if offset.0 == committed)
    });
    assert_eq!(from_committed.count(), 3, "each began at the committed offset\n{}", live.c.report());
}
