//! The text form of commands: verb first, one line, the same words from file, link, key, palette and test.
//!
//! [`FORMS`] lists them all, such as `kill broker 2` or `reassign orders-0 to 3,1,2`.
//!
//! A client may be added with less than that; [`Written`] then holds what was said and [`Clients`] completes it.
//!
//! A [`Question`] is written the same way and has an answer instead of an effect.
//!
//! **Invariant:** [`parse`] of [`print`] is the command itself.

mod application;
mod complete;
mod consumers;
mod datetime;
mod features;
mod forms;
mod groups;
mod parse;
mod print;
mod program;
mod question;
mod share;
#[cfg(test)]
mod tests;
mod tokens;
mod transactions;
mod why;
mod words;

pub use complete::{Clients, ConsumerDraft, ProducerDraft, Written};
pub(super) use complete::{default_keys, default_program, default_rate};
pub use forms::{FORMS, Form};
pub use parse::parse;
pub(in crate::lab) use print::duration;
pub use print::print;
pub use question::{Question, is_question};
pub(super) use share::default_program as default_share_program;
pub use tokens::quote;
pub use why::Why;

/// Why a text is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}")]
pub struct CommandError {
    /// Counted from 1, in characters.
    pub column: i32,
    pub reason: String,
}

impl CommandError {
    pub fn new(column: i32, reason: impl Into<String>) -> CommandError {
        CommandError { column, reason: reason.into() }
    }
}
