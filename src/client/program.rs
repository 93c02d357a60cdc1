//! The application that a consumer or share consumer is embedded in: a few visible lines that its thread runs in a loop.
//!
//! A line is a call of the consumer (`poll`, `commit`, `accept`) or the application's own work (`process`). What Kafka does only
//! inside poll(), and therefore not while the application works, follows from the line the thread is in (R-CONS-7).
//!
//! **Invariant:** a program polls, so that its loop takes time.

use std::fmt;
use std::rc::Rc;

use super::saying::Saying;
use crate::kafka::time::{Time, parse_us};
use crate::kafka::types::{Offset, TopicPartition};

/// One line of a program, as in `poll 250ms`, `process 20ms`, `commit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// poll(timeout): waits for records or the timeout, whichever comes first.
    Poll { timeout_ms: i64 },
    /// Works on each record of the last poll in turn.
    Process { us_per_record: i64 },
    /// commitSync() of the current positions, or of a share consumer's acknowledgements.
    Commit,
    /// commitAsync() of the current positions.
    CommitAsync,
    /// acknowledge() of records that the last poll returned; takes no time. Share consumers alone have it.
    Acknowledge(Saying),
}

const DEFAULT_POLL_TIMEOUT_MS: i64 = 100;

/// A program that cannot be run; lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    #[error(
        "line {line}: {text:?} is none of: poll, poll 250ms, process 20ms, commit, commit async; \
         a share consumer also has accept, release 10%, reject offset 3, renew"
    )]
    UnknownLine { line: i32, text: String },
    #[error("line {line}: {text:?} is no duration such as 20ms, 500us or 2s")]
    Duration { line: i32, text: String },
    #[error("line {line}: a poll waits for at least 1ms")]
    PollTooShort { line: i32 },
    #[error("a program without poll would never read a record")]
    NoPoll,
    #[error("{0}: only a share consumer acknowledges records one by one")]
    NotShared(Line),
    #[error("{0}: IllegalStateException: Implicit acknowledgement of delivery is being used.")]
    Implicit(Line),
    #[error(
        "All records must be acknowledged in explicit acknowledgement mode: the program needs a line accept, release, \
         reject or renew for the rest of them"
    )]
    NotAll,
}

impl Line {
    /// Reads the lines of a program.
    pub fn parse_program<S: AsRef<str>>(lines: &[S]) -> Result<Vec<Line>, ProgramError> {
        let numbered = (1..).zip(lines);
        let program: Vec<Line> =
            numbered.map(|(line, text)| Line::parse(line, text.as_ref())).collect::<Result<_, _>>()?;
        match program.iter().any(|line| matches!(line, Line::Poll { .. })) {
            true => Ok(program),
            false => Err(ProgramError::NoPoll),
        }
    }

    fn parse(line: i32, text: &str) -> Result<Line, ProgramError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["poll"] => Ok(Line::Poll { timeout_ms: DEFAULT_POLL_TIMEOUT_MS }),
            ["poll", timeout] => match duration_us(line, timeout)? / 1000 {
                0 => Err(ProgramError::PollTooShort { line }),
                timeout_ms => Ok(Line::Poll { timeout_ms }),
            },
            ["process", time] => Ok(Line::Process { us_per_record: duration_us(line, time)? }),
            ["commit"] => Ok(Line::Commit),
            ["commit", "async"] => Ok(Line::CommitAsync),
            _ if let Some(saying) = Saying::parse(&words) => Ok(Line::Acknowledge(saying)),
            _ => Err(ProgramError::UnknownLine { line, text: text.to_owned() }),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Line::Poll { timeout_ms: DEFAULT_POLL_TIMEOUT_MS } => f.write_str("poll"),
            Line::Poll { timeout_ms } => write!(f, "poll {timeout_ms}ms"),
            Line::Process { us_per_record } if us_per_record % 1000 == 0 => {
                write!(f, "process {}ms", us_per_record / 1000)
            }
            Line::Process { us_per_record } => write!(f, "process {us_per_record}us"),
            Line::Commit => f.write_str("commit"),
            Line::CommitAsync => f.write_str("commit async"),
            Line::Acknowledge(saying) => saying.fmt(f),
        }
    }
}

fn duration_us(line: i32, text: &str) -> Result<i64, ProgramError> {
    parse_us(text).ok_or_else(|| ProgramError::Duration { line, text: text.to_owned() })
}

/// A record that poll() returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Returned {
    pub tp: TopicPartition,
    pub offset: Offset,
    /// How often it has been handed out, with this time; a share group counts that.
    pub delivery_count: Option<i16>,
}

/// What the application's thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// The process has not started, or the program is over.
    Stopped,
    /// Subscribed to nothing: poll() would throw, and the application waits until somebody has it choose.
    Idle,
    /// Inside poll().
    Polling { since: Time, until: Time },
    /// Working on [`Program::record_in_hand`].
    Processing { until: Time },
    /// Inside commitSync().
    Committing { since: Time },
    /// Inside commitAsync(), which returns at once.
    CommittingAsync,
    /// Inside close(), which gives up at `until`.
    Closing { until: Time, step: CloseStep },
}

/// How far close() is (R-CONS-17, R-CONS-27).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseStep {
    /// The last automatic commit is made.
    Committing,
    /// LeaveGroup is on its way.
    Leaving,
    /// The group was left, or was not joined.
    Left,
    /// The brokers are told to forget the fetch sessions; so many have not answered.
    EndingSessions { left: i32 },
}

/// The application's thread: which line it is in, and how far.
#[derive(Clone, Debug)]
pub struct Program {
    lines: Rc<[Line]>,
    /// Index of the current line.
    line: i32,
    pub(in crate::client) activity: Activity,
    /// What the last poll returned.
    batch: Rc<[Returned]>,
    /// How many of them the current process line is done with.
    processed: i32,
}

impl Program {
    pub fn new(lines: &[Line]) -> Program {
        Program {
            lines: lines.into(),
            line: 0,
            activity: Activity::Stopped,
            batch: Rc::from([]),
            processed: 0,
        }
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Index of the current line, from 0.
    pub fn line_index(&self) -> i32 {
        self.line
    }

    pub fn line(&self) -> Line {
        self.lines[self.line as usize]
    }

    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// The records that the last poll returned.
    pub fn batch(&self) -> &[Returned] {
        &self.batch
    }

    /// How many records of [`Self::batch`] the current process line is done with.
    pub fn processed(&self) -> i32 {
        self.processed
    }

    /// The record that is being processed.
    pub fn record_in_hand(&self) -> Option<&Returned> {
        match self.activity {
            Activity::Processing { .. } => self.batch.get(self.processed as usize),
            _ => None,
        }
    }

    pub(in crate::client) fn take_batch(&mut self, batch: Vec<Returned>) {
        self.batch = batch.into();
    }

    pub(in crate::client) fn next_line(&mut self) {
        self.line = (self.line + 1) % self.lines.len() as i32;
    }

    pub(in crate::client) fn start_processing(&mut self, now: Time, us_per_record: i64) {
        self.processed = 0;
        self.activity = Activity::Processing { until: now.plus_us(us_per_record) };
    }

    /// The next record that is done by `now`; `None` when one is still in hand, or none is left
    /// ([`Self::is_batch_done`]).
    pub(in crate::client) fn finish_record(&mut self, now: Time) -> Option<Returned> {
        let Activity::Processing { until } = self.activity else { return None };
        let done = self.batch.get(self.processed as usize).filter(|_| until <= now)?.clone();
        self.processed += 1;
        if let Line::Process { us_per_record } = self.line() {
            // From now on, not from `until` on: a process that stood still did not work in between.
            self.activity = Activity::Processing { until: now.plus_us(us_per_record) };
        }
        Some(done)
    }

    pub(in crate::client) fn is_batch_done(&self) -> bool {
        self.processed as usize >= self.batch.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::saying::Choice;
    use super::*;
    use crate::kafka::share::AcknowledgeType;
    use crate::kafka::types::Topic;

    fn check(text: &str, line: Line, printed: &str) {
        assert_eq!(Line::parse(1, text), Ok(line));
        assert_eq!(line.to_string(), printed);
        assert_eq!(Line::parse(1, printed), Ok(line));
    }

    #[test]
    fn lines_read_as_they_print() {
        check("poll", Line::Poll { timeout_ms: 100 }, "poll");
        check(" poll  250ms ", Line::Poll { timeout_ms: 250 }, "poll 250ms");
        check("poll 2s", Line::Poll { timeout_ms: 2000 }, "poll 2000ms");
        check("process 20ms", Line::Process { us_per_record: 20_000 }, "process 20ms");
        check("process 500us", Line::Process { us_per_record: 500 }, "process 500us");
        check("process 0ms", Line::Process { us_per_record: 0 }, "process 0ms");
        check("commit", Line::Commit, "commit");
        check("commit  async", Line::CommitAsync, "commit async");
        let saying = Saying { kind: AcknowledgeType::Release, of: Choice::Percent(5) };
        check("release  5%", Line::Acknowledge(saying), "release 5%");
    }

    fn check_refused(lines: &[&str], message: &str) {
        assert_eq!(Line::parse_program(lines).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_wrong_program_is_refused_with_the_line() {
        let forms = "is none of: poll, poll 250ms, process 20ms, commit, commit async; a share consumer also has \
                     accept, \
                     release 10%, reject offset 3, renew";
        check_refused(&["poll", "sleep 1s"], &format!("line 2: \"sleep 1s\" {forms}"));
        check_refused(&["poll", "process"], &format!("line 2: \"process\" {forms}"));
        check_refused(&["poll soon"], "line 1: \"soon\" is no duration such as 20ms, 500us or 2s");
        check_refused(&["poll", "process 20"], "line 2: \"20\" is no duration such as 20ms, 500us or 2s");
        check_refused(
            &["poll 9223372036854775807s"],
            "line 1: \"9223372036854775807s\" is no duration such as 20ms, 500us or 2s",
        );
        check_refused(&["poll 999us"], "line 1: a poll waits for at least 1ms");
        check_refused(&["process 20ms", "commit"], "a program without poll would never read a record");
        check_refused(&[], "a program without poll would never read a record");
    }

    #[test]
    fn each_record_takes_its_time_in_turn() {
        let lines = Line::parse_program(&["process 20ms", "poll"]).unwrap();
        let mut program = Program::new(&lines);
        let record = |offset| Returned {
            tp: TopicPartition::new(&Topic::new("t"), 0),
            offset: Offset(offset),
            delivery_count: None,
        };
        program.take_batch(vec![record(7), record(8)]);
        program.start_processing(Time::from_ms(100), 20_000);
        assert_eq!(program.finish_record(Time::from_ms(119)), None);
        assert_eq!(program.record_in_hand(), Some(&record(7)));
        assert_eq!(program.finish_record(Time::from_ms(120)), Some(record(7)));
        assert_eq!(program.activity(), Activity::Processing { until: Time::from_ms(140) });
        assert_eq!(program.finish_record(Time::from_ms(139)), None);
        assert_eq!(program.finish_record(Time::from_ms(140)), Some(record(8)));
        assert!(program.is_batch_done());
    }

    #[test]
    fn a_process_that_stood_still_did_not_work_in_between() {
        let lines = Line::parse_program(&["process 20ms", "poll"]).unwrap();
        let mut program = Program::new(&lines);
        let tp = TopicPartition::new(&Topic::new("t"), 0);
        let record = |offset| Returned { tp: tp.clone(), offset: Offset(offset), delivery_count: None };
        program.take_batch(vec![record(7), record(8)]);
        program.start_processing(Time::ZERO, 20_000);
        assert_eq!(program.finish_record(Time::from_ms(500)), Some(record(7)));
        assert_eq!(program.finish_record(Time::from_ms(500)), None);
        assert_eq!(program.activity(), Activity::Processing { until: Time::from_ms(520) });
    }
}
