//! Asking the controller for other in-sync sets, many partitions in one request, one request at a time.
//!
//! Mirrors `DefaultAlterPartitionManager` and `Partition.handleAlterPartitionError` (R-REPL-25, 26).
//!
//! **Invariant:** a partition has at most one change on its way.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use kafka_protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};

use super::process::{Broker, Purpose};
use super::timer::BrokerTimer;
use crate::kafka::effects::{Channel, Effects};
use crate::kafka::event::Event;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::replication::Partition;
use crate::kafka::replication::isr::IsrState;
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerEpoch, BrokerId, TopicId, TopicPartition};

/// After a failed request all of them are sent again.
const RETRY_MS: i64 = 50;

#[derive(Clone, Debug)]
struct Pending {
    topic_id: TopicId,
    data: PartitionData,
    /// The leader's state that waits for the answer.
    proposed: IsrState,
}

#[derive(Clone, Debug, Default)]
pub struct AlterPartitionManager {
    pending: BTreeMap<TopicPartition, Pending>,
    in_flight: bool,
    /// Waits before the next attempt.
    resting: bool,
}

impl AlterPartitionManager {
    /// Takes up the change that a leader wants. False while an earlier one of the partition has no answer
    /// (OPERATION_NOT_ATTEMPTED).
    pub fn submit(
        &mut self,
        me: BrokerId,
        epoch: BrokerEpoch,
        partition: &Partition,
        fx: &mut Effects<BrokerTimer>,
    ) -> bool {
        let Some(leader) = partition.leader() else { return true };
        if self.pending.contains_key(&partition.tp) {
            return false;
        }
        let isr = leader.isr.wanted();
        let seen_epoch = |id: BrokerId| match id {
            id if id == me => epoch.0,
            id => leader.remotes.get(&id).and_then(|remote| remote.broker_epoch).map_or(-1, |epoch| epoch.0),
        };
        let members = isr
            .iter()
            .map(|id| BrokerState::default().with_broker_id(id.0.into()).with_broker_epoch(seen_epoch(*id)));
        let data = PartitionData::default()
            .with_partition_index(partition.tp.partition)
            .with_leader_epoch(partition.leader_epoch.0)
            .with_new_isr_with_epochs(members.collect())
            .with_partition_epoch(partition.partition_epoch.0);
        let out_of_sync = match &leader.isr {
            IsrState::PendingShrink { out_of_sync, .. } => out_of_sync.clone(),
            _ => Vec::new(),
        };
        let (tp, proposed) = (partition.tp.clone(), leader.isr.clone());
        fx.event(Event::IsrChangeProposed { broker: me, tp: tp.clone(), isr, out_of_sync });
        self.pending.insert(tp, Pending { topic_id: partition.topic_id, data, proposed });
        true
    }

    /// The partition is not here any more.
    pub fn forget(&mut self, tp: &TopicPartition) {
        self.pending.remove(tp);
    }

    pub fn wake(&mut self) {
        self.resting = false;
    }
}

impl Broker {
    pub(super) fn send_alter_partition(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let manager = &mut self.alter_partition;
        if manager.in_flight || manager.resting || manager.pending.is_empty() {
            return;
        }
        manager.in_flight = true;
        let mut topics: BTreeMap<TopicId, Vec<PartitionData>> = BTreeMap::new();
        for pending in manager.pending.values() {
            topics.entry(pending.topic_id).or_default().push(pending.data.clone());
        }
        let topics = topics
            .into_iter()
            .map(|(id, data)| TopicData::default().with_topic_id(id.0).with_partitions(data));
        let request = AlterPartitionRequest::default()
            .with_broker_id(self.id.0.into())
            .with_broker_epoch(self.lifecycle.epoch().0)
            .with_topics(topics.collect());
        self.ask_controller(now, Channel::AlterPartition, request, Purpose::AlterPartition, fx);
    }

    pub(super) fn partitions_altered(
        &mut self,
        now: Time,
        response: &AlterPartitionResponse,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.alter_partition.in_flight = false;
        if response.error_code != 0 {
            return self.rest(now, fx);
        }
        for topic in &response.topics {
            let Some(name) = self.image.topic_name(TopicId(topic.topic_id)).cloned() else { continue };
            for answer in &topic.partitions {
                let tp = TopicPartition::new(&name, answer.partition_index);
                self.partition_altered(now, &tp, answer, fx);
            }
        }
    }

    fn partition_altered(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        answer: &kafka_protocol::messages::alter_partition_response::PartitionData,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Some(pending) = self.alter_partition.pending.remove(tp) else { return };
        // The metadata log may have overtaken the answer, in this leader epoch or by a newer one.
        let current = self.replicas.partition(tp).is_some_and(|partition| {
            let waits = partition.leader().is_some_and(|leader| leader.isr == pending.proposed);
            waits && partition.leader_epoch.0 == pending.data.leader_epoch
        });
        if !current {
            return;
        }
        match ErrorCode::from_code(answer.error_code) {
            ErrorCode::None => {
                let isr = answer.isr.iter().map(|id| BrokerId(id.0)).collect();
                self.with_replicas(now, fx, |replicas, step| {
                    replicas.isr_committed(tp, isr, answer.partition_epoch, step);
                });
            }
            error => {
                if !self.replicas.isr_refused(tp, error) {
                    return;
                }
                self.alter_partition.pending.insert(tp.clone(), pending);
                self.rest(now, fx);
            }
        }
    }

    fn rest(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        self.alter_partition.resting = true;
        fx.set_timer(BrokerTimer::AlterPartition, now.plus_ms(RETRY_MS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::controller::image::PartitionRegistration;
    use crate::kafka::protocol::metadata_records::RecoveryState;
    use crate::kafka::types::{LeaderEpoch, PartitionEpoch};

    #[test]
    fn a_second_change_of_a_partition_is_not_attempted_while_the_first_has_no_answer() {
        let me = BrokerId(1);
        let registration = |epoch: i32| PartitionRegistration {
            replicas: vec![me, BrokerId(2)],
            removing: Vec::new(),
            adding: Vec::new(),
            isr: vec![me, BrokerId(2)],
            elr: Vec::new(),
            last_known_elr: Vec::new(),
            leader: me,
            recovery: RecoveryState::Recovered,
            leader_epoch: LeaderEpoch(epoch),
            partition_epoch: PartitionEpoch(epoch),
        };
        let tp = TopicPartition::new(&"t".into(), 0);
        let mut partition =
            Partition::new(tp.clone(), TopicId::default(), Default::default(), Default::default());
        let mut manager = AlterPartitionManager::default();
        let mut submitted = |epoch: i32| {
            partition.make_leader(me, &registration(epoch), Time::ZERO);
            partition.leader_mut().expect("it leads").shrink(vec![BrokerId(2)]);
            let taken = manager.submit(me, BrokerEpoch(7), &partition, &mut Effects::default());
            (taken, manager.pending[&tp].data.leader_epoch)
        };
        assert_eq!(submitted(1), (true, 1));
        assert_eq!(submitted(3), (false, 1), "R-REPL-26: OPERATION_NOT_ATTEMPTED");
    }
}
