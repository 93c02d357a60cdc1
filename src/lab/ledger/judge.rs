//! What a record has come to, by what is known of it now.
//!
//! **Invariant:** a record has one fate; a group has missed a record or will still meet it, never both.

use super::group::{Progress, Stuck};
use super::partition::{Partition, Start};
use super::record::{Answer, Batch, Copy, Gone, GoneWhy, Moment, Outcome, Record, Told, Transaction};
use super::{Ledger, Seen};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{ClientName, GroupId, Offset, TopicPartition};

/// What became of a record in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not stored, and nobody was told anything; it may come yet.
    Underway,
    /// It is in the partition.
    Stored,
    /// The application was told that it is not written, and it is not there.
    Failed(ErrorCode),
    /// The application takes it for written, and it is not there.
    Lost(LostWhy),
    /// Retention or DeleteRecords took it away.
    Removed(Start),
    /// The cleaner dropped it: its key has a newer one, or its transaction was aborted.
    Compacted(Moment),
    /// It went with its topic.
    Deleted(Moment),
}

/// Why a record is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// It was stored.
    Gone(Gone),
    /// With acks=0 nobody says that a broker did not take it.
    Refused(Moment, ErrorCode),
    /// With acks=0 nobody says that it never arrived.
    ConnectionLost(Moment),
}

/// Who sees a record that is in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    /// It is at or above the high watermark, or not there.
    ToNobody,
    /// Not who reads committed data: its transaction is open or aborted, or it stands behind one that is open.
    ToReadUncommitted,
    ToAll,
}

/// A record, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub fate: Fate,
    /// Where it is in the partition; more than one if it was stored twice.
    pub offsets: Vec<Offset>,
    /// It was told to be written.
    pub acknowledged: bool,
    /// It is there although the application was told an error.
    pub failed_yet_stored: bool,
    /// One that was made later stands before it.
    pub reordered: bool,
    /// What became of its transaction, if it is in its partition and of one.
    pub transaction: Option<Transaction>,
    pub visible: Visible,
    /// The groups that should read it, and have not and will not.
    pub missed: Vec<Missed>,
    /// The groups that it will come to, for the first time or again.
    pub waiting: Vec<GroupId>,
}

/// A group that has not processed a record and will not, as things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    pub group: GroupId,
    pub why: MissedWhy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissedWhy {
    /// The group's position was committed past it, and nobody has it in hand.
    Committed { at: Moment, by: ClientName, was_delivered: bool },
    /// It was removed before anybody of the group had processed it.
    Removed(Start),
}

impl Ledger {
    /// What the record of this batch has come to.
    pub fn judge(&self, batch: &Batch, record: &Record) -> Verdict {
        self.judge_at(batch, batch.index_of(record), record, &self.ends(&batch.tp))
    }

    /// Where what is committed ends in a partition.
    pub fn ends(&self, tp: &TopicPartition) -> Ends {
        let ends = |partition: &Partition| Ends {
            high: partition.high_watermark,
            stable: partition.last_stable_offset(),
        };
        self.partitions.get(tp).map(ends).unwrap_or_default()
    }

    pub(super) fn judge_at(&self, batch: &Batch, index: i64, record: &Record, ends: &Ends) -> Verdict {
        let partition = self.partitions.get(&batch.tp);
        let removal = |offset| partition.and_then(|partition| partition.removal(offset)).copied();
        let compacted = |offset: &Offset| record.cleaned.iter().find(|(at, _)| at == offset);
        let all: Vec<Offset> = batch.in_place().map(|copy| copy.base + index).collect();
        let placed: Vec<Offset> = all.iter().copied().filter(|offset| compacted(offset).is_none()).collect();
        let offsets: Vec<Offset> =
            placed.iter().copied().filter(|offset| removal(*offset).is_none()).collect();
        let removed = placed.first().and_then(|offset| removal(*offset));
        let fate = match (offsets.is_empty(), removed, all.first().and_then(compacted)) {
            (false, ..) => Fate::Stored,
            (true, Some(start), _) => Fate::Removed(start),
            (true, None, Some((_, at))) => Fate::Compacted(*at),
            (true, None, None) => absent(batch),
        };
        let acknowledged = batch.told.is_success();
        let failed_yet_stored = matches!(batch.told, Told::Error { .. }) && fate == Fate::Stored;
        let transaction = batch.in_place().next().and_then(|copy| self.transaction(batch, copy));
        let is_for_all = matches!(transaction, None | Some(Transaction::Ended { committed: true, .. }));
        let visible = match offsets.first() {
            Some(offset) if *offset < ends.stable && is_for_all => Visible::ToAll,
            Some(offset) if *offset < ends.high => Visible::ToReadUncommitted,
            _ => Visible::ToNobody,
        };
        let mut verdict = Verdict {
            reordered: fate == Fate::Stored && self.is_overtaken(batch),
            fate,
            offsets,
            acknowledged,
            failed_yet_stored,
            transaction,
            visible,
            missed: Vec::new(),
            waiting: Vec::new(),
        };
        if let Some(offset) = placed.first().filter(|_| is_for_all) {
            self.judge_groups(batch, record, *offset, removed, &mut verdict);
        }
        verdict
    }

    /// What became of the transaction of a copy that is in place.
    fn transaction(&self, batch: &Batch, copy: &Copy) -> Option<Transaction> {
        let markers = self.partitions.get(&batch.tp)?.markers();
        copy.is_transactional.then(|| match markers.decides(copy.producer, copy.base) {
            Some(marker) => Transaction::Ended { at: marker.at, committed: marker.committed },
            None => Transaction::Open,
        })
    }

    /// How many records that an application of this group has made of it are there, for who reads committed data.
    pub fn results_of(&self, seen: &Seen) -> i64 {
        let is_there = |result: &&Outcome| {
            let found = self.batch(result.batch).and_then(|batch| {
                let record = batch.records.iter().find(|record| record.number == result.number)?;
                Some(self.judge(batch, record))
            });
            found.is_some_and(|verdict| verdict.visible == Visible::ToAll)
        };
        seen.results.iter().filter(is_there).count() as i64
    }

    fn is_overtaken(&self, batch: &Batch) -> bool {
        let Some(other) = batch.overtaken_by.and_then(|number| self.batch(number)) else { return false };
        let (Some(own), Some(first)) = (batch.in_place().next(), other.in_place().next()) else {
            return false;
        };
        first.base < own.base
    }

    /// What it has come to for each group that reads its partition.
    fn judge_groups(
        &self,
        batch: &Batch,
        record: &Record,
        offset: Offset,
        removed: Option<Start>,
        verdict: &mut Verdict,
    ) {
        for (group, partitions) in &self.groups {
            let Some(progress) = partitions.get(&batch.tp) else { continue };
            let seen = record.seen.iter().find(|seen| seen.group == *group);
            let begun = progress.begun.is_some_and(|begun| begun <= offset);
            let is_done = seen.is_some_and(|seen| seen.processed > 0 || self.holder(seen).is_some());
            if !begun || is_done {
                continue;
            }
            match missed_by(progress, seen, offset, removed) {
                Some(why) => verdict.missed.push(Missed { group: group.clone(), why }),
                None if verdict.visible == Visible::ToAll && !progress.is_shared => {
                    verdict.waiting.push(group.clone());
                }
                None => {}
            }
        }
    }

    /// The client that has it in hand, lives, and may still finish it.
    pub fn holder(&self, seen: &Seen) -> Option<Holder<'_>> {
        let node = seen.in_hand?;
        let reader = self.readers.get(&node).filter(|reader| reader.ended.is_none())?;
        let (since, client) = seen.delivered_at.as_ref()?;
        Some(Holder { client: client.clone(), since: *since, stuck: reader.stuck.as_ref() })
    }
}

/// Why a group that has begun, and of which nobody is done with the record, will not be.
fn missed_by(
    progress: &Progress,
    seen: Option<&Seen>,
    offset: Offset,
    removed: Option<Start>,
) -> Option<MissedWhy> {
    let past = progress.committed.as_ref().filter(|commit| commit.offset > offset);
    let was_delivered = seen.is_some_and(|seen| seen.delivered > 0);
    match (past, removed) {
        (Some(commit), None) => {
            let first = seen.and_then(|seen| seen.passed.clone());
            let (at, by) = first.unwrap_or_else(|| (commit.at, commit.by.clone()));
            Some(MissedWhy::Committed { at, by, was_delivered })
        }
        (_, Some(start)) => Some(MissedWhy::Removed(start)),
        (None, None) => None,
    }
}

/// Who has a record in hand, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    pub client: ClientName,
    pub since: Moment,
    /// It does not go on.
    pub stuck: Option<&'a Stuck>,
}

/// Where what readers may see ends in a partition: the high watermark, and the last stable offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub high: Offset,
    pub stable: Offset,
}

/// What a record is that is not in its partition.
impl Batch {
    /// Somebody takes its records for written, and they are not there.
    pub(super) fn is_lost(&self) -> bool {
        !self.records.is_empty() && self.in_place().next().is_none() && matches!(absent(self), Fate::Lost(_))
    }
}

fn absent(batch: &Batch) -> Fate {
    let gone = batch.copies.iter().rev().find_map(|copy| copy.gone);
    match (gone, batch.told) {
        (Some(Gone { at, why: GoneWhy::TopicDeleted }), _) => Fate::Deleted(at),
        (_, Told::Error { error, .. }) => Fate::Failed(error),
        (_, Told::Nothing) => Fate::Underway,
        (Some(gone), _) => Fate::Lost(LostWhy::Gone(gone)),
        (None, _) => match batch.sends.last().map(|sent| sent.answer) {
            Some(Answer::Refused(at, error)) => Fate::Lost(LostWhy::Refused(at, error)),
            Some(Answer::ConnectionLost(at)) => Fate::Lost(LostWhy::ConnectionLost(at)),
            _ => Fate::Underway,
        },
    }
}
