//! What administrators and the trace are told of a consumer group (`ConsumerGroup.asDescribedGroup`).
//!
//! **Invariant:** a partition of a topic that is gone is not told of.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::protocol::StrBytes;

use super::{ConsumerGroup, ConsumerMember};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::event::{Event, GroupEvent, MemberRemoval};
use crate::kafka::group::assignor::server::ServerAssignor;
use crate::kafka::group::modern::{MemberState, ModernMember, TopicIdPartition};
use crate::kafka::types::{ClientName, GroupEpoch, GroupId, MemberId, TopicId, TopicPartition};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

impl ConsumerGroup {
    /// The name of the assignor that plans for it, `default` unless members ask for one (R-CG8-9).
    pub fn assignor(&self, default: ServerAssignor) -> &str {
        let members = self.base.members.values().map(|member| &**member);
        self.preferred_assignor(members).unwrap_or(default.name())
    }

    pub fn describe(&self, default: ServerAssignor, image: &ClusterImage) -> DescribedGroup {
        let described = self.base.members.values().map(|member| {
            let target = self.base.target.of(&member.id);
            member.describe(assignment(target.partitions(), image), image)
        });
        DescribedGroup::default()
            .with_group_id(m::GroupId(text(self.base.id.as_str())))
            .with_group_state(text(self.state().name()))
            .with_group_epoch(self.base.epoch.0)
            .with_assignment_epoch(self.base.target.epoch.0)
            .with_assignor_name(text(self.assignor(default)))
            .with_members(described.collect())
    }
}

impl ConsumerMember {
    /// It is responsible for what it is to give up too, until it has.
    fn describe(&self, target: Assignment, image: &ClusterImage) -> Member {
        let owned = self.assigned.keys().chain(self.pending_revocation.keys()).collect();
        let names = self.topic_names.iter().map(|name| m::TopicName(text(name.as_str())));
        Member::default()
            .with_member_id(text(self.id.as_str()))
            .with_instance_id(self.instance_id.as_deref().map(text))
            .with_rack_id(self.rack_id.as_deref().map(text))
            .with_member_epoch(self.epoch.0)
            .with_client_id(text(self.client.as_str()))
            .with_client_host(text(&self.client_host))
            .with_subscribed_topic_names(names.collect())
            .with_subscribed_topic_regex(Some(text(&self.topic_regex)))
            .with_assignment(assignment(owned, image))
            .with_target_assignment(target)
            .with_member_type(if self.is_classic() { 0 } else { 1 })
    }
}

fn assignment(partitions: BTreeSet<TopicIdPartition>, image: &ClusterImage) -> Assignment {
    let mut topics: BTreeMap<_, Vec<i32>> = BTreeMap::new();
    partitions.into_iter().for_each(|(topic, partition)| topics.entry(topic).or_default().push(partition));
    let topic = |(id, partitions): (TopicId, Vec<i32>)| {
        let name = m::TopicName(text(image.topic_name(id)?.as_str()));
        Some(TopicPartitions::default().with_topic_id(id.0).with_topic_name(name).with_partitions(partitions))
    };
    Assignment::default().with_topic_partitions(topics.into_iter().filter_map(topic).collect())
}

/// What happened between two looks at a group, in the order in which it is told.
pub(in crate::kafka::group) fn changes(
    before: Option<&ConsumerGroup>,
    after: &ConsumerGroup,
    removal: MemberRemoval,
    image: &ClusterImage,
) -> Vec<Event> {
    let empty = ConsumerGroup::new(after.base.id.clone());
    let before = before.unwrap_or(&empty);
    let mut events = members(before, after, removal);
    let group = || after.base.id.clone();
    if after.base.target.epoch > before.base.target.epoch {
        let owned = |(id, member): (&MemberId, &Rc<ConsumerMember>)| {
            let target = after.base.target.of(id).partitions();
            (member.client.clone(), named(target, image))
        };
        let plan = after.base.members.iter().map(owned).collect();
        events.push(Event::Group(GroupEvent::TargetAssigned {
            group: group(),
            epoch: after.base.target.epoch,
            plan,
        }));
    }
    for member in after.base.members.values() {
        let was = before.base.members.get(&member.id);
        if was.is_none_or(|was| was.epoch != member.epoch || was.assigned != member.assigned) {
            events.extend(reconciled(group(), was.map(|was| &**was), member, image));
        }
    }
    let (from, to) = (before.state(), after.state());
    if from != to || after.base.epoch != before.base.epoch {
        events.push(Event::Group(GroupEvent::ConsumerGroupStateChanged {
            group: group(),
            from,
            to,
            epoch: after.base.epoch,
        }));
    }
    events
}

/// A static member that comes back under another id is no news.
fn members(before: &ConsumerGroup, after: &ConsumerGroup, reason: MemberRemoval) -> Vec<Event> {
    let came = |from: &ConsumerGroup, to: &ConsumerGroup| {
        let known = |member: &ConsumerMember| {
            let instance = member.instance_id().and_then(|instance_id| from.static_member(instance_id));
            from.base.members.contains_key(&member.id) || instance.is_some()
        };
        let new = to.base.members.values().filter(|member| !known(member));
        new.map(|member| (member.id.clone(), member.client.clone())).collect::<Vec<_>>()
    };
    let group = || after.base.id.clone();
    let gone = came(after, before);
    let gone = gone.into_iter().map(|(member, client)| {
        Event::Group(GroupEvent::MemberRemoved { group: group(), member, client, reason })
    });
    let new = came(before, after);
    let new = new.into_iter().map(|(member, client)| {
        Event::Group(GroupEvent::MemberAdded { group: group(), member, client, leader: false })
    });
    gone.chain(new).collect()
}

fn reconciled(
    group: GroupId,
    was: Option<&ConsumerMember>,
    member: &ConsumerMember,
    image: &ClusterImage,
) -> Option<Event> {
    let (client, epoch): (ClientName, _) = (member.client.clone(), member.epoch);
    match member.state {
        MemberState::UnrevokedPartitions => {
            let partitions = named(member.pending_revocation.keys(), image);
            Some(Event::Group(GroupEvent::RevocationAsked { group, client, epoch, partitions }))
        }
        MemberState::Stable | MemberState::UnreleasedPartitions if epoch >= GroupEpoch::JOINING => {
            let had = was.map(|was| was.assigned.clone()).unwrap_or_default();
            let given = named(member.assigned.keys().filter(|partition| !had.contains(partition)), image);
            let waits = member.state == MemberState::UnreleasedPartitions;
            Some(Event::Group(GroupEvent::MemberReconciled { group, client, epoch, given, waits }))
        }
        _ => None,
    }
}

fn named(
    partitions: impl IntoIterator<Item = TopicIdPartition>,
    image: &ClusterImage,
) -> Vec<TopicPartition> {
    let name = |(id, partition)| Some(TopicPartition::new(image.topic_name(id)?, partition));
    partitions.into_iter().filter_map(name).collect()
}
