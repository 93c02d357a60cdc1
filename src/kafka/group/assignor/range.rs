//! The Range assignor (R-ASG-1, `RangeAssignor`).
//!
//! **Invariant:** per topic, the partitions are dealt out once each, in consecutive ranges that differ by one at most.

use std::collections::BTreeMap;

use super::{Subscription, in_order};
use crate::kafka::types::{MemberId, Topic, TopicPartition};

/// The name by which it is known in JoinGroup.
pub const NAME: &str = "range";

/// Each member's partitions. `partitions` gives the number of each topic's partitions; a topic that is not in it has no
/// metadata and is left out.
pub fn assign(
    members: &[Subscription],
    partitions: &BTreeMap<Topic, i32>,
) -> BTreeMap<MemberId, Vec<TopicPartition>> {
    let mut plan: BTreeMap<MemberId, Vec<TopicPartition>> =
        members.iter().map(|subscription| (subscription.member.clone(), Vec::new())).collect();
    let members = in_order(members);
    for (topic, &count) in partitions {
        let subscribers: Vec<_> = members.iter().filter(|member| member.topics.contains(topic)).collect();
        let mut next = 0;
        for (subscriber, share) in subscribers.iter().zip(shares(count, subscribers.len() as i32)) {
            let range = (next..next + share).map(|partition| TopicPartition::new(topic, partition));
            plan.entry(subscriber.member.clone()).or_default().extend(range);
            next += share;
        }
    }
    plan
}

/// How many of `partitions` each of `consumers` gets: the first ones one more if it does not come out even.
fn shares(partitions: i32, consumers: i32) -> impl Iterator<Item = i32> {
    (0..consumers).map(move |place| partitions / consumers + i32::from(place < partitions % consumers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `members` as "name:topics", `partitions` as "topic count", `plan` as "name:topic-partitions".
    fn check(members: &[&str], partitions: &[(&str, i32)], plan: &[&str]) {
        let subscriptions: Vec<Subscription> = members
            .iter()
            .map(|member| {
                let (name, topics) = member.split_once(':').unwrap();
                let (instance_id, name) = match name.split_once('/') {
                    Some((instance_id, name)) => (Some(instance_id.to_string()), name),
                    None => (None, name),
                };
                let topics = topics.split_whitespace().map(Topic::from).collect();
                Subscription { member: MemberId::new(name), instance_id, topics }
            })
            .collect();
        let partitions = partitions.iter().map(|(topic, count)| (Topic::new(topic), *count)).collect();
        let made = assign(&subscriptions, &partitions);
        let made: Vec<String> = made
            .iter()
            .map(|(member, tps)| {
                let tps: Vec<String> = tps.iter().map(TopicPartition::to_string).collect();
                format!("{member}:{}", tps.join(" "))
            })
            .collect();
        assert_eq!(made, plan);
    }

    #[test]
    fn each_topic_is_cut_into_consecutive_ranges_the_first_ones_longer_r_asg_1() {
        check(&["a:t", "b:t"], &[("t", 3)], &["a:t-0 t-1", "b:t-2"]);
        check(&["b:t", "a:t"], &[("t", 3)], &["a:t-0 t-1", "b:t-2"]);
        check(&["a:t", "b:t", "c:t"], &[("t", 2)], &["a:t-0", "b:t-1", "c:"]);
    }

    #[test]
    fn the_extra_partitions_of_all_topics_fall_to_the_same_member_r_asg_1() {
        check(&["a:t u", "b:t u"], &[("t", 3), ("u", 3)], &["a:t-0 t-1 u-0 u-1", "b:t-2 u-2"]);
    }

    #[test]
    fn only_subscribers_are_counted_and_unknown_topics_left_out_r_asg_1() {
        check(&["a:t", "b:u", "c:t x"], &[("t", 2), ("u", 1)], &["a:t-0", "b:u-0", "c:t-1"]);
        check(&["a:x"], &[], &["a:"]);
    }

    #[test]
    fn static_members_come_first_by_instance_id() {
        check(&["a:t", "i2/b:t", "i1/c:t"], &[("t", 3)], &["a:t-2", "b:t-1", "c:t-0"]);
        check(&["a:t", "i1/z:t"], &[("t", 1)], &["a:", "z:t-0"]);
    }
}
