//! Topics, their partitions and replicas.

use super::*;

#[test]
fn a_partition_without_an_in_sync_replica_has_no_leader() {
    check(
        &[(100, elected(tp(2), 3, -1)), (200, elected(tp(2), -1, 3))],
        expect![[r#"
            00:00.100  orders-2: broker 3 leads no more and none takes over, epoch 9 to 10; in-sync 1, 2 (R-REPL-42)
                Bad: No in-sync replica is alive: nothing can be written or read until one returns.
            00:00.200  orders-2: leader moved from none to broker 3, epoch 9 to 10; in-sync 1, 2 (R-REPL-42)
                Good: The leader was fenced; the first in-sync replica in list order that lives leads.
        "#]],
    );
}

#[test]
fn in_sync_sets_change_by_lag_by_return_and_by_refusal() {
    let lagging = Event::IsrShrunk {
        tp: tp(1),
        removed: brokers(&[3]),
        isr: brokers(&[1, 2]),
        partition_epoch: PartitionEpoch(2),
        reason: ChangeReason::LeaderRequest,
    };
    let unclean = Event::IsrShrunk {
        tp: tp(1),
        removed: brokers(&[2, 3]),
        isr: vec![],
        partition_epoch: PartitionEpoch(2),
        reason: ChangeReason::UncleanShutdown,
    };
    let expanded = Event::IsrExpanded {
        tp: tp(1),
        added: brokers(&[3]),
        isr: brokers(&[1, 2, 3]),
        partition_epoch: PartitionEpoch(3),
    };
    let elr = |elr| Event::ElrChanged { tp: tp(1), elr, last_known_elr: vec![] };
    let refused =
        Event::IsrChangeRefused { tp: tp(1), broker: BrokerId(2), error: ErrorCode::IneligibleReplica };
    check(
        &[(1, lagging), (2, unclean), (3, elr(brokers(&[3]))), (4, expanded), (5, elr(vec![])), (6, refused)],
        expect![[r#"
            00:00.001  orders-1: broker 3 left the ISR; in-sync 1, 2 (R-REPL-21)
                Warn: It had not caught up for replica.lag.time.max.ms; the leader waits for it no more.
            00:00.002  orders-1: brokers 2, 3 left the ISR; in-sync none (R-REPL-56)
                Warn: It had stopped without warning, so the end of its log cannot be trusted.
            00:00.003  orders-1: eligible leader replicas 3 (R-REPL-45)
                Info: They left the ISR while it was at min.insync.replicas, so they hold all committed records and may lead.
            00:00.004  orders-1: broker 3 is back in the ISR; in-sync 1, 2, 3 (R-REPL-23)
                Good: Its log has reached the leader's high watermark; acks=all waits for it again.
            00:00.005  orders-1: no eligible leader replicas are kept (R-REPL-45)
                Info: Enough replicas are in sync again.
            00:00.006  orders-1: ISR change that broker 2 asked for refused: INELIGIBLE_REPLICA (R-REPL-25)
                Warn
        "#]],
    );
}

#[test]
fn topics_are_created_configured_and_refused() {
    let created = |topic: &str, partitions| Event::TopicCreated {
        topic: Topic::new(topic),
        partitions,
        replication_factor: 3,
    };
    let config = |value: Option<&str>| Event::ConfigChanged {
        topic: Topic::new("orders"),
        key: "min.insync.replicas".to_owned(),
        value: value.map(str::to_owned),
    };
    let refused = Event::CommandRefused {
        text: "create topic x partitions 0 replication-factor 3".to_owned(),
        error: ErrorCode::InvalidPartitions,
        message: "Number of partitions was set to an invalid non-positive value.".to_owned(),
    };
    check(
        &[
            (1, created("orders", 3)),
            (1, created("one", 1)),
            (2, config(Some("1"))),
            (3, config(None)),
            (4, refused),
        ],
        expect![[r#"
            00:00.001  topic orders created: 3 partitions, replication factor 3 (R-PLACE-1, R-PLACE-6)
                Info: Of each partition's replicas those in service are in sync, and the first of them leads.
            00:00.001  topic one created: 1 partition, replication factor 3 (R-PLACE-1, R-PLACE-6)
                Info: Of each partition's replicas those in service are in sync, and the first of them leads.
            00:00.002  topic orders: min.insync.replicas set to 1 (R-LOG-53)
                Info
            00:00.003  topic orders: min.insync.replicas is back at its default (R-LOG-53)
                Info
            00:00.004  refused with INVALID_PARTITIONS: create topic x partitions 0 replication-factor 3
                Warn: Number of partitions was set to an invalid non-positive value.
        "#]],
    );
}

#[test]
fn a_high_watermark_is_told_only_when_records_waited_for_it() {
    check(
        &[
            (1_000, appended(tp(2), 57, 58)),
            (1_080, advanced(tp(2), 57, 59)),
            (30_100, appended(tp(2), 59, 59)),
            (31_000, appended(tp(2), 60, 60)),
            (39_391, advanced(tp(2), 59, 61)),
            (39_395, advanced(tp(2), 61, 61)),
            (40_000, appended(offsets_tp(9), 5, 5)),
            (49_000, advanced(offsets_tp(9), 5, 6)),
        ],
        expect![[r#"
            00:39.391  orders-2: high watermark moved from 59 to 61 after 9.2 s (R-REPL-12)
                Good: Every in-sync replica has these records; consumers see them now.
        "#]],
    );
}

#[test]
fn a_long_silence_of_the_producer_is_no_held_back_high_watermark() {
    let quiet = [(0, appended(tp(0), 0, 0)), (50, advanced(tp(0), 0, 1)), (60_000, appended(tp(0), 1, 1))];
    check_lines(&[&quiet[..], &[(60_050, advanced(tp(0), 1, 2))]].concat(), expect![""]);
}

#[test]
fn truncation_says_how_many_records_went_and_why() {
    let truncated = |from, to, reason| Event::Truncated {
        broker: BrokerId(1),
        tp: tp(0),
        from: Offset(from),
        to: Offset(to),
        reason,
    };
    let diverging = TruncationReason::DivergingEpoch { epoch: LeaderEpoch(0), end_offset: Offset(5) };
    check(
        &[
            (1, truncated(6, 5, diverging)),
            (2, truncated(9, 5, TruncationReason::NoEpochKnown)),
            (3, truncated(9, 8, TruncationReason::OutOfRange)),
            (4, truncated(5, 5, TruncationReason::NoEpochKnown)),
        ],
        expect![[r#"
            00:00.001  broker 1: orders-0 truncated from 6 to 5: 1 record removed (R-REPL-36)
                Bad: The leader's log has nothing of epoch 0 from offset 5 on.
            00:00.002  broker 1: orders-0 truncated from 9 to 5: 4 records removed (R-REPL-35)
                Bad: The replica knew no leader epoch and went back to its high watermark.
            00:00.003  broker 1: orders-0 truncated from 9 to 8: 1 record removed (R-REPL-37)
                Bad: The leader's log ends before this one.
        "#]],
    );
}

#[test]
fn an_unclean_leader_is_named_as_what_it_is() {
    let unclean = Event::LeaderElected {
        tp: tp(2),
        from: BrokerId::NONE,
        to: BrokerId(2),
        leader_epoch: LeaderEpoch(11),
        partition_epoch: PartitionEpoch(4),
        isr: brokers(&[2]),
        unclean: true,
        reason: ChangeReason::UncleanElection,
    };
    check(
        &[(100, unclean)],
        expect![[r#"
            00:00.100  orders-2: leader moved uncleanly from none to broker 2, epoch 10 to 11; in-sync 2 (R-REPL-43)
                Bad: It was not in sync: committed records that it lacks are lost, and the others cut their logs to its own.
        "#]],
    );
}

#[test]
fn a_leader_that_goes_on_with_a_new_epoch_is_no_move() {
    check(
        &[(100, elected(tp(2), 3, 3))],
        expect![[r#"
        00:00.100  orders-2: broker 3 leads on, epoch 9 to 10; in-sync 1, 2 (R-REPL-3)
            Info: A replica left the partition; requests of the old epoch are refused from now on.
    "#]],
    );
}

#[test]
fn a_topic_moves_grows_and_goes() {
    let moving = |adding: &[i32], removing: &[i32], replicas: &[i32]| Event::ReplicasChanged {
        tp: tp(0),
        replicas: brokers(replicas),
        adding: brokers(adding),
        removing: brokers(removing),
    };
    check(
        &[
            (100, moving(&[4], &[1], &[4, 2, 3, 1])),
            (200, moving(&[], &[], &[4, 2, 3])),
            (300, Event::PartitionsAdded { topic: "orders".into(), from: 3, to: 6 }),
            (400, Event::TopicDeleted { topic: "orders".into() }),
        ],
        expect![[r#"
            00:00.100  orders-0: replicas 4, 2, 3, 1; adding 4; removing 1 (R-REPL-58, R-REPL-59)
                Info: When all that are added are in sync, the others leave.
            00:00.200  orders-0: replicas are 4, 2, 3 now (R-REPL-58, R-REPL-59)
                Info: Nothing is added or removed any more.
            00:00.300  topic orders: 3 -> 6 partitions (R-PLACE-7)
                Info: Keys may go to other partitions from now on; the records there are stay where they are.
            00:00.400  topic orders deleted (R-PLACE-9)
                Bad: Its records are gone. A topic of the same name would be another one, with an id of its own.
        "#]],
    );
}
