//! What an errand about transactions asks next, and what it makes of answers.

use kafka_protocol::messages::describe_producers_response::{PartitionResponse, TopicResponse};
use kafka_protocol::messages::list_transactions_response as listed;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};

use super::*;
use crate::client::config::CommonConfig;
use crate::kafka::protocol::ApiKey;
use crate::kafka::random::Random;

const NOW: Time = Time::ZERO;

/// An errand in a cluster of two brokers, of which the second leads t-0; with metadata that is newer than its start.
fn errand(operation: TransactionOperation) -> (TransactionErrand, Metadata) {
    let random = Random::stream(1, "metadata");
    let mut metadata = Metadata::new(&[BrokerId(1)], CommonConfig::default(), false, random);
    metadata.want(["t".into()].into());
    let mut errand = TransactionErrand::new(operation, &metadata);
    assert!(matches!(errand.next(NOW, &metadata), Next::Metadata), "what it was started with is old");
    let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
    let partition = MetadataResponsePartition::default().with_leader_id(2.into()).with_leader_epoch(0);
    let topic = MetadataResponseTopic::default()
        .with_name(Some(m::TopicName(Topic::new("t").to_wire())))
        .with_partitions(vec![partition]);
    let response = m::MetadataResponse::default().with_brokers(vec![broker(1), broker(2)]);
    metadata.on_response(NOW, &response.with_topics(vec![topic]));
    (errand, metadata)
}

fn asked(next: Next) -> (To, ApiKey) {
    match next {
        Next::Ask(to, request) => (to, request.api()),
        other => panic!("{other:?}"),
    }
}

fn told(next: Next) -> TransactionsTold {
    match next {
        Next::Done(Some(event)) => match *event {
            Event::TransactionsTold { told } => told,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn t() -> TopicPartition {
    TopicPartition::new(&"t".into(), 0)
}

fn id() -> TransactionalId {
    TransactionalId::new("bank-1")
}

fn list(error: ErrorCode, id: &'static str, producer: i64) -> Response {
    let state = listed::TransactionState::default()
        .with_transactional_id(m::TransactionalId(id.into()))
        .with_producer_id(producer.into())
        .with_transaction_state("Ongoing".into());
    let answer = m::ListTransactionsResponse::default().with_error_code(error.code());
    answer.with_transaction_states(if error.is_ok() { vec![state] } else { vec![] }).into()
}

fn description(error: ErrorCode, partitions: Vec<i32>) -> Response {
    let topic = m::describe_transactions_response::TopicData::default()
        .with_topic(m::TopicName("t".into()))
        .with_partitions(partitions);
    let state = TransactionState::default()
        .with_transactional_id(m::TransactionalId(id().to_wire()))
        .with_error_code(error.code())
        .with_transaction_start_time_ms(-1)
        .with_topics(vec![topic]);
    m::DescribeTransactionsResponse::default().with_transaction_states(vec![state]).into()
}

/// What the leader of t-0 says; of producers by their id, where a transaction begins, and since when they are silent.
fn producers(error: ErrorCode, all: &[(i64, i64, i64)]) -> Response {
    let state = |(id, start, silent_ms): &(i64, i64, i64)| {
        ProducerState::default()
            .with_producer_id((*id).into())
            .with_producer_epoch(3)
            .with_last_timestamp(NOW.wall_ms() - silent_ms)
            .with_coordinator_epoch(-1)
            .with_current_txn_start_offset(*start)
    };
    let partition = PartitionResponse::default()
        .with_error_code(error.code())
        .with_active_producers(all.iter().map(state).collect());
    let topic = TopicResponse::default().with_name(m::TopicName("t".into())).with_partitions(vec![partition]);
    m::DescribeProducersResponse::default().with_topics(vec![topic]).into()
}

#[test]
fn every_broker_is_asked_for_a_list() {
    let (mut errand, metadata) = errand(TransactionOperation::List(TransactionFilter::default()));
    let broker = |id| (To::Broker(BrokerId(id)), ApiKey::ListTransactions);
    assert_eq!(asked(errand.next(NOW, &metadata)), broker(1));
    assert_eq!(errand.hear(BrokerId(1), &list(ErrorCode::CoordinatorLoadInProgress, "", 0)), Heard::Again);
    assert_eq!(asked(errand.next(NOW, &metadata)), broker(1));
    assert_eq!(errand.hear(BrokerId(1), &list(ErrorCode::None, "b", 7)), Heard::Taken);
    assert_eq!(asked(errand.next(NOW, &metadata)), broker(2));
    assert_eq!(errand.hear(BrokerId(2), &list(ErrorCode::None, "a", 8)), Heard::Taken);
    let TransactionsTold::List(all) = told(errand.next(NOW, &metadata)) else { panic!("a list") };
    let all: Vec<String> =
        all.iter().map(|one| format!("{} {} {}", one.id, one.coordinator, one.producer)).collect();
    assert_eq!(all, ["a 2 8", "b 1 7"]);
}

#[test]
fn a_broker_that_is_shutting_down_fails_the_list() {
    let (mut errand, metadata) = errand(TransactionOperation::List(TransactionFilter::default()));
    errand.next(NOW, &metadata);
    let heard = errand.hear(BrokerId(1), &list(ErrorCode::CoordinatorNotAvailable, "", 0));
    assert!(matches!(heard, Heard::Refused(ErrorCode::CoordinatorNotAvailable, _)), "{heard:?}");
}

#[test]
fn an_id_is_described_by_its_coordinator() {
    let (mut errand, metadata) = errand(TransactionOperation::Describe(id()));
    let coordinator = (To::TransactionCoordinator(id()), ApiKey::DescribeTransactions);
    assert_eq!(asked(errand.next(NOW, &metadata)), coordinator);
    assert_eq!(errand.hear(BrokerId(1), &description(ErrorCode::NotCoordinator, vec![])), Heard::Elsewhere);
    assert_eq!(asked(errand.next(NOW, &metadata)), coordinator);
    assert_eq!(errand.hear(BrokerId(2), &description(ErrorCode::None, vec![0])), Heard::Taken);
    let TransactionsTold::Transaction(described) = told(errand.next(NOW, &metadata)) else { panic!("it") };
    assert_eq!((described.coordinator, described.began_ms_ago), (BrokerId(2), None));
    assert_eq!(described.partitions, [t()]);
}

#[test]
fn an_id_that_nobody_knows_is_refused() {
    let (mut errand, metadata) = errand(TransactionOperation::Describe(id()));
    errand.next(NOW, &metadata);
    let heard = errand.hear(BrokerId(1), &description(ErrorCode::TransactionalIdNotFound, vec![]));
    assert_eq!(heard, Heard::Taken);
    let next = errand.next(NOW, &metadata);
    assert!(matches!(next, Next::Refused(ErrorCode::TransactionalIdNotFound, _)), "{next:?}");
}

#[test]
fn producers_are_described_by_the_leader() {
    let (mut errand, metadata) = errand(TransactionOperation::DescribeProducers(t()));
    let leader = (To::Broker(BrokerId(2)), ApiKey::DescribeProducers);
    assert_eq!(asked(errand.next(NOW, &metadata)), leader);
    assert_eq!(errand.hear(BrokerId(2), &producers(ErrorCode::NotLeaderOrFollower, &[])), Heard::Again);
    assert_eq!(asked(errand.next(NOW, &metadata)), leader);
    let answer = producers(ErrorCode::None, &[(7, 5, 1000), (8, -1, 0)]);
    assert_eq!(errand.hear(BrokerId(2), &answer), Heard::Taken);
    let TransactionsTold::Producers { producers, .. } = told(errand.next(NOW, &metadata)) else {
        panic!("producers")
    };
    let seen: Vec<_> = producers.iter().map(|p| (p.producer.0, p.wrote_ms_ago, p.open_since)).collect();
    assert_eq!(seen, [(7, 1000, Some(Offset(5))), (8, 0, None)]);
}
