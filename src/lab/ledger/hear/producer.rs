//! What producers do: records, the batches that they travel in, and what their applications are told.

use crate::kafka::event::{Event, ProducerEvent, RequestMark};
use crate::kafka::types::{BatchId, BrokerId, ClientName, NodeId, Offset, TopicPartition};
use std::rc::Rc;

use crate::lab::ledger::record::{KEPT_SENDS, Outcome, push_one};
use crate::lab::ledger::{Answer, Batch, Ledger, Moment, Record, Sent, Told};

impl Ledger {
    pub(super) fn hear_producer(&mut self, at: Moment, event: &Event) {
        match event {
            Event::RecordBatched { client, tp, batch, key } => {
                self.on_record(at, client, tp, Some(*batch), key.clone(), Told::Nothing);
            }
            Event::BatchSent { client, batch, attempt, to, correlation, .. } => {
                let Some((node, number)) = self.sender(client, *batch) else { return };
                let request = RequestMark { from: node, correlation: *correlation };
                let sent = Sent { at, to: *to, attempt: *attempt, request, answer: Answer::Unknown };
                let Some(batch) = self.batch_mut(number) else { return };
                if batch.sends.len() == KEPT_SENDS {
                    let last = batch.sends.remove(KEPT_SENDS - 1);
                    batch.unkept_sends += 1;
                    self.take_request(last.request, |batch| batch == number);
                }
                let Some(batch) = self.batch_mut(number) else { return };
                push_one(&mut batch.sends, sent);
                self.requests.entry(request).or_default().push(number);
            }
            Event::BatchAcknowledged { client, batch, base_offset, .. } => {
                let told = match base_offset {
                    &Offset::UNKNOWN => Told::Sent { at },
                    base => Told::Offset { at, base: *base },
                };
                self.note_told(at, client, *batch, told);
            }
            Event::BatchSplit { client, batch, parts, .. } => self.on_split(client, *batch, parts),
            Event::BatchFailed { client, batch: Some(batch), error, .. } => {
                self.note_told(at, client, *batch, Told::Error { at, error: *error });
            }
            Event::Producer(ProducerEvent::Abandoned { client, batch, error, .. }) => {
                self.note_told(at, client, *batch, Told::Error { at, error: *error });
            }
            Event::BatchFailed { client, tp, batch: None, error, .. } => {
                self.on_record(at, client, tp, None, None, Told::Error { at, error: *error });
            }
            _ => {}
        }
    }

    fn sender(&self, client: &ClientName, batch: BatchId) -> Option<(NodeId, u64)> {
        let node = self.nodes.get(client)?;
        let number = self.producers.get(node)?.batches.get(&batch)?;
        Some((*node, *number))
    }

    fn note_told(&mut self, at: Moment, client: &ClientName, batch: BatchId, told: Told) {
        let Some((_, number)) = self.sender(client, batch) else { return };
        self.change_batch(at, number, |batch| batch.told = told);
    }

    /// send() took a record, into a batch or not.
    fn on_record(
        &mut self,
        at: Moment,
        client: &ClientName,
        tp: &TopicPartition,
        id: Option<BatchId>,
        key: Option<Rc<[u8]>>,
        told: Told,
    ) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let producer = self.producers.entry(node).or_default();
        producer.made += 1;
        let result_of = producer.result_of.take();
        let number = producer.made;
        let record = Record {
            number,
            key,
            made: at,
            seen: Vec::new(),
            cleaned: Vec::new(),
            result_of: result_of.clone(),
        };
        let known = id.and_then(|id| producer.batches.get(&id).copied());
        self.records += 1;
        let batch = match known.filter(|number| self.batch(*number).is_some()) {
            Some(batch) => {
                self.bytes += record.bytes();
                self.batch_mut(batch).expect("just found").records.push(record);
                batch
            }
            None => self.push_first(client, node, tp, id, record, told),
        };
        if let Some(input) = result_of {
            self.note_result(&input, Outcome { at, batch, number });
        }
        self.forget_oldest();
    }

    /// A batch with its first record.
    fn push_first(
        &mut self,
        client: &ClientName,
        node: NodeId,
        tp: &TopicPartition,
        id: Option<BatchId>,
        record: Record,
        told: Told,
    ) -> u64 {
        let number = self.push(Batch {
            client: client.clone(),
            node,
            id,
            tp: tp.clone(),
            records: vec![record],
            sends: Vec::new(),
            unkept_sends: 0,
            told,
            copies: Vec::new(),
            overtaken_by: None,
        });
        if let (Some(producer), Some(id)) = (self.producers.get_mut(&node), id) {
            producer.batches.insert(id, number);
        }
        number
    }

    fn on_split(&mut self, client: &ClientName, batch: BatchId, parts: &[(BatchId, i64)]) {
        let Some((node, number)) = self.sender(client, batch) else { return };
        let Some(whole) = self.batch_mut(number) else { return };
        let mut records = std::mem::take(&mut whole.records).into_iter();
        let whole = whole.clone();
        self.bytes = self.bytes.saturating_sub(records.as_slice().iter().map(Record::bytes).sum());
        for (id, count) in parts {
            let records = records.by_ref().take(*count as usize).collect();
            let number = self.push(Batch { id: Some(*id), records, ..whole.clone() });
            self.producers.entry(node).or_default().batches.insert(*id, number);
        }
    }

    /// What was sent over it and has not arrived never will.
    pub(super) fn on_connection_lost(&mut self, at: Moment, client: &ClientName, broker: BrokerId) {
        let Some(node) = self.nodes.get(client).copied() else { return };
        let (first, last) =
            (RequestMark { from: node, correlation: 0 }, RequestMark { from: node, correlation: i32::MAX });
        let waiting = self.requests.range(first..=last);
        let waiting: Vec<(RequestMark, u64)> =
            waiting.flat_map(|(request, batches)| batches.iter().map(|batch| (*request, *batch))).collect();
        for (request, number) in waiting {
            self.change_batch(at, number, |batch| {
                let mut sends = batch.sends.iter_mut().rev();
                if let Some(sent) = sends.find(|sent| sent.request == request && sent.to == broker) {
                    sent.answer = Answer::ConnectionLost(at);
                }
            });
        }
    }
}
