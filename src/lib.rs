//! Glassbroker: a Kafka cluster you can see through.
//!
//! Pure state machines that speak Kafka's own requests, driven by one deterministic scheduler, observed through one
//! view model, drawn by Yew. Every input from any side is one command; seed, scenario and commands are the whole run.
//!
//! The rooms, in reading order; arrows point down only (`ui, api -> view -> lab -> sim -> client -> kafka`):
//!
//! - [`kafka`]: the cluster. Requests, records, logs, replication, the controllers' quorum, groups, shared partitions,
//!   transactions, brokers.
//! - [`client`]: producers, consumers, share consumers and the administrator, as Kafka's Java clients behave or librdkafka's;
//!   the programs that they run, applications that own two of them.
//! - [`sim`]: virtual time, the network and its faults, processes, the trace and the digest.
//! - [`lab`]: what a person works with. Scenario files, commands, sessions, the time machine, comparisons, links, the
//!   narrator, the ledger, measures, why something is so, the pace.
//! - `conformance`: what Apache Kafka recorded, lived again. With the feature `native`.
//! - `swarm`: clusters drawn from seeds, hit by faults and watched from outside. With the feature `native`.
//! - `bench`: how fast it all is. With the feature `bench`.
//! - [`view`]: a session as a view model, and the words for it.
//! - `ui`: the page; `api`: the sandbox for JavaScript. Both with the feature `web`.

pub mod kafka;
pub mod client;
pub mod sim;
pub mod lab;
#[cfg(feature = "native")]
pub mod conformance;
#[cfg(feature = "native")]
pub mod swarm;
#[cfg(feature = "bench")]
pub mod bench;
pub mod view;
#[cfg(feature = "web")]
pub mod api;
#[cfg(feature = "web")]
pub mod ui;
