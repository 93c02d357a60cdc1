//! Consumers that read from a follower in their own rack (KIP-392).

use glassbroker::kafka::event::Event;
use glassbroker::kafka::types::BrokerId;
use glassbroker::sim::WorldConfig;
use glassbroker::swarm::watch::Watch;

use crate::dsl::*;

const SELECTOR: (&str, &str) =
    ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector");

/// Brokers 1, 2 and 3 in racks a, b and c; t-0 on all of them; a reader in the rack of one that does not lead it. The
/// leader and that follower.
fn with_reader(broker_config: &[(&str, &str)]) -> (Cluster, i32, i32) {
    let broker_config = config(broker_config);
    let mut c = racked(3, WorldConfig { broker_config, ..WorldConfig::default() }).topic("t", 1, 3, &[]);
    let leads = |id: &i32| c.partition(*id, "t-0").is_some_and(|replica| replica.is_leader());
    let leader = (1..=3).find(leads).expect("a leader");
    let follower = leader % 3 + 1;
    let rack = ["a", "b", "c"][follower as usize - 1];
    c.producer("p", "t", "10/s", &[]);
    let reader = [("auto.offset.reset", "earliest"), ("client.rack", rack)];
    c.consumer("reader", "g", &["t"], &["poll"], &reader);
    (c, leader, follower)
}

fn position(c: &Cluster) -> i64 {
    c.consumer_state("reader").subscription().position(&tp("t-0")).map_or(-1, |position| position.offset.0)
}

fn fetches_from(c: &Cluster, broker: i32) -> bool {
    c.consumer_state("reader").fetcher().in_flight().contains(&BrokerId(broker))
}

#[test]
fn a_consumer_reads_from_its_own_rack_up_to_that_follower_s_high_watermark_r_repl_64() {
    let (mut c, _, follower) = with_reader(&[SELECTOR]);
    let mut watch = Watch::default();
    c.until_event(
        "the leader names the follower",
        20_000,
        |event| matches!(event, Event::ReadReplicaChosen { replica, .. } if replica.0 == follower),
    );
    c.send("p", 20);
    let end = c.world.now().plus_ms(3_000);
    while c.world.next_at().is_some_and(|at| at <= end) {
        c.world.step();
        let known = c.partition(follower, "t-0").expect("a replica").log.high_watermark();
        assert!(
            position(&c) <= known.0,
            "R-LOG-25: it sees nothing that its replica does not know as committed"
        );
        if c.world.now().ms() % 50 == 0 {
            assert_eq!(watch.everything(&c.world), Ok(()), "{}", c.report());
        }
    }
    assert_eq!((position(&c), fetches_from(&c, follower)), (20, true));
}

#[test]
fn a_reader_whose_replica_dies_goes_back_to_the_leader_and_returns_when_it_is_in_sync_again() {
    let (mut c, leader, follower) = with_reader(&[SELECTOR]);
    c.until("it reads in its rack", 20_000, |c| fetches_from(c, follower));
    c.kill(follower);
    c.send("p", 5);
    c.until("it reads from the leader", 20_000, |c| position(c) == 5 && fetches_from(c, leader));
    c.start(follower);
    c.until("it reads in its rack again", 30_000, |c| fetches_from(c, follower));
    c.send("p", 5);
    c.until("it has all", 5_000, |c| position(c) == 10);
    assert!(!fetches_from(&c, leader));
}

#[test]
fn without_a_selector_or_another_replica_there_the_leader_serves_all_r_repl_62() {
    let (mut c, leader, _) = with_reader(&[]);
    c.send("p", 5);
    c.until("it has all", 20_000, |c| position(c) == 5);
    c.run_ms(1_000);
    assert!(fetches_from(&c, leader));
    assert!(!c.events().any(|event| matches!(event, Event::ReadReplicaChosen { .. })));
    let wrong = WorldConfig {
        broker_config: config(&[("replica.selector.class", "com.example.Nearest")]),
        ..WorldConfig::default()
    };
    let refused = glassbroker::sim::World::new(wrong).expect_err("no such class").to_string();
    assert!(refused.contains("Class com.example.Nearest cannot be found"), "{refused}");
}
