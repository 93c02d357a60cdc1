//! Writes: a client's Produce request, and what the broker itself writes to the logs it leads.
//!
//! Mirrors `ReplicaManager.appendRecords` and `DelayedProduce` (R-REPL-28 to 33).

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TopicName};

use super::manager::{ReplicaManager, Step};
use super::purgatory::{DelayedProduce, Operation, OperationId, PendingAcks};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Effect, RequestId};
use crate::kafka::event::{Event, RequestMark};
use crate::kafka::log::{AppendError, Appended, Origin, Verification, VerificationGuard};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{Offset, Topic, TopicId, TopicPartition};

const ACKS_ALL: i16 = -1;

/// Topics that only brokers write to (R-INT-1, R-LOG-23).
pub fn is_internal(topic: &str) -> bool {
    matches!(topic, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

/// From this version on a Produce names topics by their ids (KIP-516).
const NAMES_TOPICS_BY_ID: i16 = 13;

/// A topic as a Produce of some version names it.
pub struct NamedTopic {
    pub known: Option<(Topic, TopicId)>,
    /// What is said if it is not.
    unknown: ErrorCode,
}

impl NamedTopic {
    pub fn of(topic: &TopicProduceData, version: i16, image: &ClusterImage) -> NamedTopic {
        if version >= NAMES_TOPICS_BY_ID {
            let id = TopicId(topic.topic_id);
            let known = image.topic_name(id).map(|name| (name.clone(), id));
            return NamedTopic { known, unknown: ErrorCode::UnknownTopicId };
        }
        let name = Topic::new(&topic.name);
        let known = image.topic(&name).map(|topic| (name, topic.id));
        NamedTopic { known, unknown: ErrorCode::UnknownTopicOrPartition }
    }
}

/// What became of one partition's batch.
struct Outcome {
    tp: TopicPartition,
    /// As the answer names the topic: by its id or its name.
    asked_for: (TopicId, TopicName),
    result: Result<Appended, AppendFailure>,
}

/// What the coordinator of a transaction said about the partitions that a request writes to (R-TXN-14).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub errors: BTreeMap<TopicPartition, ErrorCode>,
    pub guards: BTreeMap<TopicPartition, VerificationGuard>,
}

#[derive(Debug)]
pub(super) enum AppendFailure {
    Code(ErrorCode),
    Log(AppendError),
}

impl AppendFailure {
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            AppendFailure::Code(code) => *code,
            AppendFailure::Log(error) => error.code(),
        }
    }
}

impl ReplicaManager {
    /// A client's write. `verified` is what the coordinator of its transaction said, if it is of one.
    pub fn produce(
        &mut self,
        id: RequestId,
        request: &ProduceRequest,
        verified: &Verified,
        step: &mut Step<'_>,
    ) {
        let mut outcomes = Vec::new();
        for topic in &request.topic_data {
            for partition in &topic.partition_data {
                outcomes.push(self.produce_one(id, (topic, partition), request.acks, verified, step));
            }
        }
        if request.acks == 0 {
            let failed = outcomes.iter().any(|outcome| outcome.result.is_err());
            step.fx.push(if failed { Effect::Hangup(id) } else { Effect::NoResponse(id) });
        } else {
            self.answer_or_park(id, request, &outcomes, step);
        }
        // The appends may complete fetches, and with a set of one the write itself.
        for outcome in outcomes.iter().filter(|outcome| outcome.result.is_ok()) {
            self.complete(&outcome.tp, step);
        }
    }

    fn produce_one(
        &mut self,
        id: RequestId,
        (topic, data): (&TopicProduceData, &PartitionProduceData),
        acks: i16,
        verified: &Verified,
        step: &mut Step<'_>,
    ) -> Outcome {
        let asked_for = (TopicId(topic.topic_id), topic.name.clone());
        let NamedTopic { known, unknown } = NamedTopic::of(topic, id.version, step.image);
        let Some((name, _)) = known else {
            let tp = TopicPartition::new(&"".into(), data.index);
            let result = Err(AppendFailure::Code(unknown));
            return Outcome { tp, asked_for, result };
        };
        let tp = TopicPartition::new(&name, data.index);
        let records = data.records.clone().unwrap_or_default();
        let result = if !matches!(acks, ACKS_ALL | 0 | 1) {
            Err(AppendFailure::Code(ErrorCode::InvalidRequiredAcks))
        } else if is_internal(tp.topic.as_str()) {
            Err(AppendFailure::Code(ErrorCode::InvalidTopicException))
        } else if let Some(error) = verified.errors.get(&tp) {
            Err(AppendFailure::Code(*error))
        } else {
            let how = (Origin::Client, self.verification(verified.guards.get(&tp).copied()));
            self.append(&tp, records, how, (acks == ACKS_ALL, Some(id.into())), step)
        };
        if let Err(failure) = &result {
            let error = failure.code();
            let (broker, tp, request) = (self.me, tp.clone(), id.into());
            step.fx.event(Event::ProduceRefused { broker, tp, error, request });
        }
        Outcome { tp, asked_for, result }
    }

    /// Appends one batch to a log that this broker leads (R-REPL-30: acks=all needs enough replicas in sync).
    pub(super) fn append(
        &mut self,
        tp: &TopicPartition,
        records: Bytes,
        how: (Origin, Verification),
        (acks_all, request): (bool, Option<RequestMark>),
        step: &mut Step<'_>,
    ) -> Result<Appended, AppendFailure> {
        let leader = self.find(tp, step.image).and_then(|partition| {
            let leader = partition.check_leader(None)?;
            let too_few = acks_all && leader.is_under_min_isr(partition.min_isr());
            if too_few { Err(ErrorCode::NotEnoughReplicas) } else { Ok(()) }
        });
        leader.map_err(AppendFailure::Code)?;
        let broker = self.me;
        let partition = self.edit(tp).expect("found above");
        let (config, leader_epoch) = (partition.config.clone(), partition.leader_epoch);
        let appended = partition.log.append_verified(step.now, records, leader_epoch, how, &config.log);
        let appended = appended.map_err(AppendFailure::Log)?;
        let Appended { base_offset, last_offset, producer, base_sequence, transactional, .. } = appended;
        if appended.duplicate {
            if let Some(request) = request {
                let tp = tp.clone();
                let event =
                    Event::DuplicateBatch { broker, tp, producer, base_sequence, base_offset, request };
                step.fx.event(event);
            }
            return Ok(appended);
        }
        step.fx.event(Event::Appended {
            broker,
            tp: tp.clone(),
            leader_epoch,
            base_offset,
            last_offset,
            producer,
            base_sequence,
            transactional,
            request,
        });
        self.advance_high_watermark(tp, step);
        Ok(appended)
    }

    /// What a coordinator writes to its own partition, as acks=all does. The write's last offset.
    pub fn append_as_coordinator(
        &mut self,
        tp: &TopicPartition,
        records: Bytes,
        step: &mut Step<'_>,
    ) -> Result<Offset, ErrorCode> {
        self.append_in_transaction(tp, records, None, step)
    }

    /// The same with the guard that its transaction was asked for with.
    pub fn append_in_transaction(
        &mut self,
        tp: &TopicPartition,
        records: Bytes,
        guard: Option<VerificationGuard>,
        step: &mut Step<'_>,
    ) -> Result<Offset, ErrorCode> {
        let how = (Origin::Coordinator, self.verification(guard));
        let appended = self.append(tp, records, how, (true, None), step);
        let appended = appended.map_err(|failure| failure.code())?;
        self.complete(tp, step);
        Ok(appended.last_offset)
    }

    /// `transaction.partition.verification.enable`
    fn verification(&self, guard: Option<VerificationGuard>) -> Verification {
        match self.config.transactions.partition_verification_enable {
            true => Verification::On(guard),
            false => Verification::Off,
        }
    }

    fn answer_or_park(
        &mut self,
        id: RequestId,
        request: &ProduceRequest,
        outcomes: &[Outcome],
        step: &mut Step<'_>,
    ) {
        let mut response = ProduceResponse::default();
        let mut pending = Vec::new();
        for outcome in outcomes {
            let mut answer = answer(outcome, step.image, &mut response.node_endpoints);
            if let Ok(appended) = &outcome.result {
                let required = appended.last_offset + 1;
                if request.acks == ACKS_ALL {
                    answer.error_code = ErrorCode::RequestTimedOut.code();
                    let (tp, asked_for) = (outcome.tp.clone(), outcome.asked_for.clone());
                    pending.push(PendingAcks { tp, asked_for, required });
                } else if plant::is(Plant::NextOffsetTold) {
                    answer.base_offset = required.0;
                }
            }
            push_answer(&mut response, &outcome.asked_for, answer);
        }
        if pending.is_empty() {
            return step.fx.respond(id, response);
        }
        let watched = pending.iter().map(|pending| pending.tp.clone()).collect();
        let deadline = step.now.plus_ms(request.timeout_ms.into());
        let operation = Operation::Produce(DelayedProduce { request: id, response, pending });
        let operation = self.park(operation, watched, deadline, step);
        self.try_complete_produce(operation, step);
    }

    pub(super) fn try_complete_produce(&mut self, id: OperationId, step: &mut Step<'_>) {
        let partitions = &self.partitions;
        let Some(Operation::Produce(produce)) = self.purgatory.get_mut(id) else { return };
        let (response, image) = (&mut produce.response, step.image);
        produce.pending.retain(|pending| {
            let partition = partitions.get(&pending.tp);
            let outcome = match partition {
                Some(partition) => partition.acks_all_outcome(pending.required),
                None if image.partition(&pending.tp).is_some() => Some(ErrorCode::NotLeaderOrFollower),
                None => Some(ErrorCode::UnknownTopicOrPartition),
            };
            if let Some(error) = outcome {
                settle(response, pending, error, image);
            }
            outcome.is_none()
        });
        if produce.pending.is_empty()
            && let Some(Operation::Produce(produce)) = self.purgatory.remove(id)
        {
            step.fx.respond(produce.request, produce.response);
        }
    }
}

/// The answers to a topic as it was asked for.
fn answers_to<'a>(
    response: &'a mut [TopicProduceResponse],
    (id, name): &(TopicId, TopicName),
) -> Option<&'a mut Vec<PartitionProduceResponse>> {
    let topic = response.iter_mut().find(|topic| topic.topic_id == id.0 && topic.name == *name);
    topic.map(|topic| &mut topic.partition_responses)
}

fn push_answer(
    response: &mut ProduceResponse,
    asked_for: &(TopicId, TopicName),
    answer: PartitionProduceResponse,
) {
    match answers_to(&mut response.responses, asked_for) {
        Some(answers) => answers.push(answer),
        None => {
            let (id, name) = asked_for;
            let topic = TopicProduceResponse::default().with_topic_id(id.0).with_name(name.clone());
            response.responses.push(topic.with_partition_responses(vec![answer]));
        }
    }
}

fn answer(
    outcome: &Outcome,
    image: &ClusterImage,
    endpoints: &mut Vec<NodeEndpoint>,
) -> PartitionProduceResponse {
    let mut answer =
        PartitionProduceResponse::default().with_index(outcome.tp.partition).with_base_offset(-1);
    match &outcome.result {
        Ok(appended) => {
            answer.base_offset = appended.base_offset.0;
            answer.log_append_time_ms = appended.log_append_time_ms;
            answer.log_start_offset = appended.log_start_offset.0;
        }
        Err(failure) => {
            let error = failure.code();
            answer.error_code = error.code();
            answer.log_append_time_ms = -1;
            answer.log_start_offset = -1;
            if let AppendFailure::Log(failure) = failure {
                answer.error_message = Some(failure.to_string().into());
                answer.record_errors = record_errors(failure);
            }
            name_leader(&mut answer, &outcome.tp, error, image, endpoints);
        }
    }
    answer
}

fn record_errors(failure: &AppendError) -> Vec<BatchIndexAndErrorMessage> {
    let errors = failure.record_errors().iter().map(|error| {
        BatchIndexAndErrorMessage::default()
            .with_batch_index(error.batch_index)
            .with_batch_index_error_message(Some(error.fault.to_string().into()))
    });
    errors.collect()
}

/// Writes the outcome of a partition that waited into the answer.
fn settle(response: &mut ProduceResponse, pending: &PendingAcks, error: ErrorCode, image: &ClusterImage) {
    let ProduceResponse { responses, node_endpoints, .. } = response;
    let answers = answers_to(responses, &pending.asked_for).into_iter().flatten();
    for answer in answers.filter(|answer| answer.index == pending.tp.partition) {
        answer.error_code = error.code();
        name_leader(answer, &pending.tp, error, image, node_endpoints);
    }
}

/// KIP-951: an answer that says "not me" says who, if it can (R-REPL-67).
fn name_leader(
    answer: &mut PartitionProduceResponse,
    tp: &TopicPartition,
    error: ErrorCode,
    image: &ClusterImage,
    endpoints: &mut Vec<NodeEndpoint>,
) {
    if error != ErrorCode::NotLeaderOrFollower {
        return;
    }
    let Some(partition) = image.partition(tp) else { return };
    let leader = partition.leader;
    answer.current_leader = LeaderIdAndEpoch::default()
        .with_leader_id(leader.0.into())
        .with_leader_epoch(partition.leader_epoch.0);
    if endpoints.iter().all(|endpoint| endpoint.node_id.0 != leader.0) {
        endpoints.extend(image.endpoint(leader).map(|endpoint| {
            NodeEndpoint::default()
                .with_node_id(endpoint.broker.0.into())
                .with_host(endpoint.host.into())
                .with_port(endpoint.port.into())
                .with_rack(endpoint.rack.map(Into::into))
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::protocol::metadata_records::{MetadataRecord, PartitionRecord, RegisterBroker};
    use crate::kafka::types::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch};

    /// (leader, leader epoch, number of endpoints) that a refusal names when broker 2 leads.
    fn hint(error: ErrorCode, fenced: bool) -> (i32, i32, i64) {
        let (mut image, leader) = (ClusterImage::default(), BrokerId(2));
        image.replay(&MetadataRecord::RegisterBroker(RegisterBroker {
            broker: leader,
            incarnation: uuid::Uuid::nil(),
            epoch: BrokerEpoch(1),
            rack: None,
            fenced,
            in_controlled_shutdown: false,
        }));
        let topic_id = TopicId(uuid::Uuid::from_u128(7));
        image.replay(&MetadataRecord::Topic { name: "t".into(), id: topic_id });
        image.replay(&MetadataRecord::Partition(PartitionRecord {
            leader_epoch: LeaderEpoch(4),
            partition_epoch: PartitionEpoch(5),
            ..PartitionRecord::new((topic_id, 0), vec![BrokerId(1), leader], vec![leader], leader)
        }));
        let (mut answer, mut endpoints) = (PartitionProduceResponse::default(), Vec::new());
        name_leader(&mut answer, &TopicPartition::new(&"t".into(), 0), error, &image, &mut endpoints);
        let named = &answer.current_leader;
        (named.leader_id.0, named.leader_epoch, endpoints.len() as i64)
    }

    #[test]
    fn a_refusal_names_the_leader_and_says_where_it_is_if_it_lives() {
        assert_eq!(hint(ErrorCode::NotLeaderOrFollower, false), (2, 4, 1), "R-REPL-67");
        assert_eq!(hint(ErrorCode::NotLeaderOrFollower, true), (2, 4, 0), "it has no endpoint while fenced");
        assert_eq!(hint(ErrorCode::NotEnoughReplicas, false), (-1, -1, 0));
    }
}
