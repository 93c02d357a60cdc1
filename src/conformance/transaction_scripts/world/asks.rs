//! What clients ask of it, as the scripts write it, and what they hear.

use std::collections::BTreeSet;

use kafka_protocol::messages as m;
use kafka_protocol::messages::txn_offset_commit_request as txn;

use super::{ASKER, World, offsets, t};
use crate::conformance::history;
use crate::conformance::transaction_scripts::{
    ActiveProducer, AddOffsets, AddPartitions, Added, Answer, Consume, Consumed, DescribeProducers, EndTxn,
    Fetched, Init, OffsetFetch, Produce, Produced, Producer, Producers, Transient, TxnOffsetCommit, name,
};
use crate::kafka::log::{FirstBatch, Origin, VerificationGuard};
use crate::kafka::protocol::{ErrorCode, Request, Response};
use crate::kafka::record::{
    AbortedProducers, BatchBuilder, BatchParameters, NO_SEQUENCE, NewRecord, split_batches,
};
use crate::kafka::transaction::{
    self as coordinator, Add, End, ProducerIdAndEpoch, TransactionVersion, wire,
};
use crate::kafka::types::{
    ClientName, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition, TransactionalId,
};

/// Of requests without a version, which are of clients before transaction version 2.
const PRODUCE_BEFORE: i16 = 11;
const END_BEFORE: i16 = 3;
const ADD_BEFORE: i16 = 3;
const COMMIT_BEFORE: i16 = 3;

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
    /// Asks again as long as the last transaction is not over, as the recording did.
    fn patiently<T>(&mut self, mut ask: impl FnMut(&mut World) -> T, is_busy: impl Fn(&T) -> bool) -> T {
        let answer = ask(self);
        if !is_busy(&answer) {
            return answer;
        }
        self.deliver();
        ask(self)
    }

    pub(in crate::conformance::transaction_scripts) fn init(&mut self, args: &Init) -> Producer {
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

    pub(in crate::conformance::transaction_scripts) fn add_partitions(
        &mut self,
        args: &AddPartitions,
    ) -> Added {
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

    pub(in crate::conformance::transaction_scripts) fn add_offsets(&mut self, args: &AddOffsets) -> Answer {
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

    pub(in crate::conformance::transaction_scripts) fn produce(&mut self, args: &Produce) -> Produced {
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

    pub(in crate::conformance::transaction_scripts) fn end(&mut self, args: &EndTxn) -> Producer {
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

    pub(in crate::conformance::transaction_scripts) fn commit_offsets(
        &mut self,
        args: &TxnOffsetCommit,
    ) -> Answer {
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

    pub(in crate::conformance::transaction_scripts) fn fetch_offsets(
        &mut self,
        args: &OffsetFetch,
    ) -> Fetched {
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

    pub(in crate::conformance::transaction_scripts) fn describe_producers(
        &mut self,
        args: &DescribeProducers,
    ) -> Producers {
        let producers = self.logs[&t(args.partition)].producers().iter();
        let active = producers.map(|(id, producer)| ActiveProducer {
            producer: id.0,
            epoch: producer.epoch().0,
            last_sequence: producer.last_sequence(),
            txn_start_offset: producer.transaction_start().map_or(-1, |start| start.0),
        });
        Producers { producers: active.collect() }
    }

    pub(in crate::conformance::transaction_scripts) fn consume(&mut self, args: &Consume) -> Consumed {
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
