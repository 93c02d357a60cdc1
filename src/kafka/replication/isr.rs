//! The in-sync set as the leader sees it: committed by the controller, or on its way there (`PartitionState`).
//!
//! **Invariant:** `maximal` holds every replica that the controller may count as in sync right now.

use crate::kafka::plant::{self, Plant};
use crate::kafka::types::BrokerId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsrState {
    Committed(Vec<BrokerId>),
    /// The controller was asked to add `added`; the high watermark waits for it already (R-REPL-23).
    PendingExpand {
        isr: Vec<BrokerId>,
        added: BrokerId,
    },
    /// The controller was asked to drop `out_of_sync`; until it has, they still count (R-REPL-22).
    PendingShrink {
        isr: Vec<BrokerId>,
        out_of_sync: Vec<BrokerId>,
    },
}

impl IsrState {
    /// What the controller last confirmed.
    pub fn committed(&self) -> &[BrokerId] {
        match self {
            IsrState::Committed(isr)
            | IsrState::PendingExpand { isr, .. }
            | IsrState::PendingShrink { isr, .. } => isr,
        }
    }

    /// Whether the high watermark has to respect `replica`.
    pub fn maximal_contains(&self, replica: BrokerId) -> bool {
        if plant::is(Plant::FencedLeaderCommits)
            && let IsrState::PendingShrink { out_of_sync, .. } = self
            && out_of_sync.contains(&replica)
        {
            return false;
        }
        let joining = matches!(self, IsrState::PendingExpand { added, .. } if *added == replica);
        joining || self.committed().contains(&replica)
    }

    pub fn maximal_len(&self) -> i32 {
        let joining = matches!(self, IsrState::PendingExpand { .. });
        self.committed().len() as i32 + i32::from(joining)
    }

    /// A request to the controller is on its way.
    pub fn is_in_flight(&self) -> bool {
        !matches!(self, IsrState::Committed(_))
    }

    /// The set that the controller is, or would be, asked for, by id.
    pub fn wanted(&self) -> Vec<BrokerId> {
        let mut wanted: Vec<BrokerId> = match self {
            IsrState::Committed(isr) => isr.clone(),
            IsrState::PendingExpand { isr, added } => isr.iter().copied().chain([*added]).collect(),
            IsrState::PendingShrink { isr, out_of_sync } => {
                isr.iter().copied().filter(|id| !out_of_sync.contains(id)).collect()
            }
        };
        wanted.sort();
        wanted
    }

    /// Gives the request up: back to what was committed.
    pub fn revert(&mut self) {
        *self = IsrState::Committed(self.committed().to_vec());
    }
}
