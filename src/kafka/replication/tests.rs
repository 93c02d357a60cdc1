//! One leader on its own, with requests put into its hands.

mod cleaning;
mod requests;
mod exchange;
mod lookups;
mod sessions;
mod waiting;

use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};

use super::disk::LogDirectory;
use super::isr::IsrState;
use super::manager::{Notice, ReplicaManager, Step};
use super::partition::Partition;
use super::produce::Verified;
use crate::kafka::broker::timer::BrokerTimer;
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::effects::{Channel, Effect, Effects, RequestId};
use crate::kafka::protocol::metadata_records::{
    ConfigResource, MetadataRecord, PartitionRecord, RegisterBroker,
};
use crate::kafka::protocol::{ApiKey, ErrorCode, Response};
use crate::kafka::random::Random;
use crate::kafka::record::{BatchBuilder, NewRecord};
use crate::kafka::time::Time;
use crate::kafka::types::{
    BrokerEpoch, BrokerId, LeaderEpoch, NodeId, Offset, PartitionEpoch, TopicId, TopicPartition,
};

struct Bench {
    image: ClusterImage,
    replicas: ReplicaManager,
    now: Time,
}

fn tp() -> TopicPartition {
    tp_of(0)
}

fn tp_of(partition: i32) -> TopicPartition {
    TopicPartition::new(&"t".into(), partition)
}

fn topic_id() -> TopicId {
    TopicId(uuid::Uuid::from_u128(7))
}

fn request() -> RequestId {
    RequestId {
        from: NodeId::Client(1),
        channel: Channel::Main,
        connection: 1,
        correlation: 3,
        version: ApiKey::Produce.version(),
    }
}

/// Broker 1 leads t-0 with broker 2; both are in sync; min.insync.replicas is 2.
fn bench() -> Bench {
    bench_of(1)
}

/// Broker 1 leads it with broker 2; both are in sync.
fn partition_of(topic_id: TopicId, partition: i32) -> MetadataRecord {
    let ids = vec![BrokerId(1), BrokerId(2)];
    MetadataRecord::Partition(PartitionRecord::new((topic_id, partition), ids.clone(), ids, BrokerId(1)))
}

/// As many partitions of t.
fn bench_of(partitions: i32) -> Bench {
    let mut image = ClusterImage::default();
    for broker in [BrokerId(1), BrokerId(2)] {
        image.replay(&MetadataRecord::RegisterBroker(RegisterBroker {
            broker,
            incarnation: uuid::Uuid::nil(),
            epoch: BrokerEpoch(broker.0.into()),
            rack: None,
            fenced: false,
            in_controlled_shutdown: false,
        }));
    }
    image.replay(&MetadataRecord::Topic { name: "t".into(), id: topic_id() });
    image.replay(&MetadataRecord::Config {
        resource: ConfigResource::Topic,
        name: "t".into(),
        key: "min.insync.replicas".into(),
        value: Some("2".into()),
    });
    for partition in 0..partitions {
        image.replay(&partition_of(topic_id(), partition));
    }
    let replicas = ReplicaManager::new(
        BrokerId(1),
        Rc::default(),
        LogDirectory::default(),
        Random::stream(1, "sessions"),
    );
    let mut bench = Bench { image, replicas, now: Time::from_ms(1_000) };
    for partition in 0..partitions {
        let tp = tp_of(partition);
        bench.step(|replicas, step| {
            let registration = step.image.partition(&tp).expect("replayed").clone();
            replicas.apply(&tp, &registration, step);
        });
    }
    bench
}

impl Bench {
    fn step(&mut self, run: impl FnOnce(&mut ReplicaManager, &mut Step<'_>)) -> Vec<Effect<BrokerTimer>> {
        let mut fx = Effects::default();
        let mut step = Step { now: self.now, image: &self.image, fx: &mut fx };
        run(&mut self.replicas, &mut step);
        fx.into_vec()
    }

    fn produce(&mut self, acks: i16) -> Vec<Effect<BrokerTimer>> {
        self.produce_to(0, acks)
    }

    fn produce_to(&mut self, partition: i32, acks: i16) -> Vec<Effect<BrokerTimer>> {
        let mut builder = BatchBuilder::new();
        let timestamp_ms = self.now.wall_ms();
        builder.append(&NewRecord { timestamp_ms, value: Some(b"hello"), ..NewRecord::default() });
        self.produce_records(partition, acks, builder.finish(None).into_bytes())
    }

    fn produce_records(&mut self, partition: i32, acks: i16, records: Bytes) -> Vec<Effect<BrokerTimer>> {
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
        let topic = TopicProduceData::default().with_topic_id(topic_id().0).with_partition_data(vec![data]);
        let produce =
            ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![topic]);
        self.step(|replicas, step| replicas.produce(request(), &produce, &Verified::default(), step))
    }

    fn end(&self) -> Offset {
        self.replicas.partition(&tp()).expect("applied").log.log_end_offset()
    }
}

fn produce_answers(effects: &[Effect<BrokerTimer>]) -> impl Iterator<Item = &PartitionProduceResponse> {
    effects.iter().filter_map(|effect| {
        let Effect::Respond { response, .. } = effect else { return None };
        match &**response {
            Response::Produce(ProduceResponse { responses, .. }) => {
                Some(&responses[0].partition_responses[0])
            }
            _ => None,
        }
    })
}

fn answers(effects: &[Effect<BrokerTimer>]) -> Vec<(ErrorCode, i64)> {
    let answers = produce_answers(effects);
    answers.map(|answer| (ErrorCode::from_code(answer.error_code), answer.base_offset)).collect()
}

#[test]
fn ex_2_the_brokers_own_wait_ends_after_the_requests_timeout_and_the_record_stays() {
    let mut bench = bench();
    let effects = bench.produce(-1);
    assert_eq!(answers(&effects), [], "it waits for broker 2 (R-REPL-29)");
    let deadline = effects.iter().find_map(|effect| match effect {
        Effect::SetTimer { timer: BrokerTimer::Purgatory, at } => Some(*at),
        _ => None,
    });
    assert_eq!(deadline, Some(Time::from_ms(31_000)));
    bench.now = Time::from_ms(31_000);
    let effects = bench.step(ReplicaManager::expire);
    assert_eq!(answers(&effects), [(ErrorCode::RequestTimedOut, 0)], "R-REPL-32");
    assert_eq!(bench.end(), Offset(1), "the data stays in the log and may still be committed");
}

#[test]
fn the_answer_names_the_records_that_are_bad_r_log_20() {
    let mut bench = bench();
    Rc::make_mut(&mut bench.replicas.edit(&tp()).expect("applied").config).log.compacted = true;
    let mut builder = BatchBuilder::new();
    for key in [Some(&b"k"[..]), None, None] {
        let timestamp_ms = bench.now.wall_ms();
        builder.append(&NewRecord { timestamp_ms, key, ..NewRecord::default() });
    }
    let effects = bench.produce_records(0, 1, builder.finish(None).into_bytes());
    assert_eq!(answers(&effects), [(ErrorCode::InvalidRecord, -1)]);
    let answer = produce_answers(&effects).next().expect("it is answered");
    let bad: Vec<_> = answer.record_errors.iter().map(|error| error.batch_index).collect();
    assert_eq!(bad, [1, 2]);
    assert!(answer.record_errors.iter().all(|error| error.batch_index_error_message.is_some()));
    assert!(answer.error_message.is_some());
}

/// R-REPL-26: in-sync sets that are asked for, what refuses them, and what is left of them.
#[test]
fn a_refused_in_sync_set_is_taken_back_left_or_asked_for_again_as_the_error_says_r_repl_26() {
    let after = |error| {
        let mut bench = bench();
        let leader = bench.replicas.edit(&tp()).and_then(Partition::leader_mut).expect("it leads");
        leader.shrink(vec![BrokerId(2)]);
        let again = bench.replicas.isr_refused(&tp(), error);
        let partition = bench.replicas.partition(&tp()).expect("applied");
        let isr = partition.leader().expect("it leads").isr.clone();
        (again, isr == IsrState::Committed(vec![BrokerId(1), BrokerId(2)]))
    };
    let (taken_back, waits, again) = ((false, true), (false, false), (true, false));
    for (error, expected) in [
        (ErrorCode::OperationNotAttempted, taken_back),
        (ErrorCode::IneligibleReplica, taken_back),
        (ErrorCode::UnknownTopicOrPartition, waits),
        (ErrorCode::UnknownTopicId, waits),
        (ErrorCode::FencedLeaderEpoch, waits),
        (ErrorCode::InvalidUpdateVersion, waits),
        (ErrorCode::InvalidRequest, waits),
        (ErrorCode::NewLeaderElected, waits),
        (ErrorCode::NotController, again),
        (ErrorCode::RequestTimedOut, again),
        (ErrorCode::UnknownServerError, again),
    ] {
        assert_eq!(after(error), expected, "{error:?}");
    }
}

#[test]
fn acks_1_is_answered_at_once_and_acks_0_not_at_all() {
    let mut bench = bench();
    assert_eq!(answers(&bench.produce(1)), [(ErrorCode::None, 0)]);
    let effects = bench.produce(0);
    assert_eq!(answers(&effects), []);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::NoResponse(_))), "R-REPL-29");
    assert_eq!(answers(&bench.produce(2)), [(ErrorCode::InvalidRequiredAcks, -1)], "R-REPL-28");
    assert_eq!(bench.end(), Offset(2));
}

#[test]
fn a_leader_that_loses_its_role_answers_what_waited_with_not_leader_or_follower() {
    let mut bench = bench();
    bench.produce(-1);
    let effects = bench.step(|replicas, step| {
        let mut registration = (**step.image.partition(&tp()).expect("replayed")).clone();
        registration.leader = BrokerId(2);
        registration.leader_epoch = LeaderEpoch(1);
        registration.partition_epoch = PartitionEpoch(1);
        replicas.apply(&tp(), &registration, step);
    });
    assert_eq!(answers(&effects), [(ErrorCode::NotLeaderOrFollower, 0)], "R-REPL-32");
    assert!(bench.replicas.take_notices().contains(&Notice::Resigned { tp: tp() }));
}

/// R-LOG-53.
#[test]
fn a_topics_config_reaches_all_partitions_of_it_and_no_others() {
    let mut bench = bench_of(3);
    for (number, name) in [(8, "s"), (9, "t-"), (10, "t0")] {
        let id = TopicId(uuid::Uuid::from_u128(number));
        bench.image.replay(&MetadataRecord::Topic { name: name.into(), id });
        bench.image.replay(&partition_of(id, 0));
        let tp = TopicPartition::new(&name.into(), 0);
        bench.step(|replicas, step| {
            let registration = step.image.partition(&tp).expect("replayed").clone();
            replicas.apply(&tp, &registration, step);
        });
    }
    bench.image.replay(&MetadataRecord::Config {
        resource: ConfigResource::Topic,
        name: "t".into(),
        key: "segment.bytes".into(),
        value: Some("2000000".into()),
    });
    bench.replicas.apply_topic_config(&"t".into(), &bench.image);
    let reached = bench.replicas.partitions().filter(|p| p.config.log.segment_bytes == 2_000_000);
    let reached: Vec<String> = reached.map(|partition| partition.tp.to_string()).collect();
    assert_eq!(reached, ["t-0", "t-1", "t-2"]);
    assert_eq!(bench.replicas.partitions().count(), 6);
}
