//! Clients that look for what is not there yet: a coordinator, a topic. The cases A30 and A31.

use glassbroker::kafka::event::{Event, GroupEvent};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName};
use glassbroker::sim::{Command, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_with, config, tp};

const EARLIEST: &[(&str, &str)] = &[("auto.offset.reset", "earliest")];

fn polled(c: &Cluster, name: &str) -> i64 {
    let name = ClientName::new(name);
    let records = |event: &Event| match event {
        Event::Polled { client, records, .. } if *client == name => Some(*records),
        _ => None,
    };
    c.events().filter_map(records).sum()
}

/// R-GRP-2, R-INT-5: the offsets topic needs three brokers and there is one.
#[test]
fn a30_on_a_single_broker_a_group_waits_for_ever_for_its_coordinator_and_hears_of_no_error() {
    let mut c = cluster(1).topic("t", 1, 1, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    c.consumer("c1", "g", &["t"], &["poll"], EARLIEST);
    c.run_ms(60_000);
    assert_eq!(polled(&c, "c1"), 0);
    let found = c.events().any(|event| {
        matches!(
            event,
            Event::CoordinatorFound { .. }
                | Event::ClientFailed { .. }
                | Event::Group(GroupEvent::MemberAdded { .. })
        )
    });
    assert!(!found, "it goes on asking\n{}", c.report());
    let image = c.world.active_controller().expect("a controller").image();
    assert!(image.partition(&tp("__consumer_offsets-0")).is_none());
}

#[test]
fn a30_with_offsets_topic_replication_factor_1_it_reads() {
    let broker_config = config(&[("offsets.topic.replication.factor", "1")]);
    let mut c =
        cluster_with(1, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 1, 1, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    c.consumer("c1", "g", &["t"], &["poll"], EARLIEST);
    c.until("it has read all three", 20_000, |c| polled(c, "c1") == 3);
}

/// R-GRP-1, R-GRP-3: `billing` lives in partition 9 and `checkout` in partition 18 of the offsets topic.
#[test]
fn a31_when_a_broker_with_unreplicated_offsets_goes_one_group_stalls_and_the_other_goes_on() {
    let broker_config = config(&[("offsets.topic.replication.factor", "1")]);
    let mut c =
        cluster_with(2, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 1, 2, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    c.consumer("b1", "billing", &["t"], &["poll", "commit"], EARLIEST);
    c.consumer("k1", "checkout", &["t"], &["poll", "commit"], EARLIEST);
    c.until("both have read", 20_000, |c| polled(c, "b1") == 3 && polled(c, "k1") == 3);
    c.run_ms(5_000);
    let home = |c: &Cluster, partition: &str| c.registration(partition).split(' ').next().map(str::to_owned);
    let (billing, checkout) = (home(&c, "__consumer_offsets-9"), home(&c, "__consumer_offsets-18"));
    assert_eq!((billing.as_deref(), checkout.as_deref()), (Some("2"), Some("1")), "odd and even partitions");
    c.give(Command::Stop(BrokerId(2)));
    c.until("it is gone", 10_000, |c| c.world.broker(BrokerId(2)).is_none());
    c.run_ms(10_000);
    let commits = |c: &Cluster, name: &str| {
        let name = ClientName::new(name);
        c.events().filter(|e| matches!(e, Event::CommitConfirmed { client, .. } if *client == name)).count()
    };
    let before = (commits(&c, "b1"), commits(&c, "k1"));
    c.send("p", 3);
    c.until("checkout goes on", 20_000, |c| polled(c, "k1") == 6 && commits(c, "k1") > before.1);
    c.run_ms(20_000);
    assert_eq!(commits(&c, "b1"), before.0, "billing has no coordinator to commit to");
}

/// R-CONS-14.
#[test]
fn a_consumer_of_a_topic_that_is_not_there_waits_for_it() {
    let mut c = cluster(3).topic("other", 1, 3, &[]);
    let config = [
        ("auto.offset.reset", "earliest"),
        ("allow.auto.create.topics", "false"),
        ("metadata.max.age.ms", "5000"),
    ];
    c.consumer("c1", "g", &["t"], &["poll"], &config);
    c.run_ms(30_000);
    let image = c.world.active_controller().expect("a controller").image();
    assert!(image.topic(&"t".into()).is_none(), "it may not create it");
    assert!(!c.events().any(|event| matches!(event, Event::ClientFailed { .. })), "{}", c.report());
    c = c.topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    c.until("it reads", 20_000, |c| polled(c, "c1") == 3);
    let refused = |event: &Event| {
        matches!(event, Event::CommandRefused { error: ErrorCode::UnknownTopicOrPartition, .. })
    };
    assert!(!c.events().any(refused));
}

#[test]
fn a_consumer_that_may_has_its_topic_created_r_cons_14() {
    let mut c = cluster(3);
    let config = [("auto.offset.reset", "earliest"), ("metadata.max.age.ms", "5000")];
    c.consumer("c1", "g", &["t"], &["poll"], &config);
    c.run_ms(30_000);
    let image = c.world.active_controller().expect("a controller").image();
    assert!(image.topic(&"t".into()).is_some(), "nobody else asked for it");
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    c.until("it reads", 20_000, |c| polled(c, "c1") == 3);
}

#[test]
fn an_empty_groups_offsets_are_kept_for_offsets_retention_minutes() {
    let broker_config =
        config(&[("offsets.retention.minutes", "1"), ("offsets.retention.check.interval.ms", "10000")]);
    let mut c =
        cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 3);
    c.consumer("c1", "g", &["t"], &["poll", "commit"], EARLIEST);
    c.until("it has read all three", 20_000, |c| polled(c, "c1") == 3);
    c.run_ms(2_000);
    c.give(Command::Close(ClientName::new("c1")));
    let expired =
        |c: &Cluster| c.events().any(|event| matches!(event, Event::Group(GroupEvent::OffsetExpired { .. })));
    c.run_ms(55_000);
    assert!(!expired(&c), "{}", c.report());
    c.until("the offset is forgotten", 20_000, expired);
}
