//! poll() of a member: from what it owns to what it is to own (`AbstractMembershipManager.maybeReconcile`; R-CG8-18).
//!
//! **Invariant:** what is taken from the member is not read while its positions are committed, nothing that stays is
//! touched, and the coordinator hears of the end at once.

use std::collections::BTreeSet;

use crate::client::consumer::commits::CommitKind;
use crate::client::consumer::listener::Then;
use crate::client::consumer::membership::JoinPrepare;
use crate::client::consumer::{Consumer, ConsumerTimer, Progress};
use crate::client::member::{Assigned, LocalAssignment, Phase};
use crate::client::program::Callback;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, RevokeReason};
use crate::kafka::time::Time;
use crate::kafka::types::TopicPartition;

impl Consumer {
    /// The group's share of a poll(). Whatever it waits for, records are read meanwhile.
    pub(in crate::client::consumer) fn poll_member(
        &mut self,
        now: Time,
        fx: &mut Effects<ConsumerTimer>,
    ) -> Progress {
        self.tell_lost(now, fx);
        if self.is_called_back() {
            return Progress::Blocked;
        }
        if let Some(error) = self.membership.fatal {
            self.fail(error);
            return Progress::Blocked;
        }
        if !self.subscription.is_in_group() {
            self.commit_if_interval_is_over(now, fx);
            return Progress::Ready;
        }
        self.reconcile(now, fx);
        if self.is_called_back() {
            return Progress::Blocked;
        }
        self.commit_if_interval_is_over(now, fx);
        self.match_topics();
        self.membership.heartbeat.poll_until = now.plus_ms(self.config.max_poll_interval_ms.into());
        let phase = self.membership.modern.as_ref().map(|member| member.phase);
        if matches!(phase, Some(Phase::Unsubscribed | Phase::Stale)) {
            self.begin_member(fx);
        }
        Progress::Ready
    }

    /// Brings the reconciliation as far as it goes.
    fn reconcile(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        while self.membership.modern.as_ref().is_some_and(|member| member.phase == Phase::Reconciling) {
            match self.membership.prepare {
                JoinPrepare::Needed => self.begin_reconciliation(now),
                JoinPrepare::Committing { until } | JoinPrepare::Retrying { until, .. } if until <= now => {
                    self.membership.prepare = JoinPrepare::Committed;
                }
                JoinPrepare::Committing { .. } => return,
                JoinPrepare::Retrying { at, .. } if at > now => return,
                JoinPrepare::Retrying { until, .. } => {
                    self.membership.prepare = JoinPrepare::Committing { until };
                    self.commit_positions(now, CommitKind::BeforeJoin, fx);
                }
                JoinPrepare::Committed | JoinPrepare::Done => {
                    self.membership.prepare = JoinPrepare::Needed;
                    self.finish_reconciliation(now, fx);
                    if self.is_called_back() || self.to_throw.is_some() {
                        return;
                    }
                }
            }
        }
    }

    fn begin_reconciliation(&mut self, now: Time) {
        let Some(resolved) = self.resolve_target() else { return };
        let current = self.membership.modern.as_ref().and_then(|member| member.current.as_ref());
        if current.is_some_and(|current| current.partitions == resolved.partitions) {
            // Nothing changes, or nothing of which the name is known; the coordinator hears that too.
            return self.change_member(|member| member.take(resolved));
        }
        let assigned = self.named(&resolved.partitions);
        for tp in self.subscription.partitions() {
            if !assigned.contains(&tp) {
                self.subscription.edit(&tp, |owned| owned.pending_revocation = true);
            }
        }
        self.change_member(|member| member.under_way = Some(resolved));
        self.membership.prepare = match self.config.auto_commit_interval_ms {
            None => JoinPrepare::Committed,
            Some(_) => {
                let until = now.plus_ms(self.config.max_poll_interval_ms.into());
                JoinPrepare::Retrying { at: now, until }
            }
        };
    }

    fn resolve_target(&mut self) -> Option<LocalAssignment> {
        self.membership.modern.as_mut()?.resolve_target(&mut self.metadata)
    }

    fn named(&self, partitions: &Assigned) -> BTreeSet<TopicPartition> {
        self.membership.modern.as_ref().map(|member| member.named(partitions)).unwrap_or_default()
    }

    /// onPartitionsRevoked, the new assignment, onPartitionsAssigned.
    fn finish_reconciliation(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let Some(taken) = self.membership.modern.as_ref().and_then(|member| member.under_way.clone()) else {
            return;
        };
        let assigned = self.named(&taken.partitions);
        let owned: BTreeSet<TopicPartition> = self.subscription.partitions().into_iter().collect();
        let revoked: Vec<TopicPartition> = owned.difference(&assigned).cloned().collect();
        if revoked.is_empty() {
            return self.take_assignment(now, taken, fx);
        }
        self.tell_revoked(revoked, RevokeReason::Reconciled, fx);
        self.call_listener(now, Callback::Revoked, Then::Take(taken), fx);
    }

    /// What was taken from it is given up: it owns what it was given, unless it has left its group meanwhile.
    pub(in crate::client::consumer) fn take_assignment(
        &mut self,
        now: Time,
        taken: LocalAssignment,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if !self.is_reconciling(&taken) {
            return;
        }
        let assigned = self.named(&taken.partitions);
        let owned: BTreeSet<TopicPartition> = self.subscription.partitions().into_iter().collect();
        let added = assigned.difference(&owned).cloned().collect();
        let partitions: Vec<TopicPartition> = assigned.into_iter().collect();
        self.subscription.assign(&partitions);
        self.committed_lookup.restart();
        if !self.commits_by_timer() {
            self.commits.restart_interval(now, &self.config);
        }
        fx.event(Event::PartitionsAssigned {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            generation: self.membership.identity.generation,
            partitions,
            added,
        });
        self.call_listener(now, Callback::Assigned, Then::Acknowledge(taken), fx);
    }
}
