//! Two runs side by side on one clock: two branches from where they parted, or one scenario with one thing changed.
//!
//! - [`change`]: what is otherwise
//! - [`table`]: what came of it, in numbers
//!
//! **Invariant:** what the two have done is compared only up to the earlier of their two times, and neither is the history's
//! own run: a comparison changes nothing but itself.

pub mod change;
pub mod table;
#[cfg(test)]
mod tests;

use std::rc::Rc;

pub use self::change::{Change, ChangeError};
use super::command::{Clients, parse, print};
use super::history::{BranchId, History};
use super::journal::{Entry, Journal};
use super::ledger::Totals;
use super::narrator::Sentence;
use super::pace::StopsAt;
use super::scenario::ScenarioError;
use super::session::{Options, Session};
use crate::kafka::time::Time;

/// How far one run may be ahead of the other.
const STEP_MS: i64 = 100;
/// Events of one run between two looks at the other.
const EVENTS_AT_ONCE: u64 = 256;

/// Why two runs are not compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    #[error("a branch is compared with another one")]
    SameBranch,
    #[error("there is no branch {0}")]
    NoBranch(usize),
    #[error(transparent)]
    Text(#[from] ChangeError),
    #[error("with {0} nothing in this run is otherwise")]
    NothingChanged(Change),
    #[error("{change}: {reason}")]
    Refused { change: Change, reason: String },
}

/// One of the two runs.
#[derive(Clone)]
pub struct Side {
    pub name: String,
    run: Session,
    /// What the records had come to where the comparison begins.
    before: Rc<Totals>,
    /// Sentences that are compared.
    told: u64,
}

/// Where the stories of the two part: the first sentence of one that the other does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    pub time: Time,
    pub sentences: [Option<Rc<Sentence>>; 2],
}

#[derive(Clone)]
pub struct Comparison {
    sides: [Side; 2],
    /// What is otherwise, in words.
    what: String,
    /// From when on it is counted.
    from: Time,
    /// How far the two were run by whom they are compared for.
    until: Time,
    parting: Option<Parting>,
}

impl Comparison {
    /// Two branches, from the last moment that they share to the later end of the two.
    ///
    /// # Errors
    ///
    /// They are the same branch, or there is none of that number.
    pub fn of_branches(
        history: &History,
        left: BranchId,
        right: BranchId,
    ) -> Result<Comparison, CompareError> {
        if left == right {
            return Err(CompareError::SameBranch);
        }
        let branch = |id: BranchId| history.branch(id).ok_or(CompareError::NoBranch(id.0 + 1));
        let (of_left, of_right) = (branch(left)?, branch(right)?);
        let (first, second) = history.at_parting(left, right);
        let from = first.now();
        Ok(Comparison {
            sides: [Side::new(&of_left.name, first), Side::new(&of_right.name, second)],
            what: format!("two futures from {from}"),
            from,
            until: of_left.end.time.max(of_right.end.time),
            parting: None,
        })
    }

    /// A run from its start, and the same with one thing otherwise: same scenario, same seed, same commands.
    ///
    /// # Errors
    ///
    /// The change is none, changes nothing, or gives a scenario that cannot be.
    pub fn of_change(run: &Session, journal: &Journal, change: &str) -> Result<Comparison, CompareError> {
        let change: Change = change.parse()?;
        let changed = change.in_scenario(run.scenario());
        let commands = changed_journal(journal, &change);
        if changed == *run.scenario() && commands == journal.rewound() {
            return Err(CompareError::NothingChanged(change));
        }
        let options = Options { seed: Some(run.seed()), ..Options::default() };
        let refused =
            |error: ScenarioError| CompareError::Refused { change: change.clone(), reason: error.reason };
        let mut left = Session::open(run.text(), options).map_err(refused)?;
        let mut right = Session::open(&changed.to_toml(), options).map_err(refused)?;
        left.follow(journal.rewound());
        right.follow(commands);
        Ok(Comparison {
            sides: [Side::new("as it is", left), Side::new(&change.to_string(), right)],
            what: "same scenario, same seed, same commands, one thing otherwise".to_owned(),
            from: Time::ZERO,
            until: run.now().max(run.scenario().start),
            parting: None,
        })
    }

    pub fn sides(&self) -> &[Side; 2] {
        &self.sides
    }

    pub fn what(&self) -> &str {
        &self.what
    }

    pub fn from(&self) -> Time {
        self.from
    }

    /// How far the runs had come that are compared: up to here the comparison is what it was made for.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Up to when both were run.
    pub fn now(&self) -> Time {
        let [left, right] = &self.sides;
        left.run.now().min(right.run.now())
    }

    /// Runs both to a time; `true` when it is reached within so many events.
    pub fn run(&mut self, time: Time, max_events: u64) -> bool {
        let mut left = max_events;
        while self.now() < time && left > 0 {
            let until = time.min(self.now().plus_ms(STEP_MS));
            let behind = usize::from(self.sides[1].run.now() < self.sides[0].run.now());
            let run = &mut self.sides[behind].run;
            let done = run.events_done();
            run.run(until, EVENTS_AT_ONCE, StopsAt::Nothing);
            left = left.saturating_sub((run.events_done() - done).max(1));
            self.look_for_parting();
        }
        self.now() >= time
    }

    /// Commands of either run that could not be carried out in it, each with the reason; the first is the side's index.
    pub fn failures(&self) -> impl Iterator<Item = (usize, String)> {
        (0..).zip(&self.sides).flat_map(|(index, side)| {
            let failures = side.run.failures().iter();
            failures.map(move |(entry, failure)| {
                (index, format!("{} {}: {failure}", entry.place.time, entry.text))
            })
        })
    }

    /// Where the stories part, as far as both were run.
    pub fn parting(&self) -> Option<&Parting> {
        self.parting.as_ref()
    }

    fn look_for_parting(&mut self) {
        let now = self.now();
        while self.parting.is_none() {
            let next = self.sides.each_ref().map(|side| side.next_told(now));
            match &next {
                [None, None] => return,
                [Some((left, first)), Some((right, second))] if first.is_same_as(second) => {
                    (self.sides[0].told, self.sides[1].told) = (*left, *right);
                }
                _ => {
                    let sentences = next.map(|told| told.map(|(_, sentence)| sentence));
                    let times = sentences.iter().flatten().map(|sentence| sentence.time);
                    let time = times.min().unwrap_or(now);
                    let of_time = |told: Option<Rc<Sentence>>| told.filter(|sentence| sentence.time == time);
                    self.parting = Some(Parting { time, sentences: sentences.map(of_time) });
                }
            }
        }
    }
}

impl Side {
    fn new(name: &str, mut run: Session) -> Side {
        run.measure_anew();
        let (before, told) = (Rc::new(run.ledger().totals()), run.narrative().len_ever());
        Side { name: name.to_owned(), run, before, told }
    }

    pub fn run(&self) -> &Session {
        &self.run
    }

    /// The next sentence to be compared, of those whose moment is over.
    fn next_told(&self, now: Time) -> Option<(u64, Rc<Sentence>)> {
        let next = self.run.narrative().since(self.told).next();
        next.filter(|(_, sentence)| sentence.time < now).map(|(number, sentence)| (number, sentence.clone()))
    }
}

/// The commands with the change. What no command can be read from stays as it is: it fails in both runs alike.
fn changed_journal(journal: &Journal, change: &Change) -> Journal {
    // A journal's texts say everything: no other client is asked for what is left out.
    let nobody = Clients::default();
    let changed = |entry: &Entry| match parse(&entry.text).map(|written| nobody.complete(written)) {
        Ok(Ok(mut command)) => {
            change.in_command(&mut command);
            Entry { place: entry.place, text: print(&command) }
        }
        _ => entry.clone(),
    };
    let rewound = journal.rewound();
    Journal::of(rewound.to_come().iter().map(changed).collect()).expect("their places are as they were")
}
