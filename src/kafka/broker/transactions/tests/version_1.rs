//! Clients before transaction version 2, as the versions of their requests show (R-TXN-5, R-TXN-11).

use super::*;

fn add_request(producer: (i64, i16), partitions: &[i32]) -> m::AddPartitionsToTxnRequest {
    let producer = ProducerIdAndEpoch { id: ProducerId(producer.0), epoch: ProducerEpoch(producer.1) };
    wire::client_add_request(&ID.into(), producer, &partitions.iter().map(|each| t(*each)).collect())
}

/// What each partition is answered.
fn add(lab: &mut Lab, producer: (i64, i16), partitions: &[i32]) -> Vec<ErrorCode> {
    match lab.ask_at(3, add_request(producer, partitions)) {
        Response::AddPartitionsToTxn(response) => {
            assert!(response.results_by_transaction.is_empty(), "those are for brokers");
            wire::errors_of_client(&response).map(|(_, error)| error).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Before version 13 a Produce names its topics.
fn named(producer: (i64, i16), sequence: i32, partition: i32, topic: &str) -> m::ProduceRequest {
    let mut request = produce_request(Some(ID), producer, sequence, partition);
    for data in &mut request.topic_data {
        data.topic_id = uuid::Uuid::nil();
        data.name = m::TopicName(topic.to_string().into());
    }
    request
}

fn produce_11(lab: &mut Lab, producer: (i64, i16), sequence: i32, partition: i32) -> (i64, ErrorCode) {
    produced(lab.ask_at(11, named(producer, sequence, partition, "t")))
}

fn end_4(lab: &mut Lab, producer: (i64, i16), committed: bool) -> (i64, i16, ErrorCode) {
    match lab.ask_at(4, end_request(producer, committed)) {
        Response::EndTxn(response) => {
            (response.producer_id.0, response.producer_epoch, ErrorCode::from_code(response.error_code))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_looks_whether_a_client_has_added_its_partition_r_txn_11_14() {
    let mut lab = lab();
    init(&mut lab);
    assert_eq!(produce_11(&mut lab, (1000, 0), 0, 0), (-1, ErrorCode::TransactionAbortable));
    assert_eq!(state(&lab), TransactionState::Empty, "nothing was added");
    assert_eq!(add(&mut lab, (1000, 0), &[0, 1]), [ErrorCode::None; 2]);
    for (sequence, offset) in [(0, 0), (1, 1)] {
        assert_eq!(produce_11(&mut lab, (1000, 0), sequence, 0), (offset, ErrorCode::None));
    }
    let ended = (-1, -1, ErrorCode::None);
    assert_eq!(end_4(&mut lab, (1000, 0), true), ended, "nothing is told of the producer, whose epoch stays");
    lab.run_for(10);
    assert_eq!((offsets(&lab, 0), offsets(&lab, 1)), ((3, 3), (1, 1)), "both have their marker");
    assert_eq!(produce_11(&mut lab, (1000, 0), 2, 0), (-1, ErrorCode::TransactionAbortable));
    assert_eq!(add(&mut lab, (1000, 0), &[0]), [ErrorCode::None]);
    assert_eq!(produce_11(&mut lab, (1000, 0), 2, 0), (3, ErrorCode::None), "sequences go on (R-PROD-24)");
}

#[test]
fn one_partition_that_does_not_exist_leaves_the_others_alone_r_txn_12() {
    let mut lab = lab();
    init(&mut lab);
    let errors = add(&mut lab, (1000, 0), &[0, 9]);
    assert_eq!(errors, [ErrorCode::OperationNotAttempted, ErrorCode::UnknownTopicOrPartition]);
    assert_eq!(add(&mut lab, (1000, 7), &[0]), [ErrorCode::ProducerFenced]);
    let unknown = produced(lab.ask_at(11, named((1000, 0), 0, 0, "none")));
    assert_eq!(unknown, (-1, ErrorCode::UnknownTopicOrPartition), "a name is not an id");
}

#[test]
fn a_leader_that_only_looks_does_not_wait_for_the_last_transaction_r_txn_13() {
    let mut lab = lab();
    init(&mut lab);
    add(&mut lab, (1000, 0), &[0]);
    produce_11(&mut lab, (1000, 0), 0, 0);
    // Nothing reaches the other broker, so the marker waits.
    lab.move_leader(BrokerId(2));
    lab.run_for(100);
    assert_eq!(end_4(&mut lab, (1000, 0), true).2, ErrorCode::None);
    lab.run_for(1000);
    assert_eq!(add(&mut lab, (1000, 0), &[1]), [ErrorCode::ConcurrentTransactions]);
    let since = lab.now;
    assert_eq!(produce_11(&mut lab, (1000, 0), 0, 1), (-1, ErrorCode::NotEnoughReplicas));
    assert!(lab.now.ms_since(since) < 20, "the client tries again");
    lab.come_back();
    assert_eq!(add(&mut lab, (1000, 0), &[1]), [ErrorCode::None]);
    assert_eq!(produce_11(&mut lab, (1000, 0), 0, 1), (0, ErrorCode::None));
}

#[test]
fn who_does_not_look_lets_a_transaction_hang_r_txn_14_25() {
    let mut lab = Lab::with_broker(&[("transaction.partition.verification.enable", "false")]);
    give_ids(&mut lab);
    init(&mut lab);
    assert_eq!(produce_11(&mut lab, (1000, 0), 0, 0), (0, ErrorCode::None));
    assert_eq!(state(&lab), TransactionState::Empty, "its coordinator knows nothing of it");
    lab.run_for(120_000);
    assert_eq!(offsets(&lab, 0), (1, 0), "nobody is going to end it");
}
