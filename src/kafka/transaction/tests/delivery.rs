//! From the decision to the last marker.

use super::lab::partitions;
use super::*;
use crate::kafka::types::BrokerId;

/// A decided transaction in partitions 0 to 2, which brokers 0 and 1 lead.
fn decided() -> Lab {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    lab.add(p, &[0, 1, 2]);
    assert_eq!(lab.end(p, true), Ok(producer(100, 1)));
    lab
}

#[test]
fn a_client_is_answered_before_the_markers_are_written_r_txn_18() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    lab.add(p, &[0]);
    lab.uncommitted = true;
    assert_eq!(lab.try_end(p, true), None, "the decision is not safe yet");
    assert_eq!(lab.coordinator.marker_destinations().len(), 0);
    lab.commit();
    assert_eq!(lab.answers.pop(), Some(Answer::Ended(Ok(producer(100, 1)))));
    assert_eq!(lab.state(), TransactionState::PrepareCommit);
    assert_eq!(lab.coordinator.marker_destinations(), [BrokerId(0)].into());
}

#[test]
fn each_leader_gets_its_markers_and_the_last_completes_r_txn_19_22() {
    let mut lab = decided();
    let sent = lab.answer_markers(BrokerId(0), ErrorCode::None);
    assert_eq!(partitions(&sent), [t(0), t(2)].into());
    let marker = &sent[0].marker;
    let (id, epoch) = (marker.producer_id.0, marker.producer_epoch.0);
    assert_eq!(
        (id, epoch, marker.coordinator_epoch, marker.committed),
        (100, 1, 1, true),
        "the raised epoch"
    );
    assert_eq!(marker.transaction_version, 2);
    assert_eq!((lab.state(), lab.tx().facts().partitions.len()), (TransactionState::PrepareCommit, 1));
    assert_eq!(partitions(&lab.answer_markers(BrokerId(1), ErrorCode::None)), [t(1)].into());
    assert_eq!(lab.state(), TransactionState::CompleteCommit);
    assert!(lab.tx().facts().partitions.is_empty());
}

#[test]
fn markers_that_were_not_written_are_sent_again_to_whoever_leads_r_txn_19() {
    let mut lab = decided();
    for error in [
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::NotEnoughReplicas,
        ErrorCode::NotEnoughReplicasAfterAppend,
        ErrorCode::RequestTimedOut,
        ErrorCode::KafkaStorageError,
    ] {
        lab.answer_markers(BrokerId(0), error);
        assert_eq!(lab.coordinator.marker_destinations().len(), 2, "{error}");
    }
    lab.leaders.insert(t(0), Destination::Broker(BrokerId(5)));
    let lost = lab.coordinator.take_markers(BrokerId(0));
    lab.step(|coordinator, around, fx| coordinator.on_markers_lost(around, lost, fx));
    assert_eq!(lab.coordinator.marker_destinations(), [BrokerId(0), BrokerId(1), BrokerId(5)].into());
    lab.deliver();
    assert_eq!(lab.state(), TransactionState::CompleteCommit);
}

#[test]
fn a_partition_without_a_leader_waits_and_one_that_is_gone_does_not_r_txn_19() {
    let mut lab = Lab::new();
    lab.leaders.insert(t(1), Destination::Unknown);
    lab.leaders.insert(t(2), Destination::Gone);
    let p = lab.init(None).expect("it is new");
    lab.add(p, &[1, 2]);
    lab.end(p, false).expect("it is open");
    assert_eq!(lab.tx().facts().partitions, [t(1)].into());
    assert_eq!((lab.coordinator.marker_destinations().len(), lab.coordinator.has_stuck_markers()), (0, true));
    let refresh = |lab: &mut Lab| lab.step(|coordinator, around, fx| coordinator.refresh_markers(around, fx));
    refresh(&mut lab);
    assert!(lab.coordinator.has_stuck_markers());
    lab.leaders.insert(t(1), Destination::Broker(BrokerId(1)));
    refresh(&mut lab);
    assert_eq!(lab.coordinator.marker_destinations(), [BrokerId(1)].into());
    lab.deliver();
    assert_eq!(lab.state(), TransactionState::CompleteAbort);
}

#[test]
fn markers_that_another_forbids_are_dropped_r_txn_19() {
    for error in [ErrorCode::InvalidProducerEpoch, ErrorCode::TransactionCoordinatorFenced] {
        let mut lab = decided();
        lab.answer_markers(BrokerId(0), error);
        lab.answer_markers(BrokerId(1), ErrorCode::None);
        assert_eq!(lab.coordinator.marker_destinations().len(), 0);
        assert_eq!(lab.state(), TransactionState::PrepareCommit, "until it is coordinated anew");
    }
}

#[test]
fn a_completion_that_was_not_written_is_written_again_r_txn_19() {
    let mut lab = decided();
    lab.answer_markers(BrokerId(0), ErrorCode::None);
    lab.refuses = Some(ErrorCode::NotEnoughReplicas);
    lab.answer_markers(BrokerId(1), ErrorCode::None);
    assert_eq!((lab.state(), lab.coordinator.has_stuck_markers()), (TransactionState::PrepareCommit, true));
    assert_eq!(lab.init(None), Err(ErrorCode::ConcurrentTransactions));
    lab.refuses = None;
    lab.step(|coordinator, around, fx| coordinator.refresh_markers(around, fx));
    assert_eq!((lab.state(), lab.coordinator.has_stuck_markers()), (TransactionState::CompleteCommit, false));
}

#[test]
fn a_new_coordinator_sends_the_markers_of_decided_transactions_again_r_txn_28() {
    let mut lab = decided();
    lab.answer_markers(BrokerId(0), ErrorCode::None);
    let late = lab.coordinator.take_markers(BrokerId(1));
    lab.elect(2);
    assert_eq!(lab.state(), TransactionState::PrepareCommit);
    let errors = [(late[0].marker.producer_id, [(t(1), ErrorCode::None)].into())].into();
    lab.step(|coordinator, around, fx| coordinator.on_markers_answered(around, late, &errors, fx));
    assert_eq!(lab.tx().facts().partitions.len(), 3, "an answer to the coordinator that was");
    let sent = lab.answer_markers(BrokerId(0), ErrorCode::None);
    assert_eq!((partitions(&sent), sent[0].marker.coordinator_epoch), ([t(0), t(2)].into(), 2));
    lab.deliver();
    assert_eq!(lab.state(), TransactionState::CompleteCommit);
}

#[test]
fn an_open_transaction_stays_open_with_a_new_coordinator_r_txn_28() {
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    lab.add(p, &[0]);
    lab.uncommitted = true;
    assert_eq!(lab.try_end(p, true), None);
    lab.step(|coordinator, around, fx| coordinator.on_resigned(around, 0, fx));
    assert_eq!(lab.answers.pop(), Some(Answer::Ended(Err(ErrorCode::NotCoordinator))));
    (lab.uncommitted, _) = (false, lab.log.pop());
    lab.elect(2);
    assert_eq!((lab.state(), lab.tx().pending()), (TransactionState::Ongoing, None));
    assert_eq!(lab.end(p, false), Ok(producer(100, 1)));
}

#[test]
fn what_happens_to_a_transaction_is_told_in_its_order_r_txn_8_18_19() {
    use crate::kafka::event::{EndReason, Event, TransactionEvent};
    let mut lab = Lab::new();
    let p = lab.init(None).expect("it is new");
    lab.add(p, &[0]);
    lab.add(p, &[0, 1]);
    assert_eq!(lab.init(None), Err(ErrorCode::ConcurrentTransactions));
    lab.deliver();
    let (broker, id) = (BrokerId(1), TransactionalId::new(ID));
    let added = |partition, begins| TransactionEvent::Added {
        broker,
        id: id.clone(),
        partitions: vec![t(partition)],
        begins,
    };
    let expected = [
        TransactionEvent::Initialized { broker, id: id.clone(), producer: p.id, epoch: p.epoch },
        added(0, true),
        added(1, false),
        TransactionEvent::Decided {
            broker,
            id: id.clone(),
            committed: false,
            partitions: vec![t(0), t(1)],
            reason: EndReason::NewInstance,
        },
        TransactionEvent::Completed { broker, id: id.clone(), committed: false },
    ];
    assert_eq!(lab.events, expected.map(Event::Transaction));
}
