//! Transactions that are open for longer than any may be: what the gauge PartitionsWithLateTransactionsCount counts.
//!
//! Mirrors `ReplicaManager.lateTransactionsCount` and `ProducerStateManager.hasLateTransaction` (R-TXN-25). A gauge is read by
//! whoever watches the broker; here that is done as often as in-sync sets are checked, so that it can be told of.
//!
//! **Invariant:** of a partition it is told once that its transaction is late, until it is not any more.

use super::manager::{ReplicaManager, Step};
use crate::kafka::event::{Event, TransactionEvent};
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

impl ReplicaManager {
    /// The partitions that this broker leads and that have a late transaction.
    pub fn late_transactions(&self, now: Time) -> impl Iterator<Item = &TopicPartition> {
        let max_timeout_ms = self.config.transactions.max_timeout_ms;
        let led = self.partitions.values().filter(|partition| partition.leader().is_some());
        let late = led.filter(move |partition| partition.log.has_late_transaction(now, max_timeout_ms));
        late.map(|partition| &partition.tp)
    }

    /// Looks at the gauge.
    pub fn watch_late_transactions(&mut self, step: &mut Step<'_>) {
        let late: Vec<TopicPartition> = self.late_transactions(step.now).cloned().collect();
        let new = late.iter().filter(|tp| !self.known_late.contains(*tp));
        for tp in new {
            let (broker, tp, count) = (self.me, tp.clone(), late.len() as i64);
            step.fx.event(Event::Transaction(TransactionEvent::Late { broker, tp, count }));
        }
        self.known_late = late;
    }
}
