//! A chain of events as sentences, from an effect to its first cause.
//!
//! **Invariant:** each link is before the one above it, and the last is a command, a line of the scenario, or the run's begin.

use super::past::{Happened, Past};
use super::{cause, plain};
use crate::kafka::event::Event;
use crate::kafka::time::Time;
use crate::lab::narrator::Subject;

/// What happened, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub time: Time,
    pub text: String,
    /// Why, or what follows; may be empty.
    pub detail: String,
    /// What it is about, where that is one thing.
    pub about: Option<Subject>,
    /// A step on the way that changed nothing for itself.
    pub is_routine: bool,
    /// Somebody asked for it: the person who watches, or the scenario.
    pub is_command: bool,
}

impl Link {
    pub fn line(&self) -> String {
        format!("  {}  {}", self.time, self.text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The effect first. Never empty.
    pub links: Vec<Link>,
}

impl Chain {
    /// From the event of this number back.
    pub fn from(past: &Past, event: u64) -> Chain {
        let mut links: Vec<Link> = Vec::new();
        let mut next = Some(event);
        while let Some(number) = next {
            let Some(happened) = past.get(number) else { break };
            let link = link(past, number, happened);
            // Many partitions often do the same for one reason.
            if links.last().is_none_or(|above| above.text != link.text) {
                links.push(link);
            }
            next = cause::of(past, number);
        }
        if !links.last().is_some_and(|last| last.is_command) {
            links.push(Link {
                time: Time::ZERO,
                text: "the run begins with the servers of the scenario".to_owned(),
                detail: String::new(),
                about: None,
                is_routine: false,
                is_command: false,
            });
        }
        // What was asked for is told, however small.
        if let Some(effect) = links.first_mut() {
            effect.is_routine = false;
        }
        Chain { links }
    }

    /// Without the steps on the way.
    pub fn short(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|link| !link.is_routine)
    }

    /// What a person did, or the scenario says, or the run's begin.
    pub fn end(&self) -> &Link {
        self.links.last().expect("a chain has links")
    }
}

fn link(past: &Past, number: u64, happened: &Happened) -> Link {
    let time = happened.time;
    if let Event::CommandGiven { text } = &happened.event {
        let text = given(past, time, text);
        return Link { time, text, detail: String::new(), about: None, is_routine: false, is_command: true };
    }
    let alone = past.narrator(number).tell_alone(time, &happened.event);
    match alone.as_ref().or(happened.told.as_deref()) {
        Some(sentence) => Link {
            time,
            text: sentence.title.clone(),
            detail: sentence.detail.clone(),
            about: Some(sentence.about.clone()),
            is_routine: false,
            is_command: false,
        },
        None => Link {
            time,
            text: plain::text(&happened.event),
            detail: String::new(),
            about: None,
            is_routine: true,
            is_command: false,
        },
    }
}

/// A command as its giver: the person who watches, or a line of the scenario.
fn given(past: &Past, time: Time, text: &str) -> String {
    let session = past.present();
    let by_hand =
        session.journal().entries().iter().any(|entry| entry.place.time == time && entry.text == text);
    if by_hand {
        return format!("you gave the command: {text}");
    }
    match session.scenario_line(text) {
        Some(line) => format!("the scenario says (line {line}): {text}"),
        None => format!("the scenario says: {text}"),
    }
}
