//! Which partition of `__consumer_offsets` a group lives in (R-GRP-1, `GroupCoordinatorService.partitionFor`).
//!
//! **Invariant:** the partition depends on the group's id and the number of partitions alone.

use super::java_map::java_hash;

/// Kafka's `Utils.abs`: the absolute value, and 0 for the smallest integer, which has none.
pub fn kafka_abs(value: i32) -> i32 {
    value.checked_abs().unwrap_or(0)
}

/// The partition, of `partitions` in all, that keeps `group_id`.
pub fn partition_for(group_id: &str, partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic has at least one partition");
    kafka_abs(java_hash(group_id)) % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_kept_by_the_partition_that_kafka_picks_r_grp_1() {
        let cases = [
            ("my-group", 12),
            ("test-group", 12),
            ("orders", 31),
            ("payments", 13),
            ("demo-group", 15),
            ("billing", 9),
            ("analytics", 10),
            ("checkout", 18),
            ("group", 47),
            ("g1", 42),
            ("polygenelubricants", 0),
        ];
        for (group, partition) in cases {
            assert_eq!(partition_for(group, 50), partition, "{group}");
        }
    }
}
