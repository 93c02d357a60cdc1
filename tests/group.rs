//! The group coordinator against data recorded from Kafka 4.3.1's own classes (`tests/vectors`).

#[path = "group/administration.rs"]
mod administration;
#[path = "group/bytes.rs"]
mod bytes;
#[path = "group/cluster.rs"]
mod cluster;
#[path = "group/consumer.rs"]
mod consumer;
#[path = "group/failover.rs"]
mod failover;
#[path = "group/member.rs"]
mod member;
#[path = "group/migration.rs"]
mod migration;
#[path = "group/offsets.rs"]
mod offsets;
#[path = "group/rebalance.rs"]
mod rebalance;
#[cfg(feature = "native")]
#[path = "group/scripts.rs"]
mod scripts;
#[path = "group/share.rs"]
mod share;
#[path = "group/unwritten.rs"]
mod unwritten;
