//! What must hold at every moment of any run, kept by watching a cluster from outside (D-6).
//!
//! After each step [`Watch::after_step`] looks at what the step touched: the replicas that its events name and the
//! metadata logs of the processes that ran. [`Watch::everything`] trusts no event and looks at all there is.
//!
//! - [`metadata`], [`quorum`]: the controllers' log, and each change in it
//! - [`history`], [`partition`]: what is committed of a partition; [`replica`], [`commit`]: each replica held to it
//! - [`loss`]: what excuses a lost record, and what it does not excuse
//! - [`writes`]: what producers sent and were told; [`producer_ids`]: whose ids they write by
//! - [`lives`]: what never falls; [`purgatory`]: what a broker has forgotten
//! - [`coordinator`], [`committed_offsets`], [`modern_group`]: what a group coordinator knows, held to its log; [`member`]:
//!   who owns what; [`positions`]: what consumers commit
//! - [`share`]: what leaders hand out to share groups, and what those are done with
//! - [`transactions`]: markers, stable offsets, readers of committed data, coordinators' decisions, applications' results
//! - [`stranded`]: groups that nobody rebalances
//! - [`ledger`]: what the lab tells a person of records, held to what is there
//! - [`touched`], [`sight`]: how it is seen
//!
//! **Invariant:** a fault that is found here is one of the system, or of the rule it is held to; the watch changes nothing.

mod commit;
mod committed_offsets;
mod coordinator;
mod history;
mod ledger;
mod lives;
mod loss;
mod member;
mod metadata;
mod modern_group;
mod partition;
mod positions;
mod producer_ids;
mod purgatory;
mod quorum;
mod replica;
mod share;
mod sight;
mod stranded;
mod touched;
mod transactions;
mod writes;

use std::collections::{BTreeMap, BTreeSet};

use self::coordinator::CoordinatorWatch;
use self::history::History;
use self::lives::Lives;
use self::member::MemberWatch;
use self::metadata::{MetadataWatch, News};
use self::partition::PartitionWatch;
use self::positions::Positions;
pub use self::producer_ids::Given;
use self::producer_ids::ProducerIds;
use self::quorum::QuorumWatch;
pub use self::quorum::unrest as unrest_of_quorum;
use self::share::{Kept, ShareWatch};
use self::stranded::Stranded;
use self::touched::Touched;
pub use self::transactions::Work;
use self::transactions::{TransactionWatch, state_partition};
use self::writes::Sent;
use super::check::{Check, Verdict};
use crate::kafka::broker::SHARE_STATE_TOPIC;
use crate::kafka::event::Act;
use crate::kafka::group::partition_for;
use crate::kafka::raft::QuorumRole;
use crate::kafka::share::ShareKey;
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerId, ClientName, GroupId, LeaderEpoch, NodeId, Offset, ProducerId, Topic, TopicId, TopicPartition,
    TransactionalId,
};
use crate::lab::ledger::Ledger;
use crate::sim::World;
use crate::swarm::counts::Counts;

/// What has been seen, to which later moments are held.
#[derive(Default)]
pub struct Watch {
    seen: u64,
    metadata: MetadataWatch,
    quorum: QuorumWatch,
    lives: Lives,
    coordinators: CoordinatorWatch,
    members: MemberWatch,
    shares: ShareWatch,
    stranded: Stranded,
    transactions: TransactionWatch,
    partitions: BTreeMap<TopicPartition, PartitionWatch>,
    /// The producers that write with acks=all.
    acks_all: BTreeSet<ClientName>,
    /// What those sent and were not told of yet.
    sent: Sent,
    /// Every batch that a leader ever wrote: its first and last offset.
    written: BTreeMap<TopicPartition, BTreeSet<(Offset, Offset)>>,
    /// The topics that are gone, of which a broker that is cut off has not heard.
    former: BTreeMap<TopicId, Topic>,
    /// When the acks=all producers last sent to those.
    sent_to_former: BTreeMap<(ClientName, TopicPartition), Time>,
    /// What the lab would tell.
    ledger: Ledger,
    /// Records that applications have finished, by partition.
    processed: BTreeMap<TopicPartition, i64>,
    producer_ids: ProducerIds,
    positions: Positions,
    checks: u64,
    counts: Counts,
}

/// Where it is counted what is compared with this history.
fn compared_of<'a>(counts: &'a mut Counts, history: &History) -> &'a mut u64 {
    match history.is_compacted() {
        true => &mut counts.compacted_records_compared,
        false => &mut counts.batches_compared,
    }
}

impl Watch {
    /// `acks_all`: the producers that write with acks=all; `results`: where applications put one for each record.
    pub fn new(acks_all: BTreeSet<ClientName>, results: Option<Topic>) -> Watch {
        Watch { acks_all, transactions: TransactionWatch::new(results), ..Watch::default() }
    }

    /// How often something was held to a rule.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// What was compared, and what happened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Who was given a producer id.
    pub fn producer(&self, id: ProducerId) -> Option<&Given> {
        self.producer_ids.get(id)
    }

    /// The groups that nobody rebalances.
    pub fn stranded(&self) -> &BTreeSet<GroupId> {
        self.stranded.groups()
    }

    /// The groups with members who left, which could not be written, and whom no timer waits for any more.
    pub fn forsaken(&self) -> BTreeSet<&GroupId> {
        self.coordinators.forsaken().collect()
    }

    /// Whether no committed record of the partition was ever allowed to be lost, nor is its log thinned out.
    pub fn is_whole(&self, tp: &TopicPartition) -> bool {
        self.partitions
            .get(tp)
            .is_some_and(|watch| !watch.is_torn && watch.since == Time::ZERO && !watch.history.is_compacted())
    }

    /// Looks at what the last step touched.
    pub fn after_step(&mut self, world: &World) -> Verdict {
        let seen = self.seen;
        let touched = self.listen(world);
        for node in world.ran() {
            self.follow_metadata(world, *node)?;
        }
        for (broker, tp, offset, epoch) in &touched.appended {
            self.check_appended(world, *broker, tp, *offset, *epoch)?;
        }
        for (tp, broker) in &touched.answered {
            self.check_answered(world, *broker, tp)?;
        }
        for (broker, tp, from, to) in &touched.replicated {
            self.check_replicated(world, *broker, tp, *from, *to)?;
        }
        for (tp, broker) in &touched.replicas {
            self.check_replica(world, *broker, tp)?;
        }
        for (leader, tp, from, to) in &touched.advanced {
            self.note_deposed(world, *leader, tp, *to);
            self.check_advanced(world, *leader, tp, *from, *to)?;
            self.check_in_sync(world, tp)?;
        }
        self.hear_members(world, seen)?;
        self.hear_clients(world, seen)?;
        self.note_sent(world, &touched.sent);
        for acknowledged in &touched.acknowledged {
            self.check_told(world, acknowledged)?;
            self.check_acknowledged(acknowledged)?;
        }
        Ok(())
    }

    /// Looks at everything there is.
    pub fn everything(&mut self, world: &World) -> Verdict {
        self.quorum.forget_compared();
        self.partitions.values_mut().for_each(|watch| watch.compared.clear());
        for (node, _) in world.processes() {
            self.follow_metadata(world, node)?;
            self.check_image(world, node)?;
            purgatory::check(world, node)?;
            ShareWatch::check_locks(world, node)?;
            if let NodeId::Broker(broker) = node {
                self.counts.offsets_compared += self.coordinators.check(world, broker)?;
            }
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
        self.follow_records(world);
        self.seen = world.trace().len_ever();
        for (tp, first, last) in &touched.written {
            self.written.entry(tp.clone()).or_default().insert((*first, *last));
        }
        for (broker, act) in &touched.acts {
            self.on_act(world, *broker, act);
        }
        for broker in &touched.wiped {
            self.on_loss(*broker);
        }
        for (broker, tp, offset) in &touched.changed_from {
            if let Some(watch) = self.partitions.get_mut(tp) {
                watch.compared.entry(*broker).and_modify(|compared| *compared = (*offset).min(*compared));
            }
        }
        touched
    }

    /// A transaction that has not come to its end.
    pub fn unsettled_transaction(&self, world: &World) -> Option<String> {
        self.transactions.unsettled(world)
    }

    /// Whether a coordinator may have lost what was written of an id.
    pub fn has_lost_transactions(&self, world: &World, id: &TransactionalId) -> bool {
        self.transactions.has_lost(world, id)
    }

    /// Transactions that nobody will end, as something was lost: where each begins.
    pub fn hanging_transactions(&self, world: &World) -> Vec<(TopicPartition, Offset)> {
        self.transactions.hanging(world)
    }

    /// Long after the last fault: what was decided is completed.
    pub fn check_decided(&self, world: &World) -> Verdict {
        self.transactions.check_decided(world)
    }

    /// At rest: transactions have ended as it was decided, and applications have done their `work`.
    pub fn check_transactions(&mut self, world: &World, work: Option<Work<'_>>) -> Verdict {
        self.transactions.check_ends(world, &mut self.counts)?;
        let Some(work) = work else { return Ok(()) };
        let topic = self.metadata.image.topic(&Topic::new("__consumer_offsets"));
        let Some(count) = topic.map(|topic| topic.partitions.len() as i32) else { return Ok(()) };
        let partition = partition_for(work.group.as_str(), count);
        let committed = |tp: &TopicPartition| self.coordinators.committed(partition, work.group, tp);
        self.transactions.check_outputs(world, &work, committed, &mut self.counts)
    }

    /// What happened to members of groups from event number `seen` on.
    fn hear_members(&mut self, world: &World, seen: u64) -> Verdict {
        let (partitions, image) = (&self.partitions, &self.metadata.image);
        let has_state = |group: &GroupId, tp: &TopicPartition| {
            let states = Topic::new(SHARE_STATE_TOPIC);
            let (Some(topic), Some(shared)) = (image.topic(&states), image.topic(&tp.topic)) else {
                return false;
            };
            let key = ShareKey { group: group.clone(), topic_id: shared.id, partition: tp.partition };
            let partition = key.coordinator_partition(topic.partitions.len() as i32);
            let watch = partitions.get(&TopicPartition::new(&states, partition));
            watch.is_some_and(|watch| !watch.is_torn && watch.since == Time::ZERO)
        };
        let is_kept = |group: &GroupId| {
            let offsets = Topic::new("__consumer_offsets");
            let Some(topic) = image.topic(&offsets) else { return false };
            let partition = partition_for(group.as_str(), topic.partitions.len() as i32);
            let watch = partitions.get(&TopicPartition::new(&offsets, partition));
            watch.is_some_and(|watch| !watch.is_torn && watch.since == Time::ZERO)
        };
        let kept = |group: &GroupId, tp: &TopicPartition| Kept {
            states: has_state(group, tp),
            group: is_kept(group),
        };
        for entry in world.trace().since(seen) {
            self.stranded.hear(&entry.event);
            self.coordinators.hear(entry.key.time, &entry.event);
            self.members.hear(world, entry.key.time, &entry.event, is_kept, &mut self.counts)?;
            self.shares.hear(world, &entry.event, kept, &mut self.counts)?;
            let leads = |tp: &TopicPartition, epoch: LeaderEpoch| {
                image.partition(tp).is_some_and(|registration| registration.leader_epoch <= epoch)
            };
            self.transactions.hear(world, &entry.event, leads, &mut self.counts)?;
        }
        Ok(())
    }

    /// What clients were given and told from event number `seen` on.
    fn hear_clients(&mut self, world: &World, seen: u64) -> Verdict {
        let partitions = &self.partitions;
        let is_whole = |tp: &TopicPartition| {
            partitions.get(tp).is_some_and(|watch| !watch.is_torn && watch.since == Time::ZERO)
        };
        for entry in world.trace().since(seen) {
            let is_kept = |id: &TransactionalId| is_whole(&state_partition(world, id));
            self.producer_ids.hear(world, &entry.event, is_kept)?;
            self.positions.hear(world, &entry.event, is_whole, &mut self.counts)?;
        }
        Ok(())
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

    fn follow_metadata(&mut self, world: &World, node: NodeId) -> Verdict {
        self.checks += 1;
        self.quorum.check(world, node)?;
        self.lives.check_quorum(world, node)?;
        let Some((raft, _)) = sight::raft(world, node) else { return Ok(()) };
        if raft.log().high_watermark() <= self.metadata.image.next_offset {
            return Ok(());
        }
        let (log, seen) = (raft.log(), self.metadata.image.next_offset);
        let mut news = Vec::new();
        if raft.role() == QuorumRole::Leader
            && log.start_offset() > seen
            && let Some(snapshot) = log.snapshots().first()
        {
            news = self.metadata.take_over(snapshot, world.broker_config());
        }
        news.extend(self.metadata.follow(log, world.broker_config())?);
        // All of it is replayed: who may lack something by its end is not held to what was before.
        for news in &news {
            match news {
                News::Unclean(tp, leader) => self.on_unclean_election(world, tp, *leader),
                News::BeganAnew(broker) => self.on_registration_after_loss(*broker),
                News::Changed(_) | News::Removed => {}
            }
        }
        for news in news {
            match news {
                News::Changed(tp) => {
                    self.note_registration(world, &tp);
                    self.check_in_sync(world, &tp)?;
                }
                News::Removed => {
                    let (image, former) = (&self.metadata.image, &mut self.former);
                    self.partitions.retain(|tp, watch| {
                        let is_there = image.topic_name(watch.topic_id) == Some(&tp.topic);
                        if !is_there {
                            former.insert(watch.topic_id, tp.topic.clone());
                        }
                        is_there
                    });
                }
                News::Unclean(..) | News::BeganAnew(_) => {}
            }
        }
        Ok(())
    }

    /// A partition is new, or its replicas are.
    fn note_registration(&mut self, world: &World, tp: &TopicPartition) {
        let image = &self.metadata.image;
        let (Some(topic), Some(registration)) = (image.topic(&tp.topic), image.partition(tp)) else { return };
        let watch = self.partitions.entry(tp.clone()).or_insert_with(|| {
            let is_compacted = image.topic_config(&tp.topic, world.broker_config()).log.compacted;
            PartitionWatch::new(topic.id, world.now(), is_compacted)
        });
        watch.note_in_sync(&registration.isr, registration.leader);
        let leader = sight::replica(world, registration.leader, tp);
        let leader = leader.filter(|replica| replica.leader_epoch == registration.leader_epoch);
        if let Some(leadership) = leader.and_then(|replica| replica.leader()) {
            self.note_passed_over(tp, &leadership.isr);
        }
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
            Some(image) if *image != self.metadata.image => {
                Err(Check::Images.broken(format!("{node} replayed another image")))
            }
            _ => Ok(()),
        }
    }
}
