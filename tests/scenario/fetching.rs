//! How replicas and brokers behave between the worked examples: what a follower asks, when it does not, and what a
//! broker that was cut off still does.

use glassbroker::kafka::effects::Channel;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::Request;
use glassbroker::kafka::types::{BrokerId, ControllerId, LeaderEpoch, NodeId, Offset};
use glassbroker::sim::{Command, Packet, Target};
use kafka_protocol::messages::FetchRequest;

use crate::dsl::{Cluster, cluster, config, ids, tp};

const LOOSE: &[(&str, &str)] = &[("acks", "1"), ("enable.idempotence", "false")];

/// The fetches of a follower that are under way.
fn fetches(c: &Cluster, follower: i32) -> Vec<FetchRequest> {
    let fetch = |packet: &Packet| match packet {
        Packet::Request { request, .. } => match &**request {
            Request::Fetch(fetch) => Some(fetch.clone()),
            _ => None,
        },
        _ => None,
    };
    c.world
        .flights()
        .filter(|flight| {
            flight.channel == Channel::ReplicaFetcher && flight.from == NodeId::Broker(BrokerId(follower))
        })
        .filter_map(|flight| fetch(&flight.packet))
        .collect()
}

/// R-REPL-6.
#[test]
fn a_follower_asks_from_its_log_end_with_its_epochs_and_waits_half_a_second_for_a_byte() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.kill(1);
    c.until("broker 2 leads", 12_000, |c| c.registration("t-0") == "2 e1 isr[2,3]");
    c.send("p", 5);
    c.run_ms(1_000);
    c.send("p", 1);
    c.until("broker 3 asks for more", 1_000, |c| {
        fetches(c, 3)
            .iter()
            .any(|fetch| fetch.topics.iter().any(|topic| topic.partitions[0].fetch_offset == 6))
    });
    let fetch = fetches(&c, 3).pop().expect("under way");
    assert_eq!((fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes), (500, 1, 10_485_760));
    assert_eq!(fetch.replica_state.replica_id.0, 3);
    let asked = &fetch.topics[0].partitions[0];
    let (epochs, start) = ((asked.current_leader_epoch, asked.last_fetched_epoch), asked.log_start_offset);
    assert_eq!((epochs, start, asked.partition_max_bytes), ((1, 1), 0, 1_048_576));
}

/// R-REPL-39.
#[test]
fn a_follower_of_a_partition_without_leader_does_not_ask_until_there_is_one() {
    let mut c = cluster(2).topic("t", 1, 2, &[]);
    c.producer("p", "t", "100/s", LOOSE);
    c.cut(1, 2);
    c.send("p", 1);
    c.until("2 is out", 60_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.kill(1);
    c.until("nobody leads", 12_000, |c| c.registration("t-0").starts_with("-1 "));
    c.heal(1, 2);
    c.run_ms(1_000);
    let end = c.world.now().plus_ms(10_000);
    while c.world.next_at().is_some_and(|at| at <= end) {
        c.world.step();
        let asked = c.world.broker(BrokerId(2)).expect("it runs").replicas().idle_fetchers();
        assert_eq!((fetches(&c, 2), asked), (Vec::new(), Vec::new()), "{}", c.report());
    }
    c.start(1);
    c.until("it asks again", 20_000, |c| !fetches(c, 2).is_empty());
}

/// R-REPL-51.
#[test]
fn a_broker_is_in_service_when_it_has_replayed_its_own_registration() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.kill(3);
    c.until("broker 3 is fenced", 12_000, |c| !c.is_in_service(3));
    c.start(3);
    c.until_event("it is registered", 5_000, |event| {
        matches!(event, Event::BrokerRegistered { broker: BrokerId(3), .. })
    });
    assert!(!c.is_in_service(3), "fenced at first");
    c.until("it is unfenced", 5_000, |c| c.is_in_service(3));
    let image = c.world.active_controller().expect("a controller").image();
    let epoch = image.brokers[&BrokerId(3)].epoch;
    let replayed = c.world.broker(BrokerId(3)).expect("it runs").image().next_offset;
    assert!(replayed.0 > epoch.0, "its epoch {epoch} is the offset of its registration: {replayed}");
}

/// R-REPL-53: broker 1 is cut off from everybody but the clients, fenced, and does not know.
#[test]
fn a_leader_that_is_cut_off_takes_acks_1_writes_that_are_lost_and_commits_nothing() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("one", "t", "100/s", LOOSE);
    c.producer("all", "t", "100/s", &[]);
    // Both know broker 1 as the leader.
    c.send("one", 1);
    c.send("all", 4);
    c.run_ms(2_000);
    let broker = |id| Target::Broker(BrokerId(id));
    let others = [broker(2), broker(3), Target::Controller(ControllerId(101))];
    for b in others.clone() {
        c.give(Command::Cut { a: broker(1), b });
    }
    c.until("broker 2 leads", 15_000, |c| c.registration("t-0") == "2 e1 isr[2,3]");
    c.send("one", 1);
    c.send("all", 1);
    c.run_ms(5_000);
    assert!(c.partition(1, "t-0").expect("a replica").is_leader(), "it believes so");
    let counts = |c: &Cluster, name: &str| c.producer_state(name).counts().acknowledged;
    assert_eq!((counts(&c, "one"), counts(&c, "all")), (2, 4), "{}", c.replicas("t-0"));
    assert_eq!(c.partition(1, "t-0").expect("a replica").log.high_watermark(), Offset(5));
    let lost = c.values(1, "t-0", 5);
    for b in others {
        c.give(Command::Heal { a: broker(1), b });
    }
    c.until_event("it truncates", 30_000, |event| {
        matches!(event, Event::Truncated { broker: BrokerId(1), to: Offset(5), .. })
    });
    c.until("the acks=all record is written to the new leader", 60_000, |c| counts(c, "all") == 5);
    c.until("all agree", 20_000, |c| c.replicas("t-0") == "1:6/6 2:6/6 3:6/6");
    assert_ne!(c.values(2, "t-0", 5)[0], lost[0], "what acks=1 was promised is gone");
    assert_eq!(c.partition(1, "t-0").expect("a replica").leader_epoch, LeaderEpoch(1));
}

/// R-PLACE-6.
#[test]
fn a_new_partition_begins_with_its_replicas_that_are_in_service_and_the_first_of_them_leads() {
    let mut c = cluster(3);
    c.kill(1);
    c.until("broker 1 is fenced", 12_000, |c| !c.is_in_service(1));
    let (topic, config) = ("t".into(), config(&[]));
    c.give(Command::CreateTopic { topic, partitions: 1, replication_factor: 3, config });
    c.run_ms(1_000);
    let image = c.world.active_controller().expect("a controller").image();
    let partition = image.partition(&tp("t-0")).expect("created");
    assert_eq!(partition.replicas, ids(&[2, 3, 1]), "R-PLACE-2: who is fenced comes last");
    assert_eq!(c.registration("t-0"), "2 e0 isr[2,3]");
}
