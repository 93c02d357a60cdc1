//! The runs of `16_live_scenarios.json` that concern acks, in-sync sets, elections, eligible leader replicas and topics:
//! real clients, three brokers and three controllers of Kafka 4.3.1, lived again event by event in the recorded order.
//!
//! | what | compared |
//! | --- | --- |
//! | send | the offset or the error of each record; how long it took where that was recorded |
//! | describe, wait_until | leader, in-sync, eligible and last known leaders, reached within a time of the recorded order |
//! | list_offsets | log start, high watermark and last stable offset at the leader, or that there is none |
//! | read | offset and identity of every record below the high watermark; our keys and values are not the recorded ones |
//! | callbacks of consumers | which partitions, in their order |
//!
//! `acks1_leader_killed`, `acks_all_leader_killed`, `min_isr_refusal`, `isr_shrink_paused`, `isr_shrink_killed`,
//! `isr_idle_paused`, `leader_killed_failover`, `leader_stopped_cleanly`, `unclean_truncation`, `clean_only`,
//! `elr_recovery_clean` with `elr_recovery`, `elr_killed`, `partition_increase_earliest` and `idempotent_retry_failover`
//! are compared here. Left out: consumers' commits and rebalances (`crash_before_commit`, `auto_commit_loop`,
//! `auto_commit_handoff`, `max_poll_interval_classic`, `static_restart`, `dynamic_restart`, `static_duplicate`,
//! `eager_join`, `cooperative_join`, `kip848_join`, `classic_to_kip848`), which belong to groups; transactions
//! (`read_committed`, `transaction_timeout`, `zombie_fencing`, `send_offsets`), which clients do not have; retention and
//! compaction (`reset_after_delete`, `retention_by_time`, `compaction_tombstone`), which are not in this file.

use std::collections::BTreeMap;

use glassbroker::client::partitioner::partition_for_key;
use glassbroker::client::producer::ProducerSpec;
use glassbroker::client::producer::workload::ValuePattern;
use glassbroker::kafka::controller::elections::ElectionType;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName, Offset, TopicPartition};
use glassbroker::sim::{Command, Target};
use serde_json::{Value, json};

use crate::dsl::{Cluster, config, ids, quorum, tp};

/// The recorded server configs that have an effect here.
const SERVER_CONFIGS: [&str; 6] = [
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "replica.lag.time.max.ms",
    "offsets.topic.num.partitions",
    "group.initial.rebalance.delay.ms",
    "auto.leader.rebalance.enable",
];

fn recording() -> Value {
    serde_json::from_str(include_str!("../vectors/16_live_scenarios.json")).expect("JSON")
}

fn events(name: &str) -> Vec<Value> {
    let all = recording();
    let run = all["scenarios"].as_array().expect("runs").iter().find(|run| run["name"] == name);
    run.unwrap_or_else(|| panic!("no run {name}"))["events"].as_array().expect("events").clone()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn pairs(object: &Value) -> BTreeMap<String, String> {
    object.as_object().expect("configs").iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// How long something may take that Kafka needed `took_s` for: the phases of timers differ.
fn about(took_s: f64) -> std::ops::RangeInclusive<i64> {
    (took_s * 500.0) as i64 - 1_000..=(took_s * 1_500.0) as i64 + 3_000
}

/// A run in progress.
struct Live {
    c: Cluster,
    /// Producers so far; the last one sends.
    producers: usize,
    /// Recorded values by the values that our producers made in their place.
    values: BTreeMap<String, String>,
}

impl Live {
    fn new() -> Live {
        let header = &recording()["header"];
        let configs: Vec<(&str, String)> =
            SERVER_CONFIGS.iter().map(|name| (*name, text(&header["server_configs"][name]))).collect();
        let configs: Vec<(&str, &str)> =
            configs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Live { c: quorum(3, &configs), producers: 0, values: BTreeMap::new() }
    }

    fn play(&mut self, events: &[Value]) {
        for event in events {
            self.event(event);
        }
    }

    fn event(&mut self, event: &Value) {
        let (args, result) = (&event["args"], &event["result"]);
        match text(&event["op"]).as_str() {
            "create_topic" => self.create_topic(args),
            "new_producer" => self.new_producer(args),
            "send" => self.send(result),
            "kill (SIGKILL)" => self.kill(args),
            "pause (SIGSTOP)" => self.each(args, Command::Freeze),
            "resume (SIGCONT)" => self.each(args, Command::Thaw),
            "start" => self.each(args, Command::Start),
            "stop (SIGTERM, waits for exit)" => self.stop(args),
            "describe" => self.reach(result, 0..=1_000),
            "wait_until" => self.wait_until(args, result),
            "list_offsets" => self.list_offsets(result),
            "read" => self.read(args, result),
            "elect_preferred" => self.elect(ElectionType::Preferred),
            "elect_unclean" => self.elect(ElectionType::Unclean),
            other => panic!("an event that this test does not know: {other}"),
        }
    }

    /// Partition 0 is created as brokers come and moved to the recorded replicas if those are others.
    fn create_topic(&mut self, args: &Value) {
        let replicas: Vec<i32> = serde_json::from_value(args["replicas"]["0"].clone()).expect("brokers");
        let (topic, replication_factor) = ("t".into(), replicas.len() as i16);
        self.c.give(Command::CreateTopic {
            topic,
            partitions: 1,
            replication_factor,
            config: pairs(&args["configs"]),
        });
        self.c.run_ms(1_000);
        let image = self.c.world.active_controller().expect("a controller").image();
        if image.partition(&tp("t-0")).expect("created").replicas != ids(&replicas) {
            self.c.give(Command::Reassign { partition: tp("t-0"), replicas: ids(&replicas) });
            self.c.run_ms(2_000);
            self.elect(ElectionType::Preferred);
        }
        assert!(self.registration().0 == replicas[0], "{}", self.c.report());
    }

    fn new_producer(&mut self, args: &Value) {
        let defaults = [("linger.ms", "0"), ("metadata.max.age.ms", "2000")];
        let mut given = config(&defaults);
        given.extend(pairs(args));
        self.add_producer("key", given);
    }

    fn add_producer(&mut self, key: &str, config: BTreeMap<String, String>) {
        self.producers += 1;
        let name = self.producer();
        self.c.give(Command::AddProducer(ProducerSpec {
            name,
            topic: "t".into(),
            rate: "100/s".parse().expect("a rate"),
            keys: key.parse().expect("a key"),
            value: ValuePattern::new(&format!("{} #{{n}}", self.producer())),
            value_size: None,
            config,
        }));
        self.c.give(Command::Pause(self.producer()));
        self.c.run_ms(400);
    }

    fn producer(&self) -> ClientName {
        ClientName::new(&format!("p{}", self.producers))
    }

    /// One record after the other, each with its outcome.
    fn send(&mut self, result: &Value) {
        for record in result.as_array().expect("records") {
            let (name, begun) = (self.producer(), self.c.now_ms());
            let ours = format!("{name} #{}", self.c.producer_state(name.as_str()).counts().sent + 1);
            let seen = self.c.world.trace().len_ever();
            self.c.send(name.as_str(), 1);
            let outcome = |c: &Cluster| {
                c.world.trace().since(seen).find_map(|entry| match &entry.event {
                    Event::BatchAcknowledged { client, base_offset, .. } if *client == name => {
                        Some(Ok(base_offset.0))
                    }
                    Event::BatchFailed { client, error, .. } if *client == name => Some(Err(*error)),
                    _ => None,
                })
            };
            self.c.until("the record has its outcome", 60_000, |c| outcome(c).is_some());
            let expected = match (&record["result"], record["result"].as_str()) {
                (offset, None) => Ok(offset.as_i64().expect("an offset")),
                (_, Some(error)) => Err(error_of(error)),
            };
            assert_eq!(outcome(&self.c), Some(expected), "{record}\n{}", self.c.report());
            if let Some(took_s) = record["took_s"].as_f64() {
                let took_ms = self.c.now_ms() - begun;
                assert!(about(took_s).contains(&took_ms), "{record}: {took_ms} ms\n{}", self.c.report());
            }
            if expected.is_ok() {
                self.values.insert(ours, text(&record["value"]));
            }
        }
    }

    /// Gives a command for each node of a list such as `["b1", "b2"]`.
    fn each(&mut self, args: &Value, command: fn(Target) -> Command) {
        for id in brokers(args) {
            self.c.give(command(Target::Broker(BrokerId(id))));
        }
    }

    /// Of brokers that are killed together, the first was heard of last when Kafka ran this, so its session ends last.
    fn kill(&mut self, args: &Value) {
        let heard = |c: &Cluster, id: i32| {
            c.world.active_controller().and_then(|controller| controller.last_contact(BrokerId(id)))
        };
        let ids = brokers(args);
        self.c.until("the first was heard of last", 2_000, |c| {
            ids.windows(2).all(|pair| heard(c, pair[0]) > heard(c, pair[1]))
        });
        self.each(args, Command::Kill);
    }

    fn stop(&mut self, args: &Value) {
        for id in brokers(args) {
            self.c.give(Command::Stop(BrokerId(id)));
            self.c.until("its process is gone", 10_000, |c| c.world.broker(BrokerId(id)).is_none());
        }
    }

    fn elect(&mut self, kind: ElectionType) {
        self.c.give(Command::ElectLeader { kind, partition: Some(tp("t-0")) });
        self.c.run_ms(500);
    }

    fn wait_until(&mut self, args: &Value, result: &Value) {
        match result["took_s"].as_f64() {
            Some(took_s) => self.reach(&result["topic"], about(took_s)),
            // No broker was left to ask.
            None => assert!((1..=3).all(|id| self.c.world.broker(BrokerId(id)).is_none()), "{args}"),
        }
    }

    /// Runs until the partition is as described, within a time.
    fn reach(&mut self, described: &Value, within_ms: std::ops::RangeInclusive<i64>) {
        let begun = self.c.now_ms();
        let list = |field: &str| -> Vec<i32> {
            serde_json::from_value(described["0"][field].clone()).expect("brokers")
        };
        let leader = described["0"]["leader"].as_i64().expect("a broker") as i32;
        let expected = (leader, list("isr"), list("elr"), list("last_known_elr"));
        while self.registration() != expected {
            let now = self.c.now_ms() - begun;
            assert!(
                now <= *within_ms.end(),
                "not {described}: {:?}\n{}",
                self.registration(),
                self.c.report()
            );
            self.c.world.step().expect("something goes on");
        }
        let took_ms = self.c.now_ms() - begun;
        assert!(within_ms.contains(&took_ms), "{described} after {took_ms} ms\n{}", self.c.report());
    }

    /// Leader, in-sync, eligible and last known leaders.
    fn registration(&self) -> (i32, Vec<i32>, Vec<i32>, Vec<i32>) {
        let image = self.c.world.active_controller().expect("a controller").image();
        let partition = image.partition(&tp("t-0")).expect("a partition");
        let sorted = |ids: &[BrokerId]| {
            let mut ids: Vec<i32> = ids.iter().map(|id| id.0).collect();
            ids.sort();
            ids
        };
        let (isr, elr, last) = (&partition.isr, &partition.elr, &partition.last_known_elr);
        (partition.leader.0, sorted(isr), sorted(elr), sorted(last))
    }

    fn list_offsets(&mut self, result: &Value) {
        if result["error"].is_string() {
            assert_eq!(self.registration().0, -1, "nobody can say");
            return;
        }
        let offsets = |c: &Cluster, leader: i32| {
            let log = &c.partition(leader, "t-0")?.log;
            let (start, end) = (log.log_start_offset().0, log.high_watermark().0);
            Some(json!({"earliest": start, "high_watermark": end, "last_stable": log.last_stable_offset().0}))
        };
        let leader = self.registration().0;
        self.c.until(&format!("{result}"), 1_000, |c| offsets(c, leader).as_ref() == Some(result));
    }

    fn read(&mut self, args: &Value, result: &Value) {
        self.c.run_ms(1_000);
        let log = &self.c.partition(self.registration().0, "t-0").expect("a leader").log;
        let (from, end) = (args["from"].as_i64().expect("an offset"), log.high_watermark());
        assert_eq!(result["position"], end.0, "{}", self.c.report());
        let records = log.records_between(Offset(from), end).expect("sound batches");
        let found: Vec<Value> = records
            .iter()
            .map(|record| {
                let ours = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
                json!([record.offset.0, self.values.get(&ours)])
            })
            .collect();
        let expected: Vec<Value> = result["records"]
            .as_array()
            .expect("records")
            .iter()
            .map(|record| json!([record[0], record[2]]))
            .collect();
        assert_eq!(found, expected, "{}", self.c.report());
    }
}

fn brokers(args: &Value) -> Vec<i32> {
    let nodes = args["nodes"].as_array().expect("nodes").iter();
    nodes.map(|node| text(node).trim_start_matches('b').parse().expect("a broker")).collect()
}

fn error_of(exception: &str) -> ErrorCode {
    match exception.split(':').next() {
        Some("TimeoutException") => ErrorCode::RequestTimedOut,
        Some("NotEnoughReplicasException") => ErrorCode::NotEnoughReplicas,
        other => panic!("an error that this test does not know: {other:?}"),
    }
}

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
    let distinct: std::collections::BTreeSet<i64> = numbers.iter().copied().collect();
    let in_order = numbers.is_sorted();
    let found = json!({"records": numbers.len(), "distinct": distinct.len(), "in_order": in_order});
    assert_eq!(found, read["result"], "{}", live.c.report());
}

/// The 3 of `p1 #3`.
fn number(value: &str) -> i64 {
    value.split_once('#').and_then(|(_, number)| number.parse().ok()).expect("a number")
}

/// The callbacks of consumer A and what it received, as the recording has them.
fn callbacks(c: &Cluster) -> Vec<(String, Vec<i32>)> {
    let numbers =
        |partitions: &[TopicPartition]| -> Vec<i32> { partitions.iter().map(|tp| tp.partition).collect() };
    let call = |event: &Event| match event {
        Event::PartitionsAssigned { partitions, .. } => Some(("assigned".to_owned(), numbers(partitions))),
        Event::PartitionsRevoked { partitions, .. } => Some(("revoked".to_owned(), numbers(partitions))),
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
                live.c.until("the callback", 10_000, |c| callbacks(c).starts_with(&called));
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
                assert_eq!(received(&live.c), *result, "{}", live.c.report());
                live.c.give(Command::Close("A".into()));
            }
            "wait_until" | "closed" => live.c.run_ms(100),
            _ => live.event(event),
        }
    }
}

/// `{"0": [0, 1], "1": [0]}`: the offsets that poll() returned, by partition.
fn received(c: &Cluster) -> Value {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for event in c.events() {
        if let Event::Polled { tp, from, to, .. } = event {
            found.entry(tp.partition.to_string()).or_default().extend(from.0..to.0);
        }
    }
    json!(found)
}
