//! Groups and consumers, as the view shows them.
//!
//! A group's state and what it has committed are its coordinator's word; a position is the consumer's own.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::faults::Faults;
use super::group::{Counted, GroupAt};
use super::offsets::CommittedOffsets;
use super::producer::sending_view;
use super::reuse::{keep, keep_array, keep_list};
use super::transaction::Transactions;
use crate::client::application::Application;
use crate::client::consumer::{Activity, Committed, Consumer, Line, MemberState, Waiting};
use crate::client::profile::Profile;
use crate::client::program::{Program, Reaction};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, Generation, GroupId, NodeId, Offset, TopicPartition};
use crate::view::model::{ConsumedView, ConsumerView, GroupView, Health, ProducingView, Tone};

/// The node of a client that has none any more.
const GONE: NodeId = NodeId::Client(u32::MAX);

/// A client with its process.
pub struct ClientSource<'a, C> {
    pub node: NodeId,
    pub health: Health,
    pub client: &'a C,
}

/// "12 s", "0.4 s".
pub fn seconds(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms => format!("{} s", ms / 1000),
    }
}

/// What all groups' views need to know of the cluster.
pub struct Around<'a> {
    pub now: Time,
    /// The end of what consumers can read.
    pub ends: &'a dyn Fn(&TopicPartition) -> Option<Offset>,
    pub faults: &'a Faults,
    pub committed: &'a CommittedOffsets,
    pub transactions: &'a Transactions,
    pub applications: &'a BTreeMap<NodeId, &'a Application>,
}

/// A group at its coordinator, if one has it, and its members.
pub fn group_view(
    id: &GroupId,
    coordinator: Option<(BrokerId, GroupAt<'_>)>,
    consumers: &[&ClientSource<'_, Consumer>],
    around: &Around<'_>,
    before: Option<&GroupView>,
) -> GroupView {
    let now = around.now;
    let members = consumers.iter().map(|source| {
        let before = before.and_then(|view| {
            view.members.iter().find(|member| *member.name == *source.client.spec().name.as_str())
        });
        consumer_view(source, around, before.map(|view| &**view))
    });
    let is_group = !id.as_str().is_empty();
    let group = coordinator.map(|(_, group)| group);
    let lives = |name: &ClientName| consumers.iter().any(|source| source.client.spec().name == *name);
    let gone = group.into_iter().flat_map(|group| group.gone(lives));
    let mut members: Vec<ConsumerView> = members.chain(gone.map(|member| gone_view(&member, now))).collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    let members = keep_list(before.map(|view| &view.members), members, |a, b| a.name == b.name);
    let modern = match group {
        Some(group) => matches!(group, GroupAt::Modern { .. }),
        None => consumers.iter().any(|source| source.client.config().is_modern),
    };
    let protocol = match group {
        Some(group) => group.protocol(),
        None => Rc::from("as its members know"),
    };
    GroupView {
        id: id.clone(),
        state: Rc::from(
            group.map_or(if is_group { "no coordinator" } else { "no group.id" }, GroupAt::state),
        ),
        tone: group.map_or(if is_group { Tone::Warning } else { Tone::Neutral }, GroupAt::tone),
        generation: group.map_or(known_to_members(consumers).0, GroupAt::generation).max(0),
        counted: if modern { "epoch" } else { "generation" },
        protocol,
        coordinator: coordinator.map(|(broker, _)| broker),
        waiting: group.and_then(|group| group.waiting(now)).map(Rc::from),
        members,
        is_share: false,
        shared: Rc::from([]),
    }
}

/// The newest generation that a member knows, while no coordinator can be asked.
fn known_to_members(consumers: &[&ClientSource<'_, Consumer>]) -> Generation {
    let generations = consumers.iter().map(|source| source.client.membership().identity.generation);
    generations.max().unwrap_or(Generation::NONE)
}

fn consumer_view(
    source: &ClientSource<'_, Consumer>,
    around: &Around<'_>,
    before: Option<&ConsumerView>,
) -> ConsumerView {
    let (consumer, now) = (source.client, around.now);
    let (program, membership) = (consumer.program(), consumer.membership());
    let lives = source.health != Health::Dead;
    let stable = membership.state == MemberState::Stable || !consumer.subscription().is_in_group();
    let owned: Vec<TopicPartition> = if lives { consumer.subscription().partitions() } else { Vec::new() };
    let owned_partitions = consumer.subscription().owned().iter().filter(|_| lives);
    let partitions = owned_partitions.map(|(tp, owned)| {
        let position = owned.position().map(|position| position.offset);
        let end = (around.ends)(tp).or(owned.high_watermark);
        let group = &consumer.spec().group;
        // While nobody coordinates the group, what its member knows has to do.
        let committed = around.committed.of(group, tp).or(owned.committed);
        let lag = committed.or(position).zip(end).map_or(0, |(from, end)| (end - from).max(0));
        let pending = around.committed.pending(group, tp);
        ConsumedView { tp: tp.clone(), position, committed, pending, paused: owned.paused, lag }
    });
    let lines = program.lines().iter().map(|line| Rc::from(code(*line)));
    let runs = lives && program.activity() != Activity::Stopped;
    ConsumerView {
        name: Rc::from(consumer.spec().name.as_str()),
        node: source.node,
        health: if source.health == Health::Running && !stable { Health::Waiting } else { source.health },
        state: Rc::from(consumer_state(source)),
        group_leader: lives && membership.is_leader,
        instance_id: consumer.config().group_instance_id.clone(),
        owned: keep_array(before.map(|view| &view.owned), owned),
        program: keep_array(before.map(|view| &view.program), lines.collect()),
        line: runs.then(|| program.line_index() as u8),
        progress: program_progress(program, now).filter(|_| runs),
        record: record_in_hand(program).filter(|_| lives),
        in_line_since: runs.then(|| program.since()),
        partitions: keep_array(before.map(|view| &view.partitions), partitions.collect()),
        profile: profile_name(Profile::of(consumer.config().library, program.lines())),
        producing: around.applications.get(&source.node).map(|application| {
            let before = before.and_then(|view| view.producing.as_ref());
            let output = Rc::from(application.spec().output.as_str());
            let sending = sending_view(
                application.producer(),
                &application.spec().output,
                around.transactions,
                now,
                before.map(|view| &view.sending),
            );
            keep(before, ProducingView { output, sending })
        }),
        waiting: if lives { waiting(&consumer.waiting(), now).map(Rc::from) } else { None },
        faults: around.faults.of_node(source.node),
    }
}

/// Kafka's own Java client needs no word.
pub fn profile_name(profile: Profile) -> Option<&'static str> {
    (profile != Profile::Java).then(|| profile.name())
}

/// A consumer whose process has ended, while its group still counts it as a member.
fn gone_view(member: &Counted, now: Time) -> ConsumerView {
    let session = member.expires_at.map_or(0, |at| at.ms_since(now));
    ConsumerView {
        name: Rc::from(member.client.as_str()),
        node: GONE,
        health: Health::Dead,
        state: Rc::from("gone"),
        group_leader: false,
        instance_id: member.instance_id.clone(),
        owned: member.owned.clone().into(),
        program: Rc::from([]),
        line: None,
        progress: None,
        record: None,
        in_line_since: None,
        partitions: Rc::from([]),
        profile: None,
        producing: None,
        waiting: Some(Rc::from(format!(
            "Its group waits {} more for a heartbeat; nobody reads its partitions.",
            seconds(session)
        ))),
        faults: Rc::from([]),
    }
}

fn consumer_state(source: &ClientSource<'_, Consumer>) -> &'static str {
    if source.client.is_close_requested() && source.health == Health::Running {
        return "closing";
    }
    match (source.health, source.client.membership().state) {
        (Health::Dead, _) => "gone",
        (Health::Frozen, _) => "stands still",
        _ if source.client.subscription().choice().is_none() => "unsubscribed",
        _ if !source.client.subscription().is_in_group() => "by assign()",
        (_, MemberState::Unjoined) => "not in the group",
        (_, MemberState::PreparingRebalance | MemberState::CompletingRebalance) => "joining",
        (_, MemberState::Stable) => "",
    }
}

/// A line as code, in the consumer's own words.
pub fn code(line: Line) -> String {
    match line {
        Line::Poll { timeout_ms } => format!("records = poll({timeout_ms} ms)"),
        Line::Process { us_per_record } if us_per_record % 1000 == 0 => {
            format!("for each: process, {} ms", us_per_record / 1000)
        }
        Line::Process { us_per_record } => format!("for each: process, {us_per_record} us"),
        Line::Commit => "commitSync()".to_owned(),
        Line::CommitAsync => "commitAsync()".to_owned(),
        Line::CommitRecord(Committed::Next) => "for each: commitSync(offset + 1)".to_owned(),
        Line::CommitRecord(Committed::Own) => "for each: commitSync(offset)".to_owned(),
        Line::HandOff { us_per_record, workers } => {
            format!("for each: {workers} workers, {} ms", us_per_record / 1000)
        }
        Line::CommitDone => "commitSync(done)".to_owned(),
        Line::Begin => "beginTransaction()".to_owned(),
        Line::SendResults => "for each: send(result)".to_owned(),
        Line::SendOffsets { with_metadata: true } => {
            "sendOffsetsToTransaction(offsets, groupMetadata())".to_owned()
        }
        Line::SendOffsets { with_metadata: false } => {
            "sendOffsetsToTransaction(offsets, group.id)".to_owned()
        }
        Line::CommitTransaction => "commitTransaction()".to_owned(),
        Line::Abort => "abortTransaction()".to_owned(),
        Line::Flush => "flush()".to_owned(),
        Line::On(callback, reaction) => format!("{}: {}", callback.method(), reaction_code(reaction)),
        Line::Acknowledge(saying) => format!("for each: {saying}"),
    }
}

fn reaction_code(reaction: Reaction) -> String {
    match reaction {
        Reaction::Commit => "commitSync()".to_owned(),
        Reaction::CommitAsync => "commitAsync()".to_owned(),
        Reaction::CommitDone => "commitSync(done)".to_owned(),
        Reaction::Wait { us } if us % 1000 == 0 => format!("{} ms of work", us / 1000),
        Reaction::Wait { us } => format!("{us} us of work"),
        Reaction::Throw => "throw".to_owned(),
    }
}

/// The record that the program's line is done with.
pub fn record_in_hand(program: &Program) -> Option<(TopicPartition, Offset)> {
    program.record_in_hand().map(|record| (record.tp.clone(), record.offset))
}

/// How much of the batch is processed, in steps of five percent.
pub fn program_progress(program: &Program, now: Time) -> Option<u8> {
    let (Activity::Processing { until }, Line::Process { us_per_record }) =
        (program.activity(), program.line())
    else {
        return None;
    };
    let whole_us = (program.batch().len() as i64 * us_per_record).max(1);
    let done_us = i64::from(program.processed() + 1) * us_per_record - (until - now);
    u8::try_from((done_us * 20 / whole_us).clamp(0, 20) * 5).ok()
}

fn waiting(waiting: &Waiting, now: Time) -> Option<String> {
    let until = |at: Time| seconds(at.ms_since(now));
    let since = |at: Time| seconds(now.ms_since(at));
    Some(match waiting {
        Waiting::Nothing | Waiting::Records { .. } | Waiting::Commit { retry_at: None } => return None,
        Waiting::ToFindCoordinator { retry_at } => {
            format!("Asks for its coordinator again in {}.", until(*retry_at))
        }
        Waiting::Hanging { since: at } => format!("Hangs at this line, {} so far.", since(*at)),
        Waiting::Choice => "Has subscribed to nothing, and waits until it is told to.".to_owned(),
        Waiting::CoordinatorAnswer => "Waits for FindCoordinator.".to_owned(),
        Waiting::CommitBeforeJoin { .. } => "Commits before it gives up its partitions.".to_owned(),
        Waiting::JoinBackoff { until: at } if *at > now => format!("Joins again in {}.", until(*at)),
        Waiting::JoinBackoff { .. } => "Joins at its next poll.".to_owned(),
        Waiting::JoinAnswer { since: at } => format!("Waits for JoinGroup, {} so far.", since(*at)),
        Waiting::MetadataForPlan { .. } => "Waits for metadata to plan the assignment.".to_owned(),
        Waiting::FirstHeartbeat => "Waits for the answer to its first heartbeat.".to_owned(),
        Waiting::SyncAnswer { since: at } => format!("Waits for SyncGroup, {} so far.", since(*at)),
        Waiting::CommittedOffsets { .. } => "Waits for its committed offsets.".to_owned(),
        Waiting::OffsetReset => "Waits for ListOffsets: it has no committed offset.".to_owned(),
        Waiting::Validation => "Asks the new leader whether its log holds what it has read.".to_owned(),
        Waiting::Commit { retry_at: Some(at) } => format!("Commits again in {}.", until(*at)),
        Waiting::LeaveAnswer => "Waits for LeaveGroup.".to_owned(),
        Waiting::FetchSessionEnd => "Waits for the brokers to end its fetch sessions.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::{code, seconds};
    use crate::client::consumer::Line;

    #[test]
    fn lines_of_callbacks_are_told_with_their_method() {
        let lines = ["poll", "on revoked commit done", "on assigned wait 2s", "on lost throw"];
        let program = Line::parse_program(&lines).expect("a program");
        let code: Vec<String> = program.into_iter().skip(1).map(code).collect();
        assert_eq!(
            code,
            [
                "onPartitionsRevoked: commitSync(done)",
                "onPartitionsAssigned: 2000 ms of work",
                "onPartitionsLost: throw"
            ]
        );
    }

    #[test]
    fn short_waits_have_tenths() {
        assert_eq!([-5, 0, 450, 9_999, 12_400].map(seconds), ["0.0 s", "0.0 s", "0.4 s", "9.9 s", "12 s"]);
    }
}
