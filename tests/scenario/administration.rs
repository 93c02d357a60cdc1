//! What people do to a cluster: elections, stops, reassignments, more partitions, deletion. EX-8 to EX-11.

use glassbroker::kafka::controller::elections::ElectionType;
use glassbroker::kafka::event::{ChangeReason, Event, GroupEvent, TruncationReason};
use glassbroker::kafka::protocol::{ErrorCode, Response};
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::sim::{Command, Packet};

use crate::dsl::{Cluster, cluster, cluster_without_elr, config, ids, tp};

fn stop(c: &mut Cluster, broker: i32) {
    c.give(Command::Stop(BrokerId(broker)));
}

/// Stops a broker and starts it again once its process is gone.
fn restart(c: &mut Cluster, broker: i32) {
    stop(c, broker);
    c.until("its process is gone", 10_000, |c| c.world.broker(BrokerId(broker)).is_none());
    c.start(broker);
}

fn elect(c: &mut Cluster, kind: ElectionType, name: &str) {
    c.give(Command::ElectLeader { kind, partition: Some(tp(name)) });
}

/// The refusal of the last command, if it was refused.
fn refusal(c: &Cluster) -> Option<ErrorCode> {
    c.events().rev().find_map(|event| match event {
        Event::CommandRefused { error, .. } => Some(*error),
        _ => None,
    })
}

/// A partition as `isr[..] elr[..] last[..]`.
fn eligible(c: &Cluster, name: &str) -> String {
    let image = c.world.active_controller().expect("a controller").image();
    let partition = image.partition(&tp(name)).expect("a partition");
    let list = |ids: &[BrokerId]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    let (isr, elr, last) = (&partition.isr, &partition.elr, &partition.last_known_elr);
    format!("isr[{}] elr[{}] last[{}]", list(isr), list(elr), list(last))
}

/// t-0 with leader 1 and records on all three replicas.
fn three_replicas(records: i64, pairs: &[(&str, &str)]) -> Cluster {
    three_replicas_in(cluster(3), records, pairs)
}

fn three_replicas_in(c: Cluster, records: i64, pairs: &[(&str, &str)]) -> Cluster {
    let mut c = c.topic("t", 1, 3, pairs);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", records);
    c.run_ms(2_000);
    c
}

/// EX-8 up to the leader's death: 2 and 3 have 50 records, leader 1 has 80 and committed them all.
fn only_the_leader_has_everything(pairs: &[(&str, &str)]) -> Cluster {
    only_the_leader_has_everything_in(cluster(3), pairs)
}

fn only_the_leader_has_everything_in(c: Cluster, pairs: &[(&str, &str)]) -> Cluster {
    let mut c = three_replicas_in(c, 50, pairs);
    c.cut(1, 2);
    c.cut(1, 3);
    c.send("p", 1);
    c.until("the in-sync set is the leader alone", 60_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.send("p", 29);
    c.until("all is committed", 40_000, |c| c.replicas("t-0").starts_with("1:80/80"));
    c.kill(1);
    c.heal(1, 2);
    c.heal(1, 3);
    c
}

#[test]
fn ex_8_without_unclean_elections_the_partition_waits_for_its_leader_and_loses_nothing() {
    let mut c = only_the_leader_has_everything(&[]);
    c.run_ms(60_000);
    assert_eq!(c.registration("t-0"), "-1 e1 isr[]", "{}", c.report());
    assert_eq!(eligible(&c, "t-0"), "isr[] elr[1] last[1]", "R-REPL-45");
    elect(&mut c, ElectionType::Preferred, "t-0");
    c.run_ms(1_000);
    assert_eq!(refusal(&c), Some(ErrorCode::PreferredLeaderNotAvailable), "R-REPL-50");
    c.start(1);
    c.run_ms(20_000);
    assert_eq!(c.replicas("t-0"), "1:80/80 2:80/80 3:80/80", "{}", c.report());
}

#[test]
fn ex_8_without_elr_the_leader_stays_in_the_in_sync_set_and_brings_everything_back() {
    let mut c = only_the_leader_has_everything_in(cluster_without_elr(3), &[]);
    c.run_ms(60_000);
    assert_eq!(c.registration("t-0"), "-1 e1 isr[1]", "R-REPL-47");
    c.start(1);
    c.run_ms(20_000);
    assert_eq!(c.replicas("t-0"), "1:80/80 2:80/80 3:80/80", "{}", c.report());
}

#[test]
fn ex_8_an_unclean_leader_is_elected_when_its_broker_is_fenced_and_the_committed_end_is_lost() {
    let mut c = only_the_leader_has_everything(&[("unclean.leader.election.enable", "true")]);
    let reason = |event: &Event| match event {
        Event::LeaderElected { to: BrokerId(2), unclean: true, reason, .. } => Some(*reason),
        _ => None,
    };
    c.until_event("broker 2 leads", 12_000, |event| reason(event) == Some(ChangeReason::BrokerFenced));
    assert_eq!(c.registration("t-0"), "2 e1 isr[2]", "R-REPL-43, 49: in the same write as the fencing");
    c.run_ms(5_000);
    c.start(1);
    c.until_event("broker 1 cuts what 2 never had", 20_000, |event| {
        let diverging = |reason: &TruncationReason| matches!(reason, TruncationReason::DivergingEpoch { .. });
        matches!(event, Event::Truncated { broker: BrokerId(1), to: Offset(50), reason, .. } if diverging(reason))
    });
    c.run_ms(5_000);
    assert_eq!(c.replicas("t-0"), "1:50/50 2:50/50 3:50/50", "{}", c.report());
    let image = c.world.active_controller().expect("a controller").image();
    let recovery = image.partition(&tp("t-0")).expect("a partition").recovery;
    assert_eq!(format!("{recovery:?}"), "Recovered", "R-REPL-43: with its next change the leader says so");
}

#[test]
fn ex_8_an_unclean_election_can_be_asked_for_and_is_refused_where_there_is_a_leader() {
    let mut c = only_the_leader_has_everything(&[]);
    elect(&mut c, ElectionType::Unclean, "t-0");
    c.run_ms(1_000);
    assert_eq!(refusal(&c), Some(ErrorCode::ElectionNotNeeded), "R-REPL-50: broker 1 is not fenced yet");
    c.run_ms(12_000);
    elect(&mut c, ElectionType::Unclean, "t-0");
    c.until("2 leads alone", 1_000, |c| c.registration("t-0") == "2 e2 isr[2]");
}

#[test]
fn a_topic_that_is_told_so_later_gets_its_unclean_leader_at_the_periodic_check() {
    let mut c = only_the_leader_has_everything(&[]);
    c.run_ms(12_000);
    let (topic, key) = ("t".into(), "unclean.leader.election.enable".to_string());
    c.give(Command::SetTopicConfig { topic, key, value: Some("true".to_string()) });
    c.run_ms(1_000);
    assert_eq!(c.registration("t-0"), "-1 e1 isr[]", "not at once");
    c.until("broker 2 leads", 300_000, |c| c.registration("t-0") == "2 e2 isr[2]");
    assert_eq!(c.now_ms() / 1000, 300, "R-REPL-49: unclean.leader.election.interval.ms");
}

/// EX-9: 3, then 2, then 1 leave a partition with min.insync.replicas=2.
fn one_after_the_other(leave: fn(&mut Cluster, i32)) -> Cluster {
    let mut c = three_replicas(10, &[("min.insync.replicas", "2")]);
    leave(&mut c, 3);
    c.until("3 has left", 12_000, |c| eligible(c, "t-0") == "isr[1,2] elr[] last[]");
    leave(&mut c, 2);
    c.until("2 has left", 12_000, |c| eligible(c, "t-0") == "isr[1] elr[2] last[]");
    leave(&mut c, 1);
    c.until("1 has left", 12_000, |c| eligible(c, "t-0") == "isr[] elr[1,2] last[1]");
    c.run_ms(5_000);
    c
}

#[test]
fn ex_9_an_eligible_replica_that_stopped_in_order_leads_cleanly() {
    let mut c = one_after_the_other(stop);
    c.start(2);
    c.until("2 leads", 10_000, |c| eligible(c, "t-0") == "isr[2] elr[1] last[]");
    assert!(!c.events().any(|event| matches!(event, Event::LeaderElected { unclean: true, .. })));
    assert_eq!(c.replicas("t-0"), "2:10/10", "R-REPL-45: it has all that was committed");
}

#[test]
fn ex_9_one_that_was_killed_is_trusted_no_more_and_the_partition_waits_for_its_last_leader() {
    let mut c = one_after_the_other(Cluster::kill);
    c.start(2);
    c.run_ms(20_000);
    assert_eq!(eligible(&c, "t-0"), "isr[] elr[1] last[1]", "R-REPL-56");
    c.start(1);
    c.until("1 leads", 10_000, |c| c.registration("t-0").starts_with("1 "));
    c.run_ms(10_000);
    assert_eq!(c.replicas("t-0"), "1:10/10 2:10/10", "{}", c.report());
}

#[test]
fn ex_10_leadership_goes_back_to_the_first_replica_every_300_s_or_when_asked() {
    let mut c = three_replicas(5, &[]);
    restart(&mut c, 1);
    c.until("1 is in sync again", 10_000, |c| c.registration("t-0") == "2 e1 isr[1,2,3]");
    c.until("1 leads again", 310_000, |c| c.registration("t-0") == "1 e2 isr[1,2,3]");
    assert_eq!(c.now_ms() / 1000, 300, "R-REPL-49: leader.imbalance.check.interval.seconds");
    restart(&mut c, 1);
    c.until("1 is in sync again", 10_000, |c| c.registration("t-0") == "2 e3 isr[1,2,3]");
    elect(&mut c, ElectionType::Preferred, "t-0");
    c.run_ms(1_000);
    assert_eq!(c.registration("t-0"), "1 e4 isr[1,2,3]", "R-REPL-44");
    assert_eq!(refusal(&c), None);
    elect(&mut c, ElectionType::Preferred, "t-0");
    c.run_ms(1_000);
    assert_eq!(refusal(&c), Some(ErrorCode::ElectionNotNeeded), "R-REPL-50");
}

#[test]
fn a_broker_that_is_stopped_gives_its_leaderships_away_before_it_ends() {
    let mut c = three_replicas(10, &[("min.insync.replicas", "2")]);
    c.give(Command::Resume("p".into()));
    stop(&mut c, 1);
    let begun = c.now_ms();
    c.until_event("1 ends", 3_000, |event| matches!(event, Event::ShutdownGranted { broker: BrokerId(1) }));
    assert!(c.now_ms() - begun < 2_500, "R-REPL-55: no session has to run out: {}", c.now_ms() - begun);
    assert_eq!(c.registration("t-0"), "2 e1 isr[2,3]");
    c.run_ms(5_000);
    assert!(c.world.broker(BrokerId(1)).is_none(), "its process is gone");
    let failed = c.events().any(|event| matches!(event, Event::BatchFailed { .. }));
    assert!(!failed, "the producer goes on with the new leader\n{}", c.report());
    c.start(1);
    c.until("1 is back", 10_000, |c| c.registration("t-0") == "2 e1 isr[1,2,3]");
}

#[test]
fn without_a_controller_a_broker_stops_all_the_same_after_five_minutes() {
    let mut c = three_replicas(1, &[]);
    let controller = c.world.active_controller().expect("a controller").id();
    c.give(Command::Kill(glassbroker::sim::Target::Controller(controller)));
    stop(&mut c, 1);
    c.run_ms(299_000);
    assert!(c.world.broker(BrokerId(1)).is_some());
    c.run_ms(2_000);
    assert!(c.world.broker(BrokerId(1)).is_none(), "{}", c.report());
}

/// R-REPL-58.
#[test]
fn ex_11_a_reassignment_ends_when_all_new_replicas_are_in_sync() {
    let mut c = cluster(4);
    let assign = |c: &mut Cluster, replicas: &[i32]| {
        c.give(Command::Reassign { partition: tp("t-0"), replicas: ids(replicas) });
    };
    c = c.topic("t", 1, 2, &[]);
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2]");
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 20);
    c.run_ms(1_000);
    // 4 cannot reach the leader, so that it stays behind.
    c.cut(4, 1);
    assign(&mut c, &[3, 4]);
    c.until_event("it begins", 1_000, |event| {
        let way = (ids(&[3, 4, 1, 2]), ids(&[3, 4]), ids(&[1, 2]));
        matches!(event, Event::ReplicasChanged { replicas, adding, removing, .. }
            if (replicas, adding, removing) == (&way.0, &way.1, &way.2))
    });
    c.run_ms(5_000);
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2,3]", "R-REPL-59: it waits for 4");
    c.heal(4, 1);
    c.until_event("the leader's request ends it", 30_000, |event| {
        matches!(event, Event::ReplicasChanged { replicas, adding, .. }
            if *replicas == ids(&[3, 4]) && adding.is_empty())
    });
    assert_eq!(c.registration("t-0"), "3 e1 isr[3,4]", "R-REPL-25, 59");
    c.until("broker 1 is told that another leads", 100, |c| {
        c.world.flights().any(|flight| match &flight.packet {
            Packet::Response { response, .. } => match &**response {
                Response::AlterPartition(answer) => {
                    answer.topics[0].partitions[0].error_code == ErrorCode::NewLeaderElected.code()
                }
                _ => false,
            },
            _ => false,
        })
    });
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "3:20/20 4:20/20", "the old replicas are deleted\n{}", c.report());
    c.send("p", 5);
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "3:25/25 4:25/25", "the producer found the new leader");
    assign(&mut c, &[3, 5]);
    c.run_ms(1_000);
    assert_eq!(refusal(&c), Some(ErrorCode::InvalidReplicaAssignment), "no broker 5 is registered");
}

#[test]
fn a_reassignment_that_is_cancelled_goes_back_to_the_old_replicas() {
    let mut c = cluster(4).topic("t", 1, 2, &[]);
    c.cut(4, 1);
    c.give(Command::Reassign { partition: tp("t-0"), replicas: ids(&[1, 4]) });
    c.run_ms(2_000);
    c.give(Command::CancelReassignment(tp("t-0")));
    c.run_ms(2_000);
    let image = c.world.active_controller().expect("a controller").image();
    let partition = image.partition(&tp("t-0")).expect("a partition");
    assert_eq!(partition.replicas, ids(&[1, 2]), "R-REPL-60");
    assert!(!partition.is_reassigning());
    assert!(c.partition(4, "t-0").is_none(), "broker 4 deletes what it had");
    c.give(Command::CancelReassignment(tp("t-0")));
    c.run_ms(1_000);
    assert_eq!(refusal(&c), Some(ErrorCode::NoReassignmentInProgress), "R-REPL-60");
}

#[test]
fn more_partitions_come_beside_those_there_are_and_their_number_only_rises() {
    let mut c = cluster(3).topic("t", 2, 2, &[]);
    let before = (c.registration("t-0"), c.registration("t-1"));
    let grow = |c: &mut Cluster, count| {
        c.give(Command::AddPartitions { topic: "t".into(), count });
        c.run_ms(1_000);
    };
    grow(&mut c, 4);
    assert_eq!((c.registration("t-0"), c.registration("t-1")), before, "R-PLACE-7");
    assert_eq!(c.registration("t-3"), "2 e0 isr[2,3]");
    assert!(c.partition(2, "t-3").is_some_and(|partition| partition.is_leader()));
    assert_eq!(refusal(&c), None);
    grow(&mut c, 3);
    assert_eq!(refusal(&c), Some(ErrorCode::InvalidPartitions), "R-PLACE-7");
}

#[test]
fn a_deleted_topic_is_gone_from_brokers_and_groups_and_its_name_starts_anew() {
    let mut c = three_replicas(10, &[]);
    c.consumer(
        "a",
        "g",
        &["t"],
        &["poll", "commit"],
        &[("auto.offset.reset", "earliest"), ("allow.auto.create.topics", "false")],
    );
    c.until_event("g has committed", 20_000, |event| matches!(event, Event::CommitConfirmed { .. }));
    c.give(Command::Close("a".into()));
    c.run_ms(1_000);
    c.give(Command::DeleteTopic("t".into()));
    c.run_ms(2_000);
    assert!((1..=3).all(|broker| c.partition(broker, "t-0").is_none()), "R-PLACE-9");
    let dropped = c.events().any(
        |event| matches!(event, Event::Group(GroupEvent::OffsetDropped { tp: p, .. }) if *p == tp("t-0")),
    );
    assert!(dropped, "R-PLACE-9: its committed offsets are removed\n{}", c.report());
    c.give(Command::DeleteTopic("t".into()));
    c.run_ms(1_000);
    assert_eq!(refusal(&c), Some(ErrorCode::UnknownTopicOrPartition));
    let (topic, config) = ("t".into(), config(&[]));
    c.give(Command::CreateTopic { topic, partitions: 1, replication_factor: 3, config });
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "1:0/0 2:0/0 3:0/0", "a topic of the same name is another one");
    c.send("p", 3);
    c.run_ms(5_000);
    assert_eq!(c.replicas("t-0"), "1:3/3 2:3/3 3:3/3", "the producer goes on with it\n{}", c.report());
}

#[test]
fn a_write_that_waits_for_a_topic_that_is_deleted_is_answered() {
    let mut c = three_replicas(5, &[("min.insync.replicas", "2")]);
    c.cut(1, 2);
    c.cut(1, 3);
    c.run_ms(1_000);
    c.send("p", 1);
    c.run_ms(1_000);
    c.give(Command::DeleteTopic("t".into()));
    c.until_event("the leader answers", 2_000, |event| {
        matches!(event, Event::BatchRetried { error: ErrorCode::UnknownTopicOrPartition, .. })
    });
}

#[test]
fn a_consumer_that_may_create_topics_brings_a_deleted_one_back_and_reads_on_there() {
    let mut c = three_replicas(10, &[]);
    c.consumer("a", "g", &["t"], &["poll", "commit"], &[("auto.offset.reset", "earliest")]);
    c.until_event("g has committed", 20_000, |event| matches!(event, Event::CommitConfirmed { .. }));
    c.give(Command::DeleteTopic("t".into()));
    c.until_event(
        "its metadata request creates it (R-PLACE-8)",
        30_000,
        |event| matches!(event, Event::TopicCreated { topic, .. } if topic.as_str() == "t"),
    );
    c.run_ms(5_000);
    c.send("p", 3);
    c.until_event(
        "the consumer reads the new topic",
        400_000,
        |event| matches!(event, Event::Polled { tp: p, from: Offset(0), .. } if *p == tp("t-0")),
    );
}

#[test]
fn a_consumer_finds_new_partitions_when_its_metadata_is_old() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.consumer("a", "g", &["t"], &["poll"], &[("metadata.max.age.ms", "10000")]);
    c.until_event("a has t-0", 30_000, |event| matches!(event, Event::PartitionsAssigned { .. }));
    c.give(Command::AddPartitions { topic: "t".into(), count: 2 });
    c.until_event("a has t-1 too", 30_000, |event| {
        matches!(event, Event::PartitionsAssigned { partitions, .. } if partitions.contains(&tp("t-1")))
    });
}
