//! What a flush brings to the disk, what a power failure takes, and what a broker finds when it starts again.

use super::*;

/// A batch each of one record.
fn filled(config: &LogConfig, records: i32) -> Log {
    let mut log = Log::new();
    extend(&mut log, config, records);
    log
}

fn extend(log: &mut Log, config: &LogConfig, records: i32) {
    for _ in 0..records {
        let bytes = batch(&["x"]).into_bytes();
        log.append_as_leader(NOW, bytes, E0, Origin::Client, config).unwrap();
    }
}

fn positions(log: &Log) -> (i64, i64, i64) {
    (log.recovery_point().0, log.flushed().0, log.log_end_offset().0)
}

#[test]
fn a_log_flushes_at_flush_messages_at_a_roll_and_when_told() {
    let default = LogConfig::default();
    let mut log = filled(&default, 5);
    assert_eq!(positions(&log), (0, 0, 5), "R-LOG-14: by default the system writes when it likes");
    log.roll_active(NOW);
    assert_eq!(positions(&log), (5, 5, 5), "R-LOG-11: what is behind a new segment is flushed");
    extend(&mut log, &default, 2);
    assert_eq!(positions(&log), (5, 5, 7));
    log.flush(NOW);
    assert_eq!(positions(&log), (7, 7, 7));
    let third = LogConfig { flush_messages: 3, ..LogConfig::default() };
    assert_eq!(positions(&filled(&third, 2)), (0, 0, 2));
    assert_eq!(positions(&filled(&third, 4)), (3, 3, 4), "R-LOG-14");
}

#[test]
fn a_log_is_due_for_the_flusher_when_it_was_last_flushed_flush_ms_ago() {
    let config = LogConfig { flush_ms: 1_000, ..LogConfig::default() };
    let mut log = Log::created_at(NOW);
    assert!(!log.is_flush_due(NOW.plus_ms(5_000), &config), "there is nothing to flush");
    extend(&mut log, &config, 1);
    assert!(!log.is_flush_due(NOW.plus_ms(999), &config));
    assert!(log.is_flush_due(NOW.plus_ms(1_000), &config));
    assert!(!log.is_flush_due(NOW.plus_ms(1_000), &LogConfig::default()));
    log.flush(NOW.plus_ms(1_500));
    extend(&mut log, &config, 1);
    assert!(!log.is_flush_due(NOW.plus_ms(2_000), &config));
}

#[test]
fn a_truncation_takes_the_positions_back_and_a_later_start_raises_them_r_log_30_51() {
    let config = LogConfig::default();
    let mut log = filled(&config, 6);
    log.flush(NOW);
    log.truncate_to(NOW, Offset(4), &config);
    assert_eq!(positions(&log), (4, 4, 4), "R-LOG-51");
    let mut log = filled(&config, 6);
    log.maybe_increment_high_watermark(Offset(6));
    log.maybe_increment_log_start_offset(Offset(3));
    assert_eq!(positions(&log), (3, 0, 6), "R-LOG-30: nothing was written");
}

#[test]
fn what_was_deleted_before_a_flush_does_not_live_again_after_a_power_failure_r_log_30() {
    let config = LogConfig::default();
    let mut log = filled(&config, 6);
    log.maybe_increment_high_watermark(Offset(6));
    log.maybe_increment_log_start_offset(Offset(3));
    assert_eq!(log.lose_unflushed(NOW), 3, "what was deleted was lost before");
    let load = |log_start: i64| {
        let mut log = log.clone();
        log.load(NOW, Checkpointed { log_start: Offset(log_start), ..Checkpointed::default() }, &config);
        (log.log_start_offset().0, positions(&log), log.batch_count())
    };
    assert_eq!(load(0), (0, (0, 0, 0), 0), "the log start was not noted");
    assert_eq!(load(3), (3, (3, 3, 3), 0), "a log that ends before its noted start begins anew there");
}

#[test]
fn a_power_failure_leaves_an_empty_segment_of_a_log_whose_others_were_deleted_unflushed_r_log_31() {
    let config = LogConfig::default();
    let mut log = filled(&config, 6);
    log.maybe_increment_high_watermark(Offset(6));
    log.maybe_increment_log_start_offset(Offset(6));
    log.roll_active(NOW);
    assert_eq!(positions(&log), (6, 0, 6), "a roll flushes what is behind the recovery point");
    log.delete_old_segments(NOW, &config);
    extend(&mut log, &config, 1);
    assert_eq!(log.lose_unflushed(NOW), 1);
    assert_eq!((log.log_start_offset(), log.log_end_offset(), log.batch_count()), (Offset(6), Offset(6), 0));
}

#[test]
fn a_power_failure_takes_what_is_behind_the_last_flush_and_no_more() {
    let config = LogConfig::default();
    let mut log = filled(&config, 3);
    log.flush(NOW);
    extend(&mut log, &config, 2);
    log.assign_epoch(E1, Offset(5));
    log.maybe_increment_high_watermark(Offset(5));
    let whole = log.clone();
    assert_eq!(log.lose_unflushed(NOW), 2);
    assert_eq!((positions(&log), log.high_watermark(), epochs(&log)), ((3, 3, 3), Offset(3), vec![(0, 0)]));
    assert_eq!(log.size_bytes() * 5, whole.size_bytes() * 3);
    assert_eq!(log.lose_unflushed(NOW), 0, "the rest is on the disk");
    assert_eq!(positions(&whole), (3, 3, 5), "a copy keeps what it had");
}

#[test]
fn a_start_after_an_unclean_stop_goes_by_the_checkpoints() {
    let config = LogConfig::default();
    let mut log = filled(&config, 4);
    log.roll_active(NOW);
    extend(&mut log, &config, 2);
    log.maybe_increment_high_watermark(Offset(6));
    log.maybe_increment_log_start_offset(Offset(2));
    let load = |found: Checkpointed| {
        let mut log = log.clone();
        let recovered = log.load(NOW, found, &config);
        (recovered, log.recovery_point().0, log.log_start_offset().0, log.high_watermark().0)
    };
    let nothing = Checkpointed::default();
    assert_eq!(load(nothing), (2, 0, 0, 0), "no file says anything: all is read again, from offset 0");
    let noted = Checkpointed {
        high_watermark: Offset(5),
        recovery_point: Offset(4),
        log_start: Offset(2),
        clean: false,
    };
    assert_eq!(load(noted), (1, 4, 2, 5));
    assert_eq!(load(Checkpointed { clean: true, ..noted }), (0, 6, 2, 5), "R-REPL-56");
    let behind = Checkpointed { log_start: Offset(9), ..noted };
    assert_eq!(load(behind), (0, 9, 9, 9), "a log that ends before its start begins anew there");
}

#[test]
fn an_orderly_stop_flushes_what_the_recovery_point_says_is_flushed_already() {
    let config = LogConfig::default();
    let mut log = filled(&config, 10);
    log.load(NOW, Checkpointed { recovery_point: Offset(10), ..Checkpointed::default() }, &config);
    log.flush(NOW);
    assert_eq!(positions(&log), (10, 0, 10), "R-LOG-14: there is nothing behind the recovery point");
    log.flush_all(NOW);
    assert_eq!((positions(&log), log.lose_unflushed(NOW)), ((10, 10, 10), 0), "UnifiedLog.flush(true)");
}

#[test]
fn after_a_start_only_the_last_batch_of_a_producer_is_recognised_r_prod_28() {
    let mut log = Log::new();
    for sequence in 0..3 {
        append(&mut log, &sequenced(0, sequence, &["x"]), E0).unwrap();
    }
    let again = |log: &mut Log, sequence: i32| {
        let appended = append(log, &sequenced(0, sequence, &["x"]), E0);
        appended.map(|appended| appended.duplicate).map_err(|error| error.code())
    };
    assert_eq!(again(&mut log, 1), Ok(true), "R-PROD-25");
    log.load(NOW, Checkpointed::default(), &LogConfig::default());
    assert_eq!(again(&mut log, 1), Err(ErrorCode::OutOfOrderSequenceNumber), "a snapshot keeps one batch");
    assert_eq!(again(&mut log, 2), Ok(true));
    assert_eq!(again(&mut log, 3), Ok(false), "and it goes on where it was");
}

#[test]
fn a_copy_of_a_log_shares_its_chunks_whatever_is_flushed_or_lost() {
    let config = LogConfig::default();
    let mut log = filled(&config, 640);
    let shared = |log: &Log, other: &Log| log.chunks.shared_with(&other.chunks);
    let checkpoint = log.clone();
    assert_eq!(shared(&log, &checkpoint), (10, 10));
    log.flush(NOW);
    assert_eq!(shared(&log, &checkpoint), (10, 10), "a flush moves positions alone");
    extend(&mut log, &config, 1);
    assert_eq!(shared(&log, &checkpoint), (10, 11));
    log.lose_unflushed(NOW);
    assert_eq!(shared(&log, &checkpoint), (10, 10));
    log.load(NOW, Checkpointed::default(), &config);
    assert_eq!(shared(&log, &checkpoint), (10, 10));
    extend(&mut log, &config, 1);
    let disk = log.clone();
    extend(&mut log, &config, 1);
    assert_eq!(shared(&log, &disk), (10, 11), "an append copies the last chunk at most");
}
