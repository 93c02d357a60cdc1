//! A rebalance as a member goes through it: give up partitions, JoinGroup, plan if it leads, SyncGroup, take over the
//! assignment (the second half of Kafka's `AbstractCoordinator`).
//!
//! **Invariant:** a member that joins says what it owns, to every assignor that it brings along, and does as the one that
//! the coordinator chose has planned.

use std::collections::BTreeSet;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::choice::Choice;
use super::membership::{Identity, Join, JoinPrepare, MemberState};
use super::reason::RejoinReason;
use super::requests::Call;
use super::{Consumer, ConsumerTimer, Progress};
use crate::kafka::effects::Effects;
use crate::kafka::event::Event;
use crate::kafka::group::assignor::ClientAssignor;
use crate::kafka::group::consumer_protocol::{self, ConsumerSubscription, assigned_partitions};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, MemberId, Topic};

const PROTOCOL_TYPE: &str = "consumer";

/// When a failed join is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    AtOnce,
    AfterBackoff,
}

impl Consumer {
    /// The group's share of a poll(): find the coordinator, join if needed, commit if that is due.
    pub(super) fn poll_group(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) -> Progress {
        self.call_back(fx);
        if self.config.is_modern {
            return self.poll_member(now, fx);
        }
        if let Some(error) = self.membership.fatal {
            self.fail(error);
            return Progress::Blocked;
        }
        if !self.subscription.is_in_group() {
            self.commit_if_interval_is_over(now, fx);
            return Progress::Ready;
        }
        self.match_topics();
        self.rejoin_if_the_plan_is_outdated();
        self.rejoin_if_the_subscription_changed();
        if self.membership.coordinator().is_none() {
            return Progress::Blocked;
        }
        if self.membership.rejoin_needed_or_pending() {
            if !self.has_fresh_metadata(now) {
                return Progress::Blocked;
            }
            self.match_topics();
            if !self.join_if_needed(now, fx) {
                return Progress::Waiting;
            }
        }
        self.commit_if_interval_is_over(now, fx);
        Progress::Ready
    }

    /// Before it joins a member with a pattern looks once more for the topics that match, so that one new topic does not
    /// make each member of the group join at another time (`ensureFreshMetadata`).
    fn has_fresh_metadata(&mut self, now: Time) -> bool {
        if !matches!(self.subscription.choice(), Some(Choice::Pattern(_))) {
            return true;
        }
        let version = self.metadata.update_version();
        match self.fresh_after {
            Some(after) if version <= after => return false,
            Some(_) => self.fresh_after = None,
            None => {
                if self.metadata.may_update(now) {
                    self.metadata.request_fresh();
                }
                self.fresh_after = self.metadata.is_stale(now).then_some(version);
            }
        }
        self.fresh_after.is_none()
    }

    /// The group is to hear what the application subscribes to now.
    fn rejoin_if_the_subscription_changed(&mut self) {
        let membership = &self.membership;
        let Some(joined_with) = &membership.joined_with else { return };
        let topics: BTreeSet<Topic> = self.subscription.topics().into_iter().collect();
        if !membership.rejoin_needed && topics != *joined_with {
            self.membership.request_rejoin(RejoinReason::SubscriptionChanged);
        }
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
                Join::AwaitingMetadata { .. } => {
                    self.plan_if_metadata_is_there(now, fx);
                    return false;
                }
                Join::Joining { .. } | Join::Syncing { .. } => return false,
                Join::Synced { assignment } => {
                    self.membership.join = Join::IDLE;
                    self.membership.prepare = JoinPrepare::Needed;
                    match self.membership.state {
                        MemberState::Stable => self.complete_join(now, &assignment, fx),
                        _ => {
                            let found = RejoinReason::ResetMeanwhile(self.membership.identity.clone());
                            self.membership.reset(true, found);
                        }
                    }
                    if self.is_called_back() {
                        return false;
                    }
                    self.rejoin_if_the_subscription_changed();
                    if !self.membership.rejoin_needed {
                        return true;
                    }
                }
            }
        }
    }

    fn send_join(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let sent_as = self.membership.identity.clone();
        let protocols =
            self.config.strategy.assignors().iter().map(|assignor| self.subscription_for(*assignor));
        let request = JoinGroupRequest::default()
            .with_group_id(self.group_id())
            .with_session_timeout_ms(self.config.session_timeout_ms)
            .with_rebalance_timeout_ms(self.config.max_poll_interval_ms)
            .with_member_id(sent_as.member.to_wire())
            .with_group_instance_id(self.config.instance_id_to_wire())
            .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
            .with_protocols(protocols.collect())
            .with_reason(Some(self.membership.rejoin_reason.to_wire()));
        self.membership.joined_with = Some(self.subscription.topics().into_iter().collect());
        self.membership.state = MemberState::PreparingRebalance;
        self.membership.join = Join::Joining { since: now };
        fx.event(Event::JoinSent {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            owned: self.subscription.partitions(),
            reason: self.membership.rejoin_reason.to_string().into(),
        });
        let timeout_ms = self.config.join_timeout_ms();
        self.send_to_coordinator_within(now, request, Call::JoinGroup { sent_as }, timeout_ms, fx);
    }

    /// What the member says to one of its assignors, should the coordinator choose it.
    fn subscription_for(&self, assignor: ClientAssignor) -> JoinGroupRequestProtocol {
        let last = self.membership.last_assignments.get(&assignor);
        let generation = last.map_or(Generation::NONE, |last| last.generation);
        let subscription = ConsumerSubscription {
            topics: self.subscription.topics(),
            user_data: assignor.user_data(last.map(|last| &*last.partitions), generation),
            owned: self.subscription.partitions(),
            generation: self.membership.identity.generation,
            rack: Some(self.config.client_rack.to_string()).filter(|rack| !rack.is_empty()),
        };
        JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str(assignor.name()))
            .with_metadata(subscription.encode(consumer_protocol::VERSION))
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
            return self.join_failed(now, Retry::AfterBackoff, "UnjoinedGroupException");
        }
        let member = MemberId::new(&answer.member_id);
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => self.joined(now, member, answer, fx),
            ErrorCode::MemberIdRequired => {
                self.membership.identity = Identity::of_no_generation(member);
                self.membership.join = Join::Idle { not_before: now };
                let given = RejoinReason::MemberIdGiven(self.membership.identity.clone());
                self.membership.request_rejoin(given);
            }
            ErrorCode::UnknownMemberId => {
                if *sent_as == self.membership.identity {
                    let reason =
                        RejoinReason::ErrorOf { error: ErrorCode::UnknownMemberId, api: "JOIN_GROUP" };
                    self.membership.reset(true, reason);
                }
                self.join_failed(now, Retry::AtOnce, "UnknownMemberIdException");
            }
            ErrorCode::RebalanceInProgress => {
                self.join_failed(now, Retry::AtOnce, "RebalanceInProgressException");
            }
            ErrorCode::CoordinatorLoadInProgress => {
                self.join_failed(now, Retry::AfterBackoff, "CoordinatorLoadInProgressException");
            }
            error @ (ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator) => {
                self.join_met_no_coordinator(now, error, fx);
            }
            error => self.fail(error),
        }
    }

    fn join_met_no_coordinator(&mut self, now: Time, error: ErrorCode, fx: &mut Effects<ConsumerTimer>) {
        let exception = match error {
            ErrorCode::CoordinatorNotAvailable => "CoordinatorNotAvailableException",
            _ => "NotCoordinatorException",
        };
        self.join_failed(now, Retry::AfterBackoff, exception);
        self.mark_coordinator_unknown(now, error, fx);
    }

    fn join_failed(&mut self, now: Time, retry: Retry, exception: &'static str) {
        let not_before = match retry {
            Retry::AtOnce => now,
            Retry::AfterBackoff => now.plus_ms(self.config.common.retry_backoff.initial_ms),
        };
        self.membership.join = Join::Idle { not_before };
        self.membership.request_rejoin(RejoinReason::RebalanceFailed(exception));
    }

    /// JoinGroup or SyncGroup will not be answered.
    pub(super) fn join_lost(&mut self, now: Time) {
        if matches!(self.membership.join, Join::Joining { .. } | Join::Syncing { .. }) {
            self.join_failed(now, Retry::AfterBackoff, "DisconnectException");
        }
    }

    fn joined(
        &mut self,
        now: Time,
        member: MemberId,
        answer: &JoinGroupResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        let name = answer.protocol_name.as_ref().map_or("", |name| name.as_str());
        let Some(assignor) = self.config.strategy.find(name) else {
            // "Coordinator selected invalid assignment protocol": poll() throws.
            return self.fail(ErrorCode::InconsistentGroupProtocol);
        };
        self.membership.state = MemberState::CompletingRebalance;
        let generation = Generation(answer.generation_id);
        self.membership.identity = Identity { member, generation, assignor: Some(assignor) };
        self.reset_heartbeat(now);
        match answer.leader == answer.member_id {
            true => self.lead(now, answer, fx),
            false => self.send_sync(now, Vec::new(), fx),
        }
    }

    pub(super) fn send_sync(
        &mut self,
        now: Time,
        assignments: Vec<SyncGroupRequestAssignment>,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if self.membership.coordinator().is_none() {
            return self.join_failed(now, Retry::AfterBackoff, "CoordinatorNotAvailableException");
        }
        let sent_as = self.membership.identity.clone();
        let assignor = sent_as.assignor.map(|assignor| StrBytes::from_static_str(assignor.name()));
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(sent_as.generation.0)
            .with_member_id(sent_as.member.to_wire())
            .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
            .with_protocol_name(assignor)
            .with_group_instance_id(self.config.instance_id_to_wire())
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
                self.membership.rejoin_reason = RejoinReason::None;
                let assignment = assigned_partitions(&answer.assignment).into();
                self.membership.join = Join::Synced { assignment };
            }
            // The background thread reset the member in between.
            ErrorCode::None => {
                self.join_failed(now, Retry::AtOnce, "IllegalGenerationException");
            }
            ErrorCode::RebalanceInProgress => {
                self.join_failed(now, Retry::AtOnce, "RebalanceInProgressException");
            }
            error @ (ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => {
                if *sent_as == self.membership.identity {
                    let reset_member_id = error == ErrorCode::UnknownMemberId;
                    self.membership
                        .reset(reset_member_id, RejoinReason::ErrorOf { error, api: "SYNC_GROUP" });
                }
                let exception = match error {
                    ErrorCode::UnknownMemberId => "UnknownMemberIdException",
                    _ => "IllegalGenerationException",
                };
                self.join_failed(now, Retry::AtOnce, exception);
            }
            error @ (ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator) => {
                self.join_met_no_coordinator(now, error, fx);
            }
            error => self.fail(error),
        }
    }
}
