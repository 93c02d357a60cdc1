//! Transactions: begun, decided, over.

use super::*;
use crate::kafka::event::{
    ActiveProducer, DescribedTransaction, EndReason, HangingTransaction, ListedTransaction, ProducerEvent,
    TransactionEvent, TransactionsTold,
};
use crate::kafka::types::{BatchId, ProducerEpoch, ProducerId, TransactionalId};

#[test]
fn transactions_read_as_a_story_r_txn_8_26() {
    let (broker, id) = (BrokerId(2), TransactionalId::new("billing-1"));
    let initialized = |epoch| TransactionEvent::Initialized {
        broker,
        id: id.clone(),
        producer: ProducerId(1000),
        epoch: ProducerEpoch(epoch),
    };
    let added = TransactionEvent::Added { broker, id: id.clone(), partitions: vec![tp(0)], begins: true };
    let decided = |committed, partitions, reason| TransactionEvent::Decided {
        broker,
        id: id.clone(),
        committed,
        partitions,
        reason,
    };
    let marked = TransactionEvent::Marked {
        broker,
        tp: tp(0),
        producer: ProducerId(1000),
        committed: true,
        offset: Offset(7),
    };
    let completed = TransactionEvent::Completed { broker, id: id.clone(), committed: true };
    let events = [
        (1, initialized(0)),
        (2, added),
        (10, decided(true, vec![tp(0), tp(1)], EndReason::Client)),
        (12, marked),
        (15, completed),
        (20, decided(false, vec![], EndReason::Client)),
        (30, decided(false, vec![tp(0)], EndReason::NewInstance)),
        (31, initialized(2)),
        (90, decided(false, vec![tp(0)], EndReason::Timeout)),
        (99, TransactionEvent::Forgotten { broker, id: id.clone() }),
    ];
    check(
        &events.map(|(at, event)| (at, Event::Transaction(event))),
        expect![[r#"
        00:00.001  billing-1 begins as producer 1000 in epoch 0, at coordinator 2 (R-TXN-1, R-TXN-6)
            Info
        00:00.010  billing-1: the transaction in orders-0, orders-1 is committed (R-TXN-18)
            Info: That is decided now, whatever fails; readers see it in each partition once its marker is there.
        00:00.015  billing-1: the commit is in all partitions (R-TXN-19)
            Good
        00:00.020  billing-1: an empty transaction is aborted (R-TXN-18)
            Info: That is decided now, whatever fails; readers see it in each partition once its marker is there.
        00:00.030  billing-1: the transaction in orders-0 is aborted (R-TXN-8)
            Warn: Another instance began with the same transactional id while it was open.
        00:00.031  billing-1 begins as producer 1000 in epoch 2, at coordinator 2 (R-TXN-7)
            Info: Whoever used the id before is fenced: its epoch is an earlier one.
        00:00.090  billing-1: the transaction in orders-0 is aborted (R-TXN-26)
            Bad: It was open for longer than transaction.timeout.ms, and readers of committed data waited for it.
        00:00.099  billing-1 is forgotten: it was not used for transactional.id.expiration.ms (R-TXN-27)
            Info
    "#]],
    );
}

#[test]
fn a_late_transaction_is_told_with_what_its_broker_counts_r_txn_25() {
    let late = TransactionEvent::Late { broker: BrokerId(2), tp: tp(1), count: 2 };
    check(
        &[(1, Event::Transaction(late))],
        expect![[r#"
            00:00.001  orders-1 has a late transaction: broker 2 counts 2 partitions (R-TXN-25)
                Bad: Nobody has written to it for transaction.max.timeout.ms and five minutes more, so its coordinator does not know of it or cannot end it. Readers of committed data wait; find hanging transactions tells where it begins.
        "#]],
    );
}

#[test]
fn a_producers_application_sees_what_becomes_of_its_transaction_r_txn_31() {
    let abandoned = ProducerEvent::Abandoned {
        client: name("checkout-api"),
        tp: tp(1),
        batch: BatchId(4),
        records: 3,
        exception: "InvalidProducerEpochException".to_owned(),
        error: ErrorCode::InvalidProducerEpoch,
    };
    let thrown = ProducerEvent::Thrown {
        client: name("checkout-api"),
        call: "commitTransaction()".to_owned(),
        exception: "InvalidProducerEpochException".to_owned(),
    };
    check(
        &[(1, Event::Producer(abandoned)), (2, Event::Producer(thrown))],
        expect![[r#"
            00:00.001  checkout-api: 3 records of orders-1 given up (R-TXN-31)
                Warn: Their transaction is not committed. The application sees InvalidProducerEpochException.
            00:00.002  checkout-api: commitTransaction() throws InvalidProducerEpochException (R-TXN-30, R-TXN-31)
                Bad: What can be aborted its application aborts; after a fatal error it ends.
        "#]],
    );
}

#[test]
fn what_an_administrator_asked_of_transactions_is_told_r_cli_20() {
    let (coordinator, id) = (BrokerId(2), TransactionalId::new("billing-1"));
    let (producer, epoch) = (ProducerId(1000), ProducerEpoch(3));
    let listed = |id: &str, state: &str| ListedTransaction {
        id: TransactionalId::new(id),
        coordinator,
        producer,
        state: state.to_owned(),
    };
    let described = |state: &str, began_ms_ago, partitions| {
        TransactionsTold::Transaction(DescribedTransaction {
            id: id.clone(),
            coordinator,
            producer,
            epoch,
            state: state.to_owned(),
            timeout_ms: 60_000,
            began_ms_ago,
            partitions,
        })
    };
    let active = |coordinator_epoch, open_since| ActiveProducer {
        producer,
        epoch,
        coordinator_epoch,
        last_sequence: 4,
        wrote_ms_ago: 5_000,
        open_since,
    };
    let hanging = HangingTransaction { tp: tp(0), producer, epoch, start: Offset(7), wrote_ms_ago: 960_000 };
    let told = [
        TransactionsTold::List(vec![]),
        TransactionsTold::List(vec![listed("a", "Empty"), listed("b", "Ongoing")]),
        described("Ongoing", Some(12_000), vec![tp(0), tp(1)]),
        described("Empty", None, vec![]),
        TransactionsTold::Producers { tp: tp(0), broker: Some(BrokerId(2)), producers: vec![] },
        TransactionsTold::Producers {
            tp: tp(0),
            broker: None,
            producers: vec![active(None, Some(Offset(7))), active(Some(5), None)],
        },
        TransactionsTold::Hanging(vec![]),
        TransactionsTold::Hanging(vec![hanging.clone()]),
        TransactionsTold::Aborted(hanging),
        TransactionsTold::Terminated { id: id.clone(), producer, epoch },
    ];
    check(
        &told.map(|told| (0, Event::TransactionsTold { told })),
        expect![[r#"
            00:00.000  no transactional id is listed (R-CLI-20)
                Info: Each broker tells of those that it coordinates.
            00:00.000  2 transactional ids: a (Empty, producer 1000, coordinated by broker 2); b (Ongoing, producer 1000, coordinated by broker 2) (R-CLI-20)
                Info: Each broker tells of those that it coordinates.
            00:00.000  billing-1: Ongoing in orders-0, orders-1 (R-CLI-20)
                Info: Broker 2 coordinates it, as producer 1000 in epoch 3. Its last transaction began 12 s ago. It may take 1 min.
            00:00.000  billing-1: Empty (R-CLI-20)
                Info: Broker 2 coordinates it, as producer 1000 in epoch 3. It has had no transaction. It may take 1 min.
            00:00.000  orders-0 on broker 2: no producer with an id is known (R-CLI-20)
                Info
            00:00.000  orders-0: 2 producers, 1 transaction open (R-CLI-20)
                Info: 1000 in epoch 3: sequence 4 5 s ago, transaction open from offset 7 on; 1000 in epoch 3: sequence 4 5 s ago, last marker in coordinator epoch 5.
            00:00.000  no hanging transaction is found (R-CLI-20)
                Info: Whatever has been open for so long is still to be ended by its coordinator.
            00:00.000  1 hanging transaction found: orders-0 from offset 7 on (producer 1000 in epoch 3, silent for 16 min) (R-CLI-20, R-TXN-25)
                Bad: No coordinator is going to end what is open there, and readers of committed data wait for it.
            00:00.000  orders-0: the transaction of producer 1000 from offset 7 on is aborted by hand (R-CLI-20, R-TXN-25)
                Good: The marker is in this partition alone; readers of committed data no longer wait for it here.
            00:00.000  billing-1: what was open is aborted by hand, and whoever used it is fenced (R-CLI-20, R-TXN-8)
                Warn: An administrator asked for the producer's next epoch, as a new instance would: producer 1000 is in epoch 3.
        "#]],
    );
}
