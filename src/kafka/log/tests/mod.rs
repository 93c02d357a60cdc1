mod append;
mod compaction;
#[cfg(feature = "codecs")]
mod compression;
mod flush;
mod producers;
mod read;
mod segments;
mod transactions;
mod truncation;
mod verification;

use bytes::Bytes;

use super::*;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, BatchBuilder, BatchError, NO_TIMESTAMP, NewRecord, TimestampType};
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

const NOW: Time = Time::from_ms(10_000);
const E0: LeaderEpoch = LeaderEpoch(0);
const E1: LeaderEpoch = LeaderEpoch(1);

type Sequence = Option<(ProducerId, ProducerEpoch, i32)>;

fn batch_at(timestamp_ms: i64, values: &[&str], producer: Sequence) -> Batch {
    let mut builder = BatchBuilder::new();
    for value in values {
        builder.append(&NewRecord { timestamp_ms, value: Some(value.as_bytes()), ..NewRecord::default() });
    }
    builder.finish(producer)
}

fn batch(values: &[&str]) -> Batch {
    batch_at(NOW.wall_ms(), values, None)
}

fn append(log: &mut Log, batch: &Batch, epoch: LeaderEpoch) -> Result<Appended, AppendError> {
    log.append_as_leader(NOW, batch.bytes().clone(), epoch, Origin::Client, &LogConfig::default())
}

/// A log of one batch a list.
fn log_of(epoch: LeaderEpoch, batches: &[&[&str]]) -> Log {
    let mut log = Log::new();
    for values in batches {
        append(&mut log, &batch(values), epoch).unwrap();
    }
    log
}

/// What a follower's fetch brings, unless the leader names a diverging epoch (R-REPL-8).
fn replicate(leader: &Log, follower: &mut Log, epoch: LeaderEpoch) {
    let from = follower.log_end_offset();
    if let Some(last_epoch) = follower.latest_epoch() {
        let end = leader.end_offset_for(last_epoch);
        if end.0 < last_epoch || end.1 < from {
            follower.truncate_to(NOW, follower.truncation_point(end, from), &LogConfig::default());
            return replicate(leader, follower, epoch);
        }
    }
    let fetched = leader.read(from, leader.log_end_offset(), i32::MAX, true).unwrap();
    follower.append_as_follower(NOW, fetched.records, epoch, &LogConfig::default()).unwrap();
}

fn values(log: &Log) -> Vec<String> {
    let records = log.records_between(Offset::ZERO, log.log_end_offset()).unwrap();
    records
        .iter()
        .map(|record| String::from_utf8_lossy(record.value.as_ref().unwrap()).into_owned())
        .collect()
}

fn epochs(log: &Log) -> Vec<(i32, i64)> {
    log.leader_epochs().entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
}

fn sequenced(epoch: i16, base_sequence: i32, values: &[&str]) -> Batch {
    batch_at(NOW.wall_ms(), values, Some((ProducerId(7), ProducerEpoch(epoch), base_sequence)))
}
