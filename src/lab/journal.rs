//! The commands a person gave, each at its place in the order of the run: never by wall time.
//!
//! A run that was rewound still knows the commands of its future and carries them out when it comes to their places.
//!
//! **Invariant:** scenario, seed and journal are the whole run, and places never decrease.

use std::rc::Rc;

use crate::sim::Key;

/// One command that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Everything whose place is before this one was done, and nothing else.
    pub place: Key,
    /// In its whole text form, nothing left open.
    pub text: String,
}

/// Copies share the entries until one of them is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    entries: Rc<Vec<Entry>>,
    done: usize,
}

impl Journal {
    /// The entries of a run of which nothing is done yet.
    ///
    /// `None` if their places decrease.
    pub fn of(entries: Vec<Entry>) -> Option<Journal> {
        let is_in_order = entries.is_sorted_by_key(|entry| entry.place);
        is_in_order.then(|| Journal { entries: Rc::new(entries), done: 0 })
    }

    /// The same entries, nothing done yet.
    pub fn rewound(&self) -> Journal {
        Journal { entries: self.entries.clone(), done: 0 }
    }

    /// A command is carried out that is not in the journal: what was still to come never comes.
    pub fn push(&mut self, entry: Entry) {
        let entries = Rc::make_mut(&mut self.entries);
        entries.truncate(self.done);
        assert!(
            entries.last().is_none_or(|last| last.place <= entry.place),
            "commands are journalled in the order of the run"
        );
        entries.push(entry);
        self.done += 1;
    }

    /// The next command's turn has come.
    pub fn take(&mut self) {
        assert!(self.done < self.entries.len(), "nothing is left to do");
        self.done += 1;
    }

    /// What was carried out so far, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..self.done]
    }

    /// What is still to come.
    pub fn to_come(&self) -> &[Entry] {
        &self.entries[self.done..]
    }

    pub fn next(&self) -> Option<&Entry> {
        self.entries.get(self.done)
    }

    /// This journal's entries with as much of them done as of `other`, with which it begins.
    pub fn at(&self, other: &Journal) -> Journal {
        assert!(
            self.entries.get(..other.done) == Some(other.entries()),
            "a run goes on with a journal that begins with what was done"
        );
        Journal { entries: self.entries.clone(), done: other.done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::time::Time;

    fn entry(ms: i64, sequence: u64) -> Entry {
        Entry { place: Key { time: Time::from_ms(ms), sequence }, text: format!("at {ms}") }
    }

    #[test]
    fn a_new_command_ends_the_future_that_was_known() {
        let mut journal = Journal::of(vec![entry(1, 0), entry(2, 0), entry(3, 0)]).expect("in order");
        let before = journal.clone();
        journal.take();
        journal.push(entry(2, 5));
        assert_eq!((journal.entries(), journal.to_come()), (&[entry(1, 0), entry(2, 5)][..], &[][..]));
        assert_eq!((before.entries().len(), before.to_come().len()), (0, 3), "a copy keeps it");
        assert_eq!(journal.rewound().next(), Some(&entry(1, 0)));
    }

    #[test]
    fn entries_out_of_order_are_no_journal() {
        assert_eq!(Journal::of(vec![entry(2, 0), entry(1, 9)]), None);
        assert_eq!(Journal::of(vec![entry(2, 1), entry(2, 0)]), None);
        assert!(Journal::of(vec![entry(2, 0), entry(2, 0), entry(3, 0)]).is_some());
    }
}
