//! Transactions: begun, decided, over.

use super::*;
use crate::kafka::event::{EndReason, ProducerEvent, TransactionEvent};
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
