//! Brokers as the controller knows them: registration, heartbeats, sessions, fencing.
//!
//! Mirrors `ClusterControlManager` and `BrokerHeartbeatManager` (R-REPL-51 to 57).

use std::collections::BTreeMap;

use kafka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse,
};

use super::image::ClusterImage;
use super::partitions::{Basis, Shift};
use super::topics::Cause;
use crate::kafka::event::{ChangeReason, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::metadata_records::{BrokerRegistrationChange, MetadataRecord, RegisterBroker};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, Offset};

/// What the controller knows of each unfenced broker by its heartbeats (`BrokerHeartbeatManager`). It is not in the log: a
/// controller that takes over starts anew.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    brokers: BTreeMap<(BrokerId, BrokerEpoch), Session>,
}

#[derive(Clone, Debug)]
struct Session {
    last_contact: Time,
    /// How far it had replayed the metadata log.
    metadata_offset: Offset,
    /// Where the write ended that began its controlled shutdown.
    shutdown_offset: Option<Offset>,
}

impl Sessions {
    pub fn touch(&mut self, broker: BrokerId, epoch: BrokerEpoch, now: Time, metadata_offset: Offset) {
        let shutdown_offset = self.brokers.get(&(broker, epoch)).and_then(|session| session.shutdown_offset);
        let session = Session { last_contact: now, metadata_offset, shutdown_offset };
        self.brokers.insert((broker, epoch), session);
    }

    /// The broker's controlled shutdown has begun with a write that ended at `offset`.
    pub fn begin_shutdown(&mut self, broker: BrokerId, epoch: BrokerEpoch, offset: Offset) {
        if let Some(session) = self.brokers.get_mut(&(broker, epoch)) {
            session.shutdown_offset.get_or_insert(offset);
        }
    }

    /// Where the write ended that began a broker's controlled shutdown, while that lasts.
    pub fn shutdown_offset(&self, broker: BrokerId, epoch: BrokerEpoch) -> Option<Offset> {
        self.brokers.get(&(broker, epoch)).and_then(|session| session.shutdown_offset)
    }

    /// Whether every broker that is neither fenced nor stopping has replayed the log up to `offset`.
    fn all_have(&self, offset: Offset) -> bool {
        let mut active = self.brokers.values().filter(|session| session.shutdown_offset.is_none());
        active.all(|session| session.metadata_offset >= offset)
    }

    pub fn remove(&mut self, broker: BrokerId) {
        self.brokers.retain(|(id, _), _| *id != broker);
    }

    /// Heard of within the session timeout, under this epoch.
    pub fn is_valid(&self, broker: BrokerId, epoch: BrokerEpoch, now: Time, session_timeout_ms: i64) -> bool {
        let session = self.brokers.get(&(broker, epoch));
        session.is_some_and(|session| now <= session.last_contact.plus_ms(session_timeout_ms))
    }

    /// A broker whose session is over, with its silence in milliseconds.
    pub fn take_expired(&mut self, now: Time, session_timeout_ms: i64) -> Option<(BrokerId, i64)> {
        let expired = |session: &Session| session.last_contact.plus_ms(session_timeout_ms) < now;
        let (key, session) = self.brokers.iter().find(|(_, session)| expired(session))?;
        let (key, silent_ms) = (*key, now.ms_since(session.last_contact));
        self.brokers.remove(&key);
        Some((key.0, silent_ms))
    }

    pub fn last_contact(&self, broker: BrokerId) -> Option<Time> {
        self.brokers.iter().find(|((id, _), _)| *id == broker).map(|(_, session)| session.last_contact)
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
    pub fn new(reason: ChangeReason) -> Plan {
        Plan { cause: Cause::new(reason), ..Plan::default() }
    }
}

/// R-REPL-57: a live session under another incarnation keeps its place.
pub fn register(
    request: &BrokerRegistrationRequest,
    basis: Basis<'_>,
    sessions: &mut Sessions,
    now: Time,
) -> Result<(Plan, BrokerEpoch), ErrorCode> {
    let broker = BrokerId(request.broker_id.0);
    let existing = basis.image.brokers.get(&broker);
    let same_incarnation = existing.is_some_and(|known| known.incarnation == request.incarnation_id);
    if let Some(known) = existing
        && !same_incarnation
        && sessions.is_valid(broker, known.epoch, now, basis.config.session_timeout_ms)
    {
        return Err(ErrorCode::DuplicateBrokerRegistration);
    }
    let mut plan = Plan::new(ChangeReason::UncleanShutdown);
    if !same_incarnation {
        let clean = existing.is_some_and(|known| known.epoch.0 == request.previous_broker_epoch);
        plan.records.extend(stopped(broker, clean, basis));
        sessions.remove(broker);
    }
    // The epoch is where this write begins: the offset of the registration record, unless an earlier life is cleaned up
    // before it (R-REPL-51, 56).
    let new_epoch = BrokerEpoch(basis.image.next_offset.0);
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

/// R-REPL-56: a broker that comes back is in no in-sync set; what one that stopped without warning still has on disk
/// cannot be trusted either.
pub fn stopped(broker: BrokerId, clean: bool, basis: Basis<'_>) -> Vec<MetadataRecord> {
    if basis.image.elr_enabled() && !clean {
        let mut records = basis.shifted(Shift::StoppedUncleanly(broker), basis.in_isr_of(broker));
        records.extend(basis.shifted(Shift::StoppedUncleanly(broker), basis.in_elr_of(broker)));
        records
    } else {
        basis.shifted(Shift::Leaves(broker), basis.in_isr_of(broker))
    }
}

/// How a broker stands with the controller (`BrokerControlState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Fenced,
    Unfenced,
    ControlledShutdown,
    /// Fenced, and told to end its process.
    ShutdownNow,
}

impl Standing {
    fn is_fenced(self) -> bool {
        matches!(self, Standing::Fenced | Standing::ShutdownNow)
    }
}

/// What a heartbeat says, and what the controller knows of its sender.
#[derive(Clone, Copy)]
struct Wish {
    want_fence: bool,
    want_shut_down: bool,
    caught_up: bool,
    leads_any: bool,
    /// Every other broker knows who leads instead.
    others_know: bool,
}

/// R-REPL-54.
fn next_standing(current: Standing, wish: Wish) -> Standing {
    match current {
        Standing::Fenced if wish.want_shut_down => Standing::ShutdownNow,
        Standing::Fenced if !wish.want_fence && wish.caught_up => Standing::Unfenced,
        Standing::Fenced => Standing::Fenced,
        Standing::Unfenced if wish.want_fence && wish.want_shut_down => Standing::ShutdownNow,
        Standing::Unfenced if wish.want_fence => Standing::Fenced,
        Standing::Unfenced if wish.want_shut_down && wish.leads_any => Standing::ControlledShutdown,
        Standing::Unfenced if wish.want_shut_down => Standing::ShutdownNow,
        Standing::Unfenced => Standing::Unfenced,
        Standing::ControlledShutdown if wish.leads_any || !wish.others_know => Standing::ControlledShutdown,
        Standing::ControlledShutdown | Standing::ShutdownNow => Standing::ShutdownNow,
    }
}

/// What a heartbeat leads to: fenced brokers that caught up are unfenced, those that want to stop are relieved of their
/// leaderships and then let go (R-REPL-51, 54, 55).
pub fn heartbeat(
    request: &BrokerHeartbeatRequest,
    basis: Basis<'_>,
    sessions: &mut Sessions,
    now: Time,
) -> Result<(Plan, Standing, BrokerHeartbeatResponse), ErrorCode> {
    let broker = BrokerId(request.broker_id.0);
    let epoch = BrokerEpoch(request.broker_epoch);
    let known = check_epoch(basis.image, broker, epoch)?;
    let caught_up = request.current_metadata_offset >= known.registered_at.0;
    let shutdown_offset = sessions.shutdown_offset(broker, epoch);
    let current = match shutdown_offset {
        Some(_) => Standing::ControlledShutdown,
        None if known.fenced => Standing::Fenced,
        None => Standing::Unfenced,
    };
    let wish = Wish {
        want_fence: request.want_fence,
        want_shut_down: request.want_shut_down,
        caught_up,
        leads_any: (request.want_shut_down || shutdown_offset.is_some()) && basis.leads_any(broker),
        others_know: shutdown_offset.is_some_and(|offset| sessions.all_have(offset)),
    };
    let next = next_standing(current, wish);
    let plan = match next {
        next if next == current => Plan::default(),
        Standing::Fenced => fence(broker, ChangeReason::BrokerFenced, basis),
        Standing::ShutdownNow => {
            let headline = Some(Event::ShutdownGranted { broker });
            Plan { headline, ..fence(broker, ChangeReason::ControlledShutdown, basis) }
        }
        Standing::Unfenced => unfence(broker, basis),
        Standing::ControlledShutdown => begin_controlled_shutdown(broker, basis),
    };
    if next.is_fenced() {
        sessions.remove(broker);
    } else {
        sessions.touch(broker, epoch, now, Offset(request.current_metadata_offset));
    }
    let response = BrokerHeartbeatResponse::default()
        .with_is_caught_up(caught_up)
        .with_is_fenced(next.is_fenced())
        .with_should_shut_down(next == Standing::ShutdownNow);
    Ok((plan, next, response))
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
pub fn fence(broker: BrokerId, reason: ChangeReason, basis: Basis<'_>) -> Plan {
    let mut records = basis.shifted(Shift::Leaves(broker), basis.in_isr_of(broker));
    records.extend(registration_change(basis, broker, Some(true), false));
    Plan { records, ..Plan::new(reason) }
}

/// R-REPL-49: partitions without a leader get another chance when a broker comes back.
pub fn unfence(broker: BrokerId, basis: Basis<'_>) -> Plan {
    let mut records: Vec<MetadataRecord> =
        registration_change(basis, broker, Some(false), false).into_iter().collect();
    records.extend(basis.shifted(Shift::Returns(broker), basis.without_leader()));
    Plan { records, ..Plan::new(ChangeReason::BrokerUnfenced) }
}

/// R-REPL-55: as with fencing, but the broker still runs and knows of it.
pub fn begin_controlled_shutdown(broker: BrokerId, basis: Basis<'_>) -> Plan {
    let known = basis.image.brokers.get(&broker);
    let mut records = Vec::new();
    if known.is_some_and(|known| !known.in_controlled_shutdown) {
        records.extend(registration_change(basis, broker, None, true));
    }
    records.extend(basis.shifted(Shift::Leaves(broker), basis.in_isr_of(broker)));
    Plan { records, ..Plan::new(ChangeReason::ControlledShutdown) }
}

fn registration_change(
    basis: Basis<'_>,
    broker: BrokerId,
    fenced: Option<bool>,
    in_controlled_shutdown: bool,
) -> Option<MetadataRecord> {
    let epoch = basis.image.brokers.get(&broker)?.epoch;
    let change = BrokerRegistrationChange { broker, epoch, fenced, in_controlled_shutdown };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(title: &str, current: Standing, wish: Wish, expected: Standing) {
        assert_eq!(next_standing(current, wish), expected, "{title} (R-REPL-54)");
    }

    /// R-REPL-54, R-REPL-51.
    #[test]
    fn a_heartbeat_moves_a_broker_from_standing_to_standing() {
        use Standing::{ControlledShutdown, Fenced, ShutdownNow, Unfenced};
        let wish = Wish {
            want_fence: false,
            want_shut_down: false,
            caught_up: true,
            leads_any: true,
            others_know: true,
        };
        let stop = Wish { want_shut_down: true, ..wish };
        check("fenced and caught up", Fenced, wish, Unfenced);
        check("fenced and behind", Fenced, Wish { caught_up: false, ..wish }, Fenced);
        check("fenced and not ready", Fenced, Wish { want_fence: true, ..wish }, Fenced);
        check("fenced and about to stop", Fenced, stop, ShutdownNow);
        check("all is well", Unfenced, wish, Unfenced);
        check("wants to be fenced", Unfenced, Wish { want_fence: true, ..wish }, Fenced);
        check("wants to stop and leads", Unfenced, stop, ControlledShutdown);
        check("wants to stop and leads nothing", Unfenced, Wish { leads_any: false, ..stop }, ShutdownNow);
        check("still leads", ControlledShutdown, stop, ControlledShutdown);
        let behind = Wish { leads_any: false, others_know: false, ..stop };
        check("others still ask it", ControlledShutdown, behind, ControlledShutdown);
        check("nobody needs it", ControlledShutdown, Wish { leads_any: false, ..stop }, ShutdownNow);
    }
}
