//! What readers of a transactional topic see, with both isolation levels and at both transaction versions: markers have
//! offsets, aborted records stay where they are, open transactions hold up what is behind them.

use glassbroker::client::producer::Wish;
use glassbroker::client::producer::transaction_manager::State;
use glassbroker::kafka::event::{Event, GroupsTold, TransactionEvent};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, cluster_at, tp};
use crate::group_admin::order;

/// Producers x and y with transactions, and p without.
fn with_producers(version: i16) -> Cluster {
    let mut c = cluster_at(version, &[]).topic("t", 1, 3, &[]);
    for name in ["x", "y"] {
        let id = format!("{name}-1");
        c.producer(name, "t", "100/s", &[("transactional.id", &id), ("linger.ms", "0")]);
        let is_ready = |c: &Cluster| c.producer_state(name).transaction_state() == Some(State::Ready);
        c.until("it has a producer id", 10_000, is_ready);
    }
    c.producer("p", "t", "100/s", &[("linger.ms", "0")]);
    c
}

fn wish(c: &mut Cluster, name: &str, wish: Wish) {
    c.give(Command::Transaction { client: name.into(), wish });
    c.run_ms(300);
}

fn send(c: &mut Cluster, name: &str, records: i64) {
    c.send(name, records);
    c.run_ms(300);
}

/// High watermark and last stable offset of t-0 at its leader.
fn ends(c: &Cluster) -> (i64, i64) {
    let image = c.world.active_controller().expect("a controller").image();
    let leader = image.partition(&tp("t-0")).expect("created").leader;
    let log = &c.partition(leader.0, "t-0").expect("it leads").log;
    (log.high_watermark().0, log.last_stable_offset().0)
}

/// Who reads t-0 from its beginning: the offsets that it has processed.
fn reader(c: &mut Cluster, isolation: &str) -> String {
    let name = format!("{isolation}-{}", c.now_ms());
    c.order(&format!(
        "add consumer {name} without group partitions t-0 program \"poll; process 0ms\" \
         auto.offset.reset=earliest isolation.level={isolation}"
    ));
    c.run_ms(2_000);
    name
}

/// What a reader was given, and its position.
fn read_by(c: &Cluster, name: &str) -> (Vec<i64>, i64) {
    let processed = c.events().filter_map(|event| match event {
        Event::Processed { client, offset, .. } if client.as_str() == name => Some(offset.0),
        _ => None,
    });
    let position = c.consumer_state(name).subscription().owned()[&tp("t-0")].position();
    (processed.collect(), position.expect("it has read").offset.0)
}

#[test]
fn the_stable_offset_waits_and_readers_of_committed_data_with_it_ex_24_r_txn_23_r_cons_29() {
    for version in [2, 1] {
        let mut c = with_producers(version);
        wish(&mut c, "x", Wish::Begin);
        wish(&mut c, "y", Wish::Begin);
        let mut seen = Vec::new();
        for name in ["x", "p", "y", "x"] {
            send(&mut c, name, 1);
            seen.push(ends(&c));
        }
        wish(&mut c, "y", Wish::Commit);
        seen.push(ends(&c));
        let early = reader(&mut c, "read_committed");
        assert_eq!(read_by(&c, &early), (vec![], 0), "LSO 0");
        wish(&mut c, "x", Wish::Abort);
        seen.push(ends(&c));
        send(&mut c, "p", 1);
        seen.push(ends(&c));
        assert_eq!(seen, [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 6), (7, 7)], "at {version}");
        c.run_ms(1_000);
        assert_eq!(read_by(&c, &early), (vec![1, 2, 6], 7));
        let all = reader(&mut c, "read_uncommitted");
        assert_eq!(read_by(&c, &all), (vec![0, 1, 2, 3, 6], 7));
    }
}

#[test]
fn the_stable_offset_waits_until_the_marker_is_replicated_ex_25_r_txn_23() {
    for version in [2, 1] {
        let mut c = with_producers(version);
        wish(&mut c, "x", Wish::Begin);
        send(&mut c, "x", 5);
        c.give(Command::Transaction { client: "x".into(), wish: Wish::Abort });
        c.until_event("the marker is in the leader's log", 10_000, |event| {
            matches!(event, Event::Transaction(TransactionEvent::Marked { .. }))
        });
        assert_eq!(ends(&c), (5, 0), "no follower has fetched it");
        c.until("a follower has", 1_000, |c| ends(c).0 == 6);
        assert_eq!(ends(&c), (6, 6));
    }
}

/// The lag of a group, as the tool tells it.
fn lag(c: &mut Cluster, group: &str) -> i64 {
    order(c, &format!("describe offsets of group {group}"), |event| match event {
        Event::GroupsTold { told: GroupsTold::Offsets { positions, .. } } => positions[0].lag(),
        _ => None,
    })
}

#[test]
fn a56_who_commits_the_record_and_not_the_position_lags_by_the_marker_for_ever_r_cons_15() {
    for version in [2, 1] {
        let mut c = with_producers(version);
        wish(&mut c, "x", Wish::Begin);
        send(&mut c, "x", 3);
        wish(&mut c, "x", Wish::Commit);
        assert_eq!(ends(&c), (4, 4), "three records and a marker");
        let programs =
            [("g1", "poll; process 0ms; commit record", 1), ("g2", "poll; process 0ms; commit", 0)];
        for (group, program, expected) in programs {
            c.order(&format!(
                "add consumer of-{group} to {group} topics t program \"{program}\" auto.offset.reset=earliest \
                 enable.auto.commit=false isolation.level=read_committed"
            ));
            c.run_ms(10_000);
            assert_eq!(lag(&mut c, group), expected, "{program}, at {version}");
        }
    }
}

#[test]
fn a57_aborted_records_are_read_by_default_and_stay_in_the_log_r_cons_29() {
    for version in [2, 1] {
        let mut c = with_producers(version);
        wish(&mut c, "x", Wish::Begin);
        send(&mut c, "x", 3);
        wish(&mut c, "x", Wish::Abort);
        let all = reader(&mut c, "read_uncommitted");
        assert_eq!(read_by(&c, &all), (vec![0, 1, 2], 4));
        let committed = reader(&mut c, "read_committed");
        assert_eq!(read_by(&c, &committed), (vec![], 4));
    }
}
