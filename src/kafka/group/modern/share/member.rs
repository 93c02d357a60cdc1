//! One member of a share group (`ShareGroupMember`).

use std::collections::BTreeSet;

use crate::kafka::group::modern::subscription::Subscribed;
use crate::kafka::group::modern::{MemberState, ModernMember, TopicIdPartition};
use crate::kafka::protocol::coordinator_records::{
    ShareCurrentAssignmentValue, ShareSubscriptionValue, TargetTopic,
};
use crate::kafka::types::{ClientName, GroupEpoch, MemberId, Topic};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareMember {
    /// Its own choice: a share group has no static members.
    pub id: MemberId,
    pub rack_id: Option<String>,
    pub client: ClientName,
    pub client_host: String,
    pub topic_names: BTreeSet<Topic>,
    pub epoch: GroupEpoch,
    /// Before the last answer, which may have been lost.
    pub previous_epoch: GroupEpoch,
    pub state: MemberState,
    pub assigned: BTreeSet<TopicIdPartition>,
}

impl ModernMember for ShareMember {
    fn id(&self) -> &MemberId {
        &self.id
    }

    fn instance_id(&self) -> Option<&str> {
        None
    }

    fn epoch(&self) -> GroupEpoch {
        self.epoch
    }

    fn state(&self) -> MemberState {
        self.state
    }

    fn subscribed(&self) -> Subscribed<'_> {
        Subscribed { names: &self.topic_names, regex: "" }
    }
}

impl ShareMember {
    /// Somebody of whom nothing is known yet.
    pub(super) fn new(id: MemberId) -> ShareMember {
        ShareMember {
            id,
            rack_id: None,
            client: ClientName::new(""),
            client_host: String::new(),
            topic_names: BTreeSet::new(),
            epoch: GroupEpoch::JOINING,
            previous_epoch: GroupEpoch::LEFT,
            state: MemberState::Stable,
            assigned: BTreeSet::new(),
        }
    }

    pub(super) fn enter(&mut self, epoch: GroupEpoch) {
        self.previous_epoch = std::mem::replace(&mut self.epoch, epoch);
    }

    pub(super) fn subscription_value(&self) -> ShareSubscriptionValue {
        ShareSubscriptionValue {
            rack_id: self.rack_id.clone(),
            client_id: self.client.to_string(),
            client_host: self.client_host.clone(),
            topic_names: self.topic_names.iter().map(Topic::to_string).collect(),
        }
    }

    pub(super) fn with_subscription(self, value: &ShareSubscriptionValue) -> ShareMember {
        ShareMember {
            rack_id: value.rack_id.clone(),
            client: ClientName::new(&value.client_id),
            client_host: value.client_host.clone(),
            topic_names: value.topic_names.iter().map(|name| Topic::new(name)).collect(),
            ..self
        }
    }

    pub(super) fn assignment_value(&self) -> ShareCurrentAssignmentValue {
        let mut assigned: Vec<TargetTopic> = Vec::new();
        for (topic_id, partition) in &self.assigned {
            match assigned.last_mut().filter(|last| last.topic_id == *topic_id) {
                Some(last) => last.partitions.push(*partition),
                None => assigned.push(TargetTopic { topic_id: *topic_id, partitions: vec![*partition] }),
            }
        }
        ShareCurrentAssignmentValue {
            member_epoch: self.epoch,
            previous_member_epoch: self.previous_epoch,
            state: self.state.number(),
            assigned,
        }
    }

    /// A tombstone leaves somebody who has left.
    pub(super) fn with_assignment(self, value: Option<&ShareCurrentAssignmentValue>) -> ShareMember {
        let Some(value) = value else {
            let left = GroupEpoch::LEFT;
            return ShareMember { epoch: left, previous_epoch: left, assigned: BTreeSet::new(), ..self };
        };
        let pairs = |topic: &TargetTopic| {
            let id = topic.topic_id;
            topic.partitions.iter().map(|partition| (id, *partition)).collect::<Vec<_>>()
        };
        ShareMember {
            epoch: value.member_epoch,
            previous_epoch: value.previous_member_epoch,
            state: MemberState::of_number(value.state),
            assigned: value.assigned.iter().flat_map(pairs).collect(),
            ..self
        }
    }
}
