//! What became of records, in the terminal: what is asked of a run, and what a scenario expects of it.

use std::io::Write;

use glassbroker::kafka::time::Time;
use glassbroker::lab::ledger::{Expectation, Ledger};
use glassbroker::lab::session::Session;

use crate::Failure;

/// Prints the answer to a question, such as `ledger of orders`.
pub fn ask(session: &Session, question: &str, out: &mut impl Write) -> Result<(), Failure> {
    let answer = session.ask(question).ok_or_else(|| Failure::NoQuestion(question.to_owned()))?;
    let wrong = |error| Failure::Question { question: question.to_owned(), error };
    for line in answer.map_err(wrong)? {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Says how an expectation compares with what there is; whether it holds.
pub fn compare(
    ledger: &Ledger,
    at: Time,
    expectation: &Expectation,
    out: &mut impl Write,
) -> Result<bool, Failure> {
    let observed = expectation.check(&ledger.totals());
    let example = observed.example.map(|first| format!(", first {first}")).unwrap_or_default();
    match observed.holds {
        true => writeln!(out, "{at}  as expected: {expectation}")?,
        false => writeln!(out, "{at}  expected {expectation}, and it is {}{example}", observed.number)?,
    }
    Ok(observed.holds)
}
