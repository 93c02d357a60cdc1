//! A broker that coordinates transactions, leads their partitions and writes their ends.

mod offsets;
mod version_1;

use kafka_protocol::messages as m;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};

use super::*;
use crate::kafka::broker::shares::tests::lab::{Lab, TOPIC};
use crate::kafka::protocol::Response;
use crate::kafka::protocol::markers::{WritableMarker, WriteTxnMarkersRequest};
use crate::kafka::record::{BatchBuilder, BatchParameters, NewRecord, split_batches};
use crate::kafka::transaction::TransactionState;

const ID: &str = "tx";

fn t(partition: i32) -> TopicPartition {
    TopicPartition::new(&"t".into(), partition)
}

/// A broker that leads t-0 and t-1 and has producer ids from 1000 on.
fn lab() -> Lab {
    let mut lab = Lab::with_partitions(2, &[]);
    give_ids(&mut lab);
    lab
}

fn give_ids(lab: &mut Lab) {
    let block = m::AllocateProducerIdsResponse::default().with_producer_id_start(1000.into());
    lab.broker.producer_ids.allocated(&block.with_producer_id_len(1000));
}

fn init_request(timeout_ms: i32) -> m::InitProducerIdRequest {
    m::InitProducerIdRequest::default()
        .with_transactional_id(Some(m::TransactionalId(ID.into())))
        .with_transaction_timeout_ms(timeout_ms)
}

/// Id, epoch and error.
fn init(lab: &mut Lab) -> (i64, i16, ErrorCode) {
    match lab.ask(init_request(60_000)) {
        Response::InitProducerId(response) => {
            (response.producer_id.0, response.producer_epoch, ErrorCode::from_code(response.error_code))
        }
        other => panic!("{other:?}"),
    }
}

fn produce_request(
    id: Option<&str>,
    (producer, epoch): (i64, i16),
    base_sequence: i32,
    partition: i32,
) -> m::ProduceRequest {
    let mut builder = BatchBuilder::with(BatchParameters {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence,
        transactional: true,
        ..BatchParameters::default()
    });
    builder.append(&NewRecord {
        value: Some(b"v"),
        timestamp_ms: Time::ZERO.wall_ms(),
        ..NewRecord::default()
    });
    let partition = PartitionProduceData::default()
        .with_index(partition)
        .with_records(Some(builder.build().into_bytes()));
    let topic = TopicProduceData::default().with_topic_id(TOPIC.0).with_partition_data(vec![partition]);
    m::ProduceRequest::default()
        .with_transactional_id(id.map(|id| m::TransactionalId(id.to_string().into())))
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic])
}

/// Base offset and error.
fn produced(response: Response) -> (i64, ErrorCode) {
    let Response::Produce(response) = response else { panic!("{response:?}") };
    let partition = &response.responses[0].partition_responses[0];
    (partition.base_offset, ErrorCode::from_code(partition.error_code))
}

fn produce(lab: &mut Lab, producer: (i64, i16), sequence: i32, partition: i32) -> (i64, ErrorCode) {
    produced(lab.ask(produce_request(Some(ID), producer, sequence, partition)))
}

fn end_request((producer, epoch): (i64, i16), committed: bool) -> m::EndTxnRequest {
    m::EndTxnRequest::default()
        .with_transactional_id(m::TransactionalId(ID.into()))
        .with_producer_id(producer.into())
        .with_producer_epoch(epoch)
        .with_committed(committed)
}

fn end(lab: &mut Lab, producer: (i64, i16), committed: bool) -> (i64, i16, ErrorCode) {
    match lab.ask(end_request(producer, committed)) {
        Response::EndTxn(response) => {
            (response.producer_id.0, response.producer_epoch, ErrorCode::from_code(response.error_code))
        }
        other => panic!("{other:?}"),
    }
}

/// High watermark and last stable offset.
fn offsets(lab: &Lab, partition: i32) -> (i64, i64) {
    let log = &lab.broker.replicas().partition(&t(partition)).expect("it is here").log;
    (log.high_watermark().0, log.last_stable_offset().0)
}

fn state(lab: &Lab) -> TransactionState {
    lab.broker.transactions().transaction(&ID.into()).expect("it was initialized").state()
}

fn described(lab: &mut Lab, id: &str) -> m::describe_transactions_response::TransactionState {
    let ids = vec![m::TransactionalId(id.to_string().into())];
    match lab.ask(m::DescribeTransactionsRequest::default().with_transactional_ids(ids)) {
        Response::DescribeTransactions(response) => response.transaction_states[0].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_adds_its_partition_with_the_first_batch_r_txn_11_14_15() {
    let mut lab = lab();
    assert_eq!(init(&mut lab), (1000, 0, ErrorCode::None));
    assert_eq!(produce(&mut lab, (1000, 0), 0, 0), (0, ErrorCode::None));
    assert_eq!((state(&lab), offsets(&lab, 0)), (TransactionState::Ongoing, (1, 0)));
    assert_eq!(produce(&mut lab, (1000, 0), 0, 1), (0, ErrorCode::None));
    assert_eq!(produce(&mut lab, (1000, 0), 1, 0), (1, ErrorCode::None));
    let seen = described(&mut lab, ID);
    assert_eq!((seen.transaction_state.as_str(), &seen.topics[0].partitions), ("Ongoing", &vec![0, 1]));
    assert_eq!(end(&mut lab, (1000, 0), true), (1000, 1, ErrorCode::None));
    lab.run_for(10);
    assert_eq!(state(&lab), TransactionState::CompleteCommit);
    assert_eq!((offsets(&lab, 0), offsets(&lab, 1)), ((3, 3), (2, 2)), "each with its marker (R-TXN-19, 22)");
    assert_eq!(produce(&mut lab, (1000, 1), 0, 0), (3, ErrorCode::None), "sequences start anew (R-TXN-17)");
    assert_eq!(produce(&mut lab, (1000, 0), 2, 0), (-1, ErrorCode::InvalidProducerEpoch));
}

#[test]
fn a_write_that_the_coordinator_knows_nothing_of_is_refused_r_txn_14() {
    let mut lab = lab();
    assert_eq!(produce(&mut lab, (1000, 0), 0, 0), (-1, ErrorCode::InvalidProducerIdMapping));
    init(&mut lab);
    assert_eq!(produce(&mut lab, (1000, 1), 0, 0), (-1, ErrorCode::InvalidProducerEpoch));
    assert_eq!(produce(&mut lab, (7, 0), 0, 0), (-1, ErrorCode::InvalidProducerIdMapping));
    let request = produce_request(None, (1000, 0), 0, 0);
    let error = ErrorCode::TransactionalIdAuthorizationFailed;
    assert_eq!(produced(lab.ask(request)), (-1, error), "without an id nobody can be asked");
    let mut request = produce_request(Some(ID), (1000, 0), 0, 0);
    request.topic_data.extend(produce_request(Some(ID), (1001, 0), 0, 1).topic_data);
    assert_eq!(produced(lab.ask(request)), (-1, ErrorCode::InvalidProducerIdMapping), "two producers");
    assert_eq!((state(&lab), offsets(&lab, 0)), (TransactionState::Empty, (0, 0)));
}

#[test]
fn a_second_instance_aborts_what_the_first_left_open_r_txn_8() {
    let mut lab = lab();
    init(&mut lab);
    produce(&mut lab, (1000, 0), 0, 0);
    assert_eq!(init(&mut lab), (-1, -1, ErrorCode::ConcurrentTransactions));
    lab.run_for(10);
    assert_eq!(init(&mut lab), (1000, 2, ErrorCode::None));
    assert_eq!(offsets(&lab, 0), (2, 2), "the abort has its marker");
    assert_eq!(produce(&mut lab, (1000, 0), 1, 0), (-1, ErrorCode::InvalidProducerEpoch));
    assert_eq!(end(&mut lab, (1000, 0), true), (-1, -1, ErrorCode::ProducerFenced));
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted_within_ten_seconds_r_txn_25_26() {
    let mut lab = lab();
    init(&mut lab);
    produce(&mut lab, (1000, 0), 0, 0);
    lab.run_for(60_000);
    assert_eq!(offsets(&lab, 0), (1, 0), "it holds the stable offset");
    lab.run_for(10_000);
    assert_eq!((state(&lab), offsets(&lab, 0)), (TransactionState::CompleteAbort, (2, 2)));
}

#[test]
fn what_was_open_or_decided_goes_on_when_the_broker_starts_again_r_txn_28_29() {
    let mut lab = lab();
    init(&mut lab);
    produce(&mut lab, (1000, 0), 0, 0);
    lab.restart();
    assert_eq!((state(&lab), offsets(&lab, 0).1), (TransactionState::Ongoing, 0));
    let number = lab.send(end_request((1000, 0), true));
    while lab.answer(number).is_none() {
        lab.step(lab.now);
    }
    assert_eq!((state(&lab), offsets(&lab, 0).1), (TransactionState::PrepareCommit, 0), "R-TXN-18");
    lab.restart();
    assert_eq!(state(&lab), TransactionState::CompleteCommit);
    let (high_watermark, last_stable) = offsets(&lab, 0);
    assert_eq!(high_watermark, last_stable);
}

#[test]
fn a_leader_tries_again_while_the_last_transaction_is_not_over_r_txn_13() {
    let mut lab = lab();
    init(&mut lab);
    produce(&mut lab, (1000, 0), 0, 0);
    // Nothing reaches the other broker, so the marker waits.
    lab.move_leader(BrokerId(2));
    lab.run_for(100);
    assert_eq!(end(&mut lab, (1000, 0), true), (1000, 1, ErrorCode::None));
    lab.run_for(1000);
    assert_eq!(state(&lab), TransactionState::PrepareCommit);
    let (number, since) = (lab.send(produce_request(Some(ID), (1000, 1), 0, 1)), lab.now);
    lab.run_for(99);
    assert!(lab.answer(number).is_none());
    assert_eq!(produced(lab.wait(number)), (-1, ErrorCode::ConcurrentTransactions));
    assert_eq!(lab.now.ms_since(since), 100);
    lab.come_back();
    assert_eq!(state(&lab), TransactionState::CompleteCommit, "the marker goes to whoever leads by now");
    assert_eq!(produce(&mut lab, (1000, 1), 0, 1), (0, ErrorCode::None));
}

#[test]
fn ids_producers_and_transactions_are_told_r_txn_2() {
    let mut lab = lab();
    init(&mut lab);
    produce(&mut lab, (1000, 0), 0, 0);
    assert_eq!(described(&mut lab, "nobody's").error_code, ErrorCode::TransactionalIdNotFound.code());
    let seen = described(&mut lab, ID);
    let start_ms = lab.broker.transactions().transaction(&ID.into()).map(|tx| tx.facts().start_timestamp_ms);
    assert_eq!(
        (seen.producer_id.0, seen.producer_epoch, Some(seen.transaction_start_time_ms)),
        (1000, 0, start_ms)
    );
    lab.run_for(5000);
    let mut list = |request: m::ListTransactionsRequest| match lab.ask(request) {
        Response::ListTransactions(response) => {
            let states = &response.transaction_states;
            let ids: Vec<_> = states.iter().map(|state| state.transactional_id.to_string()).collect();
            (ids, response.unknown_state_filters.len(), ErrorCode::from_code(response.error_code))
        }
        other => panic!("{other:?}"),
    };
    let all = m::ListTransactionsRequest::default;
    let (found, none) = (|| vec![ID.to_string()], || Vec::new());
    assert_eq!(list(all()), (found(), 0, ErrorCode::None));
    assert_eq!(
        list(all().with_state_filters(vec!["Ongoing".into(), "Huh".into()])),
        (found(), 1, ErrorCode::None)
    );
    assert_eq!(list(all().with_state_filters(vec!["Empty".into()])), (none(), 0, ErrorCode::None));
    assert_eq!(list(all().with_producer_id_filters(vec![7.into()])), (none(), 0, ErrorCode::None));
    assert_eq!(list(all().with_duration_filter(4000)), (found(), 0, ErrorCode::None));
    assert_eq!(list(all().with_duration_filter(6000)), (none(), 0, ErrorCode::None));
    assert_eq!(list(all().with_transactional_id_pattern(Some("t.".into()))), (found(), 0, ErrorCode::None));
    assert_eq!(list(all().with_transactional_id_pattern(Some("t".into()))), (none(), 0, ErrorCode::None));
    let error = ErrorCode::InvalidRegularExpression;
    assert_eq!(list(all().with_transactional_id_pattern(Some("(".into()))), (none(), 0, error));
    let topic = m::describe_producers_request::TopicRequest::default()
        .with_name(m::TopicName("t".into()))
        .with_partition_indexes(vec![0, 1, 9]);
    let request = m::DescribeProducersRequest::default().with_topics(vec![topic]);
    let Response::DescribeProducers(response) = lab.ask(request) else { panic!("another answer") };
    let partitions = &response.topics[0].partitions;
    let producer = &partitions[0].active_producers[0];
    assert_eq!(
        (producer.producer_id.0, producer.last_sequence, producer.current_txn_start_offset),
        (1000, 0, 0)
    );
    assert_eq!(partitions[1].active_producers.len(), 0);
    assert_eq!(partitions[2].error_code, ErrorCode::UnknownTopicOrPartition.code());
}

/// Records' offsets, the aborted transactions that are told, and the last stable offset.
type Seen = (Vec<i64>, Option<Vec<(i64, i64)>>, i64);

fn fetch(lab: &mut Lab, isolation_level: i8) -> Seen {
    use m::fetch_request::{FetchPartition, FetchTopic};
    let partition = FetchPartition::default().with_partition(0).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic_id(TOPIC.0).with_partitions(vec![partition]);
    let request = m::FetchRequest::default()
        .with_isolation_level(isolation_level)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic]);
    let Response::Fetch(response) = lab.ask(request) else { panic!("another answer") };
    let data = &response.responses[0].partitions[0];
    let batches = split_batches(data.records.clone().expect("there are some"));
    let offsets = batches.map(|batch| batch.expect("it is sound").base_offset().0).collect();
    let pair =
        |aborted: &m::fetch_response::AbortedTransaction| (aborted.producer_id.0, aborted.first_offset);
    let aborted = data.aborted_transactions.as_ref().map(|aborted| aborted.iter().map(pair).collect());
    (offsets, aborted, data.last_stable_offset)
}

fn latest(lab: &mut Lab, isolation_level: i8) -> i64 {
    use m::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    let partition = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(-1);
    let topic =
        ListOffsetsTopic::default().with_name(m::TopicName("t".into())).with_partitions(vec![partition]);
    let request = m::ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(isolation_level)
        .with_topics(vec![topic]);
    let Response::ListOffsets(response) = lab.ask(request) else { panic!("another answer") };
    response.topics[0].partitions[0].offset
}

#[test]
fn readers_of_committed_data_stop_at_open_transactions_and_learn_of_aborted_ones_r_txn_23_24() {
    const UNCOMMITTED: i8 = 0;
    const COMMITTED: i8 = 1;
    let mut lab = lab();
    init(&mut lab);
    produce(&mut lab, (1000, 0), 0, 0);
    assert_eq!(fetch(&mut lab, UNCOMMITTED), (vec![0], None, 0));
    assert_eq!(fetch(&mut lab, COMMITTED), (vec![], Some(vec![]), 0), "it is open");
    assert_eq!((latest(&mut lab, UNCOMMITTED), latest(&mut lab, COMMITTED)), (1, 0));
    end(&mut lab, (1000, 0), false);
    lab.run_for(10);
    assert_eq!(fetch(&mut lab, UNCOMMITTED), (vec![0, 1], None, 2));
    assert_eq!(fetch(&mut lab, COMMITTED), (vec![0, 1], Some(vec![(1000, 0)]), 2));
    produce(&mut lab, (1000, 1), 0, 0);
    end(&mut lab, (1000, 1), true);
    lab.run_for(10);
    assert_eq!(fetch(&mut lab, COMMITTED), (vec![0, 1, 2, 3], Some(vec![(1000, 0)]), 4));
    assert_eq!((latest(&mut lab, UNCOMMITTED), latest(&mut lab, COMMITTED)), (4, 4));
}

/// Error of an end that somebody writes to t-0 directly.
fn write_marker(lab: &mut Lab, producer: i64, coordinator_epoch: i32) -> ErrorCode {
    let marker = WritableMarker {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        committed: false,
        partitions: [t(0)].into(),
        coordinator_epoch,
        transaction_version: 1,
    };
    match lab.ask(WriteTxnMarkersRequest { markers: vec![marker] }) {
        Response::WriteTxnMarkers(response) => response.errors[&ProducerId(producer)][&t(0)],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transaction_that_hangs_is_ended_by_a_marker_alone_r_txn_20_25() {
    let mut lab = lab();
    // No coordinator knows of it.
    lab.produce_in_transaction(7, 2);
    lab.run_for(200_000);
    assert_eq!(offsets(&lab, 0), (2, 0), "it holds the stable offset for good");
    assert_eq!(write_marker(&mut lab, 7, 3), ErrorCode::None);
    assert_eq!(offsets(&lab, 0), (3, 3));
    let error = ErrorCode::TransactionCoordinatorFenced;
    assert_eq!(write_marker(&mut lab, 7, 2), error, "a coordinator that was");
    lab.move_leader(BrokerId(2));
    assert_eq!(write_marker(&mut lab, 7, 3), ErrorCode::NotLeaderOrFollower);
}

#[test]
fn the_coordinator_is_the_leader_of_the_ids_partition_r_txn_1() {
    let mut lab = lab();
    let request = m::FindCoordinatorRequest::default().with_key_type(1);
    let Response::FindCoordinator(found) = lab.ask(request.with_coordinator_keys(vec![ID.into()])) else {
        panic!("another answer")
    };
    assert_eq!((found.coordinators[0].node_id.0, found.coordinators[0].error_code), (1, 0));
}

#[test]
fn without_producer_ids_a_producer_has_to_wait_r_txn_6() {
    let mut lab = Lab::with_partitions(1, &[]);
    assert_eq!(init(&mut lab), (-1, -1, ErrorCode::CoordinatorLoadInProgress));
    give_ids(&mut lab);
    assert_eq!(init(&mut lab), (1000, 0, ErrorCode::None));
}
