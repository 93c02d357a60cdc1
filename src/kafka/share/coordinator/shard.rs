//! One partition of `__share_group_state` at its leader (`CoordinatorRuntime` with `ShareCoordinatorShard`).
//!
//! **Invariant:** an answer is given when all that it rests on is below the high watermark, or when it failed.

use std::collections::VecDeque;

use super::ask::{Answer, Ask, Circumstances, cold_snapshots, decide};
use super::state::{Change, ShareRecord, States};
use super::{Append, Context, ShareTimer};
use crate::kafka::effects::RequestId;
use crate::kafka::group::coordinator_error;
use crate::kafka::plant::{self, Plant};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::types::{LeaderEpoch, Offset};

use super::super::key::ShareKey;

/// Which part of which request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub id: RequestId,
    pub index: i32,
}

pub(super) type Outcome = Result<Answer, ErrorCode>;

/// Records on their way, and the answers that wait for them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    token: u64,
    /// Nothing before the log has taken them.
    last_offset: Option<Offset>,
    records: Vec<ShareRecord>,
    answers: Vec<(Place, Outcome)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) is_loading: bool,
    /// With what is not committed yet.
    newest: States,
    committed: States,
    waiting: VecDeque<Waiting>,
    tokens: u64,
    /// Where the log begins by a deletion of needless records.
    pruned_before: Option<Offset>,
}

impl Shard {
    pub(super) fn new(leader_epoch: LeaderEpoch) -> Shard {
        Shard {
            leader_epoch,
            is_loading: true,
            newest: States::default(),
            committed: States::default(),
            waiting: VecDeque::new(),
            tokens: 0,
            pruned_before: None,
        }
    }

    /// What is known for sure.
    pub fn states(&self) -> &States {
        &self.committed
    }

    /// Decides asks in their order; what they write is one batch.
    pub(super) fn ask(&mut self, asks: Vec<(Place, ShareKey, Ask)>, cx: &mut Context<'_>) {
        let mut records = Vec::new();
        let mut answers = Vec::new();
        for (place, key, ask) in asks {
            let states = if ask == Ask::ReadSummary { &self.committed } else { &self.newest };
            let updates_per_snapshot = cx.config.snapshot_update_records_per_snapshot;
            let around = Circumstances { now: cx.now, updates_per_snapshot, exists: cx.exists };
            match decide(&key, &ask, states, &around) {
                Ok((answer, record)) if ask == Ask::ReadSummary => {
                    debug_assert!(record.is_none());
                    cx.answer(place, Ok(answer));
                }
                Ok((answer, record)) => {
                    records
                        .extend(record.inspect(|record| {
                            self.newest.replay(record, Offset::ZERO, updates_per_snapshot)
                        }));
                    answers.push((place, Ok(answer)));
                }
                Err(error) => answers.push((place, Err(error))),
            }
        }
        self.submit(records, answers, cx);
    }

    /// Writes records; without any, the answers wait for what is being written.
    fn submit(&mut self, records: Vec<ShareRecord>, answers: Vec<(Place, Outcome)>, cx: &mut Context<'_>) {
        if !records.is_empty() {
            self.tokens += 1;
            let token = self.tokens;
            let encoded = records.iter().map(ShareRecord::encode).collect();
            cx.fx.appends.push(Append { partition: cx.partition, token, records: encoded });
            let timer = ShareTimer::Write { partition: cx.partition, token };
            cx.fx.effects.set_timer(timer, cx.now.plus_ms(cx.config.write_timeout_ms));
            self.waiting.push_back(Waiting { token, last_offset: None, records, answers });
        } else if let Some(last) = self.waiting.back_mut() {
            last.answers.extend(answers);
        } else {
            answers.into_iter().for_each(|(place, outcome)| cx.answer(place, outcome));
        }
    }

    pub(super) fn on_appended(&mut self, token: u64, last_offset: Offset) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.token == token) {
            waiting.last_offset = Some(last_offset);
        }
    }

    pub(super) fn on_append_failed(&mut self, token: u64, error: ErrorCode, cx: &mut Context<'_>) {
        let Some(place) = self.waiting.iter().position(|waiting| waiting.token == token) else { return };
        let failed = self.waiting.remove(place).into_iter();
        self.newest = self.committed.clone();
        for record in self.waiting.iter().flat_map(|waiting| &waiting.records) {
            self.newest.replay(record, Offset::ZERO, cx.config.snapshot_update_records_per_snapshot);
        }
        cx.fx.effects.cancel_timer(ShareTimer::Write { partition: cx.partition, token });
        for (place, _) in failed.flat_map(|failed| failed.answers) {
            cx.answer(place, Err(coordinator_error(error)));
        }
    }

    pub(super) fn on_high_watermark(&mut self, high_watermark: Offset, cx: &mut Context<'_>) {
        let is_committed = |waiting: &Waiting| waiting.last_offset.is_some_and(|last| last < high_watermark);
        while let Some(done) = self.waiting.pop_front_if(|waiting| is_committed(waiting)) {
            let last_offset = done.last_offset.expect("it is below the high watermark");
            let first = Offset(last_offset.0 - (done.records.len() as i64 - 1));
            for (record, place) in done.records.iter().zip(0..) {
                self.committed.replay(record, first + place, cx.config.snapshot_update_records_per_snapshot);
            }
            cx.fx.effects.cancel_timer(ShareTimer::Write { partition: cx.partition, token: done.token });
            done.answers.into_iter().for_each(|(place, outcome)| cx.answer(place, outcome));
        }
    }

    /// A write has taken `share.coordinator.write.timeout.ms`. It may still succeed, but nobody waits for it any more.
    pub(super) fn on_write_timeout(&mut self, token: u64, cx: &mut Context<'_>) {
        let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.token == token) else { return };
        for (place, _) in std::mem::take(&mut waiting.answers) {
            cx.answer(place, Err(coordinator_error(ErrorCode::RequestTimedOut)));
        }
    }

    /// What the log holds, each record with its offset; what is at or above the high watermark is not committed.
    pub(super) fn on_loaded(
        &mut self,
        records: Vec<(Offset, ShareRecord)>,
        high_watermark: Offset,
        cx: &mut Context<'_>,
    ) {
        let updates_per_snapshot = cx.config.snapshot_update_records_per_snapshot;
        for (offset, record) in records {
            if matches!(record.change, Change::Update(_)) && plant::is(Plant::ShareUpdatesNotLoaded) {
                continue;
            }
            self.newest.replay(&record, offset, updates_per_snapshot);
            if offset < high_watermark {
                self.committed.replay(&record, offset, updates_per_snapshot);
                continue;
            }
            self.tokens += 1;
            self.waiting.push_back(Waiting {
                token: self.tokens,
                last_offset: Some(offset),
                records: vec![record],
                answers: Vec::new(),
            });
        }
        self.is_loading = false;
    }

    pub(super) fn on_resigned(self, cx: &mut Context<'_>) {
        for waiting in self.waiting {
            cx.fx.effects.cancel_timer(ShareTimer::Write { partition: cx.partition, token: waiting.token });
            for (place, _) in waiting.answers {
                cx.answer(place, Err(ErrorCode::NotCoordinator));
            }
        }
    }

    /// From where on the log is needed, if less of it is than when it was last pruned.
    pub(super) fn prunable_before(&self) -> Option<Offset> {
        self.committed.redundant_before().filter(|offset| Some(*offset) != self.pruned_before)
    }

    pub(super) fn on_pruned(&mut self, before: Offset) {
        self.pruned_before = Some(before);
    }

    /// `maybeCleanupShareState`.
    pub(super) fn forget(&mut self, is_gone: impl Fn(&ShareKey) -> bool, cx: &mut Context<'_>) {
        let gone = self.newest.iter().map(|(key, _)| key).filter(|key| is_gone(key));
        let records: Vec<_> =
            gone.map(|key| ShareRecord { key: key.clone(), change: Change::Deleted }).collect();
        self.write(records, cx);
    }

    /// `snapshotColdPartitions`.
    pub(super) fn write_cold_snapshots(&mut self, cx: &mut Context<'_>) {
        let records = cold_snapshots(&self.newest, cx.now, cx.config.cold_partition_snapshot_interval_ms);
        self.write(records, cx);
    }

    fn write(&mut self, records: Vec<ShareRecord>, cx: &mut Context<'_>) {
        for record in &records {
            self.newest.replay(record, Offset::ZERO, cx.config.snapshot_update_records_per_snapshot);
        }
        self.submit(records, Vec::new(), cx);
    }
}
