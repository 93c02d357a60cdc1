//! High watermark, log start and truncation (R-LOG-30, R-LOG-51, R-REPL-12 to R-REPL-17, EX-5, EX-6).

use super::*;

#[test]
fn a_leaders_high_watermark_only_rises_and_a_followers_is_kept_in_its_log_r_repl_12_17() {
    let mut log = log_of(E0, &[&["a", "b", "c"]]);
    assert_eq!(log.maybe_increment_high_watermark(Offset(2)), Some(Offset(0)));
    assert_eq!(log.maybe_increment_high_watermark(Offset(1)), None);
    assert_eq!(log.high_watermark(), Offset(2));
    assert_eq!(log.update_high_watermark(Offset(9)), Some(Offset(2)));
    assert_eq!(log.high_watermark(), Offset(3));
    assert_eq!(log.update_high_watermark(Offset(3)), None);
}

#[test]
fn the_log_start_rises_to_the_high_watermark_at_most_r_log_30() {
    let mut log = log_of(E0, &[&["a"], &["b"]]);
    append(&mut log, &batch(&["c"]), E1).unwrap();
    log.maybe_increment_high_watermark(Offset(3));
    assert!(log.maybe_increment_log_start_offset(Offset(1)));
    assert!(!log.maybe_increment_log_start_offset(Offset(1)));
    assert_eq!((values(&log), epochs(&log)), (vec!["b".into(), "c".into()], vec![(0, 1), (1, 2)]));
    assert_eq!(log.tail(99).unwrap().len(), 2);
}

#[test]
fn truncation_cuts_batches_epochs_and_high_watermark_r_log_51() {
    let mut log = log_of(E0, &[&["a"], &["b"]]);
    append(&mut log, &batch(&["c"]), E1).unwrap();
    log.maybe_increment_high_watermark(Offset(3));
    assert!(!log.truncate_to(NOW, Offset(3), &LogConfig::default()));
    assert!(log.truncate_to(NOW, Offset(1), &LogConfig::default()));
    assert_eq!(
        (log.log_end_offset(), log.high_watermark()),
        (Offset(1), Offset(1)),
        "below the high watermark too"
    );
    assert_eq!((values(&log), epochs(&log)), (vec!["a".to_owned()], vec![(0, 0)]));
    assert_eq!((log.batch_count(), log.size_bytes()), (1, batch(&["a"]).size_bytes().into()));
}

#[test]
fn an_epoch_without_a_record_is_trimmed_where_nothing_is_cut_r_log_51() {
    let mut log = log_of(E0, &[&["a"]]);
    log.assign_epoch(E1, Offset(1));
    assert!(!log.truncate_to(NOW, Offset(1), &LogConfig::default()));
    assert_eq!(epochs(&log), [(0, 0)]);
}

#[test]
fn truncation_below_the_first_offset_starts_the_log_there_r_log_51() {
    let mut log = log_of(E0, &[&["a"]]);
    log.truncate_fully_and_start_at(NOW, Offset(50));
    append(&mut log, &batch(&["b"]), E1).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(50), Offset(51)));
    assert!(log.truncate_to(NOW, Offset(20), &LogConfig::default()));
    let offsets = (log.log_start_offset(), log.high_watermark(), log.log_end_offset());
    assert_eq!((offsets, epochs(&log)), ((Offset(20), Offset(20), Offset(20)), vec![]));
}

#[test]
fn a_restart_keeps_the_records_and_the_checkpointed_high_watermark() {
    let mut log = log_of(E0, &[&["a"], &["b"]]);
    log.maybe_increment_high_watermark(Offset(2));
    log.assign_epoch(E1, Offset(2));
    let found = Checkpointed { high_watermark: Offset(1), ..Checkpointed::default() };
    assert_eq!(log.load(NOW, found, &LogConfig::default()), 1, "the one segment is read again");
    assert_eq!(
        (log.high_watermark(), log.log_end_offset(), epochs(&log)),
        (Offset(1), Offset(2), vec![(0, 0)])
    );
}

#[test]
fn an_acknowledged_record_of_one_replica_is_lost_ex_5() {
    let mut one = log_of(E0, &[&["r0", "r1", "r2", "r3", "r4"]]);
    let mut two = Log::new();
    replicate(&one, &mut two, E0);
    append(&mut one, &batch(&["A"]), E0).unwrap();

    two.assign_epoch(E1, two.log_end_offset());
    append(&mut two, &batch(&["B"]), E1).unwrap();
    assert_eq!(two.end_offset_for(E0), (E0, Offset(5)));
    assert_eq!(one.truncation_point((E0, Offset(5)), Offset(6)), Offset(5));
    replicate(&two, &mut one, E1);
    assert_eq!(values(&one), ["r0", "r1", "r2", "r3", "r4", "B"]);
    assert_eq!(epochs(&one), [(0, 0), (1, 5)]);
}

#[test]
fn truncation_keeps_what_the_new_leader_has_above_the_high_watermark_ex_6() {
    let (e5, e6) = (LeaderEpoch(5), LeaderEpoch(6));
    let mut a = log_of(e5, &[&["x"].repeat(101)]);
    let (mut b, mut c) = (Log::new(), Log::new());
    replicate(&a, &mut b, e5);
    replicate(&a, &mut c, e5);
    append(&mut a, &batch(&["101", "102"]), e5).unwrap();
    replicate(&a, &mut b, e5);
    append(&mut a, &batch(&["103 of 5", "104 of 5"]), e5).unwrap();

    b.assign_epoch(e6, b.log_end_offset());
    replicate(&b, &mut c, e6);
    assert_eq!(c.log_end_offset(), Offset(103), "no truncation: its end is within epoch 5 of B");
    append(&mut b, &batch(&["103 of 6", "104 of 6"]), e6).unwrap();
    assert_eq!(a.truncation_point(b.end_offset_for(e5), Offset(105)), Offset(103));
    replicate(&b, &mut a, e6);
    replicate(&b, &mut c, e6);
    assert_eq!(values(&a)[101..], ["101", "102", "103 of 6", "104 of 6"]);
    assert_eq!((values(&a), epochs(&a)), (values(&b), epochs(&b)));
    assert_eq!((values(&c), epochs(&c)), (values(&b), vec![(5, 0), (6, 103)]));
}
