//! A run as a link: what must be known to live it again, and how to tell whether it is the same.
//!
//! - [`text`]: as the address bar holds it
//! - [`saved`]: with all its branches, as a file holds it
//! - [`replay`]: how it is lived again
//!
//! **Invariant:** a link's text is read whole or refused with the reason, and costs no more memory than [`text::MOST_BYTES`]
//! allow.

pub mod replay;
pub mod saved;
pub mod text;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::text::LinkError;
use super::history::{History, Milestone};
use super::journal::{Entry, Journal};
use super::scenario::without_comments;
use super::session::Position;
use crate::kafka::time::Time;
use crate::sim::Key;

/// Digests that a link carries at most.
const MOST_MILESTONES: usize = 16;

/// A command with its place: microseconds, sequence, text.
type Command = (i64, u64, String);

/// What is written. The order of fields is the format; a change of it is another version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// What the run is called.
    pub name: String,
    /// The scenario as it was written.
    pub scenario: String,
    /// Of the run, which may not be the scenario's.
    pub seed: u64,
    commands: Vec<Command>,
    /// The last of them is the moment that is linked to.
    pub milestones: Vec<Milestone>,
}

impl Link {
    /// A link to the present of a run.
    pub fn to(name: &str, history: &History) -> Link {
        let present = history.present();
        let mut milestones: Vec<Milestone> = history.milestones().collect();
        milestones.sort_by_key(Milestone::position);
        let now = present.position();
        milestones.retain(|milestone| milestone.position() < now);
        thin_out(&mut milestones, MOST_MILESTONES - 1);
        milestones.push(Milestone { events: now.events, us: now.time.us(), digest: present.digest() });
        Link {
            name: name.to_owned(),
            scenario: present.text().to_owned(),
            seed: present.seed(),
            commands: commands_of(present.journal().entries()),
            milestones,
        }
    }

    /// The same without the scenario's comments, which make up most of an address.
    pub fn without_comments(self) -> Link {
        Link { scenario: without_comments(&self.scenario), ..self }
    }

    /// The commands; `None` if their places are out of order.
    pub fn journal(&self) -> Option<Journal> {
        Journal::of(entries_of(&self.commands).collect())
    }

    /// Whether there is a moment that is linked to, and all are in order.
    fn is_sound(&self) -> bool {
        !self.milestones.is_empty()
            && self.milestones.is_sorted_by_key(Milestone::position)
            && self.journal().is_some()
    }

    /// The moment that is linked to.
    pub fn position(&self) -> Position {
        self.milestones.last().map_or(Position::default(), Milestone::position)
    }
}

fn commands_of(entries: &[Entry]) -> Vec<Command> {
    let command = |entry: &Entry| (entry.place.time.us(), entry.place.sequence, entry.text.clone());
    entries.iter().map(command).collect()
}

fn entries_of(commands: &[Command]) -> impl Iterator<Item = Entry> {
    commands.iter().map(|(us, sequence, text)| Entry {
        place: Key { time: Time::from_us(*us), sequence: *sequence },
        text: text.clone(),
    })
}

/// Leaves so many of them, evenly.
fn thin_out(milestones: &mut Vec<Milestone>, most: usize) {
    let len = milestones.len();
    if len > most {
        let mut index = 0;
        milestones.retain(|_| {
            let stays = (index + 1) * most / len > index * most / len;
            index += 1;
            stays
        });
    }
}
