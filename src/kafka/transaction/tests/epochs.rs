//! Producer ids and epochs from initialization to initialization and from end to end.

use super::*;

fn with_version(version: TransactionVersion) -> Lab {
    Lab::with(TransactionConfig { version, ..config() })
}

#[test]
fn a_known_id_gets_the_next_epoch_r_txn_7() {
    let mut lab = Lab::new();
    for epoch in 0..4 {
        assert_eq!(lab.init(None), Ok(producer(100, epoch)));
    }
}

/// An id whose producer has this epoch and nothing open.
fn with_epoch(epoch: i16) -> Lab {
    let mut lab = Lab::new();
    lab.init(None).expect("it is new");
    let facts = TransactionFacts { producer_epoch: producer(0, epoch).epoch, ..lab.tx().facts().clone() };
    let value = Some(facts.encode(TransactionVersion::V2));
    lab.log.push(CoordinatorRecord { key: lab.log[0].key.clone(), value });
    lab.elect(2);
    lab
}

#[test]
fn epochs_that_run_out_are_followed_by_another_producer_id_r_txn_7() {
    let mut lab = with_epoch(32_765);
    assert_eq!(lab.init(None), Ok(producer(100, 32_766)));
    assert_eq!(lab.init(None), Ok(producer(101, 0)));
    let mut lab = with_epoch(32_766);
    assert_eq!(
        lab.init(Some(producer(100, 3))),
        Err(ErrorCode::UnknownServerError),
        "it knows another epoch"
    );
    assert_eq!(lab.init(Some(producer(100, 32_766))), Ok(producer(101, 0)));
    assert_eq!(lab.init(Some(producer(100, 32_766))), Ok(producer(101, 0)), "the answer was lost");
    assert_eq!(lab.init(Some(producer(100, 3))), Err(ErrorCode::ProducerFenced));
}

#[test]
fn ends_that_use_up_the_epochs_promise_another_producer_id_r_txn_17() {
    let mut lab = with_epoch(32_766);
    let p = producer(100, 32_766);
    lab.add(p, &[0]);
    assert_eq!(lab.end(p, true), Ok(producer(101, 0)));
    let facts = lab.tx().facts();
    assert_eq!((facts.producer_id.0, facts.producer_epoch.0, facts.next_producer_id.0), (100, 32_767, 101));
    lab.deliver();
    let facts = lab.tx().facts();
    assert_eq!((facts.producer_id.0, facts.producer_epoch.0, facts.next_producer_id.0), (101, 0, -1));
    assert_eq!(lab.end(p, true), Ok(producer(101, 0)), "the answer was lost");
    assert_eq!(lab.end(p, false), Err(ErrorCode::InvalidTxnState));
    assert_eq!(lab.add(producer(101, 0), &[0]), ErrorCode::None);
}

#[test]
fn an_open_transaction_is_aborted_first_r_txn_8() {
    for (version, epochs) in [(TransactionVersion::V1, (1, 2)), (TransactionVersion::V2, (1, 2))] {
        let mut lab = with_version(version);
        let p = lab.init(None).expect("it is new");
        lab.add(p, &[0, 1]);
        assert_eq!(lab.init(None), Err(ErrorCode::ConcurrentTransactions));
        assert_eq!(
            (lab.state(), lab.tx().facts().producer_epoch.0),
            (TransactionState::PrepareAbort, epochs.0)
        );
        assert_eq!(lab.init(None), Err(ErrorCode::ConcurrentTransactions), "the markers are not written");
        lab.deliver();
        assert_eq!(lab.init(None), Ok(producer(100, epochs.1)), "{version:?}");
        assert_eq!(lab.end(p, true), Err(ErrorCode::ProducerFenced));
    }
}

#[test]
fn before_version_2_a_fence_that_was_not_written_is_not_raised_again_r_txn_8() {
    for (version, epoch) in [(TransactionVersion::V1, 1), (TransactionVersion::V2, 0)] {
        let mut lab = with_version(version);
        let p = lab.init(None).expect("it is new");
        lab.add(p, &[0]);
        lab.refuses = Some(ErrorCode::NotEnoughReplicas);
        for _ in 0..3 {
            assert_eq!(lab.init(None), Err(ErrorCode::CoordinatorNotAvailable));
            assert_eq!((lab.state(), lab.tx().facts().producer_epoch.0), (TransactionState::Ongoing, epoch));
        }
        lab.refuses = None;
        assert_eq!(lab.init(None), Err(ErrorCode::ConcurrentTransactions));
        assert_eq!(lab.tx().facts().producer_epoch.0, 1, "{version:?}");
    }
}

#[test]
fn a_live_producer_asks_for_its_next_epoch_r_txn_9() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    assert_eq!(lab.init(Some(p)), Ok(producer(100, 1)));
    assert_eq!(lab.init(Some(p)), Ok(producer(100, 1)), "the answer was lost");
    assert_eq!(lab.init(Some(producer(100, 1))), Ok(producer(100, 2)));
    assert_eq!(lab.init(Some(p)), Err(ErrorCode::ProducerFenced));
    assert_eq!(lab.init(Some(producer(7, 2))), Err(ErrorCode::ProducerFenced));
    assert_eq!(lab.init(None), Ok(producer(100, 3)));
    assert_eq!(lab.init(Some(producer(100, 2))), Err(ErrorCode::ProducerFenced), "another began since");
}

#[test]
fn version_2_raises_the_epoch_with_each_end_r_txn_5_16_17() {
    let mut lab = Lab::new();
    let mut p = lab.init(None).expect("it is new");
    assert_eq!(lab.end(p, true), Err(ErrorCode::InvalidTxnState), "nothing is open");
    for (epoch, committed) in [(1, true), (2, false), (3, true)] {
        lab.add(p, &[0]);
        assert_eq!(lab.end(producer(7, 0), committed), Err(ErrorCode::InvalidProducerIdMapping));
        assert_eq!(lab.end(producer(100, epoch), committed), Err(ErrorCode::ProducerFenced));
        let next = lab.end(p, committed);
        assert_eq!(next, Ok(producer(100, epoch)));
        assert_eq!(
            lab.end(p, committed),
            Err(ErrorCode::ConcurrentTransactions),
            "the markers are not written"
        );
        lab.deliver();
        assert_eq!(lab.end(p, committed), next, "the answer was lost");
        assert_eq!(lab.end(p, !committed), Err(ErrorCode::InvalidTxnState));
        p = producer(100, epoch);
        assert_eq!(lab.end(p, true), Err(ErrorCode::InvalidTxnState), "nothing is open");
    }
    assert_eq!(lab.end(p, false), Ok(producer(100, 4)), "it may not know whether something is");
    assert_eq!(lab.state(), TransactionState::CompleteAbort);
}

#[test]
fn before_version_2_the_epoch_stays_r_txn_5_16() {
    let mut lab = with_version(TransactionVersion::V1);
    let p = lab.init(None).expect("it is new");
    for committed in [true, false] {
        assert_eq!(lab.end(p, committed), Err(ErrorCode::InvalidTxnState), "nothing is open");
    }
    for committed in [true, false] {
        lab.add(p, &[0]);
        assert_eq!(lab.end(p, committed), Ok(ProducerIdAndEpoch::NONE));
        assert_eq!(lab.end(p, committed), Err(ErrorCode::ConcurrentTransactions));
        assert_eq!(lab.end(p, !committed), Err(ErrorCode::ConcurrentTransactions));
        lab.deliver();
        assert_eq!(lab.end(p, committed), Ok(ProducerIdAndEpoch::NONE));
        assert_eq!(lab.end(p, !committed), Err(ErrorCode::InvalidTxnState));
        assert_eq!(lab.tx().facts().producer_epoch.0, 0);
    }
}
