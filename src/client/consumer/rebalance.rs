//! A rebalance as a member goes through it: give up what it owns, JoinGroup, plan if it leads, SyncGroup, take over the
//! assignment (Kafka's `ConsumerCoordinator` and `AbstractCoordinator`, eager protocol).
//!
//! **Invariant:** partitions change hands only inside poll(); an eager member owns nothing while it joins (R-GRP-31).

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::commits::CommitKind;
use super::membership::{Identity, Join, JoinPrepare, MemberState};
use super::requests::Call;
use super::{Consumer, ConsumerTimer, Progress};
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, RevokeReason};
use crate::kafka::group::assignor::{ClientAssignor, Subscription, TopicShape};
use crate::kafka::group::consumer_protocol::{
    self, ConsumerAssignment, ConsumerSubscription, assigned_partitions, subscribed_topics,
};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, MemberId, Topic, TopicPartition};

const PROTOCOL_TYPE: &str = "consumer";
const ASSIGNOR: ClientAssignor = ClientAssignor::Range;

/// When a failed join is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    AtOnce,
    AfterBackoff,
}

impl Consumer {
    /// The group's share of a poll(): find the coordinator, join if needed, commit if that is due.
    pub(super) fn poll_group(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> Progress {
        self.rejoin_if_the_plan_is_outdated();
        if self.membership.coordinator().is_none() {
            return Progress::Blocked;
        }
        if self.membership.rejoin_needed_or_pending() && !self.join_if_needed(now, fx) {
            return Progress::Waiting;
        }
        self.commit_if_interval_is_over(now, fx);
        Progress::Ready
    }

    /// A leader joins again when the partition counts that it planned for have changed (R-GRP-34).
    fn rejoin_if_the_plan_is_outdated(&mut self) {
        let Some(planned_for) = &self.membership.planned_for else { return };
        let is_current =
            planned_for.iter().map(|(topic, count)| (topic, *count)).eq(self.group_partition_counts());
        if !self.membership.rejoin_needed && !is_current {
            self.membership.request_rejoin("cached metadata has changed");
        }
    }

    fn group_partition_counts(&self) -> impl Iterator<Item = (&Topic, i32)> {
        let count = |topic| Some((topic, self.metadata.partition_count(topic)?));
        self.membership.group_topics.iter().filter_map(count)
    }

    /// Brings the join as far as it goes; true once the member is joined and owns its partitions.
    fn join_if_needed(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        loop {
            match self.membership.join.clone() {
                Join::Idle { not_before } if not_before > now => return false,
                Join::Idle { .. } => {
                    if self.prepare_join(now, fx) {
                        self.send_join(now, fx);
                    }
                    return false;
                }
                Join::Joining { .. } | Join::AwaitingMetadata { .. } | Join::Syncing { .. } => return false,
                Join::Synced { assignment } => {
                    self.membership.join = Join::IDLE;
                    self.membership.prepare = JoinPrepare::Needed;
                    match self.membership.state {
                        MemberState::Stable => self.complete_join(now, &assignment, fx),
                        _ => {
                            self.membership.reset(true, "rebalance failed since the generation was modified")
                        }
                    }
                    if !self.membership.rejoin_needed {
                        return true;
                    }
                }
            }
        }
    }

    /// Commits if commits are automatic, then gives up all partitions (R-GRP-29); true when that is over.
    fn prepare_join(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> bool {
        loop {
            match self.membership.prepare {
                JoinPrepare::Done => return true,
                JoinPrepare::Needed if self.config.auto_commit_interval_ms.is_some() => {
                    self.subscription.mark_pending_revocation();
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
                    let lost = identity.generation == Generation::NONE || identity.member.is_unknown();
                    let reason = if lost { RevokeReason::Lost } else { RevokeReason::Rebalance };
                    self.give_up_partitions(reason, fx);
                    self.membership.prepare = JoinPrepare::Done;
                }
            }
        }
    }

    /// onPartitionsRevoked or onPartitionsLost for all partitions.
    pub(super) fn give_up_partitions(&mut self, reason: RevokeReason, fx: &mut Effects<ConsumerTimer>) {
        let partitions = self.subscription.partitions();
        self.subscription.assign(&[]);
        self.membership.is_leader = false;
        self.membership.group_topics.clear();
        self.metadata.want(self.spec.topics.iter().cloned().collect());
        if !partitions.is_empty() {
            fx.event(Event::PartitionsRevoked {
                client: self.spec.name.clone(),
                group: self.spec.group.clone(),
                partitions,
                reason,
            });
        }
    }

    fn send_join(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let sent_as = self.membership.identity.clone();
        // An eager member owns nothing when it joins (R-GRP-29).
        let subscription = ConsumerSubscription {
            topics: self.spec.topics.clone(),
            user_data: None,
            owned: Vec::new(),
            generation: sent_as.generation,
            rack: None,
        };
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(ASSIGNOR.name()))
            .with_metadata(subscription.encode(consumer_protocol::VERSION));
        let request = JoinGroupRequest::default()
            .with_group_id(self.group_id())
            .with_session_timeout_ms(self.config.session_timeout_ms)
            .with_rebalance_timeout_ms(self.config.max_poll_interval_ms)
            .with_member_id(sent_as.member.to_wire())
            .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
            .with_protocols(vec![protocol])
            .with_reason(Some(StrBytes::from_static_str(self.membership.rejoin_reason)));
        self.membership.state = MemberState::PreparingRebalance;
        self.membership.join = Join::Joining { since: now };
        fx.event(Event::JoinSent { client: self.spec.name.clone(), group: self.spec.group.clone() });
        let timeout_ms = self.config.join_timeout_ms();
        self.send_to_coordinator_within(now, request, Call::JoinGroup { sent_as }, timeout_ms, fx);
    }

    pub(super) fn on_join_group(
        &mut self,
        now: Time,
        sent_as: &Identity,
        answer: &JoinGroupResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if self.membership.state != MemberState::PreparingRebalance {
            // The member left while the request was on its way.
            return self.join_failed(
                now,
                Retry::AfterBackoff,
                "rebalance failed due to UnjoinedGroupException",
            );
        }
        let member = MemberId::new(&answer.member_id);
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => self.joined(now, member, answer, fx),
            ErrorCode::MemberIdRequired => {
                self.membership.identity = Identity { member, generation: Generation::NONE };
                self.join_failed(now, Retry::AtOnce, "need to re-join with the given member-id");
            }
            ErrorCode::UnknownMemberId => {
                if *sent_as == self.membership.identity {
                    self.membership.reset(true, "encountered UNKNOWN_MEMBER_ID from JOIN_GROUP response");
                }
                self.join_failed(now, Retry::AtOnce, "rebalance failed due to UnknownMemberIdException");
            }
            ErrorCode::RebalanceInProgress => {
                self.join_failed(now, Retry::AtOnce, "rebalance failed due to RebalanceInProgressException");
            }
            ErrorCode::CoordinatorLoadInProgress => {
                self.join_failed(
                    now,
                    Retry::AfterBackoff,
                    "rebalance failed due to CoordinatorLoadInProgressException",
                );
            }
            error @ (ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator) => {
                self.join_failed(now, Retry::AfterBackoff, "rebalance failed due to NotCoordinatorException");
                self.mark_coordinator_unknown(now, error, fx);
            }
            error => self.fail(now, error, fx),
        }
    }

    fn join_failed(&mut self, now: Time, retry: Retry, reason: &'static str) {
        let not_before = match retry {
            Retry::AtOnce => now,
            Retry::AfterBackoff => now.plus_ms(self.config.common.retry_backoff.initial_ms),
        };
        self.membership.join = Join::Idle { not_before };
        self.membership.request_rejoin(reason);
    }

    /// JoinGroup or SyncGroup will not be answered.
    pub(super) fn join_lost(&mut self, now: Time) {
        if matches!(self.membership.join, Join::Joining { .. } | Join::Syncing { .. }) {
            self.join_failed(now, Retry::AfterBackoff, "rebalance failed due to DisconnectException");
        }
    }

    fn joined(
        &mut self,
        now: Time,
        member: MemberId,
        answer: &JoinGroupResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let leads = answer.leader == answer.member_id;
        self.membership.state = MemberState::CompletingRebalance;
        self.membership.identity = Identity { member, generation: Generation(answer.generation_id) };
        self.reset_heartbeat(now);
        if !leads {
            return self.send_sync(now, Vec::new(), fx);
        }
        let members: Rc<[Subscription]> = answer
            .members
            .iter()
            .map(|member| Subscription {
                instance_id: member.group_instance_id.as_ref().map(|id| id.to_string()),
                // What is no subscription subscribes to nothing.
                ..Subscription::new(
                    MemberId::new(&member.member_id),
                    subscribed_topics(&member.metadata).unwrap_or_default().into(),
                )
            })
            .collect();
        self.membership.is_leader = true;
        self.membership.group_topics =
            members.iter().flat_map(|member| member.topics.iter().cloned()).collect();
        let own = self.spec.topics.iter().cloned();
        self.metadata.want(self.membership.group_topics.iter().cloned().chain(own).collect());
        self.membership.join = Join::AwaitingMetadata { since: now, members };
        self.plan_if_metadata_is_there(now, fx);
    }

    /// The leader's plan, once each topic's metadata has been asked for.
    pub(super) fn plan_if_metadata_is_there(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let Join::AwaitingMetadata { members, .. } = &self.membership.join else { return };
        if self.membership.group_topics.iter().any(|topic| self.metadata.topic(topic).is_none()) {
            return;
        }
        let counts: BTreeMap<Topic, i32> =
            self.group_partition_counts().map(|(topic, count)| (topic.clone(), count)).collect();
        let shape = |(topic, count): (&Topic, &i32)| (topic.clone(), TopicShape::of_partitions(*count));
        let plan = ASSIGNOR.assign(members, &counts.iter().map(shape).collect());
        self.membership.planned_for = Some(Rc::new(counts));
        // An assignor that throws makes poll() throw.
        let Ok(plan) = plan else { return self.fail(now, ErrorCode::UnknownServerError, fx) };
        let assignments = plan.into_iter().map(|(member, partitions)| {
            let assignment = ConsumerAssignment { partitions, user_data: None };
            SyncGroupRequestAssignment::default()
                .with_member_id(member.to_wire())
                .with_assignment(assignment.encode(consumer_protocol::VERSION))
        });
        self.send_sync(now, assignments.collect(), fx);
    }

    fn send_sync(
        &mut self,
        now: Time,
        assignments: Vec<SyncGroupRequestAssignment>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if self.membership.coordinator().is_none() {
            let reason = "rebalance failed due to CoordinatorNotAvailableException";
            return self.join_failed(now, Retry::AfterBackoff, reason);
        }
        let sent_as = self.membership.identity.clone();
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(sent_as.generation.0)
            .with_member_id(sent_as.member.to_wire())
            .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
            .with_protocol_name(Some(StrBytes::from_static_str(ASSIGNOR.name())))
            .with_assignments(assignments);
        self.membership.join = Join::Syncing { since: now };
        self.send_to_coordinator(now, request, Call::SyncGroup { sent_as }, fx);
    }

    pub(super) fn on_sync_group(
        &mut self,
        now: Time,
        sent_as: &Identity,
        answer: &SyncGroupResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None if self.membership.state == MemberState::CompletingRebalance => {
                self.membership.state = MemberState::Stable;
                self.membership.rejoin_needed = false;
                self.membership.rejoin_reason = "";
                let mut assignment = assigned_partitions(&answer.assignment);
                assignment.sort();
                self.membership.join = Join::Synced { assignment: assignment.into() };
            }
            // The background thread reset the member in between.
            ErrorCode::None => {
                self.join_failed(now, Retry::AtOnce, "rebalance failed due to IllegalGenerationException");
            }
            ErrorCode::RebalanceInProgress => {
                self.join_failed(now, Retry::AtOnce, "rebalance failed due to RebalanceInProgressException");
            }
            error @ (ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => {
                if *sent_as == self.membership.identity {
                    let reset_member_id = error == ErrorCode::UnknownMemberId;
                    self.membership.reset(reset_member_id, "encountered error from SYNC_GROUP response");
                }
                self.join_failed(now, Retry::AtOnce, "rebalance failed due to an error of SYNC_GROUP");
            }
            error @ (ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator) => {
                self.join_failed(now, Retry::AfterBackoff, "rebalance failed due to NotCoordinatorException");
                self.mark_coordinator_unknown(now, error, fx);
            }
            error => self.fail(now, error, fx),
        }
    }

    /// Takes over the assignment (R-GRP-30); one that names a topic that is not subscribed to is given back (R-GRP-33).
    fn complete_join(&mut self, now: Time, assignment: &[TopicPartition], fx: &mut Effects<ConsumerTimer>) {
        if !self.membership.is_leader {
            self.membership.planned_for = None;
        }
        if assignment.iter().any(|tp| !self.spec.topics.contains(&tp.topic)) {
            return self
                .membership
                .request_rejoin("received assignment does not match the current subscription");
        }
        self.commits.restart_interval(now, &self.config);
        self.subscription.assign(assignment);
        self.committed_lookup.restart();
        fx.event(Event::PartitionsAssigned {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            generation: self.membership.identity.generation,
            partitions: assignment.to_vec(),
        });
    }
}
