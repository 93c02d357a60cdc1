//! What records are expected to have come to: `lost = 0`, `stored twice of orders <= 1`, `missed by billing of orders = 2`,
//! `stored of partition orders-0 >= 211`.
//!
//! **Invariant:** an expectation reads as it prints.

use std::fmt;
use std::str::FromStr;

use super::totals::{Count, Example, GroupCount, Totals, Within};
use crate::kafka::types::{GroupId, Topic, TopicPartition};
use crate::lab::words::{partition_of, suggestion};

/// One count, of one partition or topic or of all, and how it compares with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    of: Counted,
    within: Within,
    relation: Relation,
    number: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Counted {
    Records(Count),
    ByGroup(GroupCount, GroupId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    AtLeast,
    AtMost,
}

/// What it is instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub number: i64,
    pub holds: bool,
    /// One of the records that count.
    pub example: Option<Example>,
}

/// A text that says no such thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpectationError {
    #[error("an expectation is a count and a number, as in lost = 0 or processed twice by billing <= 3")]
    Form,
    #[error("{0:?} is no whole number of records")]
    Number(String),
    #[error("{0:?} is no partition such as orders-0")]
    Partition(String),
    #[error("nothing is counted as {text:?}{near}; records are: {}", names().join(", "))]
    Count { text: String, near: String },
    #[error("{0} is counted for each group: {0} by GROUP")]
    NeedsGroup(&'static str),
    #[error("{0} is not counted by groups")]
    NoGroup(&'static str),
}

fn names() -> Vec<&'static str> {
    let by_group = GroupCount::ALL.iter().map(|count| count.name());
    Count::ALL.iter().map(|count| count.name()).chain(by_group).collect()
}

impl Expectation {
    /// Compares it with what there is.
    pub fn check(&self, totals: &Totals) -> Observed {
        let (number, example) = match &self.of {
            Counted::Records(count) => self.records(totals, *count),
            Counted::ByGroup(count, group) => self.by_group(totals, *count, group),
        };
        let holds = match self.relation {
            Relation::Equal => number == self.number,
            Relation::AtLeast => number >= self.number,
            Relation::AtMost => number <= self.number,
        };
        Observed { number, holds, example }
    }

    fn records(&self, totals: &Totals, count: Count) -> (i64, Option<Example>) {
        let of = totals.records(&self.within);
        (of.count(count), of.first(count).cloned())
    }

    fn by_group(&self, totals: &Totals, count: GroupCount, group: &GroupId) -> (i64, Option<Example>) {
        let of = totals.group(group, &self.within);
        (of.count_of(count), of.first_of(count).cloned())
    }
}

impl FromStr for Expectation {
    type Err = ExpectationError;

    fn from_str(text: &str) -> Result<Expectation, ExpectationError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [what @ .., relation, number] = &words[..] else { return Err(ExpectationError::Form) };
        let relation = match *relation {
            "=" => Relation::Equal,
            ">=" => Relation::AtLeast,
            "<=" => Relation::AtMost,
            _ => return Err(ExpectationError::Form),
        };
        let number = number
            .parse::<i64>()
            .ok()
            .filter(|number| *number >= 0)
            .ok_or_else(|| ExpectationError::Number((*number).to_owned()))?;
        let (what, within) = match what {
            [what @ .., "of", "partition", tp] => (what, Within::Partition(partition(tp)?)),
            [what @ .., "of", topic] => (what, Within::Topic(Topic::new(topic))),
            what => (what, Within::All),
        };
        let (what, group) = match what {
            [what @ .., "by", group] => (what, Some(GroupId::new(group))),
            what => (what, None),
        };
        Ok(Expectation { of: counted(&what.join(" "), group)?, within, relation, number })
    }
}

fn partition(text: &str) -> Result<TopicPartition, ExpectationError> {
    partition_of(text).ok_or_else(|| ExpectationError::Partition(text.to_owned()))
}

fn counted(what: &str, group: Option<GroupId>) -> Result<Counted, ExpectationError> {
    let records = Count::ALL.iter().find(|count| count.name() == what);
    let by_group = GroupCount::ALL.iter().find(|count| count.name() == what);
    match (records, by_group, group) {
        (Some(count), _, None) => Ok(Counted::Records(*count)),
        (_, Some(count), Some(group)) => Ok(Counted::ByGroup(*count, group)),
        (_, Some(count), None) => Err(ExpectationError::NeedsGroup(count.name())),
        (Some(count), None, Some(_)) => Err(ExpectationError::NoGroup(count.name())),
        (None, None, _) => {
            Err(ExpectationError::Count { text: what.to_owned(), near: suggestion(what, names()) })
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Counted::Records(count) => f.write_str(count.name())?,
            Counted::ByGroup(count, group) => write!(f, "{} by {group}", count.name())?,
        }
        let relation = match self.relation {
            Relation::Equal => "=",
            Relation::AtLeast => ">=",
            Relation::AtMost => "<=",
        };
        write!(f, "{} {relation} {}", self.within, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expectations_read_as_they_print() {
        for text in [
            "lost = 0",
            "stored twice of orders <= 1",
            "processed twice by billing = 3",
            "missed by billing of orders >= 2",
            "stored of partition orders-0 >= 211",
        ] {
            assert_eq!(text.parse::<Expectation>().map(|read| read.to_string()), Ok(text.to_owned()));
        }
    }

    fn check_refused(text: &str, message: &str) {
        let error = text.parse::<Expectation>().map(|read| read.to_string()).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }

    #[test]
    fn what_says_nothing_that_is_counted_is_refused() {
        check_refused("lost", "an expectation is a count and a number");
        check_refused("lost is 0", "an expectation is a count and a number");
        check_refused("lost = many", "\"many\" is no whole number of records");
        check_refused("lost of partition orders = 0", "\"orders\" is no partition such as orders-0");
        check_refused("losd = 0", "nothing is counted as \"losd\" (did you mean lost?)");
        check_refused("missed = 0", "missed is counted for each group: missed by GROUP");
        check_refused("lost by billing = 0", "lost is not counted by groups");
    }
}
