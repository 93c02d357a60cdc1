//! What is told of each event, and what is not.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};

use super::*;
use crate::kafka::event::*;
use crate::kafka::protocol::{ApiKey, ErrorCode};
use crate::kafka::types::*;

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new("orders"), partition)
}

fn offsets_tp(partition: i32) -> TopicPartition {
    TopicPartition::new(&Topic::new("__consumer_offsets"), partition)
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn broker(id: i32) -> NodeId {
    NodeId::Broker(BrokerId(id))
}

fn name(text: &str) -> ClientName {
    ClientName::new(text)
}

fn billing() -> GroupId {
    GroupId::new("billing")
}

fn killed(node: NodeId, client: &str) -> Event {
    Event::Process { node, name: name(client), act: Act::Killed }
}

fn started(node: NodeId, client: &str) -> Event {
    Event::Process { node, name: name(client), act: Act::Started }
}

fn elected(tp: TopicPartition, from: i32, to: i32) -> Event {
    let reason = ChangeReason::BrokerFenced;
    let (leader_epoch, partition_epoch) = (LeaderEpoch(10), PartitionEpoch(14));
    let (from, to) = (BrokerId(from), BrokerId(to));
    Event::LeaderElected { tp, from, to, leader_epoch, partition_epoch, isr: brokers(&[1, 2]), reason }
}

fn shrunk(tp: TopicPartition) -> Event {
    let (removed, isr) = (brokers(&[3]), brokers(&[1, 2]));
    Event::IsrShrunk {
        tp,
        removed,
        isr,
        partition_epoch: PartitionEpoch(15),
        reason: ChangeReason::BrokerFenced,
    }
}

fn appended(tp: TopicPartition, base: i64, last: i64) -> Event {
    Event::Appended {
        broker: BrokerId(1),
        tp,
        leader_epoch: LeaderEpoch(10),
        base_offset: Offset(base),
        last_offset: Offset(last),
        producer: ProducerId(1),
        base_sequence: 0,
    }
}

fn advanced(tp: TopicPartition, from: i64, to: i64) -> Event {
    Event::HighWatermarkAdvanced { broker: BrokerId(1), tp, leader: true, from: Offset(from), to: Offset(to) }
}

fn acknowledged(records: i64, latency_ms: i64) -> Event {
    let base_offset = Offset(59);
    Event::BatchAcknowledged { client: name("checkout-api"), tp: tp(2), base_offset, records, latency_ms }
}

fn retried(error: ErrorCode) -> Event {
    Event::BatchRetried { client: name("checkout-api"), tp: tp(2), error, attempt: 1 }
}

fn rebalance(reason: RebalanceReason) -> Event {
    Event::RebalanceStarted {
        group: billing(),
        generation: Generation(7),
        reason,
        client: name("consumer-c"),
    }
}

fn removed(reason: MemberRemoval) -> Event {
    let (member, client) = (MemberId::new("consumer-b-1"), name("consumer-b"));
    Event::MemberRemoved { group: billing(), member, client, reason }
}

fn state(from: GroupState, to: GroupState) -> Event {
    Event::GroupStateChanged { group: billing(), from, to, generation: Generation(8) }
}

fn revoked(reason: RevokeReason) -> Event {
    let partitions = vec![tp(1), tp(2)];
    Event::PartitionsRevoked { client: name("consumer-b"), group: billing(), partitions, reason }
}

fn assigned(partitions: Vec<TopicPartition>) -> Event {
    let (client, group, generation) = (name("consumer-b"), billing(), Generation(8));
    Event::PartitionsAssigned { client, group, generation, partitions }
}

fn position(partition: i32, offset: i64, source: PositionSource) -> Event {
    Event::PositionSet { client: name("consumer-b"), tp: tp(partition), offset: Offset(offset), source }
}

fn found(client: &str, broker: i32) -> Event {
    Event::CoordinatorFound { client: name(client), group: billing(), broker: BrokerId(broker) }
}

fn narrate(events: &[(i64, Event)]) -> Vec<Sentence> {
    let mut narrator = Narrator::default();
    let mut told = Vec::new();
    for (ms, event) in events {
        told.extend(narrator.tell(Time::from_ms(*ms), event));
    }
    told.extend(narrator.settle(Time::MAX));
    told
}

/// The sentences that events at these milliseconds lead to, each with its tone and detail.
fn check(events: &[(i64, Event)], expected: Expect) {
    let mut text = String::new();
    for sentence in narrate(events) {
        text.push_str(&format!("{sentence}\n    {:?}", sentence.tone));
        if !sentence.detail.is_empty() {
            text.push_str(&format!(": {}", sentence.detail));
        }
        text.push('\n');
    }
    expected.assert_eq(&text);
}

/// The lines of the narrative alone.
fn check_lines(events: &[(i64, Event)], expected: Expect) {
    let lines: Vec<String> = narrate(events).iter().map(Sentence::to_string).collect();
    expected.assert_eq(&lines.join("\n"));
}

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
            00:39.118  orders-2: leader 3 -> 1, epoch 9 -> 10; in-sync 1, 2 (R-REPL-42)
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
            00:00.100  orders: 4 leaders elected: 3 -> 2 (4) (R-REPL-42)
            00:00.100  __consumer_offsets: 50 leaders elected: 3 -> 1 (25), 3 -> 2 (25) (R-REPL-42)
            00:00.100  __consumer_offsets: broker 3 left the ISR of 50 partitions (R-REPL-49)"#]],
    );
}

#[test]
fn a_partition_without_an_in_sync_replica_has_no_leader() {
    check(
        &[(100, elected(tp(2), 3, -1)), (200, elected(tp(2), -1, 3))],
        expect![[r#"
        00:00.100  orders-2: leader 3 -> none, epoch 9 -> 10; in-sync 1, 2 (R-REPL-42)
            Bad: No in-sync replica is alive: nothing can be written or read until one returns.
        00:00.200  orders-2: leader none -> 3, epoch 9 -> 10; in-sync 1, 2 (R-REPL-42)
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
fn processes_stop_in_different_ways() {
    let act = |node, client: &str, act| Event::Process { node, name: name(client), act };
    let joined = Event::JoinSent { client: name("consumer-b"), group: billing() };
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
                Bad: Without a controller nothing is elected, and no in-sync set can change.
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
                Bad: What they send to each other is lost without a sign until a timeout closes the connection.
            00:00.002  link between broker 1 and controller 101 healed
                Good
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
            00:00.001  topic orders created: 3 partitions, replication factor 3 (R-PLACE-3)
                Info
            00:00.001  topic one created: 1 partition, replication factor 3 (R-PLACE-3)
                Info
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
            00:39.391  orders-2: high watermark 59 -> 61 after 9.2 s (R-REPL-12)
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
fn a_refused_batch_is_told_once_until_one_is_taken() {
    let refused = |error| Event::ProduceRefused { broker: BrokerId(1), tp: tp(0), error };
    let duplicate = Event::DuplicateBatch {
        broker: BrokerId(1),
        tp: tp(0),
        producer: ProducerId(1),
        base_sequence: 4,
        base_offset: Offset(59),
    };
    check(
        &[
            (1, refused(ErrorCode::NotEnoughReplicas)),
            (100, refused(ErrorCode::NotEnoughReplicas)),
            (200, refused(ErrorCode::OutOfOrderSequenceNumber)),
            (300, appended(tp(0), 5, 5)),
            (400, refused(ErrorCode::NotEnoughReplicas)),
            (500, duplicate),
        ],
        expect![[r#"
            00:00.001  broker 1: a batch for orders-0 refused: NOT_ENOUGH_REPLICAS (R-REPL-30)
                Warn: acks=all needs min.insync.replicas in-sync replicas; nothing was stored.
            00:00.200  broker 1: a batch for orders-0 refused: OUT_OF_ORDER_SEQUENCE_NUMBER
                Warn: Nothing was stored.
            00:00.400  broker 1: a batch for orders-0 refused: NOT_ENOUGH_REPLICAS (R-REPL-30)
                Warn: acks=all needs min.insync.replicas in-sync replicas; nothing was stored.
            00:00.500  broker 1: a repeated batch of orders-0 is not stored again (R-PROD-25)
                Good: Its sequence numbers are those of a batch stored at offset 59; that offset is the answer.
        "#]],
    );
}

#[test]
fn retries_and_late_acknowledgements_are_told_once() {
    check(
        &[
            (0, acknowledged(1, 60)),
            (1, retried(ErrorCode::NetworkException)),
            (2, retried(ErrorCode::NetworkException)),
            (3, retried(ErrorCode::NotLeaderOrFollower)),
            (9_391, acknowledged(2, 9_300)),
            (9_401, acknowledged(2, 9_200)),
            (12_000, acknowledged(2, 100)),
            (13_000, retried(ErrorCode::NetworkException)),
        ],
        expect![[r#"
            00:00.001  checkout-api: a batch for orders-2 will be sent again: NETWORK_EXCEPTION (R-PROD-15, R-PROD-17)
                Warn: It is retried until delivery.timeout.ms has passed.
            00:00.003  checkout-api: a batch for orders-2 will be sent again: NOT_LEADER_OR_FOLLOWER (R-PROD-15, R-PROD-17)
                Warn: It is retried until delivery.timeout.ms has passed.
            00:09.391  checkout-api: 2 records of orders-2 acknowledged after 9.3 s (R-REPL-29)
                Good: The batch begins at offset 59.
            00:13.000  checkout-api: a batch for orders-2 will be sent again: NETWORK_EXCEPTION (R-PROD-15, R-PROD-17)
                Warn: It is retried until delivery.timeout.ms has passed.
        "#]],
    );
}

#[test]
fn a_lost_connection_is_told_once_until_the_node_is_back() {
    let lost = |requests| Event::ConnectionLost { client: name("checkout-api"), node: broker(3), requests };
    let timed_out =
        Event::RequestTimedOut { client: name("checkout-api"), node: broker(3), api: ApiKey::Produce };
    check(
        &[(1, lost(2)), (2, lost(0)), (3, timed_out), (4, started(broker(3), "broker-3")), (5, lost(0))],
        expect![[r#"
            00:00.001  checkout-api lost its connection to broker 3
                Warn: 2 requests had no answer yet: carried out or not, it cannot know.
            00:00.003  checkout-api: no answer to Produce from broker 3 (R-PROD-16)
                Warn: After request.timeout.ms the connection is given up.
            00:00.004  broker 3 started
                Info
            00:00.005  checkout-api lost its connection to broker 3
                Warn
        "#]],
    );
}

#[test]
fn a_producer_gets_its_id_pauses_and_fails() {
    let client = name("checkout-api");
    check(
        &[
            (
                1,
                Event::ProducerIdGiven {
                    client: client.clone(),
                    producer: ProducerId(1),
                    epoch: ProducerEpoch(0),
                },
            ),
            (2, Event::ProducerPaused { client: client.clone() }),
            (3, Event::ProducerResumed { client: client.clone() }),
            (
                4,
                Event::BatchFailed {
                    client: client.clone(),
                    tp: tp(1),
                    records: 3,
                    error: ErrorCode::RequestTimedOut,
                },
            ),
            (5, Event::ClientFailed { client, error: ErrorCode::InvalidTopicException }),
        ],
        expect![[r#"
            00:00.001  checkout-api got producer id 1, epoch 0 (R-PROD-23)
                Info: With it and a sequence number in each batch, a broker recognises a repetition.
            00:00.002  checkout-api paused
                Info: Its application sends nothing more; what it has sent goes on.
            00:00.003  checkout-api sends again
                Info
            00:00.004  checkout-api: 3 records of orders-1 failed: REQUEST_TIMED_OUT (R-PROD-17)
                Bad: The application is told; the client does not try again.
            00:00.005  checkout-api ends with an error: INVALID_TOPIC_EXCEPTION
                Bad
        "#]],
    );
}

#[test]
fn a_rebalance_reads_as_a_story() {
    let member = Event::MemberAdded {
        group: billing(),
        member: MemberId::new("consumer-c-1"),
        client: name("consumer-c"),
        leader: false,
    };
    let plan = vec![(name("consumer-a"), vec![tp(0)]), (name("consumer-b"), vec![tp(1), tp(2)])];
    let stored = Event::AssignmentStored { group: billing(), generation: Generation(8), plan };
    check(
        &[
            (1, member),
            (1, rebalance(RebalanceReason::MemberJoined)),
            (1, state(GroupState::Stable, GroupState::PreparingRebalance)),
            (900, revoked(RevokeReason::Rebalance)),
            (990, state(GroupState::PreparingRebalance, GroupState::CompletingRebalance)),
            (1050, stored),
            (1050, state(GroupState::CompletingRebalance, GroupState::Stable)),
            (1090, assigned(vec![tp(1), tp(2)])),
            (1091, assigned(vec![])),
            (1130, position(1, 38, PositionSource::Committed)),
            (1130, position(2, 41, PositionSource::Committed)),
            (1150, position(0, 0, PositionSource::Earliest)),
            (1160, position(0, 7, PositionSource::Latest)),
        ],
        expect![[r#"
            00:00.001  billing: consumer-c is a member (R-GRP-9)
                Info
            00:00.001  billing: rebalance after generation 7: consumer-c joins (R-GRP-23)
                Warn: Members learn of it from their next heartbeat and join again in their next poll().
            00:00.900  consumer-b gave up orders-1, orders-2 to join again (R-GRP-29)
                Warn: With an eager assignor a member owns nothing until the new plan is there.
            00:00.990  billing: all members have joined generation 8 (R-GRP-7, R-GRP-17)
                Info: The leader works out who owns what.
            00:01.050  billing: generation 8: consumer-a orders-0; consumer-b orders-1, orders-2 (R-GRP-18, R-ASG-1)
                Good: The group's leader made this plan; the coordinator stored it and is Stable.
            00:01.090  consumer-b owns orders-1, orders-2 in generation 8 of billing (R-GRP-30)
                Good: It asks for the committed offsets and reads on from there.
            00:01.091  consumer-b owns nothing in generation 8 of billing (R-GRP-30)
                Warn: The plan has no partition for it; it stands by.
            00:01.130  consumer-b reads orders-1 at 38, orders-2 at 41 (R-CONS-11, R-CONS-15)
                Info: It begins at the committed offset.
            00:01.150  consumer-b reads orders-0 at 0 (R-CONS-11)
                Info: It begins at the log start, for nothing was committed.
            00:01.160  consumer-b reads orders-0 at 7 (R-CONS-11, R-CONS-12)
                Info: It begins at the high watermark, for nothing was committed.
        "#]],
    );
}

#[test]
fn members_go_for_different_reasons() {
    use MemberRemoval::*;
    let events: Vec<Event> = [Left, SessionExpired, DidNotRejoin, DidNotSync, GroupFull]
        .into_iter()
        .flat_map(|reason| [removed(reason), rebalance(RebalanceReason::MemberRemoved(reason))])
        .chain(
            [RebalanceReason::MemberRejoined, RebalanceReason::WriteFailed, RebalanceReason::GroupTooLarge]
                .map(rebalance),
        )
        .chain([RevokeReason::Lost, RevokeReason::Closing].map(revoked))
        .chain([GroupState::Empty, GroupState::Dead].map(|to| state(GroupState::PreparingRebalance, to)))
        .chain([Event::JoinExtended { group: billing(), wait_ms: 3000 }])
        .collect();
    let events: Vec<(i64, Event)> = events.into_iter().map(|event| (1, event)).collect();
    check_lines(
        &events,
        expect![[r#"
            00:00.001  billing: consumer-b left (R-GRP-22)
            00:00.001  billing: rebalance after generation 7: consumer-c left (R-GRP-23)
            00:00.001  billing: consumer-b removed: no heartbeat for its session.timeout.ms (R-GRP-21)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: consumer-b removed: it did not join again within the rebalance timeout (R-GRP-13)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: consumer-b removed: it did not ask for the new plan within the rebalance timeout (R-GRP-19)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: consumer-b removed: the group has group.max.size members (R-GRP-8)
            00:00.001  billing: rebalance after generation 7: consumer-c was removed (R-GRP-23)
            00:00.001  billing: rebalance after generation 7: consumer-c joined again (R-GRP-23)
            00:00.001  billing: rebalance after generation 7: the plan could not be stored (R-GRP-23)
            00:00.001  billing: rebalance after generation 7: it has more members than group.max.size (R-GRP-23)
            00:00.001  consumer-b lost orders-1, orders-2 (R-GRP-32)
            00:00.001  consumer-b gave up orders-1, orders-2 to close (R-CONS-27)
            00:00.001  billing: the group is empty, generation 8 (R-GRP-6)
            00:00.001  billing: the group is gone
            00:00.001  billing: waits 3 s more, for further members (R-GRP-12)"#]],
    );
}

#[test]
fn a_coordinator_is_told_when_it_is_another() {
    let lost = |client: &str| Event::CoordinatorLost {
        client: name(client),
        group: billing(),
        error: ErrorCode::NotCoordinator,
    };
    let loaded =
        |groups| Event::CoordinatorLoaded { broker: BrokerId(2), partition: 9, records: 312, groups };
    check(
        &[
            (1, found("consumer-a", 1)),
            (2, found("consumer-b", 1)),
            (3, loaded(vec![])),
            (3, loaded(vec![billing()])),
            (4, lost("consumer-a")),
            (5, lost("consumer-b")),
            (6, found("consumer-a", 2)),
        ],
        expect![[r#"
            00:00.001  billing: consumer-a found the coordinator, broker 1 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
            00:00.003  broker 2 coordinates group billing now (R-GRP-4)
                Good: It read 312 records of __consumer_offsets-9.
            00:00.004  billing: consumer-a has lost the coordinator: NOT_COORDINATOR (R-GRP-3)
                Warn: Its members ask any broker for the new one (FindCoordinator).
            00:00.006  billing: consumer-a found the coordinator, broker 2 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
        "#]],
    );
}

#[test]
fn a_search_that_finds_the_dead_coordinator_again_and_again_is_told_once() {
    let lost = || Event::CoordinatorLost {
        client: name("consumer-a"),
        group: billing(),
        error: ErrorCode::NetworkException,
    };
    check(
        &[
            (1, found("consumer-a", 1)),
            (2, lost()),
            (3, found("consumer-a", 1)),
            (4, lost()),
            (5, found("consumer-a", 1)),
            (6, lost()),
            (7, found("consumer-a", 2)),
        ],
        expect![[r#"
            00:00.001  billing: consumer-a found the coordinator, broker 1 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
            00:00.002  billing: consumer-a has lost the coordinator: NETWORK_EXCEPTION (R-GRP-3)
                Warn: Its members ask any broker for the new one (FindCoordinator).
            00:00.003  billing: consumer-a is sent to broker 1 again (R-GRP-2)
                Info: Until the controller fences it, it leads the partition of __consumer_offsets that keeps the group, so every broker names it. The members go on asking.
            00:00.007  billing: consumer-a found the coordinator, broker 2 (R-GRP-1, R-GRP-2)
                Info: It leads the partition of __consumer_offsets that the group's name hashes to.
        "#]],
    );
}

#[test]
fn a_commit_that_is_refused_or_has_expired_is_told() {
    let (client, error) = (name("consumer-a"), ErrorCode::IllegalGeneration);
    check(
        &[
            (0, Event::OffsetExpired { group: billing(), tp: tp(1) }),
            (1, Event::CommitRefused { group: billing(), error, client: client.clone() }),
            (2, Event::CommitFailed { client, error }),
        ],
        expect![[r#"
            00:00.000  billing: the committed offset of orders-1 has expired (R-GRP-40)
                Warn: Nobody had used it for offsets.retention.minutes; auto.offset.reset decides from now on.
            00:00.001  billing: commit of consumer-a refused: ILLEGAL_GENERATION (R-GRP-36)
                Warn
            00:00.002  consumer-a: commit failed: ILLEGAL_GENERATION (R-CONS-22)
                Bad: What it processed since its last commit will be read again by the partition's owner.
        "#]],
    );
}

/// Events that are never told alone, each with one of its kind.
fn silent() -> Vec<Event> {
    let client = name("consumer-a");
    let (broker, follower) = (BrokerId(1), BrokerId(2));
    vec![
        Event::CommandGiven { text: "kill broker 3".to_owned() },
        Event::BecameLeader { broker, tp: tp(0), leader_epoch: LeaderEpoch(1), start_offset: Offset(5) },
        Event::BecameFollower { broker: follower, tp: tp(0), leader_epoch: LeaderEpoch(1), leader: broker },
        Event::IsrChangeProposed { broker, tp: tp(0), isr: brokers(&[1, 2]), out_of_sync: brokers(&[3]) },
        Event::CoordinatorElected { broker, partition: 9, leader_epoch: LeaderEpoch(1) },
        Event::CoordinatorResigned { broker, partition: 9 },
        Event::BatchSent {
            client: name("checkout-api"),
            tp: tp(0),
            records: 1,
            base_sequence: 0,
            attempt: 0,
        },
        Event::Appended {
            broker,
            tp: tp(0),
            leader_epoch: LeaderEpoch(1),
            base_offset: Offset(5),
            last_offset: Offset(5),
            producer: ProducerId(1),
            base_sequence: 0,
        },
        Event::Replicated { broker: follower, tp: tp(0), from: Offset(5), to: Offset(6) },
        advanced(tp(0), 5, 6),
        acknowledged(1, 60),
        Event::OffsetCommitted { group: billing(), tp: tp(0), offset: Offset(6), client: client.clone() },
        Event::JoinSent { client: client.clone(), group: billing() },
        Event::Polled { client: client.clone(), tp: tp(0), from: Offset(5), to: Offset(6), records: 1 },
        Event::Processed { client: client.clone(), tp: tp(0), offset: Offset(5) },
        Event::CommitConfirmed { client, offsets: vec![(tp(0), Offset(6))], automatic: false },
    ]
}

#[test]
fn routine_is_not_told() {
    for event in silent() {
        assert_eq!(narrate(&[(1, event.clone())]), [], "{event:?}");
    }
}

#[test]
fn every_event_is_told_in_one_of_these_tests_or_is_routine() {
    let source = include_str!("../../kafka/event.rs");
    let source = source.split("pub enum Event {").nth(1).expect("event.rs has the enum");
    let variants = source.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(" {"));
    let told = include_str!("tests.rs").split("fn silent()").next().expect("split gives a first part");
    let routine: BTreeSet<String> =
        silent().iter().map(|event| format!("{event:?}")).map(|text| text.replace(" {", " ")).collect();
    for variant in variants {
        let is_told = told.contains(&format!("Event::{variant} {{"));
        let is_routine = routine.iter().any(|text| text.split(' ').next() == Some(variant));
        assert!(is_told || is_routine, "{variant} is neither told here nor routine");
    }
}
