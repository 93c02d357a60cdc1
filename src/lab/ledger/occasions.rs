//! When records came to what they are counted for, the earliest first.
//!
//! **Invariant:** what is told here is of records that are kept; those let go are in the counts with their first example alone.

use super::totals::{Count, Example, GroupCount, example_of};
use super::{
    Batch, Fate, Ledger, LostWhy, MissedWhy, Moment, Record, Seen, Told, Transaction, Verdict, Visible,
};
use crate::kafka::time::Time;

impl Ledger {
    /// The first records that came to this from `since` on, at most so many.
    pub fn occasions(&self, of: Count, since: Time, limit: usize) -> Vec<Example> {
        self.first_that(since, limit, |batch, index, record, firsts| {
            let verdict = self.judge_at(batch, index, record, &self.ends(&batch.tp));
            if verdict.is(of, batch) {
                firsts.push(example_of(batch, index, record, batch.came_to(of, record, &verdict)));
            }
        })
    }

    /// As [`Ledger::occasions`], for the groups that have met them.
    pub fn occasions_of_groups(&self, of: GroupCount, since: Time, limit: usize) -> Vec<Example> {
        self.first_that(since, limit, |batch, index, record, firsts| match of {
            GroupCount::Missed => {
                let verdict = self.judge_at(batch, index, record, &self.ends(&batch.tp));
                let moments = verdict.missed.iter().map(|missed| missed.why.at());
                firsts.extend(moments.map(|at| example_of(batch, index, record, at)));
            }
            GroupCount::Waiting => {
                let verdict = self.judge_at(batch, index, record, &self.ends(&batch.tp));
                let groups = verdict.waiting.iter();
                firsts.extend(groups.map(|_| example_of(batch, index, record, record.made)));
            }
            _ => {
                let seen = record.seen.iter().filter(|seen| self.is_seen_as(seen, of));
                firsts.extend(seen.map(|seen| example_of(batch, index, record, seen.came_to(of, record))));
            }
        })
    }

    fn first_that(
        &self,
        since: Time,
        limit: usize,
        look: impl Fn(&Batch, i64, &Record, &mut Vec<Example>),
    ) -> Vec<Example> {
        let mut firsts = Vec::new();
        for batch in self.batches() {
            (0..).zip(&batch.records).for_each(|(index, record)| look(batch, index, record, &mut firsts));
        }
        firsts.retain(|example: &Example| example.at.time >= since);
        firsts.sort_by_key(|example| example.at);
        firsts.truncate(limit);
        firsts
    }
}

impl Verdict {
    /// Whether a record of this batch is counted so.
    pub(super) fn is(&self, count: Count, batch: &Batch) -> bool {
        let was_refused = matches!(batch.told, Told::Error { .. });
        let is_aborted = matches!(self.transaction, Some(Transaction::Ended { committed: false, .. }));
        match count {
            Count::Produced => true,
            Count::Acknowledged => self.acknowledged,
            Count::Failed => was_refused,
            Count::Unanswered => !was_refused && !self.acknowledged,
            Count::Stored => self.fate == Fate::Stored,
            Count::Unseen => self.fate == Fate::Stored && self.visible == Visible::ToNobody,
            Count::Withheld => self.visible == Visible::ToReadUncommitted && !is_aborted,
            Count::StoredTwice => self.offsets.len() > 1,
            Count::Lost => matches!(self.fate, Fate::Lost(_)),
            Count::FailedYetStored => self.failed_yet_stored,
            Count::Reordered => self.reordered,
            Count::Open => self.transaction == Some(Transaction::Open),
            Count::Aborted => is_aborted,
            Count::Compacted => matches!(self.fate, Fate::Compacted(_)),
            Count::Removed => matches!(self.fate, Fate::Removed(_)),
            Count::Deleted => matches!(self.fate, Fate::Deleted(_)),
        }
    }
}

impl Batch {
    /// When a record came to what it is counted for.
    pub(super) fn came_to(&self, count: Count, record: &Record, verdict: &Verdict) -> Moment {
        let in_place = |nth| self.in_place().nth(nth).map(|copy| copy.at);
        let at = match count {
            Count::Produced | Count::Unanswered => None,
            Count::Acknowledged | Count::Failed | Count::FailedYetStored => self.told.at(),
            Count::Stored | Count::Unseen | Count::Withheld | Count::Open | Count::Reordered => in_place(0),
            Count::StoredTwice => in_place(1),
            Count::Lost | Count::Compacted | Count::Removed | Count::Deleted => verdict.fate.at(),
            Count::Aborted => match verdict.transaction {
                Some(Transaction::Ended { at, .. }) => Some(at),
                _ => None,
            },
        };
        at.unwrap_or(record.made)
    }
}

impl Told {
    fn at(&self) -> Option<Moment> {
        match self {
            Told::Nothing => None,
            Told::Offset { at, .. } | Told::Sent { at } | Told::Error { at, .. } => Some(*at),
        }
    }
}

impl Fate {
    /// When it ended in that, for a record that is not there.
    fn at(&self) -> Option<Moment> {
        match self {
            Fate::Underway | Fate::Stored | Fate::Failed(_) => None,
            Fate::Lost(LostWhy::Gone(gone)) => Some(gone.at),
            Fate::Lost(LostWhy::Refused(at, _) | LostWhy::ConnectionLost(at)) => Some(*at),
            Fate::Removed(start) => Some(start.at),
            Fate::Compacted(at) | Fate::Deleted(at) => Some(*at),
        }
    }
}

impl MissedWhy {
    pub(super) fn at(&self) -> Moment {
        match self {
            MissedWhy::Committed { at, .. } => *at,
            MissedWhy::Removed(start) => start.at,
        }
    }
}

impl Seen {
    /// When the group came to what is counted of it and this record.
    pub(super) fn came_to(&self, count: GroupCount, record: &Record) -> Moment {
        let processed = |nth: usize| self.processings.get(nth).map(|processing| processing.at);
        let delivered = || self.delivered_at.as_ref().map(|(at, _)| *at);
        let result = |nth: usize| self.results.get(nth).map(|result| result.at);
        let at = match count {
            GroupCount::Delivered | GroupCount::InHand | GroupCount::Stuck => delivered(),
            GroupCount::Processed | GroupCount::OutOfOrder => processed(0),
            GroupCount::ProcessedTwice => processed(1),
            GroupCount::WithResult => result(0),
            GroupCount::WithResults => result(1),
            GroupCount::Missed | GroupCount::Waiting => None,
        };
        at.unwrap_or(record.made)
    }
}
