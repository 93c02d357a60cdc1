//! What is sent again, when, in which order, and when it is given up.

use super::*;

#[test]
fn a_leader_hint_sends_the_retry_at_once_to_the_new_leader_r_repl_67() {
    let mut bench = Bench::new("1/s", &[], &[1]);
    let sent = bench.next();
    let before = bench.metadata_requests;
    bench.answer(&sent, ErrorCode::NotLeaderOrFollower, Some((2, 1)));
    let again = bench.next();
    assert_eq!((again.broker(), again.at_ms), (NodeId::Broker(BrokerId(2)), sent.at_ms));
    assert_eq!(again.base_sequence(), 0);
    bench.run_for(200);
    assert!(bench.metadata_requests > before, "it asks for metadata as well");
}

#[test]
fn the_same_leader_is_tried_again_only_after_back_off_r_prod_17() {
    let mut bench = Bench::with_one_record(&[]);
    let mut last = bench.next();
    for (low, high) in [(80, 120), (160, 240), (320, 480), (640, 960), (800, 1000)] {
        bench.refuse(&last, ErrorCode::NotEnoughReplicas);
        let states: Vec<BatchState> = bench.producer.batches(bench.now).map(|batch| batch.state).collect();
        assert!(matches!(states[0], BatchState::BackingOff { .. }), "{states:?}");
        let again = bench.next();
        let waited_ms = again.at_ms - last.at_ms;
        assert!((low..=high + 1).contains(&waited_ms), "{waited_ms} ms");
        last = again;
    }
}

#[test]
fn what_is_never_accepted_fails_at_delivery_timeout_r_prod_15_18() {
    let config =
        [("delivery.timeout.ms", "2000"), ("request.timeout.ms", "1000"), ("enable.idempotence", "false")];
    let mut bench = Bench::with_one_record(&config);
    let made_at = bench.now;
    while bench.producer.counts().failed == 0 {
        if let Some(sent) = bench.produced.pop_front() {
            bench.refuse(&sent, ErrorCode::NotEnoughReplicas);
        }
        bench.run_for(1);
    }
    assert_eq!(bench.failures(), [ErrorCode::RequestTimedOut]);
    assert_eq!(bench.now.ms_since(made_at), 2000);
}

#[test]
fn retries_end_where_the_config_says_r_prod_17() {
    let mut bench = Bench::with_one_record(&[("retries", "2")]);
    for _ in 0..3 {
        let sent = bench.next();
        bench.refuse(&sent, ErrorCode::NotEnoughReplicas);
    }
    assert_eq!(bench.failures(), [ErrorCode::NotEnoughReplicas]);
    bench.run_for(3_600_000);
    assert_eq!(bench.next().base_sequence(), 1, "whether sequence 0 was written is not known");
}

#[test]
fn a_lost_connection_sends_the_batch_again_with_its_sequence_r_prod_16_24() {
    let mut bench = Bench::new("1/s", &[], &[1]);
    let sent = bench.next();
    bench.disconnect(1);
    let again = bench.next();
    assert_eq!(again.batches, sent.batches);
    let retried =
        |event: &Event| matches!(event, Event::BatchRetried { error: ErrorCode::NetworkException, .. });
    assert!(bench.events.iter().any(retried));
    assert!(bench.events.iter().any(|event| matches!(event, Event::ConnectionLost { requests: 1, .. })));
}

#[test]
fn no_answer_within_request_timeout_costs_the_connection_r_prod_16() {
    let mut bench = Bench::with_one_record(&[]);
    let sent = bench.next();
    let again = bench.next();
    assert!((30_000..31_000).contains(&(again.at_ms - sent.at_ms)));
    let timed_out = |event: &Event| matches!(event, Event::RequestTimedOut { api: ApiKey::Produce, .. });
    assert_eq!(bench.events.iter().filter(|event| timed_out(event)).count(), 1);
}

#[test]
fn retried_batches_keep_their_order_with_idempotence_r_prod_21_29() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let (first, second, third) = (bench.next(), bench.next(), bench.next());
    bench.call(Producer::pause);
    bench.refuse(&first, ErrorCode::NotEnoughReplicas);
    bench.refuse(&second, ErrorCode::OutOfOrderSequenceNumber);
    bench.refuse(&third, ErrorCode::OutOfOrderSequenceNumber);
    for expected in 0..3 {
        let again = bench.next();
        assert_eq!(again.base_sequence(), expected);
        bench.run_for(2000);
        assert!(bench.produced.is_empty(), "the next waits until this one is through");
        bench.accept(&again);
    }
    bench.check_counts(3, 0);
    assert_eq!(bench.producer.identity().unwrap().1, ProducerEpoch(0));
}

#[test]
fn a_batch_that_waits_for_an_earlier_one_keeps_its_broker_s_others_waiting_r_prod_3() {
    let of_0 = |sent: &Produced| sent.batches.iter().any(|(partition, _)| *partition == 0);
    let in_turn = [("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner")];
    let mut bench = Bench::new("10/s", &in_turn, &[1, 1]);
    let sent: Vec<Produced> = (0..4).map(|_| bench.next()).collect();
    let mut error = ErrorCode::NotEnoughReplicas;
    for sent in &sent {
        if of_0(sent) {
            bench.refuse(sent, error);
            error = ErrorCode::OutOfOrderSequenceNumber;
        } else {
            bench.accept(sent);
        }
    }
    let again = loop {
        let sent = bench.next();
        if of_0(&sent) {
            break sent;
        }
        bench.accept(&sent);
    };
    bench.run_for(2000);
    assert!(
        bench.produced.len() <= 1,
        "partition 1 waits behind partition 0's second batch, and that for the first"
    );
    bench.accept(&again);
    assert!(bench.produced.iter().any(of_0));
}

#[test]
fn a_retry_is_overtaken_without_idempotence_r_prod_21() {
    let mut bench = Bench::new("10/s", &[("enable.idempotence", "false")], &[1]);
    let (first, second) = (bench.next(), bench.next());
    bench.refuse(&first, ErrorCode::NotEnoughReplicas);
    bench.accept(&second);
    bench.call(Producer::pause);
    let again = bench.next();
    assert_eq!(again.batches, first.batches);
    bench.accept(&again);
    bench.check_counts(2, 0);
}

#[test]
fn one_in_flight_request_mutes_its_partition_r_prod_6() {
    let config = [("max.in.flight.requests.per.connection", "1"), ("enable.idempotence", "false")];
    let mut bench = Bench::new("10/s", &config, &[1]);
    let first = bench.next();
    bench.run_for(1000);
    assert!(bench.produced.is_empty());
    bench.refuse(&first, ErrorCode::NotEnoughReplicas);
    let again = bench.next();
    assert_eq!(again.batches, first.batches, "nothing overtakes");
}

#[test]
fn a_muted_partition_stays_so_when_its_leader_moves_r_prod_6() {
    let config = [("max.in.flight.requests.per.connection", "1")];
    let mut bench = Bench::new("10/s", &config, &[1, 1]);
    let first = bench.next();
    bench.leaders = vec![(2, 1), (2, 1)];
    bench.call(|producer, _, _| producer.metadata.request_update());
    bench.run_for(5000);
    let muted: BTreeSet<i32> = first.batches.iter().map(|(partition, _)| *partition).collect();
    let others = bench.produced.iter().flat_map(|sent| &sent.batches).map(|(partition, _)| *partition);
    assert!(others.eq(BTreeSet::from([0, 1]).difference(&muted).copied()), "the other partition goes on");
}

#[test]
fn a_leader_whose_address_is_not_known_makes_it_ask_again() {
    let mut bench = Bench::new("10/s", &[], &[9]);
    bench.run_for(3000);
    assert!(bench.produced.is_empty());
    bench.leaders = vec![(1, 0)];
    assert!(bench.next().at_ms < 5000);
}

#[test]
fn a_final_refusal_starts_a_new_epoch_at_0_r_prod_30() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let first = bench.next();
    bench.refuse(&first, ErrorCode::InvalidRecord);
    bench.check_counts(0, 1);
    let next = bench.next();
    let batch = &next.batches[0].1;
    assert_eq!((batch.producer_epoch(), batch.base_sequence()), (ProducerEpoch(1), 0));
    let epochs = |event: &Event| matches!(event, Event::ProducerIdGiven { epoch: ProducerEpoch(1), .. });
    assert!(bench.events.iter().any(epochs));
}

#[test]
fn out_of_order_of_the_next_batch_is_sent_again_in_a_new_epoch_r_prod_29() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let first = bench.next();
    bench.accept(&first);
    let second = bench.next();
    bench.call(Producer::pause);
    bench.refuse(&second, ErrorCode::OutOfOrderSequenceNumber);
    for epoch in 1..=2 {
        let again = bench.next();
        let batch = &again.batches[0].1;
        assert_eq!((batch.producer_epoch(), batch.base_sequence()), (ProducerEpoch(epoch), 0));
        if epoch == 1 {
            bench.refuse(&again, ErrorCode::OutOfOrderSequenceNumber);
        } else {
            bench.accept(&again);
        }
    }
    bench.check_counts(2, 0);
}

#[test]
fn a_duplicate_sequence_counts_as_written_r_prod_26() {
    let mut bench = Bench::new("10/s", &[], &[1]);
    let first = bench.next();
    bench.refuse(&first, ErrorCode::DuplicateSequenceNumber);
    bench.check_counts(1, 0);
}

#[test]
fn a_batch_that_is_too_large_is_split_r_prod_19() {
    let config = [("linger.ms", "9"), ("batch.size", "200")];
    let mut bench = Bench::new("1000/s", &config, &[1]);
    let whole = bench.next();
    let records = whole.batches[0].1.record_count();
    bench.call(Producer::pause);
    bench.refuse(&whole, ErrorCode::MessageTooLarge);
    let mut first = bench.next();
    assert_eq!(first.batches[0].1.record_count(), records, "batch.size is no limit to what fitted before");
    bench.refuse(&first, ErrorCode::MessageTooLarge);
    first = bench.next();
    assert!(first.batches[0].1.record_count() < records);
    assert_eq!(first.base_sequence(), 0);
}

#[test]
fn a_single_record_that_is_too_large_fails_r_prod_19() {
    let mut bench = Bench::with_one_record(&[]);
    let sent = bench.next();
    bench.refuse(&sent, ErrorCode::MessageTooLarge);
    assert_eq!(bench.failures(), [ErrorCode::MessageTooLarge]);
}

#[test]
fn a_leaderless_partition_keeps_its_records_until_there_is_a_leader_r_repl_66() {
    let mut bench = Bench::new("10/s", &[], &[-1]);
    bench.run_for(5000);
    assert!(bench.produced.is_empty());
    let tp = TopicPartition::new(&"orders".into(), 0);
    assert_eq!(bench.producer.waits_for(), [Waiting::Leader(tp)]);
    let asked = bench.metadata_requests;
    assert!((5..=20).contains(&asked), "{asked} requests in 5 s: answers that bring nothing new back off");
    bench.leaders = vec![(2, 1)];
    let sent = bench.next();
    assert_eq!(sent.batches[0].1.record_count(), (sent.at_ms / 100) as i32);
}

#[test]
fn an_answer_after_the_delivery_timeout_changes_no_count_r_prod_18() {
    let config = [("delivery.timeout.ms", "1000"), ("request.timeout.ms", "900"), ("linger.ms", "0")];
    let mut bench = Bench::new("1/s", &config, &[-1]);
    bench.run_for(1500);
    bench.leaders = vec![(1, 1)];
    let sent = bench.next();
    bench.call(Producer::pause);
    bench.run_for(2000 - bench.now.ms());
    assert_eq!(bench.failures(), [ErrorCode::RequestTimedOut]);
    assert_eq!(bench.producer.batches(bench.now).next().map(|batch| batch.state), Some(BatchState::GivenUp));
    bench.accept(&sent);
    bench.check_counts(0, 1);
    assert_eq!(bench.producer.batches(bench.now).count(), 0);
}
