//! Reading from a follower in the own rack (KIP-392, R-REPL-62, R-REPL-64).

use super::*;

fn told_to_read_from(replica: i32) -> PartitionData {
    data_of(0, &[]).with_preferred_read_replica(m::BrokerId(replica))
}

/// A consumer in rack b, whose leader, broker 1, told it to read from broker 2.
fn reading_from_2() -> Rig {
    let mut rig = Rig::joined(
        &["poll"],
        &[("client.rack", "b"), ("metadata.max.age.ms", "5000"), ("enable.auto.commit", "false")],
    );
    let Request::Fetch(fetch) = &*rig.fetch_at(1).request else { unreachable!() };
    assert_eq!(fetch.rack_id.as_str(), "b");
    rig.deliver_data(1, vec![told_to_read_from(2)]);
    rig.check_events(&["0 is read from 2 in b"]);
    rig
}

#[test]
fn the_replica_that_the_leader_names_is_fetched_from_r_repl_62() {
    let mut rig = reading_from_2();
    let Request::Fetch(fetch) = &*rig.fetch_at(2).request else { unreachable!() };
    assert_eq!((rig.fetching(2), rig.count(ApiKey::Fetch)), (vec![(0, 0)], 1));
    assert_eq!(fetch.topics[0].partitions[0].current_leader_epoch, 5);
    rig.deliver(2, &[(0, 0, 5)]);
    assert_eq!((rig.position(0), rig.fetching(2)), (5, vec![(0, 5)]));
}

#[test]
fn after_metadata_max_age_the_leader_is_asked_again_r_repl_64() {
    let mut rig = reading_from_2();
    rig.run_until(4_900);
    assert_eq!((rig.fetching(2), rig.count(ApiKey::Fetch)), (vec![(0, 0)], 1));
    rig.run_until(5_600);
    assert_eq!((rig.fetching(1), rig.count(ApiKey::Fetch)), (vec![(0, 0)], 1));
    rig.deliver_data(1, vec![told_to_read_from(2)]);
    rig.check_events(&[]);
    assert_eq!(rig.fetching(2), [(0, 0)], "the same again is no news");
}

/// R-REPL-65.
#[test]
fn a_follower_that_fails_is_left_for_the_leader_r_repl_64() {
    for error in [ErrorCode::OffsetOutOfRange, ErrorCode::NotLeaderOrFollower] {
        let mut rig = reading_from_2();
        rig.deliver_data(2, vec![partition_error(0, error)]);
        rig.run_until(200);
        assert_eq!((rig.fetching(1), rig.position(0)), (vec![(0, 0)], 0), "{error}: no reset");
        rig.check_events(&[]);
    }
    let mut rig = reading_from_2();
    rig.cut(2, Channel::Main);
    assert_eq!(rig.fetching(1), [(0, 0)], "a lost connection");
    let mut rig = reading_from_2();
    rig.down.insert(2);
    rig.run_until(5_000);
    assert_eq!(rig.fetching(1), [(0, 0)], "a replica that metadata shows offline");
}

#[test]
fn a_replica_is_left_only_when_a_fetch_could_be_sent_r_repl_64() {
    let mut rig = Rig::joined(
        &["poll", "process 1s"],
        &[
            ("client.rack", "b"),
            ("metadata.max.age.ms", "2500"),
            ("enable.auto.commit", "false"),
            ("max.poll.records", "2"),
        ],
    );
    rig.deliver_data(1, vec![told_to_read_from(2)]);
    rig.deliver(2, &[(0, 0, 6)]);
    let preferred = |rig: &Rig| rig.consumer.subscription().owned()[&tp(0)].preferred.map(|(id, _)| id);
    // The second poll, at 2 s, leaves two records; the third, at 4 s, takes them, and the fourth, at 6 s, finds none.
    rig.run_until(4_500);
    assert_eq!((rig.position(0), preferred(&rig)), (6, Some(BrokerId(2))));
    rig.run_until(6_100);
    assert_eq!((preferred(&rig), rig.fetching(1)), (None, vec![(0, 6)]));
}
