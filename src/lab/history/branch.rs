//! One course of events.

use super::marks::Marks;
use crate::lab::journal::Journal;
use crate::lab::session::Position;

/// Branches are numbered in the order in which they began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BranchId(pub usize);

impl BranchId {
    pub const FIRST: BranchId = BranchId(0);
}

/// What the first branch is called until somebody calls it otherwise.
const FIRST_NAME: &str = "main";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    pub name: String,
    /// The branch it parted from, and where.
    pub parent: Option<(BranchId, Position)>,
    /// How far it was ever run.
    pub end: Position,
    /// All its commands from the start of the run, those of other branches it has in common with them too.
    pub(super) journal: Journal,
    /// So many of them it has in common with its parent.
    pub(super) shared: usize,
    pub(super) marks: Marks,
}

impl Branch {
    pub(super) fn first() -> Branch {
        Branch {
            name: FIRST_NAME.to_owned(),
            parent: None,
            end: Position::default(),
            journal: Journal::default(),
            shared: 0,
            marks: Marks::default(),
        }
    }

    /// One that goes on from here with another command than the next of the parent's, behind so many that they share.
    pub(super) fn parted(
        (parent, at): (BranchId, Position),
        name: String,
        shared: usize,
        marks: Marks,
    ) -> Branch {
        Branch { name, parent: Some((parent, at)), end: at, journal: Journal::default(), shared, marks }
    }

    /// So many of its commands it has in common with its parent.
    pub fn shared(&self) -> usize {
        self.shared
    }

    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }
}
