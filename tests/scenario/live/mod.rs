//! The runs of `16_live_scenarios.json` that concern acks, in-sync sets, elections, eligible leader replicas, topics and logs:
//! real clients, three brokers and three controllers of Kafka 4.3.1, lived again event by event in the recorded order.
//!
//! | what | compared |
//! | --- | --- |
//! | send | the offset or the error of each record; how long it took where that was recorded |
//! | describe, wait_until | leader, in-sync, eligible and last known leaders, reached within a time of the recorded order |
//! | list_offsets | log start, high watermark and last stable offset at the leader, or that there is none |
//! | read | offset and identity of every record below the high watermark, or the error; our keys and values are not the recorded ones, but for compaction, where they are |
//! | received | the offsets that poll() returned, by partition |
//! | consumer_failed | the error |
//! | callbacks of consumers | which partitions, in their order |
//! | ends of transactions, offsets sent to them | that they returned, or the exception's class |
//!
//! `acks1_leader_killed`, `acks_all_leader_killed`, `min_isr_refusal`, `isr_shrink_paused`, `isr_shrink_killed`,
//! `isr_idle_paused`, `leader_killed_failover`, `leader_stopped_cleanly`, `unclean_truncation`, `clean_only`,
//! `elr_recovery_clean` with `elr_recovery`, `elr_killed`, `partition_increase_earliest` and `idempotent_retry_failover`
//! are compared here, `retention_by_time`, `compaction_tombstone` and `reset_after_delete` in `retention`, `compaction` and
//! `delete_records`, consumers' commits and rebalances (`crash_before_commit`, `auto_commit_loop`, `auto_commit_handoff`,
//! `max_poll_interval_classic`, `static_restart`, `dynamic_restart`, `static_duplicate`, `eager_join`, `cooperative_join`,
//! `kip848_join`, `classic_to_kip848`) in `groups` beside this file, and transactions (`read_committed`,
//! `transaction_timeout`, `zombie_fencing`, `send_offsets`) in `transactions`. That is all of them: a run that no test plays
//! fails one.

mod groups;
pub mod run;
mod transactions;

use std::collections::{BTreeMap, BTreeSet};

use glassbroker::client::partitioner::partition_for_key;
use glassbroker::kafka::event::{Event, RevokeReason};
use glassbroker::kafka::types::TopicPartition;
use glassbroker::sim::Command;
use serde_json::{Value, json};

use self::run::{Live, events, pairs, text};
use crate::dsl::{Cluster, config, tp};

#[track_caller]
fn check(name: &str) -> Live {
    let mut live = Live::new();
    live.play(&events(name));
    live
}

#[test]
fn acks_1_records_that_no_follower_had_are_lost_with_their_leader() {
    check("acks1_leader_killed");
}

#[test]
fn acks_all_records_outlive_their_leader() {
    check("acks_all_leader_killed");
}

#[test]
fn below_min_isr_acks_all_is_refused_and_acks_1_stays_invisible() {
    check("min_isr_refusal");
}

#[test]
fn a_paused_follower_leaves_the_in_sync_set_after_the_lag_time_and_comes_back() {
    check("isr_shrink_paused");
}

#[test]
fn a_killed_follower_leaves_the_in_sync_set_after_the_lag_time_and_comes_back() {
    check("isr_shrink_killed");
}

/// R-REPL-20: the leader has no reason to drop it, its session's end is one.
#[test]
fn a_paused_follower_of_an_idle_partition_leaves_when_its_session_ends() {
    let live = check("isr_idle_paused");
    let proposed = live.c.events().any(
        |event| matches!(event, Event::IsrChangeProposed { tp: p, out_of_sync, .. } if *p == tp("t-0") && !out_of_sync.is_empty()),
    );
    assert!(!proposed, "the leader wants nobody out\n{}", live.c.report());
}

#[test]
fn a_killed_leader_is_replaced_when_its_session_ends() {
    check("leader_killed_failover");
}

#[test]
fn a_leader_that_stops_cleanly_gives_its_lead_away_first() {
    check("leader_stopped_cleanly");
}

#[test]
fn an_unclean_leader_makes_acknowledged_records_disappear() {
    check("unclean_truncation");
}

#[test]
fn without_unclean_elections_a_partition_waits_until_somebody_asks_for_one() {
    check("clean_only");
}

#[test]
fn brokers_that_stop_cleanly_one_after_the_other_come_back_without_loss() {
    let mut live = check("elr_recovery_clean");
    for broker in [1, 2, 3] {
        live.c.start(broker);
    }
    live.c.until("a controller answers", 10_000, |c| c.active().is_some());
    live.reach(&events("elr_recovery")[0]["result"], 0..=10_000);
    live.play(&events("elr_recovery")[1..]);
}

#[test]
fn an_eligible_replica_that_was_killed_comes_back_while_its_leader_lives() {
    check("elr_killed");
}

/// EX-15, R-PROD-25: no duplicates and no gaps through a change of leader.
#[test]
fn an_idempotent_producer_that_goes_on_while_its_leader_dies_leaves_each_record_once() {
    let run = events("idempotent_retry_failover");
    let [create, producer, kill, sent, read] = &run[..] else { panic!("another run: {run:?}") };
    let mut live = Live::new();
    live.play(&[create.clone(), producer.clone()]);
    let (name, records) = (live.producer(), sent["args"]["records"].as_i64().expect("a number"));
    live.c.send(name.as_str(), records / 2);
    live.event(kill);
    live.c.send(name.as_str(), records - records / 2);
    live.c.until("every record has its outcome", 60_000, |c| {
        let counts = c.producer_state(name.as_str()).counts();
        counts.acknowledged + counts.failed == records
    });
    let counts = live.c.producer_state(name.as_str()).counts();
    assert_eq!(sent["result"], json!({"acknowledged": counts.acknowledged}), "{}", live.c.report());
    let values = live.c.values(live.registration().0, "t-0", 0);
    let numbers: Vec<i64> = values.iter().map(|value| number(value)).collect();
    let distinct: BTreeSet<i64> = numbers.iter().copied().collect();
    let in_order = numbers.is_sorted();
    let found = json!({"records": numbers.len(), "distinct": distinct.len(), "in_order": in_order});
    assert_eq!(found, read["result"], "{}", live.c.report());
}

/// The 3 of `p1 #3`.
fn number(value: &str) -> i64 {
    value.split_once('#').and_then(|(_, number)| number.parse().ok()).expect("a number")
}

/// A consumer's callbacks, as the recording has them.
pub fn callbacks(c: &Cluster, name: &str) -> Vec<(String, Vec<i32>)> {
    let numbers =
        |partitions: &[TopicPartition]| -> Vec<i32> { partitions.iter().map(|tp| tp.partition).collect() };
    let call = |event: &Event| match event {
        Event::PartitionsAssigned { client, added, .. } if client.as_str() == name => {
            Some(("assigned".to_owned(), numbers(added)))
        }
        Event::PartitionsRevoked { client, partitions, reason, .. } if client.as_str() == name => {
            let called = if *reason == RevokeReason::Lost { "lost" } else { "revoked" };
            Some((called.to_owned(), numbers(partitions)))
        }
        _ => None,
    };
    c.events().filter_map(call).collect()
}

/// A key of the given partition of two; of one partition every key is.
fn key_of(partition: &Value) -> String {
    let partition = partition.as_i64().expect("a partition") as i32;
    let mut keys = (0..).map(|number| format!("key-{number}"));
    keys.find(|key| partition_for_key(key.as_bytes(), 2) == partition).expect("half of them are")
}

/// R-PLACE-7, R-GRP-34: with auto.offset.reset=earliest nothing of a new partition is missed.
#[test]
fn a_consumer_reads_what_was_written_to_a_new_partition_before_it_noticed() {
    let mut live = Live::new();
    let mut called = Vec::new();
    for event in &events("partition_increase_earliest") {
        let (op, args, result) = (text(&event["op"]), &event["args"], &event["result"]);
        match op.as_str() {
            "start_consumer" => {
                let given = pairs(args);
                let configs = given.iter().filter(|(name, _)| *name != "client");
                let configs: Vec<(&str, &str)> =
                    configs.map(|(name, value)| (name.as_str(), value.as_str())).collect();
                live.c.consumer("A", "g", &["t"], &["poll"], &configs);
            }
            "assigned" | "revoked" => {
                called.push((op, serde_json::from_value(result.clone()).expect("partitions")));
                live.c.until("the callback", 10_000, |c| callbacks(c, "A").starts_with(&called));
            }
            "send" => {
                let configs = [("linger.ms", "0"), ("metadata.max.age.ms", "2000")];
                live.add_producer(&key_of(&args["partition"]), config(&configs));
                live.send(result);
            }
            "add_partition" => {
                live.c.give(Command::AddPartitions { topic: "t".into(), count: 2 });
                live.c.run_ms(500);
            }
            "received" => {
                live.c.run_ms(1_000);
                assert_eq!(received(&live.c, "A"), *result, "{}", live.c.report());
                live.c.give(Command::Close("A".into()));
            }
            "wait_until" | "closed" => live.c.run_ms(100),
            _ => live.event(event),
        }
    }
}

/// `{"0": [0, 1], "1": [0]}`: the offsets that poll() returned to a consumer, by partition.
pub fn received(c: &Cluster, name: &str) -> Value {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for event in c.events() {
        if let Event::Polled { client, tp, from, to, .. } = event
            && client.as_str() == name
        {
            found.entry(tp.partition.to_string()).or_default().extend(from.0..to.0);
        }
    }
    json!(found)
}

#[test]
fn every_recorded_run_is_played() {
    let played = concat!(
        include_str!("mod.rs"),
        include_str!("groups.rs"),
        include_str!("transactions.rs"),
        include_str!("../retention.rs"),
        include_str!("../compaction.rs"),
        include_str!("../delete_records.rs"),
    );
    let all = run::recording();
    let names: Vec<String> =
        all["scenarios"].as_array().expect("runs").iter().map(|run| text(&run["name"])).collect();
    assert_eq!(names.len(), 33);
    for name in names {
        // In quotes, as code has it and a map has not.
        assert!(played.contains(&format!("\"{name}\"")), "{name} is played nowhere");
    }
}
