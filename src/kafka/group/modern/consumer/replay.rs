//! A group changes by its records (`GroupMetadataManager.replay`, `ConsumerGroup.updateMember`).
//!
//! **Invariant:** the order of the log is kept, so a record never meets a state that could not have written it; records of
//! what is gone already are passed over, as compaction leaves such.

use std::rc::Rc;

use super::{ConsumerGroup, ConsumerMember, ResolvedRegex};
use crate::kafka::group::assignor::server::Assigned;
use crate::kafka::protocol::coordinator_records::{ConsumerRecord, RegularExpressionValue};
use crate::kafka::types::{GroupEpoch, MemberId, Topic};

/// Whether a group is there after a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    Kept,
    Deleted,
}

impl ConsumerGroup {
    pub fn replay(&mut self, record: &ConsumerRecord) -> Replayed {
        match record {
            ConsumerRecord::GroupEpoch(Some(value)) => {
                self.base.epoch = value.epoch;
                self.base.metadata_hash = value.metadata_hash;
            }
            ConsumerRecord::GroupEpoch(None) => {
                assert!(self.base.members.is_empty(), "group {} is deleted with members", self.base.id);
                assert!(
                    self.base.target.members.is_empty(),
                    "group {} is deleted with a target",
                    self.base.id
                );
                return Replayed::Deleted;
            }
            ConsumerRecord::PartitionMetadata { present } => self.has_partition_metadata = *present,
            ConsumerRecord::Subscription(id, Some(value)) => {
                let member = self.member_or_new(id).with_subscription(value);
                self.update(member);
            }
            ConsumerRecord::Subscription(id, None) => self.remove(id),
            ConsumerRecord::TargetMetadata(value) => {
                let target = &mut self.base.target;
                (target.epoch, target.computed_ms) =
                    value.map_or((GroupEpoch(-1), 0), |value| (value.epoch, value.timestamp_ms));
            }
            ConsumerRecord::Target(id, Some(topics)) => {
                self.base.target.members.insert(id.clone(), Assigned::from_record(topics));
            }
            ConsumerRecord::Target(id, None) => drop(self.base.target.members.remove(id)),
            ConsumerRecord::CurrentAssignment(id, Some(value)) => {
                let member = self.member_or_new(id).with_assignment(Some(value));
                self.update(member);
            }
            ConsumerRecord::CurrentAssignment(id, None) => {
                if let Some(member) = self.base.members.get(id) {
                    let member = ConsumerMember::clone(member).with_assignment(None);
                    self.update(member);
                }
            }
            ConsumerRecord::RegularExpression(regex, Some(value)) => {
                self.regexes.insert(regex.clone(), ResolvedRegex::from_record(value));
            }
            ConsumerRecord::RegularExpression(regex, None) => drop(self.regexes.remove(regex)),
        }
        Replayed::Kept
    }

    fn member_or_new(&self, id: &MemberId) -> ConsumerMember {
        let known = self.base.members.get(id).map(|member| ConsumerMember::clone(member));
        known.unwrap_or_else(|| ConsumerMember::new(id.clone()))
    }

    fn update(&mut self, member: ConsumerMember) {
        self.release(&member.id);
        for partition in member.assigned.keys().chain(member.pending_revocation.keys()) {
            let before = self.owned.insert(partition, member.epoch);
            assert!(
                before.is_none_or(|before| before < member.epoch),
                "{}-{} is owned at epoch {before:?}, and given away at {}",
                partition.0,
                partition.1,
                member.epoch
            );
        }
        self.base.members.insert(member.id.clone(), Rc::new(member));
    }

    fn remove(&mut self, id: &MemberId) {
        let Some(member) = self.base.members.get(id) else { return };
        assert!(member.epoch == GroupEpoch::LEFT, "{id} is removed with an assignment");
        assert!(!self.base.target.members.contains_key(id), "{id} is removed with a target");
        self.release(&id.clone());
        self.base.members.remove(id);
    }

    /// A partition whose epoch is another's by now stays: compaction may drop the record that gave it up.
    fn release(&mut self, id: &MemberId) {
        let Some(member) = self.base.members.get(id) else { return };
        for partition in member.assigned.keys().chain(member.pending_revocation.keys()) {
            if self.owned.get(&partition) == Some(&member.epoch) {
                self.owned.remove(&partition);
            }
        }
    }
}

impl ResolvedRegex {
    fn from_record(value: &RegularExpressionValue) -> ResolvedRegex {
        ResolvedRegex {
            topics: value.topics.iter().map(|topic| Topic::new(topic)).collect(),
            version: value.version,
            timestamp_ms: value.timestamp_ms,
        }
    }
}
