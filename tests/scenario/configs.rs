//! Configs that change while the cluster runs: whose value counts, who refuses what, and what is told of them.

use glassbroker::kafka::controller::configs::Resource;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, GroupId};
use glassbroker::sim::{Command, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_with, config, tp};

fn set(c: &mut Cluster, broker: Option<i32>, key: &str, value: Option<&str>) {
    let (broker, value) = (broker.map(BrokerId), value.map(str::to_string));
    c.give(Command::SetBrokerConfig { broker, key: key.to_string(), value });
}

fn set_topic(c: &mut Cluster, key: &str, value: Option<&str>) {
    let (key, value) = (key.to_string(), value.map(str::to_string));
    c.give(Command::SetTopicConfig { topic: "t".into(), key, value });
    c.run_ms(1_000);
}

/// `set` or `unset`, which is refused by the cluster.
fn check_refused(c: &mut Cluster, change: (Option<i32>, &str, Option<&str>), error: ErrorCode, words: &str) {
    let (broker, key, value) = change;
    set(c, broker, key, value);
    c.until_event(words, 5_000, |event| {
        matches!(event, Event::CommandRefused { error: with, message, .. } if *with == error && message.contains(words))
    });
}

/// max.message.bytes of t-0 at each broker that has it.
fn largest_batches(c: &Cluster) -> Vec<i32> {
    let at = |broker| Some(c.partition(broker, "t-0")?.config.log.max_message_bytes);
    (1..=3).filter_map(at).collect()
}

#[test]
fn a_topics_value_counts_before_its_brokers_and_that_before_the_clusters_and_the_files_r_log_53() {
    let broker_config = config(&[("message.max.bytes", "1000")]);
    let c = cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() });
    let mut c = c.topic("t", 1, 3, &[]);
    let key = "message.max.bytes";
    assert_eq!(largest_batches(&c), [1000, 1000, 1000], "the brokers' files");
    set(&mut c, None, key, Some("2000"));
    c.run_ms(1_000);
    assert_eq!(largest_batches(&c), [2000, 2000, 2000], "the cluster's default");
    set(&mut c, Some(2), key, Some("3000"));
    c.run_ms(1_000);
    assert_eq!(largest_batches(&c), [2000, 3000, 2000], "broker 2's own");
    set_topic(&mut c, "max.message.bytes", Some("4000"));
    assert_eq!(largest_batches(&c), [4000, 4000, 4000], "the topic's own");
    set_topic(&mut c, "max.message.bytes", None);
    set(&mut c, None, key, None);
    c.run_ms(1_000);
    assert_eq!(largest_batches(&c), [1000, 3000, 1000]);
    c.kill(2);
    c.run_ms(500);
    c.start(2);
    c.until("broker 2 has replayed the log", 20_000, |c| largest_batches(c) == [1000, 3000, 1000]);
}

#[test]
fn a_running_leader_takes_and_refuses_batches_by_the_newest_value() {
    let mut c = cluster(1).topic("t", 1, 1, &[]);
    c.producer("p", "t", "100/s", &[]);
    let acknowledged = |c: &mut Cluster| {
        c.send("p", 1);
        c.run_ms(2_000);
        let counts = c.producer_state("p").counts();
        (counts.acknowledged, counts.failed)
    };
    assert_eq!(acknowledged(&mut c), (1, 0));
    set(&mut c, None, "message.max.bytes", Some("10"));
    c.run_ms(500);
    assert_eq!(acknowledged(&mut c), (1, 1), "{}", c.report());
    set(&mut c, None, "message.max.bytes", None);
    c.run_ms(500);
    assert_eq!(acknowledged(&mut c), (2, 1));
}

#[test]
fn what_a_broker_reads_only_when_it_starts_is_refused_while_it_runs() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    let (invalid, read_only) = (ErrorCode::InvalidRequest, "Cannot update these configs dynamically");
    check_refused(&mut c, (None, "replica.lag.time.max.ms", Some("1000")), invalid, read_only);
    check_refused(&mut c, (Some(1), "num.partitions", Some("3")), invalid, read_only);
    check_refused(&mut c, (None, "log.roll.hours", Some("3")), invalid, read_only);
    check_refused(&mut c, (Some(3), "message.max.bytes", Some("-1")), invalid, "Value must be at least 0");
    check_refused(&mut c, (None, "log.roll.ms", Some("0")), invalid, "greater than or equal to 1");
    let refused = |c: &mut Cluster, key: &str, broker: i32| {
        let (key, value) = (key.to_string(), Some("1".to_string()));
        let command = Command::SetBrokerConfig { broker: Some(BrokerId(broker)), key, value };
        c.try_give(command).expect_err("it has no effect here").reason
    };
    assert!(refused(&mut c, "num.io.threads", 1).contains("has no effect here yet"));
    assert!(refused(&mut c, "message.max.byte", 1).contains("is no broker config of Kafka 4.3"));
    assert!(refused(&mut c, "message.max.bytes", 9).contains("there is no broker 9"));
    assert!(refused(&mut c, "listener.name.external.ssl.key.password", 1).contains("has no effect here yet"));
    assert!(
        refused(&mut c, "listener.name.external.no.such", 1).contains("is no broker config of Kafka 4.3")
    );
    check_refused(&mut c, (Some(1), "node.id", Some("7")), invalid, read_only);
    check_refused(&mut c, (None, "quota.window.num", Some("7")), invalid, read_only);
    check_refused(
        &mut c,
        (None, "listeners", Some("PLAINTEXT://:1")),
        invalid,
        "broker id must be specified",
    );
    check_refused(&mut c, (Some(1), "ssl.keystore.type", Some("JKS")), invalid, "only per-listener");
    assert_eq!(c.world.newest_image().expect("an image").broker_configs.len(), 0, "nothing is half done");
}

#[test]
fn only_the_broker_itself_can_change_or_describe_its_configs() {
    let mut c = cluster(3);
    c.kill(3);
    c.until("it is fenced", 12_000, |c| !c.is_in_service(3));
    c.run_ms(1_000);
    let before = c.now_ms();
    set(&mut c, Some(3), "message.max.bytes", Some("5"));
    let refused = |event: &Event| matches!(event, Event::CommandRefused { error, .. } if *error == ErrorCode::RequestTimedOut);
    let at = c.until_event("nobody else does it", 90_000, refused);
    assert!((60_000..62_000).contains(&(at - before)), "default.api.timeout.ms: {}", at - before);
    set(&mut c, Some(3), "message.max.bytes", Some("5"));
    c.run_ms(5_000);
    c.start(3);
    c.until("broker 3 does it when it is back", 20_000, |c| {
        c.world.newest_image().is_some_and(|image| image.broker_configs.contains_key(&BrokerId(3)))
    });
}

#[test]
fn with_elr_min_insync_replicas_is_the_clusters_or_a_topics_r_repl_48() {
    let mut c = cluster(3).topic("t", 1, 3, &[]).topic("u", 1, 3, &[]);
    let key = "min.insync.replicas";
    let invalid = ErrorCode::InvalidConfig;
    check_refused(&mut c, (Some(1), key, Some("2")), invalid, "cannot be altered while ELR is enabled");
    check_refused(&mut c, (None, key, None), invalid, "cannot be removed while ELR is enabled");
    (1..=3).for_each(|broker| c.kill(broker));
    let elr = |c: &Cluster, name: &str| {
        let image = c.world.active_controller().expect("a controller").image();
        let partition = image.partition(&tp(name)).expect("it exists");
        (partition.elr.len(), partition.last_known_elr.len())
    };
    c.until("nobody leads", 15_000, |c| elr(c, "t-0") == (1, 1) && elr(c, "u-0") == (1, 1));
    // The cluster's default clears every topic's; there is nobody to carry it before the first broker is back.
    set(&mut c, None, key, Some("2"));
    c.run_ms(1_000);
    assert_eq!(elr(&c, "t-0"), (1, 1));
    let outsider = |c: &Cluster| {
        let image = c.world.active_controller().expect("a controller").image();
        let last = image.partition(&tp("t-0")).expect("it exists").last_known_elr[0];
        (1..=3).find(|id| BrokerId(*id) != last).expect("three brokers")
    };
    let first = outsider(&c);
    c.start(first);
    c.until("the default is set", 20_000, |c| {
        c.world.newest_image().is_some_and(|image| image.cluster_config[key] == "2")
    });
    assert_eq!((elr(&c, "t-0"), elr(&c, "u-0")), ((0, 0), (0, 0)), "{}", c.report());
    let image = c.world.active_controller().expect("a controller").image();
    assert_eq!(image.effective_min_isr(&"u".into(), c.world.broker_config()), 2);
}

#[test]
fn unclean_elections_can_be_allowed_for_the_whole_cluster() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.cut(1, 2);
    c.cut(1, 3);
    c.send("p", 1);
    c.until("the in-sync set is the leader alone", 60_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    set(&mut c, None, "unclean.leader.election.enable", Some("true"));
    c.run_ms(1_000);
    c.kill(1);
    c.until("another leads", 15_000, |c| c.registration("t-0").starts_with("2 e1"));
    let unclean = |event: &Event| matches!(event, Event::LeaderElected { unclean: true, .. });
    assert!(c.events().any(unclean), "R-REPL-43, 49");
}

fn described(c: &mut Cluster, resource: Resource) -> Vec<String> {
    let seen = c.world.trace().len_ever();
    c.give(Command::Describe(resource.clone()));
    let found = |c: &Cluster| {
        c.world.trace().since(seen).find_map(|entry| match &entry.event {
            Event::ConfigsDescribed { resource: of, configs } if *of == resource => Some(configs.clone()),
            _ => None,
        })
    };
    c.until("it is described", 5_000, |c| found(c).is_some());
    let configs = found(c).expect("just seen");
    configs.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
}

#[test]
fn what_is_described_is_what_the_resource_itself_was_given() {
    let mut c = cluster(3).topic("t", 1, 3, &[("segment.ms", "5000")]);
    set(&mut c, Some(2), "message.max.bytes", Some("3000"));
    c.run_ms(1_000);
    assert_eq!(described(&mut c, Resource::Topic("t".into())), ["segment.ms=5000"]);
    assert_eq!(described(&mut c, Resource::Broker(Some(BrokerId(2)))), ["message.max.bytes=3000"]);
    assert_eq!(described(&mut c, Resource::Broker(Some(BrokerId(1)))), Vec::<String>::new());
    assert_eq!(
        described(&mut c, Resource::Broker(None)),
        ["min.insync.replicas=1"],
        "as a cluster with ELR has it"
    );
    assert_eq!(described(&mut c, Resource::Group(GroupId::new("g"))), Vec::<String>::new());
    c.give(Command::Describe(Resource::Topic("nothing".into())));
    c.until_event("an unknown topic", 5_000, |event| {
        matches!(event, Event::CommandRefused { error, .. } if *error == ErrorCode::UnknownTopicOrPartition)
    });
}
