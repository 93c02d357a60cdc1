//! A whole run with its branches, as a file or a browser keeps it.

use serde::{Deserialize, Serialize};

use super::{Command, commands_of, thin_out};
use crate::kafka::time::Time;
use crate::lab::history::{BranchId, History, Milestone};
use crate::lab::session::Position;

/// Digests that each branch carries at most.
const MOST_MILESTONES: usize = 16;

/// What is written. The order of fields is the format; a change of it is another version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// What the run is called.
    pub name: String,
    /// The scenario as it was written.
    pub scenario: String,
    /// Of the run, which may not be the scenario's.
    pub seed: u64,
    /// In the order in which they began.
    pub branches: Vec<SavedBranch>,
    /// The index of the one that was looked at.
    pub current: u32,
    /// Where it stood.
    pub present: Milestone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedBranch {
    pub name: String,
    /// The index of the one it parted from, which comes before it, and where: events, microseconds.
    pub parent: Option<(u32, u64, i64)>,
    /// Those that it does not share with its parent.
    pub commands: Vec<Command>,
    /// Moments whose digest is known, in their order, behind where it parted.
    pub milestones: Vec<Milestone>,
    /// How far it was run: events, microseconds.
    pub end: (u64, i64),
}

impl Saved {
    /// All of a run, as it is now.
    pub fn of(name: &str, history: &History) -> Saved {
        let present = history.present();
        let branches = history.branches().map(|(id, branch)| {
            let all = commands_of(branch.journal().rewound().to_come());
            let mut milestones: Vec<Milestone> = history.milestones_of(id).collect();
            milestones.sort_by_key(Milestone::position);
            thin_out(&mut milestones, MOST_MILESTONES);
            SavedBranch {
                name: branch.name.clone(),
                parent: branch.parent.map(|(parent, at)| (parent.0 as u32, at.events, at.time.us())),
                commands: all.into_iter().skip(branch.shared()).collect(),
                milestones,
                end: (branch.end.events, branch.end.time.us()),
            }
        });
        Saved {
            name: name.to_owned(),
            scenario: present.text().to_owned(),
            seed: present.seed(),
            branches: branches.collect(),
            current: history.current().0 as u32,
            present: Milestone {
                events: present.events_done(),
                us: present.now().us(),
                digest: present.digest(),
            },
        }
    }

    /// Whether each branch parts from one before it and ends behind that, and the present is in one of them.
    pub(super) fn is_sound(&self) -> bool {
        let is_first = |index: usize| index == 0;
        let sound = (0..).zip(&self.branches).all(|(index, branch)| {
            let parts = match branch.parent {
                None => is_first(index),
                Some((parent, events, us)) => {
                    let parent = self.branches.get(parent as usize).filter(|_| (parent as usize) < index);
                    let at = position(events, us);
                    parent.is_some_and(|parent| at <= parent.end()) && at <= branch.end()
                }
            };
            let places = branch.milestones.iter().map(Milestone::position);
            let places: Vec<Position> = places.chain([branch.end()]).collect();
            parts
                && places.is_sorted()
                && branch.commands.is_sorted_by_key(|(us, sequence, _)| (*us, *sequence))
        });
        let current = self.branches.get(self.current as usize);
        sound && current.is_some_and(|current| self.present.position() <= current.end())
    }
}

impl SavedBranch {
    pub(super) fn end(&self) -> Position {
        position(self.end.0, self.end.1)
    }

    /// The branch it parted from and where.
    pub(super) fn parting(&self) -> Option<(BranchId, Position)> {
        self.parent.map(|(parent, events, us)| (BranchId(parent as usize), position(events, us)))
    }
}

fn position(events: u64, us: i64) -> Position {
    Position { events, time: Time::from_us(us) }
}
