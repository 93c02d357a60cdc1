//! What must hold at every moment of any run, kept by watching a cluster from outside (D-6).
//!
//! After each step [`Watch::after_step`] looks at what the step touched: the replicas that its events name and the
//! metadata logs of the processes that ran. [`Watch::everything`] trusts no event and looks at all there is.
//!
//! **Invariant:** a fault that is found here is one of the system, or of the rule it is held to; the watch changes nothing.

mod history;
mod metadata;
mod partition;
mod purgatory;
mod quorum;
mod sight;
mod touched;

use std::collections::{BTreeMap, BTreeSet};

use self::history::History;
use self::metadata::{MetadataWatch, News};
use self::partition::{PartitionWatch, fault_of, is_settled};
use self::quorum::QuorumWatch;
pub use self::quorum::unrest as unrest_of_quorum;
use self::touched::{Acknowledged, Touched};
use crate::kafka::event::Act;
use crate::kafka::replication::Role;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, LeaderEpoch, NodeId, Offset, TopicPartition};
use crate::sim::World;
use crate::swarm::counts::Counts;

/// What has been seen, to which later moments are held.
#[derive(Default)]
pub struct Watch {
    seen: u64,
    metadata: MetadataWatch,
    quorum: QuorumWatch,
    partitions: BTreeMap<TopicPartition, PartitionWatch>,
    /// The producers that write with acks=all.
    acks_all: BTreeSet<ClientName>,
    /// How often each producer raised its epoch itself (R-PROD-29).
    bumps: BTreeMap<ClientName, i64>,
    checks: u64,
    counts: Counts,
}

type Verdict = Result<(), String>;

fn verdict(fault: Option<String>) -> Verdict {
    fault.map_or(Ok(()), Err)
}

/// Where it is counted what is compared with this history.
fn compared_of<'a>(counts: &'a mut Counts, history: &History) -> &'a mut u64 {
    match history.is_compacted() {
        true => &mut counts.compacted_records_compared,
        false => &mut counts.batches_compared,
    }
}

impl Watch {
    /// `acks_all`: the producers that write with acks=all.
    pub fn new(acks_all: BTreeSet<ClientName>) -> Watch {
        Watch { acks_all, ..Watch::default() }
    }

    /// How often something was held to a rule.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// What was compared, and what happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How often the producer raised its epoch itself.
    pub fn bumps(&self, client: &ClientName) -> i64 {
        self.bumps.get(client).copied().unwrap_or(0)
    }

    /// Whether committed records of the partition may be lost, or its log is thinned out.
    pub fn is_whole(&self, tp: &TopicPartition) -> bool {
        self.partitions
            .get(tp)
            .is_some_and(|watch| !watch.is_lost && watch.since == Time::ZERO && !watch.history.is_compacted())
    }

    /// Looks at what the last step touched.
    pub fn after_step(&mut self, world: &World) -> Verdict {
        let touched = self.listen(world);
        for node in world.ran() {
            self.follow_metadata(world, *node)?;
        }
        for (broker, tp, from, to) in &touched.replicated {
            self.check_replicated(world, *broker, tp, *from, *to)?;
        }
        for (tp, broker) in &touched.replicas {
            self.check_replica(world, *broker, tp)?;
        }
        for (leader, tp, to) in &touched.advanced {
            self.note_deposed(world, *leader, tp, *to);
            self.check_holders(world, *leader, tp, *to)?;
            self.check_in_sync(world, tp)?;
        }
        touched.acknowledged.iter().try_for_each(|acknowledged| self.check_acknowledged(acknowledged))
    }

    /// Looks at everything there is.
    pub fn everything(&mut self, world: &World) -> Verdict {
        self.quorum.forget_compared();
        self.partitions.values_mut().for_each(|watch| watch.compared.clear());
        for (node, _) in world.processes() {
            self.follow_metadata(world, node)?;
            self.check_image(world, node)?;
            verdict(purgatory::fault(world, node))?;
        }
        // The leaders first: what they have is what the others are held to.
        let (leaders, others): (Vec<_>, Vec<_>) =
            sight::replicas(world).partition(|(_, partition)| partition.is_leader());
        for (broker, partition) in leaders.into_iter().chain(others) {
            self.check_replica(world, broker, &partition.tp)?;
        }
        let all: Vec<TopicPartition> = self.partitions.keys().cloned().collect();
        for tp in &all {
            self.settle(world, tp)?;
            self.check_in_sync(world, tp)?;
        }
        Ok(())
    }

    fn listen(&mut self, world: &World) -> Touched {
        let touched = Touched::since(world, self.seen);
        world.trace().since(self.seen).for_each(|entry| self.counts.hear(&entry.event));
        self.seen = world.trace().len_ever();
        for (broker, act) in &touched.acts {
            self.on_act(world, *broker, act);
        }
        for broker in &touched.wiped {
            self.on_loss(*broker);
        }
        for client in &touched.bumped {
            *self.bumps.entry(client.clone()).or_default() += 1;
        }
        for (broker, tp, offset) in &touched.changed_from {
            if let Some(watch) = self.partitions.get_mut(tp) {
                watch.compared.entry(*broker).and_modify(|compared| *compared = (*offset).min(*compared));
            }
        }
        touched
    }

    fn on_act(&mut self, world: &World, broker: BrokerId, act: &Act) {
        match act {
            Act::Killed => self.metadata.on_kill(broker),
            Act::PowerCut if self.metadata.has_unflushed(broker) => self.on_loss(broker),
            Act::Ended => self.metadata.on_end(broker),
            Act::Started => {
                if let Some(process) = world.broker(broker) {
                    self.metadata.on_start(broker, process.incarnation());
                }
                for watch in self.partitions.values_mut() {
                    watch.compared.remove(&broker);
                }
            }
            Act::PowerCut | Act::Frozen | Act::Thawed => {}
        }
    }

    /// A disk lost something. With eligible leader replicas the controller hears of it when the broker registers; without
    /// them it trusts the broker, and what only this one had is gone unnoticed (R-REPL-47, 56).
    fn on_loss(&mut self, broker: BrokerId) {
        self.metadata.on_loss(broker);
        let image = &self.metadata.image;
        for (tp, watch) in &mut self.partitions {
            let holds = image.partition(tp).is_some_and(|partition| partition.replicas.contains(&broker));
            watch.is_lost |= holds && !image.elr_enabled();
        }
    }

    fn follow_metadata(&mut self, world: &World, node: NodeId) -> Verdict {
        self.checks += 1;
        verdict(self.quorum.fault(world, node))?;
        let Some((raft, _)) = sight::raft(world, node) else { return Ok(()) };
        if raft.log().high_watermark() <= self.metadata.image.next_offset {
            return Ok(());
        }
        let news = self.metadata.follow(raft.log())?;
        // All of it is replayed: who may lack something by its end is not held to what was before.
        for tp in news.iter().filter_map(News::loss) {
            if let Some(watch) = self.partitions.get_mut(tp) {
                watch.is_lost = true;
            }
        }
        for news in news {
            match news {
                News::Changed(tp) => {
                    self.note_registration(world, &tp);
                    self.check_in_sync(world, &tp)?;
                }
                News::Unclean(_) => {}
                News::Config => {
                    let all: Vec<TopicPartition> = self.partitions.keys().cloned().collect();
                    all.iter().for_each(|tp| self.note_registration(world, tp));
                }
                News::Removed => {
                    let image = &self.metadata.image;
                    self.partitions.retain(|tp, watch| image.topic_name(watch.topic_id) == Some(&tp.topic));
                }
            }
        }
        Ok(())
    }

    /// A partition is new, or its replicas or configs are.
    fn note_registration(&mut self, world: &World, tp: &TopicPartition) {
        let image = &self.metadata.image;
        let (Some(topic), Some(registration)) = (image.topic(&tp.topic), image.partition(tp)) else { return };
        let config = image.topic_config(&tp.topic, world.broker_config());
        let min_isr = config.min_insync_replicas.min(registration.replicas.len() as i32);
        let watch = self.partitions.entry(tp.clone()).or_insert_with(|| PartitionWatch {
            topic_id: topic.id,
            history: History::new(config.log.compacted),
            is_lost: false,
            since: Time::ZERO,
            since_epoch: LeaderEpoch::NONE,
            deposed_end: Offset::ZERO,
            leaders: BTreeMap::new(),
            compared: BTreeMap::new(),
            least_min_isr: min_isr,
        });
        watch.least_min_isr = watch.least_min_isr.min(min_isr);
    }

    /// Two nodes that replayed the same records hold equal images (R-CTRL-8).
    fn check_image(&self, world: &World, node: NodeId) -> Verdict {
        let image = match node {
            NodeId::Controller(id) => world.controller(id).map(|controller| controller.image()),
            NodeId::Broker(id) => world.broker(id).map(|broker| &**broker.image()),
            NodeId::Client(_) => None,
        };
        let other = image.filter(|image| image.next_offset == self.metadata.image.next_offset);
        match other {
            Some(image) if *image != self.metadata.image => Err(format!("{node} replayed another image")),
            _ => Ok(()),
        }
    }

    /// One replica for itself, and against what is committed.
    fn check_replica(&mut self, world: &World, broker: BrokerId, tp: &TopicPartition) -> Verdict {
        let Some(partition) = sight::replica(world, broker, tp) else { return Ok(()) };
        let Some(watch) = self.partitions.get_mut(tp) else { return Ok(()) };
        if watch.topic_id != partition.topic_id {
            return Ok(());
        }
        self.checks += 1;
        // A broker takes up what the metadata log says of its earlier life before it registers (`BrokerServer.startup`): it
        // leads again as nobody else may, with what its disk kept.
        watch.is_lost |= partition.is_leader() && self.metadata.is_robbed(broker);
        let place = |fault: String| format!("{tp} on broker {broker}: {fault}");
        verdict(fault_of(partition)).map_err(place)?;
        let log = &partition.log;
        if partition.is_leader() {
            let leader = *watch.leaders.entry(partition.leader_epoch).or_insert(broker);
            if leader != broker {
                return Err(format!("{tp}: {leader} and {broker} lead in epoch {}", partition.leader_epoch));
            }
        }
        if watch.is_lost || partition.leader_epoch < watch.since_epoch {
            return Ok(());
        }
        if partition.is_leader() {
            watch.history.extend(log, log.high_watermark()).map_err(place)?;
        }
        let (from, to) = (watch.compared.get(&broker).copied().unwrap_or(Offset::ZERO), log.high_watermark());
        // A crash soon after a log was cut back behind its start: the checkpointed start is beyond its end, and
        // `LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd` begins it anew there.
        if log.log_start_offset() > watch.history.end() {
            watch.is_lost = true;
            return Ok(());
        }
        if to > watch.history.end() {
            let end = watch.history.end();
            return Err(place(format!(
                "takes everything below {to} for committed; that is what is below {end}"
            )));
        }
        let compared = watch.history.compare(log, from, to).map_err(place)?;
        *compared_of(&mut self.counts, &watch.history) += compared;
        watch.compared.insert(broker, to);
        Ok(())
    }

    /// R-REPL-6, 8: what a follower took in is what its leader of that epoch has.
    fn check_replicated(
        &mut self,
        world: &World,
        broker: BrokerId,
        tp: &TopicPartition,
        from: Offset,
        to: Offset,
    ) -> Verdict {
        let Some(follower) = sight::replica(world, broker, tp) else { return Ok(()) };
        let Role::Follower { leader: id } = follower.role else { return Ok(()) };
        let Some(leader) = sight::replica(world, id, tp) else { return Ok(()) };
        let same_epoch = leader.is_leader() && leader.leader_epoch == follower.leader_epoch;
        if !same_epoch || leader.topic_id != follower.topic_id || leader.config.log.compacted {
            return Ok(());
        }
        self.checks += 1;
        let from = from.max(leader.log.log_start_offset());
        let (theirs, own) = (sight::marks(&leader.log, from, to), sight::marks(&follower.log, from, to));
        if theirs.eq(own) {
            return Ok(());
        }
        Err(format!(
            "{tp}: broker {broker} took in {from} to {to}, which is not what its leader {id} has there"
        ))
    }

    /// After an unclean election the leader that was, if it does not know, still takes for committed what it writes alone.
    fn note_deposed(&mut self, world: &World, leader: BrokerId, tp: &TopicPartition, to: Offset) {
        let Some(watch) = self.partitions.get_mut(tp) else { return };
        let epoch = sight::replica(world, leader, tp).map(|partition| partition.leader_epoch);
        if epoch.is_some_and(|epoch| epoch < watch.since_epoch) {
            watch.deposed_end = watch.deposed_end.max(to);
        }
    }

    /// R-REPL-13: what becomes committed is on as many replicas as min.insync.replicas asks for.
    fn check_holders(&mut self, world: &World, leader: BrokerId, tp: &TopicPartition, to: Offset) -> Verdict {
        let Some(watch) = self.partitions.get(tp).filter(|watch| !watch.is_lost) else { return Ok(()) };
        // One that was deposed while it stood still hears now of what others had then.
        let newest = self.metadata.image.partition(tp).map(|registration| registration.leader_epoch);
        if sight::replica(world, leader, tp).map(|partition| partition.leader_epoch) < newest {
            return Ok(());
        }
        self.checks += 1;
        // A leader may not know yet that the partition moves to others.
        let has = |id: &BrokerId| {
            let log = sight::log(world, *id, tp).filter(|(topic, _)| *topic == watch.topic_id);
            self.metadata.is_robbed(*id) || log.is_some_and(|(_, log)| log.log_end_offset() >= to)
        };
        let brokers = world.config().brokers.iter().map(|(id, _)| id);
        let holders = brokers.filter(|id| has(id)).count() as i32;
        if holders >= watch.least_min_isr {
            return Ok(());
        }
        let needed = watch.least_min_isr;
        Err(format!(
            "{tp}: {holders} brokers have what is committed below {to}, min.insync.replicas is {needed}"
        ))
    }

    /// R-REPL-12: every in-sync replica has everything that is committed.
    fn check_in_sync(&mut self, world: &World, tp: &TopicPartition) -> Verdict {
        let (Some(watch), Some(registration)) = (self.partitions.get(tp), self.metadata.image.partition(tp))
        else {
            return Ok(());
        };
        let end = watch.history.end();
        if watch.is_lost || end == Offset::ZERO {
            return Ok(());
        }
        self.checks += 1;
        for id in registration.isr.iter().filter(|id| !self.metadata.is_robbed(**id)) {
            let log = sight::log(world, *id, tp).filter(|(topic, _)| *topic == watch.topic_id);
            let Some((_, log)) = log else {
                return Err(format!("{tp}: in-sync broker {id} has no replica"));
            };
            let own_end = log.log_end_offset();
            if own_end < end {
                return Err(format!(
                    "{tp}: in-sync broker {id} ends at {own_end}, committed is what is below {end}"
                ));
            }
            let from = watch.compared.get(id).copied().unwrap_or(Offset::ZERO);
            let compared = watch.history.compare(log, from, end);
            *compared_of(&mut self.counts, &watch.history) +=
                compared.map_err(|fault| format!("{tp}: in-sync broker {id}: {fault}"))?;
        }
        Ok(())
    }

    /// R-REPL-29: what an acks=all producer is told is written is committed, and it is what it wrote.
    fn check_acknowledged(&mut self, acknowledged: &Acknowledged) -> Verdict {
        let Acknowledged { client, tp, base_offset, records, created_at } = acknowledged;
        let Some(watch) = self.partitions.get(tp).filter(|_| self.acks_all.contains(client)) else {
            return Ok(());
        };
        let (end, committed) = (*base_offset + *records, watch.history.end());
        let unknown = watch.is_lost || *created_at < watch.since || *base_offset < watch.history.start();
        if unknown || end <= watch.deposed_end {
            return Ok(());
        }
        self.checks += 1;
        if end > committed {
            return Err(format!(
                "{tp}: {client} is told of {base_offset} to {end}, committed is what is below {committed}"
            ));
        }
        match watch.history.batch_at(*base_offset) {
            Some(count) if count == *records => {
                self.counts.acknowledgements_checked += 1;
                Ok(())
            }
            found => Err(format!(
                "{tp}: {client} is told of {records} records at {base_offset}, where {found:?} are"
            )),
        }
    }

    /// After a loss: when every replica follows the one leader again, what that has is what counts.
    fn settle(&mut self, world: &World, tp: &TopicPartition) -> Verdict {
        let (Some(watch), Some(registration)) =
            (self.partitions.get_mut(tp), self.metadata.image.partition(tp))
        else {
            return Ok(());
        };
        if !watch.is_lost || !is_settled(world, tp, registration) {
            return Ok(());
        }
        let Some(leader) = sight::replica(world, registration.leader, tp) else { return Ok(()) };
        let history = History::of(&leader.log, watch.history.is_compacted());
        watch.history = history.map_err(|fault| format!("{tp}: {fault}"))?;
        watch.is_lost = false;
        watch.since = world.now();
        watch.since_epoch = registration.leader_epoch;
        watch.compared.clear();
        Ok(())
    }
}
