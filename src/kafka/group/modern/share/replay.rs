//! A share group changes by its records (`GroupMetadataManager.replay`).
//!
//! **Invariant:** the order of the log is kept; records of what is gone already are passed over, as compaction leaves such.

use std::rc::Rc;

use super::{ShareGroup, ShareMember, StatePartitions};
use crate::kafka::group::assignor::server::Assigned;
use crate::kafka::protocol::coordinator_records::ShareGroupRecord;
use crate::kafka::time::Time;
use crate::kafka::types::{GroupEpoch, MemberId};

/// Whether a group is there after a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    Kept,
    Deleted,
}

impl ShareGroup {
    pub fn replay(&mut self, record: &ShareGroupRecord, now: Time) -> Replayed {
        match record {
            ShareGroupRecord::GroupEpoch(Some(value)) => {
                self.base.epoch = value.epoch;
                self.base.metadata_hash = value.metadata_hash;
            }
            ShareGroupRecord::GroupEpoch(None) => {
                assert!(self.base.members.is_empty(), "group {} is deleted with members", self.base.id);
                return Replayed::Deleted;
            }
            ShareGroupRecord::Subscription(id, Some(value)) => {
                let member = self.member_or_new(id).with_subscription(value);
                self.base.members.insert(id.clone(), Rc::new(member));
            }
            ShareGroupRecord::Subscription(id, None) => drop(self.base.members.remove(id)),
            ShareGroupRecord::TargetMetadata(value) => {
                let target = &mut self.base.target;
                (target.epoch, target.computed_ms) =
                    value.map_or((GroupEpoch::LEFT, 0), |value| (value.epoch, value.timestamp_ms));
            }
            ShareGroupRecord::Target(id, Some(topics)) => {
                self.base.target.members.insert(id.clone(), Assigned::from_record(topics));
            }
            ShareGroupRecord::Target(id, None) => drop(self.base.target.members.remove(id)),
            ShareGroupRecord::CurrentAssignment(id, value) => {
                if value.is_some() || self.base.members.contains_key(id) {
                    let member = self.member_or_new(id).with_assignment(value.as_ref());
                    self.base.members.insert(id.clone(), Rc::new(member));
                }
            }
            ShareGroupRecord::StatePartitions(value) => {
                let read = value.as_ref().map(|value| StatePartitions::from_record(value, now));
                self.has_states = read.is_some();
                self.states = read.unwrap_or_default();
            }
        }
        Replayed::Kept
    }

    fn member_or_new(&self, id: &MemberId) -> ShareMember {
        let known = self.base.members.get(id).map(|member| ShareMember::clone(member));
        known.unwrap_or_else(|| ShareMember::new(id.clone()))
    }
}
