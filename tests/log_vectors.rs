//! Histories of a log that were recorded from Kafka 4.3.1, lived again.

use glassbroker::kafka::log::{AppendLimits, LeaderEpochs, Log, Origin};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::record::{BatchBuilder, NewRecord};
use glassbroker::kafka::time::Time;
use glassbroker::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use serde_json::{Value, json};

fn scripts(vectors: &str) -> Vec<Value> {
    let mut vectors: Value = serde_json::from_str(vectors).unwrap();
    serde_json::from_value(vectors["scripts"].take()).unwrap()
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is not an integer"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

fn leader_epoch(value: &Value) -> LeaderEpoch {
    LeaderEpoch(int(value) as i32)
}

#[test]
fn leader_epochs_are_kept_and_answered_for_as_kafka_does_r_log_48_49_50() {
    for script in scripts(include_str!("vectors/08c_leader_epochs.json")) {
        let mut epochs = LeaderEpochs::default();
        for step in list(&script["steps"]) {
            match step["op"].as_str().unwrap() {
                "assign" => epochs.assign(leader_epoch(&step["epoch"]), Offset(int(&step["start_offset"]))),
                "truncate_from_end" => epochs.truncate_from_end(Offset(int(&step["offset"]))),
                "truncate_from_start" => epochs.truncate_from_start(Offset(int(&step["offset"]))),
                op => panic!("{op}"),
            }
            let entries = epochs.entries().iter().map(|entry| json!([entry.epoch.0, entry.start_offset.0]));
            assert_eq!(entries.collect::<Value>(), step["entries"], "{}", script["name"]);
        }
        let log_end_offset = Offset(int(&script["log_end_offset"]));
        for answer in list(&script["end_offset_for"]) {
            let (epoch, end) = epochs.end_offset_for(leader_epoch(&answer[0]), log_end_offset);
            assert_eq!(json!([answer[0], epoch.0, end.0]), *answer, "{}", script["name"]);
        }
        for answer in list(&script["epoch_for_offset"]) {
            let epoch = epochs.epoch_at(Offset(int(&answer[0])));
            assert_eq!(json!([answer[0], epoch.map(|epoch| epoch.0)]), *answer, "{}", script["name"]);
        }
    }
}

fn at_wall_ms(wall_ms: i64) -> Time {
    Time::ZERO.plus_ms(wall_ms - Time::ZERO.wall_ms())
}

/// The step's outcome under the vectors' names.
fn append(log: &mut Log, step: &Value) -> Value {
    let mut builder = BatchBuilder::new();
    let timestamp_ms = int(&step["timestamp"]);
    for _ in 0..int(&step["count"]) {
        builder.append(&NewRecord { timestamp_ms, value: Some(b"v"), ..NewRecord::default() });
    }
    let epoch = ProducerEpoch(int(&step["epoch"]) as i16);
    let batch = builder.finish(Some((ProducerId(int(&step["pid"])), epoch, int(&step["sequence"]) as i32)));
    let limits = AppendLimits::default();
    let now = at_wall_ms(timestamp_ms);
    match log.append_as_leader(now, batch.into_bytes(), LeaderEpoch(0), Origin::Client, &limits) {
        Ok(appended) => json!([appended.duplicate, appended.base_offset.0, appended.last_offset.0]),
        Err(error) => json!(match error.code() {
            ErrorCode::InvalidProducerEpoch => "InvalidProducerEpochException",
            ErrorCode::OutOfOrderSequenceNumber => "OutOfOrderSequenceException",
            code => panic!("{code}"),
        }),
    }
}

fn producers(log: &Log) -> Value {
    let producer = |(id, producer): (ProducerId, &glassbroker::kafka::log::Producer)| {
        json!({
            "pid": id.0,
            "epoch": producer.epoch().0,
            "last_sequence": producer.last_sequence(),
            "last_timestamp": producer.last_timestamp_ms(),
        })
    };
    log.producers().iter().map(producer).collect()
}

#[test]
fn idempotent_producers_are_accepted_and_refused_as_kafka_does_r_prod_25_26_27_28() {
    for script in scripts(include_str!("vectors/08a_producer_state.json")) {
        let mut log = Log::new();
        let mut now_ms = int(&script["start_time"]);
        for (index, step) in list(&script["steps"]).iter().enumerate() {
            let place = format!("{} step {index}: {step}", script["name"]);
            match step["op"].as_str().unwrap() {
                "append" => {
                    now_ms = int(&step["timestamp"]);
                    let expected = match &step["error"] {
                        Value::Null => json!([step["duplicate"], step["first_offset"], step["last_offset"]]),
                        error => error.clone(),
                    };
                    assert_eq!(append(&mut log, step), expected, "{place}");
                }
                "sleep_and_expire" => {
                    now_ms += int(&step["ms"]);
                    log.remove_expired_producers(
                        at_wall_ms(now_ms),
                        int(&script["producer_id_expiration_ms"]),
                    );
                }
                "set_high_watermark" => {
                    log.update_high_watermark(Offset(int(&step["offset"])));
                }
                "truncate_to" => {
                    log.truncate_to(Offset(int(&step["offset"])));
                }
                op => panic!("{op}"),
            }
            let offsets = json!({
                "log_start": log.log_start_offset().0,
                "log_end": log.log_end_offset().0,
                "high_watermark": log.high_watermark().0,
            });
            assert_eq!(offsets, step["offsets"], "{place}");
            assert_eq!(producers(&log), step["producers"], "{place}");
        }
    }
}
