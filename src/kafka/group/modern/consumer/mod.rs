//! Consumer groups of the newer protocol (KIP-848; R-CG8-1 to R-CG8-26).
//!
//! Mirrors `ConsumerGroup`; what requests and timers do is in the files beside it, as it is in `GroupMetadataManager`.
//!
//! **Invariant:** a partition is assigned to, or to be revoked from, one member at most.

mod member;
mod reconcile;
mod heartbeat;
mod target;
mod leave;
mod regex;
mod commit;
mod replay;
mod describe;
mod classic_members;
mod replacement;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages as m;

use super::subscription::Subscriptions;
use super::target::Assignee;
use super::{Freshness, ModernGroup, ModernMember, Refusal, Surroundings, TopicIdPartition};
use crate::kafka::event::ConsumerGroupState;
use crate::kafka::group::config::ConsumerGroupConfig;
use crate::kafka::group::java_map::most_voted;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::coordinator_records::{
    ConsumerRecord, CoordinatorRecord, RegularExpressionValue,
};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupEpoch, GroupId, MemberId, Topic};

pub(in crate::kafka::group) use classic_members::{Joined, blob, version_of};
pub use commit::CommitScope;
pub(in crate::kafka::group) use describe::changes;
pub use heartbeat::check_request;
pub use member::ConsumerMember;
pub use regex::resolve as resolve_regexes;
pub(in crate::kafka::group) use replacement::{Replacement, Return};
pub use replay::Replayed;

/// What is waited for from one member; no record holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// When it is removed unless it is heard from before (R-CG8-14).
    pub session: Option<Time>,
    /// When it is removed unless it has left this epoch before (R-CG8-13).
    pub rebalance: Option<(Time, GroupEpoch)>,
    /// When a classic member that was told to join again is removed.
    pub join: Option<Time>,
    /// When a classic member that joined is removed unless it asks for its assignment.
    pub sync: Option<Time>,
}

/// A regular expression with the topics that it matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRegex {
    pub topics: BTreeSet<Topic>,
    /// The metadata offset at which it was resolved.
    pub version: i64,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
}

#[derive(Clone, Debug)]
pub struct ConsumerGroup {
    pub base: ModernGroup<ConsumerMember>,
    pub regexes: BTreeMap<String, ResolvedRegex>,
    /// What members have or are still to give up, with the epoch of that member.
    owned: BTreeMap<TopicIdPartition, GroupEpoch>,
    /// Kafka 4.0 left a record of the topics, which goes with the next change.
    has_partition_metadata: bool,
    pub deadlines: BTreeMap<MemberId, Deadlines>,
    /// The expressions that are being resolved.
    pub(in crate::kafka::group) resolving: Option<BTreeSet<String>>,
}

/// What a request or timer comes to; the records are to be written, and replayed, as one.
#[derive(Clone, Debug)]
pub struct Outcome<R> {
    pub records: Vec<ConsumerRecord>,
    pub response: R,
    pub timers: Vec<TimerChange>,
    /// The group's topics were looked at.
    pub(super) fresh: Option<Freshness>,
    /// Expressions that are to be resolved.
    pub resolve: Option<BTreeSet<String>>,
    /// Who leaves or is removed.
    pub gone: BTreeSet<MemberId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerChange {
    Session {
        member: MemberId,
        timeout_ms: i64,
    },
    Rebalance {
        member: MemberId,
        timeout_ms: i64,
        epoch: GroupEpoch,
    },
    EndRebalance(MemberId),
    JoinUnlessSet {
        member: MemberId,
        timeout_ms: i64,
    },
    EndJoin(MemberId),
    Sync {
        member: MemberId,
        timeout_ms: i64,
    },
    EndSync(MemberId),
    /// The member goes.
    End(MemberId),
}

impl Outcome<()> {
    /// Nothing changes but what is waited for.
    pub(in crate::kafka::group) fn of_timers(timers: Vec<TimerChange>) -> Outcome<()> {
        Outcome { timers, ..Outcome::new(Vec::new(), ()) }
    }
}

impl<R> Outcome<R> {
    /// What comes of `first`, and then of this.
    pub(in crate::kafka::group) fn after(self, first: Outcome<()>) -> Outcome<R> {
        let records = first.records.into_iter().chain(self.records).collect();
        let timers = first.timers.into_iter().chain(self.timers).collect();
        Outcome { records, timers, ..self }
    }

    /// As it is when a request has no consequence but its answer.
    fn new(records: Vec<ConsumerRecord>, response: R) -> Outcome<R> {
        Outcome { records, response, timers: Vec::new(), fresh: None, resolve: None, gone: BTreeSet::new() }
    }
}

impl ConsumerGroup {
    pub fn new(id: GroupId) -> ConsumerGroup {
        ConsumerGroup {
            base: ModernGroup::new(id),
            regexes: BTreeMap::new(),
            owned: BTreeMap::new(),
            has_partition_metadata: false,
            deadlines: BTreeMap::new(),
            resolving: None,
        }
    }

    /// Answers a heartbeat to `known`, or to a group that is not there yet.
    ///
    /// # Errors
    /// What the member is told; nothing follows from its request.
    pub fn handle(
        known: Option<&ConsumerGroup>,
        request: &m::ConsumerGroupHeartbeatRequest,
        client: &ClientName,
        config: &ConsumerGroupConfig,
        around: &Surroundings<'_>,
    ) -> Result<Outcome<m::ConsumerGroupHeartbeatResponse>, Refusal> {
        let id = &*request.group_id;
        let not_found = |text: String| Refusal::new(ErrorCode::GroupIdNotFound, text);
        match (known, GroupEpoch(request.member_epoch)) {
            (Some(group), GroupEpoch::LEFT | GroupEpoch::AWAY) => group.leave(request, around.image),
            (None, GroupEpoch::LEFT | GroupEpoch::AWAY) => Err(not_found(format!("Group {id} not found."))),
            (Some(group), _) => group.heartbeat(request, client, config, around),
            (None, GroupEpoch::JOINING) => {
                ConsumerGroup::new(GroupId::new(id)).heartbeat(request, client, config, around)
            }
            (None, _) => Err(not_found(format!("Consumer group {id} not found."))),
        }
    }

    /// Takes in what an outcome comes to, as soon as its records are on their way into the log.
    pub fn carry_out<R>(&mut self, outcome: &Outcome<R>, now: Time) -> Replayed {
        let replayed = outcome.records.iter().map(|record| self.replay(record));
        if replayed.fold(Replayed::Kept, |_, last| last) == Replayed::Deleted {
            return Replayed::Deleted;
        }
        if let Some(fresh) = outcome.fresh {
            self.base.fresh_until = fresh;
        }
        for change in &outcome.timers {
            self.note_deadline(change, now);
        }
        Replayed::Kept
    }

    fn note_deadline(&mut self, change: &TimerChange, now: Time) {
        match change {
            TimerChange::Session { member, timeout_ms } => {
                self.deadlines.entry(member.clone()).or_default().session = Some(now.plus_ms(*timeout_ms));
            }
            TimerChange::Rebalance { member, timeout_ms, epoch } => {
                let deadline = Some((now.plus_ms(*timeout_ms), *epoch));
                self.deadlines.entry(member.clone()).or_default().rebalance = deadline;
            }
            TimerChange::EndRebalance(member) => {
                self.deadlines.entry(member.clone()).or_default().rebalance = None;
            }
            TimerChange::JoinUnlessSet { member, timeout_ms } => {
                let join = &mut self.deadlines.entry(member.clone()).or_default().join;
                *join = join.or(Some(now.plus_ms(*timeout_ms)));
            }
            TimerChange::EndJoin(member) => {
                self.deadlines.entry(member.clone()).or_default().join = None;
            }
            TimerChange::Sync { member, timeout_ms } => {
                self.deadlines.entry(member.clone()).or_default().sync = Some(now.plus_ms(*timeout_ms));
            }
            TimerChange::EndSync(member) => {
                self.deadlines.entry(member.clone()).or_default().sync = None;
            }
            TimerChange::End(member) => drop(self.deadlines.remove(member)),
        }
    }

    /// What deletes the group.
    pub(in crate::kafka::group) fn tombstones(&self) -> Vec<CoordinatorRecord> {
        self.tombstones_with(None)
    }

    /// The same once somebody has taken another's place.
    pub(in crate::kafka::group) fn tombstones_with(
        &self,
        replacement: Option<&Replacement>,
    ) -> Vec<CoordinatorRecord> {
        let members = || self.base.members.keys().map(|id| Replacement::newest(replacement, id).clone());
        let mut records: Vec<ConsumerRecord> =
            members().map(|member| ConsumerRecord::CurrentAssignment(member, None)).collect();
        records.extend(members().map(|member| ConsumerRecord::Target(member, None)));
        records.push(ConsumerRecord::TargetMetadata(None));
        records.extend(members().map(|member| ConsumerRecord::Subscription(member, None)));
        records
            .extend(self.regexes.keys().map(|regex| ConsumerRecord::RegularExpression(regex.clone(), None)));
        records.push(ConsumerRecord::PartitionMetadata { present: false });
        records.push(ConsumerRecord::GroupEpoch(None));
        records.iter().map(|record| record.encode(&self.base.id)).collect()
    }

    pub fn state(&self) -> ConsumerGroupState {
        let target = self.base.target.epoch;
        if self.base.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.base.epoch > target {
            ConsumerGroupState::Assigning
        } else if self.base.members.values().all(|member| member.is_reconciled_to(target)) {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }

    /// The member that has an instance id.
    pub fn static_member(&self, instance_id: &str) -> Option<&Rc<ConsumerMember>> {
        self.base.members.values().find(|member| member.instance_id() == Some(instance_id))
    }

    /// The members as they are going to be: with `updated` in the place of its former self, or of whoever had its
    /// instance id.
    fn members_with<'a>(&'a self, updated: &'a ConsumerMember) -> impl Iterator<Item = &'a ConsumerMember> {
        let replaced = updated.instance_id().and_then(|instance_id| self.static_member(instance_id));
        let replaced = replaced.map(|member| &member.id);
        let others = self.base.members.values().map(|member| &**member);
        let others = others.filter(move |member| member.id != updated.id && Some(&member.id) != replaced);
        others.chain(std::iter::once(updated))
    }

    fn subscriptions<'a>(&'a self, members: impl Iterator<Item = &'a ConsumerMember>) -> Subscriptions<'a> {
        Subscriptions::of(members.map(ModernMember::subscribed), |regex| {
            self.regexes.get(regex).map(|resolved| &resolved.topics)
        })
    }

    /// What the group subscribes to.
    pub fn subscribed_topics(&self) -> BTreeSet<Topic> {
        let subscriptions = self.subscriptions(self.base.members.values().map(|member| &**member));
        subscriptions.topics().cloned().collect()
    }

    /// What a member subscribes to by name and by its expression, as far as that is resolved.
    fn topics_of<'a>(&'a self, member: &'a ConsumerMember) -> impl Iterator<Item = &'a Topic> {
        let resolved = self.regexes.get(&member.topic_regex);
        member.topic_names.iter().chain(resolved.into_iter().flat_map(|resolved| &resolved.topics))
    }

    fn assignee<'a>(&'a self, member: &'a ConsumerMember) -> Assignee<'a> {
        Assignee {
            id: &member.id,
            instance_id: member.instance_id(),
            topics: self.topics_of(member).collect(),
            target: self.target_of(member),
        }
    }

    /// R-CG8-9: the assignor that most members ask for. In a tie the first in the order of a Java map.
    fn preferred_assignor<'a>(&self, members: impl Iterator<Item = &'a ConsumerMember>) -> Option<&'a str> {
        let mut votes: BTreeMap<&str, i64> = BTreeMap::new();
        members
            .filter_map(|member| member.server_assignor.as_deref())
            .for_each(|name| *votes.entry(name).or_default() += 1);
        most_voted(votes.into_iter())
    }
}

impl ResolvedRegex {
    fn to_record(&self) -> RegularExpressionValue {
        RegularExpressionValue {
            topics: self.topics.iter().map(Topic::to_string).collect(),
            version: self.version,
            timestamp_ms: self.timestamp_ms,
        }
    }
}

#[cfg(test)]
mod tests;
