//! Members that leave, go for a while or are removed (R-CG8-13, R-CG8-14, R-CG8-21).
//!
//! Mirrors `consumerGroupLeave`, `consumerGroupFenceMembers` and the timers of `GroupMetadataManager`.
//!
//! **Invariant:** whoever is removed has no assignment and no target left, and the group's epoch rises.

use std::collections::BTreeSet;

use kafka_protocol::messages::ConsumerGroupHeartbeatRequest as Request;
use kafka_protocol::messages::ConsumerGroupHeartbeatResponse as Response;

use super::heartbeat::removal;
use super::{ConsumerGroup, ConsumerMember, Outcome, TimerChange};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::modern::{Partitions, Refusal};
use crate::kafka::protocol::coordinator_records::{ConsumerRecord, GroupEpochValue};
use crate::kafka::types::{GroupEpoch, MemberId};

impl ConsumerGroup {
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    pub fn leave(&self, request: &Request, image: &ClusterImage) -> Result<Outcome<Response>, Refusal> {
        let id = MemberId::new(&request.member_id);
        let epoch = GroupEpoch(request.member_epoch);
        let member = match request.instance_id.as_deref() {
            None => &**self.base.member(&id)?,
            Some(instance_id) => self.checked_holder(&id, instance_id)?,
        };
        let response = Response::default().with_member_id(Some(id.to_wire())).with_member_epoch(epoch.0);
        if request.instance_id.is_some() && epoch == GroupEpoch::AWAY {
            return Ok(Outcome::new(vec![away(member)], response));
        }
        Ok(self.without(&BTreeSet::from([id]), image).answered(response))
    }

    /// The group without these members.
    pub fn without(&self, gone: &BTreeSet<MemberId>, image: &ClusterImage) -> Outcome<()> {
        let mut records: Vec<ConsumerRecord> = gone.iter().flat_map(removal).collect();
        let stays = |member: &&ConsumerMember| !gone.contains(&member.id);
        let left = self.base.members.values().map(|member| &**member).filter(stays);
        let subscriptions = self.subscriptions(left);
        let regexes: BTreeSet<&str> = subscriptions.regexes().collect();
        let left_alone = gone
            .iter()
            .filter_map(|id| self.base.members.get(id))
            .map(|member| &member.topic_regex)
            .filter(|regex| !regex.is_empty() && !regexes.contains(regex.as_str()));
        let left_alone: BTreeSet<&String> = left_alone.collect();
        records.extend(
            left_alone.into_iter().map(|regex| ConsumerRecord::RegularExpression(regex.clone(), None)),
        );
        let epoch = self.base.epoch.next();
        let metadata_hash = subscriptions.metadata_hash(image);
        records.push(ConsumerRecord::GroupEpoch(Some(GroupEpochValue { epoch, metadata_hash })));
        let timers = gone.iter().map(|id| TimerChange::End(id.clone())).collect();
        Outcome { timers, gone: gone.clone(), ..Outcome::new(records, ()) }
    }

    /// The member was not heard from in time: nothing follows if it is gone already.
    pub fn session_expired(&self, id: &MemberId, image: &ClusterImage) -> Option<Outcome<()>> {
        self.base.members.contains_key(id).then(|| self.without(&BTreeSet::from([id.clone()]), image))
    }

    /// The member had time enough to give up its partitions: nothing follows if it left that epoch.
    pub fn rebalance_expired(&self, id: &MemberId, image: &ClusterImage) -> Option<Outcome<()>> {
        let (_, epoch) = self.deadlines.get(id)?.rebalance?;
        let member = self.base.members.get(id)?;
        (member.epoch == epoch).then(|| self.without(&BTreeSet::from([id.clone()]), image))
    }
}

/// A static member that is to come back. Partitions count as given to it in epoch 0, so that its next process may commit
/// for all of them.
fn away(member: &ConsumerMember) -> ConsumerRecord {
    let away = ConsumerMember {
        epoch: GroupEpoch::AWAY,
        pending_revocation: Partitions::default(),
        assigned: Partitions::at_epoch(GroupEpoch::JOINING, member.assigned.keys()),
        ..member.clone()
    };
    ConsumerRecord::CurrentAssignment(member.id.clone(), Some(away.assignment_value()))
}
