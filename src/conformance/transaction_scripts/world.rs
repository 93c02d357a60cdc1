//! One broker that leads everything, as far as transactions go: the coordinator, the logs of two partitions, and the
//! group coordinator with its log. What is written is committed at once; markers wait until somebody delivers them.

mod asks;

use std::collections::BTreeMap;

use super::super::history::EPOCH;
use super::{Cluster, LogEnds, Transaction, name};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Channel, Effect, RequestId};
use crate::kafka::group::{At, GroupConfig, GroupCoordinator, GroupEffects};
use crate::kafka::log::{Log, LogConfig, Origin, Verification, VerificationGuard};
use crate::kafka::protocol::{ErrorCode, Response};
use crate::kafka::random::Random;
use crate::kafka::record::{Batch, BatchBuilder, BatchParameters, EndTransactionMarker, NewRecord};
use crate::kafka::time::Time;
use crate::kafka::transaction::{
    self as coordinator, Around, Asker, Destination, MarkerEntry, MarkerErrors, TransactionConfig,
    TransactionCoordinator, TransactionEffects,
};
use crate::kafka::types::{
    BrokerId, LeaderEpoch, NodeId, Offset, ProducerId, Topic, TopicPartition, TransactionalId,
};

const ME: BrokerId = BrokerId(1);
const OFFSETS: &str = "__consumer_offsets";
const ASKER: Asker = Asker {
    id: RequestId {
        from: NodeId::Client(1),
        channel: Channel::Main,
        connection: 1,
        correlation: 1,
        version: 0,
    },
    index: 0,
};

pub(super) struct World {
    id: TransactionalId,
    abort_interval_ms: i64,
    coordinator: TransactionCoordinator,
    /// Of `__transaction_state`.
    state_end: i64,
    groups: GroupCoordinator,
    image: ClusterImage,
    logs: BTreeMap<TopicPartition, Log>,
    now: Time,
    next_id: i64,
}

fn t(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new("t"), partition)
}

fn offsets() -> TopicPartition {
    TopicPartition::new(&Topic::new(OFFSETS), 0)
}

impl World {
    pub(super) fn new(cluster: &Cluster, id: &str) -> World {
        let config = TransactionConfig {
            broker: ME,
            version: cluster.version,
            max_timeout_ms: 900_000,
            transactional_id_expiration_ms: 604_800_000,
            state_log_num_partitions: 1,
            two_phase_commit_enable: false,
            request_timeout_ms: 30_000,
        };
        let group_config = GroupConfig { offsets_topic_num_partitions: 1, ..GroupConfig::default() };
        let mut world = World {
            id: TransactionalId::new(id),
            abort_interval_ms: cluster.abort_interval_ms,
            coordinator: TransactionCoordinator::new(config),
            state_end: 0,
            groups: GroupCoordinator::new(ME, group_config, Random::stream(1, "member ids")),
            image: ClusterImage::default(),
            logs: [t(0), t(1), offsets()].into_iter().map(|tp| (tp, Log::new())).collect(),
            now: Time::from_ms(1000),
            next_id: 0,
        };
        world.coordinator.on_elected(0, LeaderEpoch(0));
        world.step(|coordinator, around, fx| {
            coordinator.on_loaded(around, 0, std::iter::empty(), fx).expect("there is nothing to read");
        });
        world.at_groups(|groups, at, fx| {
            groups.on_elected(0, LeaderEpoch(0), fx);
            let loaded = groups.on_loaded(at, 0, std::iter::empty(), Offset::ZERO, Offset::ZERO, fx);
            loaded.expect("there is nothing to read");
        });
        world
    }

    /// One step of the coordinator with all that follows from it; its answer, if there is one.
    fn step(
        &mut self,
        run: impl FnOnce(&mut TransactionCoordinator, Around<'_>, &mut TransactionEffects),
    ) -> Option<coordinator::Answer> {
        let mut answer = None;
        let mut fx = TransactionEffects::default();
        self.around(|coordinator, around| run(coordinator, around, &mut fx));
        loop {
            answer = fx.answers.pop().map(|(_, answer)| answer).or(answer);
            if fx.appends.is_empty() {
                return answer;
            }
            for append in std::mem::take(&mut fx.appends) {
                self.state_end += append.records.len() as i64;
                self.coordinator.on_appended(append.partition, append.token, Offset(self.state_end - 1));
            }
            let high_watermark = Offset(self.state_end);
            self.around(|coordinator, around| {
                coordinator.on_high_watermark(around, 0, high_watermark, &mut fx);
            });
        }
    }

    fn around(&mut self, run: impl FnOnce(&mut TransactionCoordinator, Around<'_>)) {
        let next_id = &mut self.next_id;
        let mut new_id = || {
            *next_id += 1;
            Ok(ProducerId(*next_id - 1))
        };
        let leader_of = |_: &TopicPartition| Destination::Broker(ME);
        let around = Around { now: self.now, new_id: &mut new_id, leader_of: &leader_of };
        run(&mut self.coordinator, around);
    }

    /// One step of the group coordinator with all that follows from it; its answer, if there is one.
    fn at_groups(
        &mut self,
        run: impl FnOnce(&mut GroupCoordinator, At<'_>, &mut GroupEffects),
    ) -> Option<Response> {
        let mut answer = None;
        let mut fx = GroupEffects::default();
        run(&mut self.groups, At { now: self.now, image: &self.image }, &mut fx);
        loop {
            for effect in std::mem::take(&mut fx.effects).into_vec() {
                if let Effect::Respond { response, .. } = effect {
                    answer = Some((*response).clone());
                }
            }
            if fx.appends.is_empty() {
                return answer;
            }
            for append in std::mem::take(&mut fx.appends) {
                let parameters = append.writer.map(|writer| BatchParameters {
                    producer_id: writer.producer_id,
                    producer_epoch: writer.producer_epoch,
                    transactional: true,
                    ..BatchParameters::default()
                });
                let mut builder = BatchBuilder::with(parameters.unwrap_or_default());
                for record in &append.records {
                    let (key, value) = (Some(&record.key[..]), record.value.as_deref());
                    let timestamp_ms = self.now.wall_ms();
                    builder.append(&NewRecord { timestamp_ms, key, value, ..NewRecord::default() });
                }
                let guard = append.writer.and_then(|writer| writer.guard);
                let written = self.append(&offsets(), builder.build(), Origin::Coordinator, guard);
                let at = At { now: self.now, image: &self.image };
                let (partition, token) = (append.partition, append.token);
                match written {
                    Ok(offset) => self.groups.on_appended(at, partition, token, offset, &mut fx),
                    Err(error) => self.groups.on_append_failed(at, partition, token, error, &mut fx),
                }
            }
            let high_watermark = self.logs[&offsets()].high_watermark();
            let at = At { now: self.now, image: &self.image };
            self.groups.on_high_watermark(at, 0, high_watermark, &mut fx);
        }
    }

    /// The batch's last offset.
    fn append(
        &mut self,
        tp: &TopicPartition,
        batch: Batch,
        origin: Origin,
        guard: Option<VerificationGuard>,
    ) -> Result<Offset, ErrorCode> {
        self.append_at(tp, batch, origin, guard).map(|(_, last)| last)
    }

    /// Base offset and last offset.
    fn append_at(
        &mut self,
        tp: &TopicPartition,
        batch: Batch,
        origin: Origin,
        guard: Option<VerificationGuard>,
    ) -> Result<(Offset, Offset), ErrorCode> {
        let now = self.now;
        let log = self.log(tp);
        let how = (origin, Verification::On(guard));
        let config = LogConfig { timestamp_after_max_ms: i64::MAX, ..LogConfig::default() };
        let appended = log.append_verified(now, batch.into_bytes(), EPOCH, how, &config);
        let appended = appended.map_err(|error| error.code())?;
        log.maybe_increment_high_watermark(log.log_end_offset());
        Ok((appended.base_offset, appended.last_offset))
    }

    fn log(&mut self, tp: &TopicPartition) -> &mut Log {
        self.logs.get_mut(tp).expect("the scripts know of two partitions")
    }

    /// All markers that wait are written.
    pub(super) fn deliver(&mut self) {
        loop {
            let entries = self.coordinator.take_markers(ME);
            if entries.is_empty() {
                return;
            }
            let mut errors = MarkerErrors::new();
            for MarkerEntry { marker, .. } in &entries {
                for tp in &marker.partitions {
                    let error = self.write_marker(tp, marker).err().unwrap_or(ErrorCode::None);
                    errors.entry(marker.producer_id).or_default().insert(tp.clone(), error);
                }
            }
            self.step(|coordinator, around, fx| {
                coordinator.on_markers_answered(around, entries, &errors, fx)
            });
        }
    }

    fn write_marker(&mut self, tp: &TopicPartition, marker: &coordinator::Marker) -> Result<(), ErrorCode> {
        let parameters = BatchParameters {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            ..BatchParameters::default()
        };
        let coordinator::Marker { committed, coordinator_epoch, transaction_version, .. } = *marker;
        let batch =
            EndTransactionMarker { committed, coordinator_epoch }.batch(parameters, self.now.wall_ms());
        let offset = self.append(tp, batch, Origin::TransactionMarker { transaction_version }, None)?;
        if *tp == offsets() {
            let of = (marker.producer_id, committed);
            self.at_groups(|groups, at, fx| {
                groups.on_marker(at, 0, of, offset, fx);
                groups.on_high_watermark(at, 0, offset + 1, fx);
            });
        }
        Ok(())
    }

    /// Time goes by; late transactions are looked for in the servers' interval.
    pub(super) fn sleep(&mut self, ms: i64) {
        let until = self.now.plus_ms(ms);
        while self.now.plus_ms(self.abort_interval_ms) <= until {
            self.now = self.now.plus_ms(self.abort_interval_ms);
            self.step(|coordinator, around, fx| coordinator.abort_timed_out(around, fx));
            self.deliver();
        }
        self.now = until;
    }

    pub(super) fn transaction(&self) -> Transaction {
        let none = |error: ErrorCode| Transaction {
            error: Some(name(error)),
            state: None,
            producer: None,
            epoch: None,
            timeout_ms: None,
            partitions: None,
        };
        match self.coordinator.describe(&self.id) {
            Err(error) => none(error),
            Ok(facts) => {
                let shown = |tp: &TopicPartition| match *tp == offsets() {
                    true => OFFSETS.to_owned(),
                    false => tp.to_string(),
                };
                Transaction {
                    error: None,
                    state: Some(facts.state.name().to_owned()),
                    producer: Some(facts.producer_id.0),
                    epoch: Some(facts.producer_epoch.0),
                    timeout_ms: Some(facts.timeout_ms),
                    partitions: Some(facts.partitions.iter().map(shown).collect()),
                }
            }
        }
    }

    pub(super) fn logs(&self) -> Vec<LogEnds> {
        let ends = |partition| {
            let log = &self.logs[&t(partition)];
            let (high_watermark, last_stable) = (log.high_watermark().0, log.last_stable_offset().0);
            LogEnds { partition, high_watermark, last_stable }
        };
        [0, 1].map(ends).into()
    }
}
