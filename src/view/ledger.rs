//! What became of all records, in numbers: the ledger's counts with their words, as tables.
//!
//! To count is to look at every record that the ledger keeps, which is no work for each frame: a page asks while it shows the
//! tables, a few times a second at most. A count's example leads on: `story checkout-api 40` tells of it.
//!
//! **Invariant:** a table's pointer stays as long as it says the same.

use std::rc::Rc;

use super::build::reuse::{keep, keep_array, keep_list};
use super::model::{List, Tone};
use crate::kafka::types::TopicPartition;
use crate::lab::command::Question;
use crate::lab::ledger::{Count, Example, GroupCount, Ledger, Within};

/// What became of all records up to a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerView {
    /// Events of the run that are in it.
    pub heard: u64,
    /// One for each topic.
    pub records: List<TableView>,
    /// One for each group and topic that it has met records of.
    pub groups: List<TableView>,
    /// What the numbers leave out, as sentences; none as long as everything is kept.
    pub notes: Rc<[Rc<str>]>,
}

/// A line for each count, a column for each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableView {
    /// "records of orders", "group billing and the records of orders"
    pub title: Rc<str>,
    /// "0", "1"; "none" for records for which none was chosen.
    pub partitions: Rc<[Rc<str>]>,
    /// All counts there are, those of nothing too, in their order.
    pub rows: Rc<[CountView]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountView {
    /// "stored twice"
    pub name: &'static str,
    /// What that is, in a sentence: "More than once."
    pub meaning: &'static str,
    /// Neutral for nothing; bad for what an application would not want.
    pub tone: Tone,
    pub count: i64,
    /// Of each partition.
    pub each: Rc<[i64]>,
    pub first: Option<ExampleView>,
}

/// One of the records that are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleView {
    /// "orders-0 17 (record 40 of checkout-api)"
    pub text: Rc<str>,
    /// What asks for its story: "story checkout-api 40".
    pub question: Rc<str>,
}

/// The tables as things stand. What has not changed since `before` keeps its pointer.
pub fn ledger_view(ledger: &Ledger, before: Option<&Rc<LedgerView>>) -> Rc<LedgerView> {
    if let Some(before) = before.filter(|before| before.heard == ledger.heard()) {
        return before.clone();
    }
    let totals = ledger.totals();
    let records = totals.topics().into_iter().map(|topic| {
        let of = totals.partitions.keys().filter(|tp| tp.topic == *topic);
        table(format!("records of {topic}"), of, Count::ALL, |count, within| {
            let tallies = totals.records(within);
            let words = (count.name(), count.meaning(), tone(*count));
            (words, tallies.count(*count), tallies.first(*count).cloned())
        })
    });
    let groups = totals.groups().into_iter().map(|(group, topic)| {
        let of = totals.groups.keys().filter(|(by, tp)| by == group && tp.topic == *topic).map(|(_, tp)| tp);
        let title = format!("group {group} and the records of {topic}");
        table(title, of, GroupCount::ALL, |count, within| {
            let tallies = totals.group(group, within);
            let words = (count.name(), count.meaning(), group_tone(*count));
            (words, tallies.count_of(*count), tallies.first_of(*count).cloned())
        })
    });
    let notes = ledger.tell_dropped(&totals).into_iter().map(Rc::from).collect();
    let is_same = |a: &TableView, b: &TableView| a.title == b.title;
    let view = LedgerView {
        heard: ledger.heard(),
        records: keep_list(before.map(|view| &view.records), records, is_same),
        groups: keep_list(before.map(|view| &view.groups), groups, is_same),
        notes: keep_array(before.map(|view| &view.notes), notes),
    };
    keep(before, view)
}

type Words = (&'static str, &'static str, Tone);

/// `count_in`: a count's words, its number there, and an example.
fn table<'a, C>(
    title: String,
    partitions: impl Iterator<Item = &'a TopicPartition>,
    counts: &[C],
    count_in: impl Fn(&C, &Within) -> (Words, i64, Option<Example>),
) -> TableView {
    let partitions: Vec<&TopicPartition> = partitions.collect();
    let topic = partitions.first().map(|tp| Within::Topic(tp.topic.clone()));
    let whole = topic.unwrap_or(Within::All);
    let row = |count: &C| {
        let ((name, meaning, tone), number, first) = count_in(count, &whole);
        let of_each = |tp: &&TopicPartition| match number {
            0 => 0,
            _ => count_in(count, &Within::Partition((*tp).clone())).1,
        };
        CountView {
            name,
            meaning,
            tone: if number > 0 { tone } else { Tone::Neutral },
            count: number,
            each: partitions.iter().map(of_each).collect(),
            first: first.map(|first| ExampleView {
                text: first.to_string().into(),
                question: question(&first).into(),
            }),
        }
    };
    let column = |tp: &&TopicPartition| match tp.partition {
        ..0 => Rc::from("none"),
        number => Rc::from(number.to_string()),
    };
    TableView {
        title: title.into(),
        partitions: partitions.iter().map(column).collect(),
        rows: counts.iter().map(row).collect(),
    }
}

fn question(first: &Example) -> String {
    Question::Story { of: first.client.to_string(), number: first.number, column: 0 }.to_string()
}

fn tone(count: Count) -> Tone {
    match count {
        Count::Lost => Tone::Bad,
        Count::StoredTwice | Count::FailedYetStored | Count::Reordered | Count::Failed => Tone::Warning,
        Count::Produced
        | Count::Acknowledged
        | Count::Unanswered
        | Count::Stored
        | Count::Unseen
        | Count::Withheld
        | Count::Open
        | Count::Aborted
        | Count::Compacted
        | Count::Removed
        | Count::Deleted => Tone::Neutral,
    }
}

fn group_tone(count: GroupCount) -> Tone {
    match count {
        GroupCount::Missed => Tone::Bad,
        GroupCount::ProcessedTwice | GroupCount::OutOfOrder | GroupCount::Stuck | GroupCount::WithResults => {
            Tone::Warning
        }
        GroupCount::Delivered
        | GroupCount::Waiting
        | GroupCount::InHand
        | GroupCount::Processed
        | GroupCount::WithResult => Tone::Neutral,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::time::Time;
    use crate::lab::session::{Options, Session};

    const SCENARIO: &str = include_str!("../../static/scenarios/default.toml");

    #[test]
    fn each_count_is_the_sum_of_its_partitions_and_its_example_leads_to_a_story() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(20_000), u64::MAX);
        let view = ledger_view(session.ledger(), None);
        assert_eq!(view.records.len(), 1);
        let tables: Vec<_> = view.records.iter().chain(view.groups.iter()).collect();
        assert!(tables.len() > 1, "a group has read");
        for table in tables {
            assert_eq!(table.partitions.len(), 3, "{}", table.title);
            for row in table.rows.iter() {
                assert_eq!(row.count, row.each.iter().sum::<i64>(), "{} of {}", row.name, table.title);
                assert_eq!(row.first.is_some(), row.count > 0, "{} of {}", row.name, table.title);
                let story = row.first.as_ref().map(|first| session.ask(&first.question));
                assert!(story.is_none_or(|story| matches!(story, Some(Ok(_)))), "{}", row.name);
            }
        }
        let produced = &view.records[0].rows[0];
        assert!(produced.name == "produced" && produced.count > 0);
        assert!(view.notes.is_empty());
    }

    #[test]
    fn what_has_not_changed_keeps_its_pointer() {
        let mut session = Session::open(SCENARIO, Options::default()).expect("it is right");
        session.run_until(Time::from_ms(20_000), u64::MAX);
        let first = ledger_view(session.ledger(), None);
        assert!(Rc::ptr_eq(&first, &ledger_view(session.ledger(), Some(&first))));
        session.run_until(Time::from_ms(21_000), u64::MAX);
        let second = ledger_view(session.ledger(), Some(&first));
        assert!(second.heard > first.heard && !Rc::ptr_eq(&first.records[0], &second.records[0]));
    }
}
