//! One member of a consumer group (`ConsumerGroupMember`).
//!
//! **Invariant:** a partition is not assigned to a member and to be revoked from it at once.

use std::collections::BTreeSet;

use crate::kafka::group::modern::subscription::Subscribed;
use crate::kafka::group::modern::{MemberState, ModernMember, Partitions};
use crate::kafka::protocol::coordinator_records::{
    ClassicMemberMetadata, CurrentAssignmentValue, SubscriptionValue,
};
use crate::kafka::types::{ClientName, GroupEpoch, MemberId, Topic};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerMember {
    pub id: MemberId,
    /// `group.instance.id`; a member that has one is static (R-CG8-21).
    pub instance_id: Option<String>,
    pub rack_id: Option<String>,
    pub client: ClientName,
    pub client_host: String,
    pub topic_names: BTreeSet<Topic>,
    /// Empty without one.
    pub topic_regex: String,
    /// -1 while it said none.
    pub rebalance_timeout_ms: i32,
    pub server_assignor: Option<String>,
    /// Of a member that speaks the classic protocol (R-CG8-25).
    pub classic: Option<ClassicMemberMetadata>,
    pub epoch: GroupEpoch,
    /// Before the last answer, which may have been lost (R-CG8-16).
    pub previous_epoch: GroupEpoch,
    pub state: MemberState,
    pub assigned: Partitions,
    /// It was told to give them up and has not said yet that it did.
    pub pending_revocation: Partitions,
}

impl ModernMember for ConsumerMember {
    fn id(&self) -> &MemberId {
        &self.id
    }

    fn instance_id(&self) -> Option<&str> {
        self.instance_id.as_deref()
    }

    fn epoch(&self) -> GroupEpoch {
        self.epoch
    }

    fn state(&self) -> MemberState {
        self.state
    }

    fn subscribed(&self) -> Subscribed<'_> {
        Subscribed { names: &self.topic_names, regex: &self.topic_regex }
    }
}

impl ConsumerMember {
    /// Somebody of whom nothing is known yet.
    pub(super) fn new(id: MemberId) -> ConsumerMember {
        ConsumerMember {
            id,
            instance_id: None,
            rack_id: None,
            client: ClientName::new(""),
            client_host: String::new(),
            topic_names: BTreeSet::new(),
            topic_regex: String::new(),
            rebalance_timeout_ms: -1,
            server_assignor: None,
            classic: None,
            epoch: GroupEpoch::JOINING,
            previous_epoch: GroupEpoch::LEFT,
            state: MemberState::Stable,
            assigned: Partitions::default(),
            pending_revocation: Partitions::default(),
        }
    }

    pub fn is_classic(&self) -> bool {
        self.classic.is_some()
    }

    /// Goes to an epoch, which may be the one it is in.
    pub(super) fn enter(&mut self, epoch: GroupEpoch) {
        self.previous_epoch = std::mem::replace(&mut self.epoch, epoch);
    }

    pub(super) fn subscription_value(&self) -> SubscriptionValue {
        SubscriptionValue {
            instance_id: self.instance_id.clone(),
            rack_id: self.rack_id.clone(),
            client_id: self.client.to_string(),
            client_host: self.client_host.clone(),
            topic_names: self.topic_names.iter().map(Topic::to_string).collect(),
            topic_regex: Some(self.topic_regex.clone()),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            server_assignor: self.server_assignor.clone(),
            classic: self.classic.clone(),
        }
    }

    pub(super) fn with_subscription(self, value: &SubscriptionValue) -> ConsumerMember {
        ConsumerMember {
            instance_id: value.instance_id.clone(),
            rack_id: value.rack_id.clone(),
            client: ClientName::new(&value.client_id),
            client_host: value.client_host.clone(),
            topic_names: value.topic_names.iter().map(|name| Topic::new(name)).collect(),
            topic_regex: value.topic_regex.clone().unwrap_or_default(),
            rebalance_timeout_ms: value.rebalance_timeout_ms,
            server_assignor: value.server_assignor.clone(),
            classic: value.classic.clone(),
            ..self
        }
    }

    pub(super) fn assignment_value(&self) -> CurrentAssignmentValue {
        CurrentAssignmentValue {
            member_epoch: self.epoch,
            previous_member_epoch: self.previous_epoch,
            state: self.state.number(),
            assigned: self.assigned.to_record(),
            pending_revocation: self.pending_revocation.to_record(),
        }
    }

    /// A tombstone leaves somebody who has left.
    pub(super) fn with_assignment(self, value: Option<&CurrentAssignmentValue>) -> ConsumerMember {
        match value {
            Some(value) => ConsumerMember {
                epoch: value.member_epoch,
                previous_epoch: value.previous_member_epoch,
                state: MemberState::of_number(value.state),
                assigned: Partitions::from_record(&value.assigned, value.member_epoch),
                pending_revocation: Partitions::from_record(&value.pending_revocation, value.member_epoch),
                ..self
            },
            None => ConsumerMember {
                epoch: GroupEpoch::LEFT,
                previous_epoch: GroupEpoch::LEFT,
                assigned: Partitions::default(),
                pending_revocation: Partitions::default(),
                ..self
            },
        }
    }
}
