//! What a broker, on behalf of the active controller, tells of the quorum.

use glassbroker::kafka::event::Event;
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::raft::{QuorumStatus, ReplicaStatus};
use glassbroker::kafka::types::{BrokerId, ControllerId, Offset};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, quorum};

/// `kafka-metadata-quorum.sh describe`, or the error within a minute and a half.
pub fn describe(c: &mut Cluster) -> Result<QuorumStatus, ErrorCode> {
    let seen = c.world.trace().len_ever();
    c.give(Command::DescribeQuorum);
    let found = |c: &Cluster| {
        c.world.trace().since(seen).find_map(|entry| match &entry.event {
            Event::QuorumDescribed { status } => Some(Ok(status.clone())),
            Event::CommandRefused { error, .. } => Some(Err(*error)),
            _ => None,
        })
    };
    c.until("an answer", 90_000, |c| found(c).is_some());
    found(c).expect("just seen")
}

fn ends(replicas: &[ReplicaStatus]) -> Vec<(String, Offset)> {
    replicas.iter().map(|replica| (replica.node.to_string(), replica.log_end_offset)).collect()
}

#[test]
fn one_three_or_five_voters_and_all_brokers_are_described() {
    for controllers in [1, 3, 5] {
        let mut c = quorum(controllers, &[]);
        c.run_ms(2_000);
        let status = describe(&mut c).expect("all is well");
        let active = c.world.active_controller().expect("one leads");
        let end = active.raft().log().end_offset();
        assert_eq!(status.leader, active.id());
        assert_eq!(Some(status.epoch), active.active_epoch().map(|epoch| epoch.0));
        assert_eq!(status.high_watermark, end);
        let voters: Vec<_> = (101..101 + controllers).map(|id| (format!("controller {id}"), end)).collect();
        assert_eq!(ends(&status.voters), voters);
        let observers: Vec<_> = (1..=3).map(|id| (format!("broker {id}"), end)).collect();
        assert_eq!(ends(&status.observers), observers);
        assert_eq!(status.max_follower_lag(), 0);
        let lag_ms = status.max_follower_lag_ms().expect("all have fetched");
        assert!((0..=600).contains(&lag_ms), "a fetch waits at most 500 ms: {lag_ms}");
    }
}

#[test]
fn a_dead_voter_stays_in_the_list_and_a_dead_observer_is_forgotten_after_five_minutes() {
    let mut c = quorum(3, &[]);
    let dead = c.leader();
    c.kill_controller(dead);
    c.kill(3);
    describe(&mut c).expect("another leads within a minute");
    c.run_ms(2_000);
    let status = describe(&mut c).expect("it leads");
    assert_ne!(status.leader, ControllerId(dead));
    let of_dead =
        *status.voters.iter().find(|voter| voter.node == ControllerId(dead).into()).expect("a voter");
    assert_eq!((of_dead.log_end_offset, of_dead.last_fetch_ms), (Offset::UNKNOWN, None));
    assert!(status.max_follower_lag() > status.high_watermark.0 && status.max_follower_lag_ms().is_none());
    assert_eq!(status.observers.len(), 2, "broker 3 has never fetched from this leader");
    c.kill(2);
    c.run_ms(280_000);
    assert_eq!(describe(&mut c).expect("it leads").observers.len(), 2, "broker 2 may be back soon");
    c.run_ms(30_000);
    let observers = describe(&mut c).expect("it leads").observers;
    assert_eq!(observers.iter().map(|o| o.node).collect::<Vec<_>>(), [BrokerId(1).into()]);
}

#[test]
fn without_a_majority_nobody_can_say() {
    let mut c = quorum(3, &[]);
    let first = c.leader();
    c.kill_controller(first);
    c.until("another leads", 10_000, |c| c.active().is_some());
    let second = c.leader();
    c.kill_controller(second);
    c.run_ms(4_000);
    assert_eq!(describe(&mut c), Err(ErrorCode::RequestTimedOut), "R-CTRL-9");
}
