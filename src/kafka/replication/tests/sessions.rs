//! Fetch sessions at their broker (KIP-227, `FetchManager`, `FetchContext`).

use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic, ReplicaState};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::*;
use crate::kafka::config::BrokerConfig;

pub(super) const FOLLOWER: i32 = 2;
const CONSUMER: i32 = -1;

/// A request of `replica` in epoch `epoch` of a session, for partitions of t by number and offset.
pub(super) fn fetch(replica: i32, (session, epoch): (i32, i32), partitions: &[(i32, i64)]) -> FetchRequest {
    let asked = partitions.iter().map(|&(partition, offset)| {
        FetchPartition::default()
            .with_partition(partition)
            .with_current_leader_epoch(0)
            .with_fetch_offset(offset)
            .with_last_fetched_epoch(-1)
            .with_log_start_offset(0)
            .with_partition_max_bytes(1_048_576)
    });
    let topic = FetchTopic::default().with_topic_id(topic_id().0).with_partitions(asked.collect());
    FetchRequest::default()
        .with_replica_state(
            ReplicaState::default().with_replica_id(replica.into()).with_replica_epoch(replica.into()),
        )
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(1_048_576)
        .with_session_id(session)
        .with_session_epoch(epoch)
        .with_topics(if partitions.is_empty() { Vec::new() } else { vec![topic] })
}

pub(super) fn fetch_answers(effects: &[Effect<BrokerTimer>]) -> Vec<&FetchResponse> {
    fn answer(effect: &Effect<BrokerTimer>) -> Option<&FetchResponse> {
        let Effect::Respond { response, .. } = effect else { return None };
        match &**response {
            Response::Fetch(answer) => Some(answer),
            _ => None,
        }
    }
    effects.iter().filter_map(answer).collect()
}

/// Error, session, and of each partition its number, records' bytes, high watermark and error.
type Told = (ErrorCode, i32, Vec<(i32, usize, i64, ErrorCode)>);

fn told(answer: &FetchResponse) -> Told {
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions).map(|data| {
        let bytes = data.records.as_ref().map_or(0, Bytes::len);
        (data.partition_index, bytes, data.high_watermark, ErrorCode::from_code(data.error_code))
    });
    (ErrorCode::from_code(answer.error_code), answer.session_id, partitions.collect())
}

impl Bench {
    /// What a fetch is answered at once, or when its wait is over.
    fn fetched(&mut self, request: FetchRequest) -> Told {
        let effects = self.fetch(request);
        if let [answer] = fetch_answers(&effects)[..] {
            return told(answer);
        }
        let (parked, _) = self.replicas.purgatory().iter().last().expect("it waits");
        self.now = self.now.plus_ms(500);
        let effects = self.step(|replicas, step| replicas.expire_one(parked, step));
        told(fetch_answers(&effects)[0])
    }

    /// The session that a full request for these partitions opens.
    pub(super) fn open(&mut self, replica: i32, partitions: &[(i32, i64)]) -> i32 {
        let (error, session, _) = self.fetched(fetch(replica, (0, 0), partitions));
        assert!(error.is_ok() && session > 0, "a session is opened");
        session
    }

    fn loud(&self, session: i32) -> Option<i32> {
        self.replicas.sessions().find(session).map(|session| session.loud_count())
    }
}

const OK: ErrorCode = ErrorCode::None;
/// Bytes of a batch of one record "hello" (EX-14).
const BATCH: usize = 73;

#[test]
fn a_full_answer_tells_all_and_an_incremental_one_what_is_new() {
    let mut bench = bench_of(3);
    let all = [(0, 0), (1, 0), (2, 0)];
    let (error, session, partitions) = bench.fetched(fetch(FOLLOWER, (0, 0), &all));
    assert_eq!((error, partitions), (OK, vec![(0, 0, 0, OK), (1, 0, 0, OK), (2, 0, 0, OK)]));
    assert_eq!(bench.loud(session), Some(0), "nothing is to be looked at until something changes");
    assert_eq!(bench.fetched(fetch(FOLLOWER, (session, 1), &[])), (OK, session, vec![]));
    bench.produce_to(1, 1);
    let records = bench.fetched(fetch(FOLLOWER, (session, 2), &[]));
    assert_eq!(records, (OK, session, vec![(1, BATCH, 0, OK)]));
    assert_eq!(bench.loud(session), Some(1));
    // The acknowledgement moves the high watermark, which the next answer tells (R-REPL-15).
    assert_eq!(bench.fetched(fetch(FOLLOWER, (session, 3), &[(1, 1)])), (OK, session, vec![(1, 0, 1, OK)]));
    assert_eq!(bench.fetched(fetch(FOLLOWER, (session, 4), &[])), (OK, session, vec![]));
    assert_eq!(bench.loud(session), Some(0));
}

#[test]
fn a_parked_fetch_of_a_session_is_woken_by_any_of_its_partitions() {
    for replica in [FOLLOWER, CONSUMER] {
        let mut bench = bench_of(3);
        let follower = bench.open(FOLLOWER, &[(0, 0), (1, 0), (2, 0)]);
        let session = match replica {
            FOLLOWER => follower,
            _ => bench.open(CONSUMER, &[(0, 0), (1, 0), (2, 0)]),
        };
        assert_eq!(
            fetch_answers(&bench.fetch(fetch(replica, (session, 1), &[]))),
            Vec::<&FetchResponse>::new()
        );
        let (_, waiting) = bench.replicas.purgatory().iter().last().expect("it waits");
        assert_eq!(format!("{:?}", waiting.operation).matches("Incremental").count(), 1);
        let mut effects = bench.produce_to(2, 1);
        if replica == CONSUMER {
            assert!(fetch_answers(&effects).is_empty(), "it is not committed yet");
            effects = bench.fetch(fetch(FOLLOWER, (follower, 1), &[(2, 1)]));
        }
        let answers = fetch_answers(&effects);
        let high_watermark = if replica == CONSUMER { 1 } else { 0 };
        assert_eq!(told(answers[0]), (OK, session, vec![(2, BATCH, high_watermark, OK)]));
    }
}

#[test]
fn a_request_that_the_session_does_not_expect_is_refused() {
    let mut bench = bench_of(2);
    let session = bench.open(CONSUMER, &[(0, 0), (1, 0)]);
    let refused = |error| (error, 0, vec![]);
    let unknown = refused(ErrorCode::FetchSessionIdNotFound);
    assert_eq!(bench.fetched(fetch(CONSUMER, (session + 1, 1), &[])), unknown);
    let epoch = refused(ErrorCode::InvalidFetchSessionEpoch);
    assert_eq!(bench.fetched(fetch(CONSUMER, (session, 2), &[])), epoch);
    assert_eq!(bench.fetched(fetch(CONSUMER, (session, 1), &[])), (OK, session, vec![]));
    assert_eq!(bench.fetched(fetch(CONSUMER, (session, 1), &[])), epoch, "it was used");
    // A full request closes the session that it names; one in the final epoch opens no other.
    let (_, other, partitions) = bench.fetched(fetch(CONSUMER, (session, 0), &[(0, 0)]));
    assert!(other != session && other > 0 && partitions.len() == 1);
    assert_eq!(bench.fetched(fetch(CONSUMER, (session, 2), &[])), unknown);
    let (_, none, partitions) = bench.fetched(fetch(CONSUMER, (other, -1), &[(0, 0)]));
    assert_eq!((none, partitions.len(), bench.loud(other)), (0, 1, None));
}

#[test]
fn forgotten_partitions_leave_and_with_the_last_the_session_ends() {
    let mut bench = bench_of(2);
    let session = bench.open(FOLLOWER, &[(0, 0), (1, 0)]);
    let forgetting = |epoch, partitions: &[i32]| {
        let topic =
            ForgottenTopic::default().with_topic_id(topic_id().0).with_partitions(partitions.to_vec());
        fetch(FOLLOWER, (session, epoch), &[]).with_forgotten_topics_data(vec![topic])
    };
    assert_eq!(bench.fetched(forgetting(1, &[0])), (OK, session, vec![]));
    bench.produce_to(0, 1);
    assert_eq!(
        bench.fetched(fetch(FOLLOWER, (session, 2), &[])),
        (OK, session, vec![]),
        "nobody asks for it"
    );
    let effects = bench.fetch(forgetting(3, &[1]));
    assert_eq!(told(fetch_answers(&effects)[0]), (OK, 0, vec![]), "answered at once, and closed");
    assert_eq!(bench.loud(session), None);
}

#[test]
fn an_error_is_told_each_time_and_its_end_too() {
    let mut bench = bench_of(2);
    let session = bench.open(CONSUMER, &[(0, 0), (1, 0)]);
    let lead = |bench: &mut Bench, leader, epoch| {
        let effects = bench.step(|replicas, step| {
            let mut registration = (**step.image.partition(&tp_of(1)).expect("replayed")).clone();
            registration.leader = BrokerId(leader);
            registration.leader_epoch = LeaderEpoch(epoch);
            registration.partition_epoch = PartitionEpoch(epoch);
            replicas.apply(&tp_of(1), &registration, step);
        });
        fetch_answers(&effects).into_iter().map(told).collect::<Vec<_>>()
    };
    assert!(fetch_answers(&bench.fetch(fetch(CONSUMER, (session, 1), &[]))).is_empty());
    let fenced = (1, 0, -1, ErrorCode::FencedLeaderEpoch);
    assert_eq!(lead(&mut bench, 2, 1), [(OK, session, vec![fenced])], "DelayedFetch, case E");
    assert_eq!(bench.fetched(fetch(CONSUMER, (session, 2), &[])), (OK, session, vec![fenced]), "at once");
    lead(&mut bench, 1, 2);
    let newer = |epoch, leader_epoch| {
        let mut request = fetch(CONSUMER, (session, epoch), &[(1, 0)]);
        request.topics[0].partitions[0].current_leader_epoch = leader_epoch;
        request
    };
    assert_eq!(bench.fetched(newer(3, 2)), (OK, session, vec![(1, 0, 0, OK)]));
    assert_eq!(bench.fetched(fetch(CONSUMER, (session, 4), &[])), (OK, session, vec![]));
}

#[test]
fn an_unknown_topic_is_told_and_holds_nobody_up() {
    let mut bench = bench_of(1);
    let mut request = fetch(CONSUMER, (0, 0), &[(0, 0)]);
    let mut other = request.topics[0].clone();
    other.topic_id = uuid::Uuid::from_u128(8);
    request.topics.insert(0, other);
    assert!(fetch_answers(&bench.fetch(request.clone())).is_empty(), "the known one is waited for");
    let (_, _, partitions) = bench.fetched(request);
    assert_eq!(partitions, [(0, 0, 0, OK), (0, 0, -1, ErrorCode::UnknownTopicId)], "errors come last");
}

/// A follower that asks for nothing new is in sync all the same, and its leader knows since when (R-REPL-9, 19, 21).
#[test]
fn fetches_that_name_nothing_tell_that_a_follower_has_caught_up() {
    let mut bench = bench_of(2);
    let session = bench.open(FOLLOWER, &[(0, 0), (1, 0)]);
    for epoch in 1..=100 {
        bench.fetched(fetch(FOLLOWER, (session, epoch), &[]));
    }
    bench.replicas.take_notices();
    // The hundredth came 500 ms ago and was answered now.
    let fetched_at = Time::from_ms(bench.now.ms() - 500);
    let seen = |bench: &Bench| {
        let partition = bench.replicas.partition(&tp()).expect("applied");
        (
            bench.replicas.last_caught_up_at(partition, BrokerId(2)),
            partition.leader().expect("it leads").clone(),
        )
    };
    assert_eq!(seen(&bench).0, Some(fetched_at));
    bench.produce_to(0, 1);
    let (at, leader) = seen(&bench);
    assert_eq!((at, leader.remotes[&BrokerId(2)].last_caught_up_at), (Some(fetched_at), Some(fetched_at)));
    assert_eq!(leader.remotes[&BrokerId(2)].last_fetch_at, Some(fetched_at));
    bench.now = fetched_at.plus_ms(30_000);
    bench.step(ReplicaManager::check_isr);
    assert_eq!(bench.replicas.take_notices(), [], "R-REPL-21: not yet");
    bench.now = fetched_at.plus_ms(30_001);
    bench.step(ReplicaManager::check_isr);
    assert_eq!(bench.replicas.take_notices(), [Notice::IsrWanted { tp: tp() }], "and only for t-0");
}

/// A follower that was started again is told apart from its former self (R-REPL-10).
#[test]
fn a_fetch_of_an_older_incarnation_is_refused_in_a_session_too() {
    let mut bench = bench_of(1);
    let session = bench.open(FOLLOWER, &[(0, 0)]);
    bench.image.replay(&MetadataRecord::RegisterBroker(RegisterBroker {
        broker: BrokerId(2),
        incarnation: uuid::Uuid::from_u128(2),
        epoch: BrokerEpoch(20),
        rack: None,
        fenced: false,
        in_controlled_shutdown: false,
    }));
    bench.replicas.brokers_changed();
    let refused = (0, 0, -1, ErrorCode::NotLeaderOrFollower);
    assert_eq!(bench.fetched(fetch(FOLLOWER, (session, 1), &[])), (OK, session, vec![refused]));
}

#[test]
fn a_session_that_is_evicted_is_answered_once_more() {
    let mut bench = bench_of(1);
    let slots = 8;
    let config = BrokerConfig { max_incremental_fetch_session_cache_slots: slots, ..BrokerConfig::default() };
    let random = Random::stream(1, "sessions");
    bench.replicas = ReplicaManager::new(BrokerId(1), Rc::new(config), LogDirectory::default(), random);
    bench.step(|replicas, step| {
        let registration = step.image.partition(&tp()).expect("replayed").clone();
        replicas.apply(&tp(), &registration, step);
    });
    let session = bench.open(CONSUMER, &[(0, 0)]);
    assert!(fetch_answers(&bench.fetch(fetch(CONSUMER, (session, 1), &[]))).is_empty());
    let (parked, _) = bench.replicas.purgatory().iter().last().expect("it waits");
    for _ in 0..slots {
        bench.fetched(fetch(FOLLOWER, (0, 0), &[(0, 0)]));
    }
    assert_eq!(bench.loud(session), None, "followers need the slots");
    let effects = bench.step(|replicas, step| replicas.expire_one(parked, step));
    assert_eq!(told(fetch_answers(&effects)[0]), (OK, session, vec![]));
    let gone = (ErrorCode::FetchSessionIdNotFound, 0, vec![]);
    assert_eq!(bench.fetched(fetch(CONSUMER, (session, 2), &[])), gone);
}
