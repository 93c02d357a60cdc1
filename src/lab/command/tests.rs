//! Print and parse are inverse, and what is no command says where.

use std::collections::BTreeMap;

use super::*;
use crate::client::admin::{
    GROUP_STATES, GROUP_TYPES, Goal, GroupOperation, ListFilter, Reset, Scope, Target as ResetTarget,
};
use crate::client::consumer::{Choice, ConsumerSpec, Line};
use crate::client::producer::Wish;
use crate::client::producer::workload::{KeyPattern, ProducerSpec, ValuePattern};
use crate::client::program::KNOWN_LINES;
use crate::kafka::controller::configs::Resource;
use crate::kafka::controller::elections::ElectionType;
use crate::kafka::types::{BrokerId, ClientName, GroupId, Topic, TopicPartition};
use crate::sim::{Command, Target};

fn command(text: &str) -> Command {
    match parse(text) {
        Ok(Written::Whole(command)) => command,
        other => panic!("{text} is read as {other:?}"),
    }
}

/// The text is a command's one form, and there is an example of it.
fn check(text: &str, expected: Command) {
    let kind = std::mem::discriminant(&expected);
    let is_like = |form: &Form| match parse(form.example) {
        Ok(Written::Whole(command)) => std::mem::discriminant(&command) == kind,
        _ => false,
    };
    assert!(FORMS.iter().any(is_like), "nothing tells of {text}");
    assert_eq!(command(text), expected);
    assert_eq!(print(&expected), text);
}

fn check_refused(text: &str, message: &str) {
    match parse(text) {
        Err(error) => assert_eq!(error.to_string(), message, "{text}"),
        Ok(command) => panic!("{text} is read as {command:?}"),
    }
}

fn config(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn producer(name: &str, topic: &str) -> ProducerSpec {
    let keys = "cart-{0..7}".parse().expect("a key pattern");
    ProducerSpec {
        name: name.into(),
        topic: topic.into(),
        rate: "12/s".parse().expect("a rate"),
        value: ValuePattern::for_keys(&keys),
        keys,
        partition: None,
        value_size: None,
        transactions: None,
        config: config(&[("acks", "1"), ("linger.ms", "20")]),
    }
}

fn consumer(name: &str, group: &str) -> ConsumerSpec {
    ConsumerSpec {
        name: name.into(),
        group: group.into(),
        choice: Choice::Topics(vec!["orders".into(), "payments".into()]),
        program: Line::parse_program(&["poll", "process 20ms", "commit"]).expect("a program"),
        config: config(&[("enable.auto.commit", "false")]),
    }
}

#[test]
fn every_command_has_one_text_form_and_an_example() {
    let broker = |id| Target::Broker(BrokerId(id));
    let client = |name: &str| Target::Client(ClientName::new(name));
    let controller = Target::Controller(crate::kafka::types::ControllerId(101));
    check("kill broker 3", Command::Kill(broker(3)));
    check("start broker 3", Command::Start(broker(3)));
    check("stop broker 3", Command::Stop(BrokerId(3)));
    check("stop controller 101", Command::StopController(crate::kafka::types::ControllerId(101)));
    check("cut power of broker 3", Command::CutPower(broker(3)));
    check("cut power of controller 101", Command::CutPower(controller.clone()));
    check("cut \"power\" from broker 2", Command::Cut { a: client("power"), b: broker(2) });
    check("wipe disk of broker 3", Command::WipeDisk(BrokerId(3)));
    check("freeze consumer-b", Command::Freeze(client("consumer-b")));
    check("freeze \"broker\"", Command::Freeze(client("broker")));
    check("thaw controller 101", Command::Thaw(controller.clone()));
    check("cut broker 1 from broker 2", Command::Cut { a: broker(1), b: broker(2) });
    check("heal broker 3 from controller 101", Command::Heal { a: broker(3), b: controller });
    let slow = |by_us| Command::Slow { a: broker(2), b: client("a"), by_us };
    check("slow broker 2 to a by 200ms", slow(200_000));
    check("slow broker 2 to a by 1500us", slow(1_500));
    check("slow broker 2 to a by 0ms", slow(0));
    let clock = |ahead_ms| Command::SetClock { target: broker(2), ahead_ms };
    check("set clock of broker 2 ahead by 5min", clock(300_000));
    check("set clock of broker 2 behind by 1500ms", clock(-1_500));
    check("set clock of broker 2 right", clock(0));
    check("add broker 4", Command::AddBroker { broker: BrokerId(4), rack: None });
    check("add broker 4 rack d", Command::AddBroker { broker: BrokerId(4), rack: Some("d".to_owned()) });
    check("pause checkout-api", Command::Pause("checkout-api".into()));
    check("resume \"checkout api\"", Command::Resume("checkout api".into()));
    let wish = |wish| Command::Transaction { client: "bank".into(), wish };
    check("begin transaction of bank", wish(Wish::Begin));
    check("commit transaction of bank", wish(Wish::Commit));
    check("abort transaction of bank", wish(Wish::Abort));
    check("close consumer-b", Command::Close("consumer-b".into()));
    check("crash consumer-b", Command::Crash("consumer-b".into()));
    check(
        "create topic audit partitions 3 replication-factor 2 min.insync.replicas=2",
        Command::CreateTopic {
            topic: "audit".into(),
            partitions: 3,
            replication_factor: 2,
            config: config(&[("min.insync.replicas", "2")]),
        },
    );
    let orders_0 = || TopicPartition::new(&"orders".into(), 0);
    let elect = |kind, partition| Command::ElectLeader { kind, partition };
    check("elect preferred leader orders-0", elect(ElectionType::Preferred, Some(orders_0())));
    check("elect unclean leaders", elect(ElectionType::Unclean, None));
    let replicas = vec![BrokerId(3), BrokerId(1), BrokerId(2)];
    check("reassign orders-0 to 3,1,2", Command::Reassign { partition: orders_0(), replicas });
    check("cancel reassignment orders-0", Command::CancelReassignment(orders_0()));
    check("add partitions to orders up to 6", Command::AddPartitions { topic: "orders".into(), count: 6 });
    let delete_records = |before| Command::DeleteRecords { partition: orders_0(), before };
    check("delete records of orders-0 before 40", delete_records(Some(40)));
    check("delete records of orders-0", delete_records(None));
    check("delete topic orders", Command::DeleteTopic("orders".into()));
    let set = |value: Option<&str>| Command::SetTopicConfig {
        topic: "orders".into(),
        key: "min.insync.replicas".to_owned(),
        value: value.map(str::to_owned),
    };
    check("set topic orders min.insync.replicas=1", set(Some("1")));
    check("unset topic orders min.insync.replicas", set(None));
    let set = |broker: Option<i32>, value: Option<&str>| Command::SetBrokerConfig {
        broker: broker.map(BrokerId),
        key: "message.max.bytes".to_owned(),
        value: value.map(str::to_owned),
    };
    check("set broker 2 message.max.bytes=100000", set(Some(2), Some("100000")));
    check("unset broker 2 message.max.bytes", set(Some(2), None));
    check("set cluster message.max.bytes=100000", set(None, Some("100000")));
    check("unset cluster message.max.bytes", set(None, None));
    check("describe topic orders", Command::Describe(Resource::Topic("orders".into())));
    check("describe broker 2", Command::Describe(Resource::Broker(Some(BrokerId(2)))));
    check("describe cluster", Command::Describe(Resource::Broker(None)));
    check("describe configs of group billing", Command::Describe(Resource::Group(GroupId::new("billing"))));
    check("describe quorum", Command::DescribeQuorum);
    check("describe features", Command::DescribeFeatures);
    check(
        "add producer checkout-api to orders rate 12/s keys \"cart-{0..7}\" acks=1 linger.ms=20",
        Command::AddProducer(producer("checkout-api", "orders")),
    );
    check("flush p", Command::Flush("p".into()));
    let keyless: KeyPattern = "none".parse().expect("no keys");
    let keyless = ProducerSpec {
        value: ValuePattern::for_keys(&keyless),
        keys: keyless,
        partition: Some(2),
        ..producer("p", "orders")
    };
    check(
        "add producer p to orders rate 12/s keys none partition 2 acks=1 linger.ms=20",
        Command::AddProducer(keyless),
    );
    let with_value = ProducerSpec {
        value: ValuePattern::new("{key} says \"{n}\""),
        value_size: Some(100),
        ..producer("p", "orders")
    };
    check(
        r#"add producer p to orders rate 12/s keys "cart-{0..7}" value "{key} says \"{n}\"" value-size 100 acks=1 linger.ms=20"#,
        Command::AddProducer(with_value),
    );
    check(
        "add consumer consumer-a to billing topics orders,payments program \"poll; process 20ms; commit\" enable.auto.commit=false",
        Command::AddConsumer(consumer("consumer-a", "billing")),
    );
}

#[test]
fn blanks_do_not_matter_and_a_programs_lines_may_touch() {
    assert_eq!(command("  kill   broker  3 "), command("kill broker 3"));
    let tight = "add consumer a to g topics orders program \"poll;commit\"";
    assert_eq!(print(&command(tight)), "add consumer a to g topics orders program \"poll; commit\"");
}

#[test]
fn what_is_no_command_is_refused_with_the_column_and_what_belongs_there() {
    check_refused("", "column 1: expected a command");
    check_refused("kil broker 3", "column 1: kil is no command (did you mean kill?)");
    check_refused("juggle", "column 1: juggle is no command");
    check_refused("\"kill\" broker 3", "column 1: expected a command, without quotes");
    check_refused("kill", "column 5: expected broker ID, controller ID or a client's name");
    check_refused("kill broker", "column 12: expected a broker id");
    check_refused("kill broker three", "column 13: expected a broker id, not \"three\"");
    check_refused("kill broker -1", "column 13: expected a broker id, which is never negative");
    check_refused("kill broker 99999999999", "column 13: expected a broker id, not \"99999999999\"");
    check_refused("kill broker 3 now", "column 15: nothing can follow here, but \"now\" does");
    check_refused(
        "kill a=b",
        "column 6: expected broker ID, controller ID or a client's name; quote a name that has an =",
    );
    check_refused("pause \"\"", "column 7: expected a client's name, not an empty one");
    check_refused("cut broker 1 broker 2", "column 14: expected from");
    check_refused("slow broker 1 broker 2", "column 15: expected to");
    check_refused(
        "slow broker 1 to broker 2 by much",
        "column 30: expected a time such as 200ms, 30s or 5min, not \"much\"",
    );
    check_refused(
        "set clock of broker 1 fast",
        "column 23: expected one of ahead, behind, right, not \"fast\"",
    );
    check_refused(
        "set clock of broker 1 ahead by 5us",
        "column 32: expected whole milliseconds, which is what a clock shows",
    );
    check_refused("add", "column 4: expected broker, producer, consumer, share, application, partitions");
    check_refused(
        "elect preferred leader orders",
        "column 24: expected a partition such as orders-0, not \"orders\"",
    );
    check_refused("reassign orders-0 to 3,x", "column 22: expected brokers such as 3,1,2, not \"3,x\"");
    check_refused(
        "add consumr x to billing",
        "column 5: expected one of broker, producer, consumer, share, application, partitions, not \"consumr\" (did you mean consumer?)",
    );
    check_refused("add consumer x billing", "column 16: expected to");
    check_refused(
        "add producer x to orders rate 12",
        "column 31: expected a rate such as 12/s, 1/5s or 300/min, not \"12\"",
    );
    check_refused(
        "add producer x to orders keys \"a{\"",
        "column 31: expected keys such as \"cart-{0..7}\", or none, not \"a{\"",
    );
    check_refused("add producer x to orders acks=1 acks=0", "column 33: acks is given twice");
    check_refused("add producer x to orders =1", "column 26: a config has a name before its =");
    check_refused(
        "add producer x to orders acks",
        "column 26: expected a config such as acks=1, not \"acks\"",
    );
    check_refused(
        "add consumer x to g topics orders program \"poll; nap\"",
        &format!("column 43: line 2: \" nap\" is none of: {KNOWN_LINES}"),
    );
    check_refused("add share x to billing", "column 11: expected consumer");
    check_refused(
        "create topic x partitions many replication-factor 1",
        "column 27: expected a number of partitions, not \"many\"",
    );
    check_refused("create topic x replication-factor 1", "column 16: expected partitions");
    check_refused(
        "set topic orders min.insync.replicas",
        "column 18: expected a config such as min.insync.replicas=1",
    );
    check_refused(
        "set clustr min.insync.replicas=2",
        "column 5: expected one of topic, broker, group, cluster, not \"clustr\" (did you mean cluster?)",
    );
    check_refused(
        "set broker min.insync.replicas=2",
        "column 12: expected a broker id; quote a name that has an =",
    );
    check_refused(
        "describe",
        "column 9: expected topic, broker, cluster, group, all, quorum, features, configs, offsets, transaction, producers",
    );
    check_refused("describe group", "column 15: expected the name of a group");
    check_refused("describe configs of billing", "column 21: expected group");
}

#[test]
fn what_kafka_has_an_error_for_is_read_and_left_to_kafka() {
    for text in [
        "create topic x partitions 0 replication-factor 3",
        "create topic x partitions 3 replication-factor -2",
        "create topic \"not legal\" partitions 1 replication-factor 1",
        "set topic orders no.such.config=1",
    ] {
        assert_eq!(print(&command(text)), text);
    }
}

fn clients() -> Clients {
    Clients {
        share_consumers: Vec::new(),
        topics: vec!["orders".into(), "payments".into()],
        producers: vec![producer("checkout-api", "orders")],
        consumers: vec![consumer("consumer-a", "billing")],
    }
}

fn check_completed(text: &str, whole: &str) {
    let written = parse(text).expect("it is a command");
    let printed =
        clients().complete(written).map_or_else(|refusal| refusal.reason, |command| print(&command));
    assert_eq!(printed, whole, "{text}");
}

#[test]
fn a_client_that_leaves_something_open_is_as_the_others() {
    check_completed(
        "add consumer consumer-c to billing",
        "add consumer consumer-c to billing topics orders,payments program \"poll; process 20ms; commit\" enable.auto.commit=false",
    );
    check_completed(
        "add consumer consumer-c to billing program poll auto.offset.reset=earliest",
        "add consumer consumer-c to billing topics orders,payments program poll auto.offset.reset=earliest enable.auto.commit=false",
    );
    let written = parse("add consumer consumer-c to billing").expect("it is a command");
    let mut clients = clients();
    clients.consumers[0].config.insert("group.instance.id".to_owned(), "i1".to_owned());
    let AddConsumer(spec) = clients.complete(written).expect("like the other") else {
        panic!("another command")
    };
    assert!(!spec.config.contains_key("group.instance.id"), "two of them would fence each other (R-GRP-24)");
    check_completed(
        "add share consumer s1 to payments topics orders",
        "add share consumer s1 to payments topics orders program \"poll; process 20ms\"",
    );
    let reason = "share group billing has no member to be like; say its topics";
    check_completed("add share consumer s2 to billing", reason);
    check_completed("add consumer x to audit", "group audit has no member to be like; say its topics");
    check_completed(
        "add consumer x to audit topics orders",
        "add consumer x to audit topics orders program \"poll; process 20ms; commit\"",
    );
    check_completed(
        "add producer second",
        "add producer second to orders rate 12/s keys \"cart-{0..7}\" acks=1 linger.ms=20",
    );
    check_completed(
        "add producer second to payments acks=0",
        "add producer second to payments rate 5/s keys \"key-{0..7}\" acks=0",
    );
    check_completed(
        "add producer second to orders rate 1/s",
        "add producer second to orders rate 1/s keys \"cart-{0..7}\" acks=1 linger.ms=20",
    );
}

#[test]
fn a_group_of_the_only_topic_needs_no_topics() {
    let mut clients = Clients::default();
    let first = parse("add producer p").expect("it is a command");
    assert_eq!(clients.complete(first).unwrap_err().reason, "p: there is no topic to send to");
    clients.note(&command("create topic only partitions 1 replication-factor 1"));
    let completed = clients.complete(parse("add consumer x to g").expect("it is a command"));
    let AddConsumer(spec) = completed.expect("it has a topic") else { panic!("another command") };
    assert_eq!(spec.choice, Choice::Topics(vec![Topic::new("only")]));
}

use Command::AddConsumer;

#[test]
fn hostile_text_is_refused_or_kept_as_it_is() {
    let long = "x".repeat(10_000);
    let names =
        ["😀", "\u{202e}gnp.exe", "a\u{301}", "'; drop table", "\\", "\"", "=", ";", " ", "kill", &long];
    for name in names {
        let pause = Command::Pause(ClientName::new(name));
        match parse(&print(&pause)) {
            Ok(read) => assert_eq!(read, Written::Whole(pause)),
            Err(error) => assert!(name.trim().is_empty(), "{name}: {error}"),
        }
    }
    for text in ["\0", "kill broker \0", "\u{7f}", "\n", "kill\tbroker 3", &long, &"\"".repeat(9_999)] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod properties;
