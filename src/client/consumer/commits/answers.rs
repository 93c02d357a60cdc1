//! What came of a commit, and whom that concerns (R-CONS-20 to R-CONS-23).
//!
//! **Invariant:** each outcome goes to whoever made the commit; what it says of the membership, to the member too.

use kafka_protocol::messages::OffsetCommitResponse;

use super::{CommitCall, CommitError, CommitKind, SyncStep};
use crate::client::consumer::membership::JoinPrepare;
use crate::client::consumer::membership::MemberState;
use crate::client::consumer::reason::RejoinReason;
use crate::client::consumer::{Consumer, ConsumerTimer};
use crate::kafka::effects::Effects;
use crate::kafka::event::{CommitOutcome, Event};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::Generation;

impl Consumer {
    pub(in crate::client::consumer) fn on_offset_commit(
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
    pub(in crate::client::consumer) fn commit_done(
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
                    self.fail(error);
                }
            }
        }
    }

    pub(super) fn commit_failed_event(&self, error: ErrorCode, fx: &mut Effects<ConsumerTimer>) {
        fx.event(Event::CommitFailed { client: self.spec.name.clone(), error });
    }
}
