//! The state of a record, or of a batch of them, while a share group has it in flight (R-SHARE-5, `InFlightState`).
//!
//! **Invariant:** acknowledged and archived are final; a state that is being persisted is not changed until the outcome
//! is known.

use super::range::OffsetRange;
use crate::kafka::plant::{self, Plant};
use crate::kafka::time::Time;
use crate::kafka::types::MemberId;

/// `RecordState`; the numbers are those that are persisted. 3 (archiving) belongs to `share.version` 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum RecordState {
    Available = 0,
    Acquired = 1,
    Acknowledged = 2,
    Archived = 4,
}

impl RecordState {
    pub fn id(self) -> i8 {
        self as i8
    }

    pub fn from_id(id: i8) -> Option<RecordState> {
        use RecordState::*;
        [Available, Acquired, Acknowledged, Archived].into_iter().find(|state| state.id() == id)
    }

    /// Whether nothing more happens to the record.
    pub fn is_final(self) -> bool {
        matches!(self, RecordState::Acknowledged | RecordState::Archived)
    }

    /// `validateTransition`.
    fn may_become(self, next: RecordState) -> bool {
        match self {
            RecordState::Available => next == RecordState::Acquired,
            RecordState::Acquired => next != RecordState::Acquired,
            RecordState::Acknowledged | RecordState::Archived => false,
        }
    }
}

/// What a member says of a record (R-SHARE-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum AcknowledgeType {
    /// There is no record at this offset, or none that an application sees.
    Gap = 0,
    Accept = 1,
    Release = 2,
    Reject = 3,
    /// The lock starts anew.
    Renew = 4,
}

impl AcknowledgeType {
    pub fn id(self) -> i8 {
        self as i8
    }

    pub fn from_id(id: i8) -> Option<AcknowledgeType> {
        use AcknowledgeType::*;
        [Gap, Accept, Release, Reject, Renew].into_iter().find(|kind| kind.id() == id)
    }

    /// What becomes of the record; nothing for a renewal.
    pub(super) fn outcome(self) -> Option<RecordState> {
        match self {
            AcknowledgeType::Accept => Some(RecordState::Acknowledged),
            AcknowledgeType::Release => Some(RecordState::Available),
            AcknowledgeType::Gap | AcknowledgeType::Reject => Some(RecordState::Archived),
            AcknowledgeType::Renew => None,
        }
    }
}

/// One state for all offsets of a range, as it is persisted (`PersisterStateBatch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBatch {
    pub range: OffsetRange,
    pub state: RecordState,
    pub delivery_count: i16,
}

/// The acquisition lock (R-SHARE-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub ends: Time,
    /// It ended while the outcome of a write was awaited.
    pub is_over: bool,
}

/// A record has a lock from before it was given back, so that whoever is handed it fails
/// (`updateAcquisitionLockTimeoutTask`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lock from before is in the way")]
pub struct LockClash;

/// Which write's outcome a state waits for. Numbers are never used again within a share partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(pub(super) u64);

/// What a state was before the change that is being persisted (`RollbackState`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    write: WriteId,
    state: RecordState,
    holder: Option<MemberId>,
    delivery_count_limit: i16,
}

/// A state with what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    pub(super) state: RecordState,
    pub(super) delivery_count: i16,
    /// Who has it, while it is acquired.
    pub(super) holder: Option<MemberId>,
    pub(super) lock: Option<Lock>,
    /// When a lock ends that an old one was in the way of. It frees whoever has the record by then.
    pub(super) stray: Option<Time>,
    change: Option<Change>,
    /// Archived for good, whatever comes of a write.
    is_swept: bool,
}

impl InFlight {
    pub(super) fn new(state: RecordState, delivery_count: i16) -> InFlight {
        let (holder, lock, stray, change) = (None, None, None, None);
        InFlight { state, delivery_count, holder, lock, stray, change, is_swept: false }
    }

    pub(super) fn acquired(member: &MemberId, lock_ends: Time) -> InFlight {
        let lock = Some(Lock { ends: lock_ends, is_over: false });
        InFlight { holder: Some(member.clone()), lock, ..InFlight::new(RecordState::Acquired, 1) }
    }

    pub fn state(&self) -> RecordState {
        self.state
    }

    /// How often it was handed out.
    pub fn delivery_count(&self) -> i16 {
        self.delivery_count
    }

    pub fn holder(&self) -> Option<&MemberId> {
        self.holder.as_ref()
    }

    /// When the lock ends, if there is one that runs.
    pub fn lock_ends(&self) -> Option<Time> {
        let lock = self.lock.filter(|lock| !lock.is_over).map(|lock| lock.ends);
        lock.into_iter().chain(self.stray).min()
    }

    /// As one of the offsets of a batch that had one state: a change that is under way is forgotten, its lock is not
    /// (`maybeInitializeOffsetStateUpdate`).
    pub(super) fn of_part(&self) -> InFlight {
        let (holder, lock) = (self.holder.clone(), self.lock);
        InFlight { holder, lock, ..InFlight::new(self.state, self.delivery_count) }
    }

    /// Whether the outcome of a write is awaited.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Whether it can be handed out now.
    pub fn is_available(&self) -> bool {
        let is_free = self.state == RecordState::Available
            || plant::is(Plant::ShareDoubleAcquire) && self.state == RecordState::Acquired;
        is_free && !self.is_changing()
    }

    /// Whether it is final, and known to be.
    pub(super) fn is_done(&self) -> bool {
        self.state.is_final() && !self.is_changing()
    }

    /// `tryUpdateState` to acquired: one delivery more. The record must be available.
    ///
    /// # Errors
    ///
    /// A lock from before is in the way. The record is acquired nevertheless.
    pub(super) fn acquire(&mut self, member: &MemberId, lock_ends: Time) -> Result<(), LockClash> {
        assert!(self.is_available(), "what is handed out is available");
        self.state = RecordState::Acquired;
        self.delivery_count += i16::from(!plant::is(Plant::ShareCountFrozen));
        self.holder = Some(member.clone());
        if plant::is(Plant::ShareDoubleAcquire) {
            self.lock = None;
        }
        if self.lock.is_some() {
            self.stray = Some(lock_ends);
            return Err(LockClash);
        }
        self.lock = Some(Lock { ends: lock_ends, is_over: false });
        Ok(())
    }

    /// `tryUpdateState`: what was released for the last time it may be is archived (R-SHARE-8). False, and nothing is
    /// changed, if `next` cannot follow.
    pub(super) fn leave(&mut self, next: RecordState, delivery_count_limit: i16) -> bool {
        let is_worn = next == RecordState::Available && self.delivery_count >= delivery_count_limit;
        let next = if is_worn { RecordState::Archived } else { next };
        if self.is_changing() || !self.state.may_become(next) {
            return false;
        }
        self.state = next;
        self.holder = None;
        true
    }

    /// `startStateTransition`: as [`InFlight::leave`], to be taken back if the write fails.
    pub(super) fn start_change(&mut self, next: RecordState, limit: i16, write: WriteId) -> bool {
        let (state, holder) = (self.state, self.holder.clone());
        let has_left = self.leave(next, limit);
        if has_left {
            self.change = Some(Change { write, state, holder, delivery_count_limit: limit });
        }
        has_left
    }

    /// `completeStateTransition`. A lock that ended meanwhile has its effect now. False if another write, or none, is
    /// awaited.
    pub(super) fn finish_change(&mut self, write: WriteId, is_written: bool) -> bool {
        let Some(change) = self.change.take_if(|change| change.write == write) else { return false };
        if is_written || self.is_swept {
            self.lock = None;
        } else if self.lock.is_some_and(|lock| lock.is_over) {
            let is_worn = self.delivery_count >= change.delivery_count_limit;
            self.state = if is_worn { RecordState::Archived } else { RecordState::Available };
            self.holder = None;
            self.lock = None;
        } else {
            self.state = change.state;
            self.holder = change.holder;
        }
        true
    }

    /// `archive`: whatever it was.
    pub(super) fn sweep(&mut self) {
        self.is_swept = true;
        self.state = RecordState::Archived;
        self.holder = None;
        self.lock = None;
    }
}
