//! Brokers as the controller knows them: registration, heartbeats, sessions, fencing.
//!
//! Mirrors `ClusterControlManager` and `BrokerHeartbeatManager` (R-REPL-51 to 57).

use std::collections::BTreeMap;

use kafka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse,
};

use super::image::ClusterImage;
use super::topics::{Cause, partitions_led_by_nobody, partitions_with_in_elr, partitions_with_in_isr};
use crate::kafka::event::{ChangeReason, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{BrokerRegistrationChange, MetadataRecord, RegisterBroker};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId};

/// When each unfenced broker was last heard (`BrokerHeartbeatTracker`).
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    last_contact: BTreeMap<(BrokerId, BrokerEpoch), Time>,
}

impl Sessions {
    pub fn touch(&mut self, broker: BrokerId, epoch: BrokerEpoch, now: Time) {
        self.last_contact.insert((broker, epoch), now);
    }

    pub fn remove(&mut self, broker: BrokerId) {
        self.last_contact.retain(|(id, _), _| *id != broker);
    }

    /// Heard of within the session timeout, under this epoch.
    pub fn is_valid(&self, broker: BrokerId, epoch: BrokerEpoch, now: Time, session_timeout_ms: i64) -> bool {
        let contact = self.last_contact.get(&(broker, epoch));
        contact.is_some_and(|contact| now <= contact.plus_ms(session_timeout_ms))
    }

    /// A broker whose session is over, with its silence in milliseconds.
    pub fn take_expired(&mut self, now: Time, session_timeout_ms: i64) -> Option<(BrokerId, i64)> {
        let expired = |contact: Time| contact.plus_ms(session_timeout_ms) < now;
        let ((broker, epoch), contact) = self.last_contact.iter().find(|(_, contact)| expired(**contact))?;
        let (key, silent_ms) = ((*broker, *epoch), now.ms_since(*contact));
        self.last_contact.remove(&key);
        Some((key.0, silent_ms))
    }

    pub fn last_contact(&self, broker: BrokerId) -> Option<Time> {
        self.last_contact.iter().find(|((id, _), _)| *id == broker).map(|(_, contact)| *contact)
    }
}

/// The records of a decision, in order, each with what to say about it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub records: Vec<MetadataRecord>,
    pub cause: Cause,
    /// What the whole of it is, if it has a name.
    pub headline: Option<Event>,
}

impl Plan {
    fn new(reason: ChangeReason) -> Plan {
        Plan { cause: Cause::new(reason), ..Plan::default() }
    }
}

/// R-REPL-57: a live session under another incarnation keeps its place.
pub fn register(
    request: &BrokerRegistrationRequest,
    image: &ClusterImage,
    sessions: &mut Sessions,
    now: Time,
    session_timeout_ms: i64,
) -> Result<(Plan, BrokerEpoch), ErrorCode> {
    let broker = BrokerId(request.broker_id.0);
    let existing = image.brokers.get(&broker);
    let same_incarnation = existing.is_some_and(|known| known.incarnation == request.incarnation_id);
    if let Some(known) = existing
        && !same_incarnation
        && sessions.is_valid(broker, known.epoch, now, session_timeout_ms)
    {
        return Err(ErrorCode::DuplicateBrokerRegistration);
    }
    let mut plan = Plan::new(ChangeReason::UncleanShutdown);
    if !same_incarnation {
        let clean = existing.is_some_and(|known| known.epoch.0 == request.previous_broker_epoch);
        clean_up_previous_incarnation(broker, clean, image, &mut plan);
        sessions.remove(broker);
    }
    // The epoch is where this write begins: the offset of the registration record, unless an earlier life is cleaned up
    // before it (R-REPL-51, 56).
    let new_epoch = BrokerEpoch(image.next_offset.0);
    let epoch = existing.filter(|_| same_incarnation).map_or(new_epoch, |known| known.epoch);
    plan.records.push(MetadataRecord::RegisterBroker(RegisterBroker {
        broker,
        incarnation: request.incarnation_id,
        epoch,
        rack: request.rack.as_ref().map(|rack| rack.to_string()),
        fenced: existing.filter(|_| same_incarnation).is_none_or(|known| known.fenced),
        in_controlled_shutdown: existing
            .filter(|_| same_incarnation)
            .is_some_and(|known| known.in_controlled_shutdown),
    }));
    Ok((plan, epoch))
}

/// R-REPL-56: what a broker that stopped without warning still has on disk cannot be trusted.
fn clean_up_previous_incarnation(broker: BrokerId, clean: bool, image: &ClusterImage, plan: &mut Plan) {
    let unclean = image.elr_enabled() && !clean;
    for tp in partitions_with_in_isr(image, broker) {
        let change = super::topics::change_without(image, &tp, broker, unclean);
        plan.records.extend(change.map(MetadataRecord::PartitionChange));
    }
    if unclean {
        for tp in partitions_with_in_elr(image, broker) {
            let change = super::topics::change_without(image, &tp, broker, true);
            plan.records.extend(change.map(MetadataRecord::PartitionChange));
        }
    }
}

/// What a heartbeat leads to: fenced brokers that caught up are unfenced (R-REPL-51, 54).
pub fn heartbeat(
    request: &BrokerHeartbeatRequest,
    image: &ClusterImage,
    sessions: &mut Sessions,
    now: Time,
) -> Result<(Plan, BrokerHeartbeatResponse), ErrorCode> {
    let broker = BrokerId(request.broker_id.0);
    let epoch = BrokerEpoch(request.broker_epoch);
    let known = check_epoch(image, broker, epoch)?;
    let caught_up = request.current_metadata_offset >= known.registered_at.0;
    let mut plan = Plan::default();
    let fenced = if known.fenced { request.want_fence || !caught_up } else { request.want_fence };
    if known.fenced && !fenced {
        plan = unfence(image, broker);
    } else if !known.fenced && fenced {
        plan = fence(image, broker);
    }
    if fenced {
        sessions.remove(broker);
    } else {
        sessions.touch(broker, epoch, now);
    }
    let response = BrokerHeartbeatResponse::default().with_is_caught_up(caught_up).with_is_fenced(fenced);
    Ok((plan, response))
}

/// R-REPL-57.
pub fn check_epoch(
    image: &ClusterImage,
    broker: BrokerId,
    epoch: BrokerEpoch,
) -> Result<&super::image::BrokerRegistration, ErrorCode> {
    image.brokers.get(&broker).filter(|known| known.epoch == epoch).ok_or(ErrorCode::StaleBrokerEpoch)
}

/// R-REPL-52: out of every in-sync set first, then fenced, in one write.
pub fn fence(image: &ClusterImage, broker: BrokerId) -> Plan {
    let mut plan = Plan::new(ChangeReason::BrokerFenced);
    for tp in partitions_with_in_isr(image, broker) {
        let change = super::topics::change_without(image, &tp, broker, false);
        plan.records.extend(change.map(MetadataRecord::PartitionChange));
    }
    plan.records.extend(registration_change(image, broker, true));
    plan
}

/// R-REPL-49: partitions without a leader get another chance when a broker comes back.
fn unfence(image: &ClusterImage, broker: BrokerId) -> Plan {
    let mut plan = Plan::new(ChangeReason::BrokerUnfenced);
    plan.records.extend(registration_change(image, broker, false));
    for tp in partitions_led_by_nobody(image) {
        let change = super::topics::change_with_back(image, &tp, broker);
        plan.records.extend(change.map(MetadataRecord::PartitionChange));
    }
    plan
}

fn registration_change(image: &ClusterImage, broker: BrokerId, fenced: bool) -> Option<MetadataRecord> {
    let epoch = image.brokers.get(&broker)?.epoch;
    let change =
        BrokerRegistrationChange { broker, epoch, fenced: Some(fenced), in_controlled_shutdown: false };
    Some(MetadataRecord::BrokerRegistrationChange(change))
}

pub fn registration_response(result: &Result<BrokerEpoch, ErrorCode>) -> BrokerRegistrationResponse {
    match result {
        Ok(epoch) => BrokerRegistrationResponse::default().with_broker_epoch(epoch.0),
        Err(error) => {
            BrokerRegistrationResponse::default().with_error_code(error.code()).with_broker_epoch(-1)
        }
    }
}
