//! Whether partitions take writes: somebody who runs leads them, with enough in-sync replicas. Of topics that people made.

use std::collections::{BTreeMap, BTreeSet};

use super::{Reading, Stopwatch};
use crate::kafka::event::{Act, Event};
use crate::kafka::replication::is_internal;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, NodeId, Topic, TopicPartition};

#[derive(Clone, Debug, Default)]
pub(super) struct Leadership {
    partitions: BTreeMap<TopicPartition, Partition>,
    frozen: BTreeSet<BrokerId>,
    pub leaderless: Stopwatch,
    pub under_min_isr: Stopwatch,
    pub changes: Reading,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Fine,
    /// Led, with too few in-sync replicas for acks=all.
    UnderMinIsr,
    Leaderless,
}

#[derive(Clone, Debug)]
struct Partition {
    /// Who acts as its leader.
    leader: Option<BrokerId>,
    epoch: LeaderEpoch,
    /// Who led it last.
    last: BrokerId,
    /// As the controller has said it, if it has said anything.
    isr: Option<i32>,
    min_isr: i32,
    state: State,
}

impl Partition {
    fn new(leader: BrokerId, epoch: LeaderEpoch, min_isr: i32) -> Partition {
        Partition { leader: Some(leader), epoch, last: leader, isr: None, min_isr, state: State::Fine }
    }
}

impl Leadership {
    pub fn hear(&mut self, now: Time, event: &Event, min_isr: &dyn Fn(&Topic) -> i32) {
        match event {
            Event::BecameLeader { broker, tp, leader_epoch, .. } if !is_internal(tp.topic.as_str()) => {
                self.took_over(now, tp, *broker, *leader_epoch, min_isr(&tp.topic));
            }
            Event::BecameFollower { broker, tp, .. } | Event::ReplicaDeleted { broker, tp } => {
                self.change(now, tp, |partition| {
                    partition.leader = partition.leader.filter(|leader| leader != broker);
                });
            }
            Event::LeaderElected { tp, isr, .. }
            | Event::IsrShrunk { tp, isr, .. }
            | Event::IsrExpanded { tp, isr, .. } => {
                let min_isr = min_isr(&tp.topic);
                self.change(now, tp, |partition| {
                    partition.isr = Some(isr.len() as i32);
                    partition.min_isr = min_isr;
                });
            }
            Event::ConfigChanged { .. } | Event::BrokerConfigChanged { .. } => {
                let all: Vec<TopicPartition> = self.partitions.keys().cloned().collect();
                for tp in all {
                    self.change(now, &tp, |partition| partition.min_isr = min_isr(&tp.topic));
                }
            }
            Event::Process { node: NodeId::Broker(broker), act, .. } => self.on_act(now, *broker, act),
            Event::TopicDeleted { topic } => self.forget(now, topic),
            _ => {}
        }
    }

    fn took_over(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        broker: BrokerId,
        epoch: LeaderEpoch,
        min_isr: i32,
    ) {
        let Some(known) = self.partitions.get(tp) else {
            self.partitions.insert(tp.clone(), Partition::new(broker, epoch, min_isr));
            return;
        };
        if epoch < known.epoch {
            return;
        }
        let last = known.last;
        if last != broker {
            self.changes.count(now, || format!("{tp}, from broker {last} to broker {broker}"));
        }
        self.change(now, tp, |partition| {
            (partition.leader, partition.epoch, partition.last) = (Some(broker), epoch, broker);
            partition.min_isr = min_isr;
        });
    }

    fn on_act(&mut self, now: Time, broker: BrokerId, act: &Act) {
        match act {
            Act::Frozen => self.frozen.insert(broker),
            Act::Started | Act::Thawed | Act::Killed | Act::PowerCut | Act::Ended => {
                self.frozen.remove(&broker)
            }
        };
        let ends = matches!(act, Act::Killed | Act::PowerCut | Act::Ended);
        let led = self.partitions.iter().filter(|(_, partition)| partition.leader == Some(broker));
        let led: Vec<TopicPartition> = led.map(|(tp, _)| tp.clone()).collect();
        for tp in led {
            self.change(now, &tp, |partition| partition.leader = partition.leader.filter(|_| !ends));
        }
    }

    fn change(&mut self, now: Time, tp: &TopicPartition, change: impl FnOnce(&mut Partition)) {
        let Some(partition) = self.partitions.get_mut(tp) else { return };
        change(partition);
        let leads = partition.leader.is_some_and(|leader| !self.frozen.contains(&leader));
        let state = match (leads, partition.isr.is_some_and(|isr| isr < partition.min_isr)) {
            (false, _) => State::Leaderless,
            (true, true) => State::UnderMinIsr,
            (true, false) => State::Fine,
        };
        let before = std::mem::replace(&mut partition.state, state);
        if before == state {
            return;
        }
        let (isr, min_isr, last) = (partition.isr.unwrap_or_default(), partition.min_isr, partition.last);
        self.leave(now, before);
        match state {
            State::Fine => {}
            State::Leaderless => self.leaderless.begin(now, || format!("{tp}, led by broker {last} before")),
            State::UnderMinIsr => {
                self.under_min_isr.begin(now, || format!("{tp}, {isr} in sync of {min_isr} demanded"));
            }
        }
    }

    fn leave(&mut self, now: Time, state: State) {
        match state {
            State::Fine => {}
            State::Leaderless => self.leaderless.end(now),
            State::UnderMinIsr => self.under_min_isr.end(now),
        }
    }

    fn forget(&mut self, now: Time, topic: &Topic) {
        let of_topic = self.partitions.keys().filter(|tp| tp.topic == *topic);
        for tp in of_topic.cloned().collect::<Vec<_>>() {
            if let Some(partition) = self.partitions.remove(&tp) {
                self.leave(now, partition.state);
            }
        }
    }

    pub fn begin_anew(&mut self, now: Time) {
        self.changes = Reading::default();
        self.leaderless.begin_anew(now);
        self.under_min_isr.begin_anew(now);
    }
}
