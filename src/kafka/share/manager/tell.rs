//! What the manager tells of share partitions, for whoever watches.
//!
//! **Invariant:** told in the step in which it happens.

use super::super::partition::{Acknowledgement, Acquired, SharePartition, StateWrite};
use super::super::range::OffsetRange;
use super::super::state::{AcknowledgeType, RecordState, StateBatch};
use super::{Ground, ManagerEffects, ShareKey, Slot};
use crate::kafka::event::{Event, ShareChange, ShareEvent, ShareOutcome};
use crate::kafka::types::{MemberId, Offset};

/// Why records came back.
#[derive(Clone, Copy)]
pub(super) enum Back<'a> {
    Of(&'a MemberId),
    ByLocks { fenced: bool },
}

impl ManagerEffects {
    pub(super) fn tell_begun(
        &mut self,
        key: &ShareKey,
        slot: &Slot,
        partition: &SharePartition,
        ground: &Ground<'_>,
    ) {
        self.tell(ShareEvent::Begun {
            broker: ground.broker,
            group: key.group.clone(),
            tp: slot.tp.clone(),
            leader_epoch: slot.leader_epoch,
            start_offset: partition.start_offset(),
        });
    }

    pub(super) fn tell_acquired(
        &mut self,
        key: &ShareKey,
        slot: &Slot,
        member: &MemberId,
        acquired: &[Acquired],
        ground: &Ground<'_>,
    ) {
        if !acquired.is_empty() {
            self.tell(ShareEvent::Acquired {
                broker: ground.broker,
                group: key.group.clone(),
                tp: slot.tp.clone(),
                member: member.clone(),
                records: acquired.iter().map(|acquired| (acquired.range, acquired.delivery_count)).collect(),
            });
        }
    }

    pub(super) fn tell_acknowledged(
        &mut self,
        key: &ShareKey,
        slot: &Slot,
        member: &MemberId,
        changes: Vec<ShareChange>,
        ground: &Ground<'_>,
    ) {
        if !changes.is_empty() {
            let (group, tp, member) = (key.group.clone(), slot.tp.clone(), member.clone());
            self.tell(ShareEvent::Acknowledged { broker: ground.broker, group, tp, member, changes });
        }
    }

    /// What a member that is gone had held, or what nobody said anything of in time.
    pub(super) fn tell_released<'a>(
        &mut self,
        key: &ShareKey,
        slot: &Slot,
        back: Back<'_>,
        writes: impl IntoIterator<Item = &'a StateWrite>,
        ground: &Ground<'_>,
    ) {
        let batches = writes.into_iter().flat_map(|write| &write.batches);
        let changes: Vec<ShareChange> = joined(batches.map(|batch| change(batch, AcknowledgeType::Release)));
        if changes.is_empty() {
            return;
        }
        let (broker, group, tp) = (ground.broker, key.group.clone(), slot.tp.clone());
        self.tell(match back {
            Back::Of(member) => ShareEvent::GivenBack { broker, group, tp, member: member.clone(), changes },
            Back::ByLocks { fenced } => ShareEvent::LocksEnded { broker, group, tp, changes, fenced },
        });
    }

    /// If everything below another offset than `from` is done by now.
    pub(super) fn tell_start(
        &mut self,
        key: &ShareKey,
        slot: &Slot,
        from: Option<Offset>,
        ground: &Ground<'_>,
    ) {
        if let Some(from) = from
            && let Some(to) = slot.start_offset().filter(|to| *to > from)
        {
            let (broker, group, tp) = (ground.broker, key.group.clone(), slot.tp.clone());
            self.tell(ShareEvent::StartMoved { broker, group, tp, from, to });
        }
    }

    fn tell(&mut self, event: ShareEvent) {
        self.effects.event(Event::Share(event));
    }
}

/// What becomes of records by what was said of them, renewals included, which are not written.
pub(super) fn changes(
    said: &[Acknowledgement],
    write: Option<&StateWrite>,
    partition: &SharePartition,
) -> Vec<ShareChange> {
    let kind_of = |offset: Offset| {
        let of = said.iter().find(|said| said.range.first <= offset && offset <= said.range.last);
        of.and_then(|said| said.kind_of(offset).ok()).unwrap_or(AcknowledgeType::Gap)
    };
    let written = write.into_iter().flat_map(|write| &write.batches);
    let written = written.map(|batch| change(batch, kind_of(batch.range.first)));
    let renewed = said.iter().filter(|said| said.types.contains(&AcknowledgeType::Renew)).flat_map(|said| {
        let parts = partition
            .in_flight()
            .flat_map(|(range, state)| range.offsets().map(move |offset| (offset, state.delivery_count())));
        let within = parts.filter(|(offset, _)| said.range.first <= *offset && *offset <= said.range.last);
        let renewed = within.filter(|(offset, _)| said.kind_of(*offset) == Ok(AcknowledgeType::Renew));
        renewed.map(|(offset, delivery_count)| ShareChange {
            range: OffsetRange::one(offset),
            outcome: ShareOutcome::Renewed,
            delivery_count,
        })
    });
    joined(written.chain(renewed))
}

fn change(batch: &StateBatch, said: AcknowledgeType) -> ShareChange {
    let outcome = match batch.state {
        RecordState::Acknowledged => ShareOutcome::Accepted,
        RecordState::Archived if said == AcknowledgeType::Release => ShareOutcome::Worn,
        RecordState::Archived => ShareOutcome::Rejected,
        RecordState::Available | RecordState::Acquired => ShareOutcome::Available,
    };
    ShareChange { range: batch.range, outcome, delivery_count: batch.delivery_count }
}

/// Neighbours with which the same has happened are one.
fn joined(changes: impl Iterator<Item = ShareChange>) -> Vec<ShareChange> {
    let mut joined: Vec<ShareChange> = Vec::new();
    for change in changes {
        match joined.last_mut() {
            Some(last)
                if last.range.last + 1 == change.range.first
                    && (last.outcome, last.delivery_count) == (change.outcome, change.delivery_count) =>
            {
                last.range.last = change.range.last;
            }
            _ => joined.push(change),
        }
    }
    joined
}
