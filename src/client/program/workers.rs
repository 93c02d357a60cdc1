//! The pool of workers that a program hands records to: it goes on to its next line, and polls, while they work.
//!
//! **Invariant:** workers take records in the order in which they were handed over, and know nothing of who owns the
//! partition by then. The queue has no bound, as that of Java's `newFixedThreadPool`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Returned;
use crate::kafka::time::Time;
use crate::kafka::types::{Offset, TopicPartition};

#[derive(Clone, Debug, Default)]
pub struct Workers {
    queue: VecDeque<(Returned, i64)>,
    busy: Vec<(Time, Returned)>,
    count: usize,
    /// What is queued or in work, and where the partition goes on behind all that was ever handed over.
    open: BTreeMap<TopicPartition, (BTreeSet<Offset>, Offset)>,
}

impl Workers {
    /// What no worker has begun.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The records that are being worked on, with when each is done.
    pub fn in_work(&self) -> impl Iterator<Item = (&Returned, Time)> {
        self.busy.iter().map(|(done_at, record)| (record, *done_at))
    }

    pub(in crate::client) fn hand_over(
        &mut self,
        now: Time,
        batch: &[Returned],
        us_per_record: i64,
        count: i32,
    ) {
        self.count = count.max(1) as usize;
        for record in batch {
            let (open, end) = self.open.entry(record.tp.clone()).or_default();
            open.insert(record.offset);
            *end = (*end).max(record.offset + 1);
            self.queue.push_back((record.clone(), us_per_record));
        }
        self.begin(now);
    }

    fn begin(&mut self, now: Time) {
        while self.busy.len() < self.count
            && let Some((record, us)) = self.queue.pop_front()
        {
            self.busy.push((now.plus_us(us), record));
        }
    }

    /// The next record that is done by `now`; its worker takes another one.
    pub(in crate::client) fn finish(&mut self, now: Time) -> Option<Returned> {
        let done = self.busy.iter().enumerate().filter(|(_, (done_at, _))| *done_at <= now);
        let (at, _) = done.min_by_key(|(at, (done_at, _))| (*done_at, *at))?;
        let (_, record) = self.busy.remove(at);
        if let Some((open, _)) = self.open.get_mut(&record.tp) {
            open.remove(&record.offset);
        }
        self.begin(now);
        Some(record)
    }

    pub(in crate::client) fn next_at(&self) -> Option<Time> {
        self.busy.iter().map(|(done_at, _)| *done_at).min()
    }

    /// For each partition where to go on so that nothing open is passed over.
    pub(in crate::client) fn done(&self) -> impl Iterator<Item = (&TopicPartition, Offset)> {
        self.open.iter().map(|(tp, (open, end))| (tp, open.first().copied().unwrap_or(*end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::types::Topic;

    #[test]
    fn each_worker_has_one_record_at_a_time_and_what_is_done_stops_at_the_first_open_one() {
        let tp = TopicPartition::new(&Topic::new("t"), 0);
        let record = |offset| Returned { tp: tp.clone(), offset: Offset(offset), delivery_count: None };
        let mut workers = Workers::default();
        let done = |workers: &Workers| workers.done().map(|(_, offset)| offset.0).collect::<Vec<_>>();
        workers.hand_over(Time::ZERO, &[record(7)], 30_000, 2);
        workers.hand_over(Time::ZERO, &[record(8), record(9)], 10_000, 2);
        assert_eq!((workers.queued(), workers.next_at()), (1, Some(Time::from_ms(10))));
        assert_eq!(workers.finish(Time::from_ms(9)), None);
        assert_eq!(workers.finish(Time::from_ms(10)), Some(record(8)));
        assert_eq!((done(&workers), workers.next_at()), (vec![7], Some(Time::from_ms(20))));
        assert_eq!(workers.finish(Time::from_ms(30)), Some(record(9)));
        assert_eq!(workers.finish(Time::from_ms(30)), Some(record(7)));
        assert_eq!((done(&workers), workers.next_at()), (vec![10], None));
    }
}
