//! `run` and `check`: a scenario's narrative, and what a scenario is.

use std::collections::BTreeSet;
use std::io::Write;

use glassbroker::lab::scenario::classroom_settings;
use glassbroker::lab::words::count;
use glassbroker::view::rules::rule;

use crate::{Arguments, Failure, open};

/// Prints each sentence as it is told, and the rules that they rest on if that is wanted.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    const EVENTS_AT_A_TIME: u64 = 1000;
    let mut session = open(arguments)?;
    let mut reached = false;
    let mut printed = 0;
    let mut cited = BTreeSet::new();
    while !reached {
        reached = session.run_until(arguments.until, EVENTS_AT_A_TIME);
        for (number, sentence) in session.narrative().since(printed) {
            writeln!(out, "{sentence}")?;
            cited.extend(sentence.rules);
            printed = number;
        }
    }
    if arguments.explain {
        for id in cited {
            let rule = rule(id).ok_or_else(|| Failure::NoRule(id.to_owned()))?;
            writeln!(out, "{id}  {} ({})", rule.sentence, rule.source)?;
        }
    }
    writeln!(out, "digest {:016x}", session.digest())?;
    Ok(())
}

pub fn check(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let session = open(arguments)?;
    let scenario = session.scenario();
    let parts = [
        count(scenario.brokers.len() as i64, "broker"),
        count(scenario.topics.len() as i64, "topic"),
        count(scenario.producers.len() as i64, "producer"),
        count(scenario.consumers.len() as i64, "consumer"),
        count(scenario.at.len() as i64, "timed command"),
    ];
    writeln!(out, "a scenario with {}", parts.join(", "))?;
    for setting in classroom_settings(scenario) {
        writeln!(out, "{setting}")?;
    }
    Ok(())
}
