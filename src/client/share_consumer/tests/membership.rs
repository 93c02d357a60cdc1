//! A share consumer as a member of its group (R-SHARE-1, R-SHARE-2, R-CG8-17).

use super::*;

#[test]
fn a_member_says_what_it_subscribes_to_and_reads_what_it_is_given_r_share_1() {
    let mut rig = Rig::new(&["poll 1s"], &[("client.rack", "r1")]);
    rig.input(Input::Start);
    rig.settle();
    let first = rig.heartbeat();
    let names: Vec<&str> = first.subscribed_topic_names.iter().flatten().map(|name| name.as_str()).collect();
    assert_eq!((first.member_epoch, first.rack_id.as_deref(), names), (0, Some("r1"), vec!["t"]));
    rig.beat(in_epoch(1, Some(&[0])));
    rig.check_events(&["joins", "coordinator 2", "reads [0] in epoch 1"]);
    rig.run_until(5_000);
    let next = rig.heartbeat();
    assert_eq!((next.member_epoch, next.subscribed_topic_names, next.rack_id), (1, None, None));
}

#[test]
fn a_fenced_member_joins_again_under_its_id_r_cg8_17() {
    for error in [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId] {
        let mut rig = Rig::joined(&["poll 1s"], &[]);
        rig.run_until(5_000);
        let id = rig.heartbeat().member_id;
        rig.beat(refused(error));
        rig.check_events(&["left [0]: Lost", "joins"]);
        rig.run_until(5_500);
        assert_eq!((rig.heartbeat().member_id, rig.heartbeat().member_epoch), (id, 0));
    }
}

#[test]
fn what_is_fatal_ends_the_program_in_its_next_poll_r_cg8_17() {
    let mut rig = Rig::joined(&["poll 1s", "process 10s"], &[]);
    rig.deliver(vec![records(0, 0, 1)]);
    rig.run_until(5_000);
    rig.beat(refused(ErrorCode::GroupMaxSizeReached));
    rig.check_events(&["got 0 of 0", "left [0]: Lost"]);
    rig.run_until(10_010);
    rig.check_events(&["processed 0@0", "failed: GROUP_MAX_SIZE_REACHED"]);
}

#[test]
fn a_topic_that_cannot_be_is_thrown_by_the_next_poll_and_not_into_the_work() {
    let mut rig = Rig::joined(&["poll 1s", "process 10s"], &[("metadata.max.age.ms", "1000")]);
    rig.deliver(vec![records(0, 0, 1)]);
    rig.topic_is_invalid = true;
    rig.run_until(9_000);
    rig.check_events(&["got 0 of 0"]);
    rig.run_until(10_010);
    rig.check_events(&["processed 0@0", "failed: INVALID_TOPIC_EXCEPTION"]);
}

#[test]
fn too_long_between_polls_the_member_leaves_and_comes_back_with_the_next_poll_r_cons_25() {
    let mut rig = Rig::joined(&["poll 1s", "process 9s"], &[("max.poll.interval.ms", "4000")]);
    rig.deliver(vec![records(0, 0, 1)]);
    rig.run_until(4_010);
    rig.check_events(&["got 0 of 0", "left [0]: Lost"]);
    assert_eq!(rig.heartbeat().member_epoch, -1);
    rig.beat(in_epoch(-1, None));
    rig.run_until(8_900);
    assert_eq!(rig.count(BEAT), 0, "it stays away until it polls");
    rig.run_until(9_010);
    assert_eq!(rig.heartbeat().member_epoch, 0);
}
