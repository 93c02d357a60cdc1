//! What led to the present, brought back by replay as far as it is looked at.
//!
//! A run keeps its newest events only, and never which step scheduled which. So the past is lived again, from one
//! checkpoint to the next and the newest stretch first, with each step noted down; a run that nobody asks pays nothing.
//!
//! **Invariant:** events have the numbers that they had in the trace, and the step that scheduled another is before it.

use std::cell::OnceCell;
use std::rc::Rc;

use crate::kafka::event::Event;
use crate::kafka::time::Time;
use crate::lab::narrator::{Narrator, Sentence};
use crate::lab::session::Session;
use crate::sim::{Key, World};

/// One step, which has carried out one entry of the queue.
struct Step {
    key: Key,
    /// The step that scheduled it; `None` for what came from outside.
    cause: Option<Key>,
    /// The number of the first event from its begin on.
    first: u64,
}

/// Something that happened.
pub struct Happened {
    pub time: Time,
    pub event: Event,
    /// What was told of it at that time, if anything was.
    pub told: Option<Rc<Sentence>>,
}

/// From a checkpoint to the next.
struct Stretch {
    steps: Vec<Step>,
    first: u64,
    events: Vec<Happened>,
    narrator: Narrator,
}

pub struct Past<'a> {
    present: &'a Session,
    /// Where each stretch begins, the oldest first.
    starts: Vec<Start<'a>>,
    stretches: Vec<OnceCell<Stretch>>,
}

enum Start<'a> {
    Scenario,
    Checkpoint(&'a Session),
}

impl<'a> Past<'a> {
    /// `checkpoints`: some runs that came to be the present one, in any order; without them everything is lived again.
    pub fn of(present: &'a Session, checkpoints: impl IntoIterator<Item = &'a Session>) -> Past<'a> {
        let mut kept: Vec<&Session> = checkpoints.into_iter().collect();
        kept.retain(|run| run.events_done() > 0 && run.events_done() < present.events_done());
        kept.sort_by_key(|run| run.position());
        let starts: Vec<Start> =
            std::iter::once(Start::Scenario).chain(kept.into_iter().map(Start::Checkpoint)).collect();
        let stretches = starts.iter().map(|_| OnceCell::new()).collect();
        Past { present, starts, stretches }
    }

    pub fn present(&self) -> &'a Session {
        self.present
    }

    pub fn world(&self) -> &'a World {
        self.present.world()
    }

    /// The number that the next event will have.
    pub fn end(&self) -> u64 {
        self.world().trace().len_ever()
    }

    pub fn get(&self, number: u64) -> Option<&Happened> {
        let stretch = self.stretch(self.stretch_of(number));
        stretch.events.get(usize::try_from(number.checked_sub(stretch.first)?).ok()?)
    }

    /// Events before that one, the newest first, each with its number.
    pub fn before(&self, number: u64) -> impl Iterator<Item = (u64, &Happened)> {
        let newest = self.stretch_of(number.saturating_sub(1));
        (0..=newest).rev().flat_map(move |index| {
            let stretch = self.stretch(index);
            let length = (number.saturating_sub(stretch.first) as usize).min(stretch.events.len());
            let numbered = stretch.events[..length].iter().enumerate();
            numbered.rev().map(|(index, happened)| (stretch.first + index as u64, happened))
        })
    }

    /// The newest event before that one that fits.
    pub fn last(&self, number: u64, fits: impl Fn(&Event) -> bool) -> Option<u64> {
        self.before(number).find(|(_, happened)| fits(&happened.event)).map(|(number, _)| number)
    }

    /// The newest event of the run that fits.
    pub fn newest(&self, fits: impl Fn(&Event) -> bool) -> Option<u64> {
        self.last(self.end(), fits)
    }

    /// The events of the step in which that one happened, up to and without it, in order.
    pub fn beside(&self, number: u64) -> Vec<u64> {
        let stretch = self.stretch(self.stretch_of(number));
        match stretch.step_with(number) {
            Some(index) => (stretch.steps[index].first..number).collect(),
            None => Vec::new(),
        }
    }

    /// The events of the nearest step that led to the one in which that event happened, and brought any; empty where none
    /// did.
    pub fn led_here(&self, number: u64) -> Vec<u64> {
        let stretch = self.stretch(self.stretch_of(number));
        let mut cause = stretch.step_with(number).and_then(|index| stretch.steps[index].cause);
        while let Some(key) = cause {
            let stretch = self.stretch(self.stretch_at(key));
            let Ok(index) = stretch.steps.binary_search_by_key(&key, |step| step.key) else { break };
            let events: Vec<u64> = stretch.events_of(index).collect();
            if !events.is_empty() {
                return events;
            }
            cause = stretch.steps[index].cause;
        }
        Vec::new()
    }

    /// Who tells of an event that was not worth a sentence then.
    pub fn narrator(&self, number: u64) -> &Narrator {
        &self.stretch(self.stretch_of(number)).narrator
    }

    fn stretch_of(&self, number: u64) -> usize {
        let begins_by = |start: &Start| match start {
            Start::Scenario => true,
            Start::Checkpoint(run) => run.world().trace().len_ever() <= number,
        };
        self.starts.partition_point(begins_by) - 1
    }

    fn stretch_at(&self, key: Key) -> usize {
        let begins_by = |start: &Start| match start {
            Start::Scenario => true,
            Start::Checkpoint(run) => run.world().place() <= key,
        };
        self.starts.partition_point(begins_by) - 1
    }

    fn stretch(&self, index: usize) -> &Stretch {
        self.stretches[index].get_or_init(|| {
            let mut run = match &self.starts[index] {
                Start::Scenario => self.present.rewound(),
                Start::Checkpoint(run) => (*run).clone(),
            };
            run.follow(self.present.journal().clone());
            let first = match index {
                0 => 0,
                _ => run.world().trace().len_ever(),
            };
            let end = match self.starts.get(index + 1) {
                Some(Start::Checkpoint(next)) => next.events_done(),
                _ => self.present.events_done(),
            };
            live_again(run, first, end)
        })
    }
}

impl Stretch {
    fn step_with(&self, number: u64) -> Option<usize> {
        self.steps.partition_point(|step| step.first <= number).checked_sub(1)
    }

    fn events_of(&self, step: usize) -> std::ops::Range<u64> {
        let end = self.steps.get(step + 1).map_or(self.first + self.events.len() as u64, |next| next.first);
        self.steps[step].first..end
    }
}

fn live_again(mut run: Session, first: u64, end: u64) -> Stretch {
    let (mut steps, mut events) = (Vec::new(), Vec::new());
    let take_over = |run: &Session, events: &mut Vec<Happened>, sentences: u64| {
        let heard = first + events.len() as u64;
        events.extend(run.world().trace().since(heard).map(|entry| Happened {
            time: entry.key.time,
            event: entry.event.clone(),
            told: None,
        }));
        for (_, sentence) in run.narrative().since(sentences) {
            let index = sentence.event.checked_sub(first).and_then(|index| usize::try_from(index).ok());
            if let Some(happened) = index.and_then(|index| events.get_mut(index)) {
                happened.told = Some(sentence.clone());
            }
        }
    };
    take_over(&run, &mut events, 0);
    while run.events_done() < end {
        let sentences = run.narrative().len_ever();
        let first = run.world().trace().len_ever();
        let Some((key, cause)) = run.step_with_cause() else { break };
        steps.push(Step { key, cause, first });
        take_over(&run, &mut events, sentences);
    }
    Stretch { steps, first, events, narrator: run.narrator().clone() }
}
