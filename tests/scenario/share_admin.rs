//! What an administrator does to share groups: describing, starting anew, forgetting, deleting (R-SHARE-3, 15).

use glassbroker::kafka::event::{Event, GroupsTold, ShareEvent};
use glassbroker::kafka::protocol::ErrorCode;
use glassbroker::sim::Command;

use crate::dsl::Cluster;
use crate::group_admin::{described, listed, order, refusal, reset};
use crate::share_consumers::{EXPLICIT, delivered, earliest, share, write};

/// Start and lag of each partition, as `t-0 0 6`; a dash for what is not known.
fn positions(c: &mut Cluster) -> Vec<String> {
    let text = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
    order(c, "describe offsets of group g", |event| match event {
        Event::GroupsTold { told: GroupsTold::ShareOffsets { positions, .. } } => {
            let one = |p: &glassbroker::kafka::event::SharePosition| {
                format!("{} {} {}", p.tp, text(p.start.map(|start| start.0)), text(p.lag))
            };
            Some(positions.iter().map(one).collect())
        }
        Event::CommandRefused { message, .. } => panic!("{message}"),
        _ => None,
    })
}

fn lag_is(c: &mut Cluster, lag: i64) -> bool {
    positions(c).iter().all(|position| position.ends_with(&format!(" {lag}")))
}

/// Six records of t-0, all of which `s1` has accepted.
fn worked() -> Cluster {
    let mut c = earliest(1);
    write(&mut c, 6);
    share(&mut c, "s1", &["poll", "accept", "commit"], &[EXPLICIT]);
    c.until("all is handed out", 20_000, |c| delivered(c, "s1").len() == 6);
    c.run_ms(2_000);
    c
}

fn close(c: &mut Cluster, name: &str) {
    c.give(Command::Close(name.into()));
    c.run_ms(5_000);
}

#[test]
fn a_share_group_is_described_with_its_members_start_and_lag_r_share_3() {
    let mut c = worked();
    assert_eq!(listed(&mut c), ["g share Stable"]);
    let group = described(&mut c, "g");
    let owned: Vec<String> = group.members.iter().flat_map(|m| &m.owned).map(ToString::to_string).collect();
    assert_eq!((&*group.state, &*group.protocol, owned), ("Stable", "simple", vec!["t-0".to_owned()]));
    assert!(lag_is(&mut c, 0));
    write(&mut c, 3);
    c.give(Command::Close("s1".into()));
    c.run_ms(5_000);
    assert_eq!(&*described(&mut c, "g").state, "Empty");
}

#[test]
fn a_share_group_starts_anew_where_it_is_told_to_once_it_is_empty_r_share_15() {
    let mut c = worked();
    let text = "reset offsets of group g topic t to earliest";
    assert_eq!(order(&mut c, text, refusal).0, ErrorCode::NonEmptyGroup);
    close(&mut c, "s1");
    assert_eq!(
        order(&mut c, "reset offsets of group g topic t to offset 3", refusal).0,
        ErrorCode::InvalidRequest
    );
    assert_eq!(reset(&mut c, "plan offsets of group g all topics to latest"), ["t-0 6"]);
    assert!(lag_is(&mut c, 0), "a plan changes nothing");
    assert_eq!(reset(&mut c, text), ["t-0 0"]);
    assert_eq!(positions(&mut c), ["t-0 0 6"]);
    share(&mut c, "s2", &["poll", "accept", "commit"], &[EXPLICIT]);
    c.until("all is handed out again", 20_000, |c| delivered(c, "s2").len() == 6);
    assert!(delivered(&c, "s2").iter().all(|(_, _, count)| *count == 1));
}

#[test]
fn a_share_group_forgets_a_topic_and_is_deleted_with_its_states_r_share_15() {
    let mut c = worked();
    let text = "delete offsets of group g topic t";
    assert_eq!(order(&mut c, text, refusal).0, ErrorCode::NonEmptyGroup);
    assert_eq!(order(&mut c, "delete group g", refusal).0, ErrorCode::NonEmptyGroup);
    close(&mut c, "s1");
    let topics = order(&mut c, text, |event| match event {
        Event::GroupsTold { told: GroupsTold::ShareOffsetsForgotten { topics, .. } } => Some(topics.clone()),
        Event::CommandRefused { message, .. } => panic!("{message}"),
        _ => None,
    });
    assert_eq!(topics, ["t".into()]);
    assert_eq!(positions(&mut c), Vec::<String>::new());
    assert_eq!(order(&mut c, text, refusal).0, ErrorCode::UnknownTopicOrPartition, "it is gone");

    share(&mut c, "s2", &["poll", "accept", "commit"], &[EXPLICIT]);
    c.until("all is handed out again", 20_000, |c| delivered(c, "s2").len() == 6);
    close(&mut c, "s2");
    c.give(Command::Groups(glassbroker::client::admin::GroupOperation::Delete("g".into())));
    c.run_ms(5_000);
    assert_eq!(listed(&mut c), Vec::<String>::new());
    let deleted = |event: &Event| matches!(event, Event::Share(ShareEvent::GroupDeleted { group }) if *group == "g".into());
    assert_eq!(c.events().filter(|event| deleted(event)).count(), 1, "it is told");
    assert_eq!(order(&mut c, "describe offsets of group g", refusal).0, ErrorCode::GroupIdNotFound);
}
