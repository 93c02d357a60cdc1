//! A member of the group as far as its broker sees it: what `KafkaShareConsumer` keeps and sends.

use std::collections::BTreeMap;

use super::lab::{GROUP, Lab, TOPIC, connection_of};
use crate::kafka::effects::Incoming;
use crate::kafka::protocol::share::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch, FetchPartition, FetchTopic,
    FetchedPartition, ForgottenTopic, ShareAcknowledgeRequest, ShareFetchRequest,
};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::record::split_batches;

/// fetch.max.wait.ms of the recordings.
const MAX_WAIT_MS: i64 = 200;
/// How long a member rests that has no partition yet, or was answered at once with nothing.
const MOMENT_MS: i64 = 10;
const GAP: i8 = 0;
const RENEW: i8 = 4;

/// A fetch that is not answered goes on when a poll ends; what it brings is the next poll's. (Kafka's client sends another
/// as well as soon as one has brought nothing, whether it is polled or not.)
#[derive(Clone, Debug)]
pub struct Member {
    name: String,
    pub connection: Incoming,
    /// Whether the group coordinator says what it reads; otherwise it is t-0.
    pub is_in_group: bool,
    pub implicit: bool,
    pub is_strict: bool,
    pub max_records: i32,
    pub epoch: i32,
    /// Records that the application has, with their delivery counts.
    held: BTreeMap<i64, i16>,
    /// What is said of records and not sent yet.
    said: BTreeMap<i64, i8>,
    /// Records whose lock was renewed: the application gets them again.
    renewed: BTreeMap<i64, i16>,
    has_moved: bool,
    /// The partitions that the broker knows it to read.
    session: Vec<i32>,
    fetch: Option<i32>,
}

impl Member {
    pub fn new(name: &str) -> Member {
        Member {
            name: name.to_string(),
            connection: connection_of(1),
            is_in_group: false,
            implicit: false,
            is_strict: false,
            max_records: 500,
            epoch: 0,
            held: BTreeMap::new(),
            said: BTreeMap::new(),
            renewed: BTreeMap::new(),
            has_moved: false,
            session: Vec::new(),
            fetch: None,
        }
    }

    pub fn id(&self) -> &str {
        &self.name
    }

    /// # Errors
    /// As `KafkaShareConsumer` says them.
    pub fn poll(&mut self, lab: &mut Lab, up_to_ms: i64) -> Result<Vec<(i64, i16)>, &'static str> {
        if self.implicit {
            self.accept_all();
        }
        if self.held.keys().any(|offset| !self.said.contains_key(offset)) {
            return Err(
                "IllegalStateException: All records must be acknowledged in explicit acknowledgement mode.",
            );
        }
        if self.said.values().any(|kind| *kind == RENEW) {
            self.commit(lab);
        }
        if !self.renewed.is_empty() {
            self.held = std::mem::take(&mut self.renewed);
            return Ok(self.held.clone().into_iter().collect());
        }
        if std::mem::take(&mut self.has_moved) {
            (self.epoch, self.session, self.fetch) = (0, Vec::new(), None);
        }
        let until = lab.now.plus_ms(up_to_ms);
        while self.is_in_group && self.assigned(lab).is_empty() && lab.now < until {
            lab.run_for(MOMENT_MS);
        }
        loop {
            if self.fetch.is_none() {
                let said = std::mem::take(&mut self.said);
                self.held.retain(|offset, _| !said.contains_key(offset));
                let partitions = self.assigned(lab);
                self.fetch = Some(lab.send_on(self.connection, self.fetch_of(&partitions, batches(&said))));
            }
            let sent = lab.now;
            let answer = self.fetch.and_then(|fetch| lab.wait_until(fetch, until));
            let is_over = answer.is_none();
            if let Some(answer) = answer {
                self.fetch = None;
                self.take_in(answer);
            }
            if is_over || !self.held.is_empty() {
                return Ok(self.held.clone().into_iter().collect());
            }
            if lab.now == sent {
                lab.run_for(MOMENT_MS);
            }
        }
    }

    fn assigned(&self, lab: &Lab) -> Vec<i32> {
        if self.is_in_group { lab.assigned(&self.name).to_vec() } else { vec![0] }
    }

    /// Of t-0.
    pub fn fetch_request(&mut self, acknowledgement_batches: Vec<AcknowledgementBatch>) -> ShareFetchRequest {
        self.fetch_of(&[0], acknowledgement_batches)
    }

    /// What is acknowledged is of t-0.
    fn fetch_of(
        &mut self,
        partitions: &[i32],
        acknowledgement_batches: Vec<AcknowledgementBatch>,
    ) -> ShareFetchRequest {
        let old = std::mem::replace(&mut self.session, partitions.to_vec());
        let is_named = |partition: &i32| !old.contains(partition) || *partition == 0;
        let named = partitions.iter().copied().filter(is_named).map(|partition_index| {
            let is_first = partition_index == 0;
            let acknowledgement_batches = if is_first { acknowledgement_batches.clone() } else { Vec::new() };
            FetchPartition { partition_index, acknowledgement_batches }
        });
        let forgotten = old.iter().copied().filter(|old| !partitions.contains(old)).collect();
        let forgotten = ForgottenTopic { topic_id: TOPIC.0, partitions: forgotten };
        let request = ShareFetchRequest {
            group_id: Some(GROUP.into()),
            member_id: Some(self.name.clone()),
            share_session_epoch: self.epoch,
            max_wait_ms: MAX_WAIT_MS as i32,
            min_bytes: 1,
            max_bytes: 1 << 20,
            max_records: self.max_records,
            batch_size: self.max_records,
            share_acquire_mode: self.is_strict.into(),
            is_renew_ack: false,
            topics: vec![FetchTopic { topic_id: TOPIC.0, partitions: named.collect() }],
            forgotten_topics_data: vec![forgotten],
        };
        self.epoch += 1;
        request
    }

    fn take_in(&mut self, response: Response) {
        let Response::ShareFetch(response) = response else { panic!("another answer") };
        assert_eq!(ErrorCode::from_code(response.error_code), ErrorCode::None);
        for partition in response.responses.iter().flat_map(|topic| &topic.partitions) {
            self.take_in_partition(partition);
        }
    }

    /// Offsets without a record, and those of markers, are acknowledged as gaps.
    fn take_in_partition(&mut self, partition: &FetchedPartition) {
        let batches = split_batches(partition.records.clone()).collect::<Result<Vec<_>, _>>();
        let batches = batches.expect("the broker sends whole batches");
        for acquired in &partition.acquired_records {
            for offset in acquired.first_offset..=acquired.last_offset {
                let holds = |batch: &&crate::kafka::record::Batch| {
                    batch.base_offset().0 <= offset && offset <= batch.last_offset().0
                };
                let has_record = batches.iter().find(holds).is_some_and(|batch| !batch.is_control());
                if has_record {
                    self.held.insert(offset, acquired.delivery_count);
                } else {
                    self.said.insert(offset, GAP);
                }
            }
        }
    }

    pub fn acknowledge(&mut self, kind: i8, offsets: &[i64]) -> Result<(), &'static str> {
        if self.implicit {
            return Err("IllegalStateException: Implicit acknowledgement of delivery is being used.");
        }
        if offsets.iter().any(|offset| !self.held.contains_key(offset)) {
            return Err("IllegalStateException: The record cannot be acknowledged.");
        }
        self.said.extend(offsets.iter().map(|offset| (*offset, kind)));
        Ok(())
    }

    fn accept_all(&mut self) {
        let held = self.held.keys().map(|offset| (*offset, 1));
        self.said.extend(held);
    }

    /// What became of what was said; nothing if nothing was.
    pub fn commit(&mut self, lab: &mut Lab) -> Option<ErrorCode> {
        if self.implicit {
            self.accept_all();
        }
        let said = std::mem::take(&mut self.said);
        if said.is_empty() {
            return None;
        }
        let epoch = self.epoch;
        self.epoch += 1;
        let error = self.send(lab, epoch, &said);
        for (offset, kind) in said {
            let count = self.held.remove(&offset);
            if let Some(count) = count.filter(|_| kind == RENEW && error == ErrorCode::None) {
                self.renewed.insert(offset, count);
            }
        }
        Some(error)
    }

    /// Another broker leads: there is no session there yet. What the first says of it is the first's.
    pub fn moves_on(&mut self) {
        self.has_moved = true;
    }

    pub fn close(&mut self, lab: &mut Lab) {
        let said = std::mem::take(&mut self.said);
        self.send(lab, -1, &said);
        if self.is_in_group {
            lab.leave(&self.name);
            lab.disconnect(self.connection);
        }
    }

    fn send(&mut self, lab: &mut Lab, epoch: i32, said: &BTreeMap<i64, i8>) -> ErrorCode {
        if let Some(fetch) = self.fetch.take() {
            let answer = lab.wait(fetch);
            self.take_in(answer);
        }
        let partition = AcknowledgePartition { partition_index: 0, acknowledgement_batches: batches(said) };
        let topic = AcknowledgeTopic { topic_id: TOPIC.0, partitions: vec![partition] };
        let request = ShareAcknowledgeRequest {
            group_id: Some(GROUP.into()),
            member_id: Some(self.name.clone()),
            share_session_epoch: epoch,
            is_renew_ack: said.values().any(|kind| *kind == RENEW),
            topics: if said.is_empty() { Vec::new() } else { vec![topic] },
        };
        let number = lab.send_on(self.connection, request);
        let response = lab.wait(number);
        let Response::ShareAcknowledge(response) = response else { panic!("another answer") };
        assert_eq!(ErrorCode::from_code(response.error_code), ErrorCode::None);
        let mut partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        partitions.next().map_or(ErrorCode::None, |partition| ErrorCode::from_code(partition.error_code))
    }
}

/// Offsets that follow each other go together, each with its type.
fn batches(said: &BTreeMap<i64, i8>) -> Vec<AcknowledgementBatch> {
    let mut batches: Vec<AcknowledgementBatch> = Vec::new();
    for (offset, kind) in said {
        match batches.last_mut().filter(|last| last.last_offset + 1 == *offset) {
            Some(last) => {
                last.last_offset = *offset;
                last.acknowledge_types.push(*kind);
            }
            None => batches.push(AcknowledgementBatch {
                first_offset: *offset,
                last_offset: *offset,
                acknowledge_types: vec![*kind],
            }),
        }
    }
    for batch in &mut batches {
        // One type stands for all where it can.
        if batch.acknowledge_types.iter().all(|kind| *kind == batch.acknowledge_types[0]) {
            batch.acknowledge_types.truncate(1);
        }
    }
    batches
}
