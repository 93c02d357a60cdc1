//! Groups: joining, rebalancing, losing members and coordinators (EX-18, EX-19).

use glassbroker::kafka::event::{Event, GroupEvent, GroupState, MemberRemoval, RevokeReason};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName, Generation, GroupId, Offset};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, cluster, tp};

const EARLIEST: &[(&str, &str)] = &[("auto.offset.reset", "earliest")];

pub fn owned(c: &Cluster, name: &str) -> Vec<String> {
    c.consumer_state(name).subscription().partitions().iter().map(ToString::to_string).collect()
}

/// A topic of `partitions` with `records` records, written by the producer `p`.
pub fn written(partitions: i32, records: i64) -> Cluster {
    let mut c = cluster(3).topic("t", partitions, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", records);
    c.run_ms(1_000);
    c
}

/// The group `g` became stable in this generation.
fn stable(c: &Cluster, generation: i32) -> bool {
    c.events().any(|event| match event {
        Event::Group(GroupEvent::GroupStateChanged {
            group,
            to: GroupState::Stable,
            generation: reached,
            ..
        }) => group.as_str() == "g" && reached.0 == generation,
        _ => false,
    })
}

#[test]
fn ex_19_each_newcomer_extends_the_initial_delay_of_an_empty_group() {
    let mut c = cluster(3).topic("t", 3, 3, &[]);
    // The offsets topic exists and its coordinators have loaded before the group begins.
    c.consumer("warm-up", "other", &["t"], &["poll"], &[]);
    c.run_ms(5_000);
    let joined = |c: &Cluster, name: &str| {
        let name = ClientName::new(name);
        c.events().any(
            |event| matches!(event, Event::Group(GroupEvent::MemberAdded { client, .. }) if *client == name),
        )
    };
    c.consumer("a", "g", &["t"], &["poll"], &[]);
    c.until("a joins", 1_000, |c| joined(c, "a"));
    let first = c.now_ms();
    c.run_ms(900);
    c.consumer("b", "g", &["t"], &["poll"], &[]);
    c.until("b joins", 1_000, |c| joined(c, "b"));
    c.until("3 s have passed", 4_000, |c| c.now_ms() >= first + 3_100);
    assert!(!stable(&c, 1), "b came meanwhile, so the wait goes on");
    c.consumer("c", "g", &["t"], &["poll"], &[]);
    let completed = c.until_event("the join phase ends", 10_000, |event| {
        matches!(
            event,
            Event::Group(GroupEvent::GroupStateChanged { to: GroupState::CompletingRebalance, .. })
        )
    });
    assert_eq!(completed - first, 9_000, "R-GRP-12: 3 s, extended twice by 3 s");
    c.run_ms(1_000);
    assert_eq!([owned(&c, "a"), owned(&c, "b"), owned(&c, "c")], [["t-0"], ["t-1"], ["t-2"]], "R-ASG-1");
}

/// R-GRP-30.
#[test]
fn ex_18_an_eager_rebalance_commits_revokes_and_hands_over_at_the_commit() {
    let mut c = written(2, 100);
    c.consumer("c1", "g", &["t"], &["poll", "process 1ms"], EARLIEST);
    c.until("c1 owns both", 10_000, |c| owned(c, "c1") == ["t-0", "t-1"]);
    c.run_ms(2_000);
    let read = c.consumer_state("c1").subscription().position(&tp("t-0")).expect("a position").offset;
    let other = c.consumer_state("c1").subscription().position(&tp("t-1")).expect("a position").offset;
    assert_eq!(read.0 + other.0, 100, "everything was read");
    let joined_at = c.now_ms();
    c.consumer("c2", "g", &["t"], &["poll", "process 1ms"], EARLIEST);
    c.until("generation 2 is stable", 10_000, |c| stable(c, 2));
    c.run_ms(1_000);
    assert_eq!([owned(&c, "c1"), owned(&c, "c2")], [["t-0"], ["t-1"]]);
    // Place in the trace and time.
    let since = |fits: &dyn Fn(&Event) -> bool| {
        let fits =
            |entry: &glassbroker::sim::TraceEntry| entry.key.time.ms() >= joined_at && fits(&entry.event);
        let found = c.entries().enumerate().find(|(_, entry)| fits(entry));
        let (place, entry) = found.unwrap_or_else(|| panic!("did not happen\n{}", c.report()));
        (place, entry.key.time.ms())
    };
    let c1 = ClientName::new("c1");
    let rebalance = since(&|event| matches!(event, Event::Group(GroupEvent::RebalanceStarted { .. })));
    let committed = since(
        &|event| matches!(event, Event::CommitConfirmed { client, automatic: true, .. } if *client == c1),
    );
    let revoked = since(
        &|event| matches!(event, Event::PartitionsRevoked { client, reason: RevokeReason::Rebalance, .. } if *client == c1),
    );
    let rejoined = since(&|event| matches!(event, Event::JoinSent { client, .. } if *client == c1));
    assert!(rebalance < committed && committed < revoked && revoked < rejoined, "R-GRP-29\n{}", c.report());
    let heard_ms = committed.1 - rebalance.1;
    assert!(heard_ms <= 3_100, "R-GRP-23: it hears of it by its next heartbeat: {heard_ms}");
    let start = c.events().rev().find_map(|event| match event {
        Event::PositionSet { client, tp: p, offset, .. } if client.as_str() == "c2" && *p == tp("t-1") => {
            Some(*offset)
        }
        _ => None,
    });
    assert_eq!(start, Some(other), "c2 starts where c1 committed");
    assert_eq!(c.outcome_of("g", "t"), "delivered 100, processed 100", "nothing comes twice");
}

#[test]
fn ex_18_a_member_stuck_beyond_max_poll_interval_leaves_and_its_late_commit_fails() {
    let mut c = written(2, 20);
    let slow = &[
        ("max.poll.interval.ms", "10000"),
        ("auto.offset.reset", "earliest"),
        ("enable.auto.commit", "false"),
    ];
    c.consumer("stuck", "g", &["t"], &["poll", "process 5s", "commit"], slow);
    c.until("stuck owns both", 10_000, |c| owned(c, "stuck") == ["t-0", "t-1"]);
    c.consumer("c2", "g", &["t"], &["poll", "process 1ms"], EARLIEST);
    c.until_event("it leaves by itself (R-CONS-25)", 20_000, |event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { client, reason: MemberRemoval::Left, .. }) if client.as_str() == "stuck")
    });
    c.until("c2 owns everything", 10_000, |c| owned(c, "c2") == ["t-0", "t-1"]);
    c.until_event(
        "the late commit fails (R-CONS-22)",
        120_000,
        |event| matches!(event, Event::CommitFailed { client, .. } if client.as_str() == "stuck"),
    );
    let error = c.events().find_map(|event| match event {
        Event::CommitFailed { client, error, .. } if client.as_str() == "stuck" => Some(*error),
        _ => None,
    });
    assert_eq!(error, Some(ErrorCode::UnknownMemberId));
    assert_eq!(c.outcome_of("g", "t"), "delivered 20, processed 20, processed twice 20");
}

/// R-CONS-26.
#[test]
fn a_crashed_member_is_missed_when_its_session_ends_and_a_closed_one_at_once() {
    let mut c = written(2, 10);
    for name in ["a", "b"] {
        c.consumer(name, "g", &["t"], &["poll"], EARLIEST);
    }
    c.until("both own one", 15_000, |c| owned(c, "a").len() == 1 && owned(c, "b").len() == 1);
    c.run_ms(5_000);
    c.give(Command::Crash("b".into()));
    let crashed = c.now_ms();
    let removed = c.until_event("the session of b ends", 60_000, |event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { reason: MemberRemoval::SessionExpired, .. }))
    });
    let silence_ms = removed - crashed;
    assert!(
        (42_000..=45_100).contains(&silence_ms),
        "R-GRP-21: session.timeout.ms after its last heartbeat: {silence_ms}"
    );
    c.until("a owns both", 10_000, |c| owned(c, "a").len() == 2);
    c.consumer("d", "g", &["t"], &["poll"], EARLIEST);
    c.until("d owns one", 10_000, |c| owned(c, "d").len() == 1);
    c.give(Command::Close("d".into()));
    let closed = c.now_ms();
    let left = c.until_event("d leaves", 5_000, |event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { reason: MemberRemoval::Left, .. }))
    });
    assert!(left - closed < 500, "R-CONS-27: close() says goodbye");
}

#[test]
fn the_group_and_its_offsets_move_with_the_coordinator() {
    let mut c = written(2, 40);
    for name in ["a", "b"] {
        c.consumer(name, "billing", &["t"], &["poll", "process 1ms", "commit"], EARLIEST);
    }
    c.until("both own one", 15_000, |c| owned(c, "a").len() == 1 && owned(c, "b").len() == 1);
    c.run_ms(3_000);
    // R-GRP-1: billing lives in partition 9 of __consumer_offsets.
    let home = |c: &Cluster| {
        let image = c.world.active_controller().expect("a controller").image().clone();
        image.partition(&tp("__consumer_offsets-9")).expect("it exists").leader
    };
    let old = home(&c);
    let committed = |c: &Cluster, broker: BrokerId| {
        let groups = c.world.broker(broker).expect("it runs").groups();
        let offset =
            |p: &str| groups.committed_offset(&GroupId::new("billing"), &tp(p)).map(|value| value.offset);
        (offset("t-0"), offset("t-1"))
    };
    let before = committed(&c, old);
    assert!(before.0.is_some() || before.1.is_some(), "something was committed");
    c.kill(old.0);
    c.until_event(
        "the new coordinator has read the log",
        15_000,
        |event| matches!(event, Event::Group(GroupEvent::CoordinatorLoaded { partition: 9, groups, .. }) if groups.len() == 1),
    );
    let new = home(&c);
    assert_ne!(new, old);
    assert_eq!(committed(&c, new), before, "R-GRP-4: the state is a replay of the log");
    c.run_ms(10_000);
    let group =
        c.world.broker(new).and_then(|broker| broker.groups().group(&GroupId::new("billing")).cloned());
    let group = group.expect("the group is there");
    assert_eq!(
        (group.state, group.generation),
        (GroupState::Stable, Generation(1)),
        "and nobody had to join again"
    );
}

#[test]
fn a_group_that_lost_all_its_members_resumes_at_its_commits() {
    let mut c = written(1, 30);
    c.consumer("a", "g", &["t"], &["poll", "process 1ms", "commit"], EARLIEST);
    c.until("a has read all", 20_000, |c| {
        c.consumer_state("a").subscription().position(&tp("t-0")).is_some_and(|p| p.offset == Offset(30))
    });
    c.run_ms(1_000);
    c.give(Command::Close("a".into()));
    c.until_event("the group is empty (R-GRP-6)", 5_000, |event| {
        matches!(event, Event::Group(GroupEvent::GroupStateChanged { to: GroupState::Empty, .. }))
    });
    c.send("p", 5);
    c.consumer("a", "g", &["t"], &["poll", "process 1ms", "commit"], EARLIEST);
    c.until_event("it starts at the commit", 20_000, |event| {
        matches!(event, Event::PositionSet { offset: Offset(30), .. })
    });
}
