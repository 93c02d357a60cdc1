//! The quorum that keeps the metadata log: a Raft of Kafka's kind, in which followers pull (KIP-595, KIP-996).
//!
//! Mirrors `KafkaRaftClient` and `QuorumState`. Controllers are voters; brokers are observers, which follow the log and
//! never vote. [`RaftClient`] is one replica: its log, its state in the quorum and its connections to the voters.
//!
//! **Invariant:** an epoch has at most one leader, and what is below a replica's high watermark never changes.

mod client;
mod describe;
mod leader;
mod log;
mod messages;
mod requests;
mod responses;
mod snapshot;
mod state;
mod transitions;

pub use client::{RaftClient, RaftDisk, RaftSetup, RaftTimer};
pub use describe::{QuorumStatus, ReplicaStatus, describe_quorum_request, quorum_error, quorum_status};
pub use leader::Progress;
pub use log::{METADATA_TOPIC_ID, MetadataLog, Next, says_anything};
pub use snapshot::{Snapshot, SnapshotId};
pub use state::{ElectionState, QuorumRole};
