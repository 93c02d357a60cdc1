//! What the ledger says, held to a plain count of what there is: of each log batch by batch, and of what was finished.

use std::collections::BTreeSet;

use super::{Watch, sight};
use crate::kafka::event::Event;
use crate::kafka::replication::Partition;
use crate::kafka::types::{LeaderEpoch, Offset, TopicPartition};
use crate::lab::ledger::{Count, Ends};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};

/// A batch where it stands: its first offset, its leader epoch, how many records it has.
type Place = (Offset, LeaderEpoch, i64);

impl Watch {
    /// Takes in what has happened since the last step.
    pub(super) fn follow_records(&mut self, world: &World) {
        self.ledger.follow(world.trace());
        for entry in world.trace().since(self.seen) {
            if let Event::Processed { tp, .. } = &entry.event {
                *self.processed.entry(tp.clone()).or_default() += 1;
            }
        }
    }

    /// At rest: what the ledger counts is what is in the logs of those who lead, and what applications have finished.
    pub fn check_ledger(&self, world: &World) -> Verdict {
        let totals = self.ledger.totals();
        let of_clients = |tp: &TopicPartition| !tp.topic.as_str().starts_with("__");
        for (tp, watch) in self.partitions.iter().filter(|(tp, _)| of_clients(tp)) {
            let leader = sight::replicas(world).find(|(_, replica)| replica.tp == *tp && replica.is_leader());
            let Some((_, leader)) = leader else { continue };
            self.check_ends(leader)?;
            if !watch.history.is_compacted() && watch.untold_below == Offset::ZERO {
                self.check_log(leader)?;
            }
        }
        for (tp, of_partition) in &totals.partitions {
            let count = |of| of_partition.count(of);
            let told = count(Count::Acknowledged) + count(Count::Failed) + count(Count::Unanswered);
            if told != count(Count::Produced) {
                let produced = count(Count::Produced);
                return Err(Check::Ledger.broken(format!("{tp}: {produced} were produced, {told} told of")));
            }
        }
        self.check_finished()
    }

    /// Every record that an application has finished is one of those that were produced, unless its topic or the ledger's
    /// memory of it is gone.
    fn check_finished(&self) -> Verdict {
        let totals = self.ledger.totals();
        if totals.forgotten > 0 || totals.count(Count::Deleted) > 0 {
            return Ok(());
        }
        let records = self.ledger.batches().flat_map(|batch| &batch.records);
        let told: i64 = records.flat_map(|record| &record.seen).map(|seen| i64::from(seen.processed)).sum();
        let seen: i64 = self.processed.values().sum();
        match told == seen {
            true => Ok(()),
            false => {
                Err(Check::Ledger.broken(format!("{seen} records were finished, the ledger has {told}")))
            }
        }
    }

    /// Where what readers may see ends.
    fn check_ends(&self, leader: &Partition) -> Verdict {
        let (told, log) = (self.ledger.ends(&leader.tp), &leader.log);
        let there = Ends { high: log.high_watermark(), stable: log.last_stable_offset() };
        match told == there {
            true => Ok(()),
            false => {
                let tp = &leader.tp;
                Err(Check::Ledger
                    .broken(format!("{tp}: readers see up to {there:?}, the ledger says {told:?}")))
            }
        }
    }

    /// The batches of clients that are kept of a partition, where the ledger and the log have them.
    fn check_log(&self, leader: &Partition) -> Verdict {
        let (tp, log) = (&leader.tp, &leader.log);
        let told = self.told_of(tp);
        let Some((oldest, ..)) = told.first().copied() else { return Ok(()) };
        let start = log.log_start_offset();
        let there: BTreeSet<Place> = log
            .batches_from(oldest.max(start))
            .filter(|batch| !batch.is_control())
            .map(|batch| {
                (batch.base_offset(), batch.leader_epoch(), batch.next_offset() - batch.base_offset())
            })
            .collect();
        let reaches = |(base, _, records): &&Place| *base + *records > start;
        let told: BTreeSet<Place> = told.iter().filter(reaches).copied().collect();
        let Some((base, epoch, records)) = told.symmetric_difference(&there).next() else { return Ok(()) };
        let who = if told.contains(&(*base, *epoch, *records)) { "the ledger" } else { "the log" };
        Err(Check::Ledger
            .broken(format!("{tp}: {who} alone has {records} records at {base} of epoch {epoch}")))
    }

    /// Where the ledger has batches of a partition in place.
    fn told_of(&self, tp: &TopicPartition) -> BTreeSet<Place> {
        let batches = self.ledger.batches().filter(|batch| batch.tp == *tp && !batch.records.is_empty());
        let in_place = batches.flat_map(|batch| {
            batch.in_place().map(|copy| (copy.base, copy.epoch, batch.records.len() as i64))
        });
        in_place.collect()
    }
}
