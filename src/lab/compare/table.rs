//! What came of the two runs, in numbers: records from the ledger, time and upheaval from the measures.

use std::rc::Rc;

use super::{Comparison, Side};
use crate::kafka::time::Time;
use crate::lab::ledger::{Count, Example, GroupCount, Totals};
use crate::lab::measures::Measure;
use crate::lab::words;

/// What the two are called in tables and sentences.
pub const LETTERS: [&str; 2] = ["A", "B"];

/// What is compared. Of each, less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compared {
    Measure(Measure),
    /// Of all partitions.
    Records(Count),
    /// Of all groups and partitions.
    ByGroups(GroupCount),
}

/// What a table compares, in its order.
pub const COMPARED: [Compared; 14] = [
    Compared::Measure(Measure::OwnerlessUs),
    Compared::Measure(Measure::TwiceOwnedUs),
    Compared::Measure(Measure::OwnersChanged),
    Compared::Measure(Measure::Rebalances),
    Compared::Measure(Measure::LeaderlessUs),
    Compared::Measure(Measure::UnderMinIsrUs),
    Compared::Measure(Measure::LeadersChanged),
    Compared::Records(Count::Lost),
    Compared::Records(Count::Failed),
    Compared::Records(Count::StoredTwice),
    Compared::Records(Count::Reordered),
    Compared::ByGroups(GroupCount::ProcessedTwice),
    Compared::ByGroups(GroupCount::Missed),
    Compared::ByGroups(GroupCount::OutOfOrder),
];

impl Compared {
    pub fn name(self) -> &'static str {
        match self {
            Compared::Measure(Measure::OwnerlessUs) => "partition time without an owner",
            Compared::Measure(Measure::TwiceOwnedUs) => "partition time with two owners",
            Compared::Measure(Measure::OwnersChanged) => "partitions that changed owner",
            Compared::Measure(Measure::Rebalances) => "rebalances",
            Compared::Measure(Measure::LeaderlessUs) => "partition time without a leader",
            Compared::Measure(Measure::UnderMinIsrUs) => "partition time below min.insync.replicas",
            Compared::Measure(Measure::LeadersChanged) => "partitions that changed leader",
            Compared::Records(Count::Lost) => "records lost",
            Compared::Records(Count::Failed) => "records told to have failed",
            Compared::Records(Count::StoredTwice) => "records stored twice",
            Compared::Records(Count::Reordered) => "records stored out of order",
            Compared::ByGroups(GroupCount::ProcessedTwice) => "records processed twice",
            Compared::ByGroups(GroupCount::Missed) => "records missed by a group",
            Compared::ByGroups(GroupCount::OutOfOrder) => "records processed out of order",
            Compared::Records(count) => count.name(),
            Compared::ByGroups(count) => count.name(),
        }
    }

    pub fn is_time(self) -> bool {
        matches!(self, Compared::Measure(measure) if measure.is_time())
    }
}

/// When something happened, and what.
pub type First = (Time, Rc<str>);

/// So many occasions of each kind are compared.
const OCCASIONS: usize = 32;

/// What one run has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Records, occasions or microseconds, since the comparison began.
    pub value: i64,
    /// The first of them.
    pub firsts: Vec<First>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub compared: Compared,
    pub cells: [Cell; 2],
}

impl Row {
    pub fn differs(&self) -> bool {
        self.cells[0].value != self.cells[1].value
    }

    /// A cell's value with its unit: `2,472 ms`, `4`.
    pub fn text(&self, side: usize) -> String {
        let value = self.cells[side].value;
        match self.compared.is_time() {
            true => format!("{} ms", words::grouped((value + 500) / 1000)),
            false => words::grouped(value),
        }
    }

    /// Where the difference comes from, and on which side: the first occasion that the other does not have too; if they have
    /// the same, the first of all.
    pub fn since(&self) -> Option<(usize, &First)> {
        let [left, right] = &self.cells;
        let same = left.firsts.iter().zip(&right.firsts).take_while(|(left, right)| left == right).count();
        let at = |index: usize| {
            let of_sides =
                (0..).zip(&self.cells).filter_map(move |(side, cell)| Some((side, cell.firsts.get(index)?)));
            of_sides.min_by_key(|(_, (time, _))| *time)
        };
        at(same).or_else(|| at(0))
    }
}

impl Comparison {
    /// All that is compared, as far as both have come.
    pub fn rows(&self) -> Vec<Row> {
        let totals = self.sides.each_ref().map(|side| side.run().ledger().totals());
        let cell = |compared, side: usize| self.sides[side].cell(compared, &totals[side]);
        let row = |compared| {
            let mut row = Row { compared, cells: [cell(compared, 0), cell(compared, 1)] };
            if row.differs() {
                for (cell, (side, totals)) in row.cells.iter_mut().zip(self.sides.iter().zip(&totals)) {
                    cell.firsts.extend(side.occasions(compared, self.from, totals));
                }
            }
            row
        };
        COMPARED.into_iter().map(row).collect()
    }

    /// The table as text, with where the stories part.
    pub fn tell(&self) -> Vec<String> {
        let [left, right] = &self.sides;
        let mut lines = vec![
            format!("{}, up to {}", self.what(), self.now()),
            format!("A: {}", left.name),
            format!("B: {}", right.name),
            line("", "A", "B", ""),
        ];
        for row in self.rows() {
            let since = row.since().filter(|_| row.differs()).map(|(side, first)| told(side, first));
            lines.push(line(row.compared.name(), &row.text(0), &row.text(1), &since.unwrap_or_default()));
        }
        match self.parting() {
            Some(parting) => {
                lines.push(format!("the stories part at {}", parting.time));
                for (name, sentence) in LETTERS.into_iter().zip(&parting.sentences) {
                    lines.push(format!(
                        "{name}: {}",
                        sentence.as_ref().map_or("nothing", |told| told.title.as_str())
                    ));
                }
            }
            None => lines.push("the stories do not part so far".to_owned()),
        }
        lines.extend(
            self.failures().map(|(side, failure)| format!("not possible in {}: {failure}", LETTERS[side])),
        );
        lines
    }
}

/// `B: 00:42.016 orders-1, from consumer-a to consumer-c`
pub fn told(side: usize, (time, what): &First) -> String {
    format!("{}: {time} {what}", LETTERS[side])
}

fn line(name: &str, left: &str, right: &str, since: &str) -> String {
    format!("{name:<42}{left:>14}{right:>14}  {since}").trim_end().to_owned()
}

impl Side {
    fn cell(&self, compared: Compared, totals: &Totals) -> Cell {
        let (before, now_is) = match compared {
            Compared::Measure(measure) => {
                let reading = self.run().measures().read(measure, self.run().now());
                let firsts = reading.occasions.iter().map(|first| (first.time, first.what.clone()));
                return Cell { value: reading.value, firsts: firsts.collect() };
            }
            Compared::Records(count) => (self.before.count(count), totals.count(count)),
            Compared::ByGroups(count) => {
                let all =
                    |totals: &Totals| -> i64 { totals.groups.values().map(|of| of.count_of(count)).sum() };
                (all(&self.before), all(totals))
            }
        };
        Cell { value: now_is - before, firsts: Vec::new() }
    }

    /// When records came to this since the comparison began, the first of them.
    fn occasions(&self, compared: Compared, from: Time, totals: &Totals) -> Vec<First> {
        let ledger = self.run().ledger();
        let (let_go, kept) = match compared {
            Compared::Measure(_) => return Vec::new(),
            Compared::Records(count) => {
                let firsts = totals.partitions.values().filter_map(|of| of.first(count));
                (firsts.min_by_key(|first| first.at), ledger.occasions(count, from, OCCASIONS))
            }
            Compared::ByGroups(count) => {
                let firsts = totals.groups.values().filter_map(|of| of.first_of(count));
                (firsts.min_by_key(|first| first.at), ledger.occasions_of_groups(count, from, OCCASIONS))
            }
        };
        // The first may be of a record that the ledger keeps no more.
        let let_go = let_go.filter(|first| first.at.time >= from && !kept.contains(first));
        let told = |example: &Example| (example.at.time, Rc::from(example.to_string()));
        let_go.into_iter().chain(&kept).map(told).collect()
    }
}
