//! Batches, connections, producers.

use super::*;

#[test]
fn a_refused_batch_is_told_once_until_one_is_taken() {
    let request = RequestMark { from: NodeId::Client(1), correlation: 7 };
    let refused = |error| Event::ProduceRefused { broker: BrokerId(1), tp: tp(0), error, request };
    let duplicate = Event::DuplicateBatch {
        broker: BrokerId(1),
        tp: tp(0),
        producer: ProducerId(1),
        base_sequence: 4,
        base_offset: Offset(59),
        request,
    };
    check(
        &[
            (1, refused(ErrorCode::NotEnoughReplicas)),
            (100, refused(ErrorCode::NotEnoughReplicas)),
            (200, refused(ErrorCode::OutOfOrderSequenceNumber)),
            (300, appended(tp(0), 5, 5)),
            (400, refused(ErrorCode::NotEnoughReplicas)),
            (500, duplicate),
        ],
        expect![[r#"
            00:00.001  broker 1: a batch for orders-0 refused: NOT_ENOUGH_REPLICAS (R-REPL-30)
                Warn: acks=all needs min.insync.replicas in-sync replicas; nothing was stored.
            00:00.200  broker 1: a batch for orders-0 refused: OUT_OF_ORDER_SEQUENCE_NUMBER
                Info: Nothing was stored.
            00:00.400  broker 1: a batch for orders-0 refused: NOT_ENOUGH_REPLICAS (R-REPL-30)
                Warn: acks=all needs min.insync.replicas in-sync replicas; nothing was stored.
            00:00.500  broker 1: a repeated batch of orders-0 is not stored again (R-PROD-25)
                Good: Its sequence numbers are those of a batch stored at offset 59; that offset is the answer.
        "#]],
    );
}

#[test]
fn retries_and_late_acknowledgements_are_told_once() {
    check(
        &[
            (0, acknowledged(1, 60)),
            (1, retried(ErrorCode::NetworkException)),
            (2, retried(ErrorCode::NetworkException)),
            (3, retried(ErrorCode::NotLeaderOrFollower)),
            (9_391, acknowledged(2, 9_300)),
            (9_401, acknowledged(2, 9_200)),
            (12_000, acknowledged(2, 100)),
            (13_000, retried(ErrorCode::NetworkException)),
        ],
        expect![[r#"
            00:00.001  checkout-api: a batch for orders-2 will be sent again: NETWORK_EXCEPTION (R-PROD-15, R-PROD-17)
                Warn: It is retried until delivery.timeout.ms has passed.
            00:00.003  checkout-api: a batch for orders-2 will be sent again: NOT_LEADER_OR_FOLLOWER (R-PROD-15, R-PROD-17)
                Warn: It is retried until delivery.timeout.ms has passed.
            00:09.391  checkout-api: 2 records of orders-2 acknowledged after 9.3 s (R-REPL-29)
                Good: The batch begins at offset 59.
            00:13.000  checkout-api: a batch for orders-2 will be sent again: NETWORK_EXCEPTION (R-PROD-15, R-PROD-17)
                Warn: It is retried until delivery.timeout.ms has passed.
        "#]],
    );
}

#[test]
fn what_a_calm_run_mends_at_once_is_one_sentence_a_minute() {
    let request = RequestMark { from: NodeId::Client(1), correlation: 7 };
    let refused = || {
        let (tp, error) = (tp(2), ErrorCode::OutOfOrderSequenceNumber);
        Event::ProduceRefused { broker: BrokerId(1), tp, error, request }
    };
    let mut events = Vec::new();
    for turn in 0..140 {
        let ms = 1_000 * turn;
        events.push((ms, retried(ErrorCode::ConcurrentTransactions)));
        events.push((ms + 1, refused()));
        events.push((ms + 2, appended(tp(2), turn, turn)));
        events.push((ms + 100, acknowledged(1, 60)));
    }
    check(
        &events,
        expect![[r#"
        00:00.000  checkout-api: a batch for orders-2 will be sent again: CONCURRENT_TRANSACTIONS (R-PROD-21, R-TXN-18)
            Info: Its next transaction begins before the markers of the last one are written; it waits and sends again.
        00:00.001  broker 1: a batch for orders-2 refused: OUT_OF_ORDER_SEQUENCE_NUMBER
            Info: Nothing was stored.
        01:00.000  checkout-api: 60 batches were sent again since this was last told: CONCURRENT_TRANSACTIONS (R-PROD-21, R-TXN-18)
            Info: Its next transaction begins before the markers of the last one are written; it waits and sends again.
        01:00.001  broker 1: 60 batches for orders-2 refused since this was last told: OUT_OF_ORDER_SEQUENCE_NUMBER
            Info: Nothing was stored.
        02:00.000  checkout-api: 60 batches were sent again since this was last told: CONCURRENT_TRANSACTIONS (R-PROD-21, R-TXN-18)
            Info: Its next transaction begins before the markers of the last one are written; it waits and sends again.
        02:00.001  broker 1: 60 batches for orders-2 refused since this was last told: OUT_OF_ORDER_SEQUENCE_NUMBER
            Info: Nothing was stored.
    "#]],
    );
}

#[test]
fn a_lost_connection_is_told_once_until_the_node_is_back() {
    let lost = |requests| Event::ConnectionLost { client: name("checkout-api"), node: broker(3), requests };
    let timed_out =
        Event::RequestTimedOut { client: name("checkout-api"), node: broker(3), api: ApiKey::Produce };
    check(
        &[(1, lost(2)), (2, lost(0)), (3, timed_out), (4, started(broker(3), "broker-3")), (5, lost(0))],
        expect![[r#"
            00:00.001  checkout-api lost its connection to broker 3
                Warn: 2 requests had no answer yet: carried out or not, it cannot know.
            00:00.003  checkout-api: no answer to Produce from broker 3 (R-PROD-16)
                Warn: After request.timeout.ms the connection is given up.
            00:00.004  broker 3 started
                Info
            00:00.005  checkout-api lost its connection to broker 3
                Warn
        "#]],
    );
}

#[test]
fn a_producer_gets_its_id_pauses_and_fails() {
    let client = name("checkout-api");
    check(
        &[
            (
                1,
                Event::ProducerIdGiven {
                    client: client.clone(),
                    producer: ProducerId(1),
                    epoch: ProducerEpoch(0),
                },
            ),
            (2, Event::ProducerPaused { client: client.clone() }),
            (3, Event::ProducerResumed { client: client.clone() }),
            (
                4,
                Event::BatchFailed {
                    client: client.clone(),
                    tp: tp(1),
                    batch: Some(BatchId(4)),
                    records: 3,
                    error: ErrorCode::RequestTimedOut,
                },
            ),
            (5, Event::ClientFailed { client, error: ErrorCode::InvalidTopicException }),
        ],
        expect![[r#"
            00:00.001  checkout-api got producer id 1, epoch 0 (R-PROD-23)
                Info: With it and a sequence number in each batch, a broker recognises a repetition.
            00:00.002  checkout-api paused
                Info: Its application sends nothing more; what it has sent goes on.
            00:00.003  checkout-api sends again
                Info
            00:00.004  checkout-api: 3 records of orders-1 failed: REQUEST_TIMED_OUT (R-PROD-17)
                Bad: The application is told; the client does not try again.
            00:00.005  checkout-api ends with an error: INVALID_TOPIC_EXCEPTION
                Bad
        "#]],
    );
}

#[test]
fn where_keyless_records_go_is_told_now_and_then_and_how_flush_and_close_end_each_time() {
    let client = || name("checkout-api");
    let chosen = |partition| {
        Event::Producer(ProducerEvent::StickyPartitionChosen { client: client(), tp: tp(partition) })
    };
    check(
        &[
            (1, chosen(1)),
            (30_000, chosen(2)),
            (60_001, chosen(0)),
            (60_002, Event::Producer(ProducerEvent::Flushed { client: client(), took_ms: 45 })),
            (60_003, Event::Producer(ProducerEvent::Forced { client: client(), records: 7 })),
        ],
        expect![[r#"
            00:00.001  checkout-api: records without key go to orders-1 now (R-PROD-11, R-PROD-12)
                Info: One partition gets about batch.size bytes in a row, then another drawn at random, rather one with a short queue.
            01:00.001  checkout-api: records without key go to orders-0 now (R-PROD-11, R-PROD-12)
                Info: One partition gets about batch.size bytes in a row, then another drawn at random, rather one with a short queue.
            01:00.002  checkout-api: flush() returned after 45 ms (R-PROD-8)
                Info: What lingered was sent at once, and all that was sent before has its outcome.
            01:00.003  checkout-api closed without waiting for 7 records (R-PROD-8)
                Bad: The time given to close() is over; they fail, whether a broker has them or not.
        "#]],
    );
}

#[test]
fn a_position_that_the_log_does_not_have_is_told_before_where_it_is_set_to() {
    let offset = Offset(3);
    check(
        &[
            (1, Event::PositionOutOfRange { client: name("consumer-b"), tp: tp(0), offset }),
            (2, position(0, 42, PositionSource::Earliest)),
        ],
        expect![[r#"
            00:00.001  consumer-b: offset 3 of orders-0 is out of range (R-CONS-13)
                Warn: The leader's log begins behind it or ends before it; auto.offset.reset decides where to read on.
            00:00.002  consumer-b reads orders-0 from offset 42 (R-CONS-11)
                Info: It begins at the log start: auto.offset.reset=earliest.
        "#]],
    );
}

#[test]
fn what_a_consumer_is_asked_for_is_told() {
    let client = || name("consumer-b");
    let to = Some("topics orders, payments".into());
    let called = |outcome| Event::CommitCalledBack { client: client(), outcome };
    let (offset, part) = (Offset(5), RecordPart::Value);
    let unreadable = Event::RecordUnreadable { client: client(), tp: tp(0), offset, part };
    check(
        &[
            (1, Event::SubscriptionChanged { client: client(), to }),
            (2, Event::SubscriptionChanged { client: client(), to: None }),
            (3, Event::PartitionsPaused { client: client(), partitions: vec![tp(0), tp(1)] }),
            (4, Event::PartitionsResumed { client: client(), partitions: vec![tp(0)] }),
            (5, position(0, 5, PositionSource::Seek)),
            (6, called(CommitOutcome::Committed)),
            (7, called(CommitOutcome::Retriable)),
            (8, called(CommitOutcome::Failed(ErrorCode::UnknownMemberId))),
            (8, Event::NoOffsetForPartitions { client: client(), partitions: vec![tp(0), tp(1)] }),
            (8, unreadable),
            (9, Event::CallRefused { client: client(), reason: "No current assignment".to_owned() }),
        ],
        expect![[r#"
            00:00.001  consumer-b is to read topics orders, payments now
                Info
            00:00.002  consumer-b unsubscribes
                Info: It leaves its group and reads nothing until it subscribes again.
            00:00.003  consumer-b pauses orders-0, orders-1 (R-CONS-8)
                Info: It keeps them, fetches nothing more of them, and returns what it has fetched when it resumes them.
            00:00.004  consumer-b resumes orders-0 (R-CONS-8)
                Info
            00:00.005  consumer-b reads orders-0 from offset 5 (R-CONS-9)
                Info: It begins at where it was sent by seek(); what is committed stays until the next commit.
            00:00.007  consumer-b: commitAsync() failed and is not repeated (R-CONS-20)
                Warn: A later commit may have passed it, so the application decides.
            00:00.008  consumer-b: commitAsync() failed: UNKNOWN_MEMBER_ID (R-CONS-20, R-CONS-22)
                Bad
            00:00.008  consumer-b ends: nothing is committed of orders-0, orders-1 (R-CONS-11)
                Bad: With auto.offset.reset=none poll() throws NoOffsetForPartitionException.
            00:00.008  consumer-b ends: it cannot read the value of the record at offset 5 of orders-0 (R-CONS-34)
                Bad: poll() throws RecordDeserializationException at this record, to whoever comes to it, until somebody seeks or commits past it.
            00:00.009  consumer-b could not do what it was asked for: No current assignment
                Warn
        "#]],
    );
}

#[test]
fn a_log_that_was_cut_before_a_position_is_told_with_where_the_reader_goes_on() {
    let client = || name("consumer-b");
    let cut = |end| Event::TruncationDetected { client: client(), tp: tp(0), position: Offset(8), end };
    check(
        &[(1, cut(Some(Offset(5)))), (2, cut(None))],
        expect![[r#"
            00:00.001  consumer-b: orders-0 was cut before its position 8 (R-CONS-32)
                Bad: The leader that was elected has the history it has read only up to 5; with a reset strategy it goes on there.
            00:00.002  consumer-b: orders-0 was cut before its position 8 (R-CONS-32)
                Bad: The leader does not know the history it has read; auto.offset.reset decides where to read on.
        "#]],
    );
}

#[test]
fn what_a_reader_of_committed_data_passes_over_is_told_r_cons_30() {
    let (client, tp) = (name("consumer-b"), tp(0));
    let passed = Event::AbortedPassedOver { client, tp, from: Offset(3), to: Offset(9), records: 4 };
    check(
        &[(1, passed)],
        expect![[r#"
            00:00.001  consumer-b passes over 4 records of orders-0 between offsets 3 and 8 (R-CONS-30)
                Info: They are of an aborted transaction. They stay in the log, and who reads with isolation.level=read_uncommitted gets them.
        "#]],
    );
}

#[test]
fn a_reader_in_the_rack_of_a_follower_is_told() {
    let event = Event::ReadReplicaChosen {
        client: name("consumer-b"),
        tp: tp(0),
        replica: BrokerId(2),
        rack: "b".into(),
    };
    check(
        &[(1, event)],
        expect![[r#"
        00:00.001  consumer-b reads orders-0 from broker 2, in its own rack b (R-REPL-62, R-REPL-64)
            Info: The leader told it to; it sees a record once that follower knows it to be committed.
    "#]],
    );
}
