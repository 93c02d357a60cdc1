//! Consumer groups of the newer protocol, held to what their coordinator's log says of them (R-CG8-6, 12, 26).
//!
//! **Invariant:** the records are read here anew, by nothing but their codecs.

use std::collections::{BTreeMap, BTreeSet};

use crate::kafka::controller::image::ClusterImage;
use crate::kafka::event::ConsumerGroupState;
use crate::kafka::group::modern::consumer::{ConsumerGroup, ConsumerMember};
use crate::kafka::group::modern::{Partitions, TopicIdPartition};
use crate::kafka::protocol::coordinator_records::{AssignedTopic, ConsumerRecord, TargetTopic};
use crate::kafka::types::{GroupEpoch, GroupId, MemberId};
use crate::swarm::check::{Check, Verdict};

/// What a log says of all groups of a partition.
#[derive(Default)]
pub struct ModernGroups {
    groups: BTreeMap<GroupId, Written>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Written {
    epoch: GroupEpoch,
    target_epoch: GroupEpoch,
    targets: BTreeMap<MemberId, BTreeSet<TopicIdPartition>>,
    members: BTreeMap<MemberId, Place>,
}

/// Where a member is, with what it has and what it is to give up.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    epoch: GroupEpoch,
    assigned: BTreeSet<TopicIdPartition>,
    leaving: BTreeSet<TopicIdPartition>,
}

impl ModernGroups {
    pub fn apply(&mut self, group: &GroupId, record: ConsumerRecord) {
        if record == ConsumerRecord::GroupEpoch(None) {
            self.groups.remove(group);
            return;
        }
        let group = self.groups.entry(group.clone()).or_default();
        match record {
            ConsumerRecord::GroupEpoch(Some(value)) => group.epoch = value.epoch,
            ConsumerRecord::TargetMetadata(value) => {
                group.target_epoch = value.map_or(GroupEpoch(-1), |value| value.epoch);
            }
            ConsumerRecord::Target(member, Some(topics)) => {
                group.targets.insert(member, topics.iter().flat_map(of_target).collect());
            }
            ConsumerRecord::Target(member, None) => drop(group.targets.remove(&member)),
            ConsumerRecord::Subscription(member, Some(_)) => {
                group.members.entry(member).or_insert_with(|| Place::of(GroupEpoch::JOINING, &[], &[]));
            }
            ConsumerRecord::Subscription(member, None) => drop(group.members.remove(&member)),
            ConsumerRecord::CurrentAssignment(member, Some(value)) => {
                let place = Place::of(value.member_epoch, &value.assigned, &value.pending_revocation);
                group.members.insert(member, place);
            }
            ConsumerRecord::CurrentAssignment(member, None) => {
                if let Some(place) = group.members.get_mut(&member) {
                    *place = Place::of(GroupEpoch::LEFT, &[], &[]);
                }
            }
            ConsumerRecord::GroupEpoch(None)
            | ConsumerRecord::PartitionMetadata { .. }
            | ConsumerRecord::RegularExpression(..) => {}
        }
    }

    /// R-CG8-12: whatever is below the high watermark gives a partition to one member at most.
    pub fn check_owners(&self) -> Verdict {
        for (id, group) in &self.groups {
            let mut owners: BTreeMap<&TopicIdPartition, &MemberId> = BTreeMap::new();
            for (member, place) in &group.members {
                for partition in place.assigned.iter().chain(&place.leaving) {
                    if let Some(other) = owners.insert(partition, member) {
                        let (topic, number) = partition;
                        let fault =
                            format!("the log of {id} gives {topic}-{number} to {other} and to {member}");
                        return Err(Check::OneOwner.broken(fault));
                    }
                }
            }
        }
        Ok(())
    }

    /// R-CG8-26: what a coordinator knows is what its log says.
    pub fn check_known<'a>(&self, groups: impl Iterator<Item = &'a ConsumerGroup>) -> Verdict {
        let known: BTreeMap<GroupId, Written> =
            groups.map(|group| (group.base.id.clone(), Written::by(group))).collect();
        if known == self.groups {
            return Ok(());
        }
        let ids: BTreeSet<&GroupId> = known.keys().chain(self.groups.keys()).collect();
        let differs = ids.into_iter().find(|id| known.get(id) != self.groups.get(id));
        Check::CoordinatorState.verdict(
            differs.map(|id| format!("{id} is {:?}, its log says {:?}", known.get(id), self.groups.get(id))),
        )
    }
}

/// R-CG8-6: in a stable group each member has what its target gives it, as far as the topics are there.
pub fn check_stable(group: &ConsumerGroup, image: &ClusterImage) -> Verdict {
    if group.state() != ConsumerGroupState::Stable {
        return Ok(());
    }
    for (id, member) in &group.base.members {
        let mut target = group.base.target.of(id).partitions();
        target.retain(|(topic, _)| image.topic_name(*topic).is_some());
        if let Some((topic, number)) = target.iter().find(|partition| !member.assigned.contains(partition)) {
            let fault = format!("{} is stable, and {id} has not got {topic}-{number}", group.base.id);
            return Err(Check::StableGroup.broken(fault));
        }
    }
    Ok(())
}

impl Written {
    fn by(group: &ConsumerGroup) -> Written {
        let keys = |partitions: &Partitions| partitions.keys().collect();
        let place = |member: &ConsumerMember| Place {
            epoch: member.epoch,
            assigned: keys(&member.assigned),
            leaving: keys(&member.pending_revocation),
        };
        let (target, members) = (&group.base.target, &group.base.members);
        Written {
            epoch: group.base.epoch,
            target_epoch: target.epoch,
            targets: target.members.iter().map(|(id, target)| (id.clone(), target.partitions())).collect(),
            members: members.iter().map(|(id, member)| (id.clone(), place(member))).collect(),
        }
    }
}

impl Place {
    fn of(epoch: GroupEpoch, assigned: &[AssignedTopic], leaving: &[AssignedTopic]) -> Place {
        let partitions = |topics: &[AssignedTopic]| topics.iter().flat_map(of_topic).collect();
        Place { epoch, assigned: partitions(assigned), leaving: partitions(leaving) }
    }
}

fn of_topic(topic: &AssignedTopic) -> Vec<TopicIdPartition> {
    topic.partitions.iter().map(|number| (topic.topic_id, *number)).collect()
}

fn of_target(topic: &TargetTopic) -> Vec<TopicIdPartition> {
    topic.partitions.iter().map(|number| (topic.topic_id, *number)).collect()
}
