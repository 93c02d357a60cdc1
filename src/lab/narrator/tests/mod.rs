//! What is told of each event, and what is not.

mod applications;
mod clients;
mod cluster;
mod groups;
mod routine;
mod shares;
mod storage;
mod topics;
mod transactions;

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
    Event::LeaderElected {
        tp,
        from,
        to,
        leader_epoch,
        partition_epoch,
        isr: brokers(&[1, 2]),
        unclean: false,
        reason,
    }
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
        transactional: false,
        request: None,
    }
}

fn advanced(tp: TopicPartition, from: i64, to: i64) -> Event {
    Event::HighWatermarkAdvanced { broker: BrokerId(1), tp, leader: true, from: Offset(from), to: Offset(to) }
}

fn acknowledged(records: i64, latency_ms: i64) -> Event {
    let base_offset = Offset(59);
    let (client, batch) = (name("checkout-api"), BatchId(4));
    Event::BatchAcknowledged { client, tp: tp(2), batch, base_offset, records, latency_ms }
}

fn retried(error: ErrorCode) -> Event {
    Event::BatchRetried { client: name("checkout-api"), tp: tp(2), batch: BatchId(4), error, attempt: 1 }
}

fn rebalance(reason: RebalanceReason) -> Event {
    Event::Group(GroupEvent::RebalanceStarted {
        group: billing(),
        generation: Generation(7),
        reason,
        client: name("consumer-c"),
    })
}

fn removed(reason: MemberRemoval) -> Event {
    let (member, client) = (MemberId::new("consumer-b-1"), name("consumer-b"));
    Event::Group(GroupEvent::MemberRemoved { group: billing(), member, client, reason })
}

fn state(from: GroupState, to: GroupState) -> Event {
    Event::Group(GroupEvent::GroupStateChanged { group: billing(), from, to, generation: Generation(8) })
}

fn revoked(reason: RevokeReason) -> Event {
    let partitions = vec![tp(1), tp(2)];
    Event::PartitionsRevoked { client: name("consumer-b"), group: billing(), partitions, reason }
}

fn assigned(partitions: Vec<TopicPartition>) -> Event {
    let (client, group, generation) = (name("consumer-b"), billing(), Generation(8));
    let added = partitions.clone();
    Event::PartitionsAssigned { client, group, generation, partitions, added }
}

/// Of an eager member.
fn join_sent(client: &ClientName) -> Event {
    Event::JoinSent { client: client.clone(), group: billing(), owned: Vec::new(), reason: "".into() }
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
