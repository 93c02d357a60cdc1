//! Partitions change hands: what a member gives up before it joins, what the assignment takes from it and gives it
//! (the listener's half of Kafka's `ConsumerCoordinator`: onJoinPrepare, onJoinComplete, onLeavePrepare).
//!
//! **Invariant:** partitions change hands only inside poll() and close(). An eager member owns nothing while it joins, a
//! cooperative one keeps what it has and reads on (R-GRP-31).

use std::collections::BTreeSet;
use std::rc::Rc;

use super::choice::Choice;
use super::commits::CommitKind;
use super::membership::{JoinPrepare, LastAssignment};
use super::reason::RejoinReason;
use super::{Consumer, ConsumerTimer};
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
                    let identity = &self.membership.identity;
                    if identity.generation == Generation::NONE || identity.member.is_unknown() {
                        self.give_up_all(RevokeReason::Lost, fx);
                    } else if self.protocol() == RebalanceProtocol::Eager {
                        self.give_up_all(RevokeReason::Rebalance, fx);
                    } else {
                        self.give_up_unsubscribed(fx);
                    }
                    self.stop_leading();
                    self.membership.prepare = JoinPrepare::Done;
                }
            }
        }
    }

    pub(super) fn protocol(&self) -> RebalanceProtocol {
        self.config.strategy.protocol()
    }

    /// onPartitionsRevoked or onPartitionsLost for all partitions.
    pub(super) fn give_up_all(&mut self, reason: RevokeReason, fx: &mut Effects<ConsumerTimer>) {
        let partitions = self.subscription.partitions();
        if !partitions.is_empty() {
            self.subscription.assign(&[]);
            self.tell_revoked(partitions, reason, fx);
        }
    }

    /// A cooperative member keeps what it still subscribes to.
    fn give_up_unsubscribed(&mut self, fx: &mut Effects<ConsumerTimer>) {
        let subscribed = self.subscription.topics();
        let owned = self.subscription.partitions().into_iter();
        let (kept, revoked): (Vec<_>, Vec<_>) = owned.partition(|tp| subscribed.contains(&tp.topic));
        if !revoked.is_empty() {
            self.tell_revoked(revoked, RevokeReason::Unsubscribed, fx);
            self.subscription.assign(&kept);
        }
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
        self.take_matching(assignment);
        let assigned: BTreeSet<TopicPartition> = assignment.iter().cloned().collect();
        let owned: BTreeSet<TopicPartition> = self.subscription.partitions().into_iter().collect();
        let revoked: Vec<TopicPartition> = owned.difference(&assigned).cloned().collect();
        if !revoked.is_empty() {
            // Only a cooperative member still owns any. Others get them in the rebalance that this one asks for.
            self.tell_revoked(revoked, RevokeReason::Reassigned, fx);
            self.membership.request_rejoin(RejoinReason::Revoked);
        }
        let generation = self.membership.identity.generation;
        if let Some(assignor) = self.membership.identity.assignor {
            let last = LastAssignment { partitions: assignment.clone(), generation };
            self.membership.last_assignments.insert(assignor, last);
        }
        if !self.commits_by_timer() {
            self.commits.restart_interval(now, &self.config);
        }
        let added = assigned.difference(&owned).cloned().collect();
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

    pub(super) fn tell_revoked(
        &self,
        partitions: Vec<TopicPartition>,
        reason: RevokeReason,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        fx.event(Event::PartitionsRevoked {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            partitions,
            reason,
        });
    }
}
