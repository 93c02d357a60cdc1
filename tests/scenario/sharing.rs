//! Who of a group reads what: idle members, two applications under one name, keys that share a partition
//! (A01, A02, A03, A36).

use glassbroker::client::producer::ProducerSpec;
use glassbroker::client::producer::workload::ValuePattern;
use glassbroker::kafka::event::{Event, GroupEvent, GroupState, MemberRemoval};
use glassbroker::kafka::types::{BrokerId, ClientName, GroupId};
use glassbroker::sim::{Command, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_with, config};
use crate::groups::owned;

const EARLIEST: (&str, &str) = ("auto.offset.reset", "earliest");

fn member(c: &mut Cluster, name: &str, group: &str, topics: &[&str], more: &[(&str, &str)]) {
    c.consumer(name, group, topics, &["poll", "process 1ms"], &[&[EARLIEST], more].concat());
}

/// Writes `records` records under keys of this pattern, and waits until they are acknowledged.
fn write(c: &mut Cluster, topic: &str, keys: &str, records: i64) {
    let keys = keys.parse().expect("a key pattern");
    c.give(Command::AddProducer(ProducerSpec {
        name: "p".into(),
        topic: topic.into(),
        rate: "100/s".parse().expect("a rate"),
        value: ValuePattern::for_keys(&keys),
        keys,
        partition: None,
        value_size: None,
        transactions: None,
        config: config(&[]),
    }));
    c.until("the records are sent", 60_000, |c| c.producer_state("p").counts().sent >= records);
    c.give(Command::Pause("p".into()));
    c.until("they are acknowledged", 10_000, |c| c.producer_state("p").counts().acknowledged == records);
}

/// How many records a consumer has finished.
fn processed(c: &Cluster, name: &str) -> usize {
    let by = ClientName::new(name);
    c.events().filter(|event| matches!(event, Event::Processed { client, .. } if *client == by)).count()
}

fn records_in(c: &Cluster, partition: &str) -> i64 {
    c.partition(1, partition).map_or(0, |replica| replica.log.high_watermark().0)
}

/// The group's members at its coordinator, whichever broker that is.
fn members(c: &Cluster, group: &str) -> usize {
    let group = GroupId::new(group);
    let found = (1..=3).find_map(|id| c.world.broker(BrokerId(id))?.groups().group(&group));
    found.map_or(0, |group| group.members.len())
}

/// A01: what c1, c3 and c4 own after c2 died. Before, c4 has nothing.
fn the_fourth_takes_over(strategy: &str) -> [Vec<String>; 3] {
    let mut c = cluster(3).topic("orders", 3, 3, &[]);
    for name in ["c1", "c2", "c3", "c4"] {
        member(&mut c, name, "g", &["orders"], &[("partition.assignment.strategy", strategy)]);
    }
    c.until("three own one each", 60_000, |c| {
        ["c1", "c2", "c3", "c4"].iter().map(|name| owned(c, name).len()).sum::<usize>() == 3
            && members(c, "g") == 4
    });
    c.run_ms(60_000);
    let idle = ["c1", "c2", "c3", "c4"].map(|name| owned(&c, name));
    assert_eq!(idle, [vec!["orders-0"], vec!["orders-1"], vec!["orders-2"], vec![]], "R-ASG-1, {strategy}");
    assert_eq!(members(&c, "g"), 4, "it heartbeats and stays, with nothing");
    c.give(Command::Crash("c2".into()));
    c.until_event("its session ends (R-GRP-21)", 45_100, |event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { client, reason: MemberRemoval::SessionExpired, .. }) if client.as_str() == "c2")
    });
    c.run_ms(10_000);
    ["c1", "c3", "c4"].map(|name| owned(&c, name))
}

#[test]
fn a01_range_hands_two_partitions_on_when_one_of_four_readers_dies_r_asg_1() {
    assert_eq!(the_fourth_takes_over("range"), [["orders-0"], ["orders-1"], ["orders-2"]]);
}

#[test]
fn a01_cooperative_sticky_hands_one_on_to_the_idle_member_r_grp_30() {
    assert_eq!(the_fourth_takes_over("cooperative-sticky"), [["orders-0"], ["orders-2"], ["orders-1"]]);
}

#[test]
fn a02_two_applications_under_one_group_name_share_the_records_under_two_names_both_read_all() {
    for (groups, each_reads_all) in [(["svc", "svc"], false), (["svc-a", "svc-b"], true)] {
        let mut c = cluster(3).topic("orders", 2, 3, &[]);
        member(&mut c, "a1", groups[0], &["orders"], &[]);
        member(&mut c, "b1", groups[1], &["orders"], &[]);
        let total = if each_reads_all { 4 } else { 2 };
        c.until("both are in", 60_000, |c| owned(c, "a1").len() + owned(c, "b1").len() == total);
        c.run_ms(1_000);
        write(&mut c, "orders", "cart-{0..9}", 10);
        c.run_ms(10_000);
        let halves = ["orders-0", "orders-1"].map(|name| records_in(&c, name) as usize);
        assert!(halves[0] > 0 && halves[1] > 0 && halves[0] + halves[1] == 10, "{halves:?}");
        let read = ["a1", "b1"].map(|name| processed(&c, name));
        assert_eq!(read, if each_reads_all { [10, 10] } else { halves }, "{groups:?}");
        assert!(
            !c.events().any(|event| matches!(event, Event::ClientFailed { .. } | Event::CommitFailed { .. }))
        );
    }
}

#[test]
fn a02_members_that_read_other_topics_keep_them_apart_and_rebalance_each_other_r_asg_1() {
    let mut c = cluster(3).topic("orders", 2, 3, &[]).topic("payments", 2, 3, &[]);
    member(&mut c, "a1", "svc", &["orders"], &[]);
    member(&mut c, "b1", "svc", &["payments"], &[]);
    c.until("both own their own", 60_000, |c| {
        owned(c, "a1") == ["orders-0", "orders-1"] && owned(c, "b1") == ["payments-0", "payments-1"]
    });
    c.run_ms(1_000);
    let generation = |c: &Cluster| c.consumer_state("a1").membership().identity.generation;
    let before = generation(&c);
    c.give(Command::Close("b1".into()));
    c.run_ms(10_000);
    assert!(generation(&c) > before, "a restart of the one is a rebalance of the other");
    assert_eq!(owned(&c, "a1"), ["orders-0", "orders-1"]);
}

#[test]
fn a03_keys_that_share_a_partition_keep_one_of_three_consumers_busy_r_prod_10() {
    let mut c = cluster(3).topic("events", 3, 3, &[]);
    for name in ["c1", "c2", "c3"] {
        member(&mut c, name, "g", &["events"], &[]);
    }
    c.until("each owns one", 60_000, |c| ["c1", "c2", "c3"].iter().all(|name| owned(c, name).len() == 1));
    c.run_ms(1_000);
    write(&mut c, "events", "cust-{1..3}", 30);
    c.run_ms(10_000);
    let ends = ["events-0", "events-1", "events-2"].map(|name| records_in(&c, name));
    assert_eq!(ends, [0, 30, 0], "murmur2 puts all three keys there");
    assert_eq!(["c1", "c2", "c3"].map(|name| processed(&c, name)), [0, 30, 0]);
    member(&mut c, "c4", "g", &["events"], &[]);
    c.run_ms(10_000);
    assert_eq!(owned(&c, "c4"), [""; 0], "a fourth has nothing to do");
}

/// When the first generations of `g` were formed, in milliseconds after its first member joined; the second joins 2 s later.
fn generations_after(delay_ms: &str) -> Vec<i64> {
    let broker_config = config(&[("group.initial.rebalance.delay.ms", delay_ms)]);
    let mut c =
        cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 2, 3, &[]);
    c.consumer("warm-up", "other", &["t"], &["poll"], &[]);
    c.run_ms(8_000);
    let joined = |client: &'static str| move |event: &Event| matches!(event, Event::Group(GroupEvent::MemberAdded { client: by, .. }) if by.as_str() == client);
    c.consumer("c1", "g", &["t"], &["poll"], &[]);
    let first = c.until_event("c1 joins", 2_000, joined("c1"));
    c.until("2 s pass", 3_000, |c| c.now_ms() >= first + 1_950);
    c.consumer("c2", "g", &["t"], &["poll"], &[]);
    c.run_ms(12_000);
    let formed = |event: &Event| matches!(event, Event::Group(GroupEvent::GroupStateChanged { group, to: GroupState::CompletingRebalance, .. }) if group.as_str() == "g");
    c.entries().filter(|entry| formed(&entry.event)).map(|entry| entry.key.time.ms() - first).collect()
}

#[test]
fn a36_who_joins_within_the_initial_delay_prolongs_it_once_more_r_grp_12() {
    assert_eq!(generations_after("3000"), [6_000], "one generation, with both");
}

#[test]
fn a36_without_the_delay_the_first_member_begins_at_once_and_the_second_makes_a_second_generation_r_grp_12() {
    let formed = generations_after("0");
    assert_eq!((formed.len(), formed[0]), (2, 0), "{formed:?}");
    // The first hears of it by its next heartbeat (R-GRP-23).
    assert!((2_000..=5_100).contains(&formed[1]), "{formed:?}");
}
