//! Each kind of event that the narrative tells has a whole chain, which ends at who wanted it.

use std::collections::BTreeMap;

use expect_test::expect_file;

use super::*;
use crate::kafka::event::Event;

/// The runs with how long each goes on.
const RUNS: [(&str, i64); 13] = [
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

#[test]
fn each_kind_of_event_has_a_chain_that_ends_at_who_wanted_it() {
    let mut text = String::new();
    for (kind, lines) in chains() {
        text += &format!("{kind}\n{}\n\n", lines.join("\n"));
    }
    expect_file!["kinds.txt"].assert_eq(&text);
}
