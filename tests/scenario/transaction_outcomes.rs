//! What became of records of transactions, as the ledger tells it: who sees them when, and which event made it so.

use glassbroker::client::producer::Wish;
use glassbroker::client::producer::transaction_manager::State;
use glassbroker::kafka::event::{Event, GroupPosition, GroupsTold, TransactionEvent};
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::sim::{Command, Target, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_at, cluster_with, config, tp};

/// A producer whose transactions a person begins and ends; it has initialised.
fn transactional(c: &mut Cluster, name: &str) {
    let id = format!("{name}-1");
    c.producer(name, "t", "100/s", &[("transactional.id", &id), ("linger.ms", "0")]);
    let state = |c: &Cluster| c.producer_state(name).transaction_state();
    c.until("it has a producer id", 10_000, |c| state(c) == Some(State::Ready));
}

fn wish(c: &mut Cluster, name: &str, wish: Wish) {
    c.give(Command::Transaction { client: name.into(), wish });
    c.run_ms(500);
}

fn send(c: &mut Cluster, name: &str) {
    c.send(name, 1);
    c.run_ms(500);
}

/// High watermark and last stable offset as the ledger tells them, which are those of the leader's log.
#[track_caller]
fn check_ends(c: &Cluster, high_watermark: i64, last_stable: i64) {
    let image = c.world.active_controller().expect("a controller").image();
    let leader = image.partition(&tp("t-0")).expect("created").leader;
    let log = &c.partition(leader.0, "t-0").expect("it leads").log;
    let told = c.ledger().ends(&tp("t-0"));
    assert_eq!((told.high, told.stable), (log.high_watermark(), log.last_stable_offset()), "{}", c.report());
    assert_eq!((told.high, told.stable), (Offset(high_watermark), Offset(last_stable)), "{}", c.report());
}

fn is_marked(event: &Event) -> bool {
    matches!(event, Event::Transaction(TransactionEvent::Marked { .. }))
}

fn read_by(c: &mut Cluster, isolation: &str) -> String {
    let reader = [("auto.offset.reset", "earliest"), ("isolation.level", isolation)];
    let group = format!("g-{isolation}");
    c.consumer(isolation, &group, &["t"], &["poll", "process 1ms"], &reader);
    c.run_ms(10_000);
    c.outcome_of(&group, "t")
}

/// EX-24: T1 is x's transaction, T2 is y's; p has none. R-TXN-23, R-TXN-24.
#[test]
fn ex_24_what_lies_behind_an_open_transaction_is_withheld_until_it_ends() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    transactional(&mut c, "x");
    transactional(&mut c, "y");
    c.producer("p", "t", "100/s", &[("linger.ms", "0")]);
    wish(&mut c, "x", Wish::Begin);
    send(&mut c, "x");
    check_ends(&c, 1, 0);
    send(&mut c, "p");
    check_ends(&c, 2, 0);
    wish(&mut c, "y", Wish::Begin);
    send(&mut c, "y");
    send(&mut c, "x");
    check_ends(&c, 4, 0);
    assert_eq!(c.outcome("t"), "produced 4, acknowledged 4, stored 4, withheld 4, open 3");
    wish(&mut c, "y", Wish::Commit);
    check_ends(&c, 5, 0);
    assert_eq!(c.outcome("t"), "produced 4, acknowledged 4, stored 4, withheld 4, open 2");
    assert_eq!(read_by(&mut c, "read_committed"), "");
    wish(&mut c, "x", Wish::Abort);
    check_ends(&c, 6, 6);
    send(&mut c, "p");
    check_ends(&c, 7, 7);
    assert_eq!(c.outcome("t"), "produced 5, acknowledged 5, stored 5, aborted 2");
    c.run_ms(2_000);
    assert_eq!(c.outcome_of("g-read_committed", "t"), "delivered 3, processed 3");
    assert_eq!(read_by(&mut c, "read_uncommitted"), "delivered 5, processed 5");
}

/// EX-25, R-TXN-23.
#[test]
fn ex_25_a_transaction_is_over_for_readers_when_its_marker_is_replicated() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    transactional(&mut c, "x");
    wish(&mut c, "x", Wish::Begin);
    send(&mut c, "x");
    c.give(Command::Transaction { client: "x".into(), wish: Wish::Abort });
    c.until_event("the marker is written", 10_000, is_marked);
    for broker in [2, 3] {
        c.give(Command::Freeze(Target::Broker(BrokerId(broker))));
    }
    c.run_ms(1_000);
    check_ends(&c, 1, 0);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1, aborted 1");
    for broker in [2, 3] {
        c.give(Command::Thaw(Target::Broker(BrokerId(broker))));
    }
    c.run_ms(1_000);
    check_ends(&c, 2, 2);
}

/// A transaction that was committed and visible is neither when an unclean leader lacks its marker, and both again when the
/// coordinator, which does not know that it is written, writes it anew (R-REPL-43, R-TXN-28).
#[test]
fn a_marker_that_an_unclean_election_cuts_away_counts_no_longer() {
    let broker_config = config(&[("replica.lag.time.max.ms", "5000")]);
    let c = cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() });
    let mut c = c.topic("t", 1, 3, &[("unclean.leader.election.enable", "true")]);
    transactional(&mut c, "x");
    wish(&mut c, "x", Wish::Begin);
    send(&mut c, "x");
    c.give(Command::Transaction { client: "x".into(), wish: Wish::Commit });
    c.until_event("the marker is written", 10_000, is_marked);
    for broker in [2, 3] {
        c.kill(broker);
    }
    c.until("broker 1 is alone in sync", 30_000, |c| c.registration("t-0").ends_with("isr[1]"));
    c.run_ms(1_000);
    check_ends(&c, 2, 2);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1");
    c.kill(1);
    for broker in [2, 3] {
        c.start(broker);
    }
    c.until("another leads", 60_000, |c| {
        let registration = c.registration("t-0");
        registration.starts_with('2') || registration.starts_with('3')
    });
    c.run_ms(1_000);
    check_ends(&c, 1, 0);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1, withheld 1, open 1");
    let story = c.ledger().story_at(&tp("t-0"), Offset(0)).expect("it is there");
    let said = |text: &str| story.lines.iter().any(|line| line.text.contains(text));
    assert!(said("a marker in t-0 commits its transaction") && said("without that marker"), "{story:?}");
    c.start(1);
    c.until_event("the coordinator writes it again", 60_000, is_marked);
    c.run_ms(2_000);
    assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1");
    check_ends(&c, 2, 2);
}

/// What the group tool calls the lag of a group, over all partitions.
fn lag(c: &mut Cluster, group: &str) -> i64 {
    c.order(&format!("describe offsets of group {group}"));
    c.run_ms(1_000);
    let told = |event: &Event| match event {
        Event::GroupsTold { told: GroupsTold::Offsets { group: of, positions } } if of.as_str() == group => {
            Some(positions.iter().filter_map(GroupPosition::lag).sum())
        }
        _ => None,
    };
    c.events().rev().find_map(told).expect("it was described")
}

/// Three records in one transaction, which has ended.
fn one_transaction(how: Wish) -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    transactional(&mut c, "x");
    wish(&mut c, "x", Wish::Begin);
    c.send("x", 3);
    c.run_ms(500);
    wish(&mut c, "x", how);
    check_ends(&c, 4, 4);
    c
}

/// R-OBS-6: offsets are counted, and the marker has one.
#[test]
fn a56_who_commits_the_last_record_and_one_has_a_lag_of_1_for_ever_and_who_commits_its_position_has_none() {
    let mut c = one_transaction(Wish::Commit);
    let config = [("auto.offset.reset", "earliest"), ("enable.auto.commit", "false")];
    for (name, line) in [("record", "commit record"), ("position", "commit")] {
        c.consumer(name, name, &["t"], &["poll", "process 1ms", line], &config);
    }
    c.run_ms(60_000);
    for group in ["record", "position"] {
        assert_eq!(c.outcome_of(group, "t"), "delivered 3, processed 3");
    }
    assert_eq!((lag(&mut c, "record"), lag(&mut c, "position")), (1, 0), "R-CONS-5, R-CONS-15");
    assert_eq!(c.outcome("t"), "produced 3, acknowledged 3, stored 3", "three records, four offsets");
}

#[test]
fn a57_aborted_records_stay_and_only_who_reads_committed_data_does_not_get_them() {
    let mut c = one_transaction(Wish::Abort);
    assert_eq!(read_by(&mut c, "read_uncommitted"), "delivered 3, processed 3", "R-CONS-29, the default");
    assert_eq!(read_by(&mut c, "read_committed"), "");
    let position = c.consumer_state("read_committed").subscription().position(&tp("t-0"));
    assert_eq!(position.map(|position| position.offset), Some(Offset(4)), "R-CONS-30: behind the marker");
    assert_eq!(c.outcome("t"), "produced 3, acknowledged 3, stored 3, aborted 3");
}

/// R-TXN-23, R-OBS-6, R-OBS-9: where producers say themselves which partitions they write to and where leaders do.
#[test]
fn a58_one_open_transaction_withholds_all_that_is_committed_behind_it() {
    for version in [2, 1] {
        let mut c = cluster_at(version, &[]).topic("t", 1, 3, &[]);
        transactional(&mut c, "x");
        c.producer("p", "t", "1000/s", &[("linger.ms", "0")]);
        let config = [("auto.offset.reset", "earliest"), ("isolation.level", "read_committed")];
        c.consumer("reader", "g", &["t"], &["poll", "process 0ms"], &config);
        c.send("p", 200);
        c.until("200 are processed", 20_000, |c| c.outcome_of("g", "t") == "delivered 200, processed 200");
        c.run_ms(6_000);
        wish(&mut c, "x", Wish::Begin);
        send(&mut c, "x");
        c.send("p", 1_462);
        c.run_ms(6_000);
        check_ends(&c, 1_663, 200);
        let told = "produced 1663, acknowledged 1663, stored 1663, withheld 1463, open 1";
        assert_eq!(c.outcome("t"), told, "version {version}");
        assert_eq!(c.outcome_of("g", "t"), "delivered 200, processed 200", "nothing waits that it may see");
        assert_eq!(lag(&mut c, "g"), 1_463, "the group tool counts up to the high watermark");
        wish(&mut c, "x", Wish::Commit);
        c.run_ms(10_000);
        check_ends(&c, 1_664, 1_664);
        assert_eq!(c.outcome("t"), "produced 1663, acknowledged 1663, stored 1663");
        assert_eq!(c.outcome_of("g", "t"), "delivered 1663, processed 1663", "version {version}");
        assert_eq!(lag(&mut c, "g"), 0);
    }
}

/// What the ledger tells of the record at an offset.
fn now(c: &Cluster, offset: i64) -> Vec<String> {
    c.ledger().story_at(&tp("t-0"), Offset(offset)).expect("a record was there").now
}

/// Three transactions, of two records each, the second of which is aborted: each has the producer id and an epoch of its own.
#[test]
fn ex_26_each_transaction_has_its_epoch_and_its_own_end_r_txn_17_r_txn_18() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    transactional(&mut c, "x");
    for (how, outcome) in [
        (Wish::Commit, "produced 2, acknowledged 2, stored 2"),
        (Wish::Abort, "produced 4, acknowledged 4, stored 4, aborted 2"),
        (Wish::Commit, "produced 6, acknowledged 6, stored 6, aborted 2"),
    ] {
        wish(&mut c, "x", Wish::Begin);
        send(&mut c, "x");
        send(&mut c, "x");
        wish(&mut c, "x", how);
        c.run_ms(1_000);
        assert_eq!(c.outcome("t"), outcome);
    }
    let log = &c.partition(1, "t-0").expect("the leader").log;
    let written: Vec<(i64, i16, bool)> = log
        .batches_from(Offset(0))
        .map(|batch| (batch.base_offset().0, batch.producer_epoch().0, batch.is_control()))
        .collect();
    let expected = [0, 1, 2].map(|turn: i16| {
        let base = 3 * i64::from(turn);
        // A marker has the epoch that the end of its transaction raises to.
        [(base, turn, false), (base + 1, turn, false), (base + 2, turn + 1, true)]
    });
    assert_eq!(written, expected.concat());
    let ledger = c.ledger();
    let producers: std::collections::BTreeSet<_> =
        ledger.batches().flat_map(|batch| batch.copies.iter().map(|copy| copy.producer)).collect();
    assert_eq!(producers.len(), 1, "one producer id");
}

/// R-TXN-8, R-TXN-20, R-TXN-31.
#[test]
fn ex_27_what_a_zombie_wrote_is_aborted_and_what_it_writes_afterwards_fails() {
    for version in [2, 1] {
        let mut c = cluster_at(version, &[]).topic("t", 1, 3, &[]);
        let of_both = [("transactional.id", "orders-tx-1"), ("linger.ms", "0")];
        c.producer("x", "t", "100/s", &of_both);
        c.run_ms(2_000);
        wish(&mut c, "x", Wish::Begin);
        send(&mut c, "x");
        c.give(Command::Freeze(Target::Client("x".into())));
        c.producer("y", "t", "100/s", &of_both);
        c.run_ms(5_000);
        assert_eq!(c.outcome("t"), "produced 1, acknowledged 1, stored 1, aborted 1", "version {version}");
        c.give(Command::Thaw(Target::Client("x".into())));
        send(&mut c, "x");
        c.give(Command::Transaction { client: "x".into(), wish: Wish::Commit });
        c.run_ms(2_000);
        let told = "produced 2, acknowledged 1, failed 1, stored 1, aborted 1";
        assert_eq!(c.outcome("t"), told, "version {version}");
        wish(&mut c, "y", Wish::Begin);
        send(&mut c, "y");
        wish(&mut c, "y", Wish::Commit);
        c.run_ms(1_000);
        assert_eq!(read_by(&mut c, "read_committed"), "delivered 1, processed 1");
        let (client, number) = ("x".into(), 2);
        let told = c.ledger().story_of(&client, number).expect("it was made").now;
        assert!(told.iter().any(|line| line.contains("INVALID_PRODUCER_EPOCH")), "{told:?}");
    }
}

/// R-TXN-26: the coordinator looks every 10 s, and 60 s are not more than 60 s.
#[test]
fn ex_28_an_abandoned_transaction_withholds_what_is_behind_it_for_60_to_80_seconds() {
    for version in [2, 1] {
        let mut c = cluster_at(version, &[]).topic("t", 1, 3, &[]);
        transactional(&mut c, "x");
        c.producer("p", "t", "100/s", &[("linger.ms", "0")]);
        wish(&mut c, "x", Wish::Begin);
        let begun = c.now_ms();
        send(&mut c, "x");
        send(&mut c, "p");
        let withheld = "produced 2, acknowledged 2, stored 2, withheld 2, open 1";
        assert_eq!(c.outcome("t"), withheld);
        c.run_ms(begun + 60_000 - c.now_ms());
        assert_eq!(c.outcome("t"), withheld, "60 s are not more than 60 s");
        let marked = c.until_event("it is aborted", 12_000, is_marked) - begun;
        assert!((60_000..=70_600).contains(&marked), "{marked} ms");
        c.run_ms(1_000);
        assert_eq!(c.outcome("t"), "produced 2, acknowledged 2, stored 2, aborted 1");
        check_ends(&c, 3, 3);
        assert!(now(&c, 0).iter().any(|line| line.contains("abort")), "{:?}", now(&c, 0));
        c.give(Command::Transaction { client: "x".into(), wish: Wish::Commit });
        c.run_ms(2_000);
        assert_eq!(c.outcome("t"), "produced 2, acknowledged 2, stored 2, aborted 1");
        assert_eq!(read_by(&mut c, "read_committed"), "delivered 1, processed 1");
    }
}
