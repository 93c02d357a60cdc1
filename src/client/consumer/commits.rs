//! Commits: automatic ones inside poll() and before a rebalance, and those of the application, that block it or do not (the
//! commit half of Kafka's `ConsumerCoordinator`, and its `CommitRequestManager`; R-CONS-15 to R-CONS-23).
//!
//! **Invariant:** what is committed is a position: records that poll() returned, whether processed or not, and never
//! records that are only buffered (R-CONS-19).

use std::collections::VecDeque;
use std::rc::Rc;

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::config::ConsumerConfig;
use super::membership::{Identity, JoinPrepare, MemberState};
use super::owned::Position;
use super::reason::RejoinReason;
use super::requests::Call;
use super::{Consumer, ConsumerTimer};
use crate::kafka::effects::Effects;
use crate::kafka::event::{CommitOutcome, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, TopicPartition};

/// What a commit is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CommitKind {
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
pub(super) struct CommitCall {
    pub kind: CommitKind,
    pub automatic: bool,
    pub sent_as: Identity,
    pub sent_at: Time,
    pub offsets: Rc<[(TopicPartition, Position)]>,
}

/// Why a commit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitError {
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
    pub(super) fn new() -> Commits {
        Commits {
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

    pub(super) fn wait_for_coordinator(&self) -> bool {
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

    pub(super) fn restart_interval(&mut self, now: Time, config: &ConsumerConfig) {
        if let Some(interval_ms) = config.auto_commit_interval_ms {
            self.next_interval_at = now.plus_ms(interval_ms);
        }
    }
}

impl Consumer {
    /// R-CONS-17 (a): the interval is over, and poll() is called.
    pub(super) fn commit_if_interval_is_over(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        // The newer consumer makes none while one is on its way (R-CONS-21).
        let is_busy = self.config.is_modern && self.commits.automatic_pending > 0;
        let is_on = self.config.auto_commit_interval_ms.is_some() && !is_busy;
        if is_on && self.commits.next_interval_at <= now {
            self.commits.restart_interval(now, &self.config);
            self.commit_positions(now, CommitKind::Interval, fx);
        }
    }

    /// An automatic commit of all positions that does not block.
    pub(super) fn commit_positions(&mut self, now: Time, kind: CommitKind, fx: &mut Effects<ConsumerTimer>) {
        let offsets = self.subscription.all_consumed().into();
        self.begin_commit(now, kind, true, offsets, fx);
    }

    /// commitAsync(): of `offsets`, else of all positions. Not tried again, as a later commit may have passed it
    /// (R-CONS-20).
    pub(super) fn commit_async(
        &mut self,
        now: Time,
        offsets: Option<Rc<[(TopicPartition, Position)]>>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.call_back(fx);
        let offsets = offsets.unwrap_or_else(|| self.subscription.all_consumed().into());
        self.begin_commit(now, CommitKind::Async, false, offsets, fx);
    }

    /// The application hears what came of its commitAsync()s, in the order of the answers.
    pub(super) fn call_back(&mut self, fx: &mut Effects<ConsumerTimer>) {
        for outcome in std::mem::take(&mut self.commits.completed) {
            fx.event(Event::CommitCalledBack { client: self.spec.name.clone(), outcome });
        }
    }

    /// Begins a commit of `offsets`, else of all positions, that blocks the application until
    /// [`Self::sync_commit_is_over`].
    pub(super) fn begin_sync_commit(
        &mut self,
        now: Time,
        timeout_ms: i64,
        automatic: bool,
        offsets: Option<Rc<[(TopicPartition, Position)]>>,
    ) {
        // An answer that still comes to an earlier one is not taken for this one's.
        self.commits.attempts += 1;
        self.commits.sync = Some(SyncCommit {
            offsets: offsets.unwrap_or_else(|| self.subscription.all_consumed().into()),
            deadline: now.plus_ms(timeout_ms),
            step: SyncStep::ToSend(now),
            automatic,
            failures: 0,
        });
    }

    /// Brings the blocking commit as far as it goes.
    pub(super) fn sync_commit_is_over(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        self.call_back(fx);
        let Some(sync) = &mut self.commits.sync else { return true };
        let is_due = matches!(sync.step, SyncStep::ToSend(at) if at <= now)
            && self.membership.coordinator().is_some()
            && !sync.offsets.is_empty();
        // However short its time is, it is tried once.
        if is_due && (sync.failures == 0 || sync.deadline > now) {
            self.commits.attempts += 1;
            let kind = CommitKind::Sync { attempt: self.commits.attempts };
            sync.step = SyncStep::InFlight;
            let (automatic, offsets) = (sync.automatic, sync.offsets.clone());
            self.begin_commit(now, kind, automatic, offsets, fx);
        }
        let Some(sync) = &self.commits.sync else { return true };
        // What commitAsync() committed before has been answered when it returns.
        if sync.offsets.is_empty() && self.commits.async_pending == 0 {
            self.commits.sync = None;
        } else if sync.deadline <= now {
            self.commits.sync = None;
            self.commit_failed_event(ErrorCode::RequestTimedOut, fx);
        }
        self.commits.sync.is_none()
    }

    /// Sends a commit, or keeps it until the coordinator is known.
    fn begin_commit(
        &mut self,
        now: Time,
        kind: CommitKind,
        automatic: bool,
        offsets: Rc<[(TopicPartition, Position)]>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.commits.begun(kind);
        if offsets.is_empty() || self.membership.coordinator().is_some() {
            self.send_commit(now, kind, automatic, offsets, fx);
        } else {
            self.commits.waiting.push_back(WaitingCommit { kind, automatic, offsets });
        }
    }

    /// The coordinator is known.
    pub(super) fn send_waiting_commits(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        for WaitingCommit { kind, automatic, offsets } in std::mem::take(&mut self.commits.waiting) {
            self.send_commit(now, kind, automatic, offsets, fx);
        }
    }

    /// The coordinator was looked for in vain: the classic consumer's commits do not wait for the next try.
    pub(super) fn fail_waiting_commits(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if self.config.is_modern {
            return;
        }
        for WaitingCommit { kind, automatic, offsets } in std::mem::take(&mut self.commits.waiting) {
            let call = self.commit_call(now, kind, automatic, offsets);
            self.commit_done(now, &call, Err(CommitError::Retriable), fx);
        }
    }

    fn commit_call(
        &self,
        now: Time,
        kind: CommitKind,
        automatic: bool,
        offsets: Rc<[(TopicPartition, Position)]>,
    ) -> CommitCall {
        let sent_as = self.membership.identity.clone();
        CommitCall { kind, automatic, sent_as, sent_at: now, offsets }
    }

    fn send_commit(
        &mut self,
        now: Time,
        kind: CommitKind,
        automatic: bool,
        offsets: Rc<[(TopicPartition, Position)]>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let call = self.commit_call(now, kind, automatic, offsets);
        let is_member = self.subscription.is_in_group();
        let is_out = is_member && !self.config.is_modern && self.membership.state != MemberState::Stable;
        if call.offsets.is_empty() {
            self.commit_done(now, &call, Ok(()), fx);
        } else if is_out {
            // The member is out of its generation: the coordinator would refuse, so the client does.
            let error = CommitError::Final(self.error_outside_generation());
            self.commit_done(now, &call, Err(error), fx);
        } else {
            // Who was given partitions by assign() commits as nobody (R-CONS-10); the newer consumer names itself all the same.
            let instance_id = self.config.instance_id_to_wire();
            let instance_id = instance_id.filter(|_| is_member || self.config.is_modern);
            let request = OffsetCommitRequest::default()
                .with_group_id(self.group_id())
                .with_generation_id_or_member_epoch(call.sent_as.generation.0)
                .with_member_id(call.sent_as.member.to_wire())
                .with_group_instance_id(instance_id)
                .with_topics(topics_of(&call.offsets));
            self.send_to_coordinator(now, request, Call::OffsetCommit(Rc::new(call)), fx);
        }
    }

    /// RebalanceInProgressException, else CommitFailedException.
    fn error_outside_generation(&self) -> ErrorCode {
        match self.membership.is_rebalancing() {
            true => ErrorCode::RebalanceInProgress,
            false => ErrorCode::UnknownMemberId,
        }
    }

    pub(super) fn on_offset_commit(
        &mut self,
        now: Time,
        call: &CommitCall,
        answer: &OffsetCommitResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let codes = answer.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| p.error_code));
        let error = codes.map(ErrorCode::from_code).find(|error| !error.is_ok());
        let result = match error {
            None => Ok(()),
            Some(error) if self.config.is_modern => Err(self.modern_commit_error(now, call, error, fx)),
            Some(error) => Err(self.commit_error(now, call, error, fx)),
        };
        self.commit_done(now, call, result, fx);
    }

    /// What an error of a commit means to the member (R-CONS-22).
    fn commit_error(
        &mut self,
        now: Time,
        call: &CommitCall,
        error: ErrorCode,
        fx: &mut Effects<ConsumerTimer>,
    ) -> CommitError {
        match error {
            ErrorCode::CoordinatorLoadInProgress | ErrorCode::UnknownTopicOrPartition => {
                CommitError::Retriable
            }
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator | ErrorCode::RequestTimedOut => {
                self.mark_coordinator_unknown(now, error, fx);
                CommitError::Retriable
            }
            ErrorCode::RebalanceInProgress => {
                self.membership.request_rejoin(RejoinReason::CommitMetRebalance);
                CommitError::Final(error)
            }
            ErrorCode::FencedInstanceId if call.sent_as == self.membership.identity => {
                CommitError::Final(error)
            }
            // Of a generation that is over; what fences the member will be told again if it still counts.
            ErrorCode::FencedInstanceId => CommitError::Final(self.error_outside_generation()),
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => {
                let newer_rebalance = call.sent_as != self.membership.identity
                    && self.membership.state == MemberState::PreparingRebalance;
                if newer_rebalance {
                    return CommitError::Final(ErrorCode::RebalanceInProgress);
                }
                let reset_member_id = error == ErrorCode::UnknownMemberId;
                let reason = RejoinReason::ErrorOf { error, api: "OFFSET_COMMIT" };
                self.membership.reset(reset_member_id, reason);
                CommitError::Final(error)
            }
            error => CommitError::Final(error),
        }
    }

    /// What an error of a commit means with group.protocol=consumer: nothing to the membership, of which heartbeats tell.
    /// Before partitions are given up a commit of an epoch that is over is made again in that of now.
    fn modern_commit_error(
        &mut self,
        now: Time,
        call: &CommitCall,
        error: ErrorCode,
        fx: &mut Effects<ConsumerTimer>,
    ) -> CommitError {
        match error {
            ErrorCode::CoordinatorLoadInProgress => CommitError::Retriable,
            // The topic is deleted: what is given up does not wait for it.
            ErrorCode::UnknownTopicOrPartition if call.kind == CommitKind::BeforeJoin => {
                CommitError::Final(error)
            }
            ErrorCode::UnknownTopicOrPartition => CommitError::Retriable,
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator | ErrorCode::RequestTimedOut => {
                self.mark_coordinator_unknown(now, error, fx);
                CommitError::Retriable
            }
            ErrorCode::StaleMemberEpoch
                if call.kind == CommitKind::BeforeJoin
                    && self.membership.identity.generation != Generation::NONE =>
            {
                CommitError::Retriable
            }
            error => CommitError::Final(error),
        }
    }

    /// Tells whoever made the commit.
    pub(super) fn commit_done(
        &mut self,
        now: Time,
        call: &CommitCall,
        result: Result<(), CommitError>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        self.commits.ended(call.kind);
        if result.is_ok() {
            self.confirm_commit(now, call, fx);
        }
        let is_sync = matches!(call.kind, CommitKind::Sync { .. });
        if result == Err(CommitError::Final(ErrorCode::FencedInstanceId)) && !is_sync {
            self.membership.fatal = Some(ErrorCode::FencedInstanceId);
        }
        match call.kind {
            CommitKind::Interval => self.interval_commit_done(now, result, fx),
            CommitKind::Async => self.commits.completed.push_back(match result {
                Ok(()) => CommitOutcome::Committed,
                Err(CommitError::Retriable) => CommitOutcome::Retriable,
                Err(CommitError::Final(error)) => CommitOutcome::Failed(error),
            }),
            CommitKind::BeforeJoin => self.commit_before_join_done(now, result, fx),
            CommitKind::Sync { attempt } if attempt == self.commits.attempts => {
                self.sync_commit_done(now, result, fx);
            }
            CommitKind::Sync { .. } => {}
        }
    }

    fn confirm_commit(&mut self, now: Time, call: &CommitCall, fx: &mut Effects<ConsumerTimer>) {
        if call.offsets.is_empty() {
            return;
        }
        for (tp, position) in call.offsets.iter() {
            self.subscription.edit(tp, |owned| owned.committed = Some(position.offset));
        }
        fx.event(Event::CommitConfirmed {
            client: self.spec.name.clone(),
            offsets: call.offsets.iter().map(|(tp, position)| (tp.clone(), position.offset)).collect(),
            automatic: call.automatic,
            generation: call.sent_as.generation,
            latency_ms: now.ms_since(call.sent_at),
        });
    }

    /// R-CONS-21: a retriable failure is tried again soon, any other is only logged.
    fn interval_commit_done(
        &mut self,
        now: Time,
        result: Result<(), CommitError>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        match result {
            Ok(()) => {}
            Err(CommitError::Retriable) => {
                self.commits.next_interval_at = now.plus_ms(self.config.common.retry_backoff.initial_ms);
            }
            Err(CommitError::Final(error)) => self.commit_failed_event(error, fx),
        }
    }

    /// R-GRP-29: retried until it succeeds or the rebalance timeout is over.
    fn commit_before_join_done(
        &mut self,
        now: Time,
        result: Result<(), CommitError>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let JoinPrepare::Committing { until } = self.membership.prepare else { return };
        self.membership.prepare = match result {
            Err(CommitError::Retriable) => {
                let at = now.plus_ms(self.config.common.retry_backoff.initial_ms);
                JoinPrepare::Retrying { at, until }
            }
            Ok(()) | Err(CommitError::Final(_)) => JoinPrepare::Committed,
        };
        if let Err(CommitError::Final(error)) = result {
            self.commit_failed_event(error, fx);
        }
    }

    /// R-CONS-20: retriable errors are retried until the deadline, others are thrown.
    fn sync_commit_done(
        &mut self,
        now: Time,
        result: Result<(), CommitError>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let Some(sync) = &mut self.commits.sync else { return };
        match result {
            Ok(()) => self.commits.sync = None,
            Err(CommitError::Retriable) => {
                let wait_ms = self.config.common.retry_backoff.after(sync.failures, &mut self.random);
                sync.failures += 1;
                sync.step = SyncStep::ToSend(now.plus_ms(wait_ms));
            }
            Err(CommitError::Final(error)) => {
                let automatic = sync.automatic;
                self.commits.sync = None;
                self.commit_failed_event(error, fx);
                if error == ErrorCode::FencedInstanceId && !automatic {
                    // The application could go on after other exceptions: poll() sets them right.
                    self.fail(now, error, fx);
                }
            }
        }
    }

    fn commit_failed_event(&self, error: ErrorCode, fx: &mut Effects<ConsumerTimer>) {
        fx.event(Event::CommitFailed { client: self.spec.name.clone(), error });
    }
}

fn topics_of(offsets: &[(TopicPartition, Position)]) -> Vec<OffsetCommitRequestTopic> {
    let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
    for (tp, position) in offsets {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(tp.partition)
            .with_committed_offset(position.offset.0)
            .with_committed_leader_epoch(position.epoch.0)
            .with_committed_metadata(Some(StrBytes::from_static_str("")));
        match topics.last_mut() {
            Some(topic) if topic.name.as_str() == tp.topic.as_str() => topic.partitions.push(partition),
            _ => topics.push(
                OffsetCommitRequestTopic::default()
                    .with_name(TopicName(tp.topic.to_wire()))
                    .with_partitions(vec![partition]),
            ),
        }
    }
    topics
}
