//! One recorded run, played event by event: each act is carried out, each outcome compared.

use std::collections::BTreeMap;

use glassbroker::client::producer::ProducerSpec;
use glassbroker::client::producer::workload::ValuePattern;
use glassbroker::kafka::controller::elections::ElectionType;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName, Offset};
use glassbroker::sim::{Command, Target};
use serde_json::{Value, json};

use crate::dsl::{Cluster, config, ids, quorum_of_seed, tp};

/// The recorded server configs that have an effect here.
const SERVER_CONFIGS: [&str; 9] = [
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "replica.lag.time.max.ms",
    "offsets.topic.num.partitions",
    "group.initial.rebalance.delay.ms",
    "log.retention.check.interval.ms",
    "log.cleaner.backoff.ms",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "auto.leader.rebalance.enable",
];

pub fn recording() -> Value {
    serde_json::from_str(include_str!("../../vectors/16_live_scenarios.json")).expect("JSON")
}

pub fn events(name: &str) -> Vec<Value> {
    let all = recording();
    let run = all["scenarios"].as_array().expect("runs").iter().find(|run| run["name"] == name);
    run.unwrap_or_else(|| panic!("no run {name}"))["events"].as_array().expect("events").clone()
}

pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub fn pairs(object: &Value) -> BTreeMap<String, String> {
    object.as_object().expect("configs").iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// When an event was recorded, since the run's start.
pub fn at_ms(event: &Value) -> i64 {
    (event["at_s"].as_f64().expect("a time") * 1_000.0) as i64
}

/// How long something may take that Kafka needed `took_s` for: the phases of timers differ.
pub fn about(took_s: f64) -> std::ops::RangeInclusive<i64> {
    (took_s * 500.0) as i64 - 1_000..=(took_s * 1_500.0) as i64 + 3_000
}

/// A run in progress.
pub struct Live {
    pub c: Cluster,
    /// Producers so far; the last one sends.
    producers: usize,
    /// Recorded values by the values that our producers made in their place.
    values: BTreeMap<String, String>,
}

impl Live {
    pub fn new() -> Live {
        Live::with(&[])
    }

    /// With further server configs.
    pub fn with(more: &[(&str, &str)]) -> Live {
        Live::of_seed(1, more)
    }

    /// Where something hangs on ids that clients give themselves by chance.
    pub fn of_seed(seed: u64, more: &[(&str, &str)]) -> Live {
        let header = &recording()["header"];
        let configs: Vec<(&str, String)> =
            SERVER_CONFIGS.iter().map(|name| (*name, text(&header["server_configs"][name]))).collect();
        let recorded = configs.iter().map(|(name, value)| (*name, value.as_str()));
        let configs: Vec<(&str, &str)> = recorded.chain(more.iter().copied()).collect();
        Live { c: quorum_of_seed(seed, 3, &configs), producers: 0, values: BTreeMap::new() }
    }

    pub fn play(&mut self, events: &[Value]) {
        for event in events {
            self.event(event);
        }
    }

    /// Each event as long after the first as it was recorded; the first happens now.
    pub fn play_in_time(&mut self, events: &[Value]) {
        let began_ms = self.c.now_ms() - at_ms(&events[0]);
        for event in events {
            self.wait_until_ms(began_ms + at_ms(event));
            self.event(event);
        }
    }

    /// What came before may have taken longer.
    pub fn wait_until_ms(&mut self, at_ms: i64) {
        let wait_ms = at_ms - self.c.now_ms();
        self.c.run_ms(wait_ms.max(0));
    }

    pub fn event(&mut self, event: &Value) {
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

    pub fn new_producer(&mut self, args: &Value) {
        let defaults = [("linger.ms", "0"), ("metadata.max.age.ms", "2000")];
        let mut given = config(&defaults);
        given.extend(pairs(args));
        self.add_producer("key", given);
    }

    pub fn add_producer(&mut self, key: &str, config: BTreeMap<String, String>) {
        self.producers += 1;
        let name = self.producer();
        self.c.give(Command::AddProducer(ProducerSpec {
            name,
            topic: "t".into(),
            rate: "100/s".parse().expect("a rate"),
            keys: key.parse().expect("a key"),
            value: ValuePattern::new(&format!("{} #{{n}}", self.producer())),
            partition: None,
            value_size: None,
            transactions: None,
            config,
        }));
        self.c.give(Command::Pause(self.producer()));
        self.c.run_ms(400);
    }

    pub fn producer(&self) -> ClientName {
        ClientName::new(&format!("p{}", self.producers))
    }

    /// One record after the other, each with its outcome.
    pub fn send(&mut self, result: &Value) {
        self.send_by(&self.producer(), result);
    }

    /// The same by one of the producers.
    pub fn send_by(&mut self, name: &ClientName, result: &Value) {
        for record in result.as_array().expect("records") {
            let begun = self.c.now_ms();
            let ours = format!("{name} #{}", self.c.producer_state(name.as_str()).counts().sent + 1);
            let seen = self.c.world.trace().len_ever();
            self.c.send(name.as_str(), 1);
            let outcome = |c: &Cluster| {
                c.world.trace().since(seen).find_map(|entry| match &entry.event {
                    Event::BatchAcknowledged { client, base_offset, .. } if client == name => {
                        Some(Ok(base_offset.0))
                    }
                    Event::BatchFailed { client, error, .. } if client == name => Some(Err(*error)),
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
    pub fn reach(&mut self, described: &Value, within_ms: std::ops::RangeInclusive<i64>) {
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
    pub fn registration(&self) -> (i32, Vec<i32>, Vec<i32>, Vec<i32>) {
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

    /// The recorded value of a record of t-0, as the leader has it.
    pub fn value_at(&self, offset: Offset) -> Option<&String> {
        let log = &self.c.partition(self.registration().0, "t-0").expect("a leader").log;
        let records = log.records_between(offset, offset + 1).expect("sound batches");
        let record = records.into_iter().find(|record| record.offset == offset)?;
        self.values.get(&*String::from_utf8_lossy(record.value.as_deref()?))
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
        if let Some(error) = result["error"].as_str() {
            let refused = log.read(Offset(from), end, 1_000, true).map(|_| ());
            return assert_eq!(refused, Err(error_of(error)), "{}", self.c.report());
        }
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

pub fn error_of(exception: &str) -> ErrorCode {
    match exception.split(':').next() {
        Some("TimeoutException") => ErrorCode::RequestTimedOut,
        Some("NotEnoughReplicasException") => ErrorCode::NotEnoughReplicas,
        Some("OffsetOutOfRangeException") => ErrorCode::OffsetOutOfRange,
        Some("FencedInstanceIdException") => ErrorCode::FencedInstanceId,
        Some("InvalidProducerEpochException") => ErrorCode::InvalidProducerEpoch,
        // The exception has no code; this is what a member that is in no generation has instead.
        Some("CommitFailedException") => ErrorCode::UnknownMemberId,
        other => panic!("an error that this test does not know: {other:?}"),
    }
}
