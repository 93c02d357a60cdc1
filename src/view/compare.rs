//! Two runs side by side: who owned what when, what differs, where the stories part.

use std::rc::Rc;

use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, TopicPartition};
pub use crate::lab::compare::table::LETTERS;
use crate::lab::compare::table::{Row, told};
use crate::lab::compare::{Comparison, Side};
use crate::lab::measures::Span;

#[derive(Clone, Debug, PartialEq)]
pub struct CompareView {
    /// What is otherwise, in words.
    pub what: Rc<str>,
    pub from: Time,
    pub now: Time,
    pub sides: [SideView; 2],
    pub rows: Rc<[RowView]>,
    pub parting: Option<PartingView>,
    /// Commands that could not be carried out, each with the side and the reason.
    pub failures: Rc<[Rc<str>]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideView {
    pub name: Rc<str>,
    pub members: Rc<[MemberLane]>,
}

/// What one member of a group had, over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLane {
    pub group: GroupId,
    pub client: ClientName,
    /// The position among all clients of the lanes, which gives them a colour.
    pub number: usize,
    pub bars: Vec<Bar>,
}

/// A stretch of time, in thousandths of the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    pub from: i64,
    pub width: i64,
    /// What it had: `0 2 4`, or `34 partitions`.
    pub text: Rc<str>,
    /// For everyone: `orders-0, orders-2 from 00:41.980 to 00:43.100`.
    pub sentence: Rc<str>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowView {
    pub name: &'static str,
    pub texts: [Rc<str>; 2],
    /// The side that did better; `None` if both did the same.
    pub better: Option<usize>,
    /// Where the difference comes from: `B: 00:42.016 orders-1, from consumer-a to consumer-c`.
    pub since: Rc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartingView {
    pub time: Time,
    /// What each tells that the other does not; empty for nothing.
    pub sentences: [Rc<str>; 2],
}

/// How two runs compare so far.
pub fn compare_view(comparison: &Comparison) -> CompareView {
    let sides = comparison.sides();
    let clients = clients(sides);
    let letter = |side: usize| LETTERS[side];
    CompareView {
        what: Rc::from(comparison.what()),
        from: comparison.from(),
        now: comparison.now(),
        sides: sides.each_ref().map(|side| SideView {
            name: Rc::from(side.name.as_str()),
            members: members(side, &clients, comparison.from(), comparison.now()),
        }),
        rows: comparison.rows().iter().map(row).collect(),
        parting: comparison.parting().map(|parting| PartingView {
            time: parting.time,
            sentences: parting.sentences.each_ref().map(|told| match told {
                Some(sentence) => Rc::from(sentence.title.as_str()),
                None => Rc::from(""),
            }),
        }),
        failures: comparison
            .failures()
            .map(|(side, text)| format!("{}: {text}", letter(side)).into())
            .collect(),
    }
}

fn row(row: &Row) -> RowView {
    let [left, right] = [row.cells[0].value, row.cells[1].value];
    let better = (left != right).then_some(usize::from(right < left));
    let since = row.since().filter(|_| row.differs()).map(|(side, first)| told(side, first));
    RowView {
        name: row.compared.name(),
        texts: [row.text(0).into(), row.text(1).into()],
        better,
        since: since.unwrap_or_default().into(),
    }
}

/// The members of both runs, so that one has the same colour in both.
fn clients(sides: &[Side; 2]) -> Vec<(GroupId, ClientName)> {
    let of = sides.iter().flat_map(|side| side.run().measures().members());
    let mut clients: Vec<(GroupId, ClientName)> =
        of.map(|(group, client)| (group.clone(), client.clone())).collect();
    clients.sort();
    clients.dedup();
    clients
}

fn members(side: &Side, clients: &[(GroupId, ClientName)], from: Time, now: Time) -> Rc<[MemberLane]> {
    let spans = side.run().measures().spans(now);
    let lane = |(number, (group, client)): (usize, &(GroupId, ClientName))| {
        let own =
            spans.iter().filter(|span| span.group == *group && span.client == *client && span.until > from);
        MemberLane {
            group: group.clone(),
            client: client.clone(),
            number,
            bars: own.map(|span| bar(span, from, now)).collect(),
        }
    };
    clients.iter().enumerate().map(lane).collect()
}

fn bar(span: &Span, from: Time, now: Time) -> Bar {
    let length_us = (now.us() - from.us()).max(1);
    let place = |time: Time| (time.us() - from.us()).clamp(0, length_us) * 1000 / length_us;
    let (begin, end) = (place(span.from), place(span.until));
    let names: Vec<String> = span.partitions.iter().map(TopicPartition::to_string).collect();
    Bar {
        from: begin,
        width: (end - begin).max(1),
        text: label(span).into(),
        sentence: format!("{} from {} to {}", names.join(", "), span.from.max(from), span.until).into(),
    }
}

/// The numbers of a few partitions, with their topics if there are several.
fn label(span: &Span) -> String {
    const MOST: usize = 8;
    if span.partitions.len() > MOST {
        return format!("{} partitions", span.partitions.len());
    }
    let first = span.partitions.first().map(|tp| tp.topic.clone());
    let one_topic = span.partitions.iter().all(|tp| Some(&tp.topic) == first.as_ref());
    let name = |tp: &TopicPartition| if one_topic { tp.partition.to_string() } else { tp.to_string() };
    span.partitions.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::history::{BranchId, History};
    use crate::lab::pace::StopsAt;
    use crate::lab::session::Options;

    const DEFAULT: &str = include_str!("../../static/scenarios/default.toml");

    #[test]
    fn lanes_and_rows_tell_two_futures_apart() {
        let mut history = History::open(DEFAULT, Options::default()).expect("the scenario is right");
        let run = |history: &mut History, ms| history.run(Time::from_ms(ms), u64::MAX, StopsAt::Nothing);
        run(&mut history, 30_000);
        history.seek(Time::from_ms(20_000));
        history.command("add consumer consumer-c to billing").expect("it runs");
        run(&mut history, 30_000);
        let mut comparison =
            Comparison::of_branches(&history, BranchId(0), BranchId(1)).expect("there are two");
        comparison.run(comparison.until(), u64::MAX);
        let view = compare_view(&comparison);
        assert_eq!(&*view.what, "two futures from 00:20.000");
        let lanes = view.sides.each_ref().map(|side| {
            let bars = side
                .members
                .iter()
                .map(|lane| lane.bars.iter().map(|bar| bar.text.to_string()).collect::<Vec<_>>());
            bars.collect::<Vec<_>>()
        });
        let [alone, joined] = &lanes;
        assert_eq!(
            (alone.len(), joined.len()),
            (3, 3),
            "both have a lane for the third, who is in one of them"
        );
        assert!(alone[2].is_empty() && joined[2].len() == 1, "{lanes:?}");
        assert!(alone.iter().take(2).all(|bars| bars.len() == 1), "{lanes:?}");
        let whole = &view.sides[0].members[0].bars[0];
        assert_eq!((whole.from, whole.width), (0, 1000));
        assert!(whole.sentence.ends_with("from 00:20.000 to 00:30.000"), "{}", whole.sentence);
        let rebalances = view.rows.iter().find(|row| row.name == "rebalances").expect("it is compared");
        assert_eq!((&*rebalances.texts[0], &*rebalances.texts[1], rebalances.better), ("0", "1", Some(0)));
        assert!(rebalances.since.starts_with("B: 00:2"), "{}", rebalances.since);
        assert!(view.parting.is_some_and(|parting| parting.time == Time::from_ms(20_000)));
    }
}
