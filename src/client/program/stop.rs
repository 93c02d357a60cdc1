//! Where a person lets the application's thread end, stand still or hang: at a line of its program.
//!
//! **Invariant:** before a line, nothing of it has happened; behind it, all of it, and nothing of what follows.

use std::fmt;

use super::Line;
use crate::kafka::event::Halt;
use crate::kafka::types::{Offset, TopicPartition};

/// What is to happen to the thread, and where. It happens once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stop {
    pub how: Halt,
    pub at: Which,
    /// Behind the line, else before it.
    pub after: bool,
    pub passage: Passage,
    /// A thread that hangs goes on by itself after so long.
    pub for_us: Option<i64>,
}

/// Which line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// Whichever it comes to.
    Next,
    /// Counted from 1.
    Number(i32),
    /// All that begin with this word, such as `commit`.
    Word(String),
}

/// Which time it comes by there; a line that is done record by record is passed once by each. A line other than poll and those of callbacks counts
/// only if the last poll returned records: without any it has nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Passage {
    /// Counted from 1, from now on.
    Nth(i32),
    /// With this record in hand.
    Record(TopicPartition, Offset),
}

/// Why a program cannot be stopped there, in words that go on after the client's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    #[error("has no line {0}; its program has {1}")]
    NoSuchNumber(i32, i32),
    #[error("has no line {0}; its program is: {1}")]
    NoSuchWord(String, String),
    #[error("does {0} without a record in hand")]
    NotPerRecord(String),
}

impl Stop {
    /// Before the line that it comes to next.
    pub fn next(how: Halt) -> Stop {
        Stop { how, at: Which::Next, after: false, passage: Passage::Nth(1), for_us: None }
    }

    /// Whether the program comes by there at all.
    ///
    /// # Errors
    ///
    /// It has no such line.
    pub fn check(&self, lines: &[Line]) -> Result<(), StopError> {
        let meant: Vec<Line> = (1..)
            .zip(lines)
            .filter(|(number, line)| self.means(*number, **line))
            .map(|(_, line)| *line)
            .collect();
        match (&self.at, &self.passage) {
            (Which::Number(number), _) if meant.is_empty() => {
                Err(StopError::NoSuchNumber(*number, lines.len() as i32))
            }
            (Which::Word(word), _) if meant.is_empty() => {
                let lines: Vec<String> = lines.iter().map(Line::to_string).collect();
                Err(StopError::NoSuchWord(word.clone(), lines.join("; ")))
            }
            (at, Passage::Record(..)) if !meant.iter().any(Line::is_per_record) => {
                Err(StopError::NotPerRecord(at.to_string()))
            }
            _ => Ok(()),
        }
    }

    fn means(&self, number: i32, line: Line) -> bool {
        match &self.at {
            Which::Next => true,
            Which::Number(meant) => *meant == number,
            Which::Word(word) => *word == line.word(),
        }
    }

    /// The thread comes by a line, before it or behind it; whether this was the time that is meant.
    pub(super) fn comes_by(
        &mut self,
        number: i32,
        line: Line,
        after: bool,
        is_idle: bool,
        in_hand: Option<(&TopicPartition, Offset)>,
    ) -> bool {
        let has_work = !is_idle || matches!(line, Line::Poll { .. } | Line::On(..));
        let counts = has_work || self.at == Which::Next;
        if self.after != after || !counts || !self.means(number, line) {
            return false;
        }
        match &mut self.passage {
            Passage::Nth(left) => {
                *left -= 1;
                *left <= 0
            }
            Passage::Record(tp, offset) => in_hand == Some((tp, *offset)),
        }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Next => f.write_str("its next line"),
            Which::Number(number) => write!(f, "line {number}"),
            Which::Word(word) => f.write_str(word),
        }
    }
}
