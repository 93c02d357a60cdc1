//! The counts as text, line by line.

use super::totals::{Count, Example, GroupCount, Totals, Within};
use super::{Dropped, Ledger};
use crate::kafka::types::TopicPartition;
use crate::lab::words::{count as counted, list};

impl Ledger {
    /// What is not nothing, topic by topic and group by group, with how much of it each partition has.
    pub fn tell(&self, within: &Within) -> Vec<String> {
        let totals = self.totals();
        let mut lines = Vec::new();
        tell_records(&totals, within, &mut lines);
        tell_groups(&totals, within, &mut lines);
        if lines.is_empty() {
            lines.push("no records so far".to_owned());
        }
        lines.extend(self.tell_dropped(&totals));
        lines
    }

    /// What the numbers leave out, as sentences without a full stop; none as long as everything is kept.
    pub fn tell_dropped(&self, totals: &Totals) -> Vec<String> {
        let Dropped { clients } = self.dropped();
        let sentences = [
            (totals.forgotten, "record", "counted as it stood when the ledger let it go, without a story"),
            (clients, "client", "that ended long ago and whose records are not found by number"),
            (self.missed() as i64, "event", "that the ledger has not heard"),
        ];
        let those = sentences.into_iter().filter(|(number, ..)| *number > 0);
        those.map(|(number, what, why)| format!("{} {why}", counted(number, what))).collect()
    }
}

fn tell_records(totals: &Totals, within: &Within, lines: &mut Vec<String>) {
    for topic in totals.topics() {
        let of: Vec<_> =
            totals.partitions.iter().filter(|(tp, _)| tp.topic == *topic && within.contains(tp)).collect();
        if of.is_empty() {
            continue;
        }
        lines.push(format!("records of {topic}"));
        for count in Count::ALL {
            let each = of.iter().map(|(tp, totals)| (*tp, totals.count(*count)));
            let first = of.iter().find_map(|(_, totals)| totals.first(*count));
            lines.extend(line(count.name(), each, first));
        }
    }
}

fn tell_groups(totals: &Totals, within: &Within, lines: &mut Vec<String>) {
    for (group, topic) in totals.groups() {
        let fits = |by: &_, tp: &TopicPartition| by == group && tp.topic == *topic && within.contains(tp);
        let of: Vec<_> = totals.groups.iter().filter(|((by, tp), _)| fits(by, tp)).collect();
        if of.is_empty() {
            continue;
        }
        lines.push(format!("group {group} and the records of {topic}"));
        for count in GroupCount::ALL {
            let each = of.iter().map(|((_, tp), totals)| (tp, totals.count_of(*count)));
            let first = of.iter().find_map(|(_, totals)| totals.first_of(*count));
            lines.extend(line(count.name(), each, first));
        }
    }
}

/// `  lost                     2  (0: 2)  first orders-0 5 (record 6 of p)`; nothing of none.
fn line<'a>(
    name: &str,
    each: impl Iterator<Item = (&'a TopicPartition, i64)>,
    first: Option<&Example>,
) -> Option<String> {
    let each: Vec<_> = each.filter(|(_, count)| *count > 0).collect();
    let number: i64 = each.iter().map(|(_, count)| count).sum();
    let each = list(each.iter().map(|(tp, count)| format!("{}: {count}", tp.partition)));
    first.map(|first| format!("  {name:<18}{number:>8}  ({each})  first {first}"))
}
