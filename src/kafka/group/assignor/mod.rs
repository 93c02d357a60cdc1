//! Client-side assignors: the plans that a group's leader makes (section 6.8 of the reference).
//!
//! **Invariant:** a plan depends only on the subscriptions and partition counts, never on the order they come in.

pub mod range;

use crate::kafka::types::{MemberId, Topic};

/// What an assignor knows of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub member: MemberId,
    pub instance_id: Option<String>,
    pub topics: Vec<Topic>,
}

/// Members in the order in which assignors serve them: static ones first, by instance id, then the others by member id
/// (`AbstractPartitionAssignor.MemberInfo`).
fn in_order(members: &[Subscription]) -> Vec<&Subscription> {
    let mut sorted: Vec<&Subscription> = members.iter().collect();
    sorted.sort_by_key(|subscription| {
        let instance_id = subscription.instance_id.as_deref();
        (instance_id.is_none(), instance_id, subscription.member.as_str())
    });
    sorted
}
