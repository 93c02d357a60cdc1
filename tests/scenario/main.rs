//! Worked examples and rules as scenarios: a cluster, a few acts, and what must be seen.
#![cfg(not(target_arch = "wasm32"))]

mod dsl;

mod administration;
mod asked;
mod availability;
mod bad_input;
mod clocks;
mod compaction;
mod configs;
mod connections;
mod consumer_protocol;
mod coordinators;
mod delete_records;
mod delivery;
mod describe_quorum;
mod determinism;
mod durability;
mod exactly_once;
mod fetch_sessions;
mod fetching;
mod group_admin;
mod groups;
mod ledger;
mod guarantees;
mod lifecycle;
mod live;
mod outlived;
mod placement;
mod positions;
mod power;
mod producing;
mod programs;
mod quorum;
mod quorum_vector;
mod racks;
mod rebalances;
mod replication;
mod retention;
mod share_admin;
mod share_consumers;
mod sharing;
mod snapshots;
mod transaction_admin;
mod transactions;
