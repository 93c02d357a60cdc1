//! What an acknowledgement is worth: the cases A16 to A22 of real questions, with their numbers.

use glassbroker::kafka::event::{Event, PositionSource, TruncationReason};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName, LeaderEpoch, Offset};
use glassbroker::sim::{Command, Target};

use crate::dsl::{Cluster, cluster, cluster_without_elr, tp};

const LOOSE: &[(&str, &str)] = &[("acks", "1"), ("enable.idempotence", "false")];

/// m0 to m4 in t-0 on brokers 1, 2 and 3, leader 1, all committed; the producer `p` sent them.
fn five_records(pairs: &[(&str, &str)], producer: &[(&str, &str)]) -> Cluster {
    five_records_in(cluster(3), pairs, producer)
}

fn five_records_in(c: Cluster, pairs: &[(&str, &str)], producer: &[(&str, &str)]) -> Cluster {
    let mut c = c.topic("t", 1, 3, pairs);
    c.producer("p", "t", "100/s", producer);
    c.send("p", 5);
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "1:5/5 2:5/5 3:5/5");
    c
}

/// Stops 2 and 3 in order, so that broker 1 alone is in sync.
fn alone(c: &mut Cluster) {
    for id in [3, 2] {
        c.give(Command::Stop(BrokerId(id)));
        c.until("it is gone", 10_000, |c| c.world.broker(BrokerId(id)).is_none());
    }
    c.until("only broker 1 is in sync", 1_000, |c| c.registration("t-0") == "1 e0 isr[1]");
}

/// The offsets of the records that a producer had acknowledged.
fn acknowledged(c: &Cluster, name: &str) -> Vec<i64> {
    let name = ClientName::new(name);
    let offsets = |event: &Event| match event {
        Event::BatchAcknowledged { client, base_offset, records, .. } if *client == name => {
            Some(base_offset.0..base_offset.0 + records)
        }
        _ => None,
    };
    c.events().filter_map(offsets).flatten().collect()
}

/// A group's consumer that reads from the beginning.
fn reader(c: &mut Cluster) {
    c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    c.until("it has read all five", 20_000, |c| position(c) == Some(5));
}

fn position(c: &Cluster) -> Option<i64> {
    c.consumer_state("reader").subscription().position(&tp("t-0")).map(|position| position.offset.0)
}

/// Where a new group's consumer starts that reads from the end: what group tools call LOG-END-OFFSET.
fn end_for_consumers(c: &mut Cluster, name: &str) -> i64 {
    c.consumer(name, name, &["t"], &["poll"], &[]);
    let start = |c: &Cluster| {
        c.events().find_map(|event| match event {
            Event::PositionSet { client, offset, source: PositionSource::Latest, .. } => {
                (client.as_str() == name).then_some(offset.0)
            }
            _ => None,
        })
    };
    c.until("it has its position", 20_000, |c| start(c).is_some());
    start(c).expect("just seen")
}

#[test]
fn a16_two_acks_1_records_that_were_acknowledged_disappear_with_their_leader() {
    let mut c = five_records(&[], LOOSE);
    reader(&mut c);
    c.cut(1, 2);
    c.cut(1, 3);
    c.send("p", 2);
    c.run_ms(500);
    assert_eq!(acknowledged(&c, "p")[5..], [5, 6]);
    assert_eq!(c.replicas("t-0"), "1:7/5 2:5/5 3:5/5");
    let lost = c.values(1, "t-0", 5);
    c.kill(1);
    let killed = c.now_ms();
    let fenced = c.until_event("broker 1 is fenced", 11_000, |event| {
        matches!(event, Event::BrokerFenced { broker: BrokerId(1), .. })
    });
    assert!((7_000..=10_126).contains(&(fenced - killed)), "R-REPL-52: {} ms", fenced - killed);
    c.run_ms(1_000);
    assert_eq!(
        (c.registration("t-0").as_str(), c.replicas("t-0").as_str()),
        ("2 e1 isr[2,3]", "2:5/5 3:5/5")
    );
    assert_eq!(position(&c), Some(5), "no consumer ever saw the old 5 and 6");
    c.heal(1, 2);
    c.heal(1, 3);
    c.send("p", 1);
    c.run_ms(2_000);
    assert_eq!(acknowledged(&c, "p")[7..], [5], "offset 5 is given again");
    assert_ne!(c.values(2, "t-0", 5)[0], lost[0]);
    c.until("the reader sees the new 5", 5_000, |c| position(c) == Some(6));
    c.start(1);
    let reason = TruncationReason::DivergingEpoch { epoch: LeaderEpoch(0), end_offset: Offset(5) };
    c.until_event("broker 1 truncates", 20_000, |event| {
        matches!(event, Event::Truncated { broker: BrokerId(1), from: Offset(7), to: Offset(5), reason: why, .. } if *why == reason)
    });
}

/// R-REPL-34.
#[test]
fn a17_acks_all_waits_for_the_slowest_in_sync_replica_and_not_for_min_insync_replicas() {
    let mut c = five_records(&[("min.insync.replicas", "2")], &[]);
    c.give(Command::Freeze(Target::Broker(BrokerId(3))));
    c.send("p", 1);
    c.run_ms(4_900);
    assert_eq!(acknowledged(&c, "p").len(), 5, "two of three have it and it is not acknowledged");
    c.give(Command::Thaw(Target::Broker(BrokerId(3))));
    c.run_ms(500);
    assert!((4_900..=5_100).contains(&c.last_latency_ms()), "{} ms", c.last_latency_ms());
    c.kill(3);
    c.until("3 has left the in-sync set", 12_000, |c| c.registration("t-0") == "1 e0 isr[1,2]");
    c.send("p", 1);
    c.run_ms(500);
    assert_eq!(acknowledged(&c, "p").len(), 7);
    assert!(c.last_latency_ms() <= 20, "fast again: {} ms", c.last_latency_ms());
}

fn check_a18(mut c: Cluster, offline: &str) {
    alone(&mut c);
    c.send("p", 1);
    c.run_ms(500);
    assert_eq!((acknowledged(&c, "p")[5..].to_vec(), c.replicas("t-0")), (vec![5], "1:6/6".to_owned()));
    c.kill(1);
    c.run_ms(12_000);
    c.start(2);
    c.start(3);
    c.run_ms(30_000);
    assert_eq!(c.eligible("t-0"), offline, "offline, though two replicas are alive");
    assert_eq!(c.replicas("t-0"), "2:5/5 3:5/5");
    c.start(1);
    c.until("broker 1 brings it back", 20_000, |c| c.replicas("t-0") == "1:6/6 2:6/6 3:6/6");
}

#[test]
fn a18_with_min_insync_replicas_1_acks_all_is_acks_1_once_the_in_sync_set_has_shrunk() {
    check_a18(five_records(&[], &[]), "-1 isr[] elr[1] last[1]");
}

#[test]
fn a18_without_elr_the_last_in_sync_replica_stays_in_the_set() {
    check_a18(five_records_in(cluster_without_elr(3), &[], &[]), "-1 isr[1] elr[] last[]");
}

#[test]
fn a18_an_unclean_election_loses_what_only_the_last_in_sync_replica_had() {
    use glassbroker::kafka::controller::elections::ElectionType;
    let mut c = five_records(&[], &[]);
    alone(&mut c);
    c.send("p", 1);
    c.run_ms(500);
    c.kill(1);
    c.run_ms(12_000);
    c.start(2);
    c.start(3);
    c.run_ms(10_000);
    c.give(Command::ElectLeader { kind: ElectionType::Unclean, partition: Some(tp("t-0")) });
    c.until("broker 2 leads without m5", 5_000, |c| c.replicas("t-0") == "2:5/5 3:5/5");
    c.start(1);
    c.until("and broker 1 forgets it", 20_000, |c| c.replicas("t-0") == "1:5/5 2:5/5 3:5/5");
}

#[test]
fn a19_below_min_isr_acks_all_is_refused_again_and_again_and_fails_after_120_s() {
    let mut c = five_records(&[("min.insync.replicas", "2")], &[]);
    alone(&mut c);
    reader(&mut c);
    let seen = c.world.trace().len_ever();
    let begun = c.now_ms();
    c.send("p", 1);
    let failed = c.until_event("the callback fails", 121_000, |event| {
        matches!(event, Event::BatchFailed { error: ErrorCode::RequestTimedOut, .. })
    });
    assert!((120_000..=120_100).contains(&(failed - begun)), "R-PROD-15: {} ms", failed - begun);
    let retries: Vec<ErrorCode> = c
        .world
        .trace()
        .since(seen)
        .filter_map(|entry| match entry.event {
            Event::BatchRetried { error, .. } => Some(error),
            _ => None,
        })
        .collect();
    assert!(retries.len() > 100 && retries.iter().all(|error| *error == ErrorCode::NotEnoughReplicas));
    assert_eq!(c.replicas("t-0"), "1:5/5", "R-REPL-30: nothing was stored");
    assert_eq!(position(&c), Some(5), "consumers read all the while");
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 5, failed 1, stored 5");
}

#[test]
fn a19_a_retry_succeeds_once_when_a_replica_returns_in_time() {
    let mut c = five_records(&[("min.insync.replicas", "2")], &[]);
    alone(&mut c);
    let begun = c.now_ms();
    c.send("p", 1);
    c.run_ms(40_000 - (c.now_ms() - begun));
    assert_eq!(acknowledged(&c, "p").len(), 5);
    c.start(2);
    c.until("it is acknowledged", 20_000, |c| acknowledged(c, "p")[5..] == [5]);
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "1:6/6 2:6/6", "exactly one copy");
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 6");
}

#[test]
fn a20_below_min_isr_acks_1_is_accepted_and_nobody_can_read_it_until_a_replica_returns() {
    let mut c = five_records(&[("min.insync.replicas", "2")], LOOSE);
    alone(&mut c);
    c.send("p", 1);
    c.run_ms(1_000);
    assert_eq!(acknowledged(&c, "p")[5..], [5]);
    assert_eq!(c.replicas("t-0"), "1:6/5", "R-REPL-13: the high watermark stays");
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 6, not visible 1");
    reader(&mut c);
    assert_eq!(end_for_consumers(&mut c, "tool"), 5, "R-LOG-28: the end for consumers");
    c.run_ms(10_000);
    assert_eq!(position(&c), Some(5));
    c.start(2);
    c.until("the record appears", 20_000, |c| position(c) == Some(6));
    assert_eq!(c.partition(1, "t-0").expect("leader").log.high_watermark(), Offset(6));
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 6");
}

#[test]
fn a20_it_is_gone_when_another_replica_is_elected_instead() {
    let mut c = five_records(&[("min.insync.replicas", "2")], LOOSE);
    alone(&mut c);
    c.send("p", 1);
    c.run_ms(1_000);
    assert_eq!((c.replicas("t-0").as_str(), c.eligible("t-0").as_str()), ("1:6/5", "1 isr[1] elr[2] last[]"));
    c.kill(1);
    c.until("nobody leads", 12_000, |c| c.registration("t-0").starts_with("-1 "));
    c.start(2);
    c.until("broker 2 leads, cleanly", 10_000, |c| c.registration("t-0").starts_with("2 "));
    assert!(!c.events().any(|event| matches!(event, Event::LeaderElected { unclean: true, .. })));
    c.start(1);
    c.until("broker 1 follows and has forgotten it", 20_000, |c| {
        c.replicas("t-0").starts_with("1:5/5 2:5/5")
    });
    assert_eq!(c.outcome("t"), "produced 6, acknowledged 6, stored 5, lost 1");
}

#[test]
fn a22_min_insync_replicas_counts_no_more_than_there_are_replicas() {
    let mut c = cluster(3).topic("t", 1, 1, &[("min.insync.replicas", "2")]);
    c.producer("all", "t", "100/s", &[]);
    c.producer("one", "t", "100/s", LOOSE);
    c.send("all", 1);
    c.send("one", 1);
    c.run_ms(500);
    assert_eq!((acknowledged(&c, "all"), acknowledged(&c, "one")), (vec![0], vec![1]));
    assert_eq!(c.replicas("t-0"), "1:2/2", "R-REPL-13");
    assert_eq!(c.outcome("t"), "produced 2, acknowledged 2, stored 2");
}
