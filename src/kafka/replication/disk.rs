//! A broker's log directory: the partitions' logs, and the checkpoint files beside them.
//!
//! Mirrors what `LogManager` and `ReplicaManager` find when a broker starts.

use std::collections::BTreeMap;

use crate::kafka::log::Log;
use crate::kafka::types::{Offset, TopicId, TopicPartition};

/// After a kill the page cache is written out by the system, so nothing that was appended is missing; the high watermark
/// is what was last checkpointed.
#[derive(Clone, Debug, Default)]
pub struct LogDirectory {
    pub logs: BTreeMap<TopicPartition, (TopicId, Log)>,
    /// `replication-offset-checkpoint`
    pub high_watermarks: BTreeMap<TopicPartition, Offset>,
    /// `cleaner-offset-checkpoint`
    pub cleaned: BTreeMap<TopicPartition, Offset>,
}
