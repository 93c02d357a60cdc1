//! Nodes, links, the quorum, configs of brokers.

use super::*;
use crate::kafka::api_versions::FeatureStatus;
use crate::kafka::controller::configs::Resource;
use crate::kafka::raft::{QuorumStatus, ReplicaStatus};

#[test]
fn a_broker_dies_is_fenced_and_its_leaders_move() {
    check(
        &[
            (30_000, killed(broker(3), "broker-3")),
            (39_118, Event::BrokerFenced { broker: BrokerId(3), silent_ms: 9_040 }),
            (39_118, shrunk(tp(0))),
            (39_118, shrunk(tp(1))),
            (39_118, shrunk(tp(2))),
            (39_118, elected(tp(2), 3, 1)),
            (39_500, appended(tp(2), 59, 60)),
        ],
        expect![[r#"
            00:30.000  broker 3 killed: its connections are reset (R-REPL-52)
                Bad: The controller learns of it only when heartbeats stay away for broker.session.timeout.ms.
            00:39.118  broker 3 fenced: no heartbeat for 9 s (R-REPL-52)
                Bad: The controller takes it out of every in-sync set and elects new leaders where it led.
            00:39.118  orders-2: leader moved from broker 3 to broker 1, epoch 9 to 10; in-sync 1, 2 (R-REPL-42)
                Warn: The leader was fenced; the first in-sync replica in list order that lives leads.
            00:39.118  orders-0: broker 3 left the ISR; in-sync 1, 2 (R-REPL-49)
                Warn: Its broker was fenced; the leader waits for it no more.
            00:39.118  orders-1: broker 3 left the ISR; in-sync 1, 2 (R-REPL-49)
                Warn: Its broker was fenced; the leader waits for it no more.
        "#]],
    );
}

#[test]
fn fifty_elections_in_one_moment_are_one_sentence() {
    let mut events: Vec<(i64, Event)> = Vec::new();
    for partition in 0..50 {
        let to = 1 + partition % 2;
        events.push((100, elected(offsets_tp(partition), 3, to)));
        events.push((100, shrunk(offsets_tp(partition + 50))));
    }
    events.extend((0..4).map(|partition| (100, elected(tp(partition), 3, 2))));
    check_lines(
        &events,
        expect![[r#"
            00:00.100  orders: 4 leaders moved: broker 3 to broker 2 (4) (R-REPL-42)
            00:00.100  __consumer_offsets: 50 leaders moved: broker 3 to broker 1 (25), broker 3 to broker 2 (25) (R-REPL-42)
            00:00.100  __consumer_offsets: broker 3 left the ISR of 50 partitions (R-REPL-49)"#]],
    );
}

#[test]
fn brokers_register_in_a_rack_and_are_unfenced() {
    let registered = |broker, rack: Option<&str>| Event::BrokerRegistered {
        broker: BrokerId(broker),
        epoch: BrokerEpoch(12),
        rack: rack.map(str::to_owned),
    };
    check(
        &[
            (0, started(NodeId::Controller(ControllerId(101)), "controller-101")),
            (0, started(broker(1), "broker-1")),
            (0, started(NodeId::Client(7), "consumer-a")),
            (40, registered(1, Some("a"))),
            (41, registered(2, None)),
            (90, Event::BrokerUnfenced { broker: BrokerId(1) }),
            (200, started(broker(4), "broker-4")),
        ],
        expect![[r#"
            00:00.000  controller 101, broker 1, consumer-a started
                Info
            00:00.040  broker 1 registered in rack a with broker epoch 12 (R-REPL-51)
                Info: It is fenced until it has read the metadata log up to its own registration.
            00:00.041  broker 2 registered with broker epoch 12 (R-REPL-51)
                Info: It is fenced until it has read the metadata log up to its own registration.
            00:00.090  broker 1 unfenced (R-REPL-51)
                Good: Its metadata is up to date; it may lead and be in sync again.
            00:00.200  broker 4 started
                Info
        "#]],
    );
}

#[test]
fn the_quorum_loses_its_leader_and_elects_another() {
    let (old, new) = (ControllerId(101), ControllerId(102));
    let epoch = LeaderEpoch(3);
    check(
        &[
            (
                1,
                Event::QuorumLeaderElected {
                    controller: old,
                    epoch: LeaderEpoch(1),
                    votes: vec![old],
                    voters: 1,
                },
            ),
            (2, Event::QuorumCandidate { controller: new, epoch }),
            (3, Event::QuorumLeaderElected { controller: new, epoch, votes: vec![new, old], voters: 3 }),
            (
                4,
                Event::QuorumLeaderResigned { controller: old, epoch: LeaderEpoch(1), silent_ms: Some(3000) },
            ),
            (4, Event::QuorumLeaderResigned { controller: new, epoch, silent_ms: None }),
            (5, Event::MetadataTruncated { node: NodeId::Controller(old), from: Offset(9), to: Offset(7) }),
        ],
        expect![[r#"
            00:00.002  controller 102 stands for election in epoch 3 (R-CTRL-2)
                Warn: It has not heard from a leader of the quorum, and a majority would vote for it.
            00:00.003  controller 102 elected by 2 of 3 votes: it is active from epoch 3 (R-CTRL-4, R-CTRL-10)
                Good: Every broker in service gets a full session from it, whenever it was heard last.
            00:00.004  controller 101 resigns in epoch 1: no majority heard for 3 s (R-CTRL-6, R-CTRL-7)
                Bad: What it had not committed is forgotten; requests that waited for it are refused.
            00:00.004  controller 102 resigns in epoch 3: it is about to stop (R-CTRL-2, R-CTRL-7)
                Warn: What it had not committed is forgotten; requests that waited for it are refused.
            00:00.005  controller 101 dropped metadata records 7 to 8 (R-CTRL-5)
                Warn: No majority had them, so they were never committed.
        "#]],
    );
}

#[test]
fn processes_stop_in_different_ways() {
    let act = |node, client: &str, act| Event::Process { node, name: name(client), act };
    let joined = join_sent(&name("consumer-b"));
    check(
        &[
            (0, joined),
            (1, killed(NodeId::Client(5), "checkout-api")),
            (2, killed(NodeId::Client(8), "consumer-b")),
            (3, killed(NodeId::Controller(ControllerId(101)), "controller-101")),
            (4, act(broker(2), "broker-2", Act::Frozen)),
            (5, act(broker(2), "broker-2", Act::Thawed)),
            (6, act(NodeId::Client(8), "consumer-b", Act::Ended)),
        ],
        expect![[r#"
            00:00.001  checkout-api crashed
                Bad: Batches that were not acknowledged are gone with it, written or not.
            00:00.002  consumer-b crashed without leaving its group (R-CONS-26)
                Bad: It sends no LeaveGroup: billing waits for its heartbeats until session.timeout.ms has passed.
            00:00.003  controller 101 killed: its connections are reset (R-CTRL-9)
                Bad: While no majority of the controllers is left, no leader is elected and no in-sync set can change.
            00:00.004  broker 2 frozen: its connections stay open and silent
                Warn: Nobody is told. The others notice by the timeouts of the requests they wait for.
            00:00.005  broker 2 thawed: it goes on where it stood
                Info
            00:00.006  consumer-b ended after it said goodbye
                Info
        "#]],
    );
}

#[test]
fn a_link_between_a_client_and_a_broker_is_told_by_the_clients_name() {
    let client = NodeId::Client(7);
    check(
        &[
            (0, started(client, "consumer-a")),
            (1, Event::LinkCut { a: client, b: broker(1) }),
            (2, Event::LinkHealed { a: broker(1), b: NodeId::Controller(ControllerId(101)) }),
        ],
        expect![[r#"
            00:00.000  consumer-a started
                Info
            00:00.001  link between consumer-a and broker 1 cut
                Bad: What they send to each other does not arrive until it heals; a timeout may close the connection before.
            00:00.002  link between broker 1 and controller 101 healed
                Good
        "#]],
    );
}

#[test]
fn the_quorum_is_described() {
    let replica = |node: NodeId, end: i64| ReplicaStatus {
        node,
        log_end_offset: Offset(end),
        last_fetch_ms: (end >= 0).then_some(5),
        last_caught_up_ms: (end >= 0).then_some(5),
    };
    let voters = [(101, 40), (102, -1)].map(|(id, end)| replica(ControllerId(id).into(), end)).to_vec();
    let observers = vec![replica(BrokerId(1).into(), 39)];
    let status =
        QuorumStatus { leader: ControllerId(101), epoch: 3, high_watermark: Offset(39), voters, observers };
    check(
        &[(1, Event::QuorumDescribed { status })],
        expect![[r#"
        00:00.001  controller 101 leads in epoch 3; the metadata log is committed below 39 (R-CTRL-5)
            Info: The slowest voter lacks 41 records. controller 101 ends at 40, controller 102 has not fetched, broker 1 ends at 39.
    "#]],
    );
}

#[test]
fn the_features_are_described_as_kafka_features_prints_them() {
    let status = |feature: &str, (min_level, max_level): (i16, i16), finalized: i16| FeatureStatus {
        feature: feature.to_owned(),
        min_level,
        max_level,
        finalized,
    };
    let features = vec![status("metadata.version", (7, 30), 29), status("transaction.version", (0, 2), 2)];
    check(
        &[(1, Event::FeaturesDescribed { features, epoch: Some(40) })],
        expect![[r#"
        00:00.001  2 features at epoch 40 (R-CTRL-12)
            Info: Feature: metadata.version  SupportedMinVersion: 3.3-IV3  SupportedMaxVersion: 4.3-IV0  FinalizedVersionLevel: 4.2-IV1  Epoch: 40; Feature: transaction.version  SupportedMinVersion: 0  SupportedMaxVersion: 2  FinalizedVersionLevel: 2  Epoch: 40.
    "#]],
    );
}

#[test]
fn snapshots_of_the_metadata_log_are_told() {
    let (broker, controller) = (BrokerId(2).into(), ControllerId(101).into());
    let (end_offset, size_bytes) = (Offset(40), 900);
    check(
        &[
            (1, Event::SnapshotWritten { node: controller, end_offset, size_bytes }),
            (2, Event::MetadataLogCleaned { node: controller, start_offset: Offset(40) }),
            (3, Event::SnapshotFetched { node: broker, end_offset, size_bytes }),
        ],
        expect![[r#"
            00:00.001  controller 101 wrote a snapshot of the metadata log below 40, 900 bytes
                Info: It says in one what all records below come to, so that they can go and a restart is short.
            00:00.002  controller 101 dropped the metadata log below 40
                Info: A snapshot says what it came to.
            00:00.003  broker 2 took over a snapshot of the metadata log, 900 bytes: it goes on at 40
                Warn: It lacked records that the active controller's log has no more.
        "#]],
    );
}

#[test]
fn configs_of_brokers_change_and_are_described() {
    let changed = |broker: Option<i32>, value: Option<&str>| Event::BrokerConfigChanged {
        broker: broker.map(BrokerId),
        key: "message.max.bytes".to_owned(),
        value: value.map(str::to_owned),
    };
    let of_group = |value: Option<&str>| Event::GroupConfigChanged {
        group: billing(),
        key: "share.auto.offset.reset".to_owned(),
        value: value.map(str::to_owned),
    };
    let described = |resource, configs: &[(&str, &str)]| Event::ConfigsDescribed {
        resource,
        configs: configs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
    };
    check(
        &[
            (1, changed(Some(2), Some("5"))),
            (2, changed(None, None)),
            (3, described(Resource::Topic(Topic::new("orders")), &[("a", "1"), ("b", "2")])),
            (4, described(Resource::Broker(Some(BrokerId(2))), &[("message.max.bytes", "5")])),
            (5, described(Resource::Broker(None), &[])),
            (6, of_group(Some("earliest"))),
            (7, of_group(None)),
            (8, Event::FeatureUpdated { feature: "transaction.version".into(), level: 2 }),
        ],
        expect![[r#"
            00:00.001  broker 2: message.max.bytes set to 5 (R-LOG-53)
                Info: It stands above the cluster's default and above the broker's file.
            00:00.002  the cluster's default: message.max.bytes removed (R-LOG-53)
                Info: What stands below it counts again: the cluster's default, the broker's file, Kafka's default.
            00:00.003  topic orders: a=1, b=2 (R-LOG-53)
                Info: These were set while the cluster ran; everything else is as the brokers' files or Kafka's defaults have it.
            00:00.004  broker 2: message.max.bytes=5 (R-LOG-53)
                Info: These were set while the cluster ran; everything else is as the brokers' files or Kafka's defaults have it.
            00:00.005  the cluster's default: no config of its own (R-LOG-53)
                Info: These were set while the cluster ran; everything else is as the brokers' files or Kafka's defaults have it.
            00:00.006  group billing: share.auto.offset.reset set to earliest
                Info: It holds for this group alone.
            00:00.007  group billing: share.auto.offset.reset removed
                Info: Kafka's default counts again.
            00:00.008  transaction.version is at level 2 from here on (R-CTRL-12)
                Info: Brokers hear of it by the metadata log at once; clients by ApiVersions, with their next connection.
        "#]],
    );
}

#[test]
fn a_slow_link_and_a_wrong_clock_are_told_with_what_they_change() {
    let (a, b) = (broker(2), broker(3));
    check(
        &[
            (0, Event::LinkSlowed { a, b, by_us: 200_000 }),
            (1, Event::LinkSlowed { a, b, by_us: 0 }),
            (2, Event::ClockSet { node: b, ahead_ms: 300_000 }),
            (3, Event::ClockSet { node: b, ahead_ms: -1_500 }),
            (4, Event::ClockSet { node: b, ahead_ms: 0 }),
        ],
        expect![[r#"
            00:00.000  link between broker 2 and broker 3 slower by 200 ms each way
                Warn: What is on its way keeps its pace; what is sent from now on takes longer.
            00:00.001  link between broker 2 and broker 3 as fast as before
                Good
            00:00.002  clock of broker 3 ahead by 5 min (R-LOG-19, R-LOG-35)
                Warn: Timestamps and retention go by it; timers and sessions run by a clock that only counts.
            00:00.003  clock of broker 3 behind by 1.5 s (R-LOG-19, R-LOG-35)
                Warn: Timestamps and retention go by it; timers and sessions run by a clock that only counts.
            00:00.004  clock of broker 3 right again
                Good
        "#]],
    );
}

#[test]
fn a_broker_that_stops_in_order_gives_its_leaderships_away() {
    let moved = Event::LeaderElected {
        tp: tp(2),
        from: BrokerId(3),
        to: BrokerId(1),
        leader_epoch: LeaderEpoch(10),
        partition_epoch: PartitionEpoch(2),
        isr: brokers(&[1, 2]),
        unclean: false,
        reason: ChangeReason::ControlledShutdown,
    };
    check(
        &[
            (100, Event::ShutdownBegun { broker: BrokerId(3) }),
            (100, moved),
            (200, Event::ShutdownGranted { broker: BrokerId(3) }),
        ],
        expect![[r#"
            00:00.100  broker 3 is about to stop (R-REPL-55)
                Warn: The controller gives its leaderships to others and takes it out of every in-sync set.
            00:00.100  orders-2: leader moved from broker 3 to broker 1, epoch 9 to 10; in-sync 1, 2 (R-REPL-42)
                Warn: The leader is about to stop and has given the partition away.
            00:00.200  broker 3 may stop: it is fenced (R-REPL-54)
                Info: It leads nothing, and every other broker knows who leads instead.
        "#]],
    );
}
