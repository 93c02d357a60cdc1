//! What a person works with: scenario, commands, journal, session, history, comparisons, links, narrator, ledger, measures, why,
//! pace and footprint.
//!
//! **Invariant:** everything a person can do here is a command, and seed, scenario and commands are the whole run.

pub mod words;
pub mod command;
pub mod scenario;
pub mod narrator;
pub mod ledger;
pub mod measures;
pub mod narrative;
pub mod pace;
pub mod journal;
pub mod history;
pub mod compare;
pub mod link;
pub mod boot;
pub mod session;
pub mod why;
pub mod footprint;
