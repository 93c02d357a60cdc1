//! Commands about the program of a client's application: reading and writing them.
//!
//! `crash consumer-c at commit`, `hang consumer-c after line 2 passage 3 for 5min`, `set program of consumer-c to "poll"`.

use super::CommandError;
use super::parse::{partition, program};
use super::print::duration;
use super::tokens::quote;
use super::words::{Words, duration_us};
use crate::client::program::{Order, Passage, Stop, Which, text};
use crate::kafka::event::Halt;
use crate::kafka::types::{ClientName, Offset};
use crate::sim::Command;

fn ordered(client: ClientName, order: Order) -> Command {
    Command::Program { client, order }
}

/// Whether a place in the program follows, as in `crash consumer-c at commit`.
pub(super) fn says_where(words: &Words) -> bool {
    words.peek().is_some_and(|token| !token.quoted && ["at", "after"].contains(&&*token.text))
}

/// The place, after `crash consumer-c` or `freeze consumer-c`.
pub(super) fn stop(words: &mut Words, client: ClientName, how: Halt) -> Result<Command, CommandError> {
    let after = words.accept("after").is_some();
    if !after {
        words.expect("at")?;
    }
    let at = match words.accept("line") {
        Some(token) => match words.id("a line's number")? {
            0 => return Err(CommandError::new(token.column, "lines count from 1")),
            number => Which::Number(number),
        },
        None => Which::Word(words.keyword("a line such as commit, or line 3")?.text.clone()),
    };
    let passage = if words.accept("passage").is_some() {
        let column = words.column();
        match words.id("a number")? {
            0 => return Err(CommandError::new(column, "passages count from 1")),
            number => Passage::Nth(number),
        }
    } else if words.accept("record").is_some() {
        let partition = partition(words)?;
        words.expect("offset")?;
        Passage::Record(partition, Offset(words.parsed("an offset")?))
    } else {
        Passage::Nth(1)
    };
    Ok(ordered(client, Order::Stop(Stop { how, at, after, passage, for_us: None })))
}

/// Nothing, a place, a time, or both, after `hang consumer-c`.
pub(super) fn hang(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    let mut command = match says_where(words) {
        true => stop(words, client, Halt::Hang)?,
        false => ordered(client, Order::Stop(Stop::next(Halt::Hang))),
    };
    if words.accept("for").is_some()
        && let Command::Program { order: Order::Stop(stop), .. } = &mut command
    {
        stop.for_us = Some(duration_us(words)?);
    }
    Ok(command)
}

pub(super) fn wake(client: ClientName) -> Command {
    ordered(client, Order::Wake)
}

/// `of consumer-c to "poll; commit; process 20ms"`, after `set program`.
pub(super) fn set_program(words: &mut Words) -> Result<Command, CommandError> {
    let client = whose(words)?;
    Ok(ordered(client, Order::Exchange(program(words)?)))
}

/// `of consumer-c to 500ms`, after `set pace`.
pub(super) fn set_pace(words: &mut Words) -> Result<Command, CommandError> {
    let client = whose(words)?;
    Ok(ordered(client, Order::Pace { us_per_record: duration_us(words)? }))
}

fn whose(words: &mut Words) -> Result<ClientName, CommandError> {
    words.expect("of")?;
    let client = super::parse::client(words)?;
    words.expect("to")?;
    Ok(client)
}

/// The one text form of such a command.
pub(super) fn print(client: &ClientName, order: &Order) -> String {
    let client = quote(client.as_str());
    match order {
        Order::Stop(stop) => print_stop(&client, stop),
        Order::Wake => format!("wake {client}"),
        Order::Exchange(lines) => format!("set program of {client} to {}", quote(&text(lines))),
        Order::Pace { us_per_record } => format!("set pace of {client} to {}", duration(*us_per_record)),
    }
}

fn print_stop(client: &str, stop: &Stop) -> String {
    let verb = match stop.how {
        Halt::Crash => "crash",
        Halt::Freeze => "freeze",
        Halt::Hang => "hang",
    };
    let side = if stop.after { "after" } else { "at" };
    let place = match &stop.at {
        Which::Next => String::new(),
        Which::Number(number) => format!(" {side} line {number}"),
        Which::Word(word) => format!(" {side} {}", quote(word)),
    };
    let passage = match &stop.passage {
        Passage::Nth(1) => String::new(),
        Passage::Nth(number) => format!(" passage {number}"),
        Passage::Record(tp, offset) => format!(" record {} offset {offset}", quote(&tp.to_string())),
    };
    let time = stop.for_us.map(|us| format!(" for {}", duration(us))).unwrap_or_default();
    format!("{verb} {client}{place}{passage}{time}")
}

#[cfg(test)]
mod tests {
    use super::super::{Written, parse, print as print_command};
    use super::*;
    use crate::client::program::{Committed, KNOWN_LINES, Line};
    use crate::kafka::types::{Topic, TopicPartition};

    fn check(text: &str, order: Order) {
        let command = ordered(ClientName::new("c"), order);
        assert_eq!(parse(text), Ok(Written::Whole(command.clone())), "{text}");
        assert_eq!(print_command(&command), text);
    }

    #[test]
    fn each_order_has_one_text_form() {
        let word = |word: &str| Which::Word(word.to_owned());
        let stop = |how, at, after, passage| Stop { how, at, after, passage, for_us: None };
        let check_stop = |text: &str, stop: Stop| check(text, Order::Stop(stop));
        check_stop("crash c at commit", stop(Halt::Crash, word("commit"), false, Passage::Nth(1)));
        check_stop("crash c after line 3", stop(Halt::Crash, Which::Number(3), true, Passage::Nth(1)));
        let offset_7 = Passage::Record(TopicPartition::new(&Topic::new("t"), 0), Offset(7));
        check_stop(
            "crash c at process record t-0 offset 7",
            stop(Halt::Crash, word("process"), false, offset_7),
        );
        check_stop("freeze c at poll passage 2", stop(Halt::Freeze, word("poll"), false, Passage::Nth(2)));
        check_stop("hang c", Stop::next(Halt::Hang));
        check_stop("hang c for 5min", Stop { for_us: Some(300_000_000), ..Stop::next(Halt::Hang) });
        let commit = stop(Halt::Hang, word("commit"), true, Passage::Nth(1));
        check_stop("hang c after commit for 2s", Stop { for_us: Some(2_000_000), ..commit });
        check("wake c", Order::Wake);
        let lines = vec![Line::Poll { timeout_ms: 100 }, Line::CommitRecord(Committed::Own)];
        check("set program of c to \"poll; commit record offset\"", Order::Exchange(lines));
        check("set pace of c to 500ms", Order::Pace { us_per_record: 500_000 });
    }

    fn check_refused(text: &str, message: &str) {
        assert_eq!(parse(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn what_is_no_order_is_refused_with_its_column() {
        check_refused("crash c at", "column 11: expected a line such as commit, or line 3");
        check_refused("crash c at line 0", "column 12: lines count from 1");
        check_refused("crash c at line x", "column 17: expected a line's number, not \"x\"");
        check_refused("crash c at commit passage 0", "column 27: passages count from 1");
        check_refused(
            "crash c at commit record t",
            "column 26: expected a partition such as orders-0, not \"t\"",
        );
        check_refused("freeze broker 2 at commit", "column 17: nothing can follow here, but \"at\" does");
        check_refused("hang c soon", "column 8: nothing can follow here, but \"soon\" does");
        check_refused(
            "set program of c to process",
            &format!("column 21: line 1: \"process\" is none of: {KNOWN_LINES}"),
        );
        check_refused("set pace of c", "column 14: expected to");
    }
}
