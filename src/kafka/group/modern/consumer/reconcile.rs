//! The next assignment of a member on its way to its target (R-CG8-10 to R-CG8-12).
//!
//! Mirrors `CurrentAssignmentBuilder`. A member gives up first what is not in its target and stays in its epoch until it says
//! that it did; then it enters the target's epoch and gets what nobody else has.
//!
//! **Invariant:** a partition is given to a member only while no other member has it or is still to give it up.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;

use super::ConsumerMember;
use crate::kafka::group::modern::{MemberState, Partitions, Refusal, TopicIdPartition};
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{GroupEpoch, TopicId};

/// What a member is reconciled with.
pub(super) struct Reconciliation<'a> {
    pub(super) target_epoch: GroupEpoch,
    pub(super) target: BTreeSet<TopicIdPartition>,
    /// The topics that it subscribes to and that exist.
    pub(super) subscribed: BTreeSet<TopicId>,
    pub(super) subscription_changed: bool,
    /// The partitions that members have or are to give up, this one's included.
    pub(super) owned_by_members: &'a BTreeMap<TopicIdPartition, GroupEpoch>,
    /// What the member says that it owns; none if it does not say.
    pub(super) owned: Option<&'a [TopicPartitions]>,
}

impl Reconciliation<'_> {
    /// # Errors
    /// FENCED_MEMBER_EPOCH: the state was written by a newer coordinator, and the member may still own something.
    pub(super) fn next(&self, member: &ConsumerMember) -> Result<ConsumerMember, Refusal> {
        match member.state {
            MemberState::Stable if member.epoch != self.target_epoch => {
                Ok(self.towards_target(member, member.epoch))
            }
            MemberState::UnrevokedPartitions if !self.owns_any_of(&member.pending_revocation) => {
                Ok(self.towards_target(member, member.epoch))
            }
            MemberState::Stable | MemberState::UnrevokedPartitions if self.subscription_changed => {
                Ok(self.without_unsubscribed(member))
            }
            MemberState::Stable | MemberState::UnrevokedPartitions => Ok(member.clone()),
            MemberState::UnreleasedPartitions => Ok(self.towards_target(member, member.epoch)),
            MemberState::Unknown if self.owned.is_some_and(<[_]>::is_empty) => {
                Ok(self.towards_target(member, self.target_epoch))
            }
            MemberState::Unknown => Err(Refusal::new(
                ErrorCode::FencedMemberEpoch,
                "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
            )),
        }
    }

    /// A member that does not say what it owns may own them.
    fn owns_any_of(&self, partitions: &Partitions) -> bool {
        let Some(owned) = self.owned else { return true };
        let owns = |topic: &TopicPartitions| {
            topic
                .partitions
                .iter()
                .any(|partition| partitions.contains(&(TopicId(topic.topic_id), *partition)))
        };
        owned.iter().any(owns)
    }

    fn towards_target(&self, member: &ConsumerMember, epoch: GroupEpoch) -> ConsumerMember {
        let wanted = |partition: &TopicIdPartition| self.subscribed.contains(&partition.0);
        let (assigned, pending_revocation) =
            member.assigned.split(|partition| wanted(partition) && self.target.contains(partition));
        let mut next = member.clone();
        let is_awaited = !plant::is(Plant::RevocationNotAwaited);
        if !pending_revocation.is_empty() && self.owns_any_of(&pending_revocation) && is_awaited {
            next.state = MemberState::UnrevokedPartitions;
            next.enter(epoch);
            (next.assigned, next.pending_revocation) = (assigned, pending_revocation);
            return next;
        }
        let pending =
            self.target.iter().filter(|partition| wanted(partition) && !assigned.contains(partition));
        // What the member itself was to give up nobody else has.
        let is_free = |partition: &&TopicIdPartition| {
            !self.owned_by_members.contains_key(partition)
                || member.pending_revocation.contains(partition)
                || plant::is(Plant::UnreleasedAssigned)
        };
        let (free, unreleased): (Vec<&TopicIdPartition>, Vec<&TopicIdPartition>) = pending.partition(is_free);
        next.state =
            if unreleased.is_empty() { MemberState::Stable } else { MemberState::UnreleasedPartitions };
        next.enter(self.target_epoch);
        next.assigned = assigned.with(&Partitions::at_epoch(self.target_epoch, free.into_iter().copied()));
        next.pending_revocation = Partitions::default();
        next
    }

    /// Takes away at once what the member does not subscribe to any more, whatever the target says.
    fn without_unsubscribed(&self, member: &ConsumerMember) -> ConsumerMember {
        let (assigned, unsubscribed) =
            member.assigned.split(|partition| self.subscribed.contains(&partition.0));
        let mut next = member.clone();
        // A member without any topic notes its epoch anew, even if it has nothing.
        if unsubscribed.is_empty() && !(self.subscribed.is_empty() && member.pending_revocation.is_empty()) {
            return next;
        }
        let pending_revocation = member.pending_revocation.with(&unsubscribed);
        next.assigned = assigned;
        next.enter(member.epoch);
        // Where the member gave them up already, nothing is left to wait for.
        if !pending_revocation.is_empty() && self.owns_any_of(&pending_revocation) {
            next.state = MemberState::UnrevokedPartitions;
            next.pending_revocation = pending_revocation;
        }
        next
    }
}
