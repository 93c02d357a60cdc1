//! What a leader appends of a producer whose transaction is not open yet (R-TXN-14).

use super::*;
use crate::kafka::record::{BatchParameters, EndTransactionMarker};

const P: ProducerId = ProducerId(7);

fn parameters(epoch: i16, sequence: i32) -> BatchParameters {
    BatchParameters {
        producer_id: P,
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        transactional: true,
        ..BatchParameters::default()
    }
}

fn write(
    log: &mut Log,
    (epoch, sequence): (i16, i32),
    guard: Option<VerificationGuard>,
) -> Result<Appended, ErrorCode> {
    let mut builder = BatchBuilder::with(parameters(epoch, sequence));
    builder.append(&NewRecord { timestamp_ms: NOW.wall_ms(), value: Some(b"x"), ..NewRecord::default() });
    let (bytes, how) = (builder.build().into_bytes(), (Origin::Client, Verification::On(guard)));
    log.append_verified(NOW, bytes, E0, how, &LogConfig::default()).map_err(|error| error.code())
}

fn begin(
    log: &mut Log,
    epoch: i16,
    base_sequence: i32,
    raises_epochs: bool,
) -> Result<Option<VerificationGuard>, ProducerError> {
    log.begin_verification(NOW, P, FirstBatch { epoch: ProducerEpoch(epoch), base_sequence, raises_epochs })
}

fn mark(log: &mut Log, epoch: i16) {
    let marker = EndTransactionMarker { committed: false, coordinator_epoch: 0 };
    let bytes = marker.batch(parameters(epoch, -1), NOW.wall_ms()).into_bytes();
    let origin = Origin::TransactionMarker { transaction_version: 1 };
    log.append_as_leader(NOW, bytes, E0, origin, &LogConfig::default()).expect("a sound marker");
}

#[test]
fn a_transaction_is_opened_with_a_guard_alone_r_txn_14() {
    let mut log = Log::new();
    assert_eq!(write(&mut log, (0, 0), None), Err(ErrorCode::InvalidTxnState));
    let guard = begin(&mut log, 0, 0, false).expect("it is new");
    assert!(guard.is_some());
    assert_eq!(write(&mut log, (0, 0), None), Err(ErrorCode::InvalidTxnState), "another request has it");
    assert!(write(&mut log, (0, 0), guard).is_ok());
    assert_eq!(begin(&mut log, 0, 1, false), Ok(None), "it is open");
    assert!(write(&mut log, (0, 1), None).is_ok());
    assert!(write(&mut log, (0, 1), None).is_ok_and(|appended| appended.duplicate));
    mark(&mut log, 0);
    assert_eq!(write(&mut log, (0, 2), None), Err(ErrorCode::InvalidTxnState), "it is over");
    assert_eq!(write(&mut log, (0, 2), guard), Err(ErrorCode::InvalidTxnState), "the guard is used up");
}

#[test]
fn an_answer_that_a_marker_has_overtaken_opens_nothing_r_txn_14() {
    let mut log = Log::new();
    let early = begin(&mut log, 0, 0, false).expect("it is new");
    mark(&mut log, 0);
    assert_eq!(write(&mut log, (0, 0), early), Err(ErrorCode::InvalidTxnState));
    let late = begin(&mut log, 0, 0, false).expect("its epoch is current");
    assert_ne!(early, late);
    assert!(write(&mut log, (0, 0), late).is_ok());
}

#[test]
fn a_marker_leaves_the_guard_of_the_next_transaction_alone_r_txn_14() {
    let mut log = Log::new();
    let guard = begin(&mut log, 0, 0, true).expect("it is new");
    write(&mut log, (0, 0), guard).expect("it was asked");
    // The marker carries the raised epoch, in which the producer goes on before it is written.
    let next = begin(&mut log, 1, 0, true).expect("a later epoch");
    mark(&mut log, 1);
    assert!(write(&mut log, (1, 0), next).is_ok());
}

#[test]
fn a_producer_of_an_earlier_epoch_is_not_asked_for_r_txn_14() {
    let mut log = Log::new();
    let guard = begin(&mut log, 3, 0, true).expect("it is new");
    write(&mut log, (3, 0), guard).expect("it was asked");
    assert_eq!(
        begin(&mut log, 2, 0, true).map_err(|error| error.code()),
        Err(ErrorCode::InvalidProducerEpoch)
    );
    assert_eq!(write(&mut log, (2, 0), guard), Err(ErrorCode::InvalidProducerEpoch));
}

#[test]
fn a_batch_does_not_overtake_an_earlier_one_that_was_seen_r_txn_14() {
    let mut log = Log::new();
    let guard = begin(&mut log, 0, 5, false).expect("it is new");
    assert_eq!(begin(&mut log, 0, 3, false), Ok(guard), "one producer, one guard");
    assert_eq!(write(&mut log, (0, 5), guard), Err(ErrorCode::OutOfOrderSequenceNumber));
    assert!(write(&mut log, (0, 3), guard).is_ok(), "nothing is known of it");
    let mut log = Log::new();
    let guard = begin(&mut log, 0, 5, true).expect("it is new");
    assert_eq!(write(&mut log, (0, 5), guard), Err(ErrorCode::OutOfOrderSequenceNumber), "it begins with 0");
    begin(&mut log, 1, 0, true).expect("a later epoch");
    assert!(write(&mut log, (1, 0), guard).is_ok());
}

#[test]
fn a_guard_that_nobody_used_expires_r_txn_14() {
    let mut log = Log::new();
    let guard = begin(&mut log, 0, 0, true).expect("it is new");
    assert!(!log.has_expired_producers(NOW.plus_ms(999), 1000));
    assert!(log.has_expired_producers(NOW.plus_ms(1000), 1000));
    log.remove_expired_producers(NOW.plus_ms(1000), 1000);
    assert_eq!(write(&mut log, (0, 0), guard), Err(ErrorCode::InvalidTxnState));
}
