//! The join phase of a rebalance: how it starts, how long it waits, how it ends (R-GRP-12 to R-GRP-14).
//!
//! **Invariant:** in PreparingRebalance a timer is set that ends the phase, whoever is missing.

use super::{ClassicGroup, Member};
use crate::kafka::event::{Event, GroupEvent, GroupState, MemberRemoval, RebalanceReason};
use crate::kafka::group::context::Context;
use crate::kafka::group::write::{Then, Write};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, MemberId};

/// `group.initial.rebalance.delay.ms` at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialDelay {
    /// The wait that is running.
    pub delay_ms: i64,
    /// What further waits may take in all.
    pub remaining_ms: i64,
}

impl ClassicGroup {
    pub(super) fn rebalance_or_complete_join(
        &mut self,
        reason: RebalanceReason,
        client: &ClientName,
        cx: &mut Context<'_>,
    ) -> Option<Write> {
        match self.state {
            GroupState::PreparingRebalance => self.maybe_complete_join(cx),
            _ => self.prepare_rebalance(reason, client, cx),
        }
    }

    /// Ends the join phase once everyone is there; the initial delay is waited for in any case.
    pub(super) fn maybe_complete_join(&mut self, cx: &mut Context<'_>) -> Option<Write> {
        let complete = self.is(GroupState::PreparingRebalance)
            && self.initial_delay.is_none()
            && self.has_all_members_joined();
        if complete { self.complete_join(cx) } else { None }
    }

    pub(in crate::kafka::group) fn prepare_rebalance(
        &mut self,
        reason: RebalanceReason,
        client: &ClientName,
        cx: &mut Context<'_>,
    ) -> Option<Write> {
        if self.is(GroupState::CompletingRebalance) {
            self.reset_assignment_with(ErrorCode::RebalanceInProgress, cx);
        }
        self.stop_waiting_for_sync(cx);
        let initial = self.is(GroupState::Empty);
        cx.event(Event::Group(GroupEvent::RebalanceStarted {
            group: self.id.clone(),
            generation: self.generation,
            reason,
            client: client.clone(),
        }));
        self.enter(GroupState::PreparingRebalance, cx);
        if initial {
            let delay_ms = cx.config.initial_rebalance_delay_ms;
            let remaining_ms = (self.rebalance_timeout_ms() - delay_ms).max(0);
            self.initial_delay = Some(InitialDelay { delay_ms, remaining_ms });
            self.wait_for_joins(delay_ms, cx);
            None
        } else if self.has_all_members_joined() {
            self.complete_join(cx)
        } else {
            self.wait_for_joins(self.rebalance_timeout_ms(), cx);
            None
        }
    }

    fn wait_for_joins(&mut self, wait_ms: i64, cx: &mut Context<'_>) {
        let at = cx.now.plus_ms(wait_ms);
        self.join_deadline = Some(at);
        cx.set_timer(cx.join_timer(&self.id), at);
    }

    /// The wait is over: the initial delay is extended if someone came, otherwise the phase ends (R-GRP-12).
    pub(in crate::kafka::group) fn on_join_timer(&mut self, cx: &mut Context<'_>) -> Option<Write> {
        if !self.is(GroupState::PreparingRebalance) {
            return None;
        }
        match self.initial_delay {
            Some(InitialDelay { delay_ms, remaining_ms }) if self.new_member_added && remaining_ms != 0 => {
                self.new_member_added = false;
                let wait_ms = cx.config.initial_rebalance_delay_ms.min(remaining_ms);
                let remaining_ms = (remaining_ms - delay_ms).max(0);
                self.initial_delay = Some(InitialDelay { delay_ms: wait_ms, remaining_ms });
                self.wait_for_joins(wait_ms, cx);
                cx.event(Event::Group(GroupEvent::JoinExtended { group: self.id.clone(), wait_ms }));
                None
            }
            _ => self.complete_join(cx),
        }
    }

    /// Ends the join phase: absent dynamic members go, the next generation begins (R-GRP-13).
    pub(super) fn complete_join(&mut self, cx: &mut Context<'_>) -> Option<Write> {
        cx.cancel_timer(cx.join_timer(&self.id));
        self.join_deadline = None;
        self.initial_delay = None;
        let absent = |member: &&Member| !member.awaits_join() && !member.is_static();
        let absent: Vec<MemberId> =
            self.members.values().filter(absent).map(|member| member.id.clone()).collect();
        for id in absent {
            self.remove(&id, MemberRemoval::DidNotRejoin, cx);
            cx.cancel_timer(cx.session_timer(&self.id, &id));
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            // Only static members are left and none came: wait until they do or expire (R-GRP-14).
            self.wait_for_joins(self.rebalance_timeout_ms(), cx);
            return None;
        }
        self.start_next_generation(cx)
    }

    /// A leader who did not join again is followed by the first of Kafka's hash map who did (R-GRP-14). False if nobody
    /// did.
    fn elect_joined_leader(&mut self) -> bool {
        let leads = self.leader.as_ref().and_then(|id| self.members.get(id));
        if leads.is_some_and(Member::awaits_join) {
            return true;
        }
        let first = self.first_of(self.members.values().filter(|member| member.awaits_join()));
        let elected = first.is_some();
        self.leader = first.or(self.leader.take());
        elected
    }

    fn start_next_generation(&mut self, cx: &mut Context<'_>) -> Option<Write> {
        self.generation.0 += 1;
        self.protocol = self.select_protocol();
        self.subscribed_topics = self.subscriptions();
        self.pending_sync.clear();
        if self.members.is_empty() {
            self.enter(GroupState::Empty, cx);
            return Some(Write::new(self.to_record(&Default::default()), Then::Nothing));
        }
        self.enter(GroupState::CompletingRebalance, cx);
        let ids: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in ids {
            let response = self.joined_response(&id, self.is_leader(&id));
            self.answer_join(&id, response, cx);
            self.renew_session(&id, cx);
            if let Some(member) = self.members.get_mut(&id) {
                member.is_new = false;
            }
            self.pending_sync.insert(id);
        }
        let at = cx.now.plus_ms(self.rebalance_timeout_ms());
        self.sync_deadline = Some(at);
        cx.set_timer(cx.sync_timer(&self.id), at);
        None
    }

    /// Answers a member's parked JoinGroup, if there is one.
    pub(super) fn answer_join(
        &mut self,
        id: &MemberId,
        response: kafka_protocol::messages::JoinGroupResponse,
        cx: &mut Context<'_>,
    ) {
        if let Some(to) = self.members.get_mut(id).and_then(|member| member.parked_join.take()) {
            cx.respond(to, response);
        }
    }
}
