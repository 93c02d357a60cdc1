//! DeleteRecords: somebody asks for the log to begin later.
//!
//! Mirrors `ReplicaManager.deleteRecords`, `Partition.deleteRecordsOnLeader` and `DelayedDeleteRecords` (R-LOG-37). The
//! segments themselves go with the next pass of retention.

use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::manager::{ReplicaManager, Step};
use super::produce::is_internal;
use super::purgatory::{DelayedDeleteRecords, Operation, OperationId, PendingDelete};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, LogStartReason};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{Offset, Topic, TopicPartition};

/// Stands for the high watermark.
const UP_TO_HIGH_WATERMARK: i64 = -1;
const NO_LOW_WATERMARK: i64 = -1;

impl ReplicaManager {
    pub fn delete_records(&mut self, id: RequestId, request: &DeleteRecordsRequest, step: &mut Step<'_>) {
        let mut response = DeleteRecordsResponse::default();
        let (mut done, mut waits) = (Vec::new(), false);
        for topic in &request.topics {
            let name = Topic::new(&topic.name.0);
            let mut results = Vec::new();
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&name, partition.partition_index);
                let result = self.delete_before(&tp, partition.offset, step);
                let (error, low_watermark) = match result {
                    Ok((required, low_watermark)) => {
                        waits |= low_watermark < required;
                        done.push(PendingDelete { tp, required });
                        (ErrorCode::None, low_watermark.0)
                    }
                    Err(error) => (error, NO_LOW_WATERMARK),
                };
                results.push(answer(partition.partition_index, error, low_watermark));
            }
            response.topics.push(
                DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(results),
            );
        }
        if !waits {
            return step.fx.respond(id, response);
        }
        for pending in &done {
            if let Some(result) = result_of(&mut response, &pending.tp) {
                result.error_code = ErrorCode::RequestTimedOut.code();
            }
        }
        let watched = done.iter().map(|pending| pending.tp.clone()).collect();
        let deadline = step.now.plus_ms(request.timeout_ms.into());
        let operation = DelayedDeleteRecords { request: id, response, pending: done };
        let operation = self.park(Operation::DeleteRecords(operation), watched, deadline, step);
        self.try_complete_delete_records(operation, step);
    }

    /// The offset that was meant, and the low watermark.
    fn delete_before(
        &mut self,
        tp: &TopicPartition,
        offset: i64,
        step: &mut Step<'_>,
    ) -> Result<(Offset, Offset), ErrorCode> {
        if step.image.partition(tp).is_none() {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        if is_internal(tp.topic.as_str()) {
            return Err(ErrorCode::InvalidTopicException);
        }
        self.drop_before(tp, offset, step)
    }

    /// A coordinator, which may do so in its internal topic, drops what it needs no more.
    ///
    /// # Errors
    /// What a client would be told.
    pub fn delete_records_as_coordinator(
        &mut self,
        tp: &TopicPartition,
        before: Offset,
        step: &mut Step<'_>,
    ) -> Result<(), ErrorCode> {
        self.drop_before(tp, before.0, step).map(drop)
    }

    fn drop_before(
        &mut self,
        tp: &TopicPartition,
        offset: i64,
        step: &mut Step<'_>,
    ) -> Result<(Offset, Offset), ErrorCode> {
        let partition = self.find(tp, step.image)?;
        partition.check_leader(None)?;
        let (log, config) = (&partition.log, &partition.config.log);
        if config.compacted && !config.deletes {
            return Err(ErrorCode::PolicyViolation);
        }
        let to = if offset == UP_TO_HIGH_WATERMARK { log.high_watermark() } else { Offset(offset) };
        if to < Offset::ZERO || to > log.high_watermark() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let (broker, from) = (self.me, log.log_start_offset());
        if to > from
            && let Some(partition) = self.edit(tp)
        {
            partition.log.maybe_increment_log_start_offset(to);
            let (tp, reason) = (tp.clone(), LogStartReason::DeleteRecords);
            step.fx.event(Event::LogStartMoved { broker, tp, leader: true, from, to, reason });
        }
        Ok((to, self.low_watermark(tp, step.image).unwrap_or(Offset::UNKNOWN)))
    }

    /// Where the log begins on the replica whose log begins first, of those on brokers that live; `None` if this broker
    /// does not lead.
    pub(super) fn low_watermark(&self, tp: &TopicPartition, image: &ClusterImage) -> Option<Offset> {
        let partition = self.partitions.get(tp)?;
        let remotes = &partition.leader()?.remotes;
        let alive = remotes.iter().filter(|(id, _)| image.is_alive(**id));
        let starts = alive.map(|(_, remote)| remote.log_start_offset);
        starts.chain([partition.log.log_start_offset()]).min()
    }

    pub(super) fn try_complete_delete_records(&mut self, id: OperationId, step: &mut Step<'_>) {
        let Some(Operation::DeleteRecords(parked)) = self.purgatory.get(id) else { return };
        let settled: Vec<(TopicPartition, ErrorCode, i64)> = parked
            .pending
            .iter()
            .filter_map(|pending| {
                let (error, low_watermark) = match self.low_watermark(&pending.tp, step.image) {
                    Some(low) if low >= pending.required => (ErrorCode::None, low.0),
                    Some(_) => return None,
                    None if self.partitions.contains_key(&pending.tp) => {
                        (ErrorCode::NotLeaderOrFollower, NO_LOW_WATERMARK)
                    }
                    None => (ErrorCode::UnknownTopicOrPartition, NO_LOW_WATERMARK),
                };
                Some((pending.tp.clone(), error, low_watermark))
            })
            .collect();
        let Some(Operation::DeleteRecords(parked)) = self.purgatory.get_mut(id) else { return };
        for (tp, error, low_watermark) in settled {
            parked.pending.retain(|pending| pending.tp != tp);
            if let Some(result) = result_of(&mut parked.response, &tp) {
                *result = answer(tp.partition, error, low_watermark);
            }
        }
        if parked.pending.is_empty()
            && let Some(Operation::DeleteRecords(parked)) = self.purgatory.remove(id)
        {
            step.fx.respond(parked.request, parked.response);
        }
    }
}

fn answer(partition: i32, error: ErrorCode, low_watermark: i64) -> DeleteRecordsPartitionResult {
    DeleteRecordsPartitionResult::default()
        .with_partition_index(partition)
        .with_error_code(error.code())
        .with_low_watermark(low_watermark)
}

fn result_of<'a>(
    response: &'a mut DeleteRecordsResponse,
    tp: &TopicPartition,
) -> Option<&'a mut DeleteRecordsPartitionResult> {
    let topic = response.topics.iter_mut().find(|topic| topic.name.as_str() == tp.topic.as_str())?;
    topic.partitions.iter_mut().find(|result| result.partition_index == tp.partition)
}
