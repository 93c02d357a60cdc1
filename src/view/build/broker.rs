//! Brokers, their replicas and the controller, as the view shows them.
//!
//! Who is in sync is the controller's word; whether a replica leads and what it holds is the broker's own while it lives.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::faults::Faults;
use super::internal::{internal_topics, is_internal};
use super::log::{cells, last_stable};
use super::reuse::{keep_array, keep_list};
use super::transaction::Transactions;
use crate::kafka::broker::{Broker, BrokerState, Disk};
use crate::kafka::controller::Controller;
use crate::kafka::controller::image::{ClusterImage, PartitionRegistration};
use crate::kafka::log::Log;
use crate::kafka::raft::QuorumRole;
use crate::kafka::replication::Partition;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ControllerId, LeaderEpoch, Offset, TopicPartition};
use crate::view::model::{BrokerView, ControllerView, Flag, Health, ReplicaView, Role, Standing};

/// A broker's process, or what it left.
#[derive(Clone, Copy)]
pub enum BrokerProcess<'a> {
    Alive { broker: &'a Broker, frozen: bool },
    Dead(&'a Disk),
}

/// One broker of the cluster.
#[derive(Clone, Copy)]
pub struct BrokerSource<'a> {
    pub id: BrokerId,
    pub rack: Option<&'a str>,
    pub process: BrokerProcess<'a>,
}

impl<'a> BrokerSource<'a> {
    pub fn alive(&self) -> Option<&'a Broker> {
        match self.process {
            BrokerProcess::Alive { broker, .. } => Some(broker),
            BrokerProcess::Dead(_) => None,
        }
    }

    /// Its logs with what the process knows of them.
    pub(super) fn logs(&self) -> Vec<(&'a TopicPartition, &'a Log, Option<&'a Partition>)> {
        match self.process {
            BrokerProcess::Alive { broker, .. } => {
                broker.replicas().partitions().map(|each| (&each.tp, &each.log, Some(&**each))).collect()
            }
            BrokerProcess::Dead(disk) => {
                disk.replicas.logs.iter().map(|(tp, (_, log))| (tp, log, None)).collect()
            }
        }
    }
}

/// What every broker's view needs to know of the others.
pub struct Cluster<'a> {
    pub now: Time,
    /// The controller's.
    pub image: &'a ClusterImage,
    pub brokers: &'a [BrokerSource<'a>],
    pub faults: &'a Faults,
    pub transactions: &'a Transactions,
    /// Committed offsets and positions.
    pub flags: &'a BTreeMap<TopicPartition, Vec<Flag>>,
    /// The largest log end of each partition.
    pub ends: BTreeMap<TopicPartition, Offset>,
}

impl<'a> Cluster<'a> {
    pub fn new(
        now: Time,
        image: &'a ClusterImage,
        brokers: &'a [BrokerSource<'a>],
        flags: &'a BTreeMap<TopicPartition, Vec<Flag>>,
        faults: &'a Faults,
        transactions: &'a Transactions,
    ) -> Cluster<'a> {
        let mut ends = BTreeMap::new();
        for (tp, log, _) in brokers.iter().flat_map(BrokerSource::logs) {
            let end: &mut Offset = ends.entry(tp.clone()).or_default();
            *end = log.log_end_offset().max(*end);
        }
        Cluster { now, image, brokers, faults, transactions, flags, ends }
    }

    pub fn broker(&self, id: BrokerId) -> Option<&BrokerSource<'a>> {
        self.brokers.iter().find(|broker| broker.id == id)
    }

    /// A partition's log at its leader, while that lives.
    pub fn led_log(&self, tp: &TopicPartition) -> Option<&'a Log> {
        let leader = self.image.partition(tp)?.leader;
        let partition = self.broker(leader)?.alive()?.replicas().partition(tp)?;
        Some(&partition.log)
    }
}

/// Brokers are the active controller's business; the others only replay.
pub fn controller_view(
    id: ControllerId,
    controller: Option<&Controller>,
    health: Health,
    faults: &Faults,
) -> ControllerView {
    let active = controller.filter(|controller| controller.active_epoch().is_some());
    let brokers = active.into_iter().flat_map(|controller| &controller.image().brokers);
    let (fenced, unfenced): (Vec<_>, Vec<_>) = brokers.partition(|(_, registration)| registration.fenced);
    let ids = |brokers: Vec<(&BrokerId, _)>| brokers.into_iter().map(|(id, _)| *id).collect();
    let state = match (health, controller) {
        (Health::Dead, _) | (_, None) => "dead".to_owned(),
        (Health::Frozen, _) => "stands still".to_owned(),
        (Health::Running | Health::Waiting, Some(controller)) => quorum_role(controller),
    };
    ControllerView {
        id,
        health,
        state: state.into(),
        unfenced: ids(unfenced),
        fenced: ids(fenced),
        faults: faults.of_node(id),
    }
}

fn quorum_role(controller: &Controller) -> String {
    let raft = controller.raft();
    match (controller.active_epoch(), raft.role()) {
        (Some(epoch), _) => format!("active, epoch {epoch}"),
        (None, QuorumRole::Follower) => QuorumRole::Follower.name().to_owned(),
        (None, role) => format!("{}, epoch {}", role.name(), raft.epoch()),
    }
}

pub fn broker_view(
    source: &BrokerSource<'_>,
    cluster: &Cluster<'_>,
    before: Option<&BrokerView>,
) -> BrokerView {
    let (health, state) = state(source, cluster);
    let logs = source.logs();
    let replicas =
        logs.iter().filter(|(tp, ..)| !is_internal(tp.topic.as_str())).map(|(tp, log, partition)| {
            let before = before.and_then(|view| view.replicas.iter().find(|replica| replica.tp == **tp));
            replica_view(source, cluster, tp, log, *partition, before.map(|view| &**view))
        });
    let replicas = keep_list(before.map(|view| &view.replicas), replicas, |a, b| a.tp == b.tp);
    BrokerView {
        id: source.id,
        rack: source.rack.map(Rc::from),
        health,
        state: state.into(),
        waiting: waiting(source, cluster).map(Rc::from),
        faults: cluster.faults.of_node(source.id),
        replicas,
        internal: internal_topics(source, cluster, &logs, before),
    }
}

/// A running broker's state needs no word.
fn state(source: &BrokerSource<'_>, cluster: &Cluster<'_>) -> (Health, &'static str) {
    let fenced = !cluster.image.is_active(source.id);
    match source.process {
        BrokerProcess::Dead(_) => (Health::Dead, "dead"),
        BrokerProcess::Alive { frozen: true, .. } => (Health::Frozen, "stands still"),
        BrokerProcess::Alive { broker, .. } => match broker.state() {
            BrokerState::Starting => (Health::Waiting, "starting"),
            BrokerState::Recovery => (Health::Waiting, "fenced"),
            BrokerState::Running if fenced => (Health::Waiting, "fenced"),
            BrokerState::PendingControlledShutdown | BrokerState::ShuttingDown => {
                (Health::Waiting, "stopping")
            }
            BrokerState::Running => (Health::Running, ""),
        },
    }
}

fn waiting(source: &BrokerSource<'_>, cluster: &Cluster<'_>) -> Option<&'static str> {
    let in_service = cluster.image.is_active(source.id);
    match source.process {
        BrokerProcess::Dead(_) | BrokerProcess::Alive { frozen: true, .. } if in_service => {
            Some("The controller has not noticed yet.")
        }
        BrokerProcess::Dead(_) => None,
        BrokerProcess::Alive { broker, .. } => match broker.state() {
            BrokerState::Starting => Some("Registers, then reads the metadata log."),
            BrokerState::Recovery => Some("Waits for the controller to unfence it."),
            BrokerState::PendingControlledShutdown | BrokerState::ShuttingDown => {
                Some("Waits until others lead what it led.")
            }
            BrokerState::Running => None,
        },
    }
}

fn replica_view(
    source: &BrokerSource<'_>,
    cluster: &Cluster<'_>,
    tp: &TopicPartition,
    log: &Log,
    partition: Option<&Partition>,
    before: Option<&ReplicaView>,
) -> ReplicaView {
    let registration = cluster.image.partition(tp).map(|registration| &**registration);
    let leads = match partition {
        Some(partition) => partition.is_leader(),
        None => registration.is_some_and(|registration| registration.leader == source.id),
    };
    let leader_epoch = match (partition, registration) {
        (Some(partition), _) => partition.leader_epoch,
        (None, Some(registration)) => registration.leader_epoch,
        (None, None) => LeaderEpoch::NONE,
    };
    let mut in_sync =
        registration.filter(|_| leads).map(|registration| registration.isr.clone()).unwrap_or_default();
    in_sync.sort();
    let flags = cluster.flags.get(tp).filter(|_| leads).cloned().unwrap_or_default();
    let (standing, why_out) = standing(source, cluster, registration, tp, log);
    let open = cluster.transactions.open_in(tp, log, cluster);
    ReplicaView {
        tp: tp.clone(),
        broker: source.id,
        role: if leads { Role::Leader } else { Role::Follower },
        leader_epoch,
        standing,
        why_out: why_out.map(Rc::from),
        log_start: log.log_start_offset(),
        high_watermark: log.high_watermark(),
        last_stable: last_stable(log),
        log_end: log.log_end_offset(),
        open: keep_array(before.map(|view| &view.open), open),
        size_bytes: log.size_bytes(),
        axis_end: cluster.ends.get(tp).copied().unwrap_or_default(),
        cells: cells(log, leader_epoch, before),
        flags: keep_array(before.map(|view| &view.flags), flags),
        in_sync: keep_array(before.map(|view| &view.in_sync), in_sync),
    }
}

fn standing(
    source: &BrokerSource<'_>,
    cluster: &Cluster<'_>,
    registration: Option<&PartitionRegistration>,
    tp: &TopicPartition,
    log: &Log,
) -> (Standing, Option<String>) {
    if let BrokerProcess::Dead(_) = source.process {
        return (Standing::Offline, Some("broker down".to_owned()));
    }
    match registration {
        Some(registration) if registration.isr.contains(&source.id) => (Standing::InSync, None),
        Some(registration) => {
            let why = why_out(source, cluster, registration.leader, tp, log);
            (Standing::OutOfSync, Some(why))
        }
        None => (Standing::OutOfSync, Some("unknown to the controller".to_owned())),
    }
}

/// Why a replica on a living broker is not in the in-sync set.
fn why_out(
    source: &BrokerSource<'_>,
    cluster: &Cluster<'_>,
    leader: BrokerId,
    tp: &TopicPartition,
    log: &Log,
) -> String {
    if !cluster.image.is_active(source.id) {
        return "fenced".to_owned();
    }
    let leading = cluster.broker(leader).and_then(BrokerSource::alive);
    let led = leading.and_then(|broker| Some((broker.replicas(), broker.replicas().partition(tp)?)));
    let Some((replicas, partition)) = led else {
        return "no leader".to_owned();
    };
    let behind = partition.log.log_end_offset() - log.log_end_offset();
    match replicas.last_caught_up_at(partition, source.id) {
        Some(at) if cluster.now.ms_since(at) >= 1000 => {
            format!("behind {} s", cluster.now.ms_since(at) / 1000)
        }
        _ if behind > 0 => format!("{behind} behind"),
        _ => "joins the ISR".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;

    /// `101: active, epoch 1 [1, 2, 3]` of each controller.
    fn controllers(session: &Session) -> Vec<String> {
        let views = model(session, None, None).controllers;
        let ids = |ids: &[crate::kafka::types::BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        views.iter().map(|view| format!("{}: {} {:?}", view.id, view.state, ids(&view.unfenced))).collect()
    }

    #[test]
    fn each_controller_is_shown_with_its_place_in_the_quorum() {
        let text = "format = 1\ncontrollers = 3\n[[broker]]\nid = 1";
        let options = Options { seed: None, strict: true };
        let mut session = Session::open(text, options).expect("it is right");
        session.run_until(Time::from_ms(500), u64::MAX);
        assert_eq!(controllers(&session), [101, 102, 103].map(|id| format!("{id}: unattached, epoch 0 []")));
        session.run_until(Time::from_ms(5_000), u64::MAX);
        let leader = session.world().active_controller().expect("one was elected").id();
        let state = |id: i32, led: &str, other: &str| match id == leader.0 {
            true => format!("{id}: {led}"),
            false => format!("{id}: {other}"),
        };
        let expected = [101, 102, 103].map(|id| state(id, "active, epoch 1 [1]", "follower []"));
        assert_eq!(controllers(&session), expected);
        for id in [101, 102, 103].into_iter().filter(|id| *id != leader.0) {
            session.command(&format!("kill controller {id}")).expect("it runs");
        }
        session.run_until(Time::from_ms(8_500), u64::MAX);
        let expected = [101, 102, 103].map(|id| state(id, "resigned, epoch 1 []", "dead []"));
        assert_eq!(controllers(&session), expected);
    }
}
