//! Which batches of an answer a reader of committed data passes over (Kafka's `CompletedFetch`).
//!
//! **Invariant:** batches are asked about in the log's order, each once.

use std::collections::BTreeSet;

use super::batch::Batch;
use super::error::BatchError;
use crate::kafka::types::{Offset, ProducerId};

/// The producers whose transaction, at the place that reading has come to, will turn out aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortedProducers {
    /// By first offset, the next one last.
    to_come: Vec<(Offset, ProducerId)>,
    aborted: BTreeSet<ProducerId>,
}

impl AbortedProducers {
    /// From the list that a fetch answer carries (R-LOG-27).
    pub fn new(transactions: impl IntoIterator<Item = (ProducerId, Offset)>) -> AbortedProducers {
        let mut to_come: Vec<_> = transactions.into_iter().map(|(id, first)| (first, id)).collect();
        to_come.sort_by(|a, b| b.cmp(a));
        AbortedProducers { to_come, aborted: BTreeSet::new() }
    }

    /// Whether the batch's records were taken back. An abort marker ends what it takes back.
    pub fn contains(&mut self, batch: &Batch) -> Result<bool, BatchError> {
        let id = batch.producer_id();
        if !id.is_some() {
            return Ok(false);
        }
        while let Some((first, producer)) = self.to_come.last().copied()
            && first <= batch.last_offset()
        {
            self.to_come.pop();
            self.aborted.insert(producer);
        }
        if batch.is_control() {
            if batch.end_transaction_marker()?.is_some_and(|marker| !marker.committed) {
                self.aborted.remove(&id);
            }
            return Ok(false);
        }
        Ok(batch.is_transactional() && self.aborted.contains(&id))
    }
}
