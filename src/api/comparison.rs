//! What a program sees of two runs that are compared.

use serde::Serialize;

use crate::lab::compare::Comparison;
use crate::view::compare::{CompareView, LETTERS, RowView, compare_view};

/// Two runs, A and B.
#[derive(Debug, Serialize)]
pub struct Compared {
    what: String,
    /// From when to when, in virtual milliseconds.
    from: i64,
    now: i64,
    /// What A and B are.
    sides: [String; 2],
    rows: Vec<Row>,
    /// Where their stories part.
    parting: Option<Parting>,
    /// Commands that one of them could not carry out.
    failures: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// With units: `2,472 ms`.
    a: String,
    b: String,
    /// Which did better; `null` if both did the same.
    better: Option<&'static str>,
    /// Where the difference comes from; empty without one.
    since: String,
}

/// What each tells that the other does not; empty for nothing.
#[derive(Debug, Serialize)]
struct Parting {
    time: i64,
    a: String,
    b: String,
}

impl Compared {
    pub fn of(comparison: &Comparison) -> Compared {
        let CompareView { what, from, now, sides, rows, parting, failures } = compare_view(comparison);
        let row = |row: &RowView| Row {
            name: row.name,
            a: row.texts[0].to_string(),
            b: row.texts[1].to_string(),
            better: row.better.map(|side| LETTERS[side]),
            since: row.since.to_string(),
        };
        Compared {
            what: what.to_string(),
            from: from.ms(),
            now: now.ms(),
            sides: sides.map(|side| side.name.to_string()),
            rows: rows.iter().map(row).collect(),
            parting: parting.map(|parting| Parting {
                time: parting.time.ms(),
                a: parting.sentences[0].to_string(),
                b: parting.sentences[1].to_string(),
            }),
            failures: failures.iter().map(|text| text.to_string()).collect(),
        }
    }
}
