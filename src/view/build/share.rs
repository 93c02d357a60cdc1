//! Share groups, as the view shows them: their members, and each partition as its leader hands it out.
//!
//! What is in flight is the leader's word; what a consumer reads is its own.

use std::rc::Rc;

use super::broker::BrokerSource;
use super::client::{ClientSource, code, program_progress, record_in_hand, seconds};
use super::faults::Faults;
use super::reuse::{keep_array, keep_list};
use crate::client::member::Phase;
use crate::client::program::Activity;
use crate::client::share_consumer::{ShareConsumer, Waiting};
use crate::kafka::controller::image::ClusterImage;
use crate::kafka::group::modern::share::{ShareGroup, ShareGroupState};
use crate::kafka::share::{RecordState, SharePartition};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, GroupId, MemberId, Offset, TopicPartition};
use crate::view::model::{ConsumerView, GroupView, Health, RunView, SharedView, Tone};

/// A share group, where it is coordinated, and its consumers.
pub type ShareGroupSource<'s, 'a> =
    (GroupId, Option<(BrokerId, &'a ShareGroup)>, Vec<&'s ClientSource<'a, ShareConsumer>>);

pub struct Shown<'a> {
    pub brokers: &'a [BrokerSource<'a>],
    pub image: &'a ClusterImage,
    pub ends: &'a dyn Fn(&TopicPartition) -> Option<Offset>,
    pub faults: &'a Faults,
    pub now: Time,
}

pub fn share_group_view(
    (id, coordinator, consumers): &ShareGroupSource<'_, '_>,
    shown: &Shown<'_>,
    before: Option<&GroupView>,
) -> GroupView {
    let group = coordinator.map(|(_, group)| group);
    let members = consumers.iter().map(|source| {
        let name = source.client.spec().name.as_str();
        let before = before.and_then(|view| view.members.iter().find(|member| *member.name == *name));
        member_view(source, shown, before.map(|view| &**view))
    });
    let shared = shared_partitions(id, consumers, shown);
    let known = consumers.iter().map(|source| source.client.member().epoch.0).max();
    GroupView {
        id: id.clone(),
        is_share: true,
        state: Rc::from(group.map_or("no coordinator", |group| group.state().name())),
        tone: match group.map(ShareGroup::state) {
            Some(ShareGroupState::Stable) => Tone::Good,
            Some(ShareGroupState::Empty) => Tone::Neutral,
            None => Tone::Warning,
        },
        generation: group.map_or(known.unwrap_or_default(), |group| group.base.epoch.0).max(0),
        counted: "epoch",
        protocol: Rc::from("share group"),
        coordinator: coordinator.map(|(broker, _)| broker),
        waiting: None,
        members: keep_list(before.map(|view| &view.members), members, |a, b| a.name == b.name),
        shared: keep_array(before.map(|view| &view.shared), shared),
    }
}

/// Each partition that the group shares, where it is led.
fn shared_partitions(
    group: &GroupId,
    consumers: &[&ClientSource<'_, ShareConsumer>],
    shown: &Shown<'_>,
) -> Vec<SharedView> {
    let name_of = |member: &MemberId| -> Rc<str> {
        let known = consumers.iter().find(|source| source.client.member().id == *member);
        Rc::from(known.map_or(member.as_str(), |source| source.client.spec().name.as_str()))
    };
    let leaders = shown.brokers.iter().filter_map(BrokerSource::alive);
    let partitions = leaders.flat_map(|broker| broker.shares().partitions());
    let of_group = partitions.filter(|(key, _)| key.group == *group);
    let mut shared: Vec<SharedView> = of_group
        .filter_map(|(key, partition)| {
            let tp = TopicPartition::new(shown.image.topic_name(key.topic_id)?, key.partition);
            let high_watermark = (shown.ends)(&tp).unwrap_or(partition.end_offset());
            let start = partition.start_offset();
            Some(SharedView {
                start,
                end: partition.in_flight().last().map_or(start, |(range, _)| range.last + 1),
                lag: (high_watermark - start - i64::from(partition.delivery_complete_count())).max(0),
                runs: runs(partition, &name_of, shown.now).into(),
                tp,
            })
        })
        .collect();
    shared.sort_by(|a, b| a.tp.cmp(&b.tp));
    shared
}

/// What is in flight, neighbours of one state together.
fn runs(partition: &SharePartition, name_of: &dyn Fn(&MemberId) -> Rc<str>, now: Time) -> Vec<RunView> {
    let mut runs: Vec<RunView> = Vec::new();
    let start = partition.start_offset();
    // A batch stays whole until all of it is done, so that it may begin below what is.
    for (range, state) in partition.in_flight().filter(|(range, _)| range.last >= start) {
        let run = RunView {
            first: range.first.max(start),
            last: range.last,
            state: match state.state() {
                RecordState::Available => "available",
                RecordState::Acquired => "acquired",
                RecordState::Acknowledged => "accepted",
                RecordState::Archived => "archived",
            },
            deliveries: state.delivery_count(),
            holder: state.holder().map(name_of),
            lock: state
                .lock_ends()
                .filter(|_| state.state() == RecordState::Acquired)
                .map(|ends| Rc::from(seconds(ends.ms_since(now)))),
        };
        match runs.last_mut() {
            Some(last) if last.last + 1 == run.first && last.is_like(&run) => last.last = run.last,
            _ => runs.push(run),
        }
    }
    runs
}

fn member_view(
    source: &ClientSource<'_, ShareConsumer>,
    shown: &Shown<'_>,
    before: Option<&ConsumerView>,
) -> ConsumerView {
    let consumer = source.client;
    let program = consumer.program();
    let lives = source.health != Health::Dead;
    let mut owned: Vec<TopicPartition> = if lives { consumer.assigned().to_vec() } else { Vec::new() };
    owned.sort();
    let stable = matches!(consumer.member().phase, Phase::Stable | Phase::Acknowledging);
    let runs = lives && program.activity() != Activity::Stopped;
    let lines = program.lines().iter().map(|line| Rc::from(code(*line)));
    ConsumerView {
        name: Rc::from(consumer.spec().name.as_str()),
        node: source.node,
        health: if source.health == Health::Running && !stable { Health::Waiting } else { source.health },
        state: Rc::from(match (source.health, consumer.member().phase) {
            (Health::Running, _) if consumer.is_close_requested() => "closing",
            (Health::Dead, _) => "gone",
            (Health::Frozen, _) => "stands still",
            (_, Phase::Joining | Phase::Reconciling) => "joining",
            (_, Phase::Stable | Phase::Acknowledging) => "",
            (_, Phase::Unsubscribed | Phase::Stale | Phase::Fatal) => "not in the group",
        }),
        group_leader: false,
        instance_id: None,
        owned: keep_array(before.map(|view| &view.owned), owned),
        program: keep_array(before.map(|view| &view.program), lines.collect()),
        line: runs.then(|| program.line_index() as u8),
        progress: program_progress(program, shown.now).filter(|_| runs),
        record: record_in_hand(program).filter(|_| lives),
        in_line_since: runs.then(|| program.since()),
        partitions: Rc::from([]),
        profile: None,
        producing: None,
        waiting: if lives { waiting(&consumer.waiting(), shown.now).map(Rc::from) } else { None },
        faults: shown.faults.of_node(source.node),
    }
}

fn waiting(waiting: &Waiting, now: Time) -> Option<String> {
    Some(match waiting {
        Waiting::Nothing | Waiting::Records => return None,
        Waiting::ToFindCoordinator { retry_at } => {
            format!("Asks for its coordinator again in {}.", seconds(retry_at.ms_since(now)))
        }
        Waiting::Hanging { since: at } => {
            format!("Hangs at this line, {} so far.", seconds(now.ms_since(*at)))
        }
        Waiting::CoordinatorAnswer => "Waits for FindCoordinator.".to_owned(),
        Waiting::FirstHeartbeat => "Waits for the answer to its first heartbeat.".to_owned(),
        Waiting::Acknowledged => "Waits for what becomes of its acknowledgements.".to_owned(),
        Waiting::LeaveAnswer => "Waits for the answer to its goodbye.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};
    use crate::view::build::model;
    use crate::view::{act, sentences};

    const SCENARIO: &str = include_str!("../../../static/scenarios/default.toml");

    #[test]
    fn a_share_group_shows_who_has_which_records() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(10_000), u64::MAX);
        session
            .command("add share consumer worker-a to payments topics orders program \"poll; process 5s\"")
            .unwrap();
        let mut shown = model(&session, None, None);
        while !shown.groups.iter().any(|group| group.shared.iter().any(|shared| !shared.runs.is_empty())) {
            assert!(session.now() < Time::from_ms(60_000), "nothing is in flight");
            session.run_until(session.now().plus_ms(100), u64::MAX);
            shown = model(&session, None, Some(&shown));
        }
        let group = shown.groups.iter().find(|group| group.is_share).expect("it is shown");
        assert_eq!((group.title(), group.counted), ("group payments".to_owned(), "epoch"));
        let said = sentences::group(group);
        assert!(
            said.starts_with("Share group payments, Stable, ") && said.contains(", acquired by worker-a, "),
            "{said}"
        );
        let member = group.members.iter().next().expect("a member");
        assert_eq!((&*member.name, member.owned.len(), member.program.len()), ("worker-a", 3, 2));
        assert_eq!(act::add_consumer(&shown, group), "add share consumer worker-b to payments");
        assert!(
            !shown.scenario.topics.iter().any(|topic| topic.starts_with("__")),
            "{:?}",
            shown.scenario.topics
        );
    }
}
