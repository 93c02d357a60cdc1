//! The transactional producer, request by request.

mod rig;
mod version_1;

use self::rig::{Rig, Says, offsets, send};
use super::{ProducerError, State};
use crate::client::producer::{Call, CallName};
use crate::kafka::protocol::{ApiKey, ErrorCode};

#[test]
fn a_transaction_from_the_first_call_to_the_last_r_txn_11_17_30() {
    let mut rig = Rig::new();
    rig.check(Call::InitTransactions, "done");
    rig.check_asked(&["find transaction t1", "init -1/-1"]);
    rig.check(Call::BeginTransaction, "done");
    rig.check_asked(&[]);
    rig.check(send(0), "done");
    rig.run_for(5);
    rig.check(send(1), "done");
    rig.run_for(5);
    rig.check(offsets(), "done");
    rig.check(Call::CommitTransaction, "done");
    let first = ["produce 1000/0 sequence 0", "produce 1000/0 sequence 1"];
    let group = ["find group g", "offsets g m1 generation 5 1000/0"];
    rig.check_asked(&[first[0], first[1], group[0], group[1], "commit 1000/0"]);
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(2), "done");
    rig.check(Call::AbortTransaction, "done");
    rig.check_asked(&["produce 1000/1 sequence 0", "abort 1000/1"]);
    rig.check_state(State::Ready);
}

#[test]
fn a_commit_waits_until_all_records_have_their_outcome_r_txn_30() {
    let mut rig = Rig::in_transaction();
    rig.says(ApiKey::Produce, Says::Silence);
    rig.check(send(1), "done");
    rig.begin_call(Call::CommitTransaction);
    rig.run_for(1000);
    rig.check_asked(&["produce 1000/0 sequence 1"]);
    rig.check_state(State::Committing);
    assert_eq!(rig.producer.is_calling(), Some(CallName::CommitTransaction));
}

#[test]
fn nobody_is_told_of_a_transaction_in_which_nothing_happened_r_txn_30() {
    let mut rig = Rig::ready();
    for end in [Call::CommitTransaction, Call::AbortTransaction] {
        rig.check(Call::BeginTransaction, "done");
        rig.check(end, "done");
    }
    rig.check_asked(&[]);
}

#[test]
fn a_call_that_does_not_fit_changes_nothing_r_txn_30() {
    let mut rig = Rig::new();
    let illegal = |call, state| ProducerError::IllegalState { call, state };
    assert_eq!(rig.thrown(Call::BeginTransaction), illegal(CallName::BeginTransaction, State::Uninitialized));
    rig.check(Call::InitTransactions, "done");
    assert_eq!(rig.thrown(Call::InitTransactions), illegal(CallName::InitTransactions, State::Ready));
    assert_eq!(rig.thrown(Call::CommitTransaction), illegal(CallName::CommitTransaction, State::Ready));
    assert_eq!(rig.thrown(offsets()), illegal(CallName::SendOffsetsToTransaction, State::Ready));
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(0), "done");
    rig.check(Call::CommitTransaction, "done");
}

#[test]
fn a_call_that_timed_out_goes_on_when_it_is_made_again_r_txn_30() {
    let mut rig = Rig::in_transaction();
    for _ in 0..2 {
        rig.says(ApiKey::EndTxn, Says::Silence);
    }
    rig.check(Call::CommitTransaction, "TimeoutException");
    let pending =
        ProducerError::CallPending { call: CallName::AbortTransaction, pending: CallName::CommitTransaction };
    assert_eq!(rig.thrown(Call::AbortTransaction), pending);
    rig.check(Call::CommitTransaction, "done");
    rig.check_state(State::Ready);
}

#[test]
fn a_request_is_sent_again_after_its_back_off_r_txn_31() {
    let mut rig = Rig::in_transaction();
    for error in [ErrorCode::ConcurrentTransactions, ErrorCode::CoordinatorLoadInProgress] {
        rig.refuses(ApiKey::EndTxn, error);
    }
    rig.check(Call::CommitTransaction, "done");
    assert_eq!(rig.took_ms(), 202, "back-off and an answer, twice");
    rig.check_asked(&["commit 1000/0"; 3]);
}

#[test]
fn a_coordinator_that_is_none_any_more_is_looked_up_r_txn_28() {
    for says in [Says::Error(ErrorCode::NotCoordinator), Says::Lost] {
        let mut rig = Rig::in_transaction();
        rig.says(ApiKey::EndTxn, says);
        rig.coordinator = 1;
        rig.check(Call::CommitTransaction, "done");
        rig.check_asked(&["commit 1000/0", "find transaction t1", "commit 1000/0"]);
    }
}

/// What a call throws and which state it leads to, if `api` is refused with `error`.
fn check_error(api: ApiKey, error: ErrorCode, call: Call, thrown: &str, state: State) {
    let mut rig = if matches!(call, Call::InitTransactions) { Rig::new() } else { Rig::in_transaction() };
    rig.refuses(api, error);
    rig.check(call, thrown);
    rig.check_state(state);
}

#[test]
fn some_errors_are_fatal_and_some_abortable_r_txn_31() {
    use ErrorCode as E;
    use State::{AbortableError, FatalError};
    let fenced = "ProducerFencedException";
    for error in [E::ProducerFenced, E::InvalidProducerEpoch] {
        check_error(ApiKey::InitProducerId, error, Call::InitTransactions, fenced, FatalError);
        check_error(ApiKey::EndTxn, error, Call::CommitTransaction, fenced, FatalError);
        check_error(ApiKey::TxnOffsetCommit, error, offsets(), fenced, FatalError);
    }
    let timeout = E::InvalidTransactionTimeout;
    check_error(ApiKey::InitProducerId, timeout, Call::InitTransactions, "KafkaException", FatalError);
    let end =
        |error, thrown, state| check_error(ApiKey::EndTxn, error, Call::CommitTransaction, thrown, state);
    end(E::InvalidTxnState, "InvalidTxnStateException", FatalError);
    end(E::InvalidProducerIdMapping, "InvalidPidMappingException", FatalError);
    end(E::TransactionAbortable, "TransactionAbortableException", AbortableError);
    end(E::UnknownServerError, "KafkaException", FatalError);
    let abort = E::TransactionAbortable;
    check_error(ApiKey::EndTxn, abort, Call::AbortTransaction, "KafkaException", FatalError);
    let commit = "CommitFailedException";
    for error in [E::IllegalGeneration, E::UnknownMemberId] {
        check_error(ApiKey::TxnOffsetCommit, error, offsets(), commit, AbortableError);
    }
    let instance = E::FencedInstanceId;
    check_error(ApiKey::TxnOffsetCommit, instance, offsets(), "FencedInstanceIdException", AbortableError);
    check_error(ApiKey::TxnOffsetCommit, E::InvalidTxnState, offsets(), "KafkaException", FatalError);
}

/// What the commit throws after a record was refused with `error`, and which state that is.
fn check_send_error(error: ErrorCode, thrown: &str, state: State) {
    let mut rig = Rig::in_transaction();
    rig.refuses(ApiKey::Produce, error);
    rig.check(send(1), "done");
    rig.run_for(10);
    rig.check(Call::CommitTransaction, thrown);
    rig.check_state(state);
}

#[test]
fn a_record_that_fails_makes_the_commit_throw_r_txn_30_31() {
    use ErrorCode as E;
    check_send_error(E::InvalidProducerEpoch, "InvalidProducerEpochException", State::AbortableError);
    check_send_error(E::TransactionAbortable, "KafkaException", State::AbortableError);
    check_send_error(E::InvalidTxnState, "KafkaException", State::AbortableError);
    check_send_error(E::InvalidTimestamp, "KafkaException", State::AbortableError);
    check_send_error(E::InvalidProducerIdMapping, "KafkaException", State::FatalError);
}

#[test]
fn after_an_abortable_error_the_transaction_is_aborted_and_the_next_begins_r_txn_31() {
    let mut rig = Rig::in_transaction();
    rig.refuses(ApiKey::Produce, ErrorCode::InvalidTimestamp);
    rig.check(send(1), "done");
    rig.run_for(10);
    let error = ProducerError::Kafka(ErrorCode::InvalidTimestamp);
    assert_eq!(rig.thrown(send(2)), ProducerError::InErrorState(Box::new(error)));
    rig.check(Call::AbortTransaction, "done");
    assert_eq!(rig.given_up(), ["1: InvalidTimestampException"], "it was in a batch already");
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(3), "done");
    rig.check(Call::CommitTransaction, "done");
    rig.check_asked(&[
        "produce 1000/0 sequence 1",
        "abort 1000/0",
        "produce 1000/1 sequence 0",
        "commit 1000/1",
    ]);
}

#[test]
fn records_that_were_not_sent_are_given_up_with_their_transaction_r_txn_31() {
    let mut rig = Rig::with(&[("linger.ms", "1000")]);
    rig.check(Call::InitTransactions, "done");
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(0), "done");
    rig.check(Call::AbortTransaction, "done");
    assert_eq!(rig.given_up().len(), 1);
    assert!(rig.given_up()[0].starts_with("1: TransactionAbortedException"));
    assert_eq!(rig.producer.counts().failed, 1);
}

#[test]
fn after_a_fatal_error_every_call_throws_r_txn_31() {
    let mut rig = Rig::in_transaction();
    rig.refuses(ApiKey::EndTxn, ErrorCode::ProducerFenced);
    rig.check(Call::CommitTransaction, "ProducerFencedException");
    let fenced = ProducerError::Kafka(ErrorCode::ProducerFenced);
    for call in [Call::AbortTransaction, Call::BeginTransaction, send(1), offsets(), Call::InitTransactions] {
        assert_eq!(rig.thrown(call), fenced);
    }
    rig.act(|producer, now, fx| producer.close(now, fx));
    assert!(rig.exited);
}

#[test]
fn close_aborts_what_nobody_ended_r_txn_30_r_prod_8() {
    let mut rig = Rig::in_transaction();
    rig.act(|producer, now, fx| producer.close(now, fx));
    rig.run_for(5);
    rig.check_asked(&["abort 1000/0"]);
    assert!(rig.exited);
}

/// What is asked while a producer closes within so long, and when that is over.
fn closed_within(rig: &mut Rig, timeout_ms: i64) -> i64 {
    let since = rig.now;
    rig.act(|producer, now, fx| producer.close_within(now, timeout_ms, fx));
    while !rig.exited {
        rig.run_for(1);
    }
    rig.now.ms_since(since)
}

#[test]
fn close_in_time_aborts_if_the_coordinator_answers_in_time_r_txn_30_r_prod_8() {
    for (version, abort) in [(2, "abort 1000/0"), (1, "abort 1000/0 v4")] {
        let mut rig = Rig::in_transaction_at(version);
        assert!(closed_within(&mut rig, 500) < 10);
        rig.check_asked(&[abort]);
    }
}

#[test]
fn close_in_time_leaves_a_transaction_open_whose_coordinator_says_nothing_r_txn_30_r_prod_8() {
    for version in [2, 1] {
        let mut rig = Rig::in_transaction_at(version);
        rig.says(ApiKey::EndTxn, Says::Silence);
        assert_eq!(closed_within(&mut rig, 500), 500, "its coordinator will end it (R-TXN-26)");
    }
}

#[test]
fn close_in_no_time_asks_for_nothing_r_txn_30_r_prod_8() {
    let mut rig = Rig::in_transaction();
    assert_eq!(closed_within(&mut rig, 0), 0);
    rig.check_asked(&[]);
}

#[test]
fn a_commit_that_is_under_way_is_not_aborted_by_close_r_txn_30_r_prod_8() {
    let mut rig = Rig::in_transaction();
    rig.refuses(ApiKey::EndTxn, ErrorCode::ConcurrentTransactions);
    rig.begin_call(Call::CommitTransaction);
    assert!(closed_within(&mut rig, 500) < 200);
    rig.check_asked(&["commit 1000/0"; 2]);
}

#[test]
fn flush_returns_when_all_that_was_sent_has_its_outcome_r_prod_8() {
    let mut rig = Rig::with(&[("linger.ms", "60000")]);
    rig.check(Call::InitTransactions, "done");
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(0), "done");
    rig.refuses(ApiKey::Produce, ErrorCode::NotEnoughReplicas);
    rig.begin_call(Call::Flush);
    assert_eq!(rig.producer.is_calling(), Some(CallName::Flush));
    rig.check_returned("done");
    assert_eq!(rig.producer.counts().acknowledged, 1);
}
