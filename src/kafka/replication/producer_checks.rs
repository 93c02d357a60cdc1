//! When each log is looked through for silent producers.
//!
//! Mirrors the `PeriodicProducerExpirationCheck` that every `UnifiedLog` schedules when it is made (R-PROD-28).
//!
//! **Invariant:** a log is due once, and both collections say when.

use std::collections::{BTreeMap, BTreeSet};

use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

#[derive(Clone, Debug, Default)]
pub struct ProducerChecks {
    due: BTreeSet<(Time, TopicPartition)>,
    by_log: BTreeMap<TopicPartition, Time>,
}

impl ProducerChecks {
    /// Has a log checked at `at`, and at no other time that was said before. Whether no other log is due as early.
    pub fn schedule(&mut self, tp: &TopicPartition, at: Time) -> bool {
        self.cancel(tp);
        let is_first = self.first().is_none_or(|first| at < first);
        self.by_log.insert(tp.clone(), at);
        self.due.insert((at, tp.clone()));
        is_first
    }

    /// The log is gone.
    pub fn cancel(&mut self, tp: &TopicPartition) {
        if let Some((tp, at)) = self.by_log.remove_entry(tp) {
            self.due.remove(&(at, tp));
        }
    }

    /// When the next check is due.
    pub fn first(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The logs that are due, each with the time that it was due at.
    pub fn due(&self, now: Time) -> Vec<(Time, TopicPartition)> {
        self.due.iter().take_while(|(at, _)| *at <= now).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new(&"t".into(), partition)
    }

    #[test]
    fn a_log_is_due_at_its_own_time_and_no_more_when_it_is_gone_r_prod_28() {
        let at = Time::from_ms;
        let mut checks = ProducerChecks::default();
        assert!(checks.schedule(&tp(0), at(30)));
        assert!(!checks.schedule(&tp(1), at(40)));
        assert!(!checks.schedule(&tp(2), at(30)), "one timer is enough");
        assert_eq!(checks.due(at(29)), []);
        assert_eq!(checks.due(at(39)), [(at(30), tp(0)), (at(30), tp(2))]);
        assert!(!checks.schedule(&tp(0), at(60)));
        checks.cancel(&tp(2));
        assert_eq!(
            (checks.first(), checks.due(at(60))),
            (Some(at(40)), vec![(at(40), tp(1)), (at(60), tp(0))])
        );
    }
}
