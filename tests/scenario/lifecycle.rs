//! Brokers that come and go, and what their parts know meanwhile.

use glassbroker::kafka::broker::{Broker, BrokerState};
use glassbroker::kafka::effects::Channel;
use glassbroker::kafka::event::{Event, GroupEvent, MemberRemoval};
use glassbroker::kafka::protocol::ApiKey;
use glassbroker::kafka::replication::Partition;
use glassbroker::kafka::replication::purgatory::Operation;
use glassbroker::kafka::types::{BrokerId, ControllerId, NodeId, Offset};
use glassbroker::sim::{Command, Target, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_with, config, tp};

const LOOSE: &[(&str, &str)] = &[("acks", "1"), ("enable.idempotence", "false")];
const CONTROLLER: Target = Target::Controller(ControllerId(101));

fn broker(id: i32) -> Target {
    Target::Broker(BrokerId(id))
}

/// Ten records on all three replicas of t-0, leader 1, written with acks=1.
fn ten_records(pairs: &[(&str, &str)]) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, pairs);
    c.producer("p", "t", "100/s", LOOSE);
    c.send("p", 10);
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "1:10/10 2:10/10 3:10/10");
    c
}

#[test]
fn a_broker_that_starts_again_within_its_session_takes_up_its_earlier_life_behind_a_closed_port() {
    let mut c = ten_records(&[]);
    c.kill(1);
    c.kill(2);
    c.run_ms(100);
    c.start(1);
    c.start(2);
    let serves = |c: &Cluster, id: i32| c.world.broker(BrokerId(id)).is_some_and(Broker::is_listening);
    let end = c.world.now().plus_ms(8_000);
    while c.world.next_at().is_some_and(|at| at <= end) {
        c.world.step();
        assert!(!serves(&c, 1) && !serves(&c, 2), "R-REPL-57: they wait for their sessions to end");
    }
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2,3]");
    assert!(c.partition(1, "t-0").is_some_and(Partition::is_leader), "the metadata log says so");
    c.until("broker 1 is caught up", 10_000, |c| {
        c.world.broker(BrokerId(1)).is_some_and(|broker| broker.state() == BrokerState::Recovery)
    });
    assert!(!serves(&c, 1), "the port opens when the broker is unfenced");
    c.until("all are back", 30_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
    assert!(serves(&c, 1) && serves(&c, 2));
}

#[test]
fn the_broker_epoch_is_where_the_write_of_its_registration_begins() {
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    c.kill(2);
    c.kill(3);
    c.until("only broker 1 is in sync", 15_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    let image = c.world.active_controller().expect("a controller").image();
    assert_eq!(image.partition(&tp("t-0")).expect("it exists").elr, [BrokerId(3)], "R-REPL-45");
    c.start(3);
    c.until_event("broker 3 is registered again", 5_000, |event| {
        matches!(event, Event::BrokerRegistered { broker: BrokerId(3), .. })
    });
    let image = c.world.active_controller().expect("a controller").image();
    let known = &image.brokers[&BrokerId(3)];
    assert_eq!(known.registered_at.0 - known.epoch.0, 1, "R-REPL-56: it is taken out of the ELR first");
    c.until("it is in sync again", 10_000, |c| c.registration("t-0") == "1 e0 isr[1,3]");
}

#[test]
fn a_lower_min_insync_replicas_moves_the_high_watermark_at_the_next_append() {
    let mut c = ten_records(&[("min.insync.replicas", "2")]);
    c.kill(2);
    c.kill(3);
    c.until("only broker 1 is in sync", 15_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.send("p", 1);
    c.run_ms(500);
    assert_eq!(c.replicas("t-0"), "1:11/10", "R-REPL-13");
    c.give(Command::SetTopicConfig {
        topic: "t".into(),
        key: "min.insync.replicas".into(),
        value: Some("1".into()),
    });
    c.run_ms(3_000);
    assert_eq!(c.replicas("t-0"), "1:11/10", "R-REPL-14: a config is no reason to look at it");
    c.send("p", 1);
    c.run_ms(500);
    assert_eq!(c.replicas("t-0"), "1:12/12");
}

#[test]
fn the_min_insync_replicas_of_the_servers_files_becomes_the_cluster_s() {
    let broker_config = config(&[("min.insync.replicas", "2")]);
    let c = cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() });
    let mut c = c.topic("plain", 1, 3, &[]).topic("own", 1, 3, &[("min.insync.replicas", "1")]);
    let min_isr = |c: &Cluster, name: &str| {
        c.world
            .active_controller()
            .expect("a controller")
            .image()
            .effective_min_isr(&tp(name).topic, c.world.broker_config())
    };
    assert_eq!((min_isr(&c, "plain-0"), min_isr(&c, "own-0")), (2, 1), "R-LOG-53, R-REPL-48");
    c.give(Command::SetTopicConfig { topic: "own".into(), key: "min.insync.replicas".into(), value: None });
    c.run_ms(1_000);
    assert_eq!(min_isr(&c, "own-0"), 2);
}

#[test]
fn another_min_insync_replicas_forgets_eligible_replicas_and_the_last_known_leader() {
    let mut c = cluster(4).topic("t", 1, 3, &[("min.insync.replicas", "2")]);
    let registration = |c: &Cluster| {
        let image = c.world.active_controller().expect("a controller").image();
        image.partition(&tp("t-0")).expect("it exists").clone()
    };
    let set = |c: &mut Cluster, value: &str| {
        let (key, value) = ("min.insync.replicas".to_string(), Some(value.to_string()));
        c.give(Command::SetTopicConfig { topic: "t".into(), key, value });
        c.run_ms(1_000);
    };
    let replicas = registration(&c).replicas.clone();
    replicas.iter().for_each(|id| c.kill(id.0));
    c.until("nobody leads", 15_000, |c| !registration(c).leader.is_some());
    let before = registration(&c);
    assert!(!before.elr.is_empty() && before.last_known_elr.len() == 1, "R-REPL-45, 46: {before:?}");
    set(&mut c, "2");
    assert_eq!(registration(&c), before, "the value that it has changes nothing");
    set(&mut c, "1");
    let after = registration(&c);
    assert!(after.elr.is_empty() && after.last_known_elr.is_empty(), "R-REPL-48: {after:?}");
    replicas.iter().for_each(|id| c.start(id.0));
    c.run_ms(30_000);
    assert!(!registration(&c).leader.is_some(), "nobody is entitled to lead any more");
}

#[test]
fn a_consumer_past_the_high_watermark_of_a_new_leader_does_not_wait() {
    let mut c = ten_records(&[]);
    c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    let position = |c: &Cluster| c.consumer_state("reader").subscription().position(&tp("t-0"));
    c.until("it has read all ten", 20_000, |c| position(c).is_some_and(|p| p.offset == Offset(10)));
    // Broker 2 learns of offset 10 and not that it is committed; it cannot hear of broker 3 as leader.
    c.send("p", 1);
    c.until("the reader has it", 1_000, |c| position(c).is_some_and(|p| p.offset == Offset(11)));
    assert_eq!(c.partition(2, "t-0").expect("a replica").log.high_watermark(), Offset(10), "R-REPL-15");
    c.kill(1);
    c.cut(2, 3);
    c.until("broker 2 leads", 15_000, |c| c.registration("t-0") == "2 e1 isr[2,3]");
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "2:11/10 3:11/10");
    let waits = |c: &Cluster| {
        let purgatory = c.world.broker(BrokerId(2)).expect("it runs").replicas().purgatory();
        purgatory.iter().any(|(_, waiting)| match &waiting.operation {
            Operation::Fetch(parked) => parked.fetch.replica_state.replica_id.0 < 0,
            Operation::Produce(_) | Operation::DeleteRecords(_) | Operation::Markers(_) => false,
        })
    };
    let end = c.world.now().plus_ms(1_000);
    while c.world.next_at().is_some_and(|at| at <= end) {
        c.world.step();
        assert!(!waits(&c), "DelayedFetch: it takes the log for one that was truncated");
    }
    c.heal(2, 3);
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "2:11/11 3:11/11");
    c.until("now it waits for the next record", 1_000, waits);
    assert_eq!(position(&c).map(|p| p.offset), Some(Offset(11)));
}

#[test]
fn a_fenced_follower_asks_no_more_until_it_hears_of_the_new_epoch() {
    let mut c = ten_records(&[]);
    c.give(Command::Freeze(broker(1)));
    c.give(Command::Cut { a: broker(3), b: CONTROLLER });
    c.until("broker 2 leads", 15_000, |c| c.registration("t-0") == "2 e1 isr[2]");
    c.give(Command::Thaw(broker(1)));
    c.until("broker 1 knows it", 2_000, |c| c.partition(1, "t-0").is_some_and(|p| p.leader_epoch.0 == 1));
    c.run_ms(2_000);
    let end = c.world.now().plus_ms(5_000);
    while c.world.next_at().is_some_and(|at| at <= end) {
        c.world.step();
        let asks = c.world.flights().any(|flight| {
            let fetch = flight.channel == Channel::ReplicaFetcher && flight.api() == Some(ApiKey::Fetch);
            fetch && flight.from == NodeId::Broker(BrokerId(3))
        });
        assert!(!asks, "R-REPL-38: it is marked failed\n{}", c.report());
    }
    c.give(Command::Heal { a: broker(3), b: CONTROLLER });
    c.until("all are in sync", 20_000, |c| c.registration("t-0") == "2 e1 isr[1,2,3]");
}

#[test]
fn a_coordinator_that_thaws_hears_the_heartbeats_before_it_misses_them() {
    let mut c = ten_records(&[]);
    let session = [("session.timeout.ms", "6000"), ("heartbeat.interval.ms", "1000")];
    c.consumer("a", "billing", &["t"], &["poll"], &session);
    let owns = |c: &Cluster| c.consumer_state("a").subscription().owned().len() == 1;
    c.until("it owns the partition", 20_000, owns);
    c.run_ms(2_000);
    let image = c.world.active_controller().expect("a controller").image();
    let home = image.partition(&tp("__consumer_offsets-9")).expect("R-GRP-1").leader;
    c.give(Command::Freeze(broker(home.0)));
    c.run_ms(7_000);
    c.give(Command::Thaw(broker(home.0)));
    c.run_ms(3_000);
    let expired = c.events().any(|event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { reason: MemberRemoval::SessionExpired, .. }))
    });
    assert!(!expired, "what came first is done first\n{}", c.report());
}

#[test]
fn a_broker_finds_its_metadata_log_again_and_replays_it_when_it_hears_what_is_committed() {
    let mut c = ten_records(&[]);
    let known = |c: &Cluster| {
        let broker = c.world.broker(BrokerId(3)).expect("it runs");
        (broker.raft().log().end_offset(), broker.image().next_offset)
    };
    let before = known(&c);
    assert!(before.0 > Offset::ZERO && before.0 == before.1, "R-CTRL-8: {before:?}");
    c.kill(3);
    c.run_ms(1_000);
    c.start(3);
    assert_eq!(
        known(&c),
        (before.0, Offset::ZERO),
        "__cluster_metadata is on its disk, and no high watermark"
    );
    c.until("it has read on from there", 20_000, |c| known(c).1 > before.1 && known(c).0 == known(c).1);
    c.until("it serves", 20_000, |c| c.world.broker(BrokerId(3)).is_some_and(Broker::is_listening));
}
