//! Positions after a change of leader (KIP-320, R-CONS-32).

use super::*;

/// A consumer that has read t-0 up to offset 80, in epoch 5, when broker 2 becomes its leader in epoch 6.
fn after_a_change(config: &[(&str, &str)], epoch_end: (i32, i64)) -> Rig {
    let mut rig = Rig::joined(&["poll"], config);
    rig.deliver(1, &[(0, 0, 80)]);
    rig.events.clear();
    rig.epoch_end = Some(epoch_end);
    rig.held.insert(ApiKey::OffsetForLeaderEpoch);
    (rig.leaders, rig.leader_epoch) = (vec![2], 6);
    let error = partition_error(0, ErrorCode::NotLeaderOrFollower).with_current_leader(led_by(2, 6));
    rig.deliver_data(1, vec![error]);
    rig
}

/// Lets the leader tell where the epoch of the position ends; what the consumer tells then, and what it fetches.
fn check(title: &str, strategy: &str, epoch_end: (i32, i64), events: &[&str], position: i64) {
    let mut rig = after_a_change(&[("auto.offset.reset", strategy)], epoch_end);
    let Request::OffsetForLeaderEpoch(ask) = &*rig.pending(ApiKey::OffsetForLeaderEpoch).request else {
        unreachable!()
    };
    let asked = &ask.topics[0].partitions[0];
    assert_eq!((asked.current_leader_epoch, asked.leader_epoch, ask.replica_id.0), (6, 5, -1), "{title}");
    assert_eq!(rig.count(ApiKey::Fetch), 0, "{title}: it does not fetch meanwhile");
    rig.held.remove(&ApiKey::OffsetForLeaderEpoch);
    rig.settle();
    assert_eq!(std::mem::take(&mut rig.events), events, "{title}");
    if strategy != "none" {
        assert_eq!((rig.position(0), rig.fetching(2)), (position, vec![(0, position)]), "{title}");
    }
}

#[test]
fn a_new_leader_confirms_a_position_or_tells_where_the_histories_part_r_cons_32() {
    check("it has all that was read", "latest", (5, 80), &[], 80);
    check("and more", "latest", (5, 95), &[], 80);
    check("it was cut", "latest", (5, 50), &["0 was cut before 80: Some(50)"], 50);
    check("it has an older history", "earliest", (4, 70), &["0 was cut before 80: Some(70)"], 70);
    let reset = ["0 was cut before 80: None", "position of 0 is 0: Earliest"];
    check("it knows nothing of it", "earliest", (-1, -1), &reset, 0);
    let failed = ["0 was cut before 80: Some(50)", "failed: OFFSET_OUT_OF_RANGE", "gave up [0]: Closing"];
    check("without a strategy poll() throws", "none", (5, 50), &failed, 80);
}

#[test]
fn what_waits_for_its_validation_is_not_committed_r_cons_15() {
    let mut rig = after_a_change(&[], (5, 80));
    rig.close();
    assert!(!rig.events.iter().any(|event| event.contains("committed")), "{:?}", rig.events);
}

#[test]
fn a_committed_position_with_an_epoch_is_validated_before_its_first_fetch() {
    let mut rig = Rig::new(&["poll"], &[]);
    rig.committed.insert(0, 30);
    rig.committed_epoch = 4;
    rig.epoch_end = Some((4, 20));
    rig.start();
    assert_eq!(rig.fetching(1), [(0, 20)]);
    assert_eq!(
        rig.events[rig.events.len() - 2..],
        ["position of 0 is 30: Committed", "0 was cut before 30: Some(20)"]
    );
}

#[test]
fn a_leader_that_cannot_tell_is_asked_again_after_a_back_off() {
    let mut rig = after_a_change(&[], (5, 80));
    let ask = rig.pending(ApiKey::OffsetForLeaderEpoch);
    let topic = OffsetForLeaderTopicResult::default()
        .with_topic(m::TopicName(Topic::new("t").to_wire()))
        .with_partitions(vec![
            EpochEndOffset::default().with_error_code(ErrorCode::NotLeaderOrFollower.code()),
        ]);
    rig.answer(&ask, m::OffsetForLeaderEpochResponse::default().with_topics(vec![topic]));
    rig.settle();
    assert_eq!((rig.count(ApiKey::OffsetForLeaderEpoch), rig.count(ApiKey::Fetch)), (0, 0));
    rig.held.remove(&ApiKey::OffsetForLeaderEpoch);
    rig.run_until(150);
    assert_eq!(rig.fetching(2), [(0, 80)]);
}
