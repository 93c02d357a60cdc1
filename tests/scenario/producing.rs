//! What producers do with records, as a person asks for them: cases A09, A10, A12 and A73.

use glassbroker::kafka::event::{Event, ProducerEvent};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::record::Compression;
use glassbroker::kafka::types::Offset;
use glassbroker::lab::command::{Written, parse};

use crate::dsl::{Cluster, cluster};

fn order(c: &mut Cluster, text: &str) {
    match parse(text).unwrap_or_else(|error| panic!("{text}: {error}")) {
        Written::Whole(command) => c.give(command),
        draft => panic!("{text} leaves something open: {draft:?}"),
    }
}

/// What a command is refused with.
fn refusal(c: &mut Cluster, text: &str) -> String {
    let Ok(Written::Whole(command)) = parse(text) else { panic!("{text} is no whole command") };
    c.try_give(command).expect_err(text).reason
}

/// The numbers in the values of the records in t-0, with the leader 1.
fn numbers(c: &Cluster) -> Vec<i64> {
    let digits = |value: &String| value.chars().filter(char::is_ascii_digit).collect::<String>().parse();
    c.values(1, "t-0", 0).iter().map(|value| digits(value).expect("a number")).collect()
}

fn acknowledged(c: &Cluster, name: &str) -> i64 {
    c.producer_state(name).counts().acknowledged
}

/// R-PROD-12: the sticky partitioner avoids long queues.
#[test]
fn a_broker_that_answers_late_gets_fewer_keyless_records() {
    let mut c = cluster(2).topic("t", 2, 1, &[]);
    let slow =
        (0..2).find(|index| c.registration(&format!("t-{index}")).starts_with('2')).expect("one of two");
    let config = "batch.size=500 linger.ms=0 max.in.flight.requests.per.connection=1";
    order(&mut c, &format!("add producer p to t rate 200/s keys none value-size 100 {config}"));
    c.run_ms(2_000);
    order(&mut c, "slow p to broker 2 by 500ms");
    c.run_ms(30_000);
    let records = |index: i32| {
        let of = |event: &Event| match event {
            Event::BatchAcknowledged { tp, records, .. } if tp.partition == index => Some(*records),
            _ => None,
        };
        c.events().filter_map(of).sum::<i64>()
    };
    let (few, many) = (records(slow), records(1 - slow));
    assert!(many > 2 * few, "{many} against {few}");
}

/// m1, m2 and m3 are on the way when the leader refuses m1 and takes what follows; m0 is there before.
fn first_of_three_refused(idempotence: &str) -> Cluster {
    let mut c = cluster(2).topic("t", 1, 2, &[]);
    let leader = &c.registration("t-0")[..1];
    assert_eq!(leader, "1", "the first broker leads");
    let config = format!("enable.idempotence={idempotence} linger.ms=0");
    order(&mut c, &format!("add producer p to t rate 10/s keys none {config}"));
    order(&mut c, "pause p");
    c.run_ms(500);
    c.send("p", 1);
    c.kill(2);
    c.until("2 is out", 20_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    order(&mut c, "set topic t min.insync.replicas=2");
    order(&mut c, "slow p to broker 1 by 250ms");
    c.run_ms(1_000);
    order(&mut c, "resume p");
    c.until_event("m1 is refused", 10_000, |event| {
        matches!(event, Event::ProduceRefused { error: ErrorCode::NotEnoughReplicas, .. })
    });
    order(&mut c, "set topic t min.insync.replicas=1");
    c.until("three are sent", 1_000, |c| c.producer_state("p").counts().sent == 4);
    order(&mut c, "pause p");
    c.until("all are acknowledged", 10_000, |c| acknowledged(c, "p") == 4);
    c
}

/// R-PROD-21.
#[test]
fn a09_without_idempotence_a_retry_changes_the_order_and_with_it_five_in_flight_keep_it() {
    assert_eq!(numbers(&first_of_three_refused("false")), [1, 3, 4, 2], "m0, m2, m3, m1");
    let c = first_of_three_refused("true");
    assert_eq!(numbers(&c), [1, 2, 3, 4]);
    let refused = c.events().filter(|event| {
        matches!(event, Event::BatchRetried { error: ErrorCode::OutOfOrderSequenceNumber, .. })
    });
    assert_eq!(refused.count(), 2, "m2 and m3 came before what the broker expected");
}

/// R-PROD-24, R-PROD-25, R-PROD-23.
#[test]
fn a10_idempotence_recognises_what_the_client_sends_again_and_nothing_that_the_application_does() {
    let mut c = cluster(1).topic("t", 1, 1, &[]);
    let config = "request.timeout.ms=1000 delivery.timeout.ms=20000";
    let add = |name: &str| format!("add producer {name} to t rate 10/s keys none value m1 {config}");
    order(&mut c, &add("p"));
    c.until_event(
        "m1 is in the log",
        5_000,
        |event| matches!(event, Event::HighWatermarkAdvanced { tp, .. } if tp.topic.as_str() == "t"),
    );
    order(&mut c, "pause p");
    order(&mut c, "cut p from broker 1");
    c.until_event("the answer is lost", 5_000, |event| {
        matches!(event, Event::BatchRetried { error: ErrorCode::RequestTimedOut, .. })
    });
    order(&mut c, "heal p from broker 1");
    c.until("it is acknowledged", 10_000, |c| acknowledged(c, "p") == 1);
    assert_eq!(c.values(1, "t-0", 0), ["m1"], "(a) known by its sequence number");
    let duplicate = |event: &Event| matches!(event, Event::DuplicateBatch { base_offset: Offset(0), .. });
    assert_eq!(c.events().filter(|event| duplicate(event)).count(), 1);
    c.send("p", 1);
    c.until("it is acknowledged", 10_000, |c| acknowledged(c, "p") == 2);
    assert_eq!(c.values(1, "t-0", 0), ["m1", "m1"], "(b) the application's second send() is another record");
    order(&mut c, "crash p");
    order(&mut c, &add("q"));
    c.until("it is acknowledged", 10_000, |c| acknowledged(c, "q") >= 1);
    assert!(c.values(1, "t-0", 0).len() >= 3, "(c) a new producer has a new id");
}

/// R-LOG-22.
#[test]
fn a12_a_producer_of_keyless_records_fails_at_a_compacted_topic() {
    let mut c = cluster(1).topic("t", 1, 1, &[("cleanup.policy", "compact")]);
    order(&mut c, "add producer p to t rate 10/s keys none");
    c.until("some have failed", 10_000, |c| c.producer_state("p").counts().failed >= 3);
    assert_eq!(acknowledged(&c, "p"), 0);
    let error = c.events().find_map(|event| match event {
        Event::BatchFailed { error, .. } => Some(*error),
        _ => None,
    });
    assert_eq!(error, Some(ErrorCode::InvalidRecord));
    order(&mut c, "add producer q to t rate 10/s keys a");
    c.until("with a key it is taken", 10_000, |c| acknowledged(c, "q") > 0);
}

/// R-PROD-15, R-PROD-22.
#[test]
fn a73_configs_that_do_not_go_together_are_refused_or_switch_idempotence_off() {
    let mut c = cluster(1).topic("t", 1, 1, &[]);
    order(&mut c, "add producer a to t rate 10/s keys none acks=1");
    c.until("it sends", 5_000, |c| acknowledged(c, "a") > 0);
    assert_eq!(c.producer_state("a").identity(), None, "(a) silently off");
    assert_eq!(
        refusal(&mut c, "add producer b to t rate 10/s keys none acks=1 enable.idempotence=true"),
        "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
    );
    assert_eq!(
        refusal(&mut c, "add producer b to t rate 10/s keys none max.in.flight.requests.per.connection=6"),
        "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most 5. \
         Current value is 6."
    );
    assert_eq!(
        refusal(&mut c, "add producer b to t rate 10/s keys none delivery.timeout.ms=1000"),
        "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"
    );
}

/// R-PROD-5, R-LOG-21.
#[test]
fn compressed_batches_are_stored_as_they_come_and_read_by_everybody() {
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let mut c = cluster(3).topic("t", 1, 3, &[]);
        let config = format!("compression.type={codec} linger.ms=50");
        order(&mut c, &format!("add producer p to t rate 100/s keys none value-size 200 {config}"));
        c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
        c.run_ms(12_000);
        let log = &c.partition(1, "t-0").expect("a replica").log;
        let batch = log.batches_from(Offset(0)).next().expect("a batch");
        assert_eq!(Some(batch.compression()), Compression::of_name(codec).map(Ok));
        let position = c.events().rev().find_map(|event| match event {
            Event::Polled { to, .. } => Some(to.0),
            _ => None,
        });
        assert!(position.expect("it reads") > 500, "{codec}: {position:?}");
    }
}

/// R-PROD-19.
#[test]
fn batches_that_the_topic_finds_too_large_are_split_until_they_fit_and_keep_their_order() {
    let mut c = cluster(1).topic("t", 1, 1, &[("max.message.bytes", "1500")]);
    let config = "linger.ms=500 batch.size=6000";
    order(&mut c, &format!("add producer p to t rate 50/s keys none value-size 200 {config}"));
    c.until("sixty are made", 20_000, |c| c.producer_state("p").counts().sent == 60);
    order(&mut c, "pause p");
    c.until("all are through", 20_000, |c| acknowledged(c, "p") == 60);
    assert_eq!(numbers(&c), (1..=60).collect::<Vec<_>>());
    let log = &c.partition(1, "t-0").expect("a replica").log;
    assert!(log.batches_from(Offset(0)).all(|batch| batch.size_bytes() <= 1500));
    assert_eq!(c.producer_state("p").counts().failed, 0);
}

/// R-PROD-8.
#[test]
fn flush_ends_the_linger_and_close_in_time_gives_up_what_nobody_answered() {
    let mut c = cluster(1).topic("t", 1, 1, &[]);
    order(&mut c, "add producer p to t rate 10/s keys none linger.ms=10000");
    c.run_ms(3_000);
    assert_eq!(acknowledged(&c, "p"), 0);
    order(&mut c, "flush p");
    c.until_event("flush() returns", 200, |event| {
        matches!(event, Event::Producer(ProducerEvent::Flushed { .. }))
    });
    let counts = c.producer_state("p").counts();
    assert_eq!((counts.acknowledged, counts.failed), (counts.sent, 0));
    c.run_ms(1_000);
    assert!(c.producer_state("p").counts().sent > counts.sent, "it goes on");
    order(&mut c, "freeze broker 1");
    order(&mut c, "close p within 3s");
    c.until_event("close() gives up", 3_001, |event| {
        matches!(event, Event::Producer(ProducerEvent::Forced { .. }))
    });
    let failed = c.events().filter_map(|event| match event {
        Event::BatchFailed { records, .. } => Some(*records),
        _ => None,
    });
    assert!(failed.sum::<i64>() >= 9);
}
