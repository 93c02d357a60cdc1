//! Commands about transactions, as `kafka-transactions.sh` has them: reading and writing them.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::parse::{client, partition};
use super::print::duration;
use super::tokens::quote;
use super::words::{Words, check_filled, duration_us};
use super::{CommandError, groups};
use crate::client::admin::{Area, TransactionFilter, TransactionOperation};
use crate::client::group_metadata::GroupMetadata;
use crate::kafka::types::{
    BrokerId, ClientName, Generation, MemberId, Offset, Topic, TopicPartition, TransactionalId,
};
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
    Ok(Command::Transactions(TransactionOperation::Describe(id(words)?)))
}

fn id(words: &mut Words) -> Result<TransactionalId, CommandError> {
    const WHAT: &str = "a transactional id";
    let id = words.plain(WHAT)?;
    check_filled(id, WHAT)?;
    Ok(TransactionalId::new(&id.text))
}

/// `of orders-0 on broker 2`, after `describe producers`.
pub(super) fn describe_producers(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("of")?;
    let (tp, broker) = (partition(words)?, on_broker(words)?);
    Ok(Command::Transactions(TransactionOperation::DescribeProducers { tp, broker }))
}

/// `on broker 2`, if it is said.
fn on_broker(words: &mut Words) -> Result<Option<BrokerId>, CommandError> {
    if words.accept("on").is_none() {
        return Ok(None);
    }
    words.expect("broker")?;
    broker(words).map(Some)
}

fn broker(words: &mut Words) -> Result<BrokerId, CommandError> {
    words.id("a broker's number").map(BrokerId)
}

/// `transaction bank-1`, after `terminate`.
pub(super) fn terminate(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("transaction")?;
    Ok(Command::Transactions(TransactionOperation::Terminate(id(words)?)))
}

/// `offsets of group billing as member m-1 generation 5 in transaction of bank orders-0=40`, after `send`.
pub(super) fn send_offsets(words: &mut Words) -> Result<Command, CommandError> {
    words.expect("offsets")?;
    words.expect("of")?;
    words.expect("group")?;
    let mut group = GroupMetadata::of_group(groups::group(words)?);
    if words.accept("as").is_some() {
        words.expect("member")?;
        group.member = MemberId::new(&words.plain("a member's id")?.text);
        words.expect("generation")?;
        group.generation = Generation(words.parsed("a generation")?);
        if words.accept("instance").is_some() {
            group.instance = Some(Rc::from(words.plain("an instance id")?.text.as_str()));
        }
    }
    for keyword in ["in", "transaction", "of"] {
        words.expect(keyword)?;
    }
    let client = client(words)?;
    let offsets = groups::each(words)?.into_iter().map(|(tp, offset)| (tp, Offset(offset))).collect();
    Ok(Command::SendOffsets { client, offsets, group })
}

pub(super) fn print_send_offsets(
    client: &ClientName,
    offsets: &BTreeMap<TopicPartition, Offset>,
    group: &GroupMetadata,
) -> String {
    let GroupMetadata { group, generation, member, instance } = group;
    let is_member = *member != MemberId::unknown() || *generation != Generation::NONE;
    let member = match is_member || instance.is_some() {
        true => {
            let instance = instance.as_ref().map(|id| format!(" instance {}", quote(id)));
            let member = quote(member.as_str());
            format!(" as member {member} generation {generation}{}", instance.unwrap_or_default())
        }
        false => String::new(),
    };
    let each = offsets.iter().map(|(tp, offset)| format!(" {}={offset}", quote(&tp.to_string())));
    format!(
        "send offsets of group {}{member} in transaction of {}{}",
        quote(group.as_str()),
        quote(client.as_str()),
        each.collect::<String>()
    )
}

/// `hanging transactions of topic orders longer than 30min`, after `find`.
pub(super) fn find(words: &mut Words) -> Result<Command, CommandError> {
    for keyword in ["hanging", "transactions", "of"] {
        words.expect(keyword)?;
    }
    let area = if words.accept("topic").is_some() {
        let topic = Topic::new(&words.plain("a topic's name")?.text);
        Area::Topic(topic, on_broker(words)?)
    } else if words.accept("broker").is_some() {
        Area::Broker(broker(words)?)
    } else {
        Area::Partition(partition(words)?, on_broker(words)?)
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
    let on = |broker: &Option<BrokerId>| broker.map(|id| format!(" on broker {id}")).unwrap_or_default();
    match operation {
        TransactionOperation::List(TransactionFilter { longer_than_ms, pattern }) => {
            let longer_than = longer_than_ms.as_ref().map(longer_than).unwrap_or_default();
            let pattern = pattern.as_ref().map(|text| format!(" matching {}", quote(text)));
            format!("list transactions{longer_than}{}", pattern.unwrap_or_default())
        }
        TransactionOperation::Describe(id) => format!("describe transaction {}", quote(id.as_str())),
        TransactionOperation::DescribeProducers { tp, broker } => {
            format!("describe producers of {}{}", quote(&tp.to_string()), on(broker))
        }
        TransactionOperation::FindHanging { area, longer_than_ms } => {
            let area = match area {
                Area::Topic(topic, broker) => format!("topic {}{}", quote(topic.as_str()), on(broker)),
                Area::Partition(tp, broker) => format!("{}{}", quote(&tp.to_string()), on(broker)),
                Area::Broker(broker) => format!("broker {broker}"),
            };
            let longer_than = longer_than_ms.as_ref().map(longer_than).unwrap_or_default();
            format!("find hanging transactions of {area}{longer_than}")
        }
        TransactionOperation::Abort { tp, start } => {
            format!("abort transaction on {} from offset {start}", quote(&tp.to_string()))
        }
        TransactionOperation::Terminate(id) => format!("terminate transaction {}", quote(id.as_str())),
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
        let producers = |broker| TransactionOperation::DescribeProducers { tp: orders.clone(), broker };
        check("describe producers of orders-0", producers(None));
        check("describe producers of orders-0 on broker 2", producers(Some(BrokerId(2))));
        check(
            "terminate transaction bank-1",
            TransactionOperation::Terminate(TransactionalId::new("bank-1")),
        );
        let find = |area, longer_than_ms| TransactionOperation::FindHanging { area, longer_than_ms };
        check("find hanging transactions of topic orders", find(Area::Topic("orders".into(), None), None));
        check(
            "find hanging transactions of orders-0 longer than 30min",
            find(Area::Partition(orders.clone(), None), Some(1_800_000)),
        );
        let on_2 = Some(BrokerId(2));
        check(
            "find hanging transactions of topic orders on broker 2 longer than 1min",
            find(Area::Topic("orders".into(), on_2), Some(60_000)),
        );
        check(
            "find hanging transactions of orders-0 on broker 2",
            find(Area::Partition(orders.clone(), on_2), None),
        );
        check("find hanging transactions of broker 2", find(Area::Broker(BrokerId(2)), None));
        let committed = |group: GroupMetadata| Command::SendOffsets {
            client: "bank".into(),
            offsets: [(orders.clone(), Offset(40))].into(),
            group,
        };
        let text = "send offsets of group billing in transaction of bank orders-0=40";
        let bare = committed(GroupMetadata::of_group("billing".into()));
        assert_eq!(parse(text), Ok(Written::Whole(bare)));
        let member = GroupMetadata {
            generation: Generation(5),
            member: MemberId::new("m-1"),
            instance: Some("i".into()),
            ..GroupMetadata::of_group("billing".into())
        };
        let text = "send offsets of group billing as member m-1 generation 5 instance i in transaction of bank orders-0=40";
        assert_eq!(parse(text), Ok(Written::Whole(committed(member))));
        check_refused(
            "send offsets of group billing in transaction of bank",
            "column 53: expected a partition with an offset, such as orders-0=40",
        );
        let abort = TransactionOperation::Abort { tp: orders.clone(), start: Offset(40) };
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
