//! Which of Kafka's scripts show which rule. The whole file is run as a recording.

use glassbroker::conformance::ADAPTERS;
use serde_json::{Value, json};

const FILE: &str = "06a_group_classic_protocol.json";
const JOINING: &[&str] = &[
    "single_member",
    "two_members",
    "zero_delay",
    "third_joins_stable",
    "unknown_member_join",
    "inconsistent_protocol",
    "max_size",
    "max_size_rejoin",
    "pending_member_expires",
    "pending_blocks_nothing",
    "old_client_join",
];
const REJOINING: &[&str] = &[
    "follower_same_metadata",
    "follower_new_metadata",
    "leader_same_metadata",
    "rejoin_completing",
    "rejoin_completing_changed",
    "join_keeps_alive",
];
const JOIN_PHASE: &[&str] = &[
    "delay_extension",
    "rebalance_timeout",
    "rebalance_timeout_leader",
    "leave_leader",
    "session_expiry_all",
    "empty_then_join",
];
const PROTOCOL: &[&str] = &["protocol_selection", "protocol_selection_votes"];
const SYNC: &[&str] = &["sync_timeout", "sync_timeout_leader"];
const SESSION: &[&str] = &[
    "heartbeat_states",
    "wrong_generation",
    "no_group",
    "session_expiry",
    "leave_follower",
    "static_leave_by_instance",
];
const STATIC: &[&str] = &[
    "static_basic",
    "static_follower_restart",
    "static_leader_restart",
    "static_restart_changed",
    "static_fenced_duplicate",
    "static_duplicate_while_joining",
    "static_session_expiry",
    "static_unknown_id_with_instance",
    "mixed_static_dynamic",
];
const COMMITS: &[&str] = &["commit_during_rebalance", "simple_consumer_commit"];

/// Runs the scripts of these names.
fn replay(names: &[&str]) {
    let mut file: Value =
        serde_json::from_str(include_str!("../vectors/06a_group_classic_protocol.json")).expect("JSON");
    let scripts = file["scripts"].as_array_mut().expect("scripts");
    scripts.retain(|script| names.contains(&script["name"].as_str().unwrap_or_default()));
    assert_eq!(scripts.len(), names.len(), "a script has another name: {names:?}");
    file["header"]["counts"]["scripts"] = json!(names.len());
    let (_, adapter) = ADAPTERS.iter().find(|(name, _)| *name == FILE).expect("an adapter");
    let report = adapter(&file.to_string()).expect("scripts");
    assert_eq!(report.passed, report.cases, "{:#?}", report.failures);
}

#[test]
fn a_new_member_is_let_in_as_kafka_lets_it_in_r_grp_8_9_17() {
    replay(JOINING);
}

#[test]
fn a_member_that_joins_again_starts_a_rebalance_where_kafka_does_r_grp_10_11() {
    replay(REJOINING);
}

#[test]
fn a_join_phase_ends_when_kafkas_does_r_grp_6_12_13_14_15() {
    replay(JOIN_PHASE);
}

#[test]
fn the_protocol_that_most_members_name_is_chosen_r_grp_16() {
    replay(PROTOCOL);
}

#[test]
fn who_sends_no_sync_group_is_removed_r_grp_18_19() {
    replay(SYNC);
}

#[test]
fn heartbeats_and_goodbyes_are_answered_as_by_kafka_r_grp_20_21_22() {
    replay(SESSION);
}

#[test]
fn static_members_come_back_and_are_fenced_as_by_kafka_r_grp_24_25_26_27() {
    replay(STATIC);
}

#[test]
fn commits_are_accepted_in_the_states_that_kafka_accepts_them_in_r_grp_36_r_cons_10() {
    replay(COMMITS);
}
