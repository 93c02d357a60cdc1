//! What can be seen of replicas and consumers from outside: in processes, and on the disks of dead ones.
//!
//! **Invariant:** looking changes nothing.

use crate::client::consumer::Consumer;
use crate::kafka::log::Log;
use crate::kafka::raft::{MetadataLog, RaftClient};
use crate::kafka::record::Batch;
use crate::kafka::replication::Partition;
use crate::kafka::types::{BrokerId, ControllerId, LeaderEpoch, NodeId, Offset, TopicId, TopicPartition};
use crate::sim::{Machine, ProcessState, Remains, World};

/// A batch by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub base_offset: Offset,
    pub next_offset: Offset,
    pub epoch: LeaderEpoch,
    pub crc: u32,
}

impl Mark {
    pub fn of(batch: &Batch) -> Mark {
        Mark {
            base_offset: batch.base_offset(),
            next_offset: batch.next_offset(),
            epoch: batch.leader_epoch(),
            crc: batch.crc(),
        }
    }
}

/// A broker's replica of a partition, if its process is there.
pub fn replica<'a>(world: &'a World, broker: BrokerId, tp: &TopicPartition) -> Option<&'a Partition> {
    world.broker(broker)?.replicas().partition(tp).map(|partition| &**partition)
}

/// From where on the leader knows in which epoch its log was written. Below it a follower may have what it wrote as a deposed
/// leader: a leader that has forgotten the follower's epoch says that it ends there (`LeaderEpochFileCache.endOffsetFor`).
pub fn leaders_start(world: &World, leader: BrokerId, tp: &TopicPartition) -> Offset {
    let Some(leader) = replica(world, leader, tp) else { return Offset::ZERO };
    untold_below(&leader.log).unwrap_or(Offset::ZERO).max(leader.log.log_start_offset())
}

/// Where the first epoch begins that is known of a log, if there is a log before it. A broker was killed soon after records were
/// deleted: epochs are cut off on its disk at once (`truncateFromStartAsyncFlush`), the log's start is written down once a
/// minute.
pub fn untold_below(log: &Log) -> Option<Offset> {
    let first = log.leader_epochs().entries().first()?.start_offset;
    (first > log.log_start_offset()).then_some(first)
}

/// A broker has forgotten the producers of a replica that wrote nothing since then by its clock (R-PROD-28). In milliseconds
/// since 1970.
pub fn forgotten_before_ms(world: &World, broker: BrokerId, partition: &Partition) -> i64 {
    let ahead_ms = world.process(NodeId::Broker(broker)).map_or(0, |process| process.clock_ahead_ms);
    world.now().wall_ms() + ahead_ms - partition.config.log.producer_id_expiration_ms
}

/// Every replica in a process, with its broker.
pub fn replicas(world: &World) -> impl Iterator<Item = (BrokerId, &Partition)> {
    let brokers = world.processes().filter_map(|(node, _)| match node {
        NodeId::Broker(id) => world.broker(id),
        _ => None,
    });
    brokers.flat_map(|broker| broker.replicas().partitions().map(|partition| (broker.id(), &**partition)))
}

/// A broker's log of a partition with the topic's id, whether its process lives or not.
pub fn log<'a>(world: &'a World, broker: BrokerId, tp: &TopicPartition) -> Option<(TopicId, &'a Log)> {
    match &world.process(broker)?.state {
        ProcessState::Running(Machine::Broker(broker))
        | ProcessState::Frozen { machine: Machine::Broker(broker), .. } => {
            let partition = broker.replicas().partition(tp)?;
            Some((partition.topic_id, &partition.log))
        }
        ProcessState::Dead(Remains::Broker(disk)) => disk.replicas.logs.get(tp).map(|(id, log)| (*id, log)),
        _ => None,
    }
}

/// A voter's replica of the metadata log, whether its process lives or not.
pub fn voters_log(world: &World, voter: ControllerId) -> Option<&MetadataLog> {
    match &world.process(voter)?.state {
        ProcessState::Running(Machine::Controller(controller))
        | ProcessState::Frozen { machine: Machine::Controller(controller), .. } => {
            Some(controller.raft().log())
        }
        ProcessState::Dead(Remains::Controller(disk)) => Some(&disk.log),
        _ => None,
    }
}

/// A server's replica of the metadata log and how far it has applied it.
pub fn raft(world: &World, node: NodeId) -> Option<(&RaftClient, Offset)> {
    match node {
        NodeId::Controller(id) => world.controller(id).map(|c| (c.raft(), c.image().next_offset)),
        NodeId::Broker(id) => world.broker(id).map(|b| (b.raft(), b.image().next_offset)),
        NodeId::Client(_) => None,
    }
}

/// The batches of a log from the one that holds `from` on that end below `end`.
pub fn marks(log: &Log, from: Offset, end: Offset) -> impl Iterator<Item = Mark> {
    log.batches_from(from).map(Mark::of).take_while(move |mark| mark.next_offset <= end)
}

/// The consumers that live.
pub fn consumers(world: &World) -> impl Iterator<Item = &Consumer> {
    let machines = world.processes().filter_map(|(_, process)| process.machine());
    machines.filter_map(|machine| match machine {
        Machine::Consumer(consumer) => Some(&**consumer),
        Machine::Application(application) => Some(application.consumer()),
        _ => None,
    })
}
