//! A batch of records in flight, with one state for all or one for each offset (`InFlightBatch`).
//!
//! **Invariant:** a batch never changes its bounds.

use super::super::range::OffsetRange;
use super::super::state::{InFlight, RecordState};
use crate::kafka::types::Offset;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InFlightBatch {
    pub range: OffsetRange,
    pub states: States,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum States {
    Whole(InFlight),
    /// In the order of the offsets.
    Each(Vec<InFlight>),
}

impl InFlightBatch {
    pub fn whole(range: OffsetRange, state: InFlight) -> InFlightBatch {
        InFlightBatch { range, states: States::Whole(state) }
    }

    pub fn is_whole(&self) -> bool {
        matches!(self.states, States::Whole(_))
    }

    /// The state of all, if there is one.
    pub fn as_whole(&self) -> Option<&InFlight> {
        match &self.states {
            States::Whole(state) => Some(state),
            States::Each(_) => None,
        }
    }

    /// From now on each offset has a state of its own.
    ///
    /// Where the log's start cuts a batch that is being released, that is forgotten, as Kafka does it: the rest is
    /// available at once, and who is handed some of it fails, as its lock is in the way of a new one.
    pub fn split(&mut self) -> &mut [InFlight] {
        if let States::Whole(state) = &self.states {
            let count = self.range.count().try_into().unwrap_or(0);
            self.states = States::Each(vec![state.of_part(); count]);
        }
        match &mut self.states {
            States::Each(states) => states,
            States::Whole(_) => unreachable!("it was split"),
        }
    }

    /// Each state with the offsets that have it.
    pub fn parts(&self) -> impl Iterator<Item = (OffsetRange, &InFlight)> {
        let (whole, each) = match &self.states {
            States::Whole(state) => (Some((self.range, state)), None),
            States::Each(states) => (None, Some(states)),
        };
        let each = each.into_iter().flatten().zip(self.range.offsets());
        whole.into_iter().chain(each.map(|(state, offset)| (OffsetRange::one(offset), state)))
    }

    pub fn parts_mut(&mut self) -> impl Iterator<Item = (OffsetRange, &mut InFlight)> {
        let (whole, each) = match &mut self.states {
            States::Whole(state) => (Some((self.range, state)), None),
            States::Each(states) => (None, Some(states)),
        };
        let each = each.into_iter().flatten().zip(self.range.offsets());
        whole.into_iter().chain(each.map(|(state, offset)| (OffsetRange::one(offset), state)))
    }

    /// The state at `offset`, which lies within.
    pub fn at(&self, offset: Offset) -> Option<&InFlight> {
        match &self.states {
            States::Whole(state) => Some(state),
            States::Each(states) => states.get(usize::try_from(offset - self.range.first).ok()?),
        }
    }

    /// How often what is available between `first` and `last` was delivered, at most.
    pub fn deliveries_of_available(&self, within: OffsetRange) -> i16 {
        let is_meant = |range: OffsetRange| self.is_whole() || range.is_within(within);
        let available = self.parts().filter(|(range, state)| is_meant(*range) && state.is_available());
        available.map(|(_, state)| state.delivery_count()).max().unwrap_or(0)
    }

    /// Whether all of it is acquired, by one act.
    pub fn is_acquired(&self) -> bool {
        self.as_whole().is_some_and(|state| state.state() == RecordState::Acquired)
    }
}
