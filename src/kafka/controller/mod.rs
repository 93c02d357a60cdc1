//! The controller: registration and sessions of brokers, topics, leaders and in-sync sets, as records of the metadata
//! log that every broker replays.
//!
//! Mirrors `QuorumController`, `ReplicationControlManager`, `ClusterControlManager` and `BrokerHeartbeatManager`.
//! One controller is its own quorum here: a record is committed when it is appended.
//!
//! **Invariant:** every change of the cluster's metadata is a record in the log first; the image is its replay.

pub mod image;
pub mod metadata_log;
pub mod partition_change;
pub mod placement;
pub mod reassignment;
pub mod partitions;
pub mod alter_partition;
pub mod brokers;
pub mod elections;
pub mod reassignments;
pub mod topics;

mod admin;
mod events;
mod process;

pub use metadata_log::MetadataLog;
pub use process::{Controller, ControllerTimer, METADATA_TOPIC_ID};
