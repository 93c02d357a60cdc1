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
