//! Results of applications that consume, process and produce: each once for a record (R-TXN-32, 34).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::reading::Ended;
use crate::kafka::log::Log;
use crate::kafka::types::{Offset, Topic, TopicPartition};

/// The committed results by what they are of: where each stands.
#[derive(Debug, Default)]
pub struct Outputs {
    topic: Option<Topic>,
    results: BTreeMap<Bytes, Vec<(TopicPartition, Offset)>>,
}

/// The key of a record's result.
pub fn key_of(tp: &TopicPartition, offset: Offset) -> Bytes {
    format!("{tp}@{offset}").into()
}

impl Outputs {
    pub fn new(topic: Option<Topic>) -> Outputs {
        Outputs { topic, ..Outputs::default() }
    }

    /// A transaction has ended in a partition.
    pub fn take(&mut self, tp: &TopicPartition, log: &Log, ended: &Ended) {
        if self.topic.as_ref() != Some(&tp.topic) || !ended.committed {
            return;
        }
        for base in &ended.batches {
            let batch = log.batches_from(*base).next().filter(|batch| batch.base_offset() == *base);
            let records = batch.and_then(|batch| batch.records().ok()).unwrap_or_default();
            for record in records {
                if let Some(key) = record.key {
                    self.results.entry(key).or_default().push((tp.clone(), record.offset));
                }
            }
        }
    }

    pub fn count(&self, key: &Bytes) -> usize {
        self.results.get(key).map_or(0, Vec::len)
    }

    /// A record that has more than one result.
    pub fn repeated(&self) -> Option<String> {
        let (key, places) = self.results.iter().find(|(_, places)| places.len() > 1)?;
        let places: Vec<String> = places.iter().map(|(tp, offset)| format!("{tp}@{offset}")).collect();
        Some(format!("{} has results at {}", String::from_utf8_lossy(key), places.join(" and ")))
    }
}
