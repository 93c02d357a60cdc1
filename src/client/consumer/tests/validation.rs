//! Positions after a change of leader (KIP-320, R-CONS-32).

use super::*;

/// The position of a partition that is not owned any more.
const GIVEN_UP: i64 = -1;

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
    assert_eq!(rig.position(0), position, "{title}");
    match position {
        GIVEN_UP => assert_eq!(rig.count(ApiKey::Fetch), 0, "{title}"),
        _ => assert_eq!(rig.fetching(2), [(0, position)], "{title}"),
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
    check("without a strategy poll() throws", "none", (5, 50), &failed, GIVEN_UP);
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
    refuse_validation(&mut rig, 0);
    assert_eq!((rig.count(ApiKey::OffsetForLeaderEpoch), rig.count(ApiKey::Fetch)), (0, 0));
    rig.held.remove(&ApiKey::OffsetForLeaderEpoch);
    rig.run_until(150);
    assert_eq!(rig.fetching(2), [(0, 80)]);
}

/// A consumer at offset 80 of t-0 and t-1 in epoch 5, whose fetch of t-0 at broker 1 is on its way while broker 2, which
/// leads both by now, is asked to confirm the positions.
fn validating_with_a_fetch_on_its_way(config: &[(&str, &str)]) -> Rig {
    let mut rig = Rig::new(&["poll"], config);
    rig.leaders = vec![1, 3];
    rig.committed = BTreeMap::from([(0, 80), (1, 80)]);
    rig.committed_epoch = 5;
    rig.start();
    rig.held.insert(ApiKey::OffsetForLeaderEpoch);
    (rig.leaders, rig.leader_epoch) = (vec![2, 2], 6);
    let error = partition_error(1, ErrorCode::NotLeaderOrFollower).with_current_leader(led_by(2, 6));
    rig.deliver_data(3, vec![error]);
    refuse_validation(&mut rig, 1);
    rig.run_until(150);
    let state = rig.consumer.subscription().owned()[&tp(0)].state;
    assert!(matches!(state, FetchState::AwaitValidation { .. }), "{state:?}");
    assert_eq!(rig.fetching(1), [(0, 80)]);
    rig.events.clear();
    rig
}

/// The leader cannot tell where the epoch of a position ends.
fn refuse_validation(rig: &mut Rig, partition: i32) {
    let ask = rig.pending(ApiKey::OffsetForLeaderEpoch);
    let error = ErrorCode::NotLeaderOrFollower.code();
    let topic = OffsetForLeaderTopicResult::default()
        .with_topic(m::TopicName(Topic::new("t").to_wire()))
        .with_partitions(vec![EpochEndOffset::default().with_partition(partition).with_error_code(error)]);
    rig.answer(&ask, m::OffsetForLeaderEpochResponse::default().with_topics(vec![topic]));
    rig.settle();
}

#[test]
fn what_an_old_leader_answers_during_a_validation_is_dropped_r_cons_32() {
    let mut damaged = BytesMut::from(&batch(80, 82)[..]);
    let value = damaged.len() - 2;
    damaged[value] ^= 1;
    let answers = [
        partition_error(0, ErrorCode::OffsetOutOfRange),
        partition_error(0, ErrorCode::TopicAuthorizationFailed),
        data_of(0, &[damaged.freeze()]),
        data_of(0, &[]).with_preferred_read_replica(m::BrokerId(3)),
        data_of(0, &[]).with_high_watermark(500).with_log_start_offset(20),
    ];
    for strategy in ["latest", "none"] {
        for answer in &answers {
            let mut rig = validating_with_a_fetch_on_its_way(&[("auto.offset.reset", strategy)]);
            let before = rig.consumer.subscription().owned()[&tp(0)];
            rig.deliver_data(1, vec![answer.clone()]);
            rig.check_events(&[]);
            let after = rig.consumer.subscription().owned()[&tp(0)];
            assert_eq!((after.state, after.preferred), (before.state, None), "{strategy}: {answer:?}");
            assert_eq!(
                (after.high_watermark, after.log_start_offset),
                (before.high_watermark, before.log_start_offset)
            );
            rig.held.remove(&ApiKey::OffsetForLeaderEpoch);
            rig.settle();
            // t-1 was asked for before t-0, and is fetched before it.
            rig.deliver_data(2, Vec::new());
            let order = if answer.error_code == 0 { [0, 1] } else { [1, 0] };
            assert_eq!(rig.fetching(2), order.map(|partition| (partition, 80)), "{strategy}: {answer:?}");
        }
    }
}

#[test]
fn a_leader_that_is_named_is_to_confirm_the_position_at_once_r_repl_67() {
    let mut rig = Rig::joined(&["poll", "process 20ms"], &[]);
    rig.deliver(1, &[(0, 0, 5)]);
    let error = partition_error(0, ErrorCode::NotLeaderOrFollower).with_current_leader(led_by(2, 6));
    rig.deliver_data(1, vec![error]);
    assert!(matches!(rig.consumer.program().activity(), Activity::Processing { .. }));
    let owned = rig.consumer.subscription().owned()[&tp(0)];
    assert!(matches!(owned.state, FetchState::AwaitValidation { .. }), "{:?}", owned.state);
    assert_eq!(owned.leader, Some((BrokerId(2), LeaderEpoch(6))));
}

#[test]
fn a_leader_that_is_named_leaves_no_metadata_to_be_asked_for_r_repl_67() {
    let mut rig = after_a_change(&[], (5, 80));
    rig.held.insert(ApiKey::Metadata);
    rig.run_until(200);
    assert_eq!((rig.count(ApiKey::Metadata), rig.count(ApiKey::OffsetForLeaderEpoch)), (0, 1));
    rig.held.remove(&ApiKey::OffsetForLeaderEpoch);
    rig.settle();
    assert_eq!((rig.count(ApiKey::Metadata), rig.fetching(2)), (0, vec![(0, 80)]));
}
