//! The commands a person gave, each at its place in the order of events: never by wall time.
//!
//! **Invariant:** scenario, seed and journal are the whole run.

use crate::kafka::time::Time;

/// One command that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub time: Time,
    /// How many events were done before it.
    pub events_done: u64,
    /// In its whole text form, nothing left open.
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    entries: Vec<Entry>,
}

impl Journal {
    pub fn push(&mut self, entry: Entry) {
        assert!(
            self.entries
                .last()
                .is_none_or(|last| last.events_done <= entry.events_done && last.time <= entry.time),
            "commands are journalled in the order of the run"
        );
        self.entries.push(entry);
    }

    /// The oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
