//! Where the run stands in what was ever run of it: its length, its marks, its branches.
//!
//! The axis is longer than the run and grows by steps, so that marks stay where they are while time goes on.

use std::rc::Rc;

use crate::kafka::time::Time;
use crate::lab::history::{BranchId, History, MarkKind, Marks};

/// Marks of a kind that are nearer than this part of the axis are drawn as one.
const RESOLUTION: i64 = 1_000;

/// **Invariant:** `now` and `end` are never beyond the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub now: Time,
    /// How far this branch was ever run.
    pub end: Time,
    /// Where the axis ends, in milliseconds.
    pub axis_ms: i64,
    /// The kinds there are marks of, in the order of [`MarkKind::ALL`].
    pub lanes: Rc<[Rc<Lane>]>,
    pub branches: Rc<[BranchRow]>,
    pub current: usize,
    /// Marks there ever were, which says whether the lanes changed.
    marks: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub kind: MarkKind,
    pub name: &'static str,
    /// In milliseconds, rising.
    pub at_ms: Vec<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchRow {
    pub name: Rc<str>,
    /// Where it parted from which other one: `from main at 00:25.000`.
    pub origin: Option<Rc<str>>,
    pub end: Time,
}

impl Timeline {
    /// Slices that did not change are those of `before`.
    pub fn of(history: &History, before: Option<&Timeline>) -> Timeline {
        let (end, current) = (history.end().time, history.current());
        let axis_ms = axis_ms(end);
        let marks = history.branch(current).map(|branch| branch.marks());
        let count = marks.map_or(0, Marks::len_ever);
        let same = before.filter(|before| before.current == current.0 && before.axis_ms == axis_ms);
        let lanes = match (same.filter(|same| same.marks == count), marks) {
            (Some(same), _) => same.lanes.clone(),
            (None, Some(marks)) => lanes(marks, axis_ms),
            (None, None) => Rc::from([]),
        };
        let branches: Rc<[BranchRow]> = history.branches().map(|(id, _)| row(history, id)).collect();
        let branches = match before.filter(|before| before.branches == branches) {
            Some(before) => before.branches.clone(),
            None => branches,
        };
        Timeline {
            now: history.present().now(),
            end,
            axis_ms,
            lanes,
            branches,
            current: current.0,
            marks: count,
        }
    }

    /// Whether what is shown lies before what was already run.
    pub fn is_in_the_past(&self) -> bool {
        self.now < self.end
    }

    /// For everyone: `00:25.000 of 00:40.000`.
    pub fn sentence(&self) -> String {
        if self.is_in_the_past() {
            format!("{} of {}", self.now, self.end)
        } else {
            format!("{}, the end", self.now)
        }
    }
}

/// A kind's name, in the plural.
pub fn name(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Command => "commands",
        MarkKind::Fault => "faults",
        MarkKind::Election => "elections",
        MarkKind::Rebalance => "rebalances",
        MarkKind::Error => "errors",
        MarkKind::Cut => "truncations",
        MarkKind::Loss => "losses",
        MarkKind::Commit => "commits",
    }
}

fn lanes(marks: &Marks, axis_ms: i64) -> Rc<[Rc<Lane>]> {
    let step_ms = (axis_ms / RESOLUTION).max(1);
    let lane = |kind: MarkKind| {
        let mut at_ms: Vec<i64> = Vec::new();
        for mark in marks.iter().filter(|mark| mark.kind == kind) {
            let ms = mark.time.ms();
            if at_ms.last().is_none_or(|last| ms >= last + step_ms) {
                at_ms.push(ms);
            }
        }
        (!at_ms.is_empty()).then(|| Rc::new(Lane { kind, name: name(kind), at_ms }))
    };
    MarkKind::ALL.into_iter().filter_map(lane).collect()
}

fn row(history: &History, id: BranchId) -> BranchRow {
    let branch = history.branch(id);
    let origin = branch.and_then(|branch| {
        let (parent, parted_at) = branch.parent?;
        let parent = history.branch(parent)?;
        Some(Rc::from(format!("from {} at {}", parent.name, parted_at.time)))
    });
    BranchRow {
        name: branch.map_or(Rc::from(""), |branch| Rc::from(branch.name.as_str())),
        origin,
        end: branch.map_or(Time::ZERO, |branch| branch.end.time),
    }
}

/// The next of 30 s, 1, 2, 5, 10, 20, 30 min, 1, 2, 5, 10 h and so on that is not less.
fn axis_ms(end: Time) -> i64 {
    const STEPS_S: [i64; 11] = [30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 18_000, 36_000];
    let end_s = end.ms().div_euclid(1000) + 1;
    let step_s = STEPS_S.into_iter().find(|step_s| *step_s >= end_s);
    let longest_s = STEPS_S[STEPS_S.len() - 1];
    step_s.unwrap_or(((end_s - 1) / longest_s + 1) * longest_s) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::pace::StopsAt;
    use crate::lab::session::Options;

    const DEFAULT: &str = include_str!("../../static/scenarios/default.toml");

    #[test]
    fn the_axis_grows_by_steps_and_holds_the_run() {
        for (end_ms, axis_s) in
            [(0, 30), (29_999, 30), (30_000, 60), (299_000, 300), (3_600_000, 7_200), (36_000_000, 72_000)]
        {
            assert_eq!(axis_ms(Time::from_ms(end_ms)), axis_s * 1000, "{end_ms}");
        }
    }

    #[test]
    fn a_rewound_run_shows_its_marks_and_branches() {
        let mut history = History::open(DEFAULT, Options::default()).expect("the scenario is right");
        let run = |history: &mut History, ms| history.run(Time::from_ms(ms), u64::MAX, StopsAt::Nothing);
        run(&mut history, 13_000);
        history.command("kill broker 3").expect("it runs");
        run(&mut history, 29_000);
        let first = Timeline::of(&history, None);
        assert_eq!((first.sentence().as_str(), first.axis_ms), ("00:29.000, the end", 30_000));
        let at = |timeline: &Timeline, kind| {
            timeline.lanes.iter().find(|lane| lane.kind == kind).map(|lane| lane.at_ms.clone())
        };
        // The scenario's own commands come first: its topic, and when that is there its clients.
        assert_eq!(at(&first, MarkKind::Command), Some(vec![0, 3_576, 13_000]));
        assert!(at(&first, MarkKind::Election).is_some_and(|at_ms| at_ms.last() > Some(&22_000)));

        history.seek(Time::from_ms(12_000));
        let rewound = Timeline::of(&history, Some(&first));
        assert_eq!(rewound.sentence(), "00:12.000 of 00:29.000");
        assert!(Rc::ptr_eq(&rewound.lanes, &first.lanes), "the marks of what is to come stay");

        history.command("kill broker 2").expect("it runs");
        let forked = Timeline::of(&history, Some(&rewound));
        assert_eq!((forked.current, forked.branches.len()), (1, 2));
        assert_eq!(forked.branches[1].origin.as_deref(), Some("from main at 00:12.000"));
        assert_eq!(at(&forked, MarkKind::Command), Some(vec![0, 3_576, 12_000]));
    }
}
