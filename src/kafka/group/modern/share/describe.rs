//! What administrators and the trace are told of a share group (`ShareGroup.asDescribedGroup`).
//!
//! **Invariant:** a partition of a topic that is gone is not told of.

use kafka_protocol::messages as m;
use kafka_protocol::messages::share_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::protocol::StrBytes;

use super::{ShareGroup, ShareMember};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::event::{Event, GroupEvent, MemberRemoval};
use crate::kafka::types::TopicId;

/// The only assignor of share groups.
const ASSIGNOR: &str = "simple";

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

impl ShareGroup {
    pub fn describe(&self, image: &ClusterImage) -> DescribedGroup {
        DescribedGroup::default()
            .with_group_id(m::GroupId(text(self.base.id.as_str())))
            .with_group_state(text(self.state().name()))
            .with_group_epoch(self.base.epoch.0)
            .with_assignment_epoch(self.base.target.epoch.0)
            .with_assignor_name(text(ASSIGNOR))
            .with_members(self.base.members.values().map(|member| member.describe(image)).collect())
    }

    /// Who came and who went since the group was `before`.
    pub(in crate::kafka::group) fn changes(
        &self,
        before: Option<&ShareGroup>,
        reason: MemberRemoval,
    ) -> Vec<Event> {
        let knows = |group: Option<&ShareGroup>, member: &ShareMember| {
            group.is_some_and(|group| group.base.members.contains_key(&member.id))
        };
        let old = before.iter().flat_map(|group| group.base.members.values());
        let gone = old.filter(|member| !knows(Some(self), member)).map(|member| {
            Event::Group(GroupEvent::MemberRemoved {
                group: self.base.id.clone(),
                member: member.id.clone(),
                client: member.client.clone(),
                reason,
            })
        });
        let now = self.base.members.values();
        let new = now.filter(|member| !knows(before, member)).map(|member| {
            Event::Group(GroupEvent::MemberAdded {
                group: self.base.id.clone(),
                member: member.id.clone(),
                client: member.client.clone(),
                leader: false,
            })
        });
        gone.chain(new).collect()
    }
}

impl ShareMember {
    fn describe(&self, image: &ClusterImage) -> Member {
        let names = self.topic_names.iter().map(|name| m::TopicName(text(name.as_str())));
        Member::default()
            .with_member_id(text(self.id.as_str()))
            .with_rack_id(self.rack_id.as_deref().map(text))
            .with_member_epoch(self.epoch.0)
            .with_client_id(text(self.client.as_str()))
            .with_client_host(text(&self.client_host))
            .with_subscribed_topic_names(names.collect())
            .with_assignment(self.described_assignment(image))
    }

    fn described_assignment(&self, image: &ClusterImage) -> Assignment {
        let mut topics: Vec<(TopicId, Vec<i32>)> = Vec::new();
        for (id, partition) in &self.assigned {
            match topics.last_mut().filter(|(last, _)| last == id) {
                Some((_, partitions)) => partitions.push(*partition),
                None => topics.push((*id, vec![*partition])),
            }
        }
        let topic = |(id, partitions): (TopicId, Vec<i32>)| {
            let name = m::TopicName(text(image.topic_name(id)?.as_str()));
            let topic = TopicPartitions::default().with_topic_id(id.0).with_topic_name(name);
            Some(topic.with_partitions(partitions))
        };
        Assignment::default().with_topic_partitions(topics.into_iter().filter_map(topic).collect())
    }
}
