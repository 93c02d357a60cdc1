//! What the applications of a plan's consumers do, by their programs and libraries, and what is done to them at their lines.
//!
//! **Invariant:** a consumer that differs is still one that Kafka lets start, and that its group takes in.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{chance, pick};
use crate::client::consumer::ConsumerSpec;
use crate::client::program::{Activity, Line, Order, Passage, Stop, Which};
use crate::kafka::event::Halt;
use crate::kafka::random::Random;
use crate::kafka::types::{ClientName, GroupId};
use crate::sim::{Command, World};

/// Those of Java's consumers and those of librdkafka's, whose polls return one record.
const PROGRAMS: &[&[&str]] = &[
    &["poll", "process 20ms", "commit"],
    &["poll", "commit", "process 20ms"],
    &["poll", "process 50ms", "commit record"],
    &["poll", "process 5ms", "commit record offset"],
    &["poll", "process 5ms", "commit async"],
    &["poll", "hand off 20ms to 4 workers"],
    &["poll", "hand off 300ms to 2 workers", "commit done"],
    &["poll 1s", "process 300ms", "commit"],
];
/// What listeners do when they hear of partitions (`ConsumerRebalanceListener`), below the lines of the loop.
const LISTENERS: &[&[&str]] = &[
    &["on revoked commit"],
    &["on revoked commit", "on lost wait 500ms"],
    &["on revoked commit async", "on assigned wait 300ms"],
    &["on revoked wait 2s", "on revoked commit"],
    &["on assigned wait 1s", "on assigned commit"],
    &["on lost wait 1s"],
    &["on revoked throw"],
    &["on revoked commit", "on lost throw"],
];
/// What all members of a group may have, librdkafka's too.
const COMMON_STRATEGIES: [&str; 3] = ["range", "roundrobin", "cooperative-sticky"];
const STRATEGY: &str = "partition.assignment.strategy";

/// Makes the consumers differ from each other.
pub fn vary(consumers: &mut [ConsumerSpec], random: &mut Random) {
    for consumer in consumers.iter_mut() {
        if !chance(random, 40) {
            continue;
        }
        consumer.program = program(random);
        match random.below(10) {
            0..4 => drop(consumer.config.insert("enable.auto.commit".to_owned(), "false".to_owned())),
            4..7 => drop(consumer.config.insert("auto.commit.interval.ms".to_owned(), "1000".to_owned())),
            _ => {}
        }
    }
    let mut common: BTreeMap<GroupId, bool> = BTreeMap::new();
    for consumer in consumers.iter() {
        let strategy = consumer.config.get(STRATEGY);
        let is_common = strategy.is_none_or(|strategy| COMMON_STRATEGIES.contains(&strategy.as_str()));
        *common.entry(consumer.group.clone()).or_insert(true) &= is_common;
    }
    for consumer in consumers.iter_mut().filter(|consumer| common[&consumer.group]) {
        if chance(random, 30) {
            consumer.config.insert("client.library".to_owned(), "librdkafka".to_owned());
            consumer.config.remove("max.poll.records");
        }
    }
}

/// The members of some groups listen. Drawn last, and from a stream of its own: whatever else a seed draws stays as it is.
pub fn listen(consumers: &mut [ConsumerSpec], random: &mut Random) {
    let groups: BTreeSet<GroupId> = consumers.iter().map(|consumer| consumer.group.clone()).collect();
    let groups: BTreeSet<GroupId> = groups.into_iter().filter(|_| chance(random, 25)).collect();
    for consumer in consumers.iter_mut().filter(|consumer| groups.contains(&consumer.group)) {
        let listener = pick::<&[&str]>(random, LISTENERS);
        let loop_lines = consumer.program.iter().map(Line::to_string);
        let lines: Vec<String> = loop_lines.chain(listener.iter().map(ToString::to_string)).collect();
        consumer.program = Line::parse_program(&lines).expect("a program");
    }
}

fn program(random: &mut Random) -> Vec<Line> {
    Line::parse_program(pick::<&[&str]>(random, PROGRAMS)).expect("a program")
}

/// Something that is done to the program of a consumer.
pub fn draw(random: &mut Random, client: ClientName) -> Command {
    let order = match random.below(10) {
        0..7 => Order::Stop(stop(random)),
        7 => Order::Wake,
        8 => Order::Exchange(program(random)),
        _ => Order::Pace { us_per_record: *pick(random, &[0, 5_000, 100_000, 1_000_000]) },
    };
    Command::Program { client, order }
}

/// At one of its lines, before it or behind it; a thread that hangs does so for some seconds or until all faults end.
fn stop(random: &mut Random) -> Stop {
    let how = *pick(random, &[Halt::Crash, Halt::Crash, Halt::Freeze, Halt::Hang]);
    let at = match random.below(3) {
        0 => Which::Next,
        1 => Which::Number(random.between(1, 3) as i32),
        _ => Which::Word(pick(random, &["poll", "process", "commit", "hand"]).to_string()),
    };
    let for_us = chance(random, 60).then(|| *pick(random, &[500_000, 5_000_000, 60_000_000]));
    Stop {
        how,
        at,
        after: chance(random, 50),
        passage: Passage::Nth(random.between(1, 4) as i32),
        for_us: for_us.filter(|_| how == Halt::Hang),
    }
}

/// What lets threads go on that hang.
pub fn wake_ups<'a>(
    consumers: impl Iterator<Item = &'a ConsumerSpec>,
    world: &World,
) -> impl Iterator<Item = Command> {
    let hanging = consumers.filter(|spec| {
        let consumer = world.consumer(&spec.name);
        consumer.is_some_and(|consumer| matches!(consumer.program().activity(), Activity::Hanging { .. }))
    });
    hanging.map(|spec| Command::Program { client: spec.name.clone(), order: Order::Wake })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::plan::Plan;

    #[test]
    fn every_consumer_of_a_plan_may_start_with_its_program() {
        let plans: Vec<Plan> = (0..300).map(Plan::draw).collect();
        let mut words: BTreeSet<String> = BTreeSet::new();
        for consumer in plans.iter().flat_map(|plan| &plan.consumers) {
            assert!(consumer.check().is_ok(), "{consumer:?}: {:?}", consumer.check().err());
            words.extend(consumer.program.iter().map(Line::to_string));
            words.extend(consumer.config.get("client.library").cloned());
        }
        for word in ["commit record", "commit async", "commit done", "librdkafka"] {
            assert!(words.contains(word), "{word}");
        }
        for listener in LISTENERS {
            let lines = Line::parse_program(&[&["poll"], *listener].concat()).expect("a program");
            assert!(lines.iter().all(|line| words.contains(&line.to_string())), "{listener:?}");
        }
    }
}
