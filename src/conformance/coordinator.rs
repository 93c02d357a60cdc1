//! 02: which partition of `__consumer_offsets`, or of `__transaction_state`, Kafka keeps an id in (R-GRP-1).

use serde::Deserialize;

use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::group::java_map::java_hash;
use crate::kafka::group::{kafka_abs, partition_for};

const FILE: &str = "02_group_coordinator_partition.json";

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
pub fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, FILE, |header, case: &Case| {
        let counts = header.partition_counts.as_deref().unwrap_or_default();
        Ok(outcome(case, counts).map_err(|failure| failure.within(&case.id)))
    })
}

fn outcome(case: &Case, counts: &[i32]) -> Result<(), Failure> {
    let hex: String = case.id.bytes().map(|byte| format!("{byte:02x}")).collect();
    check(|| "bytes".to_owned(), &case.utf8_hex, &hex)?;
    check(|| "hash code".to_owned(), &case.hash_code, &java_hash(&case.id))?;
    check(|| "absolute value".to_owned(), &case.abs, &kafka_abs(java_hash(&case.id)))?;
    let partitions: Vec<i32> = counts.iter().map(|count| partition_for(&case.id, *count)).collect();
    check(|| "partitions".to_owned(), &case.partitions, &partitions)
}
