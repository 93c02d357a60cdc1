//! The share coordinator's ground: its partitions of `__share_group_state`, its writes and its timers (R-SHARE-3).
//!
//! Mirrors `CoordinatorRuntime` and `CoordinatorLoader` under `ShareCoordinatorService`.

use kafka_protocol::messages::create_topics_request::CreatableTopic;

use super::admin::{automatic_topic, topic_config};
use super::groups::batch_of;
use super::process::Broker;
use super::timer::BrokerTimer;
use crate::kafka::effects::{Effects, RequestId};
use crate::kafka::protocol::coordinator_records::CoordinatorRecord;
use crate::kafka::protocol::{ErrorCode, Request};
use crate::kafka::share::coordinator::{ShareEffects, ShareTimer, asks_of, response_of};
use crate::kafka::share::{ShareCoordinator, ShareKey};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, LeaderEpoch, Offset, Topic, TopicId, TopicPartition};

pub const SHARE_STATE_TOPIC: &str = "__share_group_state";

fn state_partition(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new(SHARE_STATE_TOPIC), partition)
}

fn is_state(tp: &TopicPartition) -> bool {
    tp.topic.as_str() == SHARE_STATE_TOPIC
}

impl Broker {
    /// Section 10: how `__share_group_state` is created (`shareGroupStateTopicConfigs`).
    pub(super) fn share_state_topic(&self) -> CreatableTopic {
        let config = &self.config.share_coordinator;
        automatic_topic(&SHARE_STATE_TOPIC.into())
            .with_num_partitions(config.state_topic_num_partitions)
            .with_replication_factor(config.state_topic_replication_factor)
            .with_configs(vec![
                topic_config("cleanup.policy", "delete".to_string()),
                topic_config("compression.type", "producer".to_string()),
                topic_config("segment.bytes", config.state_topic_segment_bytes.to_string()),
                topic_config("min.insync.replicas", config.state_topic_min_isr.to_string()),
                topic_config("retention.ms", "-1".to_string()),
            ])
    }

    /// Who keeps the state of a share partition. `__share_group_state` is created when it is first asked for.
    pub(super) fn share_coordinator(
        &mut self,
        now: Time,
        key: &ShareKey,
        fx: &mut Effects<BrokerTimer>,
    ) -> Result<BrokerId, ErrorCode> {
        let partitions = self.config.share_coordinator.state_topic_num_partitions;
        let tp = state_partition(key.coordinator_partition(partitions));
        self.coordinator_at(now, &tp, Broker::share_state_topic, fx)
    }

    pub(super) fn on_share_state_request(
        &mut self,
        now: Time,
        id: RequestId,
        request: &Request,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let image = self.image.clone();
        let exists = |key: &ShareKey| {
            image.topic_by_id(key.topic_id).is_some_and(|topic| {
                image.partition(&TopicPartition::new(&topic.name, key.partition)).is_some()
            })
        };
        self.at_share_coordinator(now, fx, |coordinator, part| {
            coordinator.ask(now, (id, request.api()), asks_of(request), &exists, part);
        });
    }

    pub(super) fn on_share_timer(&mut self, now: Time, timer: &ShareTimer, fx: &mut Effects<BrokerTimer>) {
        self.at_share_coordinator(now, fx, |coordinator, part| coordinator.on_timer(now, timer, part));
    }

    /// Due every `share.coordinator.cold.partition.snapshot.interval.ms` as long as something is coordinated here.
    pub(super) fn write_share_snapshots(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        self.at_share_coordinator(now, fx, |coordinator, part| coordinator.write_cold_snapshots(now, part));
        if self.share_states.shards().next().is_some() {
            self.schedule_share_snapshots(now, fx);
        }
    }

    fn schedule_share_snapshots(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let interval_ms = self.config.share_coordinator.cold_partition_snapshot_interval_ms;
        fx.set_timer(BrokerTimer::ShareSnapshots, now.plus_ms(interval_ms));
    }

    /// Needless records go as long as something is coordinated here.
    pub(super) fn prune_share_states(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        for (partition, before) in self.share_states.prunable() {
            let tp = state_partition(partition);
            let deleted = self.with_replicas(now, fx, |replicas, step| {
                replicas.delete_records_as_coordinator(&tp, before, step)
            });
            // What could not be deleted is next time.
            if deleted.is_ok() {
                self.share_states.on_pruned(partition, before);
            }
        }
        if self.share_states.shards().next().is_some() {
            self.schedule_share_pruning(now, fx);
        }
    }

    fn schedule_share_pruning(&mut self, now: Time, fx: &mut Effects<BrokerTimer>) {
        let interval_ms = self.config.share_coordinator.state_topic_prune_interval_ms;
        fx.set_timer(BrokerTimer::PruneShareStates, now.plus_ms(interval_ms));
    }

    pub(super) fn on_share_state_elected(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        leader_epoch: LeaderEpoch,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !is_state(tp) {
            return;
        }
        if self.share_states.shards().next().is_none() {
            self.schedule_share_snapshots(now, fx);
            self.schedule_share_pruning(now, fx);
        }
        if self.share_states.on_elected(tp.partition, leader_epoch) {
            fx.set_timer(BrokerTimer::ShareStateLoaded(tp.partition), self.loaded_at(now, tp));
        }
    }

    pub(super) fn on_share_state_resigned(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if !is_state(tp) {
            return;
        }
        fx.cancel_timer(BrokerTimer::ShareStateLoaded(tp.partition));
        self.at_share_coordinator(now, fx, |coordinator, part| {
            coordinator.on_resigned(now, tp.partition, part);
        });
        if self.share_states.shards().next().is_none() {
            fx.cancel_timer(BrokerTimer::ShareSnapshots);
            fx.cancel_timer(BrokerTimer::PruneShareStates);
        }
    }

    pub(super) fn on_share_state_committed(
        &mut self,
        now: Time,
        tp: &TopicPartition,
        high_watermark: Offset,
        fx: &mut Effects<BrokerTimer>,
    ) {
        if is_state(tp) {
            self.at_share_coordinator(now, fx, |coordinator, part| {
                coordinator.on_high_watermark(now, tp.partition, high_watermark, part);
            });
        }
    }

    pub(super) fn forget_share_states(
        &mut self,
        now: Time,
        is_deleted: impl Fn(TopicId) -> bool,
        fx: &mut Effects<BrokerTimer>,
    ) {
        self.at_share_coordinator(now, fx, |coordinator, part| {
            coordinator.on_topics_deleted(now, is_deleted, part);
        });
    }

    /// The replay ends: everything in the log is known to the coordinator now.
    pub(super) fn finish_loading_share_states(
        &mut self,
        now: Time,
        partition: i32,
        fx: &mut Effects<BrokerTimer>,
    ) {
        let Some(replica) = self.replicas.partition(&state_partition(partition)) else { return };
        let log = &replica.log;
        let records = log.records_between(log.log_start_offset(), log.log_end_offset());
        let records = records.expect("a replica holds only batches that were checked");
        let records = records.into_iter().map(|record| {
            let key = record.key.unwrap_or_default();
            (record.offset, CoordinatorRecord { key, value: record.value })
        });
        let high_watermark = log.high_watermark();
        self.at_share_coordinator(now, fx, |coordinator, part| {
            let loaded = coordinator.on_loaded(now, partition, records, high_watermark, part);
            loaded.expect("the log of the coordinator holds what a coordinator wrote");
        });
    }

    /// Runs one of the coordinator's steps and carries out what it asked for: its effects, then its writes, each with
    /// what follows from it.
    fn at_share_coordinator(
        &mut self,
        now: Time,
        fx: &mut Effects<BrokerTimer>,
        run: impl FnOnce(&mut ShareCoordinator, &mut ShareEffects),
    ) {
        let mut part = ShareEffects::default();
        run(&mut self.share_states, &mut part);
        self.carry_out_for_shares(now, part, fx);
    }

    fn carry_out_for_shares(&mut self, now: Time, part: ShareEffects, fx: &mut Effects<BrokerTimer>) {
        fx.absorb(part.effects);
        for answered in part.answered {
            fx.respond(answered.id, response_of(answered));
        }
        for append in part.appends {
            let (partition, token) = (append.partition, append.token);
            let (tp, batch) = (state_partition(partition), batch_of(&append.records, now));
            let written = self
                .with_replicas(now, fx, |replicas, step| replicas.append_as_coordinator(&tp, batch, step));
            let mut follow_up = ShareEffects::default();
            let coordinator = &mut self.share_states;
            match written {
                Ok(last_offset) => {
                    coordinator.on_appended(now, partition, token, last_offset, &mut follow_up);
                }
                Err(error) => coordinator.on_append_failed(now, partition, token, error, &mut follow_up),
            }
            self.carry_out_for_shares(now, follow_up, fx);
        }
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages as m;
    use kafka_protocol::messages::read_share_group_state_request as read;
    use kafka_protocol::messages::read_share_group_state_response::PartitionResult;

    use super::*;
    use crate::kafka::broker::shares::tests::lab::{GROUP, Lab, TOPIC};
    use crate::kafka::protocol::Response;
    use crate::kafka::protocol::share::{
        WritePartition, WriteShareGroupStateRequest, WriteStateBatch, WriteTopic,
    };

    fn read(lab: &mut Lab, partition: i32, leader_epoch: i32) -> PartitionResult {
        let partition =
            read::PartitionData::default().with_partition(partition).with_leader_epoch(leader_epoch);
        let topic = read::ReadStateData::default().with_topic_id(TOPIC.0).with_partitions(vec![partition]);
        let request =
            m::ReadShareGroupStateRequest::default().with_group_id(GROUP.into()).with_topics(vec![topic]);
        match lab.ask(request) {
            Response::ReadShareGroupState(response) => response.results[0].partitions[0].clone(),
            other => panic!("{other:?}"),
        }
    }

    fn write(lab: &mut Lab, leader_epoch: i32) -> ErrorCode {
        let batch = WriteStateBatch { first_offset: 3, last_offset: 4, delivery_state: 0, delivery_count: 1 };
        let partition = WritePartition {
            partition: 0,
            state_epoch: 0,
            leader_epoch,
            start_offset: 3,
            delivery_complete_count: 0,
            state_batches: vec![batch],
        };
        let topics = vec![WriteTopic { topic_id: TOPIC.0, partitions: vec![partition] }];
        match lab.ask(WriteShareGroupStateRequest { group_id: GROUP.into(), topics }) {
            Response::WriteShareGroupState(response) => {
                ErrorCode::from_code(response.0.results[0].partitions[0].error_code)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_broker_keeps_states_and_finds_them_again_when_it_restarts_r_share_3() {
        let mut lab = Lab::new(&[]);
        assert_eq!(read(&mut lab, 1, 1).error_code, ErrorCode::InvalidRequest.code(), "it has not begun");
        assert_eq!(read(&mut lab, 0, 1).start_offset, -1);
        assert_eq!(write(&mut lab, 1), ErrorCode::None);
        lab.restart();
        let state = read(&mut lab, 0, 2);
        assert_eq!((state.start_offset, state.state_batches.len()), (3, 1));
        assert_eq!(write(&mut lab, 1), ErrorCode::FencedLeaderEpoch, "another leads");
    }

    /// `performRecordPruning`: what a later snapshot has made needless goes every five minutes.
    #[test]
    fn needless_records_are_deleted_from_the_log_r_share_3() {
        let mut lab = Lab::new(&[]);
        assert_eq!(write(&mut lab, 1), ErrorCode::None);
        let key = ShareKey { group: GROUP.into(), topic_id: TOPIC, partition: 0 };
        let tp = state_partition(key.coordinator_partition(50));
        let bounds = |lab: &Lab| {
            let log = &lab.broker.replicas().partition(&tp).expect("it is led here").log;
            (log.log_start_offset(), log.log_end_offset())
        };
        assert_eq!(bounds(&lab), (Offset(0), Offset(2)));
        // A snapshot follows when there was none for five minutes.
        lab.run_for(910_000);
        let (start, end) = bounds(&lab);
        assert!(start >= Offset(2) && end > start, "{start} to {end}");
        lab.restart();
        let state = read(&mut lab, 0, 2);
        assert_eq!((state.start_offset, state.state_batches.len()), (3, 1));
    }

    #[test]
    fn the_coordinator_is_the_leader_of_the_keys_partition_r_share_3() {
        let mut lab = Lab::new(&[]);
        let key = ShareKey { group: GROUP.into(), topic_id: TOPIC, partition: 0 }.to_string();
        let request = |key: String| {
            m::FindCoordinatorRequest::default().with_key_type(2).with_coordinator_keys(vec![key.into()])
        };
        for (key, expected) in [(key, (1, 0)), ("g".to_string(), (-1, ErrorCode::InvalidRequest.code()))] {
            let Response::FindCoordinator(found) = lab.ask(request(key)) else { panic!("another answer") };
            let found = &found.coordinators[0];
            assert_eq!((found.node_id.0, found.error_code), expected);
        }
    }
}
