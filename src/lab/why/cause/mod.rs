//! What an event came of: first by what made its condition true, else by the steps that led to it.
//!
//! A check that comes round every second is no reason for what it finds: the reason is why it finds it. So each kind of event
//! has a rule for the event that made its condition true, where there is one; what was sent, answered or called for is told by
//! the step that scheduled the step.
//!
//! - [`cluster`]: processes, links, the quorum, brokers in service
//! - [`partition`]: leaders, in-sync sets, logs
//! - [`group`]: coordinators and members
//! - [`client`]: batches, positions, polls
//! - [`ending`]: transactions and share groups
//! - [`kin`]: which of several events is about the same thing
//!
//! **Invariant:** a cause is before its effect.

pub mod client;
pub mod cluster;
pub mod ending;
pub mod group;
pub mod kin;
pub mod partition;

use std::mem::discriminant;

use super::past::Past;
use crate::kafka::event::Event;
use crate::lab::command::{Written, parse};
use crate::sim::Command;

/// The event that this one came of; `None` if it is of the run's begin, or what a person did.
pub fn of(past: &Past, number: u64) -> Option<u64> {
    let event = &past.get(number)?.event;
    if let Event::CommandGiven { .. } = event {
        return None;
    }
    by_rule(past, number, event).filter(|cause| *cause < number).or_else(|| by_steps(past, number, event))
}

fn by_rule(past: &Past, number: u64, event: &Event) -> Option<u64> {
    match event {
        Event::Group(event) => group::of_coordinator(past, number, event),
        Event::Transaction(event) => ending::of_transaction(past, number, event),
        Event::Share(event) => ending::of_share(past, number, event),
        event => cluster::of(past, number, event)
            .or_else(|| partition::of(past, number, event))
            .or_else(|| group::of_member(past, number, event))
            .or_else(|| client::of(past, number, event)),
    }
}

/// By the steps alone: what happened before in the same step, else in the nearest one that led here.
fn by_steps(past: &Past, number: u64, event: &Event) -> Option<u64> {
    let is_other =
        |cause: &u64| past.get(*cause).is_some_and(|other| discriminant(&other.event) != discriminant(event));
    let beside = past.beside(number);
    if let Some(first) = beside.iter().copied().find(is_other) {
        return Some(kin::nearest(past, event, &beside).filter(is_other).unwrap_or(first));
    }
    let before = past.led_here(number);
    kin::nearest(past, event, &before).or(before.last().copied())
}

/// The newest command before that event that fits.
fn command(past: &Past, number: u64, fits: impl Fn(&Command) -> bool) -> Option<u64> {
    past.last(number, |event| match event {
        Event::CommandGiven { text } => matches!(parse(text), Ok(Written::Whole(command)) if fits(&command)),
        _ => false,
    })
}
