//! The swarm: clusters drawn from seeds, hit by faults, watched from outside.
//!
//! A seed gives the topology, the topics, the clients ([`plan`], [`producers`], [`programs`], [`shares`], [`transactions`]),
//! every fault ([`acts`]) and what an administrator does ([`errands`]); [`watch`] holds each step to the rules; at the end all
//! faults heal, the cluster must come to rest ([`rest`]) and its logs hold what was promised ([`order`]). A failure names the
//! seed, which is the whole run.
//!
//! The watch also holds the ledger of [`crate::lab`] to what is in the logs.
//!
//! Whether the watch can fail is shown by faults that are planted in the engine itself, in a build with the feature
//! `plant` ([`crate::kafka::plant`]): each must be found by a rule that is there anyway.

pub mod acts;
pub mod check;
pub mod counts;
pub mod errands;
pub mod finders;
pub mod order;
pub mod plan;
pub mod pool;
pub mod producers;
pub mod programs;
pub mod rest;
pub mod run;
pub mod shares;
pub mod transactions;
pub mod watch;

pub use check::Check;
pub use counts::Counts;
pub use pool::{Order, Sum};
pub use run::{Calm, Fault};
