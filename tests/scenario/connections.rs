//! Connections as clients know them.

use glassbroker::kafka::event::Event;
use glassbroker::kafka::types::{BrokerId, ClientName, NodeId};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster};

fn producing() -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "20/s", &[]);
    c.give(Command::Resume("p".into()));
    c.run_ms(1_000);
    c
}

fn lost(event: &Event) -> bool {
    matches!(event, Event::ConnectionLost { client, node: NodeId::Broker(BrokerId(1)), .. } if client.as_str() == "p")
}

#[test]
fn a_dead_process_is_noticed_at_once() {
    let mut c = producing();
    c.kill(1);
    let killed = c.now_ms();
    let noticed = c.until_event("the connection is reset", 1_000, lost);
    assert_eq!(noticed - killed, 2, "one latency later");
}

#[test]
fn a_frozen_process_is_only_silence_until_the_request_timeout() {
    let mut c = producing();
    c.give(Command::Freeze(Target::Broker(BrokerId(1))));
    let frozen = c.now_ms();
    let noticed = c.until_event("the request times out", 40_000, |event| {
        matches!(event, Event::RequestTimedOut { node: NodeId::Broker(BrokerId(1)), .. })
    });
    assert!((29_000..=30_200).contains(&(noticed - frozen)), "R-PROD-16: {}", noticed - frozen);
}

#[test]
fn a_cut_link_is_only_silence_and_what_was_sent_arrives_when_it_heals_in_time() {
    let mut c = producing();
    let (client, broker) = (Target::Client(ClientName::new("p")), Target::Broker(BrokerId(1)));
    c.give(Command::Cut { a: client.clone(), b: broker.clone() });
    c.run_ms(10_000);
    let before = c.producer_state("p").counts().acknowledged;
    c.give(Command::Heal { a: client, b: broker });
    c.run_ms(2_000);
    let counts = c.producer_state("p").counts();
    assert!(counts.acknowledged > before + 150, "{counts:?}");
    assert!(!c.events().any(lost), "the connection lived through it");
}

#[test]
fn a_client_comes_back_to_a_broker_that_was_restarted() {
    let mut c = cluster(1).topic("t", 1, 1, &[]);
    c.producer("p", "t", "20/s", &[]);
    c.give(Command::Resume("p".into()));
    c.run_ms(1_000);
    c.kill(1);
    c.run_ms(15_000);
    c.start(1);
    c.run_ms(15_000);
    c.give(Command::Pause("p".into()));
    c.run_ms(2_000);
    let counts = c.producer_state("p").counts();
    assert_eq!(counts.acknowledged, counts.sent, "{}", c.report());
    assert_eq!(c.values(1, "t-0", 0).len() as i64, counts.sent, "the log outlived the process");
}

#[test]
fn what_a_cut_held_is_not_overtaken_by_what_was_on_its_way_when_it_healed() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    let many = [
        ("acks", "1"),
        ("enable.idempotence", "false"),
        ("max.in.flight.requests.per.connection", "50"),
        ("linger.ms", "0"),
    ];
    c.producer("p", "t", "1000/s", &many);
    c.give(Command::Resume("p".into()));
    c.run_ms(20);
    let (a, b) = (Target::Client("p".into()), Target::Broker(BrokerId(1)));
    for _ in 0..5 {
        c.give(Command::Cut { a: a.clone(), b: b.clone() });
        c.run_ms(3);
        c.give(Command::Heal { a: a.clone(), b: b.clone() });
        c.run_ms(20);
    }
    c.give(Command::Pause("p".into()));
    c.run_ms(1_000);
    let counts = c.producer_state("p").counts();
    assert_eq!((counts.acknowledged, counts.failed), (counts.sent, 0));
    let numbers: Vec<i64> = c
        .values(1, "t-0", 0)
        .iter()
        .filter_map(|value| value.strip_prefix("{\"n\":")?.split(',').next()?.parse().ok())
        .collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(numbers.len() as i64, counts.sent);
}
