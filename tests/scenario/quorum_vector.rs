//! The six situations of `15_quorum.json`, which Kafka 4.3.1 ran one after the other on one cluster: which requests are
//! answered, which fail and how, and what the status shows. Times are the run's own; so are offsets and epochs.

use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::raft::QuorumRole;
use glassbroker::kafka::types::{BrokerId, ControllerId, NodeId, Offset, Topic};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, config, controller, quorum, tp};

const SERVERS: &[(&str, &str)] = &[
    ("broker.session.timeout.ms", "3000"),
    ("broker.heartbeat.interval.ms", "500"),
    ("replica.lag.time.max.ms", "4000"),
    ("offsets.topic.num.partitions", "3"),
];
const PRODUCER: &[(&str, &str)] =
    &[("delivery.timeout.ms", "6000"), ("request.timeout.ms", "2000"), ("max.block.ms", "6000")];
const PARTITIONS: [&str; 3] = ["t-0", "t-1", "t-2"];

/// `kafka-metadata-quorum.sh describe --status`.
#[derive(Debug, PartialEq)]
struct Status {
    leader: i32,
    max_follower_lag: i64,
    /// Voters of which the leader knows no log end.
    unknown: Vec<i32>,
    observers: Vec<i32>,
}

/// What the active controller knows; `None` when there is none that could answer.
fn status(c: &Cluster) -> Option<Status> {
    let active = c.world.active_controller()?;
    let (raft, end) = (active.raft(), active.raft().log().end_offset());
    let voters = raft.voters().iter().filter(|id| **id != active.id());
    let ends: Vec<(i32, Offset)> = voters
        .map(|id| {
            let progress = raft.progress(NodeId::Controller(*id)).expect("a voter");
            (id.0, progress.end_offset.unwrap_or(Offset::UNKNOWN))
        })
        .collect();
    let observers = (1..=3).filter(|id| raft.progress(NodeId::Broker(BrokerId(*id))).is_some());
    Some(Status {
        leader: active.id().0,
        max_follower_lag: ends.iter().map(|(_, offset)| end - *offset).max().unwrap_or(0),
        unknown: ends.iter().filter(|(_, offset)| *offset == Offset::UNKNOWN).map(|(id, _)| *id).collect(),
        observers: observers.collect(),
    })
}

fn healthy_status(leader: i32) -> Option<Status> {
    Some(Status { leader, max_follower_lag: 0, unknown: Vec::new(), observers: vec![1, 2, 3] })
}

fn epoch(c: &Cluster) -> i32 {
    c.world.active_controller().and_then(|active| active.active_epoch()).expect("one is active").0
}

/// `kafka-topics.sh --create`: nothing, or the error within a minute and a half.
fn create(c: &mut Cluster, name: &str) -> Result<(), ErrorCode> {
    let topic = Topic::new(name);
    let command = Command::CreateTopic { topic, partitions: 1, replication_factor: 1, config: config(&[]) };
    outcome(c, command, |event| matches!(event, Event::TopicCreated { topic, .. } if topic.as_str() == name))
}

/// `kafka-configs.sh --alter`.
fn alter(c: &mut Cluster) -> Result<(), ErrorCode> {
    let command = Command::SetTopicConfig {
        topic: "t".into(),
        key: "min.insync.replicas".into(),
        value: Some("2".into()),
    };
    outcome(c, command, |event| matches!(event, Event::ConfigChanged { .. }))
}

fn outcome(c: &mut Cluster, command: Command, done: impl Fn(&Event) -> bool) -> Result<(), ErrorCode> {
    let seen = c.world.trace().len_ever();
    c.give(command);
    let found = |c: &Cluster| {
        c.world.trace().since(seen).find_map(|entry| match &entry.event {
            Event::CommandRefused { error, .. } => Some(Err(*error)),
            event if done(event) => Some(Ok(())),
            _ => None,
        })
    };
    c.until("an outcome", 90_000, |c| found(c).is_some());
    found(c).expect("just seen")
}

/// `kafka-console-producer.sh` with as many lines; how many of them are acknowledged.
fn produce(c: &mut Cluster, name: &str, records: i64) -> i64 {
    c.producer(name, "t", "100/s", PRODUCER);
    c.send(name, records);
    c.run_ms(7_500);
    let counts = c.producer_state(name).counts();
    assert_eq!(counts.acknowledged + counts.failed, records, "{}", c.report());
    counts.acknowledged
}

/// `kafka-console-consumer.sh --from-beginning`; how many records it gets in a while.
fn consume(c: &mut Cluster, name: &str, group: &str) -> i64 {
    let seen = c.world.trace().len_ever();
    c.consumer(name, group, &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    c.run_ms(12_000);
    let polled = c.world.trace().since(seen).filter_map(|entry| match &entry.event {
        Event::Polled { client, records, .. } if client.as_str() == name => Some(*records),
        _ => None,
    });
    let records = polled.sum();
    c.give(Command::Close(name.into()));
    c.run_ms(1_000);
    records
}

/// `kafka-topics.sh --list`, asked of broker 1.
fn topics(c: &Cluster) -> Vec<String> {
    let image = c.world.broker(BrokerId(1)).expect("it runs").image().clone();
    image.topics().map(|topic| topic.name.to_string()).collect()
}

/// Leader and ISR of each partition as broker 1 knows them: what `--describe` shows.
fn described(c: &Cluster) -> Vec<(i32, Vec<i32>)> {
    let image = c.world.broker(BrokerId(1)).expect("it runs").image();
    let partition = |name: &&str| image.partition(&tp(name)).expect("it exists").clone();
    let sorted = |isr: &[BrokerId]| {
        let mut ids: Vec<i32> = isr.iter().map(|id| id.0).collect();
        ids.sort();
        ids
    };
    PARTITIONS.iter().map(partition).map(|p| (p.leader.0, sorted(&p.isr))).collect()
}

fn high_watermarks(c: &Cluster) -> Vec<Option<Offset>> {
    let leaders = described(c).into_iter().zip(PARTITIONS);
    leaders.map(|((leader, _), name)| Some(c.partition(leader, name)?.log.high_watermark())).collect()
}

/// Producers come and go until each broker holds a block of producer ids, as the recorded one did (R-CTRL-9).
fn hand_out_producer_ids(c: &mut Cluster) {
    let blocks = |c: &Cluster| {
        c.world.active_controller().map_or(0, |active| active.image().next_producer_id.0) / 1_000
    };
    for number in 0..30 {
        if blocks(c) < 3 {
            let name = format!("earlier-{number}");
            c.producer(&name, "t", "1/s", PRODUCER);
            c.give(Command::Close(name.as_str().into()));
        }
    }
    assert_eq!(blocks(c), 3, "{}", c.report());
}

fn healthy(c: &mut Cluster) {
    hand_out_producer_ids(c);
    assert_eq!(produce(c, "one", 1), 1);
    assert_eq!(consume(c, "first", "g1"), 1);
    assert_eq!(status(c), healthy_status(c.leader()), "{}", c.report());
}

fn active_controller_killed(c: &mut Cluster) {
    let (dead, before) = (c.leader(), epoch(c));
    c.kill_controller(dead);
    c.until("another controller leads", 4_300, |c| c.active().is_some_and(|id| id != dead));
    assert!(epoch(c) > before);
    c.run_ms(1_000);
    let shown = status(c).expect("it answers");
    assert_eq!((shown.unknown.clone(), shown.observers.clone()), (vec![dead], vec![1, 2, 3]));
    let end = c.world.active_controller().expect("active").raft().log().end_offset();
    assert_eq!(shown.max_follower_lag, end.0 + 1, "the dead controller stays a voter and its lag grows");
    assert_eq!(create(c, "after-failover"), Ok(()));
    assert_eq!(produce(c, "two", 1), 1);
    assert_eq!(consume(c, "second", "g1"), 1);
    assert_eq!(status(c).expect("it answers").unknown, [dead]);
}

fn majority_lost(c: &mut Cluster) {
    let second = c.leader();
    c.kill_controller(second);
    c.run_ms(4_000);
    assert_eq!(status(c), None, "nobody can say");
    assert_eq!(create(c, "no-quorum"), Err(ErrorCode::RequestTimedOut));
    assert_eq!(alter(c), Err(ErrorCode::RequestTimedOut));
    assert_eq!(topics(c), ["__consumer_offsets", "after-failover", "t"], "brokers know what they knew");
    assert_eq!(produce(c, "three", 1), 1, "data requests go on");
    assert_eq!(consume(c, "third", "g1"), 1);
    assert_eq!(consume(c, "newcomer", "g-new"), 3, "a group that did not exist before");
}

fn broker_dies_without_quorum(c: &mut Cluster, dies: i32) {
    let (before, written) = (described(c), high_watermarks(c));
    c.kill(dies);
    c.run_ms(6_000);
    assert_eq!(described(c), before, "nobody takes note of the dead broker");
    assert_eq!(produce(c, "m", 3), 0, "every in-sync set has the dead broker");
    let after = high_watermarks(c);
    for ((leader, _), (now, then)) in before.iter().zip(after.iter().zip(&written)) {
        let expected = if *leader == dies { None } else { *then };
        assert_eq!(*now, expected, "no high watermark moves");
    }
}

fn majority_back(c: &mut Cluster, dies: i32) {
    let before = described(c);
    let dead: Vec<i32> = (101..=103).filter(|id| c.world.controller(ControllerId(*id)).is_none()).collect();
    c.start_controller(dead[0]);
    c.until("a controller leads", 10_000, |c| c.active().is_some());
    c.run_ms(100);
    assert_eq!(status(c).expect("it answers").unknown, [dead[1]]);
    assert!(
        described(c).iter().zip(&before).all(|(now, then)| now.0 == then.0),
        "at once: leaders as before"
    );
    c.run_ms(6_000);
    for (leader, isr) in described(c) {
        assert!(leader != dies && !isr.contains(&dies) && isr.len() == 2, "6 s later it is fenced: {isr:?}");
    }
    assert_eq!(create(c, "quorum-back"), Ok(()));
    assert_eq!(produce(c, "four", 1), 1);
    c.start_controller(dead[1]);
    c.start(dies);
    c.run_ms(7_000);
    assert_eq!(status(c), healthy_status(c.leader()), "{}", c.report());
    assert!(
        described(c).iter().all(|(leader, isr)| *leader != dies && *isr == [1, 2, 3]),
        "{:?}",
        described(c)
    );
    assert!(!topics(c).contains(&"no-quorum".to_string()), "what timed out did not happen later");
}

fn active_controller_paused(c: &mut Cluster) {
    let (paused, before) = (c.leader(), epoch(c));
    c.give(Command::Freeze(controller(paused)));
    c.until("another controller leads", 18_000, |c| c.active().is_some_and(|id| id != paused));
    c.give(Command::Thaw(controller(paused)));
    c.run_ms(4_000);
    assert!(epoch(c) > before);
    let role = c.world.controller(ControllerId(paused)).expect("it runs").raft().role();
    assert_eq!(role, QuorumRole::Follower, "the old leader has rejoined");
    assert_eq!(status(c), healthy_status(c.leader()), "{}", c.report());
}

#[test]
fn the_six_situations_of_a_quorum_end_as_recorded() {
    let mut c = quorum(3, SERVERS).topic("t", 3, 3, &[]);
    let dies = described(&c)[2].0;
    healthy(&mut c);
    active_controller_killed(&mut c);
    majority_lost(&mut c);
    broker_dies_without_quorum(&mut c, if dies == 1 { 3 } else { dies });
    majority_back(&mut c, if dies == 1 { 3 } else { dies });
    active_controller_paused(&mut c);
}
