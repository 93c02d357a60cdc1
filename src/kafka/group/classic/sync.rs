//! SyncGroup at a classic group (R-GRP-18, R-GRP-19).
//!
//! **Invariant:** members get a generation's assignment only after it was written and is below the high watermark.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages as m;

use super::ClassicGroup;
use crate::kafka::effects::RequestId;
use crate::kafka::event::{Event, GroupEvent, GroupState, MemberRemoval, RebalanceReason};
use crate::kafka::group::consumer_protocol::assigned_partitions;
use crate::kafka::group::context::Context;
use crate::kafka::group::write::{Then, Write};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, Generation, MemberId};

pub(in crate::kafka::group) fn sync_error(error: ErrorCode) -> m::SyncGroupResponse {
    m::SyncGroupResponse::default().with_error_code(error.code())
}

impl ClassicGroup {
    pub(in crate::kafka::group) fn sync(
        &mut self,
        id: RequestId,
        request: &m::SyncGroupRequest,
        cx: &mut Context<'_>,
    ) -> Option<Write> {
        let member = MemberId::new(&request.member_id);
        if let Err(error) = self.validate_sync(request) {
            cx.respond(id, sync_error(error));
            return None;
        }
        self.pending_sync.remove(&member);
        if self.pending_sync.is_empty() {
            self.stop_waiting_for_sync(cx);
        }
        if self.is(GroupState::Stable) {
            cx.respond(id, self.assigned_response(self.members[&member].assignment.clone()));
            return None;
        }
        if let Some(member) = self.members.get_mut(&member) {
            member.parked_sync = Some(id);
        }
        if self.is_leader(&member) { Some(self.store_plan(request)) } else { None }
    }

    fn validate_sync(&self, request: &m::SyncGroupRequest) -> Result<(), ErrorCode> {
        self.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        let differs = |asked: &Option<_>, own: &Option<_>| asked.is_some() && own.is_some() && asked != own;
        if request.generation_id != self.generation.0 {
            Err(ErrorCode::IllegalGeneration)
        } else if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol)
        {
            Err(ErrorCode::InconsistentGroupProtocol)
        } else if self.is(GroupState::PreparingRebalance) {
            Err(ErrorCode::RebalanceInProgress)
        } else {
            Ok(())
        }
    }

    /// Members that the leader left out get an empty assignment.
    fn store_plan(&self, request: &m::SyncGroupRequest) -> Write {
        let given = request.assignments.iter().map(|a| (MemberId::new(&a.member_id), a.assignment.clone()));
        let given: BTreeMap<MemberId, Bytes> = given.collect();
        let plan = self.members.keys().map(|id| (id.clone(), given.get(id).cloned().unwrap_or_default()));
        let plan: BTreeMap<MemberId, Bytes> = plan.collect();
        let record = self.to_record(&plan);
        Write::new(
            record,
            Then::AssignmentStored { group: self.id.clone(), generation: self.generation, plan },
        )
    }

    /// The plan was written, or could not be. Nothing follows if another rebalance began meanwhile.
    pub(in crate::kafka::group) fn on_plan_stored(
        &mut self,
        generation: Generation,
        plan: &BTreeMap<MemberId, Bytes>,
        result: Result<(), ErrorCode>,
        cx: &mut Context<'_>,
    ) {
        if !self.is(GroupState::CompletingRebalance) || generation != self.generation {
            return;
        }
        if let Err(error) = result {
            self.reset_assignment_with(error, cx);
            let leader =
                self.leader.as_ref().map(|id| self.client_of(id)).unwrap_or_else(|| ClientName::new(""));
            let write = self.prepare_rebalance(RebalanceReason::WriteFailed, &leader, cx);
            assert!(write.is_none(), "a group with members does not become Empty");
            return;
        }
        for (id, member) in &mut self.members {
            member.assignment = plan.get(id).cloned().unwrap_or_default();
        }
        let plan = self.members.values().map(|m| (m.client.clone(), assigned_partitions(&m.assignment)));
        cx.event(Event::Group(GroupEvent::AssignmentStored {
            group: self.id.clone(),
            generation: self.generation,
            plan: plan.collect(),
        }));
        self.answer_syncs(ErrorCode::None, cx);
        self.enter(GroupState::Stable, cx);
    }

    /// The plan of this generation will not come.
    pub(super) fn reset_assignment_with(&mut self, error: ErrorCode, cx: &mut Context<'_>) {
        self.members.values_mut().for_each(|member| member.assignment = Bytes::new());
        self.answer_syncs(error, cx);
    }

    /// Answers the parked SyncGroups. Each such member gets its full session timeout: it did not expire while it waited,
    /// so no timer may be running (R-GRP-21).
    fn answer_syncs(&mut self, error: ErrorCode, cx: &mut Context<'_>) {
        let ids: Vec<MemberId> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(member) = self.members.get_mut(&id) else { continue };
            let Some(to) = member.parked_sync.take() else { continue };
            let assignment = member.assignment.clone();
            match error {
                ErrorCode::None => cx.respond(to, self.assigned_response(assignment)),
                error => cx.respond(to, sync_error(error)),
            }
            self.renew_session(&id, cx);
        }
    }

    fn assigned_response(&self, assignment: Bytes) -> m::SyncGroupResponse {
        m::SyncGroupResponse::default()
            .with_protocol_type(self.protocol_type.clone())
            .with_protocol_name(self.protocol.clone())
            .with_assignment(assignment)
    }

    pub(super) fn stop_waiting_for_sync(&mut self, cx: &mut Context<'_>) {
        self.pending_sync.clear();
        if self.sync_deadline.take().is_some() {
            cx.cancel_timer(cx.sync_timer(&self.id));
        }
    }

    /// Members that never sent SyncGroup are removed (R-GRP-19).
    pub(in crate::kafka::group) fn on_sync_timer(&mut self, cx: &mut Context<'_>) -> Option<Write> {
        if self.sync_deadline.take().is_none() || self.pending_sync.is_empty() {
            return None;
        }
        let late: Vec<MemberId> = self.pending_sync.iter().cloned().collect();
        let client = self.client_of(&late[0]);
        for id in late {
            self.remove(&id, MemberRemoval::DidNotSync, cx);
            cx.cancel_timer(cx.session_timer(&self.id, &id));
        }
        self.prepare_rebalance(RebalanceReason::MemberRemoved(MemberRemoval::DidNotSync), &client, cx)
    }
}
