//! The ends of transactions, which their coordinator has written to the logs that this broker leads.
//!
//! Mirrors the appends of `KafkaApis.handleWriteTxnMarkersRequest`: one control record a partition, with acks=all
//! (R-TXN-19, R-TXN-20).
//!
//! **Invariant:** the answer tells of each marker once, when it is below the high watermark or cannot get there.

use super::manager::{ReplicaManager, Step};
use super::purgatory::{DelayedMarkers, Operation, OperationId, PendingMarker};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, TransactionEvent};
use crate::kafka::log::{FirstBatch, Origin, Verification, VerificationGuard};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::markers::{WritableMarker, WriteTxnMarkersResponse};
use crate::kafka::record::{BatchParameters, EndTransactionMarker};
use crate::kafka::types::{Offset, ProducerId, TopicPartition};

impl ReplicaManager {
    /// The guard with which a transaction may be opened in a partition that is led here, once its coordinator was asked;
    /// `None` if it is open (R-TXN-14).
    ///
    /// # Errors
    /// What a client is told in the place of an append.
    pub fn begin_verification(
        &mut self,
        tp: &TopicPartition,
        producer: ProducerId,
        batch: FirstBatch,
        step: &mut Step<'_>,
    ) -> Result<Option<VerificationGuard>, ErrorCode> {
        self.find(tp, step.image).and_then(|partition| partition.check_leader(None).map(drop))?;
        let partition = self.edit(tp).expect("found above");
        partition.log.begin_verification(step.now, producer, batch).map_err(|error| error.code())
    }

    /// Appends the end of a transaction to one partition. Its offset.
    ///
    /// # Errors
    /// What the coordinator is told.
    pub fn append_marker(
        &mut self,
        tp: &TopicPartition,
        marker: &WritableMarker,
        step: &mut Step<'_>,
    ) -> Result<Offset, ErrorCode> {
        if !self.partitions.contains_key(tp) {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        let parameters = BatchParameters {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            ..BatchParameters::default()
        };
        let WritableMarker { committed, coordinator_epoch, .. } = *marker;
        let batch =
            EndTransactionMarker { committed, coordinator_epoch }.batch(parameters, step.now.wall_ms());
        let transaction_version = marker.transaction_version.into();
        let how = (Origin::TransactionMarker { transaction_version }, Verification::Off);
        let appended = self.append(tp, batch.into_bytes(), how, (true, None), step);
        let appended = appended.map_err(|failure| failure.code())?;
        step.fx.event(Event::Transaction(TransactionEvent::Marked {
            broker: self.me,
            tp: tp.clone(),
            producer: marker.producer_id,
            committed,
            offset: appended.last_offset,
        }));
        self.complete(tp, step);
        Ok(appended.last_offset)
    }

    /// Answers a WriteTxnMarkers when the markers that were appended are below the high watermark.
    pub fn await_markers(
        &mut self,
        request: RequestId,
        mut response: WriteTxnMarkersResponse,
        pending: Vec<PendingMarker>,
        step: &mut Step<'_>,
    ) {
        if pending.is_empty() {
            return step.fx.respond(request, response);
        }
        for PendingMarker { producer, tp, .. } in &pending {
            let of_producer = response.errors.entry(*producer).or_default();
            of_producer.insert(tp.clone(), ErrorCode::RequestTimedOut);
        }
        let watched = pending.iter().map(|pending| pending.tp.clone()).collect();
        let deadline = step.now.plus_ms(self.config.request_timeout_ms);
        let operation = Operation::Markers(DelayedMarkers { request, response, pending });
        let operation = self.park(operation, watched, deadline, step);
        self.try_complete_markers(operation, step);
    }

    pub(super) fn try_complete_markers(&mut self, id: OperationId, step: &mut Step<'_>) {
        let partitions = &self.partitions;
        let Some(Operation::Markers(markers)) = self.purgatory.get_mut(id) else { return };
        let DelayedMarkers { response, pending, .. } = markers;
        pending.retain(|marker| {
            let outcome = match partitions.get(&marker.tp) {
                Some(partition) => partition.acks_all_outcome(marker.required),
                None => Some(gone(&marker.tp, step.image)),
            };
            if let Some(error) = outcome {
                response.errors.entry(marker.producer).or_default().insert(marker.tp.clone(), error);
            }
            outcome.is_none()
        });
        if pending.is_empty()
            && let Some(Operation::Markers(markers)) = self.purgatory.remove(id)
        {
            step.fx.respond(markers.request, markers.response);
        }
    }
}

fn gone(tp: &TopicPartition, image: &ClusterImage) -> ErrorCode {
    match image.partition(tp) {
        Some(_) => ErrorCode::NotLeaderOrFollower,
        None => ErrorCode::UnknownTopicOrPartition,
    }
}
