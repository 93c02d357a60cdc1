//! A classic consumer group: its members, generation and state (R-GRP-6 to R-GRP-17).
//!
//! Mirrors `ClassicGroup`; the handlers of requests and timers are in the files beside it, as they are in
//! `GroupMetadataManager`. The state Dead is not kept: a group that is deleted or unloaded is gone.
//!
//! **Invariant:** the leader is a member, and a group has no leader only while it has no members.

mod member;
mod join;
mod join_phase;
mod sync;
mod session;
mod static_member;
mod conversion;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::protocol::StrBytes;

use super::consumer_protocol::subscribed_topics;
use super::context::Context;
use super::java_map::{self, java_hash};
use crate::kafka::event::{Event, GroupEvent, GroupState, MemberRemoval};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{CoordinatorRecord, GroupMetadataValue, RecordKey};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, Generation, GroupId, MemberId, Topic};

pub(crate) use join::Join;
pub(super) use join::join_error;
pub use join_phase::InitialDelay;
pub(super) use member::CLIENT_HOST;
pub use member::{Member, PendingMember};
pub(super) use session::leave_result;
pub(super) use sync::sync_error;

#[derive(Clone, Debug)]
pub struct ClassicGroup {
    pub id: GroupId,
    pub state: GroupState,
    /// When the state was entered, in milliseconds since 1970.
    pub state_since_ms: Option<i64>,
    pub generation: Generation,
    /// "consumer" for consumers; none while nobody ever joined.
    pub protocol_type: Option<StrBytes>,
    /// The assignor that all members of this generation use (R-GRP-16).
    pub protocol: Option<StrBytes>,
    pub leader: Option<MemberId>,
    pub members: BTreeMap<MemberId, Member>,
    pub pending: BTreeMap<MemberId, PendingMember>,
    /// Members of this generation that have not sent SyncGroup (R-GRP-19).
    pub pending_sync: BTreeSet<MemberId>,
    /// The wait for further members of a group that was Empty (R-GRP-12).
    pub initial_delay: Option<InitialDelay>,
    /// A member joined since the initial delay was last extended.
    pub new_member_added: bool,
    pub join_deadline: Option<Time>,
    pub sync_deadline: Option<Time>,
    /// The topics that the members of this generation consume; none if they are no consumers, or if what they said
    /// cannot be read.
    pub subscribed_topics: Option<BTreeSet<Topic>>,
    /// Members that ever joined.
    joined: i64,
    /// The slots of the hash map in which Kafka has the members.
    slots: u32,
}

impl ClassicGroup {
    pub(super) fn new(id: GroupId, now: Time) -> ClassicGroup {
        ClassicGroup {
            id,
            state: GroupState::Empty,
            state_since_ms: Some(now.wall_ms()),
            generation: Generation(0),
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            initial_delay: None,
            new_member_added: false,
            join_deadline: None,
            sync_deadline: None,
            subscribed_topics: None,
            joined: 0,
            slots: java_map::SLOTS,
        }
    }

    /// The group that a record describes: Stable, or Empty when it has no members (R-GRP-4).
    pub(super) fn from_record(id: GroupId, value: GroupMetadataValue) -> ClassicGroup {
        let mut group = ClassicGroup::new(id, Time::ZERO);
        group.state = if value.members.is_empty() { GroupState::Empty } else { GroupState::Stable };
        group.state_since_ms = value.current_state_timestamp_ms;
        group.generation = value.generation;
        group.protocol_type =
            Some(value.protocol_type).filter(|name| !name.is_empty()).map(StrBytes::from_string);
        group.leader = value.leader;
        let protocol = value.protocol.unwrap_or_default();
        for record in value.members {
            group.insert(Member::from_record(record, &protocol));
        }
        group.protocol = Some(protocol).filter(|name| !name.is_empty()).map(StrBytes::from_string);
        group.subscribed_topics = group.subscriptions();
        group
    }

    /// The record that keeps this group, each member with its part of `plan` (R-GRP-5).
    pub(super) fn to_record(&self, plan: &BTreeMap<MemberId, Bytes>) -> CoordinatorRecord {
        let protocol = self.protocol.as_deref();
        let assigned = |id| plan.get(id).cloned().unwrap_or_default();
        let members =
            self.members.values().map(|m| m.to_record(protocol.unwrap_or_default(), assigned(&m.id)));
        let value = GroupMetadataValue {
            protocol_type: self.protocol_type.as_deref().unwrap_or_default().to_string(),
            generation: self.generation,
            protocol: protocol.map(str::to_string),
            leader: self.leader.clone(),
            current_state_timestamp_ms: self.state_since_ms,
            members: members.collect(),
        };
        let key = RecordKey::GroupMetadata(self.id.clone()).encode();
        CoordinatorRecord { key, value: Some(value.encode()) }
    }

    pub fn is(&self, state: GroupState) -> bool {
        self.state == state
    }

    pub fn is_leader(&self, member: &MemberId) -> bool {
        self.leader.as_ref() == Some(member)
    }

    /// The largest of its members' rebalance timeouts.
    pub fn rebalance_timeout_ms(&self) -> i64 {
        i64::from(self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0))
    }

    /// Every member waits for the join phase to end, and nobody who was told an id is still expected (R-GRP-13).
    pub fn has_all_members_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(Member::awaits_join)
    }

    /// Nobody ever joined: it is used for offsets only.
    pub fn is_simple(&self) -> bool {
        self.protocol_type.is_none() && self.is(GroupState::Empty) && self.pending.is_empty()
    }

    /// Its members are consumers, and not, say, Connect workers.
    pub fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// While it cannot be known what consumers read, they may read anything.
    pub fn is_subscribed_to(&self, topic: &Topic) -> bool {
        self.subscribed_topics.as_ref().map_or(self.is_of_consumers(), |topics| topics.contains(topic))
    }

    fn subscriptions(&self) -> Option<BTreeSet<Topic>> {
        if !self.is_of_consumers() {
            return None;
        }
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let subscriptions =
            self.members.values().map(|member| subscribed_topics(&member.metadata(protocol)).ok());
        Some(subscriptions.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
    }

    pub(super) fn static_member_id(&self, instance_id: &str) -> Option<&MemberId> {
        let mut members = self.members.values();
        members.find(|member| member.instance_id.as_deref() == Some(instance_id)).map(|member| &member.id)
    }

    /// The client behind a member or pending member.
    pub(super) fn client_of(&self, member: &MemberId) -> ClientName {
        let member_client = self.members.get(member).map(|member| &member.client);
        let client = member_client.or_else(|| self.pending.get(member).map(|pending| &pending.client));
        client.cloned().unwrap_or_else(|| ClientName::new(""))
    }

    /// The caller must be a member, and the present holder of its instance id if it names one (R-GRP-18, R-GRP-20).
    pub(super) fn validate_member(&self, member: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_member_id(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(holder) if holder.as_str() != member => return Err(static_member::fenced()),
                Some(_) => {}
            }
        }
        if self.members.contains_key(&MemberId::new(member)) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    /// Some protocol of `protocols` is supported by all members (R-GRP-8).
    pub(super) fn supports_protocols(&self, kind: &str, protocols: &[JoinGroupRequestProtocol]) -> bool {
        if self.is(GroupState::Empty) {
            return !kind.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(kind)
            && protocols.iter().any(|offered| self.members.values().all(|m| m.supports(&offered.name)))
    }

    /// The protocol of the next generation: each member votes for the first of its list that all members support;
    /// most votes win, a tie goes to the first of Java's hash map (R-GRP-16). None without members.
    pub fn select_protocol(&self) -> Option<StrBytes> {
        let common = |name: &StrBytes| self.members.values().all(|member| member.supports(name));
        let mut votes: BTreeMap<&str, (i64, &StrBytes)> = BTreeMap::new();
        for member in self.members.values() {
            if let Some(vote) = member.protocols.iter().map(|offered| &offered.name).find(|name| common(name))
            {
                votes.entry(vote).or_insert((0, vote)).0 += 1;
            }
        }
        let most = java_map::most_voted(votes.iter().map(|(name, (count, _))| (*name, *count)))?;
        Some(votes[most].1.clone())
    }

    /// Takes in a member; the first one becomes the leader (R-GRP-15).
    pub(super) fn add(&mut self, member: Member, kind: &StrBytes, cx: &mut Context<'_>) {
        if self.members.is_empty() {
            self.protocol_type = Some(kind.clone());
        }
        let leader = self.leader.get_or_insert_with(|| member.id.clone()) == &member.id;
        self.pending.remove(&member.id);
        cx.event(Event::Group(GroupEvent::MemberAdded {
            group: self.id.clone(),
            member: member.id.clone(),
            client: member.client.clone(),
            leader,
        }));
        self.insert(member);
    }

    /// Puts a member where Kafka's hash map has it.
    pub(super) fn insert(&mut self, mut member: Member) {
        self.joined += 1;
        member.joined = self.joined;
        self.members.insert(member.id.clone(), member);
        self.slots = java_map::grown(self.slots, self.members.len());
    }

    /// The one of `members` that Kafka meets first.
    pub(super) fn first_of<'a>(&self, members: impl Iterator<Item = &'a Member>) -> Option<MemberId> {
        let place =
            |member: &&Member| (java_map::slot(java_hash(member.id.as_str()), self.slots), member.joined);
        members.min_by_key(place).map(|member| member.id.clone())
    }

    /// Takes out a member or pending member. A leader is followed by the first of Kafka's hash map (R-GRP-15).
    pub(super) fn remove(
        &mut self,
        id: &MemberId,
        reason: MemberRemoval,
        cx: &mut Context<'_>,
    ) -> Option<Member> {
        let removed = self.members.remove(id);
        if let Some(member) = &removed {
            cx.event(Event::Group(GroupEvent::MemberRemoved {
                group: self.id.clone(),
                member: id.clone(),
                client: member.client.clone(),
                reason,
            }));
        }
        if self.is_leader(id) {
            self.leader = self.first_of(self.members.values());
        }
        self.pending.remove(id);
        self.pending_sync.remove(id);
        removed
    }

    /// Moves to another state (R-GRP-6).
    pub(super) fn enter(&mut self, state: GroupState, cx: &mut Context<'_>) {
        use GroupState::*;
        let allowed = match state {
            Empty | CompletingRebalance => matches!(self.state, PreparingRebalance),
            PreparingRebalance => matches!(self.state, Stable | CompletingRebalance | Empty),
            Stable => matches!(self.state, CompletingRebalance),
            Dead => false,
        };
        assert!(allowed, "group {} cannot go from {:?} to {state:?}", self.id, self.state);
        let from = std::mem::replace(&mut self.state, state);
        self.state_since_ms = Some(cx.now.wall_ms());
        cx.event(Event::Group(GroupEvent::GroupStateChanged {
            group: self.id.clone(),
            from,
            to: state,
            generation: self.generation,
        }));
    }

    /// Gives a member (or pending member) until `timeout_ms` from now.
    pub(super) fn expect_within(&mut self, id: &MemberId, timeout_ms: i64, cx: &mut Context<'_>) {
        let at = cx.now.plus_ms(timeout_ms);
        if let Some(member) = self.members.get_mut(id) {
            member.expires_at = at;
        } else if let Some(pending) = self.pending.get_mut(id) {
            pending.expires_at = at;
        } else {
            return;
        }
        cx.set_timer(cx.session_timer(&self.id, id), at);
    }

    /// Gives a member its full session timeout (R-GRP-21).
    pub(super) fn renew_session(&mut self, id: &MemberId, cx: &mut Context<'_>) {
        if let Some(timeout_ms) = self.members.get(id).map(|member| i64::from(member.session_timeout_ms)) {
            self.expect_within(id, timeout_ms, cx);
        }
    }
}
