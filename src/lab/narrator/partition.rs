//! Partitions on their brokers: held-back high watermarks, truncation, refused and repeated batches.

use std::collections::{BTreeMap, BTreeSet};

use super::folded::{Folded, is_of_calm_runs};
use super::{Sentence, Subject, Tone};
use crate::kafka::event::{Event, TruncationReason};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::replication;
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, TopicPartition};
use crate::lab::words::{count, duration};

/// A wait up to this is routine.
pub(super) const PATIENCE_MS: i64 = 2000;

pub(super) fn is_internal(tp: &TopicPartition) -> bool {
    replication::is_internal(tp.topic.as_str())
}

#[derive(Clone, Debug, Default)]
pub(super) struct Partitions {
    /// Since when records at a leader wait for the high watermark, and the end of the newest of them.
    waiting: BTreeMap<TopicPartition, (Time, Offset)>,
    /// Refusals already told; forgotten when a batch is taken again.
    refused: BTreeSet<(TopicPartition, ErrorCode)>,
    /// Refusals of calm runs.
    mended: Folded<(TopicPartition, ErrorCode)>,
}

impl Partitions {
    pub fn tell(&mut self, time: Time, event: &Event) -> Option<Sentence> {
        match event {
            Event::Appended { tp, last_offset, .. } => {
                self.waiting.entry(tp.clone()).or_insert((time, *last_offset)).1 = *last_offset + 1;
                self.refused.retain(|(refused, _)| refused != tp);
                None
            }
            Event::HighWatermarkAdvanced { tp, leader: true, from, to, .. } => {
                self.advanced(time, tp, *from, *to)
            }
            Event::Truncated { broker, tp, from, to, reason } if from != to => {
                let title = format!(
                    "broker {broker}: {tp} truncated from {from} to {to}: {} removed",
                    count(*from - *to, "record")
                );
                let (detail, rules) = why_truncated(*reason);
                let sentence = Sentence::new(time, Tone::Bad, Subject::Partition(tp.clone()), title);
                Some(sentence.detail(detail).rules(rules))
            }
            Event::DuplicateBatch { broker, tp, base_offset, .. } => {
                let title = format!("broker {broker}: a repeated batch of {tp} is not stored again");
                let detail = format!(
                    "Its sequence numbers are those of a batch stored at offset {base_offset}; that offset is the answer."
                );
                let sentence = Sentence::new(time, Tone::Good, Subject::Partition(tp.clone()), title);
                Some(sentence.detail(detail).rules(&["R-PROD-25"]))
            }
            Event::ProduceRefused { broker, tp, error, .. } if is_of_calm_runs(*error) => {
                let title = match self.mended.happens(time, (tp.clone(), *error))? {
                    1 => format!("broker {broker}: a batch for {tp} refused: {error}"),
                    times => format!(
                        "broker {broker}: {times} batches for {tp} refused since this was last told: {error}"
                    ),
                };
                let sentence = Sentence::new(time, Tone::Info, Subject::Partition(tp.clone()), title);
                Some(sentence.detail("Nothing was stored."))
            }
            Event::ProduceRefused { broker, tp, error, .. } => {
                if !self.refused.insert((tp.clone(), *error)) {
                    return None;
                }
                let title = format!("broker {broker}: a batch for {tp} refused: {error}");
                let sentence = Sentence::new(time, Tone::Warn, Subject::Partition(tp.clone()), title);
                Some(match error {
                    ErrorCode::NotEnoughReplicas => sentence
                        .detail("acks=all needs min.insync.replicas in-sync replicas; nothing was stored.")
                        .rules(&["R-REPL-30"]),
                    _ => sentence.detail("Nothing was stored."),
                })
            }
            _ => None,
        }
    }

    /// Tells an advance only if records had to wait for it.
    fn advanced(&mut self, time: Time, tp: &TopicPartition, from: Offset, to: Offset) -> Option<Sentence> {
        let &(since, end) = self.waiting.get(tp)?;
        if to >= end {
            self.waiting.remove(tp);
        } else {
            self.waiting.insert(tp.clone(), (time, end));
        }
        let waited_ms = time.ms_since(since);
        if waited_ms <= PATIENCE_MS || is_internal(tp) {
            return None;
        }
        let title = format!("{tp}: high watermark moved from {from} to {to} after {}", duration(waited_ms));
        let sentence = Sentence::new(time, Tone::Good, Subject::Partition(tp.clone()), title);
        Some(
            sentence
                .detail("Every in-sync replica has these records; consumers see them now.")
                .rules(&["R-REPL-12"]),
        )
    }
}

fn why_truncated(reason: TruncationReason) -> (String, &'static [&'static str]) {
    match reason {
        TruncationReason::DivergingEpoch { epoch, end_offset } => (
            format!("The leader's log has nothing of epoch {epoch} from offset {end_offset} on."),
            &["R-REPL-36"],
        ),
        TruncationReason::NoEpochKnown => (
            "The replica knew no leader epoch and went back to its high watermark.".to_owned(),
            &["R-REPL-35"],
        ),
        TruncationReason::OutOfRange => ("The leader's log ends before this one.".to_owned(), &["R-REPL-37"]),
    }
}
