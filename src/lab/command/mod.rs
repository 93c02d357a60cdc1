//! The text form of commands: verb first, one line, the same words from file, link, key, palette and test.
//!
//! ```text
//! kill broker 3                      freeze consumer-b             cut broker 3 from controller 101
//! cut power of broker 3              wipe disk of broker 3         heal broker 3 from controller 101
//! stop broker 3                      start broker 3                elect preferred leader orders-0
//! slow broker 2 to broker 3 by 200ms           set clock of broker 2 ahead by 5min
//! stop controller 101
//! add broker 4 rack d                pause checkout-api            close consumer-a
//! add producer NAME to TOPIC rate 12/s keys "cart-{0..7}" acks=1
//! add consumer NAME to GROUP topics orders program "poll; process 20ms; commit" auto.offset.reset=earliest
//! create topic NAME partitions 3 replication-factor 3 min.insync.replicas=2
//! add partitions to NAME up to 6     delete topic NAME             elect unclean leaders
//! delete records of NAME-0 before 40 delete records of NAME-0
//! reassign NAME-0 to 3,1,2           cancel reassignment NAME-0
//! set topic NAME min.insync.replicas=1          unset topic NAME min.insync.replicas
//! set broker 2 message.max.bytes=100000         unset broker 2 message.max.bytes
//! set cluster min.insync.replicas=2             unset cluster message.max.bytes
//! describe topic NAME                describe broker 2             describe cluster
//! describe quorum
//! ```
//!
//! A client may be added with less than that; [`Written`] then holds what was said and [`Clients`] completes it.
//!
//! **Invariant:** [`parse`] of [`print`] is the command itself.

mod complete;
mod parse;
mod print;
#[cfg(test)]
mod tests;
mod tokens;

pub use complete::{Clients, ConsumerDraft, ProducerDraft, Written};
pub(super) use complete::{default_keys, default_program, default_rate};
pub use parse::parse;
pub use print::print;
pub use tokens::quote;

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
