//! What a person asks of a run. It has an answer, and changes nothing.
//!
//! **Invariant:** reading what is printed gives the question itself.

use std::fmt;

use super::CommandError;
use super::parse::partition;
use super::tokens::quote;
use super::why::Why;
use super::words::{Words, check_filled};
use crate::kafka::types::Topic;
use crate::lab::ledger::Within;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// What became of records, in numbers.
    Ledger(Within),
    /// What became of one: that at an offset of a partition, or a producer's by its number.
    Story {
        /// The partition or the producer.
        of: String,
        number: i64,
        /// Where the record is named, so that one that is not there can be told of at its place.
        column: i32,
    },
    /// Why something is as it is.
    Why {
        why: Why,
        /// Every step of the way, not only what changed something.
        full: bool,
        /// Where what it is about is named.
        column: i32,
    },
}

/// Whether a text begins as questions do, right or wrong.
pub fn is_question(text: &str) -> bool {
    matches!(text.split_whitespace().next(), Some("ledger" | "story" | "why"))
}

/// `ledger`, `ledger of orders`, `ledger of partition orders-0`
pub(super) fn ledger(words: &mut Words) -> Result<Question, CommandError> {
    if words.peek().is_none() {
        return Ok(Question::Ledger(Within::All));
    }
    words.expect("of")?;
    Ok(Question::Ledger(match words.accept("partition") {
        Some(_) => Within::Partition(partition(words)?),
        None => Within::Topic(Topic::new(&words.plain("a topic's name")?.text)),
    }))
}

/// `story orders-0 17`, `story checkout 40`
pub(super) fn story(words: &mut Words) -> Result<Question, CommandError> {
    let column = words.column();
    let (of, number) = record(words)?;
    Ok(Question::Story { of, number, column })
}

/// `orders-0 17`, `checkout 40`
pub(super) fn record(words: &mut Words) -> Result<(String, i64), CommandError> {
    const WHAT: &str = "a partition such as orders-0 or a producer's name";
    let token = words.plain(WHAT)?;
    check_filled(token, WHAT)?;
    let number_column = words.column();
    let number: i64 = words.parsed("an offset, or the number of a producer's record")?;
    match number {
        ..0 => Err(CommandError::new(number_column, "no record has a number below 0")),
        _ => Ok((token.text.clone(), number)),
    }
}

/// `why isr orders-0`, `why isr orders-0 in full`
pub(super) fn why(words: &mut Words) -> Result<Question, CommandError> {
    let (why, column) = super::why::why(words)?;
    let full = words.accept("in").is_some();
    if full {
        words.expect("full")?;
    }
    Ok(Question::Why { why, full, column })
}

/// Why a question is not carried out as a command.
pub(super) const NO_COMMAND: &str = "that asks and changes nothing, so it is no command";

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Ledger(Within::All) => write!(f, "ledger"),
            // Without quotes it would be the word before a partition.
            Question::Ledger(Within::Topic(topic)) if topic.as_str() == "partition" => {
                write!(f, "ledger of \"partition\"")
            }
            Question::Ledger(Within::Topic(topic)) => write!(f, "ledger of {}", quote(topic.as_str())),
            Question::Ledger(Within::Partition(tp)) => {
                write!(f, "ledger of partition {}", quote(&tp.to_string()))
            }
            Question::Story { of, number, .. } => write!(f, "story {} {number}", quote(of)),
            Question::Why { why, full: false, .. } => write!(f, "{why}"),
            Question::Why { why, full: true, .. } => write!(f, "{why} in full"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Written, parse};

    #[track_caller]
    fn check(text: &str, expected: Result<(), &str>) {
        match (parse(text), expected) {
            (Ok(Written::Question(question)), Ok(())) => assert_eq!(question.to_string(), text),
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
            (read, _) => panic!("{text} is read as {read:?}"),
        }
    }

    #[test]
    fn questions_read_as_they_print_and_what_is_wrong_is_named_with_its_place() {
        check("ledger", Ok(()));
        check("ledger of orders", Ok(()));
        check("ledger of partition orders-0", Ok(()));
        check("ledger of \"partition\"", Ok(()));
        check("story orders-0 17", Ok(()));
        check("story \"my app\" 40", Ok(()));
        check("ledger orders", Err("column 8: expected of"));
        check("ledger of", Err("column 10: expected a topic's name"));
        let tp = "column 21: expected a partition such as orders-0, not \"orders\"";
        check("ledger of partition orders", Err(tp));
        check("ledger of orders now", Err("column 18: nothing can follow here, but \"now\" does"));
        let of = "column 6: expected a partition such as orders-0 or a producer's name";
        check("story", Err(of));
        let number = "column 16: expected an offset, or the number of a producer's record";
        check("story orders-0 ", Err(number));
        check("story orders-0 x", Err(&format!("{number}, not \"x\"")));
        check("story orders-0 -1", Err("column 16: no record has a number below 0"));
        check("why isr orders-0", Ok(()));
        check("why isr orders-0 in full", Ok(()));
        check("why idle \"group\"", Ok(()));
        check("why lag of \"my group\" orders-0", Ok(()));
        check("why isr orders", Err("column 9: expected a partition such as orders-0, not \"orders\""));
        check("why isr orders-0 in", Err("column 20: expected full"));
        check("why high", Err("column 9: expected watermark"));
        check("why event x", Err("column 11: expected the number of a line of the narrative, not \"x\""));
    }
}
