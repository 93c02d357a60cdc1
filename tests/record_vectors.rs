//! Record batches that Kafka 4.3.1 wrote, read and built again (R-LOG-1, R-LOG-2).

use bytes::Bytes;
use glassbroker::kafka::record::{
    Batch, BatchBuilder, Header, NewRecord, Record, TimestampType, split_batches,
};
use glassbroker::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use kafka_protocol::protocol::StrBytes;
use serde_json::{Value, json};

const VECTORS: &str = include_str!("vectors/03_record_batches.json");

fn cases() -> Vec<Value> {
    let mut vectors: Value = serde_json::from_str(VECTORS).unwrap();
    serde_json::from_value(vectors["cases"].take()).unwrap()
}

fn bytes_of(hex: &Value) -> Option<Bytes> {
    let hex = hex.as_str()?;
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    Some((0..hex.len()).step_by(2).map(byte).collect())
}

fn hex_of(bytes: Option<&Bytes>) -> Option<String> {
    bytes.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is not an integer"))
}

fn headers_of(record: &Value) -> Vec<Header> {
    let header = |header: &Value| Header {
        key: StrBytes::from_string(header[0].as_str().unwrap().to_owned()),
        value: bytes_of(&header[1]),
    };
    record["headers"].as_array().unwrap().iter().map(header).collect()
}

fn record_as_json(batch: &Batch, record: &Record) -> Value {
    let headers = record.headers.iter().map(|h| json!([h.key.as_str(), hex_of(h.value.as_ref())]));
    json!({
        "offset": record.offset.0,
        "timestamp": record.timestamp_ms,
        "sequence": batch.sequence_of(record),
        "key": hex_of(record.key.as_ref()),
        "value": hex_of(record.value.as_ref()),
        "headers": headers.collect::<Vec<_>>(),
    })
}

/// The fields under the vectors' names.
fn batch_as_json(batch: &Batch) -> Value {
    let timestamp_type = match batch.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    json!({
        "base_offset": batch.base_offset().0,
        "last_offset": batch.last_offset().0,
        "next_offset": batch.next_offset().0,
        "size": batch.size_bytes(),
        "magic": 2,
        "crc": batch.crc(),
        "crc_valid": batch.check_crc().is_ok(),
        "compression": batch.compression().unwrap().to_string(),
        "timestamp_type": timestamp_type,
        "base_timestamp": batch.base_timestamp_ms(),
        "max_timestamp": batch.max_timestamp_ms(),
        "delete_horizon_ms": batch.delete_horizon_ms(),
        "producer_id": batch.producer_id().0,
        "producer_epoch": batch.producer_epoch().0,
        "base_sequence": batch.base_sequence(),
        "last_sequence": batch.last_sequence(),
        "transactional": batch.is_transactional(),
        "control": batch.is_control(),
        "partition_leader_epoch": batch.leader_epoch().0,
        "count": batch.record_count(),
        "records": batch.records().unwrap().iter().map(|r| record_as_json(batch, r)).collect::<Vec<_>>(),
    })
}

/// What the vectors say about a record beyond its fields.
const NOT_READ: [&str; 3] = ["size", "control_type", "coordinator_epoch"];

#[test]
fn each_batch_reads_as_kafka_reads_it() {
    for mut case in cases() {
        let read = split_batches(bytes_of(&case["hex"]).unwrap());
        let read: Vec<_> = read.map(|batch| batch_as_json(&batch.unwrap())).collect();
        for batch in case["batches"].as_array_mut().unwrap() {
            for record in batch["records"].as_array_mut().unwrap() {
                record.as_object_mut().unwrap().retain(|field, _| !NOT_READ.contains(&&**field));
            }
        }
        assert_eq!(Value::from(read), case["batches"], "{}", case["name"]);
    }
}

/// Whether a producer could have sent it: the builder writes no other batches.
fn is_from_a_producer(input: &Value) -> bool {
    input["timestamp_type"] == "CreateTime"
        && input["transactional"] == false
        && input["delete_horizon_ms"] == -1
}

fn build(input: &Value) -> Batch {
    let mut builder = BatchBuilder::new();
    for record in input["records"].as_array().unwrap() {
        let (key, value, headers) =
            (bytes_of(&record["key"]), bytes_of(&record["value"]), headers_of(record));
        builder.append(&NewRecord {
            timestamp_ms: int(&record["timestamp"]),
            key: key.as_deref(),
            value: value.as_deref(),
            headers: &headers,
        });
    }
    let id = ProducerId(int(&input["producer_id"]));
    let epoch = ProducerEpoch(int(&input["producer_epoch"]) as i16);
    let producer = id.is_some().then(|| (id, epoch, int(&input["base_sequence"]) as i32));
    let leader_epoch = LeaderEpoch(int(&input["partition_leader_epoch"]) as i32);
    builder.finish(producer).with_assigned(Offset(int(&input["base_offset"])), leader_epoch)
}

#[test]
fn each_batch_of_a_producer_is_built_to_the_byte() {
    let cases: Vec<_> = cases().into_iter().filter(|case| is_from_a_producer(&case["input"])).collect();
    assert!(cases.len() >= 10);
    for case in cases {
        assert_eq!(
            hex_of(Some(build(&case["input"]).bytes())).as_deref(),
            case["hex"].as_str(),
            "{}",
            case["name"]
        );
    }
}
