//! A member's session: Heartbeat, LeaveGroup and expiry (R-GRP-20 to R-GRP-22).
//!
//! **Invariant:** a member that is removed has no parked JoinGroup left.

use kafka_protocol::messages as m;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;

use super::ClassicGroup;
use super::join::join_error;
use crate::kafka::event::{GroupState, MemberRemoval, RebalanceReason};
use crate::kafka::group::context::Context;
use crate::kafka::group::write::Write;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, MemberId};

impl ClassicGroup {
    /// `Err` is answered at once, `Ok` like any other read of the state: after pending writes.
    pub(in crate::kafka::group) fn heartbeat(
        &mut self,
        request: &m::HeartbeatRequest,
        cx: &mut Context<'_>,
    ) -> Result<ErrorCode, ErrorCode> {
        self.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != self.generation.0 {
            return Err(ErrorCode::IllegalGeneration);
        }
        self.renew_session(&MemberId::new(&request.member_id), cx);
        match self.state {
            GroupState::PreparingRebalance => Ok(ErrorCode::RebalanceInProgress),
            _ => Ok(ErrorCode::None),
        }
    }

    /// Each member's result, and the write that follows when the group became Empty.
    pub(in crate::kafka::group) fn leave(
        &mut self,
        client: &ClientName,
        request: &m::LeaveGroupRequest,
        cx: &mut Context<'_>,
    ) -> (m::LeaveGroupResponse, Option<Write>) {
        let mut left = false;
        let mut results = Vec::new();
        for identity in &request.members {
            let result = self.leave_one(identity, cx);
            left |= result.is_ok();
            results.push(leave_result(identity, result.err().unwrap_or(ErrorCode::None)));
        }
        let write = match self.state {
            _ if !left => None,
            GroupState::Stable | GroupState::CompletingRebalance => {
                self.prepare_rebalance(RebalanceReason::MemberRemoved(MemberRemoval::Left), client, cx)
            }
            GroupState::PreparingRebalance => self.maybe_complete_join(cx),
            GroupState::Empty | GroupState::Dead => None,
        };
        (m::LeaveGroupResponse::default().with_members(results), write)
    }

    /// By member id, or by instance id alone when an administrator removes a static member (R-GRP-22).
    fn leave_one(&mut self, identity: &MemberIdentity, cx: &mut Context<'_>) -> Result<(), ErrorCode> {
        let instance_id = identity.group_instance_id.as_deref();
        let member = if identity.member_id.is_empty() {
            let holder = instance_id.and_then(|instance_id| self.static_member_id(instance_id));
            holder.cloned().ok_or(ErrorCode::UnknownMemberId)?
        } else {
            let member = MemberId::new(&identity.member_id);
            if !self.pending.contains_key(&member) {
                self.validate_member(member.as_str(), instance_id)?;
            }
            member
        };
        cx.cancel_timer(cx.session_timer(&self.id, &member));
        self.drop_member(&member, MemberRemoval::Left, cx);
        Ok(())
    }

    /// Removes a member whose JoinGroup may be parked: if the client is still there, it joins anew.
    fn drop_member(&mut self, id: &MemberId, reason: MemberRemoval, cx: &mut Context<'_>) {
        self.answer_join(id, join_error("", ErrorCode::UnknownMemberId), cx);
        self.remove(id, reason, cx);
    }

    /// Nothing was heard of a member, or of someone who was told a member id, for too long (R-GRP-21).
    pub(in crate::kafka::group) fn on_session_timer(
        &mut self,
        id: &MemberId,
        cx: &mut Context<'_>,
    ) -> Option<Write> {
        let was_pending = self.pending.contains_key(id);
        if plant::is(Plant::SessionNeverEnds) {
            return None;
        }
        if !was_pending && self.members.get(id).is_none_or(|member| member.has_satisfied_heartbeat()) {
            return None;
        }
        let client = self.client_of(id);
        self.drop_member(id, MemberRemoval::SessionExpired, cx);
        match self.state {
            GroupState::Stable | GroupState::CompletingRebalance if !was_pending => {
                let reason = RebalanceReason::MemberRemoved(MemberRemoval::SessionExpired);
                self.prepare_rebalance(reason, &client, cx)
            }
            // Unlike a member that joins or leaves, one that expires ends even the initial delay.
            GroupState::PreparingRebalance if self.has_all_members_joined() => self.complete_join(cx),
            _ => None,
        }
    }
}

pub(in crate::kafka::group) fn leave_result(identity: &MemberIdentity, error: ErrorCode) -> MemberResponse {
    MemberResponse::default()
        .with_member_id(identity.member_id.clone())
        .with_group_instance_id(identity.group_instance_id.clone())
        .with_error_code(error.code())
}
