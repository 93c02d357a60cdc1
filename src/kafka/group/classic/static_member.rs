//! Static members: one that comes back takes its old place under a new member id (R-GRP-24 to R-GRP-26, KIP-345).
//!
//! **Invariant:** an instance id belongs to one member at a time; whoever held it before is fenced.

use super::join::{Join, join_error};
use super::sync::sync_error;
use super::{ClassicGroup, Member};
use crate::kafka::event::{GroupState, RebalanceReason};
use crate::kafka::group::context::Context;
use crate::kafka::group::write::{Then, Write};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::MemberId;

/// What is told to who held an instance id that another has now.
pub(super) fn fenced() -> ErrorCode {
    match plant::is(Plant::StaticTwinNotFenced) {
        true => ErrorCode::UnknownMemberId,
        false => ErrorCode::FencedInstanceId,
    }
}

impl ClassicGroup {
    pub(super) fn replace_static_and_rebalance(
        &mut self,
        join: &Join<'_>,
        old: &MemberId,
        new: MemberId,
        cx: &mut Context<'_>,
    ) -> Option<Write> {
        let replaced = self.replace_static(old, &new, cx)?;
        self.renew_session(&new, cx);
        self.update_member(join, &new);
        match self.state {
            // Its assignment stays valid as long as the protocol does: no rebalance, only the new id is written.
            GroupState::Stable if self.select_protocol() == self.protocol => {
                let plan = self.members.values().map(|m| (m.id.clone(), m.assignment.clone())).collect();
                let skips = join.supports_skipping_assignment();
                let then = Then::StaticReplaced { group: self.id.clone(), new, old: replaced, skips };
                Some(Write::new(self.to_record(&plan), then))
            }
            // In CompletingRebalance the leader's plan is going to name the old id.
            GroupState::Stable | GroupState::CompletingRebalance => {
                self.prepare_rebalance(RebalanceReason::MemberRejoined, join.client, cx)
            }
            _ => self.maybe_complete_join(cx),
        }
    }

    /// Puts `new` in the place of `old`, whose parked requests are fenced. Returns the old member as it was.
    fn replace_static(&mut self, old: &MemberId, new: &MemberId, cx: &mut Context<'_>) -> Option<Member> {
        let answer = join_error(old.as_str(), fenced()).with_protocol_name(None);
        self.answer_join(old, answer, cx);
        let mut replaced = self.members.remove(old)?;
        if let Some(to) = replaced.parked_sync.take() {
            cx.respond(to, sync_error(fenced()));
        }
        let member = Member { id: new.clone(), is_new: false, ..replaced.clone() };
        self.insert(member);
        if self.is_leader(old) {
            self.leader = Some(new.clone());
        }
        Some(replaced)
    }

    /// The new id was written, or could not be: then the old one is back.
    pub(in crate::kafka::group) fn on_static_replaced(
        &mut self,
        new: &MemberId,
        old: &Member,
        skips: bool,
        result: Result<(), ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        let Some(member) = self.members.get_mut(new) else { return };
        if let Err(error) = result {
            let parked = member.parked_join.take();
            self.members.remove(new);
            self.insert(old.clone());
            if self.is_leader(new) {
                self.leader = Some(old.id.clone());
            }
            self.renew_session(&old.id, cx);
            if let Some(to) = parked {
                cx.respond(
                    to,
                    self.joined_response(&MemberId::unknown(), false).with_error_code(error.code()),
                );
            }
        } else if !self.is(GroupState::PreparingRebalance) {
            // A leader is told to compute nothing; it may still notice that the subscriptions changed (KIP-814). If a
            // rebalance began meanwhile, the request waits for its end like everyone's.
            let leader = self.is_leader(new);
            let response = self.joined_response(new, leader && skips);
            let response = match leader && !skips {
                // A client that would compute a plan whenever it leads is told that its former self does.
                true => response.with_leader(old.id.to_wire()),
                false => response.with_skip_assignment(leader),
            };
            self.answer_join(new, response, cx);
        }
    }
}
