//! Commands that have an application call its consumer: reading and writing them.

use super::CommandError;
use super::print::duration;
use super::tokens::{Token, quote};
use super::words::{Words, duration_us, one_of};
use crate::client::consumer::{Ask, Choice, CloseOptions, GroupMembership, Lookup, SeekTo};
use crate::client::pattern::{PatternError, TopicPattern};
use crate::kafka::types::{ClientName, Topic, TopicPartition};
use crate::lab::words::partition_of;
use crate::sim::Command;

const PARTITIONS: &str = "partitions such as orders-0,orders-1";

fn asked(client: ClientName, ask: Ask) -> Command {
    Command::Ask { client, ask }
}

/// `to orders,payments`, `to pattern "audit-.*"`, `to re2j "audit-.*"`, after `subscribe consumer-c`.
pub(super) fn subscribe(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    words.expect("to")?;
    let choice = match pattern(words)? {
        Some(pattern) => pattern,
        None => Choice::Topics(topics(words)?),
    };
    Ok(asked(client, Ask::Choose(choice)))
}

pub(super) fn unsubscribe(client: ClientName) -> Command {
    asked(client, Ask::Unsubscribe)
}

/// `orders-0,orders-1`, after `assign consumer-c`.
pub(super) fn assign(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    Ok(asked(client, Ask::Choose(Choice::Partitions(partitions(words)?))))
}

/// Nothing, which is for producers, or `orders-0,orders-1`, after `pause consumer-c`.
pub(super) fn pause(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    match words.peek() {
        None => Ok(Command::Pause(client)),
        Some(_) => Ok(asked(client, Ask::Pause(partitions(words)?))),
    }
}

/// The same after `resume consumer-c`.
pub(super) fn resume(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    match words.peek() {
        None => Ok(Command::Resume(client)),
        Some(_) => Ok(asked(client, Ask::Resume(partitions(words)?))),
    }
}

/// `orders-0 to 5`, `orders-0 to beginning`, after `seek consumer-c`.
pub(super) fn seek(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    let partition = super::parse::partition(words)?;
    words.expect("to")?;
    let to = if words.accept("beginning").is_some() {
        SeekTo::Beginning
    } else if words.accept("end").is_some() {
        SeekTo::End
    } else {
        SeekTo::Offset(words.parsed("an offset, beginning or end")?)
    };
    Ok(asked(client, Ask::Seek { partition, to }))
}

/// Nothing, `async`, `orders-0=7` or both, after `commit consumer-c`.
pub(super) fn commit(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    const WHAT: &str = "a partition with an offset, such as orders-0=7";
    let waits = words.accept("async").is_none();
    let mut offsets = Vec::new();
    while words.peek().is_some() {
        let token = words.take(WHAT)?;
        let wrong = || CommandError::new(token.column, format!("expected {WHAT}"));
        let offset = token.value.as_ref().and_then(|value| value.parse().ok()).ok_or_else(wrong)?;
        offsets.push((partition_of(&token.text).ok_or_else(wrong)?, offset));
    }
    let offsets = (!offsets.is_empty()).then_some(offsets);
    Ok(asked(client, Ask::Commit { offsets, waits }))
}

/// `for end of orders-0,orders-1`, `for beginning of`, `for position of`, `for lag of`, `for records of orders-0 since 10min`,
/// after `look consumer-c`.
pub(super) fn look(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    words.expect("for")?;
    let kind = one_of(words, &["end", "beginning", "records", "position", "lag"])?;
    words.expect("of")?;
    let partitions = partitions(words)?;
    let what = match kind {
        "end" => Lookup::End,
        "beginning" => Lookup::Beginning,
        "position" => Lookup::Position,
        "lag" => Lookup::Lag,
        _ => {
            words.expect("since")?;
            let column = words.column();
            let us = duration_us(words)?;
            if us % 1000 != 0 {
                return Err(CommandError::new(
                    column,
                    "expected whole milliseconds, as timestamps have them",
                ));
            }
            Lookup::Since { ms: us / 1000 }
        }
    };
    Ok(asked(client, Ask::Look { what, partitions }))
}

/// Nothing, `within 5s`, `leaving group`, `remaining in group`, after `close consumer-c`.
pub(super) fn close(words: &mut Words, client: ClientName) -> Result<Command, CommandError> {
    if words.peek().is_none() {
        return Ok(Command::Close(client));
    }
    let mut options = CloseOptions::default();
    if words.accept("within").is_some() {
        let column = words.column();
        let us = duration_us(words)?;
        if us % 1000 != 0 {
            return Err(CommandError::new(column, "expected whole milliseconds, as close() takes them"));
        }
        options.timeout_ms = Some(us / 1000);
    }
    if words.peek().is_some() {
        options.membership = match one_of(words, &["leaving", "remaining"])? {
            "leaving" => GroupMembership::Leave,
            _ => {
                words.expect("in")?;
                GroupMembership::Remain
            }
        };
        words.expect("group")?;
    }
    Ok(Command::CloseWith { client, options })
}

/// `pattern "audit-.*"`, which the client matches, or `re2j "audit-.*"`, which the coordinator does.
pub(super) fn pattern(words: &mut Words) -> Result<Option<Choice>, CommandError> {
    let matched_here = words.accept("pattern").is_some();
    if !matched_here && words.accept("re2j").is_none() {
        return Ok(None);
    }
    let token = words.plain("a pattern such as \"audit-.*\"")?;
    let refused = |error: PatternError| CommandError::new(token.column, error.to_string());
    let pattern = TopicPattern::new(&token.text);
    Ok(Some(match (matched_here, pattern) {
        (true, pattern) => Choice::Pattern(pattern.map_err(refused)?),
        (false, Err(empty @ PatternError::Empty)) => return Err(refused(empty)),
        // What it means the coordinator judges.
        (false, _) => Choice::Re2j(token.text.as_str().into()),
    }))
}

/// What follows the verb for a choice, or `add consumer consumer-c to billing`.
pub(super) fn print_choice(choice: &Choice) -> String {
    match choice {
        Choice::Topics(topics) => format!("topics {}", list(topics)),
        Choice::Pattern(pattern) => format!("pattern {}", quote(pattern.as_str())),
        Choice::Re2j(pattern) => format!("re2j {}", quote(pattern)),
        Choice::Partitions(partitions) => format!("partitions {}", list(partitions)),
    }
}

/// `orders,payments`
pub(super) fn topics(words: &mut Words) -> Result<Vec<Topic>, CommandError> {
    let token = words.plain("topics such as orders,payments")?;
    super::words::check_filled(token, "topics")?;
    Ok(token.text.split(',').map(|topic| Topic::new(topic.trim())).collect())
}

/// `orders-0,orders-1`
pub(super) fn partitions(words: &mut Words) -> Result<Vec<TopicPartition>, CommandError> {
    let token: &Token = words.plain(PARTITIONS)?;
    let wrong = || CommandError::new(token.column, format!("expected {PARTITIONS}, not {:?}", token.text));
    token.text.split(',').map(|name| partition_of(name.trim())).collect::<Option<_>>().ok_or_else(wrong)
}

/// The one text form of such a command.
pub(super) fn print(client: &ClientName, ask: &Ask) -> String {
    let client = quote(client.as_str());
    match ask {
        Ask::Choose(Choice::Topics(topics)) => format!("subscribe {client} to {}", list(topics)),
        Ask::Choose(choice @ (Choice::Pattern(_) | Choice::Re2j(_))) => {
            format!("subscribe {client} to {}", print_choice(choice))
        }
        Ask::Choose(Choice::Partitions(partitions)) => format!("assign {client} {}", list(partitions)),
        Ask::Unsubscribe => format!("unsubscribe {client}"),
        Ask::Pause(partitions) => format!("pause {client} {}", list(partitions)),
        Ask::Resume(partitions) => format!("resume {client} {}", list(partitions)),
        Ask::Seek { partition, to } => {
            let to = match to {
                SeekTo::Offset(offset) => offset.to_string(),
                SeekTo::Beginning => "beginning".to_owned(),
                SeekTo::End => "end".to_owned(),
            };
            format!("seek {client} {} to {to}", quote(&partition.to_string()))
        }
        Ask::Look { what, partitions } => {
            let partitions = list(partitions);
            match what {
                Lookup::End => format!("look {client} for end of {partitions}"),
                Lookup::Beginning => format!("look {client} for beginning of {partitions}"),
                Lookup::Position => format!("look {client} for position of {partitions}"),
                Lookup::Lag => format!("look {client} for lag of {partitions}"),
                Lookup::Since { ms } => {
                    let since = duration(ms.saturating_mul(1000));
                    format!("look {client} for records of {partitions} since {since}")
                }
            }
        }
        Ask::Commit { offsets, waits } => {
            let how = if *waits { "" } else { " async" };
            let offset =
                |(tp, offset): &(TopicPartition, i64)| format!(" {}={offset}", quote(&tp.to_string()));
            format!("commit {client}{how}{}", offsets.iter().flatten().map(offset).collect::<String>())
        }
    }
}

pub(super) fn print_close(client: &ClientName, options: &CloseOptions) -> String {
    let within = options.timeout_ms.map(|ms| format!(" within {}", duration(ms.saturating_mul(1000))));
    let membership = match options.membership {
        GroupMembership::Default => "",
        GroupMembership::Leave => " leaving group",
        GroupMembership::Remain => " remaining in group",
    };
    format!("close {}{}{membership}", quote(client.as_str()), within.unwrap_or_default())
}

/// Names as one word.
pub(super) fn list<T: ToString>(names: &[T]) -> String {
    quote(&names.iter().map(T::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::super::{Written, parse, print as print_command};
    use super::*;

    fn check(text: &str, ask: Ask) {
        check_command(text, Command::Ask { client: ClientName::new("c"), ask });
    }

    fn check_command(text: &str, command: Command) {
        assert_eq!(parse(text), Ok(Written::Whole(command.clone())), "{text}");
        assert_eq!(print_command(&command), text);
    }

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new(&Topic::new("orders"), partition)
    }

    #[test]
    fn each_call_has_one_text_form() {
        let topics = ["orders", "payments"].map(Topic::new).to_vec();
        check("subscribe c to orders,payments", Ask::Choose(Choice::Topics(topics)));
        let pattern = Choice::Pattern(TopicPattern::new("audit-.*").unwrap());
        check("subscribe c to pattern \"audit-.*\"", Ask::Choose(pattern));
        check("subscribe c to re2j \"(?i)a|b\"", Ask::Choose(Choice::Re2j("(?i)a|b".into())));
        check("subscribe c to \"pattern\"", Ask::Choose(Choice::Topics(vec![Topic::new("pattern")])));
        check("unsubscribe c", Ask::Unsubscribe);
        check("assign c orders-0,orders-2", Ask::Choose(Choice::Partitions(vec![tp(0), tp(2)])));
        check("pause c orders-0,orders-2", Ask::Pause(vec![tp(0), tp(2)]));
        check("resume c orders-0", Ask::Resume(vec![tp(0)]));
        let seek = |to| Ask::Seek { partition: tp(0), to };
        check("seek c orders-0 to 5", seek(SeekTo::Offset(5)));
        check("seek c orders-0 to beginning", seek(SeekTo::Beginning));
        check("seek c orders-0 to end", seek(SeekTo::End));
        let look = |what| Ask::Look { what, partitions: vec![tp(0), tp(2)] };
        check("look c for end of orders-0,orders-2", look(Lookup::End));
        check("look c for beginning of orders-0,orders-2", look(Lookup::Beginning));
        check("look c for position of orders-0,orders-2", look(Lookup::Position));
        check("look c for lag of orders-0,orders-2", look(Lookup::Lag));
        check("look c for records of orders-0,orders-2 since 10min", look(Lookup::Since { ms: 600_000 }));
        check("commit c", Ask::Commit { offsets: None, waits: true });
        check("commit c async", Ask::Commit { offsets: None, waits: false });
        let offsets = Some(vec![(tp(0), 7), (tp(1), 3)]);
        check("commit c orders-0=7 orders-1=3", Ask::Commit { offsets: offsets.clone(), waits: true });
        check("commit c async orders-0=7 orders-1=3", Ask::Commit { offsets, waits: false });
    }

    #[test]
    fn close_has_its_options() {
        let close = |timeout_ms, membership| Command::CloseWith {
            client: ClientName::new("c"),
            options: CloseOptions { membership, timeout_ms },
        };
        check_command("close c", Command::Close(ClientName::new("c")));
        check_command("close c within 5s", close(Some(5_000), GroupMembership::Default));
        check_command("close c leaving group", close(None, GroupMembership::Leave));
        check_command("close c within 0ms remaining in group", close(Some(0), GroupMembership::Remain));
    }

    fn check_refused(text: &str, message: &str) {
        assert_eq!(parse(text).unwrap_err().to_string(), message);
    }

    #[test]
    fn what_is_no_call_is_refused_with_its_column() {
        check_refused("subscribe c", "column 12: expected to");
        check_refused("subscribe c to pattern", "column 23: expected a pattern such as \"audit-.*\"");
        let empty = "Topic pattern to subscribe to cannot be empty";
        check_refused("subscribe c to pattern \"\"", &format!("column 24: {empty}"));
        check_refused("subscribe c to re2j \"\"", &format!("column 21: {empty}"));
        check_refused("assign c orders", &format!("column 10: expected {PARTITIONS}, not \"orders\""));
        check_refused("pause c orders-x", &format!("column 9: expected {PARTITIONS}, not \"orders-x\""));
        let offset = "expected an offset, beginning or end";
        check_refused("seek c orders-0 to start", &format!("column 20: {offset}, not \"start\""));
        check_refused(
            "commit c orders-0",
            "column 10: expected a partition with an offset, such as orders-0=7",
        );
        check_refused("close c soon", "column 9: expected one of leaving, remaining, not \"soon\"");
        check_refused("close c within 5us", "column 16: expected whole milliseconds, as close() takes them");
    }
}
