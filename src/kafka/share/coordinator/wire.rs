//! The share coordinator's requests and responses as asks and answers (`ShareCoordinatorService`).
//!
//! **Invariant:** a response has the partitions of its request, in their order.

use std::collections::BTreeMap;

use kafka_protocol::messages as m;
use kafka_protocol::messages::{
    delete_share_group_state_response as delete, initialize_share_group_state_response as initialize,
    read_share_group_state_response as read, write_share_group_state_response as write,
};
use uuid::Uuid;

use super::super::key::ShareKey;
use super::super::range::OffsetRange;
use super::super::state::{RecordState, StateBatch};
use super::ask::{Answer, Ask, Summary, Written};
use super::{Answered, ApiKey};
use crate::kafka::protocol::share::{
    ReadShareGroupStateSummaryResponse, SummaryPartition, SummaryTopic, WritePartition,
    WriteShareGroupStateRequest, WriteShareGroupStateResponse,
};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::types::{GroupId, LeaderEpoch, Offset, TopicId};

/// What a request asks, in its order. Nothing if it is none of the share coordinator's, if it names no group, or if one
/// of its topics has no partitions; such are answered with nothing.
pub fn asks_of(request: &Request) -> Vec<(ShareKey, Ask)> {
    match request {
        Request::InitializeShareGroupState(m::InitializeShareGroupStateRequest {
            group_id, topics, ..
        }) => gather(group_id, topics.iter().map(|topic| (topic.topic_id, &topic.partitions)), |partition| {
            let start_offset = known(partition.start_offset);
            (partition.partition, Ask::Initialize { state_epoch: partition.state_epoch, start_offset })
        }),
        Request::ReadShareGroupState(m::ReadShareGroupStateRequest { group_id, topics, .. }) => {
            gather(group_id, topics.iter().map(|topic| (topic.topic_id, &topic.partitions)), |partition| {
                (partition.partition, Ask::Read { leader_epoch: LeaderEpoch(partition.leader_epoch) })
            })
        }
        Request::WriteShareGroupState(WriteShareGroupStateRequest { group_id, topics }) => {
            let topics = topics.iter().map(|topic| (topic.topic_id, &topic.partitions));
            gather(group_id, topics, |partition| (partition.partition, Ask::Write(written(partition))))
        }
        Request::DeleteShareGroupState(m::DeleteShareGroupStateRequest { group_id, topics, .. }) => {
            let topics = topics.iter().map(|topic| (topic.topic_id, &topic.partitions));
            gather(group_id, topics, |partition| (partition.partition, Ask::Delete))
        }
        Request::ReadShareGroupStateSummary(request) => {
            let topics = request.0.topics.iter().map(|topic| (topic.topic_id, &topic.partitions));
            gather(&request.0.group_id, topics, |partition| (partition.partition, Ask::ReadSummary))
        }
        _ => Vec::new(),
    }
}

fn gather<'a, P: 'a>(
    group: &str,
    topics: impl Iterator<Item = (Uuid, &'a Vec<P>)> + Clone,
    ask: impl Fn(&P) -> (i32, Ask),
) -> Vec<(ShareKey, Ask)> {
    if group.is_empty() || topics.clone().any(|(_, partitions)| partitions.is_empty()) {
        return Vec::new();
    }
    let group = GroupId::new(group);
    let each =
        topics.flat_map(|(topic, partitions)| partitions.iter().map(move |partition| (topic, partition)));
    each.map(|(topic_id, partition)| {
        let (partition, ask) = ask(partition);
        (ShareKey { group: group.clone(), topic_id: TopicId(topic_id), partition }, ask)
    })
    .collect()
}

fn known(offset: i64) -> Option<Offset> {
    Some(Offset(offset)).filter(|offset| *offset != Offset::UNKNOWN)
}

/// A state that Kafka 4.3 does not know is left out: its records are read again.
fn written(partition: &WritePartition) -> Written {
    let batches = partition.state_batches.iter().filter_map(|batch| {
        let range = OffsetRange::new(Offset(batch.first_offset), Offset(batch.last_offset));
        let state = RecordState::from_id(batch.delivery_state)?;
        Some(StateBatch { range, state, delivery_count: batch.delivery_count })
    });
    Written {
        state_epoch: partition.state_epoch,
        leader_epoch: LeaderEpoch(partition.leader_epoch),
        start_offset: known(partition.start_offset),
        delivery_complete_count: Some(partition.delivery_complete_count).filter(|count| *count >= 0),
        batches: batches.collect(),
    }
}

/// The answers as the response that `api` has.
pub fn response_of(answered: Answered) -> Response {
    let Answered { api, answers, .. } = answered;
    match api {
        ApiKey::InitializeShareGroupState => {
            let results = by_topic(answers, |partition, outcome| {
                initialize::PartitionResult::default()
                    .with_partition(partition)
                    .with_error_code(code(&outcome))
            });
            let result = |(topic_id, partitions)| {
                initialize::InitializeStateResult::default()
                    .with_topic_id(topic_id)
                    .with_partitions(partitions)
            };
            let results = results.into_iter().map(result).collect();
            m::InitializeShareGroupStateResponse::default().with_results(results).into()
        }
        ApiKey::ReadShareGroupState => {
            let results = by_topic(answers, read_result).into_iter().map(|(topic_id, partitions)| {
                read::ReadStateResult::default().with_topic_id(topic_id).with_partitions(partitions)
            });
            m::ReadShareGroupStateResponse::default().with_results(results.collect()).into()
        }
        ApiKey::WriteShareGroupState => {
            let results = by_topic(answers, |partition, outcome| {
                write::PartitionResult::default().with_partition(partition).with_error_code(code(&outcome))
            });
            let result = |(topic_id, partitions)| {
                write::WriteStateResult::default().with_topic_id(topic_id).with_partitions(partitions)
            };
            let results = results.into_iter().map(result).collect();
            let body = m::WriteShareGroupStateResponse::default().with_results(results);
            let response: WriteShareGroupStateResponse = crate::kafka::protocol::SameAsVersion0(body);
            response.into()
        }
        ApiKey::DeleteShareGroupState => {
            let results = by_topic(answers, |partition, outcome| {
                delete::PartitionResult::default().with_partition(partition).with_error_code(code(&outcome))
            });
            let result = |(topic_id, partitions)| {
                delete::DeleteStateResult::default().with_topic_id(topic_id).with_partitions(partitions)
            };
            let results = results.into_iter().map(result).collect();
            m::DeleteShareGroupStateResponse::default().with_results(results).into()
        }
        ApiKey::ReadShareGroupStateSummary => {
            let results = by_topic(answers, summary_result).into_iter();
            let result = |(topic_id, partitions)| SummaryTopic { topic_id, partitions };
            ReadShareGroupStateSummaryResponse { results: results.map(result).collect() }.into()
        }
        other => unreachable!("{} is not handled by the share coordinator", other.name()),
    }
}

type Outcome = Result<Answer, ErrorCode>;

/// Topics in the order in which they were named. Of a share partition that was named several times the last outcome
/// counts (`ShareCoordinatorService.writeState`).
fn by_topic<P>(answers: Vec<(ShareKey, Outcome)>, result: impl Fn(i32, Outcome) -> P) -> Vec<(Uuid, Vec<P>)> {
    let mut topics: Vec<(Uuid, Vec<P>)> = Vec::new();
    let last: BTreeMap<ShareKey, usize> =
        answers.iter().zip(0..).map(|((key, _), place)| (key.clone(), place)).collect();
    let counts = |(place, (key, _)): &(usize, (ShareKey, Outcome))| last[key] == *place;
    for (_, (key, outcome)) in (0..).zip(answers).filter(counts) {
        let part = result(key.partition, outcome);
        match topics.last_mut().filter(|(topic_id, _)| *topic_id == key.topic_id.0) {
            Some((_, parts)) => parts.push(part),
            None => topics.push((key.topic_id.0, vec![part])),
        }
    }
    topics
}

fn code(outcome: &Outcome) -> i16 {
    outcome.as_ref().err().map_or(0, |error| error.code())
}

fn read_result(partition: i32, outcome: Outcome) -> read::PartitionResult {
    let result = read::PartitionResult::default().with_partition(partition);
    match outcome {
        Ok(Answer::State { state_epoch, start_offset, batches }) => {
            let batches = batches.iter().map(|batch| {
                read::StateBatch::default()
                    .with_first_offset(batch.range.first.0)
                    .with_last_offset(batch.range.last.0)
                    .with_delivery_state(batch.state.id())
                    .with_delivery_count(batch.delivery_count)
            });
            result
                .with_state_epoch(state_epoch)
                .with_start_offset(start_offset.unwrap_or(Offset::UNKNOWN).0)
                .with_state_batches(batches.collect())
        }
        Ok(_) => unreachable!("a read is answered with a state"),
        Err(error) => result.with_error_code(error.code()),
    }
}

fn summary_result(partition: i32, outcome: Outcome) -> SummaryPartition {
    let (summary, error_code) = match outcome {
        Ok(Answer::Summary(summary)) => (summary, 0),
        Ok(_) => unreachable!("a summary was asked for"),
        Err(error) => (Summary::NONE, error.code()),
    };
    SummaryPartition {
        partition,
        error_code,
        error_message: None,
        state_epoch: summary.state_epoch,
        leader_epoch: summary.leader_epoch.0,
        start_offset: summary.start_offset.unwrap_or(Offset::UNKNOWN).0,
        delivery_complete_count: summary.delivery_complete_count.unwrap_or(-1),
    }
}
