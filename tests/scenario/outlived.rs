//! What a group coordinator does not know any more, and somebody else still does: states of share groups that outlive their
//! group, and a rebalance that its coordinator has taken with it (R-SHARE-3, 4, R-CG8-25).

use glassbroker::client::consumer::Line;
use glassbroker::client::share_consumer::ShareConsumerSpec;
use glassbroker::kafka::event::{Event, GroupEvent, ShareEvent};
use glassbroker::kafka::group::partition_for;
use glassbroker::kafka::share::ShareKey;
use glassbroker::kafka::types::{BrokerId, GroupId, TopicPartition};
use glassbroker::sim::{Command, Target, WorldConfig};

use crate::dsl::{Cluster, cluster_with, config, tp};
use crate::groups::owned;
use crate::rebalances::warm;
use crate::share_consumers::{share, write};

/// Three brokers of which one alone has the groups' records, and all have the states of share groups.
fn one_copy_of_groups(partitions: i32) -> Cluster {
    let broker_config =
        config(&[("offsets.topic.num.partitions", "1"), ("offsets.topic.replication.factor", "1")]);
    let features = config(&[("eligible.leader.replicas.version", "0")]);
    let c = cluster_with(3, WorldConfig { broker_config, features, ..WorldConfig::default() });
    c.topic("t", partitions, 3, &[])
}

/// The broker that coordinates group `g`.
fn coordinator(c: &Cluster) -> BrokerId {
    let image = c.world.active_controller().expect("a controller").image();
    let topic = image.topic(&"__consumer_offsets".into()).expect("groups have been");
    let partition = partition_for("g", topic.partitions.len() as i32);
    image
        .partition(&TopicPartition::new(&"__consumer_offsets".into(), partition))
        .expect("it is there")
        .leader
}

/// The one copy of the groups' records is gone.
fn lose_groups(c: &mut Cluster) {
    let broker = coordinator(c);
    c.give(Command::Kill(Target::Broker(broker)));
    c.give(Command::WipeDisk(broker));
    c.start(broker.0);
    c.until("a coordinator knows no group", 60_000, |c| {
        let groups = c.world.broker(coordinator(c)).map(|broker| broker.groups());
        groups.is_some_and(|groups| groups.share_group(&"g".into()).is_none())
    });
}

/// The epoch of the state of `g` for a partition of `t`.
fn state_epoch(c: &Cluster, partition: i32) -> Option<i32> {
    let topic_id = c.world.active_controller()?.image().topic(&"t".into())?.id;
    let key = ShareKey { group: "g".into(), topic_id, partition };
    (1..=3).find_map(|id| Some(c.world.broker(BrokerId(id))?.share_states().state(&key)?.state_epoch))
}

fn group_epoch(c: &Cluster) -> Option<i32> {
    Some(c.world.broker(coordinator(c))?.groups().share_group(&"g".into())?.base.epoch.0)
}

fn assigned(c: &Cluster, name: &str) -> usize {
    c.world.share_consumer(&name.into()).map_or(0, |consumer| consumer.assigned().len())
}

fn beginnings(c: &Cluster, partition: &str) -> Vec<i64> {
    let begun = |event: &Event| match event {
        Event::Share(ShareEvent::Begun { tp: begun, start_offset, .. }) if *begun == tp(partition) => {
            Some(start_offset.0)
        }
        _ => None,
    };
    c.events().filter_map(begun).collect()
}

/// A group of which nothing is known any more is begun anew by its members, and no less an epoch has the share coordinator
/// write a fresh state over its own: share.auto.offset.reset decides once more, and the group passes what nobody had.
#[test]
fn a_share_group_that_lost_its_records_begins_anew_and_passes_what_nobody_was_done_with_r_share_3_4() {
    let mut c = one_copy_of_groups(1);
    share(&mut c, "s1", &["poll", "process 1ms"], &[]);
    c.until("it reads", 30_000, |c| assigned(c, "s1") == 1 && !beginnings(c, "t-0").is_empty());
    write(&mut c, 5);
    c.run_ms(5_000);
    c.give(Command::Close("s1".into()));
    c.run_ms(2_000);
    write(&mut c, 20);
    let (state, group) = (state_epoch(&c, 0).expect("a state"), group_epoch(&c));
    assert!(group > Some(state), "{group:?}: who left raised it");
    lose_groups(&mut c);
    share(&mut c, "s2", &["poll", "process 1ms"], &[]);
    c.until("it reads", 60_000, |c| assigned(c, "s2") == 1);
    c.run_ms(5_000);
    assert_eq!(group_epoch(&c), Some(state + 1), "{}", c.report());
    assert_eq!(beginnings(&c, "t-0").last(), Some(&25), "5 to 24 are passed: {:?}", beginnings(&c, "t-0"));
}

/// A state of a later epoch than the group's is not begun (FENCED_STATE_EPOCH): the group asks with each heartbeat, and
/// its members have nothing until its epoch has come to the state's.
#[test]
fn a_share_group_that_lost_its_records_has_nothing_until_its_epoch_is_that_of_its_states_r_share_3() {
    let mut c = one_copy_of_groups(1);
    for name in ["a", "b", "c"] {
        subscribe(&mut c, name, "other");
        c.run_ms(2_000);
    }
    share(&mut c, "s1", &["poll", "process 1ms"], &[]);
    c.until("it reads", 30_000, |c| assigned(c, "s1") == 1);
    let state = state_epoch(&c, 0).expect("a state");
    for name in ["a", "b", "c", "s1"] {
        c.give(Command::Close(name.into()));
    }
    c.run_ms(5_000);
    lose_groups(&mut c);
    share(&mut c, "s2", &["poll", "process 1ms"], &[]);
    c.run_ms(120_000);
    assert_eq!(assigned(&c, "s2"), 0, "{}", c.report());
    assert!(group_epoch(&c) < Some(state), "{:?} and {state}", group_epoch(&c));
    let mut names = 0;
    while group_epoch(&c) < Some(state) {
        names += 1;
        subscribe(&mut c, &format!("more-{names}"), "other");
        c.run_ms(2_000);
    }
    c.until("it reads", 30_000, |c| assigned(c, "s2") == 1);
}

fn subscribe(c: &mut Cluster, name: &str, topic: &str) {
    c.give(Command::AddShareConsumer(ShareConsumerSpec {
        name: name.into(),
        group: "g".into(),
        topics: vec![topic.into()],
        program: Line::parse_program(&["poll"]).expect("a program"),
        config: config(&[]),
    }));
}

/// A downgrade writes down the classic group and keeps the rebalance that shall follow in memory: whoever takes over finds
/// a stable group, and what the gone member had is nobody's until somebody comes or goes.
#[test]
fn a_rebalance_that_a_downgrade_has_begun_is_forgotten_with_its_coordinator_r_cg8_25() {
    let mut c = warm(&[("t", 2)]);
    c.consumer("c1", "g", &["t"], &["poll"], &[]);
    c.until("it owns all", 15_000, |c| owned(c, "c1").len() == 2);
    c.consumer("c2", "g", &["t"], &["poll"], &[("group.protocol", "consumer")]);
    c.until("each owns one", 30_000, |c| owned(c, "c1").len() == 1 && owned(c, "c2").len() == 1);
    c.run_ms(2_000);
    c.give(Command::Crash("c2".into()));
    c.until_event("the group is classic again", 60_000, |event| {
        matches!(event, Event::Group(GroupEvent::GroupConverted { classic: true, .. }))
    });
    c.run_ms(50);
    let dead = coordinator(&c);
    c.kill(dead.0);
    c.until("another one takes over", 30_000, |c| coordinator(c) != dead && coordinator(c).is_some());
    c.run_ms(120_000);
    assert_eq!(owned(&c, "c1").len(), 1, "{}", c.report());
    let groups = c.world.broker(coordinator(&c)).expect("it lives").groups();
    let group = groups.group(&GroupId::new("g")).expect("a classic group");
    assert_eq!((group.state.name(), group.members.len()), ("Stable", 1), "{}", c.report());
    c.give(Command::Close("c1".into()));
    c.run_ms(5_000);
    c.consumer("c1", "g", &["t"], &["poll"], &[]);
    c.until("it owns all", 30_000, |c| owned(c, "c1").len() == 2);
}
