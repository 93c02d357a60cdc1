//! The requests of operations, and what responses say of them.
//!
//! **Invariant:** each operation of a request has one outcome.

use kafka_protocol::messages as m;
use kafka_protocol::messages::{
    delete_share_group_state_request as delete, initialize_share_group_state_request as initialize,
    read_share_group_state_request as read, read_share_group_state_summary_request as summary,
};

use super::{Job, JobKind, Operation, Outcome, Work};
use crate::kafka::protocol::share::{
    WritePartition, WriteShareGroupStateRequest, WriteStateBatch, WriteTopic,
};
use crate::kafka::protocol::{ErrorCode, Request, Response, SameAsVersion0};
use crate::kafka::share::manager::{Persist, Persisted};
use crate::kafka::share::partition::StateWrite;
use crate::kafka::share::state::{RecordState, StateBatch};
use crate::kafka::share::{OffsetRange, ShareKey};
use crate::kafka::types::Offset;

pub(super) fn request_of(operations: &[Operation]) -> Option<Request> {
    let first = operations.first()?;
    let group = first.key().group.clone();
    let mut reads: Vec<read::ReadStateData> = Vec::new();
    let mut writes: Vec<WriteTopic> = Vec::new();
    let mut begun: Vec<initialize::InitializeStateData> = Vec::new();
    let mut deleted: Vec<delete::DeleteStateData> = Vec::new();
    let mut summarized: Vec<summary::ReadStateSummaryData> = Vec::new();
    for operation in operations {
        match &operation.job {
            Job::OfLeader(Persist::Read { key, leader_epoch, .. }) => {
                let partition = read::PartitionData::default()
                    .with_partition(key.partition)
                    .with_leader_epoch(leader_epoch.0);
                let topic = read::ReadStateData::default().with_topic_id(key.topic_id.0);
                reads.push(topic.with_partitions(vec![partition]));
            }
            Job::OfLeader(Persist::Write { key, write, .. }) => {
                let partitions = vec![write_partition(key, write)];
                writes.push(WriteTopic { topic_id: key.topic_id.0, partitions });
            }
            Job::OfAsk { key, work: Work::Begin { epoch, start }, .. } => {
                let partition = initialize::PartitionData::default()
                    .with_partition(key.partition)
                    .with_state_epoch(epoch.0)
                    .with_start_offset(start.0);
                let topic = initialize::InitializeStateData::default().with_topic_id(key.topic_id.0);
                begun.push(topic.with_partitions(vec![partition]));
            }
            Job::OfAsk { key, work: Work::Delete, .. } => {
                let partition = delete::PartitionData::default().with_partition(key.partition);
                let topic = delete::DeleteStateData::default().with_topic_id(key.topic_id.0);
                deleted.push(topic.with_partitions(vec![partition]));
            }
            Job::OfAsk { key, work: Work::Summarize, .. } => {
                let partition = summary::PartitionData::default().with_partition(key.partition);
                let topic = summary::ReadStateSummaryData::default().with_topic_id(key.topic_id.0);
                summarized.push(topic.with_partitions(vec![partition]));
            }
        }
    }
    let id = group.to_wire();
    Some(match first.kind() {
        JobKind::Read => m::ReadShareGroupStateRequest::default().with_group_id(id).with_topics(reads).into(),
        JobKind::Write => WriteShareGroupStateRequest { group_id: group.to_string(), topics: writes }.into(),
        JobKind::Begin => {
            m::InitializeShareGroupStateRequest::default().with_group_id(id).with_topics(begun).into()
        }
        JobKind::Delete => {
            m::DeleteShareGroupStateRequest::default().with_group_id(id).with_topics(deleted).into()
        }
        JobKind::Summarize => {
            let request = m::ReadShareGroupStateSummaryRequest::default().with_group_id(id);
            SameAsVersion0(request.with_topics(summarized)).into()
        }
    })
}

fn write_partition(key: &ShareKey, write: &StateWrite) -> WritePartition {
    let state_batches = write.batches.iter().map(|batch| WriteStateBatch {
        first_offset: batch.range.first.0,
        last_offset: batch.range.last.0,
        delivery_state: batch.state.id(),
        delivery_count: batch.delivery_count,
    });
    WritePartition {
        partition: key.partition,
        state_epoch: write.state_epoch,
        leader_epoch: write.leader_epoch.0,
        start_offset: write.start_offset.0,
        delivery_complete_count: write.delivery_complete_count,
        state_batches: state_batches.collect(),
    }
}

/// What a response says of one share partition, or its error. Each response has types of its own, alike but in name.
macro_rules! said_of {
    ($results:expr, $key:expr) => {{
        let topics = $results.iter().filter(|topic| topic.topic_id == $key.topic_id.0);
        let mut partitions = topics.flat_map(|topic| &topic.partitions);
        let said = partitions.find(|said| said.partition == $key.partition);
        said.ok_or(ErrorCode::UnknownServerError).and_then(|said| check(said.error_code).map(|()| said))
    }};
}

/// What a response says of one operation.
pub(super) fn outcome(operation: &Operation, response: &Response) -> Result<Outcome, ErrorCode> {
    let key = operation.key();
    match (&operation.job, response) {
        (Job::OfLeader(Persist::Read { instance, .. }), Response::ReadShareGroupState(response)) => {
            let partition = said_of!(response.results, key)?;
            let batches = partition.state_batches.iter().filter_map(|batch| {
                let range = OffsetRange::new(Offset(batch.first_offset), Offset(batch.last_offset));
                let state = RecordState::from_id(batch.delivery_state)?;
                Some(StateBatch { range, state, delivery_count: batch.delivery_count })
            });
            let persisted = Persisted {
                state_epoch: partition.state_epoch,
                start_offset: Some(Offset(partition.start_offset))
                    .filter(|offset| *offset != Offset::UNKNOWN),
                batches: batches.collect(),
            };
            Ok(Outcome::Read { key: key.clone(), instance: *instance, result: Ok(persisted) })
        }
        (Job::OfLeader(Persist::Write { instance, write, .. }), Response::WriteShareGroupState(response)) => {
            said_of!(response.0.results, key)?;
            Ok(Outcome::Written { key: key.clone(), write: (*instance, write.id), result: Ok(()) })
        }
        (Job::OfAsk { ask, .. }, Response::InitializeShareGroupState(response)) => {
            said_of!(response.results, key)?;
            Ok(Outcome::Asked { ask: *ask, key: key.clone(), result: Ok(None) })
        }
        (Job::OfAsk { ask, .. }, Response::DeleteShareGroupState(response)) => {
            said_of!(response.results, key)?;
            Ok(Outcome::Asked { ask: *ask, key: key.clone(), result: Ok(None) })
        }
        (Job::OfAsk { ask, .. }, Response::ReadShareGroupStateSummary(response)) => {
            let summary = said_of!(response.results, key)?;
            Ok(Outcome::Asked { ask: *ask, key: key.clone(), result: Ok(Some(summary.clone())) })
        }
        _ => Err(ErrorCode::UnknownServerError),
    }
}

fn check(code: i16) -> Result<(), ErrorCode> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(()),
        error => Err(error),
    }
}
