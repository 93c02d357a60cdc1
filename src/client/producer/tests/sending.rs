//! Batches on their way, what holds them back, and how a producer ends.

use super::*;

#[test]
fn the_first_batch_leaves_after_its_linger_with_sequence_0_r_prod_4_23_24() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    assert_eq!(bench.producer.identity(), Some((ProducerId(1000), ProducerEpoch(0))));
    let sent = bench.next();
    let batch = &sent.batches[0].1;
    assert_eq!(sent.at_ms, 105);
    assert_eq!(
        (batch.producer_id(), batch.producer_epoch(), batch.base_sequence()),
        (ProducerId(1000), ProducerEpoch(0), 0)
    );
    assert_eq!(batch.base_timestamp_ms(), Time::from_ms(100).wall_ms());
    bench.accept(&sent);
    bench.check_counts(1, 0);
    assert!(
        bench
            .events
            .iter()
            .any(|event| matches!(event, Event::BatchAcknowledged { base_offset: Offset(0), .. }))
    );
}

#[test]
fn records_made_while_a_batch_lingers_share_it_and_its_sequences() {
    let mut bench = Bench::new("1000/s", &[("linger.ms", "9")], &[1]);
    let sent = bench.next();
    assert_eq!(sent.batches[0].1.record_count(), 10);
    bench.accept(&sent);
    assert_eq!(bench.next().base_sequence(), 10);
}

/// `KafkaProducer.doSend` wakes the sender's thread only for a batch that is full or new.
#[test]
fn a_record_that_joins_a_batch_leaves_the_sender_asleep() {
    let mut bench = Bench::new("100/s", &[("linger.ms", "500")], &[1]);
    bench.run_for(300);
    let (batches, asked) = (bench.producer.accumulator.batches().count(), bench.metadata_requests);
    bench.producer.metadata.request_update();
    bench.run_for(200);
    assert_eq!((bench.producer.accumulator.batches().count(), batches), (1, 1));
    assert_eq!(bench.metadata_requests, asked, "nobody has looked");
    bench.run_for(10);
    assert_eq!((bench.produced.len(), bench.metadata_requests), (1, asked + 1), "linger.ms is over");
}

#[test]
fn one_request_carries_a_batch_of_each_partition_of_its_broker_r_prod_3() {
    let mut bench = Bench::new("1000/s", &[("linger.ms", "50")], &[1, 1, 1]);
    let sent = bench.next();
    let partitions: Vec<i32> = sent.batches.iter().map(|(partition, _)| *partition).collect();
    assert_eq!(partitions, [0, 1, 2]);
}

#[test]
fn at_most_five_requests_of_a_connection_are_unanswered_r_prod_6() {
    let mut bench = Bench::new("100/s", &[], &[1]);
    bench.run_for(1000);
    assert_eq!(bench.produced.len(), 5);
    let first = bench.produced.pop_front().unwrap();
    bench.accept(&first);
    assert_eq!(bench.produced.len(), 5, "the answer made room for one");
    let grown = bench.produced.back().unwrap();
    assert!(grown.batches[0].1.record_count() > 10, "what waited went together, R-PROD-4");
}

#[test]
fn acks_0_is_done_when_sent_and_knows_no_offset() {
    let mut bench = Bench::new("10/s", &[("acks", "0")], &[1]);
    bench.run_for(1050);
    bench.check_counts(10, 0);
    let offset = |event: &Event| match event {
        Event::BatchAcknowledged { base_offset, .. } => Some(*base_offset),
        _ => None,
    };
    let offsets: Vec<Offset> = bench.events.iter().filter_map(offset).collect();
    assert!(!offsets.is_empty() && offsets.iter().all(|offset| *offset == Offset::UNKNOWN), "{offsets:?}");
    assert_eq!(bench.produced[0].batches[0].1.producer_id(), ProducerId::NONE, "R-PROD-22: not idempotent");
}

#[test]
fn no_partition_starves_at_max_request_size_r_prod_3() {
    let config = [("max.request.size", "200"), ("batch.size", "200")];
    let mut bench = Bench::new("1000/s", &config, &[1, 1, 1]);
    bench.run_for(1000);
    let mut partitions = Vec::new();
    for _ in 0..6 {
        let oldest = bench.produced.pop_front().unwrap();
        bench.accept(&oldest);
        let newest = bench.produced.back().unwrap();
        assert_eq!(newest.batches.len(), 1, "two batches are too much for one request");
        partitions.push(newest.batches[0].0);
    }
    partitions.sort();
    assert_eq!(partitions, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn send_to_an_unknown_topic_blocks_and_fails_after_max_block_r_prod_1() {
    let mut bench = Bench::new("10/s", &[("max.block.ms", "3000")], &[1]);
    bench.topic_error = ErrorCode::UnknownTopicOrPartition;
    bench.run_for(3050);
    let orders: Topic = "orders".into();
    assert_eq!(bench.producer.waits_for(), [Waiting::Metadata(orders, ErrorCode::UnknownTopicOrPartition)]);
    assert_eq!(bench.producer.counts().sent, 1, "the application's only thread is blocked");
    bench.run_for(50);
    assert_eq!(bench.failures(), [ErrorCode::RequestTimedOut]);
    bench.topic_error = ErrorCode::None;
    let sent = bench.next();
    bench.accept(&sent);
    bench.check_counts(1, 1);
}

#[test]
fn a_topic_name_that_is_invalid_fails_each_record_at_once() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    bench.topic_error = ErrorCode::InvalidTopicException;
    bench.run_for(350);
    assert_eq!(bench.failures(), [ErrorCode::InvalidTopicException; 3]);
}

#[test]
fn full_memory_blocks_send_until_a_batch_is_through_r_prod_2() {
    let config = [
        ("buffer.memory", "400"),
        ("batch.size", "200"),
        ("linger.ms", "600000"),
        ("delivery.timeout.ms", "900000"),
    ];
    let mut bench = Bench::new("100/s", &config, &[1]);
    bench.run_for(1000);
    assert_eq!(bench.producer.waits_for(), [Waiting::Memory]);
    assert_eq!(bench.produced.len(), 2, "full memory ends the linger, R-PROD-3");
    let made = bench.producer.counts().sent;
    let first = bench.produced.pop_front().unwrap();
    bench.accept(&first);
    bench.run_for(20);
    assert!(bench.producer.counts().sent > made);
}

#[test]
fn a_record_above_max_request_size_is_not_sent_r_prod_1() {
    let mut bench = Bench::new("10/s", &[("max.request.size", "100")], &[1]);
    bench.run_for(250);
    assert_eq!(bench.failures(), [ErrorCode::MessageTooLarge; 2]);
    assert!(bench.produced.is_empty());
}

#[test]
fn nothing_is_sent_before_the_producer_id_is_there_r_prod_23() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    bench.producer.sequences = Some(Sequences::default());
    bench.gives_ids = false;
    bench.run_for(2000);
    assert!(bench.produced.is_empty());
    assert_eq!(bench.producer.waits_for(), [Waiting::ProducerId]);
    bench.gives_ids = true;
    assert_eq!(bench.next().base_sequence(), 0);
}

#[test]
fn a_paused_producer_makes_nothing_and_finishes_what_it_made() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let sent = bench.next();
    bench.call(Producer::pause);
    bench.accept(&sent);
    bench.run_for(5000);
    assert_eq!(bench.producer.counts(), Counts { sent: 1, acknowledged: 1, failed: 0 });
    let resumed_at = bench.now;
    bench.call(Producer::resume);
    assert_eq!(bench.next().at_ms, resumed_at.ms() + 105);
}

#[test]
fn close_sends_what_lingers_and_ends_with_the_last_outcome_r_prod_8() {
    let mut bench = Bench::new("10/s", &[("linger.ms", "1000")], &[1]);
    bench.run_for(150);
    bench.call(Producer::close);
    assert!(!bench.exited);
    let sent = bench.next();
    assert_eq!(sent.at_ms, 150);
    bench.accept(&sent);
    assert!(bench.exited);
    bench.check_counts(1, 0);
}

#[test]
fn while_its_leader_is_down_a_batch_waits_for_the_connection() {
    let mut bench = Bench::new("1/s", &[], &[1]);
    let sent = bench.next();
    bench.down.insert(sent.broker());
    bench.disconnect(1);
    bench.run_for(3000);
    assert_eq!(bench.producer.waits_for(), [Waiting::Connection(BrokerId(1))]);
    bench.leaders = vec![(2, 1)];
    let again = bench.next();
    assert_eq!((again.broker(), again.base_sequence()), (NodeId::Broker(BrokerId(2)), 0));
}
