//! The records that poll() returned last and that the application still has, and what was said of them (Kafka's
//! `ShareFetch` and `ShareInFlightBatch`).
//!
//! **Invariant:** a record is in flight, or said and on its way, or renewed; never two of them.

use std::collections::{BTreeMap, BTreeSet};

use super::Acknowledgements;
use super::session::{Said, Tip};
use crate::client::program::Returned;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::share::AcknowledgeType;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, TopicPartition};

/// How a record came.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// How often it has been handed out, with this time.
    pub count: i16,
    /// In which it was written.
    pub epoch: LeaderEpoch,
}

/// Records of one partition, from one broker.
#[derive(Clone, Debug)]
pub struct InFlightBatch {
    pub broker: BrokerId,
    records: BTreeMap<Offset, Delivery>,
    /// Of `records`, those of which something was said.
    said: BTreeSet<Offset>,
    acknowledgements: Acknowledgements,
    /// Their renewal is on its way.
    renewing: BTreeMap<Offset, Delivery>,
    /// Their renewal was heard; the application gets them again.
    renewed: BTreeMap<Offset, Delivery>,
    /// What poll() throws.
    pub error: Option<ErrorCode>,
}

impl InFlightBatch {
    pub fn new(broker: BrokerId) -> InFlightBatch {
        InFlightBatch {
            broker,
            records: BTreeMap::new(),
            said: BTreeSet::new(),
            acknowledgements: Acknowledgements::default(),
            renewing: BTreeMap::new(),
            renewed: BTreeMap::new(),
            error: None,
        }
    }

    pub fn add_record(&mut self, offset: Offset, delivery: Delivery) {
        self.records.insert(offset, delivery);
    }

    pub fn add_gap(&mut self, offset: Offset) {
        self.acknowledgements.add(offset, AcknowledgeType::Gap);
    }

    /// What the client itself says of a record that no application sees.
    pub fn say(&mut self, offset: Offset, kind: AcknowledgeType) {
        self.acknowledgements.add(offset, kind);
    }

    pub fn records(&self) -> i64 {
        self.records.len() as i64
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.acknowledgements.is_empty()
    }

    fn has_renewals(&self) -> bool {
        !self.renewing.is_empty() || !self.renewed.is_empty()
    }

    /// What was said is taken out and is to be sent.
    pub(super) fn take_said(&mut self) -> Acknowledgements {
        for (offset, kind) in self.acknowledgements.iter() {
            if kind == AcknowledgeType::Renew
                && let Some(delivery) = self.records.get(&offset)
            {
                self.renewing.insert(offset, *delivery);
            }
        }
        for offset in std::mem::take(&mut self.said) {
            self.records.remove(&offset);
        }
        std::mem::take(&mut self.acknowledgements)
    }

    fn heard(&mut self, said: &Acknowledgements, error: Option<ErrorCode>) {
        for (offset, kind) in said.iter() {
            if let Some(delivery) = self.renewing.remove(&offset)
                && kind == AcknowledgeType::Renew
                && error.is_none()
            {
                self.renewed.insert(offset, delivery);
            }
        }
    }
}

/// What the application has of the last poll().
#[derive(Clone, Debug, Default)]
pub struct CurrentFetch {
    batches: BTreeMap<Tip, InFlightBatch>,
}

impl CurrentFetch {
    /// Of two batches of one partition the second only adds its records.
    pub fn add(&mut self, tip: Tip, batch: InFlightBatch) {
        match self.batches.get_mut(&tip) {
            Some(known) => {
                known.records.extend(batch.records);
                known.acknowledgements.merge(batch.acknowledgements);
            }
            None => drop(self.batches.insert(tip, batch)),
        }
    }

    /// No records are in flight. Partitions of which nothing is left are forgotten.
    pub fn has_no_records(&mut self) -> bool {
        self.batches.retain(|_, batch| !batch.is_empty() || batch.has_renewals());
        self.batches.values().all(|batch| batch.records.is_empty())
    }

    pub fn has_renewals(&self) -> bool {
        self.batches.values().any(InFlightBatch::has_renewals)
    }

    /// Renewed records are in flight again.
    pub fn take_renewed(&mut self) {
        for batch in self.batches.values_mut() {
            batch.records.append(&mut batch.renewed);
        }
    }

    pub fn records(&self) -> Vec<Returned> {
        let all = self.batches.iter().flat_map(|(tip, batch)| {
            batch.records.iter().map(|(offset, delivery)| Returned {
                tp: tip.tp.clone(),
                offset: *offset,
                delivery_count: Some(delivery.count),
            })
        });
        all.collect()
    }

    /// The records of each partition that has any.
    pub fn deliveries(&self) -> impl Iterator<Item = (&TopicPartition, &BTreeMap<Offset, Delivery>)> {
        let all = self.batches.iter().map(|(tip, batch)| (&tip.tp, &batch.records));
        all.filter(|(_, records)| !records.is_empty())
    }

    /// Every record in flight, with its delivery count.
    pub fn in_flight(&self) -> impl Iterator<Item = (&Tip, Offset)> {
        self.batches.iter().flat_map(|(tip, batch)| batch.records.keys().map(move |offset| (tip, *offset)))
    }

    /// Says something of the records of which nothing was said yet and that `chosen` takes.
    pub fn acknowledge(&mut self, kind: AcknowledgeType, mut chosen: impl FnMut(Offset) -> bool) {
        for batch in self.batches.values_mut() {
            for offset in batch.records.keys() {
                if !batch.acknowledgements.contains(*offset) && chosen(*offset) {
                    batch.acknowledgements.add(*offset, kind);
                    batch.said.insert(*offset);
                }
            }
        }
    }

    /// Whether something was said of every record.
    pub fn is_all_said(&self) -> bool {
        self.batches.values().all(|batch| batch.said.len() == batch.records.len())
    }

    /// What was said, by whom the records came from.
    pub fn take_said(&mut self) -> Vec<(BrokerId, Tip, Acknowledgements)> {
        let said = self.batches.iter_mut().map(|(tip, batch)| (batch.broker, tip.clone(), batch.take_said()));
        said.filter(|(_, _, said)| !said.is_empty()).collect()
    }

    /// The outcome of what was sent: renewed records come back.
    pub fn heard(&mut self, said: &Said, error: Option<ErrorCode>) {
        for (tip, said) in said {
            if let Some(batch) = self.batches.get_mut(tip) {
                batch.heard(said, error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::TopicId;

    fn tip() -> Tip {
        Tip { tp: TopicPartition::new(&"t".into(), 0), topic_id: TopicId(uuid::Uuid::from_u128(7)) }
    }

    fn holding(records: i64) -> CurrentFetch {
        let mut batch = InFlightBatch::new(BrokerId(1));
        (0..records).for_each(|offset| {
            batch.add_record(Offset(offset), Delivery { count: 1, epoch: LeaderEpoch(0) })
        });
        let mut current = CurrentFetch::default();
        current.add(tip(), batch);
        current
    }

    fn offsets(current: &CurrentFetch) -> Vec<i64> {
        current.records().iter().map(|record| record.offset.0).collect()
    }

    #[test]
    fn the_first_word_counts_and_the_rest_is_left_open_r_share_13() {
        let mut current = holding(3);
        current.acknowledge(AcknowledgeType::Reject, |offset| offset == Offset(1));
        assert!(!current.is_all_said());
        current.acknowledge(AcknowledgeType::Accept, |offset| offset < Offset(2));
        let said = current.take_said();
        let [(BrokerId(1), _, said)] = &said[..] else { panic!("{said:?}") };
        let said: Vec<(Offset, AcknowledgeType)> = said.iter().collect();
        assert_eq!(said, [(Offset(0), AcknowledgeType::Accept), (Offset(1), AcknowledgeType::Reject)]);
        assert_eq!(offsets(&current), [2], "it is still held");
    }

    #[test]
    fn renewed_records_come_back_once_that_is_heard_r_share_6() {
        let mut current = holding(2);
        current.acknowledge(AcknowledgeType::Renew, |offset| offset == Offset(0));
        current.acknowledge(AcknowledgeType::Accept, |_| true);
        let said = current.take_said().remove(0).2;
        assert!(current.has_no_records() && current.has_renewals());
        current.take_renewed();
        assert!(current.has_no_records(), "nothing is heard yet");
        current.heard(&Said::from([(tip(), said)]), None);
        current.take_renewed();
        assert_eq!((offsets(&current), current.has_renewals()), (vec![0], false));
    }

    #[test]
    fn a_renewal_that_was_refused_is_lost() {
        let mut current = holding(1);
        current.acknowledge(AcknowledgeType::Renew, |_| true);
        let said = current.take_said().remove(0).2;
        current.heard(&Said::from([(tip(), said)]), Some(ErrorCode::InvalidRecordState));
        current.take_renewed();
        assert!(current.has_no_records() && !current.has_renewals());
    }
}
