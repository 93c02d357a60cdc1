//! Each kind of event that the narrative tells has a whole chain, which ends at who wanted it.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect_file;

use super::*;
use crate::kafka::event::Event;

/// The runs with how long each goes on.
const RUNS: [(&str, i64); 23] = [
    ("brokers", 112),
    ("links", 125),
    ("quorum", 60),
    ("unclean", 110),
    ("members", 104),
    ("slow", 90),
    ("modern", 115),
    ("topics", 80),
    ("transactions", 75),
    ("shares", 95),
    ("producing", 65),
    ("rare", 130),
    ("last", 90),
    ("callbacks", 52),
    ("metadata", 102),
    ("replicas", 29),
    ("unwritten", 64),
    ("late", 48),
    ("mixed", 34),
    ("large", 30),
    ("hanging", 331),
    ("moved", 25),
    ("behind", 56),
];

/// What an event is, by its names: `Group MemberRemoved SessionExpired`.
fn kind(event: &Event) -> String {
    let said = format!("{event:?}");
    let is_name = |word: &&str| word.starts_with(char::is_uppercase);
    let words = said.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut kind: Vec<&str> = words.take_while(is_name).take(2).collect();
    let reason = said.split("reason: ").nth(1).or(said.split("act: ").nth(1)).or(said.split("how: ").nth(1));
    let reason = reason.and_then(|reason| reason.split(|c: char| !c.is_alphanumeric()).next());
    kind.extend(reason.filter(|reason| reason.starts_with(char::is_uppercase)));
    kind.join(" ")
}

/// Each kind that these runs tell of, with the first chain that leads to a command, else the first.
fn chains() -> BTreeMap<String, Vec<String>> {
    let mut chains: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, seconds) in RUNS {
        let mut session = open(name);
        session.run_until(Time::from_ms(seconds * 1000), u64::MAX);
        let past = Past::of(&session, []);
        for (number, sentence) in session.narrative().iter() {
            let happened = past.get(sentence.event).expect("the narrative tells of events");
            let chain = Chain::from(&past, sentence.event);
            assert!(
                chain.links.is_sorted_by(|above, below| above.time >= below.time),
                "{name} {number}: {chain:?}"
            );
            let end = &chain.end().text;
            let ends =
                ["the scenario says (line ", "the run begins "].iter().any(|end_of| end.starts_with(end_of));
            assert!(ends, "{name} {number}: {chain:?}");
            let lines: Vec<String> = chain.links.iter().map(Link::line).collect();
            let kept = chains.entry(kind(&happened.event)).or_insert_with(|| lines.clone());
            if !kept.iter().any(|line| line.contains("the scenario says"))
                && end.starts_with("the scenario says")
            {
                *kept = lines;
            }
        }
    }
    chains
}

/// Kinds that the narrative never tells as such, by why it does not.
const UNTOLD: [(&str, &[&str]); 8] = [
    (
        "routine, or a packet",
        &[
            "Appended",
            "Application LetGo",
            "Application ResultSent",
            "BatchSent",
            "BatchSplit",
            "CommitConfirmed",
            "Group OffsetCommitted",
            "IsrChangeProposed",
            "Polled",
            "Processed",
            "QuorumVoted",
            "RecordBatched",
            "Replicated",
            "Share Delivered",
            "Share Joins",
            "Transaction Added",
            "Transaction Marked",
        ],
    ),
    (
        "what somebody decided is told, not that others do it",
        &[
            "BecameFollower",
            "BecameLeader",
            "CommandGiven",
            "Group CoordinatorElected",
            "Group CoordinatorResigned",
            "Group OffsetDropped",
            "ReplicaDeleted",
        ],
    ),
    (
        "a sentence of the election that came with it tells who is in sync: it moves the leader, or its epoch",
        &["IsrShrunk BrokerUnfenced", "IsrShrunk Reassignment", "IsrShrunk UncleanElection"],
    ),
    (
        "who joins a group that is full is refused by classic groups alone, which write nothing of it (R-GRP-8)",
        &["Group MemberKept GroupFull"],
    ),
    (
        "members of share groups lose what they read or close; nobody takes a part of it from them",
        &[
            "Share Left Reassigned",
            "Share Left Rebalance",
            "Share Left Reconciled",
            "Share Left Unsubscribed",
        ],
    ),
    ("it leaves the in-sync set as it is (R-REPL-44)", &["IsrShrunk PreferredElection"]),
    ("it is of followers, and a leader's alone is told", &["LogStartMoved Leader"]),
    (
        "a log without a leader epoch is empty, so that nothing is removed (R-REPL-35)",
        &["Truncated NoEpochKnown"],
    ),
];

/// The kinds that there are, as the enums of the events and of their reasons say.
fn all_kinds() -> BTreeSet<String> {
    let enums = enums();
    let mut kinds = BTreeSet::new();
    for (name, fields) in &enums["Event"] {
        let inner = format!("{name}Event");
        let variants = match enums.get(inner.as_str()) {
            Some(variants) => variants.iter().map(|(of, fields)| (format!("{name} {of}"), fields)).collect(),
            None => vec![((*name).to_owned(), fields)],
        };
        for (kind, fields) in variants {
            let reasons = fields.split(['{', ',', '\n', '}']).find_map(|field| {
                let (field, of) = field.trim().split_once(": ")?;
                ["reason", "act", "how"].contains(&field).then(|| enums.get(of)).flatten()
            });
            match reasons {
                Some(reasons) => kinds.extend(reasons.iter().map(|(reason, _)| format!("{kind} {reason}"))),
                None => _ = kinds.insert(kind),
            }
        }
    }
    kinds
}

/// Each enum of the events' sources by its name: its variants, each with the text of its fields.
fn enums() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    const SOURCES: [&str; 7] = [
        include_str!("../../../kafka/event/mod.rs"),
        include_str!("../../../kafka/event/application.rs"),
        include_str!("../../../kafka/event/group.rs"),
        include_str!("../../../kafka/event/producer.rs"),
        include_str!("../../../kafka/event/reason.rs"),
        include_str!("../../../kafka/event/share.rs"),
        include_str!("../../../kafka/event/transaction.rs"),
    ];
    let bodies = SOURCES.iter().flat_map(|source| source.split("pub enum ").skip(1));
    let mut enums = BTreeMap::new();
    for body in bodies {
        let (name, rest) = body.split_once(" {\n").expect("an enum has a body");
        let variants = rest.split("\n}").next().unwrap_or_default();
        let begins = |line: &&str| line.starts_with("    ") && line[4..].starts_with(char::is_uppercase);
        let starts = variants.lines().filter(begins).map(|line| {
            let start = line.as_ptr() as usize - variants.as_ptr() as usize;
            let name = line.trim().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            (name, start)
        });
        let starts: Vec<(&str, usize)> = starts.collect();
        let ends = starts.iter().skip(1).map(|(_, start)| *start).chain([variants.len()]);
        let variants = starts.iter().zip(ends).map(|((name, start), end)| (*name, &variants[*start..end]));
        enums.insert(name, variants.collect());
    }
    enums
}

#[test]
fn each_kind_of_event_has_a_chain_that_ends_at_who_wanted_it() {
    let mut text = String::new();
    let chains = chains();
    let untold: BTreeSet<String> =
        UNTOLD.iter().flat_map(|(_, kinds)| *kinds).map(|kind| (*kind).to_owned()).collect();
    let told: BTreeSet<String> = chains.keys().cloned().collect();
    let all = all_kinds();
    let missing: Vec<&String> = all.difference(&told).filter(|kind| !untold.contains(*kind)).collect();
    assert!(missing.is_empty(), "no run has {missing:#?}");
    let strange: Vec<&String> =
        told.iter().filter(|kind| !all.contains(*kind) || untold.contains(*kind)).collect();
    assert!(strange.is_empty(), "no such kinds: {strange:#?}");
    for (kind, lines) in chains {
        text += &format!("{kind}\n{}\n\n", lines.join("\n"));
    }
    expect_file!["kinds.txt"].assert_eq(&text);
}
