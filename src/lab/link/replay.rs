//! Living a linked run again, a little at a time, and looking whether it is the same.

use super::{Link, LinkError};
use crate::kafka::time::Time;
use crate::lab::history::{History, Milestone};
use crate::lab::scenario::ScenarioError;
use crate::lab::session::Options;

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

/// **Invariant:** once it has parted it goes no further.
#[derive(Clone, Debug)]
pub struct Replay {
    milestones: Vec<Milestone>,
    passed: usize,
}

impl Replay {
    /// The start of the linked run, which knows its commands.
    ///
    /// # Errors
    /// The scenario is none, or the commands are out of order.
    pub fn open(link: &Link) -> Result<(History, Replay), OpenError> {
        let journal = link.journal().ok_or(LinkError::Content)?;
        if !link.milestones.is_sorted_by_key(Milestone::position) {
            return Err(LinkError::Content.into());
        }
        let options = Options { seed: Some(link.seed), ..Options::default() };
        let mut history = History::open(&link.scenario, options)?;
        history.follow(journal);
        Ok((history, Replay { milestones: link.milestones.clone(), passed: 0 }))
    }

    /// Goes on by so many events at most.
    pub fn go_on(&mut self, history: &mut History, max_events: u64) -> Progress {
        let Some(next) = self.milestones.get(self.passed) else { return Progress::Arrived };
        let arrived = history.approach(next.position(), max_events);
        let present = history.present();
        if let Some((entry, failure)) = present.failures().first() {
            return self.parted(entry.place.time, Some((entry.text.clone(), failure.to_string())));
        }
        if !arrived {
            return Progress::UnderWay;
        }
        if present.position() != next.position() || present.digest() != next.digest {
            return self.parted(next.position().time, None);
        }
        self.passed += 1;
        if self.passed == self.milestones.len() { Progress::Arrived } else { Progress::UnderWay }
    }

    fn parted(&self, before: Time, refused: Option<(String, String)>) -> Progress {
        let last = self.passed.checked_sub(1).map(|last| self.milestones[last].position().time);
        Progress::Parted { same_until: last.unwrap_or(Time::ZERO), before, refused }
    }
}
