//! Committed offsets: when they are told, and what happens to a write that fails.

use glassbroker::kafka::event::{Event, GroupEvent};
use glassbroker::kafka::protocol::{ErrorCode, Response};
use glassbroker::kafka::types::{ClientName, Offset};
use kafka_protocol::messages as m;

use super::cluster::{Log, orders};
use super::member::{Member, commit, commit_error, committed, fetch, fetch_all, fetched, quick, stable};

/// R-INT-4.
#[test]
fn a_commit_is_answered_when_its_record_is_below_the_high_watermark_r_grp_4() {
    let (mut cluster, members) = stable(&["a"]);
    cluster.log = Log::Stalls;
    let first = commit(&mut cluster, &members[0], 0, 10);
    let second = commit(&mut cluster, &members[0], 0, 20);
    assert_eq!((cluster.answer(first), committed(&cluster, 0)), (None, None));
    assert!(cluster.events.is_empty());
    cluster.catch_up();
    for request in [first, second] {
        let answer = cluster.answer(request).expect("answered");
        let Response::OffsetCommit(body) = answer.as_ref() else { panic!("{answer:?}") };
        assert_eq!(body.topics[0].partitions[0].error_code, 0);
    }
    assert_eq!(committed(&cluster, 0), Some(20));
    let told = cluster.events.iter().map(|event| match event {
        Event::Group(GroupEvent::OffsetCommitted { tp, offset, client, .. }) => {
            (tp.clone(), *offset, client.clone())
        }
        other => panic!("{other:?}"),
    });
    let a = ClientName::new("a");
    let expected = [(orders(0), Offset(10), a.clone()), (orders(0), Offset(20), a)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_stable_fetch_waits_for_offsets_in_flight_and_another_reads_past_them_r_grp_39() {
    let (mut cluster, members) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    cluster.log = Log::Stalls;
    commit(&mut cluster, &members[0], 0, 20);
    let waiting = fetch(&mut cluster, &[0, 1], true);
    let reading = fetch(&mut cluster, &[0, 1], false);
    assert_eq!(fetched(&mut cluster, reading), Some(vec![(0, 10), (1, -1)]));
    assert_eq!(fetched(&mut cluster, waiting), None);
    cluster.catch_up();
    assert_eq!(fetched(&mut cluster, waiting), Some(vec![(0, 20), (1, -1)]));
}

#[test]
fn a_fetch_without_topics_gives_every_committed_offset_r_grp_39() {
    let (mut cluster, members) = stable(&["a"]);
    for (partition, offset) in [(2, 30), (0, 10)] {
        assert_eq!(commit_error(&mut cluster, &members[0], partition, offset), ErrorCode::None);
    }
    let request = fetch_all(&mut cluster);
    assert_eq!(fetched(&mut cluster, request), Some(vec![(0, 10), (2, 30)]));
}

#[test]
fn partitions_are_refused_one_by_one_r_grp_38() {
    let (mut cluster, members) = stable(&["a"]);
    let partition = |index: i32, metadata: String| {
        m::offset_commit_request::OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(5)
            .with_committed_metadata(Some(metadata.into()))
    };
    let topic = |name: &'static str, partitions| {
        m::offset_commit_request::OffsetCommitRequestTopic::default()
            .with_name(m::TopicName(name.into()))
            .with_partitions(partitions)
    };
    let request = members[0].commit_request(vec![
        topic("nowhere", vec![partition(0, String::new())]),
        topic(
            "orders",
            vec![
                partition(0, "ü".repeat(4_096)),
                partition(1, "x".repeat(4_097)),
                partition(9, String::new()),
            ],
        ),
    ]);
    let request = cluster.send("a", request);
    let answer = cluster.answer(request).expect("answered");
    let Response::OffsetCommit(body) = answer.as_ref() else { panic!("{answer:?}") };
    let codes = body.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|p| (p.partition_index, ErrorCode::from_code(p.error_code)))
    });
    let expected = [
        (0, ErrorCode::UnknownTopicOrPartition),
        (9, ErrorCode::UnknownTopicOrPartition),
        (0, ErrorCode::None),
        (1, ErrorCode::OffsetMetadataTooLarge),
    ];
    assert_eq!(codes.collect::<Vec<_>>(), expected);
    assert_eq!(committed(&cluster, 0), Some(5));
}

#[test]
fn a_commit_that_the_log_refuses_is_taken_back_r_grp_3() {
    let check = |log: ErrorCode, told: ErrorCode| {
        let (mut cluster, members) = stable(&["a"]);
        assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
        cluster.log = Log::Refuses(log);
        assert_eq!(commit_error(&mut cluster, &members[0], 0, 20), told);
        let refused = cluster
            .events
            .iter()
            .any(|event| matches!(event, Event::Group(GroupEvent::CommitRefused { .. })));
        assert!(refused, "{:?}", cluster.events);
        cluster.log = Log::Commits;
        let request = fetch(&mut cluster, &[0], true);
        assert_eq!(fetched(&mut cluster, request), Some(vec![(0, 10)]));
    };
    check(ErrorCode::NotEnoughReplicas, ErrorCode::CoordinatorNotAvailable);
    check(ErrorCode::NotLeaderOrFollower, ErrorCode::NotCoordinator);
    check(ErrorCode::RecordListTooLarge, ErrorCode::UnknownServerError);
}

#[test]
fn a_commit_that_is_not_safe_in_time_is_told_so_though_it_may_still_hold_r_grp_3() {
    let (mut cluster, members) = stable(&["a"]);
    cluster.log = Log::Stalls;
    let request = commit(&mut cluster, &members[0], 0, 10);
    cluster.sleep(4_999);
    assert_eq!(cluster.answer(request), None);
    cluster.sleep(1);
    let answer = cluster.answer(request).expect("answered");
    let Response::OffsetCommit(body) = answer.as_ref() else { panic!("{answer:?}") };
    let error = ErrorCode::from_code(body.topics[0].partitions[0].error_code);
    assert_eq!(error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(committed(&cluster, 0), None);
    cluster.catch_up();
    assert_eq!(committed(&cluster, 0), Some(10));
}

#[test]
fn each_group_of_a_fetch_is_answered_for_itself_r_grp_39() {
    let (mut cluster, members) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    cluster.log = Log::Stalls;
    commit(&mut cluster, &members[0], 0, 20);
    let asked = |id: &'static str| {
        let group = m::offset_fetch_request::OffsetFetchRequestGroup::default();
        group.with_group_id(m::GroupId(id.into())).with_topics(None)
    };
    let request = m::OffsetFetchRequest::default()
        .with_groups(vec![asked("elsewhere"), asked("g")])
        .with_require_stable(true);
    let request = cluster.send("a", request);
    assert_eq!(cluster.answer(request), None);
    cluster.catch_up();
    let answer = cluster.answer(request).expect("answered once both are known");
    let Response::OffsetFetch(body) = answer.as_ref() else { panic!("{answer:?}") };
    let told =
        body.groups.iter().map(|group| (group.group_id.as_str(), ErrorCode::from_code(group.error_code)));
    assert_eq!(told.collect::<Vec<_>>(), [("elsewhere", ErrorCode::NotCoordinator), ("g", ErrorCode::None)]);
}

/// `offsets.retention.minutes`; it is looked at every ten minutes.
const DAY_MS: i64 = 24 * 3_600_000;
const WEEK_MS: i64 = 7 * DAY_MS;
/// Within a session of the members of `stable`.
const HEARTBEAT_MS: i64 = 30_000;

#[test]
fn the_offsets_of_an_empty_group_and_the_group_are_forgotten_after_a_week_r_grp_40() {
    let (mut cluster, mut members) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    members[0].leave(&mut cluster);
    cluster.sleep(WEEK_MS - 1);
    assert_eq!(committed(&cluster, 0), Some(10));
    cluster.events.clear();
    cluster.sleep(600_000);
    assert_eq!((committed(&cluster, 0), cluster.group().is_none()), (None, true));
    let expired = |event: &Event| matches!(event, Event::Group(GroupEvent::OffsetExpired { tp, .. }) if *tp == orders(0));
    assert!(cluster.events.iter().any(expired), "{:?}", cluster.events);
    cluster.fail_over();
    cluster.load();
    assert_eq!((committed(&cluster, 0), cluster.group().is_none()), (None, true));
}

#[test]
fn a52_a_classic_groups_week_begins_when_its_last_member_goes_r_grp_40() {
    let (mut cluster, mut members) = stable(&["a"]);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 10), ErrorCode::None);
    // One more day than the offsets are kept, without a commit.
    for _ in 0..=(WEEK_MS + DAY_MS) / HEARTBEAT_MS {
        cluster.sleep(HEARTBEAT_MS);
        assert_eq!(members[0].heartbeat(&mut cluster), ErrorCode::None);
    }
    members[0].leave(&mut cluster);
    cluster.sleep(WEEK_MS - 1);
    assert_eq!(committed(&cluster, 0), Some(10), "two weeks after the commit");
    cluster.sleep(600_000);
    assert_eq!(committed(&cluster, 0), None);
}

#[test]
fn a45_who_is_no_member_commits_only_while_the_group_is_empty_r_grp_36() {
    let (mut cluster, mut members) = stable(&["a"]);
    let outsider = Member::new("outsider");
    assert_eq!(commit_error(&mut cluster, &outsider, 0, 7), ErrorCode::UnknownMemberId);
    assert_eq!(committed(&cluster, 0), None);
    assert_eq!(commit_error(&mut cluster, &members[0], 0, 40), ErrorCode::None);
    members[0].leave(&mut cluster);
    assert_eq!(commit_error(&mut cluster, &outsider, 0, 7), ErrorCode::None);
    assert_eq!(committed(&cluster, 0), Some(7), "what was there is overwritten");
}

#[test]
fn a_group_without_members_and_offsets_is_gone_at_the_next_look_r_grp_40() {
    let (mut cluster, mut members) = stable(&["a"]);
    members[0].leave(&mut cluster);
    cluster.log = Log::Refuses(ErrorCode::NotEnoughReplicas);
    cluster.sleep(600_000);
    assert!(cluster.group().is_some(), "the deletion could not be written");
    cluster.log = Log::Commits;
    cluster.sleep(600_000);
    assert!(cluster.group().is_none());
}

#[test]
fn a_stable_group_keeps_the_offsets_of_what_it_consumes_r_grp_40() {
    let check = |topics: &[&str], kept: Option<i64>| {
        let mut cluster = quick();
        let mut a = Member::new("a");
        a.subscribe(topics);
        a.session_timeout_ms = 1_800_000;
        a.join(&mut cluster);
        cluster.sleep(0);
        assert_eq!(a.joined(&mut cluster), ErrorCode::None);
        a.sync(&mut cluster, &[]);
        assert_eq!(commit_error(&mut cluster, &a, 0, 10), ErrorCode::None);
        for _ in 0..=WEEK_MS / 600_000 {
            cluster.sleep(600_000);
            assert_eq!(a.heartbeat(&mut cluster), ErrorCode::None);
        }
        assert_eq!(committed(&cluster, 0), kept, "{topics:?}");
    };
    check(&["orders"], Some(10));
    check(&["clicks"], None);
}

/// R-CONS-16, R-GRP-37.
#[test]
fn a_commit_may_go_back_and_name_a_partition_that_another_member_owns() {
    let (mut cluster, members) = stable(&["a", "b"]);
    for offset in [10, 3, 1_000_000] {
        assert_eq!(commit_error(&mut cluster, &members[0], 0, offset), ErrorCode::None);
        assert_eq!(committed(&cluster, 0), Some(offset), "the last one counts");
    }
    assert_eq!(commit_error(&mut cluster, &members[0], 1, 7), ErrorCode::None, "b owns it");
    assert_eq!(committed(&cluster, 1), Some(7));
}
