//! The controller: registration and sessions of brokers, topics, leaders and in-sync sets, as records of the metadata
//! log that every broker replays.
//!
//! Mirrors `QuorumController`, `ReplicationControlManager`, `ClusterControlManager` and `BrokerHeartbeatManager`. Each
//! controller is a voter of the quorum ([`crate::kafka::raft`]); the one that leads it is active, the others replay.
//!
//! **Invariant:** every change of the cluster's metadata is a record in the log first; the image is its replay.

pub mod image;
pub mod not_controller;
pub mod partition_change;
pub mod placement;

mod active;
mod alter_partition;
mod brokers;
mod events;
mod process;
mod topics;

pub use process::{Controller, ControllerSetup, ControllerTimer};
