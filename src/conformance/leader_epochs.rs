//! `08c_leader_epochs.json`: the cache of leader epochs and its answers (R-LOG-48 to R-LOG-50).
//!
//! **Invariant:** after each step the entries are Kafka's, and so is each answer at the end.

use serde::Deserialize;

use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::log::LeaderEpochs;
use crate::kafka::types::{LeaderEpoch, Offset};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    steps: Vec<Step>,
    log_end_offset: i64,
    end_offset_for: Vec<(i32, i32, i64)>,
    epoch_for_offset: Vec<(i64, Option<i32>)>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Step {
    Assign { epoch: i32, start_offset: i64, entries: Vec<(i32, i64)> },
    TruncateFromEnd { offset: i64, entries: Vec<(i32, i64)> },
    TruncateFromStart { offset: i64, entries: Vec<(i32, i64)> },
}

pub(super) fn run(text: &str) -> Result<Report, ConformanceError> {
    run_cases(text, "08c_leader_epochs.json", |_, script: &Script| Ok(script.check()))
}

impl Script {
    fn check(&self) -> Result<(), Failure> {
        let place = || self.name.clone();
        let mut epochs = LeaderEpochs::default();
        for step in &self.steps {
            let expected = step.apply(&mut epochs);
            let entries = epochs.entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0));
            check(place, expected, &entries.collect())?;
        }
        let end_offset_for = |asked: i32| {
            let (epoch, end) = epochs.end_offset_for(LeaderEpoch(asked), Offset(self.log_end_offset));
            (asked, epoch.0, end.0)
        };
        let answers = self.end_offset_for.iter().map(|answer| end_offset_for(answer.0));
        check(place, &self.end_offset_for, &answers.collect())?;
        let epoch_at = |offset: i64| (offset, epochs.epoch_at(Offset(offset)).map(|epoch| epoch.0));
        let answers = self.epoch_for_offset.iter().map(|answer| epoch_at(answer.0));
        check(place, &self.epoch_for_offset, &answers.collect())
    }
}

impl Step {
    /// The entries that Kafka had afterwards.
    fn apply(&self, epochs: &mut LeaderEpochs) -> &Vec<(i32, i64)> {
        match self {
            Step::Assign { epoch, start_offset, entries } => {
                epochs.assign(LeaderEpoch(*epoch), Offset(*start_offset));
                entries
            }
            Step::TruncateFromEnd { offset, entries } => {
                epochs.truncate_from_end(Offset(*offset));
                entries
            }
            Step::TruncateFromStart { offset, entries } => {
                epochs.truncate_from_start(Offset(*offset));
                entries
            }
        }
    }
}
