//! What events name requests and records by.

use crate::kafka::effects::RequestId;
use crate::kafka::types::{LeaderEpoch, NodeId, Offset};

/// A request by who sent it and its number there: no two of a process are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestMark {
    pub from: NodeId,
    pub correlation: i32,
}

impl From<RequestId> for RequestMark {
    fn from(id: RequestId) -> RequestMark {
        RequestMark { from: id.from, correlation: id.correlation }
    }
}

/// Records `[from, to)`, with nothing between them, that were written in one leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetRun {
    pub epoch: LeaderEpoch,
    pub from: Offset,
    pub to: Offset,
}

impl OffsetRun {
    /// Records in order, as runs.
    pub fn of(records: impl Iterator<Item = (LeaderEpoch, Offset)>) -> Vec<OffsetRun> {
        let mut runs: Vec<OffsetRun> = Vec::new();
        for (epoch, offset) in records {
            match runs.last_mut() {
                Some(run) if run.to == offset && run.epoch == epoch => run.to = offset + 1,
                _ => runs.push(OffsetRun { epoch, from: offset, to: offset + 1 }),
            }
        }
        runs
    }
}
