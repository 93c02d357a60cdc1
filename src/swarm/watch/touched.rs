//! What the events of a step say was touched.
//!
//! **Invariant:** an event that is missing here costs time, not truth: now and then everything is looked at.

use std::collections::BTreeSet;

use crate::kafka::event::{Act, Event, TruncationReason};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, LeaderEpoch, NodeId, Offset, TopicPartition};
use crate::sim::World;

#[derive(Default)]
pub struct Touched {
    pub replicas: BTreeSet<(TopicPartition, BrokerId)>,
    /// A follower acted on what its leader answered.
    pub answered: BTreeSet<(TopicPartition, BrokerId)>,
    /// A follower took in what is from the first offset to the second.
    pub replicated: Vec<(BrokerId, TopicPartition, Offset, Offset)>,
    /// A leader wrote a batch at this offset in this epoch.
    pub appended: Vec<(BrokerId, TopicPartition, Offset, LeaderEpoch)>,
    /// A leader wrote a batch from the first offset to the second.
    pub written: Vec<(TopicPartition, Offset, Offset)>,
    /// A leader's high watermark went from the first offset to the second.
    pub advanced: Vec<(BrokerId, TopicPartition, Offset, Offset)>,
    /// From this offset on a replica's log is another one.
    pub changed_from: Vec<(BrokerId, TopicPartition, Offset)>,
    /// Producers that sent something.
    pub sent: BTreeSet<ClientName>,
    pub acknowledged: Vec<Acknowledged>,
    /// Brokers whose disks are empty now.
    pub wiped: Vec<BrokerId>,
    pub acts: Vec<(BrokerId, Act)>,
}

/// A producer was told that a batch is written.
pub struct Acknowledged {
    pub client: ClientName,
    pub tp: TopicPartition,
    pub base_offset: Offset,
    pub records: i64,
    pub created_at: Time,
}

impl Touched {
    /// By the events from number `seen` on.
    pub fn since(world: &World, seen: u64) -> Touched {
        let mut touched = Touched::default();
        for entry in world.trace().since(seen) {
            match &entry.event {
                Event::Process { node: NodeId::Broker(broker), act, .. } => {
                    touched.acts.push((*broker, act.clone()))
                }
                Event::DiskWiped { broker } => touched.wiped.push(*broker),
                Event::LogStartMoved { broker, tp, .. } | Event::SegmentsDeleted { broker, tp, .. } => {
                    touched.replicas.insert((tp.clone(), *broker));
                }
                // What it took in before, in the same step, it asked for in another epoch: nobody can say any more in which.
                Event::BecameLeader { broker, tp, .. } | Event::BecameFollower { broker, tp, .. } => {
                    touched.replicated.retain(|(by, of, ..)| (by, of) != (broker, tp));
                    touched.answered.remove(&(tp.clone(), *broker));
                    touched.replicas.insert((tp.clone(), *broker));
                }
                Event::Appended { broker, tp, base_offset, last_offset, leader_epoch, .. } => {
                    touched.written.push((tp.clone(), *base_offset, *last_offset));
                    touched.appended.push((*broker, tp.clone(), *base_offset, *leader_epoch));
                    touched.replicas.insert((tp.clone(), *broker));
                }
                Event::Replicated { broker, tp, from, to, .. } => {
                    touched.replicated.push((*broker, tp.clone(), *from, *to));
                    touched.answered.insert((tp.clone(), *broker));
                    touched.replicas.insert((tp.clone(), *broker));
                }
                Event::HighWatermarkAdvanced { broker, tp, leader, from, to } => {
                    touched.replicas.insert((tp.clone(), *broker));
                    if *leader {
                        touched.advanced.push((*broker, tp.clone(), *from, *to));
                    } else {
                        touched.answered.insert((tp.clone(), *broker));
                    }
                }
                Event::BatchSent { client, .. } => {
                    touched.sent.insert(client.clone());
                }
                // All of it may be another one than was compared.
                Event::LogCleaned { broker, tp, .. } => {
                    touched.changed_from.push((*broker, tp.clone(), Offset::ZERO));
                    touched.replicas.insert((tp.clone(), *broker));
                }
                Event::Truncated { broker, tp, to, reason, .. } => {
                    if matches!(reason, TruncationReason::DivergingEpoch { .. }) {
                        touched.answered.insert((tp.clone(), *broker));
                    }
                    touched.changed_from.push((*broker, tp.clone(), *to));
                    touched.replicas.insert((tp.clone(), *broker));
                }
                Event::BatchAcknowledged { client, tp, base_offset, records, latency_ms, .. } => {
                    touched.acknowledged.push(Acknowledged {
                        client: client.clone(),
                        tp: tp.clone(),
                        base_offset: *base_offset,
                        records: *records,
                        created_at: entry.key.time.plus_ms(-latency_ms),
                    });
                }
                _ => {}
            }
        }
        touched
    }
}
