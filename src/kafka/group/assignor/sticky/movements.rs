//! Which partitions the general algorithm has moved from whom to whom (`PartitionMovements`).
//!
//! Two partitions of a topic that would cross between the same two members are not both moved: the one that went the other
//! way goes back.
//!
//! **Invariant:** a partition has at most one movement: from where it was first to where it is.

use std::collections::{BTreeMap, BTreeSet};

/// From a member to a member.
type Pair = (u32, u32);

#[derive(Default)]
pub(super) struct Movements {
    /// Of each topic that partitions were moved of. Kafka takes any one of a set's partitions, here the lowest.
    by_topic: BTreeMap<u32, BTreeMap<Pair, BTreeSet<u32>>>,
    of_partition: BTreeMap<u32, Pair>,
}

impl Movements {
    /// A partition of `topic` moves.
    pub(super) fn record(&mut self, topic: u32, tp: u32, from: u32, to: u32) {
        let first_from = match self.of_partition.remove(&tp) {
            Some(pair) => {
                self.forget(topic, tp, pair);
                pair.0
            }
            None => from,
        };
        if first_from != to {
            self.of_partition.insert(tp, (first_from, to));
            self.by_topic.entry(topic).or_default().entry((first_from, to)).or_default().insert(tp);
        }
    }

    fn forget(&mut self, topic: u32, tp: u32, pair: Pair) {
        let Some(of_topic) = self.by_topic.get_mut(&topic) else { return };
        if let Some(tps) = of_topic.get_mut(&pair) {
            tps.remove(&tp);
            if tps.is_empty() {
                of_topic.remove(&pair);
            }
        }
    }

    /// The partition to move instead of `tp`: one that came the other way, if there is one.
    pub(super) fn instead_of(&self, topic: u32, tp: u32, from: u32, to: u32) -> u32 {
        let first_from = self.of_partition.get(&tp).map_or(from, |pair| pair.0);
        let back = self.by_topic.get(&topic).and_then(|pairs| pairs.get(&(to, first_from)));
        back.and_then(|tps| tps.first()).copied().unwrap_or(tp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_came_the_other_way_goes_back_instead() {
        let mut movements = Movements::default();
        movements.record(0, 5, 1, 2);
        assert_eq!(movements.instead_of(0, 7, 2, 1), 5);
        assert_eq!(movements.instead_of(0, 7, 2, 3), 7);
        assert_eq!(movements.instead_of(1, 9, 2, 1), 9, "another topic");
        movements.record(0, 5, 2, 1);
        assert_eq!(movements.instead_of(0, 7, 2, 1), 7, "it is back");
    }

    #[test]
    fn a_movement_in_two_steps_counts_from_its_start() {
        let mut movements = Movements::default();
        movements.record(0, 5, 1, 2);
        movements.record(0, 5, 2, 3);
        assert_eq!(movements.instead_of(0, 7, 3, 1), 5);
        assert_eq!(movements.instead_of(0, 7, 3, 2), 7);
    }
}
