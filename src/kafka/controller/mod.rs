//! The controller: registration and sessions of brokers, topics, leaders and in-sync sets, as records of the metadata
//! log that every broker replays.
//!
//! Mirrors `QuorumController`, `ReplicationControlManager`, `ClusterControlManager` and `BrokerHeartbeatManager`. Each
//! controller is a voter of the quorum ([`crate::kafka::raft`]); the one that leads it is active, the others replay.
//!
//! **Invariant:** every change of the cluster's metadata is a record in the log first; the image is its replay.

pub mod image;
pub mod snapshots;
pub mod not_controller;
pub mod partition_change;
pub mod placement;
pub mod reassignment;
pub mod partitions;
pub mod alter_partition;
pub mod brokers;
pub mod elections;
pub mod reassignments;
pub mod topics;
pub mod configs;
pub mod features;

mod active;
mod admin;
mod events;
mod process;

pub use process::{Controller, ControllerSetup, ControllerTimer};
