//! Each record to the next partition, whatever its key (Kafka's `RoundRobinPartitioner`).
//!
//! The partitions are walked in the order in which Java's `HashMap` holds a client's metadata, not in that of their
//! numbers.
//!
//! **Invariant:** of `n` records in a row each of `n` partitions gets one, as long as all have leaders.

use super::Choices;
use crate::kafka::group::java_map::{grown, java_hash, slot};
use crate::kafka::types::Topic;

#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    /// Records so far; wraps as Java's int.
    count: i32,
}

impl RoundRobin {
    /// The partition of the next record (R-PROD-13). `leads`: whether a partition has a leader; those without are passed
    /// over as long as any has one.
    pub fn next(&mut self, topic: &Topic, partitions: i32, leads: impl Fn(i32) -> bool) -> i32 {
        let number = self.count & i32::MAX;
        self.count = self.count.wrapping_add(1);
        let mut available = in_java_order(topic, partitions);
        available.retain(|partition| leads(*partition));
        Choices { available: &available, partitions }.nth(number)
    }
}

/// All partitions as `MetadataSnapshot`'s map walks them: one made for as many keys, by `TopicPartition.hashCode`.
fn in_java_order(topic: &Topic, partitions: i32) -> Vec<i32> {
    let count = partitions as usize;
    let slots = (1..=count).fold(count.next_power_of_two() as u32, grown);
    let hash =
        |partition: i32| partition.wrapping_add(31).wrapping_mul(31).wrapping_add(java_hash(topic.as_str()));
    let mut order: Vec<i32> = (0..partitions).collect();
    order.sort_by_key(|partition| slot(hash(*partition), slots));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(partitions: i32, records: i32, leads: impl Fn(i32) -> bool) -> Vec<i32> {
        let mut partitioner = RoundRobin::default();
        (0..records).map(|_| partitioner.next(&"clicks".into(), partitions, &leads)).collect()
    }

    #[test]
    fn each_partition_has_its_turn_in_the_order_of_java_s_map_r_prod_13() {
        assert_eq!(walk(3, 6, |_| true), [2, 1, 0, 2, 1, 0]);
        assert_eq!(walk(4, 4, |_| true), [2, 1, 3, 0]);
        assert_eq!(walk(1, 3, |_| true), [0, 0, 0]);
        let mut sorted = walk(12, 12, |_| true);
        sorted.sort();
        assert_eq!(sorted, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn who_has_no_leader_is_passed_over_while_any_has_one_r_prod_13() {
        assert_eq!(walk(3, 4, |partition| partition != 1), [2, 0, 2, 0]);
        assert_eq!(walk(3, 4, |_| false), [0, 1, 2, 0]);
    }

    #[test]
    fn the_count_wraps_as_an_int() {
        let mut partitioner = RoundRobin { count: i32::MAX };
        let turns: Vec<i32> = (0..3).map(|_| partitioner.next(&"orders".into(), 2, |_| false)).collect();
        assert_eq!(turns, [1, 0, 1], "2147483647, then the low bits of -2147483648 and -2147483647");
    }
}
