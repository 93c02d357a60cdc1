//! The last record of each key stays. EX-31, cases A12 and A13, and a run of vector 16.

use std::ops::RangeInclusive;

use glassbroker::kafka::event::{Event, GroupEvent, PositionSource};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::sim::{Command, WorldConfig};
use serde_json::Value;

use crate::dsl::{Cluster, cluster, cluster_with, config};
use crate::live::run::{Live, at_ms, events};

/// A compacted topic that rolls its segments after half a second.
fn compacted(broker: &[(&str, &str)], pairs: &[(&str, &str)]) -> Cluster {
    let pairs = [&[("cleanup.policy", "compact"), ("segment.ms", "500")], pairs].concat();
    cluster_with(3, WorldConfig { broker_config: config(broker), ..WorldConfig::default() })
        .topic("t", 1, 3, &pairs)
}

fn write(c: &mut Cluster, records: &[(&str, Option<&str>)]) {
    for (key, value) in records {
        c.record("t", key, *value, None);
    }
}

/// Starts a producer on each of the keys before its time, so that the records follow each other within a segment.
fn keyed(c: &mut Cluster, keys: &[&str]) {
    use glassbroker::client::producer::ProducerSpec;
    use glassbroker::client::producer::workload::ValuePattern;
    for name in keys {
        let (key, value) = name.split_once('=').unwrap_or((name, "{tombstone}"));
        c.give(Command::AddProducer(ProducerSpec {
            name: (*name).into(),
            topic: "t".into(),
            rate: "1000/s".parse().expect("a rate"),
            keys: key.parse().expect("a key"),
            value: ValuePattern::new(value),
            partition: None,
            value_size: None,
            transactions: None,
            config: config(&[("acks", "all")]),
        }));
        c.give(Command::Pause((*name).into()));
    }
    c.run_ms(500);
}

fn send_keyed(c: &mut Cluster, keys: &[&str]) {
    for name in keys {
        c.send(name, 1);
        c.until("it is committed", 1_000, |c| c.producer_state(name).counts().acknowledged == 1);
    }
}

#[test]
fn ex_31_the_last_record_of_each_key_stays_and_a_tombstone_until_its_horizon() {
    let day_ms = 86_400_000;
    let mut c = compacted(&[], &[]);
    let keys = ["k1=a", "k2=b", "k1=c", "k3=d", "k2"];
    keyed(&mut c, &keys);
    send_keyed(&mut c, &keys);
    c.run_ms(1_000);
    write(&mut c, &[("k1", Some("e"))]);
    c.run_ms(500);
    assert_eq!(c.records(1, "t-0"), "0 k1=a, 1 k2=b, 2 k1=c, 3 k3=d, 4 k2, 5 k1=e");
    assert!(c.extents("t-0").starts_with("1:0..6 [0 5]"), "{}", c.extents("t-0"));
    c.run_ms(16_000);
    for broker in 1..=3 {
        assert_eq!(c.records(broker, "t-0"), "2 k1=c, 3 k3=d, 4 k2, 5 k1=e", "R-LOG-40, R-LOG-41");
    }
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 4, compacted 2");
    assert_eq!(c.partition(1, "t-0").expect("a replica").log.log_start_offset(), Offset(0), "R-LOG-43");
    let cleaned_ms = c.time_of(
        "the leader's log is cleaned",
        |event| matches!(event, Event::LogCleaned { leader: true, tp, .. } if tp.topic.as_str() == "t"),
    );
    let horizon_ms = Time::from_ms(cleaned_ms).wall_ms() + day_ms;
    let log = &c.partition(1, "t-0").expect("a replica").log;
    let tombstone = log.batches_from(Offset(4)).next().expect("its batch");
    assert_eq!(tombstone.delete_horizon_ms(), Some(horizon_ms), "R-LOG-42");
    write(&mut c, &[("k4", Some("f")), ("k4", Some("g"))]);
    c.run_ms(60_000);
    assert!(c.records(1, "t-0").contains("4 k2, "), "R-LOG-42: {}", c.records(1, "t-0"));
    let partition = c.partition(1, "t-0").expect("a replica");
    let cleaned_at = |ms: i64| {
        let mut log = partition.log.clone();
        let now = Time::from_ms(ms);
        log.roll_active(now);
        let cleanable = log.cleanable(Some(Offset(5)), now, &partition.config.log);
        log.clean(cleanable, now, &partition.config.log).expect("sound batches");
        let records = log.records_between(Offset(0), log.log_end_offset()).expect("sound batches");
        records.iter().map(|record| record.offset.0).collect::<Vec<_>>()
    };
    assert_eq!(cleaned_at(cleaned_ms + day_ms - 1), [3, 4, 5, 7]);
    assert_eq!(cleaned_at(cleaned_ms + day_ms), [3, 5, 7], "at the horizon it goes");
}

#[test]
fn a_12_a_record_without_a_key_is_refused_by_a_compacted_topic_with_its_whole_batch() {
    use glassbroker::kafka::log::{AppendError, Log, LogConfig, Origin};
    use glassbroker::kafka::record::{BatchBuilder, NewRecord};
    use glassbroker::kafka::types::LeaderEpoch;

    let c = compacted(&[], &[]);
    let partition = c.partition(1, "t-0").expect("it leads");
    let config: &LogConfig = &partition.config.log;
    assert!(config.compacted && !config.deletes, "the topic's config has come to its log");
    let mut log: Log = partition.log.clone();
    let mut append = |keys: &[Option<&[u8]>]| {
        let mut batch = BatchBuilder::new();
        for key in keys {
            let record = NewRecord { timestamp_ms: 1, key: *key, value: None, ..NewRecord::default() };
            batch.append(&record);
        }
        let bytes = batch.finish(None).into_bytes();
        let appended = log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(0), Origin::Client, config);
        (appended.as_ref().err().map(AppendError::code), log.log_end_offset())
    };
    let refused = (Some(ErrorCode::InvalidRecord), Offset(0));
    assert_eq!(append(&[Some(b"a"), None, Some(b"b")]), refused, "R-LOG-20, R-LOG-22");
    assert_eq!(append(&[Some(b"a"), Some(b"b")]), (None, Offset(2)), "a null value is a tombstone");
}

#[test]
fn a_13_the_active_segment_keeps_what_a_closed_one_would_not() {
    let mut c = compacted(&[], &[("min.cleanable.dirty.ratio", "0.01")]);
    keyed(&mut c, &["k=v1", "k=v2"]);
    send_keyed(&mut c, &["k=v1", "k=v2"]);
    c.run_ms(1_000);
    write(&mut c, &[("k", Some("v3"))]);
    c.run_ms(20_000);
    assert_eq!(c.records(1, "t-0"), "1 k=v2, 2 k=v3", "R-LOG-40");
    let log = &c.partition(1, "t-0").expect("it leads").log;
    assert_eq!(log.log_end_offset() - log.log_start_offset(), 3, "R-LOG-43: two records in three offsets");
    assert_eq!(log.last_stable_offset(), Offset(3));
}

/// What `a=1 b=null at offsets 0 to 1` says was written, a tombstone as its key, and the offsets if they are told.
fn written(result: &Value) -> (Vec<String>, Option<RangeInclusive<i64>>) {
    let result = result.as_str().expect("a list");
    let (records, offsets) = match result.split_once(" at offsets ") {
        Some((records, offsets)) => (records, Some(offsets.split_once(" to ").expect("first to last"))),
        None => (result, None),
    };
    let number = |text: &str| text.parse().expect("an offset");
    let records = records.split(' ').map(|record| record.trim_end_matches("=null").to_owned()).collect();
    (records, offsets.map(|(first, last)| number(first)..=number(last)))
}

/// What a read shows, each record as it is written: `(6, "roll=1")`.
fn shown(result: &Value) -> Vec<(i64, String)> {
    let records = result["records"].as_array().expect("records").iter();
    let shown = |record: &Value| {
        let value = record[2].as_str().map(|value| format!("={value}")).unwrap_or_default();
        (record[0].as_i64().expect("an offset"), format!("{}{value}", record[1].as_str().expect("a key")))
    };
    records.map(shown).collect()
}

/// A recorded read ends when nothing more has come for about a second, and has its time from then: what it shows was so at
/// its beginning.
const READ_MS: i64 = 1_000;

/// R-LOG-4, R-LOG-40 to 42.
#[test]
fn vector_16_compaction_tombstone() {
    let run = events("compaction_tombstone");
    let op = |event: &Value, name: &str| event["op"] == name;
    let mut live = Live::new();
    live.event(&run[0]);
    // Nothing says when the record was sent for which the first segment is closed; the first read shows it.
    let first_read = run.iter().find(|event| op(event, "read")).expect("a read");
    let closing = shown(&first_read["result"]).pop().expect("records").1;
    let sent = run.iter().filter(|event| op(event, "send")).flat_map(|event| written(&event["result"]).0);
    let sent: Vec<String> = sent.chain([closing.clone()]).collect();
    keyed(&mut live.c, &sent.iter().map(String::as_str).collect::<Vec<_>>());
    let began_ms = live.c.now_ms() - at_ms(&run[1]);
    for event in &run[1..] {
        let took_ms = if op(event, "read") { READ_MS } else { 0 };
        live.wait_until_ms(began_ms + at_ms(event) - took_ms);
        let result = &event["result"];
        if op(event, "send") {
            let (records, offsets) = written(result);
            send_keyed(&mut live.c, &records.iter().map(String::as_str).collect::<Vec<_>>());
            let told = live.c.events().filter_map(|event| match event {
                Event::BatchAcknowledged { base_offset, .. } => Some(base_offset.0),
                _ => None,
            });
            let told: Vec<i64> = told.collect();
            assert!(offsets.is_none_or(|offsets| offsets.eq(told.iter().copied())), "{event}: {told:?}");
        } else if op(event, "read") {
            if event == first_read {
                send_keyed(&mut live.c, &[&closing]);
            }
            let expected: Vec<String> =
                shown(result).iter().map(|(offset, record)| format!("{offset} {record}")).collect();
            assert_eq!(live.c.records(1, "t-0"), expected.join(", "), "{event}");
            let log = &live.c.partition(1, "t-0").expect("it leads").log;
            assert_eq!(result["position"], log.high_watermark().0, "{event}");
        } else {
            live.event(event);
        }
    }
}

#[test]
fn the_filthiest_log_is_cleaned_first_one_a_pass_and_none_when_the_cleaner_is_off() {
    let cleaned = |enabled: &str| {
        let broker = [("log.cleaner.enable", enabled), ("log.cleaner.backoff.ms", "30000")];
        let mut c = compacted(&broker, &[("min.cleanable.dirty.ratio", "0.01")]);
        let pairs =
            [("cleanup.policy", "compact"), ("segment.ms", "500"), ("min.cleanable.dirty.ratio", "0.01")];
        c = c.topic("u", 1, 3, &pairs);
        for topic in ["t", "u"] {
            c.record(topic, "k", Some("1"), None);
            c.run_ms(600);
            c.record(topic, "k", Some("2"), None);
        }
        c.run_ms(31_000 - c.now_ms());
        for (topic, records) in [("t", 1), ("u", 3)] {
            for _ in 0..records {
                c.record(topic, "k", Some("{n}"), None);
            }
            c.run_ms(600);
            c.record(topic, "k", Some("last"), None);
        }
        c.run_ms(61_000 - c.now_ms());
        let clean = |event: &Event| match event {
            Event::LogCleaned { tp, leader: true, from, .. } => Some(format!("{tp} from {from}")),
            _ => None,
        };
        c.events().filter_map(clean).collect::<Vec<_>>()
    };
    assert_eq!(cleaned("true"), ["t-0 from 0", "u-0 from 0", "u-0 from 1", "t-0 from 1"], "R-LOG-39");
    assert_eq!(cleaned("false"), [""; 0]);
}

#[test]
fn a_compacted_log_with_retention_loses_old_segments_too_r_log_47() {
    let topic = [("cleanup.policy", "compact,delete"), ("segment.ms", "500"), ("retention.ms", "20000")];
    let mut c = cluster(3).topic("t", 1, 3, &topic);
    write(&mut c, &[("a", Some("1"))]);
    c.run_ms(1_000);
    write(&mut c, &[("b", Some("1"))]);
    c.run_ms(10_000);
    assert_eq!(c.records(1, "t-0"), "0 a=1, 1 b=1");
    c.run_ms(40_000);
    assert_eq!(c.records(1, "t-0"), "", "the last value of a key goes with its segment");
    assert!(c.extents("t-0").starts_with("1:2..2 [2]"), "{}", c.extents("t-0"));
}

#[test]
fn a_replica_with_a_wiped_disk_copies_a_compacted_log_with_its_gaps() {
    let mut c = compacted(&[("log.cleaner.backoff.ms", "500")], &[("min.cleanable.dirty.ratio", "0.01")]);
    let keys = ["a=1", "b=1", "a=2", "c=1", "b", "a=3"];
    keyed(&mut c, &keys);
    send_keyed(&mut c, &keys);
    c.run_ms(1_000);
    write(&mut c, &[("roll", Some("1"))]);
    c.run_ms(3_000);
    let left = "3 c=1, 4 b, 5 a=3, 6 roll=1";
    assert_eq!(c.records(1, "t-0"), left);
    c.kill(3);
    c.until("broker 3 is out", 15_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
    c.give(Command::WipeDisk(BrokerId(3)));
    c.start(3);
    c.until("it is in sync", 30_000, |c| c.registration("t-0") == "1 e0 isr[1,2,3]");
    c.run_ms(1_000);
    assert_eq!(c.records(3, "t-0"), left, "R-LOG-24: gaps are what compaction leaves");
    assert_eq!(c.replicas("t-0"), "1:7/7 2:7/7 3:7/7");
    let start = c.partition(3, "t-0").expect("a replica").log.log_start_offset();
    assert_eq!(start, Offset(0), "it fetched from offset 0, where the leader's log begins");
}

#[test]
fn committed_offsets_outlive_the_compaction_of_their_topic_and_a_change_of_coordinator() {
    let broker = [("log.cleaner.backoff.ms", "500"), ("offsets.topic.num.partitions", "1")];
    let mut c = cluster_with(3, WorldConfig { broker_config: config(&broker), ..WorldConfig::default() })
        .topic("t", 1, 3, &[]);
    c.producer("p", "t", "20/s", &[]);
    let often = [("auto.offset.reset", "earliest"), ("auto.commit.interval.ms", "100")];
    c.consumer("reader", "g", &["t"], &["poll"], &often);
    c.run_ms(5_000);
    for (key, value) in [("internal.segment.bytes", "2000"), ("min.cleanable.dirty.ratio", "0.01")] {
        let (key, value) = (key.to_string(), Some(value.to_string()));
        c.give(Command::SetTopicConfig { topic: "__consumer_offsets".into(), key, value });
    }
    c.send("p", 400);
    c.run_ms(5_000);
    let cleaned = |event: &Event| match event {
        Event::LogCleaned { tp, before, after, .. } if tp.topic.as_str() == "__consumer_offsets" => {
            Some((before.records, after.records))
        }
        _ => None,
    };
    let passes: Vec<(i64, i64)> = c.events().filter_map(cleaned).collect();
    assert!(passes.iter().any(|(before, after)| after < before), "{passes:?}");
    let home = c.registration("__consumer_offsets-0")[..1].parse().expect("a leader");
    c.kill(home);
    c.until("the group's state is loaded elsewhere", 30_000, |c| {
        c.events().any(|event| {
            matches!(event, Event::Group(GroupEvent::CoordinatorLoaded { broker, groups, .. })
            if broker.0 != home && !groups.is_empty())
        })
    });
    c.give(Command::Close("reader".into()));
    c.run_ms(60_000);
    c.consumer("second", "g", &["t"], &["poll"], &often);
    c.until_event("it goes on at the end", 60_000, |event| {
        matches!(event, Event::PositionSet { offset: Offset(400), source: PositionSource::Committed, .. })
    });
}
