//! What a scenario file may say, and the place and reason of what it may not.

mod clients;
mod written;

use expect_test::expect;

use super::*;
use crate::lab::command::print;

const DEFAULT: &str = include_str!("../../../static/scenarios/default.toml");

/// A file that is right, to be spoiled in one place.
const RIGHT: &str = "\
format = 1
[[broker]]
id = 1
[[broker]]
id = 2
[[topic]]
name = \"orders\"
partitions = 3
replication-factor = 2
[[producer]]
name = \"checkout-api\"
topic = \"orders\"
[[consumer]]
name = \"consumer-a\"
group = \"billing\"
topics = [\"orders\"]
";

/// With `line` (from 1) replaced; what is refused, or how many commands there are.
fn outcome(line: usize, with: &str) -> String {
    let mut lines: Vec<&str> = RIGHT.lines().collect();
    lines[line - 1] = with;
    match Scenario::parse(&lines.join("\n")) {
        Ok(scenario) => format!("{} commands", commands(&scenario).lines().count()),
        Err(error) => error.to_string(),
    }
}

fn check(line: usize, with: &str, expected: &str) {
    assert_eq!(outcome(line, with), expected, "{with}");
}

/// With these lines at the end.
fn check_added(lines: &str, expected: &str) {
    let error = Scenario::parse(&format!("{RIGHT}{lines}")).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), expected, "{lines}");
}

fn commands(scenario: &Scenario) -> String {
    let topics = scenario.topics.iter().map(|topic| (Time::ZERO, topic.create()));
    let all = topics.chain(scenario.clients()).chain(scenario.at.clone());
    all.map(|(at, command)| format!("{at}  {}\n", print(&command))).collect()
}

#[test]
fn the_default_cluster_is_a_scenario_like_any_other() {
    let scenario = Scenario::parse(DEFAULT).expect("the default scenario is right");
    assert_eq!((scenario.seed, scenario.start), (42, Time::from_ms(12_000)));
    assert_eq!(scenario.latency_us, 20_000..=60_000);
    let racks: Vec<String> = scenario.brokers.iter().map(|(id, rack)| format!("{id} {rack:?}")).collect();
    assert_eq!(racks, ["1 Some(\"a\")", "2 Some(\"b\")", "3 Some(\"c\")"]);
    expect![[r#"
        00:00.000  create topic orders partitions 3 replication-factor 3 min.insync.replicas=2 retention.bytes=8388608 segment.bytes=1048576
        00:00.000  add producer checkout-api to orders rate 12/s keys "cart-{0..7}" acks=all
        00:00.000  add consumer consumer-a to billing topics orders program "poll; process 20ms; commit" auto.offset.reset=earliest enable.auto.commit=false
        00:00.000  add consumer consumer-b to billing topics orders program "poll; process 20ms; commit" auto.offset.reset=earliest enable.auto.commit=false
    "#]].assert_eq(&commands(&scenario));
    let settings: Vec<String> = classroom_settings(&scenario).iter().map(Setting::to_string).collect();
    expect![[r#"
        classroom setting: offsets.topic.segment.bytes = 1048576, Kafka's default is 104857600
        topic orders: min.insync.replicas = 2, Kafka's default is 1
        topic orders: retention.bytes = 8388608, Kafka's default is -1
        topic orders: segment.bytes = 1048576, Kafka's default is 1073741824
        consumer-a: auto.offset.reset = earliest, Kafka's default is latest
        consumer-a: enable.auto.commit = false, Kafka's default is true
        consumer-b: auto.offset.reset = earliest, Kafka's default is latest
        consumer-b: enable.auto.commit = false, Kafka's default is true"#]]
    .assert_eq(&settings.join("\n"));
}

/// The controllers of a file with these lines at its begin, or what is refused.
fn controllers(lines: &str) -> String {
    match Scenario::parse(&RIGHT.replacen("format = 1", &format!("format = 1\n{lines}"), 1)) {
        Ok(scenario) => {
            let ids: Vec<String> = scenario.controllers.iter().map(ToString::to_string).collect();
            ids.join(", ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_quorum_is_counted_or_listed() {
    let listed =
        |ids: &[i32]| ids.iter().map(|id| format!("[[controller]]\nid = {id}\n")).collect::<String>();
    for (lines, expected) in [
        (String::new(), "101"),
        ("controllers = 3".to_owned(), "101, 102, 103"),
        ("controllers = 5".to_owned(), "101, 102, 103, 104, 105"),
        ("controllers = 2".to_owned(), "line 2, column 15: a quorum has 1, 3 or 5 controllers, not 2"),
        ("controllers = 0".to_owned(), "line 2, column 15: controllers is between 1 and 5, not 0"),
        (listed(&[7, 8, 9]), "7, 8, 9"),
        (listed(&[7, 8]), "line 2, column 1: a quorum has 1, 3 or 5 controllers, not 2"),
        (listed(&[7, 7, 8]), "line 5, column 6: there is a controller 7 already"),
        (listed(&[1]), "line 6, column 6: 1 is a controller's id"),
        (
            format!("controllers = 1\n{}", listed(&[7])),
            "line 2, column 15: controllers are counted or listed, not both",
        ),
    ] {
        assert_eq!(controllers(&lines), expected, "{lines}");
    }
}

#[test]
fn what_is_left_out_has_a_default() {
    let scenario = Scenario::parse(RIGHT).expect("it is right");
    assert_eq!((scenario.seed, scenario.start), (42, Time::ZERO));
    assert_eq!(scenario.latency_us, 20_000..=60_000);
    expect![[r#"
        00:00.000  create topic orders partitions 3 replication-factor 2
        00:00.000  add producer checkout-api to orders rate 5/s keys "key-{0..7}"
        00:00.000  add consumer consumer-a to billing topics orders program "poll; process 20ms; commit"
    "#]]
    .assert_eq(&commands(&scenario));
    assert_eq!(classroom_settings(&scenario), []);
}

#[test]
fn a_departure_from_kafkas_defaults_is_a_classroom_setting() {
    let text = format!(
        "{RIGHT}[broker-defaults]\n\"offsets.topic.num.partitions\" = 3\n\"num.partitions\" = \"1\"\n\
         [features]\n\"eligible.leader.replicas.version\" = 0\n"
    );
    let settings = classroom_settings(&Scenario::parse(&text).expect("it is right"));
    let texts: Vec<String> = settings.iter().map(Setting::to_string).collect();
    let expected = [
        "classroom setting: offsets.topic.num.partitions = 3, Kafka's default is 50",
        "classroom setting: eligible.leader.replicas.version = 0, Kafka's default is 1",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn what_is_not_toml_is_refused_at_its_place() {
    check(1, "format = 1 2", "line 1, column 10: string values must be quoted, expected literal string");
    check(3, "id = ", "line 3, column 6: string values must be quoted, expected literal string");
    check(3, "id = 1\nid = 2", "line 4, column 1: duplicate key");
    check(3, "id = \"😀", "line 3, column 8: invalid basic string, expected `\"`");
}

#[test]
fn a_format_that_is_not_known_is_refused() {
    check(1, "", "line 1, column 1: the file needs format, as in format = 1");
    check(1, "format = 0", "line 1, column 10: format is at least 1, not 0");
    check(1, "format = \"1\"", "line 1, column 10: format is a whole number, not a text");
    check(
        1,
        "format = 2",
        "line 1, column 10: format 2 is newer than this program knows, which is 1; a newer version of it is needed",
    );
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_may_be_meant() {
    check(
        3,
        "id = 1\nrak = \"a\"",
        "line 4, column 1: [[broker]] has no \"rak\" (did you mean rack?); it has id, rack",
    );
    check(
        1,
        "format = 1\nsede = 3",
        "line 2, column 1: the file has no \"sede\" (did you mean seed?); it has format, seed, start, network, broker-defaults, features, controllers, controller, broker, topic, producer, consumer, share-consumer, application, at, expect",
    );
    check(
        1,
        "format = 1\nnetwork.delay = \"1ms\"",
        "line 2, column 9: network has no \"delay\"; it has latency",
    );
}

#[test]
fn a_value_of_another_kind_is_refused() {
    check(3, "id = \"1\"", "line 3, column 6: id is a whole number, not a text");
    check(3, "id = -1", "line 3, column 6: id is between 0 and 2147483647, not -1");
    check(3, "id = 101", "line 3, column 6: 101 is a controller's id");
    check(3, "", "line 2, column 1: [[broker]] needs id, as in id = 1");
    check(7, "name = 3", "line 7, column 8: name is a text in quotes, not a whole number");
    check(16, "topics = \"orders\"", "line 16, column 10: topics is a list of texts, not a text");
    check(
        16,
        "topics = [\"orders\", 1]",
        "line 16, column 21: topics is a text in quotes, not a whole number",
    );
    check(16, "topics = []", "line 16, column 10: a consumer subscribes to at least one topic");
    check(1, "format = 1\nbroker = 3", "line 3, column 3: duplicate key");
    check(
        1,
        "format = 1\nat = 3",
        "line 2, column 6: at is tables, each with the head [[at]], not a whole number",
    );
    check(1, "format = 1\nnetwork = \"fast\"", "line 2, column 11: expected a table network, not a text");
}

#[test]
fn times_have_a_unit_and_a_limit() {
    let network = |latency: &str| format!("format = 1\nnetwork = {{ latency = \"{latency}\" }}");
    check(1, &network("5ms"), "3 commands");
    check(1, &network("0us..1h"), "3 commands");
    check(1, &network("60ms..20ms"), "line 2, column 23: latency goes from the shorter to the longer time");
    check(
        1,
        &network("20..60ms"),
        "line 2, column 23: latency is a time such as 500us, 20ms, 8s, 2min or 1h, not \"20\"",
    );
    check(1, &network("61min"), "line 2, column 23: latency is at most 1h, not 61min");
    check(1, "format = 1\nstart = \"2h\"", "line 2, column 9: start is at most 1h, not 2h");
    check(1, "format = 1\nstart = 8", "line 2, column 9: start is a text in quotes, not a whole number");
    check(1, "format = 1\nseed = -1", "line 2, column 8: seed is at least 0, not -1");
}

#[test]
fn what_is_there_already_is_refused() {
    check(5, "id = 1", "line 5, column 6: there is a broker 1 already");
    check(14, "name = \"checkout-api\"", "line 14, column 8: there is a client checkout-api already");
    let topic =
        |name: &str| format!("[[topic]]\nname = \"{name}\"\npartitions = 1\nreplication-factor = 1\n");
    check_added(&topic("orders"), "line 18, column 8: TOPIC_ALREADY_EXISTS: there is a topic orders already");
    let both = topic("a.b") + &topic("a_b");
    check_added(&both, "line 22, column 8: INVALID_TOPIC_EXCEPTION: a_b collides with topic a.b");
}

#[test]
fn what_kafka_refuses_is_refused_with_kafkas_error() {
    check(
        8,
        "partitions = 0",
        "line 8, column 14: INVALID_PARTITIONS: a topic has at least one partition, not 0",
    );
    check(
        9,
        "replication-factor = 3",
        "line 9, column 22: INVALID_REPLICATION_FACTOR: 3 replicas are not possible; the cluster has 2 brokers",
    );
    check(
        9,
        "replication-factor = 0",
        "line 9, column 22: INVALID_REPLICATION_FACTOR: 0 replicas are not possible; the cluster has 2 brokers",
    );
    check(
        7,
        "name = \"or ders\"",
        "line 7, column 8: INVALID_TOPIC_EXCEPTION: a topic's name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'",
    );
    check(
        12,
        "topic = \"order\"",
        "line 12, column 9: UNKNOWN_TOPIC_OR_PARTITION: there is no topic order (did you mean orders?)",
    );
    check(
        16,
        "topics = [\"orders\", \"audit\"]",
        "line 16, column 21: UNKNOWN_TOPIC_OR_PARTITION: there is no topic audit",
    );
    check(
        9,
        "replication-factor = 2\nconfig = { \"min.insync.replicas\" = 0 }",
        "line 10, column 12: INVALID_CONFIG: Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
    );
    check(
        9,
        "replication-factor = 2\n[topic.config]\n\"min.insync.replica\" = 1",
        "line 11, column 1: INVALID_CONFIG: Invalid value 1 for configuration min.insync.replica: Unknown topic config name (did you mean min.insync.replicas?)",
    );
    check(
        12,
        "topic = \"orders\"\nconfig = { acks = 2 }",
        "line 13, column 12: INVALID_CONFIG: Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1",
    );
    check(
        12,
        "topic = \"orders\"\nconfig = { linger.ms = 5 }",
        "line 13, column 12: expected a config's value, not a table; quote its name: \"a.b\" = 1",
    );
    check(
        16,
        "topics = [\"orders\"]\nconfig = { \"auto.offset.rest\" = \"earliest\" }",
        "line 17, column 12: INVALID_CONFIG: Invalid value earliest for configuration auto.offset.rest: Unknown configuration (did you mean auto.offset.reset?)",
    );
    check_added(
        "[broker-defaults]\n\"broker.session.timeout.ms\" = 0\n",
        "line 18, column 1: INVALID_CONFIG: Invalid value 0 for configuration broker.session.timeout.ms: Value must be at least 1",
    );
    check_added(
        "[features]\n\"eligible.leader.replicas.version\" = 2\n",
        "line 18, column 1: INVALID_CONFIG: Invalid value 2 for configuration eligible.leader.replicas.version: Value must be no more than 1",
    );
    check_added(
        "[features]\n\"transaction.version\" = 3\n",
        "line 18, column 1: INVALID_CONFIG: Invalid value 3 for configuration transaction.version: Value must be no more than 2",
    );
    check_added(
        "[features]\n\"streams.version\" = 0\n",
        "line 18, column 1: INVALID_CONFIG: Invalid value 0 for configuration streams.version: not modelled yet (did you mean share.version?)",
    );
}

#[test]
fn timed_commands_are_read_in_the_order_of_their_times() {
    let text = format!(
        "{RIGHT}{}{}{}",
        "[[at]]\ntime = \"60s\"\ndo = \"start broker 2\"\n",
        "[[at]]\ntime = \"30s\"\ndo = \"kill broker 2\"\n",
        "[[at]]\ntime = \"30s\"\ndo = \"add consumer consumer-c to billing\"\n",
    );
    let scenario = Scenario::parse(&text).expect("it is right");
    let timed: Vec<String> =
        scenario.at.iter().map(|(at, command)| format!("{at} {}", print(command))).collect();
    expect![[r#"
        00:30.000 kill broker 2
        00:30.000 add consumer consumer-c to billing topics orders program "poll; process 20ms; commit"
        01:00.000 start broker 2"#]]
    .assert_eq(&timed.join("\n"));
}

#[test]
fn a_bad_timed_command_is_refused_at_its_own_column() {
    let at = |command: &str| format!("[[at]]\ntime = \"30s\"\ndo = {command}\n");
    check_added(
        &at("\"kill brokr 3\""),
        "line 19, column 18: no command: nothing can follow here, but \"3\" does",
    );
    check_added(
        &at("\"kil broker 3\""),
        "line 19, column 7: no command: kil is no command (did you mean kill?)",
    );
    check_added(
        &at("'pause \"\"'"),
        "line 19, column 13: no command: expected a client's name, not an empty one",
    );
    check_added(
        &at("\"pause \\\"\\\"\""),
        "line 19, column 6: no command: expected a client's name, not an empty one",
    );
    check_added(
        &at("\"add consumer x to audit topics\""),
        "line 19, column 37: no command: expected topics such as orders,payments",
    );
    check_added(
        "[[at]]\ntime = \"30s\"\n",
        "line 17, column 1: [[at]] needs do, as in do = \"kill broker 3\"",
    );
}

#[test]
fn a_topic_may_come_with_a_timed_command() {
    let later = "[[at]]\ntime = \"5s\"\ndo = \"create topic audit partitions 1 replication-factor 1\"\n";
    let text = RIGHT.replace("topics = [\"orders\"]", "topics = [\"audit\"]") + later;
    assert!(Scenario::parse(&text).is_ok());
}

#[test]
fn a_file_that_asks_for_too_much_is_refused() {
    let brokers: String = (0..1001).map(|n| format!("[[broker]]\nid = {}\n", 1000 + n)).collect();
    let too_many_brokers = Scenario::parse(&format!("format = 1\n{brokers}")).unwrap_err();
    assert_eq!(too_many_brokers.reason, "there are at most 1000 brokers");
    check(8, "partitions = 10001", "line 8, column 14: there are at most 10000 partitions in all");
    check(8, "partitions = 99999999999", "line 8, column 14: there are at most 10000 partitions in all");
    check_added(
        "[[topic]]\nname = \"b\"\npartitions = 9998\nreplication-factor = 1\n",
        "line 17, column 1: there are at most 10000 partitions and 30000 replicas in all",
    );
    let clients: String =
        (0..1000).map(|n| format!("[[producer]]\nname = \"p{n}\"\ntopic = \"orders\"\n")).collect();
    let too_many_clients = Scenario::parse(&format!("{RIGHT}{clients}")).unwrap_err();
    assert_eq!(too_many_clients.reason, "there are at most 1000 clients");
    let too_long = Scenario::parse(&format!("{RIGHT}#{}", "x".repeat(256 * 1024))).unwrap_err();
    assert_eq!(too_long.reason, "a scenario file has at most 256 kB");
    let deep = format!("format = 1\nseed = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(Scenario::parse(&deep).map(|_| ()).unwrap_err().line, 2);
}

#[cfg(not(target_arch = "wasm32"))]
proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(at in 0usize..400, text in "\\PC{0,12}|[\\[\\]=\"{}\n a-z0-9.]{0,12}") {
        let at = (0..=at.min(RIGHT.len())).rev().find(|at| RIGHT.is_char_boundary(*at)).unwrap_or(0);
        let _ = Scenario::parse(&format!("{}{text}{}", &RIGHT[..at], &RIGHT[at..]));
    }
}
