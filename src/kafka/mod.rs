//! The cluster itself: brokers and controllers as pure state machines that speak Kafka's own requests.
//!
//! **Invariant:** nothing here knows the simulator, a clock, a socket or a browser; a handler gets `now` and an input
//! and pushes effects.

pub mod rules;
pub mod types;
pub mod topic_name;
pub mod time;
pub mod random;
pub mod backoff;
pub mod plant;
pub mod protocol;
pub mod event;
pub mod effects;
pub mod network_client;
pub mod partition_map;
pub mod fetch_session;
pub mod config;
pub mod record;
pub mod log;
pub mod api_versions;
pub mod envelope;
pub mod raft;
pub mod controller;
pub mod group;
pub mod share;
pub mod transaction;
pub mod replication;
pub mod broker;
