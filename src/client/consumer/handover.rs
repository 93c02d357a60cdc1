//! Partitions change hands: what a member gives up before it joins, what the assignment takes from it and gives it
//! (the listener's half of Kafka's `ConsumerCoordinator`: onJoinPrepare, onJoinComplete, onLeavePrepare).
//!
//! **Invariant:** partitions change hands only inside poll() and close(). An eager member owns nothing while it joins, a
//! cooperative one keeps what it has and reads on (R-GRP-31).

use std::collections::BTreeSet;
use std::rc::Rc;

use super::choice::Choice;
use super::commits::CommitKind;
use super::listener::Then;
use super::membership::{JoinPrepare, LastAssignment};
use super::reason::RejoinReason;
use super::{Consumer, ConsumerTimer};
use crate::client::program::Callback;
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, RevokeReason};
use crate::kafka::group::assignor::RebalanceProtocol;
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, Topic, TopicPartition};

impl Consumer {
    /// Commits if commits are automatic, then gives up what the protocol asks for (R-GRP-29); true when that is over.
    pub(super) fn prepare_join(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        loop {
            match self.membership.prepare {
                JoinPrepare::Done => return true,
                JoinPrepare::Needed if self.config.auto_commit_interval_ms.is_some() => {
                    if self.protocol() == RebalanceProtocol::Eager {
                        self.subscription.mark_pending_revocation();
                    }
                    let until = now.plus_ms(self.config.max_poll_interval_ms.into());
                    self.membership.prepare = JoinPrepare::Retrying { at: now, until };
                }
                JoinPrepare::Needed => self.membership.prepare = JoinPrepare::Committed,
                JoinPrepare::Committing { until } | JoinPrepare::Retrying { until, .. } if until <= now => {
                    self.membership.prepare = JoinPrepare::Committed;
                }
                JoinPrepare::Committing { .. } => return false,
                JoinPrepare::Retrying { at, .. } if at > now => return false,
                JoinPrepare::Retrying { until, .. } => {
                    self.membership.prepare = JoinPrepare::Committing { until };
                    self.commit_positions(now, CommitKind::BeforeJoin, fx);
                }
                JoinPrepare::Committed => {
                    self.give_up_before_join(now, fx);
                    if self.is_called_back() || self.to_throw.is_some() {
                        return false;
                    }
                }
            }
        }
    }

    fn give_up_before_join(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let identity = &self.membership.identity;
        let kept = Vec::new();
        if identity.generation == Generation::NONE || identity.member.is_unknown() {
            self.give_up_all(now, RevokeReason::Lost, Then::Join { kept }, fx);
        } else if self.protocol() == RebalanceProtocol::Eager {
            self.tell_revoked(self.subscription.partitions(), RevokeReason::Rebalance, fx);
            self.call_listener(now, Callback::Revoked, Then::Join { kept }, fx);
        } else {
            self.give_up_unsubscribed(now, fx);
        }
    }

    /// What had to be given up before the join is given up.
    pub(super) fn prepared_to_join(&mut self) {
        self.stop_leading();
        self.membership.prepare = JoinPrepare::Done;
    }

    pub(super) fn protocol(&self) -> RebalanceProtocol {
        self.config.strategy.protocol()
    }

    /// onPartitionsRevoked or onPartitionsLost for all partitions, if there are any; `then` gives them up.
    pub(super) fn give_up_all(
        &mut self,
        now: Time,
        reason: RevokeReason,
        then: Then,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let partitions = self.subscription.partitions();
        if partitions.is_empty() {
            return self.after_callback(now, then, fx);
        }
        self.tell_revoked(partitions, reason, fx);
        let callback = if reason == RevokeReason::Lost { Callback::Lost } else { Callback::Revoked };
        self.call_listener(now, callback, then, fx);
    }

    /// A cooperative member keeps what it still subscribes to.
    fn give_up_unsubscribed(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let subscribed = self.subscription.topics();
        let owned = self.subscription.partitions().into_iter();
        let (kept, revoked): (Vec<_>, Vec<_>) = owned.partition(|tp| subscribed.contains(&tp.topic));
        if revoked.is_empty() {
            return self.prepared_to_join();
        }
        self.tell_revoked(revoked, RevokeReason::Unsubscribed, fx);
        self.call_listener(now, Callback::Revoked, Then::Join { kept }, fx);
    }

    /// It watches its own topics only from now on.
    fn stop_leading(&mut self) {
        self.membership.is_leader = false;
        self.membership.group_topics.clear();
        self.want_metadata();
    }

    /// Takes over the assignment (R-GRP-30); one that names a topic that is not subscribed to is given back (R-GRP-33).
    pub(super) fn complete_join(
        &mut self,
        now: Time,
        assignment: &Rc<[TopicPartition]>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if !self.membership.is_leader {
            self.membership.planned_for = None;
        }
        if assignment.iter().any(|tp| !self.subscription.is_subscribed(&tp.topic)) {
            return self.membership.request_rejoin(RejoinReason::AssignmentMismatch);
        }
        let assigned: BTreeSet<TopicPartition> = assignment.iter().cloned().collect();
        let owned: BTreeSet<TopicPartition> = self.subscription.partitions().into_iter().collect();
        let revoked: Vec<TopicPartition> = owned.difference(&assigned).cloned().collect();
        if revoked.is_empty() {
            return self.take_plan(now, assignment, &owned, fx);
        }
        // Only a cooperative member still owns any. Others get them in the rebalance that it asks for.
        self.tell_revoked(revoked, RevokeReason::Reassigned, fx);
        let then = Then::TakePlan { assignment: assignment.clone(), owned };
        self.call_listener(now, Callback::Revoked, then, fx);
    }

    /// The partitions that it has to give up are given up: it owns what the leader has planned.
    pub(super) fn take_plan(
        &mut self,
        now: Time,
        assignment: &Rc<[TopicPartition]>,
        owned: &BTreeSet<TopicPartition>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let assigned: BTreeSet<TopicPartition> = assignment.iter().cloned().collect();
        if !owned.is_subset(&assigned) {
            self.membership.request_rejoin(RejoinReason::Revoked);
        }
        self.take_matching(assignment);
        let generation = self.membership.identity.generation;
        if let Some(assignor) = self.membership.identity.assignor {
            let last = LastAssignment { partitions: assignment.clone(), generation };
            self.membership.last_assignments.insert(assignor, last);
        }
        if !self.commits_by_timer() {
            self.commits.restart_interval(now, &self.config);
        }
        let added = assigned.difference(owned).cloned().collect();
        let partitions: Vec<TopicPartition> = assigned.into_iter().collect();
        self.subscription.assign(&partitions);
        self.committed_lookup.restart();
        fx.event(Event::PartitionsAssigned {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            generation,
            partitions,
            added,
        });
        self.call_listener(now, Callback::Assigned, Then::Nothing, fx);
    }

    /// The leader may know topics that match which this member does not know yet (`maybeUpdateJoinedSubscription`).
    fn take_matching(&mut self, assignment: &[TopicPartition]) {
        let Some(joined_with) = &mut self.membership.joined_with else { return };
        let new = assignment.iter().map(|tp| &tp.topic).filter(|topic| !joined_with.contains(*topic));
        let new: BTreeSet<Topic> = new.cloned().collect();
        if matches!(self.subscription.choice(), Some(Choice::Pattern(_))) && !new.is_empty() {
            joined_with.extend(new.iter().cloned());
            let all: BTreeSet<Topic> = self.subscription.topics().into_iter().chain(new).collect();
            self.subscription.set_matched(all.into_iter().collect());
            self.want_metadata();
        }
    }

    /// Tells that partitions are taken from it, if any are.
    pub(super) fn tell_revoked(
        &self,
        partitions: Vec<TopicPartition>,
        reason: RevokeReason,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if partitions.is_empty() {
            return;
        }
        fx.event(Event::PartitionsRevoked {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            partitions,
            reason,
        });
    }
}
