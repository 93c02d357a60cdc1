//! Where the producer's records go (`KafkaProducer.partition`, `RecordAccumulator.append` and `partitionReady`).
//!
//! **Invariant:** a record's partition is chosen once, however long `send()` blocks; only one that may go anywhere finds
//! its partition when there is room for it.

use std::collections::{BTreeMap, BTreeSet};

use super::Producer;
use super::accumulator::MemoryExhausted;
use super::workload::Message;
use crate::client::config::producer::{PartitionerClass, ProducerConfig};
use crate::client::partitioner::{Choices, RoundRobin, StickyPartitioner, WeighedQueue, partition_for_key};
use crate::kafka::random::Random;
use crate::kafka::record::NewRecord;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, TopicPartition};

/// Where a record may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Partition(i32),
    /// Wherever the sticky partitioner is (`UNKNOWN_PARTITION`).
    Any,
}

#[derive(Clone, Debug)]
pub(super) struct Partitioning {
    pub sticky: StickyPartitioner,
    round_robin: RoundRobin,
    random: Random,
    /// Partitions that ever got a record.
    touched: BTreeSet<i32>,
    /// Only with partitioner.availability.timeout.ms.
    latencies: BTreeMap<BrokerId, Latency>,
}

/// How a broker keeps up (`NodeLatencyStats`).
#[derive(Clone, Copy, Debug)]
struct Latency {
    /// Last moment at which batches were ready for it.
    ready_at: Time,
    /// Last moment at which it could take them.
    drained_at: Time,
}

impl Partitioning {
    pub fn new(config: &ProducerConfig, random: Random) -> Partitioning {
        Partitioning {
            sticky: StickyPartitioner::new(config.batch_size),
            round_robin: RoundRobin::default(),
            random,
            touched: BTreeSet::new(),
            latencies: BTreeMap::new(),
        }
    }
}

impl Producer {
    /// The partition that the record names, else the configured partitioner's, else that of its key (R-PROD-9).
    pub(super) fn place(&mut self, message: &Message, partitions: i32) -> Place {
        match (&message.key, message.partition) {
            (_, Some(partition)) => Place::Partition(partition),
            (_, None) if self.config.partitioner == PartitionerClass::RoundRobin => {
                let topic = &self.spec.topic;
                let leads =
                    |partition| self.metadata.leader(&TopicPartition::new(topic, partition)).is_some();
                Place::Partition(self.partitioning.round_robin.next(topic, partitions, leads))
            }
            (Some(key), None) if !self.config.ignore_keys => {
                Place::Partition(partition_for_key(key, partitions))
            }
            _ => Place::Any,
        }
    }

    /// Puts the record into the last batch of the partition that it gives.
    pub(super) fn append(
        &mut self,
        now: Time,
        place: Place,
        record: &NewRecord<'_>,
    ) -> Result<TopicPartition, MemoryExhausted> {
        match place {
            Place::Any => self.append_anywhere(now, record),
            Place::Partition(partition) => {
                let tp = TopicPartition::new(&self.spec.topic, partition);
                self.partitioning.touched.insert(partition);
                self.accumulator.append(now, &tp, record).map(|_| tp)
            }
        }
    }

    /// Puts the record where the sticky partitioner is, which goes on when its partition has enough. It looks whether it
    /// may before and after it looks for room, as a batch is full from the first record on that it had no room for.
    fn append_anywhere(
        &mut self,
        now: Time,
        record: &NewRecord<'_>,
    ) -> Result<TopicPartition, MemoryExhausted> {
        loop {
            let tp = self.sticky_partition();
            self.partitioning.touched.insert(tp.partition);
            if self.accumulator.all_full(&tp) && self.note_appended(0, true) {
                continue;
            }
            if let Some(bytes) = self.accumulator.try_append(&tp, record) {
                self.note_appended(bytes, self.accumulator.all_full(&tp));
                return Ok(tp);
            }
            if !self.accumulator.has_room(record) {
                return Err(MemoryExhausted);
            }
            if self.note_appended(0, true) {
                continue;
            }
            let bytes = self.accumulator.append_new(now, &tp, record)?;
            self.note_appended(bytes, self.accumulator.all_full(&tp));
            return Ok(tp);
        }
    }

    fn sticky_partition(&mut self) -> TopicPartition {
        let partition = self.with_sticky(|sticky, choices, random| sticky.current(choices, || draw(random)));
        TopicPartition::new(&self.spec.topic, partition)
    }

    /// Says whether it is another partition's turn now.
    fn note_appended(&mut self, bytes: i32, may_switch: bool) -> bool {
        self.with_sticky(|sticky, choices, random| {
            sticky.on_appended(bytes, may_switch, choices, || draw(random))
        })
    }

    fn with_sticky<T>(
        &mut self,
        act: impl FnOnce(&mut StickyPartitioner, Choices<'_>, &mut Random) -> T,
    ) -> T {
        let topic = &self.spec.topic;
        let partitions = self.metadata.partition_count(topic).expect("send() has waited for metadata");
        let leads = |partition: &i32| self.metadata.leader(&TopicPartition::new(topic, *partition)).is_some();
        let available: Vec<i32> = (0..partitions).filter(leads).collect();
        let choices = Choices { available: &available, partitions };
        act(&mut self.partitioning.sticky, choices, &mut self.partitioning.random)
    }

    /// Lets the sticky partitioner prefer shorter queues, once every partition had a batch (R-PROD-12).
    pub(super) fn weigh_queues(&mut self) {
        let keyed = self.spec.partition.is_some() || self.spec.keys.has_keys() && !self.config.ignore_keys;
        if keyed || self.config.partitioner != PartitionerClass::BuiltIn {
            return;
        }
        let topic = &self.spec.topic;
        let partitions = self.metadata.partition_count(topic).unwrap_or(0);
        let known = self.partitioning.touched.len();
        if !self.config.adaptive_partitioning || (known as i32) < partitions {
            return self.partitioning.sticky.weigh(&[], 0);
        }
        let mut queues: Vec<WeighedQueue> = Vec::with_capacity(known);
        let mut left_out = None;
        for partition in &self.partitioning.touched {
            let tp = TopicPartition::new(topic, *partition);
            let Some((leader, _)) = self.metadata.leader(&tp) else { continue };
            let waiting = self.accumulator.queue_len(&tp);
            if waiting > 0 && self.is_slow(leader) {
                left_out = Some(waiting);
                continue;
            }
            // Kafka forgets to clear what a partition that it leaves out had in the place of the next one.
            let batches = if waiting > 0 { waiting } else { left_out.unwrap_or(0) };
            left_out = None;
            queues.push(WeighedQueue { partition: *partition, batches });
        }
        self.partitioning.sticky.weigh(&queues, known);
    }

    /// Batches have been ready for the broker for longer than partitioner.availability.timeout.ms.
    fn is_slow(&self, broker: BrokerId) -> bool {
        let timeout_ms = self.config.availability_timeout_ms;
        let late = |latency: &Latency| latency.ready_at.ms_since(latency.drained_at) > timeout_ms;
        timeout_ms > 0 && self.partitioning.latencies.get(&broker).is_some_and(late)
    }

    /// Batches were ready for the broker, and it could take them or not.
    pub(super) fn note_latency(&mut self, now: Time, broker: BrokerId, takes: bool) {
        if self.config.availability_timeout_ms > 0 {
            let new = Latency { ready_at: now, drained_at: now };
            let latency = self.partitioning.latencies.entry(broker).or_insert(new);
            latency.ready_at = now;
            if takes {
                latency.drained_at = now;
            }
        }
    }
}

/// A number as `Utils.toPositive` makes it of a random int.
fn draw(random: &mut Random) -> i32 {
    random.below(1 << 31) as i32
}
