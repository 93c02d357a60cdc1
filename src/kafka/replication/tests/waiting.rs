//! What ends a fetch's wait (`DelayedFetch`, R-REPL-16, R-CONS-2).

use kafka_protocol::messages::FetchRequest;

use super::sessions::{FOLLOWER, fetch, fetch_answers};
use super::*;

/// A follower's full request for t-0 and t-1 from their starts.
fn request_for(min_bytes: i32, partition_max_bytes: i32) -> FetchRequest {
    let mut request = fetch(FOLLOWER, (0, 0), &[(0, 0), (1, 0)]).with_min_bytes(min_bytes);
    request.topics[0].partitions.iter_mut().for_each(|p| p.partition_max_bytes = partition_max_bytes);
    request
}

/// The records' bytes of each partition, if the fetch is answered.
fn bytes(effects: &[Effect<BrokerTimer>]) -> Option<Vec<usize>> {
    let answer = fetch_answers(effects).into_iter().next()?;
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    Some(partitions.map(|data| data.records.as_ref().map_or(0, Bytes::len)).collect())
}

#[test]
fn of_a_partition_no_more_counts_than_the_reader_takes_of_it_r_repl_16() {
    let mut bench = bench_of(2);
    (0..2).for_each(|_| drop(bench.produce_to(0, 1)));
    let effects = bench.fetch(request_for(100, 50));
    assert_eq!(
        bytes(&effects),
        None,
        "of 146 bytes only 50 count, although the first batch would come whole"
    );
    assert_eq!(bytes(&bench.produce_to(1, 1)), Some(vec![73, 0]), "50 more are enough");
    let mut bench = bench_of(2);
    (0..2).for_each(|partition| drop(bench.produce_to(partition, 1)));
    let effects = bench.fetch(request_for(100, 50));
    assert_eq!(bytes(&effects), Some(vec![73, 0]), "50 and 50 are enough, whatever is read");
}

#[test]
fn a_new_segment_ends_the_wait_whatever_fetch_min_bytes_says_r_repl_16() {
    for in_session in [false, true] {
        let mut bench = bench_of(2);
        let request = match in_session {
            false => request_for(1_000, 1_000),
            true => {
                let session = bench.open(FOLLOWER, &[(0, 0), (1, 0)]);
                fetch(FOLLOWER, (session, 1), &[]).with_min_bytes(1_000)
            }
        };
        assert_eq!(bytes(&bench.fetch(request)), None);
        assert_eq!(bytes(&bench.produce_to(0, 1)), None, "73 of 1000 bytes");
        let partition = bench.replicas.edit(&tp()).expect("applied");
        Rc::make_mut(&mut partition.config).log.segment_bytes = 100;
        let expected = if in_session { vec![73] } else { vec![73, 0] };
        assert_eq!(bytes(&bench.produce_to(0, 1)), Some(expected), "case F; a read stays in its segment");
    }
}

/// R-CONS-3: 73 bytes a batch.
#[test]
fn a_fetch_is_bounded_by_partition_and_in_all_but_its_first_batch_comes_whole_r_cons_3() {
    let read = |max_bytes, partition_max_bytes, broker_max_bytes| {
        let mut bench = bench_of(2);
        Rc::make_mut(&mut bench.replicas.config).fetch_max_bytes = broker_max_bytes;
        (0..6).for_each(|index| drop(bench.produce_to(index % 2, 1)));
        bytes(&bench.fetch(request_for(1, partition_max_bytes).with_max_bytes(max_bytes)))
    };
    assert_eq!(read(1_000, 1_000, 1_000), Some(vec![219, 219]));
    assert_eq!(read(1_000, 150, 1_000), Some(vec![146, 146]), "by partition");
    assert_eq!(read(300, 1_000, 1_000), Some(vec![219, 73]), "in all");
    assert_eq!(read(1_000, 1_000, 300), Some(vec![219, 73]), "in all, as the broker has it");
    assert_eq!(read(1_000, 50, 1_000), Some(vec![73, 0]), "the first batch of all is read whatever its size");
    assert_eq!(read(50, 1_000, 1_000), Some(vec![73, 0]));
}
