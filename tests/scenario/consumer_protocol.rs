//! Members with group.protocol=consumer: one heartbeat instead of JoinGroup and SyncGroup, and partitions that move while
//! the others are read on (EX-22, EX-23, A36, A69, R-CG8).

use std::collections::{BTreeMap, BTreeSet};

use glassbroker::client::member::Phase;
use glassbroker::kafka::event::{Event, GroupEvent, MemberRemoval};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName, GroupEpoch, GroupId, TopicPartition};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster};
use crate::groups::owned;
use crate::live::callbacks;
use crate::rebalances::{longest_pause_ms, partitions_of, traffic, warm};

const MODERN: (&str, &str) = ("group.protocol", "consumer");
const EARLIEST: (&str, &str) = ("auto.offset.reset", "earliest");

/// A member of `g` that reads `t` and does nothing with what it reads.
fn member(c: &mut Cluster, name: &str, more: &[(&str, &str)]) {
    c.consumer(name, "g", &["t"], &["poll"], &[&[MODERN, EARLIEST], more].concat());
}

fn phase(c: &Cluster, name: &str) -> Phase {
    c.consumer_state(name).membership().modern.as_ref().expect("a member of the newer protocol").phase
}

fn epoch(c: &Cluster, name: &str) -> GroupEpoch {
    c.consumer_state(name).membership().modern.as_ref().expect("a member of the newer protocol").epoch
}

/// All live members own so many, and have said so.
fn share(c: &Cluster, shares: &[(&str, usize)]) -> bool {
    shares.iter().all(|(name, count)| phase(c, name) == Phase::Stable && owned(c, name).len() == *count)
}

/// R-CG8-12: at no time did two members own a partition. Whoever was killed or lost its share owns nothing any more; a
/// frozen one does not know that, so it is left out.
fn check_exclusive(c: &Cluster, frozen: &[&str]) {
    let mut owners: BTreeMap<&ClientName, BTreeSet<&TopicPartition>> = BTreeMap::new();
    for event in c.events() {
        match event {
            Event::PartitionsAssigned { client, partitions, .. } if !frozen.contains(&client.as_str()) => {
                owners.insert(client, partitions.iter().collect());
            }
            Event::PartitionsRevoked { client, partitions, .. } => {
                if let Some(owner) = owners.get_mut(client) {
                    owner.retain(|tp| !partitions.contains(tp));
                }
            }
            Event::Group(GroupEvent::MemberRemoved { client, .. }) => drop(owners.remove(client)),
            _ => {}
        }
        let mut all: Vec<&&TopicPartition> = owners.values().flatten().collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "two members own one partition\n{}", c.report());
    }
}

fn coordinator(c: &Cluster) -> BrokerId {
    c.consumer_state("c1").membership().coordinator().expect("a coordinator that c1 knows")
}

/// A36: a group of the newer protocol waits for nobody.
#[test]
fn a36_the_first_member_owns_everything_at_once() {
    let mut c = warm(&[("t", 6)]);
    let joined_at = c.now_ms();
    member(&mut c, "c1", &[]);
    c.until("it owns all", 1_000, |c| owned(c, "c1").len() == 6);
    assert!(
        c.now_ms() - joined_at < 500,
        "no group.initial.rebalance.delay.ms: {} ms",
        c.now_ms() - joined_at
    );
    assert_eq!(epoch(&c, "c1"), GroupEpoch(2), "EX-22: a new group starts at 1");
}

/// Also R-CG8-4, R-CG8-11, R-CG8-18.
#[test]
fn ex_22_a_newcomer_gets_its_share_while_the_rest_is_read_on() {
    let mut c = warm(&[("t", 6)]);
    traffic(&mut c, "60/s");
    member(&mut c, "c1", &[]);
    c.until("c1 owns all", 2_000, |c| share(c, &[("c1", 6)]));
    c.run_ms(5_000);
    let joined_at = c.now_ms();
    member(&mut c, "c2", &[]);
    c.until("both own three", 15_000, |c| share(c, &[("c1", 3), ("c2", 3)]));
    let moved = partitions_of(&c, "c2");
    c.run_ms(3_000);
    assert_eq!(
        callbacks(&c, "c1"),
        [
            ("assigned".to_owned(), (0..6).collect()),
            ("revoked".to_owned(), moved.clone()),
            ("assigned".to_owned(), vec![])
        ],
        "one hand-over, and only of what moves"
    );
    assert_eq!(callbacks(&c, "c2"), [("assigned".to_owned(), vec![]), ("assigned".to_owned(), moved)]);
    for kept in owned(&c, "c1") {
        let pause_ms = longest_pause_ms(&c, &kept, joined_at);
        assert!(pause_ms < 1_500, "{kept} rests for {pause_ms} ms");
    }
    assert_eq!((epoch(&c, "c1"), epoch(&c, "c2")), (GroupEpoch(3), GroupEpoch(3)));
    check_exclusive(&c, &[]);
}

#[test]
fn what_moves_is_committed_before_and_read_on_from_there_r_cg8_18() {
    let mut c = warm(&[("t", 2)]);
    traffic(&mut c, "40/s");
    member(&mut c, "c1", &[("auto.commit.interval.ms", "600000")]);
    c.until("c1 owns all", 2_000, |c| share(c, &[("c1", 2)]));
    c.run_ms(3_000);
    member(&mut c, "c2", &[]);
    c.until("both own one", 15_000, |c| share(c, &[("c1", 1), ("c2", 1)]));
    c.run_ms(3_000);
    let mut returned: BTreeMap<TopicPartition, i64> = BTreeMap::new();
    for event in c.events() {
        if let Event::Polled { tp, from, to, .. } = event {
            let next = returned.insert(tp.clone(), to.0).unwrap_or(0);
            assert_eq!(from.0, next, "{tp}: nothing twice and nothing left out\n{}", c.report());
        }
    }
    assert!(returned.values().all(|read| *read > 50), "{returned:?}");
}

#[test]
fn a_member_that_closes_says_so_and_its_share_is_given_away_at_the_next_heartbeat_r_cg8_2() {
    let mut c = warm(&[("t", 4)]);
    for name in ["c1", "c2"] {
        member(&mut c, name, &[]);
    }
    c.until("both own two", 15_000, |c| share(c, &[("c1", 2), ("c2", 2)]));
    c.give(Command::Close("c2".into()));
    c.until("c1 owns all", 8_000, |c| share(c, &[("c1", 4)]));
    let left = c.events().any(|event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { client, reason: MemberRemoval::Left, .. }) if client.as_str() == "c2")
    });
    assert!(left, "{}", c.report());
    check_exclusive(&c, &[]);
}

#[test]
fn a_killed_members_share_waits_for_the_session_that_the_coordinator_keeps_r_cg8_14() {
    let mut c = warm(&[("t", 4)]);
    traffic(&mut c, "80/s");
    for name in ["c1", "c2"] {
        member(&mut c, name, &[]);
    }
    c.until("both own two", 15_000, |c| share(c, &[("c1", 2), ("c2", 2)]));
    c.run_ms(2_000);
    let (alive, dead) = (owned(&c, "c1"), owned(&c, "c2"));
    c.give(Command::Crash("c2".into()));
    let killed = c.now_ms();
    c.until("c1 owns all", 60_000, |c| share(c, &[("c1", 4)]));
    c.run_ms(2_000);
    for tp in dead {
        let pause_ms = longest_pause_ms(&c, &tp, killed);
        assert!((39_000..=52_000).contains(&pause_ms), "{tp}: {pause_ms} ms");
    }
    for tp in alive {
        let pause_ms = longest_pause_ms(&c, &tp, killed);
        assert!(pause_ms < 1_500, "{tp} rests for {pause_ms} ms");
    }
}

#[test]
fn who_stood_still_is_fenced_loses_what_it_had_and_joins_anew_r_cg8_17() {
    let mut c = warm(&[("t", 4)]);
    for name in ["c1", "c2"] {
        member(&mut c, name, &[]);
    }
    c.until("both own two", 15_000, |c| share(c, &[("c1", 2), ("c2", 2)]));
    let had = partitions_of(&c, "c2");
    c.give(Command::Freeze(Target::Client("c2".into())));
    c.until("c1 owns all", 60_000, |c| share(c, &[("c1", 4)]));
    let seen = callbacks(&c, "c2").len();
    c.give(Command::Thaw(Target::Client("c2".into())));
    c.until("it has lost them", 10_000, |c| callbacks(c, "c2").len() > seen);
    assert_eq!(callbacks(&c, "c2")[seen], ("lost".to_owned(), had));
    c.until("both own two", 20_000, |c| share(c, &[("c1", 2), ("c2", 2)]));
    check_exclusive(&c, &["c2"]);
}

#[test]
fn who_polls_too_late_leaves_and_comes_back_with_its_next_poll_r_cg8_4() {
    let mut c = warm(&[("t", 2)]);
    traffic(&mut c, "4/s");
    let late = [MODERN, EARLIEST, ("max.poll.interval.ms", "10000"), ("max.poll.records", "1")];
    c.consumer("c1", "g", &["t"], &["poll", "process 30s"], &late);
    c.until("it is at work", 10_000, |c| c.consumer_state("c1").program().record_in_hand().is_some());
    let began = c.now_ms();
    c.until("it has left", 20_000, |c| phase(c, "c1") == Phase::Stale);
    assert!((9_900..=10_100).contains(&(c.now_ms() - began)), "{} ms", c.now_ms() - began);
    assert_eq!(callbacks(&c, "c1").last(), Some(&("lost".to_owned(), vec![0, 1])));
    c.until("it comes back", 30_000, |c| phase(c, "c1") != Phase::Stale);
    assert!(c.now_ms() - began >= 30_000);
    c.until("it owns both", 5_000, |c| share(c, &[("c1", 2)]));
}

#[test]
fn ex_23_a_static_member_returns_to_its_share_and_nobody_else_notices_r_cg8_21() {
    let mut c = warm(&[("t", 4)]);
    for (name, id) in [("c1", "i1"), ("c2", "i2")] {
        member(&mut c, name, &[("group.instance.id", id)]);
    }
    c.until("both own two", 15_000, |c| share(c, &[("c1", 2), ("c2", 2)]));
    c.run_ms(5_000);
    let (had, heard, at) = (owned(&c, "c2"), callbacks(&c, "c1"), epoch(&c, "c1"));
    c.give(Command::Close("c2".into()));
    c.run_ms(20_000);
    member(&mut c, "c2", &[("group.instance.id", "i2")]);
    c.until("it has its share", 6_000, |c| owned(c, "c2") == had);
    c.run_ms(10_000);
    assert_eq!((callbacks(&c, "c1"), epoch(&c, "c1")), (heard, at));
}

#[test]
fn ex_23_while_the_instance_id_is_in_use_the_newcomer_loses_r_cg8_21() {
    let mut c = warm(&[("t", 4)]);
    member(&mut c, "c1", &[("group.instance.id", "i1")]);
    c.until("c1 owns all", 5_000, |c| share(c, &[("c1", 4)]));
    member(&mut c, "c2", &[("group.instance.id", "i1")]);
    c.until_event("c2 fails", 5_000, |event| {
        matches!(event, Event::ClientFailed { client, error: ErrorCode::UnreleasedInstanceId } if client.as_str() == "c2")
    });
    c.run_ms(10_000);
    assert!(share(&c, &[("c1", 4)]), "{}", c.report());
}

#[test]
fn an_assignor_that_the_coordinator_does_not_have_is_fatal_r_cg8_9() {
    let mut c = warm(&[("t", 5)]);
    member(&mut c, "c1", &[("group.remote.assignor", "sticky")]);
    c.until_event("c1 fails", 5_000, |event| {
        matches!(event, Event::ClientFailed { error: ErrorCode::UnsupportedAssignor, .. })
    });
    for name in ["c2", "c3"] {
        member(&mut c, name, &[("group.remote.assignor", "range")]);
    }
    c.until("range is taken", 15_000, |c| {
        share(c, &[("c2", 3), ("c3", 2)]) || share(c, &[("c2", 2), ("c3", 3)])
    });
    let first = if owned(&c, "c2").len() == 3 { "c2" } else { "c3" };
    assert_eq!(partitions_of(&c, first), [0, 1, 2], "R-CG8-22");
}

#[test]
fn a69_what_the_coordinator_says_is_refused_in_the_members_config() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    for (key, value) in [
        ("session.timeout.ms", "45000"),
        ("heartbeat.interval.ms", "3000"),
        ("partition.assignment.strategy", "range"),
    ] {
        let choice = glassbroker::client::consumer::Choice::Topics(vec!["t".into()]);
        let program = glassbroker::client::consumer::Line::parse_program(&["poll"]).expect("a program");
        let config = crate::dsl::config(&[MODERN, (key, value)]);
        let (name, group) = ("c1".into(), "g".into());
        let spec = glassbroker::client::consumer::ConsumerSpec { name, group, choice, program, config };
        let refusal = c.try_give(Command::AddConsumer(spec)).expect_err("it cannot be").to_string();
        assert!(refusal.contains(&format!("{key} cannot be set when group.protocol=CONSUMER")), "{refusal}");
    }
    assert!(c.world.consumer(&"c1".into()).is_none(), "nothing joins");
}

#[test]
fn a_group_goes_over_to_the_newer_protocol_member_by_member_r_cg8_25() {
    let mut c = warm(&[("t", 6)]);
    traffic(&mut c, "60/s");
    for name in ["c1", "c2", "c3"] {
        c.consumer(name, "g", &["t"], &["poll"], &[EARLIEST]);
    }
    let names = ["c1", "c2", "c3"];
    c.until("each owns two", 15_000, |c| names.iter().all(|name| owned(c, name).len() == 2));
    c.run_ms(3_000);
    for name in names {
        c.give(Command::Close(name.into()));
        c.until("it is closed", 5_000, |c| c.world.consumer(&name.into()).is_none());
        member(&mut c, name, &[]);
        c.until("all own two", 30_000, |c| {
            phase(c, name) == Phase::Stable && names.iter().all(|name| owned(c, name).len() == 2)
        });
        c.run_ms(5_000);
    }
    let converted = c
        .events()
        .filter(|event| matches!(event, Event::Group(GroupEvent::GroupConverted { classic: false, .. })))
        .count();
    assert_eq!(converted, 1, "{}", c.report());
    assert!(!c.events().any(|event| matches!(event, Event::ClientFailed { .. })), "{}", c.report());
    let groups = |id: i32| c.world.broker(BrokerId(id)).expect("it lives").groups().consumer_groups();
    let group = (1..=3).flat_map(groups).find(|group| group.base.id == GroupId::new("g")).expect("a group");
    assert!(group.base.members.values().all(|member| member.classic.is_none()));
}

#[test]
fn when_the_coordinator_dies_members_go_on_and_the_next_one_knows_them_r_cg8_26() {
    let mut c = warm(&[("t", 4)]);
    traffic(&mut c, "20/s");
    for name in ["c1", "c2"] {
        member(&mut c, name, &[]);
    }
    c.until("both own two", 15_000, |c| share(c, &[("c1", 2), ("c2", 2)]));
    c.run_ms(2_000);
    let before =
        (owned(&c, "c1"), owned(&c, "c2"), callbacks(&c, "c1"), callbacks(&c, "c2"), epoch(&c, "c1"));
    let dead = coordinator(&c);
    c.kill(dead.0);
    c.until("another one is found", 30_000, |c| {
        c.consumer_state("c1").membership().coordinator().is_some_and(|found| found != dead)
    });
    c.run_ms(20_000);
    assert!(share(&c, &[("c1", 2), ("c2", 2)]), "{}", c.report());
    let after = (owned(&c, "c1"), owned(&c, "c2"), callbacks(&c, "c1"), callbacks(&c, "c2"), epoch(&c, "c1"));
    assert_eq!(before, after, "nobody was fenced and nothing moved");
}

/// The last time is in a record, so the next coordinator, too, waits for it to come (KIP-1263).
#[test]
fn a_coordinator_whose_clock_went_back_assigns_nothing_until_the_interval_is_set_to_0_r_cg8_8() {
    let mut c = warm(&[("t", 4)]);
    member(&mut c, "c1", &[]);
    c.until("c1 owns all", 2_000, |c| share(c, &[("c1", 4)]));
    let first = coordinator(&c);
    let set_clock = |ahead_ms| Command::SetClock { target: Target::Broker(first), ahead_ms };
    c.give(set_clock(90 * 60_000));
    member(&mut c, "c2", &[]);
    c.until("both own two", 15_000, |c| share(c, &[("c1", 2), ("c2", 2)]));
    c.give(set_clock(0));
    member(&mut c, "c3", &[]);
    c.run_ms(60_000);
    assert!(share(&c, &[("c1", 2), ("c2", 2), ("c3", 0)]), "{}", c.report());
    c.kill(first.0);
    c.until("another one is found", 30_000, |c| {
        c.consumer_state("c1").membership().coordinator().is_some_and(|found| found != first)
    });
    c.run_ms(60_000);
    assert!(share(&c, &[("c1", 2), ("c2", 2), ("c3", 0)]), "{}", c.report());
    let key = "group.consumer.assignment.interval.ms".to_string();
    c.give(Command::SetBrokerConfig { broker: None, key, value: Some("0".to_string()) });
    c.until("c3 has a share", 15_000, |c| {
        share(c, &[("c1", 2), ("c2", 1), ("c3", 1)]) || share(c, &[("c1", 1), ("c2", 2), ("c3", 1)])
    });
}
