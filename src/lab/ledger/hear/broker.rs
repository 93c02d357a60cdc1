//! What brokers do: what their logs have, and who leads.

use crate::kafka::event::{Event, RequestMark};
use crate::kafka::types::{Offset, TopicPartition};
use crate::lab::ledger::partition::{Start, Taken};
use crate::lab::ledger::record::push_one;
use crate::lab::ledger::{Answer, Copy, Ledger, Moment, Partition};

impl Ledger {
    pub(super) fn hear_broker(&mut self, at: Moment, event: &Event) {
        match event {
            Event::Appended { tp, base_offset, last_offset, request, .. } => {
                let number = request.and_then(|request| self.answer(at, tp, request, Answer::Stored(at)));
                self.on_appended(at, event, (*base_offset, *last_offset), number);
            }
            Event::DuplicateBatch { tp, base_offset, request, .. } => {
                self.answer(at, tp, *request, Answer::Known(at, *base_offset));
            }
            Event::ProduceRefused { tp, error, request, .. } => {
                self.answer(at, tp, *request, Answer::Refused(at, *error));
            }
            Event::Replicated { broker, tp, from, to, epochs } => {
                self.partition(tp).replicated(*broker, (*from, *to), epochs);
            }
            Event::HighWatermarkAdvanced { broker, tp, leader: false, to, .. } => {
                self.partition(tp).advanced(*broker, *to, false);
            }
            Event::HighWatermarkAdvanced { broker, tp, leader: true, to, .. } => {
                let partition = self.partition(tp);
                let from = partition.high_watermark;
                partition.advanced(*broker, *to, true);
                let passed: Vec<_> = partition.entries(from, *to, None).map(|(_, entry)| entry).collect();
                for entry in passed {
                    let copies = self.batch_mut(entry.batch).map(|batch| &mut batch.copies);
                    if let Some(copy) = copies.and_then(|copies| copies.get_mut(entry.copy)) {
                        copy.committed.get_or_insert(at);
                    }
                }
            }
            Event::BecameLeader { broker, tp, topic_id, leader_epoch, start_offset, open_below } => {
                let partition = self.partition(tp);
                let mut changes = partition.of_topic(*broker, *topic_id);
                let (epoch, open) = (*leader_epoch, open_below.iter().copied().collect());
                changes.extend(partition.became_leader(*broker, (epoch, *start_offset), open, at));
                self.apply(at, changes);
            }
            Event::Truncated { broker, tp, to, .. } => self.partition(tp).truncated(*broker, *to),
            Event::UnflushedLost { broker, ends, .. } => {
                for (tp, end) in ends {
                    let changes = self.partition(tp).disk_lost(*broker, *end, at);
                    self.apply(at, changes);
                }
            }
            Event::DiskWiped { broker } => {
                let lost = self.partitions.values_mut();
                let changes =
                    lost.flat_map(|partition| partition.disk_lost(*broker, Offset::ZERO, at)).collect();
                self.apply(at, changes);
            }
            Event::LogStartMoved { broker, tp, leader, to, reason, .. } => {
                let start = Start { at, to: *to, reason: *reason };
                self.partition(tp).log_start_moved(*broker, *leader, start);
            }
            Event::LogCleaned { tp, leader: true, gone, .. } => {
                for offset in gone {
                    self.for_each_record(tp, (*offset, *offset + 1), None, |offset, _, record| {
                        record.cleaned.push((offset, at));
                    });
                }
            }
            Event::ReplicaDeleted { broker, tp } => self.partition(tp).replica_deleted(*broker),
            Event::TopicDeleted { topic } => {
                let gone = self.partitions.iter_mut().filter(|(tp, _)| tp.topic == *topic);
                let changes = gone.flat_map(|(_, partition)| partition.clear()).collect();
                self.apply(at, changes);
                self.groups.values_mut().for_each(|group| group.retain(|tp, _| tp.topic != *topic));
            }
            _ => {}
        }
    }

    pub(super) fn partition(&mut self, tp: &TopicPartition) -> &mut Partition {
        if !self.partitions.contains_key(tp) {
            self.partitions.insert(tp.clone(), Partition::default());
        }
        self.partitions.get_mut(tp).expect("just inserted")
    }

    /// A broker has said what it did with a request's batch for a partition.
    fn answer(
        &mut self,
        at: Moment,
        tp: &TopicPartition,
        request: RequestMark,
        answer: Answer,
    ) -> Option<u64> {
        let (batches, first) = (&self.batches, self.first);
        let is_of = |number: u64| {
            let batch = number.checked_sub(first).and_then(|index| batches.get(index as usize));
            batch.is_some_and(|batch| batch.tp == *tp)
        };
        let index = self.requests.get(&request)?.iter().position(|number| is_of(*number))?;
        let number = self.requests.get(&request)?[index];
        self.take_request(request, |other| other == number);
        self.change_batch(at, number, |batch| {
            if let Some(sent) = batch.sends.iter_mut().rev().find(|sent| sent.request == request) {
                sent.answer = answer;
            }
        });
        Some(number)
    }

    /// `number`: the batch of the ledger that it is.
    fn on_appended(&mut self, at: Moment, event: &Event, span: (Offset, Offset), number: Option<u64>) {
        let Event::Appended { broker, tp, leader_epoch, producer, transactional, .. } = event else { return };
        let (broker, epoch, producer) = (*broker, *leader_epoch, *producer);
        let batch = number.and_then(|number| self.batch_mut(number));
        let taken = batch.zip(number).map(|(batch, number)| {
            let is_transactional = *transactional;
            let (committed, gone) = (None, None);
            let copy = Copy { at, broker, epoch, base: span.0, producer, is_transactional, committed, gone };
            push_one(&mut batch.copies, copy);
            let transaction = transactional.then_some(producer);
            Taken { batch: number, copy: batch.copies.len() - 1, transaction }
        });
        let changes = self.partition(tp).appended(broker, epoch, span, taken);
        self.apply(at, changes);
        if let Some(taken) = taken {
            self.note_order(tp, taken.batch, taken.copy);
        }
    }

    /// Whether a record that was made later stands in the partition already.
    fn note_order(&mut self, tp: &TopicPartition, number: u64, copy: usize) {
        let Some(batch) = self.batch(number) else { return };
        let (Some(last), node) = (batch.records.last().map(|record| record.number), batch.node) else {
            return;
        };
        let is_first = !batch.copies[..copy].iter().any(|copy| copy.gone.is_none());
        let Some(producer) = self.producers.get_mut(&node) else { return };
        let before = producer.furthest.get(tp).copied();
        match before {
            Some((furthest, other)) if furthest > last => {
                if let Some(batch) = self.batch_mut(number).filter(|_| is_first) {
                    batch.overtaken_by = Some(other);
                }
            }
            _ => drop(producer.furthest.insert(tp.clone(), (last, number))),
        }
    }
}
