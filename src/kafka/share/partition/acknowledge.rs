//! Members say what became of records, or go and give them back (R-SHARE-6, 14, `acknowledge`,
//! `releaseAcquiredRecords`).

use super::super::range::OffsetRange;
use super::super::state::{AcknowledgeType, InFlight, Lock, RecordState, StateBatch, WriteId};
use super::batch::InFlightBatch;
use super::{SharePartition, ShareSettings, StateWrite};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{MemberId, Offset};

/// What a member says of a range of offsets: one type for all, or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    pub range: OffsetRange,
    pub types: Vec<AcknowledgeType>,
}

impl Acknowledgement {
    /// What is said of `offset`. An offset without a type is a request that nobody may send.
    pub fn kind_of(&self, offset: Offset) -> Result<AcknowledgeType, ErrorCode> {
        let place = if self.types.len() == 1 { 0 } else { offset - self.range.first };
        let kind = usize::try_from(place).ok().and_then(|place| self.types.get(place));
        kind.copied().ok_or(ErrorCode::InvalidRequest)
    }
}

/// Who acknowledges, and for which write.
struct Answer<'a> {
    member: &'a MemberId,
    write: WriteId,
    settings: &'a ShareSettings,
    lock_ends: Time,
}

impl SharePartition {
    /// All of it or nothing, except that renewals before what is wrong stay. Nothing is to be written if there are only
    /// renewals, or all is below the start.
    ///
    /// # Errors
    ///
    /// INVALID_RECORD_STATE for what the member does not hold; INVALID_REQUEST for offsets that were never handed out.
    pub fn acknowledge(
        &mut self,
        member: &MemberId,
        acknowledgements: &[Acknowledgement],
        settings: &ShareSettings,
        now: Time,
    ) -> Result<Option<StateWrite>, ErrorCode> {
        let lock_ends = now.plus_ms(settings.record_lock_duration_ms);
        let answer = Answer { member, write: self.take_write_id(), settings, lock_ends };
        let mut changes = Vec::new();
        for acknowledgement in acknowledgements {
            if acknowledgement.range.last < self.start_offset {
                continue;
            }
            let keys = self.keys_acknowledged(acknowledgement.range);
            let result = keys.and_then(|keys| self.answer_all(&answer, acknowledgement, keys, &mut changes));
            if let Err(error) = result {
                self.finish(answer.write, &changes, false);
                return Err(error);
            }
        }
        Ok(self.persist(answer.write, changes))
    }

    /// A member that goes, or lost its session, gives back what it holds; the delivery counts stay (R-SHARE-14).
    pub fn release_member(&mut self, member: &MemberId, settings: &ShareSettings) -> Option<StateWrite> {
        let write = self.take_write_id();
        let start = self.start_offset;
        let limit = settings.delivery_count_limit;
        let mut changes = Vec::new();
        for batch in self.batches.values_mut() {
            if !batch.parts().any(|(_, state)| is_held_by(state, member)) {
                continue;
            }
            if batch.range.is_cut_by(start) && batch.is_acquired() {
                batch.split();
            }
            for (range, state) in batch.parts_mut().filter(|(_, state)| is_held_by(state, member)) {
                let is_below = range.last < start;
                let next = if is_below { RecordState::Archived } else { RecordState::Available };
                if state.start_change(next, limit, write) {
                    changes.push(as_persisted(range, state));
                }
            }
        }
        self.count_final(&changes);
        self.persist(write, changes)
    }

    fn persist(&mut self, id: WriteId, changes: Vec<StateBatch>) -> Option<StateWrite> {
        if changes.is_empty() {
            return None;
        }
        let write = StateWrite { id, ..self.write(changes.clone()) };
        self.writes.insert(id, changes);
        Some(write)
    }

    fn count_final(&mut self, changes: &[StateBatch]) {
        let done = changes.iter().filter(|change| change.state.is_final());
        let records = done.map(|change| change.range.count_from(self.start_offset)).sum();
        self.count_complete(records);
    }

    /// The batches in flight that an acknowledgement is about (`fetchSubMapForAcknowledgementBatch`).
    fn keys_acknowledged(&self, range: OffsetRange) -> Result<Vec<Offset>, ErrorCode> {
        let floor = match self.floor(range.first) {
            None if range.is_cut_by(self.start_offset) => self.floor(self.start_offset),
            floor => floor,
        };
        let from = floor.ok_or(ErrorCode::InvalidRecordState)?.range.first;
        let keys = self.keys_in(from, range.last);
        let end = keys.last().map(|key| self.batches[key].range.last);
        if end.is_none_or(|end| end < range.last) {
            return Err(ErrorCode::InvalidRequest);
        }
        Ok(keys)
    }

    fn answer_all(
        &mut self,
        answer: &Answer<'_>,
        acknowledgement: &Acknowledgement,
        keys: Vec<Offset>,
        changes: &mut Vec<StateBatch>,
    ) -> Result<(), ErrorCode> {
        let start = self.start_offset;
        for key in keys {
            let batch = self.batches.get_mut(&key).expect("its key was found");
            if batch.range.last < start {
                continue;
            }
            let done = changes.len();
            let result = answer_batch(answer, acknowledgement, batch, start, changes);
            self.count_final(&changes[done..]);
            result?;
        }
        Ok(())
    }
}

/// What an acknowledgement says of one batch in flight. What is changed before an error is in `changes`.
fn answer_batch(
    answer: &Answer<'_>,
    acknowledgement: &Acknowledgement,
    batch: &mut InFlightBatch,
    start: Offset,
    changes: &mut Vec<StateBatch>,
) -> Result<(), ErrorCode> {
    if let Some(state) = batch.as_whole() {
        check_held(state, answer.member)?;
        let is_whole = batch.range.is_within(acknowledgement.range)
            && acknowledgement.types.len() == 1
            && !batch.range.is_cut_by(start);
        if !is_whole {
            batch.split();
        }
    }
    let is_meant = |range: OffsetRange| {
        range.first >= start.max(acknowledgement.range.first) && range.last <= acknowledgement.range.last
    };
    for (range, state) in batch.parts_mut().filter(|(range, _)| is_meant(*range)) {
        check_held(state, answer.member)?;
        match acknowledgement.kind_of(range.first)?.outcome() {
            None if !answer.settings.is_renewal_enabled => return Err(ErrorCode::InvalidRecordState),
            None => state.lock = Some(Lock { ends: answer.lock_ends, is_over: false }),
            Some(next) => {
                if !state.start_change(next, answer.settings.delivery_count_limit, answer.write) {
                    return Err(ErrorCode::InvalidRecordState);
                }
                changes.push(as_persisted(range, state));
            }
        }
    }
    Ok(())
}

fn check_held(state: &InFlight, member: &MemberId) -> Result<(), ErrorCode> {
    let is_held = is_held_by(state, member) && !state.is_changing();
    if is_held { Ok(()) } else { Err(ErrorCode::InvalidRecordState) }
}

fn is_held_by(state: &InFlight, member: &MemberId) -> bool {
    state.state() == RecordState::Acquired && state.holder() == Some(member)
}

fn as_persisted(range: OffsetRange, state: &InFlight) -> StateBatch {
    StateBatch { range, state: state.state(), delivery_count: state.delivery_count() }
}
