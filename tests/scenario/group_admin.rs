//! What an administrator does to groups: listing, describing, deleting, forgetting offsets, resetting them.

use glassbroker::kafka::event::{
    DescribedGroup, Event, GroupEvent, GroupPosition, GroupState, GroupsTold, OffsetReset, ResetNote,
};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::kafka::types::{BrokerId, ClientName, GroupId, Offset};
use glassbroker::lab::command::{Written, parse};
use glassbroker::sim::Command;

use crate::dsl::{Cluster, cluster, tp};

const EARLIEST: &[(&str, &str)] = &[("auto.offset.reset", "earliest")];

/// Gives a command by its text and returns the first event from then on that `find` takes.
pub fn order<T>(c: &mut Cluster, text: &str, find: impl Fn(&Event) -> Option<T>) -> T {
    let seen = c.world.trace().len_ever();
    match parse(text) {
        Ok(Written::Whole(command)) => c.give(command),
        other => panic!("{text} is read as {other:?}"),
    }
    let found = |c: &Cluster| c.world.trace().since(seen).find_map(|entry| find(&entry.event));
    c.until(text, 70_000, |c| found(c).is_some());
    found(c).expect("just seen")
}

pub fn refusal(event: &Event) -> Option<(ErrorCode, String)> {
    match event {
        Event::CommandRefused { error, message, .. } => Some((*error, message.clone())),
        _ => None,
    }
}

/// The plan of a reset, as `t-0 5`; what is not as it was asked for has a mark.
pub fn reset(c: &mut Cluster, text: &str) -> Vec<String> {
    let one = |reset: &OffsetReset| match reset.note {
        ResetNote::AsAsked => format!("{} {}", reset.tp, reset.to),
        ResetNote::Clamped(asked) => format!("{} {} for {asked}", reset.tp, reset.to),
        ResetNote::End => format!("{} {} end", reset.tp, reset.to),
    };
    order(c, text, |event| match event {
        Event::GroupsTold { told: GroupsTold::Reset { offsets, .. } } => {
            Some(offsets.iter().map(one).collect())
        }
        Event::CommandRefused { message, .. } => panic!("{text}: {message}"),
        _ => None,
    })
}

pub fn listed(c: &mut Cluster) -> Vec<String> {
    listed_by(c, "list groups")
}

fn listed_by(c: &mut Cluster, text: &str) -> Vec<String> {
    order(c, text, |event| match event {
        Event::GroupsTold { told: GroupsTold::List(groups) } => {
            Some(groups.iter().map(|g| format!("{} {} {}", g.group, g.kind, g.state)).collect())
        }
        _ => None,
    })
}

pub fn described(c: &mut Cluster, group: &str) -> DescribedGroup {
    order(c, &format!("describe group {group}"), |event| match event {
        Event::GroupsTold { told: GroupsTold::Group(described) } => Some(described.clone()),
        _ => None,
    })
}

fn committed(c: &Cluster, partition: &str) -> Option<i64> {
    let newest = c.events().rev().find_map(|event| match event {
        Event::Group(GroupEvent::OffsetCommitted { tp: of, offset, .. }) if *of == tp(partition) => {
            Some(Some(offset.0))
        }
        Event::Group(GroupEvent::OffsetDeleted { tp: of, .. })
        | Event::Group(GroupEvent::OffsetDropped { tp: of, .. })
            if *of == tp(partition) =>
        {
            Some(None)
        }
        _ => None,
    });
    newest.flatten()
}

/// Two partitions with ten records each, which `a` of group `g` has read and committed, and `a` is gone.
fn read_and_left() -> Cluster {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 10);
    c.consumer("a", "g", &["t"], &["poll", "commit"], EARLIEST);
    c.until("all is read", 30_000, |c| committed(c, "t-0") == Some(10));
    c.give(Command::Close(ClientName::new("a")));
    c.until_event("the group is empty", 10_000, |event| {
        matches!(event, Event::Group(GroupEvent::GroupStateChanged { to: GroupState::Empty, .. }))
    });
    c
}

#[test]
fn groups_are_listed_by_type_and_state_r_cli_4() {
    let mut c = read_and_left();
    c.consumer("m", "modern", &["t"], &["poll"], &[("group.protocol", "consumer")]);
    c.run_ms(10_000);
    assert_eq!(listed(&mut c), ["g classic Empty", "modern consumer Stable"]);
    assert_eq!(listed_by(&mut c, "list groups type consumer"), ["modern consumer Stable"]);
    assert_eq!(listed_by(&mut c, "list groups state empty"), ["g classic Empty"]);
    assert_eq!(listed_by(&mut c, "list groups type consumer state Empty"), Vec::<String>::new());
}

/// R-CLI-4, R-CLI-6, R-CLI-7.
#[test]
fn groups_are_listed_by_all_brokers_and_described_by_their_coordinator() {
    let mut c = cluster(3).topic("t", 2, 3, &[]);
    assert_eq!(listed(&mut c), Vec::<String>::new());
    c.consumer("a", "g", &["t"], &["poll"], &[]);
    c.consumer("b", "h", &["t"], &["poll"], &[("group.instance.id", "one")]);
    c.run_ms(10_000);
    assert_eq!(listed(&mut c), ["g classic Stable", "h classic Stable"]);
    let g = described(&mut c, "g");
    let coordinator = c.events().find_map(|event| match event {
        Event::CoordinatorFound { group, broker, .. } if group.as_str() == "g" => Some(*broker),
        _ => None,
    });
    assert_eq!((Some(g.coordinator), &*g.state, &*g.protocol), (coordinator, "Stable", "range"));
    let member = &g.members[0];
    assert_eq!((&*member.client, &*member.host, member.instance_id.as_deref()), ("a", "/127.0.0.1", None));
    assert_eq!(member.owned, [tp("t-0"), tp("t-1")]);
    assert_eq!(described(&mut c, "h").members[0].instance_id.as_deref(), Some("one"));
}

/// R-CLI-8.
#[test]
fn a_group_that_nobody_knows_is_not_described() {
    let mut c = read_and_left();
    let refused = order(&mut c, "describe group nobody", refusal);
    assert_eq!(refused, (ErrorCode::GroupIdNotFound, "group nobody does not exist".to_owned()));
    assert_eq!(described(&mut c, "g").members, []);
}

/// R-CLI-13.
#[test]
fn only_an_empty_group_is_deleted_and_its_next_member_begins_anew_r_grp_41() {
    let mut c = read_and_left();
    c.consumer("b", "g", &["t"], &["poll", "commit"], EARLIEST);
    c.run_ms(8_000);
    assert_eq!(order(&mut c, "delete group g", refusal).0, ErrorCode::NonEmptyGroup);
    c.give(Command::Close(ClientName::new("b")));
    c.run_ms(4_000);
    let gone = |event: &Event| {
        matches!(event, Event::Group(GroupEvent::GroupStateChanged { to: GroupState::Dead, .. }))
            .then_some(())
    };
    order(&mut c, "delete group g", gone);
    c.run_ms(1_000);
    assert_eq!(listed(&mut c), Vec::<String>::new());
    assert_eq!(order(&mut c, "delete group g", refusal).0, ErrorCode::GroupIdNotFound);
    c.consumer("d", "g", &["t"], &["poll", "commit"], EARLIEST);
    c.until("it has read all once more", 20_000, |c| committed(c, "t-0") == Some(10));
}

/// R-CLI-13.
#[test]
fn offsets_of_a_topic_are_forgotten_when_nobody_subscribes_to_it_r_grp_41() {
    let mut c = read_and_left();
    c.consumer("b", "g", &["t"], &["poll"], EARLIEST);
    c.run_ms(8_000);
    let text = "delete offsets of group g topic t";
    assert_eq!(
        order(&mut c, text, refusal),
        (ErrorCode::GroupSubscribedToTopic, "t-0: GROUP_SUBSCRIBED_TO_TOPIC".to_owned())
    );
    c.give(Command::Close(ClientName::new("b")));
    c.run_ms(4_000);
    let client = order(&mut c, text, |event| match event {
        Event::Group(GroupEvent::OffsetDeleted { client, .. }) => Some(client.clone()),
        _ => None,
    });
    assert_eq!(client, ClientName::new("admin"));
    assert_eq!(committed(&c, "t-0"), None);
    assert_eq!(
        order(&mut c, "delete offsets of group g topic u", refusal).0,
        ErrorCode::UnknownTopicOrPartition
    );
    assert_eq!(listed(&mut c), ["g classic Empty"], "the group itself stays");
}

/// R-CLI-9, R-CLI-10.
#[test]
fn a_plan_is_told_and_changes_nothing_until_it_is_carried_out() {
    let mut c = read_and_left();
    c.record("t", "k", None, None);
    let written_ms = c.now_ms();
    c.run_ms(60_000);
    let mut check = |what: &str, expected: &[&str]| {
        assert_eq!(reset(&mut c, &format!("plan offsets of group g {what}")), expected, "{what}");
    };
    check("topic t to earliest", &["t-0 0"]);
    check("topic t to latest", &["t-0 11"]);
    check("topic t to current", &["t-0 10"]);
    check("topic t partitions 0 to offset 4", &["t-0 4"]);
    check("topic t to offset 12", &["t-0 11 for 12"]);
    check("all topics by -3", &["t-0 7"]);
    check("all topics by -30", &["t-0 0 for -20"]);
    check("all topics by 30", &["t-0 11 for 40"]);
    check("topic t to 5s ago", &["t-0 11 end"]);
    check("topic t to 1h ago", &["t-0 0"]);
    check("to t-0=40", &["t-0 11 for 40"]);
    let since = format!("2026-01-01T00:00:{:06.3}", (written_ms - 1_500) as f64 / 1000.0);
    check(&format!("topic t to time {since}"), &["t-0 10"]);
    assert_eq!(committed(&c, "t-0"), Some(10), "plans only");
    assert_eq!(reset(&mut c, "reset offsets of group g all topics by -3"), ["t-0 7"]);
    assert_eq!(committed(&c, "t-0"), Some(7));
    c.consumer("b", "g", &["t"], &["poll", "commit"], &[]);
    c.until("it reads on from there", 20_000, |c| committed(c, "t-0") == Some(11));
    let began = |event: &Event| matches!(event, Event::PositionSet { offset: Offset(7), .. });
    assert!(c.events().any(began));
}

#[test]
fn offsets_are_not_reset_while_the_group_has_members_r_cli_12() {
    let mut c = read_and_left();
    c.consumer("b", "g", &["t"], &["poll"], &[]);
    c.run_ms(8_000);
    for verb in ["plan", "reset"] {
        let (error, why) = order(&mut c, &format!("{verb} offsets of group g topic t to earliest"), refusal);
        assert_eq!(error, ErrorCode::NonEmptyGroup);
        assert!(why.contains("group g is Stable"), "{why}");
    }
    assert_eq!(committed(&c, "t-0"), Some(10));
}

/// R-CLI-10, R-GRP-36.
#[test]
fn a_group_that_does_not_exist_can_be_given_offsets_but_not_shifted() {
    let mut c = cluster(3).topic("t", 1, 3, &[]);
    c.producer("p", "t", "100/s", &[]);
    c.send("p", 10);
    c.run_ms(1_000);
    let (error, why) = order(&mut c, "reset offsets of group new topic t by 1", refusal);
    assert_eq!(
        (error, &*why),
        (ErrorCode::InvalidRequest, "nothing is committed for t-0 that could be shifted")
    );
    assert_eq!(reset(&mut c, "reset offsets of group new all topics to earliest"), Vec::<String>::new());
    assert_eq!(reset(&mut c, "reset offsets of group new topic t to current"), ["t-0 10 end"]);
    assert_eq!(committed(&c, "t-0"), Some(10));
    assert_eq!(listed(&mut c), ["new classic Empty"]);
    let missing =
        |c: &mut Cluster, what: &str| order(c, &format!("reset offsets of group new {what}"), refusal);
    let unknown = |what: &str| (ErrorCode::UnknownTopicOrPartition, format!("{what} does not exist"));
    assert_eq!(missing(&mut c, "topic u to latest"), unknown("topic u"));
    assert_eq!(missing(&mut c, "topic t partitions 0,5 to latest"), unknown("partition t-5"));
    assert_eq!(missing(&mut c, "to u-0=5"), unknown("partition u-0"));
}

#[test]
fn a_partition_without_a_leader_is_not_reset() {
    let mut c = cluster(3).topic("u", 1, 1, &[]);
    let leader: i32 =
        c.registration("u-0").split(' ').next().and_then(|id| id.parse().ok()).expect("a leader");
    order(&mut c, "list groups", |event| matches!(event, Event::GroupsTold { .. }).then_some(()));
    c.kill(leader);
    c.run_ms(15_000);
    let refused = order(&mut c, "plan offsets of group g topic u to latest", refusal);
    assert_eq!(refused, (ErrorCode::LeaderNotAvailable, "partition u-0 has no leader".to_owned()));
}

/// R-GRP-3.
#[test]
fn an_administrator_finds_the_new_coordinator() {
    let mut c = read_and_left();
    let old = described(&mut c, "g").coordinator;
    c.kill(old.0);
    let new = described(&mut c, "g").coordinator;
    assert_ne!(new, old);
    assert_eq!(reset(&mut c, "reset offsets of group g topic t to offset 3"), ["t-0 3"]);
    assert_eq!(committed(&c, "t-0"), Some(3));
    let group = GroupId::new("g");
    let kept = c
        .world
        .broker(BrokerId(new.0))
        .and_then(|b| b.groups().committed_offset(&group, &tp("t-0")).cloned());
    assert_eq!(kept.map(|value| value.offset), Some(Offset(3)));
}

/// R-GRP-41, R-INT-2: the whole stays so after a failover.
#[test]
fn a_deleted_group_stays_deleted_under_the_next_coordinator() {
    let mut c = read_and_left();
    let old = described(&mut c, "g").coordinator;
    let gone = |event: &Event| {
        matches!(event, Event::Group(GroupEvent::GroupStateChanged { to: GroupState::Dead, .. }))
            .then_some(())
    };
    order(&mut c, "delete group g", gone);
    c.run_ms(1_000);
    c.kill(old.0);
    c.run_ms(15_000);
    assert_eq!(listed(&mut c), Vec::<String>::new());
    assert_eq!(order(&mut c, "describe group g", refusal).0, ErrorCode::GroupIdNotFound);
    assert_eq!(reset(&mut c, "plan offsets of group g all topics to current"), Vec::<String>::new());
}

/// `t-0 Some(Offset(10)) Some(0) None`: committed offset, lag and reader of what is read or committed.
fn positions(c: &mut Cluster) -> Vec<String> {
    order(c, "describe offsets of group g", |event| match event {
        Event::GroupsTold { told: GroupsTold::Offsets { positions, .. } } => {
            let one = |p: &GroupPosition| format!("{} {:?} {:?} {:?}", p.tp, p.committed, p.lag(), p.client);
            Some(positions.iter().map(one).collect())
        }
        _ => None,
    })
}

/// R-OBS-4, R-OBS-7: committed, high watermark and reader of what is read or committed.
#[test]
fn how_far_a_group_is_behind_is_told_by_leaders_and_coordinator_r_cli_5() {
    let mut c = read_and_left();
    assert_eq!(positions(&mut c), ["t-0 Some(Offset(10)) Some(0) None"]);
    c.send("p", 5);
    c.run_ms(1_000);
    assert_eq!(positions(&mut c), ["t-0 Some(Offset(10)) Some(5) None"]);
    c = c.topic("u", 1, 3, &[]);
    c.consumer("b", "g", &["u"], &["poll"], EARLIEST);
    c.run_ms(8_000);
    assert_eq!(positions(&mut c), ["t-0 Some(Offset(10)) Some(5) None", "u-0 None None Some(\"b\")"]);
    assert_eq!(order(&mut c, "describe offsets of group nobody", refusal).0, ErrorCode::GroupIdNotFound);
}

/// A68, A20: a record that is not committed is no lag, as the log ends at the high watermark for the tool.
#[test]
fn a68_the_log_end_of_the_tool_is_the_high_watermark() {
    let mut c = cluster(3).topic("t", 1, 3, &[("min.insync.replicas", "2")]);
    c.producer("p", "t", "100/s", &[("acks", "1"), ("enable.idempotence", "false")]);
    c.send("p", 5);
    c.consumer("a", "g", &["t"], &["poll", "commit"], EARLIEST);
    c.until("all is committed", 20_000, |c| committed(c, "t-0") == Some(5));
    c.give(Command::Close(ClientName::new("a")));
    c.kill(2);
    c.kill(3);
    c.run_ms(20_000);
    c.send("p", 1);
    c.run_ms(1_000);
    assert_eq!(c.replicas("t-0"), "1:6/5");
    assert_eq!(positions(&mut c), ["t-0 Some(Offset(5)) Some(0) None"]);
    c.start(2);
    c.until("the record is committed", 20_000, |c| c.replicas("t-0").starts_with("1:6/6"));
    assert_eq!(positions(&mut c), ["t-0 Some(Offset(5)) Some(1) None"]);
}

/// What the tool does with `--all-groups`: a group with members is refused by itself, the others have their turn.
#[test]
fn all_groups_are_asked_one_after_the_other_r_cli_9() {
    let mut c = read_and_left();
    c.consumer("m", "modern", &["t"], &["poll"], &[("group.protocol", "consumer")]);
    c.run_ms(10_000);
    let of = |told: &GroupsTold| match told {
        GroupsTold::Group(described) => Some(format!("{} {}", described.group, described.state)),
        GroupsTold::Offsets { group, positions } => {
            let committed = positions[0].committed.map(|offset| offset.0);
            Some(format!("{group} at {committed:?}"))
        }
        GroupsTold::Reset { group, offsets, executed: true, .. } => {
            Some(format!("{group} to {}", offsets[0].to))
        }
        _ => None,
    };
    let mut all = |text: &str| {
        let seen = c.world.trace().len_ever();
        order(&mut c, text, |event| {
            matches!(event, Event::CommandRefused { .. }).then_some(()).or(matches!(
                event,
                Event::GroupsTold { .. }
            )
            .then_some(()))
        });
        c.run_ms(3_000);
        let told = c.world.trace().since(seen).filter_map(|entry| match &entry.event {
            Event::GroupsTold { told } => of(told),
            Event::CommandRefused { error, .. } => Some(error.name().to_owned()),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(all("describe all groups"), ["g Empty", "modern Stable"]);
    assert_eq!(all("describe offsets of all groups"), ["g at Some(10)", "modern at Some(10)"]);
    assert_eq!(all("reset offsets of all groups topic t to earliest"), ["g to 0", "NON_EMPTY_GROUP"]);
    assert_eq!(all("delete all groups"), ["NON_EMPTY_GROUP"]);
    assert_eq!(listed(&mut c), ["modern consumer Stable"]);
}
