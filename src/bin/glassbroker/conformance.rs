//! `conformance`: what Apache Kafka recorded, lived again, as a table.

use std::io::Write;

use glassbroker::conformance::{ADAPTERS, Failure as CaseFailure};

use crate::Failure;

/// Failures of one file that are printed.
const FIRST_FAILURES: usize = 3;

/// Prints a line for each file of recordings, then the first failures.
pub fn run(folder: &str, out: &mut impl Write) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for (name, adapter) in ADAPTERS {
        let file = format!("{folder}/{name}");
        let text = std::fs::read_to_string(&file).map_err(|error| Failure::File(file.clone(), error))?;
        let report = adapter(&text).map_err(|reason| Failure::Vectors { file, reason })?;
        writeln!(out, "{name:<40} {:>5} cases {:>5} passed", report.cases, report.passed)?;
        failures.extend(report.failures.into_iter().take(FIRST_FAILURES).map(|failure| (name, failure)));
    }
    for (name, failure) in &failures {
        let CaseFailure { place, expected, got } = failure;
        writeln!(out, "{name}: {place}\n  expected {expected}\n  got      {got}")?;
    }
    out.flush()?;
    if failures.is_empty() { Ok(()) } else { Err(Failure::Cases) }
}
