//! Share groups (KIP-932): records that are handed out one by one, under a lock, to whoever of the group asks.
//!
//! - [`partition`]: one partition as one group shares it, on the partition's leader. What is handed out, for how long,
//!   and what is done.
//! - [`manager`]: the share partitions of a broker, the sessions of those who read them, fetches that wait.
//! - [`coordinator`]: what is done, persisted in `__share_group_state` for the leaders to come.
//!
//! **Invariant:** nothing here sends or waits. What must be persisted is returned as data, and its outcome is told back.

pub mod range;
pub mod state;
pub mod key;
pub mod partition;
pub mod sessions;
pub mod manager;
pub mod coordinator;

pub use coordinator::ShareCoordinator;
pub use key::ShareKey;
pub use manager::SharePartitionManager;
pub use partition::SharePartition;
pub use range::OffsetRange;
pub use state::{AcknowledgeType, RecordState, StateBatch};
