//! The transactional producer where the cluster is not at transaction version 2 (R-TXN-5, R-TXN-11), and where that changes.

use super::rig::{Rig, Says, offsets, send};
use crate::client::producer::Call;
use crate::client::producer::transaction_manager::State;
use crate::kafka::protocol::{ApiKey, ErrorCode};

#[test]
fn partitions_are_added_before_the_first_record_and_the_epoch_stays_r_txn_11_r_txn_5() {
    for version in [0, 1] {
        let mut rig = Rig::ready_at(version);
        for transaction in 0..2 {
            rig.check(Call::BeginTransaction, "done");
            rig.check(send(0), "done");
            rig.run_for(10);
            rig.check(send(1), "done");
            rig.run_for(10);
            rig.check(Call::CommitTransaction, "done");
            let sequence = transaction * 2;
            rig.check_asked(&[
                "add orders-0 1000/0",
                &format!("produce 1000/0 sequence {sequence} v11"),
                &format!("produce 1000/0 sequence {} v11", sequence + 1),
                "commit 1000/0 v4",
            ]);
        }
    }
}

#[test]
fn the_groups_partition_is_added_before_the_offsets_r_txn_11() {
    let mut rig = Rig::in_transaction_at(1);
    rig.check(offsets(), "done");
    rig.check(Call::CommitTransaction, "done");
    rig.check_asked(&[
        "add group g 1000/0",
        "find group g",
        "offsets v4 g m1 generation 5 1000/0",
        "commit 1000/0 v4",
    ]);
}

#[test]
fn a_transaction_to_which_nothing_was_added_ends_without_its_coordinator_r_txn_16() {
    let mut rig = Rig::ready_at(1);
    rig.check(Call::BeginTransaction, "done");
    rig.check(Call::AbortTransaction, "done");
    rig.check_asked(&[]);
    rig.check_state(State::Ready);
}

#[test]
fn the_first_addition_is_asked_for_again_soon_and_later_ones_after_the_back_off_r_txn_13() {
    let mut rig = Rig::ready_at(1);
    rig.check(Call::BeginTransaction, "done");
    rig.refuses(ApiKey::AddPartitionsToTxn, ErrorCode::ConcurrentTransactions);
    rig.check(send(0), "done");
    rig.run_for(200);
    assert_eq!(rig.took_ms(), 23, "an answer, 20 ms, an answer, and what the leader speaks");
    rig.check_asked(&["add orders-0 1000/0", "add orders-0 1000/0", "produce 1000/0 sequence 0 v11"]);
    rig.refuses(ApiKey::AddOffsetsToTxn, ErrorCode::ConcurrentTransactions);
    rig.check(offsets(), "done");
    assert!(rig.took_ms() > 100, "retry.backoff.ms");
}

#[test]
fn an_abortable_error_costs_an_epoch_that_initproducerid_gives_r_txn_9_r_txn_31() {
    let mut rig = Rig::in_transaction_at(1);
    rig.refuses(ApiKey::Produce, ErrorCode::InvalidTimestamp);
    rig.check(send(1), "done");
    rig.run_for(10);
    rig.check(Call::AbortTransaction, "done");
    rig.check_state(State::Ready);
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(2), "done");
    rig.check(Call::CommitTransaction, "done");
    rig.check_asked(&[
        "produce 1000/0 sequence 1 v11",
        "abort 1000/0 v4",
        "init 1000/0",
        "add orders-0 1000/1",
        "produce 1000/1 sequence 0 v11",
        "commit 1000/1 v4",
    ]);
}

#[test]
fn an_application_that_aborts_of_its_own_keeps_its_epoch_r_txn_17() {
    let mut rig = Rig::in_transaction_at(1);
    rig.check(Call::AbortTransaction, "done");
    rig.check_asked(&["abort 1000/0 v4"]);
}

#[test]
fn a_new_epoch_waits_until_the_aborted_transaction_is_over_r_txn_8() {
    let mut rig = Rig::in_transaction_at(1);
    rig.refuses(ApiKey::Produce, ErrorCode::InvalidTimestamp);
    rig.check(send(1), "done");
    rig.run_for(10);
    rig.refuses(ApiKey::InitProducerId, ErrorCode::ConcurrentTransactions);
    rig.check(Call::AbortTransaction, "done");
    rig.check_asked(&["produce 1000/0 sequence 1 v11", "abort 1000/0 v4", "init 1000/0", "init 1000/0"]);
}

/// What a call throws and which state it leads to, if the addition that it leads to is refused.
fn check_refused(api: ApiKey, error: ErrorCode, thrown: &str, state: State) {
    let mut rig = Rig::ready_at(1);
    rig.check(Call::BeginTransaction, "done");
    rig.refuses(api, error);
    if api == ApiKey::AddOffsetsToTxn {
        rig.check(offsets(), thrown);
    } else {
        rig.check(send(0), "done");
        rig.run_for(10);
        rig.check(Call::CommitTransaction, thrown);
    }
    rig.check_state(state);
}

#[test]
fn what_an_addition_is_refused_with_is_fatal_or_abortable_r_txn_31() {
    use ErrorCode as E;
    for error in [E::ProducerFenced, E::InvalidProducerEpoch] {
        for api in [ApiKey::AddPartitionsToTxn, ApiKey::AddOffsetsToTxn] {
            check_refused(api, error, "ProducerFencedException", State::FatalError);
        }
    }
    let offsets = ApiKey::AddOffsetsToTxn;
    check_refused(offsets, E::InvalidTxnState, "InvalidTxnStateException", State::FatalError);
    check_refused(offsets, E::TransactionAbortable, "TransactionAbortableException", State::AbortableError);
    check_refused(offsets, E::UnknownProducerId, "UnknownProducerIdException", State::AbortableError);
    check_refused(offsets, E::UnknownServerError, "KafkaException", State::FatalError);
    let partitions = ApiKey::AddPartitionsToTxn;
    check_refused(partitions, E::InvalidProducerIdMapping, "KafkaException", State::FatalError);
    check_refused(partitions, E::InvalidTopicException, "KafkaException", State::AbortableError);
}

#[test]
fn an_addition_follows_its_coordinator_r_txn_28() {
    for says in [Says::Error(ErrorCode::NotCoordinator), Says::Lost] {
        let mut rig = Rig::ready_at(1);
        rig.check(Call::BeginTransaction, "done");
        rig.says(ApiKey::AddPartitionsToTxn, says);
        rig.coordinator = 1;
        rig.check(send(0), "done");
        rig.check(Call::CommitTransaction, "done");
        rig.check_asked(&[
            "add orders-0 1000/0",
            "find transaction t1",
            "add orders-0 1000/0",
            "produce 1000/0 sequence 0 v11",
            "commit 1000/0 v4",
        ]);
    }
}

/// Connections are opened anew, which is when brokers tell of their features.
fn reconnect(rig: &mut Rig) {
    rig.says(ApiKey::Produce, Says::Lost);
    rig.check(send(9), "done");
    rig.run_for(500);
}

#[test]
fn an_upgrade_is_noticed_at_a_transactions_end_which_keeps_to_its_protocol_r_txn_5() {
    let mut rig = Rig::in_transaction_at(1);
    rig.upgrade(2);
    reconnect(&mut rig);
    rig.check(Call::CommitTransaction, "done");
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(2), "done");
    rig.check(Call::CommitTransaction, "done");
    rig.check_asked(&[
        "produce 1000/0 sequence 1 v11",
        "produce 1000/0 sequence 1 v11",
        "commit 1000/0 v4",
        "init 1000/0",
        "produce 1000/1 sequence 0",
        "commit 1000/1",
    ]);
}

#[test]
fn a_downgrade_is_noticed_at_a_transactions_end_too_r_txn_5() {
    let mut rig = Rig::in_transaction();
    rig.upgrade(1);
    reconnect(&mut rig);
    rig.check(Call::CommitTransaction, "done");
    rig.check(Call::BeginTransaction, "done");
    rig.check(send(2), "done");
    rig.check(Call::CommitTransaction, "done");
    rig.check_asked(&[
        "produce 1000/0 sequence 1",
        "produce 1000/0 sequence 1",
        "commit 1000/0",
        "add orders-0 1000/1",
        "produce 1000/1 sequence 0 v11",
        "commit 1000/1 v4",
    ]);
}
