//! When racks count (KIP-881): members prefer partitions with a replica in their own rack.
//!
//! **Invariant:** racks count only if some member's rack has a replica and not every partition is in every rack.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::Subscription;
use super::dense::{Dense, DenseTopic};

/// A member's rack; an empty one is none.
pub(super) fn rack_of(subscription: &Subscription) -> Option<&str> {
    subscription.rack.as_deref().filter(|rack| !rack.is_empty())
}

/// The racks of a partition's replicas.
pub(super) fn racks_of<'a>(topic: &DenseTopic<'a>, partition: u32) -> Option<&'a BTreeSet<Rc<str>>> {
    topic.racks?.get(partition as usize)
}

/// Whether racks count for these members and topics (`useRackAwareAssignment`).
pub(super) fn count<'a, 'b: 'a>(
    dense: &Dense<'b>,
    members: &[u32],
    topics: impl Iterator<Item = &'a DenseTopic<'b>> + Clone,
) -> bool {
    let of_members: BTreeSet<&str> =
        members.iter().filter_map(|member| rack_of(&dense.members[*member as usize])).collect();
    if of_members.is_empty() {
        return false;
    }
    let nowhere = BTreeSet::new();
    let each = topics.flat_map(|topic| {
        let nowhere = &nowhere;
        (0..topic.partitions).map(move |partition| racks_of(topic, partition).unwrap_or(nowhere))
    });
    let all: BTreeSet<Rc<str>> = each.clone().flatten().cloned().collect();
    let shared = all.iter().any(|rack| of_members.contains(&**rack));
    shared && each.into_iter().any(|racks| *racks != all)
}
