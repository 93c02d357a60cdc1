//! Producers, consumers, share consumers and applications: how a file writes them.

use super::*;
use crate::client::program::KNOWN_LINES;

/// The command that the consumer comes to with `choice` in the place of its topics, and no group if it needs none.
fn consumer_of(choice: &str) -> Result<String, String> {
    let group = if choice.starts_with("partitions") { "" } else { "group = \"g\"\n" };
    let text = format!(
        "{}[[consumer]]\nname = \"c\"\n{group}{choice}\n",
        &RIGHT[..RIGHT.find("[[consumer]]").unwrap()]
    );
    let scenario = Scenario::parse(&text).map_err(|error| error.to_string())?;
    Ok(commands(&scenario)
        .lines()
        .last()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .take(8)
        .collect::<Vec<_>>()
        .join(" "))
}

#[test]
fn a_consumer_has_topics_partitions_or_a_pattern() {
    let check = |choice: &str, expected: &str| assert_eq!(consumer_of(choice), Ok(expected.to_owned()));
    check("topics = [\"orders\"]", "add consumer c to g topics orders program");
    check("pattern = \"o.*\"", "add consumer c to g pattern \"o.*\" program");
    check("re2j = \"o.*\"", "add consumer c to g re2j \"o.*\" program");
    check("partitions = [\"orders-0\"]", "add consumer c without group partitions orders-0 program");
    let refused = |choice: &str, expected: &str| assert_eq!(consumer_of(choice), Err(expected.to_owned()));
    refused("pattern = \"\"", "line 16, column 11: Topic pattern to subscribe to cannot be empty");
    refused("re2j = \"\"", "line 16, column 8: Topic pattern to subscribe to cannot be empty");
    refused("partitions = [\"orders\"]", "line 15, column 15: expected a partition such as \"orders-0\"");
    let both = "a consumer has one of topics, partitions, pattern and re2j";
    refused("re2j = \"a\"\npattern = \"b\"", &format!("line 16, column 8: {both}"));
}

#[test]
fn share_consumers_are_checked_as_kafka_checks_them() {
    let shared = |more: &str| {
        format!("[[share-consumer]]\nname = \"s1\"\ngroup = \"payments\"\ntopics = [\"orders\"]\n{more}")
    };
    let added = |more: &str| {
        let scenario = Scenario::parse(&format!("{RIGHT}{}", shared(more))).expect("it is right");
        commands(&scenario).lines().last().unwrap_or_default().to_owned()
    };
    let implicit =
        "00:00.000  add share consumer s1 to payments topics orders program \"poll; process 20ms\"";
    assert_eq!(added(""), implicit);
    let explicit = "config = { \"share.acknowledgement.mode\" = \"explicit\" }\n";
    assert_eq!(
        added(&format!("program = [\"poll\", \"release 10%\", \"accept\"]\n{explicit}")),
        "00:00.000  add share consumer s1 to payments topics orders program \"poll; release 10%; accept\" \
         share.acknowledgement.mode=explicit"
    );
    check_added(
        &shared("program = [\"poll\", \"accept\"]"),
        "line 21, column 11: accept: IllegalStateException: Implicit acknowledgement of delivery is being used.",
    );
    check_added(
        &shared(&format!("program = [\"poll\", \"release 10%\"]\n{explicit}")),
        "line 21, column 11: All records must be acknowledged in explicit acknowledgement mode: the program needs a \
         line accept, release, reject or renew for the rest of them",
    );
    check_added(
        &shared("config = { \"session.timeout.ms\" = \"9000\" }"),
        "line 21, column 12: INVALID_CONFIG: Invalid value 9000 for configuration session.timeout.ms: \
         session.timeout.ms cannot be set when using a share group.",
    );
}

#[test]
fn a_producer_may_have_no_keys_and_a_partition_of_its_own() {
    let text = "[[producer]]\nname = \"clicks\"\ntopic = \"orders\"\nkeys = \"none\"\npartition = 2\n\
                value = \"{n} {random 40}\"\nvalue-size = 100\nconfig = { \"compression.type\" = \"lz4\" }\n";
    let scenario = Scenario::parse(&format!("{RIGHT}{text}")).expect("it is right");
    let expected = "add producer clicks to orders rate 5/s keys none partition 2 value \"{n} {random 40}\" \
                    value-size 100 compression.type=lz4";
    assert!(commands(&scenario).contains(expected), "{}", commands(&scenario));
    check_added(
        "[[producer]]\nname = \"p\"\ntopic = \"orders\"\nconfig = { \"compression.type\" = \"brotli\" }\n",
        "line 20, column 12: INVALID_CONFIG: Invalid value brotli for configuration compression.type: String must be one of: none, \
         gzip, snappy, lz4, zstd",
    );
}

#[test]
fn rates_keys_and_programs_are_checked() {
    check(
        12,
        "topic = \"orders\"\nrate = \"12\"",
        "line 13, column 8: expected a rate such as \"12/s\", \"1/5s\" or \"300/min\", not \"12\"",
    );
    check(
        12,
        "topic = \"orders\"\nkeys = \"a{\"",
        "line 13, column 8: expected keys such as \"cart-{0..7}\", or \"none\", not \"a{\"",
    );
    check(
        12,
        "topic = \"orders\"\nvalue-size = -1",
        "line 13, column 14: value-size is between 0 and 1000000, not -1",
    );
    check(
        15,
        "group = \"billing\"\nprogram = [\"poll\", \"sleep\"]",
        &format!("line 16, column 11: line 2: \"sleep\" is none of: {KNOWN_LINES}"),
    );
    check(15, "group = \"\"", "line 15, column 9: group is not empty");
    check(15, "group = \"a\\u0000\"", "line 15, column 9: group has a control character, U+0000");
    check(
        12,
        "topic = \"orders\"\nvalue = \"a\\nb\"",
        "line 13, column 9: value has a control character, U+000A",
    );
    check(
        12,
        "topic = \"orders\"\nconfig = { acks = \"\\t1\" }",
        "line 13, column 12: a config has no control characters",
    );
    let long = format!("group = \"{}\"", "x".repeat(101));
    check(15, &long, "line 15, column 9: group has at most 100 characters");
}

#[test]
fn a_profile_says_which_library_a_client_is_and_how_it_is_used() {
    let with = |profile: &str| {
        let text = format!(
            "{RIGHT}[[consumer]]\nname = \"c\"\ngroup = \"g\"\ntopics = [\"orders\"]\nprofile = \"{profile}\"\n"
        );
        Scenario::parse(&text).map(|scenario| print(&scenario.clients().last().expect("a client").1))
    };
    let added = |rest: &str| Ok(format!("add consumer c to g topics orders program {rest}"));
    assert_eq!(with("java"), added("\"poll; process 20ms; commit\""));
    assert_eq!(with("java-hand-off"), added("\"poll; hand off 20ms to 4 workers\""));
    assert_eq!(with("librdkafka"), added("\"poll; process 20ms\" client.library=librdkafka"));
    let error = with("librdkafa").unwrap_err();
    let known =
        "expected one of java, java-hand-off, librdkafka, not \"librdkafa\" (did you mean librdkafka?)";
    assert_eq!(error.reason, known);
}

#[test]
fn an_application_reads_topics_and_writes_one() {
    let with = |program: &str, config: &str| {
        let text = format!(
            "{RIGHT}[[application]]\nname = \"a\"\ngroup = \"g\"\ntopics = [\"orders\"]\noutput = \"orders\"\n\
             program = [\"poll\", {program}]\nconfig = {{ {config} }}\n"
        );
        let read = Scenario::parse(&text);
        read.map(|scenario| print(&scenario.clients().last().expect("a client").1))
            .map_err(|error| error.reason)
    };
    let transactional = "\"transactional.id\" = \"tx-1\"";
    assert_eq!(
        with("\"begin\", \"send results\", \"send offsets\", \"commit transaction\"", transactional),
        Ok("add application a to g topics orders output orders program \"poll; begin; send results; send offsets; \
            commit transaction\" transactional.id=tx-1"
            .to_owned())
    );
    let refused = |program: &str, config: &str| with(program, config).unwrap_err();
    assert_eq!(refused("\"begin\"", ""), "begin: only with transactional.id");
    assert!(refused("\"flush\"", "\"no.such\" = 1").contains("Unknown configuration"));
}

#[test]
fn a_pace_of_transactions_goes_with_a_transactional_id() {
    let producer = |more: &str| format!("[[producer]]\nname = \"p\"\ntopic = \"orders\"\n{more}\n");
    check_added(
        &producer("transaction = \"every 10 records\""),
        "line 20, column 15: INVALID_CONFIG: Cannot have transactions without a transactional.id.",
    );
    check_added(
        &producer("transaction = \"every 10 records\"\nconfig = { \"linger.ms\" = 0 }"),
        "line 20, column 15: INVALID_CONFIG: Cannot have transactions without a transactional.id.",
    );
    let right =
        producer("transaction = \"every 10 records\"\nconfig = { \"transactional.id\" = \"bank-1\" }");
    let scenario = Scenario::parse(&format!("{RIGHT}{right}")).expect("it is right");
    assert!(commands(&scenario).contains("transaction every 10 records"), "{}", commands(&scenario));
}
