//! `08e_segments_retention.json`: rolls, retention, deletion of records and lookups by time (R-LOG-7 to R-LOG-13,
//! R-LOG-19, R-LOG-28, R-LOG-30 to R-LOG-35).
//!
//! **Invariant:** after each step base offset and size of every segment are Kafka's.

use serde::Deserialize;

use super::history::{EPOCH, Offsets, at_wall_ms, exception};
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::log::{Log, LogConfig, Origin, RecordAtTime};
use crate::kafka::record::{BatchBuilder, BatchError, NewRecord};
use crate::kafka::types::Offset;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    config: Config,
    start_time: i64,
    steps: Vec<Step>,
    offset_for_timestamp: Vec<Lookup>,
}

/// Asked; timestamp, offset and leader epoch of the answer.
type Lookup = (i64, Option<i64>, Option<i64>, Option<i32>);

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(rename = "retention.ms")]
    retention_ms: String,
    #[serde(rename = "retention.bytes")]
    retention_bytes: Option<String>,
    #[serde(rename = "segment.bytes")]
    segment_bytes: String,
    #[serde(rename = "segment.ms")]
    segment_ms: Option<String>,
    #[serde(rename = "segment.jitter.ms")]
    segment_jitter_ms: String,
    #[serde(rename = "max.message.bytes")]
    max_message_bytes: Option<String>,
    #[serde(rename = "message.timestamp.type")]
    timestamp_type: Option<String>,
    #[serde(rename = "message.timestamp.before.max.ms")]
    timestamp_before_max_ms: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Append {
        timestamp: i64,
        count: usize,
        value_size: usize,
        error: Option<String>,
        first_offset: Option<i64>,
        last_offset: Option<i64>,
        log_append_time: Option<i64>,
        max_timestamp: Option<i64>,
        now: i64,
        offsets: Offsets,
        segments: Vec<(i64, i64)>,
    },
    Sleep {
        ms: i64,
        now: i64,
        offsets: Offsets,
        segments: Vec<(i64, i64)>,
    },
    DeleteOldSegments {
        deleted: i32,
        now: i64,
        offsets: Offsets,
        segments: Vec<(i64, i64)>,
    },
    DeleteRecords {
        before_offset: i64,
        changed: bool,
        now: i64,
        offsets: Offsets,
        segments: Vec<(i64, i64)>,
    },
}

pub(super) fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, "08e_segments_retention.json", |_, script: &Script| {
        Ok(script.check(script.config.read()?))
    })
}

impl Config {
    fn read(&self) -> Result<LogConfig, ConformanceError> {
        fn number<T: std::str::FromStr>(text: &Option<String>, default: T) -> Result<T, ConformanceError> {
            let wrong = |text: &String| ConformanceError::Json(format!("{text:?} is not a number"));
            text.as_ref().map_or(Ok(default), |text| text.parse().map_err(|_| wrong(text)))
        }
        let default = LogConfig::default();
        if self.segment_jitter_ms != "0" {
            return Err(ConformanceError::Json("segment.jitter.ms is not modelled".to_owned()));
        }
        Ok(LogConfig {
            retention_ms: number(&Some(self.retention_ms.clone()), 0)?,
            retention_bytes: number(&self.retention_bytes, default.retention_bytes)?,
            segment_bytes: number(&Some(self.segment_bytes.clone()), 0)?,
            segment_ms: number(&self.segment_ms, default.segment_ms)?,
            max_message_bytes: number(&self.max_message_bytes, default.max_message_bytes)?,
            log_append_time: self.timestamp_type.as_deref() == Some("LogAppendTime"),
            timestamp_before_max_ms: number(&self.timestamp_before_max_ms, default.timestamp_before_max_ms)?,
            ..default
        })
    }
}

impl Script {
    fn check(&self, config: LogConfig) -> Result<(), Failure> {
        let log = Log::created_at(at_wall_ms(self.start_time));
        let mut history = History { log, now_ms: self.start_time, config };
        for (index, step) in self.steps.iter().enumerate() {
            let place = || format!("{} step {index}", self.name);
            let (expected, got) = history.step(step);
            check(place, &expected, &got)?;
            let (now, offsets, segments) = step.state();
            // The high watermark is raised with a step, by as much as the step says.
            history.log.maybe_increment_high_watermark(Offset(offsets.high_watermark));
            check(place, &now, &history.now_ms)?;
            let log = &history.log;
            check(place, offsets, &Offsets::of(log))?;
            let ours = log.segments().map(|segment| (segment.base_offset().0, segment.size_bytes()));
            check(place, segments, &ours.collect())?;
            check(place, &log.size_bytes(), &log.segments().map(|segment| segment.size_bytes()).sum())?;
        }
        let answers: Result<Vec<Lookup>, BatchError> =
            self.offset_for_timestamp.iter().map(|lookup| history.look_up(lookup.0)).collect();
        check(|| self.name.clone(), &Ok(&self.offset_for_timestamp), &answers.as_ref())
    }
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Refused(Option<String>),
    /// First and last offset, append time, greatest timestamp.
    Appended([Option<i64>; 4]),
    Deleted(i32),
    Changed(bool),
    Nothing,
}

struct History {
    log: Log,
    now_ms: i64,
    config: LogConfig,
}

impl History {
    /// What the step has to come out as, and what it does.
    fn step(&mut self, step: &Step) -> (Outcome, Outcome) {
        match step {
            Step::Append { error: Some(error), timestamp, count, value_size, .. } => {
                (Outcome::Refused(Some(error.clone())), self.append(*timestamp, *count, *value_size))
            }
            Step::Append { timestamp, count, value_size, .. } => {
                let Step::Append { first_offset, last_offset, log_append_time, max_timestamp, .. } = step
                else {
                    unreachable!("the same step")
                };
                let expected = [*first_offset, *last_offset, *log_append_time, *max_timestamp];
                (Outcome::Appended(expected), self.append(*timestamp, *count, *value_size))
            }
            Step::Sleep { ms, .. } => {
                self.now_ms += ms;
                (Outcome::Nothing, Outcome::Nothing)
            }
            Step::DeleteOldSegments { deleted, .. } => {
                let ours = self.log.delete_old_segments(at_wall_ms(self.now_ms), &self.config);
                let ours = ours.iter().map(|deleted| deleted.segments).sum();
                (Outcome::Deleted(*deleted), Outcome::Deleted(ours))
            }
            Step::DeleteRecords { before_offset, changed, .. } => {
                let ours = self.log.maybe_increment_log_start_offset(Offset(*before_offset));
                (Outcome::Changed(*changed), Outcome::Changed(ours))
            }
        }
    }

    fn append(&mut self, timestamp_ms: i64, count: usize, value_size: usize) -> Outcome {
        let value = vec![0; value_size];
        let mut builder = BatchBuilder::new();
        for index in 0..count {
            let key = format!("k{index}");
            builder.append(&NewRecord {
                timestamp_ms,
                key: Some(key.as_bytes()),
                value: Some(&value),
                headers: &[],
            });
        }
        let (now, bytes) = (at_wall_ms(self.now_ms), builder.build().into_bytes());
        match self.log.append_as_leader(now, bytes, EPOCH, Origin::Client, &self.config) {
            Ok(at) => {
                let stored = self.log.batches_from(at.base_offset).next();
                let max_timestamp = stored.map(|batch| batch.max_timestamp_ms());
                let offsets = [Some(at.base_offset.0), Some(at.last_offset.0)];
                Outcome::Appended([offsets[0], offsets[1], Some(at.log_append_time_ms), max_timestamp])
            }
            Err(error) => Outcome::Refused(Some(exception(error.code()))),
        }
    }

    fn look_up(&self, timestamp: i64) -> Result<Lookup, BatchError> {
        let log = &self.log;
        let found = |found: Option<RecordAtTime>| match found {
            Some(at) => (timestamp, Some(at.timestamp_ms), Some(at.offset.0), Some(at.leader_epoch.0)),
            None => (timestamp, None, None, None),
        };
        let edge = |offset: Offset, epoch: Option<crate::kafka::types::LeaderEpoch>| {
            (timestamp, Some(-1), Some(offset.0), epoch.map(|epoch| epoch.0))
        };
        Ok(match timestamp {
            EARLIEST => {
                let start = log.log_start_offset();
                edge(start, log.leader_epochs().epoch_at(start))
            }
            LATEST => edge(log.log_end_offset(), log.latest_epoch()),
            MAX_TIMESTAMP => found(log.offset_of_max_timestamp()?),
            timestamp => found(log.offset_for_timestamp(timestamp)?),
        })
    }
}

impl Step {
    fn state(&self) -> (i64, &Offsets, &Vec<(i64, i64)>) {
        match self {
            Step::Append { now, offsets, segments, .. }
            | Step::Sleep { now, offsets, segments, .. }
            | Step::DeleteOldSegments { now, offsets, segments, .. }
            | Step::DeleteRecords { now, offsets, segments, .. } => (*now, offsets, segments),
        }
    }
}
