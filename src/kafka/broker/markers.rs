//! Ends of transactions: as their coordinator sends them, and as the leaders of their partitions take them.
//!
//! Mirrors the sender of `TransactionMarkerChannelManager` and `KafkaApis.handleWriteTxnMarkersRequest` (R-TXN-19).
//!
//! **Invariant:** one request with markers is on its way to a broker at a time.

use super::groups::is_offsets;
use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects, Peer, RequestId};
use crate::kafka::protocol::markers::{WritableMarker, WriteTxnMarkersRequest, WriteTxnMarkersResponse};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::replication::PendingMarker;
use crate::kafka::time::Time;
use crate::kafka::transaction::{MarkerEntry, wire};
use crate::kafka::types::{BrokerId, Offset, TopicPartition};

impl Broker {
    /// Sends the markers that can be sent. Those for a broker that cannot be reached go to whoever leads by now.
    pub(super) fn send_markers(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let destinations = self.marker_destinations();
        for broker in &destinations {
            let peer = Peer::new(*broker, Channel::Markers);
            if !self.network.ready(now, peer, fx) && !self.network.is_connecting(peer) {
                self.requeue_markers(now, *broker, Vec::new(), fx);
            }
        }
        for broker in self.marker_destinations() {
            let peer = Peer::new(broker, Channel::Markers);
            if !self.network.ready(now, peer, fx) || !self.network.can_send(peer) {
                continue;
            }
            let entries = self.transactions.coordinator.take_markers(broker);
            let (request, timeout_ms) = (wire::markers_request(&entries), self.config.request_timeout_ms);
            self.network.send(now, peer, request, Purpose::Markers(entries), timeout_ms, fx);
        }
        if self.transactions.coordinator.has_stuck_markers() && self.transactions.arm_marker_timer() {
            let at = now.plus_ms(self.config.request_timeout_ms);
            fx.set_timer(BrokerTimer::Markers, at);
        }
    }

    /// The sender has rested for as long as it does without anything to do.
    pub(super) fn wake_markers(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        self.transactions.disarm_marker_timer();
        self.refresh_markers(now, fx);
    }

    /// Whatever wakes the sender has it look again for what it could not do before.
    fn refresh_markers(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        if self.transactions.coordinator.has_stuck_markers() {
            self.at_transactions(now, fx, |coordinator, around, part| {
                coordinator.refresh_markers(around, part);
            });
        }
    }

    pub(super) fn markers_answered(
        &mut self,
        now: Time,
        entries: Vec<MarkerEntry>,
        response: &Response,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Response::WriteTxnMarkers(response) = response else {
            panic!("{} is no answer to WriteTxnMarkers", response.api().name())
        };
        self.at_transactions(now, fx, |coordinator, around, part| {
            coordinator.on_markers_answered(around, entries, &response.errors, part);
        });
        self.refresh_markers(now, fx);
    }

    /// Markers that were sent to a broker, or were to be, go to whoever leads by now.
    pub(super) fn requeue_markers(
        &mut self,
        now: Time,
        broker: BrokerId,
        mut lost: Vec<MarkerEntry>,
        fx: &mut Effects<BrokerTimer>,
    ) {
        lost.extend(self.transactions.coordinator.take_markers(broker));
        self.at_transactions(now, fx, |coordinator, around, part| {
            coordinator.on_markers_lost(around, lost, part);
        });
    }

    /// A coordinator has ends of transactions written to the logs that this broker leads.
    pub(super) fn on_write_markers(
        &mut self,
        now: Time,
        id: RequestId,
        request: &WriteTxnMarkersRequest,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let (mut response, mut pending) = (WriteTxnMarkersResponse::default(), Vec::new());
        for marker in &request.markers {
            let errors = response.errors.entry(marker.producer_id).or_default();
            for tp in &marker.partitions {
                match self.write_marker(now, tp, marker, fx) {
                    Ok(offset) => {
                        let (producer, tp, required) = (marker.producer_id, tp.clone(), offset + 1);
                        pending.push(PendingMarker { producer, tp, required });
                    }
                    Err(error) => drop(errors.insert(tp.clone(), error)),
                }
            }
        }
        self.with_replicas(now, fx, |replicas, step| replicas.await_markers(id, response, pending, step));
    }

    /// The end of a transaction in one partition; that of a group coordinator hears of it. Its offset.
    fn write_marker(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        marker: &WritableMarker,
        fx: &mut Effects<BrokerTimer>,
    ) -> Result<Offset, ErrorCode> {
        // While a coordinator loads it takes none: the transaction's coordinator is to try again.
        if is_offsets(tp) && !self.groups.takes_markers(tp.partition) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let written =
            self.with_replicas(now, fx, |replicas, step| replicas.append_marker(tp, marker, step))?;
        if is_offsets(tp) {
            let of_marker = (marker.producer_id, marker.committed);
            self.on_offsets_marker(now, tp.partition, of_marker, written, fx);
        }
        Ok(written)
    }
}
