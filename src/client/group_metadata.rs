//! What a consumer says of itself to a producer that commits its offsets in a transaction (KIP-447).
//!
//! Mirrors `ConsumerGroupMetadata`.
//!
//! **Invariant:** none; whether it is still true the group's coordinator judges (R-TXN-32).

use std::rc::Rc;

use crate::kafka::types::{Generation, GroupId, MemberId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupMetadata {
    pub group: GroupId,
    /// The member's epoch in groups of the newer protocol; NONE for who is no member.
    pub generation: Generation,
    pub member: MemberId,
    /// `group.instance.id`.
    pub instance: Option<Rc<str>>,
}

impl GroupMetadata {
    /// The group's name alone, which says nothing of a member, so that nothing is checked (R-TXN-35).
    pub fn of_group(group: GroupId) -> GroupMetadata {
        GroupMetadata { group, generation: Generation::NONE, member: MemberId::unknown(), instance: None }
    }
}
