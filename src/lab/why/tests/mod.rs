//! Chains of every kind of event, the questions that are asked most, and what idle ones wait for.

mod kinds;
mod learner;
mod questions;
mod waits;

use std::path::PathBuf;

use super::*;
use crate::kafka::time::Time;
use crate::lab::session::{Options, Session};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/lab/why/tests/runs")
}

fn open(name: &str) -> Session {
    let path = folder().join(name).with_extension("toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Session::open(&text, Options::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A run with these commands of a person, up to a moment.
fn run(name: &str, steps: &[(i64, &str)], until_ms: i64) -> Session {
    let mut session = open(name);
    for (ms, command) in steps {
        session.run_until(Time::from_ms(*ms), u64::MAX);
        session.command(command).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    session.run_until(Time::from_ms(until_ms), u64::MAX);
    session
}
