//! RegisterBrokerRecord and BrokerRegistrationChangeRecord.

use uuid::Uuid;

use super::log_directory;
use crate::kafka::protocol::listener::{PORT, host};
use crate::kafka::protocol::wire::{Reader, WireError, Writer};
use crate::kafka::types::{BrokerEpoch, BrokerId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterBroker {
    pub broker: BrokerId,
    pub incarnation: Uuid,
    pub epoch: BrokerEpoch,
    pub rack: Option<String>,
    pub fenced: bool,
    pub in_controlled_shutdown: bool,
}

/// Fields that are `None` did not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistrationChange {
    pub broker: BrokerId,
    pub epoch: BrokerEpoch,
    pub fenced: Option<bool>,
    pub in_controlled_shutdown: bool,
}

pub(super) fn encode_registration(w: &mut Writer, record: &RegisterBroker) {
    w.i32(record.broker.0);
    w.bool(false);
    w.uuid(record.incarnation);
    w.i64(record.epoch.0);
    w.compact_array(&[record.broker], |w, broker| {
        w.compact_string("PLAINTEXT");
        w.compact_string(&host(*broker));
        w.u16(PORT);
        w.i16(0);
        w.tags(&[]);
    });
    w.compact_array::<()>(&[], |_, _| {});
    w.compact_nullable_string(record.rack.as_deref());
    w.bool(record.fenced);
    w.bool(record.in_controlled_shutdown);
    w.tags(&[Writer::tagged(0, |w| w.compact_array(&[log_directory()], |w, id| w.uuid(*id)))]);
}

pub(super) fn decode_registration(r: &mut Reader<'_>) -> Result<RegisterBroker, WireError> {
    let broker = BrokerId(r.i32()?);
    r.bool()?;
    let incarnation = r.uuid()?;
    let epoch = BrokerEpoch(r.i64()?);
    r.compact_array(|r| {
        r.compact_string()?;
        r.compact_string()?;
        r.u16()?;
        r.i16()?;
        r.tags()
    })?;
    r.compact_array(|_| Ok(()))?;
    let rack = r.compact_nullable_string()?.map(|rack| rack.to_string());
    let (fenced, in_controlled_shutdown) = (r.bool()?, r.bool()?);
    r.tags()?;
    Ok(RegisterBroker { broker, incarnation, epoch, rack, fenced, in_controlled_shutdown })
}

pub(super) fn encode_registration_change(w: &mut Writer, record: &BrokerRegistrationChange) {
    w.i32(record.broker.0);
    w.i64(record.epoch.0);
    let mut tags = Vec::new();
    if let Some(fenced) = record.fenced {
        tags.push(Writer::tagged(0, |w| w.i8(if fenced { 1 } else { -1 })));
    }
    if record.in_controlled_shutdown {
        tags.push(Writer::tagged(1, |w| w.i8(1)));
    }
    w.tags(&tags);
}

pub(super) fn decode_registration_change(r: &mut Reader<'_>) -> Result<BrokerRegistrationChange, WireError> {
    let (broker, epoch) = (BrokerId(r.i32()?), BrokerEpoch(r.i64()?));
    let mut change = BrokerRegistrationChange { broker, epoch, fenced: None, in_controlled_shutdown: false };
    for (tag, mut field) in r.tags()? {
        let value = field.i8()?;
        match tag {
            0 if value != 0 => change.fenced = Some(value > 0),
            1 => change.in_controlled_shutdown = value > 0,
            _ => {}
        }
    }
    Ok(change)
}
