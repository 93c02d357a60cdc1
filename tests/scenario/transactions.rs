//! Producers with transactions on a cluster, as recorded in `16_live_scenarios.json` and in the worked examples.

use std::collections::BTreeMap;

use glassbroker::client::producer::transaction_manager::State;
use glassbroker::client::producer::workload::ValuePattern;
use glassbroker::client::producer::{Phase, ProducerSpec, Wish};
use glassbroker::kafka::event::{EndReason, Event, ProducerEvent, TransactionEvent};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName, ProducerEpoch};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster, cluster_at, config, tp};

/// Coordinators look for transactions that took too long as often as those that were recorded did.
fn hasty(transaction_version: i16) -> Cluster {
    let interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms";
    cluster_at(transaction_version, &[(interval, "500")]).topic("t", 1, 3, &[])
}

/// Where producers add partitions to their transactions themselves.
fn three_at_1() -> Cluster {
    cluster_at(1, &[]).topic("t", 1, 3, &[])
}

fn three() -> Cluster {
    cluster(3).topic("t", 1, 3, &[])
}

/// A producer whose transactions a person begins and ends; it has initialised.
fn transactional(c: &mut Cluster, name: &str, id: &str, more: &[(&str, &str)]) {
    let given = [("transactional.id", id), ("linger.ms", "0")];
    c.producer(name, "t", "100/s", &[&given, more].concat());
    c.until("it has a producer id", 10_000, |c| state(c, name) == State::Ready);
}

fn state(c: &Cluster, name: &str) -> State {
    c.producer_state(name).transaction_state().expect("it has a transactional.id")
}

fn wish(c: &mut Cluster, name: &str, wish: Wish) {
    c.give(Command::Transaction { client: name.into(), wish });
}

/// Begins a transaction and sends so many records in it.
fn begin(c: &mut Cluster, name: &str, records: i64) {
    wish(c, name, Wish::Begin);
    send(c, name, records);
}

fn send(c: &mut Cluster, name: &str, records: i64) {
    c.send(name, records);
    c.run_ms(200);
}

fn end(c: &mut Cluster, name: &str, how: Wish) {
    wish(c, name, how);
    c.until("the transaction is over", 120_000, |c| state(c, name) == State::Ready);
    c.run_ms(300);
}

/// What calls threw, with the exception's class alone.
fn thrown(c: &Cluster) -> Vec<String> {
    let thrown = |event: &Event| match event {
        Event::Producer(ProducerEvent::Thrown { client, call, exception }) => {
            let class = exception.split(':').next().unwrap_or_default();
            Some(format!("{client} {call} {class}"))
        }
        _ => None,
    };
    c.events().filter_map(thrown).collect()
}

fn leader(c: &Cluster) -> BrokerId {
    let image = c.world.active_controller().expect("a controller").image();
    image.partition(&tp("t-0")).expect("created").leader
}

/// Log start, high watermark and last stable offset of the leader.
#[track_caller]
fn check_log(c: &Cluster, high_watermark: i64, last_stable: i64) {
    let log = &c.partition(leader(c).0, "t-0").expect("it leads").log;
    let seen = (log.high_watermark().0, log.last_stable_offset().0);
    assert_eq!(seen, (high_watermark, last_stable), "{}", c.report());
}

fn epoch(c: &Cluster, name: &str) -> ProducerEpoch {
    c.producer_state(name).identity().expect("it has an id").1
}

#[test]
fn an_open_transaction_holds_the_committed_ones_behind_it_a58_r_txn_23() {
    let mut c = three();
    transactional(&mut c, "x", "x-1", &[]);
    transactional(&mut c, "y", "y-1", &[]);
    c.producer("p", "t", "100/s", &[("linger.ms", "0")]);
    begin(&mut c, "x", 2);
    end(&mut c, "x", Wish::Commit);
    begin(&mut c, "y", 2);
    send(&mut c, "p", 2);
    check_log(&c, 7, 3);
    begin(&mut c, "x", 1);
    end(&mut c, "x", Wish::Commit);
    check_log(&c, 9, 3);
    end(&mut c, "y", Wish::Abort);
    check_log(&c, 10, 10);
    assert_eq!(thrown(&c), [""; 0]);
}

#[test]
fn time_goes_on_while_coordinators_ask_themselves_for_a_marker_that_is_refused_r_txn_19() {
    let mut c = three();
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        transactional(&mut c, name, &format!("id-{name}"), &[]);
        begin(&mut c, name, 1);
    }
    let (topic, key) = ("t".into(), "min.insync.replicas".to_string());
    c.give(Command::SetTopicConfig { topic, key, value: Some("3".to_string()) });
    c.run_ms(1_000);
    let follower = BrokerId(if leader(&c) == BrokerId(1) { 2 } else { 1 });
    c.give(Command::Kill(Target::Broker(follower)));
    c.run_ms(15_000);
    names.into_iter().for_each(|name| wish(&mut c, name, Wish::Commit));
    let (until, mut events) = (c.world.now().plus_ms(1_000), 0);
    while c.world.next_at().is_some_and(|at| at <= until) {
        c.world.step();
        events += 1;
        assert!(events < 200_000, "it is still {} after {events} events", c.world.now());
    }
    assert_eq!(c.partition(leader(&c).0, "t-0").expect("it leads").log.last_stable_offset().0, 0);
    c.give(Command::Start(Target::Broker(follower)));
    for name in names {
        c.until("its transaction is over", 120_000, |c| state(c, name) == State::Ready);
    }
    c.run_ms(1_000);
    check_log(&c, 12, 12);
}

#[test]
fn each_end_raises_the_epoch_of_a_producer_ex_26_r_txn_17() {
    let mut c = three();
    transactional(&mut c, "x", "orders-tx-1", &[]);
    assert_eq!(epoch(&c, "x"), ProducerEpoch(0));
    for (how, expected) in [(Wish::Commit, 1), (Wish::Abort, 2), (Wish::Commit, 3)] {
        begin(&mut c, "x", 2);
        end(&mut c, "x", how);
        assert_eq!(epoch(&c, "x"), ProducerEpoch(expected));
    }
    begin(&mut c, "x", 1);
    let last = c.events().rev().find_map(|event| match event {
        Event::BatchSent { base_sequence, .. } => Some(*base_sequence),
        _ => None,
    });
    assert_eq!(last, Some(0), "the sequences begin anew with each transaction");
}

#[test]
fn an_abandoned_transaction_is_aborted_and_its_late_commit_throws_ex_28_r_txn_26() {
    let mut c = hasty(2);
    transactional(&mut c, "x", "x-1", &[("transaction.timeout.ms", "4000")]);
    c.producer("p", "t", "100/s", &[("linger.ms", "0")]);
    begin(&mut c, "x", 2);
    send(&mut c, "p", 1);
    check_log(&c, 3, 0);
    c.run_ms(5_500);
    check_log(&c, 4, 4);
    wish(&mut c, "x", Wish::Commit);
    c.run_ms(1_000);
    assert_eq!(thrown(&c), ["x commitTransaction() InvalidTxnStateException"]);
    assert!(matches!(c.producer_state("x").phase(), Phase::Failed { .. }));
}

#[test]
fn at_version_1_a_producer_keeps_its_epoch_and_adds_its_partitions_itself_r_txn_5_r_txn_11() {
    let mut c = three_at_1();
    transactional(&mut c, "x", "orders-tx-1", &[]);
    for how in [Wish::Commit, Wish::Abort, Wish::Commit] {
        begin(&mut c, "x", 2);
        end(&mut c, "x", how);
        assert_eq!(epoch(&c, "x"), ProducerEpoch(0));
    }
    begin(&mut c, "x", 1);
    let last = c.events().rev().find_map(|event| match event {
        Event::BatchSent { base_sequence, .. } => Some(*base_sequence),
        _ => None,
    });
    assert_eq!(last, Some(6), "the sequences go on from one transaction to the next");
    let begun =
        |event: &&Event| matches!(event, Event::Transaction(TransactionEvent::Added { begins: true, .. }));
    assert_eq!(c.events().filter(begun).count(), 4, "{}", c.report());
    assert_eq!(thrown(&c), [""; 0]);
}

#[test]
fn at_version_1_an_error_that_can_be_aborted_costs_an_epoch_r_txn_9_r_txn_31() {
    let mut c = three_at_1();
    let hasty = [("delivery.timeout.ms", "3000"), ("request.timeout.ms", "2000")];
    transactional(&mut c, "x", "x-1", &hasty);
    begin(&mut c, "x", 1);
    // The leader is away for longer than a record may wait, and not long enough to lose the lead.
    let leader = Target::Broker(leader(&c));
    c.give(Command::Freeze(leader.clone()));
    send(&mut c, "x", 1);
    c.run_ms(4_000);
    c.give(Command::Thaw(leader));
    c.run_ms(1_000);
    assert_eq!(state(&c, "x"), State::AbortableError, "{}", c.report());
    wish(&mut c, "x", Wish::Commit);
    c.until("it has aborted", 60_000, |c| state(c, "x") == State::Ready);
    assert_eq!(epoch(&c, "x"), ProducerEpoch(1), "{}", c.report());
    begin(&mut c, "x", 1);
    end(&mut c, "x", Wish::Commit);
    assert_eq!(epoch(&c, "x"), ProducerEpoch(1));
}

#[test]
fn at_version_1_a_timed_out_transaction_fences_its_producer_ex_28_r_txn_26() {
    for how in [Wish::Commit, Wish::Abort] {
        let mut c = hasty(1);
        transactional(&mut c, "x", "x-1", &[("transaction.timeout.ms", "4000")]);
        begin(&mut c, "x", 2);
        check_log(&c, 2, 0);
        c.run_ms(5_500);
        check_log(&c, 3, 3);
        wish(&mut c, "x", how);
        c.run_ms(1_000);
        let call = if how == Wish::Commit { "commitTransaction()" } else { "abortTransaction()" };
        assert_eq!(thrown(&c), [format!("x {call} ProducerFencedException")]);
        assert!(matches!(c.producer_state("x").phase(), Phase::Failed { .. }));
    }
}

#[test]
fn at_version_2_a_timed_out_transaction_can_still_be_aborted_r_txn_26() {
    let mut c = hasty(2);
    transactional(&mut c, "x", "x-1", &[("transaction.timeout.ms", "4000")]);
    begin(&mut c, "x", 2);
    c.run_ms(5_500);
    end(&mut c, "x", Wish::Abort);
    assert_eq!(thrown(&c), [""; 0]);
}

#[test]
fn at_version_1_a_zombie_is_fenced_too_a60_ex_27_r_txn_35() {
    let mut c = three_at_1();
    transactional(&mut c, "old", "x-1", &[]);
    begin(&mut c, "old", 2);
    transactional(&mut c, "new", "x-1", &[]);
    assert_eq!(epoch(&c, "new"), ProducerEpoch(2), "one epoch to fence and abort, one for the new one");
    send(&mut c, "old", 1);
    wish(&mut c, "old", Wish::Commit);
    c.run_ms(1_000);
    let expected = [
        "old commitTransaction() InvalidProducerEpochException",
        "old abortTransaction() ProducerFencedException",
    ];
    assert_eq!(thrown(&c), expected);
    begin(&mut c, "new", 2);
    end(&mut c, "new", Wish::Commit);
    check_log(&c, 6, 6);
}

#[test]
fn a_second_producer_with_the_same_transactional_id_fences_the_first_a60_ex_27_r_txn_35() {
    let mut c = three();
    transactional(&mut c, "old", "x-1", &[]);
    begin(&mut c, "old", 2);
    transactional(&mut c, "new", "x-1", &[]);
    assert_eq!(epoch(&c, "new"), ProducerEpoch(2), "one epoch to fence and abort, one for the new one");
    send(&mut c, "old", 1);
    let refused =
        |event: &Event| matches!(event, Event::BatchFailed { error: ErrorCode::InvalidProducerEpoch, .. });
    assert!(c.events().any(refused), "{}", c.report());
    wish(&mut c, "old", Wish::Commit);
    c.run_ms(1_000);
    let expected = [
        "old commitTransaction() InvalidProducerEpochException",
        "old abortTransaction() ProducerFencedException",
    ];
    assert_eq!(thrown(&c), expected);
    begin(&mut c, "new", 2);
    end(&mut c, "new", Wish::Commit);
    check_log(&c, 6, 6);
}

/// The broker that coordinates the only transaction.
fn coordinator(c: &Cluster) -> BrokerId {
    let initialized = |event: &Event| match event {
        Event::Transaction(TransactionEvent::Initialized { broker, .. }) => Some(*broker),
        _ => None,
    };
    c.events().rev().find_map(initialized).expect("somebody has initialised")
}

/// What is done while the coordinator dies.
fn check_failover(version: i16, act: impl Fn(&mut Cluster, &mut dyn FnMut(&mut Cluster))) {
    let mut c = cluster_at(version, &[]).topic("t", 1, 3, &[]);
    transactional(&mut c, "x", "x-1", &[]);
    let killed = coordinator(&c).0;
    act(&mut c, &mut |c| c.kill(killed));
    c.until("the transaction is over", 120_000, |c| state(c, "x") == State::Ready);
    c.run_ms(2_000);
    assert_eq!(thrown(&c), [""; 0], "{}", c.report());
    let committed = |event: &&Event| {
        matches!(event, Event::Transaction(TransactionEvent::Completed { committed: true, .. }))
    };
    assert_eq!(c.events().filter(committed).count(), 1, "{}", c.report());
    assert_eq!(c.producer_state("x").counts().acknowledged, 2);
}

#[test]
fn a_transaction_outlives_its_coordinator_at_each_step_r_txn_28() {
    for version in [2, 1] {
        check_failover(version, |c, kill| {
            kill(c);
            begin(c, "x", 2);
            wish(c, "x", Wish::Commit);
        });
        check_failover(version, |c, kill| {
            begin(c, "x", 2);
            kill(c);
            wish(c, "x", Wish::Commit);
        });
        check_failover(version, |c, kill| {
            begin(c, "x", 2);
            wish(c, "x", Wish::Commit);
            c.run_ms(3);
            kill(c);
        });
    }
}

#[test]
fn an_application_goes_round_by_itself_r_txn_30() {
    let mut c = three();
    let keys = "key".parse().expect("a key");
    c.give(Command::AddProducer(ProducerSpec {
        name: "bank".into(),
        topic: "t".into(),
        rate: "50/s".parse().expect("a rate"),
        value: ValuePattern::for_keys(&keys),
        keys,
        partition: None,
        value_size: None,
        transactions: Some("every 10 records abort 30%".parse().expect("a pace")),
        config: config(&[("transactional.id", "bank-1")]),
    }));
    c.run_ms(20_000);
    c.give(Command::Close(ClientName::new("bank")));
    c.run_ms(1_000);
    let mut ends: BTreeMap<bool, i32> = BTreeMap::new();
    for event in c.events() {
        if let Event::Transaction(TransactionEvent::Decided { committed, reason, .. }) = event {
            assert_eq!(*reason, EndReason::Client);
            *ends.entry(*committed).or_default() += 1;
        }
    }
    let (committed, aborted) = (ends[&true], ends[&false]);
    assert!(committed > 50 && (15..50).contains(&aborted), "{committed} committed, {aborted} aborted");
    assert_eq!(thrown(&c), [""; 0]);
    let last = c.partition(1, "t-0").expect("a replica").log.log_end_offset().0;
    check_log(&c, last, last);
}
