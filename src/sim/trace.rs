//! What happened, in order, each event with its place and its cause.
//!
//! **Invariant:** entries are in the order of their keys, and numbered from the start of the run even when the oldest
//! are no longer kept.

use std::collections::VecDeque;

use crate::kafka::event::Event;
use crate::kafka::time::Time;

/// The place of an event in the run: virtual time, then the order in which it was scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub time: Time,
    pub sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The step in which it happened.
    pub key: Key,
    /// The step that scheduled this one; `None` for what the run began with.
    pub cause: Option<Key>,
    pub event: Event,
}

/// As many of the newest entries as are kept.
#[derive(Clone, Debug)]
pub struct Trace {
    entries: VecDeque<TraceEntry>,
    dropped: u64,
    capacity: usize,
}

/// About 20 MB of typical events.
const CAPACITY: usize = 100_000;

impl Default for Trace {
    fn default() -> Self {
        Trace { entries: VecDeque::new(), dropped: 0, capacity: CAPACITY }
    }
}

impl Trace {
    pub fn push(&mut self, entry: TraceEntry) {
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.entries.push_back(entry);
    }

    /// How many events there have been.
    pub fn len_ever(&self) -> u64 {
        self.dropped + self.entries.len() as u64
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &TraceEntry> {
        self.entries.iter()
    }

    /// The events from number `from` on, as far as they are kept.
    pub fn since(&self, from: u64) -> impl DoubleEndedIterator<Item = &TraceEntry> {
        let skip = from.saturating_sub(self.dropped).min(self.entries.len() as u64);
        self.entries.range(skip as usize..)
    }
}
