//! Share groups: they have no commits, but a start in each partition (`ShareGroupCommand`, R-SHARE-3).
//!
//! **Invariant:** a start is set only while nobody is in the group, to where a log begins or ends or to a time.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::share_group_describe_response as share;

use super::hear::{from_coordinator, refused};
use super::{Described, Errand, Goal, Heard, Next, Scope, Target, To, plan, request};
use crate::client::metadata::Metadata;
use crate::kafka::event::{DescribedGroup, DescribedMember, Event, GroupsTold, OffsetReset, SharePosition};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::protocol::share::{DescribeShareGroupOffsetsResponse, OffsetsPartition};
use crate::kafka::types::{BrokerId, GroupEpoch, GroupId, MemberId, Offset, Topic, TopicPartition};

impl Errand {
    pub(super) fn next_describe_share_offsets(&mut self, group: GroupId) -> Result<Next, Next> {
        let positions = self.share_positions(&group)?;
        let told = GroupsTold::ShareOffsets { group, positions };
        Ok(Next::Done(Some(Box::new(Event::GroupsTold { told }))))
    }

    fn share_positions(&mut self, group: &GroupId) -> Result<Vec<SharePosition>, Next> {
        match self.shared.clone() {
            Some(positions) => Ok(positions),
            None => Err(self.ask(To::Coordinator(group.clone()), request::share_offsets(group))),
        }
    }

    /// Whole topics are forgotten.
    pub(super) fn next_delete_share_offsets(&mut self, group: GroupId, scope: &Scope) -> Result<Next, Next> {
        let topics = self.topics_to_forget(&group, scope)?;
        let request = request::delete_share_offsets(&group, &topics);
        Ok(self.ask(To::Coordinator(group), request))
    }

    fn topics_to_forget(&mut self, group: &GroupId, scope: &Scope) -> Result<BTreeSet<Topic>, Next> {
        match scope {
            Scope::Topic(topic) => Ok([topic.clone()].into()),
            Scope::AllTopics => {
                Ok(self.share_positions(group)?.into_iter().map(|position| position.tp.topic).collect())
            }
            Scope::Partitions(..) => {
                let why = format!("{group} is a share group, which forgets topics as a whole");
                Err(Next::Refused(ErrorCode::InvalidRequest, why))
            }
        }
    }

    pub(super) fn share_offsets_forgotten(&mut self, group: GroupId, scope: &Scope) -> Result<Next, Next> {
        let topics = self.topics_to_forget(&group, scope)?.into_iter().collect();
        let told = GroupsTold::ShareOffsetsForgotten { group, topics };
        Ok(Next::Done(Some(Box::new(Event::GroupsTold { told }))))
    }

    pub(super) fn plan_share(
        &mut self,
        group: &GroupId,
        goal: &Goal,
        metadata: &Metadata,
    ) -> Result<Vec<OffsetReset>, Next> {
        let (Goal::All(scope, Target::Earliest | Target::Latest)
        | Goal::All(scope, Target::Ago { .. } | Target::Since { .. })) = goal
        else {
            let why = format!("{group} is a share group, which is reset to earliest, latest or a time");
            return Err(Next::Refused(ErrorCode::InvalidRequest, why));
        };
        let partitions = match scope {
            Scope::AllTopics => {
                self.share_positions(group)?.into_iter().map(|position| position.tp).collect()
            }
            scope => plan::partitions(scope, metadata)?,
        };
        plan::check_leaders(&partitions, metadata)?;
        for mark in plan::marks(goal) {
            self.learn(*mark, &partitions, metadata)?;
        }
        let nothing = BTreeMap::new();
        partitions.into_iter().map(|tp| plan::reset(tp, goal, &nothing, &self.marks)).collect()
    }

    pub(super) fn hear_share_description(
        &mut self,
        from: BrokerId,
        answer: &m::ShareGroupDescribeResponse,
    ) -> Heard {
        let Some(group) = answer.groups.first() else { return refused(ErrorCode::UnknownServerError) };
        match ErrorCode::from_code(group.error_code) {
            ErrorCode::None => self.described = Some(Described::Known(description(from, group))),
            ErrorCode::GroupIdNotFound => self.described = Some(Described::Unknown),
            error => return from_coordinator(error),
        }
        Heard::Taken
    }

    pub(super) fn hear_share_offsets(&mut self, answer: &DescribeShareGroupOffsetsResponse) -> Heard {
        let Some(group) = answer.groups.first() else { return refused(ErrorCode::UnknownServerError) };
        let heard = from_coordinator(ErrorCode::from_code(group.error_code));
        if heard == Heard::Taken {
            let positions = group.topics.iter().flat_map(|topic| {
                let name = Topic::new(&topic.topic_name);
                topic.partitions.iter().map(move |partition| position(&name, partition))
            });
            self.shared = Some(positions.collect());
        }
        heard
    }
}

fn position(topic: &Topic, told: &OffsetsPartition) -> SharePosition {
    let known = |number: i64| Some(number).filter(|number| told.error_code == 0 && *number >= 0);
    SharePosition {
        tp: TopicPartition::new(topic, told.partition_index),
        start: known(told.start_offset).map(Offset),
        lag: known(told.lag),
    }
}

fn description(coordinator: BrokerId, group: &share::DescribedGroup) -> DescribedGroup {
    let member = |member: &share::Member| {
        let topics = member.assignment.topic_partitions.iter();
        let owned: Vec<TopicPartition> = topics
            .flat_map(|topic| {
                let name = Topic::new(&topic.topic_name);
                topic.partitions.iter().map(move |number| TopicPartition::new(&name, *number))
            })
            .collect();
        DescribedMember {
            member: MemberId::new(&member.member_id),
            instance_id: None,
            client: member.client_id.to_string(),
            host: member.client_host.to_string(),
            // There is no way from one to the other: what is its target is its own at once.
            target: Some((GroupEpoch(member.member_epoch), owned.clone())),
            owned,
        }
    };
    DescribedGroup {
        group: GroupId::new(&group.group_id),
        coordinator,
        state: group.group_state.to_string(),
        protocol: group.assignor_name.to_string(),
        epochs: Some((GroupEpoch(group.group_epoch), GroupEpoch(group.assignment_epoch))),
        members: group.members.iter().map(member).collect(),
    }
}
