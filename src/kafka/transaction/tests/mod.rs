//! Transactions at a coordinator whose log and leaders are played.

mod lab;
mod epochs;
mod delivery;

use super::*;
use crate::kafka::types::TransactionalId;
use lab::{ID, Lab, config, init, producer, t};

#[test]
fn an_id_is_kept_by_the_partition_that_kafka_picks_r_txn_1() {
    let config = TransactionConfig { state_log_num_partitions: 50, ..config() };
    let coordinator = TransactionCoordinator::new(config);
    for (id, partition) in [("txn-1", 10), ("orders-tx-1", 32), ("my-transactional-id", 46)] {
        assert_eq!(coordinator.partition_for(&id.into()), partition, "{id}");
    }
}

#[test]
fn a_new_id_gets_a_producer_with_epoch_0_r_txn_2_6() {
    let mut lab = Lab::new();
    assert_eq!(lab.init(None), Ok(producer(100, 0)));
    let facts = lab.tx().facts();
    assert_eq!(
        (facts.state, facts.timeout_ms, facts.start_timestamp_ms),
        (TransactionState::Empty, 60_000, -1)
    );
    assert_eq!((facts.last_producer_epoch.0, facts.partitions.len()), (-1, 0));
}

#[test]
fn requests_that_make_no_sense_are_refused_r_txn_10() {
    let mut lab = Lab::new();
    let mut check = |init: Init, error: ErrorCode| {
        assert_eq!(lab.init_with(init.clone()), Some(Answer::Initialized(Err(error))), "{init:?}");
    };
    check(Init { id: "".into(), ..init() }, ErrorCode::InvalidRequest);
    check(Init { timeout_ms: 900_001, ..init() }, ErrorCode::InvalidTransactionTimeout);
    check(Init { timeout_ms: 0, ..init() }, ErrorCode::InvalidTransactionTimeout);
    check(Init { keep_prepared: true, ..init() }, ErrorCode::UnsupportedVersion);
    let error = ErrorCode::TransactionalIdAuthorizationFailed;
    check(Init { two_phase_commit: true, ..init() }, error);
    assert_eq!(lab.coordinator.describe(&ID.into()), Err(ErrorCode::TransactionalIdNotFound));
    assert_eq!(
        lab.init_with(Init { timeout_ms: 900_000, ..init() }),
        Some(Answer::Initialized(Ok(producer(100, 0))))
    );
}

#[test]
fn a_transition_is_written_before_it_counts_r_txn_3() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    lab.uncommitted = true;
    assert_eq!(lab.try_add(p, &[0]), None, "the answer waits for the log");
    assert_eq!((lab.state(), lab.tx().pending()), (TransactionState::Empty, Some(TransactionState::Ongoing)));
    assert_eq!(lab.add(p, &[0]), ErrorCode::ConcurrentTransactions);
    assert_eq!(lab.end(p, true), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(lab.init(None), Err(ErrorCode::ConcurrentTransactions));
    lab.commit();
    assert_eq!(lab.answers.pop(), Some(Answer::Added(ErrorCode::None)));
    assert_eq!((lab.state(), lab.tx().pending()), (TransactionState::Ongoing, None));
}

#[test]
fn a_write_that_fails_or_takes_too_long_is_given_up_r_txn_3() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    for (refusal, told) in [
        (ErrorCode::NotEnoughReplicas, ErrorCode::CoordinatorNotAvailable),
        (ErrorCode::NotLeaderOrFollower, ErrorCode::NotCoordinator),
    ] {
        lab.refuses = Some(refusal);
        assert_eq!(lab.add(p, &[0]), told);
        assert_eq!((lab.state(), lab.tx().pending()), (TransactionState::Empty, None));
    }
    (lab.refuses, lab.uncommitted) = (None, true);
    assert_eq!(lab.try_add(p, &[0]), None);
    lab.pass(59_999);
    assert_eq!(lab.answers, []);
    lab.pass(1);
    assert_eq!(
        lab.answers.pop(),
        Some(Answer::Added(ErrorCode::CoordinatorNotAvailable)),
        "transaction.timeout.ms"
    );
    assert_eq!((lab.state(), lab.tx().pending()), (TransactionState::Empty, None));
    lab.commit();
    assert_eq!(lab.state(), TransactionState::Empty, "it came too late");
}

#[test]
fn partitions_are_added_to_who_may_have_them_r_txn_12() {
    let mut lab = Lab::new();
    assert_eq!(lab.add(producer(100, 0), &[0]), ErrorCode::InvalidProducerIdMapping, "nobody knows the id");
    let p = lab.init(None).expect("it is new");
    assert_eq!(lab.add(producer(101, 0), &[0]), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(lab.add(producer(100, 1), &[0]), ErrorCode::ProducerFenced);
    lab.now = Time::from_ms(5000);
    assert_eq!(lab.add(p, &[0]), ErrorCode::None);
    let start = lab.tx().facts().start_timestamp_ms;
    assert_eq!(start, lab.now.wall_ms());
    let written = lab.log.len();
    assert_eq!((lab.add(p, &[0]), lab.log.len()), (ErrorCode::None, written), "it is in already");
    lab.now = Time::from_ms(6000);
    assert_eq!((lab.add(p, &[0, 1]), lab.log.len()), (ErrorCode::None, written + 1));
    assert_eq!((lab.tx().facts().start_timestamp_ms, lab.tx().facts().partitions.len()), (start, 2));
    lab.end(p, true).expect("it is open");
    assert_eq!(
        lab.add(producer(100, 1), &[0]),
        ErrorCode::ConcurrentTransactions,
        "the markers are not written"
    );
}

#[test]
fn leaders_learn_which_partitions_are_in_r_txn_14() {
    let mut lab = Lab::new();
    let id = TransactionalId::new(ID);
    let verify = |lab: &Lab, producer, partition| {
        lab.coordinator.verify(&id, producer, &[t(partition)].into())[&t(partition)]
    };
    assert_eq!(verify(&lab, producer(100, 0), 0), ErrorCode::InvalidProducerIdMapping);
    let p = lab.init(None).expect("it is new");
    assert_eq!(verify(&lab, p, 0), ErrorCode::TransactionAbortable);
    lab.add(p, &[0]);
    assert_eq!((verify(&lab, p, 0), verify(&lab, p, 1)), (ErrorCode::None, ErrorCode::TransactionAbortable));
    assert_eq!(verify(&lab, producer(100, 1), 0), ErrorCode::ProducerFenced);
    assert_eq!(verify(&lab, producer(7, 0), 0), ErrorCode::InvalidProducerIdMapping);
    lab.uncommitted = true;
    assert_eq!(lab.try_end(p, true), None);
    assert_eq!(verify(&lab, p, 0), ErrorCode::None, "what is pending makes no difference");
    lab.commit();
    lab.answers.clear();
    assert_eq!(verify(&lab, producer(100, 1), 0), ErrorCode::ConcurrentTransactions);
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted_r_txn_26() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    let look = |lab: &mut Lab| lab.step(|coordinator, around, fx| coordinator.abort_timed_out(around, fx));
    lab.pass(100_000);
    lab.add(p, &[0]);
    lab.pass(60_000);
    look(&mut lab);
    assert_eq!(lab.state(), TransactionState::Ongoing, "the time counts from the first partition");
    lab.pass(1);
    look(&mut lab);
    assert_eq!((lab.state(), lab.tx().facts().producer_epoch.0), (TransactionState::PrepareAbort, 1));
    lab.deliver();
    assert_eq!(lab.state(), TransactionState::CompleteAbort);
    assert_eq!(lab.add(p, &[0]), ErrorCode::ProducerFenced);
    assert_eq!(lab.end(p, true), Err(ErrorCode::InvalidTxnState));
    assert_eq!(lab.end(p, false), Ok(producer(100, 1)), "as it wanted");
}

#[test]
fn before_version_2_a_late_producer_is_fenced_r_txn_26() {
    let mut lab = Lab::with(TransactionConfig { version: TransactionVersion::V1, ..config() });
    let p = lab.init(None).expect("it is new");
    lab.add(p, &[0]);
    lab.pass(60_001);
    lab.step(|coordinator, around, fx| coordinator.abort_timed_out(around, fx));
    lab.deliver();
    assert_eq!((lab.state(), lab.tx().facts().producer_epoch.0), (TransactionState::CompleteAbort, 1));
    for committed in [true, false] {
        assert_eq!(lab.end(p, committed), Err(ErrorCode::ProducerFenced));
    }
}

#[test]
fn an_id_that_is_idle_for_a_week_is_forgotten_r_txn_27() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    let look = |lab: &mut Lab| lab.step(|coordinator, around, fx| coordinator.remove_expired(around, fx));
    lab.add(p, &[0]);
    lab.pass(700_000_000);
    look(&mut lab);
    assert_eq!(lab.state(), TransactionState::Ongoing, "it is not idle");
    let p = lab.end(p, true).expect("it is open");
    lab.deliver();
    lab.pass(604_799_999);
    look(&mut lab);
    assert_eq!(lab.state(), TransactionState::CompleteCommit);
    lab.pass(1);
    lab.refuses = Some(ErrorCode::NotEnoughReplicas);
    look(&mut lab);
    assert_eq!((lab.state(), lab.tx().pending()), (TransactionState::CompleteCommit, None), "next time");
    lab.refuses = None;
    look(&mut lab);
    assert_eq!(lab.coordinator.transaction(&ID.into()), None);
    assert_eq!(lab.add(p, &[0]), ErrorCode::InvalidProducerIdMapping);
    lab.elect(2);
    assert_eq!(lab.coordinator.transaction(&ID.into()), None, "its tombstone is in the log");
    assert_eq!(lab.init(None), Ok(producer(101, 0)));
}

#[test]
fn many_ids_are_forgotten_in_batches_r_txn_27() {
    let mut lab = Lab::new();
    for each in 0..1000 {
        lab.init_with(Init { id: format!("transactional-{each}").as_str().into(), ..init() });
    }
    lab.pass(604_800_000);
    let mut sizes = Vec::new();
    lab.step(|coordinator, around, fx| {
        coordinator.remove_expired(around, fx);
        sizes.extend(fx.appends.iter().map(|append| append.records.len()));
    });
    assert!(sizes.len() > 2 && sizes.iter().all(|size| *size < 500), "{sizes:?}");
    assert_eq!(
        (sizes.iter().sum::<usize>(), lab.coordinator.shards().next().map(|(_, s)| s.transactions().count())),
        (1000, Some(0))
    );
}

#[test]
fn only_the_coordinator_of_an_id_answers_for_it_r_txn_28() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    lab.coordinator.on_elected(0, LeaderEpoch(2));
    assert_eq!(lab.add(p, &[0]), ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(lab.coordinator.list().err(), Some(ErrorCode::CoordinatorLoadInProgress));
    lab.elect(3);
    assert_eq!(lab.add(p, &[0]), ErrorCode::None);
    lab.uncommitted = true;
    assert_eq!(lab.try_add(p, &[0, 1]), None);
    lab.step(|coordinator, around, fx| coordinator.on_resigned(around, 0, fx));
    assert_eq!(lab.answers.pop(), Some(Answer::Added(ErrorCode::NotCoordinator)));
    assert_eq!(lab.init(None), Err(ErrorCode::NotCoordinator));
    assert_eq!(lab.end(p, true), Err(ErrorCode::NotCoordinator));
    assert_eq!(lab.coordinator.describe(&ID.into()), Err(ErrorCode::NotCoordinator));
}
