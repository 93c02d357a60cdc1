//! The simulator: one deterministic scheduler under all nodes.
//!
//! It owns virtual time, the random streams, the network with its faults, and the processes; it carries out the effects
//! that they push and keeps the trace and the digest of what happened.
//!
//! **Invariant:** seed, configuration and commands with their places determine every event.

pub mod command;
pub mod digest;
pub mod network;
pub mod process;
pub mod trace;
pub mod world;

mod agenda;
mod carry;
mod faults;
mod orders;

pub use command::{Command, Refusal, Target};
pub use digest::Digest;
pub use network::{Flight, Packet};
pub use process::{Machine, Process, ProcessState, Remains};
pub use trace::{Key, Trace, TraceEntry};
pub use world::{ADMIN, World, WorldConfig};
