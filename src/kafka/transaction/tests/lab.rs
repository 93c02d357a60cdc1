//! A coordinator with its log and leaders that answer as they are told.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use crate::kafka::effects::{Channel, Effect};
use crate::kafka::event::Event;
use crate::kafka::types::{BrokerId, NodeId, ProducerEpoch, ProducerId, Topic};

pub const ID: &str = "tx";

pub fn t(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new("t"), partition)
}

pub fn producer(id: i64, epoch: i16) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
}

pub fn config() -> TransactionConfig {
    TransactionConfig {
        broker: BrokerId(1),
        version: TransactionVersion::V2,
        max_timeout_ms: 900_000,
        transactional_id_expiration_ms: 604_800_000,
        state_log_num_partitions: 1,
        two_phase_commit_enable: false,
        request_timeout_ms: 30_000,
    }
}

pub struct Lab {
    pub coordinator: TransactionCoordinator,
    pub config: TransactionConfig,
    pub now: Time,
    /// What `__transaction_state` holds.
    pub log: Vec<CoordinatorRecord>,
    /// The followers of `__transaction_state` copy nothing.
    pub uncommitted: bool,
    /// What the log refuses with.
    pub refuses: Option<ErrorCode>,
    pub leaders: BTreeMap<TopicPartition, Destination>,
    pub answers: Vec<Answer>,
    pub events: Vec<Event>,
    timers: BTreeMap<TransactionTimer, Time>,
    next_id: i64,
}

impl Lab {
    pub fn new() -> Lab {
        Lab::with(config())
    }

    pub fn with(config: TransactionConfig) -> Lab {
        let mut lab = Lab {
            coordinator: TransactionCoordinator::new(config),
            config,
            now: Time::from_ms(1000),
            log: Vec::new(),
            uncommitted: false,
            refuses: None,
            leaders: (0..3).map(|each| (t(each), Destination::Broker(BrokerId(each % 2)))).collect(),
            answers: Vec::new(),
            events: Vec::new(),
            timers: BTreeMap::new(),
            next_id: 100,
        };
        lab.elect(1);
        lab
    }

    /// Elected and loaded.
    pub fn elect(&mut self, epoch: i32) {
        self.coordinator.on_elected(0, LeaderEpoch(epoch));
        let records = self.log.clone();
        self.step(|coordinator, around, fx| {
            coordinator.on_loaded(around, 0, records.into_iter(), fx).expect("it was written here");
        });
    }

    /// One step with all that follows from it at once.
    pub fn step(
        &mut self,
        run: impl FnOnce(&mut TransactionCoordinator, Around<'_>, &mut TransactionEffects),
    ) {
        let mut fx = TransactionEffects::default();
        let (now, leaders, next_id) = (self.now, &self.leaders, &mut self.next_id);
        let leader_of = |tp: &TopicPartition| leaders.get(tp).copied().unwrap_or(Destination::Gone);
        let mut new_id = || {
            *next_id += 1;
            Ok(ProducerId(*next_id - 1))
        };
        let around = Around { now, new_id: &mut new_id, leader_of: &leader_of };
        run(&mut self.coordinator, around, &mut fx);
        self.carry_out(fx);
    }

    fn carry_out(&mut self, fx: TransactionEffects) {
        for effect in fx.effects.into_vec() {
            match effect {
                Effect::SetTimer { timer, at } => drop(self.timers.insert(timer, at)),
                Effect::CancelTimer(timer) => drop(self.timers.remove(&timer)),
                Effect::Event(event) => self.events.push(event),
                other => panic!("{other:?}"),
            }
        }
        self.answers.extend(fx.answers.into_iter().map(|(_, answer)| answer));
        for append in fx.appends {
            let place = (append.partition, append.token);
            match self.refuses {
                Some(error) => self
                    .step(|coordinator, around, fx| coordinator.on_append_failed(around, place, error, fx)),
                None => {
                    self.log.extend(append.records);
                    let last = Offset(self.log.len() as i64 - 1);
                    self.coordinator.on_appended(place.0, place.1, last);
                }
            }
        }
        if !self.uncommitted {
            self.commit();
        }
    }

    /// All that was written is below the high watermark.
    pub fn commit(&mut self) {
        let (end, mut fx) = (Offset(self.log.len() as i64), TransactionEffects::default());
        let (mut new_id, now) = (|| Ok(ProducerId(0)), self.now);
        let leaders = self.leaders.clone();
        let leader_of = |tp: &TopicPartition| leaders.get(tp).copied().unwrap_or(Destination::Gone);
        let around = Around { now, new_id: &mut new_id, leader_of: &leader_of };
        self.coordinator.on_high_watermark(around, 0, end, &mut fx);
        if !fx.answers.is_empty() || !fx.appends.is_empty() || !fx.effects.is_empty() {
            self.carry_out(fx);
        }
    }

    /// Time goes by, with its timers.
    pub fn pass(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
        let now = self.now;
        for (timer, _) in self.timers.extract_if(.., |_, at| *at <= now).collect::<Vec<_>>() {
            self.step(|coordinator, around, fx| coordinator.on_timer(around, &timer, fx));
        }
    }

    fn asker(&self) -> Asker {
        let from = NodeId::Client(1);
        let id = RequestId { from, channel: Channel::Main, connection: 0, correlation: 0, version: 0 };
        Asker { id, index: 0 }
    }

    fn answer(&mut self) -> Option<Answer> {
        assert!(self.answers.len() <= 1, "{:?}", self.answers);
        self.answers.pop()
    }

    pub fn init_with(&mut self, init: Init) -> Option<Answer> {
        let asker = self.asker();
        self.step(|coordinator, around, fx| coordinator.init(around, asker, &init, fx));
        self.answer()
    }

    /// InitProducerId; without an answer it waits.
    pub fn init(&mut self, expected: Option<ProducerIdAndEpoch>) -> Result<ProducerIdAndEpoch, ErrorCode> {
        match self.init_with(Init { expected, ..init() }) {
            Some(Answer::Initialized(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    pub fn try_add(&mut self, producer: ProducerIdAndEpoch, partitions: &[i32]) -> Option<Answer> {
        let partitions = partitions.iter().map(|each| t(*each)).collect();
        let client_version = self.config.version;
        let (asker, add) = (self.asker(), Add { id: ID.into(), producer, partitions, client_version });
        self.step(|coordinator, around, fx| coordinator.add(around, asker, &add, fx));
        self.answer()
    }

    pub fn add(&mut self, producer: ProducerIdAndEpoch, partitions: &[i32]) -> ErrorCode {
        match self.try_add(producer, partitions) {
            Some(Answer::Added(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    pub fn try_end(&mut self, producer: ProducerIdAndEpoch, committed: bool) -> Option<Answer> {
        let client_version = self.config.version;
        let end = End { id: ID.into(), producer, committed, from_client: true, client_version };
        let asker = self.asker();
        self.step(|coordinator, around, fx| coordinator.end(around, asker, &end, fx));
        self.answer()
    }

    pub fn end(
        &mut self,
        producer: ProducerIdAndEpoch,
        committed: bool,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        match self.try_end(producer, committed) {
            Some(Answer::Ended(result)) => result,
            other => panic!("{other:?}"),
        }
    }

    pub fn tx(&self) -> &TransactionMetadata {
        self.coordinator.transaction(&ID.into()).expect("it was initialized")
    }

    pub fn state(&self) -> TransactionState {
        self.tx().state()
    }

    /// All leaders write what they are sent, and so does the coordinator.
    pub fn deliver(&mut self) {
        for broker in self.coordinator.marker_destinations() {
            self.answer_markers(broker, ErrorCode::None);
        }
    }

    /// One leader says the same of all its markers. Which partitions they were for.
    pub fn answer_markers(&mut self, broker: BrokerId, error: ErrorCode) -> Vec<MarkerEntry> {
        let entries = self.coordinator.take_markers(broker);
        let mut errors = MarkerErrors::new();
        for MarkerEntry { marker, .. } in &entries {
            let of_producer = errors.entry(marker.producer_id).or_default();
            of_producer.extend(marker.partitions.iter().map(|tp| (tp.clone(), error)));
        }
        let sent = entries.clone();
        self.step(|coordinator, around, fx| coordinator.on_markers_answered(around, entries, &errors, fx));
        sent
    }
}

pub fn init() -> Init {
    Init { id: ID.into(), timeout_ms: 60_000, two_phase_commit: false, keep_prepared: false, expected: None }
}

/// The partitions of markers.
pub fn partitions(entries: &[MarkerEntry]) -> BTreeSet<TopicPartition> {
    entries.iter().flat_map(|entry| entry.marker.partitions.clone()).collect()
}
