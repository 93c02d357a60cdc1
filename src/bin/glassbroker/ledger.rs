//! What became of records, in the terminal: in numbers, one by one, and beside what a scenario expects.

use std::io::Write;

use glassbroker::kafka::time::Time;
use glassbroker::lab::ledger::{Count, Example, Expectation, GroupCount, Ledger};

use crate::Failure;

/// Prints what is not nothing, topic by topic and group by group.
pub fn totals(ledger: &Ledger, out: &mut impl Write) -> Result<(), Failure> {
    let totals = ledger.totals();
    for (topic, of_topic) in &totals.topics {
        writeln!(out, "records of {topic}")?;
        for count in Count::ALL {
            line(count.name(), of_topic.count(*count), of_topic.first(*count), out)?;
        }
    }
    for ((group, topic), of_group) in &totals.groups {
        writeln!(out, "group {group} and the records of {topic}")?;
        for count in GroupCount::ALL {
            line(count.name(), of_group.count_of(*count), of_group.first_of(*count), out)?;
        }
    }
    if totals.forgotten > 0 {
        writeln!(out, "{} of these are counted as they stood when the ledger let them go", totals.forgotten)?;
    }
    Ok(())
}

fn line(name: &str, number: i64, first: Option<&Example>, out: &mut impl Write) -> Result<(), Failure> {
    if let Some(first) = first {
        writeln!(out, "  {name:<18}{number:>8}  first {first}")?;
    }
    Ok(())
}

/// Tells one record's story.
pub fn story(ledger: &Ledger, name: &str, out: &mut impl Write) -> Result<(), Failure> {
    let story = ledger.story_named(name).ok_or_else(|| Failure::NoRecord(name.to_owned()))?;
    writeln!(out, "{}", story.title)?;
    for line in &story.lines {
        writeln!(out, "  {}  {}", line.at.time, line.text)?;
    }
    for sentence in &story.now {
        writeln!(out, "  {sentence}")?;
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
