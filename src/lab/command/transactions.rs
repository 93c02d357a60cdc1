//! Commands about transactions, as `kafka-transactions.sh` has them: reading and writing them.

use super::CommandError;
use super::parse::partition;
use super::print::duration;
use super::tokens::quote;
use super::words::{Words, check_filled, duration_us};
use crate::client::admin::{Area, TransactionFilter, TransactionOperation};
use crate::kafka::types::{Offset, Topic, TransactionalId};
use crate::sim::Command;

/// `longer than 10s matching "bank-.*"`, after `list transactions`.
pub(super) fn list(words: &mut Words) -> Result<Command, CommandError> {
    let longer_than_ms = longer_than(words)?;
    let pattern = match words.accept("matching") {
        Some(_) => {
            const WHAT: &str = "a regular expression";
            let token = words.plain(WHAT)?;
            check_filled(token, WHAT)?;
            Some(token.text.clone())
        }
        None => None,
    };
    Ok(Command::Transactions(TransactionOperation::List(TransactionFilter { longer_than_ms, pattern })))
}

/// `longer than 10s`, if it is said.
fn longer_than(words: &mut Words) -> Result<Option<i64>, CommandError> {
    if words.accept("longer").is_none() {
        return Ok(None);
    }
    words.expect("than")?;
    let column = words.column();
    match duration_us(words)? {
        us if us % 1000 == 0 => Ok(Some(us / 1000)),
        _ => Err(CommandError::new(column, "expected whole milliseconds, as timestamps have them")),
    }
}

/// `bank-1`, after `describe transaction`.
pub(super) fn describe(words: &mut Words) -> Result<Command, CommandError> {
    const WHAT: &str = "a transactional id";
    let id = words.plain(WHAT)?;
    check_filled(id, WHAT)?;
    Ok(Command::Transactions(TransactionOperation::Describe(TransactionalId::new(&id.text))))
}

/// `of orders-0`, after `describe producers`.
pub(super) fn describe_producers(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("of")?;
    Ok(Command::Transactions(TransactionOperation::DescribeProducers(partition(words)?)))
}

/// `hanging transactions of topic orders longer than 30min`, after `find`.
pub(super) fn find(words: &mut Words) -> Result<Command, CommandError> {
    for keyword in ["hanging", "transactions", "of"] {
        words.expect(keyword)?;
    }
    let area = match words.accept("topic") {
        Some(_) => Area::Topic(Topic::new(&words.plain("a topic's name")?.text)),
        None => Area::Partition(partition(words)?),
    };
    let longer_than_ms = longer_than(words)?;
    Ok(Command::Transactions(TransactionOperation::FindHanging { area, longer_than_ms }))
}

/// `transaction on orders-0 from offset 40`, after `abort`.
pub(super) fn abort(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("transaction")?;
    words.expect("on")?;
    let tp = partition(words)?;
    words.expect("from")?;
    words.expect("offset")?;
    let start = Offset(words.parsed("an offset")?);
    Ok(Command::Transactions(TransactionOperation::Abort { tp, start }))
}

pub(super) fn print(operation: &TransactionOperation) -> String {
    let longer_than = |ms: &i64| format!(" longer than {}", duration(ms.saturating_mul(1000)));
    match operation {
        TransactionOperation::List(TransactionFilter { longer_than_ms, pattern }) => {
            let longer_than = longer_than_ms.as_ref().map(longer_than).unwrap_or_default();
            let pattern = pattern.as_ref().map(|text| format!(" matching {}", quote(text)));
            format!("list transactions{longer_than}{}", pattern.unwrap_or_default())
        }
        TransactionOperation::Describe(id) => format!("describe transaction {}", quote(id.as_str())),
        TransactionOperation::DescribeProducers(tp) => {
            format!("describe producers of {}", quote(&tp.to_string()))
        }
        TransactionOperation::FindHanging { area, longer_than_ms } => {
            let area = match area {
                Area::Topic(topic) => format!("topic {}", quote(topic.as_str())),
                Area::Partition(tp) => quote(&tp.to_string()),
            };
            let longer_than = longer_than_ms.as_ref().map(longer_than).unwrap_or_default();
            format!("find hanging transactions of {area}{longer_than}")
        }
        TransactionOperation::Abort { tp, start } => {
            format!("abort transaction on {} from offset {start}", quote(&tp.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::command::{Written, parse};

    #[track_caller]
    fn check(text: &str, operation: TransactionOperation) {
        assert_eq!(print(&operation), text);
        assert_eq!(parse(text), Ok(Written::Whole(Command::Transactions(operation))));
    }

    #[track_caller]
    fn check_refused(text: &str, error: &str) {
        assert_eq!(parse(text).map_err(|error| error.to_string()), Err(error.to_owned()), "{text}");
    }

    #[test]
    fn what_the_tool_does_has_its_words_r_cli_20() {
        let list = |longer_than_ms, pattern: Option<&str>| {
            let pattern = pattern.map(str::to_owned);
            TransactionOperation::List(TransactionFilter { longer_than_ms, pattern })
        };
        check("list transactions", list(None, None));
        check("list transactions longer than 10s", list(Some(10_000), None));
        check("list transactions longer than 1500ms matching \"bank-.*\"", list(Some(1500), Some("bank-.*")));
        check("describe transaction bank-1", TransactionOperation::Describe(TransactionalId::new("bank-1")));
        let orders = crate::kafka::types::TopicPartition::new(&"orders".into(), 0);
        check("describe producers of orders-0", TransactionOperation::DescribeProducers(orders.clone()));
        let find = |area, longer_than_ms| TransactionOperation::FindHanging { area, longer_than_ms };
        check("find hanging transactions of topic orders", find(Area::Topic("orders".into()), None));
        check(
            "find hanging transactions of orders-0 longer than 30min",
            find(Area::Partition(orders.clone()), Some(1_800_000)),
        );
        let abort = TransactionOperation::Abort { tp: orders, start: Offset(40) };
        check("abort transaction on orders-0 from offset 40", abort);
        check_refused("find transactions", "column 6: expected hanging");
        check_refused("abort transaction on orders-0", "column 30: expected from");
        check_refused("list transactions longer", "column 25: expected than");
        check_refused(
            "list transactions longer than 5us",
            "column 31: expected whole milliseconds, as timestamps have them",
        );
        check_refused("list offsets", "column 6: expected one of groups, transactions, not \"offsets\"");
        check_refused("describe transaction", "column 21: expected a transactional id");
        check_refused(
            "describe producers of orders",
            "column 23: expected a partition such as orders-0, not \"orders\"",
        );
    }
}
