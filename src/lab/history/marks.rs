//! The moments of a run that are worth going back to.
//!
//! **Invariant:** a branch's marks are those of all that ever happened in it, wherever its run stands now.

use std::collections::VecDeque;

use crate::kafka::event::{Act, ConsumerGroupState, Event, GroupEvent, GroupState, ShareEvent};
use crate::kafka::time::Time;
use crate::lab::ledger::Ledger;
use crate::sim::Trace;

/// So many are kept of a branch, the newest.
const KEPT: usize = 10_000;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkKind {
    Command,
    /// A process, a link, a clock or a disk fails or comes back.
    Fault,
    /// A partition or the quorum gets another leader, or loses the one it had.
    Election,
    Rebalance,
    /// Somebody was told that it does not go on like this.
    Error,
    /// Records are gone from a replica.
    Cut,
    /// Records are gone that somebody took for written.
    Loss,
    Commit,
}

impl MarkKind {
    pub const ALL: [MarkKind; 8] = [
        MarkKind::Command,
        MarkKind::Fault,
        MarkKind::Election,
        MarkKind::Rebalance,
        MarkKind::Error,
        MarkKind::Cut,
        MarkKind::Loss,
        MarkKind::Commit,
    ];

    /// The kind that an event is of, if it is worth a mark by itself.
    pub fn of(event: &Event) -> Option<MarkKind> {
        Some(match event {
            Event::CommandGiven { .. } => MarkKind::Command,
            Event::Process { act: Act::Started, .. } => return None,
            Event::Process { .. }
            | Event::LinkCut { .. }
            | Event::LinkHealed { .. }
            | Event::LinkSlowed { .. }
            | Event::ClockSet { .. }
            | Event::BrokerFenced { .. }
            | Event::BrokerUnfenced { .. }
            | Event::DiskWiped { .. } => MarkKind::Fault,
            Event::LeaderElected { from, to, .. } if from != to => MarkKind::Election,
            Event::QuorumLeaderElected { .. } | Event::QuorumLeaderResigned { .. } => MarkKind::Election,
            Event::Group(
                GroupEvent::RebalanceStarted { .. }
                | GroupEvent::GroupStateChanged {
                    to: GroupState::PreparingRebalance | GroupState::Stable, ..
                }
                | GroupEvent::ConsumerGroupStateChanged {
                    to: ConsumerGroupState::Reconciling | ConsumerGroupState::Stable,
                    ..
                }
                | GroupEvent::TargetAssigned { .. },
            )
            | Event::Share(ShareEvent::Joins { .. }) => MarkKind::Rebalance,
            Event::CommandRefused { .. }
            | Event::ProduceRefused { .. }
            | Event::BatchFailed { .. }
            | Event::CommitFailed { .. }
            | Event::CallRefused { .. }
            | Event::ClientFailed { .. } => MarkKind::Error,
            Event::Truncated { .. } | Event::UnflushedLost { .. } => MarkKind::Cut,
            Event::CommitConfirmed { .. } => MarkKind::Commit,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub time: Time,
    pub kind: MarkKind,
    /// The number of its event in the trace.
    pub event: u64,
}

/// In the order of time; several of a kind at one moment are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    kept: VecDeque<Mark>,
    /// Marks that were let go since there were too many.
    let_go: u64,
    /// Events of the trace that were looked at.
    heard: u64,
}

impl Marks {
    /// Takes in what has happened since, and what of it the ledger says was a loss.
    pub fn follow(&mut self, trace: &Trace, ledger: &Ledger) {
        let first = trace.first_kept().max(self.heard);
        let mut losses = ledger.losses().filter(|loss| loss.event >= first).peekable();
        for (event, entry) in (first..).zip(trace.since(first)) {
            if let Some(kind) = MarkKind::of(&entry.event) {
                self.note(event, entry.key.time, kind);
            }
            if losses.next_if(|loss| loss.event == event).is_some() {
                self.note(event, entry.key.time, MarkKind::Loss);
            }
        }
        self.heard = self.heard.max(trace.len_ever());
    }

    fn note(&mut self, number: u64, time: Time, kind: MarkKind) {
        let mut of_moment = self.kept.iter().rev().take_while(|mark| mark.time == time);
        if of_moment.any(|mark| mark.kind == kind) {
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.let_go += 1;
        }
        self.kept.push_back(Mark { time, kind, event: number });
    }

    /// Those of the first `heard` events, as a branch has them that parts there.
    pub fn up_to(&self, heard: u64) -> Marks {
        let kept = self.kept.iter().take_while(|mark| mark.event < heard).copied().collect();
        Marks { kept, let_go: self.let_go, heard: self.heard.min(heard) }
    }

    /// How many there ever were.
    pub fn len_ever(&self) -> u64 {
        self.let_go + self.kept.len() as u64
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Mark> {
        self.kept.iter()
    }

    /// The nearest one before this time.
    pub fn before(&self, time: Time, fits: impl Fn(MarkKind) -> bool) -> Option<Mark> {
        self.iter().rfind(|mark| mark.time < time && fits(mark.kind)).copied()
    }

    /// The nearest one after this time.
    pub fn after(&self, time: Time, fits: impl Fn(MarkKind) -> bool) -> Option<Mark> {
        self.iter().find(|mark| mark.time > time && fits(mark.kind)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Key, TraceEntry};

    fn at(ms: i64) -> Time {
        Time::from_ms(ms)
    }

    fn marks(count: i64) -> Marks {
        let mut trace = Trace::default();
        for ms in 0..count {
            for text in ["pause p", "resume p"] {
                let key = Key { time: at(ms), sequence: 0 };
                let event = Event::CommandGiven { text: text.to_owned() };
                trace.push(TraceEntry { key, cause: None, event }, 0);
            }
        }
        let mut marks = Marks::default();
        let ledger = Ledger::of(&trace);
        marks.follow(&trace, &ledger);
        marks.follow(&trace, &ledger);
        marks
    }

    #[test]
    fn several_of_a_kind_at_one_moment_are_one_mark() {
        let marks = marks(3);
        assert_eq!((marks.len_ever(), marks.iter().map(|mark| mark.event).collect()), (3, vec![0, 2, 4]));
        assert_eq!(marks.before(at(1), |_| true).map(|mark| mark.time), Some(at(0)));
        assert_eq!(marks.after(at(1), |_| true).map(|mark| mark.time), Some(at(2)));
        assert_eq!(marks.after(at(1), |kind| kind == MarkKind::Fault), None);
        assert_eq!(marks.up_to(2).iter().count(), 1, "the mark of the third event is of another future");
    }

    #[test]
    fn the_oldest_are_let_go_and_counted() {
        let marks = marks(KEPT as i64 + 5);
        assert_eq!((marks.len_ever(), marks.iter().count()), (KEPT as u64 + 5, KEPT));
        assert_eq!(marks.iter().next().map(|mark| mark.time), Some(at(5)));
    }
}
