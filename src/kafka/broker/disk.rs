//! What outlives a broker's process.

use crate::kafka::raft::RaftDisk;
use crate::kafka::replication::LogDirectory;
use crate::kafka::types::BrokerEpoch;

#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub replicas: LogDirectory,
    /// `__cluster_metadata`, as far as this broker had read it.
    pub metadata: RaftDisk,
    /// The clean-shutdown file: the epoch of the broker that last stopped in order (R-REPL-56).
    pub clean_shutdown: Option<BrokerEpoch>,
}
