//! What Apache Kafka 4.3.1 did, done again: every case of every file of recordings.

#![cfg(feature = "native")]

use glassbroker::conformance::{
    Report, Unreadable, controller, coordinator, election, placement, replication,
};

/// All `cases` of a file, which is their number, agree with Kafka.
fn check(run: fn(&str) -> Result<Report, Unreadable>, text: &str, cases: i32) {
    let report = run(text).expect("the recording can be read");
    let first: Vec<_> = report.failures.iter().take(5).collect();
    assert!(first.is_empty(), "{}: {} of {} differ: {first:#?}", report.file, report.failures.len(), cases);
    assert_eq!((report.cases, report.passed), (cases, cases), "{}", report.file);
}

#[test]
fn a_group_lives_where_kafka_keeps_it_r_grp_1() {
    let text = include_str!("vectors/02_group_coordinator_partition.json");
    check(coordinator::group_coordinator_partition, text, 113);
}

#[test]
fn replicas_are_placed_as_kafkas_draws_have_it_r_place_1_to_5() {
    check(placement::replica_placement, include_str!("vectors/07a_replica_placement.json"), 70);
}

#[test]
fn leaders_are_elected_and_in_sync_sets_set_as_kafka_does_r_repl_2_3_40_to_47_59() {
    check(election::leader_election, include_str!("vectors/07b_leader_election.json"), 220);
}

#[test]
fn a_controllers_histories_are_kafkas_r_repl_25_49_50_52_55_56_58_60() {
    check(controller::controller_scripts, include_str!("vectors/07c_controller_scripts.json"), 48);
}

#[test]
fn a_leaders_histories_are_kafkas_r_repl_7_to_14_18_to_26_29_to_31() {
    check(replication::replication_isr_hw, include_str!("vectors/12_replication_isr_hw.json"), 48);
}

#[test]
fn a_field_that_no_adapter_knows_is_an_error() {
    let text = include_str!("vectors/07a_replica_placement.json").replace("\"fenced\"", "\"frozen\"");
    assert!(placement::replica_placement(&text).is_err());
}
