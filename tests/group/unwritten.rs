//! Members of the newer protocols who are gone while their coordinator cannot write (`CoordinatorTimerImpl` with retry,
//! `consumerGroupFenceMember`).

use glassbroker::kafka::event::{Event, GroupEvent, MemberRemoval};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::MemberId;

use super::cluster::{Cluster, Log};
use super::consumer::{group, hears, heartbeat, joining, two_members};
use super::migration::mixed;
use super::share;

const NOT_ENOUGH: Log = Log::Refuses(ErrorCode::NotEnoughReplicas);

/// Who was kept, and why he was to go.
fn kept(cluster: &Cluster) -> Vec<(&str, MemberRemoval)> {
    let kept = |event: &'_ Event| match event {
        Event::Group(GroupEvent::MemberKept { member, reason, error, .. }) => {
            assert_eq!(*error, ErrorCode::NotEnoughReplicas);
            Some((member.as_str().to_owned(), *reason))
        }
        _ => None,
    };
    let names = ["a", "b"];
    let of = |(member, reason): (String, MemberRemoval)| {
        (names.into_iter().find(|name| member.starts_with(name)).expect("a member"), reason)
    };
    cluster.events.iter().filter_map(kept).map(of).collect()
}

fn removed(cluster: &Cluster) -> usize {
    let is_removal = |event: &&Event| matches!(event, Event::Group(GroupEvent::MemberRemoved { .. }));
    cluster.events.iter().filter(is_removal).count()
}

fn members(cluster: &Cluster) -> Vec<&str> {
    group(cluster).base.members.keys().map(MemberId::as_str).collect()
}

#[test]
fn who_is_silent_goes_as_soon_as_that_can_be_written_r_cg8_14() {
    let mut cluster = two_members();
    cluster.sleep(44_000);
    assert!(hears(&mut cluster, heartbeat("a", 3)).is_ok());
    cluster.log = NOT_ENOUGH;
    cluster.sleep(2_100);
    assert_eq!(members(&cluster), ["a", "b"]);
    assert_eq!(kept(&cluster), [("b", MemberRemoval::SessionExpired); 3], "at 45, 45.5 and 46 s");
    assert_eq!(removed(&cluster), 0, "nobody is told what did not happen");
    cluster.log = Log::Commits;
    cluster.sleep(500);
    assert_eq!(members(&cluster), ["a"]);
    assert_eq!((kept(&cluster).len(), removed(&cluster)), (3, 1));
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((4, Some(vec![0, 1, 2]))));
}

/// Its timers end before the write fails, and nothing brings them back.
#[test]
fn nobody_looks_after_who_left_while_that_could_not_be_written_until_another_coordinates_r_cg8_14() {
    let mut cluster = two_members();
    cluster.log = NOT_ENOUGH;
    assert_eq!(hears(&mut cluster, heartbeat("b", -1)), Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(kept(&cluster), [("b", MemberRemoval::Left)]);
    cluster.log = Log::Commits;
    for _ in 0..5 {
        cluster.sleep(40_000);
        assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((3, None)));
    }
    assert_eq!(members(&cluster), ["a", "b"]);
    cluster.fail_over();
    cluster.load();
    cluster.sleep(44_000);
    assert_eq!(hears(&mut cluster, heartbeat("a", 3)), Ok((3, None)));
    cluster.sleep(1_000);
    assert_eq!(members(&cluster), ["a"]);
}

/// The write takes longer than offsets.commit.timeout.ms: the timer is set anew, and that of a member that has come back
/// meanwhile is lost.
#[test]
fn a_removal_that_takes_too_long_to_be_safe_is_tried_again_on_whoever_came_back_r_cg8_14() {
    let mut cluster = two_members();
    cluster.sleep(44_000);
    assert!(hears(&mut cluster, heartbeat("a", 3)).is_ok());
    cluster.log = Log::Stalls;
    cluster.sleep(2_000);
    assert_eq!(members(&cluster), ["a"]);
    cluster.send("client", joining("b"));
    assert_eq!(members(&cluster), ["a", "b"]);
    cluster.sleep(4_400);
    assert_eq!(members(&cluster), ["a", "b"], "it is 5.4 s since the session ended");
    cluster.sleep(200);
    assert_eq!(members(&cluster), ["a"]);
}

#[test]
fn a_group_that_was_to_become_classic_keeps_its_deadlines_if_that_cannot_be_written_r_cg8_25() {
    let (mut cluster, classic) = mixed();
    cluster.sleep(20_000);
    assert_eq!(classic.heartbeat(&mut cluster), ErrorCode::None);
    let before = group(&cluster).deadlines.clone();
    cluster.log = NOT_ENOUGH;
    assert_eq!(hears(&mut cluster, heartbeat("b", -1)), Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(kept(&cluster), [("b", MemberRemoval::Left)]);
    assert_eq!(group(&cluster).deadlines, before);
    let conversions = cluster.events.iter().filter_map(|event| match event {
        Event::Group(GroupEvent::GroupConverted { classic, .. }) => Some(*classic),
        _ => None,
    });
    assert_eq!(conversions.collect::<Vec<_>>(), [false, true, false]);
    cluster.log = Log::Commits;
    cluster.sleep(24_999);
    assert_eq!(group(&cluster).base.members.len(), 2);
    cluster.sleep(1);
    assert!(cluster.group().is_some(), "its session is over, and the classic member is left");
}

#[test]
fn a_silent_member_of_a_share_group_goes_as_soon_as_that_can_be_written_r_share_1() {
    let mut cluster = share::one_member();
    cluster.log = NOT_ENOUGH;
    cluster.sleep(46_000);
    let members =
        |cluster: &Cluster| cluster.coordinator.share_groups().map(|g| g.base.members.len()).sum::<usize>();
    assert_eq!(members(&cluster), 1);
    assert_eq!(kept(&cluster), [("a", MemberRemoval::SessionExpired); 3]);
    cluster.log = Log::Commits;
    cluster.sleep(500);
    assert_eq!(members(&cluster), 0);
    assert_eq!(share::hears(&mut cluster, share::heartbeat("a", 3)), Err(ErrorCode::UnknownMemberId));
}
