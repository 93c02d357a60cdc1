//! `08d_compaction.json`: what three cleanings leave of a log (R-LOG-38 to R-LOG-46).
//!
//! **Invariant:** after each cleaning every segment, batch and record left is Kafka's.

use serde::Deserialize;

use super::history::{EPOCH, at_wall_ms, marker_of};
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::log::{Log, LogConfig, Origin};
use crate::kafka::record::{Batch, BatchBuilder, BatchError, BatchParameters, ControlType, NewRecord};
use crate::kafka::types::{Offset, ProducerEpoch, ProducerId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    config: Config,
    appends: Vec<Append>,
    segments_before: Vec<i64>,
    last_stable: i64,
    passes: Vec<Pass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(rename = "cleanup.policy")]
    cleanup_policy: String,
    #[serde(rename = "delete.retention.ms")]
    delete_retention_ms: String,
    #[serde(rename = "index.interval.bytes")]
    index_interval_bytes: String,
    #[serde(rename = "segment.bytes")]
    segment_bytes: String,
    #[serde(rename = "segment.jitter.ms")]
    segment_jitter_ms: String,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Append {
    #[serde(rename = "append")]
    Records {
        pid: i64,
        first_offset: i64,
        timestamp: i64,
        records: Vec<(String, Option<String>)>,
    },
    Commit {
        pid: i64,
        offset: i64,
        timestamp: i64,
    },
    Abort {
        pid: i64,
        offset: i64,
        timestamp: i64,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pass {
    now: i64,
    appends_before: Vec<Append>,
    first_dirty_offset: i64,
    first_uncleanable_offset: i64,
    /// Absent, as the segments are, where the pass was skipped.
    end_offset: Option<i64>,
    segments: Option<Vec<SegmentFields>>,
    #[serde(default)]
    skipped: bool,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct SegmentFields {
    base_offset: i64,
    batches: Vec<BatchFields>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct BatchFields {
    base: i64,
    last: i64,
    pid: i64,
    epoch: i16,
    base_sequence: i32,
    delete_horizon_ms: Option<i64>,
    /// Offset, key or type of marker, value.
    records: Vec<(i64, String, Option<String>)>,
}

pub(super) fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, "08d_compaction.json", |_, script: &Script| Ok(script.check(script.config.read()?)))
}

impl Config {
    fn read(&self) -> Result<LogConfig, ConformanceError> {
        fn number<T: std::str::FromStr>(text: &str) -> Result<T, ConformanceError> {
            text.parse().map_err(|_| ConformanceError::Json(format!("{text:?} is not a number")))
        }
        if self.segment_jitter_ms != "0" || self.cleanup_policy != "compact" {
            return Err(ConformanceError::Json("not a config of these histories".to_owned()));
        }
        Ok(LogConfig {
            compacted: true,
            deletes: false,
            delete_retention_ms: number(&self.delete_retention_ms)?,
            index_interval_bytes: number(&self.index_interval_bytes)?,
            segment_bytes: number(&self.segment_bytes)?,
            ..LogConfig::default()
        })
    }
}

impl Script {
    fn check(&self, config: LogConfig) -> Result<(), Failure> {
        let mut log = Log::new();
        let place = || format!("{}, before", self.name);
        self.appends.iter().try_for_each(|append| append.run(&mut log, &config, &self.name))?;
        // Half of these logs had their active segment closed before the first pass.
        if self.segments_before.last() == Some(&log.log_end_offset().0) {
            log.roll_active(at_wall_ms(self.passes.first().map_or(0, |pass| pass.now)));
        }
        let bases = log.segments().map(|segment| segment.base_offset().0).collect();
        check(place, &self.segments_before, &bases)?;
        let mut checkpoint = Offset::ZERO;
        for (index, pass) in self.passes.iter().enumerate() {
            pass.check(&mut log, &mut checkpoint, &config, &format!("{} pass {index}", self.name))?;
        }
        check(|| format!("{}, at the end", self.name), &self.last_stable, &log.last_stable_offset().0)
    }
}

impl Pass {
    fn check(
        &self,
        log: &mut Log,
        checkpoint: &mut Offset,
        config: &LogConfig,
        name: &str,
    ) -> Result<(), Failure> {
        let (place, now) = (|| name.to_owned(), at_wall_ms(self.now));
        for append in &self.appends_before {
            append.run(log, config, name)?;
        }
        if !self.appends_before.is_empty() {
            log.roll_active(now);
        }
        let cleanable = log.cleanable(Some(*checkpoint), now, config);
        let bounds = (cleanable.first_dirty_offset.0, cleanable.first_uncleanable_offset.0);
        check(place, &(self.first_dirty_offset, self.first_uncleanable_offset), &bounds)?;
        check(place, &self.skipped, &cleanable.is_empty())?;
        let (Some(end_offset), Some(segments)) = (self.end_offset, &self.segments) else { return Ok(()) };
        let end = log.clean(cleanable, now, config);
        check(place, &Ok(end_offset), &end.map(|cleaned| cleaned.end.0))?;
        *checkpoint = (*checkpoint).max(Offset(end_offset));
        check(place, &Ok(segments), &left_in(log).as_ref())
    }
}

impl Append {
    fn run(&self, log: &mut Log, config: &LogConfig, name: &str) -> Result<(), Failure> {
        let (batch, origin, offset, timestamp) = match self {
            Append::Records { pid, first_offset, timestamp, records } => {
                let batch = batch_of(log, *pid, *timestamp, records);
                (batch, Origin::Client, *first_offset, *timestamp)
            }
            Append::Commit { pid, offset, timestamp } => {
                (marker_of((*pid, 0), "COMMIT", 0, *timestamp), MARKER, *offset, *timestamp)
            }
            Append::Abort { pid, offset, timestamp } => {
                (marker_of((*pid, 0), "ABORT", 0, *timestamp), MARKER, *offset, *timestamp)
            }
        };
        let appended = log.append_as_leader(at_wall_ms(timestamp), batch.into_bytes(), EPOCH, origin, config);
        check(|| name.to_owned(), &Ok(offset), &appended.map(|appended| appended.base_offset.0))?;
        log.maybe_increment_high_watermark(log.log_end_offset());
        Ok(())
    }
}

const MARKER: Origin = Origin::TransactionMarker { transaction_version: 1 };

/// The file leaves out sequence numbers: each producer just goes on.
fn batch_of(log: &Log, pid: i64, timestamp_ms: i64, records: &[(String, Option<String>)]) -> Batch {
    let id = ProducerId(pid);
    let last = log.producers().get(id).map_or(-1, |producer| producer.last_sequence());
    let parameters = if id.is_some() {
        BatchParameters {
            producer_id: id,
            producer_epoch: ProducerEpoch(0),
            base_sequence: last + 1,
            transactional: true,
            ..BatchParameters::default()
        }
    } else {
        BatchParameters::default()
    };
    let mut builder = BatchBuilder::with(parameters);
    for (key, value) in records {
        builder.append(&NewRecord {
            timestamp_ms,
            key: Some(key.as_bytes()),
            value: value.as_ref().map(|value| value.as_bytes()),
            headers: &[],
        });
    }
    builder.build()
}

fn left_in(log: &Log) -> Result<Vec<SegmentFields>, BatchError> {
    let bases: Vec<Offset> = log.segments().map(|segment| segment.base_offset()).collect();
    let ends = bases.iter().copied().skip(1).chain([log.log_end_offset()]);
    let segment = |(base, end): (Offset, Offset)| {
        let batches = log.batches_from(base).take_while(|batch| batch.base_offset() < end);
        let batches = batches.map(BatchFields::of).collect::<Result<_, _>>()?;
        Ok(SegmentFields { base_offset: base.0, batches })
    };
    bases.iter().copied().zip(ends).map(segment).collect()
}

impl BatchFields {
    fn of(batch: &Batch) -> Result<BatchFields, BatchError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let records = batch.records()?;
        let fields = records.iter().map(|record| {
            let key = record.key.as_deref().unwrap_or_default();
            match ControlType::of_key(key).filter(|_| batch.is_control()) {
                Some(marker) => (record.offset.0, marker.name().to_owned(), Some("marker".to_owned())),
                None => (record.offset.0, text(key), record.value.as_deref().map(text)),
            }
        });
        Ok(BatchFields {
            base: batch.base_offset().0,
            last: batch.last_offset().0,
            pid: batch.producer_id().0,
            epoch: batch.producer_epoch().0,
            base_sequence: batch.base_sequence(),
            delete_horizon_ms: batch.delete_horizon_ms(),
            records: fields.collect(),
        })
    }
}
