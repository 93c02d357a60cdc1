//! The lines of a program: calls of the client, and the application's own work.
//!
//! Lines that are done with one record at a time ([`Line::is_per_record`]) and follow each other are one loop over the
//! records of the last poll: `process 20ms; commit record` processes and commits the first record before the second.
//!
//! **Invariant:** a line reads as it prints.

use std::fmt;

use super::{Callback, ProgramError, Reaction};
use crate::client::saying::Saying;
use crate::kafka::time::parse_us;

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
    /// For each record commitSync() of one offset of its partition.
    CommitRecord(Committed),
    /// Gives the records of the last poll to a pool of workers, each of which takes so long for one; takes no time itself.
    HandOff { us_per_record: i64, workers: i32 },
    /// commitSync() of what the workers have done, as far as nothing before it is open.
    CommitDone,
    /// beginTransaction() of the application's producer.
    Begin,
    /// For each record send() of one result.
    SendResults,
    /// sendOffsetsToTransaction() of where to go on behind the last poll's records.
    SendOffsets {
        /// With what the consumer says of its membership, else with the group's name alone (A62).
        with_metadata: bool,
    },
    /// commitTransaction()
    CommitTransaction,
    /// abortTransaction()
    Abort,
    /// flush() of the producer.
    Flush,
    /// In a callback of the listener for partitions, inside another line.
    On(Callback, Reaction),
    /// acknowledge() of records that the last poll returned; takes no time. Share consumers alone have it.
    Acknowledge(Saying),
}

/// Which offset is committed by hand for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Committed {
    /// The record's own and one: where to go on (R-CONS-15).
    Next,
    /// The record's own: the classic error, after which it is read again at each restart (A48).
    Own,
}

const DEFAULT_POLL_TIMEOUT_MS: i64 = 100;
const DEFAULT_WORKERS: i32 = 4;

impl Line {
    /// Reads the lines of a program.
    pub fn parse_program<S: AsRef<str>>(lines: &[S]) -> Result<Vec<Line>, ProgramError> {
        let numbered = (1..).zip(lines);
        let program: Vec<Line> =
            numbered.map(|(line, text)| Line::parse(line, text.as_ref())).collect::<Result<_, _>>()?;
        let below = program.iter().skip_while(|line| line.callback().is_none());
        if below.clone().any(|line| line.callback().is_none()) {
            let line = (program.len() - below.count()) as i32 + 1;
            return Err(ProgramError::BelowCallback { line });
        }
        match program.iter().any(|line| matches!(line, Line::Poll { .. })) {
            true => Ok(program),
            false => Err(ProgramError::NoPoll),
        }
    }

    pub(super) fn parse(line: i32, text: &str) -> Result<Line, ProgramError> {
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
            ["commit", "record"] => Ok(Line::CommitRecord(Committed::Next)),
            ["commit", "record", "offset"] => Ok(Line::CommitRecord(Committed::Own)),
            ["begin"] => Ok(Line::Begin),
            ["send", "results"] => Ok(Line::SendResults),
            ["send", "offsets"] => Ok(Line::SendOffsets { with_metadata: true }),
            ["send", "offsets", "by", "group"] => Ok(Line::SendOffsets { with_metadata: false }),
            ["commit", "transaction"] => Ok(Line::CommitTransaction),
            ["abort"] => Ok(Line::Abort),
            ["flush"] => Ok(Line::Flush),
            ["commit", "done"] => Ok(Line::CommitDone),
            ["hand", "off", time] => {
                Ok(Line::HandOff { us_per_record: duration_us(line, time)?, workers: DEFAULT_WORKERS })
            }
            ["hand", "off", time, "to", workers, "workers"] => {
                let workers = workers.parse().ok().filter(|workers| (1..=1000).contains(workers));
                let workers = workers.ok_or(ProgramError::Workers { line })?;
                Ok(Line::HandOff { us_per_record: duration_us(line, time)?, workers })
            }
            ["on", callback, ..] if let Some(callback) = Callback::parse(callback) => {
                let reaction = reaction(line, &words[2..])?;
                let reaction =
                    reaction.ok_or_else(|| ProgramError::UnknownLine { line, text: text.to_owned() })?;
                Ok(Line::On(callback, reaction))
            }
            _ if let Some(saying) = Saying::parse(&words) => Ok(Line::Acknowledge(saying)),
            _ => Err(ProgramError::UnknownLine { line, text: text.to_owned() }),
        }
    }

    /// Its first word, by which a person means it.
    pub fn word(&self) -> &'static str {
        match self {
            Line::Poll { .. } => "poll",
            Line::Process { .. } => "process",
            Line::Commit | Line::CommitAsync | Line::CommitRecord(_) | Line::CommitDone => "commit",
            Line::HandOff { .. } => "hand",
            Line::Begin => "begin",
            Line::SendResults | Line::SendOffsets { .. } => "send",
            Line::CommitTransaction => "commit",
            Line::Abort => "abort",
            Line::Flush => "flush",
            Line::On(..) => "on",
            Line::Acknowledge(saying) => saying.word(),
        }
    }

    /// The callback that it is of.
    pub fn callback(&self) -> Option<Callback> {
        match self {
            Line::On(callback, _) => Some(*callback),
            _ => None,
        }
    }

    /// Whether share consumers have no such line.
    pub fn is_of_consumers_alone(&self) -> bool {
        matches!(self, Line::CommitRecord(_) | Line::CommitDone | Line::HandOff { .. } | Line::On(..))
            || self.is_of_applications_alone()
    }

    /// Whether it is done with one record of the last poll at a time.
    pub fn is_per_record(&self) -> bool {
        matches!(self, Line::Process { .. } | Line::CommitRecord(_) | Line::SendResults)
    }

    /// Whether it is a call of a producer's.
    pub fn is_of_applications_alone(&self) -> bool {
        self.is_of_transactions() || matches!(self, Line::SendResults | Line::Flush)
    }

    /// Whether only a transactional producer can be called so.
    pub fn is_of_transactions(&self) -> bool {
        matches!(self, Line::Begin | Line::SendOffsets { .. } | Line::CommitTransaction | Line::Abort)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Line::Poll { timeout_ms: DEFAULT_POLL_TIMEOUT_MS } => f.write_str("poll"),
            Line::Poll { timeout_ms } => write!(f, "poll {timeout_ms}ms"),
            Line::Process { us_per_record } => write!(f, "process {}", time(us_per_record)),
            Line::Commit => f.write_str("commit"),
            Line::CommitAsync => f.write_str("commit async"),
            Line::CommitRecord(Committed::Next) => f.write_str("commit record"),
            Line::CommitRecord(Committed::Own) => f.write_str("commit record offset"),
            Line::HandOff { us_per_record, workers } => {
                write!(f, "hand off {} to {workers} workers", time(us_per_record))
            }
            Line::CommitDone => f.write_str("commit done"),
            Line::Begin => f.write_str("begin"),
            Line::SendResults => f.write_str("send results"),
            Line::SendOffsets { with_metadata: true } => f.write_str("send offsets"),
            Line::SendOffsets { with_metadata: false } => f.write_str("send offsets by group"),
            Line::CommitTransaction => f.write_str("commit transaction"),
            Line::Abort => f.write_str("abort"),
            Line::Flush => f.write_str("flush"),
            Line::On(callback, reaction) => {
                write!(f, "on {callback} ")?;
                match reaction {
                    Reaction::Commit => f.write_str("commit"),
                    Reaction::CommitAsync => f.write_str("commit async"),
                    Reaction::CommitDone => f.write_str("commit done"),
                    Reaction::Wait { us } => write!(f, "wait {}", time(us)),
                    Reaction::Throw => f.write_str("throw"),
                }
            }
            Line::Acknowledge(saying) => saying.fmt(f),
        }
    }
}

/// What a callback does, in the words behind its name.
fn reaction(line: i32, words: &[&str]) -> Result<Option<Reaction>, ProgramError> {
    Ok(Some(match words {
        ["commit"] => Reaction::Commit,
        ["commit", "async"] => Reaction::CommitAsync,
        ["commit", "done"] => Reaction::CommitDone,
        ["wait", time] => Reaction::Wait { us: duration_us(line, time)? },
        ["throw"] => Reaction::Throw,
        _ => return Ok(None),
    }))
}

fn time(us: i64) -> String {
    match us % 1000 {
        0 => format!("{}ms", us / 1000),
        _ => format!("{us}us"),
    }
}

fn duration_us(line: i32, text: &str) -> Result<i64, ProgramError> {
    parse_us(text).ok_or_else(|| ProgramError::Duration { line, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::KNOWN_LINES;
    use super::*;
    use crate::client::saying::Choice;
    use crate::kafka::share::AcknowledgeType;

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
        check("commit  record", Line::CommitRecord(Committed::Next), "commit record");
        let hand_off = |workers| Line::HandOff { us_per_record: 20_000, workers };
        check("hand off  20ms", hand_off(4), "hand off 20ms to 4 workers");
        check("hand off 20ms to 1 workers", hand_off(1), "hand off 20ms to 1 workers");
        check("send results", Line::SendResults, "send results");
        check("send offsets by group", Line::SendOffsets { with_metadata: false }, "send offsets by group");
        check("commit transaction", Line::CommitTransaction, "commit transaction");
        check("commit done", Line::CommitDone, "commit done");
        check("commit record offset", Line::CommitRecord(Committed::Own), "commit record offset");
        check("on  revoked commit", Line::On(Callback::Revoked, Reaction::Commit), "on revoked commit");
        let wait = Reaction::Wait { us: 2_000_000 };
        check("on assigned wait 2s", Line::On(Callback::Assigned, wait), "on assigned wait 2000ms");
        check("on lost throw", Line::On(Callback::Lost, Reaction::Throw), "on lost throw");
        let saying = Saying { kind: AcknowledgeType::Release, of: Choice::Percent(5) };
        check("release  5%", Line::Acknowledge(saying), "release 5%");
    }

    fn check_refused(lines: &[&str], message: &str) {
        assert_eq!(Line::parse_program(lines).unwrap_err().to_string(), message);
    }

    #[test]
    fn a_wrong_program_is_refused_with_the_line() {
        let forms = format!("is none of: {KNOWN_LINES}");
        check_refused(&["poll", "sleep 1s"], &format!("line 2: \"sleep 1s\" {forms}"));
        check_refused(&["poll", "process"], &format!("line 2: \"process\" {forms}"));
        check_refused(&["poll", "on revoked"], &format!("line 2: \"on revoked\" {forms}"));
        check_refused(
            &["poll", "on revoked commit", "commit"],
            "line 2: what a callback does, such as on revoked commit, stands below all other lines",
        );
        check_refused(&["poll soon"], "line 1: \"soon\" is no duration such as 20ms, 500us or 2s");
        check_refused(&["poll", "process 20"], "line 2: \"20\" is no duration such as 20ms, 500us or 2s");
        check_refused(
            &["poll 9223372036854775807s"],
            "line 1: \"9223372036854775807s\" is no duration such as 20ms, 500us or 2s",
        );
        check_refused(&["poll", "hand off 1s to 0 workers"], "line 2: a pool has between 1 and 1000 workers");
        check_refused(&["poll 999us"], "line 1: a poll waits for at least 1ms");
        check_refused(&["process 20ms", "commit"], "a program without poll would never read a record");
        check_refused(&[], "a program without poll would never read a record");
    }
}
