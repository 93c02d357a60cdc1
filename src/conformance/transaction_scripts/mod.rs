//! `08f_transaction_coordinator.json` and `13_transactions_tv2.json`: producers' requests one by one, at transaction version
//! 1 and at version 2, with clients of either kind (R-TXN-5 to R-TXN-26, R-TXN-33).
//!
//! **Invariant:** every answer is Kafka's, and what is known of the transaction and of the logs afterwards; of an end that
//! nobody waited for only the state is, as the recording looks somewhere between its markers.

mod world;

use serde::Deserialize;
use serde::de::IgnoredAny;

use self::world::World;
use super::{ConformanceError, Failure, Report, check, run_cases};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::transaction::{TransactionState, TransactionVersion};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    name: String,
    #[serde(rename = "what")]
    _what: IgnoredAny,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Step {
    InitProducerId(Seen<Init, Producer>),
    AddPartitions(Seen<AddPartitions, Added>),
    AddOffsets(Seen<AddOffsets, Answer>),
    Produce(Seen<Produce, Produced>),
    EndTxn(Seen<EndTxn, Producer>),
    TxnOffsetCommit(Seen<TxnOffsetCommit, Answer>),
    OffsetFetch(Seen<OffsetFetch, Fetched>),
    DescribeProducers(Seen<DescribeProducers, Producers>),
    Consume(Seen<Consume, Consumed>),
    Sleep(Seen<Sleep, Nothing>),
}

/// A request, its answer, and what is seen afterwards.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen<A, R> {
    args: A,
    response: R,
    transaction: Transaction,
    log: Vec<LogEnds>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Init {
    version: Option<i16>,
    transactional_id: String,
    timeout_ms: i32,
    producer: i64,
    epoch: i16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddPartitions {
    version: Option<i16>,
    transactional_id: String,
    producer: i64,
    epoch: i16,
    partitions: Vec<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddOffsets {
    transactional_id: String,
    producer: i64,
    epoch: i16,
    group: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Produce {
    version: Option<i16>,
    transactional: bool,
    producer: i64,
    epoch: i16,
    sequence: i32,
    partition: i32,
    records: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndTxn {
    version: Option<i16>,
    transactional_id: String,
    producer: i64,
    epoch: i16,
    commit: bool,
    waited_for_markers: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TxnOffsetCommit {
    version: Option<i16>,
    producer: i64,
    epoch: i16,
    group: String,
    generation: Option<i32>,
    member: Option<String>,
    offset: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OffsetFetch {
    #[serde(rename = "version")]
    _version: Option<IgnoredAny>,
    group: String,
    require_stable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeProducers {
    partition: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Consume {
    partition: i32,
    from: i64,
    isolation: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sleep {
    ms: i64,
    #[serde(rename = "why")]
    _why: IgnoredAny,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Before transaction version 2 an end tells of no producer.
#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Producer {
    error: String,
    producer: Option<i64>,
    epoch: Option<i16>,
    /// Answers that were retried; whether they came was a matter of time.
    #[serde(rename = "transient_answers_before", default)]
    _transient: Transient,
}

/// Never compared.
#[derive(Deserialize, Debug, Default)]
#[serde(transparent)]
struct Transient {
    _names: Vec<String>,
}

impl PartialEq for Transient {
    fn eq(&self, _: &Transient) -> bool {
        true
    }
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Added {
    errors: Vec<String>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Answer {
    error: String,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Produced {
    error: String,
    base_offset: i64,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Fetched {
    error: String,
    offset: i64,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Producers {
    producers: Vec<ActiveProducer>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct ActiveProducer {
    producer: i64,
    epoch: i16,
    last_sequence: i32,
    txn_start_offset: i64,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Consumed {
    records: Vec<(i64, String)>,
    position: i64,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct Transaction {
    error: Option<String>,
    state: Option<String>,
    producer: Option<i64>,
    epoch: Option<i16>,
    timeout_ms: Option<i32>,
    partitions: Option<Vec<String>>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
struct LogEnds {
    partition: i32,
    high_watermark: i64,
    last_stable: i64,
}

/// As the header says of the servers.
struct Cluster {
    version: TransactionVersion,
    abort_interval_ms: i64,
}

pub(super) fn version_1(text: &str) -> Result<Report, ConformanceError> {
    let cluster = Cluster { version: TransactionVersion::V1, abort_interval_ms: 1000 };
    run_cases(text, "08f_transaction_coordinator.json", |_, script: &Script| Ok(script.check(&cluster)))
}

pub(super) fn version_2(text: &str) -> Result<Report, ConformanceError> {
    let cluster = Cluster { version: TransactionVersion::V2, abort_interval_ms: 500 };
    run_cases(text, "13_transactions_tv2.json", |_, script: &Script| Ok(script.check(&cluster)))
}

fn name(error: ErrorCode) -> String {
    error.name().to_owned()
}

impl Script {
    fn check(&self, cluster: &Cluster) -> Result<(), Failure> {
        let mut world = World::new(cluster, &format!("txn-{}", self.name));
        for (index, step) in self.steps.iter().enumerate() {
            let place = || format!("{} step {index}", self.name);
            step.check(&mut world).map_err(|failure| failure.within(&place()))?;
        }
        Ok(())
    }
}

impl Step {
    fn check(&self, world: &mut World) -> Result<(), Failure> {
        match self {
            Step::InitProducerId(seen) => seen.check(world, World::init),
            Step::AddPartitions(seen) => seen.check(world, World::add_partitions),
            Step::AddOffsets(seen) => seen.check(world, World::add_offsets),
            Step::Produce(seen) => seen.check(world, World::produce),
            Step::EndTxn(seen) if seen.args.waited_for_markers == Some(false) => {
                let got = world.end(&seen.args);
                check(|| "the answer".to_owned(), &seen.response, &got)?;
                let prepared = TransactionState::prepared(seen.args.commit).name();
                check(|| "recorded".to_owned(), &seen.transaction.state.as_deref(), &Some(prepared))?;
                check(|| "the state".to_owned(), &seen.transaction.state, &world.transaction().state)?;
                check(|| "the epoch".to_owned(), &seen.transaction.epoch, &world.transaction().epoch)
            }
            Step::EndTxn(seen) => seen.check(world, |world, args| {
                let answer = world.end(args);
                world.deliver();
                answer
            }),
            Step::TxnOffsetCommit(seen) => seen.check(world, World::commit_offsets),
            Step::OffsetFetch(seen) => seen.check(world, World::fetch_offsets),
            Step::DescribeProducers(seen) => seen.check(world, World::describe_producers),
            Step::Consume(seen) => seen.check(world, World::consume),
            Step::Sleep(seen) => seen.check(world, |world, args| {
                world.sleep(args.ms);
                Nothing {}
            }),
        }
    }
}

impl<A, R: PartialEq + std::fmt::Debug> Seen<A, R> {
    fn check(&self, world: &mut World, ask: impl FnOnce(&mut World, &A) -> R) -> Result<(), Failure> {
        let got = ask(world, &self.args);
        check(|| "the answer".to_owned(), &self.response, &got)?;
        check(|| "the transaction".to_owned(), &self.transaction, &world.transaction())?;
        check(|| "the logs".to_owned(), &self.log, &world.logs())
    }
}
