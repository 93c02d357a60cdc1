//! What a consumer does when the log that it reads was cut (R-CONS-32).

use glassbroker::kafka::event::Event;
use glassbroker::kafka::types::Offset;
use glassbroker::sim::WorldConfig;

use crate::dsl::*;

#[test]
fn ex_8_after_an_unclean_election_a_consumer_goes_back_to_where_the_histories_part() {
    let broker_config = config(&[("replica.lag.time.max.ms", "5000")]);
    let mut c = cluster_with(3, WorldConfig { broker_config, ..WorldConfig::default() });
    c = c.topic("t", 1, 3, &[("unclean.leader.election.enable", "true")]);
    let leader = (1..=3).find(|id| c.partition(*id, "t-0").is_some_and(|p| p.is_leader())).expect("a leader");
    let others: Vec<i32> = (1..=3).filter(|id| *id != leader).collect();
    c.producer("p", "t", "10/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    // Without commits the group's own log stays replicated, and its coordinator moves as usual.
    let reader = [("auto.offset.reset", "latest"), ("enable.auto.commit", "false")];
    c.consumer("reader", "g", &["t"], &["poll"], &reader);
    let position = |c: &Cluster| c.consumer_state("reader").subscription().position(&tp("t-0"));
    c.until("the reader waits at the end", 20_000, |c| position(c).is_some());
    c.send("p", 5);
    c.until("the reader has five", 5_000, |c| position(c).is_some_and(|p| p.offset == Offset(5)));
    c.run_ms(2_000);
    others.iter().for_each(|other| c.cut(leader, *other));
    c.send("p", 3);
    c.until("only the leader is in sync", 20_000, |c| {
        c.registration("t-0").ends_with(&format!("isr[{leader}]"))
    });
    c.until("the reader has eight", 5_000, |c| position(c).is_some_and(|p| p.offset == Offset(8)));
    c.kill(leader);
    c.until_event("the reader finds the log cut", 30_000, |event| {
        let found = (Offset(8), Some(Offset(5)));
        matches!(event, Event::TruncationDetected { position, end, .. } if (*position, *end) == found)
    });
    assert_eq!(
        position(&c).map(|p| p.offset),
        Some(Offset(5)),
        "R-CONS-32: not at the end, where latest would be"
    );
    c.send("p", 1);
    c.until("it reads what the new leader wrote", 10_000, |c| {
        position(c).is_some_and(|p| p.offset == Offset(6))
    });
    others.iter().for_each(|other| c.heal(leader, *other));
    c.start(leader);
    c.until("the old leader has cut its log too", 20_000, |c| c.replicas("t-0") == "1:6/6 2:6/6 3:6/6");
    assert_eq!(c.outcome("t"), "produced 9, acknowledged 9, stored 6, lost 3");
}
