//! What is not told.

use super::*;
use crate::kafka::event::ShareEvent;

/// Events that are never told alone, each with one of its kind.
fn silent() -> Vec<Event> {
    let client = name("consumer-a");
    let (broker, follower) = (BrokerId(1), BrokerId(2));
    vec![
        Event::CommandGiven { text: "kill broker 3".to_owned() },
        Event::QuorumVoted { voter: ControllerId(101), candidate: ControllerId(102), epoch: LeaderEpoch(2) },
        Event::BecameLeader {
            broker,
            tp: tp(0),
            topic_id: TopicId(uuid::Uuid::from_u128(1)),
            leader_epoch: LeaderEpoch(1),
            start_offset: Offset(5),
            open_below: Vec::new(),
        },
        Event::BecameFollower { broker: follower, tp: tp(0), leader_epoch: LeaderEpoch(1), leader: broker },
        Event::IsrChangeProposed { broker, tp: tp(0), isr: brokers(&[1, 2]), out_of_sync: brokers(&[3]) },
        Event::Group(GroupEvent::CoordinatorElected { broker, partition: 9, leader_epoch: LeaderEpoch(1) }),
        Event::Group(GroupEvent::CoordinatorResigned { broker, partition: 9 }),
        Event::ReplicaDeleted { broker, tp: tp(0) },
        Event::Group(GroupEvent::OffsetDropped { group: billing(), tp: tp(0) }),
        Event::RecordBatched {
            client: name("checkout-api"),
            tp: tp(0),
            batch: BatchId(0),
            key: Some(b"cart-3"[..].into()),
        },
        Event::BatchSplit {
            client: name("checkout-api"),
            tp: tp(0),
            batch: BatchId(0),
            parts: vec![(BatchId(1), 3), (BatchId(2), 2)],
        },
        Event::BatchSent {
            client: name("checkout-api"),
            tp: tp(0),
            batch: BatchId(0),
            records: 1,
            base_sequence: 0,
            attempt: 0,
            to: broker,
            correlation: 7,
        },
        Event::Appended {
            broker,
            tp: tp(0),
            leader_epoch: LeaderEpoch(1),
            base_offset: Offset(5),
            last_offset: Offset(5),
            producer: ProducerId(1),
            base_sequence: 0,
            transactional: false,
            request: None,
        },
        Event::Replicated {
            broker: follower,
            tp: tp(0),
            from: Offset(5),
            to: Offset(6),
            epochs: vec![(LeaderEpoch(1), Offset(5))],
        },
        advanced(tp(0), 5, 6),
        acknowledged(1, 60),
        Event::Group(GroupEvent::OffsetCommitted {
            group: billing(),
            tp: tp(0),
            offset: Offset(6),
            client: client.clone(),
        }),
        join_sent(&client),
        Event::Polled {
            client: client.clone(),
            group: billing(),
            tp: tp(0),
            from: Offset(5),
            to: Offset(6),
            records: 1,
            runs: vec![OffsetRun { epoch: LeaderEpoch(1), from: Offset(5), to: Offset(6) }],
        },
        Event::Application(ApplicationEvent::LetGo {
            client: client.clone(),
            tp: tp(0),
            offsets: vec![(Offset(5), Offset(6))],
        }),
        Event::Application(ApplicationEvent::ResultSent {
            client: client.clone(),
            of: tp(0),
            offset: Offset(5),
        }),
        Event::Processed { client: client.clone(), tp: tp(0), offset: Offset(5) },
        Event::Share(ShareEvent::Delivered {
            client: client.clone(),
            group: billing(),
            tp: tp(0),
            records: vec![(Offset(5), 1)],
            runs: vec![OffsetRun { epoch: LeaderEpoch(1), from: Offset(5), to: Offset(6) }],
        }),
        Event::CommitConfirmed {
            client,
            offsets: vec![(tp(0), Offset(6))],
            automatic: false,
            generation: Generation(3),
            latency_ms: 4,
        },
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
    let variants = |source: &'static str, of: &str| -> Vec<&'static str> {
        let source = source.split(of).nth(1).expect("it has the enum");
        let name = |line: &'static str| {
            let line = line.strip_prefix("    ")?;
            line.starts_with(char::is_uppercase).then(|| line.split([' ', ',', '(']).next())?
        };
        source.lines().filter_map(name).collect()
    };
    let mut events = variants(include_str!("../../../kafka/event/mod.rs"), "pub enum Event {");
    let nested = ["Application", "Group", "Producer", "Share", "Transaction"];
    events.retain(|name| !nested.contains(name));
    let of_groups = variants(include_str!("../../../kafka/event/group.rs"), "pub enum GroupEvent {");
    let of_shares = variants(include_str!("../../../kafka/event/share.rs"), "pub enum ShareEvent {");
    let of_transactions =
        variants(include_str!("../../../kafka/event/transaction.rs"), "pub enum TransactionEvent {");
    let of_producers = variants(include_str!("../../../kafka/event/producer.rs"), "pub enum ProducerEvent {");
    assert!(!of_producers.is_empty());
    assert_eq!(of_transactions.len(), 7, "{of_transactions:?}");
    assert!(events.len() > 50 && of_shares.len() > 8 && of_groups.len() > 15, "{events:?} {of_groups:?}");
    let of_applications =
        variants(include_str!("../../../kafka/event/application.rs"), "pub enum ApplicationEvent {");
    assert_eq!(of_applications.len(), 10, "{of_applications:?}");
    let told = concat!(
        include_str!("applications.rs"),
        include_str!("mod.rs"),
        include_str!("clients.rs"),
        include_str!("cluster.rs"),
        include_str!("groups.rs"),
        include_str!("shares.rs"),
        include_str!("storage.rs"),
        include_str!("topics.rs"),
        include_str!("transactions.rs")
    );
    let routine: Vec<String> = silent().iter().map(|event| format!("{event:?}")).collect();
    let of_clients = of_producers.iter().chain(&of_applications).chain(&of_groups).chain(&of_shares);
    for variant in events.iter().chain(of_clients).chain(&of_transactions) {
        let is_told = told.contains(&format!("Event::{variant} {{"));
        let is_routine = routine.iter().any(|text| {
            let own = ["Group(", "Share(", "Application("].iter().find_map(|of| text.strip_prefix(of));
            own.unwrap_or(text).split(' ').next() == Some(variant)
        });
        assert!(is_told || is_routine, "{variant} is neither told here nor routine");
    }
}
