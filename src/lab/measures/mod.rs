//! Measures: how well a cluster and its groups did, in numbers that two runs can be compared by.
//!
//! They read the trace, as the ledger does, and are about time and upheaval where that is about records: how long partitions
//! were without an owner or a leader, how often they changed hands. Each keeps the first occasions at which it rose.
//!
//! - [`ownership`]: which member of a group reads which partition
//! - [`leadership`]: whether a partition takes writes
//!
//! **Invariant:** the same events give the same measures, and a copy that begins anew counts only what comes after.

mod leadership;
mod ownership;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use self::leadership::Leadership;
use self::ownership::Ownership;
pub use self::ownership::Span;
use crate::kafka::event::{Event, GroupEvent};
use crate::kafka::time::Time;
use crate::kafka::types::{ClientName, GroupId, Topic};
use crate::sim::Trace;

/// What is measured. Times are sums over partitions, in microseconds: two partitions for a second are two seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// No member of a group reads a partition that one of them has read before.
    OwnerlessUs,
    /// Two members believe that a partition is theirs: one of them does not know better.
    TwiceOwnedUs,
    /// A partition went from one member to another.
    OwnersChanged,
    /// Rounds in which a group shared out its partitions.
    Rebalances,
    /// Nobody who runs leads a partition.
    LeaderlessUs,
    /// A partition is led, and has fewer in-sync replicas than min.insync.replicas: it refuses who asks for acks=all.
    UnderMinIsrUs,
    /// A partition got another leader.
    LeadersChanged,
}

impl Measure {
    pub const ALL: [Measure; 7] = [
        Measure::OwnerlessUs,
        Measure::TwiceOwnedUs,
        Measure::OwnersChanged,
        Measure::Rebalances,
        Measure::LeaderlessUs,
        Measure::UnderMinIsrUs,
        Measure::LeadersChanged,
    ];

    /// Whether it counts microseconds, else occasions.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            Measure::OwnerlessUs | Measure::TwiceOwnedUs | Measure::LeaderlessUs | Measure::UnderMinIsrUs
        )
    }
}

/// When something began or happened, and what: `orders-1, from consumer-a to consumer-c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occasion {
    pub time: Time,
    pub what: Rc<str>,
}

/// So many occasions are kept, the first.
const KEPT_OCCASIONS: usize = 32;

/// A measure's value with the first occasions at which it rose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Microseconds or occasions.
    pub value: i64,
    pub occasions: Rc<Vec<Occasion>>,
}

impl Reading {
    fn count(&mut self, time: Time, what: impl FnOnce() -> String) {
        self.value += 1;
        self.note(time, what);
    }

    fn note(&mut self, time: Time, what: impl FnOnce() -> String) {
        if self.occasions.len() < KEPT_OCCASIONS {
            Rc::make_mut(&mut self.occasions).push(Occasion { time, what: Rc::from(what()) });
        }
    }
}

/// Time in which something holds of some of many, each of which can begin and end.
#[derive(Clone, Debug, Default)]
struct Stopwatch {
    /// Of what has ended.
    past: Reading,
    /// How many it holds of, and since when these are counted together.
    running: i64,
    since: Time,
}

impl Stopwatch {
    fn begin(&mut self, now: Time, what: impl FnOnce() -> String) {
        self.settle(now);
        self.running += 1;
        self.past.note(now, what);
    }

    fn end(&mut self, now: Time) {
        self.settle(now);
        self.running -= 1;
        assert!(self.running >= 0, "what ends has begun");
    }

    fn settle(&mut self, now: Time) {
        self.past.value += self.running * (now.us() - self.since.us());
        self.since = now;
    }

    fn read(&self, now: Time) -> Reading {
        let mut at = self.clone();
        at.settle(now);
        at.past
    }

    /// Counts from now on alone; what holds goes on.
    fn begin_anew(&mut self, now: Time) {
        self.past = Reading::default();
        self.since = now;
        if self.running > 0 {
            self.past.note(now, || "since before".to_owned());
        }
    }
}

/// How well the cluster and its groups did so far.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// Events that were heard.
    heard: u64,
    ownership: Ownership,
    leadership: Leadership,
    rebalances: Reading,
}

impl Measures {
    /// Takes in what has happened since. `min_isr` is what a topic demands now.
    pub fn follow(&mut self, trace: &Trace, min_isr: impl Fn(&Topic) -> i32) {
        trace.for_each_since(self.heard, |entry| self.hear(entry.key.time, &entry.event, &min_isr));
        self.heard = trace.len_ever();
    }

    fn hear(&mut self, now: Time, event: &Event, min_isr: &dyn Fn(&Topic) -> i32) {
        match event {
            Event::Group(GroupEvent::RebalanceStarted { group, generation, .. }) => {
                self.rebalances.count(now, || format!("{group}, after generation {generation}"));
            }
            Event::Group(GroupEvent::TargetAssigned { group, epoch, .. }) => {
                self.rebalances.count(now, || format!("{group}, epoch {epoch}"));
            }
            _ => {
                self.ownership.hear(now, event);
                self.leadership.hear(now, event, min_isr);
            }
        }
    }

    pub fn read(&self, measure: Measure, now: Time) -> Reading {
        match measure {
            Measure::OwnerlessUs => self.ownership.ownerless.read(now),
            Measure::TwiceOwnedUs => self.ownership.twice_owned.read(now),
            Measure::OwnersChanged => self.ownership.changes.clone(),
            Measure::Rebalances => self.rebalances.clone(),
            Measure::LeaderlessUs => self.leadership.leaderless.read(now),
            Measure::UnderMinIsrUs => self.leadership.under_min_isr.read(now),
            Measure::LeadersChanged => self.leadership.changes.clone(),
        }
    }

    /// Who has read what from when to when, in the order of the ends, then those that still do; each ends at the latest `now`.
    pub fn spans(&self, now: Time) -> Vec<Rc<Span>> {
        self.ownership.spans(now)
    }

    /// The members that have ever owned anything, by group.
    pub fn members(&self) -> impl Iterator<Item = (&GroupId, &ClientName)> {
        self.ownership.members()
    }

    /// Counts from now on alone; who owns and who leads what stays known.
    pub fn begin_anew(&mut self, now: Time) {
        self.rebalances = Reading::default();
        self.ownership.begin_anew(now);
        self.leadership.begin_anew(now);
    }
}
