//! `08b_transactions_lso.json`: what readers of either isolation see of interleaved transactions (R-TXN-23, R-TXN-24,
//! R-LOG-25 to R-LOG-27).
//!
//! **Invariant:** batches and aborted transactions of each fetch are Kafka's, and so is what a consumer returns of them.

use kafka_protocol::messages::fetch_response::{AbortedTransaction, PartitionData};
use serde::Deserialize;

use super::history::{EPOCH, Offsets, Writer, at_wall_ms, batch_of, config, isolation, marker_of};
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::client::consumer::{IsolationLevel, returned};
use crate::kafka::log::{Isolation, Log, LogConfig, Origin};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::record::{Batch, split_batches};
use crate::kafka::types::Offset;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    transaction_version: i16,
    segment_bytes: Option<i32>,
    steps: Vec<Step>,
    fetches: Vec<Fetch>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    AppendTxn {
        pid: i64,
        epoch: i16,
        sequence: i32,
        count: i64,
        first_offset: i64,
        offsets: Offsets,
        segments: usize,
    },
    AppendPlain {
        count: i64,
        first_offset: i64,
        offsets: Offsets,
        segments: usize,
    },
    EndMarker {
        pid: i64,
        epoch: i16,
        r#type: String,
        first_offset: i64,
        offsets: Offsets,
        segments: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fetch {
    from: i64,
    isolation: String,
    batch_base_offsets: Vec<i64>,
    aborted: Option<Vec<(i64, i64)>>,
    visible_offsets: Vec<i64>,
}

/// The recorded lists of aborted transactions end right behind what a fetch returned, so the index was this dense.
const INDEX_INTERVAL_BYTES: i32 = 100;

/// The file gives no times; all is written at once.
const NOW_MS: i64 = 1_700_000_000_000;

pub(super) fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, "08b_transactions_lso.json", |_, script: &Script| Ok(script.check()))
}

impl Script {
    fn check(&self) -> Result<(), Failure> {
        let default = config();
        let segment_bytes = self.segment_bytes.unwrap_or(default.segment_bytes);
        let config = LogConfig { segment_bytes, index_interval_bytes: INDEX_INTERVAL_BYTES, ..default };
        let marker = Origin::TransactionMarker { transaction_version: self.transaction_version };
        let mut log = Log::new();
        for (index, step) in self.steps.iter().enumerate() {
            let place = || format!("{} step {index}", self.name);
            let (batch, origin) = match step {
                Step::EndMarker { .. } => (step.batch(), marker),
                _ => (step.batch(), Origin::Client),
            };
            let appended =
                log.append_as_leader(at_wall_ms(NOW_MS), batch.into_bytes(), EPOCH, origin, &config);
            let (first_offset, offsets, segments) = step.outcome();
            check(place, &Ok(first_offset), &appended.map(|appended| appended.base_offset.0))?;
            // The high watermark is raised with a step, by as much as the step says.
            log.maybe_increment_high_watermark(Offset(offsets.high_watermark));
            check(place, offsets, &Offsets::of(&log))?;
            check(place, &segments, &log.segments().count())?;
        }
        self.fetches.iter().try_for_each(|fetch| fetch.check(&log, &self.name))
    }
}

impl Step {
    fn batch(&self) -> Batch {
        match self {
            Step::AppendTxn { pid, epoch, sequence, count, .. } => {
                let (pid, epoch, sequence) = (*pid, *epoch, *sequence);
                batch_of(*count, NOW_MS, Some(Writer { pid, epoch, sequence, transactional: true }))
            }
            Step::AppendPlain { count, .. } => batch_of(*count, NOW_MS, None),
            Step::EndMarker { pid, epoch, r#type, .. } => marker_of((*pid, *epoch), r#type, 0, NOW_MS),
        }
    }

    fn outcome(&self) -> (i64, &Offsets, usize) {
        match self {
            Step::AppendTxn { first_offset, offsets, segments, .. }
            | Step::AppendPlain { first_offset, offsets, segments, .. }
            | Step::EndMarker { first_offset, offsets, segments, .. } => (*first_offset, offsets, *segments),
        }
    }
}

/// Base offsets of the batches that a leader answers with, its aborted transactions, the records that a consumer returns of it.
type Seen = (Vec<i64>, Option<Vec<(i64, i64)>>, Vec<i64>);

impl Fetch {
    fn check(&self, log: &Log, script: &str) -> Result<(), Failure> {
        let place = || format!("{script}, {} from {}", self.isolation, self.from);
        let expected: Seen =
            (self.batch_base_offsets.clone(), self.aborted.clone(), self.visible_offsets.clone());
        check(place, &Ok(expected), &self.fetch(log))
    }

    fn fetch(&self, log: &Log) -> Result<Seen, ErrorCode> {
        let (from, isolation) = (Offset(self.from), isolation(&self.isolation));
        let read = log.read(from, log.read_bound(isolation), i32::MAX, true)?;
        let aborted = (isolation == Isolation::TxnCommitted).then(|| log.aborted_transactions(from, &read));
        let listed = aborted.iter().flatten().map(|each| {
            AbortedTransaction::default()
                .with_producer_id(each.producer.0.into())
                .with_first_offset(each.first_offset.0)
        });
        let answer = PartitionData::default()
            .with_records(Some(read.records.clone()))
            .with_aborted_transactions(aborted.is_some().then(|| listed.collect()));
        let level = match isolation {
            Isolation::TxnCommitted => IsolationLevel::ReadCommitted,
            Isolation::HighWatermark | Isolation::LogEnd => IsolationLevel::ReadUncommitted,
        };
        let (returned, _) = returned(&answer, from, level)?;
        let bases = split_batches(read.records).flatten().map(|batch| batch.base_offset().0).collect();
        let pair = |each: &crate::kafka::log::AbortedTransaction| (each.producer.0, each.first_offset.0);
        let aborted = aborted.map(|list| list.iter().map(pair).collect());
        Ok((bases, aborted, returned.iter().map(|offset| offset.0).collect()))
    }
}
