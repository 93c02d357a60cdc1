//! JoinGroup at a classic group (R-GRP-8 to R-GRP-11).
//!
//! **Invariant:** a JoinGroup is answered at once or parked at its member until the join phase ends.

use kafka_protocol::messages as m;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::protocol::StrBytes;

use super::{ClassicGroup, Member, PendingMember};
use crate::kafka::effects::RequestId;
use crate::kafka::event::{GroupState, MemberRemoval, RebalanceReason};
use crate::kafka::group::context::Context;
use crate::kafka::group::write::Write;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, MemberId};

/// A JoinGroup with the way back, the name of its sender, and the version that it spoke.
pub(crate) struct Join<'a> {
    pub id: RequestId,
    pub client: &'a ClientName,
    pub version: i16,
    pub request: &'a m::JoinGroupRequest,
}

impl Join<'_> {
    /// A new member is told its id before it is let in (KIP-394).
    pub(in crate::kafka::group) fn requires_known_member_id(&self) -> bool {
        self.version >= 4
    }

    /// A leader can be told to compute nothing (KIP-814).
    pub(super) fn supports_skipping_assignment(&self) -> bool {
        self.version >= 9
    }
}

pub(in crate::kafka::group) fn join_error(member: &str, error: ErrorCode) -> m::JoinGroupResponse {
    let member = StrBytes::from_string(member.to_string());
    m::JoinGroupResponse::default().with_member_id(member).with_error_code(error.code())
}

impl ClassicGroup {
    pub(in crate::kafka::group) fn join(&mut self, join: &Join<'_>, cx: &mut Context<'_>) -> Option<Write> {
        let member = MemberId::new(&join.request.member_id);
        if !self.accepts(&member, cx.config.max_size) {
            self.remove(&member, MemberRemoval::GroupFull, cx);
            cx.respond(join.id, join_error("", ErrorCode::GroupMaxSizeReached));
            None
        } else if !self.supports_protocols(&join.request.protocol_type, &join.request.protocols) {
            cx.respond(join.id, join_error(member.as_str(), ErrorCode::InconsistentGroupProtocol));
            None
        } else if member.is_unknown() {
            self.join_new(join, cx)
        } else if self.pending.contains_key(&member) {
            self.add_and_rebalance(join, member, cx)
        } else {
            self.join_known(join, &member, cx)
        }
    }

    /// `group.max.size`. During the join phase those who wait count, so that a group which became too large sheds
    /// whoever re-joins last.
    fn accepts(&self, member: &MemberId, max_size: i32) -> bool {
        let room = |taken: usize| i32::try_from(taken).is_ok_and(|taken| taken < max_size);
        let known = self.members.get(member);
        match self.state {
            GroupState::Empty | GroupState::Dead => true,
            GroupState::PreparingRebalance => {
                known.is_some_and(Member::awaits_join)
                    || room(self.members.values().filter(|member| member.awaits_join()).count())
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                known.is_some() || room(self.members.len())
            }
        }
    }

    /// A dynamic member is told its id and must come again with it; a static one, or an old client, joins at once (R-GRP-9).
    fn join_new(&mut self, join: &Join<'_>, cx: &mut Context<'_>) -> Option<Write> {
        let instance_id = join.request.group_instance_id.as_deref();
        let prefix = instance_id.unwrap_or(join.client.as_str());
        let id = MemberId::new(&format!("{prefix}-{}", cx.ids.next()));
        if let Some(instance_id) = instance_id {
            return match self.static_member_id(instance_id).cloned() {
                Some(old) => self.replace_static_and_rebalance(join, &old, id, cx),
                None => self.add_and_rebalance(join, id, cx),
            };
        }
        if !join.requires_known_member_id() {
            return self.add_and_rebalance(join, id, cx);
        }
        self.pending.insert(id.clone(), PendingMember { client: join.client.clone(), expires_at: Time::MAX });
        self.expect_within(&id, i64::from(join.request.session_timeout_ms), cx);
        cx.respond(join.id, join_error(id.as_str(), ErrorCode::MemberIdRequired));
        None
    }

    fn add_and_rebalance(&mut self, join: &Join<'_>, id: MemberId, cx: &mut Context<'_>) -> Option<Write> {
        let request = join.request;
        if self.initial_delay.is_some() {
            self.new_member_added = true;
        }
        let member = Member {
            id: id.clone(),
            instance_id: request.group_instance_id.clone(),
            client: join.client.clone(),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols.clone(),
            assignment: Default::default(),
            parked_join: Some(join.id),
            parked_sync: None,
            is_new: true,
            joined: 0,
            expires_at: Time::MAX,
        };
        self.add(member, &request.protocol_type, cx);
        // It cannot send heartbeats while its request is parked, and a client that gave up would come again as another
        // member; so a new member may wait for this long only (R-GRP-11).
        self.expect_within(&id, cx.config.new_member_join_timeout_ms, cx);
        self.rebalance_or_complete_join(RebalanceReason::MemberJoined, join.client, cx)
    }

    /// R-GRP-10.
    fn join_known(&mut self, join: &Join<'_>, id: &MemberId, cx: &mut Context<'_>) -> Option<Write> {
        let request = join.request;
        if let Err(error) = self.validate_member(id.as_str(), request.group_instance_id.as_deref()) {
            cx.respond(join.id, join_error(id.as_str(), error).with_protocol_name(None));
            return None;
        }
        let changed = self.members[id].protocols != request.protocols;
        let rebalances = match self.state {
            GroupState::PreparingRebalance => true,
            GroupState::CompletingRebalance => changed,
            // The leader may join again for changes that only it sees, such as new partitions.
            GroupState::Stable => changed || self.is_leader(id),
            GroupState::Empty | GroupState::Dead => unreachable!("an empty group has no member {id}"),
        };
        if !rebalances {
            let with_members = self.is(GroupState::CompletingRebalance) && self.is_leader(id);
            cx.respond(join.id, self.joined_response(id, with_members));
            return None;
        }
        self.update_member(join, id);
        self.rebalance_or_complete_join(RebalanceReason::MemberRejoined, join.client, cx)
    }

    /// Takes over what a member's JoinGroup says and parks it.
    pub(super) fn update_member(&mut self, join: &Join<'_>, id: &MemberId) {
        if let Some(member) = self.members.get_mut(id) {
            member.protocols = join.request.protocols.clone();
            member.rebalance_timeout_ms = join.request.rebalance_timeout_ms;
            member.session_timeout_ms = join.request.session_timeout_ms;
            member.parked_join = Some(join.id);
        }
    }

    /// The answer to a member of the present generation (R-GRP-17).
    pub(super) fn joined_response(&self, id: &MemberId, with_members: bool) -> m::JoinGroupResponse {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let described = |member: &Member| {
            JoinGroupResponseMember::default()
                .with_member_id(member.id.to_wire())
                .with_group_instance_id(member.instance_id.clone())
                .with_metadata(member.metadata(protocol))
        };
        let members = if with_members { self.members.values().map(described).collect() } else { Vec::new() };
        m::JoinGroupResponse::default()
            .with_generation_id(self.generation.0)
            .with_protocol_type(self.protocol_type.clone())
            .with_protocol_name(self.protocol.clone())
            .with_leader(self.leader.as_ref().map(MemberId::to_wire).unwrap_or_default())
            .with_member_id(id.to_wire())
            .with_members(members)
    }
}
