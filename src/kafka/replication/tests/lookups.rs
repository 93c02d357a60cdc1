//! A follower that asks where its leader's log lies (`fetchOffsetAndTruncate`, R-REPL-37).

use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{FetchResponse, ListOffsetsResponse};

use super::exchange::{FOLLOWER, LEADER, log};
use super::*;
use crate::kafka::replication::LogDirectory;

/// Broker 2, which follows t-0, with three records, and t-1; the leader said that t-0's end is out of its range.
fn out_of_range() -> Bench {
    let mut bench = bench_of(2);
    let mut disk = LogDirectory::default();
    disk.logs.insert(tp(), (topic_id(), log(&[(0, 0)], 3)));
    bench.replicas = ReplicaManager::new(FOLLOWER, Rc::default(), disk, Random::stream(1, "sessions"));
    for tp in [tp_of(0), tp_of(1)] {
        bench.step(|replicas, step| {
            let registration = step.image.partition(&tp).expect("replayed").clone();
            replicas.apply(&tp, &registration, step);
        });
    }
    assert_eq!(fetching(&mut bench), [(0, 3), (1, 0)]);
    let refused = PartitionData::default().with_error_code(ErrorCode::OffsetOutOfRange.code());
    let partitions = vec![refused, PartitionData::default().with_partition_index(1)];
    let topic = FetchableTopicResponse::default().with_topic_id(topic_id().0).with_partitions(partitions);
    let answer = FetchResponse::default().with_responses(vec![topic]);
    bench.step(|replicas, step| replicas.fetched(LEADER, &answer, step));
    bench
}

/// Partitions and offsets of the next fetch, in order. The leader has no slot for a session.
fn fetching(bench: &mut Bench) -> Vec<(i32, i64)> {
    let mut request = None;
    bench.step(|replicas, step| request = replicas.next_fetch(LEADER, BrokerEpoch(2), step));
    let topics = request.into_iter().flat_map(|request| request.topics);
    topics.flat_map(|topic| topic.partitions).map(|p| (p.partition, p.fetch_offset)).collect()
}

/// Answers the question that is due.
fn tell(bench: &mut Bench, answer: Result<i64, ErrorCode>) {
    let (_, lookup) = bench.replicas.next_lookup(LEADER).expect("a question");
    let data = match answer {
        Ok(offset) => ListOffsetsPartitionResponse::default().with_offset(offset),
        Err(error) => ListOffsetsPartitionResponse::default().with_error_code(error.code()),
    };
    let topic = ListOffsetsTopicResponse::default().with_partitions(vec![data]);
    let answer = ListOffsetsResponse::default().with_topics(vec![topic]);
    bench.step(|replicas, step| replicas.looked_up(LEADER, &lookup, &answer, step));
}

#[test]
fn what_has_found_its_place_is_fetched_after_the_others_r_repl_37() {
    for (title, answers, offset) in [
        ("it has more than the leader: cut", &[2][..], 2),
        ("the leader begins later: begun anew", &[9, 7], 7),
        ("it lies within the leader's log by now", &[9, 1], 3),
    ] {
        let mut bench = out_of_range();
        answers.iter().for_each(|answer| tell(&mut bench, Ok(*answer)));
        assert_eq!(bench.replicas.next_lookup(LEADER), None, "{title}");
        assert_eq!(fetching(&mut bench), [(1, 0), (0, offset)], "{title}");
    }
}

/// As an answer to a fetch does (`onPartitionFenced`), while other errors are tried again.
#[test]
fn fenced_at_a_question_it_waits_for_metadata_r_repl_38() {
    for answers in [&[][..], &[9]] {
        for (error, again) in [(ErrorCode::FencedLeaderEpoch, false), (ErrorCode::NotLeaderOrFollower, true)]
        {
            let mut bench = out_of_range();
            answers.iter().for_each(|answer| tell(&mut bench, Ok(*answer)));
            tell(&mut bench, Err(error));
            bench.now = bench.now.plus_ms(60_000);
            let expected = if again { vec![(1, 0), (0, 3)] } else { vec![(1, 0)] };
            assert_eq!(fetching(&mut bench), expected, "{error} after {answers:?}");
        }
    }
}
