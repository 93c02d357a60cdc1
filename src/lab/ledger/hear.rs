//! How the ledger takes in events.

use super::group::Commit;
use super::partition::{Entry, Start};
use super::record::{KEPT_PROCESSINGS, Processing, push_one};
use super::{Answer, Batch, Copy, Ledger, Moment, Record, Sent, Told, Transaction};
use crate::kafka::event::{
    Act, Event, GroupEvent, OffsetRun, ProducerEvent, RequestMark, ShareEvent, TransactionEvent,
};
use crate::kafka::types::{
    BatchId, BrokerId, ClientName, GroupId, LeaderEpoch, NodeId, Offset, TopicPartition,
};

impl Ledger {
    pub(super) fn hear(&mut self, at: Moment, event: &Event) {
        match event {
            Event::Process { node, name, act } => self.on_act(at, *node, name, act),
            Event::RecordBatched { .. }
            | Event::BatchSent { .. }
            | Event::BatchAcknowledged { .. }
            | Event::BatchSplit { .. }
            | Event::BatchFailed { .. }
            | Event::Producer(ProducerEvent::Abandoned { .. }) => self.hear_producer(at, event),
            Event::Appended { .. }
            | Event::DuplicateBatch { .. }
            | Event::ProduceRefused { .. }
            | Event::Replicated { .. }
            | Event::HighWatermarkAdvanced { .. }
            | Event::BecameLeader { .. }
            | Event::Truncated { .. }
            | Event::UnflushedLost { .. }
            | Event::DiskWiped { .. }
            | Event::LogStartMoved { .. }
            | Event::LogCleaned { .. }
            | Event::ReplicaDeleted { .. }
            | Event::TopicDeleted { .. } => self.hear_broker(at, event),
            Event::ConnectionLost { client, node: NodeId::Broker(broker), .. } => {
                self.on_connection_lost(at, client, *broker);
            }
            Event::PartitionsAssigned { client, group, .. } => {
                self.join(client, group);
            }
            Event::PositionSet { client, tp, offset, .. } => self.on_position(at, client, tp, *offset),
            Event::Polled { client, group, tp, runs, .. } => self.on_polled(at, client, group, tp, runs),
            Event::Processed { client, tp, offset } => self.on_processed(at, client, tp, *offset),
            Event::Share(ShareEvent::Delivered { client, group, tp, runs, .. }) => {
                self.on_polled(at, client, group, tp, runs);
            }
            Event::Transaction(TransactionEvent::Marked { tp, producer, committed, .. }) => {
                let ended = self.partition(tp).ended(*producer);
                let transaction = Some(Transaction::Ended { at, committed: *committed });
                for (batch, copy) in ended {
                    let copies = self.batch_mut(batch).map(|batch| &mut batch.copies);
                    if let Some(copy) = copies.and_then(|copies| copies.get_mut(copy)) {
                        copy.transaction = transaction;
                    }
                }
            }
            Event::Group(GroupEvent::OffsetCommitted { group, tp, offset, client }) => {
                self.on_committed(at, group, tp, *offset, client);
            }
            Event::Group(
                GroupEvent::OffsetExpired { group, tp }
                | GroupEvent::OffsetDeleted { group, tp, .. }
                | GroupEvent::OffsetDropped { group, tp },
            ) => {
                if let Some(progress) = self.groups.get_mut(group).and_then(|group| group.get_mut(tp)) {
                    progress.committed = None;
                }
            }
            _ => {}
        }
    }

    fn on_act(&mut self, at: Moment, node: NodeId, name: &ClientName, act: &Act) {
        match act {
            Act::Started => {
                self.names.insert(node, name.clone());
                self.nodes.insert(name.clone(), node);
            }
            Act::Killed | Act::PowerCut | Act::Ended => {
                if let Some(reader) = self.readers.get_mut(&node) {
                    reader.ended = Some((at, act.clone()));
                }
            }
            Act::Frozen | Act::Thawed => {}
        }
    }

    fn hear_producer(&mut self, at: Moment, event: &Event) {
        match event {
            Event::RecordBatched { client, tp, batch, key } => {
                let record = |number| Record {
                    number,
                    key: key.clone(),
                    made: at,
                    seen: Vec::new(),
                    cleaned: Vec::new(),
                };
                self.on_record(client, tp, Some(*batch), record, Told::Nothing);
            }
            Event::BatchSent { client, batch, attempt, to, correlation, .. } => {
                let Some((node, number)) = self.sender(client, *batch) else { return };
                let request = RequestMark { from: node, correlation: *correlation };
                let sent = Sent { at, to: *to, attempt: *attempt, request, answer: Answer::Unknown };
                let Some(batch) = self.batch_mut(number) else { return };
                push_one(&mut batch.sends, sent);
                self.requests.entry(request).or_default().push(number);
            }
            Event::BatchAcknowledged { client, batch, base_offset, .. } => {
                let told = match base_offset {
                    &Offset::UNKNOWN => Told::Sent { at },
                    base => Told::Offset { at, base: *base },
                };
                self.tell(client, *batch, told);
            }
            Event::BatchSplit { client, batch, parts, .. } => self.on_split(client, *batch, parts),
            Event::BatchFailed { client, batch: Some(batch), error, .. } => {
                self.tell(client, *batch, Told::Error { at, error: *error });
            }
            Event::Producer(ProducerEvent::Abandoned { client, batch, error, .. }) => {
                self.tell(client, *batch, Told::Error { at, error: *error });
            }
            Event::BatchFailed { client, tp, batch: None, error, .. } => {
                let record =
                    |number| Record { number, key: None, made: at, seen: Vec::new(), cleaned: Vec::new() };
                self.on_record(client, tp, None, record, Told::Error { at, error: *error });
            }
            _ => {}
        }
    }

    fn sender(&self, client: &ClientName, batch: BatchId) -> Option<(NodeId, u64)> {
        let node = self.nodes.get(client)?;
        let number = self.producers.get(node)?.batches.get(&batch)?;
        Some((*node, *number))
    }

    fn tell(&mut self, client: &ClientName, batch: BatchId, told: Told) {
        let batch = self.sender(client, batch).and_then(|(_, number)| self.batch_mut(number));
        if let Some(batch) = batch {
            batch.told = told;
        }
    }

    /// send() took a record, into a batch or not.
    fn on_record(
        &mut self,
        client: &ClientName,
        tp: &TopicPartition,
        id: Option<BatchId>,
        record: impl Fn(i64) -> Record,
        told: Told,
    ) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let producer = self.producers.entry(node).or_default();
        producer.made += 1;
        let record = record(producer.made);
        let known = id.and_then(|id| producer.batches.get(&id).copied());
        self.records += 1;
        match known.and_then(|number| self.batch_mut(number)) {
            Some(batch) => batch.records.push(record),
            None => {
                let number = self.push(Batch {
                    client: client.clone(),
                    node,
                    id,
                    tp: tp.clone(),
                    records: vec![record],
                    sends: Vec::new(),
                    told,
                    copies: Vec::new(),
                    overtaken_by: None,
                });
                if let (Some(producer), Some(id)) = (self.producers.get_mut(&node), id) {
                    producer.batches.insert(id, number);
                }
            }
        }
        self.forget_oldest();
    }

    fn on_split(&mut self, client: &ClientName, batch: BatchId, parts: &[(BatchId, i64)]) {
        let Some((node, number)) = self.sender(client, batch) else { return };
        let Some(whole) = self.batch_mut(number) else { return };
        let mut records = std::mem::take(&mut whole.records).into_iter();
        let whole = whole.clone();
        for (id, count) in parts {
            let records = records.by_ref().take(*count as usize).collect();
            let number = self.push(Batch { id: Some(*id), records, ..whole.clone() });
            self.producers.entry(node).or_default().batches.insert(*id, number);
        }
    }

    /// What was sent over it and has not arrived never will.
    fn on_connection_lost(&mut self, at: Moment, client: &ClientName, broker: BrokerId) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let (first, last) =
            (RequestMark { from: node, correlation: 0 }, RequestMark { from: node, correlation: i32::MAX });
        let waiting = self.requests.range(first..=last);
        let waiting: Vec<(RequestMark, u64)> =
            waiting.flat_map(|(request, batches)| batches.iter().map(|batch| (*request, *batch))).collect();
        for (request, number) in waiting {
            let Some(batch) = self.batch_mut(number) else { continue };
            let mut sends = batch.sends.iter_mut().rev();
            if let Some(sent) = sends.find(|sent| sent.request == request && sent.to == broker) {
                sent.answer = Answer::ConnectionLost(at);
            }
        }
    }

    fn hear_broker(&mut self, at: Moment, event: &Event) {
        match event {
            Event::Appended { tp, base_offset, last_offset, request, .. } => {
                let number = request.and_then(|request| self.answer(tp, request, Answer::Stored(at)));
                self.on_appended(at, event, (*base_offset, *last_offset), number);
            }
            Event::DuplicateBatch { tp, base_offset, request, .. } => {
                self.answer(tp, *request, Answer::Known(at, *base_offset));
            }
            Event::ProduceRefused { tp, error, request, .. } => {
                self.answer(tp, *request, Answer::Refused(at, *error));
            }
            Event::Replicated { broker, tp, from, to, epochs } => {
                self.partition(tp).replicated(*broker, (*from, *to), epochs);
            }
            Event::HighWatermarkAdvanced { tp, leader: true, to, .. } => {
                self.partition(tp).high_watermark = *to;
            }
            Event::BecameLeader { broker, tp, topic_id, leader_epoch, start_offset } => {
                let partition = self.partition(tp);
                let mut changes = partition.of_topic(*broker, *topic_id);
                changes.extend(partition.became_leader(*broker, *leader_epoch, *start_offset));
                self.apply(at, changes);
            }
            Event::Truncated { broker, tp, to, .. } => self.partition(tp).truncated(*broker, *to),
            Event::UnflushedLost { broker, ends, .. } => {
                for (tp, end) in ends {
                    let changes = self.partition(tp).disk_lost(*broker, *end);
                    self.apply(at, changes);
                }
            }
            Event::DiskWiped { broker } => {
                let lost = self.partitions.values_mut();
                let changes = lost.flat_map(|partition| partition.disk_lost(*broker, Offset::ZERO)).collect();
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

    fn partition(&mut self, tp: &TopicPartition) -> &mut super::Partition {
        if !self.partitions.contains_key(tp) {
            self.partitions.insert(tp.clone(), super::Partition::default());
        }
        self.partitions.get_mut(tp).expect("just inserted")
    }

    /// A broker has said what it did with a request's batch for a partition.
    fn answer(&mut self, tp: &TopicPartition, request: RequestMark, answer: Answer) -> Option<u64> {
        let (batches, first) = (&self.batches, self.first);
        let is_of = |number: u64| {
            let batch = number.checked_sub(first).and_then(|index| batches.get(index as usize));
            batch.is_some_and(|batch| batch.tp == *tp)
        };
        let index = self.requests.get(&request)?.iter().position(|number| is_of(*number))?;
        let number = self.requests.get(&request)?[index];
        self.take_request(request, |other| other == number);
        let sends = &mut self.batch_mut(number)?.sends;
        if let Some(sent) = sends.iter_mut().rev().find(|sent| sent.request == request) {
            sent.answer = answer;
        }
        Some(number)
    }

    /// `number`: the batch of the ledger that it is.
    fn on_appended(&mut self, at: Moment, event: &Event, span: (Offset, Offset), number: Option<u64>) {
        let Event::Appended { broker, tp, leader_epoch, producer, transactional, .. } = event else { return };
        let (broker, epoch, producer) = (*broker, *leader_epoch, *producer);
        let transaction = transactional.then_some(Transaction::Open);
        let batch = number.and_then(|number| self.batch_mut(number));
        let entry = batch.zip(number).map(|(batch, number)| {
            push_one(
                &mut batch.copies,
                Copy { at, broker, epoch, base: span.0, producer, transaction, gone: None },
            );
            (number, batch.copies.len() - 1)
        });
        let partition = self.partition(tp);
        if let Some(copy) = entry.filter(|_| *transactional) {
            partition.opened(producer, copy);
        }
        let changes = partition.appended(broker, epoch, span, entry);
        self.apply(at, changes);
        if let Some((number, copy)) = entry {
            self.note_order(tp, number, copy);
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

    /// A client reads as a member of the group, or without one.
    fn join(&mut self, client: &ClientName, group: &GroupId) -> Option<(NodeId, GroupId)> {
        let node = *self.nodes.get(client)?;
        let group = match group.as_str() {
            "" => GroupId::new(&format!("({client})")),
            _ => group.clone(),
        };
        let reader = self.readers.entry(node).or_default();
        if reader.group.as_ref() != Some(&group) {
            reader.group = Some(group.clone());
        }
        Some((node, group))
    }

    fn on_position(&mut self, at: Moment, client: &ClientName, tp: &TopicPartition, offset: Offset) {
        let Some(node) = self.nodes.get(client) else { return };
        let reader = self.readers.entry(*node).or_default();
        reader.set_out.insert(tp.clone(), (at, offset));
        if let Some(group) = reader.group.clone() {
            self.groups.entry(group).or_default().entry(tp.clone()).or_default().begin(offset);
        }
    }

    fn on_polled(
        &mut self,
        at: Moment,
        client: &ClientName,
        group: &GroupId,
        tp: &TopicPartition,
        runs: &[OffsetRun],
    ) {
        let (Some(first), Some((node, group))) = (runs.first(), self.join(client, group)) else { return };
        self.readers.entry(node).or_default().took(tp, runs);
        let progress = self.groups.entry(group.clone()).or_default().entry(tp.clone()).or_default();
        if progress.begun.is_none() {
            progress.begin(first.from);
        }
        for run in runs {
            let epoch = Some(run.epoch).filter(|epoch| *epoch != LeaderEpoch::NONE);
            self.for_each_record(tp, (run.from, run.to), epoch, |_, _, record| {
                let seen = record.seen_by(&group);
                seen.delivered += 1;
                seen.delivered_at = Some((at, client.clone()));
                seen.in_hand = Some(node);
            });
        }
    }

    /// Every record that is kept of those with an offset in `[from, to)`: of this epoch, or in place.
    fn for_each_record(
        &mut self,
        tp: &TopicPartition,
        (from, to): (Offset, Offset),
        epoch: Option<LeaderEpoch>,
        mut act: impl FnMut(Offset, LeaderEpoch, &mut Record),
    ) {
        let Some(partition) = self.partitions.get(tp) else { return };
        let entries: Vec<(Offset, Entry)> = partition.entries(from, to, epoch).collect();
        for (base, entry) in entries {
            let Some(batch) = self.batch_mut(entry.batch) else { continue };
            for (index, record) in (0..).zip(&mut batch.records) {
                let offset = base + index;
                if from <= offset && offset < to {
                    act(offset, entry.epoch, record);
                }
            }
        }
    }

    fn on_processed(&mut self, at: Moment, client: &ClientName, tp: &TopicPartition, offset: Offset) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let Some(reader) = self.readers.get(&node) else { return };
        let Some(group) = reader.group.clone() else { return };
        let epoch = reader.epoch_of(tp, offset).filter(|epoch| *epoch != LeaderEpoch::NONE);
        let since = reader.set_out.get(tp).map(|(at, _)| *at);
        let mut progress = self.groups.entry(group.clone()).or_default().remove(tp).unwrap_or_default();
        self.for_each_record(tp, (offset, offset + 1), epoch, |offset, epoch, record| {
            let seen = record.seen_by(&group);
            seen.processed += 1;
            if seen.processed == 1 {
                seen.out_of_order = progress.finish(epoch, offset);
            }
            if seen.in_hand == Some(node) {
                seen.in_hand = None;
            }
            if seen.processings.len() < KEPT_PROCESSINGS {
                push_one(&mut seen.processings, Processing { at, by: client.clone(), offset, since });
            }
        });
        self.groups.entry(group).or_default().insert(tp.clone(), progress);
    }

    /// What lies between the last commit and this one is passed; or is to be read again, if this one is earlier.
    fn on_committed(
        &mut self,
        at: Moment,
        group: &GroupId,
        tp: &TopicPartition,
        offset: Offset,
        by: &ClientName,
    ) {
        let progress = self.groups.entry(group.clone()).or_default().entry(tp.clone()).or_default();
        let commit = Commit { at, offset, by: by.clone() };
        let before = progress.committed.replace(commit).map(|commit| commit.offset).or(progress.begun);
        let Some(before) = before else {
            // Somebody set it before anybody read.
            return progress.begin(offset);
        };
        self.for_each_record(tp, (before.min(offset), before.max(offset)), None, |_, _, record| match record
            .seen
            .iter_mut()
            .find(|seen| seen.group == *group)
        {
            Some(seen) if offset < before => seen.passed = None,
            Some(seen) if seen.processed > 0 => {}
            None if offset < before => {}
            _ => record.seen_by(group).passed = Some((at, by.clone())),
        });
    }
}
