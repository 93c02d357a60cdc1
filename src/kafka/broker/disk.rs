//! What outlives a broker's process.

use crate::kafka::raft::RaftDisk;
use crate::kafka::replication::{LogDirectory, Lost};
use crate::kafka::time::Time;
use crate::kafka::types::BrokerEpoch;

#[derive(Clone, Debug, Default)]
pub struct Disk {
    pub replicas: LogDirectory,
    /// `__cluster_metadata`, as far as this broker had read it.
    pub metadata: RaftDisk,
    /// The clean-shutdown file: the epoch of the broker that last stopped in order (R-REPL-56).
    pub clean_shutdown: Option<BrokerEpoch>,
}

impl Disk {
    /// The power fails: what was not flushed is gone. A broker does not flush the metadata log that it follows.
    pub fn lose_unflushed(&mut self, now: Time) -> Lost {
        self.metadata.log.lose_unflushed(now);
        self.replicas.lose_unflushed(now)
    }
}
