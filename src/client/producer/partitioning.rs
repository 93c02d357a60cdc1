//! Where the producer's records go (`KafkaProducer.partition`, `RecordAccumulator.append` and `partitionReady`).
//!
//! **Invariant:** a record's partition is chosen once, however long `send()` blocks; only one that may go anywhere finds
//! its partition when there is room for it.

use std::collections::{BTreeMap, BTreeSet};

use super::accumulator::MemoryExhausted;
use super::workload::Message;
use super::{Producer, UNKNOWN_PARTITION};
use crate::client::config::producer::{PartitionerClass, ProducerConfig};
use crate::client::partitioner::{
    Choices, ConsistentRandom, RoundRobin, StickyPartitioner, WeighedQueue, partition_for_key,
};
use crate::kafka::random::Random;
use crate::kafka::record::NewRecord;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, Topic, TopicPartition};

/// Where a record may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Partition(i32),
    /// Wherever the sticky partitioner is (`UNKNOWN_PARTITION`).
    Any,
}

impl Place {
    /// In words of partitions, as far as one is chosen.
    pub fn of(self, topic: &Topic) -> TopicPartition {
        match self {
            Place::Partition(partition) => TopicPartition::new(topic, partition),
            Place::Any => TopicPartition::new(topic, UNKNOWN_PARTITION),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Partitioning {
    batch_size: i32,
    topics: BTreeMap<Topic, OfTopic>,
    round_robin: RoundRobin,
    consistent_random: ConsistentRandom,
    random: Random,
    /// Only with partitioner.availability.timeout.ms.
    latencies: BTreeMap<BrokerId, Latency>,
}

/// The records of one topic.
#[derive(Clone, Debug)]
struct OfTopic {
    sticky: StickyPartitioner,
    /// Records came that could go anywhere.
    has_keyless: bool,
    /// Partitions that ever got a record.
    touched: BTreeSet<i32>,
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
            batch_size: config.batch_size,
            topics: BTreeMap::new(),
            round_robin: RoundRobin::default(),
            consistent_random: ConsistentRandom::default(),
            random,
            latencies: BTreeMap::new(),
        }
    }

    fn of(&mut self, topic: &Topic) -> &mut OfTopic {
        let batch_size = self.batch_size;
        self.topics.entry(topic.clone()).or_insert_with(|| OfTopic {
            sticky: StickyPartitioner::new(batch_size),
            has_keyless: false,
            touched: BTreeSet::new(),
        })
    }
}

impl Producer {
    /// The partition that the record names, else the configured partitioner's, else that of its key (R-PROD-9).
    pub(super) fn place(&mut self, now: Time, message: &Message, partitions: i32) -> Place {
        match (&message.key, message.partition) {
            (_, Some(partition)) => Place::Partition(partition),
            (key, None) if self.config.partitioner == PartitionerClass::ConsistentRandom => {
                let Partitioning { consistent_random, random, .. } = &mut self.partitioning;
                Place::Partition(consistent_random.partition(now, key.as_deref(), partitions, random))
            }
            (_, None) if self.config.partitioner == PartitionerClass::RoundRobin => {
                let topic = &message.topic;
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

    /// Puts the record into a batch; says of which partition.
    pub(super) fn append(
        &mut self,
        now: Time,
        topic: &Topic,
        place: Place,
        record: &NewRecord<'_>,
    ) -> Result<TopicPartition, MemoryExhausted> {
        match place {
            Place::Any => self.append_anywhere(now, topic, record),
            Place::Partition(partition) => {
                let tp = TopicPartition::new(topic, partition);
                self.partitioning.of(topic).touched.insert(partition);
                self.accumulator.append(now, &tp, record).map(|_| tp)
            }
        }
    }

    /// Puts the record where the sticky partitioner is, which goes on when its partition has enough. It looks whether it
    /// may before and after it looks for room, as a batch is full from the first record on that it had no room for.
    fn append_anywhere(
        &mut self,
        now: Time,
        topic: &Topic,
        record: &NewRecord<'_>,
    ) -> Result<TopicPartition, MemoryExhausted> {
        self.partitioning.of(topic).has_keyless = true;
        loop {
            let tp = self.sticky_partition(topic);
            self.partitioning.of(topic).touched.insert(tp.partition);
            if self.accumulator.all_full(&tp) && self.note_appended(topic, 0, true) {
                continue;
            }
            if let Some(bytes) = self.accumulator.try_append(&tp, record) {
                self.note_appended(topic, bytes, self.accumulator.all_full(&tp));
                return Ok(tp);
            }
            if !self.accumulator.has_room(record) {
                return Err(MemoryExhausted);
            }
            if self.note_appended(topic, 0, true) {
                continue;
            }
            let bytes = self.accumulator.append_new(now, &tp, record)?;
            self.note_appended(topic, bytes, self.accumulator.all_full(&tp));
            return Ok(tp);
        }
    }

    /// Where the topic's next record goes that may go anywhere; `None` before the first one.
    pub(super) fn sticky_place(&self, topic: &Topic) -> Option<TopicPartition> {
        let (partition, _) = self.partitioning.topics.get(topic)?.sticky.peek()?;
        Some(TopicPartition::new(topic, partition))
    }

    /// The same, and what the partition has got since its turn began.
    pub(super) fn sticky_turn(&self, topic: &Topic) -> Option<(i32, i64)> {
        self.partitioning.topics.get(topic)?.sticky.peek()
    }

    fn sticky_partition(&mut self, topic: &Topic) -> TopicPartition {
        let partition =
            self.with_sticky(topic, |sticky, choices, random| sticky.current(choices, || draw(random)));
        TopicPartition::new(topic, partition)
    }

    /// Says whether it is another partition's turn now.
    fn note_appended(&mut self, topic: &Topic, bytes: i32, may_switch: bool) -> bool {
        self.with_sticky(topic, |sticky, choices, random| {
            sticky.on_appended(bytes, may_switch, choices, || draw(random))
        })
    }

    fn with_sticky<T>(
        &mut self,
        topic: &Topic,
        act: impl FnOnce(&mut StickyPartitioner, Choices<'_>, &mut Random) -> T,
    ) -> T {
        let partitions = self.metadata.partition_count(topic).expect("send() has waited for metadata");
        let leads = |partition: &i32| self.metadata.leader(&TopicPartition::new(topic, *partition)).is_some();
        let available: Vec<i32> = (0..partitions).filter(leads).collect();
        let choices = Choices { available: &available, partitions };
        let sticky = &mut self.partitioning.topics.get_mut(topic).expect("a record came of it").sticky;
        act(sticky, choices, &mut self.partitioning.random)
    }

    /// Lets the sticky partitioners prefer shorter queues, once every partition had a batch (R-PROD-12).
    pub(super) fn weigh_queues(&mut self) {
        let mut topics = std::mem::take(&mut self.partitioning.topics);
        for (topic, of) in topics.iter_mut().filter(|(_, of)| of.has_keyless) {
            self.weigh_queues_of(topic, of);
        }
        self.partitioning.topics = topics;
    }

    fn weigh_queues_of(&self, topic: &Topic, of: &mut OfTopic) {
        let partitions = self.metadata.partition_count(topic).unwrap_or(0);
        let known = of.touched.len();
        if !self.config.adaptive_partitioning || (known as i32) < partitions {
            return of.sticky.weigh(&[], 0);
        }
        let mut queues: Vec<WeighedQueue> = Vec::with_capacity(known);
        let mut left_out = None;
        for partition in &of.touched {
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
        of.sticky.weigh(&queues, known);
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
