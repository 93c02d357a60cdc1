//! Every case of the vectors in `tests/vectors/` comes out as it did in Apache Kafka 4.3.1.
#![cfg(feature = "native")]

use glassbroker::conformance::{ADAPTERS, ConformanceError};

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn every_case_of_every_file_has_kafkas_outcome() {
    let mut failed = Vec::new();
    for (file, adapter) in ADAPTERS {
        let report = adapter(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(report.cases > 0, "{file} holds nothing");
        let first: Vec<_> = report.failures.iter().take(3).collect();
        if report.passed < report.cases {
            failed.push(format!("{file}: {} of {}: {first:#?}", report.passed, report.cases));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn a_field_that_an_adapter_does_not_know_is_an_error() {
    for (file, adapter) in ADAPTERS {
        let text = read(file).replacen("\"op\"", "\"news\":1,\"op\"", 1).replacen(
            "\"name\"",
            "\"news\":1,\"name\"",
            1,
        );
        assert!(
            matches!(adapter(&text), Err(ConformanceError::Json(error)) if error.contains("news")),
            "{file}"
        );
    }
}
