//! Scenarios that are written, as TOML and as JSON, and JSON that is read.

use super::{DEFAULT, RIGHT};
use crate::lab::scenario::{Scenario, write};

/// What is written is read as the same scenario.
#[test]
fn a_scenario_is_written_as_it_is_read() {
    let many = "\
format = 1
seed = 7
start = \"1500ms\"
network = { latency = \"5ms\" }
[broker-defaults]
\"offsets.topic.num.partitions\" = 3
[features]
\"transaction.version\" = 1
[[controller]]
id = 7
[[broker]]
id = 1
[[broker]]
id = 2
rack = \"b\"
[[topic]]
name = \"orders\"
partitions = 2
replication-factor = 2
config = { \"min.insync.replicas\" = 2 }
[[topic]]
name = \"prices\"
partitions = 1
replication-factor = 1
[[producer]]
name = \"a b\"
topic = \"orders\"
rate = \"1/5s\"
keys = \"none\"
partition = 1
value = \"{n} {random 40} \\\"x\\\"\"
value-size = 100
start-at = \"3s\"
config = { acks = 1 }
[[producer]]
name = \"bank\"
topic = \"orders\"
transaction = \"every 10 records abort 10%\"
config = { \"transactional.id\" = \"bank-1\" }
[[consumer]]
name = \"c\"
group = \"billing\"
topics = [\"orders\", \"prices\"]
profile = \"librdkafka\"
[[consumer]]
name = \"d\"
partitions = [\"orders-0\"]
program = [\"poll 250ms\", \"hand off 20ms to 4 workers\", \"commit done\"]
config = { \"enable.auto.commit\" = false }
[[consumer]]
name = \"e\"
group = \"audit\"
pattern = \"or.*\"
[[consumer]]
name = \"f\"
group = \"audit-2\"
re2j = \"or.*\"
config = { \"group.protocol\" = \"consumer\" }
[[share-consumer]]
name = \"s\"
group = \"payments\"
topics = [\"orders\"]
[[application]]
name = \"pricing\"
group = \"pricing\"
topics = [\"orders\"]
output = \"prices\"
program = [\"poll\", \"begin\", \"send results\", \"send offsets\", \"commit transaction\"]
config = { \"transactional.id\" = \"p\" }
[[at]]
time = \"10s\"
do = \"add consumer g to billing\"
[[at]]
time = \"20s\"
do = \"kill broker 2\"
[[expect]]
time = \"30s\"
that = \"lost = 0\"
";
    for text in [many, DEFAULT, RIGHT] {
        let scenario = Scenario::parse(text).expect("it is right");
        let written = scenario.to_toml();
        assert_eq!(Scenario::parse(&written).as_ref(), Ok(&scenario), "{written}");
    }
}

/// The scenario of a JSON text is that of the TOML text that says the same.
#[test]
fn json_says_the_same_as_toml() {
    let scenario = Scenario::parse(DEFAULT).expect("it is right");
    let json = serde_json::to_string_pretty(&write::Document::of(&scenario)).expect("it is text");
    assert_eq!(Scenario::parse(&json), Ok(scenario.clone()), "{json}");
    assert_eq!(Scenario::parse(&format!("\n  {json}\n")), Ok(scenario));
    let escaped =
        "{\"format\": 1, \"broker\": [{\"id\": 1, \"rack\": \"a\\/\\u00e4\\ud83d\\ude00\\\"b\\\\\"}]}";
    let scenario = Scenario::parse(escaped).expect("it is right");
    assert_eq!(scenario.brokers[0].1.as_deref(), Some("a/ä😀\"b\\"));
}

#[test]
fn a_complaint_about_json_has_its_place_in_the_json() {
    let check = |text: &str, expected: &str| {
        let error = Scenario::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    };
    check(
        "{\n  \"format\": 1,\n  \"broker\": [{\"id\": true}]\n}",
        "line 3, column 21: id is a whole number",
    );
    check("{\"format\": 1, \"brokers\": []}", "line 1, column 15: the file has no \"brokers\"");
    check("{\"format\": 1, \"seed\": null}", "line 1, column 23: a scenario's JSON has");
    check("{format: 1}", "line 1, column 2: a scenario's JSON has");
    check("{\"format\": 1 # one\n}", "line 1, column 14: a scenario's JSON has");
    check("{\"format\": \"1}", "line 1, column 12: this text has no end");
    check("{\"format\": \"\\ud800\"}", "line 1, column 12: an escape of this text is none");
    check("{\"format\": 1", "line 1, column ");
    check("{\"format\": 1}}", "line 1, column ");
}
