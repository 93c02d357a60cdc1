//! The transaction coordinator of one broker (section 9 of the reference, KIP-98, KIP-890).
//!
//! - `version`, `state`, `facts`: the words; `metadata`: one transactional id and its transitions
//! - `ask`: what is asked, and what is decided; `shard`: one partition of `__transaction_state`
//! - `markers`, `delivery`: decided transactions on their way to the leaders; [`wire`]: requests and responses
//!
//! Mirrors `TransactionCoordinator`. As the group coordinator it does not write: it pushes [`Append`]s, which the broker
//! carries out with acks=all before it hands in anything else, and hears of their fate by
//! [`TransactionCoordinator::on_appended`], [`TransactionCoordinator::on_append_failed`] and
//! [`TransactionCoordinator::on_high_watermark`]. It knows no network: the broker takes markers for a leader when that can
//! be reached, and hands in what the leader said.
//!
//! **Invariant:** a decision that a client was told of survives any failover that keeps the partition's committed records
//! (R-TXN-18).

mod version;
mod state;
mod facts;
mod metadata;
mod ask;
mod markers;
mod shard;
mod delivery;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shard::EndedFor;

use super::effects::{Effects, RequestId};
use super::group::partition_for;
use super::protocol::ErrorCode;
use super::protocol::coordinator_records::CoordinatorRecord;
use super::protocol::transaction_records::{TransactionValue, decode_key};
use super::protocol::wire::WireError;
use super::time::Time;
use super::types::{BrokerId, LeaderEpoch, Offset, TopicPartition, TransactionalId};
use markers::Markers;

pub use ask::{Add, End, Init, ProducerIdAndEpoch, ProducerIdSource};
pub use delivery::MarkerErrors;
pub use facts::{TransactionFacts, is_exhausted};
pub use markers::{Completion, Destination, Marker, MarkerEntry};
pub use metadata::TransactionMetadata;
pub use shard::Shard;
pub use state::TransactionState;
pub use version::TransactionVersion;

/// What the coordinator waits for by the clock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionTimer {
    /// A write is not below the high watermark yet.
    Write { partition: i32, token: u64 },
}

/// `transaction.*` and `transactional.id.expiration.ms` (`TransactionConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    /// Where it runs, for events.
    pub broker: BrokerId,
    /// The cluster's `transaction.version`.
    pub version: TransactionVersion,
    pub max_timeout_ms: i32,
    pub transactional_id_expiration_ms: i64,
    pub state_log_num_partitions: i32,
    pub two_phase_commit_enable: bool,
    pub request_timeout_ms: i64,
}

/// Records to be written as one batch to a partition of `__transaction_state` that this broker leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub partition: i32,
    /// Names the append when the broker tells how it went.
    pub token: u64,
    pub records: Vec<CoordinatorRecord>,
}

/// Which part of which request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asker {
    pub id: RequestId,
    pub index: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Initialized(Result<ProducerIdAndEpoch, ErrorCode>),
    Added(ErrorCode),
    /// What the producer has now; NONE where ends do not raise epochs.
    Ended(Result<ProducerIdAndEpoch, ErrorCode>),
}

/// The effects of one step. Appends are carried out after the effects, in order, within the same step of the broker.
#[derive(Debug, Default)]
pub struct TransactionEffects {
    pub effects: Effects<TransactionTimer>,
    pub appends: Vec<Append>,
    pub answers: Vec<(Asker, Answer)>,
}

/// When an input is handled, and what the broker knows and has then.
pub struct Around<'a> {
    pub now: Time,
    pub new_id: ProducerIdSource<'a>,
    pub leader_of: &'a dyn Fn(&TopicPartition) -> Destination,
}

/// What a shard works with.
struct Context<'a> {
    now: Time,
    new_id: ProducerIdSource<'a>,
    leader_of: &'a dyn Fn(&TopicPartition) -> Destination,
    partition: i32,
    config: TransactionConfig,
    markers: &'a mut Markers,
    fx: &'a mut TransactionEffects,
}

impl Context<'_> {
    fn answer(&mut self, asker: Asker, answer: Answer) {
        self.fx.answers.push((asker, answer));
    }

    fn ended(&mut self, of: EndedFor, result: Result<ProducerIdAndEpoch, ErrorCode>) {
        match of {
            EndedFor::Client(asker) => self.answer(asker, Answer::Ended(result)),
            // The abort is on its way; who asks again finds it done.
            EndedFor::Init(asker) => {
                let error = result.err().unwrap_or(ErrorCode::ConcurrentTransactions);
                self.answer(asker, Answer::Initialized(Err(error)));
            }
            EndedFor::Timeout => {}
        }
    }

    /// The abort of a transaction whose producer is fenced.
    fn abort_of(&self, id: &TransactionalId, fenced: &TransactionFacts) -> End {
        let producer = ProducerIdAndEpoch { id: fenced.producer_id, epoch: fenced.producer_epoch };
        let client_version = self.config.version;
        End { id: id.clone(), producer, committed: false, from_client: false, client_version }
    }
}

#[derive(Clone, Debug)]
pub struct TransactionCoordinator {
    config: TransactionConfig,
    shards: BTreeMap<i32, Rc<Shard>>,
    markers: Markers,
}

impl TransactionCoordinator {
    pub fn new(config: TransactionConfig) -> TransactionCoordinator {
        TransactionCoordinator { config, shards: BTreeMap::new(), markers: Markers::default() }
    }

    /// The cluster's `transaction.version`, as far as this broker has read the metadata log.
    pub fn set_version(&mut self, version: TransactionVersion) {
        self.config.version = version;
    }

    /// The partition of `__transaction_state` that keeps an id (R-TXN-1).
    pub fn partition_for(&self, id: &TransactionalId) -> i32 {
        partition_for(id.as_str(), self.config.state_log_num_partitions)
    }

    /// The partitions that are coordinated here.
    pub fn shards(&self) -> impl Iterator<Item = (i32, &Rc<Shard>)> {
        self.shards.iter().map(|(partition, shard)| (*partition, shard))
    }

    /// What is known of an id, if it is coordinated here.
    pub fn transaction(&self, id: &TransactionalId) -> Option<&TransactionMetadata> {
        self.shards.get(&self.partition_for(id))?.get(id)
    }

    /// The loaded shard of an id.
    ///
    /// # Errors
    /// NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
    fn shard_of(&self, id: &TransactionalId) -> Result<i32, ErrorCode> {
        let partition = self.partition_for(id);
        match self.shards.get(&partition) {
            None => Err(ErrorCode::NotCoordinator),
            Some(shard) if shard.is_loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Some(_) => Ok(partition),
        }
    }

    /// InitProducerId with a transactional id (R-TXN-6 to R-TXN-10).
    pub fn init(&mut self, around: Around<'_>, asker: Asker, init: &Init, fx: &mut TransactionEffects) {
        let in_range = (1..=self.config.max_timeout_ms).contains(&init.timeout_ms);
        let checked = if init.id.as_str().is_empty() {
            Err(ErrorCode::InvalidRequest)
        } else if init.two_phase_commit && !self.config.two_phase_commit_enable {
            Err(ErrorCode::TransactionalIdAuthorizationFailed)
        } else if init.keep_prepared {
            Err(ErrorCode::UnsupportedVersion)
        } else if !in_range && !init.two_phase_commit {
            Err(ErrorCode::InvalidTransactionTimeout)
        } else {
            self.shard_of(&init.id)
        };
        match checked {
            Ok(partition) => self.at(around, partition, fx, |shard, cx| shard.init(asker, init, cx)),
            Err(error) => fx.answers.push((asker, Answer::Initialized(Err(error)))),
        }
    }

    /// Partitions are added to a transaction, which begins with the first (R-TXN-12).
    pub fn add(&mut self, around: Around<'_>, asker: Asker, add: &Add, fx: &mut TransactionEffects) {
        match self.named(&add.id) {
            Ok(partition) => self.at(around, partition, fx, |shard, cx| shard.add(asker, add, cx)),
            Err(error) => fx.answers.push((asker, Answer::Added(error))),
        }
    }

    /// Which partitions are in a producer's open transaction (R-TXN-14).
    pub fn verify(
        &self,
        id: &TransactionalId,
        producer: ProducerIdAndEpoch,
        partitions: &BTreeSet<TopicPartition>,
    ) -> BTreeMap<TopicPartition, ErrorCode> {
        let verified = self.named(id).and_then(|partition| {
            let tx = self.shards[&partition].get(id).ok_or(ErrorCode::InvalidProducerIdMapping)?;
            ask::verify(tx.facts(), producer, partitions)
        });
        verified.unwrap_or_else(|error| partitions.iter().map(|tp| (tp.clone(), error)).collect())
    }

    /// A transaction is to be committed or aborted (R-TXN-16 to R-TXN-18).
    pub fn end(&mut self, around: Around<'_>, asker: Asker, end: &End, fx: &mut TransactionEffects) {
        match self.named(&end.id) {
            Ok(partition) => {
                self.at(around, partition, fx, |shard, cx| shard.end(EndedFor::Client(asker), end, cx));
            }
            Err(error) => fx.answers.push((asker, Answer::Ended(Err(error)))),
        }
    }

    fn named(&self, id: &TransactionalId) -> Result<i32, ErrorCode> {
        if id.as_str().is_empty() { Err(ErrorCode::InvalidRequest) } else { self.shard_of(id) }
    }

    /// What DescribeTransactions tells.
    ///
    /// # Errors
    /// An id that is not coordinated here, or that there is none of.
    pub fn describe(&self, id: &TransactionalId) -> Result<&TransactionFacts, ErrorCode> {
        let tx = self.shards[&self.named(id)?].get(id).ok_or(ErrorCode::TransactionalIdNotFound)?;
        Ok(tx.facts())
    }

    /// All that is coordinated here, for ListTransactions.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS.
    pub fn list(&self) -> Result<impl Iterator<Item = (&TransactionalId, &TransactionFacts)>, ErrorCode> {
        if self.shards.values().any(|shard| shard.is_loading) {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        let all = self.shards.values().flat_map(|shard| shard.transactions());
        Ok(all.map(|(id, tx)| (id, tx.facts())))
    }

    /// A timer that was set has run out.
    pub fn on_timer(&mut self, around: Around<'_>, timer: &TransactionTimer, fx: &mut TransactionEffects) {
        let TransactionTimer::Write { partition, token } = timer;
        self.at(around, *partition, fx, |shard, cx| {
            shard.on_failed(*token, ErrorCode::RequestTimedOut, cx);
        });
    }

    /// Aborts transactions that took too long (R-TXN-26). Due every
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    pub fn abort_timed_out(&mut self, around: Around<'_>, fx: &mut TransactionEffects) {
        self.at_each_loaded(around, fx, Shard::abort_timed_out);
    }

    /// Forgets ids that nobody has used for long (R-TXN-27). Due every
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub fn remove_expired(&mut self, around: Around<'_>, fx: &mut TransactionEffects) {
        self.at_each_loaded(around, fx, Shard::remove_expired);
    }

    /// The broker leads `partition` in this epoch from now on: it is to read its log and call
    /// [`TransactionCoordinator::on_loaded`].
    pub fn on_elected(&mut self, partition: i32, leader_epoch: LeaderEpoch) {
        self.markers.forget(partition);
        match self.shards.get_mut(&partition) {
            Some(shard) => Rc::make_mut(shard).on_elected_again(leader_epoch),
            None => drop(self.shards.insert(partition, Rc::new(Shard::new(leader_epoch)))),
        }
    }

    /// The log of `partition` was read, in order. What it holds counts, be it below the high watermark or not.
    ///
    /// # Errors
    /// A record that cannot be read: the partition is not coordinated then (NOT_COORDINATOR).
    pub fn on_loaded(
        &mut self,
        around: Around<'_>,
        partition: i32,
        records: impl Iterator<Item = CoordinatorRecord>,
        fx: &mut TransactionEffects,
    ) -> Result<(), WireError> {
        if !self.shards.get(&partition).is_some_and(|shard| shard.is_loading) {
            return Ok(());
        }
        match read(records) {
            Ok(transactions) => {
                self.at(around, partition, fx, |shard, cx| shard.on_loaded(transactions, cx));
                Ok(())
            }
            Err(error) => {
                self.shards.remove(&partition);
                Err(error)
            }
        }
    }

    /// The broker does not lead `partition` any more.
    pub fn on_resigned(&mut self, around: Around<'_>, partition: i32, fx: &mut TransactionEffects) {
        if let Some(shard) = self.shards.remove(&partition) {
            Rc::unwrap_or_clone(shard).on_resigned(&mut self.context(around, partition, fx));
        }
        self.markers.forget(partition);
    }

    /// An append was taken into the log; its last record is at `last_offset`.
    pub fn on_appended(&mut self, partition: i32, token: u64, last_offset: Offset) {
        if let Some(shard) = self.shards.get_mut(&partition) {
            Rc::make_mut(shard).on_appended(token, last_offset);
        }
    }

    /// An append was refused by the log with `error`.
    pub fn on_append_failed(
        &mut self,
        around: Around<'_>,
        (partition, token): (i32, u64),
        error: ErrorCode,
        fx: &mut TransactionEffects,
    ) {
        self.at(around, partition, fx, |shard, cx| shard.on_failed(token, error, cx));
    }

    /// The high watermark of `partition` is `high_watermark` now.
    pub fn on_high_watermark(
        &mut self,
        around: Around<'_>,
        partition: i32,
        high_watermark: Offset,
        fx: &mut TransactionEffects,
    ) {
        self.at(around, partition, fx, |shard, cx| shard.on_high_watermark(high_watermark, cx));
    }

    fn at_each_loaded(
        &mut self,
        around: Around<'_>,
        fx: &mut TransactionEffects,
        mut work: impl FnMut(&mut Shard, &mut Context<'_>),
    ) {
        let Around { now, new_id, leader_of } = around;
        let loaded = self.shards.iter().filter(|(_, shard)| !shard.is_loading);
        for partition in loaded.map(|(partition, _)| *partition).collect::<Vec<_>>() {
            self.at(Around { now, new_id: &mut *new_id, leader_of }, partition, fx, &mut work);
        }
    }

    fn at(
        &mut self,
        around: Around<'_>,
        partition: i32,
        fx: &mut TransactionEffects,
        work: impl FnOnce(&mut Shard, &mut Context<'_>),
    ) {
        let Some(mut shard) = self.shards.remove(&partition) else { return };
        work(Rc::make_mut(&mut shard), &mut self.context(around, partition, fx));
        self.shards.insert(partition, shard);
    }

    fn context<'a, 'b: 'a>(
        &'a mut self,
        around: Around<'b>,
        partition: i32,
        fx: &'a mut TransactionEffects,
    ) -> Context<'a> {
        let Around { now, new_id, leader_of } = around;
        Context { now, new_id, leader_of, partition, config: self.config, markers: &mut self.markers, fx }
    }
}

/// What the records of a partition come to. What Kafka 4.3 does not know is left alone.
fn read(
    records: impl Iterator<Item = CoordinatorRecord>,
) -> Result<BTreeMap<TransactionalId, TransactionMetadata>, WireError> {
    let mut transactions = BTreeMap::new();
    for record in records {
        let Some(id) = decode_key(&record.key)? else { continue };
        match record.value {
            None => drop(transactions.remove(&id)),
            Some(value) => {
                let facts = TransactionValue::decode(&value)?.and_then(TransactionFacts::of);
                transactions.extend(facts.map(|facts| (id, TransactionMetadata::of(facts))));
            }
        }
    }
    Ok(transactions)
}

#[cfg(test)]
mod tests;
