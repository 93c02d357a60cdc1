//! How partitions change hands by strategy, how a group changes its strategy, and what static members cost and save
//! (EX-20, EX-21, EX-23, A33, A34, A39, A40, A42, A44, A47).

use glassbroker::client::producer::ProducerSpec;
use glassbroker::client::producer::workload::ValuePattern;
use glassbroker::kafka::event::{Event, GroupEvent, MemberRemoval};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, GroupId};
use glassbroker::lab::ledger::{GroupCount, Within};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, cluster, config, tp};
use crate::groups::{owned, written};
use crate::live::callbacks;

const STRATEGY: &str = "partition.assignment.strategy";
const COOPERATIVE: &str = "cooperative-sticky";

/// A member of `g` that reads the topics and does nothing with what it reads.
fn member(c: &mut Cluster, name: &str, topics: &[&str], more: &[(&str, &str)]) {
    let configs = [&[("auto.offset.reset", "earliest")], more].concat();
    c.consumer(name, "g", topics, &["poll"], &configs);
}

/// A cluster whose offsets topic exists, so that the first members of `g` wait only for each other.
pub fn warm(topics: &[(&str, i32)]) -> Cluster {
    let mut c = cluster(3);
    for (topic, partitions) in topics {
        c = c.topic(topic, *partitions, 3, &[]);
    }
    c.consumer("warm-up", "other", &[topics[0].0], &["poll"], &[]);
    c.run_ms(5_000);
    c.give(Command::Close("warm-up".into()));
    c.run_ms(500);
    c
}

/// Records for all partitions of `t`, from now on.
pub fn traffic(c: &mut Cluster, rate: &str) {
    let keys = "key-{0..63}".parse().expect("a key pattern");
    c.give(Command::AddProducer(ProducerSpec {
        name: "p".into(),
        topic: "t".into(),
        rate: rate.parse().expect("a rate"),
        value: ValuePattern::for_keys(&keys),
        keys,
        partition: None,
        value_size: None,
        transactions: None,
        config: config(&[]),
    }));
    c.run_ms(1_000);
}

pub fn partitions_of(c: &Cluster, name: &str) -> Vec<i32> {
    c.consumer_state(name).subscription().partitions().iter().map(|tp| tp.partition).collect()
}

/// The longest time between `from_ms` and now in which nobody was returned a record of a partition.
pub fn longest_pause_ms(c: &Cluster, name: &str, from_ms: i64) -> i64 {
    let polled = c
        .entries()
        .filter(|entry| matches!(&entry.event, Event::Polled { tp: polled, .. } if *polled == tp(name)));
    let times = polled.map(|entry| entry.key.time.ms()).filter(|at| *at >= from_ms);
    let all: Vec<i64> = [from_ms].into_iter().chain(times).chain([c.now_ms()]).collect();
    all.windows(2).map(|pair| pair[1] - pair[0]).max().expect("two times at least")
}

fn check_called(c: &Cluster, name: &str, expected: &[(&str, &[i32])]) {
    let expected: Vec<(String, Vec<i32>)> =
        expected.iter().map(|(called, partitions)| (called.to_string(), partitions.to_vec())).collect();
    assert_eq!(callbacks(c, name), expected, "{name}\n{}", c.report());
}

/// R-GRP-30, R-ASG-8. Also A40: the newcomer gets nothing in round one.
#[test]
fn ex_20_cooperative_members_hand_over_in_two_rebalances_what_moves_and_in_one_what_nobody_owns() {
    let mut c = warm(&[("t", 6)]);
    traffic(&mut c, "60/s");
    for name in ["c1", "c2"] {
        member(&mut c, name, &["t"], &[(STRATEGY, COOPERATIVE)]);
    }
    c.until("both own three", 10_000, |c| owned(c, "c1").len() == 3 && owned(c, "c2").len() == 3);
    c.run_ms(2_000);
    let joined_at = c.now_ms();
    member(&mut c, "c3", &["t"], &[(STRATEGY, COOPERATIVE)]);
    c.until("c3 owns two", 10_000, |c| partitions_of(c, "c3") == [4, 5]);
    c.run_ms(2_000);
    check_called(
        &c,
        "c1",
        &[("assigned", &[0, 2, 4]), ("revoked", &[4]), ("assigned", &[]), ("assigned", &[])],
    );
    check_called(
        &c,
        "c2",
        &[("assigned", &[1, 3, 5]), ("revoked", &[5]), ("assigned", &[]), ("assigned", &[])],
    );
    check_called(&c, "c3", &[("assigned", &[]), ("assigned", &[4, 5])]);
    for kept in ["t-0", "t-1", "t-2", "t-3"] {
        let pause_ms = longest_pause_ms(&c, kept, joined_at);
        assert!(pause_ms < 1_500, "R-GRP-31: {kept} rests for {pause_ms} ms");
    }
    c.give(Command::Close("c2".into()));
    c.until("all is owned", 10_000, |c| owned(c, "c1").len() == 3 && owned(c, "c3").len() == 3);
    c.run_ms(5_000);
    assert_eq!([partitions_of(&c, "c1"), partitions_of(&c, "c3")], [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(
        callbacks(&c, "c1")[4..],
        [("assigned".to_owned(), vec![1])],
        "one rebalance for what nobody owns"
    );
}

/// A slow member holds a rebalance up. How long the fast one's partition 0 rests meanwhile.
fn pause_while_a_slow_member_is_awaited(strategy: &str) -> i64 {
    let mut c = warm(&[("t", 4)]);
    traffic(&mut c, "40/s");
    let configs = [("auto.offset.reset", "earliest"), (STRATEGY, strategy)];
    c.consumer("fast", "g", &["t"], &["poll"], &configs);
    let slow = [&configs[..], &[("max.poll.records", "5")]].concat();
    c.consumer("slow", "g", &["t"], &["poll", "process 2s"], &slow);
    c.until("both own two", 10_000, |c| owned(c, "fast").len() == 2 && owned(c, "slow").len() == 2);
    assert!(owned(&c, "fast").contains(&"t-0".to_owned()));
    c.run_ms(12_000);
    let joined_at = c.now_ms();
    c.consumer("third", "g", &["t"], &["poll"], &configs);
    c.until("the third owns something", 60_000, |c| !owned(c, "third").is_empty());
    c.run_ms(2_000);
    longest_pause_ms(&c, "t-0", joined_at)
}

#[test]
fn a_slow_member_stops_the_world_for_eager_members_and_for_cooperative_ones_nothing_r_grp_31() {
    let eager = pause_while_a_slow_member_is_awaited("range");
    let cooperative = pause_while_a_slow_member_is_awaited(COOPERATIVE);
    assert!(eager > 3_000, "everybody waits for its next poll: {eager} ms");
    assert!(cooperative < 1_500, "{cooperative} ms");
}

/// Who owns what of three topics with three partitions each.
fn check_shares(strategy: &str, c1: &[&str], c2: &[&str]) {
    let mut c = warm(&[("A", 3), ("B", 3), ("C", 3)]);
    for name in ["c1", "c2"] {
        member(&mut c, name, &["A", "B", "C"], &[(STRATEGY, strategy)]);
    }
    c.until("both own some", 10_000, |c| !owned(c, "c1").is_empty() && !owned(c, "c2").is_empty());
    assert_eq!((owned(&c, "c1"), owned(&c, "c2")), (texts(c1), texts(c2)), "{strategy}");
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// R-ASG-1, R-ASG-3, R-ASG-4. Also A39: with round robin the partitions of one number are at different members.
#[test]
fn ex_21_range_skews_and_round_robin_and_sticky_do_not() {
    check_shares("range", &["A-0", "A-1", "B-0", "B-1", "C-0", "C-1"], &["A-2", "B-2", "C-2"]);
    check_shares("roundrobin", &["A-0", "A-2", "B-1", "C-0", "C-2"], &["A-1", "B-0", "B-2", "C-1"]);
    for sticky in ["sticky", COOPERATIVE] {
        check_shares(sticky, &["A-0", "A-2", "B-1", "C-0", "C-2"], &["A-1", "B-0", "B-2", "C-1"]);
    }
}

/// The protocol of the group `g`.
fn protocol(c: &Cluster) -> String {
    let brokers = (1..=3).filter_map(|id| c.world.broker(BrokerId(id)));
    let group = brokers.filter_map(|broker| broker.groups().group(&GroupId::new("g"))).next_back();
    group.and_then(|group| group.protocol.as_deref()).expect("a group with a protocol").to_owned()
}

/// Each member of three closes and comes back with another strategy.
fn bounce(c: &mut Cluster, strategy: &str) {
    for name in ["c1", "c2", "c3"] {
        c.give(Command::Close(name.into()));
        c.until("it is closed", 5_000, |c| c.world.consumer(&name.into()).is_none());
        member(c, name, &["t"], &[(STRATEGY, strategy)]);
        c.until("it owns its share", 20_000, |c| owned(c, name).len() == 2);
        c.run_ms(4_000);
    }
    let failed = c.events().any(|event| matches!(event, Event::ClientFailed { .. }));
    assert!(!failed, "{}", c.report());
    let mut all: Vec<String> = ["c1", "c2", "c3"].iter().flat_map(|name| owned(c, name)).collect();
    all.sort();
    assert_eq!(all, ["t-0", "t-1", "t-2", "t-3", "t-4", "t-5"]);
}

fn three_with(strategy: &str) -> Cluster {
    let mut c = warm(&[("t", 6)]);
    for name in ["c1", "c2", "c3"] {
        member(&mut c, name, &["t"], &[(STRATEGY, strategy)]);
    }
    c.until("each owns two", 10_000, |c| ["c1", "c2", "c3"].iter().all(|name| owned(c, name).len() == 2));
    c
}

#[test]
fn a42_a_strategy_that_the_others_do_not_have_is_refused_r_grp_8() {
    let mut c = three_with("range");
    c.give(Command::Close("c1".into()));
    c.run_ms(4_000);
    member(&mut c, "c1", &["t"], &[(STRATEGY, COOPERATIVE)]);
    c.until_event("its join fails", 10_000, |event| {
        matches!(event, Event::ClientFailed { client, error: ErrorCode::InconsistentGroupProtocol } if client.as_str() == "c1")
    });
    assert_eq!(protocol(&c), "range");
}

#[test]
fn a42_two_bounces_lead_from_range_to_cooperative_sticky_r_grp_28() {
    let mut c = three_with("range");
    bounce(&mut c, "cooperative-sticky, range");
    assert_eq!(protocol(&c), COOPERATIVE, "all have it and want it first");
    bounce(&mut c, COOPERATIVE);
    assert_eq!(protocol(&c), COOPERATIVE);
}

#[test]
fn a42_from_the_default_strategy_one_bounce_is_enough_r_grp_28() {
    let mut c = three_with("range, cooperative-sticky");
    assert_eq!(protocol(&c), "range", "R-GRP-16: everybody's first vote");
    bounce(&mut c, COOPERATIVE);
    assert_eq!(protocol(&c), COOPERATIVE);
    let from = c.now_ms();
    member(&mut c, "c4", &["t"], &[(STRATEGY, COOPERATIVE)]);
    c.until("c4 owns one", 15_000, |c| !owned(c, "c4").is_empty());
    let lost = c.entries().any(|entry| {
        let all = |partitions: &[_]| partitions.len() == 2;
        entry.key.time.ms() >= from
            && matches!(&entry.event, Event::PartitionsRevoked { partitions, .. } if all(partitions))
    });
    assert!(!lost, "R-GRP-31: nobody gives up all that it has\n{}", c.report());
}

/// When the session of a member ended; fails if it left.
fn session_ends(c: &mut Cluster, name: &str) -> i64 {
    c.until_event("it is removed", 70_000, |event| match event {
        Event::Group(GroupEvent::MemberRemoved { client, reason, .. }) if client.as_str() == name => {
            assert_eq!(*reason, MemberRemoval::SessionExpired);
            true
        }
        _ => false,
    })
}

/// Two static members with two of four partitions each.
fn two_static(program: &[&str], more: &[(&str, &str)]) -> Cluster {
    let mut c = warm(&[("t", 4)]);
    traffic(&mut c, "4/s");
    for (name, id) in [("c1", "i1"), ("c2", "i2")] {
        let configs = [&[("auto.offset.reset", "earliest"), ("group.instance.id", id)], more].concat();
        let program = if name == "c2" { program } else { &["poll"] };
        c.consumer(name, "g", &["t"], program, &configs);
    }
    c.until("both own two", 15_000, |c| owned(c, "c1").len() == 2 && owned(c, "c2").len() == 2);
    c
}

#[test]
fn a44_a_static_member_that_closes_holds_its_partitions_until_its_session_ends_r_grp_27() {
    let mut c = two_static(&["poll"], &[]);
    c.run_ms(10_000);
    c.give(Command::Close("c2".into()));
    let closed = c.now_ms();
    let removed = session_ends(&mut c, "c2");
    assert!((42_000..=45_100).contains(&(removed - closed)), "R-CONS-27: {} ms", removed - closed);
    c.until("c1 owns all", 10_000, |c| owned(c, "c1").len() == 4);
}

#[test]
fn a44_a_static_member_that_polls_too_late_falls_silent_r_cons_25() {
    let late = [("max.poll.interval.ms", "10000"), ("max.poll.records", "1")];
    let mut c = two_static(&["poll", "process 100s"], &late);
    c.until("c2 has a record", 10_000, |c| c.consumer_state("c2").program().record_in_hand().is_some());
    let began = c.now_ms();
    let removed = session_ends(&mut c, "c2");
    assert!((50_000..=55_100).contains(&(removed - began)), "10 s, then its session: {} ms", removed - began);
    c.until("c1 owns all", 10_000, |c| owned(c, "c1").len() == 4);
    c.until("c2 comes back", 60_000, |c| owned(c, "c2").len() == 2);
}

#[test]
fn ex_23_a_static_member_that_is_back_within_its_session_finds_its_partitions_unread_and_nobody_noticed() {
    let mut c = two_static(&["poll"], &[]);
    c.run_ms(5_000);
    let before = (owned(&c, "c2"), callbacks(&c, "c1"));
    c.give(Command::Close("c2".into()));
    c.run_ms(20_000);
    let seen = c.world.trace().len_ever();
    c.consumer("c2", "g", &["t"], &["poll"], &[("group.instance.id", "i2")]);
    c.until("it has its partitions", 2_000, |c| owned(c, "c2") == before.0);
    c.run_ms(10_000);
    assert_eq!(callbacks(&c, "c1"), before.1, "R-GRP-25");
    let rebalanced = c
        .world
        .trace()
        .since(seen)
        .any(|entry| matches!(entry.event, Event::Group(GroupEvent::RebalanceStarted { .. })));
    assert!(!rebalanced, "{}", c.report());
}

#[test]
fn a33_a_batch_that_takes_longer_than_the_session_is_no_reason_to_leave_r_cons_26() {
    let mut c = written(1, 10);
    let configs = [("auto.offset.reset", "earliest"), ("session.timeout.ms", "30000")];
    c.consumer("c1", "g", &["t"], &["poll", "process 6s"], &configs);
    c.until("it is at work", 20_000, |c| c.consumer_state("c1").program().record_in_hand().is_some());
    c.run_ms(70_000);
    assert!(
        !c.events().any(|event| matches!(event, Event::Group(GroupEvent::MemberRemoved { .. }))),
        "{}",
        c.report()
    );
    assert_eq!(owned(&c, "c1"), ["t-0"]);
    assert_eq!(c.outcome_of("g", "t"), "delivered 10, processed 10");
}

/// How many records of each partition wait for the group, as the ledger tells it.
fn waiting(c: &Cluster) -> Vec<i64> {
    let totals = c.ledger().totals();
    let of = |index: i32| totals.group(&GroupId::new("g"), &Within::Partition(tp(&format!("t-{index}"))));
    (0..4).map(|index| of(index).count_of(GroupCount::Waiting)).collect()
}

#[test]
fn a34_what_waits_for_a_killed_member_is_as_many_seconds_as_its_session_has_and_nothing_else_waits() {
    let mut c = warm(&[("t", 4)]);
    for index in 0..4 {
        c.order(&format!("add producer p-{index} to t rate 1/s keys none partition {index}"));
    }
    for name in ["c1", "c2"] {
        c.consumer(name, "g", &["t"], &["poll", "process 0ms"], &[("auto.offset.reset", "earliest")]);
    }
    c.until("both own two", 15_000, |c| owned(c, "c1") == ["t-0", "t-1"] && owned(c, "c2") == ["t-2", "t-3"]);
    c.run_ms(10_000);
    assert!(waiting(&c).iter().all(|count| *count <= 1), "{:?}", waiting(&c));
    c.give(Command::Crash("c2".into()));
    c.until_event("its session is over", 50_000, |event| {
        matches!(event, Event::Group(GroupEvent::MemberRemoved { reason: MemberRemoval::SessionExpired, .. }))
    });
    let at_the_end = waiting(&c);
    assert!(at_the_end[..2].iter().all(|count| *count <= 1), "{at_the_end:?}");
    assert!(at_the_end[2..].iter().all(|count| (42..=48).contains(count)), "{at_the_end:?}");
    c.until("c1 owns all", 10_000, |c| owned(c, "c1").len() == 4);
    c.run_ms(5_000);
    assert!(waiting(&c).iter().all(|count| *count <= 1), "{:?}", waiting(&c));
    let of_group = c.ledger().totals().group(&GroupId::new("g"), &Within::All);
    assert_eq!(of_group.count_of(GroupCount::Missed), 0);
    // A clean close says goodbye: the other has its partitions with the next heartbeat.
    c.consumer("c3", "g", &["t"], &["poll", "process 0ms"], &[("auto.offset.reset", "earliest")]);
    c.until("both own two", 15_000, |c| owned(c, "c1").len() == 2 && owned(c, "c3").len() == 2);
    c.give(Command::Close("c3".into()));
    c.until("c1 owns all", 4_000, |c| owned(c, "c1").len() == 4);
    assert!(waiting(&c).iter().all(|count| *count <= 5), "{:?}", waiting(&c));
}

#[test]
fn a34_after_a_kill_only_the_dead_members_partitions_wait_for_its_session_r_cons_26() {
    let mut c = warm(&[("t", 4)]);
    traffic(&mut c, "20/s");
    for name in ["c1", "c2"] {
        member(&mut c, name, &["t"], &[]);
    }
    c.until("both own two", 15_000, |c| owned(c, "c1") == ["t-0", "t-1"] && owned(c, "c2") == ["t-2", "t-3"]);
    c.run_ms(5_000);
    c.give(Command::Crash("c2".into()));
    let killed = c.now_ms();
    c.until("c1 owns all", 60_000, |c| owned(c, "c1").len() == 4);
    c.run_ms(2_000);
    for dead in ["t-2", "t-3"] {
        let pause_ms = longest_pause_ms(&c, dead, killed);
        assert!((42_000..=50_000).contains(&pause_ms), "{dead}: {pause_ms} ms");
    }
    for alive in ["t-0", "t-1"] {
        let pause_ms = longest_pause_ms(&c, alive, killed);
        assert!(pause_ms < 4_000, "{alive} rests only while the group rebalances: {pause_ms} ms");
    }
}

/// How many records a member of a group reads that starts with earliest.
fn read_from_earliest(c: &mut Cluster, name: &str, group: &str) -> i64 {
    c.consumer(name, group, &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    c.run_ms(10_000);
    let records = c.events().filter_map(|event| match event {
        Event::Polled { client, records, .. } if client.as_str() == name => Some(*records),
        _ => None,
    });
    let records = records.sum();
    c.give(Command::Close(name.into()));
    c.run_ms(2_000);
    records
}

#[test]
fn a47_earliest_decides_only_without_a_committed_offset_r_cons_11() {
    let mut c = written(1, 5);
    assert_eq!(read_from_earliest(&mut c, "first", "g"), 5);
    assert_eq!(read_from_earliest(&mut c, "again", "g"), 0, "5 is committed");
    assert_eq!(read_from_earliest(&mut c, "other", "h"), 5, "a new group");
    let three =
        [("auto.offset.reset", "earliest"), ("max.poll.records", "3"), ("enable.auto.commit", "false")];
    c.consumer("some", "i", &["t"], &["poll 60s", "commit", "process 60s"], &three);
    c.until_event("3 is committed", 20_000, |event| matches!(event, Event::CommitConfirmed { .. }));
    c.give(Command::Crash("some".into()));
    c.run_ms(50_000);
    assert_eq!(read_from_earliest(&mut c, "rest", "i"), 2, "from 3 on");
}
