//! Which requests a leader takes, and how long it keeps them.

use kafka_protocol::messages::FetchRequest;

use super::sessions::fetch;
use super::*;
use crate::kafka::controller::image::PartitionRegistration;
use crate::kafka::fetch_session::FetchMetadata;
use crate::kafka::replication::Role;
use crate::kafka::replication::purgatory::SharedFetch;

/// No epoch is given, as by very old clients.
const NO_EPOCH: i32 = -1;
const CONSUMER: i32 = -1;

/// A fetch of t-0 by a broker, or by a consumer.
fn fetch_request(replica: i32, offset: i64, leader_epoch: i32) -> FetchRequest {
    let mut request = fetch(replica, (0, FetchMetadata::FINAL_EPOCH), &[(0, offset)]);
    request.topics[0].partitions[0].current_leader_epoch = leader_epoch;
    request
}

impl Bench {
    pub(super) fn fetch(&mut self, fetch: FetchRequest) -> Vec<Effect<BrokerTimer>> {
        let fetch = SharedFetch::new(Rc::new(fetch.into())).expect("a Fetch request");
        self.step(|replicas, step| replicas.fetch(request(), &fetch, step))
    }

    /// Applies t-0's registration after a change to it.
    fn apply(&mut self, change: impl FnOnce(&mut PartitionRegistration)) {
        let mut registration = (**self.image.partition(&tp()).expect("replayed")).clone();
        change(&mut registration);
        self.step(|replicas, step| replicas.apply(&tp(), &registration, step));
    }
}

/// Error and number of bytes of t-0 in the answer, if there is one.
fn read(effects: &[Effect<BrokerTimer>]) -> Option<(ErrorCode, usize)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Respond { response, .. } => match &**response {
            Response::Fetch(answer) => {
                let partition = &answer.responses[0].partitions[0];
                let bytes = partition.records.as_ref().map_or(0, Bytes::len);
                Some((ErrorCode::from_code(partition.error_code), bytes))
            }
            _ => None,
        },
        _ => None,
    })
}

#[track_caller]
fn check_refused(bench: &mut Bench, fetch: FetchRequest, error: ErrorCode) {
    assert_eq!(read(&bench.fetch(fetch)), Some((error, 0)));
}

/// R-REPL-7.
#[test]
fn a_fetch_under_another_leader_epoch_or_by_a_stranger_is_refused() {
    let mut bench = bench();
    bench.apply(|partition| {
        partition.leader_epoch = LeaderEpoch(1);
        partition.partition_epoch = PartitionEpoch(1);
    });
    check_refused(&mut bench, fetch_request(2, 0, 0), ErrorCode::FencedLeaderEpoch);
    check_refused(&mut bench, fetch_request(2, 0, 2), ErrorCode::UnknownLeaderEpoch);
    check_refused(&mut bench, fetch_request(3, 0, 1), ErrorCode::UnknownLeaderEpoch);
    check_refused(&mut bench, fetch_request(3, 0, NO_EPOCH), ErrorCode::NotLeaderOrFollower);
    bench.apply(|partition| {
        partition.leader = BrokerId(2);
        partition.leader_epoch = LeaderEpoch(2);
        partition.partition_epoch = PartitionEpoch(2);
    });
    check_refused(&mut bench, fetch_request(2, 0, 2), ErrorCode::NotLeaderOrFollower);
    check_refused(&mut bench, fetch_request(CONSUMER, 0, 1), ErrorCode::FencedLeaderEpoch);
}

/// R-REPL-10.
#[test]
fn a_fetch_of_a_brokers_earlier_life_is_refused_and_acknowledges_nothing() {
    let mut bench = bench();
    bench.produce(1);
    // Broker 2 is registered with epoch 2.
    let mut late = fetch_request(2, 1, 0);
    late.replica_state.replica_epoch = 1;
    check_refused(&mut bench, late, ErrorCode::NotLeaderOrFollower);
    let high_watermark = bench.replicas.partition(&tp()).expect("applied").log.high_watermark();
    assert_eq!(high_watermark, Offset(0));
}

/// R-REPL-27, R-REPL-5.
#[test]
fn older_metadata_is_ignored_and_a_follower_keeps_no_in_sync_set() {
    let mut bench = bench();
    let moved = |epoch: i32| {
        move |partition: &mut PartitionRegistration| {
            partition.leader = BrokerId(2);
            partition.leader_epoch = LeaderEpoch(1);
            partition.partition_epoch = PartitionEpoch(epoch);
        }
    };
    bench.apply(|partition| partition.partition_epoch = PartitionEpoch(3));
    bench.apply(moved(2));
    let partition = bench.replicas.partition(&tp()).expect("applied");
    assert!(partition.is_leader() && partition.partition_epoch == PartitionEpoch(3));
    bench.apply(moved(4));
    let partition = bench.replicas.partition(&tp()).expect("applied");
    assert_eq!(partition.role, Role::Follower { leader: BrokerId(2) }, "and that is all it keeps");
}

/// R-CONS-2.
#[test]
fn a_consumers_fetch_waits_for_its_bytes_below_the_high_watermark_or_its_time() {
    let mut bench = bench();
    let waiting = bench.fetch(fetch_request(CONSUMER, 0, NO_EPOCH));
    assert_eq!(read(&waiting), None, "there is nothing to read");
    let deadline = waiting.iter().find_map(|effect| match effect {
        Effect::SetTimer { timer: BrokerTimer::Purgatory, at } => Some(*at),
        _ => None,
    });
    assert_eq!(deadline, Some(Time::from_ms(1_500)), "fetch.max.wait.ms");
    assert_eq!(read(&bench.produce(1)), None, "what is not committed cannot be read");
    let committed = bench.fetch(fetch_request(2, 1, 0));
    assert!(matches!(read(&committed), Some((ErrorCode::None, bytes)) if bytes > 0), "{committed:?}");

    let many = fetch_request(CONSUMER, 0, NO_EPOCH).with_min_bytes(100);
    assert_eq!(read(&bench.fetch(many)), None, "one record has fewer than fetch.min.bytes");
    bench.now = Time::from_ms(1_500);
    let last = bench.replicas.purgatory().iter().map(|(id, _)| id).last().expect("it waits");
    let expired = bench.step(|replicas, step| replicas.expire_one(last, step));
    assert!(matches!(read(&expired), Some((ErrorCode::None, bytes)) if bytes > 0), "{expired:?}");
}

fn produce_to(partitions: &[(TopicId, i32)], acks: i16) -> ProduceRequest {
    let mut builder = BatchBuilder::new();
    builder.append(&NewRecord { timestamp_ms: 1_000, value: Some(b"hello"), ..NewRecord::default() });
    let records: Bytes = builder.finish(None).into_bytes();
    let topics = partitions.iter().map(|(topic, index)| {
        let data = PartitionProduceData::default().with_index(*index).with_records(Some(records.clone()));
        TopicProduceData::default().with_topic_id(topic.0).with_partition_data(vec![data])
    });
    ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(topics.collect())
}

/// Every partition's error in the answer to a write, if there is one.
fn written(effects: &[Effect<BrokerTimer>]) -> Option<Vec<ErrorCode>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Respond { response, .. } => match &**response {
            Response::Produce(answer) => {
                let partitions = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
                Some(partitions.map(|partition| ErrorCode::from_code(partition.error_code)).collect())
            }
            _ => None,
        },
        _ => None,
    })
}

/// R-REPL-33.
#[test]
fn each_partition_of_a_write_is_judged_for_itself_and_the_answer_waits_for_all() {
    let mut bench = bench();
    let both = produce_to(&[(topic_id(), 0), (topic_id(), 9)], -1);
    let effects = bench.step(|replicas, step| replicas.produce(request(), &both, &Verified::default(), step));
    assert_eq!(written(&effects), None, "t-0 waits for broker 2");
    let effects = bench.fetch(fetch_request(2, 1, 0));
    assert_eq!(written(&effects), Some(vec![ErrorCode::None, ErrorCode::UnknownTopicOrPartition]));
}

/// R-LOG-23, R-INT-1.
#[test]
fn a_client_may_not_write_to_an_internal_topic() {
    let mut bench = bench();
    let id = TopicId(uuid::Uuid::from_u128(8));
    bench.image.replay(&MetadataRecord::Topic { name: "__consumer_offsets".into(), id });
    let internal = produce_to(&[(id, 0)], 1);
    let effects =
        bench.step(|replicas, step| replicas.produce(request(), &internal, &Verified::default(), step));
    assert_eq!(written(&effects), Some(vec![ErrorCode::InvalidTopicException]));
}
