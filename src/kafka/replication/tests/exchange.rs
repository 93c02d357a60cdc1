//! A leader and a follower that hand each other their requests and answers.

use kafka_protocol::messages::FetchResponse;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};

use super::*;
use crate::kafka::event::Event;
use crate::kafka::log::{Log, LogConfig, Origin};
use crate::kafka::replication::{LogDirectory, Lost};

pub(super) const LEADER: BrokerId = BrokerId(1);
pub(super) const FOLLOWER: BrokerId = BrokerId(2);

/// A log of one record a batch: epochs with their first offsets, and its end.
pub(super) fn log(epochs: &[(i32, i64)], end: i64) -> Log {
    let mut log = Log::new();
    for offset in 0..end {
        let (epoch, _) = epochs.iter().rev().find(|(_, start)| *start <= offset).expect("an epoch");
        let mut batch = BatchBuilder::new();
        batch.append(&NewRecord { value: Some(b"a"), ..NewRecord::default() });
        let bytes = batch.finish(None).into_bytes();
        log.append_as_leader(Time::ZERO, bytes, LeaderEpoch(*epoch), Origin::Client, &LogConfig::default())
            .expect("a sound batch");
    }
    log
}

/// Broker 1, which leads t-0 in epoch 4, or broker 2, which follows it.
fn broker(me: BrokerId, log: Log) -> Bench {
    let mut disk = LogDirectory::default();
    disk.logs.insert(tp(), (topic_id(), log));
    started(me, disk, true)
}

/// A broker that finds this on its disk.
fn started(me: BrokerId, disk: LogDirectory, clean: bool) -> Bench {
    let mut bench = bench();
    bench.replicas = ReplicaManager::new(me, Rc::default(), disk, Random::stream(1, "sessions"));
    bench.step(|replicas, step| replicas.load_logs(clean, step));
    bench.step(|replicas, step| {
        let mut registration = (**step.image.partition(&tp()).expect("replayed")).clone();
        registration.leader_epoch = LeaderEpoch(4);
        replicas.apply(&tp(), &registration, step);
    });
    bench
}

fn epochs(bench: &Bench) -> Vec<(i32, i64)> {
    let entries = bench.replicas.partition(&tp()).expect("applied").log.leader_epochs().entries().to_vec();
    entries.into_iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
}

/// One fetch of the follower's: its offset, and where it cut its log at the answer.
fn exchange(leader: &mut Bench, follower: &mut Bench) -> (i64, Option<i64>) {
    let mut request = None;
    follower.step(|replicas, step| request = replicas.next_fetch(LEADER, BrokerEpoch(2), step));
    let request = request.expect("it follows").with_max_wait_ms(0);
    let offset = request.topics[0].partitions[0].fetch_offset;
    let effects = leader.fetch(request);
    let answer = effects.iter().find_map(|effect| match effect {
        Effect::Respond { response, .. } => match &**response {
            Response::Fetch(answer) => Some(answer.clone()),
            _ => None,
        },
        _ => None,
    });
    let answer: FetchResponse = answer.expect("it may not wait");
    let effects = follower.step(|replicas, step| replicas.fetched(LEADER, &answer, step));
    let cut = effects.iter().find_map(|effect| match effect {
        Effect::Event(Event::Truncated { to, .. }) => Some(to.0),
        _ => None,
    });
    (offset, cut)
}

#[test]
fn ex_7_two_steps_bring_two_histories_together_r_repl_36() {
    let mut leader = broker(LEADER, log(&[(1, 0), (2, 18), (4, 25)], 40));
    let mut follower = broker(FOLLOWER, log(&[(1, 0), (3, 20)], 30));
    assert_eq!(exchange(&mut leader, &mut follower), (30, Some(20)), "R-LOG-49: 2 ends at 25, 1 here at 20");
    assert_eq!(epochs(&follower), [(1, 0)]);
    assert_eq!(exchange(&mut leader, &mut follower), (20, Some(18)), "1 ends at 18");
    assert_eq!(exchange(&mut leader, &mut follower), (18, None), "now they agree, and data flows");
    assert_eq!((follower.end(), epochs(&follower)), (leader.end(), epochs(&leader)));
    assert_eq!(exchange(&mut leader, &mut follower), (40, None));
}

#[test]
fn a_batch_that_does_not_fit_the_log_ends_the_fetching_until_there_is_another_leader_epoch_r_repl_38() {
    let mut batch = BatchBuilder::new();
    for _ in 0..3 {
        batch.append(&NewRecord { value: Some(b"b"), ..NewRecord::default() });
    }
    let (bytes, config) = (batch.finish(None).into_bytes(), LogConfig::default());
    let mut longer = Log::new();
    longer.append_as_leader(Time::ZERO, bytes, LeaderEpoch(1), Origin::Client, &config).expect("sound");
    // Someone led twice in epoch 1: the follower ends within the leader's batch, and no epoch tells it.
    let mut leader = broker(LEADER, longer);
    let mut follower = broker(FOLLOWER, log(&[(1, 0)], 1));
    assert_eq!(exchange(&mut leader, &mut follower), (1, None));
    assert_eq!(follower.end(), Offset(1));
    let asks = |follower: &mut Bench| {
        let mut asks = false;
        follower.step(|replicas, step| asks = replicas.next_fetch(LEADER, BrokerEpoch(2), step).is_some());
        asks
    };
    follower.now = follower.now.plus_ms(60_000);
    asks(&mut follower);
    assert!(!asks(&mut follower), "but for letting go of it in the session, nothing is asked for any more");
    follower.step(|replicas, step| {
        let mut registration = (**step.image.partition(&tp()).expect("replayed")).clone();
        registration.leader_epoch = LeaderEpoch(5);
        replicas.apply(&tp(), &registration, step);
    });
    assert!(asks(&mut follower));
}

#[test]
fn corrupt_bytes_are_asked_for_again_r_repl_38() {
    let mut follower = broker(FOLLOWER, log(&[(1, 0)], 1));
    let ask = |follower: &mut Bench| {
        let mut request = None;
        follower.step(|replicas, step| request = replicas.next_fetch(LEADER, BrokerEpoch(2), step));
        request
    };
    ask(&mut follower).expect("it follows");
    let mut batch = BatchBuilder::new();
    batch.append(&NewRecord { value: Some(b"b"), ..NewRecord::default() });
    let mut bytes = batch.finish(None).into_bytes().to_vec();
    *bytes.last_mut().expect("a batch") ^= 1;
    follower.step(|replicas, step| replicas.fetched(LEADER, &answer_of(bytes), step));
    assert!(ask(&mut follower).is_none(), "it rests");
    follower.now = follower.now.plus_ms(1_000);
    assert!(ask(&mut follower).is_some());
}

/// What brings these bytes of t-0.
fn answer_of(bytes: Vec<u8>) -> FetchResponse {
    let data = PartitionData::default()
        .with_high_watermark(1)
        .with_log_start_offset(0)
        .with_records(Some(bytes.into()));
    let topic = FetchableTopicResponse::default().with_topic_id(topic_id().0).with_partitions(vec![data]);
    FetchResponse::default().with_responses(vec![topic])
}

#[test]
fn a_truncation_is_noted_and_an_orderly_stop_flushes_what_came_after_it_r_log_51() {
    let mut leader = broker(LEADER, log(&[(1, 0), (3, 4)], 10));
    let mut follower = broker(FOLLOWER, log(&[(1, 0), (2, 4)], 10));
    follower.replicas.close_logs(Time::ZERO);
    let noted = |disk: &LogDirectory| disk.checkpoints.recovery_points[&tp()];
    let disk = follower.replicas.into_disk();
    assert_eq!(noted(&disk), Offset(10));
    let mut follower = started(FOLLOWER, disk, true);
    assert_eq!(exchange(&mut leader, &mut follower), (10, Some(4)));
    assert_eq!(noted(&follower.replicas.clone().into_disk()), Offset(4), "LogManager.truncateTo");
    assert_eq!(exchange(&mut leader, &mut follower), (4, None));
    let killed = follower.replicas.into_disk();
    let log = &killed.logs[&tp()].1;
    assert_eq!((log.flushed(), log.log_end_offset()), (Offset(4), Offset(10)));
    let mut follower = started(FOLLOWER, killed, false);
    assert_eq!(follower.replicas.partition(&tp()).expect("applied").log.recovery_point(), Offset(4));
    follower.replicas.close_logs(Time::ZERO);
    let mut disk = follower.replicas.into_disk();
    assert_eq!(disk.lose_unflushed(Time::ZERO), Lost::default());
    assert_eq!(disk.logs[&tp()].1.log_end_offset(), Offset(10));
}

#[test]
fn a_log_that_begins_anew_is_noted_too_r_repl_37() {
    let mut follower = broker(FOLLOWER, log(&[(1, 0)], 10));
    follower.replicas.close_logs(Time::ZERO);
    follower.replicas.truncate_log_fully(&tp(), Offset(7), Time::ZERO);
    assert_eq!(follower.replicas.checkpoints.recovery_points[&tp()], Offset(7));
    assert!(!follower.replicas.truncate_log(&tp(), Offset(7), Time::ZERO), "it ends there");
    assert!(follower.replicas.truncate_log(&tp(), Offset(5), Time::ZERO));
    assert_eq!(follower.replicas.checkpoints.recovery_points[&tp()], Offset(5));
}

#[test]
fn a_leader_tells_where_an_epoch_ends_and_nobody_else_does_r_log_49() {
    use kafka_protocol::messages::OffsetForLeaderEpochRequest;
    use kafka_protocol::messages::offset_for_leader_epoch_request::{
        OffsetForLeaderPartition, OffsetForLeaderTopic,
    };
    let asked = |bench: &Bench, topic: &str, current: i32, epoch: i32| {
        let partition =
            OffsetForLeaderPartition::default().with_current_leader_epoch(current).with_leader_epoch(epoch);
        let name = kafka_protocol::messages::TopicName(crate::kafka::types::Topic::new(topic).to_wire());
        let topic = OffsetForLeaderTopic::default().with_topic(name).with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        let answer = bench.replicas.offsets_for_leader_epoch(&request, &bench.image);
        let answer = &answer.topics[0].partitions[0];
        (ErrorCode::from_code(answer.error_code), answer.leader_epoch, answer.end_offset)
    };
    let leader = broker(LEADER, log(&[(1, 0), (2, 18), (4, 25)], 40));
    let follower = broker(FOLLOWER, log(&[(1, 0)], 30));
    let failed = |error| (error, -1, -1);
    assert_eq!(asked(&leader, "t", 4, 3), (ErrorCode::None, 2, 25));
    assert_eq!(asked(&leader, "t", -1, 4), (ErrorCode::None, 4, 40), "the epoch need not be checked");
    assert_eq!(asked(&leader, "t", 4, 5), failed(ErrorCode::None), "it is not known");
    assert_eq!(asked(&leader, "t", 3, 3), failed(ErrorCode::FencedLeaderEpoch), "R-REPL-7");
    assert_eq!(asked(&leader, "t", 5, 3), failed(ErrorCode::UnknownLeaderEpoch));
    assert_eq!(asked(&follower, "t", 4, 1), failed(ErrorCode::NotLeaderOrFollower));
    assert_eq!(asked(&leader, "other", 4, 1), failed(ErrorCode::UnknownTopicOrPartition));
}
