//! What one moment brought, told together: a fencing that moves fifty leaders is one sentence, not fifty.
//!
//! **Invariant:** every gathered event is in exactly one sentence, but an in-sync set that its election tells already.

use std::collections::{BTreeMap, BTreeSet};

use super::partition::is_internal;
use super::storage;
use super::{Sentence, Subject, Tone};
use crate::kafka::event::{ChangeReason, Event, PositionSource};
use crate::kafka::time::Time;
use crate::kafka::types::{BrokerId, ClientName, NodeId, Topic, TopicPartition};
use crate::lab::words::{count, list};

/// More partitions of a topic than these are counted, not named.
const NAMED_PARTITIONS: usize = 3;

/// Tells the events of one moment: processes first, then partitions by kind and topic, then consumers.
pub(super) fn tell(time: Time, events: &[(u64, Event)]) -> Vec<Sentence> {
    let mut told = Vec::new();
    told.extend(starts(time, events));
    told.extend(by_topic(time, events, elected, many_elected));
    let elected: BTreeSet<&TopicPartition> =
        events.iter().filter_map(|(_, event)| elected_partition(event)).collect();
    let apart: Vec<(u64, Event)> =
        events.iter().filter(|(_, event)| !told_by_election(event, &elected)).cloned().collect();
    told.extend(by_topic(time, &apart, shrunk, many_shrunk));
    told.extend(by_topic(time, events, expanded, many_expanded));
    told.extend(by_topic(time, events, moved, many_moved));
    told.extend(by_topic(time, events, elr, many_elr));
    told.extend(by_topic(time, events, refused, many_refused));
    told.extend(by_topic(time, events, storage::start_moved, storage::many_starts_moved));
    told.extend(positions(time, events));
    told
}

fn starts(time: Time, events: &[(u64, Event)]) -> Option<Sentence> {
    let started: Vec<(u64, NodeId, &ClientName)> = events
        .iter()
        .filter_map(|(number, event)| match event {
            Event::Process { node, name, .. } => Some((*number, *node, name)),
            _ => None,
        })
        .collect();
    let names = list(started.iter().map(|(_, node, name)| match node {
        NodeId::Client(_) => name.to_string(),
        node => node.to_string(),
    }));
    let about = match started[..] {
        [] => return None,
        [(_, NodeId::Controller(id), _)] => Subject::Controller(id),
        [(_, NodeId::Broker(id), _)] => Subject::Broker(id),
        [(_, NodeId::Client(_), name)] => Subject::Client(name.clone()),
        _ => Subject::Cluster,
    };
    Some(Sentence::new(time, Tone::Info, about, format!("{names} started")).of(started[0].0))
}

/// Tells each partition by `one`, or a topic's many by `many`.
fn by_topic(
    time: Time,
    events: &[(u64, Event)],
    one: fn(Time, &Event) -> Option<(TopicPartition, Sentence)>,
    many: fn(&Topic, &[&Event]) -> (String, String),
) -> Vec<Sentence> {
    // What is Kafka's own comes last.
    let mut topics: BTreeMap<(bool, Topic), Vec<(&Event, Sentence)>> = BTreeMap::new();
    for (number, event) in events {
        let Some((tp, sentence)) = one(time, event) else { continue };
        let sentence = sentence.of(*number);
        topics.entry((is_internal(&tp), tp.topic)).or_default().push((event, sentence));
    }
    let mut told = Vec::new();
    for ((internal, topic), changes) in topics {
        let limit = if internal { 1 } else { NAMED_PARTITIONS };
        if changes.len() <= limit {
            told.extend(changes.into_iter().map(|(_, sentence)| sentence));
            continue;
        }
        let events: Vec<&Event> = changes.iter().map(|(event, _)| *event).collect();
        let (title, detail) = many(&topic, &events);
        let tone = changes.iter().map(|(_, sentence)| sentence.tone).max().unwrap_or(Tone::Info);
        let first = &changes[0].1;
        let sentence = Sentence::new(time, tone, Subject::Topic(topic), title).detail(detail);
        told.push(sentence.rules(first.rules).of(first.event));
    }
    told
}

fn about(time: Time, tone: Tone, tp: &TopicPartition, what: String) -> Sentence {
    Sentence::new(time, tone, Subject::Partition(tp.clone()), format!("{tp}: {what}"))
}

fn elected(time: Time, event: &Event) -> Option<(TopicPartition, Sentence)> {
    let Event::LeaderElected { tp, from, to, leader_epoch, isr, unclean, reason, .. } = event else {
        return None;
    };
    let (old_epoch, epoch) = (leader_epoch.0 - 1, leader_epoch);
    let isr = list(isr);
    let sentence = if !to.is_some() {
        about(
            time,
            Tone::Bad,
            tp,
            format!(
                "broker {from} leads no more and none takes over, epoch {old_epoch} to {epoch}; in-sync {isr}"
            ),
        )
        .detail("No in-sync replica is alive: nothing can be written or read until one returns.")
        .rules(&["R-REPL-42"])
    } else if from == to {
        let what = format!("broker {to} leads on, epoch {old_epoch} to {epoch}; in-sync {isr}");
        about(time, Tone::Info, tp, what)
            .detail("A replica left the partition; requests of the old epoch are refused from now on.")
            .rules(&["R-REPL-3"])
    } else if *unclean {
        let what = format!(
            "leader moved uncleanly from {} to broker {to}, epoch {old_epoch} to {epoch}; in-sync {isr}",
            leader(*from)
        );
        about(time, Tone::Bad, tp, what)
            .detail("It was not in sync: committed records that it lacks are lost, and the others cut their logs to its own.")
            .rules(&["R-REPL-43"])
    } else {
        let tone = if from.is_some() { Tone::Warn } else { Tone::Good };
        let from = leader(*from);
        let what =
            format!("leader moved from {from} to broker {to}, epoch {old_epoch} to {epoch}; in-sync {isr}");
        about(time, tone, tp, what).detail(why_elected(*reason)).rules(&["R-REPL-42"])
    };
    Some((tp.clone(), sentence))
}

fn leader(broker: BrokerId) -> String {
    if broker.is_some() { format!("broker {broker}") } else { "none".to_owned() }
}

const BY_EARLIER_CONTROLLER: &str =
    "The controller that was active before decided it; a majority has the record, so it stands.";

fn why_elected(reason: ChangeReason) -> &'static str {
    match reason {
        ChangeReason::BrokerFenced => {
            "The leader was fenced; the first in-sync replica in list order that lives leads."
        }
        ChangeReason::BrokerUnfenced => "A replica that may lead has returned.",
        ChangeReason::UncleanShutdown => {
            "The old leader had stopped without warning; its log cannot be trusted."
        }
        ChangeReason::LeaderRequest => "The change that the leader asked for moved the leadership.",
        ChangeReason::ControlledShutdown => "The leader is about to stop and has given the partition away.",
        ChangeReason::PreferredElection => {
            "The first replica of the list is in sync; it is the one that should lead."
        }
        ChangeReason::UncleanElection => "Somebody leads rather than nobody.",
        ChangeReason::Reassignment => "The partition moved to other replicas.",
        ChangeReason::EarlierController => BY_EARLIER_CONTROLLER,
    }
}

fn many_elected(topic: &Topic, events: &[&Event]) -> (String, String) {
    let mut moves: BTreeMap<(BrokerId, BrokerId), i64> = BTreeMap::new();
    for event in events {
        if let Event::LeaderElected { from, to, .. } = event {
            *moves.entry((*from, *to)).or_default() += 1;
        }
    }
    let moves =
        list(moves.iter().map(|((from, to), n)| format!("{} to {} ({n})", leader(*from), leader(*to))));
    (
        format!("{topic}: {} moved: {moves}", count(events.len() as i64, "leader")),
        "From the old leader to the new one, and of how many partitions.".to_owned(),
    )
}

fn elected_partition(event: &Event) -> Option<&TopicPartition> {
    match event {
        Event::LeaderElected { tp, .. } => Some(tp),
        _ => None,
    }
}

fn told_by_election(event: &Event, elected: &BTreeSet<&TopicPartition>) -> bool {
    matches!(event, Event::IsrShrunk { tp, .. } if elected.contains(tp))
}

fn shrunk(time: Time, event: &Event) -> Option<(TopicPartition, Sentence)> {
    let Event::IsrShrunk { tp, removed, isr, reason, .. } = event else { return None };
    let (detail, rules): (_, &[&str]) = match reason {
        ChangeReason::LeaderRequest => (
            "It had not caught up for replica.lag.time.max.ms; the leader waits for it no more.",
            &["R-REPL-21"],
        ),
        ChangeReason::UncleanShutdown => {
            ("It had stopped without warning, so the end of its log cannot be trusted.", &["R-REPL-56"])
        }
        ChangeReason::EarlierController => (BY_EARLIER_CONTROLLER, &["R-CTRL-7"]),
        ChangeReason::BrokerFenced | ChangeReason::BrokerUnfenced => {
            ("Its broker was fenced; the leader waits for it no more.", &["R-REPL-49"])
        }
        ChangeReason::ControlledShutdown => {
            ("Its broker is about to stop; the leader waits for it no more.", &["R-REPL-55"])
        }
        ChangeReason::PreferredElection | ChangeReason::UncleanElection => {
            ("The election left it behind.", &["R-REPL-43"])
        }
        ChangeReason::Reassignment => ("The partition moves away from it.", &["R-REPL-59"]),
    };
    let what = format!("{} left the ISR; in-sync {}", brokers(removed), list(isr));
    Some((tp.clone(), about(time, Tone::Warn, tp, what).detail(detail).rules(rules)))
}

fn many_shrunk(topic: &Topic, events: &[&Event]) -> (String, String) {
    let gone: BTreeSet<BrokerId> = events
        .iter()
        .flat_map(|event| match event {
            Event::IsrShrunk { removed, .. } => removed.clone(),
            _ => Vec::new(),
        })
        .collect();
    let partitions = count(events.len() as i64, "partition");
    (
        format!("{topic}: {} left the ISR of {partitions}", brokers(&gone)),
        "Their leaders wait for it no more.".to_owned(),
    )
}

fn expanded(time: Time, event: &Event) -> Option<(TopicPartition, Sentence)> {
    let Event::IsrExpanded { tp, added, isr, .. } = event else { return None };
    let what = format!("{} is back in the ISR; in-sync {}", brokers(added), list(isr));
    let sentence = about(time, Tone::Good, tp, what)
        .detail("Its log has reached the leader's high watermark; acks=all waits for it again.")
        .rules(&["R-REPL-23"]);
    Some((tp.clone(), sentence))
}

fn many_expanded(topic: &Topic, events: &[&Event]) -> (String, String) {
    let back: BTreeSet<BrokerId> = events
        .iter()
        .flat_map(|event| match event {
            Event::IsrExpanded { added, .. } => added.clone(),
            _ => Vec::new(),
        })
        .collect();
    let partitions = count(events.len() as i64, "partition");
    (
        format!("{topic}: {} is back in the ISR of {partitions}", brokers(&back)),
        "Its logs have reached the leaders' high watermarks.".to_owned(),
    )
}

fn moved(time: Time, event: &Event) -> Option<(TopicPartition, Sentence)> {
    let Event::ReplicasChanged { tp, replicas, adding, removing } = event else { return None };
    let (what, detail) = if adding.is_empty() && removing.is_empty() {
        (format!("replicas are {} now", list(replicas)), "Nothing is added or removed any more.")
    } else {
        let mut what = format!("replicas {}", list(replicas));
        if !adding.is_empty() {
            what.push_str(&format!("; adding {}", list(adding)));
        }
        if !removing.is_empty() {
            what.push_str(&format!("; removing {}", list(removing)));
        }
        (what, "When all that are added are in sync, the others leave.")
    };
    Some((tp.clone(), about(time, Tone::Info, tp, what).detail(detail).rules(&["R-REPL-58", "R-REPL-59"])))
}

fn many_moved(topic: &Topic, events: &[&Event]) -> (String, String) {
    (format!("{topic}: replicas of {} changed", count(events.len() as i64, "partition")), String::new())
}

fn elr(time: Time, event: &Event) -> Option<(TopicPartition, Sentence)> {
    let Event::ElrChanged { tp, elr, .. } = event else { return None };
    let (what, detail) = if elr.is_empty() {
        ("no eligible leader replicas are kept".to_owned(), "Enough replicas are in sync again.")
    } else {
        (
            format!("eligible leader replicas {}", list(elr)),
            "They left the ISR while it was at min.insync.replicas, so they hold all committed records and may lead.",
        )
    };
    Some((tp.clone(), about(time, Tone::Info, tp, what).detail(detail).rules(&["R-REPL-45"])))
}

fn many_elr(topic: &Topic, events: &[&Event]) -> (String, String) {
    let partitions = count(events.len() as i64, "partition");
    (format!("{topic}: eligible leader replicas of {partitions} changed"), String::new())
}

fn refused(time: Time, event: &Event) -> Option<(TopicPartition, Sentence)> {
    let Event::IsrChangeRefused { tp, broker, error } = event else { return None };
    let sentence =
        about(time, Tone::Warn, tp, format!("ISR change that broker {broker} asked for refused: {error}"));
    Some((tp.clone(), sentence.rules(&["R-REPL-25"])))
}

fn many_refused(topic: &Topic, events: &[&Event]) -> (String, String) {
    (format!("{topic}: {} refused", count(events.len() as i64, "ISR change")), String::new())
}

/// `broker 3`, `brokers 1, 3`.
fn brokers<'a>(ids: impl IntoIterator<Item = &'a BrokerId>) -> String {
    let ids: Vec<&BrokerId> = ids.into_iter().collect();
    let noun = if ids.len() == 1 { "broker" } else { "brokers" };
    format!("{noun} {}", list(ids))
}

/// Where consumers begin to read, one sentence for each source and consumer.
fn positions(time: Time, events: &[(u64, Event)]) -> Vec<Sentence> {
    const SOURCES: [PositionSource; 5] = [
        PositionSource::Committed,
        PositionSource::Earliest,
        PositionSource::Latest,
        PositionSource::ByDuration,
        PositionSource::Seek,
    ];
    SOURCES.into_iter().flat_map(|source| positions_from(time, events, source)).collect()
}

fn positions_from(time: Time, events: &[(u64, Event)], source: PositionSource) -> Vec<Sentence> {
    let mut starts: BTreeMap<&ClientName, (u64, Vec<String>)> = BTreeMap::new();
    for (number, event) in events {
        match event {
            Event::PositionSet { client, tp, offset, source: from } if *from == source => {
                let (_, starts) = starts.entry(client).or_insert((*number, Vec::new()));
                starts.push(format!("{tp} from offset {offset}"));
            }
            _ => {}
        }
    }
    let (from, rules): (_, &[&str]) = match source {
        PositionSource::Committed => ("the committed offset", &["R-CONS-11", "R-CONS-15"]),
        PositionSource::Earliest => ("the log start: auto.offset.reset=earliest", &["R-CONS-11"]),
        PositionSource::Latest => {
            ("the high watermark: auto.offset.reset=latest", &["R-CONS-11", "R-CONS-12"])
        }
        PositionSource::ByDuration => {
            ("the first record that is not older than auto.offset.reset=by_duration says", &["R-CONS-11"])
        }
        PositionSource::Seek => {
            ("where it was sent by seek(); what is committed stays until the next commit", &["R-CONS-9"])
        }
    };
    let tell = |(client, (first, starts)): (&ClientName, (u64, Vec<String>))| {
        Sentence::new(
            time,
            Tone::Info,
            Subject::Client(client.clone()),
            format!("{client} reads {}", list(starts)),
        )
        .detail(format!("It begins at {from}."))
        .rules(rules)
        .of(first)
    };
    starts.into_iter().map(tell).collect()
}
