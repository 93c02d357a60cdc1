//! Commands about groups: reading and writing them.

use std::collections::{BTreeMap, BTreeSet};

use super::CommandError;
use super::datetime;
use super::print::duration;
use super::tokens::quote;
use super::words::{Words, check_filled, duration_us, one_of};
use crate::client::admin::{
    GROUP_STATES, GROUP_TYPES, Goal, GroupOperation, ListFilter, OfEach, Reset, Scope, Target,
};
use crate::kafka::types::{GroupId, Topic, TopicPartition};
use crate::lab::words::suggestion;
use crate::sim::Command;

const MOMENT: &str = "a moment such as 2026-01-01T00:00:30.000, in UTC";

/// `type consumer,share state Empty,Stable`, after `list groups`.
pub(super) fn list(words: &mut Words) -> Result<Command, CommandError> {
    let mut filter = ListFilter::default();
    if words.accept("type").is_some() {
        filter.types = some_of(words, &GROUP_TYPES)?;
    }
    if words.accept("state").is_some() {
        filter.states = some_of(words, &GROUP_STATES)?;
    }
    Ok(Command::Groups(GroupOperation::List(filter)))
}

/// Names with commas between them, large or small.
fn some_of(words: &mut Words, all: &[&'static str]) -> Result<Vec<&'static str>, CommandError> {
    let what = all.join(", ");
    let token = words.plain(&what)?;
    let known = |name: &str| all.iter().copied().find(|known| known.eq_ignore_ascii_case(name.trim()));
    let wrong = |name: &str| {
        let near = suggestion(name, all.iter().copied());
        CommandError::new(token.column, format!("expected some of {what}, not {name:?}{near}"))
    };
    token.text.split(',').map(|name| known(name).ok_or_else(|| wrong(name))).collect()
}

/// `billing`, after `group`.
pub(super) fn group(words: &mut Words) -> Result<GroupId, CommandError> {
    const WHAT: &str = "the name of a group";
    let name = words.plain(WHAT)?;
    check_filled(name, WHAT)?;
    Ok(GroupId::new(&name.text))
}

/// `group billing`, or with `None` `all groups`.
pub(super) fn group_or_all(words: &mut Words) -> Result<Option<GroupId>, CommandError> {
    if one_of(words, &["group", "all"])? == "group" {
        return Ok(Some(group(words)?));
    }
    words.expect("groups")?;
    Ok(None)
}

/// `groups`, after `all`.
pub(super) fn of_each(words: &mut Words, each: OfEach) -> Result<Command, CommandError> {
    words.expect("groups")?;
    Ok(Command::Groups(GroupOperation::OfEach(each)))
}

/// `offsets of group billing topic orders`, after `delete`.
pub(super) fn delete_offsets(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("of")?;
    words.expect("group")?;
    let group = group(words)?;
    Ok(Command::Groups(GroupOperation::DeleteOffsets { group, scope: scope(words)? }))
}

/// `offsets of group billing topic orders to earliest`, after `plan` or `reset`.
pub(super) fn reset(words: &mut Words, executes: bool) -> Result<Command, CommandError> {
    words.expect("offsets")?;
    words.expect("of")?;
    let group = group_or_all(words)?;
    let goal = match words.accept("to") {
        Some(_) => Goal::Each(each(words)?),
        None if words.accept("from").is_some() => Goal::Each(from_csv(words)?),
        None => Goal::All(scope(words)?, target(words)?),
    };
    Ok(Command::Groups(match group {
        Some(group) => GroupOperation::Reset(Reset { group, goal, executes }),
        None => GroupOperation::OfEach(OfEach::Reset { goal, executes }),
    }))
}

fn scope(words: &mut Words) -> Result<Scope, CommandError> {
    const NUMBERS: &str = "numbers of partitions such as 0,2";
    if one_of(words, &["topic", "all"])? == "all" {
        words.expect("topics")?;
        return Ok(Scope::AllTopics);
    }
    let topic = Topic::new(&words.plain("a topic's name")?.text);
    if words.accept("partitions").is_none() {
        return Ok(Scope::Topic(topic));
    }
    let token = words.plain(NUMBERS)?;
    let number = |text: &str| text.parse::<i32>().ok().filter(|number| *number >= 0);
    let numbers: Option<BTreeSet<i32>> = token.text.split(',').map(number).collect();
    let wrong = || CommandError::new(token.column, format!("expected {NUMBERS}, not {:?}", token.text));
    Ok(Scope::Partitions(topic, numbers.ok_or_else(wrong)?))
}

/// `to earliest`, `to offset 40`, `by -5`, `to 10min ago`.
fn target(words: &mut Words) -> Result<Target, CommandError> {
    if one_of(words, &["to", "by"])? == "by" {
        return Ok(Target::Shift(words.parsed("a number of records such as -5")?));
    }
    let column = words.column();
    Ok(match () {
        () if words.accept("earliest").is_some() => Target::Earliest,
        () if words.accept("latest").is_some() => Target::Latest,
        () if words.accept("current").is_some() => Target::Current,
        () if words.accept("offset").is_some() => Target::Offset(words.parsed("an offset")?),
        () if words.accept("time").is_some() => {
            let token = words.plain(MOMENT)?;
            let wrong =
                || CommandError::new(token.column, format!("expected {MOMENT}, not {:?}", token.text));
            Target::Since { wall_ms: datetime::read(&token.text).ok_or_else(wrong)? }
        }
        () => {
            let wrong = |_| {
                let reason = "expected earliest, latest, current, offset 40, time 2026-01-01T00:00:30.000 or 10min ago";
                CommandError::new(column, reason)
            };
            let us = duration_us(words).map_err(wrong)?;
            words.expect("ago")?;
            match us % 1000 {
                0 => Target::Ago { ms: us / 1000 },
                _ => {
                    return Err(CommandError::new(
                        column,
                        "expected whole milliseconds, as timestamps have them",
                    ));
                }
            }
        }
    })
}

/// `csv orders,0,40 orders,1,7`: a plan's lines as the tool writes and reads them (`CsvUtils`), with blanks between them.
fn from_csv(words: &mut Words) -> Result<BTreeMap<TopicPartition, i64>, CommandError> {
    const WHAT: &str = "a line of a plan, such as orders,0,40";
    words.expect("csv")?;
    let mut offsets = BTreeMap::new();
    while offsets.is_empty() || words.peek().is_some() {
        let token = words.plain(WHAT)?;
        let wrong = |reason: String| CommandError::new(token.column, reason);
        let (tp, offset) =
            csv_line(&token.text).ok_or_else(|| wrong(format!("expected {WHAT}, not {:?}", token.text)))?;
        if let Some(earlier) = offsets.insert(tp.clone(), offset) {
            return Err(wrong(format!("{tp} has the offset {earlier} already")));
        }
    }
    Ok(offsets)
}

fn csv_line(line: &str) -> Option<(TopicPartition, i64)> {
    let [topic, number, offset] = line.split(',').collect::<Vec<_>>()[..] else { return None };
    let number = number.parse::<i32>().ok().filter(|number| *number >= 0 && !topic.is_empty())?;
    Some((TopicPartition::new(&Topic::new(topic), number), offset.parse().ok()?))
}

/// `orders-0=40 orders-1=7`
pub(super) fn each(words: &mut Words) -> Result<BTreeMap<TopicPartition, i64>, CommandError> {
    const WHAT: &str = "a partition with an offset, such as orders-0=40";
    let column = words.column();
    let read = |(partition, offset): (&String, &String)| {
        let (topic, number) = partition.rsplit_once('-').filter(|(topic, _)| !topic.is_empty())?;
        let number = number.parse::<i32>().ok().filter(|number| *number >= 0)?;
        Some((TopicPartition::new(&Topic::new(topic), number), offset.parse().ok()?))
    };
    let written =
        words.configs().map_err(|error| CommandError::new(error.column, format!("expected {WHAT}")))?;
    let offsets: Option<BTreeMap<TopicPartition, i64>> = written.iter().map(read).collect();
    let offsets = offsets.filter(|offsets| offsets.len() == written.len() && !offsets.is_empty());
    offsets.ok_or_else(|| CommandError::new(column, format!("expected {WHAT}")))
}

pub(super) fn print(operation: &GroupOperation) -> String {
    let name = |group: &GroupId| quote(group.as_str());
    match operation {
        GroupOperation::List(ListFilter { types, states }) => {
            let filter = |kind: &str, names: &[&str]| match names {
                [] => String::new(),
                names => format!(" {kind} {}", names.join(",")),
            };
            format!("list groups{}{}", filter("type", types), filter("state", states))
        }
        GroupOperation::Describe(group) => format!("describe group {}", name(group)),
        GroupOperation::DescribeOffsets(group) => format!("describe offsets of group {}", name(group)),
        GroupOperation::Delete(group) => format!("delete group {}", name(group)),
        GroupOperation::DeleteOffsets { group, scope } => {
            format!("delete offsets of group {} {}", name(group), print_scope(scope))
        }
        GroupOperation::Reset(Reset { group, goal, executes }) => {
            format!("{} offsets of group {} {}", reset_verb(*executes), name(group), print_goal(goal))
        }
        GroupOperation::OfEach(OfEach::Describe) => "describe all groups".to_owned(),
        GroupOperation::OfEach(OfEach::DescribeOffsets) => "describe offsets of all groups".to_owned(),
        GroupOperation::OfEach(OfEach::Delete) => "delete all groups".to_owned(),
        GroupOperation::OfEach(OfEach::Reset { goal, executes }) => {
            format!("{} offsets of all groups {}", reset_verb(*executes), print_goal(goal))
        }
    }
}

fn reset_verb(executes: bool) -> &'static str {
    if executes { "reset" } else { "plan" }
}

fn print_scope(scope: &Scope) -> String {
    match scope {
        Scope::AllTopics => "all topics".to_owned(),
        Scope::Topic(topic) => format!("topic {}", quote(topic.as_str())),
        Scope::Partitions(topic, numbers) => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!("topic {} partitions {}", quote(topic.as_str()), numbers.join(","))
        }
    }
}

fn print_goal(goal: &Goal) -> String {
    let (scope, target) = match goal {
        Goal::All(scope, target) => (print_scope(scope), target),
        Goal::Each(offsets) => {
            let each = offsets.iter().map(|(tp, offset)| format!(" {}={offset}", quote(&tp.to_string())));
            return format!("to{}", each.collect::<String>());
        }
    };
    match target {
        Target::Earliest => format!("{scope} to earliest"),
        Target::Latest => format!("{scope} to latest"),
        Target::Current => format!("{scope} to current"),
        Target::Offset(offset) => format!("{scope} to offset {offset}"),
        Target::Shift(by) => format!("{scope} by {by}"),
        Target::Ago { ms } => format!("{scope} to {} ago", duration(ms.saturating_mul(1000))),
        Target::Since { wall_ms } => format!("{scope} to time {}", datetime::write(*wall_ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::command::{Written, parse};

    #[track_caller]
    fn check(text: &str, operation: GroupOperation) {
        assert_eq!(print(&operation), text);
        assert_eq!(parse(text), Ok(Written::Whole(Command::Groups(operation))));
    }

    #[track_caller]
    fn check_refused(text: &str, error: &str) {
        assert_eq!(parse(text).map_err(|error| error.to_string()), Err(error.to_owned()), "{text}");
    }

    fn billing() -> GroupId {
        GroupId::new("billing")
    }

    /// R-CLI-9.
    #[test]
    fn every_scope_and_scenario_of_a_reset_has_its_words() {
        let reset = |scope, target| {
            let goal = Goal::All(scope, target);
            GroupOperation::Reset(Reset { group: billing(), goal, executes: true })
        };
        let orders = || Scope::Topic("orders".into());
        let some = Scope::Partitions("orders".into(), [2, 0].into());
        check("reset offsets of group billing topic orders to earliest", reset(orders(), Target::Earliest));
        check("reset offsets of group billing topic orders to latest", reset(orders(), Target::Latest));
        check(
            "reset offsets of group billing all topics to current",
            reset(Scope::AllTopics, Target::Current),
        );
        check(
            "reset offsets of group billing topic orders partitions 0,2 to offset 40",
            reset(some, Target::Offset(40)),
        );
        check("reset offsets of group billing all topics by -5", reset(Scope::AllTopics, Target::Shift(-5)));
        check(
            "reset offsets of group billing topic orders to 10min ago",
            reset(orders(), Target::Ago { ms: 600_000 }),
        );
        check(
            "reset offsets of group billing topic orders to time 2026-01-01T00:00:30.000",
            reset(orders(), Target::Since { wall_ms: 1_767_225_630_000 }),
        );
        let offsets = [(0, 40), (1, 7)].map(|(n, offset)| (TopicPartition::new(&"orders".into(), n), offset));
        let (group, goal) = (billing(), Goal::Each(offsets.into()));
        let plan = GroupOperation::Reset(Reset { group, goal, executes: false });
        check("plan offsets of group billing to orders-0=40 orders-1=7", plan.clone());
        let csv = "plan offsets of group billing from csv orders,0,40 orders,1,7";
        assert_eq!(parse(csv), Ok(Written::Whole(Command::Groups(plan))));
    }

    #[test]
    fn what_is_asked_of_one_group_can_be_asked_of_all() {
        check("describe all groups", GroupOperation::OfEach(OfEach::Describe));
        check("describe offsets of all groups", GroupOperation::OfEach(OfEach::DescribeOffsets));
        check("delete all groups", GroupOperation::OfEach(OfEach::Delete));
        let goal = Goal::All(Scope::AllTopics, Target::Earliest);
        let each = OfEach::Reset { goal, executes: true };
        check("reset offsets of all groups all topics to earliest", GroupOperation::OfEach(each));
        check_refused("describe all", "column 13: expected groups");
        check_refused(
            "describe offsets of every group",
            "column 21: expected one of group, all, not \"every\"",
        );
    }

    #[test]
    fn groups_are_listed_by_type_and_state() {
        let list = |types: &[&'static str], states: &[&'static str]| {
            GroupOperation::List(ListFilter { types: types.to_vec(), states: states.to_vec() })
        };
        check("list groups", list(&[], &[]));
        check("list groups type consumer", list(&["consumer"], &[]));
        check("list groups state Empty,Stable", list(&[], &["Empty", "Stable"]));
        check("list groups type classic,share state Dead", list(&["classic", "share"], &["Dead"]));
        let names = "classic, consumer, share";
        let message =
            format!("column 18: expected some of {names}, not \"consumr\" (did you mean consumer?)");
        check_refused("list groups type consumr", &message);
    }

    #[test]
    fn what_is_no_scope_or_no_scenario_is_refused_with_its_column() {
        check_refused("reset offsets of group billing", "column 31: expected topic, all");
        check_refused("reset offsets of group billing topic orders", "column 44: expected to, by");
        check_refused(
            "reset offsets of group billing topic orders to erliest",
            "column 48: expected earliest, latest, current, offset 40, time 2026-01-01T00:00:30.000 or 10min ago",
        );
        check_refused("reset offsets of group billing topic orders to 10min", "column 53: expected ago");
        check_refused(
            "reset offsets of group billing topic orders to 5us ago",
            "column 48: expected whole milliseconds, as timestamps have them",
        );
        check_refused(
            "reset offsets of group billing topic orders to time noon",
            "column 53: expected a moment such as 2026-01-01T00:00:30.000, in UTC, not \"noon\"",
        );
        check_refused(
            "delete offsets of group billing topic orders partitions 0,x",
            "column 57: expected numbers of partitions such as 0,2, not \"0,x\"",
        );
        let each = "expected a partition with an offset, such as orders-0=40";
        check_refused("plan offsets of group billing to", &format!("column 33: {each}"));
        let line = "expected a line of a plan, such as orders,0,40";
        check_refused("plan offsets of group billing from csv", &format!("column 39: {line}"));
        check_refused(
            "plan offsets of group billing from csv orders,0,40 orders,1",
            &format!("column 52: {line}, not \"orders,1\""),
        );
        check_refused(
            "plan offsets of group billing from csv orders,0,40 orders,0,41",
            "column 52: orders-0 has the offset 40 already",
        );
        check_refused("plan offsets of group billing to orders=40", &format!("column 34: {each}"));
        check_refused("plan offsets of group billing to orders-0=forty", &format!("column 34: {each}"));
        check_refused("plan offsets of group billing to earliest", &format!("column 34: {each}"));
    }
}
