//! Who is in sync, who may lead, and what it costs: the cases A24 to A28 of real questions, with their numbers.

use glassbroker::kafka::controller::elections::ElectionType;
use glassbroker::kafka::event::{ChangeReason, Event};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, Offset};
use glassbroker::sim::{Command, Target, World, WorldConfig};

use crate::dsl::{Cluster, cluster, cluster_without_elr, config, ids, tp};

const LOOSE: &[(&str, &str)] = &[("acks", "1"), ("enable.idempotence", "false")];

/// Five records in t-0 of a topic with as many replicas as there are brokers; `p` sent them with acks=all.
fn five_records(brokers: i32, pairs: &[(&str, &str)]) -> Cluster {
    five_records_in(cluster(brokers), brokers as i16, pairs)
}

fn five_records_in(c: Cluster, replication_factor: i16, pairs: &[(&str, &str)]) -> Cluster {
    let mut c = c.topic("t", 1, replication_factor, pairs);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 5);
    c.run_ms(2_000);
    c
}

fn stop(c: &mut Cluster, id: i32) {
    c.give(Command::Stop(BrokerId(id)));
    c.until("its process is gone", 10_000, |c| c.world.broker(BrokerId(id)).is_none());
}

fn elect_unclean(c: &mut Cluster) {
    c.give(Command::ElectLeader { kind: ElectionType::Unclean, partition: Some(tp("t-0")) });
}

/// Sends a record once follower 3 is away, and gives the time until it left the in-sync set and the record's latency.
fn leaving_takes_ms(away: impl Fn(&mut Cluster), reason: ChangeReason) -> (i64, i64) {
    let mut c = five_records(3, &[]);
    away(&mut c);
    let begun = c.now_ms();
    c.send("p", 1);
    let left = |c: &Cluster| {
        let entry = c.entries().find(|entry| {
            matches!(&entry.event, Event::IsrShrunk { tp: p, removed, reason: why, .. }
                if *p == tp("t-0") && *removed == ids(&[3]) && *why == reason)
        });
        entry.map(|entry| entry.key.time.ms())
    };
    c.until("broker 3 left", 46_000, |c| left(c).is_some());
    let left = left(&c).expect("just seen");
    c.until("the record is acknowledged", 40_000, |c| c.producer_state("p").counts().acknowledged == 6);
    assert_eq!(c.registration("t-0"), "1 e0 isr[1,2]", "R-REPL-3: a smaller set raises no leader epoch");
    (left - begun, c.last_latency_ms())
}

#[test]
fn a24_a_slow_follower_is_waited_for_30_to_45_s_a_dead_one_7_to_10_s_and_one_that_stops_not_at_all() {
    // Its fetches are lost, its heartbeats are not.
    let (slow_ms, latency_ms) = leaving_takes_ms(|c| c.cut(3, 1), ChangeReason::LeaderRequest);
    assert!((29_000..=45_000).contains(&slow_ms), "R-REPL-21: {slow_ms} ms");
    assert!(latency_ms >= slow_ms - 100, "acks=all waits that long: {latency_ms} ms");
    let (dead_ms, latency_ms) = leaving_takes_ms(|c| c.kill(3), ChangeReason::BrokerFenced);
    assert!((7_000..=10_126).contains(&dead_ms), "R-REPL-52: {dead_ms} ms");
    assert!(latency_ms >= dead_ms - 100, "{latency_ms} ms");
    let stop = |c: &mut Cluster| c.give(Command::Stop(BrokerId(3)));
    let (stopped_ms, latency_ms) = leaving_takes_ms(stop, ChangeReason::ControlledShutdown);
    assert!(stopped_ms <= 100 && latency_ms <= 200, "R-REPL-55: {stopped_ms} ms, {latency_ms} ms");
}

/// The in-sync sets of t-0 as they changed, and when.
fn in_sync_sets(c: &Cluster) -> Vec<(i64, Vec<BrokerId>)> {
    let change = |entry: &glassbroker::sim::TraceEntry| match &entry.event {
        Event::IsrShrunk { tp: p, isr, .. } | Event::IsrExpanded { tp: p, isr, .. } if *p == tp("t-0") => {
            Some((entry.key.time.ms(), isr.clone()))
        }
        _ => None,
    };
    c.entries().filter_map(change).collect()
}

#[test]
fn a25_a_follower_with_long_pauses_goes_in_and_out_and_each_shrink_frees_what_waits() {
    let mut c = five_records(3, &[]);
    for round in 1..=3 {
        c.cut(3, 1);
        c.send("p", 1);
        c.run_ms(2_000);
        let waiting = 5 + round - 1;
        assert_eq!(c.producer_state("p").counts().acknowledged, waiting, "acks=all waits for broker 3");
        c.until("broker 3 is out", 46_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
        c.until("and the record acknowledged", 40_000, |c| {
            c.producer_state("p").counts().acknowledged == waiting + 1
        });
        c.heal(3, 1);
        c.until("broker 3 is in again", 40_000, |c| c.registration("t-0") == "1 e0 isr[1,2,3]");
    }
    let sets: Vec<Vec<BrokerId>> = in_sync_sets(&c).into_iter().map(|(_, isr)| isr).collect();
    let (out, all) = (ids(&[1, 2]), ids(&[1, 2, 3]));
    assert_eq!(sets, [out.clone(), all.clone(), out.clone(), all.clone(), out, all]);
}

/// R-REPL-23: who has reached the high watermark may join, and the log's end may be far away. Kafka does so (KAFKA-19996).
#[test]
fn a25_under_min_isr_a_follower_that_cannot_keep_up_is_admitted_and_dropped_again_and_again() {
    let broker_config = config(&[("replica.fetch.response.max.bytes", "1")]);
    let brokers = [1, 2].map(|id| (BrokerId(id), None)).to_vec();
    let far = WorldConfig { latency_us: 100_000..=100_000, brokers, broker_config, ..WorldConfig::default() };
    let mut c = Cluster { world: World::new(far).expect("valid configs") };
    c.run_ms(3_000);
    c = c.topic("t", 1, 2, &[("min.insync.replicas", "2")]);
    // A fetch brings one batch and takes 200 ms; the producer makes four in this time.
    let one_each = [("batch.size", "1"), ("max.in.flight.requests.per.connection", "100")];
    c.producer("p", "t", "20/s", &[LOOSE, &one_each].concat());
    c.give(Command::Resume("p".into()));
    c.run_ms(200_000);
    let sets = in_sync_sets(&c);
    assert!(sets.len() >= 6, "{sets:?} {}\n{}", c.replicas("t-0"), c.report());
    for (index, (at, isr)) in sets.iter().enumerate() {
        assert_eq!(isr.len(), 1 + index % 2, "out and in by turns: {sets:?}");
        if index > 0 && isr.len() == 1 {
            let stayed_ms = at - sets[index - 1].0;
            // It was last caught up long ago, so the next check drops it.
            assert!(stayed_ms <= 15_500, "R-REPL-21: {stayed_ms} ms");
        }
    }
    let log = &c.partition(1, "t-0").expect("leader").log;
    assert!(log.log_end_offset().0 - log.high_watermark().0 > 1_000, "{}", c.replicas("t-0"));
}

#[test]
fn a26_an_unclean_leader_with_2_of_10_records_makes_the_others_truncate_8_and_3() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", LOOSE);
    c.send("p", 2);
    c.run_ms(2_000);
    c.cut(3, 1);
    c.send("p", 3);
    c.run_ms(1_000);
    c.cut(2, 1);
    c.send("p", 5);
    c.until("A alone is in sync", 50_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.until("all is committed", 1_000, |c| c.replicas("t-0") == "1:10/10 2:5/2 3:2/2");
    c.kill(1);
    c.kill(2);
    c.until("nobody leads", 12_000, |c| c.eligible("t-0") == "-1 isr[] elr[1] last[1]");
    c.heal(3, 1);
    c.heal(2, 1);
    elect_unclean(&mut c);
    c.until("C leads", 2_000, |c| c.eligible("t-0") == "3 isr[3] elr[] last[]");
    c.run_ms(1_000);
    assert_eq!(c.replicas("t-0"), "3:2/2", "R-REPL-43");
    c.start(1);
    c.start(2);
    c.until("all are in sync", 30_000, |c| c.registration("t-0") == "3 e2 isr[1,2,3]");
    let cut = |id: i32| {
        let found = c.events().find_map(|event| match event {
            Event::Truncated { broker, from, to, .. } if broker.0 == id => Some((*from, *to)),
            _ => None,
        });
        found.unwrap_or_else(|| panic!("broker {id} cut nothing\n{}", c.report()))
    };
    assert_eq!((cut(1), cut(2)), ((Offset(10), Offset(2)), (Offset(5), Offset(2))), "8 and 3 records");
}

/// A27: broker 2 fell out of the in-sync set, then broker 1 stops; broker 2 is alive.
fn leaderless() -> Cluster {
    leaderless_in(five_records(2, &[]), "-1 isr[] elr[1] last[1]")
}

fn leaderless_in(mut c: Cluster, registered: &str) -> Cluster {
    c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    c.cut(1, 2);
    // The leader drops nobody from an idle partition (R-REPL-20).
    c.send("p", 1);
    c.until("2 is out", 60_000, |c| c.registration("t-0") == "1 e0 isr[1]");
    c.until("committed by 1 alone", 10_000, |c| c.replicas("t-0") == "1:6/6 2:5/5");
    c.give(Command::Stop(BrokerId(1)));
    c.until("nobody leads", 20_000, |c| c.eligible("t-0") == registered);
    c.until("1 is gone", 10_000, |c| c.world.broker(BrokerId(1)).is_none());
    c.heal(1, 2);
    c
}

/// R-REPL-66.
#[test]
fn a27_a_partition_whose_leader_stopped_waits_for_it_though_another_replica_lives() {
    let mut c = leaderless();
    c.send("p", 1);
    c.run_ms(60_000);
    assert_eq!(c.eligible("t-0"), "-1 isr[] elr[1] last[1]", "broker 2 alive changes nothing");
    let counts = c.producer_state("p").counts();
    assert_eq!((counts.sent, counts.acknowledged, counts.failed), (7, 6, 0), "the producer keeps its record");
    c.start(1);
    c.until("the record is written", 30_000, |c| c.producer_state("p").counts().acknowledged == 7);
    c.until("nothing is lost", 10_000, |c| c.replicas("t-0") == "1:7/7 2:7/7");
}

#[test]
fn a27_without_elr_the_leader_that_stopped_stays_in_the_in_sync_set() {
    let mut c = leaderless_in(five_records_in(cluster_without_elr(2), 2, &[]), "-1 isr[1] elr[] last[]");
    c.run_ms(60_000);
    assert_eq!(c.eligible("t-0"), "-1 isr[1] elr[] last[]", "broker 2 alive changes nothing");
    c.start(1);
    c.until("nothing is lost", 20_000, |c| c.replicas("t-0") == "1:6/6 2:6/6");
}

#[test]
fn a27_without_its_leader_a_record_waits_until_its_delivery_timeout() {
    let mut c = leaderless();
    let begun = c.now_ms();
    c.send("p", 1);
    let failed = c.until_event("the record fails", 121_000, |event| {
        matches!(event, Event::BatchFailed { error: ErrorCode::RequestTimedOut, .. })
    });
    assert!((119_900..=120_100).contains(&(failed - begun)), "R-PROD-15: {} ms", failed - begun);
}

#[test]
fn a27_an_unclean_election_brings_it_back_with_a_loss() {
    let mut c = leaderless();
    elect_unclean(&mut c);
    c.until("2 leads", 2_000, |c| c.registration("t-0").starts_with("2 "));
    c.run_ms(1_000);
    assert_eq!(c.replicas("t-0"), "2:5/5", "the sixth record is lost");
}

#[test]
fn a28_what_acks_all_wrote_outlives_three_stops_in_a_row_and_what_acks_1_wrote_below_min_isr_does_not() {
    let mut c = five_records(3, &[("min.insync.replicas", "2")]);
    c.producer("loose", "t", "100/s", LOOSE);
    stop(&mut c, 3);
    assert_eq!(c.eligible("t-0"), "1 isr[1,2] elr[] last[]");
    stop(&mut c, 2);
    assert_eq!(c.eligible("t-0"), "1 isr[1] elr[2] last[]");
    c.send("loose", 1);
    c.run_ms(500);
    assert_eq!(c.replicas("t-0"), "1:6/5", "accepted and not committed");
    stop(&mut c, 1);
    assert_eq!(c.eligible("t-0"), "-1 isr[] elr[1,2] last[1]");
    c.start(2);
    c.until("2 leads", 10_000, |c| c.eligible("t-0") == "2 isr[2] elr[1] last[]");
    assert!(
        !c.events().any(|event| matches!(event, Event::LeaderElected { unclean: true, .. })),
        "R-REPL-45"
    );
    c.start(1);
    c.until("1 follows", 20_000, |c| c.replicas("t-0") == "1:5/5 2:5/5");
}

/// R-REPL-47, R-CTRL-12.
#[test]
fn a28_without_elr_only_the_last_in_sync_replica_can_bring_the_partition_back() {
    let mut c = five_records_in(cluster_without_elr(3), 3, &[("min.insync.replicas", "2")]);
    stop(&mut c, 3);
    stop(&mut c, 2);
    assert_eq!(c.eligible("t-0"), "1 isr[1] elr[] last[]");
    stop(&mut c, 1);
    assert_eq!(c.eligible("t-0"), "-1 isr[1] elr[] last[]");
    c.start(2);
    c.run_ms(20_000);
    assert_eq!(c.eligible("t-0"), "-1 isr[1] elr[] last[]", "starting 2 does not help");
    c.start(1);
    c.until("1 leads", 10_000, |c| c.registration("t-0").starts_with("1 "));
}

/// R-REPL-56.
#[test]
fn a28_one_that_stopped_without_warning_is_no_longer_eligible_when_it_returns() {
    let mut c = five_records(3, &[("min.insync.replicas", "2")]);
    stop(&mut c, 3);
    c.kill(2);
    c.until("2 is out and eligible", 12_000, |c| c.eligible("t-0") == "1 isr[1] elr[2] last[]");
    stop(&mut c, 1);
    assert_eq!(c.eligible("t-0"), "-1 isr[] elr[1,2] last[1]");
    c.start(2);
    c.run_ms(20_000);
    assert_eq!(c.eligible("t-0"), "-1 isr[] elr[1] last[1]");
    c.give(Command::Freeze(Target::Broker(BrokerId(2))));
    c.start(1);
    c.until("1 leads", 10_000, |c| c.registration("t-0").starts_with("1 "));
}
