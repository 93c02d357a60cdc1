//! What the application waits for: flush() and close().

use super::*;
use crate::kafka::event::ProducerEvent;

const LINGERING: &[(&str, &str)] = &[("linger.ms", "1000")];

fn flushed(bench: &Bench) -> Vec<i64> {
    let took = |event: &Event| match event {
        Event::Producer(ProducerEvent::Flushed { took_ms, .. }) => Some(*took_ms),
        _ => None,
    };
    bench.events.iter().filter_map(took).collect()
}

#[test]
fn flush_sends_what_lingers_and_waits_for_its_outcome_r_prod_8() {
    let mut bench = Bench::new("10/s", LINGERING, &[1]);
    bench.run_for(250);
    bench.call(Producer::flush);
    let sent = bench.next();
    assert_eq!((sent.at_ms, sent.batches[0].1.record_count()), (250, 2));
    bench.run_for(500);
    assert!(bench.producer.is_in_flush());
    assert_eq!(bench.producer.counts().sent, 2, "the application's only thread waits in flush()");
    bench.accept(&sent);
    assert_eq!(flushed(&bench), [500]);
    let next = bench.next();
    assert_eq!(next.at_ms, 1800, "at 800 ms it makes a record again, which lingers");
}

#[test]
fn flush_has_nothing_to_wait_for_before_the_first_record() {
    let mut bench = Bench::new("10/s", LINGERING, &[1]);
    bench.call(Producer::flush);
    assert_eq!(flushed(&bench), [0]);
    bench.call(Producer::pause);
    bench.call(Producer::flush);
    assert_eq!(flushed(&bench), [0, 0], "a paused application may call it too");
}

#[test]
fn flush_waits_for_the_parts_of_a_split_batch_r_prod_19() {
    let mut bench = Bench::new("1000/s", &[("linger.ms", "20"), ("batch.size", "16384")], &[1]);
    bench.run_for(10);
    bench.call(Producer::flush);
    let whole = bench.next();
    bench.producer.accumulator = {
        let mut smaller = bench.producer.accumulator.clone();
        smaller.limit_batches_to(200);
        smaller
    };
    bench.refuse(&whole, ErrorCode::MessageTooLarge);
    let first = bench.next();
    assert!(first.batches[0].1.record_count() < 10);
    bench.accept(&first);
    assert_eq!(flushed(&bench), [0; 0], "the other parts are still open");
    while bench.producer.counts().acknowledged < 10 {
        let part = bench.next();
        bench.accept(&part);
    }
    assert_eq!(flushed(&bench).len(), 1);
}

#[test]
fn a_flush_after_a_blocked_send_waits_for_that_record_too_r_prod_8() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    bench.topic_error = ErrorCode::UnknownTopicOrPartition;
    bench.run_for(150);
    bench.call(Producer::flush);
    bench.run_for(1000);
    assert_eq!(flushed(&bench), [0; 0]);
    bench.topic_error = ErrorCode::None;
    let sent = bench.next();
    bench.accept(&sent);
    assert_eq!(flushed(&bench).len(), 1);
    bench.check_counts(1, 0);
}

#[test]
fn a_close_in_time_gives_up_what_has_no_outcome_r_prod_8() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let sent = bench.next();
    bench.run_for(300);
    bench.call(|producer, now, fx| producer.close_within(now, 2000, fx));
    let closed_at = bench.now.ms();
    while !bench.exited {
        bench.run_for(1);
    }
    assert_eq!(bench.now.ms() - closed_at, 2000);
    let counts = bench.producer.counts();
    assert_eq!((counts.acknowledged, counts.failed), (0, counts.sent));
    let forced = |event: &Event| matches!(event, Event::Producer(ProducerEvent::Forced { records, .. }) if *records == counts.sent);
    assert!(bench.events.iter().any(forced));
    bench.accept(&sent);
    bench.check_counts(0, counts.sent);
}

#[test]
fn a_close_in_time_that_is_long_enough_is_like_any_other_r_prod_8() {
    let mut bench = Bench::new("10/s", LINGERING, &[1]);
    bench.run_for(150);
    bench.call(|producer, now, fx| producer.close_within(now, 2000, fx));
    let sent = bench.next();
    bench.accept(&sent);
    assert!(bench.exited);
    bench.check_counts(1, 0);
}

#[test]
fn a_close_in_no_time_sends_nothing_more_r_prod_8() {
    let mut bench = Bench::new("10/s", LINGERING, &[1]);
    bench.run_for(150);
    bench.call(|producer, now, fx| producer.close_within(now, 0, fx));
    assert!(bench.exited && bench.produced.is_empty());
    bench.check_counts(0, 1);
}
