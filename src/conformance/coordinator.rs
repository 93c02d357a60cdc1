//! 02: which partition of `__consumer_offsets`, or of `__transaction_state`, Kafka keeps an id in (R-GRP-1).

use serde::Deserialize;

use super::{Difference, Report, Unreadable, read, same};
use crate::kafka::group::{java_hash, kafka_abs, partition_for};

const FILE: &str = "02_group_coordinator_partition.json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    header: Header,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Header {
    partition_counts: Vec<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    utf8_hex: String,
    hash_code: i32,
    abs: i32,
    /// One for each of the header's partition counts.
    partitions: Vec<i32>,
}

/// Runs every case of the file.
pub fn group_coordinator_partition(text: &str) -> Result<Report, Unreadable> {
    let recording: Recording = read(FILE, text)?;
    let mut report = Report::new(FILE);
    for case in &recording.cases {
        report.add(&case.id, check(case, &recording.header.partition_counts));
    }
    Ok(report)
}

fn check(case: &Case, counts: &[i32]) -> Result<(), Difference> {
    let hex: String = case.id.bytes().map(|byte| format!("{byte:02x}")).collect();
    same("bytes", &case.utf8_hex, &hex)?;
    same("hash code", &case.hash_code, &java_hash(&case.id))?;
    same("absolute value", &case.abs, &kafka_abs(java_hash(&case.id)))?;
    let partitions: Vec<i32> = counts.iter().map(|count| partition_for(&case.id, *count)).collect();
    same("partitions", &case.partitions, &partitions)
}
