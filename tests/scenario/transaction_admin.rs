//! What an administrator does about transactions: listing, describing, finding those that hang, aborting them.

use glassbroker::client::producer::Wish;
use glassbroker::client::producer::transaction_manager::State;
use glassbroker::kafka::event::{
    DescribedTransaction, Event, ProducerEvent, TransactionEvent, TransactionsTold,
};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::sim::{Command, WorldConfig};

use crate::dsl::{Cluster, cluster_with, config, tp};
use crate::group_admin::{order, refusal};

/// A topic, and a producer whose transactions a person begins and ends; coordinators look for late ones often.
fn with_bank() -> Cluster {
    with_bank_of("20000")
}

fn with_bank_of(timeout_ms: &str) -> Cluster {
    let interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms";
    let broker_config = config(&[(interval, "500"), ("transaction.max.timeout.ms", "200000")]);
    let world = WorldConfig { broker_config, ..WorldConfig::default() };
    let mut c = cluster_with(3, world).topic("t", 1, 3, &[]);
    let given = [("transactional.id", "bank-1"), ("linger.ms", "0"), ("transaction.timeout.ms", timeout_ms)];
    c.producer("bank", "t", "100/s", &given);
    let is_ready = |c: &Cluster| c.producer_state("bank").transaction_state() == Some(State::Ready);
    c.until("it has a producer id", 10_000, is_ready);
    c
}

/// Begins a transaction with two records.
fn begin(c: &mut Cluster) {
    c.give(Command::Transaction { client: "bank".into(), wish: Wish::Begin });
    c.send("bank", 2);
    c.run_ms(300);
}

fn told<T>(c: &mut Cluster, text: &str, take: impl Fn(&TransactionsTold) -> Option<T>) -> T {
    order(c, text, |event| match event {
        Event::TransactionsTold { told } => take(told),
        Event::CommandRefused { message, .. } => panic!("{text}: {message}"),
        _ => None,
    })
}

/// As `bank-1 Ongoing`.
fn listed(c: &mut Cluster, text: &str) -> Vec<String> {
    told(c, text, |told| match told {
        TransactionsTold::List(all) => {
            Some(all.iter().map(|one| format!("{} {}", one.id, one.state)).collect())
        }
        _ => None,
    })
}

fn described(c: &mut Cluster, id: &str) -> DescribedTransaction {
    told(c, &format!("describe transaction {id}"), |told| match told {
        TransactionsTold::Transaction(described) => Some(described.clone()),
        _ => None,
    })
}

/// Where the open transactions of t-0 begin, as its leader tells.
fn open(c: &mut Cluster) -> Vec<i64> {
    told(c, "describe producers of t-0", |told| match told {
        TransactionsTold::Producers { producers, .. } => {
            Some(producers.iter().filter_map(|producer| Some(producer.open_since?.0)).collect())
        }
        _ => None,
    })
}

#[test]
fn what_a_crashed_producer_left_open_is_told_until_its_timeout_r_cli_20_r_txn_26() {
    let mut c = with_bank();
    assert_eq!(listed(&mut c, "list transactions"), ["bank-1 Empty"]);
    begin(&mut c);
    c.order("crash bank");
    c.run_ms(5_000);
    assert_eq!(listed(&mut c, "list transactions"), ["bank-1 Ongoing"]);
    let found = described(&mut c, "bank-1");
    let partitions: Vec<String> = found.partitions.iter().map(ToString::to_string).collect();
    assert_eq!((found.state.as_str(), partitions), ("Ongoing", vec!["t-0".to_owned()]));
    assert_eq!(found.timeout_ms, 20_000);
    assert!(matches!(found.began_ms_ago, Some(5_000..6_000)), "{found:?}");
    assert_eq!(open(&mut c), [0]);

    c.run_ms(20_000);
    assert_eq!(described(&mut c, "bank-1").state, "CompleteAbort");
    assert_eq!(described(&mut c, "bank-1").partitions, []);
    assert_eq!(open(&mut c), [0; 0]);
}

#[test]
fn transactions_are_listed_by_name_and_by_how_long_they_take_r_cli_20() {
    let mut c = with_bank();
    begin(&mut c);
    assert_eq!(listed(&mut c, "list transactions matching \"bank-.\""), ["bank-1 Ongoing"]);
    assert_eq!(listed(&mut c, "list transactions matching bank"), [""; 0], "the whole id has to match");
    assert_eq!(listed(&mut c, "list transactions longer than 5s"), [""; 0]);
    c.run_ms(5_000);
    assert_eq!(listed(&mut c, "list transactions longer than 5s"), ["bank-1 Ongoing"]);
    let (error, _) = order(&mut c, "list transactions matching \"(\"", refusal);
    assert_eq!(error, ErrorCode::InvalidRegularExpression);
}

#[test]
fn an_id_that_no_coordinator_knows_is_not_described_r_cli_20() {
    let mut c = with_bank();
    let refused = order(&mut c, "describe transaction bnk-1", refusal);
    let message = "Failed to describe transaction state of transactional-id `bnk-1`: DescribeTransactions request for \
                   transactionalId `bnk-1` failed because the ID could not be found";
    assert_eq!(refused, (ErrorCode::TransactionalIdNotFound, message.to_owned()));
}

#[test]
fn an_administrator_finds_the_new_coordinator_of_transactions_r_cli_20_r_txn_28() {
    let mut c = with_bank();
    begin(&mut c);
    let before = described(&mut c, "bank-1").coordinator;
    c.kill(before.0);
    c.run_ms(1_000);
    let after = described(&mut c, "bank-1");
    assert_ne!(after.coordinator, before);
    assert_eq!(after.state, "Ongoing");
}

/// Where transactions hang in t, as `t-0 0`.
fn hanging(c: &mut Cluster) -> Vec<String> {
    told(c, "find hanging transactions of topic t longer than 1min", |told| match told {
        TransactionsTold::Hanging(all) => {
            Some(all.iter().map(|one| format!("{} {}", one.tp, one.start)).collect())
        }
        _ => None,
    })
}

fn last_stable(c: &Cluster) -> i64 {
    let leader =
        c.world.active_controller().expect("a controller").image().partition(&tp("t-0")).expect("t").leader;
    c.partition(leader.0, "t-0").expect("it leads").log.last_stable_offset().0
}

#[test]
fn a_transaction_that_its_coordinator_knows_does_not_hang_r_cli_20_r_txn_25() {
    let mut c = with_bank_of("200000");
    begin(&mut c);
    c.run_ms(70_000);
    assert_eq!(open(&mut c), [0]);
    assert_eq!(hanging(&mut c), [""; 0]);
}

#[test]
fn a_transaction_that_no_coordinator_knows_is_found_and_aborted_r_cli_20_r_txn_20_r_txn_25() {
    let mut c = with_bank();
    begin(&mut c);
    c.order("crash bank");
    // Somebody deletes what the coordinators know.
    c.order("delete topic __transaction_state");
    assert_eq!(hanging(&mut c), [""; 0], "it might still be young");
    c.run_ms(70_000);
    assert_eq!(listed(&mut c, "list transactions"), [""; 0]);
    assert_eq!(hanging(&mut c), ["t-0 0"]);
    assert_eq!(last_stable(&c), 0);

    let (_, message) = order(&mut c, "abort transaction on t-0 from offset 1", refusal);
    assert_eq!(message, "Could not find any open transactions starting at offset 1 on partition t-0");
    let aborted = told(&mut c, "abort transaction on t-0 from offset 0", |told| match told {
        TransactionsTold::Aborted(aborted) => Some(aborted.start.0),
        _ => None,
    });
    assert_eq!(aborted, 0);
    assert_eq!(last_stable(&c), 3, "two records and the marker");
    assert_eq!(hanging(&mut c), [""; 0]);
}

#[test]
fn a_late_transaction_is_counted_until_it_is_aborted_r_txn_25() {
    let mut c = with_bank();
    begin(&mut c);
    c.order("crash bank");
    c.order("delete topic __transaction_state");
    let leader =
        c.world.active_controller().expect("a controller").image().partition(&tp("t-0")).expect("t").leader;
    let counted = |c: &Cluster| {
        let late = c.world.broker(leader).expect("it runs").replicas().late_transactions(c.world.now());
        late.map(ToString::to_string).collect::<Vec<_>>()
    };
    c.run_ms(490_000);
    assert_eq!(counted(&c), [""; 0], "200 s and five minutes are not over");
    c.run_ms(40_000);
    assert_eq!(counted(&c), ["t-0"]);
    let told = |event: &&Event| matches!(event, Event::Transaction(TransactionEvent::Late { broker, count: 1, .. }) if *broker == leader);
    assert_eq!(c.events().filter(told).count(), 1, "{}", c.report());
    assert_eq!(hanging(&mut c), ["t-0 0"], "the operator knows where to look");
    c.order("abort transaction on t-0 from offset 0");
    c.run_ms(30_000);
    assert_eq!(counted(&c), [""; 0]);
}

#[test]
fn hanging_transactions_are_looked_for_on_one_broker_r_cli_20_r_txn_25() {
    let mut c = with_bank();
    begin(&mut c);
    c.order("crash bank");
    c.order("delete topic __transaction_state");
    c.run_ms(70_000);
    let mut found = |text: &str| {
        told(&mut c, text, |told| match told {
            TransactionsTold::Hanging(all) => {
                Some(all.iter().map(|one| one.tp.to_string()).collect::<Vec<_>>())
            }
            _ => None,
        })
    };
    for broker in 1..=3 {
        let text = format!("find hanging transactions of broker {broker} longer than 1min");
        assert_eq!(found(&text), ["t-0"], "each has a replica");
        let text = format!("find hanging transactions of t-0 on broker {broker} longer than 1min");
        assert_eq!(found(&text), ["t-0"]);
    }
    let open = told(&mut c, "describe producers of t-0 on broker 3", |told| match told {
        TransactionsTold::Producers { broker: Some(_), producers, .. } => {
            Some(producers.iter().filter_map(|producer| Some(producer.open_since?.0)).collect::<Vec<_>>())
        }
        _ => None,
    });
    assert_eq!(open, [0], "a follower knows it from the log");
    c.give(Command::CreateTopic {
        topic: "one".into(),
        partitions: 1,
        replication_factor: 1,
        config: config(&[]),
    });
    c.run_ms(1_000);
    let image = c.world.active_controller().expect("a controller").image();
    let holder = image.partition(&tp("one-0")).expect("created").leader.0;
    let other = holder % 3 + 1;
    let (error, message) = order(&mut c, &format!("describe producers of one-0 on broker {other}"), refusal);
    assert_eq!(error, ErrorCode::NotLeaderOrFollower);
    assert_eq!(
        message,
        format!(
            "Failed to describe producers for partition one-0 on broker {other}: Failed to describe active producers \
             for partition one-0 on brokerId {other}"
        )
    );
}

/// `kafka-transactions.sh forceTerminateTransaction`
#[test]
fn an_administrator_ends_what_is_open_with_an_id_and_fences_its_producer_r_cli_20_r_txn_8() {
    let mut c = with_bank();
    begin(&mut c);
    let epoch = told(&mut c, "terminate transaction bank-1", |told| match told {
        TransactionsTold::Terminated { epoch, .. } => Some(epoch.0),
        _ => None,
    });
    assert_eq!(epoch, 2, "one to fence and abort, one for the new one");
    assert_eq!(last_stable(&c), 3, "two records and the marker");
    let seen = described(&mut c, "bank-1");
    assert_eq!((seen.state.as_str(), seen.timeout_ms), ("Empty", 30_000), "the tool's request.timeout.ms");
    c.give(Command::Transaction { client: "bank".into(), wish: Wish::Commit });
    c.run_ms(1_000);
    let fenced = |event: &Event| matches!(event, Event::Producer(ProducerEvent::Thrown { exception, .. }) if exception.starts_with("ProducerFencedException"));
    assert!(c.events().any(fenced), "{}", c.report());
}
