//! `compare`: a scenario, and the same with one thing changed.

use std::io::Write;

use glassbroker::lab::compare::Comparison;
use glassbroker::lab::journal::Journal;

use crate::{Arguments, DEFAULT_TIME, Failure, open};

/// Prints what differs after so much virtual time.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let session = open(arguments)?;
    let change = arguments.change.as_ref().ok_or(Failure::NoChange)?;
    let mut comparison = Comparison::of_change(&session, &Journal::default(), change)?;
    comparison.run(arguments.until.unwrap_or(DEFAULT_TIME), u64::MAX);
    for line in comparison.tell() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
