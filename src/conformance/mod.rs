//! Histories that Apache Kafka itself recorded, lived again by the types that the simulation runs.
//!
//! One adapter a file of vectors. An adapter only translates: it reads a case, drives the real thing, and compares what
//! came out, codes and values but no message texts.
//!
//! | file | what is compared | left out |
//! | --- | --- | --- |
//! | 02 group coordinator | hash, absolute value, partition of each count | nothing |
//! | 03 record batches | bytes where the file calls them exact, else every field; checksums, errors, sizes, sequences | `note`: says for readers what a case is about |
//! | 04a to 04d client assignors | each plan, with the order of each list; for cooperative sticky what is added and revoked | `order_sensitive`, `ghost_ownership`: say what a case is about; such cases are run like the others |
//! | 05a, 05b server assignors | each target assignment | `event`, `member_order_sensitive`, `topic_id_hash_sensitive`: say how the case was made up |
//! | 06a classic groups | answers, timers that ran out, the group after each step | `what`: says for readers what a script is about |
//! | 06b consumer groups | answers with their sentences, the group, its members and their deadlines after each step | `what`: says for readers what a script is about |
//! | 07a replica placement | replica lists, the bounds of the draws, the refusal | `random`: which generator drew; `draws` says what it drew |
//! | 07b leader election | whether a record is written, the partition afterwards | nothing |
//! | 07c controller | answers, every partition after each step, brokers fenced and stopping | nothing |
//! | 08a producer state | outcome of each step, producers, offsets | `kind`: how the step was made up, its fields say all of it; `message`: the text of an exception, its class is compared |
//! | 08b transactions | offsets, segments, and what each fetch returns and shows | nothing |
//! | 08c leader epochs | entries after each step, answers | nothing |
//! | 08d compaction | every batch and record that each cleaning leaves, and its segment | nothing |
//! | 08e segments | outcome of each step, segments with their sizes, offsets, lookups by time | nothing |
//! | 08f transactions, version 1 | each answer, the transaction and the logs after each step | `what`: says for readers what a script is about; `why` of a pause |
//! | 11a sticky partitioner | each partition, each switch, the bound of weighted draws, how many numbers were drawn | nothing |
//! | 11b protocol bytes | bytes and fields of subscriptions, assignments and records of `__consumer_offsets` and `__transaction_state` | nothing |
//! | 11c Java's hash order | the order of maps and sets, hashes, the order of topic ids | nothing |
//! | 13 transactions, version 2 | the same, and what consumers read | `what`, `why`; `transient_answers_before`: what was asked again until it was over; the logs and partitions between an end and its markers; `server_configs`: what the servers were told is built in |
//! | 12 replication | answers, requests for other in-sync sets, the leader's state after each step | nothing |
//!
//! Of every header `kafka_version`, `classes`, `seed` and `how` are left out: they say where the file comes from. Recordings of
//! whole clusters and of clients are lived by tests that have those ([`ELSEWHERE`]).
//!
//! **Invariant:** a field that an adapter does not know is an error, and so is a file that neither table names, so nothing
//! recorded goes unread by accident.

mod values;
mod history;
mod record_batches;
mod producer_state;
mod transactions;
mod transaction_scripts;
mod leader_epochs;
mod compaction;
mod segments;
mod coordinator;
mod placement;
mod partition;
mod election;
mod controller;
mod replication;
mod java_order;
mod client_assignors;
mod server_assignors;
mod consumer_groups;
mod protocol_bytes;
mod classic_group;
mod sticky_partitioner;

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Reads a file's text and runs its cases.
pub type Adapter = fn(&str) -> Result<Report, ConformanceError>;

/// Each file by its name, with what runs it.
pub const ADAPTERS: &[(&str, Adapter)] = &[
    ("02_group_coordinator_partition.json", coordinator::run),
    ("03_record_batches.json", record_batches::run),
    ("04a_range_assignor.json", client_assignors::range),
    ("04b_roundrobin_assignor.json", client_assignors::round_robin),
    ("04c_sticky_assignor.json", client_assignors::sticky),
    ("04d_cooperative_sticky_assignor.json", client_assignors::cooperative_sticky),
    ("05a_uniform_assignor_kip848.json", server_assignors::uniform),
    ("05b_range_assignor_kip848.json", server_assignors::range),
    ("06a_group_classic_protocol.json", classic_group::run),
    ("06b_group_consumer_protocol_kip848.json", consumer_groups::run),
    ("07a_replica_placement.json", placement::run),
    ("07b_leader_election.json", election::run),
    ("07c_controller_scripts.json", controller::run),
    ("08a_producer_state.json", producer_state::run),
    ("08b_transactions_lso.json", transactions::run),
    ("08c_leader_epochs.json", leader_epochs::run),
    ("08d_compaction.json", compaction::run),
    ("08e_segments_retention.json", segments::run),
    ("08f_transaction_coordinator.json", transaction_scripts::version_1),
    ("11a_sticky_partitioner.json", sticky_partitioner::run),
    ("11b_protocol_bytes.json", protocol_bytes::run),
    ("11c_java_hash_order.json", java_order::run),
    ("12_replication_isr_hw.json", replication::run),
    ("13_transactions_tv2.json", transaction_scripts::version_2),
];

/// Each file that has no adapter, with the tests that live it.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("10_performance_reference.json", "src/bench/assign.rs"),
    ("14_share_groups.json", "src/kafka/broker/shares/tests/recorded.rs"),
    ("15_quorum.json", "tests/scenario/quorum_vector.rs"),
    ("16_live_scenarios.json", "tests/scenario/live/mod.rs"),
    ("murmur2_partitioner.json", "src/client/partitioner.rs"),
];

/// What reads a file of recordings.
#[derive(Clone, Copy, Debug)]
pub enum Reader {
    Adapter(Adapter),
    /// The tests in this file.
    Tests(&'static str),
}

/// What reads the file of this name, if anything does.
pub fn reader_of(name: &str) -> Option<Reader> {
    let adapter =
        ADAPTERS.iter().find(|(file, _)| *file == name).map(|(_, adapter)| Reader::Adapter(*adapter));
    let tests = || ELSEWHERE.iter().find(|(file, _)| *file == name).map(|(_, tests)| Reader::Tests(tests));
    adapter.or_else(tests)
}

/// A file that is not what the adapter knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConformanceError {
    #[error("{0}")]
    Json(String),
    #[error("the header counts {stated} cases, the file holds {found}")]
    Count { stated: i64, found: i64 },
}

/// How a file's cases went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub file: String,
    pub cases: i64,
    pub passed: i64,
    /// In the file's order.
    pub failures: Vec<Failure>,
}

/// A case whose outcome is not Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The case, and the step in it.
    pub place: String,
    pub expected: String,
    pub got: String,
}

impl Failure {
    fn within(self, case: &str) -> Failure {
        Failure { place: format!("{case}: {}", self.place), ..self }
    }
}

impl Report {
    fn new(file: &str) -> Report {
        Report { file: file.to_owned(), cases: 0, passed: 0, failures: Vec::new() }
    }

    fn case(&mut self, outcome: Result<(), Failure>) {
        self.cases += 1;
        match outcome {
            Ok(()) => self.passed += 1,
            Err(failure) => self.failures.push(failure),
        }
    }

    /// The report, if the file held as many cases as its header says.
    fn finish(self, header: &Header) -> Result<Report, ConformanceError> {
        let stated = header.counts.values().sum();
        match self.cases {
            found if found == stated => Ok(self),
            found => Err(ConformanceError::Count { stated, found }),
        }
    }
}

/// What every file says about itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    #[serde(rename = "kafka_version")]
    _kafka_version: IgnoredAny,
    #[serde(rename = "classes")]
    _classes: IgnoredAny,
    #[serde(rename = "seed")]
    _seed: IgnoredAny,
    #[serde(rename = "how")]
    _how: IgnoredAny,
    counts: BTreeMap<String, i64>,
    /// Only in recordings of clusters.
    #[serde(rename = "server_configs")]
    _server_configs: Option<IgnoredAny>,
    /// Only in the file of record batches.
    corrupt_base_hex: Option<values::Hex>,
    /// Only in the file of coordinators' partitions.
    partition_counts: Option<Vec<i32>>,
}

/// A file of cases; some call them scripts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording<T> {
    header: Header,
    #[serde(alias = "scripts")]
    cases: Vec<T>,
}

/// A file of cases, each by itself, and of chains of such.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chained<T, C> {
    header: Header,
    cases: Vec<T>,
    chains: Vec<C>,
}

/// Runs a file of cases; `check` refuses a case that is none of its kind, and otherwise says how it went.
fn run_cases<T: DeserializeOwned>(
    text: &str,
    file: &str,
    check: impl Fn(&Header, &T) -> Result<Result<(), Failure>, ConformanceError>,
) -> Result<Report, ConformanceError> {
    let recording: Recording<T> = parse(text)?;
    let mut report = Report::new(file);
    for (number, case) in recording.cases.iter().enumerate() {
        let outcome = check(&recording.header, case)?;
        report.case(outcome.map_err(|failure| failure.within(&format!("case {number}"))));
    }
    report.finish(&recording.header)
}

/// Runs a file of cases and of chains of cases, which each say their name when they fail.
fn run_chained<T: DeserializeOwned, C: DeserializeOwned>(
    text: &str,
    file: &str,
    single: impl Fn(&T) -> Result<(), Failure>,
    chain: impl Fn(&C) -> Result<(), Failure>,
) -> Result<Report, ConformanceError> {
    let recording: Chained<T, C> = parse(text)?;
    let mut report = Report::new(file);
    recording.cases.iter().for_each(|case| report.case(single(case)));
    recording.chains.iter().for_each(|steps| report.case(chain(steps)));
    report.finish(&recording.header)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ConformanceError> {
    serde_json::from_str(text).map_err(|error| ConformanceError::Json(error.to_string()))
}

fn check<T: PartialEq + Debug>(place: impl FnOnce() -> String, expected: &T, got: &T) -> Result<(), Failure> {
    if expected == got {
        return Ok(());
    }
    Err(Failure { place: place(), expected: format!("{expected:?}"), got: format!("{got:?}") })
}
