//! A command that cannot be carried out is refused with Kafka's error name, and the run goes on unchanged.

use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, Topic};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster, config};

/// Refused at once, and not a step was made of it.
fn check_refused(c: &mut Cluster, command: Command, error: Option<ErrorCode>, words: &str) {
    let (digest, steps) = (c.world.digest(), c.world.events_done());
    let refusal = c.try_give(command).expect_err(words);
    assert_eq!(refusal.error, error, "{refusal}");
    assert!(refusal.reason.contains(words), "{refusal}");
    assert_eq!((c.world.digest(), c.world.events_done()), (digest, steps));
}

#[test]
fn commands_that_name_nothing_or_come_at_the_wrong_time_are_refused_at_once() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    let broker = |id| Target::Broker(BrokerId(id));
    check_refused(
        &mut c,
        Command::Kill(broker(9)),
        Some(ErrorCode::BrokerNotAvailable),
        "there is no broker 9",
    );
    check_refused(&mut c, Command::Start(broker(1)), None, "is running already");
    check_refused(&mut c, Command::Thaw(broker(1)), None, "is not frozen");
    check_refused(&mut c, Command::Crash("nobody".into()), None, "there is no client nobody");
    check_refused(&mut c, Command::Pause("admin".into()), None, "there is no client admin");
    let twice = Command::AddBroker { broker: BrokerId(1), rack: None };
    check_refused(&mut c, twice, Some(ErrorCode::DuplicateBrokerRegistration), "broker 1 exists");
    let not_yet = Command::SetTopicConfig {
        topic: "t".into(),
        key: "file.delete.delay.ms".into(),
        value: Some("1".into()),
    };
    check_refused(
        &mut c,
        not_yet,
        None,
        "file.delete.delay.ms is a config of Kafka that has no effect here yet",
    );
    let link = |a, b| (broker(a), broker(b));
    let (a, b) = link(1, 1);
    check_refused(&mut c, Command::Cut { a, b }, None, "two different ends");
    let (a, b) = link(1, 3);
    check_refused(&mut c, Command::Heal { a, b }, None, "that link is not cut");
    c.cut(1, 3);
    let (a, b) = link(3, 1);
    check_refused(&mut c, Command::Cut { a, b }, None, "that link is cut already");
    c.heal(1, 3);
    c.kill(2);
    check_refused(&mut c, Command::Kill(broker(2)), None, "is not running");
    check_refused(&mut c, Command::Freeze(broker(2)), None, "is not running");
}

/// Refused by the controller, as Kafka refuses it.
fn check_error(c: &mut Cluster, command: Command, expected: ErrorCode) {
    c.give(command);
    c.until_event(
        "the refusal comes back",
        5_000,
        |event| matches!(event, Event::CommandRefused { error, .. } if *error == expected),
    );
}

/// R-LOG-52, R-PLACE-1.
#[test]
fn the_controller_refuses_impossible_topics_and_configs_by_kafkas_names() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    let create = |name: &str, partitions, replication_factor, pairs: &[(&str, &str)]| Command::CreateTopic {
        topic: Topic::new(name),
        partitions,
        replication_factor,
        config: config(pairs),
    };
    check_error(&mut c, create("a", 0, 3, &[]), ErrorCode::InvalidPartitions);
    check_error(&mut c, create("a", 3, 4, &[]), ErrorCode::InvalidReplicationFactor);
    check_error(&mut c, create("a", 3, 0, &[]), ErrorCode::InvalidReplicationFactor);
    check_error(&mut c, create("t", 1, 1, &[]), ErrorCode::TopicAlreadyExists);
    check_error(&mut c, create("bad name", 1, 1, &[]), ErrorCode::InvalidTopicException);
    check_error(&mut c, create("..", 1, 1, &[]), ErrorCode::InvalidTopicException);
    check_error(&mut c, create("a", 1, 1, &[("min.insync.replicas", "0")]), ErrorCode::InvalidConfig);
    check_error(&mut c, create("a", 1, 1, &[("no.such.config", "1")]), ErrorCode::InvalidConfig);
    let set = |topic: &str, value: &str| Command::SetTopicConfig {
        topic: Topic::new(topic),
        key: "min.insync.replicas".into(),
        value: Some(value.into()),
    };
    check_error(&mut c, set("t", "none"), ErrorCode::InvalidConfig);
    check_error(&mut c, set("no-such-topic", "1"), ErrorCode::UnknownTopicOrPartition);
    let image = c.world.active_controller().expect("a controller").image();
    let names: Vec<_> = image.topics().map(|topic| topic.name.to_string()).collect();
    assert_eq!(names, ["t"], "nothing is half done");
    c.give(create("a.b", 1, 1, &[]));
    c.run_ms(1_000);
    check_error(&mut c, create("a_b", 1, 1, &[]), ErrorCode::InvalidTopicException);
}
