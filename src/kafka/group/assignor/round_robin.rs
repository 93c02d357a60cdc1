//! The RoundRobin assignor (R-ASG-3, `RoundRobinAssignor`).
//!
//! **Invariant:** the partitions of all topics, in order, go to the next member of the circle that subscribes.

use std::collections::BTreeMap;

use super::dense::Dense;
use super::{Plan, Subscription, TopicShape, in_order};
use crate::kafka::types::Topic;

/// Each member's partitions.
pub(super) fn assign(members: &[Subscription], topics: &BTreeMap<Topic, TopicShape>) -> Plan {
    let dense = Dense::new(members, topics);
    let circle = in_order(members);
    let share = dense.total as usize / members.len().max(1) + 1;
    let mut lists: Vec<Vec<_>> = members.iter().map(|_| Vec::with_capacity(share)).collect();
    let wanted = dense.wanted();
    let mut next = 0;
    for (number, topic) in dense.topics.iter().enumerate() {
        for partition in 0..topic.partitions {
            // Somebody subscribes, or the topic were not here.
            let member = loop {
                let member = circle[next] as usize;
                next = if next + 1 == circle.len() { 0 } else { next + 1 };
                if wanted[dense.kind_of[member] as usize][number] {
                    break member;
                }
            };
            lists[member].push(topic.tp(partition));
        }
    }
    dense.plan(lists)
}
