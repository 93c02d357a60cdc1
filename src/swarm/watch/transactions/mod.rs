//! Transactions, held to what the logs say of them (R-TXN-3, 18 to 24, 28, 32 to 34).
//!
//! - [`reading`]: a partition's committed batches; [`state_log`]: a partition of `__transaction_state`
//! - [`stable`]: each replica's last stable offset; [`readers`]: what readers are handed
//! - [`outputs`]: results of applications; [`ends`]: what is true when everything has ended
//!
//! Where committed records may have been lost nothing is held to what stood there: Kafka promises nothing then, and a
//! coordinator that has lost its log leaves transactions open that it does not know any more (R-TXN-25).
//!
//! **Invariant:** the logs are read here anew; the engine's own books are only looked at to be held to that.

mod ends;
mod outputs;
mod reading;
mod readers;
mod stable;
mod state_log;

use std::collections::{BTreeMap, BTreeSet};

pub use self::ends::Work;
use self::outputs::Outputs;
use self::reading::Reading;
use self::stable::StableLife;
use self::state_log::StateLog;
use super::partition::PartitionWatch;
use super::sight;
use crate::kafka::event::{Event, TransactionEvent};
use crate::kafka::group::partition_for;
use crate::kafka::record::Batch;
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerId, LeaderEpoch, Offset, ProducerId, Topic, TopicPartition, TransactionalId,
};
use crate::sim::World;
use crate::swarm::check::{Check, Verdict};
use crate::swarm::counts::Counts;

const STATE_TOPIC: &str = "__transaction_state";

/// What was seen of transactions.
#[derive(Default)]
pub struct TransactionWatch {
    readings: BTreeMap<TopicPartition, Reading>,
    /// By the partition of `__transaction_state`.
    states: BTreeMap<i32, StateLog>,
    lives: BTreeMap<(BrokerId, TopicPartition), StableLife>,
    outputs: Outputs,
    /// Topics that were deleted: a name may stand for another one since.
    deleted: BTreeSet<Topic>,
    /// Partitions of which committed records may have been lost.
    lost: BTreeSet<TopicPartition>,
    compacted: BTreeSet<TopicPartition>,
}

/// Whether nothing that was committed in the partition may have been lost.
fn has_kept(watch: &PartitionWatch) -> bool {
    !watch.is_torn && watch.since == Time::ZERO
}

/// The partition of `__transaction_state` that keeps an id.
pub fn state_partition(world: &World, id: &TransactionalId) -> TopicPartition {
    let count = world.broker_config().transactions.state_log_num_partitions;
    TopicPartition::new(&Topic::new(STATE_TOPIC), partition_for(id.as_str(), count))
}

impl TransactionWatch {
    /// `output`: where applications put their results, each once for a record.
    pub fn new(output: Option<Topic>) -> TransactionWatch {
        TransactionWatch { outputs: Outputs::new(output), ..TransactionWatch::default() }
    }

    /// Reads on in a replica that was held to the others before, and holds it to what stands there.
    pub fn follow(
        &mut self,
        world: &World,
        broker: BrokerId,
        partition: &Partition,
        watch: &PartitionWatch,
        counts: &mut Counts,
    ) -> Verdict {
        let tp = &partition.tp;
        if !has_kept(watch) {
            self.lost.insert(tp.clone());
            self.readings.remove(tp);
            return Ok(());
        }
        if watch.history.is_compacted() {
            self.compacted.insert(tp.clone());
        }
        if self.readings.get(tp).is_none_or(|reading| reading.topic_id != watch.topic_id) {
            self.readings.insert(tp.clone(), Reading::new(watch.topic_id));
        }
        if partition.is_leader() {
            self.read_on(partition, watch.history.end(), counts)?;
        }
        self.check_stable(world, broker, partition, counts)
    }

    fn read_on(&mut self, leader: &Partition, end: Offset, counts: &mut Counts) -> Verdict {
        let (tp, log) = (&leader.tp, &leader.log);
        let Some(reading) = self.readings.get_mut(tp) else { return Ok(()) };
        let is_state = tp.topic.as_str() == STATE_TOPIC;
        let (states, outputs) = (&mut self.states, &mut self.outputs);
        reading.follow(log, end.min(log.high_watermark()), |reading, batch| {
            if is_state {
                return states.entry(tp.partition).or_default().take(batch);
            }
            if let Some(ended) = batch.is_control().then(|| reading.last_ended(batch)).flatten() {
                match ended.committed {
                    true => counts.transactions_committed += 1,
                    false => counts.transactions_aborted += 1,
                }
                outputs.take(tp, log, ended);
            }
            Ok(())
        })
    }

    /// Takes in one event, after everything that the step has touched was followed. `leads`: whether who led a partition in an
    /// epoch does so still.
    pub fn hear(
        &mut self,
        world: &World,
        event: &Event,
        leads: impl Fn(&TopicPartition, LeaderEpoch) -> bool,
        counts: &mut Counts,
    ) -> Verdict {
        match event {
            Event::TopicDeleted { topic } => drop(self.deleted.insert(topic.clone())),
            Event::Transaction(TransactionEvent::Decided { id, committed, .. }) => {
                counts.decisions_checked += 1;
                if let Some(state) = self.state_of(world, id) {
                    return state.decide(id, *committed);
                }
            }
            Event::Appended {
                broker, tp, base_offset, leader_epoch, transactional: true, request, ..
            } if request.is_some() && leads(tp, *leader_epoch) => {
                return self.check_appended(world, *broker, tp, (*base_offset, *leader_epoch), counts);
            }
            Event::Polled { client, tp, from, to, runs, .. } => {
                return self.check_polled(world, client, tp, (*from, *to), runs, counts);
            }
            _ => {}
        }
        Ok(())
    }

    /// What the log of an id's coordinator says, if nothing of it was lost.
    fn state_of(&mut self, world: &World, id: &TransactionalId) -> Option<&mut StateLog> {
        let tp = state_partition(world, id);
        self.states
            .get_mut(&tp.partition)
            .filter(|_| self.readings.contains_key(&tp) && !self.lost.contains(&tp))
    }

    /// Whether something was lost of what was written of an id.
    pub fn has_lost(&self, world: &World, id: &TransactionalId) -> bool {
        self.lost.contains(&state_partition(world, id))
    }

    /// R-TXN-12, 14, 20: when a later epoch of a producer is written and nothing of an earlier one is open, every partition
    /// that this had has its marker, and no other one is added, not even to a transaction of the later one. What was asked in
    /// the earlier epoch gets in nowhere, but for the log of a leader that has not heard that it leads no more: the marker is
    /// with the next one.
    fn check_appended(
        &self,
        world: &World,
        broker: BrokerId,
        tp: &TopicPartition,
        (base, epoch): (Offset, LeaderEpoch),
        counts: &mut Counts,
    ) -> Verdict {
        let is_held_to = self.is_kept(tp) && self.lost.is_empty() && self.deleted.is_empty();
        let Some(leader) = sight::replica(world, broker, tp).filter(|_| is_held_to) else { return Ok(()) };
        let is_newest = |batch: &&Batch| batch.base_offset() == base && batch.leader_epoch() == epoch;
        let Some(batch) = leader.log.batches_from(base).next().filter(is_newest) else { return Ok(()) };
        let (producer, epoch) = (batch.producer_id(), batch.producer_epoch());
        counts.epochs_checked += 1;
        let Some(facts) = self.states.values().find_map(|state| state.of_producer(producer)) else {
            return Ok(());
        };
        Check::Epochs.verdict(facts.is_past(epoch).then(|| {
            let current = facts.epoch;
            format!("{tp}: a batch of producer {producer} in epoch {epoch} got in at {base}, its coordinator is at {current}")
        }))
    }

    /// Whether nothing that was committed in the partition may have been lost.
    fn is_kept(&self, tp: &TopicPartition) -> bool {
        self.readings.contains_key(tp) && !self.lost.contains(tp) && !self.deleted.contains(&tp.topic)
    }

    /// Whether nothing was lost of what may be said of a producer by its coordinator.
    fn has_coordinator(&self, producer: ProducerId) -> bool {
        let known = self.states.iter().find(|(_, state)| state.knows(producer));
        let topic = Topic::new(STATE_TOPIC);
        match known {
            Some((partition, _)) => self.is_kept(&TopicPartition::new(&topic, *partition)),
            None => !self.lost.iter().any(|tp| tp.topic == topic),
        }
    }
}
