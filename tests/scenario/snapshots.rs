//! Snapshots of the metadata log: who writes them, what they make room for, and who starts from them (KIP-630).

use glassbroker::kafka::controller::image::ClusterImage;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::metadata_records::MetadataRecord;
use glassbroker::kafka::raft::{MetadataLog, RaftClient};
use glassbroker::kafka::types::{BrokerId, ControllerId, NodeId, Offset};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, config, quorum};

const SMALL: (&str, &str) = ("metadata.log.max.record.bytes.between.snapshots", "1000");
/// Without no-op records, so that the log grows by what is created only.
const STILL: (&str, &str) = ("metadata.max.idle.interval.ms", "0");
/// No room for more than the latest snapshot.
const TIGHT: &[(&str, &str)] = &[SMALL, STILL, ("metadata.max.retention.bytes", "1")];

fn raft(c: &Cluster, node: NodeId) -> &RaftClient {
    match node {
        NodeId::Controller(id) => c.world.controller(id).expect("it runs").raft(),
        NodeId::Broker(id) => c.world.broker(id).expect("it runs").raft(),
        NodeId::Client(_) => panic!("a client has no metadata log"),
    }
}

fn image(c: &Cluster, node: NodeId) -> &ClusterImage {
    match node {
        NodeId::Controller(id) => c.world.controller(id).expect("it runs").image(),
        NodeId::Broker(id) => c.world.broker(id).expect("it runs").image(),
        NodeId::Client(_) => panic!("a client has no image"),
    }
}

/// Controllers and brokers that run.
fn nodes(c: &Cluster) -> Vec<NodeId> {
    let running = c.world.processes().filter(|(_, process)| process.is_running()).map(|(node, _)| node);
    running.filter(|node| !matches!(node, NodeId::Client(_))).collect()
}

fn create(c: &mut Cluster, names: std::ops::Range<i32>) {
    for number in names {
        let topic = format!("t{number}").as_str().into();
        c.give(Command::CreateTopic { topic, partitions: 3, replication_factor: 1, config: config(&[]) });
        c.run_ms(500);
    }
}

/// What a replay of the log comes to, from its first record or from a snapshot on.
fn replayed(log: &MetadataLog, mut image: ClusterImage) -> ClusterImage {
    for batch in log.batches_from(log.start_offset()) {
        for record in batch.records().expect("sound") {
            if record.offset < image.next_offset || record.offset >= log.high_watermark() {
                continue;
            }
            match batch.is_control() {
                true => image.skip_control_record(),
                false => image.replay(
                    &MetadataRecord::decode(&record.value.unwrap_or_default()).expect("a metadata record"),
                ),
            }
        }
    }
    image
}

/// R-CTRL-1.
#[test]
fn every_node_writes_snapshots_and_each_of_them_with_the_rest_comes_to_the_whole_log() {
    for controllers in [1, 3, 5] {
        let mut c = quorum(controllers, &[SMALL]);
        create(&mut c, 0..8);
        c.run_ms(1_000);
        for node in nodes(&c) {
            let log = raft(&c, node).log();
            assert!(log.snapshots().len() >= 2, "{node}: {}", log.snapshots().len());
            assert_eq!(log.start_offset(), Offset::ZERO, "retention leaves the log alone");
            let whole = replayed(log, ClusterImage::default());
            assert_eq!(&whole, image(&c, node));
            for snapshot in log.snapshots() {
                let begun = ClusterImage::of_snapshot(&snapshot.records(), snapshot.id().end_offset);
                assert_eq!(replayed(log, begun), whole, "{node} from {:?}", snapshot.id());
            }
        }
    }
}

#[test]
fn time_makes_a_snapshot_due_with_the_next_record() {
    let mut c = quorum(1, &[STILL, ("metadata.log.max.snapshot.interval.ms", "60000")]);
    let written = |c: &Cluster| c.events().filter(|e| matches!(e, Event::SnapshotWritten { .. })).count();
    c.run_ms(100_000);
    assert_eq!(written(&c), 0, "nothing was committed");
    create(&mut c, 0..1);
    assert_eq!(written(&c), 4, "a controller and three brokers");
    create(&mut c, 1..3);
    assert_eq!(written(&c), 4);
}

#[test]
fn controllers_and_brokers_start_again_from_snapshot_and_log() {
    for controllers in [1, 3] {
        let mut c = quorum(controllers, TIGHT);
        create(&mut c, 0..8);
        c.run_ms(61_000);
        for node in nodes(&c) {
            assert!(
                raft(&c, node).log().start_offset() > Offset::ZERO,
                "{node} has dropped what is in its snapshot"
            );
        }
        let leader = c.leader();
        let before = image(&c, ControllerId(leader).into()).clone();
        c.kill_controller(leader);
        (1..=3).for_each(|broker| c.kill(broker));
        c.run_ms(500);
        c.start_controller(leader);
        (1..=3).for_each(|broker| c.start(broker));
        c.run_ms(20_000);
        assert!((1..=3).all(|broker| c.is_in_service(broker)), "{}", c.report());
        let deleted = c.events().filter(|event| matches!(event, Event::ReplicaDeleted { .. })).count();
        assert_eq!(deleted, 0, "what was created after the last snapshot is there too");
        create(&mut c, 8..9);
        c.run_ms(3_000);
        let now = image(&c, ControllerId(c.leader()).into()).clone();
        assert_eq!(now.topics().count(), before.topics().count() + 1, "{}", c.report());
        assert_eq!(now.next_producer_id, before.next_producer_id);
        for node in nodes(&c) {
            assert_eq!(image(&c, node), &now, "{node}");
        }
        assert!(!c.events().any(|e| matches!(e, Event::SnapshotFetched { .. })), "each had its own");
    }
}

fn fetched_by(c: &Cluster, node: NodeId) -> usize {
    c.events().filter(|e| matches!(e, Event::SnapshotFetched { node: by, .. } if *by == node)).count()
}

/// R-CTRL-1.
#[test]
fn a_node_that_lacks_what_the_leader_dropped_takes_the_leaders_snapshot_in_parts() {
    let pairs: Vec<(&str, &str)> =
        TIGHT.iter().copied().chain([("controller.quorum.fetch.snapshot.max.bytes", "100")]).collect();
    let mut c = quorum(3, &pairs);
    let away = (101..=103).find(|id| *id != c.leader()).expect("another");
    c.kill_controller(away);
    c.kill(3);
    create(&mut c, 0..10);
    c.run_ms(61_000);
    let leader: NodeId = ControllerId(c.leader()).into();
    assert!(raft(&c, leader).log().start_offset() > Offset(50), "{}", c.report());
    c.start_controller(away);
    c.start(3);
    c.give(Command::AddBroker { broker: BrokerId(4), rack: None });
    c.until("all are in service", 30_000, |c| (1..=4).all(|broker| c.is_in_service(broker)));
    c.run_ms(3_000);
    for node in [ControllerId(away).into(), BrokerId(3).into(), BrokerId(4).into()] {
        assert_eq!(fetched_by(&c, node), 1, "{node}");
        assert_eq!(image(&c, node), image(&c, leader), "{node}");
    }
    assert_eq!(fetched_by(&c, BrokerId(1).into()), 0);
}

#[test]
fn a_controller_that_began_with_anothers_snapshot_can_lead() {
    let mut c = quorum(3, TIGHT);
    let (first, away) = (c.leader(), (101..=103).find(|id| *id != c.leader()).expect("another"));
    c.kill_controller(away);
    create(&mut c, 0..10);
    c.run_ms(61_000);
    c.start_controller(away);
    c.until("it has the snapshot", 10_000, |c| fetched_by(c, ControllerId(away).into()) == 1);
    c.run_ms(2_000);
    let third = (101..=103).find(|id| ![first, away].contains(id)).expect("three");
    c.kill_controller(third);
    c.kill_controller(first);
    c.run_ms(500);
    c.start_controller(third);
    c.until("one of them leads", 20_000, |c| c.active().is_some());
    c.kill_controller(third);
    c.start_controller(first);
    c.until("one leads again", 30_000, |c| c.active().is_some_and(|id| id != third));
    create(&mut c, 10..11);
    assert_eq!(image(&c, ControllerId(c.leader()).into()).topics().count(), 11, "{}", c.report());
}
