//! One partition of `__transaction_state` at its coordinator.
//!
//! Mirrors `TransactionStateManager`: a transition is appended with acks=all and completed when it is below the high
//! watermark, or given up when that takes longer than the transaction may (R-TXN-3).
//!
//! **Invariant:** what waits for the log was decided under the coordinator epoch that it names; under another one it
//! changes nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::ask::{self, Add, End, Ending, Init, Initialization, ProducerIdAndEpoch};
use super::facts::TransactionFacts;
use super::markers::{Completion, Marker};
use super::metadata::TransactionMetadata;
use super::state::TransactionState;
use super::{Answer, Append, Asker, Context, TransactionTimer};
use crate::kafka::event::{EndReason, Event, TransactionEvent};
use crate::kafka::group::coordinator_error;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::protocol::transaction_records::encode_key;
use crate::kafka::types::{LeaderEpoch, Offset, ProducerEpoch, TopicPartition, TransactionalId};

/// Tombstones of one batch are not more bytes than this (`removeExpiredTransactionalIds`).
const EXPIRY_BATCH_BYTES: usize = 16384;

/// What a tombstone takes in a batch besides its key, at most.
const TOMBSTONE_BYTES: usize = 21;

/// Who is answered when a transaction's end is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedFor {
    /// Who sent EndTxn.
    Client(Asker),
    /// Who sent InitProducerId and has to come again.
    Init(Asker),
    /// Nobody: the transaction took too long.
    Timeout,
}

/// What follows when a transition is written, or was not.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Then {
    Initialized(Asker),
    Added(Asker),
    Ended { of: EndedFor, raises_epoch: bool, fences: bool },
    Completed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Transition {
        id: TransactionalId,
        facts: TransactionFacts,
        then: Then,
    },
    /// Ids that are to be forgotten, each with the epoch that it had.
    Expiry(Vec<(TransactionalId, ProducerEpoch)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    token: u64,
    coordinator_epoch: i32,
    /// Nothing before the log has taken the records.
    last_offset: Option<Offset>,
    work: Work,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) is_loading: bool,
    transactions: BTreeMap<TransactionalId, TransactionMetadata>,
    waiting: VecDeque<Waiting>,
    tokens: u64,
}

impl Shard {
    pub(super) fn new(leader_epoch: LeaderEpoch) -> Shard {
        Shard {
            leader_epoch,
            is_loading: true,
            transactions: BTreeMap::new(),
            waiting: VecDeque::new(),
            tokens: 0,
        }
    }

    /// The log is still being read.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    pub fn transactions(&self) -> impl Iterator<Item = (&TransactionalId, &TransactionMetadata)> {
        self.transactions.iter()
    }

    pub fn get(&self, id: &TransactionalId) -> Option<&TransactionMetadata> {
        self.transactions.get(id)
    }

    pub(super) fn init(&mut self, asker: Asker, init: &Init, cx: &mut Context<'_>) {
        let timeout_ms = if init.two_phase_commit { i32::MAX } else { init.timeout_ms };
        if !self.transactions.contains_key(&init.id) {
            let producer_id = match (cx.new_id)() {
                Ok(producer_id) => producer_id,
                Err(error) => return cx.answer(asker, Answer::Initialized(Err(error))),
            };
            let tx = TransactionMetadata::unwritten(producer_id, timeout_ms, cx.now.wall_ms());
            self.transactions.insert(init.id.clone(), tx);
        }
        let tx = self.transactions.get_mut(&init.id).expect("it is there now");
        match ask::initialize(tx, init, timeout_ms, cx.new_id, cx.now.wall_ms()) {
            Err(error) => cx.answer(asker, Answer::Initialized(Err(error))),
            Ok(Initialization::Write(facts)) => {
                self.write(&init.id, facts, Then::Initialized(asker), cx);
            }
            Ok(Initialization::Abort(fenced)) => {
                self.end(EndedFor::Init(asker), &cx.abort_of(&init.id, &fenced), cx);
            }
        }
    }

    pub(super) fn add(&mut self, asker: Asker, add: &Add, cx: &mut Context<'_>) {
        let tx = self.transactions.get_mut(&add.id).ok_or(ErrorCode::InvalidProducerIdMapping);
        match tx.and_then(|tx| ask::add(tx, add, cx.now.wall_ms())) {
            Err(error) => cx.answer(asker, Answer::Added(error)),
            Ok(None) => cx.answer(asker, Answer::Added(ErrorCode::None)),
            Ok(Some(facts)) => self.write(&add.id, facts, Then::Added(asker), cx),
        }
    }

    pub(super) fn end(&mut self, of: EndedFor, end: &End, cx: &mut Context<'_>) {
        let tx = self.transactions.get_mut(&end.id).ok_or(ErrorCode::InvalidProducerIdMapping);
        match tx.and_then(|tx| ask::end(tx, end, cx.new_id, cx.now.wall_ms())) {
            Err(error) => cx.ended(of, Err(error)),
            Ok(Ending::Repeated(producer)) => cx.ended(of, Ok(producer)),
            Ok(Ending::Write { facts, fences }) => {
                let raises_epoch = end.client_version.raises_epochs();
                self.write(&end.id, facts, Then::Ended { of, raises_epoch, fences }, cx);
            }
        }
    }

    /// R-TXN-26.
    pub(super) fn abort_timed_out(&mut self, cx: &mut Context<'_>) {
        let now_ms = cx.now.wall_ms();
        let late = self.transactions.iter().filter(|(_, tx)| tx.has_timed_out(now_ms));
        for id in late.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            let fenced = self.transactions.get_mut(&id).expect("it is late").prepare_fence();
            self.end(EndedFor::Timeout, &cx.abort_of(&id, &fenced), cx);
        }
    }

    /// R-TXN-27.
    pub(super) fn remove_expired(&mut self, cx: &mut Context<'_>) {
        let (now_ms, expiration_ms) = (cx.now.wall_ms(), cx.config.transactional_id_expiration_ms);
        let (mut batch, mut size_bytes) = (Vec::new(), 0);
        let mut batches = Vec::new();
        for (id, tx) in &mut self.transactions {
            if !tx.has_expired(now_ms, expiration_ms) {
                continue;
            }
            let record_bytes = encode_key(id).len() + TOMBSTONE_BYTES;
            if size_bytes + record_bytes > EXPIRY_BATCH_BYTES {
                batches.push(std::mem::take(&mut batch));
                size_bytes = 0;
            }
            tx.prepare_dead();
            size_bytes += record_bytes;
            batch.push((id.clone(), tx.facts().producer_epoch));
        }
        batches.push(batch);
        for expired in batches.into_iter().filter(|batch| !batch.is_empty()) {
            let tombstone =
                |(id, _): &(TransactionalId, _)| CoordinatorRecord { key: encode_key(id), value: None };
            let records = expired.iter().map(tombstone).collect();
            self.append(records, cx.config.request_timeout_ms, Work::Expiry(expired), cx);
        }
    }

    fn write(&mut self, id: &TransactionalId, facts: TransactionFacts, then: Then, cx: &mut Context<'_>) {
        let value = Some(facts.encode(cx.config.version));
        let timeout_ms = facts.timeout_ms.into();
        let work = Work::Transition { id: id.clone(), facts, then };
        self.append(vec![CoordinatorRecord { key: encode_key(id), value }], timeout_ms, work, cx);
    }

    fn append(&mut self, records: Vec<CoordinatorRecord>, timeout_ms: i64, work: Work, cx: &mut Context<'_>) {
        self.tokens += 1;
        let token = self.tokens;
        cx.fx.appends.push(Append { partition: cx.partition, token, records });
        let timer = TransactionTimer::Write { partition: cx.partition, token };
        cx.fx.effects.set_timer(timer, cx.now.plus_ms(timeout_ms));
        let coordinator_epoch = self.leader_epoch.0;
        self.waiting.push_back(Waiting { token, coordinator_epoch, last_offset: None, work });
    }

    pub(super) fn on_appended(&mut self, token: u64, last_offset: Offset) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.token == token) {
            waiting.last_offset = Some(last_offset);
        }
    }

    /// The log did not take the records, or they took too long.
    pub(super) fn on_failed(&mut self, token: u64, error: ErrorCode, cx: &mut Context<'_>) {
        let place = self.waiting.iter().position(|waiting| waiting.token == token);
        if let Some(waiting) = place.and_then(|place| self.waiting.remove(place)) {
            self.settle(waiting, Err(coordinator_error(error)), cx);
        }
    }

    pub(super) fn on_high_watermark(&mut self, high_watermark: Offset, cx: &mut Context<'_>) {
        let is_committed = |waiting: &Waiting| waiting.last_offset.is_some_and(|last| last < high_watermark);
        while let Some(done) = self.waiting.pop_front_if(|waiting| is_committed(waiting)) {
            self.settle(done, Ok(()), cx);
        }
    }

    /// The broker leads the partition once more, in another epoch: the log is read anew.
    pub(super) fn on_elected_again(&mut self, leader_epoch: LeaderEpoch) {
        (self.leader_epoch, self.is_loading) = (leader_epoch, true);
        self.transactions.clear();
    }

    /// What the log holds; decided transactions go on (R-TXN-28).
    pub(super) fn on_loaded(
        &mut self,
        transactions: BTreeMap<TransactionalId, TransactionMetadata>,
        cx: &mut Context<'_>,
    ) {
        self.transactions = transactions;
        self.is_loading = false;
        let goes_on =
            |tx: &TransactionMetadata| tx.state().is_prepared() && !plant::is(Plant::EndTxnLostOnFailover);
        let decided = self.transactions.iter().filter(|(_, tx)| goes_on(tx));
        for id in decided.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.send_markers(&id, cx);
        }
    }

    pub(super) fn on_resigned(mut self, cx: &mut Context<'_>) {
        self.transactions.clear();
        for waiting in std::mem::take(&mut self.waiting) {
            self.settle(waiting, Err(ErrorCode::NotCoordinator), cx);
        }
    }

    /// What was to be written is, or not.
    fn settle(&mut self, waiting: Waiting, mut result: Result<(), ErrorCode>, cx: &mut Context<'_>) {
        let Waiting { token, coordinator_epoch, work, .. } = waiting;
        cx.fx.effects.cancel_timer(TransactionTimer::Write { partition: cx.partition, token });
        let is_same = coordinator_epoch == self.leader_epoch.0;
        if result.is_ok() && self.is_loading {
            result = Err(ErrorCode::CoordinatorLoadInProgress);
        } else if result.is_ok() && !is_same {
            result = Err(ErrorCode::NotCoordinator);
        }
        let knows = is_same && !self.is_loading;
        match work {
            Work::Transition { id, facts, then } => {
                let tx = self.transactions.get_mut(&id).filter(|_| knows);
                match (tx, result) {
                    (Some(tx), Ok(())) => {
                        let before = tx.facts().partitions.clone();
                        tx.complete(facts.clone());
                        cx.tell(&id, &facts, &before, &then);
                    }
                    (None, Ok(())) => result = Err(ErrorCode::NotCoordinator),
                    (Some(tx), Err(error)) if !(then == Then::Completed && is_passing(error)) => tx.give_up(),
                    (_, Err(_)) => {}
                }
                self.follow(&id, facts, then, result, cx);
            }
            Work::Expiry(expired) if knows => self.expired(expired, result, cx),
            Work::Expiry(_) => {}
        }
    }

    fn expired(
        &mut self,
        expired: Vec<(TransactionalId, ProducerEpoch)>,
        result: Result<(), ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        for (id, epoch) in expired {
            let Some(tx) = self.transactions.get_mut(&id) else { continue };
            let dies = tx.pending() == Some(TransactionState::Dead) && tx.facts().producer_epoch == epoch;
            if dies && result.is_ok() {
                self.transactions.remove(&id);
                let broker = cx.config.broker;
                cx.fx.effects.event(Event::Transaction(TransactionEvent::Forgotten { broker, id }));
            } else {
                tx.give_up();
            }
        }
    }

    fn follow(
        &mut self,
        id: &TransactionalId,
        facts: TransactionFacts,
        then: Then,
        result: Result<(), ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        let producer = ProducerIdAndEpoch { id: facts.producer_id, epoch: facts.producer_epoch };
        match then {
            Then::Initialized(asker) => cx.answer(asker, Answer::Initialized(result.map(|()| producer))),
            Then::Added(asker) => cx.answer(asker, Answer::Added(result.err().unwrap_or(ErrorCode::None))),
            Then::Ended { of, raises_epoch, fences } => {
                if let Err(error) = result {
                    // From transaction version 2 on a fence is only taken with the abort.
                    if fences
                        && !raises_epoch
                        && let Some(tx) = self.transactions.get_mut(id)
                    {
                        tx.fence_failed();
                    }
                    return cx.ended(of, Err(error));
                }
                // The client goes on before the markers are written (R-TXN-18).
                let completed = self.send_markers(id, cx);
                let has = ProducerIdAndEpoch { id: completed.producer_id, epoch: completed.producer_epoch };
                cx.ended(of, Ok(if raises_epoch { has } else { ProducerIdAndEpoch::NONE }));
            }
            Then::Completed => {
                if result.is_err_and(is_passing) {
                    let completion = self.completion(id, facts, cx);
                    cx.markers.retry_completion(completion);
                }
            }
        }
    }

    fn completion(&self, id: &TransactionalId, facts: TransactionFacts, cx: &Context<'_>) -> Completion {
        let (partition, coordinator_epoch) = (cx.partition, self.leader_epoch.0);
        Completion { id: id.clone(), partition, coordinator_epoch, facts }
    }

    /// A transaction is decided: its markers go out, and what it becomes with them is pending.
    fn send_markers(&mut self, id: &TransactionalId, cx: &mut Context<'_>) -> TransactionFacts {
        let tx = self.transactions.get_mut(id).expect("its end was written");
        let facts = tx.facts();
        let marker = Marker {
            producer_id: facts.producer_id,
            producer_epoch: facts.producer_epoch,
            coordinator_epoch: self.leader_epoch.0,
            committed: facts.state == TransactionState::PrepareCommit,
            partitions: facts.partitions.clone(),
            transaction_version: facts.client_version.level(),
        };
        let completed = tx.prepare_complete(cx.now.wall_ms());
        let completion = self.completion(id, completed.clone(), cx);
        cx.markers.begin(completion.clone());
        let gone = cx.markers.queue(&completion, marker, cx.leader_of);
        self.on_written(&completion, gone.iter(), cx);
        completed
    }

    /// Partitions have their markers, or need none. With the last one the transaction is completed.
    pub(super) fn on_written<'a>(
        &mut self,
        completion: &Completion,
        partitions: impl Iterator<Item = &'a TopicPartition>,
        cx: &mut Context<'_>,
    ) {
        let Some(tx) = self.transactions.get_mut(&completion.id) else { return };
        partitions.for_each(|tp| tx.remove_partition(tp));
        if tx.facts().partitions.is_empty() && cx.markers.is_pending(completion) {
            cx.markers.end(completion);
            self.write_completion(completion, cx);
        }
    }

    /// The completion is pending and goes to the log, for the first time or once more.
    pub(super) fn write_completion(&mut self, completion: &Completion, cx: &mut Context<'_>) {
        self.write(&completion.id, completion.facts.clone(), Then::Completed, cx);
    }

    /// Whether a decision was made under this coordinator epoch and still stands.
    pub(super) fn is_of(&self, completion: &Completion) -> bool {
        !self.is_loading
            && self.leader_epoch.0 == completion.coordinator_epoch
            && self.transactions.contains_key(&completion.id)
    }
}

impl Context<'_> {
    /// A transition is completed, of a transaction that had these partitions before.
    fn tell(
        &mut self,
        id: &TransactionalId,
        facts: &TransactionFacts,
        before: &BTreeSet<TopicPartition>,
        then: &Then,
    ) {
        let (broker, id) = (self.config.broker, id.clone());
        let event = match facts.state {
            TransactionState::Empty => TransactionEvent::Initialized {
                broker,
                id,
                producer: facts.producer_id,
                epoch: facts.producer_epoch,
            },
            TransactionState::Ongoing => TransactionEvent::Added {
                broker,
                id,
                partitions: facts.partitions.difference(before).cloned().collect(),
                begins: before.is_empty(),
            },
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => TransactionEvent::Decided {
                broker,
                id,
                committed: facts.state == TransactionState::PrepareCommit,
                partitions: facts.partitions.iter().cloned().collect(),
                reason: match then {
                    Then::Ended { of: EndedFor::Init(_), .. } => EndReason::NewInstance,
                    Then::Ended { of: EndedFor::Timeout, .. } => EndReason::Timeout,
                    _ => EndReason::Client,
                },
            },
            TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                let committed = facts.state == TransactionState::CompleteCommit;
                TransactionEvent::Completed { broker, id, committed }
            }
            TransactionState::Dead | TransactionState::PrepareEpochFence => return,
        };
        self.fx.effects.event(Event::Transaction(event));
    }
}

/// Whether a completion is tried again after this error.
fn is_passing(error: ErrorCode) -> bool {
    error == ErrorCode::CoordinatorNotAvailable
}
