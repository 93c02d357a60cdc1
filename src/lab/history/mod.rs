//! The time machine: a run that can be rewound, and that goes on in branches.
//!
//! On its way a run leaves checkpoints, which are copies that share all but what changed since. Going back takes the nearest
//! one before the moment that is wished and carries out again what lies between. A command that is given in the past begins
//! a new branch; what had happened instead is kept in the old one.
//!
//! - [`branch`]: one course of events, and where it parted from another
//! - [`checkpoints`]: which copies are kept
//! - [`marks`]: the moments that are worth going back to
//!
//! **Invariant:** wherever a run comes from, at the same position of the same branch it is the same, to the digest.

mod branch;
mod checkpoints;
mod marks;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::branch::{Branch, BranchId};
use self::checkpoints::Checkpoints;
pub use self::marks::{Mark, MarkKind, Marks};
use super::journal::{Entry, Journal};
use super::pace::StopsAt;
use super::scenario::ScenarioError;
use super::session::{CommandFailure, Options, Position, Session, Stop};
use super::why::past::Past;
use crate::kafka::time::Time;

/// Events between two checkpoints of a new stretch.
const INTERVAL: u64 = 1_000;
/// Who goes back far leaves a checkpoint so many events before the moment, for the steps back that may follow.
const RUN_UP: u64 = 100;

/// A moment of a run with its digest, by which another run is seen to be the same up to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Milestone {
    pub events: u64,
    pub us: i64,
    pub digest: u64,
}

impl Milestone {
    pub fn position(&self) -> Position {
        Position { events: self.events, time: Time::from_us(self.us) }
    }
}

pub struct History {
    present: Session,
    branches: Vec<Branch>,
    current: BranchId,
    checkpoints: Checkpoints,
}

impl History {
    /// Opens a scenario at time 0.
    ///
    /// # Errors
    ///
    /// What is wrong in the text, with its place.
    pub fn open(text: &str, options: Options) -> Result<History, ScenarioError> {
        let present = Session::open(text, options)?;
        let mut history = History {
            present,
            branches: vec![Branch::first()],
            current: BranchId::FIRST,
            checkpoints: Checkpoints::default(),
        };
        history.keep();
        Ok(history)
    }

    /// The run as it is now.
    pub fn present(&self) -> &Session {
        &self.present
    }

    /// Counts what is seen from now on as new, as when a page opens.
    pub fn look_anew(&mut self) {
        self.present.look_anew();
    }

    /// The branches in the order in which they began, each with its id.
    pub fn branches(&self) -> impl Iterator<Item = (BranchId, &Branch)> {
        self.branches.iter().enumerate().map(|(index, branch)| (BranchId(index), branch))
    }

    pub fn current(&self) -> BranchId {
        self.current
    }

    pub fn branch(&self, id: BranchId) -> Option<&Branch> {
        self.branches.get(id.0)
    }

    /// How far the present branch was ever run.
    pub fn end(&self) -> Position {
        self.branches[self.current.0].end
    }

    /// Whether the present lies before what its branch has come to, or before commands of it that are known.
    pub fn is_in_the_past(&self) -> bool {
        self.present.position() < self.end() || self.present.journal().next().is_some()
    }

    /// Checkpoints that are kept now.
    pub fn checkpoints(&self) -> usize {
        self.checkpoints.len()
    }

    /// Calls a branch by another name.
    pub fn rename(&mut self, id: BranchId, name: &str) {
        if let Some(branch) = self.branches.get_mut(id.0) {
            name.clone_into(&mut branch.name);
        }
    }

    /// As [`Session::command`]; in the past it begins a branch, which becomes the present one.
    ///
    /// # Errors
    ///
    /// As [`Session::command`]; no branch has begun then.
    pub fn command(&mut self, text: &str) -> Result<(), CommandFailure> {
        let (parted_at, was_in_the_past) = (self.present.position(), self.is_in_the_past());
        let heard = self.present.world().trace().len_ever();
        let shared = self.present.journal().entries().len();
        self.present.command(text)?;
        let journal = self.present.journal().clone();
        if was_in_the_past {
            let name = journal.entries().last().map_or(text, |entry| &entry.text);
            let name = format!("{} at {}", name, parted_at.time);
            let marks = self.branches[self.current.0].marks.up_to(heard);
            self.branches.push(Branch::parted((self.current, parted_at), name, shared, marks));
            self.current = BranchId(self.branches.len() - 1);
        }
        self.branches[self.current.0].journal = journal;
        self.note_end();
        Ok(())
    }

    /// As [`Session::step`].
    pub fn step(&mut self) -> bool {
        let stepped = self.present.step();
        self.keep_if_due();
        stepped
    }

    /// As [`Session::run`].
    pub fn run(&mut self, time: Time, max_events: u64, stops_at: StopsAt) -> Stop {
        let mut left = max_events;
        loop {
            let at_once = left.min(INTERVAL);
            let stop = self.present.run(time, at_once, stops_at);
            self.keep_if_due();
            left -= at_once;
            if stop != Stop::OutOfEvents || left == 0 {
                return stop;
            }
        }
    }

    /// As [`Session::run_to_next_change`].
    pub fn run_to_next_change(&mut self, max_events: u64) -> bool {
        let found = self.present.run_to_next_change(max_events);
        self.keep_if_due();
        found
    }

    /// Goes to a moment of the present branch, at the latest to its end: all that happens up to and including this time is
    /// done.
    pub fn seek(&mut self, time: Time) {
        let time = time.max(Time::ZERO).min(self.end().time);
        self.come_before(|position| position.time <= time, true);
        self.run(time, u64::MAX, StopsAt::Nothing);
    }

    /// The commands that are to come are from now on those of this journal, which begins with what was done in this branch.
    pub fn follow(&mut self, journal: Journal) {
        self.present.follow(journal);
        self.branches[self.current.0].journal = self.present.journal().clone();
    }

    /// Goes on by so many events towards a position that may lie behind the end of the present branch; whether there is
    /// nothing more to do, since it is reached or passed, or the run has no more events.
    pub fn approach(&mut self, position: Position, max_events: u64) -> bool {
        let until = position.events.min(self.present.events_done().saturating_add(max_events.min(INTERVAL)));
        let before = self.present.position();
        if before < position {
            self.present.go_to(Position { events: until, ..position });
            self.keep_if_due();
        }
        self.present.position() >= position || self.present.position() == before
    }

    /// Moments of the present branch of which the digest is known, in no order.
    pub fn milestones(&self) -> impl Iterator<Item = Milestone> {
        let kept = self.checkpoints.of(self.lineage());
        kept.map(|run| Milestone { events: run.events_done(), us: run.now().us(), digest: run.digest() })
    }

    /// The present with what led to it, for questions about it.
    pub fn past(&self) -> Past<'_> {
        Past::of(&self.present, self.checkpoints.of(self.lineage()))
    }

    /// Those of them that are of this branch alone.
    pub fn milestones_of(&self, id: BranchId) -> impl Iterator<Item = Milestone> {
        let own = vec![(id, self.branches[id.0].end)];
        self.checkpoints.of(own).map(|run| Milestone {
            events: run.events_done(),
            us: run.now().us(),
            digest: run.digest(),
        })
    }

    /// Begins a branch that was known before and makes it the present one: it parts from `parent` at a position that the
    /// parent has come to, and has these commands behind those that the two share.
    ///
    /// `None` if the commands are out of order.
    pub fn part(
        &mut self,
        parent: BranchId,
        at: Position,
        name: String,
        commands: impl Iterator<Item = Entry>,
    ) -> Option<()> {
        if self.current != parent {
            self.current = parent;
            self.come_before(|position| position <= at, false);
        }
        self.go_to(at);
        let done = self.present.journal().entries();
        let shared = done.len();
        let journal = Journal::of(done.iter().cloned().chain(commands).collect())?;
        let marks = self.branches[parent.0].marks.up_to(self.present.world().trace().len_ever());
        self.branches.push(Branch::parted((parent, at), name, shared, marks));
        self.current = BranchId(self.branches.len() - 1);
        self.follow(journal);
        Some(())
    }

    /// Goes to a position of a branch, at the latest to its end, and makes it the present one.
    pub fn turn_to(&mut self, id: BranchId, position: Position) {
        if self.current != id {
            self.current = id;
            self.come_before(|before| before <= position, false);
        }
        self.go_to(position);
    }

    /// Goes to a position of the present branch, at the latest to its end.
    pub fn go_to(&mut self, position: Position) {
        let position = position.min(self.end());
        self.come_before(|before| before <= position, true);
        let run_up = position.events.saturating_sub(RUN_UP);
        if run_up > self.present.events_done() + RUN_UP {
            self.present.go_to(Position { events: run_up, time: Time::ZERO });
            self.keep();
        }
        self.present.go_to(position);
    }

    /// Goes to the nearest mark before the present or after it, of a kind that fits; `false` if there is none.
    pub fn go_to_mark(&mut self, after: bool, fits: impl Fn(MarkKind) -> bool) -> bool {
        let (now, marks) = (self.present.now(), &self.branches[self.current.0].marks);
        let mark = if after { marks.after(now, fits) } else { marks.before(now, fits) };
        if let Some(mark) = mark {
            self.seek(mark.time);
        }
        mark.is_some()
    }

    /// Takes the last event back, of which a command is one; `false` at the start.
    pub fn step_back(&mut self) -> bool {
        let Some(events) = self.present.events_done().checked_sub(1) else { return false };
        self.go_to(Position { events, time: Time::ZERO });
        true
    }

    /// Goes over to another branch: to the present time if it has come so far, else to its end. An id that there is not
    /// changes nothing.
    pub fn switch(&mut self, id: BranchId) {
        let Some(branch) = self.branches.get(id.0).filter(|_| id != self.current) else { return };
        let time = self.present.now().min(branch.end.time);
        self.current = id;
        self.come_before(|position| position.time <= time, false);
        self.seek(time);
    }

    /// The runs of two branches at the last position that they share.
    ///
    /// # Panics
    ///
    /// There is no such branch.
    pub fn at_parting(&self, left: BranchId, right: BranchId) -> (Session, Session) {
        let (of_left, of_right) = (self.lineage_of(left), self.lineage_of(right));
        let shared = of_left.iter().find_map(|(id, up_to)| {
            let other = of_right.iter().find(|(other, _)| other == id);
            other.map(|(_, other)| *up_to.min(other))
        });
        let position = shared.expect("all branches come from the first");
        let start = self.checkpoints.latest(of_left, |kept| kept <= position);
        let mut run = start.expect("the start of the run is kept").clone();
        run.follow(self.branches[left.0].journal.clone());
        run.go_to(position);
        let mut other = run.clone();
        other.follow(self.branches[right.0].journal.clone());
        (run, other)
    }

    /// The stretches of other branches that lead to the present one, each with the position up to which it is shared; the
    /// present branch first.
    fn lineage(&self) -> Vec<(BranchId, Position)> {
        self.lineage_of(self.current)
    }

    fn lineage_of(&self, mut id: BranchId) -> Vec<(BranchId, Position)> {
        let mut lineage = vec![(id, self.branches[id.0].end)];
        while let Some((parent, parted_at)) = self.branches[id.0].parent {
            let up_to = lineage.last().map_or(parted_at, |(_, up_to)| parted_at.min(*up_to));
            lineage.push((parent, up_to));
            id = parent;
        }
        lineage
    }

    /// Goes to the latest checkpoint of the present branch that fits, unless the present does, is later, and belongs to it.
    fn come_before(&mut self, fits: impl Fn(Position) -> bool, is_of_branch: bool) {
        let present = self.present.position();
        let stays = |start: Position| is_of_branch && fits(present) && start <= present;
        let start = self.checkpoints.latest(self.lineage(), &fits);
        if let Some(start) = start.filter(|start| !stays(start.position())) {
            self.present = start.clone();
            self.present.follow(self.branches[self.current.0].journal.clone());
        }
    }

    /// Takes in how far the run has come, if never before.
    fn note_end(&mut self) {
        let branch = &mut self.branches[self.current.0];
        branch.end = branch.end.max(self.present.position());
        branch.marks.follow(self.present.world().trace(), self.present.ledger());
    }

    fn keep_if_due(&mut self) {
        self.note_end();
        let position = self.present.position();
        let last = self.checkpoints.latest(self.lineage(), |kept| kept <= position);
        if last.is_none_or(|last| position.events >= last.events_done() + INTERVAL) {
            self.keep();
        }
    }

    fn keep(&mut self) {
        self.checkpoints.keep(self.current, &self.present);
    }
}
