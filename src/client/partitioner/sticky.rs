//! Where records without a key go: to one partition for about a batch, then to another (Kafka's `BuiltInPartitioner`,
//! KIP-794). One of these for each topic.
//!
//! **Invariant:** a partition gets at least the sticky size in a row, and at most twice that and one record.

use super::Choices;

#[derive(Clone, Debug)]
pub struct StickyPartitioner {
    /// batch.size, at least 1.
    sticky_bytes: i64,
    current: Option<Current>,
    load: Option<Load>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Current {
    partition: i32,
    appended_bytes: i64,
}

/// A partition that may be chosen, and the batches that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeighedQueue {
    pub partition: i32,
    pub batches: i32,
}

/// The weights of the partitions, added up: a draw below the last sum falls to the first partition whose sum is above it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Load {
    sums: Vec<(i32, i32)>,
}

impl StickyPartitioner {
    pub fn new(batch_size: i32) -> StickyPartitioner {
        StickyPartitioner { sticky_bytes: batch_size.max(1).into(), current: None, load: None }
    }

    /// The partition whose turn it is. `draw` gives a random number from 0 to the greatest int.
    pub fn current(&mut self, choices: Choices<'_>, draw: impl FnOnce() -> i32) -> i32 {
        let current = self.current.take().unwrap_or_else(|| self.next(choices, draw()));
        self.current = Some(current);
        current.partition
    }

    /// The partition of the last record, and what it got in a row.
    pub fn peek(&self) -> Option<(i32, i64)> {
        self.current.map(|current| (current.partition, current.appended_bytes))
    }

    /// So many bytes went to the current partition; says whether it is the next one's turn now (R-PROD-11). `may_switch`:
    /// its last batch is full, so that a switch leaves no small one behind.
    pub fn on_appended(
        &mut self,
        bytes: i32,
        may_switch: bool,
        choices: Choices<'_>,
        draw: impl FnOnce() -> i32,
    ) -> bool {
        let Some(current) = &mut self.current else { return false };
        current.appended_bytes += i64::from(bytes);
        let appended_bytes = current.appended_bytes;
        let switches =
            appended_bytes >= self.sticky_bytes && may_switch || appended_bytes >= self.sticky_bytes * 2;
        if switches {
            self.current = Some(self.next(choices, draw()));
        }
        switches
    }

    fn next(&self, choices: Choices<'_>, random: i32) -> Current {
        let partition = match &self.load {
            None => choices.nth(random),
            Some(load) => load.partition_at(random),
        };
        Current { partition, appended_bytes: 0 }
    }

    /// Takes note of how long the queues are (R-PROD-12); without a difference between them all are alike. `known` are the
    /// partitions that ever had a queue: fewer in `queues` means that some are left out on purpose.
    pub fn weigh(&mut self, queues: &[WeighedQueue], known: usize) {
        let longest = queues.iter().map(|queue| queue.batches).max();
        let differ = queues.iter().any(|queue| Some(queue.batches) != longest) || queues.len() < known;
        self.load = match longest {
            Some(longest) if known >= 2 && differ => Some(Load::of(queues, longest)),
            _ => None,
        };
    }

    /// The bound of the next weighted draw; `None` while all partitions are alike.
    pub fn weights(&self) -> Option<i32> {
        self.load.as_ref().map(Load::total)
    }
}

impl Load {
    fn of(queues: &[WeighedQueue], longest: i32) -> Load {
        let mut sum = 0;
        let add = |queue: &WeighedQueue| {
            sum += longest + 1 - queue.batches;
            (sum, queue.partition)
        };
        Load { sums: queues.iter().map(add).collect() }
    }

    fn total(&self) -> i32 {
        self.sums.last().map_or(0, |(sum, _)| *sum)
    }

    fn partition_at(&self, random: i32) -> i32 {
        let weighted = random % self.total();
        let place = self.sums.partition_point(|(sum, _)| *sum <= weighted);
        self.sums[place].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICES: Choices<'static> = Choices { available: &[0, 1, 2], partitions: 3 };

    fn queues(batches: &[i32]) -> Vec<WeighedQueue> {
        (0..).zip(batches).map(|(partition, batches)| WeighedQueue { partition, batches: *batches }).collect()
    }

    #[test]
    fn a_full_batch_ends_a_turn_and_an_open_one_may_grow_to_twice_its_size_r_prod_11() {
        let mut sticky = StickyPartitioner::new(100);
        assert_eq!(sticky.current(CHOICES, || 1), 1);
        assert!(!sticky.on_appended(99, true, CHOICES, || unreachable!()));
        assert!(!sticky.on_appended(100, false, CHOICES, || unreachable!()), "199 bytes in an open batch");
        assert!(sticky.on_appended(1, false, CHOICES, || 2), "200 bytes");
        assert_eq!(sticky.current(CHOICES, || unreachable!()), 2);
    }

    #[test]
    fn shorter_queues_are_drawn_more_often_r_prod_12() {
        let mut sticky = StickyPartitioner::new(1);
        sticky.weigh(&queues(&[0, 3, 1]), 3);
        assert_eq!(sticky.weights(), Some(8), "weights of 4, 1 and 3");
        let drawn: Vec<i32> = (0..8).map(|random| sticky.next(CHOICES, random).partition).collect();
        assert_eq!(drawn, [0, 0, 0, 0, 1, 2, 2, 2]);
    }

    #[test]
    fn queues_that_do_not_differ_have_no_weights_unless_one_is_left_out_r_prod_12() {
        let mut sticky = StickyPartitioner::new(1);
        sticky.weigh(&queues(&[2, 2, 2]), 3);
        assert_eq!(sticky.weights(), None);
        sticky.weigh(&queues(&[2, 2]), 3);
        assert_eq!(sticky.weights(), Some(2));
        sticky.weigh(&[], 3);
        assert_eq!(sticky.weights(), None);
    }

    #[test]
    fn without_any_leader_all_partitions_are_alike_r_prod_12() {
        let mut sticky = StickyPartitioner::new(1);
        assert_eq!(sticky.current(Choices { available: &[], partitions: 3 }, || 5), 2);
    }
}
