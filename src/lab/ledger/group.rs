//! What groups have read, finished and committed.
//!
//! **Invariant:** a record is in the hand of one member at a time, the last one that poll() returned it to.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::record::Moment;
use crate::kafka::event::{Act, OffsetRun};
use crate::kafka::types::{ClientName, GroupId, LeaderEpoch, Offset, TopicPartition};

/// A group in one partition.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Where it began: what is below it never meant to read.
    pub begun: Option<Offset>,
    pub committed: Option<Commit>,
    /// It is a share group, which has no position: what comes to whom again is its partitions' to say.
    pub is_shared: bool,
    /// The last record in the log's order that was processed.
    pub furthest: Option<(LeaderEpoch, Offset)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub at: Moment,
    pub offset: Offset,
    pub by: ClientName,
}

impl Progress {
    pub fn begin(&mut self, offset: Offset) {
        self.begun = Some(self.begun.map_or(offset, |begun| begun.min(offset)));
    }

    /// Notes that a record is finished for the first time; whether a later one was finished before.
    pub fn finish(&mut self, epoch: LeaderEpoch, offset: Offset) -> bool {
        // What was written after a truncation stands at offsets that were passed before.
        let is_late = self.furthest.is_some_and(|(furthest, at)| epoch <= furthest && offset < at);
        if !is_late {
            self.furthest = Some((epoch, offset));
        }
        is_late
    }
}

/// A client that reads.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    pub group: Option<GroupId>,
    /// From where it set out in each partition.
    pub set_out: BTreeMap<TopicPartition, (Moment, Offset)>,
    /// What poll() returned last.
    runs: BTreeMap<TopicPartition, VecDeque<OffsetRun>>,
    pub ended: Option<(Moment, Act)>,
    pub stuck: Option<Stuck>,
}

/// A client that does not go on with what it has in hand, since a moment and for a reason: "hangs at line 2, process 20ms".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub since: Moment,
    pub how: Rc<str>,
}

/// So many runs of offsets of a partition are kept to tell in which epoch a record was written that a client finishes.
const KEPT_RUNS: usize = 64;

impl Reader {
    pub fn took(&mut self, tp: &TopicPartition, runs: &[OffsetRun]) {
        let kept = self.runs.entry(tp.clone()).or_default();
        kept.extend(runs);
        while kept.len() > KEPT_RUNS {
            kept.pop_front();
        }
    }

    /// In which epoch the record was written that it had at this offset.
    pub fn epoch_of(&self, tp: &TopicPartition, offset: Offset) -> Option<LeaderEpoch> {
        let runs = self.runs.get(tp)?;
        runs.iter().rev().find(|run| run.from <= offset && offset < run.to).map(|run| run.epoch)
    }
}
