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
    let mut errand = TransactionErrand::new(operation, &metadata, 30_000);
    assert!(matches!(errand.next(NOW, &metadata), Next::Metadata), "what it was started with is old");
    let broker = |id: i32| MetadataResponseBroker::default().with_node_id(id.into());
    let partition = MetadataResponsePartition::default()
        .with_leader_id(2.into())
        .with_leader_epoch(0)
        .with_replica_nodes(vec![2.into(), 3.into()]);
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
    let (mut errand, metadata) = errand(TransactionOperation::DescribeProducers { tp: t(), broker: None });
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

#[test]
fn one_replica_is_asked_by_its_broker_and_refuses_in_the_tools_words_r_cli_20() {
    let broker = Some(BrokerId(3));
    let (mut describing, metadata) = errand(TransactionOperation::DescribeProducers { tp: t(), broker });
    let asks = (To::Broker(BrokerId(3)), ApiKey::DescribeProducers);
    assert_eq!(asked(describing.next(NOW, &metadata)), asks);
    let answer = producers(ErrorCode::NotLeaderOrFollower, &[]);
    let words = "Failed to describe producers for partition t-0 on broker 3: Failed to describe active producers for \
                 partition t-0 on brokerId 3";
    let refused = Heard::Refused(ErrorCode::NotLeaderOrFollower, words.to_owned());
    assert_eq!(describing.hear(BrokerId(3), &answer), refused);

    let area = Area::Broker(BrokerId(3));
    let (mut finding, metadata) = errand(TransactionOperation::FindHanging { area, longer_than_ms: None });
    assert_ne!(finding.also(), Also::Nothing, "all topics");
    assert_eq!(asked(finding.next(NOW, &metadata)), asks, "it has a replica of t-0");
    let words = "Failed to describe producers for 1 partitions on broker Optional[3]: Failed to describe active \
                 producers for partition t-0 on brokerId 3";
    let refused = Heard::Refused(ErrorCode::NotLeaderOrFollower, words.to_owned());
    assert_eq!(finding.hear(BrokerId(3), &answer), refused);

    let area = Area::Topic("t".into(), Some(BrokerId(1)));
    let (mut elsewhere, metadata) = errand(TransactionOperation::FindHanging { area, longer_than_ms: None });
    assert_eq!(told(elsewhere.next(NOW, &metadata)), TransactionsTold::Hanging(vec![]), "it has none");
}

fn fenced(error: ErrorCode) -> Response {
    m::InitProducerIdResponse::default()
        .with_error_code(error.code())
        .with_producer_id(7.into())
        .with_producer_epoch(4)
        .into()
}

#[test]
fn an_id_is_fenced_by_its_coordinator_r_cli_20_r_txn_8() {
    let (mut errand, metadata) = errand(TransactionOperation::Terminate(id()));
    let Next::Ask(to, request) = errand.next(NOW, &metadata) else { panic!("its coordinator") };
    let Request::InitProducerId(request) = *request else { panic!("InitProducerId") };
    assert_eq!(to, To::TransactionCoordinator(id()));
    let seen = (request.producer_id.0, request.producer_epoch, request.transaction_timeout_ms);
    assert_eq!(seen, (-1, -1, 30_000), "request.timeout.ms");
    assert_eq!(errand.hear(BrokerId(1), &fenced(ErrorCode::ConcurrentTransactions)), Heard::Again);
    assert_eq!(errand.hear(BrokerId(1), &fenced(ErrorCode::NotCoordinator)), Heard::Elsewhere);
    let words = "Failed to force terminate transactionalId `bank-1`: InitProducerId request for transactionalId \
                 `bank-1` failed due to unexpected error";
    let error = ErrorCode::InvalidTransactionTimeout;
    assert_eq!(errand.hear(BrokerId(1), &fenced(error)), Heard::Refused(error, words.to_owned()));
    assert_eq!(errand.hear(BrokerId(1), &fenced(ErrorCode::None)), Heard::Taken);
    let (producer, epoch) = (ProducerId(7), ProducerEpoch(4));
    assert_eq!(told(errand.next(NOW, &metadata)), TransactionsTold::Terminated { id: id(), producer, epoch });
}

fn find(longer_than_ms: Option<i64>) -> TransactionOperation {
    TransactionOperation::FindHanging { area: Area::Topic("t".into(), None), longer_than_ms }
}

const QUARTER_MS: i64 = 15 * 60_000;

/// The producers whose transactions hang, after the leader has told of three of which the first two are open for longer.
fn check_hanging(described: Response, expected: &[i64]) {
    let (mut errand, metadata) = errand(find(None));
    assert_eq!(asked(errand.next(NOW, &metadata)), (To::Broker(BrokerId(2)), ApiKey::DescribeProducers));
    let all = [(7, 0, QUARTER_MS + 1), (8, 4, QUARTER_MS + 1), (9, 6, QUARTER_MS)];
    errand.hear(BrokerId(2), &producers(ErrorCode::None, &all));
    for broker in [1, 2].map(BrokerId) {
        assert_eq!(asked(errand.next(NOW, &metadata)), (To::Broker(broker), ApiKey::ListTransactions));
        errand.hear(broker, &list(ErrorCode::None, "bank-1", 7));
    }
    let next = asked(errand.next(NOW, &metadata));
    assert_eq!(next, (To::TransactionCoordinator(id()), ApiKey::DescribeTransactions));
    errand.hear(BrokerId(1), &described);
    // Time that went by while coordinators answered makes no more of them hang.
    let TransactionsTold::Hanging(all) = told(errand.next(NOW.plus_ms(5), &metadata)) else { panic!("they") };
    assert_eq!(all.iter().map(|one| one.producer.0).collect::<Vec<_>>(), expected);
}

#[test]
fn what_no_coordinator_is_to_end_hangs_r_txn_25() {
    check_hanging(description(ErrorCode::None, vec![0]), &[8]);
    check_hanging(description(ErrorCode::None, vec![1]), &[7, 8]);
    check_hanging(description(ErrorCode::TransactionalIdNotFound, vec![]), &[7, 8]);
}

#[test]
fn coordinators_are_not_asked_while_nothing_is_open_for_long() {
    let (mut errand, metadata) = errand(find(Some(1_000)));
    errand.next(NOW, &metadata);
    errand.hear(BrokerId(2), &producers(ErrorCode::None, &[(7, 0, 1_000), (8, -1, 5_000)]));
    assert_eq!(told(errand.next(NOW, &metadata)), TransactionsTold::Hanging(vec![]));
}

fn marked(error: ErrorCode) -> Response {
    let of_partition = [(t(), error)].into();
    crate::kafka::protocol::markers::WriteTxnMarkersResponse {
        errors: [(ProducerId(8), of_partition)].into(),
    }
    .into()
}

#[test]
fn a_marker_for_one_partition_goes_to_its_leader_r_txn_20_25() {
    let (mut errand, metadata) = errand(TransactionOperation::Abort { tp: t(), start: Offset(4) });
    errand.next(NOW, &metadata);
    errand.hear(BrokerId(2), &producers(ErrorCode::None, &[(7, 0, 0), (8, 4, 0)]));
    let Next::Ask(To::Broker(BrokerId(2)), request) = errand.next(NOW, &metadata) else {
        panic!("the leader")
    };
    let Request::WriteTxnMarkers(request) = *request else { panic!("a marker") };
    let marker = &request.markers[0];
    let seen = (marker.producer_id, marker.producer_epoch, marker.committed, marker.coordinator_epoch);
    assert_eq!(seen, (ProducerId(8), ProducerEpoch(3), false, 0), "no coordinator's epoch was known");
    assert_eq!((marker.transaction_version, &marker.partitions), (0, &[t()].into()));
    assert_eq!(errand.hear(BrokerId(2), &marked(ErrorCode::NotLeaderOrFollower)), Heard::Again);
    assert_eq!(asked(errand.next(NOW, &metadata)).1, ApiKey::WriteTxnMarkers);
    assert_eq!(errand.hear(BrokerId(2), &marked(ErrorCode::None)), Heard::Taken);
    let TransactionsTold::Aborted(aborted) = told(errand.next(NOW, &metadata)) else { panic!("it") };
    assert_eq!((aborted.producer, aborted.start), (ProducerId(8), Offset(4)));
}

#[test]
fn a_coordinator_that_is_newer_refuses_the_marker_r_txn_20() {
    let (mut errand, metadata) = errand(TransactionOperation::Abort { tp: t(), start: Offset(4) });
    errand.next(NOW, &metadata);
    errand.hear(BrokerId(2), &producers(ErrorCode::None, &[(8, 4, 0)]));
    errand.next(NOW, &metadata);
    let heard = errand.hear(BrokerId(2), &marked(ErrorCode::TransactionCoordinatorFenced));
    assert!(matches!(heard, Heard::Refused(ErrorCode::TransactionCoordinatorFenced, _)), "{heard:?}");
}
