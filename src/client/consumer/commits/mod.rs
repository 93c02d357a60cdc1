//! Commits: automatic ones inside poll() and before a rebalance, and those of the application, that block it or do not (the
//! commit half of Kafka's `ConsumerCoordinator`, and its `CommitRequestManager`; R-CONS-15 to R-CONS-23).
//!
//! **Invariant:** what is committed is a position: records that poll() returned, whether processed or not, and never
//! records that are only buffered (R-CONS-19).

mod answers;
mod sending;

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::config::ConsumerConfig;
use super::membership::Identity;
use super::owned::Position;
use crate::kafka::event::CommitOutcome;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

/// What a commit is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::client::consumer) enum CommitKind {
    /// auto.commit.interval.ms is over.
    Interval,
    /// Partitions are about to be given up.
    BeforeJoin,
    /// commitAsync(): tried once.
    Async,
    /// The application waits for it; attempts are told apart by number.
    Sync { attempt: i32 },
}

/// A commit on its way.
#[derive(Clone, Debug)]
pub(in crate::client::consumer) struct CommitCall {
    pub kind: CommitKind,
    pub automatic: bool,
    pub sent_as: Identity,
    pub sent_at: Time,
    pub offsets: Rc<[(TopicPartition, Position)]>,
}

/// Why a commit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client::consumer) enum CommitError {
    Retriable,
    Final(ErrorCode),
}

/// What a blocking commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncStep {
    /// To be sent from this time on, as soon as the coordinator is known.
    ToSend(Time),
    InFlight,
}

/// A commit that blocks the application's thread.
#[derive(Clone, Debug)]
pub struct SyncCommit {
    pub offsets: Rc<[(TopicPartition, Position)]>,
    pub deadline: Time,
    pub step: SyncStep,
    automatic: bool,
    failures: i32,
}

/// A commit that waits until the coordinator is known.
#[derive(Clone, Debug)]
struct WaitingCommit {
    kind: CommitKind,
    automatic: bool,
    offsets: Rc<[(TopicPartition, Position)]>,
}

#[derive(Clone, Debug)]
pub struct Commits {
    /// librdkafka: partitions of which records were handed over.
    stored: BTreeSet<TopicPartition>,
    /// The first poll() from then on commits; meaningful with enable.auto.commit.
    next_interval_at: Time,
    sync: Option<SyncCommit>,
    attempts: i32,
    waiting: VecDeque<WaitingCommit>,
    /// commitAsync()s that wait or are on their way.
    async_pending: i32,
    /// Automatic commits that wait or are on their way.
    automatic_pending: i32,
    /// What came of commitAsync()s of which the application has not been told.
    completed: VecDeque<CommitOutcome>,
}

impl Commits {
    pub(in crate::client::consumer) fn new() -> Commits {
        Commits {
            stored: BTreeSet::new(),
            next_interval_at: Time::ZERO,
            sync: None,
            attempts: 0,
            waiting: VecDeque::new(),
            async_pending: 0,
            automatic_pending: 0,
            completed: VecDeque::new(),
        }
    }

    /// When the next automatic commit of the interval is due.
    pub fn next_interval_at(&self) -> Time {
        self.next_interval_at
    }

    /// The commit that blocks the application.
    pub fn sync(&self) -> Option<&SyncCommit> {
        self.sync.as_ref()
    }

    /// commitAsync()s that have not been answered.
    pub fn async_pending(&self) -> i32 {
        self.async_pending
    }

    pub(in crate::client::consumer) fn wait_for_coordinator(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn begun(&mut self, kind: CommitKind) {
        match kind {
            CommitKind::Async => self.async_pending += 1,
            CommitKind::Interval | CommitKind::BeforeJoin => self.automatic_pending += 1,
            CommitKind::Sync { .. } => {}
        }
    }

    fn ended(&mut self, kind: CommitKind) {
        match kind {
            CommitKind::Async => self.async_pending -= 1,
            CommitKind::Interval | CommitKind::BeforeJoin => self.automatic_pending -= 1,
            CommitKind::Sync { .. } => {}
        }
    }

    /// librdkafka is about to hand a record over, and stores the offset behind it.
    pub(in crate::client::consumer) fn store(&mut self, tp: TopicPartition) {
        self.stored.insert(tp);
    }

    pub(in crate::client::consumer) fn restart_interval(&mut self, now: Time, config: &ConsumerConfig) {
        if let Some(interval_ms) = config.auto_commit_interval_ms {
            self.next_interval_at = now.plus_ms(interval_ms);
        }
    }
}
