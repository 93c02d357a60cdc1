//! What administrators are told of the group's offsets, and have forgotten (R-SHARE-3, 15).

use super::lab::{GROUP, Lab, connection_of};
use super::member::Member;
use crate::kafka::protocol::ErrorCode;
use crate::kafka::share::ShareKey;
use crate::kafka::types::{BrokerId, GroupId};

use super::lab::TOPIC;

const EARLIEST: &[(&str, &str)] =
    &[("share.auto.offset.reset", "earliest"), ("share.heartbeat.interval.ms", "1000")];

/// A member that has accepted the first two of five records, and is still there.
fn worked() -> (Lab, Member) {
    let mut lab = Lab::with_partitions(1, EARLIEST);
    lab.produce([2, 3]);
    let mut member = Member::new("a");
    member.is_in_group = true;
    member.connection = connection_of(2);
    lab.join("a");
    assert_eq!(member.poll(&mut lab, 3000).map(|records| records.len()), Ok(5));
    member.acknowledge(1, &[0, 1]).expect("it holds them");
    assert_eq!(member.commit(&mut lab), Some(ErrorCode::None));
    (lab, member)
}

#[test]
fn lag_is_what_lies_behind_the_start_and_is_not_done_r_share_3() {
    let (mut lab, _) = worked();
    let group = lab.describe_offsets(Some(&[("t", &[0, 7]), ("gone", &[1])]));
    assert_eq!((group.error_code, group.topics.len()), (0, 2));
    let of = |topic: usize, partition: usize| {
        let told = &group.topics[topic].partitions[partition];
        (told.partition_index, told.start_offset, told.leader_epoch, told.lag, told.error_code)
    };
    // Two of five are done, and the start that was persisted is the one before that.
    assert_eq!(of(0, 0), (0, 0, 0, 3, 0));
    assert_eq!(of(0, 1), (7, -1, 0, -1, 0), "no such partition, and that is no error");
    assert_eq!(of(1, 0), (1, -1, 0, -1, 0), "no such topic");
    assert_eq!(lab.describe_offsets(Some(&[])).topics, []);
}

#[test]
fn a_group_that_nobody_knows_has_no_offsets() {
    let mut lab = Lab::with_partitions(1, EARLIEST);
    let group = lab.describe_offsets(None);
    assert_eq!((group.error_code, group.topics), (0, vec![]));
}

#[test]
fn a_leader_that_cannot_be_reached_is_an_error_of_its_partition_r_share_3() {
    let (mut lab, _) = worked();
    lab.move_leader(BrokerId(2));
    let started = lab.now;
    let group = lab.describe_offsets(None);
    let partition = &group.topics[0].partitions[0];
    assert_eq!(ErrorCode::from_code(partition.error_code), ErrorCode::NetworkException);
    let waited_ms = lab.now.ms_since(started);
    assert!((40_000..80_000).contains(&waited_ms), "it was asked six times: {waited_ms} ms");
}

#[test]
fn offsets_are_forgotten_once_nobody_is_in_the_group_r_share_15() {
    let (mut lab, mut member) = worked();
    assert_eq!(lab.delete_offsets(&["t"]), (ErrorCode::NonEmptyGroup, vec![]));
    member.close(&mut lab);
    let told = |name: &str, error| (name.to_string(), error);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let expected = vec![told("t", ErrorCode::None), told("gone", unknown)];
    assert_eq!(lab.delete_offsets(&["gone", "t"]), (ErrorCode::None, expected));
    let key = ShareKey { group: GroupId::new(GROUP), topic_id: TOPIC, partition: 0 };
    assert!(lab.broker.share_states().state(&key).is_none());
    assert_eq!(lab.describe_offsets(None).topics, []);
    assert_eq!(lab.delete_offsets(&["t"]), (ErrorCode::None, vec![told("t", unknown)]), "it is gone");

    // Whoever comes next begins anew.
    let mut next = Member::new("b");
    next.is_in_group = true;
    next.connection = connection_of(3);
    lab.join("b");
    let records = (0..5).map(|offset| (offset, 1)).collect();
    assert_eq!(next.poll(&mut lab, 3000), Ok(records));
}

#[test]
fn what_cannot_be_forgotten_is_tried_again_r_share_15() {
    let (mut lab, mut member) = worked();
    member.close(&mut lab);
    lab.move_states(BrokerId(2));
    let failed = vec![("t".to_string(), ErrorCode::NetworkException)];
    assert_eq!(lab.delete_offsets(&["t"]), (ErrorCode::None, failed));
    lab.move_states(BrokerId(1));
    lab.run_for(100);
    let done = vec![("t".to_string(), ErrorCode::None)];
    assert_eq!(lab.delete_offsets(&["t"]), (ErrorCode::None, done));
}

#[test]
fn a_group_that_is_not_there_forgets_nothing() {
    let mut lab = Lab::with_partitions(1, EARLIEST);
    assert_eq!(lab.delete_offsets(&["t"]), (ErrorCode::GroupIdNotFound, vec![]));
}
