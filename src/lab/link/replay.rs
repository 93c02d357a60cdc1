//! Living a linked or saved run again, a little at a time, and looking whether it is the same.

use std::collections::VecDeque;

use super::saved::Saved;
use super::text::Content;
use super::{Command, Link, LinkError, entries_of};
use crate::kafka::time::Time;
use crate::lab::history::{BranchId, History, Milestone};
use crate::lab::scenario::ScenarioError;
use crate::lab::session::{Options, Position};

/// Why a link cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the link's scenario, line {}: {}", .0.line, .0.reason)]
    Scenario(#[from] ScenarioError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not yet at the moment that is linked to.
    UnderWay,
    /// There, and every digest on the way was the same.
    Arrived,
    /// Something went otherwise than in the version that made the link.
    Parted {
        /// Up to here it was the same.
        same_until: Time,
        /// Here it is another.
        before: Time,
        /// A command that cannot be carried out here, and why.
        refused: Option<(String, String)>,
    },
}

#[derive(Clone, Debug)]
enum Step {
    /// Go on to a moment, where the digest is to be this one.
    Reach(Milestone),
    /// Go on to where the branch was run to.
    End(Position),
    /// Go back to where another branch parted from one, and begin that.
    Part { parent: BranchId, at: Position, name: String, commands: Vec<Command> },
    /// Go to where the run stood.
    Turn(BranchId, Milestone),
}

/// **Invariant:** once it has parted it goes no further.
#[derive(Clone, Debug)]
pub struct Replay {
    /// What is left to do.
    steps: VecDeque<Step>,
    /// The last moment at which the digest was the same.
    same_until: Time,
}

impl Replay {
    /// The start of the run that a text holds.
    ///
    /// # Errors
    /// The scenario is none, or what is said of the run contradicts itself.
    pub fn open(content: &Content) -> Result<(History, Replay), OpenError> {
        match content {
            Content::Link(link) if link.is_sound() => Replay::open_link(link),
            Content::Saved(saved) if saved.is_sound() => Replay::open_saved(saved),
            _ => Err(LinkError::Content.into()),
        }
    }

    fn open_link(link: &Link) -> Result<(History, Replay), OpenError> {
        let mut history = begin(&link.scenario, link.seed)?;
        history.follow(link.journal().ok_or(LinkError::Content)?);
        let steps = link.milestones.iter().copied().map(Step::Reach).collect();
        Ok((history, Replay { steps, same_until: Time::ZERO }))
    }

    fn open_saved(saved: &Saved) -> Result<(History, Replay), OpenError> {
        let mut history = begin(&saved.scenario, saved.seed)?;
        let mut steps = VecDeque::new();
        for branch in &saved.branches {
            match branch.parting() {
                None => {
                    let first = Link { commands: branch.commands.clone(), ..Link::default() };
                    history.follow(first.journal().ok_or(LinkError::Content)?);
                    history.rename(BranchId::FIRST, &branch.name);
                }
                Some((parent, at)) => {
                    let (name, commands) = (branch.name.clone(), branch.commands.clone());
                    steps.push_back(Step::Part { parent, at, name, commands });
                }
            }
            steps.extend(branch.milestones.iter().copied().map(Step::Reach));
            steps.push_back(Step::End(branch.end()));
        }
        steps.push_back(Step::Turn(BranchId(saved.current as usize), saved.present));
        Ok((history, Replay { steps, same_until: Time::ZERO }))
    }

    /// Goes on by so many events at most.
    pub fn go_on(&mut self, history: &mut History, max_events: u64) -> Progress {
        let Some(step) = self.steps.front().cloned() else { return Progress::Arrived };
        let arrived = match &step {
            Step::Reach(milestone) => history.approach(milestone.position(), max_events),
            Step::End(position) => history.approach(*position, max_events),
            Step::Part { parent, at, name, commands } => {
                let parted = history.part(*parent, *at, name.clone(), entries_of(commands));
                if parted.is_none() {
                    return self.parted(at.time, None);
                }
                true
            }
            Step::Turn(branch, present) => {
                history.turn_to(*branch, present.position());
                true
            }
        };
        let present = history.present();
        if let Some((entry, failure)) = present.failures().first() {
            return self.parted(entry.place.time, Some((entry.text.clone(), failure.to_string())));
        }
        if !arrived {
            return Progress::UnderWay;
        }
        if let Step::Reach(expected) | Step::Turn(_, expected) = &step {
            if present.position() != expected.position() || present.digest() != expected.digest {
                return self.parted(expected.position().time, None);
            }
            self.same_until = present.now();
        }
        self.steps.pop_front();
        if self.steps.is_empty() { Progress::Arrived } else { Progress::UnderWay }
    }

    fn parted(&self, before: Time, refused: Option<(String, String)>) -> Progress {
        Progress::Parted { same_until: self.same_until, before, refused }
    }
}

fn begin(scenario: &str, seed: u64) -> Result<History, OpenError> {
    Ok(History::open(scenario, Options { seed: Some(seed), ..Options::default() })?)
}
