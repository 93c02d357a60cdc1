//! One broker that leads everything, as far as transactions go: the coordinator, the logs of two partitions, and the
//! group coordinator with its log. What is written is committed at once; markers wait until somebody delivers them.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages as m;
use kafka_protocol::messages::txn_offset_commit_request as txn;

use super::super::history::{self, EPOCH};
use super::{
    ActiveProducer, AddOffsets, AddPartitions, Added, Answer, Cluster, Consume, Consumed, DescribeProducers,
    EndTxn, Fetched, Init, LogEnds, OffsetFetch, Produce, Produced, Producer, Producers, Transaction,
    Transient, TxnOffsetCommit, name,
};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Channel, Effect, RequestId};
use crate::kafka::group::{At, GroupConfig, GroupCoordinator, GroupEffects};
use crate::kafka::log::{FirstBatch, Log, LogConfig, Origin, Verification, VerificationGuard};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::random::Random;
use crate::kafka::record::{
    AbortedProducers, Batch, BatchBuilder, BatchParameters, EndTransactionMarker, NO_SEQUENCE, NewRecord,
    split_batches,
};
use crate::kafka::time::Time;
use crate::kafka::transaction::{
    self as coordinator, Add, Around, Asker, Destination, End, MarkerEntry, MarkerErrors, ProducerIdAndEpoch,
    TransactionConfig, TransactionCoordinator, TransactionEffects, TransactionVersion, wire,
};
use crate::kafka::types::{
    BrokerId, ClientName, LeaderEpoch, NodeId, Offset, ProducerEpoch, ProducerId, Topic, TopicId,
    TopicPartition, TransactionalId,
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

/// Of requests without a version, which are of clients before transaction version 2.
const PRODUCE_BEFORE: i16 = 11;
const END_BEFORE: i16 = 3;
const ADD_BEFORE: i16 = 3;
const COMMIT_BEFORE: i16 = 3;

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

fn producer(id: i64, epoch: i16) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
}

/// What a leader makes of a coordinator's refusal, for a client that may not know TRANSACTION_ABORTABLE.
fn as_client_knows(error: ErrorCode, knows_abortable: bool) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if !knows_abortable => ErrorCode::InvalidTxnState,
        other => other,
    }
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

    /// Asks again as long as the last transaction is not over, as the recording did.
    fn patiently<T>(&mut self, mut ask: impl FnMut(&mut World) -> T, is_busy: impl Fn(&T) -> bool) -> T {
        let answer = ask(self);
        if !is_busy(&answer) {
            return answer;
        }
        self.deliver();
        ask(self)
    }

    pub(super) fn init(&mut self, args: &Init) -> Producer {
        let request = m::InitProducerIdRequest::default()
            .with_transactional_id(Some(m::TransactionalId(args.transactional_id.clone().into())))
            .with_transaction_timeout_ms(args.timeout_ms)
            .with_producer_id(args.producer.into())
            .with_producer_epoch(args.epoch);
        let init = wire::init_of(&request).ok().flatten().expect("the scripts ask so");
        assert!(args.version.is_none_or(|version| version >= 4), "before version 4 another error is told");
        let result = self.patiently(
            |world| match world.step(|coordinator, around, fx| coordinator.init(around, ASKER, &init, fx)) {
                Some(coordinator::Answer::Initialized(result)) => result,
                other => panic!("{other:?}"),
            },
            |result| *result == Err(ErrorCode::ConcurrentTransactions),
        );
        answer_of(result)
    }

    fn add(
        &mut self,
        producer: ProducerIdAndEpoch,
        partitions: BTreeSet<TopicPartition>,
        client_version: TransactionVersion,
    ) -> ErrorCode {
        let add = Add { id: self.id.clone(), producer, partitions, client_version };
        self.patiently(
            |world| match world.step(|coordinator, around, fx| coordinator.add(around, ASKER, &add, fx)) {
                Some(coordinator::Answer::Added(error)) => error,
                other => panic!("{other:?}"),
            },
            |error| *error == ErrorCode::ConcurrentTransactions,
        )
    }

    pub(super) fn add_partitions(&mut self, args: &AddPartitions) -> Added {
        assert_eq!(args.transactional_id, self.id.as_str(), "a script has one id");
        let partitions: BTreeSet<_> = args.partitions.iter().map(|each| t(*each)).collect();
        let logs = &self.logs;
        let errors = wire::missing(&partitions, |tp| logs.contains_key(tp)).unwrap_or_else(|| {
            let version = TransactionVersion::of_add_request(args.version.unwrap_or(ADD_BEFORE));
            let error = self.add(producer(args.producer, args.epoch), partitions.clone(), version);
            partitions.iter().map(|tp| (tp.clone(), error)).collect()
        });
        Added { errors: errors.iter().map(|(tp, error)| format!("{tp} {}", error.name())).collect() }
    }

    pub(super) fn add_offsets(&mut self, args: &AddOffsets) -> Answer {
        assert_eq!(args.transactional_id, self.id.as_str(), "a script has one id");
        assert!(!args.group.is_empty());
        let of = producer(args.producer, args.epoch);
        Answer { error: name(self.add(of, [offsets()].into(), TransactionVersion::V0)) }
    }

    /// The guard with which a batch may be appended: newer clients have the partition added, older ones added it.
    fn ask_for(
        &mut self,
        tp: &TopicPartition,
        of: ProducerIdAndEpoch,
        base_sequence: i32,
        (adds, knows_abortable): (bool, bool),
    ) -> Result<Option<VerificationGuard>, ErrorCode> {
        let batch = FirstBatch { epoch: of.epoch, base_sequence, raises_epochs: adds };
        let now = self.now;
        let begun = self.log(tp).begin_verification(now, of.id, batch).map_err(|error| error.code())?;
        if begun.is_none() {
            return Ok(None);
        }
        let error = match adds {
            true => self.add(of, [tp.clone()].into(), TransactionVersion::V2),
            false => self.coordinator.verify(&self.id, of, &[tp.clone()].into())[tp],
        };
        match as_client_knows(error, knows_abortable) {
            ErrorCode::None => Ok(begun),
            error => Err(error),
        }
    }

    pub(super) fn produce(&mut self, args: &Produce) -> Produced {
        let version = args.version.unwrap_or(PRODUCE_BEFORE);
        let (tp, of) = (t(args.partition), producer(args.producer, args.epoch));
        let guard = match args.transactional {
            true => self.ask_for(&tp, of, args.sequence, (version > 11, version > 10)),
            false => Ok(None),
        };
        let written = guard.and_then(|guard| {
            let mut builder = BatchBuilder::with(BatchParameters {
                producer_id: of.id,
                producer_epoch: of.epoch,
                base_sequence: args.sequence,
                transactional: args.transactional,
                ..BatchParameters::default()
            });
            for number in args.sequence..args.sequence + args.records {
                let (value, timestamp_ms) = (format!("v{number}"), self.now.wall_ms());
                builder.append(&NewRecord {
                    timestamp_ms,
                    value: Some(value.as_bytes()),
                    ..NewRecord::default()
                });
            }
            self.append_at(&tp, builder.build(), Origin::Client, guard)
        });
        match written {
            Ok((base, _)) => Produced { error: name(ErrorCode::None), base_offset: base.0 },
            Err(error) => Produced { error: name(error), base_offset: -1 },
        }
    }

    pub(super) fn end(&mut self, args: &EndTxn) -> Producer {
        let client_version = TransactionVersion::of_end_request(args.version.unwrap_or(END_BEFORE));
        let end = End {
            id: TransactionalId::new(&args.transactional_id),
            producer: producer(args.producer, args.epoch),
            committed: args.commit,
            from_client: true,
            client_version,
        };
        let result = self.patiently(
            |world| match world.step(|coordinator, around, fx| coordinator.end(around, ASKER, &end, fx)) {
                Some(coordinator::Answer::Ended(result)) => result,
                other => panic!("{other:?}"),
            },
            |result| *result == Err(ErrorCode::ConcurrentTransactions),
        );
        match client_version.raises_epochs() {
            true => answer_of(result),
            false => Producer { producer: None, epoch: None, ..answer_of(result) },
        }
    }

    pub(super) fn commit_offsets(&mut self, args: &TxnOffsetCommit) -> Answer {
        let version = args.version.unwrap_or(COMMIT_BEFORE);
        let of = producer(args.producer, args.epoch);
        let guard = match self.ask_for(&offsets(), of, NO_SEQUENCE, (version > 4, version > 3)) {
            Ok(guard) => guard,
            Err(error) => return Answer { error: name(error) },
        };
        let partition = txn::TxnOffsetCommitRequestPartition::default()
            .with_committed_offset(args.offset)
            .with_committed_metadata(Some("".into()));
        let topic = txn::TxnOffsetCommitRequestTopic::default()
            .with_name(m::TopicName("t".into()))
            .with_partitions(vec![partition]);
        let request = m::TxnOffsetCommitRequest::default()
            .with_transactional_id(m::TransactionalId(self.id.to_wire()))
            .with_group_id(m::GroupId(args.group.clone().into()))
            .with_producer_id(of.id.0.into())
            .with_producer_epoch(of.epoch.0)
            .with_generation_id(args.generation.unwrap_or(-1))
            .with_member_id(args.member.clone().unwrap_or_default().into())
            .with_topics(vec![topic]);
        let answered = self.at_groups(|groups, at, fx| {
            let client = ClientName::new("client");
            groups.commit_in_transaction(at, (ASKER.id, &client), &request, guard, &exists, fx);
        });
        let Some(Response::TxnOffsetCommit(response)) = answered else { panic!("{answered:?}") };
        Answer { error: name(ErrorCode::from_code(response.topics[0].partitions[0].error_code)) }
    }

    pub(super) fn fetch_offsets(&mut self, args: &OffsetFetch) -> Fetched {
        use m::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
        let topic = OffsetFetchRequestTopics::default()
            .with_name(m::TopicName("t".into()))
            .with_partition_indexes(vec![0]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(m::GroupId(args.group.clone().into()))
            .with_topics(Some(vec![topic]));
        let request = m::OffsetFetchRequest::default()
            .with_require_stable(args.require_stable)
            .with_groups(vec![group]);
        let request = Request::OffsetFetch(request);
        let answered = self.at_groups(|groups, at, fx| {
            groups.handle(at, ASKER.id, &ClientName::new("client"), &request, &exists, fx);
        });
        let Some(Response::OffsetFetch(response)) = answered else { panic!("{answered:?}") };
        let partition = &response.groups[0].topics[0].partitions[0];
        let error = name(ErrorCode::from_code(partition.error_code));
        Fetched { error, offset: partition.committed_offset }
    }

    pub(super) fn describe_producers(&mut self, args: &DescribeProducers) -> Producers {
        let producers = self.logs[&t(args.partition)].producers().iter();
        let active = producers.map(|(id, producer)| ActiveProducer {
            producer: id.0,
            epoch: producer.epoch().0,
            last_sequence: producer.last_sequence(),
            txn_start_offset: producer.transaction_start().map_or(-1, |start| start.0),
        });
        Producers { producers: active.collect() }
    }

    pub(super) fn consume(&mut self, args: &Consume) -> Consumed {
        let log = &self.logs[&t(args.partition)];
        let (from, bound) = (Offset(args.from), log.read_bound(history::isolation(&args.isolation)));
        let read = log.read(from, bound, i32::MAX, true).expect("it is inside of the log");
        let hides = args.isolation == "read_committed";
        let aborted = if hides { log.aborted_transactions(from, &read) } else { Vec::new() };
        let mut left_out =
            AbortedProducers::new(aborted.iter().map(|each| (each.producer, each.first_offset)));
        let mut records = Vec::new();
        for batch in split_batches(read.records) {
            let batch = batch.expect("it was checked");
            let hidden = left_out.contains(&batch).expect("it was checked") || batch.is_control();
            for record in batch.records().expect("it was checked").iter().filter(|_| !hidden) {
                let value = record.value.as_deref().unwrap_or_default();
                records.push((record.offset.0, String::from_utf8_lossy(value).into_owned()));
            }
        }
        Consumed { records, position: bound.0 }
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

fn exists(tp: &TopicPartition) -> Option<TopicId> {
    [t(0), t(1)].contains(tp).then_some(TopicId(uuid::Uuid::from_u128(1)))
}

fn answer_of(result: Result<ProducerIdAndEpoch, ErrorCode>) -> Producer {
    let has = result.unwrap_or(ProducerIdAndEpoch::NONE);
    Producer {
        error: name(result.err().unwrap_or(ErrorCode::None)),
        producer: Some(has.id.0),
        epoch: Some(has.epoch.0),
        _transient: Transient::default(),
    }
}
