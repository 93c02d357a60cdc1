//! The command-line tool from outside: output, digest, exit codes.

#![cfg(feature = "native")]

use std::process::{Command, Output};

fn glassbroker(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassbroker"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("the tool starts")
}

fn check_refused(arguments: &[&str], message: &str) {
    let output = glassbroker(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(said.lines().next(), Some(message), "{arguments:?}");
}

const DEFAULT: &str = "static/scenarios/default.toml";

#[test]
fn a_run_ends_with_its_digest_and_is_the_same_twice() {
    let run = |seed: &str| glassbroker(&["run", DEFAULT, "--for", "20s", "--seed", seed]).stdout;
    let (first, again, other) = (run("7"), run("7"), run("8"));
    let text = String::from_utf8(first.clone()).expect("the narrative is text");
    let last = text.lines().last().and_then(|line| line.strip_prefix("digest "));
    assert!(last.is_some_and(|digest| u64::from_str_radix(digest, 16).is_ok()), "{text}");
    assert!(text.lines().any(|line| line.contains("topic orders created: 3 partitions")), "{text}");
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn what_cannot_be_done_is_said_with_exit_code_2() {
    check_refused(&[], "error: a command is missing");
    check_refused(&["run"], "error: a scenario file is missing");
    check_refused(
        &["dance"],
        "error: cannot parse argument \"dance\": it is none of run, check, write, schema, compare, bench, conformance, rules",
    );
    check_refused(&["run", DEFAULT, "--fast"], "error: invalid option '--fast'");
    check_refused(
        &["run", DEFAULT, "--for", "5"],
        "error: cannot parse argument \"5\": it is no time such as 500ms, 60s or 5min",
    );
    check_refused(&["check", "Cargo.toml"], "error: Cargo.toml:1: the file needs format, as in format = 1");
    let missing = glassbroker(&["check", "no-such-file.toml"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_scenario_is_written_as_toml_and_as_json_and_says_the_same() {
    let written = |arguments: &[&str]| String::from_utf8(glassbroker(arguments).stdout).expect("it is text");
    let (toml, json) = (written(&["write", DEFAULT]), written(&["write", DEFAULT, "--json"]));
    let file = std::env::temp_dir().join(format!("glassbroker-{}.json", std::process::id()));
    std::fs::write(&file, &json).expect("a temporary file");
    assert_eq!(written(&["write", &file.to_string_lossy()]), toml);
    std::fs::remove_file(&file).expect("it was written");
    assert!(
        toml.contains("name = \"checkout-api\"") && json.contains("\"name\": \"checkout-api\""),
        "{toml}{json}"
    );
    assert!(written(&["schema"]).contains("\"min.insync.replicas\""));
}

#[test]
fn a_scenario_is_compared_with_itself_changed() {
    let arguments = ["compare", DEFAULT, "--for", "20s", "--change", "consumers group.protocol=consumer"];
    let (first, again) = (glassbroker(&arguments), glassbroker(&arguments));
    let text = String::from_utf8(first.stdout.clone()).expect("a table is text");
    assert_eq!((first.status.code(), &first.stdout), (Some(0), &again.stdout));
    assert!(text.contains("B: consumers group.protocol=consumer"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("partition time without an owner")), "{text}");
    assert!(text.contains("the stories part at 00:"), "{text}");
    check_refused(
        &["compare", DEFAULT],
        "error: compare needs what is otherwise, as in --change \"producers acks=1\"",
    );
    check_refused(
        &["compare", DEFAULT, "--change", "producers acks=all"],
        "error: --change: with producers acks=all nothing in this run is otherwise",
    );
}

/// A producer, and what its records are to come to.
const EXPECTING: &str = r#"
format = 1

[[broker]]
id = 1
[[broker]]
id = 2

[[topic]]
name = "orders"
partitions = 1
replication-factor = 2

[[producer]]
name = "checkout-api"
topic = "orders"
rate = "10/s"
keys = "cart"
config = { acks = "1", "enable.idempotence" = false }

[[expect]]
time = "9s"
that = "lost of orders = 0"
"#;

#[test]
fn what_a_scenario_expects_is_compared_and_a_run_that_disappoints_fails() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("expecting.toml");
    let run = |more: &str, arguments: &[&str]| {
        std::fs::write(&file, format!("{EXPECTING}{more}")).expect("written");
        let path = file.to_string_lossy().into_owned();
        let output = glassbroker(&[&["run", path.as_str()], arguments].concat());
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (code, said) = run("", &["--ledger", "--story", "checkout-api 1"]);
    assert_eq!(code, Some(0), "{said}");
    for line in [
        "00:09.000  as expected: lost of orders = 0",
        "records of orders",
        "record 1 of checkout-api, key cart",
        "  It is in orders-0 at offset 0, on ",
    ] {
        assert!(said.lines().any(|other| other.starts_with(line)), "{line:?} is not in\n{said}");
    }
    let (code, said) = run("", &["--ask", "ledger of partition orders-0", "--ask", "story orders-0 0"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("record 1 of checkout-api, key cart") && said.contains("(0: "), "{said}");
    let (code, _) = run("", &["--story", "orders-0 90000"]);
    assert_eq!(code, Some(2));
    let (code, said) = run("[[expect]]\ntime = \"9s\"\nthat = \"produced = 0\"\n", &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("expected produced = 0, and it is "), "{said}");
    let (code, said) = run("", &["--for", "5s"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("expected lost of orders = 0: the run ends before"), "{said}");
}

#[test]
fn a_right_scenario_is_described() {
    let output = glassbroker(&["check", DEFAULT]);
    let said = String::from_utf8(output.stdout).expect("it is text");
    assert!(output.status.success());
    assert_eq!(
        said.lines().next(),
        Some("a scenario with 3 brokers, 1 topic, 1 producer, 2 consumers, 0 timed commands")
    );
    assert!(said.contains("topic orders: min.insync.replicas = 2, Kafka's default is 1"), "{said}");
}

/// A folder with the recordings of these names, each altered.
fn recordings(folder: &str, names: &[&str], alter: impl Fn(String) -> String) -> String {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    // What an earlier run left would be read too.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("an old folder goes");
    }
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in names {
        let path = format!("{}/tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("text");
        std::fs::write(folder.join(name), alter(text)).expect("written");
    }
    folder.to_string_lossy().into_owned()
}

const EPOCHS: &str = "08c_leader_epochs.json";
const LIVE: &str = "16_live_scenarios.json";

#[test]
fn a_recording_that_comes_out_otherwise_fails_the_conformance_run() {
    let altered = |text: String| text.replacen("\"entries\":[[0,0]]", "\"entries\":[[0,1]]", 1);
    let folder = recordings("altered", &[EPOCHS], altered);
    let output = glassbroker(&["conformance", "--vectors", &folder]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("60 cases    59 passed") && said.contains("expected"), "{said}");
}

#[test]
fn each_file_of_the_projects_recordings_is_run_or_named_with_the_tests_that_live_it() {
    let output = glassbroker(&["conformance"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let told: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let listed =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors")).expect("the vectors");
    let mut files: Vec<String> =
        listed.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    files.sort();
    assert_eq!(told, files, "{said}");
    assert!(said.contains("not run here, but by tests/scenario/live/mod.rs"), "{said}");
}

#[test]
fn a_recording_that_nothing_reads_is_an_error_with_its_name() {
    let check = |folder: &str, message: &str| {
        let output = glassbroker(&["conformance", "--vectors", folder]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.trim_end(), format!("error: {folder}{message}"));
        assert!(output.stdout.is_empty(), "nothing is run before");
    };
    let misspelt = recordings("misspelt", &[EPOCHS, LIVE], |text| text);
    let path = std::path::Path::new(&misspelt);
    std::fs::rename(path.join(EPOCHS), path.join("08c_leader_epoch.json")).expect("renamed");
    check(&misspelt, "/08c_leader_epoch.json: no adapter and no test reads a file of this name");
    let none = recordings("none", &[LIVE], |text| text);
    check(&none, ": there is no recording here that can be run");
}

#[test]
fn the_projects_own_folder_holds_a_recording_for_every_adapter() {
    let own = recordings("own/tests/vectors", &[EPOCHS, LIVE], |text| text);
    let root = own.trim_end_matches("tests/vectors");
    let mut command = Command::new(env!("CARGO_BIN_EXE_glassbroker"));
    let output = command.arg("conformance").current_dir(root).output().expect("the tool starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: tests/vectors/02_group_coordinator_partition.json: "), "{said}");
}

#[test]
fn a_run_explains_the_rules_that_its_narrative_cites() {
    let run = glassbroker(&["run", DEFAULT, "--for", "20s", "--seed", "7", "--explain"]).stdout;
    let text = String::from_utf8(run).expect("text");
    let created = |line: &&str| line.contains("created: 3 partitions") && line.contains("R-PLACE-6)");
    assert!(text.lines().any(|line| created(&line)), "{text}");
    let told: Vec<&str> = text.lines().filter(|line| line.starts_with("R-PLACE-6  ")).collect();
    assert_eq!(told.len(), 1, "{text}");
    let source = "(Kafka: ReplicationControlManager.buildPartitionRegistration)";
    assert!(told[0].contains("the first of them leads") && told[0].ends_with(source), "{text}");
}

#[test]
fn a_rule_is_told_with_its_source_and_its_tests_and_the_rules_are_counted() {
    let said = |arguments: &[&str]| {
        let output = glassbroker(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let rule = said(&["rules", "r-repl-30"]);
    let lines: Vec<&str> = rule.lines().collect();
    assert!(lines[0].starts_with("R-REPL-30  acks=all is refused with NOT_ENOUGH_REPLICAS"), "{rule}");
    assert_eq!(lines[1..3], ["  source: Partition.appendRecordsToLeader", "  modelled"]);
    assert!(lines[3].starts_with("  test: tests/scenario/replication.rs ex_4_"), "{rule}");
    assert!(said(&["rules", "R-CG8"]).lines().count() > 26 * 2);
    let counts = said(&["rules"]);
    let sum = counts.lines().last().map(|line| line.split_whitespace().skip(1));
    let sum: u32 = sum.into_iter().flatten().map(|number| number.parse::<u32>().expect("a number")).sum();
    assert_eq!(sum, 376, "{counts}");
    check_refused(&["rules", "R-REPL-x"], "error: there is no rule R-REPL-X");
}
