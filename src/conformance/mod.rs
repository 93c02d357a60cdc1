//! The cluster's rules against what Apache Kafka itself did: recorded decisions and histories, lived again.
//!
//! One function for each file of recordings (`tests/vectors/`). An adapter only translates: it drives the types that the
//! simulation runs, and compares codes and values, never the texts of messages.
//!
//! **Invariant:** a field that an adapter does not know is an error, so that nothing recorded goes unread.

use std::fmt::Debug;

pub mod controller;
pub mod coordinator;
pub mod election;
pub mod placement;
pub mod replication;

mod partition;

/// What one file of recordings came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub file: &'static str,
    pub cases: i32,
    pub passed: i32,
    /// One for each case that did not pass: the first difference in it.
    pub failures: Vec<Failure>,
}

/// The first difference in a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub case: String,
    pub expected: String,
    pub got: String,
}

/// A recording that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {source}")]
pub struct Unreadable {
    pub file: &'static str,
    pub source: serde_json::Error,
}

impl Report {
    fn new(file: &'static str) -> Report {
        Report { file, cases: 0, passed: 0, failures: Vec::new() }
    }

    /// Counts a case with its outcome.
    fn add(&mut self, case: impl Into<String>, outcome: Result<(), Difference>) {
        self.cases += 1;
        match outcome {
            Ok(()) => self.passed += 1,
            Err(Difference { place, expected, got }) => {
                let case = [case.into(), place].join(" ").trim_end().to_string();
                self.failures.push(Failure { case, expected, got });
            }
        }
    }
}

/// Where a case went another way than Kafka.
#[derive(Debug)]
struct Difference {
    /// The step, where a case has several.
    place: String,
    expected: String,
    got: String,
}

/// Compares one thing of a case.
fn same<T: PartialEq + Debug>(place: impl Into<String>, expected: &T, got: &T) -> Result<(), Difference> {
    match expected == got {
        true => Ok(()),
        false => Err(Difference {
            place: place.into(),
            expected: format!("{expected:?}"),
            got: format!("{got:?}"),
        }),
    }
}

/// Reads a recording, all of it or none.
fn read<T: serde::de::DeserializeOwned>(file: &'static str, text: &str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|source| Unreadable { file, source })
}
