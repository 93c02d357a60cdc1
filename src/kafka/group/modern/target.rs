//! The target assignment: what each member is to have (R-CG8-2, R-CG8-8, R-CG8-9).
//!
//! Mirrors `TargetAssignmentBuilder`.
//!
//! **Invariant:** no partition is in the targets of two members of a consumer group.

use std::collections::{BTreeMap, BTreeSet};

use super::TopicIdPartition;
use super::subscription::SubscriptionType;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::assignor::server::{Assigned, GroupSpec, MemberSpec, ServerAssignor, Taken};
use crate::kafka::protocol::coordinator_records::TargetTopic;
use crate::kafka::types::{GroupEpoch, MemberId, Topic, TopicId};

#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The group's epoch for which it was computed.
    pub epoch: GroupEpoch,
    /// When, in milliseconds since 1970 by the coordinator's clock; 0 if that is not known (KIP-1263).
    pub computed_ms: i64,
    pub members: BTreeMap<MemberId, Assigned>,
}

impl Target {
    /// A member's target; empty if it has none yet.
    pub fn of(&self, member: &MemberId) -> Assigned {
        self.members.get(member).cloned().unwrap_or_default()
    }

    /// R-CG8-8. An interval of 0 is the way out when the clock went back.
    pub(super) fn may_be_computed(&self, now_ms: i64, interval_ms: i64) -> bool {
        self.computed_ms == 0 || interval_ms == 0 || now_ms >= self.computed_ms + interval_ms
    }
}

impl Assigned {
    pub(crate) fn to_record(&self) -> Vec<TargetTopic> {
        let topic = |(topic_id, partitions): (TopicId, &[i32])| TargetTopic {
            topic_id,
            partitions: partitions.to_vec(),
        };
        self.iter().map(topic).collect()
    }

    pub(crate) fn from_record(topics: &[TargetTopic]) -> Assigned {
        Assigned::new(topics.iter().map(|topic| (topic.topic_id, &topic.partitions)))
    }

    pub(crate) fn partitions(&self) -> BTreeSet<TopicIdPartition> {
        let of_topic = |(topic, partitions): (TopicId, &[i32])| {
            partitions.iter().map(move |partition| (topic, *partition)).collect::<Vec<_>>()
        };
        self.iter().flat_map(of_topic).collect()
    }
}

/// A member that is to be assigned.
pub(super) struct Assignee<'a> {
    pub(super) id: &'a MemberId,
    pub(super) instance_id: Option<&'a str>,
    pub(super) topics: Vec<&'a Topic>,
    pub(super) target: Assigned,
}

/// Each member's new target by a consumer group's assignor. `taken` are the targets that the group has, of members that go too.
pub(super) fn assign(
    assignor: ServerAssignor,
    members: &[Assignee<'_>],
    kind: SubscriptionType,
    taken: &Taken,
    image: &ClusterImage,
) -> BTreeMap<MemberId, Assigned> {
    assign_with(|spec| assignor.assign(spec), members, kind, taken, image)
}

/// The same by any assignor.
pub(super) fn assign_with(
    assignor: impl FnOnce(&GroupSpec<'_>) -> Vec<Assigned>,
    members: &[Assignee<'_>],
    kind: SubscriptionType,
    taken: &Taken,
    image: &ClusterImage,
) -> BTreeMap<MemberId, Assigned> {
    let names: BTreeSet<&Topic> = members.iter().flat_map(|member| member.topics.iter().copied()).collect();
    let mut topics: Vec<(TopicId, i32, &Topic)> = names
        .into_iter()
        .filter_map(|name| image.topic(name).map(|topic| (topic.id, topic.partitions.len() as i32, name)))
        .collect();
    topics.sort_unstable_by_key(|(id, _, _)| *id);
    let places: BTreeMap<&Topic, u32> = (0..).zip(&topics).map(|(place, topic)| (topic.2, place)).collect();
    let subscribed = |member: &Assignee<'_>| {
        let mut places: Vec<u32> =
            member.topics.iter().filter_map(|topic| places.get(topic).copied()).collect();
        places.sort_unstable();
        places.dedup();
        places
    };
    let subscribed: Vec<Vec<u32>> = members.iter().map(subscribed).collect();
    let specs: Vec<MemberSpec<'_>> = members
        .iter()
        .zip(&subscribed)
        .map(|(member, topics)| MemberSpec {
            id: member.id,
            instance_id: member.instance_id,
            topics,
            target: &member.target,
        })
        .collect();
    let topics: Vec<(TopicId, i32)> = topics.into_iter().map(|(id, count, _)| (id, count)).collect();
    let homogeneous = kind == SubscriptionType::Homogeneous;
    let assigned = assignor(&GroupSpec { members: &specs, topics: &topics, homogeneous, taken });
    members.iter().map(|member| member.id.clone()).zip(assigned).collect()
}
