//! What the share coordinator is asked of one share partition, and what it answers (`ShareCoordinatorShard`).
//!
//! **Invariant:** an answer is decided from the state alone; what is to be written is part of it.

use super::super::key::ShareKey;
use super::super::state::StateBatch;
use super::combine::combine;
use super::state::{Change, ShareRecord, ShareState, States, Tracked, Update};
use crate::kafka::protocol::ErrorCode;
use crate::kafka::time::Time;
use crate::kafka::types::{LeaderEpoch, Offset};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The state begins anew; without a start its leader will choose one.
    Initialize {
        state_epoch: i32,
        start_offset: Option<Offset>,
    },
    /// A leader reads the state, and older leaders are refused from now on.
    Read {
        leader_epoch: LeaderEpoch,
    },
    Write(Written),
    ReadSummary,
    Delete,
}

/// What a leader wants persisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub state_epoch: i32,
    pub leader_epoch: LeaderEpoch,
    /// Nothing if it stays.
    pub start_offset: Option<Offset>,
    pub delivery_complete_count: Option<i32>,
    pub batches: Vec<StateBatch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    State { state_epoch: i32, start_offset: Option<Offset>, batches: Vec<StateBatch> },
    Summary(Summary),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub state_epoch: i32,
    pub leader_epoch: LeaderEpoch,
    pub start_offset: Option<Offset>,
    pub delivery_complete_count: Option<i32>,
}

impl Summary {
    /// Of a state that has not begun.
    pub const NONE: Summary = Summary {
        state_epoch: 0,
        leader_epoch: LeaderEpoch(0),
        start_offset: None,
        delivery_complete_count: None,
    };
}

/// What is known around an ask.
pub(super) struct Circumstances<'a> {
    pub now: Time,
    /// `share.coordinator.snapshot.update.records.per.snapshot`.
    pub updates_per_snapshot: i32,
    /// Whether a partition exists.
    pub exists: &'a dyn Fn(&ShareKey) -> bool,
}

/// The answer, and the record that must be written before it is given.
type Decision = Result<(Answer, Option<ShareRecord>), ErrorCode>;

/// Decides an ask. Kafka looks at epochs before it looks whether the topic exists.
pub(super) fn decide(key: &ShareKey, ask: &Ask, states: &States, cx: &Circumstances<'_>) -> Decision {
    if key.partition < 0 {
        return Err(ErrorCode::InvalidRequest);
    }
    let known = states.get(key);
    match ask {
        Ask::Initialize { state_epoch, .. } => check_state_epoch(known, *state_epoch)?,
        Ask::Read { leader_epoch } => {
            check_leader_epoch(known.ok_or(ErrorCode::InvalidRequest)?, *leader_epoch)?
        }
        Ask::Write(written) => {
            let known = known.ok_or(ErrorCode::InvalidRequest)?;
            check_leader_epoch(known, written.leader_epoch)?;
            check_state_epoch(Some(known), written.state_epoch)?;
        }
        Ask::ReadSummary | Ask::Delete => {}
    }
    if !(cx.exists)(key) {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    let record = |change| Some(ShareRecord { key: key.clone(), change });
    match (ask, known) {
        (Ask::Initialize { state_epoch, start_offset }, known) => {
            let state = beginning(known, *state_epoch, *start_offset, cx);
            Ok((Answer::Done, record(Change::Snapshot(state))))
        }
        (Ask::Read { leader_epoch }, Some(known)) => {
            Ok((as_read(&known.state), read_change(known, *leader_epoch, cx).and_then(record)))
        }
        (Ask::Write(written), Some(known)) => {
            Ok((Answer::Done, record(next_change(known, written, known.state.leader_epoch, cx))))
        }
        (Ask::Read { .. } | Ask::Write(_), None) => Err(ErrorCode::InvalidRequest),
        (Ask::ReadSummary, known) => Ok((Answer::Summary(summary(known)), None)),
        (Ask::Delete, known) => Ok((Answer::Done, known.and_then(|_| record(Change::Deleted)))),
    }
}

fn check_leader_epoch(known: &Tracked, leader_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
    let is_old = leader_epoch != LeaderEpoch::NONE && known.highest_leader_epoch > leader_epoch;
    if is_old { Err(ErrorCode::FencedLeaderEpoch) } else { Ok(()) }
}

fn check_state_epoch(known: Option<&Tracked>, state_epoch: i32) -> Result<(), ErrorCode> {
    let is_old = known.is_some_and(|known| state_epoch != -1 && known.highest_state_epoch > state_epoch);
    if is_old { Err(ErrorCode::FencedStateEpoch) } else { Ok(()) }
}

fn beginning(
    known: Option<&Tracked>,
    state_epoch: i32,
    start_offset: Option<Offset>,
    cx: &Circumstances<'_>,
) -> ShareState {
    let now_ms = cx.now.wall_ms();
    ShareState {
        snapshot_epoch: known.map_or(0, |known| known.state.snapshot_epoch + 1),
        state_epoch,
        leader_epoch: LeaderEpoch(0),
        start_offset,
        // The lag can be told from a start that was chosen, and from no other.
        delivery_complete_count: start_offset.map(|_| 0),
        create_timestamp_ms: now_ms,
        write_timestamp_ms: now_ms,
        batches: Vec::new(),
    }
}

fn as_read(state: &ShareState) -> Answer {
    Answer::State {
        state_epoch: state.state_epoch,
        start_offset: state.start_offset,
        batches: state.batches.clone(),
    }
}

/// A leader that is new to the coordinator is written down.
fn read_change(known: &Tracked, leader_epoch: LeaderEpoch, cx: &Circumstances<'_>) -> Option<Change> {
    if leader_epoch == LeaderEpoch::NONE || known.highest_leader_epoch == leader_epoch {
        return None;
    }
    let unchanged = Written {
        state_epoch: known.state.state_epoch,
        leader_epoch,
        start_offset: known.state.start_offset,
        delivery_complete_count: known.state.delivery_complete_count,
        batches: Vec::new(),
    };
    Some(next_change(known, &unchanged, leader_epoch, cx))
}

/// An update, or a snapshot after many of them (`generateShareStateRecord`).
fn next_change(
    known: &Tracked,
    written: &Written,
    leader_epoch: LeaderEpoch,
    cx: &Circumstances<'_>,
) -> Change {
    let state = &known.state;
    if known.updates < cx.updates_per_snapshot {
        return Change::Update(Update {
            snapshot_epoch: state.snapshot_epoch,
            leader_epoch,
            start_offset: written.start_offset,
            delivery_complete_count: written.delivery_complete_count,
            batches: combine(&[], &written.batches, written.start_offset),
        });
    }
    let start_offset = written.start_offset.or(state.start_offset);
    let now_ms = cx.now.wall_ms();
    Change::Snapshot(ShareState {
        snapshot_epoch: state.snapshot_epoch + 1,
        state_epoch: state.state_epoch,
        leader_epoch,
        start_offset,
        delivery_complete_count: written.delivery_complete_count,
        create_timestamp_ms: now_ms,
        write_timestamp_ms: now_ms,
        batches: combine(&state.batches, &written.batches, start_offset),
    })
}

fn summary(known: Option<&Tracked>) -> Summary {
    match known.map(|known| &known.state) {
        Some(state) => Summary {
            state_epoch: state.state_epoch,
            leader_epoch: state.leader_epoch,
            start_offset: state.start_offset,
            delivery_complete_count: state.delivery_complete_count,
        },
        None => Summary::NONE,
    }
}

/// Snapshots of share partitions that were not written as a whole for long (`snapshotColdPartitions`).
pub(super) fn cold_snapshots(states: &States, now: Time, interval_ms: i64) -> Vec<ShareRecord> {
    let is_touched =
        |tracked: &Tracked| tracked.state.create_timestamp_ms == tracked.state.write_timestamp_ms;
    if !states.iter().any(|(_, tracked)| is_touched(tracked)) {
        return Vec::new();
    }
    let now_ms = now.wall_ms();
    let cold = states.iter().filter(|(_, tracked)| now_ms - tracked.state.write_timestamp_ms >= interval_ms);
    cold.map(|(key, tracked)| {
        let snapshot_epoch = tracked.state.snapshot_epoch + 1;
        let state = ShareState { snapshot_epoch, write_timestamp_ms: now_ms, ..tracked.state.clone() };
        ShareRecord { key: key.clone(), change: Change::Snapshot(state) }
    })
    .collect()
}
