//! The background thread of a member: its heartbeats, what their answers do to it, its goodbye (Kafka's
//! `ConsumerHeartbeatRequestManager`).
//!
//! **Invariant:** one heartbeat is on its way at most, a goodbye aside.

use std::collections::BTreeSet;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::consumer_group_heartbeat_response::Assignment;
use kafka_protocol::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use crate::client::consumer::closing::GroupMembership;
use crate::client::consumer::listener::Then;
use crate::client::consumer::membership::{Identity, JoinPrepare, MemberState};
use crate::client::consumer::reason::LeaveReason;
use crate::client::consumer::requests::Call;
use crate::client::consumer::{Consumer, ConsumerTimer};
use crate::client::member::{Assigned, LocalAssignment, Member, Phase, Refusal};
use crate::kafka::effects::Effects;
use crate::kafka::event::{Event, RevokeReason};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{Generation, GroupEpoch, TopicId};

/// What a heartbeat was sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client::consumer) enum HeartbeatKind {
    Regular,
    Goodbye(LeaveReason),
}

impl Consumer {
    /// Changes the member and, with it, under which id and epoch other requests are sent.
    pub(in crate::client::consumer) fn change_member(&mut self, change: impl FnOnce(&mut Member)) {
        let membership = &mut self.membership;
        let Some(member) = &mut membership.modern else { return };
        change(member);
        let generation = match member.epoch > GroupEpoch::JOINING {
            true => Generation(member.epoch.0),
            false => Generation::NONE,
        };
        membership.identity = Identity { member: member.id.clone(), generation, assignor: None };
        membership.state = match member.phase {
            Phase::Joining => MemberState::PreparingRebalance,
            Phase::Reconciling | Phase::Acknowledging | Phase::Stable => MemberState::Stable,
            Phase::Unsubscribed | Phase::Stale | Phase::Fatal => MemberState::Unjoined,
        };
    }

    /// The background thread's turn.
    pub(in crate::client::consumer) fn run_member(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        let Some(member) = &self.membership.modern else { return };
        if !member.sends_heartbeats() || self.membership.coordinator().is_none() {
            return;
        }
        let due = !member.clock.in_flight && (member.is_pressed() || member.clock.due_at <= now);
        if self.membership.heartbeat.poll_until <= now && !self.is_polling() {
            self.say_goodbye(now, LeaveReason::PollTooLate, GroupMembership::Default, fx);
        } else if due {
            let request = self.heartbeat_request();
            self.change_member(|member| member.clock.sent(now));
            let call = Call::ConsumerHeartbeat(HeartbeatKind::Regular);
            self.send_to_coordinator(now, request, call, fx);
        }
    }

    /// When the background thread has something to do, if the coordinator is known.
    pub(in crate::client::consumer) fn member_due(&self) -> Option<Time> {
        let member = self.membership.modern.as_ref().filter(|member| member.sends_heartbeats())?;
        let heartbeat = (!member.clock.in_flight).then_some(member.clock.due_at);
        let poll = (!self.is_polling()).then_some(self.membership.heartbeat.poll_until);
        self.membership.coordinator()?;
        heartbeat.into_iter().chain(poll).min()
    }

    fn heartbeat_request(&mut self) -> ConsumerGroupHeartbeatRequest {
        let mut request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_instance_id(self.config.instance_id_to_wire());
        let (topics, regex) = (self.subscription.topics(), self.subscription.regex().cloned());
        let Some(member) = &mut self.membership.modern else { return request };
        request = request.with_member_id(member.id.to_wire()).with_member_epoch(member.epoch.0);
        let contents = member.say(&topics, regex.as_ref());
        if contents.owned {
            request = request.with_topic_partitions(Some(owned_to_wire(member.current.as_ref())));
        }
        if contents.settings {
            request = request
                .with_rebalance_timeout_ms(self.config.max_poll_interval_ms)
                .with_server_assignor(self.config.remote_assignor.as_deref().map(text_to_wire));
        }
        if contents.topics {
            let topics = topics.iter().map(|topic| TopicName(topic.to_wire())).collect();
            request = request.with_subscribed_topic_names(Some(topics));
        }
        if contents.regex {
            // An empty one takes back what was said before.
            let regex = text_to_wire(regex.as_deref().unwrap_or_default());
            request = request.with_subscribed_topic_regex(Some(regex));
        }
        if contents.rack && !self.config.client_rack.is_empty() {
            request = request.with_rack_id(Some(text_to_wire(&self.config.client_rack)));
        }
        request
    }

    pub(in crate::client::consumer) fn on_member_heartbeat(
        &mut self,
        now: Time,
        kind: HeartbeatKind,
        answer: &ConsumerGroupHeartbeatResponse,
        fx: &mut Effects<ConsumerTimer>,
    ) {
        if kind != HeartbeatKind::Regular {
            return self.on_goodbye(kind);
        }
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => {
                let assignment = answer.assignment.as_ref().map(partitions_of);
                self.change_member(|member| {
                    member.clock.answered(now, answer.heartbeat_interval_ms);
                    member.hear(GroupEpoch(answer.member_epoch), assignment);
                });
                if self.subscription.regex().is_some() {
                    self.want_metadata();
                }
            }
            error => {
                self.member_heartbeat_failed(now);
                if self.membership.modern.as_ref().is_some_and(Member::sends_heartbeats) {
                    self.heartbeat_refused(now, error, fx);
                }
            }
        }
    }

    fn heartbeat_refused(&mut self, now: Time, error: ErrorCode, fx: &mut Effects<ConsumerTimer>) {
        match Refusal::of(error) {
            Refusal::CoordinatorMoved => {
                self.mark_coordinator_unknown(now, error, fx);
                self.change_member(|member| member.clock.restart());
            }
            Refusal::TriedAgain => {}
            // With a listener it joins anew when that has heard of it.
            Refusal::Fenced if self.defers_loss() => {
                self.membership.prepare = JoinPrepare::Needed;
                self.change_member(|member| member.end(Phase::Stale));
            }
            Refusal::Fenced => {
                self.give_up_all(now, RevokeReason::Lost, Then::GiveUp, fx);
                self.begin_member(fx);
            }
            Refusal::Fatal => {
                self.lose_all(now, fx);
                self.membership.prepare = JoinPrepare::Needed;
                self.change_member(|member| member.end(Phase::Fatal));
                self.membership.fatal = Some(error);
            }
        }
    }

    /// What it owned is another's, of which the application hears in its next poll() at the latest.
    fn lose_all(&mut self, now: Time, fx: &mut Effects<ConsumerTimer>) {
        if !self.defers_loss() {
            self.give_up_all(now, RevokeReason::Lost, Then::GiveUp, fx);
        }
    }

    /// The member joins: its next heartbeat says so, as soon as it can be sent.
    pub(super) fn begin_member(&mut self, fx: &mut Effects<ConsumerTimer>) {
        self.membership.prepare = JoinPrepare::Needed;
        self.change_member(|member| {
            member.join();
            member.clock.restart();
        });
        fx.event(Event::JoinSent {
            client: self.spec.name.clone(),
            group: self.spec.group.clone(),
            owned: Vec::new(),
            reason: "".into(),
        });
    }

    /// A heartbeat was refused or is lost.
    pub(in crate::client::consumer) fn member_heartbeat_failed(&mut self, now: Time) {
        let failures = self.membership.modern.as_ref().map_or(0, |member| member.clock.failures);
        let backoff_ms = self.config.common.retry_backoff.after(failures, &mut self.random);
        self.change_member(|member| {
            member.say_everything();
            member.clock.failed(now, backoff_ms);
        });
    }

    /// Leaves the group, a static member for a while only unless it is to leave for good (R-CG8-21); a dynamic one that is
    /// to remain says nothing. Says whether an answer will come.
    pub(in crate::client::consumer) fn say_goodbye(
        &mut self,
        now: Time,
        reason: LeaveReason,
        operation: GroupMembership,
        fx: &mut Effects<ConsumerTimer>,
    ) -> bool {
        let Some(member) = self.membership.modern.as_ref().filter(|member| member.sends_heartbeats()) else {
            return false;
        };
        let is_static = self.config.group_instance_id.is_some();
        let epoch = match is_static && operation != GroupMembership::Leave {
            true => GroupEpoch::AWAY,
            false => GroupEpoch::LEFT,
        };
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_member_id(member.id.to_wire())
            .with_member_epoch(epoch.0)
            .with_instance_id(self.config.instance_id_to_wire())
            .with_topic_partitions(member.current.is_some().then(Vec::new));
        let phase = match reason {
            LeaveReason::Closing | LeaveReason::Unsubscribed => Phase::Unsubscribed,
            LeaveReason::PollTooLate => Phase::Stale,
        };
        self.membership.prepare = JoinPrepare::Needed;
        self.change_member(|member| {
            member.end(phase);
            member.clock.restart();
        });
        self.lose_all(now, fx);
        let is_silent = !is_static && operation == GroupMembership::Remain;
        let is_heard = self.membership.coordinator().is_some() && !is_silent;
        if is_heard {
            let call = Call::ConsumerHeartbeat(HeartbeatKind::Goodbye(reason));
            self.send_to_coordinator(now, request, call, fx);
        }
        is_heard
    }

    /// A goodbye is answered or lost.
    pub(in crate::client::consumer) fn on_goodbye(&mut self, kind: HeartbeatKind) {
        if kind == HeartbeatKind::Goodbye(LeaveReason::Closing) {
            self.on_leave_group();
        }
    }
}

fn text_to_wire(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn owned_to_wire(owned: Option<&LocalAssignment>) -> Vec<TopicPartitions> {
    let topics = owned.into_iter().flat_map(|owned| &owned.partitions);
    let topic = |(id, partitions): (&TopicId, &BTreeSet<i32>)| {
        TopicPartitions::default().with_topic_id(id.0).with_partitions(partitions.iter().copied().collect())
    };
    topics.map(topic).collect()
}

fn partitions_of(assignment: &Assignment) -> Assigned {
    let topics = assignment.topic_partitions.iter();
    topics.map(|topic| (TopicId(topic.topic_id), topic.partitions.iter().copied().collect())).collect()
}
