//! Where producers' records come to stand, as the ledger tells it: cases A07, A08, A12, A73, EX-13, EX-14 and EX-15.

use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::lab::ledger::{Answer, Batch, Count, Within};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster, tp};
use crate::programs::read;

/// A producer of records with this key, none for `none`; it is paused before its first one.
fn keyed(c: &mut Cluster, name: &str, key: &str, more: &str) {
    c.order(&format!("add producer {name} to t rate 1000/s keys {key} {more}"));
    c.order(&format!("pause {name}"));
    c.run_ms(500);
}

/// The partitions that a producer's records came into, in the order in which it made them.
fn places(c: &Cluster, client: &str) -> Vec<i32> {
    let ledger = c.ledger();
    let of = ledger.batches().filter(|batch| batch.client.as_str() == client && !batch.copies.is_empty());
    let mut numbered: Vec<(i64, i32)> =
        of.flat_map(|batch| batch.records.iter().map(|record| (record.number, batch.tp.partition))).collect();
    numbered.sort_unstable();
    numbered.into_iter().map(|(_, partition)| partition).collect()
}

/// How many records each partition of `t` stores.
fn stored(c: &Cluster, partitions: i32) -> Vec<i64> {
    let totals = c.ledger().totals();
    let of = |index: i32| totals.records(&Within::Partition(tp(&format!("t-{index}"))));
    (0..partitions).map(|index| of(index).count(Count::Stored)).collect()
}

/// R-PROD-11: a batch of one record with a value of ten bytes has 78, and one of a hundred bytes has 169.
#[test]
fn a07_keyless_records_stay_with_a_partition_until_it_has_16384_bytes() {
    for (value_bytes, expected) in [(10, 211), (100, 97)] {
        let mut c = cluster(3).topic("t", 3, 1, &[]);
        c.order(&format!("add producer p to t rate 1/s keys none value-size {value_bytes}"));
        c.run_ms(700_000);
        let places = places(&c, "p");
        let turns: Vec<usize> = places.chunk_by(|a, b| a == b).map(<[i32]>::len).collect();
        let whole = &turns[..turns.len() - 1];
        assert!(!whole.is_empty() && whole.iter().all(|turn| turn.is_multiple_of(expected)), "{turns:?}");
        assert_eq!(places[..10], [places[0]; 10], "ten records to see how they spread come to one");
        let sums = (0..3).map(|index| places.iter().filter(|place| **place == index).count() as i64);
        assert_eq!(stored(&c, 3), sums.collect::<Vec<_>>());
    }
}

/// R-PROD-9, R-PROD-14.
#[test]
fn a08_the_same_key_comes_into_another_partition_with_another_library() {
    let placed = |more: &str| {
        let mut c = cluster(3).topic("t", 3, 1, &[]);
        for key in ["alice", "erin", "user-3", "order-1"] {
            c.order(&format!("add producer {key} to t rate 10/s keys {key} {more}"));
        }
        c.run_ms(2_000);
        ["alice", "erin", "user-3", "order-1"].map(|key| {
            let places = places(&c, key);
            assert!(
                !places.is_empty() && places.iter().all(|place| *place == places[0]),
                "{key}: {places:?}"
            );
            places[0]
        })
    };
    assert_eq!(placed(""), [0, 2, 2, 1], "Java");
    assert_eq!(placed("profile librdkafka"), [2, 0, 0, 1], "librdkafka: only the last agrees");
}

/// R-LOG-22.
#[test]
fn a12_what_has_no_key_is_refused_by_a_compacted_topic_with_all_that_is_in_its_batch() {
    let mut c = cluster(1).topic("t", 1, 1, &[("cleanup.policy", "compact")]);
    keyed(&mut c, "p", "none", "linger.ms=1000");
    c.send("p", 3);
    c.run_ms(3_000);
    assert_eq!(c.outcome("t"), "produced 3, failed 3");
    keyed(&mut c, "q", "a", "");
    c.send("q", 3);
    c.run_ms(3_000);
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 3, failed 3, stored 3");
}

/// R-LOG-22, R-PROD-11: the sticky partitioner puts records without a key into the batch that a partition's keyed ones wait
/// in, and these fail with them; what waits for other partitions does not.
#[test]
fn a12_keyed_records_fail_with_the_keyless_ones_of_their_batch_and_with_no_others() {
    let mut c = cluster(1).topic("t", 3, 1, &[("cleanup.policy", "compact")]);
    keyed(&mut c, "p", "\"k-{0..9} or none\"", "value \"{n}|{key}\" linger.ms=1000");
    c.send("p", 30);
    c.run_ms(3_000);
    let ledger = c.ledger();
    assert_eq!(c.outcome("t"), "produced 30, acknowledged 7, failed 23, stored 7");
    let mut mixed = 0;
    for batch in ledger.batches() {
        let keyless = batch.records.iter().filter(|record| record.key.is_none()).count();
        let answers: Vec<Answer> = batch.sends.iter().map(|sent| sent.answer).collect();
        match keyless {
            0 => assert!(matches!(answers[..], [Answer::Stored(_)]), "{answers:?}"),
            _ => {
                assert!(matches!(answers[..], [Answer::Refused(_, ErrorCode::InvalidRecord)]), "{answers:?}")
            }
        }
        mixed += i32::from((1..batch.records.len()).contains(&keyless));
    }
    assert!(mixed > 0, "keyed records waited with keyless ones");
}

/// The answer to a record does not come back, and its client sends it again.
fn unanswered_once(c: &mut Cluster) {
    let client = || Target::Client("p".into());
    let end = c.partition(1, "t-0").expect("the leader").log.log_end_offset();
    c.send("p", 1);
    c.until("it is stored", 1_000, |c| {
        c.partition(1, "t-0").is_some_and(|partition| partition.log.log_end_offset() > end)
    });
    c.give(Command::Cut { a: client(), b: Target::Broker(BrokerId(1)) });
    c.run_ms(31_000);
    c.give(Command::Heal { a: client(), b: Target::Broker(BrokerId(1)) });
    c.run_ms(10_000);
}

/// R-PROD-15, R-PROD-22: what tells that idempotence is off is a record that is there twice.
#[test]
fn a73_with_acks_1_idempotence_is_silently_off_and_a_retry_stands_twice() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[("acks", "1")]);
    unanswered_once(&mut c);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1, stored twice 1");
    for refused in [
        "acks=1 enable.idempotence=true",
        "max.in.flight.requests.per.connection=6",
        "enable.idempotence=false transactional.id=x",
    ] {
        let order = read(&format!("add producer q to t rate 10/s keys none {refused}"));
        c.try_give(order).expect_err(refused);
    }
    c.run_ms(1_000);
    assert_eq!(
        c.outcome("t"),
        "produced 1, acknowledged 1, stored 1, stored twice 1",
        "nobody else has sent"
    );
}

/// R-PROD-14, R-PLACE-7.
#[test]
fn ex_13_a_key_has_its_partition_and_more_partitions_send_it_elsewhere() {
    let three = [("user-1", 2), ("user-2", 2), ("user-3", 2), ("order-1001", 0), ("order-1003", 1), ("b", 2)];
    let four = [("user-1", 0), ("user-2", 0), ("user-3", 3), ("order-1001", 2), ("order-1003", 0)];
    let mut c = cluster(1).topic("t", 3, 1, &[]);
    for (key, _) in three {
        keyed(&mut c, key, key, "metadata.max.age.ms=2000");
        c.send(key, 2);
    }
    c.run_ms(1_000);
    three.iter().for_each(|(key, place)| assert_eq!(places(&c, key), [*place; 2], "{key}"));
    assert_eq!(stored(&c, 3), [2, 2, 8]);
    c.order("add partitions to t up to 4");
    c.run_ms(5_000);
    for (key, place) in four {
        c.send(key, 1);
        c.run_ms(500);
        assert_eq!(places(&c, key).last(), Some(&place), "{key}");
    }
    assert_eq!(stored(&c, 4), [5, 2, 9, 1], "what was there has not moved");
}

/// The bytes of the batch at the leader that a batch of the ledger has become.
fn bytes_of(c: &Cluster, batch: &Batch) -> i64 {
    let base = batch.in_place().next().expect("it is stored").base;
    let log = &c.partition(1, "t-0").expect("the leader").log;
    let found = log.batches_from(base).next().expect("a batch");
    assert_eq!(found.base_offset(), base);
    i64::from(found.size_bytes())
}

/// R-LOG-1.
#[test]
fn ex_14_a_record_has_12_bytes_and_its_batch_61_more() {
    let mut c = cluster(1).topic("t", 1, 1, &[]);
    keyed(&mut c, "p", "none", "value hello");
    c.send("p", 1);
    c.run_ms(1_000);
    let ledger = c.ledger();
    let batch = ledger.batches().next().expect("a batch");
    assert_eq!((batch.records.len(), bytes_of(&c, batch)), (1, 73));
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    keyed(&mut c, "p", "k1", "value v1 linger.ms=1000 transactional.id=x-1");
    c.run_ms(2_000);
    c.order("begin transaction of p");
    c.send("p", 2);
    c.run_ms(2_000);
    c.order("commit transaction of p");
    c.run_ms(2_000);
    let ledger = c.ledger();
    let batch = ledger.batches().next().expect("a batch");
    assert_eq!((batch.records.len(), bytes_of(&c, batch)), (2, 83), "11 bytes each");
    let log = &c.partition(1, "t-0").expect("the leader").log;
    let marker = log.batches_from(Offset(2)).next().expect("the marker");
    assert!(marker.is_control() && marker.size_bytes() == 78);
    assert_eq!(c.outcome("t"), "produced 2, acknowledged 2, stored 2", "the marker is nobody's record");
}

/// R-PROD-25: the seventh of seven batches is among the last five that the leader knows.
#[test]
fn ex_15_a_retry_whose_answer_was_lost_is_known_by_its_sequence_and_stands_once() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[("batch.size", "0")]);
    c.send("p", 6);
    c.run_ms(1_000);
    unanswered_once(&mut c);
    assert_eq!(c.outcome("t"), "produced 7, acknowledged 7, stored 7");
    let ledger = c.ledger();
    let (batch, _) = ledger.record_of(&"p".into(), 7).expect("the last");
    let answers: Vec<Answer> = batch.sends.iter().map(|sent| sent.answer).collect();
    assert!(
        matches!(answers[..], [Answer::Stored(_), Answer::Known(_, Offset(6))]),
        "the second is answered with the first one's offset: {answers:?}"
    );
    assert_eq!(batch.copies.len(), 1);
    let refused = |answer| matches!(answer, Answer::Refused(_, ErrorCode::OutOfOrderSequenceNumber));
    assert!(!answers.into_iter().any(refused));
}

/// R-PROD-26, R-PROD-29: the leader has refused the eighth, so that the next ones are out of order until it has it. What is older
/// than the last five no client sends again: with idempotence five are on the way at most.
#[test]
fn ex_15_what_comes_before_its_turn_is_refused_kept_and_sent_again_in_order() {
    let mut c = cluster(2).topic("t", 1, 2, &[]);
    c.producer("p", "t", "10/s", &[("batch.size", "0")]);
    c.send("p", 7);
    c.kill(2);
    c.until("2 is out", 20_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.order("set topic t min.insync.replicas=2");
    c.order("slow p to broker 1 by 250ms");
    c.run_ms(1_000);
    c.order("resume p");
    c.until_event("the eighth is refused", 10_000, |event| {
        matches!(event, Event::ProduceRefused { error: ErrorCode::NotEnoughReplicas, .. })
    });
    c.order("set topic t min.insync.replicas=1");
    c.until("two more are sent", 1_000, |c| c.producer_state("p").counts().sent == 10);
    c.order("pause p");
    c.run_ms(10_000);
    assert_eq!(c.outcome("t"), "produced 10, acknowledged 10, stored 10");
    let ledger = c.ledger();
    for (number, refusal) in [
        (8, ErrorCode::NotEnoughReplicas),
        (9, ErrorCode::OutOfOrderSequenceNumber),
        (10, ErrorCode::OutOfOrderSequenceNumber),
    ] {
        let (batch, _) = ledger.record_of(&"p".into(), number).expect("it was made");
        let answers: Vec<Answer> = batch.sends.iter().map(|sent| sent.answer).collect();
        let [refused @ .., Answer::Stored(_)] = &answers[..] else { panic!("{number}: {answers:?}") };
        let is_it = |answer: &Answer| matches!(answer, Answer::Refused(_, error) if *error == refusal);
        assert!(!refused.is_empty() && refused.iter().all(is_it), "{number}: {answers:?}");
        let bases: Vec<Offset> = batch.in_place().map(|copy| copy.base).collect();
        assert_eq!(bases, [Offset(number - 1)], "in order, and once");
    }
}
