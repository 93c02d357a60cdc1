//! A consumer group's next target assignment (R-CG8-8, R-CG8-9).
//!
//! **Invariant:** records are written for targets that change, and for the epoch that they are of.

use super::{ConsumerGroup, ConsumerMember};
use crate::kafka::group::assignor::server::{Assigned, ServerAssignor, Taken};
use crate::kafka::group::config::ConsumerGroupConfig;
use crate::kafka::group::modern::subscription::SubscriptionType;
use crate::kafka::group::modern::target::assign;
use crate::kafka::group::modern::{ModernMember, Surroundings};
use crate::kafka::protocol::coordinator_records::{ConsumerRecord, TargetMetadataValue};
use crate::kafka::types::GroupEpoch;

impl ConsumerGroup {
    /// A member's target, or that of the static member in whose place it comes.
    pub(super) fn target_of(&self, member: &ConsumerMember) -> Assigned {
        match member.instance_id().and_then(|instance_id| self.static_member(instance_id)) {
            Some(holder) => self.base.target.of(&holder.id),
            None => self.base.target.of(&member.id),
        }
    }

    fn kind(&self) -> SubscriptionType {
        self.subscriptions(self.base.members.values().map(|member| &**member)).kind()
    }

    /// The target of `updated` and its epoch: computed anew if the group's epoch is newer and the last time is long enough
    /// ago. `kind` says how `updated` leaves the subscriptions, if it changed any.
    pub(super) fn next_target(
        &self,
        epoch: GroupEpoch,
        updated: &ConsumerMember,
        kind: Option<SubscriptionType>,
        config: &ConsumerGroupConfig,
        around: &Surroundings<'_>,
        records: &mut Vec<ConsumerRecord>,
    ) -> (GroupEpoch, Assigned) {
        let target = &self.base.target;
        let now_ms = around.now.wall_ms();
        if target.epoch >= epoch || !target.may_be_computed(now_ms, i64::from(config.assignment_interval_ms))
        {
            let last = match updated.instance_id() {
                Some(instance_id) if self.static_member(instance_id).is_none() => Assigned::default(),
                _ => self.target_of(updated),
            };
            return (target.epoch, last);
        }
        let asked = self.preferred_assignor(self.members_with(updated)).and_then(ServerAssignor::of_name);
        let mut members: Vec<_> = self.members_with(updated).map(|member| self.assignee(member)).collect();
        members.sort_by_key(|member| member.id);
        let taken = Taken::of(target.members.values());
        let kind = kind.unwrap_or_else(|| self.kind());
        let assigned = assign(asked.unwrap_or(config.assignors[0]), &members, kind, &taken, around.image);
        for (id, new) in &assigned {
            if target.members.get(id) != Some(new) {
                records.push(ConsumerRecord::Target(id.clone(), Some(new.to_record())));
            }
        }
        let metadata = TargetMetadataValue { epoch, timestamp_ms: now_ms };
        records.push(ConsumerRecord::TargetMetadata(Some(metadata)));
        (epoch, assigned.get(&updated.id).cloned().unwrap_or_default())
    }
}
