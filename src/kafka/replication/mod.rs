//! Replicas of partitions on one broker: leading, following, the high watermark, the in-sync set, and what waits.
//!
//! Mirrors `Partition`, `Replica`, `ReplicaManager`, `ReplicaFetcherThread`, `FetchManager` with its sessions and the
//! purgatories (section 2 of the reference).
//!
//! **Invariant:** on a leader, the high watermark never passes the log end of a replica that is, or may be, in sync.

pub mod context;
pub mod fetcher;
pub mod isr;
pub mod leader;
pub mod manager;
pub mod partition;
pub mod purgatory;
pub mod session;
pub mod session_cache;

mod cleaner;
mod delete_records;
mod disk;
mod fetch;
mod late_transactions;
mod list_offsets;
mod log_manager;
mod lookup;
mod markers;
mod offsets_for_leader_epoch;
#[cfg(test)]
mod tests;
mod produce;
mod producer_checks;
mod selector;

pub use disk::{LogDirectory, Lost};
pub use lookup::Lookup;
pub use manager::ReplicaManager;
pub use partition::{Partition, Role};
pub use produce::{NamedTopic, Verified, is_internal};
pub use purgatory::PendingMarker;
