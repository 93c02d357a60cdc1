//! Transactions as one log sees them (R-TXN-23, R-TXN-24, R-LOG-27).

use super::*;
use crate::kafka::log::{AbortedTransaction, Checkpointed, Isolation};
use crate::kafka::record::{AbortedProducers, BatchParameters, EndTransactionMarker};

const T1: i64 = 1000;
const T2: i64 = 2000;

fn transactional(pid: i64, sequence: i32) -> Batch {
    let parameters = BatchParameters {
        producer_id: ProducerId(pid),
        producer_epoch: ProducerEpoch(0),
        base_sequence: sequence,
        transactional: true,
        ..BatchParameters::default()
    };
    let mut builder = BatchBuilder::with(parameters);
    builder.append(&NewRecord { timestamp_ms: NOW.wall_ms(), value: Some(b"x"), ..NewRecord::default() });
    builder.build()
}

fn end(log: &mut Log, pid: i64, committed: bool) -> Result<Appended, AppendError> {
    let parameters = BatchParameters {
        producer_id: ProducerId(pid),
        producer_epoch: ProducerEpoch(0),
        ..BatchParameters::default()
    };
    let marker = EndTransactionMarker { committed, coordinator_epoch: 0 }.batch(parameters, NOW.wall_ms());
    let origin = Origin::TransactionMarker { transaction_version: 1 };
    log.append_as_leader(NOW, marker.into_bytes(), E0, origin, &LogConfig::default())
}

/// EX-24 up to `steps` of its rows; the high watermark follows the log end, except after the last row.
fn ex_24(steps: usize, last_is_replicated: bool) -> Log {
    let mut log = Log::new();
    for step in 0..steps {
        match step {
            0 => append(&mut log, &transactional(T1, 0), E0),
            1 | 6 => append(&mut log, &batch(&["plain"]), E0),
            2 => append(&mut log, &transactional(T2, 0), E0),
            3 => append(&mut log, &transactional(T1, 1), E0),
            4 => end(&mut log, T2, true),
            _ => end(&mut log, T1, false),
        }
        .unwrap();
        if step + 1 < steps || last_is_replicated {
            log.maybe_increment_high_watermark(log.log_end_offset());
        }
    }
    log
}

/// R-CONS-29.
#[test]
fn the_stable_offset_waits_for_the_oldest_open_transaction_r_txn_23_ex_24() {
    let stable: Vec<_> = (1..=7).map(|steps| ex_24(steps, true).last_stable_offset().0).collect();
    assert_eq!(stable, [0, 0, 0, 0, 0, 6, 7]);
}

#[test]
fn the_stable_offset_waits_until_the_marker_is_replicated_r_txn_23_ex_25() {
    let mut log = ex_24(6, false);
    assert_eq!((log.high_watermark(), log.last_stable_offset()), (Offset(5), Offset(0)));
    log.maybe_increment_high_watermark(Offset(6));
    assert_eq!(log.last_stable_offset(), Offset(6));
}

#[test]
fn a_transaction_is_late_five_minutes_after_the_longest_time_r_txn_25() {
    const MAX_TIMEOUT_MS: i32 = 900_000;
    let late_at = |log: &Log, ms: i64| log.has_late_transaction(NOW.plus_ms(ms), MAX_TIMEOUT_MS);
    let open = ex_24(4, true);
    assert_eq!((late_at(&open, 1_200_000), late_at(&open, 1_200_001)), (false, true));
    assert!(!late_at(&ex_24(6, true), 1_200_001), "both are over");
}

#[test]
fn a_reader_of_committed_data_gets_the_aborted_transactions_and_leaves_them_out_r_log_27_r_txn_24() {
    let log = ex_24(7, true);
    let read = log.read(Offset(0), log.read_bound(Isolation::TxnCommitted), i32::MAX, true).unwrap();
    let aborted = log.aborted_transactions(Offset(0), &read);
    let expected = AbortedTransaction {
        producer: ProducerId(T1),
        first_offset: Offset(0),
        last_offset: Offset(5),
        last_stable_offset: Offset(6),
    };
    assert_eq!(aborted, [expected]);
    let mut left_out = AbortedProducers::new(aborted.iter().map(|each| (each.producer, each.first_offset)));
    let batches = crate::kafka::record::split_batches(read.records).map(Result::unwrap);
    let kept = batches.filter(|batch| !left_out.contains(batch).unwrap() && !batch.is_control());
    assert_eq!(kept.map(|batch| batch.base_offset().0).collect::<Vec<_>>(), [1, 2, 6]);
}

/// R-TXN-15.
#[test]
fn a_plain_write_inside_an_open_transaction_is_refused_r_prod_25() {
    let mut log = ex_24(1, true);
    let plain = batch_at(NOW.wall_ms(), &["x"], Some((ProducerId(T1), ProducerEpoch(0), 1)));
    let refused = append(&mut log, &plain, E0).map_err(|error| error.code());
    assert_eq!(refused, Err(ErrorCode::InvalidTxnState));
}

/// R-TXN-29.
#[test]
fn a_follower_and_a_truncated_log_know_the_open_transactions_r_txn_23() {
    let leader = ex_24(7, true);
    let mut follower = Log::new();
    replicate(&leader, &mut follower, E0);
    follower.update_high_watermark(Offset(7));
    assert_eq!(follower.last_stable_offset(), Offset(7));
    follower.truncate_to(NOW, Offset(5), &LogConfig::default());
    assert_eq!((follower.high_watermark(), follower.last_stable_offset()), (Offset(5), Offset(0)));
    assert_eq!(follower.producers().get(ProducerId(T2)).unwrap().transaction_start(), None);
}

/// A process that begins goes by its last snapshot, which does not know what had ended behind the high watermark
/// (`ProducerStateManager.loadFromSnapshot`); and a log that is cut back behind its high watermark is not looked through for what is
/// open (`UnifiedLog.truncateTo`).
#[test]
fn after_a_restart_and_a_truncation_what_is_open_again_is_missed_until_the_high_watermark_moves_r_txn_23() {
    let mut log = ex_24(2, false);
    end(&mut log, T1, true).unwrap();
    assert_eq!(log.last_stable_offset(), Offset(0));
    let found = Checkpointed { high_watermark: Offset(1), clean: true, ..Checkpointed::default() };
    log.load(NOW, found, &LogConfig::default());
    assert_eq!(log.last_stable_offset(), Offset(1));
    log.truncate_to(NOW, Offset(2), &LogConfig::default());
    assert_eq!(log.last_stable_offset(), Offset(1));
    log.update_high_watermark(Offset(2));
    assert_eq!(log.last_stable_offset(), Offset(0));
}

#[test]
fn an_open_transaction_keeps_its_producer_from_expiring_r_prod_28() {
    let mut log = ex_24(1, true);
    log.remove_expired_producers(NOW.plus_ms(1 << 40), 1000);
    assert_eq!(log.producers().iter().count(), 1);
}
