//! `run` and `check`: a scenario's narrative, and what a scenario is.

use std::collections::BTreeSet;
use std::io::Write;

use glassbroker::lab::scenario::classroom_settings;
use glassbroker::lab::words::count;
use glassbroker::view::rules::rule;

use crate::{Arguments, DEFAULT_TIME, Failure, ledger, open};

/// Prints each sentence as it is told, and the rules that they rest on if that is wanted.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    const EVENTS_AT_A_TIME: u64 = 1000;
    let mut session = open(arguments)?;
    let expected = session.scenario().expected.clone();
    let last = expected.last().map_or(DEFAULT_TIME, |(at, _)| *at);
    let until = arguments.until.unwrap_or(last);
    let mut expected = expected.iter().peekable();
    let (mut reached, mut printed, mut missed) = (false, 0, 0);
    let mut cited = BTreeSet::new();
    while !reached {
        let next = expected.peek().map_or(until, |(at, _)| until.min(*at));
        let is_there = session.run_until(next, EVENTS_AT_A_TIME);
        for (number, sentence) in session.narrative().since(printed) {
            writeln!(out, "{sentence}")?;
            cited.extend(sentence.rules);
            printed = number;
        }
        while let Some((at, expectation)) = expected.next_if(|(at, _)| is_there && *at <= next) {
            missed += i64::from(!ledger::compare(session.ledger(), *at, expectation, out)?);
        }
        reached = is_there && next == until;
    }
    for (at, expectation) in expected {
        writeln!(out, "{at}  expected {expectation}: the run ends before")?;
        missed += 1;
    }
    for question in &arguments.questions {
        ledger::ask(&session, question, out)?;
    }
    if arguments.explain {
        for id in cited {
            let rule = rule(id).ok_or_else(|| Failure::NoRule(id.to_owned()))?;
            writeln!(out, "{id}  {} ({})", rule.sentence, rule.source)?;
        }
    }
    writeln!(out, "digest {:016x}", session.digest())?;
    match missed {
        0 => Ok(()),
        missed => Err(Failure::Expectations(missed)),
    }
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
