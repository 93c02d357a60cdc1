//! What must hold at every moment of any run (D-6), kept by watching a cluster from outside.

use std::collections::{BTreeMap, BTreeSet};

use glassbroker::kafka::broker::Broker;
use glassbroker::kafka::controller::image::ClusterImage;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::fetch_session::Wanted;
use glassbroker::kafka::protocol::metadata_records::RecoveryState;
use glassbroker::kafka::raft::{QuorumRole, RaftClient};
use glassbroker::kafka::record::Batch;
use glassbroker::kafka::replication::Partition;
use glassbroker::kafka::replication::context::FetchContext;
use glassbroker::kafka::replication::purgatory::{DelayedFetch, Operation};
use glassbroker::kafka::types::{
    BrokerId, ClientName, ControllerId, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicPartition,
};

use crate::dsl::Cluster;

/// A batch by its content: first offset, epoch, checksum.
type Mark = (Offset, LeaderEpoch, u32);

/// What has been seen, to which later moments are held.
#[derive(Default)]
pub struct Watch {
    seen: u64,
    /// The batches below the high watermark of a leader, per partition.
    committed: BTreeMap<TopicPartition, Vec<Mark>>,
    /// First offsets and ends of what the acks=all producers were told is written.
    acknowledged: BTreeMap<TopicPartition, Vec<(Offset, Offset)>>,
    epochs: BTreeMap<TopicPartition, (LeaderEpoch, PartitionEpoch)>,
    leaders: BTreeMap<(TopicPartition, LeaderEpoch), BrokerId>,
    /// Partitions whose last known leader was elected, which may have lost something (R-REPL-46).
    unclean: BTreeSet<TopicPartition>,
    strict: BTreeSet<ClientName>,
    /// How often each of them raised its epoch itself.
    bumps: BTreeMap<ClientName, usize>,
    quorum: QuorumWatch,
    /// How far the newest image was that has been checked.
    metadata_end: Offset,
}

/// What has been seen of the metadata log.
#[derive(Default)]
pub struct QuorumWatch {
    /// The batches below the high watermark of some replica.
    committed: Vec<Mark>,
    leaders: BTreeMap<LeaderEpoch, ControllerId>,
}

/// Every replica of the metadata log that a process has: of the controllers, then of the brokers.
fn metadata_replicas(c: &Cluster) -> Vec<(NodeId, &RaftClient, Offset)> {
    let replica = |node: NodeId| match node {
        NodeId::Controller(id) => c.world.controller(id).map(|c| (node, c.raft(), c.image().next_offset)),
        NodeId::Broker(id) => c.world.broker(id).map(|b| (node, b.raft(), b.image().next_offset)),
        NodeId::Client(_) => None,
    };
    c.world.processes().filter_map(|(node, _)| replica(node)).collect()
}

impl QuorumWatch {
    /// R-CTRL-2, R-CTRL-5: one leader an epoch, and what is committed stays as it is.
    pub fn fault(&mut self, c: &Cluster) -> Option<String> {
        for (node, raft, applied) in metadata_replicas(c) {
            if let (QuorumRole::Leader, NodeId::Controller(id)) = (raft.role(), node) {
                let leader = *self.leaders.entry(raft.epoch()).or_insert(id);
                if leader != id {
                    return Some(format!("{leader} and {id} lead the quorum in epoch {}", raft.epoch()));
                }
            }
            let mark = raft.log().high_watermark();
            if applied > mark {
                return Some(format!("{node} applied {applied} and knows {mark} to be committed"));
            }
            let all: Vec<Mark> =
                raft.log().batches().take_while(|b| b.last_offset() < mark).map(mark_of).collect();
            let shared = all.len().min(self.committed.len());
            if all[..shared] != self.committed[..shared] {
                return Some(format!("{node}: metadata records below {mark} have changed"));
            }
            if all.len() > self.committed.len() {
                self.committed = all;
            }
        }
        None
    }
}

/// Controllers and brokers that do not hold the same metadata yet, or do not agree on who leads.
pub fn unrest_of_quorum(c: &Cluster) -> Option<String> {
    let replicas = metadata_replicas(c);
    let leaders = replicas.iter().filter(|(_, raft, _)| raft.role() == QuorumRole::Leader).count();
    let epochs: BTreeSet<LeaderEpoch> = replicas.iter().map(|(_, raft, _)| raft.epoch()).collect();
    let ends: BTreeSet<Offset> = replicas.iter().map(|(_, _, applied)| *applied).collect();
    let settled = leaders == 1 && epochs.len() == 1 && ends.len() == 1;
    (!settled).then(|| format!("{leaders} lead the quorum, epochs {epochs:?}, images at {ends:?}"))
}

impl Watch {
    /// `strict`: the producers that write with acks=all.
    pub fn new(strict: &[&str]) -> Watch {
        Watch { strict: strict.iter().map(|name| ClientName::new(name)).collect(), ..Watch::default() }
    }

    pub fn is_unclean(&self, tp: &TopicPartition) -> bool {
        self.unclean.contains(tp)
    }

    pub fn acknowledged(&self, tp: &TopicPartition) -> &[(Offset, Offset)] {
        self.acknowledged.get(tp).map_or(&[], Vec::as_slice)
    }

    pub fn bumps(&self, client: &str) -> usize {
        self.bumps.get(&ClientName::new(client)).copied().unwrap_or(0)
    }

    /// After each step: what it told.
    pub fn listen(&mut self, c: &Cluster) {
        let trace = c.world.trace();
        for entry in trace.since(self.seen) {
            match &entry.event {
                Event::LeaderElected { tp, .. } => {
                    let image = c.world.active_controller().map(|controller| controller.image());
                    if image
                        .and_then(|image| image.partition(tp))
                        .is_some_and(|p| p.recovery == RecoveryState::Recovering)
                    {
                        self.unclean.insert(tp.clone());
                        self.committed.remove(tp);
                        self.acknowledged.remove(tp);
                    }
                }
                Event::ProducerIdGiven { client, epoch, .. }
                    if self.strict.contains(client) && epoch.0 > 0 =>
                {
                    *self.bumps.entry(client.clone()).or_default() += 1;
                }
                Event::BatchAcknowledged { client, tp, base_offset, records, .. }
                    if self.strict.contains(client) && !self.unclean.contains(tp) =>
                {
                    let range = (*base_offset, *base_offset + *records);
                    self.acknowledged.entry(tp.clone()).or_default().push(range);
                }
                _ => {}
            }
        }
        self.seen = trace.len_ever();
    }

    /// Panics at the first invariant that does not hold.
    pub fn check(&mut self, c: &Cluster) {
        let brokers = c.world.processes().filter_map(|(node, _)| match node {
            NodeId::Broker(id) => c.world.broker(id),
            _ => None,
        });
        let mut replicas: BTreeMap<&TopicPartition, BTreeMap<BrokerId, &Partition>> = BTreeMap::new();
        for broker in brokers {
            if let Some(fault) = forgotten(broker).or_else(|| neglected(broker)) {
                panic!("broker {}: {fault}\n{}", broker.id(), c.report());
            }
            for partition in broker.replicas().partitions() {
                replicas.entry(&partition.tp).or_default().insert(broker.id(), partition);
            }
        }
        let fail = |what: String| -> ! { panic!("{what}\n{}", c.report()) };
        if let Some(fault) = self.quorum.fault(c) {
            fail(fault);
        }
        for (tp, copies) in &replicas {
            for (broker, partition) in copies {
                if let Some(fault) = fault_of(partition) {
                    fail(format!("{tp} on broker {broker}: {fault}"));
                }
                if partition.is_leader() {
                    let key = ((*tp).clone(), partition.leader_epoch);
                    let leader = *self.leaders.entry(key).or_insert(*broker);
                    if leader != *broker {
                        fail(format!("{tp}: {leader} and {broker} lead in epoch {}", partition.leader_epoch));
                    }
                }
            }
            if !self.unclean.contains(*tp)
                && let Some(fault) = disagreement(copies)
            {
                fail(format!("{tp}: {fault}"));
            }
        }
        let Some(controller) = c.world.active_controller() else { return };
        let image = controller.image();
        // A controller that was cut off and has not noticed yet knows less than its successor did.
        if image.next_offset < self.metadata_end {
            return;
        }
        self.metadata_end = image.next_offset;
        for (tp, registration) in image.partitions() {
            let epochs = (registration.leader_epoch, registration.partition_epoch);
            let before = self.epochs.insert(tp.clone(), epochs).unwrap_or(epochs);
            if epochs.0 < before.0 || epochs.1 < before.1 {
                fail(format!("{tp}: epochs fell from {before:?} to {epochs:?}"));
            }
            if registration.leader.is_some() && !registration.isr.contains(&registration.leader) {
                fail(format!("{tp}: leader {} is not in {:?}", registration.leader, registration.isr));
            }
            if registration.elr.iter().any(|id| registration.isr.contains(id)) {
                fail(format!("{tp}: ISR and ELR overlap"));
            }
        }
        if let Some(fault) = self.loss(image, &replicas) {
            fail(fault);
        }
    }

    /// Something that was committed or acknowledged and is not in the log of an in-sync replica.
    fn loss(
        &mut self,
        image: &ClusterImage,
        replicas: &BTreeMap<&TopicPartition, BTreeMap<BrokerId, &Partition>>,
    ) -> Option<String> {
        for (tp, copies) in replicas.iter().filter(|(tp, _)| !self.unclean.contains(**tp)) {
            let Some(registration) = image.partition(tp) else { continue };
            let leader = copies
                .get(&registration.leader)
                .filter(|leader| leader.is_leader() && leader.leader_epoch == registration.leader_epoch);
            let committed = self.committed.entry((*tp).clone()).or_default();
            if let Some(leader) = leader {
                let now = marks(leader, leader.log.high_watermark());
                if now.len() > committed.len() {
                    if now[..committed.len()] != committed[..] {
                        return Some(format!(
                            "{tp}: what was committed has changed on {}",
                            registration.leader
                        ));
                    }
                    *committed = now;
                }
            }
            let acknowledged = self.acknowledged.get(*tp).into_iter().flatten().map(|(_, end)| *end).max();
            for (broker, partition) in copies.iter().filter(|(id, _)| registration.isr.contains(id)) {
                let end = partition.log.log_end_offset();
                let all = marks(partition, end);
                if all.len() < committed.len() || all[..committed.len()] != committed[..] {
                    return Some(format!("{tp}: in-sync broker {broker} lacks a committed record"));
                }
                if let Some(acknowledged) = acknowledged.filter(|needed| *needed > end) {
                    return Some(format!(
                        "{tp}: acknowledged up to {acknowledged}, broker {broker} ends at {end}"
                    ));
                }
            }
        }
        None
    }
}

fn fault_of(partition: &Partition) -> Option<String> {
    let log = &partition.log;
    let (start, mark, end) = (log.log_start_offset(), log.high_watermark(), log.log_end_offset());
    let disordered = start > mark || mark > end;
    disordered.then(|| format!("log start {start}, high watermark {mark}, log end {end}"))
}

/// Something in the purgatory that waits for what is there already.
fn forgotten(broker: &Broker) -> Option<String> {
    let replicas = broker.replicas();
    for (_, waiting) in replicas.purgatory().iter() {
        match &waiting.operation {
            Operation::Produce(produce) => {
                let done = produce.pending.iter().find(|pending| {
                    let outcome =
                        replicas.partition(&pending.tp).map(|p| p.acks_all_outcome(pending.required));
                    outcome != Some(None)
                });
                if let Some(pending) = done {
                    return Some(format!("a write to {} waits on", pending.tp));
                }
            }
            Operation::DeleteRecords(parked) => {
                let led = |tp: &TopicPartition| replicas.partition(tp).is_some_and(|p| p.is_leader());
                if let Some(pending) = parked.pending.iter().find(|pending| !led(&pending.tp)) {
                    return Some(format!("a deletion of records of {} waits on", pending.tp));
                }
            }
            Operation::Fetch(parked) => {
                let follower = parked.fetch.replica_state.replica_id.0 >= 0;
                for (tp, wanted) in waited_for(broker, parked) {
                    let Some(partition) = replicas.partition(&tp) else { continue };
                    let log = &partition.log;
                    let bound = if follower { log.log_end_offset() } else { log.high_watermark() };
                    if wanted.fetch_offset != bound || (follower && !partition.is_leader()) {
                        return Some(format!("a fetch of {tp} at {} waits on", wanted.fetch_offset));
                    }
                }
            }
        }
    }
    None
}

/// Everything that a parked fetch waits for: what it names, or all of its session.
fn waited_for(broker: &Broker, parked: &DelayedFetch) -> Vec<(TopicPartition, Wanted)> {
    let name = |id, partition| Some(TopicPartition::new(broker.image().topic_name(id)?, partition));
    match &parked.context {
        FetchContext::Incremental(id) => {
            let session = broker.replicas().sessions().get(*id).expect("a session of what waits");
            session.iter().filter_map(|(key, cached)| Some((name(key.0, key.1)?, cached.wanted))).collect()
        }
        FetchContext::Sessionless(asked) | FetchContext::Full(asked) => {
            asked.iter().filter_map(|asked| Some((asked.tp.clone()?, asked.wanted))).collect()
        }
    }
}

/// A partition of a fetch session that is left alone although its fetcher does not know how it stands.
fn neglected(broker: &Broker) -> Option<String> {
    let replicas = broker.replicas();
    for session in replicas.sessions().iter() {
        for tp in session.quiet() {
            let Some(partition) = replicas.partition(&tp) else {
                return Some(format!("{tp}, which is not here, is quiet in a session"));
            };
            let cached = session.get(&(partition.topic_id, tp.partition)).expect("it is in the session");
            let log = &partition.log;
            let bound = if session.follower.is_some() { log.log_end_offset() } else { log.high_watermark() };
            let told = (cached.wanted.fetch_offset, cached.high_watermark, cached.log_start_offset);
            if told != (bound, log.high_watermark(), log.log_start_offset()) {
                return Some(format!("a session of {:?} knows {told:?} of {tp}", session.follower));
            }
        }
    }
    None
}

fn mark_of(batch: &Batch) -> Mark {
    (batch.base_offset(), batch.leader_epoch(), batch.crc())
}

/// The batches below `end`.
fn marks(partition: &Partition, end: Offset) -> Vec<Mark> {
    let batches = partition.log.batches_from(partition.log.log_start_offset());
    batches.take_while(|batch| batch.last_offset() < end).map(mark_of).collect()
}

/// Two replicas of a partition whose logs differ below both high watermarks.
fn disagreement(copies: &BTreeMap<BrokerId, &Partition>) -> Option<String> {
    let copies: Vec<_> = copies.iter().collect();
    for (place, (a, one)) in copies.iter().enumerate() {
        for (b, other) in &copies[place + 1..] {
            let end = one.log.high_watermark().min(other.log.high_watermark());
            if marks(one, end) != marks(other, end) {
                return Some(format!("brokers {a} and {b} disagree below {end}"));
            }
        }
    }
    None
}
