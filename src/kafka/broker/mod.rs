//! One broker process: routes requests to its parts (`dispatch`) and keeps them in step with the metadata log.
//!
//! Mirrors `BrokerServer`, `KafkaApis` and `BrokerMetadataPublisher`.
//!
//! **Invariant:** what the broker knows of the cluster is the replay of the metadata log up to `image.next_offset`.

pub mod timer;

mod add_partitions;
mod admin;
mod config_helper;
mod configs;
mod alter_partition;
mod connections;
mod disk;
mod dispatch;
mod groups;
mod lifecycle;
mod log_tasks;
mod markers;
mod metadata;
mod persister;
mod process;
mod produce;
mod producer_ids;
mod share_state;
mod shares;
mod share_offsets;
mod end_offsets;
mod transactions;

pub use disk::Disk;
pub use lifecycle::BrokerState;
pub use process::{Broker, BrokerSetup};
pub use share_state::SHARE_STATE_TOPIC;
pub use transactions::TRANSACTION_STATE_TOPIC;
