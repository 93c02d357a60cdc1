//! `conformance`: what Apache Kafka recorded, lived again, as a table.

use std::collections::BTreeSet;
use std::io::{self, Write};

use glassbroker::conformance::{ADAPTERS, Failure as CaseFailure, Reader, reader_of};

use crate::Failure;

/// The project's own folder, which holds a recording for every adapter.
const OWN_FOLDER: &str = "tests/vectors";

/// Failures of one file that are printed.
const FIRST_FAILURES: usize = 3;

/// Prints a line for each file of recordings, then the first failures. `folder` is another one than the project's own.
///
/// # Errors
///
/// Before any case runs: a file that nothing reads, a folder without a recording that can be run, and in the project's own
/// folder an adapter without its file.
pub fn run(folder: Option<&str>, out: &mut impl Write) -> Result<(), Failure> {
    let (is_own, folder) = (folder.is_none(), folder.unwrap_or(OWN_FOLDER));
    let names = names(folder)?;
    let mut failures = Vec::new();
    for (name, reader) in readers(folder, is_own, &names)? {
        let adapter = match reader {
            Reader::Adapter(adapter) => adapter,
            Reader::Tests(tests) => {
                writeln!(out, "{name:<40} not run here, but by {tests}")?;
                continue;
            }
        };
        let file = format!("{folder}/{name}");
        let text = std::fs::read_to_string(&file).map_err(|error| Failure::File(file.clone(), error))?;
        let report = adapter(&text).map_err(|reason| Failure::Vectors { file, reason })?;
        write!(out, "{name:<40} {:>5} cases {:>5} passed", report.cases, report.passed)?;
        writeln!(out)?;
        failures.extend(report.failures.into_iter().take(FIRST_FAILURES).map(|failure| (name, failure)));
    }
    for (name, failure) in &failures {
        let CaseFailure { place, expected, got } = failure;
        writeln!(out, "{name}: {place}\n  expected {expected}\n  got      {got}")?;
    }
    out.flush()?;
    if failures.is_empty() { Ok(()) } else { Err(Failure::Cases) }
}

/// The names of what is in the folder.
fn names(folder: &str) -> Result<BTreeSet<String>, Failure> {
    let list = || -> io::Result<BTreeSet<String>> {
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        std::fs::read_dir(folder)?.map(name).collect()
    };
    list().map_err(|error| Failure::File(folder.to_owned(), error))
}

/// What reads each of the files.
fn readers<'a>(
    folder: &str,
    is_own: bool,
    names: &'a BTreeSet<String>,
) -> Result<Vec<(&'a str, Reader)>, Failure> {
    let reader = |name: &'a String| match reader_of(name) {
        Some(reader) => Ok((name.as_str(), reader)),
        None => Err(Failure::UnreadVectors(format!("{folder}/{name}"))),
    };
    let readers: Vec<_> = names.iter().map(reader).collect::<Result<_, _>>()?;
    let missing = ADAPTERS.iter().find(|(file, _)| is_own && !names.contains(*file));
    if let Some((file, _)) = missing {
        return Err(Failure::File(format!("{folder}/{file}"), io::ErrorKind::NotFound.into()));
    }
    if !readers.iter().any(|(_, reader)| matches!(reader, Reader::Adapter(_))) {
        return Err(Failure::NoVectors(folder.to_owned()));
    }
    Ok(readers)
}
