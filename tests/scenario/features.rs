//! Levels of features that change while the cluster runs, and who goes by them from when on (R-TXN-5, R-CTRL-12).

use glassbroker::client::producer::Wish;
use glassbroker::client::producer::transaction_manager::State;
use glassbroker::kafka::api_versions::FeatureStatus;
use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::ProducerEpoch;
use glassbroker::sim::Command;

use crate::dsl::{Cluster, cluster, cluster_at, cluster_without_elr, quorum};

fn state(c: &Cluster, name: &str) -> Option<State> {
    c.producer_state(name).transaction_state()
}

fn transactional(c: &mut Cluster, name: &str) {
    let id = format!("{name}-1");
    c.producer(name, "t", "100/s", &[("transactional.id", &id), ("linger.ms", "0")]);
    c.until("it has a producer id", 10_000, |c| state(c, name) == Some(State::Ready));
}

/// A transaction of one record, committed; the producer's epoch then.
fn transaction(c: &mut Cluster, name: &str) -> ProducerEpoch {
    let wish = |c: &mut Cluster, wish| c.give(Command::Transaction { client: name.into(), wish });
    wish(c, Wish::Begin);
    c.send(name, 1);
    c.run_ms(500);
    wish(c, Wish::Commit);
    c.until("it is over", 30_000, |c| state(c, name) == Some(State::Ready));
    c.run_ms(500);
    c.producer_state(name).identity().expect("it has an id").1
}

fn updated(c: &Cluster) -> Vec<(String, i16)> {
    let updated = |event: &Event| match event {
        Event::FeatureUpdated { feature, level } => Some((feature.to_string(), *level)),
        _ => None,
    };
    c.events().filter_map(updated).collect()
}

/// What the last order was refused with, if it was.
fn refused(c: &Cluster) -> Option<(ErrorCode, String)> {
    c.events().rev().find_map(|event| match event {
        Event::CommandRefused { error, message, .. } => Some((*error, message.to_string())),
        _ => None,
    })
}

/// All brokers start again, one after the other, so that every connection is a new one.
fn rolling_restart(c: &mut Cluster) {
    for broker in 1..=3 {
        c.order(&format!("stop broker {broker}"));
        c.run_ms(10_000);
        c.start(broker);
        c.run_ms(10_000);
    }
}

#[test]
fn transaction_version_2_holds_for_whoever_has_heard_of_it_r_txn_5() {
    let mut c = cluster_at(1, &[]).topic("t", 1, 3, &[]);
    transactional(&mut c, "x");
    assert_eq!([transaction(&mut c, "x"), transaction(&mut c, "x")], [ProducerEpoch(0); 2]);
    c.order("upgrade feature transaction.version=2");
    c.run_ms(2_000);
    assert_eq!(updated(&c), [("transaction.version".to_owned(), 2)]);
    assert_eq!(transaction(&mut c, "x"), ProducerEpoch(0), "its connections are older than that");
    transactional(&mut c, "y");
    assert_eq!([transaction(&mut c, "y"), transaction(&mut c, "y")], [1, 2].map(ProducerEpoch));
    rolling_restart(&mut c);
    let epochs = [transaction(&mut c, "x"), transaction(&mut c, "x")];
    assert!(epochs[0] > ProducerEpoch(0) && epochs[1] > epochs[0], "{epochs:?}\n{}", c.report());
    assert_eq!(c.outcome("t"), "produced 7, acknowledged 7, stored 7");
}

#[test]
fn transaction_version_falls_again_and_epochs_stay_r_txn_5() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    transactional(&mut c, "x");
    assert_eq!(transaction(&mut c, "x"), ProducerEpoch(1));
    c.order("downgrade feature transaction.version=1");
    c.run_ms(2_000);
    assert_eq!(transaction(&mut c, "x"), ProducerEpoch(2), "it has not heard of it");
    transactional(&mut c, "y");
    assert_eq!([transaction(&mut c, "y"), transaction(&mut c, "y")], [ProducerEpoch(0); 2]);
    assert_eq!(c.outcome("t"), "produced 4, acknowledged 4, stored 4");
}

#[test]
fn what_cannot_be_is_refused_in_kafkas_words_and_what_is_not_here_with_its_name() {
    let mut c = cluster(3);
    for (order, why) in [
        (
            "upgrade feature transaction.version=3",
            "Invalid update version 3 for feature transaction.version. Local controller 101 only supports versions 0-2",
        ),
        (
            "upgrade feature transaction.version=1",
            "Invalid update version 1 for feature transaction.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            "upgrade feature no.version=1",
            "Invalid update version 1 for feature no.version. Local controller 101 does not support this feature.",
        ),
    ] {
        c.order(order);
        c.run_ms(2_000);
        let (error, message) = refused(&c).expect("refused");
        assert_eq!(error, ErrorCode::InvalidUpdateVersion);
        assert_eq!(
            message,
            format!("The update failed for all features since the following feature had an error: {why}")
        );
    }
    assert_eq!(updated(&c), []);
    for feature in ["metadata.version", "kraft.version", "group.version", "streams.version"] {
        let order = crate::programs::read(&format!("downgrade feature {feature}=0"));
        let expected = format!("{feature} is a feature of Kafka whose level cannot be changed here");
        assert_eq!(c.try_give(order).expect_err("refused").reason, expected);
    }
}

/// R-REPL-48: from then on replicas that leave an in-sync set below min.insync.replicas stay eligible.
#[test]
fn eligible_leader_replicas_begin_with_their_feature() {
    let mut c = cluster_without_elr(3).topic("t", 1, 3, &[("min.insync.replicas", "2")]);
    c.order("upgrade feature eligible.leader.replicas.version=1");
    c.run_ms(2_000);
    let safety = |event: &Event| matches!(event, Event::BrokerConfigChanged { broker: None, key, value: Some(_) } if key == "min.insync.replicas");
    assert!(c.events().any(safety), "it comes with a default of the cluster");
    c.kill(3);
    c.until("it is out", 30_000, |c| c.registration("t-0").ends_with("isr[1,2]"));
    c.kill(2);
    c.until("broker 1 is alone", 30_000, |c| c.registration("t-0").ends_with("isr[1]"));
    assert_eq!(c.eligible("t-0"), "1 isr[1] elr[2] last[]", "{}", c.report());
}

/// R-CTRL-1: the level is a record of the metadata log, which outlives its controller.
#[test]
fn a_level_outlives_the_controller_that_wrote_it() {
    let mut c = quorum(3, &[]).topic("t", 1, 3, &[]);
    c.order("downgrade feature transaction.version=1");
    c.run_ms(2_000);
    let leader = c.leader();
    c.kill_controller(leader);
    c.until("another is active", 20_000, |c| c.active().is_some_and(|id| id != leader));
    c.run_ms(2_000);
    transactional(&mut c, "x");
    assert_eq!([transaction(&mut c, "x"), transaction(&mut c, "x")], [ProducerEpoch(0); 2]);
}

/// Without share groups brokers forget their sessions, and refuse; with them it goes on behind what was acknowledged.
#[test]
fn share_groups_end_and_begin_with_their_feature() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.order("set group s share.auto.offset.reset=earliest");
    c.run_ms(1_000);
    let share = |name: &str| format!("add share consumer {name} to s topics t program \"poll; process 1ms\"");
    c.order(&share("first"));
    c.send("p", 10);
    c.run_ms(10_000);
    assert_eq!(c.outcome_of("s", "t"), "delivered 10, processed 10");
    c.order("downgrade feature share.version=0");
    c.run_ms(2_000);
    for broker in 1..=3 {
        let broker = c.world.broker(glassbroker::kafka::types::BrokerId(broker)).expect("it runs");
        assert_eq!(broker.shares().partitions().count(), 0);
    }
    c.send("p", 10);
    c.run_ms(20_000);
    assert_eq!(c.outcome_of("s", "t"), "delivered 10, processed 10");
    c.order("upgrade feature share.version=1");
    c.run_ms(2_000);
    c.order(&share("second"));
    c.run_ms(60_000);
    assert_eq!(c.outcome_of("s", "t"), "delivered 20, processed 20", "{}", c.report());
}

type Row = (String, i16, i16, i16);

/// What `kafka-features.sh describe` prints: feature, least and greatest level, the level that holds.
fn described(c: &mut Cluster) -> (Vec<Row>, Option<i64>) {
    let seen = c.world.trace().len_ever();
    c.order("describe features");
    let found = |c: &Cluster| {
        c.world.trace().since(seen).find_map(|entry| match &entry.event {
            Event::FeaturesDescribed { features, epoch } => Some((features.clone(), *epoch)),
            _ => None,
        })
    };
    c.until("an answer", 10_000, |c| found(c).is_some());
    let (features, epoch) = found(c).expect("just seen");
    let row = |of: &FeatureStatus| (of.feature.clone(), of.min_level, of.max_level, of.finalized);
    (features.iter().map(row).collect(), epoch)
}

/// R-CTRL-12: by name, with the levels as the broker that is asked has read them from the metadata log.
#[test]
fn features_are_described_with_their_levels_and_the_epoch_of_the_metadata_log() {
    let mut c = cluster(3);
    let (before, epoch) = described(&mut c);
    let rows: Vec<(&str, i16, i16, i16)> =
        before.iter().map(|(name, min, max, level)| (name.as_str(), *min, *max, *level)).collect();
    assert_eq!(
        rows,
        [
            ("eligible.leader.replicas.version", 0, 1, 1),
            ("group.version", 0, 1, 1),
            ("kraft.version", 0, 1, 1),
            ("metadata.version", 7, 30, 30),
            ("share.version", 0, 1, 1),
            ("streams.version", 0, 1, 1),
            ("transaction.version", 0, 2, 2),
        ]
    );
    let epoch = epoch.expect("it has read some");
    c.order("downgrade feature transaction.version=1");
    c.run_ms(2_000);
    let (after, later) = described(&mut c);
    assert_eq!(after.last(), Some(&("transaction.version".to_owned(), 0, 2, 1)));
    assert_eq!(after[..6], before[..6]);
    assert!(later.expect("it has read some") > epoch);
}
