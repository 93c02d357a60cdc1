//! Share groups: members that may be given the same partitions, and the states that must have begun before (KIP-932;
//! R-SHARE-1, 2, 15).
//!
//! Mirrors `ShareGroup` and its part of `GroupMetadataManager`. There is no reconciliation: a member has its target as soon
//! as it hears of it.
//!
//! **Invariant:** a partition is given to nobody anew before the share coordinator has begun its state.

mod member;
mod states;
mod describe;
mod offsets;
mod heartbeat;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::subscription::Subscriptions;
use super::{Freshness, ModernGroup, ModernMember, TopicIdPartition};
use crate::kafka::protocol::coordinator_records::{CoordinatorRecord, ShareGroupRecord};
use crate::kafka::time::Time;
use crate::kafka::types::{GroupEpoch, GroupId, MemberId, Topic};

pub use heartbeat::check_request;
pub use member::ShareMember;
pub use offsets::{Altered, Deleting};
pub use replay::Replayed;
pub use states::{BeginningStates, StatePartitions};

/// The configs of a share group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareGroupConfig {
    /// `group.share.max.size`
    pub max_size: i32,
    /// `share.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `share.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `share.assignment.interval.ms`.
    pub assignment_interval_ms: i32,
    /// `group.share.initialize.retry.interval.ms`.
    pub initialize_retry_interval_ms: i64,
}

impl ShareGroupConfig {
    /// Kafka's defaults.
    pub const DEFAULT: ShareGroupConfig = ShareGroupConfig {
        max_size: 200,
        session_timeout_ms: 45_000,
        heartbeat_interval_ms: 5_000,
        assignment_interval_ms: 1_000,
        initialize_retry_interval_ms: 30_000,
    };
}

#[derive(Clone, Debug)]
pub struct ShareGroup {
    pub base: ModernGroup<ShareMember>,
    pub states: StatePartitions,
    /// Whether a record tells of states, and be it that there are none.
    pub has_states: bool,
    /// When each member is removed unless it is heard from before.
    pub sessions: BTreeMap<MemberId, Time>,
}

/// What a request or timer comes to; the records are to be written, and replayed, as one.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    pub records: Vec<ShareGroupRecord>,
    pub response: R,
    pub session: Option<SessionChange>,
    /// The group's topics were looked at.
    pub(super) fresh: Option<Freshness>,
    /// States that the share coordinators are to begin, in this epoch of theirs.
    pub initialize: Option<(GroupEpoch, Vec<TopicIdPartition>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    Renewed {
        member: MemberId,
        timeout_ms: i64,
    },
    /// The member goes.
    Ended(MemberId),
}

/// `ShareGroupState`: there is no way in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareGroupState {
    Empty,
    Stable,
}

impl ShareGroupState {
    pub fn name(self) -> &'static str {
        match self {
            ShareGroupState::Empty => "Empty",
            ShareGroupState::Stable => "Stable",
        }
    }
}

impl ShareGroup {
    pub fn new(id: GroupId) -> ShareGroup {
        ShareGroup {
            base: ModernGroup::new(id),
            states: StatePartitions::default(),
            has_states: false,
            sessions: BTreeMap::new(),
        }
    }

    pub fn state(&self) -> ShareGroupState {
        if self.base.members.is_empty() { ShareGroupState::Empty } else { ShareGroupState::Stable }
    }

    /// Takes in what an outcome comes to, as soon as its records are on their way into the log.
    pub fn carry_out<R>(&mut self, outcome: &Outcome<R>, now: Time) -> Replayed {
        let replayed = outcome.records.iter().map(|record| self.replay(record, now));
        if replayed.fold(Replayed::Kept, |_, last| last) == Replayed::Deleted {
            return Replayed::Deleted;
        }
        if let Some(fresh) = outcome.fresh {
            self.base.fresh_until = fresh;
        }
        match &outcome.session {
            Some(SessionChange::Renewed { member, timeout_ms }) => {
                self.sessions.insert(member.clone(), now.plus_ms(*timeout_ms));
            }
            Some(SessionChange::Ended(member)) => drop(self.sessions.remove(member)),
            None => {}
        }
        Replayed::Kept
    }

    pub fn subscribed_topics(&self) -> BTreeSet<Topic> {
        self.base.members.values().flat_map(|member| member.topic_names.iter().cloned()).collect()
    }

    /// What deletes the group, which nobody is in.
    pub(in crate::kafka::group) fn tombstones(&self) -> Vec<CoordinatorRecord> {
        let members = || self.base.members.keys().cloned();
        let mut records: Vec<ShareGroupRecord> =
            members().map(|member| ShareGroupRecord::CurrentAssignment(member, None)).collect();
        records.extend(members().map(|member| ShareGroupRecord::Target(member, None)));
        records.push(ShareGroupRecord::TargetMetadata(None));
        records.extend(members().map(|member| ShareGroupRecord::Subscription(member, None)));
        records.push(ShareGroupRecord::StatePartitions(None));
        records.push(ShareGroupRecord::GroupEpoch(None));
        records.iter().map(|record| record.encode(&self.base.id)).collect()
    }

    /// The members as they are going to be, with `updated` in the place of its former self.
    fn members_with<'a>(&'a self, updated: &'a ShareMember) -> impl Iterator<Item = &'a ShareMember> {
        let others = self.base.members.values().map(Rc::as_ref).filter(|member| member.id != updated.id);
        others.chain(std::iter::once(updated))
    }

    fn subscriptions<'a>(&'a self, members: impl Iterator<Item = &'a ShareMember>) -> Subscriptions<'a> {
        Subscriptions::of(members.map(ModernMember::subscribed), |_| None)
    }
}

#[cfg(test)]
mod tests;
