//! Fetch sessions, and what readers do when leaders change (KIP-227, section 2 and 5 of the reference).

use glassbroker::kafka::replication::session::FetchSession;
use glassbroker::sim::Command;
use glassbroker::swarm::watch::Watch;

use crate::dsl::*;

/// The sessions at a broker: who has one (0: a consumer), how many partitions it holds, how many of them have news.
fn sessions(c: &Cluster, broker: i32) -> Vec<(i32, i32, i32)> {
    let broker = c.world.broker(glassbroker::kafka::types::BrokerId(broker)).expect("it runs");
    let line = |session: &FetchSession| {
        (session.follower.map_or(0, |(id, _)| id.0), session.len(), session.loud_count())
    };
    let mut sessions: Vec<_> = broker.replicas().sessions().iter().map(line).collect();
    sessions.sort();
    sessions
}

#[test]
fn on_a_quiet_cluster_no_partition_is_read_twice_and_each_append_concerns_one() {
    let mut c = cluster(2).topic("t", 12, 2, &[]);
    c.run_ms(5_000);
    let led = |c: &Cluster, broker| {
        (0..12).filter(|p| c.partition(broker, &format!("t-{p}")).expect("a replica").is_leader()).count()
            as i32
    };
    assert_eq!((led(&c, 1), led(&c, 2)), (6, 6));
    assert_eq!((sessions(&c, 1), sessions(&c, 2)), (vec![(2, 6, 0)], vec![(1, 6, 0)]));
    c.producer("p", "t", "10/s", &[("linger.ms", "0")]);
    c.send("p", 1);
    c.run_ms(3_000);
    c.send("p", 1);
    let loud = |c: &Cluster| -> i32 { (1..=2).flat_map(|id| sessions(c, id)).map(|(.., loud)| loud).sum() };
    let mut most = 0;
    let end = c.world.now().plus_ms(2_000);
    while c.world.next_at().is_some_and(|at| at <= end) {
        c.world.step();
        most = most.max(loud(&c));
    }
    assert_eq!((most, loud(&c)), (1, 0), "all records have one key, so one partition");
}

#[test]
fn a_restarted_broker_has_forgotten_its_sessions_and_all_begin_new_ones() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    let mut watch = Watch::default();
    c.producer("p", "t", "10/s", &[]);
    c.consumer("reader", "g", &["t"], &["poll"], &[("auto.offset.reset", "earliest")]);
    let position = |c: &Cluster| c.consumer_state("reader").subscription().position(&tp("t-0"));
    c.send("p", 3);
    c.until("the reader has them", 20_000, |c| position(c).is_some_and(|p| p.offset.0 == 3));
    let leads = |c: &Cluster, id: i32| c.partition(id, "t-0").is_some_and(|replica| replica.is_leader());
    let leader = (1..=3).find(|id| leads(&c, *id)).expect("a leader");
    let who = |c: &Cluster, id: i32| sessions(c, id).into_iter().map(|(who, ..)| who).collect::<Vec<_>>();
    assert!(who(&c, leader).contains(&0), "the reader has a session");
    c.kill(leader);
    c.until("another leads", 20_000, |c| !c.registration("t-0").starts_with(&format!("{leader} ")));
    c.start(leader);
    c.until("it is back", 10_000, |c| c.registration("t-0").ends_with("isr[1,2,3]"));
    assert_eq!(who(&c, leader), Vec::<i32>::new(), "it leads nothing and has forgotten all");
    assert_eq!(watch.everything(&c.world), Ok(()), "{}", c.report());
    let next = (1..=3).find(|id| leads(&c, *id)).expect("a leader");
    c.until("the reader has found it", 20_000, |c| who(c, next).contains(&0));
    let at_next = who(&c, next);
    assert!((0..=3).filter(|id| *id != next).all(|id| at_next.contains(&id)), "{at_next:?}");
    // That of the process that was killed is not closed by anybody; a slot is all that it takes.
    assert_eq!(at_next.iter().filter(|id| **id == leader).count(), 2);
    c.send("p", 2);
    c.until("the reader has all", 20_000, |c| position(c).is_some_and(|p| p.offset.0 == 5));
    c.run_ms(2_000);
    assert_eq!(c.replicas("t-0"), "1:5/5 2:5/5 3:5/5");
    c.give(Command::Close("reader".into()));
    c.run_ms(2_000);
    assert!(!who(&c, next).contains(&0), "close() ends the session");
}
