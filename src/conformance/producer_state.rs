//! `08a_producer_state.json`: appends of idempotent and transactional producers (R-PROD-25 to R-PROD-28, R-TXN-23).
//!
//! **Invariant:** after each step the producers known and the offsets are Kafka's.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::history::{EPOCH, Offsets, Writer, at_wall_ms, batch_of, config, exception, marker_of};
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::log::{Log, LogConfig, Origin, Producer};
use crate::kafka::types::{Offset, ProducerId};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    transaction_version: i16,
    producer_id_expiration_ms: i64,
    start_time: i64,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Append {
        #[serde(rename = "kind")]
        _kind: IgnoredAny,
        pid: i64,
        epoch: i16,
        sequence: i32,
        count: i64,
        transactional: bool,
        timestamp: i64,
        error: Option<String>,
        #[serde(default, rename = "message")]
        _message: IgnoredAny,
        duplicate: Option<bool>,
        first_offset: Option<i64>,
        last_offset: Option<i64>,
        offsets: Offsets,
        producers: Vec<ProducerFields>,
    },
    EndMarker {
        pid: i64,
        epoch: i16,
        r#type: String,
        coordinator_epoch: i32,
        error: Option<String>,
        offset: Option<i64>,
        offsets: Offsets,
        producers: Vec<ProducerFields>,
    },
    SleepAndExpire {
        ms: i64,
        offsets: Offsets,
        producers: Vec<ProducerFields>,
    },
    SetHighWatermark {
        offset: i64,
        offsets: Offsets,
        producers: Vec<ProducerFields>,
    },
    TruncateTo {
        offset: i64,
        offsets: Offsets,
        producers: Vec<ProducerFields>,
    },
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct ProducerFields {
    pid: i64,
    epoch: i16,
    last_sequence: i32,
    last_timestamp: i64,
    coordinator_epoch: i32,
    txn_start_offset: i64,
}

impl ProducerFields {
    fn of((id, producer): (ProducerId, &Producer)) -> ProducerFields {
        ProducerFields {
            pid: id.0,
            epoch: producer.epoch().0,
            last_sequence: producer.last_sequence(),
            last_timestamp: producer.last_timestamp_ms(),
            coordinator_epoch: producer.coordinator_epoch(),
            txn_start_offset: producer.transaction_start().unwrap_or(Offset::UNKNOWN).0,
        }
    }
}

pub(super) fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, "08a_producer_state.json", |_, script: &Script| Ok(script.check()))
}

impl Script {
    fn check(&self) -> Result<(), Failure> {
        let expiration_ms = self.producer_id_expiration_ms;
        let mut history = History {
            log: Log::created_at(at_wall_ms(self.start_time)),
            now_ms: self.start_time,
            config: LogConfig { producer_id_expiration_ms: expiration_ms, ..config() },
            origin: Origin::TransactionMarker { transaction_version: self.transaction_version },
        };
        for (index, step) in self.steps.iter().enumerate() {
            let place = || format!("{} step {index}", self.name);
            let (expected, got) = history.step(step);
            check(place, &expected, &got)?;
            let (offsets, producers) = step.state();
            check(place, offsets, &Offsets::of(&history.log))?;
            check(place, producers, &history.log.producers().iter().map(ProducerFields::of).collect())?;
        }
        Ok(())
    }
}

struct History {
    log: Log,
    now_ms: i64,
    config: LogConfig,
    /// Of markers.
    origin: Origin,
}

/// Error, or whether it is a duplicate, and first and last offset.
type Outcome = (Option<String>, Option<bool>, Option<i64>, Option<i64>);

const NOTHING: Outcome = (None, None, None, None);

impl History {
    /// What the step has to come out as, and what it does.
    fn step(&mut self, step: &Step) -> (Outcome, Outcome) {
        match step {
            Step::Append { timestamp, error, duplicate, first_offset, last_offset, .. } => {
                self.now_ms = *timestamp;
                let expected = (error.clone(), *duplicate, *first_offset, *last_offset);
                (expected, self.append(step.batch(*timestamp), Origin::Client))
            }
            Step::EndMarker { error, offset, .. } => {
                let expected = (error.clone(), offset.map(|_| false), *offset, *offset);
                (expected, self.append(step.batch(self.now_ms), self.origin))
            }
            Step::SleepAndExpire { ms, .. } => {
                self.now_ms += ms;
                let expiration_ms = self.config.producer_id_expiration_ms;
                self.log.remove_expired_producers(at_wall_ms(self.now_ms), expiration_ms);
                (NOTHING, NOTHING)
            }
            Step::SetHighWatermark { offset, .. } => {
                self.log.update_high_watermark(Offset(*offset));
                (NOTHING, NOTHING)
            }
            Step::TruncateTo { offset, .. } => {
                self.log.truncate_to(at_wall_ms(self.now_ms), Offset(*offset), &self.config);
                (NOTHING, NOTHING)
            }
        }
    }

    fn append(&mut self, batch: crate::kafka::record::Batch, origin: Origin) -> Outcome {
        let now = at_wall_ms(self.now_ms);
        match self.log.append_as_leader(now, batch.into_bytes(), EPOCH, origin, &self.config) {
            Ok(at) => (None, Some(at.duplicate), Some(at.base_offset.0), Some(at.last_offset.0)),
            Err(error) => (Some(exception(error.code())), None, None, None),
        }
    }
}

impl Step {
    fn batch(&self, timestamp_ms: i64) -> crate::kafka::record::Batch {
        match self {
            Step::Append { pid, epoch, sequence, count, transactional, .. } => {
                let (pid, epoch, sequence, transactional) = (*pid, *epoch, *sequence, *transactional);
                batch_of(*count, timestamp_ms, Some(Writer { pid, epoch, sequence, transactional }))
            }
            Step::EndMarker { pid, epoch, r#type, coordinator_epoch, .. } => {
                marker_of((*pid, *epoch), r#type, *coordinator_epoch, timestamp_ms)
            }
            _ => unreachable!("the other steps write nothing"),
        }
    }

    fn state(&self) -> (&Offsets, &Vec<ProducerFields>) {
        match self {
            Step::Append { offsets, producers, .. }
            | Step::EndMarker { offsets, producers, .. }
            | Step::SleepAndExpire { offsets, producers, .. }
            | Step::SetHighWatermark { offsets, producers, .. }
            | Step::TruncateTo { offsets, producers, .. } => (offsets, producers),
        }
    }
}
