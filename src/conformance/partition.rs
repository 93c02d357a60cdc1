//! A partition's state as the recordings of the controller write it.

use serde::Deserialize;

use crate::kafka::controller::image::PartitionRegistration;
use crate::kafka::protocol::metadata_records::RecoveryState;
use crate::kafka::types::{BrokerId, LeaderEpoch, PartitionEpoch};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub replicas: Vec<i32>,
    pub isr: Vec<i32>,
    pub elr: Vec<i32>,
    pub last_known_elr: Vec<i32>,
    pub leader: i32,
    pub leader_epoch: i32,
    pub partition_epoch: i32,
    pub recovery: Recovery,
    pub adding: Vec<i32>,
    pub removing: Vec<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Recovery {
    Recovered,
    Recovering,
}

impl State {
    pub fn registration(&self) -> PartitionRegistration {
        let ids = |list: &[i32]| list.iter().copied().map(BrokerId).collect();
        PartitionRegistration {
            replicas: ids(&self.replicas),
            isr: ids(&self.isr),
            elr: ids(&self.elr),
            last_known_elr: ids(&self.last_known_elr),
            removing: ids(&self.removing),
            adding: ids(&self.adding),
            leader: BrokerId(self.leader),
            recovery: match self.recovery {
                Recovery::Recovered => RecoveryState::Recovered,
                Recovery::Recovering => RecoveryState::Recovering,
            },
            leader_epoch: LeaderEpoch(self.leader_epoch),
            partition_epoch: PartitionEpoch(self.partition_epoch),
        }
    }

    pub fn of(partition: &PartitionRegistration) -> State {
        let ids = |list: &[BrokerId]| list.iter().map(|id| id.0).collect();
        State {
            replicas: ids(&partition.replicas),
            isr: ids(&partition.isr),
            elr: ids(&partition.elr),
            last_known_elr: ids(&partition.last_known_elr),
            leader: partition.leader.0,
            leader_epoch: partition.leader_epoch.0,
            partition_epoch: partition.partition_epoch.0,
            recovery: match partition.recovery {
                RecoveryState::Recovered => Recovery::Recovered,
                RecoveryState::Recovering => Recovery::Recovering,
            },
            adding: ids(&partition.adding),
            removing: ids(&partition.removing),
        }
    }
}
