//! Every case of the vectors in `tests/vectors/` comes out as it did in Apache Kafka 4.3.1.
#![cfg(feature = "native")]

use glassbroker::conformance::{ADAPTERS, ConformanceError, ELSEWHERE};

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[track_caller]
fn check(file: &str) {
    let (_, adapter) = ADAPTERS.iter().find(|(name, _)| *name == file).expect("an adapter");
    let report = adapter(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(report.cases > 0, "{file} holds nothing");
    let first: Vec<_> = report.failures.iter().take(3).collect();
    assert_eq!(report.passed, report.cases, "{file}: {first:#?}");
}

#[test]
fn every_file_has_its_test_here() {
    let here = include_str!("conformance.rs");
    for (file, _) in ADAPTERS {
        assert!(here.contains(&format!("check(\"{file}\")")), "{file} is not tested");
    }
}

#[test]
fn a_recording_without_an_adapter_is_named_by_the_tests_that_live_it() {
    for (file, tests) in ELSEWHERE {
        let path = format!("{}/{tests}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{tests}: {error}"));
        assert!(text.contains(file) && text.contains("#[test]"), "{tests} does not live {file}");
        assert!(!read(file).is_empty());
    }
}

/// R-GRP-1.
#[test]
fn recorded_group_partitions_come_out_as_kafkas() {
    check("02_group_coordinator_partition.json");
}

/// R-LOG-1, 2, 3.
#[test]
fn recorded_record_batches_come_out_as_kafkas() {
    check("03_record_batches.json");
}

/// R-ASG-1, 2.
#[test]
fn recorded_range_plans_come_out_as_kafkas() {
    check("04a_range_assignor.json");
}

/// R-ASG-3.
#[test]
fn recorded_round_robin_plans_come_out_as_kafkas() {
    check("04b_roundrobin_assignor.json");
}

/// R-ASG-4, 5, 6, 7.
#[test]
fn recorded_sticky_plans_come_out_as_kafkas() {
    check("04c_sticky_assignor.json");
}

/// Which script shows which rule is told in `tests/group/scripts.rs`.
#[test]
fn recorded_classic_groups_come_out_as_kafkas() {
    check("06a_group_classic_protocol.json");
}

/// R-ASG-4, 5, 6, 7, 8.
#[test]
fn recorded_cooperative_sticky_plans_come_out_as_kafkas() {
    check("04d_cooperative_sticky_assignor.json");
}

/// R-CG8-23, 24.
#[test]
fn recorded_uniform_assignments_come_out_as_kafkas() {
    check("05a_uniform_assignor_kip848.json");
}

/// R-CG8-22.
#[test]
fn recorded_server_range_assignments_come_out_as_kafkas() {
    check("05b_range_assignor_kip848.json");
}

/// R-CG8-5, 8, 13, 16, 21.
#[test]
fn recorded_consumer_groups_come_out_as_kafkas() {
    check("06b_group_consumer_protocol_kip848.json");
}

/// R-PLACE-3, 4.
#[test]
fn recorded_replica_placement_come_out_as_kafkas() {
    check("07a_replica_placement.json");
}

/// R-REPL-1, 2, 41, 46.
#[test]
fn recorded_leader_elections_come_out_as_kafkas() {
    check("07b_leader_election.json");
}

/// R-REPL-2, 25.
#[test]
fn recorded_controller_histories_come_out_as_kafkas() {
    check("07c_controller_scripts.json");
}

/// R-PROD-25, R-TXN-20.
#[test]
fn recorded_producer_states_come_out_as_kafkas() {
    check("08a_producer_state.json");
}

/// R-TXN-24, R-CONS-30.
#[test]
fn recorded_transactions_come_out_as_kafkas() {
    check("08b_transactions_lso.json");
}

/// R-LOG-48, 49, 50.
#[test]
fn recorded_leader_epochs_come_out_as_kafkas() {
    check("08c_leader_epochs.json");
}

/// R-LOG-45, 46.
#[test]
fn recorded_compaction_come_out_as_kafkas() {
    check("08d_compaction.json");
}

/// R-LOG-8, 12.
#[test]
fn recorded_segments_come_out_as_kafkas() {
    check("08e_segments_retention.json");
}

/// R-TXN-5, 8, 12, 16, 26.
#[test]
fn recorded_transactions_of_version_1_come_out_as_kafkas() {
    check("08f_transaction_coordinator.json");
}

/// R-TXN-9, 11, 14, 17, 33.
#[test]
fn recorded_transactions_of_version_2_come_out_as_kafkas() {
    check("13_transactions_tv2.json");
}

/// R-PROD-11, 12.
#[test]
fn recorded_records_without_key_go_where_kafkas_partitioner_put_them() {
    check("11a_sticky_partitioner.json");
}

/// R-GRP-5, R-INT-2, 3, R-CG8-26.
#[test]
fn recorded_protocol_bytes_come_out_as_kafkas() {
    check("11b_protocol_bytes.json");
}

#[test]
fn recorded_java_hash_order_come_out_as_kafkas() {
    check("11c_java_hash_order.json");
}

/// R-REPL-4, 19, 24, 31.
#[test]
fn recorded_replication_come_out_as_kafkas() {
    check("12_replication_isr_hw.json");
}

#[test]
fn a_field_that_an_adapter_does_not_know_is_an_error() {
    // A case has a line of its own; a step has an op, and so have the things in a history names.
    for (field, news) in
        [("\n{\"", "\n{\"news\":1,\""), ("\"op\"", "\"news\":1,\"op\""), ("\"name\"", "\"news\":1,\"name\"")]
    {
        for (file, adapter) in ADAPTERS {
            let text = read(file);
            if !text.contains(field) {
                continue;
            }
            let outcome = adapter(&text.replacen(field, news, 1));
            assert!(
                matches!(&outcome, Err(ConformanceError::Json(error)) if error.contains("news")),
                "{file}, before {field}: {outcome:?}"
            );
        }
    }
}
